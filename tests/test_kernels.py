"""The contract of every kernel: each check on every registered kernel and on a fixed sample of composites."""

import hashlib
import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import clone

import wrong_kernels as wrong
from cases import DTYPES, LEAVES, OPERATORS, Case, close, error_of, frozen_array, kernel_cases, orthogonal_array, take
from mercer import kernels as mk
from mercer.errors import NotDifferentiableError
from mercer.gram import gram
from mercer.kernels import Kernel
from mercer.kernels.distance import SquaredKernelDistance
from mercer.kernels.parameters import specs
from mercer.registry import KERNELS

ENGINES = ("reference", "cpu")
USERS = (mk.Pairwise, mk.Blockwise, mk.Basis, mk.Warp, mk.Times, mk.Series, mk.LatentMonteCarlo)  # these hold functions


# ---------------------------------------------------------------------------------------------- numbers
def check_symmetry(case, engine, dtype):
    X = case.X(dtype)
    across = gram(case.kernel, X, take(X, np.arange(len(X))), engine=engine).dense()
    close(across, across.T, case.tolerance("block", dtype))
    K = case.gram(engine, dtype).dense()
    assert np.array_equal(K, K.T)


def check_certificate(case, engine, dtype):
    validity = case.kernel.resolve(case.X()).validity
    if not validity.satisfies("cpd"):
        return
    K = case.gram(engine, dtype).dense().astype(np.float64)
    if validity.kind == "cpd":
        P = _complement_of_polynomials(case.X(dtype), validity.order)
        K = P.T @ K @ P
    smallest = np.linalg.eigvalsh(K).min()
    assert smallest >= -len(K) * case.tolerance("eigenvalue", dtype) * np.abs(K).max(), f"eigenvalue {smallest:g}"


def _complement_of_polynomials(X, order):
    """Basis of the vectors orthogonal to all polynomials of degree < order on the rows."""
    columns = np.ones((len(X), 1)) if order == 1 else np.column_stack([np.ones(len(X)), X])
    return scipy.linalg.null_space(columns.T)


def check_diagonal(case, engine, dtype):
    K = case.gram(engine, dtype)
    diagonal = K.diag()
    assert diagonal.dtype == K.dtype
    close(diagonal, np.diagonal(K.dense()), case.tolerance("block", dtype))


def check_blocks(case, engine, dtype):
    """A part of the Gram is the Gram of parts."""
    rows, columns = np.array([4, 0, 7, 7]), np.array([8, 2, 3])
    K, C = case.gram(engine, dtype), case.gram(engine, dtype, cross=True)
    tolerance = case.tolerance("block", dtype)
    close(C.block(rows, columns), C.dense()[np.ix_(rows, columns)], tolerance)
    close(K.rows(rows), K.dense()[rows], tolerance)
    close(K[2:6].dense(), K.dense()[2:6], tolerance)
    parts = gram(C.kernel, take(case.X(dtype), rows), take(case.Y(dtype), columns), engine=engine)
    close(parts.dense(), C.dense()[np.ix_(rows, columns)], tolerance)


def check_joint(case, engine, dtype):
    """k(X, Y) is a block of the Gram of both sets of rows."""
    X, Y = case.X(dtype), case.Y(dtype)
    C = case.gram(engine, dtype, cross=True)
    both = np.concatenate([X, Y]) if case.vectors else [*X, *Y]
    joint = gram(C.kernel, both, engine=engine).dense()
    close(joint[: len(X), len(X) :], C.dense(), case.tolerance("block", dtype))


def check_precision(case, engine, dtype):
    """The result has the precision of the rows, float64 where they are not numbers; float32 is close to float64."""
    exact = case.gram(engine, "float64", cross=True).dense()
    for precision in DTYPES:
        expected = precision if case.vectors else "float64"
        C = case.gram(engine, precision, cross=True)
        assert C.dense().dtype == C.dtype == case.gram(engine, precision).dense().dtype == expected
        close(C.dense(), exact, case.tolerance("float32 against float64", precision))


def check_input_untouched(case, engine, dtype):
    if not case.vectors:
        return
    X, Y = case.X(dtype).copy(), case.Y(dtype).copy()
    before = _hash(X), _hash(Y)
    C = gram(case.kernel, X, Y, engine=engine)
    C.dense(), C.diag(), C @ np.ones(len(Y))
    assert (_hash(X), _hash(Y)) == before
    assert X.flags.writeable


def _hash(A):
    return hashlib.sha256(A.tobytes()).hexdigest()


def check_layouts(case, engine, dtype):
    """Read-only, strided, Fortran and reversed rows give what contiguous ones give."""
    if not case.vectors:
        return
    X = case.X(dtype).copy()
    expected = gram(case.kernel, X, engine=engine).dense()
    wide = np.zeros((2 * len(X), 2 * X.shape[1]), dtype)
    wide[::2, ::2] = X
    layouts = {
        "read-only": frozen_array(X.copy()),
        "strided": wide[::2, ::2],
        "Fortran": np.asfortranarray(X),
        "reversed": X[::-1].copy()[::-1],
        "reversed columns": X[:, ::-1].copy()[:, ::-1],
    }
    for name, rows in layouts.items():
        assert np.array_equal(rows, X)
        close(gram(case.kernel, rows, engine=engine).dense(), expected, case.tolerance("block", dtype), name)


# ---------------------------------------------------------------------------------------------- gradients
def check_gradient(case, engine, dtype):
    """The gradient in each parameter against finite differences; the rows hold duplicates."""
    for cross in (True, False):
        K = case.gram(engine, dtype, cross)
        U, V = _factors(K.shape)
        found = K.pullback(U @ V.T)
        assert set(found) == set(K.kernel.differentiable)
        for name, value in K.pullback((U, V)).items():
            close(value, found[name], case.tolerance("gradient", dtype), name)
        for name, value in found.items():
            expected = _parameter_differences(case, K.kernel, name, U @ V.T, cross)
            close(value, expected, case.tolerance("finite differences", dtype), name)
    v = U[:, 0]
    for name, value in K.pullback_diag(v).items():
        expected = _parameter_differences(case, K.kernel, name, np.diag(v), cross=False)
        close(value, expected, case.tolerance("finite differences", dtype), f"diagonal, {name}")


def _factors(shape):
    rng = np.random.default_rng(1)
    return rng.standard_normal((shape[0], 2)), rng.standard_normal((shape[1], 2))


def _parameter_differences(case, kernel, name, W, cross, h=1e-5):
    value = np.asarray(kernel.get_params()[name], float)
    out = np.zeros(value.shape)

    def total(changed):
        k = kernel.replace(**{name: changed if changed.ndim else float(changed)})
        return (W * gram(k, case.X(), case.Y() if cross else None, engine="reference").dense()).sum()

    for place in np.ndindex(value.shape):
        step = np.zeros(value.shape)
        step[place] = h
        if not np.isfinite(value[place]):
            continue
        if value.ndim == 2:  # a symmetric matrix moves in both places
            step = (step + step.T) / 2
        out[place] = (total(value + step) - total(value - step)) / (2 * h)
    return out


def check_input_gradient(case, engine, dtype):
    """The gradient in the rows against finite differences: finite everywhere, compared where the kernel is smooth."""
    if not case.kernel.differentiable_inputs:
        return
    for cross in (True, False):
        if case.angle and not cross:
            continue  # differences of acos between equal rows are rounding noise
        K = case.gram(engine, dtype, cross)
        W = np.multiply.outer(*(a[:, 0] for a in _factors(K.shape)))
        found = K.pullback_inputs(W)
        assert found.shape == case.X().shape
        assert found.dtype == K.dtype
        assert np.isfinite(found).all()
        smooth = [0, 7, 12] if cross else [2, 7, 12]  # rows without a duplicate on the other side
        expected = _input_differences(case, K.kernel, W, cross, smooth)
        close(found[smooth], expected, case.tolerance("finite differences", dtype), f"cross={cross}")


def _input_differences(case, kernel, W, cross, rows, h=1e-6):
    def total(X):
        return (W * gram(kernel, X, case.Y() if cross else None, engine="reference").dense()).sum()

    out = np.zeros((len(rows), case.X().shape[1]))
    for place in np.ndindex(out.shape):
        step = np.zeros(case.X().shape)
        step[rows[place[0]], place[1]] = h
        out[place] = (total(case.X() + step) - total(case.X() - step)) / (2 * h)
    return out


def check_denied_gradient(case, engine, dtype):
    """Without a gradient in the inputs the error names the leaf."""
    if case.kernel.differentiable_inputs:
        return
    error = error_of(NotDifferentiableError, case.gram(engine, dtype).pullback_inputs)
    assert error is not None, "gave a gradient that it denies"
    words = [type(leaf).__name__ for leaf in case.kernel._leaves] + ["warp(", "times("]
    assert any(word in str(error) for word in words), str(error)


# ---------------------------------------------------------------------------------------------- values
def check_pickle(case, engine, dtype):
    again = pickle.loads(pickle.dumps(case.kernel))
    assert type(again) is type(case.kernel)
    assert again == case.kernel
    assert hash(again) == hash(case.kernel)
    assert np.array_equal(gram(again, case.X()).dense(), case.gram("cpu").dense())


def check_clone(case, engine, dtype):
    assert clone(case.kernel) == case.kernel


def check_repr(case, engine, dtype):
    """What is printed can be typed, unless it holds functions, samples or large arrays."""
    text = repr(case.kernel)
    if "array(" in text or any(isinstance(node, USERS) or _sample(node) for node in _nodes(case.kernel)):
        return
    again = eval(text, {**vars(mk), "inf": np.inf})
    assert repr(again) == text
    assert type(again) is type(case.kernel)
    assert again == case.kernel


def _nodes(kernel):
    yield kernel
    for child in kernel.children:
        yield from _nodes(child)


def _sample(node):
    return getattr(node, "sample", None) is not None


def check_equality(case, engine, dtype):
    twin = _rebuilt(case.kernel)
    assert twin == case.kernel
    assert hash(twin) == hash(case.kernel)
    assert case.kernel != mk.Constant(17.0)
    for name, value in _changeable(case.kernel):
        assert case.kernel.replace(**{name: value}) != case.kernel, name


def _rebuilt(kernel):
    """An equal kernel made from new objects."""
    if not kernel.children:
        return type(kernel)(**{f.name: getattr(kernel, f.name) for f in fields(kernel)})
    return kernel.rebuild(tuple(_rebuilt(child) for child in kernel.children))


def _changeable(kernel):
    """(name, another value) for continuous parameters."""
    values = kernel.get_params()
    for name in kernel.differentiable:
        if not isinstance(values[name], str):
            yield name, (np.asarray(values[name], float) * 0.75 + 0.01).tolist()


def check_parameters(case, engine, dtype):
    k, values = case.kernel, case.kernel.get_params()
    assert k.replace(**values) == k
    for name, value in values.items():
        assert k.replace(**{name: value}) == k, name
    for name, value in _changeable(k):
        changed = k.replace(**{name: value})
        assert changed.get_params()[name] == value, name
        assert changed.replace(**{name: values[name]}) == k, name
    assert set(k.get_params(deep=False)) <= set(values)
    with pytest.raises(ValueError, match="no parameter 'nonsense'"):
        k.replace(nonsense=1)


def check_immutable(case, engine, dtype):
    names = [f.name for f in fields(case.kernel)] + ["another"]
    for name in names:
        try:
            setattr(case.kernel, name, 1.0)
        except FrozenInstanceError:
            continue
        raise AssertionError(f"{name} could be set")


def check_resolve(case, engine, dtype):
    """Resolving is final: new data do not move a resolved kernel, nor does it change the Gram of its own data."""
    resolved = case.kernel.resolve(case.X())
    assert resolved.resolve(case.Y()) == resolved
    close(gram(resolved, case.X()).dense(), case.gram("cpu").dense(), case.tolerance("block"))


# ---------------------------------------------------------------------------------------------- facts
def check_features(case, engine, dtype):
    """phi(X) phi(X)^T is the Gram, and phi has the width it says."""
    d = case.X().shape[1] if case.vectors else 1
    width = case.kernel.feature_dim(d)
    error = error_of(ValueError, case.kernel.features, case.X())
    if error is not None:
        assert "feature map" in str(error), error
        assert not np.isfinite(width) or "negative" in str(error), f"{width} features are promised"
        return
    F = case.kernel.features(case.X())
    K = (F @ F.T).toarray() if sp.issparse(F) else F @ F.T
    close(K, case.gram(engine).dense(), case.tolerance("block"))
    assert not np.isfinite(width) or width == F.shape[1], f"width {F.shape[1]}, promised {width}"


def check_normalised(case, engine, dtype):
    if case.kernel.normalised:
        close(case.gram(engine, dtype).diag(), np.ones(len(case.X())), case.tolerance("block", dtype))


def check_stationary(case, engine, dtype):
    if case.kernel.stationary and case.vectors:
        _check_moved(case, engine, case.X() + np.array([0.25, 3.5, 1.0]), case.Y() + np.array([0.25, 3.5, 1.0]))


def check_isotropic(case, engine, dtype):
    if case.kernel.isotropic and case.vectors:
        Q = scipy.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
        _check_moved(case, engine, case.X() @ Q, case.Y() @ Q)


def _check_moved(case, engine, X, Y):
    k = case.kernel.resolve(case.Y())
    expected = gram(k, case.X(), case.Y(), engine=engine).dense()
    close(gram(k, X, Y, engine=engine).dense(), expected, 1e-7)  # rows that were equal may now differ in the last bit


# ---------------------------------------------------------------------------------------------- the contract
WRONG_KERNEL_FOR = {
    check_symmetry: wrong.ASYMMETRIC,
    check_certificate: Case(wrong.FalseCertificate()),
    check_diagonal: Case(wrong.FalseDiagonal()),
    check_blocks: wrong.COUNTING_ROWS,
    check_joint: wrong.COUNTING_COLUMNS,
    check_precision: wrong.READING_PRECISION,
    check_input_untouched: wrong.WRITING,
    check_layouts: wrong.READING_LAYOUT,
    check_gradient: Case(wrong.FrozenGradient(0.7)),
    check_input_gradient: wrong.FALSE_VJP,
    check_denied_gradient: Case(wrong.DeniedGradient()),
    check_pickle: Case(wrong.FalsePickle()),
    check_clone: Case(wrong.FalseClone()),
    check_repr: Case(wrong.FalseName()),
    check_equality: Case(wrong.NeverEqual()),
    check_parameters: Case(wrong.DeafReplace(0.7)),
    check_immutable: Case(wrong.Mutable()),
    check_resolve: Case(wrong.Wavering()),
    check_features: Case(wrong.FalseFeatures()),
    check_normalised: Case(wrong.FalseFacts()),
    check_stationary: Case(wrong.FalseFacts()),
    check_isotropic: Case(wrong.FalseIsotropy()),
}
KERNEL_CHECKS = list(WRONG_KERNEL_FOR)
#: Checks whose answer depends on neither engine nor precision.
OF_VALUES = (check_pickle, check_clone, check_repr, check_equality, check_parameters, check_immutable, check_resolve)
#: Checks in float64 only.
EXACT = (check_precision, check_features, check_stationary, check_isotropic)


def name(check):
    return check.__name__.removeprefix("check_")


def contract():
    """(check, case, engine, dtype): leaves and operators under both engines, composites under one, in turn."""
    base = len(LEAVES) + len(OPERATORS)
    for i, case in enumerate(kernel_cases()):
        settings = [(e, d) for e in ENGINES for d in DTYPES]
        for check in KERNEL_CHECKS:
            chosen = settings if i < base else [settings[i % 4]]
            if check in OF_VALUES:
                chosen = [("cpu", "float64")]
            elif check in EXACT:
                chosen = [(e, "float64") for e in ENGINES]
            for engine, dtype in chosen:
                yield pytest.param(check, case, engine, dtype, id=f"{name(check)}-{case}-{engine}-{dtype}")


@pytest.mark.parametrize(("check", "case", "engine", "dtype"), list(contract()))
def test_kernel_contract(check, case, engine, dtype):
    check(case, engine, dtype)


@pytest.mark.parametrize("check", KERNEL_CHECKS, ids=name)
def test_each_check_can_fail(check):
    with pytest.raises(AssertionError):
        check(WRONG_KERNEL_FOR[check], "reference", "float64")


# ---------------------------------------------------------------------------------------------- completeness
#: Made with @frozen like a kernel, but it stands for a matrix of distances.
NOT_KERNELS = {SquaredKernelDistance}


def concrete_subclasses(cls, package):
    """Classes of the package that are values themselves (made with @frozen), not the abstract kinds above them."""
    found = {
        c for c in _all_subclasses(cls) if c.__module__.split(".")[0] == package and "__dataclass_params__" in vars(c)
    }
    return found - NOT_KERNELS


def _all_subclasses(cls):
    for c in cls.__subclasses__():
        yield c
        yield from _all_subclasses(c)


def test_no_kernel_is_missing():
    tried = {type(node) for case in kernel_cases(composites=0) for node in [case.kernel]}
    assert concrete_subclasses(Kernel, "mercer") == tried == set(KERNELS.values())


def test_every_registered_kernel_is_public():
    assert {cls.__name__ for cls in KERNELS.values()} <= set(mk.__all__)
    assert all(hasattr(mk, n) for n in mk.__all__)


def test_the_sample_of_composites_covers_all_pairs():
    rows = np.array(orthogonal_array())
    assert len(kernel_cases()) - len(kernel_cases(composites=0)) <= 60
    for a in range(rows.shape[1]):
        for b in range(a):
            assert len({tuple(r) for r in rows[:, [a, b]]}) == 49


#: Parameters without a range: one value of each that the constructor refuses.
REFUSED = {
    "BagOfWords": {"analyzer": "x", "ngram_range": (3, 1), "stop_words": "klingon", "lowercase": "no", "token_pattern": "("},
    "TfIdf": {
        "analyzer": 3, "ngram_range": 2, "stop_words": 4, "lowercase": None, "token_pattern": 5, "smooth": "no", "cosine": "no",
        "words": ["a"], "frequencies": [1.0], "n_documents": 2.0,
    },
    "Mismatch": {"alphabet": 4},
    "GlobalAlignment": {"normalised": "no"},
    "LocalAlignment": {"normalised": "no"},
    "Signature": {"static": "cubic"},
    "DensityProduct": {"model": 3},
    "MixtureKernel": {"model": 3, "unit": "no"},
    "SharedPath": {"model": 3, "unit": 1},
    "LatentGaussian": {"mean": [0.0], "loadings": [[1.0]], "noise": [1.0], "unit": None},
    "LatentMonteCarlo": {"function": 3},
    "Fisher": {"model": 3, "information": "most", "whitening": "x"},
    "ProbabilityProduct": {"family": "cauchy", "covariance": "x", "draws": -1, "random_state": -1, "unit": "no"},
}  # fmt: skip
#: Functions, structure, words that stand for a formula, and constants that `resolve` learns.
FREE = {
    "metric", "form", "n_categories", "function", "vjp", "kernel", "parts", "sample", "chosen", "label",
}  # fmt: skip


def test_every_parameter_is_checked():
    """A parameter without a range would take anything: it refuses a bad value by name, or is listed."""
    for cls in KERNELS.values():
        unchecked = {f.name for f in fields(cls)} - set(specs(cls)) - set(REFUSED.get(cls.__name__, ()))
        assert unchecked <= FREE, cls


@pytest.mark.parametrize(("kernel", "name"), [(k, name) for k, bad in REFUSED.items() for name in bad])
def test_bad_parameters_are_refused(kernel, name):
    with pytest.raises((TypeError, ValueError), match=name):
        KERNELS[kernel](**{name: REFUSED[kernel][name]})

"""The contract of every engine: all verbs agree with `reference` on every kernel, whatever the tiles, threads and storage.

This file also runs with array bounds checked, so it keeps to small data and few compiled signatures.
"""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from cases import DTYPES, ENGINE_NAMES, NEEDED, TOLERANCE, Case, close, kernel_cases, sparse_random
from mercer import kernels as mk
from mercer.engines import BaseEngine, CpuEngine, Engine, ReferenceEngine, TorchEngine, get_engine
from mercer.errors import NanError, NotDifferentiableError
from mercer.gram import Gram, gram
from mercer.registry import ENGINES

TINY = (3, 5)  # tiles so small that a few rows have many of them, with ragged edges


# ---------------------------------------------------------------------------------------------- checks
def pair(case, engine, dtype, cross=True):
    """The Gram under the engine and the same under `reference`."""
    return case.gram(engine, dtype, cross), case.gram("reference", dtype, cross)


def check_block(case, engine, dtype):
    for cross in (True, False):
        K, R = pair(case, engine, dtype, cross)
        close(K.dense(), R.dense(), case.tolerance("block", dtype))
        assert K.dense().dtype == R.dense().dtype


def check_matmul(case, engine, dtype):
    """One right-hand side and many, on one set of rows and on two."""
    for cross in (True, False):
        K, R = pair(case, engine, dtype, cross)
        V = np.random.default_rng(2).standard_normal((K.shape[1], 4)).astype(dtype)
        expected = R.dense().astype(np.float64) @ V
        close(K @ V, expected, case.tolerance("reduce", dtype))
        close(K @ V[:, 0], expected[:, 0], case.tolerance("reduce", dtype))


def check_cross(case, engine, dtype):
    """Sums over the rows for one target, for few, and for so many that BLAS takes them; the rows once weighted."""
    for cross in (True, False):
        K, R = pair(case, engine, dtype, cross)
        dense, tolerance = R.dense().astype(np.float64), case.tolerance("reduce", dtype)
        rng = np.random.default_rng(3)
        for p in (1, 3, 6):
            T, V, w = rng.random((K.shape[0], p)), rng.random((p, K.shape[1])), rng.random((K.shape[0], 1))
            close(K.engine.cross(K.x, K.y, T), T.T @ dense, tolerance)
            close(K.engine.cross(K.x, K.y, w, V), (w * (dense @ V.T)).T @ dense, tolerance)


def check_diag(case, engine, dtype):
    K, R = pair(case, engine, dtype, cross=False)
    close(K.diag(), R.diag(), case.tolerance("block", dtype))


def check_reduce(case, engine, dtype):
    K, R = pair(case, engine, dtype)
    dense, tolerance = R.dense().astype(np.float64), case.tolerance("reduce", dtype)
    close(K.reduce("sum"), dense.sum(axis=1), tolerance)
    close(K.reduce("max"), dense.max(axis=1), tolerance)
    close(K.reduce("logsumexp"), np.log(np.exp(dense - 9).sum(axis=1)) + 9, tolerance)
    values, columns = K.reduce("argmin")
    close(values, dense.min(axis=1), tolerance)
    close(np.take_along_axis(dense, columns[:, None], 1)[:, 0], dense.min(axis=1), tolerance)
    values, columns = K.reduce("topk", k=4)
    close(values, -np.sort(-dense, axis=1)[:, :4], tolerance)
    close(np.take_along_axis(dense, columns, 1), values, tolerance)


def check_pullback(case, engine, dtype):
    for cross in (True, False):
        K, R = pair(case, engine, dtype, cross)
        W = np.random.default_rng(3).standard_normal(K.shape)
        found, expected = K.pullback(W), R.pullback(W)
        assert set(found) == set(expected)
        for name in expected:
            close(found[name], expected[name], case.tolerance("gradient", dtype), name)


def check_pullback_inputs(case, engine, dtype):
    if not case.kernel.differentiable_inputs:
        return
    for cross in (True, False):
        K, R = pair(case, engine, dtype, cross)
        W = np.random.default_rng(4).standard_normal(K.shape)
        # A rounding error of a kinked profile's argument between equal rows is multiplied by its slope there.
        tolerance = case.tolerance("gradient", dtype) if not case.angle else np.inf
        close(K.pullback_inputs(W), R.pullback_inputs(W), tolerance)


def check_denied_inputs(case, engine, dtype):
    if not case.kernel.differentiable_inputs:
        with pytest.raises(NotDifferentiableError):
            case.gram(engine, dtype).pullback_inputs()


def check_slices(case, engine, dtype):
    K, R = pair(case, engine, dtype)
    close(K[[5, 1, 5], 2:7].dense(), R.dense()[[5, 1, 5], 2:7], case.tolerance("block", dtype))
    close(K.T.dense(), R.dense().T, case.tolerance("block", dtype))


# ---------------------------------------------------------------------------------------------- engines that lie
class _Lying(ReferenceEngine):
    """Lies about every verb by a factor that depends on nothing."""

    def block(self, x, y):
        return 1.01 * super().block(x, y) + 0.01

    def matmul(self, x, y, V):
        return 1.01 * super().matmul(x, y, V) + 0.01

    def cross(self, x, y, R, V=None):
        return 1.01 * super().cross(x, y, R, V)

    def diag(self, x):
        return 1.01 * super().diag(x)

    def reduce(self, x, y, op, **options):
        found = super().reduce(x, y, op, **options)
        return (found[0], found[1][::-1]) if isinstance(found, tuple) else found

    def pullback(self, x, y, W):
        return {name: 1.01 * value for name, value in super().pullback(x, y, W).items()}

    def pullback_inputs(self, x, y, W):
        return 1.01 * super().pullback_inputs(x, y, W)


class _Careless(ReferenceEngine):
    """Gives a gradient to whoever asks."""

    def pullback_inputs(self, x, y, W):
        return np.zeros(x.rows.shape)


CHECKS = {
    check_block: _Lying,
    check_matmul: _Lying,
    check_cross: _Lying,
    check_diag: _Lying,
    check_reduce: _Lying,
    check_pullback: _Lying,
    check_pullback_inputs: _Lying,
    check_slices: _Lying,
}


def name(check):
    return check.__name__.removeprefix("check_")


@pytest.fixture
def tiny_tiles(monkeypatch):
    for cls in ENGINES.values():
        monkeypatch.setattr(cls, "tile_shape", TINY)
    monkeypatch.setattr(CpuEngine, "small_tile", TINY)
    monkeypatch.setattr(CpuEngine, "piece", (2 * TINY[0] + 1, TINY[1]))
    monkeypatch.setattr(TorchEngine, "tile_shape", (8, 5))  # an operation of torch takes longer than such a tile


def contract():
    """(engine, case, dtype, check). torch shares the programs of composites with the CPU engine and leaves objects to it: less of
    them is enough, and of the rest by turns."""
    leaves, few = kernel_cases(composites=0), (check_block, check_matmul, check_pullback)
    for engine in ("cpu", "torch"):
        for number, case in enumerate(kernel_cases()):
            known = engine == "torch" and not (case in leaves and case.vectors)
            for dtype in DTYPES[:1] if known else DTYPES:
                brief = known or (engine == "torch" and dtype == "float32")
                for turn, check in enumerate(few if brief else (*CHECKS, check_denied_inputs)):
                    slow = engine == "torch" and turn % 3 != number % 3 and (brief or check not in few)
                    marks = [*NEEDED.get(engine, []), *([pytest.mark.slow] if slow else [])]
                    label = f"{engine}-{case}-{dtype}-{name(check)}"
                    yield pytest.param(engine, case, dtype, check, marks=marks, id=label)


@pytest.mark.usefixtures("tiny_tiles")
@pytest.mark.parametrize(("engine", "case", "dtype", "check"), list(contract()))
def test_engine_contract(engine, case, dtype, check):
    check(case, engine, dtype)


@pytest.mark.parametrize("case", kernel_cases(composites=0), ids=str)
def test_reference_does_not_depend_on_tiles(case, monkeypatch):
    whole = case.gram("reference", cross=True).dense(), case.gram("reference").dense()
    monkeypatch.setattr(ReferenceEngine, "tile_shape", TINY)
    close(case.gram("reference", cross=True).dense(), whole[0], 1e-14)
    close(case.gram("reference").dense(), whole[1], 1e-14)


@pytest.mark.parametrize("check", CHECKS, ids=name)
def test_each_check_can_fail(check):
    with pytest.raises(AssertionError):
        check(Case(mk.RBF(0.7) + mk.Linear()), CHECKS[check](), "float64")


def test_denied_inputs_can_fail(monkeypatch):
    monkeypatch.setattr(sys.modules[Gram.__module__], "require_differentiable_inputs", lambda kernel: None)
    with pytest.raises(pytest.fail.Exception):
        check_denied_inputs(Case(mk.Window()), _Careless(), "float64")


def test_every_engine_is_registered():
    """Concrete engines of the package (those with a `tile`) are those that a user can name."""
    found = [kind for cls in BaseEngine.__subclasses__() for kind in (cls, *cls.__subclasses__())]
    known = {cls for cls in found if cls.__module__.startswith("mercer.")}
    assert known == set(ENGINES.values()) >= {ReferenceEngine, CpuEngine}
    assert all(cls.name == word for word, cls in ENGINES.items())
    assert isinstance(get_engine("cpu"), CpuEngine)
    assert isinstance(get_engine("reference"), ReferenceEngine)


@pytest.mark.parametrize(
    ("engine", "message"),
    [("gpu9", "there are cpu, cuda, reference, torch"), (Engine("cpu", threads=0), "threads=0"), (3, "must be a word")],
)
def test_unknown_engines_are_refused(engine, message):
    with pytest.raises((ValueError, TypeError), match=message):
        get_engine(engine)


# ---------------------------------------------------------------------------------------------- tiles, threads, repetition
SPREAD = [
    2 * mk.RBF(0.7) + mk.Linear() ** 2,
    mk.Laplacian(2.0),
    mk.ANOVA(2, 0.8),
    mk.Polynomial(2).normalise().centre(),
]


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).standard_normal((700, 3))
    X.flags.writeable = False
    return X


def verbs(k, X, engine):
    K, C = gram(k, X, engine=engine), gram(k, X[:300], X, engine=engine)
    W = np.cos(np.arange(300.0))[:, None], np.sin(np.arange(700.0))[:, None]
    parameters = C.pullback(W)
    return [
        K.dense(),
        C.dense(),
        K @ X,
        C.reduce("sum"),
        C.pullback_inputs(W),
        *(parameters[n] for n in sorted(parameters)),
    ]


@pytest.mark.parametrize("kernel", SPREAD, ids=str)
def test_results_do_not_depend_on_threads(kernel, rows):
    one, two, again = (verbs(kernel, rows, Engine("cpu", threads=t)) for t in (1, 2, 2))
    for a, b, c in zip(one, two, again, strict=True):
        assert np.array_equal(a, b), "1 and 2 threads differ"
        assert np.array_equal(b, c), "two runs differ"


@pytest.mark.parametrize("kernel", SPREAD, ids=str)
def test_several_tiles_equal_reference(kernel, rows):
    for a, b in zip(verbs(kernel, rows, "cpu"), verbs(kernel, rows, "reference"), strict=True):
        close(a, b, TOLERANCE["gradient"]["float64"])


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (2, 1), (3, 5), (4, 6), (9, 10)])
def test_edges_of_tiles(shape, monkeypatch):
    monkeypatch.setattr(CpuEngine, "tile_shape", TINY)
    rng = np.random.default_rng(1)
    X, Y = rng.random((shape[0], 2)), rng.random((shape[1], 2))
    k = mk.RBF(0.5) * mk.Intersection() + mk.White(0.1)
    for other in (None, Y):
        close(gram(k, X, other).dense(), gram(k, X, other, engine="reference").dense(), 1e-13)


def test_ties_do_not_depend_on_tiles(monkeypatch):
    X = np.repeat(np.eye(3), 6, axis=0)
    wide = gram(mk.Linear(), X).reduce("topk", k=5), gram(mk.Linear(), X).reduce("argmin")
    monkeypatch.setattr(CpuEngine, "tile_shape", TINY)
    narrow = gram(mk.Linear(), X).reduce("topk", k=5), gram(mk.Linear(), X).reduce("argmin")
    for a, b in zip(wide, narrow, strict=True):
        assert np.array_equal(a[0], b[0])
        assert np.array_equal(a[1], b[1])


# ---------------------------------------------------------------------------------------------- sums over rows
def crosses(K):
    T, V = np.cos(np.arange(2.0 * K.shape[0])).reshape(-1, 2), np.sin(np.arange(2.0 * K.shape[1])).reshape(2, -1)
    return K.engine.cross(K.x, K.y, T), K.engine.cross(K.x, K.y, T[:, :1] ** 2, V)


COMPILED = [
    mk.RBF(0.7),
    3 * mk.RBF([0.5, 1.0, 2.0]),
    mk.Matern(1.5),
    mk.Polynomial(3, 0.5, 1.0),
    2 * mk.RBF(0.7) + mk.Linear() ** 2,
    mk.RBF(0.7) + mk.White(0.5),
    mk.Polynomial(2).normalise(),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", COMPILED, ids=str)
def test_sums_in_one_compiled_call(kernel, dtype, monkeypatch):
    """However the rows are cut, also where rows meet themselves; the loop over tiles in Python is not needed."""
    X = np.random.default_rng(0).standard_normal((201, 3)).astype(dtype)
    expected = [crosses(gram(kernel, *rows, engine="reference")) for rows in ((X, X[:40] + 1), (X,))]

    def not_needed(*args):
        raise AssertionError("tiles in Python")

    monkeypatch.setattr(BaseEngine, "cross", not_needed)
    for size in (2**26, 1):
        monkeypatch.setattr("mercer.engines.cpu._SWEEP_ENTRIES", size)
        monkeypatch.setattr("mercer.engines.cpu._CALL_ENTRIES", size)
        found = [crosses(gram(kernel, *rows)) for rows in ((X, X[:40] + 1), (X,))]
        for pair_found, pair_expected in zip(found, expected, strict=True):
            for a, b in zip(pair_found, pair_expected, strict=True):
                close(a, b, TOLERANCE["reduce"][dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [mk.Laplacian(1e-3), mk.RBF(1.0), 2 * mk.RBF(1.0) + mk.Linear() / 1e9], ids=str)
def test_sums_repair_close_rows(kernel, dtype):
    """Distances that cancel are taken from differences also in sums."""
    X = np.random.default_rng(0).standard_normal((30, 3)).astype(dtype)
    X[::2] += 2e4 if dtype == "float32" else 2e8  # two clusters: distances inside are lost against the norms
    X[7] = X[3] + np.array([0, 0, 2e-3], dtype)
    for rows in ((X, X[:9] + 0), (X,)):
        for a, b in zip(crosses(gram(kernel, *rows)), crosses(gram(kernel, *rows, engine="reference")), strict=True):
            close(a, b, 1e-4 if dtype == "float32" else 1e-9)


def test_sums_refuse_values_that_are_not_finite():
    X = np.full((5, 2), 1e120)
    with pytest.raises(NanError, match="Polynomial"):
        crosses(gram(mk.Polynomial(3), X, X[:2] + 0))


# ---------------------------------------------------------------------------------------------- sparse rows
def sparse_forms(X):
    """The same rows in every storage that a user may bring."""
    csr = sp.csr_array(X)
    unsorted = csr.copy()
    for i in range(len(X)):
        row = slice(unsorted.indptr[i], unsorted.indptr[i + 1])
        unsorted.indices[row], unsorted.data[row] = unsorted.indices[row][::-1].copy(), unsorted.data[row][::-1].copy()
    unsorted.has_sorted_indices = False
    halves = sp.coo_array(
        (np.r_[csr.data, csr.data] / 2, tuple(np.hstack([c, c]) for c in csr.tocoo().coords)), X.shape
    )
    zeros = sp.csr_array((X.ravel(), np.tile(np.arange(X.shape[1]), len(X)), np.arange(0, X.size + 1, X.shape[1])))
    wide = sp.csr_array((csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), X.shape)
    return {
        "csr_matrix": sp.csr_matrix(X), "csr_array": csr, "csc": sp.csc_array(X), "coo": sp.coo_array(X), "bsr": sp.bsr_array(X),
        "int64 indices": wide, "explicit zeros": zeros, "unsorted": unsorted, "duplicates": halves,
    }  # fmt: skip


def sparse_rows(dtype="float64"):
    rng = np.random.default_rng(6)
    X = np.where(rng.random((11, 3)) < 0.6, rng.random((11, 3)), 0.0)
    X[4], X[7] = X[2], 0.0
    return X.astype(dtype)


@pytest.mark.parametrize("form", sparse_forms(sparse_rows()))
@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_sparse_forms_equal_dense(engine, form):
    X = sparse_rows()
    S = sparse_forms(X)[form]
    data, indices = S.data.copy(), getattr(S, "indices", np.zeros(0)).copy()
    for k in (mk.RBF(0.7), mk.Polynomial(2), mk.Intersection(), mk.Laplacian()):
        close(gram(k, S, engine=engine).dense(), gram(k, X, engine="reference").dense(), 1e-7)
    assert np.array_equal(S.data, data)
    assert np.array_equal(getattr(S, "indices", np.zeros(0)), indices)


def sparse_cases():
    """Vector kernels; functions of the user's own see rows as they are, so those that expect arrays are left out."""
    for case in kernel_cases():
        if case.vectors and not any(
            word in str(case) for word in ("warp", "times", "Basis", "wise", "covariance", "QuadraticForm")
        ):
            yield case


@pytest.mark.parametrize("engine", ["cpu", "reference"])  # which torch leaves sparse rows to
@pytest.mark.parametrize("case", list(sparse_cases()), ids=str)
def test_sparse_rows_equal_dense(case, engine):
    X = sparse_rows()
    S = sp.csr_array(X)
    tolerance = 1e-7 if not case.angle else 1e-6
    k = case.kernel.resolve(X)
    K, R = gram(k, S, S[:5], engine=engine), gram(k, X, X[:5], engine="reference")
    close(K.dense(), R.dense(), tolerance)
    close(gram(k, S, engine=engine).diag(), gram(k, X, engine="reference").diag(), tolerance)
    W = np.random.default_rng(5).standard_normal(K.shape)
    for name, value in R.pullback(W).items():
        close(K.pullback(W)[name], value, 1e-6 if not case.angle else 1e-3, name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "kernel",
    [
        mk.RBF(3.0),
        mk.Linear(),
        mk.Laplacian(5.0),
        mk.Laplacian(20.0, metric="l1"),
        mk.Intersection(),
        mk.Chi2(0.1),
        mk.Cosine(),
    ],
    ids=str,
)
def test_wide_sparse_rows(kernel, dtype):
    """5000 columns: more than are made dense at a time."""
    S = sparse_random((40, 5000), 2000, dtype)
    K = gram(kernel, S, S[:7])
    assert K.dtype == dtype
    expected = gram(kernel, S.toarray().astype(float), S[:7].toarray().astype(float), engine="reference").dense()
    close(K.dense(), expected, {"float64": 1e-10, "float32": 1e-5}[dtype])


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("kernel", [mk.RBF(covariance=np.eye(3)), mk.QuadraticForm(np.eye(3)), mk.Periodic()], ids=str)
def test_sparse_rows_behind_a_map(kernel, engine):
    X = sparse_rows()
    close(gram(kernel, sp.csr_array(X), engine=engine).dense(), gram(kernel, X).dense(), 1e-12)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("kernel", [mk.RBF(0.7), mk.Linear(), mk.Laplacian(metric="l1"), mk.Cosine()], ids=str)
def test_sparse_rows_meet_dense_rows(kernel, engine):
    X = sparse_rows() + [0.0, 0.0, 5.0]
    S, expected = sp.csr_array(X), gram(kernel, X, X[:5], engine="reference").dense()
    close(gram(kernel, S, X[:5], engine=engine).dense(), expected, 1e-12)
    close(gram(kernel, X, S[:5], engine=engine).dense(), expected, 1e-12)

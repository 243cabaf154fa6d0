"""Models in files: every estimator and kernel comes back with the same answers, and whatever else is read is refused."""

import copy
import math
import pickle
import warnings
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from cases import kernel_cases
from estimator_cases import ESTIMATOR_CASES, answers, regression, suited
from mercer import Engine, KernelDensity, KernelKMeans, KernelRidge, info, load, save
from mercer.errors import EngineWarning, MercerError, ModelFileError
from mercer.kernels import RBF, Linear, Pairwise, Spectrum
from mercer.persist import flatten, read, write
from mercer.persist.values import Reader, Writer
from test_structured_everywhere import KINDS, made, target


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.mercer"


def fitted(case):
    X, y = regression(30)
    model = clone(case.estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(case.rows(X), suited(model, y)), case.rows(X)


# ------------------------------------------------------------------------------------------------ what comes back
@pytest.mark.parametrize("case", ESTIMATOR_CASES, ids=lambda c: str(c.estimator)[:60])
def test_estimators_come_back(case, path):
    model, X = fitted(case)
    save(model, path)
    again = load(path)
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    assert set(vars(again)) - {"_gram", "_fit"} == set(vars(model)) - {
        "_gram",
        "_fit",
    }  # which are made again when needed
    np.testing.assert_array_equal(answers(again, X), answers(model, X))
    assert info(path)["class"] == type(model).__name__


def nameless(kernel):
    """Kernels with functions of a user's in them: these cannot be saved without a name."""
    return any(
        word in repr(kernel) for word in ("warp(", "times(", "series(", "Pairwise(", "Blockwise(", "MonteCarlo(")
    )


@pytest.mark.parametrize("case", kernel_cases(), ids=lambda c: repr(c.kernel)[:60])
def test_kernels_come_back(case, path):
    for kernel in (case.kernel, case.kernel.resolve(case.X())):
        if nameless(kernel):
            with pytest.raises(ModelFileError, match=r"model.*is the function .* a file holds no code"):
                save(kernel, path)
        else:
            save(kernel, path)
            assert load(path) == kernel


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_come_back(kind, path):
    kernel, X, new, _ = KINDS[kind]
    model = made(KernelRidge(), kernel).fit(X, target(kind))
    save(model, path)
    again = load(path)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert info(path)["training_rows"] == len(X)


def test_unfitted_models_and_precisions(path):
    save(KernelRidge(kernel=RBF(0.5), alpha=0.25), path)
    again = load(path)
    assert not hasattr(again, "X_fit_")
    assert (again.alpha, again.kernel) == (0.25, RBF(0.5))
    X, y = regression(30)
    model = KernelRidge(kernel=RBF(0.5)).fit(X.astype(np.float32), y.astype(np.float32))
    save(model, path)
    assert load(path).predict(X.astype(np.float32)).dtype == np.float32
    random = mercer.RandomFourierFeatures(n_components=8, random_state=np.random.RandomState(3)).fit(X)
    save(random, path)
    assert load(path).random_state.get_state()[1].tolist() == random.random_state.get_state()[1].tolist()


def test_many_texts_are_few_arrays(path):
    X = ["".join(np.random.default_rng(i).choice(list("acgt"), 12)) for i in range(3000)]
    model = KernelRidge(kernel=Spectrum(2)).fit(X[:200], np.arange(200.0))
    save(model, path)
    assert path.stat().st_size < 60_000
    np.testing.assert_array_equal(load(path).predict(X[200:300]), model.predict(X[200:300]))


# ------------------------------------------------------------------------------------------------ functions
def double(X):
    return 2 * X


def dot(x, y):
    return float(x @ y)


def test_functions_go_by_name(path):
    X, y = regression(20)
    model = KernelRidge(kernel=RBF().warp(double) + Pairwise(dot)).fit(X, y)
    with pytest.raises(
        ModelFileError, match=r"model\.kernel\.parts.*is the function double.*functions={'double': double}"
    ):
        save(model, path)
    assert not path.exists()
    save(model, path, functions={"twice": double, "dot": dot})
    with pytest.raises(ModelFileError, match="a function that was called 'twice'; hand it over"):
        load(path)
    again = load(path, functions={"twice": double, "dot": dot})
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    said = info(path)["kernel"]
    assert said == repr(model.kernel)
    assert b"double" not in path.read_bytes().replace(said.encode(), b"")  # elsewhere only the name it was given


# ------------------------------------------------------------------------------------------------ what is refused
def test_other_things_are_refused(path):
    for thing in (3, {"a": 1}, np.eye(2), object()):
        with pytest.raises(TypeError, match="save writes estimators of mercer and kernels"):
            save(thing, path)
    path.write_bytes(pickle.dumps(RBF()))
    with pytest.raises(ModelFileError, match="begins with"):
        load(path)
    write(path, "checkpoint", {}, {})
    with pytest.raises(ModelFileError, match="expected a model, this is a checkpoint"):
        load(path)


def model_file(path):
    X, y = regression(30)
    save(KernelRidge(kernel=2 * RBF([0.5, 1.0, 1.5]) + Linear()).fit(X, y), path)
    return read(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.update({"class": "os.system"}), "names the estimator 'os.system'"),
        (lambda m: m.update({"is": "pickle"}), "of the kind 'pickle'"),
        (lambda m: m.update({"is": "__init__"}), "of the kind '__init__'"),
        (lambda m: m["parts"].pop("alpha"), "lacks .'alpha'"),
        (lambda m: m["parts"].update(predict=3), "predict"),
        (lambda m: m["parts"].update(__class__=3), "__class__"),
        (lambda m: m["parts"].update(alpha="much"), "alpha"),
        (lambda m: m["parts"].update(dual_coef_={"is": "array", "value": np.zeros(3)}), "3 coefficients for 30 rows"),
        (lambda m: m["parts"]["kernel_"].update({"class": "Popen"}), "names the kernel 'Popen'"),
        (lambda m: m["parts"].update(X_fit_={"is": "array", "value": np.zeros((30, 7))}), "do not fit together"),
        (lambda m: m["parts"].update(kernel={"is": "function", "name": "f"}), "hand it over"),
    ],
)
def test_forged_files_are_refused(path, change, said):
    found = model_file(path)
    tree = mercer.persist.unflatten(found.content, found.arrays)
    change(tree["model"])
    write(path, "model", *flatten(tree))
    with pytest.raises(ModelFileError, match=said):
        load(path)


def forged(path, model, change):
    save(model, path)
    found = read(path)
    tree = mercer.persist.unflatten(found.content, found.arrays)
    change(tree["model"]["parts"])
    write(path, "model", *flatten(tree))


def test_places_beyond_their_range_are_refused(path):
    X, y = regression(30)
    clusters = KernelKMeans(2, kernel="precomputed", random_state=0).fit(RBF()(X))
    forged(
        path, clusters, lambda parts: parts["coefficients_"].update(indices=parts["coefficients_"]["indices"] + 10**6)
    )
    with pytest.raises(ModelFileError, match="do not fit together"):
        load(path)
    machine = mercer.SVC(kernel=RBF()).fit(X, y > 0)
    forged(path, machine, lambda parts: parts["X_fit_"].update(value=np.ones((2, 3))))
    with pytest.raises(ModelFileError, match="do not fit together"):
        load(path)
    texts = KernelRidge(kernel=Spectrum(2)).fit(["acgt" * (i + 1) for i in range(12)], np.arange(12.0))
    forged(path, texts, lambda parts: parts["X_fit_"]["items"].update(ends=parts["X_fit_"]["items"]["ends"] + 1))
    with pytest.raises(ModelFileError, match="do not fit its length"):
        load(path)


def array(values):
    return {"is": "array", "value": np.asarray(values)}


@cache
def machines():
    X, y = regression(30)
    return {
        "ridge": KernelRidge(kernel=RBF()).fit(X, y),
        "machine": mercer.SVC(kernel=RBF()).fit(X, y > 0),
        "given": mercer.SVC(kernel="precomputed").fit(RBF()(X), y > 0),
        "given ridge": KernelRidge(kernel="precomputed").fit(RBF()(X), y),
    }


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        ("ridge", {"dual_coef_": array(np.full(30, np.nan))}, "NaN or infinite"),
        ("ridge", {"dual_coef_": array([np.inf] + [0.0] * 29)}, "NaN or infinite"),
        ("given ridge", {"dual_coef_": array(np.full(30, np.nan))}, "NaN or infinite"),
        ("ridge", {"X_fit_": array(np.full((30, 3), np.nan))}, "do not fit together"),
        ("ridge", {"n_features_in_": 7}, "expecting 7 features"),
        ("ridge", {"n_features_in_": -3}, "n_features_in_ is -3"),
        ("ridge", {"n_features_in_": "3"}, "n_features_in_ is '3'"),
        ("given ridge", {"n_features_in_": 10**15, "X_fit_": array(np.zeros((2, 2)))}, "30 coefficients for 2 rows"),
        ("ridge", {"hidden": 3}, "hidden"),
        ("ridge", {"": 3}, "no attributes"),
        ("ridge", {"__reduce__": 3}, "__reduce__"),
        ("ridge", {"__slots__": 3}, "__slots__"),
        ("machine", {"intercept_": array([np.nan])}, "NaN or infinite"),
        ("machine", {"intercept_": array(np.zeros(7))}, "7 intercepts"),
        ("machine", {"classes_": array([1])}, "fewer than two classes"),
        ("machine", {"classes_": array(np.arange(5))}, "do not fit together"),
        ("machine", {"support_": array([10**9] * 24)}, "support_ must have"),
        ("machine", {"support_": array([-1] * 24)}, "support_ must have"),
        ("machine", {"support_": array([0])}, "support_ must have"),
        ("machine", {"support_": array([0.5] * 24)}, "support_ must have"),
        ("given", {"kept_": array([10**9] * 5)}, "not among its 30"),
        ("given", {"kept_": array([-1] * 5)}, "not among its 30"),
        ("given", {"kept_": array([[1, 2]])}, "not among its 30"),
        ("given", {"kept_": array([30])}, "not among its 30"),
        ("given", {"kept_": array([0.0])}, "not among its 30"),
        ("given", {"support_": array([30] * 24)}, "support_ must have"),
    ],
)
def test_numbers_that_cannot_be_are_refused(path, model, change, said):
    assert len(machines()["machine"].support_) == 24
    forged(path, machines()[model], lambda parts: parts.update(change))
    with pytest.raises(ModelFileError, match=said):
        load(path)


@pytest.mark.parametrize("name", ["ridge", "machine", "given", "given ridge"])
def test_models_cut_short_are_refused(path, name):
    save(machines()[name], path)
    data = path.read_bytes()
    for share in range(100):
        path.write_bytes(data[: len(data) * share // 100])
        with pytest.raises(ModelFileError):
            load(path)


def flipped(path, n, seed):
    """Of n models with one bit changed, how many are read; those answer as before, the others raise one kind of error."""
    save(machines()["machine"], path)
    data, rng, read_all_the_same = path.read_bytes(), np.random.default_rng(seed), 0
    for place, bit in zip(rng.integers(0, len(data), n), rng.integers(0, 8, n), strict=True):
        bad = bytearray(data)
        bad[place] ^= 1 << bit
        path.write_bytes(bad)
        with suppress(ModelFileError):
            again = load(path)
            again.decision_function(regression(30)[0])
            read_all_the_same += 1
    return read_all_the_same


def test_flipped_bits_in_models(path):
    assert flipped(path, 150, seed=0) < 60  # dates, attributes and what zip says twice


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_flipped_bits_in_models(path):
    assert flipped(path, 10_000, seed=1) < 4000


@pytest.mark.parametrize(
    "values",
    [
        [np.arange(i + 1.0) for i in range(10)],
        [np.arange(i + 1, dtype=np.float64 if i % 2 else np.int32) for i in range(10)],
        [np.zeros((i, 2)) for i in range(10)],
        [frozenset("abc"[: i % 4]) for i in range(10)],
        [("a", (i, None), [1.5, math.inf]) for i in range(10)],
        [b"\xff\x00", b""] * 6,
        ["a\x00", "", "\U0001f40e"] * 4,
        [10**30 + i for i in range(10)],
        [True, 2, "x", None, b"y", {"k": (1, 2)}, math.nan, np.float32(0.5), {1, 2}],
    ],
    ids=lambda v: type(v[0]).__name__,
)
def test_lists_of_any_kind_are_packed_and_unpacked(values):
    whole = np.empty(len(values), object)
    whole[:] = values
    content, arrays = flatten({"x": Writer({}).tree(whole)})
    again = Reader({}).value(mercer.persist.unflatten(content, arrays)["x"])
    for a, b in zip(again, values, strict=True):
        assert type(a) is type(b)
        if isinstance(b, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        else:
            assert repr(a) == repr(b)


def changed(tree, rng):
    """The tree with something in it that nobody wrote."""
    tree = copy.deepcopy(tree)
    places = list(_places(tree["model"], ()))
    trail = places[rng.integers(len(places))]
    node = tree["model"]
    for key in trail[:-1]:
        node = node[key]
    node[trail[-1]] = _odd(node[trail[-1]], rng)
    return tree


def _places(node, trail):
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*trail, key)
        if isinstance(value, (dict, list)):
            yield from _places(value, (*trail, key))


def _odd(value, rng):
    made = [{"is": "tuple", "items": [1]}, {"is": "dict", "keys": [], "values": []}, {"is": "float", "value": "nan"},
            {"is": "kernel", "class": "RBF", "parts": {}}]  # fmt: skip
    made += [{"is": "array", "value": a} for a in (np.zeros(0), np.full((2, 3), np.nan), np.arange(5))]
    odd = [None, True, -1, 0, 10**9, 0.5, 1e300, "", "RBF", "x" * 50, [], [1, [2]], *made]
    if isinstance(value, np.ndarray) and rng.random() < 0.7:
        odd = [
            value[:-1] if value.ndim else value,
            value.astype(str),
            value[..., None],
            value.ravel(),
            np.full(value.shape, 10**6),
        ]
        odd += [-value.astype(float), value * np.nan] if value.dtype.kind in "if" else []
    return odd[rng.integers(len(odd))]


def fuzz(path, case, seeds):
    """Every changed file is a model that answers, or one kind of error."""
    model, X = fitted(case)
    save(model, path)
    found = read(path)
    tree = mercer.persist.unflatten(found.content, found.arrays)
    outcomes = {"loaded": 0, "refused": 0}
    for seed in seeds:
        try:
            write(path, "model", *flatten(changed(tree, np.random.default_rng(seed))))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                again = load(path)
                with suppress(Exception):  # odd numbers may have no answer, but nothing ends the process
                    answers(again, X)
            outcomes["loaded"] += 1
        except ModelFileError:
            outcomes["refused"] += 1
    return outcomes


@pytest.mark.parametrize("case", ESTIMATOR_CASES[::6], ids=lambda c: str(c.estimator)[:50])
def test_changed_files_are_models_or_refused(case, path):
    assert fuzz(path, case, range(12))["refused"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", ESTIMATOR_CASES, ids=lambda c: str(c.estimator)[:50])
def test_many_changed_files(case, path):
    print(fuzz(path, case, range(1000, 1060)))


def test_damaged_bytes_are_refused(path):
    model_file(path)
    data, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        bad = bytearray(data)
        bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(bad) if rng.random() < 0.7 else data[: rng.integers(len(data))])
        try:
            load(path)
        except MercerError as error:
            assert isinstance(error, ModelFileError)  # noqa: PT017


def test_what_a_file_says_of_its_model(path):
    model_file(path)
    said = info(path)
    assert said["class"] == "KernelRidge"
    assert said["training_rows"] == 30
    assert said["mercer"] == mercer.__version__
    assert "RBF" in said["kernel"]
    assert "training_rows    30" in str(said)


# ------------------------------------------------------------------------------------------------ engines
def test_an_engine_comes_back(path):
    pytest.importorskip("torch")
    X, y = regression(20)
    model = KernelRidge(kernel=RBF(), engine=Engine("torch", precision="float64", on_oom="cpu")).fit(X, y)
    save(model, path)
    again = load(path)
    assert again.engine == model.engine
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("engine", ["torch", Engine("torch", precision="fast")])
@pytest.mark.parametrize("make", [lambda e: KernelRidge(kernel=RBF(), engine=e), lambda e: KernelDensity(engine=e)])
def test_a_model_answers_where_its_engine_is_not_installed(path, monkeypatch, engine, make):
    pytest.importorskip("torch")
    X, y = regression(20)
    model, plain = make(engine).fit(X, y), make(None).fit(X, y)
    save(model, path)

    def missing():
        raise ImportError("this engine needs torch")

    monkeypatch.setattr("mercer.engines.tensors._import_torch", missing)
    with pytest.warns(EngineWarning, match=r"engine=.*torch.* is replaced by None: this engine needs torch"):
        again = load(path)
    assert again.engine is None
    ask = (lambda m: m.predict(X)) if hasattr(plain, "predict") else (lambda m: m.score_samples(X))
    np.testing.assert_allclose(ask(again), ask(plain), rtol=1e-3, atol=1e-5)


def test_what_a_newer_class_has_besides(path):
    """A file from before a parameter was there has the value that it had, unsaid."""
    save(KernelDensity(engine="reference").fit(regression(20)[0]), path)
    found = read(path)
    tree = mercer.persist.unflatten(found.content, found.arrays)
    del tree["model"]["parts"]["engine"]
    write(path, "model", *flatten(tree))
    assert load(path).engine is None

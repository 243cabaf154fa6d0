"""Every estimator that takes kernels takes kernels of objects: strings, documents, sets, trees, graphs, series, and records.

The whole grid of estimators and kinds of rows is slow. Every estimator with two kinds, and every kind with three, are not.
"""

import os
import pickle
import subprocess
import sys
from functools import cache
from inspect import signature
from itertools import product

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_clusterer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from estimator_cases import answers, suited
from mercer import (
    SVC,
    SVR,
    BudgetKernelClassifier,
    BudgetKernelRegressor,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelCCA,
    KernelFisherDiscriminant,
    KernelKMeans,
    KernelLogistic,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeCV,
    KMedoids,
    L1VMClassifier,
    L1VMRegressor,
    L2VMClassifier,
    L2VMRegressor,
    NadarayaWatson,
    NearestMedoidClassifier,
    NuSVC,
    NuSVR,
    Nystroem,
    OneClassSVM,
    RBFNetwork,
    RVMClassifier,
    RVMRegressor,
    SVCPath,
)
from mercer.kernels import (
    RBF,
    Categorical,
    Fisher,
    GlobalAlignment,
    Jaccard,
    LocalAlignment,
    MarkovChain,
    MeanMap,
    Spectrum,
    SubsetTree,
    TfIdf,
    WeisfeilerLehman,
)
from mercer.registry import ESTIMATORS

N = 16

# Nadaraya-Watson says where a query is like no training row; that is what rows of unseen symbols are.
# A relevance vector machine says where no function tells of the targets, as for the few rows of a fold.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*kernel values of 0 alone:mercer.errors.NumericalWarning"),
    pytest.mark.filterwarnings("ignore:no basis function raises the evidence:mercer.errors.NumericalWarning"),
]

ESTIMATORS_OF_KERNELS = [
    BudgetKernelClassifier(5, max_iter=3, random_state=0),
    BudgetKernelRegressor(5, max_iter=3, random_state=0),
    GaussianProcessClassifier(optimizer=None),
    GaussianProcessRegressor(alpha=0.1, optimizer=None),
    GaussianProcessRegressor(alpha=0.1, method="sparse", n_inducing=10, optimizer=None, random_state=0),
    GaussianProcessRegressor(alpha=0.1, method="iterative", optimizer=None, random_state=0),
    KernelCCA(1),
    KernelCCA(1, n_landmarks=10, random_state=0),
    KernelFisherDiscriminant(alpha=0.1),
    KernelKMeans(2, n_init=3, random_state=0),
    KernelKMeans(2, n_landmarks=1e-3, n_init=3, random_state=0),
    KernelLogistic(),
    KernelLogistic(n_landmarks=1e-4, random_state=0),
    KernelMachineClassifier(6, random_state=0),
    KernelMachineClassifier(4, centers="ols", alpha=0.1),
    KernelMachineRegressor(6, centers="random", random_state=0),
    KernelNeighborsClassifier(3, weights="distance"),
    KernelNeighborsRegressor(3, weights="distance"),
    KernelPCA(2),
    KernelPCA(2, n_landmarks=6, random_state=0),
    KernelPerceptron(random_state=0),
    KernelRidge(0.1),
    KernelRidge(0.1, fit_intercept=True, solver="cg"),
    KernelRidge(0.1, n_landmarks=1e-3, random_state=0),
    KernelRidgeCV(),
    KMedoids(2, n_init=3, random_state=0),
    L1VMClassifier(0.05),
    L1VMRegressor(0.01),
    L2VMClassifier(0.1),
    L2VMRegressor(0.1),
    NadarayaWatson(),
    NearestMedoidClassifier(2, n_init=3, random_state=0),
    NuSVC(nu=0.2),
    NuSVR(),
    Nystroem(n_components=4, random_state=0),
    OneClassSVM(nu=0.2),
    RBFNetwork(alpha=0.1),
    RVMClassifier(),
    RVMRegressor(noise=0.01),
    SVC(),
    SVC(multi_class="ovr", C=10.0),
    SVCPath([1.0, 10.0], cv=2),
    SVR(),
]
#: Their kernels are words for windows, or have a spectral density: they are of vectors by nature. With what they say of text.
OF_VECTORS = {
    "GPLVM": "text",
    "KernelDensity": "text",
    "KernelDensityClassifier": "text",
    "LocalRegression": "text",
    "MeanShift": "text",
    "MixtureRegression": "text",
    "PolynomialSketch": "text",
    "RandomFourierFeatures": "text",
}


# ---------------------------------------------------------------------------------------------- data
def words(n, seed=0, letters="acgt"):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), size)) for size in rng.integers(6, 14, n)]


def notes(n, seed=0, known="rain sun wind snow fog"):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(known.split(), size)) for size in rng.integers(2, 6, n)]


def sets(n, seed=0, letters="abcdefghij"):
    return [set(word) for word in words(n, seed, letters)]


def bags(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((size, 2)) + rng.random() for size in rng.integers(1, 5, n)]


def trees(n, seed=0, symbols="xyz"):
    rng = np.random.default_rng(seed)

    def tree(depth):
        if depth == 0 or rng.random() < 0.3:
            return str(rng.choice(list(symbols)))
        return (str(rng.choice(["S", "N", "V"])), *(tree(depth - 1) for _ in range(rng.integers(1, 4))))

    return [("S", tree(2), tree(2)) for _ in range(n)]


def graphs(n, seed=0, labels="CNO"):
    rng = np.random.default_rng(seed)
    found = []
    for size in rng.integers(4, 8, n):
        edges = [(i, j) for i in range(size) for j in range(i) if rng.random() < 0.5]
        found.append({"edges": edges, "labels": rng.choice(list(labels), size).tolist()})
    return found


def pulses(n, seed=0):
    rng = np.random.default_rng(seed)
    return [np.sin(rng.uniform(0.5, 2.0) * np.arange(size)) for size in rng.integers(4, 9, n)]


def table(n, seed=0, kinds=("red", "green")):
    rng = np.random.default_rng(seed + 50)
    columns = {"dna": words(n, seed), "age": rng.standard_normal(n), "kind": rng.choice(kinds, n)}
    objects = {"pulse": pulses(n, seed), "bond": graphs(n, seed)}
    return pd.DataFrame({**columns, **{name: pd.Series(it, dtype=object) for name, it in objects.items()}})


MIXED = (Spectrum(2).on("dna").normalise() * RBF(0.7).on("age") + GlobalAlignment(2.0).on("pulse")
         + Categorical().on("kind") + 0.5 * WeisfeilerLehman(1).on("bond").normalise())  # fmt: skip

#: kernel, rows, rows with what fit has never seen, and a parameter with values to choose from
KINDS = {
    "strings": (Spectrum(2).normalise(), words(N), [*words(4, 9, "xyz"), "", "acgtx"], ("spectrum__k", [1, 3])),
    "genes": (LocalAlignment(), words(N), [*words(3, 9, "axy"), ""], ("beta", [0.1, 1.0])),
    "documents": (TfIdf(), notes(N), [*notes(3, 5), "hail", ""], ("smooth", [True, False])),
    "sets": (Jaccard().gaussian(0.7), sets(N), [*sets(3, 5, "abcxyz"), set()], ("gaussian__lengthscale", [0.3, 1.0])),
    "bags": (MeanMap(RBF(0.8)), bags(N), [*bags(3, 5), np.empty((0, 2))], ("kernel", [RBF(0.3), RBF(2.0)])),
    "trees": (SubsetTree(0.5).normalise(), trees(N), trees(4, 5, "xuv"), ("subsettree__decay", [0.1, 0.9])),
    "graphs": (
        WeisfeilerLehman(2).normalise(),
        graphs(N),
        [*graphs(4, 5, "CHS"), {"edges": [], "labels": []}],
        ("weisfeilerlehman__iterations", [0, 3]),
    ),
    "series": (GlobalAlignment(2.0), pulses(N), [[0.0], *pulses(3, 5), []], ("lengthscale", [0.3, 9.0])),
    "models": (
        Fisher(MarkovChain(1), "diagonal"),
        words(N),
        [*words(3, 9), "a"],
        ("information", ["identity", "diagonal"]),
    ),
    "records": (MIXED, table(N), table(5, 7, ("blue", "red")), ("rbf__lengthscale", [0.1, 10.0])),
}
MISSING = (None, np.nan, pd.NA)
#: What is no object of a kind, beside what is missing.
BAD = {**dict.fromkeys(("strings", "genes", "documents", "sets", "trees", "graphs", "models"), 3), "bags": "abc",
       "series": [0.0, np.nan]}  # fmt: skip


@cache
def target(kind):
    """Numbers that the objects decide: their place along the first principal component of the kernel."""
    kernel, X, _, _ = KINDS[kind]
    values, vectors = np.linalg.eigh(kernel.centre()(X))
    return np.sqrt(values[-1]) * vectors[:, -1]


def take(rows, chosen):
    return rows.iloc[chosen] if isinstance(rows, pd.DataFrame) else [rows[i] for i in chosen]


def array_of(rows):
    """Rows as an array of objects."""
    array = np.empty(len(rows), dtype=object)
    for i, x in enumerate(rows):
        array[i] = x
    return array


def made(estimator, kernel):
    return clone(estimator).set_params(kernel=kernel)


@cache
def fitted(number, kind):
    """The estimator of this number, fitted to a kind of rows."""
    kernel, X, _, _ = KINDS[kind]
    model = made(ESTIMATORS_OF_KERNELS[number], kernel)
    return model.fit(X, suited(model, target(kind)))


def size(model, X, y=None):
    """A score that moves with every answer."""
    return float(np.abs(np.asarray(answers(model, X), float)).sum())


def unchanged(X):
    return X


# ---------------------------------------------------------------------------------------------- the grid
#: Machines of a Gram matrix, of some of its columns, and of distances.
_WITH_EVERY_KIND = (
    SVC(),
    KernelMachineRegressor(6, centers="random", random_state=0),
    KMedoids(2, n_init=3, random_state=0),
)


def pairs(kinds=tuple(KINDS), fast=("strings", "records")):
    """Estimators by number and kinds of rows: all of them, the ones left out of the fast lane marked."""
    names = [" ".join(repr(e).split()) for e in ESTIMATORS_OF_KERNELS]
    everywhere = {names.index(repr(e)) for e in _WITH_EVERY_KIND}
    return [
        pytest.param(
            i, kind, id=f"{names[i]}-{kind}", marks=[] if kind in fast or i in everywhere else pytest.mark.slow
        )
        for i, kind in product(range(len(names)), kinds)
    ]


def grid(*kinds, fast=("strings", "records")):
    return pytest.mark.parametrize(("number", "kind"), pairs(kinds or tuple(KINDS), fast))


def test_every_estimator_is_here():
    tried = {type(e).__name__ for e in ESTIMATORS_OF_KERNELS}
    several = {cls.__name__ for cls in ESTIMATORS.values() if "kernels" in signature(cls).parameters}  # see test_mkl
    assert tried | set(OF_VECTORS) | several == {cls.__name__ for cls in ESTIMATORS.values()}
    assert not tried & set(OF_VECTORS)


# ---------------------------------------------------------------------------------------------- the tests
@grid()
def test_answers_for_all_rows(number, kind):
    """Of the fit, some of them in another order, and with what fit has never seen; the same from a pickle."""
    _, X, unseen, _ = KINDS[kind]
    model = fitted(number, kind)
    again = pickle.loads(pickle.dumps(model))
    for rows in (X, take(X, [5, 1, 7]), unseen):
        got = np.asarray(answers(model, rows), float)
        assert len(got) == len(rows)
        assert np.isfinite(got).all()
        np.testing.assert_array_equal(answers(again, rows), got)
    np.testing.assert_allclose(answers(model, take(X, [5, 1, 7])), np.asarray(answers(model, X))[[5, 1, 7]], atol=1e-9)


@grid()
def test_same_as_precomputed(number, kind):
    """The Gram matrix tells all that an estimator knows of objects."""
    kernel, X, unseen, _ = KINDS[kind]
    model = fitted(number, kind)
    if isinstance(model, Nystroem) or getattr(model, "n_landmarks", None) is not None:
        pytest.skip("landmarks are rows")
    if isinstance(model, (GaussianProcessClassifier, GaussianProcessRegressor)):
        pytest.skip("a Gram matrix has no k(x, x) of new rows, which variances need")
    y, kernel = suited(model, target(kind)), kernel.resolve(X)
    if hasattr(model, "kneighbors") and kind in ("documents", "trees", "graphs"):
        pytest.skip("rows at equal distances have no order")
    if hasattr(model, "kneighbors"):  # a Gram matrix has no k(x, x) of new rows, which distances need
        model = clone(model).set_params(weights="uniform").fit(X, y)
    given = made(model, "precomputed").fit(kernel(X), y)
    answer = (lambda m, rows: m.predict(rows)) if is_clusterer(model) else answers
    for rows in (X, unseen):
        np.testing.assert_allclose(answer(model, rows), answer(given, kernel(rows, X)), rtol=1e-6, atol=1e-6)


@grid(fast=("strings",))
def test_grid_search_in_a_pipeline(number, kind):
    kernel, X, _, (parameter, values) = KINDS[kind]
    model = made(ESTIMATORS_OF_KERNELS[number], kernel)
    key = f"{type(model).__name__.lower()}__kernel__{parameter}"
    line = make_pipeline(FunctionTransformer(unchanged), model)
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(line, {key: values}, cv=folds, scoring=size, error_score="raise")
    search.fit(X, suited(model, target(kind)))
    found = search.cv_results_["mean_test_score"]
    if found.any():  # a relevance vector machine without functions says the same whatever the kernel
        assert np.ptp(found) > 1e-9 * np.abs(found).max()
    best = search.best_estimator_[-1]
    assert best.kernel.get_params()[parameter] == search.best_params_[key] == best.kernel_.get_params()[parameter]


@pytest.mark.parametrize("kind", KINDS)
def test_cross_validation(kind):
    """Folds know nothing of each other: each score is that of a fit to the other rows alone."""
    kernel, X, _, _ = KINDS[kind]
    model, y, folds = SVC(kernel=kernel), suited(SVC(), target(kind)), KFold(2, shuffle=True, random_state=0)
    scores = cross_val_score(model, X, y, cv=folds, scoring=size, error_score="raise")
    for score, (train, test) in zip(scores, folds.split(X), strict=True):
        assert score == pytest.approx(size(clone(model).fit(take(X, train), y[train]), take(X, test)), rel=1e-12)


@grid(*(kind for kind in KINDS if kind != "records"), fast=())
def test_forms_of_rows(number, kind):
    """Lists, tuples, arrays of objects, one column of a table: the same answers."""
    kernel, X, unseen, _ = KINDS[kind]
    model = fitted(number, kind)
    y, expected = suited(model, target(kind)), answers(model, unseen)
    column = pd.Series(array_of(X), dtype=object)
    for form in (tuple(X), array_of(X), column, pd.DataFrame({"it": column})):
        rows = pd.DataFrame({"it": array_of(unseen)}) if isinstance(form, pd.DataFrame) else array_of(unseen)
        np.testing.assert_array_equal(answers(made(model, kernel).fit(form, y), rows), expected)


def test_records_as_tuples_and_dicts():
    """As from a table, also where a column holds arrays of one length."""
    X = table(N).assign(pulse=pd.Series([np.resize(p, 6) for p in pulses(N)], dtype=object))
    records, y = X.to_dict("records"), target("records")
    expected = KernelRidge(kernel=MIXED).fit(X, y).predict(X)
    np.testing.assert_array_equal(KernelRidge(kernel=MIXED).fit(records, y).predict(records), expected)
    k, rows = Spectrum(2).on(0) * GlobalAlignment(2.0).on(1), [(r["dna"], r["pulse"]) for r in records]
    columns = Spectrum(2).on("dna") * GlobalAlignment(2.0).on("pulse")
    np.testing.assert_array_equal(k(rows), columns(X))


@grid("series", fast=())
def test_series_of_equal_length_in_one_array(number, kind):
    """An array (n, length) is n series; those asked for later may be longer. What changes after fit changes nothing."""
    X = np.array([np.resize(p, 6) for p in pulses(N)])
    kernel, model = KINDS[kind][0], clone(ESTIMATORS_OF_KERNELS[number])
    y, rows = suited(model, target(kind)), [np.resize(p, 9) for p in pulses(4, 3)]
    series = [x.copy() for x in X]
    of_list, of_array = made(model, kernel).fit(series, y), made(model, kernel).fit(X, y)
    expected = answers(of_list, rows)
    np.testing.assert_array_equal(answers(of_array, np.array(rows)), expected)
    X[:] = 7.0
    for x in series:
        x[:] = 7.0
    for model in (of_list, of_array):  # a pickle keeps the rows alone, and reads them again
        np.testing.assert_array_equal(answers(model, rows), expected)
        np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(model)), rows), expected)


@grid(*BAD, fast=())
def test_bad_rows_are_named(number, kind):
    """What is missing, and gaps in series, also where rows are repeated, which many estimators merge, or few are centres."""
    kernel, X, _, _ = KINDS[kind]
    model = fitted(number, kind)
    y = suited(model, target(kind)).copy()
    y[1] = y[0]
    for bad in (*MISSING, BAD[kind]):
        if bad is not BAD[kind] or kind == "series":
            with pytest.raises((TypeError, ValueError), match="row 3: "):
                made(model, kernel).fit([X[0], X[0], X[2], bad, *X[4:]], y)
        with pytest.raises((TypeError, ValueError), match=r"row \d+: "):
            made(model, kernel).fit([*X[:3], bad, *X[4:]], y)
        with pytest.raises((TypeError, ValueError), match="row 3: "):
            answers(model, [*X[:3], bad])


def test_bad_entries_of_a_table_are_named():
    """By their rows in the table, which merging of equal rows changes; not those of columns that no kernel reads."""
    X = pd.concat([table(N).iloc[[0, 0]], table(N)], ignore_index=True)[["dna", "pulse"]]
    y = suited(SVC(), np.r_[target("records")[[0, 0]], target("records")])
    parts = {"dna": Spectrum(2).on("dna").normalise(), "pulse": GlobalAlignment(2.0).on("pulse")}
    for column, other in (("dna", "pulse"), ("pulse", "dna")):
        broken = X.copy()
        broken.at[6, column] = None
        with pytest.raises(TypeError, match="row 6: "):
            SVC(kernel=parts["dna"] + parts["pulse"]).fit(broken, y)
        assert len(SVC(kernel=parts[other]).fit(broken, y).predict(broken)) == len(X)


def test_models_from_a_file_in_another_process(tmp_path):
    """Whose strings and sets have other hashes."""
    models = {kind: SVC(kernel=KINDS[kind][0]).fit(KINDS[kind][1], suited(SVC(), target(kind))) for kind in KINDS}
    joblib.dump({kind: (model, KINDS[kind][2]) for kind, model in models.items()}, tmp_path / "models.joblib")
    script = ("import joblib, sys\n"
              "models = joblib.load(sys.argv[1])\n"
              "print({kind: model.decision_function(rows).tolist() for kind, (model, rows) in models.items()})\n")  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, tmp_path / "models.joblib"],
        env={**os.environ, "PYTHONHASHSEED": "123"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = eval(done.stdout)
    for kind, model in models.items():
        np.testing.assert_allclose(found[kind], model.decision_function(KINDS[kind][2]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OF_VECTORS)
def test_estimators_of_vectors_refuse_objects(name):
    cls = next(c for c in ESTIMATORS.values() if c.__name__ == name)
    y = suited(cls(), target("strings"))
    if "kernel" in cls().get_params():
        with pytest.raises((TypeError, ValueError), match=r"kernel|Spectrum|numbers|text"):
            cls(kernel=Spectrum(2)).fit(words(N), y)
    with pytest.raises((TypeError, ValueError), match=OF_VECTORS[name]):
        cls().fit(words(N), y)

"""Every estimator that takes kernels takes kernels of objects: strings, series of unequal lengths, and records of all kinds."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_clusterer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from estimator_cases import answers, suited
from mercer import (
    SVC,
    SVR,
    KernelFisherDiscriminant,
    KernelKMeans,
    KernelLogistic,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeCV,
    KMedoids,
    NadarayaWatson,
    NearestMedoidClassifier,
    NuSVC,
    NuSVR,
    Nystroem,
    OneClassSVM,
    SVCPath,
)
from mercer.kernels import RBF, Categorical, GlobalAlignment, Spectrum
from mercer.registry import ESTIMATORS

N = 24

# Nadaraya-Watson says where a query is like no training row; that is what rows of unseen symbols are.
pytestmark = pytest.mark.filterwarnings("ignore:.*kernel values of 0 alone:mercer.errors.NumericalWarning")

ESTIMATORS_OF_KERNELS = [
    KernelFisherDiscriminant(alpha=0.1),
    KernelKMeans(2, n_init=5, random_state=0),
    KernelKMeans(2, n_landmarks=1e-3, n_init=5, random_state=0),
    KernelLogistic(),
    KernelLogistic(n_landmarks=1e-4, random_state=0),
    KernelNeighborsClassifier(3, weights="distance"),
    KernelNeighborsRegressor(3, weights="distance"),
    KernelPCA(2),
    KernelPCA(2, n_landmarks=10, random_state=0),
    KernelPerceptron(random_state=0),
    KernelRidge(0.1),
    KernelRidge(0.1, fit_intercept=True, solver="cg"),
    KernelRidge(0.1, n_landmarks=1e-3, random_state=0),
    KernelRidgeCV(),
    KMedoids(2, n_init=5, random_state=0),
    NadarayaWatson(),
    NearestMedoidClassifier(2, n_init=5, random_state=0),
    NuSVC(nu=0.2),
    NuSVR(),
    Nystroem(n_components=4, random_state=0),
    OneClassSVM(nu=0.2),
    SVC(),
    SVC(multi_class="ovr", C=10.0),
    SVCPath([1.0, 10.0], cv=2),
    SVR(),
]
#: Their kernels are words for windows, or have a spectral density: they are of vectors by nature.
OF_VECTORS = {
    "KernelDensity",
    "KernelDensityClassifier",
    "LocalRegression",
    "MeanShift",
    "MixtureRegression",
    "PolynomialSketch",
    "RandomFourierFeatures",
}


# ---------------------------------------------------------------------------------------------- data
def words(n, seed=0, letters="acgt"):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), size)) for size in rng.integers(6, 14, n)]


def pulses(n, seed=0):
    rng = np.random.default_rng(seed)
    return [np.sin(rng.uniform(0.5, 2.0) * np.arange(size)) for size in rng.integers(4, 9, n)]


def table(n, seed=0, kinds=("red", "green")):
    rng = np.random.default_rng(seed + 50)
    columns = {"dna": words(n, seed), "age": rng.standard_normal(n), "kind": rng.choice(kinds, n)}
    return pd.DataFrame({**columns, "pulse": pd.Series(pulses(n, seed), dtype=object)})


def target(rows):
    """A number that the objects decide."""
    if isinstance(rows, pd.DataFrame):
        return rows["age"].to_numpy() + target(rows["dna"].tolist())
    return np.array([(x.count("a") / len(x)) if isinstance(x, str) else float(np.abs(np.diff(x)).mean()) for x in rows])


MIXED = (
    Spectrum(2).on("dna").normalise() * RBF(0.7).on("age") + GlobalAlignment(2.0).on("pulse") + Categorical().on("kind")
)
UNSEEN = [*words(4, 9, "xyz"), "", "acgtx"]

#: kernel, rows, rows with what fit has never seen, and a parameter with values to choose from
KINDS = {
    "strings": (Spectrum(2).normalise(), words(N), UNSEEN, {"kernel__spectrum__k": [1, 2, 4]}),
    "series": (GlobalAlignment(2.0), pulses(N), [[0.0], *pulses(3, 5), []], {"kernel__lengthscale": [0.3, 2.0, 9.0]}),
    "records": (MIXED, table(N), table(6, 7, ("blue", "red")), {"kernel__rbf__lengthscale": [0.1, 1.0, 10.0]}),
}


def take(rows, chosen):
    return rows.iloc[chosen] if isinstance(rows, pd.DataFrame) else [rows[i] for i in chosen]


def made(estimator, kernel):
    return clone(estimator).set_params(kernel=kernel)


def name(estimator):
    return " ".join(repr(estimator).split())


def size(model, X, y=None):
    """A score that moves with every answer."""
    return float(np.abs(np.asarray(answers(model, X), float)).sum())


each = pytest.mark.parametrize("estimator", ESTIMATORS_OF_KERNELS, ids=name)
kinds = pytest.mark.parametrize("kind", KINDS)


# ---------------------------------------------------------------------------------------------- the tests
def test_every_estimator_is_here():
    tried = {type(e).__name__ for e in ESTIMATORS_OF_KERNELS}
    assert tried | OF_VECTORS == {cls.__name__ for cls in ESTIMATORS.values()}
    assert not tried & OF_VECTORS


@kinds
@each
def test_fit_answer_clone_and_pickle(estimator, kind):
    kernel, X, unseen, _ = KINDS[kind]
    model = made(estimator, kernel)
    y = suited(model, target(X))
    model.fit(X, y)
    for rows in (X, take(X, [5, 1, 7]), unseen):
        got = np.asarray(answers(model, rows), float)
        assert len(got) == len(rows)
        assert np.isfinite(got).all()
        np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(model)), rows), got)
        np.testing.assert_array_equal(answers(clone(model).fit(X, y), rows), got)


@kinds
@each
def test_same_as_precomputed(estimator, kind):
    """The Gram matrix tells all that an estimator knows of objects."""
    kernel, X, unseen, _ = KINDS[kind]
    if isinstance(estimator, Nystroem) or getattr(estimator, "n_landmarks", None) is not None:
        pytest.skip("landmarks are rows")
    if hasattr(estimator, "kneighbors"):  # a Gram matrix has no k(x, x) of new rows, which distances need
        estimator = clone(estimator).set_params(weights="uniform")
    y = suited(estimator, target(X))
    kernel = kernel.resolve(X)
    model, given = made(estimator, kernel).fit(X, y), made(estimator, "precomputed").fit(kernel(X), y)
    answer = (lambda m, rows: m.predict(rows)) if is_clusterer(estimator) else answers
    for rows in (X, unseen):
        np.testing.assert_allclose(answer(model, rows), answer(given, kernel(rows, X)), rtol=1e-6, atol=1e-6)


@kinds
@each
def test_cross_validation_and_grid_search(estimator, kind):
    kernel, X, _, grid = KINDS[kind]
    model = made(estimator, kernel)
    y = suited(model, target(X))
    folds = KFold(2, shuffle=True, random_state=0)
    scores = cross_val_score(model, X, y, cv=folds, scoring=size, error_score="raise")
    assert np.isfinite(scores).all()
    search = GridSearchCV(model, grid, cv=folds, scoring=size, error_score="raise").fit(X, y)
    found = search.cv_results_["mean_test_score"]
    assert np.ptp(found) > 1e-9 * np.abs(found).max()
    (key, chosen), best = next(iter(search.best_params_.items())), search.best_estimator_
    assert best.get_params()[key] == chosen
    assert dict(best.kernel_.get_params())[key.removeprefix("kernel__")] == chosen


@each
def test_forms_of_rows(estimator):
    """Lists, tuples, arrays of objects, one column of a table: the same answers."""
    for kind in ("strings", "series"):
        kernel, X, unseen, _ = KINDS[kind]
        y = suited(estimator, target(X))
        expected = answers(made(estimator, kernel).fit(X, y), unseen)
        array = np.empty(len(X), dtype=object)
        array[:] = X
        for form in (tuple(X), array, pd.Series(X, dtype=object), pd.DataFrame({"it": pd.Series(X, dtype=object)})):
            model = made(estimator, kernel).fit(form, y)
            rows = pd.DataFrame({"it": pd.Series(unseen, dtype=object)}) if isinstance(form, pd.DataFrame) else unseen
            np.testing.assert_array_equal(answers(model, rows), expected)


@each
def test_series_of_equal_length_in_one_array(estimator):
    """An array (n, length) is n series; those asked for later may be longer."""
    X = np.array([np.resize(p, 6) for p in pulses(N)])
    y = suited(estimator, target(X))
    model = made(estimator, GlobalAlignment(2.0)).fit(X, y)
    rows = [np.resize(p, 9) for p in pulses(4, 3)]
    np.testing.assert_array_equal(answers(model, np.array(rows)), answers(model, rows))
    np.testing.assert_array_equal(answers(model, X), answers(made(estimator, GlobalAlignment(2.0)).fit(list(X), y), X))


@each
def test_series_changed_after_fit(estimator):
    X = [p.copy() for p in pulses(N)]
    y, rows = suited(estimator, target(X)), pulses(5, 4)
    model = made(estimator, GlobalAlignment(2.0)).fit(X, y)
    before = answers(model, rows)
    for p in X:
        p[:] = 7.0
    np.testing.assert_array_equal(answers(model, rows), before)
    np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(model)), rows), before)


@each
def test_bad_rows_are_named(estimator):
    for kind, bad in (("strings", None), ("strings", np.nan), ("series", [0.0, np.nan]), ("series", "abc")):
        kernel, X, _, _ = KINDS[kind]
        y = suited(estimator, target(X))
        with pytest.raises((TypeError, ValueError), match="row 3: "):
            made(estimator, kernel).fit([*X[:3], bad, *X[4:]], y)
        model = made(estimator, kernel).fit(X, y)
        with pytest.raises((TypeError, ValueError), match="row 3: "):
            answers(model, [*X[:3], bad])


@pytest.mark.parametrize("cls", [c for c in ESTIMATORS.values() if c.__name__ in OF_VECTORS], ids=lambda c: c.__name__)
def test_estimators_of_vectors_refuse_objects(cls):
    if "kernel" in cls().get_params():
        with pytest.raises((TypeError, ValueError), match=r"kernel|Spectrum|numbers|text"):
            cls(kernel=Spectrum(2)).fit(words(N), suited(cls(), target(words(N))))
    with pytest.raises((TypeError, ValueError)):
        cls().fit(words(N), suited(cls(), target(words(N))))

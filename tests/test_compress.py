"""Compression: fewer vectors, found by three methods, against brute force; copies of every kind of machine that keep working."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime, minimize
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from estimator_cases import ESTIMATOR_CASES
from mercer import (
    SVC,
    SVR,
    KernelDensity,
    KernelFisherDiscriminant,
    KernelKMeans,
    KernelLogistic,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelNeighborsClassifier,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeCV,
    NuSVC,
    NuSVR,
    OneClassSVM,
    RBFNetwork,
    SVCPath,
    compress,
)
from mercer.approx import reduce_set, reduced_sets
from mercer.errors import (
    ConvergenceWarning,
    MemoryBudgetError,
    NotDifferentiableError,
    NotPSDError,
    NumericalWarning,
)
from mercer.gram import gram
from mercer.kernels import RBF, Chi2, Intersection, Laplacian, Linear, Polynomial, Sigmoid, Spectrum, White

METHODS = ("gradient", "kmeans", "greedy")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
TWO = (np.hypot(*X.T) > 1.1).astype(int)
THREE = np.digitize(np.hypot(*X.T), [0.8, 1.4])
T = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2])
NEW = RNG.standard_normal((25, 2))


def target(kernel=None, n=30, t=2, dtype=np.float64, rows=None):
    """A kernel, rows, coefficients, and the record that searches look at."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((n, 2)).astype(dtype) if rows is None else rows
    A = rng.standard_normal((len(rows), t)).astype(dtype)
    return gram(kernel or RBF(0.7), rows), A


def distance(kernel, X, A, Z, C):
    """Relative distance of two expansions from one dense Gram."""
    rows, both = np.vstack([X, Z]).astype(float), np.vstack([A, -C]).astype(float)
    K = kernel(rows)
    return np.sqrt(max((both * (K @ both)).sum(), 0.0) / (A * (K[: len(X), : len(X)] @ A)).sum())


def best(kernel, X, A, Z):
    """Relative distance of the best coefficients on Z."""
    return distance(kernel, X, A, Z, np.linalg.lstsq(kernel(Z), kernel(Z, X) @ A, rcond=None)[0])


# ---------------------------------------------------------------------------------------------- the error and the coefficients
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("refit", ["norm", "values"])
def test_the_error_is_the_distance_of_the_expansions(method, dtype, refit):
    K, A = target(dtype=dtype)
    found = reduce_set(K, A, 4, method, rng=np.random.default_rng(0), refit=refit)
    assert found.centres.dtype == found.coefficients.dtype == dtype
    assert found.centres.shape == (4, 2)
    expected = distance(K.kernel, K.y.rows, A, found.centres, found.coefficients)
    np.testing.assert_allclose(found.error, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_coefficients_are_the_nearest_in_norm(method):
    K, A = target()
    found = reduce_set(K, A, 6, method, rng=np.random.default_rng(0))
    expected = np.linalg.solve(K.kernel(found.centres), K.kernel(found.centres, K.y.rows) @ A)
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-5, atol=1e-6)
    assert 0 < found.jitter < 1e-10


def test_coefficients_are_the_nearest_in_values():
    """Up to the small part that the norm has in it, which must not be seen where the rows decide."""
    K, A = target()
    Z = K.y.rows[:6]
    F, G = K.dense() @ A, K.kernel(K.y.rows, Z)
    c, _ = reduced_sets._Target(K, A).coefficients(Z, "values")
    exact = np.linalg.lstsq(G, F, rcond=None)[0]
    misses = [np.square(F - G @ c_).sum() for c_ in (c, exact, np.linalg.solve(K.kernel(Z), G.T @ A))]
    assert misses[1] <= misses[0] <= misses[1] * 1.001 < misses[2]
    share = reduced_sets._NORM_SHARE * np.square(G).sum() / 6
    expected = np.linalg.solve(G.T @ G + share * K.kernel(Z), G.T @ F + share * G.T @ A)
    np.testing.assert_allclose(c, expected, rtol=1e-6)


@pytest.mark.parametrize("gap", [1e-2, 1e-3, 1e-4])
def test_near_vectors_keep_their_cancelling_coefficients(gap):
    """Pairs of near vectors are slopes: what is added to a diagonal must not take them away."""
    K, A = target(RBF(2.0), n=200, t=1)
    Z = np.vstack([K.y.rows[:8], K.y.rows[:8] + gap])
    F, G = K.dense() @ A, K.kernel(K.y.rows, Z)
    by_norm, by_values = (reduced_sets._Target(K, A).coefficients(Z, refit)[0] for refit in ("norm", "values"))
    assert np.square(F - G @ by_values).sum() <= np.square(F - G @ by_norm).sum() * (1 + 1e-9)


def test_values_are_summed_over_tiles():
    K, A = target(n=5000, t=3)
    Z = K.y.rows[:6]
    c, _ = reduced_sets._Target(K, A).coefficients(Z, "values")
    F, G = K @ A, K.kernel(K.y.rows, Z)
    share = reduced_sets._NORM_SHARE * np.square(G).sum() / 6
    expected = np.linalg.solve(G.T @ G + share * K.kernel(Z), G.T @ F + share * G.T @ A)
    np.testing.assert_allclose(c, expected, rtol=1e-6)


# ---------------------------------------------------------------------------------------------- the methods
def test_greedy_takes_the_best_row_at_every_step():
    K, A = target()
    rows, chosen = K.y.rows, []
    for _ in range(5):
        errors = [best(K.kernel, rows, A, rows[[*chosen, i]]) if i not in chosen else np.inf for i in range(len(rows))]
        chosen.append(int(np.argmin(errors)))
    found = reduce_set(K, A, 5, "greedy", rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found.centres, rows[chosen])
    np.testing.assert_allclose(found.error, min(errors), rtol=1e-6)


def test_greedy_ends_when_the_rows_are_spanned():
    K, A = target(Linear())
    found = reduce_set(K, A, 10, "greedy", rng=np.random.default_rng(0))
    assert len(found.centres) == 2
    assert found.error < 1e-7


def test_kmeans_takes_means_of_heavy_rows():
    """Three far groups; rows of small coefficients hardly move their mean."""
    rows = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 10, axis=0) + 0.1 * np.random.default_rng(0).random((30, 2))
    A = np.ones((30, 1))
    A[::2] = -3.0
    found = reduce_set(gram(RBF(1.0), rows), A, 3, "kmeans", rng=np.random.default_rng(0))
    expected = [np.average(rows[i : i + 10], axis=0, weights=np.abs(A[i : i + 10, 0])) for i in (0, 10, 20)]
    order = np.argsort(found.centres @ [1.0, 2.0])
    np.testing.assert_allclose(found.centres[order], expected, rtol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.7), Polynomial(2), RBF(0.7) + 0.5 * Linear(), RBF(1.0) * Laplacian(2.0),
                                    RBF(0.7) + White(0.3)], ids=str)  # fmt: skip
def test_the_slope_is_that_of_the_error(kernel):
    K, A = target(kernel)
    search = reduced_sets._Search(reduced_sets._Target(K, A), K.y.rows[:4] + 0.1, None)
    Z = K.y.rows[:4] + 0.1
    value, slope = search.at(Z)
    np.testing.assert_allclose(
        slope.ravel(), approx_fprime(Z.ravel(), lambda z: search.at(z.reshape(Z.shape))[0], 1e-6), atol=1e-5
    )
    if not isinstance(kernel, type(RBF() + White())):
        np.testing.assert_allclose(value, best(kernel, K.y.rows, A, Z) ** 2, rtol=1e-6)


@pytest.mark.parametrize("k", [2, 5, 12])
def test_moving_beats_its_starts(k):
    K, A = target()
    errors = {m: reduce_set(K, A, k, m, rng=np.random.default_rng(0)).error for m in METHODS}
    assert errors["gradient"] < (0.99 if k == 2 else 0.9) * min(errors["kmeans"], errors["greedy"])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("refit", ["norm", "values"])
def test_an_expansion_of_k_vectors_is_found_again(method, refit):
    """Every row three times: the means, the rows that are chosen, and where the search ends are those rows."""
    rows = np.random.default_rng(0).standard_normal((8, 2))
    K, A = target(RBF(0.5), rows=np.tile(rows, (3, 1)))
    found = reduce_set(K, A, 8, method, rng=np.random.default_rng(0), refit=refit)
    assert found.error < 1e-6
    F = gram(K.kernel, NEW, found.centres) @ found.coefficients
    np.testing.assert_allclose(F, gram(K.kernel, NEW, K.y.rows) @ A, rtol=1e-6, atol=1e-6)


def test_two_vectors_are_a_linear_kernel():
    model = KernelRidge(alpha=0.1).fit(X, T)
    small = compress(model, 2, random_state=0)
    assert small.compression_.error < 1e-6
    np.testing.assert_allclose(small.predict(NEW), model.predict(NEW), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", [Chi2(1.0), Intersection()], ids=str)
def test_vectors_stay_where_the_kernel_is_defined(kernel):
    model = KernelRidge(0.1, kernel=kernel).fit(np.abs(X), T[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        small = compress(model, 5, random_state=0)
    assert small.X_fit_.min() >= 0
    assert small.compression_.error < compress(model, 5, "kmeans", random_state=0).compression_.error


@pytest.mark.parametrize("method", METHODS)
def test_functions_that_are_zero(method):
    """Terms that cancel, and a kernel that is 0 on all rows."""
    rows = np.random.default_rng(0).standard_normal((10, 2))
    K, A = target(rows=np.vstack([rows, rows]))
    A[10:] = -A[:10]
    found = reduce_set(K, A, 3, method, rng=np.random.default_rng(0))
    assert found.error < 1  # in parts of the length that rounding may leave; 0 where sums cancel to the last bit
    assert np.abs(found.coefficients).max() < 1e-6
    found = reduce_set(gram(Linear(), np.zeros((5, 2))), np.ones((5, 1)), 2, method, rng=np.random.default_rng(0))
    assert found.error == 0
    assert np.isfinite(found.coefficients).all()


def test_noise_of_equal_rows_is_no_part_of_predictions():
    """White noise is in the Gram of the fit and in no prediction; so it is in no distance."""
    model = KernelRidge(0.01, kernel=RBF(0.7) + White(0.5)).fit(X, T[:, 0])
    plain = KernelRidge(0.51, kernel=RBF(0.7)).fit(X, T[:, 0])
    for method in METHODS:
        a, b = (compress(m, 8, method, random_state=0) for m in (model, plain))
        np.testing.assert_allclose(a.compression_.error, b.compression_.error, rtol=1e-3)
        np.testing.assert_allclose(a.predict(NEW), b.predict(NEW), rtol=0, atol=0.05)


# ---------------------------------------------------------------------------------------------- every kind of machine
RADIAL = RBF(0.7)
MACHINES = [
    (KernelRidge(0.1, kernel=RADIAL, fit_intercept=True), T[:, 0]),
    (KernelRidge(0.1, kernel=RADIAL), T),
    (KernelRidge(0.1, kernel=RADIAL, n_landmarks=40, random_state=0), T),
    (KernelRidge(0.1, kernel=Polynomial(2), solver="primal"), T),
    (KernelRidgeCV(kernel=RADIAL), T),
    (SVC(C=10, kernel=RADIAL), TWO),
    (SVC(C=10, kernel=RADIAL), THREE),
    (SVC(C=10, kernel=RADIAL, multi_class="ovr"), THREE),
    (SVC(C=10, kernel=RADIAL, decision_function_shape="ovo"), THREE),
    (SVC(C=10, kernel=RADIAL, break_ties=True), THREE),
    (SVC(C=10, kernel="linear"), TWO),
    (SVCPath([1.0, 10.0], kernel=RADIAL), TWO),
    (NuSVC(nu=0.2, kernel=RADIAL), THREE),
    (SVR(C=10, kernel=RADIAL, epsilon=0.01), T[:, 0]),
    (NuSVR(C=10, kernel=RADIAL), T[:, 0]),
    (OneClassSVM(nu=0.3, kernel=RADIAL), None),
    (KernelPerceptron(RADIAL, random_state=0), TWO),
    (KernelPerceptron(RADIAL, random_state=0), THREE),
    (KernelPerceptron(Linear(), random_state=0), THREE),
    (KernelLogistic(0.1, kernel=RADIAL), TWO),
    (KernelLogistic(0.1, kernel=RADIAL), THREE),
    (KernelFisherDiscriminant(kernel=RADIAL), THREE),
    (KernelPCA(3, kernel=RADIAL), None),
    (KernelPCA(3, kernel=RADIAL, whiten=True), None),
    (KernelPCA(3, kernel=RADIAL, n_landmarks=30, random_state=0), None),
    (KernelKMeans(3, kernel=RADIAL, random_state=0), None),
    (KernelMachineRegressor(20, kernel=RADIAL, alpha=0.1, random_state=0), T),
    (KernelMachineClassifier(20, centers="random", kernel=RADIAL, alpha=0.1, random_state=0), THREE),
    (KernelMachineClassifier(20, kernel=RADIAL, alpha=0.1, random_state=0), TWO),
    (RBFNetwork(kernel=RADIAL, alpha=0.1, tail="constant"), T[:, 0]),
]
ANSWERS = ("predict", "decision_function", "predict_proba", "predict_log_proba", "transform", "score_samples")


def fitted(estimator, y, rows=X):
    return clone(estimator).fit(rows) if y is None else clone(estimator).fit(rows, y)


@pytest.mark.parametrize(
    ("estimator", "y"), MACHINES, ids=lambda v: " ".join(repr(v).split())[:70] if hasattr(v, "fit") else ""
)
def test_every_machine_answers_by_its_new_expansion(estimator, y):
    """The record is true, the model is as it was, and a pickled copy says the same."""
    model = fitted(estimator, y)
    before = {a: getattr(model, a)(NEW) for a in ANSWERS if hasattr(model, a)}
    n = model.expansion_.n_vectors
    small = compress(model, max(n // 2, 2) if n > 2 else 1, "greedy")
    e, record = small.expansion_, small.compression_
    assert type(small) is type(model)
    assert small.solver_used_ == "compressed"
    assert record.n_vectors <= record.n_before // 2 + 1
    assert record.bytes_after < record.bytes_before
    np.testing.assert_array_equal(e.intercept, model.expansion_.intercept)
    expected = distance(
        model.kernel_, model.expansion_.centres, model.expansion_.coefficients, e.centres, e.coefficients
    )
    np.testing.assert_allclose(record.error, expected, rtol=1e-4, atol=1e-6)
    again = pickle.loads(pickle.dumps(small))
    for a, values in before.items():
        np.testing.assert_array_equal(getattr(model, a)(NEW), values)  # the model is as it was
        answers = getattr(small, a)(NEW)
        assert answers.shape == values.shape
        assert answers.dtype == values.dtype
        np.testing.assert_array_equal(getattr(again, a)(NEW), answers)
    if hasattr(small, "_columns") and not isinstance(small, (KernelRidge, KernelRidgeCV)):
        sums = model.kernel_(NEW, e.centres) @ e.coefficients + e.intercept
        np.testing.assert_allclose(small._sums(NEW) + small.intercept_, sums, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("estimator", "y"), MACHINES, ids=lambda v: " ".join(repr(v).split())[:70] if hasattr(v, "fit") else ""
)
def test_answers_are_those_of_the_model_when_nothing_is_lost(estimator, y):
    """Rows that occur several times in an expansion: as many vectors as there are different rows are enough."""
    model = fitted(estimator, y)
    e = model.expansion_
    twice = model._with_expansion(
        np.vstack([e.centres, e.centres]), np.vstack([e.coefficients * 0.25, e.coefficients * 0.75])
    )
    small = compress(twice, len(e.centres), "kmeans")
    for a in ANSWERS:
        if hasattr(model, a):
            expected = getattr(model, a)(NEW)
            if a == "predict" and expected.dtype.kind != "f":
                np.testing.assert_array_equal(getattr(small, a)(NEW), expected)
            else:
                np.testing.assert_allclose(getattr(small, a)(NEW), expected, rtol=1e-4, atol=1e-4)


def test_ridge_predictions_are_the_formula():
    small = compress(fitted(*MACHINES[0]), 6, random_state=0)
    e = small.expansion_
    expected = RADIAL(NEW, e.centres) @ e.coefficients[:, 0] + e.intercept[0]
    np.testing.assert_allclose(small.predict(NEW), expected, rtol=1e-10)


def test_float32_stays_float32():
    model = SVC(C=10, kernel=RADIAL).fit(X.astype(np.float32), THREE)
    small = compress(model, 5, random_state=0)
    assert small.X_fit_.dtype == small.expansion_.coefficients.dtype == np.float32
    assert (
        small.decision_function(NEW.astype(np.float32)).dtype == model.decision_function(NEW.astype(np.float32)).dtype
    )


def test_a_refit_forgets():
    small = compress(SVC(C=10, kernel=RADIAL).fit(X, TWO), 5, random_state=0)
    assert not hasattr(clone(small), "compression_")
    small.fit(X, TWO)
    assert not hasattr(small, "compression_")
    assert len(small.support_) == len(small.X_fit_)


def test_what_a_copy_cannot_answer_is_refused():
    small = compress(KernelRidge(0.1, kernel=RADIAL).fit(X, T), 5, "greedy")
    assert not hasattr(small, "leave_one_out")
    assert not hasattr(small, "smoother")
    small = compress(KernelPCA(3, kernel=RADIAL).fit(X), 5, "greedy")
    for ask in (
        lambda: small.reconstruction_error(NEW),
        lambda: small.denoise(NEW),
        lambda: small.inverse_transform(np.eye(3)),
    ):
        with pytest.raises(ValueError, match="compressed copy"):
            ask()
    with pytest.raises(AttributeError, match="compressed copy"):
        small.eigenvectors_  # noqa: B018
    small = compress(KernelPCA(3, kernel=RADIAL, n_landmarks=20, random_state=0).fit(X), 5, "greedy")
    assert not hasattr(small, "partial_fit")
    small = compress(KernelPerceptron(RADIAL, random_state=0).fit(X, TWO), 5, "greedy")
    assert not hasattr(small, "partial_fit")
    assert not hasattr(small, "mistake_bound")
    small = compress(SVC(C=10, kernel=RADIAL).fit(X, THREE), 5, "greedy")
    assert not hasattr(small, "support_")
    assert not hasattr(small, "dual_coef_")


def test_centres_of_clusters_have_their_own_length():
    """Distances in feature space from the definition: the centres of the copy are its expansions."""
    small = compress(KernelKMeans(3, kernel=RADIAL, random_state=0).fit(X), 12, random_state=0)
    c, Z = small.expansion_.coefficients, small.X_fit_
    square = 1.0 - 2.0 * RADIAL(NEW, Z) @ c + np.einsum("ij,ij->j", c, RADIAL(Z) @ c)
    np.testing.assert_allclose(small.transform(NEW), np.sqrt(square), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_probabilities_are_those_of_the_copy():
    model = SVC(C=10, kernel=RADIAL, probability=True, random_state=0).fit(X, TWO)
    twice = model._with_expansion(np.vstack([model.X_fit_] * 2), np.vstack([model._columns / 2] * 2))
    np.testing.assert_allclose(twice.predict_proba(NEW), model.predict_proba(NEW), rtol=1e-6)
    small = compress(model, 4, random_state=0)
    order = np.argsort(small.decision_function(NEW))
    assert (np.diff(small.predict_proba(NEW)[order, 1]) >= 0).all()
    assert not np.allclose(small.predict_proba(NEW), model.predict_proba(NEW))


def test_basis_functions_that_are_no_expansion_are_refused():
    for model, why in (
        (KernelMachineRegressor(20, kernel=RADIAL, normalised=True, random_state=0), "divided by their sum"),
        (RBFNetwork(kernel=RADIAL, alpha=0.1, normalised=True), "divided by their sum"),
        (RBFNetwork(kernel=RADIAL, alpha=0.1, tail="linear"), "linear tail"),
    ):
        with pytest.raises(TypeError, match=f"{type(model).__name__} cannot be compressed: .*{why}"):
            compress(model.fit(X, T[:, 0]), 5)
    small = compress(KernelMachineRegressor(20, centers="ols", kernel=RADIAL).fit(X, T[:, 0]), 5, "greedy")
    assert small.centers_used_ == "compressed"
    assert not hasattr(small, "error_reduction_")


EXPANSIONS = [case for case in ESTIMATOR_CASES if hasattr(type(case.estimator), "expansion_")]


@pytest.mark.parametrize("case", EXPANSIONS, ids=str)
def test_every_registered_expansion_is_compressed_or_refused(case):
    """Answers of the copy are its expansion by the formula; what cannot be compressed says why."""
    rows, y = case.data()
    model, new = case.estimator.fit(case.rows(rows), y), case.data(seed=1)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # some have one vector
        try:
            small = compress(model, 0.5, "greedy", refit="norm")
        except (TypeError, ValueError) as error:
            refusal = str(error)
        else:
            refusal = None
    if refusal is not None:
        assert any(said in refusal for said in REFUSED), refusal
        return
    e = small.expansion_
    assert e.n_vectors <= max(1, model.expansion_.n_vectors)
    sums = e.kernel(new, e.centres) @ e.coefficients + e.intercept
    answers = np.reshape(expansion_of(small, new, sums), sums.shape)
    np.testing.assert_allclose(answers, sums, rtol=1e-5, atol=1e-6 * np.abs(sums).max())


REFUSED = ("cannot take another expansion", "no kernel expansion", "not certified positive semi-definite", "precomputed",
           "voted", "compressed")  # fmt: skip


def expansion_of(model, new, sums):
    """The answer of a model that is its expansion."""
    if isinstance(model, KernelDensity):
        return np.exp(model.score_samples(new))
    if isinstance(model, KernelKMeans):  # |phi(x) - c|^2 = k(x, x) - 2 c(x) + |c|^2
        return (model.kernel_.diag(new)[:, None] + model.norms_ - np.square(model.transform(new))) / 2
    if is_classifier(model) and isinstance(model, KernelFisherDiscriminant):
        return model.transform(new)
    if is_classifier(model) or isinstance(model, OneClassSVM):
        return model.decision_function(new) if sums.shape[1] == 1 else model._scores(new)
    return model.predict(new) if hasattr(model, "predict") else model.transform(new)


# ---------------------------------------------------------------------------------------------- densities
@pytest.mark.parametrize("bandwidth", [0.5, [0.4, 0.6], [[0.3, 0.1], [0.1, 0.2]]], ids=["number", "columns", "matrix"])
@pytest.mark.parametrize("window", ["gaussian", "exponential"])
def test_a_density_is_its_expansion(bandwidth, window):
    if window == "exponential" and np.ndim(bandwidth) == 2:
        with pytest.raises(AttributeError, match="no exponential kernel with a bandwidth matrix"):
            KernelDensity(bandwidth, kernel=window).fit(X).expansion_  # noqa: B018
        return
    for form in ("radial", "product"):
        model = KernelDensity(bandwidth, kernel=window, form=form).fit(X, sample_weight=np.arange(1.0, 61.0))
        e = model.expansion_
        np.testing.assert_allclose((e.kernel(NEW, e.centres) @ e.coefficients)[:, 0], np.exp(model.score_samples(NEW)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("refit", ["norm", "values"])
def test_a_compressed_density_is_a_density(method, refit):
    model = KernelDensity(0.5).fit(X, sample_weight=np.linspace(1.0, 2.0, 60))
    small = compress(model, 8, method, refit=refit, X=NEW, random_state=0)
    record = small.compression_
    assert (small.weights_ > 0).all()
    np.testing.assert_allclose(small.weights_.sum(), 1.0, rtol=1e-12)
    assert len(small.X_fit_) == record.n_vectors <= 8
    e = small.expansion_
    np.testing.assert_allclose(
        record.error, distance(e.kernel, X, model.expansion_.coefficients, e.centres, e.coefficients), rtol=1e-5
    )
    assert record.score_before == model.score(NEW)
    assert record.score_after == small.score(NEW)
    assert small.sample(2000, random_state=0).shape == (2000, 2)
    np.testing.assert_allclose(
        small.sample(20000, random_state=0).mean(axis=0), small.weights_ @ small.X_fit_, atol=0.03
    )
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again.score_samples(NEW), small.score_samples(NEW))
    with pytest.raises(ValueError, match="compressed copy"):
        small.loo_log_density()
    assert not hasattr(small.fit(X), "compression_")


@pytest.mark.parametrize("refit", ["norm", "values"])
def test_masses_are_the_nearest_ones(refit):
    """Against a general solver; unconstrained ones are partly negative."""
    K, A = target(RBF(0.8))
    A = np.abs(A[:, :1])
    Z = np.random.default_rng(3).standard_normal((7, 2))
    G, own = K.kernel(K.y.rows, Z), K.kernel(Z)
    S, b = own, (G.T @ A)[:, 0]
    if refit == "values":
        share = reduced_sets._NORM_SHARE * np.square(G).sum() / 7
        S, b = G.T @ G + share * own, (G.T @ K.dense() @ A)[:, 0] + share * b
    total = {"type": "eq", "fun": lambda c: c.sum() - A.sum()}
    settings = {"bounds": [(0, None)] * 7, "constraints": total, "options": {"ftol": 1e-14, "maxiter": 500}}
    best = minimize(lambda c: c @ S @ c - 2 * c @ b, np.full(7, A.sum() / 7), method="SLSQP", **settings)
    c = reduced_sets._Masses(K, A).coefficients(Z, refit)[0][:, 0]
    assert (c >= 0).all()
    np.testing.assert_allclose(c.sum(), A.sum(), rtol=1e-12)
    np.testing.assert_allclose(c, best.x, atol=2e-4 * A.sum())
    assert reduced_sets._Target(K, A).coefficients(Z, refit)[0].min() < 0


def test_the_slope_of_masses_is_that_of_the_error():
    K, A = target()
    Z = K.y.rows[:4] + 0.1
    search = reduced_sets._Search(reduced_sets._Masses(K, np.abs(A)), Z, None)
    value, slope = search.at(Z)
    numeric = approx_fprime(Z.ravel(), lambda z: search.at(z.reshape(Z.shape))[0], 1e-6)
    np.testing.assert_allclose(slope.ravel(), numeric, atol=1e-5)
    c = search.target.coefficients(Z, "norm")[0]
    np.testing.assert_allclose(value, distance(K.kernel, K.y.rows, np.abs(A), Z, c) ** 2, rtol=1e-6)


def test_densities_that_are_no_expansion_are_refused():
    for settings, why in (
        ({"bounds": [(None, 9.0), (None, None)]}, "reflected"),
        ({"factors": "adaptive"}, "bandwidths of their own"),
        ({"categorical": [1]}, "categories"),
    ):
        rows = np.round(X) if "categorical" in settings else X
        with pytest.raises(TypeError, match=f"KernelDensity cannot be compressed: .*{why}"):
            compress(KernelDensity(**settings).fit(rows), 5)
    with pytest.raises(NotPSDError, match="certified"):
        compress(KernelDensity(kernel="tophat").fit(X), 5)
    with pytest.raises(ValueError, match="both or neither"):
        compress(KernelDensity().fit(X), 5, y=TWO)


# ---------------------------------------------------------------------------------------------- other rows
def test_strings_are_chosen_not_made():
    words = ["".join(np.random.default_rng(i).choice(list("acgt"), 12)) for i in range(30)]
    model = KernelRidge(0.1, kernel=Spectrum(2).normalise()).fit(words, np.array([w.count("a") for w in words], float))
    small = compress(model, 10, "greedy")
    assert set(small.X_fit_) <= set(words)
    assert len(small.X_fit_) == 10
    assert small.predict(words).shape == (30,)
    for method in ("gradient", "kmeans"):
        with pytest.raises(NotDifferentiableError, match="greedy"):
            compress(model, 10, method)


@pytest.mark.parametrize("method", METHODS)
def test_sparse_rows(method):
    dense = compress(KernelRidge(0.1, kernel=RADIAL).fit(X, T), 8, method, random_state=0)
    small = compress(KernelRidge(0.1, kernel=RADIAL).fit(sp.csr_array(X), T), 8, method, random_state=0)
    np.testing.assert_allclose(small.compression_.error, dense.compression_.error, rtol=1e-3)
    np.testing.assert_allclose(small.predict(sp.csr_array(NEW)), dense.predict(NEW), atol=0.02)


# ---------------------------------------------------------------------------------------------- the call
def test_how_many():
    model = SVC(C=10, kernel=RADIAL).fit(X, TWO)
    n = len(model.support_)
    assert compress(model, 0.3, "greedy").compression_.n_vectors == round(0.3 * n)
    assert compress(model, 1e-9, "greedy").compression_.n_vectors == 1
    with pytest.warns(NumericalWarning, match="is not less than"):
        same = compress(model, n, X=X, y=TWO)
    np.testing.assert_array_equal(same.decision_function(NEW), model.decision_function(NEW))
    record = same.compression_
    assert (record.n_vectors, record.error, record.method) == (n, 0.0, "none")
    assert record.score_before == record.score_after == model.score(X, TWO)
    assert same is not model
    assert not hasattr(model, "compression_")
    assert len(same.support_) == n


def test_a_model_without_vectors():
    model = SVR(epsilon=9.0, kernel=RADIAL).fit(X, T[:, 0])
    assert len(model.X_fit_) == 0
    with pytest.warns(NumericalWarning, match="0 vectors"):
        same = compress(model, 5)
    np.testing.assert_array_equal(same.predict(NEW), model.predict(NEW))


def test_the_record(capsys):
    model = SVC(C=10, kernel=RADIAL).fit(X, TWO)
    small = compress(model, 6, X=NEW, y=(np.hypot(*NEW.T) > 1.1).astype(int), random_state=0, verbose=True)
    record, out = small.compression_, capsys.readouterr().out
    assert record.score_before == model.score(NEW, np.hypot(*NEW.T) > 1.1)
    assert record.score_after == small.score(NEW, np.hypot(*NEW.T) > 1.1)
    ridge = KernelRidge(0.1, kernel=RADIAL).fit(X, T)
    scores = compress(ridge, 4, "greedy", X=X, y=T).compression_
    assert scores.score_before == ridge.score(X, T) > scores.score_after
    assert record.bytes_after == 6 * 3 * 8
    assert record.converged
    assert record.n_iter > 0
    assert record.seconds > 0
    assert "relative error" in out
    assert str(record) in out
    assert f"{record.n_before} -> 6 vectors (gradient)" in out


def test_the_same_seed_gives_the_same_copy():
    model = SVC(C=10, kernel=RADIAL).fit(X, TWO)
    a, b = (compress(model, 3, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(a.X_fit_, b.X_fit_)
    np.testing.assert_array_equal(a.expansion_.coefficients, b.expansion_.coefficients)


def test_a_search_that_is_cut_short_says_so():
    model = SVC(C=10, kernel=RADIAL).fit(X, TWO)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        small = compress(model, 6, random_state=0, max_iter=2)
    assert not small.compression_.converged
    assert small.compression_.n_iter == 2


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_vectors": 0}, "n_vectors"), ({"n_vectors": 1.0}, "n_vectors"), ({"n_vectors": -0.5}, "n_vectors"),
        ({"n_vectors": True}, "n_vectors"), ({"n_vectors": "all"}, "n_vectors"), ({"n_vectors": np.nan}, "n_vectors"),
        ({"method": "magic"}, "method"), ({"refit": "magic"}, "refit"), ({"max_iter": 0}, "max_iter"),
        ({"memory": "much"}, "memory"), ({"X": X}, "both or neither"), ({"y": TWO}, "both or neither"),
    ],
)  # fmt: skip
def test_bad_arguments(change, match):
    with pytest.raises(ValueError, match=match):
        compress(SVC(kernel=RADIAL).fit(X, TWO), **{"n_vectors": 5, **change})


def test_models_that_cannot_be_compressed():
    with pytest.raises(TypeError, match="KernelNeighborsClassifier is no kernel expansion"):
        compress(KernelNeighborsClassifier().fit(X, TWO), 5)
    with pytest.raises(TypeError, match="Pipeline is no kernel expansion"):
        compress(make_pipeline(SVC()).fit(X, TWO), 5)
    with pytest.raises(TypeError, match="is no kernel expansion"):
        compress(SVC, 5)
    with pytest.raises(NotFittedError):
        compress(SVC(), 5)
    with pytest.raises(ValueError, match="precomputed"):
        compress(SVC(kernel="precomputed").fit(RADIAL(X), TWO), 5)
    with pytest.raises(ValueError, match="voted"):
        compress(KernelPerceptron(RADIAL, variant="voted", random_state=0).fit(X, TWO), 5)
    with pytest.raises(TypeError, match="no score"):
        compress(KernelPCA(2, kernel=RADIAL).fit(X), 5, X=X, y=TWO)


def test_kernels_without_a_norm_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        model = SVC(kernel=Sigmoid(0.5, -1.0), indefinite="clip").fit(X, TWO)
    with pytest.raises(NotPSDError, match="certified"):
        compress(model, 5)


def test_memory_is_asked_for_before_it_is_used():
    model = KernelRidge(0.1, kernel=RADIAL).fit(X, T)
    with pytest.raises(MemoryBudgetError, match="fewer vectors"):
        compress(model, 30, memory=1000.0)

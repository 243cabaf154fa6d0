"""Kernel logistic regression against scikit-learn on explicit features, closed forms, and its own optimality conditions."""

import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import approx_fprime, brentq
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from mercer import KernelLogistic, KernelRidge, streams
from mercer.approx import HeldLogisticSweeps, Labelled, LocalLogisticSweeps
from mercer.errors import ConvergenceWarning, MemoryBudgetError, ModelFileError, NotPSDError, NumericalWarning
from mercer.estimators.landmarks import Checkpoint
from mercer.gram import GivenGram, gram
from mercer.kernels import RBF, Linear, Sigmoid, Spectrum
from mercer.linalg import Status, safe_cholesky
from mercer.solvers import solve_logistic
from mercer.solvers.logistic import Whitened, curvature, probabilities, slopes
from mercer.threads import thread_count

ALPHA, KERNEL = 0.3, RBF(1.2)


def data(classes=2, n=120, d=2, seed=0):
    """Seeded rows, labels that depend on them and on chance, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    noisy = np.sin(2 * X[:, 0]) + X[:, -1] + 0.5 * rng.standard_normal(n)
    y = np.searchsorted(np.quantile(noisy, np.arange(1, classes) / classes), noisy)
    return X, y, rng.uniform(0.5, 2.0, n)


def one_hot(y, classes):
    return (y[:, None] == np.arange(classes)).astype(float)


def table(model, X):
    """Decisions as one column for each class but, with two, one."""
    return model.decision_function(X).reshape(len(X), -1)


def misfit(model, X, y):
    """y - p, (n, p): of the second class alone where there are two."""
    P, Y = model.predict_proba(X), one_hot(y, len(model.classes_))
    return (Y - P)[:, 1:] if len(model.classes_) == 2 else Y - P


class CutError(Exception):
    """What a test's callback ends a fit with."""


# ------------------------------------------------------------------------------------------------ scikit-learn
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("intercept", [False, True], ids=["through 0", "intercept"])
@pytest.mark.parametrize("classes", [2, 4])
def test_landmarks_are_scikit_learns_regression_on_their_features(classes, intercept, weighted):
    X, y, w = data(classes)
    w = w if weighted else None
    Z = X[:12]
    L = cholesky(KERNEL(Z), lower=True)
    phi = solve_triangular(L, KERNEL(Z, X), lower=True).T
    expected = LogisticRegression(C=1 / ALPHA, fit_intercept=intercept, solver="newton-cg", tol=1e-10, max_iter=1000)
    expected.fit(phi, y, w)
    model = KernelLogistic(ALPHA, kernel=KERNEL, landmarks=Z, fit_intercept=intercept, tol=1e-9).fit(X, y, w)
    beta = solve_triangular(L.T, expected.coef_.T)
    np.testing.assert_allclose(model.expansion_.coefficients, beta, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(phi), atol=1e-6)
    assert model.converged_
    assert model.landmarks_ is None


@pytest.mark.parametrize("classes", [2, 3])
def test_a_linear_kernel_is_plain_logistic_regression(classes):
    X, y, w = data(classes, d=3)
    expected = LogisticRegression(C=2.0, solver="newton-cg", tol=1e-10, max_iter=1000).fit(X, y, w)
    model = KernelLogistic(0.5, kernel="linear", tol=1e-9).fit(X, y, w)
    np.testing.assert_allclose(model.expansion_.coefficients.T @ model.X_fit_, expected.coef_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    assert len(model.X_fit_) == 3  # the rank of the Gram
    assert model.jitter_ == 0.0


# ------------------------------------------------------------------------------------------------ optimality
@pytest.mark.parametrize("classes", [2, 3])
def test_functions_are_sums_over_the_misfits(classes):
    """Stationarity on all rows: alpha f = K W (y - p), and misfits that weigh 0 in each class."""
    X, y, w = data(classes)
    model = KernelLogistic(ALPHA, kernel=KERNEL, tol=1e-10).fit(X, y, w)
    pull = w[:, None] * misfit(model, X, y)
    np.testing.assert_allclose(table(model, X) - model.intercept_, KERNEL(X) @ pull / ALPHA, atol=1e-6)
    np.testing.assert_allclose(pull.sum(axis=0), 0.0, atol=1e-7)
    if classes > 2:
        np.testing.assert_allclose(model.dual_coef_.sum(axis=1), 0.0, atol=1e-9)
        assert model.intercept_.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_penalised_likelihood_is_flat_at_the_answer(classes):
    X, y, w = data(classes, n=40)
    model = KernelLogistic(ALPHA, kernel=KERNEL, tol=1e-10).fit(X, y, w)
    K, p = KERNEL(X), classes if classes > 2 else 1

    def objective(flat):
        B = flat.reshape(-1, p)
        F = K @ B[:-1] + B[-1]
        F = F if p > 1 else np.hstack([np.zeros_like(F), F])
        likelihood = np.log(np.exp(F).sum(axis=1)) - F[np.arange(len(y)), y]
        return w @ likelihood + ALPHA / 2 * np.sum(B[:-1] * (K @ B[:-1]))

    B = np.zeros((len(y) + 1, p))
    B[model.landmarks_], B[-1] = model.expansion_.coefficients, model.intercept_
    assert objective(B.ravel()) == pytest.approx(model.objective_, rel=1e-9)
    at_zero = np.linalg.norm(approx_fprime(np.zeros(B.size), objective))
    assert np.linalg.norm(approx_fprime(B.ravel(), objective)) < 1e-5 * at_zero


@pytest.mark.parametrize("weighted", [False, True])
def test_one_landmark_is_a_root(weighted):
    X, y, w = data()
    w = w if weighted else np.ones(len(y))
    z, sign = np.array([[0.7, 0.2]]), 2 * y - 1
    k = KERNEL(X, z)[:, 0]
    root = brentq(lambda b: w @ (-sign * k / (1 + np.exp(sign * k * b))) + ALPHA * b, -50, 50, xtol=1e-13)
    model = KernelLogistic(ALPHA, kernel=KERNEL, landmarks=z, fit_intercept=False, tol=1e-10).fit(X, y, w)
    assert model.dual_coef_[0] == pytest.approx(root, rel=1e-8)
    assert model.intercept_[0] == 0.0


@pytest.mark.parametrize("shares", [[1, 3], [1, 3, 6]])
def test_equal_rows_have_the_odds_of_the_classes(shares):
    y = np.repeat(np.arange(len(shares)), shares)
    model = KernelLogistic(tol=1e-10).fit(np.ones((len(y), 2)), y)
    np.testing.assert_allclose(model.predict_proba([[1.0, 1.0]])[0], np.array(shares) / len(y), atol=1e-9)
    logs = np.log(shares)
    expected = logs[1:] - logs[0] if len(shares) == 2 else logs - logs.mean()
    np.testing.assert_allclose(model.intercept_, expected, atol=1e-8)


def test_exclusive_or():
    X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], np.array(["same", "other", "other", "same"])
    model = KernelLogistic(0.01, kernel=RBF(0.5)).fit(X, y)
    assert model.predict(X).tolist() == y.tolist()
    assert model.classes_.tolist() == ["other", "same"]
    assert model.predict_proba(X).max(axis=1).min() > 0.9
    blind = KernelLogistic(0.01, kernel="linear").fit(X, y)
    np.testing.assert_allclose(blind.predict_proba(X), 0.5, atol=1e-6)


# ------------------------------------------------------------------------------------------------ the loss of some rows
@pytest.mark.parametrize("p", [1, 3])
def test_slopes_and_curvature_are_derivatives(p):
    rng = np.random.default_rng(0)
    F, D = rng.standard_normal((2, 6, p))
    codes, w, h = np.array([0, 1, 1, 0, max(p - 1, 1), 1]), rng.uniform(0.5, 2, 6), 1e-6
    loss, R = slopes(F, codes, w)
    up, down = slopes(F + h * D, codes, w), slopes(F - h * D, codes, w)
    assert (up[0] - down[0]) / (2 * h) == pytest.approx((R * D).sum(), rel=1e-7)
    np.testing.assert_allclose((up[1] - down[1]) / (2 * h), curvature(F, D, w), atol=1e-8)
    every = F if p > 1 else np.hstack([np.zeros_like(F), F])
    P = np.exp(every) / np.exp(every).sum(axis=1, keepdims=True)
    assert loss == pytest.approx(-w @ np.log(P[np.arange(6), codes]), rel=1e-12)
    np.testing.assert_allclose(probabilities(F), P if p > 1 else P[:, 1:], rtol=1e-12)


@pytest.mark.parametrize("p", [1, 3])
def test_huge_margins(p):
    F = np.array([[800.0], [-800.0], [1e4], [50.0]]) * (1.0 if p == 1 else np.array([0.0, 1.0, -1.0]))
    codes, w = np.array([1, 1, 1, 1]), np.ones(4)
    loss, R = slopes(F, codes, w)
    assert loss == pytest.approx(800.0 if p == 1 else 1600.0)
    own = R[:, 0] if p == 1 else R[:, 1]
    # 1 - p is right to the last digits where p is 1 to the last bit.
    np.testing.assert_allclose(own, [0.0, -1.0, 0.0, -np.exp(-50.0)], rtol=1e-12)
    assert np.isfinite(curvature(F, F, w)).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_separated_classes_have_a_finite_answer(classes):
    rng = np.random.default_rng(0)
    y = np.arange(60) % classes
    X = rng.standard_normal((60, 2)) + 20 * np.column_stack([y, y == 1])
    model = KernelLogistic(1e-9, kernel=Linear(), tol=1e-8).fit(X, y)
    assert model.converged_
    assert model.score(X, y) == 1.0
    far = np.vstack([X, 1e6 * X])
    P, logs = model.predict_proba(far), model.predict_log_proba(far)
    assert np.isfinite(P).all()
    assert np.isfinite(logs).all()
    assert logs.min() < -1e5
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(logs), P, rtol=1e-10)


# ------------------------------------------------------------------------------------------------ passes and solver
@pytest.mark.parametrize("p", [1, 3])
def test_passes_without_the_gram_equal_those_on_it(p):
    X, y, w = data(max(p, 2), n=70_000)  # two blocks of rows, and nine groups
    Z, rng = X[:30], np.random.default_rng(1)
    B, V = rng.standard_normal((2, 31, p))
    held = HeldLogisticSweeps(KERNEL(X, Z), y, w)
    local = LocalLogisticSweeps(streams.Held(X, y[:, None].astype(float), w), gram(KERNEL, Z))
    (a, G), (b, H) = held.gradient(B), local.gradient(B)
    assert b == pytest.approx(a, rel=1e-12)
    np.testing.assert_allclose(H, G, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(local.hessian(B, V), held.hessian(B, V), rtol=1e-9, atol=1e-7)
    h = 1e-6
    change = (local.gradient(B + h * V)[1] - local.gradient(B - h * V)[1]) / (2 * h)
    np.testing.assert_allclose(local.hessian(B, V), change, atol=1e-3)


@pytest.mark.parametrize("classes", [2, 4])
def test_few_passes_on_a_gram_of_any_condition(classes):
    """The preconditioner does its work: the Gram is singular to rounding, and the penalty far below its largest eigenvalue."""
    X, y, w = data(classes, n=600)
    p, Z = classes if classes > 2 else 1, X[:100]
    K = KERNEL(X, Z)
    settings = {"rtol": 1e-8, "max_iter": 50}
    known = safe_cholesky(KERNEL(Z), warn=False)
    found = solve_logistic(HeldLogisticSweeps(K, y, w), known, GivenGram(K), w, p, 1e-2, **settings)
    assert found.status is Status.CONVERGED
    assert found.iterations <= 12
    assert found.passes <= (75 if classes > 2 else 50)


def test_an_answer_does_not_depend_on_the_scale_of_the_kernel():
    X, y, _ = data()
    one = KernelLogistic(0.1, kernel=KERNEL).fit(X, y)
    for size in (1e-20, 1e20):
        other = KernelLogistic(0.1 * size, kernel=size * KERNEL).fit(X, y)
        assert other.n_iter_ == one.n_iter_
        np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), rtol=1e-6)


def test_the_certificate_is_the_gradient():
    X, y, w = data(3)
    with pytest.warns(ConvergenceWarning, match=r"stopped at a gradient of .* \(max_iter\): raise max_iter or alpha"):
        model = KernelLogistic(ALPHA, kernel=KERNEL, landmarks=X[:20], max_iter=2, tol=1e-9).fit(X, y, w)
    assert (model.converged_, model.n_iter_) == (False, 2)
    K, Z = KERNEL(X, X[:20]), KERNEL(X[:20])
    L = cholesky(Z, lower=True)

    def size(P, beta):
        R = w[:, None] * (P - one_hot(y, 3))
        g = solve_triangular(L, K.T @ R + ALPHA * Z @ beta, lower=True)
        return np.sqrt((g**2).sum() + (R.sum(axis=0) ** 2).sum())

    start = size(np.full((len(y), 3), 1 / 3), np.zeros((20, 3)))
    assert model.residual_ == pytest.approx(size(model.predict_proba(X), model.dual_coef_) / start, rel=1e-6)


def test_a_step_that_leads_too_far_is_shortened():
    """Full Newton steps from 0 do not end on these four rows: the loss goes from 76 to 19 and then to 2e7 and back."""
    X = np.array([[0.1, -1.0], [100.0, 0.1], [100.0, -100.0], [-0.1, 10.0]])
    y, w, alpha = np.array([0, 0, 1, 1]), np.array([100.0, 0.01, 0.01, 10.0]), 1e-3
    sweeps = HeldLogisticSweeps(X, y, w)
    found = solve_logistic(sweeps, Whitened(2, np.ones(2)), GivenGram(X), w, 1, alpha, False, rtol=1e-8)
    assert found.status is Status.CONVERGED
    u = found.coefficients[:, 0]
    slope = X.T @ (w * (1 / (1 + np.exp(-X @ u)) - y)) + alpha * u
    assert np.linalg.norm(slope) < 1e-7 * np.linalg.norm(X.T @ (w * (0.5 - y)))


def test_steps_that_lead_nowhere_end():
    """Slopes that are wrong by more than is asked for: it stops where they no longer get smaller, and says so."""

    class Noisy(HeldLogisticSweeps):
        rng = np.random.default_rng(0)

        def gradient(self, B):
            loss, G = super().gradient(B)
            return loss, G + 1e-3 * self.rng.standard_normal(G.shape)

    X, y, w = data()
    found = solve_logistic(Noisy(X, y, w), Whitened(2, np.ones(2)), GivenGram(X), w, 1, ALPHA, rtol=1e-9, max_iter=1000)
    assert found.status is Status.STAGNATED
    assert found.iterations < 50
    assert found.certificate < 1e-3


def test_no_step_where_nothing_is_to_be_learned():
    model = KernelLogistic().fit(np.ones((10, 2)), np.arange(10) % 2)
    assert (model.converged_, model.n_iter_, model.residual_) == (True, 0, 0.0)
    np.testing.assert_allclose(model.predict_proba([[5.0, 5.0]]), 0.5)


# ------------------------------------------------------------------------------------------------ labels and weights
def test_labels_of_any_kind():
    X, y, w = data(3)
    names = np.array(["c", "a", "b"])[y]
    model, coded = KernelLogistic().fit(X, names, w), KernelLogistic().fit(X, np.array([2, 0, 1])[y], w)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict(X).tolist() == np.array(["a", "b", "c"])[coded.predict(X)].tolist()
    np.testing.assert_array_equal(model.predict_proba(X), coded.predict_proba(X))
    assert model.predict_proba(X).shape == (len(y), 3)


def test_one_class_is_refused():
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        KernelLogistic().fit([[0.0], [1.0]], [1, 1])
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        KernelLogistic().fit([[0.0], [1.0]], [0, 1], sample_weight=[1.0, 0.0])


@pytest.mark.parametrize("landmarks", [None, 30])
def test_weights_of_classes_are_weights(landmarks):
    X, y, w = data(3)
    y = np.where(np.arange(len(y)) % 3, 0, y)  # unbalanced
    settings = {"kernel": KERNEL, "n_landmarks": landmarks, "random_state": 0, "tol": 1e-9}
    mass = np.bincount(y, weights=w)
    factors = w.sum() / (3 * mass)
    balanced = KernelLogistic(class_weight="balanced", **settings).fit(X, y, w)
    np.testing.assert_allclose(balanced.class_weight_, factors)
    expected = KernelLogistic(**settings).fit(X, y, w * factors[y])
    np.testing.assert_allclose(balanced.decision_function(X), expected.decision_function(X), atol=1e-7)
    named = KernelLogistic(class_weight=dict(enumerate(factors)), **settings).fit(X, y, w)
    np.testing.assert_allclose(named.decision_function(X), expected.decision_function(X), atol=1e-7)
    for bad in ({0: -1.0}, {0: np.nan}, {0: 0.0, 1: 0.0, 2: 0.0}):
        with pytest.raises(ValueError, match="class_weight"):
            KernelLogistic(class_weight=bad).fit(X, y)


def test_a_row_twice_is_a_weight_of_two():
    X, y, _ = data(3)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    settings = {"kernel": KERNEL, "n_landmarks": 25, "random_state": 0}
    weighted = KernelLogistic(**settings).fit(X, y, times)
    repeated = KernelLogistic(**settings).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))


# ------------------------------------------------------------------------------------------------ landmarks and streams
def batches(X, y, w, size):
    return streams.from_batches(
        lambda: ((X[i : i + size], y[i : i + size], w[i : i + size]) for i in range(0, len(y), size))
    )


@pytest.mark.parametrize("balanced", [None, "balanced"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_stream_is_its_rows(classes, balanced):
    X, y, w = data(classes, n=400)
    y = np.where(np.arange(len(y)) % 3, 0, y)  # unbalanced
    settings = {"kernel": "rbf", "gamma": "scale", "landmarks": X[:12], "tol": 1e-8, "class_weight": balanced}
    arrays = KernelLogistic(ALPHA, **settings).fit(X, y + 5, w)
    stream = KernelLogistic(ALPHA, **settings).fit(batches(X, y + 5, w, 64))
    np.testing.assert_allclose(stream.decision_function(X), arrays.decision_function(X), atol=1e-6)
    assert stream.classes_.tolist() == arrays.classes_.tolist()
    assert stream.classes_.dtype == arrays.classes_.dtype
    np.testing.assert_allclose(stream.class_weight_, arrays.class_weight_)
    assert (stream.n_features_in_, stream.solver_used_) == (2, "landmarks")


def test_answers_depend_neither_on_batches_nor_on_threads():
    X, y, w = data(3, n=20_000)
    settings = {"kernel": KERNEL, "n_landmarks": 20, "random_state": 0}
    found = [KernelLogistic(**settings).fit(batches(X, y, w, size)) for size in (777, 20_000)]
    with threadpool_limits(1, user_api="blas"):
        assert thread_count() == 1
        found.append(KernelLogistic(**settings).fit(streams.from_arrays(X, y, w)))
    for other in found[1:]:
        np.testing.assert_array_equal(other.dual_coef_, found[0].dual_coef_)
        np.testing.assert_array_equal(other.intercept_, found[0].intercept_)


def test_a_sample_of_labelled_rows_is_labelled():
    X, y, w = data(3)
    labelled = Labelled(streams.from_arrays(X, 10.0 * y, w), np.array([0.0, 10.0, 20.0]), np.array([1.0, 2.0, 3.0]))
    seen = streams.look(labelled, 50, np.random.default_rng(0))
    np.testing.assert_array_equal(seen.sample.y[:, 0], y[seen.index])
    np.testing.assert_array_equal(seen.sample.w, (w * (1.0 + y))[seen.index])


def test_streams_that_do_not_suit():
    X, y, w = data()
    stream = streams.from_arrays(X, y, w)
    with pytest.raises(ValueError, match="need n_landmarks"):
        KernelLogistic().fit(stream)
    with pytest.raises(ValueError, match="holds its labels"):
        KernelLogistic(n_landmarks=5).fit(stream, y)
    with pytest.raises(ValueError, match="one label for each row; the stream has 2 targets"):
        KernelLogistic(n_landmarks=5).fit(streams.from_arrays(X, np.column_stack([y, y])))
    with pytest.raises(ValueError, match="Unknown label type"):
        KernelLogistic(n_landmarks=5).fit(streams.from_arrays(X, X[:, 0]))
    with pytest.raises(ValueError, match="greater than one"):
        KernelLogistic(n_landmarks=5).fit(streams.from_arrays(X, np.ones(len(y))))
    unseen = KernelLogistic(n_landmarks=5).fit(
        streams.from_arrays(X, np.where(np.arange(120) > 3, y, 9), w * (np.arange(120) > 3))
    )
    assert unseen.classes_.tolist() == [0, 1]


def test_landmarks_and_their_numbers():
    X, y, w = data(n=300)
    exact = KernelLogistic(ALPHA, kernel=KERNEL).fit(X, y, w)
    errors = []
    for count in (5, 20, 60):
        model = KernelLogistic(ALPHA, kernel=KERNEL, n_landmarks=count, random_state=0).fit(X, y, w)
        np.testing.assert_array_equal(model.X_fit_, X[model.landmarks_])
        errors.append((model.landmark_error_, np.abs(model.decision_function(X) - exact.decision_function(X)).max()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1][1] < 1e-2
    assert exact.landmark_error_ < 1e-12
    np.testing.assert_array_equal(exact.X_fit_, X[exact.landmarks_])
    with pytest.raises(ValueError, match="landmarks need rows"):
        KernelLogistic(kernel="precomputed", n_landmarks=3).fit(KERNEL(X), y)


def test_a_given_gram_is_the_kernel():
    X, y, w = data(3)
    w[::7] = 0.0
    rows = KernelLogistic(ALPHA, kernel=KERNEL, tol=1e-9).fit(X, y, w)
    given = KernelLogistic(ALPHA, kernel="precomputed", tol=1e-9).fit(KERNEL(X), y, w)
    T = X[:9] + 0.1
    np.testing.assert_allclose(given.predict_proba(KERNEL(T, X)), rows.predict_proba(T), atol=1e-7)


@pytest.mark.parametrize("landmarks", [None, 20])
def test_strings_and_sparse_rows(landmarks):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("acgt"), 10)) for _ in range(50)]
    y = [w.count("a") > 2 for w in words]
    model = KernelLogistic(0.01, kernel=Spectrum(1), n_landmarks=landmarks and 4, random_state=0).fit(words, y)
    assert model.score(words, y) > 0.9
    X, y, _ = data()
    settings = {"kernel": KERNEL, "n_landmarks": landmarks, "random_state": 0}
    dense, sparse = KernelLogistic(**settings).fit(X, y), KernelLogistic(**settings).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), rtol=1e-6)


@pytest.mark.parametrize("landmarks", [None, 40])
def test_single_precision_is_close(landmarks):
    X, y, _ = data(3, n=300)
    X = X.astype(np.float32)
    settings = {"kernel": RBF(3.0), "n_landmarks": landmarks, "random_state": 0}
    single, double = (KernelLogistic(1e-3, **settings).fit(Z, y) for Z in (X, X.astype(np.float64)))
    for verb in ("decision_function", "predict_proba", "predict_log_proba"):
        assert getattr(single, verb)(X).dtype == np.float32
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=2e-3 if landmarks else 1e-6)


# ------------------------------------------------------------------------------------------------ resources and faults
@pytest.mark.parametrize("landmarks", [None, 20])
def test_an_interrupted_fit_leaves_nothing(landmarks):
    X, y, _ = data()
    seen = []

    def stop(progress):
        seen.append(progress.iteration)
        if len(seen) == 2:
            raise KeyboardInterrupt

    model = KernelLogistic(kernel=KERNEL, n_landmarks=landmarks, random_state=0, tol=1e-9).fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callback=stop).fit(X, y)
    assert seen == sorted(set(seen))
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.predict(X)
    np.testing.assert_array_equal(model.set_params(callback=None).fit(X, y).decision_function(X), before)


def test_interrupts_are_seen_inside_a_pass():
    X, y, w = data(n=60_000, d=6)
    passes, pressed = [], []

    def press():
        pressed.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def rows():
        passes.append(None)
        if len(passes) == 4:  # all is compiled by then: Python loses interrupts that reach callbacks of the compiler
            threading.Timer(0.01, press).start()
        yield X, y, w

    model = KernelLogistic(1e-6, kernel=KERNEL, landmarks=X[:300], tol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        model.fit(streams.from_batches(rows))
    assert time.monotonic() - pressed[0] < 10
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_goes_on_from_its_checkpoint_to_the_last_bit(classes, tmp_path, monkeypatch):
    """After each of its steps, also while a preconditioner of an earlier step is in use."""
    X, y, w = data(classes, n=300)
    save = Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda self, tree, now=False: save(self, tree, now=True))
    settings = {"alpha": 1e-3, "kernel": KERNEL, "n_landmarks": 40, "tol": 1e-9}
    seen = []
    whole = KernelLogistic(random_state=3, callback=seen.append, **settings).fit(X, y, w)
    assert len(seen) > 4
    for step in range(1, len(seen)):
        told, path = [], tmp_path / f"{step}.mercer"

        def cut(progress, told=told, step=step):
            told.append(progress.iteration)
            if len(told) == step:
                raise CutError

        first = KernelLogistic(random_state=3, checkpoint=path, callback=cut, **settings)
        with pytest.raises(CutError):
            first.fit(X, y, w)
        with pytest.raises(NotFittedError):
            first.predict(X)
        again = KernelLogistic(checkpoint=path, callback=lambda p, told=told: told.append(p.iteration), **settings)
        again.fit(X, y, w)
        assert told == [p.iteration for p in seen]  # passes over the rows: none is done twice
        assert np.array_equal(again.dual_coef_, whole.dual_coef_)
        assert np.array_equal(again.intercept_, whole.intercept_)
        assert (again.n_iter_, again.objective_, again.residual_) == (whole.n_iter_, whole.objective_, whole.residual_)
    told.clear()
    again.fit(X, y, w)
    assert told == []  # it was ready


def test_checkpoints_that_do_not_suit(tmp_path):
    X, y, _ = data()
    path = tmp_path / "fit.mercer"
    KernelLogistic(0.1, kernel=KERNEL, n_landmarks=20, checkpoint=path).fit(X, y)
    with pytest.raises(ModelFileError, match="belongs to another fit"):
        KernelLogistic(0.2, kernel=KERNEL, n_landmarks=20, checkpoint=path).fit(X, y)
    with pytest.raises(ModelFileError, match="belongs to another fit"):
        KernelRidge(0.1, kernel=KERNEL, n_landmarks=20, checkpoint=path).fit(X, y)
    for model in (KernelLogistic, KernelRidge):
        with pytest.raises(ValueError, match="is for fits on landmarks; set n_landmarks"):
            model(0.1, kernel=KERNEL, checkpoint=path).fit(X, y)


def test_progress_is_told(capsys):
    X, y, _ = data()
    told = []
    model = KernelLogistic(kernel=KERNEL, callback=told.append, verbose=True).fit(X, y)
    assert len(told) == model.n_iter_
    assert told[-1].residual == model.residual_ <= model.tol
    assert capsys.readouterr().out.count("residual") == model.n_iter_


def test_explain():
    X, y, _ = data(3)
    said = KernelLogistic(kernel=KERNEL).explain(X, y)
    assert said.splitlines()[0] == "KernelLogistic(kernel=RBF(lengthscale=1.2))"
    assert "exact: the Gram matrix fits the memory budget" in said
    assert [line.split()[0] for line in said.splitlines()[3:]] == ["exact", "landmarks", "dask"]
    assert "landmarks: 30 landmarks for 120 rows" in KernelLogistic(kernel=KERNEL, n_landmarks=30).explain(X, y)
    assert "refused     kernel logistic" in KernelLogistic(kernel=KERNEL, memory="100kB").explain(X, y)


def test_what_does_not_fit_is_refused_at_once():
    start = time.monotonic()
    with pytest.raises(MemoryBudgetError, match=r"logistic regression on 50000 rows .*n_landmarks=2000"):
        KernelLogistic(memory="1GB").fit(np.arange(50_000.0)[:, None], np.arange(50_000) % 2)
    with pytest.raises(MemoryBudgetError, match=r"on 300 landmarks .*fewer landmarks"):
        KernelLogistic(memory="1MB", n_landmarks=300, landmarks="uniform").fit(*data(n=400)[:2])
    assert time.monotonic() - start < 10


def test_kernels_that_are_not_valid():
    X, y, _ = data()
    kernel = Sigmoid(gamma=1.0, coef0=-1.0)
    with pytest.raises(NotPSDError, match="not positive semi-definite"):
        KernelLogistic(kernel=kernel, indefinite="raise").fit(X, y)
    with pytest.warns(NumericalWarning, match="goes on without repair"):
        assert KernelLogistic(ALPHA, kernel=kernel).fit(X, y).score(X, y) > 0.6
    K = kernel(X)
    values, Q = np.linalg.eigh(K)
    clipped = KernelLogistic(ALPHA, kernel="precomputed", tol=1e-9).fit((Q * np.maximum(values, 0)) @ Q.T, y)
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        model = KernelLogistic(ALPHA, kernel=kernel, indefinite="clip", tol=1e-9).fit(X, y)
    expected = clipped.decision_function((Q * np.maximum(values, 0)) @ Q.T)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-5)
    assert len(model.X_fit_) == len(X)

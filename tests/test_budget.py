"""Machines on a budget: gradients, weights of given points against known machines and plain optimisers, points that move."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.datasets import make_moons

from mercer import SVC, BudgetKernelClassifier, BudgetKernelRegressor, KernelLogistic, KernelRidge, compress
from mercer.errors import (
    ConvergenceWarning,
    MemoryBudgetError,
    NotDifferentiableError,
    NotPSDError,
    NumericalWarning,
)
from mercer.gram import gram
from mercer.kernels import RBF, Chi2, Laplacian, Linear, Matern, Polynomial, Sigmoid, Spectrum, White
from mercer.linalg import Status
from mercer.solvers import budget
from mercer.solvers.budget import Features, HingeLoss, LogisticLoss, PointValues, SquaredLoss, Weights, learn_points

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 2] + 0.1 * RNG.standard_normal(60)
TWO = (Y > 0).astype(int)
THREE = np.digitize(Y, [-0.5, 0.5])
S = RNG.uniform(0.5, 2.0, 60)
NEW = RNG.standard_normal((25, 3))
LOSSES = {
    "squared": SquaredLoss(np.column_stack([Y, Y**2]), S),
    "logistic": LogisticLoss(TWO, S, 2),
    "softmax": LogisticLoss(THREE, S, 3),
    "hinge": HingeLoss(np.where(TWO, 1.0, -1.0)[:, None], S),
    "one against the rest": HingeLoss(np.where(THREE[:, None] == np.arange(3), 1.0, -1.0), S),
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


def problem(loss, Z, kernel=None, rows=X, alpha=0.1, intercept=True):
    G = gram(RBF(1.2) if kernel is None else kernel, Z)
    return Weights(Features(PointValues(G, rows), budget.own_gram(G), intercept, 10**8), loss, alpha)


def best(loss, Z, **settings):
    found = problem(loss, Z, **settings)
    return found.solve(np.zeros((found.features.q, loss.outputs)), 1e-14, 200)[0]


def plain(loss, Z, w, alpha=0.1, kernel=None):
    """The objective of weights (k, p) and constants, in so many words."""
    kernel, W, b = RBF(1.2) if kernel is None else kernel, w[:-1], w[-1]
    F = kernel(X, Z) @ W + b
    penalty = 0.5 * alpha * np.trace(W.T @ kernel(Z) @ W)
    if isinstance(loss, SquaredLoss):
        return 0.5 * (S[:, None] * (F - loss.targets) ** 2).sum() + penalty
    if isinstance(loss, HingeLoss):
        return (S[:, None] * np.maximum(0, 1 - loss.signs * F)).sum() + penalty
    if loss.outputs == 1:
        return S @ np.log1p(np.exp(-np.where(TWO, 1, -1) * F[:, 0])) + penalty
    return S @ (np.log(np.exp(F).sum(axis=1)) - F[np.arange(60), THREE]) + penalty


# ------------------------------------------------------------------------------------------------ gradients and Newton's method
@pytest.mark.parametrize("kernel", [RBF(1.2), 2 * Matern(2.5) + Polynomial(2), RBF(1.0) + White(0.5)], ids=str)
@each_loss
def test_gradient_in_the_points_is_that_of_differences(loss, kernel):
    Z, h = X[:4] + 0.1, 1e-5
    search = budget._Search(kernel, X, loss, 0.1, 4, True, None, None, 10**8, None)
    state = search.settled(Z, np.zeros((4, loss.outputs)), np.zeros(loss.outputs), 1e-14, 200)
    for i, j in [(0, 0), (1, 2), (3, 1)]:
        E = np.zeros_like(Z)
        E[i, j] = h
        ahead, behind = best(loss, Z + E, kernel=kernel).value, best(loss, Z - E, kernel=kernel).value
        assert search.slope(state)[i, j] == pytest.approx((ahead - behind) / (2 * h), rel=1e-5, abs=1e-6)


@each_loss
def test_gradient_and_hessian_of_the_weights(loss):
    found = problem(loss, X[:5] + 0.05)
    rng, q = np.random.default_rng(1), found.features.q
    U, step, h = rng.standard_normal((q, loss.outputs)), rng.standard_normal((q, loss.outputs)), 1e-6
    at = found.at(U)
    ahead, behind = found.at(U + h * step), found.at(U - h * step)
    assert (at.gradient * step).sum() == pytest.approx((ahead.value - behind.value) / (2 * h), rel=1e-6)
    bend = (ahead.gradient - behind.gradient) / (2 * h) - found.penalty[:, None] * step
    if found.joint:
        exact = (at.hessian[0] @ step.T.ravel()).reshape(step.T.shape).T
    else:
        exact = np.column_stack([at.hessian[min(c, len(at.hessian) - 1)] @ step[:, c] for c in range(loss.outputs)])
    np.testing.assert_allclose(exact, bend, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["squared", "logistic", "softmax"])
def test_weights_of_given_points_against_a_plain_optimiser(name):
    loss = LOSSES[name]
    Z, p = X[:3] + 0.05, loss.outputs
    found = minimize(lambda w: plain(loss, Z, w.reshape(4, p)), np.zeros(4 * p), method="BFGS", options={"gtol": 1e-6})
    point = best(loss, Z)
    assert point.value == pytest.approx(found.fun, rel=1e-9)
    W, b = problem(loss, Z).features.coefficients(point.U)
    assert plain(loss, Z, np.vstack([W, b])) == pytest.approx(point.value, rel=1e-10)


def test_hinge_of_given_points_against_slack_variables():
    loss, Z, k = LOSSES["hinge"], X[:4] + 0.05, 4
    K, Kz = RBF(1.2)(X, Z), RBF(1.2)(Z)
    signs = loss.signs[:, 0]

    def objective(v):
        return 0.05 * v[:k] @ Kz @ v[:k] + S @ v[k + 1 :]

    def slope(v):
        return np.concatenate([0.1 * Kz @ v[:k], [0.0], S])

    margins = {"type": "ineq", "fun": lambda v: signs * (K @ v[:k] + v[k]) - 1 + v[k + 1 :],
               "jac": lambda v: np.hstack([signs[:, None] * K, signs[:, None], np.eye(60)])}  # fmt: skip
    start = np.concatenate([np.zeros(k + 1), np.ones(60)])
    exact = minimize(objective, start, jac=slope, constraints=margins, bounds=[(None, None)] * (k + 1) + [(0, None)] * 60,
                     method="SLSQP", options={"ftol": 1e-12, "maxiter": 500})  # fmt: skip
    features = problem(loss, Z).features
    found = budget.solve_hinge(features, loss, 0.1, np.zeros((features.q, 1)))
    assert found.objective == pytest.approx(exact.fun, rel=1e-6)
    assert plain(loss, Z, np.vstack(features.coefficients(found.U))) == pytest.approx(found.objective, rel=1e-9)
    assert found.objective * (1 - found.certificate) <= exact.fun * (1 + 1e-9)
    assert found.certificate < 1e-7


@each_loss
def test_the_gap_bounds_what_is_missing(loss):
    found, least = problem(loss, X[:5] + 0.05), best(loss, X[:5] + 0.05).value
    point = found.at(np.zeros((found.features.q, loss.outputs)))
    for _ in range(12):
        assert point.value - least <= found.gap(point) + 1e-9 * least
        point = found.stepped(point)
    assert found.relative_gap(point) < 1e-6


def test_many_classes_are_solved_for_one_by_one(monkeypatch):
    """Where their Hessian together would be large."""
    Z, loss = X[:5] + 0.05, LOSSES["softmax"]
    least = best(loss, Z).value
    model = BudgetKernelClassifier(5, loss="logistic", kernel=RBF(1.2), max_iter=3, random_state=0).fit(X, THREE)
    monkeypatch.setattr(budget, "_JOINT", 1)
    found = problem(loss, Z)
    assert not found.joint
    point, steps = found.solve(np.zeros((6, 3)), 1e-9, 200)
    assert point.value == pytest.approx(least, rel=1e-8)
    assert steps > budget._AGED
    again = BudgetKernelClassifier(5, loss="logistic", kernel=RBF(1.2), max_iter=3, random_state=0).fit(X, THREE)
    np.testing.assert_allclose(again.predict_proba(NEW), model.predict_proba(NEW), atol=1e-3)


# ------------------------------------------------------------------------------------------------ known machines
def test_all_rows_as_points_are_ridge():
    for intercept in (True, False):
        settings = {"alpha": 0.3, "kernel": RBF(1.2), "fit_intercept": intercept}
        for t in (Y, np.column_stack([Y, Y**2 + 100])):
            model = BudgetKernelRegressor(60, **settings).fit(X, t, sample_weight=S)
            expected = KernelRidge(**settings).fit(X, t, sample_weight=S).predict(NEW)
            np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-9, atol=1e-9)
            assert model.vectors_used_ == "all"
            assert model.converged_
            np.testing.assert_array_equal(X[model.vector_indices_], model.vectors_)


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("intercept", [True, False])
def test_all_rows_as_points_are_logistic_regression(y, intercept):
    settings = {"alpha": 0.3, "kernel": RBF(1.2), "fit_intercept": intercept, "class_weight": "balanced"}
    rows, y, w = X[:40], y[:40], S[:40]
    model = BudgetKernelClassifier(40, loss="logistic", **settings).fit(rows, y, sample_weight=w)
    peer = KernelLogistic(tol=1e-10, **settings).fit(rows, y, sample_weight=w)
    np.testing.assert_allclose(model.decision_function(NEW), peer.decision_function(NEW), atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(NEW), peer.predict_proba(NEW), atol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), model.predict_proba(NEW), rtol=1e-12)
    assert model.objective_ == pytest.approx(peer.objective_, rel=1e-8)


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("C", [1.0, 30.0])
def test_all_rows_as_points_are_a_support_vector_machine(y, C):
    model = BudgetKernelClassifier(60, alpha=1 / C, kernel=RBF(1.2)).fit(X, y, sample_weight=S)
    peer = SVC(C=C, kernel=RBF(1.2), tol=1e-9, multi_class="ovr").fit(X, y, sample_weight=S)
    np.testing.assert_allclose(model.decision_function(NEW), peer.decision_function(NEW), atol=1e-5)
    np.testing.assert_array_equal(model.predict(NEW), peer.predict(NEW))
    assert model.dual_gap_ < 1e-6


# ------------------------------------------------------------------------------------------------ points that move
@pytest.mark.parametrize("batch_size", [256, 20], ids=["whole", "mini"])
@each_loss
def test_points_that_moved_are_better(loss, batch_size):
    Z = X[:5] + 0.1
    found = learn_points(RBF(1.2), X, loss, 0.1, Z, True, rng=np.random.default_rng(0), batch_size=batch_size, max_iter=15,
                         room=10**8)  # fmt: skip
    assert found.path[0] == pytest.approx(best(loss, Z).value, rel=1e-4)
    assert found.path[-1] == pytest.approx(best(loss, found.points).value, rel=1e-4)
    assert found.path[-1] < 0.97 * found.path[0]
    assert np.isfinite(found.path).all()
    assert (np.diff(found.path) <= 0).all()
    assert len(found.path) == found.iterations + 1 <= 16


@each_loss
def test_batches_add_up_to_the_whole(loss):
    """The loss of their rows and their share of the penalty."""
    Z, rng = X[:4] + 0.1, np.random.default_rng(3)
    W, b = rng.standard_normal((4, loss.outputs)), rng.standard_normal(loss.outputs)
    search = budget._Search(RBF(1.2), X, loss, 0.1, 4, True, None, None, 10**8, None)
    batches = np.array_split(rng.permutation(60), [25, 40])
    states = [part.settled(Z, W, b, 1e9, 0) for part in (search, *map(search.part, batches))]
    assert sum(s.point.value for s in states[1:]) == pytest.approx(states[0].point.value, rel=1e-10)
    slopes = [part.slope(s) for part, s in zip((search, *map(search.part, batches)), states, strict=True)]
    np.testing.assert_allclose(sum(slopes[1:]), slopes[0], rtol=1e-9, atol=1e-9)


def test_at_rest_the_gradient_is_small():
    loss, Z = SquaredLoss(Y[:, None], S), X[[4]]
    found = learn_points(RBF(1.2), X, loss, 1.0, Z, True, rng=np.random.default_rng(0), max_iter=300, tol=1e-11)
    assert found.status is Status.CONVERGED
    search = budget._Search(RBF(1.2), X, loss, 1.0, 1, True, None, None, 10**8, None)
    first, last = (
        search.slope(search.settled(A, np.zeros((1, 1)), np.zeros(1), 1e-13, 100)) for A in (Z, found.points)
    )
    assert np.abs(last).max() < 1e-4 * np.abs(first).max()


def test_steps_that_are_too_long_go_back():
    found = learn_points(RBF(1.2), X, LOSSES["logistic"], 0.1, X[:5], True, rng=np.random.default_rng(0), batch_size=20,
                         max_iter=6, rate=1e6, room=10**8)  # fmt: skip
    assert found.steps_back >= 3
    assert np.isfinite(found.path).all()
    assert (np.diff(found.path) <= 0).all()
    assert found.path[-1] < found.path[0]  # whole batches have no such steps
    blown = learn_points(Polynomial(3), X, LOSSES["squared"], 0.1, X[:5], True, rng=np.random.default_rng(0), batch_size=20,
                         max_iter=4, rate=1e120, room=10**8)  # fmt: skip
    assert np.isfinite(blown.path).all()
    assert np.isfinite(blown.points).all()


@pytest.mark.parametrize("settings", [{"loss": "hinge"}, {"loss": "logistic", "batch_size": 100}], ids=str)
def test_a_budget_of_ten_on_two_moons(settings):
    A, y = make_moons(400, noise=0.25, random_state=0)
    B, labels = make_moons(2000, noise=0.25, random_state=1)
    settings = {"alpha": 0.1, "kernel": RBF(0.5), "random_state": 0, **settings}
    learned = BudgetKernelClassifier(10, **settings).fit(A, y)
    fixed = BudgetKernelClassifier(10, learn_vectors=False, **settings).fit(A, y)
    full = SVC(C=10, kernel=RBF(0.5)).fit(A, y)
    assert (learned.vectors_used_, fixed.vectors_used_) == ("learned", "kmeans")
    assert learned.objective_ < fixed.objective_
    assert learned.score(B, labels) > full.score(B, labels) - 0.01
    assert learned.vectors_.shape == (10, 2)
    assert learned.objective_path_[-1] < learned.objective_path_[0]


def test_regression_needs_fewer_points_where_they_are_learned():
    A = np.random.default_rng(0).uniform(-2, 2, (500, 1))
    t = np.sin(3 * A[:, 0] ** 2)
    settings = {"alpha": 1e-3, "kernel": RBF(0.3), "random_state": 0}
    learned = BudgetKernelRegressor(14, batch_size=100, **settings).fit(A, t)
    fixed = BudgetKernelRegressor(14, learn_vectors=False, **settings).fit(A, t)
    assert 1 - learned.score(A, t) < 0.5 * (1 - fixed.score(A, t))


def test_points_start_balanced_between_the_classes():
    y = np.r_[np.zeros(54, int), np.ones(6, int)]
    model = BudgetKernelClassifier(8, learn_vectors=False, kernel=RBF(9.0), random_state=0).fit(X + 20 * y[:, None], y)
    assert len(model.vectors_) == 8
    assert (model.vectors_[:, 0] > 10).sum() == 4
    from mercer.estimators.budget import _shares

    assert _shares(8, [100, 100, 100]) == [3, 3, 2]
    assert _shares(8, [1, 100, 3]) == [1, 4, 3]
    assert _shares(20, [2, 3]) == [2, 3]


def test_points_of_kernels_on_histograms_stay_non_negative():
    A = np.abs(X)
    model = BudgetKernelRegressor(4, kernel=Chi2(), alpha=0.1, random_state=0).fit(A, Y)
    mini = BudgetKernelRegressor(2, kernel=Chi2(), alpha=0.1, batch_size=12, random_state=0).fit(A, Y)
    for found in (model, mini):
        assert found.vectors_used_ == "learned"
        assert (found.vectors_ >= 0).all()
        assert found.objective_path_[-1] < found.objective_path_[0]


# ------------------------------------------------------------------------------------------------ the same problem
@pytest.mark.parametrize("batch_size", [256, 20])
@pytest.mark.parametrize("model", [BudgetKernelClassifier(4, kernel=RBF(1.2), max_iter=4, random_state=0),
                                   BudgetKernelRegressor(4, kernel=RBF(1.2), max_iter=4, random_state=0)], ids=str)  # fmt: skip
def test_neither_repetition_nor_order_of_rows_is_seen(model, batch_size):
    model.set_params(batch_size=batch_size)
    y = TWO if isinstance(model, BudgetKernelClassifier) else Y
    times = np.random.default_rng(1).integers(0, 4, 60)
    long = np.random.default_rng(2).permutation(np.repeat(np.arange(60), times))
    weighted = model.fit(X, y, sample_weight=times).vectors_
    repeated = model.fit(X[long], y[long]).vectors_
    np.testing.assert_array_equal(np.sort(weighted, axis=0), np.sort(repeated, axis=0))


def test_float32_rows_and_answers():
    rows = X.astype(np.float32)
    for batch_size in (256, 20):
        settings = {"kernel": RBF(1.2), "max_iter": 5, "batch_size": batch_size, "random_state": 0}
        double, rounded, single = (
            BudgetKernelRegressor(4, **settings).fit(A, Y) for A in (X, rows.astype(np.float64), rows)
        )
        answers = single.predict(NEW.astype(np.float32))
        assert answers.dtype == np.float32
        np.testing.assert_allclose(answers, double.predict(NEW), atol=1e-3)
        np.testing.assert_allclose(single.vectors_, rounded.vectors_, rtol=1e-12)  # computed in float64


def test_sparse_rows_have_dense_points_or_none_that_move():
    A = np.where(X > 0.3, X, 0.0)
    settings = {"kernel": RBF(1.2), "max_iter": 5, "random_state": 0}
    sparse, dense = (BudgetKernelRegressor(5, **settings).fit(rows, Y) for rows in (sp.csr_array(A), A))
    np.testing.assert_allclose(sparse.vectors_, dense.vectors_, atol=1e-8)
    fixed = BudgetKernelRegressor(5, learn_vectors=False, **settings).fit(sp.csr_array(A), Y)
    assert sp.issparse(fixed.vectors_)
    wide = sp.random_array((60, 100_000), density=1e-3, rng=np.random.default_rng(0), format="csr")
    with pytest.raises(MemoryBudgetError, match=r"moving 5 points of 100000 columns.*learn_vectors=False"):
        BudgetKernelRegressor(5, memory="20MB", **settings).fit(wide, Y)


def test_features_that_do_not_fit_are_made_again():
    small, large = (BudgetKernelClassifier(5, kernel=RBF(1.2), max_iter=4, memory=m, random_state=0).fit(X, THREE)
                    for m in (9000, "1GB"))  # fmt: skip
    np.testing.assert_allclose(small.decision_function(NEW), large.decision_function(NEW), atol=1e-7)


# ------------------------------------------------------------------------------------------------ rows that do not move
def test_strings_and_given_grams_choose_among_the_rows():
    words = ["".join(w) for w in np.random.default_rng(0).choice(list("acgt"), (40, 8))]
    t = np.array([w.count("a") for w in words], float)
    model = BudgetKernelRegressor(12, kernel=Spectrum(2), alpha=0.1, random_state=0).fit(words, t)
    assert model.vectors_used_ == "chosen"
    assert [words[i] for i in model.vector_indices_] == model.vectors_.tolist()
    with pytest.raises(NotDifferentiableError, match=r"learn_vectors=True: Spectrum.* reads no rows of numbers"):
        BudgetKernelRegressor(12, kernel=Spectrum(2), learn_vectors=True).fit(words, t)
    K = Spectrum(2)(words)
    given = BudgetKernelRegressor(12, kernel="precomputed", alpha=0.1, random_state=0).fit(K, t)
    np.testing.assert_array_equal(given.vector_indices_, model.vector_indices_)
    np.testing.assert_allclose(given.predict(K), model.predict(words), atol=1e-9)
    with pytest.raises(NotDifferentiableError, match=r'learn_vectors=True: kernel="precomputed" has no rows'):
        BudgetKernelRegressor(12, kernel="precomputed", learn_vectors=True).fit(K, t)


def test_kernels_without_a_gradient_or_without_a_norm():
    def kernel(a, b):
        return float(np.exp(-np.square(a - b).sum() / 2))

    fixed = BudgetKernelRegressor(6, kernel=kernel, random_state=0).fit(X, Y)
    assert fixed.vectors_used_ == "kmeans"
    same = BudgetKernelRegressor(6, kernel=RBF(), learn_vectors=False, random_state=0).fit(X, Y)
    np.testing.assert_allclose(fixed.predict(NEW), same.predict(NEW), atol=1e-10)
    with pytest.raises(NotDifferentiableError, match=r"learn_vectors=True: .*Pairwise"):
        BudgetKernelRegressor(6, kernel=kernel, learn_vectors=True).fit(X, Y)
    with pytest.raises(NotPSDError, match=r"Sigmoid.*is not positive semi-definite.*no norm.*KernelMachine"):
        BudgetKernelClassifier(6, kernel=Sigmoid(gamma=1.0, coef0=-1.0)).fit(X, TWO)
    K = np.tanh(X @ X.T - 1)
    with pytest.warns(NumericalWarning, match="Gram matrix of the 60 points is not positive semi-definite"):
        odd = BudgetKernelRegressor(60, kernel="precomputed").fit(K, Y)
    assert np.isfinite(odd.predict(K)).all()


def test_more_points_than_rows():
    with pytest.warns(NumericalWarning, match="n_vectors=50 is more than the 7 different rows"):
        model = BudgetKernelRegressor(alpha=0.1, kernel=RBF()).fit(np.repeat(X[:7], 3, axis=0), np.repeat(Y[:7], 3))
    assert len(model.vectors_) == 7
    expected = KernelRidge(0.1, kernel=RBF(), fit_intercept=True).fit(np.repeat(X[:7], 3, axis=0), np.repeat(Y[:7], 3))
    np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), atol=1e-9)


@pytest.mark.parametrize("batch_size", [256, 16])
def test_odd_targets(batch_size):
    settings = {"kernel": RBF(1.2), "random_state": 0, "batch_size": batch_size, "max_iter": 5}
    np.testing.assert_allclose(BudgetKernelRegressor(4, **settings).fit(X, np.full(60, 5.0)).predict(NEW), 5.0)
    np.testing.assert_allclose(BudgetKernelRegressor(4, **settings).fit(X, Y + 2.0**27).predict(NEW) - 2.0**27,
                               BudgetKernelRegressor(4, **settings).fit(X, Y).predict(NEW), atol=1e-5)  # fmt: skip
    apart = X + 20 * TWO[:, None]
    for loss in ("hinge", "logistic"):
        model = BudgetKernelClassifier(4, loss=loss, alpha=1e-8, **settings).fit(apart, TWO)
        assert model.score(apart, TWO) == 1.0
        assert np.isfinite(model.dual_coef_).all()
        both = BudgetKernelClassifier(4, loss=loss, **settings).fit(np.vstack([X, X]), np.r_[TWO, 1 - TWO])
        np.testing.assert_allclose(both.decision_function(NEW), 0.0, atol=1e-6)


# ------------------------------------------------------------------------------------------------ the rest of the house
def test_probabilities_only_with_the_logistic_loss():
    hinge = BudgetKernelClassifier(4, kernel=RBF(1.2), max_iter=2, random_state=0).fit(X, THREE)
    assert not hasattr(hinge, "predict_proba")
    with pytest.raises(AttributeError):
        hinge.predict_log_proba(X)
    soft = BudgetKernelClassifier(4, loss="logistic", kernel=RBF(1.2), max_iter=2, random_state=0).fit(X, THREE)
    np.testing.assert_allclose(soft.predict_proba(NEW).sum(axis=1), 1.0)
    soft.set_params(loss="hinge")  # what was fitted is what answers
    np.testing.assert_array_equal(soft.predict(NEW), soft.classes_[soft.predict_proba(NEW).argmax(axis=1)])


def test_expansion_size_and_compression(capsys):
    model = BudgetKernelClassifier(6, kernel=RBF(1.2), max_iter=3, verbose=True, random_state=0).fit(X, THREE)
    assert "epoch    3  objective" in capsys.readouterr().out
    e = model.expansion_
    np.testing.assert_allclose(
        e.kernel(NEW, e.centres) @ e.coefficients + e.intercept, model.decision_function(NEW), atol=1e-10
    )
    assert model.size_report().n_vectors == 6
    assert model.n_iter_ == 3
    small = compress(model, 5, random_state=0)
    assert len(small.vectors_) == 5
    assert small.predict(NEW).shape == (25,)


def test_columns_of_targets_that_share_fixed_points_do_not_see_one_another():
    settings = {"learn_vectors": False, "kernel": Laplacian(1.5), "alpha": 0.1, "random_state": 0}
    both = BudgetKernelRegressor(7, **settings).fit(X, np.column_stack([Y, X[:, 1]]))
    one = BudgetKernelRegressor(7, **settings).fit(X, Y)
    np.testing.assert_allclose(both.predict(NEW)[:, 0], one.predict(NEW), atol=1e-10)
    assert both.dual_coef_.shape == (7, 2)


def test_weights_that_are_not_the_best_are_told_of(monkeypatch):
    monkeypatch.setattr(budget, "_SHARPEST", 0.1)  # a corner that stays as wide
    with pytest.warns(ConvergenceWarning, match="the weights are best up to"):
        model = BudgetKernelClassifier(6, kernel=RBF(1.2), learn_vectors=False, random_state=0).fit(X, TWO)
    assert not model.converged_
    assert model.dual_gap_ > 1e-6


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread alone"
)
@pytest.mark.parametrize("batch_size", [256, 10**6])
def test_interrupts_are_seen(batch_size):
    A = np.random.default_rng(0).standard_normal((20_000, 10))
    t = np.sin(A @ np.arange(10.0))
    model = BudgetKernelRegressor(
        50, kernel=Linear() + RBF(2.0), batch_size=batch_size, max_iter=1000, tol=1e-12, random_state=0
    )
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.7, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(A, t)
    assert time.monotonic() - sent[0] < 2.0  # ten times the promise
    assert not hasattr(model, "dual_coef_")

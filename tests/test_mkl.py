"""Multiple kernel learning: held triangles, four ways to weights, one kernel, and what is told about all of it."""

import pickle
import re
import warnings
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from mercer import SVC, KernelRidge, MKLClassifier, MKLRegressor, compress, top_features
from mercer.diagnostics import alignment
from mercer.errors import ConvergenceWarning, MemoryBudgetError, NotPSDError, NumericalWarning
from mercer.kernels import RBF, Categorical, Constant, Linear, Polynomial, Sigmoid, Spectrum, Sum
from mercer.linalg import Status
from mercer.solvers.gram_stack import GramStack
from mercer.solvers.mkl import (
    RidgeMachine,
    SVMachines,
    aligned_weights,
    alignments,
    band_weights,
    hull_points,
    learned_weights,
    margin_weights,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
LABELS = (X[:, 1] + 0.4 * RNG.standard_normal(60) > 0).astype(int)
SIGNS = np.where(LABELS > 0, 1.0, -1.0)
TARGET = np.sin(2 * X[:, 1]) + 0.3 * X[:, 2] + 0.1 * RNG.standard_normal(60)
NEW = np.random.default_rng(1).standard_normal((15, 3))
COLUMNS = [RBF().on(j) for j in range(3)]
CLASSIFIERS = ["easy", "alignment", "simple", "lp", "uniform"]
REGRESSORS = ["alignment", "banded", "simple", "lp", "uniform"]


def centred(K):
    H = np.eye(len(K)) - 1.0 / len(K)
    K = H @ K @ H
    return K / (np.trace(K) / len(K))


def stack_of(kernels, rows=X, dtype=np.float64):
    return GramStack.of((k(rows).astype(dtype) for k in kernels), len(kernels), len(rows), dtype)


def model_of(method, kernels, **settings):
    """A classifier or regressor, and its targets."""
    settings = {"cv": 2, **settings}
    if isinstance(method, tuple):
        return MKLRegressor(kernels, method=method[0], **settings), TARGET
    return MKLClassifier(kernels, method=method, **settings), LABELS


ALL = [*CLASSIFIERS, *((m,) for m in REGRESSORS)]
each_method = pytest.mark.parametrize("method", ALL, ids=str)


# ---------------------------------------------------------------------------------------------- held Grams
@pytest.mark.parametrize(("n", "dtype"), [(60, np.float64), (60, np.float32), (800, np.float64), (300, np.float32)])
def test_triangles_answer_as_whole_matrices_do(n, dtype):
    rows = np.random.default_rng(n).standard_normal((n, 3))
    kernels = [*COLUMNS, Linear()]
    stack, dense = stack_of(kernels, rows, dtype), np.array([centred(k(rows)) for k in kernels])
    tol = {"rtol": 1e-10, "atol": 1e-10} if dtype == np.float64 else {"rtol": 2e-4, "atol": 2e-4}
    assert stack.triangles.shape == (4, n * (n + 1) // 2)
    assert stack.triangles.dtype == dtype
    for i, K in enumerate(dense):
        np.testing.assert_allclose(stack.matrix(i), K, **tol)
    a, B = np.array([0.1, 0.0, 2.0, 0.7]), np.random.default_rng(0).standard_normal((n, 2))
    np.testing.assert_allclose(stack.combined(a), np.tensordot(a, dense, 1), **tol)
    assert stack.combined(a).dtype == dtype
    np.testing.assert_allclose(
        stack.products(), np.einsum("aij,bij->ab", dense, dense), **{**tol, "atol": n * tol["atol"]}
    )
    np.testing.assert_allclose(stack.diagonals(), np.einsum("aii->ai", dense), **tol)
    W = np.random.default_rng(2).standard_normal((n, n))
    size = np.abs(W).sum()
    np.testing.assert_allclose(stack.inner(W), np.einsum("aij,ij->a", dense, W), atol=tol["atol"] * size)
    np.testing.assert_allclose(stack.forms(B), np.einsum("ip,aij,jp->a", B, dense, B), rtol=10 * tol["rtol"])
    some = np.random.default_rng(3).permutation(n)[: n // 2]
    part = stack.of_rows(some)
    for i, k in enumerate(kernels):
        np.testing.assert_allclose(part.matrix(i), centred(k(rows[some])), **tol)
    np.testing.assert_allclose(part.scales * stack.scales, stack_of(kernels, rows[some]).scales, rtol=1e-5)


def test_triangles_survive_an_offset():
    """Means are taken away from the matrices themselves: products of 1e16 would leave nothing of a variance of 1."""
    far = stack_of([Linear().on(0), Linear()], X + 1e4)
    np.testing.assert_allclose(far.products(), stack_of([Linear().on(0), Linear()]).products(), rtol=1e-5)


def test_threads_change_nothing():
    rows = np.random.default_rng(0).standard_normal((900, 3))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            stack = stack_of(COLUMNS, rows)
            found.append((stack.products(), stack.combined([0.2, 0.5, 0.3]), stack.forms(rows)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_constant_kernels_have_no_scale():
    stack = stack_of([RBF(), Constant(3.0), 0.0 * Linear(), Linear().on(0) + 1e9])
    assert (stack.scales > 0).tolist() == [True, False, False, True]
    assert not stack.triangles[1:3].any()
    assert stack.varying.tolist() == [0, 3]
    rounding = 1e6 + 1e-10 * RBF(0.1)(X)  # varies by no more than its last digits
    assert GramStack.of([rounding], 1, 60, np.float64).scales.tolist() == [0.0]


# ---------------------------------------------------------------------------------------------- alignment
def test_alignments_are_those_of_the_diagnostics():
    expected = [alignment(k(X), SIGNS) for k in COLUMNS]
    np.testing.assert_allclose(alignments(stack_of(COLUMNS), SIGNS[:, None]), expected, rtol=1e-9)
    one_hot = (LABELS[:, None] == [0, 1]).astype(float)
    np.testing.assert_allclose(alignments(stack_of(COLUMNS), one_hot), expected, rtol=1e-9)


@pytest.mark.parametrize("targets", [SIGNS[:, None], TARGET[:, None], np.column_stack([TARGET, SIGNS, X[:, 0]])])
def test_aligned_weights_against_a_grid(targets):
    kernels = [RBF().on(1), Linear(), RBF(0.5).on(0)]
    stack, goal = stack_of(kernels), targets - targets.mean(axis=0)
    goal = goal @ goal.T

    def value(a):
        K = stack.combined(a)
        return np.vdot(K, goal) / np.linalg.norm(K) / np.linalg.norm(goal)

    grid = [np.array([i, j, 50 - i - j]) / 50 for i, j in product(range(51), range(51)) if i + j <= 50]
    values = [value(a) for a in grid]
    found = aligned_weights(stack, targets)
    assert found.sum() == pytest.approx(1.0)
    assert value(found) >= max(values) - 1e-12
    np.testing.assert_allclose(found, grid[int(np.argmax(values))], atol=0.03)


def test_aligned_weights_where_nothing_is_aligned():
    assert not aligned_weights(stack_of(COLUMNS), np.ones((60, 1))).any()
    assert not aligned_weights(stack_of([Constant(1.0)]), SIGNS[:, None]).any()


# ---------------------------------------------------------------------------------------------- margins
@pytest.mark.parametrize("lam", [0.0, 0.1, 0.9, 1.0])
def test_margin_weights_against_a_quadratic_programme(lam):
    rows = X[:24]
    y = SIGNS[:24]
    stack = stack_of([RBF(0.7).on(1), Linear(), RBF(0.5).on(0)], rows)
    K = stack.combined(np.full(3, 1 / 3))
    Q = (1 - lam) * K * np.outer(y, y) + lam * np.eye(24)
    start = np.where(y > 0, 1 / (y > 0).sum(), 1 / (y < 0).sum())
    sums = [{"type": "eq", "fun": lambda g, s=s: g[y == s].sum() - 1} for s in (1, -1)]
    best = minimize(lambda g: g @ Q @ g, start, jac=lambda g: 2 * Q @ g, bounds=[(0, None)] * 24, constraints=sums,
                    method="SLSQP", options={"ftol": 1e-14, "maxiter": 500})  # fmt: skip
    beta = hull_points(K, y, lam)
    assert beta[y > 0].sum() == pytest.approx(1)
    assert beta[y < 0].sum() == pytest.approx(-1)
    assert (y * beta >= 0).all()
    assert (y * beta) @ Q @ (y * beta) <= best.fun + 1e-7
    distances = [(y * best.x) @ stack.matrix(i) @ (y * best.x) for i in range(3)]
    np.testing.assert_allclose(
        margin_weights(stack, [(np.arange(24), y)], lam), distances / np.sum(distances), atol=2e-4
    )


def test_margins_of_many_classes_add_up():
    codes = np.digitize(X[:, 1], [-0.5, 0.5])
    model = MKLClassifier(COLUMNS, method="easy").fit(X, codes)
    stack, distances = stack_of(COLUMNS), np.zeros(3)
    K = stack.combined(np.full(3, 1 / 3))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        rows = np.flatnonzero((codes == a) | (codes == b))
        beta = np.zeros(60)
        beta[rows] = hull_points(K[np.ix_(rows, rows)], np.where(codes[rows] == a, 1.0, -1.0), model.lam)
        distances += [beta @ stack.matrix(i) @ beta for i in range(3)]
    np.testing.assert_allclose(model.weights_, distances / distances.sum(), atol=1e-6)


# ---------------------------------------------------------------------------------------------- joint learning
def norm_of(q, p, k):
    """max of a . q over ||a||_p <= k^(1/p - 1), a >= 0."""
    return k ** (1 / p - 1) * np.linalg.norm(q, np.inf if p == 1 else p / (p - 1))


def convex_solution(matrices, value, constraints, bounds, n, p):
    """min over beta of value(beta) + norm(q(beta)) / 2 by a general solver, the largest q as a variable where p is 1."""
    k = len(matrices)

    def forms(b):
        return np.array([b @ K @ b for K in matrices])

    if p > 1:
        found = minimize(lambda b: value(b) + norm_of(forms(b), p, k) / 2, 0.01 * np.ones(n) / n, bounds=bounds,
                         constraints=constraints(lambda v: v), method="SLSQP",
                         options={"ftol": 1e-13, "maxiter": 900})  # fmt: skip
        return -found.fun
    below = {"type": "ineq", "fun": lambda v: v[-1] - forms(v[:-1]),
             "jac": lambda v: np.column_stack([[-2 * K @ v[:-1] for K in matrices], np.ones(k)])}  # fmt: skip
    found = minimize(lambda v: value(v[:-1]) + v[-1] / 2, np.append(0.01 * np.ones(n) / n, 1.0), bounds=[*bounds, (0, None)],
                     constraints=[*constraints(lambda v: v[:-1]), below], method="SLSQP",
                     options={"ftol": 1e-13, "maxiter": 900})  # fmt: skip
    return -found.fun


@pytest.mark.parametrize("p", [1.0, 4 / 3, 2.0, 5.0])
@pytest.mark.parametrize("C", [0.3, 3.0])
def test_learned_weights_against_a_convex_solver(p, C):
    n, y = 16, SIGNS[:16]
    stack = stack_of([RBF().on(1), Linear(), RBF(0.5).on(0)], X[:n])
    found = learned_weights(stack, SVMachines([(np.arange(n), y, np.full(n, C))], n, 1e-8), p, gap=1e-6, max_iter=5000)
    assert found.status is Status.CONVERGED
    assert found.gap <= 1e-6
    bounds = [(0, C) if s > 0 else (-C, 0) for s in y]
    best = convex_solution([stack.matrix(i) for i in range(3)], lambda b: -(y @ b),
                           lambda part: [{"type": "eq", "fun": lambda v: part(v).sum()}], bounds, n, p)  # fmt: skip
    assert found.objective == pytest.approx(best, rel=2e-5)
    assert np.linalg.norm(found.weights, p) == pytest.approx(3 ** (1 / p - 1))


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_learned_weights_of_a_ridge_against_a_convex_solver(p):
    n, alpha = 14, 0.7
    y = TARGET[:n] - TARGET[:n].mean()
    stack = stack_of([RBF().on(1), Linear(), RBF(0.5).on(0)], X[:n])
    found = learned_weights(stack, RidgeMachine(y[:, None], alpha), p, gap=1e-6, max_iter=5000)
    best = convex_solution([stack.matrix(i) for i in range(3)], lambda b: alpha / 2 * b @ b - y @ b,
                           lambda part: [{"type": "eq", "fun": lambda v: part(v).sum()}], [(None, None)] * n, n, p)  # fmt: skip
    assert found.gap <= 1e-6
    assert found.objective == pytest.approx(best, rel=2e-5)


@pytest.mark.parametrize("method", ["simple", "lp"])
def test_the_gap_is_that_of_the_machine_with_these_weights(method):
    """Primal and bound from the fitted machine's own numbers, computed from scratch."""
    model = MKLClassifier(COLUMNS, method=method, C=2.0, tol=1e-6).fit(X, LABELS)
    assert model.converged_
    assert 0 <= model.dual_gap_ <= 1e-3
    assert model.trace_[-1][1] == model.dual_gap_
    assert model.n_iter_ >= 1
    stack, p = stack_of(COLUMNS), 1.0 if method == "simple" else 2.0
    a = model.coefficients_ * stack.scales
    beta = np.zeros(60)
    beta[model.estimator_.support_] = model.estimator_.dual_coef_[0]
    q = stack.forms(beta[:, None])
    losses = 2.0 * np.maximum(0.0, 1.0 - SIGNS * model.decision_function(X)).sum()
    primal = losses + a @ q / 2
    assert primal == pytest.approx(model.objective_, rel=1e-3)
    assert (primal - (SIGNS @ beta - norm_of(q, p, 3) / 2)) / primal < 2e-3
    np.testing.assert_allclose(model.weights_, a / a.sum())


def test_weights_between_one_kernel_and_all():
    """p = 1 chooses, p = infinity is the uniform average, and the shares even out between them."""
    shares = [
        MKLClassifier(COLUMNS, method="lp", p=p, cv=2).fit(X, LABELS).weights_.max()
        for p in (1.0, 1.5, 2.0, 8.0, np.inf)
    ]
    assert all(a > b for a, b in pairwise(shares))
    assert shares[-1] == pytest.approx(1 / 3)
    simple, one = (MKLClassifier(COLUMNS, **s).fit(X, LABELS) for s in ({"method": "simple"}, {"method": "lp", "p": 1}))
    np.testing.assert_array_equal(simple.weights_, one.weights_)


def test_small_weights_are_no_weights_where_few_are_wanted():
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((100, 6))
    model = MKLClassifier([RBF().on(j) for j in range(6)], method="simple", C=0.1).fit(rows, rows[:, 2] > 0)
    assert (model.weights_ == 0).sum() >= 3
    assert model.dual_gap_ <= 1e-3
    assert len(model.kernel_._leaves) == (model.weights_ > 0).sum()


def test_a_search_that_ends_early_says_so():
    with pytest.warns(
        ConvergenceWarning, match=r"stopped early after 2 steps at a relative duality gap of .*raise max_iter"
    ):
        model = MKLClassifier(COLUMNS, method="simple", C=10.0, gap=1e-9, max_iter=2).fit(X, LABELS)
    assert not model.converged_
    assert model.dual_gap_ > 1e-9


# ---------------------------------------------------------------------------------------------- banded ridge
def test_bands_have_the_leave_one_out_error_they_tell():
    model = MKLRegressor(COLUMNS, method="banded", cv=2).fit(X, TARGET)
    record = band_weights(stack_of(COLUMNS), TARGET[:, None])
    loo = np.mean(model.estimator_.leave_one_out() ** 2) / TARGET.var()
    assert record.error == pytest.approx(loo, rel=1e-6)
    np.testing.assert_allclose(model.weights_, record.weights)
    assert model.alpha_ == model.estimator_.alpha == pytest.approx(record.alpha)
    assert record.error < record.uniform_error
    uniform = Sum(tuple((1 / 3 / s) * k for k, s in zip(COLUMNS, model.scales_, strict=True)))
    best = KernelRidge(record.uniform_alpha, kernel=uniform, fit_intercept=True).fit(X, TARGET)
    assert record.uniform_error == pytest.approx(np.mean(best.leave_one_out() ** 2) / TARGET.var(), rel=1e-6)


def test_bands_are_at_a_minimum():
    stack, y = stack_of(COLUMNS), TARGET[:, None]
    record = band_weights(stack, y)

    def error(weights, alpha):
        K = stack.combined(weights)
        ridge = KernelRidge(alpha, kernel="precomputed", fit_intercept=True).fit(K, TARGET)
        return np.mean(ridge.leave_one_out() ** 2) / TARGET.var()

    for i in np.flatnonzero(record.weights > 1e-3):
        for factor in (0.8, 1.25):
            moved = record.weights * np.where(np.arange(3) == i, factor, 1.0)
            assert error(moved, record.alpha) > record.error
    for factor in (0.8, 1.25):
        assert error(record.weights, factor * record.alpha) > record.error


def test_targets_share_bands_or_have_their_own():
    T = np.column_stack([np.sin(2 * X[:, 1]), 100.0 * X[:, 2] ** 2])
    own = MKLRegressor(COLUMNS, method="banded", per_target=True, cv=2).fit(X, T)
    shared = MKLRegressor(COLUMNS, method="banded", cv=2).fit(X, T)
    assert own.weights_.shape == own.coefficients_.shape == (2, 3)
    assert own.score_.shape == own.uniform_score_.shape == own.alpha_.shape == (2,)
    assert own.weights_[0].argmax() == 1
    assert own.weights_[1].argmax() == 2
    assert shared.weights_.shape == (3,)
    assert min(shared.weights_[1:]) > 1e-4
    for j in (0, 1):
        alone = MKLRegressor(COLUMNS, method="banded", cv=2).fit(X, T[:, j])
        np.testing.assert_array_equal(own.weights_[j], alone.weights_)
        np.testing.assert_array_equal(own.predict(NEW)[:, j], alone.predict(NEW))
        assert own.score_[j] == alone.score_
        assert own.kernel_[j] == alone.kernel_
    assert own.estimator_[0].X_fit_ is own.estimator_[1].X_fit_
    with pytest.raises(AttributeError, match="an expansion for each target"):
        own.expansion_  # noqa: B018
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(own)).predict(NEW), own.predict(NEW))


def test_each_target_counts_relative_to_its_variance():
    T = np.column_stack([np.sin(2 * X[:, 1]), X[:, 2] ** 2])
    for method in REGRESSORS:
        a, b = (MKLRegressor(COLUMNS, method=method, cv=2).fit(X, t).weights_ for t in (T, T * [1e3, 1e-3] + 5.0))
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------------------------------------- one kernel
@each_method
def test_one_kernel_is_the_plain_machine(method):
    model, y = model_of(method, [RBF(0.8)])
    model.fit(X, y)
    kernel = RBF(0.8) / model.scales_[0]
    assert model.weights_.tolist() == [1.0]
    plain = (
        SVC(kernel=kernel) if isinstance(method, str) else KernelRidge(model.alpha_, kernel=kernel, fit_intercept=True)
    )
    plain.fit(X, y)
    answer = "decision_function" if isinstance(method, str) else "predict"
    np.testing.assert_allclose(getattr(model, answer)(NEW), getattr(plain, answer)(NEW), rtol=1e-9)
    # Of one band the uniform average is a grid of alphas, the search goes on between them.
    assert model.score_ == pytest.approx(model.uniform_score_, abs=1e-2 if method == ("banded",) else 1e-6)


@each_method
def test_the_sum_is_one_kernel(method):
    model, y = model_of(method, [RBF().on(1), Linear(), RBF(0.5).on(0)])
    model.fit(X, y)
    assert model.weights_.sum() == pytest.approx(1)
    parts = zip(model.coefficients_, (RBF().on(1), Linear(), RBF(0.5).on(0)), strict=True)
    K = sum(c * k(NEW, X) for c, k in parts)
    np.testing.assert_allclose(model.kernel_(NEW, X), K, rtol=1e-10, atol=1e-12)
    e = model.expansion_
    sums = (e.kernel(NEW, e.centres) @ e.coefficients + e.intercept)[:, 0]
    np.testing.assert_allclose(model.decision_function(NEW) if isinstance(method, str) else model.predict(NEW), sums)
    assert isinstance(model.estimator_, SVC if isinstance(method, str) else KernelRidge)
    variances = [np.trace(centred(k(X)) * 0 + k(X) - k(X).mean()) / 60 for k in (RBF().on(1), Linear(), RBF(0.5).on(0))]
    np.testing.assert_allclose(model.scales_, variances)


@each_method
def test_permuted_kernels_have_permuted_weights(method):
    kernels, order = [RBF().on(1), Linear(), RBF(0.5).on(0), RBF().on(2)], [2, 0, 3, 1]
    a, y = model_of(method, kernels)
    b, _ = model_of(method, [kernels[i] for i in order])
    a.fit(X, y)
    b.fit(X, y)
    np.testing.assert_allclose(b.weights_, a.weights_[order], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(b.predict(NEW), a.predict(NEW), rtol=1e-4, atol=1e-5)
    assert b.score_ == pytest.approx(a.score_, abs=1e-6)


@pytest.mark.parametrize("method", ["alignment", "simple", ("alignment",), ("simple",), ("banded",)], ids=str)
def test_a_kernel_given_twice_shares_its_weight(method):
    """Where the answer depends on the sum alone; in EasyMKL and with p > 1 a kernel given twice counts more, as published."""
    kernels = [RBF().on(1), RBF().on(2), Linear().on(0)]
    extra = {"gap": 1e-6, "max_iter": 3000} if "simple" in method else {}
    one, y = model_of(method, kernels, **extra)
    two, _ = model_of(method, [kernels[0], *kernels], **extra)
    one.fit(X, y)
    two.fit(X, y)
    # A ridge of 1e-10 tells equal kernels apart, whose products may differ in the last bit: by 2e-16 / 1e-10 at least.
    assert two.weights_[0] == pytest.approx(two.weights_[1], rel=2e-5)
    joined = np.append(two.weights_[0] + two.weights_[1], two.weights_[2:])
    # The error of leaving one out is flat about its minimum.
    near = 0.05 if method == ("banded",) else 2e-3
    np.testing.assert_allclose(joined, one.weights_, atol=near)
    np.testing.assert_allclose(two.predict(NEW), one.predict(NEW), atol=near)


@each_method
def test_the_scale_of_a_kernel_does_not_matter(method):
    kernels = [RBF().on(1), Linear(), RBF(0.5).on(0)]
    a, y = model_of(method, kernels)
    b, _ = model_of(method, [1e6 * kernels[0], kernels[1] / 2**20, 3.0 * kernels[2] + 7.0])
    a.fit(X, y)
    b.fit(X, y)
    np.testing.assert_allclose(b.weights_, a.weights_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(b.predict(NEW), a.predict(NEW), rtol=1e-4, atol=1e-5)
    assert b.score_ == pytest.approx(a.score_, abs=1e-6)


# ---------------------------------------------------------------------------------------------- scores
@each_method
def test_scores_are_of_fits_without_the_held_rows(method):
    """The same from refits on rows: kernels without words have nothing else to learn from data."""
    classifies = isinstance(method, str)
    folds = (StratifiedKFold if classifies else KFold)(3, shuffle=True, random_state=0)
    model, y = model_of(method, COLUMNS, cv=folds)
    model.fit(X, y)
    measure, uniform = (accuracy_score, "uniform") if classifies else (r2_score, "uniform")
    found = cross_val_predict(clone(model), X, y, cv=folds)
    order = np.concatenate([test for _, test in folds.split(X, y)])
    assert model.score_ == pytest.approx(measure(y[order], found[order]), abs=1e-4)
    if method != ("banded",):
        found = cross_val_predict(clone(model).set_params(method=uniform), X, y, cv=folds)
        assert model.uniform_score_ == pytest.approx(measure(y[order], found[order]), abs=1e-6)
    if method in ("uniform", ("uniform",)):
        assert model.score_ == model.uniform_score_


@pytest.mark.parametrize("method", ["lp", ("lp",)], ids=str)
def test_the_norm_is_chosen_on_held_rows(method):
    model, y = model_of(method, COLUMNS, p="cv", cv=3)
    model.fit(X, y)
    assert list(model.path_) == [np.inf, 4.0, 2.0, 4 / 3, 1.0]
    assert model.path_[np.inf] == model.uniform_score_
    assert model.score_ == max(model.path_.values()) == model.path_[model.p_]
    plain, _ = model_of(method, COLUMNS, p=model.p_, cv=3)
    plain.fit(X, y)
    assert plain.path_ is None
    assert plain.score_ == model.score_
    np.testing.assert_array_equal(plain.predict(NEW), model.predict(NEW))


# ---------------------------------------------------------------------------------------------- rows of all kinds
def records(n=40):
    rng = np.random.default_rng(3)
    dna = ["".join(rng.choice(list("acgt"), 12)) for _ in range(n)]
    table = pd.DataFrame({"dna": dna, "age": rng.standard_normal(n), "kind": rng.choice(["x", "y"], n)})
    return table, np.array([w.count("a") for w in dna])


@pytest.mark.parametrize("estimator", [MKLClassifier(method="simple"), MKLRegressor(method="lp")])
def test_parts_of_a_table(estimator):
    table, count = records()
    y = count > 2 if isinstance(estimator, MKLClassifier) else count
    kernels = {"dna": Spectrum(1).on("dna").normalise(), "age": RBF().on("age"), "kind": Categorical().on("kind")}
    model = estimator.set_params(kernels=kernels, cv=2).fit(table, y)
    assert model.names_ == ["dna", "age", "kind"]
    assert model.weights_.argmax() == 0
    assert list(model.feature_names_in_) == ["dna", "age", "kind"]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(table[:5]), model.predict(table[:5]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["age", "dna", "kind"]])


def test_strings_compress_and_explain():
    table, count = records()
    model = MKLClassifier([Spectrum(1), Spectrum(2)], method="alignment", cv=2).fit(table["dna"].tolist(), count > 2)
    assert model.score_ > 0.8
    assert "a" in repr(top_features(model, 3))
    small = compress(model, 5, "greedy")
    assert small.compression_.n_vectors <= 5
    assert small.weights_ is model.weights_
    assert len(model.expansion_.centres) > 5
    assert small.predict(["acgtaaaa", "cccc"]).shape == (2,)


def test_words_and_functions_are_kernels():
    model = MKLRegressor(["rbf", "linear", lambda a, b: float(a @ b) ** 2], cv=2).fit(X, TARGET)
    assert model.weights_.sum() == pytest.approx(1)
    assert model.names_[0] == "RBF(lengthscale='scale')"


def test_rows_are_read_as_before_without_kernels_of_weight_zero():
    """Numbers of all columns beside a kernel of one: a table stays a table when only the first has a weight."""
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = MKLClassifier([Linear(), Constant(1.0).on("a")], method="alignment", cv=2, tol=1e-9)
    with pytest.warns(NumericalWarning, match=re.escape("Constant().on('a') of kernels: is constant on these rows")):
        model.fit(table, X[:, 0] > 0)
    assert model.weights_.tolist() == [1.0, 0.0]
    plain = MKLClassifier([Linear()], cv=2, tol=1e-9).fit(X, X[:, 0] > 0)
    np.testing.assert_allclose(model.decision_function(table[:9]), plain.decision_function(X[:9]), rtol=1e-6)


def test_kernels_as_parameters():
    model = MKLClassifier({"near": RBF(0.5), "flat": 2 * Linear()})
    params = model.get_params()
    assert params["kernels__near__lengthscale"] == 0.5
    assert params["kernels__flat__scale"] == 2
    before = model.kernels
    model.set_params(kernels__near__lengthscale=3.0, C=2.0)
    assert model.kernels == {"near": RBF(3.0), "flat": 2 * Linear()}
    assert before == {"near": RBF(0.5), "flat": 2 * Linear()}
    model.set_params(kernels__near=Polynomial(2), kernels__near__degree=3)
    assert model.kernels["near"] == Polynomial(3)
    numbered = MKLClassifier((RBF(), "linear")).set_params(kernels__0__lengthscale=2.0)
    assert numbered.kernels == (RBF(2.0), "linear")
    for bad in ("kernels__other", "kernels__1__lengthscale"):
        with pytest.raises(ValueError, match=f"no parameter {bad}"):
            numbered.set_params(**{bad: 1.0})
    search = GridSearchCV(MKLClassifier([RBF(), "linear"], cv=2), {"kernels__0__lengthscale": [0.01, 1.0]}, cv=2)
    scores = search.fit(X, np.abs(X[:, 0]) < 0.7).cv_results_["mean_test_score"]
    assert scores[1] > scores[0]


# ---------------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize("cls", [MKLClassifier, MKLRegressor])
def test_bad_kernels(cls):
    y = LABELS if cls is MKLClassifier else TARGET
    for bad, said in (
        ([], r"kernels=\[\] is empty"),
        ({}, r"kernels=\{\} is empty"),
        (RBF(), "'kernels' parameter"),
        ("rbf", "'kernels' parameter"),
        ([RBF(), 3], r"kernels\[1\]: kernel=3 must be"),
        ({"a": "parabolic"}, r"kernels\[a\]: kernel='parabolic' is not known"),
        (["precomputed"], r'kernels\[0\]="precomputed"'),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            cls(bad).fit(X, y)
    with pytest.raises(NotPSDError, match=r"kernels\[1\]=-1\.0 \* RBF\(\) is not positive semi-definite \(a negative"):
        cls([Linear(), -RBF()]).fit(X, y)
    with pytest.raises(
        NotPSDError, match=r"Sigmoid.* of kernels is not positive semi-definite on these rows: smallest"
    ):
        cls([RBF(), Sigmoid(gamma=1.0, coef0=-1.0)]).fit(X, y)


def test_bad_norms_and_labels():
    for p in (0.5, 0.0, -1.0, "two"):
        with pytest.raises(ValueError, match="'p' parameter"):
            MKLClassifier(COLUMNS, method="lp", p=p).fit(X, LABELS)
    with pytest.raises(ValueError, match=r"has to be greater than one; y has 1 class: 1"):
        MKLClassifier(COLUMNS).fit(X, np.ones(60, int))
    with pytest.raises(ValueError, match="'method' parameter"):
        MKLRegressor(COLUMNS, method="easy").fit(X, TARGET)


@each_method
def test_constant_kernels_have_no_weight(method):
    model, y = model_of(method, {"none": 0.0 * Linear(), "good": RBF().on(1), "flat": Constant(2.0)}, cv=2)
    with pytest.warns(NumericalWarning, match="none, flat of kernels: is constant on these rows.* its weight is 0"):
        model.fit(X, y)
    assert model.weights_.tolist() == [0.0, 1.0, 0.0]
    assert model.scales_[[0, 2]].tolist() == [0.0, 0.0]
    plain, _ = model_of(method, [RBF().on(1)], cv=2)
    np.testing.assert_allclose(model.predict(NEW), plain.fit(X, y).predict(NEW))
    all_flat, _ = model_of(method, [Constant(1.0), Constant(2.0)], cv=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NumericalWarning)
        all_flat.fit(X, y)
    assert any("all kernels are constant" in str(w.message) for w in caught)
    assert all_flat.weights_.tolist() == [0.5, 0.5]
    assert np.isfinite(all_flat.predict(NEW)).all()


@pytest.mark.parametrize("method", ["alignment", "banded"])
def test_targets_that_no_kernel_explains(method):
    with pytest.warns(
        NumericalWarning, match=f"no kernel says anything about y by method='{method}': the weights are uniform"
    ):
        model = MKLRegressor(COLUMNS, method=method, cv=2).fit(X, np.full(60, 4.0))
    np.testing.assert_allclose(model.weights_, 1 / 3)
    np.testing.assert_allclose(model.predict(NEW), 4.0)


@each_method
def test_equal_kernels(method):
    model, y = model_of(method, [RBF(), RBF(), RBF()], cv=2)
    np.testing.assert_allclose(model.fit(X, y).weights_, 1 / 3, rtol=1e-4)


def test_more_than_memory_holds():
    with pytest.raises(
        MemoryBudgetError, match=r"holding 3 Gram matrices of 60 rows, as triangles.* needs 202 kB.*uniform average"
    ):
        MKLClassifier(COLUMNS, memory="100kB").fit(X, LABELS)
    MKLClassifier(COLUMNS, memory="300kB").fit(X, LABELS)

"""Nadaraya-Watson and local regression: least squares by hand, what must be reproduced, and the answers of statsmodels."""

import logging
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.metrics import r2_score
from threadpoolctl import threadpool_limits

from mercer import LocalRegression, NadarayaWatson
from mercer.errors import MemoryBudgetError, NumericalWarning
from mercer.kernels import RBF, Epanechnikov, Laplacian, Linear, Matern, Spectrum
from mercer.solvers.local import Smoother, Whitening, neighbour_radius, normal_reference
from mercer.solvers.local_bandwidths import constant_loo, select_smoothing, standardised
from mercer.solvers.windows import SHAPES

WINDOWS = list(SHAPES)


def data(n=80, d=2, seed=0, noise=0.2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, -1] ** 2 + noise * rng.standard_normal(n)


def window(name, form, U):
    """Values of a window of unit bandwidth at differences U (..., d)."""
    value = SHAPES[name].value
    return value((U**2).sum(-1)) if form == "radial" else value(U**2).prod(-1)


def terms(U, degree):
    """All monomials up to a degree, by exponents."""
    grid = np.stack(np.meshgrid(*[np.arange(degree + 1)] * U.shape[1], indexing="ij"), -1).reshape(-1, U.shape[1])
    grid = grid[grid.sum(1) <= degree]
    grid = grid[np.argsort(grid.sum(1), kind="stable")]
    return (U[:, None, :] ** grid).prod(-1)


def by_least_squares(X, y, Q, degree, weights):
    """(values, smoother) of the local polynomials, a least-squares problem at a time; weights (m, n)."""
    L = np.zeros((len(Q), len(X)))
    for r, (q, w) in enumerate(zip(Q, weights, strict=True)):
        root = np.sqrt(w)
        L[r] = np.linalg.pinv(terms(X - q, degree) * root[:, None], rcond=1e-12)[0] * root
    return L @ y, L


# ------------------------------------------------------------------------------------------------ by hand
@pytest.mark.parametrize("form", ["radial", "product"])
@pytest.mark.parametrize("name", WINDOWS)
def test_against_least_squares(name, form):
    """Every window in both forms, every degree, weights of rows, several targets."""
    for d, degree, h in ((1, 2, 1.0), (2, 1, 1.5), (2, 0, 1.2), (3, 1, 2.5), (2, 3, 3.0)):
        X, y = data(100, d, seed=degree)
        Y = np.column_stack([y, np.cos(X[:, 0])])
        w = np.random.default_rng(1).uniform(0.2, 3.0, len(X))
        Q = data(12, d, seed=5)[0] * 0.6
        model = LocalRegression(degree, h, kernel=name, form=form).fit(X, Y, sample_weight=w)
        K = window(name, form, (Q[:, None] - X) / h) * w
        expected, L = by_least_squares(X, Y, Q, degree, K)
        np.testing.assert_allclose(model.predict(Q), expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(model.weights(Q), L, rtol=1e-7, atol=1e-8)
        _, error = model.predict(Q, return_std=True)
        np.testing.assert_allclose(error, np.sqrt((L**2 / w).sum(1))[:, None] * model.sigma_, rtol=1e-6)


def test_bandwidths_of_three_kinds_mean_the_same():
    X, y = data()
    Q = data(10, seed=3)[0]
    for estimator in (NadarayaWatson(), LocalRegression(kernel="gaussian")):
        scalar, columns, matrix = (
            clone(estimator).set_params(bandwidth=h).fit(X, y).predict(Q) for h in (0.7, [0.7, 0.7], 0.49 * np.eye(2))
        )
        np.testing.assert_allclose(columns, scalar, rtol=1e-12)
        np.testing.assert_allclose(matrix, scalar, rtol=1e-12)


def test_a_full_matrix_moves_with_the_rows():
    """Rows and bandwidth turned together give the same answers, and turned slopes."""
    X, y = data()
    Q, A = data(10, seed=3)[0], np.array([[1.0, 0.5], [-0.3, 2.0]])
    H = np.array([[0.8, 0.3], [0.3, 0.5]])
    a = LocalRegression(1, H, kernel="tricube").fit(X * 0.5, y)
    b = LocalRegression(1, A @ H @ A.T, kernel="tricube").fit(X * 0.5 @ A.T, y)
    np.testing.assert_allclose(b.predict(0.4 * Q @ A.T), a.predict(0.4 * Q), rtol=1e-10)
    np.testing.assert_allclose(b.derivative(0.4 * Q @ A.T) @ A, a.derivative(0.4 * Q), rtol=1e-9)


# ------------------------------------------------------------------------------------------------ weights that sum to one
def test_weights_sum_to_one_and_far_queries_have_the_nearest_answer():
    X, y = data(60, 2)
    Q = np.vstack([X[:5], X[:5] + 3, X[:5] * 50, X[:5] * 1e4, X[:5] * 1e9])
    for name, kernel in (("gaussian", RBF(0.3)), ("exponential", Laplacian(0.3))):
        for model in (NadarayaWatson(name, 0.3), NadarayaWatson(kernel)):
            model.fit(X, y)
            W = model.weights(Q)
            assert np.abs(W.sum(1) - 1).max() < 1e-14
            assert W.min() >= 0
            np.testing.assert_allclose(model.predict(Q), W @ y, rtol=1e-13)
            if name == "gaussian":
                nearest = np.argmin(((Q[15:20, None] - X) ** 2).sum(-1), axis=1)
                np.testing.assert_array_equal(model.predict(Q[15:20]), y[nearest])


@pytest.mark.parametrize("name", [w for w in WINDOWS if np.isfinite(SHAPES[w].reach)])
@pytest.mark.parametrize("form", ["radial", "product"])
def test_no_row_in_the_window(name, form):
    """The nearest rows answer, equally near ones together, and one warning counts the queries."""
    X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [9.0, 9.0]])
    y = np.array([1.0, 2.0, 4.0, 7.0])
    Q = np.array([[4.0, 4.0], [0.0, -3.0], [0.0, 0.1]])
    expected = [2 + 4.0 if form == "radial" else 2 * 7 / 3, 2 * 1.0, 2 * 1.0]  # in a product, by the largest difference
    for model in (NadarayaWatson(name, 0.5, form=form), LocalRegression(0, 0.5, kernel=name, form=form)):
        model.fit(X, y)
        for ask in (model.predict, lambda Q, m=model: m.weights(Q) @ y):
            with pytest.warns(NumericalWarning, match="2 .*no row in their window: the nearest") as said:
                got = ask(Q)
            assert len(said) == 1
            np.testing.assert_allclose(2 * got, expected)


def test_constants_are_reproduced():
    X, _ = data()
    y = np.full(len(X), 0.1)
    Q = data(30, seed=2)[0] * 2
    np.testing.assert_allclose(NadarayaWatson().fit(X, y).predict(Q), 0.1, rtol=1e-14)
    assert NadarayaWatson().fit(X, y).target_bandwidth_ == 0.0


def test_degree_0_is_nadaraya_watson():
    X, y = data()
    Q = data(20, seed=4)[0]
    for name in WINDOWS:
        a = LocalRegression(0, 2.0, kernel=name).fit(X, y).predict(Q)
        np.testing.assert_allclose(a, NadarayaWatson(name, 2.0).fit(X, y).predict(Q), rtol=1e-13)


# ------------------------------------------------------------------------------------------------ polynomials that are reproduced
@pytest.mark.parametrize("name", ["gaussian", "exponential", "tricube"])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomials_are_reproduced(name, degree):
    """Inside, at the edge and outside, near and far; slopes too."""
    rng = np.random.default_rng(degree)
    for d in (1, 2, 3):
        X = rng.uniform(-1, 1, (400, d)) + 5
        P, Q = X - 5, np.vstack([X[:20], X[:20] + 0.8, 5 + np.eye(d), 5 - np.ones((1, d))]) - 5
        exponents = np.array([[degree] + [0] * (d - 1), [0] * (d - 1) + [1], [0] * d])

        def f(U, e=exponents):
            return (U[:, None, :] ** e).prod(-1) @ np.array([2.0, -3.0, 0.5])

        h = 2.5 if name == "tricube" else 0.5
        model = LocalRegression(degree, h, kernel=name).fit(X, f(P))
        np.testing.assert_allclose(model.predict(Q + 5), f(Q), rtol=1e-10, atol=1e-10 * np.abs(f(Q)).max())
        slope = degree * 2.0 * Q[:, 0] ** (degree - 1) - (3.0 if d == 1 else 0.0)
        np.testing.assert_allclose(model.derivative(Q + 5)[:, 0], slope, atol=1e-8)


def test_lines_are_reproduced_far_outside():
    """Where all windows underflow, and monomials about the query would have no digits left."""
    x = np.linspace(0, 1, 50)[:, None]
    model = LocalRegression(1, 0.1, kernel="gaussian").fit(x, 3 * x[:, 0] - 1)
    Q = np.array([[-0.5], [1.5], [4.0], [10.0]])
    np.testing.assert_allclose(model.predict(Q), 3 * Q[:, 0] - 1, rtol=1e-9)


def test_offsets_cost_no_digits():
    X, y = data()
    Q = data(10, seed=3)[0]
    X, Q = np.round(X, 6), np.round(Q, 6)
    near = LocalRegression(1, 0.8, kernel="gaussian").fit(X, y).predict(Q)
    far = LocalRegression(1, 0.8, kernel="gaussian").fit(X + 2.0**26, y).predict(Q + 2.0**26)
    np.testing.assert_allclose(far, near, atol=1e-6)  # the rows themselves are rounded to 1e-8


# ------------------------------------------------------------------------------------------------ too few rows
def test_rows_too_few_for_the_degree():
    x = np.array([0.0, 0.1, 0.2, 5.0, 5.0, 9.0])[:, None]
    y = np.array([1.0, 2.0, 3.0, 7.0, 9.0, 4.0])
    model = LocalRegression(1, 1.0, kernel="tricube").fit(x, y)
    with pytest.warns(NumericalWarning, match="2 have too few different rows in their window for degree 1") as said:
        got = model.predict([[0.1], [5.1], [9.0]])
    assert len(said) == 1
    np.testing.assert_allclose(got, [2.0, 8.0, 4.0], rtol=1e-12)


def test_rows_on_a_line_in_a_plane():
    """The slope along the line is known, that across it counts as 0."""
    t = np.linspace(-1, 1, 40)
    X, y = np.column_stack([t, t]), 2 * t
    model = LocalRegression(1, 1.0, kernel="gaussian").fit(X, y)
    with pytest.warns(NumericalWarning, match="3 have too few different rows"):
        got = model.predict([[0.5, 0.5], [0.6, 0.4], [2.0, 2.0]])
    np.testing.assert_allclose(got, [1.0, 1.0, 4.0], rtol=1e-9)
    with pytest.warns(NumericalWarning, match="too few"):
        np.testing.assert_allclose(model.derivative([[0.2, 0.2]]), [[1.0, 1.0]], rtol=1e-9)


def test_the_highest_degree_is_left_out_first():
    """Two places: a line, not a parabola that vanishes between them."""
    x = np.array([-1.0, -1.0, 1.0, 1.0])[:, None]
    with pytest.warns(NumericalWarning, match="degree 2"):
        got = LocalRegression(2, 3.0, kernel="tricube").fit(x, [1.0, 1.0, 3.0, 3.0]).predict([[0.0], [0.5]])
    np.testing.assert_allclose(got, [2.0, 2.5])


def test_one_row_and_two_rows():
    for estimator in (NadarayaWatson(bandwidth=1.0), LocalRegression(0, 1.0, kernel="tricube")):
        np.testing.assert_array_equal(estimator.fit([[1.0]], [3.0]).predict([[1.0], [1.5]]), [3.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        assert np.isfinite(LocalRegression().fit([[0.0], [1.0]], [0.0, 1.0]).predict([[0.5], [7.0]])).all()


# ------------------------------------------------------------------------------------------------ statsmodels
def known_data():
    i = np.arange(40.0)
    x = 10 * ((0.618 * i + 0.1) % 1)
    return i, x, np.sin(x) + 0.3 * np.cos(7 * i) + 4 * (i % 13 == 5)


@pytest.mark.parametrize(
    ("robust", "expected"),
    [
        (0, [1.10053365979, 0.386286253108, -0.208215828067, 0.099690338174, 0.381132378842]),
        (3, [0.71087225299, 0.648423874485, -0.209308886217, 0.0907257613824, 0.364164284024]),
    ],
)
def test_as_lowess_of_statsmodels(robust, expected):
    """lowess(y, x, frac=0.4, it=robust, delta=0) of statsmodels 0.15.0, every eighth row."""
    _, x, y = known_data()
    model = LocalRegression(1, span=0.4, robust=robust).fit(x[:, None], y)
    np.testing.assert_allclose(model.predict(x[::8, None]), expected, rtol=1e-8)


def test_as_kernelreg_of_statsmodels():
    """KernelReg(y, X, "cc", reg_type=..., bw=[0.8, 0.6]).fit(T) of statsmodels 0.15.0: values, and slopes of "ll"."""
    i, x, y = known_data()
    X, T = np.column_stack([x, np.cos(3 * i)]), np.array([[1.0, 0.0], [5.0, 0.5], [9.5, -0.9], [-1.0, 0.2]])
    lines = LocalRegression(1, [0.8, 0.6], kernel="gaussian").fit(X, y)
    np.testing.assert_allclose(
        lines.predict(T), [1.16503118976, -0.585565822703, -0.142072490342, -0.704633518852], rtol=1e-8
    )
    slopes = [[0.7877773379, -0.6811906217], [-0.0287095592, 0.2995072592]]
    np.testing.assert_allclose(lines.derivative(T[:2]), slopes, atol=1e-8)
    constants = NadarayaWatson("gaussian", [0.8, 0.6]).fit(X, y)
    expected = [1.20165227818, -0.620330958881, -0.0621609684617, 0.438224003699]
    np.testing.assert_allclose(constants.predict(T), expected, rtol=1e-8)


def test_span_is_a_share_of_the_rows():
    X, y = data(50, 2)
    Q = data(9, seed=2)[0]
    for standardize in (True, False):
        model = LocalRegression(1, span=0.5, standardize=standardize).fit(X, y)
        unit = 1.4826 * np.median(np.abs(X - np.median(X, 0)), 0) if standardize else np.ones(2)
        D = np.sqrt((((Q[:, None] - X) / unit) ** 2).sum(-1))
        W = np.maximum(1 - (D / np.sort(D, 1)[:, 24:25]) ** 3, 0) ** 3
        np.testing.assert_allclose(model.predict(Q), by_least_squares(X, y, Q, 1, W)[0], rtol=1e-8)


def test_span_by_tree_by_sorting_and_by_weights():
    X = data(3000, 2)[0]
    Q = data(20, seed=1)[0]
    D = np.sort(np.sqrt(((Q[:, None] - X) ** 2).sum(-1)), axis=1)
    for span, k in ((0.01, 30), (0.0101, 31), (0.5, 1500), (1.0, 3000)):
        np.testing.assert_allclose(neighbour_radius(X, Q, span), D[:, k - 1], rtol=1e-12)
        np.testing.assert_allclose(neighbour_radius(X, Q, span, np.full(3000, 2.0)), D[:, k - 1], rtol=1e-12)


def test_more_equal_rows_than_the_span_holds():
    x = np.repeat([0.0, 1.0, 2.0], 10)[:, None]
    y = np.arange(30.0)
    with pytest.warns(NumericalWarning, match="too few different rows"):
        got = LocalRegression(1, span=0.2).fit(x, y).predict([[0.0], [1.0]])
    np.testing.assert_allclose(got, [4.5, 14.5])


def test_robust_weights_leave_outliers_out():
    x = np.linspace(0, 1, 60)[:, None]
    y = 2 * x[:, 0] + 0.01 * np.cos(40 * x[:, 0])
    y[[10, 35]] += [5.0, -8.0]
    model = LocalRegression(1, 0.4, kernel="tricube", robust=3).fit(x, y)
    np.testing.assert_array_equal(model.robust_fit_[[10, 35]], 0.0)
    assert np.abs(model.predict(x) - 2 * x[:, 0]).max() < 0.02
    assert np.abs(LocalRegression(1, 0.4, kernel="tricube").fit(x, y).predict(x) - 2 * x[:, 0]).max() > 0.25
    assert model.sigma_ < 0.02
    both = LocalRegression(1, 0.4, kernel="tricube", robust=3).fit(x, np.column_stack([y, 2 * x[:, 0]]))
    assert np.abs(both.predict(x) - 2 * x).max() < 0.02


# ------------------------------------------------------------------------------------------------ smoother matrices
@pytest.mark.parametrize(
    "model",
    [
        LocalRegression(1, 1.5, kernel="tricube"),
        LocalRegression(2, 0.9, kernel="gaussian"),
        LocalRegression(1, span=0.6),
        LocalRegression(1, 1.5, kernel="tricube", robust=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_what_the_smoother_matrix_says(model, weighted):
    X, y = data(60)
    w = np.random.default_rng(3).integers(1, 4, 60).astype(float) if weighted else np.ones(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        model = clone(model).fit(X, y, sample_weight=w if weighted else None)
        L = model.weights(X)
    np.testing.assert_allclose(L.sum(1), 1.0, rtol=1e-10)
    assert model.effective_dof_ == pytest.approx(np.trace(L), rel=1e-9)
    root = np.sqrt(w)
    S = np.eye(60) - root[:, None] * L / root  # the smoother of targets of equal variance
    free = np.trace(S @ S.T)
    assert model.residual_dof_ == pytest.approx(w.sum() - 60 + free, rel=1e-9)
    e = y - L @ y
    n, trace, mse = w.sum(), np.trace(L), w @ e**2 / w.sum()
    if model.robust == 0:
        assert model.sigma_ == pytest.approx(np.sqrt(w @ e**2 / model.residual_dof_), rel=1e-9)
    assert model.gcv_ == pytest.approx(mse / (1 - trace / n) ** 2, rel=1e-9)
    assert model.aicc_ == pytest.approx(np.log(mse) + 1 + 2 * (trace + 1) / (n - trace - 2), rel=1e-9)
    np.testing.assert_allclose(model.loo_residuals_, e / (1 - np.diag(L)), rtol=1e-6, atol=1e-9)


def test_leave_one_out_is_a_refit():
    X, y = data(30)
    for model in (
        NadarayaWatson("gaussian", 0.5),
        NadarayaWatson(Matern(1.5)),
        LocalRegression(1, 0.9, kernel="gaussian"),
    ):
        model.fit(X, y)
        left = [clone(model).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[i : i + 1])[0] for i in range(30)]
        np.testing.assert_allclose(model.loo_residuals_, y - left, rtol=1e-7)
        assert model.loo_score_ == pytest.approx(r2_score(y, left))
        assert model.effective_dof_ == pytest.approx(np.trace(model.weights(X)), rel=1e-9)


def test_intervals():
    X, y = data(80, 1)
    model = LocalRegression(1, 1.0, kernel="gaussian").fit(X, y)
    values, error = model.predict(X[:7], return_std=True)
    low, high = model.predict_interval(X[:7], level=0.9)
    half = stats.t.ppf(0.95, model.residual_dof_) * error
    np.testing.assert_allclose(np.stack([low, high]), [values - half, values + half], rtol=1e-12)
    for bad in (0, 1, 95, True, "x"):
        with pytest.raises(ValueError, match="level"):
            model.predict_interval(X[:2], level=bad)


def test_bands_cover_the_curve():
    """400 seeded samples at once, and a window so narrow that the bias is under a third of the standard error."""
    x = np.linspace(0, 1, 100)
    truth, at = np.sin(2 * np.pi * x), np.linspace(0.05, 0.95, 10)[:, None]
    Y = truth[:, None] + 0.4 * np.random.default_rng(0).standard_normal((100, 400))
    model = LocalRegression(1, 0.11, kernel="tricube").fit(x[:, None], Y)
    low, high = model.predict_interval(at)
    hits = ((low <= np.sin(2 * np.pi * at)) & (np.sin(2 * np.pi * at) <= high)).mean(axis=1)
    assert ((hits > 0.92) & (hits < 0.97)).all(), hits
    bias = model.weights(at) @ truth - np.sin(2 * np.pi * at[:, 0])
    assert np.abs(bias).max() < (high - low).mean() / 4 / 3


def test_as_many_degrees_of_freedom_as_rows():
    x = np.arange(5.0)[:, None]
    model = LocalRegression(0, 0.5, kernel="tricube").fit(x, x[:, 0])
    with pytest.warns(NumericalWarning, match="as many degrees of freedom as rows"):
        assert np.isinf(model.predict(x, return_std=True)[1]).all()


# ------------------------------------------------------------------------------------------------ bandwidths
def test_the_normal_reference_rule():
    X, y = data(50, 3)
    expected = (4 / (5 * 50)) ** (1 / 7) * 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
    model = NadarayaWatson().fit(X, y)
    np.testing.assert_allclose(model.bandwidth_, expected, rtol=1e-14)
    spread = 1.4826 * np.median(np.abs(y - np.median(y)))
    assert model.target_bandwidth_ == pytest.approx((4 / 150) ** 0.2 * spread, rel=1e-14)
    assert model.bandwidth_rows_ == 50
    np.testing.assert_allclose(LocalRegression(bandwidth="mad", kernel="gaussian").fit(X, y).bandwidth_, expected)


def test_weights_are_repetitions_in_the_rule():
    X, _ = data(20)
    times = np.arange(20) % 4 + 1
    a = normal_reference(X, SHAPES["tricube"], weight=times.astype(float))
    np.testing.assert_allclose(a, normal_reference(np.repeat(X, times, axis=0), SHAPES["tricube"]), rtol=1e-12)


@pytest.mark.parametrize("form", ["radial", "product"])
@pytest.mark.parametrize("name", [w for w in WINDOWS if w != "boxcar"])
def test_the_gradient_of_leave_one_out(name, form):
    X, y = data(40, 2)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 40)
    Y = np.column_stack([y, X[:, 0]])
    log_h = np.log([1.3, 0.9]) + (0.7 if np.isfinite(SHAPES[name].reach) else 0.0)
    value, gradient = constant_loo(log_h, X, Y, w, SHAPES[name], form)
    model = NadarayaWatson(name, np.exp(log_h), form=form).fit(X, Y, sample_weight=w)
    assert value == pytest.approx(w @ (model.loo_residuals_**2).sum(1) / w.sum(), rel=1e-10)
    for c in range(2):
        step = 1e-5 * np.eye(2)[c]
        low, high = (constant_loo(log_h + s * step, X, Y, w, SHAPES[name], form)[0] for s in (-1, 1))
        assert gradient[c] == pytest.approx((high - low) / 2e-5, rel=1e-5, abs=1e-7)


def test_leave_one_out_finds_a_minimum():
    X, y = data(150, 2, noise=0.3)
    X = np.column_stack([X, np.random.default_rng(9).standard_normal(150)])  # a column that says nothing
    found = select_smoothing(X, y[:, None], None, "loo", SHAPES["gaussian"])
    Y, w = standardised(y[:, None], np.ones(150)), np.ones(150)
    value, gradient = constant_loo(np.log(found.bandwidth), X, Y, w, SHAPES["gaussian"])
    assert value == pytest.approx(found.score, rel=1e-9)
    assert np.abs(gradient[:2]).max() < 1e-3
    assert found.bandwidth[2] > 3 * found.bandwidth[:2].max()
    rule = NadarayaWatson().fit(X, y)
    assert NadarayaWatson(bandwidth="loo").fit(X, y).loo_score_ > rule.loo_score_ + 0.05


@pytest.mark.parametrize("word", ["loo", "gcv", "aicc"])
def test_criteria_choose_bandwidths(word):
    """No bandwidth of a fine grid is better by more than the search's tolerance."""
    X, y = data(120, 1, noise=0.3)

    def value(model):
        return {"loo": np.mean(model.loo_residuals_**2), "gcv": model.gcv_, "aicc": model.aicc_}[word]

    found = LocalRegression(1, word, kernel="gaussian").fit(X, y)
    others = [value(LocalRegression(1, h, kernel="gaussian").fit(X, y)) for h in np.geomspace(0.03, 3, 60)]
    assert value(found) <= min(others) + 1e-4 * abs(min(others))


def test_scales_of_targets_and_columns_do_not_matter():
    X, y = data(100)
    for model in (NadarayaWatson(bandwidth="loo"), LocalRegression()):
        h = clone(model).fit(X, y).bandwidth_
        np.testing.assert_allclose(clone(model).fit(X, 1e120 * y).bandwidth_, h, rtol=1e-4)
        np.testing.assert_allclose(clone(model).fit(X * [1e-6, 1e6], y).bandwidth_ / [1e-6, 1e6], h, rtol=1e-3)


def test_many_rows_are_sampled_for_a_bandwidth_and_that_is_said(caplog, monkeypatch):
    from mercer.solvers import local_bandwidths

    X, y = data(400, 1, noise=0.3)
    whole = NadarayaWatson(bandwidth="loo").fit(X, y)
    assert whole.bandwidth_rows_ == 400
    monkeypatch.setattr(local_bandwidths, "_MOST", (150, 150))
    with caplog.at_level(logging.INFO, logger="mercer"):
        some = NadarayaWatson(bandwidth="loo").fit(X, y)
    assert some.bandwidth_rows_ == 150
    assert 'bandwidth="loo" is chosen on 150 of 400 rows' in caplog.text
    assert some.bandwidth_ == pytest.approx(whole.bandwidth_, rel=0.5)
    np.testing.assert_array_equal(NadarayaWatson(bandwidth="loo").fit(X, y).bandwidth_, some.bandwidth_)


# ------------------------------------------------------------------------------------------------ conditional densities
@pytest.mark.parametrize("name", ["gaussian", "epanechnikov", "boxcar"])
def test_conditional_densities(name):
    X, y = data(50, 1)
    Q = np.array([[-1.0], [0.0], [0.7]])
    model = NadarayaWatson(bandwidth=0.4, target_bandwidth=0.25, target_kernel=name).fit(X, y)
    W, t = model.weights(Q), np.linspace(-6, 12, 20001)
    density = np.exp(model.log_density(Q, np.tile(t, (3, 1))))
    np.testing.assert_allclose(integrate.trapezoid(density, t, axis=1), 1.0, atol=2e-3 if name == "boxcar" else 1e-7)
    mean, std = model.predict(Q, return_std=True)
    variance = 0.25**2 * SHAPES[name].variance(1) + W @ y**2 - (W @ y) ** 2
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-12)
    np.testing.assert_allclose(integrate.trapezoid(t * density, t, axis=1), mean, atol=3e-3)
    q = model.predict_quantiles(Q, [0.1, 0.5, 0.9])
    for j, level in enumerate((0.1, 0.5, 0.9)):
        below = (W * SHAPES[name].cdf((q[:, j, None] - y) / 0.25)).sum(1)
        np.testing.assert_allclose(below, level, atol=1e-10)
    assert model.predict_quantiles(Q, 0.5).shape == (3,)
    drawn = model.sample(Q, 4000, random_state=0)
    assert drawn.shape == (3, 4000)
    np.testing.assert_array_equal(drawn, model.sample(Q, 4000, random_state=0))
    for row, w in zip(drawn, W, strict=True):
        assert stats.kstest(row, lambda t, w=w: (w * SHAPES[name].cdf((t[:, None] - y) / 0.25)).sum(1)).pvalue > 1e-3


def test_conditional_densities_by_tiles(monkeypatch):
    from mercer.estimators import nadaraya_watson

    X, y = data(50, 1)
    Q = data(11, 1, seed=3)[0]
    model = NadarayaWatson().fit(X, y)
    answers = [model.weights(Q), model.predict_quantiles(Q), model.log_density(Q, y[:11]), model.sample(Q, 3, 0)]
    monkeypatch.setattr(nadaraya_watson, "_ENTRIES", 100)
    again = [model.weights(Q), model.predict_quantiles(Q), model.log_density(Q, y[:11])]
    for a, b in zip(answers[:3], again, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    empty = NadarayaWatson("boxcar", 0.1).fit(X, y)
    with pytest.warns(NumericalWarning, match="11 of 11 queries have no row") as said:
        empty.predict_quantiles(Q + 50)
    assert len(said) == 1


def test_conditional_densities_that_are_refused():
    X, y = data(30)
    two = NadarayaWatson().fit(X, np.column_stack([y, y]))
    assert two.predict(X, return_std=True)[1].shape == (30, 2)
    for ask in (two.predict_quantiles, two.sample, lambda X: two.log_density(X, 0.0)):
        with pytest.raises(ValueError, match="of one target; y has 2"):
            ask(X)
    one = NadarayaWatson().fit(X, y)
    for bad in (-0.1, [0.5, 1.2], np.nan):
        with pytest.raises(ValueError, match="q="):
            one.predict_quantiles(X, bad)
    with pytest.raises(ValueError, match="n_samples"):
        one.sample(X, 0)
    with pytest.raises(ValueError, match="t has 3 rows, X has 30"):
        one.log_density(X, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="all targets are equal"):
        NadarayaWatson().fit(X, np.ones(30)).log_density(X, 1.0)
    equal = NadarayaWatson().fit(X, np.ones(30))
    np.testing.assert_array_equal(equal.predict_quantiles(X, [0.0, 0.3, 1.0]), 1.0)


# ------------------------------------------------------------------------------------------------ kernels
def test_kernels_of_any_kind():
    X, y = data(40)
    Q = data(7, seed=1)[0]
    w = np.random.default_rng(0).uniform(0.1, 2.0, 40)
    for kernel in (
        Matern(1.5),
        2 * RBF(0.4) + Matern(0.5),
        Epanechnikov(3.0),
        RBF([0.5, 2.0]),
        RBF(covariance=np.diag([0.3, 2.0])),
    ):
        model = NadarayaWatson(kernel).fit(X, y, sample_weight=w)
        K = kernel(Q, X) * w
        np.testing.assert_allclose(model.predict(Q), K @ y / K.sum(1), rtol=1e-12)
        np.testing.assert_allclose(model.weights(Q), K / K.sum(1, keepdims=True), rtol=1e-11, atol=1e-300)
        assert model.bandwidth_ is None
        given = NadarayaWatson("precomputed").fit(kernel(X), y, sample_weight=w)
        np.testing.assert_allclose(given.predict(kernel(Q, X)), K @ y / K.sum(1), rtol=1e-12)
        np.testing.assert_allclose(given.loo_residuals_, model.loo_residuals_, rtol=1e-9)


def test_strings_and_tables():
    words = ["acacac", "gtgtgt", "acacgt", "gtgtac"]
    y = np.array([1.0, 2.0, 3.0, 4.0])
    model = NadarayaWatson(Spectrum(2)).fit(words, y)
    K = Spectrum(2)(["acac"], words)
    np.testing.assert_allclose(model.predict(["acac"]), K @ y / K.sum(), rtol=1e-12)
    with pytest.warns(
        NumericalWarning, match="1 of 2 queries have kernel values of 0 alone: all training rows answer alike"
    ):
        np.testing.assert_allclose(model.predict(["cccc", "acac"])[0], 2.5)
    table = pd.DataFrame({"dna": words, "age": [1.0, 2.0, 3.0, 4.0]})
    both = NadarayaWatson(Spectrum(2).on("dna") * RBF(1.0).on("age")).fit(table, y)
    assert both.predict_quantiles(table, 0.5).shape == (4,)


def test_negative_values_are_refused():
    X, y = data(40)
    with pytest.raises(ValueError, match=r"Linear\(\) has negative values, the smallest -.*weights must be >= 0"):
        NadarayaWatson(Linear()).fit(X, y)
    with pytest.raises(ValueError, match="'precomputed' has negative values"):
        NadarayaWatson("precomputed").fit(X @ X.T, y)
    model = NadarayaWatson(Linear()).fit(np.abs(X), y)
    with pytest.raises(ValueError, match="negative values"):
        model.predict(-np.abs(X))


def test_words_of_windows_come_first():
    """As in KernelDensity: "linear" is the triangle, "cosine" the cosine window."""
    X, y = data(30)
    for word, same in (("linear", "triangular"), ("tophat", "boxcar")):
        a = NadarayaWatson(word, 4.0).fit(X, y)
        assert a.kernel_ == same
        np.testing.assert_array_equal(a.predict(X), NadarayaWatson(same, 4.0).fit(X, y).predict(X))
    assert NadarayaWatson("cosine", 4.0).fit(X, y).solver_used_ == "window"


# ------------------------------------------------------------------------------------------------ bad input
@pytest.mark.parametrize("cls", [NadarayaWatson, LocalRegression])
def test_bandwidths_that_are_none(cls):
    X, y = data(20)
    for bad, said in (
        (0, "bandwidth"),
        (-1.0, "bandwidth"),
        (np.inf, "bandwidth"),
        ([1.0, 0.0], "must be positive"),
        ([1.0, 2.0, 3.0], "3 entries, but the rows have 2 columns"),
        ([1.0, np.nan], "NaN"),
        (np.eye(3), r"shape \(3, 3\)"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "not positive definite"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
        ("wide", "bandwidth"),
    ):
        with pytest.raises(ValueError, match=said):
            cls(bandwidth=bad).fit(X, y)


def test_columns_without_spread():
    X, y = data(40)
    flat = np.column_stack([X, np.full(40, 3.0)])
    for word, cls in (
        ("mad", NadarayaWatson),
        ("loo", NadarayaWatson),
        ("loo", LocalRegression),
        ("gcv", LocalRegression),
    ):
        with pytest.raises(ValueError, match="column 2 of X has no spread"):
            cls(bandwidth=word).fit(flat, y)
        with pytest.raises(ValueError, match="column weight of X has no spread"):
            cls(bandwidth=word).fit(pd.DataFrame(flat, columns=["age", "size", "weight"]), y)
        with pytest.raises(ValueError, match="n_samples=1"):
            cls(bandwidth=word).fit(X[:1], y[:1])
    rare = np.column_stack([X[:, 0], np.arange(40) % 5 == 0])
    with pytest.warns(
        NumericalWarning, match=r"over half of column 1 of X are equal, .* the standard deviation takes its place"
    ):
        model = NadarayaWatson().fit(rare, y)
    assert model.bandwidth_[1] == pytest.approx((4 / 160) ** (1 / 6) * rare[:, 1].std())
    assert np.isfinite(NadarayaWatson(bandwidth=0.5).fit(flat, y).predict(flat)).all()


def test_other_parameters_that_are_refused():
    X, y = data(20)
    for bad in (
        {"span": 0.0},
        {"span": 1.1},
        {"degree": -1},
        {"degree": 1.5},
        {"robust": -1},
        {"kernel": "rbf"},
        {"form": "x"},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            LocalRegression(**bad).fit(X, y)
    for bad in ({"target_bandwidth": 0.0}, {"target_bandwidth": [1.0, 2.0]}, {"target_kernel": "x"}, {"form": "x"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            NadarayaWatson(**bad).fit(X, y)
    with pytest.raises(ValueError, match=r"bandwidth=0\.5 is for windows"):
        NadarayaWatson(RBF(), 0.5).fit(X, y)
    with pytest.raises(ValueError, match="bandwidth=None is for kernels"):
        NadarayaWatson(bandwidth=None).fit(X, y)
    with pytest.raises(ValueError, match="derivative needs degree >= 1"):
        LocalRegression(0).fit(X, y).derivative(X)


def test_rows_far_too_large_for_the_bandwidth():
    X, y = data(20)
    for cls in (NadarayaWatson, LocalRegression):
        with pytest.raises(ValueError, match="squared distances overflow; rescale"):
            cls(bandwidth=1e-3).fit(X * 1e200, y)
        model = cls(bandwidth=5.0).fit(X, y)
        with pytest.raises(ValueError, match="rescale"):
            model.predict(X * 1e200)


def test_whole_numbers_in_columns():
    X = np.arange(30)[:, None]
    model = LocalRegression().fit(X, 2 * X[:, 0])
    np.testing.assert_allclose(model.predict(X + 1), 2.0 * X[:, 0] + 2, rtol=1e-9)


# ------------------------------------------------------------------------------------------------ promises
def test_weights_beyond_the_budget_are_refused():
    X, y = data(2000)
    for model in (NadarayaWatson(bandwidth=0.5, memory="1MB"), LocalRegression(bandwidth=3.0, memory="1MB")):
        model.fit(X, y)
        with pytest.raises(MemoryBudgetError, match="weights of 2000 rows for 2000 queries needs 32 MB"):
            model.weights(X)
        assert model.predict(X).shape == (2000,)
    with pytest.raises(MemoryBudgetError, match="degree 5 in 30 columns, which has 324632 terms"):
        LocalRegression(5, 1.0, memory="1GB").fit(np.ones((4, 30)), np.ones(4))


def test_the_number_of_threads_changes_nothing():
    X, y = data(3000)
    for model in (
        NadarayaWatson(bandwidth=0.1),
        LocalRegression(1, 0.2, kernel="gaussian"),
        LocalRegression(2, span=0.1),
    ):
        model.fit(X, y)
        many = model.predict(X[:1500])
        with threadpool_limits(1):
            np.testing.assert_array_equal(model.predict(X[:1500]), many)


def test_pickles_remember_what_was_chosen():
    X, y = data(60)
    for model in (NadarayaWatson("tricube", "loo"), LocalRegression(robust=2), LocalRegression(span=0.5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            again = pickle.loads(pickle.dumps(model.fit(X, y)))
            np.testing.assert_array_equal(again.weights(X), model.weights(X))
            np.testing.assert_array_equal(again.loo_residuals_, model.loo_residuals_)


def test_trees_of_many_rows_find_all_that_matters():
    """Against sums over all rows, where leaves, whole nodes and cuts all play their part."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((3000, 2)), 0.01 * rng.standard_normal((500, 2)) + 4, [[30.0, 30.0]]])
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    Q = np.vstack([2.5 * rng.standard_normal((60, 2)), X[3000:3010], [[29.0, 31.0], [17.0, 17.0]]])
    for name, form, h in (("gaussian", "radial", 0.2), ("exponential", "radial", 0.05), ("exponential", "product", 0.05),
                          ("tricube", "product", 0.8), ("cosine", "radial", 0.9)):  # fmt: skip
        smoother = Smoother(X / h, y[:, None], SHAPES[name], form=form)
        got = smoother.at(Q / h)
        U = (Q[:, None] - X) / h
        if name == "gaussian":
            log = -0.5 * (U**2).sum(-1)
        elif name == "exponential":
            log = -np.sqrt((U**2).sum(-1)) if form == "radial" else -np.abs(U).sum(-1)
        else:
            with np.errstate(divide="ignore"):
                log = np.log(window(name, form, U))
        there = np.isfinite(log).any(1)
        np.testing.assert_array_equal(got.empty, ~there)
        W = np.exp(log[there] - log[there].max(1, keepdims=True))
        np.testing.assert_allclose(got.values[there, 0], W @ y / W.sum(1), rtol=1e-11, atol=1e-11)


def test_whitening():
    X = data(10)[0]
    H = np.array([[2.0, 0.5], [0.5, 1.0]])
    Z = Whitening(H, X).apply(X)
    D = ((Z[:, None] - Z) ** 2).sum(-1)
    U = X[:, None] - X
    np.testing.assert_allclose(D, np.einsum("ijk,kl,ijl->ij", U, np.linalg.inv(H), U), atol=1e-12)

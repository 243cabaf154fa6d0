"""Gaussian processes of many rows: the collapsed bound and the iterative evidence against the closed form and differences."""

import logging
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from scipy.stats import multivariate_normal

from fresh import run
from mercer import GaussianProcessRegressor
from mercer.errors import ConvergenceWarning, MemoryBudgetError, NotPSDError, NumericalWarning
from mercer.estimators import gaussian_methods as methods
from mercer.estimators.charts import Chart, row_units
from mercer.estimators.evidence import Settings, climb, value_at
from mercer.estimators.plan import Problem, gaussian_plan, gaussian_rank, gaussian_ways, holds
from mercer.gram import GivenGram
from mercer.kernels import RBF, Chi2, Linear, Matern, Spectrum, White
from mercer.linalg import rpcholesky
from mercer.linalg.lanczos import log_quadrature
from mercer.solvers.gaussian import posterior
from mercer.solvers.iterative_gaussian import Whitening, iterative_posterior, random_signs
from mercer.solvers.sparse_gaussian import sparse_posterior, tile_rows

KERNEL = 1.5 * RBF([0.5, 1.2])
WORDS = ["acgt" * 3, "aacc" * 3, "ggtt" * 3, "acac" * 3, "gtgt" * 3, "cccc" * 3, "atat" * 3, "ggcc" * 3]


def data(n=60, seed=0, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1] + 3.0, X[:, 0] ** 2])[:, :outputs]
    return X, Y + 0.1 * rng.standard_normal((n, outputs))


def settled(n=60, outputs=2, seed=0):
    """Rows, targets, the mean's columns and noise of each row."""
    X, Y = data(n, seed, outputs)
    return X, Y, np.column_stack([np.ones(n), X]), np.linspace(0.05, 0.2, n)


def bound(X, Z, Y, H, noise, kernel=KERNEL, **options):
    return sparse_posterior(kernel(Z), GivenGram(kernel(X, Z)), kernel.diag(X), noise, Y, H, **options)


def differences(f, x, step=1e-5):
    """Slope of f at an array, entry by entry, to fourth order."""
    out = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[place] = step
        out[place] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * step)
    return out


# ------------------------------------------------------------------------------------------------ the bound
@pytest.mark.parametrize("hold", [True, False])
@pytest.mark.parametrize("q", [0, 1, 3])
def test_the_bound_is_the_evidence_where_all_rows_are_inducing(q, hold):
    X, Y, H, noise = settled()
    T, HT = data(7, seed=1)[0], np.ones((7, 1))
    exact = posterior(KERNEL(X), noise, Y, H[:, :q])
    found, slopes = bound(X, X, Y, H[:, :q], noise, hold=hold)
    assert slopes is None
    np.testing.assert_allclose(found.evidence, exact.evidence, rtol=1e-10)
    np.testing.assert_allclose(found.slopes, exact.slopes, rtol=1e-9)
    HT = np.column_stack([np.ones(7), T])[:, :q]
    np.testing.assert_allclose(KERNEL(T, X) @ found.coefficients, KERNEL(T, X) @ exact.coefficients, atol=1e-9)
    for own in (KERNEL(T), KERNEL.diag(T)):
        args = KERNEL(T, X), own, HT
        np.testing.assert_allclose(found.covariance(*args), exact.covariance(*args), atol=1e-10)


def test_the_bound_is_the_density_less_the_trace():
    """From the definition, with n x n matrices."""
    X, Y, _, noise = settled()
    Z = data(12, seed=2)[0]
    Q = KERNEL(X, Z) @ np.linalg.solve(KERNEL(Z), KERNEL(Z, X))
    left = (KERNEL.diag(X) - Q.diagonal()) / noise
    expected = sum(multivariate_normal(np.zeros(60), Q + np.diag(noise)).logpdf(c) - 0.5 * left.sum() for c in Y.T)
    np.testing.assert_allclose(bound(X, Z, Y, np.zeros((60, 0)), noise)[0].evidence, expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_a_bound_that_rises_with_every_inducing_row(seed):
    rng = np.random.default_rng(seed)
    X, Y, H, _ = settled(40, 1 + seed % 2, seed)
    noise, kernel = rng.uniform(1e-3, 1.0, 40), rng.uniform(0.1, 10) * RBF(rng.uniform(0.2, 3))
    H = H[:, : seed % 3]
    Z = np.vstack([rng.uniform(-3, 3, (12, 2)), X[:3]])
    values = [bound(X, Z[:m], Y, H, noise, kernel)[0].evidence for m in range(1, 16)]
    exact = posterior(kernel(X), noise, Y, H).evidence
    assert (np.diff(values) >= -1e-7 * abs(exact)).all()
    assert values[-1] <= exact + 1e-7 * abs(exact)


def test_slopes_of_the_bound_in_all_that_it_reads():
    X, Y, H, noise = settled()
    Z = data(8, seed=2)[0]
    parts = [KERNEL(Z), KERNEL(X, Z), KERNEL.diag(X), noise]

    def value(i, changed):
        A, B, own, s = [changed if i == j else part for j, part in enumerate(parts)]
        return sparse_posterior(A.copy(), GivenGram(B), own, s, Y, H)[0].evidence

    for hold in (True, False):
        _, slopes = bound(X, Z, Y, H, noise, slopes=True, hold=hold)
        found = [slopes.inducing, np.vstack([W for _, W in slopes.tiles()]), slopes.diagonal, slopes.noise]
        rng = np.random.default_rng(0)
        for i, (part, slope) in enumerate(zip(parts, found, strict=True)):
            for _ in range(3):
                D = rng.standard_normal(part.shape)
                D = D + D.T if i == 0 else D
                D *= 1e-4 / np.abs(D).max()
                along = differences(lambda t, i=i, part=part, D=D: value(i, part + t * D), np.zeros(()), 1e-2)
                np.testing.assert_allclose((slope * D).sum(), along, rtol=1e-6)


def test_rows_pass_in_tiles(monkeypatch):
    """Nothing depends on how they are cut, and no more than a tile is asked for."""
    X, Y, H, noise = settled()
    Z = data(8, seed=2)[0]
    whole, slopes = bound(X, Z, Y, H, noise, slopes=True)
    asked = []

    class Watched(GivenGram):
        def rows(self, index):
            asked.append(len(range(*index.indices(60))))
            return super().rows(index)

    monkeypatch.setattr("mercer.solvers.sparse_gaussian.tile_rows", lambda m: 17)
    found, other = sparse_posterior(
        KERNEL(Z), Watched(KERNEL(X, Z)), KERNEL.diag(X), noise, Y, H, slopes=True, hold=False
    )
    W = [np.vstack([W for _, W in s.tiles()]) for s in (slopes, other)]
    assert max(asked) == 17
    np.testing.assert_allclose(found.evidence, whole.evidence, rtol=1e-12)
    np.testing.assert_allclose(*W, atol=1e-9)
    assert tile_rows(500) * 500 <= 2**20 < tile_rows(1) * 64


@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("kernel", [KERNEL, 0.7 * Matern(2.5, 0.9) + Linear(), 1.2 * RBF(0.8) + White(0.3)], ids=str)
def test_slopes_in_parameters_noise_and_inducing_rows(kernel, mean):
    """Through the chart that the search sees, with noise of each row and two outputs."""
    X, Y, H, noise = settled(25)
    q = {"zero": 0, "constant": 1, "linear": 3}[mean]
    way = methods.Sparse(methods.Observed(X, Y, H[:, :q], noise), n_inducing=6, move=True, seed=0)
    way.moving = True
    Z, extra, settings = data(6, seed=2)[0], {"alpha": 1.3}, Settings()
    chart = Chart(kernel, kernel.differentiable, extra, rows={"inducing": Z}, units=row_units(kernel, Z))
    assert len(chart) == chart.n_parameters + 12

    def at(z):
        return value_at(way.evaluate, chart, X, extra, settings, z, slope=False)[0]

    slope = value_at(way.evaluate, chart, X, extra, settings, chart.start)[1]
    expected = differences(at, chart.start, 1e-4)
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_a_little_noise_and_equal_inducing_rows():
    """Cancellation with tiny noise, and a jitter that is told."""
    X, Y, H, _ = settled(40, 1)
    noise = np.full(40, 1e-9)
    exact = posterior(RBF(0.5)(X), noise, Y, H)
    found = bound(X, X, Y, H, noise, RBF(0.5))[0]
    np.testing.assert_allclose(found.evidence, exact.evidence, rtol=1e-6)
    doubled, slopes = bound(X, np.vstack([X, X[:5]]), Y, H, np.full(40, 0.1), slopes=True)
    assert doubled.jitter > 0
    assert np.isfinite(slopes.inducing).all()
    exact = posterior(KERNEL(X), 0.1, Y, H).evidence
    assert exact - 1e-4 < doubled.evidence <= exact + 1e-9


# ------------------------------------------------------------------------------------------------ products alone
def test_a_logarithm_by_lanczos_and_its_slope():
    rng = np.random.default_rng(0)
    B = rng.standard_normal((30, 30))
    A, G = B @ B.T + 3 * np.eye(30), rng.standard_normal((30, 3))
    values, Q = np.linalg.eigh(A)
    found = log_quadrature(A, G, tol=1e-13)
    np.testing.assert_allclose(found.values, [g @ Q @ (np.log(values) * (Q.T @ g)) for g in G.T], rtol=1e-12)
    D = rng.standard_normal((30, 30))
    D = D + D.T
    along = differences(lambda t: log_quadrature(A + t * D, G, tol=1e-13).values.sum(), np.zeros(()), 1e-3)
    slope = sum(V @ X @ V.T for V, X in zip(found.bases, found.cores, strict=True))
    np.testing.assert_allclose((slope * D).sum(), along, rtol=1e-8)
    whole = log_quadrature(A, np.eye(30), tol=0)
    each = [V @ X @ V.T for V, X in zip(whole.bases, whole.cores, strict=True)]
    np.testing.assert_allclose(sum(each), np.linalg.inv(A), atol=1e-9)


def test_lanczos_ends_where_there_is_no_more_to_see():
    one = log_quadrature(2 * np.eye(5), np.eye(5))
    assert one.steps == 1
    assert one.settled
    np.testing.assert_allclose(one.values, np.log(2.0))
    A = np.diag(np.geomspace(1e-4, 1e4, 50))
    short = log_quadrature(A, np.ones((50, 1)), steps=5)
    assert short.steps == 5
    assert not short.settled
    with pytest.raises(NotPSDError, match="eigenvalue below"):
        log_quadrature(np.diag([1.0, -1.0]), np.ones((2, 1)))


def test_whitening_is_a_root_of_the_preconditioner():
    X, _, _, noise = settled()
    F = rpcholesky(GivenGram(KERNEL(X)), 12, rng=np.random.default_rng(0)).factor
    for s in (noise, 0.3):
        P, w = F @ F.T + np.diag(np.broadcast_to(s, 60)), Whitening(F, s)
        np.testing.assert_allclose(w.solve(P), np.eye(60), atol=1e-11)
        np.testing.assert_allclose(w.root(w.transposed_root(P)), np.eye(60), atol=1e-11)
        np.testing.assert_allclose(w.transposed_root(P @ w.root(np.eye(60))), np.eye(60), atol=1e-11)
        np.testing.assert_allclose(w.logdet, np.linalg.slogdet(P)[1], rtol=1e-12)


def whitening(X, noise, rank=12, kernel=KERNEL):
    return Whitening(rpcholesky(GivenGram(kernel(X)), rank, rng=np.random.default_rng(0)).factor, noise)


@pytest.mark.parametrize("q", [0, 3])
def test_all_probes_together_give_the_evidence(q):
    X, Y, H, noise = settled()
    exact, w = posterior(KERNEL(X), noise, Y, H[:, :q]), whitening(X, noise)
    found = iterative_posterior(GivenGram(KERNEL(X)), noise, Y, H[:, :q], w, np.sqrt(60) * np.eye(60), rtol=1e-13)
    np.testing.assert_allclose(found.evidence, exact.evidence, rtol=1e-8)
    np.testing.assert_allclose(found.coefficients, exact.coefficients, atol=1e-9)
    np.testing.assert_allclose(found.slopes, exact.slopes, rtol=1e-9)
    U, V = found.slope()
    np.testing.assert_allclose(U @ V.T, exact.slope(), atol=1e-3)
    T = data(7, seed=1)[0]
    HT = np.column_stack([np.ones(7), T])[:, :q]
    for own in (KERNEL(T), KERNEL.diag(T)):
        args = KERNEL(T, X), own, HT
        np.testing.assert_allclose(found.covariance(*args), exact.covariance(*args), atol=1e-9)


def test_the_estimate_has_a_slope_of_its_own():
    X, Y, H, noise = settled()
    w, g = whitening(X, noise), random_signs(60, 4, np.random.default_rng(1))
    D = np.random.default_rng(2).standard_normal((60, 5))
    D = D @ D.T

    def value(t):
        return iterative_posterior(GivenGram(KERNEL(X) + t * D), noise, Y, H, w, g, rtol=1e-13).evidence

    U, V = iterative_posterior(GivenGram(KERNEL(X)), noise, Y, H, w, g, rtol=1e-13).slope()
    np.testing.assert_allclose(((U @ V.T) * D).sum(), differences(value, np.zeros(()), 1e-4), rtol=1e-4)


def test_the_estimate_is_as_far_off_as_it_says():
    X, Y, H, noise = settled()
    exact, w = posterior(KERNEL(X), noise, Y, H).evidence, whitening(X, noise)
    off = []
    for seed in range(30):
        g = random_signs(60, 8, np.random.default_rng(seed))
        found = iterative_posterior(GivenGram(KERNEL(X)), noise, Y, H, w, g)
        off.append((found.evidence - exact) / found.standard_error)
    assert abs(np.mean(off)) < 0.7
    assert 0.6 < np.std(off) < 1.8
    assert np.isnan(iterative_posterior(GivenGram(KERNEL(X)), noise, Y, H, w).evidence)


def test_slopes_of_the_iterative_search():
    """In parameters and noise; white noise of the kernel included."""
    X, Y, H, noise = settled(40)
    for kernel, alpha in [(KERNEL, noise), (1.2 * RBF(0.8) + White(0.3), 0.0)]:
        way = methods.Iterative(methods.Observed(X, Y, H, alpha), rank=10, seed=0)
        extra = {"alpha": 1.3} if np.ndim(alpha) else {}
        w, chart = way._whitening(kernel, extra), Chart(kernel, kernel.differentiable, extra)

        evaluate = partial(way.evaluate, w)

        def at(z, chart=chart, evaluate=evaluate, extra=extra):
            return value_at(evaluate, chart, X, extra, Settings(), z, slope=False)[0]

        slope = value_at(evaluate, chart, X, extra, Settings(), chart.start)[1]
        expected = differences(at, chart.start, 1e-3)
        np.testing.assert_allclose(slope, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())


# ------------------------------------------------------------------------------------------------ the estimator
def close_models(a, b, T, rtol=1e-5, **options):
    for p, q in zip(a.predict(T, return_std=True, **options), b.predict(T, return_std=True, **options), strict=True):
        np.testing.assert_allclose(p, q, rtol=rtol, atol=1e-8)


@pytest.mark.parametrize("kernel", [1.5 * RBF(0.7), 1.5 * RBF(0.7) + White(0.1)], ids=str)
@pytest.mark.parametrize(("method", "outputs"), [("sparse", 2), ("iterative", 1)])
def test_methods_agree_with_the_closed_form(method, outputs, kernel):
    """All rows inducing, or all of the spectrum in the preconditioner."""
    X, Y = data(25, outputs=outputs)
    y, T = Y if outputs > 1 else Y[:, 0], data(9, seed=1)[0]
    settings = {"alpha": 0.1 if "White" not in str(kernel) else "learn", "mean": "linear", "optimizer": None}
    exact = GaussianProcessRegressor(kernel, method="exact", **settings).fit(X, y)
    other = GaussianProcessRegressor(kernel, method=method, random_state=0, **settings).fit(X, y)
    assert other.solver_used_ == method
    assert exact.solver_used_ == "exact"
    assert other.log_marginal_likelihood() == other.log_marginal_likelihood_value_
    np.testing.assert_allclose(other.log_marginal_likelihood_value_, exact.log_marginal_likelihood_value_, rtol=1e-6)
    close_models(exact, other, T)
    close_models(exact, other, T, noise=True)
    np.testing.assert_allclose(exact.predict(T, return_cov=True)[1], other.predict(T, return_cov=True)[1], atol=1e-8)
    np.testing.assert_allclose(exact.beta_, other.beta_, rtol=1e-6)
    for a, b in zip(exact.sample_y(T, 3).ravel(), other.sample_y(T, 3).ravel(), strict=True):
        assert abs(a - b) < 1e-3
    again = pickle.loads(pickle.dumps(other))
    for p, q in zip(again.predict(T, True), other.predict(T, True), strict=True):
        np.testing.assert_array_equal(p, q)


def test_inducing_rows_are_learned():
    X, Y = data(150)
    y, T = Y[:, 0], data(50, seed=1)[0]
    settings = {"kernel": 1.0 * RBF(1.0), "random_state": 0}
    exact = GaussianProcessRegressor(method="exact", **settings).fit(X, y)
    fixed = GaussianProcessRegressor(method="sparse", n_inducing=12, inducing="fixed", **settings).fit(X, y)
    learned = GaussianProcessRegressor(method="sparse", n_inducing=12, **settings).fit(X, y)
    values = [m.log_marginal_likelihood_value_ for m in (fixed, learned, exact)]
    assert values[0] + 1 < values[1] < values[2]
    found = {tuple(row) for row in X}
    assert all(tuple(row) in found for row in fixed.X_fit_)
    assert not any(tuple(row) in found for row in learned.X_fit_)
    assert learned.X_fit_.shape == (12, 2)
    assert learned.dual_coef_.shape == (12,)
    assert learned.theta_.shape == exact.theta_.shape
    assert not hasattr(learned, "targets_")
    e = learned.expansion_
    by_hand = e.kernel(T, e.centres) @ e.coefficients[:, 0] + e.intercept[0]
    np.testing.assert_allclose(by_hand, learned.predict(T), rtol=1e-10)
    assert np.sqrt(np.mean((learned.predict(T) - exact.predict(T)) ** 2)) < 0.1


def test_the_iterative_search_finds_what_the_exact_one_finds(monkeypatch):
    """In two searches, the second whitened by what the first found."""
    X, Y = data(120)
    made, evaluate = [], methods.Iterative.evaluate
    monkeypatch.setattr(methods.Iterative, "evaluate", lambda *args: (made.append(args[1]), evaluate(*args))[1])
    settings = {"kernel": 1.0 * RBF(1.0), "random_state": 0}
    exact = GaussianProcessRegressor(method="exact", **settings).fit(X, Y[:, 0])
    other = GaussianProcessRegressor(method="iterative", **settings).fit(X, Y[:, 0])
    assert other.log_marginal_likelihood_value_ > exact.log_marginal_likelihood_value_ - 0.5
    assert 0 < other.log_marginal_likelihood_error_ < 0.5
    assert exact.log_marginal_likelihood_error_ == 0.0
    np.testing.assert_allclose(other.alpha_, exact.alpha_, rtol=0.1)
    assert len(set(made)) == 2
    assert made[0] is not made[-1]


@pytest.mark.filterwarnings("ignore:the search of the kernel's parameters ended early")
def test_the_same_seed_is_the_same_model():
    X, Y = data(80)
    for method in ("sparse", "iterative"):
        a, b = (
            GaussianProcessRegressor(method=method, n_inducing=10, max_iter=5, random_state=3).fit(X, Y[:, 0])
            for _ in range(2)
        )
        np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_noise_of_each_row_and_other_units():
    X, Y = data(50)
    noise, T = np.linspace(0.01, 0.5, 50), data(9, seed=1)[0]
    for method in ("sparse", "iterative"):
        pair = [
            GaussianProcessRegressor(KERNEL, alpha=noise, optimizer=None, method=m, random_state=0).fit(X, Y[:, 0])
            for m in ("exact", method)
        ]
        close_models(*pair, T)
        scaled = [
            GaussianProcessRegressor(KERNEL, normalize_y=True, optimizer=None, method=method, random_state=0).fit(X, y)
            for y in (Y[:, 0], 1e3 * Y[:, 0] - 7)
        ]
        p, q = (m.predict(T, return_std=True) for m in scaled)
        np.testing.assert_allclose(1e3 * p[0] - 7, q[0], rtol=1e-6)
        np.testing.assert_allclose(1e3 * p[1], q[1], rtol=1e-6)


@pytest.mark.parametrize("method", ["sparse", "iterative"])
def test_strings_tables_and_sparse_rows(method):
    y = np.array([w.count("a") for w in WORDS], float)
    kernel = 1.0 * Spectrum(2).normalise()
    exact = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(WORDS, y)
    other = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None, method=method, random_state=0).fit(WORDS, y)
    close_models(exact, other, ["acgtgt", "tttt"])
    learned = GaussianProcessRegressor(kernel, method=method, n_inducing=4, random_state=0).fit(WORDS, y)
    assert set(learned.X_fit_) <= set(WORDS)
    X = sp.random_array((30, 5), density=0.4, rng=0).tocsr()
    noisy = np.sin(6 * X.toarray()[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    model = GaussianProcessRegressor(
        1.0 * RBF(0.5), method=method, n_inducing=12, alpha=0.1, bounds={"rbf__lengthscale": "fixed"}, random_state=0
    ).fit(X, noisy)
    assert sp.issparse(model.X_fit_)
    dense = model.predict(X.toarray())
    np.testing.assert_allclose(model.predict(X), dense, rtol=1e-9)


def test_rows_that_may_not_be_negative_stay():
    X = np.abs(data(30)[0])
    settings = {"bounds": {"chi2__gamma": "fixed"}, "n_inducing": 5, "random_state": 0}
    model = GaussianProcessRegressor(1.0 * Chi2(0.5), method="sparse", **settings).fit(X, data(30)[1][:, 0])
    assert all(tuple(row) in {tuple(r) for r in X} for row in model.X_fit_)


@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning", "ignore::mercer.errors.ConvergenceWarning")
@pytest.mark.parametrize("method", ["sparse", "iterative"])
def test_odd_rows(method):
    """One row, fewer rows than inducing ones, rows twice, a constant column, a constant target."""
    model = GaussianProcessRegressor(method=method, random_state=0)
    assert np.isfinite(model.fit([[1.0, 2.0]], [3.0]).predict([[1.0, 2.0]], return_std=True)).all()
    X, Y = data(20)
    X[:, 1] = 4.0
    twice = model.fit(np.vstack([X, X]), np.concatenate([Y[:, 0], Y[:, 0]]))
    assert len(twice.X_fit_) <= (20 if method == "sparse" else 40)
    assert np.sqrt(np.mean((twice.predict(X) - Y[:, 0]) ** 2)) < 1.5
    constant = model.fit(X, np.full(20, 2.0))
    np.testing.assert_allclose(constant.predict(X), 2.0, rtol=1e-6)
    single = GaussianProcessRegressor(method=method, random_state=0, max_iter=3).fit(X.astype(np.float32), Y[:, 0])
    mean, sd = single.predict(X.astype(np.float32), return_std=True)
    assert mean.dtype == sd.dtype == np.float32


def test_what_the_closed_form_alone_can_say():
    X, Y = data(30)
    for method in ("sparse", "iterative"):
        model = GaussianProcessRegressor(KERNEL, method=method, optimizer=None, random_state=0).fit(X, Y[:, 0])
        for verb in ("leave_one_out", "weights"):
            with pytest.raises(AttributeError, match=verb):
                getattr(model, verb)
        with pytest.raises(AttributeError, match=f'needs a fit in closed form, method="exact"; this one is {method}'):
            model.log_marginal_likelihood(model.theta_)
        with pytest.raises(ValueError, match=r"alpha must be > 0 for method=\"sparse\" and \"iterative\", got 0;"):
            GaussianProcessRegressor(KERNEL, alpha=0.0, method=method).fit(X, Y[:, 0])


def test_what_does_not_converge_is_told(monkeypatch):
    """A residual that is not reached by a warning, numbers that would mean nothing by an error."""
    X, Y = data(60)
    model = GaussianProcessRegressor(KERNEL, alpha=1e-4, method="iterative", optimizer=None, random_state=0)
    monkeypatch.setattr("mercer.estimators.gaussian_process.gaussian_rank", lambda *_: 20)
    exact = GaussianProcessRegressor(KERNEL, alpha=1e-4, optimizer=None).fit(X, Y[:, 0])
    close_models(exact, model.fit(X, Y[:, 0]), X[:5] + 0.1, rtol=1e-4)
    monkeypatch.setattr(methods, "_MAX_ITER", 80)
    with pytest.warns(ConvergenceWarning, match="conjugate gradients stopped at a residual"):
        model.fit(X, Y[:, 0])
    monkeypatch.setattr(methods, "_MAX_ITER", 2)
    with pytest.raises(NotPSDError, match='raise alpha, or use method="sparse" or "exact"'):
        model.fit(X, Y[:, 0])


@pytest.mark.filterwarnings("ignore:alpha ended at a bound", "ignore:the search of the kernel's parameters ended early")
def test_a_search_stays_where_products_tell():
    """Targets without noise: it would run to where nothing converges any more."""
    X = np.random.default_rng(0).uniform(0, 10, (100, 1))
    model = GaussianProcessRegressor(1.0 * Matern(1.5, 1.0), method="iterative", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, np.sin(X[:, 0]))
    T = np.linspace(0.5, 9.5, 20)[:, None]
    np.testing.assert_allclose(model.predict(T), np.sin(T[:, 0]), atol=0.01)


def test_priors_restarts_and_fixed_parameters():
    X, Y = data(40)
    prior = {"rbf__lengthscale": scipy.stats.lognorm(0.01, scale=0.37)}
    for method in ("sparse", "iterative"):
        settings = {"method": method, "n_inducing": 8, "random_state": 0, "max_iter": 60}
        with warnings.catch_warnings():  # the data have no noise: alpha goes to its bound, or next to it
            warnings.simplefilter("ignore", NumericalWarning)
            drawn = GaussianProcessRegressor(1.0 * RBF(2.0), priors=prior, **settings).fit(X, Y[:, 0])
        assert abs(drawn.kernel_.get_params()["rbf__lengthscale"] - 0.37) < 0.02
    with pytest.warns(NumericalWarning, match="alpha ended at a bound"):
        held = GaussianProcessRegressor(
            1.0 * RBF(2.0),
            bounds={"rbf__lengthscale": "fixed", "alpha": (0.5, 0.6)},
            n_restarts_optimizer=1,
            **settings,
        ).fit(X, Y[:, 0])
    assert held.kernel_.get_params()["rbf__lengthscale"] == 2.0
    assert held.bounded_ == ["alpha"]


# ------------------------------------------------------------------------------------------------ the search
def test_a_chart_with_rows():
    Z = data(4)[0]
    kernel = 2.0 * RBF([0.5, np.inf])
    np.testing.assert_allclose(row_units(kernel, Z), [0.2, 0.4])
    np.testing.assert_allclose(row_units(1.0 + Linear(), Z), 0.4 * Z.std(axis=0))
    chart = Chart(kernel, ["scale", "rbf__lengthscale"], {"alpha": 0.1}, {}, {"inducing": Z}, np.array([0.2, 0.4]))
    assert chart.n_parameters == 3
    assert chart.bounds()[3:] == [(None, None)] * 8
    assert not chart.ties()[3:].any()
    np.testing.assert_array_equal(chart.ties()[:3], np.eye(3))
    now = chart.extra_at(chart.start)
    np.testing.assert_allclose(now["inducing"], Z)
    np.testing.assert_allclose(now["alpha"], 0.1)
    slopes = {"scale": 1.0, "rbf__lengthscale": np.ones(2)}, {"alpha": 1.0, "inducing": np.ones((4, 2))}
    slope = chart.gradient(chart.start, *slopes)
    np.testing.assert_allclose(slope, [2.0, 0.5, 0.1, *[0.2, 0.4] * 4])


def test_a_climb_goes_on_where_another_ended():
    def evaluate(K, extra, slope):
        v = np.log(extra["alpha"])
        return (
            -(v**2) - float((extra["rows"] ** 2).sum()),
            {},
            {"alpha": -2 * v / extra["alpha"], "rows": -2 * extra["rows"]},
        )

    X, settings = data(5)[0], Settings(fixed=("lengthscale", "rows"))
    first = climb(evaluate, RBF(1.0), X, {"alpha": 3.0, "rows": X}, settings)
    np.testing.assert_allclose(first.extra["alpha"], 1.0, rtol=1e-4)
    np.testing.assert_array_equal(first.extra["rows"], X)
    both = climb(evaluate, RBF(1.0), X, {"alpha": 3.0, "rows": X}, Settings(fixed=("lengthscale",)), before=first)
    np.testing.assert_allclose(both.extra["rows"], 0.0, atol=1e-3)
    assert len(both.trace) > len(first.trace)
    assert both.trace[len(first.trace)] == pytest.approx(first.value)


# ------------------------------------------------------------------------------------------------ the plan
def problem(n, memory="8GB", m=500):
    return Problem(n, 8, np.dtype(np.float64), landmarks=m, memory=memory)


def test_the_planner_prefers_the_closed_form_where_it_fits():
    assert gaussian_plan(problem(2000), "auto", 60, "a fit").method == "exact"
    for plan, said in [
        (gaussian_plan(problem(30_000), "auto", 1, "a fit"), "the closed form would take 21.6 GB"),
        (gaussian_plan(problem(15_000), "auto", 10_000, "a fit"), ", about "),
    ]:
        assert plan.method == "sparse"
        assert said in plan.reason
        assert "500 inducing rows" in plan.reason
    for method in ("exact", "sparse", "iterative"):
        assert gaussian_plan(problem(2000), method, 60, "a fit").method == method
    ways = gaussian_ways(problem(20_000), 60)
    assert ways["sparse"].seconds < ways["iterative"].seconds < ways["exact"].seconds
    assert gaussian_rank(10_000, 8e9) == 500
    assert gaussian_rank(10_000, 8e6) == 12
    assert gaussian_rank(9, 8e9) == 9


def test_what_is_kept_between_passes_is_a_quarter_of_the_budget_at_most(monkeypatch):
    assert holds(10, 320)
    assert not holds(11, 320)
    X, Y = data(300)
    held = []
    monkeypatch.setattr(
        methods, "sparse_posterior", lambda *a, hold, **b: (held.append(hold), sparse_posterior(*a, **b))[1]
    )
    monkeypatch.setattr(methods, "GivenGram", lambda K: (held.append(K.shape), GivenGram(K))[1])
    for method in ("sparse", "iterative"):
        for memory in ("20MB", "2MB" if method == "iterative" else "400kB"):
            way = methods.METHODS[method](
                methods.Observed(X, Y, np.ones((300, 1)), 0.1, memory=memory), n_inducing=50, move=True, rank=20, seed=0
            )
            way.learn(KERNEL, {}, Settings(None))
    assert held == [True, False, (300, 300)]


def test_a_choice_is_told(caplog):
    X, Y = data(300)
    model = GaussianProcessRegressor(KERNEL, memory="100MB", optimizer=None, n_inducing=20, random_state=0)
    with caplog.at_level(logging.INFO, logger="mercer"):
        assert model.fit(X, Y[:, 0]).solver_used_ == "exact"
        assert "method      exact: three n x n matrices fit" in caplog.text
    said = model.explain(np.zeros((50_000, 2)))
    assert "method      sparse: the closed form would take 60 GB, about " in said
    assert said.splitlines()[-1].startswith("iterative")
    for method in ("exact", "iterative"):
        with pytest.raises(MemoryBudgetError, match=r'GaussianProcessRegressor of 50000 rows needs .*method="sparse"'):
            model.set_params(method=method).fit(np.zeros((50_000, 2)), np.zeros(50_000))


def test_memory_stays_within_the_budget():
    """Of n x m numbers and less than one n x n matrix, in a process of its own."""
    taken = run(
        """
        import numpy as np
        from fresh import measured
        from mercer import GaussianProcessRegressor
        from mercer.kernels import RBF

        rng = np.random.default_rng(0)
        X = rng.standard_normal((8000, 3))
        y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(8000)
        model = GaussianProcessRegressor(1.0 * RBF(1.0), n_inducing=100, max_iter=2, memory="80MB", random_state=0)
        model.fit(X[:500], y[:500])  # what is loaded once
        planned = model._plan(X, 1).bytes
        print(measured(lambda: model.fit(X, y)), model.solver_used_, len(model.X_fit_), planned)
        """
    )
    peak, used, m, planned = taken.split()
    print(f"{float(peak) / 1e6:.1f} MB, planned {float(planned) / 1e6:.1f} MB")
    assert (used, m) == ("sparse", "100")
    assert float(peak) < 80e6

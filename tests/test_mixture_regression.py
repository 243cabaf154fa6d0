"""Gaussian-mixture regression (M19): scikit-learn's joint density, Bayes' rule, Nadaraya and Watson, linear regression."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import integrate, optimize, special, stats
from sklearn.linear_model import LinearRegression
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_info, threadpool_limits

from mercer import MixtureRegression
from mercer.errors import ConvergenceWarning, MemoryBudgetError, NotPSDError
from mercer.solvers.joint_mixtures import (
    GaussianConditionals,
    conditional_log_density,
    conditional_moments,
    conditional_sample,
)


def branches(n=300, d=2, seed=0):
    """Rows in units far from 1, and targets on two branches."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    t = np.where(rng.random(n) < 0.4, X[:, 0], 1.0 - X[:, 0]) + 0.1 * rng.standard_normal(n)
    return 50.0 * X + 3.0, 1000.0 * t - 7.0


def joint(model, X, t):
    """log p(x, t) and log p(x) of the fitted mixture, by SciPy."""
    both = np.column_stack([X, t])
    d, parts = X.shape[1], []
    for columns in (slice(None), slice(0, d)):
        each = [stats.multivariate_normal(m[columns], C[columns, columns]).logpdf(both[:, columns])
                for m, C in zip(model.means_, model.covariances_, strict=True)]  # fmt: skip
        parts.append(special.logsumexp(np.stack(each, axis=1), b=model.weights_, axis=1))
    return parts


KINDS = pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])


@KINDS
def test_the_joint_density_is_that_of_scikit_learn(kind):
    X, t = branches()
    model = MixtureRegression(3, covariance_type=kind, random_state=0, max_iter=1000).fit(X, t)
    Z = np.column_stack([X, t])
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    seed = int(np.random.default_rng(0).integers(2**31))
    peer = GaussianMixture(3, covariance_type=kind, random_state=seed, max_iter=1000).fit(Z)
    scale = np.column_stack([X, t]).std(axis=0)
    found = joint(model, X, t)[0]
    np.testing.assert_allclose(found, peer.score_samples(Z) - np.log(scale).sum(), rtol=1e-9, atol=1e-9)
    assert model.n_iter_ == peer.n_iter_


@KINDS
def test_densities_are_quotients(kind):
    X, t = branches()
    model = MixtureRegression(3, covariance_type=kind, random_state=0, max_iter=1000).fit(X, t)
    both, alone = joint(model, X[:40], t[:40])
    np.testing.assert_allclose(model.log_density(X[:40], t[:40]), both - alone, rtol=1e-8, atol=1e-8)


def test_moments_and_quantiles_are_those_of_the_density():
    X, t = branches()
    model = MixtureRegression(3, random_state=0).fit(X, t)
    mean, std = model.predict(X[:5], return_std=True)
    low, high = t.min() - 4 * t.std(), t.max() + 4 * t.std()
    for i in range(5):
        grid = np.linspace(low, high, 40001)
        p = np.exp(model.log_density(np.repeat(X[i : i + 1], len(grid), axis=0), grid))
        assert abs(integrate.simpson(p, x=grid) - 1.0) < 1e-9
        assert integrate.simpson(p * grid, x=grid) == pytest.approx(mean[i], abs=1e-6 * std[i])
        assert integrate.simpson(p * (grid - mean[i]) ** 2, x=grid) == pytest.approx(std[i] ** 2, rel=1e-8)
        q = model.predict_quantiles(X[i : i + 1], [0.1, 0.7])[0]
        for level, at in zip([0.1, 0.7], q, strict=True):
            part = np.linspace(low, at, 20001)
            p = np.exp(model.log_density(np.repeat(X[i : i + 1], len(part), axis=0), part))
            assert integrate.simpson(p, x=part) == pytest.approx(level, abs=1e-8)


def test_one_component_is_linear_regression():
    X, t = branches(d=3)
    model = MixtureRegression(1, reg_covar=1e-13).fit(X, t)
    line = LinearRegression().fit(X, t)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, line.predict(X), rtol=1e-8)
    np.testing.assert_allclose(std, (t - line.predict(X)).std(), rtol=1e-8)
    np.testing.assert_allclose(
        model.predict_quantiles(X[:3], 0.975), mean[:3] + stats.norm.ppf(0.975) * std[:3], rtol=1e-10
    )


@pytest.mark.parametrize("widths", [(8.0, 90.0), ([6.0, 30.0], 90.0)], ids=["one", "per column"])
def test_one_component_at_each_row_is_nadaraya_watson(widths):
    X, t = branches()
    Q = np.random.default_rng(1).uniform(-80, 80, (60, 2))
    model = MixtureRegression(None, bandwidth=widths).fit(X, t)
    s = (((Q[:, None] - X[None]) / widths[0]) ** 2).sum(axis=2)
    W = special.softmax(-0.5 * s, axis=1)
    mean, std = model.predict(Q, return_std=True)
    np.testing.assert_allclose(mean, W @ t, rtol=1e-10)
    np.testing.assert_allclose(std**2, 90.0**2 + W @ t**2 - (W @ t) ** 2, rtol=1e-8)
    at = np.random.default_rng(2).normal(0, 500, 60)
    expected = np.log((W * stats.norm(t, 90.0).pdf(at[:, None])).sum(axis=1))
    np.testing.assert_allclose(model.log_density(Q, at), expected, rtol=1e-9, atol=1e-10)
    levels = np.array(
        [(W[i] * stats.norm(t, 90.0).cdf(q)).sum() for i, q in enumerate(model.predict_quantiles(Q, 0.3))]
    )
    np.testing.assert_allclose(levels, 0.3, rtol=1e-10)
    assert model.means_.shape == (300, 3)
    np.testing.assert_allclose(model.means_, np.column_stack([X, t]), rtol=1e-12)
    assert model.weights_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(model.covariances_[0], np.diag(np.r_[np.broadcast_to(widths[0], 2), 90.0] ** 2))


def test_far_queries_end_at_the_nearest_rows():
    X, t = branches(40)
    points = MixtureRegression(None, bandwidth=(1.0, 50.0)).fit(X, t)
    em = MixtureRegression(3, random_state=0).fit(X, t)
    for size in (1e3, 1e8, 1e30, 1e200, 1e308):
        for direction in np.array([[1.0, 0.2], [-1.0, 1.0], [0.0, -1.0]]):
            Q = size * direction[None]
            nearest = np.argmax(X @ direction) if size > 1e3 else np.argmin(((Q - X) ** 2).sum(axis=1))
            assert points.predict(Q)[0] == pytest.approx(t[nearest], rel=1e-9)
            for model in (points, em):
                answers = [*model.predict(Q, return_std=True), model.predict_quantiles(Q, [0.1, 0.9]), model.sample(Q)]
                assert all(np.isfinite(a).all() for a in answers)
                assert np.isfinite(model.log_density(Q, [t[0]])).all()


def test_several_targets():
    X, t = branches()
    T = np.column_stack([t, X[:, 1] ** 2, -t])
    model = MixtureRegression(2, random_state=0, reg_covar=1e-4).fit(X, T)
    mean, cov = model.predict(X[:6], return_cov=True)
    _, std = model.predict(X[:6], return_std=True)
    np.testing.assert_allclose(std**2, np.diagonal(cov, axis1=1, axis2=2))
    drawn = model.sample(X[:6], 20_000, random_state=0)
    assert drawn.shape == (6, 20_000, 3)
    for i in range(6):
        np.testing.assert_allclose(drawn[i].mean(axis=0), mean[i], atol=0.04 * std[i].max())
        scale = np.multiply.outer(std[i], std[i])
        np.testing.assert_allclose(np.cov(drawn[i].T) / scale, cov[i] / scale, atol=0.05)
    both, alone = joint(model, X[:40], T[:40])
    np.testing.assert_allclose(model.log_density(X[:40], T[:40]), both - alone, rtol=1e-8, atol=1e-7)
    with pytest.raises(ValueError, match="predict_quantiles needs one target, but y had 3 columns"):
        model.predict_quantiles(X, 0.5)
    one = MixtureRegression(2, random_state=0).fit(X, t[:, None])
    assert one.predict(X[:4]).shape == (4, 1)
    assert one.sample(X[:4], 5).shape == (4, 5, 1)
    assert one.predict_quantiles(X[:4], [0.5]).shape == (4, 1)


def test_draws_of_one_target_follow_the_distribution():
    X, t = branches()
    model = MixtureRegression(3, random_state=0).fit(X, t)
    drawn = model.sample(X[:3], 4000, random_state=1)
    np.testing.assert_array_equal(drawn, model.sample(X[:3], 4000, random_state=1))
    for i in range(3):
        levels = np.linspace(0.05, 0.95, 19)
        at = model.predict_quantiles(X[i : i + 1], levels)[0]
        np.testing.assert_allclose((drawn[i][:, None] <= at).mean(axis=0), levels, atol=0.03)


def test_bic_finds_the_number_of_components():
    rng = np.random.default_rng(0)
    centres, k = np.array([[0.0, 0.0], [6.0, 3.0], [-6.0, 9.0]]), rng.integers(3, size=400)
    x, t = (centres[k] + rng.standard_normal((400, 2))).T
    model = MixtureRegression(random_state=0).fit(x[:, None], t)
    assert model.n_components_ == 3
    assert len(model.bic_) == 5  # two more, neither better
    assert np.argmin(model.bic_) == 2
    likelihood = joint(model, x[:, None], t)[0].sum()
    assert model.bic_[2] == pytest.approx(-2 * likelihood + (3 * 6 - 1) * np.log(400), rel=1e-9)
    assert MixtureRegression(max_components=2, random_state=0).fit(x[:, None], t).n_components_ == 2


def test_units_do_not_matter():
    X, t = branches()
    model = MixtureRegression(3, random_state=0).fit(X, t)
    other = MixtureRegression(3, random_state=0).fit(X * 2.0**-300, t * 2.0**400)
    np.testing.assert_allclose(other.predict(X * 2.0**-300) / 2.0**400, model.predict(X), rtol=1e-9)
    shifted = model.log_density(X, t) - 400 * np.log(2.0)
    np.testing.assert_allclose(other.log_density(X * 2.0**-300, t * 2.0**400), shifted, rtol=1e-7)


def test_tiles_and_precision(monkeypatch):
    X, t = branches()
    for settings in ({"n_components": 3, "random_state": 0}, {"n_components": None, "bandwidth": (20.0, 90.0)}):
        model = MixtureRegression(**settings).fit(X, t)
        whole = model.predict(X), model.predict_quantiles(X, [0.2, 0.8]), model.log_density(X, t)
        with monkeypatch.context() as m:
            m.setattr("mercer.estimators.mixture_regression._ENTRIES", 90_000)
            parts = model.predict(X), model.predict_quantiles(X, [0.2, 0.8]), model.log_density(X, t)
        for a, b in zip(whole, parts, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        single = model.predict(X.astype(np.float32), return_std=True)
        assert single[0].dtype == single[1].dtype == np.float32
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_quantiles(X, 0.3), model.predict_quantiles(X, 0.3))


def test_given_gates_and_a_known_mixture():
    """Two components by hand: the answers of the solver, without EM."""
    C = np.array([[[1.0, 0.5], [0.5, 2.0]], [[0.5, -0.2], [-0.2, 0.3]]])
    model = GaussianConditionals(np.array([0.3, 0.7]), np.array([[0.0, 1.0], [2.0, -1.0]]), C, 1)
    x = np.array([[0.7]])
    gate = np.array([0.3 * stats.norm(0, 1).pdf(0.7), 0.7 * stats.norm(2, np.sqrt(0.5)).pdf(0.7)])
    gate /= gate.sum()
    means, variances = np.array([1.35, -1 - 0.4 * -1.3]), np.array([1.75, 0.3 - 0.08])
    mean, cov = conditional_moments(model, x)
    assert mean[0, 0] == pytest.approx(gate @ means, rel=1e-13)
    assert cov[0, 0, 0] == pytest.approx(gate @ (variances + means**2) - (gate @ means) ** 2, rel=1e-12)
    density = gate @ stats.norm(means, np.sqrt(variances)).pdf(0.2)
    assert conditional_log_density(model, x, np.array([[0.2]]))[0] == pytest.approx(np.log(density), rel=1e-12)
    drawn = conditional_sample(model, x, np.random.default_rng(0), 50_000)[0, :, 0]
    assert drawn.mean() == pytest.approx(mean[0, 0], abs=0.03)
    with pytest.raises(NotPSDError, match="raise reg_covar"):
        GaussianConditionals(np.ones(1), np.zeros((1, 2)), np.ones((1, 2, 2)), 1)


def test_what_is_refused():
    X, t = branches(30)
    for bad, said in (
        (None, r"needs bandwidth=\(h_x, h_t\)"),
        ((1.0,), r"must be a pair \(h_x, h_t\)"),
        ((0.0, 1.0), "h_x of bandwidth must be positive"),
        ((1.0, np.nan), "h_t of bandwidth must be positive"),
        (([1.0, 2.0, 3.0], 1.0), "h_x of bandwidth must be a number or 2 numbers"),
        (("a", 1.0), "h_x of bandwidth must be a number"),
        ((1e-200, 1.0), "rescale"),
    ):
        with pytest.raises(ValueError, match=said):
            MixtureRegression(None, bandwidth=bad).fit(X, t)
    with pytest.raises(ValueError, match="n_samples=30 should be >= 31"):
        MixtureRegression(31).fit(X, t)
    model = MixtureRegression(2, random_state=0).fit(X, t)
    for bad in (1.2, [-0.1, 0.5], [[0.5]], np.nan):
        with pytest.raises(ValueError, match="q="):
            model.predict_quantiles(X, bad)
    for bad in (0, 1.5, True):
        with pytest.raises(ValueError, match="n_samples="):
            model.sample(X, bad)
    with pytest.raises(ValueError, match=r"t has shape \(29,\), expected \(30,\)"):
        model.log_density(X, t[:-1])
    with pytest.raises(ValueError, match="t contains NaN"):
        model.log_density(X, np.where(t > 0, np.nan, t))
    with pytest.raises(ValueError, match="two questions"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(MemoryBudgetError, match="sparse rows"):
        MixtureRegression(1, memory=100.0).fit(sp.csr_array(X), t)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        MixtureRegression(3, max_iter=1, random_state=0).fit(X, t)


def test_threads_are_given_back(monkeypatch):
    """EM runs with one thread; the limits of the process are afterwards what they were, also after an error."""
    X, t = branches(30)
    seen = []

    def fit(self, Z, y=None):
        seen.extend(lib["num_threads"] for lib in threadpool_info())
        raise RuntimeError("my own fault")

    with threadpool_limits(2):
        before = [(lib["filepath"], lib["num_threads"]) for lib in threadpool_info()]
        MixtureRegression(2, random_state=0).fit(X, t)
        assert [(lib["filepath"], lib["num_threads"]) for lib in threadpool_info()] == before
        monkeypatch.setattr(GaussianMixture, "fit", fit)
        with pytest.raises(RuntimeError, match="my own fault"):
            MixtureRegression(2, random_state=0).fit(X, t)
        assert [(lib["filepath"], lib["num_threads"]) for lib in threadpool_info()] == before
    assert set(seen) == {1}


# ------------------------------------------------------------------------------------------------ missing entries
def with_gaps(X, share=0.25, seed=5):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def test_one_component_with_gaps_is_the_maximum_of_the_observed_density():
    """EM's mean and covariance against any optimiser on the density of the entries that are there."""
    rng = np.random.default_rng(0)
    Z = rng.multivariate_normal([1.0, -2.0, 0.5], [[2.0, 1.2, 0.5], [1.2, 1.0, 0.2], [0.5, 0.2, 1.5]], 80)
    X, t = with_gaps(Z[:, :2]), Z[:, 2]
    model = MixtureRegression(1, missing="marginalise", tol=1e-13, max_iter=5000, reg_covar=1e-12).fit(X, t)
    both = np.column_stack([X, t])

    def loss(v):
        L = np.zeros((3, 3))
        L[np.tril_indices(3)] = v[3:]
        C = L @ L.T
        return -sum(
            stats.multivariate_normal(v[:3][seen], C[np.ix_(seen, seen)]).logpdf(row[seen])
            for row, seen in ((row, ~np.isnan(row)) for row in both)
        )

    best = optimize.minimize(
        loss, np.concatenate([Z.mean(axis=0), np.linalg.cholesky(np.cov(Z.T))[np.tril_indices(3)]])
    )
    L = np.zeros((3, 3))
    L[np.tril_indices(3)] = best.x[3:]
    np.testing.assert_allclose(model.means_[0], best.x[:3], atol=2e-3)
    np.testing.assert_allclose(model.covariances_[0], L @ L.T, atol=5e-3)


def test_questions_with_gaps_are_answered_by_the_marginal():
    """A row without an entry is answered as by the mixture of the other columns and the target."""
    X, t = branches(d=3)
    model = MixtureRegression(3, missing="marginalise", random_state=0).fit(X, t)
    whole = MixtureRegression(3, random_state=0).fit(X, t)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    Q = with_gaps(X[:40])
    Q[0] = np.nan  # nothing is known: the mean of all targets
    mean, sd = model.predict(Q, return_std=True)
    density = model.log_density(Q, t[:40])
    for i, row in enumerate(Q):
        seen = np.flatnonzero(~np.isnan(row))
        columns = np.append(seen, 3)
        gates = np.log(model.weights_) + [
            stats.multivariate_normal(m[seen], C[np.ix_(seen, seen)]).logpdf(row[seen]) if len(seen) else 0.0
            for m, C in zip(model.means_, model.covariances_, strict=True)
        ]
        both = np.log(model.weights_) + [
            stats.multivariate_normal(m[columns], C[np.ix_(columns, columns)]).logpdf(np.append(row[seen], t[i]))
            for m, C in zip(model.means_, model.covariances_, strict=True)
        ]
        np.testing.assert_allclose(density[i], special.logsumexp(both) - special.logsumexp(gates), rtol=1e-8)
        regressions = [
            m[3] + (C[3, seen] @ np.linalg.solve(C[np.ix_(seen, seen)], row[seen] - m[seen]) if len(seen) else 0.0)
            for m, C in zip(model.means_, model.covariances_, strict=True)
        ]
        np.testing.assert_allclose(mean[i], special.softmax(gates) @ regressions, rtol=1e-8)
    assert model.predict_quantiles(Q).shape == (40, 3)
    draws = model.sample(Q, 4000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * sd.max() / np.sqrt(4000))


def test_a_fit_with_gaps_is_near_that_without():
    X, t = branches(2000, d=2)
    full = MixtureRegression(4, random_state=0, n_init=3).fit(X, t)
    gaps = MixtureRegression(4, random_state=0, n_init=3, missing="marginalise").fit(with_gaps(X, 0.2), t)
    T, u = branches(500, d=2, seed=1)
    scores = [m.log_density(T, u).mean() for m in (full, gaps)]
    assert scores[1] > scores[0] - 0.1
    chosen = MixtureRegression(missing="marginalise", max_components=3, random_state=0).fit(
        with_gaps(X[:300], 0.2), t[:300]
    )
    assert len(chosen.bic_) >= 2


def test_gaps_that_are_refused():
    X, t = branches(50)
    gaps = with_gaps(X)
    with pytest.raises(ValueError, match="NaN"):
        MixtureRegression(2).fit(gaps, t)
    with pytest.raises(ValueError, match="NaN"):
        MixtureRegression(2).fit(X, t).predict(gaps)
    for settings, said in [
        ({"n_components": None, "bandwidth": (1.0, 1.0)}, "compares whole rows"),
        ({"covariance_type": "tied"}, "no EM with missing entries"),
    ]:
        with pytest.raises(ValueError, match=said):
            MixtureRegression(missing="marginalise", **settings).fit(gaps, t)
    gaps[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 of X holds NaN alone"):
        MixtureRegression(2, missing="marginalise").fit(gaps, t)
    with pytest.warns(ConvergenceWarning, match="EM has not reached"):
        MixtureRegression(3, missing="marginalise", max_iter=1).fit(with_gaps(X), t)

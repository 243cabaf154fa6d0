"""Gaussian processes against their definitions, scikit-learn, finite differences and brute force."""

import pickle

import numpy as np
import pytest
import scipy.stats
import sklearn.gaussian_process.kernels as theirs
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor as Sklearn

from cases import LEAVES
from mercer import GaussianProcessRegressor, KernelRidge
from mercer.errors import ConvergenceWarning, NotPSDError, NumericalWarning
from mercer.estimators.charts import Chart, _lbfgs
from mercer.estimators.evidence import Settings, value_at
from mercer.kernels import RBF, Constant, Linear, Matern, Periodic, RationalQuadratic, Sigmoid, Spectrum, White
from mercer.kernels.sklearn_gp import from_sklearn
from mercer.solvers.gaussian import independent, posterior


def data(n=50, d=2, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, -1] + noise * rng.standard_normal(n) + 3.0


# ------------------------------------------------------------------------------------------------ the evidence
def test_evidence_is_the_density_of_the_targets():
    X, y = data()
    Y = np.column_stack([y, y**2])
    K, noise = RBF(0.7)(X), np.linspace(0.05, 0.2, 50)
    found = posterior(K.copy(), noise, Y, np.zeros((50, 0)))
    expected = sum(multivariate_normal(np.zeros(50), K + np.diag(noise)).logpdf(c) for c in Y.T)
    np.testing.assert_allclose(found.evidence, expected, rtol=1e-12)


def test_evidence_with_a_mean_is_that_of_contrasts():
    """A flat prior on b leaves the density of what is orthogonal to H: any orthonormal contrasts give it."""
    X, y = data()
    H = np.column_stack([np.ones(50), X])
    Q = np.linalg.qr(np.column_stack([H, np.random.default_rng(0).standard_normal((50, 47))]))[0][:, 3:]
    K = RBF(0.7)(X)
    found = posterior(K.copy(), 0.1, y[:, None], H)
    expected = multivariate_normal(np.zeros(47), Q.T @ (K + 0.1 * np.eye(50)) @ Q).logpdf(Q.T @ y)
    np.testing.assert_allclose(found.evidence, expected, rtol=1e-11)
    rescaled = posterior(K.copy(), 0.1, y[:, None], H @ np.diag([3.0, 0.1, 7.0]))
    np.testing.assert_allclose(rescaled.evidence, expected, rtol=1e-11)


SKLEARN = [
    theirs.ConstantKernel(2.0) * theirs.RBF([0.3, 1.0]) + theirs.WhiteKernel(0.2),
    theirs.Matern(0.7, nu=1.5) * theirs.DotProduct(1.3),
    theirs.RationalQuadratic(0.8, 1.7) + theirs.Matern(1.3, nu=2.5),
    theirs.Exponentiation(theirs.DotProduct(0.3), 2) + theirs.ConstantKernel(0.5),
    theirs.PairwiseKernel(gamma=0.4, metric="rbf"),
]


@pytest.mark.parametrize("kernel", SKLEARN, ids=str)
def test_evidence_slopes_and_predictions_of_scikit_learn(kernel):
    X, y = data()
    peer = Sklearn(kernel, alpha=0.05, optimizer=None).fit(X, y)
    ours = GaussianProcessRegressor(kernel, alpha=0.05, mean="zero", optimizer=None).fit(X, y)
    value, slope = ours.log_marginal_likelihood(eval_gradient=True)
    np.testing.assert_allclose(value, peer.log_marginal_likelihood_value_, rtol=1e-10)
    if not any(b == "fixed" for b in from_sklearn(kernel)[1].values()) and "DotProduct" not in str(kernel):
        expected = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)[1]
        order = np.argsort(ours.theta_), np.argsort(peer.kernel_.theta)
        np.testing.assert_allclose(slope[order[0]], expected[order[1]], rtol=1e-7)
    T = data(seed=1)[0][:7]
    for a, b in zip(ours.predict(T, return_cov=True), peer.predict(T, return_cov=True), strict=True):
        white = 0.2 * np.eye(7) if "White" in str(kernel) and a.ndim == 2 else 0.0
        np.testing.assert_allclose(a + white, b, rtol=1e-8, atol=1e-9)


def slope_error(kernel, rows, y):
    def evaluate(K, extra, slope):
        found = posterior(K.dense().astype(float), extra["alpha"], y[:, None], np.ones((len(y), 1)))
        W = found.slope()
        return found.evidence, W, {"alpha": float(np.trace(W))}

    chart, settings = Chart(kernel, kernel.differentiable, {"alpha": 0.3}), Settings()
    slope = value_at(evaluate, chart, rows, {"alpha": 0.3}, settings, chart.start)[1]
    step, differences = 1e-5, []
    for e in np.eye(len(chart)):
        there = [
            value_at(evaluate, chart, rows, {"alpha": 0.3}, settings, chart.start + s * step * e)[0]
            for s in (2, 1, -1, -2)
        ]
        differences.append((-there[0] + 8 * there[1] - 8 * there[2] + there[3]) / (12 * step))
    return np.abs(slope - differences).max() / max(1.0, np.abs(slope).max())


SMOOTH = [c for c in LEAVES if c.kernel.differentiable and c.kernel.resolve(c.X()).validity.certified]


@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_slopes_of_the_evidence_are_those_of_differences(case):
    """Every leaf that can be a covariance, alone and in composites of depth two."""
    rows = case.kernel.validated(case.X())
    y = np.random.default_rng(1).standard_normal(len(case.X()))
    composites = [case.kernel * (1.0 + 0.1 * RBF(2.0))] if case.vectors else []
    for kernel in (case.kernel, 0.5 * case.kernel + Constant(0.3), *composites):
        kernel = kernel._resolved(rows, None)
        assert slope_error(kernel, rows, y) < 1e-6


def test_slopes_of_several_outputs_and_mean_functions():
    X, y = data(20)
    Y, H = np.stack([y, np.cos(3 * y), X[:, 0]], axis=1), np.hstack([np.ones((20, 1)), X])
    K = RBF(0.9)(X)
    noise = np.linspace(0.05, 0.3, 20)
    W = posterior(K.copy(), noise, Y, H).slope()
    E = 1e-5 * W / np.abs(W).max()  # along the slope, where differences cancel least
    up, down = (posterior(K + sign * E, noise, Y, H).evidence for sign in (1, -1))
    np.testing.assert_allclose(2 * (W * E).sum(), up - down, rtol=1e-6)


# ------------------------------------------------------------------------------------------------ the posterior
def test_posterior_mean_is_that_of_kernel_ridge():
    X, y = data()
    T = data(seed=1)[0]
    for mean, intercept in (("zero", False), ("constant", True)):
        model = GaussianProcessRegressor(RBF(0.8), alpha=0.1, mean=mean, optimizer=None).fit(X, y)
        ridge = KernelRidge(alpha=0.1, kernel=RBF(0.8), fit_intercept=intercept).fit(X, y)
        np.testing.assert_allclose(model.predict(T), ridge.predict(T), rtol=1e-9)
        np.testing.assert_allclose(model.weights(T) @ y, model.predict(T), rtol=1e-9)
        f = model.expansion_
        np.testing.assert_allclose(
            (f.kernel(T, f.centres) @ f.coefficients + f.intercept)[:, 0], model.predict(T), rtol=1e-9
        )


@pytest.mark.parametrize("mean", ["zero", "constant", "linear", lambda X: X[:, :1] ** 2])
def test_leave_one_out_is_that_of_brute_force(mean):
    X, y = data(25)
    Y = np.column_stack([y, -y * X[:, 0]])
    settings = {"kernel": 2 * RBF(0.8), "mean": mean, "optimizer": None, "normalize_y": False}
    found = GaussianProcessRegressor(alpha=0.1, **settings).fit(X, Y).leave_one_out()
    for i in range(25):
        others = np.arange(25) != i
        model = GaussianProcessRegressor(alpha=0.1, **settings).fit(X[others], Y[others])
        mean_i, sd = model.predict(X[[i]], return_std=True, noise=True)
        np.testing.assert_allclose(found.mean[i], mean_i[0], rtol=1e-8)
        np.testing.assert_allclose(np.sqrt(found.variance[i]), sd[0], rtol=1e-8)
        np.testing.assert_allclose(found.log_probability[i], scipy.stats.norm(mean_i[0], sd[0]).logpdf(Y[i]), rtol=1e-7)


def test_a_mean_that_is_integrated_out_is_the_limit_of_a_wide_prior():
    X, y = data()
    T = data(seed=1)[0][:9]
    flat = GaussianProcessRegressor(RBF(0.8), alpha=0.1, mean="linear", optimizer=None).fit(X, y)
    wide = GaussianProcessRegressor(RBF(0.8) + 1e6 * (Linear() + 1.0), alpha=0.1, mean="zero", optimizer=None).fit(X, y)
    for a, b in zip(flat.predict(T, return_cov=True), wide.predict(T, return_cov=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert flat.beta_.shape == (3,)


def test_draws_have_the_posterior_moments():
    X, y = data(20)
    T = data(seed=1)[0][:4]
    model = GaussianProcessRegressor(RBF(0.8), alpha=0.1, optimizer=None).fit(X, np.column_stack([y, 2 * y]))
    mean, cov = model.predict(T, return_cov=True, noise=True)
    draws = model.sample_y(T, 20_000, random_state=0, noise=True)
    assert draws.shape == (4, 2, 20_000)
    np.testing.assert_allclose(draws.mean(axis=2), mean, atol=0.05)
    for j in range(2):
        np.testing.assert_allclose(np.cov(draws[:, j]), cov[:, :, j], atol=0.05)
    np.testing.assert_array_equal(draws, model.sample_y(T, 20_000, random_state=0, noise=True))


def test_targets_in_other_units_change_nothing():
    X, y = data()
    T = data(seed=1)[0][:9]
    a = GaussianProcessRegressor(normalize_y=True).fit(X, y)
    b = GaussianProcessRegressor(normalize_y=True).fit(X, 1e4 * y - 7.0)
    for p, q, scale, shift in zip(a.predict(T, True), b.predict(T, True), (1e4, 1e4), (-7.0, 0.0), strict=True):
        np.testing.assert_allclose(scale * p + shift, q, rtol=1e-5)
    np.testing.assert_allclose(1e4 * a.leave_one_out().mean - 7.0, b.leave_one_out().mean, rtol=1e-5)


def test_white_noise_is_the_noise():
    """alpha="learn" adds none beside it, and the two ways to write it agree."""
    X, y = data()
    T = data(seed=1)[0][:9]
    white = GaussianProcessRegressor(1.0 * RBF(1.0) + White(0.1)).fit(X, y)
    alpha = GaussianProcessRegressor(1.0 * RBF(1.0)).fit(X, y)
    assert white.alpha_ == 0
    np.testing.assert_allclose(white.log_marginal_likelihood_value_, alpha.log_marginal_likelihood_value_, rtol=1e-5)
    np.testing.assert_allclose(white.predict(T, return_std=True)[1], alpha.predict(T, return_std=True)[1], rtol=0.02)
    both = [m.predict(T, return_std=True, noise=True)[1] for m in (white, alpha)]
    np.testing.assert_allclose(*both, rtol=0.02)
    assert (both[0] > white.predict(T, return_std=True)[1]).all()


def test_noise_of_each_row():
    X, y = data(40)
    noise = np.where(np.arange(40) < 20, 1e-4, 25.0)
    y = y + np.where(np.arange(40) < 20, 0.0, 5.0) * np.random.default_rng(3).standard_normal(40)
    model = GaussianProcessRegressor(RBF(1.0), alpha=noise, optimizer=None).fit(X, y)
    near = np.abs(model.predict(X) - y)
    assert near[:20].max() < 0.05 < near[20:].mean()


# ------------------------------------------------------------------------------------------------ the search
def test_it_finds_what_made_the_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (200, 1))
    K = 4.0 * RBF(0.8)(X) + 0.04 * np.eye(200)
    y = np.linalg.cholesky(K) @ rng.standard_normal(200)
    model = GaussianProcessRegressor(1.0 * RBF(3.0), mean="zero").fit(X, y)
    assert model.converged_
    assert not model.bounded_
    assert 0.6 < model.kernel_.get_params()["rbf__lengthscale"] < 1.1
    assert 0.02 < model.alpha_ < 0.08
    assert np.abs(model.log_marginal_likelihood(eval_gradient=True)[1]).max() < 1e-2


def test_a_lengthscale_for_each_column_finds_those_that_matter():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 4))
    y = np.sin(2 * X[:, 1]) + 0.05 * rng.standard_normal(80)
    with pytest.warns(NumericalWarning, match="lengthscale ended at a bound"):
        model = GaussianProcessRegressor(ard=True, bounds={"rbf__lengthscale": (0.01, 100.0)}).fit(X, y)
    lengths = model.kernel_.get_params()["rbf__lengthscale"]
    assert lengths[1] < 3
    assert np.delete(lengths, 1).min() > 10
    one = GaussianProcessRegressor().fit(X, y)
    assert model.log_marginal_likelihood_value_ > one.log_marginal_likelihood_value_ + 10


def test_restarts_bounds_priors_and_other_optimizers():
    X, y = data(40)
    start = 1.0 * RBF(1e3)
    plain = GaussianProcessRegressor(start).fit(X, y)
    again = GaussianProcessRegressor(start, n_restarts_optimizer=5, random_state=0).fit(X, y)
    assert again.log_marginal_likelihood_value_ >= plain.log_marginal_likelihood_value_ - 1e-6
    with pytest.warns(NumericalWarning, match="alpha ended at a bound"):
        held = GaussianProcessRegressor(1.0 * RBF(2.0), bounds={"rbf__lengthscale": "fixed", "alpha": (0.5, 0.6)}).fit(
            X, y
        )
    assert held.bounded_ == ["alpha"]
    assert held.kernel_.get_params()["rbf__lengthscale"] == 2.0
    assert 0.5 <= held.alpha_ <= 0.6
    prior = {"rbf__lengthscale": scipy.stats.lognorm(0.01, scale=0.37)}
    drawn = GaussianProcessRegressor(1.0 * RBF(2.0), priors=prior).fit(X, y)
    assert abs(drawn.kernel_.get_params()["rbf__lengthscale"] - 0.37) < 0.01

    def stay(objective, theta, bounds):
        value, slope = objective(theta)
        assert len(bounds) == len(slope) == len(theta)
        return theta, value

    same = GaussianProcessRegressor(1.0 * RBF(2.0), optimizer=stay).fit(X, y)
    assert same.kernel_ == 1.0 * RBF(2.0)


def test_parts_that_are_switched_off_stay_off():
    X, _ = data()
    model = GaussianProcessRegressor(RBF([1.0, np.inf])).fit(
        X, np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(50)
    )
    assert model.kernel_.lengthscale[1] == np.inf
    assert len(model.theta_) == 2


# ------------------------------------------------------------------------------------------------ any rows, bad input
def test_strings():
    words = ["acgt" * 3, "aacc" * 3, "ggtt" * 3, "acac" * 3, "gtgt" * 3, "cccc" * 3]
    y = np.array([w.count("a") for w in words], float)
    model = GaussianProcessRegressor(1.0 * Spectrum(2).normalise(), alpha=1e-4).fit(words, y)
    np.testing.assert_allclose(model.predict(words), y, atol=0.5)
    sd = model.predict(["tttttttttttt"], return_std=True)[1]
    assert sd[0] > model.predict(words, return_std=True)[1].max()


def test_equal_rows_without_noise():
    X, y = data(10)
    X, y = np.vstack([X, X]), np.concatenate([y, y])
    with pytest.warns(NumericalWarning, match="numerically singular"):
        model = GaussianProcessRegressor(RBF(1.0), alpha=0.0, optimizer=None).fit(X, y)
    assert model.jitter_ > 0
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)


def test_what_is_refused():
    X, y = data(20)
    with pytest.raises(NotPSDError, match="is no covariance"):
        GaussianProcessRegressor(Sigmoid()).fit(X, y)
    with pytest.raises(NotPSDError, match="smallest eigenvalue"):
        GaussianProcessRegressor(lambda a, b: -float(np.abs(a - b).sum())).fit(X, y)
    for settings, said in [
        ({"alpha": np.ones(3)}, "one for each of the 20 rows"),
        ({"alpha": -np.ones(20)}, "finite numbers >= 0"),
        ({"bounds": {"rho": (1, 2)}}, "bounds names 'rho'"),
        ({"bounds": {"alpha": (2, 1)}}, "from a lower to a higher"),
        ({"bounds": {"alpha": "free"}}, r"must be \(low, high\)"),
        ({"kernel": "precomputed"}, "no rows to be uncertain of"),
        ({"kernel": theirs.CompoundKernel([theirs.RBF()])}, "no counterpart"),
        ({"mean": lambda X: X * np.nan}, "NaN or infinity"),
    ]:
        with pytest.raises(ValueError, match=said):
            GaussianProcessRegressor(**settings).fit(X, y)
    with pytest.raises(ValueError, match='mean="linear" needs rows of numbers'):
        GaussianProcessRegressor(Spectrum(2), mean="linear").fit(["acg", "cgt", "ggg"], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="ard=True needs rows of numbers"):
        GaussianProcessRegressor(Spectrum(2), ard=True).fit(["acg", "cgt", "ggg"], [1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="At most one"):
        GaussianProcessRegressor(optimizer=None).fit(X, y).predict(X, return_std=True, return_cov=True)
    with pytest.warns(ConvergenceWarning, match="ended early"):
        GaussianProcessRegressor(ard=True, max_iter=1).fit(X, y)


def test_a_pickled_model_knows_its_variances():
    X, y = data()
    model = GaussianProcessRegressor(2 * RBF(0.5) + Matern(1.5, 1.0), mean="linear").fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    for a, b in zip(model.predict(X[:5], True), again.predict(X[:5], True), strict=True):
        np.testing.assert_array_equal(a, b)


def test_columns_that_span_the_others():
    rng = np.random.default_rng(0)
    H = rng.standard_normal((10, 3))
    A = np.column_stack([H[:, 0], np.zeros(10), 2 * H[:, 0], H[:, 1], H[:, 0] - H[:, 1], H[:, 2]])
    np.testing.assert_array_equal(independent(A), [0, 3, 5])


@pytest.mark.parametrize("kernel", [Periodic(2.0, 0.7), RationalQuadratic(1.5, 0.8)])
def test_kernels_of_one_column_are_those_of_scikit_learn(kernel):
    X = np.linspace(0, 5, 9)[:, None]
    peer = {Periodic: theirs.ExpSineSquared(0.7, 2.0), RationalQuadratic: theirs.RationalQuadratic(0.8, 1.5)}[
        type(kernel)
    ]
    assert from_sklearn(peer)[0] == kernel
    np.testing.assert_allclose(kernel(X), peer(X), rtol=1e-12)


def test_a_kernel_that_is_kept_is_kept_to_the_last_bit():
    X, y = np.linspace(0, 1, 9)[:, None], np.arange(9.0)
    kernel = 10.0 * RBF(0.7)
    assert np.exp(np.log(10.0)) != 10.0
    assert GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y).kernel_ == kernel


def test_a_search_that_rounding_ends_has_converged():
    """A line search that gains nothing where the slope is small is no early end; with a slope that tells of more it is one."""
    chart = Chart(2.0 * RBF(0.5), ["scale", "rbf__lengthscale"])

    def flat(slope, start=chart.start):
        return _lbfgs(lambda z: (1.0 + 1e-10 * bool((z != start).any()), slope), start, chart.bounds(), 100)

    found = flat(np.full(2, 1e-4))
    assert found.success
    assert "rounding" in found.message
    assert not flat(np.ones(2)).success
    assert flat(
        np.array([1.0, 1e-4]), np.array([chart.bounds()[0][0], chart.start[1]])
    ).success  # a bound holds the first


def test_bounds_by_column_of_scikit_learn():
    alike = theirs.RBF([1.0, 2.0], [(0.1, 10.0), (0.1, 10.0)])
    assert from_sklearn(alike)[1] == {"lengthscale": (0.1, 10.0)}
    with pytest.raises(ValueError, match="differ from column to column"):
        from_sklearn(theirs.RBF([1.0, 2.0], [(0.1, 10.0), (0.1, 20.0)]))


@pytest.mark.parametrize(
    ("theirs_", "kernel", "bounds"),
    [
        (theirs.RationalQuadratic(0.8, 1.5, (0.1, 1.0), (2.0, 3.0)), RationalQuadratic(1.5, 0.8),
         {"exponent": (2.0, 3.0), "lengthscale": (0.1, 1.0)}),
        (theirs.DotProduct(2.0, (0.5, 3.0)), Linear() + Constant(4.0), {"constant__value": (0.25, 9.0)}),
        (theirs.Matern(0.8, (0.1, 1.0), nu=1.5), Matern(1.5, 0.8), {"lengthscale": (0.1, 1.0)}),
        (theirs.Matern(0.8, (0.1, 1.0), nu=np.inf), RBF(0.8), {"lengthscale": (0.1, 1.0)}),
        (theirs.RBF(0.8, "fixed"), RBF(0.8), {"lengthscale": "fixed"}),
    ],
    ids=repr,
)  # fmt: skip
def test_kernels_and_bounds_of_scikit_learn(theirs_, kernel, bounds):
    found, limits = from_sklearn(theirs_)
    assert found == kernel
    assert {n: b for n, b in limits.items() if b != "fixed" or n == "lengthscale"} == bounds
    assert all(limits[n] == "fixed" for n in limits if n.endswith("nu"))


def test_noise_is_in_the_units_of_the_targets():
    X, y = data(30)
    y = 5.0 + 20.0 * y
    noise = np.linspace(1.0, 30.0, 30)
    unit = (y - y.mean()) / y.std()
    for alpha in (noise, 9.0):
        ours = GaussianProcessRegressor(RBF(0.8), alpha=alpha, normalize_y=True, optimizer=None).fit(X, y)
        plain = GaussianProcessRegressor(RBF(0.8), alpha=alpha / y.var(), optimizer=None).fit(X, unit)
        np.testing.assert_allclose(ours.predict(X), y.mean() + y.std() * plain.predict(X), rtol=1e-10)


def test_where_an_objective_has_no_value():
    """The search is told of the worst value there is; an evaluation that was asked for says why."""

    def nowhere(K, extra, slope):
        raise NotPSDError("not here")

    X, chart = data(5)[0], Chart(RBF(1.0), ["lengthscale"], {"alpha": 1.0})
    value, slope = value_at(nowhere, chart, X, {"alpha": 1.0}, Settings(), chart.start)
    assert value == -np.inf
    assert not slope.any()
    with pytest.raises(NotPSDError, match="not here"):
        value_at(nowhere, chart, X, {"alpha": 1.0}, Settings(), chart.start, slope=False)
    with pytest.raises(ValueError, match=r"bounds\['alpha'\].* > 0"):
        GaussianProcessRegressor(bounds={"alpha": (0.0, 1.0)}).fit(X, X[:, 0])


def test_mean_functions_in_any_units():
    X, y = data(30)
    small = GaussianProcessRegressor(RBF(0.8), alpha=0.1, mean=lambda rows: rows, optimizer=None).fit(X, y)
    large = GaussianProcessRegressor(RBF(0.8), alpha=0.1, mean=lambda rows: 1e150 * rows, optimizer=None).fit(X, y)
    np.testing.assert_allclose(large.predict(X), small.predict(X), rtol=1e-9)
    np.testing.assert_allclose(1e150 * large.beta_, small.beta_, rtol=1e-9)

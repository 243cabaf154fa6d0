"""Latent positions against closed forms, brute force, finite differences and Gaussian process regression."""

import pickle
from functools import cache, partial

import numpy as np
import pytest
import scipy.stats
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import check_estimator

from mercer import GPLVM, GaussianProcessRegressor
from mercer.errors import ConvergenceWarning, MemoryBudgetError, NotDifferentiableError, NotPSDError, NumericalWarning
from mercer.estimators.gplvm import _places_of
from mercer.kernels import RBF, Linear, Matern, Polynomial, Sigmoid, Spectrum, White
from mercer.solvers.latent import Places, completed, condition, functions_of, nearest_rows, patterns, place

KERNEL = 1.3 * RBF(0.8) + 0.2 * Linear()


def curve(n=30, d=5, seed=0, noise=0.02):
    """Rows along a bent curve, and where they are on it."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 3, n))
    rows = np.column_stack([np.cos(t + j) + 0.3 * j * t for j in range(d)])
    return rows + noise * rng.standard_normal((n, d)), t


def holed(rows, share=0.2, seed=0):
    out = rows.copy()
    out[np.random.default_rng(seed).random(rows.shape) < share] = np.nan
    return out


@cache
def unrolled(share=0.0):
    """A model of every other row of a curve."""
    return GPLVM(1, missing="marginalise").fit(holed(curve(40)[0][::2], share))


def still(**settings):
    return GPLVM(optimizer=None, **settings)


# ------------------------------------------------------------------------------------------------ the evidence
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_evidence_is_the_density_of_the_columns(share):
    """Each column by itself, of the rows where it is there."""
    Y = holed(curve()[0], share)
    X = np.random.default_rng(1).standard_normal((30, 2))
    model = still(kernel=KERNEL, alpha=0.1, init=X, missing="marginalise").fit(Y)
    C = KERNEL(X) + 0.1 * np.eye(30)
    T = Y - np.nanmean(Y, axis=0)
    expected = 0.0
    for column in T.T:
        there = ~np.isnan(column)
        expected += multivariate_normal(np.zeros(there.sum()), C[np.ix_(there, there)]).logpdf(column[there])
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, expected, rtol=1e-10)
    density = scipy.stats.norm.logpdf(X).sum()
    np.testing.assert_allclose(model.log_posterior_, expected + density, rtol=1e-10)
    assert model.trace_.size == 0
    np.testing.assert_array_equal(model.embedding_, X)


def test_columns_with_the_same_gaps_share_a_pattern():
    Y = curve(6, 4)[0]
    Y[2, [0, 2]] = Y[4, 3] = np.nan
    found = patterns(Y)
    assert [g.columns.tolist() for g in found] == [[0, 2], [1], [3]]
    assert [g.rows.tolist() for g in found] == [[0, 1, 3, 4, 5], list(range(6)), [0, 1, 2, 3, 5]]


CASES = {
    "plain": ({}, 0.0),
    "kernel": ({"kernel": KERNEL}, 0.0),
    "lengthscales": ({"kernel": 2.0 * RBF([0.7, 1.4]), "bounds": {"rbf__lengthscale": (0.1, 10.0)}}, 0.0),
    "white": ({"kernel": Matern(2.5) + White(0.1)}, 0.0),
    "gaps": ({"kernel": KERNEL, "missing": "marginalise"}, 0.3),
    "back": ({"back_constraint": RBF(2.0), "normalize": True}, 0.0),
    "fixed noise": ({"kernel": 1.0 * Polynomial(2), "alpha": 0.2}, 0.0),
    "prior": ({"priors": {"alpha": scipy.stats.lognorm(1.0), "scale": scipy.stats.gamma(2.0)}}, 0.0),
}


@pytest.mark.parametrize("name", CASES)
def test_slopes_by_differences(name):
    """In every position, parameter and the noise; away from the start, where slopes are large."""
    settings, share = CASES[name]
    checked = []

    def compare(objective, theta, bounds):
        rng = np.random.default_rng(0)
        theta = theta + 0.2 * rng.standard_normal(len(theta))
        slope, step = objective(theta)[1], 1e-5
        for e in (*np.eye(len(theta))[-4:], *rng.standard_normal((4, len(theta)))):
            difference = (objective(theta + step * e)[0] - objective(theta - step * e)[0]) / (2 * step)
            np.testing.assert_allclose(slope @ e, difference, rtol=1e-6, atol=1e-6 * np.abs(slope).max())
        checked.append(len(theta))
        return theta, objective(theta)[0]

    GPLVM(2, optimizer=compare, **settings).fit(holed(curve(12)[0], share))
    assert checked[0] > 20


# ------------------------------------------------------------------------------------------------ linear: closed forms
def eigenvalues(Y):
    values, V = np.linalg.eigh((T := Y - Y.mean(axis=0)) @ T.T / Y.shape[1])
    return values[::-1], V[:, ::-1]


def test_linear_kernel_is_probabilistic_pca():
    """The largest evidence of a linear kernel in closed form, Tipping & Bishop (1999), eq. 7 and 8, with rows for columns."""
    Y = np.random.default_rng(0).standard_normal((8, 20)) * np.linspace(3, 0.5, 20)
    n, q = 8, 2
    values, V = eigenvalues(Y)
    alpha = values[q:].mean()
    X = V[:, :q] * np.sqrt(values[:q] - alpha)
    model = still(kernel=Linear(), alpha=alpha, init=X).fit(Y)
    logs = np.log(values[:q]).sum() + (n - q) * np.log(alpha)
    expected = -0.5 * 20 * (n * np.log(2 * np.pi) + logs + n)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, expected, rtol=1e-10)
    other = still(kernel=Linear(), alpha=alpha, init=1.01 * X).fit(Y)
    assert other.log_marginal_likelihood_value_ < expected


def test_search_finds_the_closed_form_of_a_linear_kernel():
    """With the positions' prior: c = l^2 + alpha of each component solves c^2 + d c = d lambda, and alpha an equation like it."""
    Y = np.random.default_rng(1).standard_normal((10, 15)) * np.linspace(3, 0.5, 15)
    (n, d), q = Y.shape, 2
    values, V = eigenvalues(Y)
    c = (-d + np.sqrt(d**2 + 4 * d * values[:q])) / 2
    rest = d * (n - q)
    alpha = (rest - np.sqrt(rest**2 - 4 * q * d * values[q:].sum())) / (2 * q)
    X = V[:, :q] * np.sqrt(c - alpha)
    model = GPLVM(q, kernel=Linear()).fit(Y)
    expected = still(n_components=q, kernel=Linear(), alpha=alpha, init=X).fit(Y).log_posterior_
    np.testing.assert_allclose(model.log_posterior_, expected, rtol=1e-7)
    np.testing.assert_allclose(model.alpha_, alpha, rtol=1e-3)
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, X @ X.T, atol=2e-3 * np.abs(X @ X.T).max())


# ------------------------------------------------------------------------------------------------ what is found
def test_a_curve_is_unrolled():
    Y, t = curve(40)
    model = GPLVM(1).fit(Y)
    assert abs(scipy.stats.spearmanr(model.embedding_[:, 0], t).statistic) > 0.999
    assert model.converged_
    assert len(model.trace_) == model.n_iter_ > 10
    np.testing.assert_allclose(model.trace_.max(), model.log_posterior_, rtol=1e-12)
    assert model.log_posterior_ > still(n_components=1).fit(Y).log_posterior_ + 10
    assert 0.01 < np.sqrt(model.alpha_) < 0.04
    assert np.abs(model.inverse_transform(model.embedding_) - Y).max() < 5 * np.sqrt(model.alpha_)
    assert model.kernel_.get_params()["rbf__lengthscale"] == 1.0
    assert model.get_feature_names_out().tolist() == ["gplvm0"]


def test_more_restarts_are_never_worse():
    """From positions in a wrong order, which a search does not mend."""
    Y = curve(8, 3, noise=0.05)[0]
    settings = {"init": np.random.default_rng(1).standard_normal((8, 1)), "random_state": 0}
    values = [GPLVM(1, n_restarts_optimizer=k, **settings).fit(Y).log_posterior_ for k in (0, 1, 2)]
    assert values == sorted(values)
    assert values[-1] > values[0] + 1.0
    assert GPLVM(1, n_restarts_optimizer=2, **settings).fit(Y).log_posterior_ == values[2]


def test_restarts_begin_around_the_start():
    begun = []

    def stay(objective, theta, bounds):
        begun.append(theta)
        return theta, objective(theta)[0]

    GPLVM(2, optimizer=stay, n_restarts_optimizer=20, random_state=0).fit(curve()[0])
    moved = np.array(begun[1:]) - begun[0]
    np.testing.assert_allclose(moved[:, :60].std(), 0.5 * np.sqrt(np.mean(begun[0][:60] ** 2)), rtol=0.1)
    np.testing.assert_allclose(moved[:, 60:].std(), 1.5, rtol=0.3)


def test_starts():
    for seed in range(4):  # signs too are those of scikit-learn
        Y = np.random.default_rng(seed).standard_normal((20, 4))
        pca, expected = still().fit(Y).embedding_, PCA(2).fit_transform(Y)
        np.testing.assert_allclose(pca, expected / expected[:, 0].std(), atol=1e-10)
    other = still(init="kernel-pca").fit(Y).embedding_
    assert np.abs(other - pca).max() > 0.1
    np.testing.assert_allclose(np.square(other[:, 0]).mean(), 1.0)
    given = np.arange(40.0).reshape(20, 2)
    model = still(init=given).fit(Y)
    given += 1
    np.testing.assert_array_equal(model.embedding_, given - 1)


def test_lengthscales_move_only_where_bounds_name_them():
    Y = curve(12)[0]
    settings = {"kernel": 1.0 * RBF(0.7), "max_iter": 20}
    with pytest.warns(ConvergenceWarning, match="search of the positions ended early .* raise max_iter"):
        fixed = GPLVM(1, **settings).fit(Y)
    assert fixed.kernel_.get_params()["rbf__lengthscale"] == 0.7
    assert fixed.kernel_.get_params()["scale"] != 1.0
    with pytest.warns(ConvergenceWarning):
        free = GPLVM(1, bounds={"rbf__lengthscale": (0.1, 3.0), "scale": "fixed"}, **settings).fit(Y)
    assert 0.1 <= free.kernel_.get_params()["rbf__lengthscale"] != 0.7
    assert free.kernel_.get_params()["scale"] == 1.0
    assert not free.converged_


def test_what_ends_at_a_bound_is_told():
    Y = np.outer(np.linspace(-1, 1, 10), [1.0, 2.0, 3.0])  # no noise at all
    with pytest.warns(NumericalWarning, match="alpha ended at a bound"):
        model = GPLVM(1, kernel=Linear()).fit(Y)
    assert model.bounded_ == ["alpha"]


def test_normalised_columns_do_not_depend_on_units():
    Y = curve(20, 4)[0]
    units = np.array([1.0, 10.0, 0.1, 3.0])
    a, b = (still(normalize=True).fit(rows) for rows in (Y, Y * units + 7.0))
    np.testing.assert_allclose(a.embedding_, b.embedding_, atol=1e-9)
    np.testing.assert_allclose(
        a.inverse_transform([[0.3, 0.1]]) * units + 7.0, b.inverse_transform([[0.3, 0.1]]), rtol=1e-9
    )


# ------------------------------------------------------------------------------------------------ answers
@pytest.mark.parametrize("kernel", [KERNEL, RBF(1.0) + White(0.05)], ids=str)
def test_expected_rows_are_those_of_gaussian_processes(kernel):
    Y = curve(20, 3)[0]
    model = still(kernel=kernel, alpha=0.02, normalize=True).fit(Y)
    Z = np.random.default_rng(0).standard_normal((7, 2))
    T = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    other = GaussianProcessRegressor(kernel, alpha=0.02, mean="zero", optimizer=None).fit(model.embedding_, T)
    for noise in (False, True):
        mean, std = model.inverse_transform(Z, return_std=True, noise=noise)
        expected, deviation = other.predict(Z, return_std=True, noise=noise)
        np.testing.assert_allclose(mean, expected * Y.std(axis=0) + Y.mean(axis=0), rtol=1e-8)
        np.testing.assert_allclose(std, deviation * Y.std(axis=0), rtol=1e-8)
    np.testing.assert_array_equal(model.inverse_transform(Z), mean)


def test_deviations_with_gaps_are_those_of_each_column():
    Y = holed(curve(20, 3)[0], 0.3)
    model = still(kernel=KERNEL, alpha=0.02, missing="marginalise").fit(Y)
    Z = np.random.default_rng(0).standard_normal((7, 2))
    mean, std = model.inverse_transform(Z, return_std=True)
    for j in range(3):
        there = ~np.isnan(Y[:, j])
        other = GaussianProcessRegressor(KERNEL, alpha=0.02, mean="zero", optimizer=None)
        other.fit(model.embedding_[there], Y[there, j] - Y[there, j].mean())
        expected, deviation = other.predict(Z, return_std=True)
        np.testing.assert_allclose(mean[:, j], expected + Y[there, j].mean(), rtol=1e-8)
        np.testing.assert_allclose(std[:, j], deviation, rtol=1e-8)


def density(model, rows, Z):
    """Log density of a row at each position, and of the position, from the definition."""
    mean, std = model.inverse_transform(Z, return_std=True, noise=True)
    there = ~np.isnan(rows)
    return scipy.stats.norm.logpdf(rows[there], mean[:, there], std[:, there]).sum(axis=1) - 0.5 * np.square(Z).sum(
        axis=1
    )


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_new_rows_are_where_they_are_most_probable(share):
    """No point of a fine grid is better, and the slope is 0."""
    model, new = unrolled(share), holed(curve(40)[0][1::2], share, seed=1)
    found = model.transform(new)
    grid = np.linspace(-4, 4, 4001)[:, None]
    for row, position in zip(new, found, strict=True):
        best, best_on_grid = density(model, row, position[None])[0], density(model, row, grid).max()
        assert best >= best_on_grid - 1e-6
    np.testing.assert_allclose(model.transform(new[::-1]), found[::-1], atol=1e-8)
    np.testing.assert_allclose(model.transform(new[3:4]), found[3:4], atol=1e-8)


@pytest.mark.parametrize("kernel", [KERNEL, Matern(2.5, [0.7, 1.1]) + White(0.1)], ids=str)
def test_objective_of_new_positions(kernel):
    """From the definition, and its slope by differences; with gaps on both sides."""
    Y = holed(curve(20)[0], 0.2)
    model = still(kernel=kernel, alpha=0.05, missing="marginalise").fit(Y[:15])
    T = Y[15:] - model.shift_
    places = Places(model._gram, model._posterior, model.alpha_, T)
    Z, index = np.random.default_rng(0).standard_normal((5, 2)), np.arange(5)
    expected = [-density(model, row, z[None])[0] for row, z in zip(Y[15:], Z, strict=True)]
    np.testing.assert_allclose(places.objective(Z, index), expected, rtol=1e-8)
    slope, step = places.gradient(Z, index), 1e-6
    for j, e in enumerate(np.eye(2)):
        difference = (places.objective(Z + step * e, index) - places.objective(Z - step * e, index)) / (2 * step)
        np.testing.assert_allclose(slope[:, j], difference, rtol=1e-5, atol=1e-5)


def test_training_rows_are_at_their_places():
    model, Y = unrolled(), curve(40)[0][::2]
    np.testing.assert_array_equal(model.transform(Y[5:9]), model.embedding_[5:9])
    moved = model.transform(Y[5:9] + 1e-9)  # not the same row, so that it is searched for
    np.testing.assert_allclose(moved, model.embedding_[5:9], atol=0.05)
    assert np.abs(moved - model.embedding_[5:9]).max() > 0
    signed = still(n_components=1).fit(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, -3.0]]))
    np.testing.assert_array_equal(signed.transform([[-0.0, 2.0]]), signed.embedding_[1:2])


def test_new_rows_are_taken_as_many_as_fit(monkeypatch):
    model, new, taken = clone(unrolled()).set_params(memory="50KB", optimizer=None), curve(40)[0][1::2], []
    model.fit(curve(40)[0][::2])
    expected = model.transform(new)

    def counted(K, outputs, noise, Y, starts):
        taken.append(len(Y))
        return place(K, outputs, noise, Y, starts)

    monkeypatch.setattr("mercer.estimators.gplvm.place", counted)
    np.testing.assert_allclose(model.transform(new), expected, atol=1e-8)
    assert max(taken) * 64 * 8 * 20 <= 50_000  # bytes for each start and training row
    assert sum(taken) == 20


def test_positions_that_do_not_rest_are_told(monkeypatch):
    monkeypatch.setattr("mercer.estimators.gplvm.place", partial(place, max_iter=2))
    with pytest.warns(ConvergenceWarning, match="positions of 20 of 20 new rows did not come to rest"):
        unrolled().transform(curve(40)[0][1::2] + 0.1)


def test_known_rows_are_seen_with_their_gaps():
    rows = np.array([[1.0, np.nan], [2.0, 3.0], [2.0, 3.0], [np.nan, 3.0]])
    asked = np.array([[2.0, 3.0], [np.nan, 3.0], [1.0, 3.0], [1.0, np.nan]])
    assert _places_of(asked, rows).tolist() == [1, 3, -1, 0]


def test_nearest_rows_by_entries_that_both_have():
    known = np.array([[0.0, 0.0, 0.0], [1.0, np.nan, 1.0], [5.0, 5.0, np.nan], [np.nan, np.nan, -0.6]])
    asked = np.array([[1.0, 1.1, 1.0], [np.nan, 4.0, 2.1], [np.nan, np.nan, np.nan], [0.0, 0.0, 3.5]])
    distances = np.array(
        [[np.nanmean((a - b) ** 2) if (~np.isnan(a - b)).any() else np.inf for b in known] for a in asked]
    )
    np.testing.assert_array_equal(nearest_rows(asked, known, 4), np.argsort(distances, axis=1, kind="stable"))


def test_the_best_start_is_taken():
    model, Y = unrolled(), curve(40)[0][::2]
    starts = np.array([[[3.0], [-3.0], [2.5], [-2.5], [2.0], model.X_fit_[7]]])
    asked = (model._gram, model._posterior, model.alpha_, (Y[7:8] - model.shift_) + 1e-9, starts)
    found, rest = place(*asked)
    np.testing.assert_allclose(found, model.X_fit_[7:8], atol=0.05)
    assert rest.all()
    assert not place(*asked[:-1], starts[:, :1], max_iter=1)[1].any()


# ------------------------------------------------------------------------------------------------ missing entries
def test_missing_entries_are_filled():
    Y, _ = curve(40)
    H = holed(Y, 0.25)
    model = GPLVM(1, missing="marginalise", max_iter=500).fit(H)
    filled, gaps = model.impute(), np.isnan(H)
    np.testing.assert_allclose(filled[~gaps], Y[~gaps], rtol=1e-12)
    np.testing.assert_allclose(filled[gaps], model.inverse_transform(model.embedding_)[gaps], rtol=1e-12)
    by_mean = np.broadcast_to(np.nanmean(H, axis=0), Y.shape)[gaps]
    error = np.sqrt(np.mean((filled[gaps] - Y[gaps]) ** 2))
    assert error < 0.1 * np.sqrt(np.mean((by_mean - Y[gaps]) ** 2))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.impute(), filled)
    np.testing.assert_array_equal(again.transform(H[:3] + 0.01), model.transform(H[:3] + 0.01))


def test_a_row_of_gaps_alone_stays_where_the_prior_has_it():
    Y = curve(15)[0]
    Y[4] = np.nan
    model = GPLVM(1, missing="marginalise", max_iter=500).fit(Y)
    np.testing.assert_allclose(model.embedding_[4], 0.0, atol=1e-3)
    np.testing.assert_allclose(model.transform(np.full((1, 5), np.nan) + 0), model.embedding_[4:5])
    assert np.isfinite(model.impute()).all()


def test_gaps_are_completed_by_components():
    Y = np.outer(np.linspace(-1, 1, 12), [1.0, 2.0, -1.0, 0.5])
    H = Y.copy()
    H[[0, 3, 7], [1, 0, 2]] = np.nan
    np.testing.assert_allclose(completed(H, 1), Y, atol=1e-2)
    assert completed(Y, 1) is not Y
    np.testing.assert_array_equal(completed(Y, 1), Y)


def test_sklearn_checks_with_missing_entries():
    check_estimator(GPLVM(1, missing="marginalise", optimizer=None), on_skip=None)


# ------------------------------------------------------------------------------------------------ back constraints
def test_back_constraint_makes_positions_functions_of_rows():
    Y, _ = curve(30)
    kernel = RBF(1.5)
    model = GPLVM(1, back_constraint=kernel, max_iter=500).fit(Y[::2])
    T = Y - model.shift_
    np.testing.assert_allclose(kernel(T, T[::2]) @ model.back_coef_, model.transform(Y), atol=1e-8)
    np.testing.assert_allclose(model.transform(Y[::2]), model.embedding_, atol=1e-6)
    middle = (model.embedding_[:-1] + model.embedding_[1:])[:, 0] / 2
    assert np.abs(model.transform(Y[1::2])[:-1, 0] - middle).max() < 0.5
    assert model.log_posterior_ > still(n_components=1, back_constraint=kernel).fit(Y[::2]).log_posterior_
    assert model.set_params(back_constraint__lengthscale=2.0).back_constraint == RBF(2.0)


def test_functions_of_a_gram_are_orthogonal():
    K = RBF(1.0)(curve(12)[0])
    values, A = functions_of(K)
    np.testing.assert_allclose(K @ A, values, atol=1e-8)
    np.testing.assert_allclose(A.T @ K @ A, np.eye(len(A.T)), atol=1e-6)
    np.testing.assert_allclose(values @ values.T, K, atol=1e-8)
    assert functions_of(np.ones((4, 4))).values.shape == (4, 1)


# ------------------------------------------------------------------------------------------------ what is refused
@pytest.mark.parametrize(
    ("settings", "change", "error", "said"),
    [
        ({"n_components": 6}, None, ValueError, "n_components=6 is more than the n_features=5 columns"),
        ({}, lambda Y: Y[:1], ValueError, "n_samples=1: positions need two rows"),
        ({}, holed, ValueError, "X contains NaN; missing="),
        ({"missing": "marginalise"}, lambda Y: np.abs(Y) * [1, np.inf, 1, 1, 1], ValueError, "infinity"),
        ({"missing": "marginalise"}, lambda Y: Y * [1, np.nan, 1, 1, 1], ValueError, "column 1 of X holds NaN alone"),
        (
            {"missing": "marginalise", "back_constraint": RBF()},
            holed,
            ValueError,
            "NaN, but back_constraint reads whole",
        ),
        ({}, lambda Y: Y * 1e200, ValueError, "rescale the columns"),
        (
            {"init": np.zeros((3, 2))},
            None,
            ValueError,
            r"init has shape \(3, 2\), but the positions of 30 rows have \(30, 2\)",
        ),
        ({"init": np.full((30, 2), np.nan)}, None, ValueError, "init contains NaN"),
        ({"kernel": Spectrum(2)}, None, NotDifferentiableError, "has no gradient in its inputs"),
        ({"kernel": "precomputed"}, None, ValueError, "precomputed"),
        ({"kernel": lambda a, b: float(a @ b)}, None, NotDifferentiableError, "has no gradient in its inputs"),
        ({"kernel": Sigmoid(1.0, -1.0)}, None, NotPSDError, "no covariance"),
        ({"back_constraint": Sigmoid(1.0, -1.0)}, None, NotPSDError, "back_constraint: .* no covariance"),
        ({"bounds": {"width": (1, 2)}}, None, ValueError, "bounds names 'width'"),
        ({"memory": "25KB"}, None, MemoryBudgetError, "GPLVM of 30 rows"),
        ({"memory": "40KB", "back_constraint": RBF()}, None, MemoryBudgetError, "GPLVM of 30 rows"),
        ({"memory": "50KB", "missing": "marginalise"}, holed, MemoryBudgetError, "30 rows with 5 patterns of missing"),
    ],
)
def test_refused(settings, change, error, said):
    Y = curve()[0]
    with pytest.raises(error, match=said):
        GPLVM(**settings).fit(Y if change is None else change(Y))


def test_positions_of_another_width_are_refused():
    model = still().fit(curve()[0])
    with pytest.raises(ValueError, match="X has 3 columns, but positions have 2"):
        model.inverse_transform(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="NaN"):
        model.inverse_transform([[np.nan, 0.0]])
    with pytest.raises(ValueError, match="NaN"):
        model.transform(holed(curve()[0]))


def test_rows_that_say_little():
    """Constant columns, duplicates, two rows, all rows the same."""
    Y = curve(10)[0]
    doubled = GPLVM(1, alpha=1e-2).fit(np.vstack([Y, Y]))
    np.testing.assert_allclose(doubled.embedding_[:10], doubled.embedding_[10:], atol=1e-2)
    flat = still().fit(np.column_stack([Y, np.full(10, 4.0)]))
    np.testing.assert_allclose(flat.inverse_transform(flat.embedding_)[:, -1], 4.0)
    assert np.isfinite(still(n_components=1).fit(Y[:2]).transform(Y[:3])).all()
    same = still(normalize=True).fit(np.ones((5, 3)))
    np.testing.assert_array_equal(same.embedding_, 0.0)
    np.testing.assert_allclose(same.inverse_transform([[0.0, 0.0]]), 1.0)


def test_precision_of_answers():
    Y = curve(20)[0]
    single = still().fit(Y.astype(np.float32))
    assert single.embedding_.dtype == np.float32
    assert single.transform(Y[:3].astype(np.float32) * 1.01).dtype == np.float32
    assert single.transform(Y[:3] * 1.01).dtype == np.float64
    assert {a.dtype.type for a in single.inverse_transform(single.embedding_, return_std=True)} == {np.float32}
    assert single.impute().dtype == np.float32


def test_slope_in_the_covariance_with_gaps():
    Y = holed(curve(10)[0], 0.3)
    T, K = Y - np.nanmean(Y, axis=0), RBF(1.0)(np.arange(10.0)[:, None])
    before = K.copy()
    found = condition(K, 0.1, T, patterns(Y))
    np.testing.assert_array_equal(K, before)
    step, i, j = 1e-6, 2, 7
    E = np.zeros((10, 10))
    E[i, j] = E[j, i] = step
    up, down = (condition(K + s * E, 0.1, T, patterns(Y)).evidence for s in (1, -1))
    np.testing.assert_allclose(found.slope()[i, j] + found.slope()[j, i], (up - down) / (2 * step), rtol=1e-5)
    assert found.jitter == 0.0

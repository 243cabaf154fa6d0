"""Gaussian processes on real data: errors and coverage over ten splits. The figures are printed."""

import time

import numpy as np
import pytest

from mercer import GaussianProcessRegressor
from mercer.kernels import RBF, Matern, RationalQuadratic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.filterwarnings(
    "ignore:rationalquadratic__:mercer.errors.NumericalWarning"
)  # at a bound: columns that do not matter
@pytest.mark.parametrize(
    ("name", "most", "rows"), [("concrete", 5.3, 2000), ("kin8nm", 0.073, 1500), ("energy_heating", 0.5, 2000)]
)
def test_errors_and_coverage(data_home, name, most, rows):
    """A lengthscale for each column, learned on at most `rows` rows; the posterior is that of all training rows."""
    with np.load(data_home / f"{name}.npz") as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    found = []
    for seed in range(10):
        A, B, train, held = split(X, len(y), seed)
        kernel = float(np.var(y[train])) * RationalQuadratic(1.0, np.full(X.shape[1], 2.0))
        kernel = kernel if name != "kin8nm" else float(np.var(y[train])) * Matern(2.5, np.full(X.shape[1], 2.0))
        learned = GaussianProcessRegressor(kernel, max_iter=500).fit(A[:rows], y[train][:rows])
        model = GaussianProcessRegressor(learned.kernel_, alpha=float(learned.alpha_), optimizer=None).fit(A, y[train])
        mu, spread = model.predict(B, return_std=True, noise=True)
        inside = np.abs(y[held] - mu) <= 1.96 * spread
        found.append([np.sqrt(np.mean((mu - y[held]) ** 2)), inside.mean()])
    error, coverage = np.mean(found, axis=0)
    print(f"\n{name}: RMSE {error:.4f} (aim {most}), 95 % intervals cover {100 * coverage:.1f} %")
    assert error <= most
    assert 0.90 <= coverage <= 0.98


def test_one_lengthscale_beside_one_for_each_column(data_home):
    with np.load(data_home / "concrete.npz") as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    one, each = (GaussianProcessRegressor(300.0 * RBF(2.0), ard=ard).fit(X[:500], y[:500]) for ard in (False, True))
    values = [m.log_marginal_likelihood_value_ for m in (one, each)]
    print(f"\nconcrete, 500 rows: log evidence {values[0]:.1f}, with a lengthscale for each column {values[1]:.1f}")
    assert values[1] > values[0]


@pytest.mark.filterwarnings("ignore:matern__:mercer.errors.NumericalWarning")
def test_inducing_rows_on_all_of_kin8nm(data_home):
    """Rows that move, and the parameters with them, on all training rows; the closed form of the same rows is 0.0697."""
    with np.load(data_home / "kin8nm.npz") as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    found = []
    for seed in range(3):
        A, B, train, held = split(X, len(y), seed)
        kernel = float(np.var(y[train])) * Matern(2.5, np.full(8, 2.0))
        start = time.perf_counter()
        model = GaussianProcessRegressor(kernel, method="sparse", n_inducing=500, random_state=0).fit(A, y[train])
        seconds = time.perf_counter() - start
        mu, spread = model.predict(B, return_std=True, noise=True)
        inside = np.abs(y[held] - mu) <= 1.96 * spread
        found.append([np.sqrt(np.mean((mu - y[held]) ** 2)), inside.mean(), seconds])
    error, coverage, seconds = np.mean(found, axis=0)
    print(f"\nkin8nm, 500 inducing rows: RMSE {error:.4f}, cover {100 * coverage:.1f} %, {seconds:.0f} s a fit")
    assert error <= 0.085
    assert 0.93 <= coverage <= 0.98


@pytest.mark.filterwarnings("ignore:matern__:mercer.errors.NumericalWarning")
def test_california_by_the_planner(data_home):
    with np.load(data_home / "california_housing.npz") as file:
        X, y = file["X"].astype(float), file["y"].astype(float) / 1e5
    A, B, train, held = split(X, len(y), 0)
    model = GaussianProcessRegressor(
        float(np.var(y[train])) * Matern(2.5, np.full(8, 2.0)), random_state=0, memory="4GB"
    )
    print("\n" + model.explain(A))
    start = time.perf_counter()
    model.fit(A, y[train])
    seconds = time.perf_counter() - start
    mu, spread = model.predict(B, return_std=True, noise=True)
    error, coverage = np.sqrt(np.mean((mu - y[held]) ** 2)), np.mean(np.abs(y[held] - mu) <= 1.96 * spread)
    print(f"california_housing, {model.solver_used_}: RMSE {error:.4f}, cover {100 * coverage:.1f} %, {seconds:.0f} s")
    assert model.solver_used_ == "sparse"
    assert error < 0.48
    assert 0.93 <= coverage <= 0.98


def test_products_alone_have_the_posterior_of_all_rows(data_home):
    """Parameters of the closed form on 1500 rows; an evidence within its standard error, and the same predictions."""
    with np.load(data_home / "kin8nm.npz") as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    A, B, train, held = split(X, len(y), 0)
    kernel = float(np.var(y[train])) * Matern(2.5, np.full(8, 2.0))
    learned = GaussianProcessRegressor(kernel).fit(A[:1500], y[train][:1500])
    settings = {"alpha": float(learned.alpha_), "optimizer": None, "random_state": 0}
    exact, other = (
        GaussianProcessRegressor(learned.kernel_, method=m, **settings).fit(A, y[train]) for m in ("exact", "iterative")
    )
    values = [m.log_marginal_likelihood_value_ for m in (exact, other)]
    error = other.log_marginal_likelihood_error_
    print(f"\nlog evidence {values[0]:.2f}, estimated {values[1]:.2f} with a standard error of {error:.2f}")
    assert abs(values[0] - values[1]) < 4 * error
    np.testing.assert_allclose(exact.predict(B), other.predict(B), atol=1e-6)
    sd = [m.predict(B[:50], return_std=True)[1] for m in (exact, other)]
    np.testing.assert_allclose(*sd, rtol=1e-5)
    print(f"RMSE {np.sqrt(np.mean((other.predict(B) - y[held]) ** 2)):.4f}")


def split(X, n, seed):
    """Scaled training and held-out rows, and their numbers."""
    train, held = np.split(np.random.RandomState(seed).permutation(n), [int(0.9 * n)])
    mean, sd = X[train].mean(axis=0), X[train].std(axis=0)
    return (X[train] - mean) / sd, (X[held] - mean) / sd, train, held

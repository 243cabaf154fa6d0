"""Gaussian processes on real data: errors and coverage over ten splits. The figures are printed."""

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
        order = np.random.RandomState(seed).permutation(len(y))
        train, held = np.split(order, [int(0.9 * len(y))])
        mean, sd = X[train].mean(axis=0), X[train].std(axis=0)
        A, B = (X[train] - mean) / sd, (X[held] - mean) / sd
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

"""Densities on real data."""

import numpy as np
import pytest
from scipy.signal import find_peaks

from mercer import KernelDensity

pytestmark = pytest.mark.slow


def waiting(data_home):
    with np.load(data_home / "geyser.npz") as data:
        return data["X"][:, list(data["columns"]).index("waiting_min")][:, None].astype(float)


def test_old_faithful_waits_in_two_ways(data_home):
    """Short and long waits; what rises by less than a twentieth of the highest is a few rows in a tail."""
    x = waiting(data_home)
    grid = np.linspace(x.min() - 10, x.max() + 10, 1001)
    model = KernelDensity("isj").fit(x)
    f = np.exp(model.score_samples(grid[:, None]))
    found, _ = find_peaks(f, prominence=0.05 * f.max())
    assert len(found) == 2
    assert 50 < grid[found[0]] < 60
    assert 75 < grid[found[1]] < 85
    assert model.bandwidth_ < KernelDensity("normal-silverman").fit(x).bandwidth_
    assert model.bandwidth_ == pytest.approx(KernelDensity("loo").fit(x).bandwidth_, rel=0.2)
    assert model.cdf([[66.5]])[0] == pytest.approx(np.mean(x < 66.5), abs=0.05)


def test_a_million_rows_in_one_column():
    x = np.random.default_rng(0).standard_normal((10**6, 1))
    model = KernelDensity("isj").fit(x)
    assert model.bandwidth_ == pytest.approx((4 / 3e6) ** 0.2, rel=0.1)
    grid = np.linspace(-3, 3, 61)[:, None]
    truth = np.exp(-0.5 * grid[:, 0] ** 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(np.exp(model.score_samples(grid)), truth, atol=5e-3)

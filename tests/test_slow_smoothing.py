"""Smoothers on real data, on many rows, and their bands over many samples."""

import sys

import numpy as np
import pytest

from fresh import run
from mercer import LocalRegression, NadarayaWatson

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def mean_error(data_home, **settings):
    """RMSE over ten splits into 80 % and 20 %, as the page of the data describes them."""
    with np.load(data_home / "mcycle.npz") as file:
        X, y = file["X"].astype(float).reshape(-1, 1), file["y"].astype(float)
    errors = []
    for seed in range(10):
        order = np.random.RandomState(seed).permutation(len(y))
        train, held = np.split(order, [int(0.8 * len(y))])
        model = LocalRegression(**settings).fit(X[train], y[train])
        errors.append(np.sqrt(np.mean((model.predict(X[held]) - y[held]) ** 2)))
    return float(np.mean(errors))


@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")  # the tri-cube window ends between some held rows
def test_motorcycles(data_home):
    """Local lines with leave-one-out bandwidths; the Gaussian window, the default, has the smoother criterion."""
    error = mean_error(data_home)
    print(f"\nmean RMSE: gaussian {error:.2f}, tricube {mean_error(data_home, kernel='tricube'):.2f}")
    assert error <= 24.0


MEASURED = """
    import numpy as np
    from fresh import measured
    from mercer import LocalRegression, NadarayaWatson

    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((100_000, 2)), rng.standard_normal((10_000, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    model = {model}.fit(X, y)
    model.predict(Q[:10])
    found = []
    taken = measured(lambda: found.append(model.predict(Q)))
    U = (Q[:50, None] - X) / 0.1
    s = (U**2).sum(-1)
    W = np.exp(-0.5 * (s - s.min(1, keepdims=True)))
    B = np.concatenate([np.ones((*s.shape, 1)), U], 2) if "Local" in "{model}" else np.ones((*s.shape, 1))
    A = np.einsum("qn,qni,qnj->qij", W, B, B)
    b = np.einsum("qn,qni,n->qi", W, B, y)
    expected = np.linalg.solve(A, b[..., None])[:, 0, 0]
    print(taken / 1e6, np.abs(found[0][:50] - expected).max())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("model", ["LocalRegression(1, 0.1, kernel='gaussian')", "NadarayaWatson('gaussian', 0.1)"])
def test_a_hundred_thousand_rows_and_ten_thousand_queries(model):
    """The matrix of all pairs would have 8 GB; answers are those of sums over all rows."""
    megabytes, error = map(float, run(MEASURED.replace("{model}", model), timeout=250).split())
    print(f"\n{model}: {megabytes:.0f} MB above the rows, largest error {error:.1e}")
    assert megabytes < 100
    assert error < 1e-9


def test_many_rows_have_a_bandwidth_soon():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 2))
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(20_000)
    for model in (NadarayaWatson(bandwidth="loo"), LocalRegression(kernel="gaussian")):
        model.fit(X, y)
        assert model.bandwidth_rows_ < 20_000
        assert model.bandwidth_[1] > 3 * model.bandwidth_[0]  # the second column says nothing
        assert model.score(X[:2000], np.sin(3 * X[:2000, 0])) > 0.98


def test_bands_of_two_columns_and_other_windows():
    """Pointwise coverage over a thousand samples at once, with a window so narrow that bias is small beside the noise."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (400, 2))
    at = rng.uniform(-0.9, 0.9, (12, 2))

    def truth(X):
        return np.sin(X[:, 0]) + X[:, 1] ** 2 / 4

    Y = truth(X)[:, None] + 0.5 * rng.standard_normal((400, 1000))
    for settings in (
        {"kernel": "gaussian", "bandwidth": 0.15},
        {"kernel": "epanechnikov", "bandwidth": 0.35},
        {"span": 0.1},
    ):
        low, high = LocalRegression(1, **settings).fit(X, Y).predict_interval(at)
        hits = ((low <= truth(at)[:, None]) & (truth(at)[:, None] <= high)).mean(axis=1)
        print(f"\n{settings}: coverage {hits.min():.3f} to {hits.max():.3f}")
        assert 0.92 < hits.min()
        assert hits.max() < 0.97

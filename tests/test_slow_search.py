"""Kernels searched and tuned on real data. The figures are printed."""

import time

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from mercer import SVC, KernelRidge, decompose, search_kernel, tune
from mercer.datasets import load_co2
from mercer.kernels import RBF, Periodic
from mercer.kernels.resolve import reads_distances

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def read(data_home, name):
    with np.load(data_home / f"{name}.npz") as file:
        return file["X"].astype(float), file["y"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_carbon_dioxide_has_a_trend_and_a_year(seed):
    """Found on some rows of all but the last two years, the structure extrapolates those: at most 1.5 ppm off."""
    X, y = load_co2(return_X_y=True)
    last = X[:, 0] > X[-1, 0] - 2.0
    start = time.perf_counter()
    found = search_kernel(X[~last], y[~last], n_rows=200, random_state=seed)
    seconds = time.perf_counter() - start
    mean, sd = found.estimator.predict(X[last], return_std=True, noise=True)
    error = np.sqrt(np.mean((mean - y[last]) ** 2))
    inside = np.mean(np.abs(mean - y[last]) < 1.96 * sd)
    print(f"\n{found}\nRMSE {error:.3f} ppm over {last.sum()} weeks, 95 % cover {100 * inside:.0f} %, {seconds:.0f} s")
    periods = [leaf.period for leaf in found.kernel._leaves if isinstance(leaf, Periodic)]
    assert any(abs(p - 1.0) < 0.01 for p in periods)
    trends = [t for t in decompose(found.estimator, X, centred=True)[1:] if not _periodic(t.kernel)]
    assert max(np.ptp(t.mean) for t in trends) > 40.0  # ppm from the first year to the last
    lengths = [leaf.lengthscale for t in trends for leaf in t.kernel._leaves if reads_distances(leaf)]
    assert not lengths or max(lengths) > 20.0
    assert error <= 1.5


def _periodic(kernel):
    return any(isinstance(leaf, Periodic) for leaf in kernel._leaves)


@pytest.mark.filterwarnings("ignore:.*ended at a bound")
@pytest.mark.parametrize("objective", ["alignment", "validation"])
def test_a_machine_with_a_poor_lengthscale_is_mended(data_home, objective):
    X, y = read(data_home, "ionosphere")
    A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    sd = A.std(axis=0)
    A, B = A / sd, B / sd
    poor = SVC(kernel=RBF(100.0)).fit(A, a).score(B, b)
    found = tune(SVC(kernel=RBF(100.0)), A, a, objective, random_state=0)
    tuned = found.estimator.score(B, b)
    print(f"\nionosphere, {objective}: accuracy {poor:.3f} with a lengthscale of 100, {tuned:.3f} with {found}")
    assert tuned > poor + 0.1


@pytest.mark.filterwarnings("ignore:.*ended at a bound")
@pytest.mark.parametrize("objective", ["loo", "evidence", "validation"])
def test_lengthscales_of_columns_on_concrete(data_home, objective):
    X, y = read(data_home, "concrete")
    A, B, a, b = train_test_split(X, y.astype(float), test_size=0.4, random_state=0)
    mean, sd = A.mean(axis=0), A.std(axis=0)
    A, B = (A - mean) / sd, (B - mean) / sd
    model = KernelRidge(0.1, kernel=RBF(2.0), fit_intercept=True)
    errors = [
        np.sqrt(np.mean((tune(model, A, a, objective, ard=ard, random_state=0).estimator.predict(B) - b) ** 2))
        for ard in (False, True)
    ]
    plain = np.sqrt(np.mean((model.fit(A, a).predict(B) - b) ** 2))
    print(
        f"\nconcrete, {objective}: RMSE {plain:.2f} untuned, {errors[0]:.2f} tuned, {errors[1]:.2f} with a lengthscale a column"
    )
    assert errors[0] < 1.02 * plain
    assert errors[1] < errors[0]

"""Accuracy on real data, as promised: ten 80/20 splits (seeds 0-9) as in the data folder's README."""

import numpy as np
import pytest

from mercer import KernelRidgeCV
from mercer.kernels import RBF

pytestmark = pytest.mark.slow


def splits(path, seeds):
    """Rows standardised on the training part; first int(0.8 n) rows of the seeded permutation train."""
    with np.load(path) as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    for seed in seeds:
        i = np.random.RandomState(seed).permutation(len(y))
        cut = int(0.8 * len(y))
        train, test = i[:cut], i[cut:]
        mean, size = X[train].mean(axis=0), X[train].std(axis=0)
        Z = (X - mean) / np.where(size > 0, size, 1.0)
        yield Z[train], y[train], Z[test], y[test]


def errors(kernel, path, seeds, **settings):
    """Root mean squared errors of a tuned ridge on the held-out rows."""
    found = []
    for X, y, T, t in splits(path, seeds):
        model = KernelRidgeCV(kernel=kernel, fit_intercept=True, tune="all", **settings).fit(X, y)
        found.append(float(np.sqrt(np.mean((model.predict(T) - t) ** 2))))
    print(f"\n{path.stem} {kernel!r}: RMSE {np.mean(found):.4f} +- {np.std(found):.4f} over {len(found)} splits")
    return found


@pytest.mark.timeout(900)
def test_concrete(data_home):
    path = data_home / "concrete.npz"
    shared = errors(RBF(2.0), path, range(10))
    own = errors(RBF([2.0] * 8), path, range(10))
    assert np.mean(shared) <= 5.4
    assert np.mean(own) < np.mean(shared)


@pytest.mark.timeout(900)
def test_kin8nm(data_home):
    assert np.mean(errors(RBF(2.0), data_home / "kin8nm.npz", range(10))) <= 0.076

"""The regression problem of the ridge benchmarks: a smooth function of 20 columns with noise."""

import numpy as np
from scipy.spatial.distance import cdist

D = 20
LENGTHSCALE = 5.0
GAMMA = 0.5 / LENGTHSCALE**2


def problem(n, seed=0):
    """Rows (n, 20), noisy targets (n,), and the function without its noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    clean = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] / 2 + np.cos(X[:, 3:6].sum(axis=1) / 2)
    return X, clean + 0.1 * rng.standard_normal(n), clean


def relative_residual(X, y, coefficients, alpha):
    """||y - (K + alpha I) a|| / ||y||, with K computed by differences in float64, a few rows at a time."""
    a = np.asarray(coefficients, dtype=float).ravel()
    out = np.empty_like(a)
    for i in range(0, len(X), 500):
        out[i : i + 500] = np.exp(-GAMMA * cdist(X[i : i + 500], X, "sqeuclidean")) @ a
    return np.linalg.norm(y - out - alpha * a) / np.linalg.norm(y)

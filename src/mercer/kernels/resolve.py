"""Constants that kernels take from data: lengthscales by word."""

import math

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from mercer import validate
from mercer.errors import NanError
from mercer.kernels.parameters import specs

__all__ = ["at_quantile", "distance_quantile", "gamma", "lengthscale", "spread"]

_MEDIAN_ROWS = 1000


def lengthscale(word: str, rows, weight=None) -> float:
    """Lengthscale of "scale" or "auto" (the Gaussian's gamma = 1/(2 l^2) as in scikit-learn), or the "median" distance."""
    X = validate.numeric(rows)
    if word == "median":
        return distance_quantile(X)
    return math.sqrt(0.5 / gamma(word, X, weight))


def gamma(word: str | None, X, weight=None) -> float:
    """scikit-learn's "scale" = 1 / (d Var(X)), 1 for constant X, and "auto" = None = 1 / d."""
    d = X.shape[1]
    if word in ("auto", None):
        return 1.0 / d
    with np.errstate(all="ignore"):
        variance = np.float64(spread(X, weight))
        value = 1.0 / (d * variance) if variance > 0 else 1.0
    if not (np.isfinite(value) and value > 0):
        raise NanError(f"the variance of the rows ({variance:g}) over- or underflows; rescale the columns")
    return float(value)


def spread(X, weight=None) -> float:
    """Variance over all entries of X, rows weighted."""
    w = np.full(X.shape[0], 1.0 / X.shape[0]) if weight is None else weight / weight.sum()
    d = X.shape[1]
    mean = float((w @ X).sum() / d)
    if sp.issparse(X):
        return max(float((w @ X.power(2)).sum() / d) - mean**2, 0.0)
    return float((w @ np.square(X - mean, dtype=np.float64)).sum() / d)


def distance_quantile(X, q=0.5) -> float:
    """Median, or another quantile, of the Euclidean distances of distinct rows, so that weights mean repetition; of at most a
    thousand evenly spaced ones. 1 if all rows are equal.
    """
    X = validate.distinct(X)
    n = X.shape[0]
    X = X[np.linspace(0, n - 1, min(n, _MEDIAN_ROWS)).round().astype(int)]
    if sp.issparse(X):
        from sklearn.metrics import pairwise_distances  # brings much that kernels do not need

        D = pairwise_distances(X)
        distances = D[np.triu_indices(len(D), 1)]
    else:
        largest = np.abs(X).max() or 1.0  # squares of 1e200 or 1e-200 would leave the range
        distances = pdist(X / largest) * largest
    distances = distances[distances > 0]
    if not len(distances):
        return 1.0
    return float(np.median(distances) if q == 0.5 else np.quantile(distances, q))


def at_quantile(kernel, rows, q: float):
    """The kernel with every lengthscale at a quantile of the distances of the rows that its leaf sees."""
    from mercer.kernels.algebra import On, Warp

    if isinstance(kernel, On):
        rows = validate.part(rows, kernel.chosen)
    elif isinstance(kernel, Warp):
        rows = kernel._warped(rows)
    if kernel.children:
        return kernel.rebuild(tuple(at_quantile(child, rows, q) for child in kernel.children))
    if not reads_distances(kernel):
        return kernel
    length = distance_quantile(validate.numeric(rows), q)
    return kernel._with(
        lengthscale=length if np.ndim(kernel.lengthscale) == 0 else np.full(len(kernel.lengthscale), length)
    )


def reads_distances(leaf) -> bool:
    """Whether a leaf has a lengthscale in the units of its rows: one that may be "median"."""
    spec = specs(type(leaf)).get("lengthscale")
    return spec is not None and "median" in spec.words

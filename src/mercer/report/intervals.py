"""Scores of predictions on rows that a model has not seen, with 95 % intervals."""

import numpy as np

from mercer.random import generator

__all__ = ["scores", "wilson"]

_DRAWS = 500
_Z = 1.959963984540054  # the 97.5 % quantile of the normal distribution


def scores(task: str, y, predicted, probability=None, seed: int = 0) -> dict[str, tuple[float, float, float]]:
    """Name -> (value, low, high): accuracy with Wilson's interval, the others by drawing rows again, with repetition.

    y, predicted : (n,), numbers, or in a classification codes into the columns of probability (n, classes).
    """
    y, predicted = np.asarray(y), np.asarray(predicted)
    if task == "regression":
        measures = {"rmse": _rmse, "mae": _mae} | ({"r2": _r2} if len(np.unique(y)) > 1 else {})
        return {name: _drawn(f, (y, predicted), seed) for name, f in measures.items()}
    right = y == predicted
    found = {
        "accuracy": wilson(int(right.sum()), len(right)),
        "balanced_accuracy": _drawn(_balanced, (y, predicted), seed),
    }
    if probability is not None:
        found["log_loss"] = _drawn(_log_loss, (y, np.asarray(probability)), seed)
    return found


def wilson(right: int, n: int) -> tuple[float, float, float]:
    """A share and its interval. Wilson (1927).

    >>> [round(v, 3) for v in wilson(8, 10)]
    [0.8, 0.49, 0.943]
    """
    share, z2 = right / n, _Z**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n**2))
    return share, float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


def _drawn(measure, arrays, seed):
    """A measure, and the middle 95 % of its values on rows drawn with repetition."""
    rng, n = generator(seed), len(arrays[0])
    values = [measure(*(a[i] for a in arrays)) for i in (rng.integers(n, size=n) for _ in range(_DRAWS))]
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(measure(*arrays)), float(low), float(high)


def _rmse(y, f):
    return np.sqrt(np.mean((y - f) ** 2))


def _mae(y, f):
    return np.mean(np.abs(y - f))


def _r2(y, f):
    spread = np.sum((y - np.mean(y)) ** 2)
    return 1.0 - np.sum((y - f) ** 2) / spread if spread > 0 else np.nan


def _balanced(y, f):
    return np.mean([np.mean(f[y == c] == c) for c in np.unique(y)])


def _log_loss(y, p):
    return -np.mean(np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)))

"""Landmarks: a few rows that stand for all, for any kernel (X3)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.gram import Gram
from mercer.linalg import rpcholesky, safe_cholesky

__all__ = ["LANDMARKS", "Landmarks", "choose_landmarks"]

_SCORES = 5.0  # rows whose scores are computed, for each that may have a score of 1
_FIRST, _LOWEST = (
    10,
    1e-10,
)  # rows of the first dictionary; a ridge, in parts of the trace, below which scores mean nothing


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Chosen rows: their numbers among those looked at, how they were chosen, and the share of the trace of the Gram that they
    leave unexplained there, tr(K - K_nM K_MM^-1 K_Mn) / tr K, where the method knows it (else None)."""

    index: np.ndarray
    method: str
    error: float | None = None

    def __len__(self):
        return len(self.index)


def choose_landmarks(K: Gram, count: int, method: str = "rpcholesky", *, rng: np.random.Generator, tol: float = 0.0,
                     alpha: float | None = None) -> Landmarks:  # fmt: skip
    """Choose at most `count` rows of a symmetric Gram.

    method: "rpcholesky", "uniform", "kmeans++" (far from one another in the kernel's distance) or "leverage" (in proportion to
    ridge leverage scores at `alpha`). Only "rpcholesky" knows its error and ends at the tolerance `tol`.
    """
    if method not in LANDMARKS:
        raise ValueError(f"landmarks={method!r} is not known; there are {', '.join(LANDMARKS)}, or rows of your own")
    if tol and method != "rpcholesky":
        raise ValueError(f'a tolerance needs landmarks="rpcholesky", which knows its error; got landmarks={method!r}')
    if not 1 <= count <= K.shape[0]:
        raise ValueError(f"n_landmarks={count} must be between 1 and the number of rows, {K.shape[0]}")
    return LANDMARKS[method](K, int(count), rng, tol, alpha)


def _rpcholesky(K, count, rng, tol, alpha):
    found = rpcholesky(K, count, rng=rng, tol=tol)
    if not len(found.pivots):
        raise ValueError(
            f"{K.kernel!r} has no positive k(x, x) on these rows; landmarks need a positive semi-definite kernel"
        )
    return Landmarks(found.pivots, "rpcholesky", found.error)


def _uniform(K, count, rng, tol, alpha):
    return Landmarks(np.sort(rng.choice(K.shape[0], count, replace=False)), "uniform")


def _kmeans_plus_plus(K, count, rng, tol, alpha):
    """Each row drawn in proportion to its squared distance from the nearest one before. Arthur & Vassilvitskii (2007)."""
    diagonal = np.asarray(K.diag(), np.float64)
    left, index = np.full(len(diagonal), np.inf), [int(rng.integers(len(diagonal)))]
    while True:
        i = index[-1]
        left = np.minimum(left, np.maximum(diagonal + diagonal[i] - 2.0 * K.rows([i])[0], 0.0))
        left[index] = 0.0
        if len(index) == count or not left.any():
            return Landmarks(np.array(index), "kmeans++")
        index.append(int(rng.choice(len(left), p=left / left.sum())))


def _leverage(K, count, rng, tol, alpha):
    """Bottom-up: scores at a high regularisation from few rows, then lower and lower. BLESS, Rudi et al. (2018)."""
    n, diagonal = K.shape[0], np.asarray(K.diag(), np.float64)
    level = diagonal.sum()
    lowest = _LOWEST * level if alpha is None else float(alpha)
    index = np.sort(rng.choice(n, min(n, _FIRST), replace=False))
    weight = np.full(len(index), n / len(index))
    while True:
        level = max(level / 2.0, lowest)
        looked_at = int(min(n, max(10 * count, _SCORES * n * diagonal.max() / level)))
        some = np.sort(rng.choice(n, looked_at, replace=False))
        scores = _scores(K, some, index, weight, level, diagonal)
        effective = scores.sum() * n / looked_at
        last = level <= lowest or (alpha is None and effective >= count)
        size = min(count if last else min(count, max(_FIRST, int(2 * effective))), int((scores > 0).sum()))
        probability = scores / scores.sum()
        drawn = rng.choice(looked_at, size, replace=False, p=probability)
        index, weight = some[drawn], n / looked_at / (size * probability[drawn])
        if last:
            return Landmarks(np.sort(index), "leverage")


def _scores(K, rows, index, weight, level, diagonal):
    """Ridge leverage scores (K (K + level I)^-1)_ii of some rows, with K approximated from weighted landmarks."""
    B = np.asarray(K.block(index, index), np.float64)
    C = np.asarray(K.block(index, rows), np.float64)
    factor = safe_cholesky(B, shift=level / weight, warn=False)
    half = factor.solve_triangular(C)
    return np.maximum(diagonal[rows] - (half**2).sum(axis=0), 0.0) / level


LANDMARKS: dict[str, Callable[..., Landmarks]] = {
    "rpcholesky": _rpcholesky,
    "uniform": _uniform,
    "kmeans++": _kmeans_plus_plus,
    "leverage": _leverage,
}

"""Landmarks: a few rows that stand for all, for any kernel (X3)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from mercer.gram import Gram
from mercer.linalg import rpcholesky, safe_cholesky

__all__ = ["LANDMARKS", "Landmarks", "choose_landmarks", "pivots_for"]

_SCORES = 5.0  # rows whose scores are computed, for each that may have a score of 1
_FIRST = 10  # rows of the first dictionary
_LOWEST = 1e-10  # a ridge, in parts of the trace, below which scores mean nothing
_SPARE = 10  # one pivot for so many is drawn to be dropped
_ROWS = 512  # of a factor, multiplied at a time
_JUDGED = 4000  # landmarks at most for which that is done
_ROUNDS = 10  # in which they are dropped
_ALIKE = 0.1  # cosine from which on two are not dropped together
_JUDGES = 4  # rows for each pivot that say which to drop


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
    found = rpcholesky(K, count if tol else pivots_for(count), rng=rng, tol=tol)
    if not len(found.pivots):
        raise ValueError(
            f"{K.kernel!r} has no positive k(x, x) on these rows; landmarks need a positive semi-definite kernel"
        )
    if len(found.pivots) <= count:
        return Landmarks(found.pivots, "rpcholesky", found.error)
    return _without_the_least(found, count)


def pivots_for(count) -> int:
    """Pivots that are drawn for so many landmarks: some more, since later ones make some of the first superfluous. Of very many
    none, since judging them takes as long as their cube."""
    return count + -(-count // _SPARE) if count <= _JUDGED else count


def _without_the_least(found, count) -> Landmarks:
    """The pivots but for those whose removal leaves least unexplained, dropped in rounds.

    With K_nM = F L^T, L = F_M, combinations of pivots that miss pivot j are orthogonal to column j of U = L^-1: what j alone
    explains is the part of F along it. Once some are dropped, that of the others is what is orthogonal to their columns.
    """
    k, L = len(found.pivots), np.tril(found.factor[found.pivots].astype(np.float64))
    G, U = _moments(found, L), solve_triangular(L, np.eye(k), lower=True, check_finite=False)
    U /= np.linalg.norm(U, axis=0)
    P, dropped = G @ U, np.zeros(k, bool)
    basis = np.empty((k, 0))
    while (left := k - count - basis.shape[1]) > 0:
        Q = _superfluous(U, P, dropped, min(left, -(-(k - count) // _ROUNDS)))
        A = Q.T @ U
        U -= Q @ A
        P -= (G @ Q) @ A
        basis = np.hstack([basis, Q])
    error = found.error + _along(found.factor, basis) / found.trace
    return Landmarks(found.pivots[~dropped], "rpcholesky", error)


def _superfluous(U, P, dropped, most):
    """Mark at most so many pivots as dropped, those along which there is least, and give a basis of their directions.

    Of two that say the same only one goes: each is superfluous because of the other.
    """
    size = np.sqrt(np.einsum("ij,ij->j", U, U))
    size[dropped] = 1.0
    loss = np.where(dropped, np.inf, np.einsum("ij,ij->j", U, P) / size**2)
    least = np.argsort(loss, kind="stable")[:most]
    alike = np.abs((U[:, least] / size[least]).T @ (U[:, least] / size[least])) > _ALIKE
    kept: list[int] = []
    for i in range(len(least)):
        if not alike[i, kept].any():
            kept.append(i)
    dropped[least[kept]] = True
    return np.linalg.qr(U[:, least[kept]])[0]


def _moments(found, L):
    """F^T F from the pivots, each of which explains itself at least, and from a sample of the other rows."""
    others = np.delete(np.arange(len(found.factor)), found.pivots)
    some = others[:: max(1, len(others) // (_JUDGES * len(L)))]
    G = np.zeros_like(L)
    for i in range(0, len(some), _ROWS):
        F = found.factor[some[i : i + _ROWS]]
        G += F.T @ F
    return L.T @ L + G * (len(others) / max(len(some), 1))


def _along(F, basis) -> float:
    """Squared length of the part of F along some directions, from few rows at a time."""
    basis = basis.astype(F.dtype)
    return float(sum(np.square(F[i : i + _ROWS] @ basis, dtype=np.float64).sum() for i in range(0, len(F), _ROWS)))


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

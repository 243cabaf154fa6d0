r"""k-means in feature space (M10): Lloyd's iteration, its start and its mini-batch form, on a Gram or on explicit features.

A centre is a weighted mean of features, :math:`c = \sum_i s_i \varphi(x_i)`, so that

.. math:: \lVert \varphi(x) - c \rVert^2 = k(x, x) - 2 \sum_i s_i k(x, x_i) + s^T K s.

Dhillon, Guan & Kulis (2004); Arthur & Vassilvitskii (2007); Sculley (2010).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.linalg import Status

__all__ = ["FeaturePoints", "GramPoints", "KMeansSolution", "solve_kmeans", "solve_minibatch", "spread_rows"]

_BLOCK = 8192  # rows whose features are held at a time


@dataclass(frozen=True, eq=False)
class KMeansSolution:
    """centres: as the points make them, see `means`; labels (n,); loss: weighted sum of squared distances, recomputed."""

    centres: np.ndarray
    labels: np.ndarray
    loss: float
    status: Status
    iterations: int


class GramPoints:
    """Rows of a symmetric Gram with weights. Centres are coefficients (n, k) on the rows."""

    def __init__(self, K, weight):
        self.K, self.weight, self.diagonal = K, weight, K.diag().astype(np.float64)

    def __len__(self):
        return len(self.weight)

    def from_rows(self, index) -> np.ndarray:
        """Squared distances (n, len(index)) of all rows to some."""
        rows = np.asarray(self.K.rows(index), np.float64)
        return np.maximum(self.diagonal[:, None] - 2.0 * rows.T + self.diagonal[index], 0.0)

    def means(self, labels, k) -> np.ndarray:
        """Centres of clusters, none of which is empty."""
        S = np.zeros((len(self), k))
        S[np.arange(len(self)), labels] = self.weight / np.bincount(labels, self.weight, k)[labels]
        return S

    def squared(self, centres) -> np.ndarray:
        """Squared distances (n, k) to centres."""
        images = np.asarray(self.K @ centres.astype(self.K.dtype), np.float64)
        return self.diagonal[:, None] - 2.0 * images + self.norms(centres, images)

    def norms(self, centres, images=None) -> np.ndarray:
        """Squared lengths (k,) of centres."""
        images = np.asarray(self.K @ centres.astype(self.K.dtype), np.float64) if images is None else images
        return np.einsum("ij,ij->j", centres, images)


class FeaturePoints:
    """Rows with explicit features, `features(index)` (m, M), and weights. Centres are points (M, k).

    room: bytes that features may take; more than that are computed again when they are needed. own (n,): k(x, x), which the
    features of landmarks do not reach.
    """

    def __init__(self, features: Callable, own, weight, dim, dtype, room):
        self._features, self.weight, self.diagonal, self.dim = features, weight, np.asarray(own, np.float64), dim
        held = len(weight) * dim * np.dtype(dtype).itemsize <= room
        self._held = features(slice(0, len(weight))) if held else None

    def __len__(self):
        return len(self.weight)

    def of(self, index) -> np.ndarray:
        """Features of some rows."""
        return self._features(index) if self._held is None else self._held[index]

    def _blocks(self):
        for i in range(0, len(self), _BLOCK):
            some = slice(i, min(i + _BLOCK, len(self)))
            yield some, self.of(some).astype(np.float64, copy=False)

    def from_rows(self, index) -> np.ndarray:
        """Squared distances (n, len(index)) of all rows to some."""
        return np.maximum(self.squared(self.of(index).T.astype(np.float64)), 0.0)

    def means(self, labels, k) -> np.ndarray:
        """Centres of clusters, none of which is empty."""
        sums = np.zeros((self.dim, k))
        for some, F in self._blocks():
            one = np.zeros((len(F), k))
            one[np.arange(len(F)), labels[some]] = self.weight[some]
            sums += F.T @ one
        return sums / np.bincount(labels, self.weight, k)

    def squared(self, centres) -> np.ndarray:
        """Squared distances (n, k) to centres."""
        out = np.empty((len(self), centres.shape[1]))
        for some, F in self._blocks():
            out[some] = self.diagonal[some, None] - 2.0 * (F @ centres) + self.norms(centres)
        return out

    def norms(self, centres) -> np.ndarray:
        """Squared lengths (k,) of centres."""
        return np.square(centres).sum(axis=0)


def spread_rows(points, k: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of k rows far from one another: each drawn by its squared distance to those before, the best of some draws."""
    trials = 2 + int(np.log(k))
    chosen = [int(rng.choice(len(points), p=points.weight / points.weight.sum()))]
    nearest = points.from_rows(np.array(chosen))[:, 0]
    while len(chosen) < k:
        mass = nearest * points.weight
        total = mass.sum()
        p = mass / total if total > 0 else points.weight / points.weight.sum()
        drawn = rng.choice(len(points), size=trials, p=p)
        there = np.minimum(points.from_rows(drawn), nearest[:, None])
        best = int((points.weight @ there).argmin())
        chosen.append(int(drawn[best]))
        nearest = there[:, best]
    return np.array(chosen)


def solve_kmeans(points, start: np.ndarray, max_iter: int, callback: Callable | None = None) -> KMeansSolution:
    """Lloyd's iteration from rows `start` (k,) as first centres, until no row changes its cluster.

    A cluster that loses all its rows takes the row that is farthest from its own centre.
    """
    k, loss, status = len(start), np.inf, Status.MAX_ITER
    squares = points.from_rows(start)
    labels = _without_empty(squares.argmin(axis=1), squares, points.weight, k)
    iterations = 0
    while iterations < max_iter and status is Status.MAX_ITER:
        squares = points.squared(points.means(labels, k))
        iterations += 1
        new = _without_empty(squares.argmin(axis=1), squares, points.weight, k)
        now = _loss(squares, new, points.weight)
        if np.array_equal(new, labels) or now >= loss:  # what no longer falls moves by rounding alone
            status = Status.CONVERGED
        labels, loss = new, now
        if callback is not None:
            callback(iterations, loss)
    return _solution(points, labels, k, status, iterations)


def _solution(points, labels, k, status, iterations):
    centres = points.means(labels, k)
    return KMeansSolution(centres, labels, _loss(points.squared(centres), labels, points.weight), status, iterations)


def _loss(squares, labels, weight):
    return float(weight @ np.maximum(squares[np.arange(len(labels)), labels], 0.0))


def _without_empty(labels, squares, weight, k):
    """Labels in which every cluster occurs."""
    count = np.bincount(labels, minlength=k)
    if (count > 0).all():
        return labels
    labels = labels.copy()
    far = squares[np.arange(len(labels)), labels] * weight
    for c in np.flatnonzero(count == 0):
        free = np.where(count[labels] > 1, far, -np.inf)
        i = int(free.argmax())
        count[labels[i]] -= 1
        labels[i], count[c], far[i] = c, 1, -np.inf
    return labels


def solve_minibatch(
    points: FeaturePoints,
    start: np.ndarray,
    max_iter: int,
    batch: int,
    rng: np.random.Generator,
    patience: int = 10,
    callback: Callable | None = None,
) -> KMeansSolution:
    """Centres that move towards the mean of their rows in one random batch after another; ends when losses no longer fall.

    max_iter: times that as many rows as there are have been seen.
    """
    k, n = len(start), len(points)
    centres, mass = points.of(start).T.astype(np.float64), np.zeros(k)
    p = points.weight / points.weight.sum()
    best, since, steps, status = np.inf, 0, 0, Status.MAX_ITER
    smooth: float | None = None
    share = min(1.0, 2.0 * batch / (n + 1))
    while steps * batch < max_iter * n:
        F = points.of(index := rng.choice(n, size=batch, p=p)).astype(np.float64)
        squares = points.diagonal[index, None] - 2.0 * (F @ centres) + points.norms(centres)
        labels = squares.argmin(axis=1)
        _move(centres, mass, F, labels)
        now = float(squares[np.arange(batch), labels].mean())
        smooth = now if smooth is None else (1 - share) * smooth + share * now
        steps += 1
        best, since = (smooth, 0) if smooth < best else (best, since + 1)
        if callback is not None:
            callback(1 + steps * batch // n, smooth * points.weight.sum())
        if since >= patience:
            status = Status.CONVERGED
            break
    squares = points.squared(centres)
    labels = squares.argmin(axis=1)
    return KMeansSolution(centres, labels, _loss(squares, labels, points.weight), status, steps)


def _move(centres, mass, F, labels):
    for c in np.unique(labels):
        mine = F[labels == c]
        mass[c] += len(mine)
        centres[:, c] += (len(mine) / mass[c]) * (mine.mean(axis=0) - centres[:, c])

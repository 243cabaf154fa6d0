r"""k-medoids (M10): k rows, the medoids, such that the sum of dissimilarities to the nearest of them is small.

.. math:: \min_{M \subset \{1..n\},\, |M| = k} \; \sum_i w_i \min_{j \in M} D_{ij}

FasterPAM tries every row as a candidate and swaps at once if that lowers the loss; what each of the k swaps with a candidate
would bring is known after one look at its dissimilarities. It ends where no single swap helps. OneBatchPAM does the same
with the dissimilarities to a batch of rows alone. Schubert & Rousseeuw (2021), Fast and eager k-medoids clustering;
de Mathelin, Richard, Deheeger, Mougeot & Vayatis (2025), OneBatchPAM.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from mercer.errors import NanError, NotSymmetricError
from mercer.linalg import Status
from mercer.threads import each_part

__all__ = [
    "GivenDistances",
    "KernelDistances",
    "MedoidSolution",
    "batch_rows",
    "equal_rows",
    "solve_medoids",
    "solve_one_batch",
]

_EFFORT = 2**24  # numbers that one compiled call looks at: some hundredths of a second
_PART = 2**18  # numbers of a job
_TINY = 1e-13  # share of the loss below which a swap counts as rounding
LARGEST_BUILD = 5000  # rows up to which the greedy start, n^2 k steps, is worth its time


@dataclass(frozen=True, eq=False)
class MedoidSolution:
    """Medoids and what they cost.

    medoids: their rows, increasing; fewer than asked where rows are equal. labels: place among them of each point's nearest,
    the first of equals. loss: weighted sum of the dissimilarities to the nearest, recomputed from scratch. iterations: rounds
    over all candidates; n_swaps: how often a medoid changed.
    """

    medoids: np.ndarray
    labels: np.ndarray
    loss: float
    status: Status
    iterations: int
    n_swaps: int


# ---------------------------------------------------------------------------------------------- distances
class KernelDistances:
    """Distances d(x, y) = sqrt(k(x,x) + k(y,y) - 2 k(x,y)) in the feature space of a symmetric Gram.

    `lowest` and `highest` are the extremes of the squares and of |k(x, x)| that came up: a kernel that gives negative squares
    is indefinite. They count as 0.
    """

    def __init__(self, K):
        self.K, self.diagonal, self.shape, self.dtype = K, K.diag(), K.shape, K.dtype
        self.lowest, self.highest = 0.0, float(np.abs(self.diagonal).max())

    def dense(self) -> np.ndarray:
        """All of them (n, n)."""
        D = self._distances(self.K.dense(), slice(None), slice(None))
        np.fill_diagonal(D, 0.0)
        return D

    def block(self, rows, columns) -> np.ndarray:
        """Those between some rows."""
        return self._distances(self.K[rows, columns].dense(), rows, columns)

    def _distances(self, values, rows, columns):
        """Kernel values made distances, in place."""
        a, b = self.diagonal[rows], self.diagonal[columns]
        step = max(1, _PART // max(len(b), 1))
        ends = np.zeros((-(-len(values) // step), 2))

        def job(i):
            part = values[i * step : (i + 1) * step]
            with np.errstate(over="ignore", invalid="ignore"):  # refused below
                part *= -2.0
                part += b
                part += a[i * step : (i + 1) * step, None]
            ends[i] = part.min(), part.max()
            if not np.isfinite(ends[i]).all():
                raise NanError("distances in feature space overflow; rescale the columns")
            np.maximum(part, 0.0, out=part)
            np.sqrt(part, out=part)

        each_part(job, len(ends), values.size)
        self.lowest, self.highest = min(self.lowest, ends[:, 0].min()), max(self.highest, ends[:, 1].max())
        return values


class GivenDistances:
    """Dissimilarities that the user computed (n, n)."""

    def __init__(self, D):
        self.D, self.shape, self.dtype = D, D.shape, D.dtype

    def check(self):
        """Refuse negative and asymmetric ones."""
        lowest, top, gap = _inspect(self.D)
        if lowest < 0:
            raise ValueError(f"Negative values in data: dissimilarities must be >= 0, and X has {lowest:g}")
        if gap > 100 * np.finfo(self.dtype).eps * top:
            raise NotSymmetricError(
                f"the precomputed dissimilarity matrix is not symmetric: entries differ by up to {gap:g}; "
                "pass (D + D.T) / 2 if that is rounding"
            )

    def dense(self):
        """The matrix itself, in rows; not a copy if it has them already."""
        return np.ascontiguousarray(self.D)

    def block(self, rows, columns):
        return np.ascontiguousarray(self.D[rows][:, columns])


def _inspect(D):
    """Smallest and largest entry, and the largest difference from the transpose, tile by tile."""
    step = 512
    tiles = [(i, j) for i in range(0, len(D), step) for j in range(i, len(D), step)]
    found = np.zeros((len(tiles), 3))

    def job(t):
        i, j = tiles[t]
        a, b = D[i : i + step, j : j + step], D[j : j + step, i : i + step].T
        found[t] = min(a.min(), b.min()), max(a.max(), b.max()), np.abs(a - b).max()

    each_part(job, len(tiles), D.size)
    return found[:, 0].min(), found[:, 1].max(), found[:, 2].max()


def equal_rows(A) -> np.ndarray:
    """For each row of a square matrix the first that is equal to it."""
    marks, step = np.empty(len(A)), max(1, _PART // len(A))
    factors = np.random.default_rng(0).random(len(A))  # a sum that rows hardly share unless they are equal

    def job(i):
        marks[i * step : (i + 1) * step] = (A[i * step : (i + 1) * step] * factors).sum(axis=1)

    each_part(job, -(-len(A) // step), A.size)
    _, places, groups = np.unique(marks, return_index=True, return_inverse=True)
    first = places[groups.ravel()]
    for i in np.flatnonzero(first < np.arange(len(A))):
        first[i] = first[i] if np.array_equal(A[i], A[first[i]]) else i
    return first


# ---------------------------------------------------------------------------------------------- the problem
def solve_medoids(
    D,
    k,
    *,
    rng,
    weight=None,
    method="fasterpam",
    init="k-medoids++",
    n_init=1,
    max_iter=100,
    points=None,
    callback=None,
):
    """k medoids among the rows of D (n, m), dissimilarities to m points that weigh `weight` (m,).

    method: "fasterpam" or "alternate" (nearest medoid, then the best medoid of each cluster, in turns; square D only).
    init: "k-medoids++", "random", "build", or the rows to start from. points: rows of the columns where D is not square.
    The best of `n_init` starts is returned. callback(round, loss) is called now and then.
    """
    D = np.ascontiguousarray(D)
    w = np.ones(D.shape[1]) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    points = np.arange(len(D)) if points is None else points
    solve = {"fasterpam": _faster_pam, "alternate": _alternate}[method]
    found, fixed = None, not isinstance(init, str) or init == "build"
    for _ in range(1 if fixed else n_init):
        one = solve(D, w, _start(D, w, k, init, points, rng), max_iter, callback)
        found = one if found is None or one.loss < found.loss else found
    return found


def _start(D, w, k, init, points, rng):
    """Rows to start from, int64 (k,)."""
    if not isinstance(init, str):
        return np.array(init, dtype=np.int64)
    if k == 1 or init == "build":  # of one medoid the greedy start is the answer
        return _greedy(D, w, k)
    if init == "random":
        return points[rng.choice(len(points), k, replace=False)].astype(np.int64)
    return points[_spread(D, w, k, points, rng)].astype(np.int64)


def _greedy(D, w, k):
    """PAM's BUILD: each medoid is the one that lowers the loss most."""
    from mercer.solvers import _compiled_medoids

    nearest = np.full(D.shape[1], _largest(D), dtype=D.dtype)
    step, gains, chosen = max(1, _PART // D.shape[1]), np.empty(len(D)), []

    def job(i):
        _compiled_medoids.savings(D, w, nearest, i * step, min((i + 1) * step, len(D)), gains)

    for _ in range(k):
        each_part(job, -(-len(D) // step), D.size)
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        np.minimum(nearest, D[chosen[-1]], out=nearest)
    return np.array(chosen, dtype=np.int64)


def _largest(D):
    step = max(1, _PART // D.shape[1])
    return max(D[i : i + step].max() for i in range(0, len(D), step))


def _spread(D, w, k, points, rng):
    """Places of points drawn one after the other, each with a chance that goes with its dissimilarity to those before it."""
    chosen = [_drawn(w, rng)]
    nearest = D[points[chosen[0]]].astype(np.float64)
    for _ in range(1, k):
        chances = w * nearest
        chances[chosen] = 0.0
        if not chances.any():  # all that is left costs nothing
            chances = np.ones(len(w))
            chances[chosen] = 0.0
        chosen.append(_drawn(chances, rng))
        np.minimum(nearest, D[points[chosen[-1]]], out=nearest)
    return np.array(chosen)


def _drawn(chances, rng):
    sums = np.cumsum(chances)
    place = np.searchsorted(sums, rng.random() * sums[-1], side="right")
    return int(min(place, np.flatnonzero(chances)[-1]))


# ---------------------------------------------------------------------------------------------- FasterPAM
def _faster_pam(D, w, medoids, max_iter, callback=None):
    from mercer.solvers import _compiled_medoids as loops

    (n, m), k = D.shape, len(medoids)
    if k == 1:
        return _solution(D, w, medoids, Status.CONVERGED, 1, 0)
    B, taken = np.ascontiguousarray(D[medoids].T), np.zeros(n, dtype=np.uint8)
    taken[medoids] = 1
    near, second = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    dn, ds = np.empty(m, dtype=D.dtype), np.empty(m, dtype=D.dtype)
    loops.rank(B, near, second, dn, ds, 0, m)
    removal, change, progress = np.empty(k), np.empty(k), np.zeros(4, dtype=np.int64)
    loops.removals(w, near, dn, ds, removal)
    while progress[1] < n and progress[2] < max_iter * n:
        loss = float(w @ dn.astype(np.float64))
        if callback is not None:
            callback(1 + int(progress[2]) // n, loss)
        tol = _TINY * loss
        loops.search(
            D, w, medoids, taken, B, near, second, dn, ds, removal, change, progress, tol, max_iter * n, _EFFORT
        )
    status = Status.CONVERGED if progress[1] >= n else Status.MAX_ITER
    return _solution(D, w, medoids, status, -(-int(progress[2]) // n), int(progress[3]))


def _solution(D, w, medoids, status, iterations, n_swaps):
    medoids = _different(D, np.sort(medoids))
    labels, nearest = _nearest(D, medoids)
    return MedoidSolution(medoids, labels, float(w @ nearest), status, iterations, n_swaps)


def _different(D, medoids):
    """Medoids without those that serve every point as another one does."""
    seen: dict = {}
    for x in medoids:
        seen.setdefault(D[x].tobytes(), x)
    return np.array(list(seen.values()), dtype=np.int64)


def _nearest(D, medoids):
    """Nearest medoid of each column, the first of equals, and the dissimilarity to it in float64."""
    m = D.shape[1]
    labels, nearest = np.empty(m, dtype=np.int64), np.empty(m)
    step = max(1, _PART // len(medoids))
    for j in range(0, m, step):
        part = D[medoids, j : j + step]
        labels[j : j + step] = part.argmin(axis=0)
        nearest[j : j + step] = part.min(axis=0)
    return labels, nearest


# ---------------------------------------------------------------------------------------------- alternating
def _alternate(D, w, medoids, max_iter, callback=None):
    medoids, swaps = np.sort(medoids), 0
    for iteration in range(1, max_iter + 1):
        labels, nearest = _nearest(D, medoids)
        if callback is not None:
            callback(iteration, float(w @ nearest))
        labels[medoids] = np.arange(len(medoids))  # among equal rows too, no cluster is empty
        better = np.array([_centre(D, w, np.flatnonzero(labels == i), x) for i, x in enumerate(medoids)])
        if np.array_equal(better, medoids):
            return _solution(D, w, medoids, Status.CONVERGED, iteration, swaps)
        swaps += int((better != medoids).sum())
        medoids = better
    return _solution(D, w, medoids, Status.MAX_ITER, max_iter, swaps)


def _centre(D, w, members, medoid):
    """The member with the smallest sum of dissimilarities to all of them; the present one if none is better."""
    from mercer.solvers import _compiled_medoids

    costs, step = np.empty(len(members)), max(1, _PART // len(members))

    def job(i):
        _compiled_medoids.costs(D, w, members, i * step, min((i + 1) * step, len(members)), costs)

    each_part(job, -(-len(members) // step), len(members) ** 2)
    present = costs[np.searchsorted(members, medoid)]
    return int(members[costs.argmin()]) if costs.min() < present * (1 - _TINY) else int(medoid)


# ---------------------------------------------------------------------------------------------- one batch
def batch_rows(n, k) -> int:
    """Rows of a batch that serves k medoids among n rows: 100 log(k n), no more than there are.

    >>> batch_rows(100_000, 10), batch_rows(50, 3)
    (1381, 50)
    """
    return min(n, max(k, int(100 * math.log(k * n))))


def solve_one_batch(
    distances, k, *, rng, weight=None, batch_size=None, init="k-medoids++", n_init=1, max_iter=100, callback=None
):
    """k medoids from the distances of all rows to one batch of them; labels and loss are those of all rows.

    A row of the batch weighs as much as the rows it is nearest to. All starts share the batch, and the best is the one with
    the smallest loss on it.
    """
    n = distances.shape[0]
    w = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    m = batch_rows(n, k) if batch_size is None else min(n, batch_size)
    batch = np.sort(np.argsort(rng.exponential(size=n) / w, kind="stable")[:m])  # without replacement, by weight
    D = distances.block(slice(None), batch)
    D[batch, np.arange(m)] = 0.0
    shares = np.bincount(_nearest_columns(D), weights=w, minlength=m)
    options = {"init": init, "n_init": n_init, "max_iter": max_iter, "callback": callback}
    found = solve_medoids(D, k, rng=rng, weight=shares, points=batch, **options)
    labels, nearest = _assigned(distances, found.medoids)
    return replace(found, labels=labels, loss=float(w @ nearest))


def _nearest_columns(D):
    out, step = np.empty(len(D), dtype=np.intp), max(1, _PART // D.shape[1])

    def job(i):
        out[i * step : (i + 1) * step] = D[i * step : (i + 1) * step].argmin(axis=1)

    each_part(job, -(-len(D) // step), D.size)
    return out


def _assigned(distances, medoids):
    """Nearest medoid of every row and the distance to it, some rows at a time."""
    n = distances.shape[0]
    labels, nearest = np.empty(n, dtype=np.int64), np.empty(n)
    step = max(1, 2**22 // len(medoids))
    for i in range(0, n, step):
        part = distances.block(slice(i, i + step), medoids)
        labels[i : i + step], nearest[i : i + step] = part.argmin(axis=1), part.min(axis=1)
    nearest[medoids] = 0.0
    return labels, nearest

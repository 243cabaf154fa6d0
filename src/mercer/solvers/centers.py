r"""Machines on the values of a kernel at centres (M4, M5): least squares by tiles, and the choice of the centres.

With :math:`\Phi_{ij} = k(x_i, \mu_j)` and free columns F that are not penalised (a constant, a polynomial),

.. math:: \min_{w, c} \tfrac12 \sum_i w_i (t_i - \Phi_i w - F_i c)^2 + \tfrac{\alpha}{2} \lVert w \rVert^2 .

Rows come in groups, and a triangle R is all that is kept of them: it has the inner products of all columns, and unlike
sums of squares it does not square their condition number. Golub & Van Loan (2013), section 6.3; Demmel et al. (2012).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrcon

from mercer.errors import NanError
from mercer.gram.operators import GivenGram
from mercer.linalg import Status
from mercer.linalg.waiting import run_interruptibly
from mercer.solvers.kmeans import FeaturePoints, solve_kmeans, spread_rows
from mercer.threads import map_tiles

__all__ = [
    "LeastSquares",
    "Selection",
    "independent_columns",
    "kmeans_centers",
    "select_forward",
    "solve_least_squares",
    "triangle_of",
]

_ROWS, _AT_ONCE = 2048, 8  # rows of a group at least, and groups whose triangles are joined at a time
_WIDE = 1024  # columns from which on one group after the other has all threads, so that an interrupt need not wait
_QR_FLOPS = 3e10
_DEPENDENT = 1e-10  # squared length, in parts of its own, of what is new in a column that says nothing new
_TIED = 1e-5  # difference of squared distances, in parts of their mean, that is none
_ROUNDS = 30  # of k-means: centres need not be the best, and a later one moves little


# ------------------------------------------------------------------------------------------------ least squares
@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Coefficients of the centres (K, t) and of the free columns (q, t), and how exact they are.

    rank: of the penalised columns, K where the answer is the only one; else the shortest was taken. residual: sums of squares
    (t,) that are left.
    """

    coefficients: np.ndarray
    free: np.ndarray
    rank: int
    residual: np.ndarray
    status: Status = Status.CONVERGED
    iterations: int = 1


def triangle_of(n: int, width: int, columns: Callable[[slice], np.ndarray]) -> np.ndarray:
    """R (at most width, width) with R^T R = A^T A for A of n rows, of which `columns(rows)` gives some, in float64."""
    size = max(_ROWS, 2 * width)
    groups = [slice(i, min(i + size, n)) for i in range(0, n, size)]
    R = np.empty((0, width))
    step = 1 if width > _WIDE else _AT_ONCE
    for i in range(0, len(groups), step):
        some = groups[i : i + step]
        parts = [columns(some[0])] if step == 1 else _triangles(columns, some)
        R = _reduced(np.vstack([R, *parts]))
    if not np.isfinite(R).all():
        raise NanError("squares of the kernel values or of the targets overflow; rescale the rows or y")
    return R


def _triangles(columns, groups):
    return map_tiles(lambda j: _reduced(columns(groups[j])), len(groups))


def _reduced(A):
    if not np.isfinite(A).all():
        raise NanError("the kernel values times the weights overflow; rescale the rows or sample_weight")
    return run_interruptibly(np.linalg.qr, A, mode="r", seconds_predicted=2 * len(A) * A.shape[1] ** 2 / _QR_FLOPS)


def solve_least_squares(R: np.ndarray, q: int, k: int, alpha: float) -> LeastSquares:
    """The problem whose columns [F (q), Phi (k), T] have the triangle R; those of F are independent."""
    inner, right = R[q : q + k, q : q + k], R[q : q + k, q + k :]
    beyond = R[q + k :, q + k :]
    if alpha > 0:
        A = np.vstack(
            [np.hstack([inner, right]), np.hstack([np.sqrt(alpha) * np.eye(k), np.zeros((k, right.shape[1]))])]
        )
        S = _reduced(A)
        w, rank = _solved(S[:k, :k], S[:k, k:])
    else:
        w, rank = _solved(inner, right)
    c = solve_triangular(R[:q, :q], R[:q, q + k :] - R[:q, q : q + k] @ w) if q else np.zeros((0, right.shape[1]))
    return LeastSquares(w, c, rank, np.square(inner @ w - right).sum(axis=0) + np.square(beyond).sum(axis=0))


def _solved(A, B):
    """Least squares with an upper triangle, and its rank: the shortest answer where rounding hides which is the best."""
    k = A.shape[1]
    if not k:
        return np.zeros((0, B.shape[1])), 0
    if len(A) == k and dtrcon(A)[0] > k * np.finfo(np.float64).eps:
        return solve_triangular(A, B), k
    w, _, rank, _ = run_interruptibly(np.linalg.lstsq, A, B, rcond=None, seconds_predicted=20 * k**3 / _QR_FLOPS)
    return w, int(rank)


def independent_columns(R: np.ndarray, rtol: float = 1e-10) -> np.ndarray:
    """V (p, r) for which the columns A V are orthonormal and span those of A, of which R is the triangle."""
    _, values, Vt = np.linalg.svd(R)
    r = int((values > rtol * values.max(initial=0.0)).sum())
    return Vt[:r].T / values[:r]


# ------------------------------------------------------------------------------------------------ forward selection
@dataclass(frozen=True, eq=False)
class Selection:
    """Columns in the order in which they were chosen, and the share of the squared targets that each of them explains."""

    index: np.ndarray
    share: np.ndarray


def select_forward(P: np.ndarray, T: np.ndarray, free: np.ndarray, count: int, tol: float = 0.0) -> Selection:
    """Orthogonal least squares: one column after another, each the one that explains most of what is left of the targets.

    P (C, n): the columns as rows; overwritten nowhere. T (n, t); free (n, q): orthonormal columns that belong to every model.
    Ends after `count` columns, when the share that is left is at most `tol`, or when no column says anything new.
    Chen, Cowan & Grant (1991).
    """
    columns = GivenGram(P)
    basis, T = free, T - free @ (free.T @ T)
    length = np.einsum("ij,ij->i", P, P)
    if not np.isfinite(length).all():
        raise NanError("squares of the kernel values overflow; rescale the rows or sample_weight")
    least = _DEPENDENT * length
    length = length - np.square(columns @ free).sum(axis=1) if free.shape[1] else length
    slopes, total = columns @ T, np.square(T).sum()
    chosen: list[int] = []
    shares: list[float] = []
    while len(chosen) < count and (1.0 - sum(shares) > tol or not chosen):
        new = length > least
        if not new.any():
            break
        gain = np.where(new, np.square(slopes).sum(axis=1) / np.where(new, length, 1.0), -1.0)
        j = int(gain.argmax())
        q = _orthogonal(P[j], basis)
        along = (columns @ q[:, None])[:, 0]
        mine = q @ T
        length, slopes = length - along**2, slopes - along[:, None] * mine
        length[j] = 0.0
        basis, T = np.column_stack([basis, q]), T - q[:, None] * mine
        chosen.append(j)
        shares.append(float(np.square(mine).sum() / total) if total > 0 else 0.0)
    return Selection(np.array(chosen, np.intp), np.array(shares))


def _orthogonal(p, basis):
    """What is new in a column, of length 1. Twice is enough (Giraud, Langou & Rozloznik 2005)."""
    for _ in range(2):
        p = p - basis @ (basis.T @ p)
    return p / np.linalg.norm(p)


# ------------------------------------------------------------------------------------------------ k-means of rows
def kmeans_centers(rows, weight: np.ndarray, k: int, rng: np.random.Generator):
    """Means (k, d) of clusters of different rows, dense or sparse as the rows are."""
    largest = float(np.abs(rows.data if sp.issparse(rows) else rows).max(initial=0.0))
    unit = 2.0 ** np.frexp(largest)[1] if largest > 0 else 1.0  # squares of 1e-200 would be 0
    if sp.issparse(rows):
        found = _clusters(_SparsePoints(rows / unit, weight), k, rng)
        return found.centres * unit
    rows = np.asarray(rows, np.float64) / unit
    middle = np.average(rows, axis=0, weights=weight)
    found = _clusters(_DensePoints(rows - middle, weight), k, rng)  # what all rows share would cancel in the distances
    return (found.centres.T + middle) * unit


def _clusters(points, k, rng):
    return solve_kmeans(points, spread_rows(points, k, rng), _ROUNDS)


def _rounded(squares, diagonal):
    """Distances that are equal in float32 made equal: which of two centres a row belongs to must not depend on precision."""
    step = 2.0 ** np.floor(np.log2(_TIED * diagonal.mean())) if diagonal.any() else 1.0
    return np.round(squares / step) * step


class _DensePoints(FeaturePoints):
    def __init__(self, rows, weight):
        super().__init__(
            lambda some: rows[some], np.square(rows).sum(axis=1), weight, rows.shape[1], rows.dtype, np.inf
        )

    def squared(self, centres):
        return _rounded(super().squared(centres), self.diagonal)


class _SparsePoints:
    """Sparse rows with weights for `solve_kmeans`. Centres (k, d) are sparse too."""

    def __init__(self, rows, weight):
        self.rows, self.weight, self.diagonal = sp.csr_array(rows, dtype=np.float64), weight, self._squares(rows)

    def __len__(self):
        return len(self.weight)

    @staticmethod
    def _squares(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel()

    def from_rows(self, index):
        return np.maximum(self.squared(self.rows[index]), 0.0)

    def means(self, labels, k):
        share = self.weight / np.bincount(labels, self.weight, k)[labels]
        return sp.csr_array((share, (labels, np.arange(len(labels)))), shape=(k, len(labels))) @ self.rows

    def squared(self, centres):
        squares = self.diagonal[:, None] - 2.0 * (self.rows @ centres.T).toarray() + self._squares(centres)
        return _rounded(squares, self.diagonal)

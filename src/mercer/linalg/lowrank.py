r"""Randomly pivoted Cholesky: :math:`A \approx F F^T` from a few columns of a positive semi-definite matrix (X3).

A pivot is drawn in proportion to the diagonal of what is left, :math:`A - F F^T`, whose trace is known exactly at every step:
it is the error in the trace norm. Chen, Epperly, Tropp & Webber (2025).
"""

from dataclasses import dataclass

import numpy as np

from mercer.linalg.inplace import solve_rows
from mercer.threads import map_tiles

__all__ = ["LowRank", "rpcholesky", "rpcholesky_simple"]

_ROWS = 2048  # of the factor, updated at a time
_BLOCK = 0.15  # of the rank: proposals drawn together
_ROUNDING = 100.0  # a remaining diagonal below this many eps of the diagonal is 0


@dataclass(frozen=True, eq=False)
class LowRank:
    """A ~ factor factor^T.

    factor (n, k); pivots (k,), the rows it was made from, in order; trace: of A; residual: trace of A - factor factor^T;
    errors (k + 1,): residual / trace after each pivot, beginning with 1.
    """

    factor: np.ndarray
    pivots: np.ndarray
    trace: float
    residual: float
    errors: np.ndarray

    @property
    def error(self) -> float:
        """Relative error in the trace norm."""
        return self.residual / self.trace if self.trace > 0 else 0.0


def rpcholesky(A, rank: int, *, rng: np.random.Generator, tol: float = 0.0, block: int | None = None) -> LowRank:
    """Low-rank factor by accelerated randomly pivoted Cholesky: pivots are proposed in blocks, and each is accepted with the
    probability that makes it a pivot of the one-by-one algorithm.

    A: symmetric PSD, with shape, dtype, `diag()` and `block(rows, columns)`. Ends at `rank` pivots, or when the trace that is
    left is at most tol * trace. Epperly, Tropp & Webber (2024), algorithm 2.2.

    >>> from mercer.gram import GivenGram
    >>> found = rpcholesky(GivenGram(np.diag([4.0, 1.0, 0.0])), 3, rng=np.random.default_rng(0))
    >>> sorted(found.pivots.tolist()), found.residual
    ([0, 1], 0.0)
    """
    work = _Work(A, rank, tol)
    size = max(1, int(_BLOCK * rank)) if block is None else int(block)
    while work.wanted:
        proposed = rng.choice(len(work.left), size=size, p=work.left / work.left.sum())
        accepted, L = _accept(work.remaining(proposed), rng.random(size))
        work.add(proposed[accepted][: work.wanted], L[: work.wanted, : work.wanted])
    return work.result()


def rpcholesky_simple(A, rank: int, *, rng: np.random.Generator, tol: float = 0.0) -> LowRank:
    """The same distribution of pivots, one at a time: each column passes over the whole factor. The readable twin."""
    work = _Work(A, rank, tol)
    while work.wanted:
        p, k = rng.choice(len(work.left), p=work.left / work.left.sum()), work.k
        column = A.block(slice(None), [p])[:, 0] - work.F[:, :k] @ work.F[p, :k]
        work.F[:, k] = column / np.sqrt(column[p])
        work.take([p], work.F[:, k : k + 1])
    return work.result()


def _accept(H, u):
    """Which of the proposals with remaining matrix H (b, b) become pivots, and the Cholesky factor of their part of it.

    The diagonal when they were drawn is an upper bound of the one they meet: accepting with the ratio makes up for it.
    """
    H, drawn = H.astype(np.float64), np.diagonal(H).astype(np.float64).copy()
    accepted, L = [], np.zeros_like(H)
    for i in range(len(H)):
        if drawn[i] > 0 and u[i] * drawn[i] < H[i, i]:
            L[i:, i] = H[i:, i] / np.sqrt(H[i, i])
            H[i:, i:] -= np.outer(L[i:, i], L[i:, i])
            accepted.append(i)
    return np.array(accepted, dtype=np.intp), L[np.ix_(accepted, accepted)]


class _Work:
    """The factor as it grows, and the diagonal that is left."""

    def __init__(self, A, rank, tol):
        self.A, self.tol, self.k = A, float(tol), 0
        self.rank = min(int(rank), A.shape[0])
        self.left = np.maximum(np.asarray(A.diag(), dtype=np.float64), 0.0)
        self.rounding = _ROUNDING * np.finfo(A.dtype).eps * self.left
        self.trace = float(self.left.sum())
        self.F = np.zeros((A.shape[0], self.rank), A.dtype)
        self.pivots, self.errors = [], [1.0]

    @property
    def wanted(self) -> int:
        """How many pivots may still come."""
        done = not self.left.any() or self.errors[-1] <= self.tol
        return 0 if done else self.rank - self.k

    def remaining(self, rows):
        F = self.F[rows, : self.k].astype(np.float64)
        return self.A.block(rows, rows) - F @ F.T

    def add(self, pivots, L):
        """New columns of the factor for pivots whose remaining matrix is L L^T."""
        if not len(pivots):
            return
        G, L = np.empty((len(self.F), len(pivots)), self.F.dtype), np.ascontiguousarray(L, self.F.dtype)
        old = self.F[pivots, : self.k].T.copy()

        def job(i):
            rows = slice(i * _ROWS, (i + 1) * _ROWS)
            G[rows] = self.A.block(rows, pivots)
            G[rows] -= self.F[rows, : self.k] @ old
            solve_rows(L, G[rows])

        map_tiles(job, -(-len(G) // _ROWS))
        self.take(pivots, G)

    def take(self, pivots, G):
        """Append columns, as many as the tolerance asks for."""
        falls = np.einsum("ij,ij->j", G, G, dtype=np.float64)
        for j, pivot in enumerate(pivots):
            if self.errors[-1] <= self.tol:
                G = G[:, :j]
                break
            self.pivots.append(int(pivot))
            self.errors.append(self.errors[-1] - falls[j] / self.trace)
        t = G.shape[1]
        self.F[:, self.k : self.k + t] = G
        self.left -= np.einsum("ij,ij->i", G, G, dtype=np.float64)
        self.left[self.left <= self.rounding] = 0.0
        self.left[self.pivots[self.k :]] = 0.0
        self.k += t
        self.errors[-1] = float(self.left.sum()) / self.trace  # small falls of a large number lose digits

    def result(self):
        F = self.F if self.k == self.rank else self.F[:, : self.k].copy()
        return LowRank(
            F, np.array(self.pivots, dtype=np.intp), self.trace, float(self.left.sum()), np.array(self.errors)
        )

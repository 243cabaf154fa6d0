"""What linear algebra answers with: records that say how far the iteration came."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

__all__ = ["Eigenpairs", "Solution", "Status"]


class Status(Enum):
    """How an iteration ended; `advice` says what to try next.

    >>> Status.MAX_ITER.advice
    'raise max_iter, loosen the tolerance, or use a (better) preconditioner'
    """

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    STAGNATED = "stagnated"
    NOT_POSITIVE_DEFINITE = "not_positive_definite"

    @property
    def advice(self) -> str:
        return _ADVICE[self]


_ADVICE = {
    Status.CONVERGED: "nothing to do: the tolerance was reached",
    Status.MAX_ITER: "raise max_iter, loosen the tolerance, or use a (better) preconditioner",
    Status.STAGNATED: "no further progress: add to the diagonal, use a preconditioner or float64, or accept the residual reached",
    Status.NOT_POSITIVE_DEFINITE: "add to the diagonal, use float64, or check that the kernel is positive definite",
}


@dataclass(frozen=True)
class Solution:
    """Answer of a linear solver.

    certificate: largest ||b - A x|| / ||b|| over the right-hand sides, recomputed from scratch.
    jitter: what was really added to the diagonal.
    state: what resumes the iteration or serves the next right-hand side.
    """

    value: np.ndarray
    status: Status
    certificate: float
    iterations: int
    jitter: float = 0.0
    state: object = None


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues (k,), descending, and eigenvectors (n, k) of a symmetric operator.

    residuals: ||A v - lambda v|| / |lambda_1| of each pair, from products with A that were made.
    iterations: how often the operator was applied to a block of columns.
    """

    values: np.ndarray
    vectors: np.ndarray
    status: Status
    residuals: np.ndarray
    iterations: int

r"""Ridge regression on landmarks by preconditioned conjugate gradients over passes through the rows (X5).

With landmarks z_1 ... z_M and :math:`f = \sum_j \beta_j k(\cdot, z_j)` the problem

.. math:: \min_{\beta, b} \sum_i w_i (y_i - f(x_i) - b)^2 + \alpha\, \beta^T K_{MM} \beta

has the normal equations :math:`(K_{nM}^T W K_{nM} + \alpha K_{MM}) \beta = K_{nM}^T W (y - b)`. With :math:`K_{MM} = L L^T`
and A the factor of an estimate of the second moments of the features :math:`L^{-1} k_M(x)` from a sample of rows,
:math:`A A^T = C + \alpha I`, the unknown is :math:`\beta = L^{-T} A^{-T} u`: few iterations, each one pass over the rows of
which nothing is kept. Rudi, Carratino & Rosasco (2017).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mercer.linalg import CGState, Factor, Status, conjugate_gradient, safe_cholesky
from mercer.linalg.inplace import subtract_square
from mercer.linalg.tensors import SharedMoments, second_moments
from mercer.tensors import is_tensor

__all__ = ["LandmarkSolution", "LandmarkState", "Moments", "Sweeps", "solve_landmarks"]

_ROWS = 2048  # of the sample at a time


@dataclass(frozen=True, eq=False)
class Moments:
    """What the first pass finds. K is K_nM.

    weight: sum of w; right (M, p): K^T W y; ones (M,): K^T w; target (p,): sum of w y.
    """

    weight: float
    right: np.ndarray
    ones: np.ndarray
    target: np.ndarray


class Sweeps(Protocol):
    """Passes over the rows, wherever they are."""

    def first(self) -> Moments:
        """The pass that sees the targets."""

    def normal(self, V: np.ndarray) -> np.ndarray:
        """K^T W K V for V (M, p), in float64."""


@dataclass(frozen=True, eq=False)
class LandmarkSolution:
    """beta (M, p), intercepts (p,), and how exact they are: the relative residual of the preconditioned normal equations,
    recomputed. `state` goes on where this ended."""

    coefficients: np.ndarray
    intercept: np.ndarray
    status: Status
    certificate: float
    iterations: int
    jitter: float
    state: "LandmarkState"


@dataclass(frozen=True, eq=False)
class LandmarkState:
    """What resumes a fit: the first pass, and for each alpha the state of the iteration (None: not begun)."""

    moments: Moments
    iterations: tuple[CGState | None, ...]


def solve_landmarks(
    sweeps: Sweeps,
    K_mm,
    sample,
    sample_weight: np.ndarray,
    alpha,
    intercept: bool = False,
    *,
    rtol: float = 1e-7,
    max_iter: int = 100,
    callback: Callable[[LandmarkState], object] | None = None,
    state: LandmarkState | None = None,
) -> LandmarkSolution:
    """Solve for M landmarks. alpha: a number, or one for each target.

    K_mm (M, M), float64, an array or a tensor, is overwritten. sample: Gram (s, M) of some rows with the landmarks, on which the
    preconditioner is built, or None: the landmarks themselves, which must be a tensor; sample_weight (s,): their weights, scaled
    so that they stand for all rows.

    callback(state) after each iteration; a deep copy of the state resumes bit-identically.
    """
    known = safe_cholesky(K_mm, overwrite=True)
    moments = sweeps.first() if state is None else state.moments
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), (moments.right.shape[1],))
    groups = np.unique(alphas)
    states: list = list(state.iterations) if state else [None] * len(groups)
    factor = _preconditioner(known, sample, sample_weight, intercept)
    beta, found = np.empty_like(moments.right), []
    for g, a in enumerate(groups):
        columns = np.flatnonzero(alphas == a)
        system = (_System if sample is not None else _SharedSystem)(sweeps, moments, known, factor(a), a, intercept)

        def keep(current, g=g):
            states[g] = current
            if callback is not None:
                callback(LandmarkState(moments, tuple(states)))

        answer = conjugate_gradient(
            system, system.right(columns), preconditioner=system.preconditioner, rtol=rtol,
            max_iter=_left(max_iter, states[g]), watch=keep, state=states[g],
        )  # fmt: skip
        states[g] = answer.state
        beta[:, columns] = system.coefficients(answer.value.reshape(len(beta), -1))
        found.append(answer)
    return _solution(beta, moments, intercept, found, known.jitter, LandmarkState(moments, tuple(states)))


def _left(max_iter, state):
    return max_iter if state is None else max(0, max_iter - state.iterations)


def _preconditioner(known: Factor, sample, weight, intercept):
    """a -> the factor of C + a I, or what applies its inverse."""
    if sample is None:
        whole = iter([True])  # the first takes the place of K
        return lambda a: SharedMoments(known, float(weight.sum()), a, next(whole, False))
    if is_tensor(known.array):
        parts = ((sample[some].matrix(np.float64), weight[some]) for some in _slices(len(weight), _ROWS))
        C = second_moments(known, parts, intercept)
    else:
        C = _second_moments(known, sample, weight, intercept)
    return lambda a: safe_cholesky(C, shift=a)


def _slices(n, step):
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def _second_moments(known: Factor, sample, weight, intercept):
    """C = sum of w phi phi^T over the sample, phi = L^-1 k_M(x); centred where an intercept takes up the mean."""
    C, mean = np.zeros((known.n, known.n)), np.zeros(known.n)
    for some in _slices(len(weight), _ROWS):
        phi = known.solve_triangular(np.asarray(sample[some].dense(), np.float64).T)
        mean += phi @ weight[some]
        phi *= np.sqrt(weight[some])
        subtract_square(np.ascontiguousarray(phi), C)  # the lower triangle, negative
    C = -(np.tril(C) + np.tril(C, -1).T)
    return C - np.outer(mean, mean) / weight.sum() if intercept else C


class _System:
    """The preconditioned normal equations as an operator."""

    preconditioner = None

    def __init__(self, sweeps, moments, known, factor, alpha, intercept):
        self.sweeps, self.moments, self.known, self.factor, self.alpha = sweeps, moments, known, factor, alpha
        self.mean = moments.ones / moments.weight if intercept else np.zeros(len(moments.ones))
        self.shape, self.dtype = (len(moments.ones),) * 2, np.dtype(np.float64)

    def coefficients(self, U):
        """beta = L^-T A^-T u."""
        return self.known.solve_triangular(self.factor.solve_triangular(U, trans=True), trans=True)

    def _back(self, V):
        """A^-1 L^-1 v, the transpose of `coefficients`."""
        return self.factor.solve_triangular(self.known.solve_triangular(V))

    def right(self, columns):
        centred = self.moments.right[:, columns] - np.outer(self.mean, self.moments.target[columns])
        return self._back(centred)

    def __matmul__(self, U):
        inner = self.factor.solve_triangular(U, trans=True)
        beta = self.known.solve_triangular(inner, trans=True)
        return self.factor.solve_triangular(self.known.solve_triangular(self._moments(beta)) + self.alpha * inner)

    def _moments(self, beta):
        """K^T W K beta, centred where there is an intercept."""
        return self.sweeps.normal(beta) - self.moments.weight * np.outer(self.mean, self.mean @ beta)


class _SharedSystem(_System):
    """The same in the coordinates L^T beta, where the landmarks are their own sample: there is no factor of C + a I, but its
    inverse can be applied. C is not centred: the mean of so few rows differs from that of all, and what is left of C along it
    would be far too little."""

    @property
    def preconditioner(self):
        return self.factor

    def coefficients(self, U):
        return self.known.solve_triangular(U, trans=True)

    def _back(self, V):
        return self.known.solve_triangular(V)

    def __matmul__(self, U):
        return self._back(self._moments(self.coefficients(U))) + self.alpha * U


def _solution(beta, moments, intercept, found, jitter, state):
    worst = max(found, key=lambda f: f.certificate)
    offset = (moments.target - moments.ones @ beta) / moments.weight if intercept else np.zeros(beta.shape[1])
    return LandmarkSolution(
        beta, offset, worst.status, worst.certificate, max(f.iterations for f in found), jitter, state
    )

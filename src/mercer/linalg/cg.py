"""Conjugate gradients for many right-hand sides, with a residual that can be believed."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from mercer.errors import NanError
from mercer.linalg.records import Solution, Status

__all__ = ["CGState", "conjugate_gradient"]

IMPROVEMENT = 0.9  # a check must find the residual below 0.9 x the best so far, or counts against the column
ROUNDING_POINTS, PLATEAU_POINTS, LIMIT = 10, 1, 20  # give up after 2 such checks at rounding level, 20 on a plateau


@dataclass
class CGState:
    """Where an iteration stands: everything the next step depends on, so that resuming is bit-identical.

    Columns are scaled by 2**-exponent. active: still iterating; failed: p^T A p <= 0 was met; best, stuck: stagnation
    bookkeeping; fresh: R is the true residual.
    """

    X: np.ndarray
    R: np.ndarray
    P: np.ndarray
    rz: np.ndarray
    exponent: np.ndarray
    active: np.ndarray
    failed: np.ndarray
    best: np.ndarray
    stuck: np.ndarray
    iterations: int = 0
    fresh: bool = True

    def copy(self) -> "CGState":
        return deepcopy(self)


def conjugate_gradient(
    A,
    B: np.ndarray,
    *,
    preconditioner=None,
    rtol: float = 1e-8,
    atol: float = 0.0,
    max_iter: int | None = None,
    x0: np.ndarray | None = None,
    callback: Callable[[int, np.ndarray], object] | None = None,
    watch: "Callable[[CGState], object] | None" = None,
    check_every: int = 50,
    state: CGState | None = None,
) -> Solution:
    r"""Solve A X = B for a symmetric positive definite operator, until each column has

    .. math:: \lVert b - A x\rVert \le \max(\text{rtol}\,\lVert b\rVert, \text{atol}).

    Every column has its own scalars; converged columns are frozen, and A is applied once per iteration to the others. The
    recurrence for the residual drifts from the truth, so every `check_every` iterations, and before convergence is believed,
    b - A x is computed and replaces it (van der Vorst & Ye 2000).

    A: anything with shape and @. B: (n,) or (n, p). preconditioner: callable or object with `.solve`, R -> M^-1 R.
    max_iter: iterations of this call, min(10 n, 5000) by default. callback(iteration, ||r|| / ||b|| of each column).
    watch(state) after each iteration: a copy of it, given as `state` to a later call, goes on bit-identically from there.
    state: `solution.state` of an earlier call with the same A, B and preconditioner goes on where that one ended.

    >>> solution = conjugate_gradient(np.diag([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0]))
    >>> solution.value.round(12), solution.status.name, solution.iterations
    (array([1., 1., 1.]), 'CONVERGED', 3)

    Hestenes & Stiefel (1952); Golub & Van Loan (2013), algorithm 11.5.1.
    """
    B = np.asarray(B)
    dtype = np.result_type(getattr(A, "dtype", None) or B.dtype, B.dtype, np.float32)
    columns, exponent = _scaled(B.reshape(len(B), -1).astype(dtype))
    precondition = getattr(preconditioner, "solve", preconditioner) or np.copy
    size = _norms(columns)
    with np.errstate(over="ignore"):
        tolerance = np.maximum(rtol * size, np.ldexp(float(atol), -exponent))
    s = state.copy() if state else _start(A, columns, x0, exponent, precondition, tolerance)
    last = s.iterations + (min(10 * len(B), 5000) if max_iter is None else max_iter)
    while s.active.any() and s.iterations < last:
        _step(A, precondition, s)
        # Below eps ||b|| the recurrence says nothing about x, and its squares would underflow in the end.
        s.active &= _norms(s.R) > np.maximum(tolerance, 0.1 * np.finfo(dtype).eps * size)
        if callback is not None:
            callback(s.iterations, _ratio(_norms(s.R), size))
        if s.iterations % check_every == 0 or not s.active.any():
            _replace_residual(A, columns, precondition, s, tolerance)
        if watch is not None:
            watch(s)
    return _solution(A, columns, B.shape, s, tolerance, size)


def _scaled(B):
    """B with columns of magnitude one, by exact powers of two: squares of 1e-200 would be 0."""
    if not np.isfinite(B).all():
        raise NanError("the right-hand side holds NaN or infinity")
    exponent = np.frexp(np.abs(B).max(axis=0, initial=0.0))[1]
    return np.ldexp(B, -exponent), exponent


def _start(A, B, x0, exponent, precondition, tolerance):
    X = np.zeros_like(B) if x0 is None else np.ldexp(np.asarray(x0, dtype=B.dtype).reshape(B.shape), -exponent)
    R = B.copy() if x0 is None else _residual(A, B, X)
    P = precondition(R)
    norms, none = _norms(R), np.zeros(B.shape[1], dtype=int)
    return CGState(X, R, P, _dots(R, P), exponent, norms > tolerance, none.astype(bool), norms, none)


def _step(A, precondition, s):
    """One step on the active columns; a column that meets p^T A p <= 0 keeps its last iterate."""
    c = np.flatnonzero(s.active)
    P = s.P[:, c]
    Q = np.asarray(A @ P)
    curvature = _dots(P, Q)
    if not np.isfinite(curvature).all():
        raise NanError("A @ P holds NaN or infinity; look for overflow in the operator or the preconditioner")
    good = (curvature > 0) & (s.rz[c] > 0)
    s.active[c[~good]], s.failed[c[~good]] = False, True
    c, P, Q, curvature = (c, P, Q, curvature) if good.all() else (c[good], P[:, good], Q[:, good], curvature[good])
    step = (s.rz[c] / curvature).astype(P.dtype)
    s.X[:, c] += step * P
    s.R[:, c] -= step * Q
    Z = precondition(s.R[:, c])
    rz = _dots(s.R[:, c], Z)
    s.P[:, c] = Z + (rz / s.rz[c]).astype(P.dtype) * P
    s.rz[c] = rz
    s.iterations, s.fresh = s.iterations + 1, False


def _replace_residual(A, B, precondition, s, tolerance):
    """Put the true residual for the recurrence; wake columns that only seemed converged, stop those that no longer improve."""
    R = _residual(A, B, s.X)
    norms, drift = _norms(R), _norms(R - s.R)
    rounding = drift > 0.1 * norms  # most of the true residual is what rounding left behind
    improved = norms < IMPROVEMENT * s.best
    s.stuck = np.where(improved, 0, s.stuck + np.where(rounding, ROUNDING_POINTS, PLATEAU_POINTS))
    s.best = np.where(improved, norms, s.best)
    s.active = (norms > tolerance) & ~s.failed & (s.stuck < LIMIT)
    s.R, s.fresh = R, True
    c = np.flatnonzero(s.active)
    Z = precondition(R[:, c])
    s.rz[c] = _dots(R[:, c], Z)
    # Directions stay conjugate through a small correction; after a large one the iteration starts anew.
    s.P[:, c] = np.where(rounding[c], Z, s.P[:, c])


def _solution(A, B, shape, s, tolerance, size):
    norms = _norms(s.R if s.fresh else _residual(A, B, s.X))
    if (norms <= tolerance).all():
        status = Status.CONVERGED
    elif (s.failed & (s.stuck < ROUNDING_POINTS)).any():  # where rounding rules, p^T A p <= 0 says nothing about A
        status = Status.NOT_POSITIVE_DEFINITE
    else:
        status = Status.MAX_ITER if s.active.any() else Status.STAGNATED
    value = np.ldexp(s.X, s.exponent).reshape(shape)
    return Solution(value, status, float(_ratio(norms, size).max(initial=0.0)), s.iterations, state=s)


def _residual(A, B, X):
    return B - np.asarray(A @ X)


def _dots(P, Q):
    """Columnwise inner products, added in float64 whatever the dtype."""
    return np.einsum("ij,ij->j", P, Q, dtype=np.float64)


def _norms(R):
    return np.sqrt(_dots(R, R))


def _ratio(norms, size):
    return norms / np.where(size > 0, size, 1.0)

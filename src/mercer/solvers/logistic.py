r"""Kernel logistic regression on landmarks by Newton's method, each step by conjugate gradients over passes through the rows.

With landmarks z_1 ... z_M, :math:`f_c = \sum_j \beta_{jc} k(\cdot, z_j)` and one function (two classes) or one for each class,

.. math:: \min_{\beta, b} \sum_i w_i\, \ell(y_i, f(x_i) + b) + \tfrac{\alpha}{2} \sum_c \beta_c^T K_{MM} \beta_c .

With :math:`K_{MM} = L L^T` the unknowns are :math:`u = L^T \beta`, the coefficients of the features
:math:`\phi(x) = L^{-1} k_M(x)`, in which the penalty is a square; gradients are measured there. The Hessian is applied in one
pass over the rows. Its preconditioner is made from a sample of rows, weighted by their probabilities at the point reached.
Marteau-Ferey, Bach & Rudi (2019), Globally convergent Newton methods for ill-conditioned generalized self-concordant losses.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import expit, softmax

from mercer.linalg import Factor, Status, safe_cholesky
from mercer.linalg.inplace import subtract_square

__all__ = [
    "LogisticSolution",
    "LogisticState",
    "LogisticSweeps",
    "Whitened",
    "curvature",
    "probabilities",
    "slopes",
    "solve_logistic",
]

_ROWS = 2048  # of the sample at a time
_DECREASE, _HALVINGS = 1e-4, 40  # Armijo's part of the predicted decrease, and how often a step is halved for it
_ROUNDING = 1e-13  # of the objective: smaller differences are not seen
_INNER, _AGED = 100, 5  # iterations in one Newton step, and those tried with the preconditioner of an earlier one
_SHARE = (
    0.03  # of the gradient that a step may leave; from 0.3 on steps point so far aside that there are twice as many
)
_PATIENCE = 2  # steps without progress


class LogisticSweeps(Protocol):
    """Passes over the rows, wherever they are. B and V (M + 1, p) hold coefficients and, in the last row, intercepts."""

    def gradient(self, B: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss of all rows, and its slopes (M + 1, p), in float64."""

    def hessian(self, B: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Second derivative of the loss at B in the direction V (M + 1, p), in float64."""


@dataclass(frozen=True, eq=False)
class Whitened:
    """In place of a factor, where the "Gram" with the landmarks holds their features already. diagonal: squared lengths."""

    n: int
    diagonal: np.ndarray
    jitter: float = 0.0

    def solve_triangular(self, B, *, trans=False):
        return B


@dataclass(frozen=True, eq=False)
class LogisticSolution:
    """beta (M, p), intercepts (p,), and how exact they are.

    certificate: norm of the gradient, computed at the answer, relative to that at 0. iterations: Newton steps; passes: over
    the rows. jitter: what was added to the diagonal of K_MM.
    """

    coefficients: np.ndarray
    intercept: np.ndarray
    objective: float
    status: Status
    certificate: float
    iterations: int
    passes: int
    jitter: float
    state: "LogisticState"


@dataclass(frozen=True, eq=False)
class LogisticState:
    """What resumes a fit after a Newton step, bit-identically.

    U, value, gradient: the point reached; first: norm of the gradient at 0; goal: that to reach; anchor: coefficients at which
    the preconditioner in use was made (None: there is none yet); stuck: steps without progress.
    """

    U: np.ndarray
    value: float
    gradient: np.ndarray
    first: float
    goal: float
    iterations: int
    stuck: int
    passes: int
    anchor: np.ndarray | None

    @property
    def size(self) -> float:
        return float(np.linalg.norm(self.gradient))

    @property
    def certificate(self) -> float:
        return self.size / self.first if self.first > 0 else 0.0


def solve_logistic(
    sweeps: LogisticSweeps,
    known: Factor | Whitened,
    sample,
    sample_weight: np.ndarray,
    outputs: int,
    alpha: float,
    intercept: bool = True,
    *,
    rtol: float = 1e-5,
    max_iter: int = 100,
    callback: Callable[[LogisticState], object] | None = None,
    state: LogisticState | None = None,
) -> LogisticSolution:
    """Solve for M landmarks until the gradient has fallen to `rtol` of what it is at 0.

    known: factor of the Gram of the landmarks, or `Whitened`. sample: Gram (s, M) of some rows with the landmarks, on which
    preconditioners are built; sample_weight (s,): their weights, scaled so that they stand for all rows. outputs: 1 for two
    classes, else one for each class; coefficients and intercepts of several classes then sum to 0.

    callback(state) after each Newton step; the state resumes bit-identically.
    """
    problem = _Problem(sweeps, known, sample, sample_weight, outputs, alpha, intercept)
    state = problem.start(rtol) if state is None else problem.resumed(state)
    while state.size > state.goal and state.iterations < max_iter and state.stuck < _PATIENCE:
        state = problem.stepped(state)
        if callback is not None:
            callback(state)
    return _solution(problem, state)


def _solution(problem, state):
    stopped = Status.STAGNATED if state.stuck else Status.MAX_ITER
    reached = state.size <= state.goal
    B = problem.coefficients(state.U)
    return LogisticSolution(
        B[:-1], B[-1], state.value, Status.CONVERGED if reached else stopped, state.certificate, state.iterations, state.passes,
        problem.known.jitter, state,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ the loss of some rows
def probabilities(F: np.ndarray) -> np.ndarray:
    """Of the classes of each column of scores (m, p); for two classes of the second alone."""
    return expit(F) if F.shape[1] == 1 else softmax(F, axis=1)


def slopes(F: np.ndarray, codes: np.ndarray, w: np.ndarray) -> tuple[float, np.ndarray]:
    """Loss of rows with scores F (m, p) and classes by number, and its slopes R (m, p).

    The slope of a row's own class, -(1 - p), is minus the sum of the others: for margins over 37 p is 1 to the last bit.
    """
    if F.shape[1] == 1:
        sign = np.where(codes == 1, 1.0, -1.0)
        z = sign * F[:, 0]
        return float(w @ np.logaddexp(0.0, -z)), (-sign * w * expit(-z))[:, None]
    each = np.arange(len(F))
    top = F.max(axis=1)
    E = np.exp(F - top[:, None])
    total = E.sum(axis=1)
    loss = w @ (np.log(total) + top - F[each, codes])
    R = E * (w / total)[:, None]
    R[each, codes] = 0.0
    R[each, codes] = -R.sum(axis=1)
    return float(loss), R


def curvature(F: np.ndarray, D: np.ndarray, w: np.ndarray) -> np.ndarray:
    """w (diag p - p p^T) D for each row: how the slopes of rows with scores F (m, p) change with the scores in direction D."""
    if F.shape[1] == 1:
        return (w * expit(F[:, 0]) * expit(-F[:, 0]))[:, None] * D
    P = softmax(F, axis=1)
    return w[:, None] * P * (D - (P * D).sum(axis=1, keepdims=True))


# ------------------------------------------------------------------------------------------------ inside
@dataclass(frozen=True, eq=False)
class _Point:
    """Unknowns U, value of the objective, gradient and its norm."""

    U: np.ndarray
    value: float
    gradient: np.ndarray

    @property
    def size(self):
        return float(np.linalg.norm(self.gradient))


class _Problem:
    """The objective in the unknowns U (M or M + 1, p): the last row is the intercept in units of the features' length, so that
    an answer does not depend on the scale of the kernel."""

    def __init__(self, sweeps, known, sample, weight, outputs, alpha, intercept):
        self.sweeps, self.known, self.sample, self.weight = sweeps, known, sample, weight
        self.intercept, self.passes, self.factors, self.anchor = intercept, 0, None, None
        self.unit = float(np.sqrt(known.diagonal.mean())) or 1.0
        self.penalty = np.full(known.n + intercept, float(alpha))
        self.penalty[known.n :] = 0.0
        self.shape = (len(self.penalty), outputs)

    def start(self, rtol) -> LogisticState:
        point = self.at(np.zeros(self.shape))
        goal = max(rtol * point.size, self._rounding(point))
        return LogisticState(point.U, point.value, point.gradient, point.size, goal, 0, 0, self.passes, None)

    def resumed(self, state) -> LogisticState:
        """Make ready what a state says was there."""
        self.passes = state.passes
        if state.anchor is not None:
            self._precondition(state.anchor)
        return state

    def stepped(self, state) -> LogisticState:
        """One Newton step on."""
        point = _Point(state.U, state.value, state.gradient)
        new = _search(self, point, self.newton_step(point, state.first, state.goal))
        stuck = 0 if _better(new, point) else state.stuck + 1
        return replace(
            state, U=new.U, value=new.value, gradient=new.gradient, iterations=state.iterations + 1, stuck=stuck,
            passes=self.passes, anchor=self.anchor,
        )  # fmt: skip

    def at(self, U) -> _Point:
        self.passes += 1
        loss, G = self.sweeps.gradient(self.coefficients(U))
        penalised = self.penalty[:, None] * U
        return _Point(U, loss + 0.5 * float((penalised * U).sum()), self._back(G) + penalised)

    def _rounding(self, start) -> float:
        """Norm of a gradient that is 0 but for rounding: of sums of slopes of at most w times a feature's length."""
        return 1e-15 * self.unit * start.value

    def coefficients(self, U):
        """B (M + 1, p) with beta = L^-T u."""
        n = self.known.n
        last = self.unit * U[n:] if self.intercept else np.zeros((1, U.shape[1]))
        return np.vstack([self.known.solve_triangular(U[:n], trans=True), last])

    def _back(self, G):
        """The transpose of `coefficients`; several classes sum to 0, which rounding must not add up to undo."""
        g = np.vstack([self.known.solve_triangular(G[:-1]), self.unit * G[-1:]])[: self.shape[0]]
        return _centred(g)

    def newton_step(self, point, first, goal):
        """A descent direction: the more exactly Newton's, the smaller the gradient is (Dembo, Eisenstat & Steihaug 1982)."""
        B, share = self.coefficients(point.U), min(_SHARE, np.sqrt(point.size / first))
        tolerance = max(share * point.size, 0.3 * goal)

        def apply(V):
            self.passes += 1
            return self._back(self.sweeps.hessian(B, self.coefficients(V))) + self.penalty[:, None] * V

        x, r = np.zeros(self.shape), -point.gradient
        if self.factors is not None:
            x, r = _conjugate_gradient(apply, self._preconditioned, x, r, tolerance, _AGED)
        if np.linalg.norm(r) > tolerance:
            self._precondition(B)
            x, r = _conjugate_gradient(apply, self._preconditioned, x, r, tolerance, _INNER)
        return x

    def _precondition(self, B):
        self.factors, self.anchor = None, B  # let go of the old ones first: there is a matrix for each class
        self.factors = [safe_cholesky(C, shift=self.penalty, overwrite=True, warn=False) for C in self._curvatures(B)]

    def _preconditioned(self, R):
        return _centred(np.column_stack([f.solve(R[:, c]) for c, f in enumerate(self.factors)]))

    def _curvatures(self, B):
        """Second moments of the features on the sample for each column, with the curvature p (1 - p) of each row.

        The blocks between classes are left out: centring over the classes makes up for them to a factor of at most 3.
        """
        C = [np.zeros(self.penalty.shape * 2) for _ in range(B.shape[1])]
        for start in range(0, len(self.weight), _ROWS):
            some = slice(start, min(start + _ROWS, len(self.weight)))
            K = np.asarray(self.sample[some].dense(), np.float64)
            P = probabilities(K @ B[:-1] + B[-1])
            phi = self.known.solve_triangular(K.T)
            phi = np.vstack([phi, np.full((1, len(K)), self.unit)]) if self.intercept else phi
            for c, root in enumerate(np.sqrt(self.weight[some] * (P * (1.0 - P)).T)):
                subtract_square(np.ascontiguousarray(phi * root), C[c])  # the lower triangle, negative
        for one in C:  # in place: there is one for each class
            one *= -1.0
            one += np.tril(one, -1).T
        return C


def _centred(U):
    return U if U.shape[1] == 1 else U - U.mean(axis=1, keepdims=True)


def _search(problem, point, step):
    """The point a step leads to, shortened until the objective falls by a part of what its slope promises."""
    slope, length = float((point.gradient * step).sum()), 1.0
    for _ in range(_HALVINGS):
        new = problem.at(point.U + length * step)
        if new.value <= point.value + _DECREASE * length * slope + _ROUNDING * abs(point.value):
            return new
        length /= 2
    return point


def _better(new, old):
    return new.size < 0.9 * old.size or new.value < old.value - _ROUNDING * abs(old.value)


def _conjugate_gradient(apply, precondition, x, r, tolerance, cap):
    """At most `cap` steps on A x = b from x, whose residual is r, until that is at most `tolerance`. Returns both.

    Unlike `mercer.linalg.conjugate_gradient` it believes its recurrence: the residual of a step is not a certificate, and
    computing it anew would cost a pass over the rows in each of a few short solutions.
    """
    z = precondition(r)
    p, rz = z, float((r * z).sum())
    for _ in range(cap):
        q = apply(p)
        bend = float((p * q).sum())
        if not bend > 0.0:  # all probabilities are 0 or 1, and rounding rules
            return (x, r) if x.any() else (z, r)
        x, r = x + rz / bend * p, r - rz / bend * q
        if np.linalg.norm(r) <= tolerance:
            break
        z = precondition(r)
        rz, before = float((r * z).sum()), rz
        p = z + rz / before * p
    return x, r

r"""Weights of several kernels, K = sum_i a_i K_i, on Gram matrices that are held: alignment, margins, and joint learning.

Joint learning minimises over a and the machine at once: with :math:`q_i(\beta) = \beta^T K_i \beta`,

.. math:: \min_{a \ge 0, \lVert a\rVert_p \le r} \max_\beta \; l(\beta) - \tfrac12 \sum_i a_i q_i(\beta), \qquad r = k^{1/p - 1}

where l is the rest of the dual of a support vector machine or of a ridge. The ball goes through the uniform average, so that
prices mean the same for every p. The best a for a given beta has the value :math:`r \lVert q\rVert_{p/(p-1)}`: any machine
gives a lower bound, hence the gap.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, nnls

from mercer.gram import GivenGram
from mercer.linalg import Status
from mercer.solvers.gram_stack import GramStack
from mercer.solvers.ridge import loo_gradient, ridge_path, solve_ridge
from mercer.solvers.rows import RowCache
from mercer.solvers.smo import DualProblem, solve_dual
from mercer.solvers.svm import c_svc, solve_machine
from mercer.threads import map_tiles

__all__ = ["BandSolution", "Inner", "RidgeMachine", "SVMachines", "WeightSolution", "aligned_weights", "alignments",
           "band_weights", "learned_weights", "margin_weights"]  # fmt: skip

_SMALL = 1024  # rows
_MEMORY = 2 * 10**8  # bytes of rows that a machine keeps
_SHARE = 1e-10  # of the mean square: lets equal kernels share a weight
_STRETCH = 1.3
_CRUMBS = 1e-3, 1e-5, 1e-7  # of the largest weight: below it, where weights go to 0, they may be on their way there
_LEVEL = 1e-6  # relative change of the log error at which bands rest
_DOWN, _UP = np.log(1e-6), np.log(1e3)  # how far a band may go from where it started
_ALPHAS = 10.0 ** np.linspace(-5, 4, 37)


@dataclass(frozen=True, eq=False)
class WeightSolution:
    """Weights a (k,) of the kernels; gap: (primal - dual) / primal, recomputed there; trace: (objective, gap) of each step."""

    weights: np.ndarray
    status: Status
    gap: float
    objective: float
    iterations: int
    trace: list


# ------------------------------------------------------------------------------------------------ alignment
def alignments(stack: GramStack, targets) -> np.ndarray:
    """Centred alignment (k,) of each kernel with the targets (n, p). Cortes, Mohri & Rostamizadeh (2012), definition 4."""
    T = targets - targets.mean(axis=0)
    size = np.sqrt(np.maximum(np.diagonal(stack.products()), 0.0)) * np.linalg.norm(T.T @ T)
    return np.where(size > 0, stack.forms(T) / np.where(size > 0, size, 1.0), 0.0)


def aligned_weights(stack: GramStack, targets) -> np.ndarray:
    r"""Weights (k,), of sum 1, whose sum of kernels has the largest centred alignment with the targets (n, p).

    .. math:: \min_{v \ge 0} v^T M v - 2 v^T a, \qquad M_{ij} = \langle K_i, K_j\rangle, \quad a_i = \langle K_i, T T^T\rangle

    Cortes, Mohri & Rostamizadeh (2012), proposition 9. Equal kernels share their weight. Zeros if no kernel is aligned.
    """
    T = targets - targets.mean(axis=0)
    return _nonnegative(stack.products(), stack.forms(T))


def _nonnegative(M, a):
    """argmin v^T M v - 2 v^T a over v >= 0, divided by its sum; of several the one with the least squares."""
    size = np.diagonal(M).mean()
    if not (a > 0).any() or not size > 0:
        return np.zeros(len(a))
    M = M / size + _SHARE * np.eye(len(M))
    L = np.linalg.cholesky(M)
    v, _ = nnls(L.T, np.linalg.solve(L, a / a.max()), maxiter=100 * len(a))
    return v / v.sum()


# ------------------------------------------------------------------------------------------------ margins
def margin_weights(stack: GramStack, problems, lam: float) -> np.ndarray:
    r"""EasyMKL: weights (k,), of sum 1, by the distance of the classes in each kernel's own feature space.

    .. math:: \min_\gamma (1 - \lambda) \gamma^T Y \bar K Y \gamma + \lambda \lVert\gamma\rVert^2, \qquad
              \textstyle\sum_{y_i = 1} \gamma_i = \sum_{y_i = -1} \gamma_i = 1, \; \gamma \ge 0

    with the uniform average of the kernels; then a_i is in proportion to gamma^T Y K_i Y gamma. `problems` are [(rows, signs),
    ...], several for many classes, whose distances add up. Aiolli & Donini (2015).
    """
    K = stack.combined(np.full(len(stack), 1.0 / len(stack))).astype(np.float64, copy=False)
    B = np.zeros((stack.n, len(problems)))
    for j, (rows, y) in enumerate(problems):
        B[rows, j] = hull_points(_sub(K, rows), y, lam)
    distances = stack.forms(B)
    total = distances.sum()
    return distances / total if total > 0 else np.zeros(len(stack))


def hull_points(K, y, lam) -> np.ndarray:
    """Signed weights (n,) of the nearest points of two classes' hulls, drawn to the means by lam. Aiolli & Donini (2015)."""
    Q = (1.0 - lam) * K
    Q[np.diag_indices(len(Q))] += lam
    upper, lower = (y > 0).astype(float), -(y < 0).astype(float)
    start = upper / upper.sum() - lower / lower.sum()
    size = float(np.sqrt(max(start @ Q @ start, np.finfo(float).tiny)))
    problem = DualProblem(np.zeros(len(y)), lower, upper, parts=2, start=start)
    return solve_dual(GivenGram(Q), problem, tol=1e-7 * size, memory=_MEMORY).beta


def _sub(K, rows):
    return K if len(rows) == len(K) and np.array_equal(rows, np.arange(len(K))) else K[np.ix_(rows, rows)]


def _by_one_thread(solve, K, *args, **kwargs):
    """solve(K, ...) of a small matrix by one thread of BLAS: many small factorisations in turn with tile loops make two pools
    of threads wait for one another."""
    if len(K) > _SMALL:
        return solve(K, *args, **kwargs)
    return map_tiles(lambda _: solve(K, *args, **kwargs), 1)[0]


# ------------------------------------------------------------------------------------------------ machines
@dataclass(frozen=True, eq=False)
class Inner:
    """A machine on one combined Gram: its loss in the primal, l(beta) in the dual, and its coefficients (n, p)."""

    loss: float
    linear: float
    coefficients: np.ndarray


class SVMachines:
    """Support vector machines for [(rows, signs, prices), ...] on a combined Gram, each started from the one before."""

    def __init__(self, problems, n, tol):
        self.problems, self.n, self.tol = problems, n, tol
        self.last: list = [None] * len(problems)

    def __call__(self, K) -> Inner:
        loss, linear, B = 0.0, 0.0, np.zeros((self.n, len(self.problems)))
        for j, (rows, y, C) in enumerate(self.problems):
            part, problem = _sub(K, rows), c_svc(y, C)
            problem = DualProblem(problem.linear, problem.lower, problem.upper, start=self.last[j])
            machine = solve_machine(RowCache(GivenGram(part), _MEMORY), "c_svc", problem, tol=self.tol)
            beta = self.last[j] = machine.coefficients
            values = part @ beta.astype(part.dtype) + machine.intercept
            loss += float((C * np.maximum(0.0, 1.0 - y * values)).sum())
            linear += float(y @ beta)
            B[rows, j] = beta
        return Inner(loss, linear, B)


class RidgeMachine:
    """Ridge with an intercept for targets (n, p) on a combined Gram."""

    def __init__(self, targets, alpha):
        self.targets, self.alpha = targets, alpha

    def __call__(self, K) -> Inner:
        Y = self.targets
        c = _by_one_thread(solve_ridge, K.astype(np.float64, copy=False), Y, self.alpha, intercept=True).coefficients
        square = 0.5 * self.alpha * float((c * c).sum())
        return Inner(square, float((c * (Y - Y.mean(axis=0))).sum()) - square, c)


# ------------------------------------------------------------------------------------------------ joint learning
@dataclass(frozen=True, eq=False)
class _Point:
    """Weights, the forms q (k,) of their machine, and the value of both together."""

    weights: np.ndarray
    forms: np.ndarray
    primal: float


class _Objective:
    """The joint problem at one p; remembers the best bound and what it was asked."""

    def __init__(self, stack, machine, p):
        self.stack, self.machine, self.p = stack, machine, p
        k = len(stack)
        self.radius = k ** (1.0 / p - 1.0)
        self.dual_norm = np.inf if p == 1 else p / (p - 1.0)
        self.bound, self.trace = -np.inf, []

    def at(self, weights) -> _Point:
        inner = self.machine(self.stack.combined(weights))
        q = self.stack.forms(inner.coefficients)
        bound = inner.linear - 0.5 * self.radius * float(np.linalg.norm(q, self.dual_norm))
        primal = inner.loss + 0.5 * float(weights @ q)
        self.bound = max(self.bound, bound)
        self.trace.append((primal, self.gap(primal)))
        return _Point(weights, q, primal)

    def stretched(self, point, factor):
        """The weights that the closed form gives for a machine, or beyond them by a power."""
        norms = point.weights**2 * point.forms
        closed = self.on_sphere((norms / norms.max()) ** (1.0 / (self.p + 1.0)))
        ratio = np.divide(closed, point.weights, out=np.zeros_like(closed), where=point.weights > 0)
        a = point.weights * ratio**factor
        return self.on_sphere(a / a.max())

    def on_sphere(self, a):
        """a scaled to the p-norm that weights have."""
        return self.radius * a / np.linalg.norm(a, self.p)

    def gap(self, primal):
        """Relative distance of a value from the best bound known."""
        return float((primal - self.bound) / abs(primal)) if primal else 0.0


def learned_weights(
    stack: GramStack, machine: Callable[[np.ndarray], Inner], p=1.0, *, gap=1e-3, max_iter=1000
) -> WeightSolution:
    """Weights (k,) with ||a||_p = k^(1/p - 1) learned with the machine, until the relative duality gap is below `gap`.

    Machine and weights in turn, these by the closed form of Kloft et al. (2011), equation 28: a_i in proportion to
    ||w_i||^(2 / (p + 1)), w_i the machine's part in the space of kernel i. Its steps are short, so they are stretched, in the
    logarithms of the weights, as long as the value falls (Salakhutdinov & Roweis 2003). p = 1 is the problem of Rakotomamonjy
    et al. (2008), whose solution has few kernels; there weights that are on their way to 0 are set to 0 at the end.
    """
    objective = _Objective(stack, machine, p)
    point, iteration = objective.at(np.full(len(stack), 1.0 / len(stack))), 1
    stretch = 1.0
    while (
        objective.gap(point.primal) > gap and iteration < max_iter and point.forms.any()
    ):  # else a constant explains all rows
        new, iteration = objective.at(objective.stretched(point, stretch)), iteration + 1
        if stretch > 1.0 and new.primal > point.primal:
            stretch = 1.0
        else:
            point, stretch = new, _STRETCH * stretch
    point = _without_crumbs(objective, point, gap) if p == 1 else point
    reached = objective.gap(point.primal)
    status = Status.CONVERGED if reached <= gap else Status.MAX_ITER
    return WeightSolution(point.weights, status, reached, point.primal, iteration, objective.trace)


def _without_crumbs(objective, point, gap):
    """The same without the kernels whose weights are next to nothing: as many of them as can go and leave the gap."""
    for crumb in _CRUMBS:
        a = np.where(point.weights > crumb * point.weights.max(), point.weights, 0.0)
        if np.array_equal(a, point.weights):
            return point
        new = objective.at(objective.on_sphere(a))
        if objective.gap(new.primal) <= max(gap, objective.gap(point.primal)):
            return new
    return point


# ------------------------------------------------------------------------------------------------ banded ridge
@dataclass(frozen=True, eq=False)
class BandSolution:
    """Weights (k,) of sum 1 and alpha found by leave-one-out, its error relative to the variance of the targets; the same of
    the uniform average (`uniform_alpha`, `uniform_error`), whether the search came to rest, and the error of each step."""

    weights: np.ndarray
    alpha: float
    error: float
    uniform_alpha: float
    uniform_error: float
    status: Status
    iterations: int
    trace: list


def band_weights(stack: GramStack, targets, *, max_iter=200) -> BandSolution:
    r"""A ridge penalty of its own for each kernel: the log of every a_i / alpha by the gradient of the leave-one-out error.

    Targets (n, p) share the weights; each counts relative to its variance. All bands move together first, which is the
    uniform average with the best alpha. Dupré la Tour, Eickenberg, Nunez-Elizalde & Gallant (2022).
    """
    k, T = len(stack), targets - targets.mean(axis=0)
    size = np.sqrt((T**2).mean(axis=0))
    T = T / np.where(size > 0, size, 1.0)
    alpha, uniform = _best_alpha(stack.combined(np.full(k, 1.0 / k)), T)
    start, trace = np.full(k, -np.log(alpha * k)), []

    def objective(z):
        bands = np.exp(z)
        K = stack.combined(bands).astype(np.float64, copy=False)
        error, W, _ = _by_one_thread(loo_gradient, K, T, 1.0, intercept=True)
        trace.append(error)
        floor = error + np.finfo(float).eps ** 2  # targets have variance one: below this the logarithm is of rounding
        return np.log(floor), bands * stack.inner(W) / floor

    if not T.any():
        return BandSolution(np.zeros(k), alpha, 0.0, alpha, 0.0, Status.CONVERGED, 0, trace)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(z + _DOWN, z + _UP) for z in start],
                     options={"maxiter": int(max_iter), "ftol": _LEVEL})  # fmt: skip
    bands = np.where(found.x <= start + _DOWN + 1e-9, 0.0, np.exp(found.x))
    bands = bands if bands.any() else np.exp(found.x)
    status = Status.CONVERGED if found.success else Status.MAX_ITER
    return BandSolution(bands / bands.sum(), float(1.0 / bands.sum()), float(np.exp(found.fun)), alpha, uniform, status,
                        int(found.nit), trace)  # fmt: skip


def _best_alpha(K, T):
    """The alpha of the least leave-one-out error, and that error."""
    path = _by_one_thread(ridge_path, K.astype(np.float64, copy=False), T, intercept=True)
    errors = [float((path.residuals(a) ** 2).mean()) for a in _ALPHAS]
    best = int(np.argmin(errors))
    return float(_ALPHAS[best]), errors[best]

r"""Machines on a budget (X2): few expansion points, learned together with their weights.

.. math:: \min_{Z, w, b} \sum_i s_i\, \ell(y_i, f(x_i)) + \tfrac{\alpha}{2} \sum_c w_c^T K_{ZZ} w_c, \qquad
          f_c(x) = \sum_j w_{jc} k(z_j, x) + b_c .

For given points this is convex, and Newton's method solves it in the features :math:`L^{-1} k_Z(x)` with
:math:`K_{ZZ} = L L^T`, in which the penalty is a square. The points are moved along the gradient of the value at its best
weights (variable projection, Golub & Pereyra 1973): by L-BFGS where all rows are one batch, else by normalised steps over
mini-batches, in which the weights follow by Newton steps with the curvature of the last pass. The hinge is smoothed while
points move; for the final weights the smoothing goes to 0, and what it still hides is part of the certificate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, softmax

from mercer import validate
from mercer.errors import NanError, NotPSDError
from mercer.gram import gram, prepared_gram
from mercer.kernels.views import NonNegativeRows
from mercer.linalg import Status, safe_cholesky
from mercer.solvers.centers import solve_least_squares, triangle_of
from mercer.solvers.logistic import slopes
from mercer.threads import map_tiles

__all__ = ["Features", "HingeLoss", "Learned", "LogisticLoss", "PointValues", "SquaredLoss", "Weights",
           "learn_points", "own_gram", "solve_hinge", "solve_squares"]  # fmt: skip

_ROWS, _AT_ONCE = 2048, 8  # rows of a group at least, and groups whose sums are added at a time
_RIDGE = 1e-13  # times mean(diag): what rounding of kernel values hides
_TINY = np.finfo(np.float64).tiny
_HALVINGS, _DECREASE, _ROUNDING = 40, 1e-4, 1e-14  # of the line search
_JOINT = 400  # unknowns up to which classes are solved for together
_AGED = 8  # steps with the curvature of one point, where each class is solved for alone and steps are many anyway
_SMOOTH = 0.5  # width of the smoothed corner of the hinge while points move
_SHARPER, _SHARPEST = 0.1, 1e-9  # by which the corner is narrowed in turn, and how far
_PATIENCE = 4  # epochs that hardly gain before the points are at rest
_NOISY, _SHORTEST = (
    2,
    0.1,
)  # epochs over mini-batches that hardly gain, or the part of a step that is left, that end these
_MEMORY = 10  # steps that L-BFGS remembers
_MOMENTS = (0.9, 0.99)  # of steps over mini-batches: Kingma & Ba (2015)
_FLOOR = 0.01  # of the mean squared slope: a point that hardly matters hardly moves
_ROUGH = 1e-4  # of the value: to which the weights of a batch are solved for
_SMALL = 2**22  # products up to which a pass over the rows is left to one thread


# ------------------------------------------------------------------------------------------------ losses
class SquaredLoss:
    """sum_i s_i |t_i - f_i|^2 / 2 for targets (n, p)."""

    solver, coupled = "qr", False

    def __init__(self, targets, weight):
        self.targets, self.weight, self.outputs = targets, weight, targets.shape[1]

    def values(self, F) -> np.ndarray:
        """Of each column (p,); of columns that are coupled the sum (1,)."""
        return 0.5 * (self.weight @ np.square(F - self.targets))

    def slopes(self, F, some) -> np.ndarray:
        """Derivatives (m, p) for scores of some rows."""
        return self.weight[some, None] * (F - self.targets[some])

    def curvature(self, F, some) -> np.ndarray:
        """Second derivatives (1, m), the same for all columns."""
        return self.weight[None, some]

    def take(self, rows) -> "SquaredLoss":
        """That of some rows."""
        return SquaredLoss(self.targets[rows], self.weight[rows])

    @property
    def unit(self) -> float:
        """A score of usual size."""
        return float(np.abs(self.targets).max(initial=0.0))


class LogisticLoss:
    """Minus the logarithm of the probability of the rows' classes: one score for two classes, else one for each."""

    solver, unit = "newton", 1.0

    def __init__(self, codes, weight, classes):
        self.codes, self.weight, self.classes, self.outputs = codes, weight, classes, 1 if classes == 2 else classes
        self.coupled = classes > 2

    def take(self, rows) -> "LogisticLoss":
        return LogisticLoss(self.codes[rows], self.weight[rows], self.classes)

    def values(self, F) -> np.ndarray:
        return np.array([slopes(F, self.codes, self.weight)[0]])

    def slopes(self, F, some) -> np.ndarray:
        return slopes(F, self.codes[some], self.weight[some])[1]

    def curvature(self, F, some) -> np.ndarray:
        """Second derivatives (p, m) of each column."""
        P = expit(F) if self.outputs == 1 else softmax(F, axis=1)
        return self.weight[some] * (P * (1.0 - P)).T

    def between(self, F, some) -> np.ndarray:
        """Second derivatives (p, p, m) in pairs of columns."""
        P = softmax(F, axis=1).T
        D = -P[:, None] * P[None]
        D[np.arange(len(P)), np.arange(len(P))] += P
        return self.weight[some] * D


class HingeLoss:
    """sum_i s_i max(0, 1 - y_i f_i), with a corner that is a parabola of width delta; signs (n, p)."""

    solver, coupled, unit = "newton", False, 1.0

    def __init__(self, signs, weight, delta=_SMOOTH):
        self.signs, self.weight, self.delta, self.outputs = signs, weight, delta, signs.shape[1]

    def take(self, rows) -> "HingeLoss":
        return HingeLoss(self.signs[rows], self.weight[rows], self.delta)

    def _short(self, F, some=slice(None)):
        return 1.0 - self.signs[some] * F

    def values(self, F) -> np.ndarray:
        short = self._short(F)
        inside = np.clip(short, 0.0, self.delta)
        return self.weight @ (inside * (short - 0.5 * inside) / self.delta)

    def exact(self, F) -> float:
        """The loss with its corner."""
        return float(self.weight @ np.maximum(self._short(F), 0.0).sum(axis=1))

    def slopes(self, F, some) -> np.ndarray:
        return -self.weight[some, None] * self.signs[some] * np.clip(self._short(F, some) / self.delta, 0.0, 1.0)

    def curvature(self, F, some) -> np.ndarray:
        short = self._short(F, some)
        return (self.weight[some, None] / self.delta * ((short > 0) & (short < self.delta))).T

    def sharper(self, delta, column=slice(None)) -> "HingeLoss":
        """The same loss with another corner, of some columns."""
        return HingeLoss(np.ascontiguousarray(self.signs[:, column]), self.weight, delta)


Loss = SquaredLoss | LogisticLoss | HingeLoss


# ------------------------------------------------------------------------------------------------ rows and features
class PointValues:
    """Values (n, k) of a kernel between rows and points, in float64, computed when they are asked for."""

    def __init__(self, G, rows):
        self.G, self.rows, self.shape = G, rows, (validate.n_rows(rows), G.shape[0])

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, some) -> "PointValues":
        return PointValues(self.G, validate.take(self.rows, some))

    def gram(self):
        return prepared_gram(self.G, validate.double(self.rows))

    def dense(self) -> np.ndarray:
        return np.asarray(self.gram().dense(), np.float64)

    def __matmul__(self, B):
        return np.vstack([self[g].dense() @ B for g in _groups(len(self), 0)])


def own_gram(G) -> np.ndarray:
    """Gram of points with themselves as predictions see it: without noise on equal rows."""
    return np.asarray(prepared_gram(G, G.y.rows).dense(), np.float64)


def _factor(own):
    shift = max(_RIDGE * float(own.diagonal().mean()), _TINY)
    return safe_cholesky((own + own.T) / 2, shift=shift, overwrite=True, warn=False)


class Features:
    """Columns [L^-1 k_Z(x), unit] of rows: features in which the penalty is a square and, last, the constant.

    design: values (n, k), anything with slices that are `dense`; own: Gram of the points; room: bytes for holding the columns.
    """

    def __init__(self, design, own, intercept, room=0):
        self.design, self.n, self.k = design, design.shape[0], len(own)
        self.factor = _factor(own)
        mean = float(own.diagonal().mean())
        self.unit = float(np.sqrt(mean)) if mean > 0 else 1.0
        self.q, self.held = self.k + bool(intercept), None
        if 8 * self.n * self.q <= room:
            self.held = np.empty((self.n, self.q))
            groups = _groups(self.n, self.q)
            map_tiles(lambda i: self._fill(groups[i]), len(groups))

    def _fill(self, some):
        self.held[some] = self._computed(some)

    def _computed(self, some):
        phi = self.factor.solve_triangular(self.design[some].dense().T).T
        return np.hstack([phi, np.full((len(phi), 1), self.unit)]) if self.q > self.k else phi

    def __call__(self, some) -> np.ndarray:
        return self._computed(some) if self.held is None else self.held[some]

    def coefficients(self, U) -> tuple[np.ndarray, np.ndarray]:
        """Weights (k, p) of the points and constants (p,) of unknowns (q, p)."""
        b = self.unit * U[self.k] if self.q > self.k else np.zeros(U.shape[1])
        return self.factor.solve_triangular(U[: self.k], trans=True), b

    def unknowns(self, W, b) -> np.ndarray:
        """The inverse of `coefficients`."""
        U = np.tril(self.factor.array).T @ W
        return np.vstack([U, b / self.unit]) if self.q > self.k else U


def quickly(job, work):
    """job(), as one piece of work for one thread where it is small: handing over every product would take longer."""
    return map_tiles(lambda _: job(), 1)[0] if work <= _SMALL else job()


def _groups(n, q):
    size = max(_ROWS, 4 * q)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def _sums(groups, job):
    """Sum of arrays of groups of rows, added in order, so that it does not depend on the threads."""
    total = None
    for i in range(0, len(groups), _AT_ONCE):
        some = groups[i : i + _AT_ONCE]
        for part in map_tiles(lambda j, some=some: job(some[j]), len(some)):
            total = part if total is None else [a + b for a, b in zip(total, part, strict=True)]
    return total


# ------------------------------------------------------------------------------------------------ weights of given points
@dataclass(frozen=True, eq=False)
class Point:
    """Unknowns U (q, p), scores F (n, p), value, gradient (q, p), and the Hessian, (blocks, q, q) or of all together."""

    U: np.ndarray
    F: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: np.ndarray


class Weights:
    """The convex problem of the weights, by Newton's method with a line search."""

    def __init__(self, features: Features, loss: Loss, alpha: float):
        self.features, self.loss, self.alpha = features, loss, float(alpha)
        self.groups = _groups(features.n, features.q)
        self.joint = loss.coupled and features.q * loss.outputs <= _JOINT
        self.penalty = np.full(features.q, self.alpha)
        self.penalty[features.k :] = 0.0

    def scores(self, U) -> np.ndarray:
        F = np.empty((self.features.n, U.shape[1]))

        def job(i):
            F[self.groups[i]] = self.features(self.groups[i]) @ U

        map_tiles(job, len(self.groups))
        return F

    def values(self, F, U) -> np.ndarray:
        """The objective, in its columns (p,) where they can be told apart, else (1,)."""
        return self.loss.values(F) + 0.5 * self.alpha * self._columns(np.square(U[: self.features.k]))

    def _columns(self, A):
        sums = A.sum(axis=0)
        return sums.sum(keepdims=True) if self.loss.coupled else sums

    def at(self, U, F=None, like: Point | None = None) -> Point:
        """The point U; with the Hessian of another one where that is given."""
        F = self.scores(U) if F is None else F
        value = float(self.values(F, U).sum())
        if not np.isfinite(value):
            raise NanError("the objective is not finite; kernel values or weights overflow, rescale the rows")
        G, *H = _sums(self.groups, lambda some: self._moments(F, some, like is None))
        point = Point(U, F, value, G + self.penalty[:, None] * U, H[0] if like is None else like.hessian)
        if like is not None:
            object.__setattr__(point, "_factors", self.factors(like))
        return point

    def _moments(self, F, some, bent):
        """Gradient and, if asked for, Hessian of some rows."""
        A, F = self.features(some), F[some]
        G = A.T @ self.loss.slopes(F, some)
        if not bent:
            return [G]
        if not self.joint:
            return [G, np.stack([_square(A, d) for d in self.loss.curvature(F, some)])]
        D, (q, p) = self.loss.between(F, some), G.shape
        H = np.empty((p, q, p, q))
        for c in range(p):
            for d in range(c + 1):
                H[c, :, d] = H[d, :, c] = _square(A, D[c, d])
        return [G, H.reshape(1, p * q, p * q)]

    def direction(self, point, gradient=None) -> np.ndarray:
        """Newton's step, - H^-1 gradient."""
        g = point.gradient if gradient is None else gradient
        factors = self.factors(point)
        if self.joint:
            return -factors[0].solve(g.T.ravel()).reshape(g.T.shape).T
        if len(factors) == 1:
            return -factors[0].solve(g)
        return -np.column_stack([f.solve(g[:, c]) for c, f in enumerate(factors)])

    def factors(self, point):
        known = vars(point).get("_factors")
        if known is None:
            known = [safe_cholesky(H, shift=self._shift(H), warn=False) for H in point.hessian]
            object.__setattr__(point, "_factors", known)
        return known

    def _shift(self, H):
        """The penalty; a constant that nothing holds, as in a hinge without rows in its corner, moves as if all rows did."""
        shift = np.tile(self.penalty, len(H) // len(self.penalty))
        bent = H.diagonal()
        loose = (shift == 0) & (bent <= 1e-14 * bent.max(initial=0.0) + _TINY)
        shift[loose] = self.features.unit**2 * self.loss.weight.sum()
        if self.joint:  # a constant that all classes share changes nothing
            shift = shift + 1e-10 * (bent + shift).mean() * (shift == 0)
        return shift

    @np.errstate(over="ignore", invalid="ignore")
    def stepped(self, point, like: Point | None = None) -> Point:
        """One Newton step on, shortened until the objective falls; the same point where it does not, as where the step is so long
        that numbers overflow."""
        step = self.direction(point)
        change, slope = self.scores(step), self._columns(point.gradient * step)
        before, length = self.values(point.F, point.U), np.ones(len(slope))
        for _ in range(_HALVINGS):
            U, F = point.U + length * step, point.F + length * change
            short = self.values(F, U) <= before + _DECREASE * length * slope
            if short.all():
                return self.at(U, F, like)
            length = np.where(short, length, length / 2)
        length = np.where(short, length, 0.0)
        return self.at(point.U + length * step, point.F + length * change) if length.any() else point

    def gap(self, point) -> float:
        """How far the value may be above the smallest: the objective is alpha-convex in the weights."""
        g, k = point.gradient, self.features.k
        gap = float(np.square(g[:k]).sum()) / (2 * self.alpha)
        reach = np.abs(point.U[k:]) + self.loss.unit / self.features.unit
        return gap + float((np.abs(g[k:]) * reach).sum())

    def relative_gap(self, point) -> float:
        """In parts of the value, or of that at 0 where rounding hides the difference."""
        start = float(self.loss.values(np.zeros_like(point.F)).sum())
        scale = max(point.value, np.finfo(float).eps * start)
        return self.gap(point) / scale if scale > 0 else 0.0

    def solve(self, U, rtol, max_iter) -> tuple[Point, int]:
        """Newton steps until the gap is `rtol` of the value, or rounding ends them."""
        point, steps = self.at(U), 0
        while steps < max_iter and self.gap(point) > rtol * point.value:
            aged = self.loss.coupled and not self.joint and steps % _AGED < _AGED - 1
            new, before = self.stepped(point, point if aged else None), point.value
            steps += 1
            point = new if self.gap(new) < self.gap(point) or new.value < before else point
            if not new.value < (1.0 - _ROUNDING) * before:
                break
        return point, steps


def _square(A, d):
    """A^T diag(d) A; of a hinge most d are 0."""
    inside = np.flatnonzero(d)
    if len(inside) < len(d) // 2:
        A, d = A[inside], d[inside]
    return (A * d[:, None]).T @ A


def solve_squares(features: Features, loss: SquaredLoss, alpha: float) -> np.ndarray:
    """Best unknowns (q, p) under the squared loss, by a triangle of the columns: their products would square its condition."""
    root, k, free = np.sqrt(loss.weight), features.k, features.q - features.k

    def columns(some):
        A = features(some)
        return root[some, None] * np.hstack([A[:, k:], A[:, :k], loss.targets[some]])

    R = triangle_of(features.n, features.q + loss.outputs, columns)
    found = solve_least_squares(R, free, k, float(alpha))
    return np.vstack([found.coefficients, found.free])


@dataclass(frozen=True, eq=False)
class HingeSolution:
    """Unknowns (q, p), the value of the hinge with its corner, a bound on the part of it that is too much, Newton steps."""

    U: np.ndarray
    objective: float
    certificate: float
    iterations: int


def solve_hinge(features: Features, loss: HingeLoss, alpha: float, U, rtol=1e-8) -> HingeSolution:
    """Best weights under the hinge: one column after another, each with narrower and narrower corners.

    The smoothed problem has the smaller value, so that the value of the hinge less that of the smoothed problem, and what
    Newton's method left of it, bound the distance from the best value.
    """
    U, total, gap, steps = U.copy(), 0.0, 0.0, 0
    for c in range(loss.outputs):
        column = slice(c, c + 1)
        U[:, column], value, left, used = _sharpened(features, loss, alpha, U[:, column], column, rtol)
        total, gap, steps = total + value, gap + left, steps + used
    return HingeSolution(U, total, gap / total if total > 0 else 0.0, steps)


def _sharpened(features, loss, alpha, U, column, rtol):
    delta, best, steps, last = loss.delta, (U, np.inf, np.inf), 0, None
    while delta >= _SHARPEST:
        problem = Weights(features, loss.sharper(delta, column), alpha)
        point, used = quickly(partial(problem.solve, U, 0.01 * rtol, 50), features.n * features.q**2)
        steps += used
        hidden = problem.loss.exact(point.F) - float(problem.loss.values(point.F).sum())
        gap, value = hidden + problem.gap(point), point.value + hidden
        if gap < best[2]:
            best = (point.U, value, gap)
        if gap <= rtol * value:
            break
        # While the same rows are in the corner the answer is nearly linear in its width.
        U = point.U if last is None else point.U + (_SHARPER - 1.0) / (1.0 - 1.0 / _SHARPER) * (point.U - last)
        delta, last = delta * _SHARPER, point.U
    return *best, steps


# ------------------------------------------------------------------------------------------------ points that move
@dataclass(frozen=True, eq=False)
class Learned:
    """Points, their weights (k, p) and constants (p,) at the best value seen; path: the value at the start and after each
    epoch; steps_back: epochs that were undone, each of which halves the steps."""

    points: np.ndarray
    coefficients: np.ndarray
    intercept: np.ndarray
    path: np.ndarray
    status: Status
    iterations: int
    steps_back: int


@dataclass(frozen=True, eq=False)
class _State:
    """Points with their best weights."""

    Z: np.ndarray
    W: np.ndarray
    b: np.ndarray
    problem: Weights
    point: Point

    @property
    def value(self):
        return self.point.value


def learn_points(kernel, rows, loss: Loss, alpha: float, Z: np.ndarray, intercept: bool, *, rng: np.random.Generator,
                 batch_size: int = 256, max_iter: int = 50, rate: float = 0.1, tol: float = 1e-4, engine=None, memory=None,
                 room: int = 0, callback: Callable | None = None) -> Learned:  # fmt: skip
    """Move points Z (k, d) from where they are, until `max_iter` epochs have passed or they gain less than `tol` in each.

    rate: length of a step over a mini-batch, in parts of the distance of the rows from their nearest point; it falls to 0 by
    a cosine over the epochs. room: bytes for holding features. callback(epoch, value).
    """
    search = _Search(kernel, rows, loss, alpha, len(Z), intercept, engine, memory, room, callback)
    nothing = np.zeros((len(Z), loss.outputs)), np.zeros(loss.outputs)
    state = search.quickly(lambda: search.settled(Z.astype(np.float64), *nothing))
    search.unit = spacing(rows, Z)
    if search.n <= batch_size:
        return _by_whole_batches(search, _Path(state), max_iter, tol)
    path = _by_mini_batches(search, _Path(state), rng, batch_size, max_iter, rate, tol)
    return _by_whole_batches(search, path, max_iter, tol)


def spacing(rows, Z) -> float:
    """Root mean square distance of some of the rows from their nearest point."""
    some = validate.double(validate.take(rows, np.linspace(0, validate.n_rows(rows) - 1, _ROWS).astype(int)))
    largest = float(np.abs(some.data if sp.issparse(some) else some).max(initial=0.0))
    if not largest > 0:
        return 1.0
    middle = 0.0 if sp.issparse(some) else Z.mean(axis=0)  # what all rows share would cancel
    some, Z = (some - middle if not sp.issparse(some) else some) / largest, (Z - middle) / largest
    lengths = some.multiply(some).sum(axis=1) if sp.issparse(some) else np.square(some).sum(axis=1)
    squares = np.square(Z).sum(axis=1) - 2.0 * (some @ Z.T) + np.asarray(lengths).reshape(-1, 1)
    return largest * float(np.sqrt(np.maximum(squares.min(axis=1), 0.0).mean()))


class _Search:
    """The value of points with their best weights, and its gradient."""

    def __init__(self, kernel, rows, loss, alpha, k, intercept, engine, memory, room, callback):
        self.kernel, self.rows, self.loss, self.alpha, self.intercept = kernel, rows, loss, float(alpha), intercept
        self.engine, self.memory, self.room, self.callback = engine, memory, room, callback
        self.n, self.k, self.unit = validate.n_rows(rows), k, 1.0

    def gram(self, Z):
        return gram(self.kernel, Z, engine=self.engine, memory=self.memory, validated=True)

    def quickly(self, job, n=None):
        return quickly(job, (self.n if n is None else n) * self.k * (self.rows.shape[1] + self.k))

    @cached_property
    def low(self):
        """The smallest number that a column of a point may hold."""
        views = self.gram(validate.take(self.rows, slice(0, 1))).y.views
        return 0.0 if any(isinstance(view, NonNegativeRows) for view in views) else -np.inf

    def settled(self, Z, W, b, rtol=1e-6, max_iter=20) -> _State:
        """The points with the weights that are best for them, to `rtol` of the value, from others."""
        G = self.gram(Z)
        features = Features(PointValues(G, self.rows), own_gram(G), self.intercept, self.room)
        problem = Weights(features, self.loss, self.alpha)
        point, _ = problem.solve(features.unknowns(W, b), rtol, max_iter)
        return _State(Z, *features.coefficients(point.U), problem, point)

    def slope(self, state) -> np.ndarray:
        """Gradient (k, d) of the value in the points: that the best weights change with them does not change it."""
        values, W = state.problem.features.design, state.W
        R = self.loss.slopes(state.point.F, slice(None))
        own = prepared_gram(values.G, state.Z)
        return values.gram().T.pullback_inputs((W, R)) + self.alpha * own.pullback_inputs((W, W))  # two places in K_ZZ

    def part(self, batch) -> "_Search":
        """The problem on some of the rows, with their share of the penalty."""
        part = _Search(self.kernel, validate.take(self.rows, batch), self.loss.take(batch), self.alpha * len(batch) / self.n,
                       self.k, self.intercept, self.engine, self.memory, self.room, None)  # fmt: skip
        part.low = self.low
        return part


class _Path:
    """The best state so far, and its value at the start and after each epoch."""

    def __init__(self, state):
        self.best, self.values, self.steps_back = state, [state.value], 0

    @property
    def epochs(self):
        return len(self.values) - 1

    def noted(self, search) -> list:
        self.values.append(self.best.value)
        if search.callback is not None:
            search.callback(self.epochs, self.best.value)
        return self.values

    def learned(self, status) -> Learned:
        best, values = self.best, np.array(self.values)
        values[-1] = best.value
        return Learned(best.Z, best.W, best.b, values, status, self.epochs, self.steps_back)


# ---------------------------------------------------------------------------------------------- all rows at once
class _AtRest(Exception):  # noqa: N818
    """Says that the search is over."""


class _Whole:
    """What L-BFGS minimises: the value over that at the start, in points over the unit of distance."""

    def __init__(self, search, path, tol):
        self.search, self.path, self.first, self.tol = search, path, max(path.best.value, _TINY), tol
        self.unit, self.began = search.unit if search.unit > 0 else 1.0, len(path.values)

    def value_and_slope(self, z):
        return self.search.quickly(lambda: self._at(z))

    def _at(self, z):
        search, best = self.search, self.path.best
        state = search.settled(z.reshape(best.Z.shape) * self.unit, best.W, best.b, 1e-9, 60)
        if state.value < best.value:
            self.path.best = state
        return state.value / self.first, (search.slope(state) * (self.unit / self.first)).ravel()

    def look(self, _):
        """After each step."""
        values = self.path.noted(self.search)
        before = values[-1 - _PATIENCE] if len(values) >= self.began + _PATIENCE else np.inf
        if values[-1] >= (1.0 - _PATIENCE * self.tol) * before:
            raise _AtRest


def _by_whole_batches(search, path, max_iter, tol) -> Learned:
    left = max_iter - path.epochs
    if left <= 0:
        return path.learned(Status.MAX_ITER)
    whole, status = _Whole(search, path, tol), Status.CONVERGED
    options = {"maxiter": left, "maxfun": 4 * left, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
    bounds = None if search.low == -np.inf else [(search.low, None)] * path.best.Z.size
    try:
        minimize(whole.value_and_slope, (path.best.Z / whole.unit).ravel(), jac=True, method="L-BFGS-B", bounds=bounds,
                 callback=whole.look, options=options)  # fmt: skip
        status = Status.MAX_ITER if path.epochs >= max_iter else Status.CONVERGED
    except _AtRest:
        pass
    except (NanError, NotPSDError):  # a step into overflow: what came before it is good
        status = Status.STAGNATED
    return path.learned(status)


# ---------------------------------------------------------------------------------------------- some rows at a time
def _by_mini_batches(search, path, rng, batch_size, max_iter, rate, tol) -> _Path:
    """Epochs that are kept where the value falls; else the points go back, and steps are half as long from there on."""
    quiet, shorter, moments = 0, 1.0, _Moments(path.best.Z)
    while path.epochs < max_iter and quiet < _NOISY and shorter >= _SHORTEST:
        try:
            new = _Epoch(search, path.best, rate * shorter, moments).run(rng, batch_size, path.epochs, max_iter)
            gain = path.best.value - new.value
        except (NanError, NotPSDError):
            gain = -1.0
        if gain > 0:
            quiet, path.best = 0 if gain > tol * path.best.value else quiet + 1, new
        else:
            path.steps_back, shorter, moments = path.steps_back + 1, shorter / 2, _Moments(path.best.Z)
        path.noted(search)
    return path


class _Moments:
    """Mean slopes (k, d) of the points, and the mean squares (k,) of their lengths."""

    def __init__(self, Z):
        self.mean, self.square, self.steps = np.zeros_like(Z), np.zeros(len(Z)), 0

    def direction(self, slope):
        """Each point along its mean slope, over the root of the mean square of its own slopes."""
        self.steps += 1
        first, second = _MOMENTS
        self.mean = first * self.mean + (1 - first) * slope
        self.square = second * self.square + (1 - second) * np.square(slope).sum(axis=1)
        mean, square = self.mean / (1 - first**self.steps), self.square / (1 - second**self.steps)
        return mean / np.maximum(np.sqrt(square + _FLOOR * square.mean()), _TINY)[:, None]


class _Epoch:
    """One pass over the rows in batches, in each of which the weights are the best ones for its rows."""

    def __init__(self, search, state, rate, moments):
        self.search, self.rate, self.moments = search, rate, moments
        self.Z, self.W, self.b = state.Z, state.W, state.b

    def run(self, rng, batch_size, epoch, epochs) -> _State:
        n = self.search.n
        batches = np.array_split(rng.permutation(n), -(-n // batch_size))
        for i, batch in enumerate(batches):
            done = (epoch + i / len(batches)) / epochs
            length = self.rate * self.search.unit * 0.5 * (1.0 + np.cos(np.pi * done))
            self.search.quickly(lambda batch=batch, length=length: self.step(np.sort(batch), length), batch_size)
        return self.search.settled(self.Z, self.W, self.b)

    def step(self, batch, length):
        part = self.search.part(batch)
        state = part.settled(self.Z, self.W, self.b, _ROUGH, 5)
        self.W, self.b = state.W, state.b
        self.Z = np.maximum(self.Z - length * self.moments.direction(part.slope(state)), part.low)

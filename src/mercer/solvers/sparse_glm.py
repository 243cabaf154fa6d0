r"""Kernel machines with an L1 penalty (M6): working sets, Newton's method on them, and a duality gap.

.. math:: \min_{w, b} \ell(K w + b) + \alpha \lVert w \rVert_1, \qquad
          \max_\theta\; -\ell^*(-\theta) \quad\text{with}\quad \lVert K \theta \rVert_\infty \le \alpha,\; \sum_i \theta_i = 0.

Slopes of the loss, scaled until they are feasible, are a dual point; its value bounds how far the primal is from the best one.
Only columns of the working set are held: those in use and those whose slope is largest. On them each step minimises a
quadratic model by coordinate descent and by Newton steps with the signs held (Lee, Battle, Raina & Ng 2007), which do not
mind that columns of a Gram are nearly dependent. Johnson & Guestrin (2015); Massias, Gramfort & Salmon (2018).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.gram import GivenGram
from mercer.gram.plan import require
from mercer.linalg import Status, safe_cholesky
from mercer.solvers.glm_losses import Loss, unbalanced
from mercer.solvers.rows import RowCache
from mercer.threads import one_thread_blas

__all__ = ["Columns", "SparseSolution", "l1_path", "largest_alpha", "minimise_quadratic", "solve_l1"]

_FIRST = 32  # variables of the first working set, for each output
_STEPS, _HALVINGS, _DECREASE = 30, 40, 1e-4  # Newton steps on a working set, and its line search
_ROUNDS, _SWEEPS, _EPOCHS = 2000, 4, 5  # of a quadratic: rounds, those of them with coordinate descent, epochs in each
_SHIFTS = 10  # tried until a matrix has a factor, each a hundred times the one before
_LARGE = 1500  # variables in use from which one factor takes a time that is noticed
_WORK = 2**26  # multiplications before compiled code looks up
_DAMPING = 1e-13  # of the largest curvature, added to all
_FORCING = 0.1  # part of a slope's violation that one Newton step may leave where more of them follow
_ROUNDING = 1e-14  # of the objective: smaller differences are not seen
_PATIENCE = 3  # working sets without progress
_PARTS = 6  # arrays of the size of the working set's columns that are there at a time


class Columns:
    """Columns of a symmetric Gram in float64, those that fit: `room` bytes hold copies of them and what is made of these."""

    def __init__(self, K, room: int):
        self.K, self.m, self.room = K, K.shape[0], room
        self._cache = None if isinstance(K, GivenGram) else RowCache(K, room // _PARTS)
        fitting = room // (_PARTS * 8 * self.m) if self._cache is None else self._cache.capacity
        self.most = int(np.clip(fitting, 0, self.m))

    def take(self, index) -> np.ndarray:
        """Columns, as rows (len(index), m): the Gram is symmetric."""
        if len(index) > self.most:
            self.refuse(len(index))
        if self._cache is None:
            return np.asarray(self.K.K[index], np.float64)
        return np.asarray(self._cache.buffer[self._cache.fetch(np.asarray(index), self.m)], np.float64)

    def refuse(self, n):
        """Say that n columns do not fit."""
        what = f"a sparse kernel machine with {n} columns of the Gram matrix of {self.m} rows"
        remedies = ["a larger alpha, which keeps fewer", 'a larger budget, memory="64GB"', "fewer rows"]
        require(_PARTS * 8 * n * self.m, self.room, what, remedies)

    def product(self, V) -> np.ndarray:
        """K @ V, tile by tile where the Gram is not held."""
        return np.asarray(self.K @ V, np.float64)

    def scores(self, W) -> np.ndarray:
        """K @ W of coefficients most of which are 0."""
        used = np.flatnonzero(W.any(axis=1))
        return self.take(used).T @ W[used] if len(used) else np.zeros((self.m, W.shape[1]))


@dataclass(frozen=True, eq=False)
class SparseSolution:
    """Coefficients (m, p), most of them 0, intercepts (p,), the value of the objective and how exact it is.

    certificate: duality gap relative to the objective, from scores computed anew. iterations: working sets.
    """

    coefficients: np.ndarray
    intercept: np.ndarray
    objective: float
    status: Status
    certificate: float
    iterations: int


def solve_l1(
    columns: Columns,
    loss: Loss,
    alpha: float,
    intercept: bool = True,
    *,
    start: SparseSolution | None = None,
    rtol: float = 1e-6,
    max_iter: int = 100,
    callback: Callable | None = None,
) -> SparseSolution:
    """Minimise loss(K w + b) + alpha |w|_1 to a duality gap of `rtol` of the value, from a solution for another alpha or 0."""
    # Many small factors, on which threads would wait for one another; weights of 1e99 overflow and are then not followed.
    with one_thread_blas(), np.errstate(all="ignore"):
        return _solve(_Problem(columns, loss, float(alpha), intercept), start, rtol, max_iter, callback)


def _solve(problem, start, rtol, max_iter, callback):
    point = problem.start(start)
    seen, size, stuck, status = None, 0, 0, Status.MAX_ITER
    for iteration in range(1, max_iter + 1):
        view = problem.certified(point)
        if callback is not None:
            callback(iteration, view.relative)
        if view.relative <= rtol:
            status = Status.CONVERGED
            break
        better = iteration == 1 or view.value < seen.value or view.gap < 0.9 * seen.gap
        stuck = 0 if better else stuck + 1
        if stuck >= _PATIENCE:
            if problem.wanted > problem.columns.most:
                problem.columns.refuse(problem.wanted)
            status = Status.STAGNATED
            break
        variables = problem.working_set(view, size)
        seen, size = view, len(variables)
        point = problem.improved(view, variables, max(0.1 * view.gap, 0.3 * rtol * view.scale))
    if status is Status.MAX_ITER:
        view = problem.certified(point)
        status = Status.CONVERGED if view.relative <= rtol else status
    return problem.solution(view, status, iteration)


def l1_path(columns, loss, alphas, intercept=True, **settings):
    """Solutions for alphas in decreasing order, each from the one before, one at a time."""
    found = None
    for alpha in alphas:
        found = solve_l1(columns, loss, alpha, intercept, start=found, **settings)
        yield found


def largest_alpha(columns: Columns, loss: Loss, intercept: bool = True) -> float:
    """The smallest alpha for which all coefficients are 0."""
    problem = _Problem(columns, loss, 1.0, intercept)
    return float(np.abs(columns.product(loss.slopes(problem.start(None).scores))).max())


# ------------------------------------------------------------------------------------------------ the problem
@dataclass(frozen=True, eq=False)
class _Point:
    """Coefficients (m, p), intercepts (p,), scores (m, p) with them, value of the objective."""

    W: np.ndarray
    b: np.ndarray
    scores: np.ndarray
    value: float


@dataclass(frozen=True, eq=False)
class _View(_Point):
    """A point whose duality gap is known; slopes (m, p) of all coefficients, scale: what the gap is compared with."""

    slopes: np.ndarray = field(default_factory=lambda: np.empty(0))
    gap: float = np.inf
    scale: float = 1.0

    @property
    def relative(self):
        return self.gap / self.scale


class _Problem:
    def __init__(self, columns, loss, alpha, intercept):
        self.columns, self.loss, self.alpha, self.intercept = columns, loss, alpha, intercept
        self.shape, self.wanted = (columns.m, loss.outputs), 0

    def start(self, found) -> _Point:
        if found is None:
            return self._at(np.zeros(self.shape), np.zeros(self.shape[1]), np.zeros(self.shape))
        return self._at(found.coefficients, found.intercept, self.columns.scores(found.coefficients))

    def _at(self, W, b, F) -> _Point:
        """The point with coefficients W, scores F without an intercept, and the best intercept, searched from b."""
        b = self.loss.intercept(F, b) if self.intercept else np.zeros(self.shape[1])
        return _Point(W, b, F + b, self._value(F + b, W))

    def _value(self, F, w):
        return self.loss.value(F) + self.alpha * float(np.abs(w).sum())

    def certified(self, point) -> _View:
        """The duality gap, from scores made anew."""
        fresh = self._at(point.W, point.b, self.columns.scores(point.W))
        R = self.residuals(fresh.scores)
        slopes = self.columns.product(R)
        gap, scale = self.gap(fresh, R, slopes)
        return _View(**vars(fresh), slopes=slopes, gap=gap, scale=scale)

    def residuals(self, F):
        """Slopes of the loss at scores with the best intercept."""
        R = self.loss.slopes(F)
        return self.loss.balanced(R) if self.intercept else R

    def gap(self, point, R, slopes):
        """Duality gap of a point with slopes R of the loss and `slopes` of its coefficients, and what to compare it with."""
        worst = float(np.abs(slopes).max(initial=0.0))
        theta = self.loss.share(R, self.alpha / worst if worst > 0 else np.inf) * R
        gap = max(point.value - self.loss.dual(theta), 0.0)
        gap += unbalanced(self.loss, theta, point.b) if self.intercept else 0.0
        return gap, max(abs(point.value), self.loss.rounding, np.finfo(float).tiny)

    def working_set(self, view, size):
        """Numbers of variables: those in use and those with the largest slopes, twice as many as are in use."""
        flat = np.abs(view.slopes).ravel()
        used = view.W.ravel() != 0
        count = max(_FIRST * self.shape[1], 2 * int(used.sum()), size)
        priority = np.where(used, np.inf, flat)
        chosen = np.argsort(-priority, kind="stable")[:count]
        return np.sort(self._within_room(chosen, int(used.sum())))

    def _within_room(self, chosen, used):
        """As many of the chosen variables as have columns that fit, and at least those in use."""
        rows, first = np.unique(chosen // self.shape[1], return_index=True)
        self.wanted = len(rows)
        if len(rows) <= self.columns.most:
            return chosen
        return chosen[: max(used, int(np.sort(first)[self.columns.most]), 1)]

    def improved(self, view, variables, goal) -> _Point:
        """The objective lowered over some variables, until their own duality gap is at most `goal`."""
        work = _WorkingSet(self, variables, view)
        for _ in range(_STEPS):
            if not work.step(goal):
                break
        W = np.zeros(self.shape)
        W.ravel()[variables] = work.w
        return _Point(W, work.intercept, work.F, work.value)

    def solution(self, view, status, iterations):
        return SparseSolution(view.W, view.b, view.value, status, view.relative, iterations)


class _WorkingSet:
    """Newton's method over some variables; columns have their weighted means taken off, which the intercept makes up for."""

    def __init__(self, problem, variables, view):
        self.problem, self.loss, self.alpha = problem, problem.loss, problem.alpha
        p = problem.shape[1]
        self.output = variables % p
        rows, self.place = np.unique(variables // p, return_inverse=True)
        self.Phi = problem.columns.take(rows)
        weight = self.loss.weight
        self.means = self.Phi @ weight / weight.sum() if problem.intercept else np.zeros(len(rows))
        self.Phi = self.Phi - self.means[:, None]
        self.w, self.b, self.F, self.value = view.W.ravel()[variables], view.b, view.scores, view.value
        self.H, self.first, self.gap, self.before = None, self.w, np.inf, np.inf

    @property
    def intercept(self):
        """Of the columns as they were."""
        return self.b - self.means @ self._spread(self.w - self.first)

    def scores(self, w):
        """Centred columns times coefficients (m, p)."""
        return self.Phi.T @ self._spread(w)

    def _spread(self, w):
        W = np.zeros((len(self.Phi), self.problem.shape[1]))
        np.add.at(W, (self.place, self.output), w)
        return W

    def step(self, goal) -> bool:
        """One Newton step; False when the gap over these variables is at most `goal`, or nothing helps any more."""
        R = self.problem.residuals(self.F)
        g = (self.Phi @ R)[self.place, self.output]
        gap, _ = self.problem.gap(self, R, g)
        if gap <= goal or (gap > 0.9 * self.gap and not self.value < self.before):
            return False
        self.gap, self.before = gap, self.value
        tol = np.clip(0.1 * goal / max(np.abs(self.w).sum(), 1e-300), 1e-12 * self.alpha, 1e-2 * self.alpha)
        if not hasattr(self.loss, "target"):  # a model that holds only near here need not be solved to the end
            tol = max(tol, _FORCING * _violation(g, self.w, self.alpha))
            self.H = self._hessian()
        elif self.H is None:  # the curvature of squares stays
            self.H = self._hessian()
        new = minimise_quadratic(self.H, g, self.w, self.alpha, tol)
        return self._search(new - self.w, g)

    def _hessian(self):
        """Curvature of the loss over the variables, the intercept being always the best one."""
        D, n = self.loss.curvature(self.F), len(self.w)
        p = D.shape[0]
        H, border = np.empty((n, n)), np.empty((n, p))
        sets = [np.flatnonzero(self.output == c) for c in range(p)]
        for c in range(p):
            mine = self.Phi[self.place[sets[c]]]
            for d in range(p):
                bent = mine * D[c, d]
                border[sets[c], d] = bent.sum(axis=1)
                if d >= c:
                    H[np.ix_(sets[c], sets[d])] = _by_parts(bent, self.Phi[self.place[sets[d]]])
                    H[np.ix_(sets[d], sets[c])] = H[np.ix_(sets[c], sets[d])].T
        if self.problem.intercept:
            H -= border @ np.linalg.pinv(D.sum(axis=2), rcond=1e-12, hermitian=True) @ border.T
        H[np.diag_indices(n)] += _DAMPING * max(float(np.diagonal(H).max()), 1e-300)
        return H

    def _search(self, d, g):
        """Go along d until the objective falls by a part of what the model promises."""
        promise = float(self.alpha * (np.abs(self.w + d) - np.abs(self.w)).sum() - g @ d)
        if not promise < 0.0:
            return False
        length, change = 1.0, self.scores(d)
        F = self.F - self.b if self.problem.intercept else self.F
        for _ in range(_HALVINGS):
            w = self.w + length * d
            point = self.problem._at(w, self.b, F + length * change)
            if point.value <= self.value + _DECREASE * length * promise + _ROUNDING * abs(self.value):
                self.w, self.b, self.F, self.value = point.W, point.b, point.scores, point.value
                return True
            length /= 2
        return False


# ------------------------------------------------------------------------------------------------ the quadratic
def minimise_quadratic(H, g, start, alpha, tol) -> np.ndarray:
    """Minimise -g^T d + d^T H d / 2 + alpha |start + d|_1 until no slope violates its condition by more than tol. Returns w."""
    from mercer.solvers import _compiled_sparse_glm

    w = start.copy()
    epochs = int(np.clip(_WORK // max(len(w) ** 2, 1), 1, _EPOCHS))
    reached = np.inf
    for turn in range(_ROUNDS):
        r, value = g - H @ (w - start), _model(H, g, start, alpha, w)
        if _violation(r, w, alpha) <= tol or (turn > _SWEEPS and not value < reached):
            break
        reached = value
        if turn < _SWEEPS:
            _compiled_sparse_glm.descend(H, r, w, alpha, epochs, tol)
        else:  # sweeps bring back what Newton steps have put out: one variable at a time now
            _enter(H, r, w, alpha, tol)
        newton = _newton_step(H, g - H @ (w - start), w, alpha)
        w = min((w, *newton), key=lambda v: _model(H, g, start, alpha, v))
    return w if np.isfinite(w).all() else start


def _enter(H, r, w, alpha, tol):
    """Once the slopes of the variables in use are right, let in the one whose slope is worst."""
    if _violation(r[w != 0], w[w != 0], alpha) > tol:
        return
    j = int(np.where(w == 0, np.abs(r), 0.0).argmax())
    w[j] = np.sign(r[j]) * max(abs(r[j]) - alpha, 0.0) / H[j, j]


def _violation(r, w, alpha):
    return float(np.where(w != 0, np.abs(r - alpha * np.sign(w)), np.maximum(np.abs(r) - alpha, 0.0)).max(initial=0.0))


def _model(H, g, start, alpha, w):
    d = w - start
    return float((0.5 * (H @ d) - g) @ d + alpha * (np.abs(w) - np.abs(start)).sum())


def _newton_step(H, r, w, alpha):
    """Points that the best answer with these signs leads to: with the flipped ones at 0, and where the first one is 0."""
    used = np.flatnonzero(w)
    if not len(used):
        return ()
    signs = np.sign(w[used])
    d = _solved(H[np.ix_(used, used)], r[used] - alpha * signs)
    whole = w.copy()
    whole[used] += d
    flipped = used[np.sign(whole[used]) != signs]
    whole[flipped] = 0.0
    if not len(flipped):
        return (whole,)
    ratio = np.where(np.isin(used, flipped), -w[used] / np.where(d == 0, 1.0, d), np.inf)
    first = int(ratio.argmin())
    near = w.copy()
    near[used] += ratio[first] * d
    near[used[first]] = 0.0
    return whole, near


def _by_parts(A, B):
    """A @ B.T in pieces that are short enough for Ctrl-C."""
    step, product = max(1, 4 * _WORK // max(B.size, 1)), np.empty((len(A), len(B)))
    for i in range(0, len(A), step):
        np.matmul(A[i : i + step], B.T, out=product[i : i + step])
    return product


def _solved(H, right):
    """H^-1 right, of a matrix that may be singular but for rounding: the answer is a direction of descent all the same."""
    if len(H) > _LARGE:  # a factor that Ctrl-C can interrupt
        return safe_cholesky(np.array(H), overwrite=True, warn=False, block=512).solve(right[:, None])[:, 0]
    shift = 0.0
    for _ in range(_SHIFTS):
        try:
            return cho_solve(
                cho_factor(H + shift * np.eye(len(H)), lower=True, check_finite=False), right, check_finite=False
            )
        except LinAlgError:
            shift = max(100 * shift, _DAMPING * float(np.abs(np.diagonal(H)).max()), 1e-300)
    return np.zeros_like(right)

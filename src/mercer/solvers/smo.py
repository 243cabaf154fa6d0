r"""The dual of every support vector machine, by block SMO.

.. math:: \min_\beta \tfrac12 \beta^T K \beta + \langle c, \beta\rangle + \epsilon \lVert\beta\rVert_1, \quad
          l \le \beta \le u, \quad \textstyle\sum \beta = s

with l <= 0 <= u, beta_i the signed dual variable y_i a_i (of regression: a_i - a_i^*). The nu-machines fix the sums of the
positive and of the negative beta each. A working block of the worst violators is solved pair by pair on its own small Gram
matrix; then the gradient of all variables follows from the rows of those that changed. Variables that stay at a border are
left out while the rest is solved.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.linalg import Status
from mercer.solvers.rows import RowCache
from mercer.threads import map_tiles, stopping

__all__ = ["DualProblem", "DualSolution", "Progress", "certified", "duality_gap", "largest_slopes", "solve_dual"]

_BLOCK = 2048
_WHOLE = 2048  # up to here all variables are one block
_INNER = 0.1  # a block is solved to this part of the violation found
_SHRINK_EVERY = 16
_SHRINK_LEAST = 0.2  # of the variables in play, else permuting is not worth while
_BESIDE = 1e-10  # of the largest variable: nearer to a border than this is on it
_TINY = 1e-12  # curvature of a pair whose kernel rows are equal, or whose kernel is not PSD
_CORRECTIONS = 5
_PATIENCE = 30  # blocks without progress


@dataclass(frozen=True)
class DualProblem:
    """linear, lower, upper, start (n,); kink: epsilon; parts: 2 if positive and negative sums are fixed each, else 1."""

    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kink: float = 0.0
    parts: int = 1
    start: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class DualSolution:
    """Signed dual variables and what is known about them.

    thresholds: the numbers that the gradient is compared with, of positive and of negative variables.
    violation: largest difference of slopes between a pair; gap: duality gap; both from a gradient recomputed from scratch.
    objective: value of the dual. values: K beta.
    """

    beta: np.ndarray
    thresholds: tuple[float, float]
    status: Status
    violation: float
    gap: float
    objective: float
    iterations: int
    values: np.ndarray


@dataclass
class Progress:
    """What a callback sees; it may return True to stop."""

    iterations: int
    violation: float
    active: int
    seconds: float


def solve_dual(K, problem: DualProblem, *, tol=1e-3, max_iter=None, time_limit=None, memory=2 * 10**8, shrinking=True,
               callback: Callable[[Progress], object] | None = None) -> DualSolution:  # fmt: skip
    """Solve the dual on a Gram (lazy or given) until no pair of slopes differs by more than `tol`.

    K may be a `RowCache` that an earlier problem on the same Gram has filled; else one of `memory` bytes is made.
    """
    cache = K if isinstance(K, RowCache) else RowCache(K, memory)
    return _BlockSMO(cache, problem, tol, max_iter, time_limit, shrinking, callback).run()


class _BlockSMO:
    def __init__(self, cache, problem, tol, max_iter, time_limit, shrinking, callback):
        n = len(problem.linear)
        self.problem, self.n, self.tol, self.shrinking, self.callback = problem, n, float(tol), shrinking, callback
        self.max_iter = max(10_000_000, 100 * n) if max_iter is None else int(max_iter)
        self.deadline = np.inf if time_limit is None else time.monotonic() + time_limit
        self.block_size = n if n <= _WHOLE else _BLOCK
        self.cache, order = cache, cache.order
        self.order = order.copy()
        self.beta = np.zeros(n) if problem.start is None else problem.start[order].astype(np.float64)
        self.linear, self.lower, self.upper = problem.linear[order], problem.lower[order], problem.upper[order]
        self.active, self.iterations, self.rounds = n, 0, 0
        self.block, self.block_gram = np.empty(0, dtype=np.intp), np.empty((0, 0), cache.buffer.dtype)
        self.spare: list[np.ndarray] = []
        self.whole = n <= _WHOLE
        if self.whole:
            self.block, self.block_gram = np.arange(n), cache.whole()
        self.started = time.monotonic()

    # ------------------------------------------------------------------------------------ the loop
    def run(self) -> DualSolution:
        self.g = self._gradient()
        corrections, best = 0, np.inf
        while True:
            status = self._iterate()
            self._restore()
            violation = self._violation()[0]
            # The gradient was updated step by step: what is claimed is checked on one that was not.
            stuck = not violation < 0.5 * best
            best = min(best, violation)
            if status is Status.MAX_ITER or violation <= self.tol or stuck or corrections == _CORRECTIONS:
                break
            corrections += 1
        if status is not Status.MAX_ITER:
            status = Status.CONVERGED if violation <= 1.5 * self.tol else Status.STAGNATED
        return self._solution(status, violation)

    def _iterate(self):
        """Blocks until the variables in play agree, a limit is reached, or rounding undoes what blocks gain."""
        stalled, least, lowest = 0, np.inf, np.inf
        while True:
            violation, up, down, low, high = self._violation()
            if violation <= self.tol:
                return Status.CONVERGED
            if self._told_to_stop(violation):
                return Status.MAX_ITER
            objective = self._objective()
            gained = objective < lowest - 1e-14 * abs(lowest) or violation < 0.98 * least or not np.isfinite(lowest)
            stalled = 0 if gained else stalled + 1
            if stalled > _PATIENCE:
                return Status.STAGNATED
            least, lowest = min(least, violation), min(lowest, objective)
            if (
                self.shrinking
                and self.rounds % _SHRINK_EVERY == _SHRINK_EVERY - 1
                and self._shrink(up, down, low, high)
            ):
                continue
            self._solve_one_block(violation, up, down, low, high)
            self.rounds += 1

    def _objective(self):
        """Value of the dual in the variables in play, from the gradient as it is."""
        beta, n = self.beta[: self.active], self.active
        # A sum, not a BLAS product: a second pool of threads would wake up for it.
        return float(0.5 * (beta * (self.g[:n] + self.linear[:n])).sum() + self.problem.kink * np.abs(beta).sum())

    def _told_to_stop(self, violation):
        if stopping():
            return True
        now = time.monotonic()
        if self.callback is not None and self.callback(
            Progress(self.iterations, violation, self.active, now - self.started)
        ):
            return True
        return self.iterations >= self.max_iter or now + self._closing_seconds() > self.deadline

    def _closing_seconds(self):
        """What the gradient from scratch will take, on which the certificate rests."""
        if self.whole or self.deadline == np.inf:
            return 0.0
        inside = np.flatnonzero(self.beta)
        return self.cache.pace * self.n * int((~self.cache.known(inside, self.n)).sum())

    def _violation(self):
        """Those of `largest_slopes` of the variables in play."""
        return _slopes(self.g, self.beta, self.lower, self.upper, self.problem.kink, self.problem.parts, self.active)

    def _solve_one_block(self, violation, up, down, low, high):
        from mercer.solvers import _compiled

        W = self._choose(up, down, low, high)
        gram = self._block_gram(W)
        middle = 0.5 * float(low[np.isfinite(low)].max() + high[np.isfinite(high)].min())
        f, beta = (self.g[W] - middle).astype(gram.dtype), self.beta[W]
        limit = min((2 if self.whole else 10) * len(W), self.max_iter - self.iterations)
        # Where no other block waits there is nothing to gain from stopping early.
        tol = 0.5 * self.tol if self.whole else max(_INNER * violation, 0.5 * self.tol)
        tiny = _TINY * max(float(np.abs(np.diagonal(gram)).max()), np.finfo(gram.dtype).tiny)
        steps = _compiled.solve_block(gram, beta, f, self.lower[W], self.upper[W], self.problem.kink, self.problem.parts, tol,
                                      tiny, limit)  # fmt: skip
        self._move(W, beta - self.beta[W], beta)
        self.iterations += steps

    def _move(self, W, change, beta):
        """Take the new values of a block; the gradient follows by the rows of what changed."""
        moved, n = np.flatnonzero(change), self.active
        if self.whole:
            self._add_rows(self.g, self.block_gram, moved, change[moved])
        elif len(moved) <= self.cache.capacity:
            slots = self.cache.fetch(W[moved], n)
            self._add_rows(self.g[:n], self.cache.buffer, slots, change[moved])
        else:
            self.g[:n] += self.cache.source.matvec(slice(0, n), W[moved], change[moved])
        self.beta[W] = beta

    @staticmethod
    def _add_rows(target, rows, slots, coefficients):
        from mercer.solvers import _compiled

        step, n = 8192, len(target)

        def job(i):
            _compiled.add_rows(target, rows, slots, coefficients, i * step, min((i + 1) * step, n))

        if n <= step:
            job(0)
        else:
            map_tiles(job, -(-n // step))

    # ------------------------------------------------------------------------------------ working blocks
    def _choose(self, up, down, low, high):
        """The worst violators, and after them half of the last block, its newest variables."""
        if self.whole:
            return self.block
        if self.active <= self.block_size:
            return np.arange(self.active)
        kept = self.block[: self.block_size // 2]
        wanted = (self.block_size - len(kept)) // (2 * len(up))
        taken = np.zeros(self.active, dtype=bool)
        taken[kept] = True
        chosen = []
        for part in range(len(up)):
            for slope, worst in ((up[part], high[part]), (-down[part], -low[part])):
                candidates = np.flatnonzero((slope < worst) & ~taken)
                if len(candidates) > wanted:
                    candidates = candidates[np.argpartition(slope[candidates], wanted)[:wanted]]
                taken[candidates] = True
                chosen.append(candidates)
        return np.concatenate([*chosen, kept])

    def _block_gram(self, W):
        """Gram of the block; what the last one shares with it is copied."""
        from mercer.engines import _compiled

        if self.whole:
            return self.block_gram
        kept = min(self.block_size // 2, len(self.block)) if self.active > self.block_size else 0
        q, new = len(W), len(W) - kept
        gram = self._other_memory(q)
        gram[new:, new:] = self.block_gram[:kept, :kept]
        self.cache.gather(W[:new] if kept else W, W, gram[:new])
        _compiled.mirror_tile(gram, 0, new, new, q)
        self.block, self.block_gram = W, gram
        return gram

    def _other_memory(self, q):
        """A matrix that is not the last one's, in memory that was used before: fresh pages cost time."""
        if not self.spare or self.spare[0].size < q * q:
            self.spare = [np.empty(q * q, self.block_gram.dtype) for _ in range(2)]
        self.spare.reverse()
        return self.spare[0][: q * q].reshape(q, q)

    # ------------------------------------------------------------------------------------ shrinking
    def _shrink(self, up, down, low, high):
        """Leave out variables at a border whose slope says that they stay there. True if that was worth while."""
        idle = ((up > high[:, None]) & (down < low[:, None])).all(axis=0)
        if idle.sum() < max(_SHRINK_LEAST * self.active, self.block_size):
            return False
        order = np.concatenate([np.flatnonzero(~idle), np.flatnonzero(idle), np.arange(self.active, self.n)])
        self._permute(order)
        self.active = int((~idle).sum())
        return True

    def _permute(self, order):
        self.cache.permute(order)
        for name in ("beta", "g", "linear", "lower", "upper", "order"):
            setattr(self, name, getattr(self, name)[order])
        self.block = np.empty(0, dtype=np.intp)

    def _restore(self):
        """All variables in play again, with a gradient made from scratch."""
        self.g = self._gradient()
        self.active = self.n

    def _gradient(self):
        """K beta + c from the rows that are there and the engine for the others."""
        g = self.linear.copy()
        inside = np.flatnonzero(self.beta)
        if self.whole:
            self._add_rows(g, self.block_gram, inside, self.beta[inside])
            return g
        known = self.cache.known(inside, self.n)
        there, rest = inside[known], inside[~known]
        if len(there):
            self._add_rows(g, self.cache.buffer, self.cache.slot[there], self.beta[there])
        if len(rest):
            g += self.cache.source.matvec(slice(0, self.n), rest, self.beta[rest])
        return g

    # ------------------------------------------------------------------------------------ the answer
    def _solution(self, status, violation):
        back = np.empty(self.n, dtype=np.intp)
        back[self.order] = np.arange(self.n)
        return certified(self.problem, self.beta[back], self.g[back], status, self.iterations, violation)


def largest_slopes(problem: DualProblem, beta, g):
    """Largest violation, slopes up and down, and for each part its smallest slope up and largest down."""
    return _slopes(g, beta, problem.lower, problem.upper, problem.kink, problem.parts, len(beta))


def _slopes(g, beta, lower, upper, kink, parts, n):
    from mercer.solvers import _compiled

    up, down = np.empty((parts, n)), np.empty((parts, n))
    _compiled.slopes(g, beta, lower, upper, kink, parts, n, up, down)
    low, high = up.min(axis=1), down.max(axis=1)
    return float((high - low).max()), up, down, low, high


def certified(problem: DualProblem, beta, g, status, iterations, violation=None) -> DualSolution:
    """What is known of some variables from a gradient g = K beta + c that was made from scratch."""
    thresholds = _thresholds(problem, beta, g)
    violation = largest_slopes(problem, beta, g)[0] if violation is None else violation
    objective = float(0.5 * beta @ (g + problem.linear) + problem.kink * np.abs(beta).sum())
    gap = duality_gap(problem, beta, g, thresholds)
    return DualSolution(beta, thresholds, status, violation, gap, objective, iterations, g - problem.linear)


def _thresholds(problem, beta, g):
    """Where the slopes of free variables meet, for positive and negative variables; between the borders if none is free.

    A variable that rounding left beside its border counts as being there, else it alone would say what is not determined.
    """
    near = _BESIDE * np.abs(beta).max(initial=0.0)
    for border in (problem.upper, problem.lower, np.zeros(len(beta))):
        beta = np.where(np.abs(beta - border) <= near, border, beta)
    _, _, _, low, high = largest_slopes(problem, beta, g)
    free = (beta > problem.lower) & (beta < problem.upper) & (beta != 0)
    if problem.parts == 1:
        slope = g + np.sign(beta) * problem.kink
        value = float(slope[free].mean()) if free.any() else _between(low[0], high[0])
        return value, value
    groups = (free & (beta > 0), free & (beta < 0))
    above, below = (
        float(g[f].mean()) if f.any() else _between(*ends) for f, *ends in zip(groups, low, high, strict=True)
    )
    return above, below


def _between(low, high):
    ends = [v for v in (low, high) if np.isfinite(v)]
    return float(np.mean(ends)) if ends else 0.0


def duality_gap(problem: DualProblem, beta, g, thresholds) -> float:
    """How far the dual value can be from the best one, from the gradient g = K beta + c and any thresholds: a sum of terms
    that are 0 where a variable is where its slope wants it."""
    above, below = thresholds
    if problem.parts == 1:
        above, below = above - problem.kink, below + problem.kink
    positive, negative = np.maximum(beta, 0.0), np.maximum(-beta, 0.0)
    a, b = above - g, g - below  # gain of a positive, of a negative variable
    terms = problem.upper * np.maximum(a, 0.0) - positive * a - problem.lower * np.maximum(b, 0.0) - negative * b
    return float(terms.sum())

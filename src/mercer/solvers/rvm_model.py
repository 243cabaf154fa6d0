"""A sparse Bayesian model at fixed curvature: what each basis function would gain, and the best precisions of a fixed set.

Tipping & Faul (2003), Fast marginal likelihood maximisation for sparse Bayesian models.
"""

from dataclasses import dataclass, field

import numpy as np

from mercer.linalg import Status, safe_cholesky
from mercer.linalg.inplace import invert_triangle
from mercer.threads import map_tiles, stopping

__all__ = ["Model", "Moments", "RVMSolution", "alone", "best_precisions", "posterior"]

NOTHING = 1e-2  # of the gain that is worth a step: a basis function that adds less is left out
FLAT = 1e-12  # of the logarithm of the evidence: gains that are rounding
_COLLINEAR = 1e-9  # of a basis function's squared norm: less of it outside the model's span is rounding
_LARGEST = 1e12  # precision beyond which a basis function of unit norm counts for nothing
_THREADED = 48  # rows of a matrix that BLAS factorises with threads


@dataclass(frozen=True)
class RVMSolution:
    """Answer of `solve_rvm` and `solve_rvm_classes`, in the units of the design and of the targets.

    active: numbers (a,) of the basis functions of the model. value, covariance: mean (a,) and covariance (a, a) of their weights.
    alphas: precisions (a,) of their priors. noise: variance of the noise, 0 for classes.
    evidence: logarithm of the evidence (for classes Laplace's approximation), recomputed from scratch.
    certificate: the most that any one step could still add to it; of classes, a step that was tried and added nothing does not
    count. floored: whether the noise is held at its least value.
    iterations: steps, and turns of Newton's method.
    """

    active: np.ndarray
    value: np.ndarray
    covariance: np.ndarray
    alphas: np.ndarray
    noise: float
    evidence: float
    status: Status
    certificate: float
    iterations: int
    floored: bool = False
    trace: list = field(default_factory=list)


class Model:
    """Least squares with weights b on the rows, and the factors S, Q of all basis functions, kept up to date.

    S_m = phi_m' C^-1 phi_m and Q_m = phi_m' C^-1 z, with C = B^-1 + Phi A^-1 Phi' over the active basis functions.
    cross: inner products (a, M), with weights b, of the active basis functions with all. pull: Phi' B z (M,).
    weights: b, or None where all are equal to `factor`.
    """

    weights: np.ndarray | None = None

    def __init__(self, design, active=(), alpha=()):
        self.design = design
        self.active = np.array(active, dtype=np.intp)
        self.alpha = np.array(alpha, dtype=np.float64)
        self.mu = np.zeros(len(self.active))

    def set_curvature(self, square, pull, cross, factor=1.0):
        self.square, self.pull, self.cross, self.factor = square, pull, cross, factor
        self.refresh()

    def scale_curvature(self, factor):
        """Another noise: all inner products times a factor."""
        ratio = factor / self.factor
        self.set_curvature(self.square * ratio, self.pull * ratio, self.cross * ratio, factor)

    def refresh(self):
        """Sigma, mu, S and Q from scratch."""
        a = self.active
        P = self.cross[:, a]
        self.sigma, root, self.logdet = alone(lambda: posterior(P, self.alpha), len(a))
        self.mu = self.sigma @ self.pull[a]
        for _ in range(2):  # the inverse alone loses the digits in which near basis functions differ
            self.mu += self.sigma @ (self.pull[a] - P @ self.mu - self.alpha * self.mu)
        half = root @ self.cross  # L^-1 Phi_a' B Phi
        self.S = self.square - np.einsum("am,am->m", half, half)
        self.Q = self.pull - self.mu @ self.cross
        self._fix()

    def _fix(self):
        """Of active basis functions S and Q follow from Sigma and mu without cancellation."""
        a, alpha = self.active, self.alpha
        self.S[a] = alpha - alpha**2 * self.sigma.diagonal()
        self.Q[a] = alpha * self.mu

    def best(self):
        """Best precision of each basis function, all else as it is (inf: better left out), and the gain of setting it."""
        from mercer.solvers._compiled_rvm import best_alone

        a, spread = self.active, self.sigma.diagonal()
        s, q = self.S.copy(), self.Q.copy()
        s[a], q[a] = np.maximum(1.0 / spread - self.alpha, 0.0), self.mu / spread
        wanted, gains = np.empty(len(s)), np.empty(len(s))
        best_alone(s, q, self.square, self.design.usable, _COLLINEAR, _LARGEST, wanted, gains)
        gains[a] -= _share(self.alpha, s[a], q[a])
        return wanted, gains

    def take(self, j, alpha):
        """Set the precision of basis function j: add it, change it, or leave it out (alpha=inf)."""
        at = np.flatnonzero(self.active == j)
        if not len(at):
            return self._add(j, alpha)
        i = int(at[0])
        column = self.sigma[:, i].copy()
        spread = column[i]
        kappa = 1.0 / spread if np.isinf(alpha) else 1.0 / (spread + 1.0 / (alpha - self.alpha[i]))
        moved = column @ self.cross
        self.Q += (kappa * self.mu[i]) * moved
        self.S += kappa * np.square(moved, out=moved)
        self.mu = self.mu - kappa * self.mu[i] * column
        self.sigma -= np.multiply.outer(kappa * column, column)
        if np.isinf(alpha):
            self._drop(i)
        else:
            self.alpha[i] = alpha
        return self._fix()

    def _add(self, j, alpha):
        row = self._cross_of(j)
        u = self.sigma @ row[self.active]
        spread = 1.0 / (alpha + self.S[j])
        mean = spread * self.Q[j]
        moved = row - u @ self.cross
        self.Q -= mean * moved
        self.S -= spread * np.square(moved, out=moved)
        a = len(u)
        sigma = np.empty((a + 1, a + 1))
        sigma[:a, :a] = self.sigma + np.multiply.outer(spread * u, u)
        sigma[:a, a] = sigma[a, :a] = -spread * u
        sigma[a, a] = spread
        self.sigma, self.mu = sigma, np.append(self.mu - mean * u, mean)
        self.active, self.alpha = np.append(self.active, j), np.append(self.alpha, alpha)
        self.cross = _appended(self.cross, row)
        self._fix()

    def _cross_of(self, j):
        if self.weights is None:
            return self.design.cross(j) * self.factor
        return self.design.products((self.design.functions([j]) * self.weights).T)[:, 0]

    def _drop(self, i):
        """The last takes the place of the one that leaves, so that `cross` stays where it is."""
        for name in ("active", "alpha", "mu", "cross"):
            rows = getattr(self, name)
            rows[i] = rows[-1]
            setattr(self, name, rows[:-1])
        self.sigma[i] = self.sigma[-1]
        self.sigma[:, i] = self.sigma[:, -1]
        self.sigma = self.sigma[:-1, :-1]

    def keep(self, kept, alpha):
        """Only some of the active basis functions, by their place, with other precisions; `refresh` is up to the caller."""
        if len(kept) < len(self.active):
            self.active, self.cross = self.active[kept], self.cross[kept]
        self.alpha = alpha


def _appended(rows, row):
    """Rows with one more, in place while the buffer behind them has room."""
    a, m = rows.shape
    base = rows.base
    if base is None or base.ndim != 2 or base.shape[1] != m or len(base) <= a or rows.ctypes.data != base.ctypes.data:
        base = np.empty((max(16, 2 * a), m))
        base[:a] = rows
    base[a] = row
    return base[: a + 1]


def _share(alpha, s, q):
    """What a basis function of this precision adds to the logarithm of the evidence: Tipping & Faul (2003), eq. 18."""
    return 0.5 * (np.log(alpha) - np.log(alpha + s) + q**2 / (alpha + s))


def posterior(P, alpha):
    """(P + A)^-1, the inverse of the factor of P + A, and its log determinant."""
    a = len(alpha)
    if not a:
        return np.zeros((0, 0)), np.zeros((0, 0)), 0.0
    H = P + np.diag(alpha)
    d = 1.0 / np.sqrt(H.diagonal())  # precisions differ by many orders of magnitude
    H *= d[:, None] * d
    H = 0.5 * (H + H.T)
    try:
        L = np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        L = np.tril(safe_cholesky(H, warn=False).array)
    logdet = 2.0 * (np.log(L.diagonal()).sum() - np.log(d).sum())
    invert_triangle(L)
    L *= d
    return L.T @ L, L, logdet


def alone(f, size):
    """f(), by one worker where BLAS would start threads: they are slow on matrices of this size."""
    return f() if size < _THREADED else map_tiles(lambda _: f(), 1)[0]


# ------------------------------------------------------------------------------------------------ precisions of a fixed model
@dataclass(frozen=True)
class _Point:
    """Evidence at some precisions up to a constant, its slope and curvature in their logs, and whom to leave out, if any."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    superfluous: int | None


@dataclass(frozen=True)
class Moments:
    """What the evidence of a fixed set of basis functions depends on: P = Phi'B Phi, v = Phi'Bz and zz = z'Bz."""

    P: np.ndarray
    v: np.ndarray
    zz: float
    n: int
    least: float = 0.0  # what a basis function must add to the evidence

    def without(self, i):
        keep = np.arange(len(self.v)) != i
        return Moments(self.P[np.ix_(keep, keep)], self.v[keep], self.zz, self.n, self.least)

    def at(self, logs, free_noise, beta) -> _Point:
        """In the logs of the precisions (and of the noise precision where that is free)."""
        alpha = np.exp(logs[: len(self.v)])
        beta = np.exp(logs[-1]) if free_noise else beta
        sigma, _, logdet = posterior(beta * self.P, alpha)
        mu = beta * (sigma @ self.v)
        residual = self.zz - 2 * mu @ self.v + mu @ self.P @ mu
        residual = max(residual, 0.0) if free_noise else residual  # of classes it is known up to a constant
        fit = beta * residual + alpha @ mu**2
        value = 0.5 * (np.log(alpha).sum() - logdet + (self.n * np.log(beta) if free_noise else 0.0) - fit)
        gradient, hessian = self._slopes(alpha, sigma, mu)
        if free_noise:
            gradient, hessian = self._with_noise(alpha, sigma, mu, beta * residual, gradient, hessian)
        return _Point(value, gradient, hessian, _superfluous(alpha, sigma.diagonal(), mu, self.least))

    def _slopes(self, alpha, sigma, mu):
        pull = alpha * (sigma.diagonal() + mu**2)
        hessian = np.multiply.outer(alpha, alpha) * (0.5 * sigma**2 + np.multiply.outer(mu, mu) * sigma)
        hessian[np.diag_indices(len(mu))] -= 0.5 * pull
        return 0.5 * (1.0 - pull), hessian

    def _with_noise(self, alpha, sigma, mu, misfit, gradient, hessian):
        a = len(mu)
        moved = sigma @ (alpha * mu)
        squares = sigma**2 @ alpha  # of Sigma A Sigma the diagonal
        determined = a - alpha @ sigma.diagonal()
        cross = -0.5 * alpha * (2 * mu * moved - sigma.diagonal() + squares)
        corner = -0.5 * (misfit - 2 * (alpha * mu) @ moved + alpha @ (sigma.diagonal() - squares))
        full = np.empty((a + 1, a + 1))
        full[:a, :a], full[a, :a], full[:a, a], full[a, a] = hessian, cross, cross, corner
        return np.append(gradient, 0.5 * (self.n - misfit - determined)), full


def _superfluous(alpha, spread, mu, least):
    """The basis function, if any, that adds least to the evidence at its best precision, and not more than `least`."""
    if not len(alpha):
        return None
    s, q = np.maximum(1.0 / spread - alpha, 1e-300), mu / spread
    ratio = np.maximum(q**2 / s, 1.0)
    shares = np.where(ratio > 1.0, 0.5 * (ratio - 1.0 - np.log(ratio)), np.minimum(_share(alpha, s, q), 0.0))
    worst = int(np.argmin(shares))
    return worst if shares[worst] <= least else None


def best_precisions(moments, alpha, beta, free_noise, highest, tol, max_iter=50):
    """Newton's method, damped, for the precisions of a fixed set of basis functions: (those that stay, alpha, beta).

    Basis functions whose best precision is infinite, or that add next to nothing, leave one by one.
    """
    return alone(lambda: _Newton(moments, alpha, beta, free_noise, highest).solve(tol, max_iter), len(alpha))


class _Newton:
    def __init__(self, moments, alpha, beta, free_noise, highest):
        self.moments, self.beta, self.free_noise = moments, beta, free_noise
        self.kept = np.arange(len(alpha))
        self.logs, self.top = np.log(alpha), np.full(len(alpha), np.log(_LARGEST * highest))
        if free_noise:
            self.logs, self.top = np.append(self.logs, np.log(beta)), np.append(self.top, np.log(highest))
        self.damping = 0.0

    def solve(self, tol, max_iter):
        self.point = self._at(self.logs)
        for _ in range(max_iter):
            self._leave_out()
            if stopping() or not len(self.kept) or self._ends(tol):
                break
        self._leave_out()
        alpha = np.exp(self.logs[: len(self.kept)])
        return self.kept, alpha, float(np.exp(self.logs[-1])) if self.free_noise else self.beta

    def _at(self, logs):
        return self.moments.at(logs, self.free_noise, self.beta)

    def _leave_out(self):
        while (i := self.point.superfluous) is not None:
            self.moments = self.moments.without(i)
            self.kept, self.logs, self.top = (np.delete(v, i) for v in (self.kept, self.logs, self.top))
            self.point = self._at(self.logs)

    def _ends(self, tol):
        """One step, if there is one to make."""
        gradient = self.point.gradient
        free = np.flatnonzero((self.logs < self.top) | (gradient <= 0))
        if not len(free) or np.abs(gradient[free]).max() <= tol:
            return True
        new = np.minimum(self.logs + self._step(free), self.top)
        if np.abs(new - self.logs).max() <= 1e-14:
            return True
        tried = self._at(new)
        if tried.value < self.point.value - 1e-12 * abs(self.point.value):
            self.damping = max(10 * self.damping, 1e-3)
        else:
            self.point, self.logs = tried, new
            self.damping = self.damping / 10 if self.damping > 1e-8 else 0.0
        return self.damping > 1e12

    def _step(self, free):
        M = -self.point.hessian[np.ix_(free, free)]
        while self.damping <= 1e12:
            damped = M + self.damping * np.eye(len(free))
            try:
                np.linalg.cholesky(damped)
                break
            except np.linalg.LinAlgError:
                self.damping = max(10 * self.damping, 1e-3)
        step = np.zeros(len(self.logs))
        if self.damping <= 1e12:
            step[free] = np.linalg.solve(damped, self.point.gradient[free])
        return step * min(1.0, 3.0 / max(np.abs(step).max(), 1e-300))

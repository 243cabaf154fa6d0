"""Relevance vector machines: sparse Bayesian learning by sequential steps that raise the evidence most.

A basis function takes part with a weight of prior N(0, 1 / alpha). Tipping & Faul (2003), Fast marginal likelihood
maximisation for sparse Bayesian models; Tipping (2001), Sparse Bayesian learning and the relevance vector machine.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, log_expit

from mercer.errors import NanError
from mercer.linalg import Status, safe_cholesky
from mercer.threads import map_tiles, stopping

__all__ = [
    "Design",
    "RVMSolution",
    "basis_gradient",
    "best_precisions",
    "class_gradient",
    "class_mode",
    "log_evidence",
    "precision_gradient",
    "solve_rvm",
    "solve_rvm_classes",
]

FLOOR = 1e-8  # of the mean square of the targets: the smallest noise variance
_COLLINEAR = 1e-9  # of a basis function's squared norm: less of it outside the model's span is rounding
_LARGEST = 1e12  # precision beyond which a basis function of unit norm counts for nothing
_COARSE = 1e-3  # gain below which steps wait until the precisions of the model are best
_ROWS, _SERIAL = 128, 2**18  # basis functions a job, entries that one thread passes over at once
_THREADED = 48  # rows of a matrix that BLAS factorises with threads
_AGAIN, _BACKWARD = 4001, 301  # basis functions, constant included, up to which there is a second and a third start
_CIRCLES = 25  # steps without more evidence after which classes are at rest
_EVERY = 50  # steps after which everything is computed from scratch, at least


@dataclass(frozen=True)
class RVMSolution:
    """Answer of `solve_rvm` and `solve_rvm_classes`, in the units of the design and of the targets.

    active: numbers (a,) of the basis functions of the model. value, covariance: mean (a,) and covariance (a, a) of their weights.
    alphas: precisions (a,) of their priors. noise: variance of the noise, 0 for classes.
    evidence: logarithm of the evidence (for classes Laplace's approximation), recomputed from scratch.
    certificate: the most that any one step could still add to it. floored: whether the noise is held at its least value.
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


class Design:
    """Basis functions on the training rows: something with `@` and `rows`, (M, n), and before it a constant if asked for.

    They are scaled to unit norm, which changes no evidence; a basis function of norm 0 is never used.
    """

    def __init__(self, basis, constant: bool):
        self.basis, self.constant = basis, constant
        self.n = basis.shape[1]
        norms = self._norms()
        if norms.max() > 1e150:
            raise NanError(
                f"basis functions have norms up to {norms.max():.2g}, whose squares overflow; rescale the rows"
            )
        self.usable = norms > 1e-150
        self.scale = np.where(self.usable, 1.0 / np.where(self.usable, norms, 1.0), 0.0)

    def __len__(self):
        return self.basis.shape[0] + self.constant

    def products(self, V) -> np.ndarray:
        """Inner products (M, p) of all basis functions with the columns of V (n, p)."""
        out = np.empty((len(self), V.shape[1]))
        if self.constant:
            out[0] = V.sum(axis=0)
        if hasattr(self.basis, "K"):
            self._by_blocks(lambda rows, block: np.matmul(block, V, out=out[rows]))
        else:
            out[self.constant :] = self.basis @ V
        out *= self.scale[:, None]
        return out

    def squares(self, b) -> np.ndarray:
        """Sums (M,) of squares of each basis function, weighted by b (n,)."""
        out = np.empty(len(self))
        if self.constant:
            out[0] = b.sum() * self.scale[0] ** 2

        def add(rows, block):
            block = block * self.scale[rows, None]
            block *= block
            out[rows] = block @ b

        self._by_blocks(add)
        return out

    def functions(self, index) -> np.ndarray:
        """Chosen basis functions as rows (a, n)."""
        index = np.asarray(index)
        out = np.ones((len(index), self.n))
        held = index >= self.constant
        if held.any():
            out[held] = self.basis.rows(index[held] - int(self.constant))
        out *= self.scale[index, None]
        return out

    def _norms(self):
        out = np.full(len(self), np.sqrt(self.n))

        def add(rows, block):
            peak = np.abs(block).max(axis=1)  # squares of what was not divided by it may overflow
            peak[peak == 0] = 1.0
            out[rows] = peak * np.sqrt(((block / peak[:, None]) ** 2).sum(axis=1))

        self._by_blocks(add)
        return out

    def _by_blocks(self, job):
        """job(rows of the answer, block of basis functions), over threads where there is work for them."""
        m = self.basis.shape[0]

        def run(i):
            rows = slice(i * _ROWS, min((i + 1) * _ROWS, m))
            block = (
                self.basis.K[rows] if hasattr(self.basis, "K") else self.basis.rows(np.arange(rows.start, rows.stop))
            )
            job(slice(rows.start + self.constant, rows.stop + self.constant), block)

        count = -(-m // _ROWS)
        if m * self.n > _SERIAL and hasattr(self.basis, "K"):
            map_tiles(run, count)
        else:
            for i in range(count):
                run(i)


# ------------------------------------------------------------------------------------------------ the model at fixed curvature
class _Model:
    """Least squares with weights b on the rows, and the factors S, Q of all basis functions, kept up to date.

    S_m = phi_m' C^-1 phi_m and Q_m = phi_m' C^-1 z, with C = B^-1 + Phi A^-1 Phi' over the active basis functions.
    cross: inner products (a, M), with weights b, of the active basis functions with all. pull: Phi' B z (M,).
    """

    def __init__(self, design, active=(), alpha=()):
        self.design = design
        self.active = np.array(active, dtype=np.intp)
        self.alpha = np.array(alpha, dtype=np.float64)
        self.jitter = 0.0

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
        self.sigma, root, self.logdet, jitter = _alone(lambda: _posterior(P, self.alpha), len(a))
        self.jitter = max(self.jitter, jitter)
        self.mu = self.sigma @ self.pull[a]
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
        inside = np.zeros(len(self.S), dtype=bool)
        inside[self.active] = True
        s, q = self.S.copy(), self.Q.copy()
        diagonal = self.sigma.diagonal()
        s[self.active] = np.maximum(1.0 / diagonal - self.alpha, 0.0)
        q[self.active] = self.mu / diagonal
        useful = (q**2 > s) & (s > _COLLINEAR * self.square) & self.design.usable
        wanted = np.full(len(s), np.inf)
        wanted[useful] = s[useful] ** 2 / (q[useful] ** 2 - s[useful])
        wanted[wanted > _LARGEST * np.maximum(self.square, 1e-300)] = np.inf
        gains = _share(wanted, s, q)
        gains[self.active] -= _share(self.alpha, s[self.active], q[self.active])
        gains[~inside & ~np.isfinite(wanted)] = 0.0
        return wanted, gains, inside

    def take(self, j, alpha, inside):
        """Set the precision of basis function j: add it, change it, or leave it out (alpha=inf)."""
        if not inside:
            return self._add(j, alpha)
        i = int(np.flatnonzero(self.active == j)[0])
        column = self.sigma[:, i].copy()
        spread = column[i]
        kappa = 1.0 / spread if np.isinf(alpha) else 1.0 / (spread + 1.0 / (alpha - self.alpha[i]))
        moved = column @ self.cross
        self.S += kappa * moved**2
        self.Q += kappa * self.mu[i] * moved
        self.mu = self.mu - kappa * self.mu[i] * column
        self.sigma -= np.multiply.outer(kappa * column, column)
        if np.isinf(alpha):
            self._drop(i)
        else:
            self.alpha[i] = alpha
        return self._fix()

    def leave_out(self, alpha):
        """Drop the basis functions whose precision is to be infinite."""
        for j in self.active[np.isinf(alpha)]:
            self.take(j, np.inf, True)

    def _add(self, j, alpha):
        row = self._cross_of(j)
        u = self.sigma @ row[self.active]
        spread = 1.0 / (alpha + self.S[j])
        mean = spread * self.Q[j]
        moved = row - u @ self.cross
        self.S -= spread * moved**2
        self.Q -= mean * moved
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
        f = self.design.functions([j])[0]
        b = self.weights if self.weights is not None else self.factor
        return self.design.products((f * b)[:, None])[:, 0]

    weights: np.ndarray | None = None

    def _drop(self, i):
        keep = np.arange(len(self.active)) != i
        self.active, self.alpha, self.mu = self.active[keep], self.alpha[keep], self.mu[keep]
        self.sigma, self.cross = self.sigma[np.ix_(keep, keep)], self.cross[keep]


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
    out = np.zeros(len(s))
    some = np.isfinite(alpha)
    a, s, q = alpha[some], s[some], q[some]
    out[some] = 0.5 * (np.log(a) - np.log(a + s) + q**2 / (a + s))
    return out


def _posterior(P, alpha):
    """(P + A)^-1, the inverse of the factor of P + A, its log determinant, and the jitter that it took."""
    a = len(alpha)
    if not a:
        return np.zeros((0, 0)), np.zeros((0, 0)), 0.0, 0.0
    H = P + np.diag(alpha)
    d = 1.0 / np.sqrt(H.diagonal())  # precisions differ by many orders of magnitude
    H *= d[:, None] * d
    H = 0.5 * (H + H.T)
    jitter = 0.0
    try:
        L = np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        factor = safe_cholesky(H, warn=False)
        L, jitter = np.tril(factor.array), factor.jitter
    root = (
        np.linalg.inv(L) * d
    )  # LAPACK's triangular solver starts threads for any size, which costs more than it saves here
    return root.T @ root, root, 2.0 * (np.log(L.diagonal()).sum() - np.log(d).sum()), jitter


# ------------------------------------------------------------------------------------------------ precisions of a fixed model
@dataclass
class _Moments:
    """What the evidence of a fixed set of basis functions depends on: P = Phi'B Phi, v = Phi'Bz and zz = z'Bz."""

    P: np.ndarray
    v: np.ndarray
    zz: float
    n: int
    superfluous: int | None = None

    def at(self, logs, free_noise, beta):
        """Value, gradient and Hessian in the logs of the precisions (and of the noise precision where that is free)."""
        alpha = np.exp(logs[: len(self.v)])
        beta = np.exp(logs[-1]) if free_noise else beta
        sigma, _, logdet, _ = _posterior(beta * self.P, alpha)
        mu = beta * (sigma @ self.v)
        residual = self.zz - 2 * mu @ self.v + mu @ self.P @ mu
        residual = max(residual, 0.0) if free_noise else residual  # of classes it is known up to a constant
        fit = beta * residual + alpha @ mu**2
        value = 0.5 * (np.log(alpha).sum() - logdet + (self.n * np.log(beta) if free_noise else 0.0) - fit)
        self._look(alpha, sigma.diagonal(), mu)
        gradient, hessian = self._slopes(alpha, sigma, mu)
        if free_noise:
            gradient, hessian = self._with_noise(alpha, sigma, mu, beta * residual, gradient, hessian)
        return value, gradient, hessian

    def _look(self, alpha, spread, mu):
        """The basis function, if any, that the evidence gains most from leaving out: q^2 <= s."""
        s, q = np.maximum(1.0 / spread - alpha, 0.0), mu / spread
        gains = np.where(q**2 <= s, -_share(alpha, s, q), -1.0)
        worst = int(np.argmax(gains)) if len(gains) else 0
        self.superfluous = worst if len(gains) and gains[worst] > 0 else None

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


def best_precisions(moments, alpha, beta, free_noise, highest, tol, max_iter=50):
    """Newton's method, damped, for the precisions of a fixed set of basis functions: (alpha, beta).

    It ends early when the best precision of one is infinite, with that in its place.
    """
    return _alone(lambda: _newton(moments, alpha, beta, free_noise, highest, tol, max_iter), len(alpha))


def _alone(f, size):
    """f(), by one worker where BLAS would start threads: they are slow on matrices of this size."""
    return f() if size < _THREADED else map_tiles(lambda _: f(), 1)[0]


def _newton(moments, alpha, beta, free_noise, highest, tol, max_iter):
    logs = np.log(alpha)
    lowest, top = np.full(len(alpha), -np.inf), np.full(len(alpha), np.log(_LARGEST * highest))
    if free_noise:
        logs, lowest, top = np.append(logs, np.log(beta)), np.append(lowest, -np.inf), np.append(top, np.log(highest))
    value, gradient, hessian = moments.at(logs, free_noise, beta)
    damping = 0.0
    for _ in range(max_iter):
        if moments.superfluous is not None or stopping():
            break
        held = ((logs >= top) & (gradient > 0)) | ((logs <= lowest) & (gradient < 0))
        if not (~held).any() or np.abs(gradient[~held]).max() <= tol:
            break
        step, damping = _newton_step(gradient, hessian, held, damping)
        new = np.clip(logs + step, lowest, top)
        if np.abs(new - logs).max() <= 1e-14:
            break
        tried = moments.at(new, free_noise, beta)
        if tried[0] < value - 1e-12 * abs(value):
            moments.superfluous = None  # found at a point that is not taken
            damping = max(10 * damping, 1e-3)
        else:
            value, gradient, hessian = tried
            logs, damping = new, damping / 10 if damping > 1e-8 else 0.0
        if damping > 1e12:
            break
    alpha = np.exp(logs[: len(alpha)])
    if moments.superfluous is not None:
        alpha[moments.superfluous] = np.inf
    return alpha, float(np.exp(logs[-1])) if free_noise else beta


def _newton_step(gradient, hessian, held, damping):
    free = np.flatnonzero(~held)
    M = -hessian[np.ix_(free, free)]
    while True:
        try:
            np.linalg.cholesky(M + damping * np.eye(len(free)))
            break
        except np.linalg.LinAlgError:
            damping = max(10 * damping, 1e-3)
    step = np.zeros(len(gradient))
    step[free] = np.linalg.solve(M + damping * np.eye(len(free)), gradient[free])
    return step * min(1.0, 3.0 / max(np.abs(step).max(), 1e-300)), damping


# ------------------------------------------------------------------------------------------------ regression
def solve_rvm(design: Design, t, *, noise=None, tol=1e-6, max_iter=10_000, start=None) -> RVMSolution:
    """Regression: weights and precisions that maximise the evidence of t (n,) = Phi w + noise.

    The noise is estimated each time the steps have come to rest, together with the precisions: estimated while most basis
    functions are still missing, it takes what they would explain for noise, and they stay out. The evidence has many local
    maxima: up to 4000 basis functions the steps begin a second time from a smaller noise, and up to 300 a third time from all
    basis functions; the best end counts.
    noise: its variance; None estimates it. start: numbers of basis functions, their alphas and the noise to begin with.
    """
    if start is not None:
        return _Regression(design, t, noise, tol).solve(max_iter, start)
    found = [_Regression(design, t, noise, tol).solve(max_iter, None)]
    if noise is None and len(design) <= _AGAIN:
        quiet = _Regression(design, t, noise, tol, share=0.01)
        found.append(quiet.solve(max_iter, None))
    if len(design) <= _BACKWARD:
        last = _Regression(design, t, noise, tol)
        found.append(last.solve(max_iter, last.from_all()))
    return max(found, key=lambda s: s.evidence)


class _Regression:
    def __init__(self, design, t, noise, tol, share=0.1):
        self.design, self.tol = design, tol
        self.unit = float(np.sqrt(np.mean((t / np.abs(t).max()) ** 2)) * np.abs(t).max())  # squares may overflow
        self.t = t / self.unit
        self.free_noise = noise is None
        self.highest = 1.0 / FLOOR
        self.beta = 1.0 / (share * max(float(np.var(self.t)), FLOOR)) if noise is None else self.unit**2 / noise
        self.pull = design.products(self.t[:, None])[:, 0]
        self.iterations, self.trace = 0, []

    def solve(self, max_iter, start):
        model = self._begin(start)
        coarse, waited = max(self.tol, _COARSE), 0
        while self.iterations < max_iter:
            wanted, gains, inside = model.best()
            j = int(np.argmax(gains))
            if gains[j] > coarse:
                model.take(j, wanted[j], inside[j])
                self.iterations, waited = self.iterations + 1, waited + 1
                if waited >= max(_EVERY, len(model.active) // 2):
                    waited = 0
                    model.refresh()
                continue
            self._polish(model)
            waited = 0
            certificate = self._most(model)
            if certificate <= self.tol:
                break
            coarse = min(coarse, max(self.tol, certificate / 10))
        self._polish(model)
        return self._record(model)

    def from_all(self, rounds=100):
        """Where re-estimates of all precisions at once come to from the model of all basis functions: Tipping (2001)."""
        active = np.flatnonzero(self.design.usable)
        F = self.design.functions(active)
        P, v, alpha = F @ F.T, self.pull[active], np.full(len(active), 1e-4)
        for _ in range(rounds):
            sigma = _alone(lambda: _posterior(self.beta * P, alpha)[0], len(active))  # noqa: B023
            mu = self.beta * (sigma @ v)
            determined = np.clip(1.0 - alpha * sigma.diagonal(), 1e-12, 1.0)
            alpha = np.clip(determined / np.maximum(mu**2, 1e-30), 1e-12, 1e30)
            keep = alpha < 1e8 * self.beta
            if self.free_noise:
                square = float(self.t @ self.t - 2 * mu @ v + mu @ P @ mu)
                left = max(len(self.t) - determined.sum(), 1e-3 * len(self.t))
                self.beta = min(left / max(square, FLOOR), self.highest)
            active, alpha, v, P = active[keep], alpha[keep], v[keep], P[np.ix_(keep, keep)]
        return active, alpha / (self.design.scale[active] * self.unit) ** 2, self.unit**2 / self.beta

    def _begin(self, start):
        model = _Model(self.design)
        active, alpha = np.zeros(0, np.intp), np.zeros(0)
        if start is not None:
            active, alpha, variance = start
            self.beta = self.unit**2 / variance if self.free_noise and variance > 0 else self.beta
            self.beta = min(self.beta, self.highest) if self.free_noise else self.beta
            alpha = np.asarray(alpha) * (self.design.scale[active] * self.unit) ** 2
        model.active, model.alpha = np.array(active, np.intp), np.array(alpha, np.float64)
        cross = np.zeros((0, len(self.design)))
        if len(active):
            cross = np.ascontiguousarray(self.design.products(self.design.functions(active).T).T)
        square = np.where(self.design.usable, 1.0, 0.0)
        model.set_curvature(square * self.beta, self.pull * self.beta, cross * self.beta, self.beta)
        return model

    def _moments(self, model):
        a = model.active
        return _Moments(model.cross[:, a] / self.beta, self.pull[a], float(self.t @ self.t), len(self.t))

    def _most(self, model):
        return float(model.best()[1].max(initial=0.0))

    def _polish(self, model):
        """Precisions and noise as good as this set of basis functions allows."""
        model.refresh()
        before = self._evidence(model)
        args = (self.free_noise, max(self.highest, self.beta), 1e-2 * min(1e-7, self.tol))
        while len(model.active):
            alpha, self.beta = best_precisions(self._moments(model), model.alpha, self.beta, *args)
            model.alpha = np.where(np.isfinite(alpha), alpha, model.alpha)
            model.scale_curvature(self.beta)
            if np.isfinite(alpha).all():
                break
            model.leave_out(alpha)
        if not len(model.active) and self.free_noise:
            self.beta = min(1.0 / max(float(np.mean(self.t**2)), FLOOR), self.highest)
            model.scale_curvature(self.beta)
        self.trace.append(max(self._evidence(model), before) - len(self.t) * np.log(self.unit))

    def _residual(self, model):
        return self.t - model.mu @ self.design.functions(model.active)

    def _evidence(self, model):
        residual = self._residual(model)
        fit = self.beta * float(residual @ residual) + float(model.alpha @ model.mu**2)
        n = len(self.t)
        return 0.5 * (np.log(model.alpha).sum() - model.logdet + n * np.log(self.beta / (2 * np.pi)) - fit)

    def _record(self, model):
        certificate = self._most(model)
        status = Status.CONVERGED if certificate <= self.tol else Status.MAX_ITER
        scale = self.design.scale[model.active] * self.unit
        return RVMSolution(
            model.active, model.mu * scale, model.sigma * np.multiply.outer(scale, scale), model.alpha / scale**2,
            float(self.unit**2 / self.beta), float(self._evidence(model) - len(self.t) * np.log(self.unit)), status,
            certificate, self.iterations + len(self.trace), self.free_noise and self.beta >= self.highest, self.trace,
        )  # fmt: skip


def log_evidence(Phi, t, alphas, noise) -> float:
    """log N(t | 0, noise I + Phi A^-1 Phi') of basis functions (n, a), from its definition."""
    C = noise * np.eye(len(t)) + (Phi / alphas) @ Phi.T
    L = np.linalg.cholesky(C)
    z = np.linalg.solve(L, t)
    return float(-0.5 * (len(t) * np.log(2 * np.pi) + z @ z) - np.log(L.diagonal()).sum())


def basis_gradient(Phi, t, solution) -> np.ndarray:
    """Slope (n, a) of the evidence of a regression in the entries of its basis functions: Tipping (2001), eq. 49."""
    residual = t - Phi @ solution.value
    return (np.multiply.outer(residual, solution.value) - Phi @ solution.covariance) / solution.noise


def precision_gradient(Phi, t, alphas, noise):
    """Evidence of basis functions (n, a), the posterior there, and slopes in the logs of the precisions and of 1 / noise."""
    beta = 1.0 / noise
    sigma, _, logdet, _ = _posterior(beta * (Phi.T @ Phi), alphas)
    mu = beta * (sigma @ (Phi.T @ t))
    residual = t - Phi @ mu
    misfit, n = beta * float(residual @ residual), len(t)
    value = 0.5 * (np.log(alphas).sum() - logdet + n * np.log(beta / (2 * np.pi)) - misfit - alphas @ mu**2)
    pull = alphas * sigma.diagonal()
    solution = RVMSolution(np.arange(len(mu)), mu, sigma, alphas, noise, value, Status.CONVERGED, 0.0, 0)
    return value, solution, 0.5 * (1.0 - pull - alphas * mu**2), 0.5 * (n - misfit - (len(mu) - pull.sum()))


# ------------------------------------------------------------------------------------------------ two classes
def solve_rvm_classes(design: Design, y, *, tol=1e-6, max_iter=10_000, start=None) -> RVMSolution:
    """Two classes, y (n,) of 0 and 1: log-odds Phi w, the posterior of w by Laplace's approximation."""
    return _Classification(design, y, tol).solve(max_iter, start)


class _Classification:
    def __init__(self, design, y, tol):
        self.design, self.y, self.tol = design, y, tol
        self.iterations, self.trace = 0, []
        self.w = np.zeros(0)

    def solve(self, max_iter, start):
        model = _Model(self.design)
        if start is not None:
            model.active = np.array(start[0], np.intp)
            model.alpha = np.asarray(start[1]) * self.design.scale[model.active] ** 2
            self.w = np.zeros(len(model.active))
        coarse, status = max(self.tol, _COARSE), Status.MAX_ITER
        self._linearise(model)
        best, stale = -np.inf, 0
        while self.iterations < max_iter:
            # Gains hold at fixed curvature, which each step changes: steps may go round in circles of equal evidence.
            best, stale = (self.evidence, 0) if self.evidence > best + self.tol else (best, stale + 1)
            if stale > _CIRCLES:
                status = Status.CONVERGED
                break
            wanted, gains, inside = model.best()
            j = int(np.argmax(gains))
            self.iterations += 1
            if gains[j] > coarse:
                model.take(j, wanted[j], inside[j])
                self._linearise(model)
            else:
                self._settle(model)
                certificate = self._most(model)
                if certificate <= self.tol:
                    status = Status.CONVERGED
                    break
                coarse = min(coarse, max(self.tol, certificate / 10))
        return self._record(model, status)

    def _most(self, model):
        return float(model.best()[1].max(initial=0.0))

    def _linearise(self, model):
        """The mode of the weights, and least squares that has its curvature there."""
        F = self.design.functions(model.active)
        self.w, f = class_mode(F, self.y, model.alpha, model.mu if hasattr(model, "mu") else self.w)
        p = expit(f)
        b = np.maximum(p * (1 - p), 1e-12)
        cross = np.ascontiguousarray(self.design.products(np.ascontiguousarray((F * b).T)).T)
        slope = self.design.products((self.y - p)[:, None])[:, 0]
        model.weights = b
        model.set_curvature(self.design.squares(b), slope + self.w @ cross, cross)
        self.evidence = _laplace(f, self.y, self.w, model.alpha, model.logdet)

    def _settle(self, model):
        """Precisions of a fixed set, less what becomes superfluous, and the curvature that goes with them."""
        for _ in range(50):
            if not len(model.active):
                break
            a = model.active
            moments = _Moments(model.cross[:, a], model.pull[a], float(model.pull[a] @ model.mu), len(self.y))
            before = model.alpha
            alpha, _ = best_precisions(moments, before, 1.0, False, 1.0, 1e-2 * min(1e-7, self.tol), max_iter=10)
            model.alpha = np.where(np.isfinite(alpha), alpha, before)
            moved = np.abs(np.log(model.alpha / before)).max()
            if np.isinf(alpha).any():
                model.refresh()
                model.leave_out(alpha)
                moved = 1.0
            self._linearise(model)
            if moved < np.sqrt(self.tol) * 1e-2:
                break
        self.trace.append(self.evidence)

    def _record(self, model, status):
        scale = self.design.scale[model.active]
        return RVMSolution(
            model.active, model.mu * scale, model.sigma * np.multiply.outer(scale, scale), model.alpha / scale**2, 0.0,
            float(self.evidence), status, self._most(model), self.iterations, trace=self.trace,
        )  # fmt: skip


def class_mode(F, y, alpha, w, max_iter=100):
    """Most probable weights (a,) of basis functions F (a, n), and their log-odds (n,): Newton's method, steps halved."""
    w = np.zeros(len(F)) if len(w) != len(F) else w
    f = w @ F
    value = _log_posterior(f, y, w, alpha)
    for _ in range(max_iter):
        p = expit(f)
        b = np.maximum(p * (1 - p), 1e-12)
        gradient = F @ (y - p) - alpha * w
        sigma = _posterior((F * b) @ F.T, alpha)[0]
        step = sigma @ gradient
        gain = float(gradient @ step)
        if not len(w) or gain <= 1e-18 * max(1.0, abs(value)):
            break
        size, new = 1.0, value - 1.0
        while size > 1e-10:
            tried = w + size * step
            f_new = tried @ F
            new = _log_posterior(f_new, y, tried, alpha)
            if new >= value - 1e-13 * abs(value):
                break
            size /= 2
        else:
            break
        w, f, value = tried, f_new, new
    return w, f


def _log_posterior(f, y, w, alpha):
    return float(np.where(y > 0.5, log_expit(f), log_expit(-f)).sum() - 0.5 * (alpha @ w**2))


def _laplace(f, y, w, alpha, logdet):
    return _log_posterior(f, y, w, alpha) + 0.5 * (np.log(alpha).sum() - logdet)


def class_gradient(Phi, y, alpha, w):
    """Laplace's evidence of basis functions (n, a) with fixed precisions, its slope (n, a) in their entries, and the mode.

    The slope includes that of the mode and of the curvature there.
    """
    w, f = class_mode(Phi.T, y, alpha, w)
    p = expit(f)
    b = np.maximum(p * (1 - p), 1e-12)
    sigma, _, logdet, _ = _posterior((Phi.T * b) @ Phi, alpha)
    PS = Phi @ sigma
    c = 0.5 * np.einsum("na,na->n", PS, Phi) * b * (1 - 2 * p)
    u, r = PS.T @ c, y - p
    slope = np.multiply.outer(r - c + b * (Phi @ u), w) - b[:, None] * PS - np.multiply.outer(r, u)
    return _laplace(f, y, w, alpha, logdet), slope, w

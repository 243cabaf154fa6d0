"""Relevance vector regression: sparse Bayesian learning by sequential steps that raise the evidence most.

A basis function takes part with a weight of prior N(0, 1 / alpha). Tipping & Faul (2003), Fast marginal likelihood
maximisation for sparse Bayesian models; Tipping (2001), Sparse Bayesian learning and the relevance vector machine.
"""

import numpy as np

from mercer.linalg import Status
from mercer.solvers.rvm_design import Design
from mercer.solvers.rvm_model import FLAT, NOTHING, Model, Moments, RVMSolution, alone, best_precisions, posterior
from mercer.threads import map_tiles, stopping

__all__ = ["basis_gradient", "log_evidence", "precision_gradient", "rvm_ends", "solve_rvm"]

FLOOR = 1e-8  # of the mean square of the targets: the smallest noise variance
_QUIET, _LOUD = 0.01, 0.1  # of the variance of the targets: the noise that steps begin with
_COARSE = 1e-3  # gain below which steps wait until the precisions of the model are best
_AGAIN, _BACKWARD = 4001, 301  # basis functions, constant included, up to which there is a second and a third start
_EVERY = 50  # steps, at least, after which there is a step of Newton's method, and all is computed from scratch
_TURNS = 6  # in a row that together gain less than tol, after which there is no progress


def solve_rvm(design: Design, t, *, noise=None, tol=1e-3, max_iter=10_000, start=None) -> RVMSolution:
    """Regression: weights and precisions that maximise the evidence of t (n,) = Phi w + noise.

    The noise is estimated each time the steps have come to rest, together with the precisions: estimated while most basis
    functions are still missing, it takes what they would explain for noise, and they stay out.
    noise: its variance; None estimates it. start: numbers of basis functions, their alphas and the noise to begin with; None
    takes the best of `rvm_ends`.
    """
    if start is None:
        return rvm_ends(design, t, noise=noise, tol=tol, max_iter=max_iter)[0]

    def run(_):
        return _Regression(design, t, noise, tol, _QUIET).solve(max_iter, start)

    return map_tiles(run, 1)[0] if design.hold_few() else run(0)


def rvm_ends(design: Design, t, *, noise=None, tol=1e-3, max_iter=10_000) -> list[RVMSolution]:
    """Where the steps lead to from several starts, the end of most evidence first: the evidence has many local maxima.

    Up to 4000 basis functions the steps begin a second time from a larger noise, and up to 300 a third time from all of them.
    """
    starts: list[tuple[float, str | None]] = [(_QUIET, None)]
    if noise is None and len(design) <= _AGAIN:
        starts.append((_LOUD, None))
    if len(design) <= _BACKWARD:
        starts.append((_LOUD, "all"))

    def run(i):
        return _Regression(design, t, noise, tol, starts[i][0]).solve(max_iter, starts[i][1])

    if design.hold_few():  # no product is large enough for more than one thread
        found = map_tiles(run, len(starts), threads=1 if len(design) <= _BACKWARD else None)
    else:
        found = [run(i) for i in range(len(starts))]
    return sorted(found, key=lambda s: -s.evidence)


class _Regression:
    def __init__(self, design, t, noise, tol, share):
        self.design, self.tol = design, tol
        self.unit = float(np.sqrt(np.mean((t / np.abs(t).max()) ** 2)) * np.abs(t).max())  # squares may overflow
        self.t = t / self.unit
        self.free_noise = noise is None
        self.highest = 1.0 / FLOOR
        self.beta = 1.0 / (share * max(float(np.var(self.t)), FLOOR)) if noise is None else self.unit**2 / noise
        self.pull = design.products(self.t[:, None])[:, 0]
        self.iterations, self.trace = 0, []

    def solve(self, max_iter, start):
        model = self._begin(self._from_all() if isinstance(start, str) else start)
        coarse = max(self.tol, _COARSE)
        while True:
            self._steps(model, coarse, max_iter)
            self._polish(model)
            certificate = float(model.best()[1].max(initial=0.0))
            status = self._status(certificate, max_iter)
            if status is not None:
                return self._record(model, certificate, status)
            coarse = min(coarse, max(self.tol, certificate / 10))

    def _status(self, certificate, max_iter):
        """How the steps ended, or None if they go on."""
        if certificate <= max(self.tol, FLAT * abs(self.trace[-1])):
            return Status.CONVERGED
        if self.iterations >= max_iter or stopping():
            return Status.MAX_ITER
        turns = self.trace[-_TURNS:]
        stale = len(turns) == _TURNS and max(turns[1:]) <= turns[0] + self.tol
        return Status.STAGNATED if stale else None

    def _steps(self, model, coarse, max_iter):
        """Steps, each the one that gains most, while that is more than `coarse`; now and then one in all precisions."""
        waited = 0
        while self.iterations < max_iter and not stopping():
            wanted, gains = model.best()
            j = int(np.argmax(gains))
            if gains[j] <= coarse:
                break
            model.take(j, wanted[j])
            self.iterations, waited = self.iterations + 1, waited + 1
            if waited >= max(_EVERY, len(model.active) // 2):
                waited = 0
                self._improve(model, False, coarse, max_iter=1)

    def _from_all(self, rounds=20):
        """Where re-estimates of all precisions at once come to from the model of all basis functions: Tipping (2001)."""
        active = np.flatnonzero(self.design.usable)
        F = self.design.functions(active)
        P, v, alpha = F @ F.T, self.pull[active], np.full(len(active), 1e-4)
        for _ in range(rounds):
            sigma = alone(lambda: posterior(self.beta * P, alpha)[0], len(active))  # noqa: B023
            mu = self.beta * (sigma @ v)
            determined = np.clip(1.0 - alpha * sigma.diagonal(), 1e-12, 1.0)
            alpha = np.clip(determined / np.maximum(mu**2, 1e-30), 1e-12, 1e30)
            keep = alpha < 1e8 * self.beta
            if self.free_noise:
                square = float(self.t @ self.t - 2 * mu @ v + mu @ P @ mu)
                left = max(len(self.t) - determined.sum(), 1e-3 * len(self.t))
                self.beta = min(left / max(square, FLOOR), self.highest)
            active, alpha, v, P = active[keep], alpha[keep], v[keep], P[np.ix_(keep, keep)]
            if stopping():
                break
        return active, alpha / (self.design.scale[active] * self.unit) ** 2, self.unit**2 / self.beta

    def _begin(self, start):
        model = Model(self.design)
        if start is not None:
            active, alpha, variance = start
            self.beta = self.unit**2 / variance if self.free_noise and variance > 0 else self.beta
            self.beta = min(self.beta, self.highest) if self.free_noise else self.beta
            model = Model(self.design, active, np.asarray(alpha) * (self.design.scale[active] * self.unit) ** 2)
        cross = np.zeros((0, len(self.design)))
        if len(model.active):
            cross = np.ascontiguousarray(self.design.products(self.design.functions(model.active).T).T)
        square = np.where(self.design.usable, 1.0, 0.0)
        model.set_curvature(square * self.beta, self.pull * self.beta, cross * self.beta, self.beta)
        return model

    def _polish(self, model):
        """Precisions and noise as good as this set of basis functions allows, less what becomes superfluous."""
        self._improve(model, self.free_noise, 1e-2 * min(1e-5, self.tol))
        self.trace.append(self._evidence(model))

    def _improve(self, model, free_noise, tol, max_iter=50):
        a, highest = model.active, max(self.highest, self.beta)
        moments = Moments(
            model.cross[:, a] / self.beta, self.pull[a], float(self.t @ self.t), len(self.t), NOTHING * self.tol
        )
        kept, alpha, self.beta = best_precisions(moments, model.alpha, self.beta, free_noise, highest, tol, max_iter)
        model.keep(kept, alpha)
        if not len(kept) and free_noise:
            self.beta = min(1.0 / max(float(np.mean(self.t**2)), FLOOR), self.highest)
        model.scale_curvature(self.beta)

    def _evidence(self, model):
        residual = self.t - model.mu @ self.design.functions(model.active)
        fit = self.beta * float(residual @ residual) + float(model.alpha @ model.mu**2)
        n = len(self.t)
        value = 0.5 * (np.log(model.alpha).sum() - model.logdet + n * np.log(self.beta / (2 * np.pi)) - fit)
        return float(value - n * np.log(self.unit))

    def _record(self, model, certificate, status):
        scale = self.design.scale[model.active] * self.unit
        return RVMSolution(
            model.active, model.mu * scale, model.sigma * np.multiply.outer(scale, scale), model.alpha / scale**2,
            float(self.unit**2 / self.beta), self.trace[-1], status, certificate, self.iterations + len(self.trace),
            self.free_noise and self.beta >= self.highest, self.trace,
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------ the evidence and its slopes
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
    sigma, _, logdet = alone(lambda: posterior(beta * (Phi.T @ Phi), alphas), len(alphas))
    mu = beta * (sigma @ (Phi.T @ t))
    residual = t - Phi @ mu
    misfit, n = beta * float(residual @ residual), len(t)
    value = 0.5 * (np.log(alphas).sum() - logdet + n * np.log(beta / (2 * np.pi)) - misfit - alphas @ mu**2)
    pull = alphas * sigma.diagonal()
    solution = RVMSolution(np.arange(len(mu)), mu, sigma, alphas, noise, value, Status.CONVERGED, 0.0, 0)
    return value, solution, 0.5 * (1.0 - pull - alphas * mu**2), 0.5 * (n - misfit - (len(mu) - pull.sum()))

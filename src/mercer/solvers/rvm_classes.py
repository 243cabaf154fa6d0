"""Relevance vectors for two classes: the steps of regression on Laplace's approximation at the mode of the weights.

Tipping (2001), Sparse Bayesian learning and the relevance vector machine, section 3.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from mercer.linalg import Status
from mercer.solvers.rvm_design import Design
from mercer.solvers.rvm_model import FLAT, NOTHING, Model, Moments, RVMSolution, best_precisions, posterior

__all__ = ["class_gradient", "class_mode", "solve_rvm_classes"]

_COARSE = 1e-3  # gain below which steps wait until the precisions of the model are best
_CIRCLES = 25  # steps without more evidence after which there is no progress


def solve_rvm_classes(design: Design, y, *, tol=1e-3, max_iter=10_000, start=None) -> RVMSolution:
    """Two classes, y (n,) of 0 and 1: log-odds Phi w, the posterior of w by Laplace's approximation."""
    return _Classification(design, y, tol).solve(max_iter, start)


@dataclass(frozen=True)
class _Best:
    """The model of most evidence so far."""

    evidence: float
    iteration: int
    active: np.ndarray
    alpha: np.ndarray


class _Classification:
    def __init__(self, design, y, tol):
        self.design, self.y, self.tol = design, y, tol
        self.iterations, self.trace = 0, []
        self.tried: list[int] = []  # since the evidence rose last
        self.vain: list[int] = []  # of these, what the precisions have settled after
        self.best = _Best(-np.inf, 0, np.zeros(0, np.intp), np.zeros(0))

    def solve(self, max_iter, start):
        model = Model(self.design)
        if start is not None:
            model = Model(self.design, start[0], np.asarray(start[1]) * self.design.scale[start[0]] ** 2)
        self._linearise(model)
        status = self._steps(model, max_iter)
        if status is not Status.CONVERGED and self.best.evidence > self.evidence:
            model = Model(self.design, self.best.active, self.best.alpha)
            self._linearise(model)
        certificate = float(self._gains(model)[1].max(initial=0.0))
        flat = certificate <= max(self.tol, FLAT * abs(self.evidence))
        return self._record(model, Status.CONVERGED if flat else status, certificate)

    def _steps(self, model, max_iter):
        """Steps, each the one that gains most at the curvature of the moment, until none gains `tol`."""
        coarse = max(self.tol, _COARSE)
        while self.iterations < max_iter:
            if self._circles(model):
                return Status.STAGNATED
            self.iterations += 1
            wanted, gains = self._gains(model)
            j = int(np.argmax(gains))
            if gains[j] > coarse:
                self.tried.append(j)
                model.take(j, wanted[j])
                self._linearise(model)
                continue
            self._settle(model)
            certificate = float(self._gains(model)[1].max(initial=0.0))
            if certificate <= self.tol:
                return Status.CONVERGED
            coarse = min(coarse, max(self.tol, certificate / 10))
        return Status.MAX_ITER

    def _gains(self, model):
        """`Model.best` without the steps that were tried since the evidence rose last."""
        wanted, gains = model.best()
        gains[self.vain] = 0.0
        return wanted, gains

    def _circles(self, model):
        """Whether steps bring no more evidence: gains hold at fixed curvature, which each step changes."""
        if self.evidence > self.best.evidence + self.tol:
            self.best = _Best(self.evidence, self.iterations, model.active.copy(), model.alpha.copy())
            self.tried, self.vain = [], []
        return self.iterations - self.best.iteration > _CIRCLES

    def _linearise(self, model):
        """The mode of the weights, and least squares that has its curvature there."""
        F = self.design.functions(model.active)
        w, f = class_mode(F, self.y, model.alpha, model.mu)
        p = expit(f)
        b = np.maximum(p * (1 - p), 1e-12)
        cross = np.ascontiguousarray(self.design.products(np.ascontiguousarray((F * b).T)).T)
        slope = self.design.products((self.y - p)[:, None])[:, 0]
        model.weights = b
        model.set_curvature(self.design.squares(b), slope + w @ cross, cross)
        self.evidence = _laplace(f, self.y, w, model.alpha, model.logdet)

    def _settle(self, model):
        """Precisions of a fixed set, less what becomes superfluous, and the curvature that goes with them."""
        for _ in range(50):
            a, before = model.active, model.alpha
            if not len(a):
                break
            moments = Moments(
                model.cross[:, a], model.pull[a], float(model.pull[a] @ model.mu), len(self.y), NOTHING * self.tol
            )
            kept, alpha, _ = best_precisions(moments, before, 1.0, False, 1.0, 1e-2 * min(1e-7, self.tol), max_iter=10)
            moved = np.abs(np.log(alpha / before[kept])).max(initial=0.0) if len(kept) == len(a) else 1.0
            model.keep(kept, alpha)
            model.mu = model.mu[kept]
            self._linearise(model)
            if moved < np.sqrt(self.tol) * 1e-2:
                break
        self.vain = list(self.tried) if self.evidence <= self.best.evidence + self.tol else []
        self.trace.append(self.evidence)

    def _record(self, model, status, certificate):
        scale = self.design.scale[model.active]
        return RVMSolution(
            model.active, model.mu * scale, model.sigma * np.multiply.outer(scale, scale), model.alpha / scale**2, 0.0,
            float(self.evidence), status, certificate, self.iterations, trace=self.trace,
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
        sigma = posterior((F * b) @ F.T, alpha)[0]
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
    sigma, _, logdet = posterior((Phi.T * b) @ Phi, alpha)
    PS = Phi @ sigma
    c = 0.5 * np.einsum("na,na->n", PS, Phi) * b * (1 - 2 * p)
    u, r = PS.T @ c, y - p
    slope = np.multiply.outer(r - c + b * (Phi @ u), w) - b[:, None] * PS - np.multiply.outer(r, u)
    return _laplace(f, y, w, alpha, logdet), slope, w

"""Gradient tuning of kernel parameters on the exact leave-one-out error (M22's first half)."""

import logging
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize

from mercer.gram import gram
from mercer.kernels.names import slots
from mercer.kernels.parameters import specs
from mercer.solvers import loo_gradient

__all__ = ["Tuning", "tune_loo"]

logger = logging.getLogger("mercer")

_SPAN = np.log(1e4)  # positive parameters stay within this factor of where they started


@dataclass(frozen=True)
class Tuning:
    """Tuned kernel and alpha, the leave-one-out error there, and how the search went (`trace`: error per evaluation)."""

    kernel: object
    alpha: float
    error: float
    n_evaluations: int
    converged: bool
    message: str
    trace: list = field(default_factory=list)


class _Chart:
    """Flat search vector <-> kernel parameters: logs of positive ones, others as they are; the last entry is log alpha."""

    def __init__(self, kernel, names, alpha):
        self.kernel, self.names = kernel, names
        values = [np.asarray(kernel.get_params()[n], np.float64) for n in names]
        self.shapes = [v.shape for v in values]
        self.positive = [_is_positive(kernel, n) for n in names]
        parts = [np.log(v).ravel() if p else v.ravel() for v, p in zip(values, self.positive, strict=True)]
        self.start = np.concatenate([*parts, [np.log(alpha)]])

    def bounds(self):
        free = np.concatenate(
            [*(np.full(int(np.prod(s)), p) for s, p in zip(self.shapes, self.positive, strict=True)), [True]]
        )
        return [(z - _SPAN, z + _SPAN) if f else (None, None) for z, f in zip(self.start, free, strict=True)]

    def ties(self):
        """Matrix (len(z), parameters) that moves all entries of a parameter together."""
        sizes = [*(int(np.prod(s)) for s in self.shapes), 1]
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    def _cut(self, z):
        sizes = [int(np.prod(s)) for s in self.shapes]
        return (
            [part.reshape(s) for part, s in zip(np.split(z[:-1], np.cumsum(sizes)[:-1]), self.shapes, strict=True)]
            if sizes
            else []
        )

    def kernel_at(self, z):
        values = [np.exp(v) if p else v for v, p in zip(self._cut(z), self.positive, strict=True)]
        changes = {n: float(v) if v.ndim == 0 else v for n, v in zip(self.names, values, strict=True)}
        return self.kernel.replace(**changes) if changes else self.kernel

    def gradient(self, z, by_name, by_alpha):
        parts = []
        for name, v, positive in zip(self.names, self._cut(z), self.positive, strict=True):
            g = np.asarray(by_name[name], np.float64)
            parts.append((g * np.exp(v) if positive else g).ravel())
        return np.concatenate([*parts, [by_alpha * np.exp(z[-1])]])


def _is_positive(kernel, name):
    slot = slots(kernel)[name]
    spec = specs(type(kernel._at(slot.path)))[slot.field]
    return spec.low >= 0 and not spec.matrix and bool(np.all(np.asarray(kernel.get_params()[name]) > 0))


def tune_loo(
    kernel, X, Y, alpha, names=None, *, root_weight=None, intercept=False, engine=None, memory=None, max_iter=100
) -> Tuning:
    """Minimise the log of the mean squared leave-one-out error over kernel parameters and alpha by L-BFGS.

    `names` are parameters as in `kernel.differentiable` (None: all of them). The gradient is one pullback an evaluation.
    """
    known = kernel.differentiable
    names = list(known) if names is None else list(names)
    unknown = [n for n in names if n not in known]
    if unknown:
        raise ValueError(
            f"tune names {unknown[0]!r}, but the differentiable parameters of {kernel!r} are {', '.join(known) or 'none'}"
        )
    chart, trace = _Chart(kernel, names, alpha), []

    def objective(z):
        K = gram(chart.kernel_at(z), X, engine=engine, memory=memory, validated=True)
        error, W, by_alpha = loo_gradient(K.dense().astype(np.float64), Y, float(np.exp(z[-1])), root_weight, intercept)
        trace.append(error)
        logger.debug("leave-one-out error %.6g at %s, alpha %.3g", error, K.kernel, np.exp(z[-1]))
        error += np.finfo(float).eps ** 2  # targets have magnitude one: below this the logarithm is of rounding
        return np.log(error), chart.gradient(z, K.pullback(W), by_alpha) / error

    start, bounds = chart.start, chart.bounds()
    if any(chart.shapes):  # a lengthscale for each column: all together first, for one by one the error has poor minima
        start = _minimum_of_ties(objective, chart.ties(), start, bounds, max_iter)
    found = _minimum(objective, start, bounds, max_iter)
    return Tuning(chart.kernel_at(found.x), float(np.exp(found.x[-1])), float(np.exp(found.fun)), len(trace), bool(found.success),
                  str(found.message), trace)  # fmt: skip


def _minimum(objective, start, bounds, max_iter):
    return minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": int(max_iter)})


def _minimum_of_ties(objective, ties, start, bounds, max_iter):
    def tied(t):
        value, gradient = objective(start + ties @ t)
        return value, ties.T @ gradient

    shared = [bounds[i] for i in ties.argmax(axis=0)]
    free = [(None, None) if low is None else (-_SPAN, _SPAN) for low, _ in shared]
    return start + ties @ _minimum(tied, np.zeros(ties.shape[1]), free, max_iter).x

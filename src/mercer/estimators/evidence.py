"""Climbing an objective in the parameters of a kernel: restarts, bounds, priors, and a record of how it went."""

import logging
import warnings
from dataclasses import dataclass, field

import numpy as np

from mercer.errors import ConvergenceWarning, NanError, NotPSDError, NumericalWarning
from mercer.estimators.charts import Chart, minimum, row_units
from mercer.gram import gram
from mercer.random import generator

__all__ = ["NOWHERE", "Climb", "Settings", "best_of", "climb", "read_bounds", "value_at"]

logger = logging.getLogger("mercer")

NOWHERE = 1e25  # what the search is told where a kernel has no value, such as one whose Gram overflows


@dataclass(frozen=True)
class Settings:
    """How to search. optimizer: "fmin_l_bfgs_b", None (stay), or a function as in scikit-learn. tol: a step that raises the value
    by less, relative to it, is the last."""

    optimizer: object = "fmin_l_bfgs_b"
    restarts: int = 0
    limits: dict = field(default_factory=dict)
    fixed: tuple = ()
    priors: dict = field(default_factory=dict)
    max_iter: int = 100
    random_state: object = None
    engine: object = None
    memory: object = None
    tol: float = 2e-9


@dataclass(frozen=True)
class Climb:
    """The kernel and the extra numbers found, the value there (priors included), and the way: values of each evaluation."""

    kernel: object
    extra: dict
    value: float
    z: np.ndarray
    chart: Chart
    trace: list
    at_bounds: list
    converged: bool
    message: str
    sought: str = "the kernel's parameters"

    def tell(self, stacklevel=3):
        """Warn of what is usable but not as it should be. Rows that move need not come to rest: anywhere there is a bound."""
        if not self.converged and not self.chart.rows:
            warnings.warn(f"the search of {self.sought} ended early ({self.message}); raise max_iter, or rescale the rows",
                          ConvergenceWarning, stacklevel=stacklevel)  # fmt: skip
        if self.at_bounds:
            warnings.warn(f"{', '.join(self.at_bounds)} ended at a bound of the search: the data may not determine it, or bounds "
                          "are too narrow", NumericalWarning, stacklevel=stacklevel)  # fmt: skip


def climb(evaluate, kernel, rows, extra, settings: Settings, before: Climb | None = None) -> Climb:
    """Maximise evaluate(Gram, extra) -> (value, W, slopes in what is extra) in the kernel's parameters and `extra`, which holds
    positive numbers and arrays of rows by name.

    W is the slope of the value in the Gram, an array or a pair (U, V) meaning U V^T, or that in the kernel's parameters by name;
    None where no slope is asked for. before: an earlier climb from the same kernel, at whose end this one begins.
    """
    names = [n for n in kernel.differentiable if n not in settings.fixed]
    moving = {n: v for n, v in extra.items() if n not in settings.fixed}
    chart = _chart(kernel, names, moving, settings.limits, kernel if before is None else before.kernel)
    start, trace = _beginning(chart, before), [] if before is None else list(before.trace)

    def objective(z):
        value, slope = value_at(evaluate, chart, rows, extra, settings, z)
        trace.append(value)
        return (-value, -slope) if np.isfinite(value) else (NOWHERE, np.zeros(len(z)))

    found = None
    if len(chart) and settings.optimizer is not None:
        found = best_of(objective, chart, settings, start, tie_first=before is None)
    z = start if found is None else found.x
    value = value_at(evaluate, chart, rows, extra, settings, z, slope=False)[0]
    logger.info("%d evaluations, value %.6g with %r", len(trace), value, chart.kernel_at(z))
    if found is None:  # not exp(log(...)) of them, which rounds
        return Climb(kernel, extra, value, z, chart, trace, [], True, "")
    return Climb(
        chart.kernel_at(z), {**extra, **chart.extra_at(z)}, value, z, chart, trace, chart.at_bounds(z), bool(found.success),
        str(found.message),
    )  # fmt: skip


def _chart(kernel, names, moving, limits, now):
    """Arrays among what moves are rows, in units of the kernel as it is `now`."""
    rows = {n: v for n, v in moving.items() if np.ndim(v)}
    units = row_units(now, next(iter(rows.values()))) if rows else 1.0
    return Chart(kernel, names, {n: v for n, v in moving.items() if n not in rows}, limits, rows, units)


def _beginning(chart, before):
    start = chart.start.copy()
    if before is not None:
        start[: chart.n_parameters] = before.z[: chart.n_parameters]
    return start


def value_at(evaluate, chart, rows, extra, settings, z, slope=True):
    """Value at a point of the chart, -inf where there is none, and its slope."""
    kernel, now = chart.kernel_at(z), {**extra, **chart.extra_at(z)}
    try:
        K = gram(kernel, rows, engine=settings.engine, memory=settings.memory, validated=True)
        value, W, by_extra = evaluate(K, now, slope)
        prior, by_prior = _log_prior(chart, settings.priors, z)
        if not slope:
            return value + prior, None
        by_name = {} if not chart.names else W if isinstance(W, dict) else K.pullback(W)
        return value + prior, chart.gradient(z, by_name, by_extra) + by_prior
    except (NotPSDError, NanError, FloatingPointError, OverflowError):
        if not slope:
            raise
        return -np.inf, np.zeros(len(z))


def best_of(objective, chart, settings, start=None, tie_first=True):
    """The best end of a search from the start and from some random places around it."""
    rng, start = generator(settings.random_state), chart.start if start is None else start
    starts = [start] + [chart.scattered(rng, start) for _ in range(settings.restarts)]
    ends = [_search(objective, chart, one, settings, tie_first) for one in starts]
    return min(ends, key=lambda end: end.fun)


def _search(objective, chart, start, settings, tie_first):
    if not callable(settings.optimizer):
        return minimum(objective, chart, start, settings.max_iter, tie_first, settings.tol)
    from scipy.optimize import OptimizeResult

    def sklearn_style(theta, eval_gradient=True):
        value, slope = objective(np.asarray(theta))
        return (value, slope) if eval_gradient else value

    bounds = np.array([(-np.inf if a is None else a, np.inf if b is None else b) for a, b in chart.bounds()])
    x, value = settings.optimizer(sklearn_style, np.clip(start, *bounds.T), bounds)
    return OptimizeResult(x=np.asarray(x, np.float64), fun=float(value), success=True, message="")


def _log_prior(chart, priors, z):
    """Logarithm of the priors' densities of the parameters, and its slope in z by differences."""
    if not priors:
        return 0.0, np.zeros(len(z))

    def value(at):
        now = {**chart.kernel_at(at).get_params(), **chart.extra_at(at)}
        return float(sum(np.sum(prior.logpdf(now[name])) for name, prior in priors.items()))

    step, slopes = 1e-5, np.zeros(len(z))
    for i in range(chart.n_parameters):
        e = step * (np.arange(len(z)) == i)
        slopes[i] = (value(z + e) - value(z - e)) / (2 * step)
    return value(z), slopes


def read_bounds(bounds, kernel, extra):
    """A user's {name: (low, high) or "fixed"} as limits and fixed names, checked."""
    limits, fixed = {}, []
    known = [*kernel.differentiable, *extra]
    for name, what in (bounds or {}).items():
        if name not in known:
            raise ValueError(f"bounds names {name!r}, but what is learned is {', '.join(known) or 'nothing'}")
        if isinstance(what, str) and what == "fixed":
            fixed.append(name)
            continue
        try:
            low, high = (float(v) for v in what)
        except (TypeError, ValueError):
            raise ValueError(f'bounds[{name!r}]={what!r} must be (low, high) or "fixed"') from None
        if not low < high or (name in extra and low <= 0):
            raise ValueError(f"bounds[{name!r}]={what!r} must be a range from a lower to a higher number"
                             + (" > 0" if name in extra else ""))  # fmt: skip
        limits[name] = (low, high)
    return limits, tuple(fixed)

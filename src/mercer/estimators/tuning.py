"""Gradient tuning of kernel parameters on the exact leave-one-out error (M22's first half)."""

import logging
from dataclasses import dataclass, field

import numpy as np

from mercer.estimators.charts import Chart, minimum, tunable
from mercer.gram import gram
from mercer.solvers import loo_gradient

__all__ = ["Tuning", "tune_loo"]

logger = logging.getLogger("mercer")


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


def tune_loo(
    kernel, X, Y, alpha, names=None, *, root_weight=None, intercept=False, engine=None, memory=None, max_iter=100
) -> Tuning:
    """Minimise the log of the mean squared leave-one-out error over kernel parameters and alpha by L-BFGS.

    `names` are parameters as in `kernel.differentiable` (None: all of them). The gradient is one pullback an evaluation.
    """
    chart, trace = Chart(kernel, tunable(kernel, names, "tune"), {"alpha": alpha}), []

    def objective(z):
        now = chart.extra_at(z)["alpha"]
        K = gram(chart.kernel_at(z), X, engine=engine, memory=memory, validated=True)
        error, W, by_alpha = loo_gradient(K.dense().astype(np.float64), Y, now, root_weight, intercept)
        trace.append(error)
        logger.debug("leave-one-out error %.6g at %s, alpha %.3g", error, K.kernel, now)
        error += np.finfo(float).eps ** 2  # targets have magnitude one: below this the logarithm is of rounding
        return np.log(error), chart.gradient(z, K.pullback(W), {"alpha": by_alpha}) / error

    found = minimum(objective, chart, max_iter=max_iter)
    return Tuning(chart.kernel_at(found.x), chart.extra_at(found.x)["alpha"], float(np.exp(found.fun)), len(trace),
                  bool(found.success), str(found.message), trace)  # fmt: skip

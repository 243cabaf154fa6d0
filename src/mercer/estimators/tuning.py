"""Every parameter of an estimator's kernel learned by gradient (M22)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import _num_samples

from mercer.errors import MercerError
from mercer.estimators.additive import shown
from mercer.estimators.base import KernelEstimator, engine_of
from mercer.estimators.charts import by_column, tunable
from mercer.estimators.evidence import Climb, Settings, climb, read_bounds, value_at
from mercer.estimators.gaussian_process import GaussianProcess
from mercer.estimators.objectives import OBJECTIVES, TASKS
from mercer.gram.plan import budget, require
from mercer.kernels.resolve import at_quantile, reads_distances
from mercer.kernels.sklearn_gp import from_sklearn, is_sklearn_kernel
from mercer.random import generator, some_of
from mercer.registry import register_record

__all__ = ["Tuning", "as_tuning", "check_counts", "tune"]

_STARTS = {"median": (0.5,), "quantiles": (0.02, 0.1, 0.25, 0.5, 0.75)}  # of the distances: where lengthscales start
_MATRICES = 5  # n x n numbers that an evaluation with its slope holds
_STEP = 1e-4  # of differences of slopes
_LEVEL, _SHARE = 1e-6, 1e-5  # curvature that is none: of one parameter, and of several relative to their own
_MANY = 30  # numbers: of more, flat directions are not looked for


@register_record
@dataclass(frozen=True)
class Tuning:
    """Tuned kernel, the numbers learned beside it, the objective's value there, and how the search went.

    estimator : a clone with what was found, fitted on all rows. kernel : the kernel found. extra : {"alpha": ...} or {"C": ...},
        what was learned beside it. value : of the objective, in its own units: log evidence, log density of targets that were
        left out (Gaussian processes), mean squared error (ridge, SVR), alignment, or mean squared shortfall of the margin (SVC).
    trace : its value at each evaluation. at_bounds : names of parameters that ended at a bound. flat : groups of parameters that
        can move together without a change of the value, so that the data do not determine them (looked for among up to 30).
    """

    kernel: Any
    extra: dict
    value: float
    objective: str
    converged: bool
    message: str
    trace: list = field(default_factory=list, repr=False)
    at_bounds: list = field(default_factory=list)
    flat: list = field(default_factory=list)
    estimator: Any = field(default=None, repr=False)

    @property
    def alpha(self) -> float | None:
        return self.extra.get("alpha")

    @property
    def n_evaluations(self) -> int:
        return len(self.trace)

    def __str__(self):
        beside = "".join(f", {name} {value:.4g}" for name, value in self.extra.items())
        count = f"{self.n_evaluations} evaluations"
        lines = [f"{self.objective} {self.value:.6g} after {count}", f"{shown(self.kernel)}{beside}"]
        lines += [f"at a bound: {', '.join(self.at_bounds)}"] if self.at_bounds else []
        lines += [f"not determined: {' with '.join(group)}" for group in self.flat]
        return "\n".join(lines + ([] if self.converged else [f"ended early: {self.message}"]))


def tune(estimator, X, y, objective="auto", *, names=None, ard=False, bounds=None, priors=None, start="quantiles", n_restarts=0,
         max_iter=100, n_rows=None, held_out=0.3, random_state=None) -> Tuning:  # fmt: skip
    """Learn every differentiable parameter of an estimator's kernel, and alpha or C with them, by the gradient of an objective.

    Parameters
    ----------
    estimator : an estimator of this library with a `kernel`; it is not changed. Parameters start where its kernel has them, words
        such as RBF("median") resolved on X.
    X, y : rows that the kernel reads, and targets or labels.
    objective : "evidence" (Gaussian processes and `KernelRidge`, with alpha as the noise and the best common scale of both),
        "loo" (the closed form of leave-one-out: squared error of `KernelRidge`, log density of `GaussianProcessRegressor`), "gcv"
        (`KernelRidge`), "alignment" (every estimator: the angle between the centred Gram matrix and that of the targets; a factor
        of the whole kernel does not matter to it), "validation" (`KernelRidge`, `SVC`, `SVR`: the loss on rows held out). "auto":
        the first of these that the estimator has; leave-one-out for `KernelRidge`.
    names : parameters to learn, as in `kernel.differentiable`, and "alpha" or "C"; others stay. None: all.
    ard : whether every lengthscale becomes one for each column.
    bounds : {parameter: (low, high) or "fixed"}. Other positive ones stay within a factor of 1e4 of where they start.
    priors : {parameter: distribution with a `logpdf`}; their logs are added to what is maximised.
    start : where lengthscales start: "quantiles": where the kernel has them, or at one of five quantiles of the distances of the
        rows, whichever has the best value; "median": at the median distance; None: where the kernel has them.
    n_restarts, max_iter : further starts at random places, and iterations of a search.
    n_rows : rows, drawn at random, that parameters are learned on. An evaluation holds matrices of n x n numbers; the estimator
        is fitted on all rows. None: all.
    held_out : share of the rows held out by "validation".
    random_state : seed of rows and starts.

    Returns
    -------
    A `Tuning`, which prints in a few lines; its `estimator` is fitted. What ended at a bound is told by a `NumericalWarning`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVC, tune
    >>> from mercer.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 2))
    >>> y = np.hypot(X[:, 0], X[:, 1]) > 1.2
    >>> found = tune(SVC(kernel=RBF(30.0)), X, y)
    >>> found.objective, bool(found.kernel.lengthscale < 3.0), bool(found.estimator.score(X, y) > 0.9)
    ('alignment', True, True)

    Rasmussen & Williams (2006), chapter 5; Cristianini et al. (2002); Chapelle, Vapnik, Bousquet & Mukherjee (2002).
    """
    check_counts(n_restarts=(n_restarts, 0), max_iter=(max_iter, 1), n_rows=(2 if n_rows is None else n_rows, 2))
    model, objective = _checked(estimator, objective, start)
    if y is None:
        raise ValueError(
            "tune needs y: targets, or labels; where an estimator has none, those that its kernel should follow"
        )
    check_consistent_length(X, y)
    rng = generator(random_state)
    task = TASKS[objective](model, *_some_rows(model, X, y, n_rows, rng), held_out, rng)
    settings = replace(
        _settings(model, task, names, bounds, priors), restarts=n_restarts, max_iter=max_iter, random_state=rng
    )
    task = _begun(task, settings, start, ard)
    found = climb(task.evaluate, task.kernel, task.rows, task.extra, settings)
    flat = _flat(task, found, settings)
    found = replace(found, extra={n: v * (task.unit if n == "alpha" else 1.0) for n, v in found.extra.items()})
    fitted = _with_found(model, found).fit(X, y)
    found.tell()
    return replace(as_tuning(found, objective, task.reported), flat=flat, estimator=fitted)


def as_tuning(found: Climb, objective: str, reported: Callable) -> Tuning:
    """The record of a search, values in the objective's own units."""
    return Tuning(found.kernel, found.extra, reported(found.value), objective, found.converged, found.message,
                  [reported(v) for v in found.trace], found.at_bounds)  # fmt: skip


# ------------------------------------------------------------------------------------------------ what comes in
def check_counts(**counts):
    """Refuse what is no whole number, or too small: name=(value, least)."""
    for name, (value, least) in counts.items():
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}={value!r} must be a whole number >= {least}")


def _checked(estimator, objective, start):
    """An unfitted copy, and the objective that is meant."""
    if not isinstance(estimator, KernelEstimator) or "kernel" not in estimator.get_params(deep=False):
        raise TypeError(f"tune needs an estimator of mercer with a kernel, such as SVC(), got {estimator!r}")
    if estimator._precomputed:
        raise ValueError('kernel="precomputed" has no parameters to learn; pass a kernel object such as RBF(1.0)')
    if start is not None and start not in _STARTS:
        raise ValueError(f'start={start!r} must be None, "median" or "quantiles"')
    known = next(words for kind, words in OBJECTIVES.items() if isinstance(estimator, kind))
    if objective != "auto" and objective not in known:
        raise ValueError(f"objective={objective!r} is not one of {type(estimator).__name__}; it has {', '.join(known)}")
    return clone(estimator), known[0] if objective == "auto" else objective


def _some_rows(model, X, y, n_rows, rng):
    """The rows to learn on, if their matrices fit into the memory."""
    n = _num_samples(X)
    if n_rows is not None and n_rows < n:
        index = some_of(np.arange(n), n_rows, rng)
        X, y, n = _safe_indexing(X, index), _safe_indexing(y, index), n_rows
    require(8 * _MATRICES * n * n, budget(model.memory), f"learning a kernel on {n} rows",
            ["n_rows=2000: parameters are learned on some of the rows, the estimator is fitted on all",
             'a larger budget, memory="64GB" of the estimator'])  # fmt: skip
    return X, y


def _settings(model, task, names, bounds, priors):
    """Ranges and priors, the estimator's own included; what is not named stays."""
    learned = [*task.kernel.differentiable, *task.extra]
    given = from_sklearn(model.kernel)[1] if is_sklearn_kernel(model.kernel) else {}
    own = getattr(model, "bounds", None) or {}
    limits, fixed = read_bounds({**given, **own, **(bounds or {})}, task.kernel, task.extra)
    if names is not None:
        tunable(task.kernel, [n for n in names if n not in task.extra], "names")
        fixed = (*fixed, *(n for n in learned if n not in names))
    if not set(learned) - set(fixed):
        raise ValueError(
            f"nothing is left to learn: {task.kernel!r} has {', '.join(learned) or 'no parameter with a slope'}"
        )
    priors = {**(getattr(model, "priors", None) or {}), **(priors or {})}
    unknown = [n for n in priors if n not in learned]
    if unknown:
        raise ValueError(f"priors names {unknown[0]!r}, but what is learned is {', '.join(learned)}")
    limits = {**task.limits, **limits}
    return Settings(limits=limits, fixed=fixed, priors=priors, engine=engine_of(model), memory=model.memory)


def _begun(task, settings, start, ard):
    """The task with its kernel where the search begins: at the best of the starts, by their values."""
    kernel = by_column(task.kernel, task.rows, "ard=True") if ard else task.kernel
    if start == "median" and not any(reads_distances(leaf) for leaf in kernel._leaves):
        raise ValueError(f'start="median" sets lengthscales, but {kernel!r} has none in the units of its rows')
    stay = {n: v for n, v in kernel.get_params().items() if n in settings.fixed}
    moved = [at_quantile(kernel, task.rows, q).replace(**stay) for q in _STARTS.get(start, ())]
    kernels = dict.fromkeys(moved if start == "median" else [kernel, *moved])  # without lengthscales all are one
    tasks = [replace(task, kernel=k) for k in kernels]
    return tasks[0] if len(tasks) == 1 else max(tasks, key=lambda t: _value(t, settings))


def _value(task, settings):
    try:
        return climb(task.evaluate, task.kernel, task.rows, task.extra, replace(settings, optimizer=None)).value
    except (MercerError, FloatingPointError, OverflowError):
        return -np.inf


# ------------------------------------------------------------------------------------------------ what goes out
def _with_found(model, found):
    """A copy of the estimator with what was found as its parameters."""
    settled = {"optimizer": None, "ard": False, "bounds": None, "priors": None}
    settled = settled if isinstance(model, GaussianProcess) else {}
    return clone(model).set_params(kernel=found.kernel, **found.extra, **settled)


def _flat(task, found, settings):
    """Groups of parameters inside their ranges that move without a change of the value: directions of no curvature."""
    chart = found.chart
    free = np.array([owner not in found.at_bounds for owner in chart.owners], dtype=bool)
    if not free.any() or len(chart) > _MANY:
        return []

    def slope(z):
        return value_at(task.evaluate, chart, task.rows, task.extra, settings, z)[1][free]

    steps = _STEP * np.eye(len(chart))[free]
    H = np.array([slope(found.z + e) - slope(found.z - e) for e in steps]) / (2 * _STEP)
    own, owners = np.abs(np.diagonal(H)), np.array(chart.owners)[free]
    alone, rest = owners[own <= _LEVEL], own > _LEVEL
    root = np.sqrt(own[rest])  # curvatures differ by orders of magnitude: that of a period may be a million
    values, directions = np.linalg.eigh((H + H.T)[np.ix_(rest, rest)] / (2 * np.outer(root, root)))
    groups = [owners[rest][np.abs(d) > 0.3] for d in directions.T[np.abs(values) <= _SHARE]]
    return list(dict.fromkeys(tuple(dict.fromkeys(g.tolist())) for g in [*alone[:, None], *groups]))

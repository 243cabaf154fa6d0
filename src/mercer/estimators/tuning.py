"""Kernel parameters learned by gradient: by the evidence, leave-one-out, generalised cross-validation, alignment or held-out rows
(M22)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import _num_samples

from mercer import validate
from mercer.errors import MercerError
from mercer.estimators.base import KernelEstimator
from mercer.estimators.charts import by_column, tunable
from mercer.estimators.evidence import Climb, Settings, climb, read_bounds, value_at
from mercer.estimators.gaussian_classifier import GaussianProcessClassifier
from mercer.estimators.gaussian_process import GaussianProcess, GaussianProcessRegressor, refuse_indefinite
from mercer.estimators.labels import class_factors, class_labels
from mercer.estimators.pairs import pairs_of
from mercer.estimators.ridge import KernelRidge, _require_two, _targets
from mercer.estimators.svm import SVC, SVR
from mercer.gram.plan import budget, require
from mercer.kernels.resolve import at_quantile, reads_distances
from mercer.kernels.sklearn_gp import from_sklearn, is_sklearn_kernel
from mercer.random import generator, some_of
from mercer.solvers import c_svc, epsilon_svr, gcv_gradient, loo_gradient
from mercer.solvers.alignment import alignment_gradient
from mercer.solvers.gaussian import posterior
from mercer.solvers.held_out import held_out_machine, held_out_ridge, hinge, square

__all__ = ["Tuning", "as_tuning", "ridge_criterion", "tune"]

_OBJECTIVES = {  # of each kind of estimator; the first is what "auto" means
    GaussianProcessRegressor: ("evidence", "loo"),
    GaussianProcessClassifier: ("evidence",),
    KernelRidge: ("loo", "evidence", "gcv", "alignment", "validation"),
    SVC: ("alignment", "validation"),
    SVR: ("alignment", "validation"),
    KernelEstimator: ("alignment",),
}
_QUANTILES = (0.02, 0.1, 0.25, 0.5, 0.75)  # of the distances: where lengthscales may start
_MATRICES = 5  # n x n numbers that an evaluation with its slope holds
_DOWN, _UP = 1e-8, 1e4  # how far alpha and C may go from where they start
_STEP, _LEVEL = 1e-3, 1e-6  # of differences of slopes, and curvature, relative to the largest, that is none


@dataclass(frozen=True)
class Tuning:
    """Tuned kernel, the numbers learned beside it, the objective's value there, and how the search went.

    estimator : a clone with what was found, fitted on all rows. kernel : the kernel found. extra : {"alpha": ...} or {"C": ...},
        what was learned beside it. value : of the objective, in its own units: log evidence, log density of targets that were
        left out (Gaussian processes), mean squared error (ridge, SVR), alignment, or mean squared shortfall of the margin (SVC).
    trace : its value at each evaluation. at_bounds : names of parameters that ended at a bound. flat : groups of parameters that
        can move together without a change of the value, so that the data do not determine them.
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
        lines = [f"{self.objective} {self.value:.6g} after {self.n_evaluations} evaluations", f"{self.kernel!r}{beside}"]
        lines += [f"at a bound: {', '.join(self.at_bounds)}"] if self.at_bounds else []
        lines += [f"not determined: {' with '.join(group)}" for group in self.flat]
        return "\n".join(lines + ([] if self.converged else [f"ended early: {self.message}"]))


@dataclass(frozen=True)
class _Task:
    """Something to climb. evaluate : as in `climb`. reported : from its value to that of the objective in its own units.

    limits : ranges of what is learned unless told otherwise. units : factors from `extra` to parameters of the estimator.
    """

    rows: Any
    kernel: Any
    evaluate: Callable
    extra: dict
    reported: Callable = float
    limits: dict = field(default_factory=dict)
    units: float = 1.0


def tune(estimator, X, y, objective="auto", *, names=None, ard=False, bounds=None, priors=None, start=None, n_restarts=0,
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
    start : None, "median": lengthscales start at the median distance, or "quantiles": at the best of five quantiles of the
        distances.
    n_restarts, max_iter : further starts at random places, and iterations of a search.
    n_rows : rows, drawn at random, that parameters are learned on. An evaluation holds matrices of n x n numbers; the estimator is
        fitted on all rows. None: all.
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
    model, objective = _checked(estimator, objective, start)
    check_consistent_length(X, y)
    rng = generator(random_state)
    part = _some_rows(model, X, y, n_rows, rng)
    task = _TASKS[objective](model, *part, held_out, rng)
    settings = _settings(model, task, names, bounds, priors)
    settings = replace(settings, restarts=int(n_restarts), max_iter=int(max_iter), random_state=rng)
    task, settings = _begun(task, settings, start, ard)
    found = climb(task.evaluate, task.kernel, task.rows, task.extra, settings)
    fitted = _refitted(model, found, task).fit(X, y)
    found.tell()
    return replace(as_tuning(found, objective, task.reported), flat=_flat(task, found, settings), estimator=fitted)


def as_tuning(found: Climb, objective: str, reported: Callable) -> Tuning:
    """The record of a search, values in the objective's own units."""
    return Tuning(found.kernel, found.extra, reported(found.value), objective, found.converged, found.message,
                  [reported(v) for v in found.trace], found.at_bounds)  # fmt: skip


# ------------------------------------------------------------------------------------------------ what comes in
def _checked(estimator, objective, start):
    """An unfitted copy, and the objective that is meant."""
    if not isinstance(estimator, KernelEstimator) or "kernel" not in estimator.get_params(deep=False):
        raise TypeError(f"tune needs an estimator of mercer with a kernel, such as KernelRidge() or SVC(), got {estimator!r}")
    if estimator._precomputed:
        raise ValueError('kernel="precomputed" has no parameters to learn; pass a kernel object such as RBF(1.0)')
    if start not in (None, "median", "quantiles"):
        raise ValueError(f'start={start!r} must be None, "median" or "quantiles"')
    known = next(words for kind, words in _OBJECTIVES.items() if isinstance(estimator, kind))
    if objective != "auto" and objective not in known:
        raise ValueError(f"objective={objective!r} is not one of {type(estimator).__name__}; it has {', '.join(known)}")
    return clone(estimator), known[0] if objective == "auto" else objective


def _some_rows(model, X, y, n_rows, rng):
    """The rows to learn on, if their matrices fit into the memory."""
    n = _num_samples(X)
    if n_rows is not None:
        if not 2 <= n_rows:
            raise ValueError(f"n_rows={n_rows!r} must be at least 2")
        index = some_of(np.arange(n), int(n_rows), rng)
        X, y, n = _safe_indexing(X, index), _safe_indexing(y, index), len(index)
    require(8 * _MATRICES * n * n, budget(model.memory), f"learning a kernel on {n} rows",
            ["n_rows=2000: parameters are learned on some of the rows, the estimator is fitted on all",
             'a larger budget, memory="64GB" of the estimator'])  # fmt: skip
    return X, y


def _settings(model, task, names, bounds, priors):
    """Ranges and priors, the estimator's own included; what is not named stays."""
    given = from_sklearn(model.kernel)[1] if is_sklearn_kernel(model.kernel) else {}
    own = getattr(model, "bounds", None) or {}
    limits, fixed = read_bounds({**given, **own, **(bounds or {})}, task.kernel, task.extra)
    if names is not None:
        tunable(task.kernel, [n for n in names if n not in task.extra], "names")
        fixed = (*fixed, *(n for n in (*task.kernel.differentiable, *task.extra) if n not in names))
    priors = {**(getattr(model, "priors", None) or {}), **(priors or {})}
    unknown = [n for n in priors if n not in task.kernel.get_params() and n not in task.extra]
    if unknown:
        raise ValueError(f"priors names {unknown[0]!r}, but what is learned is "
                         f"{', '.join([*task.kernel.differentiable, *task.extra]) or 'nothing'}")  # fmt: skip
    return Settings(limits={**task.limits, **limits}, fixed=fixed, priors=priors, engine=model.engine, memory=model.memory)


def _begun(task, settings, start, ard):
    """The task with its kernel where the search begins: at the best of the starts, by their values."""
    kernel = by_column(task.kernel, task.rows, "ard=True") if ard else task.kernel
    if start is not None and not any(reads_distances(leaf) for leaf in kernel._leaves):
        raise ValueError(f"start={start!r} sets lengthscales, but {kernel!r} has none in the units of its rows")
    quantiles = {None: (), "median": (0.5,), "quantiles": _QUANTILES}[start]
    kernels = [at_quantile(kernel, task.rows, q) for q in quantiles] or [kernel]
    tasks = [replace(task, kernel=k) for k in kernels]
    return max(tasks, key=lambda t: _value(t, settings)) if len(tasks) > 1 else tasks[0], settings


def _value(task, settings):
    still = replace(settings, optimizer=None, fixed=(*task.kernel.differentiable, *task.extra))
    try:
        return climb(task.evaluate, task.kernel, task.rows, task.extra, still).value
    except (MercerError, FloatingPointError, OverflowError):
        return -np.inf


# ------------------------------------------------------------------------------------------------ objectives
def _process(model, X, y):
    rows, T, H, kernel, noise, extra = model._prepared(X, y)
    scale = float(model.y_scale_[0]) ** 2 if len(model.y_scale_) == 1 else 1.0
    limits = model._settings(kernel, extra).limits
    return noise, T, H, lambda evaluate: _Task(rows, kernel, evaluate, extra, limits=limits, units=scale)


def _evidence(model, X, y, held_out, rng):
    if isinstance(model, GaussianProcessRegressor):
        noise, T, H, task = _process(model, X, y)
        return task(model._evidence(noise, T, H))
    if isinstance(model, GaussianProcessClassifier):
        rows, codes, kernel = model._prepared(X, y)
        return _Task(rows, kernel, model._evidence(codes, len(model.classes_), model.max_iter_predict), {})
    rows, kernel, Y, scale, extra = _ridge(model, X, y)
    refuse_indefinite(kernel, rows)
    if not np.ptp(Y, axis=0).any() and (model.fit_intercept or not Y.any()):
        raise ValueError("y is constant, so that every kernel explains it; there is nothing to learn")
    H = np.ones((len(Y), 1)) if model.fit_intercept else np.zeros((len(Y), 0))
    shift = (len(Y) - H.shape[1]) * Y.shape[1] * np.log(scale)  # the density is that of the targets as they came
    return _Task(rows, kernel, _profiled_evidence(Y, H), extra, lambda v: float(v - shift), _wide(extra))


def _profiled_evidence(Y, H):
    def evaluate(K, extra, slope):
        found = posterior(_matrix(K), extra["alpha"], Y, H, warn=False)
        value, variance = found.profiled()
        if not slope:
            return value, None, {}
        W = found.slope(overwrite=True, variance=variance)
        return value, W, {"alpha": float(np.trace(W))}

    return evaluate


def _leave_one_out(model, X, y, held_out, rng):
    if isinstance(model, GaussianProcessRegressor):
        noise, T, H, task = _process(model, X, y)
        shift = len(T) * float(np.log(model.y_scale_).sum())
        return replace(task(model._left_out(noise, T, H)), reported=lambda v: float(v - shift))
    return _by_criterion(loo_gradient, model, X, y)


def _gcv(model, X, y, held_out, rng):
    return _by_criterion(gcv_gradient, model, X, y)


def _by_criterion(gradient, model, X, y):
    rows, kernel, Y, scale, extra = _ridge(model, X, y)
    _require_two(len(Y))
    evaluate, reported = ridge_criterion(gradient, Y, None, model.fit_intercept, scale)
    return _Task(rows, kernel, evaluate, extra, reported, _wide(extra))


def ridge_criterion(gradient, Y, root_weight, intercept, scale):
    """Minus the log of a criterion of ridge regression as something to climb, and the way back to the criterion.

    gradient : `loo_gradient` or `gcv_gradient`. scale : what targets of magnitude one are multiples of.
    """

    def evaluate(K, extra, slope):
        value, W, by_alpha = gradient(_matrix(K), Y, extra["alpha"], root_weight, intercept)
        return _minus_log(value, W, {"alpha": by_alpha})

    return evaluate, _from_log(scale)


def _minus_log(value, W, by_extra):
    """An error, of numbers of magnitude one, on a scale on which its relative changes count."""
    value += np.finfo(float).eps ** 2  # below this the logarithm is of rounding
    return -np.log(value), W * (-1.0 / value), {name: -slope / value for name, slope in by_extra.items()}


def _from_log(scale):
    return lambda v: float(np.exp(-v)) * scale**2


def _alignment(model, X, y, held_out, rng):
    rows, y, _ = model._validated_training(X, y, None, multi_output=True)
    rows = validate.double(rows)
    T = _indicators(y) if is_classifier(model) or np.asarray(y).dtype.kind not in "fiu" else _numbers(y)
    if not np.ptp(T, axis=0).any():
        raise ValueError("y is constant, so that there is nothing to align a kernel with")

    n = len(T)

    def evaluate(K, extra, slope):  # times n: the search ends where slopes are small beside 1
        value, W = alignment_gradient(_matrix(K), T)
        return n * value, n * W, {}

    return _Task(rows, model._kernel()._resolved(rows, None), evaluate, {}, lambda v: float(v / n))


def _indicators(y):
    """One column for each class."""
    classes, codes = class_labels(y)
    return (codes[:, None] == np.arange(len(classes))).astype(np.float64)


def _numbers(y):
    """Targets as columns of magnitude one."""
    T = np.asarray(y, np.float64).reshape(len(y), -1)
    return T / (np.abs(T).max() or 1.0)


def _validation(model, X, y, held_out, rng):
    if not 0 < held_out < 1:
        raise ValueError(f"held_out={held_out!r} must lie between 0 and 1: the share of the rows that are held out")
    if isinstance(model, KernelRidge):
        return _held_out_ridge(model, X, y, held_out, rng)
    rows, y, _ = model._validated_training(X, y, None, y_numeric=isinstance(model, SVR))
    rows = validate.double(rows)
    codes = class_labels(y)[1] if isinstance(model, SVC) else None
    order, t = _split(len(y), held_out, rng, codes)
    rows, kernel = validate.take(rows, order), model._kernel()._resolved(rows, None)
    evaluate, scale = (_held_out_pairs(model, codes[order], t) if codes is not None
                       else _held_out_svr(model, np.asarray(y, np.float64)[order], t))  # fmt: skip
    extra = {"C": float(model.C)}
    return _Task(rows, kernel, evaluate, extra, _from_log(scale), _wide(extra))


def _held_out_ridge(model, X, y, held_out, rng):
    rows, kernel, Y, scale, extra = _ridge(model, X, y)
    order, t = _split(len(Y), held_out, rng, None)
    Y = Y[order]

    def evaluate(K, extra, slope):
        value, W, by_alpha = held_out_ridge(_matrix(K), Y, t, extra["alpha"], model.fit_intercept)
        return _minus_log(value, W, {"alpha": by_alpha})

    return _Task(validate.take(rows, order), kernel, evaluate, extra, _from_log(scale), _wide(extra))


def _held_out_svr(model, y, t):
    """The squared error of a machine on the rows from t on."""

    def evaluate(K, extra, slope):
        C = np.full(t, extra["C"])
        value, W, by_price = held_out_machine(_matrix(K), y, t, epsilon_svr(y[:t], C, model.epsilon), "epsilon_svr", square)
        n = (len(y) - t) * scale**2
        return _minus_log(value / n, W / n, {"C": by_price / n / extra["C"]})

    scale = float(np.abs(y).max()) or 1.0
    return evaluate, scale


def _held_out_pairs(model, codes, t):
    """What is missing to margins on the rows from t on, over the machines of all pairs of classes."""
    classes = np.unique(codes)
    factors = class_factors(model.class_weight, classes, codes[:t], np.ones(t))
    pairs = [_sorted(*pair.rows(codes)) for pair in pairs_of(len(classes), model.multi_class)]
    total = sum(int((inside >= t).sum()) for inside, _ in pairs)

    def evaluate(K, extra, slope):
        dense, value, by_price = _matrix(K), 0.0, 0.0
        W = np.zeros_like(dense)
        for inside, y in pairs:
            some, u = np.ix_(inside, inside), int((inside < t).sum())
            problem = c_svc(y[:u], extra["C"] * factors[codes[inside[:u]]])
            loss, slopes, by = held_out_machine(dense[some], y, u, problem, "c_svc", hinge)
            value, by_price = value + loss / total, by_price + by / total
            W[some] += slopes / total
        return _minus_log(value, W, {"C": by_price / extra["C"]})

    return evaluate, 1.0


def _sorted(inside, y):
    """Rows of the fit before those held out."""
    order = np.argsort(inside)
    return inside[order], y[order]


_TASKS = {"evidence": _evidence, "loo": _leave_one_out, "gcv": _gcv, "alignment": _alignment, "validation": _validation}


# ------------------------------------------------------------------------------------------------ shared
def _ridge(model, X, y):
    """Rows in float64, the kernel resolved on them, targets of magnitude one, their scale, and where alpha starts."""
    model._validate_params()
    rows, y, _ = model._validated_training(X, y, None, multi_output=True, y_numeric=True)
    rows = validate.double(rows)
    if np.size(model.alpha) != 1 or not np.all(np.asarray(model.alpha) > 0):
        raise ValueError(f"alpha={model.alpha!r} must be one number > 0 to be learned; start from alpha=1.0, for example")
    Y, scale = _targets(rows, y)
    return rows, model._kernel()._resolved(rows, None), Y.astype(np.float64), scale, {"alpha": float(np.ravel(model.alpha)[0])}


def _wide(extra):
    return {name: (_DOWN * value, _UP * value) for name, value in extra.items()}


def _split(n, held_out, rng, codes):
    """Rows of the fit before those held out, with as large a share of each class, and how many they are."""
    index, seed = np.arange(n), int(rng.integers(2**31))
    try:
        fit, held = train_test_split(index, test_size=held_out, random_state=seed, stratify=codes)
    except ValueError as error:
        raise ValueError(f"held_out={held_out!r} of {n} rows leaves too few for a fit or to measure it: {error}") from None
    return np.concatenate([np.sort(fit), np.sort(held)]), len(fit)


def _matrix(K):
    return K.dense().astype(np.float64, copy=False)


def _refitted(model, found, task):
    """A copy of the estimator with what was found as its parameters."""
    units = {"alpha": task.units}
    extra = {name: value * units.get(name, 1.0) for name, value in found.extra.items()}
    settled = {"optimizer": None, "ard": False, "bounds": None, "priors": None} if isinstance(model, GaussianProcess) else {}
    return clone(model).set_params(kernel=found.kernel, **extra, **settled)


def _flat(task, found, settings):
    """Groups of parameters inside their ranges that move without a change of the value: directions of no curvature."""
    chart = found.chart
    free = np.array([owner not in found.at_bounds for owner in chart._owners], dtype=bool)
    if not free.any():
        return []

    def slope(z):
        return value_at(task.evaluate, chart, task.rows, task.extra, settings, z)[1][free]

    steps = _STEP * np.eye(len(chart))[free]
    H = np.array([slope(found.z + e) - slope(found.z - e) for e in steps]) / (2 * _STEP)
    values, directions = np.linalg.eigh((H + H.T) / 2)
    level = _LEVEL * max(np.abs(values).max(), _LEVEL)
    owners = np.array(chart._owners)[free]
    groups = [tuple(dict.fromkeys(owners[np.abs(d) > 0.3].tolist())) for d in directions.T[np.abs(values) <= level]]
    return list(dict.fromkeys(groups))

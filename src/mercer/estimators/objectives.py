"""What a kernel can be learned by: the evidence, leave-one-out, generalised cross-validation, alignment, held-out rows (M22).

An objective is made into something to climb, a function of a Gram matrix with slopes, for each kind of estimator that has it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import train_test_split

from mercer import validate
from mercer.estimators.base import KernelEstimator
from mercer.estimators.gaussian_classifier import GaussianProcessClassifier
from mercer.estimators.gaussian_process import GaussianProcessRegressor, refuse_indefinite
from mercer.estimators.labels import class_factors, class_labels
from mercer.estimators.pairs import pairs_of
from mercer.estimators.ridge import KernelRidge, _require_two, _targets
from mercer.estimators.svm import SVC, SVR
from mercer.linalg.tensors import diagonal_of
from mercer.solvers import c_svc, epsilon_svr, gcv_gradient, loo_gradient
from mercer.solvers.alignment import alignment_gradient
from mercer.solvers.gaussian import posterior
from mercer.solvers.held_out import held_out_machine, held_out_ridge, hinge, square

__all__ = ["OBJECTIVES", "TASKS", "Task", "ridge_criterion"]

OBJECTIVES: dict[type, tuple[str, ...]] = {  # of each kind of estimator; the first is what "auto" means
    GaussianProcessRegressor: ("evidence", "loo"),
    GaussianProcessClassifier: ("evidence",),
    KernelRidge: ("loo", "evidence", "gcv", "alignment", "validation"),
    SVC: ("alignment", "validation"),
    SVR: ("alignment", "validation"),
    KernelEstimator: ("alignment",),
}
_DOWN, _UP = 1e-8, 1e4  # how far alpha and C may go from where they start
_RAISED = 10.0  # factor of an alignment, which is at most 1: a search ends where slopes are small, and leaps where they are large


@dataclass(frozen=True)
class Task:
    """Something to climb. evaluate : as in `climb`. reported : from its value to that of the objective in its own units.

    limits : ranges of what is learned unless told otherwise. unit : of alpha, in that of the estimator's parameter.
    """

    rows: Any
    kernel: Any
    evaluate: Callable
    extra: dict
    reported: Callable = float
    limits: dict = field(default_factory=dict)
    unit: float = 1.0


# ------------------------------------------------------------------------------------------------ evidence
def _evidence(model, X, y, held_out, rng):
    if isinstance(model, GaussianProcessRegressor):
        return _process(model, X, y, "evaluate")
    if isinstance(model, GaussianProcessClassifier):
        rows, codes, kernel = model._prepared(X, y)
        return Task(rows, kernel, model._evidence(codes, len(model.classes_), model.max_iter_predict), {})
    r = _ridge(model, X, y)
    refuse_indefinite(r.kernel, r.rows)
    if not np.ptp(r.Y, axis=0).any() and (model.fit_intercept or not r.Y.any()):
        raise ValueError("y is constant, so that every kernel explains it; there is nothing to learn")
    H = np.ones((len(r.Y), 1)) if model.fit_intercept else np.zeros((len(r.Y), 0))
    shift = (len(r.Y) - H.shape[1]) * r.Y.shape[1] * np.log(r.scale)  # the density is that of the targets as they came
    return r.task(_profiled_evidence(r.Y, H), lambda v: float(v - shift))


def _process(model, X, y, objective):
    kernel, exact, extra = model._prepared(X, y)
    unit = float(model.y_scale_[0]) ** 2 if len(model.y_scale_) == 1 else 1.0
    limits = model._settings(kernel, extra).limits
    return Task(exact.seen.rows, kernel, getattr(exact, objective), extra, limits=limits, unit=unit)


def _profiled_evidence(Y, H):
    """The evidence at the best common scale of kernel and noise, which a ridge does not know."""

    def evaluate(K, extra, slope):
        found = posterior(K.matrix(np.float64), extra["alpha"], Y, H, warn=False)
        value, variance = found.profiled()
        if not slope:
            return value, None, {}
        W = found.slope(overwrite=True, variance=variance)
        return value, W, {"alpha": float(diagonal_of(W).sum())}

    return evaluate


# ------------------------------------------------------------------------------------------------ leave-one-out and the like
def _leave_one_out(model, X, y, held_out, rng):
    if isinstance(model, GaussianProcessRegressor):
        task = _process(model, X, y, "left_out")
        shift = len(model.y_scale_) and validate.n_rows(task.rows) * float(np.log(model.y_scale_).sum())
        return replace(task, reported=lambda v: float(v - shift))
    return _by_criterion(loo_gradient, model, X, y)


def _gcv(model, X, y, held_out, rng):
    return _by_criterion(gcv_gradient, model, X, y)


def _by_criterion(gradient, model, X, y):
    r = _ridge(model, X, y)
    rows, Y, w, _ = validate.merged(
        r.rows, r.Y, None
    )  # a row that is there twice is not left out by leaving one of them
    _require_two(len(Y))
    root = None if w is None else np.sqrt(w)
    return r._replace(rows=rows).task(*ridge_criterion(gradient, Y, root, model.fit_intercept, r.scale))


def ridge_criterion(gradient, Y, root_weight, intercept, scale):
    """Minus the log of a criterion of ridge regression as something to climb, and the way back to the criterion.

    gradient : `loo_gradient` or `gcv_gradient`. scale : what the targets, of magnitude one, were divided by.
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


# ------------------------------------------------------------------------------------------------ alignment
def _alignment(model, X, y, held_out, rng):
    rows, y, _ = model._validated_training(X, y, None, multi_output=True)
    rows = validate.double(rows)
    T = _indicators(y) if is_classifier(model) or np.asarray(y).dtype.kind not in "fiu" else _numbers(y)
    if not np.ptp(T, axis=0).any():
        raise ValueError("y is constant, so that there is nothing to align a kernel with")

    def evaluate(K, extra, slope):
        value, W = alignment_gradient(_matrix(K), T)
        return _RAISED * value, _RAISED * W, {}

    return Task(rows, model._kernel()._resolved(rows, None), evaluate, {}, lambda v: float(v / _RAISED))


def _indicators(y):
    """One column for each class."""
    classes, codes = class_labels(y)
    return (codes[:, None] == np.arange(len(classes))).astype(np.float64)


def _numbers(y):
    """Targets as columns of magnitude one."""
    T = np.asarray(y, np.float64).reshape(len(y), -1)
    return T / (np.abs(T).max() or 1.0)


# ------------------------------------------------------------------------------------------------ rows held out
def _validation(model, X, y, held_out, rng):
    if not 0 < held_out < 1:
        raise ValueError(f"held_out={held_out!r} must lie between 0 and 1: the share of the rows that are held out")
    if isinstance(model, KernelRidge):
        return _held_out_ridge(model, X, y, held_out, rng)
    rows, y, _ = model._validated_training(X, y, None, y_numeric=isinstance(model, SVR))
    rows = validate.double(rows)
    codes = class_labels(y)[1] if isinstance(model, SVC) else None
    order, t = _split(len(y), held_out, rng, codes)
    if codes is None:
        evaluate, scale = _held_out_numbers(model, np.asarray(y, np.float64)[order], t)
    else:
        evaluate, scale = _held_out_classes(model, codes[order], t)
    extra, kernel = {"C": float(model.C)}, model._kernel()._resolved(rows, None)
    return Task(validate.take(rows, order), kernel, evaluate, extra, _from_log(scale), _wide(extra))


def _held_out_ridge(model, X, y, held_out, rng):
    r = _ridge(model, X, y)
    order, t = _split(len(r.Y), held_out, rng, None)
    Y = r.Y[order]

    def evaluate(K, extra, slope):
        value, W, by_alpha = held_out_ridge(_matrix(K), Y, t, extra["alpha"], model.fit_intercept)
        return _minus_log(value, W, {"alpha": by_alpha})

    return r._replace(rows=validate.take(r.rows, order)).task(evaluate, _from_log(r.scale))


def _held_out_numbers(model, y, t):
    """The squared error of a machine on the rows from t on, and the scale of the targets."""
    scale = float(np.abs(y).max()) or 1.0
    total = (len(y) - t) * scale**2

    def evaluate(K, extra, slope):
        problem = epsilon_svr(y[:t], np.full(t, extra["C"]), model.epsilon)
        value, W, by_price = held_out_machine(_matrix(K), y, t, problem, "epsilon_svr", square)
        return _minus_log(value / total, W / total, {"C": by_price / total / extra["C"]})

    return evaluate, scale


def _held_out_classes(model, codes, t):
    """What is missing to margins on the rows from t on, over the machines of all pairs of classes, and its scale."""
    classes = np.unique(codes)
    factors = class_factors(model.class_weight, classes, codes[:t], np.ones(t))
    pairs = [_in_order(*pair.rows(codes)) for pair in pairs_of(len(classes), model.multi_class)]
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


def _in_order(inside, y):
    """Rows of the fit before those held out."""
    order = np.argsort(inside)
    return inside[order], y[order]


def _split(n, held_out, rng, codes):
    """Rows of the fit before those held out, the same share of each class, and how many they are."""
    index, seed = np.arange(n), int(rng.integers(2**31))
    try:
        fit, held = train_test_split(index, test_size=held_out, random_state=seed, stratify=codes)
    except ValueError as error:
        said = f"held_out={held_out!r} of {n} rows leaves too few for a fit or to measure it: {error}"
        raise ValueError(said) from None
    return np.concatenate([np.sort(fit), np.sort(held)]), len(fit)


TASKS: dict[str, Callable[..., Task]] = {
    "evidence": _evidence,
    "loo": _leave_one_out,
    "gcv": _gcv,
    "alignment": _alignment,
    "validation": _validation,
}


# ------------------------------------------------------------------------------------------------ shared
class _Ridge(NamedTuple):
    """A ridge problem: rows in float64, the kernel resolved on them, targets of magnitude one, their scale, a first alpha."""

    rows: Any
    kernel: Any
    Y: np.ndarray
    scale: float
    alpha: float

    def task(self, evaluate, reported):
        extra = {"alpha": self.alpha}
        return Task(self.rows, self.kernel, evaluate, extra, reported, _wide(extra))


def _ridge(model, X, y):
    model._validate_params()
    if np.size(model.alpha) != 1 or not np.all(np.asarray(model.alpha) > 0):
        raise ValueError(f"alpha={model.alpha!r} must be one number > 0 to be learned; start from 1.0, for example")
    rows, y, _ = model._validated_training(X, y, None, multi_output=True, y_numeric=True)
    rows = validate.double(rows)
    Y, scale = _targets(rows, y)
    return _Ridge(
        rows, model._kernel()._resolved(rows, None), Y.astype(np.float64), scale, float(np.ravel(model.alpha)[0])
    )


def _wide(extra):
    return {name: (_DOWN * value, _UP * value) for name, value in extra.items()}


def _matrix(K):
    return K.dense().astype(np.float64, copy=False)

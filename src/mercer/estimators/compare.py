"""Several kernel machines on one problem, tuned alike: what they reach, how many vectors they keep, how long they take."""

import re
import time
import warnings
from collections import Counter
from dataclasses import dataclass, fields
from inspect import signature
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, ParameterGrid, StratifiedKFold, check_cv, train_test_split
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import type_of_target

from mercer.errors import NanError
from mercer.estimators.budget import BudgetKernelClassifier, BudgetKernelRegressor
from mercer.estimators.logistic import KernelLogistic
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.rvm import RVMClassifier, RVMRegressor
from mercer.estimators.svm import SVC, SVR
from mercer.estimators.vector_machines import L1VMClassifier, L1VMRegressor, L2VMClassifier, L2VMRegressor
from mercer.kernels import RBF, Kernel, as_kernel
from mercer.random import generator

__all__ = ["Comparison", "MachineResult", "compare_machines"]

_TASKS = ("auto", "classification", "regression")
_WIDTHS = (2.0, 1.0, 0.5, 0.25)  # multiples of the median distance, from smooth to rough
_PENALTIES = (100.0, 10.0, 1.0, 0.1, 0.01, 0.001)  # likewise
_BUDGET, _FEWEST, _MOST = 0.05, 10, 100  # vectors of machines on a budget: a share of the training rows, between these
_TUBES = (0.3, 0.1)  # half widths of a tube of no loss, in standard deviations of the targets
_PAUSE = 1.0  # seconds between lines of progress
_REPEATS = 3  # predictions of which the quickest is timed
_NUMBER = re.compile(r"[-+]?[0-9][0-9.]*(e[-+]?[0-9]+)?")
_SHOWN = ("machine", "error", "vectors", "log loss", "tuning s", "fit s", "predict s")


@dataclass(frozen=True)
class MachineResult:
    """A line of the table.

    error : share of wrong classes, or root mean squared error, on the test rows. n_vectors : stored vectors that take part;
        None for a model that is no kernel expansion. log_loss : mean of minus the log of the probability, or density, given
        to what came; None where a machine gives none.
    tuning_seconds, fit_seconds, predict_seconds : of all fits of the choice, of the last fit, of predicting the test rows.
    cv_error : the mean error over the folds at the `parameters` that were chosen. model : fitted on all training rows.
    n_warnings, warned : how many warnings the fits of the choice gave, and {what was said first: how often}.
    n_failed : settings that could not be fitted. failure : why there is no model, else None; numbers are then nan.
    """

    name: str
    error: float
    n_vectors: int | None
    log_loss: float | None
    tuning_seconds: float
    fit_seconds: float
    predict_seconds: float
    cv_error: float
    n_warnings: int
    n_failed: int
    failure: str | None
    warned: dict
    parameters: dict
    model: Any


@dataclass(frozen=True)
class Comparison:
    """What `compare_machines` gives: `results`, one for each machine, also by name in brackets; prints as a table.

    task : "classification" or "regression". n_train, n_test : rows. `mercer.plots.ComparisonDisplay` draws it.
    """

    results: tuple[MachineResult, ...]
    task: str
    n_train: int
    n_test: int

    def __getitem__(self, name) -> MachineResult:
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"{name!r} is none of {', '.join(r.name for r in self.results)}")

    def as_dict(self) -> dict[str, list]:
        """Columns by name: one list for each number of the results, in the order of the machines."""
        kept = [f.name for f in fields(MachineResult) if f.name not in ("warned", "parameters", "model")]
        return {name: [getattr(r, name) for r in self.results] for name in kept}

    def to_pandas(self):
        """The table as a pandas DataFrame, indexed by the names of the machines."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas; as_dict() needs nothing") from None
        return pd.DataFrame(self.as_dict()).set_index("name")

    def __str__(self):
        kind = "share of wrong classes" if self.task == "classification" else "root mean squared error"
        head = f"{self.task}, {self.n_train} training and {self.n_test} test rows; error: {kind}"
        rows = [_SHOWN, *(_cells(r) for r in self.results)]
        widths = [max(len(row[j]) for row in rows) for j in range(len(_SHOWN))]
        lines = [_line(row, widths) for row in rows]
        return "\n".join([head, *lines, *(note for r in self.results for note in _notes(r))])


def _line(row, widths):
    """The name on the left, numbers on the right of their columns."""
    cells = [c.rjust(w) if j else c.ljust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(cells).rstrip()


def _cells(r):
    if r.failure is not None:
        return (r.name, "failed", *["-"] * (len(_SHOWN) - 2))
    seconds = (f"{s:.2g}" for s in (r.tuning_seconds, r.fit_seconds, r.predict_seconds))
    return (r.name, f"{r.error:.4f}" if 1e-3 < r.error < 1e4 else f"{r.error:.4g}",
            "-" if r.n_vectors is None else str(r.n_vectors), "-" if r.log_loss is None else f"{r.log_loss:.3f}",
            *seconds)  # fmt: skip


def _notes(r):
    """What is said below the table: failures, and warnings of the fits of the choice."""
    if r.failure is not None:
        yield f"{r.name} failed: {r.failure}"
    elif r.n_failed:
        yield f"{r.name}: settings that could not be fitted: {r.n_failed}"
    if r.n_warnings:
        said, times = max(r.warned.items(), key=lambda pair: pair[1])
        yield f"{r.name}: warnings in tuning: {r.n_warnings}, of which {times} times: {said}"


def compare_machines(X, y, *, machines=None, kernel=None, task="auto", X_test=None, y_test=None, test_size=0.3, cv=5,
                     random_state=0, verbose=False) -> Comparison:  # fmt: skip
    """Fit support, L2, L1 and relevance vector machines, ridge or logistic regression and a budget machine to one problem.

    Each machine chooses its settings by cross-validation on the same folds of the training rows, is fitted to all of these,
    and meets the test rows once. All choose among the same four widths of a Gaussian kernel, multiples of the median distance
    of the training rows, so that columns should be of one scale; and among six penalties, alpha from 100 to 0.001 and
    C = 1 / alpha, for numbers in units of their standard deviation where a penalty has one. Of settings with equal errors
    the smoothest is taken. Support vector regression also chooses the tube of no loss, one of two; the relevance vector
    machine has no penalty to choose. The budget machine keeps one vector for twenty training rows, but 10 at least and 100 at
    most, and has logistic loss.

    Parameters
    ----------
    X, y : rows and targets (n,): labels, or numbers.
    machines : names of those to fit: "SVM", "L2VM", "L1VM", "RVM", "budget" and, of classes, "logistic" or, of numbers, "ridge".
        Or your own, {name: (estimator, grid)}, with grids as in scikit-learn's `ParameterGrid`, the smoothest setting first.
        None: all.
    kernel : a kernel, or a list to choose among, in place of the four Gaussian ones. Rows that are no numbers need one.
    task : "classification", "regression", or "auto": whole numbers and words are classes, other numbers are not.
    X_test, y_test : rows that errors are counted on. Without them a share `test_size` of X is kept apart.
    cv : number of folds, or a splitter of scikit-learn's.
    random_state : of folds, of the rows kept apart, and of machines that have one.
    verbose : print the progress.

    Returns
    -------
    A `Comparison`, which prints as a table. A machine that cannot be fitted is told there, and the others go on. Warnings of
    fits that only served the choice are counted and told below the table; those of the last fits are raised as usual.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import compare_machines
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-9, 9, (80, 1))
    >>> found = compare_machines(
    ...     X, np.sinc(X[:, 0] / 3) + 0.1 * rng.standard_normal(80), machines=["RVM", "ridge"], cv=3
    ... )
    >>> found["RVM"].n_vectors < found["ridge"].n_vectors
    True

    Tipping (2001), section 4, compares the first four so.
    """
    task, y = _task(task, y, X)
    _check_splits(cv, test_size)
    seed = int(generator(random_state).integers(2**31))
    X, y, X_test, y_test = _parts(X, y, X_test, y_test, task, test_size, seed)
    chosen = _chosen(machines, task, kernel, X, y, seed)
    folds = _folds(cv, X, y, task, seed)
    runs = (_Run(name, model, grid, folds, verbose) for name, (model, grid) in chosen.items())
    results = tuple(run.result(X, y, X_test, y_test) for run in runs)
    if all(r.failure is not None for r in results):
        said = "; ".join(f"{r.name}: {r.failure}" for r in results)
        raise ValueError(f"none of the machines could be fitted. {said}")
    return Comparison(results, task, len(y), len(y_test))


# ------------------------------------------------------------------------------------------------ what comes in
def _task(task, y, X):
    """The task, and checked targets."""
    if task not in _TASKS:
        raise ValueError(f"task={task!r} must be one of {', '.join(_TASKS)}")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    if not len(y):
        raise ValueError("X and y hold no rows")
    if y.dtype.kind in "fc" and not np.isfinite(y).all():
        raise NanError("y holds NaN or infinity; leave these rows out")
    if task == "auto":
        task = "regression" if type_of_target(y).startswith("continuous") else "classification"
    if task == "classification" and len(np.unique(y)) < 2:
        raise ValueError(f"y holds one class, {y[0]}: there is nothing to tell apart")
    return task, (y if task == "classification" else y.astype(np.float64))


def _check_splits(cv, test_size):
    if isinstance(cv, Integral) and (isinstance(cv, bool) or cv < 2):
        raise ValueError(f"cv={cv!r} must be at least 2 folds, or a splitter")
    if not isinstance(test_size, (int, float)) or isinstance(test_size, bool) or not test_size > 0:
        raise ValueError(f"test_size={test_size!r} must be a share between 0 and 1, or a number of rows")


def _parts(X, y, X_test, y_test, task, test_size, seed):
    """Training rows and targets, test rows and targets."""
    classes = task == "classification"
    if (X_test is None) != (y_test is None):
        raise ValueError("pass X_test and y_test together, or neither")
    if X_test is not None:
        return X, y, X_test, _test_targets(X, y, X_test, y_test, classes)
    if classes and np.unique(y, return_counts=True)[1].min() < 2:
        raise ValueError("y holds a class of one row, which cannot be in training and test rows; pass X_test, y_test")
    split = {"test_size": test_size, "random_state": seed, "stratify": y if classes else None}
    X, X_test, y, y_test = train_test_split(X, y, **split)
    return X, y, X_test, y_test


def _test_targets(X, y, X_test, y_test, classes):
    """The user's, checked against training rows and targets."""
    y_test = column_or_1d(y_test)
    check_consistent_length(X_test, y_test)
    widths = [shape[1] for shape in (getattr(rows, "shape", ()) for rows in (X, X_test)) if len(shape) == 2]
    if len(set(widths)) > 1:
        raise ValueError(f"X_test has {widths[1]} columns, but X has {widths[0]}")
    new = np.setdiff1d(y_test, y) if classes else ()
    if len(new):
        raise ValueError(f"y_test holds {new[0]}, which is no class of y")
    return y_test


def _folds(cv, X, y, task, seed):
    """(training, test) numbers of rows, the same for all machines."""
    classes = task == "classification"
    if isinstance(cv, Integral):
        smallest = np.unique(y, return_counts=True)[1].min() if classes else len(y)
        if smallest < cv:
            what = (
                f"the smallest class has {smallest} training rows" if classes else f"there are {smallest} training rows"
            )
            raise ValueError(f"cv={cv} folds need as many rows, and {what}; use fewer folds, or more rows")
        cv = (StratifiedKFold if classes else KFold)(int(cv), shuffle=True, random_state=seed)
    return list(check_cv(cv, y, classifier=classes).split(np.zeros((len(y), 1)), y))


def _kernels(kernel, X) -> list[Kernel]:
    if kernel is not None:
        given = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel]
        if not given or "precomputed" in [k for k in given if isinstance(k, str)]:
            raise ValueError(f"kernel={kernel!r}: pass a kernel of rows, or a list of them")
        return [as_kernel(k) for k in given]
    median = RBF("median")._resolved(RBF().validated(X), None).lengthscale
    return [RBF(c * float(median)) for c in _WIDTHS]


def _chosen(machines, task, kernel, X, y, seed) -> dict[str, tuple]:
    """{name: (estimator, grid)}."""
    if isinstance(machines, dict):
        return _own(machines, task)
    known = _machines(task, _kernels(kernel, X), float(np.std(y)) if task == "regression" else 1.0, len(y))
    names = list(known) if machines is None else [machines] if isinstance(machines, str) else list(machines)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        said = f"{unknown[0]!r} is no machine" if unknown else "machines is empty"
        raise ValueError(f"{said} for {task}; there are {', '.join(known)}")
    for estimator, _ in known.values():
        if hasattr(estimator, "random_state"):
            estimator.set_params(random_state=seed)
    return {name: known[name] for name in names}


def _own(machines, task):
    """The user's machines, checked."""
    if not machines:
        raise ValueError("machines is empty; leave it out for all, or name some")
    kind = is_classifier if task == "classification" else is_regressor
    for name, pair in machines.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not hasattr(pair[0], "fit"):
            raise TypeError(f"machines[{name!r}] must be a pair (estimator, grid), got {pair!r}")
        if not kind(pair[0]):
            raise ValueError(f"machines[{name!r}] is {type(pair[0]).__name__}, which is not for {task}")
        for setting in ParameterGrid(pair[1]):
            clone(pair[0]).set_params(**setting)
    return {str(name): tuple(pair) for name, pair in machines.items()}


def _machines(task, kernels, scale, n):
    """{name: (estimator, grid)}, with as many penalties each. scale: of targets that are numbers. n: training rows."""
    few = {"n_vectors": int(np.clip(_BUDGET * n, min(_FEWEST, max(n // 4, 1)), _MOST))}
    width, alpha, C = {"kernel": kernels}, {"alpha": list(_PENALTIES)}, {"C": [1.0 / a for a in _PENALTIES]}
    if task == "classification":
        return {
            "SVM": (SVC(), width | C), "L2VM": (L2VMClassifier(), width | alpha), "L1VM": (L1VMClassifier(), width | alpha),
            "RVM": (RVMClassifier(), width), "logistic": (KernelLogistic(), width | alpha),
            "budget": (BudgetKernelClassifier(loss="logistic", **few), width | alpha),
        }  # fmt: skip
    unit = scale if scale > 0 else 1.0  # the other answers are linear in the targets: no penalty of theirs has a unit
    tubes = {"C": [unit * c for c in C["C"]], "epsilon": [unit * e for e in _TUBES]}
    return {
        "SVM": (SVR(), width | tubes), "L2VM": (L2VMRegressor(), width | alpha),
        "L1VM": (L1VMRegressor(), width | {"alpha": [unit * a for a in _PENALTIES]}),
        "RVM": (RVMRegressor(), width), "ridge": (KernelRidge(fit_intercept=True), width | alpha),
        "budget": (BudgetKernelRegressor(**few), width | alpha),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ one machine
class _Run:
    """The choice, the fit and the test of one machine."""

    def __init__(self, name, estimator, grid, folds, verbose):
        self.name, self.estimator, self.folds, self.verbose = name, estimator, folds, verbose
        self.settings = _smoothest_first(grid)
        self.warned: Counter = Counter()
        self.kinds: dict = {}
        self.errors, self.failures, self.began, self.due = [], [], time.perf_counter(), _PAUSE

    def result(self, X, y, X_test, y_test) -> MachineResult:
        try:
            return self._result(X, y, X_test, y_test)
        except Exception as error:
            self._say(f"failed: {_said(error)}")
            nan = float("nan")
            passed = time.perf_counter() - self.began
            return MachineResult(self.name, nan, None, None, passed, nan, nan, nan, self.warned.total(),
                                 len(self.failures), _said(error), dict(self.warned), {}, None)  # fmt: skip

    def _result(self, X, y, X_test, y_test):
        self._tune(X, y)
        tuning = time.perf_counter() - self.began
        best = int(np.argmin(self.errors))
        model = clone(self.estimator).set_params(**self.settings[best])
        fit, _ = _timed(lambda: model.fit(X, y))
        answers = [_timed(lambda: model.predict(X_test)) for _ in range(_REPEATS)]
        error = _error(model, answers[0][1], y_test)
        self._say(f"error {error:.4g}, fit in {fit:.3g} s")
        return MachineResult(
            self.name, error, _n_vectors(model), _log_loss(model, X_test, y_test), tuning, fit, min(s for s, _ in answers),
            self._mean_error(best), self.warned.total(), len(self.failures), None, dict(self.warned),
            dict(self.settings[best]), model,
        )  # fmt: skip

    def _mean_error(self, setting):
        return float(np.sqrt(self.errors[setting]) if is_regressor(self.estimator) else self.errors[setting])

    def _tune(self, X, y):
        """Mean errors, of numbers squared, over the folds of all settings; infinite for those that cannot be fitted."""
        parts = [(_safe_indexing(X, a), y[a], _safe_indexing(X, b), y[b]) for a, b in self.folds]
        for done, setting in enumerate(self.settings, 1):
            try:
                self.errors.append(float(np.mean([self._fold(setting, *part) for part in parts])))
            except Exception as error:
                self.errors.append(np.inf)
                self.failures.append(error)
            if time.perf_counter() - self.began > self.due:
                self.due = time.perf_counter() - self.began + _PAUSE
                best = self._mean_error(int(np.argmin(self.errors)))
                self._say(f"{done} of {len(self.settings)} settings, error in the folds {best:.4g}")
        if len(self.failures) == len(self.settings):
            raise self.failures[0]

    def _fold(self, setting, X, y, X_left, y_left):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = clone(self.estimator).set_params(**setting).fit(X, y)
            error = _error(model, model.predict(X_left), y_left)
        for w in caught:
            self._count(w)
        return error**2 if is_regressor(model) else error

    def _count(self, warning):
        """Warnings that differ in numbers only are one kind, and the first stands for all."""
        text = f"{warning.category.__name__}: {warning.message}"
        self.warned[self.kinds.setdefault(_NUMBER.sub("#", text), text)] += 1

    def _say(self, text):
        if self.verbose:
            print(f"{self.name}: {time.perf_counter() - self.began:.1f} s, {text}", flush=True)


def _smoothest_first(grid):
    """Settings of a grid, the first value of the first name slowest: of equal errors the first is taken."""
    grids = [grid] if isinstance(grid, dict) else list(grid)
    return [dict(zip(g, values, strict=True)) for g in grids for values in product(*g.values())]


def _timed(action):
    began = time.perf_counter()
    found = action()
    return time.perf_counter() - began, found


def _said(error):
    return f"{type(error).__name__}: {error}"


def _error(model, answers, y):
    if is_classifier(model):
        return float(np.mean(answers != y))
    error = float(np.sqrt(np.mean(np.square(answers - y))))
    if not np.isfinite(error):
        raise NanError("predictions are not finite")
    return error


def _n_vectors(model):
    expansion = getattr(model, "expansion_", None)
    return None if expansion is None else expansion.n_vectors


def _log_loss(model, X, y):
    """Mean of minus the log probability, or density, of what came."""
    if hasattr(model, "predict_proba"):
        return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
    if "return_std" not in signature(model.predict).parameters:
        return None
    mean, sd = (np.asarray(part, np.float64) for part in model.predict(X, return_std=True))
    if not (sd > 0).all():  # targets without noise: the density is no function
        return None
    return float(np.mean(0.5 * np.log(2 * np.pi * sd**2) + 0.5 * np.square((y - mean) / sd)))

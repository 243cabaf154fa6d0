"""A study of a model that is fitted already: what it was fitted to, and how well it predicts rows it has not seen."""

import platform
import warnings
from importlib import metadata
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mercer._version import __version__
from mercer.kernels import Kernel
from mercer.report.intervals import scores
from mercer.report.rows import machine_of
from mercer.report.study import Study
from mercer.validate import Table, n_rows

__all__ = ["study_of"]

_LINEAR_ROWS = 20_000  # of a linear baseline
_ITERATIVE = {
    "cg": "the linear system was solved by conjugate gradients, to the residual below",
    "iterative": "the posterior comes from products with the Gram matrix, up to a tolerance; its evidence is an estimate",
    "compressed": "the model is a compressed copy: fewer vectors stand for those of the fit",
}
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def study_of(model, X, y, X_test, y_test, *, title=None, target="target", names=None, baselines=True, candidates=(), timings=None,
             approximations=None, seed=0) -> Study:  # fmt: skip
    """The study of a fitted classifier or regressor, which `mercer.report.write_report` makes a page of.

    Parameters
    ----------
    model : a fitted estimator of one target, or a pipeline or search that ends in one.
    X, y : the rows it was fitted to. X_test, y_test : rows it has not seen.
    title, target, names : words for the page; names of columns are those of a table where X is one.
    baselines : whether to fit a constant and a linear model too; or your own, {name: fitted model}.
    candidates, timings, approximations : what was tried, seconds by stage, notes; see `Study`. What the model itself tells of
        landmarks and the like is noted unless approximations are given.
    seed : of the intervals, which come from test rows drawn again.

    Examples
    --------
    >>> from mercer import KernelRidge
    >>> from mercer.datasets import load_energy
    >>> from mercer.kernels import RBF
    >>> from mercer.report import study_of
    >>> X, y = load_energy(return_X_y=True)
    >>> model = KernelRidge(0.1, kernel=RBF(20.0)).fit(X[::2], y[::2])
    >>> study = study_of(model, X[::2], y[::2], X[1::2], y[1::2], title="Heating load")
    >>> list(study.scores)
    ['rmse', 'mae', 'r2']
    """
    check_is_fitted(model)
    task = _task(model)
    check_consistent_length(np.arange(n_rows(X)), y)
    check_consistent_length(np.arange(n_rows(X_test)), y_test)
    classes = getattr(model, "classes_", None) if task == "classification" else None
    y, y_test = (_targets(side, classes, name) for side, name in ((y, "y"), (y_test, "y_test")))
    begin = perf_counter()
    predicted = _targets(model.predict(X_test), classes, "predicted")
    probability = (
        np.asarray(model.predict_proba(X_test)) if classes is not None and hasattr(model, "predict_proba") else None
    )
    seconds = {**(timings or {}), "test": perf_counter() - begin}
    names = _names(X, names)
    machine = machine_of(model)[0]
    kernel = getattr(machine, "kernel_", None) or getattr(machine, "kernel", None) or "none"
    return Study(
        title=title or f"{type(machine).__name__} of {target}", task=task, columns=_columns(X, names), target=target,
        kernel=kernel,
        certificate=str(kernel.validity) if isinstance(kernel, Kernel) else "unknown: there is no kernel object to ask",
        plan=_plan(machine, X), timings=seconds, candidates=list(candidates),
        scores=scores(task, y_test, predicted, probability, seed),
        baselines=_baselines(baselines, task, classes, X, y, X_test, y_test, seed), y_test=y_test, predicted=predicted,
        probability=probability, classes=None if classes is None else [str(c) for c in classes], model=model, X_train=X,
        y_train=y, X_test=X_test, names=names, seed=seed, versions=_versions(),
        approximations=_told(machine, n_rows(X)) if approximations is None else list(approximations),
    )  # fmt: skip


def _task(model):
    if is_classifier(model):
        return "classification"
    if is_regressor(model):
        return "regression"
    raise TypeError(f"a report is of a classifier or a regressor, got {type(model).__name__}")


def _targets(y, classes, name):
    """Numbers (n,), or codes of classes."""
    y = np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1:
        raise ValueError(f"{name} has shape {y.shape}; a report is of one target, so make one for each column")
    if classes is None:
        return y.astype(float)
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"{name} holds {str(unknown[0])[:60]!r}, which is none of the classes that the model was fitted to"
        )
    return np.searchsorted(classes, y)


# ---------------------------------------------------------------------------------------------- columns
def _names(X, names):
    known = X.names if isinstance(X, Table) else getattr(X, "columns", None)
    width = X.shape[1] if getattr(X, "ndim", 2 if isinstance(X, Table) else 1) == 2 else 1
    if names is None:
        names = known if known is not None else [f"column {j}" for j in range(width)]
    if len(names) != width:
        raise ValueError(f"names has {len(names)} entries, but X has {width} columns")
    return [str(name) for name in names]


def _columns(X, names):
    if sp.issparse(X):
        return _sparse_columns(sp.csc_array(X), names)
    return [{"name": name, **_summary(column)} for name, column in zip(names, _each(X), strict=True)]


def _each(X):
    if isinstance(X, Table):
        return list(X.columns)
    if hasattr(X, "columns"):
        return [np.asarray(X[name]) for name in X.columns]
    if getattr(X, "ndim", 1) == 2:
        return list(np.asarray(X).T)
    return [_objects(X)]


def _sparse_columns(X, names):
    """All columns at once: there may be very many."""
    missing = np.bincount(np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))[np.isnan(X.data)], minlength=X.shape[1])
    low, high = (side.toarray().ravel().tolist() for side in (X.min(axis=0), X.max(axis=0)))
    each = zip(names, missing.tolist(), low, high, strict=True)
    return [{"name": n, "kind": "numeric", "missing": m, "levels": None, "low": a, "high": b} for n, m, a, b in each]


def _objects(X):
    column = np.empty(len(X), dtype=object)
    column[:] = list(X)
    return column


def _summary(column):
    if column.dtype.kind in "biuf":
        known = column[np.isfinite(column.astype(float))]
        ends = (float(known.min()), float(known.max())) if len(known) else (None, None)
        return {
            "kind": "numeric",
            "missing": len(column) - len(known),
            "levels": len(np.unique(known)),
            "low": ends[0],
            "high": ends[1],
        }
    words = [value for value in column if value is not None and value == value]
    try:
        levels = len(set(words))
    except (TypeError, ValueError):  # objects without a hash, such as arrays
        levels = None
    kind = "text" if all(isinstance(w, str) for w in words) else "objects"
    return {"kind": kind, "missing": len(column) - len(words), "levels": levels, "low": None, "high": None}


# ---------------------------------------------------------------------------------------------- baselines
def _baselines(asked, task, classes, X, y, X_test, y_test, seed):
    if isinstance(asked, dict):
        found = {name: _targets(model.predict(X_test), classes, name) for name, model in asked.items()}
        return {name: scores(task, y_test, predicted, seed=seed) for name, predicted in found.items()}
    models = _simple(task, X) if asked else {}
    return {name: _scored(_fitted(model, X, y), task, X_test, y_test, seed) for name, model in models.items()}


def _scored(model, task, X_test, y_test, seed):
    rows = _plain(X_test, model)
    whole = task == "classification" and len(model.classes_) == model.classes_.max() + 1  # codes are columns
    return scores(task, y_test, model.predict(rows), model.predict_proba(rows) if whole else None, seed)


def _plain(X, model):
    """Rows for a simple model; a constant needs none."""
    if isinstance(model, (DummyRegressor, DummyClassifier)):
        return np.zeros((n_rows(X), 1))
    return X if sp.issparse(X) else np.asarray(X)


def _simple(task, X):
    """Models that anything should beat: a constant, and of numbers a linear one."""
    numbers = sp.issparse(X) or (
        getattr(X, "ndim", 1) == 2 and np.asarray(X).dtype.kind in "biuf" and np.isfinite(np.asarray(X)).all()
    )
    scaler = StandardScaler(with_mean=not sp.issparse(X))
    if task == "regression":
        linear = make_pipeline(scaler, RidgeCV(np.logspace(-3, 3, 13)))
        return {"mean": DummyRegressor(), **({"linear ridge": linear} if numbers else {})}
    linear = make_pipeline(scaler, LogisticRegression(max_iter=2000))
    return {"largest class": DummyClassifier(strategy="prior"), **({"linear logistic": linear} if numbers else {})}


def _fitted(model, X, y):
    constant = isinstance(model, (DummyRegressor, DummyClassifier)) or len(y) <= _LINEAR_ROWS
    some = np.arange(len(y)) if constant else np.linspace(0, len(y) - 1, _LINEAR_ROWS).astype(int)
    with warnings.catch_warnings():  # a baseline that has not converged to the last digit is one all the same
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(_plain(X, model)[some], y[some])


# ---------------------------------------------------------------------------------------------- words
def _plan(machine, X):
    used = getattr(machine, "solver_used_", None)
    return f"{type(machine).__name__} on {n_rows(X)} rows" + (f", solved by {used}" if isinstance(used, str) else "")


def _told(machine, n):
    """What a model says of its own approximations."""
    used, m = getattr(machine, "solver_used_", None), n_rows(getattr(machine, "X_fit_", ()))
    notes = []
    if used == "sparse":
        notes.append(f"{m} inducing rows stand for all {n} rows, by a lower bound of the evidence")
    elif hasattr(machine, "landmark_error_") and m < n:
        error = machine.landmark_error_
        left = "" if error is None else f"; they leave {error:.3g} of the trace of the Gram matrix unexplained"
        notes.append(f"{m} landmarks stand for all {n} rows{left}")
    elif used in _ITERATIVE:
        notes.append(_ITERATIVE[used])
    if getattr(machine, "converged_", True) is False:
        notes.append("the solver stopped before it reached its tolerance")
    if getattr(machine, "repair_", None) is not None:
        notes.append(f"the Gram matrix is not positive semi-definite and was repaired: {machine.repair_}")
    return notes


def _versions():
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), "mercer": __version__, **packages}

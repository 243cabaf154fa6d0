"""What a report asks of the fitted model and its training rows: a part of the Gram matrix, and the rows that matter most."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from mercer.diagnostics.matrices import eigenvalues, psd_tolerance
from mercer.gram.plan import budget
from mercer.kernels import Kernel
from mercer.validate import Table, _row_keys, double, merged

__all__ = ["GramPart", "Influence", "cells", "gram_part", "influence", "machine_of"]

_PIXELS = 200  # rows of the map
_FACTORED = 4000  # rows up to which leave-one-out takes seconds
_NUMBERS = ("support_", "relevance_", "center_indices_", "landmarks_")  # where models keep the numbers of their rows


def machine_of(model):
    """The kernel machine inside a search or a pipeline, and what turns rows of the model into its rows."""
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline):
        return model[-1], (model[:-1].transform if len(model) > 1 else lambda X: X)
    return model, lambda X: X


def taken(X, index):
    """Rows by number, in whatever form they are."""
    return X.take(index) if isinstance(X, Table) else _safe_indexing(X, index)


# ---------------------------------------------------------------------------------------------- the Gram matrix
@dataclass(frozen=True)
class GramPart:
    """K (m, m) of m rows out of n, sorted by target. order (m,): the rows' numbers.

    values (m,) : its eigenvalues, descending. tolerance : what rounding may make of an eigenvalue 0.
    """

    K: np.ndarray
    order: np.ndarray
    n: int
    values: np.ndarray
    tolerance: float


def gram_part(study) -> GramPart | None:
    """At most 200 training rows, evenly spread over the sorted targets; None where the model has no kernel object."""
    machine, prepare = machine_of(study.model)
    kernel = getattr(machine, "kernel_", study.kernel)
    kernel = (
        kernel if isinstance(kernel, Kernel) or (isinstance(kernel, str) and kernel == "precomputed") else study.kernel
    )
    order = np.argsort(np.asarray(study.y_train), kind="stable")
    n = len(order)
    order = order if n <= _PIXELS else order[np.linspace(0, n - 1, _PIXELS).astype(int)]
    rows = prepare(taken(study.X_train, order))
    if isinstance(kernel, Kernel):
        K = np.asarray(kernel(rows), float)
    elif kernel == "precomputed":
        K = np.asarray(rows, float)[:, order]
    else:
        return None
    return GramPart(K, order, n, eigenvalues((K + K.T) / 2)[::-1], psd_tolerance(K.diagonal(), K.dtype))


# ---------------------------------------------------------------------------------------------- influential rows
@dataclass(frozen=True)
class Influence:
    """The rows that matter most: their numbers among the training rows (m,), and how much they do (m,). how : what is measured.

    residuals (m,) : of their leave-one-out predictions, or None.
    """

    index: np.ndarray
    sizes: np.ndarray
    how: str
    residuals: np.ndarray | None = None


LEFT_OUT = (
    "how far the prediction of the row moves when the row is left out: its leave-one-out residual times its leverage"
)
COEFFICIENT = "the size of the row's coefficient in the fitted sum over kernels"


def influence(study, most: int = 10) -> Influence | None:
    """By leave-one-out where the model has it in closed form, else by coefficients; None for what is no sum over rows."""
    machine, prepare = machine_of(study.model)
    return _by_leaving_out(study, machine, prepare, most) or _by_coefficients(study, machine, prepare, most)


def _by_leaving_out(study, machine, prepare, most):
    n = len(study.y_train)
    if study.task != "regression" or np.ndim(study.y_train) != 1 or not hasattr(machine, "leave_one_out"):
        return None
    numbers, sure = _numbers(study, machine, prepare, machine.X_fit_)
    if numbers is None or not sure or n > _FACTORED or 32 * n * n > budget(machine.memory):
        return None
    found = machine.leave_one_out()
    y, fitted = (np.asarray(a, float)[numbers] for a in (study.y_train, study.model.predict(study.X_train)))
    residuals = np.asarray(found if isinstance(found, np.ndarray) else y - found.mean, float)
    sizes = np.abs(residuals - (y - fitted))
    top = np.argsort(-sizes, kind="stable")[:most]
    return Influence(numbers[top], sizes[top], LEFT_OUT, residuals[top])


def _by_coefficients(study, machine, prepare, most):
    expansion = getattr(machine, "expansion_", None)
    if expansion is None:
        return None
    coefficients = np.asarray(expansion.coefficients, float)
    numbers = next((found for name in _NUMBERS if (found := getattr(machine, name, None)) is not None), None)
    numbers = _numbers(study, machine, prepare, expansion.centres)[0] if numbers is None else np.asarray(numbers)
    if numbers is None or len(numbers) != len(coefficients):
        return None
    sizes = np.sqrt((coefficients**2).sum(axis=1))
    top = np.argsort(-sizes, kind="stable")[:most]
    return Influence(numbers[top], sizes[top], COEFFICIENT)


def _numbers(study, machine, prepare, centres):
    """Numbers of the rows of a fit, its centres, among the training rows, and whether each stands for one target without doubt.

    Models may merge equal rows, or put them in an order of their own: then rows are found by their content. None where a row
    is no training row, such as a centre between them.
    """
    n = len(study.y_train)
    if isinstance(machine.kernel_, str):
        kept = getattr(machine, "kept_", None)
        return (np.arange(n) if kept is None else np.asarray(kept)), True
    rows = double(machine.kernel_.validated(prepare(study.X_train)))
    known, fitted = list(_row_keys(rows)), list(_row_keys(double(centres)))
    for index in (np.arange(n), merged(rows, np.asarray(study.y_train), None)[3]):
        if fitted == [known[i] for i in index]:
            return index, True
    places = {known[i]: i for i in reversed(range(n))}
    found = [places.get(key) for key in fitted]
    return (None if None in found else np.array(found, dtype=int)), len(places) == n


def cells(X, index) -> list[list[Any]]:
    """Values of some rows, column by column; rows without columns are one value each."""
    some = taken(X, index)
    if isinstance(some, Table):
        return [list(row) for row in some]
    if hasattr(some, "to_numpy"):
        some = some.to_numpy()
    if hasattr(some, "toarray"):
        some = some.toarray()
    return [list(row) if getattr(row, "ndim", 0) == 1 or isinstance(row, (list, tuple)) else [row] for row in some]

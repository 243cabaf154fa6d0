"""Models in files: `save` and `load`. Loading runs no code from the file and checks all it reads."""

import os
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mercer import validate
from mercer._version import __version__
from mercer.errors import MercerError, ModelFileError
from mercer.kernels.base import Kernel
from mercer.persist.container import read, write
from mercer.persist.trees import flatten, unflatten
from mercer.persist.values import Reader, Writer
from mercer.registry import RECORDS, is_estimator

__all__ = ["ModelInfo", "info", "load", "save"]

KIND = "model"
_WRONG = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
    RecursionError,
)


class ModelInfo(dict):
    """What a file says of its model; it prints in a few lines."""

    def __str__(self):
        return "\n".join(f"{name:16} {value}" for name, value in self.items())


def save(model, path: str | os.PathLike, *, functions: Mapping[str, Callable] | None = None) -> None:
    """Write a model to a file in one step; on any error an earlier file is unharmed.

    Parameters
    ----------
    model : an estimator of mercer, fitted or not, a kernel, or a `TableModel`.
    path : name of the file; its folder must exist.
    functions : {name: function} for functions that the model uses, as in `k.warp(f)` or `Pairwise(f)`. A file holds their
        names, not their code; `load` takes the same.

    A fitted model holds training rows where its kernel needs them; `info(path)` says how many.

    >>> import tempfile
    >>> from mercer import KernelRidge, load, save
    >>> path = os.path.join(tempfile.mkdtemp(), "ridge.mercer")
    >>> model = KernelRidge(kernel="rbf").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> save(model, path)
    >>> bool((load(path).predict([[1.5]]) == model.predict([[1.5]])).all())
    True
    """
    if not _is_model(model):
        raise TypeError(f"save writes estimators of mercer and kernels, got {type(model).__name__}")
    content = {**_summary(model), "model": Writer(functions or {}).tree(model)}
    write(path, KIND, *flatten(content))


def load(
    path: str | os.PathLike, *, functions: Mapping[str, Callable] | None = None, memory: int | str | None = "2GB"
) -> Any:
    """Read a model that `save` has written. Nothing in the file is run, and anything else raises ModelFileError.

    functions : {name: function} that were given to `save`. memory : the most bytes that the model may take.
    """
    found = read(path, KIND, memory=memory)
    try:
        model = Reader(functions or {}).value(unflatten(found.content, found.arrays)["model"])
        _check(model)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from error.__cause__
    except (MercerError, MemoryError, *_WRONG) as error:
        raise ModelFileError(
            f"{os.fspath(path)}: its parts do not fit together ({str(error)[:200]}); take another copy"
        ) from error
    return model


def info(path: str | os.PathLike) -> ModelInfo:
    """What a file says of its model, without making it: class, kernel, version, training rows that it contains."""
    content = read(path, KIND, memory=None).content
    return ModelInfo({name: value for name, value in content.items() if name != "model"})


def _summary(model):
    """Facts for those who look at a file before they load it."""
    kernel = getattr(model, "kernel_", getattr(model, "kernel", None)) if not isinstance(model, Kernel) else model
    rows = getattr(model, "X_fit_", None)
    if _of_table(model):
        return {**_summary(model.model), **model.facts()}
    return {
        "class": type(model).__name__,
        "mercer": __version__,
        "kernel": kernel if isinstance(kernel, str) else repr(kernel)[:500],
        "training_rows": 0 if rows is None else int(validate.n_rows(rows)),
        "columns": int(getattr(model, "n_features_in_", 0)),
    }


def _is_model(value):
    return isinstance(value, Kernel) or is_estimator(value) or _of_table(value)


def _of_table(value):
    """Whether this is an estimator with the columns of a table."""
    return type(value).__name__ == "TableModel" and RECORDS.has(type(value))


# ------------------------------------------------------------------------------------------------ what was read
def _check(model):
    """A model that came from a file can answer: shapes fit, and one of its own rows has finite answers."""
    if not _is_model(model):
        raise ModelFileError(f"expected a model, the file holds a {type(model).__name__}")
    if _of_table(model):
        model = model.model
    if isinstance(model, Kernel) or not hasattr(model, "solver_used_"):
        return
    _check_places(model)
    _check_expansion(model)
    rows, coefficients = getattr(model, "X_fit_", None), getattr(model, "dual_coef_", None)
    if rows is None:
        return
    by_row = isinstance(coefficients, np.ndarray) and not hasattr(model, "support_vectors_")  # those are by class
    if by_row and len(coefficients) != validate.n_rows(rows):
        raise ModelFileError(f"{len(coefficients)} coefficients for {validate.n_rows(rows)} rows")
    known = getattr(model, "_known_rows", rows)
    if getattr(known, "ndim", 1) == 2 and validate.n_rows(known) and not getattr(model, "_precomputed", False):
        _answer(model, known[:1])


def _check_places(model):
    """Numbers of columns and rows are among those that there were."""
    d = getattr(model, "n_features_in_", 1)
    if type(d) is not int or d < 1:
        raise ModelFileError(f"n_features_in_ is {reprlib.repr(d)}; expected a positive whole number")
    given = getattr(model, "_precomputed", False)
    if given and getattr(model, "kept_", None) is not None and not _within(model.kept_, d):
        raise ModelFileError(f"the model reads columns of a Gram matrix that are not among its {d}")
    if hasattr(model, "support_") and hasattr(model, "shape_fit_"):
        n = d if given else model.shape_fit_[0]
        if not _within(model.support_, n) or len(model.support_) != len(model.expansion_.coefficients):
            raise ModelFileError(f"support_ must have the number, below {n}, of each support vector")


def _within(index, n):
    index = np.asarray(index)
    return index.ndim == 1 and index.dtype.kind in "iu" and (not len(index) or 0 <= index.min() <= index.max() < n)


def _check_expansion(model):
    """Coefficients and intercepts are finite and fit one another."""
    expansion = getattr(model, "expansion_", None)
    if expansion is None:
        return
    coefficients, b = np.asarray(expansion.coefficients), np.asarray(expansion.intercept)
    if coefficients.ndim != 2 or b.size not in (1, coefficients.shape[1]):
        raise ModelFileError(f"coefficients of the shape {coefficients.shape} do not go with {b.size} intercepts")
    if not np.isfinite(coefficients).all() or not np.isfinite(b).all():
        raise ModelFileError("coefficients or intercepts are NaN or infinite")
    if len(getattr(model, "classes_", (0, 1))) < 2:
        raise ModelFileError("a classifier has fewer than two classes")


def _answer(model, row):
    for verb in ("decision_function", "predict", "transform", "score_samples"):
        if hasattr(model, verb):
            getattr(model, verb)(row)
            return

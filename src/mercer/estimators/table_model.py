"""A fitted estimator with the columns it was made for: tables of raw values in, labels or numbers out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import ModelFileError, TableError
from mercer.registry import is_estimator, register_record
from mercer.validate import Table

__all__ = ["LAYOUTS", "Coding", "TableModel"]

KINDS = ("numeric", "category", "text")
LAYOUTS = ("matrix", "sparse", "text", "table")
LEVEL_OF_MISSING = "(missing)"


@register_record
@dataclass(frozen=True)
class Coding:
    """How one column of raw values becomes what a kernel reads.

    Numbers are centred and divided by their spread, missing ones replaced by `fill`; `indicator` adds a column that is 1 where
    one was missing. Of categories and texts a missing one is a value of its own.
    """

    name: str
    kind: str
    centre: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    indicator: bool = False

    def __post_init__(self):
        numbers = (self.centre, self.scale, self.fill)
        if self.kind not in KINDS or type(self.name) is not str or not np.isfinite(numbers).all() or self.scale <= 0:
            raise ModelFileError(f"the column {self.name!r} of the kind {self.kind!r} is described by {numbers}")

    @classmethod
    def learned(cls, name: str, kind: str, values: np.ndarray) -> "Coding":
        """From the training rows."""
        if kind != "numeric":
            return cls(name, kind)
        there = values[~np.isnan(values)]
        fill = float(np.median(there)) if len(there) else 0.0
        filled = np.where(np.isnan(values), fill, values)
        with np.errstate(over="ignore"):
            centre, spread = float(filled.mean()), float(filled.std())
        if not np.isfinite([centre, spread]).all():
            raise TableError(f'the numbers of the column "{name}" are too large for their squares; divide them')
        return cls(name, kind, centre, spread if spread > 0 else 1.0, fill, len(there) < len(values))

    def coded(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Columns by name that a kernel reads."""
        if self.kind == "category":
            return {self.name: _objects([LEVEL_OF_MISSING if v is None else v for v in values])}
        if self.kind == "text":
            return {self.name: _objects(["" if v is None else v for v in values])}
        gone = np.isnan(values)
        out = {self.name: (np.where(gone, self.fill, values) - self.centre) / self.scale}
        return {**out, f"{self.name} (missing)": gone.astype(float)} if self.indicator else out


def _objects(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


@register_record
@dataclass(frozen=True)
class TableModel:
    """An estimator, the codings of its columns, and the names of its classes: all that predictions of new rows need.

    Parameters
    ----------
    model : a fitted estimator of this library; in a classification its labels are places in `classes`.
    task : "regression" or "classification".
    target : name of the column that is predicted.
    codings : of the columns, in order; empty for a sparse matrix, whose columns are divided by `scales`.
    layout : what the estimator reads: "matrix" of numbers, "sparse" matrix, one column of "text", or a "table" of columns.
    classes : names of the classes, or None. scores : what was reached on rows held out.
    """

    model: Any
    task: str
    target: str
    codings: tuple
    layout: str
    classes: tuple | None = None
    scales: Any = None
    scores: Mapping = field(default_factory=dict)

    def __post_init__(self):
        if self.layout not in LAYOUTS or not is_estimator(self.model):
            raise ModelFileError(f"a {type(self.model).__name__} laid out as {self.layout!r} is no model of a table")
        if (self.task == "classification") != (self.classes is not None) or (self.scales is None) == (
            self.layout == "sparse"
        ):
            raise ModelFileError(f"a {self.task} with the classes {self.classes!r} does not fit together")
        if not all(isinstance(c, Coding) for c in self.codings):
            raise ModelFileError("a column of the model is not described by a Coding")

    @property
    def names(self) -> list[str]:
        """Names of the raw columns that are read."""
        return [c.name for c in self.codings]

    def rows(self, columns: Mapping[str, np.ndarray], matrix=None):
        """Raw columns by name (numbers with NaN, texts with None), or a sparse matrix, as the estimator reads them."""
        if self.layout == "sparse":
            return _scaled(matrix, self.scales)
        coded: dict[str, np.ndarray] = {}
        for c in self.codings:
            coded.update(c.coded(columns[c.name]))
        return laid_out(coded, self.layout)

    def predict(self, columns: Mapping[str, np.ndarray], matrix=None) -> np.ndarray:
        """Numbers, or names of classes."""
        found = self.model.predict(self.rows(columns, matrix))
        return found if self.classes is None else np.array(self.classes, dtype=object)[found]

    @property
    def has_probabilities(self) -> bool:
        return self.classes is not None and hasattr(self.model, "predict_proba")

    def predict_proba(self, columns: Mapping[str, np.ndarray], matrix=None) -> np.ndarray:
        """Probabilities (m, classes) in the order of `classes`."""
        return self.model.predict_proba(self.rows(columns, matrix))

    def facts(self) -> dict[str, Any]:
        """For those who look at a file before they load it."""
        classes = None if self.classes is None else [str(c)[:80] for c in self.classes[:50]]
        columns = [{"name": c.name[:80], "kind": c.kind} for c in self.codings[:200]]
        scores = {name: [float(x) for x in values] for name, values in self.scores.items()}
        return {"task": self.task, "target": self.target[:80], "classes": classes, "read": columns, "scores": scores}


def laid_out(coded: Mapping[str, np.ndarray], layout: str):
    """Coded columns as an estimator reads them."""
    if layout == "matrix":
        return np.column_stack(list(coded.values()))
    if layout == "text":
        return next(iter(coded.values()))
    return Table(tuple(coded), tuple(coded.values()))


def _scaled(matrix, scales: Sequence[float]):
    """Sparse rows as wide as those of the fit, each column in its unit."""
    d = len(scales)
    if matrix.shape[1] > d:
        if matrix[:, d:].nnz:
            raise TableError(f"the rows have {matrix.shape[1]} columns, the model was made for {d}")
        matrix = matrix[:, :d]
    wide = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], d))
    return sp.csr_array(wide @ sp.diags_array(1.0 / np.asarray(scales)))

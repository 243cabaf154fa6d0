"""Kernels of dense explicit features: a few numbers a row, made by a model."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from mercer import expr, validate
from mercer.kernels.base import Kernel, require_memory
from mercer.kernels.statistics import Inner
from mercer.kernels.validity import certificate
from mercer.kernels.views import Things, View

__all__ = ["Dense", "DenseKernel", "Gaps", "require_features"]


@dataclass(frozen=True)
class Gaps(View):
    """The row as a vector of numbers, NaN where an entry is missing."""

    numeric: ClassVar[bool] = True

    def forward(self, rows):
        rows = validate.numeric(rows, gaps=True)
        if not sp.issparse(rows):
            return rows
        n, d = rows.shape
        require_memory(8 * n * d, f"a dense form of {n} sparse rows with {d} columns", ["choose fewer columns"])
        return rows.toarray()

    @property
    def differentiable_inputs(self):
        return False


_COPIES = 3  # of the features, while they are made: by parts, together, and whitened or in another precision


def require_features(n, p, who):
    """Refuse features of n rows that do not fit into memory."""
    remedies = ["use a model with fewer parameters, or fewer columns", "use fewer rows at a time"]
    require_memory(8 * _COPIES * n * p, f"{who}: {p} features of each of {n} rows", remedies)


@dataclass(frozen=True)
class Dense(View):
    """Features that a kernel makes of all rows at once; float32 rows have float32 features, computed in float64."""

    kernel: Any
    numeric: ClassVar[bool] = True

    def forward(self, rows):
        n, dtype = validate.n_rows(rows), getattr(rows, "dtype", None)
        require_features(n, self.kernel.n_features, type(self.kernel).__name__)
        out = np.asarray(self.kernel.dense(rows if dtype != np.float32 else rows.astype(np.float64)))
        with np.errstate(over="ignore"):  # what leaves the range of float32 is refused by name
            out = out.astype(np.float32 if dtype == np.float32 else np.float64)
        return np.ascontiguousarray(
            validate.kernel_output(out, (n, *out.shape[1:2]), f"the features of {self.kernel!r}", out.dtype)
        )

    @property
    def differentiable_inputs(self):
        return False


class DenseKernel(Kernel):
    """k(x, y) = <phi(x), phi(y)> of dense features: subclasses give `dense(rows)`, an array (n, p), their number p as
    `n_features`, and `rows_kind`."""

    rows_kind = "vectors"

    @property
    def n_features(self) -> int:
        raise NotImplementedError

    def dense(self, rows) -> np.ndarray:
        raise NotImplementedError

    def _reads(self):
        return [self.rows_kind]

    def _view(self, parent):
        if self.rows_kind == "objects":
            return Dense(Things(parent), self)
        return Dense(parent if parent is not None and parent.numeric else Gaps(parent), self)

    def trace(self, t):
        return expr.leaf(Inner(self._view(t.view)))

    def phi(self, rows):
        view = self._view(None)
        return view.forward(view.parent.forward(rows))

    @property
    def differentiable_inputs(self):
        return False

    @property
    def validity(self):
        return certificate("psd", f"{type(self).__name__} is an inner product of explicit features")

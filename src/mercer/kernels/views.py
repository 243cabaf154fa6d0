"""Views: what a leaf sees of a row. A chain of small maps from the user's row to the numbers of a pair statistic.

Each view computes its rows from its parent's (`forward`) and sends a gradient back (`pullback`). Views are values: leaves
with equal views share the rows, the norms and the matrix product made of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.errors import NotDifferentiableError
from mercer.kernels.digest import FrozenArray

__all__ = ["Categories", "Circle", "Divided", "Features", "Input", "Linear", "NonNegativeRows", "Numbers", "Parsed", "Part",
           "Plain", "Things", "View", "Warped"]  # fmt: skip


@dataclass(frozen=True)
class View:
    """Base: `parent` is None only at the root."""

    parent: Any

    numeric: ClassVar[bool] = False  # whether the rows are vectors of numbers already
    linear: ClassVar[bool] = False  # whether the difference of two rows is the image of their difference

    def forward(self, rows):
        raise NotImplementedError

    def pullback(self, rows, out, G):
        """(gradient in the parent's rows, {parameter: gradient}) from the gradient G in this view's rows."""
        raise NotDifferentiableError(f"{type(self).__name__} rows have no gradient")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters that this view alone (not its parents) depends on."""
        return ()

    @property
    def differentiable_inputs(self) -> bool:
        return True


def chain(view):
    """The views from the root down to `view`."""
    links = []
    while view is not None:
        links.append(view)
        view = view.parent
    return links[::-1]


@dataclass(frozen=True)
class Input(View):
    """The row as the user gave it."""

    parent: Any = None

    def forward(self, rows):
        return rows


@dataclass(frozen=True)
class Part(View):
    """Chosen columns (A8, A9)."""

    columns: tuple

    def forward(self, rows):
        return validate.part(rows, self.columns)

    def pullback(self, rows, out, G):
        if isinstance(rows, validate.Table):
            raise NotDifferentiableError("the gradient in the rows of a table is not an array; pass a 2-D array")
        full = np.zeros(rows.shape, G.dtype)
        np.add.at(full, (slice(None), list(self.columns)), G)  # a column may be chosen twice
        return full, {}


@dataclass(frozen=True)
class Numbers(View):
    """The row as a vector of numbers."""

    numeric: ClassVar[bool] = True

    def forward(self, rows):
        return validate.numeric(rows)

    def pullback(self, rows, out, G):
        if isinstance(rows, validate.Table):
            raise NotDifferentiableError("the gradient in the rows of a table is not an array; pass a 2-D array")
        return G, {}


@dataclass(frozen=True)
class NonNegativeRows(View):
    """Numbers >= 0, checked: the kernel is PSD only there."""

    numeric: ClassVar[bool] = True

    who: str

    def forward(self, rows):
        smallest = rows.data.min(initial=0.0) if sp.issparse(rows) else rows.min()
        if smallest < 0:
            raise ValueError(f"{self.who} needs entries >= 0 (it is not PSD otherwise); the smallest is {smallest:g}")
        return rows

    def pullback(self, rows, out, G):
        return G, {}


@dataclass(frozen=True)
class Categories(View):
    """Codes of category values."""

    def forward(self, rows):
        return validate.categories(rows)

    @property
    def differentiable_inputs(self):
        return False


@dataclass(frozen=True)
class Things(View):
    """The row as one object."""

    def forward(self, rows):
        return validate.objects(rows)

    @property
    def differentiable_inputs(self):
        return False


@dataclass(frozen=True)
class Parsed(View):
    """Objects in the form that a pair kernel works with, made once for each row."""

    kernel: Any

    def forward(self, rows):
        return validate.each_object(self.kernel.parse, rows)

    @property
    def differentiable_inputs(self):
        return False


@dataclass(frozen=True)
class Plain(View):
    """The row as a user's function expects it: numbers if it has only numbers, else the object, else a Table."""

    def forward(self, rows):
        return validate.plain(rows)

    def pullback(self, rows, out, G):
        return Numbers(self.parent).pullback(rows, out, G)


@dataclass(frozen=True)
class Warped(View):
    """phi(x) for a user's map of all rows at once (A7)."""

    function: Callable
    vjp: Callable | None

    def forward(self, rows):
        out = self.function(rows)
        who = f"warp({getattr(self.function, '__name__', 'f')})"
        from_numbers = isinstance(rows, np.ndarray) and rows.ndim == 2
        if from_numbers or (isinstance(out, np.ndarray) and out.dtype.kind in "biuf"):
            out = np.asarray(out)
            out = out[:, None] if out.ndim == 1 else out
            dtype = rows.dtype if from_numbers and rows.dtype in validate.FLOATS else np.float64
            shape = (validate.n_rows(rows), out.shape[1] if out.ndim == 2 else -1)
            return np.ascontiguousarray(validate.kernel_output(out, shape, who, dtype))
        if validate.n_rows(out) != validate.n_rows(rows):
            raise ValueError(f"{who} returned {validate.n_rows(out)} rows for {validate.n_rows(rows)}")
        return out if isinstance(out, np.ndarray) else validate.objects(out)

    def pullback(self, rows, out, G):
        if self.vjp is None:
            raise NotDifferentiableError(
                f"warp({getattr(self.function, '__name__', 'f')}) has no vjp; pass k.warp(f, vjp=...)"
            )
        return validate.kernel_output(self.vjp(rows, G), rows.shape, "the vjp of warp", G.dtype), {}

    @property
    def differentiable_inputs(self):
        return self.vjp is not None


@dataclass(frozen=True)
class Divided(View):
    """x_j / l_j, one l or one a column. A column with infinite l is left out, so that it is ignored to the last bit."""

    numeric: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    lengthscale: FrozenArray
    name: str

    @property
    def parameters(self):
        return (self.name,)

    def kept(self, rows):
        """Columns that take part, and their scales."""
        scale = self.lengthscale.value
        if scale.ndim and len(scale) != rows.shape[1]:
            raise ValueError(f"{self.name} has {len(scale)} entries, but the rows have {rows.shape[1]} columns")
        scale = np.broadcast_to(scale, rows.shape[1])
        kept = np.flatnonzero(np.isfinite(scale))
        return kept, scale[kept]

    def forward(self, rows):
        kept, scale = self.kept(rows)
        inverse = (1.0 / scale).astype(rows.dtype)
        chosen = rows if len(kept) == rows.shape[1] else rows[:, kept]
        if sp.issparse(chosen):
            return sp.csr_array(chosen @ sp.diags_array(inverse))
        return chosen * inverse

    def pullback(self, rows, out, G):
        kept, scale = self.kept(rows)
        product = out.multiply(G).sum(axis=0) if sp.issparse(out) else np.einsum("ij,ij->j", out, G, dtype=np.float64)
        by_scale = np.zeros(rows.shape[1])
        by_scale[kept] = -np.asarray(product) / scale
        back = np.zeros(rows.shape, G.dtype)
        back[:, kept] = G / scale
        return back, {self.name: by_scale if self.lengthscale.value.ndim else by_scale.sum()}


@dataclass(frozen=True)
class Linear(View):
    """x @ M for a constant matrix; `chart` makes the gradient of the user's parameter from out^T G."""

    numeric: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    matrix: FrozenArray
    name: str
    chart: Callable

    @property
    def parameters(self):
        return (self.name,)

    def forward(self, rows):
        M = self.matrix.value.astype(rows.dtype)
        if M.shape[0] != rows.shape[1]:
            raise ValueError(f"{self.name} is for {M.shape[0]} columns, but the rows have {rows.shape[1]}")
        return np.ascontiguousarray(rows @ M)

    def pullback(self, rows, out, G):
        return G @ self.matrix.value.T.astype(G.dtype), {self.name: self.chart((out.T @ G).astype(np.float64))}


@dataclass(frozen=True)
class Circle(View):
    """(cos, sin)(2 pi x / period) per column: a squared distance there is 4 sin^2(pi (x - y) / period)."""

    numeric: ClassVar[bool] = True
    period: float
    name: str

    @property
    def parameters(self):
        return (self.name,)

    def _angle(self, rows):
        if sp.issparse(rows):
            rows = rows.toarray()
        # The remainder is exact, so that rows far from 0 keep their phase.
        return np.remainder(rows, self.period) * rows.dtype.type(2 * np.pi / self.period)

    def forward(self, rows):
        angle = self._angle(rows)
        return np.hstack([np.cos(angle), np.sin(angle)])

    def pullback(self, rows, out, G):
        out = self.forward(rows)  # what came may be centred
        d = out.shape[1] // 2
        by_angle = G[:, d:] * out[:, :d] - G[:, :d] * out[:, d:]
        x = rows.toarray() if sp.issparse(rows) else rows
        by_period = -np.sum(by_angle.astype(np.float64) * x) * 2 * np.pi / self.period**2
        return by_angle * G.dtype.type(2 * np.pi / self.period), {self.name: by_period}


@dataclass(frozen=True)
class Features(View):
    """Explicit features of a feature kernel: columns agree between two sides through the kernel's vocabulary."""

    kernel: Any

    def forward(self, rows):
        raise NotImplementedError("feature rows need the other side's vocabulary: see engines.base.prepare")

    @property
    def differentiable_inputs(self):
        return False

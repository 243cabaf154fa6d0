"""Pair statistics and vectors: the leaves of a kernel expression, as values that engines know how to compute."""

from dataclasses import dataclass
from typing import Any

from mercer.kernels.digest import FrozenArray
from mercer.kernels.views import View

__all__ = [
    "ColumnStatistic",
    "DiagonalOf",
    "External",
    "FunctionOf",
    "Inner",
    "MeanOf",
    "SameRow",
    "SquaredDistance",
    "Vector",
]


@dataclass(frozen=True)
class Inner:
    """<u, v> of the rows of a view."""

    view: View


@dataclass(frozen=True)
class SquaredDistance:
    """||u - v||^2 of the rows of a view."""

    view: View


@dataclass(frozen=True)
class ColumnStatistic:
    """A pair function per column, combined over the columns: "sum" (weighted), "prod" or "elementary" (symmetric polynomial).

    `parameter` belongs to the pair function (the degree of a B-spline), `order` to the elementary polynomial.
    """

    view: View
    function: str
    combine: str = "sum"
    parameter: int = 0
    order: int = 1
    weights: FrozenArray | None = None


@dataclass(frozen=True)
class SameRow:
    """1 where both rows are the same row of the same prepared side, else 0."""


@dataclass(frozen=True)
class External:
    """A tile computed by a pair kernel itself."""

    view: View
    kernel: Any


@dataclass(frozen=True)
class DiagonalOf:
    """e(x, x) of another expression."""

    expression: Any


@dataclass(frozen=True)
class FunctionOf:
    """f(x) of a user's function (A2)."""

    view: View
    function: Any
    vjp: Any = None


@dataclass(frozen=True)
class MeanOf:
    """Weighted mean over sample rows z of e(x, z); `lowered` is the traced kernel, `sample` its rows behind a view."""

    lowered: Any
    sample: Any
    view: View


@dataclass(frozen=True)
class Vector:
    """A vector over one side: "row" belongs to x, "column" to y; "scalar" is one number for all pairs."""

    of: Any
    side: str

"""Where the numbers of a program come from on a device: products of rows, vectors, column functions, or tiles of the host.

Nothing here computes. A :class:`Layout` says of each leaf which product and which vectors it reads, so that torch and the
generated kernels load the same things; functions of columns are written once, as expressions.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import expr
from mercer.engines.cpu import DISTANCE_TOLERANCE, ROUNDINGS
from mercer.kernels.statistics import ColumnStatistic, Inner, SameRow, SquaredDistance, Vector

__all__ = ["Layout", "Leaf", "column_program", "layout", "transposed"]


@dataclass(frozen=True)
class Leaf:
    """How one leaf is made: "distance", "inner" and "product" of a product, "row", "column", "same", "columns", "host"."""

    kind: str
    of: int = 0  # number of the product, of the column statistic or of the host's tile
    vector: int = 0  # number of the pair of vectors


@dataclass(frozen=True)
class Layout:
    """What a program reads. A vector is named by (what, of what) for the rows and for the columns; None is 0."""

    leaves: tuple[Leaf, ...]
    products: tuple[tuple[Any, bool], ...]  # (view, whether its rows are centred)
    vectors: tuple[tuple[Any, Any], ...]
    statistics: tuple[ColumnStatistic, ...]
    host: tuple[expr.Expr, ...]  # leaves of which the host makes the tile

    @property
    def fusible(self) -> bool:
        """Whether a generated kernel can make every leaf."""
        return not self.host


def layout(program: expr.Program, x) -> Layout:
    """The layout of a program on sides like `x`."""
    return _Planning(program, x).layout()


class _Planning:
    def __init__(self, program, x):
        self.x, self.program = x, program
        self.products: dict = {}
        self.vectors: dict = {}
        self.statistics: dict = {}
        self.host: dict = {}
        self.distances = {
            e.payload.view for e in program.leaves if isinstance(e.payload, SquaredDistance) and not self._on_host(e)
        }

    def layout(self):
        leaves = tuple(self._leaf(e) for e in self.program.leaves)
        return Layout(leaves, *map(tuple, (self.products, self.vectors, self.statistics, self.host)))

    def _on_host(self, e):
        """Pairs of objects, and rows that are sparse: a device has no use for them."""
        payload = e.payload
        if isinstance(payload, SameRow | Vector):
            return False
        if isinstance(payload, SquaredDistance | Inner | ColumnStatistic):
            return sp.issparse(self.x.views[payload.view])
        return True

    def _leaf(self, e):
        payload = e.payload
        if self._on_host(e):
            return Leaf("host", _number(self.host, e))
        if isinstance(payload, SquaredDistance):
            norm = "norm", payload.view
            return Leaf("distance", self._product(payload.view, True), _number(self.vectors, (norm, norm)))
        if isinstance(payload, Inner):
            return self._inner(payload.view)
        if isinstance(payload, ColumnStatistic):
            return Leaf("columns", _number(self.statistics, payload))
        if isinstance(payload, SameRow):
            return Leaf("same")
        if payload.side == "row":
            return Leaf("row", 0, _number(self.vectors, (("vector", payload), None)))
        return Leaf("column", 0, _number(self.vectors, (None, ("vector", payload))))

    def _inner(self, view):
        if view not in self.distances:
            return Leaf("product", self._product(view, False))
        # <x, y> = <xc, yc> + <xc, m> + <m, yc> + <m, m>: the product of the centred rows serves distances too.
        return Leaf("inner", self._product(view, True), _number(self.vectors, (("shift", view), ("shift and m", view))))

    def _product(self, view, centred):
        return _number(self.products, (view, centred))


def _number(table, key):
    return table.setdefault(key, len(table))


def tau(dtype) -> float:
    """Distances below so many times the norms are close."""
    return ROUNDINGS * np.finfo(dtype).eps / DISTANCE_TOLERANCE[dtype]


# ------------------------------------------------------------------------------------------------ expressions
def transposed(e: expr.Expr) -> expr.Expr:
    """The expression of the pair (y, x): row vectors become column vectors."""
    memo: dict = {}
    for node in expr.topological([e]):
        payload = node.payload
        if node.op == "leaf" and isinstance(payload, Vector) and payload.side != "scalar":
            payload = Vector(payload.of, "row" if payload.side == "column" else "column")
        memo[node] = expr.Expr(node.op, tuple(memo[a] for a in node.args), payload)
    return memo[e]


@cache
def column_program(function: str, parameter: int) -> expr.Program:
    """The program of a function of two entries, which are its leaves 0 and 1; `mercer.engines.columns` has the formulas."""
    a, b = expr.leaf("first entry"), expr.leaf("second entry")
    program = expr.compile_program([_FUNCTIONS[function](a, b, parameter)], {})
    order = {e.payload: i for i, e in enumerate(program.leaves)}
    if order != {"first entry": 0, "second entry": 1}:
        raise AssertionError(f"{function} reads its entries in another order")
    return program


def _distance(a, b):
    return expr.maximum(a - b, b - a)


def _chi2(a, b, _):
    return expr.where(-1.0 * (a + b), 0.0, (a - b) * ((a - b) / (a + b)))


def _bspline(a, b, degree):
    inside = (degree + 1) / 2 - _distance(a, b)
    total = expr.ZERO
    for k in range((degree + 1) // 2 + 1):
        weight = (-1) ** k * math.comb(degree + 1, k) / math.factorial(degree)
        total = total + weight * expr.power(expr.maximum(inside - k, 0.0), degree)
    return total


def _window(a, b, code):
    u = _distance(a, b)
    if code == 0:
        return expr.where(u - 1.0, 0.0, expr.cos(0.5 * math.pi * u))
    p, q = divmod(code, 10)
    return expr.where(1.0 - u, expr.power(expr.maximum(1.0 - expr.power(u, p), 0.0), q), 0.0)


def _spline(a, b, _):
    low = expr.minimum(a, b)
    return 1.0 + a * b + a * b * low - 0.5 * (a + b) * low * low + low * low * low * (1.0 / 3.0)


_FUNCTIONS = {
    "absdiff": lambda a, b, _: _distance(a, b),
    "min": lambda a, b, _: expr.minimum(a, b),
    "chi2": _chi2,
    "equal": lambda a, b, _: expr.where(-1.0 * _distance(a, b), 1.0, 0.0),
    "gauss": lambda a, b, _: expr.exp(-0.5 * ((a - b) * (a - b))),
    "bspline": _bspline,
    "window": _window,
    "spline": _spline,
}

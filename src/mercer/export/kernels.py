"""Kernels as ONNX nodes: the expression that the engines run, written once more, for new rows against fixed ones."""

import math
import reprlib

import numpy as np

from mercer import expr
from mercer.engines import ReferenceEngine, columns
from mercer.engines.prepare import Prepared, all_leaves
from mercer.export.graphs import Graph
from mercer.kernels.statistics import (
    ColumnStatistic,
    DiagonalOf,
    External,
    FunctionOf,
    Inner,
    MeanOf,
    SameRow,
    SquaredDistance,
    Vector,
)
from mercer.kernels.trace import Lowered, lower
from mercer.kernels.views import (
    Categories,
    Circle,
    Divided,
    Input,
    Linear,
    NonNegativeRows,
    Numbers,
    Part,
    Plain,
    chain,
)

__all__ = ["KernelNodes", "refuse_unwritable"]

_VIEWS = (Input, Part, Numbers, Plain, NonNegativeRows, Categories, Divided, Linear, Circle)
_NODES = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh",
    "sin": "Sin", "pow": "Pow", "min": "Min", "max": "Max",
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ what cannot be written
def refuse_unwritable(kernel) -> None:
    """Raise ValueError where a part of a kernel has no ONNX nodes, naming the part."""
    if _obstacle(lower(kernel)) is None:
        return
    part = _culprit(kernel)
    raise ValueError(f"{reprlib.repr(part)} cannot be written as ONNX: {_obstacle(lower(part))}; use another kernel there, "
                     "or keep the model in a file of mercer.save")  # fmt: skip


def _culprit(kernel):
    """The smallest part that is an obstacle by itself."""
    for child in kernel.children:
        if _obstacle(lower(child)) is not None:
            return _culprit(child)
    return kernel


def _obstacle(lowered: Lowered):
    for e in expr.topological([lowered.expression]):
        if e.op == "table":
            return f"ONNX has no function {e.payload!r}"
    for payload in all_leaves(lowered.expression):
        why = _leaf_obstacle(payload)
        if why is not None:
            return why
    return None


def _leaf_obstacle(payload):
    if isinstance(payload, External):
        return "it is computed pair by pair by code"
    if isinstance(payload, FunctionOf):
        return f"{getattr(payload.function, '__name__', 'a function')} is a function in Python"
    if isinstance(payload, MeanOf):
        return _obstacle(payload.lowered)
    for link in chain(getattr(payload, "view", None)):
        if not isinstance(link, _VIEWS):
            return (
                "its features are made by code" if type(link).__name__ != "Things" else "it reads objects, not numbers"
            )
    return None


# ------------------------------------------------------------------------------------------------ nodes
class KernelNodes:
    """k(x, c) as nodes: x the rows named `rows` (m, d), c the fixed rows (n, d), which are centred like the engines' rows."""

    def __init__(self, graph: Graph, lowered: Lowered, centres, rows: str):
        self.graph, self.lowered, self.rows = graph, lowered, rows
        self.side: Prepared = ReferenceEngine().prepare(lowered, np.ascontiguousarray(centres, graph.dtype))
        self.seen: dict = {}  # rows as views see them

    def block(self) -> str:
        """(m, n)."""
        value = self._evaluated(self.lowered.expression, self._leaf)
        pairs = (Inner, SquaredDistance, ColumnStatistic)
        if any(isinstance(e.payload, pairs) for e in expr.leaves(self.lowered.expression)):
            return value
        return self.graph.add("Add", value, self.graph.filled(0.0, self.rows, len(self.side)))

    def diagonal(self, expression=None) -> str:
        """k(x, x), (m, 1), of this or another expression of the same statistics."""
        value = self._evaluated(self.lowered.expression if expression is None else expression, self._own)
        return self.graph.add("Add", value, self.graph.filled(0.0, self.rows, 1))

    def _evaluated(self, expression, leaf):
        known: dict = {}
        for e in expr.topological([expr.folded(expression, self.lowered.parameters)]):
            if e.op == "const":
                known[e] = self.graph.constant(e.payload)
            elif e.op == "leaf":
                known[e] = leaf(e.payload)
            else:
                known[e] = self._operation(e.op, *(known[a] for a in e.args))
            last = known[e]
        return last

    def _operation(self, op, *args):
        add = self.graph.add
        if op in _NODES:
            return add(_NODES[op], *args)
        if op == "cos":
            return self.graph.cos(*args)
        if op == "where":
            return self.graph.where(add("GreaterOrEqual", args[0], 0.0), *args[1:])
        if op == "rsqrt0":
            positive = add("Greater", args[0], 0.0)
            return self.graph.where(positive, add("Reciprocal", add("Sqrt", args[0])), 0.0)
        return _acos(self.graph, *args)

    # ------------------------------------------------------------------------------------ statistics of pairs
    def _leaf(self, payload):
        side = self.side
        if isinstance(payload, Inner):
            return self._products(self._view(payload.view), _dense(side.views[payload.view]))
        if isinstance(payload, SquaredDistance):
            return self._distance(payload.view)
        if isinstance(payload, ColumnStatistic):
            return self._columns(payload, side.views[payload.view])
        if isinstance(payload, SameRow):  # a new row is none of the fixed ones
            return self.graph.constant(0.0)
        if payload.side == "row":
            return self._own(payload)
        value = side.vector(payload)
        return self.graph.constant(value if payload.side == "scalar" else value[None])

    def _distance(self, view):
        """||x - c||^2: by products of centred rows; by differences where the profile has a kink at 0, which would show their
        rounding errors."""
        add, side = self.graph.add, self.side
        x = add("Sub", self._view(view), side.centre[view][None])
        c = _dense(side.centred[view])
        if self.lowered.sensitivity[view].kinked:
            return _over_columns(self.graph, _Pairs("square"), x, c)
        norms = add("Add", self.graph.sum(add("Mul", x, x)), side.norms[view][None])
        return add("Max", add("Sub", norms, self._products(x, 2.0 * c)), 0.0)

    def _products(self, x, c):
        """<x, c>. Gemm and not MatMul: onnxruntime joins MatMul with a factor that it keeps in float32."""
        return self.graph.add("Gemm", x, c, transB=1)

    def _columns(self, statistic, c):
        columns.check_order(statistic, c.shape[1])
        return _over_columns(self.graph, _Pairs.of(statistic, c.shape[1]), self._view(statistic.view), _dense(c))

    # ------------------------------------------------------------------------------------ of a row with itself
    def _own(self, payload):
        graph = self.graph
        if isinstance(payload, Inner):
            x = self._view(payload.view)
            return graph.sum(graph.add("Mul", x, x))
        if isinstance(payload, SquaredDistance):
            return graph.constant(0.0)
        if isinstance(payload, SameRow):
            return graph.constant(1.0)
        if isinstance(payload, ColumnStatistic):
            d = self.side.views[payload.view].shape[1]
            return _over_columns(graph, _Pairs.of(payload, d), self._view(payload.view), None)
        return self._vector(payload)

    def _vector(self, payload: Vector):
        if payload.side == "scalar":
            return self.graph.constant(self.side.vector(payload))
        of = payload.of
        if isinstance(of, DiagonalOf):
            return self._evaluated(of.expression, self._own)
        sample = KernelNodes(self.graph, of.lowered, _dense(of.sample.rows), self._view(of.view))
        return self.graph.add("ReduceMean", sample.block(), self.graph.indices([1]), keepdims=1)

    # ------------------------------------------------------------------------------------ rows behind views
    def _view(self, view):
        current = self.rows
        for link in chain(view):
            if link not in self.seen:
                self.seen[link] = self._forward(link, current)
            current = self.seen[link]
        return current

    def _forward(self, link, x):
        add = self.graph.add
        if isinstance(link, Part):
            return self.graph.columns(x, link.columns)
        if link in self.side.origin:  # before they are scaled, as the fixed rows were
            x = add("Sub", x, self.side.origin[link][None])
        if isinstance(link, Divided):
            kept, scale = link.kept(self.side.views[link.parent])
            return add("Mul", self.graph.columns(x, kept), 1.0 / scale[None])
        if isinstance(link, Linear):
            return self._products(x, link.matrix.value.T)
        if isinstance(link, Circle):
            angle = add("Mul", add("Mod", x, link.period, fmod=1), 2 * math.pi / link.period)
            return add("Concat", self.graph.cos(angle), add("Sin", angle), axis=1)
        return x


def _dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else rows


def _acos(graph, x):
    """acos of x cut to [-1, 1]; in float64 from a float32 start, since onnxruntime has no other.

    2 asin(t), t = sqrt((1 - |x|) / 2) < 0.71, where two steps of Newton's method on sin(y) = t give all digits.
    """
    add = graph.add
    x = add("Max", add("Min", x, 1.0), -1.0)
    if graph.dtype == np.float32:
        return add("Acos", x)
    kinds = graph.onnx.TensorProto
    t = add("Sqrt", add("Mul", add("Sub", 1.0, add("Abs", x)), 0.5))
    y = add("Cast", add("Asin", add("Cast", t, to=kinds.FLOAT)), to=kinds.DOUBLE)
    for _ in range(2):
        y = add("Sub", y, add("Div", add("Sub", add("Sin", y), t), graph.cos(y)))
    y = add("Mul", y, 2.0)
    return graph.where(add("Less", x, 0.0), add("Sub", math.pi, y), y)


# ------------------------------------------------------------------------------------------------ column after column
class _Pairs:
    """A function of one column of each row, and how its values are put together over the columns."""

    def __init__(self, function, combine="sum", parameter=0, order=1, weights=None):
        self.function, self.combine, self.parameter = function, combine, parameter
        self.order, self.weights = order, weights

    @classmethod
    def of(cls, statistic: ColumnStatistic, d):
        weights = columns.weights_of(statistic, d) if statistic.combine in ("sum", "mean") else None
        return cls(statistic.function, statistic.combine, statistic.parameter, statistic.order, weights)

    def starts(self):
        """Values before the first column: a sum, a product, or the elementary polynomials from 1 on."""
        return {"prod": [1.0], "elementary": [0.0] * self.order}.get(self.combine, [0.0])

    def step(self, graph, states, f, w):
        add = graph.add
        if self.combine == "prod":
            return [add("Mul", states[0], f)]
        if self.combine == "elementary":
            below = [graph.constant(1.0), *states[:-1]]
            return [add("Add", e, add("Mul", f, b)) for e, b in zip(states, below, strict=True)]
        return [add("Add", states[0], f if w is None else add("Mul", f, w))]


def _over_columns(graph: Graph, pairs: _Pairs, x, c) -> str:
    """The statistic of all pairs of rows x (m, d) and c (n, d), an array, or with c None of each row with itself (m, 1).

    A loop over the columns (Scan): there are never more than a few (m, n) at a time.
    """
    starts = [graph.filled(s, x, 1 if c is None else len(c)) for s in pairs.starts()]
    body = graph.inside()
    states = [body.argument("state", [None, None]) for _ in starts]
    a = body.add("Unsqueeze", body.argument("x", [None]), body.indices([1]))
    b = a if c is None else body.add("Unsqueeze", body.argument("c", [None]), body.indices([0]))
    w = None if pairs.weights is None else body.argument("w", [])
    f = _FUNCTIONS[pairs.function](body, a, b, pairs.parameter)
    columns_of = [graph.add("Transpose", x)]
    columns_of += [] if c is None else [graph.constant(c.T)]
    columns_of += [] if w is None else [graph.constant(pairs.weights)]
    whole = body.body("column", pairs.step(body, states, f, w))
    results = [graph.name("Scan") for _ in starts]
    graph.nodes.append(
        graph.onnx.helper.make_node(
            "Scan", [*starts, *columns_of], results, num_scan_inputs=len(columns_of), body=whole
        )
    )
    return results[-1]


def _square(graph, a, b, _):
    u = graph.add("Sub", a, b)
    return graph.add("Mul", u, u)


def _gauss(graph, a, b, _):
    return graph.add("Exp", graph.add("Mul", _square(graph, a, b, _), -0.5))


def _equal(graph, a, b, _):
    return graph.where(graph.add("Equal", a, b), 1.0, 0.0)


def _chi2(graph, a, b, _):
    add = graph.add
    total = add("Add", a, b)
    positive = add("Greater", total, 0.0)
    return graph.where(positive, add("Div", _square(graph, a, b, _), graph.where(positive, total, 1.0)), 0.0)


def _bspline(graph, a, b, degree):
    add = graph.add
    inside = add("Sub", (degree + 1) / 2, add("Abs", add("Sub", a, b)))
    total = graph.constant(0.0)
    for k in range((degree + 1) // 2 + 1):
        factor = (-1) ** k * math.comb(degree + 1, k) / math.factorial(degree)
        piece = add("Pow", add("Max", add("Sub", inside, float(k)), 0.0), float(degree))
        total = add("Add", total, add("Mul", piece, factor))
    return total


def _window(graph, a, b, code):
    add = graph.add
    u = add("Abs", add("Sub", a, b))
    if code == 0:
        angle = add("Mul", add("Min", u, 1.0), math.pi / 2)
        return graph.where(add("Less", u, 1.0), graph.cos(angle), 0.0)
    p, q = divmod(code, 10)
    inside = add("LessOrEqual", u, 1.0)
    if p == 0 or q == 0:
        return graph.where(inside, 1.0 if q == 0 else 0.0, 0.0)
    bump = add("Pow", add("Max", add("Sub", 1.0, add("Pow", u, float(p))), 0.0), float(q))
    return graph.where(inside, bump, 0.0)


def _spline(graph, a, b, _):
    add = graph.add
    product, low = add("Mul", a, b), add("Min", a, b)
    square = add("Mul", low, low)
    total = add("Add", add("Add", 1.0, product), add("Mul", product, low))
    total = add("Sub", total, add("Mul", add("Mul", add("Add", a, b), 0.5), square))
    return add("Add", total, add("Mul", add("Mul", square, low), 1.0 / 3.0))


_FUNCTIONS = {
    "square": _square, "absdiff": lambda g, a, b, _: g.add("Abs", g.add("Sub", a, b)),
    "min": lambda g, a, b, _: g.add("Min", a, b), "chi2": _chi2, "equal": _equal, "gauss": _gauss, "bspline": _bspline,
    "window": _window, "spline": _spline,
}  # fmt: skip

r"""Scalar expressions of pair statistics: what a kernel formula is traced into.

A kernel says ``exp(-s / 2)`` about a *leaf* ``s`` (the squared distance of a pair, an inner product, ...). The result is
a small graph of :class:`Expr` nodes, equal subexpressions shared, in which parameters are symbols. Three things are done
with it, each in one place: it is evaluated on arrays (:func:`evaluate`), differentiated backwards (:func:`gradient`, the
result being expressions again) and lowered to a register program (:func:`compile_program`) for the engines.

>>> s = leaf("s")
>>> float(evaluate(exp(-0.5 * s), {}, {s: 0.0}))
1.0
"""

import math
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "Expr",
    "Program",
    "Table",
    "acos",
    "as_expr",
    "asin",
    "compile_program",
    "const",
    "cos",
    "evaluate",
    "exp",
    "gradient",
    "leaf",
    "leaves",
    "log",
    "maximum",
    "minimum",
    "param",
    "power",
    "rsqrt0",
    "sin",
    "sqrt",
    "table",
    "tanh",
    "where",
]


class Expr:
    """A node: an operation, its argument nodes and, for leaves, constants and tables, a payload. Made by the functions below."""

    __slots__ = ("__weakref__", "args", "op", "payload")
    _known: "weakref.WeakValueDictionary[tuple, Expr]" = weakref.WeakValueDictionary()
    _lock = threading.Lock()

    op: str
    args: "tuple[Expr, ...]"
    payload: Any

    def __new__(cls, op, args=(), payload=None):
        # Equal nodes are the same object, so that shared subexpressions are found by identity.
        key = (op, tuple(map(id, args)), payload)
        with cls._lock:
            node = cls._known.get(key)
            if node is None:
                node = super().__new__(cls)
                node.op, node.args, node.payload = op, tuple(args), payload
                cls._known[key] = node
        return node

    def __repr__(self):
        if not self.args:
            return f"{self.payload}"
        inside = ", ".join(map(repr, self.args)) + (f", {self.payload}" if self.payload is not None else "")
        return f"{self.op}({inside})"

    def __reduce__(self):
        return Expr, (self.op, self.args, self.payload)

    def __add__(self, other):
        return _add(self, as_expr(other))

    def __sub__(self, other):
        return _sub(self, as_expr(other))

    def __mul__(self, other):
        return _mul(self, as_expr(other))

    def __truediv__(self, other):
        return _div(self, as_expr(other))

    def __radd__(self, other):
        return _add(as_expr(other), self)

    def __rsub__(self, other):
        return _sub(as_expr(other), self)

    def __rmul__(self, other):
        return _mul(as_expr(other), self)

    def __rtruediv__(self, other):
        return _div(as_expr(other), self)

    def __neg__(self):
        return _mul(const(-1.0), self)

    def __pow__(self, exponent):
        return power(self, exponent)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        # np.exp(s) in a user's profile traces like mercer.expr.exp(s).
        function = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or kwargs or function is None:
            return NotImplemented
        return function(*inputs)


# ---------------------------------------------------------------------------------------------- building
def const(value: float) -> Expr:
    return Expr("const", (), float(value))


def param(name: str) -> Expr:
    """A scalar parameter, a symbol: new values need no new expression."""
    return Expr("param", (), name)


def leaf(payload) -> Expr:
    """A pair statistic or a row or column vector; what it means is the engine's business."""
    return Expr("leaf", (), payload)


ZERO, ONE = const(0.0), const(1.0)


def as_expr(x) -> Expr:
    """An expression of a number or of an expression."""
    return x if isinstance(x, Expr) else const(x)


def _value(e):
    return e.payload if e.op == "const" else None


def _add(a, b):
    if a is ZERO:
        return b
    if b is ZERO:
        return a
    if a.op == b.op == "const":
        return const(a.payload + b.payload)
    return Expr("add", (a, b))


def _sub(a, b):
    if b is ZERO:
        return a
    if a.op == b.op == "const":
        return const(a.payload - b.payload)
    return Expr("sub", (a, b))


def _mul(a, b):
    if a is ZERO or b is ZERO:
        return ZERO
    if a is ONE:
        return b
    if b is ONE:
        return a
    if a.op == b.op == "const":
        return const(a.payload * b.payload)
    return Expr("mul", (a, b))


def _div(a, b):
    if a is ZERO or b is ONE:
        return a
    if b.op == "const" and b.payload != 0.0:
        return _mul(a, const(1.0 / b.payload)) if a.op != "const" else const(a.payload / b.payload)
    return Expr("div", (a, b))


def _unary(op):
    def build(x):
        return Expr(op, (as_expr(x),))

    build.__name__ = op
    return build


exp, log, sqrt, tanh, sin, cos, acos = map(_unary, ("exp", "log", "sqrt", "tanh", "sin", "cos", "acos"))


def rsqrt0(x) -> Expr:
    """1/sqrt(x), and 0 where x <= 0: the derivative of a distance on the diagonal is 0, not 0 * inf."""
    return Expr("rsqrt0", (as_expr(x),))


def asin(x) -> Expr:
    return math.pi / 2 - acos(x)


def minimum(a, b) -> Expr:
    return Expr("min", (as_expr(a), as_expr(b)))


def maximum(a, b) -> Expr:
    return Expr("max", (as_expr(a), as_expr(b)))


def where(condition, a, b) -> Expr:
    """`a` where condition >= 0, else `b`."""
    return Expr("where", (as_expr(condition), as_expr(a), as_expr(b)))


def power(x, exponent) -> Expr:
    x, exponent = as_expr(x), as_expr(exponent)
    return ONE if exponent is ZERO else x if exponent is ONE else Expr("pow", (x, exponent))


@dataclass(frozen=True)
class Table:
    """A scalar function on [0, inf) too costly for a tile: `family(order)(x)` is exact, engines tabulate it at plan time."""

    family: Callable[..., Callable[[np.ndarray], np.ndarray]]
    order: tuple
    derivative_of_argument: Callable[["Table", Expr], Expr]

    def __call__(self, x):
        return self.family(*self.order)(x)

    def __repr__(self):
        return f"{self.family.__name__}{self.order}"


def table(x, function: Table) -> Expr:
    return Expr("table", (as_expr(x),), function)


_UFUNCS: dict[str, Callable] = {
    "exp": exp, "log": log, "sqrt": sqrt, "tanh": tanh, "sin": sin, "cos": cos, "arccos": acos, "arcsin": asin,
    "minimum": minimum, "maximum": maximum, "power": power, "square": lambda x: x * x, "negative": lambda x: -x,
    "add": lambda a, b: as_expr(a) + b, "subtract": lambda a, b: as_expr(a) - b,
    "multiply": lambda a, b: as_expr(a) * b, "divide": lambda a, b: as_expr(a) / b,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- reading
def topological(outputs) -> list[Expr]:
    """Every node once, arguments before users."""
    seen, order = set(), []
    stack = [(e, False) for e in reversed(list(outputs))]
    while stack:
        e, ready = stack.pop()
        if ready:
            order.append(e)
        elif id(e) not in seen:
            seen.add(id(e))
            stack.append((e, True))
            stack.extend((a, False) for a in reversed(e.args) if id(a) not in seen)
    # A node may have been pushed twice before it was expanded; keep its first completion.
    return list(dict.fromkeys(order))


def leaves(*outputs: Expr) -> list[Expr]:
    """The leaves (not parameters, not constants) in the order of first use."""
    return [e for e in topological(outputs) if e.op == "leaf"]


def _rsqrt0(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x <= 0, x.dtype.type(0) if hasattr(x, "dtype") else 0.0, 1.0 / np.sqrt(x))


_NUMPY: dict[str, Callable] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "exp": np.exp, "log": np.log,
    "sqrt": np.sqrt, "rsqrt0": _rsqrt0, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "acos": lambda x: np.arccos(np.clip(x, -1.0, 1.0)), "pow": np.power, "min": np.minimum, "max": np.maximum,
    "where": lambda c, a, b: np.where(c >= 0, a, b),
}  # fmt: skip


def evaluate(e: Expr, parameters: Mapping[str, float], values: Mapping[Expr, Any]):
    """Value of the expression on NumPy arrays: `values` gives each leaf's, which broadcast together."""
    return evaluate_all([e], parameters, values)[0]


def evaluate_all(outputs, parameters, values) -> list:
    """Values of several expressions, shared subexpressions computed once."""
    known: dict[Expr, Any] = {}
    with np.errstate(all="ignore"):  # overflow and 0/0 show as inf and NaN, which the Gram reports by name
        for e in topological(outputs):
            known[e] = _evaluate_node(e, known, parameters, values)
    return [known[e] for e in outputs]


def _evaluate_node(e, known, parameters, values):
    if e.op == "const":
        return e.payload
    if e.op == "param":
        return float(parameters[e.payload])
    if e.op == "leaf":
        return values[e]
    if e.op == "table":
        return e.payload(known[e.args[0]])
    return _NUMPY[e.op](*(known[a] for a in e.args))


# ---------------------------------------------------------------------------------------------- differentiating
def _pow_adjoint(e, g):
    x, p = e.args
    by_base = g * p * power(x, p - 1.0)
    by_exponent = ZERO if p.op == "const" else g * e * log(x)
    return by_base, by_exponent


_ADJOINTS: dict[str, Callable] = {
    "add": lambda e, g: (g, g),
    "sub": lambda e, g: (g, -g),
    "mul": lambda e, g: (g * e.args[1], g * e.args[0]),
    "div": lambda e, g: (g / e.args[1], -(g * e) / e.args[1]),
    "exp": lambda e, g: (g * e,),
    "log": lambda e, g: (g / e.args[0],),
    "sqrt": lambda e, g: (0.5 * g * rsqrt0(e.args[0]),),
    "rsqrt0": lambda e, g: (-0.5 * g * e * e * e,),
    "tanh": lambda e, g: (g * (1.0 - e * e),),
    "sin": lambda e, g: (g * cos(e.args[0]),),
    "cos": lambda e, g: (-(g * sin(e.args[0])),),
    "acos": lambda e, g: (-(g * rsqrt0(1.0 - e.args[0] * e.args[0])),),
    "pow": _pow_adjoint,
    "min": lambda e, g: (where(e.args[1] - e.args[0], g, 0.0), where(e.args[1] - e.args[0], 0.0, g)),
    "max": lambda e, g: (where(e.args[0] - e.args[1], g, 0.0), where(e.args[0] - e.args[1], 0.0, g)),
    "where": lambda e, g: (ZERO, where(e.args[0], g, 0.0), where(e.args[0], 0.0, g)),
    "table": lambda e, g: (g * e.payload.derivative_of_argument(e.payload, e.args[0]),),
}


def gradient(e: Expr) -> dict[Expr, Expr]:
    """Partial derivatives of `e` in every leaf and parameter it contains, as expressions, by one backward sweep."""
    adjoint = {e: ONE}
    for node in reversed(topological([e])):
        g = adjoint.get(node, ZERO)
        if g is ZERO or not node.args:
            continue
        for argument, part in zip(node.args, _ADJOINTS[node.op](node, g), strict=True):
            adjoint[argument] = adjoint.get(argument, ZERO) + part
    return {x: g for x, g in adjoint.items() if x.op in ("leaf", "param") and g is not ZERO}


# ---------------------------------------------------------------------------------------------- lowering
@dataclass(frozen=True)
class Program:
    """Register program: registers 0 ... len(leaves)-1 hold the leaves, each instruction fills one more.

    An instruction is (operation, a, b, c, destination) with a constant beside it; `outputs` are registers.
    """

    instructions: tuple[tuple[str, int, int, int, int], ...]
    constants: tuple[float, ...]
    tables: tuple[Table, ...]
    leaves: tuple[Expr, ...]
    outputs: tuple[int, ...]
    n_registers: int


def compile_program(outputs, parameters: Mapping[str, float]) -> Program:
    """Lower expressions to one program for given parameter values; parameter arithmetic is folded in float64."""
    return _Lowering([_fold(e, parameters, {}) for e in outputs]).program()


def _fold(e, parameters, memo):
    """Replace parameters by their values and fold constant arithmetic."""
    for node in topological([e]):
        if node.op == "param":
            memo[node] = const(parameters[node.payload])
        elif not node.args:
            memo[node] = node
        else:
            memo[node] = _fold_node(node, tuple(memo[a] for a in node.args))
    return memo[e]


def _fold_node(node, args):
    if node.op in _REBUILD:
        return _REBUILD[node.op](*args)
    if all(a.op == "const" for a in args):
        rebuilt = Expr(node.op, args, node.payload)
        return const(float(evaluate(rebuilt, {}, {})))
    return Expr(node.op, args, node.payload)


def _scaled(a, b):
    """Product with its constant factors gathered on the left, so that chains of them become one instruction."""
    if b.op == "const":
        a, b = b, a
    if a.op == "const" and b.op == "mul" and b.args[0].op == "const":
        a, b = const(a.payload * b.args[0].payload), b.args[1]
    elif a.op == "mul" and a.args[0].op == "const":
        return _scaled(a.args[0], _scaled(a.args[1], b))
    elif a.op != "const" and b.op == "mul" and b.args[0].op == "const":
        return _scaled(b.args[0], _scaled(a, b.args[1]))
    return _mul(a, b)


def _ratio(a, b):
    if b.op == "const" and b.payload != 0.0:
        return _scaled(const(1.0 / b.payload), a)
    return _div(a, b)


_REBUILD: dict[str, Callable] = {"add": _add, "sub": _sub, "mul": _scaled, "div": _ratio}


class _Lowering:
    """Emits instructions; a register is reused once its last reader has run, so that the registers stay in the cache."""

    def __init__(self, outputs):
        self.outputs = outputs
        self.leaves = leaves(*outputs)
        self.rows, self.constants, self.tables = [], [], []
        self.value = {e: i for i, e in enumerate(self.leaves)}  # virtual registers, one per value
        self.n_values = len(self.leaves)

    def program(self):
        for e in topological(self.outputs):
            if e not in self.value and not (e.op == "const" and e not in self.outputs):
                self.value[e] = self._lower(e)
        instructions, outputs, n_registers = self._allocate([self.value[e] for e in self.outputs])
        return Program(
            instructions, tuple(self.constants), tuple(self.tables), tuple(self.leaves), outputs, n_registers
        )

    def _emit(self, op, a=0, b=0, c=0, constant=0.0):
        self.rows.append((op, a, b, c, self.n_values))
        self.constants.append(constant)
        self.n_values += 1
        return self.n_values - 1

    def _register(self, e):
        """Register of an argument; constants get one only where no instruction with a built-in constant exists."""
        if e not in self.value:
            self.value[e] = self._emit("const", constant=e.payload)
        return self.value[e]

    def _lower(self, e):
        if e.op == "const":
            return self._emit("const", constant=e.payload)
        if e.op == "pow":
            return self._lower_pow(*e.args)
        if e.op == "table":
            self.tables.append(e.payload)
            return self._emit("table", self._register(e.args[0]), constant=len(self.tables) - 1)
        short = self._with_constant(e)
        if short is not None:
            return short
        return self._emit(e.op, *(self._register(a) for a in e.args))

    def _with_constant(self, e):
        """Instructions that carry one constant argument, or None."""
        if len(e.args) != 2:
            return None
        (a, b), (u, v) = e.args, map(_value, e.args)
        if v is not None:
            op, k = {"add": ("addc", v), "sub": ("addc", -v), "mul": ("mulc", v), "div": ("mulc", 1.0 / v if v else math.inf),
                     "min": ("minc", v), "max": ("maxc", v)}.get(e.op, (None, 0.0))  # fmt: skip
            return None if op is None or (e.op == "div" and v == 0) else self._emit(op, self._register(a), constant=k)
        if u is not None:
            if e.op == "sub":
                return self._emit("addc", self._emit("mulc", self._register(b), constant=-1.0), constant=u)
            op = {"add": "addc", "mul": "mulc", "div": "rdivc", "min": "minc", "max": "maxc"}.get(e.op)
            return None if op is None else self._emit(op, self._register(b), constant=u)
        return None

    def _lower_pow(self, x, exponent):
        p = _value(exponent)
        if p is None:  # a varying exponent: exp(p log x)
            return self._lower(exp(exponent * log(x)))
        a = self._register(x)
        if p == int(p) and 0 < abs(p) <= 64:
            r = self._integer_power(a, int(abs(p)))
            return r if p > 0 else self._emit("rdivc", r, constant=1.0)
        if p == 0.5:
            return self._emit("sqrt", a)
        if p == -0.5:
            return self._emit("rdivc", self._emit("sqrt", a), constant=1.0)
        return self._emit("powc", a, constant=p)

    def _integer_power(self, a, p):
        """a**p by repeated squaring: exact signs for negative bases and no call to pow."""
        if p == 1:
            return a
        half = self._integer_power(a, p // 2)
        square = self._emit("mul", half, half)
        return self._emit("mul", square, a) if p % 2 else square

    def _allocate(self, outputs):
        last = {v: i for i, row in enumerate(self.rows) for v in _reads(row)}
        keep = set(outputs) | set(range(len(self.leaves)))
        place, free, count = {i: i for i in range(len(self.leaves))}, [], len(self.leaves)
        instructions = []
        for i, (op, a, b, c, dst) in enumerate(self.rows):
            # The destination is chosen before the operands are freed: a loop whose output aliases an input is not SIMD.
            if free:
                place[dst] = free.pop()
            else:
                place[dst], count = count, count + 1
            instructions.append((op, place.get(a, 0), place.get(b, 0), place.get(c, 0), place[dst]))
            free.extend(place[v] for v in set(_reads(self.rows[i])) if last[v] == i and v not in keep)
        return tuple(instructions), tuple(place[v] for v in outputs), count


_ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "min": 2, "max": 2, "where": 3, "const": 0}


def _reads(row):
    return row[1 : 1 + _ARITY.get(row[0], 1)]

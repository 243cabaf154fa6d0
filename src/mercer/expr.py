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
from collections import Counter
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
    "folded",
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

    An instruction is (operation, a, b, c, destination) with constants (scale, shift, value) beside it. Operations in `MAPPED`
    read their first operand as scale * a + shift, so that constants cost no pass of their own; `value` is the number that
    powc, maxc, minc, rdivc, const and table carry. A destination is never one of the operands. `outputs` are registers.
    """

    instructions: tuple[tuple[str, int, int, int, int], ...]
    constants: tuple[tuple[float, float, float], ...]
    tables: tuple[Table, ...]
    leaves: tuple[Expr, ...]
    outputs: tuple[int, ...]
    n_registers: int


#: Operations that read their first operand through scale * a + shift. fma is (scale * a + shift) * b + c.
MAPPED = frozenset("affine add mul fma div rdivc exp log sqrt rsqrt0 tanh acos min max maxc minc where".split())
_ARITY = {"add": 2, "mul": 2, "fma": 3, "div": 2, "min": 2, "max": 2, "where": 3, "const": 0}
_LARGEST_PRODUCT = 64  # integer powers up to this one become products


def compile_program(outputs, parameters: Mapping[str, float]) -> Program:
    """Lower expressions to one program for given parameter values; parameter arithmetic is folded in float64."""
    memo: dict[Expr, Expr] = {}
    return _Lowering([folded(e, parameters, memo) for e in outputs]).program()


def folded(e: Expr, parameters: Mapping[str, float], memo: dict[Expr, Expr] | None = None) -> Expr:
    """The expression with values in place of parameters, constant arithmetic done, and powers written out."""
    memo = {} if memo is None else memo
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
    """Product with its constant factors gathered on the left, so that chains of them become one."""
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


def _difference(a, b):
    if a.op == b.op == "const":
        return const(a.payload - b.payload)
    return _add(a, const(-b.payload) if b.op == "const" else _scaled(const(-1.0), b))


def _written_out(x, exponent):
    """A power as products, a root, or exp(p log x) where the exponent varies; other powers stay."""
    p = _value(exponent)
    if p is None:
        return exp(_scaled(exponent, log(x)))
    if x.op == "const":
        return const(float(evaluate(power(x, exponent), {}, {})))
    if p == int(p) and 0 < abs(p) <= _LARGEST_PRODUCT:
        product = _repeated_product(x, int(abs(p)))
        return product if p > 0 else _div(ONE, product)
    if abs(p) == 0.5:
        return sqrt(x) if p > 0 else _div(ONE, sqrt(x))
    return power(x, exponent)


def _repeated_product(x, p):
    """x**p by repeated squaring: exact signs for negative bases and no call to pow.

    A constant factor of x stays inside, since its power alone may underflow where that of the product does not.
    """
    if p == 1:
        return x
    half = _repeated_product(x, p // 2)
    square = _mul(half, half)
    return _mul(square, x) if p % 2 else square


_REBUILD: dict[str, Callable] = {
    "add": _add, "sub": _difference, "mul": _scaled, "div": _ratio, "pow": _written_out,
}  # fmt: skip


def _as_affine(e):
    """(scale, x, shift) with e = scale * x + shift, for constants; scale (x + shift) is left alone, since multiplying it out
    would round the shift where x cancels it."""
    shift = 0.0
    if e.op == "add" and _value(e.args[0]) is not None:
        shift, e = e.args[0].payload, e.args[1]
    elif e.op == "add" and _value(e.args[1]) is not None:
        shift, e = e.args[1].payload, e.args[0]
    scaled = e.op == "mul" and e.args[0].op == "const"
    scale, x = (e.args[0].payload, e.args[1]) if scaled else (1.0, e)
    return scale, x, shift


class _Lowering:
    """Emits instructions; a register is reused once its last reader has run, so that the registers stay in the cache.

    Values that their readers can take in passing (affine in a constant, products that are added) get no instruction of their
    own unless someone asks for their register.
    """

    def __init__(self, outputs):
        self.outputs = outputs
        self.order = topological(outputs)
        self.leaves = leaves(*outputs)
        self.rows, self.constants, self.tables = [], [], []
        self.value = {e: i for i, e in enumerate(self.leaves)}  # virtual registers, one per value
        self.n_values = len(self.leaves)
        uses = Counter(a for e in self.order for a in e.args)
        uses.update(outputs)
        added = (a for e in self.order if e.op == "add" for a in e.args)
        self.products = {a for a in added if a.op == "mul" and uses[a] == 1}
        self.products |= {a.args[1] for a in self.products if a.args[1].op == "mul" and uses[a.args[1]] == 1}

    def program(self):
        for e in self.order:
            if e not in self.products and e.op != "const" and _as_affine(e)[1] is e:
                self._register(e)
        instructions, outputs, n_registers = self._allocate([self._register(e) for e in self.outputs])
        return Program(
            instructions, tuple(self.constants), tuple(self.tables), tuple(self.leaves), outputs, n_registers
        )

    def _emit(self, op, a=0, b=0, c=0, scale=1.0, shift=0.0, value=0.0):
        self.rows.append((op, a, b, c, self.n_values))
        self.constants.append((scale, shift, value))
        self.n_values += 1
        return self.n_values - 1

    def _register(self, e):
        if e not in self.value:
            self.value[e] = self._lower(e)
        return self.value[e]

    def _lower(self, e):
        if e.op == "const":
            return self._emit("const", value=e.payload)
        if e.op == "table":
            self.tables.append(e.payload)
            return self._emit("table", self._register(e.args[0]), value=len(self.tables) - 1)
        if e.op == "pow":
            return self._emit("powc", self._register(e.args[0]), value=e.args[1].payload)
        if _as_affine(e)[1] is not e:
            return self._mapped("affine", e)
        if e.op == "add":
            return self._lower_sum(*e.args)
        if e.op in _COMMUTES:
            return self._lower_commuting(e.op, *e.args)
        if e.op == "div" and e.args[0].op == "const":
            return self._mapped("rdivc", e.args[1], value=e.args[0].payload)
        return self._mapped(e.op, *e.args) if e.op in MAPPED else self._emit(e.op, self._register(e.args[0]))

    def _mapped(self, op, first, *others, value=0.0):
        scale, x, shift = _as_affine(first)
        return self._emit(op, self._register(x), *map(self._register, others), scale=scale, shift=shift, value=value)

    def _lower_commuting(self, op, u, v):
        if u.op == "const" or _as_affine(u)[1] is u:
            u, v = v, u
        if v.op == "const":  # of products only min and max come here: a constant factor is affine
            return self._mapped(op + "c", u, value=v.payload)
        return self._mapped(op, u, v)

    def _lower_sum(self, u, v):
        product, other = self._product(u), v
        if product is None:
            product, other = self._product(v), u
        if product is None:
            return self._lower_commuting("add", u, v)
        scale, x, shift, y = product
        return self._emit("fma", self._register(x), self._register(y), self._register(other), scale=scale, shift=shift)

    def _product(self, e):
        """(scale, x, shift, y) of a product (scale x + shift) y that nobody else reads, or None."""
        if e not in self.products:
            return None
        factor, inner, _ = _as_affine(e)
        if inner.op != "mul" or (inner is not e and inner not in self.products):
            return None
        scale, x, shift = _as_affine(inner.args[0])
        return (factor * scale, x, shift, inner.args[1]) if factor == 1.0 or shift == 0.0 else None

    def _allocate(self, outputs):
        last = {v: i for i, row in enumerate(self.rows) for v in reads(row)}
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
            free.extend(place[v] for v in set(reads(self.rows[i])) if last[v] == i and v not in keep)
        return tuple(instructions), tuple(place[v] for v in outputs), count


_COMMUTES = frozenset({"mul", "min", "max"})


def reads(row) -> tuple:
    """Registers that an instruction reads."""
    return row[1 : 1 + _ARITY.get(row[0], 1)]

"""Tiles on a device by torch: what a side has is sent there once, statistics are made there, programs run operation by operation.

torch is imported inside functions only: whoever does not ask for this engine need not have it.
"""

import weakref
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import expr
from mercer.engines import columns, sources
from mercer.engines._triton_code import padded_width
from mercer.engines.cpu import DISTANCE_TOLERANCE, ROUNDINGS, CpuEngine
from mercer.tensors import exact_products, free_memory

__all__ = [
    "Place",
    "Side",
    "compiled",
    "held",
    "needs_repair",
    "product_precision",
    "run_program",
    "send_ahead",
    "send_table",
    "tile",
]

_PAIRS = 2**24  # numbers in the rows of close pairs that are compared at a time
_SHARE = 4  # a side that takes more than this part of the free memory is not kept on the device
_held: dict[int, dict] = {}


@dataclass(frozen=True)
class Place:
    """Where numbers are made, and in which precision: `dtype` is that of the computation, not of the results."""

    device: Any
    dtype: np.dtype
    fast: bool = False
    padded: bool = False  # rows of products get zeros behind them, as generated kernels want it

    def send(self, array, dtype=None):
        """A tensor of an array; on the host they share memory."""
        import torch

        array = np.ascontiguousarray(array, dtype or self.dtype)
        # torch cannot hold read-only memory.
        return torch.from_numpy(array if array.flags.writeable else array.copy()).to(self.device)

    def holds(self, bytes_needed) -> bool:
        """Whether so many bytes may be kept here."""
        return self.device.type != "cuda" or bytes_needed * _SHARE <= free_memory(self.device)


def held(side) -> dict:
    """What is kept of a side and its parts; it goes when the side does."""
    whole = side if side.whole is None else side.whole
    if id(whole) not in _held:
        _held[id(whole)] = {}
        weakref.finalize(whole, _held.pop, id(whole), None)
    return _held[id(whole)]


class Side:
    """Rows of one side on a device, as a layout asks for them. `role` is 0 for the rows of a tile, 1 for its columns."""

    def __init__(self, place, side, layout, role):
        self.place, self.side, self.layout, self.role = place, side, layout, role

    def __len__(self):
        return len(self.side)

    def product(self, k):
        """(n, d) rows of a product, perhaps with zeros behind them."""
        view, centred = self.layout.products[k]
        table = "centred" if centred else "views"
        d = getattr(self.side, table)[view].shape[1]
        width = padded_width(d) if self.place.padded else d
        return self._fetch((table, view, width), lambda side: getattr(side, table)[view], zeros=width - d)

    def vector(self, k):
        """(n,) of a pair of vectors, or None for 0."""
        named = self.layout.vectors[k][self.role]
        return None if named is None else self._fetch(named, lambda side: _vector(named, side))

    def entries(self, k):
        """(n, d) rows of a column statistic; codes of categories keep all their digits."""
        statistic = self.layout.statistics[k]
        dtype = np.dtype(np.float64) if statistic.function == "equal" else self.place.dtype
        return self._fetch(("views", statistic.view), lambda side: side.views[statistic.view], dtype)

    def index(self):
        """Numbers of the rows."""
        return self._fetch(("index", None), lambda side: side.index, np.dtype(np.int64))

    def _fetch(self, what, make, dtype=None, zeros=0):
        side, known = self.side, held(self.side)
        key = what, self.place.device, dtype or self.place.dtype
        if key not in known:
            array = make(side if side.whole is None else side.whole)
            if side.whole is not None and not self.place.holds(array.nbytes + len(array) * zeros * array.itemsize):
                return _padded(self.place.send(make(side), dtype), zeros)
            known[key] = _padded(self.place.send(array, dtype), zeros)
        return known[key] if side.whole is None else _some(known[key], side.places)


def send_ahead(place, x):
    """Send what products with these rows read, while the device works for others: by a stream of its own."""
    import torch

    _, layout = compiled([x.lowered.expression], x)
    rows, columns = (Side(place, x, layout, role) for role in (0, 1))
    with nullcontext() if place.device.type != "cuda" else torch.cuda.stream(_beside(place.device)):
        found = [rows.product(k) for k in range(len(layout.products))]
        found += [rows.entries(k) for k in range(len(layout.statistics))]
        found += [side.vector(k) for side in (rows, columns) for k in range(len(layout.vectors))]
    if place.device.type == "cuda":
        for tensor in found:
            if tensor is not None:  # it is used on the other stream, and its memory is free only after that
                tensor.record_stream(torch.cuda.default_stream(place.device))
        _beside(place.device).synchronize()


@cache
def _beside(device):
    import torch

    return torch.cuda.Stream(device)


def _padded(tensor, zeros):
    """The same rows with so many zeros behind each."""
    import torch

    return torch.nn.functional.pad(tensor, (0, zeros)) if zeros else tensor


def _vector(named, side):
    what, of = named
    if what == "norm":
        return side.norms[of]
    if what == "vector":
        return np.broadcast_to(side.vector(of), len(side))
    m = side.centre[of].astype(np.float64)
    shifted = side.centred[of] @ m
    return shifted + m @ m if what == "shift and m" else shifted


def _some(tensor, places):
    """Rows by their places; those that follow each other without a copy."""
    import torch

    n = len(places)
    if n and places[-1] - places[0] == n - 1 and (n < 3 or (np.diff(places) == 1).all()):
        return tensor[int(places[0]) : int(places[0]) + n]
    return tensor[torch.from_numpy(np.ascontiguousarray(places)).to(tensor.device)]


def needs_repair(x, y, view, dtype) -> bool:
    """Whether distances between close rows must be taken from differences: see the CPU engine."""
    need = x.lowered.sensitivity[view]
    bound = ROUNDINGS * np.finfo(dtype).eps * (_largest(x, view) + _largest(y, view)) * need.scale
    return bool(need.kinked or bound > DISTANCE_TOLERANCE[dtype])


def _largest(side, view):
    """Largest squared norm of the whole side, looked for once."""
    known, key = held(side), ("largest norm", view)
    if key not in known:
        known[key] = float((side if side.whole is None else side.whole).norms[view].max(initial=0.0))
    return known[key]


# ------------------------------------------------------------------------------------------------ a tile
def compiled(outputs, x):
    """(program, layout) of some outputs, made once per traced kernel and kind of rows."""
    key = ("tensors", _sparse_views(x), *outputs)
    known = x.lowered.programs.get(key)
    if known is None:
        program = expr.compile_program(outputs, x.lowered.parameters)
        known = x.lowered.programs[key] = program, sources.layout(program, x)
    return known


def _sparse_views(x):
    return tuple(sp.issparse(rows) for rows in x.views.values())


def tile(place: Place, outputs, x, y) -> list:
    """Tensors (len(x), len(y)) of several expressions on all pairs, in the precision of the place."""
    program, layout = compiled(outputs, x)
    statistics = _Statistics(place, layout, x, y)
    leaves = [statistics.leaf(leaf) for leaf in layout.leaves]
    zero = place.send(np.zeros((1, 1)))
    return [value.expand(len(x), len(y)) for value in run_program(program, leaves, zero)]


class _Statistics:
    def __init__(self, place, layout, x, y):
        self.place, self.layout, self.x, self.y = place, layout, x, y
        self.rows, self.columns = Side(place, x, layout, 0), Side(place, y, layout, 1)
        self.same = self.rows.index()[:, None] == self.columns.index() if x.same_side(y) else None
        self._products: dict = {}

    def leaf(self, leaf):
        return getattr(self, f"_{leaf.kind}")(leaf)

    def _product(self, leaf):
        if leaf.of not in self._products:
            A, B = self.rows.product(leaf.of), self.columns.product(leaf.of)
            with product_precision(self.place):
                self._products[leaf.of] = A @ B.T
        return self._products[leaf.of]

    def _inner(self, leaf):
        return self._product(leaf) + self.rows.vector(leaf.vector)[:, None] + self.columns.vector(leaf.vector)

    def _distance(self, leaf):
        norms = self.rows.vector(leaf.vector)[:, None] + self.columns.vector(leaf.vector)
        s = (norms - 2.0 * self._product(leaf)).clamp_(min=0.0)
        if self.same is not None:
            s.masked_fill_(self.same, 0.0)
        view, _ = self.layout.products[leaf.of]
        if len(self.x) and len(self.y) and needs_repair(self.x, self.y, view, self.place.dtype):
            close = s < sources.tau(self.place.dtype) * norms
            if self.same is not None:
                close &= ~self.same
            _repair(s, close, self.rows.product(leaf.of), self.columns.product(leaf.of))
        return s

    def _row(self, leaf):
        return self.rows.vector(leaf.vector)[:, None]

    def _column(self, leaf):
        return self.columns.vector(leaf.vector)[None]

    def _same(self, leaf):
        if self.same is None:
            return self.place.send(np.zeros((1, 1)))
        return self.same.to(self.place.send(np.zeros(0)).dtype)

    def _columns(self, leaf):
        A, B = self.rows.entries(leaf.of), self.columns.entries(leaf.of)
        return column_tile(self.layout.statistics[leaf.of], A, B).to(self.place.send(np.zeros(0)).dtype)

    def _host(self, leaf):
        return self.place.send(CpuEngine(threads=1).tile([self.layout.host[leaf.of]], self.x, self.y)[0])


def product_precision(place):
    """TF32 in torch's products only where it was asked for, whatever the process is set to."""
    return exact_products(place.device, "high" if place.fast else "highest")


def _repair(s, close, A, B):
    """Distances of close pairs by differences: rounding of the product is relative to the norms."""
    i, j = close.nonzero(as_tuple=True)
    step = max(1, _PAIRS // max(A.shape[1], 1))
    for k in range(0, len(i), step):
        some = slice(k, k + step)
        s[i[some], j[some]] = (A[i[some]] - B[j[some]]).square_().sum(1)


def column_tile(statistic, A, B):
    """(n, m) column statistic, one column after the other."""
    d = A.shape[1]
    columns.check_order(statistic, d)
    program = sources.column_program(statistic.function, statistic.parameter)
    weights = columns.weights_of(statistic, d)
    zero = A.new_zeros((1, 1))
    sums = [A.new_zeros((len(A), len(B))) for _ in range(statistic.order)]
    if statistic.combine == "prod":
        sums[0] += 1.0
    for k in range(d):
        f = run_program(program, [A[:, k, None], B[None, :, k]], zero)[0]
        _combine(statistic, sums, f, float(weights[k]))
    return sums[-1]


def _combine(statistic, sums, f, weight):
    if statistic.combine == "prod":
        sums[0] *= f
    elif statistic.combine == "elementary":
        for p in range(statistic.order - 1, 0, -1):
            sums[p] += f * sums[p - 1]
        sums[0] += f
    else:
        sums[0] += weight * f


# ------------------------------------------------------------------------------------------------ programs
def run_program(program: expr.Program, leaves, zero) -> list:
    """Values of the outputs; leaves broadcast together. `zero` is a (1, 1) tensor of their kind."""
    import torch

    registers: dict[int, Any] = dict(enumerate(leaves))
    for (op, a, b, c, to), (scale, shift, value) in zip(program.instructions, program.constants, strict=True):
        u: Any = registers.get(a)
        if op in expr.MAPPED:
            u = u if scale == 1.0 else scale * u
            u = u if shift == 0.0 else u + shift
        if op == "table":
            registers[to] = _table(program.tables[int(value)], u)
        elif op == "const":
            registers[to] = zero + value
        elif op == "where":
            registers[to] = torch.where(u >= 0.0, registers[b], registers[c])
        else:
            registers[to] = _OPERATIONS[op](u, registers.get(b), registers.get(c), value)
    return [registers[k] for k in program.outputs]


_OPERATIONS: dict[str, Any] = {
    "affine": lambda u, b, c, v: u, "add": lambda u, b, c, v: u + b, "mul": lambda u, b, c, v: u * b,
    "fma": lambda u, b, c, v: u * b + c, "div": lambda u, b, c, v: u / b, "rdivc": lambda u, b, c, v: v / u,
    "exp": lambda u, b, c, v: u.exp(), "log": lambda u, b, c, v: u.log(), "sqrt": lambda u, b, c, v: u.sqrt(),
    "rsqrt0": lambda u, b, c, v: u.rsqrt().masked_fill(u <= 0.0, 0.0), "tanh": lambda u, b, c, v: u.tanh(),
    "sin": lambda u, b, c, v: u.sin(), "cos": lambda u, b, c, v: u.cos(),
    "acos": lambda u, b, c, v: u.clamp(-1.0, 1.0).acos(), "powc": lambda u, b, c, v: u.pow(v),
    "min": lambda u, b, c, v: u.minimum(b), "max": lambda u, b, c, v: u.maximum(b),
    "minc": lambda u, b, c, v: u.clamp(max=v), "maxc": lambda u, b, c, v: u.clamp(min=v),
}  # fmt: skip


def _table(function, u):
    """A tabulated function: Clenshaw's sum on the dyadic interval of each number, in float64."""
    import torch

    from mercer.engines import _compiled

    table = send_table((function,), u.device)[0]
    a = u.double()
    inside = torch.where(a > 0.0, a, 1.0).clamp(_compiled.TABLE_FIRST, _compiled.TABLE_LAST)
    mantissa, exponent = torch.frexp(inside)  # of inside = mantissa 2^exponent, 1/2 <= mantissa < 1
    interval, t = (exponent - 1 - _compiled.TABLE_MIN_EXPONENT).long(), 4.0 * mantissa - 3.0
    b1 = b2 = torch.zeros_like(t)
    for p in range(table.shape[1] - 1, 0, -1):
        b1, b2 = 2.0 * t * b1 + (table[:, p][interval] - b2), b1
    value = t * b1 + (table[:, 0][interval] - b2)
    value = torch.where(a <= 0.0, float(function(np.zeros(1))[0]), value)
    return torch.where(a.isnan(), a, value).to(u.dtype)


_tables: dict = {}


def send_table(functions, device):
    """Coefficients of tabulated functions on a device: (functions, intervals, terms)."""
    import torch

    from mercer.engines import _compiled

    key = functions, device
    if key not in _tables:
        _tables[key] = torch.from_numpy(np.stack([_compiled.dyadic_table(f) for f in functions])).to(device)
    return _tables[key]

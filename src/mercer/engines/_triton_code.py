"""Source text of fused GPU kernels: one Triton function for a program, which makes tiles of the Gram and uses them up at once.

The text comes from the closed set of operations alone. Constants are read from an array when the kernel runs, so that new
parameter values give the same text, which is compiled once. Numbers of a tile are made in the precision of the computation;
sums over the tiles of a row are float64, unless speed was asked for.
"""

import math
from dataclasses import dataclass

import numpy as np

from mercer import expr
from mercer.engines import sources, units
from mercer.engines.units import Rescaled, rescaled

__all__ = ["FEW", "MODES", "NARROW", "Code", "Shape", "generate", "heavy", "padded_width"]

NARROW = 64  # columns of rows that stay in registers while the other side passes by
FEW = 8  # right-hand sides up to which each has a sum of its own; more are a product of matrices
#: What is made of a tile, and how many tensors come out: products with few vectors and with many, the tile, reductions.
_PRODUCTS = ("few", "many")
MODES = {"few": 1, "many": 1, "block": 1, "max": 2, "argmin": 3, "logsumexp": 3}


def padded_width(d: int) -> int:
    """Columns of rows with zeros behind them: a power of two, or a multiple of the step over columns."""
    return max(16, 1 << (d - 1).bit_length()) if d <= NARROW else -(-d // 32) * 32


@dataclass(frozen=True)
class Shape:
    """What the text depends on besides the program: what is made, widths of the rows, where close pairs are looked for."""

    mode: str
    double: bool
    fast: bool
    widths: tuple[int, ...]  # of products, padded
    entries: tuple[int, ...]  # of column statistics
    repaired: tuple[bool, ...]  # by product
    same: bool  # whether a row can meet itself
    rhs: int = 1  # right-hand sides, if few
    long: bool = True  # whether there are so many columns that whole tiles are worth a loop of their own


@dataclass(frozen=True)
class Code:
    """The text of a kernel, and what it reads: constants, and vectors of the columns (by number) times a factor."""

    text: str
    constants: tuple[float, ...]
    scaled: tuple[tuple[int, float], ...] = ()


def generate(program: expr.Program, layout: sources.Layout, shape: Shape) -> Code:
    """Text for a program whose leaves the device can make."""
    writer = _Writer(program, layout, shape)
    return Code(writer.text(), tuple(writer.constants), tuple(writer.scaled))


def heavy(program: expr.Program, layout: sources.Layout) -> bool:
    """Whether parts of a tile are float64 even where its numbers are float32."""
    operations = {row[0] for row in program.instructions}
    return bool(operations & _IN_DOUBLE) or any(s.function == "equal" for s in layout.statistics)


class _Writer:
    """Writes the lines. A name that is assigned inside an inner loop is used nowhere else: Triton would carry it through the loop
    and refuse another type."""

    def __init__(self, program, layout, shape):
        self.program, self.layout, self.shape = program, layout, shape
        self.constants: list[float] = []
        self.scaled: list[tuple[int, float]] = []
        self.used = [0, 0]  # of both, by the text of a tile: its second writing uses the same ones
        self.lines: list[str] = []
        self.once: list[str] = []  # before the loop, for what is inside it
        self.whole = True  # whether all columns of the tile are there
        self.real = "tl.float64" if shape.double else "tl.float32"
        self.total = "tl.float32" if shape.fast else "tl.float64"
        distances = frozenset(k for k, leaf in enumerate(layout.leaves) if leaf.kind == "distance")
        # exp(u + log f) is less exact than f exp(u) where f is large.
        self.units = rescaled(program, distances, _base(shape.double), ("sqrt", "exp") if shape.fast else ("sqrt",))

    # ------------------------------------------------------------------------------------ the whole
    def text(self):
        loops = self._loop("first, last", False)
        if self.shape.mode in _PRODUCTS and self.shape.long:
            loops = [*self._loop("first, full", True), *self._loop("full, last", False)]
        head, foot = self._indented(1, self._head), self._indented(1, self._foot)
        loads = [f"    c{i} = tl.load(C + {i})" for i in range(len(self.constants))]
        return "\n".join(["@triton.jit", f"def kernel({self._arguments()}):", *loads, *head, *loops, *foot, ""])

    def _loop(self, span, whole):
        """Over whole tiles, in which nothing is masked and loads can run ahead, or over all or the rest."""
        self.whole, self.used, self.once = whole, [0, 0], []
        return [f"    for start in range({span}, BN):", *self._indented(2, self._tile)]

    def _arguments(self):
        products = [f"A{k}, B{k}" for k in range(len(self.shape.widths))]
        statistics = [f"E{k}, F{k}, W{k}" for k in range(len(self.shape.entries))]
        fixed = "BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BP: tl.constexpr, PREC: tl.constexpr"
        return ", ".join(["O, O1, O2, V, C, T, R, Q, RI, QI", *products, *statistics, "n, m, p, per", fixed])

    @property
    def _mask(self):
        return "" if self.shape.mode in _PRODUCTS else ", mask=there, other=0.0"

    @property
    def _tile_mask(self):
        return "" if self.shape.mode in _PRODUCTS else ", mask=there[None, :], other=0.0"

    def _indented(self, depth, write):
        self.lines = []
        write()
        return ["    " * depth + line for line in self.lines]

    def _put(self, *lines):
        self.lines += lines

    def _constant(self, value):
        return f"c{self._number(self.constants, 0, float(value))}"

    def _number(self, known, which, value):
        """The place of a value in a list of those that the kernel reads."""
        self.used[which] += 1
        if self.used[which] > len(known):
            known.append(value)
        return self.used[which] - 1

    # ------------------------------------------------------------------------------------ before the loop, and after it
    def _head(self):
        self._put(
            "rows = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)",
            "inside = rows < n",
            "first = tl.program_id(1) * per",
            "split = tl.program_id(1).to(tl.int64)",
            "tall = split * 0 + n",
            "wide = split * 0 + m",  # products of numbers of columns need 64 bits, the numbers themselves do not
            "last = tl.minimum(first + per, m)",
            "full = last - (last - first) % BN",
        )
        for k, (row, _) in enumerate(self.layout.vectors):
            if row is not None:
                self._put(f"r{k} = tl.load(R + {k} * tall + rows, mask=inside, other=0.0)")
        if self.shape.same:
            self._put("ri = tl.load(RI + rows, mask=inside, other=-1)")
        for k, width in enumerate(self.shape.widths):
            if width <= NARROW:
                self._put(
                    f"f{k} = tl.arange(0, {width})",
                    f"a{k} = tl.load(A{k} + rows[:, None] * {width} + f{k}[None, :], mask=inside[:, None], other=0.0)",
                )
        self._put(*self.once)
        getattr(self, f"_begin_{self.shape.mode}", lambda: None)()

    def _foot(self):
        getattr(self, f"_end_{self.shape.mode}", lambda: None)()

    # ------------------------------------------------------------------------------------ inside the loop
    def _tile(self):
        self._put("cols = start + tl.arange(0, BN)")
        if not self.whole:
            self._put("there = cols < last")
            if self.shape.mode in _PRODUCTS:
                # Behind the last column stands the last one again, times 0: no mask on what is read, nor on the tile.
                self._put("cols = tl.minimum(cols, last - 1)")
        for k, (_, column) in enumerate(self.layout.vectors):
            if column is not None:
                self._put(f"q{k} = tl.load(Q + {k} * wide + cols{self._mask})")
        if self.shape.same:
            there = "" if self.whole else ", mask=there, other=-2"
            self._put(f"qi = tl.load(QI + cols{there})", "same = ri[:, None] == qi[None, :]")
            self._put("apart = ri[:, None] != qi[None, :]")
        for k, width in enumerate(self.shape.widths):
            self._product(k, width)
        for k, statistic in enumerate(self.layout.statistics):
            self._column_statistic(k, statistic)
        leaves = [self._leaf(number, leaf) for number, leaf in enumerate(self.layout.leaves)]
        (result,) = self._program(self.units, leaves, "t", self.shape.double)
        self._put(f"k = tl.broadcast_to({result}, (BM, BN))")
        getattr(self, f"_use_{self.shape.mode}")()

    def _product(self, k, width):
        dot = f"input_precision=PREC, out_dtype={self.real}"
        if width <= NARROW:
            self._put(
                f"b{k} = tl.load(B{k} + cols.to(tl.int64)[None, :] * {width} + f{k}[:, None]{self._tile_mask})",
                f"g{k} = tl.dot(a{k}, b{k}, {dot})",
            )
            return
        self._put(
            f"g{k} = tl.zeros((BM, BN), {self.real})",
            f"for step{k} in range(0, {width}, BK):",
            f"    f{k} = step{k} + tl.arange(0, BK)",
            f"    a{k} = tl.load(A{k} + rows[:, None] * {width} + f{k}[None, :], mask=inside[:, None], other=0.0)",
            f"    b{k} = tl.load(B{k} + cols.to(tl.int64)[None, :] * {width} + f{k}[:, None]{self._tile_mask})",
            f"    g{k} = tl.dot(a{k}, b{k}, g{k}, {dot})",
        )

    def _leaf(self, number, leaf):
        name = f"s{number}"
        if leaf.kind == "distance":
            self._distance(number, leaf)
        elif leaf.kind == "inner":
            self._put(f"{name} = g{leaf.of} + r{leaf.vector}[:, None] + q{leaf.vector}[None, :]")
        elif leaf.kind == "product":
            return f"g{leaf.of}"
        elif leaf.kind == "row":
            return f"r{leaf.vector}[:, None]"
        elif leaf.kind == "column":
            return f"q{leaf.vector}[None, :]"
        elif leaf.kind == "columns":
            return f"e{leaf.of}"
        else:
            self._put(
                f"{name} = same.to({self.real})" if self.shape.same else f"{name} = tl.zeros((BM, BN), {self.real})"
            )
        return name

    def _distance(self, number, leaf):
        """A product and two sums; norms are scaled before the loop.

        Rows are not scaled, which would save the product: TF32 rounds what it multiplies, so that K(x, y) would no longer be
        the transpose of K(y, x), and conjugate gradients break down on K^T K.
        """
        name, k, factor = f"s{number}", leaf.vector, self.units.factors[number]
        of = len(self.layout.vectors) + self._number(self.scaled, 1, (k, factor))
        c = self._constant(factor)
        self.once += [f"{name}r = ({c} * r{k})[:, None]", f"{name}g = -2.0 * {c}"]
        self._put(f"{name}q = tl.load(Q + {of} * wide + cols{self._mask})[None, :]")
        self._put(f"{name} = ({name}g * g{leaf.of} + {name}r) + {name}q")
        if not self._unbounded(number, leaf):
            self._put(f"{name} = tl.maximum({name}, 0.0, propagate_nan=tl.PropagateNan.ALL)")
        if self.shape.same:
            self._put(f"{name} = tl.where(same, 0.0, {name})")
        if self.shape.repaired[leaf.of]:
            self._repair(name, leaf, c)

    def _unbounded(self, number, leaf):
        """Whether a distance is read by exponentials alone, to which a little less than 0 is nothing new."""
        if self.shape.same or self.shape.repaired[leaf.of]:
            return False
        readers, kept = units.readers_of(self.program)
        return number not in kept and {self.program.instructions[i][0] for i, _ in readers[number]} == {"exp"}

    def _repair(self, name, leaf, factor):
        """Distances of close pairs by differences, in tiles that have any."""
        k, width, others = leaf.of, self.shape.widths[leaf.of], " & apart" if self.shape.same else ""
        limit = self._constant(sources.tau(np.dtype(np.float64 if self.shape.double else np.float32)))
        self._put(
            f"near{k} = ({name} < {limit} * ({name}r + {name}q)){others}",
            f"if tl.max(tl.max(near{k}.to(tl.int32), axis=1), axis=0) > 0:",
            f"    direct{k} = tl.zeros((BM, BN), {self.real})",
            f"    for column{k} in range(0, {width}):",
            f"        x{k} = tl.load(A{k} + rows * {width} + column{k}, mask=inside, other=0.0)",
            f"        y{k} = tl.load(B{k} + cols.to(tl.int64) * {width} + column{k}{self._mask})",
            f"        z{k} = x{k}[:, None] - y{k}[None, :]",
            f"        direct{k} += z{k} * z{k}",
            f"    {name} = tl.where(near{k}, {factor} * direct{k}, {name})",
        )

    def _column_statistic(self, k, statistic):
        """A loop over the columns; both sides lie column by column in memory."""
        width, real = self.shape.entries[k], "tl.float64" if statistic.function == "equal" else self.real
        start = 1.0 if statistic.combine == "prod" else 0.0
        names = [f"e{k}"] if statistic.order == 1 else [f"e{k}_{p}" for p in range(statistic.order)]
        self._put(*(f"{name} = tl.full((BM, BN), {start}, {real})" for name in names))
        self._put(
            f"for entry{k} in range(0, {width}):",
            f"    v{k} = tl.load(E{k} + entry{k} * tall + rows, mask=inside, other=0.0)[:, None]",
            f"    w{k} = tl.load(F{k} + entry{k} * wide + cols{self._mask})[None, :]",
        )
        before, self.lines = self.lines, []
        double = real == "tl.float64"
        program = rescaled(
            sources.column_program(statistic.function, statistic.parameter), base=_base(double), roots=()
        )
        (value,) = self._program(program, [f"v{k}", f"w{k}"], f"u{k}_", double)
        self._put(*_combined(statistic, k, names, value))
        self.lines = before + ["    " + line for line in self.lines]
        if names[-1] != f"e{k}" or real != self.real:
            self._put(f"e{k} = {names[-1]}.to({self.real})")

    # ------------------------------------------------------------------------------------ programs
    def _program(self, scaled: Rescaled, leaves, prefix, double):
        """Lines of a register program; the names of its outputs."""
        registers, numbers, program = dict(enumerate(leaves)), set(), scaled.program
        for number, (row, constants) in enumerate(zip(program.instructions, scaled.constants, strict=True)):
            op, a, b, c, to = row
            name = f"{prefix}{number}"
            if op in ("min", "max") and registers[a] in numbers:  # a number is always the second
                a, b = b, a
            if op == "const":
                numbers.add(name)
            operands = [registers.get(a), registers.get(b), registers.get(c)]
            self._operation(name, op, operands, constants, program, double)
            registers[to] = name
        return [registers[k] for k in program.outputs]

    def _operation(self, name, op, operands, constants, program, double):
        (scale, shift, value), (u, b, c) = constants, operands
        if op in expr.MAPPED:
            u = {1.0: u, -1.0: f"-{u}"}.get(scale) or f"{self._constant(scale)} * {u}"
            u = u if shift == 0.0 else f"{u} + {self._constant(shift)}"
        if op == "table":
            self._table(name, u, int(value), program.tables[int(value)])
        elif op == "exp":
            self._put(f"{name} = tl.{'exp' if double else 'exp2'}({u})")
        elif op == "powc":
            self._power(name, u, value)
        elif op in _LONG:
            real = "tl.float64" if double else "tl.float32"
            self._put(*(line.format(to=name, u=f"({u})", v=name + "v", real=real) for line in _LONG[op]))
        else:
            v = self._constant(value) if op in ("const", "rdivc", "minc", "maxc") else ""
            self._put(f"{name} = {_SHORT[op].format(u=f'({u})', b=b, c=c, v=v)}")

    def _power(self, name, u, exponent):
        """A power of a number >= 0; whole exponents keep the sign."""
        v = self._constant(exponent)
        whole = exponent == int(exponent)
        inner = f"tl.abs({u})" if whole else u
        self._put(f"{name} = tl.exp({v} * tl.log({inner}))")
        if whole and int(exponent) % 2:
            self._put(f"{name} = tl.where({u} < 0.0, -{name}, {name})")

    def _table(self, name, u, number, function):
        """Clenshaw's sum on the dyadic interval of each number; the bits of a float64 are the interval and the place in it."""
        from mercer.engines import _compiled

        intervals, terms = _compiled.TABLE_MAX_EXPONENT - _compiled.TABLE_MIN_EXPONENT + 1, 21
        at_zero = self._constant(function(np.zeros(1))[0])
        end = float(2.0 ** (_compiled.TABLE_MAX_EXPONENT + 1))
        lines = [line.format(to=name, u=u, base=number * intervals * terms, last=terms - 1, terms=terms, top=intervals - 1,
                             offset=1023 + _compiled.TABLE_MIN_EXPONENT, end=end, zero=at_zero, real=self.real)
                 for line in _TABLE]  # fmt: skip
        self._put(*lines)

    # ------------------------------------------------------------------------------------ what is made of a tile
    # Where speed was asked for, sums of every 8th column are kept apart: a thread has those, and need not ask others.
    def _begin_few(self):
        size = "(BM, 8)" if self.shape.fast else "(BM,)"
        self._put(*(f"total{i} = tl.zeros({size}, {self.total})" for i in range(self.shape.rhs)))

    def _use_few(self):
        there = "" if self.whole else ", mask=there, other=0.0"
        for i in range(self.shape.rhs):
            part = f"k * v{i}[None, :]"
            part = f"tl.reshape({part}, (BM, BN // 8, 8))" if self.shape.fast else part
            self._put(f"v{i} = tl.load(V + {i} * wide + cols{there})")
            self._put(f"total{i} += tl.sum({part}, axis=1).to({self.total})")

    def _end_few(self):
        for i in range(self.shape.rhs):
            total = f"tl.sum(total{i}, axis=1)" if self.shape.fast else f"total{i}"
            self._put(f"tl.store(O + (split * n + rows) * {self.shape.rhs} + {i}, {total}, mask=inside)")

    def _begin_many(self):
        self._put("rhs = tl.program_id(2) * BP + tl.arange(0, BP)", f"total = tl.zeros((BM, BP), {self.total})")

    def _use_many(self):
        self._put(
            "which = " + ("" if self.whole else "there[:, None] & ") + "(rhs[None, :] < p)",
            "v = tl.load(V + cols.to(tl.int64)[:, None] * p + rhs[None, :], mask=which, other=0.0)",
            f"total += tl.dot(k, v, input_precision=PREC, out_dtype={self.real}).to({self.total})",
        )

    def _end_many(self):
        self._put("where = (split * n + rows[:, None]) * p + rhs[None, :]")
        self._put("tl.store(O + where, total, mask=inside[:, None] & (rhs[None, :] < p))")

    def _use_block(self):
        self._put("tl.store(O + rows[:, None] * wide + cols[None, :], k, mask=inside[:, None] & there[None, :])")

    def _begin_max(self):
        self._put(f'best = tl.full((BM,), float("-inf"), {self.real})', f"watch = tl.zeros((BM,), {self.real})")

    def _use_max(self):
        self._watch("-inf")
        self._put("best = tl.maximum(best, tl.max(k, axis=1))")

    def _end_max(self):
        self._put("tl.store(O + split * n + rows, best, mask=inside)")
        self._put("tl.store(O1 + split * n + rows, watch, mask=inside)")

    def _begin_argmin(self):
        self._put(f'best = tl.full((BM,), float("inf"), {self.real})', f"watch = tl.zeros((BM,), {self.real})")
        self._put("place = tl.zeros((BM,), tl.int64)")

    def _use_argmin(self):
        self._watch("inf")
        self._put(
            "low = tl.min(k, axis=1)",
            "at = (start + tl.argmin(k, axis=1)).to(tl.int64)",
            "place = tl.where(low < best, at, place)",
            "best = tl.minimum(low, best)",
        )

    def _end_argmin(self):
        self._end_max()
        self._put("tl.store(O2 + split * n + rows, place, mask=inside)")

    def _begin_logsumexp(self):
        self._begin_max()
        self._put("total = tl.zeros((BM,), tl.float64)")

    def _use_logsumexp(self):
        self._watch("-inf")
        self._put(
            "new = tl.maximum(best, tl.max(k, axis=1))",
            "parts = tl.sum(tl.exp(k - new[:, None]), axis=1)",
            "total = total * tl.exp(best - new).to(tl.float64) + parts.to(tl.float64)",
            "best = new",
        )

    def _end_logsumexp(self):
        self._end_max()
        self._put("tl.store(O2 + split * n + rows, total, mask=inside)")

    def _watch(self, worst):
        """NaN and infinity are seen in a sum that is 0 without them: comparisons would lose them. What is missing is `worst`."""
        self._put("watch += tl.sum(tl.where(there[None, :], k - k, 0.0), axis=1)")
        self._put(f'k = tl.where(there[None, :], k, float("{worst}"))')


def _base(double):
    """Of exponentials: a GPU has powers of two in float32."""
    return math.e if double else 2.0


def _combined(statistic, k, names, value):
    if statistic.combine == "prod":
        return [f"{names[0]} *= {value}"]
    if statistic.combine == "elementary":
        steps = [f"{names[p]} += {value} * {names[p - 1]}" for p in range(statistic.order - 1, 0, -1)]
        return [*steps, f"{names[0]} += {value}"]
    return [f"{names[0]} += tl.load(W{k} + entry{k}) * {value}"]


_IN_DOUBLE = {"table", "acos"}
_SHORT = {
    "affine": "{u}", "add": "{u} + {b}", "mul": "{u} * {b}", "fma": "{u} * {b} + {c}", "div": "{u} / {b}",
    "rdivc": "{v} / {u}", "log": "tl.log({u})", "sqrt": "tl.sqrt({u})", "sin": "tl.sin({u})", "cos": "tl.cos({u})",
    "const": "{v}", "where": "tl.where({u} >= 0.0, {b}, {c})",
    # NaN goes through, as in NumPy: it is what the finite check looks for.
    "min": "tl.where(({u} < {b}) | ({u} != {u}), {u}, {b})", "max": "tl.where(({u} > {b}) | ({u} != {u}), {u}, {b})",
    "minc": "tl.where({u} > {v}, {v}, {u})", "maxc": "tl.where({u} < {v}, {v}, {u})",
}  # fmt: skip

# Cephes' rational function for tanh where 1 - 2/(e^2|x| + 1) would lose digits, and fdlibm's for acos, in float64.
_LONG = {
    "rsqrt0": ("{v} = {u}", "{to} = tl.where({v} <= 0.0, 0.0, 1.0 / tl.sqrt({v}))"),
    "tanh": (
        "{v} = {u}",
        "{to}z = {v} * {v}",
        "{to}p = (-9.64399179425052238628e-1 * {to}z - 9.92877231001918586564e1) * {to}z - 1.61468768441708447952e3",
        "{to}q = (({to}z + 1.12811678491632931402e2) * {to}z + 2.23548839060100448583e3) * {to}z + 4.84406305325125486048e3",
        "{to}e = 1.0 - 2.0 / (tl.exp(2.0 * tl.abs({v})) + 1.0)",
        "{to}e = tl.where({v} < 0.0, -{to}e, {to}e)",
        "{to} = tl.where(tl.abs({v}) > 0.625, {to}e, {v} + {v} * ({to}z * ({to}p / {to}q)))",
    ),
    "acos": (
        "{v} = ({u}).to(tl.float64)",
        "{v} = tl.where({v} > 1.0, 1.0, tl.where({v} < -1.0, -1.0, {v}))",
        "{to}h = tl.abs({v}) > 0.5",
        "{to}z = tl.where({to}h, 0.5 * (1.0 - tl.abs({v})), {v} * {v})",
        "{to}p = ((7.91534994289814532176e-04 + {to}z * 3.47933107596021167570e-05) * {to}z - 4.00555345006794114027e-02)",
        "{to}p = (({to}p * {to}z + 2.01212532134862925881e-01) * {to}z - 3.25565818622400915405e-01) * {to}z",
        "{to}p = ({to}p + 1.66666666666666657415e-01) * {to}z",
        "{to}q = ((7.70381505559019352791e-02 * {to}z - 6.88283971605453293030e-01) * {to}z + 2.02094576023350569471e+00)",
        "{to}q = ({to}q * {to}z - 2.40339491173441421878e+00) * {to}z + 1.0",
        "{to}s = tl.where({to}h, tl.sqrt({to}z), {v})",
        "{to}s = {to}s + {to}s * ({to}p / {to}q)",
        "{to}l = tl.where({v} < 0.0, 3.141592653589793 - 2.0 * {to}s, 2.0 * {to}s)",
        "{to} = tl.where({to}h, {to}l, 1.5707963267948966 - {to}s).to({real})",
    ),
}

_TABLE = (
    "{to}a = ({u}).to(tl.float64)",
    "{to}i = {to}a.to(tl.int64, bitcast=True)",
    "{to}t = 2.0 * (({to}i & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).to(tl.float64, bitcast=True) - 3.0",
    "{to}i = ({to}i >> 52) - {offset}",
    "{to}t = tl.where({to}i < 0, -1.0, tl.where({to}a >= {end}, 1.0, {to}t))",
    "{to}i = tl.where({to}i < 0, 0, tl.where({to}i > {top}, {top}, {to}i)) * {terms} + {base}",
    "{to}c = {to}t * 0.0",
    "{to}d = {to}t * 0.0",
    "for term in range(0, {last}):",
    "    {to}n = 2.0 * {to}t * {to}c + (tl.load(T + {to}i + ({last} - term)) - {to}d)",
    "    {to}d = {to}c",
    "    {to}c = {to}n",
    "{to}v = {to}t * {to}c + (tl.load(T + {to}i) - {to}d)",
    "{to}v = tl.where({to}a <= 0.0, {zero}, {to}v)",
    "{to} = tl.where({to}a != {to}a, {to}a, {to}v).to({real})",
)

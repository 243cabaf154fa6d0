"""The CPU engine: a product of rows, then SIMD passes over the tile while it is in the cache, tiles over threads.

The product is our own where rows are narrow, in tiles so small that they stay in the second cache, many of them in one compiled
call, and for wide rows where the processor has vectors of 64 bytes; else it is one-thread BLAS.

No compilation per expression: a register program is run by one compiled interpreter; the plain Gaussian has a pass of its own.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from mercer import expr
from mercer.engines import columns, reductions
from mercer.engines.base import WIDE, Engine, scratch
from mercer.engines.decays import with_decays
from mercer.engines.prepare import external_tile
from mercer.kernels.statistics import ColumnStatistic, External, Inner, SameRow, SquaredDistance, Vector
from mercer.registry import register_engine
from mercer.threads import map_tiles

__all__ = ["CpuEngine"]

# Leaf kinds of the interpreter.
TILE, SQDIST, INNER, ROW, COLUMN, SAME = range(6)

#: Relative error of a squared distance that is accepted before it is recomputed by differences.
DISTANCE_TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}
ROUNDINGS = 4.0  # a norm-expansion distance is off by a few eps * (|x|^2 + |y|^2)
_DENSE_COLUMNS = (
    4096  # sparse rows with at most this many columns, of which a good part is filled, are multiplied as dense ones
)
_FILLED = 0.15
_PRODUCTS = 5e7  # products of entries between two returns from compiled code
_FEW = 4  # targets for which a loop is faster than BLAS on a float64 copy
_SWEEP_ENTRIES = 2**16  # of the Gram that a sweep holds at a time: they and their products stay in the second cache
_CALL_ENTRIES = 2**26  # of the Gram in one compiled call: a tenth of a second
_TURNED = 2**23  # numbers of a side of which a transpose is kept
_COLUMN_CHUNK = 2048  # columns of a sparse tile made dense at a time for column statistics


@dataclass(frozen=True)
class _Code:
    """A program in the interpreter's arrays, for one precision."""

    ops: np.ndarray
    constants: np.ndarray
    tables: np.ndarray
    at_zero: np.ndarray
    leaves: tuple
    outputs: np.ndarray
    n_registers: int
    gaussian: tuple[float, float] | None  # (rate, factor) if the program is factor * decay(rate * squared distance)


@register_engine("cpu")
class CpuEngine(Engine):
    """Tiles by BLAS and Numba on all threads that the BLAS limit allows."""

    name = "cpu"
    # Not 1024 columns: rows a power of two bytes apart share their places in the cache, and the GEMM of a tile with 20 columns
    # then takes 1.7 times as long.
    tile_shape = (512, 960)
    small_tile = (128, 960)  # of a program on one product: with its place in the Gram it fills the second cache
    # Of such a program in one compiled call, a millisecond. Not higher than wide: rows below the last column of a piece on the
    # diagonal are the mirror image of another piece, and two threads would write them.
    piece = (960, 960)
    reductions = reductions.COMPILED

    def each(self, job, count):
        return map_tiles(job, count, self.threads)

    def tile(self, outputs, x, y):
        code, out = _code(outputs, x), np.empty((len(outputs), len(x), len(y)), x.dtype)
        if _has_small_tiles(code, x):
            self._small_tiles(code, x, y, out)(slice(0, len(x)), slice(0, len(y)))
        else:
            self._run(code, x, y, out, 0, 0)
        return out

    def piece_shape(self, x):
        small = _has_small_tiles(_code([x.lowered.expression], x), x)
        return self.piece if small else super().piece_shape(x)

    def writer(self, K, x, y, i0=0, j0=0, mirrored=False):
        """Where tiles are small, what is common to all of them is made once."""
        code = _code([x.lowered.expression], x)
        if not _has_small_tiles(code, x):
            return super().writer(K, x, y, i0, j0, mirrored)
        into = self._small_tiles(code, x, y, K[None], i0, j0, mirrored)

        def write(r, c):
            if not into(r, c):
                self.check_finite(K[i0 + r.start : i0 + r.stop, j0 + c.start : j0 + c.stop], x)

        return write

    def _small_tiles(self, code, x, y, out, i0=0, j0=0, mirrored=False):
        """What writes some rows and columns, and says whether they are known to be finite."""
        from mercer.engines import _compiled_product
        from mercer.engines._compiled_gemm import spare

        arguments = _Later(code, x, y, _overlap(x, y)).as_arguments()

        def into(r, c):
            part = r.start, r.stop, c.start, c.stop
            shape = tuple(max(1, min(a, s.stop - s.start)) for a, s in zip(self.small_tile, (r, c), strict=True))
            space = scratch("tiles", (math.prod(shape) + spare(x.dtype.itemsize),), x.dtype)
            return _compiled_product.product_block(
                *arguments, part, shape, space, self._registers(code, x.dtype), out, i0, j0, mirrored
            )

        return into

    def tile_into(self, K, r, c, x, y):
        return self._run(_code([x.lowered.expression], x), x, y, K[None], r.start, c.start)

    def mirror(self, K, r, c):
        from mercer.engines import _compiled

        _compiled.mirror_tile(K, r.start, r.stop, c.start, c.stop)

    def _run(self, code, x, y, out, i0, j0):
        """Values into their places in `out`; True if they are known to be finite."""
        from mercer.engines import _compiled

        same = _overlap(x, y)
        statistics, none = _Statistics(code, x, y, same), np.empty((0, 0), x.dtype)
        if code.gaussian is not None and not statistics.repaired:
            rate, factor = code.gaussian
            rowv, colv = statistics.row_vectors[0], statistics.column_vectors[0]
            _compiled.rbf_tile(statistics.tiles[0], rowv, colv, x.index, y.index, same, none, none, x.dtype.type(0), rate,
                               factor, out[0], i0, j0)  # fmt: skip
            return True  # a Gaussian of finite distances is finite
        return _compiled.run_program(
            code.ops, code.constants, code.tables, code.at_zero, statistics.leaves, statistics.tiles, statistics.row_vectors,
            statistics.column_vectors, x.index, y.index, same, none, none, x.dtype.type(0), code.outputs, out, i0, j0,
            self._registers(code, x.dtype),
        )  # fmt: skip

    def cross(self, x, y, R, V=None):
        """In one compiled call where the Gram is a program on one product of dense rows and targets are few."""
        targets = R.shape[1] if V is None else len(V)
        code = _code([x.lowered.expression], x)
        if targets > _FEW or not _on_one_product(code.leaves) or not _is_dense(x, code.leaves):
            return super().cross(x, y, R, V)
        total = np.zeros((targets, len(y)))
        for i in range(0, len(x), step := max(64, _CALL_ENTRIES // len(y))):
            some = slice(i, min(i + step, len(x)))
            if not self._sweep(code, x.take(some), y, R[some], V, total):
                return super().cross(x, y, R, V)
        return total

    def _sweep(self, code, x, y, R, V, total):
        from mercer.engines import _compiled_sums
        from mercer.engines._compiled_gemm import spare

        later = _Later(code, x, y, _overlap(x, y))
        step = max(16, min(len(x), _SWEEP_ENTRIES // len(y)))
        size = 2 * step * len(y) + spare(x.dtype.itemsize)
        return _compiled_sums.sweep(
            *later.as_arguments(), step, scratch("sweep", (size,), x.dtype),
            self._registers(code, x.dtype), R, np.zeros((0, len(y))) if V is None else V, total,
        )  # fmt: skip

    def add_products(self, tile, R, V, total):
        from mercer.engines import _compiled_sums

        if len(total) > _FEW:  # many targets are a matrix product
            super().add_products(tile, R, V, total)
        elif V is None:
            _compiled_sums.left_product(tile, R, total)
        else:
            _compiled_sums.normal_product(tile, V, R[:, 0], total)

    @staticmethod
    def _registers(code, dtype):
        from mercer.engines import _compiled

        return scratch("registers", (max(code.n_registers, 1), _compiled.CHUNK), dtype)

    def column_pullback(self, statistic, A, B, V):
        from mercer.engines import _compiled

        columns.check_order(statistic, A.shape[1])
        A, B = (np.ascontiguousarray(M.toarray() if sp.issparse(M) else M) for M in (A, B))
        V = np.ascontiguousarray(V, A.dtype)
        gA, gB = np.zeros_like(A), np.zeros_like(B)
        combine, parameter = _combination(statistic)
        parameter = statistic.order if statistic.combine == "elementary" else parameter
        weights = columns.weights_of(statistic, A.shape[1]).astype(A.dtype)
        _compiled.column_pullback(
            _compiled.COLUMN_CODE[statistic.function], combine, parameter, A, B, weights, V, gA, gB
        )
        return gA, gB


# ------------------------------------------------------------------------------------------------ programs
def _code(outputs, x):
    """The interpreter's arrays for some outputs, made once per traced kernel."""
    key = (*outputs, x.dtype)
    known = x.lowered.programs.get(key)
    if known is None:
        known = x.lowered.programs[key] = _assemble(expr.compile_program(outputs, x.lowered.parameters), x.dtype)
    return known


def _assemble(program, dtype):
    from mercer.engines import _compiled

    instructions, numbers = with_decays(program)
    numbers = [_in_unit(op, n, dtype) for (op, *_), n in zip(instructions, numbers, strict=True)]
    ops = np.array([(_compiled.OPCODE[op], *registers) for op, *registers in instructions], np.int32).reshape(-1, 5)
    tables = [_table(t) for t in program.tables] or [np.zeros((1, 1))]
    at_zero = np.array([float(t(np.zeros(1))[0]) for t in program.tables] or [0.0])
    leaves, outputs = tuple(e.payload for e in program.leaves), np.array(program.outputs, np.int32)
    return _Code(ops, np.array(numbers, dtype).reshape(-1, 3), np.stack(tables), at_zero, leaves, outputs,
                 program.n_registers, _gaussian(instructions, numbers, leaves, outputs))  # fmt: skip


def _in_unit(op, numbers, dtype):
    """Scale and shift of a decay in its unit, multiplied in float64."""
    from mercer.engines import _compiled

    unit = _compiled.DECAY_UNIT[dtype.itemsize] if op == "decay" else 1.0
    return numbers[0] * unit, numbers[1] * unit, numbers[2]


_tables: dict = {}


def _table(function):
    from mercer.engines import _compiled

    if function not in _tables:
        _tables[function] = _compiled.dyadic_table(function)
    return _tables[function]


def _gaussian(instructions, numbers, leaves, outputs):
    """(rate, factor) of a program that is nothing but a decay of a squared distance, else None."""
    if [i[0] for i in instructions] != ["decay"] or len(leaves) != 1 or len(outputs) != 1:
        return None
    rate, shift, factor = numbers[0]
    return (rate, factor) if shift == 0 and isinstance(leaves[0], SquaredDistance) else None


# ------------------------------------------------------------------------------------------------ statistics of a tile
def _on_one_product(leaves):
    """Whether a program reads nothing but one product of rows, its norms, and vectors."""
    views = {p.view for p in leaves if isinstance(p, SquaredDistance | Inner)}
    return len(views) == 1 and all(isinstance(p, SquaredDistance | Inner | SameRow | Vector) for p in leaves)


def _has_small_tiles(code, x):
    """Programs on one product of dense rows run on small tiles in one call. The product of wide rows is most of the work, and
    better in larger tiles."""
    views = [p.view for p in code.leaves if isinstance(p, SquaredDistance | Inner)]
    return _on_one_product(code.leaves) and _is_dense(x, code.leaves) and x.views[views[0]].shape[1] < WIDE


def _is_dense(x, leaves):
    return not any(sp.issparse(x.views[p.view]) for p in leaves if isinstance(p, SquaredDistance | Inner))


def _overlap(x, y):
    """Whether the tile can hold a row meeting itself."""
    if not x.same_side(y) or not len(x) or not len(y):
        return False
    return bool(x.index.min() <= y.index.max() and y.index.min() <= x.index.max())


class _Statistics:
    """Tiles and vectors that the leaves of a program read, and the table that tells the interpreter where they are."""

    def __init__(self, code, x, y, same):
        self.x, self.y, self.same = x, y, same
        self.shape = (len(x), len(y))
        self.repaired = False
        self._products: dict = {}  # (view, centred) -> tile number
        self._made: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []
        self._columns: list[np.ndarray] = []
        distances = {p.view for p in code.leaves if isinstance(p, SquaredDistance)}
        n_tiles = (
            sum(not isinstance(p, SameRow) for p in code.leaves)
            + len(distances)
            + sum(p.order for p in code.leaves if isinstance(p, ColumnStatistic))
        )
        self._space = self._tiles(max(n_tiles, 1))
        rows = [self._leaf(p, distances) for p in code.leaves]
        self.leaves = np.array(rows, np.int32).reshape(-1, 4)
        self.tiles = self._space
        self.row_vectors = _stacked(self._rows, len(x), x.dtype)
        self.column_vectors = _stacked(self._columns, len(y), x.dtype)

    def _tiles(self, count):
        """Tiles one behind the other, and behind the last what a product may write there; before that it writes where the next
        tile will be."""
        from mercer.engines._compiled_gemm import spare

        size = count * math.prod(self.shape)
        space = scratch("tiles", (size + spare(self.x.dtype.itemsize),), self.x.dtype)
        return space[:size].reshape(count, *self.shape)

    def _new(self, count=1):
        """Numbers of fresh tiles."""
        first = len(self._made)
        self._made.extend(self._space[first : first + count])
        return first

    def _vectors(self, row, column):
        self._rows.append(row)
        self._columns.append(column)
        return len(self._rows) - 1

    def _leaf(self, payload, distances):
        if isinstance(payload, SquaredDistance):
            return self._distance(payload.view)
        if isinstance(payload, Inner):
            return self._inner(payload.view, payload.view in distances)
        if isinstance(payload, ColumnStatistic):
            return TILE, self._column_statistic(payload), 0, 0
        if isinstance(payload, SameRow):
            return SAME, 0, 0, 0
        if isinstance(payload, External):
            k = self._new()
            self._space[k] = external_tile(payload, self.x, self.y)
            return TILE, k, 0, 0
        return self._vector(payload)

    def _vector(self, payload):
        zero_row, zero_column = np.zeros(len(self.x)), np.zeros(len(self.y))
        if payload.side == "row":
            v = self._vectors(self.x.vector(payload), zero_column)
            return ROW, 0, v, v
        values = np.broadcast_to(self.y.vector(payload), len(self.y))
        v = self._vectors(zero_row, values)
        return COLUMN, 0, v, v

    def _product(self, view, centred):
        """Tile of inner products, centred or not, computed once."""
        key = (view, centred)
        if key not in self._products:
            k = self._new()
            side = "centred" if centred else "views"
            _multiply(getattr(self.x, side)[view], getattr(self.y, side)[view], self._space[k])
            self._products[key] = k
        return self._products[key]

    def _inner(self, view, shared):
        if not shared or sp.issparse(self.x.views[view]):
            return TILE, self._product(view, shared), 0, 0
        # <x, y> = <xc, yc> + <xc, m> + <m, yc> + <m, m>: the product of the centred rows serves distances too.
        m = self.y.centre[view].astype(np.float64)
        rows = self.x.centred[view] @ m
        v = self._vectors(rows, (rows if self.x is self.y else self.y.centred[view] @ m) + m @ m)
        return INNER, self._product(view, True), v, v

    def _distance(self, view):
        x, y = self.x, self.y
        product = self._product(view, True)
        xn, yn = x.norms[view], y.norms[view]
        v = self._vectors(xn, yn)
        if not (self._may_need_repair(view, xn, yn) and self._close(xn, yn, self._space[product])):
            return SQDIST, product, v, v
        self.repaired = True
        k = self._new()
        _repair(
            self._space[product],
            xn.astype(x.dtype),
            yn.astype(x.dtype),
            x.centred[view],
            y.centred[view],
            _tau(x.dtype),
            self._space[k],
        )
        return TILE, k, 0, 0

    def _may_need_repair(self, view, xn, yn):
        """Kinked profiles look at the square root of a distance; smooth ones only mind errors large against 1."""
        need, dtype = self.x.lowered.sensitivity[view], self.x.dtype
        bound = ROUNDINGS * np.finfo(dtype).eps * (xn.max(initial=0.0) + yn.max(initial=0.0)) * need.scale
        return need.kinked or bound > DISTANCE_TOLERANCE[dtype]

    def _close(self, xn, yn, G):
        """Whether the tile has a pair that is close against its norms: only those need repair."""
        from mercer.engines import _compiled

        dtype = self.x.dtype
        rows, columns = xn.astype(dtype), yn.astype(dtype)
        return _compiled.any_close(G, rows, columns, self.x.index, self.y.index, self.same, _tau(dtype))

    def _column_statistic(self, payload):
        from mercer.engines import _compiled

        A, B = self.x.views[payload.view], self.y.views[payload.view]
        d = A.shape[1]
        columns.check_order(payload, d)
        k = self._new(payload.order)
        out = self._space[k : k + payload.order]
        combine, parameter = _combination(payload)
        weights = columns.weights_of(payload, d).astype(self.x.dtype)
        step = _COLUMN_CHUNK if sp.issparse(A) else d
        for j in range(0, d, step):
            a, b = (np.ascontiguousarray(_dense_columns(M, slice(j, j + step))) for M in (A, B))
            _compiled.column_tile(_compiled.COLUMN_CODE[payload.function], combine, parameter, a, np.ascontiguousarray(b.T),
                                  weights[j : j + step], j == 0, out)  # fmt: skip
        return k + payload.order - 1


class _Later(_Statistics):
    """Where the numbers of a program come from, when a compiled loop makes the one product that it needs."""

    def __init__(self, code, x, y, same):
        self.code = code
        self.operands: list[tuple] = []
        self.may_need_repair = False
        super().__init__(code, x, y, same)

    def as_arguments(self):
        """The rows, those of the columns turned, where these begin there, tau, gaussian, code, statistics: for compiled loops."""
        code, dtype = self.code, self.x.dtype
        return (
            *self.operands[0],
            _tau(dtype) if self.may_need_repair else dtype.type(0),
            code.gaussian or (0.0, 0.0),
            (code.ops, code.constants, code.tables, code.at_zero, code.outputs),
            (
                self.leaves,
                self.row_vectors,
                self.column_vectors,
                _plain(self.x.index, int),
                _plain(self.y.index, int),
                self.same,
            ),
        )

    def _tiles(self, count):
        return np.empty((count, 0))

    def _product(self, view, centred):
        key = (view, centred)
        if key not in self._products:
            self._products[key] = len(self.operands)
            side = "centred" if centred else "views"
            dtype = self.x.dtype  # y may have another
            A, B = (_plain(getattr(s, side)[view], dtype) for s in (self.x, self.y))
            self.operands.append((A, B, *_turned(self.y, side, view, B)))
        return self._products[key]

    def _close(self, xn, yn, G):
        self.may_need_repair = True
        return False


def _plain(array, dtype):
    """The same numbers in the type and layout that compiled loops are compiled for."""
    flags = array.flags
    plain = array.dtype == dtype and flags.c_contiguous and flags.writeable
    return array if plain else np.array(array, dtype, order="C")


def _turned(y, side, view, B):
    """The rows B of a side as columns, or those of the whole side, which are made once; and the column that they begin at."""
    whole, first = y if y.whole is None else y.whole, y.first_of_run
    rows, key = getattr(whole, side)[view], ("turned", side, view, B.dtype)
    if first is None or rows.size > _TURNED:
        return turned(B), 0
    if key not in whole.kept:
        whole.kept[key] = turned(rows.astype(B.dtype, copy=False))
    return whole.kept[key], first


def turned(B):
    """The transpose, with as much behind it as `multiply` may read."""
    from mercer.engines._compiled_gemm import spare

    T = np.zeros((B.shape[1], len(B) + spare(B.itemsize)), B.dtype)
    T[:, : len(B)] = B.T
    return T


def _combination(statistic):
    from mercer.engines import _compiled

    combine = "sum" if statistic.combine == "mean" else statistic.combine
    return _compiled.COMBINE_CODE[combine], statistic.parameter


def _dense_columns(M, chosen):
    return M[:, chosen].toarray() if sp.issparse(M) else M


def _multiply(A, B, out):
    if not sp.issparse(A):
        _dense_product(A, B, out)
    elif A.shape[1] <= _DENSE_COLUMNS and A.nnz + B.nnz > _FILLED * A.shape[1] * (A.shape[0] + B.shape[0]):
        _dense_product(A.toarray(), B.toarray(), out)
    else:
        _sparse_product(A, B, out)


def _dense_product(A, B, out):
    """A @ B.T: by our own loop where vectors have 64 bytes, as BLAS uses half of that on processors it does not know."""
    from mercer.engines import _compiled_gemm

    if not _compiled_gemm.WIDEST:
        np.matmul(A, B.T, out=out)
        return
    panel = scratch("panel", _compiled_gemm.panel_shape(out.itemsize), out.dtype)
    _compiled_gemm.multiply_wide(_plain(A, out.dtype), _plain(B, out.dtype), panel, out)


def _sparse_product(A, B, out):
    """A @ B.T into a dense tile, some rows at a time."""
    from mercer.engines import _compiled

    by_column = B.tocsc()
    a_indices, a_indptr, b_indices, b_indptr = (
        i.astype(np.int32, copy=False) for i in (A.indices, A.indptr, by_column.indices, by_column.indptr)
    )
    steps = np.concatenate([[0], np.cumsum(np.diff(b_indptr)[a_indices], dtype=np.int64)])[a_indptr]
    cuts = np.unique(np.searchsorted(steps, np.arange(0, steps[-1] + _PRODUCTS, _PRODUCTS)).clip(max=A.shape[0]))
    parts = A.data, a_indices, a_indptr, by_column.data, b_indices, b_indptr
    out[...] = 0.0
    for first, stop in pairwise(cuts):
        _compiled.sparse_product(*parts, first, stop, out)


def _tau(dtype):
    return dtype.type(ROUNDINGS * np.finfo(dtype).eps / DISTANCE_TOLERANCE[dtype])


def _repair(G, xn, yn, A, B, tau, out):
    from mercer.engines import _compiled

    if sp.issparse(A):
        _compiled.sqdist_tile_csr(G, xn, yn, A.data, A.indices, A.indptr, B.data, B.indices, B.indptr, tau, out)
    else:
        _compiled.sqdist_tile(G, xn, yn, A, B, tau, out)


def _stacked(vectors, n, dtype):
    out = np.zeros((max(len(vectors), 1), n), dtype)
    for i, v in enumerate(vectors):
        out[i] = v
    return out

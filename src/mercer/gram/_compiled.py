"""Products with a symmetric matrix of which each number is read once and used twice: for its row, and for its column.

The rules of `mercer.engines._compiled` hold here too.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mercer.kernels._compiled import compiled

LANES = 16  # columns of V: one vector of float32 where registers are widest
_TILE = 256  # columns at a time: with V and the sums of the columns, they lie in the first cache
_DEEP = 4  # rows at a time: their sums and their V stay in registers


def _rows_of(depth, mirrored):
    """Compiled step over the columns j0 ... j1 - 1 of `depth` rows of K from i on: Y[i] += K[i, j] V[j], and, mirrored,
    Y[j] += K[i, j] V[i]."""

    @intrinsic
    def step(typingctx, K, V, Y, i, j0, j1):
        def codegen(context, builder, signature, args):
            matrix, right, out = (
                context.make_array(kind)(context, builder, value=a)
                for kind, a in zip(signature.args[:3], args[:3], strict=True)
            )
            _Step(context, builder, signature.args[0].dtype, matrix, right, out).emit(*args[3:], depth, mirrored)
            return context.get_dummy_value()

        if not K.dtype == V.dtype == Y.dtype:  # memory of one would be read as numbers of another
            return None
        return types.void(K, V, Y, types.intp, types.intp, types.intp), codegen

    return step


class _Step:
    """Writes the loop. Numba has no vectors of its own, and keeps sums of a loop over columns in memory."""

    def __init__(self, context, builder, kind, matrix, right, out):
        self.builder, self.matrix, self.right, self.out = builder, matrix, right, out
        real = context.get_value_type(kind)
        self.align, self.vector = context.get_abi_sizeof(real), ir.VectorType(real, LANES)
        self.lane = ir.IntType(32)

    def emit(self, i, j0, j1, depth, mirrored):
        b = self.builder
        rows = [b.add(i, i.type(r)) for r in range(depth)]
        sums = [cgutils.alloca_once(b, self.vector) for _ in rows]
        for total, row in zip(sums, rows, strict=True):
            b.store(self.load(self.out, row), total)
        own = [self.load(self.right, row) for row in rows]
        starts = [b.gep(self.matrix.data, [b.mul(row, b.extract_value(self.matrix.shape, 1))]) for row in rows]
        with cgutils.for_range_slice(b, j0, j1, i.type(1), i.type) as (j, _):
            v, column = self.load(self.right, j), self.load(self.out, j) if mirrored else None
            for total, start, x in zip(sums, starts, own, strict=True):
                k = self.everywhere(b.load(b.gep(start, [j]), align=self.align))
                b.store(self.add_product(b.load(total), k, v), total)
                column = self.add_product(column, k, x) if mirrored else None
            if mirrored:
                b.store(column, self.place(self.out, j), align=self.align)
        for total, row in zip(sums, rows, strict=True):
            b.store(b.load(total), self.place(self.out, row), align=self.align)

    def place(self, array, row):
        start = self.builder.gep(array.data, [self.builder.mul(row, row.type(LANES))])
        return self.builder.bitcast(start, self.vector.as_pointer())

    def load(self, array, row):
        return self.builder.load(self.place(array, row), align=self.align)

    def everywhere(self, number):
        one = self.builder.insert_element(self.vector(ir.Undefined), number, self.lane(0))
        return self.builder.shuffle_vector(one, one, ir.VectorType(self.lane, LANES)([0] * LANES))

    def add_product(self, total, k, v):
        return self.builder.fadd(total, self.builder.fmul(k, v, flags=["contract"]), flags=["contract"])


_four_rows, _four_mirrored = _rows_of(_DEEP, False), _rows_of(_DEEP, True)
_one_row, _one_mirrored = _rows_of(1, False), _rows_of(1, True)


@compiled
def half_product(K, V, first, stop, out):
    """Add to out what rows first ... stop - 1 of K from the diagonal on, and their mirror images below it, make of K V.

    K : real (n, n), symmetric to the last bit; V, out : real (n, LANES)
    """
    whole = first + (stop - first) // _DEEP * _DEEP
    for i in range(first, whole, _DEEP):
        _four_rows(K, V, out, i, first, stop)
    for i in range(whole, stop):
        _one_row(K, V, out, i, first, stop)
    for j in range(stop, len(K), _TILE):
        end = min(j + _TILE, len(K))
        for i in range(first, whole, _DEEP):
            _four_mirrored(K, V, out, i, j, end)
        for i in range(whole, stop):
            _one_mirrored(K, V, out, i, j, end)

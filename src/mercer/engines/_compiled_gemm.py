"""Products of dense rows with few columns, which BLAS copies and multiplies at half the speed of the processor.

Each number is the sum over the columns in their order, whatever the shape of the tile. The rules of `mercer.engines._compiled`
hold here too.
"""

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mercer.kernels._compiled import compiled

_BYTES = 64  # of a vector; where registers are narrower the compiler takes several
# Sums that stay in registers: rows of A, and vectors of columns of B.
_DEEP, _VECTORS = 6, 4 if binding.get_host_cpu_features().get("avx512f") else 1


def _rows_of(depth):
    """Compiled step: G[i + r, j + c] = sum over k of A[i + r, k] T[k, t + c] for r < depth and c of all vectors."""

    @intrinsic
    def step(typingctx, A, T, G, i, j, t):
        def codegen(context, builder, signature, args):
            arrays = [
                context.make_array(kind)(context, builder, value=a)
                for kind, a in zip(signature.args[:3], args[:3], strict=True)
            ]
            _Step(context, builder, signature.args[0].dtype, *arrays).emit(*args[3:], depth)
            return context.get_dummy_value()

        if not A.dtype == T.dtype == G.dtype:  # memory of one would be read as numbers of another
            return None
        return types.void(A, T, G, types.intp, types.intp, types.intp), codegen

    return step


class _Step:
    def __init__(self, context, builder, kind, left, right, out):
        self.builder, self.left, self.right, self.out = builder, left, right, out
        real = context.get_value_type(kind)
        self.align = context.get_abi_sizeof(real)
        self.lanes = _BYTES // self.align
        self.vector, self.index = ir.VectorType(real, self.lanes), ir.IntType(32)

    def emit(self, i, j, t, depth):
        b, rows, vectors = self.builder, range(depth), range(_VECTORS)
        sums = [[cgutils.alloca_once_value(b, self.vector(None)) for _ in vectors] for _ in rows]
        for total in (s for row in sums for s in row):
            b.store(self.vector(None), total)
        with cgutils.for_range(b, b.extract_value(self.left.shape, 1)) as loop:
            k = loop.index
            theirs = [b.load(self.place(self.right, k, t, v), align=self.align) for v in vectors]
            for r in rows:
                number = b.load(self.number(self.left, b.add(i, i.type(r)), k), align=self.align)
                ours = self.everywhere(number)
                for total, v in zip(sums[r], theirs, strict=True):
                    product = b.fmul(ours, v, flags=["contract"])
                    b.store(b.fadd(b.load(total), product, flags=["contract"]), total)
        for r in rows:
            for v, total in enumerate(sums[r]):
                b.store(b.load(total), self.place(self.out, b.add(i, i.type(r)), j, v), align=self.align)

    def number(self, array, row, column):
        b = self.builder
        return b.gep(array.data, [b.add(b.mul(row, b.extract_value(array.shape, 1)), column)])

    def place(self, array, row, column, v):
        start = self.number(array, row, self.builder.add(column, column.type(v * self.lanes)))
        return self.builder.bitcast(start, self.vector.as_pointer())

    def everywhere(self, number):
        one = self.builder.insert_element(self.vector(ir.Undefined), number, self.index(0))
        return self.builder.shuffle_vector(one, one, ir.VectorType(self.index, self.lanes)([0] * self.lanes))


_six_rows, _one_row = _rows_of(_DEEP), _rows_of(1)


def spare(itemsize) -> int:
    """Numbers that may be read behind the last column of T, and written behind the last of G."""
    return _VECTORS * _BYTES // itemsize


@compiled
def multiply(A, T, t, G):
    """G = A times columns t ... t + w - 1 of T.

    A : real (m, d); T : real (d, t + w + spare or more); G : real (m, w), with spare numbers behind it in memory
    """
    m, w = G.shape
    step = _VECTORS * (_BYTES // A.itemsize)
    whole = m - m % _DEEP
    # The last columns first: what is written beside them is the beginning of the next row, whose turn comes later.
    for j in range((w - 1) // step * step, -1, -step):
        for i in range(0, whole, _DEEP):
            _six_rows(A, T, G, i, j, t + j)
        for i in range(whole, m):
            _one_row(A, T, G, i, j, t + j)

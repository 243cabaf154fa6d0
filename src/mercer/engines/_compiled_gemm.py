"""Products of dense rows, where BLAS copies rows of few columns, or multiplies at half the speed of the processor.

Each number is the sum over the columns in their order, in blocks where they are many, whatever the shape of the tile.
The rules of `mercer.engines._compiled` hold here too.
"""

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from mercer.kernels._compiled import compiled

_BYTES = 64  # of a vector; where registers are narrower the compiler takes several
# Sums that stay in registers: rows of A, and vectors of columns of B.
WIDEST = bool(binding.get_host_cpu_features().get("avx512f"))  # whether the processor has vectors of 64 bytes
_DEEP, _VECTORS = 6, 4 if WIDEST else 1
_BLOCK = 256  # columns of wide rows: sums of so many are rounded as those of BLAS are, and stay in the second cache
_TURNED_AT_ONCE = 16


def _rows_of(depth, added):
    """Compiled step: G[i + r, j + c] = sum over first <= k < stop of A[i + r, k] T[k - first, t + c] for r < depth and c of all
    vectors; added, the sum is added to what is there."""

    @intrinsic
    def step(typingctx, A, T, G, i, j, t, first, stop):
        def codegen(context, builder, signature, args):
            arrays = [
                context.make_array(kind)(context, builder, value=a)
                for kind, a in zip(signature.args[:3], args[:3], strict=True)
            ]
            _Step(context, builder, signature.args[0].dtype, *arrays).emit(*args[3:], depth, added)
            return context.get_dummy_value()

        if not A.dtype == T.dtype == G.dtype:  # memory of one would be read as numbers of another
            return None
        return types.void(A, T, G, *[types.intp] * 5), codegen

    return step


class _Step:
    def __init__(self, context, builder, kind, left, right, out):
        self.builder, self.left, self.right, self.out = builder, left, right, out
        real = context.get_value_type(kind)
        self.align = context.get_abi_sizeof(real)
        self.lanes = _BYTES // self.align
        self.vector, self.index = ir.VectorType(real, self.lanes), ir.IntType(32)

    def emit(self, i, j, t, first, stop, depth, added):
        b, rows, vectors = self.builder, range(depth), range(_VECTORS)
        sums = [[cgutils.alloca_once_value(b, self.vector(None)) for _ in vectors] for _ in rows]
        for total in (s for row in sums for s in row):
            b.store(self.vector(None), total)
        with cgutils.for_range(b, b.sub(stop, first)) as loop:
            theirs = [b.load(self.place(self.right, loop.index, t, v), align=self.align) for v in vectors]
            k = b.add(first, loop.index)
            for r in rows:
                number = b.load(self.number(self.left, b.add(i, i.type(r)), k), align=self.align)
                ours = self.everywhere(number)
                for total, v in zip(sums[r], theirs, strict=True):
                    product = b.fmul(ours, v, flags=["contract"])
                    b.store(b.fadd(b.load(total), product, flags=["contract"]), total)
        for r in rows:
            for v, total in enumerate(sums[r]):
                place, value = self.place(self.out, b.add(i, i.type(r)), j, v), b.load(total)
                value = b.fadd(b.load(place, align=self.align), value) if added else value
                b.store(value, place, align=self.align)

    def number(self, array, row, column):
        b = self.builder
        return b.gep(array.data, [b.add(b.mul(row, b.extract_value(array.shape, 1)), column)])

    def place(self, array, row, column, v):
        start = self.number(array, row, self.builder.add(column, column.type(v * self.lanes)))
        return self.builder.bitcast(start, self.vector.as_pointer())

    def everywhere(self, number):
        one = self.builder.insert_element(self.vector(ir.Undefined), number, self.index(0))
        return self.builder.shuffle_vector(one, one, ir.VectorType(self.index, self.lanes)([0] * self.lanes))


_six_rows, _one_row = _rows_of(_DEEP, False), _rows_of(1, False)
_six_more, _one_more = _rows_of(_DEEP, True), _rows_of(1, True)


def spare(itemsize) -> int:
    """Numbers that may be read behind the last column of T, and written behind the last of G."""
    return _VECTORS * _BYTES // itemsize


@compiled
def multiply(A, T, t, G):
    """G = A times columns t ... t + w - 1 of T.

    A : real (m, d); T : real (d, t + w + spare or more); G : real (m, w), with spare numbers behind it in memory
    """
    step = _VECTORS * (_BYTES // A.itemsize)
    # The last columns first: what is written beside them is the beginning of the next row, whose turn comes later.
    for j in range((G.shape[1] - 1) // step * step, -1, -step):
        _first_sums(A, T, t + j, G, j, A.shape[1])


@compiled
def multiply_wide(A, B, panel, G):
    """G = A B^T for rows of so many columns that a transpose of B would leave the cache: a panel of it at a time.

    A : real (m, d); B : real (w, d); panel : real (block, spare), scratch; G : real (m, w), with spare numbers behind it
    """
    d, step = A.shape[1], panel.shape[1]
    for j in range((G.shape[1] - 1) // step * step, -1, -step):
        for first in range(0, max(d, 1), panel.shape[0]):
            stop = min(first + panel.shape[0], d)
            _turn(B[j : j + step], first, stop, panel)
            if first == 0:
                _first_sums(A, panel, 0, G, j, stop)
            else:
                _more_sums(A, panel, G, j, first, stop)


@compiled
def _first_sums(A, T, t, G, j, stop):
    m = A.shape[0]
    whole = m - m % _DEEP
    for i in range(0, whole, _DEEP):
        _six_rows(A, T, G, i, j, t, 0, stop)
    for i in range(whole, m):
        _one_row(A, T, G, i, j, t, 0, stop)


@compiled
def _more_sums(A, panel, G, j, first, stop):
    m = A.shape[0]
    whole = m - m % _DEEP
    for i in range(0, whole, _DEEP):
        _six_more(A, panel, G, i, j, 0, first, stop)
    for i in range(whole, m):
        _one_more(A, panel, G, i, j, 0, first, stop)


@compiled
def _turn(B, first, stop, panel):
    """Columns first ... stop - 1 of B as rows of the panel, with 0 behind them: sums with these are added to other rows' numbers.

    Places that share lines of the cache come one after the other."""
    w = B.shape[0]
    for some in range(first, stop, _TURNED_AT_ONCE):
        end = min(some + _TURNED_AT_ONCE, stop)
        for r in range(w):
            for k in range(some, end):
                panel[k - first, r] = B[r, k]
        panel[some - first : end - first, w:] = 0


def panel_shape(itemsize) -> tuple[int, int]:
    """Of the scratch memory of `multiply_wide`."""
    return _BLOCK, spare(itemsize)

"""What every engine does: prepare a side once, evaluate tiles, and build products, reductions and gradients from tiles.

A new engine gives `tile` (values of expressions on one block of pairs) and may override any verb that it can do better.
"""

import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from mercer.engines import columns, reductions
from mercer.engines.gradients import Gradients
from mercer.engines.prepare import Prepared, diagonal, prepare
from mercer.errors import NanError
from mercer.kernels.trace import Lowered
from mercer.threads import nested, stopping

__all__ = ["TILE_ENTRIES", "Engine", "scratch"]

#: Entries of the Gram that a thread holds at a time where it uses whole rows.
TILE_ENTRIES = 2**19
_OBJECTS = (16, 16)  # pairs of objects
_WIDEST = 4096  # columns of a tile of whole rows
WIDE = 128  # columns of X from which on the product takes longer than what is made of it
_memory = threading.local()


def scratch(name, shape, dtype) -> np.ndarray:
    """Memory of this thread, used again from tile to tile: fresh pages cost more than the arithmetic."""
    known: dict = _memory.__dict__
    size, key = math.prod(shape), (name, dtype)
    if key not in known or known[key].size < size:
        known[key] = np.empty(size, dtype)
    return known[key][:size].reshape(shape)


class Engine:
    """Base engine: subclasses give `tile`; `tile_shape` and `each` say how the work is cut and spread."""

    name = "base"
    tile_shape = (256, 1024)
    reductions = reductions.OPERATIONS
    sums_rows = False  # whether sums over all rows of a block are one task, rather than one for each thread
    options: tuple[str, ...] = ("threads",)  # of `mercer.Engine` that this engine has a use for

    def __init__(self, threads: int | None = None):
        self.threads = threads

    def at(self, device) -> "Engine":
        """This engine for data that lie on a device of torch's."""
        return self

    def send(self, x) -> None:
        """Products with these rows come next: a device fetches them while it works for others."""

    def careful(self) -> "Engine":
        """This engine for matrices that will be divided by, whatever speed it is set to."""
        return self

    @property
    def where(self) -> str:
        """The device that computes, for people; "" for the processor."""
        return ""

    @property
    def beside_the_processor(self) -> bool:
        """Whether a device of its own computes, for which all pairs are less work than a tree is here."""
        return False

    def computes_in(self, dtype) -> np.dtype:
        """The precision in which entries of a Gram of this dtype are made."""
        return np.dtype(dtype)

    def room(self) -> int | None:
        """Bytes that a matrix may take on the engine's own device; None where that is the memory of the process."""
        return None

    # ------------------------------------------------------------------------------------ preparing
    def prepare(self, lowered: Lowered, rows, like: Prepared | None = None) -> Prepared:
        """Make one side. `like` is the other side (the training rows): its centre and vocabulary are used."""
        return prepare(self, lowered, rows, like)

    # ------------------------------------------------------------------------------------ the tile, the one duty
    def tile(self, outputs, x: Prepared, y: Prepared, out=None) -> np.ndarray:
        """Values of several expressions on all pairs of two (small) sides: (len(outputs), len(x), len(y))."""
        raise NotImplementedError

    def each(self, job: Callable[[int], object], count: int):
        """Run the jobs, possibly in parallel, and return their results in order."""
        return [job(i) for i in range(count)]

    def shape_for(self, x: Prepared) -> tuple[int, int]:
        """Tiles are small where a kernel takes long for a pair of objects: threads share them, also where there are few, and half
        of a symmetric Gram is left out."""
        rows, columns = _OBJECTS
        return (max(1, min(rows, len(x) // 8)), columns) if x.lowered.pairs_of_objects else self.tile_shape

    def _grid(self, x, y, shape=None):
        a, b = shape or self.shape_for(x)
        rows = [slice(i, min(i + a, len(x))) for i in range(0, len(x), a)]
        cols = [slice(j, min(j + b, len(y))) for j in range(0, len(y), b)]
        return rows, cols

    # ------------------------------------------------------------------------------------ verbs
    def block(self, x: Prepared, y: Prepared) -> np.ndarray:
        """All of K(x, y) as an array; a symmetric Gram is computed once and mirrored."""
        K, mirrored = np.empty((len(x), len(y)), x.dtype), x is y
        height, width = self.piece_shape(x)
        pieces = [
            (slice(i, min(i + height, len(x))), slice(j, min(j + width, len(y))))
            for i in range(0, len(x), height)
            for j in range(i if mirrored else 0, len(y), width)  # mirrored: from the diagonal on
        ]
        write = self.writer(K, x, y, mirrored=mirrored)
        self.each(lambda k: write(*pieces[k]), len(pieces))
        return K

    def matrix(self, x: Prepared, y: Prepared, dtype) -> Any:
        """All of K(x, y) for a solver to work in, where the engine computes."""
        return self.block(x, y).astype(dtype, copy=False)

    def fill(self, K, i0, j0, x: Prepared, y: Prepared, shape=None):
        """K(x, y) into K[i0 : i0 + len(x), j0 : j0 + len(y)]; tiles are spread over the threads also where rows are few, unless
        their shape is given."""
        if shape is None and not nested() and not x.lowered.pairs_of_objects:
            shape = _small_tile(len(x), len(y), x.width)
        rows, cols = self._grid(x, y, shape)
        tiles = [(r, c) for r in rows for c in cols]
        write = self.writer(K, x, y, i0, j0)
        self.each(lambda i: write(*tiles[i]), len(tiles))

    def writer(self, K, x: Prepared, y: Prepared, i0=0, j0=0, mirrored=False) -> Callable[[slice, slice], None]:
        """What writes some rows and columns of K(x, y) to their places in K[i0:, j0:]; mirrored, also below the diagonal of a
        symmetric K, whose parts are those on and above it."""
        xs, ys = _parts(x), _parts(y)

        def write(r, c):
            xi, yj = xs(r.start, r.stop), ys(c.start, c.stop)
            r, c = slice(i0 + r.start, i0 + r.stop), slice(j0 + c.start, j0 + c.stop)
            if not self.tile_into(K, r, c, xi, yj):
                self.check_finite(K[r, c], x)
            if mirrored:
                self.mirror(K, r, c)

        return write

    def tile_into(self, K, r, c, x, y) -> bool:
        """Write one tile into its place in K. Returns True if its numbers are known to be finite."""
        K[r, c] = self.tile([x.lowered.expression], x, y)[0]
        return False

    def piece_shape(self, x) -> tuple[int, int]:
        """Shape of what a thread writes at a time where the Gram is kept."""
        return self.shape_for(x)

    def check_finite(self, values, x):
        """Refuse NaN and infinity by the kernel's name. The sum sees them in one pass while the tile is in the cache."""
        with np.errstate(all="ignore"):
            if np.isfinite(values.sum()) or np.isfinite(values).all():
                return
        raise NanError(
            f"{x.lowered.kernel!r} gave NaN or infinity in {int((~np.isfinite(values)).sum())} of {values.size} entries; "
            "rescale the columns, or check the parameters for overflow"
        )

    def mirror(self, K, r, c):
        """Copy a tile of the upper triangle below the diagonal while it is in the cache; nobody else writes there."""
        if c.start == r.start:
            lower = np.tril_indices(r.stop - r.start, -1)
            K[r, r][lower] = K[r, r].T[lower]
            c = slice(r.stop, c.stop)
        K[c, r] = K[r, c].T

    def diag(self, x: Prepared) -> np.ndarray:
        """k(x, x) of every row."""
        values = np.broadcast_to(np.asarray(diagonal(x.lowered.expression, x), x.dtype), (len(x),)).copy()
        self.check_finite(values, x)
        return values

    def matmul(self, x: Prepared, y: Prepared, V) -> np.ndarray:
        """K(x, y) @ V without K; each block of rows has one owner that adds the tiles in order."""
        out = np.zeros((len(x), V.shape[1]), np.result_type(x.dtype, V.dtype))
        rows, cols = self._grid(x, y)
        e = [x.lowered.expression]
        parts = [y.take(c) for c in cols]

        def job(i):
            xi = x.take(rows[i])
            for c, yj in zip(cols, parts, strict=True):
                tile = self.tile(e, xi, yj)[0]
                with np.errstate(
                    all="ignore"
                ):  # BLAS may raise flags over numbers it does not use; the sums are checked
                    out[rows[i]] += tile @ V[c]

        self.each(job, len(rows))
        self.check_finite(out, x)
        return out

    def cross(self, x: Prepared, y: Prepared, R, V=None) -> np.ndarray:
        """R^T K for R (n, p), or V K^T diag(R) K for V (p, M) and R (n, 1), added up in float64: (p, M).

        The Gram keeps its precision, but is multiplied in float64: iterations that apply it again and again would stall on
        products that are rounded differently each time.
        """
        total = np.zeros(((R.shape[1] if V is None else len(V)), len(y)))
        for some in self.row_slices(x, y):
            self.add_products(self.whole_rows(x.take(some), y), R[some], V, total)
        return total

    def row_slices(self, x: Prepared, y: Prepared):
        """Slices of x whose whole rows of the Gram stay in the cache."""
        step = max(64, TILE_ENTRIES // max(len(y), 1) // 64 * 64)
        return [slice(i, min(i + step, len(x))) for i in range(0, len(x), step)]

    def whole_rows(self, x: Prepared, y: Prepared) -> np.ndarray:
        """K(x, y) in memory that the next call in this thread overwrites."""
        tile = scratch("rows", (len(x), len(y)), x.dtype)
        self.fill(tile, 0, 0, x, y, shape=(len(x), _WIDEST))
        return tile

    def add_products(self, tile, R, V, total):
        """Add to total what `cross` says for some rows of the Gram."""
        tile = tile.astype(np.float64, copy=False)
        with np.errstate(invalid="ignore"):  # as in `matmul`
            total += (R if V is None else R * (tile @ V.T)).T @ tile

    def reduce(self, x: Prepared, y: Prepared, op: str, **options):
        """Row-wise reduction of K(x, y): see `mercer.engines.reductions`."""
        rows, cols = self._grid(x, y)
        rows = rows or [slice(0, 0)]  # no rows have results without rows
        e = [x.lowered.expression]
        parts = [y.take(c) for c in cols]

        def job(i):
            xi, state = x.take(rows[i]), reductions.start(op, self.reductions, **options)
            for c, yj in zip(cols, parts, strict=True):
                if stopping():
                    return None
                tile = self.tile(e, xi, yj)[0]
                self.check_finite(tile, xi)
                state.add(tile, c.start)
            return state.result()

        return reductions.join(op, self.each(job, len(rows)))

    # ------------------------------------------------------------------------------------ gradients
    def column_pullback(self, statistic, A, B, V):
        return columns.pullback(statistic, A, B, V)

    def pullback(self, x: Prepared, y: Prepared, W) -> dict[str, np.ndarray]:
        """Gradient of sum(W * K) in the parameters, natural scale."""
        return self.gradients(x, y).run(W).parameters()

    def pullback_diag(self, x: Prepared, v) -> dict[str, np.ndarray]:
        """Gradient of sum(v * diag K(x, x)) in the parameters."""
        return Gradients(self, x, x).run_diagonal(v).parameters()

    def pullback_inputs(self, x: Prepared, y: Prepared, W) -> np.ndarray:
        """Gradient of sum(W * K) in the rows of x; if y is x, both places move."""
        return self.gradients(x, y, both=x is y).run(W).inputs()

    def gradients(self, x: Prepared, y: Prepared, both=True) -> Gradients:
        """A backward sweep over the tiles."""
        return Gradients(self, x, y, both)


def _parts(side):
    """What takes rows from one to another of a side, once."""
    return cache(lambda start, stop: side.take(slice(start, stop)))


def _small_tile(n, m, width):
    """Shape of tiles that keep some threads busy also where rows or columns are few. The product of wide rows is most of the
    work, and better in large tiles; that of narrow ones should stay in the cache for what follows."""
    wide = width >= WIDE
    most = 1024 if wide else 256
    a = -(-n // -(-n // most)) if n else 1  # no tile of a few rows that are left over
    area = min((960 if wide else 240) * 1024, max(n * m // 8, 64))
    return a, max(area // a // 64 * 64, 64) + 16  # not a power of two bytes: see the CPU engine's tiles

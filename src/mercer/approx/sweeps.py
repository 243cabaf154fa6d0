"""Passes over rows that come in blocks: products with the Gram of all rows and some landmarks, of which nothing is kept."""

import threading
from functools import reduce

import numpy as np

from mercer.gram import prepared_gram
from mercer.solvers import Moments
from mercer.streams import LOOK
from mercer.threads import map_tiles

__all__ = ["LocalSweeps", "added", "cross_products"]

#: Rows read at a time, and rows that one thread adds up. Sums are made in this grid whatever the number of threads, so that
#: results depend neither on it nor on how the rows come.
READ, GROUP = LOOK, 8192
_FEW = 4  # targets for which a loop is faster than BLAS on a float64 copy
_ENTRIES, _WIDTH = 2**19, 4096  # of the Gram at a time in each thread, and columns of a tile
_local = threading.local()


class LocalSweeps:
    """Passes on this machine. centres: Gram of the landmarks; stream: anything with `blocks(size)`."""

    def __init__(self, stream, centres):
        self.stream, self.centres = stream, centres

    def first(self) -> Moments:
        """Weights, targets and their products with the Gram."""
        return added(_moments(self.centres, block) for block in self.stream.blocks(READ))

    def normal(self, V) -> np.ndarray:
        """K^T W K V, in float64."""
        total = np.zeros(V.shape)
        for block in self.stream.blocks(READ):
            total += cross_products(prepared_gram(self.centres, block.X), block.w[:, None], V)
        return total


def _moments(centres, block) -> Moments:
    R = np.column_stack([block.w[:, None] * block.y, block.w])
    both = cross_products(prepared_gram(centres, block.X), R)
    sums = sum(R[g : g + GROUP].sum(axis=0) for g in range(0, len(R), GROUP))  # in the grid of all other sums
    return Moments(float(sums[-1]), both[:, :-1], both[:, -1], sums[:-1])


def added(parts) -> Moments:
    """Moments of all rows from those of blocks, in their order."""
    return reduce(
        lambda a, b: Moments(a.weight + b.weight, a.right + b.right, a.ones + b.ones, a.target + b.target), parts
    )


def cross_products(K, R, V=None) -> np.ndarray:
    """K^T R for R (n, p); with V (M, p) K^T (R * (K V)), R (n, 1). Float64 sums over groups of rows in fixed order.

    The Gram keeps its precision, but is multiplied in float64: iterations that apply it again and again would stall on
    products that are rounded differently each time.
    """
    n, M = K.shape
    R = np.ascontiguousarray(R, np.float64)
    rows_of_v = None if V is None else np.ascontiguousarray(V.T, np.float64)
    p = R.shape[1] if V is None else V.shape[1]
    step = max(64, min(GROUP, _ENTRIES // M // 64 * 64))

    def job(g):
        total = np.zeros((p, M))
        for start in range(g * GROUP, min((g + 1) * GROUP, n), step):
            some = slice(start, min(start + step, (g + 1) * GROUP, n))
            tile = _scratch(some.stop - start, M, K.dtype)
            K.engine.fill(tile, 0, 0, K.x.take(some), K.y, shape=(step, _WIDTH))
            _add_products(tile, R[some], rows_of_v, total)
        return total

    parts = map_tiles(job, -(-n // GROUP))
    for part in parts[1:]:
        parts[0] += part
    return parts[0].T


def _add_products(tile, R, V, total):
    from mercer.approx import _compiled

    if len(total) > _FEW:  # many targets are a matrix product
        tile = tile.astype(np.float64)
        total += (R if V is None else R * (tile @ V.T)).T @ tile
    elif V is None:
        _compiled.left_product(tile, R, total)
    else:
        _compiled.normal_product(tile, V, R[:, 0], total)


def _scratch(rows, columns, dtype):
    """Memory of this thread, used again from tile to tile."""
    held = getattr(_local, "tile", None)
    if held is None or held.size < rows * columns or held.dtype != dtype:
        held = _local.tile = np.empty(rows * columns, dtype)
    return held[: rows * columns].reshape(rows, columns)

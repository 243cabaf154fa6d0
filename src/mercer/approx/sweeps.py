"""Passes over rows that come in blocks: products with the Gram of all rows and some landmarks, of which nothing is kept."""

from functools import reduce
from itertools import islice

import numpy as np

from mercer.gram import prepared_gram
from mercer.gram.plan import budget
from mercer.solvers import Moments
from mercer.streams import LOOK, Block
from mercer.threads import ahead, map_tiles, started

__all__ = ["LocalSweeps", "added", "bracketed", "cross_products", "tile_sums"]

#: Rows that one thread adds up, rows read at a time, and rows whose sums are added before they join the others. Sums are made
#: in this grid whatever the number of threads and machines, so that results depend neither on them nor on how the rows come.
GROUP, READ, SPAN = 8192, LOOK, 16 * LOOK
#: Rows that a device takes at a time, of which the next are prepared meanwhile; its sums are exact beyond what the grid is for.
_AT_ONCE = 8 * LOOK
_KEPT = 4  # rows that take less than this part of a device are prepared once


class LocalSweeps:
    """Passes on this machine. centres: Gram of the landmarks; stream: anything with `blocks(size)`."""

    def __init__(self, stream, centres):
        self.stream, self.centres = stream, centres
        # Rows that a device keeps are prepared while it works on the landmarks.
        self._memory = started(_sent(self._prepared(_AT_ONCE))) if self._keeps() else None

    def first(self) -> Moments:
        """Weights, targets and their products with the Gram."""
        return bracketed((_moments(K, block) for K, block in self._blocks()), added, SPAN // READ)

    def normal(self, V) -> np.ndarray:
        """K^T W K V, in float64."""
        parts = (cross_products(K, block.w[:, None], V) for K, block in self._blocks())
        return bracketed(parts, np.add, SPAN // READ)

    def _blocks(self):
        """Blocks of rows and their Grams with the landmarks. A device need not wait for the host to prepare them."""
        if not self.centres.engine.sums_rows:
            return self._prepared(READ)
        if self._memory is not None:
            return self._kept()
        # Three blocks at a time: one is prepared, one sent, one worked on.
        return ahead(_sent(ahead(self._prepared(_AT_ONCE, copied=True))))

    def _prepared(self, size, copied=False):
        for block in self.stream.blocks(size):
            if copied:  # the next batch, which comes before this one is done with, may be filled into the same arrays
                block = Block(*(part.copy() for part in block))
            yield prepared_gram(self.centres, block.X), block

    def _keeps(self):
        """Whether all rows can stay on a device from pass to pass, beside the matrix of the landmarks."""
        engine, held = self.centres.engine, getattr(self.stream, "nbytes", None)
        if not engine.sums_rows or held is None:
            return False
        return held * _KEPT <= budget(None, engine.room()) - 8 * len(self.centres) ** 2

    def _kept(self):
        if not isinstance(self._memory, list):
            kept = []
            for pair in self._memory:
                kept.append(pair)
                yield pair
            self._memory = kept
        else:
            yield from self._memory


def _sent(blocks):
    for K, block in blocks:
        K.engine.send(K.x)
        yield K, block


def _moments(K, block) -> Moments:
    R = np.column_stack([block.w[:, None] * block.y, block.w])
    both = cross_products(K, R)
    sums = sum(R[g : g + GROUP].sum(axis=0) for g in range(0, len(R), GROUP))  # in the grid of all other sums
    return Moments(float(sums[-1]), both[:, :-1], both[:, -1], sums[:-1])


def added(a: Moments, b: Moments) -> Moments:
    """Moments of two sets of rows together."""
    return Moments(a.weight + b.weight, a.right + b.right, a.ones + b.ones, a.target + b.target)


def bracketed(values, add, *sizes):
    """Sum of values in their order: of so many at a time first, these again of so many at a time, and so on."""
    for size in sizes:
        values = _runs(iter(values), add, size)
    return reduce(add, values)


def _runs(values, add, size):
    for first in values:
        yield reduce(add, islice(values, size - 1), first)


def cross_products(K, R, V=None) -> np.ndarray:
    """K^T R for R (n, p); with V (M, p) K^T (R * (K V)), R (n, 1). See `Engine.cross`."""
    R = np.ascontiguousarray(R, np.float64)
    V = None if V is None else np.ascontiguousarray(V.T, np.float64)
    if K.engine.sums_rows:
        return K.engine.cross(K.x, K.y, R, V).T
    return group_sums(len(R), lambda some: K.engine.cross(K.x.take(some), K.y, R[some], V)).T


def tile_sums(K, shape, add) -> np.ndarray:
    """Sums over the rows of a Gram that is never held whole: `add(tile, rows, sums)` adds what some whole rows give."""

    def group(rows):
        sums, x = np.zeros(shape), K.x.take(rows)
        for some in K.engine.row_slices(x, K.y):
            tile = K.engine.whole_rows(x.take(some), K.y)
            add(tile, slice(rows.start + some.start, rows.start + some.stop), sums)
        return sums

    return group_sums(K.shape[0], group)


def group_sums(n, job) -> np.ndarray:
    """Sum of job(rows) over groups of rows: by the threads, added in their order, so that it does not depend on the threads."""
    parts = map_tiles(lambda g: job(slice(g * GROUP, min((g + 1) * GROUP, n))), -(-n // GROUP))
    for part in parts[1:]:
        parts[0] += part
    return parts[0]

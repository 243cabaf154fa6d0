"""A k-d tree as flat arrays: rows ordered so that each node is a slice, with the tight box around it."""

import math
from dataclasses import dataclass

import numpy as np

from mercer.threads import map_tiles

__all__ = ["Boxes", "build"]

_TOGETHER = 2**16  # rows below which a whole branch is cut in one call


@dataclass(frozen=True, eq=False)
class Boxes:
    """Nodes 0 (all rows), 1, 2 (its halves), 3 ... 6 and so on, all leaves in the last level.

    rows (n, d) are the given ones in a new order, `order` (n,) their old places; node i has rows start[i] ... stop[i] - 1,
    which fill the box lo[i] ... hi[i], and the children left[i], right[i], both -1 for a leaf.
    """

    rows: np.ndarray
    order: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @property
    def leaves(self) -> np.ndarray:
        """Numbers of the leaves, from the first rows to the last."""
        return np.arange(len(self.start) // 2, len(self.start))

    def totals(self, values, combine=np.add) -> np.ndarray:
        """Sum (or `np.minimum`, `np.maximum`) of values (n, ...), given in the order of `rows`, over each node."""
        leaf = combine.reduceat(values, self.start[self.leaves])
        levels = [leaf]
        while len(levels[0]) > 1:
            levels.insert(0, combine(levels[0][::2], levels[0][1::2]))
        return np.concatenate(levels)


def build(Z, leaf=32, multiple=1) -> Boxes:
    """The tree of rows Z (n, d), n >= 1, in float64; leaves have at most `leaf` rows and, unless n is less, at least half of it.

    Every node is halved at the median of its widest column, so that the shape of the tree depends on n alone. Nodes begin at a
    multiple of `multiple`, of which a leaf must hold two: loops over leaves like to be filled.
    """
    rows = np.array(Z, np.float64, order="C", ndmin=2)
    n, d = rows.shape
    depth = min(max(0, math.ceil(math.log2(n / leaf))), int(math.log2(n)))
    start, stop, left, right = _layout(n, depth, multiple)
    order = np.arange(n)
    if d == 1:
        order = np.argsort(rows[:, 0], kind="stable")
        rows = rows[order]
    else:
        _cut(rows, order, start, stop, left, depth)
    bare = Boxes(rows, order, start, stop, rows[:0], rows[:0], left, right)
    lo, hi = bare.totals(rows, np.minimum), bare.totals(rows, np.maximum)
    return Boxes(rows, order, start, stop, lo, hi, left, right)


def _layout(n, depth, multiple):
    """Slices and children of the nodes: node j of level l has the rows from j n / 2^l on."""
    edges = [np.round(np.arange(2**level + 1) * (n / 2**level / multiple)) * multiple for level in range(depth + 1)]
    edges = [np.append(e[:-1], n).astype(np.int64) for e in edges]
    start = np.concatenate([e[:-1] for e in edges])
    stop = np.concatenate([e[1:] for e in edges])
    inner = len(start) // 2
    left = np.full(len(start), -1)
    right = left.copy()
    left[:inner] = 2 * np.arange(inner) + 1
    right[:inner] = left[:inner] + 1
    return start, stop, left, right


def _cut(rows, order, start, stop, left, depth):
    """Level by level, a node a job, until branches are small; then a branch a job."""
    from mercer.solvers import _compiled_parzen as loops

    level = 0
    while level < depth:
        first, count = 2**level - 1, 2**level
        together = depth - level if len(rows) // count <= _TOGETHER else 1
        map_tiles(lambda i: loops.cut(rows, order, start, stop, left, first + i, together), count)  # noqa: B023
        level += together

"""Rows of a Gram matrix in a fixed order of its variables, kept in as much memory as they were given."""

import time

import numpy as np

from mercer.gram import GivenGram
from mercer.threads import map_tiles

__all__ = ["RowCache"]


class RowCache:
    """Rows of a symmetric Gram, by position in an order that may change: computed when asked for, kept while there is room.

    A row may be known only up to some column: `fetch(positions, stop)` computes what is missing of the first `stop` columns.
    When it is full, places are taken in turn, except those of rows asked for at the same time.
    """

    def __init__(self, K, memory: int):
        n = K.shape[0]
        self._whole: np.ndarray | None = None
        capacity = int(min(n, memory // (n * K.dtype.itemsize)))
        self.source = _GivenSource(K) if isinstance(K, GivenGram) else _GramSource(K)
        self.buffer = np.empty((capacity, n), K.dtype)  # pages are taken when they are written
        self.order = np.arange(n)  # row of K at each position
        self.slot = np.full(n, -1)  # of a position
        self.owner = np.full(capacity, -1)  # position in a slot
        self.length = np.zeros(capacity, dtype=np.intp)  # columns known of it
        self._clock = 0
        self._entries, self._seconds = 0, 0.0  # computed so far

    def whole(self) -> np.ndarray:
        """All of the matrix, made once."""
        if self._whole is None:
            self._whole = self.source.whole()
        return self._whole

    @property
    def capacity(self) -> int:
        return len(self.owner)

    @property
    def pace(self) -> float:
        """Seconds for one entry, as measured so far."""
        return self._seconds / max(self._entries, 1)

    def gather(self, rows, columns, out):
        """Entries of some positions with some others into `out`: from rows that are there, computed where they are not."""
        from mercer.solvers import _compiled

        known = self.known(rows, int(columns.max()) + 1)
        there, slots = np.flatnonzero(known), self.slot[rows]
        step = 64
        map_tiles(
            lambda i: _compiled.gather(self.buffer, slots, there[i * step : (i + 1) * step], columns, out),
            -(-len(there) // step),
        )
        if not len(there):
            self.source.block(rows, columns, out)
        elif len(there) < len(rows):
            out[~known] = self.source.block(rows[~known], columns)

    def fetch(self, positions, stop) -> np.ndarray:
        """Slots that hold the rows of these positions up to column `stop`; good until the next call."""
        slots = self.slot[positions]
        absent = slots < 0
        if absent.any():
            new = self._free_slots(int(absent.sum()), slots[~absent])
            self._evict(new)
            slots[absent] = new
            self.slot[positions[absent]], self.owner[new], self.length[new] = new, positions[absent], 0
        self._extend(slots, stop)
        return slots

    def known(self, positions, stop) -> np.ndarray:
        """Which of these rows are there up to column `stop`."""
        slots = self.slot[positions]
        out = slots >= 0
        out[out] = self.length[slots[out]] >= stop
        return out

    def permute(self, order):
        """Let position t hold what position order[t] held."""
        from mercer.solvers import _compiled

        used = np.flatnonzero(self.owner >= 0)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        # A row that is known in part stays known up to the first column that came from beyond.
        moved = np.maximum.accumulate(order)
        for s in np.unique(self.length[used]):
            self.length[used[self.length[used] == s]] = int(np.searchsorted(moved, s))
        step = max(1, len(used) // 16)
        map_tiles(
            lambda i: _compiled.permute_rows(self.buffer, used[i * step : (i + 1) * step], order), -(-len(used) // step)
        )
        self.owner[used] = place[self.owner[used]]
        self.slot, self.order = self.slot[order], self.order[order]
        self.source = self.source.permuted(order)

    # ------------------------------------------------------------------------------------ inside
    def _free_slots(self, count, busy):
        """The next slots by the clock that this request does not use itself."""
        capacity = len(self.owner)
        usable = np.ones(capacity, dtype=bool)
        usable[busy] = False
        free = np.flatnonzero(usable)
        chosen = np.take(free, np.searchsorted(free, self._clock) + np.arange(count), mode="wrap")
        self._clock = (int(chosen[-1]) + 1) % capacity
        return chosen

    def _evict(self, slots):
        old = self.owner[slots]
        self.slot[old[old >= 0]] = -1

    def _extend(self, slots, stop):
        started = time.monotonic()
        lengths = self.length[slots]
        self._entries += int(np.maximum(stop - lengths, 0).sum())
        for start in np.unique(lengths[lengths < stop]):
            short = np.sort(slots[lengths == start])
            if short[-1] - short[0] == len(short) - 1:
                self.source.fill(self.buffer, int(short[0]), self.owner[short], int(start), stop)
            else:  # scattered: computed side by side and copied to their places
                self.buffer[short, start:stop] = self.source.block(self.owner[short], np.arange(start, stop))
            self.length[short] = stop
        self._seconds += time.monotonic() - started


class _GramSource:
    """Rows by an engine."""

    def __init__(self, K, side=None):
        self.K, self.side = K, K.x if side is None else side

    def whole(self):
        return self.K.dense()

    def block(self, rows, columns, out=None):
        if len(columns) > 1 and columns[-1] - columns[0] == len(columns) - 1 and (np.diff(columns) == 1).all():
            columns = slice(int(columns[0]), int(columns[-1]) + 1)  # a view instead of a copy
        x, y = self.side.take(rows), self.side.take(columns)
        out = np.empty((len(x), len(y)), self.K.dtype) if out is None else out
        if rows is columns:
            out[...] = self.K.engine.block(x, x)
        else:
            self.K.engine.fill(out, 0, 0, x, y)
        return out

    def fill(self, out, first, rows, start, stop):
        self.K.engine.fill(out, first, start, self.side.take(rows), self.side.take(slice(start, stop)))

    def matvec(self, rows, columns, v):
        """Rows times a vector over some columns."""
        return self.K.engine.matmul(self.side.take(rows), self.side.take(columns), v[:, None])[:, 0]

    def permuted(self, order):
        return _GramSource(self.K, self.side.take(order))


class _GivenSource:
    """Rows of a matrix that is there already."""

    def __init__(self, K, order=None):
        self.K, self.order = K, np.arange(len(K)) if order is None else order

    def whole(self):
        return np.ascontiguousarray(self.K.K)

    def block(self, rows, columns, out=None):
        block = np.ascontiguousarray(self.K.K[np.ix_(self.order[rows], self.order[columns])])
        if out is not None:
            out[...] = block
        return block

    def fill(self, out, first, rows, start, stop):
        out[first : first + len(rows), start:stop] = self.K.K[np.ix_(self.order[rows], self.order[start:stop])]

    def matvec(self, rows, columns, v):
        return self.K.K[np.ix_(self.order[rows], self.order[columns])] @ v

    def permuted(self, order):
        return _GivenSource(self.K, self.order[order])

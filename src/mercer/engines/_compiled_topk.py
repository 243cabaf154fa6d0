"""Compiled search for the smallest entries of rows, fed tile by tile, and for exact distances of chosen pairs.

The rules of `mercer.engines._compiled` hold here too, but for NaN, which is reported and not passed on.
"""

import numpy as np

from mercer.engines._compiled import _direct, compiled

_LANES = 32  # entries compared before anyone asks whether one of them was small


@compiled
def _worse(keys, columns, a, b):
    """Whether entry a comes after entry b: it is larger, or as large and of a larger column."""
    return keys[a] > keys[b] or (keys[a] == keys[b] and columns[a] > columns[b])


@compiled
def _sink(keys, columns, i, size):
    """Put entry i of a heap in its place; the worst entry lies at the root."""
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and _worse(keys, columns, child + 1, child):
            child += 1
        if not _worse(keys, columns, child, i):
            return
        keys[i], keys[child] = keys[child], keys[i]
        columns[i], columns[child] = columns[child], columns[i]
        i = child


@compiled
def _rise(keys, columns, i):
    while i > 0:
        parent = (i - 1) // 2
        if not _worse(keys, columns, i, parent):
            return
        keys[i], keys[parent] = keys[parent], keys[i]
        columns[i], columns[parent] = columns[parent], columns[i]
        i = parent


@compiled
def _begin(row, offset, sign, keys, columns, filled):
    """Take the first entries of a row into a heap that is not full yet. Returns where the others begin, -1 at NaN."""
    count = min(row.size, keys.size - filled)
    for j in range(count):
        if row[j] != row[j]:
            return -1
        keys[filled + j], columns[filled + j] = sign * row[j], offset + j
        _rise(keys, columns, filled + j)
    return count


@compiled
def _not_above(row, start, stop, sign, worst):
    """How many entries are smaller than the worst kept one, or NaN. A count of comparisons is SIMD."""
    count = np.int32(0)
    for j in range(start, stop):
        count += np.int32(not sign * row[j] >= worst)
    return count


@compiled
def _go_on(row, start, offset, sign, keys, columns):
    """Entries of a row into a full heap: a later column must be smaller than the worst, so ties stay with the first."""
    for first in range(start, row.size, _LANES):
        stop = min(first + _LANES, row.size)
        if _not_above(row, first, stop, sign, keys[0]) == 0:
            continue
        for j in range(first, stop):
            if row[j] != row[j]:
                return False
            if sign * row[j] < keys[0]:
                keys[0], columns[0] = sign * row[j], offset + j
                _sink(keys, columns, 0, keys.size)
    return True


@compiled
def add_tile(tile, offset, sign, keys, columns, filled):
    """Take a tile whose first column is number `offset` into heaps of the smallest `sign * entry` of each row.

    Tiles of a row come in the order of their columns. Returns False where an entry is NaN.

    Parameters
    ----------
    tile : real (n, m); sign : 1 or -1, of its dtype
    keys, columns : (n, k) of the tile's dtype and int64; filled : how many of the k are taken, the same in all rows
    """
    for i in range(tile.shape[0]):
        start = _begin(tile[i], offset, sign, keys[i], columns[i], filled)
        if start < 0 or not _go_on(tile[i], start, offset, sign, keys[i], columns[i]):
            return False
    return True


@compiled
def sort_heaps(keys, columns):
    """Heaps in place to lists, the smallest first, ties in the order of columns."""
    for i in range(keys.shape[0]):
        key, column = keys[i], columns[i]
        for last in range(key.size - 1, 0, -1):
            key[0], key[last] = key[last], key[0]
            column[0], column[last] = column[last], column[0]
            _sink(key, column, 0, last)


@compiled
def _maybe_near(g, start, stop, x, y, keep, limit):
    """How many columns have keep (x + y_j) - 2 g_j <= limit, or NaN there."""
    count = np.int32(0)
    for j in range(start, stop):
        count += np.int32(not keep * (x + y[j]) - (g[j] + g[j]) > limit)
    return count


@compiled
def _near_row(g, start, offset, x, y, a, B, keep, keys, columns):
    """One row of `add_near`, its heap being full."""
    real = g.dtype.type
    wide = real(2) - keep  # the limit is rounded to the tile's precision, too
    limit = real(keys[0]) * wide
    for first in range(start, g.size, _LANES):
        stop = min(first + _LANES, g.size)
        if _maybe_near(g, first, stop, x, y, keep, limit) == 0:
            continue
        for j in range(first, stop):
            if not keep * (x + y[j]) - (g[j] + g[j]) > limit:
                s = _direct(a, B[j])
                if s < keys[0]:
                    keys[0], columns[0] = s, offset + j
                    _sink(keys, columns, 0, keys.size)
                    limit = real(keys[0]) * wide


@compiled
def add_near(G, xn, yn, A, B, keep, offset, keys, columns, filled):
    """Take rows B, the first of number `offset`, into heaps of the nearest of each row of A.

    Distances from the inner products say which rows may be near; those are measured by differences, so that their order is
    exact, ties going to the smaller number.

    Parameters
    ----------
    G : real (n, m), A B^T; xn, yn : squared norms of the rows of A (n, d) and B (m, d), of the same dtype
    keep : 1 less a bound on the rounding of a distance, relative to the norms
    keys, columns : float64 and int64 (n, k), squared distances and numbers; filled : how many of the k are taken
    """
    for i in range(G.shape[0]):
        count = min(G.shape[1], keys.shape[1] - filled)
        for j in range(count):
            keys[i, filled + j], columns[i, filled + j] = _direct(A[i], B[j]), offset + j
            _rise(keys[i], columns[i], filled + j)
        _near_row(G[i], count, offset, xn[i], yn, A[i], B, keep, keys[i], columns[i])


@compiled
def pair_distances(A, B, columns, out):
    """out[i, j] = |A[i] - B[columns[i, j]]|^2 by differences, float64."""
    for i in range(columns.shape[0]):
        for j in range(columns.shape[1]):
            out[i, j] = _direct(A[i], B[columns[i, j]])

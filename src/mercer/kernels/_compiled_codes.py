"""Compiled passes over arrays of codes: places of distinct ones in a hash table, and count matrices from entries.

Each pass does a bounded part of the work: the caller cuts it, so that an interrupt is seen.
"""

import numpy as np

from mercer.kernels._compiled import compiled
from mercer.kernels.codes import scrambled

mixed_code = compiled(scrambled)


@compiled
def number(codes, start, stop, table, first, count, column):
    """Columns of codes start ... stop in the order of their first entries, and how many there are.

    `table` holds columns from 1, 0 where a slot is free; its length is a power of two. `first` holds the first entries.
    """
    mask = np.uint64(table.size - 1)
    for i in range(start, stop):
        slot = mixed_code(codes[i]) & mask  # users' codes need not be scrambled
        while table[slot] > 0 and codes[first[table[slot] - 1]] != codes[i]:
            slot = (slot + np.uint64(1)) & mask
        if table[slot] == 0:
            first[count] = i
            count += 1
            table[slot] = count
        column[i] = table[slot] - 1
    return count


@compiled
def place(keys, start, stop, order, ends, out):
    """Counting sort: entries order[start:stop] to where those of their keys end; `ends` moves on."""
    for i in range(start, stop):
        entry = order[i]
        out[ends[keys[entry]]] = entry
        ends[keys[entry]] += 1


@compiled
def add_up(row, column, values, order, start, stop, filled, indptr, indices, data):
    """Entries order[start:stop], sorted by row and column, into the arrays of a CSR matrix of which `filled` are in use.

    indptr[r + 1] becomes the number of entries of row r; those of the same place are added.
    """
    for i in range(start, stop):
        entry = order[i]
        r, c = row[entry], column[entry]
        if indptr[r + 1] > 0 and indices[filled - 1] == c:
            data[filled - 1] += values[entry]
        else:
            indices[filled], data[filled] = c, values[entry]
            indptr[r + 1] += 1
            filled += 1
    return filled

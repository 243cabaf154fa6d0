"""Features by 64-bit code: hashes of labels and structures that are the same in every call, and count matrices over them.

A code stands for what was hashed, so that no dictionary is shared between fit and predict. Two of a million different features
have the same code with a probability below 1e-7.
"""

import math
import numbers
from functools import cached_property
from hashlib import blake2b

import numpy as np
import scipy.sparse as sp

from mercer.kernels.vocabulary import projected

__all__ = ["code_matrix", "code_of", "mixed", "pieces", "ranks"]

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_PIECE = 2**21  # entries that a compiled pass takes between two looks at the interpreter


def scrambled(z):
    """The finaliser of SplitMix64, of an array of uint64 or, compiled, of one; sums and products wrap around."""
    z = z + _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def mixed(codes) -> np.ndarray:
    """Codes scrambled one by one, so that their sums are codes of multisets."""
    return scrambled(np.asarray(codes).astype(np.uint64))


def pieces(n):
    """(start, stop) of the parts in which compiled passes go over n entries."""
    return [(start, min(start + _PIECE, n)) for start in range(0, n, _PIECE)]


def code_of(label) -> int:
    """Code of a number, string, bytes, None, or tuple of these; equal values have equal codes, 1 and 1.0 too."""
    label = label.item() if isinstance(label, np.generic) else label
    if isinstance(label, numbers.Real):
        return _code_of_number(label)
    if isinstance(label, tuple):
        text = b"t" + b"".join(code_of(part).to_bytes(8, "little") for part in label)
    elif isinstance(label, str):
        text = b"s" + label.encode("utf-8", "surrogatepass")
    elif isinstance(label, bytes) or label is None:
        text = b"b" + label if label is not None else b"n"
    else:
        raise TypeError(f"a label must be a number, a string, bytes, None or a tuple of these, got {label!r:.60}")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def _code_of_number(label):
    if math.isnan(label):
        raise ValueError("a label is NaN, which is equal to nothing; give missing labels a value of their own")
    if label == int(label) if math.isfinite(label) else False:
        whole = int(label)
        if -(2**63) <= whole < 2**63:
            return int(mixed(np.array([whole], np.int64))[0])
        return code_of(("int", str(whole)))
    return code_of(("float", float(label).hex()))


def ranks(*keys) -> np.ndarray:
    """1, 2, 3, ... among entries whose keys are all equal, in the order they stand."""
    order = np.lexsort(keys)
    new = np.ones(len(order), bool)
    if len(order):
        new[1:] = np.any([k[order][1:] != k[order][:-1] for k in keys], axis=0)
    starts = np.flatnonzero(new)
    out = np.empty(len(order), np.int64)
    out[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order)))) + 1
    return out


class CodeBook:
    """Codes of the features that stand in the columns, and entries in which they occur.

    `describe(entries)` names features by such entries; without it they go by their codes.
    """

    def __init__(self, codes, entries, describe=None):
        self.codes, self.entries, self.describe = codes, entries, describe

    def __len__(self):
        return len(self.codes)

    def names(self, columns) -> list[str]:
        """Readable names of the features in some columns."""
        columns = np.asarray(columns, np.int64)
        if self.describe is None:
            return [f"#{int(c):016x}" for c in self.codes[columns]]
        return self.describe(self.entries[columns])

    @cached_property
    def _order(self):
        return np.argsort(self.codes)

    def places(self, codes) -> np.ndarray:
        """Columns of some codes, -1 for unknown ones."""
        if not len(self.codes):
            return np.full(len(codes), -1)
        place = np.searchsorted(self.codes, codes, sorter=self._order).clip(max=len(self.codes) - 1)
        column = self._order[place]
        return np.where(self.codes[column] == codes, column, -1)


def code_matrix(n, row, codes, values, vocabulary=None, describe=None):
    """(CSR matrix over the vocabulary, squared norms over all codes, vocabulary) of entries (row, code, value), added up."""
    row, codes = np.asarray(row, np.int64), np.asarray(codes, np.uint64)
    column, first = _numbered(codes)
    full = _added_up(row, column, np.asarray(values, np.float64), n, max(len(first), 1))
    norms = np.bincount(np.repeat(np.arange(n), np.diff(full.indptr)), full.data**2, n)
    own = codes[first]
    if vocabulary is None:
        return full, norms, CodeBook(own, first, describe)
    places = vocabulary.places(own) if len(own) else np.full(1, -1)
    return projected(full, places, len(vocabulary)), norms, vocabulary


def _numbered(codes):
    """(a number for each code, the first entry of each): equal codes have equal numbers, in the order they appear."""
    from mercer.kernels import _compiled_codes as loops

    kind = _index_type(len(codes))
    column, first = np.empty(len(codes), kind), np.empty(len(codes), np.int64)
    table, count = np.zeros(2 ** (2 * len(codes)).bit_length(), kind), 0
    for start, stop in pieces(len(codes)):
        count = loops.number(codes, start, stop, table, first, count, column)
    return column, first[:count]


def _index_type(n):
    return np.int32 if n < 2**31 else np.int64


def _added_up(row, column, values, n, width):
    """CSR matrix of entries, in canonical form, in linear time: sorted by column, then by row."""
    from mercer.kernels import _compiled_codes as loops

    order = np.arange(len(row))
    for keys, count in ((column, width), (row, n)):
        ends, given = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))]), order
        order = np.empty_like(given)
        for start, stop in pieces(len(row)):
            loops.place(keys, start, stop, given, ends, order)
    indptr, indices, data, filled = np.zeros(n + 1, column.dtype), np.empty_like(column), np.empty(len(row)), 0
    for start, stop in pieces(len(row)):
        filled = loops.add_up(row, column, values, order, start, stop, filled, indptr, indices, data)
    out = sp.csr_array((data[:filled], indices[:filled], np.cumsum(indptr, dtype=column.dtype)), shape=(n, width))
    out.has_canonical_format = True
    return out

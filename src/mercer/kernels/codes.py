"""Features by 64-bit code: hashes of labels and structures that are the same in every call, and count matrices over them.

A code stands for what was hashed, so that no dictionary is shared between fit and predict. Two of a million different features
have the same code with a probability below 1e-7.
"""

import math
import numbers
from hashlib import blake2b

import numpy as np
import scipy.sparse as sp

from mercer.kernels.vocabulary import projected

__all__ = ["code_matrix", "code_of", "mixed", "ranks"]

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def mixed(codes) -> np.ndarray:
    """Codes scrambled one by one (the finaliser of SplitMix64), so that their sums are codes of multisets."""
    z = np.asarray(codes).astype(np.uint64) + _STEP  # wraps around, as do the products
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


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
    """Codes of the features that stand in the columns, sorted, and the entries from which they came.

    `describe(places)` names features by entries in which they occur; without it they go by their codes.
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
        return self.describe(np.unique(self.entries, return_index=True)[1][columns])

    def places(self, codes) -> np.ndarray:
        """Columns of some sorted codes, -1 for unknown ones."""
        if not len(self.codes):
            return np.full(len(codes), -1)
        place = np.searchsorted(self.codes, codes)
        known = self.codes[np.minimum(place, len(self.codes) - 1)] == codes
        return np.where(known, place, -1)


def code_matrix(n, row, codes, values, vocabulary=None, describe=None):
    """(CSR matrix over the vocabulary, squared norms over all codes, vocabulary) of entries (row, code, value), added up."""
    own, column = np.unique(codes, return_inverse=True)
    full = sp.csr_array((np.asarray(values, np.float64), (row, column.ravel())), shape=(n, max(len(own), 1)))
    full.sum_duplicates()
    norms = np.asarray(full.multiply(full).sum(axis=1), np.float64).ravel()
    if vocabulary is None:
        return full, norms, CodeBook(own, codes, describe)
    places = vocabulary.places(own) if len(own) else np.full(1, -1)
    return projected(full, places, len(vocabulary)), norms, vocabulary

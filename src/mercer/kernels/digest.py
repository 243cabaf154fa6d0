"""Equality by value: a canonical digest of parameters, arrays by dtype, shape and bytes, callables by identity."""

import hashlib
import numbers
from copy import deepcopy
from dataclasses import fields, is_dataclass

import numpy as np
import scipy.sparse as sp

__all__ = ["FrozenArray", "digest", "owned"]


def digest(value) -> bytes:
    """Digest that is equal for values that mean the same: 1 and 1.0, a list and a tuple."""
    h = hashlib.blake2b(digest_size=16)
    _feed(h, value)
    return h.digest()


def _feed(h, value):
    if value is None or isinstance(value, (bool, str, bytes)):
        h.update(f"{type(value).__name__}:{value!r};".encode("utf-8", "surrogatepass"))
    elif isinstance(value, numbers.Real) or (isinstance(value, np.ndarray) and value.ndim == 0):
        h.update(f"number:{float(value).hex()};".encode())
    elif isinstance(value, (list, tuple)):
        h.update(f"sequence:{len(value)};".encode())
        for v in value:
            _feed(h, v)
    elif isinstance(value, np.ndarray):
        _feed_array(h, value)
    elif sp.issparse(value):
        csr = sp.csr_array(value)
        _feed(h, (csr.shape, csr.data, csr.indices, csr.indptr))
    elif isinstance(value, FrozenArray):
        h.update(value.key)
    elif is_dataclass(value) and not isinstance(value, type):
        h.update(f"object:{type(value).__module__}.{type(value).__qualname__};".encode())
        for f in fields(value):
            _feed(h, getattr(value, f.name))
    else:
        h.update(f"identity:{id(value)};".encode())


def _feed_array(h, array):
    h.update(f"array:{array.dtype.str}:{array.shape};".encode())
    if array.dtype.kind == "O":
        _feed(h, list(array.ravel()))
    else:
        h.update(np.ascontiguousarray(array).tobytes())


def owned(value):
    """The value, or a copy of an array or list that somebody else could still change."""
    if isinstance(value, list):
        return deepcopy(value)
    if isinstance(value, np.ndarray) and (value.flags.writeable or not value.flags.owndata):
        value = value.copy()
        value.flags.writeable = False
    return value


class FrozenArray:
    """Read-only copy of an array that compares and hashes by content, so that records holding it do too."""

    __slots__ = ("key", "value")

    def __init__(self, value, dtype=None):
        array = np.array(value, dtype=dtype)
        array.flags.writeable = False
        self.value, self.key = array, digest(array)

    def __eq__(self, other):
        return isinstance(other, FrozenArray) and self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def __repr__(self):
        return f"array{self.value.shape}"

"""Many values of one kind as few arrays: texts as one run of bytes with their ends, sets of texts as lengths and texts, ...

Lists of a million texts or graphs would be slow and large as JSON. Values of mixed kinds stay a list.
"""

from dataclasses import fields
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from mercer.errors import ModelFileError
from mercer.registry import RECORDS

__all__ = ["packed", "unpacked"]

_FEW = 8  # values that stay a list
_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64}
_GROUPS = {"tuples": tuple, "lists": list, "sets": set, "frozensets": frozenset}


def packed(values: list, tree) -> Any:
    """A list of values as a tree; `tree` encodes one of them."""
    kinds = {type(v) for v in values}
    if len(values) <= _FEW or len(kinds) != 1:
        return [tree(v) for v in values]
    kind = kinds.pop()
    if kind in (str, bytes):
        return _texts(values, kind)
    if kind in _NUMBERS and (kind is not int or all(abs(v) < 2**62 for v in values)):
        return {"pack": "numbers", "kind": kind.__name__, "values": np.array(values, _NUMBERS[kind])}
    if kind is np.ndarray:
        return _arrays(values, tree)
    for name, group in _GROUPS.items():
        if kind is group:
            inside = [list(v) if kind in (tuple, list) else sorted(v, key=repr) for v in values]
            return {"pack": name, "ends": _ends(inside), "items": packed(list(chain.from_iterable(inside)), tree)}
    if RECORDS.has(kind) and hasattr(kind, "__dataclass_fields__"):
        parts = {f.name: packed([getattr(v, f.name) for v in values], tree) for f in fields(kind)}
        return {"pack": "records", "class": kind.__name__, "count": len(values), "parts": parts}
    return [tree(v) for v in values]


def unpacked(tree, value) -> list:
    """Inverse of `packed`; `value` decodes one of them."""
    if type(tree) is list:
        return [value(v) for v in tree]
    kind = tree.get("pack") if type(tree) is dict else None
    if kind == "texts":
        return _read_texts(tree)
    if kind == "numbers":
        make = {k.__name__: k for k in _NUMBERS}[tree["kind"]]
        return [make(v) for v in _flat(tree["values"], "biuf").tolist()]
    if kind == "arrays":
        return _read_arrays(tree)
    if kind in _GROUPS:
        return [_GROUPS[kind](part) for part in _cut(unpacked(tree["items"], value), tree["ends"])]
    if kind == "records" and tree["class"] in RECORDS:
        cls, parts = RECORDS[tree["class"]], {k: unpacked(v, value) for k, v in tree["parts"].items()}
        rows = zip(*parts.values(), strict=True) if parts else [()] * int(tree["count"])
        return [cls(**dict(zip(parts, row, strict=True))) for row in rows]
    raise ModelFileError("a list in the file is packed in a way that mercer does not write")


def _texts(values, kind):
    data = [v.encode("utf-8", "surrogatepass") if kind is str else v for v in values]
    return {
        "pack": "texts",
        "bytes": kind is bytes,
        "data": np.frombuffer(b"".join(data), np.uint8),
        "ends": _ends(data),
    }


def _read_texts(tree):
    data = _flat(tree["data"], "u").astype(np.uint8, casting="equiv").tobytes()
    parts = _cut(data, tree["ends"])
    return list(parts) if tree["bytes"] else [p.decode("utf-8", "surrogatepass") for p in parts]


def _arrays(values, tree):
    """Arrays of one type and number of dimensions, ragged or not, as one with their shapes."""
    dtypes, ndims = {v.dtype for v in values}, {v.ndim for v in values}
    if len(dtypes) > 1 or len(ndims) > 1 or values[0].dtype.kind not in "biuf":
        return [tree(v) for v in values]
    shapes = np.array([v.shape for v in values], np.int64).reshape(len(values), -1)
    return {"pack": "arrays", "data": np.concatenate([v.ravel() for v in values]), "shapes": shapes}


def _read_arrays(tree):
    shapes = np.asarray(tree["shapes"])
    if shapes.ndim != 2 or shapes.dtype.kind not in "iu" or (shapes.size and shapes.min() < 0):
        raise ModelFileError("the shapes of arrays in the file are none")
    sizes = [int(np.prod([int(n) for n in shape], dtype=object)) for shape in shapes]
    parts = _cut(_flat(tree["data"], "biuf"), np.array(list(accumulate(sizes)), object))
    return [part.reshape([int(n) for n in shape]).copy() for part, shape in zip(parts, shapes, strict=True)]


def _ends(values):
    return np.cumsum([len(v) for v in values], dtype=np.int64)


def _cut(values, ends):
    """The parts of a run of values that end at these places."""
    places = [0, *map(int, np.asarray(ends).ravel().tolist())]
    if any(b < a for a, b in pairwise(places)) or places[-1] != len(values):
        raise ModelFileError("parts of a list in the file do not fit its length")
    return [values[a:b] for a, b in pairwise(places)]


def _flat(values, kinds):
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in kinds:
        raise ModelFileError("expected a run of numbers in the file")
    return values

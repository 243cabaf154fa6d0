"""Trees of plain values, as JSON can hold them, and how arrays in them are set aside."""

import itertools
import math
import re
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.errors import ModelFileError

__all__ = ["DEPTH", "check_tree", "flatten", "unflatten"]

DEPTH = 100  # of dicts and lists within one another: far from the interpreter's limit, wherever it is called
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character; in JSON two halves that meet become one
INT_BITS = 1024  # the state of a random generator has integers of 128 bits; Python parses 1024 under any of its limits


def flatten(tree: dict) -> tuple[dict, dict[str, np.ndarray]]:
    """Set the arrays of a tree aside: content with ``{"array": name}`` in their places, and the arrays by name.

    The tree is made of dicts, lists, strings, numbers, booleans, None and arrays. NumPy scalars become Python's.

    >>> content, arrays = flatten({"step": 3, "state": {"x": np.zeros(2)}})
    >>> content, list(arrays)
    ({'step': 3, 'state': {'x': {'array': 'state.x'}}}, ['state.x'])
    """
    arrays: dict[str, np.ndarray] = {}
    return _set_aside(tree, (), arrays), arrays


def unflatten(content: dict, arrays: Mapping[str, np.ndarray]) -> dict:
    """Inverse of :func:`flatten`: each array back in its place, each used once.

    >>> unflatten({"x": {"array": "x"}}, {"x": np.arange(3)})
    {'x': array([0, 1, 2])}
    """
    unused = dict(arrays)
    tree = _put_back(content, (), unused)
    if unused:
        raise ModelFileError(f"{len(unused)} arrays, {reprlib.repr(sorted(unused))}, have no place in the content")
    return tree


def check_tree(tree: Any, trail: tuple = ()) -> None:
    """Refuse all but dicts with string keys, lists, and the leaves JSON keeps exactly."""
    _check_depth(trail)
    for key, value in tree.items() if type(tree) is dict else enumerate(tree):
        if type(tree) is dict and (type(key) is not str or not _is_leaf(key)):
            raise ModelFileError(
                f"{_place(trail)} has the key {reprlib.repr(key)}; keys must be strings of whole characters"
            )
        if type(value) is dict or type(value) is list:
            check_tree(value, (*trail, key))
        elif not _is_leaf(value):
            raise ModelFileError(
                f"{_place((*trail, key))} is {reprlib.repr(value)} ({type(value).__name__}); expected a dict, list, bool, "
                f"None, str of whole characters, finite float or int of at most {INT_BITS} bits. Other numbers fit into arrays"
            )


# ------------------------------------------------------------------------------------------------ one node
def _is_leaf(value):
    """Exact types: a subclass, such as an enumeration or np.float64, would come back as something else."""
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is int:
        return value.bit_length() <= INT_BITS
    if kind is str:
        return value.isascii() or not SURROGATE.search(value)
    return value is None or kind is bool


def _set_aside(value, trail, arrays):
    if isinstance(value, np.generic):
        return value.item()
    if type(value) not in (dict, list) and not isinstance(value, np.ndarray):
        return value
    _check_depth(trail)
    if isinstance(value, np.ndarray):
        name = _free_name(trail, arrays)
        arrays[name] = value
        return {"array": name}
    if _is_reference(value):
        raise ModelFileError(f"{_place(trail)} is {reprlib.repr(value)}, which stands for an array; use another key")
    if type(value) is dict:
        return {k: _set_aside(v, (*trail, k), arrays) for k, v in value.items()}
    return [_set_aside(v, (*trail, i), arrays) for i, v in enumerate(value)]


def _put_back(value, trail, unused):
    if type(value) not in (dict, list):
        return value
    _check_depth(trail)
    if _is_reference(value):
        if value["array"] not in unused:
            raise ModelFileError(
                f"{_place(trail)} needs the array {reprlib.repr(value['array'])}, once; it is not there"
            )
        return unused.pop(value["array"])
    if type(value) is dict:
        return {k: _put_back(v, (*trail, k), unused) for k, v in value.items()}
    return [_put_back(v, (*trail, i), unused) for i, v in enumerate(value)]


def _is_reference(value):
    return type(value) is dict and list(value) == ["array"] and type(value["array"]) is str


def _free_name(trail, taken):
    """A name that tells where the array belongs: "state.x", numbered where two would have the same."""
    words = re.sub(r"[^A-Za-z0-9_.-]", "_", ".".join(map(str, trail)))[:180]
    name = words if words and words[0] != "." else f"_{words}"
    numbered = (f"{name}-{i}" for i in itertools.count(2))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def _check_depth(trail):
    if len(trail) >= DEPTH:
        raise ModelFileError(f"the content has dicts and lists {DEPTH} deep, or one that holds itself; make it flatter")


def _place(trail):
    return "content" + "".join(f"[{reprlib.repr(key)}]" for key in trail[:8]) + ("..." if len(trail) > 8 else "")

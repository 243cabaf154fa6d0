"""Fitted models as trees of plain values and arrays, and back: a closed set of kinds, each made by its own constructor.

A value that JSON cannot hold is a dict {"is": kind, ...}. Nothing is looked up by a name in a file but registered kernels,
estimators, models and records, and functions that the user hands over.
"""

import math
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.engines import usable_engine
from mercer.errors import ModelFileError
from mercer.kernels.base import Kernel
from mercer.kernels.digest import FrozenArray
from mercer.persist.columns import packed, unpacked
from mercer.registry import ESTIMATORS, KERNELS, RECORDS, is_estimator

__all__ = ["Reader", "Writer"]

_WHOLE = {
    "float64": np.float64,
    "float32": np.float32,
    "int64": np.int64,
    "int32": np.int32,
    "bool": np.bool_,
    "uint8": np.uint8,
}
_SPARSE = {
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc_array": sp.csc_array,
    "csc_matrix": sp.csc_matrix,
}
_FITTED = re.compile(r"[A-Za-z]\w*_|_[A-Za-z]\w*")  # names that a fit gives
_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_GROUPS: dict[str, Callable] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class Writer:
    """Values as trees. functions: {name: function} that may be named in a file."""

    def __init__(self, functions: Mapping[str, Callable]):
        self.names = {id(f): name for name, f in functions.items()}

    def tree(self, value, trail="model") -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"is": "float", "value": repr(value)}
        if type(value) is list:
            return self._items(value, trail)
        if id(value) in self.names:
            return {"is": "function", "name": self.names[id(value)]}
        for kinds, method in self._methods():
            if isinstance(value, kinds):
                return method(value, trail)
        if is_estimator(value):
            # Where its rows lay is nothing of a file.
            state = {k: part for k, part in value.__getstate__().items() if k != validate.DEVICE}
            return self._made("estimator", value, state, trail)
        if RECORDS.has(type(value)):
            return self._record(value, trail)
        raise ModelFileError(self._refusal(value, trail))

    def _methods(self):
        return (
            (np.ndarray, self._array), (np.generic, self._scalar), (sp.sparray, self._sparse), (sp.spmatrix, self._sparse),
            (dict, self._dict), (tuple, self._group), ((set, frozenset), self._group), (bytes, self._bytes),
            (np.dtype, self._dtype),
            (FrozenArray, self._frozen), (Kernel, self._kernel),
            ((np.random.RandomState, np.random.Generator), self._generator),
        )  # fmt: skip

    def _refusal(self, value, trail):
        if callable(value) and not isinstance(value, type):
            name = getattr(value, "__name__", type(value).__name__)
            return (f"{trail} is the function {name}, and a file holds no code; give it a name, functions={{{name!r}: {name}}}, "
                    "here and when loading")  # fmt: skip
        return f"{trail} is {reprlib.repr(value)} ({type(value).__name__}), which a file cannot hold"

    def _items(self, values, trail):
        return [self.tree(v, f"{trail}[{i}]") for i, v in enumerate(values)]

    def _array(self, value, trail):
        if value.dtype.kind != "O":  # the order in memory decides the last bits of products
            by_column = value.flags.f_contiguous and not value.flags.c_contiguous
            return {"is": "transposed", "value": value.T} if by_column else {"is": "array", "value": value}
        flat = value.ravel().tolist()
        return {
            "is": "objects",
            "shape": list(value.shape),
            "items": packed(flat, lambda v: self.tree(v, f"{trail}[...]")),
        }

    def _scalar(self, value, trail):
        if value.dtype.name not in _WHOLE:
            raise ModelFileError(f"{trail} is a {value.dtype} scalar; expected one of {', '.join(_WHOLE)}")
        return {"is": "scalar", "value": np.asarray(value)}

    def _sparse(self, value, trail):
        name = type(value).__name__
        if name not in _SPARSE:
            raise ModelFileError(f"{trail} is a {name}; expected csr or csc")
        parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
        return {"is": "sparse", "format": name, "shape": list(map(int, value.shape)), **parts}

    def _dict(self, value, trail):
        values = [self.tree(v, f"{trail}[{reprlib.repr(k)}]") for k, v in value.items()]
        return {"is": "dict", "keys": self._items(list(value), trail), "values": values}

    def _group(self, value, trail):
        kind = (
            next(name for name, make in _GROUPS.items() if type(value) is make)
            if type(value) in _GROUPS.values()
            else None
        )
        if kind is None:
            raise ModelFileError(self._refusal(value, trail))
        values = list(value) if kind == "tuple" else sorted(value, key=repr)
        return {"is": kind, "items": packed(values, lambda v: self.tree(v, f"{trail}[...]"))}

    def _bytes(self, value, trail):
        return {"is": "bytes", "value": np.frombuffer(value, np.uint8)}

    def _dtype(self, value, trail):
        return {"is": "dtype", "value": self._scalar(np.zeros((), value)[()], trail)}

    def _frozen(self, value, trail):
        return {"is": "frozen", "value": self._array(value.value, trail)}

    def _kernel(self, value, trail):
        if not KERNELS.has(type(value)):
            raise ModelFileError(f"{trail} is a kernel of the class {type(value).__name__}, which is not registered; decorate it "
                                 "with mercer.kernels.register")  # fmt: skip
        return self._made("kernel", value, {f.name: getattr(value, f.name) for f in fields(value)}, trail)

    def _record(self, value, trail):
        whole = is_dataclass(value)
        parts = {f.name: getattr(value, f.name) for f in fields(value)} if whole else value.__getstate__()
        return self._made("record", value, parts, trail)

    def _generator(self, value, trail):
        state = value.get_state(legacy=False) if isinstance(value, np.random.RandomState) else value.bit_generator.state
        return {"is": "generator", "legacy": isinstance(value, np.random.RandomState), "state": self.tree(state, trail)}

    def _made(self, kind, value, parts, trail):
        inside = {name: self.tree(part, f"{trail}.{name}") for name, part in parts.items()}
        return {"is": kind, "class": type(value).__name__, "parts": inside}


class Reader:
    """Trees as values. functions: {name: function} that files may name."""

    def __init__(self, functions: Mapping[str, Callable]):
        self.functions = dict(functions)

    def value(self, tree) -> Any:
        if type(tree) is list:
            return [self.value(v) for v in tree]
        if type(tree) is not dict:
            return tree
        kind = tree.get("is")
        read = getattr(self, f"_read_{kind}", None) if type(kind) is str and kind.isidentifier() else None
        if read is None:
            raise ModelFileError(
                f"the file holds a value of the kind {reprlib.repr(kind)}, which mercer does not write"
            )
        return read(**{name: part for name, part in tree.items() if name != "is"})

    def _read_float(self, value):
        if value not in ("inf", "-inf", "nan"):
            raise ModelFileError(f"the file holds the number {reprlib.repr(value)}; expected inf, -inf or nan")
        return float(value)

    def _read_array(self, value):
        return _array(value)

    def _read_transposed(self, value):
        return _array(value).T

    def _read_scalar(self, value):
        array = _array(value)
        if array.ndim or array.dtype.name not in _WHOLE:
            raise ModelFileError("a scalar in the file is an array")
        return array[()]

    def _read_objects(self, shape, items):
        values = unpacked(items, self.value)
        out = np.empty(len(values), dtype=object)
        for i, v in enumerate(values):
            out[i] = v
        return out.reshape([int(n) for n in shape])

    def _read_sparse(self, format, shape, data, indices, indptr):
        parts = tuple(_array(a) for a in (data, indices, indptr))
        if format not in _SPARSE or any(a.ndim != 1 for a in parts) or any(a.dtype.kind not in "iu" for a in parts[1:]):
            raise ModelFileError("a sparse matrix in the file is none")
        rows, columns = (int(n) for n in shape)
        made = _SPARSE[format](parts, shape=(rows, columns))
        made.check_format(full_check=True)
        return made

    def _read_dict(self, keys, values):
        return dict(zip(self.value(keys), self.value(values), strict=True))

    def _read_tuple(self, items):
        return tuple(unpacked(items, self.value))

    def _read_set(self, items):
        return set(unpacked(items, self.value))

    def _read_frozenset(self, items):
        return frozenset(unpacked(items, self.value))

    def _read_bytes(self, value):
        return _array(value).astype(np.uint8, casting="equiv").tobytes()

    def _read_dtype(self, value):
        return np.asarray(self.value(value)).dtype

    def _read_frozen(self, value):
        return FrozenArray(self.value(value))

    def _read_function(self, name):
        if name not in self.functions:
            raise ModelFileError(f"the model uses a function that was called {reprlib.repr(name)}; hand it over: "
                                 f"load(path, functions={{{name!r}: ...}})")  # fmt: skip
        return self.functions[name]

    def _read_generator(self, legacy, state):
        state = self.value(state)
        name = state["bit_generator"]
        if name not in _GENERATORS:
            raise ModelFileError(
                f"the file holds a random generator {reprlib.repr(name)}; expected one of {', '.join(_GENERATORS)}"
            )
        bits = getattr(np.random, name)(0)
        made = np.random.RandomState(bits) if legacy else np.random.Generator(bits)
        if legacy:
            made.set_state(state)
        else:
            bits.state = state
        return made

    def _read_kernel(self, parts, **rest):
        cls = _known(KERNELS, "kernel", rest)
        return cls(**{name: self.value(part) for name, part in parts.items()})

    def _read_record(self, parts, **rest):
        cls = _known(RECORDS, "record", rest)
        values = {name: self.value(part) for name, part in parts.items()}
        if not is_dataclass(cls):
            made = object.__new__(cls)
            getattr(made, "__setstate__", vars(made).update)(values)
            return made
        given = {f.name: values.pop(f.name) for f in fields(cls) if f.init}
        if values:
            raise ModelFileError(
                f"a {cls.__name__} in the file has the parts {reprlib.repr(sorted(values))}, which it has not"
            )
        return cls(**given)

    def _read_estimator(self, parts, **rest):
        cls = _known(ESTIMATORS, "estimator", rest)
        state = {name: self.value(part) for name, part in parts.items()}
        return restored(cls, state)


def _may_be_fitted(cls, name):
    """Whether a fit may have given this name, which files hold: the device of the rows of a fit is not in them."""
    return bool(_FITTED.fullmatch(name)) and not hasattr(cls, name) and name != validate.DEVICE


def restored(cls, state):
    """An estimator with this state; names that are none of an estimator's are refused. What files of earlier versions lack is
    what the class says it was, and an engine that is not installed here is replaced, with a warning."""
    state = {**getattr(cls, "_newer_parameters", {}), **state}
    parameters = cls._get_param_names()
    missing = [name for name in parameters if name not in state]
    strange = [name for name in state if name not in parameters and not _may_be_fitted(cls, name)]
    if missing or strange:
        raise ModelFileError(
            f"{cls.__name__}: the file lacks {missing} and has {reprlib.repr(strange)}, which are no attributes of it"
        )
    if "engine" in parameters:
        state["engine"] = usable_engine(state["engine"])
    made = object.__new__(cls)
    vars(made).update({name: state[name] for name in parameters})
    made._validate_params()
    made.__setstate__(state)
    return made


def _known(table, what, rest):
    name = rest.pop("class", None)
    if rest or type(name) is not str or name not in table:
        raise ModelFileError(f"the file names the {what} {reprlib.repr(name)}, which this mercer does not have")
    return table[name]


def _array(value):
    if not isinstance(value, np.ndarray):
        raise ModelFileError(f"expected an array in the file, got {type(value).__name__}")
    return value

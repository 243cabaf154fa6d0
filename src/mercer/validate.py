"""The door for user data: everything comes in here, once; below it code trusts its arguments.

Rows come out in one of four forms: a 2-D float array, a CSR array, a :class:`Table` of columns, or a 1-D array of objects.
"""

import numbers
import re
import sys
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from mercer.errors import KernelOutputError
from mercer.registry import register_record
from mercer.threads import each_part, part_rows

__all__ = [
    "Table",
    "array_of",
    "at_rows",
    "canonical",
    "device_of",
    "distinct",
    "double",
    "groups",
    "is_tensor",
    "memory_bytes",
    "merged",
    "n_given",
    "n_rows",
    "numeric",
    "objects",
    "owned",
    "part",
    "plain",
    "prediction",
    "rows",
    "sample_weight",
    "take",
    "tensor_device",
    "training",
]

FLOATS = (np.float64, np.float32)
_MANY = 2**22  # numbers that are worth threads to copy
_CHANGEABLE = (np.ndarray, list, set, dict)


# ---------------------------------------------------------------------------------------------- rows
@register_record
@dataclass(frozen=True)
class Table:
    """Named columns of equal length; a column is a 1-D array, numeric or of objects."""

    names: tuple
    columns: tuple

    def __len__(self):
        return len(self.columns[0]) if self.columns else 0

    @property
    def shape(self):
        return (len(self), len(self.columns))

    def take(self, index):
        return Table(self.names, tuple(c[index] for c in self.columns))

    def __getitem__(self, chosen: slice):
        return self.take(chosen)

    def __iter__(self):
        """Rows as tuples: what a user's function of pairs sees."""
        return zip(*self.columns, strict=True)


def rows(X, reads: str, name: str = "X", columns=()):
    """Validated rows of user data for a kernel that reads "vectors", "gaps" (vectors in which NaN is a missing entry),
    "objects" or "parts" (named or numbered columns)."""
    X = array_of(X, name)
    if isinstance(X, dict) and not sp.issparse(X):  # scipy's dok_array is a dict
        raise TypeError(
            f"{name} is a dict of columns; its keys would be counted as rows. Pass a table "
            f"(pandas.DataFrame({name})) or a sequence of rows, each a tuple or a dict."
        )
    if isinstance(X, Table):
        return X
    if reads in ("vectors", "gaps"):
        return vectors(X, name, gaps=reads == "gaps")
    if reads == "objects":
        return objects(X, name)
    if reads == "any":
        return _any_rows(X, name)
    return _parts(X, name, columns)


def is_tensor(X) -> bool:
    """Whether X is a torch tensor; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)


def array_of(X, name="X"):
    """A torch tensor as an array of the host; anything else as it is."""
    if not is_tensor(X):
        return X
    if X.requires_grad:
        raise ValueError(
            f"{name} requires a gradient, which does not pass through mercer; pass {name}.detach(), and take gradients from "
            "pullback and pullback_inputs"
        )
    if str(X.dtype) in ("torch.float16", "torch.bfloat16"):
        raise ValueError(
            f"{name} is {X.dtype}: distances between rows cancel, and half precision leaves no digits; pass {name}.float()"
        )
    if str(X.layout) != "torch.strided":
        raise TypeError(f"{name} is a sparse tensor; pass scipy.sparse rows, or {name}.to_dense()")
    return X.cpu().numpy()


def tensor_device(**given):
    """The device of the tensors among the arguments, None if there are none."""
    devices = {name: X.device for name, X in given.items() if is_tensor(X)}
    if len(set(devices.values())) > 1:
        places = " and ".join(f"{name} on {device}" for name, device in devices.items())
        raise ValueError(f"tensors must lie on one device, but {places} do not; move one with .to(...)")
    return next(iter(devices.values()), None)


def vectors(X, name="X", gaps=False):
    """2-D float array or CSR array with finite entries, or NaN where `gaps` allows it; float32 stays float32."""
    if _is_table(X):
        return numeric(_table(X, name), name, gaps)
    if _is_sound(X):
        return X
    _refuse_strings(X, name)
    if getattr(X, "dtype", None) is not None and X.dtype.kind in "mM":
        raise ValueError(f"{name} holds dates; turn them into numbers first, for example days since a date")
    X = check_array(X, accept_sparse="csr", dtype=FLOATS, input_name=name, ensure_all_finite=_finite(gaps))
    if sp.issparse(X):
        return _canonical_csr(X)
    return X if X.dtype.isnative else X.astype(X.dtype.newbyteorder("="))


def _is_sound(X):
    """Whether scikit-learn's checks would return this array as it is. They take half of a small Gram's time to say so."""
    if type(X) is not np.ndarray or X.ndim != 2 or not X.size or X.dtype not in FLOATS:
        return False
    with np.errstate(all="ignore"):
        return bool(np.isfinite(X.sum()))  # finite numbers may overflow: the checks look again


def _finite(gaps):
    """scikit-learn's word for what entries may be."""
    return "allow-nan" if gaps else True


def _canonical_csr(X):
    X = sp.csr_array(X)
    if not X.has_canonical_format:  # sorted indices and summed duplicates, without touching the caller's arrays
        X = X.copy()
        X.sum_duplicates()
    return X


def _holds_objects(X):
    """Whether rows are single objects (strings, dicts, graphs) rather than rows of several entries."""
    if _is_table(X) or sp.issparse(X):
        return False
    try:
        return np.ndim(X) != 2
    except ValueError:  # ragged
        return True


def _any_rows(X, name):
    """Rows for a kernel that takes all kinds: numbers if they are, a table if they have several entries, else objects."""
    if _holds_objects(X):
        return objects(X, name)
    if _is_table(X):
        return _table(X, name)
    if sp.issparse(X) or _all_numbers(np.asarray(X)):
        return vectors(X, name)
    return _checked_table(range(X.shape[1]), X.T, name) if isinstance(X, np.ndarray) else _rows_of_records(X, name)


def _all_numbers(X):
    return X.dtype.kind in "biuf" or (X.dtype.kind == "O" and all(isinstance(v, numbers.Real) for v in X.ravel()))


def _refuse_strings(X, name):
    first = X[0] if isinstance(X, (list, tuple)) and len(X) else None
    if isinstance(X, str) or isinstance(first, (str, bytes)):
        raise ValueError(
            f"{name} holds text, but this kernel reads numbers. Use a string kernel such as Spectrum(3), "
            "or choose columns with k.on(...)."
        )


def objects(X, name="X"):
    """1-D array of objects (strings, graphs, ...)."""
    if isinstance(X, Table):
        if len(X.columns) != 1:
            raise ValueError(
                f"this kernel reads one column of objects; {name} has {len(X.columns)}. Choose one with k.on(...)"
            )
        return objects(X.columns[0], name)
    if isinstance(X, (str, bytes)):
        raise TypeError(f"{name} is a single {type(X).__name__}; pass a list of them")
    if _is_table(X):
        return objects(_table(X, name), name)
    if sp.issparse(X):
        raise TypeError(f"{name} is a sparse matrix; this kernel reads a list of objects such as strings")
    values = X if isinstance(X, (list, tuple, np.ndarray)) else list(X)
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if len(values) == 0:
        raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required: {name} is empty")
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # one by one: a list of equal-sized arrays would be broadcast
        out[i] = value
    return out


def each_object(function, things):
    """function of each object, as an array of objects; an error tells the row."""
    out = np.empty(len(things), dtype=object)
    for i, thing in enumerate(things):
        try:
            out[i] = function(thing)
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {i}: {error}") from error
    return out


def refuse_missing(read, things):
    """Raise what `read` says of the first missing object, with its row; nothing where it takes such objects."""
    things = objects(things)
    for i in np.flatnonzero([_is_missing(thing) for thing in things]):
        try:
            read(things[i : i + 1])
        except (TypeError, ValueError) as error:
            if str(error).startswith("row 0: "):
                raise type(error)(f"row {i}: {str(error).removeprefix('row 0: ')}") from error


def _is_missing(thing):
    return (
        thing is None or type(thing).__name__ in ("NAType", "NaTType") or (isinstance(thing, float) and thing != thing)
    )


def _parts(X, name, columns):
    if (isinstance(X, np.ndarray) and X.dtype.kind in "biuf") or sp.issparse(X):
        words = [c for c in columns if isinstance(c, str)]
        if words:
            raise ValueError(
                f'the kernel reads the column "{words[0]}", but {name} is a bare array without column names. Pass a table; '
                'in a Pipeline, call set_output(transform="pandas") on the step before.'
            )
        return vectors(X, name)
    if _is_table(X):
        return _table(X, name)
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return _checked_table(range(X.shape[1]), X.T, name)
    return _rows_of_records(X, name)


def _rows_of_records(X, name):
    if not hasattr(X, "__iter__"):
        raise TypeError(f"{name} must be a table or a sequence of rows, got {type(X).__name__}")
    records = list(X)
    if not records:
        raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required: {name} is empty")
    first = records[0]
    if isinstance(first, dict):
        keys = list(first)
        bad = next((i for i, r in enumerate(records) if set(r) != set(keys)), None)
        if bad is not None:
            raise ValueError(
                f"row {bad} of {name} has the keys {sorted(map(str, records[bad]))}, row 0 has {sorted(map(str, keys))}"
            )
        return _checked_table(keys, [[r[k] for r in records] for k in keys], name)
    if not isinstance(first, (tuple, list, np.ndarray)):
        raise TypeError(
            f"the kernel reads parts of a row (k.on(...)), but the rows of {name} are {type(first).__name__}; "
            "pass a table, or rows that are tuples or dicts"
        )
    width = len(first)
    bad = next((i for i, r in enumerate(records) if len(r) != width), None)
    if bad is not None:
        raise ValueError(f"row {bad} of {name} has {len(records[bad])} fields, row 0 has {width}")
    return _checked_table(range(width), [[r[j] for r in records] for j in range(width)], name)


def _is_table(X):
    return hasattr(X, "__dataframe__") or hasattr(X, "column_names") or (hasattr(X, "columns") and hasattr(X, "shape"))


def _table(X, name):
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    if hasattr(X, "iloc"):  # by position: pandas allows repeated names
        columns = [X.iloc[:, j] for j in range(len(names))]
    else:
        columns = [X[n] for n in names]
    return _checked_table(names, [np.asarray(c) for c in columns], name)


def _checked_table(names, columns, name):
    names, columns = tuple(names), tuple(_column(c) for c in columns)
    if not columns:
        raise ValueError(f"Found array with 0 feature(s) while a minimum of 1 is required: {name} has no columns")
    if len(columns[0]) == 0:
        raise ValueError(f"Found array with 0 sample(s) while a minimum of 1 is required: {name} is empty")
    return Table(names, columns)


def _column(values):
    if isinstance(values, np.ndarray):
        return values
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # one by one: a list of equal-sized arrays would be broadcast
        array[i] = value
    return array


def part(X, columns, name="X"):
    """The chosen columns: of an array by number, of a table by name or number."""
    if isinstance(X, Table):
        places = [_place(X, c, name) for c in columns]
        return Table(tuple(X.names[p] for p in places), tuple(X.columns[p] for p in places))
    if not hasattr(X, "ndim") or X.ndim != 2:
        raise TypeError(f"k.on{tuple(columns)} chooses columns, but the rows of {name} are single objects")
    width = X.shape[1]
    for c in columns:
        if isinstance(c, str):
            raise ValueError(f'the kernel reads the column "{c}", but {name} has no column names')
        if not -width <= c < width:
            raise ValueError(f"the kernel reads column {c}, but {name} has {width} columns")
    chosen = X[:, list(columns)]
    return chosen if sp.issparse(chosen) else np.ascontiguousarray(chosen)


def _place(table, column, name):
    if column in table.names:
        if table.names.count(column) > 1:
            raise ValueError(f"{name} has {table.names.count(column)} columns named {column!r}; rename them")
        return table.names.index(column)
    if isinstance(column, (int, np.integer)) and -len(table.names) <= column < len(table.names):
        return int(column)
    shown = ", ".join(map(repr, table.names[:8])) + (", ..." if len(table.names) > 8 else "")
    raise ValueError(f"the kernel reads the column {column!r}, but {name} has {shown}")


def numeric(X, name="X", gaps=False):
    """Rows as a float array: what a vector kernel sees of a table, or of an array; NaN only where `gaps` allows it."""
    if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        return X
    if not isinstance(X, Table):
        raise ValueError(
            f"the rows of {name} are single objects, but the kernel reads numbers; use a kernel for that kind of "
            "object, or choose columns with k.on(...)"
        )
    columns = [_numeric_column(c, n, name, gaps) for n, c in zip(X.names, X.columns, strict=True)]
    dtype = np.float32 if all(c.dtype == np.float32 for c in columns) else np.float64
    return np.column_stack(columns).astype(dtype, copy=False)


def plain(X):
    """Rows as a user's function expects them: an array of numbers if all are numbers, else one column of objects, else the
    table itself."""
    if not isinstance(X, Table):
        return X
    if all(c.dtype.kind in "biuf" for c in X.columns):
        return numeric(X)
    return objects(X) if len(X.columns) == 1 else X


def _numeric_column(column, label, name, gaps=False):
    try:
        if column.dtype.kind in "mM":  # NumPy would take dates as nanoseconds without a word
            raise TypeError
        values = column if column.dtype == np.float32 else np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"column {label!r} of {name} is not numeric (it holds {type(column[0]).__name__}); choose the numeric columns "
            "with k.on(...), or use Categorical or a string kernel for this one"
        ) from None
    if values.ndim != 1:
        raise ValueError(f"column {label!r} of {name} holds arrays; expected one number a row")
    if np.isinf(values).any() or (not gaps and np.isnan(values).any()):
        raise ValueError(f"column {label!r} of {name} contains {'infinity' if gaps else 'NaN or infinity'}")
    return values


def categories(X, name="X"):
    """Float64 codes of category values, equal exactly where the values are; numbers stand for themselves."""
    if isinstance(X, Table):
        return np.column_stack([_category_codes(c) for c in X.columns])
    if isinstance(X, np.ndarray) and X.ndim == 1:
        return _category_codes(X)[:, None]
    return X.toarray() if sp.issparse(X) else X


def _category_codes(column):
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    # 53 bits of a keyed-less digest: the same value has the same code in every call, and no vocabulary is needed.
    values, inverse = np.unique(column.astype(str), return_inverse=True)
    return np.array([_code(v) for v in values], dtype=np.float64)[inverse]


def _code(text):
    from hashlib import blake2b

    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> 11


def n_rows(X) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)


def take(X, index):
    """Rows by index array, boolean mask or slice, in whatever form the rows are."""
    if isinstance(X, Table):
        return X.take(index)
    numbers = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
    many = numbers and getattr(index, "dtype", None) == np.intp and len(index) * X.shape[1] >= _MANY
    # Places that are none are refused by NumPy.
    return _gathered(X, index) if many and 0 <= index.min() <= index.max() < len(X) else X[index]


def _gathered(X, index):
    """X[index] by all threads: most of the time goes into fresh memory, and into rows that lie anywhere."""
    out, step = np.empty((len(index), X.shape[1]), X.dtype), part_rows(X.shape[1])

    def job(i):
        some = slice(i * step, (i + 1) * step)
        np.take(X, index[some], axis=0, out=out[some], mode="clip")  # "raise" would fill a copy of `out` first

    each_part(job, -(-len(index) // step), out.size)
    return out


# ---------------------------------------------------------------------------------------------- estimators
def double(X):
    """Float32 rows as float64, for expansions whose terms cancel: float32 kernel values have too few digits for them."""
    return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X


def training(estimator, X, y, weight, reads="vectors", columns=(), **checks):
    """Rows, targets and weights of a fit; sets `n_features_in_` and `feature_names_in_` as scikit-learn does.

    Rows of weight 0 are dropped. Returns (X, y, w, kept) with w None for equal weights and `kept` the rows that stayed.
    """
    X, y = _estimator_rows(estimator, X, y, reads, columns, reset=True, **checks)
    X = _settled(X)
    if hasattr(getattr(estimator, "kernel", None), "refuse"):
        estimator.kernel.refuse(X)
    w = sample_weight(weight, n_rows(X))
    if w is None:
        return X, y, None, np.arange(n_rows(X))
    kept = np.flatnonzero(w > 0)
    if len(kept) < len(w):
        X, y, w = take(X, kept), (None if y is None else y[kept]), w[kept]
    return X, y, w, kept


def owned(rows, given):
    """Rows that no later change of the caller's data reaches: copied where they share its memory."""
    if isinstance(rows, Table):
        return Table(rows.names, tuple(c.copy() for c in rows.columns))
    if sp.issparse(rows):
        shared = getattr(given, "format", None) == "csr" and np.may_share_memory(rows.data, given.data)
        return rows.copy() if shared else rows
    return rows.copy() if rows is given or rows.base is not None else rows


def _settled(rows):
    """The rows with copies of the objects that their owner may still change, such as arrays and lists."""
    if isinstance(rows, Table):
        return Table(rows.names, tuple(_settled(c) for c in rows.columns))
    if rows.dtype != object or not any(isinstance(value, _CHANGEABLE) for value in rows.ravel()):
        return rows
    out = rows.copy()
    for i, value in enumerate(rows):
        if isinstance(value, _CHANGEABLE):
            out[i] = deepcopy(value)
    return out


def merged(X, y, weight):
    """Rows, targets and weights with equal (x, y) rows made one, in order of first appearance, and the rows that stayed.

    Weighted and repeated data then are the same problem, also where a row is left out. Objects that have no hash differ.
    """
    w = np.ones(n_rows(X)) if weight is None else weight
    places: dict = {}
    group = [places.setdefault(key, len(places)) for key in zip(_row_keys(X), _row_keys(y), strict=True)]
    if len(places) == len(group):
        return X, y, weight, np.arange(len(group))
    index = np.unique(group, return_index=True)[1]
    return take(X, index), y[index], np.bincount(group, weights=w), index


def distinct(X):
    """Different rows of an array, in an order that depends on their content alone (sparse rows: on first appearance)."""
    if not sp.issparse(X):
        return np.unique(X, axis=0)
    return X[list({key: i for i, key in reversed(list(enumerate(_row_keys(X))))}.values())[::-1]]


def groups(X):
    """Where each different row first appears, and for every row which of these it equals. Objects that have no hash differ."""
    places: dict = {}
    group = np.array([places.setdefault(key, len(places)) for key in _row_keys(X)], dtype=np.intp)
    return np.unique(group, return_index=True)[1], group


def _row_keys(X):
    if isinstance(X, Table):
        return zip(*(_row_keys(c) for c in X.columns), strict=True)
    if sp.issparse(X):
        cuts = X.indptr[1:-1]
        parts = zip(np.split(X.indices, cuts), np.split(X.data, cuts), strict=True)
        return ((i.tobytes(), v.tobytes()) for i, v in parts)
    if X.dtype.kind in "biuf":
        return (x.tobytes() for x in X + 0)  # -0.0 and 0.0 are one value
    return (_hashable(x) for x in X)


def _hashable(x):
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        return x.shape, x.dtype.str, x.tobytes()
    try:
        hash(x)
    except TypeError:
        return id(x)
    return x


def prediction(estimator, X, reads="vectors", columns=()):
    """Rows of a predict, checked against what `training` saw."""
    return _estimator_rows(estimator, X, None, reads, columns, reset=False)[0]


DEVICE = "_device"  # attribute of estimators whose rows lay on a GPU


def device_of(estimator) -> str | None:
    """The GPU on which the rows of its fit lay."""
    return getattr(estimator, DEVICE, None)


def _gpu_of(X):
    return str(X.device) if is_tensor(X) and X.device.type != "cpu" else None


def at_rows(estimator, X):
    """The estimator, or a copy of it, where it will be while it fits these rows."""
    if _gpu_of(X) == device_of(estimator):
        return estimator
    there = copy(estimator)
    setattr(there, DEVICE, _gpu_of(X))
    return there


def _estimator_rows(estimator, X, y, reads, columns, reset, **checks):
    if reset and _gpu_of(X) != device_of(estimator):  # others have no such attribute
        setattr(estimator, DEVICE, _gpu_of(X))
    X, y = array_of(X), array_of(y, "y")
    if isinstance(X, dict) and not sp.issparse(X):
        rows(X, reads)  # raises with the hint
    _refuse_non_numbers(y, checks.get("y_numeric", False))
    as_vectors = reads in ("vectors", "gaps") or (reads == "any" and not _holds_objects(X))
    if as_vectors:
        _refuse_dates(X, "X")
        _refuse_strings(X, "X")
        options = {"accept_sparse": "csr", "dtype": FLOATS, "reset": reset}
        options["ensure_all_finite"] = _finite(reads == "gaps")
        if y is None and not checks:
            out = validate_data(estimator, X, **options)
            return _canonical_csr(out) if sp.issparse(out) else out, None
        out, y = validate_data(estimator, X, y, **options, **checks)
        return _canonical_csr(out) if sp.issparse(out) else out, y
    out = rows(X, reads, "X", columns)
    # scikit-learn takes the length of the first entry for the number of columns; objects have lengths of their own.
    columned = isinstance(out, Table) or out.ndim != 1 or _is_table(X) or getattr(X, "shape", ())[1:] == (1,)
    shown = X if columned else out
    validate_data(estimator, shown, "no_validation" if y is None else y, reset=reset, skip_check_array=True)
    if y is not None:
        y = check_array(y, ensure_2d=False, dtype="numeric" if checks.get("y_numeric") else None, input_name="y")
        check_consistent_length(out if not isinstance(out, Table) else out.columns[0], y)
    elif checks:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    return out, y


def _refuse_dates(values, name):
    found = getattr(values, "dtypes", getattr(values, "dtype", None))  # of a table, of a column or of an array
    if any(getattr(t, "kind", "") in ("m", "M") for t in (found if hasattr(found, "__iter__") else [found])):
        raise ValueError(f"{name} holds dates or durations; turn them into numbers, for example days since a day")


def _refuse_non_numbers(y, numeric):
    """What scikit-learn's door lets pass as a target and no estimator can use."""
    if sp.issparse(y):
        raise TypeError("y is a sparse matrix; pass y.toarray()")
    if not numeric:
        return
    _refuse_dates(y, "y")
    if getattr(getattr(y, "dtype", None), "kind", "") in ("U", "S"):
        raise ValueError(f"y holds strings such as {str(np.ravel(y)[0])!r}; expected numbers")


# ---------------------------------------------------------------------------------------------- weights, outputs, sizes
def sample_weight(weight, n) -> np.ndarray | None:
    """Non-negative finite float64 weights of length n, or None."""
    if weight is None:
        return None
    w = np.asarray(array_of(weight, "sample_weight"))
    if w.ndim == 0:
        w = np.full(n, float(w))
    if w.dtype.kind not in "biuf":
        raise ValueError(f"sample_weight must hold real numbers, got dtype {w.dtype}")
    w = w.astype(np.float64)
    if w.shape != (n,):
        raise ValueError(f"sample_weight.shape == {w.shape}, expected ({n},): one weight a row")
    if not np.isfinite(w).all():
        raise ValueError("sample_weight contains NaN or infinity")
    if (w < 0).any():
        raise ValueError(f"sample_weight has {int((w < 0).sum())} negative entries; weights must be >= 0")
    if not (w > 0).any():
        raise ValueError("sample_weight is zero for every row; at least one row must have a positive weight")
    low, high = w[w > 0].min(), w.max()
    if low < 1e-100 or high > 1e100:
        raise ValueError(f"sample_weight has entries from {low:.3g} to {high:.3g}; rescale them into 1e-100 ... 1e100")
    return w


def n_given(kept, weight) -> int:
    """How many rows were given, of which those without weight are not among the `kept`."""
    return max(len(kept), np.asarray(array_of(weight, "sample_weight")).size)


def canonical(X, y, weight):
    """Rows, targets and weights with zero weights dropped, equal (x, y) rows merged and the order fixed by content.

    Weighted and repeated data then are the same problem to the last bit. Rows of objects are merged where they have a hash, in
    order of first appearance. Returns (X, y, w, index): `index` are the original rows that stayed.
    """
    w = np.ones(n_rows(X)) if weight is None else weight
    kept = np.flatnonzero(w > 0)
    rows, targets = (X, y) if len(kept) == len(w) else (take(X, kept), y[kept])
    if isinstance(rows, Table) or getattr(rows, "ndim", 1) != 2:
        rows, targets, merged_weight, index = merged(rows, targets, w[kept])
        return rows, targets, merged_weight, kept[index]
    marks = np.stack([_content_hash(targets.reshape(len(kept), -1)), _content_hash(rows)])
    order, twins = _ordered(*marks)  # equal marks are equal rows, but for odd luck
    new = np.ones(len(order), dtype=bool)
    for i in np.split(twins, range(4096, len(twins), 4096)):
        a, b = order[i - 1], order[i]
        new[i] = _differ(rows, a, b) | _differ(targets.reshape(len(kept), -1), a, b)
    first = order[new] if len(twins) else order
    total = np.add.reduceat(w[kept][order], np.flatnonzero(new)) if len(twins) else w[kept][order]
    return take(rows, first), targets[first], total, kept[first]


def _ordered(second, first):
    """Order by `first`, of equal ones by `second`, as lexsort has it, and the places in it that repeat the one before.

    Few are equal: one sort of numbers, and another of those.
    """
    order = np.argsort(first)
    same = first[order[1:]] == first[order[:-1]]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    some = order[tied]
    order[tied] = some[np.lexsort((some, second[some], first[some]))]
    after = np.flatnonzero(same) + 1
    return order, after[second[order[after]] == second[order[after - 1]]]


def _differ(rows, a, b):
    """Whether rows a[i] and b[i] are different."""
    if sp.issparse(rows):
        return np.diff((rows[a] != rows[b]).tocsr().indptr) > 0
    return (rows[a] != rows[b]).any(axis=1)


def _content_hash(X):
    """A 64-bit number of the content of each row, the same for equal rows however they are stored; 0 and -0 are equal."""
    if sp.issparse(X):
        marks = _mixed(X.data, X.indices)
        out = np.zeros(X.shape[0], np.uint64)
        filled = np.flatnonzero(np.diff(X.indptr))
        if len(filled):
            out[filled] = np.add.reduceat(marks, X.indptr[filled])
        return out
    columns, step = np.arange(X.shape[1]), part_rows(X.shape[1])
    out = np.empty(len(X), np.uint64)

    def job(i):
        some = slice(i * step, (i + 1) * step)
        out[some] = _mixed(X[some], columns).sum(axis=1, dtype=np.uint64)

    each_part(job, -(-len(X) // step), X.size)
    return out


def _mixed(values, columns):
    """Well-mixed 64-bit marks of numbers in columns; zeros have the mark 0, so that sparse and dense rows agree."""
    values = values.astype(np.float64)
    bits = values.view(np.uint64)
    with np.errstate(over="ignore"):
        seeds = (columns.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(32)) ^ seeds) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(32)
    return np.where(values != 0.0, bits, np.uint64(0))


def kernel_output(values, shape, who: str, dtype=np.float64) -> np.ndarray:
    """What a user's function returned, as a finite float array of the expected shape, or an error naming the function."""
    values = np.asarray(values)
    if values.shape != tuple(shape):
        raise KernelOutputError(f"{who} returned shape {values.shape}, expected {tuple(shape)}")
    if values.dtype.kind not in "biuf":
        raise KernelOutputError(f"{who} returned dtype {values.dtype}, expected real numbers")
    values = values.astype(dtype, copy=False)
    if not np.isfinite(values).all():
        raise KernelOutputError(f"{who} returned NaN or infinity in {int((~np.isfinite(values)).sum())} entries")
    return values


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def memory_bytes(memory: Any) -> int | None:
    """Bytes of a budget such as "2GB", "512MiB" or a number; None stays None.

    >>> memory_bytes("2GB")
    2000000000
    """
    if memory is None:
        return None
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?I?)B?\s*", memory.upper())
        if not match:
            raise ValueError(f'memory={memory!r} is not a size; write for example memory="2GB" or a number of bytes')
        memory = float(match[1]) * _UNITS[match[2]]
    if isinstance(memory, bool) or not isinstance(memory, (int, float, np.number)) or not memory > 0:
        raise ValueError(f"memory={memory!r} must be a positive number of bytes or a size such as '2GB'")
    return int(memory)

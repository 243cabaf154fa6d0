"""Files of data as tables: csv, tsv, parquet, libsvm and npz, plain or (the text ones) gzipped. Nothing in a file is run."""

import codecs
import csv
import gzip
import math
import os
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.cli.words import listed, shown
from mercer.errors import TableError
from mercer.gram.plan import budget, human_bytes

__all__ = ["FORMATS", "Sheet", "read_sheet", "read_sheets"]

FORMATS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz",
           ".libsvm": "libsvm", ".svm": "libsvm", ".svmlight": "libsvm"}  # fmt: skip
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "."))  # in lower case
FIELD = 10**7  # characters of one field
INDEX = 10**7  # columns of a sparse file: more are a mistake in the file, or hashes that need fewer bits
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, RuntimeError, NotImplementedError)


@dataclass(frozen=True)
class Sheet:
    """Columns by name: numbers with NaN where one is missing, or texts (objects) with None. A sparse file has a matrix besides.

    mixed : columns of texts in which some values are numbers: {name: (numbers, texts, line of the first text, that text)}.
    """

    columns: dict[str, np.ndarray]
    matrix: Any = None
    mixed: dict[str, tuple] = field(default_factory=dict)

    def __len__(self):
        return self.matrix.shape[0] if self.matrix is not None else len(next(iter(self.columns.values())))

    def take(self, index) -> "Sheet":
        matrix = None if self.matrix is None else self.matrix[index]
        return Sheet({name: column[index] for name, column in self.columns.items()}, matrix, self.mixed)

    def as_text(self, name) -> np.ndarray:
        """A column as texts, numbers written as short as they can be."""
        column = self.columns[name]
        return column if column.dtype == object else _objects([written(v) for v in column.tolist()])


def written(value: float) -> str | None:
    """A number as text: whole ones without a point; None for a missing one."""
    if math.isnan(value):
        return None
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def read_sheet(path, *, header: bool = True, missing: Iterable[str] = ()) -> Sheet:
    """All rows of a file; of an npz with a test part those to train on."""
    return read_sheets(path, header=header, missing=missing)[0]


def read_sheets(path, *, header: bool = True, missing: Iterable[str] = (), targets=True) -> tuple[Sheet, Sheet | None]:
    """The rows to train on, and those to test on if the file has such (npz with X_train and X_test).

    header : whether the first line of text has names. missing : words that stand for a missing value, besides the usual ones.
    targets : whether an npz must have some.
    """
    path = Path(path)
    kind = _format(path)
    try:
        _check_file(path)
        if kind == "npz":
            return _read_npz(path, targets)
        if kind == "parquet":
            return _read_parquet(path), None
        if kind == "libsvm":
            return _read_libsvm(path), None
        words = MISSING | {w.lower() for w in missing}
        return _read_delimited(path, "\t" if kind == "tsv" else None, header, words), None
    except TableError as error:
        raise TableError(f"{shown(str(path))}: {error}") from error.__cause__


def _format(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes = suffixes[:-1]
    kind = FORMATS.get(suffixes[-1]) if suffixes else None
    if kind is None or (path.suffix.lower() == ".gz" and kind in ("npz", "parquet")):
        known = ", ".join(FORMATS)
        raise TableError(f"{shown(str(path))}: the kind of file is told by its name, which should end in one of {known} "
                         "(.gz after those of text)")  # fmt: skip
    return kind


def _check_file(path):
    if not path.exists():
        near = (
            [p.name for p in path.parent.glob("*") if p.name.lower() == path.name.lower()]
            if path.parent.is_dir()
            else []
        )
        raise TableError("there is no such file" + (f"; did you mean {shown(near[0])}?" if near else ""))
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise TableError("this is a folder, pipe or device; give the name of an ordinary file")
    if path.stat().st_size == 0:
        raise TableError("the file is empty")


# ------------------------------------------------------------------------------------------------ text
def _lines(path) -> Iterator[str]:
    """Lines of a text file, refused if it is not UTF-8 text of a size that fits the memory."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    limit, total, number = budget(None) // 8, 0, 0
    try:
        with opened(path, "rb") as file:
            for number, line in enumerate(file, 1):
                total += len(line)
                if number == 1 and line.startswith(_UTF16):
                    raise TableError("this is UTF-16 text; save it as UTF-8")
                if b"\0" in line:
                    raise TableError(f"line {number} holds a NUL byte, so this is no text; save it as UTF-8")
                if total > limit:
                    raise TableError(f"more than {human_bytes(limit)} of text, which would not fit the memory as a table; "
                                     "use npz, or fewer rows")  # fmt: skip
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"line {number} is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"the gzip file is damaged ({error}); take another copy") from error


def _read_delimited(path, delimiter, header, words) -> Sheet:
    lines = _lines(path)
    first = next(lines, "")
    delimiter = delimiter or _delimiter(first)
    quoted = delimiter != "\t"  # texts after a tab hold quotes of their own
    quoting: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    csv.field_size_limit(FIELD)
    reader = csv.reader(_again(first, lines), delimiter=delimiter, quoting=quoting, strict=quoted)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise TableError(f"line {reader.line_num}: {error}; mend the quotes, or save it as tsv") from error
    if not rows:
        raise TableError("the file has no rows")
    names = _header(rows.pop(0)[1]) if header else [str(j) for j in range(len(rows[0][1]))]
    _check_ragged(rows, len(names))
    if not rows:
        raise TableError(
            "the file has a header but no rows; was the first row taken for a header? then use --no-header"
        )
    return _typed(names, zip(*(row for _, row in rows), strict=True), [n for n, _ in rows], words)


def _again(first, lines):
    yield first
    yield from lines


def _delimiter(line):
    """The one of comma, semicolon and tab that stands most often in the first line."""
    return max(",;\t", key=line.count)


def _header(names):
    names = [name.strip() for name in names]
    for j, name in enumerate(names):
        if not name:
            raise TableError(f"column {j + 1} has no name in the header; name it, or use --no-header")
        if name in names[:j]:
            raise TableError(f'two columns are named "{shown(name)}"; rename one')
    return names


def _check_ragged(rows, width):
    for line, row in rows:
        if len(row) != width:
            raise TableError(f"line {line} has {len(row)} fields, the first line has {width}; mend that line")


def _typed(names, columns, lines, words) -> Sheet:
    out, mixed = {}, {}
    for name, values in zip(names, columns, strict=True):
        out[name], found = _column(name, [v.strip() for v in values], lines, words)
        if found is not None:
            mixed[name] = found
    return Sheet(out, None, mixed)


def _column(name, values, lines, words):
    """Numbers where every value is one, else texts; and what stood where, if some were numbers and some not."""
    texts: list[Any] = [None if v.lower() in words else v for v in values]
    numbers = [None if v is None else _number(v) for v in texts]
    strange = [i for i, (v, x) in enumerate(zip(texts, numbers, strict=True)) if v is not None and x is None]
    if not strange:
        for i, x in enumerate(numbers):
            if x is not None and math.isinf(x):
                raise TableError(f'line {lines[i]}, column "{shown(name)}": {shown(values[i])} is no finite number; mend or '
                                 "remove that row")  # fmt: skip
        return np.array([math.nan if x is None else x for x in numbers]), None
    count = sum(x is not None for x in numbers)
    found = (count, len(strange), lines[strange[0]], texts[strange[0]]) if count else None
    return _objects(texts), found


def _number(text: str) -> float | None:
    """float() without what no table means by a number: underscores and foreign digits. Infinite for 1e999."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _objects(values) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


# ------------------------------------------------------------------------------------------------ libsvm
def _read_libsvm(path) -> Sheet:
    labels, data, indices, ends = [], [], [], [0]
    for number, line in enumerate(_lines(path), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            labels.append(_finite(words[0]))
            pairs = [_pair(word) for word in words[1:]]
            _check_increasing([j for j, _ in pairs])
        except TableError as error:
            raise TableError(f"line {number}: {error}") from None
        indices += [j for j, _ in pairs]
        data += [v for _, v in pairs]
        ends.append(len(data))
    if not labels:
        raise TableError("the file has no rows")
    base = 0 if indices and min(indices) == 0 else 1
    width = max(indices, default=0) + 1 - base
    parts = (np.array(data, float), np.array(indices, np.int64) - base, np.array(ends))
    return Sheet({"y": np.array(labels)}, sp.csr_array(parts, shape=(len(labels), max(width, 1))))


def _pair(word):
    index, colon, value = word.partition(":")
    if not colon or not index.isascii() or not index.isdigit():
        raise TableError(f"{shown(word)} is not index:value with a whole number from 0 on in front")
    if len(index) > 18 or int(index) > INDEX:
        raise TableError(f"the index {shown(index)} is beyond {INDEX} columns; hash to fewer")
    return int(index), _finite(value)


def _finite(word):
    value = _number(word)
    if value is None or not math.isfinite(value):
        raise TableError(f"{shown(word)} is no finite number")
    return value


def _check_increasing(indices):
    for a, b in pairwise(indices):
        if b <= a:
            raise TableError(f"the index {b} comes after {a}; indices increase within a row")


# ------------------------------------------------------------------------------------------------ parquet
def _read_parquet(path) -> Sheet:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise TableError("parquet files are read by pyarrow; pip install pyarrow") from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(f"no parquet file, or a damaged one ({shown(str(error))})") from error
    if table.num_rows == 0 or table.num_columns == 0:
        raise TableError("the file has no rows or no columns")
    names = _header(table.column_names)
    return Sheet({name: _arrow_column(pa, name, table.column(j)) for j, name in enumerate(names)})


def _arrow_column(pa, name, column):
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        return _finite_column(np.array([math.nan if v is None else float(v) for v in column.to_pylist()]), name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _objects(column.to_pylist())
    raise TableError(
        f'the column "{shown(name)}" holds {kind}; make numbers or text of it, or leave it out with --drop'
    )


def _finite_column(values, name):
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise TableError(
            f'row {row + 1}, column "{shown(name)}": {values[row]} is no finite number; mend or remove that row'
        )
    return values


# ------------------------------------------------------------------------------------------------ npz
def _read_npz(path, targets) -> tuple[Sheet, Sheet | None]:
    try:
        _check_npz(path)
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except TableError:
        raise
    except _DAMAGE as error:
        raise TableError(f"no npz file of plain arrays, or a damaged one ({shown(str(error))[:200]})") from error
    if not any(name.endswith("_train") for name in arrays):
        return _npz_sheet(arrays, "", targets), None
    test = _npz_sheet(arrays, "_test", targets) if any(name.endswith("_test") for name in arrays) else None
    return _npz_sheet(arrays, "_train", targets), test


def _check_npz(path):
    """Sizes that the arrays claim, compared with what is there and with the memory, before any is read."""
    total = 0
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as member:
                shape, _, dtype = _npy_header(member)
                size = math.prod(shape) * dtype.itemsize
                if dtype.hasobject:
                    raise TableError(f"{shown(entry.filename)} holds Python objects, which are a pickle and could run code; "
                                     "save plain numbers or texts (dtype U)")  # fmt: skip
                if size > entry.file_size:
                    raise TableError(
                        f"{shown(entry.filename)} claims {human_bytes(size)} and has less; take another copy"
                    )
            total += size
    if total > budget(None):
        raise TableError(f"it holds {human_bytes(total)}, more than the memory budget {human_bytes(budget(None))}")


def _npy_header(member):
    version = np.lib.format.read_magic(member)
    if version[0] == 1:
        return np.lib.format.read_array_header_1_0(member)
    return np.lib.format.read_array_header_2_0(member)


def _npz_sheet(arrays, suffix, targets) -> Sheet:
    known = targets or "y" + suffix in arrays
    y = {"y": _npz_target(arrays, suffix)} if known else {}
    if "indptr" + suffix in arrays:
        matrix = _npz_sparse(arrays, suffix)
        _same_length(matrix.shape[0], y)
        return Sheet(y, matrix)
    X = arrays.get("X" + suffix, arrays.get("data"))
    if X is None or X.ndim not in (1, 2) or X.dtype.kind not in "biufU":
        has = listed(f"{name} {a.shape}" for name, a in arrays.items())
        raise TableError(f"expected X{suffix}, one row of numbers or texts for each of y{suffix}; it has {has}")
    X = X[:, None] if X.ndim == 1 else X
    _same_length(len(X), y)
    names = _npz_names(arrays, X.shape[1])
    return Sheet({name: _npz_column(X[:, j], name) for j, name in enumerate(names)} | y)


def _same_length(rows, targets):
    if any(len(y) != rows for y in targets.values()):
        raise TableError(f"{rows} rows and {len(targets['y'])} targets")
    if rows == 0:
        raise TableError("the file has no rows")


def _npz_column(values, name):
    if values.dtype.kind == "U":
        return _objects([v if v else None for v in values.tolist()])
    return _finite_column(values.astype(float), name)


def _npz_target(arrays, suffix):
    y = next((arrays[name] for name in ("y" + suffix, "y", "target") if name in arrays), None)
    if y is None:
        raise TableError(f"expected an array y{suffix} of targets; it has {listed(arrays)}")
    if y.ndim != 1 or y.dtype.kind not in "biufU":
        raise TableError(
            f"y{suffix} has the shape {y.shape} and type {y.dtype}; expected one number or text for each row"
        )
    classes = arrays.get("classes")
    named = classes is not None and classes.dtype.kind == "U" and y.dtype.kind in "iu" and classes.ndim == 1
    if named and y.size and 0 <= y.min() and y.max() < len(classes):
        return _objects(classes[y].tolist())
    return _npz_column(y, "y" + suffix)


def _npz_names(arrays, d) -> Sequence[str]:
    for key in ("features", "columns", "feature_names"):
        names = arrays.get(key)
        if (
            names is not None
            and names.dtype.kind == "U"
            and names.shape == (d,)
            and len(set(names.tolist()) - {"y"}) == d
        ):
            return names.tolist()
    return [f"x{j}" for j in range(d)]


def _npz_sparse(arrays, suffix):
    indices, indptr = arrays.get("indices" + suffix), arrays["indptr" + suffix]
    shape = arrays.get("shape" + suffix, arrays.get("shape"))
    if (
        indices is None
        or shape is None
        or shape.shape != (2,)
        or any(a.dtype.kind not in "iu" for a in (indices, indptr, shape))
    ):
        raise TableError(f"a sparse matrix needs data, indices, indptr and shape{suffix}")
    data = arrays.get("data" + suffix, np.ones(len(indices)))
    if int(shape[1]) > INDEX:
        raise TableError(f"{int(shape[1])} columns; at most {INDEX} are read")
    X = sp.csr_array(
        (data.astype(float), indices.astype(np.int64), indptr.astype(np.int64)), shape=tuple(map(int, shape))
    )
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise TableError(f"the parts of its sparse matrix do not fit together ({error})") from error
    if not np.isfinite(X.data).all():
        raise TableError("its sparse matrix holds entries that are no finite numbers")
    X.sum_duplicates()
    return X

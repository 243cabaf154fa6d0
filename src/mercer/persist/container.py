"""The one kind of file mercer writes: a zip with `manifest.json` and one `.npy` for each array.

Nothing in a file is ever run or unpacked to disk. What a file says about sizes is compared with what is there before memory
is taken for it, so that any bytes are read as what was once written, or refused.
"""

import hashlib
import io
import json
import math
import os
import re
import reprlib
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mercer.errors import ModelFileError
from mercer.gram.plan import human_bytes
from mercer.persist.atomic import replacing
from mercer.persist.trees import INT_BITS, check_tree
from mercer.validate import memory_bytes

__all__ = ["FORMAT_VERSION", "Container", "naming", "opened", "read", "write"]

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MANIFEST_BYTES = 4 * 10**6  # a tree of this many bytes of JSON can take 30 times as many in memory
BRACKETS = 200_000  # dicts and lists, which take the longest to make
MEMBERS = 10_000
DIRECTORY_BYTES = 3 * 10**6  # room for so many members with the longest names
RATIO = 100  # of inflated to stored bytes; honest numbers stay far below
DIMENSIONS = 64  # NumPy's own limit
PIECE = 2**20  # bytes handled at a time
NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,200}")
KIND = re.compile(r"[a-z][a-z0-9-]{0,39}")
DTYPE = re.compile(r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<U[1-9][0-9]{0,7}|\|S[1-9][0-9]{0,7}")
DTYPES_IN_WORDS = "bool, int8 to int64, uint8 to uint64, float16 to float64, or fixed-width text (U) or bytes (S)"
KEYS = {"format", "format_version", "kind", "content", "arrays"}

# What zipfile, zlib and json raise on bytes that nobody wrote; ValueError and RuntimeError have many children.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    RuntimeError,
    ArithmeticError,
    LookupError,
)


@dataclass(frozen=True, eq=False)
class Container:
    """What a file holds: its kind, a tree of plain values, arrays by name."""

    kind: str
    content: dict
    arrays: dict[str, np.ndarray]
    format_version: int


class Stored(NamedTuple):
    """How an array lies in the file."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def header(self) -> bytes:
        """Start of the `.npy`. Written here, for NumPy's padding differs between releases."""
        text = repr({"descr": self.dtype, "fortran_order": False, "shape": self.shape})
        text += " " * (-(len(text) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("ascii")


# ------------------------------------------------------------------------------------------------ writing
def write(path: str | os.PathLike, kind: str, content: dict, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file in one step; on any error an earlier file is unharmed.

    Parameters
    ----------
    path : str or Path
        Its folder must exist. A symbolic link is replaced, not what it points to.
    kind : str
        What the file is, such as "checkpoint" or "model"; `read` can ask for it.
    content : dict
        Dicts with string keys, lists, strings, booleans, None, finite floats and integers of at most 1024 bits.
    arrays : mapping of names to arrays
        Of booleans, integers, floats up to 64 bits, or fixed-width text or bytes. They come back in C order and native bytes.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers.mercer"
    >>> write(path, "checkpoint", {"step": 3}, {"x": np.eye(2)})
    >>> read(path, "checkpoint").content
    {'step': 3}
    """
    path, arrays = Path(path), dict(arrays)
    with naming(path):
        _check_kind(kind)
        _check_content(content)
        stored = _stored_all(arrays)
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            sums = {name: _write_array(archive, name, arrays[name], how) for name, how in stored.items()}
            archive.writestr(_entry(MANIFEST), _manifest_bytes(kind, content, stored, sums))


def _check_kind(kind):
    if type(kind) is not str or not KIND.fullmatch(kind):
        raise ModelFileError(f"kind is {reprlib.repr(kind)}; expected a short lower-case word such as 'model'")


def _check_content(content):
    if type(content) is not dict:
        raise ModelFileError(f"content is a {type(content).__name__}; expected a dict")
    check_tree(content)


def _stored_all(arrays):
    if len(arrays) >= MEMBERS:
        raise ModelFileError(f"{len(arrays)} arrays; a file holds fewer than {MEMBERS}. Join small ones into one")
    return {name: _stored(name, array) for name, array in arrays.items()}


def _stored(name, array):
    if type(name) is not str or not NAME.fullmatch(name):
        raise ModelFileError(
            f"an array is named {reprlib.repr(name)}; expected 1 to 200 of A-Z a-z 0-9 _ . - and no dot in front"
        )
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise ModelFileError(f"{name} is a {type(array).__name__}; expected a NumPy array without a mask")
    dtype = array.dtype.newbyteorder("<").str
    if not DTYPE.fullmatch(dtype) or array.dtype.names:
        raise ModelFileError(f"{name} has dtype {array.dtype}; expected {DTYPES_IN_WORDS}")
    return Stored(dtype, tuple(map(int, array.shape)))


def _entry(name, size=0):
    """The same bytes on every machine and day: a fixed date, no compression, whose result depends on the zlib at hand."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.create_system, entry.external_attr, entry.file_size = 3, 0o644 << 16, size
    return entry


def _write_array(archive, name, array, how):
    """Write an array piece by piece in C order; return its check sum."""
    digest = hashlib.sha256()
    pieces = np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_dtypes=[how.dtype],
        order="C",
        casting="equiv",
        buffersize=max(1, PIECE // array.dtype.itemsize),
    )
    with archive.open(_entry(f"{name}.npy", len(how.header) + how.size), "w") as member:
        member.write(how.header)
        for piece in pieces:
            data = piece.tobytes()
            _check_values(name, np.frombuffer(data, how.dtype))
            digest.update(data)
            member.write(data)
    return digest.hexdigest()


def _manifest_bytes(kind, content, stored, sums):
    table = {
        name: {"dtype": how.dtype, "shape": list(how.shape), "bytes": how.size, "sha256": sums[name]}
        for name, how in stored.items()
    }
    manifest = {"format": "mercer", "format_version": FORMAT_VERSION, "kind": kind, "content": content, "arrays": table}
    text = json.dumps(manifest, allow_nan=False, separators=(",", ":"))
    _check_length(text)
    return text.encode("ascii")


def _check_length(text):
    brackets = text.count("[") + text.count("{")
    if len(text) > MANIFEST_BYTES or brackets > BRACKETS:
        raise ModelFileError(
            f"the content takes {human_bytes(len(text))} and {brackets} brackets as JSON, at most "
            f"{human_bytes(MANIFEST_BYTES)} and {BRACKETS} are allowed; long lists belong into arrays"
        )


# ------------------------------------------------------------------------------------------------ reading
def read(path: str | os.PathLike, kind: str | None = None, *, memory: int | str | None = "2GB") -> Container:
    """Read a file that :func:`write` has written; any other bytes raise ModelFileError.

    Parameters
    ----------
    path : str or Path
        An ordinary file, or a symbolic link to one.
    kind : str, optional
        The kind that is wanted; another one is refused.
    memory : int, str or None
        The most bytes the contents may take, refused before they are read; None for no such limit.

    Returns
    -------
    Container with `kind`, `content`, `arrays` (writable, C order, native bytes) and `format_version`.
    """
    path, limit = Path(path), memory_bytes(memory)
    with naming(path), opened(path) as file:
        size = _checked_size(file)
        try:
            with zipfile.ZipFile(file) as archive:
                return _container(archive, size, kind, limit)
        except ModelFileError:
            raise
        except DAMAGE as error:
            raise ModelFileError(
                f"expected a mercer file, but it is damaged or something else ({str(error)[:200]}); take another copy"
            ) from error


@contextmanager
def naming(path):
    """Errors of the file begin with its name."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__


class _Bounded(io.BufferedReader):
    """A file that is not read in large pieces: zipfile asks for a whole directory, however long it says it is."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:  # the end record, with 64 kB of comment at most
            size = DIRECTORY_BYTES
        if size > DIRECTORY_BYTES:
            raise ModelFileError(
                f"its directory takes {human_bytes(size)}, expected at most {human_bytes(DIRECTORY_BYTES)}; "
                "mercer writes no such file"
            )
        return super().read(size)


def opened(path):
    """An ordinary file, open for reading."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ModelFileError("expected an ordinary file, this is a folder, pipe or device; give the name of a file")
    # Not blocking, in case a pipe has taken its place since.
    return _Bounded(io.FileIO(path, "r", opener=lambda p, flags: os.open(p, flags | getattr(os, "O_NONBLOCK", 0))))


def _checked_size(file):
    start, size = file.read(4), file.seek(0, os.SEEK_END)
    if start != b"PK\x03\x04":
        what = "is empty" if size == 0 else f"begins with {start!r}"
        raise ModelFileError(
            f"expected a mercer file (a zip beginning with PK), this one {what}; was it written by mercer?"
        )
    return size


def _container(archive, size, kind, limit):
    entries = _checked_entries(archive.infolist(), size, limit)
    manifest = _checked_manifest(_text(archive, entries.pop(MANIFEST, None)), kind)
    table, content = manifest["arrays"], manifest["content"]
    if type(table) is not dict or {f"{name}.npy" for name in table} != set(entries):
        raise ModelFileError("the arrays in the file are not those its manifest names; take another copy")
    members = {name: entries[f"{name}.npy"] for name in table}
    stored = {name: _checked_row(name, row, members[name].file_size) for name, row in table.items()}
    arrays = {name: _read_array(archive, name, members[name], stored[name], table[name]["sha256"]) for name in table}
    return Container(manifest["kind"], content, arrays, manifest["format_version"])


# ------------------------------------------------------------------------------------------------ the directory
def _checked_entries(entries, size, limit):
    """{name: entry} of a directory that promises nothing it cannot hold, and not more than is allowed."""
    if len(entries) > MEMBERS:
        raise ModelFileError(f"{len(entries)} members, expected at most {MEMBERS}; mercer writes no such file")
    for entry in entries:
        _check_entry(entry, size)
    by_name = {entry.orig_filename: entry for entry in entries}
    if len(by_name) < len(entries):
        raise ModelFileError("two members have the same name; mercer writes no such file")
    total = sum(entry.file_size for entry in entries)
    if total > RATIO * size:
        raise ModelFileError(f"{human_bytes(size)} would inflate to {human_bytes(total)}; mercer writes no such file")
    if limit is not None and total > limit:
        raise ModelFileError(
            f"it holds {human_bytes(total)}, at most {human_bytes(limit)} are allowed; if you trust it, "
            f'read it with memory="{math.ceil(total / 1e9)}GB"'
        )
    return by_name


def _check_entry(entry, size):
    name = entry.orig_filename  # as stored: zipfile cuts `filename` at a NUL
    if name != MANIFEST and not (name.endswith(".npy") and NAME.fullmatch(name[:-4])):
        raise ModelFileError(f"a member is named {reprlib.repr(name)}; mercer writes no such name")
    if entry.flag_bits & 1:
        raise ModelFileError(f"{name} is encrypted; mercer writes no such file, decrypt it with the tool that made it")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelFileError(f"{name} is compressed by method {entry.compress_type}, expected stored or deflated")
    if not 0 <= entry.header_offset <= size - entry.compress_size:
        raise ModelFileError(f"{name} lies outside the file, which seems cut short; take another copy")
    stored = entry.compress_type == zipfile.ZIP_STORED
    if entry.file_size > (1 if stored else RATIO) * entry.compress_size:
        raise ModelFileError(
            f"{name} would inflate from {human_bytes(entry.compress_size)} to {human_bytes(entry.file_size)}; "
            "mercer writes no such file"
        )


# ------------------------------------------------------------------------------------------------ the manifest
def _text(archive, entry):
    if entry is None:
        raise ModelFileError(f"a zip without {MANIFEST}, so no mercer file; was it written by mercer?")
    if entry.file_size > MANIFEST_BYTES:
        raise ModelFileError(
            f"{MANIFEST} has {human_bytes(entry.file_size)}, expected at most {human_bytes(MANIFEST_BYTES)}; "
            "mercer writes no such file"
        )
    with archive.open(entry) as member:
        data = b"".join(iter(lambda: member.read(PIECE), b""))
    return data.decode("ascii")  # not left to json, which guesses UTF-16 and others


def _checked_manifest(text, kind):
    _check_length(text)
    manifest = json.loads(text, object_pairs_hook=_dict, parse_int=_int, parse_constant=_no_constant)
    if type(manifest) is not dict or manifest.get("format") != "mercer":
        raise ModelFileError(f'{MANIFEST} does not say "format": "mercer"; was it written by mercer?')
    _check_version(manifest.get("format_version"))
    if set(manifest) != KEYS:
        raise ModelFileError(f"{MANIFEST} has the keys {reprlib.repr(sorted(manifest))}, expected {sorted(KEYS)}")
    _check_kind(manifest["kind"])
    if kind is not None and manifest["kind"] != kind:
        raise ModelFileError(f"expected a {kind}, this is a {manifest['kind']}; give another file")
    _check_content(manifest["content"])
    return manifest


def _check_version(version):
    if type(version) is not int or version < 1:
        raise ModelFileError(
            f"format_version is {reprlib.repr(version)}, expected an integer from 1 to {FORMAT_VERSION}"
        )
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"made by a newer mercer: format_version is {reprlib.repr(version)}, this mercer reads up to {FORMAT_VERSION}; "
            "update mercer (pip install --upgrade mercer)"
        )


def _dict(pairs):
    made = dict(pairs)
    if len(made) < len(pairs):  # readers differ in which one they take
        raise ModelFileError(f"{MANIFEST} has a key twice; mercer writes no such file")
    return made


def _int(digits):
    if len(digits) > INT_BITS // 3:  # parsing takes quadratic time
        raise ModelFileError(f"{MANIFEST} has a number of {len(digits)} digits; mercer writes no such file")
    return int(digits)


def _no_constant(word):
    raise ModelFileError(f"{MANIFEST} has {word}, which is not JSON; mercer writes no such file")


# ------------------------------------------------------------------------------------------------ one array
def _checked_row(name, row, size):
    """How an array lies in the file, if its row in the manifest agrees with the size of the member."""
    if type(row) is not dict or set(row) != {"dtype", "shape", "bytes", "sha256"}:
        raise ModelFileError(f"the manifest describes {name} by {reprlib.repr(row)}; take another copy")
    dtype, shape = row["dtype"], row["shape"]
    if type(dtype) is not str or not DTYPE.fullmatch(dtype):
        raise ModelFileError(f"{name} has dtype {reprlib.repr(dtype)}; expected {DTYPES_IN_WORDS}")
    if type(shape) is not list or len(shape) > DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise ModelFileError(f"{name} has the shape {reprlib.repr(shape)}; expected at most {DIMENSIONS} sizes")
    stored = Stored(dtype, tuple(shape))
    if row["bytes"] != stored.size or size != len(stored.header) + stored.size:
        raise ModelFileError(
            f"{name} has {size} bytes, which is not what {dtype} and its shape need; take another copy"
        )
    return stored


def _read_array(archive, name, entry, how, digest):
    array = np.empty(how.shape, how.dtype)
    with archive.open(entry) as member:
        if member.read(len(how.header)) != how.header:
            raise ModelFileError(f"the header of {name} differs from the manifest; take another copy")
        if _fill(array.reshape(-1).view(np.uint8), member) != digest:
            raise ModelFileError(f"{name} does not have the check sum of the manifest; take another copy")
    _check_values(name, array.reshape(-1))
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _fill(target, member):
    """Read exactly the bytes of an array into their place; return their check sum."""
    digest = hashlib.sha256()
    for start in range(0, len(target), PIECE):
        place = target[start : start + PIECE]
        piece = member.read(len(place))
        place[:] = np.frombuffer(piece, np.uint8)  # of another length: a ValueError
        digest.update(piece)
    return digest.hexdigest()


def _check_values(name, flat):
    """Booleans other than 0 and 1 and characters beyond Unicode would fail only later, wherever they are used."""
    if flat.size == 0:
        return
    if flat.dtype.kind == "b" and flat.view(np.uint8).max() > 1:
        raise ModelFileError(f"{name} has booleans that are neither 0 nor 1")
    if flat.dtype.kind == "U" and flat.view("<u4").max() > 0x10FFFF:
        raise ModelFileError(f"{name} has characters beyond Unicode")

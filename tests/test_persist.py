"""The file container: what is written comes back, and any other bytes are refused at once (F36, F37, F60-F62, F65, F71).

Deadlines are ten times what is promised. Work that may crash, or that is limited, runs in a process of its own.
"""

import contextlib
import errno
import getpass
import hashlib
import io
import json
import os
import pickle
import re
import socket
import stat
import struct
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mercer import persist
from mercer.errors import MercerError, ModelFileError
from mercer.persist import atomic, container, flatten, read, unflatten, write
from mercer.persist.container import Stored

posix = pytest.mark.skipif(os.name != "posix", reason="pipes, links and permissions as in POSIX")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, limits the address space")

GOLDEN = Path(__file__).parent / "data" / "golden_v1.mercer"
CONTENT = {"step": 7, "name": "x", "parts": [1.5, None, True, {"deep": []}]}
ARRAYS = {"x": np.arange(6.0).reshape(2, 3), "labels": np.array(["a", "bc"]), "flag": np.array([True, False])}


def run(code, *arguments, timeout=50):
    """Output of a fresh interpreter; its error output is part of the failure."""
    settings = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def same(one, other):
    """Equal trees, down to types, bits and the order of keys."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


def refusal(path, **options):
    """The message with which a file is refused, in time."""
    start = time.perf_counter()
    with pytest.raises(ModelFileError) as caught:
        read(path, **options)
    assert time.perf_counter() - start < 10
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message) < 1000
    return message


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.mercer"


@pytest.fixture
def good(path):
    write(path, "model", CONTENT, ARRAYS)
    return path


def contents(path):
    """{name: bytes} of a zip."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# ------------------------------------------------------------------------------------------------ round trips
DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 U1 U7 S1 S9".split()
SHAPES = [(), (0,), (1,), (5,), (0, 3), (3, 0), (2, 3, 4), (1,) * 64]


def numbers(dtype, shape):
    bits = np.random.default_rng(0).integers(0, 100, shape)
    return np.asarray(bits % 2 == 0 if dtype == "?" else bits).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{len(s)}d-{np.prod(s, dtype=int)}")
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_of_array_comes_back(path, dtype, shape):
    array = numbers(dtype, shape)
    write(path, "model", {}, {"a": array})
    back = read(path).arrays["a"]
    assert same(back, array)
    assert back.flags.writeable
    assert back.flags.c_contiguous
    assert back.flags.owndata


def layouts():
    base = np.arange(60.0).reshape(5, 12)
    locked = base.copy()
    locked.flags.writeable = False
    return {
        "fortran": np.asfortranarray(base),
        "strided": base[::2, 1::3],
        "backwards": base[::-1, ::-1],
        "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
        "big-endian": base.astype(">f8"),
        "big-endian text": np.array(["ä", "€uro"]).astype(">U4")[::-1],
        "big-endian fortran": np.asfortranarray(base.astype(">f8")),
        "read-only": locked,
        "matrix": base.view(np.matrix),
        "special": np.array([np.nan, -0.0, np.inf, -np.inf, 5e-324]),
        "several pieces": np.arange(400_000, dtype=np.int64).reshape(2, -1).T,
    }


@pytest.mark.parametrize("name", layouts())
def test_layouts_become_plain(path, name):
    array = layouts()[name]
    write(path, "model", {}, {"a": array})
    assert same(read(path).arrays["a"], np.ascontiguousarray(np.asarray(array), array.dtype.newbyteorder("=")))


def test_a_payload_of_not_a_number_is_kept(path):
    array = np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001], dtype=np.uint64).view(np.float64)
    write(path, "model", {}, {"a": array})
    assert read(path).arrays["a"].tobytes() == array.tobytes()


def test_a_container_has_kind_content_arrays_and_version(good):
    box = read(good)
    assert (box.kind, box.format_version) == ("model", container.FORMAT_VERSION)
    assert same(box.content, CONTENT)
    assert same(box.arrays, ARRAYS)


def test_any_kind_of_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("plain", str(tmp_path / "full"), Path("path"), tmp_path / "ä €.mercer"):
        write(name, "model", {"a": 1}, {})
        assert read(name, "model").content == {"a": 1}


def test_numpy_reads_the_arrays(good):
    with np.load(good) as arrays:
        assert same(arrays["x"], ARRAYS["x"])
        assert same(arrays["labels"], ARRAYS["labels"])


def test_deflated_members_are_read(good):
    with zipfile.ZipFile(io.BytesIO(good.read_bytes())) as old, zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert same(read(good).arrays, ARRAYS)


def test_members_beyond_4_gb_have_long_sizes(path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)  # as if the limit of short sizes were here
    array = np.arange(1000.0)
    write(path, "model", {}, {"a": array, "b": array[::-1]})
    assert struct.pack("<HH", 1, 16) in path.read_bytes()
    assert same(read(path).arrays, {"a": array, "b": array[::-1].copy()})


def test_golden_file_of_version_1():
    assert GOLDEN.stat().st_size < 2000
    box = read(GOLDEN, "model")
    assert box.format_version == 1
    assert same(
        box.content, {"name": "golden ä", "step": 3, "big": 2**127, "parts": [0.1, -0.0, None, True, {"x": []}]}
    )
    expected = {
        "weights": np.array([[0.1, np.nan], [-np.inf, 5e-324]]),
        "rows": np.array([-1, 2**40]),
        "labels": np.array(["ä", "€uro"]),
    }
    assert same(box.arrays, expected)


# ------------------------------------------------------------------------------------------------ what a file says
def test_the_same_content_gives_the_same_bytes(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, "model", CONTENT, ARRAYS)
    os.utime(first, (0, 0))
    write(second, "model", json.loads(json.dumps(CONTENT)), {k: np.asfortranarray(v) for k, v in ARRAYS.items()})
    assert first.read_bytes() == second.read_bytes()


def test_bytes_do_not_depend_on_the_day_or_the_system(path, monkeypatch):
    write(path, "model", CONTENT, ARRAYS)
    before = path.read_bytes()
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr(sys, "platform", "win32")  # zipfile notes the system it runs on
    write(path, "model", CONTENT, ARRAYS)
    assert path.read_bytes() == before


def test_a_file_tells_nothing_about_its_writer(good):
    data = good.read_bytes()
    for secret in (str(good.parent), good.name, getpass.getuser() + "@", socket.gethostname(), str(Path.home())):
        assert len(secret) < 2 or secret.encode() not in data
    with zipfile.ZipFile(good) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_members_are_stored_for_deflated_bytes_depend_on_the_library(good):
    with zipfile.ZipFile(good) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_errors_are_ours_and_values():
    assert issubclass(ModelFileError, MercerError)
    assert issubclass(ModelFileError, ValueError)


def test_public_names_are_sorted():
    names = persist.__all__
    assert names == sorted(n for n in names if n[0].isupper()) + sorted(n for n in names if not n[0].isupper())


# ------------------------------------------------------------------------------------------------ trees
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**1023), 2**1023)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
ELEMENTS = hnp.arrays(
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="=")
    | hnp.unsigned_integer_dtypes(endianness="=")
    | hnp.floating_dtypes(endianness="=", sizes=(16, 32, 64))
    | hnp.unicode_string_dtypes(endianness="=")
    | hnp.byte_string_dtypes(),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
KEYS = st.text(max_size=8) | st.sampled_from(["array", "", ".", "../x", "a.b", "a", "-2"])


def is_reserved(tree):
    return list(tree) == ["array"] and isinstance(tree["array"], str)


def trees(leaves):
    inner = st.recursive(
        leaves,
        lambda some: (
            st.lists(some, max_size=4) | st.dictionaries(KEYS, some, max_size=4).filter(lambda t: not is_reserved(t))
        ),
    )
    return st.dictionaries(KEYS, inner, max_size=5).filter(lambda t: not is_reserved(t))


@given(trees(LEAVES))
def test_any_tree_of_values_comes_back(tmp_path_factory, tree):
    path = tmp_path_factory.getbasetemp() / "tree.mercer"
    write(path, "checkpoint", tree, {})
    assert same(read(path, "checkpoint").content, tree)


@given(trees(LEAVES | ELEMENTS))
def test_any_tree_with_arrays_comes_back(tmp_path_factory, tree):
    path = tmp_path_factory.getbasetemp() / "arrays.mercer"
    write(path, "checkpoint", *flatten(tree))
    box = read(path)
    assert same(unflatten(box.content, box.arrays), tree)


def test_arrays_are_named_by_their_place():
    x = np.zeros(1)
    tree = {"a": x, "b": {"c": [x, {"d": x}]}, "a/b": x, "a b": x, ".hidden": x, "": x, "long" * 99: x}
    content, arrays = flatten(tree)
    assert list(arrays) == ["a", "b.c.0", "b.c.1.d", "a_b", "a_b-2", "_.hidden", "_", ("long" * 45)]
    assert content["a b"] == {"array": "a_b-2"}
    assert all(container.NAME.fullmatch(name) for name in arrays)


def test_numpy_scalars_become_plain_numbers():
    content, arrays = flatten(
        {"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True), "d": np.str_("x"), "e": [np.float64(0.1)]}
    )
    assert same(content, {"a": 3, "b": 0.5, "c": True, "d": "x", "e": [0.1]})
    assert arrays == {}


@pytest.mark.parametrize(
    ("content", "arrays", "words"),
    [
        ({"a": {"array": "x"}}, {}, "needs the array 'x'"),
        ({"a": {"array": "x"}, "b": {"array": "x"}}, {"x": np.zeros(1)}, "once"),
        ({}, {"x": np.zeros(1)}, "no place"),
    ],
)
def test_references_that_lead_nowhere(content, arrays, words):
    with pytest.raises(ModelFileError, match=words):
        unflatten(content, arrays)


def nested(depth):
    tree: list = []
    for _ in range(depth - 1):
        tree = [tree]
    return tree


def test_depth_has_a_limit(path):
    fits = {"a": nested(99)}
    write(path, "model", *flatten(fits))
    assert unflatten(read(path).content, {}) == fits
    endless: list = []
    endless.extend([endless, endless])
    for tree in ({"a": nested(100)}, {"a": nested(100_000)}, {"a": endless}):
        for function in (flatten, lambda t: unflatten(t, {}), lambda t: write(path, "model", t, {})):
            with pytest.raises(ModelFileError, match="100 deep"):
                function(tree)


def test_a_dict_that_looks_like_an_array_is_refused():
    with pytest.raises(ModelFileError, match="stands for an array"):
        flatten({"a": {"array": "b"}})
    assert flatten({"a": {"array": "b", "c": 1}})[0] == {"a": {"array": "b", "c": 1}}


# ------------------------------------------------------------------------------------------------ what is not written
class Text(str):
    __slots__ = ()


BAD_CONTENT = {
    "tuple": {"a": (1, 2)},
    "set": {"a": {1}},
    "bytes": {"a": b"x"},
    "object": {"a": object()},
    "complex": {"a": 1j},
    "array": {"a": np.zeros(2)},
    "numpy scalar": {"a": np.float64(1.0)},
    "subclass": {"a": Text("x")},
    "nan": {"a": float("nan")},
    "infinity": {"a": [0, -float("inf")]},
    "long int": {"a": 2**1024},
    "key": {"a": {1: 2}},
    "half a character": {"a": "\ud83d"},
    "half a character in a key": {"\ude00": 1},
    "list": [1],
    "many brackets": {"a": [[]] * 200_001},
    "long": {"a": "x" * 4_000_001},
}


@pytest.mark.parametrize("name", BAD_CONTENT)
def test_content_that_json_cannot_hold_is_refused(good, name):
    before = good.read_bytes()
    with pytest.raises(ModelFileError, match=r"content|expected") as caught:
        write(good, "model", BAD_CONTENT[name], {})
    assert str(good) in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert good.read_bytes() == before
    assert os.listdir(good.parent) == [good.name]


def bad_bool():
    return np.array([0, 2], dtype=np.uint8).view(bool)


def bad_text():
    return np.array([65, 0x110000], dtype=np.uint32).view("U1")


BAD_ARRAYS = {
    "object": np.array([None]),
    "complex": np.zeros(2, complex),
    "long double": np.zeros(2, np.longdouble),
    "date": np.zeros(2, "M8[s]"),
    "record": np.zeros(2, "f8,i4"),
    "void": np.zeros(2, "V8"),
    "mask": np.ma.masked_array([1, 2], [True, False]),
    "list": [1, 2],
    "scalar": np.float64(1.0),
    "strange booleans": bad_bool(),
    "strange text": bad_text(),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_of_other_kinds_are_refused(good, name):
    before = good.read_bytes()
    with pytest.raises(ModelFileError, match=r"x has|x is a"):
        write(good, "model", {}, {"a": np.zeros(2), "x": BAD_ARRAYS[name]})
    assert good.read_bytes() == before
    assert os.listdir(good.parent) == [good.name]


@pytest.mark.parametrize("name", ["", ".x", "a/b", "..", "a b", "ä", "a\n", "x" * 201, 3, "a\0", "\u0430"], ids=ascii)
def test_array_names_are_plain(path, name):
    with pytest.raises(ModelFileError, match="is named"):
        write(path, "model", {}, {name: np.zeros(1)})
    assert not path.exists()


@pytest.mark.parametrize("kind", ["", "Model", "a b", 3, None, "x" * 41, "model\n"])
def test_kinds_are_short_words(path, kind):
    with pytest.raises(ModelFileError, match="kind is"):
        write(path, kind, {}, {})


def test_too_many_arrays_are_refused(path):
    with pytest.raises(ModelFileError, match="Join small ones"):
        write(path, "model", {}, dict.fromkeys(map(str, range(10_000)), np.zeros(1)))


def test_the_longest_directory_is_read(path):
    arrays = {f"{i:0200d}": np.array(i, np.uint16) for i in range(9_999)}
    write(path, "model", {}, arrays)
    assert same(read(path).arrays, arrays)


# ------------------------------------------------------------------------------------------------ where and how
def test_a_missing_file_or_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.mercer"):
        read(tmp_path / "nowhere.mercer")
    with pytest.raises(FileNotFoundError, match=r"folder.*make it first.*file\.mercer"):
        write(tmp_path / "none" / "file.mercer", "model", {}, {})


def test_a_folder_is_not_a_file(tmp_path):
    assert "ordinary file" in refusal(tmp_path)
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        write(tmp_path, "model", {}, {})
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_pipe_does_not_hang_and_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "ordinary file" in refusal(pipe)
    with pytest.raises(OSError, match="device or a pipe"):
        write(pipe, "model", {}, {})
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@posix
def test_a_pipe_that_takes_the_place_of_a_file_does_not_hang(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(container, "stat", SimpleNamespace(S_ISREG=lambda mode: True))  # as it was a moment ago
    start = time.perf_counter()
    with pytest.raises((ModelFileError, OSError)):
        read(pipe)
    assert time.perf_counter() - start < 10


@posix
def test_a_device_is_refused():
    assert "ordinary file" in refusal("/dev/zero")


@posix
def test_links_are_read_through_and_replaced(tmp_path, good):
    link = tmp_path / "link"
    link.symlink_to(good)
    assert same(read(link).arrays, ARRAYS)
    write(link, "model", {"new": 1}, {})
    assert not link.is_symlink()
    assert read(link).content == {"new": 1}
    assert same(read(good).content, CONTENT)


@posix
def test_permissions_are_those_of_the_umask_or_of_the_old_file(path):
    old = os.umask(0o027)
    try:
        write(path, "model", {}, {})
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        write(path, "model", {}, {})
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o664)
        write(path, "model", {}, {})
        assert stat.S_IMODE(path.stat().st_mode) == 0o664
    finally:
        os.umask(old)


@posix
def test_data_reach_the_disk_before_the_name_and_the_name_before_the_end(path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle):
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"file of {os.fstat(handle).st_size}")
        fsync(handle)

    def noted_replace(source, target):
        calls.append("replace")
        assert Path(source).parent == path.parent
        replace(source, target)

    monkeypatch.setattr(atomic.os, "fsync", noted_fsync)
    monkeypatch.setattr(atomic.os, "replace", noted_replace)
    write(path, "model", CONTENT, ARRAYS)
    assert calls == [f"file of {path.stat().st_size}", "replace", "folder"]


def stop(*_, **__):
    raise KeyboardInterrupt


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("module", "function", "failure", "error"),
    [
        (atomic.os, "fsync", full, OSError),
        (atomic.os, "replace", full, OSError),
        (zipfile.ZipFile, "writestr", full, OSError),
        (zipfile.ZipFile, "writestr", stop, KeyboardInterrupt),
        (container, "_manifest_bytes", stop, KeyboardInterrupt),
        (container, "_check_values", stop, KeyboardInterrupt),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(good, monkeypatch, module, function, failure, error):
    before = good.read_bytes()
    monkeypatch.setattr(module, function, failure)
    with pytest.raises(error) as caught:
        write(good, "model", {"new": 1}, ARRAYS)
    monkeypatch.undo()
    assert good.read_bytes() == before
    assert os.listdir(good.parent) == [good.name]
    if error is OSError:
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(good)
        assert "unharmed" in str(caught.value)


@posix
def test_a_folder_that_cannot_be_synced_is_no_failure(path, monkeypatch):
    fsync = os.fsync

    def only_files(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(atomic.os, "fsync", only_files)
    write(path, "model", {"a": 1}, {})
    assert read(path).content == {"a": 1}


@linux
def test_a_full_disk(path):
    out = run(
        """
        import errno, os, resource, sys
        import numpy as np
        from mercer.persist import read, write

        path = sys.argv[1]
        write(path, "model", {"old": 1}, {"x": np.arange(1000)})
        for room in (10_000, 300_000, 3_000_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
            try:
                write(path, "model", {"new": 1}, {"x": np.zeros(10**6), "y": np.zeros(1)})
            except OSError as error:
                print(errno.errorcode[error.errno], error.filename == path, path in str(error))
            print(read(path).content, os.listdir(os.path.dirname(path)))
        """,
        path,
    )
    assert out.splitlines() == ["EFBIG True True", "{'old': 1} ['file.mercer']"] * 3


@linux
def test_killed_at_any_time_the_file_is_old_or_new(path):
    """One process starts writers that never end by themselves, kills them, and reads what they left."""
    out = run(
        """
        import os, random, signal, sys, time
        from pathlib import Path
        import numpy as np
        from mercer.persist import read, write

        path = Path(sys.argv[1])

        def rewrite(step):
            while True:
                step += 1
                write(path, "checkpoint", {"step": step}, {"a": np.full(100_000, step), "b": np.full(50_000, -step)})

        write(path, "checkpoint", {"step": 0}, {"a": np.zeros(1, int), "b": np.zeros(1, int)})
        draw, last, moved, cut = random.Random(0), 0, 0, 0
        for _ in range(25):
            writer = os.fork()
            if writer == 0:
                rewrite(last)
            time.sleep(draw.uniform(0.0, 0.05))
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
            box = read(path, "checkpoint")
            step = box.content["step"]
            assert step >= last, "a step is lost"
            assert (box.arrays["a"] == step).all() and (box.arrays["b"] == -step).all(), "half a file"
            moved, last = moved + (step > last), step
            rest = [p for p in path.parent.iterdir() if p != path]
            cut += len(rest)
            for p in rest:
                assert p.name.startswith(".mercer-") and p.suffix == ".tmp", p
                p.unlink()
        print(moved, cut)
        """,
        path,
    )
    moved, cut = map(int, out.split())
    assert moved >= 5
    assert cut >= 5  # or no writer was ever killed at work


# ------------------------------------------------------------------------------------------------ hostile files
def zipped(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name) if method == zipfile.ZIP_STORED else name, data)


def forge(change=lambda manifest: None, *, text=lambda text: text, npy=None, method=zipfile.ZIP_STORED, extra=()):
    """A maker of files that are good but for one thing: the manifest, its text, the bytes of the array x, more members."""

    def make(path):
        write(path, "model", CONTENT, ARRAYS)
        members = contents(path)
        manifest = json.loads(members.pop("manifest.json"))
        change(manifest)
        data = text(json.dumps(manifest))
        members["x.npy"] = members["x.npy"] if npy is None else npy(members["x.npy"])
        data = data if isinstance(data, bytes) else data.encode()
        zipped(path, [*members.items(), ("manifest.json", data), *extra], method)

    return make


def setting(*keys, to):
    """A change of one value of the manifest."""

    def change(manifest):
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = to

    return forge(change)


def array_row(dtype, shape, data):
    """The array x replaced by another, with all that belongs to it."""
    header = Stored(dtype, tuple(shape)).header

    def change(manifest):
        row = {"dtype": dtype, "shape": shape, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest["arrays"]["x"] = row

    return forge(change, npy=lambda _: header + data)


def npy_of(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def swapped(old, new):
    """The array x with other bytes in its header."""

    def change(data):
        assert old in data
        assert len(old) == len(new)
        return data.replace(old, new)

    return forge(npy=change)


def content_text(json_text):
    return forge(text=lambda text: text.replace('"step": 7', f'"step": {json_text}'))


def plain(data):
    return lambda path: path.write_bytes(data)


def sparse(start, size):
    def make(path):
        path.write_bytes(start)
        os.truncate(path, size)

    return make


DIRECTORY = "<4s4B4HL2L5H2L"  # an entry of the central directory
END = "<4s4H2LH"


def entry(name=b"", method=0, packed=0, size=0, flags=0, offset=0):
    fields = (20, 3, 20, 0, flags, method, 0, 33, 0, packed, size, len(name), 0, 0, 0, 0, 0, offset)
    return struct.pack(DIRECTORY, b"PK\1\2", *fields) + name


LOCAL = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, 5, 0) + b"x.npy"


def directory_only(directory, count):
    """A zip that is nearly all directory."""
    start = LOCAL
    end = struct.pack(END, b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, len(directory), len(start), 0)
    return plain(start + directory + end)


def numbered(n, **fields):
    return b"".join(entry(b"%d.npy" % i, **fields) for i in range(n))


def patched(offset, form, value, name=b"x.npy", maker=None):
    """A good file with one field of the directory entry of a member overwritten."""

    def make(path):
        (maker or forge())(path)
        data = bytearray(path.read_bytes())
        place = data.rindex(name) - 46
        assert data[place : place + 4] == b"PK\1\2"
        struct.pack_into(form, data, place + offset, value)
        path.write_bytes(data)

    return make


def deflated_zeros(n):
    return array_row("|i1", [n], bytes(n))


def bomb(path):
    """A consistent file whose array is all zeros, deflated a thousand times smaller."""
    deflated_zeros(10**7)(path)
    zipped(path, list(contents(path).items()), zipfile.ZIP_DEFLATED)


def bomb_beside(path):
    """A bomb in a file that is large enough for all it holds."""
    bomb(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y.npy", np.random.default_rng(0).bytes(200_000))


def bomb_that_lies(path):
    """The directory promises 134 bytes where a thousand times as many come."""
    bomb(path)
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, data.rindex(b"x.npy") - 46 + 24, 134)
    path.write_bytes(data)


def overlapping(path):
    """A thousand entries of the directory that share the same bytes."""
    data = bytes(10**5)
    start = LOCAL + data
    directory = numbered(1000, packed=len(data), size=len(data))
    end = struct.pack(END, b"PK\5\6", 0, 0, 1000, 1000, len(directory), len(start), 0)
    path.write_bytes(start + directory + end)


class Payload:
    """What runs when it is unpickled."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return (Path.touch, (self.canary,))


def made(make, path):
    make(path)
    return path.read_bytes()


def renamed(old, new):
    """A file with one more member, whose name is then changed."""
    return lambda path: path.write_bytes(made(forge(extra=[(old.decode(), b"")]), path).replace(old, new))


BAD_NAMES = ["../x.npy", "/x.npy", "C:\\x.npy", "a/b.npy", ".x.npy", ".npy", "x.py", "\u0445.npy", "x\n.npy", "x" * 201 + ".npy",
             "MANIFEST.JSON"]  # fmt: skip
BAD_VERSIONS = [0, -1, True, "1", 1.0, None, []]
BAD_DTYPES = [*"|O O |V8 <M8[s] >f8 <f16 <c16 <U0 |S0 <U999999999 f8 float64".split(), "<f8\n", [["a", "<f8"]], 8, None]
BAD_SHAPES = [[3, 2, 1, 2], [2**40], [2**40, 2**40], [-2, -3], [-1], [2.0, 3.0], [True, 6], "23", 6, None, [[2], 3], [1] * 65,
              [2**63], [2**64 + 6], [6, 2**1000]]  # fmt: skip
HOSTILE = {
    "empty": (plain(b""), "is empty"),
    "text": (plain(b"hello, world\n" * 100), "begins with"),
    "one byte": (plain(b"P"), "begins with"),
    "magic only": (plain(b"PK\3\4"), "damaged"),
    "wrong magic": (lambda path: path.write_bytes(b"QK" + made(forge(), path)[2:]), "begins with"),
    "end record only": (plain(struct.pack(END, b"PK\5\6", *[0] * 7)), "begins with"),
    "pickle": (plain(pickle.dumps({"a": 1})), "begins with"),
    "npy": (plain(npy_of(np.zeros(3))), "begins with"),
    "another zip": (lambda path: zipped(path, [("a.npy", b"")]), "without manifest.json"),
    "npz": (lambda path: zipped(path, [("a.npy", npy_of(np.zeros(3)))], zipfile.ZIP_DEFLATED), "without manifest.json"),
    "sparse": (sparse(b"", 10**10), "begins with"),
    "sparse zip": (sparse(b"PK\3\4", 10**10), "damaged"),
    "sparse good file": (lambda path: (forge()(path), os.truncate(path, 10**10)), "damaged"),
    # the directory
    "million entries": (lambda path: directory_only(entry(b"a.npy") * 10**6, 10**6)(path), "directory takes 51 MB"),
    "many short entries": (lambda path: directory_only(entry() * 65_000, 65_000)(path), "65000 members"),
    "many entries": (lambda path: directory_only(numbered(10_001), 10_001)(path), "10001 members"),
    "bomb": (bomb, "would inflate"),
    "bomb beside honest numbers": (bomb_beside, "x.npy would inflate"),
    "bomb that lies": (bomb_that_lies, "134 bytes"),
    "bomb in the manifest": (
        forge(text=lambda t: t + " " * 3_000_000, method=zipfile.ZIP_DEFLATED),
        "would inflate",
    ),
    "overlapping members": (overlapping, "would inflate"),
    "outside the file": (patched(42, "<L", 10**9), "outside the file"),
    "stored larger than it is": (patched(24, "<L", 10**4), "x.npy would inflate"),
    "packed larger than the file": (patched(20, "<L", 0xFFFFFFF0), "outside the file"),
    "encrypted": (patched(8, "<H", 1), "x.npy is encrypted; mercer"),
    "lzma": (forge(method=zipfile.ZIP_LZMA), "method 14"),
    "bzip2": (forge(method=zipfile.ZIP_BZIP2), "method 12"),
    "newer zip": (patched(6, "<H", 999), "damaged"),
    "bad check sum": (patched(16, "<L", 1), "damaged"),
    "zip64 without its field": (patched(24, "<L", 0xFFFFFFFF), "inflate|damaged"),
    **{f"member {name!a}": (forge(extra=[(name, b"")]), "is named") for name in BAD_NAMES},
    "name with NUL": (renamed(b"y.npyZ", b"y.npy\0"), "is named"),
    "duplicate names": (renamed(b"y.npy", b"x.npy"), "same name"),
    "extra member": (forge(extra=[("y.npy", npy_of(np.zeros(1)))]), "not those its manifest names"),
    "missing member": (forge(lambda m: m["arrays"].update(y=m["arrays"]["x"])), "not those its manifest names"),
    # the manifest
    "long manifest": (forge(text=lambda t: t + " " * 4_000_000), "manifest.json has 4 MB"),
    "brackets": (content_text("[" + "[]," * 300_000 + "0]"), "brackets"),
    "nested 100000": (content_text("[" * 10**5 + "]" * 10**5), "recursion|deep"),
    "nested dicts": (content_text('{"a":' * 10**5 + "0" + "}" * 10**5), "recursion|deep"),
    "nested 150": (content_text("[" * 150 + "]" * 150), "deep"),
    "nan": (content_text("NaN"), "has NaN"),
    "infinity": (content_text("-Infinity"), "has -Infinity"),
    "1e999": (content_text("1e999"), "is inf"),
    "long integer": (content_text("9" * 10**6), "a number of 1000000 digits"),
    "integer of 1025 bits": (content_text(str(2**1024)), "1024 bits"),
    "half a character": (content_text('"\\ud83d"'), "whole characters"),
    "key twice": (content_text('7, "step": 8'), "key twice"),
    "not JSON": (forge(text=lambda t: t[:-1]), "damaged"),
    "UTF-16": (forge(text=lambda t: t.encode("utf-16")), "damaged"),
    "byte order mark": (forge(text=lambda t: "\ufeff" + t), "damaged"),
    "NUL": (forge(text=lambda t: t + "\0"), "damaged"),
    "a list": (forge(text=lambda t: f"[{t}]"), "does not say"),
    "no format": (forge(lambda m: m.pop("format")), "does not say"),
    "another format": (setting("format", to="numpy"), "does not say"),
    "newer": (setting("format_version", to=2), "made by a newer mercer"),
    "much newer": (
        forge(lambda m: (m.clear(), m.update(format="mercer", format_version=99))),
        "made by a newer mercer",
    ),
    **{f"version {v!r}": (setting("format_version", to=v), "format_version is") for v in BAD_VERSIONS},
    "unknown key": (setting("more", to=1), "has the keys"),
    "no arrays": (forge(lambda m: m.pop("arrays")), "has the keys"),
    "kind": (setting("kind", to=["model"]), "kind is"),
    "content": (setting("content", to=[]), "expected a dict"),
    "table": (setting("arrays", to=["x", "labels", "flag"]), "not those its manifest names"),
    # the arrays
    "row": (setting("arrays", "x", to=[1]), "describes x"),
    "short row": (forge(lambda m: m["arrays"]["x"].pop("sha256")), "describes x"),
    **{f"dtype {dtype!r}": (setting("arrays", "x", "dtype", to=dtype), "has dtype") for dtype in BAD_DTYPES},
    **{f"shape {shape!r:.40}": (setting("arrays", "x", "shape", to=shape), "x has") for shape in BAD_SHAPES},
    "zero times too much": (array_row("<f8", [0, 2**80], b""), "damaged"),
    "bytes": (setting("arrays", "x", "bytes", to=47), "not what"),
    "check sum": (setting("arrays", "x", "sha256", to="0" * 64), "check sum"),
    "no check sum": (setting("arrays", "x", "sha256", to=None), "check sum"),
    "other numbers": (forge(npy=lambda data: data[:-1] + b"\x01"), "check sum"),
    "short": (forge(npy=lambda data: data[:-1]), "not what"),
    "long": (forge(npy=lambda data: data + b"\0"), "not what"),
    "another shape in the header": (swapped(b"(2, 3)", b"(3, 2)"), "header of x"),
    "huge shape in the header": (swapped(b"(2, 3)}" + b" " * 12, b"(2, 1099511627776)}"), "header of x"),
    "another dtype in the header": (swapped(b"<f8", b"<i8"), "header of x"),
    "objects in the header": (swapped(b"'<f8'", b"'|O' "), "header of x"),
    "fortran in the header": (swapped(b"False", b"True "), "header of x"),
    "code in the header": (swapped(b"(2, 3)", b"exit()"), "header of x"),
    "long header": (forge(npy=lambda data: data[:8] + b"\xff\xff" + data[10:]), "header of x"),
    "npy 3.0": (forge(npy=lambda data: data[:6] + b"\x03" + data[7:]), "header of x"),
    "no npy": (forge(npy=lambda data: bytes(len(data))), "header of x"),
    "strange booleans": (array_row("|b1", [3], b"\0\1\2"), "neither 0 nor 1"),
    "strange text": (array_row("<U1", [1], b"\0\0\x11\0"), "beyond Unicode"),
}


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_files_are_refused(path, name):
    make, words = HOSTILE[name]
    make(path)
    message = refusal(path)
    assert re.search(words, message), message


def longest():
    """The largest content that is read."""
    return [
        "[" + "1," * 1_900_000 + "0]",
        "{" + ",".join(f'"{i:x}":0' for i in range(350_000)) + "}",
        "[" + "[0.5,7]," * 190_000 + "0]",
        "[" + '"ab",' * 750_000 + "0]",
    ]


@linux
def test_hostile_files_take_little_memory_and_time(tmp_path):
    for i, make in enumerate([make for make, _ in HOSTILE.values()] + [content_text(text) for text in longest()]):
        make(tmp_path / f"{i}.mercer")
    out = run(
        """
        import resource, sys, time
        from pathlib import Path
        from mercer.errors import ModelFileError
        from mercer.persist import read, write

        folder = Path(sys.argv[1])
        write(folder / "good", "model", {}, {})
        read(folder / "good")  # loads what is loaded once
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + 200 * 10**6
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        slowest = refused = valid = 0
        for path in folder.glob("*.mercer"):
            start = time.perf_counter()
            try:
                read(path)
                valid += 1
            except ModelFileError:
                refused += 1
            slowest = max(slowest, time.perf_counter() - start)
        print(refused, valid, slowest)
        """,
        tmp_path,
    )
    refused, valid, slowest = out.split()
    assert (int(refused), int(valid)) == (len(HOSTILE), 4)
    assert float(slowest) < 10


def test_another_kind_is_refused(good):
    assert read(good, "model").kind == "model"
    assert "expected a checkpoint, this is a model" in refusal(good, kind="checkpoint")


def test_contents_beyond_the_limit_are_refused_with_the_remedy(path):
    write(path, "model", {}, {"x": np.zeros(10**6)})
    assert refusal(path, memory="5MB").endswith('at most 5 MB are allowed; if you trust it, read it with memory="1GB"')
    for memory in ("9MB", 10**9, None):
        assert read(path, memory=memory).arrays["x"].shape == (10**6,)
    with pytest.raises(ValueError, match="memory='lots' is not a size"):
        read(path, memory="lots")


def test_the_default_limit_is_2_gb(path, monkeypatch):
    write(path, "model", {}, {})
    seen = []
    checked = container._checked_entries
    monkeypatch.setattr(
        container, "_checked_entries", lambda e, size, limit: seen.append(limit) or checked(e, size, limit)
    )
    read(path)
    assert seen == [2 * 10**9]


def test_a_message_names_file_cause_and_remedy(path):
    HOSTILE["newer"][0](path)
    assert refusal(path) == (
        f"{path}: made by a newer mercer: format_version is 2, this mercer reads up to 1; update mercer "
        "(pip install --upgrade mercer)"
    )


def test_nothing_in_a_file_is_run(tmp_path, path):
    canary = tmp_path / "canary"
    payload = pickle.dumps(Payload(canary))
    pickle.loads(payload)
    canary.unlink()  # so it would appear
    objects = np.empty(1, object)
    objects[0] = Payload(canary)
    npy = npy_of(objects, allow_pickle=True)

    def as_objects(manifest):
        manifest["arrays"]["x"].update(dtype="|O", shape=[1])

    def as_numbers(manifest):
        manifest["arrays"]["x"].update(dtype="|i1", shape=[len(npy) - 128], bytes=len(npy) - 128)

    makers = [
        plain(payload),
        plain(npy),
        lambda path: zipped(path, [("manifest.json", payload)]),
        lambda path: zipped(path, [("data.pkl", payload)]),
        forge(npy=lambda _: npy),
        forge(as_objects, npy=lambda _: npy),
        forge(as_numbers, npy=lambda _: npy),
        forge(extra=[("y.npy", npy)]),
        content_text(json.dumps({"__class__": "os.system", "args": [f"touch {canary}"]})),
    ]
    for make in makers:
        make(path)
        with contextlib.suppress(ModelFileError):
            read(path)
        assert not canary.exists()


# ------------------------------------------------------------------------------------------------ damage
def unharmed_or_refused(path, data):
    path.write_bytes(data)
    try:
        box = read(path)
    except ModelFileError:
        return False
    assert same(box.content, CONTENT)
    assert same(box.arrays, ARRAYS)
    return True


def test_truncated_files_are_refused(good, path):
    data = good.read_bytes()
    for share in range(100):
        assert not unharmed_or_refused(path, data[: len(data) * share // 100]), share
    assert not unharmed_or_refused(path, data[:-1])


def test_bytes_in_front_or_behind(good, path):
    data = good.read_bytes()
    assert not unharmed_or_refused(path, b"\0" + data)
    assert not unharmed_or_refused(path, data + data[:-9])
    unharmed_or_refused(path, data + b"\0" * 100)


def flips(good, path, n):
    rng, data = np.random.default_rng(0), good.read_bytes()
    kept = 0
    for place, bit in zip(rng.integers(0, len(data), n), rng.integers(0, 8, n), strict=True):
        changed = bytearray(data)
        changed[place] ^= 1 << bit
        kept += unharmed_or_refused(path, changed)
    return kept / n


def test_flipped_bits_are_refused_or_harmless(good, path):
    assert flips(good, path, 2_000) < 0.3  # dates, attributes and what zip says twice


@pytest.mark.slow
def test_many_flipped_bits_are_refused_or_harmless(good, path):
    assert flips(good, path, 10_000) < 0.3


@pytest.mark.parametrize("seed", range(3))
def test_mutated_directories_are_refused_or_harmless(good, path, seed):
    """Fields of the central directory, of the end record and of the local headers set to extreme or random values."""
    rng, data = np.random.default_rng(seed), good.read_bytes()
    start = data.index(b"PK\1\2")
    records = [i for i in range(len(data)) if data[i : i + 2] == b"PK"]
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            form, top = [("<B", 0xFF), ("<H", 0xFFFF), ("<L", 0xFFFFFFFF)][rng.integers(3)]
            value = int(rng.choice([0, 1, top, top - 1, top // 2 + 1, rng.integers(0, top)]))
            low = start if rng.random() < 0.8 else int(rng.choice(records))
            high = len(data) - 4 if low == start else min(low + 40, len(data) - 4)
            struct.pack_into(form, changed, int(rng.integers(low, high)), value)
        unharmed_or_refused(path, changed)


@pytest.mark.parametrize("seed", range(2))
def test_mutated_manifests_are_refused_or_valid(good, path, seed):
    """Bytes of the JSON replaced, with a check sum that fits: what comes back is plain values and true arrays."""
    rng, members = np.random.default_rng(seed), contents(good)
    manifest = members.pop("manifest.json")
    letters = b'{}[],:"0123456789-.eE<|fiuUSO\\ \x00\xff'
    for _ in range(400):
        text = bytearray(manifest)
        for place in rng.integers(0, len(text), rng.integers(1, 3)):
            text[place] = letters[rng.integers(len(letters))]
        zipped(path, [*members.items(), ("manifest.json", bytes(text))])
        try:
            box = read(path)
        except ModelFileError:
            continue
        write(path, box.kind, box.content, box.arrays)


@given(st.binary(max_size=300))
def test_any_bytes_after_the_magic(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "bytes.mercer"
    for start in (b"", b"PK\3\4"):
        path.write_bytes(start + data)
        with pytest.raises(ModelFileError):
            read(path)

"""Replace a file in one step: whatever happens meanwhile, the old file or the new one is there, whole."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file to fill, which takes the place of `path` when the block ends well.

    On any error the old file is untouched and the new one is gone. A symbolic link is replaced, not what it points to. Only
    a process that is killed leaves its unfinished `.mercer-*.tmp` behind.
    """
    _check_place(path)
    temporary = path.with_name(f".mercer-{secrets.token_hex(8)}.tmp")  # the same folder: a rename never crosses disks
    try:
        with open(temporary, "xb") as file:
            _keep_permissions(path, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        reason = f"{error.strerror or error}; nothing was written, and an earlier file is unharmed"
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        with suppress(OSError):  # after the rename it is no longer there
            os.unlink(temporary)
    _sync_folder(path.parent)


def _check_place(path):
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder of this file does not exist; make it first", str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder; give the name of a file in it", str(path))
    if path.exists() and not path.is_file():  # a rename over /dev/null or a pipe would destroy it
        raise OSError(errno.EINVAL, "this is a device or a pipe; give the name of an ordinary file", str(path))


def _keep_permissions(path, temporary):
    """Those of the file that is replaced. A first file has what the umask leaves: `open` gave it that, as tempfile does not."""
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode):
            os.chmod(temporary, stat.S_IMODE(mode) & 0o777)


def _sync_folder(folder):
    """Make the rename last through a power cut. Where that cannot be asked for, old or new is there all the same."""
    if os.name == "nt":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

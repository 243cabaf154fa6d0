"""Where exported files go."""

import errno
import os

__all__ = ["check_free"]


def check_free(path, force) -> None:
    """Refuse a name that is taken, unless that was asked for."""
    if os.path.lexists(path) and not force:
        raise FileExistsError(errno.EEXIST, "there is a file of this name; force=True replaces it", os.fspath(path))

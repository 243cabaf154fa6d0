"""The folder of larger data sets, named by the environment."""

import os
from pathlib import Path


def data_home() -> Path:
    """Return the folder of larger data sets: the value of the environment variable ``MERCER_DATA``.

    Benchmarks and slow tests read from it; nothing is downloaded.

    Raises
    ------
    FileNotFoundError
        The variable is not set, or does not name a folder.
    """
    value = os.environ.get("MERCER_DATA", "")
    if not value:
        raise FileNotFoundError(
            "The environment variable MERCER_DATA is not set; set it to the folder that holds the larger data sets."
        )
    home = Path(value)
    if not home.is_dir():
        raise FileNotFoundError(f"The environment variable MERCER_DATA is {value!r}, which is not a folder.")
    return home

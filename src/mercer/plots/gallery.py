"""Where the pages of the gallery put their pictures."""

import os
from pathlib import Path

__all__ = ["save_picture"]


def save_picture(figure, name: str) -> Path:
    """Write a figure as name.png to the folder MERCER_PICTURES, or else to out/, and say so.

    The figure stays open: Sphinx-Gallery collects those that are open when a page ends.
    """
    folder = Path(os.environ.get("MERCER_PICTURES") or "out")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")
    return path

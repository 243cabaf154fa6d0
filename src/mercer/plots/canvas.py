"""Axes to draw on, colours, and the message where there is nothing to draw with."""

from typing import Any

import numpy as np

__all__ = ["COLOURS", "axes_for", "checked_labels", "one_axes"]

#: Of classes and clusters; they differ in lightness too.
COLOURS = ("#2b6ca3", "#d9772b", "#4f9a5b", "#8e5aa8", "#b5404e", "#7f7f7f", "#c2a12b", "#3aa6a6", "#d177a8", "#5b5b5b")


def _pyplot():
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'mercer[plot]'") from None
    return plt


def one_axes(ax=None) -> Any:
    """The user's axes, or those of a new figure."""
    return ax if ax is not None else _pyplot().subplots(layout="constrained")[1]


def axes_for(count: int, columns: int, size: tuple[float, float], axes=None) -> np.ndarray:
    """So many axes in rows of `columns`; surplus ones are switched off. The user's own must be as many."""
    if axes is not None:
        given = np.asarray(axes, dtype=object).ravel()
        if len(given) != count:
            raise ValueError(f"axes holds {len(given)} axes, but there are {count} pictures to draw")
        return given
    columns = min(columns, count)
    rows = -(-count // columns)
    made = _pyplot().subplots(
        rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False, layout="constrained"
    )[1]
    made = made.ravel()
    for ax in made[count:]:
        ax.axis("off")
    return made[:count]


def checked_labels(labels, n: int) -> np.ndarray | None:
    """Labels (n,), or None."""
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ValueError(f"labels have shape {labels.shape}, but there are {n} rows")
    return labels

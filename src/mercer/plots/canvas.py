"""Axes to draw on, colours, and the message where there is nothing to draw with."""

from typing import Any

import numpy as np

__all__ = [
    "COLOURS",
    "axes_for",
    "checked_labels",
    "finished",
    "line_grid",
    "one_axes",
    "pale",
    "plane_grid",
    "some_rows",
]

_MARKS = 2000  # points of a picture at most; of more rows, evenly spread ones are shown

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


def finished(display, ax, *, framed=False):
    """The display with `axes_` and `figure_`, its axes without lines above and on the right."""
    if not framed:
        ax.spines[["top", "right"]].set_visible(False)
    display.axes_, display.figure_ = np.array([ax], dtype=object), ax.figure
    return display


def some_rows(rows, most=_MARKS):
    """All rows, or so many of them, evenly spread."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def line_grid(x, resolution, margin) -> np.ndarray:
    """Places (r,) from below the smallest number to above the largest; margin : a share of their range."""
    room = margin * (float(np.ptp(x)) or 1.0)
    return np.linspace(x.min() - room, x.max() + room, resolution)


def plane_grid(X, resolution, margin):
    """Coordinates (r,) of columns and lines of a grid around points (n, 2), and its points (r * r, 2), line by line."""
    xs, ys = (line_grid(X[:, j], resolution, margin) for j in range(2))
    return xs, ys, np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def pale(colour, share):
    """A light form of a colour, as if so much of it lay on white; not transparent, so that legends show what is seen."""
    from matplotlib.colors import to_rgb

    return tuple(1.0 - share * (1.0 - part) for part in to_rgb(colour))

"""Pictures of the terms of an additive function (D14)."""

from dataclasses import dataclass

import numpy as np

from mercer.estimators.additive import additive_parts, decompose, shown
from mercer.plots.canvas import COLOURS, axes_for

__all__ = ["DecompositionDisplay"]

_MARKS = 2000  # points of a picture at most


@dataclass(frozen=True, eq=False)
class Panel:
    """A curve over x with its standard deviation, and points (x, y) to show. column : name of the axis."""

    title: str
    x: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    points: tuple | None = None
    column: str = "x"


class DecompositionDisplay:
    """The whole function with the data, and below it each term about its average, with bands of two standard deviations.

    panels : the whole first, if rows have one column. left_out : names of terms that read several columns, which are not drawn.
    """

    def __init__(self, panels, left_out=()):
        self.panels, self.left_out = list(panels), list(left_out)

    @classmethod
    def from_estimator(cls, model, X=None, y=None, *, resolution=500, margin=0.0, axes=None, columns=1, **style):
        """Take a fitted `GaussianProcessRegressor` apart (`mercer.decompose`) around rows X, and plot.

        X, y : rows whose range is drawn, and targets to show; None: those of the fit. margin : how far curves go beyond the rows,
        as a share of their range. Terms of several columns, of which one is read by a term, are drawn over that column.
        """
        X = np.asarray(model.X_fit_ if X is None else X, float)
        if X.ndim != 2 or not model.single_output_:
            raise ValueError(f"this picture needs rows of numbers and one target, got X of shape {X.shape}")
        if y is None and len(X) == len(model.targets_):
            y = model.targets_[:, 0] * model.y_scale_[0] + model.y_shift_[0]
        if X.shape[1] == 1:
            return cls(_of_one_column(model, X, y, resolution, margin)).plot(axes, columns, **style)
        panels, left_out = _of_many_columns(model, X, resolution, margin)
        return cls(panels, left_out).plot(axes, columns, **style)

    def plot(self, axes=None, columns=1, *, size=(8.0, 2.0), **style) -> "DecompositionDisplay":
        """Draw one panel below the other, or in `columns` columns; `style` goes to the curves."""
        self.axes_ = axes_for(len(self.panels), columns, size, axes)
        for panel, ax in zip(self.panels, self.axes_, strict=True):
            _draw(panel, ax, {"color": COLOURS[0], "linewidth": 1.4, **style})
        self.figure_ = self.axes_[0].figure
        return self


def _draw(panel, ax, style):
    if panel.points is not None:
        x, y = panel.points
        some = np.linspace(0, len(x) - 1, min(len(x), _MARKS)).round().astype(int)
        ax.plot(x[some], y[some], ".", color="#222222", markersize=2.5, alpha=0.5)
    (line,) = ax.plot(panel.x, panel.mean, **style)
    ax.fill_between(
        panel.x, panel.mean - 2 * panel.sd, panel.mean + 2 * panel.sd, color=line.get_color(), alpha=0.2, linewidth=0
    )
    ax.set_title(panel.title, fontsize="small", loc="left")
    ax.set_xlabel(panel.column, fontsize="small") if panel.column != "x" else None
    ax.margins(x=0.0)
    ax.spines[["top", "right"]].set_visible(False)


def _of_one_column(model, X, y, resolution, margin):
    xs = _grid(X[:, 0], resolution, margin)
    mean, sd = model.predict(xs[:, None], return_std=True)
    yield Panel("the whole", xs, mean, sd, None if y is None else (X[:, 0], np.asarray(y, float)))
    for term in decompose(model, xs[:, None], centred=True):
        if term.name != "level":
            yield Panel(term.name, xs, term.mean, term.sd)


def _of_many_columns(model, X, resolution, margin):
    """Terms of one column over it, the others at their means, which do not matter to them."""
    panels, left_out = [], []
    for place, kernel in enumerate(additive_parts(model.kernel_)):
        if len(kernel.columns) != 1:
            left_out.append(shown(kernel))
            continue
        column = kernel.columns[0]
        rows = np.repeat(X.mean(axis=0)[None], resolution, axis=0)
        rows[:, column] = _grid(X[:, column], resolution, margin)
        term = [t for t in decompose(model, rows, centred=True) if t.kernel is not None][place]
        panels.append(Panel(term.name, rows[:, column], term.mean, term.sd, column=f"column {column}"))
    if not panels:
        raise ValueError(f"no term of {shown(model.kernel_)} reads one column alone; there is no curve to draw")
    return panels, left_out


def _grid(x, resolution, margin):
    room = margin * (float(np.ptp(x)) or 1.0)
    return np.linspace(x.min() - room, x.max() + room, resolution)

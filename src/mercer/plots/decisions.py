"""Decisions of a classifier over the plane: regions, boundaries, margins, probabilities and support vectors."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.plots.canvas import COLOURS, checked_labels, finished, one_axes, pale, plane_grid, some_rows

__all__ = ["DecisionRegionDisplay"]

_RESPONSES = ("auto", "decision_function", "predict_proba", "predict")
_SHADES = 22
_CLASSES = 10  # contours of more classes than colours would say nothing


class DecisionRegionDisplay:
    """What a classifier of two columns says on a grid xs (w,), ys (h,).

    values (h, w) : of two classes the decision or the probability of the second, of more the number of the class. response :
    which of them, "decision_function", "predict_proba" or "predict". classes : their names. levels : contours to draw.
    X (n, 2), y (n,) : rows to show with their classes. support (s, 2) : rows to circle.
    """

    def __init__(self, values, xs, ys, response, classes, *, levels=(), X=None, y=None, support=None):
        self.values, self.xs, self.ys = np.asarray(values), xs, ys
        self.response, self.classes, self.levels = response, list(classes), tuple(levels)
        self.X, self.y, self.support = X, y, support

    @classmethod
    def from_estimator(
        cls, model, X, y=None, *, response="auto", resolution=120, margin=0.15, support=None, ax=None, **style
    ):
        """Ask a fitted classifier around the rows X (n, 2), and plot.

        response : "auto" takes decisions of two classes where the model has them, else probabilities, and of more classes what
        is predicted. support : numbers of rows of X to circle; None: the model's support vectors, if it has some; (): none.
        """
        check_is_fitted(model)
        X = _plane(X)
        classes = _classes(model)
        response = _response(model, response, len(classes))
        xs, ys, grid = plane_grid(X, resolution, margin)
        values = _answers(model, grid, response, classes).reshape(resolution, resolution)
        return cls(values, xs, ys, response, classes, levels=_levels(model, response, len(classes)), X=X,
                   y=checked_labels(y, len(X)), support=_support(model, X, support)).plot(ax, **style)  # fmt: skip

    def plot(self, ax=None, *, colorbar=True, **style) -> "DecisionRegionDisplay":
        """Draw regions, contours, rows and circles; `style` goes to the marks of the rows."""
        ax = one_axes(ax)
        if self.response == "predict":
            self._regions(ax)
        else:
            self._shades(ax, colorbar)
        if self.X is not None:
            self._marks(ax, {"s": 16, "linewidths": 0.5, "edgecolors": "white", "zorder": 3, **style})
        if self.support is not None and len(self.support):
            ax.scatter(*self.support.T, s=60, facecolors="none", edgecolors="#222222", linewidths=0.9, zorder=4,
                       label=f"support vectors: {len(self.support)}")  # fmt: skip
        if ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=True, framealpha=0.85, fontsize="small")
        return finished(self, ax, framed=True)

    def _regions(self, ax):
        count = len(self.classes)
        edges = np.arange(count + 1) - 0.5
        ax.contourf(self.xs, self.ys, self.values, levels=edges, colors=[pale(COLOURS[c], 0.28) for c in range(count)])
        for c in range(count):  # each region has its own outline: half-way values between classes mean nothing
            inside = (self.values == c).astype(float)
            if 0 < inside.sum() < inside.size:
                ax.contour(self.xs, self.ys, inside, levels=[0.5], colors="#444444", linewidths=0.7)

    def _shades(self, ax, colorbar):
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.ticker import MaxNLocator

        middle = 0.5 if self.response == "predict_proba" else 0.0
        reach = 0.5 if middle else float(np.abs(self.values).max()) or 1.0
        cmap = LinearSegmentedColormap.from_list(
            "two classes", [pale(COLOURS[0], 0.75), "white", pale(COLOURS[1], 0.75)]
        )
        image = ax.contourf(
            self.xs, self.ys, self.values, levels=np.linspace(middle - reach, middle + reach, _SHADES), cmap=cmap
        )
        styles = ["-" if level == middle else "--" for level in self.levels]
        ax.contour(
            self.xs, self.ys, self.values, levels=self.levels, colors="#333333", linewidths=1.0, linestyles=styles
        )
        if colorbar:
            name = f"probability of {self.classes[1]}" if middle else "decision"
            ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04, label=name, ticks=MaxNLocator(5))

    def _marks(self, ax, style):
        if self.y is None:
            ax.scatter(*some_rows(self.X).T, **{"color": "#222222", **style})
            return
        for c, label in enumerate(self.classes):
            mine = some_rows(self.X[self.y == label])
            if len(mine):
                ax.scatter(*mine.T, **{"color": COLOURS[c], "label": str(label), **style})


def _plane(X):
    X = np.asarray(X, float)
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(f"decisions over the plane need rows with two columns, got X of shape {X.shape}")
    return X


def _classes(model):
    classes = getattr(model, "classes_", None)
    if classes is None:
        raise TypeError(f"this picture needs a classifier, and {type(model).__name__} has no classes_")
    if not 2 <= len(classes) <= _CLASSES:
        raise ValueError(f"this picture can tell 2 to {_CLASSES} classes apart, the model has {len(classes)}")
    return np.asarray(classes)


def _response(model, response, count):
    if response not in _RESPONSES:
        raise ValueError(f"response={response!r} must be one of {', '.join(_RESPONSES)}")
    if response == "auto":
        known = [name for name in ("decision_function", "predict_proba") if hasattr(model, name)]
        return known[0] if count == 2 and known else "predict"
    if response != "predict" and count > 2:
        raise ValueError(f'response="{response}" is one number for two classes, the model has {count}; use "predict"')
    if not hasattr(model, response):
        raise ValueError(f"{type(model).__name__} has no {response}; use another response")
    return response


def _answers(model, grid, response, classes):
    if response == "predict":
        return np.searchsorted(classes, model.predict(grid))
    found = np.asarray(getattr(model, response)(grid), float)
    return found if found.ndim == 1 else found[:, 1]


def _levels(model, response, count):
    """The boundary, and of machines with a margin its sides."""
    if response == "predict" or count > 2:
        return ()
    if response == "predict_proba":
        return (0.5,)
    return (-1.0, 0.0, 1.0) if hasattr(model, "support_vectors_") else (0.0,)


def _support(model, X, support):
    if support is not None:
        return X[np.asarray(support, int)]
    found = getattr(model, "support_vectors_", None)
    return found if getattr(found, "ndim", 0) == 2 and found.shape[1] == 2 else None

"""Pictures of components: functions over the plane (D12), rows in the plane of two components (D13), latent positions (D15)."""

from typing import Any

import numpy as np

from mercer.plots.canvas import COLOURS, axes_for, checked_labels, one_axes

__all__ = ["EigenfunctionsDisplay", "EmbeddingDisplay", "LatentSpaceDisplay"]


class EigenfunctionsDisplay:
    """Components of a transformer of two columns as contours over the plane.

    values (k, h, w): components on the grid xs (w,), ys (h,); X (n, 2): rows to show; titles (k,).
    """

    def __init__(self, values, xs, ys, X=None, titles=None):
        self.values, self.xs, self.ys, self.X, self.titles = values, xs, ys, X, titles

    @classmethod
    def from_estimator(cls, model, X, *, n_components=8, resolution=80, margin=0.15, axes=None, columns=4):
        """Evaluate the first components of a fitted `model` with a transform around the rows X (n, 2), and plot them."""
        X = np.asarray(X, float)
        if X.ndim != 2 or X.shape[1] != 2:
            raise ValueError(f"contours need rows with two columns, got X of shape {X.shape}")
        xs, ys, grid = _grid(X, resolution, margin)
        T = model.transform(grid)[:, :n_components]
        values = T.T.reshape(-1, resolution, resolution)
        return cls(values, xs, ys, X, _titles(model, len(values))).plot(axes=axes, columns=columns)

    def plot(self, axes=None, columns=4) -> "EigenfunctionsDisplay":
        """Draw one picture a component."""
        self.axes_ = axes_for(len(self.values), columns, (2.6, 2.4), axes)
        for j, ax in enumerate(self.axes_):
            peak = float(np.abs(self.values[j]).max()) or 1.0
            ax.contourf(self.xs, self.ys, self.values[j], levels=np.linspace(-peak, peak, 22), cmap="RdBu_r")
            ax.contour(self.xs, self.ys, self.values[j], levels=[0.0], colors="#444444", linewidths=0.7)
            if self.X is not None:
                ax.plot(*self.X.T, ".", color="#222222", markersize=2.5)
            ax.set(xticks=[], yticks=[], title=self.titles[j] if self.titles else "", aspect="equal")
        self.figure_ = self.axes_[0].figure
        return self


def _grid(X, resolution, margin):
    """Coordinates (r,) of columns and lines of a grid around points (n, 2), and its points (r * r, 2), line by line."""
    low, high = X.min(axis=0), X.max(axis=0)
    room = margin * np.maximum(high - low, 1e-12)
    xs, ys = (np.linspace(low[j] - room[j], high[j] + room[j], resolution) for j in range(2))
    return xs, ys, np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _titles(model, count):
    share = getattr(model, "explained_variance_ratio_", None)
    if share is None:
        return [f"component {j + 1}" for j in range(count)]
    return [f"{j + 1}: {100 * share[j]:.2g} %" for j in range(count)]


class EmbeddingDisplay:
    """Rows as points in the plane of two components. T (n, 2); labels (n,): their classes; names: of the two axes."""

    def __init__(self, T, labels=None, names=("component 1", "component 2")):
        self.T, self.labels, self.names = np.asarray(T, float), checked_labels(labels, len(T)), names

    @classmethod
    def from_estimator(cls, model, X, labels=None, *, components=(0, 1), ax=None, **style):
        """Transform the rows X by a fitted model and plot two components."""
        T = np.asarray(model.transform(X))
        if max(components) >= T.shape[1]:
            raise ValueError(f"components={components} are asked for, but the model has {T.shape[1]}")
        names = tuple(f"component {c + 1}" for c in components)
        return cls(T[:, list(components)], labels, names).plot(ax, **style)

    def plot(self, ax=None, **style) -> "EmbeddingDisplay":
        """Draw the points; `style` goes to scatter."""
        ax = one_axes(ax)
        style = {"s": 14, "linewidths": 0, **style}
        if self.labels is None:
            ax.scatter(*self.T.T, **{"color": COLOURS[0], **style})
        else:
            for c, label in enumerate(np.unique(self.labels)):
                mine: Any = self.T[self.labels == label]
                ax.scatter(*mine.T, **{"color": COLOURS[c % len(COLOURS)], "label": str(label), **style})
            ax.legend(frameon=False, fontsize="small")
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.spines[["top", "right"]].set_visible(False)
        self.axes_, self.figure_ = np.array([ax], dtype=object), ax.figure
        return self


class LatentSpaceDisplay(EmbeddingDisplay):
    """Latent positions on a map of how uncertain rows are there: the darker, the less is known.

    T (n, 2), labels (n,), names: as in `EmbeddingDisplay`. uncertainty (h, w): log of the standard deviation of rows, the root
    of the mean over their columns' variances, on the grid xs (w,), ys (h,).
    """

    def __init__(self, T, uncertainty, xs, ys, labels=None, names=("position 1", "position 2")):
        super().__init__(T, labels, names)
        self.uncertainty, self.xs, self.ys = np.asarray(uncertainty, float), xs, ys

    @classmethod
    def from_estimator(cls, model, labels=None, *, components=(0, 1), resolution=80, margin=0.1, ax=None, **style):
        """Plot the positions of a fitted `GPLVM` of two columns or more; the others are at their means on the map."""
        X = np.asarray(model.embedding_, float)
        if X.shape[1] < 2:
            raise ValueError(f"the picture is of two columns of positions, but the model has {X.shape[1]}")
        if max(components) >= X.shape[1]:
            raise ValueError(f"components={components} are asked for, but the model has {X.shape[1]}")
        chosen = list(components)
        xs, ys, grid = _grid(X[:, chosen], resolution, margin)
        at = np.tile(X.mean(axis=0), (len(grid), 1))
        at[:, chosen] = grid
        std = model.inverse_transform(at, return_std=True)[1] / model.scale_
        logs = 0.5 * np.log(np.square(std).mean(axis=1)).reshape(resolution, resolution)
        names = tuple(f"position {c + 1}" for c in components)
        return cls(X[:, chosen], logs, xs, ys, labels, names).plot(ax, **style)

    def plot(self, ax=None, **style) -> "LatentSpaceDisplay":
        """Draw the map and the points; `style` goes to scatter."""
        ax = one_axes(ax)
        # The darkest grey is not black, so that points of all colours are seen on it.
        low, high = float(self.uncertainty.min()), float(self.uncertainty.max())
        self.image_ = ax.pcolormesh(self.xs, self.ys, self.uncertainty, cmap="Greys", vmin=low, vmax=high + 0.6 * (high - low),
                                    shading="gouraud", rasterized=True)  # fmt: skip
        super().plot(ax, **{"edgecolors": "white", "linewidths": 0.4, "s": 20, **style})
        return self

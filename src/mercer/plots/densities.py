"""Pictures of densities: over a line or a plane (D7), of a target given a row (D10), and scores of bandwidths."""

import numpy as np

from mercer.plots.canvas import COLOURS, finished, line_grid, one_axes, pale, plane_grid, some_rows

__all__ = ["BandwidthDisplay", "ConditionalDensityDisplay", "DensityDisplay"]


class DensityDisplay:
    """A density on a grid: values (w,) over xs (w,), or values (h, w) over xs and ys (h,). X (n, d): rows to show."""

    def __init__(self, values, xs, ys=None, X=None):
        self.values, self.xs, self.ys, self.X = values, xs, ys, X

    @classmethod
    def from_estimator(cls, model, X, *, resolution=None, margin=0.25, ax=None, **style):
        """Evaluate `score_samples` of a fitted model around rows X (n, 1) or (n, 2), and plot the density.

        resolution : points of the grid in each direction; 500 on a line and 100 in the plane unless told.
        margin : how far the grid goes beyond the rows, as a share of their range.
        """
        X = np.asarray(X, float)
        if X.ndim != 2 or X.shape[1] not in (1, 2):
            raise ValueError(f"a picture of a density needs rows with one or two columns, got X of shape {X.shape}")
        if X.shape[1] == 1:
            xs = line_grid(X, resolution or 500, margin)
            return cls(np.exp(model.score_samples(xs[:, None])), xs, X=X).plot(ax, **style)
        xs, ys, grid = plane_grid(X, resolution or 100, margin)
        return cls(np.exp(model.score_samples(grid)).reshape(len(ys), len(xs)), xs, ys, X=X).plot(ax, **style)

    def plot(self, ax=None, *, rug=True, label=None, levels=9, **style) -> "DensityDisplay":
        """Draw a curve with marks at the rows, or contours with the rows; `style` goes to the curve or the contours."""
        ax = one_axes(ax)
        if self.ys is None:
            self._curve(ax, rug, label, {"color": COLOURS[0], **style})
        else:
            self._contours(ax, rug, levels, {"cmap": "Blues", **style})
        return finished(self, ax, framed=self.ys is not None)

    def _curve(self, ax, rug, label, style):
        (line,) = ax.plot(self.xs, self.values, label=label, **style)
        ax.fill_between(self.xs, self.values, color=line.get_color(), alpha=0.15, linewidth=0)
        if rug and self.X is not None:  # the height of the marks is a share of the axes, whatever the density
            ax.plot(some_rows(self.X[:, 0]), np.full(len(some_rows(self.X)), 0.02), "|", color="#444444", markersize=7, alpha=0.6,
                    transform=ax.get_xaxis_transform())  # fmt: skip
        ax.set_ylim(bottom=0.0)
        ax.set(ylabel="density")

    def _contours(self, ax, rug, levels, style):
        top = float(self.values.max()) or 1.0
        heights = np.linspace(0.0, top, levels + 1)
        ax.contourf(self.xs, self.ys, self.values, levels=heights, **style)
        ax.contour(self.xs, self.ys, self.values, levels=heights[1:-1], colors="#444444", linewidths=0.5)
        if rug and self.X is not None:
            ax.plot(*some_rows(self.X).T, ".", color="#222222", markersize=3, alpha=0.7)


class ConditionalDensityDisplay:
    """A target given one column: the mean (m,) over xs (m,), and bands that hold given shares of the distribution.

    lower, upper : (m, b), ends of the bands; levels (b,): what they hold, the widest first. X, t (n,): points to show.
    """

    def __init__(self, xs, mean, lower, upper, levels, X=None, t=None):
        self.xs, self.mean, self.lower, self.upper, self.levels = xs, mean, lower, upper, levels
        self.X, self.t = X, t

    @classmethod
    def from_estimator(cls, model, X, t, *, levels=(0.9, 0.5), resolution=300, margin=0.0, ax=None, **style):
        """Ask a fitted model with `predict_quantiles` (NadarayaWatson, MixtureRegression) around rows X (n, 1), and plot.

        levels : shares that the bands hold; 0.9 goes from the 5 % to the 95 % quantile.
        """
        X, t = one_column(X, t)
        levels = checked_levels(levels)
        xs = line_grid(X, resolution, margin)
        mean = np.ravel(model.predict(xs[:, None]))
        bands = model.predict_quantiles(xs[:, None], np.concatenate([0.5 - levels / 2, 0.5 + levels / 2]))
        return cls(xs, mean, bands[:, : len(levels)], bands[:, len(levels) :], levels, X[:, 0], t).plot(ax, **style)

    def plot(self, ax=None, *, points=True, label="mean", **style) -> "ConditionalDensityDisplay":
        """Draw the bands, the mean and the points; `style` goes to the curve of the mean."""
        ax = one_axes(ax)
        (line,) = ax.plot(
            self.xs, self.mean, **{"color": COLOURS[0], "linewidth": 1.8, "zorder": 3, "label": label, **style}
        )
        for b, level in enumerate(self.levels):
            shade = pale(line.get_color(), min(0.18 + 0.22 * b, 0.8))
            ax.fill_between(self.xs, self.lower[:, b], self.upper[:, b], color=shade, linewidth=0,
                            label=f"{100 * level:.3g} %", zorder=1 + 0.01 * b)  # fmt: skip
        if points and self.X is not None:
            ax.plot(some_rows(self.X), some_rows(self.t), ".", color="#222222", markersize=4, alpha=0.7, zorder=2)
        ax.legend(frameon=False, fontsize="small")
        return finished(self, ax)


def one_column(X, t):
    """Rows (n, 1) and their targets (n,)."""
    X, t = np.asarray(X, float), np.asarray(t, float).ravel()
    if X.ndim != 2 or X.shape[1] != 1 or len(t) != len(X):
        raise ValueError(f"this picture needs rows with one column and one target each, got {X.shape} and {t.shape}")
    return X, t


def checked_levels(levels) -> np.ndarray:
    """Shares that bands hold, the widest first."""
    levels = np.sort(np.atleast_1d(np.asarray(levels, float)))[::-1]
    if not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"levels={levels.tolist()} must lie between 0 and 1")
    return levels


class BandwidthDisplay:
    """Scores (b,) of bandwidths (b,), and the chosen bandwidth, by default that of the best score."""

    def __init__(self, bandwidths, scores, chosen=None, largest=True):
        self.bandwidths, self.scores = np.asarray(bandwidths, float), np.asarray(scores, float)
        if self.bandwidths.ndim != 1 or self.bandwidths.shape != self.scores.shape:
            raise ValueError(
                f"bandwidths {self.bandwidths.shape} and scores {self.scores.shape} must be two lists of one length"
            )
        if not np.isfinite(self.scores).any():
            raise ValueError("none of the scores is a finite number")
        known = np.where(np.isfinite(self.scores), self.scores, -np.inf if largest else np.inf)
        best = int(np.argmax(known) if largest else np.argmin(known))
        self.chosen, self.largest = float(self.bandwidths[best]) if chosen is None else float(chosen), largest

    @classmethod
    def from_scores(cls, bandwidths, scores, *, chosen=None, largest=True, ax=None, **style):
        """Plot scores, as of `mercer.bandwidth_scores`. largest : whether a large score is good."""
        return cls(bandwidths, scores, chosen, largest).plot(ax, **style)

    def plot(self, ax=None, *, ylabel="score", **style) -> "BandwidthDisplay":
        """Draw the curve and mark the chosen bandwidth; scores that are not finite are left out."""
        ax = one_axes(ax)
        order = np.argsort(self.bandwidths)
        h, score = self.bandwidths[order], self.scores[order]
        shown = np.isfinite(score)
        ax.plot(h[shown], score[shown], **{"color": COLOURS[0], "marker": ".", **style})
        if h[0] > 0 and h[-1] > 10 * h[0]:
            ax.set_xscale("log")
        at = np.interp(self.chosen, h[shown], score[shown])
        ax.axvline(self.chosen, color="#888888", linewidth=0.8, linestyle="--", zorder=0)
        ax.plot([self.chosen], [at], "o", color=COLOURS[1], zorder=3, label=f"{self.chosen:.3g}")
        ax.legend(frameon=False, fontsize="small", title="chosen", title_fontsize="small")
        ax.set(xlabel="bandwidth", ylabel=ylabel)
        return finished(self, ax)

"""Pictures of tests of hypotheses: what chance gives, and what was found; where two samples differ."""

import numpy as np

from mercer.plots.canvas import COLOURS, finished, line_grid, one_axes

__all__ = ["NullDistributionDisplay", "WitnessDisplay"]


class NullDistributionDisplay:
    """The distribution of a statistic where the hypothesis holds, with the threshold and the statistic that was found.

    test : what `mercer.mmd_test` or `mercer.hsic_test` gave.
    """

    def __init__(self, test):
        self.test = test

    @classmethod
    def from_test(cls, test, *, ax=None, **style):
        """Plot a test."""
        return cls(test).plot(ax, **style)

    def plot(self, ax=None, *, bins=40, **style) -> "NullDistributionDisplay":
        """Draw a histogram of the draws, or the curve of the density; `style` goes to it."""
        ax, test = one_axes(ax), self.test
        style = {"color": COLOURS[0], "alpha": 0.35, **style}
        if test.null_sample is not None:
            ax.hist(test.null_sample, bins=bins, density=True, **style)
        elif test.null_distribution is not None:
            low, high = test.null_distribution.ppf([1e-3, 1 - 1e-3])
            xs = np.linspace(low, high, 400)[1:]
            ax.fill_between(xs, test.null_distribution.pdf(xs), linewidth=0, **style)
        ax.margins(x=0.08)
        ax.locator_params(axis="x", nbins=6)
        ax.set_ylim(0.0, 1.3 * ax.get_ylim()[1])  # room for the legend above everything
        line = {"ymax": 0.78, "linewidth": 2.0}
        ax.axvline(test.threshold, color="#555555", linestyle="--", label=f"threshold at level {test.level:g}", **line)
        ax.axvline(test.statistic, color=COLOURS[1], label=f"found, p = {test.p_value:.2g}", **line)
        squared = "MMD²" if test.name == "MMD" else "HSIC"
        ax.set(xlabel=f"{squared}, {test.estimator}", ylabel="density", title=f"what chance gives, by {test.method}")
        ax.legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
        return finished(self, ax)


class WitnessDisplay:
    """Where two samples of numbers differ: the witness function (w,) over xs (w,); X, Y: the samples, shown as marks."""

    def __init__(self, xs, values, X=None, Y=None):
        self.xs, self.values, self.X, self.Y = xs, values, X, Y

    @classmethod
    def from_test(cls, test, X, Y, *, resolution=300, ax=None, **style):
        """Evaluate `test.witness` between the smallest and the largest number of X (n,) and Y (m,), and plot it."""
        X, Y = (np.asarray(side, float) for side in (X, Y))
        if any(side.ndim > 2 or side.size != len(side) for side in (X, Y)):
            raise ValueError(f"a picture of the witness needs rows of one column, got shapes {X.shape} and {Y.shape}")
        both = np.concatenate([X.ravel(), Y.ravel()])
        xs = line_grid(both, resolution, 0.1)
        return cls(xs, test.witness(xs[:, None]), X.ravel(), Y.ravel()).plot(ax, **style)

    def plot(self, ax=None, **style) -> "WitnessDisplay":
        """Draw the function, and the samples as marks above and below; `style` goes to the curve."""
        ax = one_axes(ax)
        ax.axhline(0.0, color="#aaaaaa", linewidth=0.8)
        ax.plot(self.xs, self.values, **{"color": "#333333", **style})
        for sign, (side, name) in zip((1, -1), ((self.X, "X"), (self.Y, "Y")), strict=True):
            colour = COLOURS[0 if sign > 0 else 1]
            more = np.maximum(sign * self.values, 0.0)
            ax.fill_between(self.xs, sign * more, color=colour, alpha=0.3, linewidth=0, label=f"more of {name}")
            if side is not None:
                at = 0.97 if sign > 0 else 0.03
                ax.plot(side, np.full(len(side), at), "|", color=colour, alpha=0.5, transform=ax.get_xaxis_transform())
        ax.margins(y=0.14)
        ax.set(xlabel="x", ylabel="witness")
        ax.legend(frameon=False, fontsize="small")
        return finished(self, ax)

"""A kernel as a function of one number, and functions that it calls likely."""

import numpy as np

from mercer.diagnostics.matrices import eigenpairs, psd_tolerance, refuse_indefinite
from mercer.plots.canvas import COLOURS, axes_for
from mercer.random import generator

__all__ = ["KernelFunctionDisplay"]

_POINTS = 1000  # at most: draws need the eigenvectors of so many rows
_CURVES = 100  # drawn functions, at most


class KernelFunctionDisplay:
    """k(x, x0) over xs (m,) for several x0: values (m, c), at (c,). draws (m, s): functions of the Gaussian process."""

    def __init__(self, xs, values, at, draws=None, name=""):
        self.xs, self.values, self.at, self.draws, self.name = xs, np.asarray(values), np.asarray(at), draws, name

    @classmethod
    def from_kernel(
        cls, kernel, at=(0.0,), *, low=-3.0, high=3.0, resolution=300, draws=0, random_state=0, axes=None, **style
    ):
        """Evaluate a kernel of one column between low and high, and plot. draws : so many functions of the process as well."""
        at = np.atleast_1d(np.asarray(at, float))
        if at.ndim != 1 or not np.isfinite(at).all() or not len(at):
            raise ValueError(f"at={at.tolist()} must be a list of numbers")
        if not (np.isfinite([low, high]).all() and low < high):
            raise ValueError(f"low={low} must be a number below high={high}")
        if not 2 <= resolution <= _POINTS:
            raise ValueError(f"resolution={resolution} must lie between 2 and {_POINTS}")
        if not 0 <= draws <= _CURVES:
            raise ValueError(f"draws={draws} must lie between 0 and {_CURVES}")
        if kernel.reads not in ("vectors", "gaps", "any"):
            raise TypeError(f"{kernel!r} reads {kernel.reads}; this picture is of kernels of numbers")
        xs = np.linspace(low, high, resolution)
        functions = _draws(kernel, xs, draws, random_state) if draws else None
        return cls(xs, kernel(xs[:, None], at[:, None]), at, functions, repr(kernel)).plot(axes, **style)

    def plot(self, axes=None, **style) -> "KernelFunctionDisplay":
        """Draw the functions k(., x0), and on axes of their own the draws; `style` goes to all curves."""
        self.axes_ = axes_for(1 if self.draws is None else 2, 2, (4.6, 3.2), axes)
        self.figure_ = self.axes_[0].figure
        for c, place in enumerate(self.at):
            self._curve(self.axes_[0], self.values[:, c], c, {"label": f"x0 = {place:.3g}", **style})
        self.axes_[0].legend(frameon=False, fontsize="small")
        self.axes_[0].set(xlabel="x", ylabel="k(x, x0)", title=_cut(self.name))
        if self.draws is not None:
            for c, f in enumerate(self.draws.T):
                self._curve(self.axes_[1], f, c, style)
            self.axes_[1].set(xlabel="x", ylabel="f(x)", title="functions drawn from the process")
        return self

    def _curve(self, ax, values, c, style):
        ax.plot(self.xs, values, **{"color": COLOURS[c % len(COLOURS)], "linewidth": 1.4, **style})
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_fontsize("medium")


def _draws(kernel, xs, count, random_state):
    """Draws (m, s) of a Gaussian process with mean 0, by the square root of its covariance."""
    K = kernel(xs[:, None])
    values, vectors = eigenpairs(K)
    refuse_indefinite(float(values[0]), psd_tolerance(K.diagonal(), K.dtype), "a draw of functions")
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return root @ generator(random_state).standard_normal((len(xs), count))


def _cut(name):
    return name if len(name) <= 50 else name[:47] + "..."

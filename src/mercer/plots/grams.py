"""Gram matrices as pictures: the entries, with rows put in an order that shows their structure, and the eigenvalues."""

import numpy as np

from mercer.diagnostics.matrices import eigenvalues, number, psd_tolerance, square, symmetric
from mercer.gram import gram
from mercer.gram.plan import budget, require
from mercer.plots.canvas import COLOURS, checked_labels, finished, one_axes, some_rows

__all__ = ["ClusteredGramDisplay", "GramDisplay", "SpectrumDisplay"]

_PIXELS = 600  # a side; of more rows, evenly spread ones are shown
_ROWS = 1000  # of which eigenvalues are computed


class GramDisplay:
    """K (m, m), the entries of m rows of the n that there are. order (m,): their numbers. labels (m,): blocks."""

    def __init__(self, K, order, n, labels=None):
        self.K, self.order, self.n, self.labels = np.asarray(K), np.asarray(order), int(n), labels

    @classmethod
    def from_kernel(cls, kernel, X, labels=None, *, by=None, ax=None, cmap="viridis"):
        """The Gram matrix of rows X; of more than 600 rows, 600 evenly spread ones of the order that is shown.

        labels (n,) : rows of one label are put beside one another, with lines between labels. by (n,) : numbers that rows are
        sorted by, such as their targets. Without both, rows keep their order.
        """
        K = kernel.gram(X)
        order, labels = _order(K.shape[0], labels, by)
        return cls(K.block(order, order), order, K.shape[0], labels).plot(ax, cmap)

    @classmethod
    def from_gram(cls, K, labels=None, *, by=None, ax=None, cmap="viridis"):
        """A Gram matrix (n, n) that is known."""
        K = square(K)
        order, labels = _order(len(K), labels, by)
        return cls(K[np.ix_(order, order)], order, len(K), labels).plot(ax, cmap)

    def plot(self, ax=None, cmap="viridis"):
        """Draw the matrix, a colour bar, and lines between blocks. Rows that are left out are told in the title."""
        ax = one_axes(ax)
        image = ax.imshow(self.K, cmap=cmap, interpolation="nearest")
        ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
        if self.labels is not None:
            self._blocks(ax)
        if len(self.order) < self.n:
            ax.set_title(f"{len(self.order)} of {self.n} rows", fontsize="medium")
        return finished(self, ax, framed=True)

    def _blocks(self, ax):
        starts = np.flatnonzero(self.labels[1:] != self.labels[:-1]) + 0.5
        for edge in starts:
            ax.axhline(edge, color="white", linewidth=1.0)
            ax.axvline(edge, color="white", linewidth=1.0)
        middles = (np.r_[-0.5, starts] + np.r_[starts, len(self.labels) - 0.5]) / 2
        names = [str(label) for label in self.labels[np.round(middles).astype(int).clip(0)]]
        ax.set(xticks=middles, yticks=middles, xticklabels=names, yticklabels=names)


class ClusteredGramDisplay(GramDisplay):
    """A `GramDisplay` whose rows are put together by cluster: labels (n,) must be given."""

    @classmethod
    def from_kernel(cls, kernel, X, labels, **settings):
        """The Gram matrix of rows X, those of one label beside one another."""
        return super().from_kernel(kernel, X, labels, **settings)

    @classmethod
    def from_gram(cls, K, labels, **settings):
        """A Gram matrix (n, n) that is known."""
        return super().from_gram(K, labels, **settings)


def _order(n, labels, by):
    """Numbers of the rows to show, and their labels or None."""
    if labels is not None and by is not None:
        raise ValueError("labels and by are two orders of the rows; give one of them")
    if by is not None and np.shape(by) != (n,):
        raise ValueError(f"by has shape {np.shape(by)}, but there are {n} rows")
    labels = checked_labels(labels, n)
    key = by if by is not None else labels if labels is not None else np.zeros(n)
    order = some_rows(np.argsort(np.asarray(key), kind="stable"), _PIXELS)
    return order, None if labels is None else labels[order]


class SpectrumDisplay:
    """Eigenvalues (m,), descending, of the Gram matrix of m rows of the n that there are, on a logarithmic axis.

    tolerance : what rounding may make of an eigenvalue 0. alpha : regularisation, or None. With it `effective_dimension_` is
    the sum of value / (value + alpha): how many directions ridge regression uses.
    """

    def __init__(self, values, n=None, tolerance=0.0, alpha=None):
        self.values = np.sort(np.asarray(values, float))[::-1]
        self.n, self.tolerance = len(self.values) if n is None else int(n), float(tolerance)
        self.alpha = None if alpha is None else number("alpha", alpha, positive=True)
        kept = np.maximum(self.values, 0.0)
        self.effective_dimension_ = None if self.alpha is None else float((kept / (kept + self.alpha)).sum())

    @classmethod
    def from_kernel(cls, kernel, X, *, alpha=None, rows=_ROWS, ax=None, **style):
        """Eigenvalues of a kernel's Gram matrix on X; of more than `rows` rows, on so many evenly spread ones."""
        K = gram(kernel, X)
        n, some = K.shape[0], some_rows(np.arange(K.shape[0]), rows)
        require(
            16 * len(some) ** 2, budget(), f"the eigenvalues of {len(some)} rows", ["fewer rows, for example rows=500"]
        )
        return cls._of(K.block(some, some), n, alpha).plot(ax, **style)

    @classmethod
    def from_gram(cls, K, *, alpha=None, ax=None, **style):
        """Eigenvalues of a Gram matrix (n, n) that is known."""
        K = symmetric(K)
        return cls._of(K, len(K), alpha).plot(ax, **style)

    @classmethod
    def _of(cls, K, n, alpha):
        return cls(eigenvalues(K), n, psd_tolerance(K.diagonal(), K.dtype), alpha)

    def plot(self, ax=None, **style) -> "SpectrumDisplay":
        """Draw the sizes of the eigenvalues, those below zero in another colour; `style` goes to the marks."""
        ax, size = one_axes(ax), np.abs(self.values)
        ax.set(yscale="log", xlabel="number", ylabel="eigenvalue")
        self._marks(ax, self.values > 0, {"color": COLOURS[0], "markersize": 3, **style})
        self._marks(
            ax, self.values < 0, {"color": COLOURS[1], "label": "below zero, its size", "markersize": 3, **style}
        )
        if self.tolerance > 0 and size.min() < self.tolerance:
            grey = {"color": "#bbbbbb", "alpha": 0.35, "linewidth": 0, "zorder": 0}
            ax.axhspan(ax.get_ylim()[0], self.tolerance, label="rounding", **grey)
        if self.alpha is not None:
            told = f"alpha = {self.alpha:.3g}: effective dimension {self.effective_dimension_:.3g}"
            ax.axhline(self.alpha, color="#555555", linestyle="--", linewidth=1.0, label=told)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False, fontsize="small")
        of = f"{len(self.values)} of {self.n} rows" if len(self.values) < self.n else f"{self.n} rows"
        ax.set_title(f"eigenvalues of the Gram matrix of {of}", fontsize="medium")
        return finished(self, ax)

    def _marks(self, ax, mine, style):
        if mine.any():
            ax.plot(np.flatnonzero(mine) + 1, np.abs(self.values[mine]), ".", **style)

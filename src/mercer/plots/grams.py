"""A Gram matrix as a picture, its rows put together by cluster."""

import numpy as np

from mercer.plots.canvas import checked_labels, one_axes

__all__ = ["ClusteredGramDisplay"]

_PIXELS = 600  # a side; of more rows, evenly spread ones are shown


class ClusteredGramDisplay:
    """K (m, m), reordered by labels (m,), with a line between clusters. order (m,): the rows shown."""

    def __init__(self, K, labels, order):
        self.K, self.labels, self.order = K, labels, order

    @classmethod
    def from_kernel(cls, kernel, X, labels, *, ax=None, cmap="viridis"):
        """Gram matrix of rows X, those of one label beside one another; of more than 600 rows, 600 evenly spread ones."""
        K = kernel.gram(X)
        labels = checked_labels(labels, K.shape[0])
        order = _spread(np.argsort(labels, kind="stable"))
        return cls(K.block(order, order), labels[order], order).plot(ax, cmap)

    @classmethod
    def from_gram(cls, K, labels, *, ax=None, cmap="viridis"):
        """A Gram matrix (n, n) that is known."""
        K = np.asarray(K)
        if K.ndim != 2 or K.shape[0] != K.shape[1]:
            raise ValueError(f"K has shape {K.shape}, expected a square Gram matrix")
        labels = checked_labels(labels, len(K))
        order = _spread(np.argsort(labels, kind="stable"))
        return cls(K[np.ix_(order, order)], labels[order], order).plot(ax, cmap)

    def plot(self, ax=None, cmap="viridis") -> "ClusteredGramDisplay":
        """Draw the matrix, a colour bar, and lines between clusters."""
        ax = one_axes(ax)
        image = ax.imshow(self.K, cmap=cmap, interpolation="nearest")
        ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04)
        starts = np.flatnonzero(self.labels[1:] != self.labels[:-1]) + 0.5
        for edge in starts:
            ax.axhline(edge, color="white", linewidth=1.0)
            ax.axvline(edge, color="white", linewidth=1.0)
        middles = (np.r_[-0.5, starts] + np.r_[starts, len(self.labels) - 0.5]) / 2
        names = [str(label) for label in self.labels[np.round(middles).astype(int).clip(0)]]
        ax.set(xticks=middles, yticks=middles, xticklabels=names, yticklabels=names)
        self.axes_, self.figure_ = np.array([ax], dtype=object), ax.figure
        return self


def _spread(order):
    if len(order) <= _PIXELS:
        return order
    return order[np.linspace(0, len(order) - 1, _PIXELS).astype(int)]

"""Strips of images: one row of pictures for each kind, one column for each object (D16)."""

import numpy as np

from mercer.plots.canvas import axes_for

__all__ = ["ImageStripDisplay"]


class ImageStripDisplay:
    """Images (kinds, m, h, w) as a grid: a named row for each kind, such as clean, noisy and denoised."""

    def __init__(self, images, names):
        self.images, self.names = np.asarray(images), list(names)

    @classmethod
    def from_rows(cls, rows: dict, shape=None, *, axes=None, cmap="gray_r"):
        """rows: name -> (m, h * w) flat images. shape: (h, w); by default square."""
        flat = {name: np.asarray(X, float) for name, X in rows.items()}
        sizes = {X.shape for X in flat.values()}
        if len(sizes) != 1 or len(next(iter(sizes))) != 2:
            raise ValueError(f"all kinds need as many images of one size; found shapes {sorted(sizes)}")
        m, d = next(iter(sizes))
        side = int(np.sqrt(d))
        h, w = shape or (side, side)
        if h * w != d:
            raise ValueError(f"images of {d} numbers are not {h} x {w}; pass shape=(h, w)")
        return cls([X.reshape(m, h, w) for X in flat.values()], flat).plot(axes, cmap)

    def plot(self, axes=None, cmap="gray_r") -> "ImageStripDisplay":
        """Draw all images on the scale of the first kind."""
        kinds, m = self.images.shape[:2]
        low, high = self.images[0].min(), self.images[0].max()
        self.axes_ = axes_for(kinds * m, m, (0.8, 0.9), axes).reshape(kinds, m)
        for i in range(kinds):
            for j, ax in enumerate(self.axes_[i]):
                ax.imshow(self.images[i, j], cmap=cmap, vmin=low, vmax=high, interpolation="nearest")
                ax.set(xticks=[], yticks=[])
            self.axes_[i, 0].set_ylabel(self.names[i], rotation=0, ha="right", va="center", fontsize="small")
        self.figure_ = self.axes_[0, 0].figure
        return self

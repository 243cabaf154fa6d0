"""Parzen windows: a boxcar and a Gaussian around each of a few points, narrow and wide, and how a width is chosen.

Narrow windows show the points, wide ones hide them; boxcars make steps, Gaussians do not. The likelihood of points that are left
out is best in between. Parzen (1962). Run `python examples/plot_parzen_windows.py`; pictures are written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelDensity, bandwidth_scores
from mercer.plots import BandwidthDisplay, DensityDisplay


def two_hills(n=150, seed=0):
    """Draws from two normal distributions."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.4, rng.normal(-2, 0.6, n), rng.normal(1.5, 1.0, n))[:, None]


def windows(points, path):
    """Rows of pictures are windows, columns are bandwidths."""
    _, axes = plt.subplots(2, 2, figsize=(8, 5), layout="constrained", sharex=True, sharey=True)
    for row, kernel in zip(axes, ("boxcar", "gaussian"), strict=True):
        for ax, h in zip(row, (1.0, 2.5), strict=True):
            model = KernelDensity(h, kernel=kernel).fit(points)
            DensityDisplay.from_estimator(model, points, margin=0.8, resolution=1000, ax=ax)
            ax.set_title(f"{kernel}, h = {h:g}", fontsize="medium")
            ax.label_outer()
    axes[0, 0].figure.savefig(path, dpi=120)


def choice(X, path):
    """Scores of bandwidths, and the density at the best."""
    h = np.geomspace(0.05, 3.0, 40)
    scores = bandwidth_scores(X, h)
    best = h[np.argmax(scores)]
    print(f"the points that are left out are likeliest at h = {best:.2g}")
    _, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    BandwidthDisplay.from_scores(h, scores, ax=axes[0], ylabel="mean log density, left out")
    DensityDisplay.from_estimator(KernelDensity(best).fit(X), X, ax=axes[1])
    axes[0].figure.savefig(path, dpi=120)


def main(out=Path("out")):
    out.mkdir(parents=True, exist_ok=True)
    windows(np.array([[-2.1], [-1.3], [-0.4], [1.9], [5.1], [6.2]]), out / "parzen_windows.png")
    choice(two_hills(), out / "parzen_bandwidth.png")
    print(f"pictures: {out / 'parzen_windows.png'}, {out / 'parzen_bandwidth.png'}")


if __name__ == "__main__":
    main()

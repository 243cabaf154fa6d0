"""The windows of smoothing on one axis: at the same bandwidth, and at bandwidths that smooth alike.

A window is the density of a single row at 0. With h = 1 those that end do so at 1, and the Gaussian has standard deviation 1; the
canonical bandwidths of Marron & Nolan (1988) make them comparable, and then they hardly differ.
Run `python examples/plot_smoothing_windows.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelDensity
from mercer.plots.canvas import COLOURS

KERNELS = ("boxcar", "triangular", "epanechnikov", "biweight", "tricube", "cosine", "gaussian")


def window(kernel, h, u):
    """The window at u, as a density."""
    return np.exp(KernelDensity(h, kernel=kernel).fit([[0.0]]).score_samples(u[:, None]))


def canonical(kernel):
    """The bandwidth at which the window smooths as the standard normal density does: of the integrals of k² and u² k."""
    u = np.linspace(-8, 8, 200_001)

    def ratio(name):
        k = window(name, 1.0, u)
        return ((k**2).mean() / 16 / ((u**2 * k).mean() ** 2)) ** 0.2

    return ratio(kernel) / ratio("gaussian")


def main(out=Path("out")):
    _, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharex=True)
    u = np.linspace(-3.2, 3.2, 1001)
    for colour, kernel in zip(COLOURS, KERNELS, strict=False):
        h = canonical(kernel)
        axes[0].plot(u, window(kernel, 1.0, u), color=colour, label=kernel)
        axes[1].plot(u, window(kernel, h, u), color=colour, label=f"h = {h:.3g}")
        print(f"{kernel:>12}: smooths as the Gaussian at h = {h:.3f}")
    for ax, title in zip(axes, ("h = 1", "smoothing alike"), strict=True):
        ax.set(title=title, ylim=(0, None), xlabel="distance")
        ax.legend(frameon=False, fontsize="small", loc="upper left")
        ax.spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    axes[0].figure.savefig(out / "smoothing_windows.png", dpi=120)
    print(f"picture: {out / 'smoothing_windows.png'}")


if __name__ == "__main__":
    main()

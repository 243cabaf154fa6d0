"""Windows of smoothing
====================

Does it matter which window smooths? Hardly, at equal smoothing. With h = 1 windows that end do so at 1, and the
Gaussian has standard deviation 1; the canonical bandwidths of Marron & Nolan (1988) make them comparable, and then all
but the boxcar are much alike.

:Gallery: D8
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelDensity
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

KERNELS = ("boxcar", "triangular", "epanechnikov", "biweight", "tricube", "cosine", "gaussian")
#: Bandwidths at which a window smooths as the Gaussian of h = 1 does.
KNOWN = {"boxcar": 1.740, "triangular": 2.432, "epanechnikov": 2.214, "biweight": 2.623, "gaussian": 1.0}


def window(kernel, h, u):
    """The window at u: the density of a single row at 0."""
    return np.exp(KernelDensity(h, kernel=kernel).fit([[0.0]]).score_samples(u[:, None]))


def canonical(kernel):
    """The fifth root of the integral of k² over the squared integral of u² k."""
    u = np.linspace(-8, 8, 40_001)
    k = window(kernel, 1.0, u)
    return ((k**2).mean() / 16 / ((u**2 * k).mean() ** 2)) ** 0.2


figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharex=True)
u, spread = np.linspace(-3.2, 3.2, 1001), {1.0: [], "alike": []}
for colour, kernel in zip(COLOURS, KERNELS, strict=False):
    h = canonical(kernel) / canonical("gaussian")
    print(f"{kernel:>12}: smooths as the Gaussian at h = {h:.3f}")
    assert abs(h - KNOWN.get(kernel, h)) < 2e-3
    for ax, width, label, key in zip(axes, (1.0, h), (kernel, f"h = {h:.3g}"), spread, strict=True):
        f = window(kernel, width, u)
        spread[key].append(f.max())
        ax.plot(u, f, color=colour, label=label)
for ax, title in zip(axes, ("h = 1", "smoothing alike"), strict=True):
    ax.set(title=title, ylim=(0, None), xlabel="distance")
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "smoothing_windows")
assert np.ptp(spread["alike"]) < 0.3 * np.ptp(spread[1.0])

"""Draws from Gaussian processes
=============================

How smooth are the functions that a kernel believes in? A draw of Matérn order 1/2 is nowhere smooth, of 3/2 it has a
slope, of 5/2 a curvature, and of the Gaussian kernel all derivatives. It shows in second differences over a step h:
their mean square falls as h, h³, h⁴ and h⁴. Rasmussen & Williams (2006), section 4.2.

:Gallery: D28
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import RBF, Matern
from mercer.linalg import safe_cholesky
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

KERNELS = {
    "Matérn 1/2": (Matern(0.5), 1),
    "Matérn 3/2": (Matern(1.5), 3),
    "Matérn 5/2": (Matern(2.5), 4),
    "Gaussian": (RBF(1.0), 4),
}
x = np.linspace(0, 6, 601)[:, None]
z = np.random.default_rng(1).standard_normal((len(x), 40))  # the same for all kernels
steps = np.array([4, 6, 8, 12, 16])

figure, axes = plt.subplot_mosaic("ABE;CDE", figsize=(11, 5), layout="constrained", width_ratios=(1, 1, 1.1))
for key, colour, (name, (kernel, order)) in zip("ABCD", COLOURS, KERNELS.items(), strict=False):
    draws = np.tril(safe_cholesky(kernel(x), warn=False).array) @ z
    seconds = [np.mean((draws[2 * s :] - 2 * draws[s:-s] + draws[: -2 * s]) ** 2) for s in steps]
    slope = np.polyfit(np.log(steps), np.log(seconds), 1)[0]
    print(f"{name}: variance of the draws {draws.var():.2f}, second differences fall as h to the {slope:.2f}")
    assert abs(slope - order) < 0.35
    assert abs(draws.var() - 1) < 0.25
    axes[key].plot(x, draws[:, :3], color=colour, linewidth=1.0)
    axes[key].set(title=name, ylim=(-3.2, 3.2))
    axes["E"].loglog(0.01 * steps, seconds, "o-", color=colour, label=f"{name}: slope {slope:.1f}")
axes["E"].set(xlabel="step h", title="mean square of second differences", xticks=0.01 * steps, xticklabels=0.01 * steps)
axes["E"].minorticks_off()
axes["E"].legend(frameon=False, fontsize="small", loc="lower right")
for ax in axes.values():
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "gaussian_process_draws")

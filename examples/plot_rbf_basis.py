"""Ten bumps at three widths
=========================

How wide should Gaussian basis functions be? At width 0.1 they do not reach one another, and the fit falls back to a
constant between them; at 0.5 they follow the data. At 50 they are all alike: the small penalty leaves little more than
a parabola, and a larger one a level line. Murphy (2012), section 14.3.

:Gallery: D3
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelMachineRegressor
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

WIDTHS = (0.1, 0.5, 50.0)
X, x, centres = (np.linspace(0, 10, n)[:, None] for n in (40, 501, 10))
truth = np.sin(x[:, 0]) + 0.1 * x[:, 0]
t = np.sin(X[:, 0]) + 0.1 * X[:, 0] + 0.1 * np.random.default_rng(0).standard_normal(40)

figure, axes = plt.subplots(3, 3, figsize=(9, 7), layout="constrained")
errors, correlations = {}, {}
for row, width in zip(axes, WIDTHS, strict=True):
    model = KernelMachineRegressor(centers=centres, kernel=RBF(width), alpha=1e-3).fit(X, t)
    errors[width] = np.sqrt(np.mean((model.predict(x) - truth) ** 2))
    correlations[width] = np.corrcoef(model.basis(X)[:, 4:6].T)[0, 1]
    print(f"width {width:g}: error {errors[width]:.2f}, neighbouring functions correlate by {correlations[width]:+.2f}")
    row[0].plot(X, t, "o", color="#222222", markersize=3)
    row[0].plot(x, model.predict(x), color=COLOURS[0], label=f"width {width:g}")
    if width == 50:
        straight = KernelMachineRegressor(centers=centres, kernel=RBF(width), alpha=1.0).fit(X, t)
        row[0].plot(x, straight.predict(x), "--", color=COLOURS[1], label="with alpha = 1")
    row[0].legend(frameon=False, fontsize="small", loc="upper left")
    row[0].set_ylim(-1.3, 3)
    row[1].plot(x, model.basis(x), color=COLOURS[0], linewidth=0.8)
    row[1].set_ylim(0, 1.05)
    row[2].imshow(model.basis(X), aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    row[2].set(xlabel="centre", ylabel="row")
    for ax in row[:2]:
        ax.spines[["top", "right"]].set_visible(False)
for ax, title in zip(axes[0], ("fit", "basis functions", "design matrix"), strict=True):
    ax.set_title(title)
save_picture(figure, "rbf_basis")

assert errors[0.5] < 0.2 < 0.5 < min(errors[0.1], errors[50.0])
assert np.ptp(model.basis(X)) < 0.03  # all functions of width 50 are nearly 1 on all rows
bends = [np.abs(np.diff(m.predict(x), 2)).max() for m in (model, straight)]
assert bends[1] < 0.1 * bends[0]

"""Kernels as functions
====================

What shape does a machine take from its kernel? A prediction is a sum of functions k(x, x'), one a row, so it looks like
them: straight with the linear kernel, with kinks with the Laplacian, smooth with the Gaussian, a cubic with the cubic
polynomial, and with the cubic B-spline a curve that is 0 two widths from the last row. Kernels of rank 1 and 4 cannot
pass through five points.

:Gallery: D2
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelRidge
from mercer.kernels import RBF, BSpline, Laplacian, Linear, Polynomial
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

KERNELS = {
    "linear": Linear(),
    "Laplacian": Laplacian(1.0),
    "Gaussian": RBF(1.0),
    "cubic polynomial": Polynomial(3, coef0=1.0),
    "cubic B-spline": BSpline(3, width=1.0),
}
X, y = np.array([[-2.0], [-1.0], [0.5], [1.0], [2.0]]), np.array([-1.0, 0.8, 0.2, 1.2, 0.5])
x, PLACES = np.linspace(-5, 5, 1001)[:, None], (-1.0, 0.5, 2.0)

figure, axes = plt.subplots(2, 5, figsize=(13, 4.8), layout="constrained", sharex=True)
missed = {}
for (top, bottom), (name, kernel) in zip(axes.T, KERNELS.items(), strict=True):
    model = KernelRidge(1e-9, kernel=kernel).fit(X, y)
    missed[name] = np.abs(model.predict(X) - y).max()
    print(f"{name}: rank {np.linalg.matrix_rank(kernel(X))} of 5, misses a point by {missed[name]:.1g} at most")
    for colour, place in zip(COLOURS, PLACES, strict=False):
        top.plot(x, kernel(x, [[place]]), color=colour, label=f"x' = {place:g}")
    bottom.plot(x, model.predict(x), color=COLOURS[0])
    bottom.plot(X, y, "o", color="#222222", markersize=4)
    shown = np.abs(x[:, 0]) <= 2.5
    low, high = model.predict(x[shown]).min(), model.predict(x[shown]).max()
    top.set_title(name)
    bottom.set(xlabel="x", ylim=(min(low, -1) - 0.4, max(high, 1.2) + 0.4))
axes[0, 0].legend(frameon=False, fontsize="small")
axes[0, 0].set_ylabel("k(x, x')")
axes[1, 0].set_ylabel("ridge, hardly any penalty")
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "kernel_functions")

assert max(missed[name] for name in ("Laplacian", "Gaussian", "cubic B-spline")) < 1e-6
assert 0.1 < missed["cubic polynomial"] < missed["linear"]
spline, far = KERNELS["cubic B-spline"], np.abs(x[:, 0]) >= 2
assert abs(spline([[0.0]], [[0.0]]).item() - 2 / 3) < 1e-12
assert np.abs(spline(x[far], [[0.0]])).max() == 0 < spline(x[~far], [[0.0]]).min()
assert [np.linalg.matrix_rank(k(x)) for k in (Linear(), KERNELS["cubic polynomial"])] == [1, 4]

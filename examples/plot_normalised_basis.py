"""Normalised basis functions
==========================

What changes when basis functions are divided by their sum? As they are, the sum has holes where centres are far apart,
and a model made of them falls to 0 there and beyond the centres. Divided by it they share out 1 everywhere, and the
model stays among its targets: these are the weights of Nadaraya and Watson's estimator.

:Gallery: D9
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import NadarayaWatson
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

CENTRES = np.array([-1.0, -0.75, -0.5, 0.2, 0.9])[:, None]
TARGETS = np.array([1.0, 0.6, 0.9, 1.5, 1.1])
WIDTH = 0.13

x = np.linspace(-1.6, 1.5, 801)[:, None]
model = NadarayaWatson("gaussian", WIDTH).fit(CENTRES, TARGETS)
plain, normalised = RBF(WIDTH)(x, CENTRES), model.weights(x)
sums = plain.sum(axis=1)
print(f"sums of the plain functions: {sums.min():.2g} to {sums.max():.2g}; of the others: 1")
assert sums.min() < 1e-4
assert sums[(x[:, 0] > -0.2) & (x[:, 0] < 0)].min() < 0.15
np.testing.assert_allclose(normalised.sum(axis=1), 1)
np.testing.assert_allclose(normalised @ TARGETS, model.predict(x))
assert TARGETS.min() <= model.predict(x).min() <= model.predict(x).max() <= TARGETS.max()

figure, axes = plt.subplots(2, 2, figsize=(9, 5), layout="constrained", sharex=True, sharey="row")
for j, (basis, title) in enumerate([(plain, "as they are"), (normalised, "divided by their sum")]):
    for k in range(len(CENTRES)):
        axes[0, j].plot(x, basis[:, k], color=COLOURS[k])
    axes[0, j].plot(x, basis.sum(axis=1), "--", color="#444444", label="sum")
    axes[1, j].plot(x, basis @ TARGETS, color=COLOURS[0], label="weighted with the targets")
    axes[1, j].plot(CENTRES, TARGETS, "o", color="#222222", markersize=4)
    axes[0, j].set_title(title)
for ax in axes.ravel():
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
axes[0, 0].set_ylim(0, 1.75)
axes[1, 0].set_ylim(0, 2.0)
save_picture(figure, "normalised_basis")

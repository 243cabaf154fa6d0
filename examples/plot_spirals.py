"""Two spirals
===========

How can two interlocking spirals be told apart? A Gaussian kernel does it with many rows. Knowing that they are spirals
does it with a few: a map sends each row to its radius and its angle, unwrapped along the radius, where the spirals are
parallel lines and a linear machine is enough. ``warp`` makes that map a part of the kernel.

:Gallery: D18
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC
from mercer.kernels import RBF, Linear
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

TURN = 3.0  # radians that a spiral turns per unit of its radius


def spirals(n, seed):
    """Rows (n, 2) on two spirals half a turn apart, with noise, and which spiral is theirs."""
    rng = np.random.default_rng(seed)
    y, r = np.arange(n) % 2, rng.uniform(0.5, 4, n)
    angle = TURN * r + np.pi * y
    return r[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.06 * rng.standard_normal((n, 2)), y


def unwrapped(X):
    """Radius, and angle with as many turns as bring it from a quarter turn behind the first spiral to three ahead."""
    r = np.hypot(*X.T)
    behind = np.arctan2(X[:, 1], X[:, 0]) - TURN * r
    return np.column_stack([r, TURN * r - np.pi / 2 + (behind + np.pi / 2) % (2 * np.pi)])


(X, y), (X_test, y_test) = spirals(300, seed=0), spirals(2000, seed=1)
models = {
    "linear": SVC(kernel=Linear()).fit(X, y),
    "Gaussian, width 0.4": SVC(C=10, kernel=RBF(0.4)).fit(X, y),
    "linear, of radius and angle": SVC(C=100, kernel=Linear().warp(unwrapped)).fit(X, y),
}
score = {name: model.score(X_test, y_test) for name, model in models.items()}
kept = {name: len(model.support_) for name, model in models.items()}
print("\n".join(f"{name}: {score[name]:.1%} of new rows right, with {kept[name]} vectors" for name in models))
_, gaussian, polar = models
assert score["linear"] < 0.7 < 0.98 < score[gaussian]
assert score[polar] > 0.98
assert kept[polar] < kept[gaussian] / 5

grid = np.linspace(-4.4, 4.4, 221)
G = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for ax, name in zip(axes, (gaussian, polar), strict=False):
    f = models[name].decision_function(G).reshape(221, 221)
    ax.contourf(grid, grid, f, levels=[-np.inf, 0, np.inf], colors=COLOURS[:2], alpha=0.15)
    ax.plot(*models[name].X_fit_.T, "o", markerfacecolor="none", markeredgecolor="#222222", markersize=8)
    ax.set(title=f"{name}:\n{kept[name]} vectors", xticks=[], yticks=[], aspect="equal")
for c, marker in enumerate("os"):
    for ax, rows in zip(axes, (X, X, unwrapped(X)), strict=True):
        ax.plot(*rows[y == c].T, marker, color=COLOURS[c], markersize=3)
axes[2].set(title="what the linear machine sees", xlabel="radius", ylabel="unwrapped angle")
save_picture(figure, "spirals")

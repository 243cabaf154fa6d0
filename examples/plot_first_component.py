"""A component and its projection lines
====================================

What is a linear component of features back in the data? The features x₁² and x₂² turn an arc into a straight line,
along which the first component has nearly all the variance. Rows are projected on it along straight lines at right
angles; pulled back to the data these are curves, on each of which the component has one value. Schölkopf, Smola &
Müller (1998), figure 1.

:Gallery: D29
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from mercer import KernelPCA
from mercer.kernels import Basis
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

rng = np.random.default_rng(0)
angle, radius = rng.uniform(0.05, np.pi / 2 - 0.05, 60), 1 + 0.04 * rng.standard_normal(60)
X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

model, linear = KernelPCA(kernel=Basis(np.square)).fit(X), PCA(2).fit(X)
share = model.explained_variance_ratio_[0], linear.explained_variance_ratio_[0]
print(f"share of the first component: {share[0]:.1%} of the features' variance, {share[1]:.1%} of the columns'")
assert share[0] > 0.98 > 0.96 > share[1]
Z, t = X**2, model.transform(X)[:, 0]
centre = Z.mean(axis=0)
u = (Z - centre).T @ t / (t @ t)  # the direction of the component among the features
np.testing.assert_allclose(np.linalg.norm(u), 1)
np.testing.assert_allclose((Z - centre) @ u, t, atol=1e-9)
assert abs(abs(u[0]) - np.sqrt(0.5)) < 0.05  # the line x₁² + x₂² = 1 falls at 45 degrees

figure, axes = plt.subplots(1, 3, figsize=(12, 4.1), layout="constrained")
levels, feet = np.linspace(t.min(), t.max(), 9), centre + t[:, None] * u
grid = np.linspace(0, 1.25, 121)
G = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
f = model.transform(G)[:, 0].reshape(121, 121)
for level in levels:
    across = centre + level * u + np.array([[-2.0], [2.0]]) * [-u[1], u[0]]
    axes[1].plot(*across.T, color="#999999", linewidth=0.8)
axes[1].plot(*np.array([Z, feet]).transpose(2, 0, 1), color=COLOURS[1], linewidth=1)
axes[1].plot(*(centre + np.array([[-1.2], [1.2]]) * u).T, color="#222222", linewidth=1.5)
axes[2].contour(grid, grid, f, levels=levels, colors="#999999", linewidths=0.8, linestyles="-")
line = centre + np.linspace(-1.2, 1.2, 4001)[:, None] * u
axes[2].plot(*np.sqrt(line[line.min(axis=1) >= 0]).T, color="#222222", linewidth=1.5)
for ax, rows in zip(axes, (X, Z, X), strict=True):
    ax.scatter(*rows.T, c=t, cmap="viridis", s=18, zorder=3)
    ax.set(xlim=(-0.02, 1.25), ylim=(-0.02, 1.25), aspect="equal")
axes[0].set(title="data", xlabel="$x_1$", ylabel="$x_2$")
axes[1].set(title="features: first component, projections", xlabel="$x_1^2$", ylabel="$x_2^2$")
axes[2].set(title="the same lines pulled back", xlabel="$x_1$", ylabel="$x_2$")
save_picture(figure, "first_component")

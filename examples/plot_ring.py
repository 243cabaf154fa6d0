"""A ring in three dimensions
==========================

How does a quadratic kernel separate a disc from the ring around it? The features of (x·y)² are x₁², √2 x₁x₂ and x₂²,
whose inner product is the kernel. They lay the plane on a cone, where the ring is above a plane and the disc below it.
The plane that a linear machine finds there is a circle back on the ground.

:Gallery: D17
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC
from mercer.kernels import Linear, Polynomial
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

rng = np.random.default_rng(0)
y = np.arange(160) % 2
radius, angle = (
    np.where(y == 1, rng.uniform(1.3, 1.7, 160), np.sqrt(rng.uniform(0, 0.8, 160))),
    rng.uniform(0, 2 * np.pi, 160),
)
X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

kernel = Polynomial(2, coef0=0.0)
Z = kernel.features(X)
np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-12)
Z = np.column_stack([X[:, 0] ** 2, np.sqrt(2) * X[:, 0] * X[:, 1], X[:, 1] ** 2])  # in the order of the text
np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-12)

flat, lifted, bent = (SVC(C=100, kernel=k).fit(rows, y) for k, rows in ((Linear(), X), (Linear(), Z), (kernel, X)))
w, b = (lifted.X_fit_.T @ lifted.dual_coef_.ravel()), float(np.ravel(lifted.intercept_)[0])
print(f"right: {flat.score(X, y):.0%} in the plane, {lifted.score(Z, y):.0%} in three dimensions")
print(f"the plane: {w[0]:.2f} z₁ {w[1]:+.2f} z₂ {w[2]:+.2f} z₃ {b:+.2f} = 0")
assert flat.score(X, y) < 0.8 < 1.0 == lifted.score(Z, y)
np.testing.assert_allclose(bent.decision_function(X), lifted.decision_function(Z), atol=0.02)
assert abs(w[1]) < 0.1 * w[0]
assert abs(w[2] / w[0] - 1) < 0.1

figure = plt.figure(figsize=(10, 4.6))
left, right = figure.add_axes((0.06, 0.11, 0.4, 0.8)), figure.add_axes((0.48, 0.0, 0.5, 0.94), projection="3d")
grid = np.linspace(-1.9, 1.9, 121)
f = bent.decision_function(np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)).reshape(121, 121)
left.contour(grid, grid, f, levels=[-1, 0, 1], colors="#222222", linestyles=["--", "-", "--"], linewidths=1)
a, c = np.meshgrid([0, -b / w[0]], [-2, 2])
right.plot_surface(a, c, -(b + w[0] * a + w[1] * c) / w[2], color="#999999", alpha=0.25)
for k, marker in enumerate("os"):
    left.plot(*X[y == k].T, marker, color=COLOURS[k], markersize=4)
    right.plot(*Z[y == k].T, marker, color=COLOURS[k], markersize=3.5)
left.set(title="two columns, and the plane as a boundary", xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
right.set(
    title="three features, and a plane between", xlabel="$x_1^2$", ylabel=r"$\sqrt{2}\,x_1 x_2$", zlabel="$x_2^2$"
)
right.set(yticks=[-2, 0, 2], zticks=[0, 1, 2], xticks=[0, 1, 2])
right.view_init(elev=14, azim=-68)
save_picture(figure, "ring")

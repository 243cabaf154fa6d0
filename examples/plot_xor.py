"""XOR
===

Can a machine learn that two signs differ? Not a linear one: no line separates the classes, and it is right about half
of the time. Four Gaussians at the corners are enough, and so is a kernel perceptron, which keeps the rows that it gets
wrong.

:Gallery: D4
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelMachineClassifier, KernelPerceptron
from mercer.kernels import RBF
from mercer.plots.gallery import save_picture

CORNERS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
MODELS = {
    "kernel machine, linear": KernelMachineClassifier(centers=CORNERS, kernel="linear"),
    "kernel machine, 4 Gaussians": KernelMachineClassifier(centers=CORNERS, kernel=RBF(1.0), alpha=0.1),
    "kernel perceptron, Gaussian": KernelPerceptron(kernel=RBF(1.0), random_state=0),
}

rng = np.random.default_rng(0)
X = CORNERS[rng.integers(0, 4, 120)] + 0.35 * rng.standard_normal((120, 2))
y = (X[:, 0] * X[:, 1] < 0).astype(int)

grid = np.linspace(-2.5, 2.5, 121)
G = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharey=True)
scores = []
for ax, (title, model) in zip(axes, MODELS.items(), strict=True):
    scores.append(model.fit(X, y).score(X, y))
    print(f"{title}: {scores[-1]:.1%} of the training rows")
    f = model.decision_function(G).reshape(len(grid), -1)
    ax.contourf(grid, grid, f / np.abs(f).max(), levels=np.linspace(-1, 1, 21), cmap="RdBu_r", alpha=0.6)
    ax.contour(grid, grid, f, levels=[0], colors="#222222", linewidths=1)
    ax.scatter(*X.T, c=y, cmap="RdBu_r", vmin=-0.2, vmax=1.2, s=12, edgecolors="#222222", linewidths=0.4)
    if hasattr(model, "centers_"):
        ax.plot(*model.centers_.T, "x", color="#222222", markersize=8, markeredgewidth=2, label="centres")
        ax.legend(frameon=False, fontsize="small", loc="lower right")
    ax.set_title(f"{title}: {scores[-1]:.0%}", fontsize="medium")
    ax.set_aspect("equal")
save_picture(figure, "xor")
assert scores[0] < 0.7 < 0.98 < min(scores[1:])

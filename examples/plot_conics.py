"""Conics from the quadratic kernel
================================

What boundaries can a quadratic kernel draw? All conics: (x·y + 1)² has the features 1, x₁, x₂, x₁², x₁x₂ and x₂², and a
sum of them is 0 on an ellipse, a hyperbola or a parabola. A machine that knows only points on both sides finds which it
is: for a x₁² + b x₁x₂ + c x₂² + ... the sign of b² - 4ac is negative, positive, or nearly 0.

:Gallery: D23
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC
from mercer.kernels import Polynomial
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

CONICS = {
    "circle": lambda x: x[:, 0] ** 2 + x[:, 1] ** 2 - 2,
    "hyperbola": lambda x: x[:, 0] ** 2 - x[:, 1] ** 2 - 0.5,
    "parabola": lambda x: x[:, 0] ** 2 - x[:, 1] - 1,
}


def conic_of(model):
    """Coefficients (6,) of 1, x₁, x₂, x₁², x₁x₂, x₂² of a decision function, the largest scaled to 1."""
    X = np.random.default_rng(1).uniform(-2, 2, (30, 2))
    a, b = X.T
    basis = np.column_stack([np.ones(30), a, b, a * a, a * b, b * b])
    found, left, *_ = np.linalg.lstsq(basis, model.decision_function(X))
    assert left < 1e-12  # there is nothing else in it
    return found / np.abs(found).max()


rng = np.random.default_rng(0)
grid = np.linspace(-2.2, 2.2, 161)
G = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", sharey=True)
discriminants = []
for ax, (name, conic) in zip(axes, CONICS.items(), strict=True):
    X = rng.uniform(-2.2, 2.2, (400, 2))
    X = X[np.abs(conic(X)) > 0.15]  # a gap, so that there is a boundary without mistakes
    y = (conic(X) > 0).astype(int)
    model = SVC(C=1e4, kernel=Polynomial(2, coef0=1.0)).fit(X, y)
    *_, a, b, c = conic_of(model)
    discriminants.append(b * b - 4 * a * c)
    print(f"{name}: {model.score(X, y):.0%} right, {len(model.support_)} vectors, b² - 4ac = {discriminants[-1]:+.2f}")
    assert model.score(X, y) == 1
    f = model.decision_function(G).reshape(161, 161)
    ax.contourf(grid, grid, f, levels=[-np.inf, 0, np.inf], colors=COLOURS[:2], alpha=0.15)
    ax.contour(grid, grid, f, levels=[0], colors="#222222", linewidths=1.5)
    ax.contour(grid, grid, conic(G).reshape(161, 161), levels=[0], colors="#888888", linestyles="--", linewidths=1)
    for k, marker in enumerate("os"):
        ax.plot(*X[y == k].T, marker, color=COLOURS[k], markersize=3)
    ax.plot(*model.X_fit_.T, "o", markerfacecolor="none", markeredgecolor="#222222", markersize=9)
    ax.set(title=f"{name}: $b^2 - 4ac$ = {discriminants[-1]:+.2f}", aspect="equal", xticks=[], yticks=[])
figure.supxlabel("line: boundary; dashed: truth; rings: support vectors", fontsize="medium")
save_picture(figure, "conics")
assert discriminants[0] < -0.2
assert discriminants[1] > 1
assert abs(discriminants[2]) < 0.05

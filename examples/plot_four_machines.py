"""Four machines on two classes
============================

How many rows does a boundary need? Four machines find much the same one. The L2 machine penalises squares of
coefficients and keeps every row, the L1 machine absolute values and keeps few; evidence chooses in the relevance vector
machine, which keeps fewer; the support vector machine keeps the rows at the margin and beyond. Murphy (2012), section
14.3.

:Gallery: D5
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, L1VMClassifier, L2VMClassifier, RVMClassifier, compare_machines
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

KERNEL = RBF(0.3)
MACHINES = {
    "L2VM": (L2VMClassifier(5.0, kernel=KERNEL), {}),
    "L1VM": (L1VMClassifier(1.0, kernel=KERNEL), {}),
    "RVM": (RVMClassifier(kernel=KERNEL), {}),
    "SVM": (SVC(kernel=KERNEL), {"C": [0.1, 1.0, 10.0, 100.0]}),
}


def two_classes(n, seed):
    """Each class is two round clouds, as in Ripley (1994)."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(n) % 2
    means = np.array([[[-0.7, 0.3], [0.3, 0.3]], [[-0.3, 0.7], [0.4, 0.7]]])
    return means[y, rng.integers(0, 2, n)] + np.sqrt(0.03) * rng.standard_normal((n, 2)), y


(X, y), (X_test, y_test) = two_classes(250, seed=1), two_classes(5000, seed=2)
found = compare_machines(X, y, machines=MACHINES, X_test=X_test, y_test=y_test)
print(found)

xs, ys = np.linspace(-1.3, 1.0, 116), np.linspace(-0.25, 1.25, 76)
grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(2, 2, figsize=(9, 6.4), layout="constrained", sharex=True, sharey=True)
for ax, r in zip(axes.flat, found.results, strict=True):
    f = r.model.decision_function(grid).reshape(len(ys), -1)
    ax.contourf(xs, ys, f, levels=[-np.inf, 0, np.inf], colors=COLOURS[:2], alpha=0.13)
    ax.contour(xs, ys, f, levels=[0], colors="#222222", linewidths=1.3)
    for c, marker in enumerate("os"):
        ax.plot(*X[y == c].T, marker, color=COLOURS[c], markersize=3.2, alpha=0.8)
    ax.plot(
        *r.model.X_fit_.T, "o", markerfacecolor="none", markeredgecolor="#222222", markersize=9, markeredgewidth=0.9
    )
    ax.set_title(f"{r.name}: {r.n_vectors} vectors, {r.error:.1%} wrong", fontsize="medium")
    ax.set(xlim=(xs[0], xs[-1]), ylim=(ys[0], ys[-1]), xticks=[], yticks=[])
figure.supxlabel("rings: the vectors that a machine keeps; line: its boundary", fontsize="medium")
save_picture(figure, "four_machines")

kept = {r.name: r.n_vectors for r in found.results}
assert kept["RVM"] < kept["L1VM"] < kept["SVM"] < kept["L2VM"] == 250
assert max(r.error for r in found.results) < 0.11
assert np.ptp([r.error for r in found.results]) < 0.015

"""Four machines on two classes that overlap: much the same boundary, from all rows or from a handful of them.

Squares of coefficients are penalised in the L2 machine, which keeps every row; their absolute values in the L1 machine, which
keeps few; evidence chooses in the relevance vector machine, which keeps fewer; the support vector machine keeps the rows at
the margin and beyond. Murphy (2012), section 14.3. Run `python examples/plot_four_machines.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, L1VMClassifier, L2VMClassifier, RVMClassifier, compare_machines
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS

KERNEL = RBF(0.3)
MACHINES = {
    "L2VM": (L2VMClassifier(5.0, kernel=KERNEL), {}),
    "L1VM": (L1VMClassifier(1.0, kernel=KERNEL), {}),
    "RVM": (RVMClassifier(kernel=KERNEL), {}),
    "SVM": (SVC(kernel=KERNEL), {"C": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]}),
}


def two_classes(n, seed):
    """Each class is two round clouds, as in Ripley (1994)."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(n) % 2
    means = np.array([[[-0.7, 0.3], [0.3, 0.3]], [[-0.3, 0.7], [0.4, 0.7]]])
    return means[y, rng.integers(0, 2, n)] + np.sqrt(0.03) * rng.standard_normal((n, 2)), y


def main(out=Path("out")):
    X, y = two_classes(250, seed=1)
    X_test, y_test = two_classes(5000, seed=2)
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
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "four_machines.png", dpi=120)
    print(f"picture: {out / 'four_machines.png'}")


if __name__ == "__main__":
    main()

"""Two series of different pace: the cheapest alignment, and a Gram matrix that does not mind the pace.

Bumps of two shapes start anywhere and last as long as they like. Time warping shows which steps belong together; the global
alignment kernel sums over all alignments and tells the shapes apart. Cuturi (2011).
Run `python examples/plot_series.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

from mercer import SVC
from mercer.kernels import RBF, DynamicTimeWarping, GlobalAlignment
from mercer.plots import ClusteredGramDisplay


def bumps(n=40, seed=0):
    """Series with one wide or two narrow bumps, each at a pace of its own, and which they have."""
    rng = np.random.default_rng(seed)
    labels, series = np.arange(n) % 2, []
    for label in labels:
        t = np.linspace(0, 1, rng.integers(40, 70)) ** rng.uniform(0.6, 1.6)
        shape = (
            np.exp(-(((t - 0.5) / 0.2) ** 2)) if label else sum(np.exp(-(((t - c) / 0.08) ** 2)) for c in (0.35, 0.7))
        )
        series.append(shape + 0.05 * rng.standard_normal(len(t)))
    return series, labels


def main(out=Path("out")):
    X, y = bumps()
    k = GlobalAlignment().resolve(X)
    cut = np.array([x[:40] for x in X])  # what a kernel of vectors could read
    print(f"accuracy, five folds: alignments {cross_val_score(SVC(kernel=k), X, y).mean():.2f}, "
          f"vectors of the first 40 steps {cross_val_score(SVC(kernel=RBF('median')), cut, y).mean():.2f}")  # fmt: skip
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    a, b = X[1], X[3]
    for i, j in DynamicTimeWarping().path(a, b):
        left.plot([i, j], [a[i], b[j] - 2], color="0.8", linewidth=0.6)
    left.plot(a, label="one series")
    left.plot(b - 2, label="another, drawn lower")
    left.set(xlabel="step", yticks=[], title="the cheapest alignment")
    left.legend(loc="upper left")
    ClusteredGramDisplay.from_kernel(k, X, np.where(y == 1, "one wide", "two narrow"), ax=right)
    right.set_title("global alignment kernel")
    out.mkdir(parents=True, exist_ok=True)
    left.figure.savefig(out / "series.png", dpi=120)
    print(f"picture: {out / 'series.png'}")


if __name__ == "__main__":
    main()

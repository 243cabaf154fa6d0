"""Three clusters under a narrow Gaussian kernel: the functions that kernel PCA finds, and where it puts the rows.

The first two functions tell the clusters apart; each of the next three splits one cluster. Schölkopf, Smola & Müller (1998).
Run `python examples/plot_three_clusters.py`; pictures are written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from mercer import KernelPCA
from mercer.kernels import RBF
from mercer.plots import EigenfunctionsDisplay, EmbeddingDisplay


def three_clusters(n=90, seed=0):
    """Rows around three centres, and which centre is theirs."""
    centres = np.array([[-0.5, -0.1], [0.0, 0.7], [0.5, 0.1]])
    rng = np.random.default_rng(seed)
    return np.vstack([c + 0.1 * rng.standard_normal((n // 3, 2)) for c in centres]), np.repeat(np.arange(3), n // 3)


def main(out=Path("out")):
    X, y = three_clusters()
    model = KernelPCA(8, kernel=RBF(np.sqrt(0.05))).fit(X)  # 2 sigma^2 = 0.1
    print("share of the variance:", model.explained_variance_ratio_.round(3))
    out.mkdir(parents=True, exist_ok=True)
    EigenfunctionsDisplay.from_estimator(model, X).figure_.savefig(out / "eigenfunctions.png", dpi=120)

    _, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    EmbeddingDisplay.from_estimator(PCA(2).fit(X), X, y, ax=axes[0])
    EmbeddingDisplay.from_estimator(model, X, y, ax=axes[1])
    axes[0].set_title("PCA")
    axes[1].set_title("kernel PCA")
    axes[0].figure.savefig(out / "embedding.png", dpi=120)
    print(f"pictures: {out / 'eigenfunctions.png'}, {out / 'embedding.png'}")


if __name__ == "__main__":
    main()

"""Flow of oil, water and gas in a pipe: 100 rows in the plane, by PCA, kernel PCA and latent positions of Gaussian processes.

The measure is how many rows have a nearest neighbour of another class in the plane, over ten subsets of 100 rows. The data are
read from the folder MERCER_DATA. Lawrence (2005) gives 20 for PCA, 13 for kernel PCA and 4 for the GPLVM on a subset of his.
Run `MERCER_DATA=... python examples/plot_oil_flow.py`; the picture is written to out/.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from mercer import GPLVM, KernelPCA
from mercer.kernels import RBF
from mercer.plots import EmbeddingDisplay, LatentSpaceDisplay

WIDTHS = np.geomspace(0.2, 5.0, 13)


def neighbour_errors(T, y):
    """Rows whose nearest other row has another label."""
    near = KNeighborsClassifier(1).fit(T, y).kneighbors(return_distance=False)[:, 0]
    return int((y[near] != y).sum())


def main(out=Path("out")):
    home = os.environ.get("MERCER_DATA")
    if not home:
        raise SystemExit("set MERCER_DATA to the folder that holds oil_flow.npz")
    with np.load(Path(home) / "oil_flow.npz") as file:
        X, y = file["X"], file["y"]
    subsets = [np.random.RandomState(seed).permutation(1000)[:100] for seed in range(10)]
    linear = np.array([neighbour_errors(PCA(2).fit_transform(X[s]), y[s]) for s in subsets])
    errors = np.array(
        [[neighbour_errors(KernelPCA(2, kernel=RBF(w)).fit_transform(X[s]), y[s]) for s in subsets] for w in WIDTHS]
    )
    latent = [GPLVM().fit(X[s]) for s in subsets]
    found = np.array([neighbour_errors(m.embedding_, y[s]) for m, s in zip(latent, subsets, strict=True)])
    print("errors of 100, mean of ten subsets")
    print(f"PCA                            {linear.mean():.1f}")
    print(f"GPLVM                          {found.mean():.1f}")
    print(f"kernel PCA, best width of each {errors.min(axis=0).mean():.1f}")
    for w, error in zip(WIDTHS, errors, strict=True):
        print(f"kernel PCA, width {w:<12.2f} {error.mean():.1f}")

    s, best = subsets[0], WIDTHS[errors[:, 0].argmin()]
    fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    EmbeddingDisplay.from_estimator(PCA(2).fit(X[s]), X[s], y[s], ax=axes[0])
    EmbeddingDisplay.from_estimator(KernelPCA(2, kernel=RBF(best)).fit(X[s]), X[s], y[s], ax=axes[1])
    LatentSpaceDisplay.from_estimator(latent[0], y[s], ax=axes[2])
    for ax, title, wrong in zip(axes, ("PCA", f"kernel PCA, width {best:.2f}", "GPLVM"),
                                (linear[0], errors[:, 0].min(), found[0]), strict=True):  # fmt: skip
        ax.set_title(f"{title}: {wrong} errors")
    out.mkdir(parents=True, exist_ok=True)
    fig.savefig(out / "oil_flow.png", dpi=120)
    print(f"picture: {out / 'oil_flow.png'}")


if __name__ == "__main__":
    main()

"""Gaussian basis functions as they are, and divided by their sum.

As they are, their sum has holes where centres are far apart, and a model made of them falls to 0 there and beyond the centres.
Divided by the sum they share out 1 everywhere: these are the weights of Nadaraya and Watson's estimator.
Run `python examples/plot_normalised_basis.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import NadarayaWatson
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS

CENTRES = np.array([-1.0, -0.75, -0.5, 0.2, 0.9])[:, None]
TARGETS = np.array([1.0, 0.6, 0.9, 1.5, 1.1])
WIDTH = 0.13


def main(out=Path("out")):
    x = np.linspace(-1.6, 1.5, 801)[:, None]
    model = NadarayaWatson("gaussian", WIDTH).fit(CENTRES, TARGETS)
    plain, normalised = RBF(WIDTH)(x, CENTRES), model.weights(x)
    print(
        f"sums of the plain functions: {plain.sum(axis=1).min():.2g} to {plain.sum(axis=1).max():.2g}; of the others: 1"
    )
    _, axes = plt.subplots(2, 2, figsize=(9, 5), layout="constrained", sharex=True, sharey="row")
    for j, (basis, title) in enumerate([(plain, "as they are"), (normalised, "divided by their sum")]):
        for k in range(len(CENTRES)):
            axes[0, j].plot(x, basis[:, k], color=COLOURS[k])
        axes[0, j].plot(x, basis.sum(axis=1), "--", color="#444444", label="sum")
        axes[1, j].plot(x, basis @ TARGETS, color=COLOURS[0], label="weighted with the targets")
        axes[1, j].plot(CENTRES, TARGETS, "o", color="#222222", markersize=4)
        axes[0, j].set_title(title)
    for ax in axes.ravel():
        ax.legend(frameon=False, fontsize="small", loc="upper left")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylim(0, 1.75)
    axes[1, 0].set_ylim(0, 1.75)
    out.mkdir(parents=True, exist_ok=True)
    axes[0, 0].figure.savefig(out / "normalised_basis.png", dpi=120)
    print(f"picture: {out / 'normalised_basis.png'}")


if __name__ == "__main__":
    main()

"""Ten Gaussian bumps in one dimension, at widths 0.1, 0.5 and 50: the fit, the functions it is made of, and the design matrix.

Narrow bumps do not reach one another, and the fit falls back to a constant between them. Wide ones are all alike, and the
small penalty leaves of them little more than a parabola; a straight line needs a larger penalty, which flattens it too.
Run `python examples/plot_rbf_basis.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelMachineRegressor
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS

WIDTHS = (0.1, 0.5, 50.0)


def noisy_curve(n=40, seed=0):
    """Rows in [0, 10] and targets around a sine that rises."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 10, n)
    return x[:, None], np.sin(x) + 0.1 * x + 0.1 * rng.standard_normal(n)


def main(out=Path("out")):
    X, t = noisy_curve()
    q, centres = np.linspace(0, 10, 501)[:, None], np.linspace(0, 10, 10)[:, None]
    _, axes = plt.subplots(3, 3, figsize=(9, 7), layout="constrained")
    for row, width in zip(axes, WIDTHS, strict=True):
        model = KernelMachineRegressor(centers=centres, kernel=RBF(width), alpha=1e-3).fit(X, t)
        print(f"width {width:g}: R² {model.score(X, t):.3f}")
        row[0].plot(X, t, "o", color="#222222", markersize=3)
        row[0].plot(q, model.predict(q), color=COLOURS[0], label=f"width {width:g}")
        if width == WIDTHS[-1]:
            straight = KernelMachineRegressor(centers=centres, kernel=RBF(width), alpha=1.0).fit(X, t)
            row[0].plot(q, straight.predict(q), "--", color=COLOURS[1], label="with alpha = 1")
        row[0].legend(frameon=False, fontsize="small", loc="upper left")
        row[1].plot(q, model.basis(q), color=COLOURS[0], linewidth=0.8)
        row[2].imshow(model.basis(X), aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        row[2].set(xlabel="centre", ylabel="row")
        for ax in row[:2]:
            ax.spines[["top", "right"]].set_visible(False)
    for ax, title in zip(axes[0], ("fit", "basis functions", "design matrix"), strict=True):
        ax.set_title(title)
    out.mkdir(parents=True, exist_ok=True)
    axes[0, 0].figure.savefig(out / "rbf_basis.png", dpi=120)
    print(f"picture: {out / 'rbf_basis.png'}")


if __name__ == "__main__":
    main()

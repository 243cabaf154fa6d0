"""Kernel regression with a bandwidth from the median absolute deviation, and what a local line mends at the boundary.

At the ends of the data a local mean sees rows on one side only, and is drawn towards them; a local line allows for the slope.
Hastie, Tibshirani & Friedman (2009), section 6.1. Run `python examples/plot_boundary.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import LocalRegression, NadarayaWatson
from mercer.plots.canvas import COLOURS


def curve(x):
    return np.sin(4 * x) + 2 * x


def data(n=100, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    return x[:, None], curve(x) + 0.25 * rng.standard_normal(n)


def bias(make, repeats=30):
    """Mean errors at the left end and in the middle over several data sets."""
    places = np.array([0.0, 0.5])
    return np.mean([make().fit(*data(seed=s)).predict(places[:, None]) for s in range(repeats)], axis=0) - curve(places)


def main(out=Path("out")):
    X, t = data()
    x = np.linspace(0, 1, 400)
    mad = NadarayaWatson("gaussian", "mad").fit(X, t)
    h = float(np.ravel(mad.bandwidth_)[0])
    wide = 0.25
    makers = {"local mean": lambda: LocalRegression(0, wide, kernel="epanechnikov"),
              "local line": lambda: LocalRegression(1, wide, kernel="epanechnikov")}  # fmt: skip
    _, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
    axes[0].plot(x, mad.predict(x[:, None]), color=COLOURS[0], label=f"Gaussian window, h = {h:.2g}")
    axes[0].set_title("bandwidth from the median absolute deviation", fontsize="medium")
    for c, (name, make) in enumerate(makers.items()):
        axes[1].plot(x, make().fit(X, t).predict(x[:, None]), color=COLOURS[c], label=name)
        end, middle = bias(make)
        print(f"{name}: mean error {end:+.3f} at the left end, {middle:+.3f} in the middle")
    axes[1].set_title(f"Epanechnikov window, h = {wide}", fontsize="medium")
    for ax in axes:
        ax.plot(X, t, ".", color="#222222", markersize=4, alpha=0.6, zorder=0)
        ax.plot(x, curve(x), "--", color="#888888", linewidth=1, label="truth")
        ax.legend(frameon=False, fontsize="small", loc="lower right")
        ax.spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    axes[0].figure.savefig(out / "boundary.png", dpi=120)
    print(f"picture: {out / 'boundary.png'}")


if __name__ == "__main__":
    main()

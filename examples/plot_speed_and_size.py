"""One support vector machine with many vectors, and four ways to predict faster: a few vectors, or a few features.

A reduced set is made of the fitted machine; a budget machine learns its few points from the data; Nystrom's landmarks and random
Fourier features make columns for a linear machine. Drawn at several sizes: what is wrong, and how long predictions take.
Run `python examples/plot_speed_and_size.py`; the picture is written to out/.
"""

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from mercer import SVC, BudgetKernelClassifier, Nystroem, RandomFourierFeatures, compress
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS

KERNEL, SIZES = RBF(0.35), (10, 20, 40, 80)
TITLES = "share of wrong classes", "milliseconds for 20 000 predictions"


def spirals(n, seed):
    """Two noisy spirals, of one and a half turns each."""
    rng = np.random.default_rng(seed)
    y, turn = rng.integers(0, 2, n), np.sqrt(rng.uniform(0.02, 1, n))
    angle = 3 * np.pi * turn + np.pi * y
    return 3 * turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.35 * rng.standard_normal((n, 2)), y


def measured(model, X, y):
    """Share of wrong answers, and milliseconds of the quickest of several predictions."""
    times = [time.perf_counter()]
    for _ in range(5):
        answers = model.predict(X)
        times.append(time.perf_counter())
    return np.mean(answers != y), 1e3 * np.diff(times).min()


def main(out=Path("out")):
    (X, y), (X_test, y_test) = spirals(1000, seed=0), spirals(20000, seed=1)
    ways = {
        "reduced set": lambda k: compress(exact, k, random_state=0),
        "budget": lambda k: BudgetKernelClassifier(k, kernel=KERNEL, max_iter=20, random_state=0).fit(X, y),
        "Nystrom": lambda k: linear(Nystroem(KERNEL, n_components=k, random_state=0)).fit(X, y),
        "random features": lambda k: linear(RandomFourierFeatures(KERNEL, k, random_state=0)).fit(X, y),
    }

    def linear(features):
        return make_pipeline(features, LogisticRegression(C=10.0, max_iter=2000))

    exact = SVC(C=1.0, kernel=KERNEL).fit(X, y)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for c, (name, make) in enumerate(ways.items()):
        found = np.array([measured(make(k), X_test, y_test) for k in SIZES])
        print(f"{name}: " + ", ".join(f"{k} {e:.1%} in {t:.1f} ms" for k, (e, t) in zip(SIZES, found, strict=True)))
        for j, ax in enumerate(axes):
            ax.plot(SIZES, found[:, j], "o-", color=COLOURS[c], label=name)
    n, whole = len(exact.X_fit_), measured(exact, X_test, y_test)
    print(f"exact: {n} vectors, {whole[0]:.1%} in {whole[1]:.1f} ms")
    for ax, value, title in zip(axes, whole, TITLES, strict=True):
        ax.plot([n], [value], "*", color="#222222", markersize=14, label="exact")
        ax.axhline(value, color="#222222", linewidth=0.8, linestyle=":")
        ax.set(xscale="log", xticks=[*SIZES, n], xticklabels=[*SIZES, n], xlabel="vectors or features")
        ax.set(ylim=(0, None), title=title)
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "speed_and_size.png", dpi=120)
    print(f"picture: {out / 'speed_and_size.png'}")


if __name__ == "__main__":
    main()

"""The whole distribution of a target: Nadaraya and Watson's estimator with bands, and a mixture where there are two answers.

The weights of the estimator make a mixture of windows around the targets, whose quantiles are the bands. Where a function is
turned around there may be several answers: the mean lies between them, and only the distribution tells.
Run `python examples/plot_conditional_density.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import MixtureRegression, NadarayaWatson
from mercer.plots import ConditionalDensityDisplay
from mercer.plots.canvas import COLOURS


def sine(n=120, seed=0):
    """Noise that grows to the right."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    return x[:, None], np.sin(2 * np.pi * x) + (0.05 + 0.4 * x) * rng.standard_normal(n)


def turned(n=300, seed=0):
    """y = x + 0.3 sin(2 pi x) with noise, x and y exchanged."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, n)
    return (x + 0.3 * np.sin(2 * np.pi * x) + rng.uniform(-0.1, 0.1, n))[:, None], x


def main(out=Path("out")):
    _, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    X, t = sine()
    model = NadarayaWatson("gaussian", "loo", target_bandwidth=0.1).fit(X, t)
    ConditionalDensityDisplay.from_estimator(model, X, t, ax=axes[0])
    axes[0].set_title(f"Nadaraya-Watson, h = {np.ravel(model.bandwidth_)[0]:.2g}")
    low, high = model.predict_quantiles(X, [0.05, 0.95]).T
    print(f"{100 * ((t > low) & (t < high)).mean():.0f} % of the points lie in the band of 90 %")

    X, t = turned()
    mixture = MixtureRegression(max_components=6, n_init=2, random_state=0).fit(X, t)
    ConditionalDensityDisplay.from_estimator(mixture, X, t, ax=axes[1])
    axes[1].set_title(f"two answers: a mixture of {mixture.n_components_}")
    at, grid = [0.3, 0.5, 0.9], np.linspace(-0.2, 1.2, 500)
    for colour, x in zip(COLOURS, at, strict=False):
        density = np.exp(mixture.log_density(np.full((500, 1), x), grid))
        axes[2].plot(grid, density, color=colour, label=f"x = {x}")
        axes[1].axvline(x, color=colour, linewidth=1.0, linestyle="--")
    axes[2].set(title="density of t given x", xlabel="t", ylim=(0, None))
    axes[2].legend(frameon=False, fontsize="small")
    axes[2].spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    axes[0].figure.savefig(out / "conditional_density.png", dpi=120)
    print(f"picture: {out / 'conditional_density.png'}")


if __name__ == "__main__":
    main()

"""Mistakes of the perceptron
==========================

How many mistakes does a perceptron make before it makes none? At most (r / ρ)², whatever the order of the rows: r is
the length of the longest row, ρ the margin of any machine through 0 that makes none. Numbers of rows and columns do not
enter. What is counted stays well below the bound, and grows as the margin shrinks.

:Gallery: D19
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPerceptron
from mercer.kernels import Linear
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

MARGINS, COLUMNS, SEEDS = np.array([0.4, 0.2, 0.1, 0.05, 0.025]), (2, 20), range(10)


def rows(margin, d, seed, n=200):
    """Rows (n, d) of length 1 at least `margin` from the plane between the classes; the first two are at that distance."""
    rng = np.random.default_rng(seed)
    y, height = np.where(np.arange(n) % 2, 1, -1), rng.uniform(margin, 1, n)
    height[:2] = margin
    side = rng.standard_normal((n, d - 1))
    side *= np.sqrt(1 - height**2)[:, None] / np.linalg.norm(side, axis=1, keepdims=True)
    return np.column_stack([y * height, side]), y


def mistakes(margin, d, seed):
    X, y = rows(margin, d, seed)
    model = KernelPerceptron(Linear(), variant="plain", fit_intercept=False, max_iter=5000, random_state=seed).fit(X, y)
    assert model.converged_
    assert np.abs(model.dual_coef_).sum() == model.n_mistakes_  # each adds its row once
    assert model.score(X, y) == 1
    return model.n_mistakes_


figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
bound = 1 / MARGINS**2
ax.plot(MARGINS, bound, "--", color="#222222", label=r"bound, $(r/\rho)^2$")
for colour, d in zip(COLOURS, COLUMNS, strict=False):
    found = np.array([[mistakes(margin, d, seed) for seed in SEEDS] for margin in MARGINS])
    print(
        f"{d} columns: mistakes {found.mean(axis=1).round(1)} at margins {MARGINS}, where the bound is {bound.round()}"
    )
    assert (found <= bound[:, None]).all()
    assert (np.diff(found.mean(axis=1)) > 0).all()
    ax.plot(MARGINS, found.mean(axis=1), color=colour, label=f"mean, {d} columns")
    ax.plot(np.repeat(MARGINS, len(SEEDS)), found.ravel(), ".", color=colour, alpha=0.5)
ax.set(
    xscale="log", yscale="log", xlabel=r"margin $\rho$ of 200 rows of length 1", ylabel="mistakes until there are none"
)
ax.set_xticks(MARGINS, [f"{m:g}" for m in MARGINS])
ax.minorticks_off()
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "margin")

"""The whole distribution of a target
==================================

What is known of a target beyond its mean? The weights of Nadaraya and Watson's estimator make a mixture of windows
around the targets, whose quantiles are bands. Where a function is turned around there may be several answers: the mean
lies between them, and only the distribution, here of a mixture of Gaussians, tells.

:Gallery: D10
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import MixtureRegression, NadarayaWatson
from mercer.plots import ConditionalDensityDisplay
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 1, 120))
X, t = x[:, None], np.sin(2 * np.pi * x) + (0.05 + 0.4 * x) * rng.standard_normal(120)  # noise grows to the right

figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
model = NadarayaWatson("gaussian", "loo", target_bandwidth=0.05).fit(X, t)
ConditionalDensityDisplay.from_estimator(model, X, t, ax=axes[0])
axes[0].set_title(f"Nadaraya-Watson, h = {np.ravel(model.bandwidth_)[0]:.2g}")
low, high = model.predict_quantiles(X, [0.05, 0.95]).T
inside = ((t > low) & (t < high)).mean()
left, right = (high - low)[[10, -10]]
print(f"{inside:.0%} of the points lie in the band of 90 %; its width is {left:.2f} left, {right:.2f} right")
assert 0.85 < inside < 0.99
assert right > 1.5 * left

u = rng.uniform(0, 1, 200)
X, t = (u + 0.3 * np.sin(2 * np.pi * u) + rng.uniform(-0.1, 0.1, 200))[:, None], u  # x and y exchanged
mixture = MixtureRegression(max_components=4, n_init=1, random_state=0).fit(X, t)
ConditionalDensityDisplay.from_estimator(mixture, X, t, ax=axes[1])
axes[1].set_title(f"several answers: a mixture of {mixture.n_components_}")
places, grid, peaks = [0.3, 0.5, 0.9], np.linspace(-0.2, 1.2, 500), {}
for colour, place in zip(COLOURS, places, strict=False):
    density = np.exp(mixture.log_density(np.full((500, 1), place), grid))
    assert abs(density.sum() * (grid[1] - grid[0]) - 1) < 0.02
    high = (density[1:-1] > density[:-2]) & (density[1:-1] > density[2:]) & (density[1:-1] > 0.2 * density.max())
    peaks[place] = high.sum()
    axes[2].plot(grid, density, color=colour, label=f"x = {place}")
    axes[1].axvline(place, color=colour, linewidth=1.0, linestyle="--")
print(f"peaks of the density: {peaks}")
assert peaks[0.5] >= 2
assert peaks[0.9] == 1
axes[2].set(title="density of t given x", xlabel="t", ylim=(0, None))
axes[2].legend(frameon=False, fontsize="small")
axes[2].spines[["top", "right"]].set_visible(False)
save_picture(figure, "conditional_density")

"""Parzen windows
==============

How wide should the window around each point be? Narrow windows show the points, wide ones hide them; boxcars make
steps, Gaussians do not. The likelihood of points that are left out is best in between, near the width with the smallest
true error. Parzen (1962).

:Gallery: D7
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from mercer import KernelDensity, bandwidth_scores
from mercer.plots import BandwidthDisplay, DensityDisplay
from mercer.plots.gallery import save_picture

points = np.array([[-2.1], [-1.3], [-0.4], [1.9], [5.1], [6.2]])
figure, axes = plt.subplots(2, 2, figsize=(8, 5), layout="constrained", sharex=True, sharey=True)
x = 0.0005 + np.linspace(-15, 20, 35001)[:, None]
for row, kernel in zip(axes, ("boxcar", "gaussian"), strict=True):
    for ax, h in zip(row, (1.0, 2.5), strict=True):
        model = KernelDensity(h, kernel=kernel).fit(points)
        density = np.exp(model.score_samples(x))
        assert abs(density.sum() * 0.001 - 1) < 1e-3
        if kernel == "boxcar":  # steps: each point adds 1 / 12h where it is within h
            np.testing.assert_allclose(density, (np.abs(x - points.T) <= h).sum(axis=1) / (12 * h), atol=1e-12)
        DensityDisplay.from_estimator(model, points, margin=0.8, resolution=1000, ax=ax)
        ax.set_title(f"{kernel}, h = {h:g}", fontsize="medium")
        ax.label_outer()
save_picture(figure, "parzen_windows")

rng = np.random.default_rng(0)
X = np.where(rng.random(150) < 0.4, rng.normal(-2, 0.6, 150), rng.normal(1.5, 1.0, 150))[:, None]
widths, grid = np.geomspace(0.05, 3.0, 40), np.linspace(-8, 8, 801)[:, None]
scores = bandwidth_scores(X, widths)
best = widths[np.argmax(scores)]
truth = 0.4 * norm(-2, 0.6).pdf(grid[:, 0]) + 0.6 * norm(1.5, 1.0).pdf(grid[:, 0])
errors = [np.sum((np.exp(KernelDensity(h).fit(X).score_samples(grid)) - truth) ** 2) for h in widths]
print(
    f"the points that are left out are likeliest at h = {best:.2g}; the true error is least at {widths[np.argmin(errors)]:.2g}"
)
assert 0.5 < best / widths[np.argmin(errors)] < 2
assert errors[np.argmax(scores)] < 0.2 * min(errors[0], errors[-1])
figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
BandwidthDisplay.from_scores(widths, scores, ax=axes[0], ylabel="mean log density, left out")
DensityDisplay.from_estimator(KernelDensity(best).fit(X), X, ax=axes[1])
axes[1].plot(grid, truth, "--", color="#222222", linewidth=1, label="truth")
axes[1].set_ylim(0, 0.31)
axes[1].legend(frameon=False, fontsize="small")
save_picture(figure, "parzen_bandwidth")

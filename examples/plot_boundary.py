"""Local means and lines at the boundary
=====================================

What happens at the ends of the data? A local mean sees rows on one side only, and is drawn towards them; a local line
allows for the slope. In the middle they hardly differ. On the left a bandwidth from the median absolute deviation,
which outliers do not move. Hastie, Tibshirani & Friedman (2009), section 6.1.

:Gallery: D11
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import LocalRegression, NadarayaWatson
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

WIDE = 0.25


def curve(x):
    return np.sin(4 * x) + 2 * x


def data(n=100, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, n))
    return x[:, None], curve(x) + 0.25 * rng.standard_normal(n)


def local(degree, seed=0):
    return LocalRegression(degree, WIDE, kernel="epanechnikov").fit(*data(seed=seed))


X, t = data()
x, places = np.linspace(0, 1, 201), np.array([0.0, 0.5])
mad = NadarayaWatson("gaussian", "mad").fit(X, t)
h = float(np.ravel(mad.bandwidth_)[0])
deviation = 1.4826 * np.median(np.abs(X - np.median(X)))
np.testing.assert_allclose(h, (4 / 300) ** 0.2 * deviation, rtol=1e-3)
far = np.append(X[:-1], [[50.0]], axis=0)  # one row far away
assert abs(np.ravel(NadarayaWatson("gaussian", "mad").fit(far, t).bandwidth_)[0] / h - 1) < 0.05

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
axes[0].plot(x, mad.predict(x[:, None]), color=COLOURS[0], label=f"Gaussian window, h = {h:.2g}")
axes[0].set_title("bandwidth from the median absolute deviation", fontsize="medium")
bias = {}
for degree, name in enumerate(("local mean", "local line")):
    axes[1].plot(x, local(degree).predict(x[:, None]), color=COLOURS[degree], label=name)
    bias[name] = np.mean([local(degree, seed).predict(places[:, None]) for seed in range(20)], axis=0) - curve(places)
    print("{}: mean error {:+.3f} at the left end, {:+.3f} in the middle".format(name, *bias[name]))
axes[1].set_title(f"Epanechnikov window, h = {WIDE}", fontsize="medium")
for ax in axes:
    ax.plot(X, t, ".", color="#222222", markersize=4, alpha=0.6, zorder=0)
    ax.plot(x, curve(x), "--", color="#888888", linewidth=1, label="truth")
    ax.legend(frameon=False, fontsize="small", loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "boundary")
assert bias["local mean"][0] > 0.3 > 0.1 > abs(bias["local line"][0])
assert abs(bias["local mean"][1] - bias["local line"][1]) < 0.03

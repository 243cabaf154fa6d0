"""Four machines on a noisy curve
==============================

What do four machines make of 100 noisy values of sin(x)/x? Much the same curve, from all rows or from a few; only the
relevance vector machine has error bars, and it keeps fewest rows. The L1 penalty of 0.5 makes the curve flatter too:
what selects also shrinks. Above, rings are around the vectors kept; below are their coefficients. Tipping (2001),
section 4.

:Gallery: D6
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVR, L1VMRegressor, L2VMRegressor, RVMRegressor, compare_machines
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

KERNEL = RBF(2.0)
MACHINES = {
    "L2VM": (L2VMRegressor(0.5, kernel=KERNEL), {}),
    "L1VM": (L1VMRegressor(0.5, kernel=KERNEL), {}),
    "RVM": (RVMRegressor(KERNEL), {}),
    "SVM": (SVR(kernel=KERNEL, epsilon=0.1), {"C": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]}),
}
rng = np.random.default_rng(0)
X, x = np.sort(rng.uniform(-10, 10, (100, 1)), axis=0), np.linspace(-10, 10, 401)[:, None]
t, truth = np.sinc(X[:, 0] / np.pi) + 0.1 * rng.standard_normal(100), np.sinc(x[:, 0] / np.pi)
found = compare_machines(X, t, machines=MACHINES, X_test=x, y_test=truth)
print(found)

shape = {"sharex": True, "sharey": "row", "height_ratios": (3, 2)}
figure, axes = plt.subplots(2, 4, figsize=(13, 5), layout="constrained", **shape)
for colour, (top, bottom), r in zip(COLOURS, axes.T, found.results, strict=False):
    top.plot(X, t, ".", color="#777777", markersize=4)
    top.plot(x, truth, "--", color="#222222", linewidth=1, label="truth")
    if r.name == "RVM":
        mean, sd = r.model.predict(x, return_std=True)
        top.fill_between(x[:, 0], mean - 2 * sd, mean + 2 * sd, color=colour, alpha=0.2, linewidth=0)
        top.text(-10, 1.12, "band: 2 standard\ndeviations", fontsize="small", color=colour, va="center")
    top.plot(x, r.model.predict(x), color=colour, linewidth=1.8)
    kept = np.isin(X[:, 0], r.model.X_fit_[:, 0])
    top.plot(X[kept], t[kept], "o", markerfacecolor="none", markeredgecolor=colour, markersize=8)
    times = f"fit {1e3 * r.fit_seconds:.0f} ms, predict {1e3 * r.predict_seconds:.1f} ms"
    top.set_title(f"{r.name}: {r.n_vectors} vectors, error {r.error:.3f}\n{times}", fontsize="medium")
    bottom.vlines(r.model.X_fit_[:, 0], 0, r.model.dual_coef_.ravel(), color=colour, linewidth=1.2)
    bottom.axhline(0, color="#222222", linewidth=0.6)
    bottom.set_yscale("symlog", linthresh=0.1)
axes[0, 0].legend(frameon=False, fontsize="small", loc="upper left")
axes[0, 0].set_ylabel("fit")
axes[1, 0].set_ylabel("coefficients")
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "sinc_machines")

kept, error = ({r.name: value(r) for r in found.results} for value in (lambda r: r.n_vectors, lambda r: r.error))
assert kept["RVM"] < kept["L1VM"] < kept["SVM"] < kept["L2VM"] == 100
assert max(error.values()) < 0.1
assert np.mean(np.abs(mean - truth) < 2 * sd) > 0.8  # the band holds most of the curve

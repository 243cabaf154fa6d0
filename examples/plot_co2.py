"""Carbon dioxide in parts
=======================

Can a kernel be found that explains a series, and goes on with it? A search adds and multiplies simple kernels while the
evidence grows. Its sum is drawn part by part, with bands of two standard deviations, and goes on two years past the
data that it saw. A kernel composed by hand, of trend, season and wiggles, does so too: Rasmussen & Williams (2006),
section 5.4.3.

:Gallery: E2
"""

import numpy as np

from mercer import GaussianProcessRegressor, search_kernel, tune
from mercer.datasets import load_co2
from mercer.kernels import RBF, Periodic
from mercer.plots import DecompositionDisplay
from mercer.plots.gallery import save_picture

ROWS, DEPTH = 100, 3  # parameters are learned on so many rows, predictions use all; steps of the search
BY_HAND = (
    (3000.0 * RBF(50.0)).named("trend")
    + (6.0 * RBF(90.0) * Periodic(1.0, 1.3)).named("season")
    + (0.5 * RBF(1.0)).named("wiggles")
)

X, y = load_co2(return_X_y=True)
last = X[:, 0] > X[-1, 0] - 2.0
start = GaussianProcessRegressor(BY_HAND, bounds={"season__periodic__period": "fixed"})
hand = tune(start, X[~last], y[~last], n_rows=ROWS, max_iter=100, random_state=0)
base = [RBF(1.0), Periodic(1.0, 1.0)]  # what the search may add and multiply
found = search_kernel(X[~last], y[~last], base=base, n_rows=ROWS, depth=DEPTH, max_iter=40, random_state=0)
print(found)
errors = {}
for name, model in (("by hand", hand.estimator), ("by search", found.estimator)):
    mean, sd = model.predict(X[last], return_std=True, noise=True)
    errors[name] = np.sqrt(np.mean((mean - y[last]) ** 2))
    inside = np.mean(np.abs(mean - y[last]) < 1.96 * sd)
    print(f"{name}: the last two years with an RMSE of {errors[name]:.2f} ppm; 95 % intervals hold {inside:.0%}")

shown = DecompositionDisplay.from_estimator(found.estimator, X, y, margin=0.1)
shown.axes_[0].set_title("carbon dioxide in ppm; learned without the last two years", fontsize="small", loc="left")
shown.axes_[0].axvline(X[last][0, 0], color="#888888", linewidth=0.8, linestyle="--")
save_picture(shown.figure_, "co2")
period = next(value for name, value in found.estimator.kernel_.get_params().items() if name.endswith("period"))
assert abs(period - 1) < 0.01  # a season of a year, which the search was not told
assert max(errors.values()) < 1.0

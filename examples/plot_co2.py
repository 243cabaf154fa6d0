"""Carbon dioxide over Mauna Loa: a kernel composed by hand, one found by search, and the parts it is made of.

Both learn from all but the last two years and predict those. The composed kernel follows Rasmussen & Williams (2006), section
5.4.3: a trend, a season that changes slowly, and wiggles. Run `python examples/plot_co2.py`; the picture is written to out/.
"""

import time
from pathlib import Path

import numpy as np

from mercer import GaussianProcessRegressor, search_kernel, tune
from mercer.datasets import load_co2
from mercer.kernels import RBF, Periodic
from mercer.plots import DecompositionDisplay

BY_HAND = (
    (3000.0 * RBF(50.0)).named("trend")
    + (6.0 * RBF(90.0) * Periodic(1.0, 1.3)).named("season")
    + (0.5 * RBF(1.0)).named("wiggles")
)
ROWS = 150  # parameters are learned on so many; predictions use all
DEPTH = 4  # steps of the search


def main(out=Path("out")):
    X, y = load_co2(return_X_y=True)
    last = X[:, 0] > X[-1, 0] - 2.0
    start = time.perf_counter()
    year = {"season__periodic__period": "fixed"}
    hand = tune(
        GaussianProcessRegressor(BY_HAND, bounds=year), X[~last], y[~last], n_rows=ROWS, max_iter=300, random_state=0
    )
    print(f"by hand, {time.perf_counter() - start:.0f} s\n{hand}\n")
    start = time.perf_counter()
    found = search_kernel(X[~last], y[~last], n_rows=ROWS, depth=DEPTH, random_state=0)
    print(f"by search, {time.perf_counter() - start:.0f} s\n{found}\n")
    for name, model in (("by hand", hand.estimator), ("by search", found.estimator)):
        mean, sd = model.predict(X[last], return_std=True, noise=True)
        error = np.sqrt(np.mean((mean - y[last]) ** 2))
        inside = np.mean(np.abs(mean - y[last]) < 1.96 * sd)
        print(f"{name}: the last two years with an RMSE of {error:.2f} ppm; 95 % intervals hold {100 * inside:.0f} %")

    shown = DecompositionDisplay.from_estimator(found.estimator, X, y, margin=0.1)
    shown.axes_[0].set_title("carbon dioxide in ppm; learned without the last two years", fontsize="small", loc="left")
    shown.axes_[0].axvline(X[last][0, 0], color="#888888", linewidth=0.8, linestyle="--")
    out.mkdir(parents=True, exist_ok=True)
    shown.figure_.savefig(out / "co2.png", dpi=120)
    print(f"picture: {out / 'co2.png'}")


if __name__ == "__main__":
    main()

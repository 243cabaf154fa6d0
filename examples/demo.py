"""Demo: the strength of concrete
==============================

How strong is a mixture of concrete? A kernel tuned by exact leave-one-out, what it reached, and a picture of it. Run it
with ``make demo``, or ``python examples/demo.py``.
"""

import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from mercer import KernelRidgeCV
from mercer.datasets import load_concrete
from mercer.kernels import RBF

PICTURE = Path("out") / "demo.png"
INK, BLUE, ORANGE, GREY = "#222222", "#2b6ca3", "#d9772b", "#9a9a9a"


def main():
    concrete = load_concrete()
    names = concrete.feature_names
    X, X_test, y, y_test = train_test_split(concrete.data, concrete.target, test_size=0.2, random_state=0)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    kernel = RBF(lengthscale=np.full(len(names), 2.0))  # one lengthscale a column
    print(f"Concrete: {len(y)} mixtures to train on, {len(y_test)} to test, {len(names)} columns; strength in MPa\n")

    print("Planned")
    print(kernel.gram(X).explain(), "\n")

    start = time.perf_counter()
    model = KernelRidgeCV(kernel=kernel, tune="all", fit_intercept=True).fit(X, y)
    fitted = time.perf_counter() - start
    start = time.perf_counter()
    predicted = model.predict(X_test)
    asked = time.perf_counter() - start
    linear = RidgeCV(np.logspace(-3, 3, 13)).fit(X, y).predict(X_test)
    errors = {
        "mean of the training targets": rmse(np.full_like(y_test, y.mean()), y_test),
        "linear ridge": rmse(linear, y_test),
        "tuned kernel ridge": rmse(predicted, y_test),
    }

    print("Reached: root mean squared error on the test rows")
    for name, error in errors.items():
        print(f"  {name:<30} {error:6.2f}")
    print(f"  {'(leave-one-out, training rows)':<30} {np.sqrt(model.loo_error_):6.2f}\n")
    print(f"Lengthscales, short ones first (columns have variance 1); alpha = {model.alpha_:.2g}")
    for j in np.argsort(model.kernel_.lengthscale):
        print(f"  {names[j]:<30} {model.kernel_.lengthscale[j]:6.2f}")
    print(f"\nModel    {model.size_report()}")
    print(f"Tuning   {model.tuning_.n_evaluations} evaluations of the exact leave-one-out error and its gradient")
    print(f"Solution relative residual {model.residual_:.1e}")
    print(f"Seconds  {fitted:.1f} to tune and fit, {asked:.3f} to predict {len(y_test)} rows")

    PICTURE.parent.mkdir(exist_ok=True)
    draw(y_test, predicted, errors, names, 1.0 / np.asarray(model.kernel_.lengthscale))
    print(f"Picture  {PICTURE}")


def rmse(predicted, y):
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def draw(y, predicted, errors, names, relevance):
    style = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "text.color": INK}
    with plt.rc_context(style):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), width_ratios=[1.1, 1], layout="constrained")
        limits = [0, 10 * np.ceil(max(y.max(), predicted.max()) / 10)]
        left.plot(limits, limits, color=GREY, linewidth=1, zorder=1)
        left.text(
            0.97, 0.03, "line: predicted = measured", transform=left.transAxes, ha="right", color=GREY, fontsize=9
        )
        left.scatter(y, predicted, s=18, color=BLUE, alpha=0.75, linewidths=0, zorder=2)
        lines = [f"{error:5.2f}".replace(" ", "\u2007") + f"  {name}" for name, error in errors.items()]
        left.text(0.03, 0.97, "RMSE in MPa\n" + "\n".join(lines), transform=left.transAxes, va="top", fontsize=9)
        left.set(xlabel="measured strength (MPa)", ylabel="predicted strength (MPa)", xlim=limits, ylim=limits, aspect="equal",
                 title=f"{len(y)} mixtures the model has not seen")  # fmt: skip
        order = np.argsort(relevance)
        right.barh([names[j].replace("_", " ") for j in order], relevance[order], color=ORANGE, height=0.65)
        right.set(xlabel="1 / lengthscale, columns of variance 1", title="What the tuned kernel looks at")
        right.tick_params(axis="y", length=0)
        figure.savefig(PICTURE, dpi=150)
        plt.close(figure)


if __name__ == "__main__":
    main()

"""Speed and size
==============

How few vectors can a machine do with? One support vector machine keeps hundreds, and four ways predict faster: a
reduced set made of the fitted machine, a budget machine that learns its few points, and linear machines on Nyström's
landmarks or on random Fourier features. Learned points need fewest; with 80 all but random features are as good as the
whole machine.

:Gallery: D21
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from mercer import SVC, BudgetKernelClassifier, Nystroem, RandomFourierFeatures, compress
from mercer.kernels import RBF
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

KERNEL, SIZES = RBF(0.35), (10, 20, 40, 80)


def spirals(n, seed):
    """Two noisy spirals, of one and a half turns each."""
    rng = np.random.default_rng(seed)
    y, turn = rng.integers(0, 2, n), np.sqrt(rng.uniform(0.02, 1, n))
    z = 3 * turn * np.exp(1j * np.pi * (3 * turn + y))
    return np.column_stack([z.real, z.imag]) + 0.35 * rng.standard_normal((n, 2)), y


def measured(model):
    """Share of wrong answers, and milliseconds of the quickest of five predictions."""
    times = [time.perf_counter()]
    for _ in range(5):
        answers = model.predict(X_test)
        times.append(time.perf_counter())
    return np.mean(answers != y_test), 1e3 * np.diff(times).min()


def linear(features):
    return make_pipeline(features, LogisticRegression(C=10.0, max_iter=2000)).fit(X, y)


(X, y), (X_test, y_test) = spirals(800, seed=0), spirals(10_000, seed=1)
exact = SVC(C=1.0, kernel=KERNEL).fit(X, y)
ways = {
    "reduced set": lambda k: compress(exact, k, random_state=0),
    "budget": lambda k: BudgetKernelClassifier(k, kernel=KERNEL, max_iter=20, random_state=0).fit(X, y),
    "Nyström": lambda k: linear(Nystroem(KERNEL, n_components=k, random_state=0)),
    "random features": lambda k: linear(RandomFourierFeatures(KERNEL, k, random_state=0)),
}
found = {name: np.array([measured(make(k)) for k in SIZES]) for name, make in ways.items()}
n, whole = len(exact.X_fit_), measured(exact)

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for j, title in enumerate(("share of wrong classes", "milliseconds for 10 000 predictions")):
    for colour, (name, values) in zip(COLOURS, found.items(), strict=False):
        axes[j].plot(SIZES, values[:, j], "o-", color=colour, label=name)
    axes[j].plot([n], whole[j], "*", color="#222222", markersize=14, label=f"exact, {n} vectors")
    axes[j].axhline(whole[j], color="#222222", linewidth=0.8, linestyle=":")
    axes[j].set(xscale="log", xlabel="vectors or features", ylim=(0, None), title=title)
    axes[j].set_xticks([*SIZES, n], [*SIZES, n])
    axes[j].minorticks_off()
    axes[j].spines[["top", "right"]].set_visible(False)
axes[0].legend(frameon=False)
save_picture(figure, "speed_and_size")
wrong = {name: values[:, 0].round(3).tolist() for name, values in found.items()}
print(f"exact: {whole[0]:.1%} wrong with {n} vectors; wrong with {SIZES}: {wrong}")
assert wrong["budget"][1] == min(w[1] for w in wrong.values()) < sorted(w[1] for w in wrong.values())[1] - 0.05
assert max(wrong[name][-1] for name in list(ways)[:3]) < whole[0] + 0.01 < wrong["random features"][-1]

"""The perceptron step by step
===========================

What does a perceptron do with a mistake? It adds the row, which turns its line towards getting that row right. Where a
line can separate the classes it ends after a few mistakes. Where some labels are wrong it never ends: the number of
mistakes in a pass does not fall to 0. The mean of all its lines (``variant="averaged"``) is a good one all the same.

:Gallery: D24
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPerceptron
from mercer.kernels import Linear
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

rng = np.random.default_rng(4)
X = rng.uniform(-3, 3, (200, 2))
X = X[np.abs(X @ [1, 2] - 1) > 0.8][:80]
y = np.where(X @ [1, 2] > 1, 1, -1)
noisy = np.where(np.arange(80) % 10 == 0, -y, y)  # one label in ten is wrong

figure, axes = plt.subplot_mosaic("ABCE;DFGE", figsize=(12, 5.4), layout="constrained", width_ratios=(1, 1, 1, 1.6))
panels, model, drawn = [axes[k] for k in "ABCDFG"], KernelPerceptron(Linear(), variant="plain"), 0
for row, label in zip(np.tile(X, (20, 1)), np.tile(y, 20), strict=True):  # twenty passes at most
    before = model.n_mistakes_ if drawn else 0
    model.partial_fit([row], [label], classes=[-1, 1])
    if model.n_mistakes_ > before and drawn < 6:
        w, b = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        assert np.isclose(model.decision_function([row])[0], row @ w + b)
        ax, drawn = panels[drawn], drawn + 1
        for c, marker in zip((-1, 1), "os", strict=True):
            ax.plot(*X[y == c].T, marker, color=COLOURS[c > 0], markersize=3)
        ax.plot(*row, "o", markerfacecolor="none", markeredgecolor="#222222", markersize=11)
        ends = np.array([-9.0, 9.0])[:, None] * [-w[1], w[0]] - b * w / (w @ w)
        ax.plot(*ends.T, color="#222222")
        right = model.score(X, y)
        ax.set(
            xlim=(-3.3, 3.3), ylim=(-3.3, 3.3), xticks=[], yticks=[], title=f"mistake {drawn}: then {right:.0%} right"
        )
assert model.score(X, y) == 1

passes = {}
for c, (name, labels) in enumerate({"separable": y, "one label in ten wrong": noisy}.items()):
    fitted = KernelPerceptron(Linear(), variant="averaged", max_iter=40, random_state=0).fit(X, labels)
    passes[name] = fitted.mistakes_per_pass_
    print(f"{name}: mistakes in each pass {passes[name][:8]}..., averaged machine {fitted.score(X, y):.0%} right")
    axes["E"].plot(1 + np.arange(len(passes[name])), passes[name], "o-", color=COLOURS[c], markersize=4, label=name)
    assert fitted.score(X, y) > 0.95
assert passes["separable"][-1] == 0
assert len(passes["one label in ten wrong"]) == 40
assert min(passes["one label in ten wrong"]) >= 8
axes["E"].set(
    xlabel="pass", ylabel="mistakes in the pass", title="with wrong labels it does not end", ylim=(-0.5, None)
)
axes["E"].legend(frameon=False)
axes["E"].spines[["top", "right"]].set_visible(False)
save_picture(figure, "perceptron_steps")

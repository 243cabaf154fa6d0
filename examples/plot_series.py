"""Series of different pace
========================

Can series be compared that do not keep step? Bumps of two shapes start anywhere and last as long as they like. Time
warping shows which steps belong together; the global alignment kernel sums over all alignments and tells the shapes
apart, where a kernel of the first forty numbers does worse. Cuturi (2011).

:Gallery: E6
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

from mercer import SVC
from mercer.kernels import RBF, DynamicTimeWarping, GlobalAlignment
from mercer.plots import ClusteredGramDisplay
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture


def bumps(wide, rng):
    """A series with one wide or two narrow bumps, at a pace of its own."""
    t = np.linspace(0, 1, rng.integers(40, 70)) ** rng.uniform(0.6, 1.6)
    centres, width = ((0.5,), 0.2) if wide else ((0.35, 0.7), 0.08)
    return sum(np.exp(-(((t - c) / width) ** 2)) for c in centres) + 0.05 * rng.standard_normal(len(t))


rng = np.random.default_rng(0)
y = np.arange(40) % 2
X = [bumps(wide, rng) for wide in y]
kernel, warping = GlobalAlignment().resolve(X), DynamicTimeWarping()
cut = np.array([x[:40] for x in X])  # what a kernel of vectors could read
aligned = cross_val_score(SVC(kernel=kernel), X, y).mean()
vectors = cross_val_score(SVC(kernel=RBF("median")), cut, y).mean()
print(f"accuracy, five folds: alignments {aligned:.2f}, vectors of the first 40 steps {vectors:.2f}")
assert vectors + 0.05 < aligned > 0.97

a, b = X[1], X[3]
path = np.array(warping.path(a, b))
assert path[0].tolist() == [0, 0]
assert path[-1].tolist() == [len(a) - 1, len(b) - 1]
assert np.isin(np.diff(path, axis=0), (0, 1)).all()  # forward, one step at a time
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for i, j in path:
    left.plot([i, j], [a[i], b[j] - 2], color="0.8", linewidth=0.6)
left.plot(a, color=COLOURS[0], label="one series")
left.plot(b - 2, color=COLOURS[1], label="another, drawn lower")
left.set(xlabel="step", yticks=[], ylim=(None, 1.6), title="the cheapest alignment")
left.legend(loc="upper left", frameon=False)
ClusteredGramDisplay.from_kernel(kernel, X, np.where(y == 1, "one wide", "two narrow"), ax=right)
right.set_title("global alignment kernel")
save_picture(figure, "series")

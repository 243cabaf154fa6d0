"""Three kinds of flow in the plane
================================

Which map to the plane keeps kinds of flow apart? Oil, water and gas in a pipe are layers, rings or a mixture; six beams
measure the lengths of oil and water that they cross. These 12 columns are simulated after Bishop & James (1993). In the
plane of two principal components many rows have a neighbour of another kind, of two kernel components fewer, of two
latent positions hardly any.

:Gallery: D15
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from mercer import GPLVM, KernelPCA
from mercer.kernels import RBF
from mercer.plots import EmbeddingDisplay, LatentSpaceDisplay
from mercer.plots.gallery import save_picture

KINDS, BEAMS = ("layers", "rings", "mixture"), [8, 24, 45]
h, v = np.meshgrid(np.linspace(-1, 1, 61), np.linspace(-1, 1, 61))
INSIDE = h**2 + v**2 <= 1


def beams(kind, oil, water):
    """Lengths (12,) of oil and water on three level and three upright beams; the rest of the pipe is gas."""
    if kind == "mixture":
        phases = [oil * INSIDE, water * INSIDE]
    else:  # water lies below oil, or outside of it: each phase has its share of the area
        depth = np.where(INSIDE, v if kind == "layers" else -(h**2 + v**2), np.inf)
        first, second = np.quantile(depth[INSIDE], [water, water + oil])
        phases = [(first < depth) & (depth <= second), depth <= first]
    return np.concatenate([np.concatenate([p[BEAMS].mean(1), p[:, BEAMS].mean(0)]) for p in phases])


def neighbour_errors(T):
    """Rows whose nearest other row is of another kind."""
    near = KNeighborsClassifier(1).fit(T, y).kneighbors(return_distance=False)[:, 0]
    return int((y[near] != y).sum())


rng = np.random.default_rng(0)
y = np.arange(100) % 3
X = np.array([beams(KINDS[c], *rng.dirichlet([2, 2, 2])[:2]) for c in y]) + 0.01 * rng.standard_normal((100, 12))
linear, bent, latent = PCA(2).fit(X), KernelPCA(2, kernel=RBF(0.75)).fit(X), GPLVM().fit(X)
errors = [neighbour_errors(T) for T in (linear.transform(X), bent.transform(X), latent.embedding_)]
print("neighbours of another kind, of 100: PCA {}, kernel PCA {}, GPLVM {}".format(*errors))

names = np.array(KINDS)[y]
figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
EmbeddingDisplay.from_estimator(linear, X, names, ax=axes[0])
EmbeddingDisplay.from_estimator(bent, X, names, ax=axes[1])
LatentSpaceDisplay.from_estimator(latent, names, ax=axes[2])
for ax, title, wrong in zip(axes, ("PCA", "kernel PCA, width 0.75", "GPLVM"), errors, strict=True):
    ax.set_title(f"{title}: {wrong} errors")
save_picture(figure, "three_phases")
assert errors[2] < 5 < 10 < errors[1] < errors[0] - 5

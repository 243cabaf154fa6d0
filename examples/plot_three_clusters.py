"""Three clusters
==============

What does kernel PCA see in three clusters? With a narrow Gaussian kernel the first two functions tell the clusters
apart, and each of the next three splits one of them. In the plane of the first two functions the clusters are three far
corners, which the linear components, a turned copy of the data, do not make. Schölkopf, Smola & Müller (1998).

:Gallery: D12, D13
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score

from mercer import KernelPCA
from mercer.kernels import RBF
from mercer.plots import EigenfunctionsDisplay, EmbeddingDisplay
from mercer.plots.gallery import save_picture

CENTRES = np.array([[-0.5, -0.1], [0.0, 0.7], [0.5, 0.1]])
y = np.repeat(np.arange(3), 30)
X = CENTRES[y] + 0.1 * np.random.default_rng(0).standard_normal((90, 2))

model, linear = KernelPCA(8, kernel=RBF(np.sqrt(0.05))).fit(X), PCA(2).fit(X)  # 2 sigma² = 0.1
T = model.transform(X)
of_clusters = np.array([T[y == c].mean(axis=0) for c in range(3)])
between = 30 * np.square(of_clusters).sum(axis=0) / np.square(T).sum(axis=0)
inside = np.array([np.square(T[y == c] - of_clusters[c]).sum(axis=0) for c in range(3)])
print("share of the variance:", model.explained_variance_ratio_.round(3))
print("of it between the clusters:", between.round(2))
assert between[:2].min() > 0.95 > 0.05 > between[2:5].max()
assert (inside[:, 2:5].max(axis=0) > 0.7 * inside[:, 2:5].sum(axis=0)).all()  # one cluster each, and each another one
assert sorted(inside[:, 2:5].argmax(axis=0)) == [0, 1, 2]

shown = EigenfunctionsDisplay.from_estimator(model, X)
shown.figure_.suptitle("the first eight functions, and their shares of the variance")
save_picture(shown.figure_, "eigenfunctions")

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for ax, name, found in zip(axes, ("PCA", "kernel PCA"), (linear, model), strict=True):
    EmbeddingDisplay.from_estimator(found, X, y, ax=ax)
    ax.set_title(name)
save_picture(figure, "embedding")
apart = [silhouette_score(found.transform(X)[:, :2], y) for found in (linear, model)]
print("silhouettes in the plane: {:.2f} of PCA, {:.2f} of kernel PCA".format(*apart))
assert apart[0] + 0.05 < apart[1]

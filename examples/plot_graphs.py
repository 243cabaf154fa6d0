"""Graphs with a ring
==================

Can a kernel see a ring in a graph? Made molecules have branches of carbon and oxygen and six atoms of nitrogen, which
close a ring in every other graph. Counts of atoms see nothing; after one round of Weisfeiler and Lehman, in which every
atom learns its neighbours, the classes are told apart, and the weights of a machine name the subtrees that decide.

:Gallery: E3
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score

from mercer import SVC, KernelPCA, top_features
from mercer.kernels import WeisfeilerLehman, WLOptimalAssignment
from mercer.plots import EmbeddingDisplay
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

KINDS = ("chain", "ring")


def molecule(ring, rng):
    """Edges and labels of a tree of 8 to 15 atoms with six atoms of nitrogen, in a ring or in a chain."""
    size = int(rng.integers(8, 16))
    edges = [(i, int(rng.integers(max(0, i - 2), i))) for i in range(1, size)]
    edges += [(size + i, size + (i + 1) % 6) for i in range(6 if ring else 5)] + [(0, size)]
    return edges, rng.choice(["C", "O"], size, p=[0.8, 0.2]).tolist() + ["N"] * 6


rng = np.random.default_rng(0)
y = np.arange(80) % 2
graphs = [molecule(ring, rng) for ring in y]
folds = StratifiedKFold(4, shuffle=True, random_state=0)
rounds = (0, 1, 2)
scores = [
    cross_val_score(SVC(C=10.0, kernel=WLOptimalAssignment(h).normalise()), graphs, y, cv=folds).mean() for h in rounds
]
print("accuracy:", ", ".join(f"{score:.2f} after {h} rounds" for h, score in zip(rounds, scores, strict=True)))
assert scores[0] < 0.7 < 0.95 < min(scores[1:])
found = top_features(SVC(C=0.1, kernel=WeisfeilerLehman(1)).fit(graphs, y), 6)[0]
print(found)
names, weights = zip(*sorted(found, key=lambda pair: pair[1]), strict=True)
assert names[0] == "N(N)"  # an atom with one neighbour ends a chain

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
model = KernelPCA(2, kernel=WLOptimalAssignment(2).normalise()).fit(graphs)
EmbeddingDisplay.from_estimator(model, graphs, np.array(KINDS)[y], ax=axes[0])
axes[0].set_title("graphs by kernel PCA")
axes[1].barh(names, weights, color=[COLOURS[int(w > 0)] for w in weights])
axes[1].axvline(0, color="#222222", linewidth=0.8)
axes[1].set(title="subtrees: a node (its neighbours)", xlabel="weight; above 0 speaks for a ring")
axes[1].spines[["top", "right"]].set_visible(False)
save_picture(figure, "graphs")

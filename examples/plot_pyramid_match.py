"""Pyramid match
=============

How alike are two sets of points? The pyramid counts points that share a bin, at bins of growing side, and weighs those
that are new at a level by one over the largest L1 distance within a bin. It looks at no pairs; its similarity is at
most that of the best one-to-one matching, and its cost at least that of the cheapest. Grauman & Darrell (2007).

:Gallery: D22
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from mercer.kernels import PyramidMatch
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

LEVELS = 4
rng = np.random.default_rng(3)
A = rng.uniform(0, 8, (9, 2))
B = np.clip(A[:7] + rng.normal(0, 0.6, (7, 2)), 0, 7.99)


def matches(side, kept):
    """Pairs (i, j) that meet in a bin of this side, each point in one pair at most: those of finer bins, and new ones."""
    found = list(kept)
    for i in range(len(A)):
        for j in range(len(B)):
            meet = (np.floor(A[i] / side) == np.floor(B[j] / side)).all()
            if meet and i not in {p for p, _ in found} and j not in {q for _, q in found}:
                found.append((i, j))
    return found


figure, axes = plt.subplots(2, LEVELS, figsize=(11, 4.6), layout="constrained", height_ratios=(2.6, 1))
kept, new = [], []
for side, (top, below) in zip(2 ** np.arange(LEVELS), axes.T, strict=True):
    pairs = matches(side, kept)
    new.append(len(pairs) - len(kept))
    counts = [np.histogram2d(*X.T, bins=8 // side, range=[[0, 8]] * 2)[0].ravel() for X in (A, B)]
    assert len(pairs) == np.minimum(*counts).sum()
    shown = np.flatnonzero(np.maximum(*counts))
    for X, count, colour, marker, shift in zip((A, B), counts, COLOURS, "os", (-0.2, 0.2), strict=False):
        top.scatter(*X.T, c=colour, marker=marker, s=22, zorder=3, label=f"{len(X)} points")
        below.bar(np.arange(len(shown)) + shift, count[shown], 0.4, color=colour)
    for i, j in pairs:
        old = (i, j) in kept
        top.plot(*np.array([A[i], B[j]]).T, color="0.6" if old else "k", lw=1 if old else 2)
    top.set(xticks=np.arange(0, 9, side), yticks=np.arange(0, 9, side), xlim=(0, 8), ylim=(0, 8), aspect="equal")
    top.tick_params(labelbottom=False, labelleft=False, length=0)
    top.grid(True, lw=0.6)
    top.set_title(f"bins of side {side}: {len(pairs)} matched, {new[-1]} new", fontsize=9)
    below.set(xticks=[], yticks=sorted({0, *counts[0], *counts[1]}), xlabel="bins that hold points")
    kept = pairs
axes[0, 0].legend(fontsize=8, loc="upper left")
axes[1, 0].set_ylabel("points")
save_picture(figure, "pyramid_match")

similarity, cost = (PyramidMatch(1, levels=LEVELS, origin=0, form=f)([A], [B]).item() for f in ("similarity", "cost"))
D = cdist(A, B, "cityblock")
best, cheapest = (1 / D)[linear_sum_assignment(-1 / D)].sum(), D[linear_sum_assignment(D)].sum()
np.testing.assert_allclose(similarity, sum(count / (2 * 2**i) for i, count in enumerate(new)))  # two columns
assert similarity <= best
assert cost >= cheapest
print(f"similarity {similarity:.3f}, of the best matching {best:.3f}; cost {cost:.1f}, of the cheapest {cheapest:.1f}")

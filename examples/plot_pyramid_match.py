"""Pyramid match: two sets of points, their histograms level by level, and the matches that each level adds.

The pyramid finds a matching without looking at pairs; its similarity is at most that of the best one-to-one matching.
Grauman & Darrell (2007). Run `python examples/plot_pyramid_match.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from mercer.kernels import PyramidMatch

LEVELS, COLOURS = 4, ("tab:blue", "tab:orange")


def two_sets(seed=3):
    """Nine points, and seven of them moved a little."""
    rng = np.random.default_rng(seed)
    A = rng.uniform(0, 8, (9, 2))
    return A, np.clip(A[:7] + rng.normal(0, 0.6, (7, 2)), 0, 7.99)


def matches(A, B, side):
    """Pairs (i, j) that meet in a bin of this side, each point in one pair at most."""
    bins, free = np.floor(A / side), list(range(len(B)))
    found = []
    for i in range(len(A)):
        j = next((j for j in free if (np.floor(B[j] / side) == bins[i]).all()), None)
        if j is not None:
            free.remove(j)
            found.append((i, j))
    return found


def draw_level(axes, A, B, side, pairs, before):
    """Points, bins and matches above; counts of the bins of one row of the picture below."""
    top, below = axes
    for X, colour, marker in zip((A, B), COLOURS, "os", strict=True):
        top.scatter(*X.T, c=colour, marker=marker, s=22, zorder=3)
    for i, j in pairs:
        top.plot(*np.array([A[i], B[j]]).T, "k-", lw=1)
    top.set(xticks=np.arange(0, 9, side), yticks=np.arange(0, 9, side), xlim=(0, 8), ylim=(0, 8), aspect="equal")
    top.tick_params(labelbottom=False, labelleft=False)
    top.grid(True, lw=0.6)
    top.set_title(f"side {side}: {len(pairs)} matches, {len(pairs) - before} new", fontsize=9)
    counts = [np.histogram2d(*X.T, bins=round(8 / side), range=[[0, 8]] * 2)[0].ravel() for X in (A, B)]
    shown = np.flatnonzero(np.maximum(*counts))
    for count, colour, shift in zip(counts, COLOURS, (-0.2, 0.2), strict=True):
        below.bar(np.arange(len(shown)) + shift, count[shown], 0.4, color=colour)
    below.set(xticks=[], xlabel="bins that hold points")


def main(out=Path("out")):
    A, B = two_sets()
    kernel = PyramidMatch(1, levels=LEVELS, origin=0)
    figure, axes = plt.subplots(2, LEVELS, figsize=(11, 5.4), layout="constrained", height_ratios=(3, 1))
    before = 0
    for level in range(LEVELS):
        pairs = matches(A, B, 2**level)
        draw_level(axes[:, level], A, B, 2**level, pairs, before)
        before = len(pairs)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "pyramid_match.png", dpi=120)

    D = cdist(A, B, "cityblock")
    best = (1 / D)[linear_sum_assignment(1 / D, maximize=True)].sum()
    print(f"pyramid match {float(kernel([A], [B])[0, 0]):.3f}, best matching under 1/L1 {best:.3f}")
    print(f"normalised by the self-similarities: {float(kernel.normalise()([A], [B])[0, 0]):.3f}")
    cost = PyramidMatch(1, levels=LEVELS, origin=0, form="cost")
    print(f"cost {float(cost([A], [B])[0, 0]):.1f}, best matching in L1 {D[linear_sum_assignment(D)].sum():.1f}")
    print(f"picture: {out / 'pyramid_match.png'}")


if __name__ == "__main__":
    main()

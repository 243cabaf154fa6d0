"""Pyramid match: two sets of points, their histograms level by level, and the matches that each level adds.

The pyramid finds a matching without looking at pairs; its similarity is at most that of the best one-to-one matching.
Grauman & Darrell (2007). Run `python examples/plot_pyramid_match.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from mercer.kernels import PyramidMatch

LEVELS, COLOURS = 4, ("tab:blue", "tab:orange")


def two_sets(seed=3):
    """Nine points, and seven of them moved a little."""
    rng = np.random.default_rng(seed)
    A = rng.uniform(0, 8, (9, 2))
    return A, np.clip(A[:7] + rng.normal(0, 0.6, (7, 2)), 0, 7.99)


def matches(A, B, side, kept):
    """Pairs (i, j) that meet in a bin of this side, each point in one pair at most: those of finer bins, and new ones."""
    bins, found = np.floor(A / side), list(kept)
    free = [j for j in range(len(B)) if j not in {j for _, j in kept}]
    for i in [i for i in range(len(A)) if i not in {i for i, _ in kept}]:
        j = next((j for j in free if (np.floor(B[j] / side) == bins[i]).all()), None)
        if j is not None:
            free.remove(j)
            found.append((i, j))
    return found


def draw_points(axes, A, B, side, pairs, kept):
    """Points, bins and matches, the new ones in black."""
    for X, colour, marker, name in zip((A, B), COLOURS, "os", ("9 points", "7 points"), strict=True):
        axes.scatter(*X.T, c=colour, marker=marker, s=22, zorder=3, label=name)
    for i, j in pairs:
        old = (i, j) in kept
        axes.plot(*np.array([A[i], B[j]]).T, color="0.6" if old else "k", lw=1 if old else 2)
    axes.set(xticks=np.arange(0, 9, side), yticks=np.arange(0, 9, side), xlim=(0, 8), ylim=(0, 8), aspect="equal")
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    axes.grid(True, lw=0.6)
    axes.set_title(f"bins of side {side}: {len(pairs)} matched, {len(pairs) - len(kept)} new", fontsize=9)


def draw_histograms(axes, A, B, side):
    """Counts of the bins that hold points."""
    counts = [np.histogram2d(*X.T, bins=round(8 / side), range=[[0, 8]] * 2)[0].ravel() for X in (A, B)]
    shown = np.flatnonzero(np.maximum(*counts))
    for count, colour, shift in zip(counts, COLOURS, (-0.2, 0.2), strict=True):
        axes.bar(np.arange(len(shown)) + shift, count[shown], 0.4, color=colour)
    axes.set(xticks=[], xlim=(-0.8, len(shown) - 0.2), xlabel="bins that hold points")
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def main(out=Path("out")):
    A, B = two_sets()
    kernel = PyramidMatch(1, levels=LEVELS, origin=0)
    figure, axes = plt.subplots(2, LEVELS, figsize=(11, 4.3), layout="constrained", height_ratios=(2.6, 1))
    kept = []
    for level, (top, below) in enumerate(axes.T):
        pairs = matches(A, B, 2**level, kept)
        draw_points(top, A, B, 2**level, pairs, kept)
        draw_histograms(below, A, B, 2**level)
        kept = pairs
    axes[0, 0].legend(fontsize=8, loc="upper left")
    axes[1, 0].set_ylabel("points")
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

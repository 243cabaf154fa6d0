"""Market baskets: sets of articles in clusters around typical baskets, by k-medoids in the Jaccard distance.

With MERCER_DATA set, the baskets are those of a grocery; otherwise they are made from five habits.
Run `python examples/plot_baskets.py`; the picture is written to out/.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np

from mercer import KMedoids, datasets
from mercer.kernels import Jaccard

HABITS = [
    ["bread", "milk", "butter", "jam"],
    ["beer", "crisps", "nuts"],
    ["tomatoes", "onions", "pasta", "cheese"],
    ["apples", "bananas", "yoghurt"],
    ["soap", "shampoo", "towels"],
]


def made(n=400, seed=0):
    """Most of what a habit asks for, and now and then something else."""
    rng = np.random.default_rng(seed)
    articles = sorted({a for habit in HABITS for a in habit})
    found = []
    for _ in range(n):
        habit = HABITS[rng.integers(len(HABITS))]
        basket = {a for a in habit if rng.random() < 0.75} | {a for a in articles if rng.random() < 0.03}
        found.append(frozenset(basket or {habit[0]}))
    return found


def baskets():
    """Baskets of two to eight articles."""
    try:
        with np.load(datasets.data_home() / "groceries.npz") as file:
            ptr, items, names = file["indptr"], file["indices"], file["items"]
    except FileNotFoundError:
        return made()
    found = [frozenset(names[items[a:b]].tolist()) for a, b in pairwise(ptr)]
    return [b for b in found if 2 <= len(b) <= 8][:2000]


def typical(mine, everything, count=4):
    """Articles that are most above their share among all baskets, with their share among these."""
    share, overall = (Counter(a for b in some for a in b) for some in (mine, everything))
    gain = {a: share[a] / len(mine) - overall[a] / len(everything) for a in share}
    return [(a, share[a] / len(mine)) for a in sorted(gain, key=lambda a: -gain[a])[:count]]


def draw_cluster(axes, medoid, mine, described):
    """Bars of what is typical of a cluster, under its medoid."""
    names, shares = zip(*sorted(described, key=lambda pair: pair[1]), strict=True)
    axes.barh(names, 100 * np.array(shares))
    axes.tick_params(axis="y", labelsize=9)
    centre = fill(", ".join(sorted(medoid)), 44)
    axes.set_title(f"{len(mine)} baskets around\n{centre}", fontsize=9, loc="left")


def main(out=Path("out"), k=6):
    rows = baskets()
    model = KMedoids(k, kernel=Jaccard(), n_init=3, random_state=0).fit(rows)
    figure, axes = plt.subplots(2, k // 2, figsize=(11, 5.6), layout="constrained", sharex=True)
    for c, ax in enumerate(axes.ravel()):
        mine, medoid = (
            [b for b, label in zip(rows, model.labels_, strict=True) if label == c],
            rows[model.medoid_indices_[c]],
        )
        found = typical(mine, rows)
        print(
            f"{len(mine):5d} baskets around {{{', '.join(sorted(medoid))}}}: "
            + ", ".join(f"{a} {s:.0%}" for a, s in found)
        )
        draw_cluster(ax, medoid, mine, found)
    for ax in axes[-1]:
        ax.set_xlabel("% of the baskets hold it")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "baskets.png", dpi=120)
    print(f"picture: {out / 'baskets.png'}")


if __name__ == "__main__":
    main()

"""Graphs: molecule-like graphs with a ring or without, by the Weisfeiler-Lehman assignment kernel, and which subtrees decide.

With MERCER_DATA set, the graphs are those of MUTAG, aromatic compounds that change bacteria or do not.
Run `python examples/plot_graphs.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score

from mercer import SVC, KernelPCA, datasets, top_features
from mercer.kernels import Graph, WeisfeilerLehman, WLOptimalAssignment, read_graphs


def made(n=120, seed=0):
    """Branches of carbon and oxygen with six atoms of nitrogen: in every other graph these close a ring."""
    rng = np.random.default_rng(seed)
    graphs, y = [], np.arange(n) % 2
    for ring in y:
        size = int(rng.integers(8, 16))
        edges = [(i, int(rng.integers(max(0, i - 2), i))) for i in range(1, size)]
        start = size
        edges += [(start + i, start + (i + 1) % 6) for i in range(6 if ring else 5)] + [(0, start)]
        graphs.append((edges, rng.choice(["C", "O"], size, p=[0.8, 0.2]).tolist() + ["N"] * 6))
    return graphs, y


def graphs_and_classes():
    """(graphs without labels of edges, classes, names of the classes)."""
    try:
        path = datasets.data_home() / "graph_mutag.npz"
        with np.load(path) as file:
            y = file["y"]
        return [Graph(g.n_nodes, g.edges, g.codes, names=g.names) for g in read_graphs(path)], y, ("inert", "mutagenic")
    except FileNotFoundError:
        return *made(), ("chain", "ring")


def draw_map(axes, graphs, y, classes):
    """Two components of kernel PCA."""
    points = KernelPCA(2, kernel=WLOptimalAssignment(3).normalise()).fit_transform(graphs)
    for value, name in zip(np.unique(y), classes, strict=True):
        axes.scatter(*points[y == value].T, s=18, label=name)
    axes.set(title="graphs by kernel PCA", xlabel="first component", ylabel="second component")
    axes.legend(frameon=False)


def draw_weights(axes, found, classes):
    """Bars of features and their weights, sorted."""
    names, weights = zip(*sorted(found, key=lambda pair: pair[1]), strict=True)
    axes.barh(names, weights, color=["C0" if w < 0 else "C1" for w in weights])
    axes.axvline(0, color="k", lw=0.8)
    axes.set(title="subtrees: a node (its neighbours)", xlabel=f"weight; above 0 speaks for {classes[1]}")


def main(out=Path("out")):
    graphs, y, classes = graphs_and_classes()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for h in (0, 1, 3):
        kernel = WLOptimalAssignment(h).normalise()
        score = cross_val_score(SVC(C=10.0, kernel=kernel), graphs, y, cv=folds).mean()
        print(f"{h} rounds: accuracy {score:.3f}")
    found = top_features(SVC(C=0.1, kernel=WeisfeilerLehman(1)).fit(graphs, y), 10)
    print(found)

    out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    draw_map(axes[0], graphs, y, classes)
    draw_weights(axes[1], found[0], classes)
    figure.savefig(out / "graphs.png", dpi=120)
    print(f"picture: {out / 'graphs.png'}")


if __name__ == "__main__":
    main()

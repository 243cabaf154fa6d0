"""Graphs: molecule-like graphs with a ring or without, by the Weisfeiler-Lehman assignment kernel, and which subtrees decide.

With MERCER_DATA set, the graphs are those of MUTAG, aromatic compounds that change bacteria or do not.
Run `python examples/plot_graphs.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score

from mercer import SVC, KernelPCA, datasets
from mercer.kernels import WeisfeilerLehman, WLOptimalAssignment, read_graphs


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
    try:
        path = datasets.data_home() / "graph_mutag.npz"
        with np.load(path) as file:
            return read_graphs(path), file["y"]
    except FileNotFoundError:
        return made()


def weights_of_features(kernel, graphs, y, penalty):
    """Weights of the explicit features in a machine that is linear in them."""
    model = SVC(C=penalty, kernel=kernel).fit(graphs, y)
    matrix, _, names = kernel.count_matrix(np.array([*graphs, None], dtype=object)[:-1])
    signed = np.zeros(len(graphs))
    signed[model.support_] = model.dual_coef_.ravel()
    weight = matrix.T @ signed
    order = np.argsort(weight)
    return [(n, weight[j]) for ends in (order[:4], order[-4:]) for j, n in zip(ends, names.names(ends), strict=True)]


def main(out=Path("out")):
    graphs, y = graphs_and_classes()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for h in (0, 1, 3):
        kernel = WLOptimalAssignment(h).normalise()
        score = cross_val_score(SVC(C=10.0, kernel=kernel), graphs, y, cv=folds).mean()
        print(f"{h} rounds: accuracy {score:.3f}")
    for name, weight in weights_of_features(WeisfeilerLehman(1), graphs, y, 0.1):
        print(f"{weight:+8.3f}  {name}")

    points = KernelPCA(2, kernel=WLOptimalAssignment(3).normalise()).fit_transform(graphs)
    out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(5, 4.2), layout="constrained")
    axes.scatter(*points.T, c=y, cmap="coolwarm", s=18)
    axes.set(title="two components of graphs", xlabel="first", ylabel="second")
    figure.savefig(out / "graphs.png", dpi=120)
    print(f"picture: {out / 'graphs.png'}")


if __name__ == "__main__":
    main()

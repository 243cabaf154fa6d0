"""How fast is the Weisfeiler-Lehman Gram matrix of a set of graphs, beside GraKeL?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare, installed

ROUNDS = 5
NOTES = (
    "graphs are read before the clock starts, each side from objects of its own library; labels of nodes, or degrees where there "
    "are none, and no labels of edges. GraKeL's time is that of fit_transform, which relabels and multiplies; one process"
)


@benchmark(
    "The Weisfeiler-Lehman subtree kernel, five rounds: the Gram of MUTAG, IMDB-BINARY and IMDB-MULTI, against GraKeL"
)
def graphs(small):
    for name in ("mutag", "imdb_binary", "imdb_multi"):
        ours = _made(name, small)
        theirs = [_theirs(g) for g in ours] if installed("grakel") else []
        yield _race(name, ours, theirs, small)


def _made(name, small):
    """Graphs of a file of MERCER_DATA, labels of edges left out; random ones where there is none, and at small sizes."""
    from mercer import datasets
    from mercer.kernels import Graph, read_graphs

    try:
        found = [] if small else read_graphs(datasets.data_home() / f"graph_{name}.npz")
    except FileNotFoundError:
        found = []
    if not found:
        found = [_random(np.random.default_rng(seed)) for seed in range(20 if small else 1000)]
    return [Graph(g.n_nodes, g.edges, g.labels) for g in found]


def _random(rng, n=18):
    from mercer.kernels import Graph

    pairs = np.array([(i, j) for i in range(n) for j in range(i)])
    return Graph.read((pairs[rng.random(len(pairs)) < 0.12], rng.integers(0, 5, n)))


def _theirs(g):
    """A graph of GraKeL's, in the format that its kernel reads fastest."""
    from grakel import Graph

    near = {i: {} for i in range(g.n_nodes)}
    for u, v in g.edges.tolist():
        near[u][v] = near[v][u] = 1.0
    return Graph(near, dict(enumerate(g.labels.tolist())), graph_format="dictionary")


def _race(name, ours, theirs, small):
    from mercer.kernels import WeisfeilerLehman

    expected = WeisfeilerLehman(ROUNDS)(ours)
    return compare(
        f"{name}, {len(ours)} graphs",
        [
            Contender(OURS, lambda: WeisfeilerLehman(ROUNDS)(ours)),
            Contender("GraKeL", lambda: _grakel(theirs), needs="grakel", aim=10.0),
        ],
        error=lambda K: _difference(K, expected),
        error_name="largest difference of an entry, over the largest entry",
        sizes={"graphs": len(ours), "nodes": int(sum(g.n_nodes for g in ours)), "rounds": ROUNDS},
        small=small,
        notes=NOTES,
    )


def _difference(K, expected):
    """Both count the same labels: the matrices hold the same whole numbers, or one of them is wrong."""
    found = float(np.abs(K - expected).max() / expected.max())
    if found:
        raise ValueError(f"the Gram matrices differ by {found:g} of the largest entry")
    return found


def _grakel(graphs):
    from grakel.kernels import VertexHistogram, WeisfeilerLehman

    return WeisfeilerLehman(n_iter=ROUNDS, base_graph_kernel=VertexHistogram, n_jobs=None).fit_transform(graphs)

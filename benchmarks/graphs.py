"""How fast is the Weisfeiler-Lehman Gram matrix of a set of graphs, beside GraKeL?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

NOTES = (
    "graphs are read before the clock starts, on both sides; labels of nodes, or degrees where there are none, and no labels of "
    "edges. GraKeL's time is that of fit_transform, which relabels and multiplies; one process"
)


@benchmark(
    "The Weisfeiler-Lehman subtree kernel, five rounds: the Gram of MUTAG, IMDB-BINARY and IMDB-MULTI, against GraKeL"
)
def graphs(small):
    for name in ("mutag", "imdb_binary", "imdb_multi"):
        ours = _made(name, small)
        yield _race(name, ours, [_theirs(g) for g in ours], small)


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
    """(edges, labels) as GraKeL reads them."""
    both = [(int(u), int(v)) for u, v in g.edges] + [(int(v), int(u)) for u, v in g.edges]
    return dict.fromkeys(both, 1.0), {i: int(c) for i, c in enumerate(g.labels)}


def _race(name, ours, theirs, small):
    from mercer.kernels import WeisfeilerLehman

    expected = WeisfeilerLehman(5)(ours)
    return compare(
        f"{name}, {len(ours)} graphs",
        [
            Contender(OURS, lambda: WeisfeilerLehman(5)(ours)),
            Contender("GraKeL", lambda: _grakel(theirs), needs="grakel", rounds=2, aim=10.0),
        ],
        error=lambda K: float(np.abs(K - expected).max() / expected.max()),
        error_name="largest difference of an entry, over the largest entry",
        sizes={"graphs": len(ours), "nodes": int(sum(g.n_nodes for g in ours)), "rounds": 5},
        small=small,
        notes=NOTES,
    )


def _grakel(graphs):
    from grakel.kernels import VertexHistogram, WeisfeilerLehman

    return WeisfeilerLehman(n_iter=5, base_graph_kernel=VertexHistogram, n_jobs=None).fit_transform(graphs)

"""Kernels on graphs (S11): against enumeration with networkx, closed forms, and invariance under renumbering."""

import itertools
import pickle
from collections import Counter

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.model_selection import GridSearchCV

from cases import close
from mercer import SVC, KernelRidge, top_features
from mercer.kernels import (
    RBF,
    EdgeHistogram,
    Graph,
    Graphlet,
    Linear,
    Propagation,
    RandomWalk,
    ShortestPath,
    Spectrum,
    VertexHistogram,
    WeisfeilerLehman,
    WLOptimalAssignment,
    read_graphs,
)
from mercer.kernels.graph_features import _cubes

SEEDS = st.integers(0, 10_000)
LABELLED = [
    VertexHistogram(),
    EdgeHistogram(),
    ShortestPath(),
    WeisfeilerLehman(2),
    WLOptimalAssignment(2),
    RandomWalk(0.2, steps=4),
    RandomWalk(0.001),
]
ALL = [*LABELLED, Graphlet(3), Graphlet(4)]


def random_graph(rng, n=None, edge_labels=False):
    """A networkx graph with labels of mixed types, and loops."""
    n = int(rng.integers(0, 7)) if n is None else n
    g = nx.Graph()
    g.add_nodes_from((i, {"label": ["C", 1, (2, "x")][rng.integers(3)]}) for i in range(n))
    pairs = [p for p in itertools.combinations_with_replacement(range(n), 2) if rng.random() < 0.4]
    g.add_edges_from((u, v, {"label": "ab"[rng.integers(2)]} if edge_labels else {}) for u, v in pairs)
    return g


def several(seed, count=4, **options):
    rng = np.random.default_rng(seed)
    return [random_graph(rng, **options) for _ in range(count)]


def label(g, v):
    return g.nodes[v]["label"]


def products(counters):
    return [[float(sum(a[f] * b[f] for f in a)) for b in counters] for a in counters]


# ---------------------------------------------------------------------------------------------- each against its definition
def ends(g, u, v):
    return frozenset(Counter([label(g, u), label(g, v)]).items())


@given(SEEDS)
def test_histograms(seed):
    graphs = several(seed, edge_labels=True)
    close(VertexHistogram()(graphs), products([Counter(label(g, v) for v in g) for g in graphs]), 0.0)
    edges = [Counter((ends(g, u, v), g.edges[u, v]["label"]) for u, v in g.edges) for g in graphs]
    close(EdgeHistogram()(graphs), products(edges), 0.0)


@given(SEEDS)
def test_shortest_paths(seed):
    graphs = several(seed)
    found = []
    for g in graphs:
        lengths = dict(nx.all_pairs_shortest_path_length(g))
        pairs = itertools.combinations(g, 2)
        found.append(Counter((ends(g, u, v), lengths[u][v]) for u, v in pairs if v in lengths[u]))
    close(ShortestPath()(graphs), products(found), 0.0)


def refined(g, rounds):
    """Labels of the nodes in all rounds, as nested tuples: no hashing."""
    labels = [{v: repr(label(g, v)) for v in g}]
    for _ in range(rounds):
        old = labels[-1]
        around = {v: sorted((old[w], g.edges[v, w].get("label", "")) for w in g[v]) for v in g}
        labels.append({v: (old[v], tuple(around[v])) for v in g})
        labels[-1] = {v: repr(value) for v, value in labels[-1].items()}
    return labels


@pytest.mark.parametrize("edge_labels", [False, True])
@given(seed=SEEDS)
def test_weisfeiler_lehman(edge_labels, seed):
    graphs = several(seed, edge_labels=edge_labels)
    for h in (0, 1, 3):
        rounds = [refined(g, h) for g in graphs]
        counts = [Counter((i, v) for i, labels in enumerate(r) for v in labels.values()) for r in rounds]
        close(WeisfeilerLehman(h)(graphs), products(counts), 0.0)


def test_refined_labels_tell_graphs_apart_but_not_all():
    """Two triangles and a ring of six look alike to the end; with a tail they do not."""
    ring, triangles = nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    close(WeisfeilerLehman(6).squared_distance([ring], [triangles]), [[0.0]], 0.0)
    for g in (ring, triangles):
        g.add_edge(0, 6)
    assert WeisfeilerLehman(1).squared_distance([ring], [triangles])[0, 0] == 0.0
    assert WeisfeilerLehman(3).squared_distance([ring], [triangles])[0, 0] > 0.0


@given(SEEDS)
def test_optimal_assignment_is_optimal(seed):
    graphs = several(seed)
    h = 2
    rounds = [refined(g, h) for g in graphs]
    expected = np.zeros((len(graphs), len(graphs)))
    for i, j in itertools.product(range(len(graphs)), repeat=2):
        worth = np.array(
            [[sum(rounds[i][t][u] == rounds[j][t][v] for t in range(h + 1)) for v in graphs[j]] for u in graphs[i]]
        )
        if worth.size:
            expected[i, j] = worth[linear_sum_assignment(worth, maximize=True)].sum()
    K = WLOptimalAssignment(h)(graphs)
    close(K, expected, 0.0)
    assert WLOptimalAssignment(h).validity.certified
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * K.max()


def product_adjacency(g, h):
    nodes = [(u, v) for u in g for v in h if label(g, u) == label(h, v)]
    return np.array([[float(g.has_edge(a, c) and h.has_edge(b, d)) for c, d in nodes] for a, b in nodes])


@given(SEEDS)
def test_random_walks(seed):
    graphs = several(seed, 3)
    finite, endless = np.zeros((3, 3)), np.zeros((3, 3))
    for i, j in itertools.product(range(3), repeat=2):
        A = product_adjacency(graphs[i], graphs[j])
        if len(A):
            one = np.ones(len(A))
            finite[i, j] = sum(0.3**n * one @ np.linalg.matrix_power(A, n) @ one for n in range(5))
            endless[i, j] = one @ np.linalg.solve(np.eye(len(A)) - 0.03 * A, one)
    close(RandomWalk(0.3, steps=4)(graphs), finite, 1e-13)
    close(RandomWalk(0.03)(graphs), endless, 1e-13)


def test_walks_that_do_not_converge_are_refused():
    complete = [nx.complete_graph(5), nx.complete_graph(9)]
    with pytest.raises(ValueError, match=r"decay=0.02.* eigenvalues .* 8 and 8, so decay must be below 0.0156"):
        RandomWalk(0.02)(complete)
    nearly = RandomWalk(0.0156)([nx.complete_graph(9)])[0, 0]
    assert nearly == pytest.approx(81 / (1 - 0.0156 * 64), rel=1e-11)  # all nodes have the degree 8, and that as label
    with pytest.raises(ValueError, match="more than float64 holds"):
        RandomWalk(1e6, steps=60)(complete)
    with pytest.raises(ValueError, match=r"8 and 8, so decay must be below 0\.0156"):
        RandomWalk(0.017)(complete)
    with pytest.raises(
        ValueError, match=r"2 and 2, so decay must be below 0\.25"
    ):  # of large graphs the largest degree
        RandomWalk(0.3)([nx.path_graph(501)])


def kinds(g, k):
    found, g = Counter(), g.copy()
    g.remove_edges_from(list(nx.selfloop_edges(g)))
    for chosen in itertools.combinations(g, k):
        part = g.subgraph(chosen)
        found[tuple(sorted(d for _, d in part.degree))] += 1
    return found


@pytest.mark.parametrize("k", [3, 4])
def test_graphlets(k):
    graphs = several(3, 6)
    close(Graphlet(k)(graphs), products([kinds(g, k) for g in graphs]), 0.0)
    atlas = [g for g in nx.graph_atlas_g() if len(g) == k]
    close(Graphlet(k)(atlas), np.eye({3: 4, 4: 11}[k]), 0.0)


def test_sampled_graphlets_tend_to_all():
    g = nx.gnp_random_graph(30, 0.3, seed=0)
    every, some = (Graphlet(4, n)([g])[0, 0] ** 0.5 for n in (None, 20_000))
    assert some / 20_000 == pytest.approx(every / 27405, rel=0.02)
    few = Graphlet(4, 100, seed=1)
    close(few([g]), few([g]), 0.0)
    assert few([g])[0, 0] != Graphlet(4, 100, seed=2)([g])[0, 0]
    small = nx.path_graph(5)
    close(Graphlet(3, 10)([small]), Graphlet(3)([small]), 0.0)  # there are only ten
    atlas = [Graph.read(g) for g in nx.graph_atlas_g() if len(g) == 4]
    assert len({int(_cubes(g, np.array([[0, 1, 2, 3]]))[0]) for g in atlas}) == 11  # the kinds are told apart
    rows = Graphlet(3, 4000)._samples(7, 3)
    assert (np.sort(rows, axis=1)[:, 1:] > np.sort(rows, axis=1)[:, :-1]).all()
    assert np.bincount(rows.ravel(), minlength=7) == pytest.approx(12000 / 7, rel=0.1)


def attributed(rng, n):
    g = nx.gnp_random_graph(n, 0.4, seed=int(rng.integers(1000)))
    nx.set_node_attributes(g, {v: rng.standard_normal(2).tolist() for v in g}, "attributes")
    return g


def test_propagation():
    rng = np.random.default_rng(0)
    graphs = [attributed(rng, n) for n in (3, 5, 1, 0)]
    k, rounds = RBF(1.3), []
    for g in graphs:
        X = np.array([g.nodes[v]["attributes"] for v in g]).reshape(len(g), 2)
        found = [X]
        for _ in range(2):
            X = np.array([np.mean([X[w] for w in g[v]], axis=0) if len(g[v]) else X[v] for v in g]).reshape(len(g), 2)
            found.append(X)
        rounds.append(found)
    expected = [
        [sum(k(x, y).sum() for x, y in zip(a, b, strict=True) if len(x) and len(y)) for b in rounds] for a in rounds
    ]
    close(Propagation(k, steps=2)(graphs), expected, 1e-13)
    assert Propagation(RBF("median")).resolve(graphs).kernel == RBF("median").resolve(np.vstack([r[0] for r in rounds]))
    w = np.array([0.0, 1.0, 5.0, 1.0])
    weighted = RBF("scale").resolve(np.vstack([r[0] for r in rounds]), np.repeat(w, [3, 5, 1, 0]))
    assert Propagation(RBF("scale")).resolve(graphs, w).kernel == weighted
    assert Propagation(RBF("scale")).resolve(graphs).kernel != weighted
    with pytest.raises(ValueError, match='row 1: Propagation reads graphs whose nodes have "attributes"'):
        Propagation()([graphs[0], nx.path_graph(3)])
    with pytest.raises(TypeError, match="needs a kernel of vectors"):
        Propagation(Spectrum(2))


# ---------------------------------------------------------------------------------------------- input
@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_numbering_does_not_matter(kernel):
    rng = np.random.default_rng(5)
    graphs = several(5, 5, n=7)
    moved = [nx.relabel_nodes(g, dict(zip(g, rng.permutation(7).tolist(), strict=True))) for g in graphs]
    again = []
    for g in moved:
        h = nx.Graph()
        h.add_nodes_from(sorted(g.nodes(data=True)))
        h.add_edges_from((v, u) for u, v in g.edges)
        again.append(h)
    close(kernel(graphs, again), kernel(graphs), 1e-13)


@pytest.mark.parametrize("kernel", ALL, ids=str)
def test_ways_to_write_a_graph(kernel):
    edges, labels = [(0, 1), (1, 2), (0, 2), (2, 3)], ["C", "C", "O", 7]
    g = nx.Graph(edges)
    nx.set_node_attributes(g, dict(enumerate(labels)), "label")
    forms = [
        (edges, labels),
        (np.array(edges), np.array(labels, dtype=object)),
        ([(v, u) for u, v in edges] + edges, labels),  # in both directions
        {"edges": edges, "labels": labels, "n_nodes": 4},
        ([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], dict(zip("abcd", labels, strict=True))),
        Graph.read(g),
    ]
    expected = kernel([g])[0, 0]
    for form in forms:
        close(kernel([g], [form]), [[expected]], 1e-14)


def test_without_labels_degrees_count():
    bare, named = nx.star_graph(3), nx.star_graph(3)
    nx.set_node_attributes(named, dict(named.degree), "label")
    for kernel in LABELLED:
        close(kernel([bare]), kernel([named]), 0.0)
    loop = ([(0, 0), (0, 1), (1, 2)], [2, 2, 1])  # a loop makes a node its own neighbour, once
    for kernel in LABELLED:
        close(kernel([{"edges": loop[0]}]), kernel([loop]), 0.0)
    with pytest.raises(ValueError, match="row 1 has no labels, row 0 has; give them to all graphs or to none"):
        WeisfeilerLehman()([named, bare])
    labelled, unlabelled = ([(0, 1)], "CO", "-"), ([(0, 1)], "CO")
    with pytest.raises(ValueError, match="row 2 has no edge labels, row 1 has"):
        WeisfeilerLehman()([([], "C"), labelled, unlabelled])


@pytest.mark.parametrize("kernel", LABELLED, ids=str)
def test_labels_are_not_compared_with_degrees(kernel):
    bare, named, empty = {"edges": [(0, 1)]}, ([(0, 1)], [1, 1]), {"edges": []}
    for X, Y in (([bare], [named]), ([named], [bare])):
        with pytest.raises(ValueError, match="graphs with labels are compared with graphs without"):
            kernel(X, Y)
        assert kernel(X, [empty])[0, 0] == kernel([empty], X)[0, 0] == 0.0


def test_labels_of_edges_are_not_compared_with_none():
    bonds, bare, point = ([(0, 1)], "CO", "="), ([(0, 1)], "CO"), ([], "C")
    for X, Y in (([bonds], [bare]), ([bare], [bonds])):
        with pytest.raises(
            ValueError, match="graphs with edge labels are compared with graphs without; give edge labels to"
        ):
            WeisfeilerLehman(1)(X, Y)
        assert WeisfeilerLehman(1)(X, [point])[0, 0] == 1.0  # C


def test_npz_layout(tmp_path):
    arrays = {"node_ptr": [0, 3, 3, 5], "edge_ptr": [0, 2, 2, 3], "edges": [[0, 1], [1, 2], [0, 1]],
              "node_labels": [1, 2, 1, 1, 2], "edge_labels": [0, 1, 0]}  # fmt: skip
    arrays = {name: np.array(a, dtype=np.uint8) for name, a in arrays.items()}
    np.savez(tmp_path / "g.npz", **arrays)
    expected = [([(0, 1), (1, 2)], [1, 2, 1], [0, 1]), ([], []), ([(0, 1)], [1, 2], [0])]
    for source in (tmp_path / "g.npz", arrays):
        close(WeisfeilerLehman(1)(read_graphs(source)), WeisfeilerLehman(1)(expected), 0.0)
    with pytest.raises(ValueError, match="no edge_ptr among node_ptr, edges"):
        read_graphs({"node_ptr": [], "edges": []})
    wrong = [
        ({"node_ptr": [1, 3]}, "node_ptr must begin with 0 and never fall"),
        ({"edge_ptr": [0, 2, 1, 3]}, "edge_ptr must begin with 0 and never fall"),
        ({"node_ptr": [0, 3, 5]}, "node_ptr tells of 2 graphs, edge_ptr of 3"),
        ({"edge_ptr": [0, 1, 2, 2]}, "edge_ptr ends with 2, but there are 3 edges"),
        ({"node_labels": [1, 2]}, "node_ptr ends with 5, but there are 2 node_labels"),
        ({"edges": np.array([[0, 1], [1, 2], [0, 2]])}, r"row 2: the edge \(0, 2\) leads to a node outside"),
    ]
    for change, message in wrong:
        with pytest.raises(ValueError, match=message):
            read_graphs({**arrays, **change})


@pytest.mark.parametrize("kernel", [*ALL, Propagation(Linear())], ids=str)
def test_empty_graphs_and_graphs_without_edges(kernel):
    empty, point = {"edges": []}, {"edges": [], "n_nodes": 1, "attributes": [[2.0]]}
    points = {"edges": [], "n_nodes": 5, "attributes": np.ones((5, 1)), "labels": None}
    K = kernel([empty, point, points])
    assert np.isfinite(K).all()
    close(K[0], np.zeros(3), 0.0)
    assert (K.diagonal()[1:] >= 0).all()
    assert np.isfinite(kernel.normalise()([empty, point, points])).all()
    close(kernel([empty]), [[0.0]], 0.0)


def test_a_graph_says_what_it_holds():
    assert repr(Graph.read(([(0, 1)], "CO", "-"))) == "<Graph: 2 nodes, 1 edges, labels, edge labels>"
    assert repr(Graph.read({"edges": [], "attributes": [[1.0]]})) == "<Graph: 1 nodes, 0 edges, attributes>"


def test_types_of_labels_are_kept_apart():
    labels = [1, "1", b"1", (1,), None, 1.5, 2**70]
    graphs = [([], [v]) for v in labels]
    close(VertexHistogram()(graphs), np.eye(len(labels)), 0.0)
    close(
        VertexHistogram()([([], [1])], [([], [1.0]), ([], np.array([1], np.uint8)), ([], [True])]), np.ones((1, 3)), 0.0
    )


@pytest.mark.parametrize("kernel", [WeisfeilerLehman(2), ShortestPath(), WLOptimalAssignment(1)], ids=str)
def test_unseen_labels_count_in_the_norm(kernel):
    train = [([(0, 1)], "CC"), ([(0, 1)], "CO")]
    new = ([(0, 1), (1, 2)], "CXX")
    k = kernel.normalise()
    joint = k([*train, new])
    close(k([new], train), joint[2:, :2], 1e-15)
    model = KernelRidge(0.1, kernel=k).fit(train, [0.0, 1.0])
    assert np.isfinite(model.predict([new])).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (None, "row 1: expected a graph: networkx, a tuple .* got NoneType"),
        (float("nan"), "row 1: expected a graph"),
        ("CCO", "row 1: expected a graph"),
        (nx.DiGraph([(0, 1)]), "row 1: expected an undirected graph"),
        (nx.MultiGraph([(0, 1)]), "row 1: expected an undirected graph without parallel"),
        (([(0, 5)], "CO"), r"row 1: the edge \(0, 5\) leads to a node outside 0 ... 1"),
        (([(0, 1, 2)], "COO"), r"row 1: edges must be pairs of node numbers, got shape \(1, 3\)"),
        (([("a", "b")], {"a": 1}), "row 1: an edge leads to the node 'b', which has no label"),
        (([(0, 1)], "CO", ["single", "double"]), "row 1: there are 2 edge labels for 1 edges"),
        (([(0, 1), (1, 0)], "CO", [1, 2]), "row 1: an edge is given twice with different labels"),
        (([(0, 1)], ["C", float("nan")]), "row 1: a label is NaN"),
        (([(0, 1)], ["C", {}]), "row 1: "),
        ({"nodes": []}, "row 1: a graph in a dict has the keys edges, labels"),
        ({"edges": [], "labels": "C", "n_nodes": 3}, "row 1: labels, attributes and n_nodes do not agree"),
        ({"edges": [], "attributes": [[1.0], [np.nan]]}, "row 1: attributes .* of node 1 hold NaN or infinity"),
        ({"edges": [], "attributes": [[1.0], [2.0, 3.0]]}, "row 1: attributes must be numbers"),
        ({"edges": [], "attributes": np.ones((1, 1, 1))}, r"row 1: attributes .* got shape \(1, 1, 1\)"),
        ({"edges": [], "n_nodes": 2.5}, "row 1: n_nodes must be a whole number of nodes, got 2.5"),
        ({"edges": [], "n_nodes": -1}, "row 1: n_nodes must be a whole number of nodes, got -1"),
        (([0, 1], "CO"), "row 1: edges must be pairs of node numbers"),
        (([(0.5, 1)], "CO"), "row 1: edges must be pairs of node numbers"),
        (([(0, 1)], np.ones((2, 2))), r"row 1: expected one label .* shape \(2, 2\)"),
        (([(0, 1)], 3), "row 1: labels must be a sequence"),
        ((None, "CO"), "row 1: edges must be a sequence, .* got NoneType"),
        (("ab", "CO"), "row 1: edges must be pairs of node numbers"),
    ],
)
def test_bad_graphs(row, message):
    for kernel in (WeisfeilerLehman(), RandomWalk()):
        with pytest.raises((TypeError, ValueError), match=message):
            kernel([([(0, 1)], "CO"), row])


def test_missing_graphs_in_a_table_are_named():
    table = pd.DataFrame({"graph": [nx.path_graph(3), None, nx.path_graph(2)], "age": [1.0, 2.0, 3.0]})
    for missing in (None, np.nan):
        table.at[1, "graph"] = missing
        with pytest.raises(TypeError, match="row 1: expected a graph"):
            (WeisfeilerLehman().on("graph") + RBF().on("age"))(table)


@pytest.mark.parametrize(
    ("kernel", "remedy"),
    [(ShortestPath(), "WeisfeilerLehman"), (Graphlet(3), "n_samples"), (RandomWalk(), "WeisfeilerLehman")],
)
def test_what_does_not_fit_into_memory_is_refused(kernel, remedy):
    large = {"edges": [(0, 1)], "n_nodes": 10**6}
    with pytest.raises(MemoryError, match=f"1000000 .*nodes(?s:.*){remedy}"):
        kernel([large])


def test_labels_of_some_nodes_only():
    g = nx.path_graph(3)
    g.nodes[1]["label"] = "C"
    with pytest.raises(ValueError, match='row 0: 2 of 3 nodes have no "label"; give it to all or to none'):
        VertexHistogram()([g])


def test_rings_and_paths_are_told_apart():
    rings, paths = [nx.cycle_graph(n) for n in range(3, 11)], [nx.path_graph(n) for n in range(3, 11)]
    y = np.repeat([0, 1], 6)
    model = SVC(C=100.0, kernel=WeisfeilerLehman(2).normalise()).fit([*rings[:6], *paths[:6]], y)
    assert model.predict([*rings[6:], *paths[6:]]).tolist() == [0, 0, 1, 1]


def test_rounds_are_chosen_by_grid_search():
    rings, paths = [nx.cycle_graph(n) for n in range(3, 13)], [nx.path_graph(n) for n in range(3, 13)]
    graphs, y = [g for pair in zip(rings, paths, strict=True) for g in pair], [0, 1] * 10
    for g in graphs:
        nx.set_node_attributes(g, 1, "label")
    search = GridSearchCV(SVC(C=100.0, kernel=WeisfeilerLehman()), {"kernel__iterations": [0, 2]}, cv=2).fit(graphs, y)
    assert search.best_params_ == {"kernel__iterations": 2}  # labels alone tell nothing
    again = pickle.loads(pickle.dumps(search))
    assert again.predict(graphs).tolist() == search.predict(graphs).tolist() == y


def test_weights_of_subtrees_make_the_decision():
    """top_features names every feature of the machine: their weights times the counts are its decision function."""
    graphs = [([(0, 1), (1, 2)], "CCO"), ([(0, 1)], "CO"), ([(0, 1), (1, 2)], "CNN"), ([(0, 1)], "CN")]
    kernel = WeisfeilerLehman(1)
    model = SVC(kernel=kernel).fit(graphs, [0, 0, 1, 1])
    weights = dict(top_features(model, 100)[0])
    new = ([(0, 1), (1, 2), (2, 3)], "CCNS")
    found = sum(weights.get(name, 0.0) * count for name, count in kernel.counts(new).items())
    assert model.decision_function([new])[0] == pytest.approx(found + float(np.ravel(model.intercept_)[0]), rel=1e-9)
    assert {"O", "N", "C(O)", "C(N)"} <= set(weights)


def test_features_have_readable_names():
    g = ([(0, 1), (1, 2)], "CCO", ["double", "single"])
    assert VertexHistogram().counts(g) == {"C": 2.0, "O": 1.0}
    assert EdgeHistogram().counts(g) == {"C-[double]-C": 1.0, "C-[single]-O": 1.0}
    assert ShortestPath().counts(g) == {"C..C at 1": 1.0, "C..O at 1": 1.0, "C..O at 2": 1.0}
    assert WeisfeilerLehman(1).counts((*g[:2],)) == {"C": 2.0, "O": 1.0, "C(C)": 1.0, "C(C, O)": 1.0, "O(C)": 1.0}
    assert "C(-[double]-C, -[single]-O)" in WeisfeilerLehman(1).counts(g)
    assert WLOptimalAssignment(0).counts(g) == {"C no. 1": 1.0, "C no. 2": 1.0, "O no. 1": 1.0}
    assert Graphlet(3).counts(nx.star_graph(3)) == {"path": 3.0, "no edge": 1.0}
    assert VertexHistogram().counts(nx.path_graph(3)) == {"1": 2.0, "2": 1.0}  # degrees
    assert {name for kind in nx.graph_atlas_g() if len(kind) == 4 for name in Graphlet(4).counts(kind)} == {
        "no edge", "one edge", "two edges apart", "path of 3", "path of 4", "triangle", "star", "ring", "triangle with a tail",
        "ring with a chord", "all edges"}  # fmt: skip

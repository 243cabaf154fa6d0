"""Kernels on graphs: histograms, shortest paths, Weisfeiler-Lehman, walks, graphlets, and continuous attributes of nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.errors import NanError
from mercer.kernels.base import FeatureKernel, Kernel, PairKernel, frozen
from mercer.kernels.codes import code_matrix, code_of, mixed, ranks
from mercer.kernels.parameters import Count, Positive, Spec
from mercer.kernels.radial import RBF
from mercer.kernels.sets import of_bags, stacked, sums_of_pairs
from mercer.kernels.validity import certificate
from mercer.random import generator
from mercer.registry import register

__all__ = ["EdgeHistogram", "Graph", "Graphlet", "Propagation", "RandomWalk", "ShortestPath", "VertexHistogram",
           "WLOptimalAssignment", "WeisfeilerLehman", "read_graphs"]  # fmt: skip

_STEPS = 2**24  # products of a loop of walks between two looks at the interpreter
_KINDS = 109  # the sum of the cubes of the degrees is 4 * 3^3 at most
_GRAPHLETS = {
    3: {0: "no edge", 2: "one edge", 10: "path", 24: "triangle"},
    4: {0: "no edge", 2: "one edge", 4: "two edges apart", 10: "path of 3", 18: "path of 4", 24: "triangle", 30: "star",
        32: "ring", 44: "triangle with a tail", 70: "ring with a chord", 108: "all edges"},
}  # fmt: skip
_KEYS = ("edges", "labels", "edge_labels", "attributes", "n_nodes")


# ---------------------------------------------------------------------------------------------- graphs
@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph: `n_nodes`, `edges` (m, 2), codes of the labels of nodes and edges, `attributes` (n, d) of nodes.

    `Graph.read` makes one of what users have; it is read once if the same graph goes through several kernels.
    """

    n_nodes: int
    edges: np.ndarray
    codes: np.ndarray | None = None  # None: the degrees take the place of labels
    edge_codes: np.ndarray | None = None
    attributes: np.ndarray | None = None
    names: dict | None = None  # labels by their codes, for explanations

    @classmethod
    def read(cls, x) -> "Graph":
        """The graph of a networkx graph, an (edges, labels) or (edges, labels, edge_labels) tuple, or a dict with the keys
        "edges", "labels", "edge_labels", "attributes" and "n_nodes".

        `edges` are pairs of node numbers from 0, or of the keys of a dict of labels. Without labels the degrees are used.
        networkx graphs keep these in the attribute "label" of nodes and edges, and "attributes" of nodes.
        """
        if isinstance(x, Graph):
            return x
        if hasattr(x, "is_directed") and hasattr(x, "nodes"):
            return _of_networkx(x)
        if isinstance(x, Mapping):
            unknown = set(x) - set(_KEYS)
            if unknown or "edges" not in x:
                raise ValueError(f"a graph in a dict has the keys {', '.join(_KEYS)}; got {', '.join(map(repr, x))}")
            return _graph(**x)
        if isinstance(x, tuple) and len(x) in (2, 3):
            return _graph(*x)
        raise TypeError(f"expected a graph: networkx, a tuple (edges, labels), a dict or mercer.kernels.Graph, got "
                        f"{type(x).__name__}: {str(x)[:40]!r}")  # fmt: skip

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """Symmetric CSR matrix; its data are the places of the edges, from 1."""
        u, v = self.edges.T
        loop = u == v
        row, column = np.concatenate([u, v[~loop]]), np.concatenate([v, u[~loop]])
        places = np.concatenate([np.arange(len(u)), np.flatnonzero(~loop)]) + 1
        return sp.csr_array((places, (row, column)), shape=(self.n_nodes, self.n_nodes))

    @cached_property
    def labels(self) -> np.ndarray:
        """Codes of the labels of the nodes; of their degrees if they have none."""
        return mixed(np.diff(self.adjacency.indptr).astype(np.int64)) if self.codes is None else self.codes


def _graph(edges, labels=None, edge_labels=None, attributes=None, n_nodes=None):
    place = None
    if isinstance(labels, Mapping):
        place = {node: i for i, node in enumerate(labels)}
        labels = list(labels.values())
    labels, edge_labels = (
        v if v is None or isinstance(v, (str, np.ndarray)) else list(v) for v in (labels, edge_labels)
    )
    edges = _edges(edges, place)
    codes, attributes = _codes(labels), _attributes(attributes)
    sizes = {len(a) for a in (codes, attributes) if a is not None} | ({int(n_nodes)} if n_nodes is not None else set())
    if len(sizes) > 1:
        raise ValueError(f"labels, attributes and n_nodes do not agree on the number of nodes: {sorted(sizes)}")
    n = sizes.pop() if sizes else int(edges.max(initial=-1)) + 1
    if len(edges) and (edges.min() < 0 or edges.max() >= n):
        bad = edges[((edges < 0) | (edges >= n)).any(axis=1)][0]
        raise ValueError(f"the edge {tuple(bad.tolist())} leads to a node outside 0 ... {n - 1}")
    edge_codes = _codes(edge_labels)
    names = {**_names(codes, labels), **_names(edge_codes, edge_labels)}
    return _made(n, edges, codes, edge_codes, attributes, names)


def _names(codes, labels):
    """Labels by their codes."""
    if codes is None:
        return {}
    found, first = np.unique(codes, return_index=True)
    return {int(c): labels[i] for c, i in zip(found, first, strict=True)}


def _edges(edges, place):
    pairs = edges if isinstance(edges, np.ndarray) else [tuple(e) for e in edges]
    if place is not None:
        try:
            pairs = [tuple(place[node] for node in e) for e in pairs]
        except KeyError as error:
            raise ValueError(f"an edge leads to the node {error.args[0]!r}, which has no label") from None
    if len(pairs) == 0:
        return np.zeros((0, 2), np.int64)
    array = np.asarray(pairs)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(f"edges must be pairs of node numbers, got shape {array.shape} of {array.dtype}")
    return array.astype(np.int64)


def _codes(labels):
    if labels is None:
        return None
    array = isinstance(labels, np.ndarray)
    if array and labels.ndim != 1:
        raise ValueError(f"expected one label for each node or edge, got an array of shape {labels.shape}")
    if len(labels) and (array or {type(v) for v in labels} == {int}):
        numbers = np.asarray(labels)
        if numbers.dtype.kind in "bi" or (numbers.dtype.kind == "u" and numbers.dtype.itemsize < 8):
            return mixed(numbers.astype(np.int64))
    values = labels.tolist() if array else labels
    known = {v: code_of(v) for v in values}
    return np.array([known[v] for v in values], np.uint64)


def _attributes(attributes):
    if attributes is None:
        return None
    values = np.asarray(attributes, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(f"attributes must be finite numbers (n_nodes, d), got shape {values.shape} or NaN or infinity")
    return values


def _made(n, edges, codes, edge_codes, attributes, names):
    """The graph with u <= v in its edges, each once; an edge given in both directions is one."""
    if edge_codes is not None and len(edge_codes) != len(edges):
        raise ValueError(f"there are {len(edge_codes)} edge labels for {len(edges)} edges")
    keys = edges.min(axis=1) * n + edges.max(axis=1) if len(edges) else np.zeros(0, np.int64)
    keys, first, place = np.unique(keys, return_index=True, return_inverse=True)
    if edge_codes is not None:
        if (edge_codes[first][place.ravel()] != edge_codes).any():
            raise ValueError("an edge is given twice with different labels")
        edge_codes = edge_codes[first]
    pairs = np.stack([keys // max(n, 1), keys % max(n, 1)], axis=1)
    return Graph(n, pairs, codes, edge_codes, attributes, names)


def _of_networkx(x):
    if x.is_directed() or x.is_multigraph():
        raise ValueError("expected an undirected graph without parallel edges; convert it with networkx.Graph(g)")
    place = {node: i for i, node in enumerate(x.nodes)}
    edges = [(place[u], place[v]) for u, v in x.edges]
    return _graph(edges, _all_or_none(x.nodes(data="label"), "nodes"), _all_or_none(_last(x.edges(data="label")), "edges"),
                  _all_or_none(x.nodes(data="attributes"), "nodes", "attributes"), len(place))  # fmt: skip


def _last(edges):
    return [((u, v), label) for u, v, label in edges]


def _all_or_none(pairs, where, name="label"):
    """Values of an attribute that all nodes or edges have, None where none has it."""
    values = [value for _, value in pairs]
    missing = sum(v is None for v in values)
    if missing == len(values):
        return None
    if missing:
        raise ValueError(f'{missing} of {len(values)} {where} have no "{name}"; give it to all or to none')
    return values


def read_graphs(source) -> list[Graph]:
    """Graphs of an .npz file, or of the mapping of arrays in it: node_ptr, edge_ptr, edges, and node_labels, edge_labels if any.

    Graph g has the nodes node_ptr[g] ... node_ptr[g+1] and the edges edges[edge_ptr[g]:edge_ptr[g+1]], counted within it.
    """
    if not isinstance(source, Mapping):
        with np.load(source) as file:
            return read_graphs({name: file[name] for name in file.files})
    missing = [name for name in ("node_ptr", "edge_ptr", "edges") if name not in source]
    if missing:
        raise ValueError(f"no {missing[0]} among {', '.join(source)}; expected node_ptr, edge_ptr and edges")
    nodes, arcs = (np.asarray(source[name]).astype(np.int64) for name in ("node_ptr", "edge_ptr"))
    labels, edge_labels = source.get("node_labels"), source.get("edge_labels")
    out = np.empty(len(nodes) - 1, dtype=object)
    for g in range(len(out)):
        mine, its = slice(nodes[g], nodes[g + 1]), slice(arcs[g], arcs[g + 1])
        out[g] = _graph(source["edges"][its].astype(np.int64), None if labels is None else labels[mine],
                        None if edge_labels is None else edge_labels[its], n_nodes=nodes[g + 1] - nodes[g])  # fmt: skip
    return list(out)


# ---------------------------------------------------------------------------------------------- explicit features
@dataclass(frozen=True)
class _Union:
    """All graphs as one: labels of all nodes, the graph of each, and the arcs (both directions of each edge) sorted by node."""

    n: int
    graph: np.ndarray
    labels: np.ndarray
    ptr: np.ndarray
    near: np.ndarray
    arc_codes: np.ndarray | None

    @classmethod
    def of(cls, graphs):
        sizes = np.array([g.n_nodes for g in graphs])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        u, v = np.concatenate([g.edges + s for g, s in zip(graphs, starts[:-1], strict=True)]).T
        codes = _edge_codes(graphs)
        loop = u == v
        tail, head = np.concatenate([u, v[~loop]]), np.concatenate([v, u[~loop]])
        order = np.argsort(tail, kind="stable")
        ptr = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=starts[-1]))])
        if codes is not None:
            codes = np.concatenate([codes, codes[~loop]])[order]
        labels = _node_codes(graphs, np.diff(ptr))
        return cls(len(graphs), np.repeat(np.arange(len(graphs)), sizes), labels, ptr, head[order], codes)


def _all_have(given, needed, name):
    """Whether those graphs that need labels have them; ValueError where some have and others not."""
    have, bare = (
        [i for i, labels in enumerate(given) if needed[i] and (labels is None) == none] for none in (False, True)
    )
    if have and bare:
        raise ValueError(f"row {bare[0]} has no {name}, row {have[0]} has; give them to all graphs or to none")
    return bool(have)


def _node_codes(graphs, degrees):
    if _all_have([g.codes for g in graphs], [g.n_nodes for g in graphs], "labels"):
        return np.concatenate([g.codes for g in graphs if g.n_nodes])
    return mixed(degrees.astype(np.int64))


def _edge_codes(graphs):
    """Codes of the labels of all edges, None if they have none."""
    if _all_have([g.edge_codes for g in graphs], [len(g.edges) for g in graphs], "edge labels"):
        return np.concatenate([g.edge_codes for g in graphs if len(g.edges)])
    return None


class _GraphFeatures(FeatureKernel):
    """A kernel of graphs by counts of codes: subclasses give `entries`, arrays (graph, code, value)."""

    def entries(self, all_of: _Union, graphs):
        raise NotImplementedError

    def describe(self, all_of: _Union, graphs, place) -> str:
        """Name of the feature of one entry."""
        raise NotImplementedError

    def counts(self, x):
        matrix, _, vocabulary = self.count_matrix(validate.objects([x]))
        return dict(zip(vocabulary.names(matrix.indices), matrix.data.tolist(), strict=True))

    def count_matrix(self, objects, vocabulary=None):
        graphs = list(validate.each_object(Graph.read, objects))
        all_of = _Union.of(graphs)
        row, codes, values = self.entries(all_of, graphs)
        return code_matrix(len(graphs), row, codes, values, vocabulary, _Describer(self, all_of, graphs))


@dataclass(frozen=True)
class _Describer:
    """Names features when they are asked for: most never are."""

    kernel: Any
    all_of: _Union
    graphs: list

    def __call__(self, places):
        return [self.kernel.describe(self.all_of, self.graphs, int(place)) for place in places]


def _node_name(all_of, graphs, node):
    g = graphs[all_of.graph[node]]
    if g.codes is None:
        return str(all_of.ptr[node + 1] - all_of.ptr[node])
    return str((g.names or {}).get(int(all_of.labels[node]), f"#{int(all_of.labels[node]):016x}"))


def _arc_name(all_of, graphs, arc, node):
    """Label of an edge with a sign that joins it to its end, or nothing."""
    if all_of.arc_codes is None:
        return ""
    code = int(all_of.arc_codes[arc])
    return f"-[{(graphs[all_of.graph[node]].names or {}).get(code, f'#{code:016x}')}]-"


def _subtree_name(all_of, graphs, node, depth):
    """Label(neighbours), each with its own neighbours down to a depth."""
    name = _node_name(all_of, graphs, node)
    if depth == 0:
        return name
    below = [_arc_name(all_of, graphs, a, node) + _subtree_name(all_of, graphs, all_of.near[a], depth - 1)
             for a in range(all_of.ptr[node], all_of.ptr[node + 1])]  # fmt: skip
    return f"{name}({', '.join(sorted(below))})"


@register
@frozen
class VertexHistogram(_GraphFeatures):
    """Vertex histogram (S11): the inner product of the counts of the labels of the nodes.

    >>> float(VertexHistogram()([([(0, 1)], "CO")], [([(0, 1), (1, 2)], "COO")])[0, 0])  # C: 1 * 1, O: 1 * 2
    3.0
    """

    def entries(self, all_of, graphs):
        return all_of.graph, all_of.labels, np.ones(len(all_of.labels))

    def describe(self, all_of, graphs, place):
        return _node_name(all_of, graphs, place)


@register
@frozen
class EdgeHistogram(_GraphFeatures):
    """Edge histogram (S11): the inner product of the counts of edges, told apart by the labels of their ends and their own.

    >>> float(EdgeHistogram()([([(0, 1)], "CO")], [([(0, 1), (1, 2)], "COO")])[0, 0])  # C-O
    1.0
    """

    def entries(self, all_of, graphs):
        tail, arc = _arcs_once(all_of)
        codes = _ends(all_of.labels[tail], all_of.labels[all_of.near[arc]])
        if all_of.arc_codes is not None:
            codes = mixed(codes ^ all_of.arc_codes[arc])
        return all_of.graph[tail], codes, np.ones(len(codes))

    def describe(self, all_of, graphs, place):
        tail, arc = (a[place] for a in _arcs_once(all_of))
        ends = sorted(_node_name(all_of, graphs, v) for v in (tail, all_of.near[arc]))
        return (_arc_name(all_of, graphs, arc, tail) or "-").join(ends)


def _arcs_once(all_of):
    """(node, arc) of one direction of each edge."""
    tail = np.repeat(np.arange(len(all_of.labels)), np.diff(all_of.ptr))
    arc = np.flatnonzero(tail <= all_of.near)
    return tail[arc], arc


def _ends(a, b):
    """Code of an unordered pair."""
    return mixed(mixed(a) + mixed(b))


@register
@frozen
class ShortestPath(_GraphFeatures):
    """Shortest-path kernel (S11): pairs of connected nodes with the same two labels at the same distance in edges.

    Labels of edges are not read. Memory and time grow with the square of the nodes of the largest graph.
    Borgwardt & Kriegel (2005).

    >>> float(ShortestPath()([([(0, 1), (1, 2)], "COC")], [([(0, 1), (1, 2)], "COC")])[0, 0])  # C-O: 2 * 2, C..C: 1 * 1
    5.0
    """

    def entries(self, all_of, graphs):
        found = [np.unique(_distances(g)[0], return_counts=True) for g in graphs]
        row = np.repeat(np.arange(len(graphs)), [len(codes) for codes, _ in found])
        codes, count = (np.concatenate(part) for part in zip(*found, strict=True))
        return row, codes, count.astype(np.float64)

    def describe(self, all_of, graphs, place):
        row, codes, _ = self.entries(all_of, graphs)
        found, u, v, distance = _distances(graphs[row[place]])
        pair = np.flatnonzero(found == codes[place])[0]
        start = np.searchsorted(all_of.graph, row[place])
        ends = sorted(_node_name(all_of, graphs, start + node[pair]) for node in (u, v))
        return f"{ends[0]}..{ends[1]} at {int(distance[pair])}"


def _distances(graph):
    """Codes (labels, distance) of all pairs of connected nodes, the pairs, and their distances in edges."""
    from scipy.sparse.csgraph import shortest_path

    if not len(graph.edges):
        return np.zeros(0, np.uint64), *np.zeros((3, 0), np.int64)
    A = sp.csr_matrix(graph.adjacency.astype(np.float64))
    D = shortest_path(A, method="D", directed=False, unweighted=True)
    u, v = np.nonzero(np.triu(np.isfinite(D), 1))
    labels, distance = mixed(graph.labels), D[u, v].astype(np.int64)
    return mixed(mixed(labels[u] + labels[v]) ^ distance.astype(np.uint64)), u, v, distance


# ---------------------------------------------------------------------------------------------- Weisfeiler-Lehman
def _relabelled(all_of, labels, level):
    """The code of each node's label together with the multiset of its neighbours' labels (and those of the edges to them)."""
    arcs = mixed(labels)[all_of.near]
    if all_of.arc_codes is not None:
        arcs = mixed(arcs ^ mixed(all_of.arc_codes))
    sums = np.concatenate([[np.uint64(0)], np.cumsum(arcs, dtype=np.uint64)])  # modulo 2^64, so differences are exact
    around = sums[all_of.ptr[1:]] - sums[all_of.ptr[:-1]]
    return mixed(mixed(labels ^ np.uint64(level)) + mixed(around))


def _hierarchy(all_of, iterations):
    """Labels of all nodes after 0, 1, ..., iterations rounds."""
    labels = [mixed(all_of.labels)]
    for i in range(int(iterations)):
        labels.append(_relabelled(all_of, labels[-1], i + 1))
    return labels


@register
@frozen
class WeisfeilerLehman(_GraphFeatures):
    """Weisfeiler-Lehman subtree kernel (S11): the inner product of the counts of labels in all rounds of refinement.

    In each of the `iterations` rounds the label of a node becomes its own with the multiset of its neighbours'. Labels of edges
    take part where there are any. Shervashidze et al. (2011).

    >>> path, star = ([(0, 1), (1, 2), (2, 3)], "CCCC"), ([(0, 1), (0, 2), (0, 3)], "CCCC")
    >>> [float(WeisfeilerLehman(h)([path], [star])[0, 0]) for h in (0, 1)]  # then 2 ends meet 3 ends
    [16.0, 22.0]
    """

    iterations: Count = 3

    def entries(self, all_of, graphs):
        levels = _hierarchy(all_of, self.iterations)
        codes = np.concatenate(levels)
        return np.tile(all_of.graph, len(levels)), codes, np.ones(len(codes))

    def describe(self, all_of, graphs, place):
        depth, node = divmod(place, len(all_of.graph))
        return _subtree_name(all_of, graphs, node, depth)


@register
@frozen
class WLOptimalAssignment(_GraphFeatures):
    """Weisfeiler-Lehman optimal assignment (S11): the best assignment of nodes to nodes, by how many rounds agree.

    Two nodes are worth the number of rounds (the start included) in which they have the same label; that hierarchy makes the
    best assignment an intersection of histograms, which is PSD. Optimal assignments in general are not. Kriege et al. (2016).

    >>> path, star = ([(0, 1), (1, 2), (2, 3)], "CCCC"), ([(0, 1), (0, 2), (0, 3)], "CCCC")
    >>> [float(WLOptimalAssignment(h)([path], [star])[0, 0]) for h in (0, 1)]  # then 2 of the ends meet
    [4.0, 6.0]
    """

    iterations: Count = 3

    def entries(self, all_of, graphs):
        levels = _hierarchy(all_of, self.iterations)
        codes = [mixed(mixed(c) + ranks(c, all_of.graph).astype(np.uint64)) for c in levels]
        return np.tile(all_of.graph, len(levels)), np.concatenate(codes), np.ones(len(levels) * len(all_of.graph))

    def describe(self, all_of, graphs, place):
        depth, node = divmod(place, len(all_of.graph))
        same = ranks(_hierarchy(all_of, depth)[-1], all_of.graph)[node]
        return f"{_subtree_name(all_of, graphs, node, depth)} no. {same}"

    @property
    def validity(self):
        return certificate("psd", "an intersection of histograms: the assignment follows a hierarchy")


# ---------------------------------------------------------------------------------------------- graphlets
@register
@frozen
class Graphlet(_GraphFeatures):
    """Graphlet kernel (S11): the inner product of the counts of induced subgraphs with k = 3 or 4 nodes, labels ignored.

    There are 4 or 11 kinds, disconnected ones included. `n_samples` counts that many random sets of nodes in place of all, where
    there are more; the same ones at every call with the same `seed`. Shervashidze et al. (2009).

    >>> float(Graphlet(3)([([(0, 1), (1, 2)], "aaa")], [([(0, 1), (1, 2), (2, 3)], "aaaa")])[0, 0])  # paths: 1 * 2
    2.0
    """

    k: Annotated[Any, Spec(low=3, high=4, integer=True)] = 3
    n_samples: Annotated[Any, Spec(low=1, integer=True, optional=True)] = None
    seed: Count = 0

    def entries(self, all_of, graphs):
        counts = np.array([self._counted(g) for g in graphs])
        row, kind = np.nonzero(counts)
        return row, mixed(kind), counts[row, kind].astype(np.float64)

    def describe(self, all_of, graphs, place):
        counts = np.array([self._counted(g) for g in graphs])
        return _GRAPHLETS[int(self.k)][int(np.nonzero(counts)[1][place])]

    def _counted(self, graph):
        """Counts of the kinds, by the sum of the cubes of the degrees."""
        from mercer.kernels import _compiled_graphs as loops

        n, k = graph.n_nodes, int(self.k)
        if self.n_samples is not None and comb(n, k) > self.n_samples:
            return np.bincount(_cubes(graph, self._samples(n, k)), minlength=_KINDS)
        counts, A = np.zeros(_KINDS, np.int64), np.zeros((n, n), np.bool_)
        A[graph.edges[:, 0], graph.edges[:, 1]] = A[graph.edges[:, 1], graph.edges[:, 0]] = True
        for first in range(n - k + 1):
            for second in range(first + 1, n - k + 2):
                loops.count_induced(A, k, first, second, counts)
        return counts

    def _samples(self, n, k):
        """Random sets of k of n nodes."""
        rng = generator(int(self.seed))
        out = np.empty((int(self.n_samples), k), np.int64)
        for j in range(k):  # Floyd's way: one draw for each place
            draw = rng.integers(0, n - k + j + 1, len(out))
            taken = (out[:, :j] == draw[:, None]).any(axis=1)
            out[:, j] = np.where(taken, n - k + j, draw)
        return out


def _cubes(graph, samples):
    """Sums of the cubes of the degrees within sets of nodes, without a dense adjacency."""
    keys = graph.edges[:, 0] * graph.n_nodes + graph.edges[:, 1]
    degrees = np.zeros(samples.shape, np.int64)
    for p in range(samples.shape[1]):
        for q in range(p):
            low, high = np.minimum(samples[:, p], samples[:, q]), np.maximum(samples[:, p], samples[:, q])
            joined = np.isin(low * graph.n_nodes + high, keys)
            degrees[:, p] += joined
            degrees[:, q] += joined
    return (degrees**3).sum(axis=1)


# ---------------------------------------------------------------------------------------------- pairs
@dataclass(frozen=True, eq=False)
class _Walker:
    """What the loop of walks reads: CSR neighbours, labels, and the largest eigenvalue of the adjacency."""

    ptr: np.ndarray
    near: np.ndarray
    labels: np.ndarray
    radius: float


@register
@frozen
class RandomWalk(PairKernel):
    r"""Random-walk kernel (S11): common label sequences of walks of all lengths l, weighted by decay to l.

    .. math:: k = \sum_{l=0}^{steps} \lambda^l\, \mathbf{1}^\top A_\times^l \mathbf{1}

    for the adjacency of the product graph, whose nodes are pairs of nodes with the same label. With `steps=None` the sum is
    infinite: it converges if decay is below the reciprocal of the largest eigenvalue of that adjacency, for which the product of
    those of the two graphs is a bound; it is checked for every pair. Labels of edges are not read. Gärtner et al. (2003).

    >>> float(
    ...     RandomWalk(0.5, steps=1)([([(0, 1)], "CO")], [([(0, 1)], "CO")])[0, 0]
    ... )  # 2 nodes, and C-O in both directions
    3.0
    """

    decay: Positive = 0.01
    steps: Annotated[Any, Spec(low=0, integer=True, optional=True)] = None
    reads_objects = True
    not_differentiable = ("decay",)

    def parse(self, x):
        g = Graph.read(x)
        A = g.adjacency
        return _Walker(A.indptr.astype(np.int64), A.indices.astype(np.int64), g.labels, _radius(A))

    def pair(self, x, y):
        bound = float(self.decay) * x.radius * y.radius
        if self.steps is None and bound >= 1.0:
            raise ValueError(f"RandomWalk(decay={self.decay:g}) may not converge: the largest eigenvalues of two graphs are "
                             f"{x.radius:.4g} and {y.radius:.4g}, so decay must be below {1 / (x.radius * y.radius):.3g}; "
                             "choose a smaller one, or a number of steps")  # fmt: skip
        return self._summed(x, y, bound)

    def _summed(self, x, y, bound):
        from mercer.kernels import _compiled_graphs as loops

        X = (x.labels[:, None] == y.labels[None, :]).astype(np.float64)
        Y, total, done = np.empty_like(X), float(X.sum()), not X.any()
        left = np.inf if self.steps is None else int(self.steps)
        each = max(1, _STEPS // max(len(x.near) * len(y.labels) + len(x.labels) * len(y.near) + X.size, 1))
        while left > 0 and not done:
            some = int(min(left, each))
            total, done = loops.walks(X, x.ptr, x.near, y.ptr, y.near, x.labels, y.labels, float(self.decay),
                                      bound if self.steps is None else 1.0, total, Y, some)  # fmt: skip
            left -= some
        if not np.isfinite(total):
            raise NanError(
                f"RandomWalk: the walks of {self.steps} steps are more than float64 holds; use a smaller decay"
            )
        return total

    @property
    def validity(self):
        return certificate("psd", "an inner product of counts of labelled walks with weights >= 0")


def _radius(A):
    """Largest eigenvalue of an adjacency, or the bound by the largest degree where it would take long."""
    if not A.nnz:
        return 0.0
    if A.shape[0] > 500:
        return float(np.diff(A.indptr).max())
    return float(np.linalg.eigvalsh((A.toarray() != 0).astype(np.float64))[-1])


@register
@frozen
class Propagation(PairKernel):
    r"""Propagation kernel of continuous attributes (S11): a kernel of vectors, summed over all pairs of nodes and all rounds.

    .. math:: k = \sum_{t=0}^{steps} \sum_{v, v'} \kappa(x_v^{(t)}, x_{v'}^{(t)}), \qquad x^{(t+1)} = D^{-1} A x^{(t)}

    In each round a node takes the mean of its neighbours' attributes; one without neighbours keeps its own. Words such as
    "median" in the kernel are resolved on the attributes of the rows. After Neumann et al. (2016), without their hashing.

    >>> g = {"edges": [(0, 1)], "attributes": [[0.0], [1.0]]}
    >>> from mercer.kernels import Linear
    >>> float(Propagation(Linear(), steps=1)([g])[0, 0])  # (0 + 1)^2 before, (1 + 0)^2 after
    2.0
    """

    kernel: Kernel = RBF()
    steps: Count = 2
    reads_objects = True

    def check(self):
        if not isinstance(self.kernel, Kernel) or self.kernel.reads not in ("vectors", "any"):
            raise TypeError(f"Propagation(kernel) needs a kernel of vectors, got {self.kernel!r}")

    def _resolved(self, rows, weight):
        X, node = stacked([rounds[0] for rounds in validate.each_object(self.parse, validate.objects(rows))])
        if not len(X):
            return self
        return self._with(kernel=self.kernel.resolve(X, None if weight is None else weight[node]))

    def parse(self, x):
        """Attributes of the nodes in all rounds."""
        g = Graph.read(x)
        if g.n_nodes == 0:
            return [np.zeros((0, 0))] * (int(self.steps) + 1)
        if g.attributes is None:
            raise ValueError('Propagation reads graphs whose nodes have "attributes"; this one has none')
        A = (g.adjacency != 0).astype(np.float64)
        degree = np.asarray(A.sum(axis=1)).ravel()
        rounds = [g.attributes]
        for _ in range(int(self.steps)):
            mean = (A @ rounds[-1]) / np.maximum(degree, 1.0)[:, None]
            rounds.append(np.where(degree[:, None] > 0, mean, rounds[-1]))
        return rounds

    def block(self, xs, ys):
        return sum(
            sums_of_pairs(self.kernel, [x[t] for x in xs], [y[t] for y in ys]) for t in range(int(self.steps) + 1)
        )

    def __repr__(self):
        return f"Propagation({self.kernel!r}, steps={int(self.steps)})"

    @property
    def validity(self):
        return of_bags(self.kernel.validity, "sum over all pairs of nodes")

"""Kernels on graphs with explicit features: histograms, shortest paths and graphlets, and what such kernels share."""

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.kernels.base import FeatureKernel, frozen, require_memory
from mercer.kernels.codes import code_matrix, mixed
from mercer.kernels.graphs import Graph, degrees
from mercer.kernels.parameters import Count, Spec
from mercer.random import generator
from mercer.registry import register

__all__ = ["EdgeHistogram", "Graphlet", "ShortestPath", "VertexHistogram"]

_KINDS = 109  # the sum of the cubes of the degrees is 4 * 3^3 at most
_GRAPHLETS = {
    3: {0: "no edge", 2: "one edge", 10: "path", 24: "triangle"},
    4: {0: "no edge", 2: "one edge", 4: "two edges apart", 10: "path of 3", 18: "path of 4", 24: "triangle", 30: "star",
        32: "ring", 44: "triangle with a tail", 70: "ring with a chord", 108: "all edges"},
}  # fmt: skip


@dataclass(frozen=True)
class Union:
    """All graphs as one: the graph of each node and its label, and the edges (m, 2) between nodes, each once, with labels."""

    graph: np.ndarray
    labels: np.ndarray
    edges: np.ndarray
    edge_codes: np.ndarray | None
    labelled: bool | None  # None: no nodes

    @classmethod
    def of(cls, graphs):
        sizes = np.array([g.n_nodes for g in graphs])
        edges = np.concatenate([g.edges for g in graphs], dtype=np.int64)
        edges += np.repeat(np.cumsum(sizes) - sizes, [len(g.edges) for g in graphs])[:, None]
        labelled = _all_have([g.codes for g in graphs], sizes, "labels")
        if labelled:
            labels = np.concatenate([g.codes for g in graphs if g.n_nodes])
        else:
            labels = mixed(degrees(edges, sizes.sum()))
        return cls(np.repeat(np.arange(len(graphs)), sizes), labels, edges, _edge_codes(graphs), labelled)

    @property
    def edges_labelled(self):
        return self.edge_codes is not None if len(self.edges) else None

    @cached_property
    def arcs(self):
        """(ptr, near, edge): the neighbours of node i, and the edges to them, stand in ptr[i]:ptr[i + 1]."""
        u, v = self.edges.T
        back = np.flatnonzero(u != v)
        tail, head = np.concatenate([u, v[back]]), np.concatenate([v, u[back]])
        order = np.argsort(tail, kind="stable")
        ptr = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=len(self.labels)))])
        return ptr, head[order], np.concatenate([np.arange(len(u)), back])[order]


def _all_have(given, needed, name):
    """Whether those graphs that need labels have them, None if none needs any; ValueError where some have and others not."""
    have = [labels is not None for labels, need in zip(given, needed, strict=True) if need]
    if all(have) or not any(have):
        return have[0] if have else None
    row = np.flatnonzero(needed)
    bare, other = row[have.index(False)], row[have.index(True)]
    raise ValueError(f"row {bare} has no {name}, row {other} has; give them to all graphs or to none")


def _edge_codes(graphs):
    """Codes of the labels of all edges, None if they have none."""
    if _all_have([g.edge_codes for g in graphs], [len(g.edges) for g in graphs], "edge labels"):
        return np.concatenate([g.edge_codes for g in graphs if len(g.edges)])
    return None


class GraphFeatures(FeatureKernel):
    """A kernel of graphs by counts of codes: subclasses give `entries`, arrays (graph, code, value)."""

    def entries(self, all_of: Union, graphs):
        raise NotImplementedError

    def describe(self, all_of: Union, graphs, place) -> str:
        """Name of the feature of one entry."""
        raise NotImplementedError

    def counts(self, x):
        matrix, _, vocabulary = self.count_matrix(validate.objects([x]))
        return dict(zip(vocabulary.names(matrix.indices), matrix.data.tolist(), strict=True))

    def count_matrix(self, objects, vocabulary=None):
        graphs = list(validate.each_object(Graph.read, objects))
        all_of = Union.of(graphs)
        if vocabulary is not None:
            known = vocabulary.describe.all_of
            check_labelled(known.labelled, all_of.labelled)
            check_labelled(known.edges_labelled, all_of.edges_labelled, "edge labels")
        row, codes, values = self.entries(all_of, graphs)
        return code_matrix(len(graphs), row, codes, values, vocabulary, _Describer(self, all_of, graphs))


def check_labelled(one, other, name="labels"):
    """Refuse to compare labels with degrees or with nothing; None stands for a side that needs none."""
    if None not in (one, other) and one != other:
        raise ValueError(f"graphs with {name} are compared with graphs without; give {name} to all of them or to none")


@dataclass(frozen=True)
class _Describer:
    """Names features when they are asked for: most never are."""

    kernel: Any
    all_of: Union
    graphs: list

    def __call__(self, places):
        return [self.kernel.describe(self.all_of, self.graphs, int(place)) for place in places]


def _node_name(all_of, graphs, node):
    g = graphs[all_of.graph[node]]
    if g.codes is None:
        ptr = all_of.arcs[0]
        return str(ptr[node + 1] - ptr[node])
    return _text(g, all_of.labels[node])


def _text(graph, code):
    """The label of a code; the code itself where nobody gave the graph its labels."""
    return str((graph.names or {}).get(int(code), f"#{int(code):016x}"))


def _edge_name(all_of, graphs, edge):
    """Label of an edge with signs that join it to its ends, or nothing."""
    if all_of.edge_codes is None:
        return ""
    g = graphs[all_of.graph[all_of.edges[edge, 0]]]
    return f"-[{_text(g, all_of.edge_codes[edge])}]-"


def subtree_name(all_of, graphs, node, depth):
    """Label(neighbours), each with its own neighbours down to a depth."""
    name = _node_name(all_of, graphs, node)
    if depth == 0:
        return name
    ptr, near, edge = all_of.arcs
    below = [_edge_name(all_of, graphs, edge[a]) + subtree_name(all_of, graphs, near[a], depth - 1)
             for a in range(ptr[node], ptr[node + 1])]  # fmt: skip
    return f"{name}({', '.join(sorted(below))})"


# ---------------------------------------------------------------------------------------------- histograms and paths
@register
@frozen
class VertexHistogram(GraphFeatures):
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
class EdgeHistogram(GraphFeatures):
    """Edge histogram (S11): the inner product of the counts of edges, told apart by the labels of their ends and their own.

    >>> float(EdgeHistogram()([([(0, 1)], "CO")], [([(0, 1), (1, 2)], "COO")])[0, 0])  # C-O
    1.0
    """

    def entries(self, all_of, graphs):
        u, v = all_of.edges.T
        codes = _ends(all_of.labels[u], all_of.labels[v])
        if all_of.edge_codes is not None:
            codes = mixed(codes ^ all_of.edge_codes)
        return all_of.graph[u], codes, np.ones(len(codes))

    def describe(self, all_of, graphs, place):
        ends = sorted(_node_name(all_of, graphs, node) for node in all_of.edges[place])
        return (_edge_name(all_of, graphs, place) or "-").join(ends)


def _ends(a, b):
    """Code of an unordered pair."""
    return mixed(mixed(a) + mixed(b))


@register
@frozen
class ShortestPath(GraphFeatures):
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
    n = graph.n_nodes
    require_memory(
        3 * 8 * n * n, f"ShortestPath: the distances of {n} nodes", ["use WeisfeilerLehman, or smaller graphs"]
    )
    D = shortest_path(sp.csr_matrix(graph.adjacency), method="D", directed=False, unweighted=True)
    u, v = np.nonzero(np.triu(np.isfinite(D), 1))
    labels, distance = mixed(graph.labels), D[u, v].astype(np.int64)
    return mixed(mixed(labels[u] + labels[v]) ^ distance.astype(np.uint64)), u, v, distance


# ---------------------------------------------------------------------------------------------- graphlets
@register
@frozen
class Graphlet(GraphFeatures):
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
        require_memory(n * n, f"Graphlet: the adjacency of {n} nodes", ["give n_samples"])
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

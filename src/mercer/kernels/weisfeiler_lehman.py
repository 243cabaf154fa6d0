"""Kernels on graphs by refinement of labels, after Weisfeiler and Lehman."""

import numpy as np

from mercer.kernels.base import frozen
from mercer.kernels.codes import mixed, pieces, ranks
from mercer.kernels.graph_features import GraphFeatures, subtree_name
from mercer.kernels.parameters import Count
from mercer.kernels.validity import certificate
from mercer.registry import register

__all__ = ["WLOptimalAssignment", "WeisfeilerLehman"]


def _hierarchy(all_of, iterations):
    """Labels of all nodes after 0, 1, ..., iterations rounds, one row each."""
    labels = np.empty((int(iterations) + 1, len(all_of.labels)), np.uint64)
    labels[0] = mixed(all_of.labels)
    u, v = np.ascontiguousarray(all_of.edges.T)
    edge_codes = np.zeros(0, np.uint64) if all_of.edge_codes is None else mixed(all_of.edge_codes)
    for level in range(1, len(labels)):
        _refine(labels[level - 1], u, v, edge_codes, labels[level])
    return labels


def _refine(labels, u, v, edge_codes, out):
    """The code of each node's label together with the multiset of its neighbours' labels (and those of the edges to them)."""
    from mercer.kernels import _compiled_graphs as loops

    own, around = np.empty_like(labels), np.zeros_like(labels)
    for start, stop in pieces(len(labels)):
        loops.scramble(labels, start, stop, own)
    for start, stop in pieces(len(u)):
        loops.add_neighbours(own, u, v, edge_codes, start, stop, around)
    for start, stop in pieces(len(labels)):
        loops.join(labels, around, start, stop, out)


@register
@frozen
class WeisfeilerLehman(GraphFeatures):
    """Weisfeiler-Lehman subtree kernel (S11): the inner product of the counts of labels in all rounds of refinement.

    In each of the `iterations` rounds the label of a node becomes its own with the multiset of its neighbours'. Labels of edges
    take part where there are any. Shervashidze et al. (2011).

    >>> path, star = ([(0, 1), (1, 2), (2, 3)], "CCCC"), ([(0, 1), (0, 2), (0, 3)], "CCCC")
    >>> [float(WeisfeilerLehman(h)([path], [star])[0, 0]) for h in (0, 1)]  # then 2 ends meet 3 ends
    [16.0, 22.0]
    """

    iterations: Count = 3

    def entries(self, all_of, graphs):
        codes = _hierarchy(all_of, self.iterations)
        return np.tile(all_of.graph, len(codes)), codes.ravel(), np.ones(codes.size)

    def describe(self, all_of, graphs, place):
        depth, node = divmod(place, len(all_of.graph))
        return subtree_name(all_of, graphs, node, depth)


@register
@frozen
class WLOptimalAssignment(GraphFeatures):
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
        codes = np.array([mixed(mixed(c) + ranks(c, all_of.graph).astype(np.uint64)) for c in levels])
        return np.tile(all_of.graph, len(codes)), codes.ravel(), np.ones(codes.size)

    def describe(self, all_of, graphs, place):
        depth, node = divmod(place, len(all_of.graph))
        same = ranks(_hierarchy(all_of, depth)[-1], all_of.graph)[node]
        return f"{subtree_name(all_of, graphs, node, depth)} no. {same}"

    @property
    def validity(self):
        return certificate("psd", "an intersection of histograms: the assignment follows a hierarchy")

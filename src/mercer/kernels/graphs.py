"""Graphs as rows: what users have, read once."""

import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.kernels.codes import code_of, mixed
from mercer.registry import register_record

__all__ = ["Graph", "read_graphs"]

_KEYS = ("edges", "labels", "edge_labels", "attributes", "n_nodes")


@register_record
@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self):
        parts = {"labels": self.codes, "edge labels": self.edge_codes, "attributes": self.attributes}
        given = [name for name, values in parts.items() if values is not None]
        return f"<Graph: {', '.join([f'{self.n_nodes} nodes', f'{len(self.edges)} edges', *given])}>"

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """Symmetric CSR matrix of ones."""
        u, v = self.edges.T
        back = u != v
        row, column = np.concatenate([u, v[back]]), np.concatenate([v, u[back]])
        return sp.csr_array((np.ones(len(row)), (row, column)), shape=(self.n_nodes, self.n_nodes))

    @cached_property
    def labels(self) -> np.ndarray:
        """Codes of the labels of the nodes; of their degrees if they have none."""
        return mixed(degrees(self.edges, self.n_nodes)) if self.codes is None else self.codes


def degrees(edges, n) -> np.ndarray:
    """Numbers of neighbours of n nodes; one with a loop is a neighbour of its own."""
    u, v = edges.T
    return np.bincount(u, minlength=n) + np.bincount(v[u != v], minlength=n)


# ---------------------------------------------------------------------------------------------- reading
def _graph(edges, labels=None, edge_labels=None, attributes=None, n_nodes=None):
    place = None
    if isinstance(labels, Mapping):
        place = {node: i for i, node in enumerate(labels)}
        labels = list(labels.values())
    labels = None if labels is None else _sequence(labels, "labels")
    edge_labels = None if edge_labels is None else _sequence(edge_labels, "edge_labels")
    edges = _edges(edges, place)
    codes, edge_codes, attributes = _codes(labels), _codes(edge_labels), _attributes(attributes)
    n = _number_of_nodes(edges, codes, attributes, n_nodes)
    names = {**_names(codes, labels), **_names(edge_codes, edge_labels)}
    return _made(n, edges, codes, edge_codes, attributes, names)


def _number_of_nodes(edges, codes, attributes, n_nodes):
    sizes = {len(a) for a in (codes, attributes) if a is not None}
    if n_nodes is not None:
        if not isinstance(n_nodes, numbers.Integral) or n_nodes < 0:
            raise ValueError(f"n_nodes must be a whole number of nodes, got {n_nodes!r}")
        sizes.add(int(n_nodes))
    if len(sizes) > 1:
        raise ValueError(f"labels, attributes and n_nodes do not agree on the number of nodes: {sorted(sizes)}")
    n = sizes.pop() if sizes else int(edges.max(initial=-1)) + 1
    if len(edges) and (edges.min() < 0 or edges.max() >= n):
        bad = edges[((edges < 0) | (edges >= n)).any(axis=1)][0]
        raise ValueError(f"the edge {tuple(bad.tolist())} leads to a node outside 0 ... {n - 1}")
    return n


def _sequence(values, name):
    """Labels that can be indexed."""
    if isinstance(values, (str, np.ndarray)):
        return values
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence, one for each, got {type(values).__name__}: {values!r:.40}")
    return list(values)


def _names(codes, labels):
    """Labels by their codes."""
    if codes is None:
        return {}
    found, first = np.unique(codes, return_index=True)
    return {int(c): labels[i] for c, i in zip(found, first, strict=True)}


def _edges(edges, place):
    pairs = edges if isinstance(edges, np.ndarray) else list(_sequence(edges, "edges"))
    if place is not None:
        try:
            pairs = [tuple(place[node] for node in e) for e in pairs]
        except KeyError as error:
            raise ValueError(f"an edge leads to the node {error.args[0]!r}, which has no label") from None
    if len(pairs) == 0:
        return np.zeros((0, 2), np.int64)
    try:
        array = np.asarray(pairs)
    except ValueError:
        raise ValueError(f"edges must be pairs of node numbers, got {str(pairs)[:40]}") from None
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
    try:
        values = np.asarray(attributes, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"attributes must be numbers (n_nodes, d), got {str(attributes)[:60]}") from None
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2:
        raise ValueError(f"attributes must be numbers (n_nodes, d), got shape {values.shape}")
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise ValueError(f"attributes must be finite, but those of node {bad[0]} hold NaN or infinity")
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
    labels, edge_labels = source.get("node_labels"), source.get("edge_labels")
    nodes = _pointer(source, "node_ptr", labels, "node_labels")
    arcs = _pointer(source, "edge_ptr", source["edges"], "edges")
    if len(nodes) != len(arcs):
        raise ValueError(f"node_ptr tells of {len(nodes) - 1} graphs, edge_ptr of {len(arcs) - 1}")
    edges = np.asarray(source["edges"]).astype(np.int64)
    out = np.empty(len(nodes) - 1, dtype=object)
    for g in range(len(out)):
        mine, its = slice(nodes[g], nodes[g + 1]), slice(arcs[g], arcs[g + 1])
        out[g] = (edges[its], None if labels is None else labels[mine], None if edge_labels is None else edge_labels[its],
                  None, nodes[g + 1] - nodes[g])  # fmt: skip
    return list(validate.each_object(lambda parts: _graph(*parts), out))


def _pointer(source, name, items, of):
    """Where the items of each graph begin and end; ValueError where they are not cut into consecutive parts."""
    ptr = np.asarray(source[name]).astype(np.int64)
    if ptr.ndim != 1 or not len(ptr) or ptr[0] != 0 or (np.diff(ptr) < 0).any():
        raise ValueError(f"{name} must begin with 0 and never fall, got {ptr[:5].tolist()} ...")
    if items is not None and len(items) != ptr[-1]:
        raise ValueError(f"{name} ends with {ptr[-1]}, but there are {len(items)} {of}")
    return ptr

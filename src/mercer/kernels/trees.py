"""Kernels on ordered labelled trees, given as nested tuples or as bracket strings."""

import numbers
import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any

import numpy as np

from mercer.errors import NanError
from mercer.kernels.base import FeatureKernel, PairKernel, frozen, require_memory
from mercer.kernels.codes import code_of
from mercer.kernels.parameters import Spec
from mercer.kernels.validity import certificate
from mercer.registry import register

__all__ = ["SubsetTree", "Subtree", "Tree"]

_STEPS = 2**23  # pairs of nodes between two looks at the interpreter
_TEXT = 500  # longer subtrees are named by a digest
Decay = Annotated[Any, Spec(low=0.0, open_low=True, high=1.0)]


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree as read: labels and children of its nodes, children before their parents."""

    labels: list
    children: list

    @classmethod
    def read(cls, x) -> "Tree":
        """The tree of a nested tuple (label, child, ...) or a string "(S (NP he) (VP ran))"; () and "" have no nodes."""
        if isinstance(x, Tree):
            return x
        if isinstance(x, str):
            x = _brackets(x)
        if not isinstance(x, (tuple, list)):
            raise TypeError(
                f"expected a tree, a nested tuple or a bracket string, got {type(x).__name__}: {str(x)[:40]!r}"
            )
        return _unfolded(x)

    @property
    def inner(self):
        """Nodes with children."""
        return [i for i, children in enumerate(self.children) if children]


def _brackets(text):
    """Nested lists of a bracket string."""
    open_lists: list[list] = [[]]
    for token in re.findall(r"[()]|[^()\s]+", text):
        if token == "(":
            open_lists.append([])
        elif token == ")":
            if len(open_lists) == 1:
                raise ValueError(f"the tree {text[:60]!r} closes a bracket that is not open")
            done = open_lists.pop()
            open_lists[-1].append(done)
        else:
            open_lists[-1].append(token)
    if len(open_lists) > 1:
        raise ValueError(f"the tree {text[:60]!r} leaves {len(open_lists) - 1} brackets open")
    if len(open_lists[0]) > 1:
        raise ValueError(f"{text[:60]!r} holds {len(open_lists[0])} trees; expected one")
    first = open_lists[0][0] if open_lists[0] else []
    return first if isinstance(first, list) else [first]


def _unfolded(root):
    """Nodes of nested sequences, children before parents; a stack of our own, since trees may be deep."""
    labels: list = []
    children: list = []
    if len(root) == 0:
        return Tree(labels, children)
    stack: list = [(root, 1, [])]
    while stack:
        node, place, found = stack.pop()
        if place < len(node):
            stack.append((node, place + 1, found))
            child = node[place]
            stack.append((child if isinstance(child, (tuple, list)) else (child,), 1, []))
            _check_node(stack[-1][0])
            continue
        labels.append(node[0])
        children.append(found)
        if stack:
            stack[-1][2].append(len(labels) - 1)
    return Tree(labels, children)


def _check_node(node):
    if len(node) == 0:
        raise ValueError("a tree holds an empty node; expected (label, child, ...)")


@dataclass(frozen=True, eq=False)
class _Productions:
    """What the compiled loop reads: production codes of the inner nodes, and their children that are inner nodes too."""

    codes: np.ndarray
    ptr: np.ndarray
    children: np.ndarray


def _productions(tree):
    place = {node: i for i, node in enumerate(tree.inner)}
    codes, below = [], []
    for node in tree.inner:
        # A leaf and an inner node of the same label are different children.
        right = tuple((code_of(tree.labels[c]), c in place) for c in tree.children[node])
        codes.append(code_of((code_of(tree.labels[node]), *right)))
        below.append([place[c] for c in tree.children[node] if c in place])
    ptr = np.concatenate([[0], np.cumsum([len(b) for b in below])]).astype(np.int64)
    return _Productions(np.array(codes, np.uint64), ptr, np.array([c for b in below for c in b], np.int64))


@register
@frozen
class SubsetTree(PairKernel):
    r"""Subset-tree kernel (S8): common fragments of two trees, each weighted by decay to the number of its productions.

    .. math:: k = \sum_{n, n'} C(n, n'), \qquad C = \lambda \prod_j (1 + C(c_j, c'_j)) \text{ for equal productions, else } 0

    A production is a node with the labels of its children, in order; a fragment takes all children of a node or none.
    Collins & Duffy (2002).

    >>> dog, cat = "(NP (D the) (N dog))", "(NP (D the) (N cat))"
    >>> float(SubsetTree(1.0)([dog], [cat])[0, 0])  # D the; NP with D, with (D the)
    3.0
    """

    decay: Decay = 0.4
    reads_objects = True
    not_differentiable = ("decay",)

    def parse(self, x):
        return _productions(Tree.read(x))

    def pair(self, x, y):
        from mercer.kernels import _compiled_graphs as loops

        n, m = len(x.codes), len(y.codes)
        require_memory(
            8 * n * m, f"SubsetTree of two trees with {n} and {m} inner nodes", ["use Subtree, or smaller trees"]
        )
        C, total, step = np.empty((n, m)), 0.0, max(1, _STEPS // max(m, 1))
        for start in range(0, n, step):
            total += loops.common_fragments(x.codes, y.codes, x.ptr, x.children, y.ptr, y.children, float(self.decay), C,
                                            start, min(start + step, n))  # fmt: skip
        if not np.isfinite(total):
            raise NanError(f"SubsetTree(decay={self.decay:g}): the common fragments of two trees with {n} and {m} inner nodes "
                           "are more than float64 holds; use a smaller decay")  # fmt: skip
        return total

    @property
    def validity(self):
        return certificate("psd", "an inner product of counts of tree fragments")


@register
@frozen
class Subtree(FeatureKernel):
    """Subtree kernel (S8): common complete subtrees, each weighted by decay to the number of its productions.

    A complete subtree is a node that is no leaf with all that is below it. Explicit features: a tree has one for each of its
    nodes. Vishwanathan & Smola (2003).

    >>> float(Subtree(1.0)(["(NP (D the) (N dog))"], ["(NP (D the) (N cat))"])[0, 0])  # D the
    1.0
    """

    decay: Decay = 1.0
    not_differentiable = ("decay",)

    def counts(self, x):
        tree = Tree.read(x)
        names: list[str] = []
        sizes: list[int] = []
        found: dict[str, float] = {}
        for label, children in zip(tree.labels, tree.children, strict=True):
            names.append(_name(label, [names[c] for c in children]))
            sizes.append(sum(sizes[c] for c in children) + bool(children))
            if children:
                found[names[-1]] = found.get(names[-1], 0.0) + float(self.decay) ** (0.5 * sizes[-1])
        return found


def _name(label, below):
    """Text of a subtree, by which it is known between fit and predict; a long one is cut and told by a digest."""
    label = _word(label)
    text = f"({label} {' '.join(below)})" if below else label
    if len(text) <= _TEXT:
        return text
    return f"({label[:40]} ... #{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=12).hexdigest()})"


def _word(label):
    """A label as it stands in a text; in angle brackets and quotes what could be read otherwise."""
    if isinstance(label, str) and label and not re.search(r"[()\s]", label) and label[0] != "<":
        return label
    code_of(label)  # refuses what is no label
    whole = isinstance(label, numbers.Real) and np.isfinite(label) and label == int(label)
    return f"<{int(label) if whole else label!r}>"

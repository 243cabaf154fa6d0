"""Kernels on trees (S8): hand counted trees, enumeration of fragments, and trees that are deep, empty or wrong."""

import itertools
from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import close
from mercer import SVC
from mercer.kernels import SubsetTree, Subtree
from mercer.kernels.trees import Tree

LEAVES = st.sampled_from("ab")
INNER = st.recursive(
    LEAVES, lambda t: st.tuples(st.sampled_from("SN"), t) | st.tuples(st.just("N"), t, t), max_leaves=5
)
TREES = st.tuples(st.just("S"), INNER)


def children(t):
    return t[1:] if isinstance(t, tuple) else ()


def nodes(t):
    """Nodes that are no leaves."""
    if children(t):
        yield t
        for c in children(t):
            yield from nodes(c)


def fragments(t):
    """All fragments rooted at a node, as nested tuples with the number of their productions; a cut node is (label, None)."""
    choices = []
    for c in children(t):
        if children(c):
            choices.append([((c[0], None), 0), *fragments(c)])
        else:
            choices.append([(c, 0)])
    for chosen in itertools.product(*choices):
        yield (t[0], *(f for f, _ in chosen)), 1 + sum(size for _, size in chosen)


def enumerated(x, y, decay):
    a, b = (Counter(f for n in nodes(t) for f in fragments(n)) for t in (x, y))
    return sum(decay**size * a[f, size] * b[f, size] for f, size in a)


def complete(x, y, decay):
    a, b = (Counter(nodes(t)) for t in (x, y))
    return sum(decay ** len(list(nodes(t))) * a[t] * b[t] for t in a)


@given(TREES, TREES)
def test_against_enumeration(x, y):
    for decay in (1.0, 0.4):
        close(SubsetTree(decay)([x], [y]), [[enumerated(x, y, decay)]], 1e-12)
        close(Subtree(decay)([x], [y]), [[complete(x, y, decay)]], 1e-12)


def test_hand_counted():
    """The noun phrase of Collins & Duffy's figure."""
    apple = "(NP (D the) (N apple))"
    assert SubsetTree(1.0)([apple])[0, 0] == 6  # NP with or without each of D and N, D the, N apple
    assert SubsetTree(0.5)([apple])[0, 0] == 2 * 0.5 + 0.5 + 2 * 0.25 + 0.125
    dog = "(NP (D the) (N dog))"
    assert SubsetTree(1.0)([apple], [dog])[0, 0] == 3
    assert Subtree(1.0)([apple])[0, 0] == 3
    assert Subtree(1.0)([apple], [dog])[0, 0] == 1
    assert SubsetTree(1.0)(["(S (A a) (A a))"])[0, 0] == 4 + 4  # A a twice on both sides: 4 pairs, and 4 of S


def test_ways_to_write_a_tree():
    tuples, lists = ("S", ("A", "a"), "b"), ["S", ["A", ["a"]], "b"]
    for k in (SubsetTree(0.7), Subtree(0.7)):
        expected = k([tuples], [tuples])
        for other in (lists, "(S (A a) b)", " ( S(A a)\n b ) ", Tree.read(tuples)):
            close(k([tuples], [other]), expected, 0.0)


def test_leaves_and_inner_nodes_differ():
    for k in (SubsetTree(1.0), Subtree(1.0)):
        assert k([("S", "A")], [("S", ("A", "a"))])[0, 0] == 0
        assert k([("S", "a", "b")], [("S", "b", "a")])[0, 0] == 0  # ordered
        assert k([("S", "a b")], [("S", "a", "b")])[0, 0] == 0
        assert k([("S", 1)], [("S", "1")])[0, 0] == 0
        assert k([("S", 1)], [("S", 1.0)])[0, 0] == 1
        assert k([("S", None, (2, "x"))])[0, 0] > 0


def test_empty_and_single_nodes():
    for k in (SubsetTree(), Subtree()):
        close(k(["", (), "a", "(a)", ("a", "b")])[:4], np.zeros((4, 5)), 0.0)
        close(k.normalise()(["", "(S a)"]), [[0, 0], [0, 1]], 1e-15)


def chain(depth, nest=tuple):
    deep = nest(["a"])
    for _ in range(depth):
        deep = nest(["b", deep])
    return deep


@pytest.mark.parametrize("nest", [tuple, list])
def test_deep_trees(nest):
    """Deeper than Python's stack. All productions of a chain but the last are the same, so fragments are counted by hand."""
    deep, text = chain(5000, nest), "(b " * 5000 + "a" + ")" * 5000
    assert Subtree(1.0)([deep], [text])[0, 0] == 5000
    assert Subtree(1.0)([deep], [chain(4999)])[0, 0] == 4999  # names are cut, and still tell the depth
    assert max(map(len, Subtree().counts(text))) <= 500
    short = chain(2, nest)
    assert SubsetTree(0.5)([deep], [short])[0, 0] == pytest.approx(4999 * 0.5 + 0.5 * 1.5 + 0.0, rel=1e-12)
    model = SVC(kernel=Subtree()).fit([text, "(a b)"], [0, 1])
    assert model.predict([text]).tolist() == [0]


def test_too_many_fragments_are_refused():
    with pytest.raises(ValueError, match=r"SubsetTree\(decay=1\).*more than float64 holds; use a smaller decay"):
        SubsetTree(1.0)([("S", *[("A", "a")] * 1100)])


def test_trees_too_large_for_memory_are_refused(monkeypatch):
    large = ("S", *[("A", "a")] * 1500)
    assert Subtree(0.5)([large])[0, 0] > 0
    monkeypatch.setattr(import_module("mercer.gram"), "budget", lambda: 2**24)
    with pytest.raises(
        MemoryError, match=r"SubsetTree of two trees with 1501 and 1501 inner nodes needs 18.* MB.*use Subtree"
    ):
        SubsetTree(0.01)([large])


@pytest.mark.parametrize("kernel", [SubsetTree(), Subtree()], ids=str)
@pytest.mark.parametrize(
    ("row", "message"),
    [
        (None, "row 1: expected a tree, a nested tuple or a bracket string, got NoneType"),
        (float("nan"), "row 1: expected a tree"),
        ("(S (A a)", "row 1: .* leaves 1 brackets open"),
        ("(S a))", "row 1: .* closes a bracket that is not open"),
        ("(S a) (S b)", "row 1: .* holds 2 trees; expected one"),
        (("S", ()), "row 1: a tree holds an empty node"),
        (("S", {1: 2}), "row 1: a label must be a number, a string"),
        (("S", float("nan")), "row 1: a label is NaN"),
    ],
)
def test_bad_trees(kernel, row, message):
    with pytest.raises((TypeError, ValueError), match=message):
        kernel(["(S a)", row])


def test_sentences_are_told_apart():
    active = [f"(S (NP (N {n})) (VP (V {v}) (NP (N {m}))))" for n, v, m in itertools.product("xy", "st", "ab")]
    passive = [
        f"(S (NP (N {m})) (VP (V was) (V {v}) (PP (P by) (NP (N {n})))))"
        for n, v, m in itertools.product("xy", "st", "ab")
    ]
    y = np.repeat([0, 1], 8)
    model = SVC(kernel=SubsetTree(0.4).normalise()).fit([*active[:6], *passive[:6]], np.repeat([0, 1], 6))
    assert model.predict([*active[6:], *passive[6:]]).tolist() == y[[0, 0, 8, 8]].tolist()

"""Kernels on sets and bags of vectors (S9, S10): against enumeration of subsets, the best matching, and plain sums."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from cases import close
from mercer import SVC, KernelRidge, KMedoids
from mercer.errors import NotPSDError, NumericalWarning
from mercer.kernels import (
    RBF,
    Jaccard,
    Linear,
    MeanMap,
    OptimalAssignment,
    PowerSet,
    PyramidMatch,
    SetIntersection,
    Sigmoid,
    Spectrum,
    Tanimoto,
)

SETS = st.lists(st.sets(st.sampled_from("abcdef"), max_size=5), min_size=2, max_size=5)


def subsets(s):
    return {frozenset(c) for r in range(len(s) + 1) for c in itertools.combinations(sorted(s), r)}


@given(SETS)
def test_against_enumeration(sets):
    common = np.array([[len(a & b) for b in sets] for a in sets], float)
    shared = np.array([[len(subsets(a) & subsets(b)) for b in sets] for a in sets], float)
    close(SetIntersection()(sets), common, 0.0)
    close(PowerSet()(sets), shared, 1e-14)
    close(PowerSet("normalised")(sets), shared / np.sqrt(np.outer(np.diag(shared), np.diag(shared))), 1e-14)
    index = [[len(a & b) / len(a | b) if a | b else 1.0 for b in sets] for a in sets]
    close(Jaccard()(sets), index, 1e-15)


def test_jaccard_is_tanimoto_of_indicators():
    sets = [{0, 1}, {1, 2, 3}, {3}, set()]
    indicators = np.array([[float(j in s) for j in range(4)] for s in sets])
    close(Jaccard()(sets), Tanimoto()(indicators), 1e-15)


def test_large_sets_have_a_value_or_a_reason():
    large = [set(range(5000)), set(range(1, 5001))]
    close(PowerSet("normalised")(large), [[1.0, 0.5], [0.5, 1.0]], 1e-12)
    with pytest.raises(ValueError, match=r'row 1: 2\^1024 overflows .* use PowerSet\("normalised"\)'):
        PowerSet()([{1}, set(range(1024))])
    assert PowerSet()([set(range(1023))])[0, 0] == pytest.approx(2.0**1023, rel=1e-12)


def test_what_is_a_set():
    expected = SetIntersection()([{1, "a"}, {2}, set()])
    for rows in ([[1, "a", "a"], (2,), []], [frozenset({1, "a"}), np.array([2]), ()]):
        close(SetIntersection()(rows), expected, 0.0)
    table = pd.DataFrame({"basket": [{"milk"}, {"milk", "beer"}], "age": [1.0, 2.0]})
    close((Jaccard().on("basket") * RBF().on("age"))(table)[0, 1], 0.5 * math.exp(-0.5), 1e-15)


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ("abc", TypeError, "row 1: Jaccard reads sets, lists or tuples of hashable entries, got str"),
        (None, TypeError, "row 1: .*NoneType"),
        (float("nan"), TypeError, "row 1: .*float"),
        ({"a": 1}, TypeError, "row 1: .*dict"),
        ([[1]], TypeError, "row 1: .*unhashable"),
        ([float("nan")], ValueError, "row 1: a set holds NaN"),
    ],
)
def test_bad_sets(row, error, message):
    with pytest.raises(error, match=message):
        Jaccard()([{1}, row])


def test_unseen_elements_count_in_the_norm():
    k = SetIntersection().normalise()
    close(k([{1, 8, 9, 7}], [{1}]), [[0.5]], 1e-15)
    model = SVC(kernel=Jaccard()).fit([{1, 2}, {2}, {7, 8}, {8}], [0, 0, 1, 1])
    assert model.predict([{2, 99}, {8, 77}]).tolist() == [0, 1]


def test_baskets_cluster():
    baskets = [
        {"beer", "crisps"},
        {"beer", "crisps", "nuts"},
        {"beer"},
        {"milk", "bread"},
        {"milk", "bread", "jam"},
        {"milk"},
    ]
    labels = KMedoids(2, kernel=Jaccard(), random_state=0).fit_predict(baskets)
    assert labels[:3].std() == labels[3:].std() == 0
    assert labels[0] != labels[3]


# ---------------------------------------------------------------------------------------------- pyramid match
def pyramid(A, B, side, levels, origin, form):
    """By plain histograms, level by level."""
    total, before = 0.0, 0
    for i in range(levels):
        s = side * 2**i
        a, b = ([tuple(np.floor((x - origin) / s).astype(int)) for x in X] for X in (A, B))
        matches = sum(min(a.count(bin_), b.count(bin_)) for bin_ in set(a))
        width = len(A[0]) * s if len(A) else 1.0
        total += (matches - before) * (1 / width if form == "similarity" else width)
        before = matches
    return total


def bags(rng, n=6, d=2):
    return [rng.random((rng.integers(1, 7), d)) * 8 for _ in range(n)]


@pytest.mark.parametrize("form", ["similarity", "cost"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_pyramid_against_histograms(form, d):
    X = bags(np.random.default_rng(d), d=d)
    k = PyramidMatch(0.5, levels=5, origin=0.0, form=form)
    close(k(X), [[pyramid(a, b, 0.5, 5, 0.0, form) for b in X] for a in X], 1e-12)
    close(k(X[:2], X), k(X)[:2], 1e-12)


@given(st.integers(0, 10_000))
def test_bounds_by_the_best_matching(seed):
    """The similarity is at most that of the best matching under 1/L1; the cost is at least its L1 cost."""
    X = bags(np.random.default_rng(seed), n=4)
    similarity, cost = PyramidMatch(0.25)(X), PyramidMatch(0.25, form="cost")(X)
    for i, j in itertools.combinations(range(len(X)), 2):
        D = cdist(X[i], X[j], "cityblock")
        best = linear_sum_assignment(1 / D, maximize=True)
        assert similarity[i, j] <= (1 / D)[best].sum() * (1 + 1e-12)
        assert cost[i, j] >= D[linear_sum_assignment(D)].sum() * (1 - 1e-12)


def test_pyramid_is_resolved_from_the_rows():
    X = bags(np.random.default_rng(0))
    k = PyramidMatch(0.5).resolve(X)
    everything = np.vstack(X)
    close(k.origin, everything.min(axis=0), 0.0)
    top = 0.5 * 2 ** (k.levels - 1)
    assert top > np.ptp(everything, axis=0).max() >= top / 2
    close(PyramidMatch(0.5)(X), k(X), 0.0)
    with pytest.raises(ValueError, match="origin has 3 entries, but the vectors have 2"):
        PyramidMatch(1.0, levels=2, origin=[0.0, 0.0, 0.0])(X)
    with pytest.raises(ValueError, match=r"more than 2\^62 bins"):
        PyramidMatch(1e-300, levels=2, origin=0.0)(X)
    with pytest.raises(ValueError, match="origin has 2 entries, but the vectors have 1"):
        PyramidMatch(1.0, levels=2, origin=0.0)([[[0.5], [1.5]]], [[[0.5, 1.5]]])
    with pytest.raises(ValueError, match="form='nearest' must be"):
        PyramidMatch(form="nearest")


def test_self_similarity_normalises_sets_of_unequal_size():
    small, large = [[0.1, 0.1]], [[0.1, 0.1], [0.2, 0.1], [7.0, 7.0]]
    K = PyramidMatch(1.0).normalise()([small, large, large, []])
    close(np.diag(K), [1, 1, 1, 0], 1e-15)
    assert 0 < K[0, 1] < K[1, 2] == pytest.approx(1.0)


def test_truth_about_psd():
    assert PyramidMatch().validity.kind == "psd"
    cost = PyramidMatch(1.0, levels=2, origin=0.0, form="cost")
    assert cost.validity.kind == "not-psd"
    assert np.linalg.eigvalsh(cost([[[0.5]], [[1.5]]])).min() == pytest.approx(-1.0)
    assert PyramidMatch(1.0, levels=1, form="cost").validity.kind == "psd"
    assert MeanMap(RBF()).validity.kind == "psd"
    assert MeanMap(Sigmoid()).validity.kind == "unknown"


# ---------------------------------------------------------------------------------------------- mean map
def test_mean_map_is_the_mean_of_all_pairs():
    X = [*bags(np.random.default_rng(1), n=5), np.zeros((0, 2))]
    k = RBF(2.0)
    expected = [[k(a, b).mean() if len(a) and len(b) else 0.0 for b in X] for a in X]
    close(MeanMap(k)(X), expected, 1e-14)
    close(MeanMap(k).diag(X), np.diag(expected), 1e-14)
    means = np.array([x.mean(axis=0) for x in X[:5]])
    close(MeanMap(Linear())(X[:5]), means @ means.T, 1e-13)
    assert MeanMap(RBF("median")).resolve(X).kernel == RBF("median").resolve(np.vstack(X))


@pytest.mark.parametrize("kind", [MeanMap, OptimalAssignment])
def test_vectors_weigh_as_much_as_their_bags(kind):
    X, w = bags(np.random.default_rng(4), n=5), np.array([0.0, 1.0, 5.0, 0.0, 2.0])
    expected = RBF("scale").resolve(np.vstack(X), np.repeat(w, [len(x) for x in X]))
    found = kind(RBF("scale")).resolve(X, w).kernel
    assert found == expected
    assert found != RBF("scale").resolve(np.vstack(X))


def test_large_bags_are_taken_in_parts(monkeypatch):
    from mercer.kernels import bags as module

    X = bags(np.random.default_rng(2), n=7)
    expected = MeanMap(RBF(2.0))(X)
    monkeypatch.setattr(module, "_PAIRS", 20)
    close(MeanMap(RBF(2.0))(X), expected, 1e-14)


# ---------------------------------------------------------------------------------------------- best assignment
def best_assignment(K):
    """The best of all one-to-one maps of the smaller bag into the larger one."""
    K = K if len(K) <= len(K.T) else K.T
    return max(K[range(len(K)), list(chosen)].sum() for chosen in itertools.permutations(range(K.shape[1]), len(K)))


def test_best_assignment_against_all_assignments():
    X = [*bags(np.random.default_rng(3), n=6)[:6], []]
    for k in (RBF(2.0), Linear() - 20.0):  # values below 0: the smaller bag is assigned all the same
        expected = [[best_assignment(k(a, b)) if len(a) and len(b) else 0.0 for b in X] for a in X]
        close(OptimalAssignment(k)(X), expected, 1e-13)
    assert OptimalAssignment(RBF("median")).resolve(X).kernel == RBF("median").resolve(np.vstack(X[:-1]))


def test_best_assignment_is_not_psd():
    X = [[[0.77], [-0.06]], [[-1.0], [-0.78]], [[1.27]], [[-0.36], [0.08]], [[-0.69], [1.33], [-1.25]]]
    y = [0, 1, 0, 1, 0]
    k = OptimalAssignment(RBF(1.0))
    assert np.linalg.eigvalsh(k(X)).min() < -0.05
    assert k.validity.kind == "not-psd"
    for kernel in (k, PyramidMatch(1.0, form="cost")):
        for model in (SVC(kernel=kernel), KernelRidge(kernel=kernel)):
            with pytest.raises(
                NotPSDError, match=r'is not positive semi-definite .*use another kernel, or indefinite="clip"'
            ):
                model.fit(X, y)
            with pytest.warns(NumericalWarning, match="repaired by clip"):
                assert np.isfinite(model.set_params(indefinite="clip").fit(X, y).predict(X)).all()
    for psd in (MeanMap(RBF(1.0)), PyramidMatch(0.5)):
        assert np.linalg.eigvalsh(psd(X)).min() > -1e-12
        SVC(kernel=psd).fit(X, y)


@pytest.mark.parametrize("kernel", [PyramidMatch(), MeanMap(), OptimalAssignment()], ids=str)
@pytest.mark.parametrize(
    ("row", "message"),
    [
        (None, "row 1: expected a bag of vectors, an array"),
        ("text", "row 1: expected a bag"),
        ([1.0, 2.0], r"row 1: .* got shape \(2,\)"),
        ([[1.0, np.nan]], "row 1: a bag of vectors contains NaN"),
        ([[1.0, 2.0, 3.0]], "row 1 has vectors of 3 entries, row 0 of 2"),
    ],
)
def test_bad_bags(kernel, row, message):
    with pytest.raises((TypeError, ValueError), match=message):
        kernel([[[1.0, 2.0]], row])


@pytest.mark.parametrize("kind", [MeanMap, OptimalAssignment])
def test_kernels_of_bags_need_kernels_of_vectors(kind):
    for wrong in (Spectrum(2), "rbf"):
        with pytest.raises(TypeError, match=rf"{kind.__name__}\(kernel\) needs a kernel of vectors, got"):
            kind(wrong)


def test_missing_sets_in_a_table_are_named():
    table = pd.DataFrame({"basket": [{1}, {2}, None], "age": [1.0, 2.0, 3.0]})
    for kernel, got in ((Jaccard(), "row 2: Jaccard reads sets"), (MeanMap(), "row 0: expected a bag of vectors")):
        with pytest.raises(TypeError, match=got):
            (kernel.on("basket") + RBF().on("age"))(table)


def test_vectors_of_two_sides_have_one_length():
    for kernel in (MeanMap(RBF(1.0)), OptimalAssignment(RBF(1.0)), PyramidMatch(1.0)):
        with pytest.raises(ValueError, match=r"2.* 3|3.* 2"):
            kernel([[[1.0, 2.0]]], [[[1.0, 2.0, 3.0]]])


def test_empty_bags_meet_nothing():
    for kernel in (PyramidMatch(1.0), MeanMap(), OptimalAssignment(), PyramidMatch(1.0, form="cost")):
        close(kernel([[], np.zeros((0, 2)), [[1.0, 2.0]]])[:2], np.zeros((2, 3)), 0.0)
        close(kernel([[], []]), np.zeros((2, 2)), 0.0)

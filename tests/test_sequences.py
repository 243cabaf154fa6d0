"""Kernels of sequences: every number against a sum over all alignments, all warpings or all iterated integrals."""

import math
import os
import signal
import threading
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import iv, jv

import mercer
from cases import close, error_of
from mercer.engines import Engine
from mercer.errors import NanError, NotPSDError, NumericalWarning
from mercer.kernels import DynamicTimeWarping, GlobalAlignment, Signature
from mercer.kernels import _compiled_sequences as tables
from mercer.kernels.sequences import _room, median_step

ALL = [
    GlobalAlignment(0.9),
    GlobalAlignment(0.9, 3),
    GlobalAlignment(0.9, normalised=False),
    DynamicTimeWarping(0.9),
    DynamicTimeWarping(0.9, 2),
    Signature(0.9),
    Signature(0.9, "linear"),
    Signature(0.9, depth=3),
    Signature(0.9, "linear", 2),
]


# ---------------------------------------------------------------------------------------------- oracles
@cache
def alignments(n, m):
    """All ways from (0, 0) to (n - 1, m - 1) by steps of one in either or both."""
    if n == 0 or m == 0:
        return ((),) if n == m else ()
    if n == m == 1:
        return (((0, 0),),)
    before = ((n - 1, m), (n, m - 1), (n - 1, m - 1))
    return tuple((*way, (n - 1, m - 1)) for a, b in before if a and b for way in alignments(a, b))


def brute_alignment(x, y, lengthscale, triangular):
    def local(i, j):
        weight = max(0.0, 1 - abs(i - j) / triangular) if triangular else 1.0
        g = weight * math.exp(-np.sum((x[i] - y[j]) ** 2) / (2 * lengthscale**2))
        return g / (2 - g)

    return sum(math.prod(local(i, j) for i, j in way) for way in alignments(len(x), len(y)))


def brute_warping(x, y, band):
    allowed = [w for w in alignments(len(x), len(y)) if not band or all(abs(i - j) <= band for i, j in w)]
    return math.sqrt(min((sum(np.sum((x[i] - y[j]) ** 2) for i, j in w) for w in allowed), default=math.inf))


def signature(x, depth):
    """Iterated integrals of a path of straight pieces, level by level, joined by Chen's rule."""
    levels = [np.ones(())] + [np.zeros((x.shape[1],) * m) for m in range(1, depth + 1)]
    for move in np.diff(x, axis=0):
        piece = [np.ones(())]
        for m in range(1, depth + 1):
            piece.append(np.multiply.outer(piece[-1], move) / m)
        levels = [sum(np.multiply.outer(levels[k], piece[m - k]) for k in range(m + 1)) for m in range(depth + 1)]
    return levels


def explicit(x, y, depth):
    return sum(float((a * b).sum()) for a, b in zip(signature(x, depth), signature(y, depth), strict=True))


number = st.floats(-2, 2, allow_nan=False, width=32)


def sequences(longest, width=2, shortest=0):
    rows = st.lists(st.tuples(*[number] * width), min_size=shortest, max_size=longest)
    return rows.map(lambda r: np.array(r, float).reshape(len(r), width))


def walks(n, length, width=2, seed=0, size=0.5):
    rng = np.random.default_rng(seed)
    return [size * rng.standard_normal((length, width)).cumsum(axis=0) for _ in range(n)]


# ---------------------------------------------------------------------------------------------- alignments
@given(sequences(5), sequences(5), st.sampled_from([0, 1, 2, 4]))
def test_sum_over_all_alignments(x, y, triangular):
    k = GlobalAlignment(0.8, triangular, normalised=False)
    expected = [[brute_alignment(a, b, 0.8, triangular) for b in (x, y)] for a in (x, y)]
    np.testing.assert_allclose(k([x, y]), expected, rtol=1e-12, atol=1e-300)
    own = np.sqrt(np.diag(expected))
    normalised = k.replace(normalised=True)
    np.testing.assert_allclose(normalised([x, y]), expected / np.outer(own, own), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(normalised([x, y]), k.normalise()([x, y]), rtol=1e-12, atol=1e-300)


def test_number_of_alignments():
    """Of equal steps every alignment counts 1: the Delannoy numbers."""
    k = GlobalAlignment(1.0, normalised=False)
    for n, expected in ((1, 1), (2, 3), (3, 13), (4, 63), (5, 321), (6, 1683)):
        assert k([np.zeros(n)])[0, 0] == pytest.approx(expected, rel=1e-14)


def test_alignments_beyond_the_range_of_numbers():
    """Against the same recursion in logarithms; values from exp(1200) down to exp(-100000)."""
    rng = np.random.default_rng(0)
    near, far = rng.standard_normal(700), 400 + 300 * rng.standard_normal(600)
    for x, y in ((near, near[::-1].copy()), (near, far), (far, np.r_[far[:300], near[:350]])):
        k = GlobalAlignment(10.0, normalised=False)
        logs = k._logarithms(*[[k.parse(s)] for s in (x, y)])[0, 0]
        assert logs == pytest.approx(logarithm_of_alignments(x, y, 10.0), rel=1e-12)


def logarithm_of_alignments(x, y, lengthscale):
    """Along diagonals, so that NumPy does whole ones at once."""
    s = np.subtract.outer(x, y) ** 2 / (2 * lengthscale**2)
    local = -s - np.log(2 - np.exp(-s))
    table = np.full((len(x) + 1, len(y) + 1), -np.inf)
    table[0, 0] = 0.0
    for d in range(len(x) + len(y) - 1):
        i = np.arange(max(0, d - len(y) + 1), min(len(x), d + 1))
        j = d - i
        before = np.logaddexp(np.logaddexp(table[i, j], table[i, j + 1]), table[i + 1, j])
        table[i + 1, j + 1] = before + local[i, j]
    return table[-1, -1]


def test_length_two_thousand():
    X = walks(2, 2000, 1)
    for k in (GlobalAlignment(), GlobalAlignment(triangular=300), GlobalAlignment(0.01), GlobalAlignment(1e6)):
        K = k(X)
        assert np.isfinite(K).all()
        assert K.min() >= 0.0
        close(np.diag(K), np.ones(2), 0.0)
    with pytest.raises(NanError, match=r"overflows: k\(x, y\) is up to exp\(3.*use normalised=True"):
        GlobalAlignment(normalised=False)(X)


def test_triangular_reads_a_band_only():
    x = np.zeros(40)
    assert GlobalAlignment(1.0, 5)([x], [np.zeros(36)])[0, 0] > 0
    assert GlobalAlignment(1.0, 5)([x], [np.zeros(35)])[0, 0] == 0.0
    far = x.copy()
    far[0] = 1e6  # no alignment avoids it, but one step at the start costs the same whatever the band
    close(GlobalAlignment(1.0, 100_000)(walks(5, 9)), GlobalAlignment(1.0)(walks(5, 9)), 1e-2)


# ---------------------------------------------------------------------------------------------- warping
@given(sequences(5), sequences(5), st.sampled_from([0, 1, 2]))
@example(
    np.array([[0.0], [1.0], [1.0]]), np.array([[0.0], [0.0], [1.0]]), 1
)  # the cheapest way follows one edge of the band
@example(np.array([[1.0], [1.0], [0.0]]), np.array([[1.0], [0.0], [0.0]]), 1)  # and here the other
def test_least_of_all_warpings(x, y, band):
    k = DynamicTimeWarping(0.7, band)
    expected = brute_warping(x, y, band)
    assert k.warping([x], [y])[0, 0] == pytest.approx(expected, rel=1e-12)
    assert k([x], [y])[0, 0] == pytest.approx(math.exp(-expected / 0.7), rel=1e-11)
    path = k.path(x, y)
    assert len(path) or expected == math.inf or len(x) == len(y) == 0
    if len(path):
        assert tuple(map(tuple, path.tolist())) in alignments(len(x), len(y))
        assert math.sqrt(sum(np.sum((x[i] - y[j]) ** 2) for i, j in path)) == pytest.approx(expected, rel=1e-12)


def test_warping_is_not_psd_and_says_so():
    X = [np.zeros(1), np.zeros(2) + 1, np.array([0.0, 1.0]), np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])]
    X += [s[:, 0] for s in walks(40, 8, 1, size=1.0)]
    k = DynamicTimeWarping(2.0)
    assert k.validity.kind == "not-psd"
    assert np.linalg.eigvalsh(k(X)).min() < -1e-3
    y = np.arange(len(X)) % 2
    with pytest.raises(NotPSDError, match=r'DynamicTimeWarping.*indefinite="clip"'):
        mercer.KernelRidge(kernel=k).fit(X, y)
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        model = mercer.KernelRidge(kernel=k, indefinite="clip").fit(X, y)
    assert np.isfinite(model.predict(X)).all()


# ---------------------------------------------------------------------------------------------- signatures
@given(sequences(5, shortest=2), sequences(5, shortest=2), st.integers(1, 5))
def test_truncated_signatures(x, y, depth):
    k = Signature(1.3, "linear", depth)
    expected = explicit(x / 1.3, y / 1.3, depth)
    scale = math.sqrt(explicit(x / 1.3, x / 1.3, depth) * explicit(y / 1.3, y / 1.3, depth))
    assert abs(k([x], [y])[0, 0] - expected) <= 1e-13 * scale


def test_all_levels_are_the_limit_of_many():
    X = walks(5, 7)
    for static in ("linear", "rbf"):
        limit = Signature(1.1, static)(X)
        close(Signature(1.1, static, 30)(X), limit, 1e-13)
        errors = [np.abs(Signature(1.1, static, m)(X) - limit).max() for m in (1, 3, 6, 9)]
        assert errors[0] > errors[1] > errors[2] > errors[3]
    close(Signature(1.1, "linear")(X), [[explicit(x / 1.1, y / 1.1, 9) for y in X] for x in X], 1e-4)


@pytest.mark.parametrize("size", [0.3, 1.0, 5.0, 30.0])
def test_straight_paths(size):
    """One step u and one step v: the Bessel function I0(2 sqrt(<u, v>)), J0 where the product is negative."""
    u, v = size * np.array([1.0, 0.5]), size * np.array([0.4, 1.2])
    start = np.array([3.0, -2.0])
    k = Signature(1.0, "linear")
    forth = k([[start, start + u]], [[0 * v, v]])[0, 0]
    assert forth == pytest.approx(iv(0, 2 * math.sqrt(u @ v)), rel=1e-12)
    back = k([[start, start + u]], [[0 * v, -v]])[0, 0]
    assert back == pytest.approx(jv(0, 2 * math.sqrt(u @ v)), abs=1e-12 * iv(0, 2 * math.sqrt(u @ v)))


def test_gaussian_static_kernel_is_a_path_of_features():
    """exp(<x, y>) has features of its own for steps on few places: the rows of a root of their Gram matrix."""
    X = [x[:4] for x in walks(4, 4)]
    places = np.concatenate(X)
    gram = np.exp(-((places[:, None] - places[None]) ** 2).sum(-1) / (2 * 1.2**2))
    values, vectors = np.linalg.eigh(gram)
    features = (vectors * np.sqrt(np.maximum(values, 0))).reshape(4, 4, -1)
    close(Signature(1.2, "rbf")(X), Signature(1.0, "linear")(list(features)), 1e-12)
    close(Signature(1.2, "rbf", 3)(X), Signature(1.0, "linear", 3)(list(features)), 1e-12)


@pytest.mark.parametrize("k", [k for k in ALL if isinstance(k, Signature)], ids=repr)
def test_signatures_know_no_pace(k):
    """Repeated steps change nothing; nor, for straight static paths, do steps in between or another start."""
    X = walks(4, 6)
    expected = k(X)
    slow = [np.repeat(x, [1, 3, 1, 2, 1, 4], axis=0) for x in X]
    close(k(slow, X), expected, 1e-13)
    if k.static == "linear":
        fine = [np.insert(x, 2, 0.3 * x[1] + 0.7 * x[2], axis=0) for x in X]
        close(k(fine, X), expected, 1e-13)
        close(k([x + 5.0 for x in X], X), expected, 1e-12)


def test_back_and_forth_is_no_way():
    """The signature of a path and back is 1."""
    X = walks(3, 5)
    there_and_back = [np.concatenate([x, x[-2::-1]]) for x in X]
    for k in (Signature(1.0), Signature(1.0, "linear"), Signature(1.0, depth=4)):
        close(k(there_and_back, X), np.ones((3, 3)), 1e-12)


# ---------------------------------------------------------------------------------------------- all of them
@pytest.mark.parametrize("k", [k for k in ALL if k.validity.certified], ids=repr)
@given(st.lists(sequences(6, 1), min_size=2, max_size=8))
def test_psd_on_odd_samples(k, X):
    K = k.normalise()(X)
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * len(X)


@pytest.mark.parametrize("k", ALL, ids=repr)
def test_both_orders_to_the_last_bit(k):
    X = walks(5, 6) + walks(4, 9, seed=1)
    K = k(X, X[::-1])
    assert np.array_equal(K, k(X[::-1], X).T)
    assert np.array_equal(k(X), k(X).T)


@pytest.mark.parametrize("k", ALL, ids=repr)
def test_small_portions_of_work_make_no_difference(k, monkeypatch):
    X = walks(6, 12) + walks(3, 5, seed=2)
    whole = k(X)
    monkeypatch.setattr("mercer.kernels.sequences._WORK", 100.0)
    assert np.array_equal(k(X), whole)


def test_tables_stop_within_a_pair():
    """After about as many cells as were asked for, so that Ctrl-C is heard in the middle of two long sequences."""
    x, ends = np.zeros((2000, 1)), np.array([0, 2000])
    for kind in (tables.ALIGNMENT, tables.WARPING, tables.SIGNATURE, tables.TRUNCATED):
        place, out = np.zeros(2, np.int64), np.zeros((1, 1))
        room = _room(tables, kind, ends, ends, 1, levels=2 if kind == tables.TRUNCATED else 0, terms=9)
        for turn in (1, 2):
            assert tables.advance(kind, x, ends, x, ends, False, place, *room, out, 1e5)
            assert place.tolist() == [0, 50 * turn]


@pytest.mark.parametrize("k", [GlobalAlignment(0.9), Signature(0.9)], ids=repr)
def test_ctrl_c_in_the_middle_of_a_pair(k):
    X = walks(2, 20_000, 1, size=1e-3)
    k([x[:3] for x in X])  # compiled before the clock runs
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        k(X)
    timer.join()


@pytest.mark.parametrize("k", ALL, ids=repr)
def test_threads_make_no_difference(k):
    X = walks(9, 6) + walks(8, 9, seed=1)
    found = [k.gram(X, engine=Engine("cpu", threads=n)).dense() for n in (1, 2, 5)]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("k", ALL, ids=repr)
def test_half_of_a_symmetric_tile_is_computed(k, monkeypatch):
    """A tile on the diagonal makes each pair once; one beside it makes all."""
    xs = [k.parse(x) for x in walks(4, 5)]
    whole = k.block(xs, list(xs))
    assert np.array_equal(whole, k.block(xs, [k.parse(x) for x in walks(4, 5)]))
    calls = []
    monkeypatch.setattr(tables, "advance", lambda *a: calls.append(a[5]))
    k._table(xs, [*xs, xs[0]], tables.ALIGNMENT)
    k._table(xs, xs[1:], tables.ALIGNMENT)
    k._table(xs, [xs[0], xs[2], xs[1], xs[3]], tables.ALIGNMENT)
    assert calls == [True, False, False]


@pytest.mark.parametrize("k", ALL, ids=repr)
def test_forms_of_sequences(k):
    X = [[0.0, 1.0, 0.5], [1.0, 0.0], [0.25]]
    expected = k(X)
    arrays = [np.array(x) for x in X]
    for form in (
        arrays,
        [a[:, None] for a in arrays],
        [a.astype(np.float32) for a in arrays],
        tuple(map(tuple, X)),
        np.array([*arrays, None], dtype=object)[:3],
        [np.asfortranarray(a[:, None]) for a in arrays],
        [np.repeat(a, 2)[::2] for a in arrays],
    ):
        close(k(form), expected, 0.0)
    cube = np.random.default_rng(0).standard_normal((4, 5, 2))
    close(k(cube), k(list(cube)), 0.0)
    whole = [[1, 0, 1], [0, 1]]
    close(k(whole), k([np.array(x, float) for x in whole]), 0.0)


@pytest.mark.parametrize("k", ALL, ids=repr)
def test_empty_and_short_sequences(k):
    K = k([[], [0.5], [0.5, 1.0], []])
    assert np.isfinite(K).all()
    alone = 1.0 if isinstance(k, Signature) else 0.0
    close(K[0], [1.0, alone, alone, 1.0], 0.0)
    close(k([[], []]), np.ones((2, 2)), 0.0)
    close(k([np.empty((0, 2))], [np.ones((3, 2))]), [[alone]], 0.0)


@pytest.mark.parametrize("k", ALL, ids=repr)
def test_what_is_no_sequence(k):
    name = type(k).__name__
    fine = [0.0, 1.0]
    for bad, kind, said in (
        ([0.0, np.nan, 1.0], ValueError, "row 1: step 1 holds NaN or infinity"),
        (np.array([[0.0, 1.0], [np.inf, 0.0]]), ValueError, "row 1: step 1 holds NaN or infinity"),
        ("abc", TypeError, f"row 1: {name} reads sequences of numbers or of vectors, got str: 'abc'"),
        (None, TypeError, f"row 1: {name} reads sequences .* got NoneType"),
        (3.0, TypeError, f"row 1: {name} reads sequences .* got float"),
        (np.nan, TypeError, f"row 1: {name} reads sequences .* got float"),
        ([0.0, "x"], TypeError, "row 1: .* a step is no number"),
        ([0.0, None], (TypeError, ValueError), "row 1: .*"),
        ([[0.0, 1.0], [1.0]], ValueError, "row 1: .* different numbers of columns"),
        (np.zeros((2, 2, 2)), ValueError, r"row 1: .* got shape \(2, 2, 2\)"),
        ([1j, 2.0], TypeError, "row 1: .* a step is no number"),
    ):
        with pytest.raises(kind, match=said):
            k([fine, bad])
    with pytest.raises(ValueError, match="steps of 1 and 2 columns"):
        k([fine, np.zeros((3, 2))])
    with pytest.raises(ValueError, match="steps of 1 and 2 columns"):
        k([fine], [np.zeros((3, 2))])
    mixed = [np.empty(0), fine, np.zeros((3, 2))]
    with pytest.raises(ValueError, match="row 2 has steps of 2 columns, row 1 of 1"):
        k.replace(lengthscale="median").resolve(mixed)
    with pytest.raises(ValueError, match="row 2 has steps of 2 columns, row 1 of 1"):
        mercer.KMedoids(2, kernel=k).fit(mixed)


@pytest.mark.parametrize("k", ALL, ids=repr)
@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-20, 1e20, 1e150, 1e300])
def test_scales(k, size):
    """At any scale numbers, or an error that says what to do."""
    X = [size * x for x in walks(5, 6)]
    error = error_of(NanError, k, X)
    if error is not None:
        assert isinstance(k, Signature)
        assert "lengthscale" in str(error)
        return
    assert np.isfinite(k(X)).all()
    median = k.replace(lengthscale="median")
    close(median(X), median([x / size for x in X]), 1e-9)


def test_median_is_of_distinct_sequences_in_any_order():
    X = walks(30, 20)
    expected = GlobalAlignment().resolve(X).lengthscale
    assert expected == GlobalAlignment().resolve(X[::-1] + X[:7]).lengthscale
    assert expected == median_step(X) * math.sqrt(20)
    steps = np.concatenate(X)
    exact = np.median(np.linalg.norm(steps[:, None] - steps[None], axis=2)[np.triu_indices(len(steps), 1)])
    assert median_step(X) == pytest.approx(exact, rel=0.1)
    assert Signature().resolve(X).lengthscale == median_step(X)
    assert GlobalAlignment().resolve([np.zeros(4), np.zeros(9)]).lengthscale == math.sqrt(6.5)
    assert GlobalAlignment().resolve([np.zeros(4), np.zeros(9), np.zeros(50)]).lengthscale == 3.0
    assert GlobalAlignment().resolve([[], []]).lengthscale == 1.0


def test_arguments():
    for make, said in (
        (lambda: GlobalAlignment(0.0), "lengthscale=0.0 must be > 0"),
        (lambda: GlobalAlignment("mean"), "the words are 'median'"),
        (lambda: GlobalAlignment(triangular=-1), "triangular=-1 must be >= 0"),
        (lambda: GlobalAlignment(triangular=1.5), "must be a whole number"),
        (lambda: Signature(static="cubic"), 'expected "linear" or "rbf"'),
        (lambda: Signature(depth=0), "depth=0 must be >= 1"),
        (lambda: Signature(depth=51), "at most 50"),
        (lambda: DynamicTimeWarping(band=-2), "band=-2 must be >= 0"),
    ):
        with pytest.raises(ValueError, match=said):
            make()
    with pytest.raises(TypeError, match="must be True or False"):
        GlobalAlignment(normalised="yes")

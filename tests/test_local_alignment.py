"""Local alignments: sums and scores against all alignments of short strings, and long ones in logarithms."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mercer
from cases import close
from mercer.errors import NanError, NotPSDError, NumericalWarning
from mercer.kernels import LocalAlignment, SmithWaterman

SCORES = (1.0, -0.7, 1.2, 0.4)  # match, mismatch, opening, extension
words = st.text("abc", max_size=5)


# ---------------------------------------------------------------------------------------------- oracles
def scores_of_all(x, y, match, mismatch, opening, extension):
    """Scores of all local alignments: any number of letters of x, as many of y, in order."""
    for n in range(min(len(x), len(y)) + 1):
        for at in combinations(range(len(x)), n):
            for to in combinations(range(len(y)), n):
                left_out = [b - a - 1 for places in (at, to) for a, b in pairwise(places)]
                gaps = sum(opening + extension * (g - 1) for g in left_out if g)
                yield sum(match if x[i] == y[j] else mismatch for i, j in zip(at, to, strict=True)) - gaps


def logarithm_of_sum(x, y, scores, beta):
    """The recursion of Saigo et al. (2004) in logarithms, letter by letter."""
    match, mismatch, opening, extension = beta * np.array(scores)
    shape = len(x) + 1, len(y) + 1
    M, X, Y = (np.full(shape, -np.inf) for _ in range(3))
    total = 0.0
    for i in range(1, shape[0]):
        for j in range(1, shape[1]):
            before = np.logaddexp.reduce([0.0, M[i - 1, j - 1], X[i - 1, j - 1], Y[i - 1, j - 1]])
            M[i, j] = before + (match if x[i - 1] == y[j - 1] else mismatch)
            X[i, j] = np.logaddexp(M[i - 1, j] - opening, X[i - 1, j] - extension)
            Y[i, j] = np.logaddexp(np.logaddexp(M[i, j - 1], X[i, j - 1]) - opening, Y[i, j - 1] - extension)
            total = np.logaddexp(total, M[i, j])
    return total


# ---------------------------------------------------------------------------------------------- values
@given(words, words, st.sampled_from([SCORES, (2.0, 0.5, 0.0, 0.0), (0.3, -1.0, 0.5, 2.0)]))
def test_all_alignments(x, y, scores):
    k, best = LocalAlignment(*scores, beta=0.8, normalised=False), SmithWaterman(*scores)
    every = [[list(scores_of_all(a, b, *scores)) for b in (x, y)] for a in (x, y)]
    expected = np.array([[sum(math.exp(0.8 * s) for s in row) for row in rows] for rows in every])
    np.testing.assert_allclose(k([x, y]), expected, rtol=1e-12)
    np.testing.assert_allclose(best([x, y]), [[max(row) for row in rows] for rows in every], rtol=1e-12, atol=1e-12)
    own = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(k.replace(normalised=True)([x, y]), expected / np.outer(own, own), rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ("ab" * 60, "ab" * 60),
        ("ab" * 60, "ba" * 45),
        ("a" * 60 + "c" * 70, "b" * 60 + "d" * 70),  # nothing in common
        ("a" * 40 + "b" * 80, "b" * 80 + "a" * 40),  # either part, not both: what begins later ends higher
        ("b" * 80 + "a" * 40, "a" * 40 + "b" * 80),
        ("a" * 50 + "x" * 90, "a" * 50 + "y" * 90),  # falls from far beyond the range of numbers
        ("a" * 50 + "x" * 90 + "b" * 80, "a" * 50 + "y" * 90 + "b" * 80),  # and rises again, from the beginning
    ],
)
def test_beyond_the_range_of_numbers(x, y):
    """Products up to exp(3000) in logarithms."""
    for scores, beta in ((SCORES, 25.0), ((1.0, -1.0, 2.0, 3.0), 15.0)):
        k = LocalAlignment(*scores, beta=beta, normalised=False)
        found = k._logarithms(*[[k.parse(s)] for s in (x, y)])[0, 0]
        assert found == pytest.approx(logarithm_of_sum(x, y, scores, beta), rel=1e-12, abs=1e-11)


def test_best_is_the_limit_of_sums():
    x, y = "acgtacgtta", "tacgacgtgg"
    best = SmithWaterman(*SCORES)([x], [y])[0, 0]
    for beta, near in ((5.0, 1.0), (60.0, 0.1)):
        k = LocalAlignment(*SCORES, beta=beta, normalised=False)
        log = k._logarithms(*[[k.parse(s)] for s in (x, y)])[0, 0]
        assert best <= log / beta < best + near


def test_length_two_thousand():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("acgt"), 2000)) for _ in range(2)]
    X.append(X[0][700:] + X[1][:800])
    K = LocalAlignment(beta=3.0)(X)
    assert np.isfinite(K).all()
    close(np.diag(K), np.ones(3), 0.0)
    assert SmithWaterman()(X)[0, 2] >= 1300
    with pytest.raises(NanError, match=r"overflows: .*use normalised=True"):
        LocalAlignment(beta=3.0, normalised=False)(X)


# ---------------------------------------------------------------------------------------------- certificates
@given(st.lists(words, min_size=2, max_size=7), st.sampled_from([0.1, 1.0, 4.0]))
def test_sums_are_psd(X, beta):
    assert LocalAlignment(*SCORES, beta=beta).validity.certified
    assert np.linalg.eigvalsh(LocalAlignment(*SCORES, beta=beta)(X)).min() >= -1e-12 * len(X)


def test_what_is_not_psd_says_so():
    backwards = LocalAlignment(0.0, 1.0)
    assert backwards.validity.kind == "not-psd"
    assert np.linalg.eigvalsh(backwards(["a", "b"])).min() < -1e-3
    k, X = SmithWaterman(1.0, 0.0, 0.0, 0.0), ["ab", "ba", "a", "b", "aab", "bba", "abab", "baba"]
    assert k.validity.kind == "not-psd"
    assert np.linalg.eigvalsh(k(X)).min() < -1e-3
    y = np.arange(len(X)) % 2
    with pytest.raises(NotPSDError, match=r'SmithWaterman.*indefinite="clip"'):
        mercer.SVC(kernel=k).fit(X, y)
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        model = mercer.SVC(kernel=k, indefinite="clip").fit(X, y)
    assert np.isfinite(model.decision_function(["abba", "", "xyz"])).all()


# ---------------------------------------------------------------------------------------------- pairs and strings
@pytest.mark.parametrize("k", [LocalAlignment(*SCORES), SmithWaterman(*SCORES)], ids=repr)
def test_orders_portions_and_forms(k, monkeypatch):
    rng = np.random.default_rng(1)
    X = ["".join(rng.choice(list("acgt"), size)) for size in rng.integers(0, 15, 12)] + ["äß\U0001f40e", ""]
    whole = k(X)
    assert np.array_equal(k(X, X[::-1]), k(X[::-1], X).T)
    close(k(X, X[:5]), whole[:, :5], 0.0)
    close(k([list(x) for x in X]), whole, 0.0)
    monkeypatch.setattr("mercer.kernels.local_alignment._CELLS", 20.0)
    assert np.array_equal(k(X), whole)
    with pytest.raises(TypeError, match=r"row 1: .*reads strings, got NoneType"):
        k(["a", None])


def test_arguments():
    for make, said in (
        (lambda: LocalAlignment(beta=0.0), "beta=0.0 must be > 0"),
        (lambda: LocalAlignment(opening=-1.0), "opening=-1.0 must be >= 0"),
        (lambda: LocalAlignment(100.0, beta=2.0), "beta times a score is 200; expected at most 100"),
        (lambda: SmithWaterman(extension=-1.0), "extension=-1.0 must be >= 0"),
    ):
        with pytest.raises(ValueError, match=said):
            make()
    with pytest.raises(TypeError, match=r"normalised=1\.5 must be True or False"):
        LocalAlignment(normalised=1.5)

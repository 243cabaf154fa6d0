"""Kernels on strings against plain counting: substrings, gaps, mismatches, subsequences, places."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import close
from mercer import kernels as mk
from mercer.kernels.suffixes import suffix_order
from mercer.kernels.vocabulary import feature_names
from test_limits import linux, run

WORDS = st.lists(st.text(alphabet="abc", max_size=9), min_size=1, max_size=4)
ANY_TEXT = st.lists(st.text(max_size=7), min_size=1, max_size=4)


def substrings(x, k):
    return [x[i : i + k] for i in range(len(x) - k + 1)]


def pairs(function, X, Y=None):
    """The matrix of a function of two strings."""
    return np.array([[function(x, y) for y in (X if Y is None else Y)] for x in X], float)


# ---------------------------------------------------------------------------------------------- plain counting
def spectrum(x, y, k):
    return sum(a == b for a in substrings(x, k) for b in substrings(y, k))


def all_substrings(x, y, weight):
    return sum(weight(k) * spectrum(x, y, k) for k in range(1, min(len(x), len(y)) + 1))


def gapped(x, y, k, gaps):
    def shared(a, b):
        return sum(all(a[i] == b[i] for i in places) for places in combinations(range(k + gaps), k))

    return sum(shared(a, b) for a in substrings(x, k + gaps) for b in substrings(y, k + gaps))


def mismatch(x, y, k, m, alphabet):
    """Words of the alphabet that are near both, over all pairs of k-mers."""
    words = ["".join(w) for w in product(alphabet, repeat=k)]

    def near(a, w):
        return sum(p != q for p, q in zip(a, w, strict=True)) <= m

    return sum(sum(near(a, w) and near(b, w) for w in words) for a in substrings(x, k) for b in substrings(y, k))


def gappy(x, y, length, decay):
    """Over all pairs of places: decay to the sum of the spans where the letters agree."""

    def spans(s):
        return [("".join(s[i] for i in p), p[-1] - p[0] + 1) for p in combinations(range(len(s)), length)]

    return sum(decay ** (a + b) for u, a in spans(x) for v, b in spans(y) if u == v)


def weighted_degree(x, y, degree):
    weight = {d: 2 * (degree - d + 1) / (degree * (degree + 1)) for d in range(1, degree + 1)}
    return sum(
        w * sum(a == b for a, b in zip(substrings(x, d), substrings(y, d), strict=True)) for d, w in weight.items()
    )


# ---------------------------------------------------------------------------------------------- against it
@given(WORDS, st.integers(1, 4))
def test_spectrum(X, k):
    close(mk.Spectrum(k)(X), pairs(lambda x, y: spectrum(x, y, k), X), 0.0)


@given(ANY_TEXT, ANY_TEXT)
def test_spectrum_of_any_characters_and_of_new_ones(X, Y):
    """Letters and words that the other side has not seen count in the norms."""
    close(mk.Spectrum(2)(X, Y), pairs(lambda x, y: spectrum(x, y, 2), X, Y), 0.0)
    norms = np.array([spectrum(x, x, 2) for x in X])
    K, alone = mk.Spectrum(2).normalise()(X, Y), np.array([spectrum(y, y, 2) for y in Y])
    expected = pairs(lambda x, y: spectrum(x, y, 2), X, Y) / np.sqrt(np.maximum(np.outer(norms, alone), 1))
    close(K, expected, 1e-14)


@given(WORDS, st.integers(1, 4), st.sampled_from([1.0, 0.5, 0.3]))
def test_blended_spectrum_is_a_window_of_all_substrings(X, k, decay):
    expected = pairs(lambda x, y: all_substrings(x, y, lambda j: decay**j * (j <= k)), X)
    close(mk.BlendedSpectrum(k, decay)(X), expected, 1e-14)
    close(mk.AllSubstrings(decay, longest=k)(X), expected, 1e-14)


@given(ANY_TEXT | WORDS, st.sampled_from([1.0, 0.5]), st.integers(1, 3), st.none() | st.integers(3, 5))
def test_all_substrings(X, decay, low, high):
    def weight(j):
        return decay**j * (low <= j <= (high or 99))

    K = mk.AllSubstrings(decay, low, high)(X)
    close(K, pairs(lambda x, y: all_substrings(x, y, weight), X), 1e-14)
    assert (K == K.T).all()


@pytest.mark.parametrize("letters", [1, 2, 4, 40, 300])
def test_suffixes_in_order(letters):
    rng = np.random.default_rng(letters)
    for n in (1, 2, 3, 10, 50, 200):
        text = rng.integers(0, letters, n).astype(np.int32)
        assert suffix_order(text, letters).tolist() == sorted(range(n), key=lambda i: text[i:].tolist())
    fibonacci = np.array([0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 1] * 4, np.int32)
    assert suffix_order(fibonacci, 2).tolist() == sorted(range(104), key=lambda i: fibonacci[i:].tolist())


@pytest.mark.parametrize("letters", [2, 26, 300])
def test_all_substrings_of_few_and_of_many_letters(letters):
    rng = np.random.default_rng(letters)
    X = ["".join(map(chr, 97 + rng.integers(0, letters, n))) for n in (40, 40, 25)] + ["a" * 30, "z!", "", "ab" * 15]
    X += [X[0][20:] + X[1], X[0], "a" * 30]
    close(mk.AllSubstrings()(X), pairs(lambda x, y: all_substrings(x, y, lambda j: 1), X), 0.0)


def test_values_do_not_depend_on_the_strings_beside(monkeypatch):
    """The strings of a tile are put in order together, as many as fit: bit for bit what each pair gives alone."""
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("acgt"), n)) for n in rng.integers(1, 60, 12)] + ["aa" * 20, "", "ac"]
    k = mk.AllSubstrings(0.7)
    K, both = k(X), k(X, X[:5])
    assert (K == K.T).all()
    assert (both == K[:, :5]).all()
    assert (k(X[:5], X) == both.T).all()
    assert (k.diag(X) == K.diagonal()).all()
    monkeypatch.setattr(mk.strings, "_LETTERS", 50)
    parts = mk.strings._some([np.zeros(n) for n in (20, 30, 1, 70, 60, 50)])
    assert [(s.start, s.stop) for s in parts] == [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert (k(X) == K).all()
    assert (k(X, X[:5]) == both).all()


def test_long_strings_are_read_in_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("acgt"), 300)) for _ in range(3)]
    kernels = [mk.AllSubstrings(0.9), mk.GappySubsequence(3, 0.7)]
    whole = [k(X) for k in kernels]
    monkeypatch.setattr(mk.suffixes, "_PIECE", 7)
    monkeypatch.setattr(mk.strings, "_STEPS", 3000.0)
    for k, expected in zip(kernels, whole, strict=True):
        close(k(X), expected, 1e-13)


def test_a_repeated_letter_in_closed_form():
    """a^n has n - l + 1 substrings of length l."""
    n = np.arange(1.0, 2001)
    assert mk.AllSubstrings()(["a" * 2000])[0, 0] == np.sum(n**2)
    assert mk.Spectrum(5)(["a" * 2000])[0, 0] == 1996.0**2


def test_bag_of_characters_is_s3_with_weights_on_single_letters():
    X = ["abab", "", "émile", "le lé"]
    close(mk.BagOfCharacters()(X), mk.AllSubstrings(longest=1)(X), 0.0)
    close(mk.BagOfCharacters()(X), mk.Spectrum(1)(X), 0.0)


@given(WORDS, st.integers(1, 3), st.integers(0, 2))
def test_gapped_kmers(X, k, gaps):
    close(mk.GappedKmer(k, gaps)(X), pairs(lambda x, y: gapped(x, y, k, gaps), X), 0.0)


@given(WORDS, st.integers(1, 3), st.integers(0, 2))
def test_mismatch(X, k, m):
    m = min(k, m)
    expected = pairs(lambda x, y: mismatch(x, y, k, m, "abc"), X)
    close(mk.Mismatch(k, m, alphabet="abc")(X), expected, 0.0)
    close(mk.Mismatch(k, 0)(X), mk.Spectrum(k)(X), 0.0)


def test_mismatch_of_new_letters():
    """A letter outside the alphabet stands for itself, and letters of the alphabet may stand in for it."""
    k = mk.Mismatch(2, 1).resolve(["ab", "ba"])
    assert k == mk.Mismatch(2, 1, alphabet="ab")
    close(k(["zz"], ["az", "ab"]), [[2.0, 0.0]], 0.0)  # az and bz are near both zz and az
    joint = k(["zz", "az"])
    close(k.diag(["zz"]), joint[:1, 0], 0.0)
    close(mk.Mismatch(2, 0)(["az"], ["ab"]), [[0.0]], 0.0)
    tokens = mk.Mismatch(2, 2, alphabet=("a", "b"))  # letters of another kind than those of a string
    close(tokens(["xy"], [["a", "b"]]), [[4.0]], 0.0)
    close(mk.Mismatch(2, 1, alphabet="abba")(["ab", "bb"]), k(["ab", "bb"]), 0.0)


@given(WORDS, st.integers(1, 4), st.sampled_from([1.0, 0.5, 0.25]))
def test_gappy_subsequences(X, length, decay):
    K = mk.GappySubsequence(length, decay)(X)
    close(K, pairs(lambda x, y: gappy(x, y, length, decay), X), 1e-13)
    assert (K == K.T).all()


@pytest.mark.parametrize("decay", [0.5, 0.9, 1.0])
def test_cat_and_car(decay):
    k = mk.GappySubsequence(2, decay)
    close(k(["cat"], ["car"]), [[decay**4]], 1e-15)
    close(k.normalise()(["cat"], ["car"]), [[1 / (2 + decay**2)]], 1e-15)


@given(st.integers(0, 8), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_weighted_degree(n, degree, seed):
    rng = np.random.default_rng(seed)
    X = ["".join(rng.choice(list("ab"), n)) for _ in range(4)]
    close(mk.WeightedDegree(degree)(X), pairs(lambda x, y: weighted_degree(x, y, degree), X), 1e-14)


# ---------------------------------------------------------------------------------------------- bytes, tokens, names
KERNELS = [
    mk.Spectrum(2), mk.BlendedSpectrum(2, 0.5), mk.BagOfCharacters(), mk.GappedKmer(1, 1), mk.Mismatch(2, 1),
    mk.AllSubstrings(), mk.GappySubsequence(2), mk.WeightedDegree(2),
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_bytes_and_tokens_are_strings_too(kernel):
    X = ["abba", "baba", "abab"]
    close(kernel([x.encode() for x in X]), kernel(X), 0.0)
    for spell in (list, tuple, lambda x: [f"word {c}" for c in x], lambda x: np.array([ord(c) for c in x])):
        close(kernel([spell(x) for x in X]), kernel(X), 0.0)


def test_letters_of_other_kinds_differ():
    X = ["ab", b"ab", ["a", "b"], [1, 2], [1.0, 2.0], [2**60, 2**60 + 1]]
    K = mk.Spectrum(1)(X)
    expected = 2 * np.eye(6)
    expected[3, 4] = expected[4, 3] = 2
    close(K, expected, 0.0)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_bad_rows_are_named(kernel):
    for bad in (None, 3, np.nan, {"a": 1}):
        with pytest.raises(TypeError, match=rf"row 1: {type(kernel).__name__} reads strings, got"):
            kernel(["ab", bad])
    for bad in (None, ["b"], {"b"}, np.nan):
        with pytest.raises(TypeError, match=rf"row 1: a token must be .*, got {type(bad).__name__}"):
            kernel([["a", "b"], ["a", bad]])


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_empty_strings(kernel):
    close(kernel(["", ""]), np.zeros((2, 2)), 0.0)
    close(kernel.normalise()(["", ""]), np.zeros((2, 2)), 0.0)


def test_words_longer_than_an_integer():
    """Codes that do not fit into 62 bits are ranked on the way; so are those of the other side."""
    rng = np.random.default_rng(1)
    X = ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 60)) for _ in range(4)]
    X += [x[:50] + "!" + x[51:] for x in X] + [X[0][5:] + X[1][:10]]
    for k in (13, 14, 30, 55):
        close(mk.Spectrum(k)(X), pairs(lambda x, y, k=k: spectrum(x, y, k), X), 0.0)
        close(mk.Spectrum(k)(X[3:], X[:2]), pairs(lambda x, y, k=k: spectrum(x, y, k), X[3:], X[:2]), 0.0)


def test_features_have_names():
    assert mk.Spectrum(2).counts("abab") == {"ab": 2.0, "ba": 1.0}
    assert mk.Spectrum(2).counts(["to", "be", "to"]) == {("to", "be"): 1.0, ("be", "to"): 1.0}
    assert mk.GappedKmer(2, 1).counts("abc") == {"ab.": 1.0, "a.c": 1.0, ".bc": 1.0}
    assert mk.GappedKmer(1, 1).counts(b"ab") == {b"a.": 1.0, b".b": 1.0}
    assert mk.Mismatch(2, 1, "ab").counts("az") == {"az": 1.0, "bz": 1.0, "aa": 1.0, "ab": 1.0}
    blended = mk.BlendedSpectrum(2, 0.25)
    assert blended.counts("aab") == {"a": 1.0, "b": 0.5, "aa": 0.25, "ab": 0.25}
    matrix, _, vocabulary = blended.count_matrix(np.array(["ab", "cb"], object))
    assert feature_names(vocabulary, range(matrix.shape[1])) == ["a", "b", "c", "ab", "cb"]


def test_parameters_that_do_not_fit():
    with pytest.raises(ValueError, match="at most k mismatches"):
        mk.Mismatch(2, 3)
    with pytest.raises(TypeError, match=r"alphabet=.*reads strings, got int"):
        mk.Mismatch(2, 1, alphabet=4)
    with pytest.raises(ValueError, match="no length is between them"):
        mk.AllSubstrings(shortest=3, longest=2)
    for decay in (0.0, 1.5, -1.0):
        with pytest.raises(ValueError, match="decay"):
            mk.GappySubsequence(2, decay)
    with pytest.raises(ValueError, match=r"equal length, got 2 and 3; cut or align"):
        mk.WeightedDegree()(["ab", "abc"])
    with pytest.raises(TypeError, match="rows of one kind, got bytes and str"):
        mk.Mismatch(2, 1)(["ab", b"ab"])
    letters = "".join(map(chr, range(33, 120)))
    with pytest.raises(ValueError, match="take a smaller m or k, or GappedKmer"):
        mk.Mismatch(8, 4, alphabet=letters)(["abcdefghij"])


@linux
def test_a_million_letters_stay_within_memory():
    """Bytes for each letter of a pair of strings; the worst string for suffixes is that of a single letter."""
    out = run("""
        import numpy as np
        from fresh import measured
        from mercer.kernels import AllSubstrings, Spectrum
        AllSubstrings()(["ab"], ["ba"]), Spectrum(2)(["ab"])  # compiled and imported
        rng, n = np.random.default_rng(0), 10**6
        dna = [rng.integers(97, 101, n, dtype=np.uint8).tobytes().decode() for _ in range(2)]
        for kernel, (x, y) in ((AllSubstrings(), dna), (AllSubstrings(), ["a" * n, "a" * (n - 1)]), (Spectrum(12), dna)):
            print(measured(lambda: kernel([x], [y])) / (2 * n))
    """)
    random, repeated, spectrum = map(float, out.split())
    assert 10 < random < 45
    assert 10 < repeated < 60
    assert 10 < spectrum < 100

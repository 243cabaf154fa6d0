"""Kernels on documents: counts and TF-IDF by hand and by scikit-learn."""

import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from cases import close
from mercer import SVC
from mercer import kernels as mk

TEXTS = ["the cat sat on the mat", "The dog sat", "a bird", "", "cat and dog, dog and cat"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lowercase": False},
        {"ngram_range": (1, 2)},
        {"stop_words": "english"},
        {"stop_words": ["the", "and"]},
        {"analyzer": "char_wb", "ngram_range": (2, 3)},
        {"token_pattern": r"(?u)\b\w\w+\b"},
    ],
    ids=str,
)
def test_counts_are_those_of_scikit_learn(options):
    settings = {"token_pattern": r"(?u)\b\w+\b", **options}
    if settings.get("analyzer") == "char_wb":
        settings.pop("token_pattern")
    C = CountVectorizer(**settings).fit_transform(TEXTS).toarray()
    close(mk.BagOfWords(**options)(TEXTS), C @ C.T, 0.0)
    close(mk.BagOfWords(**options).normalise()(TEXTS), cosine_similarity(C), 1e-15)


def test_bag_of_words_is_s3_on_words_between_blanks():
    """Substrings that are one word with its blanks, of texts padded with blanks: weight 1; all others 0."""
    X = ["to be or not to be", "be to", "or"]

    def blanked(x):
        return " " + x.replace(" ", "  ") + " "

    def value(x, y):
        found = [re.findall(r"(?= ([a-z]+) )", blanked(s)) for s in (x, y)]
        return sum(a == b for a in found[0] for b in found[1])

    close(mk.BagOfWords()(X), [[value(x, y) for y in X] for x in X], 0.0)


def test_no_shared_word_is_0():
    close(mk.BagOfWords().normalise()(["red blue"], ["green", ""]), [[0.0, 0.0]], 0.0)


# ---------------------------------------------------------------------------------------------- TF-IDF
THREE = ["a a b", "a c", "a d"]


def vectors(idf):
    """Rows log(1 + count) idf over a, b, c, d."""
    counts = np.array([[2, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]])
    return np.log1p(counts) * idf


def cosines(V):
    norms = np.sqrt((V**2).sum(axis=1))
    return V @ V.T / np.outer(norms, norms)


def test_three_documents_by_hand():
    """df = 3, 1, 1, 1 of N = 3: as catalogued the word in every document has idf log(3/4) < 0, the others log(3/2)."""
    plain = np.log([3 / 4, 3 / 2, 3 / 2, 3 / 2])
    smooth = np.log([4 / 4, 4 / 2, 4 / 2, 4 / 2]) + 1
    close(mk.TfIdf(smooth=False, cosine=False)(THREE), vectors(plain) @ vectors(plain).T, 1e-15)
    close(mk.TfIdf(smooth=False)(THREE), cosines(vectors(plain)), 1e-15)
    close(mk.TfIdf()(THREE), cosines(vectors(smooth)), 1e-15)
    value = np.log(2) * np.log(3) * np.log(3 / 4) ** 2  # <x1, x2> has the word a alone
    assert mk.TfIdf(smooth=False, cosine=False)(THREE)[0, 1] == pytest.approx(value, rel=1e-14)


def test_a_word_in_all_documents_but_one_counts_for_nothing_as_catalogued():
    X = ["a b", "a c", "d"]
    assert mk.TfIdf(smooth=False)(X)[0, 1] == 0.0
    assert mk.TfIdf()(X)[0, 1] > 0.1
    close(mk.TfIdf(smooth=False)(["x y", "x", ""])[2], np.zeros(3), 0.0)  # all-zero document


def test_documents_of_zero_length():
    """A document whose words all have idf 0, or that has none, has k = 0 with all others, itself included (K7)."""
    K = mk.TfIdf(smooth=False)(["a", "a", "b"])  # idf of a: log(3/3)
    close(K, np.diag([0.0, 0.0, 1.0]), 1e-15)


def test_new_words_count_in_the_norm():
    k = mk.TfIdf().resolve(THREE)
    new = np.log(2) * (np.log(4 / 1) + 1)
    a = np.log(2) * 1.0
    x = vectors(np.log([1, 2, 2, 2]) + 1)[1]
    close(k(["a zebra"], [THREE[1]]), [[a * x[0] / (np.hypot(a, new) * np.linalg.norm(x))]], 1e-15)
    close(k(["zebra zebra", "lion"]), np.eye(2), 1e-15)
    close(k.diag(["zebra", ""]), [1.0, 0.0], 1e-15)


def test_constants_come_from_resolve_and_weights_are_repetitions():
    weighted = mk.TfIdf().resolve(THREE, sample_weight=[2.0, 1.0, 3.0])
    repeated = mk.TfIdf().resolve([THREE[0]] * 2 + [THREE[1]] + [THREE[2]] * 3)
    assert weighted == repeated
    assert weighted.resolve(["other words"]) == weighted
    close(weighted(THREE), repeated(THREE), 0.0)
    assert weighted != mk.TfIdf().resolve(THREE)


def test_rows_of_other_kinds():
    tokens = [t.split() for t in ["the cat", "the dog"]]
    close(mk.BagOfWords()(tokens), mk.BagOfWords()(["the cat", "the dog"]), 0.0)
    close(mk.BagOfWords(ngram_range=(1, 2))(tokens), mk.BagOfWords(ngram_range=(1, 2))(["the cat", "the dog"]), 0.0)
    close(mk.BagOfWords()([b"the cat", b"the dog"]), mk.BagOfWords()(["the cat", "the dog"]), 0.0)
    for kernel in (mk.BagOfWords(), mk.TfIdf()):
        for bad in (None, 3.5, np.nan):
            with pytest.raises(TypeError, match=rf"row 1: {type(kernel).__name__} reads documents, got"):
                kernel(["a", bad])


def test_bad_settings_are_refused_at_once():
    with pytest.raises(ValueError, match="BagOfWords"):
        mk.BagOfWords(analyzer="letters")
    with pytest.raises(ValueError, match="TfIdf"):
        mk.TfIdf(ngram_range=(3, 1))
    with pytest.raises(ValueError, match="BagOfWords"):
        mk.BagOfWords(stop_words="klingon")


def test_a_list_of_stop_words_is_copied():
    stop = ["the"]
    kernel = mk.BagOfWords(stop_words=stop)
    stop.append("cat")
    assert kernel.stop_words == ["the"]
    close(kernel(["the cat"]), [[1.0]], 0.0)


def test_learned_constants_come_together():
    with pytest.raises(ValueError, match="learned together by resolve"):
        mk.TfIdf(n_documents=3.0)
    k = mk.TfIdf().resolve(THREE)
    with pytest.raises(ValueError, match="as many frequencies"):
        k.replace(frequencies=None)
    with pytest.raises(ValueError, match="as many frequencies"):
        k.replace(n_documents=2.0)
    assert mk.TfIdf().resolve(THREE, sample_weight=[0.1, 0.2, 0.7]).n_documents == pytest.approx(1.0)


# ---------------------------------------------------------------------------------------------- counted once
def test_documents_are_taken_apart_once_for_a_gram(monkeypatch):
    count, seen = mk.TfIdf._counted, []
    monkeypatch.setattr(mk.TfIdf, "_counted", lambda self, objects: seen.append(list(objects)) or count(self, objects))
    K = mk.TfIdf()(TEXTS)
    assert seen == [TEXTS]
    k = mk.TfIdf().resolve(TEXTS)
    for _ in range(2):
        close(k(TEXTS), K, 0.0)
    assert seen == [TEXTS] * 3  # what is kept, is kept for the first use


def test_what_was_counted_is_not_taken_for_other_documents():
    k = mk.TfIdf().resolve(THREE)
    close(k(THREE[::-1]), mk.TfIdf()(THREE)[::-1, ::-1], 1e-15)
    k = mk.TfIdf(lowercase=False).resolve(["A b", "a b", "c"])
    other = k.replace(lowercase=True)
    k = mk.TfIdf(lowercase=False).resolve(texts := ["A b", "a b", "c"])
    assert abs(other(texts)[0, 1] - 1.0) < 1e-15
    tokens = [["a", "b"], ["a", "c"], ["d"]]
    k = mk.TfIdf().resolve(tokens)
    tokens[0][0] = "z"  # a list may change after it was counted
    assert k(tokens)[0, 1] == 0.0


def test_the_plan_counts_the_words_that_are_there():
    rng = np.random.default_rng(0)
    few = mk.BagOfWords().gram([" ".join(map(str, rng.integers(0, 10**6, 5))) for _ in range(300)])
    long = mk.BagOfWords().gram([" ".join(map(str, rng.integers(0, 20, 300))) for _ in range(300)])
    assert few.plan.width > 1000 > long.plan.width
    assert few.plan.seconds < long.plan.seconds


def test_counts_of_one_document():
    assert mk.BagOfWords().counts("To be, to see") == {"to": 2.0, "be": 1.0, "see": 1.0}


def test_in_a_machine_words_are_those_of_the_training_rows():
    X = ["buy cheap pills", "cheap watches buy", "see you tomorrow", "tomorrow at noon you"]
    model = SVC(kernel=mk.TfIdf()).fit(X, [1, 1, 0, 0])
    assert model.predict(["cheap stuff", "you at home"]).tolist() == [1, 0]
    assert model.kernel_.n_documents == 4

"""Strings and documents at full size: accuracies by nested cross-validation, printed and held to what is published."""

import gzip

import numpy as np
import pytest
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    cross_val_predict,
    cross_val_score,
)

from mercer import SVC
from mercer.kernels import GappedKmer, Spectrum, TfIdf, WeightedDegree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

REPEATS = 5


def load(home, name):
    """(strings, labels) of a file of `label<TAB>text` lines."""
    with gzip.open(home / f"{name}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file]
    return np.array([text for _, text in pairs], object), np.array([label for label, _ in pairs])


def pooled(home, name):
    """All rows of a data set that comes with test rows of its own."""
    parts = [load(home, f"{name}_{part}") for part in ("train", "test")]
    return tuple(np.concatenate(side) for side in zip(*parts, strict=True))


def folds(n, seed):
    return StratifiedKFold(n, shuffle=True, random_state=seed)


def told(name, scores, aim):
    print(f"{name}: mean {np.mean(scores):.4f} of {np.round(scores, 4).tolist()}, aim {aim}")
    return np.mean(scores)


def nested(kernel, grid, X, y, seed, inner=3, **settings):
    """Predictions of all rows, each by a machine that has not seen it: five folds, in each of which the parameters are chosen
    by inner folds of the training part. What a kernel learns, it learns from the rows that its machine is fitted on."""
    search = GridSearchCV(SVC(kernel=kernel), grid, cv=folds(inner, seed), **settings)
    return cross_val_predict(search, X, y, cv=folds(5, 100 + seed))


@pytest.mark.parametrize(
    ("kernel", "grid"),
    [
        (WeightedDegree(), {"kernel__degree": [1, 2, 3, 4], "C": [0.1, 1.0, 10.0]}),
        (GappedKmer(4, 2).normalise(), {"C": [1.0, 10.0]}),
    ],
    ids=["letters at their places", "gapped k-mers"],
)
def test_promoters(data_home, kernel, grid):
    X, y = load(data_home, "promoters")
    scores = []
    for seed in range(REPEATS):
        search = GridSearchCV(SVC(kernel=kernel), grid, cv=folds(3, seed))
        scores.append(cross_val_score(search, X, y, cv=folds(10, 100 + seed)).mean())
    assert told(f"promoters, {kernel!r}", scores, 0.92) >= 0.92


def test_protein_family(data_home):
    X, y = load(data_home, "protein_family_train")
    T, truth = load(data_home, "protein_family_test")
    grid = {"kernel__spectrum__k": [2, 3, 4], "C": [1.0, 10.0, 100.0]}
    scores = [
        GridSearchCV(SVC(kernel=Spectrum().normalise()), grid, cv=folds(5, seed)).fit(X, y).score(T, truth)
        for seed in range(REPEATS)
    ]
    assert told("protein family, its own test strings", scores, 0.975) >= 0.975


def test_protein_family_nested(data_home):
    X, y = pooled(data_home, "protein_family")
    grid = {"kernel__spectrum__k": [2, 3, 4], "C": [1.0, 10.0, 100.0]}
    scores = [np.mean(nested(Spectrum().normalise(), grid, X, y, seed) == y) for seed in range(REPEATS)]
    assert told("protein family, nested", scores, 0.975) >= 0.975


def test_sms_spam_nested(data_home):
    X, y = load(data_home, "sms_spam")
    kernel, f1 = TfIdf(analyzer="char_wb", ngram_range=(2, 4)), make_scorer(f1_score, pos_label="spam")
    predicted = [nested(kernel, {"C": [1.0, 10.0]}, X, y, seed, scoring=f1) for seed in range(REPEATS)]
    scores = [f1_score(y, p, pos_label="spam") for p in predicted]
    assert told("SMS spam, F1, nested", scores, 0.95) >= 0.95


def test_reuters_nested(data_home):
    X, y = pooled(data_home, "reuters_r8")
    grid = {"C": [1.0, 10.0], "multi_class": ["ovo", "ovr"]}
    scores = [np.mean(nested(TfIdf(), grid, X, y, seed, inner=2) == y) for seed in range(REPEATS)]
    assert told("Reuters R8, nested", scores, 0.97) >= 0.97


def test_sms_spam(data_home):
    X, y = load(data_home, "sms_spam")
    kernel = TfIdf(analyzer="char_wb", ngram_range=(2, 4))
    scores = []
    for train, test in StratifiedShuffleSplit(REPEATS, test_size=0.2, random_state=0).split(X, y):
        search = GridSearchCV(SVC(kernel=kernel), {"C": [1.0, 10.0]}, cv=folds(2, 0)).fit(X[train], y[train])
        scores.append(f1_score(y[test], search.predict(X[test]), pos_label="spam"))
    assert told("SMS spam, F1", scores, 0.95) >= 0.95


def test_reuters(data_home):
    X, y = load(data_home, "reuters_r8_train")
    T, truth = load(data_home, "reuters_r8_test")
    scores = []
    for seed in range(REPEATS):
        search = GridSearchCV(SVC(kernel=TfIdf(), multi_class="ovr"), {"C": [1.0, 10.0]}, cv=folds(2, seed)).fit(X, y)
        scores.append(search.score(T, truth))
    assert told("Reuters R8, its own test documents", scores, 0.97) >= 0.97

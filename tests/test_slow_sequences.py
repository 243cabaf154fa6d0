"""Kernels of sequences on real series: accuracy by nested cross-validation, five repeats of five folds each."""

import itertools

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from mercer import SVC
from mercer.kernels import GlobalAlignment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def load(data_home, name):
    """All series and labels of a file, and how many of them are its training rows."""
    with np.load(data_home / name) as file:
        if "X_train" in file:
            parts = [(file[f"X_{p}"].astype(float), file[f"y_{p}"]) for p in ("train", "test")]
        else:
            parts = [(_cut(file[f"values_{p}"], file[f"lengths_{p}"]), file[f"y_{p}"]) for p in ("train", "test")]
    X = [x.T if x.ndim == 2 and name.startswith("ts_") else x for part, _ in parts for x in part]
    return X, np.concatenate([y for _, y in parts]), len(parts[0][1])


def _cut(values, lengths):
    return np.split(values.astype(float), np.cumsum(lengths)[:-1])


def search(grams, y, rows, Cs):
    """The best Gram and machine of inner cross-validation on some rows."""
    best = None
    for K in grams:
        machine = GridSearchCV(
            SVC(kernel="precomputed"), {"C": Cs}, cv=StratifiedKFold(3, shuffle=True, random_state=0)
        )
        machine.fit(K[np.ix_(rows, rows)], y[rows])
        if best is None or machine.best_score_ > best[1].best_score_:
            best = K, machine
    return best


def nested(kernels, X, y, Cs=(1.0, 10.0)):
    """Accuracies of five repeats. Lengthscales are given, so that no Gram knows anything of the rows left out."""
    grams, repeats = [k(X) for k in kernels], []
    for seed in range(5):
        right = 0
        for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y):
            K, machine = search(grams, y, train, Cs)
            right += (machine.predict(K[np.ix_(test, train)]) == y[test]).sum()
        repeats.append(right / len(y))
    return np.array(repeats)


def report(name, kernels, scores):
    kinds = " or ".join(dict.fromkeys(type(k).__name__ for k in kernels))
    print(f"\n{name}, {kinds}: {scores.mean():.4f} ({' '.join(f'{s:.4f}' for s in scores)})")


def alignments(lengthscales, triangulars=(0,)):
    return [GlobalAlignment(*pair) for pair in itertools.product(lengthscales, triangulars)]


@pytest.mark.parametrize(
    ("name", "kernels", "least"),
    [
        ("ts_gunpoint.npz", alignments((1.0, 3.0, 10.0)), 0.97),
        ("seq_japanese_vowels.npz", alignments((3.0, 6.0, 12.0)), 0.97),
        ("ts_basicmotions.npz", alignments((50.0, 100.0, 200.0)), 0.9),
        ("ts_arrowhead.npz", alignments((3.0, 10.0), (25,)), 0.75),
    ],
)
def test_alignments(data_home, name, kernels, least):
    X, y, _ = load(data_home, name)
    scores = nested(kernels, X, y)
    report(name, kernels, scores)
    assert scores.mean() >= least

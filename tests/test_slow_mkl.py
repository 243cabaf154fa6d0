"""Multiple kernel learning at full size: weights of noise, and accuracies against the best single kernel, printed."""

import gzip

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

from mercer import SVC, MKLClassifier, MKLRegressor
from mercer.kernels import RBF, Spectrum

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PAIRS = [RBF().on(2 * j, 2 * j + 1) for j in range(51)]  # the first is told something, fifty are noise
STRINGS = {f"k{k}": Spectrum(k).normalise() for k in range(1, 7)}
PRICES = [1.0, 10.0]


def noise(seed, n=300):
    return np.random.default_rng(seed).standard_normal((n, 102))


def rings(seed):
    X = noise(seed)
    return X, np.hypot(X[:, 0], X[:, 1]) > 1.18


def clouds(seed):
    X, y = noise(seed), np.where(np.arange(300) % 2, 1, -1)
    X[:, :2] += 1.5 * y[:, None]
    return X, y


def waves(seed):
    X = noise(seed)
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.mark.parametrize(
    ("data", "model"),
    [
        (rings, MKLClassifier(PAIRS, method="simple", C=0.1)),
        (clouds, MKLClassifier(PAIRS, method="simple", C=0.1)),
        (clouds, MKLClassifier(PAIRS, method="alignment")),
        (waves, MKLRegressor(PAIRS, method="simple")),
    ],
    ids=["rings, simple", "clouds, simple", "clouds, alignment", "waves, simple"],
)
def test_one_informative_kernel_among_fifty_of_noise(data, model):
    for seed in range(5):
        model.fit(*data(seed))
        print(f"{data.__name__}, {model.method}, seed {seed}: weight {model.weights_[0]:.4f}, {(model.weights_ > 0).sum()} used, "
              f"score {model.score_:.3f}, uniform average {model.uniform_score_:.3f}")  # fmt: skip
        assert model.weights_[0] > 0.9
        assert model.score_ > model.uniform_score_


def load(home, name):
    """(strings, labels) of a file of `label<TAB>text` lines."""
    with gzip.open(home / f"{name}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file]
    return np.array([text for _, text in pairs], object), np.array([label for label, _ in pairs])


def folds(n, seed):
    return StratifiedKFold(n, shuffle=True, random_state=seed)


def compared(X, y, outer, repeats, methods):
    """Mean accuracies of the best single kernel and of learned sums; kernel and C by the same inner folds."""
    found: dict = {"best single kernel": []}
    for seed in range(repeats):
        inner = folds(3, seed)
        single = GridSearchCV(SVC(), {"kernel": list(STRINGS.values()), "C": PRICES}, cv=inner)
        searches = {m: GridSearchCV(MKLClassifier(STRINGS, method=m, cv=2), {"C": PRICES}, cv=inner) for m in methods}
        for name, search in {"best single kernel": single, **searches}.items():
            scores = cross_val_score(search, X, y, cv=folds(outer, 100 + seed))
            found.setdefault(name, []).append(scores.mean())
    for name, scores in found.items():
        print(f"{name}: mean {np.mean(scores):.4f} of {np.round(scores, 4).tolist()}")
    return {name: np.mean(scores) for name, scores in found.items()}


def test_promoters(data_home):
    found = compared(*load(data_home, "promoters"), 10, 3, ["easy", "simple"])
    assert min(found["easy"], found["simple"]) >= found["best single kernel"]


def test_protein_family(data_home):
    X, y = load(data_home, "protein_family_train")
    found = compared(X, y, 5, 2, ["easy", "simple"])
    assert min(found["easy"], found["simple"]) >= found["best single kernel"]

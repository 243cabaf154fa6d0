"""Fisher kernels of hidden Markov models on speech: accuracy on the test split, chosen on the training rows alone."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from mercer import SVC
from mercer.kernels import Fisher, HiddenMarkov

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def sequences(file, part):
    cuts = np.cumsum(file[f"lengths_{part}"])[:-1]
    rows = np.empty(len(cuts) + 1, dtype=object)
    for i, values in enumerate(np.split(file[f"values_{part}"].astype(np.float64), cuts)):
        rows[i] = values
    return rows


def test_japanese_vowels(data_home):
    with np.load(data_home / "seq_japanese_vowels.npz") as file:
        X, T = sequences(file, "train"), sequences(file, "test")
        y, t = file["y_train"], file["y_test"]
    kernels = [Fisher(HiddenMarkov(n), "diagonal").normalise() for n in (2, 3)]
    grid = {"kernel": kernels, "C": [1.0, 10.0]}
    model = GridSearchCV(SVC(), grid, cv=StratifiedKFold(3, shuffle=True, random_state=0)).fit(X, y)
    accuracy = model.score(T, t)
    print(f"japanese vowels, {model.best_params_}: {accuracy:.4f} of the {len(t)} test sequences")
    assert accuracy >= 0.97

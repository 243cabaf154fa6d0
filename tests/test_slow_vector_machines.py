"""Duality gaps of the vector machines on real data, over widths and penalties."""

import time

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from mercer import L1VMClassifier, L1VMRegressor, L2VMClassifier, L2VMRegressor
from mercer.kernels import RBF

pytestmark = pytest.mark.slow

CLASSES = (
    "ripley_synth",
    "diabetes_pima",
    "heart",
    "ionosphere",
    "german",
    "crabs",
    "fourclass",
    "vehicle",
    "oil_flow",
    "spambase",
    "svmguide1",
    "ijcnn1",
    "mushroom",
    "shuttle",
    "covtype_15k",
    "letter",
    "mnist",
    "ts_gunpoint",
    "ts_arrowhead",
    "ts_basicmotions",
)
NUMBERS = (
    "boston_housing",
    "concrete",
    "energy_heating",
    "mcycle",
    "wine_red",
    "abalone",
    "california_housing",
    "kin8nm",
    "tecator",
    "co2_mauna_loa",
    "geyser",
    "sinc",
)
ROWS = {
    "letter": 100,
    "mnist": 200,
    "covtype_15k": 200,
    "vehicle": 400,
    "oil_flow": 400,
    "shuttle": 400,
    "kin8nm": 2000,
}
WIDTHS, ALPHAS = (
    (0.5, 3.0),
    (1.0, 0.1, 0.01, 1e-3),
)  # of sqrt(columns); the wide one makes columns that are nearly equal
UNITS = {"california_housing": 1e5}  # of the targets: beside dollars none of these penalties on |w| is one at all


def load(data_home, name):
    """Scaled rows, those columns that vary, and targets; at most so many."""
    if name == "sinc":
        rng = np.random.default_rng(0)
        X = rng.uniform(-10, 10, (200, 1))
        return X / 6, np.sinc(X[:, 0] / np.pi) + 0.1 * rng.standard_normal(200)
    with np.load(data_home / f"{name}.npz", allow_pickle=False) as data:
        if name == "geyser":
            X, y = data["X"][:, :1], data["X"][:, 1]
        else:
            X, y = (data[k] for k in (("X", "y") if "X" in data else ("X_train", "y_train")))
    some = np.random.default_rng(0).permutation(len(y))[: ROWS.get(name, 600)]
    X, y = np.asarray(X, float).reshape(len(y), -1)[some], y[some]
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), y.astype(float) if name in NUMBERS else y


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CLASSES + NUMBERS)
def test_duality_gaps(data_home, name):
    X, y = load(data_home, name)
    for cls in (L1VMClassifier, L2VMClassifier) if name in CLASSES else (L1VMRegressor, L2VMRegressor):
        began, steps, worst, kept = time.process_time(), 0, 0.0, []
        for width in WIDTHS:
            for alpha in ALPHAS if len(y) < 1000 else ALPHAS[:3]:
                alpha *= UNITS.get(name, 1.0) if cls is L1VMRegressor else 1.0  # the squares of L2 are in squared units
                model = cls(alpha, kernel=RBF(width * np.sqrt(X.shape[1]))).fit(X, y)  # warnings are failures here
                steps, worst = steps + model.n_iter_, max(worst, model.dual_gap_)
                kept.append(len(model.support_))
        print(f"{name} n={len(y)} {cls.__name__}: worst gap {worst:.1e}, {min(kept)}-{max(kept)} vectors, {steps} steps, "
              f"{time.process_time() - began:.1f} s")  # fmt: skip
        assert worst < 1e-6

"""Vector machines on real data: duality gaps, errors beside support vector machines, and how many rows they keep."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from mercer import SVC, SVR, L1VMClassifier, L1VMRegressor, L2VMClassifier, L2VMRegressor
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
)
NUMBERS = ("boston_housing", "concrete", "energy_heating", "mcycle", "wine_red")
ROWS = 800


def load(data_home, name, rows=ROWS):
    """Scaled rows and targets, at most so many."""
    with np.load(data_home / f"{name}.npz", allow_pickle=False) as data:
        X, y = (data[k] for k in (("X", "y") if "X" in data else ("X_train", "y_train")))
    some = np.random.default_rng(0).permutation(len(y))[:rows]
    return StandardScaler().fit_transform(np.asarray(X, float).reshape(len(y), -1)[some]), y[some]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", CLASSES + NUMBERS)
def test_duality_gaps(data_home, name):
    X, y = load(data_home, name)
    machines = (L1VMClassifier, L2VMClassifier) if name in CLASSES else (L1VMRegressor, L2VMRegressor)
    for cls in machines:
        for alpha in (1.0, 0.1):
            model = cls(alpha, kernel=RBF(np.sqrt(X.shape[1]))).fit(X, y)
            print(f"{name} n={len(y)} {cls.__name__}({alpha:g}): gap {model.dual_gap_:.1e}, {len(model.support_)} vectors, "
                  f"{model.n_iter_} steps")  # fmt: skip
            assert model.dual_gap_ < 1e-6


@pytest.mark.timeout(600)
def test_ripley(data_home):
    with np.load(data_home / "ripley_synth.npz", allow_pickle=False) as data:
        X, y, T, truth = (data[k] for k in ("X_train", "y_train", "X_test", "y_test"))
    kernel = RBF(np.sqrt(1 / 8))  # gamma = 4
    svc = GridSearchCV(SVC(kernel=kernel), {"C": 10.0 ** np.arange(-2, 4)}, cv=5).fit(X, y).best_estimator_
    found = {"SVC": (1 - svc.score(T, truth), len(svc.support_))}
    for cls in (L1VMClassifier, L2VMClassifier):
        model = cls("cv", kernel=kernel, random_state=0).fit(X, y)
        found[cls.__name__] = (1 - model.score(T, truth), len(model.support_))
    print(found)
    assert all(error <= 1.2 * found["SVC"][0] for error, _ in found.values())
    assert found["L1VMClassifier"][1] < found["SVC"][1] < found["L2VMClassifier"][1]


@pytest.mark.timeout(600)
def test_sinc():
    errors, vectors = {}, {}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-10, 10, (100, 1))
        y = np.sinc(X[:, 0] / np.pi) + 0.1 * rng.standard_normal(100)
        T = np.linspace(-10, 10, 1000)[:, None]
        kernel = RBF(2.0)
        grid = {"C": 10.0 ** np.arange(-1, 3), "epsilon": [0.03, 0.1, 0.2]}
        models = {"SVR": GridSearchCV(SVR(kernel=kernel), grid, cv=5).fit(X, y).best_estimator_}
        for cls in (L1VMRegressor, L2VMRegressor):
            models[cls.__name__] = cls("cv", kernel=kernel, random_state=0).fit(X, y)
        for name, model in models.items():
            error = np.sqrt(np.mean((model.predict(T) - np.sinc(T[:, 0] / np.pi)) ** 2))
            errors.setdefault(name, []).append(error)
            vectors.setdefault(name, []).append(len(model.support_))
    mean, count = ({k: float(np.mean(v)) for k, v in table.items()} for table in (errors, vectors))
    print(mean, count)
    assert all(error <= 1.2 * mean["SVR"] for error in mean.values())
    assert count["L1VMRegressor"] < count["SVR"] < count["L2VMRegressor"]

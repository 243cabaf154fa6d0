"""Four kernel machines beside one another: errors nearly the same, vectors RVM < L1VM < SVM < L2VM."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from mercer import SVC, SVR, L1VMClassifier, L1VMRegressor, L2VMClassifier, L2VMRegressor, RVMClassifier, RVMRegressor
from mercer.kernels import RBF

pytestmark = pytest.mark.slow

ORDER = ("RVM", "L1VM", "SVM", "L2VM")


def check(title, errors, vectors):
    """Print the table; errors within a fifth of each other, and every machine on fewer vectors than the next."""
    print(title)
    for name in ORDER:
        print(f"  {name:5s} error {errors[name]:.4f}, {vectors[name]:.1f} vectors")
    assert max(errors.values()) <= 1.2 * min(errors.values())
    assert all(vectors[a] < vectors[b] for a, b in pairwise(ORDER))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("gamma", [2.0, 4.0])
def test_ripley(data_home, gamma):
    """Every penalty by five folds at the same width; the RVM has none."""
    with np.load(data_home / "ripley_synth.npz", allow_pickle=False) as data:
        X, y, T, truth = (data[k] for k in ("X_train", "y_train", "X_test", "y_test"))
    kernel = RBF(np.sqrt(1 / (2 * gamma)))
    machines = {
        "RVM": RVMClassifier(kernel=kernel),
        "L1VM": L1VMClassifier("cv", kernel=kernel, cv=5, random_state=0),
        "SVM": GridSearchCV(SVC(kernel=kernel), {"C": 10.0 ** np.arange(-2, 4, 0.5)}, cv=5),
        "L2VM": L2VMClassifier("cv", kernel=kernel, cv=5, random_state=0),
    }
    errors, vectors = {}, {}
    for name, machine in machines.items():
        model = machine.fit(X, y)
        errors[name] = 1 - model.score(T, truth)
        vectors[name] = getattr(model, "best_estimator_", model).expansion_.n_vectors
    check(f"Ripley, gamma={gamma:g}", errors, vectors)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("lengthscale", [2.0, 3.0])
def test_sinc(lengthscale):
    """Noise of 0.1, ten draws of 100 rows, errors against the function itself."""
    T = np.linspace(-10, 10, 1000)[:, None]
    kernel, truth = RBF(lengthscale), np.sinc(T[:, 0] / np.pi)
    grid = {"C": 10.0 ** np.arange(-1, 3, 0.5), "epsilon": [0.03, 0.1, 0.2]}
    found = {name: [] for name in ORDER}
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-10, 10, (100, 1))
        y = np.sinc(X[:, 0] / np.pi) + 0.1 * rng.standard_normal(100)
        machines = {
            "RVM": RVMRegressor(kernel=kernel),
            "L1VM": L1VMRegressor("cv", kernel=kernel, cv=5, random_state=0),
            "SVM": GridSearchCV(SVR(kernel=kernel), grid, cv=5),
            "L2VM": L2VMRegressor("cv", kernel=kernel, cv=5, random_state=0),
        }
        for name, machine in machines.items():
            model = machine.fit(X, y)
            error = np.sqrt(np.mean((model.predict(T) - truth) ** 2))
            found[name].append((error, getattr(model, "best_estimator_", model).expansion_.n_vectors))
    errors, vectors = ({name: float(np.mean([f[i] for f in found[name]])) for name in ORDER} for i in (0, 1))
    check(f"noisy sinc, lengthscale {lengthscale:g}", errors, vectors)

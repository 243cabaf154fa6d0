"""Accuracy on real data, as promised: ten 80/20 splits (seeds 0-9) as in the data folder's README."""

import numpy as np
import pytest

from mercer import SVC, KernelLogistic, KernelRidgeCV
from mercer.kernels import RBF

pytestmark = pytest.mark.slow


def splits(path, seeds):
    """Rows standardised on the training part; first int(0.8 n) rows of the seeded permutation train."""
    with np.load(path) as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    for seed in seeds:
        i = np.random.RandomState(seed).permutation(len(y))
        cut = int(0.8 * len(y))
        train, test = i[:cut], i[cut:]
        mean, size = X[train].mean(axis=0), X[train].std(axis=0)
        Z = (X - mean) / np.where(size > 0, size, 1.0)
        yield Z[train], y[train], Z[test], y[test]


def errors(kernel, path, seeds, **settings):
    """Root mean squared errors of a tuned ridge on the held-out rows."""
    found = []
    for X, y, T, t in splits(path, seeds):
        model = KernelRidgeCV(kernel=kernel, fit_intercept=True, tune="all", **settings).fit(X, y)
        found.append(float(np.sqrt(np.mean((model.predict(T) - t) ** 2))))
    print(f"\n{path.stem} {kernel!r}: RMSE {np.mean(found):.4f} +- {np.std(found):.4f} over {len(found)} splits")
    return found


@pytest.mark.timeout(900)
def test_concrete(data_home):
    path = data_home / "concrete.npz"
    shared = errors(RBF(2.0), path, range(10))
    own = errors(RBF([2.0] * 8), path, range(10))
    assert np.mean(shared) <= 5.4
    assert np.mean(own) < np.mean(shared)


@pytest.mark.timeout(900)
def test_kin8nm(data_home):
    assert np.mean(errors(RBF(2.0), data_home / "kin8nm.npz", range(10))) <= 0.076


def ijcnn1(path, n, m):
    """n random training rows and the first m of the test rows, standardised on the former."""
    with np.load(path / "ijcnn1.npz") as file:
        X, y, T, t = (file[name] for name in ("X_train", "y_train", "X_test", "y_test"))
    some = np.random.RandomState(0).permutation(len(y))[:n]
    mean, size = X[some].mean(axis=0), X[some].std(axis=0)
    return (X[some] - mean) / size, y[some], (T[:m] - mean) / size, t[:m]


def logistic(alpha, n_landmarks=1000):
    return KernelLogistic(alpha, kernel=RBF(2.0), n_landmarks=n_landmarks, random_state=0)


@pytest.mark.timeout(900)
def test_ijcnn1_by_logistic_regression(data_home):
    """Its alpha is chosen on a quarter of the training rows; C is that of the data folder's README."""
    X, y, T, t = ijcnn1(data_home, 10_000, 20_000)
    held = [(logistic(a).fit(X[:7500], y[:7500]).score(X[7500:], y[7500:]), a) for a in (1.0, 0.1, 0.01, 0.001)]
    model = logistic(max(held)[1]).fit(X, y)
    found, svc = model.score(T, t), SVC(C=10, kernel=RBF(2.0)).fit(X, y).score(T, t)
    print(f"\nijcnn1: logistic {found:.4f} with alpha={model.alpha} in {model.n_iter_} steps, SVC {svc:.4f}")
    assert model.converged_
    assert found > svc - 0.01


@pytest.mark.timeout(900)
def test_landmarks_cost_little_accuracy(data_home):
    X, y, T, t = ijcnn1(data_home, 3000, 20_000)
    few, exact = (logistic(0.01, count).fit(X, y).score(T, t) for count in (1000, None))
    print(f"\nijcnn1, 3000 rows: {few:.4f} on 1000 landmarks, {exact:.4f} on all")
    assert few > exact - 0.01

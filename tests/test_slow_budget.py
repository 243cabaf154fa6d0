"""Machines on a budget on real problems, beside the machines on all rows. Figures are printed; `-s` shows them."""

import time

import numpy as np
import pytest

from mercer import SVC, BudgetKernelClassifier, BudgetKernelRegressor, KernelRidge, compress
from mercer.kernels import RBF

pytestmark = pytest.mark.slow


def timed(model, X, y):
    start = time.monotonic()
    return model.fit(X, y), time.monotonic() - start


def test_ripley(data_home):
    with np.load(data_home / "ripley_synth.npz") as file:
        X, y, new, labels = (file[name] for name in ("X_train", "y_train", "X_test", "y_test"))
    full = SVC(C=1.0, kernel=RBF(0.35)).fit(X, y)
    errors = {}
    for loss in ("hinge", "logistic"):
        for k in (4, 50):
            model = BudgetKernelClassifier(k, loss=loss, alpha=1.0, kernel=RBF(0.35), random_state=0).fit(X, y)
            errors[loss, k] = 1 - model.score(new, labels)
    print(f"\nripley: {len(full.X_fit_)} vectors {1 - full.score(new, labels):.3f}; budgets {errors}")
    assert max(errors.values()) < 1 - full.score(new, labels) + 0.01


@pytest.mark.timeout(300)
def test_robot_arm(data_home):
    with np.load(data_home / "kin8nm.npz") as file:
        X, y = file["X"], file["y"]
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    test = np.arange(len(y)) % 5 == 0
    settings = {"alpha": 0.1, "kernel": RBF(3.0)}
    full, seconds = timed(KernelRidge(fit_intercept=True, **settings), X[~test], y[~test])
    error = {"all rows": (1 - full.score(X[test], y[test]), seconds)}
    for name, learn in (("k-means", False), ("learned", "auto")):
        model, seconds = timed(
            BudgetKernelRegressor(50, learn_vectors=learn, random_state=0, **settings), X[~test], y[~test]
        )
        error[name] = (1 - model.score(X[test], y[test]), seconds)
    print(f"\nkin8nm, share of variance left and seconds: {error}")
    assert error["learned"][0] < 0.5 * error["k-means"][0]
    assert error["learned"][0] < error["all rows"][0] + 0.1


@pytest.mark.timeout(900)
def test_digits(data_home):
    with np.load(data_home / "mnist.npz") as file:
        X, y = (file["X_train"][:10000] / 255).astype(np.float32), file["y_train"][:10000]
        new, labels = (file["X_test"] / 255).astype(np.float32), file["y_test"]
    few = [np.isin(a, (3, 8)) for a in (y, labels)]
    full = SVC(C=10, gamma=0.02).fit(X[few[0]], y[few[0]])
    model, seconds = timed(BudgetKernelClassifier(50, alpha=0.1, gamma=0.02, random_state=0), X[few[0]], y[few[0]])
    fixed = BudgetKernelClassifier(50, alpha=0.1, gamma=0.02, learn_vectors=False, random_state=0).fit(
        X[few[0]], y[few[0]]
    )
    scores = [m.score(new[few[1]], labels[few[1]]) for m in (full, fixed, model)]
    print(f"\n3 or 8: {len(full.X_fit_)} vectors {scores[0]:.4f}, 50 by k-means {scores[1]:.4f}")
    print(f"50 learned {scores[2]:.4f}, {seconds:.0f} s")
    assert scores[2] > scores[0] - 0.01
    assert scores[2] > scores[1]
    small = compress(full, 50, random_state=0, X=new[few[1]], y=labels[few[1]])
    print(f"the machine compressed: {small.compression_}")
    ten, seconds = timed(
        BudgetKernelClassifier(100, loss="logistic", alpha=0.1, gamma=0.02, max_iter=15, random_state=0), X, y
    )
    print(f"ten digits, 100 vectors: {ten.score(new, labels):.4f}, {seconds:.0f} s, {ten.n_iter_} epochs")
    assert ten.score(new, labels) > 0.94

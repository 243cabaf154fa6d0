"""How fast are support vector classifiers?"""

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import OURS, Contender, benchmark, compare

CACHE = 2000  # megabytes of kernel rows for everybody


@benchmark("C-SVC with a Gaussian kernel, float32, tol 1e-3, on five data sets, against scikit-learn and oneDAL")
def svm(small):
    for name, X, y, C, gamma in _problems(small):
        settings = {"C": C, "gamma": gamma, "cache_size": CACHE}
        yield compare(
            name,
            [
                Contender(OURS, lambda X=X, y=y, s=settings: _fit("mercer", X, y, s)),
                Contender("oneDAL", lambda X=X, y=y, s=settings: _fit("sklearnex.svm", X, y, s), "sklearnex", aim=1.3),
                Contender(
                    "scikit-learn",
                    lambda X=X, y=y, s=settings: _fit("sklearn.svm", X, y, s),
                    "sklearn",
                    rounds=2,
                    aim=6.0,
                ),
            ],
            error=lambda model, X=X, y=y: _disagreement(model, X, y),
            error_name="training error",
            sizes={"n": X.shape[0], "d": X.shape[1], "C": C, "gamma": gamma, "dtype": "float32"},
            small=small,
            notes=f"cache {CACHE} MB; " + "; ".join(_objectives(X, y, settings)),
        )


@benchmark("C-SVC on MNIST, 60,000 rows, ten classes, float32, C = 5, gamma = 0.02, against oneDAL")
def svm_digits(small):
    X, y, T, truth = _digits(small)
    settings = {"C": 5.0, "gamma": 0.02, "cache_size": CACHE}
    yield compare(
        "ten digits",
        [
            Contender(OURS, lambda: _fit("mercer", X, y, settings), rounds=2),
            Contender("oneDAL", lambda: _fit("sklearnex.svm", X, y, settings), "sklearnex", rounds=1, aim=1.0),
        ],
        error=lambda model: float(np.mean(model.predict(T) != truth)),
        error_name="test error",
        sizes={"n": len(X), "d": X.shape[1], "classes": len(np.unique(y)), "dtype": "float32", **settings},
        small=small,
        rounds=3,
        notes=f"cache {CACHE} MB",
    )


def _fit(module, X, y, settings):
    from importlib import import_module

    return import_module(module).SVC(**settings).fit(X, y)


def _disagreement(model, X, y):
    some = slice(0, 3000)
    return float(np.mean(model.predict(X[some]) != y[some]))


def _objectives(X, y, settings):
    """Dual value (two classes) and support vectors of each contender, all by one formula in float64."""
    for label, module in ((OURS, "mercer"), ("oneDAL", "sklearnex.svm"), ("scikit-learn", "sklearn.svm")):
        try:
            model = _fit(module, X, y, settings)
        except ImportError:
            continue
        words = f"{label}: {len(model.support_)} support vectors"
        if model.dual_coef_.shape[0] == 1:
            words += f", dual {_dual(model, settings['gamma']):.8g}"
        yield words


def _dual(model, gamma):
    from mercer.kernels import RBF

    V, beta = model.support_vectors_.astype(np.float64), np.ravel(_dense(model.dual_coef_))
    K = RBF(1 / np.sqrt(2 * gamma)).gram(V)
    return 0.5 * beta @ (K @ beta) - np.abs(beta).sum()


def _dense(a):
    return a.toarray() if sp.issparse(a) else a


# ------------------------------------------------------------------------------------------------ data
def _problems(small):
    home = os.environ.get("MERCER_DATA")
    if small or not home:
        if not small:
            raise FileNotFoundError("set MERCER_DATA to the folder with mnist.npz, ijcnn1.npz and others")
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 5)).astype(np.float32)
        yield "two classes", X, (X[:, 0] * X[:, 1] > 0).astype(int), 1.0, 0.2
        yield "three classes", X, np.digitize(X[:, 0], [-0.5, 0.5]), 1.0, 0.2
        return
    yield from (load(Path(home)) for load in (_mnist, _ijcnn1, _covtype, _a9a, _letter))


def _mnist(home):
    z = np.load(home / "mnist.npz")
    X = z["X_train"][:12_000].reshape(12_000, -1).astype(np.float32) / np.float32(255)
    return "MNIST even or odd, 12,000 rows", X, (z["y_train"][:12_000] % 2).astype(int), 10.0, 0.02


def _digits(small):
    """Rows and digits to learn from and to be tested on."""
    if small:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((200, 5)).astype(np.float32)
        y = np.digitize(X[:, 0], [-0.5, 0.5])
        return X, y, X, y
    z = np.load(Path(os.environ["MERCER_DATA"]) / "mnist.npz")
    X, T = (z[name].reshape(len(z[name]), -1).astype(np.float32) / np.float32(255) for name in ("X_train", "X_test"))
    return X, z["y_train"].astype(int), T, z["y_test"].astype(int)


def _ijcnn1(home):
    z = np.load(home / "ijcnn1.npz")
    return "ijcnn1, 30,000 rows", z["X_train"][:30_000].astype(np.float32), z["y_train"][:30_000].astype(int), 32.0, 2.0


def _covtype(home):
    z = np.load(home / "covtype_15k.npz")
    return "cover type 1 or 2 against the others", _scaled(z["X"]), (z["y"] <= 1).astype(int), 10.0, 0.05


def _a9a(home):
    z = np.load(home / "a9a.npz")
    parts = z["data_train"].astype(np.float32), z["indices_train"].astype(np.int32), z["indptr_train"].astype(np.int32)
    X = sp.csr_matrix(parts, shape=tuple(z["shape_train"]))
    return "a9a, sparse", X, z["y_train"].astype(int), 1.0, 1 / 123


def _letter(home):
    z = np.load(home / "letter.npz")
    return "letter, 26 classes", _scaled(z["X"]), z["y"].astype(int), 10.0, 1 / 16


def _scaled(X):
    X = X.astype(np.float64)
    return ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)).astype(np.float32)

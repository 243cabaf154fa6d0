"""How fast is the Gram matrix of one Gaussian kernel?"""

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.harness import OURS, Contender, benchmark, compare

AIMS = {20: 6.0, 100: 4.0, 784: 2.0}


@benchmark("Gaussian Gram matrix, float32, 10,000 x 10,000, against scikit-learn's rbf_kernel")
def gram_rbf(small):
    n = 100 if small else 10_000
    for d, aim in AIMS.items():
        X, Y = _rows(n, d, 0), _rows(n, d, 1)
        yield _compared(f"X with itself, d = {d}", X, None, aim, small)
        yield _compared(f"X with other rows, d = {d}", X, Y, None, small)


def _rows(n, d, seed):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def _compared(case, X, Y, aim, small):
    from sklearn.metrics.pairwise import rbf_kernel

    from mercer.kernels import RBF

    gamma = 1.0 / X.shape[1]
    k = RBF(lengthscale=(0.5 / gamma) ** 0.5)
    contenders = [
        Contender(OURS, lambda: k(X, Y)),
        Contender("scikit-learn rbf_kernel", lambda: rbf_kernel(X, Y, gamma=gamma), "sklearn", aim=aim),
    ]
    chosen = np.arange(0, len(X), max(len(X) // 100, 1))
    other = X if Y is None else Y
    exact = np.exp(-gamma * cdist(X[chosen].astype(float), other.astype(float), "sqeuclidean"))
    return compare(
        case,
        contenders,
        error=lambda K: np.abs(K[chosen] - exact).max(),
        error_name="largest error",
        sizes={"n": len(X), "m": len(other), "d": X.shape[1], "dtype": "float32"},
        notes="error on about 100 rows against float64 differences",
        small=small,
    )

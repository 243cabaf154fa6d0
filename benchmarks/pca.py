"""C5: how long do the first ten components of 8000 rows take?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

GAMMA, K = 0.05, 10


@benchmark("kernel PCA, the first 10 components, RBF, n = 8000, d = 20, float32 and float64, against scikit-learn")
def kernel_pca(small):
    n = 300 if small else 8000
    X = np.random.default_rng(0).standard_normal((n, 20))
    exact = _exact(X)
    for dtype in (np.float32, np.float64):
        yield _race(X.astype(dtype), exact, small)


def _exact(X):
    from scipy.linalg import eigh
    from sklearn.metrics.pairwise import rbf_kernel

    M = rbf_kernel(X, gamma=GAMMA)
    M -= M.mean(axis=0)
    M -= M.mean(axis=1, keepdims=True)
    return eigh((M + M.T) / 2, eigvals_only=True, subset_by_index=[len(M) - K, len(M) - 1])[::-1]


def _race(X, exact, small):
    from sklearn.decomposition import KernelPCA as Theirs

    from mercer import KernelPCA

    def theirs(solver):
        return Theirs(K, kernel="rbf", gamma=GAMMA, eigen_solver=solver, random_state=0).fit(X)

    return compare(
        f"top {K}, {X.dtype}",
        [
            Contender(OURS, lambda: KernelPCA(K, kernel="rbf", gamma=GAMMA, random_state=0).fit(X)),
            Contender("scikit-learn, arpack", lambda: theirs("arpack"), rounds=2, aim=5.0),
            Contender("scikit-learn, randomized", lambda: theirs("randomized"), rounds=3, aim=2.0),
        ],
        error=lambda model: float(np.abs(model.eigenvalues_ / exact - 1).max()),
        error_name="error of eigenvalues",
        sizes={"n": len(X), "d": X.shape[1], "components": K, "dtype": str(X.dtype)},
        small=small,
        rounds=5,
        notes="eigenvalues against a complete decomposition in float64",
    )

"""How fast is the Gram matrix of a composite kernel?"""

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.harness import OURS, Contender, benchmark, compare


@benchmark(
    "Gram matrix of 2*RBF() + Linear()**2 + Matern(1.5), float32, 5,000 x 5,000, against scikit-learn's GP kernels"
)
def gram_composite(small):
    from sklearn.gaussian_process import kernels as gp

    from mercer.kernels import RBF, Linear, Matern

    n, d = (200 if small else 5_000), 20
    X = np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)
    ours = 2 * RBF() + Linear() ** 2 + Matern(1.5)
    theirs = gp.ConstantKernel(2.0) * gp.RBF(1.0) + gp.DotProduct(sigma_0=0.0) ** 2 + gp.Matern(1.0, nu=1.5)
    chosen = np.arange(0, n, max(n // 100, 1))
    exact = _formula(X[chosen].astype(float), X.astype(float))
    yield compare(
        f"X with itself, d = {d}",
        [
            Contender(OURS, lambda: ours(X)),
            Contender("scikit-learn GP kernels", lambda: theirs(X), "sklearn", aim=20.0),
        ],
        error=lambda K: np.abs(K[chosen] - exact).max() / exact.max(),
        error_name="relative error",
        sizes={"n": n, "d": d, "dtype": "float32"},
        small=small,
        rounds=25,  # fractions of a second vary by a factor of two
        notes="largest error on about 100 rows over the largest entry; scikit-learn's distances are float64 whatever it is given",
    )


def _formula(X, Y):
    s = cdist(X, Y, "sqeuclidean")
    z = np.sqrt(3.0 * s)
    return 2 * np.exp(-0.5 * s) + (X @ Y.T) ** 2 + (1.0 + z) * np.exp(-z)

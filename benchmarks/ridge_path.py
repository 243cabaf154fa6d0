"""How fast is the choice among 30 penalties?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare
from benchmarks.ridge_data import GAMMA, LENGTHSCALE, D, problem


@benchmark("kernel ridge with the best of 30 penalties, float64, 8,000 rows, 20 columns, against cross-validated peers")
def ridge_path(small):
    n = 60 if small else 8_000
    alphas = np.logspace(-4, 2, 4 if small else 30)
    X, y, _ = problem(n)
    new, _, truth = problem(60 if small else 2_000, seed=1)
    yield compare(
        "fit and choose among 30 penalties",
        [
            Contender(OURS, lambda: _ours(X, y, alphas)),
            Contender("scikit-learn grid search", lambda: _sklearn(X, y, alphas), "sklearn", rounds=1, aim=9.0),
            Contender("himalaya KernelRidgeCV", lambda: _himalaya(X, y, alphas), "himalaya", rounds=1),
        ],
        error=lambda model: np.sqrt(np.mean((np.ravel(model.predict(new)) - truth) ** 2)),
        error_name="test RMSE",
        sizes={"n": n, "d": D, "alphas": len(alphas), "dtype": "float64"},
        small=small,
        notes="mercer: exact leave-one-out; peers: 5 folds, one process, one round. RMSE against the noiseless truth",
    )


def _ours(X, y, alphas):
    from mercer import KernelRidgeCV
    from mercer.kernels import RBF

    return KernelRidgeCV(alphas, kernel=RBF(LENGTHSCALE)).fit(X, y)


def _sklearn(X, y, alphas):
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    model = KernelRidge(kernel="rbf", gamma=GAMMA)
    return GridSearchCV(model, {"alpha": alphas}, cv=5, scoring="neg_mean_squared_error", n_jobs=None).fit(X, y)


def _himalaya(X, y, alphas):
    from himalaya.backend import set_backend
    from himalaya.kernel_ridge import KernelRidgeCV

    set_backend("numpy")
    return KernelRidgeCV(alphas, kernel="rbf", kernel_params={"gamma": GAMMA}, cv=5).fit(X, y)

"""How fast is relevance vector regression beside sklearn-rvm?"""

import warnings

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

NOTES = (
    "from the rows to predictions of 1000 others, the same Gaussian kernel, a constant and an estimated noise. Errors are RMSE "
    "against the function without noise. sklearn-rvm re-estimates all precisions at once, each time from a factorisation of a "
    "matrix of all basis functions that are left, until they rest by its own tolerance"
)


@benchmark("relevance vector regression (C10): 2000 rows in 5 columns")
def rvm(small):
    n = 150 if small else 2000
    rng = np.random.default_rng(0)
    X, Q = rng.uniform(-1, 1, (n, 5)), rng.uniform(-1, 1, (1000, 5))
    y = _function(X) + 0.1 * rng.standard_normal(n)
    truth = _function(Q)
    peer = {} if small else {"rounds": 1, "aim": 20.0}
    yield compare(
        f"fit and predict, n = {n}",
        [
            Contender(OURS, lambda: _ours(X, y, Q)),
            Contender("sklearn-rvm, EMRVR", lambda: _em(X, y, Q), needs="sklearn_rvm", **peer),
        ],
        error=lambda found: float(np.sqrt(np.mean((found - truth) ** 2))),
        error_name="RMSE",
        sizes={"n": n, "queries": len(Q), "d": 5, "gamma": 0.5},
        small=small,
        notes=NOTES,
        rounds=3,
    )


def _function(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3]


def _ours(X, y, Q):
    from mercer import RVMRegressor

    return RVMRegressor(gamma=0.5).fit(X, y).predict(Q)


def _em(X, y, Q):
    from sklearn_rvm import EMRVR

    with warnings.catch_warnings():  # it tells of matrices that are not positive definite, and goes on
        warnings.simplefilter("ignore")
        model = EMRVR(kernel="rbf", gamma=0.5)
        model.fit(X, y)  # returns nothing
        return model.predict(Q)

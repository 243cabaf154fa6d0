"""How fast are local constants and local lines among many rows, beside statsmodels and localreg?"""

import warnings

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

PART = 100  # one query in so many is asked of the peers
NOTES = (
    "all from the rows to the answers, with the same bandwidth. The peers pass over all rows for each query, one query after the "
    "other: they are timed on every {part}th query, and their seconds and ratio are what was measured times {part}. Errors are "
    "largest differences to least squares over all rows at these queries. localreg was written for NumPy 1: it is given the "
    "name that it misses and one number for each query; it drops rows of weight below 1e-10"
)


@benchmark("local lines and local constants (Nadaraya-Watson): 1e5 rows in 2 columns, 1e4 queries, Gaussian window")
def local_regression(small):
    n, m, part = (2000, 100, 10) if small else (100_000, 10_000, PART)
    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((n, 2)), rng.standard_normal((m, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)
    for degree, words in ((1, "local lines"), (0, "local constants")):
        yield _race(X, y, Q, degree, words, 0.1 if not small else 0.4, part, small)


def _race(X, y, Q, degree, words, h, part, small):
    few = Q[::part]
    exact = _least_squares(X, y, few, degree, h)

    def error(found):
        return float(np.abs((found[::part] if len(found) == len(Q) else found) - exact).max())

    peer = {"rounds": 1, "aim": 50.0} if not small else {}
    result = compare(
        f"{words}, n = {len(X)}, {len(Q)} queries, bandwidth {h}",
        [
            Contender(OURS, lambda: _ours(X, y, Q, degree, h)),
            Contender(
                "statsmodels, KernelReg", lambda: _statsmodels(X, y, few, degree, h), needs="statsmodels", **peer
            ),
            Contender("localreg", lambda: _localreg(X, y, few, degree, h), needs="localreg", **peer),
        ],
        error=error,
        error_name="largest error",
        sizes={"n": len(X), "queries": len(Q), "d": 2, "bandwidth": h, "queries asked of the peers": len(few)},
        small=small,
        notes=NOTES.format(part=part),
    )
    for row in result["rows"]:
        if row["name"] != OURS and "skipped" not in row:
            row.update({key: part * row[key] for key in ("seconds", "fastest", "slowest", "ratio")})
    return result


def _least_squares(X, y, Q, degree, h):
    out = np.empty(len(Q))
    for i, q in enumerate(Q):
        U = (X - q) / h
        s = (U**2).sum(axis=1)
        root = np.exp(-0.25 * (s - s.min()))[:, None]
        B = np.column_stack([np.ones(len(X)), U]) if degree else np.ones((len(X), 1))
        out[i] = np.linalg.lstsq(B * root, y * root[:, 0], rcond=None)[0][0]
    return out


def _ours(X, y, Q, degree, h):
    from mercer import LocalRegression, NadarayaWatson

    model = LocalRegression(1, h, kernel="gaussian") if degree else NadarayaWatson("gaussian", h)
    return model.fit(X, y).predict(Q)


def _statsmodels(X, y, Q, degree, h):
    from statsmodels.nonparametric.kernel_regression import KernelReg

    with warnings.catch_warnings():  # about seeds, which are not used
        warnings.simplefilter("ignore", FutureWarning)
        return KernelReg(y, X, "cc", reg_type="ll" if degree else "lc", bw=[h, h]).fit(Q)[0]


def _localreg(X, y, Q, degree, h):
    import importlib

    module, functions = importlib.import_module("localreg.localreg"), importlib.import_module("localreg.rbf")
    vars(np).setdefault("product", np.prod)  # its old name, which localreg still uses
    fit = module.polyfit
    module.polyfit = lambda *args, **settings: fit(*args, **settings)[0]
    try:
        return module.localreg(X, y, Q, degree=degree, kernel=functions.gaussian, radius=h)
    finally:
        module.polyfit = fit

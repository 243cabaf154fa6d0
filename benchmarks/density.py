"""How fast are kernel densities, beside binning with KDEpy and beside the trees of scikit-learn?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

LINE_NOTES = (
    "each makes its estimate from the points and evaluates it on its own 1024 places; the error is the largest difference to the "
    "direct sum at 100 of them. mercer chooses the step of its grid by its error and interpolates, KDEpy bins on the 1024 places"
)


@benchmark("Gaussian densities: 1e6 points on a line at 1024 places, and 1e5 queries among 1e5 points in 3 dimensions")
def density(small):
    yield _line(*((10_000, 128) if small else (1_000_000, 1024)), small)
    n = 2000 if small else 100_000
    yield _space(n, n ** (-1 / 7), "n^(-1/7)", 10.0, small)
    yield _space(n, n ** (-1 / 7) / 3.0, "n^(-1/7)/3", None, small)


# ------------------------------------------------------------------------------------------------ a line
def _line(n, num, small):
    x = np.random.default_rng(0).standard_normal(n)
    h = float(n**-0.2)
    chosen = np.random.default_rng(1).choice(num, 100, replace=False)
    top = _direct(np.linspace(-0.5, 0.5, 11)[:, None], x[:, None], h).max()

    def error(answer):
        places, found = answer
        return float(np.abs(found[chosen] - _direct(places[chosen, None], x[:, None], h)).max() / top)

    return compare(
        f"a line, {n} points, bandwidth n^(-1/5), {num} places",
        [
            Contender(OURS, lambda: _grid(x, h, num)),
            Contender("KDEpy, FFTKDE", lambda: _kdepy(x, h, num), needs="KDEpy", aim=1.0),
        ],
        error=error,
        error_name="largest error / largest density",
        sizes={"n": n, "places": num, "bandwidth": h},
        small=small,
        rounds=41,  # milliseconds vary
        notes=LINE_NOTES,
    )


def _grid(x, h, num):
    from mercer.solvers.parzen import parzen
    from mercer.solvers.windows import SHAPES

    places, density = parzen((x / h)[:, None], None, SHAPES["gaussian"], algorithm="fft").grid(num)
    return places[:, 0] * h, density / h


def _kdepy(x, h, num):
    from KDEpy import FFTKDE

    return FFTKDE(kernel="gaussian", bw=h).fit(x).evaluate(num)


# ------------------------------------------------------------------------------------------------ three dimensions
def _space(n, h, words, aim, small):
    rng = np.random.default_rng(0)
    X, Q = rng.standard_normal((n, 3)), rng.standard_normal((n, 3))
    chosen = np.random.default_rng(1).choice(n, min(n, 300), replace=False)
    exact = _direct(Q[chosen], X, h)
    rounds = {"rounds": 1} if not small else {}
    return compare(
        f"3 dimensions, {n} points and queries, bandwidth {words}, rtol 1e-4",
        [
            Contender(OURS, lambda: _tree(X, Q, h)),
            Contender("scikit-learn, KernelDensity", lambda: _sklearn(X, Q, h), aim=aim, **rounds),
        ],
        error=lambda logs: float(np.abs(np.exp(logs[chosen]) / exact - 1.0).max()),
        error_name="largest relative error",
        sizes={"n": n, "queries": n, "d": 3, "bandwidth": h, "rtol": 1e-4},
        small=small,
        notes=f"the error is that at {len(chosen)} of the queries, beside the direct sum",
    )


def _tree(X, Q, h):
    from mercer.solvers.parzen import parzen
    from mercer.solvers.windows import SHAPES

    return parzen(X / h, None, SHAPES["gaussian"]).log_density(Q / h, rtol=1e-4) - 3.0 * np.log(h)


def _sklearn(X, Q, h):
    from sklearn.neighbors import KernelDensity

    return KernelDensity(bandwidth=h, rtol=1e-4).fit(X).score_samples(Q)


def _direct(Q, X, h):
    """The density at few queries, in float64."""
    d = X.shape[1]
    sums = [np.exp(((X - q) ** 2).sum(axis=1) / (-2.0 * h * h)).mean() for q in Q]
    return np.array(sums) / (h * np.sqrt(2.0 * np.pi)) ** d

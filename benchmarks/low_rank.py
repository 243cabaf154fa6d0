"""How much faster is randomly pivoted Cholesky when pivots are proposed in blocks?"""

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

GAMMA = 0.05


@benchmark("randomly pivoted Cholesky, n = 1e5, d = 10, rank 500 and 1000: pivots in blocks against one at a time")
def low_rank(small):
    from mercer.kernels import RBF

    n, d, ranks = (2000, 4, (20,)) if small else (100_000, 10, (500, 1000))
    X = np.random.default_rng(0).standard_normal((n, d))
    K = RBF((2 * GAMMA) ** -0.5).gram(X)
    for rank in ranks:
        yield _race(K, rank, {"n": n, "d": d, "rank": rank, "gamma": GAMMA, "dtype": "float64"}, small)


def _race(K, rank, sizes, small):
    from mercer.linalg import rpcholesky, rpcholesky_simple

    return compare(
        f"rank {rank}",
        [
            Contender(OURS, lambda: rpcholesky(K, rank, rng=np.random.default_rng(0))),
            Contender(
                "one pivot at a time",
                lambda: rpcholesky_simple(K, rank, rng=np.random.default_rng(0)),
                rounds=2,
                aim=5.0,
            ),
        ],
        error=lambda found: found.error,
        error_name="share of the trace left",
        sizes=sizes,
        small=small,
        rounds=3,
        notes="both draw from one law, so the errors differ by chance alone",
    )

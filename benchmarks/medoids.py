"""How fast are k-medoids on a given matrix of distances, beside FasterPAM in Rust?"""

import warnings

import numpy as np

from benchmarks.harness import OURS, Contender, benchmark, compare

NOTES = (
    "the swaps alone and both peers start from the same random rows, the estimator from others; all end where no single swap "
    "helps. The estimator looks at the matrix first (finite, symmetric, not negative, equal rows); mercer swaps in one thread"
)


@benchmark("k-medoids on a given 10 000 x 10 000 matrix of distances, k = 100: FasterPAM against that in Rust")
def medoids(small):
    n, k = (300, 5) if small else (10_000, 100)
    D = _distances(n, 10)
    start = np.random.default_rng(1).choice(n, k, replace=False)
    for dtype in ("float32", "float64"):
        sizes = {"n": n, "k": k, "columns of the rows": 10, "dtype": dtype}
        yield _race(D.astype(dtype), start, sizes, small)


def _distances(n, d):
    """Gaussian kernel distances of normal rows, none of which is more than the square root of 2."""
    from mercer.kernels import RBF

    X = np.random.default_rng(0).standard_normal((n, d))
    D = RBF(d**0.5).distance(X)
    return np.maximum(D, D.T)


def _race(D, start, sizes, small):
    from mercer.solvers.medoids import solve_medoids

    k, rng = len(start), np.random.default_rng(0)
    return compare(
        f"{sizes['dtype']}, n = {len(D)}, k = {k}",
        [
            Contender(OURS, lambda: _estimator(D, k)),
            Contender("mercer, the swaps alone", lambda: solve_medoids(D, k, rng=rng, init=start).medoids),
            Contender("kmedoids (Rust), 1 thread", lambda: _rust(D, start, 1), needs="kmedoids", rounds=2, aim=1.0),
            Contender("kmedoids (Rust), all threads", lambda: _rust(D, start, -1), needs="kmedoids", rounds=2, aim=1.0),
        ],
        error=lambda medoids: float(D[medoids].min(axis=0).mean(dtype=np.float64)),
        error_name="mean distance to the medoid",
        sizes=sizes,
        small=small,
        notes=NOTES,
    )


def _estimator(D, k):
    from mercer import KMedoids

    return KMedoids(k, metric="precomputed", init="random", random_state=0).fit(D).medoid_indices_


def _rust(D, start, threads):
    import kmedoids

    with warnings.catch_warnings():  # it says that a seed is not used where the start is given
        warnings.simplefilter("ignore", UserWarning)
        return np.asarray(kmedoids.fasterpam(D, start.copy(), 100, n_cpu=threads).medoids, dtype=np.int64)

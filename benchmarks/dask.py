"""How much faster is a fit on landmarks with two workers of a Dask cluster than with one?"""

import time
from contextlib import contextmanager

from benchmarks.harness import SMALL_ROUNDS, benchmark, figures, installed

D, COUNTS, ROUNDS = 20, (1, 2), 3


@benchmark(
    "landmark fit on a Dask cluster of one and two worker processes with one thread each, 2,000,000 rows, 20 columns"
)
def dask_workers(small):
    if not installed("distributed"):
        return
    n, m = (20_000, 20) if small else (2_000_000, 1000)
    seconds, models = {count: [] for count in COUNTS}, {}
    for _ in range(SMALL_ROUNDS if small else ROUNDS):
        for count in COUNTS:
            with _client(
                count
            ) as client:  # alone on the machine: idle workers of another cluster take a tenth of a core
                _fit(client, n // 20, m)  # compiles
                start = time.perf_counter()
                models[count] = _fit(client, n, m)
                seconds[count].append(time.perf_counter() - start)
    one, two = (sorted(seconds[count])[len(seconds[count]) // 2] for count in COUNTS)
    apart = abs(models[1].dual_coef_ - models[2].dual_coef_).max()
    yield figures(
        "fit, look at the rows and all passes included",
        {"one worker": seconds[1], "two workers": seconds[2]},
        sizes={"n": n, "d": D, "landmarks": m, "passes": models[1].n_iter_ + 2, "dtype": "float64"},
        notes=f"two workers are {one / two:.2f} times as fast as one (aim: 1.6); coefficients differ by {apart:g}",
    )


@contextmanager
def _client(count):
    from distributed import Client, LocalCluster

    where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=count, threads_per_worker=1, **where) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _fit(client, n, m):
    import dask.array as da

    from mercer import KernelRidge
    from mercer.kernels import RBF

    X = da.random.default_rng(0).standard_normal((n, D), chunks=(50_000, D))
    model = KernelRidge(1.0, kernel=RBF(5.0), n_landmarks=m, landmarks="uniform", random_state=0, tol=1e-4)
    with client.as_current():
        return model.fit(X, da.sin(X[:, 0]) + X[:, 1])

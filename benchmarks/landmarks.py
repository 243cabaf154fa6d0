"""How fast is ridge regression on landmarks, and how does it grow?"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import OURS, ROOT, Contender, benchmark, compare, figures

ALPHA, GAMMA = 1.0, 0.05
LIMIT = 2 * 10**9  # bytes of address space, for mercer


def _mercer(X, y, M):
    from mercer import KernelRidge
    from mercer.kernels import RBF

    kernel = RBF((2 * GAMMA) ** -0.5)
    KernelRidge(ALPHA, kernel=kernel, n_landmarks=20, random_state=0).fit(X[:500], y[:500])  # loads compiled code
    start = time.perf_counter()
    model = KernelRidge(ALPHA, kernel=kernel, n_landmarks=M, random_state=0).fit(X, y)
    return model.predict, time.perf_counter() - start


def _chunked(X, y, M):
    """The same problem by scikit-learn's features and normal equations, so many rows at a time."""
    from scipy import linalg
    from sklearn.kernel_approximation import Nystroem

    start = time.perf_counter()
    nystroem = Nystroem(gamma=GAMMA, n_components=M, random_state=0).fit(X)
    A, b = np.zeros((M, M)), np.zeros(M)
    for i in range(0, len(X), 50_000):
        F = nystroem.transform(X[i : i + 50_000])
        A += F.T @ F
        b += F.T @ y[i : i + 50_000]
    A[np.diag_indices(M)] += ALPHA
    w = linalg.solve(A, b, assume_a="pos")
    return lambda T: nystroem.transform(T) @ w, time.perf_counter() - start


WORK = {OURS: _mercer, "chunked": _chunked}


def _fit(name, n, d, M):
    """Seconds of a fit, its error against the truth, and the peak of the process's address space."""
    if name == OURS and n >= 10**5:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    rng = np.random.default_rng(0)
    X, T = (rng.standard_normal((m, d), dtype=np.float32) for m in (n, 20_000))
    y = (_truth(X) + 0.3 * rng.standard_normal(n, dtype=np.float32)).astype(np.float32)
    predict, seconds = WORK[name](X, y, M)
    peak = int(Path("/proc/self/status").read_text().split("VmPeak:")[1].split()[0]) * 1024
    return {"seconds": seconds, "rmse": float(np.sqrt(np.mean((predict(T) - _truth(T)) ** 2))), "peak": peak}


def _truth(X):
    return np.sin(X).sum(axis=1) + X[:, 0] * X[:, 1] + 0.5 * np.cos(2 * X[:, 2])


def _fit_apart(name, n, d, M, small):
    """A fit in a process of its own, unless it is small."""
    if small:
        return _fit(name, n, d, M)
    command = [sys.executable, "-m", "benchmarks.landmarks", name, str(n), str(d), str(M)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


@benchmark("ridge on 2000 landmarks, n = 1e6, d = 10, float32, ours within 2 GB of address space, against scikit-learn")
def landmarks(small):
    n, d, M = (2000, 4, 30) if small else (1_000_000, 10, 2000)
    alone: dict[str, list[float]] = {}

    def contender(name, work, **options):
        def timed():
            found = _fit_apart(work, n, d, M, small)
            alone.setdefault(name, []).append(found["seconds"])
            return found

        return Contender(name, timed, **options)

    yield compare(
        "landmark ridge",
        [contender(OURS, OURS), contender("scikit-learn, chunked", "chunked", needs="sklearn", rounds=2, aim=3.0)],
        error=lambda found: found["rmse"],
        error_name="RMSE",
        sizes={"n": n, "d": d, "landmarks": M, "alpha": ALPHA, "gamma": GAMMA, "dtype": "float32"},
        small=small,
        rounds=3,
        notes="each in a process of its own: the seconds hold its start and the making of the data; the fits alone follow",
    )
    yield figures("landmark ridge, the fits alone", alone, sizes={"n": n, "d": d, "landmarks": M})


@benchmark("growth of ridge on 1000 landmarks with the number of rows")
def landmark_growth(small):
    d, M = 10, 30 if small else 1000
    sizes = (1000, 2000) if small else (10_000, 100_000, 1_000_000, 10_000_000)
    found = {f"n = {n:.0e}": _fit_apart(OURS, n, d, M, small) for n in sizes}
    notes = "; ".join(f"{k}: RMSE {r['rmse']:.4f}, address space {r['peak'] / 1e9:.2f} GB" for k, r in found.items())
    yield figures(
        "one fit each", {k: [r["seconds"]] for k, r in found.items()}, sizes={"d": d, "landmarks": M}, notes=notes
    )


if __name__ == "__main__":
    print(json.dumps(_fit(sys.argv[1], *map(int, sys.argv[2:5]))))

"""How fast is ridge regression on landmarks, and how does it grow?"""

import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.harness import OURS, ROOT, Contender, benchmark, compare, figures

ALPHA, GAMMA = 1.0, 0.05
LIMIT = 2 * 10**9  # bytes of address space, for mercer


def _mercer(X, y, M):
    """On the very landmarks that the peer draws: the same problem, so the same error."""
    return _ridge(X, y, M, X[np.random.RandomState(0).permutation(len(X))[:M]])


def _pivots(X, y, M):
    """On landmarks as mercer chooses them."""
    return _ridge(X, y, M, "rpcholesky")


def _ridge(X, y, M, landmarks):
    kernel = _ready(X, y)
    from mercer import KernelRidge

    start = time.perf_counter()
    model = KernelRidge(ALPHA, kernel=kernel, n_landmarks=M, landmarks=landmarks, random_state=0).fit(X, y)
    return model.predict, time.perf_counter() - start


def _ready(X, y):
    """The kernel, after a fit of few rows that loads compiled code."""
    from mercer import KernelRidge
    from mercer.kernels import RBF

    kernel = RBF((2 * GAMMA) ** -0.5)
    KernelRidge(ALPHA, kernel=kernel, n_landmarks=20, random_state=0).fit(X[:500], y[:500])
    return kernel


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


WORK = {OURS: _mercer, "pivots": _pivots, "chunked": _chunked}


def _fit(name, n, d, M):
    """Seconds of a fit, its error against the truth, and the peak of the process's address space."""
    if name != "chunked" and n >= 10**5:
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    rng = np.random.default_rng(0)
    X, y = _rows(rng, n, d)
    predict, seconds = WORK[name](X, y, M)
    return {"seconds": seconds, "rmse": _rmse(predict, rng, d), "peak": _status("VmPeak")}


def _rows(rng, n, d):
    X = rng.standard_normal((n, d), dtype=np.float32)
    return X, (_truth(X) + 0.3 * rng.standard_normal(n, dtype=np.float32)).astype(np.float32)


def _rmse(predict, rng, d):
    """Against the truth, without noise."""
    T = rng.standard_normal((20_000, d), dtype=np.float32)
    return float(np.sqrt(np.mean((predict(T) - _truth(T)) ** 2)))


def _status(name):
    """Bytes of this process under a name of the system's."""
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) * 1024


def _truth(X):
    return np.sin(X).sum(axis=1) + X[:, 0] * X[:, 1] + 0.5 * np.cos(2 * X[:, 2])


def _apart(what, n, d, M, small):
    """Work in a process of its own, unless it is small."""
    if small:
        return _work(what, n, d, M)
    command = [sys.executable, "-m", "benchmarks.landmarks", what, str(n), str(d), str(M)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def _work(what, n, d, M):
    return _fit_from_disk(n, d, M) if what == "disk" else _fit(what, n, d, M)


@benchmark("ridge on 2000 landmarks, n = 1e6, d = 10, float32, ours within 2 GB of address space, against scikit-learn")
def landmarks(small):
    n, d, M = (2000, 4, 30) if small else (1_000_000, 10, 2000)
    alone: dict[str, list[float]] = {}
    peaks: dict[str, int] = {}

    def contender(name, work, **options):
        def timed():
            found = _apart(work, n, d, M, small)
            alone.setdefault(name, []).append(found["seconds"])
            peaks[name] = found["peak"]
            return found

        return Contender(name, timed, **options)

    yield compare(
        "landmark ridge",
        [
            contender(OURS, OURS),
            contender("mercer, its own landmarks", "pivots", rounds=1),
            contender("scikit-learn, chunked", "chunked", needs="sklearn", rounds=2, aim=3.0),
        ],
        error=lambda found: found["rmse"],
        error_name="RMSE",
        sizes={"n": n, "d": d, "landmarks": M, "alpha": ALPHA, "gamma": GAMMA, "dtype": "float32"},
        small=small,
        rounds=3,
        notes="each in a process of its own: the seconds hold its start and the making of the data; the fits alone follow",
    )
    notes = "address space: " + ", ".join(f"{name} {peak / 1e9:.2f} GB" for name, peak in peaks.items())
    yield figures("landmark ridge, the fits alone", alone, sizes={"n": n, "d": d, "landmarks": M}, notes=notes)


# ------------------------------------------------------------------------------------------------ growth
@benchmark("growth of ridge on 1000 landmarks with the number of rows, d = 10, float32, read from a memory-mapped file")
def landmark_growth(small):
    d, M = 10, 30 if small else 1000
    sizes = (1000, 2000) if small else (10_000, 100_000, 1_000_000, 10_000_000)
    found = {n: _apart("disk", n, d, M, small) for n in sizes}
    per_row = [r["seconds"] / n for n, r in found.items()]
    notes = "; ".join(
        f"n = {n:.0e}: {r['passes']} passes, RMSE {r['rmse']:.4f}, anonymous memory {r['anonymous'] / 1e9:.2f} GB"
        for n, r in found.items()
    )
    yield figures(
        "one fit each",
        {f"n = {n:.0e}": [r["seconds"]] for n, r in found.items()},
        sizes={"d": d, "landmarks": M},
        notes=f"{notes}; the last against the one before: {per_row[-1] / per_row[-2]:.2f} of linear growth (aim: 1.3)",
    )


def _fit_from_disk(n, d, M):
    """Seconds of a fit on rows that lie in files, and the largest amount of memory that was not theirs."""
    from mercer import KernelRidge, streams

    rng = np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        X, y = _written(Path(folder), rng, n, d)
        kernel, watch = _ready(*_rows(rng, 500, d)), _Anonymous()
        start = time.perf_counter()
        model = KernelRidge(ALPHA, kernel=kernel, n_landmarks=M, random_state=0).fit(streams.from_npy(X, y))
        seconds = time.perf_counter() - start
        anonymous = watch.stop()
    return {
        "seconds": seconds,
        "passes": int(model.n_iter_) + 2,
        "rmse": _rmse(model.predict, rng, d),
        "anonymous": anonymous,
    }


def _written(folder, rng, n, d, some=10**6):
    """Paths of files with rows and targets, made some at a time."""
    paths = folder / "X.npy", folder / "y.npy"
    files = [
        np.lib.format.open_memmap(p, "w+", np.float32, shape) for p, shape in zip(paths, ((n, d), (n,)), strict=True)
    ]
    for i in range(0, n, some):
        for file, part in zip(files, _rows(rng, min(some, n - i), d), strict=True):
            file[i : i + some] = part
    return paths


class _Anonymous(threading.Thread):
    """Watches the memory of this process that belongs to no file."""

    def __init__(self):
        super().__init__(daemon=True)
        self._done, self._most = threading.Event(), 0
        self.start()

    def run(self):
        while not self._done.wait(0.02):
            self._most = max(self._most, _status("RssAnon"))

    def stop(self):
        self._done.set()
        self.join()
        return self._most


if __name__ == "__main__":
    print(json.dumps(_work(sys.argv[1], *map(int, sys.argv[2:5]))))

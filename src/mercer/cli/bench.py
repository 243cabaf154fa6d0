"""`mercer bench`: how fast this machine computes Gram matrices and fits; in a checkout also the benchmarks."""

import subprocess
import sys
import time
from pathlib import Path

from mercer.cli.arguments import whole
from mercer.cli.console import Console, Outcome, aligned
from mercer.errors import TableError

EXAMPLE = "mercer bench --rows 2000"


def arguments(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks of a checkout; none: a short measurement")
    parser.add_argument("--rows", type=whole, default=2000, metavar="N", help="of the short measurement (default 2000)")


def run(options, console: Console) -> Outcome:
    if options.names:
        return _benchmarks(options.names)
    rows = _measured(options.rows, options.seed)
    return Outcome(
        {"rows": options.rows, "seconds": dict(rows)}, aligned(rows, [f"{options.rows} rows, 10 columns", "seconds"])
    )


def _benchmarks(names):
    root = Path(__file__).parents[3]
    if not (root / "benchmarks" / "__main__.py").is_file():
        raise TableError("the benchmarks are in the repository, not in the installed package; run make bench there")
    done = subprocess.run([sys.executable, "-m", "benchmarks", *names], cwd=root, check=False)
    return Outcome({"benchmarks": names}, code=int(done.returncode != 0))


def _measured(n, seed):
    """Seconds of the second run of each: the first also loads or compiles."""
    from mercer import SVC, KernelRidge
    from mercer.kernels import RBF
    from mercer.random import generator

    rng = generator(seed)
    X = rng.standard_normal((n, 10))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(n)
    works = {
        "Gram matrix of RBF": lambda: RBF(3.0).gram(X).dense(),
        "KernelRidge.fit": lambda: KernelRidge(0.1, kernel=RBF(3.0)).fit(X, y),
        "SVC.fit": lambda: SVC(C=1.0, kernel=RBF(3.0)).fit(X, y > 0),
    }
    return [(name, _second_run(work)) for name, work in works.items()]


def _second_run(work):
    work()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began

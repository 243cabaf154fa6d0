"""The harness: a registry of benchmarks, interleaved timing, peak memory seen from outside, and a record of the machine.

A benchmark is a function of `small` that yields results: `compare` for contenders doing the same work, `figures` for
numbers measured otherwise. Speeds are reported, never asserted.
"""

import gc
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import threadpoolctl

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ROUNDS, SMALL_ROUNDS = 5, 2
OURS = "mercer"
PACKAGES = ("mercer", "numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "himalaya", "kmedoids", "KDEpy",
            "torch", "triton", "gpytorch")  # fmt: skip
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Function = Callable[[bool], Iterator[dict]]
REGISTRY: dict[str, "Benchmark"] = {}


@dataclass(frozen=True)
class Benchmark:
    """A registered question: its short name, its sentence, and the function that answers it."""

    name: str
    question: str
    run: Function


def benchmark(question: str) -> Callable[[Function], Function]:
    """Register a function under its own name."""

    def register(function: Function) -> Function:
        name = function.__name__
        if name in REGISTRY:
            raise ValueError(f"{name} is registered already")
        REGISTRY[name] = Benchmark(name, question, function)
        return function

    return register


@dataclass(frozen=True)
class Contender:
    """Someone who does the work. `run` is timed; what it returns is handed to the measure of accuracy.

    needs: a module that must be installed, else the row is skipped with that reason.
    rounds: fewer rounds for a slow peer. A contender with fewer rounds than the others has no untimed first call.
    aim: the ratio (time of this peer / our time) that the project works towards.
    """

    name: str
    run: Callable[[], Any]
    needs: str | None = None
    rounds: int | None = None
    aim: float | None = None


@dataclass
class Measured:
    seconds: list[float] = field(default_factory=list)
    error: float | None = None
    peak_bytes: int | None = None


def compare(
    case: str,
    contenders: list[Contender],
    *,
    error: Callable[[Any], float],
    error_name: str,
    sizes: dict[str, Any],
    notes: str = "",
    small: bool = False,
    rounds: int = ROUNDS,
) -> dict:
    """Time contenders in turn, A/B/A/B, and set accuracy and peak memory beside the seconds. The first contender is ours.

    Each contender's first call is not timed (it may compile or load code); peak memory is taken in an untimed call too. A
    contender with fewer rounds than the others does everything in its timed calls.
    """
    rounds = SMALL_ROUNDS if small else rounds
    present = [c for c in contenders if installed(c.needs)]
    measured = {c.name: Measured() for c in present}
    for c in present:
        if _rounds(c, rounds) == rounds:
            _untimed(c, measured[c.name], error)
    for i in range(rounds):
        for c in present:
            if i < _rounds(c, rounds):
                _timed(c, measured[c.name], error)
    return {
        "case": case,
        "sizes": sizes,
        "error_name": error_name,
        "notes": notes,
        "rows": [_row(c, measured.get(c.name), measured[OURS]) for c in contenders],
    }


def _rounds(contender, rounds):
    return rounds if contender.rounds is None else min(contender.rounds, rounds)


def _untimed(c, m, error):
    m.error = float(error(c.run()))
    gc.collect()
    with PeakMemory() as peak:
        c.run()
    m.peak_bytes = peak.bytes


def _timed(c, m, error):
    gc.collect()
    if m.error is not None:
        start = time.perf_counter()
        result = c.run()
        m.seconds.append(time.perf_counter() - start)
        del result
        return
    with PeakMemory() as peak:
        start = time.perf_counter()
        result = c.run()
        m.seconds.append(time.perf_counter() - start)
    m.peak_bytes, m.error = peak.bytes, float(error(result))


def _row(contender, m, ours):
    if m is None:
        return {"name": contender.name, "skipped": f"{contender.needs} is not installed"}
    seconds = statistics.median(m.seconds)
    return {
        "name": contender.name,
        "seconds": seconds,
        "fastest": min(m.seconds),
        "slowest": max(m.seconds),
        "rounds": len(m.seconds),
        "ratio": seconds / statistics.median(ours.seconds),
        "aim": contender.aim,
        "error": m.error,
        "peak_bytes": m.peak_bytes,
    }


def figures(case: str, values: dict[str, list[float]], *, sizes: dict[str, Any], notes: str = "", aims=None) -> dict:
    """Results that are not a race: for each name the median of its seconds, and an upper limit to aim for."""
    rows = [
        {
            "name": name,
            "seconds": statistics.median(seconds),
            "fastest": min(seconds),
            "slowest": max(seconds),
            "rounds": len(seconds),
            "aim_seconds": (aims or {}).get(name),
        }
        for name, seconds in values.items()
    ]
    return {"case": case, "sizes": sizes, "error_name": "", "notes": notes, "rows": rows}


def installed(module: str | None) -> bool:
    return module is None or importlib.util.find_spec(module) is not None


# ------------------------------------------------------------------------------------------------ memory
_WATCHER = """
import sys, time
path, top, first = f"/proc/{sys.argv[1]}/status", 0, None
import threading
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
while True:
    text = open(path).read()
    now = int(text.split("RssAnon:")[1].split()[0]) * 1024
    if first is None:
        first = now
        print("ready", flush=True)
    top = max(top, now)
    if done.wait(0.004):
        break
print(top - first)
"""


class PeakMemory:
    """High water of this process's anonymous memory above what it held on entry, sampled every 4 ms by another process.

    Another process, because a sampling thread stands still while a foreign call holds the interpreter's lock. Anonymous
    memory, because the usual high-water mark counts the pages of mapped files. `bytes` is None where /proc has no RssAnon.
    """

    bytes: int | None = None

    def __enter__(self):
        self._child = None
        status = Path("/proc/self/status")
        if status.exists() and "RssAnon:" in status.read_text():
            command = [sys.executable, "-S", "-c", _WATCHER, str(os.getpid())]
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._child.stdout.readline()
        return self

    def __exit__(self, *exception):
        if self._child is not None:
            out, _ = self._child.communicate()
            self.bytes = int(out)


# ------------------------------------------------------------------------------------------------ the machine
def environment() -> dict:
    """What a reader must know to judge the numbers: versions, processor, cores, threads, BLAS, commit, load."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "versions": _versions(),
        "blas": _blas(),
        "thread_variables": {v: os.environ[v] for v in THREAD_VARIABLES if v in os.environ},
        "commit": _commit(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "date": time.strftime("%Y-%m-%d"),
    }


def _processor():
    try:
        text = Path("/proc/cpuinfo").read_text()
        return text.split("model name")[1].split(":", 1)[1].split("\n", 1)[0].strip()
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def _versions():
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _blas():
    import scipy.linalg  # loads SciPy's own BLAS, so that it is listed

    del scipy
    keys = ("internal_api", "version", "num_threads", "threading_layer", "architecture")
    return [{k: lib.get(k) for k in keys} for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]


def _commit():
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        return name + (" with changes" if _git("status", "--porcelain", "--", "src", "benchmarks") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


# ------------------------------------------------------------------------------------------------ running and printing
def run(name: str, *, small: bool = False, folder: Path = RESULTS) -> dict:
    """Run one benchmark, print its tables and write its JSON file."""
    chosen = REGISTRY[name]
    record = {"name": name, "question": chosen.question, "small": small, "environment": environment(), "results": []}
    print(f"{name}: {chosen.question}")
    for result in chosen.run(small):
        print(table(result), flush=True)
        record["results"].append(result)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return record


def table(result: dict) -> str:
    """One result as aligned text."""
    raced = any("ratio" in row for row in result["rows"])
    head = ["", "seconds", "from - to", "rounds", *(["ratio", result["error_name"], "peak memory"] if raced else [])]
    lines = [head, *([row["name"], *_cells(row, raced)] for row in result["rows"])]
    widths = [max(len(line[i]) for line in lines if i == 0 or len(line) == len(head)) for i in range(len(head))]
    text = [f"\n{result['case']}"]
    for line in lines:
        cells = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=False))]
        text.append("  " + "  ".join(cells).rstrip())
    if result["notes"]:
        text.append(f"  {result['notes']}")
    return "\n".join(text)


def _cells(row, raced):
    if "skipped" in row:
        return [f"skipped: {row['skipped']}"]
    cells = [f"{row['seconds']:.4g}", f"{row['fastest']:.3g} - {row['slowest']:.3g}", str(row["rounds"])]
    if raced:
        peak = "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.0f} MB"
        cells += [f"{row['ratio']:.2f}", f"{row['error']:.3g}", peak]
    return cells

"""The planner's lower half: how a Gram will be computed, how many bytes it takes, and whether they are there."""

import math
import os
from dataclasses import dataclass

import numpy as np

from mercer.errors import MemoryBudgetError
from mercer.validate import memory_bytes

__all__ = ["Plan", "available_memory", "budget", "human_bytes", "human_seconds", "plan"]

# Measured on one core of a 2023 server with AVX-512; they steer choices, so a factor of two does not matter.
_SECONDS_PER_ENTRY = {np.dtype(np.float32): 0.9e-9, np.dtype(np.float64): 2.2e-9}
_SECONDS_PER_FLOP = {np.dtype(np.float32): 1.2e-11, np.dtype(np.float64): 2.5e-11}
_SECONDS_PER_COLUMN = 0.3e-9  # column statistics, per entry and column
_SECONDS_PER_PAIR = 2e-6  # pair kernels in Python
_RESERVE = 0.8


@dataclass(frozen=True)
class Plan:
    """How a Gram of n x m pairs is computed. Seconds are predictions for one sweep over all pairs."""

    shape: tuple[int, int]
    width: int
    dtype: np.dtype
    engine: str
    tile: tuple[int, int]
    threads: int
    statistics: tuple[str, ...]
    dense_bytes: int
    tile_bytes: int
    seconds: float
    budget: int
    where: str = ""

    @property
    def fits(self) -> bool:
        return self.dense_bytes <= self.budget

    def __str__(self):
        n, m = self.shape
        return "\n".join([
            f"Gram {n} x {m}, {self.dtype}, rows of width {self.width}",
            f"engine      {self.engine}, {self.where or f'{self.threads} thread(s)'}, tiles of {self.tile[0]} x {self.tile[1]}",
            f"statistics  {', '.join(self.statistics) or 'none'}",
            f"memory      {human_bytes(self.tile_bytes)} for tiles, {human_bytes(self.dense_bytes)} if made dense, "
            f"budget {human_bytes(self.budget)}",
            f"time        about {human_seconds(self.seconds)} for one sweep over all pairs",
        ])  # fmt: skip


def plan(x, y, engine, threads, memory_budget, symmetric=False) -> Plan:
    """Plan of the Gram of two prepared sides."""
    from mercer.expr import compile_program

    lowered, dtype = x.lowered, x.dtype
    program = compile_program([lowered.expression], lowered.parameters)
    names = tuple(dict.fromkeys(type(e.payload).__name__ for e in program.leaves))
    width = max((_width(v) for v in y.views.values()), default=1)
    n, m = len(x), len(y)
    filled = max((_filled(v) for v in y.views.values()), default=1)
    seconds = entry_seconds(filled, dtype, program) * n * m / max(threads, 1)
    a, b = engine.shape_for(x)
    tile_bytes = threads * min(a, n) * min(b, m) * (len(program.leaves) + 1) * dtype.itemsize
    return Plan((n, m), width, dtype, engine.name, (a, b), threads, names, n * m * dtype.itemsize, tile_bytes, seconds,
                memory_budget, engine.where)  # fmt: skip


def entry_seconds(width, dtype, program=None) -> float:
    """Predicted seconds of one thread for one pair."""
    leaves = [type(e.payload).__name__ for e in program.leaves] if program else ["SquaredDistance"]
    seconds = _SECONDS_PER_ENTRY[dtype] * (1 + 0.15 * len(program.instructions if program else ()))
    products = sum(name in ("Inner", "SquaredDistance") for name in leaves)
    seconds += min(products, 1) * 2 * width * _SECONDS_PER_FLOP[dtype]
    seconds += leaves.count("ColumnStatistic") * width * _SECONDS_PER_COLUMN
    return seconds + leaves.count("External") * _SECONDS_PER_PAIR


def _width(rows):
    return rows.shape[1] if getattr(rows, "ndim", 1) == 2 else 1


def _filled(rows):
    """Numbers of a row that a product touches: of sparse rows, such as counts of words, those that are stored."""
    return rows.nnz / max(rows.shape[0], 1) if hasattr(rows, "nnz") else _width(rows)


# ------------------------------------------------------------------------------------------------ memory
def available_memory() -> int:
    """Bytes this process may still take: of the machine, of its cgroup, and of its address-space limit."""
    found = [_machine_memory(), _cgroup_memory(), _address_space()]
    return max(min(b for b in found if b is not None), 0)


def _told(path):
    """What the system says in a short file: every large Gram asks, and opening it as text takes longer than the answer."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 2**14).decode()
    finally:
        os.close(file)


def _machine_memory():
    try:
        text = _told("/proc/meminfo")
        return int(text.split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cgroup_memory():
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            total = _told(f"/sys/fs/cgroup/{limit}").strip()
            if total != "max":
                return int(total) - int(_told(f"/sys/fs/cgroup/{used}"))
        except (OSError, ValueError):
            continue
    return None


def _address_space():
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY:
            return None
        pages = int(_told("/proc/self/statm").split()[0])
        return soft - pages * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return None


def budget(memory=None, room=None) -> int:
    """Bytes of a user's budget, or most of what is available: the `room` on a device, or memory of this machine."""
    asked = memory_bytes(memory)
    if asked is not None:
        return asked
    return int(_RESERVE * available_memory()) if room is None else room


def require(bytes_needed, memory_budget, what, remedies, seconds=None, where=""):
    """Refuse at once what does not fit, naming bytes, time and remedies; `where` names a device that has the memory."""
    if bytes_needed <= memory_budget:
        return
    time = f" One sweep over all pairs is predicted to take {human_seconds(seconds)}." if seconds is not None else ""
    raise MemoryBudgetError(
        f"{what} needs {human_bytes(bytes_needed)}, the memory budget{f' on {where}' if where else ''} is "
        f"{human_bytes(memory_budget)}.{time} "
        f"What helps: {'; '.join(remedies)}."
    )


# ------------------------------------------------------------------------------------------------ words for people
def human_bytes(n) -> str:
    """
    >>> human_bytes(1.5e9)
    '1.5 GB'
    """
    if n < 1000:
        return f"{int(n)} bytes"
    power = min(int(math.log10(n) / 3), 5)
    return f"{n / 1000**power:.3g} {['', 'kB', 'MB', 'GB', 'TB', 'PB'][power]}"


def human_seconds(s) -> str:
    """
    >>> human_seconds(7200)
    '2 h'
    """
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if s >= size:
            return f"{s / size:.3g} {unit}"
    return f"{s * 1e6:.3g} us"

"""Engines run a traced kernel over tiles: `reference` in plain NumPy, `cpu` by BLAS and Numba."""

from dataclasses import dataclass

from mercer.engines.base import Engine as BaseEngine
from mercer.engines.cpu import CpuEngine
from mercer.engines.prepare import Prepared
from mercer.engines.reference import ReferenceEngine
from mercer.registry import ENGINES

__all__ = ["BaseEngine", "CpuEngine", "Engine", "Prepared", "ReferenceEngine", "get_engine"]


@dataclass(frozen=True)
class Engine:
    """An engine by value, for `engine=`: its name, and how many threads it may use (None: as many as BLAS).

    >>> Engine("cpu", threads=1)
    Engine(name='cpu', threads=1)
    """

    name: str = "cpu"
    threads: int | None = None


def get_engine(engine=None, rows=None) -> BaseEngine:
    """The engine of a word, an :class:`Engine` or None (the CPU engine)."""
    if isinstance(engine, BaseEngine):
        return engine
    if engine is None:
        engine = Engine()
    if isinstance(engine, str):
        engine = Engine(engine)
    if not isinstance(engine, Engine):
        raise TypeError(f"engine={engine!r} must be a word, mercer.Engine(...) or None")
    if engine.name not in ENGINES:
        raise ValueError(f"engine={engine.name!r} is not known; there are {', '.join(sorted(ENGINES))}")
    if engine.threads is not None and (not isinstance(engine.threads, int) or engine.threads < 1):
        raise ValueError(f"threads={engine.threads!r} must be a positive whole number or None")
    return ENGINES[engine.name](threads=engine.threads)

"""Engines run a traced kernel over tiles: `reference` in plain NumPy, `cpu` by BLAS and Numba, `torch` and `cuda` by torch."""

import warnings
from dataclasses import dataclass, fields

from mercer.engines.base import Engine as BaseEngine
from mercer.engines.cpu import CpuEngine
from mercer.engines.prepare import Prepared
from mercer.engines.reference import ReferenceEngine
from mercer.engines.tensors import CudaEngine, TorchEngine
from mercer.errors import EngineWarning
from mercer.registry import ENGINES, register_record

__all__ = [
    "BaseEngine",
    "CpuEngine",
    "CudaEngine",
    "Engine",
    "Prepared",
    "ReferenceEngine",
    "TorchEngine",
    "get_engine",
    "usable_engine",
]

_WORDS = {"precision": ("accurate", "fast", "float64"), "deterministic": (False, True), "on_oom": ("raise", "cpu")}


@register_record
@dataclass(frozen=True)
class Engine:
    """An engine by value, for `engine=`: its name; for "cpu" how many threads it may use (None: as many as BLAS); for "torch" and
    "cuda" how exactly it computes, whether the same way on every day, and what it does without memory.

    >>> Engine("cuda", precision="fast")
    Engine('cuda', precision='fast')
    """

    name: str = "cpu"
    threads: int | None = None
    precision: str = "accurate"
    deterministic: bool = False
    on_oom: str = "raise"

    def __repr__(self):
        changed = (f", {f.name}={getattr(self, f.name)!r}" for f in fields(self)[1:] if f.name in _changed(self))
        return f"Engine({self.name!r}{''.join(changed)})"


def get_engine(engine=None, device=None) -> BaseEngine:
    """The engine of a word, an :class:`Engine` or None: the CPU engine, or torch where the data lie on a `device` of its own."""
    if isinstance(engine, BaseEngine):
        return engine
    if engine is None:
        engine = Engine("cpu" if device is None else "torch")
    if isinstance(engine, str):
        engine = Engine(engine)
    if not isinstance(engine, Engine):
        raise TypeError(f"engine={engine!r} must be a word, mercer.Engine(...) or None")
    made = _made(engine)
    return made if device is None else made.at(device)


def usable_engine(engine):
    """An engine for `engine=`, or None with a warning where what it needs is not installed."""
    try:
        get_engine(engine)
    except ImportError as error:
        warnings.warn(f"engine={engine!r} is replaced by None: {error}", EngineWarning, stacklevel=2)
        return None
    return engine


def _made(engine):
    word, _, number = engine.name.partition(":")
    if word not in ENGINES or (number and not (word == "cuda" and number.isdecimal())):
        raise ValueError(f"engine={engine.name!r} is not known; there are {', '.join(sorted(ENGINES))}")
    if engine.threads is not None and (not isinstance(engine.threads, int) or engine.threads < 1):
        raise ValueError(f"threads={engine.threads!r} must be a positive whole number or None")
    for name, words in _WORDS.items():
        if getattr(engine, name) not in words:
            raise ValueError(f"{name}={getattr(engine, name)!r} is not known; there are {', '.join(map(repr, words))}")
    options = {name: getattr(engine, name) for name in _changed(engine)}
    if not options.keys() <= set(ENGINES[word].options):
        wrong, known = sorted(options.keys() - set(ENGINES[word].options))[0], ", ".join(ENGINES[word].options)
        raise ValueError(f"{wrong}={options[wrong]!r} means nothing to the engine {word!r}; its options are: {known}")
    return ENGINES[word](**options, **({"device": engine.name} if number else {}))


def _changed(engine):
    """Options that are not as by default."""
    return [f.name for f in fields(engine)[1:] if getattr(engine, f.name) != f.default]

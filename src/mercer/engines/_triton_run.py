"""Running generated kernels: compiled once by their text, launched on the rows of two sides, tiles chosen by trial.

What was found about tiles is kept in a file of the folder MERCER_CACHE (by default ~/.cache/mercer), the only one written to.
"""

import hashlib
import json
import linecache
import logging
import os
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mercer.engines import _triton_code, columns
from mercer.engines._tensor_tiles import Side, compiled, held, needs_repair, send_table

__all__ = ["FusionError", "fused", "why_not"]

_log = logging.getLogger("mercer.engines")
_WORTH_TRIALS = 2**33  # entries of a Gram for which tiles are tried out, times the columns of its rows beyond some
_TRIAL = (2**18, 2**14)  # rows and columns of a trial
_TURNS = 3
_LONG = 4096  # columns from which a second loop pays for the time to compile it
_PROGRAMS = 8  # blocks of rows for each multiprocessor before columns are split
_MOST_SPLITS = 64
_functions: dict = {}
_chosen: dict = {}


@dataclass(frozen=True)
class Tiles:
    """Rows, columns and inner columns of a tile, warps and stages."""

    BM: int
    BN: int
    BK: int
    warps: int
    stages: int


# The first of each is what small products get: good for all kernels on an H200, and nearly none of them spills registers.
_SINGLE = [Tiles(64, 128, 32, 4, 2), Tiles(128, 128, 32, 4, 2), Tiles(128, 64, 32, 4, 3), Tiles(128, 64, 32, 4, 2),
           Tiles(64, 128, 32, 4, 3), Tiles(128, 32, 32, 4, 3), Tiles(64, 64, 32, 4, 2), Tiles(32, 32, 16, 4, 1)]  # fmt: skip
_WIDE = [Tiles(128, 128, 32, 8, 3), Tiles(128, 256, 32, 8, 3), Tiles(128, 128, 32, 4, 3), Tiles(64, 128, 32, 4, 3),
         Tiles(64, 256, 32, 8, 4), Tiles(128, 64, 32, 8, 2), Tiles(64, 64, 32, 4, 2), Tiles(32, 32, 16, 4, 1)]  # fmt: skip
_DOUBLE = [Tiles(64, 32, 16, 4, 2), Tiles(64, 64, 16, 8, 2), Tiles(32, 32, 16, 4, 2), Tiles(16, 16, 16, 2, 1)]
# Tables and angles take float64 whatever the rows are: of larger tiles they spill kilobytes for each thread, and compile long.
_HEAVY = [Tiles(64, 32, 32, 4, 2), Tiles(64, 64, 32, 8, 2), Tiles(32, 32, 32, 4, 2), *_SINGLE[:2]]
_HEAVY_DOUBLE = [Tiles(32, 32, 16, 4, 2), *_DOUBLE[:2], Tiles(16, 16, 16, 2, 1)]
_MANY = [Tiles(64, 64, 32, 4, 2), Tiles(128, 64, 32, 8, 2), Tiles(64, 32, 32, 4, 2), Tiles(32, 32, 16, 4, 1)]
_INTERPRETED = [Tiles(16, 16, 32, 1, 1)]


def why_not(place, x, outputs) -> str | None:
    """Why no generated kernel can do this here, or None."""
    if place.device.type != "cuda" and not interpreted():
        return "generated kernels need a GPU"
    if not _installed():
        return "Triton is not installed"
    _, layout = compiled(outputs, x)
    if layout.host:
        kind = type(layout.host[0].payload).__name__
        return f"{x.lowered.kernel!r} has a part ({kind}) that only the host can compute"
    return None


@cache
def _installed():
    return find_spec("triton") is not None


def interpreted() -> bool:
    """Whether Triton runs its kernels in Python, without a GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def fused(place, mode, expression, x, y, V=None, settled=False) -> tuple:
    """Tensors that a generated kernel makes of K(x, y): see `_triton_code.MODES`; their first axis is that of splits.

    `settled` takes the first tiles that work instead of the fastest.
    """
    import torch

    job = _Job(place, mode, expression, x, y, V)
    try:
        with torch.cuda.device(place.device) if place.device.type == "cuda" else nullcontext():
            return job.run(job.tiles(settled))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever the compiler, the driver or a file of theirs may raise
        raise FusionError(f"{type(error).__name__}: {error}".splitlines()[0]) from error


class _Job:
    def __init__(self, place, mode, expression, x, y, V):
        self.place, self.mode, self.x, self.y, self.V = place, mode, x, y, V
        self.program, self.layout = compiled([expression], x)
        self.shape = self._shape()
        known, key = x.lowered.programs, ("triton", expression, self.layout, self.shape)
        if key not in known:
            known[key] = _triton_code.generate(self.program, self.layout, self.shape)
        self.code = known[key]
        self.rows, self.columns = Side(place, x, self.layout, 0), Side(place, y, self.layout, 1)

    def _shape(self):
        x, y, layout, dtype = self.x, self.y, self.layout, self.place.dtype
        widths = tuple(_triton_code.padded_width(_table(x, k, layout).shape[1]) for k in range(len(layout.products)))
        entries = tuple(x.views[s.view].shape[1] for s in layout.statistics)
        for statistic, d in zip(layout.statistics, entries, strict=True):
            columns.check_order(statistic, d)
        repaired = tuple(centred and self._repaired(view) for view, centred in layout.products)
        rhs, same, long = self.V.shape[1] if self.mode == "few" else 1, x.same_side(y), len(y) >= _LONG
        return _triton_code.Shape(
            self.mode, dtype == np.float64, self.place.fast, widths, entries, repaired, same, rhs, long
        )

    def _repaired(self, view):
        # TF32 distances are too rough for smooth profiles to gain from it.
        kinked = self.x.lowered.sensitivity[view].kinked
        return kinked if self.place.fast else needs_repair(self.x, self.y, view, self.place.dtype)

    # ------------------------------------------------------------------------------------ running
    def run(self, tiles, n=None, m=None):
        """Launch on all rows, or on the first n and m of them."""
        n, m = n or len(self.x), m or len(self.y)
        p = self.V.shape[1] if self.mode in ("few", "many") else 1
        rhs = 16 if p <= 16 else 32
        blocks = _ceil(n, tiles.BM)
        per, splits = _splits(self.place, blocks, m, tiles.BN)
        found = self._outputs(splits, n, m, p)
        rest = found + [found[0]] * (3 - len(found))
        grid = (blocks, splits, _ceil(p, rhs) if self.mode == "many" else 1)
        words = {"BM": tiles.BM, "BN": tiles.BN, "BK": tiles.BK, "BP": rhs, "PREC": self._precision()}
        with np.errstate(all="ignore"):  # in the interpreter; NaN and infinity are found by the caller
            _function(self.code.text)[grid](
                *rest, *self._arguments(n, m), n, m, p, per, **words,
                num_warps=tiles.warps, num_stages=tiles.stages, enable_fp_fusion=True,
            )  # fmt: skip
        return tuple(found)

    def _precision(self):
        if self.place.dtype == np.float64:
            return "ieee"
        return "tf32" if self.place.fast else "tf32x3"

    def _outputs(self, splits, n, m, p):
        import torch

        real = torch.float64 if self.place.dtype == np.float64 else torch.float32
        total = torch.float32 if self.place.fast else torch.float64
        kinds = {"few": [total], "many": [total], "block": [real], "max": [real] * 2,
                 "argmin": [real, real, torch.int64], "logsumexp": [real, real, torch.float64]}[self.mode]  # fmt: skip
        shape = {"few": (splits, n, p), "many": (splits, n, p), "block": (n, m)}.get(self.mode, (splits, n))
        return [torch.empty(shape, dtype=kind, device=self.place.device) for kind in kinds]

    def _arguments(self, n, m):
        """What the kernel reads; whatever it does not read is any tensor."""
        place, layout = self.place, self.layout
        constants = _constants(place, self.code.constants)
        tables = send_table(self.program.tables, place.device) if self.program.tables else constants
        V = constants if self.V is None else self.V
        if self.mode == "few":
            V = V.T.contiguous()
        index = [constants, constants]
        if self.x.same_side(self.y):
            index = [side.index()[:k] for side, k in ((self.rows, n), (self.columns, m))]
        products = [side.product(k)[:size] for k in range(len(layout.products))
                    for side, size in ((self.rows, n), (self.columns, m))]  # fmt: skip
        return [V, constants, tables, self._vectors(self.rows, n), self._vectors(self.columns, m, self.code.scaled), *index,
                *products, *self._entries(n, m)]  # fmt: skip

    def _vectors(self, side, size, scaled=()):
        """Vectors of a side, and some times factors, one below the other; of all rows, once for all products with them."""
        if side.side.whole is not None or size < len(side):
            return self._stacked(side, size, scaled)
        known = held(side.side)
        key = ("stack", self.layout.vectors, scaled, side.role, self.place.device, self.place.dtype)
        if key not in known:
            known[key] = self._stacked(side, size, scaled)
        return known[key]

    def _stacked(self, side, size, scaled):
        import torch

        found = [(k, 1.0) for k in range(len(self.layout.vectors))] + list(scaled)
        kind = torch.float64 if self.place.dtype == np.float64 else torch.float32
        out = torch.zeros((max(len(found), 1), size), dtype=kind, device=self.place.device)
        for row, (k, factor) in zip(out, found, strict=False):
            vector = side.vector(k)
            if vector is not None:
                torch.mul(vector[:size], factor, out=row)
        return out

    def _entries(self, n, m):
        for k, statistic in enumerate(self.layout.statistics):
            A, B = self.rows.entries(k)[:n], self.columns.entries(k)[:m]
            yield A.T.contiguous()
            yield B.T.contiguous()
            yield self.place.send(columns.weights_of(statistic, A.shape[1]))

    # ------------------------------------------------------------------------------------ tiles
    def tiles(self, settled):
        """The fastest tiles for this text and about this size, tried out once where the work is worth it."""
        key = self._key(settled)
        if key not in _chosen:
            _chosen[key] = _remembered().get(key) or self._best(settled, key)
        return Tiles(*_chosen[key])

    def _key(self, settled):
        work = len(self.x) * len(self.y) * max(1.0, self._widest / _triton_code.NARROW)
        large = not settled and work >= _WORTH_TRIALS and self.place.device.type == "cuda"
        return _name(self.place.device, self.code.text, self._precision(), "tried" if large else "first")

    def _best(self, settled, key):
        trials = key.endswith("tried")
        best, error = None, None
        for tiles in self._candidates():
            try:
                seconds = self._seconds(tiles)
            except Exception as raised:  # too many registers, too much shared memory, or a compiler that gives up
                _log.info("tiles %s do not work: %s", tiles, str(raised).splitlines()[:1])
                error = raised
                continue
            if best is None or seconds < best[0]:
                best = seconds, tiles
            if not trials:
                break
        if best is None:
            raise error or FusionError("no tiles")
        found = tuple(vars(best[1]).values())
        if trials:
            _remember(key, found)
        return found

    def _candidates(self):
        if self.place.device.type != "cuda":
            return _INTERPRETED
        heavy = _triton_code.heavy(self.program, self.layout)
        if self.place.dtype == np.float64:
            return _HEAVY_DOUBLE if heavy else _DOUBLE
        if heavy or self.mode == "many":
            return _HEAVY if heavy else _MANY
        return _WIDE if self._widest > _triton_code.NARROW else _SINGLE

    @property
    def _widest(self):
        return max(self.shape.widths, default=1)

    def _seconds(self, tiles):
        import time

        import torch

        if self.place.device.type != "cuda":
            return 0.0
        n, m = min(len(self.x), _TRIAL[0]), min(len(self.y), _TRIAL[1])
        times = []
        for _ in range(_TURNS + 1):  # the first compiles
            torch.cuda.synchronize(self.place.device)
            start = time.perf_counter()
            self.run(tiles, n, m)
            torch.cuda.synchronize(self.place.device)
            times.append(time.perf_counter() - start)
        return min(times)


@lru_cache(maxsize=1024)
def _constants(place, values):
    """Numbers on a device, which are many times the same."""
    return place.send(np.array(values or (0.0,)))


@cache
def _name(device, text, precision, how):
    """By which tiles are known again."""
    import torch

    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "interpreter"
    return f"{card} {hashlib.sha256(text.encode()).hexdigest()[:16]} {precision} {how}"


class FusionError(RuntimeError):
    """A generated kernel could not be compiled."""


def _table(side, k, layout):
    view, centred = layout.products[k]
    return (side.centred if centred else side.views)[view]


def _splits(place, blocks, m, width):
    """Columns of one split, and how many splits: few rows would leave most of the device idle. Nothing depends on timing."""
    import torch

    units = 1
    if place.device.type == "cuda":
        units = torch.cuda.get_device_properties(place.device).multi_processor_count
    most = max(1, min(_MOST_SPLITS, units * _PROGRAMS // max(blocks, 1), _ceil(m, width)))
    per = _ceil(_ceil(m, most), width) * width
    return per, _ceil(m, per)


def _ceil(a, b):
    return -(-a // b)


def _function(text):
    """The compiled function of a text. Triton reads the text of a function from its file: here, from the line cache."""
    if text not in _functions:
        import triton
        import triton.language as tl

        name = f"<mercer kernel {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        space: dict = {"triton": triton, "tl": tl, "__name__": "mercer.engines.generated"}
        exec(compile(text, name, "exec"), space)
        _functions[text] = space["kernel"]
    return _functions[text]


# ------------------------------------------------------------------------------------------------ what is remembered
def _cache_file():
    folder = os.environ.get("MERCER_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mercer"
    )
    return Path(folder, "tiles.json")


def _remembered():
    try:
        known = json.loads(_cache_file().read_text())
        return {key: tuple(map(int, value)) for key, value in known.items() if len(value) == 5}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _remember(key, found):
    """Kept for the next process; where that cannot be written it is tried out again."""
    path = _cache_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({**_remembered(), key: found}, indent=0))
        os.replace(new, path)
    except OSError as error:
        _log.info("tiles are not remembered: %s", error)

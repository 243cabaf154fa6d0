"""The torch engine: tiles on torch's CPU device or on a GPU, and generated kernels there that never hold the Gram.

Sides are prepared on the host, once, and what their leaves read is sent to the device, once. torch is imported when an engine
is made, never before.
"""

import logging
import warnings
from contextlib import suppress

import numpy as np

from mercer.engines import reductions, sources
from mercer.engines.base import Engine
from mercer.engines.cpu import CpuEngine
from mercer.errors import EngineWarning, MemoryBudgetError, NanError
from mercer.registry import register_engine
from mercer.tensors import free_memory

__all__ = ["SPARE", "CudaEngine", "TorchEngine"]

_log = logging.getLogger("mercer.engines")
_SMALLEST = 256  # rows of a block that is not halved again
_SWEEP = 2**36  # entries of the Gram between two looks at the keyboard: less than a tenth of a second on a GPU
SPARE = 4  # columns behind a matrix for solvers
_ROOM = 0.95  # of the free memory of a device
_said: set = set()
_broken: dict = {}  # (device, expression) of which a generated kernel failed, and why


@register_engine("torch")
class TorchEngine(Engine):
    """torch on the device of the data; for arrays, on the CPU.

    `precision` is "accurate" (computes in the precision of the data; products of float32 rows as good as float32), "fast"
    (float32 with TF32 products, whatever the data) or "float64" (whatever the data). Results keep the precision of the data.
    `deterministic` leaves out the search for the fastest tiles, so that sums come out the same on every day. `on_oom` says what
    follows when the device has no memory even for few rows: "raise", or "cpu".
    """

    name = "torch"
    tile_shape = (512, 2048)
    reductions = reductions.COMPILED
    sums_rows = True
    options = ("precision", "deterministic", "on_oom")  # torch has threads of its own, set for the process

    def __init__(self, precision="accurate", deterministic=False, on_oom="raise", device=None):
        super().__init__()
        torch = _import_torch()
        self.precision, self.deterministic, self.on_oom = precision, deterministic, on_oom
        self.device = torch.device(device or "cpu")
        if self.device.type == "cuda":
            self.tile_shape = CudaEngine.tile_shape

    def at(self, device):
        return type(self)(self.precision, self.deterministic, self.on_oom, device)

    def careful(self):
        if self.precision != "fast":
            return self
        return type(self)("accurate", self.deterministic, self.on_oom, str(self.device))

    def __reduce__(self):
        return _again, (type(self), self.precision, self.deterministic, self.on_oom, str(self.device))

    # ------------------------------------------------------------------------------------ where and how
    @property
    def where(self):
        return str(self.device)

    @property
    def beside_the_processor(self):
        return self.device.type == "cuda"

    def computes_in(self, dtype):
        return np.dtype({"fast": np.float32, "float64": np.float64}.get(self.precision, dtype))

    def room(self):
        return int(_ROOM * free_memory(self.device)) if self.device.type == "cuda" else None

    def place(self, dtype):
        """Where tiles of a Gram of this dtype are made."""
        from mercer.engines._tensor_tiles import Place
        from mercer.engines._triton_run import interpreted

        padded = self.device.type == "cuda" or interpreted()
        return Place(self.device, self.computes_in(dtype), self.precision == "fast", padded)

    def tile(self, outputs, x, y):
        from mercer.engines._tensor_tiles import tile

        values = tile(self.place(x.dtype), outputs, x, y)
        return np.stack([value.cpu().numpy().astype(x.dtype, copy=False) for value in values])

    def gradients(self, x, y, both=True):
        from mercer.engines._tensor_sums import TensorGradients

        return TensorGradients(self, x, y, both)

    def column_pullback(self, statistic, A, B, V):
        return CpuEngine().column_pullback(statistic, A, B, V)

    # ------------------------------------------------------------------------------------ verbs for the host
    def block(self, x, y):
        import torch

        K = np.empty((len(x), len(y)), x.dtype)
        self.on_device("block", x, y, torch.from_numpy(K))  # tile by tile: the device need not hold it
        return K

    def fill(self, K, i0, j0, x, y, shape=None):
        import torch

        self.on_device("block", x, y, torch.from_numpy(K)[i0 : i0 + len(x), j0 : j0 + len(y)])

    def matrix(self, x, y, dtype):
        import torch

        # Some columns more than it has: a second triangle fits into the square, and rows stay aligned.
        wide = torch.empty((len(x), len(y) + SPARE), dtype=_kind(dtype), device=self.device)
        return self.on_device("block", x, y, wide[:, : len(y)])

    def send(self, x):
        import torch

        from mercer.engines._tensor_tiles import send_ahead

        with suppress(torch.OutOfMemoryError):  # products send what they miss, and take smaller blocks
            send_ahead(self.place(x.dtype), x)

    def matmul(self, x, y, V):
        return self._on_host(self.on_device("matmul", x, y, V))

    def cross(self, x, y, R, V=None):
        return self._on_host(self.on_device("cross", x, y, R, V))

    def reduce(self, x, y, op, **options):
        return self._on_host(self.on_device("reduce", x, y, op, **options))

    def pullback(self, x, y, W):
        return self.on_device("pullback", x, y, W)

    def pullback_inputs(self, x, y, W):
        return self.on_device("pullback_inputs", x, y, W)

    @staticmethod
    def _on_host(found):
        if isinstance(found, tuple):
            return tuple(map(TorchEngine._on_host, found))
        return found if isinstance(found, np.ndarray) else found.cpu().numpy()

    # ------------------------------------------------------------------------------------ verbs on the device
    def on_device(self, verb, x, y, *arguments, **options):
        """A verb's result as tensors on the device; `on_oom` says what happens where there is no memory for it."""
        from mercer.engines._tensor_tiles import product_precision

        try:
            with product_precision(self.place(x.dtype)):
                return getattr(self, f"_{verb}")(x, y, *arguments, **options)
        except MemoryBudgetError as error:
            if self.on_oom != "cpu":
                raise
            reason = str(error)
        _say_once(f"{reason} The CPU goes on.", ("memory", self.device))
        return TorchEngine(self.precision).on_device(verb, x, y, *arguments, **options)

    def _block(self, x, y, out=None):
        import torch

        if out is None:
            out = torch.empty((len(x), len(y)), dtype=_kind(x.dtype), device=self.device)

        def rows(start, stop):
            xi = x.take(slice(start, stop))
            for c, yj in self.columns_of(y, start if x is y else 0):  # from the diagonal on: the rest is mirrored
                out[start:stop, c] = values = self._finite(self._values(xi, yj), x)
                if x is y:
                    out[c, start:stop] = values.T
            if x is y:
                i, square = torch.arange(stop - start, device=out.device), out[start:stop, start:stop].clone()
                out[start:stop, start:stop] = torch.where(i[:, None] >= i, square, square.T)

        self.by_rows(rows, len(x))
        return out

    def _values(self, x, y):
        from mercer.engines._tensor_tiles import tile

        found = self._fused("block", x, y)
        return tile(self.place(x.dtype), [x.lowered.expression], x, y)[0] if found is None else found[0]

    def columns_of(self, y, first=0):
        width = self.tile_shape[1]
        slices = [slice(j, min(j + width, len(y))) for j in range(first, len(y), width)]
        return [(c, y.take(c)) for c in slices]

    def _matmul(self, x, y, V):
        V, kind = self._right_hand_sides(V, x)
        return self._finite(self.product(x, y, V, x.lowered.expression, kind), x)

    def product(self, x, y, V, expression, kind=None):
        """An expression of all pairs, times the tensor V: by one kernel for each block of rows, or tile by tile."""
        import torch

        parts = [V.new_zeros((0, V.shape[1]), dtype=kind)]

        def rows(start, stop):
            parts.append(self._some_rows(x.take(slice(start, stop)), y, V, expression).to(parts[0].dtype))

        self.by_rows(rows, len(x), self._sweep(x, y, expression))
        return parts[1] if len(parts) == 2 else torch.cat(parts)

    def _right_hand_sides(self, V, x):
        """V on the device in the precision of the computation, and the precision of the product."""
        import torch

        place = self.place(x.dtype)
        if isinstance(V, np.ndarray):
            return place.send(V), _kind(np.result_type(x.dtype, V.dtype))
        kind = _kind(x.dtype) if not V.is_floating_point() else torch.promote_types(V.dtype, _kind(x.dtype))
        return V.to(self.device, _kind(place.dtype)).contiguous(), kind

    def _some_rows(self, x, y, V, expression):
        from mercer.engines._tensor_tiles import tile
        from mercer.engines._triton_code import FEW

        found = self._fused("few" if V.shape[1] <= FEW else "many", x, y, V, expression)
        if found is not None:
            return found[0].sum(0) if len(found[0]) > 1 else found[0][0]
        total = V.new_zeros((len(x), V.shape[1]))
        for c, yj in self.columns_of(y):
            total += tile(self.place(x.dtype), [expression], x, yj)[0] @ V[c]
        return total

    def _cross(self, x, y, R, V=None):
        import torch

        R = torch.as_tensor(np.asarray(R, np.float64)).to(self.device)
        if V is not None:
            R = R * self._matmul(x, y, np.ascontiguousarray(np.asarray(V).T)).double()
        e = x.lowered.expression
        if not self.fusible(x, [e]):
            return self._finite(self._tile_cross(x, y, R), x)
        # R^T K as (K^T R)^T: the columns of the Gram are the rows of this product.
        V = R.to(_kind(self.place(x.dtype).dtype))
        return self._finite(self.product(y, x, V, sources.transposed(e), R.dtype).T, x)

    def _pullback(self, x, y, W):
        return super().pullback(x, y, W)

    def _pullback_inputs(self, x, y, W):
        return super().pullback_inputs(x, y, W)

    def _tile_cross(self, x, y, R):
        import torch

        out, columns = R.new_zeros((R.shape[1], len(y))), self.columns_of(y)

        def rows(start, stop):
            xi = x.take(slice(start, stop))
            found = [R[start:stop].T @ self._values(xi, yj).double() for _, yj in columns]
            out.add_(torch.hstack(found) if found else 0.0)

        self.by_rows(rows, len(x))
        return out

    def _reduce(self, x, y, op, **options):
        from mercer.engines._tensor_sums import FUSED, REDUCTIONS

        if op not in REDUCTIONS:
            return super().reduce(x, y, op, **options)
        found, columns = [], self.columns_of(y)

        def rows(start, stop):
            xi = x.take(slice(start, stop))
            whole = self._fused_reduction(xi, y, op) if not options else None
            if whole is not None:
                found.append(whole)
                return
            state = REDUCTIONS[op](**options)
            for c, yj in columns:
                state.add(self._finite(self._values(xi, yj), x).to(_kind(x.dtype)), c.start)
            found.append(state.result())

        self.by_rows(rows, len(x), self._sweep(x, y, x.lowered.expression) if op in FUSED else None)
        if not found:
            rows(0, 0)
        return _joined(found)

    def _fused_reduction(self, x, y, op):
        """A reduction by one kernel, or None; the parts of split columns are joined in their order."""
        from mercer.engines._tensor_sums import FUSED

        if op not in FUSED:
            return None
        mode, join = FUSED[op]
        V = self.place(x.dtype).send(np.ones((len(y), 1))) if mode == "few" else None
        found = self._fused(mode, x, y, V)
        return None if found is None else join(*(self._finite(part, x) for part in found))

    # ------------------------------------------------------------------------------------ generated kernels
    def fusible(self, x, outputs):
        """Whether a generated kernel can do it. The first time that one cannot, the reason is told."""
        from mercer.engines._triton_run import why_not

        place = self.place(x.dtype)
        reason = _broken.get((self.device, *outputs)) or why_not(place, x, outputs)
        if reason is None:
            return True
        if place.device.type == "cuda" and "Triton" in reason:
            _say_once(f"engine={self.name!r}: {reason}; torch makes tiles instead, which takes longer", reason)
        elif reason not in _said:
            _said.add(reason)
            _log.info("tiles by torch: %s", reason)
        return False

    def _fused(self, mode, x, y, V=None, expression=None):
        """What a generated kernel makes of K(x, y), or None where none can."""
        from mercer.engines._triton_run import FusionError, fused

        expression = expression or x.lowered.expression
        if not len(x) or not len(y) or not self.fusible(x, [expression]):
            return None
        try:
            return fused(self.place(x.dtype), mode, expression, x, y, V, self.deterministic)
        except FusionError as error:
            _broken[self.device, expression] = reason = f"Triton failed ({error})"
        _say_once(f"engine={self.name!r}: {reason}; torch makes tiles instead, which takes longer", reason)
        return None

    def _sweep(self, x, y, expression):
        """Rows of which a generated kernel sees all pairs between two looks at the keyboard; None where there is no kernel."""
        if not self.fusible(x, [expression]):
            return None
        return max(self.tile_shape[0], _SWEEP // max(len(y), 1))

    # ------------------------------------------------------------------------------------ care
    def by_rows(self, job, n, height=None):
        """job(start, stop) over blocks of rows; where the device has no memory for a block, its halves."""
        height = height or self.tile_shape[0]
        todo = [(i, min(i + height, n)) for i in range(0, n, height)][::-1]
        while todo:
            start, stop = todo.pop()
            if not self._fits(job, start, stop, more=bool(todo)):
                middle = (start + stop) // 2
                todo += [(middle, stop), (start, middle)]

    def _fits(self, job, start, stop, more):
        """Whether the job could be done; where more follow, it is waited for."""
        import torch

        try:
            job(start, stop)
            if more and self.device.type == "cuda":
                torch.cuda.current_stream(self.device).synchronize()  # an interrupt waits for no more than this block
            return True
        except torch.OutOfMemoryError as error:
            reason = str(error).split(". ")[0]
        # Outside of the except block, whose frames keep tensors alive.
        torch.cuda.empty_cache()
        _log.info("no memory on %s for %d rows of the Gram; half of them next", self.device, stop - start)
        if stop - start <= _SMALLEST:
            raise MemoryBudgetError(
                f"{self.device} has no memory for {stop - start} rows of the Gram ({reason}). What helps: close what else "
                'uses the device; fewer columns or float32; Engine("cuda", on_oom="cpu").'
            )
        return False

    def _finite(self, values, x):
        """The values; NaN and infinity are refused by the kernel's name."""
        if not bool(values.sum().isfinite()) and not bool(values.isfinite().all()):
            wrong = int((~values.isfinite()).sum())
            raise NanError(
                f"{x.lowered.kernel!r} gave NaN or infinity in {wrong} of {values.numel()} entries; "
                "rescale the columns, or check the parameters for overflow"
            )
        return values


@register_engine("cuda")
class CudaEngine(TorchEngine):
    """torch on a GPU: arrays go there and come back. "cuda:1" is the second one. Without a GPU the CPU does it, and says so."""

    name = "cuda"
    tile_shape = (4096, 8192)

    def __init__(self, precision="accurate", deterministic=False, on_oom="raise", device="cuda"):
        torch = _import_torch()
        reason = _no_cuda(torch, device)
        if reason is not None:
            _say_once(f"engine={device!r}: {reason}; torch does it on the CPU", (device, reason))
        super().__init__(precision, deterministic, on_oom, "cpu" if reason else _numbered(torch.device(device)))

    def at(self, device):
        if device.type == "cuda" and device != self.device:
            raise ValueError(f"engine={str(self.device)!r}, but the tensors lie on {device}; move them with .to(...)")
        return self


def _numbered(device):
    import torch

    return (
        torch.device("cuda", torch.cuda.current_device()) if device.type == "cuda" and device.index is None else device
    )


def _again(cls, *options):
    return cls(*options)


def _import_torch():
    try:
        import torch
    except ImportError as error:
        raise ImportError("this engine needs torch; pip install 'mercer[gpu]'") from error
    return torch


def _no_cuda(torch, device):
    """Why a GPU cannot be used, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of old drivers in its own words
        if not torch.cuda.is_available():
            return "torch sees no GPU"
    count = torch.cuda.device_count()
    if (torch.device(device).index or 0) >= count:
        raise ValueError(f"engine={device!r}, but there are {count} GPUs, numbered from 0")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        return f"the GPU does not work ({str(error).splitlines()[0]})"
    return None


def _say_once(message, key):
    """One warning for each reason in a process."""
    if key not in _said:
        _said.add(key)
        warnings.warn(message, EngineWarning, stacklevel=4)


def _kind(dtype):
    import torch

    return torch.float64 if np.dtype(dtype) == np.float64 else torch.float32


def _joined(parts):
    import torch

    if isinstance(parts[0], tuple):
        return tuple(torch.cat(part) for part in zip(*parts, strict=True))
    return torch.cat(parts)

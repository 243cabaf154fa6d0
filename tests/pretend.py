"""A GPU that is not there: tensors that say "cuda", hold memory of the host, and refuse to meet tensors of the host as CUDA's do.

What goes wrong on a GPU alone is mostly that something was left behind on the host, was taken for an array, or took more memory
than was said. That is seen here, without one. Nothing else of a GPU is: not its arithmetic, its compiler, its streams.
"""

import weakref
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch.utils import _pytree

from mercer.engines import _tensor_tiles, _triton_run, tensors
from mercer.solvers import batch_smo

__all__ = ["GPU", "Memory", "Pretended", "import_interpreter", "interpret", "plain", "pretend_gpu"]

GPU, HOST = torch.device("cuda", 0), torch.device("cpu")
FACTORIES = "arange as_tensor empty eye full linspace ones rand randn randperm tensor zeros".split()
_COPIES = {"copy_"}  # operations that lead from one device to the other
_CACHED = (_triton_run._constants, _triton_run._name, _tensor_tiles._beside)
_INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}  # places may lie on the host
_real = {"to": torch.Tensor.to, "where": torch.where, **{name: getattr(torch, name) for name in FACTORIES}}


class Memory:
    """Bytes that tensors on the pretended GPU hold, now and at most; beyond `limit` there are no more."""

    def __init__(self, limit=2**33):
        self.limit, self.now, self.most, self._users = limit, 0, 0, {}

    @property
    def free(self):
        return self.limit - self.now

    def hold(self, tensor, storage):
        """A tensor that uses a storage, as others may do."""
        key, size = storage.data_ptr(), storage.nbytes()
        if not size:
            return
        known = self._users.setdefault(key, [0, size])
        if not known[0]:
            if self.now + size > self.limit:
                del self._users[key]
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes")
            self.now += size
            self.most = max(self.most, self.now)
        known[0] += 1
        weakref.finalize(tensor, self._leave, key)

    def _leave(self, key):
        self._users[key][0] -= 1
        if not self._users[key][0]:
            self.now -= self._users.pop(key)[1]


_memory = Memory()


class Pretended(torch.Tensor):
    """A tensor whose numbers are those of `plain`, on a device that refuses tensors of the host."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    # To the compiled parts of torch it is a tensor without numbers: those built for hosts alone know no other foreign device.
    device, is_cuda = property(lambda tensor: GPU), property(lambda tensor: True)

    @staticmethod
    def __new__(cls, plain):
        made = torch.Tensor._make_wrapper_subclass(
            cls, plain.shape, strides=plain.stride(), storage_offset=plain.storage_offset(), dtype=plain.dtype, device="meta"
        )  # fmt: skip
        made.plain = plain
        _memory.hold(made, plain.untyped_storage())
        return made

    def __repr__(self):
        return f"Pretended({self.plain!r})"

    def numpy(self, *args, **options):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    __array__ = numpy

    def data_ptr(self):
        return self.plain.data_ptr()

    def record_stream(self, stream):
        pass

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        name, kwargs = function.overloadpacket.__name__, dict(kwargs or {})
        _refuse_strangers(name, args, kwargs)
        kwargs.pop("device", None)
        known = {id(t.plain): t for t in _tensors((args, kwargs)) if isinstance(t, cls)}
        result = function(*_pytree.tree_map(plain, args), **_pytree.tree_map(plain, kwargs))
        if name in _COPIES:
            return args[0]
        return _pytree.tree_map(lambda t: known[id(t)] if id(t) in known else _pretended(t), result)


def plain(value):
    """The tensor inside, or what is no such tensor."""
    return value.plain if isinstance(value, Pretended) else value


def _pretended(value):
    return Pretended(value) if isinstance(value, torch.Tensor) and not isinstance(value, Pretended) else value


def _tensors(tree):
    return [t for t in _pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def _refuse_strangers(name, args, kwargs):
    """What CUDA says where tensors of two devices meet. Single numbers of the host may be everywhere."""
    if any(t.device.type == "meta" for t in _tensors((args, kwargs))):
        raise NotImplementedError(f"torch made a number without a value for {name}: give it one in `tests/pretend.py`")
    if name in _COPIES:
        return
    if name in _INDEXED and isinstance(args[0], Pretended):
        args, kwargs = [args[0], *args[2:3]], {}
    if len({t.device for t in _tensors((args, kwargs)) if t.dim()}) > 1:
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices in {name}")


# ---------------------------------------------------------------------------------------------- from one device to the other
def _to(tensor, *args, **options):
    where, kind = tensor.device, tensor.dtype
    for given in (*args, *options.values()):
        if isinstance(given, torch.Tensor):
            where, kind = given.device, given.dtype
        elif isinstance(given, torch.dtype):
            kind = given
        elif isinstance(given, torch.device | str):
            where = torch.device(given)
    if where.type == tensor.device.type and kind == tensor.dtype:
        return tensor
    made = _real["to"](plain(tensor), kind, copy=True)
    return Pretended(made) if where.type == "cuda" else made


def _factory(name):
    def make(*args, device=None, **options):
        if device is None or any(isinstance(a, Pretended) for a in args):
            made = _real[name](*args, **options)
            return made if device is None else _to(made, device)
        made = _real[name](*args, **options)
        return Pretended(made) if torch.device(device).type == "cuda" else made

    return make


def _where(condition, *values):
    """torch makes tensors of numbers on what it takes for the device."""
    kinds = [v.dtype for v in values if isinstance(v, torch.Tensor)]
    if isinstance(condition, Pretended) and kinds:
        values = [v if isinstance(v, torch.Tensor) else Pretended(_real["tensor"](v, dtype=kinds[0])) for v in values]
    return _real["where"](condition, *values)


# ---------------------------------------------------------------------------------------------- the driver
class _Stream:
    def __init__(self, device=None):
        self.device = device

    def synchronize(self):
        pass


def _nothing(*arguments):
    return None


_CUDA = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "device": lambda device: nullcontext(),
    "synchronize": _nothing,
    "empty_cache": _nothing,
    "Stream": _Stream,
    "stream": lambda stream: nullcontext(),
    "current_stream": _Stream,
    "default_stream": _Stream,
    "memory_reserved": lambda device=None: 0,
    "memory_allocated": lambda device=None: 0,
    "get_device_name": lambda device=None: "a GPU that is not there",
    "get_device_properties": lambda device=None: SimpleNamespace(multi_processor_count=4),
}


def import_interpreter():
    """Triton decides when it is first imported, so that happens before any test: torch imports it on occasion."""
    if not torch.cuda.is_available():
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("TRITON_INTERPRET", "1")

            from mercer.solvers import _triton_smo  # noqa: F401


def interpret(kernel, grid, arguments, options):
    """Launch a kernel in Triton's interpreter, in which it may not have been made."""
    import triton

    interpreted = kernel if "Interpreted" in type(kernel).__name__ else triton.jit(kernel.fn)
    interpreted[grid](*arguments, **options)


@contextmanager
def pretend_gpu(patch, launch=None, memory=None):
    """While it lasts torch has a GPU; yields its memory. launch: what is called with a generated kernel, its grid, tensors and
    options; without it there are no generated kernels, and tiles are made by torch."""
    global _memory
    before, _memory = _memory, memory or Memory()
    for name in FACTORIES:
        patch.setattr(torch, name, _factory(name))
    for name, value in {**_CUDA, "mem_get_info": lambda device=None: (_memory.free, _memory.limit)}.items():
        patch.setattr(torch.cuda, name, value)
    patch.setattr(torch, "where", _where)
    patch.setattr(torch.Tensor, "to", _to)
    patch.setattr(torch.Tensor, "cpu", lambda tensor: _to(tensor, HOST))
    patch.setattr(torch.Tensor, "cuda", lambda tensor: _to(tensor, GPU))
    _replace_kernels(patch, launch)
    _forget()
    try:
        yield _memory
    finally:
        _forget()
        _memory = before


def _replace_kernels(patch, launch):
    if launch is None:
        patch.setattr(_triton_run, "why_not", lambda *arguments: "no kernels are generated for a GPU that is not there")
        patch.setattr(batch_smo, "_solver", lambda device: batch_smo.solve_blocks)
        return
    from mercer.solvers import _triton_smo

    patch.setattr(_triton_run, "_functions", {})  # those of other tests are made for the interpreter, or are not
    function, solve = _triton_run._function, _triton_smo._solve
    patch.setattr(_triton_run, "_function", lambda text: _Launched(function(text), launch))
    patch.setattr(_triton_smo, "_solve", _Launched(solve, launch))


class _Launched:
    """A kernel that finds only what lies on the GPU, as on a real one."""

    def __init__(self, kernel, launch):
        self.kernel, self.launch = kernel, launch

    def __getitem__(self, grid):
        def run(*args, **options):
            for number, tensor in enumerate(args):
                if isinstance(tensor, torch.Tensor) and not isinstance(tensor, Pretended):
                    raise ValueError(f"Pointer argument (at {number}) cannot be accessed from Triton (cpu tensor?)")
                if not isinstance(tensor, torch.Tensor | int | float):
                    raise TypeError(f"unsupported type: {type(tensor)}")
            self.launch(self.kernel, grid, [plain(a) for a in args], options)

        return run


def _forget():
    """What is kept by device: a later test may have another one."""
    for known in (tensors._said, tensors._broken, _tensor_tiles._tables, _tensor_tiles._held, _triton_run._chosen):
        known.clear()
    for cached in _CACHED:
        cached.cache_clear()

"""The lazy Gram matrix: slicing slices its sides; only tile loops and `dense` produce numbers."""

import math

import numpy as np

from mercer import validate
from mercer.engines import Prepared, get_engine
from mercer.errors import NanError
from mercer.gram import plan as planning
from mercer.gram.operators import Operator
from mercer.kernels.base import Kernel, require_differentiable_inputs
from mercer.kernels.trace import lower
from mercer.threads import thread_count

__all__ = ["Gram", "gram", "prepared_gram"]


def gram(kernel: Kernel, X, Y=None, *, engine=None, memory=None, validated=False) -> "Gram":
    """Lazy Gram matrix of a kernel: of X with itself, or of the rows of X with the rows of Y.

    The kernel is resolved on Y, or on X alone. `engine` is a word or a `mercer.Engine`; `memory` ("2GB") bounds what
    `dense` may allocate. Of torch tensors torch makes it, on their device, and results are tensors.
    """
    device = validate.tensor_device(X=X, Y=Y)
    validate.memory_bytes(memory)  # a small Gram never asks for it again
    if not validated:
        X = kernel.validated(X, "X")
        Y = None if Y is None else kernel.validated(Y, "Y")
    resolved = kernel._resolved(X if Y is None else Y, None)
    runner = get_engine(engine, device)
    lowered = lower(resolved)
    y = runner.prepare(lowered, X if Y is None else Y)
    x = y if Y is None else _other_side(runner, lowered, X, y)
    K = Gram(resolved, runner, x, y.astype(x.dtype) if y.dtype != x.dtype else y, memory)
    return K if device is None else K.on(device)


def prepared_gram(train: "Gram", X) -> "Gram":
    """Gram of new validated rows with the (column) rows of an existing Gram, whose preparation is used again."""
    x = _other_side(train.engine, train.y.lowered, X, train.y)
    y = train.y if x.dtype == train.y.dtype else train.y.astype(x.dtype)
    return Gram(train.kernel, train.engine, x, y, train.memory)


def _other_side(engine, lowered, rows, y):
    width, known = (getattr(r, "shape", (0,))[1:] for r in (rows, y.rows))
    if width != known:
        raise ValueError(f"X has {width[0]} columns, but Y (the rows the Gram was made for) has {known[0]}")
    return engine.prepare(lowered, rows, like=y)


class Gram(Operator):
    """K(X, Y), never held whole unless `dense` is asked for.

    `K @ V`, `K.T`, `K.diag()`, `K.rows(index)`, `K[a:b]`, `K.reduce("max")`, `K.pullback(W)`, `K.pullback_diag(v)`,
    `K + Diagonal(alpha)`, `K.centred()`, `K.explain()`.
    """

    def __init__(self, kernel, engine, x: Prepared, y: Prepared, memory=None):
        self.kernel, self.engine, self.x, self.y, self.memory = kernel, engine, x, y, memory

    # ------------------------------------------------------------------------------------ facts
    @property
    def shape(self):
        return (len(self.x), len(self.y))

    @property
    def dtype(self):
        return self.x.dtype

    @property
    def symmetric(self) -> bool:
        """Whether both sides are the same rows of the same data."""
        return self.x is self.y

    @property
    def plan(self) -> planning.Plan:
        threads = self.engine.threads or thread_count()
        return planning.plan(self.x, self.y, self.engine, threads, planning.budget(self.memory))

    def explain(self) -> str:
        """What will happen: tiles, engine, statistics, bytes, predicted time."""
        return f"{self.kernel!r}\n{self.plan}"

    def __repr__(self):
        return f"<Gram {self.shape[0]} x {self.shape[1]} of {self.kernel!r}, {self.dtype}, engine {self.engine.name}>"

    # ------------------------------------------------------------------------------------ numbers
    def dense(self) -> np.ndarray:
        """The whole matrix as an array, if it fits the budget."""
        self._require_dense()
        return self.engine.block(self.x, self.y)

    def matrix(self, dtype=None):
        dtype = np.dtype(dtype or self.dtype)
        self.require(math.prod(self.shape) * dtype.itemsize, self.engine.room())
        return self.engine.matrix(self.x, self.y, dtype)

    def _require_dense(self):
        n, m = self.shape
        bytes_needed = n * m * self.dtype.itemsize
        if bytes_needed > 2**24:  # asking the system costs more than a small matrix
            self.require(bytes_needed)

    def require(self, bytes_needed, room=None):
        """Refuse what does not fit the budget, which is the `room` on a device unless one was given."""
        n, m = self.shape
        allowed = planning.budget(self.memory, room)
        if bytes_needed <= allowed:
            return  # the plan below costs more than a small matrix
        remedies = [
            "multiply with K @ V or use K.reduce, which work tile by tile",
            "use fewer rows or float32",
            'raise the budget, for example memory="64GB"',
        ]
        what = f"the Gram matrix of {n} x {m} pairs"
        where = "" if room is None else self.engine.where
        planning.require(bytes_needed, allowed, what, remedies, self.plan.seconds, where)

    def block(self, rows, columns) -> np.ndarray:
        """Part of the matrix as an array."""
        return self[rows, columns].dense()

    def fill(self, out, i0, j0, rows, columns):
        """Part of the matrix into out[i0:, j0:]."""
        self.engine.fill(out, i0, j0, self.x.take(rows), self.y.take(columns))

    def rows(self, index) -> np.ndarray:
        """Chosen rows as an array."""
        return self[index].dense()

    def diag(self) -> np.ndarray:
        """k(x_i, y_i), without the matrix."""
        if self.symmetric:
            return self.engine.diag(self.x)
        n = min(self.shape)
        return np.array([self.block([i], [i])[0, 0] for i in range(n)], dtype=self.dtype)

    def __getitem__(self, key) -> "Gram":
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        x, y = self.x.take(_index(rows, self.shape[0])), self.y.take(_index(columns, self.shape[1]))
        if self.symmetric and np.array_equal(x.index, y.index):
            y = x
        return self._of(x, y)

    def _of(self, x, y, kernel=None):
        """A Gram of the same kind on other sides."""
        return Gram(kernel or self.kernel, self.engine, x, y, self.memory)

    def on(self, device) -> "Gram":
        """The same Gram with tensors on a device of torch's as results."""
        from mercer.gram.tensors import TensorGram

        return TensorGram(self.kernel, self.engine, self.x, self.y, self.memory, device)

    @property
    def T(self) -> "Gram":  # noqa: N802
        return self if self.symmetric else self._of(self.y, self.x)

    def __matmul__(self, V):
        if isinstance(V, Operator):
            return NotImplemented
        V = np.asarray(V)
        if V.shape[0] != self.shape[1]:
            raise ValueError(f"cannot multiply {self.shape[0]} x {self.shape[1]} with shape {V.shape}")
        V2 = V.reshape(len(V), math.prod(V.shape[1:]))
        out = self.engine.matmul(self.x, self.y, V2)
        return out.reshape(len(out), *V.shape[1:])

    def reduce(self, op: str, **options):
        """Row-wise "sum", "logsumexp", "max", "topk" (k=, largest=), "argmin" or "within" (radius=), tile by tile.

        "topk" gives (values, columns) of the k largest or smallest entries, best first, ties to the smaller column; "within"
        gives (indptr, columns, values) of all entries <= radius: those of row i are at indptr[i] : indptr[i + 1].
        """
        self._require_columns()
        return self.engine.reduce(self.x, self.y, op, **options)

    def _require_columns(self):
        if not self.shape[1]:
            raise ValueError("the Gram has no columns: there is nothing to reduce over")

    def trace(self) -> float:
        return float(self.diag().sum(dtype=np.float64))

    # ------------------------------------------------------------------------------------ distances, gradients
    def squared_distances(self) -> "Gram":
        """The lazy matrix of d^2 = k(x,x) + k(y,y) - 2 k(x,y)."""
        from mercer.kernels.distance import SquaredKernelDistance

        return self._with_kernel(SquaredKernelDistance(self.kernel))

    def _with_kernel(self, kernel):
        lowered = lower(kernel)
        y = self.engine.prepare(lowered, self.y.rows)
        x = y if self.symmetric else self.engine.prepare(lowered, self.x.rows, like=y)
        return self._of(x, y, kernel)

    def pullback(self, W=None) -> dict[str, np.ndarray]:
        """Gradient of sum(W * K) in the kernel's parameters, by name; W an array, or (U, V) meaning U @ V.T."""
        return self._by_name(self.engine.pullback(self.x, self.y, W))

    def pullback_diag(self, v) -> dict[str, np.ndarray]:
        """Gradient of sum(v * diag K) in the kernel's parameters, by name, for a symmetric Gram and v (n,)."""
        return self._by_name(self.engine.pullback_diag(self.x, v))

    def _by_name(self, found):
        return {name: self._slope(found.get(name, self._zero(name)), name) for name in self.kernel.differentiable}

    def _zero(self, name):
        return np.zeros(np.shape(self.kernel.get_params()[name]))

    def pullback_inputs(self, W=None) -> np.ndarray:
        """Gradient of sum(W * K) in the rows of X; in a symmetric Gram both places of a row move."""
        require_differentiable_inputs(self.kernel)
        return self._slope(self.engine.pullback_inputs(self.x, self.y, W), "the rows of X")

    def _slope(self, values, name):
        if not np.isfinite(values).all():
            raise NanError(
                f"the gradient of {self.kernel!r} in {name} is NaN or infinite; is W finite, and are the columns scaled?"
            )
        return values


def _index(key, n):
    """Row numbers of an index, slice or mask."""
    if isinstance(key, slice):
        return key
    index = np.asarray(key)
    if index.dtype == bool:
        if index.shape != (n,):
            raise IndexError(f"mask of shape {index.shape} for {n} rows")
        return np.flatnonzero(index)
    index = np.atleast_1d(index)
    if index.size and (index.min() < -n or index.max() >= n):
        raise IndexError(f"row {index.max()} is out of range for {n} rows")
    return index.astype(np.intp) % n if index.size else index.astype(np.intp)

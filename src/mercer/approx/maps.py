r"""Explicit feature maps, :math:`\varphi(x)^T \varphi(y) \approx k(x, y)`: linear methods then do the work of a kernel (X3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.errors import NanError
from mercer.kernels import Kernel, Named, On, Scaled
from mercer.registry import register_record
from mercer.threads import map_tiles

__all__ = ["FeatureMap", "MapError", "RandomMap", "Target"]

#: Rows of a thread's job, and rows computed at a time. Every product has exactly BLOCK rows, the last ones zeros if need be:
#: BLAS gives other last digits in other shapes, and features must not depend on how the rows were cut into pieces.
TILE, BLOCK = 1024, 64


@register_record
@dataclass(frozen=True)
class MapError:
    """How far the inner products of features are from the kernel on some pairs of rows: mean and largest absolute difference,
    and the difference relative to the Gram matrix in the Frobenius norm."""

    mean: float
    largest: float
    frobenius: float
    n_rows: int

    def __str__(self):
        return (
            f"|error| {self.mean:.3g} on average, {self.largest:.3g} at most, {self.frobenius:.3g} relative "
            f"(Frobenius norm), on {self.n_rows} rows"
        )


@register_record
@dataclass(frozen=True, eq=False)
class Target:
    """What a map approximates: scale times a leaf, of the columns that `on` chose (outermost first) among d."""

    kernel: Kernel
    leaf: Kernel
    scale: float
    parts: tuple
    d: int

    @classmethod
    def of(cls, kernel, d: int, leaves: tuple, what: str) -> "Target":
        """Take a kernel apart; leaves that are not among `leaves` are refused."""
        leaf, scale, parts = kernel, 1.0, []
        while isinstance(leaf, (Scaled, On, Named)):
            scale *= float(getattr(leaf, "scale", 1.0))
            parts += [tuple(leaf.chosen)] if isinstance(leaf, On) else []
            leaf = leaf.kernel
        if type(leaf) not in leaves:
            names = ", ".join(k.__name__ for k in leaves)
            raise ValueError(
                f"{what} are for {names}, times a number and on chosen columns, as in 2 * {leaves[0].__name__}().on(0, 3); "
                f"got kernel={kernel!r}. Landmarks (Nystroem) do with any kernel"
            )
        if not scale >= 0:
            raise ValueError(f"kernel={kernel!r} has no real features: its scale {scale:g} is negative")
        return cls(kernel, leaf, scale, tuple(parts), int(d))

    def number(self, name):
        """A parameter of the leaf; a word that stands for something taken from data is refused."""
        value = getattr(self.leaf, name)
        if isinstance(value, str):
            raise ValueError(f"kernel={self.kernel!r}: {name}={value!r} is taken from data; pass kernel.resolve(X)")
        return value

    @property
    def width(self) -> int:
        """Columns that the leaf sees."""
        return len(self.parts[-1]) if self.parts else self.d

    def view(self, rows):
        """The leaf's columns of validated rows, as numbers."""
        for columns in self.parts:
            rows = validate.part(rows, columns)
        rows = validate.numeric(rows)
        if rows.shape[1] != self.width:
            raise ValueError(f"X has {rows.shape[1]} columns, but the feature map was made for {self.width}")
        return rows


class ReadOnly:
    """Base of frozen dataclasses that own their arrays and keep them from being changed."""

    def __post_init__(self):
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, state):
        vars(self).update(state)
        self.__post_init__()  # a pickled array forgets that it is read-only


class FeatureMap:
    """A feature map that is a value: arrays and a kernel, no data of the user's but landmarks. Subclasses give `features`."""

    kernel: Any  # that the features stand for
    dim: int  # number of features

    def features(self, rows) -> np.ndarray:
        """Features (n, dim) of rows that are validated already, in their precision."""
        raise NotImplementedError

    def __call__(self, X) -> np.ndarray:
        """Features (n, dim) of rows, in their precision."""
        return self.features(self.kernel.validated(X))

    def kernel_error(self, kernel: Kernel, X, rng: np.random.Generator, n_rows: int = 200) -> MapError:
        """Error of the features against a kernel on a sample of at most `n_rows` rows."""
        rows = kernel.validated(X)
        n = validate.n_rows(rows)
        if n > n_rows:
            rows = validate.take(rows, np.sort(rng.choice(n, n_rows, replace=False)))
        F, K = self.features(rows).astype(np.float64), kernel(rows).astype(np.float64)
        with np.errstate(all="ignore"):
            E = np.abs(on_one_thread(lambda: F @ F.T) - K)
            unit = max(E.max(), np.abs(K).max())  # squares of 1e200 would overflow
            relative = np.sqrt(np.square(E / unit).sum() / np.square(K / unit).sum()) if E.any() else 0.0
        if not np.isfinite(E).all():
            raise NanError(f"inner products of features of {kernel!r} overflow; rescale the columns of X")
        return MapError(float(E.mean()), float(E.max()), float(relative), len(K))


@dataclass(frozen=True, eq=False)
class RandomMap(ReadOnly, FeatureMap):
    """A map whose arrays are drawn at random and read-only. Subclasses give `_prepared`.

    Features of a row depend on that row alone, to the last digit: not on the rows beside it, their number or the threads.
    """

    target: Target
    dim: int  # number of features

    @property
    def kernel(self) -> Kernel:
        """The kernel that the features stand for."""
        return self.target.kernel

    def _prepared(self, dtype) -> Callable[[np.ndarray], np.ndarray]:
        """Function from a block of BLOCK rows, dense or CSR, to its features; constants are brought to the dtype once."""
        raise NotImplementedError

    def features(self, rows) -> np.ndarray:
        """Features (n, dim) of rows that are validated already."""
        n, dtype = validate.n_rows(rows), self.target.view(validate.take(rows, slice(0, 1))).dtype
        compute, out = self._prepared(dtype), np.empty((n, self.dim), dtype)

        def job(tile):
            for start in range(tile * TILE, min((tile + 1) * TILE, n), BLOCK):
                stop = min(start + BLOCK, n)
                block = _filled_up(self.target.view(validate.take(rows, slice(start, stop))))
                with np.errstate(all="ignore"):  # what overflows is refused
                    found = compute(block)[: stop - start]
                if not np.isfinite(found).all():
                    raise NanError(
                        f"features of {self.kernel!r} overflow in {np.dtype(dtype)}; rescale the columns of X"
                    )
                out[start:stop] = found

        map_tiles(job, -(-n // TILE))
        return out


def _filled_up(rows):
    """A contiguous block of BLOCK rows, those that are missing being zero."""
    missing = BLOCK - rows.shape[0]
    if not sp.issparse(rows):
        return np.ascontiguousarray(np.pad(rows, ((0, missing), (0, 0))) if missing else rows)
    ends = np.pad(rows.indptr, (0, missing), mode="edge")
    return sp.csr_array((rows.data, rows.indices, ends), shape=(BLOCK, rows.shape[1]))


def on_one_thread(job):
    """What a job of linear algebra returns; on more BLAS threads it would have other last digits."""
    return map_tiles(lambda _: job(), 1)[0]


def checked_width(n_components) -> int:
    """n_components, a number of features."""
    whole = isinstance(n_components, (int, np.integer)) and not isinstance(n_components, bool)
    if not whole or n_components < 1:
        raise ValueError(f"n_components={n_components!r} must be an integer >= 1")
    return int(n_components)

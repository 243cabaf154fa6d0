"""What solvers see of a Gram: something with @, a diagonal, rows and a dense form; so are sums with diagonals, and centring."""

from typing import Any

import numpy as np

from mercer.engines import reductions
from mercer.errors import NotSymmetricError
from mercer.threads import map_tiles, stopping

__all__ = ["CentredGram", "Diagonal", "GivenGram", "Operator", "ShiftedGram"]

_REDUCED = 2**22  # entries that a thread passes over before it looks up
_FEW, _LARGE, _ROWS = 64, 2**22, 256  # columns that are few, entries of a matrix that is large, rows of it at a time
_HALVED, _GROUPS = 32, 8  # columns up to which half of a symmetric matrix is read, and in how many parts


class Operator:
    """Base of Grams and of what is made from them."""

    shape: tuple[int, int]
    dtype: np.dtype

    def __matmul__(self, V):
        raise NotImplementedError

    def dense(self) -> np.ndarray:
        raise NotImplementedError

    def matrix(self, dtype=None) -> Any:
        """The whole matrix for a solver to work in, where it is computed: an array, or a tensor on the engine's device."""
        return self.dense().astype(dtype or self.dtype, copy=False)

    def diag(self) -> np.ndarray:
        raise NotImplementedError

    def rows(self, index) -> np.ndarray:
        raise NotImplementedError

    def __len__(self):
        return self.shape[0]

    def __add__(self, other):
        if isinstance(other, Diagonal):
            return ShiftedGram(self, other)
        return NotImplemented

    def centred(self, like: "Operator | None" = None) -> "CentredGram":
        """Centred in feature space: H K H, or for new rows with the training Gram's means on the training side."""
        return CentredGram(self, like)

    def trace(self) -> float:
        return float(self.diag().sum(dtype=np.float64))


class Diagonal:
    """A diagonal matrix: one number for all rows, or one each.

    >>> Diagonal(0.5).values
    0.5
    """

    def __init__(self, values):
        self.values = values


class GivenGram(Operator):
    """A Gram matrix in memory: one that the user computed (kernel="precomputed"), or that is held for many products.

    mirrored: whether it is known to be its own transpose, to the last bit.
    """

    kernel = None

    def __init__(self, K, mirrored=False):
        self.K, self.mirrored = K, mirrored

    @property
    def shape(self):
        return self.K.shape

    @property
    def dtype(self):
        return self.K.dtype

    @property
    def symmetric(self):
        return self.K.shape[0] == self.K.shape[1]

    def check_symmetric(self, step=1024):
        """Refuse a training Gram that is not symmetric; compared block by block, without a copy."""
        n, scale, gap = len(self.K), 0.0, 0.0
        for i in range(0, n, step):
            a, b = self.K[i : i + step], self.K[:, i : i + step].T
            gap, scale = max(gap, np.abs(a - b).max()), max(scale, np.abs(a).max())
        if gap > 100 * np.finfo(self.dtype).eps * max(scale, np.finfo(self.dtype).tiny):
            raise NotSymmetricError(
                f"the precomputed kernel matrix is not symmetric: entries differ by up to {gap:g}; "
                "pass (K + K.T) / 2 if that is rounding"
            )
        self.mirrored = bool(gap == 0.0)

    def __matmul__(self, V):
        V = np.asarray(V)
        columns = V.size // max(len(V), 1)
        if columns > _FEW or V.dtype != self.dtype or self.K.size < _LARGE or not self.K.flags.c_contiguous:
            return self.K @ V
        if self.mirrored and 1 <= columns <= _HALVED and self.K.flags.writeable:  # or it would have to be compiled anew
            return _from_one_half(self.K, V.reshape(len(V), -1)).reshape(V.shape)
        if V.ndim == 1:
            return self.K @ V
        # BLAS is slow on a large matrix times few columns; by rows, one thread each, it keeps up with the memory.
        out = np.empty((len(self.K), V.shape[1]), self.dtype)

        def job(i):
            some = slice(i * _ROWS, (i + 1) * _ROWS)
            np.matmul(self.K[some], V, out=out[some])

        map_tiles(job, -(-len(out) // _ROWS))
        return out

    def dense(self):
        return self.K.copy()

    def diag(self):
        return np.diagonal(self.K).copy()

    def rows(self, index):
        return self.K[index]

    def block(self, rows, columns):
        return self.K[rows][:, columns]

    def fill(self, out, i0, j0, rows, columns):
        out[i0 : i0 + len(rows), j0 : j0 + len(columns)] = self.K[np.ix_(rows, columns)]

    def __getitem__(self, key):
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        return GivenGram(self.K[rows][:, columns])

    @property
    def T(self):  # noqa: N802
        return self if self.mirrored else GivenGram(self.K.T)

    def reduce(self, op, **options):
        """As `Gram.reduce`, by blocks of rows: an interrupt need not wait for the whole matrix."""
        step = max(1, _REDUCED // max(self.shape[1], 1))

        def job(i):
            state = reductions.start(op, reductions.COMPILED, **options)
            state.add(self.K[i * step : (i + 1) * step], 0)
            return state.result()

        return reductions.join(op, map_tiles(job, max(1, -(-len(self.K) // step))))


class ShiftedGram(Operator):
    """K + D with a diagonal D."""

    def __init__(self, base, diagonal):
        self.base, self.shift = base, np.broadcast_to(np.asarray(diagonal.values), (base.shape[0],))

    @property
    def shape(self):
        return self.base.shape

    @property
    def dtype(self):
        return self.base.dtype

    def __matmul__(self, V):
        shift = self.shift if np.ndim(V) == 1 else self.shift[:, None]
        return self.base @ V + (shift * V).astype(self.dtype, copy=False)

    def dense(self):
        K = self.base.dense()
        K[np.diag_indices(len(K))] += self.shift.astype(K.dtype)
        return K

    def diag(self):
        return self.base.diag() + self.shift.astype(self.dtype)

    def rows(self, index):
        index = np.atleast_1d(index)
        out = np.array(self.base.rows(index))
        out[np.arange(len(index)), index] += self.shift[index].astype(out.dtype)
        return out


def _from_one_half(K, V):
    """K V for a symmetric K, of which each number above the diagonal is read once and used twice.

    Strips of rows are added up in groups that do not depend on the number of threads.
    """
    from mercer.gram._compiled import LANES, half_product

    n, columns = V.shape
    padded = np.zeros((n, -(-columns // LANES) * LANES), K.dtype)
    padded[:, :columns] = V
    parts = [np.ascontiguousarray(padded[:, c : c + LANES]) for c in range(0, padded.shape[1], LANES)]

    def group(g):
        totals = [np.zeros_like(part) for part in parts]
        for i in range(g * _ROWS, n, _GROUPS * _ROWS):
            for part, total in zip(parts, totals, strict=True):
                if not stopping():
                    half_product(K, part, i, min(i + _ROWS, n), total)
        return totals

    found = map_tiles(group, min(_GROUPS, -(-n // _ROWS)))
    return np.hstack([sum(some[1:], some[0]) for some in zip(*found, strict=True)])[:, :columns]


class CentredGram(Operator):
    """K minus its column means, row means plus the grand mean: the Gram of features with mean 0 over the training rows.

    `like` is the training Gram when the rows are new ones; its means belong to the training side.
    """

    def __init__(self, base, like=None):
        self.base = base
        n = base.shape[1]
        self.row_means = (base.reduce("sum") / n).astype(np.float64)
        self.column_means = self.row_means if like is None else (like.reduce("sum") / n).astype(np.float64)
        self.mean = float(self.column_means.mean())

    @property
    def shape(self):
        return self.base.shape

    @property
    def dtype(self):
        return self.base.dtype

    def _corrected(self, block, rows):
        out = block - self.row_means[rows, None].astype(block.dtype)
        out += (self.mean - self.column_means).astype(block.dtype)
        return out

    def __matmul__(self, V):
        V2 = np.asarray(V).reshape(len(V), -1)
        sums = V2.sum(axis=0, dtype=np.float64)
        out = self.base @ V2 - np.outer(self.row_means, sums) + (self.mean * sums - self.column_means @ V2)
        return out.astype(np.result_type(self.dtype, V2.dtype), copy=False).reshape(self.shape[0], *np.shape(V)[1:])

    def dense(self):
        return self._corrected(self.base.dense(), slice(None))

    def diag(self):
        n = min(self.shape)
        return (self.base.diag() - self.row_means[:n] - self.column_means[:n] + self.mean).astype(self.dtype)

    def rows(self, index):
        return self._corrected(self.base.rows(index), np.atleast_1d(index))

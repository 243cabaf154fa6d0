"""Several Gram matrices of the same rows: centred, brought to one size, held as lower triangles, and what is asked of them."""

from collections.abc import Iterable

import numpy as np

from mercer.errors import NanError
from mercer.threads import each_part, map_tiles

__all__ = ["GramStack"]

_STRIDE = (
    2**18
)  # numbers of a triangle that a thread passes over at a time; fixed, so that sums do not depend on threads
_LITTLE = 2**16
_BLOCK = 256
_FLAT = 100  # times rounding: a kernel that varies by less than this is constant on the rows


class GramStack:
    """k centred Gram matrices (n, n) of unit variance, as lower triangles row by row: k n (n + 1) / 2 numbers.

    `scales` (k,) are the variances in feature space, tr(H K H) / n, that the matrices were divided by; 0 of those that are
    constant on the rows, whose triangles are 0. Machines with an intercept see no difference between K and H K H: their
    coefficients sum to 0, and what is left of the means is a constant.
    """

    def __init__(self, triangles: np.ndarray, n: int, scales: np.ndarray):
        self.triangles, self.n, self.scales = triangles, n, scales

    @classmethod
    def of(cls, matrices: Iterable[np.ndarray], k: int, n: int, dtype) -> "GramStack":
        """Of k matrices (n, n), made one after the other; each is overwritten."""
        triangles, scales = np.empty((k, n * (n + 1) // 2), dtype), np.zeros(k)
        for triangle, (i, K) in zip(triangles, enumerate(matrices), strict=True):
            scales[i] = _standardise(K)
            _pack(K, triangle)
        return cls(triangles, n, scales)

    def __len__(self):
        return len(self.triangles)

    @property
    def varying(self) -> np.ndarray:
        """Numbers of the kernels that are not constant on the rows."""
        return np.flatnonzero(self.scales)

    def of_rows(self, index) -> "GramStack":
        """The same kernels on some of the rows, centred and scaled anew; `scales` are relative to the ones here."""
        matrices = (self.matrix(i)[np.ix_(index, index)] for i in range(len(self)))
        return GramStack.of(matrices, len(self), len(index), self.triangles.dtype)

    def chosen(self, kernels) -> "GramStack":
        """Some of the kernels; a view where that can be."""
        kernels = slice(None) if len(kernels) == len(self) else kernels
        return GramStack(self.triangles[kernels], self.n, self.scales[kernels])

    def matrix(self, i: int) -> np.ndarray:
        """One of the matrices (n, n)."""
        return _unpacked(self.triangles[i], self.n)

    def combined(self, weights) -> np.ndarray:
        """sum_i weights_i K_i (n, n)."""
        out = np.empty(self.triangles.shape[1], self.triangles.dtype)
        w = np.asarray(weights, out.dtype)

        def job(c):
            np.matmul(w, self.triangles[:, self._part(c)], out=out[self._part(c)])

        self._each(job)
        return _unpacked(out, self.n)

    def products(self) -> np.ndarray:
        """<K_i, K_j> (k, k), the sum over all pairs of rows."""

        def job(c):
            T = self.triangles[:, self._part(c)].astype(np.float64, copy=False)
            return T @ T.T

        D = self.diagonals()
        return 2.0 * np.sum(self._each(job), axis=0) - D @ D.T  # what is beside the diagonal counts twice

    def diagonals(self) -> np.ndarray:
        """Diagonals (k, n)."""
        return self.triangles[:, np.cumsum(np.arange(1, self.n + 1)) - 1].astype(np.float64)

    def inner(self, W: np.ndarray) -> np.ndarray:
        """sum of W * K_i over all pairs of rows (k,); W (n, n) need not be symmetric."""
        both = W + W.T
        both[np.diag_indices(self.n)] = np.diagonal(W)
        triangle = np.empty(self.triangles.shape[1])
        _pack(both, triangle)

        def job(c):
            return self.triangles[:, self._part(c)].astype(np.float64, copy=False) @ triangle[self._part(c)]

        return np.sum(self._each(job), axis=0)

    def forms(self, B: np.ndarray) -> np.ndarray:
        """sum_j b_j^T K_i b_j (k,) over the columns of B (n, p); not below 0."""
        B = B.astype(np.float64, copy=False)
        return np.maximum(self.inner(B @ B.T), 0.0)

    def _each(self, job):
        """[job(c), ...] over the parts of a triangle; threads are not worth their start where there is little to do."""
        if self.triangles.size <= _LITTLE:
            return [job(0)]
        return map_tiles(job, -(-self.triangles.shape[1] // _STRIDE))

    @staticmethod
    def _part(c):
        return slice(c * _STRIDE, (c + 1) * _STRIDE)


def _standardise(K) -> float:
    """Centre K and divide it by its variance, in place; returns that, or 0 and K = 0 if there is none but rounding."""
    size = float(np.abs(np.diagonal(K)).max(initial=0.0))
    means = K.mean(axis=0, dtype=np.float64)
    if not np.isfinite(means).all():
        raise NanError("a Gram matrix holds NaN, infinity, or numbers whose sum overflows; rescale the columns of X")
    _centre(K, means)
    variance = float(np.diagonal(K).mean(dtype=np.float64))
    least = _FLAT * np.finfo(K.dtype).eps * size
    if not variance > max(least, np.finfo(K.dtype).tiny / np.finfo(K.dtype).eps):
        K[...] = 0.0
        return 0.0
    K /= K.dtype.type(variance)
    return variance


def _centre(K, means):
    right = (means - means.mean()).astype(K.dtype)

    def job(b):
        rows = slice(b * _BLOCK, (b + 1) * _BLOCK)
        K[rows] -= means[rows, None].astype(K.dtype)
        K[rows] -= right

    each_part(job, -(-len(K) // _BLOCK), K.size)


def _pack(K, out):
    start = 0
    for i, row in enumerate(K):
        out[start : start + i + 1] = row[: i + 1]
        start += i + 1


def _unpacked(triangle, n):
    K, start = np.empty((n, n), triangle.dtype), 0
    for i in range(n):
        K[i, : i + 1] = triangle[start : start + i + 1]
        start += i + 1
    for a in range(0, n, _BLOCK):
        b = min(a + _BLOCK, n)
        K[:a, a:b] = K[a:b, :a].T
        lower = np.tril(K[a:b, a:b], -1)
        K[a:b, a:b] = lower + lower.T + np.diag(np.diagonal(K[a:b, a:b]))
    return K

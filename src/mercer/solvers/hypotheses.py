r"""Tests of hypotheses on Gram matrices (M23): two samples by MMD, independence by HSIC.

Both statistics are inner products of centred matrices. With :math:`K_c = H K H` of the pooled rows and u the indicator of the
first sample minus its mean, :math:`\mathrm{MMD}^2 = (1/n + 1/m)^2\, u^T K_c u`; with two centred Gram matrices of the same rows
:math:`\mathrm{HSIC} = \langle K_c, L_c \rangle / n^2`. A permutation of the rows replaces B by :math:`P B P^T` in
:math:`\langle A, B \rangle`, whose mean and variance over all permutations are known exactly: gamma approximations and
block tests rest on them, not on estimates.

Gretton et al. (2012), Gretton et al. (2008), Zaremba, Gretton & Blaschko (2013); the moments are those of Kazi-Aoual et al.
(1995); unbiased forms through U-centred matrices as in Székely & Rizzo (2014).
"""

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from mercer.gram import GivenGram
from mercer.gram.operators import Operator
from mercer.linalg import rpcholesky, top_eigenpairs
from mercer.threads import map_tiles

__all__ = [
    "FACTOR_ROWS",
    "BlockSums",
    "Centred",
    "IndependenceForm",
    "TwoSampleForm",
    "centred_gram",
    "factor_rank",
    "factored_gram",
    "hsic_blocks",
    "mmd_blocks",
    "permutation_moments",
]

_ENTRIES = 2**20  # of a centred matrix that a thread looks at together
_RANK = 256  # columns of a factor, at most
_DENSE = 1000  # rows up to which all eigenvalues are computed
_LEADING = 50  # eigenvalues of more rows
_WEIGHTS = 1000  # chi-squares that are drawn one by one; the rest is drawn as one gamma variable
_ORDERS = 2**22  # row numbers of permutations that are held together
_PAIRS = 2**24  # products that a compiled call may add up
_FACTOR, FACTOR_ROWS = 10, 500  # squares of ranks up to so many times the rows, of so many rows, are worth a factor
_TILE = 64  # rows of several small blocks that are computed together


# ------------------------------------------------------------------------------------------------ centred matrices
class Sums(NamedTuple):
    """What moments over permutations need of a centred matrix: its trace, and sums of squares of all and of diagonal entries."""

    trace: float
    square: float
    diagonal: float


@dataclass(frozen=True, eq=False)
class Centred:
    """A Gram matrix centred in feature space, held or computed in tiles. noise: size of rounding errors in its entries."""

    matrix: Any
    diag: np.ndarray
    noise: float

    def __len__(self):
        return len(self.diag)

    @property
    def flat(self) -> bool:
        """Whether all rows are the same to the kernel, but for rounding."""
        return bool(self.diag.max() <= 8 * self.noise)

    @cached_property
    def trace(self) -> float:
        return float(self.diag.sum())

    @cached_property
    def square(self) -> float:
        return inner(self, self)

    @property
    def biased(self) -> Sums:
        return Sums(self.trace, self.square, float(self.diag @ self.diag))

    @property
    def unbiased(self) -> Sums:
        """Of the U-centred matrix: its diagonal is 0, and so are the sums of its rows."""
        return Sums(0.0, max(u_inner(self.square, self.diag, self.diag), 0.0), 0.0)

    def rows(self, start, stop):
        return self.matrix.rows(np.arange(start, stop))

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """All, or of many rows the leading ones, largest first; none is negative."""
        n = len(self)
        if n <= _DENSE:
            A = self.matrix.dense().astype(np.float64, copy=False)
            found = map_tiles(lambda _: np.linalg.eigvalsh(A), 1)[0][::-1]  # with one thread: of few rows it is quicker
        else:
            found = top_eigenpairs(self.matrix, _LEADING, rng=np.random.default_rng(0), tol=1e-3).values
        return np.maximum(found.astype(np.float64), 0.0)


def centred_gram(K, hold: bool) -> Centred:
    """A symmetric Gram as a centred matrix, in memory if `hold`."""
    if not hold:
        lazy = K.centred()
        return Centred(lazy, _centred_diagonal(K.diag(), lazy.row_means), _noise(K, K.diag(), lazy.row_means))
    A = K.dense()
    own = np.diagonal(A).astype(np.float64)
    means = np.concatenate(_by_rows(lambda i: A[i].mean(axis=1, dtype=np.float64), A.shape))
    shift = (means.mean() - means).astype(A.dtype)

    def centre(i):
        A[i] -= means[i, None].astype(A.dtype)
        A[i] += shift

    _by_rows(centre, A.shape)
    return Centred(GivenGram(A), _centred_diagonal(own, means), _noise(A, own, means))


def factor_rank(n) -> int:
    """Columns up to which a factor of n rows is worth it."""
    return min(isqrt(_FACTOR * n), _RANK)


def factored_gram(K) -> Centred | None:
    """A symmetric PSD Gram as a centred matrix of low rank, so exact that it does not matter; None where it takes many columns.

    A permutation test on it has its exact level, like any kernel.
    """
    tol = max(1e-9, 100.0 * float(np.finfo(K.dtype).eps))
    found = rpcholesky(K, factor_rank(K.shape[0]), rng=np.random.default_rng(0), tol=tol)
    if found.error > tol:
        return None
    means = found.factor.mean(axis=0, dtype=np.float64)
    F = found.factor - means.astype(K.dtype)
    noise = _noise(K, K.diag(), found.factor @ means.astype(K.dtype))
    return Centred(FactorGram(F), np.einsum("ij,ij->i", F, F, dtype=np.float64), noise)


class FactorGram(Operator):
    """The matrix F F^T."""

    def __init__(self, F):
        self.F, self.shape, self.dtype = F, (len(F), len(F)), F.dtype

    def rows(self, index):
        return self.F[index] @ self.F.T


def _factor_products(A, B, orders):
    """The inner products of A and of B in these orders."""
    return np.array(map_tiles(lambda b: np.square(A.F.T @ B.F[orders[b]], dtype=np.float64).sum(), len(orders)))


def _centred_diagonal(own, means):
    return own.astype(np.float64) - 2.0 * means + means.mean()


def _noise(K, own, means):
    """Size of rounding errors of centred entries. No entry of a PSD matrix is larger than its diagonal."""
    return float(np.finfo(K.dtype).eps * max(np.abs(own).max(), np.abs(means).max()))


def _by_rows(job, shape, products=False):
    """[job(slice of rows), ...] in order, over the threads; a slice is what a thread passes over before it looks up."""
    n, step = shape[0], max(1, _ENTRIES // max(shape[1], 1))
    if n <= step and not products:  # plain passes over few numbers; products must not depend on the threads of BLAS
        return [job(slice(0, n))]
    return map_tiles(lambda i: job(slice(i * step, min((i + 1) * step, n))), -(-n // step))


def inner(A: Centred, B: Centred) -> float:
    """Sum of the products of entries."""
    n = len(A)

    def job(i):
        a = A.rows(i.start, i.stop)
        b = a if B is A else B.rows(i.start, i.stop)
        return np.einsum("ij,ij->", a, b, dtype=np.float64)

    if isinstance(A.matrix, FactorGram) and isinstance(B.matrix, FactorGram):
        return float(_factor_products(A.matrix, B.matrix, np.arange(n)[None])[0])
    return float(sum(_by_rows(job, (n, n))))


def u_inner(product, a, b):
    """The inner product of two matrices when both are U-centred, from that of the centred ones and their diagonals."""
    n = a.shape[-1]
    together, traces = (a * b).sum(axis=-1), a.sum(axis=-1) * b.sum(axis=-1)
    return product - n / (n - 2) * together + traces / ((n - 1) * (n - 2))


def permutation_moments(n: int, A: Sums, B: Sums) -> tuple[float, float]:
    """Exact mean and variance of <A, P B P^T> over all permutations of n >= 4 rows; A and B have rows that add up to 0."""
    mean = A.trace * B.trace / (n - 1)
    first = [(n - 1) * s.square - s.trace**2 for s in (A, B)]
    second = [n * (n + 1) * s.diagonal - (n - 1) * (s.trace**2 + 2 * s.square) for s in (A, B)]
    variance = 2.0 * first[0] * first[1] / ((n - 1) ** 2 * (n + 1) * (n - 2))
    variance += second[0] * second[1] / ((n + 1) * n * (n - 1) * (n - 2) * (n - 3))
    return mean, max(variance, 0.0)


# ------------------------------------------------------------------------------------------------ the two statistics
class _Form:
    """A statistic that is an inner product of centred matrices. Its null distribution is about that of

    scale * (sum_i w_i z_i^2), z_i standard normal, minus its mean where the statistic is unbiased.
    """

    unbiased: bool
    scale: float
    total: float  # sum of the w_i
    total_square: float  # of their squares
    variance: float  # over all permutations, exactly

    def leading_weights(self) -> np.ndarray:
        raise NotImplementedError

    @property
    def centre(self) -> float:
        """Mean of the sum of squares, which the unbiased statistic is without."""
        return self.scale * self.total

    @property
    def mean(self) -> float:
        """Mean over all permutations, exactly."""
        return 0.0 if self.unbiased else self.centre

    def spectral(self, count, rng) -> np.ndarray:
        """Draws (count,) of the weighted sum of chi-squares, with the exact mean and variance of the statistic.

        Weights that are not leading are drawn as one gamma variable.
        """
        w = self.leading_weights()
        out = np.concatenate([np.square(rng.standard_normal((b, len(w)))) @ w for b in _pieces(count, len(w))])
        rest, square = self.total - w.sum(), self.total_square - w @ w
        if rest > 1e-9 * self.total:
            spread = max(square, rest**2 / len(self)) / rest  # of so many equal weights at least
            out += 2.0 * spread * rng.standard_gamma(rest / (2.0 * spread), count)
        exact = np.sqrt(self.variance / (2.0 * self.total_square)) if self.total_square > 0 else 0.0
        return self.mean + (out - self.total) * exact

    def __len__(self):
        raise NotImplementedError


def _pieces(count, width):
    step = max(1, _ENTRIES // max(width, 1))
    return [min(step, count - i) for i in range(0, count, step)]


class TwoSampleForm(_Form):
    """MMD^2 of the first n of the rows of a centred Gram, and the others."""

    def __init__(self, C: Centred, n: int, unbiased: bool):
        self.C, self.n, self.m, self.unbiased = C, n, len(C) - n, unbiased
        n, m, N = self.n, self.m, len(C)
        self.factor = 1 / (n * (n - 1)) + 1 / (m * (m - 1)) + 2 / (n * m) if unbiased else (1 / n + 1 / m) ** 2
        self.scale = self.factor * n * m / N / (N - 1)
        self.tie = self.factor * 4 * C.noise * N

    def __len__(self):
        return len(self.C)

    @property
    def flat(self) -> bool:
        return self.C.flat

    @cached_property
    def value(self) -> float:
        return float(self._values((np.arange(len(self)) < self.n)[:, None])[0])

    def permuted(self, count, rng, columns) -> np.ndarray:
        """The statistic (count,) of random permutations of the rows, so many `columns` in one product with the matrix."""
        parts = []
        for start in range(0, count, columns):
            S = np.zeros((len(self), min(columns, count - start)), bool)
            for j in range(S.shape[1]):
                S[rng.permutation(len(self))[: self.n], j] = True
            parts.append(self._values(S))
        return np.concatenate(parts)

    def _values(self, S):
        """The statistic of samples whose rows are marked in the columns of S."""
        U = S.astype(self.C.matrix.dtype) - self.C.matrix.dtype.type(self.n / len(self))

        def job(i):
            return np.einsum("ij,ij->j", U[i], self.C.rows(i.start, i.stop) @ U, dtype=np.float64)

        q = sum(_by_rows(job, (len(self), len(self)), products=True))
        if not self.unbiased:
            return self.factor * q
        n, m, first = self.n, self.m, self.C.diag @ S
        return (q - first) / (n * (n - 1)) + (q - (self.C.trace - first)) / (m * (m - 1)) + 2 * q / (n * m)

    @property
    def total(self):
        return self.C.trace

    @property
    def total_square(self):
        return self.C.square

    @cached_property
    def variance(self):
        n, m, N = self.n, self.m, len(self)
        side = n * m / N
        labels = Sums(side, side**2, n * (m / N) ** 4 + m * (n / N) ** 4)
        rows = self.C.unbiased if self.unbiased else self.C.biased
        return self.factor**2 * permutation_moments(N, rows, labels)[1]

    def leading_weights(self):
        return self.C.eigenvalues[:_WEIGHTS]

    def power_ratio(self) -> float:
        """The statistic over its standard deviation where samples differ: of first order, plus the variance where they do not."""
        n, m, N = self.n, self.m, len(self)
        u = np.where(np.arange(N) < n, m / N, -n / N).astype(self.C.matrix.dtype)
        witness = (1 / n + 1 / m) * np.concatenate(
            _by_rows(lambda i: self.C.rows(i.start, i.stop) @ u, (N, N), products=True)
        )
        witness = witness.astype(np.float64)
        first = 4.0 * (witness[:n].var() / n + witness[n:].var() / m)
        return _ratio(self.value, first + self.variance)


class IndependenceForm(_Form):
    """HSIC of two centred Grams of the same rows."""

    def __init__(self, A: Centred, B: Centred, unbiased: bool):
        self.A, self.B, self.unbiased = A, B, unbiased
        n = len(A)
        self.factor = 1 / (n * (n - 3)) if unbiased else 1 / n**2
        self.scale = self.factor / (n - 1)

    def __len__(self):
        return len(self.A)

    @property
    def flat(self) -> bool:
        return self.A.flat or self.B.flat

    @property
    def tie(self):
        return self.factor * 4 * (self.A.noise * np.sqrt(self.B.square) + self.B.noise * np.sqrt(self.A.square))

    @cached_property
    def value(self) -> float:
        return float(self._of(inner(self.A, self.B), self.B.diag))

    def _of(self, product, diag):
        """The statistic of the inner product, and of the diagonals of the second matrix."""
        return self.factor * (u_inner(product, self.A.diag, diag) if self.unbiased else product)

    def permuted(self, count, rng, columns=None) -> np.ndarray:
        """The statistic (count,) of random permutations of the rows of the second matrix; both must be held, or factored."""
        step = max(1, _ORDERS // len(self))
        return np.concatenate([self._reordered(min(step, count - i), rng) for i in range(0, count, step)])

    def _reordered(self, count, rng):
        A, B = self.A.matrix, self.B.matrix
        orders = np.array([rng.permutation(len(self)) for _ in range(count)])
        if isinstance(A, FactorGram) and isinstance(B, FactorGram):
            sums = _factor_products(A, B, orders)
        else:
            sums = self._permuted_products(A.K, B.K, orders)
        shuffled = (self.B.diag[o] for o in orders)
        return np.array([self._of(s, d) for s, d in zip(sums, shuffled, strict=True)])

    def _permuted_products(self, A, B, orders):
        from mercer.solvers._compiled_hypotheses import permuted_products

        count, n = orders.shape
        cuts = np.linspace(0, n, 1 + -(-n * n // _PAIRS)).astype(int)  # of rows, and permutations that one call takes
        parts, step = len(cuts) - 1, max(1, _PAIRS // n**2)
        sums = np.zeros((parts, count))

        def job(k):
            b, part = divmod(k, parts)
            some = slice(b * step, (b + 1) * step)
            permuted_products(A, B, orders[some], cuts[part], cuts[part + 1], sums[part, some])

        map_tiles(job, parts * -(-count // step))
        return sums.sum(axis=0)

    @property
    def total(self):
        return self.A.trace * self.B.trace

    @property
    def total_square(self):
        return self.A.square * self.B.square

    @cached_property
    def variance(self):
        sides = (self.A.unbiased, self.B.unbiased) if self.unbiased else (self.A.biased, self.B.biased)
        return self.factor**2 * permutation_moments(len(self), *sides)[1]

    def leading_weights(self):
        both = np.outer(self.A.eigenvalues, self.B.eigenvalues).ravel()
        both = np.partition(both, -_WEIGHTS)[-_WEIGHTS:] if len(both) > _WEIGHTS else both
        return both[both > 0]

    def power_ratio(self) -> float:
        """As of two samples, where the rows are not independent."""
        n = len(self)

        def job(i):
            return np.einsum("ij,ij->i", self.A.rows(i.start, i.stop), self.B.rows(i.start, i.stop), dtype=np.float64)

        own = np.concatenate(_by_rows(job, (n, n))) / n
        return _ratio(self.value, 4.0 * own.var() / n + self.variance)


def _ratio(value, variance):
    return value / np.sqrt(variance) if variance > 0 else -np.inf


# ------------------------------------------------------------------------------------------------ blocks
@dataclass(frozen=True)
class BlockSums:
    """Mean of an unbiased statistic over `count` blocks of `size`; deviation and skewness are those under the hypothesis."""

    value: float
    deviation: float
    skewness: float
    count: int
    size: int


def mmd_blocks(K, n: int, m: int, size: int, rng) -> BlockSums:
    """MMD^2 as the mean over blocks of `size` rows of each sample; K is the lazy Gram of the n + m pooled rows.

    In a block it is the mean of h(i, j) = k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(x_j, y_i) over i != j; a swap of x_i and
    y_i turns its sign, from which moments follow where samples do not differ. size = 2 is the linear test.
    """
    x, y = _blocks(rng.permutation(n)[: min(n, m)], size), _blocks(n + rng.permutation(m)[: min(n, m)], size)

    def job(i):
        a, b = x[i].ravel(), y[i].ravel()
        cross = K.block(a, b)
        H = _own_blocks(K.block(a, a) + K.block(b, b) - cross - cross.T, size)
        H[:, np.arange(size), np.arange(size)] = 0.0
        return H.sum(axis=(1, 2)), 2.0 * np.square(H).sum(axis=(1, 2)), 8.0 * _cubes(H)

    return _block_sums(job, len(x), size, size * (size - 1))


def hsic_blocks(K, L, size: int, rng) -> BlockSums:
    """HSIC as the mean of its unbiased form over blocks of rows; K and L are lazy Grams of the same rows.

    The variance is exact over permutations within blocks, the skewness what it is in blocks of many rows.
    """
    order, free = _blocks(rng.permutation(K.shape[0]), size), size * (size - 3)

    def job(i):
        index = order[i].ravel()
        A, B = (_u_centred(_own_blocks(G.block(index, index), size)) for G in (K, L))
        ab, aa, bb = (np.einsum("gij,gij->g", *pair) for pair in ((A, B), (A, A), (B, B)))
        return ab, 2.0 * aa * bb / free, 8.0 * _cubes(A) * _cubes(B) / free**1.5

    return _block_sums(job, len(order), size, free)


def _blocks(order, size):
    return order[: len(order) // size * size].reshape(-1, size)


def _own_blocks(M, size):
    """The blocks (g, size, size) on the diagonal of a tile, in float64."""
    g = np.arange(len(M) // size)
    return M.reshape(len(g), size, len(g), size)[g, :, g, :].astype(np.float64)


def _u_centred(M):
    """Blocks with a diagonal of 0 and rows that add up to 0; what is rounding of equal rows is 0."""
    size = M.shape[1]
    largest = np.abs(M).max(axis=(1, 2), keepdims=True)
    here = np.arange(size)
    M[:, here, here] = 0.0
    sums = M.sum(axis=2) / (size - 2)
    M += sums.sum(axis=1)[:, None, None] / (size - 1) - sums[:, :, None] - sums[:, None, :]
    M[:, here, here] = 0.0
    M[np.abs(M).max(axis=(1, 2)) <= 8 * np.finfo(np.float64).eps * largest[:, 0, 0]] = 0.0
    return M


def _cubes(M):
    """Traces of the cubes of symmetric blocks."""
    return np.einsum("gij,gij->g", M @ M, M)


def _block_sums(job, count, size, pairs):
    step = max(1, _TILE // size)
    parts = map_tiles(lambda i: job(slice(i * step, (i + 1) * step)), -(-count // step))
    sums, squares, cubes = (float(np.concatenate(p).sum()) for p in zip(*parts, strict=True))
    skewness = cubes / squares**1.5 if squares > 0 else 0.0
    return BlockSums(sums / pairs / count, np.sqrt(squares) / pairs / count, skewness, count, size)

r"""Reduced sets (X1): a sum over many vectors replaced by one over few, so that predictions cost less.

Given functions :math:`f_j = \sum_i a_{ij} k(x_i, \cdot)`, find k vectors z, the same ones for all functions, that minimise

.. math:: \sum_j \Bigl\lVert f_j - \sum_i c_{ij} k(z_i, \cdot) \Bigr\rVert^2, \qquad c = K_{zz}^{-1} K_{zx} a .

The coefficients c are the best ones for every choice of the vectors, so that only the vectors are searched: among the x, as
means of them, or anywhere (variable projection, Golub & Pereyra 1973). At the end the coefficients may be fitted once more, to
the values of the functions at the x. Burges (1996); Schölkopf et al. (1999).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize, nnls

from mercer import validate
from mercer.approx.sweeps import tile_sums
from mercer.errors import NanError, NotDifferentiableError
from mercer.gram import Gram, gram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.kernels import White
from mercer.kernels.base import require_differentiable_inputs
from mercer.kernels.views import NonNegativeRows
from mercer.linalg import Status, safe_cholesky
from mercer.solvers.centers import kmeans_centers

__all__ = ["REDUCTIONS", "REFITS", "ReducedSet", "reduce_set"]

REDUCTIONS, REFITS = ("gradient", "kmeans", "greedy"), ("norm", "values")
_RIDGE = {
    np.dtype(np.float32): 1e-6,
    np.dtype(np.float64): 1e-12,
}  # times mean(diag): what rounding of the entries hides
_EXACT = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-14}  # squared relative error that rounding hides
_LOOK_BACK, _WORTH = (
    10,
    0.998,
)  # a search that in so many steps leaves more than this part of the error has come to rest
_NORM_SHARE = 1e-3  # of the distance in norm in a fit to values
_MUCH_NEARER = 0.9  # part of the squared error
_TINY = np.finfo(np.float64).tiny
_HEAVY = 1e3  # of the condition on a sum of masses, beside the other equations
_MEMORY = 10  # steps that L-BFGS remembers


@dataclass(frozen=True, eq=False)
class ReducedSet:
    """Vectors, their coefficients (k, t), and how near they come.

    error: the root of the sum above, over that of all |f_j|^2, recomputed from scratch in float64. jitter: what was added to
    the diagonal of the system that gave the coefficients.
    """

    centres: Any
    coefficients: np.ndarray
    error: float
    jitter: float
    status: Status
    iterations: int


def reduce_set(K: Gram, A: np.ndarray, k: int, method: str, *, rng: np.random.Generator, refit: str = "norm",
               masses: bool = False, max_iter: int = 500, callback: Callable | None = None) -> ReducedSet:  # fmt: skip
    """At most k vectors for the functions with coefficients A (n, t) on the rows of a symmetric Gram.

    method: one of REDUCTIONS; refit: one of REFITS. masses: whether coefficients, none of which is negative, stay so and keep
    their sums. callback(iteration, error): called by the search for vectors.
    """
    _refuse(K, method)
    K = _with_dense_rows(K) if method == "gradient" else K
    target, status, iterations = (_Masses if masses else _Target)(K, A), Status.CONVERGED, 0
    if method == "greedy":
        Z = _chosen(target, k)
    else:
        Z = _means(target.K.y.rows, np.abs(A).sum(axis=1), k, rng)
    if method == "gradient":
        Z, status, iterations = _moved(target, _start(target, Z, _chosen(target, k)), max_iter, callback)
    c, jitter = target.coefficients(Z, refit)
    return ReducedSet(Z, c, target.error(Z, c), jitter, status, iterations)


def _refuse(K, method):
    if method == "greedy":
        return
    vectors = K.kernel.reads == "vectors" and getattr(K.y.rows, "ndim", 1) == 2
    if not vectors:
        raise NotDifferentiableError(
            f'method="{method}" makes new vectors, but {K.kernel!r} does not read vectors; method="greedy" chooses among the rows'
        )
    if method == "gradient":
        try:
            require_differentiable_inputs(K.kernel)
        except NotDifferentiableError as error:
            raise NotDifferentiableError(f'{error}; method="kmeans" or "greedy" need none') from None


def _with_dense_rows(K):
    """Vectors move in all their columns, so that those of sparse rows do not stay sparse."""
    rows = K.y.rows
    if not sp.issparse(rows):
        return K
    _require_room(
        K, rows.shape[0] * rows.shape[1] * rows.dtype.itemsize, "sparse rows made dense, so that vectors can move,"
    )
    return gram(K.kernel, rows.toarray(), engine=K.engine, memory=K.memory, validated=True)


class _Target:
    """The functions to come near to, on the rows of K as predictions see them: without noise on equal rows."""

    def __init__(self, K, A):
        self.K, self.A = K, np.ascontiguousarray(A, K.dtype)

    def seen(self, rows):
        """Gram of rows with those of the functions."""
        return prepared_gram(self.K, rows)

    @cached_property
    def images(self) -> np.ndarray:
        """Values (n, t) of the functions at their own rows."""
        return ((self.seen(self.K.y.rows) if _noisy(self.K.kernel) else self.K) @ self.A).astype(np.float64)

    @cached_property
    def whole(self) -> float:
        """Squared length of the functions; where their terms cancel, what rounding may leave of it."""
        terms = np.square(self.A, dtype=np.float64).sum(axis=1) @ self.diagonal()
        return max(self._squared(), np.finfo(self.K.dtype).eps * terms, _TINY)

    def _squared(self):
        return float((self.A * self.images).sum())

    def diagonal(self) -> np.ndarray:
        K = self.seen(self.K.y.rows) if _noisy(self.K.kernel) else self.K
        return K.diag().astype(np.float64)

    def coefficients(self, Z, refit) -> tuple[np.ndarray, float]:
        """The best coefficients on vectors Z, and what was added to the diagonal of their Gram."""
        c, added, _ = self.solved(Z, warn=True) if refit == "norm" else self.fitted(Z)
        return c.astype(self.A.dtype), added

    def solved(self, Z, warn=False):
        """Coefficients nearest in norm, in float64, what was added to the diagonal, and B = K_zx a."""
        own, B = self.products(Z)
        return *_solution(own, B, self.K.dtype, warn), B

    def fitted(self, Z):
        """As `solved`, but nearest in the values at the rows; of those that hardly differ, nearest in norm.

        Solved for the step away from the coefficients nearest in norm: near vectors have large ones that cancel, which what is
        added to a diagonal would draw to 0.
        """
        own, B = self.products(Z)
        c, _ = _solution(own.copy(), B, self.K.dtype, False)
        step, added = _solution(*self._system(Z, own, B, c), self.K.dtype, True)
        return c + step, added, B

    def _system(self, Z, own, B, c):
        """Matrix and right side for the step from c to the coefficients nearest in values, with a small share of the norm."""
        k, images = len(B), self.images

        def add(tile, rows, sums):
            tile = tile.astype(np.float64)
            sums += tile.T @ np.hstack([tile, images[rows] - tile @ c])

        both = tile_sums(self.seen(Z).T, (k, k + B.shape[1]), add)
        share = _NORM_SHARE * both[:, :k].trace() / max(own.trace(), _TINY)
        S = both[:, :k] + share * own
        return (S + S.T) / 2, both[:, k:] + share * (B - own @ c)

    def products(self, Z):
        """K_zz and K_zx a."""
        own = _own(self.K, Z).dense().astype(np.float64)
        return (own + own.T) / 2, (self.seen(Z) @ self.A).astype(np.float64)

    def value(self, c, B) -> float:
        """Squared relative error of the best coefficients in norm."""
        return 1.0 - float((c * B).sum()) / self.whole

    def error(self, Z, c) -> float:
        """Relative distance in feature space, from float64 rows."""
        K = gram(
            self.K.kernel, validate.double(self.K.y.rows), engine=self.K.engine, memory=self.K.memory, validated=True
        )
        exact, c = _Target(K, self.A.astype(np.float64)), c.astype(np.float64)
        own, B = exact.products(validate.double(Z))
        left = exact._squared() - 2.0 * float((c * B).sum()) + float((c * (own @ c)).sum())
        return float(np.sqrt(max(left, 0.0) / exact.whole))


class _Masses(_Target):
    """Functions whose coefficients are masses: of those that are not negative and have the same sums, the nearest.

    A change of the vectors moves them too, but the value not by that: the constraints do not depend on the vectors.
    """

    def solved(self, Z, warn=False):
        """As of `_Target`, but for B what makes `value` that of coefficients that are not the best of all."""
        own, B = self.products(Z)
        c = _nearest_masses(own, B, self.totals)
        return c, 0.0, 2.0 * B - own @ c

    def fitted(self, Z):
        own, B = self.products(Z)
        S, R = self._system(Z, own, B, np.zeros_like(B))
        return _nearest_masses(S, R, self.totals), 0.0, B

    @cached_property
    def totals(self) -> np.ndarray:
        return self.A.sum(axis=0, dtype=np.float64)


def _nearest_masses(S, B, totals):
    """Columns c >= 0 with these sums that make c^T S c - 2 c^T b smallest, as least squares with a heavy row for the sum."""
    values, V = np.linalg.eigh(S)
    root = np.sqrt(np.maximum(values, np.finfo(np.float64).eps * max(values[-1], _TINY)))
    M = np.vstack([root[:, None] * V.T, np.full((1, len(S)), _HEAVY * root[-1])])
    c = np.empty_like(B)
    for j, total in enumerate(totals):
        right = np.append(V.T @ B[:, j] / root, _HEAVY * root[-1] * total)
        found = nnls(M, right, maxiter=30 * len(S))[0]
        c[:, j] = found * (total / found.sum()) if found.any() else total / len(S)
    return c


def _solution(S, B, dtype, warn):
    """S^-1 B, and what was added to the diagonal of S: at least what rounding of the entries hides."""
    ridge = max(_RIDGE[dtype] * S.diagonal().mean(), _TINY)
    factor = safe_cholesky(S, shift=ridge, overwrite=True, warn=warn)
    return factor.solve(B), ridge + factor.jitter


def _own(K, Z):
    """Gram of Z with itself as predictions see it."""
    G = gram(K.kernel, Z, engine=K.engine, memory=K.memory, validated=True)
    return prepared_gram(G, Z) if _noisy(K.kernel) else G


def _noisy(kernel):
    return any(isinstance(leaf, White) for leaf in kernel._leaves)


# ------------------------------------------------------------------------------------------------ among the rows
def pursue(target, k: int) -> np.ndarray:
    """Numbers of up to k rows, each the one that together with those before it comes nearest to the functions.

    With r = f - f_k and d_i the part of k(x_i, x_i) that is new, row i gains sum_j r_j(x_i)^2 / d_i; one column of the Gram and
    one step of Cholesky's method bring both up to date. Ends early when no row adds anything.
    """
    R, d = target.images.copy(), target.diagonal()
    _require_room(target.K, len(d) * min(k, len(d)) * 8, "the factor of the chosen vectors")
    L, chosen = np.zeros((min(k, len(d)), len(d))), []
    least, scale = 10 * len(d) * np.finfo(target.K.dtype).eps * d.max(initial=0.0), np.square(R).max(initial=0.0)
    for i in range(len(L)):
        new = d > least
        gain = np.where(new, np.square(R).sum(axis=1) / np.where(new, d, 1.0), -1.0)
        p = int(gain.argmax())
        if not new[p] or np.square(R[new]).max() <= np.finfo(np.float64).eps ** 2 * scale:
            break
        column = target.seen(validate.take(target.K.y.rows, [p])).dense()[0].astype(np.float64)
        L[i] = (column - L[:i, p] @ L[:i]) / np.sqrt(d[p])
        R -= np.outer(L[i], R[p] / L[i, p])
        d -= L[i] ** 2
        d[p] = 0.0
        chosen.append(p)
    return np.array(chosen or [0], np.intp)


def _chosen(target, k):
    return validate.take(target.K.y.rows, pursue(target, k))


def _require_room(K, needed, what):
    remedies = ["fewer vectors", 'method="kmeans"', 'a larger budget, memory="64GB"']
    require(needed, budget(K.memory), what, remedies)


# ------------------------------------------------------------------------------------------------ means and moves
def _means(rows, weight, k, rng):
    """k means of the rows, in their precision; the different rows themselves if they are not more."""
    different, _, mass, _ = validate.merged(rows, np.zeros(len(weight)), weight)
    if validate.n_rows(different) <= k:
        return different
    return kmeans_centers(different, mass, k, rng).astype(rows.dtype)


def _start(target, means, chosen):
    """Where vectors begin: at the means, from which they go further, unless the rows chosen are much nearer already."""
    values = [target.value(*target.solved(Z)[::2]) for Z in (means, chosen)]
    return chosen if values[1] < _MUCH_NEARER * values[0] else means


def _moved(target, Z, max_iter, callback):
    """Vectors moved from a start to where the error no longer falls: the best ones seen."""
    _require_room(target.K, Z.shape[0] * Z.shape[1] * 8 * (2 * _MEMORY + 8), "moving the vectors")
    search = _Search(target, Z, callback)
    low = 0.0 if any(isinstance(view, NonNegativeRows) for view in target.K.y.views) else None
    options = {"maxiter": max_iter, "maxfun": 4 * max_iter, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
    bounds = None if low is None else [(low, None)] * Z.size
    try:
        minimize(search.value_and_slope, Z.ravel().astype(np.float64), jac=True, method="L-BFGS-B", bounds=bounds,
                 callback=search.look, options=options)  # fmt: skip
        status = Status.CONVERGED if len(search.path) <= max_iter else Status.MAX_ITER
    except _AtRest:
        status = Status.CONVERGED
    except NanError:  # a step into overflow: what came before it is good
        status = Status.STAGNATED
    return search.best, status, len(search.path) - 1


class _AtRest(Exception):  # noqa: N818
    """Says that the search is over."""


class _Search:
    """The squared relative error of vectors Z with their best coefficients, its slope, and the best Z so far."""

    def __init__(self, target, start, callback):
        self.target, self.shape, self.callback = target, start.shape, callback
        self.lowest, self.best, self.path = np.inf, start, []

    def value_and_slope(self, z):
        Z = z.reshape(self.shape).astype(self.target.K.dtype)
        value, slope = self.at(Z)
        if value < self.lowest:
            self.lowest, self.best = value, Z
        if not self.path:
            self.path.append(value)
        return value, slope.ravel()

    def at(self, Z):
        """The best coefficients do not move the value to first order: only the kernel's values do."""
        target = self.target
        c, _, B = target.solved(Z)
        value, c = target.value(c, B), c.astype(target.K.dtype)
        slope = self._pulled(_own(target.K, Z), c) - 2.0 * target.seen(Z).pullback_inputs((c, target.A)).astype(
            np.float64
        )
        return value, slope / target.whole

    @staticmethod
    def _pulled(own, c):
        """Slope of sum(c c^T * K_zz), in which every vector has two places."""
        slope = own.pullback_inputs((c, c)).astype(np.float64)
        return slope if own.symmetric else 2.0 * slope

    def look(self, _):
        """After each step."""
        self.path.append(self.lowest)
        if self.callback is not None:
            self.callback(len(self.path) - 1, float(np.sqrt(max(self.lowest, 0.0))))
        before = self.path[-1 - _LOOK_BACK] if len(self.path) > _LOOK_BACK else np.inf
        if self.lowest <= _EXACT[self.target.K.dtype] or self.lowest > _WORTH * before:
            raise _AtRest

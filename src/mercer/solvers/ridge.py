r"""Kernel ridge regression on a Gram: one factorisation, one band form for all alphas, conjugate gradients, or the primal.

The problem is :math:`\min_{f,b} \sum_i w_i (y_i - f(x_i) - b)^2 + \alpha \lVert f\rVert^2`. With :math:`s_i = \sqrt{w_i}`
everything is done on :math:`M = S K S + \alpha I`: the rows are scaled instead of dividing by weights that may be tiny. With
an intercept the inverse is replaced by :math:`P = M^{-1} - M^{-1} s s^T M^{-1} / (s^T M^{-1} s)`, the block of the bordered
inverse, and all formulas stay as they are.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from mercer.errors import NanError, NotPSDError
from mercer.linalg import BandForm, Factor, Solution, Status, band_form, conjugate_gradient, safe_cholesky, solve_mixed
from mercer.linalg.inplace import product, subtract_product
from mercer.linalg.tensors import scale_both
from mercer.tensors import is_tensor

__all__ = [
    "PathPoint",
    "RidgePath",
    "RidgeSolution",
    "gcv_gradient",
    "leave_one_out",
    "loo_gradient",
    "relative_residual",
    "ridge_path",
    "solve_ridge",
    "solve_ridge_cg",
    "solve_ridge_primal",
]


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients a (n, p), intercepts (p,), how they were found and how exact they are.

    certificate: largest relative residual of (S K S + alpha I) c = s (y - b), recomputed with the matrix itself.
    """

    coefficients: np.ndarray
    intercept: np.ndarray
    status: Status
    certificate: float
    iterations: int
    jitter: float


def solve_ridge(K: np.ndarray, Y: np.ndarray, alpha, root_weight=None, intercept=False) -> RidgeSolution:
    """Exact solution by Cholesky. K (n, n), array or tensor, is overwritten; Y (n, p); alpha a number or one for each target."""
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), (Y.shape[1],))
    s = _roots(root_weight, len(Y))
    _scale_in_place(K, s)
    groups = [np.flatnonzero(alphas == a) for a in np.unique(alphas)]
    coefficients, offsets = np.empty_like(Y), np.zeros(Y.shape[1])
    worst, jitter = 0.0, 0.0
    for i, columns in enumerate(groups):
        last = i == len(groups) - 1  # earlier ones must leave K for the next alpha
        c, b, residual, added = _solve_one(K, Y[:, columns], alphas[columns[0]], s, intercept, last)
        coefficients[:, columns], offsets[columns] = s[:, None] * c, b
        worst, jitter = max(worst, residual), max(jitter, added)
    return RidgeSolution(coefficients, offsets, Status.CONVERGED, worst, len(groups), jitter)


def _solve_one(K, Y, alpha, s, intercept, overwrite):
    """(c, b, relative residual, jitter): a float32 factor refined to float64 where that is enough, else a float64 factor."""
    found = _solve_mixed(K, Y, alpha, s, intercept) if overwrite and not is_tensor(K) else None
    if found is not None:
        return *found, 0.0
    factor = safe_cholesky(K, shift=alpha, overwrite=overwrite)
    return *_solve_factored(factor, Y, s, intercept), factor.jitter


def _solve_mixed(K, Y, alpha, s, intercept):
    b = _centre(Y, s, intercept)
    right = s[:, None] * (Y - b)
    found = solve_mixed(K, np.column_stack([right, s]) if intercept else right, alpha)
    if found is None:
        return None
    c = found.value
    if intercept:
        u, c = c[:, -1:], c[:, :-1]
        step = (s @ c) / (s @ u[:, 0])
        b, c, right = b + step, c - u * step, right - np.outer(s, step)
    return c, b, _relative(right - found.state @ c, right)


def _relative(residual, right):
    """Largest norm of a column of the residual relative to its right-hand side."""
    size = np.linalg.norm(right, axis=0)
    return float((np.linalg.norm(residual, axis=0) / np.where(size > 0, size, 1.0)).max(initial=0.0))


def _roots(root_weight, n):
    return np.ones(n) if root_weight is None else root_weight


def _scale_in_place(K, s):
    """S K S without a second matrix."""
    if is_tensor(K):
        scale_both(K, s)
    elif (s != 1.0).any():
        with np.errstate(over="ignore"):  # the factorisation refuses what is not finite
            K *= s[:, None].astype(K.dtype)
            K *= s.astype(K.dtype)


def _centre(Y, s, intercept):
    """Weighted means of the targets, which an intercept takes up exactly; without one zeros."""
    w = (s / s.max()) ** 2
    return (w @ Y) / w.sum() if intercept else np.zeros(Y.shape[1])


def _solve_factored(factor: Factor, Y, s, intercept):
    """(c, b, relative residual) of M c = s (y - b), refined once."""
    b = _centre(Y, s, intercept)
    right = s[:, None] * (Y - b)
    if intercept:
        u = factor.solve(s)
        step = (u @ right) / (u @ s)
        b, right = b + step, right - np.outer(s, step)
    c = factor.solve(right).astype(Y.dtype)
    residual = right - factor.multiply(c)
    better = c + factor.solve(residual)
    if factor.jitter == 0.0:
        c, residual = better, right - factor.multiply(better)
    return c, b, _relative(residual, right)


# ------------------------------------------------------------------------------------------------ iterations
def solve_ridge_cg(
    K, Y, alpha, root_weight=None, intercept=False, *, rtol, max_iter=None, callback=None, factor=None
) -> RidgeSolution:
    """Conjugate gradients on the lazy Gram: one sweep over all pairs an iteration, no n x n matrix.

    factor (n, k) with factor factor^T near K makes the iterations few (`mercer.linalg.rpcholesky`).
    """
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), (Y.shape[1],))
    s = _roots(root_weight, len(Y))
    means = _centre(Y, s, intercept)
    right = s[:, None] * (Y - means)
    values, offsets, solutions = np.empty_like(right), means.copy(), []
    for a in np.unique(alphas):
        columns = np.flatnonzero(alphas == a)
        B = np.column_stack([right[:, columns], s]) if intercept else right[:, columns]
        near = None if factor is None or a == 0 else LowRankRidge(factor, s, a)
        found = conjugate_gradient(
            _Scaled(K, s, a), B, rtol=rtol, max_iter=max_iter, callback=callback, preconditioner=near
        )
        c = found.value.reshape(len(Y), -1)
        if intercept:
            u, c = c[:, -1:], c[:, :-1]
            step = (s @ c) / (s @ u[:, 0])
            offsets[columns] += step
            c = c - u * step
        values[:, columns] = s[:, None] * c
        solutions.append(found)
    solution = _joined(values.astype(Y.dtype), offsets, solutions)
    if intercept:  # two solutions were subtracted: what is left must be measured again
        return replace(solution, certificate=relative_residual(K, Y, solution, alphas, root_weight))
    return solution


class _Scaled:
    """S K S + alpha I as an operator."""

    def __init__(self, K, s, alpha):
        self.K, self.s, self.alpha, self.shape, self.dtype = K, s[:, None], alpha, K.shape, K.dtype

    def __matmul__(self, V):
        V2 = np.asarray(V).reshape(len(V), -1)
        return (self.s * (self.K @ (self.s * V2)) + self.alpha * V2).reshape(np.shape(V))


class LowRankRidge:
    """(S F F^T S + alpha I)^-1 of a factor F (n, k), by a k x k matrix: a preconditioner. Woodbury's identity."""

    def __init__(self, factor, s, alpha):
        self.F, self.s, self.alpha = factor, s[:, None], alpha
        scaled = factor * s[:, None].astype(factor.dtype)
        self.inner = safe_cholesky((scaled.T @ scaled).astype(np.float64), shift=alpha, warn=False)

    def solve(self, R):
        inside = self.inner.solve(self.F.T @ (self.s * R))
        return (R - self.s * (self.F @ inside)) / self.alpha


def _joined(values, offsets, solutions: list[Solution]):
    worst = max(solutions, key=lambda f: f.certificate)
    return RidgeSolution(values, offsets, worst.status, worst.certificate, sum(f.iterations for f in solutions), 0.0)


# ------------------------------------------------------------------------------------------------ the primal
def solve_ridge_primal(F: np.ndarray, Y, alpha, weight=None, intercept=False):
    """Weights w (q, p) of explicit features F (n, q), and the same solution seen from the dual: a = w_i (y - F w - b) / alpha."""
    w = np.ones(len(Y)) if weight is None else weight
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), (Y.shape[1],))
    root = np.sqrt(w)
    mean_f, mean_y = _centre(F, root, intercept), _centre(Y, root, intercept)
    with np.errstate(over="ignore", invalid="ignore"):
        weighted = (F - mean_f) * root[:, None]
        C, right = weighted.T @ weighted, weighted.T @ (root[:, None] * (Y - mean_y))
    if not np.isfinite(C).all():
        raise NanError("the squares of the features overflow; rescale the columns of X, or the weights")
    primal, worst, jitter = np.empty((F.shape[1], Y.shape[1])), 0.0, 0.0
    for a in np.unique(alphas):
        columns = np.flatnonzero(alphas == a)
        factor = safe_cholesky(C, shift=a)
        primal[:, columns], _, residual = _solve_factored(factor, right[:, columns], np.ones(len(C)), False)
        worst, jitter = max(worst, residual), max(jitter, factor.jitter)
    offsets = mean_y - mean_f @ primal
    with np.errstate(divide="ignore", invalid="ignore"):
        dual = w[:, None] * (Y - F @ primal - offsets) / alphas
    return primal, RidgeSolution(dual, offsets, Status.CONVERGED, worst, 1, jitter)


# ------------------------------------------------------------------------------------------------ leave-one-out
def leave_one_out(K: np.ndarray, Y, alpha: float, root_weight=None, intercept=False) -> np.ndarray:
    """Residuals y_i - f_{-i}(x_i) of all n left-out fits from one factorisation. K is overwritten.

    c_i / (M^-1)_ii in the scaled problem: Rasmussen & Williams (2006), eq. 5.12.
    """
    s = _roots(root_weight, len(Y))
    _scale_in_place(K, s)
    factor = safe_cholesky(K, shift=alpha, overwrite=True)
    c, _, _ = _solve_factored(factor, Y, s, intercept)
    diagonal = factor.diag_inverse().astype(np.float64)
    if intercept:
        u = factor.solve(s)
        diagonal -= u**2 / (u @ s)
    return c / (diagonal * s)[:, None]


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Everything about all alphas from one reduction S K S = Q B Q^T to band form; an alpha costs O(n^2)."""

    form: BandForm
    scaled: np.ndarray  # s (y - mean)
    roots: np.ndarray
    intercept: bool
    means: np.ndarray  # of the targets, with an intercept
    known: dict = field(default_factory=dict)

    def at(self, alpha: float) -> "PathPoint":
        """Solution and leave-one-out at one alpha, kept."""
        if alpha not in self.known:
            self.known[alpha] = self._point(float(alpha))
        return self.known[alpha]

    @property
    def mean_diagonal(self) -> float:
        """Mean of the diagonal of the scaled Gram."""
        return float(sum(np.trace(b) for b in self.form.diagonal) / len(self.roots))

    def _point(self, alpha):
        try:
            shifted = self.form.shifted(alpha)
        except np.linalg.LinAlgError:
            raise NotPSDError(f"the Gram matrix + {alpha:g} I is not positive definite; use a larger alpha") from None
        c, diagonal = shifted.solve(self.scaled), shifted.diag_inverse()
        offset = np.zeros(self.scaled.shape[1])
        if self.intercept:
            u = shifted.solve(self.roots[:, None])[:, 0]
            total = u @ self.roots
            offset = (self.roots @ c) / total
            c, diagonal = c - np.outer(u, offset), diagonal - u**2 / total
        return PathPoint(alpha, c, offset + self.means, diagonal, self.roots)

    def residuals(self, alpha: float) -> np.ndarray:
        """Leave-one-out residuals (n, p) for one alpha."""
        return self.at(alpha).residuals

    def gcv(self, alpha: float) -> np.ndarray:
        """Generalised cross-validation of each target for one alpha."""
        return self.at(alpha).gcv

    def degrees_of_freedom(self, alpha: float) -> float:
        """Trace of the smoother for one alpha."""
        return self.at(alpha).degrees_of_freedom

    def solve(self, alpha) -> RidgeSolution:
        """Coefficients for one alpha, or one for each target."""
        points = [self.at(a) for a in np.broadcast_to(np.asarray(alpha, float), (self.scaled.shape[1],))]
        c = np.column_stack([self.roots * p.c[:, j] for j, p in enumerate(points)])
        offsets = np.array([p.offset[j] for j, p in enumerate(points)])
        return RidgeSolution(c, offsets, Status.CONVERGED, np.nan, 1, 0.0)


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One alpha of a path: c solves the scaled problem, `diagonal` is that of the (bordered) inverse C."""

    alpha: float
    c: np.ndarray
    offset: np.ndarray
    diagonal: np.ndarray
    roots: np.ndarray

    @property
    def residuals(self) -> np.ndarray:
        """Leave-one-out residuals (n, p)."""
        return self.c / (self.diagonal * self.roots)[:, None]

    @property
    def gcv(self) -> np.ndarray:
        """n ||r||^2 / (n - tr H)^2 of each target, with r = alpha c and n - tr H = alpha tr C. Golub, Heath & Wahba (1979)."""
        return len(self.c) * ((self.c / self.diagonal.sum()) ** 2).sum(axis=0)

    @property
    def degrees_of_freedom(self) -> float:
        return float(len(self.c) - self.alpha * self.diagonal.sum())


def relative_residual(K, Y, solution: RidgeSolution, alpha, root_weight=None) -> float:
    """Largest relative residual of a solution, recomputed with the lazy Gram: one sweep."""
    s = _roots(root_weight, len(Y))[:, None]
    right = s * (Y - solution.intercept)
    off = right - s * (K @ solution.coefficients) - np.asarray(alpha) * solution.coefficients / s
    size = np.linalg.norm(right, axis=0)
    return float((np.linalg.norm(off, axis=0) / np.where(size > 0, size, 1.0)).max())


def ridge_path(K: np.ndarray, Y, root_weight=None, intercept=False) -> RidgePath:
    """Reduce the scaled Gram (n, n), which is overwritten, so that every alpha is cheap. Always in float64."""
    K = K.astype(np.float64, copy=False)
    s = _roots(root_weight, len(Y))
    _scale_in_place(K, s)
    if not np.isfinite(K).all():
        raise NanError("the weighted Gram matrix holds NaN or infinity; rescale the weights, or the columns of X")
    means = _centre(Y, s, intercept)
    return RidgePath(band_form(K), s[:, None] * (Y.astype(np.float64) - means), s, intercept, means)


# ------------------------------------------------------------------------------------------------ slopes of criteria
def loo_gradient(K: np.ndarray, Y, alpha: float, root_weight=None, intercept=False):
    r"""Weighted mean squared leave-one-out error, its gradient in K as a weight matrix W (n, n), and in alpha.

    With C the (bordered) inverse, a = C y, e_i = a_i / C_ii and dC = -C dM C, the error's differential is
    sum(W * dM) with W = -(C v) a^T + C diag(h) C, v_i = 2 e_i / C_ii / n, h_i = 2 e_i a_i / C_ii^2 / n. K is overwritten.
    """
    s = _roots(root_weight, len(Y))
    total = float((s**2).sum()) * Y.shape[1]
    C, A = _inverse_and_dual(K, Y, alpha, s, intercept)
    diagonal = np.diagonal(C).copy()
    E = A / diagonal[:, None]  # s_i times the residual: its square is weighted
    V = 2.0 * E / diagonal[:, None] / total
    h = (V * A / diagonal[:, None]).sum(axis=1)
    W = product(C * h, C)  # C is symmetric
    subtract_product(product(C, V), A, W)
    return float((E**2).sum() / total), *_slopes(W, s)


def gcv_gradient(K: np.ndarray, Y, alpha: float, root_weight=None, intercept=False):
    r"""Generalised cross-validation, the mean over the targets, its gradient in K as a weight matrix W (n, n), and in alpha.

    n ||A||^2 / (p t^2) with A = C y and t = tr C; its differential is sum(W * dM) with
    W = 2 n / (p t^2) (||A||^2 / t C^2 - (C A) A^T). K is overwritten.
    """
    s = _roots(root_weight, len(Y))
    C, A = _inverse_and_dual(K, Y, alpha, s, intercept)
    t, square = float(np.trace(C)), float((A**2).sum())
    factor = len(Y) / (Y.shape[1] * t**2)
    W = product(C * (2.0 * factor * square / t), C)
    subtract_product(product(C, 2.0 * factor * A), A, W)
    return factor * square, *_slopes(W, s)


def _inverse_and_dual(K, Y, alpha, s, intercept):
    """The (bordered) inverse C (n, n) of the scaled problem, and C y (n, p). K is overwritten."""
    _scale_in_place(K, s)
    C = safe_cholesky(K, shift=alpha, overwrite=True, warn=False).inverse()
    if intercept:
        u = product(C, s[:, None])[:, 0]
        C -= np.outer(u, u) / (u @ s)
    return C, product(C, s[:, None] * (Y - _centre(Y, s, intercept)))


def _slopes(W, s):
    """A slope in M, made symmetric, as slopes in K and in alpha."""
    W = (W + W.T) / 2
    return W * s[:, None] * s, float(np.trace(W))

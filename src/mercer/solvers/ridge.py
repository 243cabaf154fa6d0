r"""Kernel ridge regression on a Gram: one factorisation, one eigendecomposition, conjugate gradients, or the primal.

The problem is :math:`\min_{f,b} \sum_i w_i (y_i - f(x_i) - b)^2 + \alpha \lVert f\rVert^2`. With :math:`s_i = \sqrt{w_i}`
everything is done on :math:`M = S K S + \alpha I`: the rows are scaled instead of dividing by weights that may be tiny. With
an intercept the inverse is replaced by :math:`P = M^{-1} - M^{-1} s s^T M^{-1} / (s^T M^{-1} s)`, the block of the bordered
inverse, and all formulas stay as they are.
"""

from dataclasses import dataclass

import numpy as np

from mercer.linalg import Solution, Status, conjugate_gradient, run_interruptibly, safe_cholesky, seconds_for_eigh
from mercer.linalg.factor import Factor

__all__ = [
    "RidgePath",
    "RidgeSolution",
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
    """Exact solution by Cholesky. K (n, n) is overwritten; Y (n, p); alpha a number or one for each target."""
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), (Y.shape[1],))
    s = _roots(root_weight, len(Y))
    _scale_in_place(K, s)
    groups = [np.flatnonzero(alphas == a) for a in np.unique(alphas)]
    coefficients, offsets = np.empty_like(Y), np.zeros(Y.shape[1])
    worst, jitter = 0.0, 0.0
    for i, columns in enumerate(groups):
        last = i == len(groups) - 1  # earlier ones must leave K for the next alpha
        factor = safe_cholesky(K, shift=alphas[columns[0]], overwrite=last)
        c, b, residual = _solve_factored(factor, Y[:, columns], s, intercept)
        coefficients[:, columns], offsets[columns] = s[:, None] * c, b
        worst, jitter = max(worst, residual), max(jitter, factor.jitter)
    return RidgeSolution(coefficients, offsets, Status.CONVERGED, worst, len(groups), jitter)


def _roots(root_weight, n):
    return np.ones(n) if root_weight is None else root_weight


def _scale_in_place(K, s):
    """S K S without a second matrix."""
    if (s != 1.0).any():
        K *= s[:, None].astype(K.dtype)
        K *= s.astype(K.dtype)


def _solve_factored(factor: Factor, Y, s, intercept):
    """(c, b, relative residual) of M c = s (y - b), refined once."""
    right = s[:, None] * Y
    b = np.zeros(Y.shape[1])
    if intercept:
        u = factor.solve(s)
        b = (u @ right) / (u @ s)
        right = right - np.outer(s, b)
    c = factor.solve(right).astype(Y.dtype)
    residual = right - factor.multiply(c)
    better = c + factor.solve(residual)
    if factor.jitter == 0.0:
        c, residual = better, right - factor.multiply(better)
    size = np.linalg.norm(right, axis=0)
    return c, b, float((np.linalg.norm(residual, axis=0) / np.where(size > 0, size, 1.0)).max(initial=0.0))


# ------------------------------------------------------------------------------------------------ iterations
def solve_ridge_cg(
    K, Y, alpha, root_weight=None, intercept=False, *, rtol, max_iter=None, callback=None
) -> RidgeSolution:
    """Conjugate gradients on the lazy Gram: one sweep over all pairs an iteration, no n x n matrix."""
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), (Y.shape[1],))
    s = _roots(root_weight, len(Y))
    right = s[:, None] * Y
    values, offsets, solutions = np.empty_like(right), np.zeros(Y.shape[1]), []
    for a in np.unique(alphas):
        columns = np.flatnonzero(alphas == a)
        B = np.column_stack([right[:, columns], s]) if intercept else right[:, columns]
        found = conjugate_gradient(_Scaled(K, s, a), B, rtol=rtol, max_iter=max_iter, callback=callback)
        c = found.value.reshape(len(Y), -1)
        if intercept:
            u, c = c[:, -1:], c[:, :-1]
            offsets[columns] = (s @ c) / (s @ u[:, 0])
            c = c - u * offsets[columns]
        values[:, columns] = s[:, None] * c
        solutions.append(found)
    return _joined(values, offsets, solutions)


class _Scaled:
    """S K S + alpha I as an operator."""

    def __init__(self, K, s, alpha):
        self.K, self.s, self.alpha, self.shape, self.dtype = K, s[:, None], alpha, K.shape, K.dtype

    def __matmul__(self, V):
        V2 = np.asarray(V).reshape(len(V), -1)
        return (self.s * (self.K @ (self.s * V2)) + self.alpha * V2).reshape(np.shape(V))


def _joined(values, offsets, solutions: list[Solution]):
    worst = max(solutions, key=lambda f: f.certificate)
    return RidgeSolution(values, offsets, worst.status, worst.certificate, sum(f.iterations for f in solutions), 0.0)


# ------------------------------------------------------------------------------------------------ the primal
def solve_ridge_primal(F: np.ndarray, Y, alpha, weight=None, intercept=False):
    """Weights w (q, p) of explicit features F (n, q), and the same solution seen from the dual: a = w_i (y - F w - b) / alpha."""
    w = np.ones(len(Y)) if weight is None else weight
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), (Y.shape[1],))
    mean_f = (w @ F) / w.sum() if intercept else np.zeros(F.shape[1])
    mean_y = (w @ Y) / w.sum() if intercept else np.zeros(Y.shape[1])
    Fc, Yc = F - mean_f, Y - mean_y
    weighted = Fc * w[:, None]
    C, right = weighted.T @ Fc, weighted.T @ Yc
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


@dataclass(frozen=True)
class RidgePath:
    """Everything about all alphas from one eigendecomposition S K S = Q diag(values) Q^T."""

    values: np.ndarray
    vectors: np.ndarray
    projected: np.ndarray  # Q^T s y
    roots: np.ndarray
    projected_roots: np.ndarray | None  # Q^T s, with an intercept

    def residuals(self, alpha: float) -> np.ndarray:
        """Leave-one-out residuals (n, p) for one alpha."""
        inverse = 1.0 / (self.values + alpha)
        diagonal = (self.vectors**2) @ inverse
        c = self.vectors @ (inverse[:, None] * self.projected)
        if self.projected_roots is not None:
            u, offset = self._offset(inverse)
            c -= np.outer(u, offset)
            diagonal -= u**2 / (self.projected_roots**2 @ inverse)
        return c / (diagonal * self.roots)[:, None]

    def _offset(self, inverse):
        r = self.projected_roots
        return self.vectors @ (inverse * r), (r * inverse) @ self.projected / (r**2 @ inverse)

    def gcv(self, alpha: float) -> np.ndarray:
        """Generalised cross-validation of each target: n ||r||^2 / (n - tr H)^2. Golub, Heath & Wahba (1979)."""
        inverse = 1.0 / (self.values + alpha)
        c = inverse[:, None] * self.projected
        freedom = (self.values * inverse).sum()
        if self.projected_roots is not None:
            _, offset = self._offset(inverse)
            c = c - np.outer(inverse * self.projected_roots, offset)
            r2 = self.projected_roots**2
            freedom += 1.0 - (r2 * self.values * inverse**2).sum() / (r2 @ inverse)
        n = len(self.values)
        return n * alpha**2 * (c**2).sum(axis=0) / max(n - freedom, np.finfo(float).tiny) ** 2

    def solve(self, alpha) -> RidgeSolution:
        """Coefficients for one alpha, or one for each target."""
        alphas = np.broadcast_to(np.asarray(alpha, float), (self.projected.shape[1],))
        c, offsets = np.empty_like(self.projected), np.zeros(len(alphas))
        for j, a in enumerate(alphas):
            inverse = 1.0 / (self.values + a)
            part = inverse * self.projected[:, j]
            if self.projected_roots is not None:
                offsets[j] = self._offset(inverse)[1][j]
                part = part - offsets[j] * inverse * self.projected_roots
            c[:, j] = self.vectors @ part
        return RidgeSolution(self.roots[:, None] * c, offsets, Status.CONVERGED, np.nan, 1, 0.0)

    def degrees_of_freedom(self, alpha: float) -> float:
        """Trace of the smoother without the intercept."""
        return float((self.values / (self.values + alpha)).sum())


def relative_residual(K, Y, solution: RidgeSolution, alpha, root_weight=None) -> float:
    """Largest relative residual of a solution, recomputed with the lazy Gram: one sweep."""
    s = _roots(root_weight, len(Y))[:, None]
    c = solution.coefficients / s
    right = s * (Y - solution.intercept)
    off = right - s * (K @ solution.coefficients) - np.asarray(alpha) * c
    size = np.linalg.norm(right, axis=0)
    return float((np.linalg.norm(off, axis=0) / np.where(size > 0, size, 1.0)).max())


def ridge_path(K: np.ndarray, Y, root_weight=None, intercept=False) -> RidgePath:
    """Eigendecomposition of the scaled Gram, from which every alpha costs O(n^2). K (n, n) is overwritten."""
    s = _roots(root_weight, len(Y))
    _scale_in_place(K, s)
    values, vectors = run_interruptibly(np.linalg.eigh, K, seconds_predicted=seconds_for_eigh(len(K)))
    values = np.maximum(values.astype(np.float64), 0.0)  # rounding below 0: the Gram is PSD
    return RidgePath(values, vectors, vectors.T @ (s[:, None] * Y), s, vectors.T @ s if intercept else None)


def loo_gradient(K: np.ndarray, Y, alpha: float, root_weight=None, intercept=False):
    r"""Weighted mean squared leave-one-out error, its gradient in K as a weight matrix W (n, n), and in alpha.

    With C the (bordered) inverse, a = C y, e_i = a_i / C_ii and dC = -C dM C, the error's differential is
    sum(W * dM) with W = -(C v) a^T + C diag(h) C, v_i = 2 e_i / C_ii / n, h_i = 2 e_i a_i / C_ii^2 / n. K is overwritten.
    """
    s = _roots(root_weight, len(Y))
    total = float((s**2).sum()) * Y.shape[1]
    _scale_in_place(K, s)
    C = _inverse(safe_cholesky(K, shift=alpha, overwrite=True, warn=False))
    if intercept:
        u = C @ s
        C -= np.outer(u, u) / (u @ s)
    A = C @ (s[:, None] * Y)
    diagonal = np.diagonal(C).copy()
    E = A / diagonal[:, None]  # s_i times the residual: its square is weighted
    V = 2.0 * E / diagonal[:, None] / total
    h = (V * A / diagonal[:, None]).sum(axis=1)
    W = (C * h) @ C
    W -= (C @ V) @ A.T
    W = (W + W.T) / 2
    return float((E**2).sum() / total), W * s[:, None] * s, float(np.trace(W))


def _inverse(factor):
    from scipy.linalg.lapack import dpotri

    C, failed = dpotri(factor.array.T, lower=0, overwrite_c=1)  # the transpose of a C array is Fortran-ordered: no copy
    if failed:
        raise np.linalg.LinAlgError("the triangular factor is singular")
    # dpotri fills the upper triangle of its (Fortran) argument, the lower one of the C array.
    C = np.asarray(C.T)
    C = np.tril(C)
    return C + np.tril(C, -1).T

"""Gaussian process regression in closed form: evidence and its slope, posterior, leave-one-out.

Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, chapters 2 and 5.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer.linalg import Factor, safe_cholesky
from mercer.linalg.inplace import product, subtract_product
from mercer.linalg.tensors import add_square
from mercer.tensors import is_tensor
from mercer.threads import map_tiles

__all__ = ["Conditioned", "LeaveOneOut", "Posterior", "eliminated", "independent", "posterior"]

_ROWS = 256  # of a matrix that a thread changes at a time


class LeaveOneOut(NamedTuple):
    """What the other rows say of each target: mean (n, p), variance (n,) noise included, and log density (n, p)."""

    mean: np.ndarray
    variance: np.ndarray
    log_probability: np.ndarray


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Y = H b + f + noise with f ~ N(0, K), noise ~ N(0, N), and a flat prior on b: what every way to condition on Y ends with.

    coefficients: A = P Y (n, p) with P = C^-1 - B B^T, C = K + N, which maps all H b to 0. slopes: b (q, p). B: (n, q).
    outer: R^-T (q, q), with R^T R = H^T C^-1 H. evidence: logarithm of the density of Y, of all outputs together; with a mean,
    of what is orthogonal to H in Y, which does not depend on how the columns of H were written.
    """

    coefficients: np.ndarray
    slopes: np.ndarray
    B: np.ndarray
    outer: np.ndarray
    evidence: float

    standard_error = 0.0  # of the evidence, where it is an estimate

    @property
    def jitter(self) -> float:
        """What was added to a diagonal."""
        return 0.0

    def explained(self, K, pairs) -> np.ndarray:
        """K C^-1 K^T of new rows with kernel values K (m, n): its diagonal (m,), or of all `pairs` (m, m)."""
        raise NotImplementedError

    def covariance(self, K, own, H) -> np.ndarray:
        """Posterior covariance of new rows from kernel values `own`: their variances (m,), or all pairs (m, m)."""
        R = H @ self.outer.T - K @ self.B
        if own.ndim == 1:
            return np.maximum(own - self.explained(K, pairs=False) + np.einsum("mq,mq->m", R, R), 0.0)
        return own - self.explained(K, pairs=True) + R @ R.T


@dataclass(frozen=True, eq=False)
class Posterior(Conditioned):
    """In closed form, by the factor of C."""

    factor: Factor
    Y: np.ndarray
    H: np.ndarray

    @property
    def jitter(self) -> float:
        return self.factor.jitter

    def slope(self, overwrite=False, variance=1.0) -> Any:
        """Slope (n, n) of the evidence in C: (A A^T - p P) / 2. `overwrite` makes it in the place of the factor.

        variance : a factor of C as in `profiled`, whose evidence it is the slope of then.
        """
        p = self.Y.shape[1]
        W = self.factor.inverse(overwrite=overwrite)
        U = np.hstack([self.coefficients / np.sqrt(variance), np.sqrt(p) * self.B])
        if is_tensor(W):
            add_square(W, -0.5 * p, U, 0.5)
            return W

        def job(i):
            rows = slice(i * _ROWS, (i + 1) * _ROWS)
            W[rows] *= -0.5 * p
            W[rows] += (0.5 * U[rows]) @ U.T

        map_tiles(job, -(-len(W) // _ROWS))
        return W

    def profiled(self) -> tuple[float, float]:
        """The evidence of v C at its best v, and that v: what the data say where only the ratio of K and N is known."""
        free = self.Y.shape[1] * (len(self.Y) - self.H.shape[1])
        square = float((self.Y * self.coefficients).sum())
        v = square / free
        return self.evidence + 0.5 * (square - free - free * np.log(v)), v

    def loo_slope(self) -> np.ndarray:
        """Slope (n, n) in C of the sum of the leave-one-out log densities.

        With d the diagonal of P: -P diag(g) P + (P (A / d)) A^T, made symmetric, with g = (p / d + sum A^2 / d^2) / 2. Eq. 5.13.
        """
        A, B = np.ascontiguousarray(self.coefficients), np.ascontiguousarray(self.B)
        P, p = self.factor.inverse(), A.shape[1]
        if B.size:
            subtract_product(B, B, P)
        d = np.maximum(np.diagonal(P).copy(), np.finfo(float).tiny)[:, None]
        g = 0.5 * (p / d + (A**2 / d**2).sum(axis=1, keepdims=True))
        W = product(-P * g.T, P)
        subtract_product(product(P, -A / d), A, W)
        return (W + W.T) / 2

    def mean(self, K, H) -> np.ndarray:
        """Posterior mean (m, p) of rows with kernel values K (m, n), anything with `@`, and mean functions H (m, q)."""
        return K @ self.coefficients + H @ self.slopes

    def weights(self, K, H) -> np.ndarray:
        """The equivalent kernel (m, n): the posterior mean is its product with Y."""
        through = self.factor.solve(np.ascontiguousarray(K.T)).T
        return through - (K @ self.B - H @ self.outer.T) @ self.B.T

    def explained(self, K, pairs):
        V = self.factor.solve_triangular(np.ascontiguousarray(K.T))  # (n, m)
        return V.T @ V if pairs else np.einsum("nm,nm->m", V, V)

    def leave_one_out(self) -> LeaveOneOut:
        """Each row as if it had not been there, the mean's b included: eq. 5.10 to 5.12 with P for the inverse."""
        diagonal = self.factor.diag_inverse() - np.einsum("nq,nq->n", self.B, self.B)
        variance = 1.0 / np.maximum(diagonal, np.finfo(float).tiny)
        residual = self.coefficients * variance[:, None]
        logs = -0.5 * (np.log(2 * np.pi * variance)[:, None] + residual**2 / variance[:, None])
        return LeaveOneOut(self.Y - residual, variance, logs)


def posterior(K: np.ndarray, noise, Y: np.ndarray, H: np.ndarray, *, warn=True) -> Posterior:
    """Condition on Y (n, p): K (n, n), variances of the noise () or (n,), mean functions H (n, q).

    K, an array or a tensor, is overwritten.
    """
    n, q, p = len(Y), H.shape[1], Y.shape[1]
    factor = safe_cholesky(K, shift=noise, overwrite=True, warn=warn)
    half = factor.solve_triangular(np.hstack([Y, H]))
    T, G = half[:, :p], half[:, p:]
    value = p * (factor.logdet() + (n - q) * np.log(2 * np.pi))
    if q:
        Q, R = np.linalg.qr(G)
        b = np.linalg.solve(R, Q.T @ T)
        T = T - Q @ (Q.T @ T)
        B = factor.solve_triangular(Q, trans=True)
        outer = np.linalg.inv(R).T
        own = np.linalg.qr(H)[1].diagonal()
        value += 2 * p * float(np.log(np.abs(R.diagonal() / own)).sum())
    else:
        b, B, outer = np.zeros((0, p)), np.zeros((n, 0)), np.zeros((0, 0))
    A = factor.solve_triangular(T, trans=True)
    return Posterior(A, b, B, outer, -0.5 * float(value + (T**2).sum()), factor, Y, H)


def eliminated(products: np.ndarray, p: int) -> tuple[Factor | None, np.ndarray, np.ndarray]:
    """The mean's columns taken out of products R^T C^-1 R of R = [Y, Q] (n, p + q).

    The factor of Q^T C^-1 Q = T^T T (None if q = 0), b (q, p) that leaves least of Y, and T^-1 (q, q).
    """
    q = len(products) - p
    if not q:
        return None, np.zeros((0, p)), np.zeros((0, 0))
    corner = safe_cholesky(products[p:, p:] / 2 + products[p:, p:].T / 2, warn=False)
    return corner, corner.solve(products[p:, :p]), corner.solve_triangular(np.eye(q)).T


def independent(H: np.ndarray) -> np.ndarray:
    """Numbers of columns that span those of H, as early ones as possible: constant columns and doubles go."""
    kept: list[int] = []
    basis = np.zeros((len(H), 0))
    for j, column in enumerate(H.T):
        size = np.linalg.norm(column)
        if not size > 0:
            continue
        rest = column / size
        for _ in range(2):  # once more removes what rounding left
            rest = rest - basis @ (basis.T @ rest)
        if (norm := np.linalg.norm(rest)) > 1e-10 and len(kept) < len(H):
            kept.append(j)
            basis = np.column_stack([basis, rest / norm])
    return np.array(kept, dtype=np.intp)

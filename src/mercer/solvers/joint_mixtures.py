"""Conditional distributions p(t|x) of a mixture of (x, t) (M19): gates, means and factors of the components.

Both classes answer `log_gates(Q)` (m, K), `means(Q)` that broadcasts to (m, K, t), and hold `factors`, lower triangles that
broadcast to (K, t, t). Rows and targets come in units in which they are of order 1.
"""

import numpy as np
from scipy import special
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from mercer.errors import NotPSDError
from mercer.registry import register_record

__all__ = [
    "GaussianConditionals",
    "PointConditionals",
    "conditional_log_density",
    "conditional_moments",
    "conditional_sample",
]

_FAR = 1e6  # a squared distance beyond which the differences of squared distances are better found as products


@register_record
class GaussianConditionals:
    """Of a Gaussian mixture: weights (K,), means (K, d + t), covariances (K, d + t, d + t), whose first d columns are x."""

    def __init__(self, weights, means, covariances, d: int):
        self._log_weights = np.log(np.maximum(weights, np.finfo(np.float64).tiny))
        self._x, self._t = means[:, :d], means[:, d:]
        self._lower = np.linalg.cholesky(covariances[:, :d, :d])
        cross = np.stack(
            [solve_triangular(L, C[:d, d:], lower=True) for L, C in zip(self._lower, covariances, strict=True)]
        )
        self._cross = cross
        try:
            self.factors = np.linalg.cholesky(covariances[:, d:, d:] - np.swapaxes(cross, 1, 2) @ cross)
        except np.linalg.LinAlgError:
            raise NotPSDError(
                "a component leaves no variance of t given x; raise reg_covar, or use fewer components"
            ) from None

    def _white(self, Q, k):
        return solve_triangular(self._lower[k], (Q - self._x[k]).T, lower=True).T

    def log_gates(self, Q) -> np.ndarray:
        """log p(k|x) (m, K)."""
        logits = np.empty((len(Q), len(self._x)))
        for k, L in enumerate(self._lower):
            logits[:, k] = self._log_weights[k] - 0.5 * (self._white(Q, k) ** 2).sum(axis=1) - np.log(np.diag(L)).sum()
        return logits - special.logsumexp(logits, axis=1, keepdims=True)

    def means(self, Q) -> np.ndarray:
        """E(t|x, k) (m, K, t)."""
        return np.stack([self._t[k] + self._white(Q, k) @ self._cross[k] for k in range(len(self._t))], axis=1)


@register_record
class PointConditionals:
    """Of one component with unit covariance at each of the rows Z (n, d) and targets T (n, t)."""

    def __init__(self, Z, T):
        self.Z, self.T = Z, T
        self._half = 0.5 * (Z**2).sum(axis=1)
        self.factors = np.eye(T.shape[1])[None]

    def log_gates(self, Q) -> np.ndarray:
        """log p(k|x) (m, n)."""
        logits = -0.5 * cdist(Q, self.Z, "sqeuclidean")
        far = logits.max(axis=1) < -0.5 * _FAR
        if far.any():
            logits[far] = Q[far] @ self.Z.T - self._half  # the same up to |q|^2, which would swallow the differences
        return logits - special.logsumexp(logits, axis=1, keepdims=True)

    def means(self, Q) -> np.ndarray:
        """E(t|x, k) (1, n, t)."""
        return self.T[None]


def conditional_moments(model, Q):
    """E(t|x) (m, t) and Cov(t|x) (m, t, t)."""
    gates, means = np.exp(model.log_gates(Q)), model.means(Q)
    mean = (gates[:, :, None] * means).sum(axis=1)
    around = means - mean[:, None]
    inside = model.factors @ np.swapaxes(model.factors, 1, 2)
    within = np.einsum("mk,kij->mij", gates, np.broadcast_to(inside, (gates.shape[1], *inside.shape[1:])))
    return mean, within + np.einsum("mki,mkj->mij", gates[:, :, None] * around, around)


def conditional_log_density(model, Q, T) -> np.ndarray:
    """log p(t|x) (m,) of rows Q (m, d) and targets T (m, t)."""
    away = T[:, None] - model.means(Q)  # (m, K, t)
    size = np.log(np.diagonal(model.factors, axis1=1, axis2=2)).sum(axis=1) + 0.5 * T.shape[1] * np.log(2.0 * np.pi)
    white = np.matmul(np.linalg.inv(model.factors), away[..., None])[..., 0]  # t is small, and so is the inverse
    return special.logsumexp(model.log_gates(Q) - size - 0.5 * (white**2).sum(axis=2), axis=1)


def conditional_sample(model, Q, rng, n: int) -> np.ndarray:
    """Draws (m, n, t) from p(t|x)."""
    total = np.cumsum(np.exp(model.log_gates(Q)), axis=1)
    u = rng.random((len(Q), n)) * total[:, -1:]
    chosen = np.stack([np.searchsorted(row, at, side="right") for row, at in zip(total, u, strict=True)])
    chosen = np.minimum(chosen, total.shape[1] - 1)
    means = np.broadcast_to(model.means(Q), (len(Q), total.shape[1], model.factors.shape[1]))
    noise = rng.standard_normal((*chosen.shape, means.shape[2]))
    factors = np.broadcast_to(model.factors, (total.shape[1], *model.factors.shape[1:]))
    return means[np.arange(len(Q))[:, None], chosen] + np.einsum("mnij,mnj->mni", factors[chosen], noise)

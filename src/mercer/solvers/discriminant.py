r"""Fisher's discriminant in feature space, of two or more classes (M13).

Directions w that maximise :math:`w^T S_b w / (w^T S_w w + \alpha w^T w)`, S_b and S_w the scatter between and within
classes. With Z an orthonormal basis of the centred indicators of the classes and :math:`R = (H K H + \alpha I)^{-1} Z`, which
is ridge regression on Z with an intercept, they are the columns of R Q, Q the eigenvectors of the small matrix

.. math:: T = Z^T H K H R = I - \alpha Z^T R, \qquad T q = \tau q, \qquad \lambda = \tau / (1 - \tau).

Mika et al. (1999); Baudat & Anouar (2000).
"""

from dataclasses import dataclass

import numpy as np

from mercer.solvers.ridge import solve_ridge

__all__ = ["Discriminant", "solve_discriminant"]


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Directions with unit variance within classes, the ridge included, largest ratio first.

    coefficients (n, q), intercept (q,): projections as an expansion, 0 at the mean of all rows; means (c, q): of the classes;
    ratios (q,): scatter between over scatter within classes.
    """

    coefficients: np.ndarray
    intercept: np.ndarray
    means: np.ndarray
    ratios: np.ndarray
    certificate: float
    jitter: float


def solve_discriminant(K: np.ndarray, codes: np.ndarray, n_classes: int, alpha: float) -> Discriminant:
    """K (n, n) is overwritten; codes (n,): the class of each row, all of which occur."""
    n = len(codes)
    Z = _indicators(codes, n_classes)
    kbar = K.mean(axis=0, dtype=np.float64)
    found = solve_ridge(K, Z.astype(K.dtype), alpha, None, True)
    # Not made to add up to 0 once more: with a small ridge the coefficients are huge, and only together with K accurate.
    R = np.asarray(found.coefficients, np.float64)
    within, Q = np.linalg.eigh(alpha * _symmetric(Z.T @ R))  # 1 - tau, so that small ones keep their digits
    kept = 1.0 - within > n * np.finfo(K.dtype).eps  # directions in which classes differ at all
    within, Q = np.maximum(within[kept], np.finfo(np.float64).eps ** 2), Q[:, kept]
    tau = 1.0 - within
    Q = Q * np.sqrt(n / (tau * within))
    A, F = R @ Q, (Z - alpha * R) @ Q
    means = np.array([F[codes == c].mean(axis=0) for c in range(n_classes)]).reshape(n_classes, -1)
    return Discriminant(A, -(kbar @ A), means, tau / within, found.certificate, found.jitter)


def _indicators(codes, n_classes):
    """Orthonormal columns (n, c - 1) that are constant on each class and have mean 0."""
    count = np.bincount(codes, minlength=n_classes).astype(np.float64)
    # In coordinates of the orthonormal indicators the constant is sqrt(count / n); the rest of an orthogonal matrix follows it.
    basis = np.linalg.qr(np.column_stack([np.sqrt(count / count.sum()), np.eye(n_classes)[:, 1:]]))[0][:, 1:]
    return (basis / np.sqrt(count)[:, None])[codes]


def _symmetric(M):
    return (M + M.T) / 2

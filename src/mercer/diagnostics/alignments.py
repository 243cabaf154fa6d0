"""Alignment of two Gram matrices, or of one with a target."""

import numpy as np

from mercer import validate
from mercer.diagnostics.matrices import Matrix, symmetric

__all__ = ["alignment"]


def alignment(K1: Matrix, K2: Matrix, *, centred: bool = True) -> float:
    r"""Cosine of the angle between two Gram matrices; K2 may be a target y (n,), which stands for y y^T.

    .. math:: \frac{\langle K_1, K_2\rangle_F}{\lVert K_1\rVert_F \lVert K_2\rVert_F}

    `centred` centres both in feature space first (Cortes, Mohri & Rostamizadeh 2012, definition 4): without it two
    matrices with large means look alike. Cristianini et al. (2002) for the uncentred form.

    >>> alignment([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])
    1.0
    """
    A, B = _matrix(K1, centred, "K1"), _matrix(K2, centred, "K2")
    if A.shape != B.shape:
        raise ValueError(f"K1 and K2 must be Grams of the same rows, got shapes {A.shape} and {B.shape}")
    sizes = np.linalg.norm(A), np.linalg.norm(B)
    for name, size in zip(("K1", "K2"), sizes, strict=True):
        if size == 0:
            raise ValueError(f"{name} is zero{' after centring' if centred else ''}, so it has no direction to align")
    return float(np.clip(np.vdot(A / sizes[0], B / sizes[1]), -1.0, 1.0))


def _matrix(K, centred, name):
    K = validate.array_of(K, name)
    y = None if hasattr(K, "dense") or hasattr(K, "toarray") else np.asarray(K)
    if y is not None and y.ndim == 1 and y.dtype.kind in "biuf":
        if name == "K1":
            raise ValueError("K1 must be a matrix; a target y goes second")
        K = np.outer(y.astype(np.float64), y)
    K = symmetric(K).astype(np.float64)
    if not centred:
        return K
    largest, means = np.abs(K).max(), K.mean(axis=0)
    K = K - means - means[:, None] + means.mean()
    # A constant Gram is zero after centring but for rounding, and rounding has no direction.
    return np.where(np.abs(K).max() <= 8 * np.finfo(float).eps * largest, 0.0, K)

"""Centred alignment of a Gram matrix with targets, and its slope."""

import numpy as np

from mercer.errors import NanError

__all__ = ["alignment_gradient"]


def alignment_gradient(K: np.ndarray, T: np.ndarray) -> tuple[float, np.ndarray]:
    r"""Cosine of the angle between the centred K (n, n) and T T^T, targets T (n, p), and its slope W (n, n) in K.

    .. math:: a = \frac{\langle K_c, T T^T\rangle}{\lVert K_c\rVert \lVert T T^T\rVert}, \qquad
              W = \frac{T T^T}{\lVert K_c\rVert \lVert T T^T\rVert} - a \frac{K_c}{\lVert K_c\rVert^2}

    K is overwritten. Cortes, Mohri & Rostamizadeh (2012), definition 4 and section 4.
    """
    largest, T = float(np.abs(K).max()), T - T.mean(axis=0)
    means = K.mean(axis=0)
    K -= means
    K -= means[:, None] - means.mean()
    size, target = float(np.linalg.norm(K)), float(np.linalg.norm(T.T @ T))
    if not size > 8 * len(K) * np.finfo(float).eps * largest:
        raise NanError("the kernel is constant on these rows, so that it has no direction to align")
    value = float((T * (K @ T)).sum()) / (size * target)
    K *= -value / size**2
    K += (T / (size * target)) @ T.T
    return value, K

"""A compiled pass over all basis functions of a sparse Bayesian model. The rules of `mercer.engines._compiled` hold here too."""

import numpy as np

from mercer.kernels._compiled import compiled

__all__ = ["best_alone"]


@compiled
def best_alone(s, q, square, usable, collinear, largest, wanted, gains):
    """Best precision of each basis function whose factors without itself are s and q, and what it then adds to the evidence.

    It is better left out (inf, 0) where q^2 <= s, where it lies in the span of the others, and at a precision beyond `largest`.
    """
    for m in range(s.size):
        wanted[m], gains[m] = np.inf, 0.0
        if not (usable[m] and q[m] * q[m] > s[m] and s[m] > collinear * square[m]):
            continue
        ratio = q[m] * q[m] / s[m]
        alpha = s[m] / (ratio - 1.0)
        if alpha <= largest * max(square[m], 1e-300):
            wanted[m], gains[m] = alpha, 0.5 * (ratio - 1.0 - np.log(ratio))

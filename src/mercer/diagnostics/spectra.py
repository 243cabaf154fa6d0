"""Numbers that describe a Gram matrix by its eigenvalues: effective rank, entropy rank, conditioning."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.diagnostics.matrices import eigenvalues, number, psd_tolerance, refuse_indefinite, symmetric

__all__ = ["Conditioning", "conditioning", "effective_rank", "entropy_rank", "spectrum"]


def spectrum(kernel_or_matrix: Any, X=None, *, engine=None) -> np.ndarray:
    """Eigenvalues, descending, of a symmetric matrix or of a kernel's Gram on X.

    >>> spectrum([[2.0, 1.0], [1.0, 2.0]]).round(12)
    array([3., 1.])
    """
    return eigenvalues(symmetric(kernel_or_matrix, X, engine))[::-1]


def effective_rank(kernel_or_matrix: Any, X=None, *, alpha: float = 1.0, engine=None) -> float:
    r"""Effective dimension at the regularisation alpha: the degrees of freedom that ridge regression spends on K.

    .. math:: \mathrm{tr}\, K (K + \alpha I)^{-1} = \sum_j \frac{\lambda_j}{\lambda_j + \alpha}

    Zhang (2005), eq. 7; Hastie, Tibshirani & Friedman (2009), eq. 3.50.

    >>> effective_rank(np.eye(4), alpha=1.0)
    2.0
    """
    alpha = number("alpha", alpha, positive=True)
    values = _nonnegative(kernel_or_matrix, X, engine, "an effective rank")
    return float((values / (values + alpha)).sum())


def entropy_rank(kernel_or_matrix: Any, X=None, *, engine=None) -> float:
    r"""Exponential of the entropy of the spectrum: n for the identity, 1 for a matrix of rank one.

    .. math:: \exp\Bigl(-\sum_j p_j \log p_j\Bigr), \qquad p_j = \lambda_j / \mathrm{tr} K

    Roy & Vetterli (2007), definition 1.

    >>> round(entropy_rank(np.eye(4)), 12)
    4.0
    """
    values = _nonnegative(kernel_or_matrix, X, engine, "an entropy rank")
    if not values.sum():
        return 0.0
    p = values[values > 0] / values.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def _nonnegative(kernel_or_matrix, X, engine, what):
    K = symmetric(kernel_or_matrix, X, engine)
    values = eigenvalues(K)
    refuse_indefinite(float(values[0]), psd_tolerance(K.diagonal(), K.dtype), what)
    return np.maximum(values, 0.0)


@dataclass(frozen=True)
class Conditioning:
    """Condition number of a symmetric matrix, and what it costs.

    number: largest over smallest eigenvalue in absolute value; digits_lost: its decimal logarithm, the digits that solving
    with the matrix may lose; digits: what the dtype has.
    """

    largest: float
    smallest: float
    number: float
    digits: float

    @property
    def digits_lost(self) -> float:
        return float(np.log10(self.number))

    def __str__(self):
        verdict = (
            "numerically singular" if self.digits_lost >= self.digits else f"{self.digits_lost:.1f} of them may be lost"
        )
        return (
            f"condition number {self.number:.3g} (eigenvalues {self.smallest:.3g} to {self.largest:.3g}); "
            f"{self.digits:.0f} digits, {verdict}"
        )


def conditioning(kernel_or_matrix: Any, X=None, *, alpha: float = 0.0, engine=None) -> Conditioning:
    r"""Condition number :math:`\max|\lambda| / \min|\lambda|` of K + alpha I.

    >>> print(conditioning([[2.0, 1.0], [1.0, 2.0]]))
    condition number 3 (eigenvalues 1 to 3); 16 digits, 0.5 of them may be lost
    """
    alpha = number("alpha", alpha)
    K = symmetric(kernel_or_matrix, X, engine)
    values = eigenvalues(K) + alpha
    size = np.abs(values)
    ratio = float(size.max() / size.min()) if size.min() else float("inf")
    return Conditioning(float(values[-1]), float(values[0]), ratio, float(-np.log10(np.finfo(K.dtype).eps)))

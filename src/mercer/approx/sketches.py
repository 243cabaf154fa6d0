r"""Random features of polynomial kernels (X3).

The kernel :math:`(\gamma x^T y + c)^p` is :math:`(u^T v)^p` of the rows :math:`u = (\sqrt\gamma\, x, \sqrt c)`, and the power is
estimated by a product of p independent estimates of the inner product.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy import fft

from mercer.approx.maps import FeatureMap, RandomMap, Target, checked_width
from mercer.kernels import Kernel, Polynomial
from mercer.registry import register_record

__all__ = ["SKETCH_KINDS", "ProductSketch", "TensorSketch", "polynomial_sketch_map"]

SKETCH_KINDS = ("complex", "maclaurin", "tensorsketch")


def polynomial_sketch_map(kernel: Kernel, d: int, n_components: int, rng: np.random.Generator,
                          kind: str = "tensorsketch") -> FeatureMap:  # fmt: skip
    """Unbiased features of a polynomial kernel of natural degree, times a number and on chosen columns.

    d: columns of the rows. n_components: width. kind: "tensorsketch", count sketches convolved by FFT, in time that grows
    with the entries of a row that are not 0 plus the width (Pham & Pagh, 2013); "maclaurin", products of projections on random
    signs (Kar & Karnick, 2012); "complex", such products with entries 1, -1, i and -i, real parts beside imaginary ones
    (Wacker, Ohana & Filippone, 2023), mostly of smaller variance than "maclaurin" from degree 3 on.

    >>> rows = np.random.default_rng(0).random((5, 3))
    >>> phi = polynomial_sketch_map(Polynomial(2), 3, 5000, np.random.default_rng(0))
    >>> bool(np.abs(phi(rows) @ phi(rows).T / Polynomial(2)(rows) - 1).max() < 0.1)
    True
    """
    target = Target.of(kernel, d, (Polynomial,), "polynomial sketches")
    if kind not in SKETCH_KINDS:
        raise ValueError(f"kind={kind!r} is not known; there are {', '.join(map(repr, SKETCH_KINDS))}")
    width = checked_width(n_components)
    shape = (_checked_degree(target), target.width + 1)
    if kind == "tensorsketch":
        return TensorSketch(target, width, rng.integers(0, width, shape), _signs(rng, shape))
    if kind == "maclaurin":
        return ProductSketch(target, width, _signs(rng, (*shape, width)))
    return ProductSketch(target, width, _units(rng, (*shape, (width + 1) // 2)), paired=True)


def _checked_degree(target):
    leaf = target.leaf
    target.number("gamma")
    if leaf.degree != int(leaf.degree) or leaf.degree < 1:
        raise ValueError(f"degree={leaf.degree!r} must be an integer >= 1 for a sketch of {leaf!r}")
    if leaf.coef0 < 0:
        raise ValueError(f"coef0={leaf.coef0!r} must be >= 0: {leaf!r} has no real features otherwise")
    return int(leaf.degree)


def _signs(rng, shape):
    return rng.integers(0, 2, shape, dtype=np.int8) * np.int8(2) - np.int8(1)


def _units(rng, shape):
    """Powers of i, even and odd ones equally often; real parts, then imaginary parts, on the last axis."""
    sign, imaginary = _signs(rng, shape), rng.integers(0, 2, shape, dtype=np.int8)
    return np.concatenate([sign * (1 - imaginary), sign * imaginary], axis=-1).astype(np.int8)


@register_record
@dataclass(frozen=True, eq=False)
class TensorSketch(RandomMap):
    """Every column goes to a random bucket with a random sign, once for each factor (degree, width + 1); the circular
    convolution of these sketches is a sketch of the tensor product."""

    buckets: np.ndarray
    signs: np.ndarray

    def _prepared(self, dtype):
        factors = [self._factor(buckets, signs, dtype) for buckets, signs in zip(self.buckets, self.signs, strict=True)]
        size = dtype.type(math.sqrt(self.target.scale))

        def compute(rows):
            product = 1.0
            for matrix, constant in factors:
                product = product * fft.rfft(_times(rows, matrix) + constant, axis=1)
            return size * fft.irfft(product, n=self.dim, axis=1)

        return compute

    def _factor(self, buckets, signs, dtype):
        """Count sketch as a sparse matrix (dim, width), and the sketch of the constant column."""
        leaf, columns = self.target.leaf, np.arange(self.target.width)
        values = (math.sqrt(leaf.gamma) * signs[:-1]).astype(dtype)
        constant = np.zeros(self.dim, dtype)
        constant[buckets[-1]] = math.sqrt(leaf.coef0) * signs[-1]
        return sp.csr_array((values, (buckets[:-1], columns)), shape=(self.dim, self.target.width)), constant


def _times(rows, matrix):
    """rows @ matrix.T as a dense array."""
    return (matrix @ rows.T).T if not sp.issparse(rows) else (rows @ matrix.T).toarray()


@register_record
@dataclass(frozen=True, eq=False)
class ProductSketch(RandomMap):
    """Products of projections on the columns of weights (degree, width + 1, m), complex ones as real beside imaginary parts.

    For an odd width the last imaginary part is left out: the square of a random unit is 0 on average, so that real parts alone
    are unbiased too.
    """

    weights: np.ndarray
    paired: bool = False

    def _prepared(self, dtype):
        leaf, half = self.target.leaf, self.weights.shape[2] // 2
        W = math.sqrt(leaf.gamma) * self.weights[:, :-1].astype(dtype)
        constants = math.sqrt(leaf.coef0) * self.weights[:, -1].astype(dtype)
        size = math.sqrt((1 + self.paired) * self.target.scale / self.dim)

        def compute(rows):
            product = size
            for factor, constant in zip(W, constants, strict=True):
                projected = rows @ factor + constant
                product = product * (projected[:, :half] + 1j * projected[:, half:] if self.paired else projected)
            return np.hstack([product.real, product.imag])[:, : self.dim] if self.paired else product

        return compute

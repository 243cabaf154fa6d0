"""V5 and V6: the empirical Mercer map of a matrix, and the Mercer expansion of a kernel under the law of a sample."""

from dataclasses import dataclass, field

import numpy as np

from mercer import validate
from mercer.diagnostics.matrices import (
    Matrix,
    eigenpairs,
    number,
    psd_tolerance,
    refuse_indefinite,
    rows_against,
    symmetric,
    whole,
)
from mercer.errors import NotPSDError
from mercer.gram import Gram, gram, prepared_gram
from mercer.kernels import as_kernel
from mercer.linalg import top_eigenpairs
from mercer.random import generator

__all__ = ["MercerExpansion", "MercerMap", "mercer_expansion", "mercer_map"]


# ---------------------------------------------------------------------------------------------------------- V5: a matrix
@dataclass(frozen=True)
class MercerMap:
    """Feature vectors of the rows of a Gram matrix: features @ features.T reproduces it.

    features: (n, r); eigenvalues: (r,), descending; residual: largest entry of |K - features @ features.T|.
    """

    features: np.ndarray = field(repr=False)
    eigenvalues: np.ndarray = field(repr=False)
    residual: float

    @property
    def rank(self) -> int:
        return len(self.eigenvalues)

    def transform(self, K_test: Matrix) -> np.ndarray:
        """Features (m, r) of new rows from their kernel values (m, n) with the training rows: K_test U Lambda^(-1/2)."""
        K_test = rows_against(K_test, len(self.features))
        return K_test @ (self.features / self.eigenvalues).astype(K_test.dtype, copy=False)

    def __str__(self):
        n, r = self.features.shape
        return f"Mercer map of {n} rows into {r} dimensions; reproduces K within {self.residual:.1e}"


def mercer_map(K: Matrix, *, rank: int | None = None, tol: float | None = None) -> MercerMap:
    r"""Empirical Mercer map (V5): row i of :math:`U \Lambda^{1/2}` is the feature vector of row i, :math:`K = U \Lambda U^T`.

    rank: keep only this many of the largest eigenvalues. tol: eigenvalues up to it are dropped as rounding, and one below
    -tol refuses the matrix; by default 10 n eps max(diag). Schoelkopf & Smola (2002), section 2.2.6.

    >>> phi = mercer_map([[2.0, 1.0], [1.0, 2.0]]).features
    >>> (phi @ phi.T).round(12)
    array([[2., 1.],
           [1., 2.]])
    """
    K = symmetric(K)
    n = len(K)
    if rank is not None:
        whole("rank", rank, n)
    tolerance = psd_tolerance(K.diagonal(), K.dtype) if tol is None else number("tol", tol)
    values, U = (part[..., ::-1] for part in eigenpairs(K))
    refuse_indefinite(float(values[-1]), tolerance, "a Mercer map")
    kept = min(int((values > tolerance).sum()), rank or n)
    values, U = values[:kept], _oriented(U[:, :kept])
    features = U * np.sqrt(values)
    return MercerMap(features.astype(K.dtype), values, float(np.abs(K - features @ features.T).max()))


def _oriented(U):
    """Each column with its largest entry positive, so that the result does not hang on LAPACK's signs."""
    if not U.size:
        return U
    peaks = np.abs(U).argmax(axis=0)
    return U * np.sign(U[peaks, np.arange(U.shape[1])])


# ---------------------------------------------------------------------------------------------------------- V6: a kernel
@dataclass(frozen=True)
class MercerExpansion:
    """Leading terms of k(x, y) = sum_j eigenvalue_j phi_j(x) phi_j(y) under the law of a sample.

    eigenvalues: (r,), descending, of the integral operator; explained: their share of the mean of k(x, x).
    residuals: ||A v - lambda v|| / lambda_1 of each pair, as reached.
    """

    eigenvalues: np.ndarray
    explained: float
    residuals: np.ndarray = field(repr=False)
    coefficients: np.ndarray = field(repr=False)  # phi_j(x) = sum_i k(x, x_i) coefficients[i, j]
    gram: Gram = field(repr=False)

    def eigenfunctions(self, X) -> np.ndarray:
        """phi_j at the rows of X: (m, r), by Nystrom's extension; their mean square over the sample is 1."""
        rows = self.gram.kernel.validated(X)
        return np.asarray(prepared_gram(self.gram, rows) @ self.coefficients)

    def __str__(self):
        shown = ", ".join(f"{v:.4g}" for v in self.eigenvalues[:5]) + (", ..." if len(self.eigenvalues) > 5 else "")
        plural = "s" * (len(self.eigenvalues) != 1)
        return f"{len(self.eigenvalues)} Mercer term{plural} ({100 * self.explained:.3g} % of the trace): {shown}"


def mercer_expansion(kernel, X, n_terms: int = 10, *, weights=None, random_state=0, engine=None) -> MercerExpansion:
    r"""Eigenvalues and eigenfunctions of the integral operator of a kernel, from a sample (V6).

    .. math:: \int k(x, y)\, \phi_j(y)\, p(y)\, dy = \lambda_j \phi_j(x), \qquad
              \lambda_j \approx \lambda_j(K) / n, \quad \phi_j(x) \approx \frac{1}{n \lambda_j} \sum_i k(x, x_i)\, \phi_j(x_i)

    X: rows drawn from p, or a quadrature grid with its `weights` (they are scaled to sum 1). Fewer terms come back where the
    sample shows fewer positive eigenvalues. Baker (1977), chapter 3; Rasmussen & Williams (2006), section 4.3.2.

    >>> from mercer.kernels import Brownian
    >>> grid = (np.arange(200.0) + 0.5)[:, None] / 200
    >>> (1 / mercer_expansion(Brownian(), grid, 2).eigenvalues / np.pi**2).round(3)  # 1 / lambda = (j - 1/2)^2 pi^2
    array([0.25, 2.25])
    """
    n_terms = whole("n_terms", n_terms)
    kernel = as_kernel(kernel)
    if kernel.validity.kind in ("not-psd", "cpd"):
        raise NotPSDError(f"{kernel!r} has no Mercer expansion: {kernel.validity}")
    rows, p = _law(kernel.validated(X), weights)
    K = gram(kernel, rows, engine=engine, validated=True)
    root = np.sqrt(p)
    pairs = top_eigenpairs(_Weighted(K, root), min(n_terms, len(p)), rng=generator(random_state), tol=1e-10)
    kept = pairs.values > 10 * len(p) * np.finfo(K.dtype).eps * max(pairs.values[0], 0.0)
    if not kept.any():
        raise NotPSDError(f"{kernel!r} has no positive eigenvalue on these rows; the largest is {pairs.values[0]:g}")
    values = pairs.values[kept]
    return MercerExpansion(
        eigenvalues=values,
        explained=float(values.sum() / (p @ K.diag())),
        residuals=pairs.residuals[kept],
        coefficients=root[:, None] * pairs.vectors[:, kept] / values,
        gram=K,
    )


def _law(rows, weights):
    """Rows of positive weight and their probabilities."""
    n = validate.n_rows(rows)
    w = validate.sample_weight(weights, n)
    if w is None:
        return rows, np.full(n, 1.0 / n)
    kept = np.flatnonzero(w > 0)
    return validate.take(rows, kept), w[kept] / w.sum()


class _Weighted:
    """P^(1/2) K P^(1/2): symmetric, with the eigenvalues of the operator K P."""

    def __init__(self, K, root):
        self.K, self.root, self.shape, self.dtype = K, root[:, None], K.shape, K.dtype

    def __matmul__(self, V):
        return self.root * (self.K @ (self.root * V))

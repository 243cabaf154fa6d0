"""V2: is this Gram matrix symmetric and positive semi-definite? A sample can refute a kernel, never prove it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.diagnostics.matrices import as_kernel_or_none, eigenpairs, number, psd_tolerance, square
from mercer.gram import GivenGram, Operator, gram
from mercer.kernels import Kernel, PairKernel, Validity
from mercer.linalg import smallest_eigenvalue
from mercer.random import generator

__all__ = ["KernelReport", "check_kernel"]

DENSE = 3000  # up to here all eigenvalues take seconds; beyond, Lanczos on the lazy Gram


@dataclass(frozen=True)
class KernelReport:
    """What a Gram matrix says about its kernel.

    ok: symmetric, and no eigenvalue below minus the tolerance.
    smallest_eigenvalue: of (K + K^T)/2; where `method` is "lanczos" an estimate from above.
    violating_vector: unit v with v^T K v < 0, or None.
    conditionally_ok: for kernels certified conditionally PD, whether K is PSD on the vectors orthogonal to the polynomials of
    degree < order; None for others.
    certificate: what is known by construction (`kernel.validity`), None for a matrix.
    """

    n: int
    symmetric: bool
    asymmetry: float
    smallest_eigenvalue: float
    tolerance: float
    violating_vector: np.ndarray | None = field(repr=False)
    conditionally_ok: bool | None
    certificate: Validity | None
    method: str

    @property
    def ok(self) -> bool:
        return self.symmetric and self.smallest_eigenvalue >= -self.tolerance

    def __str__(self):
        lines = [self._verdict(), self._symmetry(), self._spectrum()]
        if self.certificate is not None:
            lines.append(f"certificate: {self.certificate}")
        if self.conditionally_ok is not None:
            verb = "is" if self.conditionally_ok else "is NOT"
            lines.append(f"orthogonal to polynomials of degree < {self.certificate.order} the Gram {verb} PSD")
        return "\n".join(lines)

    def _verdict(self):
        if not self.symmetric:
            return f"refuted on {self.n} rows: a kernel is symmetric"
        if not self.ok:
            return f"refuted on {self.n} rows: not a positive semi-definite kernel"
        return f"not refuted on {self.n} rows: a sample can refute a kernel, never prove it"

    def _symmetry(self):
        return (
            "symmetric"
            if self.symmetric
            else f"not symmetric: k(x, y) and k(y, x) differ by up to {self.asymmetry:.3g}"
        )

    def _spectrum(self):
        how = " (Lanczos: an upper bound)" if self.method == "lanczos" else ""
        return f"smallest eigenvalue {self.smallest_eigenvalue:.6g}{how}, tolerance {self.tolerance:.1e}"


def check_kernel(kernel_or_matrix: Any, X=None, *, engine=None, tol: float | None = None) -> KernelReport:
    r"""Test a kernel on rows, or a matrix, for symmetry and positive semi-definiteness (V2).

    .. math:: \max|K - K^T| \le 100\,\epsilon \max|K|, \qquad \lambda_{\min} \ge -10\,n\,\epsilon \max_i K_{ii}

    kernel_or_matrix: a kernel with rows X, or a square matrix alone. tol: replaces the second bound, as a number >= 0.
    Up to 3000 rows the spectrum is computed whole, beyond that its lower end by Lanczos on the lazy Gram. Users' own
    functions (`Pairwise`, `Blockwise`) are evaluated in both orders of every pair.

    >>> from mercer.kernels import Window
    >>> report = check_kernel(Window(), [[1.0], [2.0], [3.0]])
    >>> report.ok, round(report.smallest_eigenvalue, 12)  # 1 - sqrt(2)
    (False, -0.414213562373)
    """
    tol = None if tol is None else number("tol", tol)
    kernel = as_kernel_or_none(kernel_or_matrix, X)
    if kernel is None:
        given, gap = _symmetric_part(square(kernel_or_matrix))
        return _report(given, *gap, tol)
    rows = kernel.validated(X)
    K, gap = _gram(kernel, rows, engine)
    polynomials = None
    if kernel.validity.kind == "cpd":
        polynomials = _polynomials(kernel, rows, kernel.validity.order)
    return _report(K, *gap, tol, kernel.validity, polynomials)


def _gram(kernel: Kernel, rows, engine) -> tuple[Operator, tuple[float, float]]:
    """The Gram as an operator, and (asymmetry, its limit)."""
    K = gram(kernel, rows, engine=engine, validated=True)
    if not any(isinstance(leaf, PairKernel) for leaf in kernel._leaves):
        return K, (0.0, 0.0)  # our formulas are symmetric in their statistics
    # The Gram of rows with themselves is mirrored and so always symmetric; as two sides every pair is asked both ways.
    both_ways, gap = _symmetric_part(gram(kernel, rows, rows, engine=engine, validated=True).dense())
    both_ways.K[np.diag_indices(len(K))] = K.diag()  # White noise is absent between two sides
    return both_ways, gap


def _symmetric_part(K: np.ndarray) -> tuple[GivenGram, tuple[float, float]]:
    asymmetry = float(np.abs(K - K.T).max())
    return GivenGram((K + K.T) / 2), (asymmetry, float(100 * np.finfo(K.dtype).eps * np.abs(K).max()))


def _report(K: Operator, asymmetry, limit, tol, certificate=None, polynomials=None) -> KernelReport:
    n = len(K)
    tolerance = psd_tolerance(K.diag(), K.dtype) if tol is None else tol
    method = "eigh" if n <= DENSE else "lanczos"
    A = K.dense().astype(np.float64, copy=False) if method == "eigh" else K
    smallest, vector = _lower_end(A)
    return KernelReport(
        n=n,
        symmetric=asymmetry <= limit,
        asymmetry=asymmetry,
        smallest_eigenvalue=smallest,
        tolerance=tolerance,
        violating_vector=vector if smallest < -tolerance else None,
        conditionally_ok=None if polynomials is None else _conditionally_psd(A, polynomials, K.dtype, tol),
        certificate=certificate,
        method=method,
    )


def _lower_end(A, tol: float = 1e-6) -> tuple[float, np.ndarray]:
    if isinstance(A, np.ndarray):
        values, vectors = eigenpairs(A)
        return float(values[0]), vectors[:, 0]
    return smallest_eigenvalue(A, generator(0), tol=tol)


# ------------------------------------------------------------------------------------- conditionally positive definite
def _polynomials(kernel: Kernel, rows, order: int) -> np.ndarray:
    """Orthonormal basis of the values on the rows of all polynomials of degree < order: (n, p)."""
    from sklearn.preprocessing import PolynomialFeatures  # brings much that `import mercer` does not need

    if order <= 1:
        n = validate.n_rows(rows)
        return np.full((n, 1), n**-0.5)
    X = validate.numeric(validate.part(rows, kernel.columns) if kernel.columns else rows)
    X = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    X = X - X.mean(axis=0)
    X = X / np.maximum(
        np.abs(X).max(axis=0), np.finfo(float).tiny
    )  # the same polynomials, without powers of large numbers
    U, size, _ = np.linalg.svd(PolynomialFeatures(order - 1).fit_transform(X), full_matrices=False)
    return U[:, size > 1e-12 * size[0]]


def _conditionally_psd(A, Q, dtype, tol) -> bool:
    """Whether P A P has no negative eigenvalue, P = I - Q Q^T."""
    if tol is None:  # the diagonal of a conditionally PD kernel may be 0, so rounding is measured by the largest entry
        tol = 10 * len(Q) * np.finfo(dtype).eps * _largest_entry(A)
    projected = _Projected(A, Q)
    if isinstance(A, np.ndarray):
        projected = projected @ np.eye(len(Q))
        projected = (projected + projected.T) / 2
    # The eigenvalues crowd at 0 here, and vectors inside a crowd need not be told apart to see its sign.
    return bool(_lower_end(projected, 1e-4)[0] >= -tol)


def _largest_entry(A) -> float:
    """max|A|, of a lazy Gram tile by tile."""
    if isinstance(A, np.ndarray):
        return float(np.abs(A).max())
    lowest, _ = A.reduce("topk", k=1, largest=False)
    return float(max(np.abs(A.reduce("max")).max(), np.abs(lowest).max()))


class _Projected:
    """P A P with P = I - Q Q^T, the projection away from the columns of Q."""

    def __init__(self, A, Q):
        self.A, self.Q, self.shape, self.dtype = A, Q, A.shape, A.dtype

    def __matmul__(self, V):
        return self._away(self.A @ self._away(V))

    def _away(self, V):
        return V - self.Q @ (self.Q.T @ V)

"""V4: positive semi-definite matrices near an indefinite one, and what was changed."""

import warnings
from dataclasses import dataclass, field

import numpy as np

from mercer.diagnostics.matrices import Matrix, eigenpairs, eigenvalues, number, rows_against, symmetric, whole
from mercer.errors import ConvergenceWarning

__all__ = ["Repair", "repair"]

METHODS = ("clip", "flip", "shift", "nearest")


@dataclass(frozen=True)
class Repair:
    """A positive semi-definite matrix and how it differs from the given one.

    change: Frobenius norm of the difference; relative_change: divided by that of the given matrix.
    shift: what "shift" added to the diagonal, else 0. iterations: of the alternating projections, else 1.
    """

    matrix: np.ndarray = field(repr=False)
    method: str
    smallest_before: float
    smallest_after: float
    change: float
    relative_change: float
    shift: float
    iterations: int
    keeps_diagonal: bool
    directions: np.ndarray = field(repr=False)  # eigenvectors of the negative eigenvalues

    def transform(self, K_test: Matrix) -> np.ndarray:
        """Kernel values of new rows (m, n) with the training rows, repaired in the same way.

        Negative directions are removed ("clip", "nearest") or change sign ("flip"); "shift" changes the diagonal alone.
        """
        K_test = rows_against(K_test, len(self.matrix))
        if self.keeps_diagonal:
            raise ValueError(
                "the nearest matrix with the same diagonal is no function of the spectrum, so new rows have no repair; "
                'use method="clip"'
            )
        times = {"shift": 0.0, "flip": 2.0}.get(self.method, 1.0)
        U = self.directions.astype(K_test.dtype, copy=False)
        return K_test - times * (K_test @ U) @ U.T if times else K_test.copy()

    def __str__(self):
        kept = ", diagonal kept" if self.keeps_diagonal else ""
        return (
            f"{self.method}{kept}: smallest eigenvalue {self.smallest_before:.6g} -> {self.smallest_after:.6g}; "
            f"{len(self.directions.T)} negative of {len(self.matrix)}; changed by {self.change:.3g} in Frobenius norm "
            f"({100 * self.relative_change:.2g} %), {self.iterations} iteration{'s' * (self.iterations != 1)}"
        )


def repair(
    K: Matrix, method: str = "clip", *, keep_diagonal: bool = False, tol: float = 1e-10, max_iter: int = 2000
) -> Repair:
    r"""Repair an indefinite symmetric matrix :math:`K = U \Lambda U^T` (V4).

    "clip": :math:`U \Lambda_+ U^T`, the nearest PSD matrix in Frobenius norm (Higham 1988); "flip": :math:`U |\Lambda| U^T`;
    "shift": :math:`K + |\lambda_{\min}| I`; "nearest": as "clip", or with `keep_diagonal` the nearest PSD matrix with K's
    diagonal, by alternating projections with Dykstra's correction (Higham 2002, algorithm 3.3) until they agree within `tol`.
    Wu, Chang & Zhang (2005) compare the first three.

    >>> fixed = repair([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]], "nearest", keep_diagonal=True)
    >>> fixed.matrix.round(4)
    array([[1.    , 0.7607, 0.1573],
           [0.7607, 1.    , 0.7607],
           [0.1573, 0.7607, 1.    ]])
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r} must be one of {', '.join(METHODS)}")
    if keep_diagonal and method != "nearest":
        raise ValueError(f'keep_diagonal=True belongs to method="nearest"; {method!r} changes the diagonal')
    tol, max_iter = number("tol", tol, positive=True), whole("max_iter", max_iter)
    K = symmetric(K)
    A = K.astype(np.float64)
    values, vectors = eigenpairs(A)
    iterations = 1
    if keep_diagonal:
        B, iterations = _with_diagonal(A, tol, max_iter)
    else:
        B = A + _added(values, vectors, method)
    B = ((B + B.T) / 2).astype(K.dtype)
    return Repair(
        matrix=B,
        method=method,
        smallest_before=float(values[0]),
        smallest_after=float(eigenvalues(B)[0]),
        **_change(K, B),
        shift=max(-float(values[0]), 0.0) if method == "shift" else 0.0,
        iterations=iterations,
        keeps_diagonal=keep_diagonal,
        directions=vectors[:, values < 0],
    )


def _added(values, vectors, method):
    """What a function of the spectrum adds to the matrix; nothing where no eigenvalue is negative, not even rounding."""
    if method == "shift":
        return max(-values[0], 0.0) * np.eye(len(values))
    lack, U = -values[values < 0], vectors[:, values < 0]
    return (2.0 if method == "flip" else 1.0) * (U * lack) @ U.T


def _change(K, B):
    change, size = float(np.linalg.norm(B - K)), float(np.linalg.norm(K))
    return {"change": change, "relative_change": change / size if size else 0.0}


def _with_diagonal(A, tol, max_iter):
    """Nearest PSD matrix with the diagonal of A, and the iterations."""
    d = A.diagonal().copy()
    if d.min() < 0:
        raise ValueError(f"no PSD matrix has a negative diagonal entry, and K has {d.min():g}; use keep_diagonal=False")
    # Where the diagonal is 0 so is the row; left to the iteration, such rows shrink like 1 / iterations.
    A = np.where(np.outer(d > 0, d > 0), A, 0.0)
    Y, correction, scale = A, np.zeros_like(A), max(float(np.linalg.norm(A)), np.finfo(float).tiny)
    gap, iterations = np.inf, 0
    while gap > tol and iterations < max_iter:
        R = Y - correction
        X = _positive_part(R)
        correction = X - R  # Dykstra: without it the limit is a PSD matrix with this diagonal, but not the nearest
        previous, Y = Y, X.copy()
        np.fill_diagonal(Y, d)
        gap, iterations = max(np.linalg.norm(Y - X), np.linalg.norm(Y - previous)) / scale, iterations + 1
    if gap > tol:
        said = f"alternating projections differ by {gap:.1e} after {iterations} iterations, asked were {tol:.1e}"
        warnings.warn(said, ConvergenceWarning, stacklevel=3)
    return _rescaled(X, d), iterations


def _rescaled(X, d):
    """The PSD matrix X with its rows and columns scaled to the diagonal d: both properties hold, not each within a gap."""
    factors = np.sqrt(np.divide(d, X.diagonal(), out=np.zeros_like(d), where=X.diagonal() > 0))
    B = X * factors[:, None] * factors
    np.fill_diagonal(B, d)
    return B


def _positive_part(R):
    values, vectors = eigenpairs((R + R.T) / 2)
    kept = vectors[:, values > 0]
    return (kept * values[values > 0]) @ kept.T

"""What the diagnostics accept: a kernel with rows, or a square matrix; and their eigenvalues with one tolerance for all."""

import math
import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.errors import NanError, NotPSDError
from mercer.gram import Operator, gram
from mercer.kernels import Kernel, as_kernel
from mercer.linalg import check_symmetric, run_interruptibly, seconds_for_eigh

__all__ = [
    "Matrix",
    "array",
    "as_kernel_or_none",
    "eigenpairs",
    "eigenvalues",
    "number",
    "psd_tolerance",
    "refuse_indefinite",
    "rows_against",
    "square",
    "symmetric",
    "whole",
]

Matrix = Any  # what becomes a 2-D array of real numbers: an array, nested lists, a sparse matrix, a Gram


def array(K: Matrix, name: str = "K") -> np.ndarray:
    """2-D float array with finite entries; float32 stays float32."""
    K = validate.array_of(K.dense() if isinstance(K, Operator) else K, name)
    K = K.toarray() if sp.issparse(K) else np.asarray(K)
    if K.ndim != 2 or K.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a matrix of real numbers, got shape {K.shape} of {K.dtype}")
    K = K if K.dtype.char in "fd" else K.astype(np.float32 if K.dtype == np.float16 else np.float64)
    if not np.isfinite(K).all():
        bad = int((~np.isfinite(K)).sum())
        raise NanError(
            f"{name} holds NaN or infinity in {bad} of {K.size} entries; look for overflow or missing values"
        )
    return K


def square(K: Matrix, name: str = "K") -> np.ndarray:
    """A non-empty square matrix, symmetric or not."""
    K = array(K, name)
    if K.shape[0] != K.shape[1] or not K.size:
        raise ValueError(f"{name} must be a square matrix (the Gram of some rows with themselves), got shape {K.shape}")
    return K


def symmetric(kernel_or_matrix: Any, X=None, engine=None) -> np.ndarray:
    """The symmetric Gram matrix of a kernel on X, or the given matrix once it has proved symmetric; exactly so afterwards."""
    kernel = as_kernel_or_none(kernel_or_matrix, X)
    if kernel is not None:
        return validate.array_of(gram(kernel, X, engine=engine).dense())
    K = square(kernel_or_matrix)
    check_symmetric(K)
    return (K + K.T) / 2


def as_kernel_or_none(kernel_or_matrix: Any, X) -> Kernel | None:
    """The kernel that came with rows X, or None where a matrix came alone; any other pairing is refused."""
    is_kernel = isinstance(kernel_or_matrix, (Kernel, str)) or callable(kernel_or_matrix)
    if is_kernel and X is None:
        raise ValueError(f"{kernel_or_matrix!r} needs rows X to be evaluated on; without X pass a square matrix")
    if not is_kernel and X is not None:
        raise ValueError("X came with a matrix; pass a kernel and X, or the matrix alone")
    return as_kernel(kernel_or_matrix) if is_kernel else None


def rows_against(K_test: Matrix, n: int) -> np.ndarray:
    """Kernel values of new rows (m, n) with the n rows that a record was made from."""
    K_test = array(K_test, "K_test")
    if K_test.shape[1] != n:
        raise ValueError(f"K_test must have one column for each of the {n} training rows, got shape {K_test.shape}")
    return K_test


def psd_tolerance(diagonal: np.ndarray, dtype) -> float:
    """10 n eps max(diag): eigenvalues down to minus this are rounding in a positive semi-definite matrix."""
    return float(10 * len(diagonal) * np.finfo(dtype).eps * max(0.0, float(diagonal.max())))


def number(name: str, value: Any, *, positive: bool = False) -> float:
    """A finite real number >= 0, or > 0."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not real or value < 0 or (positive and value == 0):
        raise ValueError(f"{name}={value!r} must be a finite number {'>' if positive else '>='} 0")
    return float(value)


def whole(name: str, value: Any, high: int | None = None) -> int:
    """A whole number >= 1, up to `high`."""
    good = isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 1
    if not good or (high is not None and value > high):
        raise ValueError(
            f"{name}={value!r} must be a whole number >= 1" + (f" and <= {high}" if high is not None else "")
        )
    return int(value)


def eigenpairs(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenvalues and vectors, in float64 so that only the entries of K carry rounding."""
    return run_interruptibly(np.linalg.eigh, K.astype(np.float64), seconds_predicted=seconds_for_eigh(len(K)))


def eigenvalues(K: np.ndarray) -> np.ndarray:
    """Ascending eigenvalues in float64."""
    return run_interruptibly(np.linalg.eigvalsh, K.astype(np.float64), seconds_predicted=seconds_for_eigh(len(K)) / 4)


def refuse_indefinite(smallest: float, tolerance: float, what: str) -> None:
    """NotPSDError where the smallest eigenvalue is below what rounding explains."""
    if smallest < -tolerance:
        raise NotPSDError(
            f"{what} needs a positive semi-definite matrix; the smallest eigenvalue is {smallest:.6g}, below -{tolerance:.1e}. "
            "Look at mercer.check_kernel, or change the matrix with mercer.repair"
        )

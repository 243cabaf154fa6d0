"""BLAS and LAPACK on blocks of an array, in place and without copies.

scipy's own wrappers copy every block whose rows are not adjacent in memory, and mixing them with `numpy.matmul` makes two
OpenBLAS thread pools spin against each other (measured, Cholesky n = 6000 on 2 cores: 2.2 s mixed, 0.9 s in one pool). So the
routines are reached through the pointers that `scipy.linalg.cython_blas` publishes for Cython code, which take a leading
dimension. These calls release the GIL, which scipy's wrappers of potrf, potrs, trsm and syevd do not (measured), so that a
thread waiting for them can be interrupted.

All functions take C-ordered views: rows may lie apart, entries of a row may not. Fortran reads such a view as its transpose,
hence uplo = "U" wherever the lower triangle is meant.
"""

import ctypes
from functools import cache

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

__all__ = ["factor_block", "invert_block", "product", "solve_rows", "subtract_product", "subtract_square"]

_CAPSULE_NAME = ctypes.pythonapi.PyCapsule_GetName
_CAPSULE_NAME.restype, _CAPSULE_NAME.argtypes = ctypes.c_char_p, [ctypes.py_object]
_CAPSULE_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_CAPSULE_POINTER.restype, _CAPSULE_POINTER.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def factor_block(A: np.ndarray) -> int:
    """Replace the lower triangle of A by L with L L^T = A; 0, or the 1-based row at which A is not positive definite."""
    info = ctypes.c_int(0)
    _routine("potrf", A)(b"U", _int(len(A)), A.ctypes.data, _leading(A), ctypes.byref(info))
    return info.value


def invert_block(A: np.ndarray) -> None:
    """Replace L in the lower triangle of A by the lower triangle of (L L^T)^-1."""
    info = ctypes.c_int(0)
    _routine("potri", A)(b"U", _int(len(A)), A.ctypes.data, _leading(A), ctypes.byref(info))
    if info.value:
        raise np.linalg.LinAlgError(f"the triangular factor has a zero in row {info.value}")


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B^T by the same thread pool as the factorisations."""
    out = np.zeros((len(A), len(B)), A.dtype)
    subtract_product(A, B, out)
    return np.negative(out, out=out)


def subtract_square(A: np.ndarray, C: np.ndarray) -> None:
    """Lower triangle of C -= A A^T; the strict upper triangle is not touched."""
    n, k = A.shape
    syrk, minus, one = _routine("syrk", A), _real(-1, A), _real(1, A)
    syrk(b"U", b"T", _int(n), _int(k), minus, A.ctypes.data, _leading(A), one, C.ctypes.data, _leading(C))


def subtract_product(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
    """C -= A B^T."""
    (m, k), n = A.shape, len(B)
    gemm, minus, one = _routine("gemm", A), _real(-1, A), _real(1, A)
    gemm(b"T", b"N", _int(n), _int(m), _int(k), minus, B.ctypes.data, _leading(B), A.ctypes.data, _leading(A),
         one, C.ctypes.data, _leading(C))  # fmt: skip


def solve_rows(L: np.ndarray, B: np.ndarray, trans: bool = False) -> None:
    """Replace each row b of B by L^-1 b, or by L^-T b when `trans`; only the lower triangle of L is read."""
    m, n = B.shape
    trsm, one = _routine("trsm", L), _real(1, L)
    trsm(
        b"L",
        b"U",
        b"N" if trans else b"T",
        b"N",
        _int(n),
        _int(m),
        one,
        L.ctypes.data,
        _leading(L),
        B.ctypes.data,
        _leading(B),
    )


def _routine(name, A):
    return _load({"f": "s", "d": "d"}[A.dtype.char] + name)


@cache
def _load(name):
    library = cython_lapack if name[1:] in ("potrf", "potri") else cython_blas
    capsule = library.__pyx_capi__[name]
    signature = _CAPSULE_NAME(capsule)  # "void (char *, int *, ...)": every argument is a pointer
    pointers = [ctypes.c_void_p] * (signature.count(b",") + 1)
    return ctypes.CFUNCTYPE(None, *pointers)(_CAPSULE_POINTER(capsule, signature))


def _int(value):
    return ctypes.byref(ctypes.c_int(value))  # cython_blas declares `int *` on every platform


def _real(value, like):
    return ctypes.byref(ctypes.c_float(value) if like.dtype == np.float32 else ctypes.c_double(value))


def _leading(A):
    # A view of one row may carry any stride; BLAS still wants a leading dimension of at least its length.
    return _int(max(A.strides[0] // A.itemsize, A.shape[1], 1))

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

__all__ = ["factor_block", "invert_block", "invert_triangle", "product", "reflectors", "solve_rows", "subtract_from",
           "subtract_mixed", "subtract_product", "subtract_square", "symmetric_product"]  # fmt: skip

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


def invert_triangle(A: np.ndarray) -> None:
    """Replace L in the lower triangle of A by its inverse; the strict upper triangle is not touched."""
    info = ctypes.c_int(0)
    _routine("trtri", A)(b"U", b"N", _int(len(A)), A.ctypes.data, _leading(A), ctypes.byref(info))
    if info.value:
        raise np.linalg.LinAlgError(f"the triangle has a zero in row {info.value}")


def product(A: np.ndarray, B: np.ndarray, *, transpose_a: bool = False) -> np.ndarray:
    """A B, or A^T B, by the same thread pool as the factorisations."""
    m = A.shape[1] if transpose_a else A.shape[0]
    out = np.empty((m, B.shape[1]), A.dtype)
    _multiply(out, A, B, 1, 0, transpose_a, False)
    return out


def subtract_from(C: np.ndarray, A: np.ndarray, B: np.ndarray) -> None:
    """C -= A B."""
    _multiply(C, A, B, -1, 1, False, False)


def _multiply(C, A, B, alpha, beta, transpose_a, transpose_b):
    """C = alpha op(A) op(B) + beta C: Fortran sees C^T = op(B)^T op(A)^T."""
    m, n = C.shape
    k = A.shape[0] if transpose_a else A.shape[1]
    gemm, first, last = _routine("gemm", A), _real(alpha, A), _real(beta, A)
    gemm(b"T" if transpose_b else b"N", b"T" if transpose_a else b"N", _int(n), _int(m), _int(k), first,
         B.ctypes.data, _leading(B), A.ctypes.data, _leading(A), last, C.ctypes.data, _leading(C))  # fmt: skip


def subtract_square(A: np.ndarray, C: np.ndarray) -> None:
    """Lower triangle of C -= A A^T; the strict upper triangle is not touched."""
    n, k = A.shape
    syrk, minus, one = _routine("syrk", A), _real(-1, A), _real(1, A)
    syrk(b"U", b"T", _int(n), _int(k), minus, A.ctypes.data, _leading(A), one, C.ctypes.data, _leading(C))


def subtract_product(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
    """C -= A B^T."""
    _multiply(C, A, B, -1, 1, False, True)


def subtract_mixed(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
    """Lower triangle of C -= A B^T + B A^T."""
    n, k = A.shape
    syr2k, minus, one = _routine("syr2k", A), _real(-1, A), _real(1, A)
    syr2k(b"U", b"T", _int(n), _int(k), minus, A.ctypes.data, _leading(A), B.ctypes.data, _leading(B),
          one, C.ctypes.data, _leading(C))  # fmt: skip


def symmetric_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B for a symmetric A of which only the lower triangle is read."""
    n, k = B.shape
    out = np.empty((n, k), A.dtype)
    symm, one, zero = _routine("symm", A), _real(1, A), _real(0, A)
    symm(b"R", b"U", _int(k), _int(n), one, A.ctypes.data, _leading(A), B.ctypes.data, _leading(B),
         zero, out.ctypes.data, _leading(out))  # fmt: skip
    return out


def reflectors(panel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """QR of a panel in LAPACK's packed form: R above the diagonal, Householder vectors below it, and their factors tau."""
    packed = np.array(panel, order="F")
    m, n = packed.shape
    tau, work, info = np.empty(min(m, n), packed.dtype), np.empty(64 * n, packed.dtype), ctypes.c_int(0)
    _routine("geqrf", packed)(_int(m), _int(n), packed.ctypes.data, _int(max(m, 1)), tau.ctypes.data, work.ctypes.data,
                              _int(len(work)), ctypes.byref(info))  # fmt: skip
    return packed, tau


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
    library = cython_lapack if name[1:] in ("geqrf", "potrf", "potri", "trtri") else cython_blas
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

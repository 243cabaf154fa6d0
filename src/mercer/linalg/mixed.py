r"""Solve K X = B in float64 at the price of a float32 factorisation, inside the memory of K.

The float32 factor is the preconditioner of conjugate gradients in float64: it leaves a condition number near 1, so a few
products with K give all digits. The lower triangle of a float64 matrix has room for the float32 lower triangle (row i of
the view as float32 begins at the same address), and its strict upper triangle still holds K for the products.

Carson & Higham (2018) on refinement in two precisions.
"""

from dataclasses import replace

import numpy as np

from mercer.linalg.cg import conjugate_gradient
from mercer.linalg.cholesky import _factorise, _restore
from mercer.linalg.factor import multiply_upper
from mercer.linalg.inplace import solve_rows
from mercer.linalg.records import Solution

__all__ = ["solve_mixed"]

SMALLEST = 2000  # below, a float64 factorisation is as quick
LARGEST_RATIO = 1e5  # of the mean diagonal to the shift: beyond, float32 loses the shift
LARGEST_ENTRY = 1e30  # float32 ends at 3e38
ROUNDS = 40
ACCEPTED = 10  # times the tolerance: rounding ends some iterations a little above it


def solve_mixed(K: np.ndarray, B: np.ndarray, shift: float, rtol: float = 1e-13) -> Solution | None:
    """Solution of (K + shift I) X = B for B (n, p), or None, with K as it was, where float32 is not enough.

    K is symmetric, float64 and C-ordered; it is overwritten when a solution is returned, whose `state` multiplies by K + shift I.
    """
    original = K.diagonal().copy()
    if not _suited(K, original, shift):
        return None
    operator, L = _Upper(K, original + shift), _single(K, original + shift)
    try:
        found = None if _factorise(L) else _refined(operator, L, B, rtol)
    except BaseException:  # also an interrupt: the caller's matrix must survive it
        _restore(K, original)
        raise
    if found is None:
        _restore(K, original)
    return found


def _suited(K, diagonal, shift):
    in_place = K.dtype == np.float64 and K.flags.c_contiguous and K.flags.writeable
    return (
        len(K) >= SMALLEST and in_place and diagonal.mean() <= LARGEST_RATIO * shift and diagonal.max() < LARGEST_ENTRY
    )


def _refined(operator, L, B, rtol):
    solve = _Preconditioner(L).solve
    found = conjugate_gradient(operator, B, preconditioner=solve, rtol=rtol, max_iter=ROUNDS, check_every=4)
    return replace(found, state=operator) if found.certificate <= ACCEPTED * rtol else None


def _single(K, diagonal):
    """The lower triangle in float32, written over itself: row i of the view needs the first half of row i."""
    L = K.view(np.float32)[:, : len(K)]
    for i in range(len(K)):
        L[i, :i] = K[i, :i].astype(np.float32)
        L[i, i] = diagonal[i]
    return L


class _Upper:
    """K + shift I by its strict upper triangle and its diagonal."""

    def __init__(self, K, diagonal):
        self.K, self.diagonal, self.shape, self.dtype = K, diagonal, K.shape, K.dtype

    def __matmul__(self, V):
        return multiply_upper(self.K, self.diagonal, V)


class _Preconditioner:
    """Two float32 substitutions."""

    def __init__(self, L):
        self.L = L

    def solve(self, R):
        scale = np.abs(R).max(axis=0)
        scale[scale == 0] = 1.0  # residuals of 1e-14 would lose digits in float32
        rows = np.ascontiguousarray((R / scale).T, dtype=np.float32)
        solve_rows(self.L, rows)
        solve_rows(self.L, rows, True)
        return rows.T.astype(np.float64) * scale

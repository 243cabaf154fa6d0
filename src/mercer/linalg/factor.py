"""The factor of a positive definite matrix: factor once, solve many."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mercer.linalg.inplace import invert_block, solve_rows
from mercer.linalg.waiting import run_interruptibly, seconds_for_solve

__all__ = ["Factor", "multiply_upper"]

PANEL = 256


@dataclass(frozen=True, eq=False)
class Factor:
    """L L^T = K + jitter I, made by `safe_cholesky`.

    array: (n, n), C-ordered. Its lower triangle is L, its strict upper triangle still that of K.
    diagonal: (n,) diagonal of K with the shift, without the jitter.
    jitter: what was really added to the diagonal; for method "eigen" the most by which an eigenvalue was raised.

    >>> Factor(np.array([[2.0, 2.0], [1.0, 3.0]]), np.array([4.0, 10.0])).solve(np.array([8.0, 14.0]))
    array([1.44444444, 1.11111111])
    """

    array: np.ndarray
    diagonal: np.ndarray
    jitter: float = 0.0
    method: Literal["cholesky", "eigen"] = "cholesky"

    @property
    def n(self) -> int:
        return len(self.array)

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    def solve(self, B: np.ndarray) -> np.ndarray:
        """K^-1 B for B (n,) or (n, p), in the dtype of the factor."""
        return self._substitute(B, (False, True))

    def solve_triangular(self, B: np.ndarray, *, trans: bool = False) -> np.ndarray:
        """L^-1 B, or L^-T B when `trans`, for B (n,) or (n, p)."""
        return self._substitute(B, (trans,))

    def logdet(self) -> float:
        """log det K = 2 sum_i log L_ii."""
        return float(2 * np.log(self.array.diagonal().astype(float)).sum())

    def diag_inverse(self) -> np.ndarray:
        """Diagonal of K^-1: squared column norms of L^-1, n^3 / 3 flops in panels of (256, n).

        Leave-one-out residuals are (K^-1 y)_i / (K^-1)_ii: Rasmussen & Williams (2006), eq. 5.12.
        """
        result = np.empty(self.n, dtype=self.array.dtype)
        for start in range(0, self.n, PANEL):
            stop = min(start + PANEL, self.n)
            # Column j of L^-1 is zero above row j, so the panel needs only the trailing part of L.
            panel = np.zeros((stop - start, self.n - start), dtype=self.array.dtype)
            np.fill_diagonal(panel, 1)
            seconds = seconds_for_solve(self.n - start, stop - start)
            run_interruptibly(solve_rows, self.array[start:, start:], panel, seconds_predicted=seconds)
            result[start:stop] = np.einsum("ij,ij->i", panel, panel, dtype=np.float64)
        return result

    def inverse(self, overwrite: bool = False) -> np.ndarray:
        """(K + jitter I)^-1 as a full symmetric matrix, 2 n^3 / 3 flops. `overwrite` makes it in `array`: the factor is gone."""
        C = self.array if overwrite else self.array.copy()
        run_interruptibly(invert_block, C, seconds_predicted=seconds_for_solve(self.n, self.n // 3))
        for start in range(0, self.n, PANEL):
            stop = min(start + PANEL, self.n)
            corner = np.tril(C[start:stop, start:stop])
            C[start:stop, start:stop] = corner + np.tril(corner, -1).T
            C[start:stop, stop:] = C[stop:, start:stop].T
        return C

    def multiply(self, B: np.ndarray) -> np.ndarray:
        """K B without the jitter, from the triangle that the factorisation left alone: for residuals when K was overwritten."""
        return multiply_upper(self.array, self.diagonal, self._right_hand_side(B))

    def _substitute(self, B, order):
        B = self._right_hand_side(B)
        rows = np.array(B.reshape(self.n, -1).T, order="C")
        for trans in order:
            seconds = seconds_for_solve(self.n, len(rows))
            run_interruptibly(solve_rows, self.array, rows, trans, seconds_predicted=seconds)
        return rows.T.reshape(B.shape)

    def _right_hand_side(self, B):
        B = np.asarray(B, dtype=self.dtype)
        if B.ndim not in (1, 2) or len(B) != self.n:
            raise ValueError(f"expected a right-hand side of {self.n} rows, got shape {B.shape}")
        return B


def multiply_upper(K: np.ndarray, diagonal: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Product with the symmetric matrix that has this diagonal and the strict upper triangle of K."""
    n = len(K)
    result = (diagonal * B.T).T.astype(K.dtype)
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        corner = np.triu(K[start:stop, start:stop], 1)
        right = K[start:stop, stop:]
        result[start:stop] += corner @ B[start:stop] + corner.T @ B[start:stop] + right @ B[stop:]
        result[stop:] += right.T @ B[start:stop]
    return result

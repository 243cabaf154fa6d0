r"""Symmetric matrices to band form, K = Q B Q^T, by blocks: what shifts of one matrix share.

For every alpha, K + alpha I = Q (B + alpha I) Q^T: a Cholesky factor of the band and one block substitution give solutions
and the diagonal of the inverse in O(n^2 b). The reduction to a band is matrix products throughout, while the tridiagonal
form that eigenvalues need is bound by memory: at n = 8000 it takes a small part of the time.

Dongarra, Sorensen & Hammarling (1989); Bischof, Lang & Sun (2000), the first of their two stages.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["BandForm", "band_form"]

WIDTH = 64
STRIP = 512


@dataclass(frozen=True, eq=False)
class BandForm:
    """K = Q B Q^T with Q orthogonal (n, n) and B block tridiagonal: diagonal blocks (b, b) and the blocks below them.

    >>> K = np.array([[2.0, 1.0, 0.5], [1.0, 2.0, 1.0], [0.5, 1.0, 2.0]])
    >>> form = band_form(K.copy(), width=1)
    >>> bool(np.allclose(form.shifted(0.1).diag_inverse(), np.diag(np.linalg.inv(K + 0.1 * np.eye(3)))))
    True
    """

    Q: np.ndarray
    diagonal: list
    below: list

    def shifted(self, alpha: float) -> "ShiftedBand":
        """Factor of K + alpha I."""
        return ShiftedBand(self, float(alpha))


def band_form(K: np.ndarray, width: int = WIDTH) -> BandForm:
    """Reduce a symmetric matrix, which is overwritten. Each panel is cleared below the band by a block reflector I - V T V^T."""
    n = len(K)
    starts = list(range(0, n, width))
    reflectors = []
    for start in starts[:-1]:
        stop = start + width
        panel = K[stop:, start:stop]
        V, T, R = _block_reflector(panel)
        panel[...] = 0.0
        panel[: len(R)] = R
        K[start:stop, stop:] = panel.T
        _two_sided(K[stop:, stop:], V, T)
        reflectors.append((stop, V, T))
    diagonal = [K[s : s + width, s : s + width].copy() for s in starts]
    below = [K[s + width : s + 2 * width, s : s + width].copy() for s in starts[:-1]]
    return BandForm(_accumulate(K, reflectors), diagonal, below)


def _block_reflector(panel):
    """V (m, b) unit lower trapezoidal, T (b, b) upper triangular and R with (I - V T V^T)^T panel = [R; 0]."""
    packed, tau = np.linalg.qr(panel, mode="raw")
    packed, b = packed.T, len(tau)
    V = np.tril(packed[:, :b], -1)
    V[np.arange(b), np.arange(b)] = 1.0
    R = np.triu(packed[:b])
    T = np.zeros((b, b))
    products = V.T @ V
    for j in range(b):  # Schreiber & Van Loan (1989)
        T[j, j] = tau[j]
        T[:j, j] = -tau[j] * (T[:j, :j] @ products[:j, j])
    return V, T, R


def _two_sided(A, V, T):
    """A <- (I - V T V^T)^T A (I - V T V^T) as a symmetric update of rank 2b: A - V W^T - W V^T."""
    W = A @ (V @ T)
    W -= 0.5 * V @ (T.T @ (V.T @ W))
    left, right = np.hstack([V, W]), np.hstack([W, V]).T
    for i in range(0, len(A), STRIP):  # the whole product would be a second matrix
        A[i : i + STRIP] -= left[i : i + STRIP] @ right


def _accumulate(K, reflectors):
    """Q = product of the reflectors, built backwards so that each touches only what is not the identity yet."""
    n = len(K)
    K[...] = 0.0
    K[np.arange(n), np.arange(n)] = 1.0
    for stop, V, T in reversed(reflectors):
        block = K[stop:, stop:]
        left, right = V @ T, V.T @ block
        for i in range(0, len(block), STRIP):
            block[i : i + STRIP] -= left[i : i + STRIP] @ right
    return K


class ShiftedBand:
    """L L^T = B + alpha I, block bidiagonal."""

    def __init__(self, form, alpha):
        self.form = form
        self.corners, self.sides = [], []
        update = 0.0
        for k, block in enumerate(form.diagonal):
            corner = np.linalg.cholesky(block + alpha * np.eye(len(block)) - update)
            self.corners.append(corner)
            if k < len(form.below):
                side = np.linalg.solve(corner, form.below[k].T).T
                self.sides.append(side)
                update = side @ side.T

    def _forward(self, Y):
        """L^-1 Y, block by block."""
        X, start = np.empty_like(Y), 0
        for k, corner in enumerate(self.corners):
            rows = slice(start, start + len(corner))
            right = Y[rows] if k == 0 else Y[rows] - self.sides[k - 1] @ X[start - len(self.corners[k - 1]) : start]
            X[rows] = np.linalg.solve(corner, right)
            start += len(corner)
        return X

    def _backward(self, Y):
        """L^-T Y."""
        X, stop = np.empty_like(Y), len(Y)
        for k in range(len(self.corners) - 1, -1, -1):
            rows = slice(stop - len(self.corners[k]), stop)
            right = (
                Y[rows]
                if k == len(self.corners) - 1
                else Y[rows] - self.sides[k].T @ X[stop : stop + len(self.sides[k])]
            )
            X[rows] = np.linalg.solve(self.corners[k].T, right)
            stop = rows.start
        return X

    def solve(self, B: np.ndarray) -> np.ndarray:
        """(K + alpha I)^-1 B for B (n, p)."""
        return self.form.Q @ self._backward(self._forward(self.form.Q.T @ B))

    def diag_inverse(self, step: int = 1024) -> np.ndarray:
        """Diagonal of (K + alpha I)^-1: squared column norms of L^-1 Q^T, in strips of rows of Q."""
        out = np.empty(len(self.form.Q))
        inverses = [
            np.linalg.inv(c) for c in self.corners
        ]  # small blocks of a well-conditioned shift: products beat substitution
        for i in range(0, len(out), step):
            out[i : i + step] = self._squared_norms(self.form.Q[i : i + step].T, inverses)
        return out

    def _squared_norms(self, Y, inverses):
        total, start, above = 0.0, 0, None
        for k, inverse in enumerate(inverses):
            right = Y[start : start + len(inverse)]
            above = inverse @ (right if above is None else right - self.sides[k - 1] @ above)
            total = total + np.einsum("ij,ij->j", above, above)
            start += len(inverse)
        return total

r"""Symmetric matrices to band form, K = Q B Q^T, by blocks: what shifts of one matrix share.

For every alpha, K + alpha I = Q (B + alpha I) Q^T: a Cholesky factor of the band and one block substitution give solutions
and the diagonal of the inverse in O(n^2 b). The reduction to a band is matrix products throughout, while the tridiagonal
form that eigenvalues need is bound by memory: at n = 8000 it takes a small part of the time.

Dongarra, Sorensen & Hammarling (1989); Bischof, Lang & Sun (2000), the first of their two stages.
"""

from dataclasses import dataclass

import numpy as np

from mercer.linalg.inplace import product, reflectors, subtract_from, subtract_mixed, symmetric_product
from mercer.threads import map_tiles

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
    """Reduce a symmetric matrix, which is overwritten; only its lower triangle is read.

    Each panel is cleared below the band by a block reflector I - V T V^T.
    """
    n = len(K)
    starts = list(range(0, n, width))
    found, below = [], []
    for start in starts[:-1]:
        stop = start + width
        V, T, R = _block_reflector(K[stop:, start:stop])
        below.append(R[: min(width, n - stop)])
        _two_sided(K[stop:, stop:], V, T)
        found.append((stop, V, T))
    diagonal = [_symmetric(K[s : s + width, s : s + width]) for s in starts]
    return BandForm(_accumulate(K, found), diagonal, below)


def _symmetric(lower):
    L = np.tril(lower)
    return L + np.tril(L, -1).T


def _block_reflector(panel):
    """V (m, b) unit lower trapezoidal, T (b, b) upper triangular and R with (I - V T V^T)^T panel = [R; 0]."""
    packed, tau = reflectors(panel)
    b = len(tau)
    V = np.ascontiguousarray(np.tril(packed[:, :b], -1))
    V[np.arange(b), np.arange(b)] = 1.0
    T = np.zeros((b, b))
    products = product(V, V, transpose_a=True)
    for j in range(b):  # Schreiber & Van Loan (1989)
        T[j, j] = tau[j]
        T[:j, j] = -tau[j] * (T[:j, :j] @ products[:j, j])
    return V, T, np.triu(packed[:b])


def _two_sided(A, V, T):
    """A <- (I - V T V^T)^T A (I - V T V^T) as a symmetric update of rank 2b: A - V W^T - W V^T, in the lower triangle."""
    VT = product(V, T)
    W = symmetric_product(A, VT)
    subtract_from(W, V, 0.5 * product(VT, W, transpose_a=True))
    subtract_mixed(V, W, A)


def _accumulate(K, found):
    """Q = product of the reflectors, built backwards so that each touches only what is not the identity yet."""
    n = len(K)
    K[...] = 0.0
    K[np.arange(n), np.arange(n)] = 1.0
    for stop, V, T in reversed(found):
        block = K[stop:, stop:]
        subtract_from(block, product(V, T), product(V, block, transpose_a=True))
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

    def diag_inverse(self, step: int = STRIP) -> np.ndarray:
        """Diagonal of (K + alpha I)^-1: squared row norms of Q L^-T, in strips of rows over the threads."""
        Q, pairs = self.form.Q, self._recurrence()
        strips = range(0, len(Q), step)
        parts = map_tiles(lambda i: _squared_norms(Q[strips[i] : strips[i] + step], pairs), len(strips))
        return np.concatenate(list(parts))

    def _recurrence(self):
        """Matrices of z_k = q_k E_k - z_(k-1) G_k: small well-conditioned blocks, whose products beat substitution."""
        inverses = [np.linalg.inv(c).T for c in self.corners]
        return [(E, self.sides[k - 1].T @ E if k else None) for k, E in enumerate(inverses)]


def _squared_norms(rows, pairs):
    total, start, z = np.zeros(len(rows)), 0, None
    for E, G in pairs:
        new = rows[:, start : start + len(E)] @ E
        z = new if z is None else new - z @ G
        total += np.einsum("ij,ij->i", z, z)
        start += len(E)
    return total

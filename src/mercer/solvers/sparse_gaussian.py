r"""Gaussian process regression through m inducing rows: the collapsed bound of the evidence, its slopes, and the posterior.

With the values of f at the inducing rows, :math:`Q = K_{nm} K_{mm}^{-1} K_{mn}` and noise variances s,

.. math:: \log \mathcal{N}(y \mid H b, Q + \mathrm{diag}(s)) - \tfrac12 \sum_i (k_{ii} - q_{ii}) / s_i

is at most the log evidence, and equal to it where the inducing rows are all rows. Time n m^2; the rows pass in tiles, of which
nothing is kept unless asked for. Titsias (2009), Variational learning of inducing variables in sparse Gaussian processes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from mercer.linalg import Factor, safe_cholesky
from mercer.linalg.inplace import product, solve_rows, subtract_square
from mercer.registry import register_record
from mercer.solvers.gaussian import Conditioned, eliminated

__all__ = ["BoundSlopes", "SparsePosterior", "sparse_posterior", "tile_rows"]

_ENTRIES = 2**20  # numbers of a tile


def tile_rows(m) -> int:
    """Rows of a tile of the n x m kernel values."""
    return max(64, _ENTRIES // max(m, 1))


register_record(Factor)


@register_record
@dataclass(frozen=True, eq=False)
class SparsePosterior(Conditioned):
    """Y = H b + f + noise, with f known through m of its values.

    known: factor of K_mm = L L^T. inner: factor of B = I + C, C = sum of phi phi^T / s, phi = L^-1 k_m(x), the precision of the
    whitened inducing values. The rest as in `Posterior`, on the inducing rows: coefficients (m, p), B (m, q).
    """

    known: Factor
    inner: Factor

    @property
    def jitter(self) -> float:
        return self.known.jitter

    def explained(self, K, pairs) -> np.ndarray:
        V = self.known.solve_triangular(np.ascontiguousarray(K.T))  # (m, rows)
        U = self.inner.solve_triangular(V)
        return V.T @ V - U.T @ U if pairs else np.einsum("mr,mr->r", V, V) - np.einsum("mr,mr->r", U, U)


@dataclass(frozen=True, eq=False)
class BoundSlopes:
    """Slopes of the bound: in K_mm (m, m), in k(x, x) and in the noise (n,), and in K_nm tile by tile: `tiles()` gives the rows
    of each with its (rows, m) numbers."""

    inducing: np.ndarray
    diagonal: np.ndarray
    noise: np.ndarray
    tiles: Callable[[], Iterator[tuple[slice, np.ndarray]]]


def sparse_posterior(K_mm: np.ndarray, K, own: np.ndarray, noise: np.ndarray, Y: np.ndarray, H: np.ndarray, *, slopes=False,
                     hold=True) -> tuple[SparsePosterior, BoundSlopes | None]:  # fmt: skip
    """Condition on Y (n, p), and the slopes of the bound if asked for.

    K_mm (m, m) is overwritten. K (n, m): anything with `rows(slice)`. own (n,): k(x, x). noise (n,): variances > 0.
    H (n, q): the mean's columns, independent. hold: whether n x m numbers may be kept from one pass to the next.
    """
    work = _Bound(K_mm, K, own, noise, Y, H, hold)
    return work.posterior(), work.slopes() if slopes else None


class _Bound:
    """The passes over the rows. R = [Y, Q_H] with orthonormal Q_H for H: the mean's columns may be nearly dependent."""

    def __init__(self, K_mm, K, own, noise, Y, H, hold):
        self.n, self.p, self.K, self.own, self.noise = len(Y), Y.shape[1], K, own, noise
        self.known = safe_cholesky(K_mm, overwrite=True, warn=False)
        self.held = np.empty((self.n, self.known.n)) if hold else None
        Q, self.R_H = np.linalg.qr(H) if H.shape[1] else (H, np.zeros((0, 0)))
        self.R = np.hstack([Y, Q])
        self._first_pass()
        self.w = np.ascontiguousarray(self.inner.solve(self.c))
        self.E = self._residuals()
        self._eliminate_mean()

    def _slices(self):
        step = tile_rows(self.known.n)
        return [slice(i, min(i + step, self.n)) for i in range(0, self.n, step)]

    def _features(self, some, first=False):
        """phi of some rows, (rows, m)."""
        if self.held is not None and not first:
            return self.held[some]
        phi = np.empty((some.stop - some.start, self.known.n)) if self.held is None else self.held[some]
        phi[:] = self.K.rows(some)
        solve_rows(self.known.array, phi)
        return phi

    def _first_pass(self):
        m = self.known.n
        C, self.c, self.q = np.zeros((m, m)), np.zeros((m, self.R.shape[1])), np.empty(self.n)
        for some in self._slices():
            phi, s = self._features(some, first=True), self.noise[some, None]
            self.q[some] = np.einsum("im,im->i", phi, phi)
            subtract_square(np.ascontiguousarray((phi / np.sqrt(s)).T), C)  # the lower triangle, negative
            self.c += product(phi, self.R[some] / s, transpose_a=True)
        self.C = -(np.tril(C) + np.tril(C, -1).T)
        self.inner = safe_cholesky(self.C, shift=1.0, warn=False)

    def _residuals(self):
        """R - Phi^T w, from which R^T (Q + D)^-1 R = E^T D^-1 E + w^T w: least at w, so that its rounding does not show."""
        E = self.R.copy()
        for some in self._slices():
            E[some] -= product(self._features(some), self.w)
        return E

    def _eliminate_mean(self):
        """b, and M with P Y = D^-1 E M for the targets; the mean's columns follow."""
        p, E, w = self.p, self.E, self.w
        both = E.T @ (E / self.noise[:, None]) + w.T @ w
        self.corner, self.b, self.root = eliminated(both, p)
        self.M = np.block([[np.eye(p), np.zeros((p, len(self.b)))], [-self.b, np.sqrt(p) * self.root]])

    def posterior(self):
        w, p, q = self.w @ self.M, self.p, len(self.b)
        back = self.known.solve_triangular(w, trans=True)
        outer = solve_triangular(self.R_H, self.root).T if q else np.zeros((0, 0))
        slopes = solve_triangular(self.R_H, self.b) if q else self.b
        return SparsePosterior(np.ascontiguousarray(back[:, :p]), slopes, back[:, p:] / np.sqrt(p), outer, self._value(w[:, :p]),
                               self.known, self.inner)  # fmt: skip

    def _value(self, w):
        n, p, q, s = self.n, self.p, len(self.b), self.noise
        residual = self.E @ self.M[:, :p]
        fit = float((residual**2 / s[:, None]).sum() + (w**2).sum())
        logs = self.inner.logdet() + float(np.log(s).sum()) + (n - q) * np.log(2 * np.pi)
        logs += self.corner.logdet() if self.corner else 0.0
        return -0.5 * (fit + p * (logs + float((self._left() / s).sum())))

    def _left(self):
        """k(x, x) that the inducing values do not explain."""
        return np.maximum(self.own - self.q, 0.0)

    def slopes(self):
        p, s = self.p, self.noise
        inverse = self.inner.inverse()
        kept = np.eye(len(inverse)) - inverse  # B^-1 C
        V = self.known.solve_triangular(self.w @ self.M, trans=True)  # L^-T Phi U
        U = (self.E @ self.M) / s[:, None]
        spread = self._spread()
        noise = 0.5 * (np.einsum("ik,ik->i", U, U) - p / s + p * (spread + self._left()) / s**2)
        through = p * self.known.solve_triangular(kept, trans=True).T  # p B^-1 C L^-1
        return BoundSlopes(self._in_inducing(V, kept), -0.5 * p / s, noise, lambda: self._tiles(U, V, through))

    def _spread(self):
        """phi^T B^-1 phi of each row."""
        out = np.empty(self.n)
        for some in self._slices():
            half = self._features(some).copy()
            solve_rows(self.inner.array, half)
            out[some] = np.einsum("im,im->i", half, half)
        return out

    def _in_inducing(self, V, kept):
        half = self.known.solve_triangular(self.C - kept, trans=True)
        whole = self.known.solve_triangular(np.ascontiguousarray(half.T), trans=True)
        return -0.5 * (V @ V.T + self.p * (whole + whole.T) / 2)

    def _tiles(self, U, V, through):
        for some in self._slices():
            W = product(self._features(some) / self.noise[some, None], through)
            W += U[some] @ V.T
            yield some, W

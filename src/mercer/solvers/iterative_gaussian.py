r"""Gaussian process regression by products with the Gram alone: conjugate gradients, and a log determinant by Lanczos quadrature.

With C = K + D and the preconditioner :math:`P = F F^T + D`, F of low rank, :math:`\log|C| = \log|P| + \mathrm{tr}\log A`,
:math:`A = P^{-1/2} C P^{-1/2}`, whose trace is estimated from random signs g as the mean of :math:`g^T \log(A)\, g`. P and g stay
as they are while parameters move, so that the estimate is a smooth function of these, with a slope of its own.
Gardner, Pleiss, Bindel, Weinberger & Wilson (2018), Wenger, Pleiss, Hennig, Cunningham & Gardner (2022).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from mercer.errors import NotPSDError
from mercer.gram import Diagonal
from mercer.linalg import Status, conjugate_gradient
from mercer.linalg.lanczos import log_quadrature
from mercer.solvers.gaussian import Conditioned, eliminated

__all__ = ["IterativePosterior", "Whitening", "iterative_posterior", "random_signs"]

_QUERIES = 64  # new rows whose variances are solved for together
_USABLE = 1e-4  # residual, relative to the targets, above which an answer is none
_SETTLED = 1e-8  # by which no estimate of the log determinant moves any more; slopes have half as many digits


class Whitening:
    """P = F F^T + D for F (n, k) and D = diag(noise): P^-1, a root of it, and log|P|, by a k x k matrix. Woodbury's identity.

    With G = D^-1/2 F and the eigenpairs of G^T G, P^-1/2 = D^-1/2 (I + G X G^T).
    """

    def __init__(self, F: np.ndarray, noise):
        self.scale = 1.0 / np.sqrt(np.broadcast_to(noise, (len(F),)))[:, None]
        self.G = F * self.scale
        values, Y = np.linalg.eigh(self.G.T @ self.G)
        values = np.maximum(values, 0.0)
        self.inner = (Y / (1.0 + values)) @ Y.T
        self.half = -(Y / (1.0 + values + np.sqrt(1.0 + values))) @ Y.T  # ((1 + v)^-1/2 - 1) / v, without a difference
        self.logdet = float(np.log1p(values).sum() - 2.0 * np.log(self.scale).sum())

    def solve(self, R):
        """P^-1 R."""
        R = self.scale * R
        return self.scale * (R - self.G @ (self.inner @ (self.G.T @ R)))

    def root(self, V):
        """D^-1/2 (I + G X G^T) V, a root of P^-1."""
        return self.scale * (V + self.G @ (self.half @ (self.G.T @ V)))

    def transposed_root(self, V):
        V = self.scale * V
        return V + self.G @ (self.half @ (self.G.T @ V))


class _Whitened:
    """P^-1/2 C P^-1/2 as an operator."""

    def __init__(self, C, whitening):
        self.C, self.whitening = C, whitening

    def __matmul__(self, V):
        return self.whitening.transposed_root(self.C @ self.whitening.root(V))


@dataclass(frozen=True, eq=False)
class IterativePosterior(Conditioned):
    """By products with C alone.

    standard_error: of the evidence, from the spread over the probes (NaN of fewer than two). status, residual: how the
    iteration ended. quadrature: of the log determinant, None where it was not asked for.
    """

    C: Any
    whitening: Whitening
    reference: Whitening
    rtol: float
    max_iter: int
    status: Status
    residual: float
    quadrature: Any = None
    standard_error: float = 0.0

    def explained(self, K, pairs):
        out = np.empty((len(K),) * (1 + pairs))
        for i in range(0, len(K), _QUERIES):
            some = slice(i, i + _QUERIES)
            solved = _solved(self.C, np.ascontiguousarray(K[some].T), self.whitening, self.rtol, self.max_iter).value
            if pairs:
                out[:, some] = K @ solved
            else:
                out[some] = np.einsum("in,ni->i", K[some], solved)
        return (out + out.T) / 2 if pairs else out

    def slope(self) -> tuple[np.ndarray, np.ndarray]:
        """Slope of the evidence in C as a pair (U, V), meaning U V^T."""
        p, r = self.coefficients.shape[1], len(self.quadrature.bases)
        roots = [self.reference.root(V) for V in self.quadrature.bases]
        through = [U @ X for U, X in zip(roots, self.quadrature.cores, strict=True)]
        U = np.hstack([self.coefficients, np.sqrt(p) * self.B, *roots])
        V = np.hstack([self.coefficients, np.sqrt(p) * self.B, *(-p / r * T for T in through)])
        return U, 0.5 * V


def iterative_posterior(K, noise, Y: np.ndarray, H: np.ndarray, whitening: Whitening, probes: np.ndarray | None = None,
                        *, reference: Whitening | None = None, rtol=1e-8, max_iter=1000,
                        steps=64) -> IterativePosterior:  # fmt: skip
    """Condition on Y (n, p): K with `@`, variances of the noise () or (n,) > 0, mean functions H (n, q).

    probes (n, r): of the log determinant, columns with g^T g = n and mean of g g^T = I; without them the evidence is NaN.
    reference: P of the log determinant, by default the `whitening` that conjugate gradients use.
    """
    (n, p), reference = Y.shape, whitening if reference is None else reference
    C = K + Diagonal(np.broadcast_to(noise, (n,)))
    Q, R_H = np.linalg.qr(H) if H.shape[1] else (H, np.zeros((0, 0)))
    solved = _solved(C, np.hstack([Y, Q]), whitening, rtol, max_iter)
    _refuse_unsolved(solved)
    X = solved.value
    corner, b, root = eliminated(np.hstack([Y, Q]).T @ X, p)
    A, B = X[:, :p] - X[:, p:] @ b, X[:, p:] @ root
    logs = (n - len(b)) * np.log(2 * np.pi) + (corner.logdet() if corner else 0.0)
    logdet, spread, quadrature = _log_determinant(C, reference, probes, steps)
    value = -0.5 * (p * (logs + logdet) + float(((Y - Q @ b) * A).sum()))
    outer, slopes = (solve_triangular(R_H, root).T, solve_triangular(R_H, b)) if len(b) else (root, b)
    return IterativePosterior(
        A, slopes, B, outer, value, C, whitening, reference, rtol, max_iter, solved.status, solved.certificate, quadrature,
        0.5 * p * spread,
    )  # fmt: skip


def _refuse_unsolved(solved):
    """Numbers made of what is no solution would mean nothing; a search stays away from there."""
    if not solved.certificate <= _USABLE:
        raise NotPSDError(
            f"conjugate gradients stopped at a residual of {solved.certificate:.2g} ({solved.status.value}): with so little "
            'noise the Gram is nearly singular; raise alpha, or use method="sparse" or "exact"'
        )


def _solved(C, R, whitening, rtol, max_iter):
    return conjugate_gradient(C, R, preconditioner=whitening, rtol=rtol, max_iter=max_iter)


def _log_determinant(C, whitening, probes, steps):
    if probes is None:
        return np.nan, np.nan, None
    found = log_quadrature(_Whitened(C, whitening), probes, steps=steps, tol=_SETTLED)
    r = len(found.values)
    spread = float(found.values.std(ddof=1) / np.sqrt(r)) if r > 1 else np.nan
    return whitening.logdet + float(found.values.mean()), spread, found


def random_signs(n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Probes (n, count) of a trace: independent signs, which vary least among independent entries. Hutchinson (1989)."""
    return rng.choice([-1.0, 1.0], (n, count))

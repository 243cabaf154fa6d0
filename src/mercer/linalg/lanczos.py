r"""Lanczos quadrature: :math:`g^T \log(A)\, g` of a positive definite operator from products with it, and its slope in A."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from mercer.errors import NotPSDError

__all__ = ["LogQuadrature", "log_quadrature"]

_ENDED = 1e-10  # a new direction this small, relative to the operator, is rounding


@dataclass(frozen=True, eq=False)
class LogQuadrature:
    """values (r,): g^T log(A) g of each probe g. bases, cores: V (n, k) and X (k, k) of each, with which the slope of its value
    in A is V X V^T. settled: whether the last step changed no value by more than the tolerance."""

    values: np.ndarray
    bases: list[np.ndarray]
    cores: list[np.ndarray]
    settled: bool
    steps: int


def log_quadrature(A, G: np.ndarray, *, steps: int = 64, tol: float = 1e-6) -> LogQuadrature:
    """Lanczos from each column of G (n, r), one product with A for all of them a step, until no value moves by more than `tol`.

    A: symmetric positive definite, anything with @. Bases are kept orthogonal in full, since slopes are made of their vectors.
    Golub & Meurant (2010), Matrices, moments and quadrature, chapter 6.

    >>> log_quadrature(np.diag([1.0, 2.0, 4.0]), np.eye(3)).values.round(6)
    array([0.      , 0.693147, 1.386294])
    """
    sizes = np.linalg.norm(G, axis=0)
    runs = [_Run(g, size) for g, size in zip(G.T, sizes, strict=True)]
    taken, settled = 0, False
    while taken < min(steps, len(G)) and not settled:
        active = [run for run in runs if not run.ended]
        products = np.asarray(A @ np.column_stack([run.basis[-1] for run in active]))
        moved = [run.step(q) for run, q in zip(active, products.T, strict=True)]
        taken, settled = taken + 1, max(moved) <= tol or all(run.ended for run in runs)
    return LogQuadrature(
        np.array([run.value for run in runs]),
        [run.vectors() for run in runs],
        [run.core() for run in runs],
        settled,
        taken,
    )


class _Run:
    """One recurrence: an orthonormal basis and the tridiagonal matrix of A in it."""

    def __init__(self, g, size):
        self.square, self.value, self.ended = size**2, np.inf, False
        self.basis, self.diagonal, self.off = [g / size], [], []

    def step(self, q) -> float:
        """Take in A times the last vector; by how much the value moved."""
        self.diagonal.append(float(self.basis[-1] @ q))
        V = np.array(self.basis)
        for _ in range(2):  # once more removes what rounding left
            q = q - V.T @ (V @ q)
        size = float(np.linalg.norm(q))
        self.spectrum = self._eigen()
        before, self.value = self.value, self.square * float(self.spectrum[1][0] ** 2 @ np.log(self.spectrum[0]))
        if size <= _ENDED * max(self.diagonal) or len(self.diagonal) == len(q):
            self.ended = True
        else:
            self.off.append(size)
            self.basis.append(q / size)
        return 0.0 if self.ended else abs(self.value - before)

    def _eigen(self):
        k = len(self.diagonal)
        values, Y = eigh_tridiagonal(self.diagonal, self.off[: k - 1])
        if values[0] <= 0:
            raise NotPSDError(f"the operator has an eigenvalue below {values[0]:.3g}; add to the diagonal")
        return values, Y

    def vectors(self):
        return np.column_stack(self.basis[: len(self.diagonal)])

    def core(self):
        """Daleckii & Krein: divided differences of the logarithm between Ritz values."""
        values, Y = self.spectrum
        a = self.square * np.multiply.outer(Y[0], Y[0])
        return Y @ (a * _differences(values)) @ Y.T


def _differences(values):
    """(log a - log b) / (a - b) of all pairs, 1 / a where they are equal."""
    a, b = values[:, None], values
    x = (a - b) / b
    near = np.abs(x) < 1e-8
    return np.where(near, 1.0 - x / 2, np.log1p(x) / np.where(near, 1.0, x)) / b

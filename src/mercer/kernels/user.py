"""Kernels of the user's own functions: pairs, blocks, basis functions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import validate
from mercer.kernels.base import Kernel, PairKernel, frozen
from mercer.kernels.validity import certificate
from mercer.kernels.views import Plain, Warped
from mercer.registry import register, register_record

__all__ = ["Basis", "Blockwise", "Pairwise"]


class _UserFunction(PairKernel):
    """Rows come as the user's function expects them: a 1-D array a row, or the object itself."""

    def check(self):
        if not callable(self.function):
            raise TypeError(f"{type(self).__name__}(f) needs a function, got {self.function!r}")

    def _reads(self):
        return ["any"]

    def __repr__(self):
        return f"{type(self).__name__}({getattr(self.function, '__name__', repr(self.function))})"


@register
@frozen
class Pairwise(_UserFunction):
    """Kernel of a function of two rows: k(x, y) = f(x, y). Called once a pair: slow, for trials and odd data.

    >>> float(Pairwise(lambda x, y: x @ y)([[1.0, 2.0]], [[3.0, 4.0]])[0, 0])
    11.0
    """

    function: Callable

    def pair(self, x, y):
        return self.function(x, y)


@register
@frozen
class Blockwise(_UserFunction):
    """Kernel of a function of two sets of rows, returning the block of all pairs: f(X, Y) of shape (len(X), len(Y)).

    >>> float(Blockwise(lambda X, Y: X @ Y.T)([[1.0, 2.0]], [[3.0, 4.0]])[0, 0])
    11.0
    """

    function: Callable

    def block(self, xs, ys):
        return self.function(xs, ys)


@register
@frozen
class Basis(Kernel):
    """Kernel of basis functions (K9): sum_i phi_i(x) phi_i(y), for a function of all rows at once returning (n, p).

    >>> k = Basis.polynomials(degree=2)
    >>> float(k([[2.0]], [[3.0]])[0, 0])  # 1 + 6 + 36
    43.0
    """

    function: Callable
    vjp: Any = None

    def check(self):
        if not callable(self.function):
            raise TypeError(f"Basis(f) needs a function of the rows, got {self.function!r}")

    @classmethod
    def polynomials(cls, degree: int = 3) -> "Basis":
        """1, x, x^2, ... per column."""
        return cls(Powers(degree))

    @classmethod
    def gaussians(cls, centres, width: float) -> "Basis":
        """exp(-(x - c)^2 / (2 width^2)) per centre and column."""
        return cls(Bumps(tuple(np.ravel(centres).tolist()), float(width)))

    @classmethod
    def sigmoids(cls, centres, width: float) -> "Basis":
        """Logistic function of (x - c) / width per centre and column."""
        return cls(Steps(tuple(np.ravel(centres).tolist()), float(width)))

    def _view(self, parent):
        return Warped(Plain(parent), self.function, self.vjp or getattr(self.function, "vjp", None))

    def trace(self, t):
        return t.inner(self._view(t.view))

    @property
    def differentiable_inputs(self):
        return (self.vjp or getattr(self.function, "vjp", None)) is not None

    def _reads(self):
        return ["any"]

    @property
    def validity(self):
        return certificate("psd", "an inner product of basis functions")

    def phi(self, rows):
        return self._view(None).forward(validate.plain(rows))

    def feature_dim(self, d):
        return (
            self.function.width(d)
            if hasattr(self.function, "width") and callable(self.function.width)
            else float("nan")
        )

    def __repr__(self):
        return f"Basis({getattr(self.function, '__name__', repr(self.function))})"


class _PerColumn:
    """Basis functions of single columns: `values` and `slopes` of shape (n, d, p)."""

    def __call__(self, X):
        with np.errstate(over="ignore"):
            return self.values(X).reshape(len(X), -1)

    def vjp(self, X, G):
        return np.einsum("ndp,ndp->nd", self.slopes(X), G.reshape(len(X), X.shape[1], -1))


@register_record
@dataclass(frozen=True)
class Powers(_PerColumn):
    degree: int

    def values(self, X):
        return X[:, :, None] ** np.arange(self.degree + 1)

    def slopes(self, X):
        p = np.arange(self.degree + 1)
        return p * X[:, :, None] ** np.maximum(p - 1, 0)

    def width(self, d):
        return d * (self.degree + 1)


@register_record
@dataclass(frozen=True)
class Bumps(_PerColumn):
    centres: tuple
    scale: float

    def _z(self, X):
        return (X[:, :, None] - np.asarray(self.centres, X.dtype)) / X.dtype.type(self.scale)

    def values(self, X):
        return np.exp(-0.5 * self._z(X) ** 2)

    def slopes(self, X):
        return -self._z(X) / X.dtype.type(self.scale) * self.values(X)

    def width(self, d):
        return d * len(self.centres)


@register_record
@dataclass(frozen=True)
class Steps(Bumps):
    def values(self, X):
        return 0.5 * (1.0 + np.tanh(0.5 * self._z(X)))

    def slopes(self, X):
        v = self.values(X)
        return v * (1.0 - v) / X.dtype.type(self.scale)

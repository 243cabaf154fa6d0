"""Kernels of an inner product: linear, polynomial, sigmoid, cosine, quadratic forms, Tanimoto, network kernels; constants."""

import math

import numpy as np

from mercer.expr import acos, asin, maximum, minimum, power, rsqrt0, sqrt, tanh, where
from mercer.kernels.base import ExpressionKernel, InnerProduct, frozen
from mercer.kernels.digest import FrozenArray
from mercer.kernels.parameters import Count, Degree, Gamma, Matrix, NonNegative, Positive, Real
from mercer.kernels.resolve import gamma
from mercer.kernels.validity import certificate
from mercer.kernels.views import Linear as LinearView
from mercer.registry import register
from mercer.validate import n_rows, numeric

__all__ = [
    "ArcCosine",
    "ArcSine",
    "Constant",
    "Cosine",
    "Linear",
    "Polynomial",
    "QuadraticForm",
    "Sigmoid",
    "Tanimoto",
    "White",
]


@register
@frozen
class Linear(InnerProduct):
    """Linear kernel (K1): <x, y>.

    >>> float(Linear()([[1.0, 2.0]], [[3.0, 4.0]])[0, 0])
    11.0
    """

    def profile(self, s):
        return s

    @property
    def validity(self):
        return certificate("psd", "the inner product itself")

    def phi(self, rows):
        return numeric(rows)

    def feature_dim(self, d):
        return d


class _WithGamma(InnerProduct):
    def _resolved(self, rows, weight):
        if not isinstance(self.gamma, str):
            return self
        return self._with(gamma=gamma(self.gamma, numeric(rows), weight))


@register
@frozen
class Polynomial(_WithGamma):
    r"""Polynomial kernel (K2): :math:`(\gamma \langle x, y\rangle + c)^M`; homogeneous when `coef0` is 0.

    >>> float(Polynomial(degree=2)([[1.0]], [[2.0]])[0, 0])
    9.0
    """

    degree: Degree = 3
    gamma: Gamma = 1.0
    coef0: Real = 1.0
    not_differentiable = ("degree",)

    def profile(self, s):
        return power(self.gamma * s + self.coef0, float(self.degree))

    @property
    def validity(self):
        if self.coef0 < 0:
            return certificate("unknown", f"Polynomial with a negative coef0 ({self.coef0:g})")
        if self.degree != int(self.degree):
            return certificate("unknown", f"Polynomial of the fractional degree {self.degree:g}")
        return certificate("psd", "a polynomial of <x, y> with coefficients >= 0")

    def phi(self, rows):
        if self.degree != int(self.degree):
            return super().phi(rows)
        return monomial_features(numeric(rows), int(self.degree), float(self.gamma), float(self.coef0))

    def feature_dim(self, d):
        M = int(self.degree)
        if self.degree != M:
            return math.inf
        return math.comb(d + M - 1, M) if self.coef0 == 0 else math.comb(d + M, M)


def monomial_features(X, degree, gamma, coef0):
    """Weighted monomials: sqrt(multinomial coefficient) x^a over all exponents of total degree `degree`, the constant
    sqrt(coef0) counting as one more column when it is not 0."""
    from itertools import combinations_with_replacement

    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X) * math.sqrt(gamma)
    if coef0 < 0:
        raise ValueError(f"Polynomial(coef0={coef0:g}) has no real feature map: coef0 is negative")
    if coef0 > 0:
        X = np.column_stack([np.full(len(X), math.sqrt(coef0), X.dtype), X])
    columns = []
    for chosen in combinations_with_replacement(range(X.shape[1]), degree):
        repeats = math.prod(math.factorial(chosen.count(j)) for j in set(chosen))
        columns.append(math.sqrt(math.factorial(degree) / repeats) * np.prod(X[:, list(chosen)], axis=1))
    return np.column_stack(columns)


@register
@frozen
class Sigmoid(_WithGamma):
    r"""Sigmoid kernel (K6): :math:`\tanh(\gamma \langle x, y\rangle + c)`. Not positive semi-definite in general.

    >>> Sigmoid().validity.kind
    'unknown'
    """

    gamma: Gamma = 1.0
    coef0: Real = 0.0

    def profile(self, s):
        return tanh(self.gamma * s + self.coef0)

    @property
    def validity(self):
        return certificate("unknown", "tanh of an inner product is not PSD in general; ArcSine is its PSD relative")


class _WithNorms(ExpressionKernel):
    """k = combine(<x, y>, <x, x>, <y, y>)."""

    def trace(self, t):
        s = t.inner()
        return type(self).combine(t.symbols(self), s, *t.diagonals(s))


@register
@frozen
class Cosine(_WithNorms):
    """Cosine of the angle between x and y (K7); 0 for a zero vector.

    >>> float(Cosine()([[0.0, 0.0]], [[1.0, 2.0]])[0, 0])
    0.0
    """

    def combine(self, s, xx, yy):
        return s * rsqrt0(xx) * rsqrt0(yy)

    @property
    def validity(self):
        return certificate("psd", "the inner product of unit vectors")

    def phi(self, rows):
        X = numeric(rows)
        X = X.toarray() if hasattr(X, "toarray") else X
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return np.divide(X, norms, out=np.zeros_like(X), where=norms > 0)

    def feature_dim(self, d):
        return d


@register
@frozen
class QuadraticForm(ExpressionKernel):
    """x^T A y with a symmetric PSD matrix A (K10), checked.

    >>> float(QuadraticForm([[2.0]])([[1.0]], [[3.0]])[0, 0])
    6.0
    """

    A: Matrix
    not_differentiable = ("A",)

    def check(self):
        if self.A is None:
            raise TypeError("QuadraticForm(A): A must be a square matrix, got None")
        values = np.linalg.eigvalsh(np.asarray(self.A, float))
        if values.min() < -10 * len(values) * np.finfo(float).eps * np.abs(values).max():
            raise ValueError(
                f"QuadraticForm(A): A must be positive semi-definite; its smallest eigenvalue is {values.min():g}"
            )

    def _root(self):
        """M with A = M M^T."""
        values, vectors = np.linalg.eigh(np.asarray(self.A, np.float64))
        return vectors * np.sqrt(np.clip(values, 0.0, None))

    def trace(self, t):
        return t.inner(LinearView(t.vectors(), FrozenArray(self._root()), t.name("A"), _no_gradient))

    @property
    def validity(self):
        return certificate("psd", "x^T A y with A PSD")

    def phi(self, rows):
        return numeric(rows) @ self._root()

    def feature_dim(self, d):
        return d


def _no_gradient(G):
    return None


@register
@frozen
class Tanimoto(_WithNorms):
    r"""Tanimoto kernel (K13): :math:`\langle x,y\rangle / (|x|^2 + |y|^2 - \langle x,y\rangle)`; 1 for two zero vectors.

    >>> float(Tanimoto()([[1.0, 1.0, 0.0]], [[1.0, 1.0, 1.0]])[0, 0]).__round__(12)
    0.666666666667
    """

    normalised = True

    def combine(self, s, xx, yy):
        union = xx + yy - s
        return where(union - 1e-37, s / maximum(union, 1e-37), 1.0)

    @property
    def validity(self):
        return certificate("psd", "a power series in <x,y> / (|x|^2 + |y|^2) with coefficients >= 0")


@register
@frozen
class ArcCosine(_WithNorms):
    r"""Arc-cosine kernel of degree 0, 1 or 2 (K13): infinite networks of step, ReLU or squared-ReLU units.

    .. math:: k = \tfrac1\pi |x|^n |y|^n J_n(\theta), \quad J_0 = \pi-\theta,\ J_1 = \sin\theta + (\pi-\theta)\cos\theta

    Cho & Saul (2009), eq. 3-6.

    >>> float(ArcCosine(1)([[3.0]])[0, 0])
    9.0
    """

    degree: Count = 1

    def check(self):
        if self.degree not in (0, 1, 2):
            raise ValueError(f"ArcCosine(degree={self.degree!r}): degree must be 0, 1 or 2")

    def combine(self, s, xx, yy):
        c = maximum(minimum(s * rsqrt0(xx) * rsqrt0(yy), 1.0), -1.0)
        rest = math.pi - acos(c)
        if self.degree == 0:
            return rest / math.pi
        sine = sqrt(maximum(1.0 - c * c, 0.0))
        if self.degree == 1:
            return sqrt(xx) * sqrt(yy) * (sine + rest * c) / math.pi
        return xx * yy * (3.0 * sine * c + rest * (1.0 + 2.0 * c * c)) / math.pi

    @property
    def validity(self):
        return certificate("psd", "an expectation of products of random units")


@register
@frozen
class ArcSine(_WithNorms):
    r"""Arcsine network kernel (K14), the limit of random erf networks with weights N(0, S),
    u = (1, x), S = diag(bias, weight, weight, ...).

    .. math:: k = \tfrac2\pi \sin^{-1} \frac{2 u^T S u'}{\sqrt{(1 + 2 u^T S u)(1 + 2 u'^T S u')}}

    Williams (1998), eq. 11.

    >>> round(float(ArcSine()([[0.0]])[0, 0]), 12)
    0.464558679847
    """

    weight: Positive = 1.0
    bias: NonNegative = 1.0

    def combine(self, s, xx, yy):
        def twice(product):
            return 2.0 * (self.bias + self.weight * product)

        return (2.0 / math.pi) * asin(twice(s) * rsqrt0(1.0 + twice(xx)) * rsqrt0(1.0 + twice(yy)))

    @property
    def validity(self):
        return certificate("psd", "an expectation of products of random erf units")


@register
@frozen
class Constant(ExpressionKernel):
    """The constant kernel (K13).

    >>> float(Constant(2.0)([[0.0]])[0, 0])
    2.0
    """

    value: Real = 1.0
    stationary = isotropic = True

    @property
    def normalised(self):
        return self.value == 1.0

    def trace(self, t):
        return t.param(self, "value")

    @property
    def validity(self):
        if self.value < 0:
            return certificate("not-psd", f"the negative constant {self.value:g}")
        return certificate("psd", "a constant >= 0")

    def phi(self, rows):
        return np.full((n_rows(rows), 1), math.sqrt(self.value))

    def feature_dim(self, d):
        return 1

    def _reads(self):
        return []


@register
@frozen
class White(ExpressionKernel):
    """White noise (K13): `variance` where both rows are the same row of the same data; in k(X), never in k(X, Y).

    >>> White(0.1)([[0.0], [0.0]])
    array([[0.1, 0. ],
           [0. , 0.1]])
    """

    variance: NonNegative = 1.0
    stationary = isotropic = True

    def trace(self, t):
        return t.param(self, "variance") * t.same_row()

    @property
    def validity(self):
        return certificate("pd" if self.variance > 0 else "psd", "a multiple of the identity")

    def _reads(self):
        return []

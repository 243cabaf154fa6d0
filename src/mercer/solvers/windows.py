"""What makes a window a density (M14): its constant, its moments, its distribution, draws from it.

Most windows are (1 - r^a)^b inside the unit ball, so that one Beta distribution says all about them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from mercer.kernels import (
    RBF,
    Biweight,
    CosineWindow,
    Epanechnikov,
    Kernel,
    Laplacian,
    Triangular,
    Tricube,
    Window,
)

__all__ = ["SHAPES", "Shape", "shape_of"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
_NODES, _WEIGHTS = (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0


def log_sphere(d) -> float:
    """log of the surface of the unit ball in d dimensions, 2 for d = 1."""
    return math.log(2.0) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)


@dataclass(frozen=True)
class Shape:
    """A window of unit bandwidth in one of its two forms.

    `value(s)` is k(0, x) at the squared distance s = r^2 in radial form; the product form is its product over the columns, each
    with its own s. `radial_integral(p)` is the integral of r^p value(r^2) over r > 0, and `squared_integral(p)` that of its
    square. `reach` is where the window ends (infinity for the Gaussian and the exponential), `radius(rng, d, size)` draws
    distances from the origin in radial form, `half(r)` is the mass of |x| <= r in one dimension.
    """

    name: str
    kernel: Callable[..., Kernel]
    reach: float
    value: Callable
    log_integral: Callable[[float], float]
    log_squared: Callable[[float], float]
    radius: Callable
    half: Callable

    def log_constant(self, d, form="radial") -> float:
        """The logarithm of the factor that makes the integral over d dimensions 1."""
        if form == "product" and d > 1:
            return d * self.log_constant(1)
        return -(log_sphere(d) + self.log_integral(d - 1))

    def variance(self, d=1, form="radial") -> float:
        """The variance of each coordinate."""
        d = 1 if form == "product" else d
        return math.exp(self.log_integral(d + 1) - self.log_integral(d - 1)) / d

    def roughness(self, d=1, form="radial") -> float:
        """The integral of the squared density."""
        if form == "product" and d > 1:
            return self.roughness(1) ** d
        return math.exp(log_sphere(d) + self.log_squared(d - 1) + 2.0 * self.log_constant(d))

    def cdf(self, u) -> np.ndarray:
        """The distribution function in one dimension."""
        u = np.asarray(u, np.float64)
        return 0.5 + 0.5 * np.sign(u) * self.half(np.abs(u))

    def draw(self, rng, n, d, form="radial") -> np.ndarray:
        """n exact draws in d dimensions."""
        if form == "product":
            return self.radius(rng, 1, (n, d)) * rng.choice([-1.0, 1.0], (n, d))
        direction = rng.standard_normal((n, d))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return direction * self.radius(rng, d, n)[:, None]


def _bump(name, kernel, a, b):
    """(1 - r^a)^b inside the unit ball: r^a has a Beta distribution."""

    def value(s):
        return np.maximum(1.0 - s ** (a / 2.0), 0.0) ** b if b else (s <= 1.0).astype(s.dtype)

    def log_integral(p, times=1):
        return special.betaln((p + 1.0) / a, times * b + 1.0) - math.log(a)

    def radius(rng, d, size):
        return rng.beta(d / a, b + 1.0, size) ** (1.0 / a)

    def half(r):
        return special.betainc(1.0 / a, b + 1.0, np.minimum(r, 1.0) ** a)

    return Shape(name, kernel, 1.0, value, log_integral, lambda p: log_integral(p, 2), radius, half)


def _cosine():
    def value(s):
        return np.sin(0.5 * math.pi * (1.0 - np.sqrt(np.minimum(s, 1.0))))  # exactly 0 outside

    def log_integral(p, power=1):
        return math.log(_WEIGHTS @ (_NODES**p * np.cos(0.5 * math.pi * _NODES) ** power))

    def radius(rng, d, size):
        """cos(pi r / 2) lies below (pi / 2) (1 - r), from which draws are easy; at least 2 of 3 are kept."""
        r, left = np.empty(size), np.ones(size, bool)
        while left.any():
            tried = rng.beta(d, 2.0, int(left.sum()))
            kept = rng.random(len(tried)) * 0.5 * math.pi * (1.0 - tried) <= np.cos(0.5 * math.pi * tried)
            places = np.flatnonzero(left.ravel())[kept]
            r.ravel()[places], left.ravel()[places] = tried[kept], False
        return r

    def half(r):
        return np.sin(0.5 * math.pi * np.minimum(r, 1.0))

    return Shape("cosine", CosineWindow, 1.0, value, log_integral, lambda p: log_integral(p, 2), radius, half)


def _gaussian():
    def log_integral(p):
        return 0.5 * (p - 1.0) * math.log(2.0) + math.lgamma(0.5 * (p + 1.0))

    return Shape(
        "gaussian",
        lambda lengthscale=1.0, form="radial": RBF(lengthscale),
        math.inf,
        lambda s: np.exp(-0.5 * s),
        log_integral,
        lambda p: log_integral(p) - 0.5 * (p + 1.0) * math.log(2.0),
        lambda rng, d, size: np.sqrt(rng.chisquare(d, size)),
        lambda r: special.erf(r / math.sqrt(2.0)),
    )


def _exponential():
    return Shape(
        "exponential",
        lambda lengthscale=1.0, form="radial": Laplacian(lengthscale, metric="l2" if form == "radial" else "l1"),
        math.inf,
        lambda s: np.exp(-np.sqrt(s)),
        lambda p: math.lgamma(p + 1.0),
        lambda p: math.lgamma(p + 1.0) - (p + 1.0) * math.log(2.0),
        lambda rng, d, size: rng.gamma(d, 1.0, size),
        lambda r: -np.expm1(-r),
    )


SHAPES = {
    "gaussian": _gaussian(),
    "exponential": _exponential(),
    "epanechnikov": _bump("epanechnikov", Epanechnikov, 2, 1),
    "biweight": _bump("biweight", Biweight, 2, 2),
    "tricube": _bump("tricube", Tricube, 3, 3),
    "triangular": _bump("triangular", Triangular, 1, 1),
    "boxcar": _bump("boxcar", Window, 2, 0),
    "cosine": _cosine(),
}
_SYNONYMS = {"tophat": "boxcar", "linear": "triangular"}


def shape_of(name) -> Shape:
    """The window of a name; scikit-learn's "tophat" and "linear" are the boxcar and the triangle."""
    known = SHAPES.get(_SYNONYMS.get(name, name)) if isinstance(name, str) else None
    if known is None:
        words = ", ".join(map(repr, [*SHAPES, *_SYNONYMS]))
        raise ValueError(f"kernel={name!r} is no window; there are {words}")
    return known

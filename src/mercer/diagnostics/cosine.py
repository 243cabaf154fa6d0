"""Cosine transforms of functions known at any lag: piecewise polynomials, transformed exactly."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre
from scipy.special import spherical_jn

__all__ = ["Transform", "cosine_transform"]

DEGREE = 20
PANELS = 6000
EPS = np.finfo(float).eps
NODES = -np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)  # with both ends: a jump just beyond an end is seen
TO_LEGENDRE = np.linalg.inv(legendre.legvander(NODES, DEGREE))
NEAR, FAR = -40, 60  # octaves around the scale between which panels begin and the taper ends
SLOW = 22  # octaves out where the taper of a function that is not integrable ends
TAPER = 4  # octaves that the taper takes


@dataclass(frozen=True)
class Panels:
    """Legendre coefficients (p, DEGREE + 1) on panels [middle - half, middle + half], and a bound of the L1 error."""

    middle: np.ndarray
    half: np.ndarray
    coefficients: np.ndarray
    error: float

    def transform(self, w: np.ndarray) -> np.ndarray:
        r"""2 int f(t) cos(w t) dt by :math:`\int_{-1}^1 P_l(x) e^{izx} dx = 2 i^l j_l(z)`; no quadrature, whatever w."""
        out = np.zeros(len(w))
        for chunk in range(0, len(self.half), 256):
            part = slice(chunk, chunk + 256)
            z, phase = np.outer(w, self.half[part]), np.outer(w, self.middle[part])
            turns = np.cos(phase), -np.sin(phase), -np.cos(phase), np.sin(phase)  # Re(i^l e^(i phase))
            for order in range(DEGREE + 1):
                c = self.half[part] * self.coefficients[part, order]
                used = np.flatnonzero(c)
                if used.size:
                    out += 4 * (spherical_jn(order, z[:, used]) * turns[order % 4][:, used]) @ c[used]
        return out


@dataclass(frozen=True)
class Transform:
    """S(w) and its estimated error. `body` ends at the nearer taper; `rest` is what the farther one adds."""

    body: Panels
    rest: Panels
    integrable: bool

    def __call__(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Density and error at the frequencies w (m,)."""
        rest = self.rest.transform(w)
        return self.body.transform(w) + rest, self.body.error + self.rest.error + 2 * np.abs(rest)


def cosine_transform(f: Callable, scale: float, size: float) -> Transform:
    r"""S(w) = 2 int_0^inf f(t) cos(w t) dt of a function that varies at the lag `scale` and is at most `size`.

    The half-line is cut into octaves, each bisected until Legendre polynomials of degree 20 fit. Far out f is multiplied by a
    smooth taper, 1 up to T and 0 from 16 T: cutting sharply would leave f(T)/w, the taper leaves what falls faster than any
    power of 1/(w T). Two tapers, 16 apart, tell the error.

    >>> density, error = cosine_transform(lambda t: np.exp(-t), 1.0, 1.0)(np.array([0.0, 1.0]))
    >>> density.round(12), bool(error.max() < 1e-12)  # 2 / (1 + w^2)
    (array([2., 1.]), True)
    """
    integrable = _is_integrable(f, scale)
    end = FAR if integrable else SLOW
    far, near = _taper(scale * 2.0**end), _taper(scale * 2.0 ** (end - TAPER))
    starts = scale * 2.0 ** np.arange(NEAR, end - TAPER)
    area = size * scale
    body = fit(lambda t: f(t) * near(t), np.r_[0.0, starts, scale * 2.0 ** (end - TAPER)], area, size)
    tail = scale * 2.0 ** np.arange(end - 2 * TAPER, end + 1.0)
    return Transform(body, fit(lambda t: f(t) * (far(t) - near(t)), tail, area, size), integrable)


def _is_integrable(f, scale):
    """Whether int |f| gains less and less from octave to octave far out: f below 1/t^1.1."""
    t = scale * 2.0 ** np.linspace(SLOW, SLOW + 16, 257)
    gains = np.abs(f(t)) * t
    return bool(gains[:16].mean() == 0 or gains[-16:].mean() < 2.0**-1.6 * gains[:16].mean())


def _taper(end):
    """1 up to end / 16, 0 from end on, smooth in log t (all derivatives vanish at both ends)."""

    def values(t):
        with np.errstate(divide="ignore", over="ignore"):
            x = np.clip(1 + np.log2(t / end) / TAPER, 0.0, 1.0)
            return 1.0 / (1.0 + np.exp(np.clip(1.0 / (1.0 - x) - 1.0 / x, -800, 700)))

    return values


def fit(f: Callable, edges: np.ndarray, area: float, size: float) -> Panels:
    """Panels on which f is a polynomial within rounding, by bisection from the given edges."""
    a, b, done, count = edges[:-1], edges[1:], [], 0
    while len(a):
        count += len(a)
        if count > PANELS:
            raise ValueError(
                f"the function of the lag cannot be resolved by {PANELS} pieces: it seems to oscillate without decaying, which "
                "means lines in its spectrum; test the periodic and the decaying parts separately"
            )
        middle, half, c, error, local = _polynomials(f, a, b)
        good = (
            (error <= 1e-13 * local)
            | (error <= 4 * EPS * size)
            | (error * half <= 1e-16 * area)
            | (half <= 4 * EPS * b)
        )
        done.append((middle[good], half[good], c[good], error[good] + EPS * local[good]))
        split = ~good
        a, b = np.r_[a[split], middle[split]], np.r_[middle[split], b[split]]
    middle, half, c, error = (np.concatenate(part) for part in zip(*done, strict=True))
    return Panels(middle, half, c, float(4 * (error * half).sum()))


def _polynomials(f, a, b):
    """Middles, half widths, Legendre coefficients, their last terms (what is left out is smaller still), largest values."""
    middle, half = (a + b) / 2, (b - a) / 2
    nodes = np.clip(middle[:, None] + half[:, None] * NODES, a[:, None], b[:, None])
    values = f(nodes.ravel()).reshape(nodes.shape)
    c = values @ TO_LEGENDRE.T
    return middle, half, c, np.abs(c[:, -3:]).sum(axis=1), np.abs(values).max(axis=1)

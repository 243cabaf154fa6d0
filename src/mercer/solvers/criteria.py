"""Criteria of bandwidths that leave a row out (M15), for windows of unit bandwidth, with their gradients.

Weights count rows: of a row that is there k times one is left out, of a weight below 1 all of it.
Gradients come as moments M: where L changes by dL, the criterion changes by <M, L^-1 dL>, its own volume aside.
"""

import math
from functools import lru_cache

import numpy as np

from mercer.solvers.windows import SHAPES, Shape, shape_of
from mercer.threads import map_tiles

__all__ = ["is_smooth", "log_slope", "log_value", "loo_log_density", "loo_objective", "lscv_objective", "squares"]

_TILE = 2**18  # pairs at a time
_NEVER = -700.0  # stands for the logarithm of 0 while a criterion is optimised
_GAUSSIAN = SHAPES["gaussian"]


# ---------------------------------------------------------------------------------------------- windows and their slopes
_BUMPS = {"epanechnikov": (2, 1), "biweight": (2, 2), "tricube": (3, 3), "triangular": (1, 1)}


def log_value(shape: Shape, s) -> np.ndarray:
    """Logarithm of the window at squared distances s; exact where its value underflows."""
    if shape.name == "gaussian":
        return -0.5 * s
    if shape.name == "exponential":
        return -np.sqrt(s)
    with np.errstate(divide="ignore"):
        return np.log(shape.value(s))


def log_slope(shape: Shape, s) -> np.ndarray:
    """Derivative of `log_value` by s, taken as 0 at s = 0 and outside."""
    inside = (s > 0) & (s < shape.reach)
    s = np.where(inside, s, 0.5)
    if shape.name == "gaussian":
        return np.full_like(s, -0.5)
    if shape.name == "exponential":
        slope = -0.5 / np.sqrt(s)
    elif shape.name == "cosine":
        r = np.sqrt(s)
        slope = -0.25 * math.pi * np.tan(0.5 * math.pi * r) / r
    else:
        a, b = _BUMPS[shape.name]
        slope = -0.5 * a * b * s ** (0.5 * a - 1.0) / (1.0 - s ** (0.5 * a))
    return np.where(inside, slope, 0.0)


def is_smooth(shape) -> bool:
    """Whether criteria have a gradient by the bandwidth."""
    return shape.name != "boxcar"


def squares(A, B, form):
    """Squared distances of rows of A and B: (m, n), or (d, m, n) one column at a time. By differences: they are exact at 0."""
    if form == "product":
        return np.square(A.T[:, :, None] - B.T[:, None, :])
    s = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        s += np.square(a[:, None] - b)
    return s


def _form(shape, form, d):
    """The Gaussian is both; in one column there is no difference."""
    return "radial" if d == 1 or shape.name == "gaussian" else form


def _tiles(n, depth=1):
    step = max(1, _TILE // (n * depth))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def _moments(A, B, weight, form):
    """sum_ij W_ij (a_i - b_j)(a_i - b_j)^T; of one W a column, row k comes from the k-th."""
    if form == "product":
        rows = [_moments(A, B, V, "radial")[k] for k, V in enumerate(weight)]
        return np.array(rows)
    cross = A.T @ weight @ B
    return (A.T * weight.sum(axis=1)) @ A + (B.T * weight.sum(axis=0)) @ B - cross - cross.T


# ---------------------------------------------------------------------------------------------- leave-one-out likelihood
def loo_log_density(Z, weights=None, shape: Shape = _GAUSSIAN, form="radial") -> np.ndarray:
    """log f_{-i}(z_i) of each row by windows of unit bandwidth around the others; -inf where none is near."""
    return _left_out(Z, weights, shape, form, False)[0]


def _left_out(Z, weights, shape, form, gradient):
    """log f_{-i}(z_i), and the gradient of their weighted mean as moments: mean of d log f_{-i}(z_i) = -2 <M, L^-1 dL>."""
    n, d = Z.shape
    w = np.ones(n) if weights is None else weights
    form = _form(shape, form, d)
    tiles = _tiles(n, d if form == "product" else 1)
    out = map_tiles(lambda i: _left_out_tile(Z, w, shape, form, tiles[i], gradient), len(tiles))
    values = np.concatenate([v for v, _ in out]) + shape.log_constant(d, form)
    return values, sum(M for _, M in out) if gradient else None


def _left_out_tile(Z, w, shape, form, tile, gradient):
    s = squares(Z[tile], Z, form)
    with np.errstate(divide="ignore", invalid="ignore"):
        e = log_value(shape, s) if form == "radial" else log_value(shape, s).sum(axis=0)
        e += np.log(w)
        e[np.arange(len(e)), np.arange(tile.start, tile.stop)] += np.log(np.maximum(1.0 - 1.0 / w[tile], 0.0))
        top = e.max(axis=1, keepdims=True)
        p = np.exp(e - np.where(np.isfinite(top), top, 0.0))
        total = p.sum(axis=1, keepdims=True)
        values = (np.log(total) + np.where(np.isfinite(top), top, 0.0))[:, 0] - np.log(
            w.sum() - np.minimum(w[tile], 1.0)
        )
    if not gradient:
        return values, None
    p *= np.where(total > 0, w[tile][:, None] / w.sum() / np.where(total > 0, total, 1.0), 0.0)
    return values, _moments(Z[tile], Z, p * log_slope(shape, s), form)


def loo_objective(Z, w, shape, form, gradient=True):
    """Minus the mean of log f_{-i}, and the moments of its gradient."""
    values, M = _left_out(Z, w, shape, form, gradient)
    return -float(np.average(np.maximum(values, _NEVER), weights=w)), None if M is None else 2.0 * M


# ---------------------------------------------------------------------------------------------- least squares
@lru_cache(maxsize=16)
def _with_itself(name):
    """The convolution of a window with itself in one dimension and its derivative, as functions of |u|."""
    shape = shape_of(name)
    if name == "exponential":
        return (lambda u: 0.25 * (1.0 + u) * np.exp(-u)), (lambda u: -0.25 * u * np.exp(-u))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    u = np.linspace(0.0, 2.0 * shape.reach, 2**14 + 1)

    def piece(low, high):  # two windows overlap from u - 1 to 1, symmetric about u / 2
        t = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * nodes
        return (0.5 * (high - low))[:, None] * weights * shape.value(t**2) * shape.value((u[:, None] - t) ** 2)

    middle = np.clip(u, None, 1.0)  # a window may have a kink at its centre
    values = 2.0 * (piece(u / 2.0, middle) + piece(middle, np.ones_like(u))).sum(axis=1)
    values *= math.exp(2.0 * shape.log_constant(1))
    return _table(values, u[1]), _table(np.gradient(values, u, edge_order=2), u[1])


def _table(values, step):
    """Straight lines between equally spaced values, 0 beyond them."""
    values = np.append(values, [0.0, 0.0])

    def curve(v):
        place = np.minimum(v / step, len(values) - 2.0)
        left = place.astype(np.intp)
        return values[left] + (place - left) * (values[left + 1] - values[left])

    return curve


def lscv_objective(Z, w, shape, form, gradient=True):
    """Integral of f^2 less twice the mean of f_{-i}(z_i), and the moments of its gradient by log bandwidths."""
    n, d = Z.shape
    form = _form(shape, form, d)
    w = np.ones(n) if w is None else w
    if shape.name != "gaussian" and form == "radial" and d > 1:
        raise ValueError(
            f'bandwidth="lscv" has no closed form for the radial window kernel="{shape.name}" in {d} columns; use '
            'kernel="gaussian" or form="product"'
        )
    part = _lscv_gaussian if shape.name == "gaussian" else _lscv_product
    tiles = _tiles(n, 1 if shape.name == "gaussian" else d)
    out = map_tiles(lambda i: part(Z, w, shape, tiles[i], gradient), len(tiles))
    value = float(sum(v for v, _ in out))
    return value, (np.diag(sum(M for _, M in out)) if gradient else None)


def _outer(w, tile):
    """Weights of pairs in the integral of the squared estimate, and in the mean of the estimates without the row itself."""
    n, mine = w.sum(), w[tile]
    both = mine[:, None] * w
    others = both / (n - np.minimum(mine, 1.0))[:, None] / n
    others[np.arange(len(others)), np.arange(tile.start, tile.stop)] *= np.maximum(1.0 - 1.0 / mine, 0.0)
    return both / n**2, others


def _lscv_gaussian(Z, w, shape, tile, gradient):
    d = Z.shape[1]
    both, others = _outer(w, tile)
    half = np.exp(-0.25 * squares(Z[tile], Z, "radial"))
    both *= (4.0 * math.pi) ** (-0.5 * d) * half
    others *= (2.0 * math.pi) ** (-0.5 * d) * half * half
    value = both.sum() - 2.0 * others.sum()
    if not gradient:
        return value, None
    return value, np.diag(_moments(Z[tile], Z, 0.5 * both - 2.0 * others, "radial"))


def _lscv_product(Z, w, shape, tile, gradient):
    """The same for windows whose product over the columns is taken."""
    d = Z.shape[1]
    both, others = _outer(w, tile)
    s = squares(Z[tile], Z, "product")
    joint, joint_slope = _with_itself(shape.name)
    b = joint(np.sqrt(s))
    both = both * b.prod(axis=0)
    others = others * shape.value(s).prod(axis=0) * math.exp(d * shape.log_constant(1))
    value = both.sum() - 2.0 * others.sum()
    if not gradient:
        return value, None
    with np.errstate(divide="ignore", invalid="ignore"):
        steep = np.where(b > 0, -joint_slope(np.sqrt(s)) * np.sqrt(s) / b, 0.0)
    steep = both * steep + 4.0 * others * log_slope(shape, s) * s
    return value, steep.sum(axis=(1, 2))

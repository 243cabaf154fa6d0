"""Column statistics in plain NumPy: a function of one column of each row, combined over the columns.

`values` and `slopes` broadcast, so that the same lines serve tiles (n, m, d), diagonals (n, d) and their gradients.
"""

import math

import numpy as np
import scipy.sparse as sp

__all__ = ["FUNCTIONS", "OF_DIFFERENCES", "diagonal", "diagonal_slope", "pullback", "tile", "weights_of"]


def bspline(u, degree):
    """Centred cardinal B-spline: sum_k (-1)^k C(m+1, k) ((m+1)/2 - |u| - k)_+^m / m!; exact at the end of its support."""
    inside = (degree + 1) / 2 - np.abs(u)
    total = np.zeros_like(inside)
    for k in range((degree + 1) // 2 + 1):
        total += (-1) ** k * math.comb(degree + 1, k) * np.maximum(inside - k, 0.0) ** degree
    return total / math.factorial(degree)


def _bspline_slope(u, degree):
    if degree == 1:
        return np.where(np.abs(u) < 1, -np.sign(u), 0.0)
    return bspline(u + 0.5, degree - 1) - bspline(u - 0.5, degree - 1)


def _spline(a, b, _):
    low = np.minimum(a, b)
    return 1.0 + a * b + a * b * low - (a + b) / 2 * low**2 + low**3 / 3


def _chi2(a, b, _):
    total, difference = a + b, a - b
    return difference * np.divide(difference, total, out=np.zeros_like(total), where=total > 0)


def _chi2_slope(a, b, _):
    total = a + b
    ratio = np.divide(a - b, total, out=np.zeros_like(total), where=total > 0)
    return 2 * ratio - ratio**2


def window(u, code):
    """(1 - |u|^a)^b where |u| <= 1, else 0, for the code 10 a + b; cos(pi u / 2) for the code 0."""
    u = np.abs(u)
    if code == 0:
        return np.cos(0.5 * math.pi * np.minimum(u, 1.0)) * (u < 1.0)
    a, b = divmod(code, 10)
    return np.maximum(1.0 - u**a, 0.0) ** b * (u <= 1.0)


def _window_slope(u, code):
    """The slope, 0 at the kinks."""
    inside = np.abs(u) < 1.0
    if code == 0:
        return np.where(inside, -0.5 * math.pi * np.sin(0.5 * math.pi * u), 0.0)
    a, b = divmod(code, 10)
    bump, power = np.maximum(1.0 - np.abs(u) ** a, 0.0), np.sign(u) * np.abs(u) ** (a - 1)
    return np.where(inside, -a * b * bump ** max(b - 1, 0) * power, 0.0)


# name -> (function, derivative in the first argument); all functions are symmetric
FUNCTIONS = {
    "absdiff": (lambda a, b, _: np.abs(a - b), lambda a, b, _: np.sign(a - b)),
    "min": (lambda a, b, _: np.minimum(a, b), lambda a, b, _: 0.5 * (1.0 + np.sign(b - a))),
    "chi2": (_chi2, _chi2_slope),
    "equal": (lambda a, b, _: (a == b).astype(a.dtype), lambda a, b, _: np.zeros(np.broadcast_shapes(a.shape, b.shape), a.dtype)),
    "gauss": (lambda a, b, _: np.exp(-0.5 * (a - b) ** 2), lambda a, b, _: -(a - b) * np.exp(-0.5 * (a - b) ** 2)),
    "bspline": (lambda a, b, m: bspline(a - b, m), lambda a, b, m: _bspline_slope(a - b, m)),
    "window": (lambda a, b, c: window(a - b, c), lambda a, b, c: _window_slope(a - b, c)),
    "spline": (_spline, lambda a, b, _: np.where(a < b, b + a * b - a**2 / 2, b + b**2 / 2)),
}  # fmt: skip

#: Functions of a - b.
OF_DIFFERENCES = ("absdiff", "bspline", "gauss", "window")


def weights_of(statistic, d) -> np.ndarray:
    """Weights of the columns in a sum."""
    if statistic.combine == "mean":
        return np.full(d, 1.0 / d)
    if statistic.weights is None:
        return np.ones(d)
    w = statistic.weights.value
    if len(w) not in (1, d):
        raise ValueError(f"the kernel was made for {len(w)} columns, but the rows have {d}")
    return np.broadcast_to(w, d)


def _combine(statistic, f):
    if statistic.combine in ("sum", "mean"):
        return f @ weights_of(statistic, f.shape[-1]).astype(f.dtype)
    if statistic.combine == "prod":
        return f.prod(axis=-1)
    return _elementary(f, statistic.order)[statistic.order]


def _elementary(f, order):
    """Elementary symmetric polynomials e_0 ... e_order over the last axis."""
    e = [np.ones(f.shape[:-1], f.dtype)] + [np.zeros(f.shape[:-1], f.dtype) for _ in range(order)]
    for j in range(f.shape[-1]):
        for p in range(order, 0, -1):
            e[p] = e[p] + f[..., j] * e[p - 1]
    return e


def _combine_slopes(statistic, f):
    """Derivative of the combined statistic in each column's value, without division."""
    d = f.shape[-1]
    if statistic.combine in ("sum", "mean"):
        return np.broadcast_to(weights_of(statistic, d), f.shape)
    others = [np.delete(f, j, axis=-1) for j in range(d)]
    if statistic.combine == "prod":
        return np.stack([o.prod(axis=-1) for o in others], axis=-1)
    return np.stack([_elementary(o, statistic.order - 1)[statistic.order - 1] for o in others], axis=-1)


def _array(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def tile(statistic, A, B) -> np.ndarray:
    """(n, m) statistic of all pairs of rows."""
    check_order(statistic, A.shape[1])
    function, _ = FUNCTIONS[statistic.function]
    with np.errstate(all="ignore"):  # overflow shows as inf, which the engine reports by name
        return _combine(statistic, function(_array(A)[:, None], _array(B)[None], statistic.parameter))


def diagonal(statistic, A) -> np.ndarray:
    """(n,) statistic of each row with itself."""
    check_order(statistic, A.shape[1])
    function, _ = FUNCTIONS[statistic.function]
    A = _array(A)
    with np.errstate(all="ignore"):
        return _combine(statistic, function(A, A, statistic.parameter))


def diagonal_slope(statistic, A) -> np.ndarray:
    """(n, d) derivative of the diagonal in the row."""
    function, slope = FUNCTIONS[statistic.function]
    A = _array(A)
    return _combine_slopes(statistic, function(A, A, statistic.parameter)) * 2 * slope(A, A, statistic.parameter)


def pullback(statistic, A, B, V):
    """Gradients of sum(V * S) in the rows of A and of B."""
    function, slope = FUNCTIONS[statistic.function]
    a, b = _array(A)[:, None], _array(B)[None]
    g = V[:, :, None] * _combine_slopes(statistic, function(a, b, statistic.parameter))
    return (g * slope(a, b, statistic.parameter)).sum(axis=1), (g * slope(b, a, statistic.parameter)).sum(axis=0)


def check_order(statistic, d):
    if statistic.combine == "elementary" and statistic.order > d:
        raise ValueError(f"ANOVA(degree={statistic.order}) needs at least {statistic.order} columns, got {d}")

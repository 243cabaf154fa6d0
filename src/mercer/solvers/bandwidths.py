"""Bandwidths of windows (M15): rules of thumb, improved Sheather-Jones, and two ways of leaving a row out.

A bandwidth is a number, one number a column, or a positive definite matrix H; dividing rows by it means z = L^-1 x with
H = L L^T, so that a number h is the matrix h^2 I. Weights here count rows: a weight k is a row k times, None stands for ones.
Equal rows are one with the sum of their weights, of which leaving a row out leaves out 1.
"""

import logging
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import fft, linalg, optimize

from mercer import validate
from mercer.errors import ConvergenceWarning, NumericalWarning
from mercer.random import generator
from mercer.solvers.criteria import is_smooth, loo_log_density, loo_objective, lscv_objective
from mercer.solvers.windows import SHAPES, Shape, shape_of

__all__ = [
    "RULES",
    "Selection",
    "bandwidth_scores",
    "canonical_ratio",
    "count_of",
    "divided",
    "log_volume",
    "root_of",
    "select_bandwidth",
    "spread",
]

logger = logging.getLogger("mercer")

RULES = ("scott", "silverman", "normal-scott", "normal-silverman", "mad", "isj", "lscv", "loo", "loo-full")

_MOST = 4000  # rows that a criterion of all pairs looks at
_FEW = 1000  # rows that tell where a search starts
_MULTIPLES = 2.0 ** np.arange(-5.0, 3.01, 0.5)  # of the pilot bandwidth, where searches may start
_FINE = 2.0 ** np.arange(-5.0, 3.01, 0.0625)  # where a criterion has no gradient
_FLOOR = 1e-4  # times the pilot: below it a criterion is taken to grow without end
_CELLS = 2**12  # of the grid that the improved Sheather-Jones rule counts in
_GAUSSIAN = SHAPES["gaussian"]


@dataclass(frozen=True, eq=False)
class Selection:
    """A chosen bandwidth: a number, one a column, or a matrix. `rows` is how many rows the rule looked at."""

    value: Any
    rule: str
    rows: int
    score: float | None = None


# ---------------------------------------------------------------------------------------------- bandwidths as matrices
def root_of(bandwidth, d) -> np.ndarray:
    """Scales of the d columns, or the lower triangle L with L L^T = bandwidth; refuses what is no bandwidth."""
    h = np.asarray(bandwidth)
    if h.dtype.kind not in "biuf" or h.ndim > 2:
        raise ValueError(f"bandwidth={bandwidth!r} must be a number, one number a column, a matrix, or one of {RULES}")
    h = h.astype(np.float64)
    if not np.isfinite(h).all():
        raise ValueError("bandwidth contains NaN or infinity")
    if h.ndim == 2:
        return _root_of_matrix(h, d)
    if h.ndim == 1 and h.shape != (d,):
        raise ValueError(
            f"bandwidth has {len(h)} entries, but the rows have {d} columns; pass one for each, or a number"
        )
    if (h <= 0).any():
        raise ValueError(f"bandwidth={bandwidth!r} must be positive")
    return np.full(d, h) if h.ndim == 0 else h


def _root_of_matrix(H, d):
    if H.shape != (d, d):
        raise ValueError(f"bandwidth is a matrix of shape {H.shape}, but the rows have {d} columns: expected {(d, d)}")
    if np.abs(H - H.T).max() > 1e-10 * np.abs(H).max():
        raise ValueError("bandwidth is a matrix that is not symmetric; a matrix is taken as a covariance")
    try:
        return np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        low = np.linalg.eigvalsh(H)[0]
        raise ValueError(
            f"bandwidth is a matrix that is not positive definite: its smallest eigenvalue is {low:.3g}"
        ) from None


def divided(X, root) -> np.ndarray:
    """Rows with the bandwidth divided out, in float64."""
    X = np.asarray(X, np.float64)
    return X / root if root.ndim == 1 else linalg.solve_triangular(root, X.T, lower=True).T.copy()


def log_volume(root) -> float:
    """log |L|, by which log densities of divided rows are too large."""
    return float(np.log(root if root.ndim == 1 else np.diag(root)).sum())


# ---------------------------------------------------------------------------------------------- rules of thumb
def count_of(weights, n) -> float:
    """The number of rows that weights stand for; refuses weights that are shares of 1."""
    if weights is None:
        return float(n)
    total = float(np.sum(weights))
    if total < 1.5 and n > 1:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, but a rule for bandwidths counts rows, and a weight k is a row k times; "
            "multiply the weights by the number of rows that they stand for, or pass a number as bandwidth"
        )
    return total


def spread(X, weights=None) -> np.ndarray:
    """Standard deviation of each column, unbiased as in `np.cov`; 0 for one row and for columns of equal entries."""
    size = np.abs(X).max(axis=0).astype(np.float64)
    U = X / np.where(size > 0, size, 1.0)  # squares of very large and very small numbers are none
    w = np.ones(len(X)) if weights is None else weights
    total = float(w.sum())
    if total <= 1 + 1e-12:
        return np.zeros(X.shape[1])
    squares = w @ (U - w @ U / total) ** 2
    equal = (X == X[0]).all(axis=0)
    return np.where(equal, 0.0, np.sqrt(squares / (total - 1.0)) * size)


def canonical_ratio(shape: Shape, d=1, form="radial") -> float:
    """The bandwidth at which a window smooths as much as the Gaussian of bandwidth 1 (Marron & Nolan 1988)."""

    def canonical(window):
        return (window.roughness(d, form) / window.variance(d, form) ** 2) ** (1.0 / (d + 4))

    return canonical(shape) / canonical(_GAUSSIAN)


def _factor(scott, n, d):
    return (n if scott else n * (d + 2) / 4.0) ** (-1.0 / (d + 4))


def _middle(x, w):
    """Weighted median, the mean of the two middle entries where there are two."""
    order = np.argsort(x, kind="stable")
    total = np.cumsum(np.ones(len(x)) if w is None else w[order])
    total /= total[-1]
    low = np.searchsorted(total, 0.5 - 1e-12)
    high = min(np.searchsorted(total, 0.5 + 1e-12), len(x) - 1)
    return 0.5 * x[order[low]] + 0.5 * x[order[high]]


def _mad(X, w):
    """Median of the distances from the median, times 1.4826: the deviation of a normal sample."""
    scales = [1.4826 * _middle(np.abs(x - _middle(x, w)), w) for x in np.asarray(X, np.float64).T]
    return np.array(scales)


def _deviations(X, w, rule, name):
    """Scales of the columns for a rule; refuses columns without spread."""
    flat = np.flatnonzero(spread(X, w) == 0)
    if len(flat):
        reason = "there is one row" if len(X) == 1 else f"column {name(flat[0])} of X has no spread"
        raise ValueError(f'bandwidth="{rule}" cannot be found: {reason} (n_samples={len(X)}); pass a number')
    scales = spread(X, w)
    if rule != "mad":
        return scales
    robust = _mad(X, w)
    lost = np.flatnonzero(robust == 0)
    if len(lost):
        listed = ", ".join(str(name(j)) for j in lost)
        warnings.warn(f'bandwidth="mad": over half of column {listed} of X are equal, so that the MAD is 0; the standard '
                      "deviation takes its place", NumericalWarning, stacklevel=5)  # fmt: skip
    return np.where(robust == 0, scales, robust)


# ---------------------------------------------------------------------------------------------- improved Sheather-Jones
def _improved_sheather_jones(x, w):
    """Botev, Grotowski & Kroese (2010), algorithm 1 with l = 7: t = xi gamma^[l](t), the least solution. None if there is none.

    Rounded entries have a second, smaller solution that tells them apart: it must be no less than half the gap between them.
    """
    width, n = np.ptp(x), count_of(w, len(x))
    squares, a2 = _cosine_moments((x - x.min()) / width, w)
    values = np.unique(x)
    least = 0.5 * float(np.diff(values).min()) / (2.0 * width) if len(values) < n else 0.0

    def excess(t):
        return t - _plug_in(t, n, squares, a2)

    grid = np.geomspace(max(1e-10, least**2), 0.1, 100)
    found = np.array([excess(t) for t in grid])
    rises = np.flatnonzero((found[:-1] < 0) & (found[1:] >= 0))
    if not len(rises):
        return None
    t = optimize.brentq(excess, grid[rises[0]], grid[rises[0] + 1], xtol=1e-16, rtol=1e-10)
    return math.sqrt(t) * 2.0 * width


def _cosine_moments(u, w):
    """k^2 and the squared coefficients of the cosine series of a sample on [0, 1], with half its range left on each side."""
    place = (0.25 + 0.5 * u) * _CELLS - 0.5
    cell = np.floor(place).astype(np.intp)
    share, w = place - cell, np.full(len(u), 1.0 / len(u)) if w is None else w / w.sum()
    counts = np.bincount(cell, w * (1 - share), _CELLS) + np.bincount(cell + 1, w * share, _CELLS)
    return np.arange(1.0, _CELLS) ** 2, fft.dct(counts)[1:] ** 2


def _plug_in(t, n, squares, a2, last=7):
    """xi gamma^[l](t): squared norms of derivatives, each with the bandwidth that the next higher one asks for."""

    def norm(s, t):
        return 0.5 * math.pi ** (2 * s) * float(squares**s @ (a2 * np.exp(-squares * (math.pi**2 * t))))

    f = norm(last, t)
    for s in range(last - 1, 1, -1):
        odd = math.prod(range(1, 2 * s, 2))
        c = (1.0 + 0.5 ** (s + 0.5)) / 3.0 * 2.0 * odd / math.sqrt(2.0 * math.pi)
        f = norm(s, (c / (n * max(f, 1e-300))) ** (2.0 / (3.0 + 2.0 * s)))
    return (2.0 * n * math.sqrt(math.pi) * max(f, 1e-300)) ** -0.4


def _isj_columns(X, w, name):
    fallback = spread(X, w) * _factor(False, count_of(w, len(X)), 1)
    found = [_improved_sheather_jones(x, w) for x in np.asarray(X, np.float64).T]
    for j, h in enumerate(found):
        if h is None:
            warnings.warn(f'bandwidth="isj": the equation of column {name(j)} of X has no solution: too few rows, '
                          'or too much rounding; "normal-silverman" takes its place', NumericalWarning, stacklevel=5)  # fmt: skip
    return np.array([b if h is None else h for h, b in zip(found, fallback, strict=True)])


# ---------------------------------------------------------------------------------------------- optimisation
class _Search:
    """A criterion as a function of theta: logarithms of per-axis factors on pilot bandwidths, or a lower triangle with
    logarithms on its diagonal."""

    def __init__(self, criterion, Y, w, shape, form, full):
        self.loo, self.full = criterion == "loo", full
        self.Y, self.w, self.shape, self.form, self.d = Y, w, shape, form, Y.shape[1]
        self.lower = np.tril_indices(self.d)

    def some(self):
        """The same criterion of at most _FEW rows."""
        step = -(-len(self.Y) // _FEW)
        criterion = "loo" if self.loo else "lscv"
        return _Search(criterion, self.Y[::step], self.w[::step], self.shape, self.form, self.full)

    def root(self, theta):
        if not self.full:
            return np.exp(theta)
        L = np.zeros((self.d, self.d))
        L[self.lower] = theta
        L[np.diag_indices(self.d)] = np.exp(np.diag(L))
        return L

    def start(self, multiple):
        theta = np.eye(self.d) * math.log(multiple)
        return theta[self.lower] if self.full else np.diag(theta).copy()

    def value(self, theta):
        return self(theta, gradient=False)[0]

    def __call__(self, theta, gradient=True):
        root = self.root(theta)
        Z, volume = divided(self.Y, root), log_volume(root)
        if not self.loo:
            value, M = lscv_objective(Z, self.w, self.shape, self.form, gradient)
            value *= math.exp(-volume)
            return value, None if M is None else np.diag(M) * math.exp(-volume) - value
        value, M = loo_objective(Z, self.w, self.shape, self.form, gradient)
        if M is None:
            return value + volume, None
        if not self.full:
            return value + volume, np.diag(M) + 1.0
        G = linalg.solve_triangular(root, M, lower=True, trans=1)
        G[np.diag_indices(self.d)] = np.diag(G) * np.diag(root) + 1.0
        return value + volume, G[self.lower]

    def bounds(self, floor):
        """Scales between the floor and 100 times the pilot; what is below a diagonal is free."""
        diagonal = [(math.log(f), math.log(100.0)) for f in floor]
        if not self.full:
            return diagonal
        return [diagonal[i] if i == j else (None, None) for i, j in zip(*self.lower, strict=True)]


def _floor(X, w, pilot):
    """The least factors on the pilot that are looked at: half the gap between rounded entries where there are equal ones."""
    floor = np.full(len(pilot), _FLOOR)
    for j, x in enumerate(X.T):
        values = np.unique(x)
        if len(values) < w.sum():
            floor[j] = max(_FLOOR, 0.5 * float(np.diff(values).min()) / pilot[j])
    return np.minimum(floor, 1.0)


def _grows_below(search, theta, value, floor):
    """For each column with equal entries whether a bandwidth of almost 0 would look better than what was found."""
    found = np.zeros(len(floor), bool)
    diagonal = np.flatnonzero(search.lower[0] == search.lower[1]) if search.full else np.arange(len(floor))
    for j in np.flatnonzero(floor > _FLOOR):
        tiny = theta.copy()
        tiny[diagonal[j]] = math.log(1e-3 * floor[j])
        found[j] = search.value(tiny) < value
    return found


def _starts(search):
    """Two best valleys along a line of multiples of the pilot, by some of the rows."""
    search = search.some()
    values = np.array([search.value(search.start(m)) for m in _MULTIPLES])
    padded = np.concatenate([[np.inf], values, [np.inf]])
    valleys = np.flatnonzero((values <= padded[:-2]) & (values <= padded[2:]))
    return [search.start(_MULTIPLES[i]) for i in valleys[np.argsort(values[valleys], kind="stable")][:2]]


def _minimise(search, floor):
    """theta of the least value, and the value."""
    if not is_smooth(search.shape):  # a step function of the bandwidth: the best of many multiples of the pilot
        tried = [(search.value(search.start(m)), m) for m in _FINE]
        value, multiple = min(tried)
        return search.start(multiple), value
    bounds, best = search.bounds(floor), None
    for theta in _starts(search):
        low = [-np.inf if b[0] is None else b[0] for b in bounds]
        found = optimize.minimize(search, np.maximum(theta, low), jac=True, method="L-BFGS-B", bounds=bounds,
                                  options={"maxiter": 200, "ftol": 1e-10, "gtol": 1e-6})  # fmt: skip
        best = found if best is None or found.fun < best.fun else best
    if best.status == 1:
        warnings.warn(f"the search for a bandwidth ended at its cap of {best.nit} steps, at a gradient of "
                      f"{np.abs(best.jac).max():.3g}", ConvergenceWarning, stacklevel=6)  # fmt: skip
    return best.x, float(best.fun)


def _by_criterion(rule, X, w, shape, form, name):
    """Bandwidth that a criterion of all pairs likes best, as (value, score, rows)."""
    slow = rule == "lscv" and shape.name != "gaussian"  # several passes over every pair of entries
    if (X == X[0]).all():
        raise ValueError(
            f'bandwidth="{rule}" leaves a row out, but all rows are equal, n_samples={len(X)}; pass a number'
        )
    X, w, shrink = _sampled(X, w, _FEW if slow else _MOST)
    n, d = X.shape
    ratio = _factor(False, count_of(w, n), d) * canonical_ratio(shape, d, form)
    scale = _deviations(X, w, rule, name) * ratio
    X = X - X.mean(axis=0)
    full = rule == "loo-full"
    base = _pilot_matrix(X, w, scale, ratio) if full else scale
    search = _Search("lscv" if rule == "lscv" else "loo", divided(X, base), w, shape, form, full)
    floor = _floor(X, w, scale)
    theta, value = _minimise(search, np.full(d, floor.max()) if full else floor)
    root = search.root(theta)
    reached = (np.diag(root) if full else root) <= 1.01 * (floor.max() if full else floor)
    reached |= _grows_below(search, theta, value, floor)
    if reached.any():
        _say_degenerate(rule, X, w, reached, name)
    score = value * math.exp(-log_volume(base)) if rule == "lscv" else -(value + log_volume(base))
    if full:
        L = base @ root
        return L @ L.T * shrink**2, score, n
    return scale * root * shrink, score, n


def _pilot_matrix(X, w, scale, ratio):
    """Root of the covariance times the rule of thumb; a diagonal one where columns are collinear."""
    C = np.cov(X.T, aweights=w).reshape(len(scale), -1) * ratio**2
    if np.linalg.eigvalsh(C / np.outer(scale, scale))[0] < 1e-8:
        return np.diag(scale)
    return np.linalg.cholesky(C)


def _say_degenerate(rule, X, w, reached, name):
    listed = ", ".join(str(name(j)) for j in np.flatnonzero(reached))
    different, rows = min(len(np.unique(X[:, j])) for j in np.flatnonzero(reached)), f"{w.sum():.6g} rows"
    warnings.warn(
        f'bandwidth="{rule}" goes to 0 in column {listed} of X, which has {different} different entries in {rows}; it was kept '
        "above half the gap between them. Another rule is better for rounded or repeated rows",
        NumericalWarning,
        stacklevel=6,
    )  # fmt: skip


def _sampled(X, w, most):
    """At most so many different rows, how often they are there, and the factor n^(-1/(d+4)) from them to all."""
    X, _, w, _ = validate.canonical(np.asarray(X, np.float64), np.zeros(len(X)), w)
    n, d = X.shape
    if n <= most:
        return X, w, 1.0
    chosen = np.sort(generator(0).choice(n, most, replace=False))
    shrink = float(w[chosen].sum() / w.sum()) ** (1.0 / (d + 4))
    logger.info("bandwidth: %d of %d rows were looked at; the result is multiplied by %.3g", most, n, shrink)
    return X[chosen], w[chosen], shrink


# ---------------------------------------------------------------------------------------------- the door
def select_bandwidth(rule, X, weights=None, *, shape: Shape = _GAUSSIAN, form="radial", names=None) -> Selection:
    """The bandwidth of a word for rows X (n, d).

    "scott" and "silverman" are scikit-learn's, without regard to scales. The others give one number a column, "loo-full" a
    matrix. Rules made for the Gaussian are converted to other windows by canonical bandwidths.

    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> round(select_bandwidth("silverman", X).value, 3)
    0.306
    """
    if rule not in RULES:
        raise ValueError(f"bandwidth={rule!r} must be a number, one a column, a matrix, or one of {RULES}")
    n, d = X.shape

    def name(j):
        return j if names is None else repr(str(names[j]))

    size = count_of(weights, n)
    if rule in ("scott", "silverman"):
        return Selection(_factor(rule == "scott", size, d), rule, n)
    if rule in ("lscv", "loo", "loo-full"):
        value, score, rows = _by_criterion(rule, X, weights, shape, form, name)
        return Selection(_plain(value), rule, rows, score)
    if rule == "isj":
        _deviations(X, weights, rule, name)
        value = _isj_columns(X, weights, name)
    else:
        value = _deviations(X, weights, rule, name) * _factor(rule == "normal-scott", size, d)
    return Selection(_plain(value * canonical_ratio(shape, d, form)), rule, n)


def _plain(value):
    return float(value[0]) if value.shape == (1,) else value


def bandwidth_scores(
    X, bandwidths, criterion="loo", *, sample_weight=None, kernel="gaussian", form="radial"
) -> np.ndarray:
    """How good bandwidths are for rows X: what a curve of scores is drawn from.

    "loo" is the mean of log f_{-i}(x_i), to be large; "lscv" the least-squares criterion, to be small. A weight k is a row k
    times. Each bandwidth is a number, one a column, or a matrix.

    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> int(np.argmax(bandwidth_scores(X, [0.01, 0.3, 5.0])))
    1
    """
    if criterion not in ("loo", "lscv"):
        raise ValueError(f'criterion={criterion!r} must be "loo" or "lscv"')
    X = validate.vectors(X)
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
    X, _, w, _ = validate.canonical(X, np.zeros(len(X)), validate.sample_weight(sample_weight, len(X)))
    if len(X) < 2:
        raise ValueError("bandwidth_scores leaves a row out, but all rows of X are equal")
    shape, X = shape_of(kernel), X - X.mean(axis=0)
    return np.array([_score(X, w, root_of(h, X.shape[1]), criterion, shape, form) for h in bandwidths])


def _score(X, w, root, criterion, shape, form):
    Z, volume = divided(X, root), log_volume(root)
    if criterion == "lscv":
        return lscv_objective(Z, w, shape, form, False)[0] * math.exp(-volume)
    return float(np.average(loo_log_density(Z, w, shape, form), weights=w)) - volume

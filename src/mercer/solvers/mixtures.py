"""One-dimensional mixtures of windows, one for each row (M17, M19): moments, distribution, quantiles, draws.

Row i is the density sum_k w_ik window((t - m_ik) / s_ik) / s_ik; a scale of 0 is a point mass.
"""

import math

import numpy as np
from scipy import special

from mercer.solvers.windows import SHAPES, Shape

__all__ = ["RowMixtures"]

_SLACK = 8.0 * np.finfo(np.float64).eps  # rounding of a distribution function, relative to the smaller of its tails
_ENTRIES = 500_000  # of one array, where many values are asked for
_LOGS = {"gaussian": lambda u: -0.5 * u * u, "exponential": lambda u: -np.abs(u)}
_TAILS = {"gaussian": lambda u: special.ndtr(-u), "exponential": lambda u: 0.5 * np.exp(-u)}
_INVERSES = {
    "gaussian": special.ndtri,
    "exponential": lambda p: math.copysign(math.log(2.0 * min(p, 1.0 - p)), p - 0.5),
}


class RowMixtures:
    """Mixtures (m,) of K windows: weights (m, K) with rows that sum to 1, means and scales that broadcast to (m, K).

    Feed it tiles of rows: a few arrays of the size of `weights` are made on the way.
    """

    def __init__(self, weights, means, scales, shape: Shape | None = None):
        self.weights = np.asarray(weights, np.float64)
        self.means = np.broadcast_to(np.asarray(means, np.float64), self.weights.shape)
        self.scales = np.broadcast_to(np.asarray(scales, np.float64), self.weights.shape)
        self.shape = SHAPES["gaussian"] if shape is None else shape
        self._constant = math.exp(self.shape.log_constant(1))

    def __len__(self):
        return len(self.weights)

    def mean(self) -> np.ndarray:
        """Means (m,)."""
        return (self.weights * self.means).sum(axis=1)

    def variance(self) -> np.ndarray:
        """Variances (m,): those inside the windows and that of their centres."""
        around = self.means - self.mean()[:, None]
        return (self.weights * (self.scales**2 * self.shape.variance(1) + around**2)).sum(axis=1)

    # ------------------------------------------------------------------------------------ at a value
    def cdf(self, t) -> np.ndarray:
        """P(T <= t); t a number, (m,) or (m, q), and the answer (m,) or (m, q)."""
        return self._each(t, lambda rows, t: self._tails(rows, t)[0])

    def log_density(self, t) -> np.ndarray:
        """log p(t), -inf outside all windows; t as for `cdf`. Point masses have no density."""
        if not self.scales.all():
            raise ValueError("a mixture with point masses (scales of 0) has no density; give scales above 0")
        return self._each(t, self._log_density)

    def _each(self, t, function):
        """function(rows, t) of numbers of rows and values, for all values of all rows, some columns at a time."""
        t = np.asarray(t, np.float64)
        if t.ndim < 2:
            return function(np.arange(len(self)), np.broadcast_to(t, (len(self),)))
        out, step = np.empty(t.shape), max(1, _ENTRIES // max(self.weights.size, 1))
        for j in range(0, t.shape[1], step):
            some = t[:, j : j + step]
            rows = np.repeat(np.arange(len(self)), some.shape[1])
            out[:, j : j + step] = function(rows, some.ravel()).reshape(some.shape)
        return out

    def _log_density(self, rows, t):
        with np.errstate(divide="ignore", over="ignore"):
            u = (t[:, None] - self.means[rows]) / self.scales[rows]
            log = _LOGS.get(self.shape.name, lambda u: np.log(self.shape.value(u * u)))(u) - np.log(self.scales[rows])
            return special.logsumexp(log, b=self.weights[rows], axis=1) + self.shape.log_constant(1)

    def _standard(self, rows, t):
        """(t - mean) / scale of some rows; infinite for point masses, which t itself has passed."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            u = (t[:, None] - self.means[rows]) / self.scales[rows]
        u[np.isnan(u)] = np.inf
        return u

    def _tails(self, rows, t):
        """P(T <= t) and P(T > t) of some rows, each exact also where it is small."""
        u = self._standard(rows, t)
        tail = _TAILS.get(self.shape.name, lambda u: 0.5 - 0.5 * self.shape.half(u))(np.abs(u))
        below = np.where(u < 0.0, tail, 1.0 - tail)
        above = np.where(u < 0.0, 1.0 - tail, tail)
        return (self.weights[rows] * below).sum(axis=1), (self.weights[rows] * above).sum(axis=1)

    def _density(self, rows, t):
        """The density of some rows, without their point masses."""
        with np.errstate(divide="ignore", over="ignore"):
            scaled = np.where(self.scales[rows] > 0.0, self.weights[rows] / self.scales[rows], 0.0)
        value = self.shape.value(np.minimum(np.abs(self._standard(rows, t)), 1e150) ** 2)
        return self._constant * (scaled * value).sum(axis=1)

    # ------------------------------------------------------------------------------------ quantiles
    def quantile(self, p) -> np.ndarray:
        """The smallest t with P(T <= t) >= p, (m, len(p)); p = 0 and p = 1 are the ends of the windows."""
        levels = np.atleast_1d(np.asarray(p, np.float64))
        out = np.empty((len(self), len(levels)))
        for j, level in enumerate(levels.tolist()):
            out[:, j] = self._quantile(level)
        return out

    def _quantile(self, p):
        low, high = self._bracket(p)
        if not self.scales.all() and 0.0 < p < 1.0:
            low, high = self._between_masses(p, low, high)
        rows, t, length = np.flatnonzero(low < high), 0.5 * low + 0.5 * high, np.full(len(low), np.inf)
        while len(rows):
            a, b, x = low[rows], high[rows], t[rows]
            excess, reached = self._excess(rows, x, p)
            f = self._density(rows, x)
            a, b = np.where(reached, a, x), np.where(reached, x, b)
            near = (f > 0.0) & (np.abs(excess) <= 0.5 * _SLACK * (f * np.abs(x) + min(p, 1.0 - p)))
            low[rows], high[rows] = a, np.where(near, x, b)
            t[rows], length[rows], middle = _next_try(a, b, x, excess, f, length[rows])
            rows = rows[~near & (middle > a) & (middle < b)]
        return high

    def _excess(self, rows, t, p):
        """P(T <= t) - p from the smaller tail, and whether t has reached p up to rounding."""
        below, above = self._tails(rows, t)
        excess = below - p if p <= 0.5 else (1.0 - p) - above
        return excess, excess >= -_SLACK * min(p, 1.0 - p)

    def _bracket(self, p):
        """Ends between which the quantile lies: the smallest and the largest of those of the windows."""
        reach = self.shape.reach
        z = (-reach, reach) if math.isfinite(reach) else (_INVERSES[self.shape.name](p),) * 2 if 0.0 < p < 1.0 else None
        below, above = z if z is not None else ((-reach, -reach) if p == 0.0 else (reach, reach))
        there = self.weights > 0.0
        with np.errstate(invalid="ignore"):
            low = np.where(self.scales > 0.0, self.means + below * self.scales, self.means)
            high = np.where(self.scales > 0.0, self.means + above * self.scales, self.means)
        low, high = np.where(there, low, np.inf).min(axis=1), np.where(there, high, -np.inf).max(axis=1)
        return (low, low.copy()) if p == 0.0 else (high.copy(), high) if p == 1.0 else (low, high)

    def _between_masses(self, p, low, high):
        """The bracket cut to the gap between two point masses, or closed where the quantile is one of them."""
        masses = np.sort(np.where((self.scales == 0.0) & (self.weights > 0.0), self.means, np.inf), axis=1)
        rows, count = np.arange(len(self)), np.isfinite(masses).sum(axis=1)
        first, last = np.zeros(len(self), np.intp), count.copy()  # the first mass at which p is reached lies between
        while (open_ := first < last).any():
            j = (first + last) // 2
            reached = self._excess(rows, masses[rows, np.minimum(j, masses.shape[1] - 1)], p)[1]
            first, last = np.where(open_ & ~reached, j + 1, first), np.where(open_ & reached, j, last)
        before = np.where(first > 0, masses[rows, np.maximum(first - 1, 0)], -np.inf)
        here = np.where(first < count, masses[rows, np.minimum(first, masses.shape[1] - 1)], np.inf)
        with np.errstate(invalid="ignore"):
            just_below = self._excess(rows, np.nextafter(here, -np.inf), p)[1] & (first < count)
        closed = (first < count) & ~just_below
        low, high = np.where(closed, here, np.maximum(low, before)), np.where(closed, here, np.minimum(high, here))
        return low, high

    # ------------------------------------------------------------------------------------ draws
    def sample(self, rng, n: int) -> np.ndarray:
        """Exact draws (m, n) by a Generator."""
        m, K = self.weights.shape
        total = np.cumsum(self.weights, axis=1)
        last = K - 1 - np.argmax(self.weights[:, ::-1] > 0.0, axis=1)
        u = rng.random((m, n)) * total[:, -1:]
        chosen = np.empty((m, n), np.intp)
        for i in range(m):  # a weight of 0 leaves its sum as it was, so that it is never the first above
            chosen[i] = np.minimum(np.searchsorted(total[i], u[i], side="right"), last[i])
        noise = self.shape.draw(rng, m * n, 1).reshape(m, n)
        rows = np.arange(m)[:, None]
        return self.means[rows, chosen] + self.scales[rows, chosen] * noise


def _next_try(a, b, x, excess, f, length):
    """Newton's step where it stays inside and has less than half the length of the last one, else the middle, also given."""
    middle = _middle(a, b)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        newton = x - excess / f
    good = (newton > a) & (newton < b) & (np.abs(newton - x) < 0.5 * length)
    return np.where(good, newton, middle), np.where(good, np.abs(newton - x), np.inf), middle


def _ordered(x):
    """Numbers as integers in the same order, neighbours one apart."""
    bits = (x + 0.0).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _middle(a, b):
    """Half of the floats between a and b on either side: at most 64 halvings, whatever the scales."""
    i, j = _ordered(a), _ordered(b)
    k = (i & j) + ((i ^ j) >> 1)  # the mean without overflow
    return np.where(k < 0, np.int64(-(2**63)) - k, k).astype(np.int64).view(np.float64)

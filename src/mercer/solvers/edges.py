"""Densities on a part of the line (M14): reflection at bounds, and windows that never leave it."""

import itertools
import math

import numpy as np
from scipy import special

from mercer.solvers.windows import Shape
from mercer.threads import map_tiles

__all__ = ["Bounds", "EdgeDensity"]

_IMAGES = 4096  # of one query, beyond which reflection is refused
_TILE = 2**18
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)


class Bounds:
    """An interval for each column, open ends infinite. Outside there is no density; what would be there is reflected.

    The reflected density at x is the sum of the plain one over all images of x, which is the density of a folded draw.
    """

    def __init__(self, low, high):
        self.low, self.high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        self.width = self.high - self.low

    def inside(self, X):
        """Which rows are within."""
        return ((X >= self.low) & (X <= self.high)).all(axis=1)

    def maps(self, shape: Shape, scale):
        """For each column (sign, offset) of the images that windows of these scales can tell from nothing."""
        found = [self._column(j, shape, scale[j]) for j in range(len(self.low))]
        if math.prod(map(len, found)) > _IMAGES:
            raise ValueError(
                f"bounds={np.stack([self.low, self.high], 1).tolist()}: windows as wide as bandwidth={np.max(scale):.3g} are "
                f"reflected more than {_IMAGES} times; use a smaller bandwidth or bounds on fewer columns"
            )
        return found

    def _column(self, j, shape, h):
        low, high, width = self.low[j], self.high[j], self.width[j]
        if not np.isfinite(low) and not np.isfinite(high):
            return [(1.0, 0.0)]
        if not np.isfinite(width):
            return [(1.0, 0.0), (-1.0, 2.0 * (low if np.isfinite(low) else high))]
        m = _rounds(shape, min(h / width, _IMAGES))
        shifts = [(1.0, 2.0 * k * width) for k in range(-m, m + 1)]
        return shifts + [(-1.0, 2.0 * low + 2.0 * k * width) for k in range(-m, m + 2)]

    @staticmethod
    def images(X, maps):
        """The images of the rows, one array after the other."""
        for chosen in itertools.product(*maps):
            sign, offset = np.array(chosen).T
            yield X * sign + offset

    def fold(self, X):
        """Draws reflected until they are within."""
        X = X.copy()
        for j, (low, high, width) in enumerate(zip(self.low, self.high, self.width, strict=True)):
            if np.isfinite(width):
                u = np.mod(X[:, j] - low, 2.0 * width)
                X[:, j] = np.clip(low + np.minimum(u, 2.0 * width - u), low, high)
            elif np.isfinite(low):
                X[:, j] = low + np.abs(X[:, j] - low)
            elif np.isfinite(high):
                X[:, j] = high - np.abs(X[:, j] - high)
        return X

    def cdf(self, j, x, maps, cdf):
        """Distribution function of a folded column, from that of the plain one."""
        low, high, width = self.low[j], self.high[j], self.width[j]
        x = np.clip(x, low, high)
        if np.isfinite(width):
            shifts = [offset for sign, offset in maps[j] if sign > 0]
            return sum(cdf(x + o) - cdf(2.0 * low - x + o) for o in shifts)
        if np.isfinite(low):
            return cdf(x) - cdf(2.0 * low - x)
        return cdf(x) + 1.0 - cdf(2.0 * high - x) if np.isfinite(high) else cdf(x)


def _rounds(shape, ratio):
    """How many times a window of so many widths of the interval goes round it, until what is left is below rounding."""
    if shape.name == "gaussian":
        return int((1.0 + math.sqrt(1.0 + 74.0 * ratio**2)) / 2.0)
    if shape.name == "exponential":
        return int(1.0 + 18.5 * ratio)
    return int((1.0 + shape.reach * ratio) / 2.0)


class EdgeDensity:
    """Beta windows on an interval and gamma windows on a half line (Chen 1999, 2000), scaled so that the integral is 1.

    At x stands the density of Beta(x/b + 1, (1-x)/b + 1), or of Gamma(x/b + 1, b), and is asked for its value at the rows. As a
    function of x that is log-concave, which makes exact draws easy; its integral, near 1, is `mass`.
    """

    def __init__(self, x, weights, b, low, high):
        self.b, self.low, self.high = float(b), float(low), float(high)
        self.beta = math.isfinite(low) and math.isfinite(high)
        self.U, self.weights = self._unit(x), weights
        with np.errstate(divide="ignore"):
            self.log_u, self.log_v = np.log(self.U), np.log1p(-self.U) if self.beta else None
        self.edges = self._edges()
        self.mass = self._masses()
        self.total = float(self.weights @ self.mass)
        if not self.total > 0:
            raise ValueError(f"bounds={[low, high]}: all rows lie on a bound, where windows of this kind have no mass")

    used = property(lambda self: "beta windows" if self.beta else "gamma windows")

    def explain(self, rtol=0.0, atol=0.0) -> str:
        """How windows are summed."""
        return f"{self.used}, all pairs"

    def _unit(self, x):
        if self.beta:
            return (x - self.low) / (self.high - self.low)
        return x - self.low if math.isfinite(self.low) else self.high - x

    @property
    def _stretch(self):
        return self.high - self.low if self.beta else 1.0

    # ------------------------------------------------------------------------------------ the windows
    def _terms(self, u):
        """log K_u(U_i) (m, n) at points u (m,)."""
        b, t = self.b, u[:, None] / self.b
        with np.errstate(invalid="ignore"):
            if self.beta:
                s = (1.0 - u)[:, None] / b
                e = t * self.log_u + s * self.log_v - special.betaln(t + 1.0, s + 1.0)
            else:
                e = t * self.log_u - self.U / b - (t + 1.0) * math.log(b) - special.gammaln(t + 1.0)
        return np.nan_to_num(e, nan=0.0, posinf=np.inf, neginf=-np.inf) if np.isnan(e).any() else e  # 0^0 is 1

    def _edges(self):
        """Panels fine enough for windows near the bounds, where they are b wide, and inside, where they are sqrt(b) wide."""
        b = self.b
        top = 0.5 if self.beta else self.U.max() + 12.0 * math.sqrt(b * self.U.max()) + 40.0 * b
        edges, width = [0.0], b / 64.0
        while edges[-1] < top:
            u = edges[-1]
            width = min(1.5 * width, max(b / 4.0, 0.5 * math.sqrt(b * u * (1.0 - u if self.beta else 1.0))))
            edges.append(min(u + width, top))
        half = np.array(edges)
        return np.concatenate([half, 1.0 - half[-2::-1]]) if self.beta else half

    def _quadrature(self):
        low, high = self.edges[:-1, None], self.edges[1:, None]
        return (low + 0.5 * (high - low) * (_NODES + 1.0)).ravel(), (0.5 * (high - low) * _WEIGHTS).ravel()

    def _masses(self):
        u, q = self._quadrature()
        step = max(1, _TILE // len(self.U))

        def job(i):
            some = slice(i * step, (i + 1) * step)
            return q[some] @ np.exp(self._terms(u[some]))

        parts = map_tiles(job, -(-len(u) // step))
        return np.sum(parts, axis=0)

    # ------------------------------------------------------------------------------------ answers
    def log_density(self, X, rtol=0.0, atol=0.0):
        """Logarithm of the density; -inf outside."""
        u = self._unit(np.asarray(X, np.float64)[:, 0])
        inside = (u >= 0) & (u <= (1.0 if self.beta else np.inf))
        out = np.full(len(u), -np.inf)
        out[inside] = self._log_sum(u[inside]) - math.log(self.total * self._stretch)
        return out

    def _log_sum(self, u):
        step = max(1, _TILE // len(self.U))

        def job(i):
            return special.logsumexp(self._terms(u[i * step : (i + 1) * step]), axis=1, b=self.weights)

        return np.concatenate([np.empty(0), *map_tiles(job, -(-len(u) // step))])

    def log_terms(self, X):
        """Logarithm of each row's window, of integral 1, and of its share of the mass beside its weight."""
        u = self._unit(np.asarray(X, np.float64)[:, 0])
        with np.errstate(divide="ignore"):
            return self._terms(u) - np.log(self.mass) - math.log(self._stretch), np.log(self.mass)

    def cdf(self, X):
        """Distribution function: whole panels, and the part of one."""
        u = np.clip(self._unit(np.asarray(X, np.float64)[:, 0]), 0.0, self.edges[-1])
        nodes, q = self._quadrature()
        f = q * np.exp(self._log_sum(nodes))
        before = np.concatenate([[0.0], np.cumsum(f.reshape(-1, len(_NODES)).sum(axis=1))])
        k = np.clip(np.searchsorted(self.edges, u, side="right") - 1, 0, len(self.edges) - 2)
        width = u - self.edges[k]
        inner = np.exp(self._log_sum((self.edges[k, None] + 0.5 * width[:, None] * (_NODES + 1.0)).ravel()))
        found = (before[k] + 0.5 * width * (inner.reshape(-1, len(_NODES)) @ _WEIGHTS)) / before[-1]
        return found if math.isfinite(self.low) else 1.0 - found

    def support(self):
        """Ends of the density."""
        return self.low, self.high

    def bracket(self):
        """Finite ends between which quantiles lie, to rounding."""
        top = float(self.edges[-1]) * self._stretch
        return (self.low, self.low + top) if math.isfinite(self.low) else (self.high - top, self.high)

    def draw(self, rng, n):
        """Exact draws by rejection: a log-concave density f with mode m lies below f(m) min(1, exp(1 - f(m) |x - m|))."""
        share = self.weights * self.mass
        rows = rng.choice(len(self.U), n, p=share / share.sum())
        mode = self._modes(self.U[rows])
        peak = np.exp(self._own_terms(mode, rows)) / self.mass[rows]
        out, left = np.empty(n), np.arange(n)
        while len(left):
            u, height = _hat(rng, mode[left], peak[left])
            inside = (u >= 0) & (u <= (1.0 if self.beta else np.inf))
            value = np.zeros(len(left))
            value[inside] = np.exp(self._own_terms(u[inside], rows[left[inside]])) / self.mass[rows[left[inside]]]
            kept = height * rng.random(len(left)) <= value
            out[left[kept]] = u[kept]
            left = left[~kept]
        x = out * self._stretch
        return (self.low + x if math.isfinite(self.low) else self.high - x)[:, None]

    def _own_terms(self, u, rows):
        t = u / self.b
        if self.beta:
            s = (1.0 - u) / self.b
            return t * self.log_u[rows] + s * self.log_v[rows] - special.betaln(t + 1.0, s + 1.0)
        return t * self.log_u[rows] - self.U[rows] / self.b - (t + 1.0) * math.log(self.b) - special.gammaln(t + 1.0)

    def _modes(self, U):
        """Where x -> K_x(U) is highest: a bisection on the derivative of its logarithm, which falls."""
        low, high = np.zeros(len(U)), np.full(len(U), float(self.edges[-1]))
        with np.errstate(divide="ignore"):
            goal = special.logit(U) if self.beta else np.log(U / self.b)
        for _ in range(60):
            mid = 0.5 * (low + high)
            slope = special.digamma(mid / self.b + 1.0)
            slope = slope - special.digamma((1.0 - mid) / self.b + 1.0) if self.beta else slope
            low, high = np.where(slope < goal, mid, low), np.where(slope < goal, high, mid)
        return 0.5 * (low + high)


def _hat(rng, mode, peak):
    """Draws below the hat of a log-concave density, and the heights of the hat there: a box with an exponential on each side."""
    far = rng.random(len(mode)) < 0.5
    r = np.where(far, 1.0 + rng.exponential(size=len(mode)), rng.random(len(mode)))
    return mode + rng.choice([-1.0, 1.0], len(mode)) * r / peak, peak * np.minimum(1.0, np.exp(1.0 - r))

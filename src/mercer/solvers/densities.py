"""Density estimates of whole rows (M14): windows of any bandwidth, reflected at bounds, beside categories."""

import math

import numpy as np
from scipy import special

from mercer.solvers.bandwidths import divided, log_volume
from mercer.solvers.criteria import log_value, squares
from mercer.solvers.edges import Bounds
from mercer.solvers.parzen import parzen
from mercer.solvers.windows import Shape
from mercer.threads import map_tiles

__all__ = ["MixedDensity", "WindowDensity", "left_out", "shrinkage"]

_TILE = 2**18
_LARGEST = 1e150  # beyond it squares overflow


class WindowDensity:
    """Windows around rows X (n, d), of bandwidth L (`root`) times a factor for each row, reflected at bounds."""

    maps: list = []

    def __init__(self, X, weights, root, shape: Shape, form="radial", factors=None, algorithm="auto", bounds=None,
                 engine=None):  # fmt: skip
        self.X, self.weights, self.root, self.shape, self.form, self.factors = X, weights, root, shape, form, factors
        self.centre = np.mean(X, axis=0, dtype=np.float64)
        self.bounds: Bounds | None = bounds
        equal = np.ptp(weights) == 0
        self.windows = parzen(self._divided(X), None if equal else weights, shape, form, factors, algorithm, engine)
        self.volume = log_volume(root)
        if bounds is not None:
            self.maps = bounds.maps(shape, self._scales())

    @property
    def used(self):
        return "windows"

    def explain(self, rtol=0.0, atol=0.0) -> str:
        """How windows are summed."""
        return self.windows.explain(rtol=rtol, atol=atol)

    def _divided(self, X):
        Z = divided(np.asarray(X, np.float64) - self.centre, self.root)
        if Z.size and not np.abs(Z).max() < _LARGEST:
            raise ValueError(f"X divided by bandwidth reaches {np.abs(Z).max():.3g}, whose square overflows; rescale X")
        return Z

    def _scales(self):
        scales = self.root if self.root.ndim == 1 else np.sqrt(np.square(self.root).sum(axis=1))
        return scales * (1.0 if self.factors is None else self.factors.max())

    # ------------------------------------------------------------------------------------ answers
    def log_density(self, X, rtol=0.0, atol=0.0) -> np.ndarray:
        """Logarithm of the density at the rows of X; -inf where no window reaches and outside the bounds."""
        X = np.asarray(X, np.float64)
        unit = math.exp(min(self.volume, 700.0))  # atol is meant for the density before the bandwidth was divided out
        if self.bounds is None:
            return self.windows.log_density(self._divided(X), rtol=rtol, atol=atol * unit) - self.volume
        out, inside = np.full(len(X), -np.inf), self.bounds.inside(X)
        shares = math.prod(len(m) for m in self.maps)
        for image in Bounds.images(X[inside], self.maps):
            found = self._at(image, rtol, atol * unit / shares)
            out[inside] = np.logaddexp(out[inside], found - self.volume)
        return out

    def _at(self, X, rtol, atol):
        """Of images, only those that a window that ends can reach."""
        found, near = np.full(len(X), -np.inf), np.ones(len(X), bool)
        if math.isfinite(self.shape.reach):
            room = self._scales() * self.shape.reach * (math.sqrt(X.shape[1]) if self.form == "product" else 1.0)
            near = ((X >= self.X.min(axis=0) - room) & (X <= self.X.max(axis=0) + room)).all(axis=1)
        if near.any():
            found[near] = self.windows.log_density(self._divided(X[near]), rtol=rtol, atol=atol)
        return found

    def nearest(self, X) -> np.ndarray:
        """Squared distance to the nearest row in units of the bandwidth."""
        A, B = self._divided(X), self._divided(self.X)
        step = max(1, _TILE // len(B))
        tiles = [squares(A[i : i + step], B, "radial").min(axis=1) for i in range(0, len(A), step)]
        return np.concatenate(tiles)

    def log_terms(self, X):
        """Logarithms of the window of each row at the rows of X (m, n), and 0: every window has the mass of its weight."""
        X = np.asarray(X, np.float64)
        if self.bounds is None:
            return self._pairs(X), 0.0
        e = np.full((len(X), len(self.X)), -np.inf)
        for image in Bounds.images(X, self.maps):
            e = np.logaddexp(e, self._pairs(image))
        e[~self.bounds.inside(X)] = -np.inf
        return e, 0.0

    def _pairs(self, X):
        A, B = self._divided(X), self._divided(self.X)
        d = A.shape[1]
        f = 1.0 if self.factors is None else self.factors
        constant = self.shape.log_constant(d, self.form) - self.volume - d * np.log(f)
        with np.errstate(divide="ignore"):
            each = [np.square((a[:, None] - b) / f) for a, b in zip(A.T, B.T, strict=True)]
            if self.form == "product":
                return sum(log_value(self.shape, s) for s in each) + constant
            return log_value(self.shape, sum(each)) + constant

    def cdf(self, X) -> np.ndarray:
        """Distribution function, where the windows are products over the columns."""
        X = np.asarray(X, np.float64)
        n, d = self.X.shape
        step = max(1, _TILE // n)

        def job(i):
            Q = X[i * step : (i + 1) * step]
            parts = [self._column_cdf(j, Q[:, j]) for j in range(d)]
            return math.prod(parts) @ self.weights

        return np.clip(np.concatenate(map_tiles(job, -(-len(X) // step))), 0.0, 1.0)

    def _column_cdf(self, j, x):
        """Mass of each row's window below x in one column (m, n)."""
        h = (self.root[j] if self.root.ndim == 1 else self.root[j, j]) * (1.0 if self.factors is None else self.factors)
        x, own = x[:, None], np.asarray(self.X[:, j], np.float64)

        def plain(t):
            return self.shape.cdf((t - own) / h)

        return plain(x) if self.bounds is None else self.bounds.cdf(j, x, self.maps, plain)

    def support(self):
        """Ends of the density of one column; infinite where windows do not end and there is no bound."""
        x, room = np.asarray(self.X[:, 0], np.float64), self.shape.reach * self.root.item()
        room = room * (1.0 if self.factors is None else self.factors)
        low, high = float((x - room).min()), float((x + room).max())
        return (low, high) if self.bounds is None else (max(low, self.bounds.low[0]), min(high, self.bounds.high[0]))

    def bracket(self):
        """Finite ends between which quantiles of one column lie, to rounding."""
        low, high = self.support()
        room = 40.0 * float(self._scales()[0])
        low = low if math.isfinite(low) else float(self.X.min()) - room
        return low, high if math.isfinite(high) else float(self.X.max()) + room

    def draw(self, rng, n) -> np.ndarray:
        """n exact draws."""
        return self.draw_around(rng, rng.choice(len(self.X), n, p=self.weights))

    def draw_around(self, rng, rows):
        steps = self.shape.draw(rng, len(rows), self.X.shape[1], self.form)
        steps = steps * self.root if self.root.ndim == 1 else steps @ self.root.T
        steps = steps if self.factors is None else steps * self.factors[rows, None]
        X = np.asarray(self.X[rows], np.float64) + steps
        return X if self.bounds is None else self.bounds.fold(X)


class MixedDensity:
    """Windows on some columns times Aitchison & Aitken's (1976) on categories: 1 - s at the row's own, s / (c - 1) elsewhere.

    Rows are put into cells of equal categories; each cell is a density of its own, and a query mixes them.
    """

    def __init__(self, X, weights, categorical, smoothing, make):
        """`make(rows, weights)` is the density of the other columns of these rows; None where there are none."""
        self.weights, self.categorical, self.smoothing = weights, categorical, smoothing
        self.continuous = np.setdiff1d(np.arange(X.shape[1]), categorical)
        self.codes = np.asarray(X[:, categorical], np.float64)
        self.levels = [np.unique(c) for c in self.codes.T]
        self.cells, self.cell_of = np.unique(self.codes, axis=0, return_inverse=True)
        self.cell_of = self.cell_of.ravel()
        self.cell_weights = np.bincount(self.cell_of, weights)
        self.parts = None
        if len(self.continuous):
            groups = [np.flatnonzero(self.cell_of == g) for g in range(len(self.cells))]
            self.parts = [make(rows, weights[rows] / weights[rows].sum()) for rows in groups]
            self.whole = make(np.arange(len(X)), weights)

    used = "cells of categories"

    def explain(self, rtol=0.0, atol=0.0) -> str:
        """How many cells there are, and how windows are summed."""
        said = f"{len(self.cells)} cells of equal categories"
        return said if self.parts is None else f"{said}; {self.parts[0].explain(rtol, atol)}"

    def _log_categories(self, codes, cells):
        """Logarithm of the windows of the categories (m, g); -inf for categories that were not there in fit."""
        out = np.zeros((len(codes), len(cells)))
        with np.errstate(divide="ignore"):
            for k, (levels, s) in enumerate(zip(self.levels, self.smoothing, strict=True)):
                other = np.log(s / (len(levels) - 1)) if len(levels) > 1 else -np.inf
                same = codes[:, k, None] == cells[:, k]
                out += np.where(same, np.log1p(-s), other)
                out[~np.isin(codes[:, k], levels)] = -np.inf
        return out

    def log_density(self, X, rtol=0.0, atol=0.0) -> np.ndarray:
        """Logarithm of the joint density: of the continuous columns a density, of the categories a probability."""
        step = max(1, _TILE // len(self.cells))
        tiles = [self._tile(X[i : i + step], rtol, atol) for i in range(0, len(X), step)]
        return np.concatenate(tiles)

    def _tile(self, X, rtol, atol):
        e = self._log_categories(np.asarray(X[:, self.categorical], np.float64), self.cells) + np.log(self.cell_weights)
        if self.parts is not None:
            for g, part in enumerate(self.parts):
                asked = np.flatnonzero(e[:, g] > -np.inf)
                if len(asked):
                    e[asked, g] += part.log_density(X[asked][:, self.continuous], rtol=rtol, atol=atol)
        return special.logsumexp(e, axis=1)

    def log_terms(self, X):
        e = self._log_categories(np.asarray(X[:, self.categorical], np.float64), self.codes)
        if self.parts is not None:
            e = e + self.whole.log_terms(X[:, self.continuous])[0]
        return e, 0.0

    def draw(self, rng, n) -> np.ndarray:
        """n exact draws: a row, a draw from its window, and with probability s another category."""
        rows = rng.choice(len(self.codes), n, p=self.weights)
        X = np.empty((n, len(self.categorical) + len(self.continuous)))
        if self.parts is not None:
            X[:, self.continuous] = self.whole.draw_around(rng, rows)
        for k, (levels, s) in enumerate(zip(self.levels, self.smoothing, strict=True)):
            own = np.searchsorted(levels, self.codes[rows, k])
            moved = (own + rng.integers(1, max(len(levels), 2), n)) % len(levels)
            X[:, self.categorical[k]] = levels[np.where(rng.random(n) < s, moved, own)]
        return X


def left_out(density, X, factors, total) -> np.ndarray:
    """log f_{-i}(x_i) of the rows that a density was made of, each by the windows of the others; -inf where none is near.

    total: the sum of the weights, which count rows; equal rows with equal factors are one with the sum of their weights.
    """
    n, like = len(X), X if factors is None else np.column_stack([X, factors])
    same = np.unique(like, axis=0, return_inverse=True)[1].ravel()
    counts = total * np.bincount(same, density.weights)[same]
    kept = np.maximum(1.0 - 1.0 / counts, 0.0)  # of a row and those equal to it
    step = max(1, _TILE // n)
    log_w = np.log(density.weights)

    def job(i):
        tile = slice(i * step, min((i + 1) * step, n))
        e, log_mass = density.log_terms(X[tile])
        share = np.where(same[tile][:, None] == same, kept[tile, None], 1.0)
        with np.errstate(divide="ignore"):
            mass = np.log(share @ np.broadcast_to(np.exp(log_w + log_mass), n))
            return special.logsumexp(e + log_w + log_mass, axis=1, b=share) - mass

    return np.concatenate(map_tiles(job, -(-n // step)))


def shrinkage(codes, counts, size) -> np.ndarray:
    """Smoothing of each column of categories: the least expected squared error of shares shrunk to equal ones.

    In closed form by Hausser & Strimmer (2009); a share shrunk by t has s = t (c - 1) / c.
    """
    found = []
    for column in codes.T:
        shares = np.bincount(np.unique(column, return_inverse=True)[1].ravel(), counts) / size
        c = len(shares)
        away = float(np.square(shares - 1.0 / c).sum())
        t = 1.0 if away == 0 or size <= 1 else min(1.0, (1.0 - float(np.square(shares).sum())) / ((size - 1) * away))
        found.append(t * (c - 1) / c)
    return np.array(found)

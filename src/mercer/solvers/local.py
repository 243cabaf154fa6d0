"""Local polynomials (M17, M18): weighted least squares about each query, with a window for the weights.

Rows are whitened first (`Whitening`), so that windows have unit bandwidth. The local polynomial stands about the query. Where
its moments can hardly be solved with, they are taken again about the mean of the rows in the window, in units of their
spread; what the rows there cannot tell apart is left out, the highest degree first.
"""

import math
import warnings
from copy import copy
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from mercer.errors import NumericalWarning
from mercer.solvers.bandwidths import count_of, divided, root_of
from mercer.solvers.boxes import build
from mercer.solvers.windows import SHAPES, Shape, log_sphere
from mercer.threads import map_tiles

__all__ = [
    "Local",
    "Smoother",
    "Whitening",
    "neighbour_radius",
    "normal_reference",
    "robustness",
    "spreads",
    "warn_degraded",
]

CODES = ("gaussian", "exponential", "boxcar", "triangular", "epanechnikov", "biweight", "tricube", "cosine")

_LEAF = 64  # rows of a leaf
_PAIRS = 2**23  # pairs of a job: some hundredths of a second
_HELD = 2**23  # numbers that the moments of some queries have
_CAREFUL = 2**15  # numbers in the systems of a job that are solved by eigenvalues
_DOUBTFUL = 1e-5  # pivots from which on 1e-16 / pivot is an error to mend
_UNSEEN = 1e-8  # of the variance of a monomial: with less, coefficients would have an error of more than 1e-8
_FEW = 256  # neighbours up to which a tree is faster than all distances
_LARGE = 1e150  # whitened rows whose squares overflow
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a Gaussian


# ------------------------------------------------------------------------------------------------ bandwidths
class Whitening:
    """z = L^-1 (x - origin), L L^T the matrix that a bandwidth means: h^2 I for a scalar, diag(h^2) for one per column.

    >>> Whitening(2.0, np.zeros((1, 2))).apply(np.array([[1.0, 4.0]])).tolist()
    [[0.5, 2.0]]
    """

    def __init__(self, bandwidth, X):
        self.root = root_of(bandwidth, X.shape[1])
        self.origin = np.median(X[: 2**16].astype(np.float64), axis=0)

    def apply(self, X) -> np.ndarray:
        """Whitened rows, float64."""
        with np.errstate(over="ignore", invalid="ignore"):
            Z = divided(np.asarray(X, np.float64) - self.origin, self.root)
        if not np.abs(Z).max(initial=0.0) < _LARGE:
            raise ValueError("X is so large against the bandwidth that squared distances overflow; rescale it")
        return np.ascontiguousarray(Z)

    def gradient(self, slopes) -> np.ndarray:
        """Slopes (m, d, t) in z as slopes in x: the transposed inverse root."""
        if self.root.ndim == 1:
            return slopes / self.root[:, None]
        return np.linalg.inv(self.root).T @ slopes


def _median(values, weight):
    """Weighted median; with whole-numbered weights, that of repeated values."""
    order = np.argsort(values, kind="stable")
    values, total = values[order], np.cumsum(weight[order])
    half = 0.5 * total[-1]
    low = np.searchsorted(total, half * (1 - 1e-12))
    high = np.searchsorted(total, half * (1 + 1e-12), side="right")
    return 0.5 * values[low] + 0.5 * values[min(high, len(values) - 1)]


def spreads(X, weight=None, called=str) -> np.ndarray:
    """1.4826 times the median absolute deviation of each column; its standard deviation, with a warning, where that is 0."""
    X = np.asarray(X, np.float64)
    weight = np.ones(len(X)) if weight is None else weight
    deviations = X - np.array([_median(x, weight) for x in X.T])
    found = _NORMAL * np.array([_median(np.abs(x), weight) for x in deviations.T])
    zero = np.flatnonzero(found == 0.0)
    if not len(zero):
        return found
    size = np.maximum(np.abs(deviations[:, zero]).max(axis=0), np.finfo(np.float64).tiny)
    scaled = deviations[:, zero] / size  # squares of tiny numbers would be 0
    mean = np.average(scaled, axis=0, weights=weight)
    found[zero] = size * np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weight))
    lost = [called(j) for j in zero if found[j] > 0.0]
    if lost:
        warnings.warn(
            f"over half of {', '.join(lost)} are equal, so that the median absolute deviation is 0; the standard deviation takes "
            "its place",
            NumericalWarning,
            stacklevel=4,
        )
    return found


def normal_reference(X, shape: Shape, form="radial", weight=None, called=None) -> np.ndarray:
    """Bandwidth of each column (M15): (4 / ((d + 2) n))^(1 / (d + 4)) times the spread, n the sum of the weights.

    That is the Gaussian's; other windows have the one at which they smooth as much.
    """
    if len(X) < 2:
        raise ValueError("a bandwidth by word needs rows that differ, got n_samples=1; pass a number as bandwidth")
    n, d = count_of(weight, len(X)), X.shape[1]
    called = (lambda j: f"column {j} of X") if called is None else called
    found = spreads(X, weight, called)
    flat = np.flatnonzero(found == 0.0)
    if len(flat):
        raise ValueError(
            f"{called(flat[0])} has no spread: no bandwidth follows from equal values; leave the column out, or pass numbers as "
            "bandwidth"
        )
    h = (4.0 / ((d + 2.0) * n)) ** (1.0 / (d + 4.0)) * found * _as_smooth(shape, d, form)
    if not (np.isfinite(h).all() and (h > 0).all()):
        raise ValueError("the spread of X overflows or underflows; rescale its columns")
    return h


def _as_smooth(shape, d, form):
    """The bandwidth at which a window smooths as much as the Gaussian of bandwidth 1 (Marron & Nolan 1988), for any d."""

    def log_canonical(window):
        k, times = (1, d) if form == "product" else (d, 1)
        log_roughness = log_sphere(k) + window.log_squared(k - 1) + 2.0 * window.log_constant(k)
        return (times * log_roughness - 2.0 * math.log(window.variance(k))) / (d + 4.0)

    return math.exp(log_canonical(shape) - log_canonical(SHAPES["gaussian"]))


def neighbour_radius(Z, Q, span, weight=None) -> np.ndarray:
    """Distance of each row of Q to its ceil(span n)-th nearest row of Z (LOESS); with weights, to where their share is `span`."""
    n = len(Z)
    k = max(1, min(n, math.ceil(span * n - 1e-9)))
    tree = KDTree(Z) if k <= _FEW and weight is None else None
    out, step = np.empty(len(Q)), 1024 if tree is not None else max(1, 2**21 // n)

    def job(i):
        some = slice(i * step, (i + 1) * step)
        if tree is not None:
            out[some] = tree.query(Q[some], k=[k])[0][:, 0]
        else:
            out[some] = np.sqrt(_kth(_squares(Q[some], Z), k, span, weight))

    map_tiles(job, -(-len(Q) // step))
    return np.maximum(out, 1e-12 * max(np.abs(Z).max(), 1e-100))  # k equal rows


def _squares(Q, Z):
    s = np.zeros((len(Q), len(Z)))
    for q, z in zip(Q.T, Z.T, strict=True):
        s += (q[:, None] - z) ** 2
    return s


def _kth(S, k, span, weight):
    """The k-th smallest entry of each row, or the first with a share `span` of the weight up to it."""
    if weight is None:
        return np.partition(S, k - 1, axis=1)[:, k - 1]
    order = np.argsort(S, axis=1)
    share = np.cumsum(weight[order], axis=1) / weight.sum()
    place = (share >= span * (1 - 1e-9)).argmax(axis=1)
    return np.take_along_axis(S, np.take_along_axis(order, place[:, None], axis=1), axis=1)[:, 0]


def robustness(residuals, Y, weight) -> np.ndarray:
    """Bisquare weights (n,) of residuals (n, t) of targets Y: (1 - (r / 6 m)²)², m the median
    of |r|, and the smallest over the targets."""
    worst = np.zeros(len(residuals))
    for r, y in zip(np.abs(residuals.T), np.abs(Y.T), strict=True):
        middle = 6.0 * _median(r, weight)
        if middle > 1e-10 * y.max():  # otherwise over half of the rows are met exactly, and no scale follows
            worst = np.maximum(worst, r / middle)
    return np.maximum(1.0 - worst**2, 0.0) ** 2


# ------------------------------------------------------------------------------------------------ local polynomials
@dataclass(frozen=True, eq=False)
class Local:
    """Answers at m queries.

    values (m, t); slopes (m, d, t) in whitened units, None for degree 0; squares (m,): sums of squared weights over row
    weights, None unless asked for; own (m,): what the weight of the heaviest row would be if it stood at the query; empty,
    lower (m,): whether no row lies in the window (the nearest answer), whether rows there are too few for the degree.
    """

    values: np.ndarray
    slopes: Any
    squares: Any
    own: np.ndarray
    empty: np.ndarray
    lower: np.ndarray


def monomials(d, degree):
    """(parent, factor, degrees): monomial k is monomial parent[k] times column factor[k], in order of degree."""
    places: dict[tuple, int] = {(): 0}
    parent, factor = [0], [0]
    for p in range(1, degree + 1):
        for term in combinations_with_replacement(range(d), p):
            places[term] = len(parent)
            parent.append(places[term[:-1]])
            factor.append(term[-1])
    return np.array(parent), np.array(factor), np.array([len(term) for term in places])


def _basis(U, parent, factor):
    """Monomials (m, P) of rows U (m, d)."""
    B = np.ones((len(U), len(parent)))
    for k in range(1, len(parent)):
        B[:, k] = B[:, parent[k]] * U[:, factor[k]]
    return B


def _basis_slopes(U, parent, factor):
    """Derivatives (m, P, d) of the monomials."""
    B, D = _basis(U, parent, factor), np.zeros((len(U), len(parent), U.shape[1]))
    for k in range(1, len(parent)):
        D[:, k] = D[:, parent[k]] * U[:, factor[k], None]
        D[:, k, factor[k]] += B[:, parent[k]]
    return D


class Smoother:
    """Local polynomials of whitened rows Z (n, d) with targets Y (n, t), row weights and a window of unit bandwidth.

    `mass` are the weights of rows in the least squares, `trust` (None: the same) those that their variances are the inverse
    of: robust fits lower the former alone.
    """

    def __init__(self, Z, Y, shape: Shape, *, form="radial", degree=0, mass=None, trust=None):
        mass = np.ones(len(Z)) if mass is None else np.asarray(mass, np.float64)
        self.kept = np.flatnonzero(mass > 0)
        self.n, self.d = Z.shape
        tree = build(Z[self.kept], leaf=_LEAF)
        self.order = self.kept[tree.order]
        self.place = np.full(self.n, -1)
        self.place[self.order] = np.arange(len(self.order))
        self.tree = tuple(
            np.array(a, order="C") for a in (tree.start, tree.stop, tree.lo, tree.hi, tree.left, tree.right)
        )
        self.columns = np.array(tree.rows.T, order="C")
        self.unit = float(mass.max())
        self.mass = mass[self.order] / self.unit
        trust = mass if trust is None else trust
        self.noise = self.unit / trust[self.order]
        self._target(Y)
        self.total = float(self.mass.sum())
        self.shape, self.code = shape, CODES.index(shape.name)
        product = form == "product" and self.d > 1
        self.metric = 0 if not product or shape.name == "gaussian" else (1 if shape.name == "exponential" else 2)
        self.degree = degree
        self.parent, self.factor, self.degrees = monomials(self.d, degree)

    def with_targets(self, Y) -> "Smoother":
        """The same rows with other targets (n, t)."""
        other = copy(self)
        other._target(Y)
        return other

    def _target(self, Y):
        self.size = _power_of_two(Y)
        self.Y = np.array(Y[self.order].T / self.size, np.float64, order="C")

    # ------------------------------------------------------------------------------------ answers
    def at(self, Q, radius=None, own=None, squares=False, leave_out=False) -> Local:
        """Answers at whitened queries Q (m, d), with windows `radius` (m,) times as wide.

        `own` (m,) are the rows that the queries are, left out of their own answers where `leave_out` says so.
        """
        m, t = len(Q), len(self.Y)
        slopes = np.empty((m, self.d, t)) if self.degree else None
        out = Local(
            np.empty((m, t)),
            slopes,
            np.empty(m) if squares else None,
            np.empty(m),
            np.zeros(m, bool),
            np.zeros(m, bool),
        )
        for rows, state in self._fitted(Q, radius, self._left_out(own, leave_out, len(Q)), squares):
            self._answer(out, rows, state)
        return out

    def weights(self, Q, radius=None, own=None, leave_out=False) -> np.ndarray:
        """Weights (m, n) of the rows in the answers: values = weights @ Y."""
        from mercer.solvers import _compiled_local as loops

        out = np.zeros((len(Q), self.n))
        for rows, s in self._fitted(Q, radius, self._left_out(own, leave_out, len(Q)), False):
            part = np.zeros((len(s.Q), self.n))
            g = np.ascontiguousarray(s.X[:, :, -1])
            step = self._step

            def job(i, part=part, g=g, s=s, step=step):
                loops.weights(self.tree, self.order, self.columns, self.mass, self.total, s.Q, s.own, s.inverse, s.centre,
                              s.scale, s.parent, s.factor, g, self.code, self.metric, s.nearest, i * step,
                              min((i + 1) * step, len(s.Q)), part)  # fmt: skip

            map_tiles(job, -(-len(s.Q) // step))
            out[rows] = part
        return out

    def _left_out(self, own, leave_out, m):
        return self.place[own] if leave_out else np.full(m, -1)

    @property
    def _step(self):
        return max(1, min(256, _PAIRS // max(self.n, 1)))

    def _fitted(self, Q, radius, left, squares):
        """(rows, state) of all queries, some at a time."""
        radius = np.ones(len(Q)) if radius is None else radius
        step = max(1, _HELD // (len(self.parent) * (2 * len(self.parent) + len(self.Y))))
        for i in range(0, len(Q), step):
            some = slice(i, i + step)
            for rows, state in self._some_fitted(Q[some], radius[some], left[some], squares):
                yield i + rows, state

    def _some_fitted(self, Q, radius, left, squares):
        """[(rows, state)]: queries solved about themselves, those solved with care, and those that the nearest row answers."""
        inverse = 1.0 / radius if self.metric == 1 else radius**-2.0
        scale = np.repeat(1.0 / radius[:, None], self.d, axis=1)
        state = _State(self, Q, left, inverse, Q.copy(), scale, squares)
        mass = state.A[:, 0, 0]
        empty = ~(mass > 0.0)
        careful = ~empty & (state.pivot < _DOUBTFUL) if self.degree else np.zeros(len(Q), bool)
        parts = [(np.flatnonzero(~empty & ~careful), state)]
        if careful.any():
            parts.append((np.flatnonzero(careful), self._carefully(state, careful, squares)))
        if empty.any():
            lone = state.taken(empty)
            parts.append((np.flatnonzero(empty), _State(self, *lone, squares, nearest=True)))
        first = parts[0]
        parts[0] = (first[0], state.subset(first[0]) if len(parts) > 1 else state)
        return [p for p in parts if len(p[0])]

    def _carefully(self, state, which, squares):
        """Moments about the mean of the rows in the window, in units of their spread: found in two steps, since the first
        spread is a difference of large numbers."""
        A = state.A[which]
        Q, own, inverse, centre, scale = state.taken(which)
        for _ in range(2):
            lines = slice(1, 1 + self.d)
            mean = A[:, 0, lines] / A[:, 0, :1]
            second = np.diagonal(A[:, lines, lines], axis1=1, axis2=2) / A[:, 0, :1]
            spread = np.sqrt(np.maximum(second - mean**2, 1e-16 * second))
            centre = centre + mean / scale
            scale = scale / np.where(spread > 0, spread, 1.0)
            found = _State(self, Q, own, inverse, centre, scale, squares, solved=False)
            A = found.A
        found.solve_with_care()
        return found

    def _answer(self, out, rows, s):
        U = (s.Q - s.centre) * s.scale
        values = np.einsum("rp,rpt->rt", s.e, s.X[:, :, :-1]) * self.size
        out.values[rows] = values
        if out.slopes is not None:
            D = _basis_slopes(U, s.parent, s.factor) * s.scale[:, None, :]
            out.slopes[rows] = np.einsum("rpd,rpt->rdt", D, s.X[:, :, :-1]) * self.size
        g = s.X[:, :, -1]
        if out.squares is not None:
            out.squares[rows] = np.maximum(np.einsum("rp,rpq,rq->r", g, s.C, g), 0.0) / self.unit
        out.own[rows] = np.einsum("rp,rp->r", s.e, g)
        out.empty[rows], out.lower[rows] = s.nearest, s.lower


class _State:
    """Moments and solutions of some queries."""

    def __init__(self, fit: Smoother, Q, own, inverse, centre, scale, squares, nearest=False, solved=True):
        from mercer.solvers import _compiled_local as loops

        self.Q, self.own, self.inverse, self.centre, self.scale = Q, own, inverse, centre, scale
        self.nearest, self.fit = nearest, fit
        self.parent, self.factor = (fit.parent[:1], fit.factor[:1]) if nearest else (fit.parent, fit.factor)
        m, P, t = len(Q), len(self.parent), len(fit.Y)
        self.A, self.C = np.zeros((m, P, P)), np.zeros((m, P, P) if squares else (m, 0, 0))
        self.e = _basis((Q - centre) * scale, self.parent, self.factor)
        moments, self.X = np.zeros((m, P, t)), np.zeros((m, P, t + 1))
        self.pivot, self.lower = np.zeros(m), np.zeros(m, bool)
        step = fit._step

        def job(i):
            a, b = i * step, min((i + 1) * step, m)
            loops.moments(fit.tree, fit.columns, fit.mass, fit.noise, fit.Y, fit.total, Q, own, inverse, centre, scale,
                          self.parent, self.factor, fit.code, fit.metric, nearest, a, b, self.A, moments, self.C)  # fmt: skip

        map_tiles(job, -(-m // step))
        self.b = np.concatenate([moments, self.e[:, :, None]], axis=2)
        if solved:
            loops.solve(self.A, self.b, 0, m, self.X, self.pivot)
        for M in (self.A, self.C):
            M += np.triu(M, 1).transpose(0, 2, 1)

    def taken(self, which):
        return tuple(np.ascontiguousarray(a[which]) for a in (self.Q, self.own, self.inverse, self.centre, self.scale))

    def subset(self, rows):
        part = object.__new__(_State)
        vars(part).update(vars(self))
        for name in ("Q", "own", "inverse", "centre", "scale", "A", "C", "e", "b", "X", "pivot", "lower"):
            setattr(part, name, np.ascontiguousarray(getattr(self, name)[rows]))
        return part

    def solve_with_care(self):
        """Degree by degree; what the lower degrees and the rows in the window do not tell apart is left out."""
        step = max(1, _CAREFUL // self.A[0].size)

        def job(i):
            some = slice(i * step, (i + 1) * step)
            unit = self.A[some, :1, :1]
            self.X[some], self.lower[some] = _by_degrees(self.A[some] / unit, self.b[some] / unit, self.fit.degrees)

        map_tiles(job, -(-len(self.Q) // step))


def _by_degrees(A, b, degrees):
    """(X, left out) of systems A (m, P, P) X = b (m, P, t): solutions in which directions without variance have coefficient 0."""
    inverse, left_out = np.zeros_like(A), np.zeros(len(A), bool)
    for p in range(degrees[-1] + 1):
        known = int(np.sum(degrees < p))
        a, c = slice(0, known), slice(known, known + int(np.sum(degrees == p)))
        H = inverse[:, a, a] @ A[:, a, c]
        S = A[:, c, c] - A[:, c, a] @ H
        size = np.sqrt(np.maximum(np.diagonal(A, axis1=1, axis2=2)[:, c], np.finfo(np.float64).tiny))
        values, vectors = np.linalg.eigh(S / (size[:, :, None] * size[:, None, :]))
        seen = values > _UNSEEN
        left_out |= ~seen.all(axis=1)
        V = vectors / size[:, :, None]
        G = (V * np.where(seen, 1.0 / np.where(seen, values, 1.0), 0.0)[:, None, :]) @ V.transpose(0, 2, 1)
        inverse[:, a, a] += H @ G @ H.transpose(0, 2, 1)
        inverse[:, a, c] = -H @ G
        inverse[:, c, a] = inverse[:, a, c].transpose(0, 2, 1)
        inverse[:, c, c] = G
    return inverse @ b, left_out


def _power_of_two(Y):
    """A power of two of the size of the targets: products with them then do not overflow, and dividing by it is exact."""
    largest = np.abs(Y).max(initial=0.0)
    return float(2.0 ** np.floor(np.log2(largest))) if largest > 0 else 1.0


def warn_degraded(found: Local, degree, stacklevel=3):
    """One warning that says how many queries had too few rows in their window."""
    empty, lower = int(found.empty.sum()), int(found.lower.sum())
    said = []
    if empty:
        said.append(f"{empty} have no row in their window: the nearest training rows answer for them")
    if lower:
        said.append(
            f"{lower} have too few different rows in their window for degree {degree}: the polynomial there is of lower degree"
        )
    if said:
        warnings.warn(
            f"of {len(found.empty)} queries {'; '.join(said)}. A larger bandwidth helps",
            NumericalWarning,
            stacklevel=stacklevel,
        )

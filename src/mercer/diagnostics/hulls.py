"""Nearest points of the convex hulls of two classes in feature space, with bounds on their distance that count rounding in.

Masses on the rows are signed: beta_i = y_i lambda_i with lambda >= 0. With an intercept the masses of each class sum to 1 and
the distance is that of the two hulls; without, all sum to 1 and it is the distance of the hull of the y_i phi(x_i) from 0.
Where the kernel has explicit features the bounds are computed from them, with an error of eps times their size; from a
Gram matrix, whose entries are squares, the error is sqrt(eps) times their size.
"""

import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mercer.errors import NanError, NotPSDError
from mercer.gram import Operator, gram
from mercer.kernels import Linear
from mercer.linalg import Status, run_interruptibly
from mercer.solvers import DualProblem, RowCache, solve_dual

__all__ = ["Bounds", "FeatureHulls", "GramHulls", "Hulls", "nearest_points"]

_EPS = float(np.finfo(float).eps)
_STEPS = 16  # roundings on the way to a feature or a product, besides those of sums: for bounds
_FEW = 8  # roundings that a point common to both hulls shows at most: sums of roundings of both signs stay below their bound
_FIRST_SLOPE = 1e-2  # of the largest k(x, x): where the solver stops first
_TIGHTER = 0.1  # the next tolerance
_POLISHED = 10**6  # entries of the least-squares problem that moves masses to a common point
_POLISHINGS = 12
_IN_THE_WAY = 50.0  # a mass that a step would turn that many times over
_MET = 1e-8  # points nearer than this, in units of their size, are worth a look at their bounds
_RESOLVED = 1e-10  # of the squared spread: a matrix with a larger error says nothing about touching


@dataclass(frozen=True, eq=False)
class Bounds:
    """What masses beta say about the distance D of the hulls: lower <= D <= upper, the largest rounding errors counted in.

    values: sum_j beta_j k(x_i, x_j), up to a number common to all rows. norm: length of sum_i beta_i phi(x_i) as computed;
    rounding: lengths up to this are 0 but for the usual rounding.
    """

    beta: np.ndarray
    values: np.ndarray
    norm: float
    rounding: float
    lower: float
    upper: float

    @property
    def touching(self) -> bool:
        return self.norm <= self.rounding

    def within(self, tol: float) -> bool:
        return self.lower > 0 and self.upper - self.lower <= tol * self.upper


class Hulls:
    """Two classes y = -1, 1 in a feature space. K: their Gram as the solver sees it; scale: its largest diagonal entry."""

    K: Operator
    scale: float
    slope_floor: float  # slopes that differ by less differ by rounding
    unit = 1.0  # of lengths in K
    conclusive: bool  # whether a distance within rounding means that the hulls touch

    def __init__(self, y: np.ndarray, fit_intercept: bool):
        self.y, self.fit_intercept = y, fit_intercept
        self.total = 2.0 if fit_intercept else 1.0  # of the masses

    def bounds(self, beta: np.ndarray) -> Bounds:
        raise NotImplementedError

    def offset(self, found: Bounds) -> float:
        """What is added to sum_j beta_j k(x, x_j) so that both classes are equally far from 0."""
        return -sum(self._edges(found.values)) / 2 if self.fit_intercept else 0.0

    def width(self, values) -> float:
        """Room between the classes along the direction that gave these values."""
        low, high = self._edges(values)
        return float(low - high) if self.fit_intercept else float((self.y * values).min())

    def _edges(self, values):
        return float(values[self.y > 0].min()), float(values[self.y < 0].max())

    # ------------------------------------------------------------------------------------ masses
    def normalised(self, beta) -> np.ndarray:
        """Masses of the right signs and sums, but for rounding."""
        beta = np.where(beta * self.y > 0, beta, 0.0)
        if not self.fit_intercept:
            return beta / np.abs(beta).sum()
        return beta / np.where(self.y > 0, beta[self.y > 0].sum(), -beta[self.y < 0].sum())

    def polished(self, beta) -> np.ndarray | None:
        """Masses near beta whose points are the same but for rounding; None if no such masses were found.

        Each mass is multiplied by 1 - z, z the smallest numbers for which the points meet. A step that would turn signs ends
        before them, and a mass that stands in the way again and again is dropped; masses that are 0 stay so.
        """
        chosen = self._heaviest(beta)
        A, target = self._meeting(chosen)
        b, full_steps = beta[chosen], 0
        for _ in range(_POLISHINGS):
            z = _least_squares(A * b, A @ b - target)
            most = float(z.max(initial=0.0, where=z < _IN_THE_WAY))
            b = np.where(z < _IN_THE_WAY, b * (1 - z * (1.0 if most < 1 else 0.9 / most)), 0.0)
            full_steps += z.max() < 1
            if full_steps == 2:  # the second removes the rounding of the first
                break
        if np.abs(A @ b - target).max() > _MET:
            return None
        out = np.zeros_like(beta)
        out[chosen] = b
        return self.normalised(out)

    def _heaviest(self, beta):
        taking = np.flatnonzero(beta)
        order = np.argsort(-np.abs(beta[taking]), kind="stable")
        most = max(2, _POLISHED // max(1, self._columns(taking)))
        return np.sort(taking[order[:most]])

    def _meeting(self, chosen):
        """A and t such that masses b on the chosen rows are a certificate if A b = t."""
        points = self._points(chosen)
        y = self.y[chosen]
        sums = np.array([y > 0, y < 0], float) if self.fit_intercept else y[None, :]
        target = [1.0, -1.0] if self.fit_intercept else [1.0]
        return np.vstack([points.T, sums]), np.r_[np.zeros(points.shape[1]), target]

    def _columns(self, chosen) -> int:
        raise NotImplementedError

    def _points(self, chosen) -> np.ndarray:
        """Rows of coordinates in which the chosen points are compared."""
        raise NotImplementedError


class FeatureHulls(Hulls):
    """Hulls of explicit features (n, p), in units of their size."""

    conclusive = True

    def __init__(self, features, y, fit_intercept, *, engine=None, memory=None):
        super().__init__(y, fit_intercept)
        self.unit = _unit(np.abs(features.data if sp.issparse(features) else features).max(initial=0.0))
        Z = features / self.unit
        self.size = _longest(Z)
        # Hulls move with their points: an offset common to all rows would only cost digits.
        self.centre = Z.mean(axis=0) if fit_intercept and not sp.issparse(Z) else None
        self.Z = Z if self.centre is None else Z - self.centre
        self.K = gram(Linear(), self.Z, engine=engine, memory=memory)
        self.scale = _longest(self.Z) ** 2
        self.slope_floor = _EPS * (_STEPS + Z.shape[1]) * self.scale

    def bounds(self, beta):
        taking = np.flatnonzero(beta)
        w = self.Z[taking].T @ beta[taking]
        norm, values = float(np.linalg.norm(w)), self.Z @ w
        ulp, u = self.total * _EPS * self.size, self.unit
        error = (_STEPS + len(taking) + self.Z.shape[1]) * ulp
        lower = (self.width(values) / norm if norm else 0.0) - error
        return Bounds(beta, values * u * u, norm * u, _FEW * ulp * u, lower * u, (norm + error) * u)

    def offset(self, found):
        if self.centre is None:
            return super().offset(found)
        w = self.Z.T @ found.beta
        return super().offset(found) - float(w @ self.centre) * self.unit**2

    def _columns(self, chosen):
        return len(self._used(chosen)) if sp.issparse(self.Z) else self.Z.shape[1]

    def _points(self, chosen):
        Z = self.Z[chosen]
        return Z[:, self._used(chosen)].toarray() if sp.issparse(Z) else Z

    def _used(self, chosen):
        return np.unique(self.Z[chosen].indices)


class GramHulls(Hulls):
    """Hulls known by a Gram matrix alone, whose entries carry `error` relative to the largest k(x, x).

    They are never seen to touch if the matrix is that of a kernel: a wide Gaussian separates all different rows, by distances
    far below the rounding of its Gram. A `given` matrix is all there is, if its rounding is small against the spread.
    """

    def __init__(self, K: Operator, y, fit_intercept, *, error: float, given: bool):
        super().__init__(y, fit_intercept)
        self.K, self.error = K, error
        self.scale = max(0.0, float(K.diag().max()))
        self.slope_floor = error * self.scale
        self.conclusive = given and self.total**2 * error * self.scale <= _RESOLVED * self._spread()

    def bounds(self, beta):
        taking = np.flatnonzero(beta)
        values = np.asarray(self.K[:, taking] @ beta[taking], dtype=np.float64)
        square = float(beta @ values)
        size = self.total**2 * self.scale
        error = (self.error + (_STEPS + len(taking)) * _EPS) * size
        if square < -error:
            raise NotPSDError(
                f"a margin needs a positive semi-definite kernel; on these rows b^T K b is {square:.3g} for some b with "
                f"sum |b| = {self.total:g}. Look at mercer.check_kernel, or change the matrix with mercer.repair"
            )
        square = max(square, 0.0)
        upper = float(np.sqrt(square + error))
        lower = (self.width(values) - error) / upper if upper else 0.0
        return Bounds(beta, values, float(np.sqrt(square)), float(np.sqrt(self.error * size)), float(lower), upper)

    def _spread(self) -> float:
        """Largest squared length of a row's point, from the mean where there is an intercept."""
        return float(self.K.centred().diag().max()) if self.fit_intercept else self.scale

    def _columns(self, chosen):
        return len(chosen)

    def _points(self, chosen):
        unit = self.scale or 1.0
        return self.K[chosen, chosen].dense() / unit


def _unit(largest):
    """A power of two near the largest feature: dividing by it rounds nothing."""
    if not largest:
        return 1.0
    if not 1e-150 < largest < 1e150:
        raise NanError(f"features up to {largest:.3g} have squares beyond float64; rescale the columns of X")
    return float(2.0 ** np.floor(np.log2(largest)))


def _longest(Z):
    squares = Z.multiply(Z).sum(axis=1) if sp.issparse(Z) else np.einsum("ij,ij->i", Z, Z)
    return float(np.sqrt(np.max(squares)))


def _least_squares(A, b):
    m, n = sorted(A.shape)
    return run_interruptibly(np.linalg.lstsq, A, b, None, seconds_predicted=20e-11 * n * m * m)[0]


# ------------------------------------------------------------------------------------------------ the search
def nearest_points(hulls: Hulls, start, *, tol, max_iter, time_limit, memory) -> tuple[Bounds, Status, int]:
    """Bounds from the best masses found, how the search ended, and the steps it took.

    The solver's tolerance is tightened until the bounds agree within `tol`, the hulls are seen to touch, or what is left is
    rounding.
    """
    search = _Search(hulls, start, max_iter, time_limit, memory)
    slope, best = _FIRST_SLOPE * hulls.scale, None
    while True:
        status = search.run(slope)
        found = hulls.bounds(hulls.normalised(search.beta))
        best = _better(best, found)
        if found.lower <= 0 and hulls.conclusive:
            best = _better(best, _met(hulls, found))
        done = best.touching or best.within(tol) or slope <= hulls.slope_floor
        if done or status is not Status.CONVERGED:
            return best, status, search.iterations
        # Until it is decided small steps: a certificate needs the right rows, not masses that are nearly right.
        wanted = 0.2 * tol * (found.norm / hulls.unit) ** 2 if found.lower > 0 else np.inf
        slope = max(hulls.slope_floor, min(_TIGHTER * slope, wanted))


def _met(hulls, found):
    beta = hulls.polished(found.beta)
    return None if beta is None else hulls.bounds(beta)


def _better(a, b):
    """The bounds that say more: of touching hulls those, else the larger lower bound."""
    if a is None or b is None:
        return b if a is None else a
    return max(a, b, key=lambda f: (f.touching, f.lower))


class _Search:
    """Runs of the dual solver on one problem, each from where the last one ended, with the limits of all together."""

    def __init__(self, hulls, start, max_iter, time_limit, memory):
        y, n = hulls.y, len(hulls.y)
        self.hulls, self.beta, self.iterations = hulls, start, 0
        self.max_iter = max(10_000_000, 100 * n) if max_iter is None else max_iter
        self.deadline = np.inf if time_limit is None else time.monotonic() + time_limit
        self.cache = RowCache(hulls.K, memory)
        if not hulls.fit_intercept:
            self.cache.source = _Signed(self.cache.source, y)

    def run(self, slope) -> Status:
        left = self.deadline - time.monotonic()
        found = solve_dual(self.cache, self._problem(), tol=slope, max_iter=self.max_iter - self.iterations,
                           time_limit=max(left, 0.0) if np.isfinite(left) else None)  # fmt: skip
        self.iterations += found.iterations
        self.beta = found.beta if self.hulls.fit_intercept else self.hulls.y * found.beta
        return found.status

    def _problem(self):
        """The nu-machine with masses that no bound stops; without an intercept the one-class machine of y_i phi(x_i)."""
        y, zero = self.hulls.y, np.zeros(len(self.hulls.y))
        if not self.hulls.fit_intercept:
            return DualProblem(zero, zero, zero + 2, start=y * self.beta)
        return DualProblem(zero, np.where(y < 0, -2.0, 0.0), np.where(y > 0, 2.0, 0.0), parts=2, start=self.beta)


class _Signed:
    """A source of the row cache with the signs of the labels: y_i K_ij y_j."""

    def __init__(self, source, y):
        self.source, self.y = source, y

    def whole(self):
        return self.source.whole() * self.y[:, None] * self.y

    def block(self, rows, columns, out=None):
        values = self.source.block(rows, columns, out)
        values *= self.y[rows, None] * self.y[columns]
        if out is not None:
            out[...] = values
        return values

    def fill(self, out, first, rows, start, stop):
        self.source.fill(out, first, rows, start, stop)
        out[first : first + len(rows), start:stop] *= self.y[rows, None] * self.y[start:stop]

    def matvec(self, rows, columns, v):
        return self.y[rows] * self.source.matvec(rows, columns, self.y[columns] * v)

    def permuted(self, order):
        return _Signed(self.source.permuted(order), self.y[order])

"""Mean shift (M25): clusters are the hills of a Parzen density, and their centres the tops."""

import math
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning
from mercer.estimators.base import forget
from mercer.estimators.density import dense
from mercer.registry import register_estimator
from mercer.solvers.bandwidths import (
    RULES,
    canonical_ratio,
    count_of,
    divided,
    log_volume,
    root_of,
    select_bandwidth,
    spread,
)
from mercer.solvers.parzen import parzen
from mercer.solvers.windows import shape_of

__all__ = ["MeanShift"]

#: The window whose weighted means climb the density of another: its derivative in the squared distance.
SHADOWS = {"gaussian": "gaussian", "epanechnikov": "boxcar", "biweight": "epanechnikov"}
_NOTHING = 1e-280  # a sum of weights below it has lost digits
_POLISH = 1e-9  # bandwidths of a last step at a mode


@register_estimator
class MeanShift(ClusterMixin, BaseEstimator):
    r"""Mean shift: each row climbs the density to a mode, and rows that meet at one mode are a cluster.

    .. math:: x \leftarrow \frac{\sum_i w_i\, g(s_i)\, x_i}{\sum_i w_i\, g(s_i)}, \qquad g = -k', \quad
        s_i = \lVert x - x_i \rVert^2 / h^2

    A step never lowers the density, the sum of the windows k. The number of clusters follows from the bandwidth.

    Parameters
    ----------
    bandwidth : a number, one a column, a matrix (as a covariance: h is the matrix h² I), or a rule such as "isj"; see the page
        on density. None: the rule "normal-scott", σ n^(-1/(d+4)) for each column, and 1 for a column of equal entries.
        scikit-learn has another rule, from distances of neighbours.
    kernel : window of the density: "gaussian"; "epanechnikov", whose steps are plain means of the rows within a bandwidth, as
        in scikit-learn; or "biweight".
    seeds : where climbs begin, (s, d). None: at every row, or with `bin_seeding` at one place in each cell of a grid.
    bin_seeding, min_bin_freq : begin at the means of the cells of a grid, one bandwidth wide, that hold so much weight.
    cluster_all : whether rows farther than a bandwidth from all modes belong to a cluster; if not, their label is -1.
    assign : "ascend", a row belongs to the mode that it climbs to; "nearest", to the nearest mode, as in scikit-learn; "auto",
        the first where every row climbs, the second with seeds.
    merge : modes nearer than so many bandwidths to a higher one are the same.
    max_iter, tol : steps at most, and the length in bandwidths of a step that is the last.
    n_jobs : not used, here for scikit-learn's sake.

    Attributes
    ----------
    cluster_centers_, mode_densities_ : the modes (k, d), the highest first, and the density there.
    labels_ : cluster of each row.
    bandwidth_ : the bandwidth in use.
    n_iter_, converged_ : steps of the longest climb, and whether all came to rest.
    X_fit_, weights_ : the different rows and their weights, which sum to 1.
    solver_used_ : "ascend" or "nearest".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import MeanShift
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, 60), rng.normal(8, 1, 40)])[:, None]
    >>> model = MeanShift(bandwidth=1.0).fit(X)
    >>> model.cluster_centers_.round(1).ravel().tolist(), np.bincount(model.labels_).tolist()
    ([0.1, 7.9], [60, 40])

    Fukunaga & Hostetler (1975); Comaniciu & Meer (2002).
    """

    _parameter_constraints = {
        "bandwidth": [Interval(Real, 0, None, closed="neither"), "array-like", StrOptions(set(RULES)), None],
        "kernel": [StrOptions(set(SHADOWS))],
        "seeds": ["array-like", None],
        "bin_seeding": ["boolean"],
        "min_bin_freq": [Interval(Integral, 1, None, closed="left")],
        "cluster_all": ["boolean"],
        "assign": [StrOptions({"auto", "ascend", "nearest"})],
        "merge": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def __init__(self, bandwidth=None, *, kernel="gaussian", seeds=None, bin_seeding=False, min_bin_freq=1, cluster_all=True,
                 assign="auto", merge=1.0, max_iter=300, tol=1e-3, n_jobs=None):  # fmt: skip
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.seeds = seeds
        self.bin_seeding = bin_seeding
        self.min_bin_freq = min_bin_freq
        self.cluster_all = cluster_all
        self.assign = assign
        self.merge = merge
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "solver_used_")

    # ------------------------------------------------------------------------------------ fit
    def fit(self, X, y=None, sample_weight=None) -> "MeanShift":
        """Find the modes of rows X (n, d). A weight k is a row k times; y is ignored."""
        self._validate_params()
        forget(self)
        rows, _, _, everyone = validate.training(self, X, None, None)
        given = validate.sample_weight(sample_weight, len(everyone))
        rows, dtype = _dense(rows), rows.dtype
        w = np.ones(len(rows)) if given is None else given
        different, _, weight, _ = validate.canonical(rows, np.zeros(len(rows)), w)
        bandwidth, root = self._root(different, weight)
        shift = _Shift(different, weight / weight.sum(), root, self.kernel)
        Z, seeded = shift.inside(rows), self.bin_seeding or self.seeds is not None
        how = self.assign if self.assign != "auto" else "nearest" if seeded else "ascend"
        begun = self._climb(shift, self._starts(shift, rows, w) if seeded else Z)
        modes = shift.modes(begun.ends if seeded else begun.ends[w > 0], self.merge, self.tol, self.max_iter)
        own = self._climb(shift, Z) if seeded and how == "ascend" else begun
        return self._store(shift, modes, bandwidth, Z, Z if how == "nearest" else own.ends, begun, how, dtype)

    def _climb(self, shift, starts):
        climbed = shift.climb(starts, self.tol, self.max_iter)
        if climbed.moving:
            warnings.warn(f"{climbed.moving} climbs still moved after max_iter={self.max_iter} steps; raise it or tol={self.tol}",
                          ConvergenceWarning, stacklevel=3)  # fmt: skip
        return climbed

    def _root(self, X, w):
        """The bandwidth as it will be told, and as scales of the columns or a triangle."""
        shape = shape_of(self.kernel)
        if isinstance(self.bandwidth, str):
            bandwidth = select_bandwidth(self.bandwidth, X, w, shape=shape).value
        elif self.bandwidth is None:
            n, d = X.shape
            h = spread(X, w) * count_of(w, n) ** (-1.0 / (d + 4)) * canonical_ratio(shape, d)
            bandwidth = np.where(h > 0, h, 1.0)
        else:
            bandwidth = self.bandwidth if isinstance(self.bandwidth, Real) else np.array(self.bandwidth)
        return bandwidth, root_of(bandwidth, X.shape[1])

    def _starts(self, shift, rows, w):
        """Seeds in units of the bandwidth."""
        if self.seeds is None:
            return self._cells(shift, rows[w > 0], w[w > 0])
        seeds = check_array(self.seeds, dtype=np.float64, input_name="seeds")
        if seeds.shape[1] != rows.shape[1]:
            raise ValueError(f"seeds have {seeds.shape[1]} columns, the rows {rows.shape[1]}")
        starts = shift.inside(seeds)
        starts = starts[shift.nearest(starts)[0] <= shift.shape.reach]  # the others see no row
        if not len(starts):
            raise ValueError(
                "no row lies within a bandwidth of any of the seeds; give other seeds, or a larger bandwidth"
            )
        return starts

    def _cells(self, shift, rows, w):
        """Means of the rows in the cells of a grid that hold enough; a row near it where none lies within the window."""
        cells = np.unique(np.round(divided(rows, shift.root)), axis=0, return_inverse=True)[1].ravel()
        held = np.bincount(cells, w)
        enough = held >= self.min_bin_freq if self.min_bin_freq > 1 else held > 0
        if not enough.any():
            raise ValueError(
                f"no cell of the grid holds min_bin_freq={self.min_bin_freq} rows, the fullest {held.max():.3g}; lower it, or "
                "raise the bandwidth"
            )
        means = np.stack([np.bincount(cells, w * z) for z in shift.inside(rows).T], axis=1)[enough] / held[enough, None]
        distance, row = shift.nearest(means)
        return np.where(distance[:, None] <= shift.shape.reach, means, shift.Z[row])

    def _store(self, shift, modes, bandwidth, Z, ends, begun, how, dtype):
        """Fitted state; the last attribute makes the estimator fitted."""
        self.n_iter_, self.converged_ = begun.steps, begun.moving == 0
        self._fit, self._modes_ = shift, modes
        self.X_fit_, self.weights_, self.bandwidth_ = shift.X, shift.weights, bandwidth
        self.asked_ = {"how": how, "tol": self.tol, "max_iter": self.max_iter, "cluster_all": self.cluster_all,
                       "kernel": self.kernel}  # fmt: skip
        self.cluster_centers_ = shift.outside(modes).astype(dtype)
        with np.errstate(over="ignore"):  # rows in tiny units have densities beyond all floats
            self.mode_densities_ = np.exp(shift.log_density(modes))
        self.labels_ = self._labels(Z, ends)
        self.solver_used_ = how
        return self

    # ------------------------------------------------------------------------------------ answers
    def predict(self, X) -> np.ndarray:
        """Cluster (m,) of rows X: of the mode that they climb to, or of the nearest, as `assign` said when it was fitted."""
        check_is_fitted(self)
        Z = self._fit.inside(_dense(validate.prediction(self, X)))
        if self.asked_["how"] == "nearest":
            return self._labels(Z, Z)
        return self._labels(Z, self._fit.climb(Z, self.asked_["tol"], self.asked_["max_iter"]).ends)

    def _labels(self, Z, ends):
        """The mode nearest to where rows ended; -1 for rows that are far from all modes and need not belong to one."""
        tree = cKDTree(self._modes_)
        labels = tree.query(ends)[1].astype(np.intp)
        if not self.asked_["cluster_all"]:
            labels[tree.query(Z)[0] > 1.0] = -1
        return labels

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_fit", None)  # made again from X_fit_ and the bandwidth
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "solver_used_" in state:
            root = root_of(self.bandwidth_, self.X_fit_.shape[1])
            self._fit = _Shift(self.X_fit_, self.weights_, root, self.asked_["kernel"])


class _Climbed:
    """Where climbs ended (m, d), the number of steps of the longest, and how many still moved."""

    def __init__(self, ends, steps, moving):
        self.ends, self.steps, self.moving = ends, steps, moving


class _Shift:
    """Steps uphill among rows X (n, d) with weights that sum to 1, in units of the bandwidth and about their mean."""

    def __init__(self, X, weights, root, kernel):
        self.X, self.weights, self.root, self.shape = X, weights, root, shape_of(kernel)
        Z = divided(X, root)
        self.centre = Z.mean(axis=0)
        self.Z = Z - self.centre
        self.size = float(np.abs(self.Z).max())
        if not self.size < 1e100:
            raise ValueError("the rows are more than 1e100 bandwidths apart; rescale X or the bandwidth")
        self._density = parzen(self.Z, weights, self.shape)
        self._shadow = parzen(self.Z, weights, shape_of(SHADOWS[kernel]))
        self._columns = np.column_stack([np.ones(len(Z)), self.Z])
        self._tree = cKDTree(self.Z)

    def inside(self, X):
        return np.clip(divided(X, self.root) - self.centre, -1e100, 1e100)  # squares must be numbers

    def outside(self, Z):
        Y = Z + self.centre
        return Y * self.root if self.root.ndim == 1 else Y @ self.root.T

    def log_density(self, Z):
        return self._density.log_density(Z) - log_volume(self.root)

    def nearest(self, Z):
        """Distances to the nearest rows, and their numbers."""
        return self._tree.query(Z)

    def step(self, Q):
        """Weighted means around places. Where no weight can be seen, the nearest row, or the place itself if windows end."""
        sums, out = self._shadow.sums(Q, self._columns), Q.copy()
        seen = sums[:, 0] > _NOTHING
        out[seen] = sums[seen, 1:] / sums[seen, :1]
        if not seen.all() and not math.isfinite(self.shape.reach):
            out[~seen] = self.Z[self.nearest(Q[~seen])[1]]
        return out

    def climb(self, Q, tol, max_iter) -> _Climbed:
        """Steps until they are shorter than tol bandwidths, or than rounding."""
        Q, moving, tol, steps = Q.copy(), np.arange(len(Q)), tol + 1e-15 * self.size, 0
        while len(moving) and steps < max_iter:
            new = self.step(Q[moving])
            length = np.linalg.norm(new - Q[moving], axis=1)
            Q[moving], moving, steps = new, moving[length > tol], steps + 1
        return _Climbed(Q, steps, len(moving))

    def modes(self, ends, radius, tol, max_iter):
        """Different ends, the highest first; they climb on until they lie still, so that none is left on a saddle."""
        heads = self._merged(ends, radius)
        return self._merged(self.climb(heads, min(tol, _POLISH), 10 * max_iter).ends, radius)

    def _merged(self, ends, radius):
        """Ends that are not within the radius of a higher one."""
        ends = np.unique(ends, axis=0)
        order = np.argsort(-self.log_density(ends), kind="stable")
        left, kept = ends[order], []
        while len(left):
            kept.append(left[0])
            left = left[np.linalg.norm(left - left[0], axis=1) > max(radius, 1e-6)]
        return np.array(kept)


def _dense(rows):
    return np.ascontiguousarray(dense(rows), np.float64)

"""Kernel density estimation (M14): scikit-learn's KernelDensity, with more windows, bandwidths and kinds of columns."""

import logging
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.estimators.base import ENGINE, engine_of, forget
from mercer.estimators.expansion import Expansion
from mercer.gram.plan import budget, require
from mercer.kernels import RBF, Kernel
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers.bandwidths import RULES, count_of, root_of, select_bandwidth
from mercer.solvers.densities import MixedDensity, WindowDensity, left_out, shrinkage
from mercer.solvers.edges import Bounds, EdgeDensity
from mercer.solvers.windows import SHAPES, shape_of

__all__ = ["KernelDensity"]

logger = logging.getLogger("mercer")

WINDOWS = {*SHAPES, "tophat", "linear"}
ALGORITHMS = {"auto", "tiles", "tree", "kd_tree", "ball_tree", "fft"}
DENSITY_CONSTRAINTS = {  # of the parameters that densities and their classifier share
    "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions(set(RULES)), "array-like"],
    "algorithm": [StrOptions(ALGORITHMS)],
    "kernel": [StrOptions(WINDOWS)],
    "form": [StrOptions({"radial", "product"})],
    "atol": [Interval(Real, 0, None, closed="left")],
    "rtol": [Interval(Real, 0, None, closed="left")],
    "engine": ENGINE,
}
_STEPS = 200  # of a bisection


def dense(rows):
    """Rows as an array: windows have no use for zeros that are not stored."""
    if not hasattr(rows, "toarray"):
        return rows
    n, d = rows.shape
    require(8 * n * d, budget(None), f"{n} sparse rows with {d} columns, made dense,", ["choose fewer columns"])
    return rows.toarray()


@register_estimator
class KernelDensity(DensityMixin, BaseEstimator):
    r"""Kernel density estimation: a window around every row.

    .. math:: f(x) = \sum_i w_i \, |L|^{-1} c_d \, k(L^{-1} (x - x_i)), \qquad \sum_i w_i = 1

    Parameters before `form` are scikit-learn's, with its defaults and its answers.

    Parameters
    ----------
    bandwidth : the scale h of the window, one a column, a matrix (covariance-like: h is the matrix h² I), or a word: "scott" and
        "silverman" as in scikit-learn, which do not look at scales; "normal-scott", "normal-silverman", "mad", "isj", "lscv",
        "loo", one number a column, and "loo-full", a matrix (see `mercer.solvers.bandwidths`).
    algorithm : how windows are summed, "auto", "tiles", "tree" ("kd_tree" and "ball_tree" mean it too) or "fft".
    kernel : the window: "gaussian", "exponential", "epanechnikov", "biweight", "tricube", "triangular" or "linear", "boxcar" or
        "tophat", "cosine".
    metric, metric_params : "euclidean" and None; other distances have no known constant.
    atol, rtol : error allowed in a density, absolute and relative; 0 is exact.
    breadth_first, leaf_size : as in scikit-learn; they change no answer and are not used.
    form : "radial", of the length of x - x_i, or "product" over the columns.
    factors : factors (n,) on the bandwidth of single rows; "adaptive" for Abramson's: a pilot density to the power
        -sensitivity, with geometric mean 1.
    sensitivity : of adaptive factors, 0 to 1.
    bounds : pairs (low, high), one a column, None for an open end. There is no density outside.
    boundary : what happens at bounds: "reflect"; for one column also "beta" windows (two ends) or "gamma" windows (one end),
        whose smoothing parameter b is `bandwidth`.
    categorical : columns of categories, given as numbers; their windows are Aitchison & Aitken's.
    smoothing : of the categories, 0 to (c - 1) / c, one number or one a categorical column; None chooses by shrinkage.
    engine : what multiplies in "tiles". "auto" takes them on a GPU, but for one column and for single factors.

    Attributes
    ----------
    bandwidth_ : the bandwidth as a number, array or matrix; None without continuous columns.
    bandwidth_rows_ : how many rows the rule of a word looked at.
    X_fit_, weights_, factors_, smoothing_ : rows and what was found for them; weights sum to 1.
    total_weight_ : the sum of the sample weights, the number of rows without them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> density = KernelDensity("isj").fit(X)
    >>> np.exp(density.score_samples([[0.0]])).round(2)
    array([0.37])

    Parzen (1962); Abramson (1982); Chen (1999, 2000); Aitchison & Aitken (1976).
    """

    _parameter_constraints: dict = {
        **DENSITY_CONSTRAINTS,
        "metric": [StrOptions({"euclidean"})],
        "breadth_first": ["boolean"],
        "leaf_size": [Interval(Integral, 1, None, closed="left")],
        "metric_params": [dict, None],
        "factors": [StrOptions({"adaptive"}), "array-like", None],
        "sensitivity": [Interval(Real, 0, 1, closed="both")],
        "bounds": ["array-like", None],
        "boundary": [StrOptions({"reflect", "beta", "gamma"})],
        "categorical": ["array-like", None],
        "smoothing": [Interval(Real, 0, 1, closed="both"), "array-like", None],
    }

    _newer_parameters = {"engine": None}  # older files lack it

    def __init__(self, bandwidth=1.0, *, algorithm="auto", kernel="gaussian", metric="euclidean", atol=0, rtol=0,
                 breadth_first=True, leaf_size=40, metric_params=None, form="radial", factors=None, sensitivity=0.5,
                 bounds=None, boundary="reflect", categorical=None, smoothing=None, engine=None):  # fmt: skip
        self.bandwidth = bandwidth
        self.algorithm = algorithm
        self.kernel = kernel
        self.metric = metric
        self.atol = atol
        self.rtol = rtol
        self.breadth_first = breadth_first
        self.leaf_size = leaf_size
        self.metric_params = metric_params
        self.form = form
        self.factors = factors
        self.sensitivity = sensitivity
        self.bounds = bounds
        self.boundary = boundary
        self.categorical = categorical
        self.smoothing = smoothing
        self.engine = engine

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "solver_used_")  # set last: an interrupted fit leaves an unfitted estimator

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X, y=None, sample_weight=None):
        """Keep rows X (n, d) and find what was left to be found. A weight k is a row k times; `y` is not looked at."""
        self._validate_params()
        forget(self)
        vars(self).pop("_density", None)
        if self.metric_params:
            raise ValueError(f'metric_params={self.metric_params!r}: metric="euclidean" has none; use None')
        rows, _, w, kept = validate.training(self, X, None, sample_weight)
        rows = validate.owned(dense(rows), X)
        n = validate.n_given(kept, sample_weight)
        found = self._found(rows, w)
        total = float(len(rows) if w is None else w.sum())
        w = np.full(len(rows), 1.0 / len(rows)) if w is None else w / total
        settings = self._settings(rows)
        density = _build(rows, w, found["bandwidth_"], None, found["smoothing_"], settings, engine_of(self))
        factors = self._factors(density, rows, w, n, kept)
        if factors is not None:
            density = _build(rows, w, found["bandwidth_"], factors, found["smoothing_"], settings, engine_of(self))
        found |= {"X_fit_": rows, "weights_": w, "total_weight_": total, "factors_": factors, "settings_": settings}
        self._keep(density, found)
        return self

    def _keep(self, density, found):
        """Fitted state, in one call that no interrupt divides."""
        logger.info("KernelDensity: %s, bandwidth %s", density.used, found["bandwidth_"])
        vars(self).update(**found, _density=density, solver_used_=density.used)

    def _found(self, rows, w):
        """Bandwidth and smoothing; w counts rows."""
        categorical = self._categorical(rows.shape[1])
        continuous = np.setdiff1d(np.arange(rows.shape[1]), categorical)
        smoothing = None
        if len(categorical):
            smoothing = self._smoothing(np.asarray(rows[:, categorical], np.float64), w)
        bandwidth, seen = None, len(rows)
        if len(continuous):
            bandwidth, seen = self._bandwidth(rows[:, continuous], w, continuous)
        return {"bandwidth_": bandwidth, "bandwidth_rows_": seen, "smoothing_": smoothing}

    def _bandwidth(self, rows, w, columns):
        if not isinstance(self.bandwidth, str):
            h = np.array(self.bandwidth, np.float64) if np.ndim(self.bandwidth) else float(self.bandwidth)
            root_of(h, rows.shape[1])  # refuses what is none
            return h, len(rows)
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[columns]
        found = select_bandwidth(self.bandwidth, rows, w, shape=shape_of(self.kernel), form=self.form, names=names)
        if self.boundary == "reflect":
            return found.value, found.rows
        return self._edge_bandwidth(rows[:, 0], w, np.ravel(found.value)[0]), found.rows

    def _edge_bandwidth(self, x, w, h):
        """The b at which beta or gamma windows have the variance h^2 in the mean."""
        low, high = self._limits(1)
        if self.boundary == "beta":
            u = (x - low[0]) / (high[0] - low[0])
            return float((h / (high[0] - low[0])) ** 2 / np.average(u * (1.0 - u), weights=w))
        return float(h**2 / np.average(np.abs(x - (low[0] if np.isfinite(low[0]) else high[0])), weights=w))

    def _factors(self, density, rows, w, n, kept):
        if self.factors is None:
            return None
        if self.boundary != "reflect" or (not hasattr(density, "shape") and getattr(density, "parts", None) is None):
            raise ValueError("factors need windows on continuous columns, reflected at bounds; use factors=None")
        if isinstance(self.factors, str):
            log_f = density.log_density(rows)
            return np.exp(-self.sensitivity * (log_f - w @ log_f))
        given = np.asarray(self.factors)
        if given.dtype.kind not in "biuf" or given.shape != (n,):
            raise ValueError(f"factors has shape {given.shape}, expected ({n},): one positive number a row")
        given = given.astype(np.float64)[kept]
        if not (np.isfinite(given) & (given > 0)).all():
            raise ValueError("factors must be positive and finite")
        return given

    # ------------------------------------------------------------------------------------ parameters
    def _categorical(self, d):
        if self.categorical is None:
            return np.array([], np.intp)
        columns = np.asarray(self.categorical)
        if columns.dtype == bool and columns.shape == (d,):
            return np.flatnonzero(columns)
        names = list(getattr(self, "feature_names_in_", []))
        if columns.dtype.kind in "UO" and set(columns.tolist()) <= set(names):
            return np.unique([names.index(c) for c in columns.tolist()])
        whole = columns.ndim == 1 and (columns.dtype.kind in "iu" or not columns.size)
        if not whole or (np.abs(columns + 0.5) > d).any():
            raise ValueError(f"categorical={self.categorical!r} must hold numbers or names of the {d} columns")
        return np.unique(columns.astype(np.intp) % d)

    def _smoothing(self, codes, w):
        counts = np.array([len(np.unique(c)) for c in codes.T])
        if self.smoothing is None:
            return shrinkage(codes, w, count_of(w, len(codes)))
        s = np.asarray(self.smoothing, np.float64)
        if s.shape not in ((), counts.shape) or not np.isfinite(s).all() or (s < 0).any():
            raise ValueError(
                f"smoothing={self.smoothing!r} must be one number from 0 to 1, or one a categorical column"
            )
        s, most = np.broadcast_to(s, counts.shape), (counts - 1) / counts
        if ((s > most + 1e-12) & (counts > 1)).any():
            raise ValueError(f"smoothing={self.smoothing!r} is more than (c - 1) / c = {most[counts > 1].min():.3g}, at which "
                             "all c categories of a column are equally likely")  # fmt: skip
        return np.minimum(s, most)

    def _limits(self, d):
        """Arrays of lower and upper bounds."""
        bounds = self.bounds
        if bounds is None:
            return np.full(d, -np.inf), np.full(d, np.inf)
        pairs = [bounds] if d == 1 and len(bounds) == 2 and not any(np.ndim(b) for b in bounds) else list(bounds)
        pairs = [(None, None) if p is None else p for p in pairs]
        if len(pairs) != d or any(np.shape(p) != (2,) for p in pairs):
            raise ValueError(f"bounds={bounds!r} must hold a pair (low, high) for each of the {d} columns")
        low = np.array([-np.inf if p[0] is None else p[0] for p in pairs], np.float64)
        high = np.array([np.inf if p[1] is None else p[1] for p in pairs], np.float64)
        if not (low < high).all():
            raise ValueError(f"bounds={bounds!r}: each lower bound must be less than its upper one")
        return low, high

    def _settings(self, rows):
        """What answers depend on beside what was found; later changes of parameters do not reach it."""
        d = rows.shape[1]
        low, high = self._limits(d)
        categorical = self._categorical(d)
        if np.isfinite(np.concatenate([low, high])).any():
            outside = np.flatnonzero(((rows < low) | (rows > high)).any(axis=0))
            if len(outside):
                j = outside[0]
                raise ValueError(
                    f"bounds: column {j} of X has entries outside ({low[j]:g}, {high[j]:g}); leave them out, or widen the bounds"
                )
            if len(categorical) and np.isfinite(np.concatenate([low[categorical], high[categorical]])).any():
                raise ValueError("bounds of categorical columns must be (None, None)")
        self._check_boundary(d, low, high)
        return {"kernel": self.kernel, "form": self.form, "algorithm": self.algorithm, "boundary": self.boundary,
                "low": low, "high": high, "categorical": categorical, "rtol": float(self.rtol),
                "atol": float(self.atol)}  # fmt: skip

    def _check_boundary(self, d, low, high):
        if self.boundary == "reflect":
            return
        ends = int(np.isfinite(low).sum() + np.isfinite(high).sum())
        if d > 1 or self.categorical is not None or ends != (2 if self.boundary == "beta" else 1):
            needs = "two finite bounds" if self.boundary == "beta" else "one finite bound"
            raise ValueError(f'boundary="{self.boundary}" needs one continuous column and {needs}; got bounds={self.bounds!r} '
                             f"and {d} columns")  # fmt: skip
        if self.kernel != "gaussian":
            raise ValueError(f'boundary="{self.boundary}" has windows of its own; leave out kernel={self.kernel!r}')
        if np.ndim(self.bandwidth):
            raise ValueError(f'boundary="{self.boundary}" needs one number as bandwidth, or a word')

    # ------------------------------------------------------------------------------------ answers
    def _rows(self, X):
        check_is_fitted(self)
        return dense(validate.prediction(self, X))

    def score_samples(self, X):
        """Logarithm of the density at rows X; -inf where it is 0."""
        rows = self._rows(X)
        found = self._density.log_density(rows, rtol=self.settings_["rtol"], atol=self.settings_["atol"])
        return found.astype(np.result_type(rows.dtype, self.X_fit_.dtype), copy=False)

    def score(self, X, y=None):
        """Total log-likelihood of rows X."""
        return float(np.sum(self.score_samples(X), dtype=np.float64))

    def sample(self, n_samples=1, random_state=None):
        """Exact draws from the density, (n_samples, d)."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be a whole number of at least 1")
        drawn = self._density.draw(generator(random_state), int(n_samples)).astype(self.X_fit_.dtype)
        return np.clip(drawn, self.settings_["low"], self.settings_["high"], dtype=drawn.dtype)

    def cdf(self, X):
        """Distribution function at rows X: the probability of no column being larger."""
        rows, density = self._rows(X), self._density
        if isinstance(density, MixedDensity):
            raise ValueError("cdf needs columns with an order; this density has categorical ones")
        if isinstance(density, WindowDensity) and rows.shape[1] > 1:
            product = density.form == "product" or density.shape.name == "gaussian"
            if not product or density.root.ndim == 2:
                raise ValueError('cdf in several columns needs form="product" (or a Gaussian) and no bandwidth matrix')
        return density.cdf(rows).astype(np.result_type(rows.dtype, self.X_fit_.dtype), copy=False)

    def quantile(self, q):
        """Quantiles of a density of one column, of the shape of q; 0 and 1 give the ends of the density."""
        check_is_fitted(self)
        q = np.asarray(q, np.float64)
        if self.n_features_in_ != 1 or isinstance(self._density, MixedDensity):
            raise ValueError(f"quantile needs one continuous column; there are {self.n_features_in_} columns")
        if not ((q >= 0) & (q <= 1)).all():
            raise ValueError("q must lie between 0 and 1")
        low, high = self._density.support()
        found = self._bisected(q.ravel())
        return np.where(q.ravel() == 0, low, np.where(q.ravel() == 1, high, found)).reshape(q.shape)

    def _bisected(self, q):
        low, high = (np.full(len(q), end) for end in self._density.bracket())
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            if ((middle <= low) | (middle >= high)).all():
                break
            below = self._density.cdf(middle[:, None]) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def loo_log_density(self):
        """Logarithm of the density at each row of the fit by the windows of the others; -inf where none is near."""
        check_is_fitted(self)
        if self.solver_used_ == "compressed":
            raise ValueError(
                "a compressed copy has not the rows of the fit, which leaving one out needs; ask the model itself"
            )
        if len(self.X_fit_) < 2:
            raise ValueError("leaving one row out needs another; n_samples=1")
        return left_out(self._density, self.X_fit_, self.factors_, self.total_weight_)

    def entropy(self):
        """Differential entropy in nats by leaving one row out: minus the mean of `loo_log_density`."""
        return -float(self.weights_ @ self.loo_log_density())

    # ------------------------------------------------------------------------------------ a sum of windows
    @property
    def expansion_(self) -> Expansion:
        """The density as an expansion: kernel, rows, and weights times the factor that makes the window a density."""
        check_is_fitted(self)
        kernel = self._window()
        log_factor = self._density.shape.log_constant(self.n_features_in_, self._density.form) - self._density.volume
        weights = (self.weights_ * np.exp(log_factor)).astype(self.X_fit_.dtype)
        return Expansion(kernel, self.X_fit_, weights[:, None], np.zeros(1))

    def _window(self) -> Kernel:
        """The window as a kernel, where one window of one bandwidth stands around every row."""
        density, h = self._density, self.bandwidth_
        why = None
        if not isinstance(density, WindowDensity):
            why = "windows on categories, and beta and gamma windows, are no kernel of two rows"
        elif density.bounds is not None or density.factors is not None:
            why = "windows that are reflected, or have bandwidths of their own, are not one kernel at all rows"
        elif np.ndim(h) == 2 and density.shape.name != "gaussian":
            why = f"there is no {density.shape.name} kernel with a bandwidth matrix"
        if why is not None:
            raise AttributeError(f"this density is no kernel expansion: {why}")
        if np.ndim(h) == 2:
            return RBF(covariance=h)
        return density.shape.kernel(lengthscale=h, form=density.form)

    _coefficients_are_masses = True  # a compressed copy is a density too

    def _with_expansion(self, centres, coefficients):
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        kept = np.flatnonzero(coefficients[:, 0] > 0)
        w = coefficients[kept, 0].astype(np.float64)
        new.X_fit_, new.weights_, new.solver_used_ = centres[kept], w / w.sum(), "compressed"
        new._density = _build(new.X_fit_, new.weights_, self.bandwidth_, None, None, self.settings_, engine_of(self))
        return new

    def explain(self):
        """How windows are summed, and why."""
        check_is_fitted(self)
        return self._density.explain(self.settings_["rtol"], self.settings_["atol"])

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_density", None)  # made again from what was found
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "solver_used_" in state:
            found = self.bandwidth_, self.factors_, self.smoothing_, self.settings_
            self._density = _build(self.X_fit_, self.weights_, *found, engine_of(self))


def _build(X, w, bandwidth, factors, smoothing, settings, engine) -> Any:
    """The density of rows, bandwidths and settings."""
    low, high, columns = settings["low"], settings["high"], settings["categorical"]
    if settings["boundary"] != "reflect":
        return EdgeDensity(np.asarray(X[:, 0], np.float64), w, bandwidth, low[0], high[0])
    continuous = np.setdiff1d(np.arange(X.shape[1]), columns)
    make = partial(_windows, np.ascontiguousarray(X[:, continuous]), bandwidth, factors,
                   low[continuous], high[continuous], settings, engine)  # fmt: skip
    return MixedDensity(X, w, columns, smoothing, make) if len(columns) else make(slice(None), w)


def _windows(X, bandwidth, factors, low, high, settings, engine, rows, w):
    """Windows around some of the rows."""
    bounds = Bounds(low, high) if np.isfinite(np.concatenate([low, high])).any() else None
    return WindowDensity(X[rows], w, root_of(bandwidth, X.shape[1]), shape_of(settings["kernel"]), settings["form"],
                         None if factors is None else factors[rows], settings["algorithm"], bounds, engine)  # fmt: skip

"""Regression by a Gaussian mixture of rows and targets (M19)."""

import warnings
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning as PeerConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from mercer import validate
from mercer.errors import ConvergenceWarning
from mercer.estimators.base import dense_rows, forget
from mercer.estimators.mixins import RegressorMixin
from mercer.kernels.normals import Until, fit_mixture, log_joint, patterns
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers.joint_mixtures import (
    GaussianConditionals,
    PointConditionals,
    conditional_log_density,
    conditional_moments,
    conditional_sample,
)
from mercer.solvers.mixtures import RowMixtures
from mercer.threads import one_thread_blas

__all__ = ["MixtureRegression"]

_ENTRIES = 2**20  # of one array while queries are answered
_WIDEST = 1e100  # in units of the columns; farther queries are answered as from here, since squares must be numbers
_PATIENCE = 2  # numbers of components without a better BIC, after which the search ends


@register_estimator
class MixtureRegression(RegressorMixin, BaseEstimator):
    r"""Regression by a Gaussian mixture of (x, t): the whole conditional distribution, which may have several modes.

    .. math:: p(t|x) = \sum_k p(k|x)\, N(t;\, \mu_k(x), C_k), \qquad p(k|x) \propto \pi_k N(x;\, \mu_{k}, \Sigma_{k})

    Each component is a linear regression with its own noise, and gates say which of them answer at x. scikit-learn's
    GaussianMixture fits the joint density by EM, in columns of mean 0 and variance 1. One component is linear
    regression; one at each row is Nadaraya and Watson's estimator with Gaussian windows.

    Parameters
    ----------
    n_components : number of components; "bic", the one with the smallest Bayesian information criterion among 1, 2, ...
        `max_components` (the search ends after two numbers in turn that are no better); None for one component at each
        row, of the width `bandwidth`.
    bandwidth : a pair (h_x, h_t) of standard deviations, each a number or one per column; used with n_components=None.
    max_components : the largest number that "bic" tries.
    covariance_type, tol, reg_covar, max_iter, n_init, init_params : of scikit-learn's GaussianMixture. Columns have variance
        1, so that `reg_covar` is relative to the variances, and "spherical" means spheres in these units.
    missing : "raise" refuses NaN in X; "marginalise" takes it for a missing entry, in the fit (by EM, with "full" or "diag"
        covariances) and in questions, which are then answered from the entries that are there.
    random_state : of the starts of EM.
    memory : how many bytes the rows may take when sparse ones are made dense; `memory="2GB"`.

    Attributes
    ----------
    n_components_, weights_, means_, covariances_ : the joint mixture, columns of x before those of t.
    bic_ : criterion of 1, 2, ... components, with n_components="bic".
    n_iter_, converged_ : of EM.
    solver_used_ : "em" or "points".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import MixtureRegression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, 300)
    >>> t = np.where(rng.random(300) < 0.5, x, -x) + 0.05 * rng.standard_normal(300)  # two branches
    >>> model = MixtureRegression(2, n_init=5, random_state=0).fit(x[:, None], t)
    >>> model.predict_quantiles([[0.8]], [0.1, 0.9]).round(1).tolist()
    [[-0.8, 0.8]]

    Ghahramani & Jordan (1994), Supervised learning from incomplete data via an EM approach.
    """

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"bic"}), None],
        "bandwidth": ["array-like", None],
        "max_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({"full", "tied", "diag", "spherical"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "reg_covar": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions({"kmeans", "k-means++", "random", "random_from_data"})],
        "missing": [StrOptions({"raise", "marginalise"})],
        "random_state": ["random_state", np.random.Generator],
        "memory": [str, Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(self, n_components="bic", *, bandwidth=None, max_components=10, covariance_type="full", tol=1e-3,
                 reg_covar=1e-6, max_iter=100, n_init=1, init_params="kmeans", missing="raise", random_state=None,
                 memory=None):  # fmt: skip
        self.n_components = n_components
        self.bandwidth = bandwidth
        self.max_components = max_components
        self.covariance_type = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.missing = missing
        self.random_state = random_state
        self.memory = memory

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "marginalise"
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "solver_used_")

    # ------------------------------------------------------------------------------------ fit
    def fit(self, X, y) -> "MixtureRegression":
        """Fit the joint density of rows X (n, d) and targets y (n,) or (n, t)."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        self._reads_ = "gaps" if self.missing == "marginalise" else "vectors"
        rows, y, *_ = validate.training(self, X, y, None, self._reads_, y_numeric=True, multi_output=True)
        rows, self._flat_ = dense_rows(rows, self.memory), y.ndim == 1
        self._refuse_gaps(rows)
        T = np.asarray(y, np.float64).reshape(len(y), -1)
        if not np.isfinite(T).all():
            raise ValueError("y holds numbers that are not finite as float64; rescale y")
        return self._fit_points(rows, T) if self.n_components is None else self._fit_em(rows, T)

    def _refuse_gaps(self, rows):
        if not np.isnan(rows).any():
            return
        if self.n_components is None:
            raise ValueError("X holds NaN: n_components=None compares whole rows; give a number of components")
        if self.covariance_type not in ("full", "diag"):
            raise ValueError(f"X holds NaN: covariance_type={self.covariance_type!r} has no EM with missing entries; use "
                             '"full" or "diag"')  # fmt: skip
        if np.isnan(rows).all(axis=0).any():
            raise ValueError(f"column {int(np.isnan(rows).all(axis=0).argmax())} of X holds NaN alone; drop it")

    def _fit_points(self, rows, T):
        h_x, h_t = self._bandwidths(rows.shape[1], T.shape[1])
        self.units_ = np.concatenate([h_x, h_t])
        with np.errstate(over="ignore"):
            Z = np.concatenate([rows, T], axis=1) / self.units_
        if not (np.abs(Z) < _WIDEST).all():
            raise ValueError(
                f"bandwidth={self.bandwidth!r} is more than {_WIDEST:.0e} times smaller than the data; rescale"
            )
        self.centre_, self.spread_ = Z.mean(axis=0), np.ones(Z.shape[1])
        return self._store(None, Z - self.centre_, True, 1, "points")

    def _bandwidths(self, d, t):
        if self.bandwidth is None:
            raise ValueError("n_components=None is one component at each row and needs bandwidth=(h_x, h_t)")
        pair = list(self.bandwidth) if isinstance(self.bandwidth, (tuple, list, np.ndarray)) else []
        if len(pair) != 2:
            raise ValueError(f"bandwidth={self.bandwidth!r} must be a pair (h_x, h_t)")
        widths = []
        for h, name, size in zip(pair, ("h_x", "h_t"), (d, t), strict=True):
            try:
                widths.append(np.broadcast_to(np.asarray(h, np.float64), (size,)).copy())
            except (TypeError, ValueError):
                raise ValueError(f"{name} of bandwidth must be a number or {size} numbers, got {h!r}") from None
            if not (np.isfinite(widths[-1]) & (widths[-1] > 0)).all():
                raise ValueError(f"{name} of bandwidth must be positive and finite, got {h!r}")
        return widths

    def _fit_em(self, rows, T):
        self.units_, self.centre_, self.spread_ = _standard(np.concatenate([rows, T], axis=1))
        Z = self._in_units(np.concatenate([rows, T], axis=1), slice(None))
        least = self.n_components if self.n_components != "bic" else 1
        if len(Z) < max(2, least):
            raise ValueError(f"n_samples={len(Z)} should be >= {max(2, least)} for n_components={self.n_components!r}")
        seed = int(generator(self.random_state).integers(2**31))
        found = self._em(Z, least, seed) if self.n_components != "bic" else self._by_bic(Z, seed)
        if not found.converged_:
            warnings.warn(
                f"EM has not reached tol={self.tol} in max_iter={self.max_iter} steps; raise max_iter, or n_init",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self._store(found, None, bool(found.converged_), int(found.n_iter_), "em")

    def _em(self, Z, k, seed):
        from sklearn.mixture import GaussianMixture  # brings scikit-learn's clusters, neighbours, trees ...

        if np.isnan(Z).any():
            starts = np.random.SeedSequence(seed).generate_state(self.n_init)
            ends = [_GapMixture(Z, k, self, int(start)) for start in starts]
            return max(ends, key=lambda end: end.log_likelihood)
        settings = ("covariance_type", "tol", "reg_covar", "max_iter", "n_init", "init_params")
        model = GaussianMixture(k, random_state=seed, **{name: getattr(self, name) for name in settings})
        # One thread: steps are short, and results the same on all machines. Of convergence we tell ourselves; that equal
        # rows make one cluster for a start is no harm.
        with warnings.catch_warnings(), one_thread_blas(), threadpool_limits(1, user_api="openmp"):
            warnings.simplefilter("ignore", PeerConvergenceWarning)
            return model.fit(Z)

    def _by_bic(self, Z, seed):
        """The best of 1, 2, ... components."""
        best, scores, units = None, [], 2.0 * len(Z) * (np.log(self.units_) + np.log(self.spread_)).sum()
        for k in range(1, min(self.max_components, len(Z)) + 1):
            model = self._em(Z, k, seed)
            scores.append(model.bic(Z) + units)
            best = model if scores[-1] == min(scores) else best
            if k - int(np.argmin(scores)) > _PATIENCE:
                break
        self.bic_ = np.array(scores)
        return best

    def _store(self, found, Z, converged, n_iter, used):
        """Fitted state; the last attribute makes the estimator fitted."""
        d = self.n_features_in_
        if found is None:
            self._fit: Any = PointConditionals(Z[:, :d], Z[:, d:])
            self.n_components_ = len(Z)
        else:
            self._fit = GaussianConditionals(found.weights_, found.means_, _full(found), d)
            self._joint_ = (found.weights_, found.means_, _full(found))
            self.n_components_ = len(found.weights_)
        self.converged_, self.n_iter_ = converged, n_iter
        self.solver_used_ = used
        return self

    # ------------------------------------------------------------------------------------ units
    def _in_units(self, A, columns):
        with np.errstate(over="ignore"):
            Z = (A / self.units_[columns] - self.centre_[columns]) / self.spread_[columns]
        return np.clip(Z, -_WIDEST, _WIDEST)

    @property
    def _targets(self):
        """Units, centre and spread of the targets."""
        return (a[self.n_features_in_ :] for a in (self.units_, self.centre_, self.spread_))

    def _tiles(self, X):
        """Rows of a question in units of the columns, some at a time; and their precision."""
        check_is_fitted(self)
        rows = validate.prediction(self, X, self._reads_)
        dtype, dense = rows.dtype, dense_rows(rows, self.memory)
        step = max(1, _ENTRIES // (self.n_components_ * len(self.units_)))
        Q = self._in_units(dense, slice(0, self.n_features_in_))
        tiles = []
        for group, seen in patterns(Q):
            model = self._conditionals(seen)
            tiles += [
                _Tile(model, Q[np.ix_(some, seen)], some) for some in np.split(group, range(step, len(group), step))
            ]
        return tiles, dtype

    def _conditionals(self, seen):
        """p(t|x) given some of the columns of x."""
        d = self.n_features_in_
        if len(seen) == d:
            return self._fit
        weights, means, covariances = self._joint_
        columns = np.append(seen, np.arange(d, means.shape[1]))
        return GaussianConditionals(weights, means[:, columns], covariances[:, columns[:, None], columns], len(seen))

    @staticmethod
    def _answers(tiles, ask):
        """Answers to tiles, or tuples of them, in the order of the rows."""
        order = np.argsort(np.concatenate([tile.rows for tile in tiles]))
        parts = [ask(tile) for tile in tiles]
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(p)[order] for p in zip(*parts, strict=True))
        return np.concatenate(parts)[order]

    def _one_target(self, verb):
        check_is_fitted(self)
        if len(self.units_) - self.n_features_in_ > 1:
            raise ValueError(f"{verb} needs one target, but y had {len(self.units_) - self.n_features_in_} columns")

    # ------------------------------------------------------------------------------------ the joint mixture
    @property
    def weights_(self) -> np.ndarray:
        """Weights (K,) of the components."""
        check_is_fitted(self)
        return (
            np.full(self.n_components_, 1.0 / self.n_components_) if self.solver_used_ == "points" else self._joint_[0]
        )

    @property
    def means_(self) -> np.ndarray:
        """Means (K, d + t) of the components."""
        check_is_fitted(self)
        points = self.solver_used_ == "points"
        Z = np.concatenate([self._fit.Z, self._fit.T], axis=1) if points else self._joint_[1]
        return self.units_ * (self.centre_ + self.spread_ * Z)

    @property
    def covariances_(self) -> np.ndarray:
        """Covariances (K, d + t, d + t) of the components; a single one (1, d + t, d + t) where all are equal."""
        check_is_fitted(self)
        C = np.eye(len(self.units_))[None] if self.solver_used_ == "points" else self._joint_[2]
        unit = self.units_ * self.spread_
        with np.errstate(over="ignore", under="ignore"):
            return C * unit[:, None] * unit

    # ------------------------------------------------------------------------------------ answers
    def predict(self, X, return_std=False, return_cov=False):
        """Conditional means (m,) or (m, t); then the standard deviations of the same shape, or covariances (m, t, t)."""
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are two questions; ask for one of them")
        tiles, dtype = self._tiles(X)
        mean, cov = self._answers(tiles, lambda tile: conditional_moments(tile.model, tile.Q))
        units, centre, spread = self._targets
        mean = self._shaped(units * (centre + spread * mean)).astype(dtype)
        if return_cov:
            return mean, (cov * np.multiply.outer(units * spread, units * spread)).astype(dtype)
        if not return_std:
            return mean
        std = np.sqrt(np.maximum(np.diagonal(cov, axis1=1, axis2=2), 0.0)) * units * spread
        return mean, self._shaped(std).astype(dtype)

    def _shaped(self, T):
        return T[:, 0] if self._flat_ else T

    def predict_quantiles(self, X, q=(0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of p(t|x) for one target: (m, len(q)) for levels q in [0, 1], (m,) for a single number."""
        self._one_target("predict_quantiles")
        levels = np.asarray(q, np.float64)
        if levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"q={q!r} must be a number, or a list of numbers, from 0 to 1")
        tiles, dtype = self._tiles(X)
        found = self._answers(tiles, lambda tile: tile.mixtures().quantile(levels))
        units, centre, spread = self._targets
        found = (units * (centre + spread * found)).astype(dtype)
        return found[:, 0] if levels.ndim == 0 else found

    def sample(self, X, n_samples=1, random_state=None) -> np.ndarray:
        """Draws from p(t|x): (m, n_samples), for several targets (m, n_samples, t)."""
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be a whole number >= 1")
        tiles, dtype = self._tiles(X)
        rng = generator(random_state)
        drawn = self._answers(tiles, lambda tile: conditional_sample(tile.model, tile.Q, rng, int(n_samples)))
        units, centre, spread = self._targets
        drawn = (units * (centre + spread * drawn)).astype(dtype)
        return drawn[:, :, 0] if self._flat_ else drawn

    def log_density(self, X, t) -> np.ndarray:
        """log p(t|x) (m,) of targets t (m,) or (m, t), one for each row of X."""
        tiles, dtype = self._tiles(X)
        units, _, spread = self._targets
        T = np.asarray(t, np.float64)
        m = sum(len(tile.rows) for tile in tiles)
        if T.shape != (m, len(units)) and not (T.shape == (m,) and len(units) == 1):
            raise ValueError(
                f"t has shape {T.shape}, expected {(m,) if len(units) == 1 else (m, len(units))}: one a row"
            )
        if not np.isfinite(T).all():
            raise ValueError("t contains NaN or infinity")
        T = self._in_units(T.reshape(m, -1), slice(self.n_features_in_, None))
        found = self._answers(tiles, lambda tile: conditional_log_density(tile.model, tile.Q, T[tile.rows]))
        return (found - (np.log(units) + np.log(spread)).sum()).astype(dtype)


@dataclass(frozen=True, eq=False)
class _Tile:
    """Rows of a question, by number, that are answered together: their observed entries in units, and p(t|x) given these."""

    model: Any
    Q: np.ndarray
    rows: np.ndarray

    def mixtures(self):
        """p(t|x) of one target as mixtures, in units."""
        return RowMixtures(
            np.exp(self.model.log_gates(self.Q)), self.model.means(self.Q)[:, :, 0], self.model.factors[:, 0, 0]
        )


@dataclass(frozen=True)
class _Counted(Until):
    """Remembers how many steps there were, and whether they came to rest."""

    steps: list = field(default_factory=list)

    def climb(self, step, model):
        model, count, gain = self.run(step, model)
        self.steps.append((count, not gain))
        return model


class _GapMixture:
    """A mixture of rows with missing entries, with the attributes of scikit-learn's."""

    def __init__(self, Z, k, settings, seed):
        self.covariance_type = settings.covariance_type
        until = _Counted("MixtureRegression", settings.max_iter, settings.tol)
        found = fit_mixture(Z, None, k, self.covariance_type == "diag", settings.reg_covar, seed, until)
        self.n_iter_, self.converged_ = until.steps[-1]
        self.weights_, self.means_, self.covariances_ = found
        self.log_likelihood = float(special.logsumexp(log_joint(Z, found), axis=1).sum())

    def bic(self, Z):
        K, D = self.means_.shape
        width = D if self.covariance_type == "diag" else D * (D + 1) // 2
        return -2 * self.log_likelihood + (K - 1 + K * (D + width)) * np.log(len(Z))


def _standard(A):
    """A unit, and in this unit the mean and the standard deviation of each column; of equal numbers the deviation is 1."""
    top = np.nanmax(np.abs(A), axis=0)
    top[top == 0] = 1.0
    U = A / top
    centre, spread = np.nanmean(U, axis=0), np.nanstd(U, axis=0)
    spread[spread <= 1e-14] = 1.0  # rounding of the mean
    return top, centre, spread


def _full(found):
    """Covariances (K, D, D) of any covariance_type."""
    C, (K, D) = found.covariances_, found.means_.shape
    if found.covariance_type == "full":
        return C
    if found.covariance_type == "tied":
        return np.broadcast_to(C, (K, D, D)).copy()
    variances = C if found.covariance_type == "diag" else np.repeat(C[:, None], D, axis=1)
    return variances[:, :, None] * np.eye(D)

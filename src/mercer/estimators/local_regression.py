"""Locally weighted regression (M18): polynomials about each query, LOESS, bands and derivatives."""

import logging
import math
import warnings
from functools import cached_property
from numbers import Integral, Real

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import NumericalWarning
from mercer.estimators.base import forget
from mercer.estimators.mixins import RegressorMixin
from mercer.estimators.nadaraya_watson import WINDOWS, column_namer, dense_rows
from mercer.gram import budget
from mercer.gram.plan import require
from mercer.registry import register_estimator
from mercer.solvers.local import Smoother, Whitening, neighbour_radius, robustness, spreads, warn_degraded
from mercer.solvers.local_bandwidths import criteria, select_smoothing
from mercer.solvers.windows import shape_of

__all__ = ["LocalRegression"]

logger = logging.getLogger("mercer")

_ENTRIES = 2**21  # weights that are held at a time


@register_estimator
class LocalRegression(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Locally weighted polynomial regression, LOESS included.

    At a query x the polynomial p of the given degree that minimises

    .. math:: \sum_i w_i\, K_h(x_i - x)\, (t_i - p(x_i - x))^2

    answers with p(0), and its slope is the estimate of the derivative. Answers are linear in the targets, y(x) = sum l_i(x) t_i;
    degree 0 is Nadaraya-Watson regression. Where the rows in a window are too few or too alike for the degree, the terms
    that they do not tell apart are left out, the highest degree first; where there is no row in it, the nearest training
    rows answer; one warning says how often.

    Parameters
    ----------
    degree : of the polynomials, in all columns together.
    bandwidth : of the window: a number, one for each column, or a matrix H that stands for a covariance, so that h means h² I;
        "mad", the normal reference rule; or one for each column by "loo", the leave-one-out error, "gcv", generalised
        cross-validation, or "aicc", the corrected AIC of Hurvich, Simonoff & Tsai (1998).
    span : share of the rows in each window (LOESS): it ends at the ceil(span n)-th nearest row. Takes the place of `bandwidth`.
    kernel : the window: "gaussian", "tricube", "exponential", "epanechnikov", "biweight", "triangular", "boxcar" or "cosine";
        None: the Gaussian with a bandwidth, the tri-cube with a span.
    form : "radial", of the distance; "product", over the columns.
    robust : how many times rows are weighted anew by the size of their residuals (Cleveland 1979, bisquare weights). With several
        targets a row counts as much as its worst residual allows.
    standardize : whether `span` measures distances of several columns in units of their spread.
    memory : how many bytes `weights` may take, "2GB".

    Attributes
    ----------
    bandwidth_ : the bandwidth; with `span`, the unit of each column.
    bandwidth_rows_ : how many rows a word was applied to; "loo", "gcv" and "aicc" look at a seeded sample of many.
    X_fit_, y_fit_, weight_fit_, robust_fit_ : rows, targets, their weights, and those of robust iterations (or None).
    effective_dof_, residual_dof_ : tr(L) and tr((I - L)(I - L)^T) of the smoother matrix L.
    sigma_ : standard deviation of the noise, for each target. loo_residuals_ : each row's error when it is left out.
    gcv_, aicc_ : criteria of the fit; several targets are added. All these are computed when they are first asked for.
    solver_used_ : "bandwidth" or "span".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LocalRegression
    >>> x = np.linspace(0, 1, 21)[:, None]
    >>> model = LocalRegression(1, bandwidth=0.3).fit(x, 2 * x[:, 0] + 1)
    >>> model.predict([[0.5], [1.2]]).round(10).tolist()
    [2.0, 3.4]
    >>> model.derivative([[0.5]]).round(10).tolist()
    [[2.0]]

    Cleveland (1979); Cleveland & Devlin (1988); Fan & Gijbels (1996).
    """

    _parameter_constraints: dict = {
        "degree": [Interval(Integral, 0, 10, closed="both")],
        "bandwidth": [
            Interval(Real, 0, None, closed="neither"),
            "array-like",
            StrOptions({"mad", "loo", "gcv", "aicc"}),
        ],
        "span": [Interval(Real, 0, 1, closed="right"), None],
        "kernel": [StrOptions(set(WINDOWS)), None],
        "form": [StrOptions({"radial", "product"})],
        "robust": [Interval(Integral, 0, None, closed="left")],
        "standardize": ["boolean"],
        "memory": [str, Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(self, degree=1, bandwidth="loo", *, span=None, kernel=None, form="radial", robust=0, standardize=True,
                 memory=None):  # fmt: skip
        self.degree = degree
        self.bandwidth = bandwidth
        self.span = span
        self.kernel = kernel
        self.form = form
        self.robust = robust
        self.standardize = standardize
        self.memory = memory

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "solver_used_")  # set last: an interrupted fit leaves an unfitted estimator

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X, y, sample_weight=None) -> "LocalRegression":
        """Keep rows X and targets y (n,) or (n, p), and find bandwidth and robust weights. Weights count as repetitions."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        rows, y, w, _ = validate.training(self, X, y, sample_weight, multi_output=True, y_numeric=True)
        rows = validate.owned(dense_rows(rows, self.memory), X)
        self._check_size(rows)
        h, seen = self._bandwidth(rows, np.asarray(y, np.float64).reshape(len(y), -1), w)
        dtype = np.float32 if y.dtype == np.float32 and rows.dtype == np.float32 else np.float64
        asked = {"degree": self.degree, "span": self.span, "kernel": self._window, "form": self.form}
        found = {"X_fit_": rows, "y_fit_": np.array(y, dtype), "weight_fit_": w, "robust_fit_": None, "bandwidth_": h,
                 "bandwidth_rows_": seen, "asked_": asked}  # fmt: skip
        for _ in range(self.robust):
            found["robust_fit_"] = _Fit(found).robust_weights()
        self._store(found)
        return self

    def _store(self, found):
        """Fitted state, in one call that no interrupt divides."""
        found["_fit"] = _Fit(found)
        vars(self).update(found, solver_used_="bandwidth" if self.span is None else "span")

    @property
    def _window(self):
        return self.kernel or ("gaussian" if self.span is None else "tricube")

    def _check_size(self, rows):
        """Moments of the polynomials must fit, for one query at least."""
        terms = math.comb(rows.shape[1] + self.degree, self.degree)
        what = f"a local polynomial of degree {self.degree} in {rows.shape[1]} columns, which has {terms} terms,"
        require(24 * terms**2, budget(self.memory), what, ["a lower degree", "fewer columns"])

    def _bandwidth(self, rows, Y, w):
        if self.span is not None:
            return self._units(rows, w), None
        if not isinstance(self.bandwidth, str):
            h = np.array(self.bandwidth, np.float64)
            return (float(h) if h.ndim == 0 else h), None
        shape = shape_of(self._window)
        found = select_smoothing(rows, Y, w, self.bandwidth, shape, self.form, self.degree, column_namer(self))
        return found.bandwidth, found.rows

    def _units(self, rows, w):
        """What distances of columns are measured in where windows have a share of the rows."""
        if rows.shape[1] == 1 or not self.standardize:
            return 1.0
        with warnings.catch_warnings():  # a column of few values has a standard deviation, and that serves as well
            warnings.simplefilter("ignore", NumericalWarning)
            found = spreads(rows, w)
        return np.where(found > 0, found, 1.0)

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_fit", None)  # made again from the rows
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "solver_used_" in state:
            self._fit = _Fit(vars(self))

    # ------------------------------------------------------------------------------------ answers
    def _rows(self, X):
        check_is_fitted(self)
        return dense_rows(validate.prediction(self, X), self.memory)

    def _shaped(self, values):
        values = np.asarray(values).astype(self.y_fit_.dtype)
        return values[..., 0] if self.y_fit_.ndim == 1 else values

    def _answers(self, X, **asked):
        rows = self._rows(X)
        found = self._fit.at(rows, **asked)
        warn_degraded(found, self._fit.degree, stacklevel=4)
        return found

    def predict(self, X, return_std=False):
        """Values of the curve (m,) or (m, p), and with `return_std` their standard errors: sigma_ |l(x)|."""
        found = self._answers(X, squares=return_std)
        values = self._shaped(found.values)
        return (values, self._shaped(self._errors(found))) if return_std else values

    def _errors(self, found):
        return np.sqrt(found.squares)[:, None] * self._fit.sigma

    def predict_interval(self, X, level=0.95):
        """(lower, upper): pointwise confidence limits of the curve, each (m,) or (m, p), from Student's distribution.

        They know the noise, and not the bias: where the curve bends within a window they cover its smoothed form.
        """
        if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
            raise ValueError(f"level={level!r} must lie between 0 and 1")
        found = self._answers(X, squares=True)
        half = stats.t.ppf(0.5 + 0.5 * level, max(self._fit.residual_dof, 1e-3)) * self._errors(found)
        return self._shaped(found.values - half), self._shaped(found.values + half)

    def derivative(self, X) -> np.ndarray:
        """Slopes of the local polynomials, (m, d) or (m, d, p)."""
        check_is_fitted(self)
        if self._fit.degree == 0:
            raise ValueError("local constants have no slope; derivative needs degree >= 1")
        found = self._answers(X)
        return self._shaped(self._fit.map.gradient(found.slopes))

    def weights(self, X) -> np.ndarray:
        """Effective weights (m, n): predictions are weights(X) @ y_fit_. They sum to 1 and may be negative."""
        rows = self._rows(X)
        m, n = len(rows), len(self.y_fit_)
        require(
            8 * m * n,
            budget(self.memory),
            f"weights of {n} rows for {m} queries",
            ["fewer queries at a time", "predict"],
        )
        warn_degraded(self._fit.at(rows), self._fit.degree)
        return self._fit.weights(rows)

    # ------------------------------------------------------------------------------------ the training rows
    @property
    def effective_dof_(self) -> float:
        """Trace of the smoother."""
        check_is_fitted(self)
        return self._fit.trace

    @property
    def residual_dof_(self) -> float:
        """tr((I - L)(I - L)^T): what the expected sum of squared residuals is divided by."""
        check_is_fitted(self)
        return self._fit.residual_dof

    @property
    def sigma_(self):
        """Standard deviation of the noise: a number, or one for each target."""
        check_is_fitted(self)
        found = self._fit.sigma
        return float(found[0]) if self.y_fit_.ndim == 1 else found

    @property
    def loo_residuals_(self) -> np.ndarray:
        """Targets minus what the other rows answer for them, with the same windows."""
        check_is_fitted(self)
        return self._shaped(self._fit.Y - self._fit.left_out)

    @property
    def loo_score_(self) -> float:
        """R² of the leave-one-out answers, the mean over targets."""
        from sklearn.metrics import r2_score

        check_is_fitted(self)
        return float(r2_score(self._fit.Y, self._fit.left_out, sample_weight=self.weight_fit_))

    @property
    def gcv_(self) -> float:
        """Generalised cross-validation: mean squared residual over (1 - tr(L) / n)²."""
        check_is_fitted(self)
        return self._fit.criteria["gcv"]

    @property
    def aicc_(self) -> float:
        """Corrected AIC: log of the mean squared residual + 1 + 2 (tr(L) + 1) / (n - tr(L) - 2)."""
        check_is_fitted(self)
        return self._fit.criteria["aicc"]


class _Fit:
    """Whitened rows and their smoother; what the training rows tell is computed once, when it is asked for."""

    def __init__(self, found):
        rows, asked = found["X_fit_"], found["asked_"]
        self.degree, self.span = asked["degree"], asked["span"]
        self.map = Whitening(found["bandwidth_"], rows)
        self.Z = self.map.apply(rows)
        y, w = found["y_fit_"], found["weight_fit_"]
        self.Y = y.reshape(len(y), -1).astype(np.float64)
        self.weight, self.given = (np.ones(len(y)), None) if w is None else (w, w)
        self.robust = found["robust_fit_"]
        mass = self.weight if self.robust is None else self.weight * self.robust
        self.smoother = Smoother(self.Z, self.Y, shape_of(asked["kernel"]), form=asked["form"], degree=self.degree, mass=mass,
                                 trust=self.weight)  # fmt: skip
        self.mass = mass

    def _radius(self, Z):
        return None if self.span is None else neighbour_radius(self.Z, Z, self.span, self.given)

    def at(self, rows, **asked):
        Z = self.map.apply(rows)
        return self.smoother.at(Z, self._radius(Z), **asked)

    def weights(self, rows):
        Z = self.map.apply(rows)
        return self.smoother.weights(Z, self._radius(Z))

    # ------------------------------------------------------------------------------------ the training rows
    @cached_property
    def own_radius(self):
        return self._radius(self.Z)

    @cached_property
    def known(self):
        return self.smoother.at(self.Z, self.own_radius, squares=True)

    @cached_property
    def left_out(self):
        return self.smoother.at(self.Z, self.own_radius, own=np.arange(len(self.Z)), leave_out=True).values

    @cached_property
    def leverage(self):
        """Weights of rows in their own answers."""
        return self.known.own * self.mass / self.mass.max()

    @cached_property
    def trace(self):
        return float(self.leverage.sum())

    @cached_property
    def residual_dof(self):
        return float(max(self.weight.sum() - 2.0 * self.trace + self.weight @ self.known.squares, 0.0))

    @cached_property
    def criteria(self):
        return criteria(self.Y - self.known.values, self.leverage, self.weight)

    @cached_property
    def sigma(self):
        """Root of the residual sum of squares over its degrees of freedom; with robust weights, from the median residual."""
        n, free = float(self.weight.sum()), self.residual_dof
        if free <= 1e-8 * n:
            warnings.warn("there are as many degrees of freedom as rows: the noise cannot be told from the curve, and sigma_ "
                          "counts as infinite; a larger bandwidth helps", NumericalWarning, stacklevel=4)  # fmt: skip
            return np.full(self.Y.shape[1], np.inf)
        residuals = self.Y - self.known.values
        if self.robust is not None:
            return spreads(np.vstack([residuals, -residuals]), np.tile(self.weight, 2)) * math.sqrt(n / free)
        size = np.maximum(np.abs(residuals).max(axis=0), np.finfo(np.float64).tiny)
        return size * np.sqrt(self.weight @ (residuals / size) ** 2 / free)

    def robust_weights(self):
        return robustness(self.Y - self.smoother.at(self.Z, self.own_radius).values, self.Y, self.weight)

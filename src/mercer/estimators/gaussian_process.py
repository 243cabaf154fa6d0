"""Gaussian process regression (M20)."""

import warnings
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import NotPSDError
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, forget, lazily
from mercer.estimators.charts import by_column
from mercer.estimators.evidence import Settings, climb, read_bounds, value_at
from mercer.estimators.expansion import Expansion
from mercer.gram import gram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.kernels import RBF, White
from mercer.kernels.sklearn_gp import from_sklearn, is_sklearn_kernel
from mercer.linalg import safe_cholesky, smallest_eigenvalue
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers.gaussian import LeaveOneOut, Posterior, independent, posterior

__all__ = ["SEARCH", "GaussianProcess", "GaussianProcessRegressor", "learned_noise", "spread", "symmetric"]

_QUERIES = 1024  # new rows at a time
_LEAST = 1e-10  # of the variance of the targets: the smallest noise that is learned
_MATRICES = 3  # n x n numbers that an evaluation of the evidence with its slope holds

SEARCH = {  # parameters of every estimator that learns its kernel by evidence
    "optimizer": [StrOptions({"fmin_l_bfgs_b"}), callable, None],
    "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
    "bounds": [dict, None],
    "priors": [dict, None],
    "ard": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}


class GaussianProcess(KernelEstimator):
    """What Gaussian processes share: where the search of the kernel starts and how it goes, and new rows in float64."""

    def _refuse_precomputed(self):
        if self._precomputed:
            raise ValueError(
                'kernel="precomputed" has no rows to be uncertain of; pass a kernel, or use KernelRidge or SVC'
            )

    def _kernel(self):
        return RBF("median") if self.kernel is None else super()._kernel()

    def _start(self, rows, scale):
        """The kernel to begin with; one that was not given has a scale."""
        kernel = self._kernel()._resolved(rows, None)
        refuse_indefinite(kernel, rows)
        kernel = scale * kernel if self.kernel is None else kernel
        return by_column(kernel, rows, "ard=True") if self.ard else kernel

    def _settings(self, kernel, extra):
        given = from_sklearn(self.kernel)[1] if is_sklearn_kernel(self.kernel) else {}
        limits, fixed = read_bounds({**given, **(self.bounds or {})}, kernel, extra)
        if "alpha" in extra and "alpha" not in limits:
            limits["alpha"] = (_LEAST * 10 * extra["alpha"], 1e2 * extra["alpha"])
        return Settings(self.optimizer, self.n_restarts_optimizer, limits, fixed, dict(self.priors or {}), self.max_iter,
                        self.random_state, self.engine, self.memory)  # fmt: skip

    def _require_room(self, n, kernel, rows, matrices):
        K = gram(kernel, rows, engine=self.engine, memory=self.memory, validated=True)
        remedies = [
            "fewer rows",
            "KernelRidge or KernelLogistic with n_landmarks=1000",
            'a larger budget, memory="64GB"',
        ]
        require(
            8 * matrices * n * n, budget(self.memory), f"{type(self).__name__} of {n} rows", remedies, K.plan.seconds
        )

    def _keep(self, found, rows):
        self.kernel_, self.X_fit_ = found.kernel, rows
        self._gram = gram(self.kernel_, rows, engine=self.engine, memory=self.memory, validated=True)
        self.theta_, self.bounded_ = found.z, found.at_bounds
        self.n_iter_, self.converged_ = max(1, len(found.trace)), found.converged

    def _value_at(self, evaluate, kernel, extra, theta, eval_gradient):
        settings, rows = self._settings(kernel, extra), self.X_fit_
        chart = climb(evaluate, kernel, rows, extra, replace(settings, optimizer=None)).chart
        theta = self.theta_ if theta is None else np.asarray(theta, np.float64)
        value, slope = value_at(evaluate, chart, rows, extra, settings, theta, slope=eval_gradient)
        return (value, slope) if eval_gradient else value

    def __getstate__(self):
        state = super().__getstate__()
        state.pop("_fit", None)  # n x n numbers, which are made again when they are needed
        return state

    def _asked(self, X):
        """New rows in float64, and the precision of answers."""
        check_is_fitted(self)
        rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
        return validate.double(rows), np.float32 if getattr(rows, "dtype", None) == np.float32 else np.float64

    def _groups(self, rows):
        n = validate.n_rows(rows)
        return [np.arange(i, min(i + _QUERIES, n)) for i in range(0, n, _QUERIES)]


@register_estimator
class GaussianProcessRegressor(MultiOutputMixin, RegressorMixin, GaussianProcess):
    r"""Gaussian process regression: a posterior over functions, with the kernel learned by the evidence.

    .. math:: y = h(x)^T \beta + f(x) + \varepsilon, \qquad f \sim \mathcal{GP}(0, k), \quad
              \varepsilon \sim \mathcal{N}(0, \alpha), \quad p(\beta) \propto 1

    The parameters of the kernel and the noise maximise the marginal likelihood; beta is integrated out in closed form.

    Parameters
    ----------
    kernel : a mercer kernel, one of scikit-learn's Gaussian process kernels, or a word. None: var(y) * RBF("median").
    gamma, degree, coef0, kernel_params : parameters of kernels given by word, as in scikit-learn.
    alpha : variance of the noise: a number, one for each row, or "learn": estimated with the kernel, unless that has a `White`
        term, which then is the noise.
    mean : "constant", "zero", "linear", or a function from rows to columns (n, q): what the mean is a combination of.
    ard : whether every lengthscale becomes one for each column.
    optimizer, n_restarts_optimizer, max_iter : "fmin_l_bfgs_b", None to keep the kernel as it is, or a function as in
        scikit-learn; further starts at random places; iterations of a search.
    bounds : {parameter: (low, high) or "fixed"}, `alpha` included. Others stay within a factor of 1e4 of where they start.
    priors : {parameter: distribution with a `logpdf`}, for example from scipy.stats; their logs are added to the evidence.
    normalize_y : whether targets are shifted and scaled to mean 0 and variance 1 for the fit.
    random_state : seed of the further starts.
    engine, memory : how and within how many bytes Grams are computed.

    Attributes
    ----------
    kernel_, alpha_ : the kernel and the variance of the noise that were found.
    log_marginal_likelihood_value_ : log evidence there (with a mean, of what it leaves of the targets).
    beta_ : coefficients (q,) or (q, p) of the mean's columns.
    X_fit_, dual_coef_, intercept_, expansion_ : the posterior mean as an expansion.
    theta_, bounded_, n_iter_, converged_ : logs of the parameters, those at a bound, evaluations, and whether the search ended.
    jitter_ : what had to be added to the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GaussianProcessRegressor
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = GaussianProcessRegressor().fit(X, np.sin(X[:, 0]))
    >>> mean, sd = model.predict([[1.5], [20.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 1e-3), bool(sd[0] < 0.01 < sd[1])
    (True, True)

    Rasmussen & Williams (2006), Gaussian Processes for Machine Learning.
    """

    _parameter_constraints = {
        **{name: allowed for name, allowed in CONSTRAINTS.items() if name != "indefinite"},
        **SEARCH,
        "kernel": [str, callable, None],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"learn"}), "array-like"],
        "mean": [StrOptions({"constant", "zero", "linear"}), callable],
        "normalize_y": ["boolean"],
    }

    def __init__(self, kernel=None, *, alpha="learn", mean="constant", ard=False, gamma=None, degree=3, coef0=1,
                 kernel_params=None, optimizer="fmin_l_bfgs_b", n_restarts_optimizer=0, bounds=None, priors=None, max_iter=100,
                 normalize_y=False, random_state=None, engine=None, memory=None):  # fmt: skip
        self.kernel = kernel
        self.alpha = alpha
        self.mean = mean
        self.ard = ard
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.bounds = bounds
        self.priors = priors
        self.max_iter = max_iter
        self.normalize_y = normalize_y
        self.random_state = random_state
        self.engine = engine
        self.memory = memory

    # ------------------------------------------------------------------------------------ fitting
    def fit(self, X, y) -> "GaussianProcessRegressor":
        """Fit on rows X and targets y (n,) or (n, p); several outputs share the kernel and the noise."""
        rows, T, H, kernel, noise, extra = self._prepared(X, y)
        found = climb(self._evidence(noise, T, H), kernel, rows, extra, self._settings(kernel, extra))
        self._store(found, rows, noise, T, H)
        found.tell()
        return self

    def _prepared(self, X, y):
        """Rows, targets, mean functions, the kernel to begin with, relative noise, and the number that scales it."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        self._refuse_precomputed()
        rows, y, _ = self._validated_training(X, y, None, multi_output=True, y_numeric=True)
        rows, T = validate.double(rows), self._targets(y)
        H = self._basis(rows)
        kernel = self._start(rows, spread(T))
        self._require_room(len(T), kernel, rows, _MATRICES)
        return rows, T, H, kernel, *self._noise(kernel, T)

    def _targets(self, y):
        T = np.asarray(y, np.float64)
        self.single_output_ = T.ndim == 1
        T = T.reshape(len(T), -1)
        shift, scale = np.zeros(T.shape[1]), np.ones(T.shape[1])
        if self.normalize_y:
            shift, width = T.mean(axis=0), T.std(axis=0)
            scale = np.where(width > 0, width, 1.0)
        self.y_shift_, self.y_scale_ = shift, scale
        return (T - shift) / scale

    def _basis(self, rows):
        """Mean functions (n, q) of the training rows, those that depend on others left out."""
        self.mean_ = self.mean
        H = self._functions(rows)
        peak = np.abs(H).max(axis=0, initial=0.0)
        self.mean_units_ = np.where(peak > 0, peak, 1.0)
        self.mean_columns_ = independent(H / self.mean_units_)
        return self._mean_functions(rows)

    def _mean_functions(self, rows):
        """The mean's columns (m, q) of rows, in units in which those of the training rows are at most 1."""
        return (self._functions(rows) / self.mean_units_)[:, self.mean_columns_]

    def _functions(self, rows):
        n = validate.n_rows(rows)
        if callable(self.mean_):
            H = np.asarray(self.mean_(rows), np.float64).reshape(n, -1)
            if not np.isfinite(H).all():
                raise ValueError("mean(X) gave NaN or infinity; its columns must be finite numbers")
            return H
        if self.mean_ == "zero":
            return np.zeros((n, 0))
        if self.mean_ == "constant":
            return np.ones((n, 1))
        if getattr(rows, "ndim", 1) != 2:
            raise ValueError('mean="linear" needs rows of numbers; use "constant", "zero", or a function of the rows')
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        return np.hstack([np.ones((n, 1)), rows])

    def _noise(self, kernel, T):
        """Relative noise of the rows, and the number that scales it, if one does."""
        if isinstance(self.alpha, str):
            return learned_noise(kernel, T)
        alpha = np.asarray(self.alpha, np.float64)
        if alpha.ndim > 1 or (alpha.ndim == 1 and len(alpha) != len(T)):
            raise ValueError(f"alpha must be a number or one for each of the {len(T)} rows, got shape {alpha.shape}")
        if not np.isfinite(alpha).all() or alpha.min() < 0:
            raise ValueError("alpha must hold finite numbers >= 0")
        return alpha / float(self.y_scale_[0]) ** 2 if len(self.y_scale_) == 1 else alpha, {}

    @staticmethod
    def _evidence(noise, T, H):
        def evaluate(K, extra, slope):
            variance = noise * extra.get("alpha", 1.0)
            found = posterior(symmetric(K), variance, T, H, warn=False)
            if not slope:
                return found.evidence, None, {}
            W = found.slope(overwrite=True)
            return found.evidence, W, _by_noise(W, noise, extra)

        return evaluate

    @staticmethod
    def _left_out(noise, T, H):
        """Sum of the leave-one-out log densities, as something to climb."""

        def evaluate(K, extra, slope):
            found = posterior(symmetric(K), noise * extra.get("alpha", 1.0), T, H, warn=False)
            value = float(found.leave_one_out().log_probability.sum())
            if not slope:
                return value, None, {}
            W = found.loo_slope()
            return value, W, _by_noise(W, noise, extra)

        return evaluate

    def _store(self, found, rows, noise, T, H):
        self._keep(found, rows)
        self.alpha_, self.targets_ = noise * found.extra.get("alpha", 1.0), T
        self._fit = posterior(symmetric(self._gram), self.alpha_, T, H)
        scale = self.y_scale_
        coefficients, beta = (
            self._fit.coefficients * scale,
            self._fit.slopes * scale / self.mean_units_[self.mean_columns_, None],
        )
        self.dual_coef_, self.beta_ = (coefficients[:, 0], beta[:, 0]) if self.single_output_ else (coefficients, beta)
        self.log_marginal_likelihood_value_ = self._fit.evidence
        self.jitter_ = self._fit.factor.jitter
        self.solver_used_ = "exact"

    # ------------------------------------------------------------------------------------ answers
    @property
    def _posterior(self) -> Posterior:
        """The factor is not kept in files: it is made again."""
        check_is_fitted(self)
        if not hasattr(self, "_fit"):
            H = self._mean_functions(self.X_fit_)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # told at the fit
                self._fit = posterior(symmetric(self._gram), self.alpha_, self.targets_, H)
        return self._fit

    def predict(self, X, return_std=False, return_cov=False, noise=False):
        """Posterior mean (m,) or (m, p); with its standard deviation or covariance too, of f, or with `noise` of a target.

        Of several outputs std is (m, p) and cov (m, m, p), as in scikit-learn.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if not (return_std or return_cov):
            return self._means(X)
        rows, dtype = self._asked(X)
        mean = self._mean_of(rows, dtype)
        second = self._covariance(rows, noise) if return_cov else np.sqrt(self._variance(rows, noise))
        second = second[..., None] * (self.y_scale_**2 if return_cov else self.y_scale_)
        return mean, (second[..., 0] if self.single_output_ else second).astype(dtype)

    @lazily
    def _means(self, X):
        return self._mean_of(*self._asked(X))

    def _mean_of(self, rows, dtype):
        H = self._mean_functions(rows)
        found = self._posterior.mean(prepared_gram(self._gram, rows), H) * self.y_scale_ + self.y_shift_
        return (found[:, 0] if self.single_output_ else found).astype(dtype)

    def _variance(self, rows, noise):
        parts = [self._second(validate.take(rows, some), noise, pairs=False) for some in self._groups(rows)]
        return np.concatenate(parts)

    def _covariance(self, rows, noise):
        n = validate.n_rows(rows)
        require(
            24 * n * n, budget(self.memory), f"the covariance of {n} rows", ["fewer rows at a time", "return_std=True"]
        )
        return self._second(rows, noise, pairs=True)

    def _second(self, rows, noise, pairs):
        K = prepared_gram(self._gram, rows).dense()
        kernel = self.kernel_ if noise else noiseless(self.kernel_)
        own = gram(kernel, rows, engine=self.engine, memory=self.memory, validated=True)
        H = self._mean_functions(rows)
        found = self._posterior.covariance(K, symmetric(own) if pairs else own.diag().astype(np.float64), H)
        if not noise:
            return found
        alpha = float(np.mean(self.alpha_))  # of rows that were never seen
        return found + (alpha * np.eye(len(found)) if pairs else alpha)

    def sample_y(self, X, n_samples=1, random_state=0, noise=False) -> np.ndarray:
        """Draws (m, n_samples) from the posterior of f (with `noise`, of targets), (m, p, n_samples) of several outputs."""
        rows, dtype = self._asked(X)
        mean = self._mean_of(rows, np.float64).reshape(validate.n_rows(rows), -1)
        factor = safe_cholesky(self._covariance(rows, noise), overwrite=True, warn=False)
        z = generator(random_state).standard_normal((mean.shape[0], mean.shape[1] * n_samples))
        draws = (np.tril(factor.array) @ z).reshape(*mean.shape, n_samples) * self.y_scale_[:, None] + mean[:, :, None]
        return (draws[:, 0] if self.single_output_ else draws).astype(dtype)

    def weights(self, X) -> np.ndarray:
        """Equivalent kernel (m, n): the posterior mean is its product with the targets of the rows of `X_fit_`."""
        rows, dtype = self._asked(X)
        H = self._mean_functions(rows)
        return self._posterior.weights(prepared_gram(self._gram, rows).dense(), H).astype(dtype)

    def leave_one_out(self) -> LeaveOneOut:
        """Mean, variance and log density of each target given the others, in closed form, at the parameters found."""
        found, s = self._posterior.leave_one_out(), self.y_scale_
        mean, logs = found.mean * s + self.y_shift_, found.log_probability - np.log(s)
        variance = found.variance[:, None] * s**2
        if self.single_output_:
            return LeaveOneOut(mean[:, 0], variance[:, 0], logs[:, 0])
        return LeaveOneOut(mean, variance, logs)

    def log_marginal_likelihood(self, theta=None, eval_gradient=False):
        """Log evidence at `theta`, logs of the parameters as in `theta_` (None: those found), and its slope if asked for."""
        kernel = self._start(self.X_fit_, spread(self.targets_))
        noise, extra = self._noise(kernel, self.targets_)
        evaluate = self._evidence(noise, self.targets_, self._posterior.H)
        return self._value_at(evaluate, kernel, extra, theta, eval_gradient)

    @property
    def intercept_(self):
        """The constant of the mean."""
        check_is_fitted(self)
        if callable(self.mean_) or self.mean_ == "linear":
            raise AttributeError(f"mean={self.mean_!r} has more than a constant; see beta_")
        constant = (self.beta_[0] if len(self.beta_) else 0.0) + self.y_shift_
        return float(np.ravel(constant)[0]) if self.single_output_ else np.broadcast_to(constant, self.y_scale_.shape)

    @property
    def expansion_(self) -> Expansion:
        """The posterior mean as an expansion: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        coefficients = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        return Expansion(self.kernel_, self.X_fit_, coefficients, np.atleast_1d(self.intercept_))


def learned_noise(kernel, T):
    """Relative noise of the rows, and the number to learn that scales it: none where the kernel has noise of its own."""
    if any(isinstance(leaf, White) for leaf in kernel._leaves):
        return 0.0, {}
    return 1.0, {"alpha": 0.1 * spread(T)}


def spread(T):
    """Variance of the targets about their means, for units; 1 if they have none."""
    variance = float(np.nanvar(T, axis=0).mean())
    return variance if variance > np.finfo(float).tiny * 1e20 else 1.0


def refuse_indefinite(kernel, rows):
    """What is no covariance has no evidence. A kernel without certificate is tested on the rows."""
    validity = kernel.validity
    if validity.certified:
        return
    if validity.kind != "unknown":
        raise NotPSDError(f"{kernel!r} is not positive semi-definite ({validity.reason}), so that it is no covariance and has no "
                          "evidence; use another kernel")  # fmt: skip
    K = gram(kernel, rows, validated=True)
    smallest, _ = smallest_eigenvalue(K, np.random.default_rng(0))
    if smallest < -10 * K.shape[0] * np.finfo(float).eps * float(np.abs(K.diag()).max()):
        raise NotPSDError(f"{kernel!r} ({validity.reason}) is no covariance of these rows and has no evidence: its smallest "
                          f"eigenvalue is about {smallest:.3g}; use another kernel")  # fmt: skip


def noiseless(kernel):
    """The kernel with its white noise at 0: the covariance of f, not of targets."""
    from mercer.kernels.names import slots

    for slot in slots(kernel).values():
        if slot.field == "variance" and isinstance(kernel._at(slot.path), White):
            kernel = kernel._changed(slot.path, "variance", 0.0)
    return kernel


def _by_noise(W, noise, extra):
    """Slope in the number that scales the noise, if there is one."""
    return {"alpha": float((np.diagonal(W) * noise).sum())} if "alpha" in extra else {}


def symmetric(K) -> np.ndarray:
    """A Gram matrix in float64."""
    return K.dense().astype(np.float64, copy=False)

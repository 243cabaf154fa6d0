"""Gaussian process regression (M20)."""

import logging
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.engines import get_engine
from mercer.errors import NotPSDError
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, engine_of, forget, lazily
from mercer.estimators.charts import by_column
from mercer.estimators.evidence import Settings, climb, read_bounds, value_at
from mercer.estimators.expansion import Expansion
from mercer.estimators.gaussian_methods import METHODS, Exact, Observed, noiseless, symmetric
from mercer.estimators.landmarks import fresh_seed
from mercer.estimators.mixins import RegressorMixin
from mercer.estimators.plan import Problem, explanation, gaussian_plan, gaussian_rank, gaussian_ways
from mercer.gram import gram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.kernels import RBF, White
from mercer.kernels.sklearn_gp import from_sklearn, is_sklearn_kernel
from mercer.linalg import safe_cholesky, smallest_eigenvalue
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers.gaussian import LeaveOneOut, independent
from mercer.threads import thread_count

__all__ = ["SEARCH", "GaussianProcess", "GaussianProcessRegressor", "learned_noise", "spread"]

logger = logging.getLogger("mercer")

_QUERIES, _HELD = 1024, 2**24  # new rows at a time, and numbers of their Gram with the training rows
_LEAST, _LEAST_BY_PRODUCTS = 1e-10, 1e-7  # of the variance of the targets: the smallest noise that is learned
_SEARCHED = 60  # evaluations of the evidence in a search
_MATRICES = 3  # n x n numbers that an evaluation in closed form with its slope holds

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

    def _settings(self, kernel, extra, least=_LEAST):
        given = from_sklearn(self.kernel)[1] if is_sklearn_kernel(self.kernel) else {}
        limits, fixed = read_bounds({**given, **(self.bounds or {})}, kernel, extra)
        if "alpha" in extra and "alpha" not in limits:
            limits["alpha"] = (least * 10 * extra["alpha"], 1e2 * extra["alpha"])
        return Settings(self.optimizer, self.n_restarts_optimizer, limits, fixed, dict(self.priors or {}), self.max_iter,
                        self.random_state, engine_of(self), self.memory)  # fmt: skip

    def _require_room(self, n, kernel, rows, matrices):
        K = gram(kernel, rows, engine=engine_of(self), memory=self.memory, validated=True)
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
        self._gram = gram(self.kernel_, rows, engine=engine_of(self), memory=self.memory, validated=True)
        self.theta_, self.bounded_ = found.z[: found.chart.n_parameters], found.at_bounds
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
        n, step = validate.n_rows(rows), max(16, min(_QUERIES, _HELD // max(validate.n_rows(self.X_fit_), 1)))
        return [np.arange(i, min(i + step, n)) for i in range(0, n, step)]


def _in_closed_form(self):
    used = getattr(self, "solver_used_", "exact")
    if used != "exact":
        raise AttributeError(f'this needs a fit in closed form, method="exact"; this one is {used}')
    return True


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
    method : "exact"; "sparse", through inducing rows by a lower bound of the evidence; "iterative", by products with the Gram and
        an estimate of the evidence; or "auto": "exact" where that fits memory and an hour, else "sparse".
    n_inducing, inducing : how many inducing rows at most, and whether they "learn" where to be, together with the parameters, or
        stay "fixed" among the training rows, as those that are no arrays of numbers always do.
    optimizer, n_restarts_optimizer, max_iter : "fmin_l_bfgs_b", None to keep the kernel as it is, or a function as in
        scikit-learn; further starts at random places; iterations of a search.
    bounds : {parameter: (low, high) or "fixed"}, `alpha` included. Others stay within a factor of 1e4 of where they start.
    priors : {parameter: distribution with a `logpdf`}, for example from scipy.stats; their logs are added to the evidence.
    normalize_y : whether targets are shifted and scaled to mean 0 and variance 1 for the fit.
    random_state : seed of the further starts, of the choice of inducing rows, and of the estimate of the evidence.
    engine, memory : how and within how many bytes Grams are computed.

    Attributes
    ----------
    kernel_, alpha_ : the kernel and the variance of the noise that were found.
    log_marginal_likelihood_value_ : log evidence there (with a mean, of what it leaves of the targets); the bound of "sparse".
    log_marginal_likelihood_error_ : standard error of it, where it is an estimate, else 0.
    beta_ : coefficients (q,) or (q, p) of the mean's columns.
    X_fit_, dual_coef_, intercept_, expansion_ : the posterior mean as an expansion; on the inducing rows, if there are any.
    solver_used_ : the method.
    theta_, bounded_, n_iter_, converged_ : logs of the parameters, those at a bound, evaluations, and whether the search ended.
    jitter_ : what had to be added to the diagonal; to that of the inducing rows, where the bound stays one.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GaussianProcessRegressor
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = GaussianProcessRegressor().fit(X, np.sin(X[:, 0]))
    >>> mean, sd = model.predict([[1.5], [20.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 1e-3), bool(sd[0] < 0.01 < sd[1])
    (True, True)

    Rasmussen & Williams (2006), Gaussian Processes for Machine Learning; Titsias (2009); Gardner et al. (2018).
    """

    _parameter_constraints = {
        **{name: allowed for name, allowed in CONSTRAINTS.items() if name != "indefinite"},
        **SEARCH,
        "kernel": [str, callable, None],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"learn"}), "array-like"],
        "mean": [StrOptions({"constant", "zero", "linear"}), callable],
        "method": [StrOptions({"auto", "exact", "sparse", "iterative"})],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "inducing": [StrOptions({"learn", "fixed"})],
        "normalize_y": ["boolean"],
    }

    def __init__(self, kernel=None, *, alpha="learn", mean="constant", ard=False, gamma=None, degree=3, coef0=1,
                 kernel_params=None, method="auto", n_inducing=500, inducing="learn", optimizer="fmin_l_bfgs_b",
                 n_restarts_optimizer=0, bounds=None, priors=None, max_iter=100, normalize_y=False, random_state=None,
                 engine=None, memory=None):  # fmt: skip
        self.kernel = kernel
        self.alpha = alpha
        self.mean = mean
        self.ard = ard
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.method = method
        self.n_inducing = n_inducing
        self.inducing = inducing
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
        rows, T = self._begun(X, y)
        plan = self._plan(rows, T.shape[1])
        logger.info("GaussianProcessRegressor: %s", plan)
        kernel, seen, extra = self._seen_at_first(rows, T)
        self._seed = fresh_seed(self.random_state)
        way = self._way(plan.method, seen)
        least = _LEAST_BY_PRODUCTS if plan.method == "iterative" else _LEAST
        found = way.learn(kernel, extra, self._settings(kernel, extra, least))
        self._store(found, way, plan.method)
        found.tell()
        return self

    def _begun(self, X, y):
        """Checked rows in float64 and targets (n, p)."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        self._refuse_precomputed()
        rows, y, _ = self._validated_training(X, y, None, multi_output=True, y_numeric=True)
        return validate.double(rows), self._targets(y)

    def _seen_at_first(self, rows, T):
        """The kernel to begin with, what is seen, and the number that scales the noise."""
        kernel = self._start(rows, spread(T))
        noise, extra = self._noise(kernel, T)
        return kernel, Observed(rows, T, self._basis(rows), noise, engine_of(self), self.memory), extra

    def _prepared(self, X, y):
        """The kernel to begin with, the problem in closed form if it fits the memory, and the number that scales the noise."""
        rows, T = self._begun(X, y)
        kernel, seen, extra = self._seen_at_first(rows, T)
        self._require_room(len(T), kernel, rows, _MATRICES)
        return kernel, Exact(seen), extra

    def explain(self, X, y=None) -> str:
        """What fit would do with these rows, and what each way to do it would take: bytes, seconds, what stands against it."""
        rows, there = self._kernel().validated(X), validate.at_rows(self, X)
        outputs = 1 if y is None or np.ndim(y) == 1 else y.shape[1]
        ways = gaussian_ways(there._problem(rows, outputs), self._evaluations)
        return explanation(self, lambda: there._plan(rows, outputs), ways)

    def _plan(self, rows, outputs):
        n = validate.n_rows(rows)
        return gaussian_plan(
            self._problem(rows, outputs), self.method, self._evaluations, f"{type(self).__name__} of {n} rows"
        )

    def _problem(self, rows, outputs):
        n, d = rows.shape if getattr(rows, "ndim", 1) == 2 else (validate.n_rows(rows), 1)
        engine = get_engine(engine_of(self))
        return Problem(n, d, np.dtype(np.float64), outputs=outputs, landmarks=min(self.n_inducing, n), memory=self.memory,
                       threads=thread_count(), room=engine.room(), where=engine.where)  # fmt: skip

    @property
    def _evaluations(self):
        """Of the evidence, as many as a search usually takes."""
        return 1 if self.optimizer is None else _SEARCHED * (1 + self.n_restarts_optimizer)

    def _way(self, method, seen):
        rank = gaussian_rank(len(seen.T), budget(self.memory))
        return METHODS[method](
            seen, n_inducing=self.n_inducing, move=self.inducing == "learn", rank=rank, seed=self._seed
        )

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

    def _store(self, found, way, method):
        self._keep(found, way.centres(found.extra))
        self.alpha_ = way.seen.alpha(found.extra)
        self._fit = way.posterior(self.kernel_, found.extra)
        if method != "sparse":  # which keeps its posterior
            self.targets_ = way.seen.T
        scale = self.y_scale_
        coefficients, beta = (
            self._fit.coefficients * scale,
            self._fit.slopes * scale / self.mean_units_[self.mean_columns_, None],
        )
        self.dual_coef_, self.beta_ = (coefficients[:, 0], beta[:, 0]) if self.single_output_ else (coefficients, beta)
        self.log_marginal_likelihood_value_ = self._fit.evidence
        self.log_marginal_likelihood_error_ = self._fit.standard_error
        self.jitter_ = self._fit.jitter
        self.solver_used_ = method

    def __getstate__(self):
        """Of n x n numbers nothing is kept: they are made again when they are needed. Those of inducing rows are few."""
        state = super().__getstate__()
        if getattr(self, "solver_used_", None) == "sparse":
            state["_fit"] = self._fit
        return state

    # ------------------------------------------------------------------------------------ answers
    @property
    def _posterior(self) -> Any:
        """What is not kept in files is made again."""
        check_is_fitted(self)
        if not hasattr(self, "_fit"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # told at the fit
                self._fit = self._way(self.solver_used_, self._seen()).posterior(self.kernel_, {})
        return self._fit

    def _seen(self):
        """What the fit saw, with the noise that it found."""
        H = self._mean_functions(self.X_fit_)
        return Observed(self.X_fit_, self.targets_, H, self.alpha_, engine_of(self), self.memory)

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
        found = prepared_gram(self._gram, rows) @ _columns(self.dual_coef_)
        found += self._functions(rows)[:, self.mean_columns_] @ _columns(self.beta_) + self.y_shift_
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
        own = gram(kernel, rows, engine=engine_of(self), memory=self.memory, validated=True)
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

    @available_if(_in_closed_form)
    def weights(self, X) -> np.ndarray:
        """Equivalent kernel (m, n): the posterior mean is its product with the targets of the rows of `X_fit_`."""
        rows, dtype = self._asked(X)
        H = self._mean_functions(rows)
        return self._posterior.weights(prepared_gram(self._gram, rows).dense(), H).astype(dtype)

    @available_if(_in_closed_form)
    def leave_one_out(self) -> LeaveOneOut:
        """Mean, variance and log density of each target given the others, in closed form, at the parameters found."""
        found, s = self._posterior.leave_one_out(), self.y_scale_
        mean, logs = found.mean * s + self.y_shift_, found.log_probability - np.log(s)
        variance = found.variance[:, None] * s**2
        if self.single_output_:
            return LeaveOneOut(mean[:, 0], variance[:, 0], logs[:, 0])
        return LeaveOneOut(mean, variance, logs)

    def log_marginal_likelihood(self, theta=None, eval_gradient=False):
        """Log evidence at `theta`, logs of the parameters as in `theta_` (None: those found), and its slope if asked for.

        Of methods other than "exact" only that of the parameters found is known.
        """
        check_is_fitted(self)
        if self.solver_used_ != "exact" and theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        _in_closed_form(self)
        kernel = self._start(self.X_fit_, spread(self.targets_))
        noise, extra = self._noise(kernel, self.targets_)
        evaluate = Exact(replace(self._seen(), noise=noise)).evaluate
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
        return Expansion(self.kernel_, self.X_fit_, _columns(self.dual_coef_), np.atleast_1d(self.intercept_))


def _columns(a):
    return a[:, None] if a.ndim == 1 else a


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

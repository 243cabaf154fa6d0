"""Kernel ridge regression (M1, M2)."""

import logging
import math
import warnings
from numbers import Real

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.engines.threads import thread_count
from mercer.errors import ConvergenceWarning
from mercer.estimators.base import REPAIRS, KernelEstimator
from mercer.estimators.expansion import Expansion, SizeReport, size_report
from mercer.estimators.plan import MethodPlan, ridge_plan
from mercer.linalg import Status, safe_cholesky
from mercer.registry import register_estimator
from mercer.solvers import leave_one_out, solve_ridge, solve_ridge_cg, solve_ridge_primal

__all__ = ["KernelRidge"]

logger = logging.getLogger("mercer")


class _RidgeBase(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """Predictions and questions that a fitted ridge answers."""

    def predict(self, X) -> np.ndarray:
        """Predicted targets (m,) or (m, p), computed in tiles: the test Gram is never held whole."""
        check_is_fitted(self)
        if self.solver_used_ == "primal":
            rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
            out = _dense(self.kernel_.phi(rows)) @ self._columns(self.coef_)
        else:
            K = self._test_gram(X)
            if hasattr(self, "repair_"):
                K = self.repair_.transform(K.dense())
            out = K @ self._columns(self.dual_coef_)
        out = out + self._columns(np.atleast_1d(self.intercept_)).T
        return out[:, 0] if self.dual_coef_.ndim == 1 else out

    @staticmethod
    def _columns(a):
        return a if a.ndim == 2 else a[:, None]

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self._columns(self.dual_coef_), np.atleast_1d(self.intercept_))

    def size_report(self) -> SizeReport:
        """Stored vectors, parameters, bytes and prediction cost, dual against primal."""
        d = self.X_fit_.shape[1] if getattr(self.X_fit_, "ndim", 1) == 2 else 1
        return size_report(self.expansion_, math.inf if self._precomputed else self.kernel_.feature_dim(d))

    def weights(self, X) -> np.ndarray:
        """Equivalent kernel (m, n): predictions are weights(X) @ y. One factorisation, for the first target's alpha."""
        K = self._test_gram(X).dense()
        factor = self._factor()
        s = self._root_weight()
        H = s[:, None] * factor.solve(s[:, None] * K.T)
        if self.fit_intercept:
            u = s * factor.solve(s)
            H = H + np.outer(u, 1.0 - H.sum(axis=0)) / u.sum()
        return H.T

    def smoother(self) -> np.ndarray:
        """Smoother matrix (n, n): the fitted values are smoother() @ y."""
        return self.weights(self.X_fit_ if not self._precomputed else self._gram.dense())

    def degrees_of_freedom(self) -> float:
        """Effective degrees of freedom: the trace of the smoother."""
        s, factor = self._root_weight(), self._factor()
        alpha = float(np.ravel(self._alphas())[0])
        freedom = factor.n - alpha * float(factor.diag_inverse().sum(dtype=np.float64))
        if self.fit_intercept:
            u = factor.solve(s)
            freedom += alpha * float(u @ u) / float(u @ s)
        return freedom

    def leave_one_out(self) -> np.ndarray:
        """Residuals y_i - f_{-i}(x_i) of all left-out fits, exactly, from one factorisation."""
        y = self._columns(self._y)
        alphas = np.broadcast_to(self._alphas(), y.shape[1])
        out = np.empty_like(y)
        for a in np.unique(alphas):
            columns = np.flatnonzero(alphas == a)
            out[:, columns] = leave_one_out(
                self._dense_gram(), y[:, columns], a, self._weight_or_none(), self.fit_intercept
            )
        return out[:, 0] if self.dual_coef_.ndim == 1 else out

    # ------------------------------------------------------------------------------------ inside
    def _dense_gram(self):
        return self.repair_.matrix.copy() if hasattr(self, "repair_") else self._gram.dense()

    def _factor(self):
        check_is_fitted(self)
        K = self._dense_gram()
        s = self._root_weight()
        K *= np.outer(s, s).astype(K.dtype)
        return safe_cholesky(K, shift=float(np.ravel(self._alphas())[0]), overwrite=True)

    def _root_weight(self):
        return np.ones(self.dual_coef_.shape[0]) if self._weight is None else np.sqrt(self._weight)

    def _weight_or_none(self):
        return None if self._weight is None else np.sqrt(self._weight)

    def _remember(self, X, y, weight, K):
        """Fitted state that predictions and questions need."""
        self.X_fit_, self._y, self._weight, self._gram = X, y, weight, K

    def _store(self, solution, single):
        """Coefficients as scikit-learn shapes them."""
        self.dual_coef_ = solution.coefficients[:, 0] if single else solution.coefficients
        self.intercept_ = float(solution.intercept[0]) if single else solution.intercept
        self.residual_, self.n_iter_, self.jitter_ = solution.certificate, solution.iterations, solution.jitter
        self.converged_ = solution.status is Status.CONVERGED
        if not self.converged_:
            warnings.warn(f"conjugate gradients stopped at a residual of {solution.certificate:.2g} ({solution.status.value}): "
                          f"{solution.status.advice}", ConvergenceWarning, stacklevel=3)  # fmt: skip


@register_estimator
class KernelRidge(_RidgeBase):
    r"""Kernel ridge regression with any kernel, many targets, weights and an optional intercept.

    .. math:: \min_{f, b} \sum_i w_i (y_i - f(x_i) - b)^2 + \alpha \lVert f \rVert^2, \qquad a = (K + \alpha W^{-1})^{-1} (y - b)

    Parameters and defaults are scikit-learn's; `kernel` also takes kernel objects, and rows may be arrays, sparse matrices,
    tables or objects, as the kernel reads them.

    Parameters
    ----------
    alpha : float or array (n_targets,), what is added to the diagonal of the Gram matrix.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    fit_intercept : whether to add an unpenalised constant.
    solver : "auto", "exact" (Cholesky), "cg" (conjugate gradients, tile by tile) or "primal" (explicit features).
    tol, max_iter : relative residual and cap of "cg".
    engine, memory : how and within how many bytes Grams are computed; `memory="2GB"`.
    indefinite : what to do when the Gram is not PSD: "raise", "warn", "clip", "flip" or "shift".

    Attributes
    ----------
    dual_coef_, intercept_, X_fit_, kernel_ : the fitted expansion; `coef_` as well in the primal.
    solver_used_, residual_, n_iter_, converged_, jitter_ : what was done and how exact it is.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> from mercer.kernels import RBF
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = KernelRidge(alpha=1e-3, kernel=RBF(0.3)).fit(X, np.sin(6 * X[:, 0]))
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(3.0)) < 0.01)
    True

    Saunders, Gammerman & Vovk (1998); Rasmussen & Williams (2006), section 2.2.
    """

    _parameter_constraints = {
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "kernel": [str, callable, object],
        "gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale", "auto"}), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "fit_intercept": ["boolean"],
        "solver": [StrOptions({"auto", "exact", "cg", "primal"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Real, 1, None, closed="left"), None],
        "engine": [object],
        "memory": [object],
        "indefinite": [StrOptions({"raise", "warn", *REPAIRS})],
    }

    def __init__(self, alpha=1, *, kernel="linear", gamma=None, degree=3, coef0=1, kernel_params=None, fit_intercept=False,
                 solver="auto", tol=1e-8, max_iter=None, engine=None, memory=None, indefinite="warn"):  # fmt: skip
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def fit(self, X, y, sample_weight=None) -> "KernelRidge":
        """Fit on rows X, targets y (n,) or (n, p) and optional weights: a weight of 2 is the row twice."""
        self._validate_params()
        _forget(self)
        X, y, w = self._validated_training(X, y, sample_weight, multi_output=True, y_numeric=True)
        Y = self._columns(np.asarray(y, dtype=_target_dtype(X, y)))
        alpha = _checked_alpha(self.alpha, Y.shape[1])
        plan = self._plan(X, Y)
        logger.info("KernelRidge: %s", plan)
        K = self._training_gram(X, w)
        solution = self._solve(K, X, Y, alpha, w, plan.method)
        self._remember(X, np.asarray(y), w, K)
        self._store(solution, single=np.ndim(y) == 1)
        self.solver_used_ = plan.method
        return self

    def _solve(self, K, X, Y, alpha, w, method):
        root = None if w is None else np.sqrt(w)
        if method == "primal":
            F = _dense(self.kernel_.phi(X))
            coef, solution = solve_ridge_primal(
                F.astype(np.float64), Y.astype(np.float64), alpha, w, self.fit_intercept
            )
            self.coef_ = coef[:, 0] if coef.shape[1] == 1 else coef
            return solution
        repaired = self._definite(K)
        if method == "cg":
            return solve_ridge_cg(K, Y, alpha, root, self.fit_intercept, rtol=self.tol, max_iter=self.max_iter)
        dense = K.dense() if repaired is None else repaired.copy()
        return solve_ridge(dense, Y, alpha, root, self.fit_intercept)

    def explain(self, X, y=None) -> str:
        """What fit would do with these data: method, reason, bytes and seconds."""
        kernel = None if self._precomputed else self._kernel()
        rows = X if kernel is None else kernel.validated(X)
        targets = np.zeros((validate.n_rows(rows), 1)) if y is None else self._columns(np.asarray(y))
        return f"KernelRidge(kernel={self.kernel!r})\n{self._plan(rows, targets)}"

    def _plan(self, X, Y) -> MethodPlan:
        n = validate.n_rows(X)
        d = X.shape[1] if getattr(X, "ndim", 1) == 2 else 1
        dim = math.inf if self._precomputed else _primal_width(self._kernel(), d, self.alpha)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        return ridge_plan(n, d, dtype, self.solver, dim, self.memory, thread_count(), self._precomputed)

    def _alphas(self):
        return _checked_alpha(self.alpha, self._columns(self.dual_coef_).shape[1])


def _forget(estimator):
    """A refit starts from nothing: what an earlier fit left must not survive it."""
    for name in [n for n in vars(estimator) if n.endswith("_") and not n.startswith("__")]:
        delattr(estimator, name)


def _primal_width(kernel, d, alpha):
    """Features of the primal problem; the dual coefficients are (y - F w) / alpha, so alpha = 0 has none."""
    dim = kernel.feature_dim(d)
    return dim if dim == dim and np.all(np.asarray(alpha) > 0) else math.inf


def _target_dtype(X, y):
    return np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64


def _checked_alpha(alpha, n_targets):
    a = np.asarray(alpha, dtype=np.float64)
    if a.ndim > 1 or a.size not in (1, n_targets):
        raise ValueError(f"alpha has {a.size} entries, but there are {n_targets} targets")
    if not np.isfinite(a).all() or (a < 0).any():
        raise ValueError(f"alpha={alpha!r} must be finite and >= 0")
    return a


def _dense(F):
    return F.toarray() if hasattr(F, "toarray") else F

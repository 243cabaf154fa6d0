"""Kernel ridge that chooses alpha, and if asked every kernel parameter, by exact leave-one-out."""

import logging
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from mercer import validate
from mercer.estimators.base import REPAIRS
from mercer.estimators.plan import ridge_plan
from mercer.estimators.ridge import _forget, _RidgeBase, _target_dtype
from mercer.estimators.tuning import tune_loo
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers import relative_residual, ridge_path
from mercer.solvers.ridge import RidgeSolution

__all__ = ["KernelRidgeCV"]

logger = logging.getLogger("mercer")


@register_estimator
class KernelRidgeCV(_RidgeBase):
    r"""Kernel ridge regression with alpha, and optionally the kernel, chosen by leave-one-out.

    One eigendecomposition gives the exact leave-one-out error (or generalised cross-validation) of every alpha. With `tune`
    the kernel's parameters follow the gradient of that error first.

    Parameters
    ----------
    alphas : array, what may be added to the diagonal of the Gram matrix.
    kernel, gamma, degree, coef0, kernel_params, fit_intercept, engine, memory, indefinite : as in KernelRidge.
    scoring : "loo" or "gcv".
    alpha_per_target : whether every target gets its own alpha.
    tune : None, "all", or names of kernel parameters (see `kernel.differentiable`) to tune by gradient.
    tune_rows : at most this many rows, drawn at random, are used for tuning.
    max_iter : cap of the tuning iterations.
    random_state : seed of the draw of rows.

    Attributes
    ----------
    alpha_ : the chosen alpha, or one a target. scores_ : (n_alphas,) or (n_alphas, p), mean squared errors.
    loo_error_ : the mean squared leave-one-out error at `alpha_`. kernel_, dual_coef_, intercept_, X_fit_ : as in KernelRidge.
    tuning_ : record of the search, if `tune` was asked for.

    Examples
    --------
    >>> from mercer import KernelRidgeCV
    >>> from mercer.datasets import load_energy
    >>> from mercer.kernels import RBF
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_energy(return_X_y=True)
    >>> model = KernelRidgeCV(kernel=RBF(2.0), fit_intercept=True).fit(scale(X)[::4], y[::4])
    >>> bool(model.loo_error_ < 2.0)
    True

    Allen (1974); Golub, Heath & Wahba (1979); Rasmussen & Williams (2006), section 5.4.2.
    """

    _parameter_constraints = {
        "alphas": ["array-like"],
        "kernel": [str, callable, object],
        "gamma": [object],
        "degree": [object],
        "coef0": [object],
        "kernel_params": [dict, None],
        "fit_intercept": ["boolean"],
        "scoring": [StrOptions({"loo", "gcv"})],
        "alpha_per_target": ["boolean"],
        "tune": [StrOptions({"all"}), "array-like", None],
        "tune_rows": [Interval(Integral, 2, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "engine": [object],
        "memory": [object],
        "indefinite": [StrOptions({"raise", "warn", *REPAIRS})],
    }

    def __init__(self, alphas=(1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0), *, kernel="rbf", gamma=None, degree=3, coef0=1,
                 kernel_params=None, fit_intercept=False, scoring="loo", alpha_per_target=False, tune=None, tune_rows=2000,
                 max_iter=100, random_state=0, engine=None, memory=None, indefinite="warn"):  # fmt: skip
        self.alphas = alphas
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.alpha_per_target = alpha_per_target
        self.tune = tune
        self.tune_rows = tune_rows
        self.max_iter = max_iter
        self.random_state = random_state
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def fit(self, X, y, sample_weight=None) -> "KernelRidgeCV":
        """Choose alpha (and the kernel's parameters) and fit on all rows."""
        self._validate_params()
        _forget(self)
        X, y, w = self._validated_training(X, y, sample_weight, multi_output=True, y_numeric=True)
        Y = self._columns(np.asarray(y, dtype=_target_dtype(X, y)))
        alphas = _checked_alphas(self.alphas)
        n = validate.n_rows(X)
        plan = ridge_plan(n, X.shape[1] if getattr(X, "ndim", 1) == 2 else 1, Y.dtype, "exact", np.inf, self.memory)
        logger.info("KernelRidgeCV: %s", plan)
        K = self._training_gram(X, w)
        if self.tune is not None:
            K, alphas = self._tuned(K, X, Y, w, alphas)
        repaired = self._definite(K)
        root = None if w is None else np.sqrt(w)
        path = ridge_path(K.dense() if repaired is None else repaired.copy(), Y, root, self.fit_intercept)
        self._choose(path, alphas, single=np.ndim(y) == 1)
        solution = path.solve(self.alpha_)
        operator = K if repaired is None else repaired
        residual = relative_residual(operator, Y, solution, self.alpha_, root)
        self._remember(X, np.asarray(y), w, K)
        self._store(
            RidgeSolution(solution.coefficients.astype(Y.dtype), solution.intercept, solution.status, residual, 1, 0.0),
            np.ndim(y) == 1,
        )
        self.solver_used_ = "path"
        return self

    def _choose(self, path, alphas, single):
        """Best alpha by the mean error over the targets, or for each target."""
        loo = np.array([_weighted_mean_square(path.residuals(a), path.roots) for a in alphas])
        scores = loo if self.scoring == "loo" else np.array([path.gcv(a) for a in alphas])
        pooled = scores if self.alpha_per_target else scores.mean(axis=1)
        best = np.argmin(pooled, axis=0)
        self.alphas_ = alphas
        self.scores_ = scores[:, 0] if single else scores
        self.alpha_ = alphas[best] if self.alpha_per_target and not single else float(alphas[np.atleast_1d(best)[0]])
        self.loo_error_ = float(np.mean(loo[best, np.arange(loo.shape[1])] if self.alpha_per_target else loo[best]))

    def _tuned(self, K, X, Y, w, alphas):
        """Tuned Gram and the alphas to try with it: the tuned one and, if only a part of the rows was used, its neighbours."""
        if self._precomputed:
            raise ValueError('tune needs a kernel with parameters; kernel="precomputed" has none')
        n = validate.n_rows(X)
        index = np.arange(n)
        if n > self.tune_rows:
            index = np.sort(generator(self.random_state).choice(n, self.tune_rows, replace=False))
        part, targets = validate.take(X, index), Y[index].astype(np.float64)
        root = None if w is None else np.sqrt(w[index])
        start = self._start_alpha(part, targets, root, alphas)
        names = None if isinstance(self.tune, str) else list(self.tune)
        self.tuning_ = tune_loo(self.kernel_, part, targets, start, names, root_weight=root, intercept=self.fit_intercept,
                                engine=self.engine, memory=self.memory, max_iter=self.max_iter)  # fmt: skip
        self.kernel_ = self.tuning_.kernel
        from mercer.gram import gram

        tuned = gram(self.kernel_, X, engine=self.engine, memory=self.memory, validated=True)
        spread = [1.0] if len(index) == n else 10.0 ** np.linspace(-1, 0.5, 7)
        return tuned, self.tuning_.alpha * np.asarray(spread)

    def _start_alpha(self, X, Y, root, alphas):
        from mercer.gram import gram

        K = gram(self.kernel_, X, engine=self.engine, memory=self.memory, validated=True).dense().astype(np.float64)
        path = ridge_path(K, Y, root, self.fit_intercept)
        errors = [_weighted_mean_square(path.residuals(a), path.roots).mean() for a in alphas]
        return float(alphas[int(np.argmin(errors))])

    def _alphas(self):
        return np.asarray(self.alpha_, np.float64)


def _weighted_mean_square(residuals, roots):
    w = roots**2
    return w @ residuals**2 / w.sum()


def _checked_alphas(alphas):
    a = np.asarray(alphas, dtype=np.float64).ravel()
    if a.size == 0 or not np.isfinite(a).all() or (a <= 0).any():
        raise ValueError(f"alphas={alphas!r} must be positive finite numbers")
    return a

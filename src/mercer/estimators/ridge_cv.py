"""Kernel ridge that chooses alpha, and if asked every kernel parameter, by exact leave-one-out."""

import logging
import warnings
from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from mercer import validate
from mercer.errors import NotPSDError, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, engine_of, forget
from mercer.estimators.charts import tunable
from mercer.estimators.evidence import Settings, climb
from mercer.estimators.objectives import ridge_criterion
from mercer.estimators.plan import path_plan
from mercer.estimators.ridge import _repaired_solution, _require_two, _RidgeBase, _targets
from mercer.estimators.tuning import as_tuning
from mercer.gram import GivenGram, gram
from mercer.linalg.cholesky import JITTERS
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers import loo_gradient, relative_residual, ridge_path

__all__ = ["KernelRidgeCV"]

logger = logging.getLogger("mercer")


@register_estimator
class KernelRidgeCV(_RidgeBase):
    r"""Kernel ridge regression with alpha, and optionally the kernel, chosen by leave-one-out.

    One eigendecomposition gives the exact leave-one-out error (or generalised cross-validation) of every alpha. With `tune`
    the kernel's parameters follow the gradient of that error first. Equal rows (x, y) are one observation with their weights
    added, left out together, so that a weight of 2 is the row twice here too.

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
        **CONSTRAINTS,
        "alphas": ["array-like"],
        "fit_intercept": ["boolean"],
        "scoring": [StrOptions({"loo", "gcv"})],
        "alpha_per_target": ["boolean"],
        "tune": [StrOptions({"all"}), "array-like", None],
        "tune_rows": [Interval(Integral, 2, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
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
        forget(self)
        X, y, w = self._validated_training(X, y, sample_weight, multi_output=True, y_numeric=True)
        alphas = _checked_alphas(self.alphas)
        width = X.shape[1] if getattr(X, "ndim", 1) == 2 else 1
        logger.info("KernelRidgeCV: %s", path_plan(validate.n_rows(X), width, np.float64, self.memory))
        X, y, w = self._merged(X, y, w)
        _require_two(validate.n_rows(X))
        Y, scale = _targets(X, y)
        K = self._training_gram(X, w)
        if self.tune is not None:
            K, alphas = self._tuned(K, X, Y, w, alphas, scale)
        fixed = self._definite(K)
        root = None if w is None else np.sqrt(w)
        try:
            solution = self._along_path(K, fixed, Y, root, alphas, scale, single=np.ndim(y) == 1)
        except NotPSDError as error:
            if fixed is not None or self.indefinite == "raise":
                raise
            fixed = self._repaired(K, f"every alpha was refused: {error}", "clip")
            solution = self._along_path(K, fixed, Y, root, alphas, scale, single=np.ndim(y) == 1)
        self._remember(X, y, w, K, np.asarray(self.alpha_, np.float64), fixed)
        self._store(_repaired_solution(solution, fixed), scale, single=np.ndim(y) == 1)
        self.solver_used_ = "path"
        return self

    def _along_path(self, K, fixed, Y, root, alphas, scale, single):
        """Solution at the best alpha, its residual recomputed with the Gram itself."""
        K = K if fixed is None else GivenGram(fixed.matrix)
        path = ridge_path(K.dense(), Y, root, self.fit_intercept)
        self._choose(path, alphas, scale, single)
        found = path.solve(self.alpha_)
        residual = relative_residual(K, Y, found, self.alpha_, root)
        return replace(found, coefficients=found.coefficients.astype(Y.dtype), certificate=residual)

    def _choose(self, path, alphas, scale, single):
        """Best alpha by the mean error over the targets, or for each target."""
        alphas = _usable(path, alphas)
        loo = np.array([_weighted_mean_square(path.residuals(a), path.roots) for a in alphas])
        scores = loo if self.scoring == "loo" else np.array([path.gcv(a) for a in alphas])
        pooled = scores if self.alpha_per_target else scores.mean(axis=1)
        best = np.argmin(pooled, axis=0)
        error = np.mean(loo[best, np.arange(loo.shape[1])] if self.alpha_per_target else loo[best])
        self.alphas_ = alphas
        self.scores_ = (scores[:, 0] if single else scores) * scale**2
        self.alpha_ = alphas[best] if self.alpha_per_target and not single else float(alphas[np.atleast_1d(best)[0]])
        self.loo_error_ = float(error * scale**2)

    def _tuned(self, K, X, Y, w, alphas, scale):
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
        names = tunable(self.kernel_, None if isinstance(self.tune, str) else self.tune, "tune")
        fixed = tuple(n for n in self.kernel_.differentiable if n not in names)
        settings = Settings(fixed=fixed, max_iter=self.max_iter, engine=engine_of(self), memory=self.memory)
        evaluate, reported = ridge_criterion(loo_gradient, targets, root, self.fit_intercept, scale)
        self.tuning_ = as_tuning(climb(evaluate, self.kernel_, part, {"alpha": start}, settings), "loo", reported)
        self.kernel_ = self.tuning_.kernel
        tuned = gram(self.kernel_, X, engine=engine_of(self), memory=self.memory, validated=True)
        spread = [1.0] if len(index) == n else 10.0 ** np.linspace(-1, 0.5, 7)
        return tuned, self.tuning_.alpha * np.asarray(spread)

    def _start_alpha(self, X, Y, root, alphas):
        K = gram(self.kernel_, X, engine=engine_of(self), memory=self.memory, validated=True).dense().astype(np.float64)
        path = ridge_path(K, Y, root, self.fit_intercept)
        alphas = _usable(path, alphas)
        errors = [_weighted_mean_square(path.residuals(a), path.roots).mean() for a in alphas]
        return float(alphas[int(np.argmin(errors))])


def _usable(path, alphas):
    """The alphas that make the Gram positive definite: an indefinite one, or one far larger than alpha, refuses some."""
    usable, refused = [], None
    for a in alphas:
        try:
            path.at(a)
            usable.append(a)
        except NotPSDError as error:
            refused = error
    if not usable:
        usable = [_raised_alpha(path, refused)]
    if refused is not None:
        said = f"{refused}; tried were {', '.join(f'{a:.3g}' for a in usable)}"
        warnings.warn(said, NumericalWarning, stacklevel=5)
    return np.array(usable)


def _raised_alpha(path, refused):
    """The smallest alpha of the Cholesky ladder that will do where all the user's drown in rounding."""
    for jitter in JITTERS["d"]:
        try:
            return path.at(jitter * path.mean_diagonal).alpha
        except NotPSDError:
            continue
    raise refused


def _weighted_mean_square(residuals, roots):
    w = roots**2
    return w @ residuals**2 / w.sum()


def _checked_alphas(alphas):
    try:
        a = np.asarray(alphas, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise ValueError(f"alphas={alphas!r} must hold numbers") from None
    if a.size == 0 or not np.isfinite(a).all() or (a <= 0).any():
        raise ValueError(f"alphas={alphas!r} must be positive finite numbers")
    return a

"""Kernel ridge regression (M1, M2)."""

import logging
import math
import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer import streams, validate
from mercer.approx import DaskRows, cluster_threads, heading, is_dask, sweeps_over
from mercer.errors import ConvergenceWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, forget, lazily
from mercer.estimators.expansion import Expansion, SizeReport, size_report
from mercer.estimators.landmarks import LANDMARK_CONSTRAINTS, RidgeFit, on_landmarks, problem_of, refuse_checkpoint
from mercer.estimators.mixins import RegressorMixin
from mercer.estimators.plan import cg_rank, explanation, landmark_plan, ridge_plan, ridge_ways
from mercer.gram import GivenGram, prepared_gram
from mercer.gram.plan import budget
from mercer.kernels import White
from mercer.linalg import Status, rpcholesky, safe_cholesky
from mercer.random import generator
from mercer.registry import register_estimator, register_record
from mercer.solvers import leave_one_out, solve_landmarks, solve_ridge, solve_ridge_cg, solve_ridge_primal

__all__ = ["KernelRidge"]

logger = logging.getLogger("mercer")

_CG_TOL, _LANDMARK_TOL, _LANDMARK_ITERATIONS = 1e-8, 1e-5, 100


def _on_all_rows(self):
    used = getattr(self, "solver_used_", None)
    if used == "landmarks":
        raise AttributeError(f"this needs a fit on all rows; this one was made on {len(self.X_fit_)} landmarks")
    if used == "compressed":
        raise AttributeError("a compressed copy has not the rows of the fit; ask the model that it is of")
    return True


class _RidgeBase(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """Predictions and questions that a fitted ridge answers."""

    @lazily
    def predict(self, X) -> np.ndarray:
        """Predicted targets (m,) or (m, p), computed in tiles: the test Gram is never held whole."""
        check_is_fitted(self)
        if self.solver_used_ == "primal":
            rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
            out = _dense(self.kernel_.phi(rows)) @ self._columns(self.coef_)
        else:
            out = self._test_gram(X) @ self._columns(self.dual_coef_)
        out = out + np.atleast_1d(self.intercept_).astype(out.dtype)
        return out[:, 0] if self.dual_coef_.ndim == 1 else out

    @staticmethod
    def _columns(a):
        return a if a.ndim == 2 else a[:, None]

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self._columns(self.dual_coef_), np.atleast_1d(self.intercept_))

    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres, "coef_", "landmarks_", "landmark_error_", "_fit", "kept_")
        new.dual_coef_ = coefficients[:, 0] if self.dual_coef_.ndim == 1 else coefficients
        return new

    def size_report(self) -> SizeReport:
        """Stored vectors, parameters, bytes and prediction cost, dual against primal."""
        expansion = self.expansion_
        d = self.X_fit_.shape[1] if getattr(self.X_fit_, "ndim", 1) == 2 else 1
        return size_report(expansion, math.inf if isinstance(self.kernel_, str) else self.kernel_.feature_dim(d))

    @available_if(_on_all_rows)
    def weights(self, X) -> np.ndarray:
        """Equivalent kernel (m, n): predictions are weights(X) @ y, y the targets of the rows of `X_fit_`.

        One factorisation, for the first target's alpha.
        """
        check_is_fitted(self)
        return self._equivalent(self._test_gram(X).dense())

    @available_if(_on_all_rows)
    def smoother(self) -> np.ndarray:
        """Smoother matrix (n, n): what predict gives for the rows of `X_fit_` is smoother() @ y."""
        check_is_fitted(self)
        return self._equivalent(self._seen().dense())

    @available_if(_on_all_rows)
    def degrees_of_freedom(self) -> float:
        """Effective degrees of freedom: the trace of the smoother."""
        check_is_fitted(self)
        fixed, s, alpha = self._fixed(), self._roots(), self._alpha()
        # The training diagonal may hold what predictions never see: white noise, or the shift of a repair.
        unseen = self._unseen(fixed)
        factor = self._factor(fixed)
        inverse = factor.diag_inverse().astype(np.float64)
        if self._fit.intercept:
            u = factor.solve(s)
            inverse -= u**2 / (u @ s)
        return float(factor.n - ((alpha + s**2 * unseen) * inverse).sum())

    @available_if(_on_all_rows)
    def leave_one_out(self) -> np.ndarray:
        """Residuals y_i - f_{-i}(x_i) of all left-out fits of the rows of `X_fit_`, exactly, from one factorisation."""
        check_is_fitted(self)
        y = self._columns(self._fit.y)
        _require_two(len(y))
        alphas = np.broadcast_to(self._fit.alpha, y.shape[1])
        out = np.empty(y.shape)
        for a in np.unique(alphas):
            columns = np.flatnonzero(alphas == a)
            out[:, columns] = leave_one_out(
                self._matrix(self._fixed()), y[:, columns], a, self._roots(), self._fit.intercept
            )
        return out[:, 0] if self.dual_coef_.ndim == 1 else out

    # ------------------------------------------------------------------------------------ inside
    def _equivalent(self, K):
        fixed, s = self._fixed(), self._roots()
        factor = self._factor(fixed)
        K = K if fixed is None else fixed.transform(K)
        H = s[:, None] * factor.solve(s[:, None] * K.T)
        if self._fit.intercept:
            u = s * factor.solve(s)
            H = H + np.outer(u, 1.0 - H.sum(axis=0)) / u.sum()
        return H.T

    def _fixed(self):
        """The record of the repair of the training Gram, made again; None if there was none."""
        from mercer.diagnostics import repair

        return repair(self._gram.dense(), self._fit.repair) if self._fit.repair else None

    def _matrix(self, fixed):
        return self._gram.dense() if fixed is None else fixed.matrix

    def _seen(self):
        """Gram of the training rows as predict sees them."""
        return self._gram if isinstance(self.kernel_, str) else prepared_gram(self._gram, self.X_fit_)

    def _unseen(self, fixed):
        noisy = not isinstance(self.kernel_, str) and any(isinstance(leaf, White) for leaf in self.kernel_._leaves)
        if fixed is None and not noisy:
            return 0.0
        seen = self._seen().dense()
        diagonal = self._gram.diag() if fixed is None else fixed.matrix.diagonal()
        return diagonal - (seen if fixed is None else fixed.transform(seen)).diagonal()

    def _factor(self, fixed):
        K, s = self._matrix(fixed), self._roots()
        K *= np.outer(s, s).astype(K.dtype)
        return safe_cholesky(K, shift=self._alpha(), overwrite=True)

    def _roots(self):
        weight = self._fit.weight
        return np.ones(len(self._fit.y)) if weight is None else np.sqrt(weight)

    def _alpha(self):
        return float(np.ravel(self._fit.alpha)[0])

    def _remember(self, X, y, weight, K, alpha, fixed):
        """Fitted state that predictions and questions need; parameters changed later do not reach it."""
        self.X_fit_, self._gram = X, K
        self._fit = _RidgeFit(np.array(y, np.float64), weight, alpha, self.fit_intercept, fixed and fixed.method)

    def _store(self, solution, scale, single):
        """Coefficients as scikit-learn shapes them, in the units of y."""
        coefficients, intercept = solution.coefficients * scale, solution.intercept * scale
        self.dual_coef_ = coefficients[:, 0] if single else coefficients
        self.intercept_ = float(intercept[0]) if single else intercept
        self.residual_, self.n_iter_, self.jitter_ = solution.certificate, solution.iterations, solution.jitter
        self.converged_ = solution.status is Status.CONVERGED
        if not self.converged_:
            warnings.warn(f"conjugate gradients stopped at a residual of {solution.certificate:.2g} ({solution.status.value}): "
                          f"{solution.status.advice}", ConvergenceWarning, stacklevel=3)  # fmt: skip


@register_record
@dataclass(frozen=True)
class _RidgeFit:
    """What a fit was made with."""

    y: np.ndarray
    weight: np.ndarray | None
    alpha: Any
    intercept: bool
    repair: str | None


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
    tol, max_iter : relative residual and cap of iterations; by default 1e-8 for "cg", and 1e-5 and 100 on landmarks.
    engine, memory : how and within how many bytes Grams are computed; `memory="2GB"`.
    indefinite : what to do when the Gram is not PSD: "raise", "warn", "clip", "flip" or "shift".
    n_landmarks : solve on so many rows, the landmarks, instead of all: time grows with n, memory does not. Less than 1: as many
        as leave that share of the trace of the Gram unexplained. None: all rows.
    landmarks : how they are chosen, "rpcholesky", "uniform", "kmeans++" or "leverage", or the rows themselves.
    random_state : of choosing landmarks.
    checkpoint : path of a file that is written now and then while landmarks are solved; the same fit goes on from it.
    callback : called with the progress after each pass over the rows. verbose : print it.

    Attributes
    ----------
    landmarks_, landmark_error_ : numbers of the landmarks in X (None if they were given), and the share of the trace that they
        leave unexplained (None if not known).
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
        **CONSTRAINTS,
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "fit_intercept": ["boolean"],
        "solver": [StrOptions({"auto", "exact", "cg", "primal"})],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        **LANDMARK_CONSTRAINTS,
    }

    def __init__(self, alpha=1, *, kernel="linear", gamma=None, degree=3, coef0=1, kernel_params=None, fit_intercept=False,
                 solver="auto", tol=None, max_iter=None, engine=None, memory=None, indefinite="warn", n_landmarks=None,
                 landmarks="rpcholesky", random_state=None, checkpoint=None, callback=None, verbose=False):  # fmt: skip
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
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.callback = callback
        self.verbose = verbose

    def fit(self, X, y=None, sample_weight=None) -> "KernelRidge":
        """Fit on rows X, targets y (n,) or (n, p) and optional weights: a weight of 2 is the row twice.

        With landmarks X may be a stream (`mercer.streams`), which holds the targets too.
        """
        self._validate_params()
        forget(self)
        if is_dask(X):
            return self._fit_dask(X, y, sample_weight)
        if isinstance(X, streams.Stream):
            return self._fit_stream(X, y, sample_weight)
        if on_landmarks(self):
            return self._fit_held(X, y, sample_weight)
        refuse_checkpoint(self)
        X, y, w = self._validated_training(X, y, sample_weight, multi_output=True, y_numeric=True)
        Y, scale = _targets(X, y)
        alpha = _checked_alpha(self.alpha, Y.shape[1])
        plan = ridge_plan(self._problem(X, Y.shape[1]), self.solver, self._precomputed)
        logger.info("KernelRidge: %s", plan)
        K = self._training_gram(X, w)
        fixed = None if plan.method == "primal" else self._definite(K)
        solution = self._solve(K if fixed is None else GivenGram(fixed.matrix), X, Y, alpha, w, plan.method, scale)
        self._remember(X, y, w, K, alpha, fixed)
        self._store(_repaired_solution(solution, fixed), scale, single=np.ndim(y) == 1)
        self.solver_used_ = plan.method
        return self

    def _solve(self, K, X, Y, alpha, w, method, scale):
        root = None if w is None else np.sqrt(w)
        if method == "primal":
            F = _dense(self.kernel_.phi(X)).astype(np.float64)
            coef, solution = solve_ridge_primal(F, Y.astype(np.float64), alpha, w, self.fit_intercept)
            self.coef_ = scale * (coef[:, 0] if coef.shape[1] == 1 else coef).astype(Y.dtype)
            return replace(solution, coefficients=solution.coefficients.astype(Y.dtype))
        if method == "cg":
            factor, tol = _preconditioner(K, self.memory, self.random_state), self.tol or _CG_TOL
            return solve_ridge_cg(
                K, Y, alpha, root, self.fit_intercept, factor=factor, rtol=tol, max_iter=self.max_iter
            )
        return solve_ridge(K.matrix(), Y, alpha, root, self.fit_intercept)

    # ------------------------------------------------------------------------------------ on landmarks
    def _fit_stream(self, stream, y, sample_weight):
        if y is not None or sample_weight is not None:
            raise ValueError("a stream holds its targets and weights: fit(stream), without y and sample_weight")
        if not on_landmarks(self):
            raise ValueError("rows that come as a stream need n_landmarks, for example n_landmarks=2000")
        first = next(iter(stream.blocks(streams.LOOK)))
        self.n_features_in_ = first.X.shape[1]
        return self._fit_landmarks(stream, 1.0, single=first.y.shape[1] == 1)

    def _fit_dask(self, X, y, sample_weight):
        if y is None:
            raise ValueError("rows from Dask need targets: fit(X, y)")
        if not on_landmarks(self):
            raise ValueError("rows on a Dask cluster need n_landmarks, for example n_landmarks=2000")
        validate_data(self, heading(X), skip_check_array=True)
        return self._fit_stream(DaskRows(X, y, sample_weight), None, None)

    def _fit_held(self, X, y, sample_weight):
        if self._precomputed:
            raise ValueError('landmarks need rows: kernel="precomputed" is solved exactly, with n_landmarks=None')
        kernel = self._kernel()
        checks = {"multi_output": True, "y_numeric": True}
        rows, y, w, kept = validate.training(self, X, y, sample_weight, kernel.reads, kernel.columns, **checks)
        Y, scale = _targets(rows, y)
        rows, Y, w, index = validate.canonical(rows, Y.astype(np.float64), w)
        mean = np.average(Y, axis=0, weights=w) if self.fit_intercept else np.zeros(Y.shape[1])
        held = streams.Held(rows, Y - mean, w)  # large means would cancel in the sums
        self._fit_landmarks(held, scale, np.ndim(y) == 1, resolve_on=(rows, w), mean=mean)
        self.landmarks_ = None if self.landmarks_ is None else kept[index[self.landmarks_]]
        return self

    def _fit_landmarks(self, stream, scale, single, resolve_on=None, mean=0.0):
        tol = self.tol or _LANDMARK_TOL
        alpha = _checked_alpha(self.alpha, next(iter(stream.blocks(streams.LOOK))).y.shape[1])
        fit = RidgeFit(self, stream, resolve_on, tol)
        centres, K = fit.centres, fit.centres.gram
        p = replace(self._problem(centres.rows, len(np.atleast_1d(alpha))), n=centres.n, landmarks=len(K))
        logger.info("KernelRidge: %s", landmark_plan(p, ridge_ways(p), "kernel ridge", isinstance(stream, DaskRows)))
        self.kernel_ = K.kernel
        self._definite(K)
        solution = solve_landmarks(
            sweeps_over(stream, K), centres.matrix(), centres.sample_gram(), centres.weight, alpha, self.fit_intercept,
            rtol=tol, max_iter=self.max_iter or _LANDMARK_ITERATIONS, callback=fit.told, state=fit.state,
        )  # fmt: skip
        fit.save(solution.state, now=True)
        self.X_fit_, self._gram, self._fit = centres.rows, K, None
        self.landmarks_, self.landmark_error_ = centres.index, centres.error
        coefficients = solution.coefficients.astype(K.dtype)
        self._store(replace(solution, coefficients=coefficients, intercept=solution.intercept + mean), scale, single)
        self.solver_used_ = "landmarks"
        return self

    def explain(self, X, y=None) -> str:
        """What fit would do with these data, and what each way to do it would take: bytes, seconds, what stands against it."""
        rows = X if self._precomputed or is_dask(X) else self._kernel().validated(X)
        p, there = (
            validate.at_rows(self, X)._problem(rows, 1 if y is None or np.ndim(y) == 1 else y.shape[1]),
            is_dask(X),
        )
        p = replace(p, cluster=cluster_threads())
        ways = ridge_ways(p)

        def plan():
            if there or on_landmarks(self):
                return landmark_plan(p, ways, "kernel ridge", there)
            return ridge_plan(p, self.solver, self._precomputed)

        return explanation(self, plan, ways)

    def _problem(self, rows, outputs):
        d = rows.shape[1] if getattr(rows, "ndim", 1) == 2 else 1
        features = math.inf if self._precomputed else _primal_width(self._kernel(), d, self.alpha)
        return problem_of(self, rows, outputs, features)


def _preconditioner(K, memory, random_state):
    """A factor of low rank near K; None where conjugate gradients need no help."""
    rank = cg_rank(K.shape[0], K.dtype, budget(memory))
    # The same fit twice is the same model: chance only helps the iteration here.
    rng = generator(0 if random_state is None else random_state)
    return rpcholesky(K, rank, rng=rng).factor if rank else None


def _repaired_solution(solution, fixed):
    """Coefficients that go with kernel values as they are: K_test T a = K_test (T a), T the repair of new rows."""
    if fixed is None:
        return solution
    return replace(solution, coefficients=fixed.transform(solution.coefficients.T).T)


def _require_two(n):
    if n < 2:
        raise ValueError("leave-one-out needs two different rows (x, y) of positive weight; found n_samples=1")


def _primal_width(kernel, d, alpha):
    """Features of the primal problem; the dual coefficients are (y - F w) / alpha, so alpha = 0 has none."""
    dim = kernel.feature_dim(d)
    return dim if dim == dim and np.all(np.asarray(alpha) > 0) else math.inf


def _targets(X, y):
    """Targets as columns of magnitude one, in the precision of the rows, and the power of two that was taken out.

    Squares of 1e-200 would be 0.
    """
    Y = np.asarray(y, dtype=np.float64)
    dtype, limit = (np.float32, 1e30) if getattr(X, "dtype", None) == np.float32 else (np.float64, 1e150)
    peak = float(np.abs(Y).max())
    if peak > limit:
        raise ValueError(f"y has entries up to {peak:.3g}, too large for sums of squares; rescale y")
    scale = float(np.ldexp(1.0, int(np.frexp(peak)[1])))
    return (Y / scale).astype(dtype).reshape(len(Y), -1), scale


def _checked_alpha(alpha, n_targets):
    try:
        a = np.asarray(alpha, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"alpha={alpha!r} must hold numbers") from None
    if a.ndim > 1 or a.size not in (1, n_targets):
        raise ValueError(f"alpha has {a.size} entries, but there are {n_targets} targets")
    if not np.isfinite(a).all() or (a < 0).any():
        raise ValueError(f"alpha={alpha!r} must be finite and >= 0")
    return a


def _dense(F):
    return F.toarray() if hasattr(F, "toarray") else F

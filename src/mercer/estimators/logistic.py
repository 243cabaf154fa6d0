"""Kernel logistic regression (M5, X4)."""

import logging
import warnings
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from mercer import streams, validate
from mercer.approx import (
    DaskRows,
    HeldLogisticSweeps,
    Labelled,
    cluster_threads,
    heading,
    is_dask,
    label_masses,
    logistic_sweeps_over,
)
from mercer.errors import ConvergenceWarning
from mercer.estimators.base import CONSTRAINTS, engine_of, forget
from mercer.estimators.labels import (
    Labels,
    class_labels,
    sound_factors,
)
from mercer.estimators.landmarks import (
    LANDMARK_CONSTRAINTS,
    LogisticFit,
    Reporter,
    on_landmarks,
    problem_of,
    refuse_checkpoint,
)
from mercer.estimators.plan import MethodPlan, exact_plan, explanation, landmark_plan, logistic_ways
from mercer.estimators.scores import ScoredClassifier, ScoredExpansion
from mercer.gram import GivenGram, gram
from mercer.linalg import Factor, Status, check_symmetric, rpcholesky, safe_cholesky
from mercer.registry import register_estimator
from mercer.solvers import solve_logistic
from mercer.solvers.logistic import Whitened

__all__ = ["KernelLogistic"]

logger = logging.getLogger("mercer")

_ADVICE = {
    Status.MAX_ITER: "raise max_iter or alpha, or scale the columns of X",
    Status.STAGNATED: "rounding allows no more; raise tol, or use fewer landmarks, a shorter lengthscale or a larger alpha",
}


@register_estimator
class KernelLogistic(ScoredClassifier, ScoredExpansion):
    r"""Kernel logistic regression, for two classes or by softmax for many, on all rows or on landmarks.

    .. math:: \min_{f, b} \sum_i w_i\, \ell(y_i, f(x_i) + b) + \tfrac{\alpha}{2} \sum_c \lVert f_c \rVert^2, \qquad
              \ell(y, s) = \log \sum_c e^{s_c} - s_y

    Two classes have one function, the log-odds of the second. Of many classes each has a function and an unpenalised
    intercept, which sum to 0 over the classes. With explicit features of the kernel this is scikit-learn's
    `LogisticRegression` with C = 1 / alpha. As alpha > 0, classes that can be separated have a finite answer too.

    Parameters
    ----------
    alpha : strength of the penalty, never multiplied by n: the curvature of the loss is at most w / 4 for two classes, so that
        each Newton step is a ridge regression with alpha added to the diagonal of the Gram matrix.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    fit_intercept : whether to add unpenalised constants.
    class_weight : factors of the weights by label, or "balanced".
    n_landmarks : expand in so many rows, the landmarks, instead of all: time grows with n, memory does not. Less than 1: as many
        as leave that share of the trace of the Gram unexplained. None: as many as the Gram has numerical rank, from a Gram that
        is held in memory.
    landmarks : how they are chosen, "rpcholesky", "uniform", "kmeans++" or "leverage", or the rows themselves.
    tol : norm of the gradient, relative to that at f = 0 and b = 0, at which Newton's method stops; max_iter : cap of its steps.
    random_state : of choosing landmarks. checkpoint : path of a file in which a fit on landmarks is kept every half minute and
        from which the same fit goes on. callback : called with the progress after each step. verbose : print it.
    engine, memory : how and within how many bytes Grams are computed; `memory="2GB"`.
    indefinite : what to do when the Gram is not PSD: "raise", "warn", "clip", "flip" or "shift"; with `n_landmarks`, that of
        the landmarks is tested, and not repaired.

    Attributes
    ----------
    classes_, class_weight_ : labels in increasing order, and the factors of their weights.
    dual_coef_, intercept_, X_fit_, kernel_ : the fitted expansion; (M,) and (1,) for two classes, else (M, c) and (c,).
    landmarks_, landmark_error_ : numbers of the rows of `X_fit_` in X (None if they were given), and the share of the trace that
        they leave unexplained (None if not known).
    n_iter_, residual_, converged_, objective_ : Newton steps, relative norm of the gradient at the answer, whether it reached
        `tol`, and the value of the sum above. solver_used_, jitter_ : "exact" or "landmarks", and what was added to the
        diagonal of the Gram of the landmarks.

    Examples
    --------
    >>> from mercer import KernelLogistic
    >>> from mercer.kernels import RBF
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], ["same", "different", "different", "same"]
    >>> model = KernelLogistic(alpha=0.1, kernel=RBF(0.5)).fit(X, y)
    >>> model.predict([[0.9, 0.1]]).tolist(), bool(model.predict_proba([[1, 0]])[0, 0] > 0.8)
    (['different'], True)

    Zhu & Hastie (2005), Kernel logistic regression and the import vector machine; Marteau-Ferey, Bach & Rudi (2019).
    """

    _parameter_constraints = {
        **CONSTRAINTS,
        **LANDMARK_CONSTRAINTS,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, alpha=1.0, *, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, fit_intercept=True,
                 class_weight=None, n_landmarks=None, landmarks="rpcholesky", tol=1e-5, max_iter=100, random_state=None,
                 checkpoint=None, callback=None, verbose=False, engine=None, memory=None, indefinite="warn"):  # fmt: skip
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.callback = callback
        self.verbose = verbose
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    # ------------------------------------------------------------------------------------ fitting
    def fit(self, X, y=None, sample_weight=None) -> "KernelLogistic":
        """Fit on rows X, labels y (n,) and optional weights: a weight of 2 is the row twice.

        With landmarks X may be a stream (`mercer.streams`), which holds the labels, as numbers, and the weights too.
        """
        self._validate_params()
        forget(self)
        if is_dask(X):
            return self._fit_dask(X, y, sample_weight)
        if isinstance(X, streams.Stream):
            return self._fit_stream(X, y, sample_weight)
        labels = Labels()
        rows, codes, w, index = self._canonical(X, y, sample_weight, labels, multi_output=False)
        self.classes_ = labels.classes
        self.class_weight_ = sound_factors(self.class_weight, self.classes_, codes, w)
        share = w * self.class_weight_[codes]
        if not on_landmarks(self):
            return self._fit_all(rows, codes, w, share, index)
        if self._precomputed:
            raise ValueError('landmarks need rows: kernel="precomputed" is solved on all rows, with n_landmarks=None')
        held = streams.Held(rows, codes[:, None].astype(np.float64), share)
        return self._fit_landmarks(held, (rows, w), index)

    @property
    def _outputs(self):
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _fit_all(self, rows, codes, w, share, index):
        """In all directions that the Gram of the rows has: a factor of full numerical rank, which equal rows do not spoil."""
        refuse_checkpoint(self)
        n = len(codes)
        logger.info("KernelLogistic: %s", self._plan(problem_of(self, rows, self._outputs)))
        K = self._training_gram(validate.double(rows), w)
        fixed = self._definite(K)
        dense = K.dense() if fixed is None else fixed.matrix
        check_symmetric(dense)
        found = rpcholesky(GivenGram(dense), n, rng=np.random.default_rng(0))
        del dense
        F = found.factor.astype(np.float64, copy=False)
        known = Whitened(F.shape[1], (F**2).sum(axis=1))
        report = Reporter(self.callback, self.verbose, self.tol)
        solution = self._solve(HeldLogisticSweeps(F, codes, share), known, GivenGram(F), share,
                               lambda state: report(state.passes, state.certificate))  # fmt: skip
        pivots, solution = _on_pivots(solution, found)
        if fixed is not None:  # kernel values with new rows are not repaired, so that all rows take part
            pivots, solution = np.arange(n), _repaired(solution, fixed, pivots)
        self._keep_rows(validate.double(rows), pivots, index)
        self._store(solution, index[pivots], found.error)
        self.solver_used_ = "exact"
        return self

    def _keep_rows(self, rows, pivots, index):
        if self._precomputed:
            self.X_fit_, self.kept_ = rows[np.ix_(pivots, pivots)], index[pivots]
            self._gram = GivenGram(self.X_fit_)
        else:
            self.X_fit_ = validate.take(rows, pivots)
            self._gram = gram(self.kernel_, self.X_fit_, engine=engine_of(self), memory=self.memory, validated=True)

    def _fit_stream(self, stream, y, sample_weight):
        if y is not None or sample_weight is not None:
            raise ValueError("a stream holds its labels and weights: fit(stream), without y and sample_weight")
        if not on_landmarks(self):
            raise ValueError("rows that come as a stream need n_landmarks, for example n_landmarks=2000")
        self.n_features_in_ = next(iter(stream.blocks(streams.LOOK))).X.shape[1]
        return self._fit_labelled(stream)

    def _fit_dask(self, X, y, sample_weight):
        if y is None:
            raise ValueError("rows from Dask need labels: fit(X, y)")
        if not on_landmarks(self):
            raise ValueError("rows on a Dask cluster need n_landmarks, for example n_landmarks=2000")
        validate_data(self, heading(X), skip_check_array=True)
        return self._fit_labelled(DaskRows(X, y, sample_weight))

    def _fit_labelled(self, stream):
        labels, mass = _class_masses(stream)
        self.classes_, codes = class_labels(labels)
        self.class_weight_ = sound_factors(self.class_weight, self.classes_, codes, mass)
        return self._fit_landmarks(Labelled(stream, labels, self.class_weight_), self._plain_sample(stream))

    def _plain_sample(self, stream):
        """Rows on which the kernel learns its constants: as for arrays, without the weights of the classes."""
        if self.class_weight is None:
            return None
        sample = streams.look(stream, streams.LOOK, np.random.default_rng(0)).sample
        return sample.X, sample.w

    def _fit_landmarks(self, stream, resolve_on=None, index=None):
        fit = LogisticFit(self, stream, resolve_on, self.tol)
        centres = fit.centres
        p = replace(problem_of(self, centres.rows, self._outputs), n=centres.n, landmarks=len(centres.gram))
        logger.info("KernelLogistic: %s", self._plan(p, isinstance(getattr(stream, "stream", None), DaskRows)))
        self.kernel_ = centres.gram.kernel
        self._definite(centres.gram)
        known = safe_cholesky(centres.dense(), overwrite=True)
        sweeps = logistic_sweeps_over(stream, centres.gram)
        solution = self._solve(sweeps, known, centres.sample_gram(), centres.weight, fit.told, fit.state)
        fit.save(solution.state, now=True)
        self.X_fit_, self._gram = centres.rows, centres.gram
        numbers = centres.index if centres.index is None or index is None else index[centres.index]
        self._store(solution, numbers, centres.error)
        self.solver_used_ = "landmarks"
        return self

    def _solve(self, sweeps, known, sample, weight, callback, state=None):
        return solve_logistic(
            sweeps, known, sample, weight, self._outputs, self.alpha, self.fit_intercept, rtol=self.tol,
            max_iter=self.max_iter, callback=callback, state=state,
        )  # fmt: skip

    def explain(self, X, y) -> str:
        """What fit would do with these data, and what each way to do it would take: bytes, seconds, what stands against it."""
        rows = X if self._precomputed or is_dask(X) else self._kernel().validated(X)
        classes = len(label_masses(DaskRows(X, y)) if is_dask(X) else np.unique(y))
        p = replace(
            problem_of(validate.at_rows(self, X), rows, 1 if classes == 2 else classes), cluster=cluster_threads()
        )
        return explanation(self, lambda: self._plan(p, is_dask(X)), logistic_ways(p))

    def _plan(self, p, on_cluster=False) -> MethodPlan:
        """Refuses what does not fit."""
        ways = logistic_ways(p)
        if on_cluster or on_landmarks(self):
            return landmark_plan(p, ways, "kernel logistic regression", on_cluster)
        return exact_plan(p, ways, f"kernel logistic regression on {p.n} rows")

    def _store(self, solution, landmarks, error):
        coefficients = solution.coefficients
        self.dual_coef_ = coefficients[:, 0] if coefficients.shape[1] == 1 else coefficients
        self.intercept_, self.objective_ = solution.intercept, solution.objective
        self.landmarks_, self.landmark_error_ = landmarks, error
        self.residual_, self.n_iter_, self.jitter_ = solution.certificate, solution.iterations, solution.jitter
        self.converged_ = solution.status is Status.CONVERGED
        if not self.converged_:
            warnings.warn(f"Newton's method stopped at a gradient of {solution.certificate:.2g} of that at 0, tol={self.tol:g} "
                          f"({solution.status.value}): {_ADVICE[solution.status]}", ConvergenceWarning, stacklevel=4)  # fmt: skip

    # ------------------------------------------------------------------------------------ answers
    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres, "landmarks_", "landmark_error_")
        new.dual_coef_ = coefficients[:, 0] if self.dual_coef_.ndim == 1 else coefficients
        return new


# ------------------------------------------------------------------------------------------------ inside
def _on_pivots(solution, found):
    """Rows that an answer in the features of a factor is an expansion in, and its coefficients there."""
    pivots, u = found.pivots, solution.coefficients
    if not len(pivots):  # k = 0: only the intercept learned
        return np.array([0]), replace(solution, coefficients=np.zeros((1, u.shape[1])))
    L = np.ascontiguousarray(found.factor[pivots], np.float64)
    beta = Factor(L, (L**2).sum(axis=1)).solve_triangular(u, trans=True)
    return pivots, replace(solution, coefficients=beta)


def _repaired(solution, fixed, pivots):
    """Coefficients of all rows that go with kernel values as they are: K_test T a = K_test (T a), T the repair of new rows."""
    a = np.zeros((len(fixed.matrix), solution.coefficients.shape[1]))
    a[pivots] = solution.coefficients
    return replace(solution, coefficients=fixed.transform(a.T).T)


def _class_masses(stream):
    """Labels of a stream in increasing order, and the weight of each."""
    found = label_masses(stream)
    labels, mass = np.array(list(found)), np.array(list(found.values()))
    return labels.astype(np.int64) if bool((labels == np.floor(labels)).all()) else labels, mass

"""The kernel perceptron (M3)."""

import logging
import math
import warnings
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning, NotPSDError, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, engine_of, forget
from mercer.estimators.expansion import Expansion, SizeReport, size_report
from mercer.estimators.labels import class_labels
from mercer.estimators.mixins import ClassifierMixin
from mercer.gram import GivenGram, gram
from mercer.linalg import smallest_eigenvalue
from mercer.random import generator
from mercer.registry import register_estimator, register_record
from mercer.solvers.perceptron import (
    DualScores,
    PerceptronState,
    PrimalScores,
    compression_bound,
    finite_product,
    mistake_bound,
    solve_perceptron,
    voted_scores,
)

__all__ = ["KernelPerceptron", "MistakeBound"]

logger = logging.getLogger("mercer")

_NARROW = 2000  # features up to which weights are cheaper than kernel values with the stored rows
_TESTED = 2000  # stored rows whose Gram is tested when the kernel has no certificate


@dataclass(frozen=True)
class MistakeBound:
    """What the theory says of a perceptron on given rows.

    margin: of the machine scaled to norm 1, over the rows; radius: r, with r^2 = max k(x, x); updates: bound on the
    number of updates, infinite where the machine does not separate the rows; n_mistakes: the number there was;
    compression: bound on the error for new rows, from the number of stored rows, true with probability 1 - delta.
    """

    margin: float
    radius: float
    updates: float
    n_mistakes: int
    compression: float


@register_record
@dataclass(frozen=True, eq=False)
class _PerceptronFit:
    """What a fit was made with, and all that partial_fit needs to go on."""

    state: PerceptronState
    variant: str
    shift: float


def _has_rows(estimator):
    """Whether there is a partial_fit; scikit-learn asks."""
    if estimator._precomputed:
        raise AttributeError('partial_fit needs rows: kernel="precomputed" has no kernel values between two calls')
    return _has_mistakes(estimator)


def _has_mistakes(estimator):
    if getattr(estimator, "solver_used_", None) == "compressed":
        raise AttributeError("a compressed copy has not the rows that erred; ask the model that it is of")
    return True


@register_estimator
class KernelPerceptron(ClassifierMixin, KernelEstimator):
    r"""Kernel perceptron: rows are shown one by one, and each mistake adds the row to the machine.

    .. math:: f(x) = \sum_i c_i k(x_i, x) + b, \qquad c_i \mathrel{+}= y_i, \; b \mathrel{+}= y_i
              \quad\text{where}\quad y_i f(x_i) \le 0

    With more than two classes there is a machine for each; a mistake adds the row to that of its class and takes it
    from that of the best other class. Only rows that erred are stored. Rows may be arrays, sparse matrices, tables or
    objects, as the kernel reads them. With few explicit features (a linear kernel) the weights themselves are
    learned.

    Parameters
    ----------
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    variant : "averaged", the mean of all machines over the steps; "voted", their vote; "plain", the last machine;
        "pocket", the machine that was right most often in a row.
    max_iter : passes over the rows at most; a pass without mistake is the last.
    shuffle, random_state : whether each pass of `fit` has a new order, and its seed.
    fit_intercept : whether to learn a bias, which is the same as the kernel k + 1.
    budget : number of stored rows at most (variants "plain" and "averaged"), or None.
    when_full : which row goes when the budget is exceeded: "merge", the one of smallest weight, which is projected on
        the stored row nearest in direction; "forget", the one whose mistake is oldest, with its part in the average.
    engine, memory : how and within how many bytes Grams are computed; `memory="2GB"`.
    indefinite : "warn" or "raise" if the kernel is not PSD on the stored rows; a repair would need the Gram of all
        rows.

    Attributes
    ----------
    classes_ : labels in increasing order.
    support_, X_fit_ : numbers of the rows that are stored (over all calls of `partial_fit`), and these rows.
    dual_coef_, intercept_, kernel_ : the fitted expansion; of "voted" that of the averaged machine. `coef_` as well in
        the primal.
    n_mistakes_, mistakes_per_pass_ : mistakes so far, and in each pass of the last call.
    n_iter_, converged_, solver_used_ : passes of the last call, whether its last one had no mistake, "dual" or
        "primal".

    Examples
    --------
    >>> from mercer import KernelPerceptron
    >>> from mercer.kernels import Polynomial
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], ["same", "different", "different", "same"]
    >>> model = KernelPerceptron(Polynomial(2), variant="plain", max_iter=100, random_state=0).fit(X, y)
    >>> model.converged_, model.predict([[1, 0]]).tolist()
    (True, ['different'])

    Freund & Schapire (1999), Large margin classification using the perceptron algorithm; Gallant (1990) for the pocket;
    Dekel, Shalev-Shwartz & Singer (2008) for forgetting; Wang, Crammer & Vucetic (2012) for merging.
    """

    _parameter_constraints = {
        **CONSTRAINTS,
        "variant": [StrOptions({"plain", "averaged", "voted", "pocket"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
        "fit_intercept": ["boolean"],
        "budget": [Interval(Integral, 2, None, closed="left"), None],
        "when_full": [StrOptions({"forget", "merge"})],
        "indefinite": [StrOptions({"raise", "warn"})],
    }

    def __init__(self, kernel="rbf", *, gamma=None, degree=3, coef0=1, kernel_params=None, variant="averaged",
                 max_iter=10, shuffle=True, random_state=None, fit_intercept=True, budget=None, when_full="merge",
                 engine=None, memory=None, indefinite="warn"):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.variant = variant
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.fit_intercept = fit_intercept
        self.budget = budget
        self.when_full = when_full
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X, y) -> "KernelPerceptron":
        """Learn from rows X and labels y (n,), from nothing."""
        self._check_parameters()
        forget(self)
        X, y, _ = self._validated_training(X, y, None, multi_output=False)
        self.classes_, codes = class_labels(y)
        rng, n = generator(self.random_state), len(codes)
        orders = (rng.permutation(n) if self.shuffle else np.arange(n) for _ in range(self.max_iter))
        state = PerceptronState.empty(len(self.classes_), history=self.variant in ("voted", "pocket"))
        return self._learn(X, codes, self._training_gram(X, None), orders, state)

    @available_if(_has_rows)
    def partial_fit(self, X, y, classes=None) -> "KernelPerceptron":
        """Learn from more rows, once each and in their order.

        `classes`, all labels there will be, is needed at the first call. What the kernel takes from data
        (gamma="scale") it takes from the rows of that call.
        """
        self._check_parameters()
        if not self.__sklearn_is_fitted__():
            return self._first_rows(X, y, classes)
        fit = self._continued()
        rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
        codes = _codes(_column(y, validate.n_rows(rows)), _same_classes(self.classes_, classes))
        X = _stacked(self.X_fit_, rows)
        codes = np.concatenate([fit.state.labels, codes])
        K = gram(self.kernel_, X, engine=engine_of(self), memory=self.memory, validated=True)
        return self._learn(X, codes, K, [np.arange(len(fit.state.rows), len(codes))], fit.state)

    def _first_rows(self, X, y, classes):
        if classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit: all labels that there will be")
        forget(self)
        X, y, _ = self._validated_training(X, y, None, multi_output=False)
        self.classes_, _ = class_labels(classes, "classes")
        codes = _codes(_column(y, validate.n_rows(X)), self.classes_)
        state = PerceptronState.empty(len(self.classes_), history=self.variant in ("voted", "pocket"))
        return self._learn(X, codes, self._training_gram(X, None), [np.arange(len(codes))], state)

    def _continued(self):
        """The fit so far, if the parameters still ask for what it kept."""
        fit = self._fit
        if (self.variant in ("voted", "pocket")) != (fit.state.history is not None) or fit.shift != float(
            self.fit_intercept
        ):
            raise ValueError("variant and fit_intercept cannot change between fit and partial_fit; call fit")
        return fit

    def _check_parameters(self):
        self._validate_params()
        validate.memory_bytes(self.memory)
        if self.budget is not None and self.variant in ("voted", "pocket"):
            raise ValueError(
                f'variant="{self.variant}" needs every row that erred, so budget must be None; use variant="averaged"'
            )

    def _learn(self, X, codes, K, orders, state):
        width, shift = self._width(X), float(self.fit_intercept)
        primal = width <= _NARROW
        columns = state.coefficients.shape[1]
        if primal:
            scores = PrimalScores(lambda rows: self._features(validate.take(X, rows)), int(width), columns, shift)
        else:
            scores = DualScores(K, columns, shift)
        solution = solve_perceptron(scores, codes, orders, state, budget=self.budget, merge=self.when_full == "merge")
        kept = np.searchsorted(_numbers(state, len(codes)), solution.state.rows)
        return self._remember(X, K, kept, solution, _PerceptronFit(solution.state, self.variant, shift), primal)

    def _features(self, rows):
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused when it is multiplied
            return self.kernel_.phi(rows)

    def _width(self, X):
        """Explicit features of the kernel; infinite if there are none."""
        if isinstance(self.kernel_, str):
            return math.inf
        width = self.kernel_.feature_dim(
            X.shape[1] if getattr(X, "ndim", 1) == 2 or isinstance(X, validate.Table) else 1
        )
        return width if width == width else math.inf

    def _remember(self, X, K, kept, solution, fit, primal):
        """Fitted state; all of it is computed before any of it is set, so that a partial_fit may be interrupted."""
        rows = X[np.ix_(kept, kept)] if isinstance(self.kernel_, str) else validate.take(X, kept)
        stored = GivenGram(rows) if isinstance(self.kernel_, str) else gram(
            self.kernel_, rows, engine=engine_of(self), memory=self.memory, validated=True)  # fmt: skip
        self._check_definite(stored)
        coefficients = _machine(solution, fit.variant).astype(K.dtype)
        weights = finite_product(self._features(rows).T, coefficients) if primal else None
        found = {
            "support_": fit.state.rows, "X_fit_": rows, "_gram": stored, "_fit": fit,
            "dual_coef_": coefficients[:, 0] if coefficients.shape[1] == 1 else coefficients,
            "intercept_": coefficients.sum(axis=0) * K.dtype.type(fit.shift),
            "n_mistakes_": fit.state.mistakes, "mistakes_per_pass_": solution.mistakes,
            "n_iter_": len(solution.mistakes), "converged_": solution.converged,
            "solver_used_": "primal" if primal else "dual",
        }  # fmt: skip
        if isinstance(self.kernel_, str):
            found["kept_"] = fit.state.rows  # the columns that predict reads
        if weights is not None:
            found["coef_"] = weights.T
        vars(self).update(found)  # in one call, which no interrupt divides
        self._warn_not_separated()
        return self

    def _warn_not_separated(self):
        """Averages and votes are meant for rows that overlap; the last machine is not."""
        if self.variant == "plain" and not self.converged_ and self.n_iter_ == self.max_iter > 1:
            warnings.warn(
                f"the rows were not separated after {self.n_iter_} passes ({self.mistakes_per_pass_[-1]} mistakes in "
                'the last one); raise max_iter, or use variant="averaged" or "pocket"',
                ConvergenceWarning,
                stacklevel=5,
            )

    def _check_definite(self, K):
        certificate = None if isinstance(self.kernel_, str) else self.kernel_.validity
        if certificate is not None and certificate.certified:
            return
        what = "the precomputed Gram matrix" if certificate is None else f"{self.kernel_!r} ({certificate.reason})"
        if certificate is not None and certificate.kind == "not-psd":
            message = f"{what} is not positive semi-definite"
        else:
            values = K[:_TESTED, :_TESTED].dense().astype(np.float64)
            smallest, _ = smallest_eigenvalue(values, np.random.default_rng(0))
            if smallest >= -10 * len(values) * np.finfo(K.dtype).eps * max(
                np.abs(values).max(), np.finfo(K.dtype).tiny
            ):
                return
            message = (
                f"{what} is not positive semi-definite on the stored rows: smallest eigenvalue about {smallest:.3g}"
            )
        if self.indefinite == "raise":
            raise NotPSDError(f"{message}; use another kernel")
        warnings.warn(f"{message}; a perceptron still learns, but no bound holds", NumericalWarning, stacklevel=5)

    # ------------------------------------------------------------------------------------ answers
    def decision_function(self, X) -> np.ndarray:
        """Scores (m,) of the second class, or (m, classes); of "voted" the parts of the votes, or from -1 to 1."""
        check_is_fitted(self)
        if self._fit.variant == "voted":
            K = self._test_gram(X)
            out = voted_scores(K, self._fit.state, self._fit.shift).astype(K.dtype)
        elif self.solver_used_ == "primal":
            rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
            out = finite_product(self._features(rows), self.coef_.T) + self.intercept_
        else:
            out = self._test_gram(X) @ self.expansion_.coefficients + self.intercept_
        return out[:, 0] if out.shape[1] == 1 else out

    def predict(self, X) -> np.ndarray:
        """Labels (m,), computed in tiles: the test Gram is never held whole."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)]

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self.dual_coef_.reshape(len(self.dual_coef_), -1), self.intercept_)

    def _with_expansion(self, centres, coefficients):
        if self._fit.variant == "voted":
            raise ValueError('variant="voted" is the vote of many machines, not one expansion; use variant="averaged"')
        new = self._recentred(centres, "coef_", "support_")
        new.dual_coef_ = coefficients[:, 0] if self.dual_coef_.ndim == 1 else coefficients
        new._fit = _PerceptronFit(PerceptronState.empty(len(self.classes_)), self._fit.variant, self._fit.shift)
        return new

    def size_report(self) -> SizeReport:
        """Stored vectors, parameters, bytes and prediction cost, dual against primal."""
        expansion = self.expansion_
        return size_report(expansion, self._width(self.X_fit_))

    @available_if(_has_mistakes)
    def mistake_bound(self, X, y, delta: float = 0.05) -> MistakeBound:
        """Bounds of the theory for the rows and labels of `fit`; the fitted machine is the one that separates them.

        Updates are at most (b^2 + 1)(r^2 + 1) / margin^2 if a machine of norm 1 with bias b has that margin. Any
        other one that separates the rows gives a bound through `mercer.solvers.mistake_bound`. Nothing is said of a
        machine that forgot rows.
        """
        answers, squares = self.predict(X), self._squares(X)
        codes, state = _codes(_column(y, len(squares)), self.classes_), self._fit.state
        if len(codes) != state.seen:
            raise ValueError(f"the bounds are about the {state.seen} rows of fit, in their order; X has {len(codes)}")
        if state.forgotten:
            return MistakeBound(math.nan, math.sqrt(squares.max()), math.inf, state.mistakes, 1.0)
        margin, bias = self._margin(X, codes)
        radius = math.sqrt(max(float(squares.max()), 0.0))
        errors = int(np.delete(answers != self.classes_[codes], self.support_).sum())
        return MistakeBound(margin, radius, mistake_bound(margin, radius, bias, len(self.classes_)), state.mistakes,
                            compression_bound(len(codes), len(self.support_), errors, delta))  # fmt: skip

    def _squares(self, X):
        """k(x, x) of every row."""
        if isinstance(self.kernel_, str):
            return np.diagonal(_dense(validate.prediction(self, X)))
        rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
        return gram(self.kernel_, rows, engine=engine_of(self), memory=self.memory, validated=True).diag()

    def _margin(self, X, codes):
        """Smallest lead of the right class, and the bias or None, of the machine scaled to norm 1."""
        a = self.expansion_.coefficients
        leads = _leads(self._test_gram(X) @ a + self.intercept_, codes)
        norm = math.sqrt(max(float((a * (self._gram @ a)).sum(dtype=np.float64)), 0.0)) or math.inf
        return float(leads.min()) / norm, self.intercept_.astype(np.float64) / norm if self._fit.shift else None


# ---------------------------------------------------------------------------------------------- machines
def _machine(solution, variant):
    """Coefficients of the machine that answers."""
    state = solution.state
    if variant in ("averaged", "voted"):
        return state.averaged
    if variant == "plain" or solution.converged or not state.mistakes:
        return state.coefficients
    return state.machine(int(np.argmax(state.lives)))


def _leads(scores, codes):
    """How far the right class is ahead of the best other one; with two classes y f."""
    if scores.shape[1] == 1:
        return scores[:, 0] * (2 * codes - 1)
    each = np.arange(len(codes))
    right, others = scores[each, codes], scores.copy()
    others[each, codes] = -np.inf
    return right - others.max(axis=1)


def _numbers(state, n):
    """Row numbers of the stored rows and of the new ones after them."""
    return np.concatenate([state.rows, state.seen + np.arange(n - len(state.rows))])


def _stacked(A, B):
    """Rows A and then rows B, in the form of A."""
    if isinstance(A, validate.Table):
        return validate.Table(A.names, tuple(np.concatenate([a, b]) for a, b in zip(A.columns, B.columns, strict=True)))
    if sp.issparse(A):
        return sp.csr_array(sp.vstack([A, sp.csr_array(B)]))
    return np.concatenate([A, _dense(B)])


def _dense(F):
    return F.toarray() if hasattr(F, "toarray") else F


# ---------------------------------------------------------------------------------------------- labels
def _column(y, n):
    if y is None:
        raise ValueError("This KernelPerceptron estimator requires y to be passed, but the target y is None.")
    y = column_or_1d(y, warn=True)
    check_consistent_length(np.empty(n), y)
    return y


def _codes(y, classes):
    """Numbers of known labels."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"y has the label {unknown.tolist()[0]!r}, which is not among the classes {classes.tolist()}")
    return np.searchsorted(classes, y)


def _same_classes(known, classes):
    if classes is not None and not np.array_equal(known, np.unique(classes)):
        raise ValueError(f"classes={classes!r} is not the same as on the last call to partial_fit: {known.tolist()}")
    return known

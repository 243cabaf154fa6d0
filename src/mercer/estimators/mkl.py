"""Learning a sum of kernels with the machine that uses it (M22)."""

import warnings
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning, NotPSDError, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, engine_of, forget
from mercer.estimators.expansion import Expansion
from mercer.estimators.labels import class_factors, class_labels
from mercer.estimators.mixins import ClassifierMixin, RegressorMixin
from mercer.estimators.pairs import pairs_of
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.svm import SVC
from mercer.gram import GivenGram, gram
from mercer.gram.plan import budget, require
from mercer.kernels import Kernel, Scaled, Sum, as_kernel
from mercer.linalg import Status, smallest_eigenvalue
from mercer.registry import register_estimator
from mercer.solvers.gram_stack import GramStack
from mercer.solvers.mkl import (
    RidgeMachine,
    SVMachines,
    aligned_weights,
    alignments,
    band_weights,
    learned_weights,
    margin_weights,
)

__all__ = ["MKLClassifier", "MKLRegressor"]

_NORMS = (np.inf, 4.0, 2.0, 4 / 3, 1.0)  # from the uniform average to few kernels, which must be better to be chosen
_INNER = 0.01  # of the gap: how exactly a machine is solved while the weights are learned
_SHARED = {
    "kernels": [list, tuple, dict],
    "p": [Interval(Real, 1, None, closed="both"), StrOptions({"cv"})],
    "gap": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "cv": ["cv_object"],
    "engine": CONSTRAINTS["engine"],
    "memory": CONSTRAINTS["memory"],
}


@dataclass(frozen=True, eq=False)
class _Found:
    """Coefficients (k,) of the kernels of a stack, what else the machine needs, and the record of the search."""

    coefficients: np.ndarray
    settings: dict
    record: Any = None


@dataclass(frozen=True, eq=False)
class _Setup:
    """A problem at the door of the search."""

    rows: Any
    y: np.ndarray
    kernels: list
    reads: tuple  # what the kernels read of a row, and which columns
    stack: Any = None


class _MKL(BaseEstimator):
    """What classifier and regressor share: kernels as parameters, Grams held once, weights, held-out scores, one kernel."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "estimator_")  # set last: an interrupted fit leaves an unfitted estimator

    # ------------------------------------------------------------------------------------ kernels as parameters
    def _named(self):
        """Kernels by name; those of a list are called by their numbers."""
        if isinstance(self.kernels, dict):
            return {str(name): k for name, k in self.kernels.items()}
        return {str(i): k for i, k in enumerate(self.kernels)}

    def get_params(self, deep=True) -> dict:
        """Parameters; deep: also those of the kernels, as `kernels__0__lengthscale`, or by the name in a dict."""
        params = super().get_params(deep=False)
        for name, kernel in self._named().items() if deep and isinstance(self.kernels, (list, tuple, dict)) else ():
            params[f"kernels__{name}"] = kernel
            inside = kernel.get_params() if isinstance(kernel, Kernel) else {}
            params.update({f"kernels__{name}__{key}": value for key, value in inside.items()})
        return params

    def set_params(self, **params):
        """Set parameters; `kernels__*` makes a changed list or dict of kernels, since kernels are values."""
        inside = {k[len("kernels__") :]: params.pop(k) for k in list(params) if k.startswith("kernels__")}
        super().set_params(**params)
        if inside:
            self._replace(inside)
        return self

    def _replace(self, changes):
        named = self._named()
        for key in sorted(changes, key=lambda key: key.count("__")):  # a new kernel first, then its parameters
            name, _, parameter = key.partition("__")
            if name not in named or (parameter and not isinstance(named[name], Kernel)):
                raise ValueError(f"there is no parameter kernels__{key}; kernels has {', '.join(named) or 'none'}")
            named[name] = named[name].replace(**{parameter: changes[key]}) if parameter else changes[key]
        self.kernels = named if isinstance(self.kernels, dict) else type(self.kernels)(named.values())

    def _kernels(self):
        """Names and kernel objects; refused is what cannot be part of a sum of PSD kernels."""
        named = self._named()
        if not named:
            raise ValueError(f"kernels={self.kernels!r} is empty; pass one kernel or more, such as [RBF(), Linear()]")
        kernels = {name: self._kernel(name, k) for name, k in named.items()}
        shown = list(map(str, kernels)) if isinstance(self.kernels, dict) else [repr(k) for k in kernels.values()]
        return shown, list(kernels.values())

    @staticmethod
    def _kernel(name, given):
        if isinstance(given, str) and given == "precomputed":
            raise ValueError(
                f'kernels[{name}]="precomputed": kernels are combined as kernels, so that new rows can be predicted. For Gram '
                "matrices see mercer.solvers.mkl"
            )
        try:
            kernel = as_kernel(given, gamma="scale")
        except (TypeError, ValueError) as error:
            raise type(error)(f"kernels[{name}]: {error}") from None
        if kernel.validity.kind == "not-psd":
            raise NotPSDError(
                f"kernels[{name}]={kernel!r} is not positive semi-definite ({kernel.validity.reason}), so it has no margin and "
                "no weight; leave it out or use another"
            )
        return kernel

    # ------------------------------------------------------------------------------------ fit
    def fit(self, X, y) -> Any:
        """Learn weights and machine on rows X and targets y, and score both and the uniform average on held-out rows."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        self.names_, kernels = self._kernels()
        setup = self._setup(X, y, kernels)
        folds = self._folds(setup.y)
        self._require_room(setup)
        setup = replace(setup, stack=self._held(setup))
        self._warn_of_constants(setup.stack)
        self._learn(setup, folds)
        return self

    def _learn(self, setup, folds):
        p = self._score(setup, folds)
        self.alignments_ = alignments(setup.stack, self._targets(setup.y))
        found = self._searched(setup.stack, setup.y, p)
        self._report(found)
        self._store(setup, found)

    def _setup(self, X, y, kernels):
        whole = Sum(tuple(kernels))
        rows, y, _, _ = validate.training(self, X, y, None, whole.reads, whole.columns, **self._checks)
        rows = validate.owned(rows, X)
        return _Setup(rows, y, [k._resolved(rows, None) for k in kernels], (whole.reads, whole.columns))

    def _folds(self, y):
        return list(check_cv(self.cv, y, classifier=is_classifier(self)).split(np.zeros(len(y)), y))

    def _require_room(self, setup):
        """The triangles of all rows, those of a fold, and a few matrices at work."""
        n, k = len(setup.y), len(setup.kernels)
        item = 4 if getattr(setup.rows, "dtype", None) == np.float32 else 8
        remedies = ["fewer rows or kernels", "float32", 'a larger budget, memory="64GB"',
                    "the uniform average, SVC(kernel=k1 + k2 + ...), which needs no Gram matrix in memory"]  # fmt: skip
        what = f"holding {k} Gram matrices of {n} rows, as triangles, and those of the rows of a fold"
        require(item * n * n * (k + 4), budget(self.memory), what, remedies)

    def _held(self, setup):
        grams = [gram(k, setup.rows, engine=engine_of(self), memory=self.memory, validated=True) for k in setup.kernels]
        matrices = (self._tested(K, name) for K, name in zip(grams, self.names_, strict=True))
        dtype = np.result_type(*(K.dtype for K in grams))
        return GramStack.of(matrices, len(grams), len(setup.y), dtype)

    @staticmethod
    def _tested(K, name):
        """The matrix of a kernel, refused if it has no certificate and turns out not to be PSD."""
        certificate, matrix = K.kernel.validity, K.dense()
        if certificate.certified:
            return matrix
        smallest, _ = smallest_eigenvalue(GivenGram(matrix), np.random.default_rng(0))
        if smallest < -10 * len(matrix) * np.finfo(matrix.dtype).eps * float(np.abs(np.diagonal(matrix)).max()):
            raise NotPSDError(
                f"{name} of kernels is not positive semi-definite on these rows: smallest eigenvalue about {smallest:.3g} "
                f"({certificate.reason}); leave it out or use another"
            )
        return matrix

    def _warn_of_constants(self, stack):
        flat = [name for name, s in zip(self.names_, stack.scales, strict=True) if s == 0]
        if flat:
            what = "all kernels are" if len(flat) == len(stack) else f"{', '.join(flat)} of kernels: is"
            told = "they have equal weights" if len(flat) == len(stack) else "its weight is 0"
            warnings.warn(f"{what} constant on these rows, so that nothing can be learned from it; {told}", NumericalWarning,
                          stacklevel=3)  # fmt: skip

    # ------------------------------------------------------------------------------------ weights
    def _searched(self, stack, y, p, told=True) -> _Found:
        """Coefficients (k,) for the kernels of a stack by the method chosen; constant kernels have 0."""
        inside = stack.varying
        if len(inside) == 0:
            return _Found(np.full(len(stack), 1.0 / len(stack)), self._settings(None, False))
        found = self._weighted(stack.chosen(inside), y, p)
        a = found.coefficients
        if not a.any():
            a = np.full(len(inside), 1.0 / len(inside))
            if told:
                said = f"no kernel says anything about y by method={self.method!r}: the weights are uniform"
                warnings.warn(said, NumericalWarning, stacklevel=4)
        out = np.zeros(len(stack))
        out[inside] = a
        return _Found(out, found.settings, found.record)

    def _weighted(self, stack, y, p) -> _Found:
        k = len(stack)
        if self.method == "uniform" or (self.method == "lp" and p == np.inf):
            return _Found(np.full(k, 1.0 / k), self._settings(None, False))
        if self.method in ("simple", "lp"):
            norm = 1.0 if self.method == "simple" else p
            record = learned_weights(stack, self._learner(stack, y), norm, gap=self.gap, max_iter=self.max_iter)
            return _Found(record.weights, self._settings(None, False), record)
        if self.method == "alignment":
            return _Found(aligned_weights(stack, self._targets(y)), self._settings(None, False))
        return self._special(stack, y)

    def _uniform(self, stack, found):
        inside = stack.varying if len(stack.varying) else np.arange(len(stack))
        a = np.zeros(len(stack))
        a[inside] = 1.0 / len(inside)
        return _Found(a, self._settings(found.record, True))

    # ------------------------------------------------------------------------------------ held-out rows
    def _score(self, setup, folds):
        """Scores of the weighted sum and of the uniform average on held-out rows; returns the p to be used."""
        choose = self.method == "lp" and isinstance(self.p, str)
        norms = _NORMS if choose else (self.p,)
        truth = np.concatenate([setup.y[test] for _, test in folds])
        guesses: list[list] = [[] for _ in range(len(norms) + 1)]
        for train, test in folds:
            stack = setup.stack.of_rows(train)
            found = [self._searched(stack, setup.y[train], p, told=False) for p in norms]
            for i, f in enumerate([*found, self._uniform(stack, found[0])]):
                guesses[i].append(self._guess(setup, stack, f, train, test))
        *scores, uniform = (self._measure(truth, np.concatenate(g)) for g in guesses)
        best = int(np.argmax(scores))
        self.score_, self.uniform_score_ = scores[best], uniform
        self.p_ = norms[best] if self.method == "lp" else None
        self.path_ = dict(zip(norms, scores, strict=True)) if choose else None
        return norms[best]

    def _guess(self, setup, stack, found, train, test):
        """Answers for the rows `test` of a machine on the rows `train`, from the Grams that are held."""
        K = setup.stack.combined(_divided(found.coefficients, stack.scales))
        machine = self._given(found.settings).fit(K[np.ix_(train, train)], setup.y[train])
        return machine.predict(K[np.ix_(test, train)])

    # ------------------------------------------------------------------------------------ the answer
    def _report(self, found):
        """What is known of the search; warns where it ended too early."""
        record = found.record
        self.converged_ = record is None or record.status is Status.CONVERGED
        self.n_iter_ = 1 if record is None else max(1, record.iterations)
        self.trace_ = [] if record is None else record.trace
        self.dual_gap_, self.objective_ = getattr(record, "gap", None), getattr(record, "objective", None)
        if not self.converged_:
            known = self.dual_gap_ is not None
            reached = f" at a relative duality gap of {self.dual_gap_:.2g}, gap={self.gap:g}" if known else ""
            said = f"the weights stopped early after {self.n_iter_} steps{reached}: raise max_iter{' or gap' if known else ''}"
            warnings.warn(said, ConvergenceWarning, stacklevel=4)

    def _store(self, setup, found):
        self.scales_ = setup.stack.scales.copy()
        self.weights_ = found.coefficients / found.coefficients.sum()
        self.coefficients_ = _divided(found.coefficients, self.scales_)
        self.reads_ = setup.reads
        self.kernel_ = _combined(setup.kernels, self.coefficients_)
        self.estimator_ = self._machine(self.kernel_, found.settings).fit(setup.rows, setup.y)

    def _rows(self, X):
        check_is_fitted(self)
        return validate.prediction(self, X, *self.reads_)

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion of the machine: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        return self.estimator_.expansion_

    def _with_expansion(self, centres, coefficients):
        new = copy(self)
        new.estimator_ = self.estimator_._with_expansion(centres, coefficients)
        return new


def _divided(a, scales):
    """Coefficients for kernels as they were given; of constant ones as they are."""
    return a / np.where(scales > 0, scales, 1.0)


def _combined(kernels, coefficients):
    """sum_i coefficients_i k_i without those of weight 0."""
    parts = tuple(Scaled(k, float(c)) for k, c in zip(kernels, coefficients, strict=True) if c != 0)
    return Sum(parts) if len(parts) > 1 else parts[0]


# ------------------------------------------------------------------------------------------------ classification
class _GivenSVC(SVC):
    """On a Gram matrix that was tested already."""

    def _definite(self, K):
        return None


@register_estimator
class MKLClassifier(ClassifierMixin, _MKL):
    r"""Support vector classification with a learned sum of kernels, :math:`k = \sum_i a_i k_i`.

    Kernels may be of different columns (`k.on("age")`) and kinds of input. Each is divided by its variance in feature space on
    the training rows, so that its scale does not matter. The uniform average, which is hard to beat, is always scored beside.
    Rows have no weights: a row that is there twice may be in two folds, a row of weight 2 may not.

    Parameters
    ----------
    kernels : list of kernels, or dict from names to kernels: mercer kernels, scikit-learn's words, or functions of two rows.
    method : how the weights are found. "easy": by the distance of the classes in each kernel's space (EasyMKL); "alignment": the
        sum is most like the Gram matrix of the labels; "simple": together with the machine, few kernels (SimpleMKL, p = 1);
        "lp": the same with ||a||_p bounded, more kernels the larger p; "uniform": all alike.
    p : of "lp", at least 1; "cv" chooses among 1, 4/3, 2, 4 and infinity, the uniform average, on held-out rows.
    lam : of "easy", from 0, the nearest points of the classes' hulls, to 1, their means.
    C, class_weight, multi_class, tol : of the machine, as in `SVC`. Many classes share the weights.
    gap : relative duality gap at which "simple" and "lp" are content. max_iter : cap of their steps.
    cv : folds or splitter for `score_` and `uniform_score_`.
    engine, memory : how Grams are computed, and within how many bytes. All of them are held as triangles, twice.

    Attributes
    ----------
    weights_ (k,) : shares of the kernels, of sum 1. names_ : the kernels, by name or as they print.
    kernel_, estimator_, expansion_ : the sum as one kernel, and the `SVC` fitted with it.
    coefficients_, scales_ (k,) : factors of the kernels in `kernel_`, and the variances that they were divided by.
    score_, uniform_score_ : accuracy on held-out rows with weights learned without them, and of the uniform average.
    alignments_ (k,) : centred alignment of each kernel with the labels.
    p_, path_ : p of "lp", and with "cv" the score of each p. `score_` then is that of the best, and a little too good.
    dual_gap_, objective_, trace_, n_iter_, converged_ : of "simple" and "lp"; `trace_` has (objective, gap) of each step.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import MKLClassifier
    >>> from mercer.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 3))
    >>> model = MKLClassifier([RBF().on(j) for j in range(3)], method="simple").fit(X, X[:, 1] > 0)
    >>> int(model.weights_.argmax()), bool(model.weights_[1] > 0.9)
    (1, True)

    Aiolli & Donini (2015); Cortes, Mohri & Rostamizadeh (2012); Rakotomamonjy et al. (2008); Kloft et al. (2011).
    """

    _checks: dict = {"multi_output": False}
    _parameter_constraints: dict = {
        **_SHARED,
        "method": [StrOptions({"easy", "alignment", "simple", "lp", "uniform"})],
        "lam": [Interval(Real, 0, 1, closed="both")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "multi_class": [StrOptions({"ovo", "ovr"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, kernels=("linear", "rbf"), *, method="easy", p=2.0, lam=0.1, C=1.0, class_weight=None, multi_class="ovo",
                 tol=1e-3, gap=1e-3, max_iter=1000, cv=5, engine=None, memory=None):  # fmt: skip
        self.kernels = kernels
        self.method = method
        self.p = p
        self.lam = lam
        self.C = C
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.tol = tol
        self.gap = gap
        self.max_iter = max_iter
        self.cv = cv
        self.engine = engine
        self.memory = memory

    def _setup(self, X, y, kernels):
        setup = super()._setup(X, y, kernels)
        self.classes_, _ = class_labels(setup.y)
        return setup

    def _targets(self, y):
        """Labels as columns of 0 and 1."""
        return (np.asarray(y)[:, None] == np.unique(y)).astype(np.float64)

    def _problems(self, y):
        classes, codes = class_labels(y)
        C = self.C * class_factors(self.class_weight, classes, codes, np.ones(len(codes)))[codes]
        pairs = [pair.rows(codes) for pair in pairs_of(len(classes), self.multi_class)]
        return [(rows, signs, C[rows]) for rows, signs in pairs]

    def _learner(self, stack, y):
        return SVMachines(self._problems(y), stack.n, min(self.tol, _INNER * self.gap))

    def _special(self, stack, y):
        problems = [(rows, signs) for rows, signs, _ in self._problems(y)]
        return _Found(margin_weights(stack, problems, self.lam), {})

    def _settings(self, record, uniform):
        return {}

    def _machine(self, kernel, settings, kind=SVC):
        shared = ("C", "class_weight", "multi_class", "tol", "engine", "memory")
        return kind(kernel=kernel, **{name: getattr(self, name) for name in shared})

    def _given(self, settings):
        return self._machine("precomputed", settings, _GivenSVC)

    @staticmethod
    def _measure(truth, guesses):
        return float(accuracy_score(truth, guesses))

    def decision_function(self, X) -> np.ndarray:
        """Decisions of the machine: (m,) for two classes, else (m, classes)."""
        rows = self._rows(X)
        return self.estimator_.decision_function(rows)

    def predict(self, X) -> np.ndarray:
        """Labels (m,)."""
        rows = self._rows(X)
        return self.estimator_.predict(rows)


# ------------------------------------------------------------------------------------------------ regression
class _GivenRidge(KernelRidge):
    """On a Gram matrix that was tested already."""

    def _definite(self, K):
        return None


@register_estimator
class MKLRegressor(MultiOutputMixin, RegressorMixin, _MKL):
    r"""Kernel ridge regression with a learned sum of kernels, :math:`k = \sum_i a_i k_i`, and an intercept.

    Kernels may be of different columns (`k.on("age")`) and kinds of input. Each is divided by its variance in feature space on
    the training rows, so that its scale does not matter. The uniform average, which is hard to beat, is always scored beside.
    Rows have no weights: a row that is there twice may be in two folds, a row of weight 2 may not.

    Parameters
    ----------
    kernels : list of kernels, or dict from names to kernels: mercer kernels, scikit-learn's words, or functions of two rows.
    method : how the weights are found. "alignment": the sum is most like the Gram matrix of the targets; "banded": by the
        gradient of the leave-one-out error in the log of each kernel's own penalty, which finds alpha too; "simple": with the
        ridge at once, few kernels (p = 1); "lp": the same with ||a||_p bounded, more kernels the larger p; "uniform": all alike.
    alpha : what is added to the diagonal of the sum; "banded" finds its own.
    p : of "lp", at least 1; "cv" chooses among 1, 4/3, 2, 4 and infinity, the uniform average, on held-out rows.
    per_target : weights for each target instead of weights that all of them share, each counting relative to its variance.
    gap : relative duality gap at which "simple" and "lp" are content. max_iter : cap of steps of the search.
    cv : folds or splitter for `score_` and `uniform_score_`.
    engine, memory : how Grams are computed, and within how many bytes. All of them are held as triangles, twice.

    Attributes
    ----------
    weights_ (k,), or (targets, k) per target : shares of the kernels, of sum 1. names_ : the kernels, by name or as they print.
    kernel_, estimator_, expansion_ : the sum as one kernel, and the `KernelRidge` fitted with it; lists of them per target.
    coefficients_, scales_ : factors of the kernels in `kernel_`, and the variances that they were divided by.
    alpha_ : what was added to the diagonal; an array per target.
    score_, uniform_score_ : R^2 on held-out rows with weights learned without them, and of the uniform average.
    alignments_ (k,) : centred alignment of each kernel with the targets.
    p_, path_ : p of "lp", and with "cv" the score of each p. `score_` then is that of the best, and a little too good.
    dual_gap_, objective_, trace_, n_iter_, converged_ : of the search, lists per target. `trace_` has (objective, gap) of each
        step, of "banded" the leave-one-out error relative to the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import MKLRegressor
    >>> from mercer.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 3))
    >>> model = MKLRegressor([RBF().on(j) for j in range(3)], method="banded").fit(X, np.sin(2 * X[:, 1]))
    >>> int(model.weights_.argmax()), bool(model.weights_[1] > 0.9), bool(model.score_ > 0.9)
    (1, True, True)

    Cortes, Mohri & Rostamizadeh (2012); Kloft et al. (2011); Dupré la Tour et al. (2022).
    """

    _checks: dict = {"multi_output": True, "y_numeric": True}
    _parameter_constraints: dict = {
        **_SHARED,
        "method": [StrOptions({"alignment", "banded", "simple", "lp", "uniform"})],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "per_target": ["boolean"],
    }

    def __init__(self, kernels=("linear", "rbf"), *, method="alignment", alpha=1.0, p=2.0, per_target=False, gap=1e-3,
                 max_iter=1000, cv=5, engine=None, memory=None):  # fmt: skip
        self.kernels = kernels
        self.method = method
        self.alpha = alpha
        self.p = p
        self.per_target = per_target
        self.gap = gap
        self.max_iter = max_iter
        self.cv = cv
        self.engine = engine
        self.memory = memory

    def _targets(self, y):
        """Columns of mean 0 and variance 1; constant ones are 0."""
        T = np.asarray(y, np.float64).reshape(len(y), -1)
        T = T / np.maximum(np.abs(T).max(axis=0), np.finfo(float).tiny)
        T = T - T.mean(axis=0)
        size = np.sqrt((T**2).mean(axis=0))
        return T / np.where(size > 8 * np.finfo(float).eps, size, np.inf)

    def _learner(self, stack, y):
        return RidgeMachine(self._targets(y), self.alpha)

    def _special(self, stack, y):
        record = band_weights(stack, self._targets(y), max_iter=self.max_iter)
        return _Found(record.weights, self._settings(record, False), record)

    def _settings(self, record, uniform):
        if self.method != "banded" or record is None:
            return {"alpha": self.alpha}
        return {"alpha": record.uniform_alpha if uniform else record.alpha}

    def _machine(self, kernel, settings, kind=KernelRidge):
        return kind(kernel=kernel, fit_intercept=True, engine=engine_of(self), memory=self.memory, **settings)

    def _given(self, settings):
        return self._machine("precomputed", settings, _GivenRidge)

    @staticmethod
    def _measure(truth, guesses):
        return float(r2_score(truth, guesses))

    def _learn(self, setup, folds):
        if not self.per_target or setup.y.ndim == 1:
            return super()._learn(setup, folds)
        parts = [copy(self) for _ in range(setup.y.shape[1])]
        for j, part in enumerate(parts):
            part._learn(replace(setup, y=setup.y[:, j]), folds)
        self._join(parts)

    def _join(self, parts):
        """What each target has learned, in arrays and lists; rows are kept once."""
        for part in parts:
            part.estimator_.X_fit_ = parts[0].estimator_.X_fit_
        arrays = ("weights_", "coefficients_", "alpha_", "score_", "uniform_score_", "alignments_", "n_iter_")
        for name in sorted(
            set(vars(parts[0])) - set(vars(self)), key="estimator_".__eq__
        ):  # that one last: it says "fitted"
            values = [getattr(part, name) for part in parts]
            joined = values[0] if name in ("scales_", "reads_") else np.array(values) if name in arrays else values
            setattr(self, name, all(values) if name == "converged_" else joined)

    def _store(self, setup, found):
        self.alpha_ = found.settings["alpha"]
        super()._store(setup, found)

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion of the machine: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        if isinstance(self.estimator_, list):
            raise AttributeError("per_target=True has an expansion for each target: ask the machines in estimator_")
        return self.estimator_.expansion_

    def predict(self, X) -> np.ndarray:
        """Predicted targets (m,) or (m, targets)."""
        rows = self._rows(X)
        if isinstance(self.estimator_, list):
            return np.column_stack([machine.predict(rows) for machine in self.estimator_])
        return self.estimator_.predict(rows)

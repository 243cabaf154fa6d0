"""Support vector machines with scikit-learn's names and meanings, on any kernel (M8)."""

import logging
import warnings
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin, clone
from sklearn.utils._param_validation import Hidden, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, engine_of, forget
from mercer.estimators.expansion import Expansion
from mercer.estimators.labels import class_factors, class_labels
from mercer.estimators.mixins import ClassifierMixin, RegressorMixin
from mercer.estimators.pairs import Pair, PairGrams, pairs_of, sklearn_layout
from mercer.gram import GivenGram, gram
from mercer.gram.plan import budget
from mercer.kernels import Linear
from mercer.linalg import Status
from mercer.registry import register_estimator
from mercer.solvers import (
    RowCache,
    c_svc,
    epsilon_svr,
    fits_together,
    nu_svc,
    nu_svr,
    one_class,
    solve_machine,
    solve_machines,
)
from mercer.threads import map_tiles

__all__ = ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "calibrated"]

logger = logging.getLogger("mercer")

_SAMPLE = 1000  # rows on which a kernel without a certificate is tested
_SHARED = {
    **{name: CONSTRAINTS[name] for name in ("kernel", "degree", "coef0", "engine", "memory", "indefinite")},
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "shrinking": ["boolean"],
    "cache_size": [Interval(Real, 0, None, closed="neither")],
    "verbose": ["verbose"],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "time_limit": [Interval(Real, 0, None, closed="neither"), None],
    "callback": [callable, None],
}
_C = {"C": [Interval(Real, 0.0, None, closed="neither")]}
_NU = {"nu": [Interval(Real, 0.0, 1.0, closed="right")]}


class _SVM(KernelEstimator):
    """What the five machines share: rows in canonical order, their Gram, the solver, and sums over support vectors."""

    _kind: str

    def _begin(self, X, y, sample_weight, **checks):
        """Validated rows with positive weights and their numbers in X; forgets an earlier fit."""
        self._validate_params()
        forget(self)
        kernel = None if self._precomputed else self._kernel()
        needs = () if kernel is None else (kernel.reads, kernel.columns)
        rows, y, w, kept = validate.training(self, X, y, sample_weight, *needs, **checks)
        n = validate.n_given(kept, sample_weight)
        self.shape_fit_ = (n, getattr(self, "n_features_in_", 1))
        if kernel is None:
            rows = self._square(rows, kept, n)
        return rows, y, w, kept

    def _canonical(self, rows, targets, w, kept):
        """The same problem in an order fixed by content, equal rows merged; a given Gram keeps its order."""
        if self._precomputed:
            rows, targets, w = self._merged(rows, targets, w)
            index = np.arange(len(targets)) if self.kept_ is None else self.kept_
            return rows, targets, (np.ones(len(targets)) if w is None else w), index
        rows, targets, w, index = validate.canonical(rows, targets, w)
        return rows, targets, w, kept[index]

    def _gram_of(self, rows, w):
        """Training Gram, tested and repaired as `indefinite` says, and the record of the repair."""
        K = self._training_gram(rows, w)
        n = K.shape[0]
        repairs = self.indefinite not in ("raise", "warn")
        some = np.linspace(0, n - 1, _SAMPLE).astype(int)
        fixed = self._definite(K if repairs or n <= _SAMPLE else K[some, some])
        return (K if fixed is None else GivenGram(fixed.matrix.astype(K.dtype))), fixed

    def _machine(self, cache, problem):
        return solve_machine(cache, self._kind, problem, shrinking=self.shrinking, **self._limits())

    def _limits(self):
        return {
            "tol": self.tol,
            "max_iter": None if self.max_iter == -1 else self.max_iter,
            "time_limit": self.time_limit,
            "callback": _printing(self.callback) if self.verbose else self.callback,
        }

    def _cache_bytes(self):
        return int(min(self.cache_size * 1e6, budget(self.memory))) if self.memory is None else budget(self.memory)

    def _keep(self, rows, index, found, fixed, groups):
        """Keep the rows that take part, by group and number: found is [(rows, machine), ...]. Returns which they are."""
        taking, coefficients = _gathered(found, len(index), whole=fixed is not None)
        if fixed is not None:
            coefficients = fixed.transform(coefficients.T).T
            taking = np.flatnonzero((coefficients != 0).any(axis=1))
            coefficients = coefficients[taking]
        order = np.lexsort((index[taking], groups[taking]))
        taking = taking[order]
        self.support_ = index[taking].astype(np.int32)
        self._columns = np.ascontiguousarray(coefficients[order], self._dtype(rows))
        if self._precomputed:
            self.X_fit_ = self.support_vectors_ = np.empty((0, 0))
            self.kept_ = self.support_
        else:
            self.X_fit_ = self.support_vectors_ = validate.take(rows, taking)
            if len(taking):
                self._gram = gram(self.kernel_, self.X_fit_, engine=engine_of(self), memory=self.memory, validated=True)
        return taking

    @staticmethod
    def _dtype(rows):
        return np.float32 if getattr(rows, "dtype", None) == np.float32 else np.float64

    def _finish(self, machines):
        self.dual_gap_ = np.array([m.gap for m in machines])
        self.violation_ = np.array([m.violation for m in machines])
        self.objective_ = np.array([m.objective for m in machines])
        bad = [m for m in machines if m.status is not Status.CONVERGED]
        self.converged_, self.fit_status_ = not bad, int(bool(bad))
        if bad:
            worst = max(bad, key=lambda m: m.violation)
            warnings.warn(f"the solver stopped early ({worst.status.value}) with slopes {worst.violation:.2g} apart, tol="
                          f"{self.tol:g}: scale the columns of X, lower C, or raise max_iter", ConvergenceWarning,
                          stacklevel=3)  # fmt: skip
        self.solver_used_ = "smo"
        if self.verbose:
            print(f"{type(self).__name__}: {len(machines)} machine(s), {len(self.support_)} support vectors, "
                  f"{np.sum(self.n_iter_)} steps, slopes at most {self.violation_.max():.2g} apart")  # fmt: skip
        return self

    def _sums(self, X):
        """sum_i coefficients_i k(x, x_i) for the rows of X, (m, p), in tiles over the support vectors."""
        check_is_fitted(self)
        if len(self._columns) == 0:  # a constant explains all rows
            needs = () if isinstance(self.kernel_, str) else (self.kernel_.reads, self.kernel_.columns)
            return np.zeros((validate.n_rows(validate.prediction(self, X, *needs)), 1), self._columns.dtype)
        return self._test_gram(X) @ self._columns

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion: kernel, support vectors, coefficients, intercept."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self._columns, np.atleast_1d(self.intercept_))

    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres, "support_", "n_support_", "dual_coef_", "_calibrated")
        new.support_vectors_, new._columns = centres, coefficients
        # Of pairs of classes scikit-learn's layout has no place for vectors that belong to no class.
        if coefficients.shape[1] == 1 or getattr(self, "multi_class", None) == "ovr":
            new.dual_coef_ = coefficients.T
        if hasattr(self, "_calibrated"):
            new._calibrated = _calibrated_by(new, self._calibrated)
        return new

    @property
    def coef_(self):
        """Weights of the columns, for linear kernels only."""
        check_is_fitted(self)
        if not isinstance(self.kernel_, Linear) or getattr(self.support_vectors_, "ndim", 1) != 2:
            raise AttributeError("coef_ is only available when using a linear kernel")
        return (self.support_vectors_.T @ self._columns).T


def _calibrated_by(machine, known):
    """The calibration of one machine's decisions, of another's."""
    inside, outside = copy(known.calibrated_classifiers_[0]), copy(known)
    inside.estimator = copy(machine)
    outside.calibrated_classifiers_ = [inside]
    return outside


def _printing(callback, every=0.5):
    """The callback, and a line of progress every so many seconds of one machine."""
    due = every

    def told(progress):
        nonlocal due
        if progress.seconds >= due:
            due = progress.seconds + every
            print(f"{progress.seconds:6.1f} s  {progress.iterations:9d} steps  slopes {progress.violation:.2g} apart  "
                  f"{progress.active} variables in play", flush=True)  # fmt: skip
        return callback is not None and callback(progress)

    return told


def _gathered(found, n, whole):
    """Coefficients (m, p) of the rows that some machine uses, or of all n, and which rows those are."""
    used = [inside[machine.coefficients != 0] for inside, machine in found]
    rows = np.arange(n) if whole else np.unique(np.concatenate(used))
    place, out = np.empty(n, dtype=np.intp), np.zeros((len(rows), len(found)))
    place[rows] = np.arange(len(rows))
    for p, (_, machine) in enumerate(found):
        out[place[used[p]], p] = machine.coefficients[machine.coefficients != 0]
    return rows, out


# ------------------------------------------------------------------------------------------------ classification
def _asks_for_probability(self):
    if self.probability in ("deprecated", False):
        raise AttributeError("predict_proba is not available when probability=False; use mercer.calibrated")
    return True


@dataclass(frozen=True)
class _Setup:
    """A classification problem at the door of the solver."""

    rows: Any
    index: np.ndarray
    codes: np.ndarray
    share: np.ndarray
    K: Any
    fixed: Any
    pairs: list[Pair]


class _Classifier(ClassifierMixin, _SVM):
    """Labels by the signs and votes of machines for two classes."""

    def _setup(self, X, y, sample_weight):
        rows, y, w, kept = self._begin(X, y, sample_weight, multi_output=False)
        classes, codes = class_labels(y)
        rows, codes, w, index = self._canonical(rows, codes, w, kept)
        self.classes_, self.class_weight_ = classes, class_factors(self.class_weight, classes, codes, w)
        K, fixed = self._gram_of(rows, w)
        return _Setup(
            rows, index, codes, w * self.class_weight_[codes], K, fixed, pairs_of(len(classes), self.multi_class)
        )

    def _machines(self, setup, models):
        """(rows, [machine of each model]) of every pair; models differ in their price of errors and follow one another."""
        if self._kind == "c_svc" and len(models) == 1 and fits_together(setup.K):
            return self._together(setup)
        grams, memory = PairGrams(setup.K, setup.codes, len(self.classes_)), self._cache_bytes()

        def job(p):
            inside, y = setup.pairs[p].rows(setup.codes)
            cache = RowCache(grams.of(setup.pairs[p], inside), memory)
            return inside, self._following(cache, y, setup.share[inside], models)

        # Small pairs are solved side by side, each by one thread; of large ones each tile loop uses all.
        if grams.small:
            return map_tiles(job, len(setup.pairs))
        return [job(p) for p in range(len(setup.pairs))]

    def _together(self, setup):
        """All pairs at once, by a GPU that holds the whole Gram."""
        inside = [pair.rows(setup.codes) for pair in setup.pairs]
        problems = [self._problem(y, setup.share[rows]) for rows, y in inside]
        machines = solve_machines(setup.K, [rows for rows, _ in inside], problems, **self._limits())
        return [(rows, [machine]) for (rows, _), machine in zip(inside, machines, strict=True)]

    @staticmethod
    def _following(cache, y, share, models):
        """The machines of one pair, each started from the one before."""
        done: list = []
        for k, model in enumerate(models):
            problem = model._problem(y, share)
            if k:  # variables at their borders stay there, as most of them will
                start = done[-1].coefficients * (model.C / models[k - 1].C)
                problem = replace(problem, start=np.clip(start, problem.lower, problem.upper))
            done.append(model._machine(cache, problem))
        return done

    def _store(self, setup, found):
        rows, index, codes, pairs, fixed = setup.rows, setup.index, setup.codes, setup.pairs, setup.fixed
        taking = self._keep(rows, index, found, fixed, codes)
        self.intercept_ = np.array([m.intercept for _, m in found])
        if len(self.classes_) == 2:  # scikit-learn: positive is the second class
            self._columns, self.intercept_ = -self._columns, -self.intercept_
        self.dual_coef_ = sklearn_layout(self._columns, codes[taking], pairs, len(self.classes_), self.multi_class)
        self.n_support_ = np.bincount(codes[taking], minlength=len(self.classes_)).astype(np.int32)
        self.n_iter_ = np.array([m.iterations for _, m in found], dtype=np.int32)

    def _pair_values(self, X):
        return self._sums(X) + self.intercept_.astype(self._columns.dtype)

    def decision_function(self, X) -> np.ndarray:
        """(m,) for two classes; (m, classes), or (m, pairs) with decision_function_shape="ovo"."""
        values = self._pair_values(X)
        if len(self.classes_) == 2:
            return values[:, 0]
        if self.multi_class == "ovr" or self.decision_function_shape == "ovo":
            return values
        return _ovr_decision_function(values < 0, -values, len(self.classes_))

    def predict(self, X) -> np.ndarray:
        """Labels: the sign for two classes, most votes of the pairs (the first of equals), or the largest one-vs-rest value."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        values = self._pair_values(X)
        if len(self.classes_) == 2:
            return self.classes_[(values[:, 0] > 0).astype(int)]
        if self.multi_class == "ovr":
            return self.classes_[values.argmax(axis=1)]
        if self.break_ties:
            return self.classes_[_ovr_decision_function(values < 0, -values, len(self.classes_)).argmax(axis=1)]
        return self.classes_[self._votes(values).argmax(axis=1)]

    def _votes(self, values):
        votes = np.zeros((len(values), len(self.classes_)), dtype=int)
        for p, pair in enumerate(pairs_of(len(self.classes_), self.multi_class)):
            first = values[:, p] > 0
            votes[first, pair.first] += 1
            votes[~first, pair.second] += 1
        return votes


class _WeightedClassifier(_Classifier):
    """Classifiers that take weights and, as long as scikit-learn's do, the parameter `probability`."""

    def fit(self, X, y, sample_weight=None):
        """Fit on rows X, labels y (n,) and optional weights: a weight of 2 is the row twice."""
        setup = self._setup(X, y, sample_weight)
        found = [(inside, machine) for inside, (machine,) in self._machines(setup, [self])]
        self._store(setup, found)
        self._fit_probability(X, y, sample_weight)
        return self._finish([m for _, m in found])

    def _fit_probability(self, X, y, sample_weight):
        if self.probability in ("deprecated", False):
            return
        warnings.warn("the `probability` parameter is deprecated as in scikit-learn; use mercer.calibrated(...) or "
                      "sklearn.calibration.CalibratedClassifierCV", FutureWarning, stacklevel=3)  # fmt: skip
        model = clone(self).set_params(probability="deprecated")
        self._calibrated = calibrated(model, random_state=self.random_state).fit(X, y, sample_weight=sample_weight)

    @available_if(_asks_for_probability)
    def predict_proba(self, X) -> np.ndarray:
        """Calibrated probabilities of the classes; their largest need not be what `predict` says."""
        check_is_fitted(self)
        return self._calibrated.predict_proba(X)

    @available_if(_asks_for_probability)
    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))


def calibrated(classifier, *, method="sigmoid", cv=5, random_state=None) -> Any:
    """A classifier with probabilities, by cross-validated Platt scaling (or isotonic regression) of `decision_function`.

    Its `predict` takes the largest probability, which near the border need not be the sign that the machine's own `predict`
    takes from `decision_function`: use one or the other, not a mixture. `random_state` shuffles the folds.

    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC, calibrated
    >>> X, y = load_iris(return_X_y=True)
    >>> calibrated(SVC(), random_state=0).fit(X, y).predict_proba(X[:2]).shape
    (2, 3)
    """
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(cv, shuffle=True, random_state=random_state) if isinstance(cv, int) else cv
    return CalibratedClassifierCV(classifier, method=method, cv=folds, ensemble=False)


def _prices(Cs):
    values = np.asarray(Cs, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"Cs={Cs!r} must be a list of positive numbers")
    return values


_OF_CLASSIFIERS = {
    **_SHARED,
    "probability": ["boolean", Hidden(StrOptions({"deprecated"}))],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "decision_function_shape": [StrOptions({"ovr", "ovo"})],
    "break_ties": ["boolean"],
    "random_state": ["random_state"],
    "multi_class": [StrOptions({"ovo", "ovr"})],
}


@register_estimator
class SVC(_WeightedClassifier):
    r"""C-support vector classification with any kernel.

    .. math:: \min_{f, b} \tfrac12 \lVert f \rVert^2 + \sum_i C_i \max(0, 1 - y_i (f(x_i) + b)), \qquad C_i = C w_i

    Parameters, defaults and fitted attributes are scikit-learn's; `kernel` also takes kernel objects, and rows may be whatever
    the kernel reads. Many classes are separated pair by pair.

    Parameters
    ----------
    C : price of a margin error. class_weight : factors of C by label, or "balanced".
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    degree, gamma, coef0 : parameters of kernels given by word.
    tol : largest difference of dual slopes at which the solver stops. max_iter : cap of its steps, -1 for a very large one.
    time_limit : seconds for each pair of classes, after which the solver stops. callback : called with the progress of the solver
        between blocks; stops it by returning True.
    verbose : print the progress of long fits and what was reached.
    shrinking : whether variables that stay at their borders are left out of the way.
    cache_size : megabytes of kernel rows kept, if `memory` is not given.
    probability : deprecated as in scikit-learn; see `mercer.calibrated`.
    decision_function_shape, break_ties : shape of decisions for many classes, as in scikit-learn.
    multi_class : "ovo", a machine for each pair of classes, or "ovr", one for each class against the rest.
    engine, memory, indefinite : how and within how many bytes Grams are computed, and what to do when they are not PSD.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, class_weight_, n_iter_, fit_status_ : as in
        scikit-learn. Equal rows with equal labels are one row with their weights added: `support_` names the first.
    dual_gap_, violation_, objective_, converged_ : duality gap, largest difference of slopes and value of each dual, recomputed
        from scratch.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC
    >>> from mercer.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(C=10, kernel=RBF(2.0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.97), bool(model.dual_gap_.max() < 1)
    (True, True)

    Cortes & Vapnik (1995); Fan, Chen & Lin (2005).
    """

    _kind = "c_svc"
    _parameter_constraints = {**_OF_CLASSIFIERS, **_C}

    def __init__(self, *, C=1.0, kernel="rbf", degree=3, gamma="scale", coef0=0.0, shrinking=True, probability="deprecated",
                 tol=1e-3, cache_size=200, class_weight=None, verbose=False, max_iter=-1, decision_function_shape="ovr",
                 break_ties=False, random_state=None, multi_class="ovo", time_limit=None, callback=None, engine=None,
                 memory=None, indefinite="warn"):  # fmt: skip
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.multi_class = multi_class
        self.time_limit = time_limit
        self.callback = callback
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def _problem(self, y, share):
        return c_svc(y, self.C * share)

    def path(self, X, y, Cs, sample_weight=None) -> "list[SVC]":
        """Fitted machines for several prices C, cheaper than one by one: they share kernel rows, and each starts from the
        solution of the next smaller C.

        >>> from sklearn.datasets import load_iris
        >>> from mercer import SVC
        >>> X, y = load_iris(return_X_y=True)
        >>> [len(m.support_) for m in SVC(gamma=0.5).path(X, y, [0.1, 1, 10])]
        [123, 57, 36]
        """
        Cs = _prices(Cs)
        order = np.argsort(Cs, kind="stable")
        models = [clone(self).set_params(C=float(C)) for C in Cs[order]]
        setup = self._setup(X, y, sample_weight)
        found = self._machines(setup, models)
        for k, model in enumerate(models):
            vars(model).update({n: v for n, v in vars(self).items() if n.endswith("_") and not n.startswith("__")})
            model._store(setup, [(inside, machines[k]) for inside, machines in found])
            model._finish([machines[k] for _, machines in found])
        forget(self)
        return [models[k] for k in np.argsort(order, kind="stable")]


@register_estimator
class NuSVC(_WeightedClassifier):
    r"""Support vector classification with a bound nu on the fraction of margin errors instead of a price C.

    Parameters and attributes are those of `SVC`, with `nu` in place of `C`: at most a fraction nu of the rows are margin
    errors, at least a fraction nu are support vectors. Weights are masses of rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import NuSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(NuSVC(nu=0.2).fit(X, y).score(X, y) > 0.95)
    True

    Scholkopf, Smola, Williamson & Bartlett (2000).
    """

    _kind = "nu_svc"
    _parameter_constraints = {**_OF_CLASSIFIERS, **_NU}

    def __init__(self, *, nu=0.5, kernel="rbf", degree=3, gamma="scale", coef0=0.0, shrinking=True, probability="deprecated",
                 tol=1e-3, cache_size=200, class_weight=None, verbose=False, max_iter=-1, decision_function_shape="ovr",
                 break_ties=False, random_state=None, multi_class="ovo", time_limit=None, callback=None, engine=None,
                 memory=None, indefinite="warn"):  # fmt: skip
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.multi_class = multi_class
        self.time_limit = time_limit
        self.callback = callback
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def _problem(self, y, share):
        return nu_svc(y, share, self.nu)


# ------------------------------------------------------------------------------------------------ regression, one class
class _OneMachine(_SVM):
    """Machines with one sum: regression and one class."""

    def _fit_one(self, rows, y, w, kept):
        rows, y, w, index = self._canonical(rows, y, w, kept)
        K, fixed = self._gram_of(rows, w)
        machine = self._machine(RowCache(K, self._cache_bytes()), self._problem(y, w))
        everything = np.arange(len(index))
        self._keep(rows, index, [(everything, machine)], fixed, np.zeros(len(index)))
        self.dual_coef_ = self._columns.T
        self.intercept_ = np.array([machine.intercept])
        self.n_support_ = np.array([len(self.support_)], dtype=np.int32)
        self.n_iter_ = machine.iterations
        return machine

    def _values(self, X):
        values = self._sums(X)[:, 0]
        return values + values.dtype.type(self.intercept_[0])


class _Regressor(RegressorMixin, _OneMachine):
    def fit(self, X, y, sample_weight=None):
        """Fit on rows X, targets y (n,) and optional weights: a weight of 2 is the row twice."""
        rows, y, w, kept = self._begin(X, y, sample_weight, multi_output=False, y_numeric=True)
        machine = self._fit_one(rows, np.asarray(y, dtype=np.float64), w, kept)
        return self._finish([machine])

    def predict(self, X) -> np.ndarray:
        """Predicted targets (m,), computed in tiles over the support vectors."""
        return self._values(X)


@register_estimator
class SVR(_Regressor):
    r"""Support vector regression: errors up to epsilon cost nothing.

    .. math:: \min_{f, b} \tfrac12 \lVert f \rVert^2 + \sum_i C_i \max(0, |y_i - f(x_i) - b| - \epsilon)

    Parameters and attributes as in scikit-learn and as in `SVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = SVR(C=10, epsilon=0.05).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[2.0]])[0] - np.sin(2.0)) < 0.06)
    True

    Smola & Scholkopf (2004).
    """

    _kind = "epsilon_svr"
    _parameter_constraints = {**_SHARED, **_C, "epsilon": [Interval(Real, 0.0, None, closed="left")]}

    def __init__(self, *, kernel="rbf", degree=3, gamma="scale", coef0=0.0, tol=1e-3, C=1.0, epsilon=0.1, shrinking=True,
                 cache_size=200, verbose=False, max_iter=-1, time_limit=None, callback=None, engine=None, memory=None,
                 indefinite="warn"):  # fmt: skip
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.callback = callback
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def _problem(self, y, w):
        return epsilon_svr(y, self.C * w, self.epsilon)


@register_estimator
class NuSVR(_Regressor):
    r"""Support vector regression whose epsilon is found: at most a fraction nu of the rows lies outside the tube.

    Parameters and attributes as in scikit-learn and as in `SVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import NuSVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> model = NuSVR(C=10, nu=0.3).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[2.0]])[0] - np.sin(2.0)) < 0.06)
    True

    Scholkopf, Smola, Williamson & Bartlett (2000).
    """

    _kind = "nu_svr"
    _parameter_constraints = {**_SHARED, **_C, **_NU}

    def __init__(self, *, nu=0.5, C=1.0, kernel="rbf", degree=3, gamma="scale", coef0=0.0, shrinking=True, tol=1e-3,
                 cache_size=200, verbose=False, max_iter=-1, time_limit=None, callback=None, engine=None, memory=None,
                 indefinite="warn"):  # fmt: skip
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.callback = callback
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def _problem(self, y, w):
        return nu_svr(y, self.C * w, self.nu)


@register_estimator
class OneClassSVM(OutlierMixin, _OneMachine):
    r"""Support of a distribution: a function that is positive on all but about a fraction nu of the rows.

    Parameters and attributes as in scikit-learn and as in `SVC`; weights are masses of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import OneClassSVM
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> model = OneClassSVM(nu=0.1).fit(X)
    >>> int(model.predict([[6.0, 6.0]])[0]), bool(abs((model.predict(X) < 0).mean() - 0.1) < 0.05)
    (-1, True)

    Scholkopf et al. (2001).
    """

    _kind = "one_class"
    _parameter_constraints = {**_SHARED, **_NU}

    def __init__(self, *, kernel="rbf", degree=3, gamma="scale", coef0=0.0, tol=1e-3, nu=0.5, shrinking=True, cache_size=200,
                 verbose=False, max_iter=-1, time_limit=None, callback=None, engine=None, memory=None,
                 indefinite="warn"):  # fmt: skip
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.callback = callback
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def fit(self, X, y=None, sample_weight=None):
        """Fit on rows X and optional weights; y is ignored."""
        rows, _, w, kept = self._begin(X, None, sample_weight)
        machine = self._fit_one(rows, np.zeros(validate.n_rows(rows)), w, kept)
        self.offset_ = -self.intercept_
        return self._finish([machine])

    def _problem(self, y, w):
        return one_class(w, self.nu)

    def score_samples(self, X) -> np.ndarray:
        """The sum over support vectors, without the offset."""
        return self._sums(X)[:, 0]

    def decision_function(self, X) -> np.ndarray:
        """Positive inside, negative outside."""
        return self._values(X)

    def predict(self, X) -> np.ndarray:
        """1 inside, -1 outside."""
        return np.where(self._values(X) >= 0, 1, -1)

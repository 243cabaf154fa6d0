"""Vector machines: generalised linear models on the columns of the Gram matrix, with an L2 or L1 penalty (M6)."""

import logging
import math
import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval, StrOptions

from mercer import validate
from mercer.errors import ConvergenceWarning, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, engine_of, forget
from mercer.estimators.expansion import SizeReport, size_report
from mercer.estimators.labels import class_labels, sound_factors
from mercer.estimators.landmarks import Reporter
from mercer.estimators.mixins import RegressorMixin
from mercer.estimators.scores import ScoredClassifier, ScoredExpansion
from mercer.gram import GivenGram, gram
from mercer.gram.plan import budget, require
from mercer.linalg import Status, check_symmetric
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers import ridge_path
from mercer.solvers.glm_losses import LogisticLoss, SquaredLoss
from mercer.solvers.smooth_glm import Factored, Spectral, l2_path, solve_l2
from mercer.solvers.sparse_glm import Columns, l1_path, largest_alpha, solve_l1

__all__ = ["L1VMClassifier", "L1VMRegressor", "L2VMClassifier", "L2VMRegressor"]

logger = logging.getLogger("mercer")

_LONGEST = 30.0  # seconds that one pass over a Gram that is not held may take
_HELD, _FACTORED = 3, 4  # parts of the budget, in Grams: to hold it, and to factor what is made of it
_SPARSE_RANGE, _SQUARES_RANGE, _LOGISTIC_RANGE = 1e-3, 1e-8, 1e-6  # smallest alpha that is tried, of the largest
_CHOICE = 1e-4  # duality gap at which scores on rows left out tell alphas apart
_LARGEST, _LARGEST_VALUE = 1e150, 1e100  # of a target, whose square is a number, and of a kernel

_ADVICE = {
    Status.MAX_ITER: "raise max_iter or alpha",
    Status.STAGNATED: "rounding allows no more; raise tol or alpha, or use a shorter lengthscale",
}

_CONSTRAINTS = {
    **{name: allowed for name, allowed in CONSTRAINTS.items() if name != "indefinite"},
    "alpha": [Interval(Real, 0, None, closed="neither"), StrOptions({"cv"})],
    "fit_intercept": ["boolean"],
    "n_alphas": [Interval(Integral, 1, None, closed="left")],
    "cv": ["cv_object"],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


# ------------------------------------------------------------------------------------------------ what all share
class _Machine(ScoredExpansion):
    """A fit on different rows: a loss of them, the Gram, an alpha, a solution."""

    def fit(self, X, y, sample_weight=None):
        """Fit on rows X, targets or labels y (n,) and optional weights: a weight of 2 is the row twice."""
        self._validate_params()
        forget(self)
        rows, loss, weight, index = self._problem(X, y, sample_weight)
        K = self._design(self._training_gram(rows, weight))
        alpha = self._chosen(K, loss, self._splits(y, index)) if isinstance(self.alpha, str) else float(self.alpha)
        solution = self._solve(K, loss, alpha, Reporter(None, self.verbose, self.tol))
        self._store(solution, alpha, rows, index)
        self.solver_used_ = self._method(K)
        if isinstance(loss, LogisticLoss) and solution.objective <= loss.rounding:
            warnings.warn(f"the classes are separated and alpha={alpha:.3g} is too small beside rounding: it keeps coefficients "
                          "finite but does not determine them; raise alpha", NumericalWarning, stacklevel=2)  # fmt: skip
        return self

    def _different(self, rows, index):
        """Rows no two of which are equal, as float64, their numbers in X, and which of them each row is."""
        first, group = validate.groups(rows)
        if self._precomputed:
            rows = np.asarray(rows[np.ix_(first, first)], np.float64)
        elif len(first) < len(group):
            rows = validate.take(rows, first)
        return validate.double(rows), index[first], group

    def _design(self, K):
        """The Gram in memory where it fits, else as it is: columns and products of it are then computed when needed."""
        largest = float(np.abs(K.diag()).max())
        if largest > _LARGEST_VALUE:
            raise ValueError(f"kernel values up to {largest:.3g} overflow in products; rescale the columns of X")
        if isinstance(K, GivenGram):
            return K
        needed, room = 8 * len(K) ** 2, budget(self.memory)
        if _HELD * needed <= room:
            dense = K.dense()
            check_symmetric(dense)
            return GivenGram(dense)
        if K.plan.seconds > _LONGEST:
            what = f"the Gram matrix of {len(K)} rows, which {type(self).__name__} reads again and again,"
            remedies = [
                "KernelLogistic or KernelRidge with n_landmarks",
                "fewer rows",
                'a larger budget, memory="64GB"',
            ]
            require(_HELD * needed, room, what, remedies, K.plan.seconds)
        logger.info("a Gram of %.3g bytes, %.3g allowed: columns are computed when they are needed", needed, room)
        return K

    def _method(self, K):
        return "columns held" if isinstance(K, GivenGram) else "columns when needed"

    # ------------------------------------------------------------------------------------ the choice of alpha
    def _splits(self, y, index):
        """Different rows of each fold's (training, test) where `cv` is a splitter or a list, which speak of the rows of X."""
        if isinstance(self.cv, (Integral, str)):
            return None
        folds = check_cv(self.cv, y, classifier=hasattr(self, "classes_")).split(np.zeros((len(y), 1)), y)
        return [tuple(np.flatnonzero(np.isin(index, part)) for part in fold) for fold in folds]

    def _chosen(self, K, loss, splits):
        """The alpha of the best score on rows left out. Sets `alphas_` and `cv_scores_`."""
        self.alphas_ = self._grid(K, loss)
        folds = _folds(loss, self.cv, generator(self.random_state)) if splits is None else splits
        folds = [fold for fold in folds if min(map(len, fold)) > 0]
        if not folds:
            warnings.warn("all rows are equal: nothing tells one alpha from another, and the largest is taken",
                          NumericalWarning, stacklevel=3)  # fmt: skip
        table = [self._fold(K, loss, train, test) for train, test in folds]
        self.cv_scores_ = np.array(table).T.reshape(len(self.alphas_), len(folds))
        share = np.array([loss.weight[test].sum() for _, test in folds])
        return float(self.alphas_[int((self.cv_scores_ @ share).argmax())])

    def _fold(self, K, loss, train, test):
        """Scores of all alphas on the rows left out."""
        inner, outer = loss.split(train, test)
        if inner is None:  # only one class is left: there is nothing to learn
            return np.zeros(len(self.alphas_))
        across = K[test, train]
        return [outer.score(across @ s.coefficients + s.intercept) for s in self._path(K[train, train], inner, K)]

    # ------------------------------------------------------------------------------------ the answer
    def _store(self, solution, alpha, rows, index):
        used = self._vectors(solution.coefficients)
        W = solution.coefficients[used]
        self.alpha_, self.objective_, self.dual_gap_ = alpha, solution.objective, solution.certificate
        self.dual_coef_ = W[:, 0] if W.shape[1] == 1 else W
        self.intercept_, self.support_ = self._constant(solution.intercept), index[used]
        self.n_iter_, self.converged_ = solution.iterations, solution.status is Status.CONVERGED
        self._keep_rows(rows, used, index)
        if not self.converged_:
            warnings.warn(f"stopped at a duality gap of {solution.certificate:.2g} of the objective, tol={self.tol:g} "
                          f"({solution.status.value}): {_ADVICE[solution.status]}", ConvergenceWarning, stacklevel=3)  # fmt: skip

    def _keep_rows(self, rows, used, index):
        if self._precomputed:
            self.X_fit_, self.kept_ = rows[np.ix_(used, used)], index[used]
            self._gram = GivenGram(self.X_fit_)
        else:
            self.X_fit_ = validate.take(rows, used)
            self._gram = gram(self.kernel_, self.X_fit_, engine=engine_of(self), memory=self.memory, validated=True)

    def _with_expansion(self, centres, coefficients):
        # The certificate is that of the model before; other vectors are no rows of X.
        new = self._recentred(centres, "support_", "kept_", "dual_gap_", "objective_", "converged_", "n_iter_")
        new.dual_coef_ = coefficients[:, 0] if self.dual_coef_.ndim == 1 else coefficients
        return new

    def size_report(self) -> SizeReport:
        """Stored vectors, parameters, bytes and prediction cost, dual against primal."""
        d = self.X_fit_.shape[1] if getattr(self.X_fit_, "ndim", 1) == 2 else 1
        dim = math.inf if isinstance(self.kernel_, str) else self.kernel_.feature_dim(d)
        return size_report(self.expansion_, dim)


# ------------------------------------------------------------------------------------------------ two penalties
class _Sparse:
    """alpha |w|_1, on columns of the Gram."""

    def _columns(self, K, *beside):
        """Columns of a Gram in what it and others beside it leave of the budget."""
        return Columns(K, budget(self.memory) - sum(8 * len(G) ** 2 for G in (K, *beside) if isinstance(G, GivenGram)))

    def _solve(self, K, loss, alpha, report):
        settings = {"rtol": self.tol, "max_iter": self.max_iter, "callback": report}
        return solve_l1(self._columns(K), loss, alpha, self.fit_intercept, **settings)

    def _path(self, K, loss, whole):
        settings = {"rtol": max(self.tol, _CHOICE), "max_iter": self.max_iter}
        return l1_path(self._columns(K, whole), loss, self.alphas_, self.fit_intercept, **settings)

    def _grid(self, K, loss):
        top = largest_alpha(self._columns(K), loss, self.fit_intercept)
        return (top if top > 0 else 1.0) * np.geomspace(1.0, _SPARSE_RANGE, self.n_alphas)

    def _vectors(self, W):
        used = np.flatnonzero(W.any(axis=1))
        return used if len(used) else np.array([0])  # only the intercept learned


class _Smooth:
    """alpha / 2 |w|^2, on products with the Gram."""

    def _solve(self, K, loss, alpha, report):
        return self._solved(K, loss, alpha, self._preconditioner(K, loss), callback=report)

    def _solved(self, K, loss, alpha, preconditioner, **settings):
        settings = {"rtol": self.tol, "max_iter": self.max_iter, **settings}
        return solve_l2(K, loss, alpha, self.fit_intercept, preconditioner=preconditioner, **settings)

    def _preconditioner(self, K, loss):
        room = isinstance(K, GivenGram) and _FACTORED * 8 * len(K) ** 2 <= budget(self.memory)
        return Factored(K) if room and loss.outputs == 1 else Spectral(K)

    def _path(self, K, loss, whole):
        settings = {"preconditioner": Spectral(K), "rtol": max(self.tol, _CHOICE), "max_iter": self.max_iter}
        return l2_path(K, loss, self.alphas_, self.fit_intercept, **settings)

    def _grid(self, K, loss):
        top, least = _mean_square(K, loss.weight), _SQUARES_RANGE if isinstance(loss, SquaredLoss) else _LOGISTIC_RANGE
        return (top if top > 0 else 1.0) * np.geomspace(1.0, least, self.n_alphas)

    def _vectors(self, W):
        return np.arange(len(W))


# ------------------------------------------------------------------------------------------------ two kinds of targets
class _Regressor(RegressorMixin, _Machine):
    _parameter_constraints = _CONSTRAINTS

    def __init__(self, alpha=1.0, *, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, fit_intercept=True,
                 n_alphas=50, cv=5, tol=1e-6, max_iter=200, random_state=None, verbose=False, engine=None,
                 memory=None):  # fmt: skip
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.n_alphas = n_alphas
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.engine = engine
        self.memory = memory

    def _problem(self, X, y, sample_weight):
        rows, y, w, index = self._canonical(X, y, sample_weight, _numbers, multi_output=False, y_numeric=True)
        rows, index, group = self._different(rows, index)
        weight = np.bincount(group, w)
        mean = np.bincount(group, w * y) / weight
        return rows, SquaredLoss(mean, weight, np.bincount(group, w * (y - mean[group]) ** 2)), weight, index

    @staticmethod
    def _constant(intercept):
        return float(intercept[0])

    def predict(self, X) -> np.ndarray:
        """Predicted targets (m,), computed in tiles: the test Gram is never held whole."""
        return self._scores(X)[:, 0]


class _Classifier(ScoredClassifier, _Machine):
    _parameter_constraints = {**_CONSTRAINTS, "class_weight": [StrOptions({"balanced"}), dict, None]}

    def __init__(self, alpha=1.0, *, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, fit_intercept=True,
                 class_weight=None, n_alphas=50, cv=5, tol=1e-6, max_iter=200, random_state=None, verbose=False, engine=None,
                 memory=None):  # fmt: skip
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.n_alphas = n_alphas
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.engine = engine
        self.memory = memory

    def _problem(self, X, y, sample_weight):
        rows, codes, w, index = self._canonical(X, y, sample_weight, self._codes, multi_output=False)
        self.class_weight_ = sound_factors(self.class_weight, self.classes_, codes, w, zero=False)
        rows, index, group = self._different(rows, index)
        mass = np.zeros((len(index), len(self.classes_)))
        np.add.at(mass, (group, codes), w * self.class_weight_[codes])
        return rows, LogisticLoss(mass), np.bincount(group, w), index

    def _codes(self, y):
        self.classes_, codes = class_labels(y)
        return codes

    @staticmethod
    def _constant(intercept):
        return intercept - intercept.mean() if len(intercept) > 1 else intercept


# ------------------------------------------------------------------------------------------------ four machines
@register_estimator
class L1VMRegressor(_Sparse, _Regressor):
    r"""Kernel regression on few of the training rows: least squares on the columns of the Gram matrix with an L1 penalty.

    .. math:: \min_{w, b} \tfrac12 \sum_i s_i \bigl(y_i - b - \sum_j w_j k(x_i, x_j)\bigr)^2 + \alpha \lVert w \rVert_1

    j runs over the different rows, s are the sample weights. The kernel need not be positive semi-definite. With the Gram
    matrix as design this is scikit-learn's `Lasso(alpha / n)`. From some alpha on all coefficients are 0 and the mean of the
    targets is the answer: the solution, and no failure.

    Parameters
    ----------
    alpha : strength of the penalty, on the sum and never multiplied by n; or "cv": the best of `n_alphas` values, from the
        smallest that leaves no vector down to a thousandth of it, by the squared error on `cv` folds of the different rows.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    fit_intercept : whether to add an unpenalised constant.
    n_alphas, cv, random_state : with alpha="cv", how many alphas, how many folds, and what deals the different rows to folds; cv
        may also be a splitter or a list of splits of the rows of X.
    tol : duality gap, relative to the objective, at which the solver stops; max_iter : cap of its working sets.
    verbose : print the progress. engine, memory : how and within how many bytes Grams are computed; `memory="2GB"`.

    Attributes
    ----------
    dual_coef_, intercept_, X_fit_, kernel_ : the fitted expansion, of the rows with a coefficient that is not 0.
    support_ : their numbers in X. alpha_ : the penalty used.
    dual_gap_, objective_ : certificate, computed anew at the end and relative to the objective, and the value of the sum above.
    converged_, n_iter_, solver_used_ : how the solver ended, its working sets, and whether the Gram was held.
    alphas_, cv_scores_ : with alpha="cv", the alphas in decreasing order and minus the mean squared errors (alphas, folds).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import L1VMRegressor
    >>> from mercer.kernels import RBF
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> model = L1VMRegressor(0.1, kernel=RBF(1.5)).fit(X, np.sinc(X[:, 0] / np.pi))
    >>> len(model.support_) < 20, bool(model.dual_gap_ < 1e-6)
    (True, True)

    Tibshirani (1996); Roth (2004), The generalized LASSO; Krishnapuram, Carin, Figueiredo & Hartemink (2005).
    """


@register_estimator
class L1VMClassifier(_Sparse, _Classifier):
    r"""Logistic regression on few of the training rows: on the columns of the Gram matrix with an L1 penalty.

    .. math:: \min_{W, b} \sum_i s_i\, \ell\bigl(y_i, b + \sum_j w_j k(x_i, x_j)\bigr) + \alpha \sum_{jc} |w_{jc}|, \qquad
              \ell(y, f) = \log \sum_c e^{f_c} - f_y

    Two classes have one function, the log-odds of the second. Several have one each, by softmax, and every coefficient its
    own penalty: a row is stored when it serves any class. j runs over the different rows, s are sample weights times class
    weights. With the Gram matrix as design this is scikit-learn's `LogisticRegression` with an L1 penalty and C = 1 / alpha. As
    alpha > 0, classes that can be separated have a finite answer too; from some alpha on all coefficients are 0 and the
    shares of the classes are the answer.

    Parameters
    ----------
    alpha : as in `L1VMRegressor`; "cv" goes by the likelihood of rows left out. class_weight : factors of the weights by
        label, or "balanced".
    kernel, gamma, degree, coef0, kernel_params, fit_intercept, n_alphas, cv, random_state, tol, max_iter, verbose, engine,
        memory : as in `L1VMRegressor`.

    Attributes
    ----------
    classes_, class_weight_ : labels in increasing order, and the factors of their weights.
    dual_coef_, intercept_ : (vectors,) and (1,) for two classes, else (vectors, classes) and (classes,).
    support_, X_fit_, kernel_, alpha_, dual_gap_, objective_, converged_, n_iter_, solver_used_, alphas_ : as in `L1VMRegressor`.
    cv_scores_ : with alpha="cv", mean log-likelihoods (alphas, folds).

    Examples
    --------
    >>> from mercer import L1VMClassifier
    >>> from mercer.kernels import RBF
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], ["same", "different", "different", "same"]
    >>> model = L1VMClassifier(0.1, kernel=RBF(0.5)).fit(X, y)
    >>> model.predict([[0.9, 0.1]]).tolist(), len(model.support_)
    (['different'], 4)

    Krishnapuram, Carin, Figueiredo & Hartemink (2005), Sparse multinomial logistic regression.
    """


@register_estimator
class L2VMRegressor(_Smooth, _Regressor):
    r"""Kernel regression with a penalty on the coefficients themselves: ridge regression on the columns of the Gram matrix.

    .. math:: \min_{w, b} \tfrac12 \sum_i s_i \bigl(y_i - b - \sum_j w_j k(x_i, x_j)\bigr)^2
              + \tfrac{\alpha}{2} \lVert w \rVert^2, \qquad (K^2 + \alpha I)\, w = K (y - b)

    j runs over the different rows, s are the sample weights. The kernel need not be positive semi-definite: this is kernel
    ridge regression with the kernel matrix K K. All rows are stored.

    Parameters
    ----------
    alpha : strength of the penalty, never multiplied by n; or "cv": the best of `n_alphas` values by the squared error on `cv`
        folds of the different rows.
    cv : number of folds, or "loo": all rows in turn, each with its column of the design left in, from one factorisation.
    kernel, gamma, degree, coef0, kernel_params, fit_intercept, n_alphas, random_state, tol, max_iter, verbose, engine, memory :
        as in `L1VMRegressor`; max_iter is a cap of Newton steps.

    Attributes
    ----------
    dual_coef_, intercept_, X_fit_, kernel_ : the fitted expansion. support_ : numbers of its rows in X.
    alpha_, dual_gap_, objective_, converged_, n_iter_, solver_used_, alphas_, cv_scores_ : as in `L1VMRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import L2VMRegressor
    >>> from mercer.kernels import RBF
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> model = L2VMRegressor(1e-3, kernel=RBF(1.5)).fit(X, np.sinc(X[:, 0] / np.pi))
    >>> bool(abs(model.predict([[0.0]])[0] - 1.0) < 0.01), bool(model.dual_gap_ < 1e-6)
    (True, True)

    Murphy (2012), Machine Learning, section 14.3.2.
    """

    _parameter_constraints = {**_CONSTRAINTS, "cv": [*_CONSTRAINTS["cv"], StrOptions({"loo"})]}

    def _chosen(self, K, loss, splits):
        together = isinstance(self.cv, str) and len(K) > 1
        return self._left_out(K, loss) if together else super()._chosen(K, loss, splits)

    def _left_out(self, K, loss):
        """As `_chosen`, every row being a fold."""
        needed = (_FACTORED - (1 if isinstance(K, GivenGram) else 0)) * 8 * len(K) ** 2
        remedies = ["cv=5", "fewer rows", 'a larger budget, memory="64GB"']
        require(needed, budget(self.memory), f'cv="loo" of {len(K)} rows', remedies)
        self.alphas_ = self._grid(K, loss)
        A = K.dense()
        path = ridge_path(A @ A, loss.target[:, None], np.sqrt(loss.weight), self.fit_intercept)
        errors = [
            (loss.weight @ path.residuals(a)[:, 0] ** 2 + loss.spread.sum()) / loss.weight.sum() for a in self.alphas_
        ]
        self.cv_scores_ = -np.array(errors)[:, None]
        return float(self.alphas_[int(self.cv_scores_.argmax())])


@register_estimator
class L2VMClassifier(_Smooth, _Classifier):
    r"""Logistic regression on the columns of the Gram matrix, with a penalty on the coefficients themselves.

    .. math:: \min_{W, b} \sum_i s_i\, \ell\bigl(y_i, b + \sum_j w_j k(x_i, x_j)\bigr) + \tfrac{\alpha}{2} \sum_{jc} w_{jc}^2,
              \qquad \ell(y, f) = \log \sum_c e^{f_c} - f_y

    Two classes have one function, the log-odds of the second; several have one each, by softmax. j runs over the different
    rows, s are sample weights times class weights. The kernel need not be positive semi-definite. With the Gram matrix as design
    this is scikit-learn's `LogisticRegression` with C = 1 / alpha. All rows are stored.

    Parameters
    ----------
    alpha, kernel, gamma, degree, coef0, kernel_params, fit_intercept, class_weight, n_alphas, cv, random_state, tol, max_iter,
        verbose, engine, memory : as in `L1VMClassifier`; max_iter is a cap of Newton steps.

    Attributes
    ----------
    classes_, class_weight_, dual_coef_, intercept_, support_, X_fit_, kernel_, alpha_, dual_gap_, objective_, converged_,
        n_iter_, solver_used_, alphas_, cv_scores_ : as in `L1VMClassifier`.

    Examples
    --------
    >>> from mercer import L2VMClassifier
    >>> from mercer.kernels import RBF
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], ["same", "different", "different", "same"]
    >>> model = L2VMClassifier(0.1, kernel=RBF(0.5)).fit(X, y)
    >>> model.predict([[0.9, 0.1]]).tolist(), bool(model.dual_gap_ < 1e-6)
    (['different'], True)

    Murphy (2012), Machine Learning, section 14.3.2.
    """


# ------------------------------------------------------------------------------------------------ inside
def _numbers(y):
    y = y.astype(np.float64)
    if np.abs(y).max() > _LARGEST:
        raise ValueError(f"y has entries up to {np.abs(y).max():.3g}, whose squares overflow; rescale y")
    return y


def _folds(loss, k, rng):
    """Rows of (training, test) of at most k folds, every class dealt out evenly."""
    n = len(loss.weight)
    label = loss.mass.argmax(axis=1) if isinstance(loss, LogisticLoss) else np.zeros(n, dtype=np.intp)
    mixed = rng.permutation(n)
    dealt = mixed[np.argsort(label[mixed], kind="stable")]
    k = n if isinstance(k, str) else min(k, n)
    return [(np.sort(np.delete(dealt, np.s_[i::k])), np.sort(dealt[i::k])) for i in range(k)]


def _mean_square(K, weight):
    """The trace of K diag(weight) K, by blocks of rows."""
    n = len(weight)
    total = 0.0
    for start in range(0, n, 256):
        some = np.arange(start, min(start + 256, n))
        rows = np.asarray(K.rows(some), np.float64)
        total += float(weight[some] @ np.einsum("ij,ij->i", rows, rows))
    return total

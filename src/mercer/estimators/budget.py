"""Machines on a budget (X2): few expansion points, learned together with their weights."""

import math
import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import MultiOutputMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning, NotDifferentiableError, NotPSDError, NotSymmetricError, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, engine_of, forget, lazily
from mercer.estimators.design import DesignSweeps, Targets
from mercer.estimators.expansion import SizeReport, size_report
from mercer.estimators.labels import Labels, sound_factors
from mercer.estimators.mixins import RegressorMixin
from mercer.estimators.scores import ScoredClassifier, ScoredExpansion
from mercer.gram import GivenGram, gram
from mercer.gram.plan import budget, require
from mercer.kernels.base import require_differentiable_inputs
from mercer.linalg import rpcholesky
from mercer.random import generator, some_of
from mercer.registry import register_estimator
from mercer.solvers.budget import (
    Features,
    HingeLoss,
    Learned,
    LogisticLoss,
    PointValues,
    SquaredLoss,
    Weights,
    learn_points,
    own_gram,
    solve_hinge,
    solve_squares,
)
from mercer.solvers.centers import kmeans_centers
from mercer.solvers.logistic import solve_logistic

__all__ = ["BudgetKernelClassifier", "BudgetKernelRegressor"]

_MEANS = (20_000, 20)  # rows that k-means looks at: so many, and so many for each point
_SAMPLE = (20_000, 20)  # rows of which Newton's preconditioner is made: as many
_RATE = 0.2  # of steps over mini-batches
_LEAST = 4  # rows of a batch for each point at least, so that they say something about its weights
_COPIES = 30  # of the points that moving them takes at most
_EXACT = 1e-4  # gap of the weights, in parts of the objective, that is told of

_CONSTRAINTS = {
    **{name: CONSTRAINTS[name] for name in ("kernel", "gamma", "degree", "coef0", "kernel_params", "engine", "memory")},
    "n_vectors": [Interval(Integral, 1, None, closed="left")],
    "alpha": [Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "learn_vectors": ["boolean", StrOptions({"auto"})],
    "batch_size": [Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "random_state": ["random_state", np.random.Generator],
    "verbose": ["verbose"],
}


@dataclass(frozen=True, eq=False)
class _Points:
    """rows: the points (None: the Gram is given); columns: their places among the rows, where they are of them; learn: whether
    they are to be moved."""

    rows: Any
    columns: np.ndarray | None
    how: str
    learn: bool = False


class _Budget(ScoredExpansion):
    """What machines on a budget share: a start, points that move, the best weights for where they are."""

    def _fit(self, rows, loss, w, index, codes=None):
        """Fitted state, but for what is made of the weights (k, p) and constants (p,), which come with it."""
        rng = generator(self.random_state)
        points = self._start(rows, w, codes, rng)
        design, own, G = self._design(rows, points)
        self._refuse_indefinite(own, G)
        learned = None
        if points.learn:
            learned = self._learn(rows, loss, points, rng)
            points = replace(points, rows=learned.points, how="learned")
            design, own, G = self._design(rows, points)
        features = Features(design, own, self.fit_intercept, budget(self.memory) // 4)
        U, objective, gap = self._best(features, loss, learned)
        self._warn(gap)
        path = np.array([objective]) if learned is None else learned.path
        state = {
            "objective_": objective, "objective_path_": path, "dual_gap_": gap, "converged_": gap <= _EXACT,
            "n_iter_": 1 if learned is None else max(1, learned.iterations), "vectors_used_": points.how,
            "jitter_": features.factor.jitter, "solver_used_": loss.solver,
        }  # fmt: skip
        return {**self._kept(G, points, index), **state}, *features.coefficients(U)

    # ------------------------------------------------------------------------------------ rows
    def _canonical(self, X, y, sample_weight, read, **checks):
        """Rows in an order fixed by content, equal ones merged, targets, weights, and the rows' numbers in X. Sets `kernel_`."""
        rows, T, w, index = super()._canonical(X, y, sample_weight, read, **checks)
        if self._precomputed:
            GivenGram(rows).check_symmetric()
            self.kernel_: Any = "precomputed"
            return rows, T, w, index
        kernel, order = self._kernel(), _by_content(rows, index)
        if kernel.validity.kind == "not-psd":
            raise NotPSDError(f"{kernel!r} is not positive semi-definite ({kernel.validity.reason}), so that the functions it "
                              "spans have no norm to be penalised; use another kernel, or KernelMachineClassifier and "
                              "KernelMachineRegressor, which need no norm")  # fmt: skip
        rows, w = validate.take(rows, order), w[order]
        self.kernel_ = kernel._resolved(rows, w)
        return rows, T[order], w, index[order]

    # ------------------------------------------------------------------------------------ points
    def _start(self, rows, w, codes, rng) -> _Points:
        different = validate.groups(rows)[0]
        vectors = not self._precomputed and not isinstance(rows, validate.Table) and getattr(rows, "ndim", 1) == 2
        learn = self._learns(vectors)
        if self.n_vectors >= len(different):
            if self.n_vectors > len(different):
                warnings.warn(f"n_vectors={self.n_vectors} is more than the {len(different)} different rows: all of them are "
                              "the points, and nothing is learned about these", NumericalWarning, stacklevel=4)  # fmt: skip
            return self._of_rows(rows, different, "all")
        if not vectors:
            return self._of_rows(rows, different[self._chosen(rows, different, rng)], "chosen")
        Z = self._means(rows, w, codes, different, rng)
        if learn:
            self._require(Z)
            Z = Z.toarray() if sp.issparse(Z) else Z
        return _Points(Z, None, "kmeans", learn)

    def _learns(self, vectors):
        """Whether points are to be moved; learn_vectors=True says why they cannot."""
        if self.learn_vectors is False:
            return False
        why = None
        if not vectors:
            what = (
                'kernel="precomputed" has no rows'
                if self._precomputed
                else f"{self.kernel_!r} reads no rows of numbers"
            )
            why = f"{what} that could be moved"
        else:
            try:
                require_differentiable_inputs(self.kernel_)
            except NotDifferentiableError as error:
                why = str(error)
        if why is not None and self.learn_vectors is True:
            raise NotDifferentiableError(
                f'learn_vectors=True: {why}; use learn_vectors=False or "auto", which keep the points where they start'
            )
        return why is None

    def _of_rows(self, rows, columns, how):
        return _Points(None if self._precomputed else validate.double(validate.take(rows, columns)), columns, how)

    def _chosen(self, rows, different, rng):
        """Rows whose span is near that of all: pivots of a random Cholesky factor."""
        if self._precomputed:
            K = GivenGram(np.ascontiguousarray(rows[np.ix_(different, different)]))
        else:
            some = validate.take(rows, different)
            K = gram(self.kernel_, some, engine=engine_of(self), memory=self.memory, validated=True)
        pivots = rpcholesky(K, self.n_vectors, rng=rng).pivots
        return np.sort(pivots) if len(pivots) else np.array([0])

    def _means(self, rows, w, codes, different, rng):
        """Means of rows: as many for each class, if there are as many points as classes."""
        groups = [different]
        if codes is not None and codes.max() < self.n_vectors:
            groups = [np.flatnonzero(codes == c) for c in range(codes.max() + 1)]
            groups = [g[validate.groups(validate.take(rows, g))[0]] for g in groups]
        shares = _shares(self.n_vectors, [len(g) for g in groups])
        found = [self._means_of(rows, w, g, k, rng) for g, k in zip(groups, shares, strict=True)]
        Z = sp.csr_array(sp.vstack(found)) if sp.issparse(rows) else np.vstack(found)
        return validate.take(Z, validate.groups(Z)[0])

    def _means_of(self, rows, w, group, k, rng):
        if k == len(group):
            return validate.double(validate.take(rows, group))
        some = some_of(group, max(_MEANS[0], _MEANS[1] * k), rng)
        return kmeans_centers(validate.double(validate.take(rows, some)), w[some], k, rng)

    def _require(self, Z):
        k, d = Z.shape
        remedies = ["fewer points, a smaller n_vectors", "fewer columns", "learn_vectors=False, which keeps sparse points",
                    'a larger budget, memory="64GB"']  # fmt: skip
        require(
            8 * _COPIES * k * d, budget(self.memory), f"moving {k} points of {d} columns, which are dense,", remedies
        )

    def _learn(self, rows, loss, points, rng) -> Learned:
        rate = _RATE if isinstance(self.learning_rate, str) else float(self.learning_rate)
        size = max(self.batch_size, _LEAST * (len(points.rows) + 1) * loss.outputs)
        return learn_points(
            self.kernel_, rows, loss, self.alpha, points.rows, self.fit_intercept, rng=rng, batch_size=size,
            max_iter=self.max_iter, rate=rate, tol=self.tol, engine=engine_of(self), memory=self.memory,
            room=budget(self.memory) // 4, callback=_told if self.verbose else None,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------ values of the kernel
    def _design(self, rows, points):
        """Values of the kernel between rows and points, the Gram of the points, and what makes either for new rows."""
        if self._precomputed:
            own = np.ascontiguousarray(rows[np.ix_(points.columns, points.columns)])
            return GivenGram(np.ascontiguousarray(rows[:, points.columns])), own.astype(np.float64), GivenGram(own)
        G = gram(self.kernel_, points.rows, engine=engine_of(self), memory=self.memory, validated=True)
        return PointValues(G, rows), own_gram(G), G

    def _refuse_indefinite(self, own, G):
        """Test what carries no certificate on the points: k(x, y) = k(y, x), and no negative eigenvalue."""
        if not self._precomputed and self.kernel_.validity.certified:
            return
        size, gap = float(np.abs(own).max(initial=0.0)), float(np.abs(own - own.T).max(initial=0.0))
        if gap > 100 * np.finfo(G.dtype).eps * size:
            raise NotSymmetricError(f"{self.kernel_!r} is not symmetric: k(x, y) and k(y, x) differ by up to {gap:.3g}")
        smallest = float(np.linalg.eigvalsh((own + own.T) / 2)[0])
        if smallest >= -10 * len(own) * np.finfo(G.dtype).eps * size:
            return
        if not self._precomputed:
            raise NotPSDError(f"{self.kernel_!r} is not positive semi-definite: the Gram matrix of {len(own)} points has the "
                              f"eigenvalue {smallest:.3g}, so that the functions it spans have no norm to be penalised; "
                              "KernelMachineClassifier and KernelMachineRegressor need none")  # fmt: skip
        warnings.warn(f"the Gram matrix of the {len(own)} points is not positive semi-definite: its smallest eigenvalue is "
                      f"{smallest:.3g}; those below 0 count as 0 in the penalty", NumericalWarning, stacklevel=4)  # fmt: skip

    def _kept(self, G, points, index):
        """Fitted state of the points; numbers of the rows that are points, or None."""
        numbers = None if points.columns is None else index[points.columns]
        found = {"X_fit_": G.K if isinstance(G, GivenGram) else points.rows, "_gram": G, "vector_indices_": numbers}
        return {**found, "kept_": numbers} if self._precomputed else found

    # ------------------------------------------------------------------------------------ weights
    def _best(self, features, loss, learned):
        """Best weights for the points as they are, the objective, and a bound on what it is too large by, in parts of it."""
        problem, start = Weights(features, loss, self.alpha), np.zeros((features.q, loss.outputs))
        if learned is not None:
            start = features.unknowns(learned.coefficients, learned.intercept)
        if isinstance(loss, HingeLoss):
            found = solve_hinge(features, loss, self.alpha, start)
            return found.U, found.objective, found.certificate
        if isinstance(loss, SquaredLoss):
            point = problem.at(solve_squares(features, loss, self.alpha))
        else:
            start = self._newton(features, loss) if loss.coupled and not problem.joint else start
            point, _ = problem.solve(start, 1e-15, 200)
            if loss.coupled:  # a score that all classes share changes nothing but the penalty
                point = problem.at(point.U - point.U.mean(axis=1, keepdims=True))
        return point.U, point.value, problem.relative_gap(point)

    def _newton(self, features, loss):
        """Of many points and classes: Newton's steps by conjugate gradients, without the Hessian of all together."""
        n, k = features.n, features.k
        some = np.unique(np.linspace(0, n - 1, min(n, max(_SAMPLE[0], _SAMPLE[1] * k))).astype(int))
        w = loss.weight[some]
        found = solve_logistic(
            DesignSweeps(features.design, loss.codes, loss.weight), features.factor, features.design[some],
            w * (loss.weight.sum() / w.sum()), loss.outputs, float(self.alpha), self.fit_intercept, rtol=1e-8, max_iter=200,
        )  # fmt: skip
        return features.unknowns(found.coefficients, found.intercept)

    def _warn(self, gap):
        if not gap <= _EXACT:
            warnings.warn(f"the weights are best up to {gap:.2g} of the objective only; a larger alpha, a shorter lengthscale "
                          "or fewer points help", ConvergenceWarning, stacklevel=4)  # fmt: skip

    # ------------------------------------------------------------------------------------ answers
    def _store(self, found):
        """Fitted state, in one call that no interrupt divides."""
        vars(self).update(found)

    @property
    def vectors_(self):
        """The expansion points."""
        check_is_fitted(self)
        return self.X_fit_

    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres, "vector_indices_", "vectors_used_")
        new.dual_coef_ = coefficients[:, 0] if self.dual_coef_.ndim == 1 else coefficients
        return new

    def size_report(self) -> SizeReport:
        """Stored vectors, parameters, bytes and prediction cost, dual against primal."""
        check_is_fitted(self)
        d = self.X_fit_.shape[1] if getattr(self.X_fit_, "ndim", 1) == 2 else 1
        return size_report(self.expansion_, math.inf if isinstance(self.kernel_, str) else self.kernel_.feature_dim(d))


@register_estimator
class BudgetKernelRegressor(MultiOutputMixin, RegressorMixin, _Budget):
    r"""Kernel ridge regression on a budget: few expansion points, learned together with their weights.

    .. math:: \min_{Z, w, b} \tfrac12 \sum_i s_i \lVert t_i - f(x_i) \rVert^2 + \tfrac{\alpha}{2} \sum_c w_c^T K_{ZZ} w_c, \qquad
              f_c(x) = \sum_j w_{jc} k(z_j, x) + b_c

    The penalty is the squared norm of f in the kernel's feature space, so that with all rows as points this is `KernelRidge`
    with the same alpha. The points start at k-means of the rows and move along the gradient of the objective; each
    time the weights are the best ones for where they are, and at the end they are found exactly. Predictions cost
    `n_vectors` kernel values.

    Parameters
    ----------
    n_vectors : how many points at most. Of no more different rows all are points, and nothing is left to learn.
    loss : "squared", half the squared error.
    alpha : strength of the penalty, never multiplied by n; the intercept is not penalised.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows; not one that is known
        not to be positive semi-definite, since f would have no norm.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    fit_intercept : whether to add a constant.
    learn_vectors : whether points move; this needs rows that are vectors and a kernel with a gradient in its inputs. True refuses
        others, "auto" leaves the points where they start. Sparse rows stay sparse, points that move are dense. Where rows are
        no vectors, points are chosen among them by a random pivoted Cholesky factor.
    batch_size : rows of a mini-batch; at least 4 are taken for each point and output. Where all rows are one batch, points move
        by L-BFGS.
    max_iter : epochs, which are passes over the rows, or steps of L-BFGS, at most. After each the weights are fitted to all rows;
        where the objective has grown the points go back, and steps are half as long from then on.
    learning_rate : length of steps over mini-batches, in parts of the distance of the rows from their nearest point. It
        falls to 0 by a cosine over the epochs. "auto" is 0.2.
    tol : part of the objective that an epoch must gain; after four that do not the points are at rest.
    random_state : of k-means, the choice of rows and the batches. verbose : print the objective after each epoch.
    engine, memory : how and within how many bytes kernel values are computed; `memory="2GB"`.

    Attributes
    ----------
    vectors_, X_fit_ : the points. vectors_used_ : "learned", "kmeans", "chosen" or "all"; vector_indices_ : their numbers in X
        with the last two (else None).
    dual_coef_, intercept_, kernel_ : the fitted expansion; (k,) and a number for one target, else (k, t) and (t,).
    objective_, dual_gap_, converged_ : the value of the sum above, a bound on the part of it that other weights of these points
        could save, and whether that is at most 1e-4.
    objective_path_, n_iter_ : the objective at the start and after each epoch, which never grows, and the number of these, at
        least 1. jitter_ : what was added to the diagonal of the Gram of the points. solver_used_ : "qr".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import BudgetKernelRegressor
    >>> from mercer.kernels import RBF
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = BudgetKernelRegressor(6, alpha=1e-3, kernel=RBF(0.2), random_state=0).fit(X, np.sin(12 * X[:, 0] ** 2))
    >>> model.vectors_.shape, bool(model.score(X, np.sin(12 * X[:, 0] ** 2)) > 0.99)
    ((6, 1), True)

    Snelson & Ghahramani (2006) for points that are learned; Golub & Pereyra (1973) for variable projection.
    """

    _parameter_constraints = {**_CONSTRAINTS, "loss": [StrOptions({"squared"})]}

    def __init__(self, n_vectors=50, *, loss="squared", alpha=1.0, kernel="rbf", gamma=None, degree=3, coef0=1,
                 kernel_params=None, fit_intercept=True, learn_vectors="auto", batch_size=256, max_iter=50,
                 learning_rate="auto", tol=1e-4, random_state=None, verbose=False, engine=None, memory=None):  # fmt: skip
        self.n_vectors = n_vectors
        self.loss = loss
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.learn_vectors = learn_vectors
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.engine = engine
        self.memory = memory

    def fit(self, X, y, sample_weight=None) -> "BudgetKernelRegressor":
        """Fit on rows X, targets y (n,) or (n, t) and optional weights: a weight of 2 is the row twice."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        target = Targets()
        rows, T, w, index = self._canonical(X, y, sample_weight, target, multi_output=True, y_numeric=True)
        mean = np.average(T, axis=0, weights=w) if self.fit_intercept else np.zeros(T.shape[1])
        state, W, b = self._fit(rows, SquaredLoss(T - mean, w), w, index)  # large means would cancel in the sums
        scale, single = target.scale, len(target.shape) == 1
        b = scale * (b + mean)
        state["objective_"], state["objective_path_"] = (
            scale**2 * state["objective_"],
            scale**2 * state["objective_path_"],
        )
        self._store(
            {**state, "dual_coef_": scale * (W[:, 0] if single else W), "intercept_": float(b[0]) if single else b}
        )
        return self

    @lazily
    def predict(self, X) -> np.ndarray:
        """Predicted targets (m,) or (m, t), computed in tiles."""
        out = self._scores(X)
        return out[:, 0] if self.dual_coef_.ndim == 1 else out


@register_estimator
class BudgetKernelClassifier(ScoredClassifier, _Budget):
    r"""Support vector machine or logistic regression on a budget: few expansion points, learned together with their weights.

    .. math:: \min_{Z, w, b} \sum_i s_i\, \ell(y_i, f(x_i)) + \tfrac{\alpha}{2} \sum_c w_c^T K_{ZZ} w_c, \qquad
              f_c(x) = \sum_j w_{jc} k(z_j, x) + b_c

    The penalty is the squared norm of f in the kernel's feature space: with all rows as points this is `SVC` with C = 1 / alpha
    (for many classes one against the rest) or `KernelLogistic` with the same alpha. The points, the same for all
    classes, start at k-means of the rows of each class and move along the gradient of the objective; each time the weights
    are the best ones for where they are, and at the end they are found exactly. Predictions cost `n_vectors` kernel values.

    Parameters
    ----------
    n_vectors : how many points at most, as many for each class to start with. Of no more different rows all are points, and
        nothing is left to learn.
    loss : "hinge", max(0, 1 - y f), of many classes each against the rest; its corner is smoothed while points move. "logistic",
        log(1 + exp(-y f)), or softmax for many classes.
    alpha : strength of the penalty, never multiplied by n; intercepts are not penalised.
    class_weight : factors of the weights by label, or "balanced".
    kernel, gamma, degree, coef0, kernel_params, fit_intercept, learn_vectors, batch_size, max_iter, learning_rate, tol,
    random_state, verbose, engine, memory : as in `BudgetKernelRegressor`.

    Attributes
    ----------
    classes_, class_weight_ : labels in increasing order, and the factors of their weights. loss_ : the loss.
    vectors_, X_fit_, vectors_used_, vector_indices_ : as in `BudgetKernelRegressor`.
    dual_coef_, intercept_, kernel_ : the fitted expansion; (k,) and (1,) for two classes, else (k, c) and (c,).
    objective_, dual_gap_, converged_, objective_path_, n_iter_, jitter_ : as in `BudgetKernelRegressor`; the path of "hinge" is
        that of the smoothed loss. solver_used_ : "newton".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import BudgetKernelClassifier
    >>> from mercer.kernels import RBF
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> y = np.where(np.hypot(*X.T) > 1.2, "far", "near")
    >>> model = BudgetKernelClassifier(4, alpha=0.1, kernel=RBF(), random_state=0).fit(X, y)
    >>> len(model.vectors_), model.predict([[0.0, 0.1], [2.0, 2.0]]).tolist(), bool(model.score(X, y) > 0.95)
    (4, ['near', 'far'], True)

    Wang, Crammer & Vucetic (2012), Breaking the curse of kernelization; Golub & Pereyra (1973) for variable projection.
    """

    _parameter_constraints = {
        **_CONSTRAINTS,
        "loss": [StrOptions({"hinge", "logistic"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(self, n_vectors=50, *, loss="hinge", alpha=1.0, kernel="rbf", gamma=None, degree=3, coef0=1,
                 kernel_params=None, fit_intercept=True, learn_vectors="auto", batch_size=256, max_iter=50,
                 learning_rate="auto", tol=1e-4, class_weight=None, random_state=None, verbose=False, engine=None,
                 memory=None):  # fmt: skip
        self.n_vectors = n_vectors
        self.loss = loss
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.learn_vectors = learn_vectors
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.engine = engine
        self.memory = memory

    def fit(self, X, y, sample_weight=None) -> "BudgetKernelClassifier":
        """Fit on rows X, labels y (n,) and optional weights: a weight of 2 is the row twice."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        labels = Labels()
        rows, codes, w, index = self._canonical(X, y, sample_weight, labels, multi_output=False)
        factors = sound_factors(self.class_weight, labels.classes, codes, w)
        share, count = w * factors[codes], len(labels.classes)
        loss = LogisticLoss(codes, share, count) if self.loss == "logistic" else HingeLoss(_signs(codes, count), share)
        state, W, b = self._fit(rows, loss, w, index, codes)
        self._store({**state, "classes_": labels.classes, "class_weight_": factors, "loss_": self.loss,
                     "dual_coef_": W[:, 0] if W.shape[1] == 1 else W, "intercept_": b})  # fmt: skip
        return self

    def _has_probabilities(self):
        if getattr(self, "loss_", self.loss) != "logistic":
            raise AttributeError('loss="hinge" gives no probabilities; use loss="logistic", or mercer.calibrated')
        return True


# ------------------------------------------------------------------------------------------------ inside
def _signs(codes, count):
    """1 for rows of a class and -1 for others: one column for the second of two classes, else one for each."""
    return np.where(codes[:, None] == (np.arange(count) if count > 2 else [1]), 1.0, -1.0)


def _by_content(rows, index):
    """An order of rows that depends on their content as float32 alone: what chance chooses is then the same for rows in another
    order or precision. Of objects, that in which they came."""
    if isinstance(rows, validate.Table) or getattr(rows, "ndim", 1) != 2:
        return np.argsort(index)
    with np.errstate(over="ignore", under="ignore"):
        return validate.canonical(rows.astype(np.float32), np.arange(rows.shape[0]), None)[3]


def _shares(k, sizes):
    """k shared out among groups, as evenly as their sizes allow."""
    shares = [0] * len(sizes)
    while sum(shares) < min(k, sum(sizes)):
        open_ones = [i for i, size in enumerate(sizes) if shares[i] < size]
        i = min(open_ones, key=lambda i: shares[i])
        shares[i] += 1
    return shares


def _told(epoch, value):
    print(f"epoch {epoch:4d}  objective {value:.8g}", flush=True)

"""Kernel machines (M5): generalised linear models on the values of a kernel at centres; RBF networks (M4)."""

import math
import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import MultiOutputMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning, NanError, NotSymmetricError, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, engine_of, forget, lazily
from mercer.estimators.design import GROUP, Columns, Design, DesignSweeps, Shared, Tail, Targets
from mercer.estimators.expansion import Expansion, SizeReport, size_report
from mercer.estimators.labels import Labels
from mercer.estimators.mixins import RegressorMixin
from mercer.estimators.scores import ScoredClassifier
from mercer.gram import GivenGram, gram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.linalg import Status
from mercer.random import generator, some_of
from mercer.registry import register_estimator
from mercer.solvers.centers import kmeans_centers, select_forward
from mercer.solvers.logistic import Whitened, solve_logistic
from mercer.threads import map_tiles

__all__ = ["KernelMachineClassifier", "KernelMachineRegressor", "RBFNetwork"]

_CANDIDATES = 2000  # rows among which "ols" chooses
_MEANS = (20_000, 20)  # rows that k-means looks at: so many, and so many for each centre
_SAMPLE = (20_000, 20)  # rows of which Newton's preconditioner is made: as many
_LOOK = 64  # centres on which an unknown kernel is tested for symmetry
_PASSES = 1e-8  # largest distance of an interpolant from the targets, in parts of the largest target

_SHARED = {
    **{name: CONSTRAINTS[name] for name in ("kernel", "gamma", "degree", "coef0", "kernel_params", "engine", "memory")},
    "n_centers": [Interval(Integral, 1, None, closed="left"), None],
    "centers": [StrOptions({"auto", "kmeans", "random", "ols"}), "array-like"],
    "alpha": [Interval(Real, 0, None, closed="left")],
    "normalised": ["boolean"],
    "random_state": ["random_state", np.random.Generator],
    "tol": [Interval(Real, 0, None, closed="neither")],
}


@dataclass(frozen=True, eq=False)
class _Centers:
    """rows: the centres (None: the Gram is given); columns: their places among the training rows, where they are of them."""

    rows: Any
    columns: np.ndarray | None
    how: str
    share: np.ndarray | None = None


class _Machine(KernelEstimator):
    """What machines on centres share: the choice of centres, the design, predictions in tiles."""

    def _canonical(self, X, y, sample_weight, read, **checks):
        """Rows in order of first appearance, equal ones merged, targets, weights, and the rows' numbers in X. Sets `kernel_`."""
        rows, T, w, index = super()._canonical(X, y, sample_weight, read, **checks)
        if self._precomputed:
            GivenGram(rows).check_symmetric()
            self.kernel_: Any = "precomputed"
            return rows, T, w, index
        order = np.argsort(index)  # an order by content would be another in float32, and with it what chance chooses
        rows, w = validate.double(validate.take(rows, order)), w[order]
        self.kernel_ = self._kernel()._resolved(rows, w)
        return rows, T[order], w, index[order]

    # ------------------------------------------------------------------------------------ centres
    def _centers(self, rows, T, w, tail) -> _Centers:
        how = self._how(rows)
        if how == "given":
            return _Centers(self._own(), None, how)
        different, rng = self._different(rows, w), generator(self.random_state)
        count = len(different) if self.n_centers is None else min(self.n_centers, len(different))
        if how == "ols":
            return self._by_selection(rows, T, w, tail, different, count, rng)
        if count == len(different):
            return self._of_rows(rows, different, "all")
        if how == "random":
            return self._of_rows(rows, np.sort(rng.choice(different, count, replace=False)), how)
        some = some_of(different, max(_MEANS[0], _MEANS[1] * count), rng)
        return _Centers(kmeans_centers(validate.take(rows, some), w[some], count, rng), None, how)

    def _how(self, rows):
        vectors = not self._precomputed and not isinstance(rows, validate.Table) and getattr(rows, "ndim", 1) == 2
        if not isinstance(self.centers, str):
            if self._precomputed:
                raise ValueError(
                    'kernel="precomputed" has no rows for centers to be compared with; use centers="random" or "ols"'
                )
            return "given"
        if self.centers == "auto":
            return "kmeans" if vectors else "random"
        if self.centers == "kmeans" and not vectors:
            kind = "a Gram matrix" if self._precomputed else "not rows of numbers"
            raise ValueError(f'centers="kmeans" takes means of rows, and these are {kind}; use centers="random" or "ols", '
                             "or pass rows of your own, for example the medoids of mercer.KMedoids")  # fmt: skip
        if self.centers == "ols" and self.normalised:
            raise ValueError('centers="ols" adds one basis function after another, and normalised=True changes them with each; '
                             'use centers="kmeans" or "random"')  # fmt: skip
        return self.centers

    def _own(self):
        """The user's centres, each once."""
        rows = self.kernel_.validated(self.centers, "centers")
        known = getattr(self, "n_features_in_", None)
        if getattr(rows, "ndim", 1) == 2 and known is not None and rows.shape[1] != known:
            raise ValueError(f"centers has {rows.shape[1]} columns, but X has {known}")
        n = validate.n_rows(rows)
        kept = validate.merged(rows, np.zeros(n), None)[3]
        if len(kept) < n:
            warnings.warn(
                f"centers holds {n - len(kept)} rows twice; each is used once", NumericalWarning, stacklevel=6
            )
        return validate.double(validate.owned(validate.take(rows, kept), self.centers))

    def _different(self, rows, w):
        """Numbers of different rows x."""
        same = np.zeros(len(w))
        return np.sort((validate.merged if self._precomputed else validate.canonical)(rows, same, w)[3])

    def _of_rows(self, rows, columns, how, share=None):
        return _Centers(None if self._precomputed else validate.take(rows, columns), columns, how, share)

    def _by_selection(self, rows, T, w, tail, different, count, rng):
        """Orthogonal least squares among all different rows, or a sample of them."""
        n, room = len(w), budget(self.memory) // 4
        require(
            8 * n * count,
            room,
            f'choosing {count} centers among {n} rows by "ols"',
            ['centers="kmeans"', "fewer centers"],
        )
        candidates = some_of(different, int(max(count, min(_CANDIDATES, room // (8 * n)))), rng)
        root, free = np.sqrt(w), tail.columns(rows)
        free = np.linalg.qr(root[:, None] * free)[0] if free.shape[1] else free
        design, _ = self._design(rows, self._of_rows(rows, candidates, "ols"))
        P = np.empty((len(candidates), n))

        def job(i):
            some = slice(i * GROUP, (i + 1) * GROUP)
            P[:, some] = (root[some, None] * design[some].dense()).T

        map_tiles(job, -(-n // GROUP))
        found = select_forward(P, root[:, None] * T, free, count, self.tol)
        chosen = found.index if len(found.index) else np.array([0])  # k = 0: some centre, with coefficient 0
        return self._of_rows(rows, candidates[chosen], "ols", found.share)

    # ------------------------------------------------------------------------------------ the design
    def _design(self, rows, centres):
        """Basis functions at the training rows, and the Gram of the centres."""
        if self._precomputed:
            G = GivenGram(np.ascontiguousarray(rows[np.ix_(centres.columns, centres.columns)]))
            return Design(GivenGram(np.ascontiguousarray(rows[:, centres.columns])), self._shared(None)), G
        G = gram(self.kernel_, centres.rows, engine=engine_of(self), memory=self.memory, validated=True)
        if self.kernel_.validity.kind == "unknown":
            self._refuse_asymmetry(prepared_gram(G, validate.take(centres.rows, slice(0, _LOOK)))[:, :_LOOK].dense())
        return Design(prepared_gram(G, rows), self._shared(centres.rows)), G

    def _refuse_asymmetry(self, K):
        gap = float(np.abs(K - K.T).max())
        if gap > 100 * np.finfo(K.dtype).eps * float(np.abs(K).max()):
            raise NotSymmetricError(f"{self.kernel_!r} is not symmetric: k(x, y) and k(y, x) differ by up to {gap:.3g}")

    def _shared(self, centres):
        return Shared(self.kernel_, centres, engine_of(self)) if self.normalised else None

    def _kept(self, G, centres, index):
        """Fitted state of the basis; numbers of the rows that are centres, or None."""
        numbers = None if centres.columns is None else index[centres.columns]
        rows = G.K if isinstance(G, GivenGram) else centres.rows
        found = {"X_fit_": rows, "_gram": G, "center_indices_": numbers, "centers_used_": centres.how,
                 "error_reduction_": centres.share, "normalised_": bool(self.normalised)}  # fmt: skip
        return {**found, "kept_": numbers} if self._precomputed else found

    def _store(self, found):
        """Fitted state, in one call that no interrupt divides."""
        vars(self).update(found)

    def _require(self, needed, k):
        remedies = ["fewer centers, for example n_centers=500", 'a larger budget, memory="64GB"']
        require(needed, budget(self.memory), f"{type(self).__name__} with {k} centers", remedies)

    # ------------------------------------------------------------------------------------ answers
    def _asked(self, X):
        """Basis functions at new rows, the rows, and the precision of answers."""
        check_is_fitted(self)
        shared = Shared(self.kernel_, self.X_fit_, engine_of(self)) if self.normalised_ else None
        if isinstance(self.kernel_, str):
            K = self._test_gram(X)
            return Design(K, shared), None, K.dtype
        rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
        dtype = np.float32 if getattr(rows, "dtype", None) == np.float32 else np.float64
        rows = validate.double(rows)
        return Design(prepared_gram(self._gram, rows), shared), rows, dtype

    def basis(self, X) -> np.ndarray:
        """Values (m, K) of the basis functions: the design matrix of rows X, without the constant."""
        design, _, dtype = self._asked(X)
        n, k = design.shape
        require(8 * n * k, budget(self.memory), f"the values of {k} functions at {n} rows", ["fewer rows at a time"])
        return np.vstack([design[i : i + GROUP].dense() for i in range(0, n, GROUP)]).astype(dtype)

    @property
    def _coefficients(self):
        return self.dual_coef_.reshape(len(self.dual_coef_), -1)

    @property
    def centers_(self):
        """The centres."""
        check_is_fitted(self)
        return self.X_fit_

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        if self.normalised_:
            raise AttributeError("basis functions that are divided by their sum are no kernel expansion")
        if getattr(self, "slopes_", None) is not None:
            raise AttributeError("a linear tail is no part of a kernel expansion")
        return Expansion(self.kernel_, self.X_fit_, self._coefficients, np.atleast_1d(self.intercept_))

    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres, "center_indices_", "error_reduction_", "training_error_", "rank_", "residual_")
        new.dual_coef_ = coefficients[:, 0] if self.dual_coef_.ndim == 1 else coefficients
        new.centers_used_ = "compressed"
        return new

    def size_report(self) -> SizeReport:
        """Stored vectors, parameters, bytes and prediction cost, dual against primal."""
        check_is_fitted(self)
        own = Expansion(self.kernel_, self.X_fit_, self._coefficients, np.atleast_1d(self.intercept_))
        d = self.X_fit_.shape[1] if getattr(self.X_fit_, "ndim", 1) == 2 else 1
        return size_report(own, math.inf if isinstance(self.kernel_, str) else self.kernel_.feature_dim(d))


class _Regression(MultiOutputMixin, RegressorMixin, _Machine):
    """Least squares on the design."""

    def _fit_columns(self, rows, T, w, index, tail, side, scale, shape):
        """Fitted state of the problem with these free columns; side: whether coefficients are orthogonal to them."""
        mean = np.average(T, axis=0, weights=w) if tail.kind else np.zeros(T.shape[1])
        T = T - mean  # large means would cancel in the sums
        centres = self._centers(rows, T, w, tail)
        design, G = self._design(rows, centres)
        k = design.shape[1]
        self._require(8 * (2 * min(len(w), max(GROUP, 2 * k)) + 4 * k) * (k + T.shape[1]), k)
        N = tail.side_conditions(centres.rows, k) if side else None
        problem = Columns(design, N, tail.columns(rows), T, np.sqrt(w))
        found, certificate = problem.solve(float(self.alpha))
        self._warn_of_rank(found.rank, problem, tail)
        w_all = found.coefficients if N is None else N @ found.coefficients
        constant, slopes_ = tail.parts(found.free, scale)
        constant = constant + scale * mean
        single = len(shape) == 1
        state = {
            "dual_coef_": scale * (w_all[:, 0] if single else w_all), "intercept_": float(constant[0]) if single else constant,
            "slopes_": slopes_, "means_": tail.means, "rank_": found.rank, "residual_": certificate, "converged_": True,
            "training_error_": scale**2 * (float(found.residual[0]) if single else found.residual),
        }  # fmt: skip
        return {**self._kept(G, centres, index), **state, "solver_used_": "qr"}, problem, found

    def _warn_of_rank(self, rank, problem, tail):
        # Functions that sum to 1 and a constant are not independent, and predictions do not depend on which is which.
        most = problem.k - int(self.normalised and bool(tail.kind) and problem.N is None)
        if rank < most:
            warnings.warn(f"the {problem.k} basis functions are only {rank} up to rounding on these rows; the shortest of the "
                          "best coefficients were taken. Fewer centers, a shorter lengthscale or a larger alpha help",
                          NumericalWarning, stacklevel=4)  # fmt: skip

    @lazily
    def predict(self, X) -> np.ndarray:
        """Predicted targets (m,) or (m, p), computed in tiles."""
        design, rows, dtype = self._asked(X)
        out = design @ self._coefficients + np.atleast_1d(self.intercept_)
        if self.slopes_ is not None:
            out += self._plane(rows)
        out = out.astype(dtype)
        return out[:, 0] if self.dual_coef_.ndim == 1 else out

    def _plane(self, rows):
        if sp.issparse(rows):
            return rows @ self.slopes_ - self.means_ @ self.slopes_
        return (validate.numeric(rows) - self.means_) @ self.slopes_


@register_estimator
class KernelMachineRegressor(_Regression):
    r"""Linear regression on the values of a kernel at some centres: a kernel machine.

    .. math:: \min_{w, b} \tfrac12 \sum_i s_i (t_i - \phi(x_i)^T w - b)^2 + \tfrac{\alpha}{2} \lVert w \rVert^2, \qquad
              \phi(x) = (k(x, \mu_1), \ldots, k(x, \mu_K))

    The kernel need not be positive semi-definite: its values are features, and nothing else is asked of it. With all rows as
    centres and no intercept this solves (K² + alpha I) w = K t. Rows are read in groups, of which a triangle of K columns
    is all that is kept; memory does not grow with n beyond the rows themselves.

    Parameters
    ----------
    n_centers : how many centres at most; of fewer different rows all are centres. None: all different rows.
    centers : "kmeans", means of rows (of 20 000 of them, or 20 for each centre, drawn with `random_state`); "random", some of
        the rows; "ols", orthogonal least squares: one row after another, each the one that explains most of what the
        earlier ones leave; "auto", "kmeans" where rows are vectors and else "random"; or the centres themselves, as rows.
        "ols" chooses among 2000 rows, or as many as a quarter of the memory has room for, drawn with `random_state`.
    alpha : strength of the penalty, never multiplied by n; the intercept is not penalised.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    fit_intercept : whether to add a constant.
    normalised : divide the basis functions by their sum, which needs a kernel without negative values.
    random_state : of the choice of centres.
    tol : share of the squared targets about their mean at which "ols" stops.
    engine, memory : how and within how many bytes kernel values are computed; `memory="2GB"`.

    Attributes
    ----------
    centers_, center_indices_ : the centres, and their numbers in X (None where they are no rows of X).
    centers_used_ : "all", "kmeans", "random", "ols" or "given".
    error_reduction_ : with "ols", the share of the squared targets that each centre explains (else None).
    dual_coef_, intercept_, X_fit_, kernel_ : the fitted expansion; `X_fit_` are the centres.
    training_error_, rank_, residual_ : weighted sum of squared residuals, number of basis functions that the rows tell
        apart, and the gradient at the answer in parts of the size of its terms.
    converged_, solver_used_ : always True, and "qr".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelMachineRegressor
    >>> from mercer.kernels import RBF
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> model = KernelMachineRegressor(8, centers="ols", alpha=1e-6, kernel=RBF(0.2)).fit(X, np.sin(6 * X[:, 0]))
    >>> model.centers_.shape, bool(model.error_reduction_.sum() > 0.999)
    ((8, 1), True)

    Murphy (2012), section 14.3; Chen, Cowan & Grant (1991), Orthogonal least squares learning algorithm for RBF networks.
    """

    _parameter_constraints = {**_SHARED, "fit_intercept": ["boolean"]}

    def __init__(self, n_centers=10, *, centers="auto", alpha=1e-3, kernel="rbf", gamma=None, degree=3, coef0=1,
                 kernel_params=None, fit_intercept=True, normalised=False, random_state=None, tol=1e-8, engine=None,
                 memory=None):  # fmt: skip
        self.n_centers = n_centers
        self.centers = centers
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.normalised = normalised
        self.random_state = random_state
        self.tol = tol
        self.engine = engine
        self.memory = memory

    def fit(self, X, y, sample_weight=None) -> "KernelMachineRegressor":
        """Fit on rows X, targets y (n,) or (n, p) and optional weights: a weight of 2 is the row twice."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        target = Targets()
        rows, T, w, index = self._canonical(X, y, sample_weight, target, multi_output=True, y_numeric=True)
        tail = Tail("constant" if self.fit_intercept else None, rows, w)
        state, *_ = self._fit_columns(rows, T, w, index, tail, False, target.scale, target.shape)
        self._store(state)
        return self


@register_estimator
class RBFNetwork(_Regression):
    r"""Interpolation and regression by radial basis functions.

    .. math:: f(x) = \sum_j w_j k(x, \mu_j) + p(x), \qquad \sum_j w_j q(\mu_j) = 0 \text{ for all polynomials } q \text{ like } p

    With `n_centers=None` and `alpha=0`, the defaults, f passes through all points, and through the mean of targets that differ
    where rows are equal, with a warning. Else the sum of squares of `KernelMachineRegressor` is minimised, under the side
    conditions where there is a tail p. Conditionally positive definite kernels need one: `Multiquadric` a constant, `ThinPlate` a
    polynomial of degree 1. Any kernel will do, also one that is not radial; for classes see `KernelMachineClassifier`.

    With `normalised=True` the basis functions are divided by their sum. For inputs with noise of density nu, the best f in the
    mean is of this form, with all rows as centres, k(x, mu) = nu(x - mu) and the targets for weights: that is `NadarayaWatson`,
    which computes no weights. Here they are found by least squares.

    Parameters
    ----------
    n_centers : how many centres at most. None: all different rows.
    centers : "kmeans", "random", "ols", "auto" or rows, as in `KernelMachineRegressor`; used if `n_centers` is a number, but
        for rows and "ols".
    alpha : strength of the penalty alpha/2 |w|², never multiplied by n. Where f passes through all points weights
        matter to such means alone.
    kernel : a mercer kernel such as `RBF(0.5)`, `Multiquadric(0.5)` or `ThinPlate()`, one of scikit-learn's words, "precomputed",
        or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    tail : None, "constant", "linear", or "auto": what the kernel's certificate asks for.
    normalised : divide the basis functions by their sum, which needs a kernel without negative values.
    random_state, tol, engine, memory : as in `KernelMachineRegressor`.

    Attributes
    ----------
    tail_ : None, "constant" or "linear". intercept_ : the constant. slopes_, means_ : of a linear tail (else None), which is
        intercept_ + (x - means_) slopes_.
    residual_ : where f passes through all points, its largest distance from one, in parts of the largest target (about the
        mean, with a tail); else as in `KernelMachineRegressor`, as are all other attributes.
    solver_used_ : "interpolation" or "qr".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBFNetwork
    >>> from mercer.kernels import ThinPlate
    >>> X, t = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.5, 0.2]]), [1.0, 2.0, 3.0, 4.0, 0.0]
    >>> RBFNetwork(kernel=ThinPlate()).fit(X, t).predict(X).round(10).tolist()
    [1.0, 2.0, 3.0, 4.0, 0.0]

    Powell (1987); Broomhead & Lowe (1988); Wendland (2005), chapter 8; Bishop (2006), section 6.3.
    """

    _parameter_constraints = {**_SHARED, "tail": [StrOptions({"auto", "constant", "linear"}), None]}

    def __init__(self, n_centers=None, *, centers="auto", alpha=0.0, kernel="rbf", gamma=None, degree=3, coef0=1,
                 kernel_params=None, tail="auto", normalised=False, random_state=None, tol=1e-8, engine=None,
                 memory=None):  # fmt: skip
        self.n_centers = n_centers
        self.centers = centers
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.tail = tail
        self.normalised = normalised
        self.random_state = random_state
        self.tol = tol
        self.engine = engine
        self.memory = memory

    def fit(self, X, y, sample_weight=None) -> "RBFNetwork":
        """Fit on rows X, targets y (n,) or (n, p) and optional weights: a weight of 2 is the row twice."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        target = Targets()
        rows, T, w, index = self._canonical(X, y, sample_weight, target, multi_output=True, y_numeric=True)
        exact = self._passes_through()
        if exact:
            rows, T, index = self._one_target_each(rows, T, w, index)
            w = np.ones(len(T))
        kind = self._tail_kind()
        tail = Tail(kind, rows, w, self.memory)
        state, problem, found = self._fit_columns(rows, T, w, index, tail, True, target.scale, target.shape)
        state["tail_"] = kind
        if exact:
            state["residual_"], state["solver_used_"] = problem.farthest(found), "interpolation"
            self._warn_of_distance(state["residual_"])
        self._store(state)
        return self

    def _passes_through(self):
        chosen = isinstance(self.centers, str) and self.centers != "ols"
        return self.n_centers is None and chosen and self.alpha == 0

    def _tail_kind(self):
        if self.tail == "linear" and self._precomputed:
            raise ValueError(
                'tail="linear" is a polynomial of rows, and kernel="precomputed" has none; use tail="constant"'
            )
        if self.tail != "auto":
            return self.tail
        order = 0 if self._precomputed or self.normalised else self.kernel_.validity.order
        return (None, "constant", "linear")[min(order, 2)]

    def _one_target_each(self, rows, T, w, index):
        """Different rows, the (weighted) means of their targets, and the rows' numbers in X."""
        first, group = validate.groups(rows)
        if len(first) == len(w):
            return rows, T, index
        self._warn_of_contradictions(first, group, index)
        total = np.bincount(group, weights=w)
        means = np.stack([np.bincount(group, weights=w * t) / total for t in T.T], axis=1)
        rows = np.ascontiguousarray(rows[np.ix_(first, first)]) if self._precomputed else validate.take(rows, first)
        return rows, means, index[first]

    @staticmethod
    def _warn_of_contradictions(first, group, index):
        j = int(np.setdiff1d(np.arange(len(group)), first)[0])
        a, b = sorted((int(index[first[group[j]]]), int(index[j])))
        warnings.warn(f"rows {a} and {b} of X are equal and their targets are not, so that no function passes through both; rows "
                      f"like these: {len(group) - len(first)}. f passes through the means of their targets; for a smooth fit "
                      "use alpha > 0 or n_centers", NumericalWarning, stacklevel=4)  # fmt: skip

    def _warn_of_distance(self, residual):
        if not residual <= _PASSES:
            warnings.warn(f"the interpolant misses the points by up to {residual:.2g} of the largest target: the Gram matrix is "
                          "singular up to rounding. A shorter lengthscale, alpha > 0 or fewer centers help",
                          NumericalWarning, stacklevel=3)  # fmt: skip

    def _warn_of_rank(self, rank, problem, tail):
        if not self._passes_through():  # else the distance from the points tells
            super()._warn_of_rank(rank, problem, tail)


@register_estimator
class KernelMachineClassifier(ScoredClassifier, _Machine):
    r"""Logistic regression on the values of a kernel at some centres: a kernel machine for two or many classes.

    .. math:: \min_{w, b} \sum_i s_i\, \ell(y_i, \phi(x_i)^T w + b) + \tfrac{\alpha}{2} \sum_c \lVert w_c \rVert^2, \qquad
              \phi(x) = (k(x, \mu_1), \ldots, k(x, \mu_K))

    with the loss log(1 + exp(-y f)) of two classes and one function, or softmax and a function for each of many. On the explicit
    design this is scikit-learn's `LogisticRegression` with C = 1 / alpha. The kernel need not be positive semi-definite.
    With `alpha=0` classes that the basis functions separate have no finite answer: a warning says so, and Newton's method
    stops at `tol` with finite coefficients.

    Parameters
    ----------
    n_centers, centers, normalised : as in `KernelMachineRegressor`; "ols" explains the indicators of the classes.
    alpha : strength of the penalty, never multiplied by n; intercepts are not penalised.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    fit_intercept : whether to add constants.
    random_state : of the choice of centres.
    tol : norm of the gradient, relative to that at 0, at which Newton's method stops; also the share of the squared
        indicators at which "ols" stops. max_iter : cap of Newton's steps.
    engine, memory : how and within how many bytes kernel values are computed; `memory="2GB"`.

    Attributes
    ----------
    classes_ : labels in increasing order.
    centers_, center_indices_, centers_used_, error_reduction_ : as in `KernelMachineRegressor`.
    dual_coef_, intercept_, X_fit_, kernel_ : the fitted expansion; (K,) and (1,) for two classes, else (K, c) and (c,).
    n_iter_, residual_, converged_, objective_ : Newton steps, relative norm of the gradient at the answer, whether it reached
        `tol`, and the value of the sum above. solver_used_ : "newton".

    Examples
    --------
    >>> from mercer import KernelMachineClassifier
    >>> from mercer.kernels import RBF
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], ["same", "different", "different", "same"]
    >>> model = KernelMachineClassifier(4, alpha=0.01, kernel=RBF(0.5)).fit(X, y)
    >>> model.predict([[0.9, 0.1], [0.1, 0.2]]).tolist()
    ['different', 'same']

    Murphy (2012), section 14.3.
    """

    _parameter_constraints = {
        **_SHARED,
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_centers=10, *, centers="auto", alpha=1e-3, kernel="rbf", gamma=None, degree=3, coef0=1,
                 kernel_params=None, fit_intercept=True, normalised=False, random_state=None, tol=1e-6, max_iter=100,
                 engine=None, memory=None):  # fmt: skip
        self.n_centers = n_centers
        self.centers = centers
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.normalised = normalised
        self.random_state = random_state
        self.tol = tol
        self.max_iter = max_iter
        self.engine = engine
        self.memory = memory

    def fit(self, X, y, sample_weight=None) -> "KernelMachineClassifier":
        """Fit on rows X, labels y (n,) and optional weights: a weight of 2 is the row twice."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        labels = Labels()
        rows, codes, w, index = self._canonical(X, y, sample_weight, labels, multi_output=False)
        outputs = 1 if len(labels.classes) == 2 else len(labels.classes)
        tail = Tail("constant" if self.fit_intercept else None, rows, w)
        centres = self._centers(rows, _indicators(codes, outputs), w, tail)
        design, G = self._design(rows, centres)
        self._require(8 * ((outputs + 2) * design.shape[1] + 2 * GROUP) * design.shape[1], design.shape[1])
        design = design.held(budget(self.memory) / 4)
        found = self._newton(design, codes, w, outputs)
        self._warn(found, design, codes)
        self._store(
            {**self._kept(G, centres, index), "classes_": labels.classes, **_fitted(found), "solver_used_": "newton"}
        )
        return self

    def _newton(self, design, codes, w, outputs):
        n, k = design.shape
        some = _spread(n, max(_SAMPLE[0], _SAMPLE[1] * k))
        sample = design[some]
        lengths = np.concatenate(
            [np.square(sample[i : i + GROUP].dense()).sum(axis=1) for i in range(0, len(some), GROUP)]
        )
        if not np.isfinite(lengths).all():
            raise NanError("squares of the kernel values overflow; rescale the rows")
        return solve_logistic(
            DesignSweeps(design, codes, w), Whitened(k, lengths), sample, w[some] * (w.sum() / w[some].sum()), outputs,
            float(self.alpha), self.fit_intercept, rtol=self.tol, max_iter=self.max_iter,
        )  # fmt: skip

    def _warn(self, found, design, codes):
        if found.status is not Status.CONVERGED:
            advice = (
                "raise max_iter or alpha"
                if found.status is Status.MAX_ITER
                else "rounding allows no more; raise tol or alpha"
            )
            warnings.warn(f"Newton's method stopped at a gradient of {found.certificate:.2g} of that at 0, tol={self.tol:g} "
                          f"({found.status.value}): {advice}", ConvergenceWarning, stacklevel=3)  # fmt: skip
        if self.alpha == 0 and _margin(design @ found.coefficients + found.intercept, codes) > 0:
            warnings.warn("the basis functions separate the classes, so that without a penalty coefficients grow without end; "
                          f"they are those at tol={self.tol:g}. Use alpha > 0", NumericalWarning, stacklevel=3)  # fmt: skip

    # ------------------------------------------------------------------------------------ answers
    def _scores(self, X):
        design, _, dtype = self._asked(X)
        return (design @ self._coefficients + self.intercept_).astype(dtype)


def _fitted(found):
    """Attributes of a solution of Newton's method."""
    coefficients = found.coefficients
    return {
        "dual_coef_": coefficients[:, 0] if coefficients.shape[1] == 1 else coefficients, "intercept_": found.intercept,
        "objective_": found.objective, "residual_": found.certificate, "n_iter_": found.iterations,
        "converged_": found.status is Status.CONVERGED,
    }  # fmt: skip


def _spread(n, size):
    """At most `size` of n numbers, evenly spread."""
    return np.arange(n) if size >= n else np.linspace(0, n - 1, size).astype(int)


def _indicators(codes, outputs):
    """Columns that "ols" explains: of the second of two classes, or of each."""
    return (codes[:, None] == (np.arange(outputs) if outputs > 1 else [1])).astype(np.float64)


def _margin(F, codes):
    """Smallest score of a row's own class above the best other."""
    if F.shape[1] == 1:
        return float((np.where(codes == 1, 1.0, -1.0) * F[:, 0]).min())
    own = F[np.arange(len(F)), codes]
    F = F.copy()
    F[np.arange(len(F)), codes] = -np.inf
    return float((own - F.max(axis=1)).min())

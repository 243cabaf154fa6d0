"""Relevance vector machines (M7)."""

import logging
import warnings
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, engine_of, forget
from mercer.estimators.charts import Chart, by_column
from mercer.estimators.expansion import Expansion, SizeReport, size_report
from mercer.estimators.labels import class_labels
from mercer.estimators.mixins import ClassifierMixin, RegressorMixin
from mercer.gram import GivenGram, gram, prepared_gram
from mercer.gram.plan import budget
from mercer.linalg import Status
from mercer.registry import register_estimator
from mercer.solvers.rvm import basis_gradient, precision_gradient, rvm_ends, solve_rvm
from mercer.solvers.rvm_classes import class_gradient, solve_rvm_classes
from mercer.solvers.rvm_design import Design
from mercer.solvers.rvm_model import RVMSolution

__all__ = ["RVMClassifier", "RVMRegressor"]

logger = logging.getLogger("mercer")

_QUERIES = 1024  # rows whose variance is computed at once
_ROUNDS, _STEPS = 30, 30  # turns of learning a kernel, and L-BFGS steps in each
_WORTH = 1e-3  # gain in log evidence for which another turn is made
_FAR = 30.0  # precisions stay within this many logarithms of where a turn found them


@dataclass(frozen=True)
class _Machine:
    """One fitted function: relevance vectors by their number in X, and the posterior of its weights."""

    vectors: np.ndarray
    weights: np.ndarray
    intercept: float
    covariance: np.ndarray  # of the constant, where it takes part, and of the weights
    solution: RVMSolution

    @property
    def constant(self) -> bool:
        return len(self.covariance) > len(self.vectors)


def _machine(solution, index, constant):
    """A solution in the order of the rows, the constant first; `index` numbers the basis functions as rows of X."""
    order = np.argsort(solution.active)
    active, weights = solution.active[order], solution.value[order]
    first = int(constant and len(active) > 0 and active[0] == 0)
    vectors = index[active[first:] - int(constant)]
    covariance = solution.covariance[np.ix_(order, order)]
    return _Machine(vectors, weights[first:], float(weights[0]) if first else 0.0, covariance, solution)


class _RVM(KernelEstimator):
    """What the two machines share: basis functions from a kernel or a matrix, and their choice."""

    _parameter_constraints = {
        **{k: v for k, v in CONSTRAINTS.items() if k != "indefinite"},
        "fit_intercept": ["boolean"],
        "learn_kernel": ["boolean", StrOptions({"columns"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    @property
    def _given(self):
        """Whether X holds values of basis functions, not rows."""
        return isinstance(self.kernel, str) and self.kernel in ("precomputed", "design")

    def _rows(self, X, y, **checks):
        self.kept_ = None
        if isinstance(self.kernel, str) and self.kernel == "design":
            rows, y, _, _ = validate.training(self, X, y, None, **checks)
            rows = rows.toarray() if hasattr(rows, "toarray") else rows
        else:
            rows, y, _ = self._validated_training(X, y, None, **checks)
        return validate.double(rows), y

    def _basis(self, rows):
        """Basis functions (M, n), equal ones once, and the number of each as a row (or column) of X. Sets `kernel_`."""
        if isinstance(self.kernel, str) and self.kernel == "design":
            self.kernel_ = "design"
            return GivenGram(np.ascontiguousarray(rows.T)), np.arange(rows.shape[1])
        K = self._training_gram(rows, None)
        return self._distinct(K, rows)

    def _distinct(self, K, rows):
        index = validate.merged(rows, np.zeros(validate.n_rows(rows)), None)[3]
        held = self._held(K)
        return (held if len(index) == K.shape[0] else held[index]), index

    def _design(self, basis):
        held = basis.K.nbytes if isinstance(basis, GivenGram) else 0
        return Design(basis, self.fit_intercept, budget(self.memory) - held)

    def _solved(self, rows, ends, solve, slopes):
        """A solution, with the kernel learned if that is asked for, and the number of each basis function."""
        basis, index = self._basis(rows)
        if self.learn_kernel is not False and (self._given or not self.kernel_.differentiable):
            what = f"kernel={self.kernel!r}" if self._given else repr(self.kernel_)
            raise ValueError(
                f"learn_kernel={self.learn_kernel!r} needs a kernel with slopes; {what} has no parameters with one"
            )
        found = ends(self._design(basis))
        return (found[0] if self.learn_kernel is False else self._learned(rows, index, found, solve, slopes)), index

    # ------------------------------------------------------------------------------------ learning the kernel
    def _learned(self, rows, index, ends, solve, slopes):
        """The kernel of most evidence that is learned from one of several solutions, the best of which comes first."""
        apart = [s for k, s in enumerate(ends) if not k or ends[k - 1].evidence - s.evidence > _WORTH]
        found = [self._learned_from(rows, index, s, solve, slopes) for s in apart]
        solution, self.kernel_, self.evidence_path_ = max(found, key=lambda f: f[0].evidence)
        return solution

    def _learned_from(self, rows, index, solution, solve, slopes):
        """Turns of L-BFGS in the kernel's parameters at fixed vectors, and of choosing vectors anew. Keeps what is best."""
        kernel, path = self._by_column(rows), [solution.evidence]
        for _ in range(_ROUNDS):
            tried, start = _climb(kernel, rows, index, self.fit_intercept, solution, slopes)
            K = gram(tried, rows, engine=engine_of(self), memory=self.memory, validated=True)
            new = solve(self._design(self._distinct(K, rows)[0]), start)
            logger.info("log evidence %.6g with %d basis functions of %r", new.evidence, len(new.active), tried)
            gain = new.evidence - solution.evidence
            if gain > 0:
                kernel, solution = tried, new
                path.append(new.evidence)
            if gain <= _WORTH:
                break
        return solution, kernel, path

    def _by_column(self, rows):
        columns = self.learn_kernel == "columns"
        return by_column(self.kernel_, rows, 'learn_kernel="columns"') if columns else self.kernel_

    # ------------------------------------------------------------------------------------ state
    def _keep(self, rows, machines):
        """Vectors of all machines, and their weights (vectors, machines)."""
        union = np.unique(np.concatenate([m.vectors for m in machines])).astype(np.intp)
        weights = np.zeros((len(union), len(machines)))
        for k, m in enumerate(machines):
            weights[np.searchsorted(union, m.vectors), k] = m.weights
        self.relevance_ = union
        self.intercept_ = np.array([m.intercept for m in machines])
        self.alphas_ = [m.solution.alphas[np.argsort(m.solution.active)] for m in machines]
        self.covariance_ = [m.covariance for m in machines]
        self._keep_rows(rows, union)
        self.dual_coef_ = weights
        self._tell(machines)

    def _keep_rows(self, rows, union):
        if isinstance(self.kernel_, str):
            self.kept_ = union
            self.X_fit_ = rows[np.ix_(union, union)] if self.kernel_ == "precomputed" else union[:, None].astype(float)
            self._gram = GivenGram(self.X_fit_)
            return
        self.X_fit_ = validate.take(rows, union)
        if len(union):
            self._gram = gram(self.kernel_, self.X_fit_, engine=engine_of(self), memory=self.memory, validated=True)

    def _tell(self, machines):
        solutions = [m.solution for m in machines]
        self.evidence_ = [s.evidence for s in solutions]
        self.n_iter_ = max(s.iterations for s in solutions)
        self.gain_ = max(s.certificate for s in solutions)
        self.converged_ = all(s.status is Status.CONVERGED for s in solutions)
        if not self.converged_:
            stuck = any(s.status is Status.STAGNATED for s in solutions)
            said = "the steps go round in circles" if stuck else f"max_iter={self.max_iter} steps were not enough"
            what = f"one more promises {self.gain_:.2g} of log evidence, tol={self.tol:g}"
            advice = "raise tol, or take a kernel whose values differ more" if stuck else "raise max_iter or tol"
            warnings.warn(f"{said}: {what}; {advice}", ConvergenceWarning, stacklevel=5)
        if not len(self.relevance_):
            said = "no basis function raises the evidence: the model is a constant. Are the targets constant or pure noise,"
            warnings.warn(f"{said} or is the lengthscale far from the rows' distances?", NumericalWarning, stacklevel=5)

    # ------------------------------------------------------------------------------------ answers
    def _features(self, X):
        """Gram of new rows with the vectors in float64, the rows, and whether they came in float32."""
        check_is_fitted(self)
        if isinstance(self.kernel_, str):
            rows = validate.prediction(self, X)
            rows = rows.toarray() if hasattr(rows, "toarray") else rows
            return GivenGram(validate.double(rows[:, self.kept_])), rows, rows.dtype == np.float32
        rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
        single, rows = getattr(rows, "dtype", None) == np.float32, validate.double(rows)
        if not validate.n_rows(self.X_fit_):
            return GivenGram(np.zeros((validate.n_rows(rows), 0))), rows, single
        return prepared_gram(self._gram, rows), rows, single

    def _means(self, K):
        return K @ self.expansion_.coefficients + self.intercept_

    @staticmethod
    def _variances(K, sigma, vectors=slice(None)):
        """phi(x)' Sigma phi(x) of a function of some of the vectors, in blocks of rows."""
        out = np.empty(K.shape[0])
        for start in range(0, len(out), _QUERIES):
            some = np.arange(start, min(start + _QUERIES, len(out)))
            Phi = _with_constant(K[some].dense()[:, vectors], len(sigma))
            out[some] = np.einsum("ia,ia->i", Phi @ sigma, Phi)
        return np.maximum(out, 0.0)

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        weights = self.dual_coef_ if self.dual_coef_.ndim == 2 else self.dual_coef_[:, None]
        return Expansion(self.kernel_, self.X_fit_, weights, np.atleast_1d(self.intercept_))

    def _with_expansion(self, centres, coefficients, intercept=None):
        """The posterior belongs to the relevance vectors: other centres have means, and no variances."""
        gone = ("relevance_", "vectors_", "alphas_", "covariance_", "X_train_", "target_variance_")
        new = self._recentred(centres, *gone)
        new.dual_coef_ = coefficients[:, 0] if self.dual_coef_.ndim == 1 else coefficients
        if intercept is not None:
            new.intercept_ = float(intercept[0]) if np.ndim(self.intercept_) == 0 else np.asarray(intercept)
        return new

    def _with_posterior(self, what):
        if not hasattr(self, "covariance_"):
            raise ValueError(
                f"{what} needs the covariance of the weights, which a compressed copy has not; ask the model itself"
            )

    def size_report(self) -> SizeReport:
        """Stored vectors, parameters, bytes and prediction cost."""
        d = self.X_fit_.shape[1] if getattr(self.X_fit_, "ndim", 1) == 2 else 1
        return size_report(self.expansion_, np.inf if isinstance(self.kernel_, str) else self.kernel_.feature_dim(d))


@register_estimator
class RVMRegressor(RegressorMixin, _RVM):
    r"""Relevance vector regression: a sparse expansion whose weights have priors, each with a precision found by evidence.

    .. math:: t = \sum_m w_m k(x, x_m) + w_0 + \varepsilon, \qquad w_m \sim N(0, 1/\alpha_m), \quad
              \varepsilon \sim N(0, \sigma^2)

    The logarithm of the evidence, log N(t | 0, sigma^2 I + Phi A^-1 Phi'), is raised step by step: each step adds, drops or
    re-estimates the basis function that gains most. Most precisions become infinite, and their basis functions leave. The
    kernel may be any function of two rows, positive definite or not; equal rows give one basis function. Rows have no
    weights: a row that counts twice is a row that is there twice.

    Parameters
    ----------
    kernel : a mercer kernel, one of scikit-learn's words, a function of two rows, "precomputed" for a symmetric matrix of
        k(x_i, x_j), or "design" where the columns of X themselves are the basis functions.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    fit_intercept : whether a constant is among the basis functions; it has a precision of its own and may be dropped.
    noise : variance of the noise; None estimates it.
    tol : gain in the logarithm of the evidence that is not worth a step. max_iter : cap of steps.
    learn_kernel : True learns the kernel's parameters by the evidence too; "columns" gives each column a lengthscale first.
    variance : "posterior", or "augmented": each query has a basis function of its own, so that the uncertainty grows away
        from the data. Its prior variance at the query is the variance of the targets; it changes no prediction.
    engine, memory : how and within how many bytes basis functions are computed; `memory="2GB"`.

    Attributes
    ----------
    relevance_, X_fit_, dual_coef_, intercept_, kernel_ : numbers of the relevance vectors in X, they, and the fitted expansion.
    alphas_, covariance_ : precisions and posterior covariance, of the constant first where it takes part, and of the weights.
    noise_, evidence_ : variance of the noise, logarithm of the evidence; `evidence_path_` over the turns of learning a kernel.
    n_iter_, converged_, gain_ : steps and turns of Newton's method, whether `tol` was reached, and the most that one more step
        could gain.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RVMRegressor
    >>> from mercer.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> model = RVMRegressor(RBF(2.0)).fit(X, np.sinc(X[:, 0] / np.pi) + 0.1 * rng.standard_normal(100))
    >>> len(model.relevance_) < 12, bool(0.08 < model.noise_**0.5 < 0.12)
    (True, True)

    Tipping (2001), Sparse Bayesian learning and the relevance vector machine; Tipping & Faul (2003); Rasmussen &
    Quinonero-Candela (2005), Healing the relevance vector machine through augmentation.
    """

    _parameter_constraints = {
        **_RVM._parameter_constraints,
        "noise": [Interval(Real, 0, None, closed="neither"), None],
        "variance": [StrOptions({"posterior", "augmented"})],
    }

    def __init__(self, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, *, fit_intercept=True, noise=None,
                 tol=1e-3, max_iter=10_000, learn_kernel=False, variance="posterior", engine=None, memory=None):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.noise = noise
        self.tol = tol
        self.max_iter = max_iter
        self.learn_kernel = learn_kernel
        self.variance = variance
        self.engine = engine
        self.memory = memory

    def fit(self, X, y) -> "RVMRegressor":
        """Fit on rows X and targets y (n,)."""
        self._validate_params()
        forget(self)
        if self.variance == "augmented" and self._given:
            raise ValueError(
                f'variance="augmented" needs a kernel that new rows can be centres of, not kernel={self.kernel!r}'
            )
        rows, y = self._rows(X, y, y_numeric=True)
        t = _checked_targets(y)
        if _is_constant(t, self.fit_intercept):
            machine, noise = self._constant(rows, t), 0.0
        else:
            how = {"noise": self.noise, "tol": self.tol, "max_iter": self.max_iter}
            solution, index = self._solved(
                rows,
                ends=lambda design: rvm_ends(design, t, **how),
                solve=lambda design, start: solve_rvm(design, t, start=start, **how),
                slopes=_Slopes(t, self.noise is None),
            )
            machine, noise = _machine(solution, index, self.fit_intercept), solution.noise
        self._store(rows, t, machine, noise)
        self.solver_used_ = "sequential"
        return self

    def _constant(self, rows, t):
        """Equal targets: their value, and nothing to learn."""
        self._basis(rows)
        none = np.zeros(0)
        solution = RVMSolution(none.astype(int), none, np.zeros((0, 0)), none, 0.0, np.inf, Status.CONVERGED, 0.0, 0)
        return _Machine(none.astype(int), none, float(t[0]), np.zeros((0, 0)), solution)

    def _store(self, rows, t, machine, noise):
        self._keep(rows, [machine])
        self.dual_coef_, self.intercept_ = self.dual_coef_[:, 0], float(self.intercept_[0])
        self.alphas_, self.covariance_ = self.alphas_[0], self.covariance_[0]
        self.evidence_, self.noise_ = self.evidence_[0], noise
        if machine.solution.floored:
            said = "the basis functions reproduce the targets almost exactly: the variance of the noise is held at"
            warnings.warn(
                f"{said} {noise:.2g}, its least value; give noise= if you know it", NumericalWarning, stacklevel=4
            )
        if self.variance == "augmented":
            self.X_train_, self.target_variance_ = rows, float(np.var(t))

    def predict(self, X, return_std=False):
        """Predicted means (m,), in tiles; with `return_std` also the standard deviations (m,) of new targets, noise included."""
        K, rows, single = self._features(X)
        mean = self._means(K)[:, 0]
        mean = mean.astype(np.float32) if single else mean
        if not return_std:
            return mean
        self._with_posterior("return_std=True")
        variance = self.noise_ + self._variances(K, self.covariance_)
        if hasattr(self, "X_train_") and self.noise_ > 0:
            variance += self._augmented(rows, K)
        return mean, np.sqrt(variance).astype(mean.dtype)

    def _augmented(self, rows, K):
        """Variance e^2 / (alpha + s) of a basis function at each query: Rasmussen & Quinonero-Candela (2005), section 4."""
        beta, sigma = 1.0 / self.noise_, self.covariance_
        whole = gram(self.kernel_, self.X_train_, engine=engine_of(self), memory=self.memory, validated=True)
        Phi = _with_constant(prepared_gram(self._gram, self.X_train_).dense() if len(self.relevance_) else
                             np.zeros((validate.n_rows(self.X_train_), 0)), len(sigma))  # fmt: skip
        out = np.empty(K.shape[0])
        for start in range(0, len(out), _QUERIES):
            some = np.arange(start, min(start + _QUERIES, len(out)))
            new = validate.take(rows, some)
            own = gram(self.kernel_, new, engine=engine_of(self), validated=True).diag()
            F = prepared_gram(whole, new).dense()  # (queries, n)
            shared = F @ Phi
            s = beta * np.einsum("in,in->i", F, F) - beta**2 * np.einsum("ia,ia->i", shared @ sigma, shared)
            e = own - beta * np.einsum("ia,ia->i", _with_constant(K[some].dense(), len(sigma)) @ sigma, shared)
            prior = own**2 / self.target_variance_
            out[some] = e**2 / np.maximum(prior + np.maximum(s, 0.0), np.finfo(float).tiny)
        return out


@register_estimator
class RVMClassifier(ClassifierMixin, _RVM):
    r"""Relevance vector classification: log-odds by a sparse expansion, the posterior of its weights by Laplace's method.

    .. math:: \log \frac{p(y = 1 | x)}{p(y = 0 | x)} = \sum_m w_m k(x, x_m) + w_0, \qquad w_m \sim N(0, 1/\alpha_m)

    As in `RVMRegressor` each step changes the precision that gains most evidence; the mode of the weights is found anew after
    each. Classes that can be separated have finite weights, by their priors. Of several classes each is separated from all
    others, and the probabilities of being the class are divided by their sum. Rows have no weights.

    Parameters
    ----------
    kernel, gamma, degree, coef0, kernel_params, fit_intercept, tol, max_iter, engine, memory : as in `RVMRegressor`.
    learn_kernel : as there, for two classes only.
    moderated : False gives the logistic function of the mean log-odds f; True that of f / sqrt(1 + pi v / 8), with their
        variance v: probabilities nearer 1/2 where the log-odds are uncertain (MacKay 1992). `predict` does not change.

    Attributes
    ----------
    classes_ : labels in increasing order.
    relevance_, X_fit_, dual_coef_, intercept_, kernel_ : numbers of the relevance vectors in X, they, and the fitted expansion:
        (M, 1) and (1,) for two classes, else (M, classes) and (classes,).
    vectors_, alphas_, covariance_, evidence_ : lists, one entry for each function: its rows of `X_fit_`, precisions, covariance
        of its weights (the constant first where it takes part), Laplace's logarithm of the evidence.
    n_iter_, converged_, gain_ : steps, whether `tol` was reached, and the most that one more step could gain.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RVMClassifier
    >>> from mercer.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 2))
    >>> y = np.where((X**2).sum(axis=1) < 1.2, "inside", "outside")
    >>> model = RVMClassifier(RBF(1.0)).fit(X, y)
    >>> model.score(X, y) > 0.9, len(model.relevance_) < 15
    (True, True)

    Tipping (2001), section 3; Tipping & Faul (2003).
    """

    _parameter_constraints = {**_RVM._parameter_constraints, "moderated": ["boolean"]}

    def __init__(self, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, *, fit_intercept=True, tol=1e-3,
                 max_iter=10_000, learn_kernel=False, moderated=False, engine=None, memory=None):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.learn_kernel = learn_kernel
        self.moderated = moderated
        self.engine = engine
        self.memory = memory

    def fit(self, X, y) -> "RVMClassifier":
        """Fit on rows X and labels y (n,)."""
        self._validate_params()
        forget(self)
        if y is None:
            raise ValueError("RVMClassifier requires y to be passed, but the target y is None")
        rows, y = self._rows(X, y)
        classes, codes = class_labels(y)
        if self.learn_kernel is not False and len(classes) > 2:
            raise ValueError(
                f"learn_kernel={self.learn_kernel!r} is for two classes, y has {len(classes)}; fit one against the others"
            )
        machines = self._machines(rows, codes, len(classes))
        self._store(rows, classes, machines)
        self.solver_used_ = "sequential"
        return self

    def _machines(self, rows, codes, count):
        if count == 2:
            y = (codes == 1).astype(float)
            solve = partial(self._solve, y)
            solution, index = self._solved(rows, lambda design: [solve(design, None)], solve, _ClassSlopes(y))
            return [_machine(solution, index, self.fit_intercept)]
        basis, index = self._basis(rows)
        design = self._design(basis)
        solutions = [self._solve((codes == k).astype(float), design, None) for k in range(count)]
        return [_machine(s, index, self.fit_intercept) for s in solutions]

    def _solve(self, y, design, start):
        return solve_rvm_classes(design, y, tol=self.tol, max_iter=self.max_iter, start=start)

    def _store(self, rows, classes, machines):
        self.classes_, self.moderated_ = classes, self.moderated
        self._keep(rows, machines)
        self.vectors_ = [np.searchsorted(self.relevance_, m.vectors) for m in machines]

    def decision_function(self, X) -> np.ndarray:
        """Log-odds (m,) of the second class, or log-odds (m, classes) of each against the others."""
        K, _, single = self._features(X)
        scores = self._means(K)
        scores = scores.astype(np.float32) if single else scores
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X) -> np.ndarray:
        """Labels (m,) of the largest log-odds."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities (m, classes)."""
        scores = self._log_odds(X)
        return expit(np.hstack([-scores, scores])) if len(self.classes_) == 2 else np.exp(_normalised(scores))

    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):  # of a probability that is 0
            return np.log(self.predict_proba(X))

    def _log_odds(self, X):
        """Log-odds (m, functions), moderated if that was asked for."""
        K, _, single = self._features(X)
        scores = self._means(K)
        if self.moderated_:
            self._with_posterior("moderated=True")
            variances = [self._variances(K, *of) for of in zip(self.covariance_, self.vectors_, strict=True)]
            scores = scores / np.sqrt(1.0 + np.pi / 8.0 * np.column_stack(variances))
        return scores.astype(np.float32) if single else scores


# ------------------------------------------------------------------------------------------------ learning a kernel
class _Slopes:
    """Evidence of a regression on fixed vectors, and its slopes in the basis functions, log alpha and log beta."""

    moves_precisions = True

    def __init__(self, t, free_noise):
        self.t, self.free_noise = t, free_noise

    def __call__(self, Phi, alphas, noise):
        value, solution, by_alpha, by_beta = precision_gradient(Phi, self.t, alphas, noise)
        return value, basis_gradient(Phi, self.t, solution), by_alpha, by_beta if self.free_noise else 0.0


class _ClassSlopes:
    """The same of Laplace's evidence. Precisions stay: the steps that choose them leave out how the curvature follows."""

    moves_precisions = False

    def __init__(self, y):
        self.y, self.w = y, np.zeros(0)

    def __call__(self, Phi, alphas, noise):
        value, slope, self.w = class_gradient(Phi, self.y, alphas, self.w)
        return value, slope, np.zeros(len(alphas)), 0.0


def _climb(kernel, rows, index, constant, solution, slopes):
    """L-BFGS in the logs of the kernel's parameters (and of alphas and noise): the kernel found, and where to go on from."""
    vectors = np.flatnonzero(solution.active >= int(constant))
    centres = validate.take(rows, index[solution.active[vectors] - int(constant)])
    chart = Chart(kernel, kernel.differentiable, {"beta": 1.0 / max(solution.noise, np.finfo(float).tiny)})
    size = len(chart)

    def parts(z):
        K = gram(chart.kernel_at(z[:size]), rows, centres, validated=True) if len(vectors) else None
        Phi = np.ones((validate.n_rows(rows), len(solution.active)))
        if len(vectors):
            Phi[:, vectors] = K.dense()
        return K, Phi

    def objective(z):
        K, Phi = parts(z)
        value, W, by_alpha, by_beta = slopes(Phi, np.exp(z[size:]), float(np.exp(-z[size - 1])))
        by_name = K.pullback(np.ascontiguousarray(W[:, vectors]))
        beta = float(np.exp(z[size - 1]))
        slope = np.concatenate([chart.gradient(z[:size], by_name, {"beta": by_beta / beta}), by_alpha])
        return -value, -slope

    start = np.concatenate([chart.start, np.log(solution.alphas)])
    if not len(vectors):
        return kernel, (solution.active, solution.alphas, solution.noise)
    reach = _FAR if slopes.moves_precisions else 0.0
    bounds = chart.bounds() + [(v - reach, v + reach) for v in start[size:]]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS})
    return chart.kernel_at(found.x[:size]), (solution.active, np.exp(found.x[size:]), float(np.exp(-found.x[size - 1])))


# ------------------------------------------------------------------------------------------------ inside
def _with_constant(Phi, width):
    return Phi if Phi.shape[1] == width else np.hstack([np.ones((len(Phi), 1)), Phi])


def _normalised(scores):
    """Logarithms of logistic functions divided by their sum over the classes."""
    return log_softmax(log_expit(scores), axis=1)


def _checked_targets(y):
    t = np.asarray(y, np.float64)
    if t.ndim == 2 and t.shape[1] == 1:
        t = t[:, 0]
    peak = float(np.abs(t).max())
    if peak > 1e150:
        raise ValueError(f"y has entries up to {peak:.2g}, whose squares overflow; rescale y")
    return t


def _is_constant(t, intercept):
    """Whether nothing is left to learn: targets that are all 0, or all equal where there is a constant to hold them."""
    peak = np.abs(t).max()
    return bool(peak == 0 or (intercept and np.ptp(t) <= 4 * np.finfo(float).eps * peak))

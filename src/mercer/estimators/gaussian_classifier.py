"""Gaussian process classification by Laplace's approximation (M20)."""

import warnings
from numbers import Integral

import numpy as np
from scipy.stats import norm, qmc
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning
from mercer.estimators.base import CONSTRAINTS, engine_of, forget
from mercer.estimators.evidence import climb
from mercer.estimators.expansion import Expansion
from mercer.estimators.gaussian_process import SEARCH, GaussianProcess
from mercer.estimators.labels import class_labels
from mercer.estimators.mixins import ClassifierMixin
from mercer.gram import gram, prepared_gram
from mercer.registry import register_estimator
from mercer.solvers.laplace import LaplaceModes, averaged, averaged_softmax, laplace

__all__ = ["GaussianProcessClassifier"]

_DRAWS = 1024  # of the latent functions of three classes and more


@register_estimator
class GaussianProcessClassifier(ClassifierMixin, GaussianProcess):
    r"""Gaussian process classification: probabilities that know how far the data are, the kernel learned by the evidence.

    .. math:: p(y = c \mid x) = \mathrm{E}\left[\mathrm{softmax}_c(f_1(x), \ldots)\right], \qquad f_c \sim \mathcal{GP}(0, k)

    Two classes share one latent function and the logistic likelihood; more have one each, with the same kernel. The posterior of
    the latent functions is replaced by the Gaussian at its mode (Laplace), and so is the evidence.

    Parameters
    ----------
    kernel : a mercer kernel, one of scikit-learn's Gaussian process kernels, or a word. None: RBF("median") with a learned scale.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word, as in scikit-learn.
    ard : whether every lengthscale becomes one for each column.
    optimizer, n_restarts_optimizer, max_iter : "fmin_l_bfgs_b", None to keep the kernel as it is, or a function as in
        scikit-learn; further starts at random places; iterations of a search.
    max_iter_predict : steps of Newton's method to a mode.
    bounds, priors : {parameter: (low, high) or "fixed"}, and {parameter: distribution with a `logpdf`}.
    random_state : seed of the further starts.
    engine, memory : how and within how many bytes Grams are computed.

    Attributes
    ----------
    classes_ : labels in increasing order.
    kernel_, log_marginal_likelihood_value_ : the kernel that was found, and the log evidence there.
    X_fit_, dual_coef_, expansion_ : the latent mode as an expansion.
    theta_, bounded_, n_iter_, converged_ : logs of the parameters, those at a bound, evaluations, and whether the search ended.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GaussianProcessClassifier
    >>> X = np.linspace(-3, 3, 30)[:, None]
    >>> model = GaussianProcessClassifier().fit(X, np.abs(X[:, 0]) < 1.5)
    >>> model.predict([[0.0], [2.8]]).tolist(), bool(abs(model.predict_proba([[50.0]])[0, 1] - 0.5) < 0.05)
    ([True, False], True)

    Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, chapter 3; Williams & Barber (1998).
    """

    _parameter_constraints = {
        **{name: allowed for name, allowed in CONSTRAINTS.items() if name != "indefinite"},
        **SEARCH,
        "kernel": [str, callable, None],
        "max_iter_predict": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, kernel=None, *, ard=False, gamma=None, degree=3, coef0=1, kernel_params=None,
                 optimizer="fmin_l_bfgs_b", n_restarts_optimizer=0, bounds=None, priors=None, max_iter=100,
                 max_iter_predict=100, random_state=None, engine=None, memory=None):  # fmt: skip
        self.kernel = kernel
        self.ard = ard
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.bounds = bounds
        self.priors = priors
        self.max_iter = max_iter
        self.max_iter_predict = max_iter_predict
        self.random_state = random_state
        self.engine = engine
        self.memory = memory

    def fit(self, X, y) -> "GaussianProcessClassifier":
        """Fit on rows X and labels y."""
        rows, codes, kernel = self._prepared(X, y)
        evaluate = self._evidence(codes, len(self.classes_), self.max_iter_predict)
        found = climb(evaluate, kernel, rows, {}, self._settings(kernel, {}))
        self._store(found, rows, codes)
        found.tell()
        return self

    def _prepared(self, X, y):
        """Rows, numbers of classes, and the kernel to begin with."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        self._refuse_precomputed()
        rows, y, _ = self._validated_training(X, y, None, multi_output=False)
        rows = validate.double(rows)
        self.classes_, codes = class_labels(y)
        kernel = self._start(rows, 1.0)
        self._require_room(len(codes), kernel, rows, 3 + 2 * self._outputs)
        return rows, codes, kernel

    @property
    def _outputs(self):
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    @staticmethod
    def _evidence(codes, classes, max_iter):
        last: list = [None]  # the mode moves little from one kernel to the next

        def evaluate(K, extra, slope):
            dense = K.dense().astype(np.float64, copy=False)
            found = laplace(dense, codes, classes, max_iter=max_iter, start=last[0])
            last[0] = found.residual
            return found.evidence, found.slope(dense) if slope else None, {}

        return evaluate

    def _store(self, found, rows, codes):
        self._keep(found, rows)
        self.codes_ = codes
        self._fit = self._modes()
        residual = self._fit.residual
        self.dual_coef_ = residual[:, 0] if residual.shape[1] == 1 else residual
        self.log_marginal_likelihood_value_ = self._fit.evidence
        if not self._fit.gain <= 1e-5:
            warnings.warn(f"Newton's method stopped {self._fit.gain:.2g} nats before the mode; raise max_iter_predict",
                          ConvergenceWarning, stacklevel=3)  # fmt: skip
        self.solver_used_ = "laplace"

    def _modes(self):
        K = self._gram.dense().astype(np.float64, copy=False)
        return laplace(K, self.codes_, len(self.classes_), max_iter=self.max_iter_predict)

    @property
    def _posterior(self) -> LaplaceModes:
        check_is_fitted(self)
        if not hasattr(self, "_fit"):
            self._fit = self._modes()
        return self._fit

    def _latent(self, rows):
        """Means (m, c) and covariances (m, c, c) of the latent functions, some rows at a time."""
        parts = []
        for some in self._groups(rows):
            part = validate.take(rows, some)
            own = gram(self.kernel_, part, engine=engine_of(self), memory=self.memory, validated=True).diag()
            parts.append(self._posterior.latent(prepared_gram(self._gram, part).dense(), own))
        return tuple(np.concatenate(p) for p in zip(*parts, strict=True))

    def _probabilities(self, X):
        rows, dtype = self._asked(X)
        mean, covariance = self._latent(rows)
        if self._outputs == 1:
            p = averaged(mean[:, 0], covariance[:, 0, 0])
            return np.column_stack([1 - p, p]), dtype
        draws = norm.ppf(qmc.Sobol(self._outputs, seed=0).random(_DRAWS))
        return averaged_softmax(mean, covariance, draws), dtype

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities (m, classes), averaged over the posterior of the latent functions."""
        p, dtype = self._probabilities(X)
        return p.astype(dtype)

    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X) -> np.ndarray:
        """The most probable label (m,) of each row."""
        check_is_fitted(self)
        if self._outputs == 1:  # more likely than not where the mode is positive, whatever its spread
            rows, _ = self._asked(X)
            scores = prepared_gram(self._gram, rows) @ self.dual_coef_
            return self.classes_[(scores > 0).astype(np.intp)]
        return self.classes_[self._probabilities(X)[0].argmax(axis=1)]

    def log_marginal_likelihood(self, theta=None, eval_gradient=False):
        """Laplace's log evidence at `theta`, logs of the parameters as in `theta_`, and its slope if asked for."""
        check_is_fitted(self)
        evaluate = self._evidence(self.codes_, len(self.classes_), self.max_iter_predict)
        return self._value_at(evaluate, self._start(self.X_fit_, 1.0), {}, theta, eval_gradient)

    @property
    def expansion_(self) -> Expansion:
        """The latent mode as an expansion: kernel, centres, coefficients."""
        check_is_fitted(self)
        return Expansion(
            self.kernel_, self.X_fit_, self.dual_coef_.reshape(len(self.dual_coef_), -1), np.zeros(self._outputs)
        )

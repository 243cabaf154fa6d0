"""Kernel Fisher discriminant analysis (M13)."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, forget
from mercer.estimators.expansion import Expansion
from mercer.estimators.labels import class_labels
from mercer.estimators.mixins import ClassifierMixin
from mercer.gram import GivenGram
from mercer.gram.plan import budget, require
from mercer.registry import register_estimator
from mercer.solvers import solve_discriminant

__all__ = ["KernelFisherDiscriminant"]


@register_estimator
class KernelFisherDiscriminant(ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    r"""Directions of feature space that tell classes apart, and the classifier that goes with them.

    .. math:: \max_w \frac{w^T S_b w}{w^T S_w w + \alpha\, w^T w}

    `transform` projects on at most (classes - 1) directions; `predict` takes the class whose mean is nearest there, priors
    included: linear discriminant analysis in feature space with the covariance (S_w + alpha I) / n.

    Parameters
    ----------
    n_components : directions that `transform` gives; None: all. Predictions always use all.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    alpha : ridge, what is added to the diagonal of the centred Gram matrix.
    priors : probabilities of the classes; None: their shares of the rows.
    engine, memory, indefinite : how and within how many bytes Grams are computed, and what to do when they are not PSD.

    Attributes
    ----------
    classes_, priors_ : labels in increasing order, and their probabilities.
    means_, ratios_ : class means (classes, directions), and the scatter between over that within classes of each direction.
    X_fit_, kernel_, dual_coef_, intercept_, expansion_ : the projections as an expansion.
    residual_, jitter_, solver_used_ : how exact they are, and what was done.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelFisherDiscriminant
    >>> from mercer.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> radius, angle = np.repeat([1.0, 2.0], 50), rng.uniform(0, 6.28, 100)
    >>> X = (radius * [np.cos(angle), np.sin(angle)]).T
    >>> model = KernelFisherDiscriminant(kernel=RBF(0.5)).fit(X, radius > 1.5)
    >>> model.score(X, radius > 1.5), model.transform(X).shape
    (1.0, (100, 1))

    Mika, Rätsch, Weston, Schölkopf & Müller (1999); Baudat & Anouar (2000).
    """

    _parameter_constraints = {
        **CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "priors": ["array-like", None],
    }

    def __init__(self, n_components=None, *, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, alpha=0.1,
                 priors=None, engine=None, memory=None, indefinite="warn"):  # fmt: skip
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.priors = priors
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def fit(self, X, y) -> "KernelFisherDiscriminant":
        """Fit on rows X and labels y."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        rows, y, _ = self._validated_training(X, y, None)
        self.classes_, codes = class_labels(y)
        self.priors_ = _priors(self.priors, codes, len(self.classes_))
        K = self._training_gram(rows, None)
        self._require_room(K)
        fixed = self._definite(K)
        found = solve_discriminant(K.dense() if fixed is None else fixed.matrix, codes, len(self.classes_), self.alpha)
        A = found.coefficients if fixed is None else fixed.transform(found.coefficients.T).T
        self.dual_coef_, self.intercept_ = A.astype(K.dtype), found.intercept
        self.means_, self.ratios_ = found.means, found.ratios
        self.residual_, self.jitter_ = found.certificate, found.jitter
        self.X_fit_, self._gram = rows, K
        self.solver_used_ = "exact"
        return self

    def _require_room(self, K):
        n = K.shape[0]
        remedies = ["linear discriminants of KernelPCA(n_landmarks=1000) components", "fewer rows or float32",
                    'a larger budget, memory="64GB"']  # fmt: skip
        seconds = None if isinstance(K, GivenGram) else K.plan.seconds
        require(n * n * K.dtype.itemsize, budget(self.memory), f"the Gram matrix of {n} rows", remedies, seconds)

    def _projected(self, X):
        out = self._test_gram(X) @ self.dual_coef_
        return out + self.intercept_.astype(out.dtype)

    def transform(self, X) -> np.ndarray:
        """Projections (m, q), 0 at the mean of all rows and of unit variance within classes."""
        return self._projected(X)[:, : self._n_features_out]

    def _joint(self, X):
        """Log of prior times density (m, classes), but for what all classes share."""
        T = self._projected(X)
        square = np.square(T[:, None] - self.means_).sum(axis=2)
        with np.errstate(divide="ignore"):  # the log of a prior of 0
            return (np.log(self.priors_) - square / 2).astype(T.dtype)

    def decision_function(self, X) -> np.ndarray:
        """Log-odds (m,) of the second class, or log of prior times density (m, classes)."""
        joint = self._joint(X)
        return joint[:, 1] - joint[:, 0] if len(self.classes_) == 2 else joint

    def predict(self, X) -> np.ndarray:
        """The most probable class of each row; the first of several equal ones."""
        best = self._joint(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities (m, classes)."""
        return softmax(self._joint(X), axis=1)

    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return log_softmax(self._joint(X), axis=1)

    @property
    def expansion_(self) -> Expansion:
        """The projections as an expansion: kernel, centres, coefficients, intercepts."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self.dual_coef_, self.intercept_)

    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres)
        new.dual_coef_ = coefficients
        return new

    @property
    def _n_features_out(self):
        return min(self.n_components or len(self.ratios_), len(self.ratios_))

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _priors(priors, codes, n_classes):
    if priors is None:
        return np.bincount(codes, minlength=n_classes) / len(codes)
    values = np.asarray(priors, np.float64)
    if values.shape != (n_classes,) or not (values >= 0).all() or not np.isclose(values.sum(), 1.0):
        raise ValueError(f"priors={priors!r} must be {n_classes} probabilities that add up to 1, one for each class")
    return values

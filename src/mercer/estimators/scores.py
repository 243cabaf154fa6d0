"""Machines whose answers are scores: those of one expansion, and what classifiers say of scores."""

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.estimators.base import KernelEstimator, lazily
from mercer.estimators.expansion import Expansion
from mercer.estimators.labels import log_probabilities, most_likely, probabilities
from mercer.estimators.mixins import ClassifierMixin
from mercer.gram import prepared_gram

__all__ = ["ScoredClassifier", "ScoredExpansion"]


class ScoredExpansion(KernelEstimator):
    """Scores f(x) + b from the stored rows `X_fit_`, their coefficients `dual_coef_` and `intercept_`."""

    def _scores(self, X):
        """f(x) + b (m, p), in tiles over the stored rows, computed in their precision and given in that of X."""
        check_is_fitted(self)
        if isinstance(self.kernel_, str):
            K = self._test_gram(X)
            single = K.dtype == np.float32
        else:
            rows = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
            single = getattr(rows, "dtype", None) == np.float32
            K = prepared_gram(self._gram, rows)
        out = K @ self.expansion_.coefficients + self.intercept_
        return out.astype(np.float32) if single else out

    @property
    def expansion_(self) -> Expansion:
        """The fitted expansion: kernel, centres, coefficients, intercept."""
        check_is_fitted(self)
        coefficients = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        return Expansion(self.kernel_, self.X_fit_, coefficients, np.atleast_1d(self.intercept_))


class ScoredClassifier(ClassifierMixin):
    """Answers of a classifier with `_scores(X)`, (m, 1) for two classes, else (m, classes), and `classes_`."""

    def _has_probabilities(self):
        """Whether scores are log-odds; scikit-learn asks."""
        return True

    @lazily
    def decision_function(self, X) -> np.ndarray:
        """Scores (m,) of the second class, or (m, classes); log-odds where there are probabilities."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @lazily
    def predict(self, X) -> np.ndarray:
        """Labels (m,) of the largest score."""
        scores = self._scores(X)  # tells first whether there was a fit
        return most_likely(self.classes_, scores)

    @available_if(lambda self: self._has_probabilities())
    @lazily
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities (m, classes)."""
        return probabilities(self._scores(X))

    @available_if(lambda self: self._has_probabilities())
    @lazily
    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithms of `predict_proba`, exact where that is 0 or 1 to the last bit."""
        return log_probabilities(self._scores(X))

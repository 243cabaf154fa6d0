"""scikit-learn's mixins, with scores of targets that are tensors."""

from sklearn import base

from mercer import validate

__all__ = ["ClassifierMixin", "RegressorMixin"]


class ClassifierMixin(base.ClassifierMixin):
    """Classifiers whose `score` takes tensors."""

    def score(self, X, y, sample_weight=None) -> float:
        """Part of the rows whose class is predicted, weighted by `sample_weight`."""
        return super().score(X, validate.array_of(y, "y"), validate.array_of(sample_weight, "sample_weight"))


class RegressorMixin(base.RegressorMixin):
    """Regressors whose `score` takes tensors."""

    def score(self, X, y, sample_weight=None) -> float:
        """R^2 of what is predicted: 1 less the sum of squared errors over that of deviations from the mean."""
        return super().score(X, validate.array_of(y, "y"), validate.array_of(sample_weight, "sample_weight"))

"""Estimators: fit and predict in scikit-learn's manner, with kernel objects."""

from mercer.estimators.base import KernelEstimator
from mercer.estimators.expansion import Expansion, SizeReport
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.ridge_cv import KernelRidgeCV
from mercer.estimators.tuning import Tuning

__all__ = ["Expansion", "KernelEstimator", "KernelRidge", "KernelRidgeCV", "SizeReport", "Tuning"]

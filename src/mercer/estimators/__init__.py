"""Estimators: fit and predict in scikit-learn's manner, with kernel objects."""

from mercer.estimators.base import KernelEstimator
from mercer.estimators.expansion import Expansion, SizeReport
from mercer.estimators.perceptron import KernelPerceptron, MistakeBound
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.ridge_cv import KernelRidgeCV
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, calibrated
from mercer.estimators.svm_path import SVCPath
from mercer.estimators.tuning import Tuning

__all__ = [
    "SVC",
    "SVR",
    "Expansion",
    "KernelEstimator",
    "KernelPerceptron",
    "KernelRidge",
    "KernelRidgeCV",
    "MistakeBound",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "SVCPath",
    "SizeReport",
    "Tuning",
    "calibrated",
]

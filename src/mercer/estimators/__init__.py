"""Estimators: fit and predict in scikit-learn's manner, with kernel objects."""

from mercer.estimators.base import KernelEstimator
from mercer.estimators.expansion import Expansion, SizeReport
from mercer.estimators.features import PolynomialSketch, RandomFourierFeatures
from mercer.estimators.logistic import KernelLogistic
from mercer.estimators.nystroem import Nystroem
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
    "KernelLogistic",
    "KernelPerceptron",
    "KernelRidge",
    "KernelRidgeCV",
    "MistakeBound",
    "NuSVC",
    "NuSVR",
    "Nystroem",
    "OneClassSVM",
    "PolynomialSketch",
    "RandomFourierFeatures",
    "SVCPath",
    "SizeReport",
    "Tuning",
    "calibrated",
]

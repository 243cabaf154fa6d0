"""mercer: one kernel object, every method, any data, any scale."""

import logging

from mercer import datasets, kernels
from mercer._version import __version__
from mercer.diagnostics import check_kernel, fourier_check, mercer_expansion, mercer_map, repair, separable, silhouette
from mercer.engines import Engine
from mercer.estimators import (
    SVC,
    SVR,
    KernelDensity,
    KernelDensityClassifier,
    KernelFisherDiscriminant,
    KernelKMeans,
    KernelLogistic,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeCV,
    KMedoids,
    LocalRegression,
    MeanShift,
    MixtureRegression,
    NadarayaWatson,
    NearestMedoidClassifier,
    NuSVC,
    NuSVR,
    Nystroem,
    OneClassSVM,
    PolynomialSketch,
    RandomFourierFeatures,
    SVCPath,
    calibrated,
    preimage,
)
from mercer.gram import Diagonal, Gram, gram
from mercer.solvers.bandwidths import bandwidth_scores
from mercer.versions import show_versions

__all__ = [
    "SVC",
    "SVR",
    "Diagonal",
    "Engine",
    "Gram",
    "KMedoids",
    "KernelDensity",
    "KernelDensityClassifier",
    "KernelFisherDiscriminant",
    "KernelKMeans",
    "KernelLogistic",
    "KernelNeighborsClassifier",
    "KernelNeighborsRegressor",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRidge",
    "KernelRidgeCV",
    "LocalRegression",
    "MeanShift",
    "MixtureRegression",
    "NadarayaWatson",
    "NearestMedoidClassifier",
    "NuSVC",
    "NuSVR",
    "Nystroem",
    "OneClassSVM",
    "PolynomialSketch",
    "RandomFourierFeatures",
    "SVCPath",
    "__version__",
    "bandwidth_scores",
    "calibrated",
    "check_kernel",
    "datasets",
    "fourier_check",
    "gram",
    "kernels",
    "mercer_expansion",
    "mercer_map",
    "preimage",
    "repair",
    "separable",
    "show_versions",
    "silhouette",
]

logging.getLogger("mercer").addHandler(logging.NullHandler())

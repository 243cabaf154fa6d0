from mercer.estimators.additive import Component, decompose
from mercer.estimators.base import KernelEstimator
from mercer.estimators.budget import BudgetKernelClassifier, BudgetKernelRegressor
from mercer.estimators.cca import KernelCCA
from mercer.estimators.compare import Comparison, MachineResult, compare_machines
from mercer.estimators.compression import Compression, compress
from mercer.estimators.density import KernelDensity
from mercer.estimators.density_classifier import KernelDensityClassifier
from mercer.estimators.discriminant import KernelFisherDiscriminant
from mercer.estimators.expansion import Expansion, SizeReport
from mercer.estimators.explain import TopFeatures, top_features
from mercer.estimators.features import PolynomialSketch, RandomFourierFeatures
from mercer.estimators.gaussian_classifier import GaussianProcessClassifier
from mercer.estimators.gaussian_process import GaussianProcessRegressor
from mercer.estimators.gplvm import GPLVM
from mercer.estimators.hypotheses import HypothesisTest, KernelChoice, hsic_test, mmd_test
from mercer.estimators.kernel_machine import KernelMachineClassifier, KernelMachineRegressor, RBFNetwork
from mercer.estimators.kmeans import KernelKMeans
from mercer.estimators.local_regression import LocalRegression
from mercer.estimators.logistic import KernelLogistic
from mercer.estimators.mean_shift import MeanShift
from mercer.estimators.medoids import KMedoids, NearestMedoidClassifier
from mercer.estimators.mixture_regression import MixtureRegression
from mercer.estimators.mkl import MKLClassifier, MKLRegressor
from mercer.estimators.nadaraya_watson import NadarayaWatson
from mercer.estimators.neighbors import KernelNeighborsClassifier, KernelNeighborsRegressor
from mercer.estimators.nystroem import Nystroem
from mercer.estimators.pca import KernelPCA
from mercer.estimators.perceptron import KernelPerceptron, MistakeBound
from mercer.estimators.preimages import preimage
from mercer.estimators.ridge import KernelRidge
from mercer.estimators.ridge_cv import KernelRidgeCV
from mercer.estimators.rvm import RVMClassifier, RVMRegressor
from mercer.estimators.search import KernelSearch, SearchStep, search_kernel
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM, calibrated
from mercer.estimators.svm_path import SVCPath
from mercer.estimators.table_model import Coding, TableModel
from mercer.estimators.tuning import Tuning, tune
from mercer.estimators.vector_machines import L1VMClassifier, L1VMRegressor, L2VMClassifier, L2VMRegressor

__all__ = [
    "GPLVM",
    "SVC",
    "SVR",
    "BudgetKernelClassifier",
    "BudgetKernelRegressor",
    "Coding",
    "Comparison",
    "Component",
    "Compression",
    "Expansion",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "HypothesisTest",
    "KMedoids",
    "KernelCCA",
    "KernelChoice",
    "KernelDensity",
    "KernelDensityClassifier",
    "KernelEstimator",
    "KernelFisherDiscriminant",
    "KernelKMeans",
    "KernelLogistic",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelNeighborsClassifier",
    "KernelNeighborsRegressor",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRidge",
    "KernelRidgeCV",
    "KernelSearch",
    "L1VMClassifier",
    "L1VMRegressor",
    "L2VMClassifier",
    "L2VMRegressor",
    "LocalRegression",
    "MKLClassifier",
    "MKLRegressor",
    "MachineResult",
    "MeanShift",
    "MistakeBound",
    "MixtureRegression",
    "NadarayaWatson",
    "NearestMedoidClassifier",
    "NuSVC",
    "NuSVR",
    "Nystroem",
    "OneClassSVM",
    "PolynomialSketch",
    "RBFNetwork",
    "RVMClassifier",
    "RVMRegressor",
    "RandomFourierFeatures",
    "SVCPath",
    "SearchStep",
    "SizeReport",
    "TableModel",
    "TopFeatures",
    "Tuning",
    "calibrated",
    "compare_machines",
    "compress",
    "decompose",
    "hsic_test",
    "mmd_test",
    "preimage",
    "search_kernel",
    "top_features",
    "tune",
]

"""Kernels: immutable values with a formula, an algebra and gradients."""

from mercer.kernels.algebra import (
    Centre,
    Difference,
    Exp,
    Gaussian,
    Maximum,
    Minimum,
    Named,
    Normalise,
    On,
    Poly,
    Power,
    Product,
    Scaled,
    Series,
    Sum,
    Tanh,
    Times,
    Warp,
)
from mercer.kernels.bags import MeanMap, OptimalAssignment, PyramidMatch
from mercer.kernels.base import FeatureKernel, InnerProduct, Isotropic, Kernel, PairKernel
from mercer.kernels.chains import MarkovChain
from mercer.kernels.columns import ANOVA, AdditiveChi2, Brownian, BSpline, Categorical, Chi2, Intersection, LinearSpline
from mercer.kernels.count_models import DirichletMultinomial, MultinomialModel
from mercer.kernels.documents import BagOfWords, TfIdf
from mercer.kernels.fisher import Fisher
from mercer.kernels.generative import DensityProduct, LatentGaussian, LatentMonteCarlo, MixtureKernel, SharedPath
from mercer.kernels.graph_features import EdgeHistogram, Graphlet, ShortestPath, VertexHistogram
from mercer.kernels.graph_pairs import Propagation, RandomWalk
from mercer.kernels.graphs import Graph, read_graphs
from mercer.kernels.hmm import HiddenMarkov
from mercer.kernels.local_alignment import LocalAlignment, SmithWaterman
from mercer.kernels.models import ComponentModel, MixtureModel, NormalModel
from mercer.kernels.parameters import frozen
from mercer.kernels.probability_products import ProbabilityProduct
from mercer.kernels.products import (
    ArcCosine,
    ArcSine,
    Constant,
    Cosine,
    Linear,
    Polynomial,
    QuadraticForm,
    Sigmoid,
    Tanimoto,
    White,
)
from mercer.kernels.radial import (
    RBF,
    InverseMultiquadric,
    Laplacian,
    Matern,
    Multiquadric,
    Periodic,
    RationalQuadratic,
    ThinPlate,
)
from mercer.kernels.sequences import DynamicTimeWarping, GlobalAlignment, Signature
from mercer.kernels.sets import Jaccard, PowerSet, SetIntersection
from mercer.kernels.sklearn_names import as_kernel
from mercer.kernels.strings import (
    AllSubstrings,
    BagOfCharacters,
    BlendedSpectrum,
    GappedKmer,
    GappySubsequence,
    Mismatch,
    Spectrum,
    WeightedDegree,
)
from mercer.kernels.text import parse_kernel
from mercer.kernels.trees import SubsetTree, Subtree
from mercer.kernels.user import Basis, Blockwise, Pairwise
from mercer.kernels.user_model import UserModel
from mercer.kernels.validity import Validity
from mercer.kernels.weisfeiler_lehman import WeisfeilerLehman, WLOptimalAssignment
from mercer.kernels.windows import Biweight, CosineWindow, Epanechnikov, Triangular, Tricube, Window
from mercer.registry import register

__all__ = [
    "ANOVA",
    "RBF",
    "AdditiveChi2",
    "AllSubstrings",
    "ArcCosine",
    "ArcSine",
    "BSpline",
    "BagOfCharacters",
    "BagOfWords",
    "Basis",
    "Biweight",
    "BlendedSpectrum",
    "Blockwise",
    "Brownian",
    "Categorical",
    "Centre",
    "Chi2",
    "ComponentModel",
    "Constant",
    "Cosine",
    "CosineWindow",
    "DensityProduct",
    "Difference",
    "DirichletMultinomial",
    "DynamicTimeWarping",
    "EdgeHistogram",
    "Epanechnikov",
    "Exp",
    "FeatureKernel",
    "Fisher",
    "GappedKmer",
    "GappySubsequence",
    "Gaussian",
    "GlobalAlignment",
    "Graph",
    "Graphlet",
    "HiddenMarkov",
    "InnerProduct",
    "Intersection",
    "InverseMultiquadric",
    "Isotropic",
    "Jaccard",
    "Kernel",
    "Laplacian",
    "LatentGaussian",
    "LatentMonteCarlo",
    "Linear",
    "LinearSpline",
    "LocalAlignment",
    "MarkovChain",
    "Matern",
    "Maximum",
    "MeanMap",
    "Minimum",
    "Mismatch",
    "MixtureKernel",
    "MixtureModel",
    "MultinomialModel",
    "Multiquadric",
    "Named",
    "NormalModel",
    "Normalise",
    "On",
    "OptimalAssignment",
    "PairKernel",
    "Pairwise",
    "Periodic",
    "Poly",
    "Polynomial",
    "Power",
    "PowerSet",
    "ProbabilityProduct",
    "Product",
    "Propagation",
    "PyramidMatch",
    "QuadraticForm",
    "RandomWalk",
    "RationalQuadratic",
    "Scaled",
    "Series",
    "SetIntersection",
    "SharedPath",
    "ShortestPath",
    "Sigmoid",
    "Signature",
    "SmithWaterman",
    "Spectrum",
    "SubsetTree",
    "Subtree",
    "Sum",
    "Tanh",
    "Tanimoto",
    "TfIdf",
    "ThinPlate",
    "Times",
    "Triangular",
    "Tricube",
    "UserModel",
    "Validity",
    "VertexHistogram",
    "WLOptimalAssignment",
    "Warp",
    "WeightedDegree",
    "WeisfeilerLehman",
    "White",
    "Window",
    "as_kernel",
    "frozen",
    "parse_kernel",
    "read_graphs",
    "register",
]

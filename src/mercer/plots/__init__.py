"""Pictures in scikit-learn's manner: a Display has `from_...` class methods, `plot`, and afterwards `figure_` and `axes_`."""

from mercer.plots.additive import DecompositionDisplay
from mercer.plots.bands import ConditionalBandDisplay
from mercer.plots.components import EigenfunctionsDisplay, EmbeddingDisplay, LatentSpaceDisplay
from mercer.plots.decisions import DecisionRegionDisplay
from mercer.plots.densities import BandwidthDisplay, ConditionalDensityDisplay, DensityDisplay
from mercer.plots.functions import KernelFunctionDisplay
from mercer.plots.grams import ClusteredGramDisplay, GramDisplay, SpectrumDisplay
from mercer.plots.hypotheses import NullDistributionDisplay, WitnessDisplay
from mercer.plots.images import ImageStripDisplay
from mercer.plots.machines import ComparisonDisplay
from mercer.plots.paths import PathDisplay

__all__ = [
    "BandwidthDisplay",
    "ClusteredGramDisplay",
    "ComparisonDisplay",
    "ConditionalBandDisplay",
    "ConditionalDensityDisplay",
    "DecisionRegionDisplay",
    "DecompositionDisplay",
    "DensityDisplay",
    "EigenfunctionsDisplay",
    "EmbeddingDisplay",
    "GramDisplay",
    "ImageStripDisplay",
    "KernelFunctionDisplay",
    "LatentSpaceDisplay",
    "NullDistributionDisplay",
    "PathDisplay",
    "SpectrumDisplay",
    "WitnessDisplay",
]

"""Pictures in scikit-learn's manner: a Display has `from_...` class methods, `plot`, and afterwards `figure_` and `axes_`."""

from mercer.plots.additive import DecompositionDisplay
from mercer.plots.components import EigenfunctionsDisplay, EmbeddingDisplay, LatentSpaceDisplay
from mercer.plots.densities import BandwidthDisplay, ConditionalDensityDisplay, DensityDisplay
from mercer.plots.grams import ClusteredGramDisplay
from mercer.plots.hypotheses import NullDistributionDisplay, WitnessDisplay
from mercer.plots.images import ImageStripDisplay
from mercer.plots.machines import ComparisonDisplay

__all__ = [
    "BandwidthDisplay",
    "ClusteredGramDisplay",
    "ComparisonDisplay",
    "ConditionalDensityDisplay",
    "DecompositionDisplay",
    "DensityDisplay",
    "EigenfunctionsDisplay",
    "EmbeddingDisplay",
    "ImageStripDisplay",
    "LatentSpaceDisplay",
    "NullDistributionDisplay",
    "WitnessDisplay",
]

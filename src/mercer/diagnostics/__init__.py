"""Questions asked of a kernel or a Gram matrix: validity, spectrum, repair, Mercer's theorem, alignment, separability."""

from mercer.diagnostics.alignments import alignment
from mercer.diagnostics.check import KernelReport, check_kernel
from mercer.diagnostics.expansion import MercerExpansion, MercerMap, mercer_expansion, mercer_map
from mercer.diagnostics.fourier import FourierReport, fourier_check
from mercer.diagnostics.repairs import Repair, repair
from mercer.diagnostics.separability import Separability, separable
from mercer.diagnostics.silhouettes import silhouette
from mercer.diagnostics.spectra import Conditioning, conditioning, effective_rank, entropy_rank, spectrum

__all__ = [
    "Conditioning",
    "FourierReport",
    "KernelReport",
    "MercerExpansion",
    "MercerMap",
    "Repair",
    "Separability",
    "alignment",
    "check_kernel",
    "conditioning",
    "effective_rank",
    "entropy_rank",
    "fourier_check",
    "mercer_expansion",
    "mercer_map",
    "repair",
    "separable",
    "silhouette",
    "spectrum",
]

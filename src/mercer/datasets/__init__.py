"""Small data sets that come with the package, and the folder of larger ones.

Sources, licences and citations are in ``mercer/datasets/data/ATTRIBUTION.md``.
"""

from mercer.datasets.bundled import load_co2, load_concrete, load_energy, load_promoters
from mercer.datasets.home import data_home

__all__ = ["data_home", "load_co2", "load_concrete", "load_energy", "load_promoters"]

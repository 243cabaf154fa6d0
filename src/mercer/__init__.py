"""mercer: one kernel object, every method, any data, any scale."""

import logging

from mercer import datasets, kernels
from mercer._version import __version__
from mercer.engines import Engine
from mercer.estimators import KernelRidge, KernelRidgeCV
from mercer.gram import Diagonal, Gram, gram
from mercer.versions import show_versions

__all__ = [
    "Diagonal",
    "Engine",
    "Gram",
    "KernelRidge",
    "KernelRidgeCV",
    "__version__",
    "datasets",
    "gram",
    "kernels",
    "show_versions",
]

logging.getLogger("mercer").addHandler(logging.NullHandler())

"""One small tree of errors and warnings. A message says what was expected, what came and what to try."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

__all__ = [
    "ConvergenceWarning",
    "KernelOutputError",
    "MemoryBudgetError",
    "MercerError",
    "NanError",
    "NotDifferentiableError",
    "NotPSDError",
    "NotSymmetricError",
    "NumericalWarning",
]


class MercerError(Exception):
    """Root of everything mercer raises on purpose."""


class NanError(MercerError, ValueError):
    """NaN or infinity where a finite number was needed."""


class NotPSDError(MercerError, np.linalg.LinAlgError, ValueError):
    """A matrix or kernel that had to be positive semi-definite is not."""


class NotSymmetricError(MercerError, ValueError):
    """A Gram matrix of one set of rows with itself is not symmetric."""


class NotDifferentiableError(MercerError, TypeError):
    """A gradient was asked of a kernel that has none; the message names the leaf."""


class KernelOutputError(MercerError, ValueError):
    """A user's kernel, feature map or warp returned the wrong shape or no numbers."""


class MemoryBudgetError(MercerError, MemoryError):
    """What was asked does not fit the memory budget; the message names bytes, time and remedies."""


class NumericalWarning(UserWarning):
    """The result is usable but degraded; the message says by how much."""


class ConvergenceWarning(_SklearnConvergenceWarning):
    """An iteration ended at its cap; the message names the tolerance that was reached."""

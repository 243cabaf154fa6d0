"""One small tree of errors and warnings. A message says what was expected, what came and what to try."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

__all__ = [
    "ClusterError",
    "ConvergenceWarning",
    "EngineWarning",
    "KernelOutputError",
    "KernelTextError",
    "MemoryBudgetError",
    "MercerError",
    "ModelFileError",
    "NanError",
    "NotDifferentiableError",
    "NotPSDError",
    "NotSymmetricError",
    "NumericalWarning",
    "StreamError",
    "TableError",
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


class KernelTextError(MercerError, ValueError):
    """A text is no kernel; the message shows the place."""


class MemoryBudgetError(MercerError, MemoryError):
    """What was asked does not fit the memory budget; the message names bytes, time and remedies."""


class ModelFileError(MercerError, ValueError):
    """A file is not what mercer writes, is damaged, or is newer; or something was to be written that a file cannot hold."""


class ClusterError(MercerError, RuntimeError):
    """Workers of a cluster were lost or stood still; the message says how many are left and how to go on."""


class StreamError(MercerError, ValueError):
    """Rows that come in blocks were not what they should be: other rows than before, other columns, or no numbers."""


class TableError(MercerError, ValueError):
    """A file of data is no table that a model can be made of; the message says where and what to do."""


class NumericalWarning(UserWarning):
    """The result is usable but degraded; the message says by how much."""


class EngineWarning(UserWarning):
    """Another device does the work than the one that was asked for: the result is right, but later."""


class ConvergenceWarning(_SklearnConvergenceWarning):
    """An iteration ended at its cap; the message names the tolerance that was reached."""

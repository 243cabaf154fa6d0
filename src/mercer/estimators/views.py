"""Rows that are neither a fit's X nor its targets: samples to compare, and a second view of the same things."""

from numbers import Real

import numpy as np
import scipy.sparse as sp

from mercer import validate

__all__ = ["view_rows"]


def view_rows(X, kernel, name):
    """Validated rows for a kernel; numbers in one dimension are rows of one column."""
    X = validate.array_of(X, name)
    if kernel.reads in ("vectors", "gaps") and not sp.issparse(X) and not isinstance(X, dict):
        X = _column(X)
    return kernel.validated(X, name)


def _column(X):
    """Numbers in one dimension as a column; anything else as it is."""
    try:
        values = np.asarray(X)
    except ValueError:  # ragged
        return X
    numbers = values.dtype.kind in "biuf" or (
        values.dtype == object and all(isinstance(v, Real) for v in values.ravel())
    )
    return values[:, None] if values.ndim == 1 and numbers and len(values) else X

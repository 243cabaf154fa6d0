"""Solvers on a Gram: they know matrices and records, not estimators."""

from mercer.deferred import deferred_names

__getattr__, __dir__, __all__ = deferred_names(__name__)

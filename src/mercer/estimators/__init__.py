"""Estimators: fit and predict in scikit-learn's manner, with kernel objects."""

from mercer.deferred import deferred_names

__getattr__, __dir__, __all__ = deferred_names(__name__)

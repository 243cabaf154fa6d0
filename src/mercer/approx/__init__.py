"""Approximations: landmarks, passes over rows, explicit feature maps."""

from mercer.deferred import deferred_names

__getattr__, __dir__, __all__ = deferred_names(__name__)

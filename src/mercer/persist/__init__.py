"""Files that hold numbers and plain values and run nothing: one container for checkpoints and models."""

from mercer.persist.container import Container, read, write
from mercer.persist.models import ModelInfo, info, load, save
from mercer.persist.trees import flatten, unflatten

__all__ = ["Container", "ModelInfo", "flatten", "info", "load", "read", "save", "unflatten", "write"]

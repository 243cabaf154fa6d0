"""What a kernel parameter may be: annotations that check constructor arguments and say which have a gradient."""

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

import numpy as np

__all__ = [
    "Count",
    "Degree",
    "Flag",
    "Gamma",
    "Lengthscale",
    "Matrix",
    "Natural",
    "NonNegative",
    "Positive",
    "Real",
    "Spec",
    "frozen",
    "specs",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Spec:
    """Range of a parameter. `continuous` ones have gradients; `array` ones may have one value a column; `words` are
    resolved from data."""

    low: float = -np.inf
    open_low: bool = False
    high: float = np.inf
    integer: bool = False
    array: bool = False
    infinite: bool = False
    words: tuple[str, ...] = field(default=())
    optional: bool = False
    matrix: bool = False
    flag: bool = False

    @property
    def continuous(self):
        return not self.integer and not self.flag

    def check(self, value, name):
        if value is None and self.optional:
            return
        if self.flag:
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{name}={value!r} must be True or False")
            return
        if isinstance(value, str):
            if value not in self.words:
                known = f"; the words are {', '.join(map(repr, self.words))}" if self.words else ""
                raise ValueError(f"{name}={value!r} must be a number{known}")
            return
        if self.matrix:
            _check_matrix(value, name)
        else:
            self._check_numbers(value, name)

    def _check_numbers(self, value, name):
        try:
            numbers = np.asarray(value)
            bad_kind = numbers.dtype.kind not in "iuf"
        except (TypeError, ValueError):
            bad_kind = True
        if bad_kind:
            raise TypeError(f"{name}={value!r} must be a {'whole ' if self.integer else ''}number")
        if numbers.ndim > (1 if self.array else 0) or numbers.size == 0:
            raise ValueError(
                f"{name} must be a number{' or one number a column' if self.array else ''}, got shape {numbers.shape}"
            )
        if np.isnan(numbers).any() or (not self.infinite and np.isinf(numbers).any()):
            raise ValueError(f"{name}={value!r} must be finite")
        if self.integer and (numbers != np.floor(numbers)).any():
            raise ValueError(f"{name}={value!r} must be a whole number")
        low = numbers.min() <= self.low if self.open_low else numbers.min() < self.low
        if low or numbers.max() > self.high:
            relation = ">" if self.open_low else ">="
            upper = f" and <= {self.high:g}" if np.isfinite(self.high) else ""
            raise ValueError(f"{name}={value!r} must be {relation} {self.low:g}{upper}")


def _check_matrix(value, name):
    try:
        A = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a square matrix of numbers, got {type(value).__name__}") from None
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not A.size:
        raise ValueError(f"{name} must be a square matrix, got shape {A.shape}")
    if not np.isfinite(A).all():
        raise ValueError(f"{name} contains NaN or infinity")
    if np.abs(A - A.T).max() > 100 * np.finfo(float).eps * np.abs(A).max():
        raise ValueError(
            f"{name} must be symmetric; the largest difference to its transpose is {np.abs(A - A.T).max():g}"
        )


Real = Annotated[Any, Spec()]
Positive = Annotated[Any, Spec(low=0.0, open_low=True)]
NonNegative = Annotated[Any, Spec(low=0.0)]
Natural = Annotated[Any, Spec(low=1, integer=True)]
Count = Annotated[Any, Spec(low=0, integer=True)]
Flag = Annotated[Any, Spec(flag=True)]
Matrix = Annotated[Any, Spec(matrix=True, optional=True)]
Degree = Annotated[Any, Spec(low=0.0)]
Gamma = Annotated[Any, Spec(low=0.0, words=("scale", "auto"))]
#: A scalar or one value a column; infinity switches a column off; "median", "scale" and "auto" are taken from the data.
Lengthscale = Annotated[Any, Spec(low=0.0, open_low=True, array=True, infinite=True, words=("median", "scale", "auto"))]


@dataclass_transform(frozen_default=True, eq_default=False)
def frozen(cls: type[T]) -> type[T]:
    """Immutable kernel class: annotations become constructor arguments, stored untouched and checked at once."""
    return dataclass(frozen=True, eq=False, repr=False)(cls)


def specs(cls: type) -> dict[str, Spec]:
    """Checked parameters of a kernel class, in constructor order."""
    return _specs(cls)


@cache
def _specs(cls: Any) -> dict[str, Spec]:
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for f in fields(cls):
        for extra in getattr(hints[f.name], "__metadata__", ()):
            if isinstance(extra, Spec):
                found[f.name] = extra
    return found

"""Kernels that are a function of one squared distance, and that function by itself: its values, its slope, its inverse."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import expr
from mercer.kernels.statistics import SquaredDistance
from mercer.kernels.views import Input, Numbers, View, chain

__all__ = ["Radial", "radial"]

_HALVINGS, _FARTHEST = 60, 1e12


@dataclass(frozen=True, eq=False)
class Radial:
    """k(x, y) = f(s), s the squared distance of the rows as `view` sees them, which is linear in the rows."""

    view: View
    leaf: Any
    expression: Any
    parameters: Any

    def value(self, s) -> np.ndarray:
        """f(s)."""
        found = expr.evaluate(self.expression, self.parameters, {self.leaf: np.asarray(s, np.float64)})
        return np.broadcast_to(np.asarray(found, np.float64), np.shape(s))

    def inverse(self, values) -> np.ndarray:
        """The s with f(s) = value, where f falls; 0 for values above f(0), and a very large s for those that it never reaches."""
        low, high = np.zeros(np.shape(values)), np.ones(np.shape(values))
        with np.errstate(all="ignore"):
            while (far := (self.value(high) > values) & (high < _FARTHEST)).any():
                low, high = np.where(far, high, low), np.where(far, 4.0 * high, high)
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                above = self.value(middle) > values
                low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.where(values >= self.value(np.zeros(())), 0.0, high)

    def slopes(self, K) -> np.ndarray:
        """f'(s) of all pairs of a Gram of few rows."""
        return K.engine.tile([expr.gradient(self.expression)[self.leaf]], K.x, K.y)[0]


def radial(K) -> Radial | None:
    """The function of one squared distance that the kernel of a Gram is; None if it reads anything else."""
    lowered = K.y.lowered
    found = expr.leaves(lowered.expression)
    if len(found) != 1 or not isinstance(found[0].payload, SquaredDistance):
        return None
    view = found[0].payload.view
    if not all(link.linear or isinstance(link, Input | Numbers) for link in chain(view)):
        return None
    return Radial(view, found[0], lowered.expression, lowered.parameters)

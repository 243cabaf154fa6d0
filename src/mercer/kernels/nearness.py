"""Kernels whose distance grows with one squared distance of vectors: the order of neighbours is known without kernel values."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import expr
from mercer.kernels.algebra import Named, On, Power, Product, Scaled, Sum, Warp
from mercer.kernels.products import Constant, Linear
from mercer.kernels.radial import (
    RBF,
    InverseMultiquadric,
    Laplacian,
    Matern,
    Multiquadric,
    Periodic,
    RationalQuadratic,
)
from mercer.kernels.statistics import Inner, SquaredDistance
from mercer.kernels.trace import Lowered, Sensitivity, lower
from mercer.kernels.views import View

__all__ = ["Nearness", "nearness"]

_POSITIVE = (RBF, Laplacian, Matern, RationalQuadratic, InverseMultiquadric, Periodic)
_FAR = 1e300  # where every profile has come to its end; beyond it their squares would overflow


@dataclass(frozen=True, eq=False)
class Nearness:
    """d^2 = g(s) with an increasing g, s the squared distance of two rows as `view` sees them; `lowered` is s as a Gram."""

    view: View
    lowered: Lowered
    leaf: Any
    kernel: Lowered

    def squared(self, s) -> np.ndarray:
        """g(s) in float64: 2 (k(0) - k(s)), or the slope of a linear kernel times s."""
        s = np.asarray(s, np.float64)
        if isinstance(self.leaf.payload, Inner):
            return (self._value(np.ones(())) - self._value(np.zeros(()))) * s
        return np.maximum(2.0 * (self._value(np.zeros(())) - self._value(np.minimum(s, _FAR))), 0.0)

    def _value(self, s):
        return expr.evaluate(self.kernel.expression, self.kernel.parameters, {self.leaf: s})

    def reach(self, squared: float) -> float:
        """The largest s with g(s) <= squared, to the last bit; infinite where g never gets there."""
        if self.squared(_FAR) <= squared:
            return np.inf
        low, high = 0, int(np.float64(_FAR).view(np.int64))  # floats >= 0 are ordered as their bits
        while high - low > 1:
            middle = (low + high) // 2
            near = self.squared(np.int64(middle).view(np.float64)) <= squared
            low, high = (middle, high) if near else (low, middle)
        return float(np.int64(low).view(np.float64))


def nearness(kernel) -> Nearness | None:
    """How the distance of a resolved kernel follows from one distance of vectors; None where it does not, or is not known to."""
    if not (_falls(kernel) or _is_linear(kernel)):
        return None
    lowered = lower(kernel)
    found = expr.leaves(lowered.expression)
    if len(found) != 1 or not isinstance(found[0].payload, SquaredDistance | Inner):
        return None
    view = found[0].payload.view
    # Neighbours are close: their distances need all digits, whatever the kernel makes of them.
    exact = {view: Sensitivity(1.0, kinked=True)}
    order = Lowered(kernel, expr.leaf(SquaredDistance(view)), lowered.parameters, exact)
    near = Nearness(view, order, found[0], lowered)
    return near if near.squared(_FAR) > 0 else None  # an infinite lengthscale has no distances at all


def _falls(k, positive=False):
    """Whether a kernel never grows with the distances that it reads, and is > 0 where that is asked."""
    if isinstance(k, Scaled):
        return k.scale > 0 and _falls(k.kernel, positive)
    if isinstance(k, Named | On | Warp):
        return _falls(k.kernel, positive)
    if isinstance(k, Sum):
        return all(_falls(part, positive) for part in k.parts)
    if isinstance(k, Product):
        return all(_falls(part, True) for part in k.parts)
    if isinstance(k, Power):
        return k.exponent > 0 and _falls(k.kernel, True)
    if isinstance(k, Constant):
        return not positive or k.value > 0
    return isinstance(k, _POSITIVE) or (isinstance(k, Multiquadric) and not positive)


def _is_linear(k):
    if isinstance(k, Scaled):
        return k.scale > 0 and _is_linear(k.kernel)
    return _is_linear(k.kernel) if isinstance(k, Named | On | Warp) else isinstance(k, Linear)

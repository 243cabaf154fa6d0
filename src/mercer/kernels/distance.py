"""The squared distance of a kernel's feature space, as an expression of its own."""

from mercer.expr import maximum
from mercer.kernels.algebra import _One
from mercer.kernels.base import Kernel, frozen
from mercer.kernels.validity import certificate

__all__ = ["SquaredKernelDistance"]


@frozen
class SquaredKernelDistance(_One):
    """d^2(x, y) = k(x,x) + k(y,y) - 2 k(x,y). Not a kernel: what Grams of distances are made of.

    Rounding below 0 is clipped for kernels whose squared distances cannot be negative.
    """

    kernel: Kernel

    def trace(self, t):
        k = t.child(self)
        kx, ky = t.diagonals(k)
        d2 = kx + ky - 2.0 * k
        return maximum(d2, 0.0) if self.kernel.validity.satisfies("cpd") else d2

    @property
    def validity(self):
        return certificate("not-psd", "a squared distance is 0 on the diagonal")

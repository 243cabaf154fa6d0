"""Kernels on sets."""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from mercer import expr
from mercer.errors import NanError
from mercer.kernels.base import FeatureKernel, Kernel, frozen
from mercer.kernels.validity import certificate
from mercer.registry import register

__all__ = ["Jaccard", "PowerSet", "SetIntersection"]

_LARGEST_POWER = 1023  # 2**1024 is beyond float64


class _SetKernel(FeatureKernel):
    """A function of |A n B|, |A| and |B|. A row is a set, or anything whose entries are taken as one."""

    def counts(self, x):
        if isinstance(x, (str, bytes, Mapping)) or not isinstance(x, Iterable):
            name = type(self).__name__
            raise TypeError(
                f"{name} reads sets, lists or tuples of hashable entries, got {type(x).__name__}: {x!r:.40}"
            )
        entries = x.tolist() if isinstance(x, np.ndarray) else x
        found = dict.fromkeys(entries, 1.0)  # an entry without a hash raises TypeError, which tells the row
        if any(isinstance(e, float) and math.isnan(e) for e in found):
            raise ValueError("a set holds NaN, which is equal to nothing; leave it out")
        return found


@register
@frozen
class SetIntersection(_SetKernel):
    """Number of common elements (S9): k(A, B) = |A n B|.

    >>> float(SetIntersection()([{"milk", "bread"}], [["bread", "beer"]])[0, 0])
    1.0
    """


@register
@frozen
class PowerSet(_SetKernel):
    """Number of common subsets (S9): k(A, B) = 2^|A n B|, or 2^(|A n B| - (|A| + |B|)/2) with `form="normalised"`.

    The normalised form is computed from the exponent, so that sets of any size have a value; the plain one refuses sets of more
    than 1023 elements, of which 2^|A| is too large. Haussler (1999).

    >>> float(PowerSet()([{1, 2, 3}], [{2, 3, 4}])[0, 0])  # {}, {2}, {3}, {2, 3}
    4.0
    """

    form: str = "plain"

    def check(self):
        if self.form not in ("plain", "normalised"):
            raise ValueError(f'PowerSet(form=...): form={self.form!r} must be "plain" or "normalised"')

    @property
    def normalised(self):
        return self.form == "normalised"

    def counts(self, x):
        found = super().counts(x)
        if self.form == "plain" and len(found) > _LARGEST_POWER:
            raise NanError(f'2^{len(found)} overflows for a set of {len(found)} elements; use PowerSet("normalised")')
        return found

    def trace(self, t):
        common = t.features(self)
        if self.form == "normalised":
            kx, ky = t.diagonals(common)
            common = common - 0.5 * (kx + ky)
        return expr.exp(math.log(2.0) * common)

    @property
    def validity(self):
        return certificate("pd", "the exponential of an inner product of distinct indicator vectors")

    def phi(self, rows):
        return Kernel.phi(self, rows)


@register
@frozen
class Jaccard(_SetKernel):
    """Jaccard index (S9): k(A, B) = |A n B| / |A u B|, and 1 for two empty sets. It is `Tanimoto` of the indicator vectors.

    >>> Jaccard()([{1, 2}, set()], [{2, 3, 4}, set()]).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """

    normalised = True

    def trace(self, t):
        common = t.features(self)
        kx, ky = t.diagonals(common)
        union = kx + ky - common
        return expr.where(union - 0.5, common / expr.maximum(union, 0.5), 1.0)

    @property
    def validity(self):
        return certificate("psd", "a power series in |A n B| / (|A| + |B|) with coefficients >= 0")

    def phi(self, rows):
        return Kernel.phi(self, rows)

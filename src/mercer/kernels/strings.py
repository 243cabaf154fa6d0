"""Kernels on strings through explicit sparse features."""

from collections import Counter

from mercer.kernels.base import FeatureKernel, frozen
from mercer.kernels.parameters import Natural
from mercer.registry import register

__all__ = ["Spectrum"]


@register
@frozen
class Spectrum(FeatureKernel):
    """k-spectrum kernel (S5): the inner product of the counts of all substrings of length k. Leslie et al. (2002).

    >>> float(Spectrum(2)(["abab"], ["abba"])[0, 0])  # ab: 2 * 1, ba: 1 * 1
    3.0
    """

    k: Natural = 3

    def counts(self, x):
        if not isinstance(x, (str, bytes)):
            raise TypeError(f"Spectrum reads strings, got {type(x).__name__}: {str(x)[:40]!r}")
        k = int(self.k)
        return Counter(x[i : i + k] for i in range(len(x) - k + 1))

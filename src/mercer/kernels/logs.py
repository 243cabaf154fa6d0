"""Kernels of pairs of objects that are computed as logarithms: normalised by subtraction, refused where they overflow."""

import numpy as np

from mercer.errors import NanError
from mercer.kernels.base import PairKernel

__all__ = ["LogarithmicKernel"]


class LogarithmicKernel(PairKernel):
    """k = exp(`_logarithms`), divided by the root of k(x, x) k(y, y) where `normalised`: parsed objects then have `own`."""

    def _logarithms(self, xs, ys) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} says no logarithms")

    def block(self, xs, ys):
        logs = self._logarithms(xs, ys)
        if self.normalised:
            logs -= 0.5 * np.add.outer([x.own for x in xs], [y.own for y in ys])
            return np.exp(np.minimum(logs, 0.0) if self.validity.certified else logs)  # rounding must not lead beyond 1
        if logs.max(initial=-np.inf) > 709.0:
            raise NanError(
                f"{self!r} overflows: k(x, y) is up to exp({logs.max():.4g}); use normalised=True, which divides first"
            )
        return np.exp(logs)

    def block_diag(self, xs):
        return np.ones(len(xs)) if self.normalised else super().block_diag(xs)

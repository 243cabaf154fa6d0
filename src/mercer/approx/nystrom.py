r"""Features from landmarks: :math:`\varphi(x) = L^{-1} k_M(x)` with :math:`K_{MM} = L L^T`, so that
:math:`\varphi(x)^T \varphi(y) = k_M(x)^T K_{MM}^{-1} k_M(y)`, for any kernel (X3). Williams & Seeger (2001)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mercer import validate
from mercer.approx.maps import FeatureMap
from mercer.gram import Gram, gram, prepared_gram
from mercer.linalg import safe_cholesky
from mercer.registry import register_record
from mercer.threads import map_tiles

__all__ = ["NystromMap", "nystrom_map"]

_ROWS = 1024  # at a time in each thread


@register_record
@dataclass(frozen=True, eq=False)
class NystromMap(FeatureMap):
    """Explicit features of any kernel from landmarks. normalization (M, M): L^-1; jitter: what was added to K_MM."""

    kernel: Any
    landmarks: Any
    normalization: np.ndarray
    jitter: float
    engine: Any = None

    @property
    def dim(self) -> int:  # type: ignore[override]
        return len(self.normalization)

    @cached_property
    def _centres(self) -> Gram:
        return gram(self.kernel, self.landmarks, engine=self.engine, validated=True)

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "_centres"}  # made again where it is needed

    def features(self, rows) -> np.ndarray:
        """Features of rows that are validated already."""
        K = prepared_gram(self._centres, rows)
        out = np.empty(K.shape, K.dtype)

        def job(i):
            some = slice(i * _ROWS, (i + 1) * _ROWS)
            # In float64: the entries of L^-1 are large where landmarks are alike.
            out[some] = K[some].dense().astype(np.float64, copy=False) @ self.normalization.T

        map_tiles(job, -(-len(out) // _ROWS))
        return out


def nystrom_map(centres: Gram, engine=None) -> NystromMap:
    """The map of the landmarks of a symmetric Gram."""
    rows = centres.x.rows
    exact = rows.astype(np.float64) if getattr(rows, "dtype", None) == np.float32 else rows
    factor = safe_cholesky(gram(centres.kernel, exact, engine=engine, validated=True).dense(), overwrite=True)
    inverse = factor.solve_triangular(np.eye(factor.n))
    return NystromMap(centres.kernel, validate.owned(rows, rows), inverse, factor.jitter, engine)

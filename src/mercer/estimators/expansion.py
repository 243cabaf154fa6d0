"""The expansion record: what every fitted kernel machine is, and what it costs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.gram.plan import human_bytes

__all__ = ["Expansion", "SizeReport"]


@dataclass(frozen=True)
class Expansion:
    """f(x) = sum_i k(x, centre_i) coefficient_i + intercept: coefficients (n, p), intercept (p,)."""

    kernel: Any
    centres: Any
    coefficients: np.ndarray
    intercept: np.ndarray

    @property
    def n_vectors(self) -> int:
        """Stored vectors that take part: rows with a coefficient that is not 0."""
        return int(np.any(self.coefficients != 0, axis=1).sum())


@dataclass(frozen=True)
class SizeReport:
    """X7: what a fitted machine stores and what a prediction costs, from the dual and, where there is one, the primal side."""

    n_vectors: int
    n_parameters: int
    bytes: int
    kernel_evaluations: int
    n_features: float
    primal_bytes: float

    def __str__(self):
        primal = (
            ""
            if not np.isfinite(self.n_features)
            else f"; {int(self.n_features)} weights ({human_bytes(self.primal_bytes)}) in the primal"
        )
        return (
            f"{self.n_vectors} stored vectors, {self.n_parameters} coefficients, {human_bytes(self.bytes)}, "
            f"{self.kernel_evaluations} kernel evaluations a prediction{primal}"
        )


def size_report(expansion: Expansion, feature_dim: float) -> SizeReport:
    coefficients = expansion.coefficients
    return SizeReport(
        n_vectors=expansion.n_vectors,
        n_parameters=coefficients.size + expansion.intercept.size,
        bytes=_bytes(expansion.centres) + coefficients.nbytes,
        kernel_evaluations=expansion.n_vectors,
        n_features=feature_dim,
        primal_bytes=feature_dim * coefficients.shape[1] * 8,
    )


def _bytes(rows):
    if sp.issparse(rows):
        return rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    if isinstance(rows, validate.Table):
        return sum(_bytes(c) for c in rows.columns)
    if rows.dtype == object:
        return sum(len(x) if isinstance(x, (str, bytes)) else 64 for x in rows)
    return rows.nbytes

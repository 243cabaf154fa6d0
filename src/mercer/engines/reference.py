"""The reference engine: every statistic as its formula says, in plain NumPy. Slow, and what all others are held to."""

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from mercer import expr
from mercer.engines import columns
from mercer.engines.base import Engine
from mercer.engines.prepare import external_tile
from mercer.kernels.statistics import ColumnStatistic, External, Inner, SameRow, SquaredDistance
from mercer.registry import register_engine

__all__ = ["ReferenceEngine"]


@register_engine("reference")
class ReferenceEngine(Engine):
    """Plain NumPy: distances by differences, statistics column by column, expressions node by node."""

    name = "reference"
    tile_shape = (64, 256)  # column statistics hold (rows, columns, d) numbers

    def tile(self, outputs, x, y):
        values = {e: self._leaf(e.payload, x, y) for e in expr.leaves(*outputs)}
        results = expr.evaluate_all(outputs, x.lowered.parameters, values)
        return np.stack([np.broadcast_to(np.asarray(r, x.dtype), (len(x), len(y))) for r in results])

    def _leaf(self, payload, x, y):
        if isinstance(payload, Inner):
            return _dense(x.views[payload.view] @ y.views[payload.view].T).astype(x.dtype)
        if isinstance(payload, SquaredDistance):
            return cdist(_dense(x.centred[payload.view]), _dense(y.centred[payload.view]), "sqeuclidean").astype(
                x.dtype
            )
        if isinstance(payload, ColumnStatistic):
            return columns.tile(payload, x.views[payload.view], y.views[payload.view]).astype(x.dtype)
        if isinstance(payload, SameRow):
            return (x.index[:, None] == y.index[None]).astype(x.dtype) * x.same_side(y)
        if isinstance(payload, External):
            return external_tile(payload, x, y)
        return x.vector(payload)[:, None] if payload.side == "row" else y.vector(payload)


def _dense(A):
    return A.toarray() if sp.issparse(A) else A

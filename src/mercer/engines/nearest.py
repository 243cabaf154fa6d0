"""The nearest of many vectors, exactly: products of tiles say who may be near, differences say how near."""

import numpy as np

from mercer.engines.base import scratch
from mercer.threads import map_tiles, stopping

__all__ = ["nearest_vectors"]

_TILE = (256, 2000)  # as in the CPU engine, not a power of two columns


def nearest_vectors(X, Y, x_norms, y_norms, k, threads=None) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances, float64, and numbers of the k rows of Y nearest to each row of X, ties to the smaller number.

    The result does not depend on tiles and threads: it is that of differences added up in float64.

    Parameters
    ----------
    X, Y : dense rows of one dtype, (n, d) and (m, d), C-ordered; x_norms, y_norms : their squared norms
    k : at most m
    """
    if X.dtype == np.float32 and max(x_norms.max(), y_norms.max()) > 1e37:  # their sums would overflow
        X, Y = X.astype(np.float64), Y.astype(np.float64)
    x_norms, y_norms = x_norms.astype(X.dtype), y_norms.astype(X.dtype)
    keep = X.dtype.type(1 - min(0.5, (X.shape[1] + 8) * np.finfo(X.dtype).eps))
    values, columns = np.empty((len(X), k)), np.empty((len(X), k), np.int64)

    def job(i):
        some = slice(i * _TILE[0], (i + 1) * _TILE[0])
        _one_block(X[some], Y, x_norms[some], y_norms, keep, values[some], columns[some])

    map_tiles(job, -(-len(X) // _TILE[0]), threads)
    return values, columns


def _one_block(X, Y, x_norms, y_norms, keep, values, columns):
    from mercer.engines import _compiled_topk

    for j in range(0, len(Y), _TILE[1]):
        if stopping():
            return
        part = slice(j, min(j + _TILE[1], len(Y)))
        G = scratch("nearest", (len(X), part.stop - j), X.dtype)
        with np.errstate(all="ignore"):  # what overflows is measured by differences
            np.matmul(X, Y[part].T, out=G)
        filled = min(j, values.shape[1])
        _compiled_topk.add_near(G, x_norms, y_norms[part], X, Y[part], keep, j, values, columns, filled)
    _compiled_topk.sort_heaps(values, columns)

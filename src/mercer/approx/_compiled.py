"""Compiled products with a tile of a Gram that is used once: sums in float64 whatever the tile is.

The rules of `mercer.engines._compiled` hold here too. Four rows at a time: they lie in the first cache between being
multiplied from the right and from the left.
"""

import numpy as np

from mercer.engines._compiled import REDUCTION, compiled


@compiled(fastmath=REDUCTION)
def normal_product(tile, V, w, out):
    """out += V K^T diag(w) K for a tile K real (n, M); V, out float64 (p, M), a target in each row; w float64 (n,)."""
    n, M = tile.shape
    whole = n - n % 4
    for i in range(0, whole, 4):
        for c in range(V.shape[0]):
            a, b, d, e = 0.0, 0.0, 0.0, 0.0
            for j in range(M):
                v = V[c, j]
                a += np.float64(tile[i, j]) * v
                b += np.float64(tile[i + 1, j]) * v
                d += np.float64(tile[i + 2, j]) * v
                e += np.float64(tile[i + 3, j]) * v
            _add_four(tile, i, a * w[i], b * w[i + 1], d * w[i + 2], e * w[i + 3], out, c)
    for i in range(whole, n):
        for c in range(V.shape[0]):
            a = 0.0
            for j in range(M):
                a += np.float64(tile[i, j]) * V[c, j]
            _add_one(tile, i, a * w[i], out, c)


@compiled
def left_product(tile, R, out):
    """out += R^T K for a tile K real (n, M); R float64 (n, p), out float64 (p, M)."""
    n = tile.shape[0]
    whole = n - n % 4
    for i in range(0, whole, 4):
        for c in range(out.shape[0]):
            _add_four(tile, i, R[i, c], R[i + 1, c], R[i + 2, c], R[i + 3, c], out, c)
    for i in range(whole, n):
        for c in range(out.shape[0]):
            _add_one(tile, i, R[i, c], out, c)


@compiled
def _add_four(tile, i, a, b, d, e, out, c):
    for j in range(tile.shape[1]):
        first = a * np.float64(tile[i, j]) + b * np.float64(tile[i + 1, j])
        out[c, j] += first + (d * np.float64(tile[i + 2, j]) + e * np.float64(tile[i + 3, j]))


@compiled
def _add_one(tile, i, a, out, c):
    for j in range(tile.shape[1]):
        out[c, j] += a * np.float64(tile[i, j])

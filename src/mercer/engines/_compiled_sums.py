"""Compiled products with a Gram of which each tile is used once: sums in float64 whatever the tile is.

The rules of `mercer.engines._compiled` hold here too. Four rows at a time: they lie in the first cache between being
multiplied from the right and from the left.
"""

import numpy as np

from mercer.engines._compiled import REDUCTION, compiled
from mercer.engines._compiled_product import product_tile


@compiled(fastmath=REDUCTION)
def row_sums(tile, out):
    """out[i] = the sum of a row of the tile, real (n, M); out float64 (n,)."""
    for i in range(tile.shape[0]):
        total = 0.0
        for j in range(tile.shape[1]):
            total += np.float64(tile[i, j])
        out[i] = total


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


@compiled
def sweep(A, B, T, t, tau, gaussian, code, statistics, step, space, registers, R, V, out):
    """`normal_product` with V, `left_product` without (no rows), for a Gram that is a program on one product A B^T of dense rows.

    All rows in one call: threads that return to Python after each tile spend a third of their time waiting for each other.
    Returns False, with `out` spoilt, where a value may not be finite.

    Parameters
    ----------
    A : real (n, d); B : real (M, d); T : real (d, t + M + spare or more), which holds B^T from column t on
    tau, gaussian, code, statistics : see `product_tile`
    step : rows at a time; space : real (2 step M + spare,), registers : scratch
    R : float64 (n, p); V : float64 (p or 0, M); out : float64 (p, M)
    """
    leaves, rowv, colv, rowid, colid, same = statistics
    n, M = A.shape[0], B.shape[0]
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        m = rows.stop - start
        tiles = space[: 2 * m * M].reshape((2, m, M))
        here = np.ascontiguousarray(rowv[:, rows]), colv, rowid[rows], colid, same
        if not product_tile(A[rows], B, T, t, tau, gaussian, code, leaves, here, tiles[:1], registers, tiles[1:], 0, 0):
            return False
        if V.shape[0]:
            normal_product(tiles[1], V, R[rows, 0].copy(), out)
        else:
            left_product(tiles[1], R[rows], out)
    return True

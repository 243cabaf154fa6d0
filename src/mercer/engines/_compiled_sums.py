"""Compiled products with a Gram of which each tile is used once: sums in float64 whatever the tile is.

The rules of `mercer.engines._compiled` hold here too. Four rows at a time: they lie in the first cache between being
multiplied from the right and from the left.
"""

import numpy as np

from mercer.engines._compiled import (
    LEAF_SQDIST,
    LEAF_TILE,
    REDUCTION,
    any_close,
    compiled,
    rbf_tile,
    run_program,
    sqdist_tile,
)


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
def sweep(A, B, turned, tau, gaussian, code, statistics, space, registers, R, V, out):
    """`normal_product` with V, `left_product` without (no rows), for a Gram that is a program on one product A B^T of dense rows.

    All rows in one call: threads that return to Python after each tile spend a third of their time waiting for each other.
    Returns False, with `out` spoilt, where a value may not be finite.

    Parameters
    ----------
    A : real (n, d); B : real (M, d), turned : its transpose
    tau : distances smaller than that share of the norms are recomputed by differences; 0 for none
    gaussian : (slope, factor), factor 0 where the program is not a plain Gaussian
    code : (ops, consts, tables, at_zero, outs); statistics : (leaves, rowv, colv, rowid, colid, same), see `run_program`
    space : real (3 step M,), registers : scratch
    R : float64 (n, p); V : float64 (p or 0, M); out : float64 (p, M)
    """
    ops, consts, tables, at_zero, outs = code
    leaves, rowv, colv, rowid, colid, same = statistics
    slope, factor = gaussian
    n, M = A.shape[0], B.shape[0]
    step = space.size // (3 * M)
    v = _norms_of(leaves)
    exact = _on_exact_distances(leaves)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        m = rows.stop - start
        tiles = space[: 3 * m * M].reshape((3, m, M))
        G, D, K = tiles[0], tiles[1], tiles[2]
        vectors = np.ascontiguousarray(rowv[:, rows])
        np.dot(A[rows], turned, G)
        close = tau > 0 and any_close(G, vectors[v], colv[v], rowid[rows], colid, same, tau)
        if close:
            sqdist_tile(G, vectors[v], colv[v], A[rows], B, tau, D)
        if factor != 0 and not close:
            rbf_tile(G, vectors[0], colv[0], rowid[rows], colid, same, slope, factor, K, 0, 0)
        elif not run_program(ops, consts, tables, at_zero, exact if close else leaves, tiles[:2], vectors, colv, rowid[rows],
                             colid, same, outs, tiles[2:], 0, 0, registers):  # fmt: skip
            return False
        if V.shape[0]:
            normal_product(K, V, R[rows, 0].copy(), out)
        else:
            left_product(K, R[rows], out)
    return True


@compiled
def _norms_of(leaves):
    """Number of the vectors with the norms that squared distances are made of; 0 where there are none."""
    v = 0
    for r in range(leaves.shape[0]):
        if leaves[r, 0] == LEAF_SQDIST:
            v = leaves[r, 2]
    return v


@compiled
def _on_exact_distances(leaves):
    """Leaves that read squared distances from the second tile instead of making them from the first."""
    found = leaves.copy()
    for r in range(leaves.shape[0]):
        if leaves[r, 0] == LEAF_SQDIST:
            found[r, 0], found[r, 1] = LEAF_TILE, 1
    return found

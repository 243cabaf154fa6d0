"""Programs on one product of dense rows: product, close pairs, program and mirror image of a small tile after the other in one
compiled call, while the tile lies in the second cache.

The rules of `mercer.engines._compiled` hold here too. Statistics are (leaves, rowv, colv, rowid, colid, same), a code is
(ops, consts, tables, at_zero, outs): see `run_program`.
"""

import numpy as np

from mercer.engines._compiled import compiled, mirror_tile, rbf_tile, run_program
from mercer.engines._compiled_gemm import multiply


@compiled
def product_tile(A, B, T, t, tau, gaussian, code, leaves, statistics, G, registers, out, i0, j0):
    """Values of a program on A B^T into out[:, i0:, j0:]; True if they are known to be finite.

    Parameters
    ----------
    A : real (m, d); B : real (w, d); T : real (d, t + w + spare or more), which holds B^T from column t on
    tau : distances smaller than that share of the norms are made again by differences; 0 for none
    gaussian : (rate, factor), factor 0 where the program is not a plain Gaussian
    statistics : without the leaves, of these rows and columns alone
    G : real (1, m, w), scratch, with spare numbers behind it, see `multiply`; registers : scratch
    """
    rowv, colv, rowid, colid, same = statistics
    ops, consts, tables, at_zero, outs = code
    rate, factor = gaussian
    multiply(A, T, t, G[0])
    if factor != 0:
        rbf_tile(G[0], rowv[0], colv[0], rowid, colid, same, A, B, tau, rate, factor, out[0], i0, j0)
        return True  # a Gaussian of finite distances is finite
    return run_program(ops, consts, tables, at_zero, leaves, G, rowv, colv, rowid, colid, same, A, B, tau, outs, out, i0, j0,
                       registers)  # fmt: skip


@compiled
def product_block(A, B, T, t, tau, gaussian, code, statistics, part, shape, space, registers, out, i0, j0, mirrored):
    """`product_tile` for a part of all pairs, tiles of some shape one after the other; True if all values are known to be finite.

    part : first row, last row + 1, first column, last column + 1
    T : real (d, t + len(B) + spare or more), which holds B^T from column t on
    space : real (shape[0] * shape[1] + spare,), scratch
    out : real (n_out, N, M). Mirrored, out[0] is symmetric: what lies below its diagonal comes from above it.
    """
    leaves, rowv, colv, rowid, colid, same = statistics
    top, bottom, left, right = part
    finite = True
    for i in range(top, bottom, shape[0]):
        rows = slice(i, min(i + shape[0], bottom))
        m, vectors = rows.stop - i, np.ascontiguousarray(rowv[:, rows])
        for j in range(max(left, i) if mirrored else left, right, shape[1]):
            columns = slice(j, min(j + shape[1], right))
            w = columns.stop - j
            here = vectors, np.ascontiguousarray(colv[:, columns]), rowid[rows], colid[columns], same
            G = space[: m * w].reshape((1, m, w))
            finite &= product_tile(
                A[rows], B[columns], T, t + j, tau, gaussian, code, leaves, here, G, registers, out, i0 + i, j0 + j
            )
            if mirrored:
                mirror_tile(out[0], i, rows.stop, j, columns.stop)
    return finite

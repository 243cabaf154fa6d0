"""The compiled loop of permutation tests of independence. The rules of `mercer.engines._compiled` hold here too."""

import numpy as np

from mercer.engines._compiled import REDUCTION, compiled


@compiled(fastmath=REDUCTION)
def _row_product(a, b, order, stop):
    total = 0.0
    for j in range(stop):
        total += np.float64(a[j]) * np.float64(b[order[j]])
    return total


@compiled
def permuted_products(A, B, orders, start, stop, out):
    """Add A[i, j] B[o[i], o[j]] over start <= i < stop and all j <= i, those with j < i twice, for each row o of `orders`.

    With all rows that is the inner product of A and the permuted B, which are symmetric.
    """
    for p in range(len(orders)):
        o = orders[p]
        total = 0.0
        for i in range(start, stop):
            b = B[o[i]]
            total += 2.0 * _row_product(A[i], b, o, i) + np.float64(A[i, i]) * np.float64(b[o[i]])
        out[p] = total

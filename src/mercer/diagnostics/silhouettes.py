"""How well rows lie in their clusters, in the distance of a kernel."""

import numpy as np

from mercer.gram import GivenGram
from mercer.threads import map_tiles

__all__ = ["silhouette"]

_ROWS = 256  # whose distances to all rows are held at a time


def silhouette(K, labels) -> np.ndarray:
    r"""Silhouettes (n,): (b - a) / max(a, b) of each row, from -1 (in the wrong cluster) to 1.

    a is the mean distance to the other rows of its cluster, b the mean distance to the rows of the nearest other cluster, both in
    feature space; a row that is alone in its cluster has 0. Rousseeuw (1987).

    K: a Gram of rows with themselves, `kernel.gram(X)`, which is never held whole, or an array (n, n) of kernel values.

    >>> from mercer.kernels import Linear
    >>> silhouette(Linear().gram([[0.0], [1.0], [10.0], [11.0]]), [0, 0, 1, 1]).round(2)
    array([0.9 , 0.89, 0.89, 0.9 ])
    """
    K = GivenGram(np.asarray(K)) if not hasattr(K, "rows") else K
    n = K.shape[0]
    labels = np.asarray(labels)
    if K.shape != (n, n) or labels.shape != (n,):
        raise ValueError(
            f"expected a square Gram and one label a row, got {K.shape} and labels of shape {labels.shape}"
        )
    classes, codes = np.unique(labels, return_inverse=True)
    if not 2 <= len(classes) <= n - 1:
        raise ValueError(f"silhouettes need between 2 and {n - 1} clusters, found {len(classes)}")
    members = np.zeros((n, len(classes)))
    members[np.arange(n), codes] = 1.0
    own = K.diag().astype(np.float64)
    parts = map_tiles(
        lambda i: _of_rows(K, own, members, np.arange(i * _ROWS, min((i + 1) * _ROWS, n))), -(-n // _ROWS)
    )
    return np.concatenate(parts)


def _of_rows(K, own, members, index):
    squares = own[index, None] + own - 2.0 * K.rows(index)
    sums = np.sqrt(np.maximum(squares, 0.0)) @ members
    count, mine = members.sum(axis=0), members[index] > 0
    size = count[mine.argmax(axis=1)]
    a = sums[mine] / np.maximum(size - 1, 1)
    b = np.where(mine, np.inf, sums / count).min(axis=1)
    top = np.maximum(a, b)
    return np.where(size > 1, np.divide(b - a, top, out=np.zeros(len(a)), where=top > 0), 0.0)

"""Sparse count matrices over a vocabulary shared by two sides."""

import numpy as np
import scipy.sparse as sp

__all__ = ["count_matrix", "feature_names", "projected"]


def count_matrix(counts, vocabulary=None):
    """(CSR matrix over the vocabulary, squared norms over all features, vocabulary) of a list of dicts.

    Features outside a given vocabulary cannot meet the other side, so they are left out of the matrix; they still count in
    the norms, on which the diagonal and the normalisation rest.
    """
    if vocabulary is None:
        seen = dict.fromkeys(f for c in counts for f in c)
        vocabulary = {f: j for j, f in enumerate(seen)}
    rows = [[(vocabulary[f], v) for f, v in c.items() if f in vocabulary] for c in counts]
    indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    indices = np.array([j for r in rows for j, _ in r], dtype=np.int32)
    data = np.array([v for r in rows for _, v in r], dtype=np.float64)
    matrix = sp.csr_array((data, indices, indptr), shape=(len(counts), max(len(vocabulary), 1)))
    matrix.sort_indices()
    norms = np.array([sum(float(v) ** 2 for v in c.values()) for c in counts])
    return matrix, norms, vocabulary


def projected(matrix, places, width):
    """The matrix with column j moved to places[j], and left out where that is -1."""
    kept = np.flatnonzero(places >= 0)
    chosen = matrix if len(kept) == matrix.shape[1] else matrix[:, kept]
    out = sp.csr_array((chosen.data, places[kept][chosen.indices], chosen.indptr), (matrix.shape[0], max(width, 1)))
    out.sort_indices()
    return out


def feature_names(vocabulary, columns) -> list:
    """The features that stand in some columns: those of a dict, or what the vocabulary itself names."""
    if hasattr(vocabulary, "names"):
        return vocabulary.names(columns)
    at = {j: feature for feature, j in vocabulary.items()}
    return [at[j] for j in map(int, columns)]

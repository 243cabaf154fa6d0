r"""Principal components in feature space: eigenvectors of the centred Gram matrix (M11, X6).

With :math:`H K H = V \Lambda V^T` the directions are :math:`v_j = \sum_i A_{ij} \varphi(x_i)`, :math:`A = V \Lambda^{-1/2}`. The
columns of A add up to 0, so that the projection of a new row is :math:`k(x)^T A - \bar k^T A`, :math:`\bar k` the means of the
training Gram: an expansion with an intercept, and nothing else has to be centred. Schölkopf, Smola & Müller (1998).
"""

from dataclasses import dataclass

import numpy as np

from mercer.gram import GivenGram
from mercer.linalg import Status, top_eigenpairs
from mercer.linalg.waiting import run_interruptibly, seconds_for_eigh
from mercer.threads import one_thread_blas

__all__ = ["Components", "components_of_gram", "components_of_moments"]


_GUESS = 128  # rows whose directions are a first guess


@dataclass(frozen=True, eq=False)
class Components:
    """Directions of largest variance, largest first.

    values (k,): eigenvalues of the centred Gram; coefficients (n, k): of the unit directions on the rows; intercept (k,);
    mean_norm: squared length of the mean; total: trace of the centred Gram.
    """

    values: np.ndarray
    coefficients: np.ndarray
    intercept: np.ndarray
    mean_norm: float
    total: float
    status: Status
    certificate: float
    iterations: int


def components_of_gram(
    centred, k: int, *, rng, tol: float, max_iter: int | None = None, dense: bool = False
) -> Components:
    """The first k components of the rows of a centred Gram, of which only products with it are asked for.

    dense: by a complete decomposition of the centred matrix, which is needed for most of the components.
    """
    K, n = centred.base, centred.shape[0]
    if dense or 4 * k > n:
        values, vectors = _all_pairs(centred)
        status, certificate, iterations = Status.CONVERGED, 0.0, 1
    else:
        pairs = top_eigenpairs(centred, k, rng=rng, tol=tol, max_iter=max_iter or 200, start=_first_guess(K, k, rng))
        values, vectors, status = pairs.values, pairs.vectors, pairs.status
        certificate, iterations = float(pairs.residuals.max()), pairs.iterations
    kept = positive(values, n, K.dtype)[:k]
    A = vectors[:, : len(kept)] / np.sqrt(kept)
    A -= A.mean(axis=0)  # directions of the centred rows, whatever rounding says
    means = centred.column_means
    return Components(kept, A.astype(K.dtype), -(means @ A), centred.mean, centred.trace(),
                      status, certificate, iterations)  # fmt: skip


def _first_guess(K, k, rng):
    """Directions of some rows alone, extended to all: it saves applications. None where rows of the Gram cost as much."""
    n, s = K.shape[0], max(_GUESS, 4 * k)
    if not isinstance(K, GivenGram) or n < 4 * s:
        return None
    some = np.sort(rng.choice(n, s, replace=False))
    B = K.rows(some).T
    B = B - B.mean(axis=0)
    with one_thread_blas():
        _, U = np.linalg.eigh(_symmetric(B[some]))
        return B @ U[:, ::-1][:, : 2 * k + 10]


def _symmetric(M):
    return (M + M.T) / 2


def components_of_moments(S: np.ndarray, s: np.ndarray, n: float, k: int, trace: float, back) -> Components:
    """The first k components of n rows with explicit features: S (M, M) = sum of phi phi^T, s (M,) = sum of phi.

    trace: sum of k(x, x). back(U): coefficients on the landmarks of directions U (M, k) of the features.
    """
    mean = s / n
    values, vectors = _decomposed(S - n * np.outer(mean, mean))
    kept = positive(values, len(values), S.dtype)[:k]
    U = _signed(vectors[:, : len(kept)])
    norm = float(mean @ mean)
    return Components(kept, back(U), -(mean @ U), norm, trace - n * norm, Status.CONVERGED, 0.0, 1)


def positive(values, n, dtype) -> np.ndarray:
    """The leading eigenvalues (descending) that rounding cannot explain."""
    floor = max(values[0], 0.0) * n * np.finfo(dtype).eps
    return values[: int((values > floor).sum())].astype(np.float64)


def _all_pairs(centred):
    values, vectors = _decomposed(centred.dense())
    return values, _signed(vectors)


def _decomposed(C):
    """All eigenpairs of a symmetric matrix, largest first."""
    values, vectors = run_interruptibly(np.linalg.eigh, C, seconds_predicted=seconds_for_eigh(len(C)))
    return values[::-1], vectors[:, ::-1]


def _signed(vectors):
    """The same directions, the largest component of each positive."""
    peaks = np.abs(vectors).argmax(axis=0)
    return vectors * np.sign(vectors[peaks, range(len(peaks))])

"""Eigenpairs of a symmetric operator of which only A @ V is known."""

import numpy as np

from mercer.linalg.records import Eigenpairs, Status
from mercer.linalg.waiting import run_interruptibly, seconds_for_eigh
from mercer.threads import one_thread_blas

__all__ = ["power_eigenpairs", "smallest_eigenvalue", "top_eigenpairs"]

DENSE = 500  # up to here A @ I is cheaper than an iteration
_WIDTH = 16  # columns of a block are a multiple of this, for which products are quick


def top_eigenpairs(
    A,
    k: int,
    *,
    rng: np.random.Generator,
    tol: float = 1e-6,
    oversample: int = 5,
    max_iter: int = 200,
    max_basis: int | None = None,
    dtype=None,
    start: np.ndarray | None = None,
) -> Eigenpairs:
    r"""The k largest (algebraic) eigenvalues and their vectors, until each has

    .. math:: \lVert A v - \lambda v\rVert \le \text{tol}\,|\lambda_1|.

    Thick-restart block Lanczos with full reorthogonalisation: a Krylov space of blocks of k + `oversample` or more columns, since
    one application to a block costs little more than to a vector, and copies of a multiple eigenvalue are found together. For
    n <= 500 or k > n / 4 the matrix A @ I is formed and decomposed. Residuals are those of the products that were made, not of
    the recurrence.

    max_iter: applications of A to a block. max_basis: columns of the basis, by default 6 blocks and at least 60. start (n, s):
    columns whose span is thought to be near the vectors, the best first.

    >>> pairs = top_eigenpairs(np.diag(np.arange(4.0)), 2, rng=np.random.default_rng(0))
    >>> pairs.values.round(12), pairs.vectors[:, 0].round(12)
    (array([3., 2.]), array([0., 0., 0., 1.]))

    Musco & Musco (2015) for the block size; Stewart (2001) for the restart.
    """
    n = A.shape[0]
    if not 1 <= k <= n:
        raise ValueError(f"expected 1 <= k <= {n}, got {k}")
    dtype = np.result_type(dtype or getattr(A, "dtype", None) or np.float64, np.float32)
    if n <= DENSE or 4 * k > n:
        vectors, images = _dense_vectors(A, k, dtype)
        iterations, converged = 1, True
    else:
        vectors, images, iterations, converged = _block_lanczos(
            A, k, rng, tol, _WIDTH * -(-(k + oversample) // _WIDTH), max_iter, max_basis, dtype, start
        )
    return _certified(images, vectors, iterations, tol, converged)


def power_eigenpairs(A, k: int, *, rng: np.random.Generator, tol: float = 1e-6, max_iter: int = 1000) -> Eigenpairs:
    r"""Power method with peeling, the textbook reference for positive semi-definite A.

    .. math:: v \leftarrow w / \lVert w\rVert, \qquad w = (A - \sum_i \lambda_i v_i v_i^T) v

    >>> power_eigenpairs(np.diag([1.0, 4.0]), 1, rng=np.random.default_rng(0)).values.round(6)
    array([4.])
    """
    n = A.shape[0]
    values, vectors, iterations, converged = np.zeros(k), np.zeros((n, k)), 0, True
    for i in range(k):
        v, residual, countdown = rng.standard_normal(n), np.inf, max_iter
        while (
            residual > 0.1 * tol * max(abs(values[0]), np.finfo(float).tiny) and countdown
        ):  # errors of peeling add up
            v = v / np.linalg.norm(v)
            w = A @ v - vectors @ (values * (vectors.T @ v))
            values[i], previous = v @ w, v
            residual, v, countdown = float(np.linalg.norm(w - values[i] * v)), w if w.any() else v, countdown - 1
        vectors[:, i] = previous
        iterations += max_iter - countdown
        converged &= countdown > 0
    return _certified(np.asarray(A @ vectors), vectors, iterations + 1, tol, converged)


def smallest_eigenvalue(
    A, rng: np.random.Generator, *, tol: float = 1e-6, max_iter: int = 100
) -> tuple[float, np.ndarray]:
    """Estimate of the smallest (algebraic) eigenvalue, and its vector: the top one of c I - A with c near the largest of A.

    The estimate is a Rayleigh quotient, so it is never below the truth.

    >>> value, vector = smallest_eigenvalue(np.diag([2.0, -1.0]), np.random.default_rng(0))
    >>> round(value, 12), vector.round(12)
    (-1.0, array([0., 1.]))
    """
    # The shift makes the tolerance relative to the norm of A; relative to an eigenvalue near 0 it would never be met.
    largest = top_eigenpairs(A, 1, rng=rng, tol=1e-2, max_iter=max_iter).values[0]
    pairs = top_eigenpairs(_Reflected(A, float(largest)), 1, rng=rng, tol=tol, max_iter=max_iter)
    vector = pairs.vectors[:, 0]
    return float(vector @ (A @ vector)), vector


class _Reflected:
    """c I - A."""

    def __init__(self, A, c):
        self.A, self.c, self.shape, self.dtype = A, c, A.shape, getattr(A, "dtype", np.dtype(float))

    def __matmul__(self, V):
        return self.c * V - self.A @ V


def _dense_vectors(A, k, dtype):
    n = A.shape[0]
    M = np.asarray(A @ np.eye(n, dtype=dtype))
    _, vectors = run_interruptibly(np.linalg.eigh, (M + M.T) / 2, seconds_predicted=seconds_for_eigh(n))
    vectors = vectors[:, : -k - 1 : -1]
    return vectors, M @ vectors


def _block_lanczos(A, k, rng, tol, width, max_iter, max_basis, dtype, start):
    """Ritz vectors and their images, applications, whether converged. Basis V, its images Y = A V, T = V^T Y;
    Y = V T + block @ C in the last block."""
    n = A.shape[0]
    width = min(width, n // 3)
    capacity = min(n - width, max(2 * width, max_basis or max(6 * width, 60)))
    V, Y = (np.empty((n, capacity), dtype=dtype, order="F") for _ in range(2))
    T, m = np.zeros((capacity, capacity)), 0
    first = rng.standard_normal((n, width))
    if start is not None:
        first[:, : min(width, start.shape[1])] = start[:, :width]
    with one_thread_blas():
        block = np.linalg.qr(first)[0].astype(dtype)
    values, S, applications, converged = np.empty(0), np.empty((0, 0)), 0, False
    while not converged and applications < max_iter:
        if m + width > capacity:  # thick restart: the best Ritz vectors become the start of the basis
            m = max(k, capacity - width - capacity // 3)
            for B in (V, Y):
                B[:, :m] = B[:, : len(S)] @ S[:, :m].astype(dtype)
            T[:m, :m] = np.diag(values[:m])
        last, m = slice(m, m + width), m + width
        V[:, last] = block
        Y[:, last] = W = np.asarray(A @ block)
        with one_thread_blas():  # others would go on waiting for work, in the way of the threads of the next product
            W, T[:m, last] = _orthogonalise(W, V[:, :m])
            T[last, :m] = T[:m, last].T
            values, S = _descending(T[:m, :m])
            block, C = _next_block(W, V[:, :m], np.abs(values).max(), rng)
        top = abs(values[0]) or 1.0
        converged = bool((np.linalg.norm(C @ S[last, :k] / top, axis=0) <= 0.5 * tol).all())
        applications += 1
    with one_thread_blas():
        vectors, images = (B[:, :m] @ S[:, :k].astype(dtype) for B in (V, Y))
    return vectors, images, applications, converged


def _descending(T):
    values, S = np.linalg.eigh(T)
    return values[::-1], S[:, ::-1]


def _orthogonalise(W, V):
    """W - V H orthogonal to V, and H; twice, because once leaves what cancellation makes visible (Parlett 1998, 6.9)."""
    H = V.T @ W
    W = W - V @ H
    G = V.T @ W
    return W - V @ G, H + G


def _next_block(W, V, norm, rng):
    """Orthonormal block, orthogonal to V, and C with W = block @ C.

    Where W has lost rank the Krylov space is exhausted; random columns go on, so that eigenvalues it cannot see are found.
    """
    square, U = np.linalg.eigh(np.asarray(W.T @ W, np.float64))
    size = np.sqrt(np.maximum(square, 0.0))
    lost = size <= 10 * np.sqrt(len(W)) * np.finfo(W.dtype).eps * norm
    C = np.where(lost, 0, size)[:, None] * U.T
    block = W @ (U / np.where(lost, 1.0, size)).astype(W.dtype)
    block[:, lost] = rng.standard_normal((len(W), int(lost.sum())))
    for _ in range(2):  # a small W is not orthogonal to V relative to its own size
        block, turn = _orthonormal(block - V @ (V.T @ block))
        C = turn @ C
    return block, C


def _orthonormal(B):
    """Orthonormal columns Q and R with B = Q R, by the Gram of the columns: twice, it is as good as reflections, and quicker."""
    try:
        L = np.linalg.cholesky(np.asarray(B.T @ B, np.float64))
    except np.linalg.LinAlgError:  # columns that depend on each other
        return np.linalg.qr(B)
    return B @ np.linalg.inv(L).T.astype(B.dtype), L.T


def _certified(images, vectors, iterations, tol, converged):
    """Eigenpairs with Rayleigh quotients and residuals of the images, descending, largest component positive."""
    values = np.einsum("ij,ij->j", vectors, images, dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    top = abs(values[order[0]]) or 1.0
    residuals = np.linalg.norm((images - vectors * values) / top, axis=0)[order]  # squares of 1e200 would overflow
    peaks = np.abs(vectors).argmax(axis=0)
    vectors = (vectors * np.sign(vectors[peaks, range(len(peaks))]))[:, order]
    if (residuals <= tol).all():
        status = Status.CONVERGED
    else:  # the iteration believed in its estimate, and rounding proved it wrong
        status = Status.STAGNATED if converged else Status.MAX_ITER
    return Eigenpairs(values[order], vectors, status, residuals, iterations)

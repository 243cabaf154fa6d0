"""Dense linear algebra on a device of torch's, in place and by blocks: what `cholesky` and `factor` do for arrays.

Blocks are views of one matrix and no second one is made, so that a GPU of 140 GB factors 80 GB. Between blocks an interrupt is
seen. torch is imported inside functions only.
"""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import NanError, NotPSDError, NotSymmetricError, NumericalWarning
from mercer.linalg.cholesky import _clip, _complaint, _report, ladder
from mercer.linalg.eigen import smallest_eigenvalue
from mercer.linalg.factor import Factor
from mercer.tensors import exact_products, is_tensor

__all__ = ["SharedMoments", "TensorFactor", "add_square", "diagonal_of", "safe_tensor_cholesky", "scale_both",
           "second_moments"]  # fmt: skip

BLOCK = 2048  # rows of a block: products of such blocks keep a GPU busy


def diagonal_of(K) -> np.ndarray:
    """The diagonal of an array or a tensor, as an array."""
    return K.diagonal().cpu().numpy() if is_tensor(K) else np.diagonal(K)


def scale_both(K, s):
    """S K S in place for a tensor K and numbers s (n,)."""
    import torch

    s = torch.as_tensor(s).to(K)
    K *= s[:, None]
    K *= s


def add_square(K, factor, U, weight):
    """factor K + weight U U^T in place, for a tensor K and an array U (n, k)."""
    import torch

    U = torch.as_tensor(U).to(K)
    with exact_products(K.device):
        K.addmm_(U, U.T, beta=factor, alpha=weight)


# ------------------------------------------------------------------------------------------------ the factor
def safe_tensor_cholesky(K, shift=0.0, overwrite=False, max_clip=5000, warn=True) -> "TensorFactor":
    """`safe_cholesky` of a square tensor: the same jitters, warnings and errors."""
    _check_symmetric(K)
    A = K if overwrite else K.clone()
    original = diagonal_of(A).copy()
    diagonal = original.astype(np.float64) + shift
    if not np.isfinite(diagonal).all():
        raise NanError("the shift of the diagonal holds NaN or infinity")
    try:
        factor = _climb(A, diagonal) or _clipped(A, diagonal, max_clip)
    except BaseException:  # also an interrupt: the caller's matrix must survive it
        _restore(A, original)
        raise
    if factor.jitter and warn:
        warnings.warn(_report(factor), NumericalWarning, stacklevel=3)
    return factor


def _check_symmetric(K):
    gap = peak = 0.0
    for rows in _blocks(len(K)):
        part = K[rows]
        peak = max(peak, float(part.abs().max()))
        if not np.isfinite(peak) or not bool(part.isfinite().all()):
            raise NanError("the matrix holds NaN or infinity; look for overflow or missing values in the data")
        gap = max(gap, float((part - K[:, rows].T).abs().max()))
    if gap > 100 * _eps(K) * peak:
        raise NotSymmetricError(
            f"max|K - K^T| is {gap:.3g} for entries up to {peak:.3g}; pass (K + K.T) / 2 if that is meant"
        )


def _climb(A, diagonal):
    for jitter in ladder(diagonal, _dtype(A)):
        _set_diagonal(A, diagonal + jitter)
        with exact_products(A.device):
            failed = _factorise(A)
        if not failed:
            return TensorFactor(A, diagonal, jitter)
        _restore(A, diagonal)
    return None


def _factorise(A):
    """Left-looking blocked Cholesky in the lower triangle; 0, or the row that failed."""
    import torch

    for some in _blocks(len(A)):
        left, corner, below = A[some, : some.start], A[some, some], A[some.stop :, some]
        L, failed = torch.linalg.cholesky_ex(corner - left @ left.T)
        if int(failed):
            return some.start + int(failed)
        corner.copy_(L.tril() + corner.triu(1))
        if len(below):
            below.addmm_(A[some.stop :, : some.start], left.T, alpha=-1.0)
            below.copy_(torch.linalg.solve_triangular(L.T, below, upper=True, left=False))
    return 0


def _restore(A, diagonal):
    """The strict upper triangle, which nothing writes to, over the lower one."""
    for some in _blocks(len(A)):
        corner = A[some, some].triu(1)
        A[some, some] = corner + corner.T
        A[some.stop :, some] = A[some, some.stop :].T
    _set_diagonal(A, diagonal)


def _clipped(A, diagonal, max_clip):
    """By the host, which is quick for the few rows that are clipped at all."""
    import torch

    _restore(A, diagonal)
    if len(A) > max_clip:
        smallest = smallest_eigenvalue(_Products(A), np.random.default_rng(0))[0]
        raise NotPSDError(_complaint(_dtype(A), diagonal, smallest))
    found = _clip(A.cpu().numpy().copy(), diagonal, max_clip)
    A.copy_(torch.from_numpy(found.array))
    return TensorFactor(A, diagonal, found.jitter, "eigen")


class _Products:
    """A tensor as something that arrays are multiplied with."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, tuple(A.shape), _dtype(A)

    def __matmul__(self, V):
        with _at(self.A, V) as T:
            return (self.A @ T).cpu().numpy()


@dataclass(frozen=True, eq=False)
class TensorFactor(Factor):
    """L L^T = K + jitter I on a device. Right-hand sides come and answers go as arrays; `inverse` stays there."""

    array: Any

    @property
    def dtype(self):
        return _dtype(self.array)

    def logdet(self):
        return float(2 * self.array.diagonal().double().log().sum())

    def diag_inverse(self):
        out = np.empty(self.n, _dtype(self.array))
        with exact_products(self.array.device):
            for some in _blocks(self.n):
                # Column j of L^-1 is zero above row j.
                panel = self.array.new_zeros((self.n - some.start, some.stop - some.start))
                panel.fill_diagonal_(1.0)
                _substitute(self.array[some.start :, some.start :], panel, False)
                out[some] = panel.double().square_().sum(0).cpu().numpy()
        return out

    def inverse(self, overwrite=False):
        C = self.array if overwrite else self.array.clone()
        with exact_products(C.device):
            _invert_triangle(C)
            _square_triangle(C)
        _mirror(C)
        return C

    def multiply(self, B):
        B = self._right_hand_side(B)
        with _at(self.array, B.reshape(self.n, -1)) as T:
            return _multiply_upper(self.array, self.diagonal, T).cpu().numpy().reshape(B.shape)

    def _substitute(self, B, order):
        B = self._right_hand_side(B)
        with _at(self.array, B.reshape(self.n, -1)) as T:
            for trans in order:
                _substitute(self.array, T, trans)
            return T.cpu().numpy().reshape(B.shape)


# ------------------------------------------------------------------------------------------------ second moments
def second_moments(known: Any, parts, centred: bool):
    """sum of w phi phi^T, phi = L^-1 k, as a tensor; centred by their mean where asked for. parts: tensors k (s, n) and arrays w
    (s,), some rows at a time."""
    import torch

    L = known.array
    C, mean, total = L.new_zeros(L.shape), L.new_zeros(len(L)), 0.0
    with exact_products(L.device):
        for k, w in parts:
            phi, w = k.T.to(L.dtype).contiguous(), torch.as_tensor(w).to(L)
            _substitute(L, phi, False)
            mean += phi @ w
            total += float(w.sum())
            C.addmm_(phi * w, phi.T)
        return (C - mean[:, None] * (mean / total)) if centred else C


class SharedMoments:
    r"""R -> (weight / n L^T L + shift I)^-1 R where rows of the matrix itself stand for all, of which there are `weight`.

    With c = n shift / weight it is :math:`\tfrac{n}{w} L^{-1} (K + cI)^{-1} L`: the factor of K + c I is enough. It goes into
    the other triangle of the matrix that holds L (`matrix` of an engine leaves room for its diagonal), since two matrices of
    80 GB do not fit a GPU. Of K nothing is left then; `whole` says whether it is still there.
    """

    def __init__(self, known: Any, weight: float, shift: float, whole: bool):
        self.L, self.scale = known.array, weight / known.n
        self.factor = _factor_beside(known, shift / self.scale, whole)

    def solve(self, R):
        with _at(self.L, R) as T:
            T = _multiply_lower(self.L, T)
            _substitute(self.factor, T, False)
            _substitute(self.factor, T, True)
            _substitute(self.L, T, False)
            return T.cpu().numpy() / self.scale


def _factor_beside(known, shift, whole):
    """The factor of L L^T + shift I in the triangle above L. There, `whole`: K without its diagonal, else nothing of use."""
    L = known.array
    n, step = len(L), L.stride(0)
    other = L.as_strided((n, n), (1, step), L.storage_offset() + step - n)
    if whole:
        _move_triangle(L, other)
        _set_diagonal(other, known.diagonal + known.jitter + shift)
    else:
        with exact_products(L.device):
            _outer_triangle(L, other)
        other.diagonal().add_(shift)
    with exact_products(L.device):
        if _factorise(other):
            raise NotPSDError(
                f"the preconditioner is not positive definite with a shift of {shift:g}; use a larger alpha"
            )
    return other


def _move_triangle(A, out):
    """What stands strictly above the diagonal of A, mirrored, into the lower triangle of `out`, which is in the same memory."""
    for some in _blocks(len(A)):
        right = A[some, some.start :].clone()
        corner = right[:, : some.stop - some.start].T
        out[some, some] = corner.tril(-1) + out[some, some].triu(1)
        out[some.stop :, some] = right[:, some.stop - some.start :].T


def _outer_triangle(A, out):
    """The lower triangle of L L^T into that of `out`, L that of A."""
    for some in _blocks(len(A)):
        L = A[some, some].tril()
        left = A[some, : some.start]
        out[some, some] = (L @ L.T + left @ left.T).tril() + out[some, some].triu(1)
        below = A[some.stop :, : some.start] @ left.T
        below += A[some.stop :, some] @ L.T
        out[some.stop :, some] = below


def _substitute(A, B, trans):
    """L^-1 B or L^-T B in place, L the lower triangle of A."""
    import torch

    for some in reversed(_blocks(len(A))) if trans else _blocks(len(A)):
        done = A[some.stop :, some].T if trans else A[some, : some.start]
        if done.shape[1]:
            B[some].addmm_(done, B[some.stop :] if trans else B[: some.start], alpha=-1.0)
        L = A[some, some]
        B[some] = torch.linalg.solve_triangular(L.T if trans else L, B[some], upper=trans)


def _invert_triangle(A):
    """L^-1 in place of L, last columns first: below a block it is -(L^-1 of the rest) L (inverse of the block)."""
    import torch

    blocks = _blocks(len(A))
    for j, some in reversed(list(enumerate(blocks))):
        L = A[some, some].tril()
        own = torch.linalg.solve_triangular(L, torch.eye(len(L), dtype=A.dtype, device=A.device), upper=False)
        for rows in reversed(blocks[j + 1 :]):  # each needs only rows above it, which are still those of L
            part = A[rows, rows].tril() @ A[rows, some]
            part += A[rows, some.stop : rows.start] @ A[some.stop : rows.start, some]
            A[rows, some] = -part @ own
        A[some, some] = own


def _square_triangle(A):
    """The lower triangle of T^T T in the place of T, that of A."""
    for some in _blocks(len(A)):
        T, rest, before = A[some, some].tril(), A[some.stop :, some], slice(0, some.start)
        row, corner = T.T @ A[some, before], T.T @ T
        if len(rest):
            row += rest.T @ A[some.stop :, before]
            corner += rest.T @ rest
        A[some, before] = row
        A[some, some] = corner.tril() + A[some, some].triu(1)


def _mirror(A):
    for some in _blocks(len(A)):
        corner = A[some, some].tril()
        A[some, some] = corner + corner.tril(-1).T
        A[some, some.stop :] = A[some.stop :, some].T


def _multiply_lower(A, B):
    """L B, L the lower triangle of A."""
    out = B.new_empty(B.shape)
    for some in _blocks(len(A)):
        out[some] = A[some, some].tril() @ B[some]
        if some.start:
            out[some] += A[some, : some.start] @ B[: some.start]
    return out


def _multiply_upper(A, diagonal, B):
    """Product with the symmetric matrix that has this diagonal and the strict upper triangle of A."""
    import torch

    out = torch.as_tensor(diagonal).to(B)[:, None] * B
    for some in _blocks(len(A)):
        corner, right = A[some, some].triu(1), A[some, some.stop :]
        out[some] += corner @ B[some] + corner.T @ B[some]
        if right.shape[1]:
            out[some] += right @ B[some.stop :]
            out[some.stop :] += right.T @ B[some]
    return out


# ------------------------------------------------------------------------------------------------ small things
@contextmanager
def _at(A, B):
    """A copy of the array B beside the tensor A, while products are as exact as their precision."""
    import torch

    with exact_products(A.device):
        yield torch.tensor(np.ascontiguousarray(B), dtype=A.dtype, device=A.device)


def _blocks(n):
    return [slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK)]


def _set_diagonal(A, values):
    import torch

    A.diagonal().copy_(torch.as_tensor(values))


def _dtype(A):
    return np.dtype(np.float64 if A.element_size() == 8 else np.float32)


def _eps(A):
    return np.finfo(_dtype(A)).eps

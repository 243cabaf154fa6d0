"""One safe Cholesky: plain, then more and more jitter, then clipped eigenvalues, and an error that says why."""

import warnings

import numpy as np

from mercer.errors import NanError, NotPSDError, NotSymmetricError, NumericalWarning
from mercer.linalg.eigen import smallest_eigenvalue
from mercer.linalg.factor import Factor
from mercer.linalg.inplace import factor_block, solve_rows, subtract_product, subtract_square
from mercer.linalg.waiting import run_interruptibly, seconds_for_eigh
from mercer.tensors import is_tensor

__all__ = ["check_symmetric", "ladder", "safe_cholesky"]

JITTERS = {"d": [10.0**e for e in range(-10, -3)], "f": [10.0**e for e in range(-6, -2)]}  # times mean(diag)
ONE_CALL = 4000  # up to here one LAPACK call ends in a third of a second
BLOCK = 512
FLOPS_PER_CALL = 2e10  # about 0.2 s, so that Ctrl-C is seen
TILE = 128  # temporaries of a few such squares; also what the cache holds of both triangles


def safe_cholesky(
    K: np.ndarray,
    *,
    shift: float | np.ndarray = 0.0,
    overwrite: bool = False,
    max_clip: int = 5000,
    warn: bool = True,
    block: int | None = None,
) -> Factor:
    r"""Cholesky factor of a symmetric positive semi-definite matrix, with as little jitter as will do.

    .. math:: L L^T = K + \mathrm{diag}(\text{shift}) + \text{jitter}\, I

    Tried in turn: no jitter; 1e-10 ... 1e-4 times the mean of the diagonal (1e-6 ... 1e-3 in float32); for n <= `max_clip` the
    matrix with its eigenvalues raised to at least n eps lambda_1 (Higham 1988, the nearest such matrix). Whatever was added is
    in the record, and warned of.

    K: (n, n), symmetric. `overwrite` permits work inside K (which needs a writable contiguous float32 or float64 array, C- or
    Fortran-ordered; others are copied); then no second n x n buffer exists, and on an error K is as it was.
    shift: added to the diagonal first, () or (n,).
    A tensor of torch's is factored on its device; answers are the same.
    block: rows per step of the interruptible blocked algorithm; by default one LAPACK call up to n = 4000, then 512.

    >>> factor = safe_cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
    >>> factor.solve(np.array([8.0, 9.0])), factor.jitter
    (array([1.375, 1.25 ]), 0.0)
    """
    if is_tensor(K):
        from mercer.linalg.tensors import safe_tensor_cholesky

        return safe_tensor_cholesky(K, shift, overwrite, max_clip, warn)
    K = _square(K)
    check_symmetric(K)
    A = _workspace(K, overwrite)
    original = A.diagonal().copy()
    diagonal = original.astype(np.float64) + shift
    if not np.isfinite(diagonal).all():
        raise NanError("the shift of the diagonal holds NaN or infinity")
    try:
        factor = _climb(A, diagonal, block) or _clip(A, diagonal, max_clip)
    except BaseException:  # also an interrupt: the caller's matrix must survive it
        _restore(A, original)
        raise
    if factor.jitter and warn:
        warnings.warn(_report(factor), NumericalWarning, stacklevel=2)
    return factor


def check_symmetric(K: np.ndarray) -> None:
    """NanError or NotSymmetricError unless K is finite and max|K - K^T| <= 100 eps max|K|; temporaries of one tile."""
    gap = peak = 0.0
    for rows, columns in _tiles(len(K)):
        upper, lower = K[rows, columns], K[columns, rows]
        peak = np.max([peak, *np.abs([upper.max(), upper.min(), lower.max(), lower.min()])])  # max() would lose NaN
        if not np.isfinite(peak):
            raise NanError("the matrix holds NaN or infinity; look for overflow or missing values in the data")
        gap = max(gap, float(np.abs(upper - lower.T).max()))
    if gap > 100 * np.finfo(K.dtype).eps * peak:
        raise NotSymmetricError(
            f"max|K - K^T| is {gap:.3g} for entries up to {peak:.3g}; pass (K + K.T) / 2 if that is meant"
        )


def _square(K):
    K = np.asarray(K)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not K.size or K.dtype.kind not in "biuf":
        raise ValueError(f"expected a square matrix of real numbers, got shape {K.shape} of {K.dtype}")
    return K if K.dtype.char in "fd" else K.astype(np.float32 if K.dtype == np.float16 else np.float64)


def _workspace(K, overwrite):
    """C-ordered array to work in: K itself where that is permitted and possible; by symmetry K^T does as well."""
    A = K.T if K.flags.f_contiguous else K
    usable = A.flags.c_contiguous and A.flags.writeable and A.dtype.isnative
    return A if overwrite and usable else np.array(A, dtype=A.dtype.newbyteorder("="), order="C")


def _climb(A, diagonal, block):
    """Factor with the smallest jitter of the ladder that works, or None with A restored."""
    for jitter in ladder(diagonal, A.dtype):
        np.fill_diagonal(A, diagonal + jitter)
        if not _factorise(A, block):
            return Factor(A, diagonal, jitter)
        _restore(A, diagonal)
    return None


def ladder(diagonal, dtype) -> list[float]:
    """Jitters to try, the least first; those with which the diagonal has an entry <= 0 need no trial."""
    mean = max(diagonal.mean(), 0.0)
    steps = [0.0] + [step * mean for step in JITTERS[dtype.char]]
    return [jitter for jitter in steps if diagonal.min() + jitter > 0]


def _factorise(A, block=None):
    """Left-looking blocked Cholesky in the lower triangle of A; 0, or the row that failed. Golub & Van Loan (2013), 4.2.9."""
    n = len(A)
    if block is None and n <= ONE_CALL:
        return factor_block(A)
    block = block or BLOCK
    for start in range(0, n, block):
        stop = min(start + block, n)
        left, corner = A[start:stop, :start], A[start:stop, start:stop]
        subtract_square(left, corner)
        failed = factor_block(corner)
        if failed:
            return start + failed
        for rows in _steps(stop, n, max(1, int(FLOPS_PER_CALL / (2 * block * stop)))):
            subtract_product(A[rows, :start], left, A[rows, start:stop])
            solve_rows(corner, A[rows, start:stop])
    return 0


def _restore(A, diagonal):
    """Copy the strict upper triangle, which Cholesky never writes, over the lower one; so a failed attempt needs no copy of K."""
    for rows, columns in _tiles(len(A)):
        if rows == columns:
            corner = np.triu(A[rows, rows], 1)
            A[rows, rows] = corner + corner.T
        else:
            A[columns, rows] = A[rows, columns].T
    np.fill_diagonal(A, diagonal)


def _clip(A, diagonal, max_clip):
    """Factor of the matrix with its eigenvalues raised to n eps lambda_1, triangular again by QR of its square root."""
    n = len(A)
    _restore(A, diagonal)  # with the shift, even where no attempt was made
    if n > max_clip:
        raise NotPSDError(_complaint(A.dtype, diagonal, smallest_eigenvalue(A, np.random.default_rng(0))[0]))
    values, Q = run_interruptibly(np.linalg.eigh, A, seconds_predicted=seconds_for_eigh(n))
    if values[-1] <= 0:
        raise NotPSDError(_complaint(A.dtype, diagonal, values[0]))
    clipped = np.maximum(values, n * np.finfo(A.dtype).eps * values[-1])
    Q *= np.sqrt(clipped)  # Q Q^T is now the clipped matrix, and R^T R = Q Q^T
    R = run_interruptibly(np.linalg.qr, Q.T, mode="r", seconds_predicted=seconds_for_eigh(n) / 6)
    R *= np.where(R.diagonal() < 0, -1, 1)[:, None].astype(R.dtype)
    for rows, columns in _tiles(n):
        A[columns, rows] = (
            R[rows, columns].T if rows != columns else np.triu(R[rows, rows]).T + np.triu(A[rows, rows], 1)
        )
    return Factor(A, diagonal, float((clipped - values).max()), "eigen")


def _steps(start, stop, size):
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]


def _tiles(n):
    """Pairs of slices that cover the upper triangle, diagonal tiles included."""
    steps = _steps(0, n, TILE)
    return ((rows, columns) for i, rows in enumerate(steps) for columns in steps[i:])


def _report(factor):
    share = factor.jitter / factor.diagonal.mean()
    if factor.method == "eigen":
        raised = f"eigenvalues were raised by up to {factor.jitter:.3g} ({share:.1g} of the mean diagonal)"
        return "the matrix is not positive semi-definite: " + raised
    return (
        f"the matrix is numerically singular: {factor.jitter:.3g} was added to its diagonal ({share:.0e} of the mean); "
        + _usual_causes(factor.dtype)
    )


def _complaint(dtype, diagonal, smallest):
    what = f"smallest eigenvalue {smallest:.3g} with a mean diagonal of {diagonal.mean():.3g}; "
    if smallest < -np.sqrt(np.finfo(dtype).eps) * abs(diagonal.mean()):
        return what + "is the kernel positive semi-definite? clip or shift its spectrum, or add to the diagonal"
    return what + _usual_causes(dtype)


def _usual_causes(dtype):
    single = "; float32 has only 7 digits, try float64" if dtype == np.float32 else ""
    return "duplicate rows, or a lengthscale that is too long? add to the diagonal" + single

"""How functions are compiled, here and in the layers above. Files that import this one are named _compiled*.py."""

import warnings
from functools import cache

from numba import njit

# Full fastmath would assume that NaN and inf never occur and would cancel the rounding trick in exp. These three only allow
# fused multiply-add, division by a reciprocal and a free sign of zero.
ELEMENTWISE = {"contract", "arcp", "nsz"}


@cache
def _warn_uncached(reason):
    """Say once that every process will compile anew."""
    message = (
        f"mercer will compile for some seconds in each process: {reason}; set NUMBA_CACHE_DIR to a writable folder"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def compiled(function=None, *, fastmath=ELEMENTWISE):
    """`numba.njit` with these options; compiled code is kept on disk where Numba finds a writable place."""
    if function is None:
        return lambda f: compiled(f, fastmath=fastmath)
    options = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        _warn_uncached("Numba has no writable cache location")
        return njit(**options)(function)

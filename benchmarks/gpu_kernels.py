"""How many exponentials a second a GPU makes, by one kernel that does nothing else. Imported where there is Triton."""

import triton
import triton.language as tl

__all__ = ["exponentials"]

_BLOCK = 1024


@triton.jit
def _chain(X, turns, BLOCK: tl.constexpr):
    at = X + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(at)
    for _ in range(turns):
        x = tl.exp2(x)
    tl.store(at, x)


def exponentials(X, turns):
    """exp2 of each number of X, a multiple of 1024 of them, again and again in its place: a negative number stays finite."""
    _chain[(X.numel() // _BLOCK,)](X, turns, _BLOCK, num_warps=4)
    return X

"""The inner loop of `batch_smo` as one Triton kernel: each program solves the block of one problem. Imported when it is used."""

import triton
import triton.language as tl

__all__ = ["solve_blocks"]


def solve_blocks(K, beta, f, lower, upper, tol, tiny, limit):
    """As `batch_smo.solve_blocks`."""
    problems, q = beta.shape
    steps = tol.new_zeros(problems, dtype=beta.dtype)
    _solve[(problems,)](K, beta, f, lower, upper, tol, steps, tiny, limit, q, num_warps=4 if q <= 512 else 8)
    return steps


@triton.jit
def _solve(K, BETA, F, LOWER, UPPER, TOL, STEPS, tiny, limit, Q: tl.constexpr):
    problem = tl.program_id(0)
    k = tl.arange(0, Q)
    at = problem * Q + k
    K += problem.to(tl.int64) * Q * Q
    beta, f = tl.load(BETA + at), tl.load(F + at)
    lower, upper = tl.load(LOWER + at), tl.load(UPPER + at)
    diagonal = tl.load(K + k * Q + k).to(tl.float64)
    tol = tl.load(TOL + problem)
    steps = 0
    going = 1
    while going > 0:
        up = tl.where(beta < upper, f, float("inf"))
        down = tl.where(beta > lower, f, float("-inf"))
        low = tl.min(up, axis=0)
        i = tl.argmin(up, axis=0)
        going = ((tl.max(down, axis=0) - low > tol) & (steps < limit)).to(tl.int32)
        row = tl.load(K + i * Q + k).to(tl.float64)
        curve = tl.sum(tl.where(k == i, diagonal, 0.0), axis=0) + diagonal - 2.0 * row
        curve = tl.where(curve < tiny, tiny, curve)
        apart = f - low
        gain = tl.where((beta > lower) & (apart > 0.0), apart * apart / curve, -1.0)
        j = tl.argmax(gain, axis=0)
        length = tl.sum(tl.where(k == j, apart / curve, 0.0), axis=0)
        above = tl.sum(tl.where(k == i, upper - beta, 0.0), axis=0)
        below = tl.sum(tl.where(k == j, beta - lower, 0.0), axis=0)
        step = tl.minimum(length, tl.minimum(above, below))
        step = tl.where(going > 0, step, 0.0)
        other = tl.load(K + j * Q + k).to(tl.float64)
        # At a border a variable is exactly there.
        new = tl.where(k == i, tl.where(step >= above, upper, beta + step), beta)
        new = tl.where(k == j, tl.where(step >= below, lower, beta - step), new)
        beta = tl.where(going > 0, new, beta)
        f += step * (row - other)
        steps += going
    tl.store(BETA + at, beta)
    tl.store(STEPS + problem, steps)

"""Compiled loops of the dual box solver: pairs inside a working block, and updates of the gradient.

The rules of `mercer.engines._compiled` hold here too. A smallest or largest float is found through integers: the bits of a
float, with the sign made to order like an integer's and the last bits replaced by its place, are compared by SIMD, which
floats (that may be NaN) are not, and bring the place along. What is lost are the last bits of the comparison.
"""

import numpy as np
from numba import types
from numba.extending import overload

from mercer.engines._compiled import ELEMENTWISE, _bits, compiled

#: More variables than this do not fit beside the numbers that name them.
LARGEST_BLOCK = 4096
_OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": set(ELEMENTWISE)}


def _key(v, t, mask):
    """An integer that orders like the float v, with the place t in its last bits."""
    raise NotImplementedError("_key exists in compiled code only")


def _key_single(v, t, mask):
    b = _bits(v)
    ordered = np.int32(b ^ (np.int32(b >> np.int32(31)) & np.int32(0x7FFFFFFF)))
    return np.int32((ordered & np.int32(~mask)) | np.int32(t))


def _key_double(v, t, mask):
    b = _bits(v)
    ordered = b ^ ((b >> 63) & 0x7FFFFFFFFFFFFFFF)
    return (ordered & ~mask) | t


@overload(_key, jit_options=_OPTIONS)
def _choose_key(v, t, mask):
    return _key_single if v == types.float32 else _key_double


@compiled
def _refresh(t, beta, lower, upper, kink, up, down, never):
    """What must be added to the gradient for a step of variable t up or down: the slope of kink |beta|, or no step at all.

    With two parts a step stays in its part: in the first (row 0) beta >= 0, in the second beta <= 0.
    """
    b = beta[t]
    if up.shape[0] == 1:
        up[0, t] = never if b >= upper[t] else (kink if b >= 0.0 else -kink)
        down[0, t] = -never if b <= lower[t] else (kink if b > 0.0 else -kink)
        return
    zero = up.dtype.type(0)
    up[0, t] = zero if 0.0 <= b < upper[t] else never
    down[0, t] = zero if b > 0.0 else -never
    up[1, t] = zero if b < 0.0 else never
    down[1, t] = zero if lower[t] < b <= 0.0 else -never


@compiled
def _extremes(f, up, down, part, mask):
    """Places of the smallest slope upwards and of the largest slope downwards."""
    first = _key(f[0] + up[part, 0], 0, mask)
    last = _key(f[0] + down[part, 0], 0, mask)
    for t in range(1, f.size):
        a, b = _key(f[t] + up[part, t], t, mask), _key(f[t] + down[part, t], t, mask)
        first = a if a < first else first
        last = b if b > last else last
    return first & mask, last & mask


@compiled
def _partner(f, down, part, K, diagonal, i, top, tiny, mask):
    """Place of the variable whose step down with i up lowers the dual most: largest (slope difference)^2 / curvature."""
    zero, two = f.dtype.type(0), f.dtype.type(2)
    best = _key(zero, 0, mask)
    for t in range(f.size):
        b = f[t] + down[part, t] - top
        b = zero if b < zero else b
        eta = diagonal[i] + diagonal[t] - two * K[i, t]
        eta = tiny if eta < tiny else eta
        k = _key(b * b / eta, t, mask)
        best = k if k > best else best
    return best & mask


@compiled
def _advance(f, K, i, j, step):
    for t in range(f.size):
        f[t] += step * (K[i, t] - K[j, t])


@compiled
def _widest_part(f, up, down, mask):
    """(part, i, j, gap): the part with the largest violation, and the pair that violates most in it."""
    part, i, j, gap = 0, 0, 0, f.dtype.type(-1)
    for p in range(up.shape[0]):
        a, b = _extremes(f, up, down, p, mask)
        g = (f[b] + down[p, b]) - (f[a] + up[p, a])
        if g > gap:
            part, i, j, gap = p, a, b, g
    return part, i, j, gap


@compiled
def _step(beta, i, j, lower, upper, length):
    """Move beta_i up and beta_j down, at most to the next border; borders are hit exactly. Returns the length that was gone."""
    top = 0.0 if beta[i] < 0.0 else upper[i]
    bottom = 0.0 if beta[j] > 0.0 else lower[j]
    room_i, room_j = top - beta[i], beta[j] - bottom
    length = min(length, min(room_i, room_j))
    beta[i] = top if length >= room_i else beta[i] + length
    beta[j] = bottom if length >= room_j else beta[j] - length
    return length


@compiled
def solve_block(K, beta, f, lower, upper, kink, parts, tol, tiny, max_iter):
    """Minimise the dual over one block of variables, pair by pair, until slopes differ by less than tol.

    K real (q, q), q <= LARGEST_BLOCK; beta, lower, upper float64 (q,); f real (q,), the gradient without the kink, of which a
    common number may have been taken; beta and f are changed. `tiny`: smallest curvature of a pair. Returns the number of
    steps. Fan, Chen & Lin (2005), algorithm 2.
    """
    q, real = f.size, f.dtype.type
    mask = 1
    while mask < q:
        mask *= 2
    mask -= 1
    up, down, diagonal = np.empty((parts, q), f.dtype), np.empty((parts, q), f.dtype), np.empty(q, f.dtype)
    never, width = real(1e30), real(kink)
    for t in range(q):
        _refresh(t, beta, lower, upper, width, up, down, never)
        diagonal[t] = K[t, t]
    for iteration in range(max_iter):
        part, i, j, gap = _widest_part(f, up, down, mask)
        if not gap > tol:
            return iteration
        top = f[i] + up[part, i]
        j = _partner(f, down, part, K, diagonal, i, top, real(tiny), mask)
        difference = np.float64(f[j] + down[part, j]) - np.float64(top)
        eta = max(np.float64(diagonal[i]) + np.float64(diagonal[j]) - 2.0 * np.float64(K[i, j]), np.float64(tiny))
        if not difference > 0.0:
            return iteration
        length = _step(beta, i, j, lower, upper, difference / eta)
        _advance(f, K, i, j, real(length))
        _refresh(i, beta, lower, upper, width, up, down, never)
        _refresh(j, beta, lower, upper, width, up, down, never)
    return max_iter


@compiled
def add_rows(g, rows, slots, coefficients, start, stop):
    """g[start:stop] += sum of coefficients[k] rows[slots[k], start:stop], four rows at a time; sums in float64."""
    n = slots.size
    for first in range(start, stop, 2048):  # a piece of g stays in the cache while all rows pass
        last = min(first + 2048, stop)
        for k in range(0, n - 3, 4):
            a, b, c, d = coefficients[k], coefficients[k + 1], coefficients[k + 2], coefficients[k + 3]
            p, q, r, s = slots[k], slots[k + 1], slots[k + 2], slots[k + 3]
            for j in range(first, last):
                g[j] += (a * rows[p, j] + b * rows[q, j]) + (c * rows[r, j] + d * rows[s, j])
        for k in range(n - n % 4, n):
            a, p = coefficients[k], slots[k]
            for j in range(first, last):
                g[j] += a * rows[p, j]


@compiled
def slopes(g, beta, lower, upper, kink, parts, n, up, down):
    """Slopes up and down (parts, n) of the first n variables; +-inf where no step is possible."""
    for t in range(n):
        _refresh(t, beta, lower, upper, kink, up, down, np.inf)
    for p in range(parts):
        for t in range(n):
            up[p, t] += g[t]
            down[p, t] += g[t]


@compiled
def permute_rows(rows, slots, order):
    """rows[s] = rows[s][order] for the given rows."""
    copy = np.empty(rows.shape[1], rows.dtype)
    for k in range(slots.size):
        s = slots[k]
        for t in range(copy.size):
            copy[t] = rows[s, t]
        for t in range(copy.size):
            rows[s, t] = copy[order[t]]


@compiled
def gather(buffer, slots, chosen, columns, out):
    """out[k] = buffer[slots[k], columns] for the chosen k."""
    for c in range(chosen.size):
        k = chosen[c]
        s = slots[k]
        for t in range(columns.size):
            out[k, t] = buffer[s, columns[t]]

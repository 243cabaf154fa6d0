"""Compiled tables of pairs of series: alignments, warping and signatures.

`advance` goes through the pairs of a block, row by row of each pair's table, and returns after so many cells: where it stopped
is in `place`, the last row of the table in the buffers, so that it can go on. One row is held, as long as the shorter series.
A pair has an order of its own, in which its table is made: k(x, y) and k(y, x) are the same number.

Alignments and warping have lines (d + 4, columns + 9): the steps of the shorter series by column, and four rows of the table;
the last eight columns fill up vectors.
"""

import math

import numpy as np

from mercer.kernels._compiled import compiled

ALIGNMENT, WARPING, SIGNATURE, TRUNCATED = range(4)

_STEP = 512.0 * math.log(2.0)  # numbers of alignments are m * exp(e * _STEP), with m between 2^-256 and 2^256
_DOWN, _UP, _LOW, _HIGH = 2.0**-512, 2.0**512, 2.0**-256, 2.0**256
_NONE = -(2**60)  # the exponent of 0
_GROUP = 32  # columns that are summed at once where they have one exponent

# Line numbers after the steps: squared distances, local kernels, sums to be, sums.
_SQUARES, _LOCAL, _NEXT, _SUMS = range(4)

# exp(-s) = 2^(-k / 8) e^r with |r| <= log(2) / 16, in a form that vectorises: Numba calls libm for math.exp, a number at a time.
_FAR = 350.0  # s beyond which a local kernel has an exponent of its own
_POWERS = 2.0 ** (-np.arange(8 * 512) / 8.0)
_RATE = 8.0 / math.log(2.0)
_C3, _C4, _C5, _C6, _C7, _C8 = 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0
_EIGHTH, _REST = 0.08664339734241366, 2.2757949981301828e-10  # log(2) / 8; k times the first part is exact


@compiled
def _later(x, y):
    """Whether y comes before x: the longer one first, of equally long ones the one with the larger first difference."""
    if len(x) != len(y):
        return len(x) < len(y)
    for i in range(len(x)):
        for c in range(x.shape[1]):
            if x[i, c] != y[i, c]:
                return x[i, c] < y[i, c]
    return False


@compiled
def _squared(x, i, y, j):
    total = 0.0
    for c in range(x.shape[1]):
        u = x[i, c] - y[j, c]
        total += u * u
    return total


@compiled
def _squares(x, i, lines, lo, end):
    """Squared distances of step i of x and the steps lo ... end of y, counted from 1, four at a time."""
    d = x.shape[1]
    squares = lines[d + _SQUARES]
    for j in range(lo, end, 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for c in range(d):
            at = x[i, c]
            u0, u1, u2, u3 = at - lines[c, j], at - lines[c, j + 1], at - lines[c, j + 2], at - lines[c, j + 3]
            s0, s1, s2, s3 = s0 + u0 * u0, s1 + u1 * u1, s2 + u2 * u2, s3 + u3 * u3
        squares[j], squares[j + 1], squares[j + 2], squares[j + 3] = s0, s1, s2, s3


@compiled
def _whole(lo, hi):
    """The end of whole vectors of columns from lo on that hold hi."""
    return lo + (hi - lo + 8) // 8 * 8 - 1


# ------------------------------------------------------------------------------------------ alignments
@compiled
def _alignment_row(x, n, i, band, lines, e):
    """Row i of the sums over alignments, in place of row i - 1. Column 0 stands for nothing aligned yet."""
    d = x.shape[1]
    m, local = lines[d + _SUMS], lines[d + _LOCAL]
    lo, hi = (1, n) if band == 0 else (max(1, i + 2 - band), min(n, i + band))
    if lo > n:
        m[n], e[n] = 0.0, _NONE
        return
    end = _whole(lo, hi)
    _squares(x, i, lines, lo, end)
    _local_kernels(lines[d + _SQUARES], local, i, lo, end, band)
    dm, de = m[lo - 1], e[lo - 1]
    m[lo - 1], e[lo - 1] = 0.0, _NONE
    for start in range(lo, hi + 1, _GROUP):
        stop = min(start + _GROUP, hi + 1)
        last, exponent = m[stop - 1], e[stop - 1]
        if not _plain_sums(m, e, local, lines[d + _NEXT], dm, de, start, stop):
            _scaled_sums(m, e, lines[d + _SQUARES], i, band, dm, de, start, stop)
        dm, de = last, exponent


@compiled
def _local_kernels(squares, local, i, lo, end, band):
    """g / (2 - g), g = weight * exp(-s): what keeps sums over alignments PSD. 0 for pairs too far for one number."""
    for j in range(lo, end + 1):
        s = min(0.5 * squares[j], _FAR)
        k = np.int64(s * _RATE + 0.5)
        r = (k * _EIGHTH - s) + k * _REST
        p = (((_C8 * r + _C7) * r + _C6) * r + _C5) * r + _C4
        p = (((p * r + _C3) * r + 0.5) * r + 1.0) * r + 1.0
        g = _weight(i - j + 1, band) * _POWERS[k] * p
        local[j] = g / (2.0 - g) if s < _FAR else 0.0


@compiled
def _weight(lag, band):
    return 1.0 if band == 0 else 1.0 - abs(lag) / band


@compiled
def _plain_sums(m, e, local, new, dm, de, start, stop):
    """Sums of some columns as plain numbers, if they and all that they come from have one exponent; whether they have."""
    top, left = e[start], m[start - 1]
    others = int(dm != 0.0 and de != top) + int(left != 0.0 and e[start - 1] != top)
    for j in range(start, stop):
        um = m[j]
        left = left * local[j] + (um + dm) * local[j]  # one operation waits for the sum on the left
        new[j], dm = left, um
        others += int(e[j] != top) + int(left < _LOW) + int(left > _HIGH)
    if others:
        return False
    m[start:stop] = new[start:stop]
    return True


@compiled
def _shifted(m, down):
    return m if down == 0 else (m * _DOWN if down == 1 else 0.0)


@compiled
def _scaled_sums(m, e, squares, i, band, dm, de, start, stop):
    """The same with an exponent for each column."""
    for j in range(start, stop):
        um, ue, lm, le = m[j], e[j], m[j - 1], e[j - 1]
        top = max(ue, le, de)
        total = _shifted(um, top - ue) + _shifted(lm, top - le) + _shifted(dm, top - de)
        dm, de = um, ue
        m[j], e[j] = _scaled(total, top, 0.5 * squares[j], _weight(i - j + 1, band))


@compiled
def _scaled(total, top, s, weight):
    """A sum times the local kernel of s and the weight, as a number and its exponent."""
    if total == 0.0:
        return 0.0, _NONE
    down = 0
    if s >= _STEP:
        down = int(min(s / _STEP, 1e9))
        s -= down * _STEP
    g = weight * math.exp(-s)
    value = total * (g / (2.0 - g) if down == 0 else 0.5 * g)
    top -= down
    if value == 0.0:
        return 0.0, _NONE
    if value < _LOW:
        return value * _UP, top - 1
    if value > _HIGH:
        return value * _DOWN, top + 1
    return value, top


# ------------------------------------------------------------------------------------------ warping
@compiled
def _warping_row(x, n, i, band, lines):
    """Row i of the least sums of squared distances, in place of row i - 1."""
    m, squares = lines[x.shape[1] + _SUMS], lines[x.shape[1] + _SQUARES]
    lo, hi = (1, n) if band == 0 else (max(1, i + 1 - band), min(n, i + 1 + band))
    if lo > n:
        m[n] = math.inf
        return
    _squares(x, i, lines, lo, _whole(lo, hi))
    left, diagonal = math.inf, m[lo - 1]
    m[lo - 1] = math.inf
    for j in range(lo, hi + 1):
        up = m[j]
        left = min(left, min(up, diagonal)) + squares[j]
        m[j], diagonal = left, up


@compiled
def warping_path(x, y, band):
    """Pairs of steps on the cheapest alignment, from the first to the last; none if the band forbids all."""
    n, m = len(x), len(y)
    cost = np.full((n + 1, m + 1), math.inf)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if band == 0 or abs(i - j) <= band:
                best = min(cost[i - 1, j - 1], cost[i - 1, j], cost[i, j - 1])
                cost[i, j] = best + _squared(x, i - 1, y, j - 1)
    path = np.empty((n + m, 2), np.int64)
    k, i, j = 0, n, m
    if cost[n, m] == math.inf:
        return path[:0]
    while i > 0 and j > 0:
        path[k, 0], path[k, 1] = i - 1, j - 1
        k += 1
        best = min(cost[i - 1, j - 1], cost[i - 1, j], cost[i, j - 1])
        if cost[i - 1, j - 1] == best:
            i, j = i - 1, j - 1
        elif cost[i - 1, j] == best:
            i -= 1
        else:
            j -= 1
    return path[:k][::-1].copy()


# ------------------------------------------------------------------------------------------ signatures
@compiled
def _across(x, i, y, j):
    """How the Gaussian with step j of y changes as x makes its move i."""
    return math.exp(-0.5 * _squared(x, i + 1, y, j)) - math.exp(-0.5 * _squared(x, i, y, j))


@compiled
def _inner(x, i, y, j):
    """Inner product of move i of x and move j of y."""
    total = 0.0
    for c in range(x.shape[1]):
        total += (x[i + 1, c] - x[i, c]) * (y[j + 1, c] - y[j, c])
    return total


@compiled
def largest_row(x, y, start, stop, gaussian, columns):
    """Largest sum of |c| over a row of cells, for some rows; `columns` gathers the sums over columns."""
    largest = 0.0
    for i in range(start, stop):
        before = _across(x, i, y, 0) if gaussian else 0.0
        total = 0.0
        for j in range(len(y) - 1):
            if gaussian:
                after = _across(x, i, y, j + 1)
                c, before = abs(after - before), after
            else:
                c = abs(_inner(x, i, y, j))
            total += c
            columns[j] += c
        largest = max(largest, total)
    return largest


@compiled
def _coupling(x, i, y, j, gaussian, before):
    """Of step i of x and step j of y, and what the next step of y starts from."""
    if not gaussian:
        return _inner(x, i, y, j), before
    after = _across(x, i, y, j + 1)
    return after - before, after


@compiled
def _signature_row(x, y, row, cuts, gaussian, factorials, f, new, state):
    """One step of x through all steps of y, each divided into `cuts`: du/(ds dt) = c u in every cell.

    u is a power series, in each cell fixed by u along two of its edges: c^min(i, j) times a coefficient of an edge. `f` holds
    its derivatives along the step of x, `state[j]` those along step j of y; both are moved to the far edges.
    """
    i, share = row // cuts[0], 1.0 / (cuts[0] * cuts[1])
    f[:] = 0.0
    f[0] = 1.0
    before = _across(x, i, y, 0) if gaussian else 0.0
    for j in range(len(y) - 1):
        c, before = _coupling(x, i, y, j, gaussian, before)
        for cut in range(cuts[1]):
            _cell(c * share, factorials, f, state[j * cuts[1] + cut], new)


@compiled
def _cell(c, factorials, f, g, new):
    """Edges of one cell: f and g at its near edges become those at its far edges. factorials[k] = 1 / k!.

    Powers of c that no digit of u could show are left out.
    """
    n = f.size
    term = new[2 * n :]
    last, power = 0, 1.0
    term[0] = 1.0
    while last < n - 1 and abs(term[last]) > 1e-19:
        term[last + 1] = term[last] * c / (last + 1)
        last += 1
    for i in range(last + 1):
        total, other = 0.0, 0.0
        for k in range(1, n - i):
            total += g[k] * factorials[k + i]
            other += f[k] * factorials[k + i]
        new[i], new[n + i] = power * total, power * other
        power *= c
    for i in range(n - 1, -1, -1):
        at_f, at_g = f[i], g[i]
        for k in range(1, min(i, last) + 1):
            at_f += term[k] * f[i - k]
            at_g += term[k] * g[i - k]
        if i <= last:
            at_f, at_g = at_f + new[i], at_g + new[n + i]
        f[i], g[i] = at_f, at_g


@compiled
def _truncated_row(x, y, i, gaussian, factorials, f, new, state):
    """The same level by level: du_m/(ds dt) = c u_(m-1); level m is a polynomial of degree m along each edge."""
    f[:] = 0.0
    f[0] = 1.0
    before = _across(x, i, y, 0) if gaussian else 0.0
    for j in range(len(y) - 1):
        c, before = _coupling(x, i, y, j, gaussian, before)
        g = state[j]
        _level_edges(c, factorials, f, g, new)
        _level_edges(c, factorials, g, f, new[f.size :])
        f[:], g[:] = new[: f.size], new[f.size : 2 * f.size]


@compiled
def _level_edges(c, factorials, f, g, new):
    """The far edge along f, of all levels: f[m * width + i] is coefficient i of level m."""
    width = factorials.size // 2
    for m in range(width):
        for i in range(m + 1):
            total, power = 0.0, 1.0
            for k in range(i + 1):
                total += power * factorials[k] * f[(m - k) * width + i - k]
                power *= c
            rest = 0.0
            for k in range(1, m - i + 1):
                rest += g[(m - i) * width + k] * factorials[k + i]
            new[m * width + i] = total + rest * c**i


# ------------------------------------------------------------------------------------------ pairs
@compiled
def _begin(kind, x, y, lines, e, state, cuts):
    """The row before the first."""
    if kind > WARPING:
        cells = max(len(y) - 1, 0) * cuts[1]
        state[:cells] = 0.0
        state[:cells, 0] = 1.0
        return
    d = x.shape[1]
    for c in range(d):
        for j in range(len(y)):
            lines[c, j + 1] = y[j, c]
    lines[d + _SUMS, 1 : len(y) + 1] = 0.0 if kind == ALIGNMENT else math.inf
    lines[d + _SUMS, 0] = 1.0 if kind == ALIGNMENT else 0.0
    e[1 : len(y) + 1], e[0] = _NONE, 0


@compiled
def _row(kind, x, y, row, band, gaussian, cuts, factorials, lines, e, state, f, new):
    if kind == ALIGNMENT:
        _alignment_row(x, len(y), row, band, lines, e)
    elif kind == WARPING:
        _warping_row(x, len(y), row, band, lines)
    elif kind == SIGNATURE:
        _signature_row(x, y, row, cuts, gaussian, factorials, f, new, state)
    else:
        _truncated_row(x, y, row, gaussian, factorials, f, new, state)


@compiled
def _end(kind, x, y, lines, e, f, factorials):
    """What the finished table says of a pair: a logarithm of the sum, a distance, or the kernel itself."""
    n = len(y)
    if kind <= WARPING:
        last = lines[x.shape[1] + _SUMS, n]
        if kind == WARPING:
            return math.sqrt(last)
        return math.log(last) + e[n] * _STEP if last > 0.0 else -math.inf
    if n < 2:
        return 1.0
    total = 0.0
    width = f.size if kind == SIGNATURE else factorials.size // 2
    for k in range(f.size):
        total += f[k] * factorials[k % width]
    return total


@compiled
def advance(kind, x, xo, y, yo, half, place, band, gaussian, cuts, factorials, lines, e, state, f, new, out, cells):
    """Go on with the pairs from `place` for about so many cells; whether there are pairs left.

    `half`: y begins with x, and of what is found in both orders the first is made.
    """
    while place[0] < out.size:
        i, j = place[0] // out.shape[1], place[0] % out.shape[1]
        a, b = x[xo[i] : xo[i + 1]], y[yo[j] : yo[j + 1]]
        if _later(a, b):
            a, b = b, a
        rows = len(a)
        if kind > WARPING:  # of paths, which need two steps to move
            rows = (len(a) - 1) * cuts[0] if len(b) > 1 else 0
        known = half and j < i
        if place[1] == 0 and not known:
            _begin(kind, a, b, lines, e, state, cuts)
        while place[1] < rows and not known:
            if cells <= 0:
                return True
            _row(kind, a, b, place[1], band, gaussian, cuts, factorials, lines, e, state, f, new)
            place[1] += 1
            cells -= len(b) * cuts[1] + 1
        out[i, j] = out[j, i] if known else _end(kind, a, b, lines, e, f, factorials)
        place[0] += 1
        place[1] = 0
        cells -= 1
    return False

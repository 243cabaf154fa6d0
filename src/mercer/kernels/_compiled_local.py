"""Compiled tables of local alignments of pairs of strings; they go on where they stopped, as those of `_compiled_sequences`.

A cell of a table tells of the alignments that end there: with two letters paired, with a gap in the second string, and with a gap
in the first. A gap in both is opened in the second string first, so that each alignment is counted once.
"""

import math

from mercer.kernels._compiled import compiled
from mercer.kernels._compiled_sequences import _DOWN, _HIGH, _LOW, _STEP, _UP, _later, _shifted

# The numbers of a cell are m * exp(e * _STEP) with one exponent e >= 0 and the largest m at most 2^256.


@compiled
def _sum_row(letter, y, scores, lines, e, total):
    """Row of sums of products over alignments, in place of the row before; `scores` are factors here. Returns the new total.

    What a cell leaves out beside its largest number, by a common exponent, is left out of all that comes of it as well.
    """
    match, mismatch, opening, extension = scores
    M, X, Y = lines[0], lines[1], lines[2]
    diagonal, de = 0.0, 0
    for j in range(1, len(y) + 1):
        x, xe = opening * M[j] + extension * X[j], e[j]
        z, ze = opening * (M[j - 1] + X[j - 1]) + extension * Y[j - 1], e[j - 1]
        top = max(de, xe, ze)
        m = (_shifted(1.0, top) + _shifted(diagonal, top - de)) * (match if letter == y[j - 1, 0] else mismatch)
        x, z = _shifted(x, top - xe), _shifted(z, top - ze)
        diagonal, de = M[j] + X[j] + Y[j], e[j]
        largest = max(m, x, z)
        if largest > _HIGH:
            m, x, z, top = m * _DOWN, x * _DOWN, z * _DOWN, top + 1
        elif largest < _LOW and top > 0:
            m, x, z, top = m * _UP, x * _UP, z * _UP, top - 1
        M[j], X[j], Y[j], e[j] = m, x, z, top
        total = _added(total, m, top)
    return total


@compiled
def _added(total, m, top):
    """A sum (number, exponent) and one more number."""
    value, exponent = total
    if top > exponent:
        value, exponent = _shifted(value, top - exponent) + m, top
    else:
        value += _shifted(m, exponent - top)
    return (value * _DOWN, exponent + 1) if value > _HIGH else (value, exponent)


@compiled
def _best_row(letter, y, scores, lines, best):
    """Row of the largest scores, in place of the row before. Returns the new best."""
    match, mismatch, opening, extension = scores
    M, X, Y = lines[0], lines[1], lines[2]
    diagonal = -math.inf
    for j in range(1, len(y) + 1):
        x = max(M[j] - opening, X[j] - extension)
        z = max(max(M[j - 1], X[j - 1]) - opening, Y[j - 1] - extension)
        m = max(0.0, diagonal) + (match if letter == y[j - 1, 0] else mismatch)
        diagonal = max(M[j], max(X[j], Y[j]))
        M[j], X[j], Y[j] = m, x, z
        best = max(best, m)
    return best


@compiled
def advance(sums, x, xo, y, yo, half, scores, place, value, lines, e, out, cells):
    """Go on with the pairs from `place` for about so many cells; whether there are pairs left.

    `sums`: logarithms of sums over all alignments, else the score of the best. `half`: y begins with x, and of what is found
    in both orders the first is made. `value` holds the total so far, its exponent is in place[2].
    """
    while place[0] < out.size:
        i, j = place[0] // out.shape[1], place[0] % out.shape[1]
        a, b = x[xo[i] : xo[i + 1]], y[yo[j] : yo[j + 1]]
        if _later(a, b):
            a, b = b, a
        if place[1] == 0:
            lines[:], e[:], place[2] = 0.0 if sums else -math.inf, 0, 0
            value[0] = 1.0 if sums else 0.0  # of the alignment of nothing
        known = half and j < i
        while place[1] < len(a) and not known:
            if cells <= 0:
                return True
            if sums:
                value[0], place[2] = _sum_row(a[place[1], 0], b, scores, lines, e, (value[0], place[2]))
            else:
                value[0] = _best_row(a[place[1], 0], b, scores, lines, value[0])
            place[1] += 1
            cells -= len(b) + 1
        out[i, j] = math.log(value[0]) + place[2] * _STEP if sums else value[0]
        if known:
            out[i, j] = out[j, i]
        place[0] += 1
        place[1] = 0
        cells -= 1
    return False

"""Compiled loops of smoothing: weighted moments of local polynomials, a query at a time, over the boxes it can reach.

The rules of `mercer.engines._compiled` hold here too. Distances are of whitened rows, so that windows have unit bandwidth. How
far a row is from a query is measured by `metric`: the squared distance (0), the sum of |differences| (1) or the largest
squared difference (2). `shape` is a place in `mercer.solvers.local.CODES`. Windows without end have weights relative to that
of the nearest row, so that they underflow for far rows only.
"""

import math

import numpy as np

from mercer.engines._compiled import REDUCTION, compiled, vexp

GAUSSIAN, EXPONENTIAL, BOXCAR, TRIANGULAR, EPANECHNIKOV, BIWEIGHT, TRICUBE, COSINE = range(8)
CHUNK = 256  # rows at a time: their numbers stay in the first cache
_DIGITS = 38.0  # exp(-38) is below the rounding of a sum
_SLACK = 1.0 + 1e-12  # rows as near as this are equally near


@compiled
def _far(q, lo, hi, metric, inverse):
    """How far the nearest place of a box is at least."""
    total = 0.0
    for c in range(q.size):
        gap = max(max(lo[c] - q[c], q[c] - hi[c]), 0.0)
        if metric == 0:
            total += gap * gap
        elif metric == 1:
            total += gap
        else:
            total = max(total, gap * gap)
    return total * inverse


@compiled
def _farthest(q, lo, hi, metric, inverse):
    """How far the places of a box are at most."""
    total = 0.0
    for c in range(q.size):
        gap = max(hi[c] - q[c], q[c] - lo[c])
        if metric == 0:
            total += gap * gap
        elif metric == 1:
            total += gap
        else:
            total = max(total, gap * gap)
    return total * inverse


@compiled
def _fall(shape, metric, far):
    """Minus the logarithm of a window without end."""
    if shape == GAUSSIAN:
        return 0.5 * far
    return math.sqrt(far) if metric == 0 else far


@compiled
def _measure(columns, q, a, b, metric, inverse, s):
    """s[i] = how far row a + i is, for rows a ... b - 1."""
    n = b - a
    for i in range(n):
        s[i] = 0.0
    for c in range(q.size):
        at, z = (
            q[c],
            columns[c, a:b],
        )  # a place a + i might be negative for all the compiler knows, and would not be SIMD
        if metric == 0:
            for i in range(n):
                u = z[i] - at
                s[i] += u * u
        elif metric == 1:
            for i in range(n):
                s[i] += abs(z[i] - at)
        else:
            for i in range(n):
                u = z[i] - at
                s[i] = max(s[i], u * u)
    for i in range(n):
        s[i] *= inverse


@compiled
def _window(s, n, shape, metric, shift, limit):
    """Values of the window in place of the measures s."""
    if shape == GAUSSIAN:
        for i in range(n):
            s[i] = vexp(shift - 0.5 * s[i])
    elif shape == EXPONENTIAL:
        for i in range(n):
            s[i] = vexp(shift - (math.sqrt(s[i]) if metric == 0 else s[i]))
    elif shape == BOXCAR:
        for i in range(n):
            s[i] = 1.0 if s[i] <= limit else 0.0
    elif shape == TRIANGULAR:
        for i in range(n):
            s[i] = max(1.0 - math.sqrt(s[i]), 0.0)
    elif shape == EPANECHNIKOV:
        for i in range(n):
            s[i] = max(1.0 - s[i], 0.0)
    elif shape == BIWEIGHT:
        for i in range(n):
            u = max(1.0 - s[i], 0.0)
            s[i] = u * u
    elif shape == TRICUBE:
        for i in range(n):
            u = max(1.0 - s[i] * math.sqrt(s[i]), 0.0)
            s[i] = u * u * u
    else:
        for i in range(n):
            s[i] = math.sin(0.5 * math.pi * (1.0 - math.sqrt(min(s[i], 1.0))))


@compiled
def _weigh(columns, mass, q, a, b, own, shape, metric, inverse, shift, limit, space, w):
    """w[i] = mass times window of row a + i, 0 for the row `own`."""
    n = b - a
    m = mass[a:b]
    if metric == 2 and shape != BOXCAR:  # a product of windows over the columns
        for i in range(n):
            w[i] = m[i]
        for c in range(q.size):
            _measure(columns[c : c + 1], q[c : c + 1], a, b, 0, inverse, space)
            _window(space, n, shape, 0, shift, limit)
            for i in range(n):
                w[i] *= space[i]
    else:
        _measure(columns, q, a, b, metric, inverse, w)
        _window(w, n, shape, metric, shift, limit)
        for i in range(n):
            w[i] *= m[i]
    if a <= own < b:
        w[own - a] = 0.0


@compiled
def _nearest(tree, columns, q, own, metric, inverse, stack, s):
    """How far the nearest row other than `own` is, and the leaf it lies in."""
    start, stop, lo, hi, left, right = tree
    best, leaf = np.inf, -1
    stack[0], top = 0, 1
    while top:
        top -= 1
        node = stack[top]
        if _far(q, lo[node], hi[node], metric, inverse) >= best:
            continue
        if left[node] >= 0:
            a, b = left[node], right[node]
            if _far(q, lo[a], hi[a], metric, inverse) < _far(q, lo[b], hi[b], metric, inverse):
                a, b = b, a
            stack[top], stack[top + 1] = a, b
            top += 2
            continue
        for first in range(start[node], stop[node], CHUNK):
            last = min(first + CHUNK, stop[node])
            _measure(columns, q, first, last, metric, inverse, s)
            for i in range(last - first):
                if s[i] < best and first + i != own:
                    best, leaf = s[i], node
    return best, leaf


@compiled
def _reach(tree, columns, mass, total, q, own, shape, metric, inverse, nearest_only, stack, space, w):
    """(shape, shift, cut): what is inside has a measure of at most `cut`; nothing that matters lies outside."""
    if shape > EXPONENTIAL and not nearest_only:
        return shape, 0.0, 1.0
    best, leaf = _nearest(tree, columns, q, own, metric, inverse, stack, w)
    if leaf < 0:  # no row but the own one
        return shape, 0.0, -1.0
    if nearest_only:
        return BOXCAR, 0.0, best * _SLACK
    shift, there = _fall(shape, metric, best), 0.0
    for first in range(tree[0][leaf], tree[1][leaf], CHUNK):
        last = min(first + CHUNK, tree[1][leaf])
        _weigh(columns, mass, q, first, last, own, shape, metric, inverse, shift, 0.0, space, w)
        for i in range(last - first):
            there += w[i]
    fall = shift + _DIGITS + max(math.log(total / there), 0.0)
    if shape == GAUSSIAN:
        return shape, shift, 2.0 * fall
    return shape, shift, fall * fall if metric == 0 else fall


@compiled
def _basis(columns, centre, scale, a, b, parent, factor, B):
    """B[k, i]: monomial k of row a + i about the centre; it is monomial parent[k] times column factor[k]."""
    n = b - a
    for i in range(n):
        B[0, i] = 1.0
    for k in range(1, parent.size):
        c, p = factor[k], parent[k]
        at, over, z = centre[c], scale[c], columns[c, a:b]
        for i in range(n):
            B[k, i] = B[p, i] * ((z[i] - at) * over)


@compiled(fastmath=REDUCTION)
def _add(B, w, Y, noise, a, n, A, b, C):
    """A += B W B^T, b += B W Y^T, and C += B W^2 N B^T where it is asked for."""
    P = A.shape[0]
    for j in range(P):
        for k in range(j, P):
            total = 0.0
            for i in range(n):
                total += w[i] * B[j, i] * B[k, i]
            A[j, k] += total
        for t in range(Y.shape[0]):
            total, y = 0.0, Y[t, a : a + n]
            for i in range(n):
                total += w[i] * B[j, i] * y[i]
            b[j, t] += total
    if C.shape[0]:
        v = noise[a : a + n]
        for j in range(P):
            for k in range(j, P):
                total = 0.0
                for i in range(n):
                    total += w[i] * w[i] * v[i] * B[j, i] * B[k, i]
                C[j, k] += total


@compiled(fastmath=REDUCTION)
def _add_constant(w, Y, noise, a, n, A, b, C):
    """`_add` for the constant alone."""
    total, squares = 0.0, 0.0
    for i in range(n):
        total += w[i]
    A[0, 0] += total
    for t in range(Y.shape[0]):
        total, y = 0.0, Y[t, a : a + n]
        for i in range(n):
            total += w[i] * y[i]
        b[0, t] += total
    if C.shape[0]:
        v = noise[a : a + n]
        for i in range(n):
            squares += w[i] * w[i] * v[i]
        C[0, 0] += squares


@compiled(fastmath=REDUCTION)
def _add_line(columns, centre, scale, w, Y, a, n, A, b):
    """`_add` for lines in two columns and one target, all sums in one pass."""
    at0, at1, over0, over1 = centre[0], centre[1], scale[0], scale[1]
    z0, z1, targets = columns[0, a : a + n], columns[1, a : a + n], Y[0, a : a + n]
    s00, s01, s02, s11, s12, s22, t0, t1, t2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        u, v = (z0[i] - at0) * over0, (z1[i] - at1) * over1
        wi, y = w[i], targets[i]
        wu, wv = wi * u, wi * v
        s00 += wi
        s01 += wu
        s02 += wv
        s11 += wu * u
        s12 += wu * v
        s22 += wv * v
        t0 += wi * y
        t1 += wu * y
        t2 += wv * y
    A[0, 0] += s00
    A[0, 1] += s01
    A[0, 2] += s02
    A[1, 1] += s11
    A[1, 2] += s12
    A[2, 2] += s22
    b[0, 0] += t0
    b[1, 0] += t1
    b[2, 0] += t2


@compiled
def _next_box(tree, q, metric, inverse, cut, whole, stack, top):
    """The next box of rows that a query can reach, -1 at the end, and the height of the stack. whole: also boxes that are not
    leaves, where all of it is within reach."""
    lo, hi, left, right = tree[2], tree[3], tree[4], tree[5]
    while top:
        top -= 1
        node = stack[top]
        if _far(q, lo[node], hi[node], metric, inverse) > cut:
            continue
        if left[node] < 0 or (whole and _farthest(q, lo[node], hi[node], metric, inverse) <= cut):
            return node, top
        stack[top], stack[top + 1] = right[node], left[node]
        top += 2
    return -1, 0


@compiled
def moments(tree, columns, mass, noise, Y, total, Q, own, inverse, centre, scale, parent, factor, shape, metric, nearest_only,
            start, stop, A, b, C):  # fmt: skip
    """Moments of the local polynomials of queries start ... stop - 1.

    Parameters
    ----------
    tree : (start, stop, lo, hi, left, right) of the boxes; columns : (d, n) rows in the order of the boxes
    mass, noise : (n,) weights of rows, and what their squared weight is multiplied by in C; Y : (t, n); total : sum of mass
    Q : (m, d); own : (m,) row that is left out, or -1; inverse : (m,) what measures are multiplied by
    centre, scale : (m, d) of the monomials; parent, factor : (P,) how monomials are made
    nearest_only : the nearest rows alone count, all alike
    A, C : (m, P, P) upper triangles; b : (m, P, t). C may be empty
    """
    P = parent.size
    line = P == 3 and Q.shape[1] == 2 and Y.shape[0] == 1 and C.shape[1] == 0
    stack = np.empty(128, np.int64)
    space, w, B = np.empty(CHUNK), np.empty(CHUNK), np.empty((P, CHUNK))
    for r in range(start, stop):
        q, inv = Q[r], inverse[r]
        kind, shift, cut = _reach(
            tree, columns, mass, total, q, own[r], shape, metric, inv, nearest_only, stack, space, w
        )
        stack[0] = 0
        node, top = _next_box(tree, q, metric, inv, cut, True, stack, 1)
        while node >= 0:
            last = tree[1][node]
            for i in range(tree[0][node], last, CHUNK):
                j = min(i + CHUNK, last)
                _weigh(columns, mass, q, i, j, own[r], kind, metric, inv, shift, cut, space, w)
                if P == 1:
                    _add_constant(w, Y, noise, i, j - i, A[r], b[r], C[r])
                elif line:
                    _add_line(columns, centre[r], scale[r], w, Y, i, j - i, A[r], b[r])
                else:
                    _basis(columns, centre[r], scale[r], i, j, parent, factor, B)
                    _add(B, w, Y, noise, i, j - i, A[r], b[r], C[r])
            node, top = _next_box(tree, q, metric, inv, cut, True, stack, top)


@compiled
def weights(tree, order, columns, mass, total, Q, own, inverse, centre, scale, parent, factor, g, shape, metric, nearest_only,
            start, stop, out):  # fmt: skip
    """out[r, order[i]] = weight of row i in the answer of query r: its mass and window times (monomials @ g[r])."""
    P = parent.size
    stack = np.empty(128, np.int64)
    space, w, B = np.empty(CHUNK), np.empty(CHUNK), np.empty((P, CHUNK))
    for r in range(start, stop):
        q, inv = Q[r], inverse[r]
        kind, shift, cut = _reach(
            tree, columns, mass, total, q, own[r], shape, metric, inv, nearest_only, stack, space, w
        )
        stack[0] = 0
        node, top = _next_box(tree, q, metric, inv, cut, False, stack, 1)
        while node >= 0:
            last = tree[1][node]
            for i in range(tree[0][node], last, CHUNK):
                j = min(i + CHUNK, last)
                _weigh(columns, mass, q, i, j, own[r], kind, metric, inv, shift, cut, space, w)
                _basis(columns, centre[r], scale[r], i, j, parent, factor, B)
                for k in range(j - i):
                    value = 0.0
                    for p in range(P):
                        value += g[r, p] * B[p, k]
                    out[r, order[i + k]] = value * w[k]
            node, top = _next_box(tree, q, metric, inv, cut, False, stack, top)


@compiled
def _factor(A, L, size):
    """Cholesky's factor of A, given by its upper triangle and scaled to a unit diagonal; returns the smallest square of the
    factor's diagonal, or 0 where there is no factor."""
    P, least = A.shape[0], 1.0
    for j in range(P):
        if not A[j, j] > 0.0:
            return 0.0
        size[j] = 1.0 / math.sqrt(A[j, j])
    for j in range(P):
        for i in range(j, P):
            value = A[j, i] * size[i] * size[j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = value / L[j, j]
                continue
            if not value > 0.0:
                return 0.0
            least = min(least, value)
            L[j, j] = math.sqrt(value)
    return least


@compiled
def solve(A, b, start, stop, X, pivot):
    """X[r] = A[r]^-1 b[r] for queries start ... stop - 1; pivot[r] says how well A[r] can be solved with, 0 for not at all."""
    P, T = b.shape[1], b.shape[2]
    L, size = np.zeros((P, P)), np.empty(P)
    for r in range(start, stop):
        pivot[r] = _factor(A[r], L, size)
        if pivot[r] == 0.0:
            continue
        for t in range(T):
            for j in range(P):
                value = b[r, j, t] * size[j]
                for k in range(j):
                    value -= L[j, k] * X[r, k, t]
                X[r, j, t] = value / L[j, j]
            for j in range(P - 1, -1, -1):
                value = X[r, j, t]
                for k in range(j + 1, P):
                    value -= L[k, j] * X[r, k, t]
                X[r, j, t] = value / L[j, j]
            for j in range(P):
                X[r, j, t] *= size[j]

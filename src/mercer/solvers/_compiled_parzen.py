"""Compiled loops of window sums: cutting a k-d tree, and sums over its nodes.

The rules of `mercer.engines._compiled` hold here too. Queries come transposed (d, m), so that the inner loops run along them.
A window is given by two numbers: `code`, 10 a + b for (1 - r^a)^b or one of those below, and `mode`, what the columns do.
Arrays that belong together travel in named tuples.
"""

import math
from typing import NamedTuple

import numpy as np

from mercer.engines._compiled import _sine, compiled, vexp

COSINE, GAUSSIAN, EXPONENTIAL = 0, 1, 2
CODES = {
    "cosine": COSINE,
    "gaussian": GAUSSIAN,
    "exponential": EXPONENTIAL,
    "triangular": 11,
    "boxcar": 20,
    "epanechnikov": 21,
    "biweight": 22,
    "tricube": 33,
}
#: The squared distance, the squared sum of distances, a product of windows of the columns.
EUCLID, CITY, PRODUCT = 0, 1, 2


class Nodes(NamedTuple):
    """A tree of `mercer.solvers.boxes`, and the smallest and largest bandwidth in each node."""

    start: np.ndarray
    stop: np.ndarray
    left: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    slim: np.ndarray
    broad: np.ndarray


class Points(NamedTuple):
    """rows (n, d) in the order of the tree, 1 / bandwidth (n,), and what is summed, V (n, p)."""

    rows: np.ndarray
    narrow: np.ndarray
    V: np.ndarray


class Lists(NamedTuple):
    """Memory of one thread: leaves, by what they are ordered, their errors, nodes to do."""

    ids: np.ndarray
    keys: np.ndarray
    errors: np.ndarray
    stack: np.ndarray


# ------------------------------------------------------------------------------------------------ the tree
@compiled
def _widest(rows, a, b):
    """The column in which rows a ... b - 1 spread most."""
    best, spread = 0, -1.0
    for k in range(rows.shape[1]):
        low = high = rows[a, k]
        for i in range(a + 1, b):
            low, high = min(low, rows[i, k]), max(high, rows[i, k])
        if high - low > spread:
            best, spread = k, high - low
    return best


@compiled
def _swap(rows, order, i, j):
    order[i], order[j] = order[j], order[i]
    for k in range(rows.shape[1]):
        rows[i, k], rows[j, k] = rows[j, k], rows[i, k]


@compiled
def _pivot(rows, k, a, b):
    """The middle one of the first, the middle and the last."""
    x, y, z = rows[a, k], rows[(a + b) // 2, k], rows[b, k]
    return max(min(x, y), min(max(x, y), z))


@compiled
def _select(rows, order, k, a, b, middle):
    """Put row `middle` of a ... b where it belongs in the order of column k; equal rows are dealt to both sides (Hoare)."""
    while a < b:
        pivot = _pivot(rows, k, a, b)
        i, j = a, b
        while i <= j:
            while rows[i, k] < pivot:
                i += 1
            while rows[j, k] > pivot:
                j -= 1
            if i <= j:
                _swap(rows, order, i, j)
                i, j = i + 1, j - 1
        if middle <= j:
            b = j
        elif middle >= i:
            a = i
        else:
            return


@compiled
def cut(rows, order, start, stop, left, first, levels):
    """Order the rows below one node of a tree, for so many levels: the lower half of the widest column goes to the left.

    Nodes are numbered as in a heap, so that those below one are a run of numbers in each level.
    """
    count = 1
    for _ in range(levels):
        for node in range(first, first + count):
            a, b, middle = start[node], stop[node], start[left[node] + 1]
            _select(rows, order, _widest(rows, a, b), a, b - 1, middle)
        first, count = left[first], 2 * count


# ------------------------------------------------------------------------------------------------ windows
@compiled
def _power(base, b):
    return base if b == 1 else (base * base if b == 2 else base * base * base)


@compiled
def profile(code, s):
    """The window at the squared distance s."""
    if code == GAUSSIAN:
        return math.exp(-0.5 * s)
    if code == EXPONENTIAL:
        return math.exp(-math.sqrt(s))
    if s > 1.0:
        return 0.0
    if code == COSINE:
        return math.sin(0.5 * math.pi * (1.0 - math.sqrt(s)))
    a, b = code // 10, code % 10
    r = math.sqrt(s)
    power = r if a == 1 else (s if a == 2 else s * r)
    return 1.0 if b == 0 else _power(1.0 - power, b)


@compiled
def _profiles(code, s):
    """The same for a row of squared distances, in place, without branches."""
    a, b = code // 10, code % 10
    if code == GAUSSIAN:
        for i in range(s.size):
            s[i] = vexp(-0.5 * s[i])
    elif code == EXPONENTIAL:
        for i in range(s.size):
            s[i] = vexp(-math.sqrt(s[i]))
    elif code == COSINE:
        for i in range(s.size):
            r = math.sqrt(min(s[i], 1.0))
            s[i] = _sine(0.5 * math.pi * (1.0 - r), 0)
    elif b == 0:
        for i in range(s.size):
            s[i] = 1.0 if s[i] <= 1.0 else 0.0
    elif a == 2:
        for i in range(s.size):
            s[i] = _power(max(1.0 - s[i], 0.0), b)
    else:
        for i in range(s.size):
            r = math.sqrt(s[i])
            s[i] = _power(max(1.0 - (r if a == 1 else s[i] * r), 0.0), b)


@compiled
def _bounds(mode, code, alo, ahi, blo, bhi, narrow, wide):
    """Largest and smallest value of the window between two boxes, its bandwidth being between `narrow` and `wide`."""
    near, far, top, bottom = 0.0, 0.0, 1.0, 1.0
    for k in range(alo.size):
        gap = max(blo[k] - ahi[k], alo[k] - bhi[k], 0.0) / wide
        span = max(bhi[k] - alo[k], ahi[k] - blo[k]) / narrow
        if mode == EUCLID:
            near, far = near + gap * gap, far + span * span
        elif mode == CITY:
            near, far = near + gap, far + span
        else:
            top, bottom = top * profile(code, gap * gap), bottom * profile(code, span * span)
    if mode == PRODUCT:
        return top, bottom
    if mode == CITY:
        near, far = near * near, far * far
    return profile(code, near), profile(code, far)


@compiled
def _values(mode, code, QT, z, narrow, out, spare):
    """The window of one point at the queries; its bandwidth is 1 / narrow."""
    out[:] = 1.0 if mode == PRODUCT else 0.0
    for k in range(z.size):
        q, x = QT[k], z[k]
        if mode == EUCLID:
            for i in range(out.size):
                u = (q[i] - x) * narrow
                out[i] += u * u
        elif mode == CITY:
            for i in range(out.size):
                out[i] += abs(q[i] - x) * narrow
        else:
            for i in range(out.size):
                u = (q[i] - x) * narrow
                spare[i] = u * u
            _profiles(code, spare)
            for i in range(out.size):
                out[i] *= spare[i]
    if mode == CITY:
        for i in range(out.size):
            out[i] *= out[i]
    if mode != PRODUCT:
        _profiles(code, out)


@compiled
def _gauss_1(q, rows, narrow, V, start, stop, total):
    for j in range(start, stop):
        x, half, w = rows[j, 0], -0.5 * narrow[j] * narrow[j], V[j, 0]
        for i in range(total.size):
            u = q[i] - x
            total[i] += w * vexp(half * (u * u))


@compiled
def _gauss_2(q, r, rows, narrow, V, start, stop, total):
    for j in range(start, stop):
        x, y, half, w = rows[j, 0], rows[j, 1], -0.5 * narrow[j] * narrow[j], V[j, 0]
        for i in range(total.size):
            u, v = q[i] - x, r[i] - y
            total[i] += w * vexp(half * (u * u + v * v))


@compiled
def _gauss_3(q, r, s, rows, narrow, V, start, stop, total):
    for j in range(start, stop):
        x, y, z, half, w = rows[j, 0], rows[j, 1], rows[j, 2], -0.5 * narrow[j] * narrow[j], V[j, 0]
        for i in range(total.size):
            u, v, t = q[i] - x, r[i] - y, s[i] - z
            total[i] += w * vexp(half * (u * u + v * v + t * t))


@compiled
def _add_points(mode, code, QT, points, start, stop, out, spare):
    """Add to out (p, m) the window of each point times its row of V; Gaussian ones of few columns in one pass."""
    rows, narrow, V = points.rows, points.narrow, points.V
    p, d = V.shape[1], rows.shape[1]
    if code == GAUSSIAN and p == 1 and d == 1:
        _gauss_1(QT[0], rows, narrow, V, start, stop, out[0])
    elif code == GAUSSIAN and p == 1 and d == 2:
        _gauss_2(QT[0], QT[1], rows, narrow, V, start, stop, out[0])
    elif code == GAUSSIAN and p == 1 and d == 3:
        _gauss_3(QT[0], QT[1], QT[2], rows, narrow, V, start, stop, out[0])
    else:
        values = spare[0]
        for j in range(start, stop):
            _values(mode, code, QT, rows[j], narrow[j], values, spare[1])
            for c in range(p):
                total, v = out[c], V[j, c]
                for i in range(total.size):
                    total[i] += v * values[i]


# ------------------------------------------------------------------------------------------------ one leaf of queries
@compiled
def _nearest_leaf(tree, qlo, qhi):
    """The leaf found by going to the child whose middle is nearer."""
    node = 0
    while tree.left[node] >= 0:
        child, one, other = tree.left[node], 0.0, 0.0
        for k in range(qlo.size):
            middle = qlo[k] + qhi[k]
            u = tree.lo[child, k] + tree.hi[child, k] - middle
            v = tree.lo[child + 1, k] + tree.hi[child + 1, k] - middle
            one, other = one + u * u, other + v * v
        node = child if one <= other else child + 1
    return node


@compiled
def _collect(mode, code, tree, T, qlo, qhi, near, tol, base, lists):
    """List the leaves but for `near`, with their error and, to order them, their error per row; returns their number.

    Nodes whose window is within `tol` of the mean of its bounds are not opened but added to base (p,), T (nodes, p) being their
    sums of V. The error of these is returned too.
    """
    stack = lists.stack
    stack[0], size, count, spent = 0, 1, 0, 0.0
    while size:
        size -= 1
        node = stack[size]
        if node == near:
            continue
        top, bottom = _bounds(mode, code, qlo, qhi, tree.lo[node], tree.hi[node], tree.slim[node], tree.broad[node])
        half, child = 0.5 * (top - bottom), tree.left[node]
        if half <= tol and not tree.start[node] <= tree.start[near] < tree.stop[node]:
            spent += half * T[node, 0]
            for c in range(base.size):
                base[c] += (bottom + half) * T[node, c]
        elif child >= 0:
            stack[size], stack[size + 1], size = child, child + 1, size + 2
        else:
            error = half * T[node, 0]
            lists.ids[count], lists.errors[count] = node, error
            lists.keys[count], count = -error / (tree.stop[node] - tree.start[node]), count + 1
    return count, spent


@compiled
def _smallest(v):
    low = v[0]
    for i in range(1, v.size):
        low = min(low, v[i])
    return low


@compiled
def _begin(mode, code, tree, points, T, QT, qlo, qhi, rtol, atol, out, base, spare, lists):
    """Add the nearest leaf for a first idea of the sums, then list the others, those with the largest error first; returns
    their number. errors[i] becomes the error of all from i on, and of what is not opened, at the means of their bounds."""
    out[:] = 0.0
    base[:] = 0.0
    near = _nearest_leaf(tree, qlo, qhi)
    _add_points(mode, code, QT, points, tree.start[near], tree.stop[near], out, spare)
    tol = 0.5 * (rtol * _smallest(out[0]) + atol)
    count, spent = _collect(mode, code, tree, T, qlo, qhi, near, tol, base, lists)
    ids, errors, order = lists.ids, lists.errors, np.argsort(lists.keys[:count])
    ids[:count], errors[:count] = ids[:count][order], errors[:count][order]
    total = spent
    for i in range(count - 1, -1, -1):
        total += errors[i]
        errors[i] = total
    return count


@compiled
def _end(mode, code, tree, T, qlo, qhi, left, base, out):
    """Add the leaves that are left at the means of their bounds, and the nodes that were not opened."""
    for node in left:
        top, bottom = _bounds(mode, code, qlo, qhi, tree.lo[node], tree.hi[node], tree.slim[node], tree.broad[node])
        for c in range(base.size):
            base[c] += 0.5 * (top + bottom) * T[node, c]
    for c in range(base.size):
        out[c] += base[c]


@compiled
def serve(mode, code, tree, points, T, QT, qlo, qhi, rtol, atol, out, state, base, spare, lists, most):
    """Sums (p, m) at the queries QT (d, m) of one box, each within atol + rtol times that of the first column of V.

    The leaves of points are added from the one with the largest error on, until all that are left may be taken at the mean of
    their bounds: the smallest sum so far is a lower bound of what the tolerance refers to. After about `most` pairs it returns
    False and has to be called again with the same arrays. state is [next leaf, number of leaves], [-1, 0] at the beginning.
    """
    pairs = 0
    if state[0] < 0:
        state[1] = _begin(mode, code, tree, points, T, QT, qlo, qhi, rtol, atol, out, base, spare, lists)
        state[0] = 0
    while state[0] < state[1] and lists.errors[state[0]] > rtol * _smallest(out[0]) + atol:
        node = lists.ids[state[0]]
        _add_points(mode, code, QT, points, tree.start[node], tree.stop[node], out, spare)
        state[0], pairs = state[0] + 1, pairs + QT.shape[1] * (tree.stop[node] - tree.start[node])
        if pairs > most:
            return False
    _end(mode, code, tree, T, qlo, qhi, lists.ids[state[0] : state[1]], base, out)
    return True


# ------------------------------------------------------------------------------------------------ sums that underflow
@compiled
def _fall(mode, code, q, lo, hi, narrow):
    """Minus the logarithm of a Gaussian or exponential window, of bandwidth 1 / narrow, at the nearest place of a box."""
    s, t = 0.0, 0.0
    for k in range(q.size):
        gap = max(lo[k] - q[k], q[k] - hi[k], 0.0) * narrow
        s, t = s + gap * gap, t + gap
    if code == GAUSSIAN:
        return 0.5 * s
    return t if mode == CITY else math.sqrt(s)


@compiled
def _most(mode, code, tree, tops, q, node):
    """An upper bound of the logarithm of a term in a node."""
    return tops[node] - _fall(mode, code, q, tree.lo[node], tree.hi[node], 1.0 / tree.broad[node])


@compiled
def _highest(mode, code, tree, points, logs, tops, q, stack):
    """The largest logarithm of a term of the sum at q."""
    rows, narrow = points.rows, points.narrow
    stack[0], size, best = 0, 1, -np.inf
    while size:
        size -= 1
        node = stack[size]
        child = tree.left[node]
        if _most(mode, code, tree, tops, q, node) <= best:
            continue
        if child < 0:
            for j in range(tree.start[node], tree.stop[node]):
                best = max(best, logs[j] - _fall(mode, code, q, rows[j], rows[j], narrow[j]))
            continue
        better = _most(mode, code, tree, tops, q, child) > _most(mode, code, tree, tops, q, child + 1)
        first = child if better else child + 1
        stack[size], stack[size + 1], size = 2 * child + 1 - first, first, size + 2
    return best


@compiled
def _log_sum(mode, code, tree, points, logs, tops, q, top, stack):
    """The logarithm of the sum at q, `top` being that of its largest term, and how many points were looked at. What is left out
    is less than a rounding error in all."""
    rows, narrow = points.rows, points.narrow
    least = top - 37.0 - math.log(rows.shape[0])
    stack[0], size, total, seen = 0, 1, 0.0, 0
    while size:
        size -= 1
        node = stack[size]
        child = tree.left[node]
        if _most(mode, code, tree, tops, q, node) < least:
            continue
        if child >= 0:
            stack[size], stack[size + 1], size = child, child + 1, size + 2
            continue
        seen += tree.stop[node] - tree.start[node]
        for j in range(tree.start[node], tree.stop[node]):
            total += math.exp(logs[j] - _fall(mode, code, q, rows[j], rows[j], narrow[j]) - top)
    return top + math.log(total), seen


@compiled
def log_sums(mode, code, tree, points, logs, tops, Q, out, first, most, stack):
    """out[i] = log sum_j exp(logs[j]) window(Q[i] - rows[j]) for a Gaussian or exponential window, however small, from row
    `first` on. logs (n,), tops: their maximum in each node. Returns the row to go on with, after about `most` points."""
    seen = 0
    for i in range(first, Q.shape[0]):
        if seen > most:
            return i
        top = _highest(mode, code, tree, points, logs, tops, Q[i], stack)
        out[i] = top
        if top > -np.inf:
            out[i], more = _log_sum(mode, code, tree, points, logs, tops, Q[i], top, stack)
            seen += 2 * more
        seen += 1000
    return Q.shape[0]


# ------------------------------------------------------------------------------------------------ grids
@compiled
def _cubic(t):
    """Weights of the nodes -1, 0, 1, 2 in the cubic through them, at t in [0, 1]."""
    a, b, c = t + 1.0, 1.0 - t, 2.0 - t
    return -t * b * c / 6.0, a * b * c / 2.0, a * t * c / 2.0, -a * t * b / 6.0


@compiled
def bin_line(z, w, low, inverse, start, stop, out):
    """Sums of w, w t, w t^2 and w t^3 over the points start ... stop - 1 after each node, t being the place between it and the
    next: four neighbours in memory, which are added to faster than four nodes. w has 1 number for all, or n."""
    each = w.size > 1
    for i in range(start, stop):
        x = (z[i, 0] - low[0]) * inverse
        node = int(x)
        t = x - node
        v = w[i] if each else w[0]
        out[node, 0] += v
        out[node, 1] += v * t
        out[node, 2] += v * t * t
        out[node, 3] += v * t * t * t


@compiled
def bin_plane(z, w, low, inverse, start, stop, out):
    """Deal the weights of points in the plane to the 4 x 4 nodes around each."""
    each = w.size > 1
    for i in range(start, stop):
        x, y = (z[i, 0] - low[0]) * inverse, (z[i, 1] - low[1]) * inverse
        row, node = int(x), int(y)
        e0, e1, e2, e3 = _cubic(y - node)
        v = w[i] if each else w[0]
        k = row - 1
        for c in _cubic(x - row):
            line = out[k]
            line[node - 1] += v * c * e0
            line[node] += v * c * e1
            line[node + 1] += v * c * e2
            line[node + 2] += v * c * e3
            k += 1


@compiled
def look_up(values, Q, low, inverse, out):
    """The cubic through the nodes of values (N, M), M = 1 for a line, at the rows of Q (m, 2) or (m, 1); 0 outside."""
    plane = Q.shape[1] == 2
    for i in range(Q.shape[0]):
        x = (Q[i, 0] - low[0]) * inverse
        y = (Q[i, 1] - low[1]) * inverse if plane else 1.0
        out[i] = 0.0
        if not (1.0 <= x < values.shape[0] - 2) or (plane and not (1.0 <= y < values.shape[1] - 2)):
            continue
        row, node = int(x), int(y) if plane else 0
        k, total = row - 1, 0.0
        for c in _cubic(x - row):
            if plane:
                e0, e1, e2, e3 = _cubic(y - node)
                v = values[k]
                total += c * (e0 * v[node - 1] + e1 * v[node] + e2 * v[node + 1] + e3 * v[node + 2])
            else:
                total += c * values[k, 0]
            k += 1
        out[i] = max(total, 0.0)


# ------------------------------------------------------------------------------------------------ sums on a line
@compiled
def chebyshev_moments(z, w, start, stop, middle, moments):
    """Add sum_i w_i T_j(2 (z_i - middle)) over the points start ... stop - 1 to moments[j]."""
    t, one, two, spare = np.empty(256), np.empty(256), np.empty(256), np.empty(256)
    for a in range(start, stop, 256):
        size = min(256, stop - a)
        for i in range(size):
            t[i] = 2.0 * (z[a + i] - middle)
            one[i], two[i] = w[a + i], w[a + i] * t[i]  # w T_0, w T_1
        for j in range(moments.size):
            total = 0.0
            for i in range(size):
                total += one[i]
                spare[i] = 2.0 * t[i] * two[i] - one[i]
                one[i], two[i] = two[i], spare[i]
            moments[j] += total


@compiled
def bells(q, z, w, start, stop, total):
    """Add sum_j w_j exp(-(q - z_j)^2 / 2) over the points start ... stop - 1."""
    for j in range(start, stop):
        x, v = z[j], w[j]
        for i in range(total.size):
            u = q[i] - x
            total[i] += v * vexp(-0.5 * (u * u))


@compiled
def decays(z, w, left, right):
    """left[i] = sum of w_j exp(z_j - z_i) over j <= i, right[i] = sum of w_j exp(z_i - z_j) over j >= i, for sorted z."""
    left[0], right[z.size - 1] = w[0], w[z.size - 1]
    for i in range(1, z.size):
        left[i] = w[i] + left[i - 1] * vexp(z[i - 1] - z[i])
    for i in range(z.size - 2, -1, -1):
        right[i] = w[i] + right[i + 1] * vexp(z[i] - z[i + 1])

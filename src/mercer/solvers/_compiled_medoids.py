"""Compiled loops of k-medoids: swaps of FasterPAM, the greedy start, and sums of dissimilarities within clusters.

The rules of `mercer.engines._compiled` hold here too. Dissimilarities D are real (n, m): rows may become medoids, columns are
the points to be served. Sums are taken in float64 whatever D is, so that rounding cannot make a swap look good twice.
"""

import numpy as np

from mercer.engines._compiled import compiled


@compiled
def _next_nearest(b, near):
    """Place of the smallest entry but for that at `near`."""
    best = 1 if near == 0 else 0
    for i in range(b.size):
        if i != near and b[i] < b[best]:
            best = i
    return best


@compiled
def rank(B, near, second, dn, ds, start, stop):
    """Nearest and second nearest medoid of some points, and the distances to them; B (m, k), k >= 2, has all of them."""
    for o in range(start, stop):
        b = B[o]
        a = 0
        for i in range(1, b.size):
            if b[i] < b[a]:
                a = i
        near[o], second[o] = a, _next_nearest(b, a)
        dn[o], ds[o] = b[a], b[second[o]]


@compiled
def removals(w, near, dn, ds, out):
    """What the loss grows by when a medoid goes and its points move to their second nearest."""
    out[:] = 0.0
    for o in range(w.size):
        out[near[o]] += w[o] * (np.float64(ds[o]) - np.float64(dn[o]))


@compiled
def best_swap(d, w, near, dn, ds, removal, change):
    """Change of the loss by the best swap of a candidate with dissimilarities d (m,), and the medoid that goes.

    Every point looks at its two nearest medoids only: it gains if the candidate is nearer than the first, and if the first
    goes it moves to the nearer of candidate and second. `change` (k,) is written.
    """
    change[:] = removal
    added = 0.0
    for o in range(d.size):
        if d[o] < ds[o]:
            if d[o] < dn[o]:
                added += w[o] * (np.float64(d[o]) - np.float64(dn[o]))
                change[near[o]] += w[o] * (np.float64(dn[o]) - np.float64(ds[o]))
            else:
                change[near[o]] += w[o] * (np.float64(d[o]) - np.float64(ds[o]))
    best = 0
    for i in range(1, change.size):
        if change[i] < change[best]:
            best = i
    return change[best] + added, best


@compiled
def _swap(d, slot, B, near, second, dn, ds):
    """Put a candidate with dissimilarities d in the place of a medoid. Returns how many points had to look at all medoids."""
    searched = 0
    for o in range(d.size):
        B[o, slot] = d[o]
        a, b = near[o], second[o]
        if d[o] < dn[o]:
            if a != slot:
                second[o], ds[o] = a, dn[o]
            near[o], dn[o] = slot, d[o]
        elif a == slot and d[o] <= ds[o]:
            dn[o] = d[o]
        elif b == slot and d[o] <= ds[o]:
            ds[o] = d[o]
        elif a == slot or b == slot:
            if a == slot:
                near[o], dn[o] = b, ds[o]
            second[o] = _next_nearest(B[o], near[o])
            ds[o] = B[o, second[o]]
            searched += 1
        elif d[o] < ds[o]:
            second[o], ds[o] = slot, d[o]
    return searched


@compiled
def search(D, w, medoids, taken, B, near, second, dn, ds, removal, change, progress, tol, most, effort):
    """Try candidates in turn, and swap at once where the loss falls by more than `tol`.

    progress int64 (4): the next candidate, candidates since the last swap, candidates in all, swaps. Ends when a whole round
    brought no swap, after `most` candidates in all, or when about `effort` numbers were looked at; call again to go on.
    """
    n, m = D.shape
    while effort > 0 and progress[1] < n and progress[2] < most:
        x = progress[0]
        effort -= 1
        if taken[x] == 0:
            gain, slot = best_swap(D[x], w, near, dn, ds, removal, change)
            effort -= m
            if gain < -tol:
                effort -= 4 * m + B.shape[1] * _swap(D[x], slot, B, near, second, dn, ds)
                taken[medoids[slot]], taken[x] = 0, 1
                medoids[slot] = x
                removals(w, near, dn, ds, removal)
                progress[1] = 0
                progress[3] += 1
        progress[0] = x + 1 if x + 1 < n else 0
        progress[1] += 1
        progress[2] += 1


@compiled
def savings(D, w, dn, start, stop, out):
    """What the loss falls by if a row becomes a medoid as well, for rows start ... stop."""
    for x in range(start, stop):
        total = 0.0
        for o in range(D.shape[1]):
            if D[x, o] < dn[o]:
                total += w[o] * (np.float64(dn[o]) - np.float64(D[x, o]))
        out[x] = total


@compiled
def costs(D, w, members, start, stop, out):
    """Sums of w[o] D[x, o] over the members of a cluster, for its members number start ... stop."""
    for i in range(start, stop):
        total = 0.0
        for j in range(members.size):
            total += w[members[j]] * np.float64(D[members[i], members[j]])
        out[i] = total

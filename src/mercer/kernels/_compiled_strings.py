"""Compiled passes over pairs of strings: the suffix automaton, gappy subsequences, runs of equal letters.

Strings are arrays of int64. Long ones are passed over in pieces, so that the interpreter is reached often enough.
"""

import numpy as np

from mercer.kernels._compiled import compiled

# Columns of `node`: the length of a state's longest word, the state of its longest suffix elsewhere, and perhaps edges.
LENGTH, LINK, FIRST = 0, 1, 2
BASE, COUNT = 0, 1  # columns of `value`
STATES, LAST = 0, 1  # places in the book of an automaton
_TINY = 1e-290  # what is smaller becomes 0: arithmetic with denormal numbers is slow


# ------------------------------------------------------------------------------------------------ the suffix automaton
# Letters are 0 ... base - 1. The edges of a state stand in its row of `node`, or, where that has no columns for them, in a hash
# table: `key` is state * base + letter, -1 where a slot is free, and `following` leads from `head` through a state's slots.


@compiled
def _slot(state, letter, base, key):
    """The slot of an edge, or the free one where it would stand."""
    mask, wanted = key.size - 1, state * base + letter
    h = np.uint64(wanted) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64((h ^ (h >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(33)) & mask
    while key[slot] >= 0 and key[slot] != wanted:
        slot = (slot + 1) & mask
    return slot


@compiled
def _goal(state, letter, base, node, key, goal):
    """Where an edge leads, or -1."""
    if node.shape[1] > FIRST:
        return np.int64(node[state, FIRST + letter])
    slot = _slot(state, letter, base, key)
    return np.int64(goal[slot]) if key[slot] >= 0 else np.int64(-1)


@compiled
def _lead(state, letter, to, base, node, key, goal, head, following):
    """Let an edge, new or old, lead somewhere."""
    if node.shape[1] > FIRST:
        node[state, FIRST + letter] = to
        return
    slot = _slot(state, letter, base, key)
    if key[slot] < 0:
        key[slot] = state * base + letter
        following[slot], head[state] = head[state], slot
    goal[slot] = to


@compiled
def _copy_edges(source, copy, base, node, key, goal, head, following):
    for j in range(FIRST, node.shape[1]):
        node[copy, j] = node[source, j]
    if node.shape[1] == FIRST:
        slot = np.int64(head[source])
        while slot >= 0:
            _lead(copy, key[slot] - source * base, goal[slot], base, node, key, goal, head, following)
            slot = np.int64(following[slot])


@compiled
def grow(s, first, stop, book, node, value, base, key, goal, head, following):
    """Append the letters s[first:stop] to the automaton (Blumer et al. 1985)."""
    for i in range(first, stop):
        c, new, p = s[i], book[STATES], book[LAST]
        book[STATES], book[LAST] = new + 1, new
        node[new, LENGTH], node[new, LINK], value[new, COUNT] = node[p, LENGTH] + 1, 0, 1.0
        q = np.int64(-1)
        while p >= 0:
            q = _goal(p, c, base, node, key, goal)
            if q >= 0:
                break
            _lead(p, c, new, base, node, key, goal, head, following)
            p = np.int64(node[p, LINK])
        if p < 0:
            continue
        if node[p, LENGTH] + 1 == node[q, LENGTH]:
            node[new, LINK] = q
            continue
        copy = book[STATES]
        book[STATES] = copy + 1
        node[copy, LENGTH], node[copy, LINK] = node[p, LENGTH] + 1, node[q, LINK]
        _copy_edges(q, copy, base, node, key, goal, head, following)
        while p >= 0 and _goal(p, c, base, node, key, goal) == q:
            _lead(p, c, copy, base, node, key, goal, head, following)
            p = np.int64(node[p, LINK])
        node[q, LINK] = node[new, LINK] = copy


@compiled
def by_length(node, starts, order):
    """States in the order of their lengths. `starts` is zero, with two places more than the largest length."""
    for v in range(order.size):
        starts[node[v, LENGTH] + 1] += 1
    for i in range(1, starts.size):
        starts[i] += starts[i - 1]
    for v in range(order.size):
        order[starts[node[v, LENGTH]]] = v
        starts[node[v, LENGTH]] += 1


@compiled
def settle(order, node, value, weight):
    """Occurrences of each state's words, and what must be added to occurrences times weight[l] for the sum of weight times
    occurrences over all suffixes of its word of length l. `weight` is cumulated."""
    for i in range(order.size - 1, 0, -1):
        v = order[i]
        if node[v, LINK] > 0:
            value[node[v, LINK], COUNT] += value[v, COUNT]
    value[0, BASE] = value[0, COUNT] = 0.0
    for i in range(1, order.size):
        v = order[i]
        p = node[v, LINK]
        value[v, BASE] = value[p, BASE] + (value[p, COUNT] - value[v, COUNT]) * weight[node[p, LENGTH]]


@compiled
def walk(t, first, stop, at, node, value, weight, base, key, goal):
    """Sum over the places t[first:stop] of what the substrings ending there share; `at` is (state, matched length)."""
    v, matched, total = at[0], at[1], 0.0
    for i in range(first, stop):
        c = t[i]
        to = np.int64(-1)
        if c >= 0:  # else a letter that the automaton does not know
            to = _goal(v, c, base, node, key, goal)
        while to < 0 and v > 0:
            v = np.int64(node[v, LINK]) if c >= 0 else np.int64(0)
            matched = np.int64(node[v, LENGTH])
            if c >= 0:
                to = _goal(v, c, base, node, key, goal)
        if to >= 0:
            v = to
            matched += 1
            total += value[v, BASE] + value[v, COUNT] * weight[matched]
    at[0], at[1] = v, matched
    return total


# ------------------------------------------------------------------------------------------------ subsequences with gaps
@compiled
def gappy(s, first, stop, t, decay, prefix):
    """Lodhi's recursion over the letters s[first:stop]; prefix[p, j] are the shares of subsequences of p letters that run
    up to the end of both prefixes. The shorter ones are updated last: the longer ones read what they were."""
    total, square = 0.0, decay * decay
    n = prefix.shape[0]
    for i in range(first, stop):
        c = s[i]
        for j in range(t.size):
            if t[j] == c:
                total += square * prefix[n - 1, j]
        for p in range(n - 1, 0, -1):
            run = 0.0
            for j in range(t.size):
                run *= decay
                if t[j] == c:
                    run += square * prefix[p - 1, j]
                value = decay * prefix[p, j + 1] + run
                prefix[p, j + 1] = value if value > _TINY else 0.0
    return total


# ------------------------------------------------------------------------------------------------ equal places
@compiled
def equal_runs(x, Y, value, out):
    """out[j] = the sum of value[r] over the runs of r equal places of x and Y[j]."""
    for j in range(Y.shape[0]):
        total, run = 0.0, 0
        for i in range(x.size):
            if x[i] == Y[j, i]:
                run += 1
            elif run:
                total += value[run]
                run = 0
        out[j] = total + value[run]

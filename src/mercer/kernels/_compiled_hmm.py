"""Compiled recursions of hidden Markov models, in log space. The rules of `mercer.engines._compiled` hold here too.

Each call runs over the steps start .. stop - 1, so that the caller may cut a long sequence into short calls.
"""

import math

import numpy as np

from mercer.kernels._compiled import compiled


@compiled
def _log_sum(values):
    top = -np.inf
    for v in values:
        if v > top:
            top = v
    if top == -np.inf:
        return top
    total = 0.0
    for v in values:
        total += math.exp(v - top)
    return top + math.log(total)


@compiled
def forward(emission, start_log, move_log, alpha, start, stop):
    """alpha[t, s] = log p(x_0 .. x_t, z_t = s), from log emissions (T, S)."""
    n_states = emission.shape[1]
    terms = np.empty(n_states)
    for t in range(start, stop):
        for s in range(n_states):
            if t == 0:
                alpha[t, s] = start_log[s] + emission[t, s]
                continue
            for r in range(n_states):
                terms[r] = alpha[t - 1, r] + move_log[r, s]
            alpha[t, s] = _log_sum(terms) + emission[t, s]


@compiled
def backward(emission, move_log, beta, start, stop):
    """beta[t, s] = log p(x_t+1 .. | z_t = s), for t from stop - 1 down to start."""
    n, n_states = emission.shape
    terms = np.empty(n_states)
    for t in range(stop - 1, start - 1, -1):
        for s in range(n_states):
            if t == n - 1:
                beta[t, s] = 0.0
                continue
            for r in range(n_states):
                terms[r] = move_log[s, r] + emission[t + 1, r] + beta[t + 1, r]
            beta[t, s] = _log_sum(terms)


@compiled
def moves(emission, move_log, alpha, beta, total, out, start, stop):
    """Add the expected numbers of moves from state to state at the steps start .. stop - 1 (of T - 1) to `out`."""
    n_states = emission.shape[1]
    for t in range(start, stop):
        for r in range(n_states):
            for s in range(n_states):
                out[r, s] += math.exp(alpha[t, r] + move_log[r, s] + emission[t + 1, s] + beta[t + 1, s] - total)


@compiled
def shared(x, y, start_log, move_log, alpha, start, stop):
    """One vector of forward logarithms along a path that emits both sequences; the shorter emits 1 after its end.

    x and y are log emissions (T, S) and (T', S), `alpha` (S,) is carried from call to call.
    """
    n_states = len(start_log)
    terms, new = np.empty(n_states), np.empty(n_states)
    for t in range(start, stop):
        for s in range(n_states):
            if t == 0:
                new[s] = start_log[s]
            else:
                for r in range(n_states):
                    terms[r] = alpha[r] + move_log[r, s]
                new[s] = _log_sum(terms)
            both = 0.0
            if t < x.shape[0]:
                both += x[t, s]
            if t < y.shape[0]:
                both += y[t, s]
            new[s] += both
        for s in range(n_states):
            alpha[s] = new[s]


@compiled
def affinity(pair, sizes, moves, alpha, room, first, last):
    """Sum over the states of several chains side by side, scaled at each step: alpha carries on, the logarithm returns.

    `alpha` (N,) begins as the product of the first states, the last chain running fastest; `pair` (N,) is what all chains
    emit together, `sizes` and `moves` (C, S, S) belong to the chains, `room` (N,) is working space.
    """
    log_total = 0.0
    for t in range(first, last):
        if t > 0:
            _move(sizes, moves, alpha, room)
        total = 0.0
        for i in range(len(alpha)):
            alpha[i] *= pair[i]
            total += alpha[i]
        if total == 0.0:
            return -np.inf
        for i in range(len(alpha)):
            alpha[i] /= total
        log_total += math.log(total)
    return log_total


@compiled
def _move(sizes, moves, alpha, room):
    """One step of every chain, one after the other: each moves along its own axis of alpha."""
    stride = 1
    for c in range(len(sizes) - 1, -1, -1):
        size = sizes[c]
        for base in range(0, len(alpha), size * stride):
            for s in range(size):
                for j in range(base, base + stride):
                    total = 0.0
                    for r in range(size):
                        total += alpha[j + r * stride] * moves[c, r, s]
                    room[j + s * stride] = total
        for i in range(len(alpha)):
            alpha[i] = room[i]
        stride *= size

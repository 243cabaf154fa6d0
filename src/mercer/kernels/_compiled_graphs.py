"""Compiled loops of trees and graphs: common tree fragments, refined labels, walks of product graphs, induced subgraphs.

Functions take C-contiguous arrays and scalars, hold no lock on the interpreter, and do a bounded part of the work: the caller
cuts it, so that an interrupt is seen.
"""

import numpy as np

from mercer.kernels._compiled import compiled
from mercer.kernels._compiled_codes import mixed_code


@compiled
def common_fragments(a, b, a_ptr, a_children, b_ptr, b_children, decay, C, start, stop):
    """Rows start ... stop of C, the weighted numbers of common fragments rooted at two nodes, and their sum.

    a and b are production codes, children before parents; equal codes have equally many children that are no leaves.
    """
    total = 0.0
    for i in range(start, stop):
        for j in range(b.size):
            C[i, j] = 0.0
            if a[i] == b[j]:
                value = decay
                for k in range(a_ptr[i + 1] - a_ptr[i]):
                    value *= 1.0 + C[a_children[a_ptr[i] + k], b_children[b_ptr[j] + k]]
                C[i, j] = value
                total += value
    return total


@compiled
def scramble(labels, start, stop, out):
    """Codes of nodes start ... stop as they are added up: a sum of scrambled codes, modulo 2^64, is the code of a multiset."""
    for i in range(start, stop):
        out[i] = mixed_code(labels[i])


@compiled
def add_neighbours(own, u, v, edge_codes, start, stop, around):
    """Add the scrambled codes of the neighbours, and of the edges to them where there are any, along edges start ... stop."""
    for e in range(start, stop):
        to_u, to_v = own[v[e]], own[u[e]]
        if edge_codes.size:
            to_u, to_v = mixed_code(to_u ^ edge_codes[e]), mixed_code(to_v ^ edge_codes[e])
        around[u[e]] += to_u
        if u[e] != v[e]:
            around[v[e]] += to_v


@compiled
def join(labels, around, start, stop, out):
    """Codes of nodes start ... stop of a round: of their labels before, and those around them."""
    for i in range(start, stop):
        out[i] = mixed_code(labels[i] + mixed_code(around[i]))  # not a plain sum: a node is no neighbour of its own


@compiled
def _step_of_walks(X, a_ptr, a_near, b_ptr, b_near, a, b, decay, Y):
    """X becomes decay A X B where the labels of a node pair agree, 0 elsewhere; Y is room for A X."""
    n, m = X.shape
    for i in range(n):
        for j in range(m):
            Y[i, j] = 0.0
        for k in range(a_ptr[i], a_ptr[i + 1]):
            for j in range(m):
                Y[i, j] += X[a_near[k], j]
    for i in range(n):
        for j in range(m):
            value = 0.0
            if a[i] == b[j]:
                for k in range(b_ptr[j], b_ptr[j + 1]):
                    value += Y[i, b_near[k]]
            X[i, j] = decay * value


@compiled
def walks(X, a_ptr, a_near, b_ptr, b_near, a, b, decay, bound, total, Y, steps):
    """(total with at most so many steps added, whether nothing is left to add); X goes on from step to step.

    `bound` is a factor by which the Euclidean norm of X falls at least; where it is below 1 the rest is a geometric series.
    """
    for _ in range(steps):
        _step_of_walks(X, a_ptr, a_near, b_ptr, b_near, a, b, decay, Y)
        norm = 0.0
        for i in range(X.shape[0]):
            for j in range(X.shape[1]):
                total += X[i, j]
                norm += X[i, j] * X[i, j]
        if norm == 0.0 or np.sqrt(norm * X.size) * bound <= 1e-16 * (1.0 - bound) * total:
            return total, True
    return total, False


@compiled
def _cubes(A, chosen, k):
    """Sum of the cubes of the degrees within some nodes: it tells all graphs of 3 or 4 nodes apart."""
    total = 0
    for p in range(k):
        degree = 0
        for q in range(k):
            if p != q and A[chosen[p], chosen[q]]:
                degree += 1
        total += degree * degree * degree
    return total


@compiled
def count_induced(A, k, first, second, counts):
    """Add the kinds of all sets of k nodes, k 3 or 4, whose two smallest are `first` and `second`."""
    n = A.shape[0]
    chosen = np.empty(4, np.int64)
    chosen[0], chosen[1] = first, second
    for c in range(second + 1, n):
        chosen[2] = c
        if k == 3:
            counts[_cubes(A, chosen, 3)] += 1
        else:
            for d in range(c + 1, n):
                chosen[3] = d
                counts[_cubes(A, chosen, 4)] += 1

"""The least that a cached Numba function can cost: what the first Gram matrix is compared with."""

import numpy as np
from numba import njit


@njit(cache=True)
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result


def call():
    return total(np.ones(10))

"""Compiled passes over pairs of strings: gappy subsequences, runs of equal letters.

Strings are arrays of int64. Long ones are passed over in pieces, so that the interpreter is reached often enough.
"""

from mercer.kernels._compiled import compiled

_TINY = 1e-290  # what is smaller becomes 0: arithmetic with denormal numbers is slow


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

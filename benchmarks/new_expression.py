"""Does a kernel expression that was never seen before cost more than a known one? Nothing should compile."""

import time

import numpy as np

from benchmarks.harness import benchmark, figures


def _trees():
    """Trees of different shapes over the same leaves."""
    from mercer.kernels import RBF, Chi2, Intersection, Laplacian, Linear, Matern, Polynomial

    a, b, c, e, f, g = RBF(3.0), Linear(), Matern(1.5, 3.0), Polynomial(2), Laplacian(4.0), Intersection()
    return [
        a + b * c,
        (a + b) * (c + 1.0),
        (2 * a + 0.1 * b**2) * f + g,
        (a * c).normalise() + 0.3 * e,
        (0.01 * b).exp() * a + c**3,
        a.poly([0.0, 1.0, 0.5, 0.25]) + f.gaussian(0.7) * b,
        (a + g.normalise()) * (c + 0.5 * f) + Chi2(0.1),
        (0.01 * e + f).tanh() + a.minimum(c) * b.maximum(g),
    ]


def _with_new_tables():
    from mercer.kernels import RBF, Linear, Matern

    return [Linear() + RBF(3.0) * Matern(nu, 3.0) for nu in (0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.7)]


@benchmark("a kernel expression seen for the first time against the second evaluation of it, 500 rows")
def new_expression(small):
    n = 60 if small else 500
    X = np.abs(np.random.default_rng(0).standard_normal((n, 20)))
    aims = {"new beyond known": 0.05}
    sizes = {"n": n, "d": 20, "dtype": "float64"}
    for (
        tree
    ) in _trees():  # every leaf alone once: loading compiled code from disk belongs to the first call of a process
        for leaf in tree._leaves:
            leaf(X)
    (2.0 * _trees()[0] + 1.0).tanh()(X)
    yield figures("new trees of known leaves", _seconds(_trees(), X), sizes=sizes, aims=aims)
    notes = "each tree holds a Matern kernel of a new order, whose table is made at first use"
    yield figures("new trees with a new table", _seconds(_with_new_tables(), X), sizes=sizes, aims=aims, notes=notes)


def _seconds(trees, X):
    found = {"new": [], "known": [], "new beyond known": []}
    for tree in trees:
        new, *known = (_time(tree, X) for _ in range(6))
        found["new"].append(new)
        found["known"].append(float(np.median(known)))
        found["new beyond known"].append(found["new"][-1] - found["known"][-1])
    return found


def _time(kernel, X):
    start = time.perf_counter()
    kernel(X)
    return time.perf_counter() - start

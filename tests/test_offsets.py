"""Large offsets: a stationary kernel does not see a common shift, and distances keep their digits far from the origin.

Rows lie on a grid of 2^-20, so that adding 2^26 is exact and the shifted Gram must be the unshifted one.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from cases import ENGINE_NAMES, close, kernel_cases
from mercer import kernels as mk
from mercer.gram import gram

OFFSET = 2.0**26
SMOOTH, KINKED = 1e-10, 1e-7


def on_grid(A):
    return np.round(A * 2**20) / 2**20


def grid_rows(n=40, d=3, seed=0):
    X = on_grid(np.random.default_rng(seed).random((n, d)))
    X[5], X[6] = X[4], X[4] + 2.0**-20  # equal rows, and rows one step of the grid apart
    return X


def kinked(k):
    """Whether the profile behaves like a distance, not like its square, near 0."""
    names = {type(leaf).__name__ for leaf in k._leaves}
    orders = [leaf.nu for leaf in k._leaves if isinstance(leaf, mk.Matern)]
    return bool(names & {"Laplacian"}) or any(nu <= 1 for nu in orders)


def stationary_kernels():
    """One of each stationary kernel of the cases, with the tolerance of its kind."""
    found = {}
    for case in kernel_cases():
        if (
            case.vectors and case.kernel.stationary and case.kernel.differentiable_inputs
        ):  # a window may flip at its edge
            found[repr(case.kernel)] = case.kernel
    return [
        *found.values(),
        mk.RBF([0.7, 1.1, 0.3]),
        mk.Matern(2.5, [0.7, 1.1, 0.3]),
        mk.Laplacian([0.7, 1.1, 0.3], metric="l1"),
    ]


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("kernel", stationary_kernels(), ids=str)
def test_common_offset(kernel, engine):
    X = grid_rows()
    k = kernel.resolve(X)
    expected = gram(k, X, engine="reference").dense()
    tolerance = KINKED if kinked(k) else SMOOTH
    close(gram(k, X + OFFSET, engine=engine).dense(), expected, tolerance)
    expected = gram(k, X[:9], X, engine="reference").dense()
    close(gram(k, X[:9] + OFFSET, X + OFFSET, engine=engine).dense(), expected, tolerance)


def test_stationary_kernels_are_here():
    names = {type(leaf).__name__ for k in stationary_kernels() for leaf in k._leaves}
    assert names >= {"RBF", "Matern", "RationalQuadratic", "InverseMultiquadric", "Multiquadric", "ThinPlate", "Periodic",
                     "Laplacian", "BSpline", "ANOVA", "Constant", "White"}  # fmt: skip


def two_clusters():
    X = grid_rows()
    return np.vstack([X, X[::-1] + OFFSET])


def direct(X, Y):
    """Squared distances by differences in extended precision."""
    D = X.astype(np.longdouble)[:, None] - Y.astype(np.longdouble)[None]
    return (D**2).sum(axis=-1)


PROFILES = [
    (mk.RBF(0.7), lambda s: np.exp(-s / (2 * np.longdouble(0.7) ** 2)), SMOOTH),
    (mk.RationalQuadratic(1.3), lambda s: (1 + s / np.longdouble(2.6)) ** -np.longdouble(1.3), SMOOTH),
    (mk.InverseMultiquadric(), lambda s: 1 / np.sqrt(1 + s), SMOOTH),
    (mk.Matern(2.5), lambda s: (1 + np.sqrt(5 * s) + 5 * s / 3) * np.exp(-np.sqrt(5 * s)), SMOOTH),
    (mk.Matern(1.5), lambda s: (1 + np.sqrt(3 * s)) * np.exp(-np.sqrt(3 * s)), SMOOTH),
    (mk.Laplacian(2.0), lambda s: np.exp(-np.sqrt(s) / 2), KINKED),
]


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize(
    ("kernel", "profile", "tolerance"), PROFILES, ids=lambda p: repr(p) if isinstance(p, mk.Kernel) else ""
)
def test_two_clusters_far_apart(kernel, profile, tolerance, engine):
    X = two_clusters()
    expected = profile(direct(X, X)).astype(float)
    close(gram(kernel, X, engine=engine).dense(), expected, tolerance)
    close(gram(kernel, X[:7], X, engine=engine).dense(), expected[:7], tolerance)


@pytest.mark.parametrize("kernel", stationary_kernels(), ids=str)
def test_two_clusters_equal_the_reference(kernel):
    X = two_clusters()
    k = kernel.resolve(grid_rows())
    expected = gram(k, X, engine="reference").dense()
    close(gram(k, X).dense(), expected, KINKED if kinked(k) else SMOOTH)


@pytest.mark.parametrize("kernel", [p[0] for p in PROFILES], ids=str)
def test_sparse_rows_far_from_the_origin(kernel):
    """Sparse rows are not centred; close pairs are recomputed by differences instead."""
    X = grid_rows()
    X[:, 1] = 0.0
    shift = np.array([OFFSET, 0.0, 0.0])
    expected = gram(kernel, X, engine="reference").dense()
    close(gram(kernel, sp.csr_array(X + shift)).dense(), expected, KINKED if kinked(kernel) else SMOOTH)
    both = np.vstack([X, X + shift])
    close(gram(kernel, sp.csr_array(both)).dense(), gram(kernel, both, engine="reference").dense(), KINKED)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("mean", [1e3, 1e8, -1e8])
def test_inner_products_are_exact_to_rounding(mean, engine, storage):
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((30, 5)) + mean, rng.standard_normal((20, 5)) + mean
    exact = X.astype(np.longdouble) @ Y.astype(np.longdouble).T
    bound = 5 * np.finfo(float).eps * (np.abs(X) @ np.abs(Y).T)
    K = gram(mk.Linear(), storage(X), storage(Y), engine=engine).dense()
    assert (np.abs(K - exact) <= bound).all()


def test_inner_products_stay_exact_beside_distances():
    """RBF + Linear share the product of the centred rows; the inner product is put back together from it."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 5)) + 1e6
    exact = X.astype(np.longdouble) @ X.astype(np.longdouble).T
    K = gram(mk.Linear() + 0.0 * mk.RBF(), X).dense()
    bound = 10 * np.finfo(float).eps * (np.abs(X) @ np.abs(X).T)
    assert (np.abs(K - exact) <= bound).all()


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_float32_offset(engine):
    """In float32 the grid is 2^-8 and the offset 2^12."""
    X = np.round(grid_rows() * 2**8).astype(np.float32) / np.float32(2**8)
    expected = gram(mk.RBF(0.7), X.astype(float), engine="reference").dense()
    K = gram(mk.RBF(0.7), X + np.float32(2**12), engine=engine).dense()
    assert K.dtype == np.float32
    close(K, expected, 1e-5)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("kernel", [mk.RBF(0.7), mk.Matern(1.5, [0.7, 1.1, 0.3]), mk.Laplacian(2.0)], ids=str)
def test_gradients_do_not_see_the_offset(kernel, engine):
    X = grid_rows()
    W = np.random.default_rng(1).standard_normal((len(X), len(X)))
    here, there = (gram(kernel, A, engine=engine) for A in (X, X + OFFSET))
    tolerance = 1e-5 if kinked(kernel) else 1e-8
    close(there.pullback_inputs(W), here.pullback_inputs(W), tolerance)
    for name, value in here.pullback(W).items():
        close(there.pullback(W)[name], value, tolerance)

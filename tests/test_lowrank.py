"""Randomly pivoted Cholesky: exact on matrices of low rank, its error bound, its distribution of pivots, and its limits."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from mercer.gram import GivenGram
from mercer.kernels import RBF, Linear, Spectrum
from mercer.linalg import rpcholesky, rpcholesky_simple

FORMS = [rpcholesky, rpcholesky_simple]


def low_rank(n, k, seed=0):
    B = np.random.default_rng(seed).standard_normal((n, k))
    return B @ B.T


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("form", FORMS)
def test_a_matrix_of_rank_k_needs_k_pivots(form):
    A = low_rank(60, 5)
    found = form(GivenGram(A), 60, rng=rng())
    assert len(found.pivots) == 5
    np.testing.assert_allclose(found.factor @ found.factor.T, A, atol=1e-10)
    assert found.residual == 0.0
    assert found.errors[-1] == 0.0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_residual_is_the_trace_of_what_is_left(form, dtype):
    X = rng(1).standard_normal((200, 3)).astype(dtype)
    found = form(RBF(1.0).gram(X), 40, rng=rng(2))
    K = RBF(1.0)(X.astype(np.float64))
    left = K - found.factor.astype(np.float64) @ found.factor.astype(np.float64).T
    scale = 1e-10 if dtype == np.float64 else 1e-3
    assert found.residual == pytest.approx(np.trace(left), rel=scale)
    assert found.error == pytest.approx(found.residual / 200, rel=1e-12)
    assert np.linalg.eigvalsh(left)[0] > -1e-4 * (1 if dtype == np.float32 else 1e-8)
    assert found.factor.dtype == dtype
    assert len(found.errors) == 41
    assert found.errors[0] == 1.0
    assert (np.diff(found.errors) < 0).all()
    np.testing.assert_allclose(left[found.pivots], 0.0, atol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_it_ends_at_the_tolerance_with_no_pivot_too_many(form):
    X = rng(1).standard_normal((300, 2))
    found = form(RBF(1.0).gram(X), 300, rng=rng(3), tol=0.01)
    assert found.error <= 0.01 < found.errors[-2]
    assert len(found.pivots) == found.factor.shape[1] == len(found.errors) - 1 < 100


@pytest.mark.parametrize("form", [*FORMS, partial(rpcholesky, block=2), partial(rpcholesky, block=5)])
def test_pivots_are_drawn_in_proportion_to_the_diagonal_that_is_left(form):
    """Two by two with a correlation: the second pivot's law follows by hand."""
    A = np.array([[4.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 2.0]])
    pairs = {}
    for seed in range(4000):
        first, second = form(GivenGram(A), 2, rng=rng(seed)).pivots
        pairs[first, second] = pairs.get((first, second), 0) + 1
    # After pivot 0 the diagonal is (0, 1, 2), after pivot 1 (2, 0, 2), after pivot 2 (4, 2, 0).
    law = {(0, 1): 1 / 6, (0, 2): 1 / 3, (1, 0): 1 / 8, (1, 2): 1 / 8, (2, 0): 1 / 6, (2, 1): 1 / 12}
    expected = np.array([law[p] * 4000 for p in law])
    observed = np.array([pairs.get(p, 0) for p in law])
    assert observed.sum() == 4000
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_both_forms_reach_the_same_error():
    X = rng(5).standard_normal((400, 4))
    K = RBF(2.0).gram(X)
    fast, slow = (np.array([f(K, 50, rng=rng(s)).error for s in range(40)]) for f in FORMS)
    spread = np.hypot(fast.std(), slow.std()) / np.sqrt(40)
    assert abs(fast.mean() - slow.mean()) < 4 * spread
    uniform = np.mean([_uniform_error(RBF(2.0)(X), rng(s).choice(400, 50, replace=False)) for s in range(10)])
    assert fast.mean() < uniform


def _uniform_error(K, index):
    C, W = K[:, index], K[np.ix_(index, index)]
    return 1 - np.trace(C @ np.linalg.solve(W + 1e-12 * np.eye(len(W)), C.T)) / np.trace(K)


def test_one_seed_is_one_answer_whatever_the_number_of_threads():
    from threadpoolctl import threadpool_limits

    K = RBF(1.0).gram(rng(6).standard_normal((5000, 3)))
    a = rpcholesky(K, 60, rng=rng(7))
    with threadpool_limits(1):
        b = rpcholesky(K, 60, rng=rng(7))
    assert np.array_equal(a.pivots, b.pivots)
    assert np.array_equal(a.factor, b.factor)


def test_any_kernel_will_do_and_repeated_rows_are_taken_once():
    words = ["abcab", "bcabc", "xyz", "abcab", "zzz", "xyz"]
    found = rpcholesky(Spectrum(2).gram(words), 6, rng=rng())
    assert {words[i] for i in found.pivots} == set(words)
    assert len(found.pivots) == 4
    X = np.repeat(rng(1).standard_normal((4, 2)), 5, axis=0)
    assert len(rpcholesky(RBF(1.0).gram(X), 20, rng=rng()).pivots) == 4


def test_zeros_and_more_pivots_than_rows():
    found = rpcholesky(GivenGram(np.zeros((4, 4))), 3, rng=rng())
    assert found.factor.shape == (4, 0)
    assert found.error == 0.0
    K = Linear().gram(rng(1).standard_normal((5, 9)))
    assert len(rpcholesky(K, 50, rng=rng(), block=200).pivots) == 5

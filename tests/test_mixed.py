"""The float32 factorisation refined to float64, in the memory of the matrix."""

import numpy as np
import pytest

from mercer.linalg import mixed, solve_mixed
from mercer.solvers import solve_ridge


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    monkeypatch.setattr(mixed, "SMALLEST", 1)


def problem(n, p=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1)), rng.standard_normal((n, p))


@pytest.mark.parametrize("n", [1, 2, 3, 50, 301])
@pytest.mark.parametrize("shift", [1e-2, 1.0])
def test_solves_to_float64(n, shift):
    K, B = problem(n)
    found = solve_mixed(K.copy(), B, shift)
    residual = B - (K + shift * np.eye(n)) @ found.value
    assert np.linalg.norm(residual) <= 1e-12 * np.linalg.norm(B)
    np.testing.assert_allclose(found.value, np.linalg.solve(K + shift * np.eye(n), B), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.state @ B, (K + shift * np.eye(n)) @ B, rtol=1e-12, atol=1e-12)


def test_the_upper_triangle_is_not_touched():
    K, B = problem(100)
    work = K.copy()
    solve_mixed(work, B, 0.1)
    np.testing.assert_array_equal(np.triu(work, 1), np.triu(K, 1))


@pytest.mark.parametrize("shift", [0.0, 1e-9])
def test_a_small_shift_is_left_to_float64(shift):
    K, B = problem(200)
    work = K.copy()
    assert solve_mixed(work, B, shift) is None
    np.testing.assert_array_equal(work, K)


def test_an_indefinite_matrix_comes_back_as_it_was():
    K, B = problem(80)
    K = K - 0.5 * np.ones((80, 80))
    work = K.copy()
    assert solve_mixed(work, B, 1e-3) is None
    np.testing.assert_array_equal(work, K)


def test_an_interrupt_leaves_the_matrix_as_it_was(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(mixed, "conjugate_gradient", interrupted)
    K, B = problem(80)
    work = K.copy()
    with pytest.raises(KeyboardInterrupt):
        solve_mixed(work, B, 1.0)
    np.testing.assert_array_equal(work, K)


@pytest.mark.parametrize("intercept", [False, True])
def test_ridge_gives_what_a_float64_factor_gives(intercept, monkeypatch):
    K, Y = problem(150)
    w = np.sqrt(np.random.default_rng(3).uniform(0.5, 2.0, 150))
    quick = solve_ridge(K.copy(), Y + 7.0, 0.3, w, intercept)
    monkeypatch.setattr(mixed, "SMALLEST", 10**9)
    plain = solve_ridge(K.copy(), Y + 7.0, 0.3, w, intercept)
    np.testing.assert_allclose(quick.coefficients, plain.coefficients, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(quick.intercept, plain.intercept, rtol=1e-11)
    assert quick.certificate < 1e-12
    assert not np.array_equal(quick.coefficients, plain.coefficients)  # the other path did run

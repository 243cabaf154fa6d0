"""Band form of a symmetric matrix, against dense inverses; and the mirrored tile."""

import numpy as np
import pytest

from mercer.engines import _compiled
from mercer.linalg import band_form


def gaussian_gram(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 3))
    return np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))


@pytest.mark.parametrize(("n", "width"), [(1, 4), (5, 1), (50, 7), (97, 48), (130, 64), (64, 64), (65, 64)])
def test_band_form_reproduces_the_matrix(n, width):
    K = gaussian_gram(n)
    form = band_form(K.copy(), width)
    B = np.zeros((n, n))
    start = 0
    for k, block in enumerate(form.diagonal):
        here = slice(start, start + len(block))
        B[here, here] = block
        if k < len(form.below):
            below = slice(here.stop, here.stop + len(form.below[k]))
            B[below, here], B[here, below] = form.below[k], form.below[k].T
        start = here.stop
    np.testing.assert_allclose(form.Q @ form.Q.T, np.eye(n), atol=1e-13)
    np.testing.assert_allclose(form.Q @ B @ form.Q.T, K, atol=1e-13 * n)


@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 10.0])
@pytest.mark.parametrize(("n", "width"), [(1, 4), (60, 7), (97, 48), (130, 64)])
def test_shifted_solves_and_inverse_diagonals(n, width, alpha):
    K = gaussian_gram(n)
    B = np.random.default_rng(1).standard_normal((n, 3))
    shifted = band_form(K.copy(), width).shifted(alpha)
    M = K + alpha * np.eye(n)
    bound = 50 * np.linalg.cond(M) * np.finfo(float).eps
    np.testing.assert_allclose(
        shifted.solve(B), np.linalg.solve(M, B), rtol=0, atol=bound * np.abs(np.linalg.solve(M, B)).max()
    )
    np.testing.assert_allclose(shifted.diag_inverse(step=32), np.diag(np.linalg.inv(M)), rtol=bound)


def test_a_shift_that_leaves_the_matrix_indefinite_is_an_error():
    K = np.diag([1.0, -1.0, 2.0])
    with pytest.raises(np.linalg.LinAlgError):
        band_form(K, 1).shifted(0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "rows", "columns"), [(1, 4, 4), (8, 8, 8), (37, 8, 16), (100, 64, 100), (77, 24, 10)])
def test_mirrored_tiles_make_the_matrix_symmetric(dtype, n, rows, columns):
    A = np.random.default_rng(0).standard_normal((n, n)).astype(dtype)
    expected = np.triu(A) + np.triu(A, 1).T
    for i in range(0, n, rows):
        for j in range(i, n, columns):
            _compiled.mirror_tile(A, i, min(i + rows, n), j, min(j + columns, n))
    np.testing.assert_array_equal(A, expected)


@pytest.mark.parametrize("rows", [3, 8, 12, 16, 20, 24, 32])
def test_a_mirrored_tile_touches_no_other(rows):
    A = np.arange(60.0 * 60.0).reshape(60, 60)
    expected = A.copy()
    expected[:, :rows] = np.triu(A)[:rows].T + np.triu(A, 1)[:, :rows]
    _compiled.mirror_tile(A, 0, rows, 0, 60)
    np.testing.assert_array_equal(A, expected)

"""mercer.linalg against dense NumPy oracles and closed forms."""

import doctest
import importlib
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import mercer.linalg
from mercer.errors import NanError, NotPSDError, NotSymmetricError, NumericalWarning
from mercer.linalg import (
    Status,
    conjugate_gradient,
    power_eigenpairs,
    run_interruptibly,
    safe_cholesky,
    smallest_eigenvalue,
    top_eigenpairs,
)
from mercer.linalg.cg import _dots
from mercer.linalg.inplace import factor_block, invert_triangle

RTOL = {"float64": 1e-10, "float32": 2e-3}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The matrices are small, and the thread pools of numpy and scipy spin against each other on a busy machine."""
    with threadpool_limits(1):
        yield


def positive_definite(n, seed=0, dtype="float64", ridge=1.0):
    G = np.random.default_rng(seed).standard_normal((n, n))
    return (G @ G.T / n + ridge * np.eye(n)).astype(dtype)


def with_spectrum(values, seed=0):
    n = len(values)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    K = (Q * values) @ Q.T
    return (K + K.T) / 2


def gaussian(n, lengthscale, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 3))
    s = (X**2).sum(1)[:, None] + (X**2).sum(1) - 2 * X @ X.T
    return np.exp(-np.maximum((s + s.T) / 2, 0) / (2 * lengthscale**2))


def hilbert(n):
    i = np.arange(n)
    return 1.0 / (i[:, None] + i + 1)


class Counted:
    """An operator that knows nothing but @, and counts."""

    def __init__(self, K):
        self.K, self.shape, self.dtype, self.applications = K, K.shape, K.dtype, 0

    def __matmul__(self, V):
        self.applications += 1
        return self.K @ V


# The layer itself


def test_all_is_sorted_and_importable():
    names = mercer.linalg.__all__
    assert names == sorted(names)
    assert all(hasattr(mercer.linalg, name) for name in names)


@pytest.mark.parametrize("module", ["cg", "cholesky", "eigen", "factor", "records", "waiting"])
def test_examples(module):
    module = importlib.import_module(f"mercer.linalg.{module}")
    result = doctest.testmod(module, extraglobs={"np": np})
    assert result.attempted > 0
    assert result.failed == 0


def test_imports_nothing_above():
    folder = Path(mercer.linalg.__file__).parent
    lines = [line for file in folder.glob("*.py") for line in file.read_text().splitlines()]
    roots = {line.split()[1] for line in lines if line.lstrip().startswith(("import ", "from "))}
    ours = {root for root in roots if root.startswith(("mercer", "sklearn"))}
    assert {root for root in ours if not root.startswith("mercer.linalg.")} == {
        "mercer.errors",
        "mercer.tensors",
        "mercer.threads",
    }


def test_every_status_has_advice():
    assert len({status.advice for status in Status}) == len(Status) == 4


# Cholesky


@pytest.mark.parametrize("block", [None, 64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_factor_agrees_with_numpy(dtype, order, block):
    K = positive_definite(300, dtype=dtype)
    b, B = np.ones(300, dtype=dtype), np.random.default_rng(1).standard_normal((300, 7)).astype(dtype)
    factor = safe_cholesky(np.array(K, order=order), block=block)
    exact, rtol = K.astype(float), RTOL[dtype]
    L = np.linalg.cholesky(exact)
    assert (factor.n, factor.jitter, factor.method) == (300, 0.0, "cholesky")
    assert factor.solve(b).dtype == dtype
    for R in (b, B, B[:, :0], np.asfortranarray(B), B[:, ::-1]):
        np.testing.assert_allclose(factor.solve(R), np.linalg.solve(exact, R), rtol, rtol)
        np.testing.assert_allclose(factor.solve_triangular(R), np.linalg.solve(L, R), rtol, rtol)
        np.testing.assert_allclose(factor.solve_triangular(R, trans=True), np.linalg.solve(L.T, R), rtol, rtol)
        np.testing.assert_allclose(factor.multiply(R), exact @ R, rtol, rtol)
    np.testing.assert_allclose(factor.logdet(), np.linalg.slogdet(exact)[1], rtol)
    np.testing.assert_allclose(factor.diag_inverse(), np.diag(np.linalg.inv(exact)), rtol)


@pytest.mark.parametrize("block", [1, 7, 64, 299, 300, 1000])
def test_blocked_equals_lapack(block):
    K = positive_definite(300)
    blocked, lapack = safe_cholesky(K, block=block), safe_cholesky(K)
    np.testing.assert_allclose(np.tril(blocked.array), np.tril(lapack.array), rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(np.triu(blocked.array, 1), np.triu(K, 1))


def test_blocked_by_itself_beyond_one_call(monkeypatch):
    monkeypatch.setattr("mercer.linalg.cholesky.ONE_CALL", 100)
    monkeypatch.setattr("mercer.linalg.cholesky.FLOPS_PER_CALL", 1e6)  # several row steps per block
    K = positive_definite(900)
    np.testing.assert_allclose(np.tril(safe_cholesky(K).array), np.linalg.cholesky(K), rtol=1e-12, atol=1e-14)


def test_diag_inverse_over_several_panels():
    K = positive_definite(700)
    np.testing.assert_allclose(safe_cholesky(K).diag_inverse(), np.diag(np.linalg.inv(K)), rtol=1e-12)


@pytest.mark.parametrize("shift", [0.5, np.linspace(0.1, 2.0, 50)])
def test_shift_is_added_to_the_diagonal(shift):
    K = positive_definite(50)
    shifted, b = K + np.diag(np.broadcast_to(shift, 50)), np.arange(50.0)
    factor = safe_cholesky(K, shift=shift)
    np.testing.assert_allclose(factor.solve(b), np.linalg.solve(shifted, b), rtol=1e-12)
    np.testing.assert_allclose(factor.multiply(b), shifted @ b, rtol=1e-12)


def test_input_is_left_alone_unless_overwrite():
    K = positive_definite(60)
    copy = K.copy()
    safe_cholesky(K, shift=1.0)
    np.testing.assert_array_equal(K, copy)
    assert safe_cholesky(K, overwrite=True).array is K
    F = np.asfortranarray(copy)
    assert np.shares_memory(safe_cholesky(F, overwrite=True).array, F)


@pytest.mark.parametrize(
    "change",
    [
        lambda K: _read_only(K),
        lambda K: np.kron(K, np.ones((2, 2)))[::2, ::2],
        lambda K: K.astype(">f8"),
        lambda K: K.astype(np.longdouble),
        lambda K: K.tolist(),
    ],
    ids=["read-only", "strided", "big-endian", "longdouble", "list"],
)
def test_unusual_arrays_are_copied(change):
    K = positive_definite(40)
    other = change(K.copy())
    factor = safe_cholesky(other, overwrite=True)
    np.testing.assert_allclose(factor.solve(np.ones(40)), np.linalg.solve(K, np.ones(40)), rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(other), K)


def _read_only(K):
    K.flags.writeable = False
    return K


def test_integers_and_one_by_one():
    assert safe_cholesky([[4]]).solve([8.0]) == [2.0]
    assert safe_cholesky(np.eye(3, dtype=np.float16)).array.dtype == np.float32


@pytest.mark.parametrize(
    "K", [hilbert(40), np.ones((30, 30)), np.diag([1.0, 0.0, 2.0])], ids=["hilbert", "ones", "zero row"]
)
def test_singular_matrices_get_a_little_jitter(K):
    with pytest.warns(NumericalWarning, match="added to its diagonal"):
        factor = safe_cholesky(K)
    n = len(K)
    assert factor.method == "cholesky"
    assert 0 < factor.jitter <= 1e-9 * np.trace(K) / n * 1.01
    b = K @ np.ones(n)
    x = factor.solve(b)
    # (K + jitter I) x = b, so the residual with K itself is jitter x, plus rounding.
    assert np.linalg.norm(b - K @ x - factor.jitter * x) <= 1e-12 * np.linalg.norm(b)
    assert np.isfinite(factor.diag_inverse()).all()


def test_rank_one_keeps_a_true_residual():
    v = np.random.default_rng(0).standard_normal(80)
    factor = safe_cholesky(np.outer(v, v), warn=False)
    x = factor.solve(v)
    assert np.linalg.norm(np.outer(v, v) @ x - v) <= 1e-6 * np.linalg.norm(v)


def test_warning_can_be_silenced_and_jitter_stays():
    assert safe_cholesky(np.ones((5, 5)), warn=False).jitter > 0


@pytest.mark.parametrize("block", [None, 16])
@pytest.mark.parametrize("smallest", [-3e-10, -3e-7, -3e-5])
def test_restored_after_failed_rungs(smallest, block):
    """After up to seven failed attempts in place, the factor is that of K + jitter I and of nothing else."""
    K = with_spectrum(np.r_[smallest, np.linspace(0.5, 1.5, 99)])
    A, b = K.copy(), np.ones(100)
    factor = safe_cholesky(A, overwrite=True, block=block, warn=False)
    mean = np.trace(K) / 100
    assert factor.method == "cholesky"
    assert -smallest < factor.jitter <= -11 * smallest
    assert np.log10(factor.jitter / mean) == pytest.approx(round(np.log10(factor.jitter / mean)), abs=1e-9)
    np.testing.assert_allclose(factor.solve(b), np.linalg.solve(K + factor.jitter * np.eye(100), b), rtol=1e-4)
    L = np.tril(factor.array)
    np.testing.assert_allclose(L @ L.T, K + factor.jitter * np.eye(100), atol=1e-14)
    np.testing.assert_allclose(factor.multiply(b), K @ b, atol=1e-13)


def test_float32_ladder():
    K = gaussian(200, 5.0).astype(np.float32)
    with pytest.warns(NumericalWarning, match="float32"):
        factor = safe_cholesky(K)
    assert 1e-6 * 0.99 <= factor.jitter <= 1e-3 * 1.01
    assert factor.solve(np.ones(200)).dtype == np.float32


def test_indefinite_is_clipped_and_reported():
    values = np.r_[-0.5, np.linspace(0.5, 1.5, 59)]
    K = with_spectrum(values)
    with pytest.warns(NumericalWarning, match="not positive semi-definite"):
        factor = safe_cholesky(K, overwrite=True)
    assert factor.method == "eigen"
    assert factor.jitter == pytest.approx(0.5)
    L = np.tril(factor.array)
    w, Q = np.linalg.eigh(with_spectrum(values))
    np.testing.assert_allclose(L @ L.T, (Q * np.maximum(w, 0)) @ Q.T, atol=1e-12)
    assert factor.logdet() == pytest.approx(np.log(w[1:]).sum() + np.log(60 * np.finfo(float).eps * w[-1]), rel=1e-3)
    np.testing.assert_allclose(factor.multiply(np.eye(60)), with_spectrum(values), atol=1e-14)


def test_clip_over_several_tiles(monkeypatch):
    monkeypatch.setattr("mercer.linalg.cholesky.TILE", 16)
    K = with_spectrum(np.r_[-0.5, np.linspace(0.5, 1.5, 59)])
    L = np.tril(safe_cholesky(K, warn=False).array)
    assert np.linalg.eigvalsh(L @ L.T)[1] == pytest.approx(0.5)


@pytest.mark.parametrize(("values", "hint"), [([-0.5], "is the kernel"), ([-2e-9], "duplicate rows")])
def test_error_estimates_the_smallest_eigenvalue(values, hint, monkeypatch):
    monkeypatch.setitem(mercer.linalg.cholesky.JITTERS, "d", [1e-10])
    K = with_spectrum(np.r_[values, np.linspace(0.5, 1.5, 59)])
    A = K.copy()
    with pytest.raises(
        NotPSDError, match=f"smallest eigenvalue {values[0]:.0e}|smallest eigenvalue {values[0]:.3g}"
    ) as error:
        safe_cholesky(A, overwrite=True, shift=0.0, max_clip=0)
    assert hint in str(error.value)
    np.testing.assert_array_equal(A, K)
    assert isinstance(error.value, np.linalg.LinAlgError)


def test_input_restored_on_error_with_shift():
    K = with_spectrum(np.r_[-5.0, np.linspace(0.5, 1.5, 59)])
    A = K.copy()
    with pytest.raises(NotPSDError):
        safe_cholesky(A, shift=0.1, overwrite=True, max_clip=0)
    np.testing.assert_array_equal(A, K)


def test_input_restored_on_interrupt(monkeypatch):
    calls = []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("mercer.linalg.cholesky.subtract_square", interrupted)
    K = positive_definite(100)
    A = K.copy()
    with pytest.raises(KeyboardInterrupt):
        safe_cholesky(A, overwrite=True, block=20)
    np.testing.assert_array_equal(A, K)


@pytest.mark.parametrize("K", [np.zeros((3, 3)), -np.eye(3)])
def test_nothing_positive_is_an_error(K):
    with pytest.raises(NotPSDError):
        safe_cholesky(K)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [(0, 0), (3, 700), (700, 3)])
def test_nan_and_infinity(value, where):
    K = np.eye(800)
    K[where] = value
    with pytest.raises(NanError):
        safe_cholesky(K)


def test_nan_in_shift():
    with pytest.raises(NanError, match="shift"):
        safe_cholesky(np.eye(3), shift=[0.0, np.nan, 0.0])


@pytest.mark.parametrize("where", [(0, 1), (3, 700), (700, 3), (798, 799)])
def test_asymmetry(where):
    K = positive_definite(800)
    K[where] += 1e-10
    with pytest.raises(NotSymmetricError, match="1e-10"):
        safe_cholesky(K)
    K[where] -= 1e-10 - 1e-15  # rounding is forgiven
    safe_cholesky(K)


@pytest.mark.parametrize("K", [np.ones((2, 3)), np.ones(4), np.ones((0, 0)), np.eye(2) * 1j, np.array([["a"]])])
def test_not_a_square_matrix(K):
    with pytest.raises(ValueError, match="square matrix"):
        safe_cholesky(K)


def test_wrong_right_hand_side():
    with pytest.raises(ValueError, match="3 rows"):
        safe_cholesky(np.eye(3)).solve(np.ones(4))


@pytest.mark.parametrize("smallest", [0.5, -3e-7], ids=["plain", "after rungs"])
def test_overwrite_needs_no_second_matrix(smallest):
    n = 1500
    K = positive_definite(n, ridge=0.0)
    K += (smallest - np.linalg.eigvalsh(K)[0]) * np.eye(n)
    tracemalloc.start()
    try:
        factor = safe_cholesky(K, overwrite=True, block=128, warn=False)
        cholesky = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        factor.logdet(), factor.solve(np.ones(n)), factor.multiply(np.ones(n))
        rest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert factor.method == "cholesky"
    assert cholesky < 0.05 * 8 * n**2
    assert rest < 0.1 * 8 * n**2


# Waiting


INTERRUPT = """
import signal, time
from mercer.linalg import run_interruptibly
def alarm(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.3)
start = time.perf_counter()
try:
    run_interruptibly(signal.sigwait, [signal.SIGUSR2], seconds_predicted=100)   # a foreign call that no signal ends
except KeyboardInterrupt:
    print(time.perf_counter() - start - 0.3)
"""


def test_interrupt_during_a_foreign_call():
    done = subprocess.run([sys.executable, "-c", INTERRUPT], capture_output=True, text=True, timeout=30, check=True)
    assert float(done.stdout) < 10  # ten times the promise


def test_result_and_error_come_through_the_helper():
    assert run_interruptibly(threading.current_thread, seconds_predicted=2) is not threading.main_thread()
    assert run_interruptibly(threading.current_thread, seconds_predicted=0.5) is threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(divmod, 1, 0, seconds_predicted=2)
    with np.errstate(divide="ignore"):
        assert run_interruptibly(np.log, np.zeros(1), seconds_predicted=2) == -np.inf


def test_direct_outside_the_main_thread():
    seen = []
    thread = threading.Thread(
        target=lambda: seen.append(run_interruptibly(threading.current_thread, seconds_predicted=9))
    )
    thread.start()
    thread.join()
    assert seen == [thread]


def test_long_calls_release_the_gil():
    """Otherwise waiting in another thread would be in vain, as it is for scipy's own wrappers."""
    factor, B = safe_cholesky(positive_definite(1000)), np.ones((1000, 4000))
    K = positive_definite(2000)
    for call in (lambda: factor.solve(B), lambda: factor_block(K), lambda: np.linalg.eigh(K[:800, :800])):
        helper = threading.Thread(target=call)
        ticks, start = [], time.perf_counter()
        helper.start()
        while helper.is_alive():
            time.sleep(0.001)
            ticks.append(time.perf_counter())
        total = ticks[-1] - start
        assert max(np.diff([start, *ticks])) < 0.5 * total + 0.02


# Conjugate gradients


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cg_solves_many_right_hand_sides(dtype):
    K = positive_definite(200, dtype=dtype)
    B = np.random.default_rng(1).standard_normal((200, 5)).astype(dtype)
    B[:, 1] = 0
    B[:, 2] *= np.float32(1e-30)
    rtol = 1e-10 if dtype == "float64" else 1e-5
    solution = conjugate_gradient(K, B, rtol=rtol)
    assert solution.status is Status.CONVERGED
    assert solution.value.dtype == dtype
    exact = np.linalg.solve(K.astype(float), B.astype(float))
    scale = np.linalg.norm(exact, axis=0) + (np.arange(5) == 1)
    assert (np.linalg.norm(solution.value - exact, axis=0) <= 10 * rtol * scale).all()
    certificate = (np.linalg.norm(B - K @ solution.value, axis=0) / scale).max()
    assert certificate / 10 <= solution.certificate <= rtol


def test_cg_one_vector_and_tiny_numbers():
    K = positive_definite(50)
    for size in (1.0, 1e-250, 1e250):
        solution = conjugate_gradient(K, np.full(50, size), rtol=1e-12)
        np.testing.assert_allclose(solution.value, np.linalg.solve(K, np.full(50, size)), rtol=1e-9)
        assert solution.value.shape == (50,)
        assert 0 < solution.certificate <= 1e-12


def test_cg_ends_after_as_many_steps_as_eigenvalues():
    K = with_spectrum(np.repeat([1.0, 3.0, 10.0], 20))
    assert conjugate_gradient(K, np.ones(60), rtol=1e-10).iterations == 3


def test_cg_applies_once_per_iteration_and_freezes_columns():
    K = with_spectrum(np.linspace(1, 100, 60))
    B = np.c_[np.linalg.eigh(K)[1][:, 0], np.ones(60)]  # one step for the first column, many for the second
    widths = []

    class Watched(Counted):
        def __matmul__(self, V):
            widths.append(V.shape[1])
            return super().__matmul__(V)

    A = Watched(K)
    solution = conjugate_gradient(A, B, check_every=1000)
    assert A.applications == solution.iterations + 1  # the true residual at the end
    assert widths.count(1) == solution.iterations - widths[:-1].count(2)
    assert widths[:-1].count(2) < 5 < widths.count(1)


def test_cg_preconditioner_saves_iterations():
    K = gaussian(300, 1.0) + 1e-3 * np.eye(300)
    b = np.ones(300)
    plain = conjugate_gradient(K, b)
    factor = safe_cholesky(gaussian(300, 1.0), shift=2e-3)
    for preconditioner in (factor, factor.solve):
        helped = conjugate_gradient(K, b, preconditioner=preconditioner)
        assert helped.status is Status.CONVERGED
        assert helped.iterations < plain.iterations / 4
        np.testing.assert_allclose(K @ helped.value, b, rtol=1e-6)


def test_cg_start_and_atol():
    K, b = positive_definite(40), np.ones(40)
    exact = np.linalg.solve(K, b)
    assert conjugate_gradient(K, b, x0=exact).iterations == 0
    assert conjugate_gradient(K, b, rtol=0.0, atol=100.0).iterations == 0
    assert conjugate_gradient(K, b, x0=exact + 1e-3).iterations > 0
    loose = conjugate_gradient(K, b, rtol=0.0, atol=1e-3)
    assert 1e-7 < np.linalg.norm(b - K @ loose.value) <= 1e-3


@pytest.mark.parametrize("first", [1, 37, 50, 99])
def test_cg_resumes_bit_identically(first):
    K = gaussian(400, 0.8) + 1e-6 * np.eye(400)
    B = np.random.default_rng(0).standard_normal((400, 3))
    whole = conjugate_gradient(K, B, max_iter=100, check_every=20)
    half = conjugate_gradient(K, B, max_iter=first, check_every=20)
    rest = conjugate_gradient(K, B, max_iter=100 - first, check_every=20, state=half.state)
    again = conjugate_gradient(
        K, B, max_iter=100 - first, check_every=20, state=half.state
    )  # the state was not used up
    assert whole.status is half.status is rest.status is Status.MAX_ITER
    assert (half.iterations, rest.iterations) == (first, 100)
    np.testing.assert_array_equal(rest.value, whole.value)
    np.testing.assert_array_equal(again.value, whole.value)


def test_cg_cap_is_finite_and_certificate_true():
    K = gaussian(500, 0.5) + 1e-9 * np.eye(500)
    b = np.random.default_rng(0).standard_normal(500)
    solution = conjugate_gradient(K, b, max_iter=30)
    assert (solution.status, solution.iterations) == (Status.MAX_ITER, 30)
    assert solution.certificate == pytest.approx(np.linalg.norm(b - K @ solution.value) / np.linalg.norm(b), rel=1e-6)
    assert conjugate_gradient(hilbert(20), np.ones(20), rtol=1e-15).iterations <= 200


@pytest.mark.parametrize("K", [np.diag([1.0, -1.0, 2.0]), np.zeros((3, 3)), np.diag([-1.0, -1.0, -2.0])])
def test_cg_names_indefinite_operators(K):
    solution = conjugate_gradient(K, np.array([1.0, 1.0, 0.5]))
    assert solution.status is Status.NOT_POSITIVE_DEFINITE
    assert np.isfinite(solution.value).all()


def test_cg_stagnates_below_rounding():
    K = with_spectrum(np.logspace(-8, 0, 100)).astype(np.float32) + np.float32(1e-3) * np.eye(100, dtype=np.float32)
    b = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    solution = conjugate_gradient(K, b, rtol=1e-12, max_iter=100_000)
    assert solution.status is Status.STAGNATED
    assert solution.iterations < 3000
    assert 1e-12 < solution.certificate < 1e-2
    assert solution.certificate == pytest.approx(np.linalg.norm(b - K @ solution.value) / np.linalg.norm(b), rel=1e-2)


def test_cg_does_not_believe_its_recurrence():
    """An operator that rounds coarsely: the recurrence converges, the true residual does not."""

    class Coarse(Counted):
        def __matmul__(self, V):
            return super().__matmul__(V.astype(np.float16).astype(float))

    A, b = Coarse(positive_definite(100)), np.ones((100, 1))
    solution = conjugate_gradient(A, b, rtol=1e-10)
    assert solution.status is Status.STAGNATED
    assert solution.certificate > 1e-6
    early = conjugate_gradient(A, b, rtol=1e-10, max_iter=20, check_every=1000)
    assert early.status is Status.MAX_ITER
    assert early.certificate == pytest.approx(np.linalg.norm(b - A @ early.value) / 10, rel=1e-9)


def test_cg_adds_float32_in_float64():
    v = np.full((300_000, 1), 0.1, dtype=np.float32)
    np.testing.assert_allclose(_dots(v, v), 300_000 * float(v[0, 0]) ** 2, rtol=1e-9)


def test_cg_nan_is_an_error():
    K = positive_definite(10)
    with pytest.raises(NanError, match="right-hand side"):
        conjugate_gradient(K, np.full(10, np.nan))
    K[3, 3] = np.nan
    with pytest.raises(NanError, match="operator"):
        conjugate_gradient(K, np.ones(10))


def test_cg_callback_sees_relative_residuals():
    seen = []
    solution = conjugate_gradient(
        positive_definite(50), 1e5 * np.ones((50, 2)), callback=lambda i, r: seen.append((i, r))
    )
    assert [i for i, _ in seen] == list(range(1, solution.iterations + 1))
    assert seen[-1][1].shape == (2,)
    assert seen[-1][1].max() == pytest.approx(solution.certificate, rel=1e-3)


# Eigenpairs


def check_pairs(K, pairs, k, tol=1e-6, atol=1e-8):
    w = np.linalg.eigvalsh(K)[::-1]
    np.testing.assert_allclose(pairs.values, w[:k], atol=atol * max(w[0], 1e-300))
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-10)
    residuals = np.linalg.norm(K @ pairs.vectors - pairs.vectors * pairs.values, axis=0) / (abs(w[0]) or 1)
    np.testing.assert_allclose(pairs.residuals, residuals, atol=1e-12)
    assert residuals.max() <= tol
    assert pairs.status is Status.CONVERGED
    assert (np.diff(pairs.values) <= 0).all()
    assert (pairs.vectors.max(axis=0) >= -pairs.vectors.min(axis=0)).all()


@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("lengthscale", [0.3, 1.0])
def test_top_eigenpairs_of_a_gaussian_gram(k, lengthscale):
    K = gaussian(700, lengthscale)
    A = Counted(K)
    pairs = top_eigenpairs(A, k, rng=np.random.default_rng(0))
    check_pairs(K, pairs, k)
    assert A.applications == pairs.iterations < 25


@pytest.mark.parametrize(("n", "k"), [(1, 1), (30, 1), (30, 30), (600, 600), (600, 151)])
def test_top_eigenpairs_dense(n, k):
    K = positive_definite(n)
    A = Counted(K)
    check_pairs(K, top_eigenpairs(A, k, rng=np.random.default_rng(0)), k)
    assert A.applications == 1


def test_slow_spectrum_needs_restarts():
    K = with_spectrum(np.r_[np.linspace(0.9, 1.0, 20), np.linspace(0, 0.89, 580)])
    check_pairs(K, top_eigenpairs(K, 5, rng=np.random.default_rng(0), max_basis=40), 5)


def test_largest_means_algebraic():
    K = with_spectrum(np.r_[-10.0, -9.0, np.linspace(0, 2, 598)])
    check_pairs(K, top_eigenpairs(K, 3, rng=np.random.default_rng(0)), 3)
    negative = with_spectrum(-np.r_[1.0, 2.0, np.linspace(5, 20, 598)])
    np.testing.assert_allclose(top_eigenpairs(negative, 2, rng=np.random.default_rng(0)).values, [-1, -2], rtol=1e-8)


@pytest.mark.parametrize("copies", [2, 6, 50])
def test_equal_eigenvalues(copies):
    K = with_spectrum(np.r_[3.0, np.full(copies, 2.0), np.linspace(0, 1, 599 - copies)])
    check_pairs(K, top_eigenpairs(K, 7, rng=np.random.default_rng(0)), 7)


@pytest.mark.parametrize("rank", [0, 1, 4])
def test_rank_deficient_operator(rank):
    K = with_spectrum(np.r_[np.arange(1.0, rank + 1), np.zeros(600 - rank)])
    check_pairs(K, top_eigenpairs(K, 6, rng=np.random.default_rng(0)), 6, atol=1e-12)


def test_identity_and_projection():
    for K in (np.eye(600), np.diag(np.r_[np.ones(300), np.zeros(300)])):
        check_pairs(K, top_eigenpairs(K, 12, rng=np.random.default_rng(0)), 12)


def test_eigenpairs_float32():
    K = gaussian(600, 1.0)
    pairs = top_eigenpairs(K.astype(np.float32), 4, rng=np.random.default_rng(0), tol=1e-5)
    assert pairs.vectors.dtype == np.float32
    np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(K)[:-5:-1], rtol=1e-5)


def test_eigenpairs_cap():
    K = with_spectrum(np.linspace(1, 2, 600))
    pairs = top_eigenpairs(K, 3, rng=np.random.default_rng(0), max_iter=2, tol=1e-12)
    assert (pairs.status, pairs.iterations) == (Status.MAX_ITER, 2)
    assert pairs.residuals.max() > 1e-12


def test_eigenpairs_are_deterministic():
    K = gaussian(600, 1.0)
    one, two = (top_eigenpairs(K, 5, rng=np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.vectors, two.vectors)
    other = top_eigenpairs(K, 5, rng=np.random.default_rng(4), tol=1e-10)
    np.testing.assert_allclose(other.vectors, two.vectors, atol=1e-5)  # the sign does not hang on the seed


@pytest.mark.parametrize("k", [0, 7])
def test_impossible_number_of_pairs(k):
    with pytest.raises(ValueError, match="1 <= k <= 6"):
        top_eigenpairs(np.eye(6), k, rng=np.random.default_rng(0))


def test_power_method_agrees():
    K = with_spectrum(0.5 ** np.arange(100.0))
    power = power_eigenpairs(K, 4, rng=np.random.default_rng(0), tol=1e-9)
    fast = top_eigenpairs(K, 4, rng=np.random.default_rng(0))
    assert power.status is Status.CONVERGED
    np.testing.assert_allclose(power.values, fast.values, atol=1e-9)
    np.testing.assert_allclose(power.vectors, fast.vectors, atol=1e-6)
    assert power_eigenpairs(np.eye(3) * 0, 2, rng=np.random.default_rng(0)).values.tolist() == [0, 0]
    assert power_eigenpairs(K, 2, rng=np.random.default_rng(0), max_iter=2).status is Status.MAX_ITER


@pytest.mark.parametrize("n", [30, 700])
@pytest.mark.parametrize("smallest", [-1.0, -1e-3, 0.0, 0.5])
def test_smallest_eigenvalue(n, smallest):
    K = with_spectrum(np.r_[smallest, np.linspace(1, 20, n - 1)])
    A = Counted(K)
    value, vector = smallest_eigenvalue(A, np.random.default_rng(0))
    assert smallest != 0 or A.applications < 90  # a tolerance relative to the norm can be met, one relative to 0 not
    assert value == pytest.approx(smallest, abs=1e-8)
    np.testing.assert_allclose(K @ vector, value * vector, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 7, 130])
def test_inverse_is_symmetric_and_inverts(n, dtype):
    A = np.random.default_rng(n).standard_normal((n, n))
    K = (A @ A.T + n * np.eye(n)).astype(dtype)
    C = safe_cholesky(K).inverse()
    np.testing.assert_array_equal(C, C.T)
    np.testing.assert_allclose(C @ K, np.eye(n), atol=100 * n * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_triangle_is_inverted_in_place(dtype):
    n = 70
    A = np.random.default_rng(0).standard_normal((n, 2 * n)).astype(dtype)[:, :n]  # rows lie apart
    A[np.diag_indices(n)] = 10.0
    L, above = np.tril(A), np.triu(A, 1)
    invert_triangle(A)
    np.testing.assert_allclose(np.tril(A) @ L, np.eye(n), atol=1e-4 if dtype is np.float32 else 1e-12)
    np.testing.assert_array_equal(np.triu(A, 1), above)
    with pytest.raises(np.linalg.LinAlgError, match="zero in row 3"):
        invert_triangle(np.diag([1.0, 2.0, 0.0, 4.0]))

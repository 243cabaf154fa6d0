"""The lazy Gram: its interface against dense arithmetic, its promises on memory, threads and interrupts."""

import os
import pkgutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import mercer
from cases import close, error_of
from mercer import threads
from mercer.engines import CpuEngine, Engine, ReferenceEngine
from mercer.errors import KernelOutputError, MemoryBudgetError, NanError, NotSymmetricError
from mercer.gram import Diagonal, GivenGram, gram, prepared_gram
from mercer.kernels import RBF, Blockwise, Linear, Polynomial, Spectrum, White
from mercer.kernels.base import PairKernel, frozen

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((13, 3)), RNG.standard_normal((7, 3))
V = RNG.standard_normal((13, 2))
X.flags.writeable = Y.flags.writeable = False
KERNEL = RBF(0.8) + Linear()


@pytest.fixture
def K():  # noqa: N802
    return gram(KERNEL, X)


@pytest.fixture
def dense(K):
    return K.dense()


class Counting(ReferenceEngine):
    """Counts the tiles it is asked for."""

    tiles = 0

    def tile(self, outputs, x, y):
        self.tiles += 1
        return super().tile(outputs, x, y)


# ---------------------------------------------------------------------------------------------- slices, products
@pytest.mark.parametrize(
    "key",
    [slice(2, 9, 3), [4, 0, 4], -1, 3, np.arange(13) % 3 == 0, slice(None, None, -1), np.array([], int), [-1, -13]],
    ids=str,
)
def test_slices(K, dense, key):
    expected = np.atleast_2d(dense[key])
    close(K[key].dense(), expected, 1e-13)
    close(K[key, 2:5].dense(), expected[:, 2:5], 1e-13)
    close(K.rows(key), expected, 1e-13)
    assert K[key].shape == expected.shape


def test_slicing_is_lazy():
    engine = Counting()
    K = gram(RBF(), X, engine=engine)
    part = K[3:9, [1, 2]].T[:1]
    assert engine.tiles == 0
    assert part.shape == (1, 6)
    close(part.dense(), RBF()(X)[3:9, [1]].T, 1e-14)
    assert engine.tiles == 1


def test_a_square_slice_of_one_set_of_rows_stays_symmetric(K):
    assert K.symmetric
    assert K[2:7, 2:7].symmetric
    assert not K[2:7].symmetric
    part = K[[5, 1, 3], [5, 1, 3]].dense()
    assert np.array_equal(part, part.T)


@pytest.mark.parametrize("key", [13, [0, 40], -14, np.ones(5, bool)], ids=str)
def test_rows_out_of_range(K, key):
    with pytest.raises(IndexError):
        K[key]


def test_transpose():
    C = gram(KERNEL, X, Y)
    assert C.T.shape == (7, 13)
    close(C.T.dense(), C.dense().T, 1e-14)
    close(C.T @ V, C.dense().T @ V, 1e-13)
    K = gram(KERNEL, X)
    assert K.T is K


def test_products(K, dense):
    close(K @ V, dense @ V, 1e-13)
    close(K @ V[:, 0], dense @ V[:, 0], 1e-13)
    close(K @ V.tolist(), dense @ V, 1e-13)
    close(K @ V[:, :0], np.zeros((13, 0)), 0.0)
    assert (gram(KERNEL, X.astype(np.float32)) @ V.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="cannot multiply 13 x 13 with shape"):
        K @ V[:5]
    with pytest.raises(TypeError):
        K @ K


def test_diag_trace(K, dense):
    close(K.diag(), np.diag(dense), 1e-13)
    assert K.trace() == pytest.approx(np.trace(dense))
    C = gram(KERNEL, X, Y)
    close(C.diag(), np.diag(C.dense()), 1e-13)


@pytest.mark.parametrize("shift", [0.5, np.linspace(0.1, 1.0, 13)], ids=["one number", "one each"])
def test_plus_diagonal(K, dense, shift):
    shifted, expected = K + Diagonal(shift), dense + np.diag(np.broadcast_to(shift, 13))
    assert (shifted.shape, shifted.dtype) == (K.shape, K.dtype)
    close(shifted.dense(), expected, 1e-14)
    close(shifted.diag(), np.diag(expected), 1e-14)
    close(shifted.rows([3, 1]), expected[[3, 1]], 1e-14)
    close(shifted @ V, expected @ V, 1e-13)
    close(shifted @ V[:, 0], expected @ V[:, 0], 1e-13)
    with pytest.raises(TypeError):
        K + 3.0


# ---------------------------------------------------------------------------------------------- centring
def test_centred_training_gram(K, dense):
    H = np.eye(13) - 1 / 13
    expected, C = H @ dense @ H, K.centred()
    close(C.dense(), expected, 1e-13)
    close(C.diag(), np.diag(expected), 1e-13)
    close(C.rows([4, 0]), expected[[4, 0]], 1e-13)
    close(C @ V, expected @ V, 1e-13)
    close(C @ V[:, 0], expected @ V[:, 0], 1e-13)
    assert C.trace() == pytest.approx(np.trace(expected))


def test_centred_test_gram_uses_the_training_means(K, dense):
    test = gram(KERNEL, Y, X)
    ones = np.full((13, 13), 1 / 13)
    T = test.dense()
    expected = T - np.full((7, 13), 1 / 13) @ dense - T @ ones + np.full((7, 13), 1 / 13) @ dense @ ones
    C = test.centred(like=K)
    close(C.dense(), expected, 1e-13)
    close(C @ V, expected @ V, 1e-13)
    close(C.rows([2]), expected[[2]], 1e-13)


def test_prepared_gram_reuses_the_training_side(K):
    test = prepared_gram(K, Y)
    assert test.y is K.y
    close(test.dense(), KERNEL(Y, X), 1e-13)


# ---------------------------------------------------------------------------------------------- reductions, distances
def test_reductions(K, dense):
    close(K.reduce("sum"), dense.sum(axis=1), 1e-13)
    close(K.reduce("max"), dense.max(axis=1), 1e-13)
    close(K.reduce("logsumexp"), np.log(np.exp(dense).sum(axis=1)), 1e-13)
    for largest in (True, False):
        values, columns = K.reduce("topk", k=3, largest=largest)
        order = np.sort(dense, axis=1)[:, :: -1 if largest else 1][:, :3]
        close(values, order, 1e-13)
        close(np.take_along_axis(dense, columns, 1), order, 1e-13)
    values, columns = K.reduce("argmin")
    assert np.array_equal(columns, dense.argmin(axis=1))
    with pytest.raises(ValueError, match="reduce\\('median'\\) is not known; the operations are sum"):
        K.reduce("median")


def test_topk_of_more_than_there_are(K):
    values, columns = K.reduce("topk", k=99)
    assert values.shape == columns.shape == (13, 13)


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_topk_of_nothing_is_refused(K, k):
    with pytest.raises(ValueError, match="k="):
        K.reduce("topk", k=k)


def test_logsumexp_does_not_overflow():
    K = gram(Linear(), [[40.0], [-40.0]])
    close(K.reduce("logsumexp"), [1600.0, 1600.0], 1e-15)
    given = GivenGram(np.array([[-np.inf, -np.inf], [0.0, -np.inf]]))
    assert given.reduce("logsumexp").tolist() == [-np.inf, 0.0]


def test_squared_distances(K, dense):
    d = np.diag(dense)
    expected = d[:, None] + d - 2 * dense
    D = K.squared_distances()
    close(D.dense(), expected, 1e-13)
    assert D.dense().min() >= 0
    close(gram(Linear(), X, Y).squared_distances().dense(), ((X[:, None] - Y) ** 2).sum(axis=-1), 1e-13)
    _, columns = gram(Linear(), X, Y).squared_distances().reduce("argmin")
    assert np.array_equal(columns, ((X[:, None] - Y) ** 2).sum(axis=-1).argmin(axis=1))
    close(K[2:5].squared_distances().dense(), expected[2:5], 1e-13)


# ---------------------------------------------------------------------------------------------- White, given Grams
def test_white_is_seen_at_equal_row_numbers_of_the_same_data():
    K = gram(White(0.5), X)
    close(K[[0, 1, 2], [2, 1, 5]].dense(), [[0, 0, 0], [0, 0.5, 0], [0.5, 0, 0]], 0.0)
    close(K[[3, 3], [3]].dense(), [[0.5], [0.5]], 0.0)
    close(K.T.dense(), 0.5 * np.eye(13), 0.0)
    assert not gram(White(0.5), X, X).dense().any()
    assert not prepared_gram(K, X).dense().any()
    close(gram(White(0.5), np.ones((3, 2))).dense(), 0.5 * np.eye(3), 0.0)  # equal rows are not the same row


def test_given_gram(dense):
    G = GivenGram(dense)
    G.check_symmetric()
    assert G.symmetric
    assert G.shape == (13, 13)
    close(G @ V, dense @ V, 0.0)
    close(G[2:5, [0, 1]].dense(), dense[2:5, [0, 1]], 0.0)
    close(G.centred().dense(), gram(KERNEL, X).centred().dense(), 1e-13)
    close((G + Diagonal(1.0)).dense(), dense + np.eye(13), 0.0)
    close(G.reduce("sum"), dense.sum(axis=1), 1e-14)
    close(G.T.rows([1]), dense[[1]], 0.0)
    assert G.trace() == pytest.approx(np.trace(dense))
    G.dense()[0, 0] = 99.0
    assert dense[0, 0] != 99.0
    broken = dense.copy()
    broken[0, 5] += 0.1
    with pytest.raises(NotSymmetricError, match=r"differ by up to 0\.1"):
        GivenGram(broken).check_symmetric()


# ---------------------------------------------------------------------------------------------- plan, memory
def test_explain(K):
    text = K.explain()
    for words in (
        "RBF(lengthscale=0.8) + Linear()",
        "Gram 13 x 13, float64",
        "engine      cpu",
        "tiles of",
        "SquaredDistance",
        "budget",
        "time",
    ):
        assert words in text
    assert "2 GB" in gram(KERNEL, X, memory="2GB").explain()
    assert repr(K) == "<Gram 13 x 13 of RBF(lengthscale=0.8) + Linear(), float64, engine cpu>"


def test_what_does_not_fit_is_refused_with_bytes_and_remedies():
    A = np.zeros((3000, 2))
    K = gram(RBF(), A, memory="50MB")
    with pytest.raises(
        MemoryBudgetError, match=r"3000 x 3000 pairs needs 72 MB, the memory budget is 50 MB.*K @ V.*memory="
    ):
        K.dense()
    assert not K.plan.fits
    assert (K @ np.ones(3000))[0] == 3000  # by tiles
    assert K[:100].dense().shape == (100, 3000)
    assert gram(RBF(), A, memory=73_000_000).dense().shape == (3000, 3000)


def test_a_million_rows_are_refused_at_once():
    K = gram(RBF(), np.zeros((1_000_000, 2), np.float32))
    with pytest.raises(MemoryBudgetError, match="4 TB"):
        K.dense()


@pytest.mark.parametrize("memory", ["2 parsecs", "", -1, 0, True, [1]])
def test_bad_budgets(memory):
    with pytest.raises(ValueError, match="memory="):
        gram(RBF(), X, memory=memory)  # not only where it is asked for


# ---------------------------------------------------------------------------------------------- what kernels may not return
def nan_block(A, B):
    return np.full((len(A), len(B)), np.nan)


def lopsided(A, B):
    return A[:, :1] + 2 * B[:, :1].T


def test_kernels_that_return_nonsense_are_named():
    with pytest.raises(KernelOutputError, match=r"Blockwise\(nan_block\) returned NaN or infinity in 169 entries"):
        gram(Blockwise(nan_block), X).dense()
    with pytest.raises(NotSymmetricError, match=r"Blockwise\(lopsided\) is not symmetric"):
        gram(Blockwise(lopsided), X).dense()
    with pytest.raises(KernelOutputError, match=r"returned shape \(13,\), expected \(13, 13\)"):
        gram(Blockwise(lambda A, B: A[:, 0]), X).dense()


def test_asymmetry_is_found_beyond_the_first_tile(monkeypatch):
    monkeypatch.setattr(CpuEngine, "tile_shape", (4, 4))

    def far(A, B):
        return A @ B.T + (np.abs(A[:, :1]) > 50) * (np.abs(B[:, 0]) < 50)

    A = X.copy()
    A[11, 0] = 60.0
    with pytest.raises(NotSymmetricError, match="far"):
        gram(Blockwise(far), A).dense()


@pytest.mark.parametrize(
    "verb", [lambda K: K.dense(), lambda K: K.diag(), lambda K: K @ np.ones(2), lambda K: K.reduce("sum")]
)
def test_overflow_is_an_error_that_names_the_kernel(verb):
    with pytest.raises(NanError, match=r"Polynomial\(degree=9\) gave NaN or infinity"):
        verb(gram(Polynomial(9), np.array([[1e20], [1e40]])))


# ---------------------------------------------------------------------------------------------- threads, fork, interrupts
ROWS = RNG.standard_normal((900, 3))


def test_eight_threads_at_once():
    expected = KERNEL(ROWS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: KERNEL(ROWS), range(16)))
    assert all(np.array_equal(K, expected) for K in found)


def blas_threads():
    return sorted(
        (lib["filepath"], lib["num_threads"]) for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"
    )


def fails(A, B):
    raise RuntimeError("from the user's function")


@pytest.mark.parametrize("kernel", [KERNEL, Blockwise(fails)], ids=["returns", "raises"])
def test_blas_limits_are_restored(kernel):
    before = blas_threads()
    error = error_of(RuntimeError, gram(kernel, ROWS).dense)
    assert error is None or "user's function" in str(error)
    assert blas_threads() == before


def test_blas_limits_are_restored_after_overlapping_use():
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: KERNEL(ROWS[: 300 + 100 * i]), range(6)))
    assert blas_threads() == before


def test_blas_is_held_at_one_thread_from_any_thread():
    """threadpoolctl ignores limits set by a second thread; the guard must work from there too, and give back what was."""
    before = blas_threads()

    def inside():
        return {n for counts in threads.map_tiles(lambda i: blas_threads(), 4, 2) for _, n in counts}

    assert inside() == {1}
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(inside).result() == {1}
    assert blas_threads() == before


def test_the_last_to_leave_restores_the_limit():
    before, entered, leave = blas_threads(), threading.Event(), threading.Event()

    def first():
        with threads.one_thread_blas():
            entered.set()
            leave.wait(20)

    worker = threading.Thread(target=first)
    worker.start()
    entered.wait(20)
    with threads.one_thread_blas():
        leave.set()
        worker.join()
        assert {n for _, n in blas_threads()} == {1}
    assert blas_threads() == before


def test_the_users_limit_is_obeyed():
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert threads.thread_count() == 1
        KERNEL(ROWS)
        assert {n for _, n in blas_threads()} == {1}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_tile_leaves_everything_usable(error, workers):
    before = blas_threads()

    def job(i):
        if i == 3:
            raise error
        return i

    with pytest.raises(error):
        threads.map_tiles(job, 20, workers)
    assert threads.map_tiles(lambda i: i, 20, workers) == list(range(20))
    assert blas_threads() == before
    close(
        gram(KERNEL, ROWS, engine=Engine("cpu", threads=workers)).dense(),
        gram(KERNEL, ROWS, engine="reference").dense(),
        1e-12,
    )


def test_nested_use_runs_serially():
    def job(i):
        return threads.map_tiles(lambda j: threading.get_ident(), 4, 2)

    assert all(len(set(ids)) == 1 for ids in threads.map_tiles(job, 4, 2))


def test_a_kernel_inside_a_users_kernel():
    inner = Blockwise(lambda A, B: RBF()(A, B))
    close(inner(ROWS[:300]), RBF()(ROWS[:300]), 1e-13)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_after_use():
    """A forked child has no threads of the parent's pool; it makes its own."""
    code = (
        "import os, warnings, numpy as np; warnings.simplefilter('ignore');"
        "from mercer.kernels import RBF; X = np.random.default_rng(0).standard_normal((900, 3)); K = RBF()(X); pid = os.fork();"
        "ok = np.array_equal(RBF()(X), K); os._exit(0 if ok else 3) if pid == 0 else None;"
        "assert os.waitpid(pid, 0)[1] == 0 and ok"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


# ---------------------------------------------------------------------------------------------- imports
def public_modules():
    names = [m.name for m in pkgutil.walk_packages(mercer.__path__, "mercer.")]
    return ["mercer", *(n for n in names if not any(part.startswith("_") for part in n.split(".")))]


def test_imports_stay_light():
    """Importing every public module compiles nothing and loads no optional package."""
    heavy = ("numba", "torch", "dask", "matplotlib", "polars", "networkx")
    code = (
        "; ".join(f"import {m}" for m in public_modules())
        + f"; import sys; print([m for m in {heavy} if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert found.stdout.strip() == "[]"
    assert len(public_modules()) > 25


def test_an_asymmetric_block_is_found_in_tiles_wider_than_high():
    height, width = CpuEngine.tile_shape
    assert height < width
    X = np.arange(width + 10.0)[:, None]  # asymmetric in the first row of tiles only, none of which is square
    with pytest.raises(NotSymmetricError, match="Blockwise"):
        Blockwise(lambda A, B: np.where((A < height) & (B.T < height), A - B.T, 0.0))(X)


def test_weights_that_are_not_finite_are_refused():
    X = np.arange(4.0)[:, None]
    with pytest.raises(NanError, match="W holds"):
        RBF().pullback(X, None, np.full((4, 4), np.inf))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_a_large_given_gram_with_few_columns(dtype):
    """They are made by rows on our own threads."""
    rng = np.random.default_rng(0)
    K, V = rng.standard_normal((2100, 2100)).astype(dtype), rng.standard_normal((2100, 7)).astype(dtype)
    got = GivenGram(K) @ V
    assert got.dtype == dtype
    np.testing.assert_allclose(got, K.astype(float) @ V.astype(float), atol=1e-10 if dtype is np.float64 else 1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "columns"), [(2048, 1), (2100, 7), (2500, 16), (2851, 16), (3001, 32)])
def test_products_of_a_mirrored_gram_read_one_half(dtype, n, columns):
    rng = np.random.default_rng(0)
    K, V = rng.standard_normal((n, n)).astype(dtype), rng.standard_normal((n, columns)).astype(dtype)
    whole = np.triu(K) + np.triu(K, 1).T
    size = 256
    for i in range(size, n, size):  # what is not read: below the squares on the diagonal
        K[i : i + size, :i] = np.nan
    for i in range(0, n, size):
        K[i : i + size, i : i + size] = whole[i : i + size, i : i + size]
    expected = whole.astype(float) @ V.astype(float)
    near = partial(np.testing.assert_allclose, atol=1e-10 if dtype is np.float64 else 2e-3)
    for given in (V, np.asfortranarray(V)):
        got = GivenGram(K, mirrored=True) @ given
        assert (got.dtype, got.shape) == (dtype, V.shape)
        near(got, expected)
    near(GivenGram(whole, mirrored=True) @ V[:, 0], expected[:, 0])
    assert np.isnan(GivenGram(K) @ V).any()


def test_half_products_of_strips_of_any_height():
    from mercer.gram._compiled import LANES, half_product

    rng = np.random.default_rng(0)
    K, V = rng.standard_normal((37, 37)), rng.standard_normal((37, LANES))
    K, out = K + K.T, np.zeros((37, LANES))
    for first, stop in [(0, 10), (10, 11), (11, 30), (30, 37)]:
        half_product(K, V, first, stop, out)
    np.testing.assert_allclose(out, K @ V, atol=1e-12)


def test_products_of_a_mirrored_gram_do_not_depend_on_the_threads():
    rng = np.random.default_rng(0)
    K, V = rng.standard_normal((2100, 2100)), rng.standard_normal((2100, 5))
    K = GivenGram(K + K.T, mirrored=True)
    with threadpoolctl.threadpool_limits(1):
        alone = K @ V
    with threadpoolctl.threadpool_limits(2):
        np.testing.assert_array_equal(K @ V, alone)


def test_a_gram_that_is_its_own_transpose_is_known_as_such():
    K = np.array([[1.0, 2.0], [2.0, 3.0]])
    exact, nearly = GivenGram(K), GivenGram(K + [[0.0, 4e-16], [0.0, 0.0]])
    assert not exact.mirrored
    for given in (exact, nearly):
        given.check_symmetric()
    assert exact.mirrored
    assert exact.T is exact
    assert mercer.KernelPCA()._held(gram(RBF(), X)).mirrored
    assert not nearly.mirrored
    np.testing.assert_array_equal(nearly.T.K, nearly.K.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_a_given_gram(dtype):
    """Rows that lie together and may be written to, and others."""
    K = np.random.default_rng(0).standard_normal((7, 1003)).astype(dtype)
    fixed = K.copy()
    fixed.flags.writeable = False
    for given in (K, fixed, np.asfortranarray(K)):
        np.testing.assert_allclose(GivenGram(given).reduce("sum"), K.sum(axis=1, dtype=np.float64), rtol=1e-12)
    K[3, 5], K[4, 6] = np.nan, np.inf
    assert np.isnan(GivenGram(K).reduce("sum")[3])
    assert GivenGram(K).reduce("sum")[4] == np.inf


# ------------------------------------------------------------------------------------------------ pairs of objects
@frozen
class SharedLetters(PairKernel):
    """Letters that two strings share."""

    reads_objects = True
    seen: Any = None

    def parse(self, x):
        if not isinstance(x, str):
            raise TypeError(f"SharedLetters reads strings, got {type(x).__name__}")
        self.seen["parsed"].append(x)
        return frozenset(x)

    def pair(self, x, y):
        self.seen["pairs"].append(1)
        return len(x & y)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_objects_are_parsed_once_and_half_of_the_pairs_computed(engine):
    words = [w * 2 for w in ("abc", "bcd", "xyz", "a", "")] * 20
    seen = {"parsed": [], "pairs": []}
    K = SharedLetters(seen).gram(words, engine=engine)
    expected = np.array([[len(set(a) & set(b)) for b in words] for a in words], float)
    np.testing.assert_array_equal(K.dense(), expected)
    assert seen["parsed"] == words
    assert len(seen["pairs"]) < 0.65 * 100**2
    np.testing.assert_allclose(K @ np.ones((100, 1)), expected.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(K.diag(), expected.diagonal())
    np.testing.assert_array_equal(K[3:50, 2:90].dense(), expected[3:50, 2:90])
    assert seen["parsed"] == words


def test_an_object_that_cannot_be_read_is_told_by_its_row():
    for k in (SharedLetters({"parsed": [], "pairs": []}), Spectrum(2)):
        with pytest.raises(TypeError, match=r"row 1: .* reads strings, got NoneType"):
            k(["ab", None])

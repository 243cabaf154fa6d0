"""Programs on one product of rows: small tiles in one compiled call, rows that are close, decays, traces."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import expr
from mercer import kernels as mk
from mercer.engines import CpuEngine, cpu
from mercer.engines.decays import with_decays
from mercer.errors import NanError
from mercer.expr import Program
from mercer.gram import gram
from mercer.kernels.statistics import Inner, SquaredDistance
from mercer.kernels.trace import lower
from mercer.kernels.views import Input, Numbers

TYPES = [np.float32, np.float64]
both = pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
KERNELS = [mk.RBF(0.9), 2 * mk.RBF(), 2 * mk.RBF() + mk.Linear() ** 2 + mk.Matern(1.5), mk.Linear(), mk.Polynomial(3)]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(CpuEngine, "small_tile", (4, 6))
    monkeypatch.setattr(CpuEngine, "piece", (7, 10))


def rows(n, d, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)


def close(got, expected, dtype):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=scale * (3e-6 if dtype == np.float32 else 1e-13))


# ---------------------------------------------------------------------------------------------------------------- products
@both
@pytest.mark.parametrize(
    ("m", "d", "w", "t"), [(1, 1, 1, 0), (6, 3, 64, 0), (13, 7, 65, 5), (5, 0, 3, 0), (12, 127, 200, 31)]
)
def test_products_of_narrow_rows(m, d, w, t, dtype):
    from mercer.engines._compiled_gemm import multiply, spare

    behind = spare(np.dtype(dtype).itemsize)
    A, B = rows(m, d, dtype), rows(t + w, d, dtype, 1)
    memory = np.full(5 + m * w + behind + 5, -7, dtype)
    G = memory[5 : 5 + m * w].reshape(m, w)
    multiply(A, cpu.turned(B), t, G)
    np.testing.assert_allclose(G, A.astype(float) @ B[t:].T.astype(float), atol=np.finfo(dtype).eps * 8 * (d + 1))
    assert (memory[:5] == -7).all()
    assert (memory[5 + m * w + behind :] == -7).all()


@both
@pytest.mark.parametrize(
    ("m", "d", "w"), [(1, 1, 1), (6, 256, 64), (13, 257, 65), (5, 0, 3), (9, 600, 20), (12, 700, 130), (2, 513, 200)]
)
def test_products_of_wide_rows(m, d, w, dtype):
    """Blocks of columns are added up; what is written behind a row of a single panel is added to the next row's numbers."""
    from mercer.engines._compiled_gemm import multiply_wide, panel_shape, spare

    itemsize = np.dtype(dtype).itemsize
    A, B, behind = rows(m, d, dtype), rows(w, d, dtype, 1), spare(itemsize)
    memory = np.full(5 + m * w + behind + 5, -7, dtype)
    G, panel = memory[5 : 5 + m * w].reshape(m, w), np.full(panel_shape(itemsize), np.nan, dtype)
    multiply_wide(A, B, panel, G)
    exact = A.astype(float) @ B.T.astype(float)
    np.testing.assert_allclose(G, exact, rtol=0, atol=2 * np.finfo(dtype).eps * (d + 1))
    assert (memory[:5] == -7).all()
    assert (memory[5 + m * w + behind :] == -7).all()


WIDE_KERNELS = [mk.RBF(20.0), mk.Linear() + mk.RBF(20.0).on(0, 5), mk.Matern(1.5, 20.0) * mk.Linear()]


@both
@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("kernel", WIDE_KERNELS, ids=str)
def test_wide_rows_by_blas_and_by_our_own_loop(kernel, ours, dtype, monkeypatch):
    """With one product, two of them, and one that serves twice; read-only rows, and such that do not follow each other."""
    monkeypatch.setattr("mercer.engines._compiled_gemm.WIDEST", ours)
    X = np.asfortranarray(rows(70, 300, dtype) + 3)
    X.flags.writeable = False
    expected = gram(kernel, X.astype(float), X.astype(float)[::3], engine="reference").dense()
    sparse, limit = sp.csr_array(X), np.abs(expected).max() * (1e-5 if dtype == np.float32 else 1e-13)
    for found in (gram(kernel, X, X[::3]), gram(kernel, sparse, sparse[::3])):
        np.testing.assert_allclose(found.dense(), expected, rtol=0, atol=limit)


@both
def test_an_entry_of_wide_rows_does_not_depend_on_its_tile(dtype, monkeypatch):
    monkeypatch.setattr("mercer.engines._compiled_gemm.WIDEST", True)
    X = rows(70, 300, dtype)
    K = gram(mk.RBF(20.0), X)
    whole = K.dense()
    for r, c in ((slice(3, 4), slice(5, 70)), (slice(10, 33), slice(2, 9)), (slice(0, 70), slice(69, 70))):
        np.testing.assert_array_equal(K[r, c].dense(), whole[r, c])


def test_the_transpose_of_a_side_is_made_once(monkeypatch):
    made = []
    monkeypatch.setattr(cpu, "turned", lambda B, turned=cpu.turned: made.append(len(B)) or turned(B))
    X, kernel = rows(40, 3, np.float64), mk.Matern(1.5)
    K, whole = gram(kernel, X), kernel(X)
    made.clear()
    out = np.zeros((3, 12))
    for columns in (slice(0, 12), slice(7, 19), slice(28, 40)):
        K.fill(out, 0, 0, [5, 1, 5], columns)
        np.testing.assert_array_equal(out, whole[[5, 1, 5], columns])
    assert made == [40]
    np.testing.assert_array_equal(K[[2, 3], [9, 30, 4]].dense(), whole[[2, 3]][:, [9, 30, 4]])
    assert made == [40, 3]
    monkeypatch.setattr(cpu, "_TURNED", 10)
    np.testing.assert_array_equal(gram(kernel, X).block([1], slice(3, 9)), whole[[1], 3:9])
    assert made == [40, 3, 6]


def test_a_transpose_is_of_the_rows_that_are_asked_for():
    """Rows in another order, some rows of some, and those of a side in another precision."""
    engine, lowered, X = CpuEngine(), lower(mk.RBF(2.0)), rows(40, 3, np.float64)
    y = engine.prepare(lowered, X)
    whole = engine.block(y, y)
    for chosen in ([0, 2, 1, 3], [5, 5, 5], [3, 2, 1]):
        np.testing.assert_array_equal(engine.block(y, y.take(chosen)), whole[:, chosen])
    some = y.take(slice(10, 30)).astype(np.float32)
    close(engine.block(y.astype(np.float32), some.take(slice(3, 9))), whole[:, 13:19], np.float32)


def test_a_transpose_has_the_precision_of_the_tile():
    engine, lowered, X = CpuEngine(), lower(mk.RBF(2.0)), rows(40, 3, np.float32)
    y = engine.prepare(lowered, X)
    for dtype in (np.float32, np.float64):
        x = engine.prepare(lowered, X.astype(dtype), like=y)
        close(engine.block(x, y), mk.RBF(2.0)(X.astype(float)), np.float32)


def test_a_transpose_is_of_centred_rows_only_where_the_product_is():
    """The same side serves programs with distances, whose product is centred, and others without."""
    engine, kernel, X = CpuEngine(), mk.RBF(2.0) + mk.Linear(), rows(40, 3, np.float64) + 7.0
    y = engine.prepare(lower(kernel), X)
    for expected, e in ((kernel(X), lower(kernel).expression), (X @ X.T, G), (kernel(X), lower(kernel).expression)):
        close(engine.tile([e], y, y)[0], expected, np.float64)


@both
def test_an_entry_does_not_depend_on_its_tile(dtype):
    """Nor on which of the two sides its rows are on."""
    X = rows(70, 9, dtype)
    K = mk.RBF(2.0)(X)
    engine = gram(mk.RBF(2.0), X)
    for i, j in [(0, 0), (3, 50), (69, 1)]:
        assert engine[[i], [j]].dense()[0, 0] == K[i, j] == K[j, i]
    np.testing.assert_array_equal(engine[5:20, 30:].dense(), K[5:20, 30:])


# ---------------------------------------------------------------------------------------------------------- whole matrices
@both
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("n", [1, 4, 23, 40])
def test_pieces_and_tiles_of_any_shape(kernel, n, dtype, small):
    X, Y = rows(n, 3, dtype), rows(17, 3, dtype, 1)
    for other in (None, Y):
        K = gram(kernel, X, other)
        close(K.dense(), gram(kernel, X.astype(float), other, engine="reference").dense(), dtype)
    K = kernel(X)
    np.testing.assert_array_equal(K, K.T)


@both
@pytest.mark.parametrize("kernel", [mk.RBF(), mk.Laplacian(), mk.Matern(1.5) * mk.Linear()], ids=str)
def test_close_pairs_are_made_again_by_differences(kernel, dtype, small):
    """Of rows that lie far from the centre; some are equal, of which each meets itself and others."""
    X = rows(30, 4, dtype)
    X[::2] += dtype(100)
    X[5], X[9], X[20] = X[6], X[8] * (1 + dtype(1e-4)), X[6]
    exact = gram(kernel, X.astype(float), engine="reference").dense()
    K = kernel(X)
    scale = np.abs(exact).max()
    np.testing.assert_allclose(K, exact, rtol=0, atol=scale * (2e-5 if dtype == np.float32 else 1e-11))
    assert K[5, 6] == K[6, 6] == K[20, 5]


@pytest.mark.parametrize("kernel", [mk.RBF(), mk.Matern(0.5)], ids=str)
def test_a_close_pair_in_a_tile_that_could_hold_the_row_itself(kernel):
    """The numbers of the columns lie about that of the row, which is not among them."""
    X = rows(30, 4, np.float32)
    X[::2] += np.float32(100)
    X[10] = X[6] + np.float32(0.01)  # rounding of the product is ten times their distance
    near = gram(kernel, X)[[6], [1, 10]].dense()
    exact = gram(kernel, X.astype(float), engine="reference")[[6], [1, 10]].dense()
    np.testing.assert_allclose(near, exact, atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_wide_and_sparse_rows_go_by_whole_tiles(kernel):
    wide, thin = rows(40, 200, np.float64) / 15, sp.random_array((40, 30), density=0.3, rng=0, format="csr")
    for X in (wide, thin):
        K = gram(kernel, X)
        assert not cpu._has_small_tiles(cpu._code([K.x.lowered.expression], K.x), K.x)
        close(K.dense(), gram(kernel, X, engine="reference").dense(), np.float64)


def test_overflow_is_found_in_any_small_tile(small):
    X = np.ones((20, 2))
    X[17] = 1e120
    for other in (None, np.ones((5, 2))):
        with pytest.raises(NanError, match=r"gave NaN or infinity"):
            gram(mk.Polynomial(3), X, other).dense()


def test_parts_of_a_larger_array(small):
    X, Y = rows(9, 3, np.float64), rows(13, 3, np.float64, 1)
    kernel = KERNELS[2]
    K = gram(kernel, X, Y)
    out = np.full((20, 30), -7.0)
    K.engine.fill(out, 4, 6, K.x, K.y)
    close(out[4:13, 6:19], gram(kernel, X, Y, engine="reference").dense(), np.float64)
    out[4:13, 6:19] = -7
    assert (out == -7).all()


@both
def test_what_lies_below_the_diagonal_is_a_mirror_image(dtype):
    """To the last bit, also of a kernel whose k(x, y) and k(y, x) are rounded in other ways, in pieces of their real size."""
    K = (mk.RBF(8.0) + mk.Linear())(3 * rows(1200, 20, dtype) + 5)
    np.testing.assert_array_equal(K, K.T)


@pytest.fixture
def guarded(monkeypatch):
    """What lies behind the scratch memory of each call, -7 throughout."""
    behind = []

    def scratch(name, shape, kind):
        size = math.prod(shape)
        memory = np.full(size + 200, -7, kind)
        behind.append(memory[size:])
        return memory[:size].reshape(shape)

    monkeypatch.setattr(cpu, "scratch", scratch)
    return behind


@both
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_sums_over_few_columns_stay_in_their_memory(m, dtype, guarded):
    X, Y, R = rows(10, 3, dtype), rows(m, 3, dtype, 1), rows(10, 2, np.float64, 2)
    K = gram(mk.RBF(), X, Y)
    close(K.engine.cross(K.x, K.y, R), R.T @ K.dense().astype(float), dtype)
    assert guarded
    assert all((g == -7).all() for g in guarded)


@both
@pytest.mark.parametrize("m", [1, 65])
def test_products_of_wide_rows_stay_in_their_memory(m, dtype, guarded, monkeypatch):
    monkeypatch.setattr("mercer.engines._compiled_gemm.WIDEST", True)
    gram(mk.RBF(20.0) + mk.Linear().on(0), rows(7, 300, dtype), rows(m, 300, dtype, 1)).dense()
    assert guarded
    assert all((g == -7).all() for g in guarded)


# ---------------------------------------------------------------------------------------------------------------- decays
S, G = expr.leaf(SquaredDistance(Numbers(Input()))), expr.leaf(Inner(Numbers(Input())))
ONE = (1.0, 0.0, 0.0)


def shortened(e):
    program = expr.compile_program([e], {})
    return program, *with_decays(program)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (expr.exp(-0.5 * S), ["decay"]),
        (3 * expr.exp(-0.5 * S), ["decay"]),
        (expr.exp(-2 * expr.sqrt(3 * S) - 1), ["sqrt", "decay"]),
        (expr.exp(0.5 * S), ["exp"]),
        (expr.exp(1 - S), ["exp"]),
        (expr.exp(-G), ["exp"]),
        (expr.exp(-expr.exp(G)), ["exp", "decay"]),
        (2 * expr.exp(-S) + 1, ["decay", "affine"]),
    ],
    ids=str,
)
def test_exponentials_of_what_is_not_positive(expression, names):
    _, instructions, numbers = shortened(expression)
    assert [op for op, *_ in instructions] == names
    assert len(numbers) == len(instructions)


def test_a_factor_is_not_taken_from_what_is_read_again():
    decay = expr.exp(-0.5 * S)
    program, instructions, numbers = shortened(decay * (2 * decay))
    values, expected = interpreted(program, instructions, numbers)
    np.testing.assert_allclose(values, expected, rtol=1e-15)
    both_read = expr.compile_program([2 * decay, decay], {})
    instructions, _ = with_decays(both_read)
    written = {dst for *_, dst in instructions}
    assert set(both_read.outputs) <= written


@pytest.mark.parametrize(
    "kernel", [2 * mk.RBF() + mk.Matern(2.5), mk.RBF() * mk.Laplacian(), mk.RBF().exp(), -mk.RBF()], ids=str
)
def test_shorter_programs_say_the_same(kernel):
    traced = lower(kernel)
    program = expr.compile_program([traced.expression], traced.parameters)
    values, expected = interpreted(program, *with_decays(program))
    np.testing.assert_allclose(values, expected, rtol=1e-14)


def grown(inner):
    number = st.sampled_from([-2.0, -1.0, -0.5, 0.5, 1.0, 3.0])
    return st.one_of(
        st.builds(expr.exp, inner),
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, b, c: expr.exp(-(a * b + c)), inner, inner, inner),
        st.builds(lambda a, k: k * a, inner, number),
        st.builds(lambda a, k: a + k, inner, number),
    )


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.lists(st.recursive(st.sampled_from([S, G, expr.sqrt(S)]), grown, max_leaves=8), min_size=1, max_size=3))
def test_decays_are_of_what_is_never_positive(outputs):
    program = expr.compile_program(outputs, {})
    with np.errstate(all="ignore"):
        values, expected = interpreted(program, *with_decays(program))
    np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (expr.exp(-(S * S + G)), ["fma", "exp"]),
        (expr.exp(-(S * S + S)), ["fma", "decay"]),
        (expr.exp(-(S * G)), ["mul", "exp"]),
        (expr.exp(-((S - 1) * S)), ["mul", "exp"]),
        (expr.exp(-((1 - S) * S)), ["mul", "exp"]),
        (expr.exp(-((2 * S + 1) * S)), ["mul", "decay"]),
    ],
    ids=str,
)
def test_the_sign_of_sums_and_products(expression, names):
    assert [op for op, *_ in shortened(expression)[1]] == names


def by_hand(instructions, constants, outputs):
    """Registers 0 and 1 are a distance and a product; an instruction is (operation, a, b, c, destination)."""
    return Program(tuple(instructions), tuple(constants), (), (S, G), tuple(outputs), 5)


def test_a_register_is_positive_until_it_is_written_again():
    instructions = [("mul", 0, 0, 0, 2), ("mul", 0, 1, 0, 2), ("exp", 2, 0, 0, 3)]
    program = by_hand(instructions, [ONE, ONE, (-1.0, 0.0, 0.0)], [3])
    assert [op for op, *_ in with_decays(program)[0]] == ["mul", "mul", "exp"]


@pytest.mark.parametrize(
    ("after", "outputs", "joined"),
    [
        ([("affine", 2, 2, 2, 3)], [3], True),
        ([("affine", 1, 1, 1, 3)], [2, 3], False),  # of something else
        ([("affine", 1, 1, 1, 3)], [3], False),
        ([("affine", 2, 2, 2, 3)], [2, 3], False),
        ([("affine", 2, 2, 2, 0)], [0], False),  # a loop that writes what it reads is slow
        ([("affine", 2, 2, 2, 3), ("add", 3, 2, 2, 4)], [4], False),
        ([("affine", 2, 2, 2, 3), ("add", 3, 1, 1, 2), ("add", 2, 3, 3, 4)], [4], True),  # written before it is read
    ],
)
def test_a_factor_belongs_to_a_decay_that_nothing_else_reads(after, outputs, joined):
    instructions = [("exp", 0, 0, 0, 2), *after]
    program = by_hand(instructions, [(-1.0, 0.0, 0.0), (3.0, 0.0, 0.0), *[ONE] * (len(after) - 1)], outputs)
    found, numbers = with_decays(program)
    assert len(found) == len(instructions) - joined
    np.testing.assert_allclose(*interpreted(program, found, numbers), rtol=1e-14)


def interpreted(program, instructions, numbers):
    """The shorter instructions and the program itself, by hand. What decays has an argument that is never positive."""
    leaves = {True: np.linspace(0, 2, 11), False: np.linspace(-1, 1, 11)}
    start = {r: leaves[isinstance(e.payload, SquaredDistance)] for r, e in enumerate(program.leaves)}

    def decay(x, value):
        assert (x <= 0).all()
        return value * np.exp(x)

    def run(instructions, numbers):
        R = dict(start)
        for (op, a, b, c, dst), (scale, shift, value) in zip(instructions, numbers, strict=True):
            x = scale * R[a] + shift
            R[dst] = {
                "exp": lambda x=x: np.exp(x),
                "decay": lambda x=x, v=value: decay(x, v),
                "sqrt": lambda x=x: np.sqrt(x),
                "affine": lambda x=x: x,
                "const": lambda x=x, v=value: np.full(11, v),
                "mul": lambda x=x, b=b: x * R[b],
                "add": lambda x=x, b=b: x + R[b],
                "fma": lambda x=x, b=b, c=c: x * R[b] + R[c],
            }[op]()
        return np.array([R[o] for o in program.outputs])

    return run(instructions, numbers), run(program.instructions, program.constants)


# ---------------------------------------------------------------------------------------------------------------- traces
def test_a_kernel_is_traced_once():
    for kernel in (mk.RBF(), 2 * mk.RBF() + mk.Matern(1.5) * mk.Linear(), mk.RBF().normalise()):
        X = rows(5, 2, np.float64)
        assert gram(kernel, X).x.lowered is gram(kernel, X + 1).x.lowered
        assert lower(kernel.replace()) is lower(kernel)
        changed = 2 * kernel
        assert lower(changed) is not lower(kernel)


def test_a_trace_is_not_pickled():
    kernel = 2 * mk.RBF(0.7) + mk.Linear()
    before = len(pickle.dumps(kernel))
    kernel(rows(5, 2, np.float64))
    assert kernel.traced is not None
    assert len(pickle.dumps(kernel)) == before
    again = pickle.loads(pickle.dumps(kernel))
    assert again.traced is None
    assert again == kernel


def test_what_is_learned_from_rows_is_traced_anew():
    kernel = mk.RBF("median")
    X = rows(20, 2, np.float64)
    np.testing.assert_allclose(kernel(10 * X), kernel(X))
    assert not np.allclose(kernel(10 * X, X), kernel(X, X))


@pytest.mark.parametrize("engine", ["cpu", "torch"])
def test_one_kernel_on_dense_and_sparse_rows_in_turn(engine):
    if engine == "torch":
        pytest.importorskip("torch", reason="torch is not installed")
    kernel = 2 * mk.RBF() + mk.Linear()
    X = rows(8, 4, np.float64) * (rows(8, 4, np.float64, 1) > 0)
    expected = kernel(X)
    for some in (X, sp.csr_array(X), X, sp.csr_array(X), X[:, :3]):
        right = expected if some.shape[1] == 4 else kernel(X[:, :3])
        np.testing.assert_allclose(gram(kernel, some, engine=engine).dense(), right, atol=1e-12)

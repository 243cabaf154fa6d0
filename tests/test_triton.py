"""Generated kernels, run by Triton's interpreter on tiny shapes: every expression of vectors lowers and equals `reference`."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from cases import TOLERANCE, Case, check_sent_ahead, close, kernel_cases
from mercer import expr
from mercer import kernels as mk
from mercer.engines import Engine, _tensor_tiles, _triton_code, sources
from mercer.errors import NanError
from mercer.gram import gram
from mercer.kernels.statistics import ColumnStatistic

pytestmark = pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="needs torch and Triton")

VECTORS = [case for case in kernel_cases() if case.vectors]
LEAVES = [case for case in VECTORS if case in kernel_cases(composites=0)]
ON_HOST = ("Pairwise", "Blockwise", "LatentGaussian")  # pair kernels


if find_spec("torch") and find_spec("triton"):
    from pretend import import_interpreter

    import_interpreter()


@pytest.fixture(autouse=True)
def interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    import triton.language as tl

    if "Interpreted" not in type(tl.max).__name__:
        pytest.skip("Triton was imported for a GPU before")
    monkeypatch.setattr("mercer.engines.tensors._said", set())
    monkeypatch.setattr("mercer.engines.tensors._broken", {})
    monkeypatch.setattr("mercer.engines._triton_run._LONG", 0)  # with the loop over whole tiles


def fusible(K):
    return K.engine.fusible(K.x, [K.x.lowered.expression])


def pair(kernel, X, Y=None, engine="torch"):
    """The Gram by generated kernels, and what the reference says."""
    K = gram(kernel, X, Y, engine=engine)
    assert fusible(K)
    return K, gram(kernel, X, Y, engine="reference").dense().astype(np.float64)


def rows(shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------------------------------------- every kernel
def products():
    """Every kernel by turns in float64 with other rows and in float32 with itself; the other of the two is slow."""
    for number, case in enumerate(LEAVES):
        for turn, facts in enumerate((("float64", True), ("float32", False))):
            slow = () if turn == number % 2 else pytest.mark.slow
            yield pytest.param(case, *facts, marks=slow, id=f"{case}-{facts[0]}")


@pytest.mark.parametrize(("case", "dtype", "cross"), list(products()))
def test_products_equal_reference(case, dtype, cross):
    """One and three right-hand sides."""
    K, R = case.gram("torch", dtype, cross), case.gram("reference", dtype, cross)
    assert fusible(K) != any(word in str(case) for word in ON_HOST)
    V, dense = rows((K.shape[1], 3), dtype), R.dense().astype(np.float64)
    close(K @ V, dense @ V, case.tolerance("reduce", dtype))
    close(K @ V[:, 0], dense @ V[:, 0], case.tolerance("reduce", dtype))


COMPOSITES = [case for case in VECTORS if case not in LEAVES]
#: Their operations are those of others: a part of them is enough for a quick look.
FEW = [
    pytest.param(case, marks=() if i % 3 == 0 else pytest.mark.slow, id=str(case)) for i, case in enumerate(COMPOSITES)
]


@pytest.mark.parametrize("case", FEW)
def test_tiles_of_composites_equal_reference(case):
    K, R = case.gram("torch", "float32", True), case.gram("reference", "float32", True)
    close(K.dense(), R.dense(), case.tolerance("block", "float32"))


MIXED = 2 * mk.RBF(0.8) + mk.Matern(1.5) * mk.Linear() + mk.Laplacian(1.5, metric="l1") + mk.White(0.3)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 1), (17, 1, 2), (1, 33, 3), (16, 16, 16), (17, 33, 5)])
def test_sizes_that_no_tile_divides(n, m, d, dtype):
    X, Y, V = rows((n, d), dtype), rows((m, d), dtype, 1), rows((m, 2), dtype, 2)
    K, dense = pair(MIXED, X, Y)
    close(K @ V, dense @ V, TOLERANCE["reduce"][dtype])
    close(K.dense(), dense, TOLERANCE["block"][dtype])
    assert (K @ V).dtype == dtype
    assert (K[:0] @ V).shape == (0, 2)
    assert np.array_equal(K[:, :0] @ V[:0], np.zeros((n, 2)))


@pytest.mark.parametrize("d", [64, 65, 97])
def test_wide_rows_are_split(d):
    X, Y = rows((9, d), "float32"), rows((20, d), "float32", 1)
    for kernel in (mk.RBF(float(d) ** 0.5), mk.Linear() / d, mk.Laplacian(float(d) ** 0.5)):
        K, dense = pair(kernel, X, Y)
        close(K.dense(), dense, 2e-6)
    assert _triton_code.padded_width(d) == {64: 64, 65: 96, 97: 128}[d]


@pytest.mark.parametrize("exponent", [3, 65, 66])
def test_powers_keep_their_sign(exponent):
    """Large whole powers are no products."""
    X = np.array([[1.1], [-1.05], [0.5], [0.0]])
    K, dense = pair(mk.Linear() ** exponent, X)
    close(K.dense(), dense, 1e-12)


def test_constants_inside_exponentials():
    """They are folded into the power of two that float32 takes."""
    X = rows((9, 3), "float32")
    K, dense = pair((0.3 * mk.Linear() + 0.5).exp(), X)
    close(K.dense(), dense, 2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_of_exponentials_have_no_bound(dtype):
    """Where nothing else reads them; also behind the last column, where the last one stands again."""
    X, Y = rows((9, 3), dtype), rows((21, 3), dtype, 1)
    for kernel in (
        mk.RBF(0.8),
        (0.3 * mk.RBF(0.7)) * mk.RBF(1.9) + mk.RBF(2.0),
        mk.RBF(0.8) + mk.RationalQuadratic(1.5),
    ):
        K, dense = pair(kernel, X, Y)
        V = rows((21, 3), dtype, 2)
        close(K @ V, dense @ V, TOLERANCE["reduce"][dtype])
        close(K @ V[:, 0], dense @ V[:, 0], TOLERANCE["reduce"][dtype])
    assert "maximum" not in code(mk.RBF(0.8), X).text
    assert "maximum" in code(mk.RBF(0.8) + mk.RationalQuadratic(1.5), X).text  # which needs the distance itself
    assert "maximum" in code(mk.RBF(0.8), X, repaired=(True,)).text
    assert "maximum" in code(mk.RBF(0.8), X, same=True).text


def test_many_right_hand_sides_take_several_programs():
    X, V = rows((9, 3)), rows((9, 70))
    K, dense = pair(mk.RBF(), X)
    close(K @ V, dense @ V, 1e-12)


@pytest.mark.parametrize("splits", [1, 3, 64])
def test_columns_are_split_where_rows_are_few(splits, monkeypatch):
    """Products and reductions do not depend on it."""
    monkeypatch.setattr("mercer.engines._triton_run._PROGRAMS", splits)
    X, Y = rows((5, 3)), rows((75, 3), seed=1)
    Y[40] = Y[3]  # equal entries in two splits: the first one counts
    K, dense = pair(-1.0 * mk.RBF(0.9) + 0.1 * mk.Linear(), X, Y)
    close(K @ rows((75, 2)), dense @ rows((75, 2)), 1e-12)
    close(K @ rows((75,)), dense @ rows((75,)), 1e-12)
    close(K.reduce("sum"), dense.sum(1), 1e-12)
    close(K.reduce("max"), dense.max(1), 1e-12)
    close(K.reduce("logsumexp"), np.log(np.exp(dense).sum(1)), 1e-12)
    values, columns = K.reduce("argmin")
    close(values, dense.min(1), 1e-12)
    assert np.array_equal(columns, dense.argmin(1))


def test_ties_go_to_the_smaller_column(monkeypatch):
    monkeypatch.setattr("mercer.engines._triton_run._PROGRAMS", 2)
    Y = np.repeat(np.eye(3), 20, axis=0)
    K, dense = pair(mk.RBF(), np.eye(3), Y)
    assert np.array_equal(K.reduce("argmin")[1], dense.argmin(1))
    assert np.array_equal(K.reduce("topk", k=3)[1], np.argsort(-dense, axis=1, kind="stable")[:, :3])


def test_logsumexp_of_large_values():
    X = 30 * rows((6, 3))
    K, dense = pair(mk.Linear(), X, 20 * rows((40, 3), seed=1))
    top = dense.max(1)
    close(K.reduce("logsumexp"), np.log(np.exp(dense - top[:, None]).sum(1)) + top, 1e-12)


# ---------------------------------------------------------------------------------------------- close pairs, same rows
@pytest.mark.parametrize(("dtype", "far"), [("float32", 2e4), ("float64", 2e8)])
@pytest.mark.parametrize("kernel", [mk.RBF(), mk.Laplacian(1.0), mk.Matern(0.7)], ids=str)
def test_close_rows_are_repaired(kernel, dtype, far):
    """Distances inside of two clusters are lost against the norms."""
    X = rows((20, 3), dtype)
    X[::2] += np.dtype(dtype).type(far)
    for other in (None, X[3:9] + 0):
        K, dense = pair(kernel, X, other)
        close(K.dense(), dense, 1e-4 if dtype == "float32" else 1e-7)


def test_a_row_meets_itself():
    X = rows((20, 3), "float32")
    X[7] = X[2]
    K, dense = pair(mk.Laplacian(0.1) + mk.White(0.5), X)
    assert np.array_equal(np.diag(K.dense()), np.full(20, 1.5, np.float32))
    assert K.dense()[7, 2] == 1.0  # an equal row is not the same row
    part = K[[3, 5, 9], 4:12]
    close(part.dense(), dense[[3, 5, 9], 4:12], 1e-6)


def test_nan_is_refused_by_the_kernels_name():
    X = np.full((4, 2), 1e120)
    K = gram(mk.Polynomial(3), X, X[:2] + 0, engine="torch")
    for verb in (lambda: K @ np.ones(2), K.dense, lambda: K.reduce("max"), lambda: K.reduce("argmin")):
        with pytest.raises(NanError, match="Polynomial"):
            verb()


@pytest.mark.parametrize(("op", "sign"), [("max", -1.0), ("logsumexp", -1.0), ("argmin", 1.0)])
def test_infinity_that_an_order_would_lose(op, sign):
    X, Y = np.array([[1e100]]), np.array([[1e100], [1e-100]])
    with pytest.raises(NanError, match="Polynomial"):
        gram(sign * mk.Polynomial(2), X, Y, engine="torch").reduce(op)


# ---------------------------------------------------------------------------------------------- both ways, gradients
@pytest.mark.parametrize("kernel", [MIXED, mk.Polynomial(2).normalise(), mk.RBF().centre()], ids=str)
def test_sums_over_rows(kernel):
    X, Y = rows((19, 3)), rows((7, 3), seed=1)
    K, dense = pair(kernel, X, Y)
    R, V, w = rows((19, 3)), rows((2, 7)), rows((19, 1)) ** 2
    close(K.engine.cross(K.x, K.y, R), R.T @ dense, 1e-11)
    close(K.engine.cross(K.x, K.y, w, V), (w * (dense @ V.T)).T @ dense, 1e-11)


SLOPES = [
    mk.RBF([0.5, 1.0, 2.0]) + mk.Linear(),
    mk.Matern(1.5) * mk.Polynomial(2),
    mk.Polynomial(2, 0.5, 1.0).normalise(),
    mk.RBF(0.7).centre() + mk.Cosine(),
]


@pytest.mark.parametrize(
    ("kernel", "cross"),
    [pytest.param(k, c, marks=() if c == i % 2 else pytest.mark.slow) for i, k in enumerate(SLOPES) for c in (0, 1)],
)
def test_weights_of_low_rank(kernel, cross, monkeypatch):
    """No tile is made of them: generated kernels give all sums."""
    case = Case(kernel)
    K, R = case.gram("torch", cross=cross), case.gram("reference", cross=cross)
    monkeypatch.setattr("mercer.engines._tensor_sums.tile", None)
    pairs = (rows((K.shape[0], 2)), rows((K.shape[1], 2), seed=1))
    for W in (pairs, None):
        for name, value in R.pullback(W).items():
            close(K.pullback(W)[name], value, 1e-9, name)
        close(K.pullback_inputs(W), R.pullback_inputs(W), 1e-9)


def test_weights_of_high_rank_go_by_tiles(monkeypatch):
    monkeypatch.setattr("mercer.engines._tensor_sums._WIDEST", 7)
    case = Case(mk.RBF(0.7))
    K, R = case.gram("torch"), case.gram("reference")
    W = rows((14, 2)), rows((14, 2), seed=1)
    close(K.pullback_inputs(W), R.pullback_inputs(W), 1e-9)
    assert not K.engine.gradients(K.x, K.y)._fusible(K.engine.gradients(K.x, K.y).weights(W))


# ---------------------------------------------------------------------------------------------- precision
@pytest.mark.parametrize(("precision", "dtype", "tolerance"), [("float64", "float32", 1e-7), ("fast", "float64", 1e-4)])
def test_precision_is_a_choice(precision, dtype, tolerance):
    X = rows((20, 3), dtype)
    K = gram(mk.RBF(0.5), X, engine=Engine("torch", precision=precision))
    V = rows((20, 2), dtype)
    exact = gram(mk.RBF(0.5), X.astype(np.float64), engine="reference").dense() @ V
    assert (K @ V).dtype == K.dense().dtype == dtype
    close(K @ V, exact, tolerance)
    error = np.abs(K @ V - exact).max()
    assert error > 1e-9  # of the results in float32, or of the computation in it


def test_what_was_sent_ahead_is_not_sent_again(monkeypatch):
    """Rows of K V, and columns of K^T R."""
    K, dense = pair(mk.RBF() + mk.Matern(1.5) * mk.Linear(), rows((30, 3)) + 5.0, rows((7, 3), seed=1) + 5.0)
    check_sent_ahead(K, dense, monkeypatch)


def test_zeros_behind_rows_count_where_they_are_kept(monkeypatch):
    asked = []
    monkeypatch.setattr(_tensor_tiles.Place, "holds", lambda place, size: asked.append(size))
    K, dense = pair(mk.RBF(), rows((30, 3)), rows((7, 3), seed=1))
    part = K.x.take(slice(0, 20))
    close(K.engine.matmul(part, K.y, np.ones((7, 1))), dense[:20].sum(1)[:, None], 1e-12)
    assert 30 * 16 * 8 in asked


# ---------------------------------------------------------------------------------------------- text
def code(kernel, X, mode="few", same=False, **changes):
    K = gram(kernel, X, X[:2] + 0, engine="reference")
    program = expr.compile_program([K.x.lowered.expression], K.x.lowered.parameters)
    layout = sources.layout(program, K.x)
    widths = tuple(_triton_code.padded_width(X.shape[1]) for _ in layout.products)
    entries, repaired = tuple(X.shape[1] for _ in layout.statistics), tuple(False for _ in widths)
    facts = {"double": False, "fast": False, "widths": widths, "entries": entries, "repaired": repaired, "same": same}
    return _triton_code.generate(program, layout, _triton_code.Shape(mode, **{**facts, **changes}))


def test_new_parameter_values_give_the_same_text():
    X = rows((5, 3))
    one, two = (code(2.5 * mk.RBF(scale) + mk.Matern(1.5, 2 * scale), X) for scale in (0.7, 0.9))
    assert one.text == two.text
    assert one.constants != two.constants


def test_equal_statistics_are_made_once():
    text = code(2 * mk.RBF(0.8) + mk.Matern(1.5) * mk.Linear(), rows((5, 3))).text
    assert text.count("tl.dot") == 2  # of whole tiles, and of the rest


def test_whole_tiles_have_no_masks():
    """Loads with a mask, or from places that are looked up, do not run ahead of the products."""
    made = code(2 * mk.RBF(0.8) + mk.Matern(1.5), rows((5, 3)))
    before, whole, rest = made.text.split("for start in ")
    assert "mask" not in whole
    assert "minimum" not in whole
    assert "mask=there" in rest
    constants = [line for line in before.splitlines() if "tl.load(C" in line]
    assert len(constants) == len(set(constants)) == len(made.constants)


def test_many_columns_have_a_second_loop(monkeypatch):
    monkeypatch.setattr("mercer.engines._triton_run._LONG", 5)
    made, real = [], _triton_code.generate
    monkeypatch.setattr(_triton_code, "generate", lambda *given: made.append(real(*given)) or made[-1])
    for m in (4, 5):
        K, dense = pair(mk.RBF(0.9), rows((7, 3)), rows((m, 3), seed=1))
        close(K @ np.ones(m), dense.sum(1), 1e-12)
    assert [code.text.count("for start in") for code in made] == [1, 2]


def test_units_save_products():
    """Of 2 RBF + Matern * Linear: the distance in the unit of the root, the root in that of its exponential."""
    composite = 2 * mk.RBF(0.8) + mk.Matern(1.5, 1.3) * mk.Linear()
    fast = code(composite, rows((5, 3)), fast=True).text.split("for start in ")[1]
    for line in ("t0 = tl.exp2(c1 * s0 + c2)", "t1 = tl.sqrt((s0))", "t2 = tl.exp2(-t1)", "t3 = (c3 * t1 + c4) * t2"):
        assert line in fast
    assert "t4 = (c" in code(composite, rows((5, 3))).text  # exp(u + log f) is not as exact

    X, Y = rows((9, 3), np.float32), rows((21, 3), np.float32, 1)
    K, dense = pair(composite, X, Y, Engine("torch", precision="fast"))
    close(K @ np.ones(21, np.float32), dense.sum(1), 1e-5)


def test_rows_are_multiplied_as_they_are():
    """Scaled ones would be rounded to other numbers in TF32, and K(x, y) not be K(y, x)^T."""
    text = code(mk.RBF(0.8), rows((5, 3)), fast=True).text
    assert text.count("a0 = ") == 1
    assert text.count("tl.dot(a0, b0, ") == 2


def test_few_right_hand_sides_have_sums_of_their_own():
    text = code(mk.RBF(0.8), rows((5, 3)), rhs=3).text
    assert text.count("tl.dot") == 2
    assert text.count("total2 += tl.sum(k * v2") == 2


def test_sums_are_float64_unless_speed_is_asked_for():
    X = rows((5, 3))
    assert "total0 = tl.zeros((BM,), tl.float64)" in code(mk.RBF(), X).text
    assert "float64" not in code(mk.RBF(), X, fast=True).text


def test_column_functions_equal_their_formulas():
    import torch

    from mercer.engines import columns
    from mercer.engines._tensor_tiles import column_tile

    A, B = np.random.default_rng(0).random((5, 4)), np.random.default_rng(1).random((6, 4))
    A[1], A[2, 1], B[3, 1], A[3] = B[2], 0.0, 0.0, A[3] + 1.5
    for function in columns.FUNCTIONS:
        for parameter in {"bspline": (1, 3), "window": (0, 10, 21, 33)}.get(function, (0,)):
            statistic = ColumnStatistic(None, function, parameter=parameter)
            found = column_tile(statistic, torch.tensor(A), torch.tensor(B))
            close(found, columns.tile(statistic, A, B), 1e-14, f"{function} {parameter}")


# ---------------------------------------------------------------------------------------------- what is remembered
def test_tiles_are_remembered_in_the_cache_folder(tmp_path, monkeypatch):
    from mercer.engines import _triton_run

    monkeypatch.setenv("MERCER_CACHE", str(tmp_path / "new"))
    assert _triton_run._remembered() == {}
    _triton_run._remember("a", (16, 16, 32, 1, 1))
    _triton_run._remember("b", (32, 16, 32, 1, 1))
    assert _triton_run._remembered() == {"a": (16, 16, 32, 1, 1), "b": (32, 16, 32, 1, 1)}
    assert os.listdir(tmp_path / "new") == ["tiles.json"]
    (tmp_path / "new" / "tiles.json").write_text("{broken")
    assert _triton_run._remembered() == {}
    (tmp_path / "new" / "tiles.json").write_text(json.dumps({"a": [1, 2]}))
    assert _triton_run._remembered() == {}
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MERCER_CACHE", str(tmp_path / "file" / "below"))
    _triton_run._remember("a", (16, 16, 32, 1, 1))  # cannot be written: no error


def test_the_fastest_tiles_win(monkeypatch, tmp_path):
    from mercer.engines import _triton_run

    monkeypatch.setenv("MERCER_CACHE", str(tmp_path))
    slow, fast, broken = (_triton_run.Tiles(16, 16, 32, w, 1) for w in (1, 2, 4))
    tried = []

    def seconds(job, tiles):
        tried.append(tiles)
        if tiles is broken:
            raise RuntimeError("out of registers")
        return {slow: 2.0, fast: 1.0}[tiles]

    monkeypatch.setattr(_triton_run, "_chosen", {})
    monkeypatch.setattr(_triton_run._Job, "_candidates", lambda job: [broken, slow, fast])
    monkeypatch.setattr(_triton_run._Job, "_seconds", seconds)
    monkeypatch.setattr(_triton_run._Job, "_key", lambda job, settled: "a first" if settled else "a tried")
    X = rows((5, 3))
    K, dense = pair(mk.RBF(), X)
    close(K @ X, dense @ X, 1e-12)
    assert tried == [broken, slow, fast]
    assert _triton_run._remembered() == {"a tried": (16, 16, 32, 2, 1)}
    K @ X
    assert len(tried) == 3
    gram(mk.RBF(), X, engine=Engine("torch", deterministic=True)) @ X
    assert tried[3:] == [broken, slow]


def test_the_interpreter_alone_needs_no_gpu():
    """The engine finds Triton by the environment, in a process of its own."""
    program = (
        "import numpy as np; from mercer.kernels import RBF; X = np.ones((3, 2)); K = RBF().gram(X, engine='torch');"
        "assert K.engine.fusible(K.x, [K.x.lowered.expression]); assert np.allclose(K @ X, 3.0)"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50, env=environment)

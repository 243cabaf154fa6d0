"""F01-F17 for kernels: what users bring by mistake gives a message that names it, and what they may bring works."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from cases import ENGINE_NAMES, LEAVES, close, error_of, kernel_cases, sparse_random
from mercer import kernels as mk
from mercer.errors import KernelOutputError, NanError, NotSymmetricError
from mercer.gram import gram
from mercer.kernels import (
    RBF,
    Basis,
    Blockwise,
    Cosine,
    Intersection,
    Laplacian,
    Linear,
    Matern,
    Pairwise,
    Polynomial,
    Spectrum,
    White,
)

RNG = np.random.default_rng(0)
X = RNG.random((8, 3))
X.flags.writeable = False
NUMERIC = [mk.RBF(), mk.Linear(), mk.Intersection(), mk.ANOVA(2), mk.Matern(0.7), mk.Cosine(), Linear() + RBF().on(0)]
VECTOR_LEAVES = [case for case in LEAVES if case.vectors and not isinstance(case.kernel, (mk.Constant, mk.White))]


# ---------------------------------------------------------------------------------------------- F01, F02
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("case", VECTOR_LEAVES, ids=str)
def test_nan_and_infinity_in_the_rows_are_named(case, bad):
    if np.isnan(bad) and case.kernel.reads == "gaps":  # NaN is a missing entry there: tests/test_generative.py
        return
    A = case.X().copy()
    A[2, 1] = bad
    words = "NaN|infinity"
    with pytest.raises(ValueError, match=f"Input X contains ({words})"):
        case.kernel(A)
    with pytest.raises(ValueError, match=f"Input Y contains ({words})"):
        case.kernel(case.X(), A)


def test_nan_in_sparse_rows_and_tables():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        RBF()(sp.csr_array([[1.0, np.nan]]))
    for table in (pd.DataFrame({"age": [1.0, np.nan]}), pl.DataFrame({"age": [1.0, np.nan]})):
        with pytest.raises(ValueError, match="column 'age' of X contains NaN"):
            RBF()(table)
        with pytest.raises(ValueError, match="column 'age' of X contains NaN"):
            RBF().on("age")(table)
    with pytest.raises(ValueError, match="column 'age' of Y contains NaN"):
        RBF()(pd.DataFrame({"age": [1.0]}), table)


def parameters():
    for case in kernel_cases(composites=0):
        for name in case.kernel.differentiable:
            yield pytest.param(case.kernel, name, id=f"{case}-{name}")


@pytest.mark.parametrize(
    "bad", [np.nan, -np.inf, "three", None, [[1.0, 2.0], [3.0, 4.0]], 1j, np.array([], float)], ids=str
)
@pytest.mark.parametrize(("kernel", "name"), list(parameters()))
def test_bad_parameters_are_named(kernel, name, bad):
    if name.endswith("covariance") and (bad is None or np.ndim(bad) == 2):
        return
    with pytest.raises((ValueError, TypeError), match=name.split("__")[-1].split("_")[0]):
        kernel.replace(**{name: bad})


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
@pytest.mark.parametrize("kernel", NUMERIC, ids=str)
def test_empty_rows(kernel, shape):
    kind = "sample" if shape[0] == 0 else "feature"
    with pytest.raises(ValueError, match=f"(Found array with 0 {kind}|no columns|has 0 columns)"):
        kernel(np.zeros(shape))


@pytest.mark.parametrize(
    "empty", [[], np.array([], dtype=object), pd.DataFrame({"dna": []})], ids=["list", "array", "table"]
)
def test_no_strings(empty):
    with pytest.raises(ValueError, match="0 sample"):
        Spectrum()(empty)


# ---------------------------------------------------------------------------------------------- F03, F04
@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize("case", [c for c in kernel_cases(composites=0) if c.vectors], ids=str)
def test_one_row_and_equal_rows(case, engine):
    row = case.X()[:1]
    k = case.kernel.resolve(case.X())
    one = gram(k, row, engine=engine)
    assert one.dense().shape == (1, 1)
    close(one.diag(), one.dense()[0], case.tolerance("block"))
    equal = gram(k, np.repeat(row, 5, axis=0), engine=engine)
    K = equal.dense()
    off = K[~np.eye(5, dtype=bool)]
    close(off, np.full(off.shape, off[0]), case.tolerance("block"))
    for gradient in equal.pullback().values():
        assert np.isfinite(gradient).all()
    if k.differentiable_inputs:
        assert np.isfinite(equal.pullback_inputs()).all()


def test_words_taken_from_constant_rows():
    for word in ("median", "scale", "auto"):
        assert np.array_equal(RBF(word)(np.ones((4, 2))), np.ones((4, 4)))


@pytest.mark.parametrize(
    "kernel", [RBF(), Linear(), Intersection(), mk.ANOVA(1), Matern(0.7), Cosine(), mk.Periodic()], ids=str
)
def test_one_column(kernel):
    assert kernel(X[:, :1]).shape == (8, 8)


# ---------------------------------------------------------------------------------------------- F06
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-40, 1e-8, 1e8, 1e40, 1e150, 1e160, 1e300])
@pytest.mark.parametrize("engine", ENGINE_NAMES)
@pytest.mark.parametrize(
    "case",
    [c for c in LEAVES if c.vectors and c.rows != "codes" and not isinstance(c.kernel, (Pairwise, Blockwise))],
    ids=str,
)
def test_any_scale_gives_finite_numbers_or_a_clear_error(case, engine, scale):
    def dense():
        return gram(case.kernel, case.X() * scale, engine=engine).dense()

    error = error_of((NanError, KernelOutputError), dense)
    if error is not None:
        assert "rescale" in str(error) or "returned NaN or infinity" in str(error)
        return
    K = dense()
    assert np.isfinite(K).all()
    if case.kernel.normalised:
        close(K.diagonal(), np.ones(len(K)), case.tolerance("block"))


def test_mixed_column_scales():
    A = X * [1e-8, 1.0, 1e8]
    close(RBF([1e-8, 1.0, 1e8])(A), RBF()(X), 1e-12)


# ---------------------------------------------------------------------------------------------- F07
KINDS = [
    "float16",
    "float32",
    "float64",
    "longdouble",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint64",
    "bool",
    "object",
]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("kernel", [RBF(), Polynomial(2), Intersection(), Pairwise(lambda a, b: float(a @ b))], ids=str)
def test_kinds_of_numbers(kernel, dtype):
    A = np.array([[0, 1], [1, 1], [1, 0]])
    K = kernel(A.astype(dtype))
    assert K.dtype == (np.float32 if dtype == "float32" else np.float64)
    close(K, kernel(A.astype(float)), 1e-6)


@pytest.mark.parametrize("first", ["float32", "float64"])
def test_mixed_precision(first):
    other = "float64" if first == "float32" else "float32"
    A, B = X.astype(first), X[:5].astype(other)
    for kernel in (
        RBF(0.7),
        Linear() * Laplacian(),
        Intersection(),
        Polynomial(2).normalise(),
        RBF([1.0, 2.0, 3.0]).centre(),
    ):
        K = kernel(A, B)
        assert K.dtype == np.float64
        close(K, gram(kernel, A.astype(float), B.astype(float), engine="reference").dense(), 1e-6)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([["a", "b"]]), "could not convert|text|numbers"),
        (["abc", "abd"], "holds text.*Spectrum"),
        ("abc", "text"),
        (np.array([[1 + 2j]]), "[Cc]omplex"),
        (np.array([["2020-01-01"]], "datetime64[D]"), "holds dates"),
        (np.array([[object()]]), "float"),
    ],
    ids=["array of words", "words", "one word", "complex", "dates", "objects"],
)
def test_what_is_no_number(rows, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RBF()(rows)


# ---------------------------------------------------------------------------------------------- F08
@pytest.mark.parametrize(
    "rows", [np.float64(3.0), np.zeros(3), np.zeros((2, 3, 4)), [1.0, 2.0]], ids=["0-d", "1-d", "3-d", "list"]
)
@pytest.mark.parametrize("kernel", [RBF(), Linear() + RBF().on(0)], ids=str)
def test_number_of_dimensions(kernel, rows):
    with pytest.raises(
        (ValueError, TypeError), match=r"2D array|dim 3|rows of X are|sequence of rows|Found array with dim|2-D"
    ):
        kernel(rows)


def storages(tmp_path):
    file = tmp_path / "rows.npy"
    np.save(file, X)
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(X.shape)
    return {
        "Fortran": np.asfortranarray(X),
        "big-endian": X.astype(">f8"),
        "memmap r": np.load(file, mmap_mode="r"),
        "memmap c": np.load(file, mmap_mode="c"),
        "unaligned": unaligned,
        "list": X.tolist(),
        "tuple": tuple(map(tuple, X.tolist())),
        "matrix of objects": X.astype(object),
        "pyarrow": pa.table({f"c{j}": X[:, j] for j in range(3)}),
        "polars": pl.DataFrame(X),
        "pandas": pd.DataFrame(X),
        "pandas nullable": pd.DataFrame(X).astype("Float64"),
        "pandas Arrow": pd.DataFrame(X).astype("double[pyarrow]"),
        "pandas MultiIndex": pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])),
        "pandas row labels": pd.DataFrame(X, index=list("hgfedcba")),
        "pandas repeated names": pd.DataFrame(X, columns=["a", "a", "b"]),
    }


@pytest.mark.parametrize(
    "kernel", [RBF(), Intersection(), Linear() + RBF().on(0), Pairwise(lambda a, b: float(a @ b))], ids=str
)
def test_storages(kernel, tmp_path):
    expected = kernel(X)
    for name, rows in storages(tmp_path).items():
        close(kernel(rows), expected, 1e-13, name)


def test_broadcast_rows():
    rows = np.broadcast_to(X[:1], (4, 3))  # stride 0
    close(RBF()(rows), np.ones((4, 4)), 0.0)
    close(Linear()(rows, X), np.repeat(X[:1] @ X.T, 4, axis=0), 1e-14)


# ---------------------------------------------------------------------------------------------- F10, parts
def test_a_dict_of_columns_is_refused_with_the_hint():
    for kernel in (RBF(), RBF().on("age"), Spectrum()):
        with pytest.raises(TypeError, match=r"X is a dict of columns.*pandas\.DataFrame\(X\).*sequence of rows"):
            kernel({"age": [1.0, 2.0]})
    with pytest.raises(TypeError, match="Y is a dict of columns"):
        RBF()(X, {"age": [1.0]})


def test_named_columns_of_a_bare_array_explain_set_output():
    for rows in (X, sp.csr_array(X)):
        with pytest.raises(ValueError, match=r'column "age".*set_output\(transform="pandas"\)'):
            RBF().on("age")(rows)


def test_columns_that_are_not_there():
    table = pd.DataFrame({"age": [1.0, 2.0], "bmi": [3.0, 4.0]})
    with pytest.raises(ValueError, match="reads the column 'weight', but X has 'age', 'bmi'"):
        RBF().on("weight")(table)
    with pytest.raises(ValueError, match="reads column 7, but X has 3 columns"):
        RBF().on(7)(X)
    with pytest.raises(ValueError, match="2 columns named 'age'"):
        RBF().on("age")(pd.DataFrame([[1.0, 2.0]], columns=["age", "age"]))
    for wrong in (1.5, None, ["a"], True):
        with pytest.raises(TypeError, match="column numbers and names"):
            RBF().on(wrong)
    with pytest.raises(ValueError, match="at least one column"):
        RBF().on()


def test_rows_of_records():
    k = Spectrum(2).on("dna") + RBF().on("age")
    with pytest.raises(ValueError, match="row 1 of X has the keys"):
        k([{"dna": "ab", "age": 1.0}, {"dna": "ab"}])
    k = Spectrum(2).on(0) + RBF().on(1)
    with pytest.raises(ValueError, match="row 1 of X has 1 fields, row 0 has 2"):
        k([("ab", 1.0), ("ab",)])
    with pytest.raises(TypeError, match="rows of X are str"):
        k(["ab", "cd"])
    with pytest.raises(ValueError, match="column 1 of X is not numeric"):
        k([("ab", "old"), ("cd", "young")])


def test_tables_with_words():
    table = pd.DataFrame({"age": [1.0, 2.0], "city": ["Rome", "Oslo"]})
    with pytest.raises(ValueError, match=r"column 'city' of X is not numeric.*Categorical"):
        RBF()(table)
    close((RBF().on("age") * mk.Categorical().on("city"))(table), np.eye(2), 0.0)
    category = table.astype({"city": "category"})
    close((RBF().on("age") * mk.Categorical().on("city"))(category), np.eye(2), 0.0)


def test_rows_of_words_are_categories_by_column():
    expected = [[1.0, 0.5], [0.5, 1.0]]
    rows = [["a", "b"], ["a", "c"]]
    for same in (rows, np.array(rows), np.array(rows, dtype=object), [("a", 1), ("a", 2)]):
        close(mk.Categorical()(same), expected, 0.0)


def test_functions_of_any_objects():
    def overlap(a, b):
        return float(len(set(a) & set(b)))

    close(Pairwise(overlap)(["ab", "bc"]), [[2, 1], [1, 2]], 0.0)
    close(Pairwise(overlap)([{"a": 1}, {"a": 2, "b": 3}]), [[1, 1], [1, 2]], 0.0)
    close(Pairwise(overlap)([("a", 1), ("b", 1)]), [[2, 1], [1, 2]], 0.0)
    close(Pairwise(overlap)(pd.DataFrame({"x": ["a", "b"], "y": [1, 1]})), [[2, 1], [1, 2]], 0.0)
    close((Pairwise(overlap) + Spectrum(1))(["ab", "bc"]), [[4, 2], [2, 4]], 0.0)
    blocks = [np.zeros((2, 2)), np.ones((2, 2))]
    close(Pairwise(lambda a, b: float((a * b).sum()))(blocks), [[0, 0], [0, 4]], 0.0)


def test_dates_in_a_table():
    table = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    with pytest.raises(ValueError, match="column 'day' of X is not numeric"):
        RBF()(table)


def test_missing_values_of_nullable_columns():
    table = pd.DataFrame({"age": pd.array([1, None], dtype="Int64")})
    with pytest.raises(ValueError, match="age"):
        RBF()(table)


# ---------------------------------------------------------------------------------------------- F15
def test_functions_that_raise():
    def broken(a, b):
        raise ZeroDivisionError("my own bug")

    for kernel in (Pairwise(broken), Blockwise(broken), RBF() + Pairwise(broken)):
        with pytest.raises(ZeroDivisionError, match="my own bug"):
            kernel(X)


def lopsided(A, B):
    return A[:, :1] + 0 * B[:, 0]


OUTPUTS = [
    (Blockwise(lambda A, B: np.zeros((len(A), 99))), KernelOutputError, r"returned shape \(8, 99\), expected \(8, 8\)"),
    (
        Blockwise(lambda A, B: np.full((len(A), len(B)), np.nan)),
        KernelOutputError,
        "returned NaN or infinity in 64 entries",
    ),
    (Blockwise(lambda A, B: np.full((len(A), len(B)), "a")), KernelOutputError, "returned dtype"),
    (Blockwise(lambda A, B: None), KernelOutputError, "returned shape|returned dtype"),
    (Blockwise(lopsided), NotSymmetricError, r"Blockwise\(lopsided\) is not symmetric"),
    (Pairwise(lambda a, b: np.nan), KernelOutputError, "returned NaN or infinity"),
    (Pairwise(lambda a, b: a), (KernelOutputError, TypeError, ValueError), "Pairwise|shape|scalar|sequence"),
    (Pairwise(lambda a, b: a[0]), NotSymmetricError, "Pairwise.*is not symmetric"),
    (Basis(lambda A: A[:2]), KernelOutputError, r"returned shape \(2, 3\), expected \(8, 3\)"),
    (Basis(lambda A: np.log(A - 1e9 * 0 - A)), KernelOutputError, "returned NaN or infinity"),
    (RBF().warp(lambda A: np.full(A.shape, np.nan)), KernelOutputError, "returned NaN or infinity"),
    (RBF().warp(lambda A: A[:3]), KernelOutputError, "returned shape"),
    (RBF().times(lambda A: A[:3, 0]), KernelOutputError, r"times\(.*returned shape \(3,\), expected \(8,\)"),
    (RBF().times(lambda A: np.full(len(A), np.inf)), KernelOutputError, "returned NaN or infinity"),
]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize(("kernel", "error", "message"), OUTPUTS, ids=range(len(OUTPUTS)))
def test_functions_that_return_nonsense_are_named(kernel, error, message):
    with pytest.raises(error, match=message):
        kernel(X)


def test_wrong_gradients_of_the_user_are_named():
    k = RBF().warp(lambda A: A**2, lambda A, G: G[:2])
    with pytest.raises(KernelOutputError, match=r"vjp of warp returned shape \(2, 3\), expected \(8, 3\)"):
        k.pullback_inputs(X)
    k = RBF().times(lambda A: A[:, 0], lambda A, v: v)
    with pytest.raises(KernelOutputError, match="vjp of times returned shape"):
        k.pullback_inputs(X)
    with pytest.raises(ValueError, match=r"W has shape \(3, 3\), expected \(8, 8\)"):
        RBF().pullback(X, W=np.ones((3, 3)))


def test_what_is_no_function():
    for build in (
        lambda: Pairwise(3),
        lambda: Blockwise("f"),
        lambda: Basis(None),
        lambda: RBF().warp(3),
        lambda: RBF().times("f"),
    ):
        with pytest.raises(TypeError, match="needs a function"):
            build()


@pytest.mark.parametrize("make", [Pairwise, Blockwise, Basis, RBF().warp, RBF().times], ids=str)
def test_pickling_a_lambda_says_what_is_wrong(make):
    with pytest.raises((pickle.PicklingError, AttributeError), match=r"lambda"):
        pickle.dumps(make(lambda *args: args[0]))


# ---------------------------------------------------------------------------------------------- F16, F17
@pytest.mark.parametrize("kernel", NUMERIC, ids=str)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_different_numbers_of_columns(kernel, storage):
    with pytest.raises(ValueError, match=r"X has 3 columns, but Y .* has 2"):
        kernel(storage(X), storage(X[:, :2]))


def test_parameters_for_another_number_of_columns():
    with pytest.raises(ValueError, match="lengthscale has 2 entries, but the rows have 3 columns"):
        RBF([1.0, 2.0])(X)
    with pytest.raises(ValueError, match="covariance is for 2 columns, but the rows have 3"):
        RBF(covariance=np.eye(2))(X)
    with pytest.raises(ValueError, match="A is for 2 columns"):
        mk.QuadraticForm(np.eye(2))(X)
    with pytest.raises(ValueError, match="RBF takes a lengthscale or a covariance, not both"):
        RBF(2.0, covariance=np.eye(2))


def test_a_million_sparse_columns_and_few_rows_with_many():
    S = sparse_random((30, 1_000_000), 3000)
    K = RBF(5.0)(S)
    difference = (S[[0]] - S[[1]]).toarray()
    assert K[0, 1] == pytest.approx(np.exp(-(difference**2).sum() / 50), rel=1e-10)
    assert Linear()(RNG.random((3, 100_000))).shape == (3, 3)


def test_white_needs_no_numbers():
    close((Spectrum(1) + White(0.2))(["a", "b"]), [[1.2, 0.0], [0.0, 1.2]], 1e-15)

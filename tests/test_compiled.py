"""Every compiled pass against a plain NumPy twin, at both dtypes, with odd shapes, ties, NaN and inf."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.special import gamma, kve

from cases import sparse_random
from mercer.engines import _compiled as c
from mercer.expr import MAPPED
from mercer.kernels import _compiled as decoration

TYPES = [np.float32, np.float64]
RTOL = {np.float32: 2e-6, np.float64: 1e-14}
EPS = {t: float(np.finfo(t).eps) for t in TYPES}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]

both = pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)


def run(instructions, leaves, tiles, dtype, *, rowv=None, colv=None, rowid=None, colid=None, same=False, outs=None,
        tables=None, at_zero=None, chunk=c.CHUNK, shape=None, i0=0, j0=0, A=None, B=None, tau=0):  # fmt: skip
    """Run a program given as (name, a, b, c, dst, value[, scale, shift]) rows and return its outputs."""
    tiles = np.ascontiguousarray(tiles, dtype)
    bi, bj = tiles.shape[1:]
    ops = np.array([(c.OPCODE[r[0]], *r[1:5]) for r in instructions], np.int32).reshape(-1, 5)
    consts = np.array([(*(r[6:] or (1.0, 0.0)), r[5]) for r in instructions], dtype).reshape(-1, 3)
    outs = np.array([instructions[-1][4]] if outs is None else outs, np.int32)
    out = np.full((len(outs), *(shape or (bi, bj))), -7, dtype)
    R = np.full((1 + max([0, *ops[:, 4], len(leaves) - 1]), chunk), np.nan, dtype)
    rowv = np.zeros((1, bi), dtype) if rowv is None else np.ascontiguousarray(rowv, dtype)
    colv = np.zeros((1, bj), dtype) if colv is None else np.ascontiguousarray(colv, dtype)
    rowid = np.arange(bi) if rowid is None else np.asarray(rowid, np.int64)
    colid = np.arange(bj) if colid is None else np.asarray(colid, np.int64)
    tables = np.zeros((0, 1, 1)) if tables is None else tables
    at_zero = np.zeros(0) if at_zero is None else at_zero
    leaves = np.array(leaves, np.int32).reshape(-1, 4)
    A, B = (np.zeros((0, 0), dtype) if side is None else np.ascontiguousarray(side, dtype) for side in (A, B))
    c.run_program(
        ops,
        consts,
        tables,
        at_zero,
        leaves,
        tiles,
        rowv,
        colv,
        rowid,
        colid,
        same,
        A,
        B,
        dtype(tau),
        outs,
        out,
        i0,
        j0,
        R,
    )
    return out


def unary(name, x, dtype, value=0.0, scale=1.0, shift=0.0, **keywords):
    """One instruction on one register."""
    x = np.asarray(x, dtype)
    return run([(name, 0, 0, 0, 1, value, scale, shift)], [(0, 0, 0, 0)], x.reshape(1, 1, -1), dtype, **keywords)[0, 0]


# ---------------------------------------------------------------------------------------------------------- exp and others


@both
def test_exp_accuracy(dtype):
    low, high = (-87.3, 88.7) if dtype is np.float32 else (-708.3, 709.7)
    x = np.concatenate([np.linspace(low, high, 100_001), np.linspace(-1, 1, 10_001), 10.0 ** -np.arange(1, 30)]).astype(
        dtype
    )
    error = np.abs(unary("exp", x, dtype) / np.exp(x.astype(np.longdouble)) - 1).max()
    assert error < (2.0**-23 if dtype is np.float32 else 4e-16)


@both
def test_exp_limits(dtype):
    x = np.array([-np.inf, -1e30, -1e3, -746, 0, 710, 1e30, np.inf, np.nan] * 7, dtype)  # long enough for the SIMD body
    expected = np.array([0, 0, 0, 0, 1, np.inf, np.inf, np.inf, np.nan] * 7)
    np.testing.assert_array_equal(unary("exp", x, dtype), expected)


@both
def test_nan_of_any_payload_survives_exp(dtype):
    integer, quiet, mantissa = (
        (np.uint32, 0x7FC00000, 22) if dtype is np.float32 else (np.uint64, 0x7FF8000000000000, 51)
    )
    payload = np.random.default_rng(0).integers(0, 2**mantissa, 200).astype(integer)
    x = (payload | integer(quiet)).view(dtype)
    assert np.isnan(unary("exp", np.concatenate([x, -x]), dtype)).all()


@both
def test_log_accuracy(dtype):
    tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    span = np.exp(np.linspace(math.log(np.finfo(dtype).tiny) - 3, math.log(huge), 50_001)).astype(dtype)
    x = np.concatenate([span, np.linspace(0.5, 2, 10_001).astype(dtype), np.array([tiny, huge, 1], dtype)])
    exact = np.log(x.astype(np.longdouble))
    got = unary("log", x, dtype)
    assert got[-1] == 0
    np.testing.assert_allclose(got[:-1], exact[:-1].astype(np.float64), rtol=1.5 * EPS[dtype])


REFERENCE = {
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt0": lambda a: np.where(a <= 0, 0, 1 / np.sqrt(np.where(a <= 0, 1, a))),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "acos": lambda a: np.arccos(np.clip(a, -1, 1)),
    "exp": np.exp,
    "affine": lambda a: a,
    "rdivc": lambda a: 1.5 / a,
    "const": lambda a: 1.5 + 0 * np.nan_to_num(a),
    "maxc": lambda a: np.maximum(a, 1.5),
    "minc": lambda a: np.minimum(a, 1.5),
    "powc": lambda a: a**1.5,
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "min": np.minimum,
    "max": np.maximum,
    "where": lambda a, b, c: np.where(np.isnan(a), np.nan, np.where(a >= 0, b, c)),
}


def test_every_operation_is_tested():
    assert {*REFERENCE, "table", "decay"} == set(c.OPCODE)
    assert sorted(c.OPCODE.values()) == list(range(23))
    assert all(getattr(c, name.upper()) == code for name, code in c.OPCODE.items())
    assert {name for name, code in c.OPCODE.items() if code < c.SIN and name != "const"} == MAPPED | {"decay"}


@both
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (-0.75, 0.5)])
@pytest.mark.parametrize("name", REFERENCE)
def test_operation(name, scale, shift, dtype):
    rng = np.random.default_rng(1)
    triples = np.array(np.meshgrid(SPECIAL, SPECIAL, SPECIAL)).reshape(3, -1)
    tiles = np.concatenate([triples, 3 * rng.standard_normal((3, 1000))], axis=1).astype(dtype)[:, None, :]
    leaves = [(0, k, 0, 0) for k in range(3)]
    got = run([(name, 0, 1, 2, 3, 1.5, scale, shift)], leaves, tiles, dtype)[0]
    f = REFERENCE[name]
    operands = tiles.astype(np.float64)
    if name in MAPPED:  # compared at the mapped operand as it was rounded: near 0 log would tell the two apart
        operands[0] = (operands[0] * scale + shift).astype(dtype)
    with np.errstate(all="ignore"):
        expected = f(*operands[: f.__code__.co_argcount if hasattr(f, "__code__") else f.nin])
    np.testing.assert_allclose(got, expected, rtol=RTOL[dtype], atol=EPS[dtype])


@both
@pytest.mark.parametrize("power", [0, 1, 2, 3, 7, 12, -1, -2, 0.5, -0.7, 2.5, -30.25, 2000])
def test_power(power, dtype):
    x = np.concatenate([np.linspace(0.9, 1.1, 333), [0, np.inf, 2], np.linspace(-1.02, -0.98, 55)]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = (x.astype(np.float64) ** power).astype(dtype)
    got = unary("powc", x, dtype, power)
    np.testing.assert_allclose(got, expected, rtol=4 * (1 + abs(power)) * EPS[dtype])
    if power:
        assert np.isnan(unary("powc", np.full(20, np.nan), dtype, power)).all()


@both
def test_tanh_is_relatively_accurate_near_zero(dtype):
    x = np.concatenate([10.0 ** np.linspace(-30, 1.2, 20_001), [0.625]]).astype(dtype)
    x = np.concatenate([x, -x])
    np.testing.assert_allclose(unary("tanh", x, dtype), np.tanh(x.astype(np.float64)), rtol=2 * EPS[dtype])


@both
@pytest.mark.parametrize("largest", [10.0, 2.0**20, 1e9])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_waves(name, largest, dtype):
    """Also next to the zeros, where the reduced argument has to keep its digits."""
    zeros = np.pi / 2 * np.arange(min(largest / 2, 10_000))
    x = np.concatenate([np.linspace(-largest, largest, 20_001), zeros]).astype(dtype)
    expected = getattr(np, name)(x.astype(np.float64))
    np.testing.assert_allclose(unary(name, x, dtype, chunk=64), expected, rtol=3 * EPS[dtype])


@both
@pytest.mark.parametrize(("scale", "shift", "factor"), [(1.0, 0.0, 1.0), (0.5, -2.0, 3.0), (-1.0, 0.0, -0.25)])
def test_decay(scale, shift, factor, dtype):
    """Half a unit of the exponent, relative, and some units of the result; 0 where that would be denormal."""
    unit = c.DECAY_UNIT[np.dtype(dtype).itemsize]
    lowest = -87.0 if dtype is np.float32 else -708.0
    a = (np.linspace(lowest, 0, 10_001).astype(dtype) - dtype(shift)) / dtype(scale)
    got = unary("decay", a, dtype, factor, scale=scale * unit, shift=shift * unit)
    argument = np.minimum(scale * a.astype(np.longdouble) + shift, 0)
    error = np.abs(got / (factor * np.exp(argument)) - 1)
    assert (error <= EPS[dtype] * (4 + 2 * np.abs(argument) + abs(shift))).all()


@both
def test_decay_limits(dtype):
    a = np.array([0, np.inf, 1e30, 800, np.nan] * 7, dtype)
    np.testing.assert_array_equal(unary("decay", a, dtype, 2.0, scale=-1.0), [2, 0, 0, 0, np.nan] * 7)


# -------------------------------------------------------------------------------------------------------------------- table


def matern(nu):
    return lambda z: 2 ** (1 - nu) / gamma(nu) * z**nu * kve(nu, z)


@both
@pytest.mark.parametrize("nu", [0.7, 2.3])
def test_table_of_matern(nu, dtype):
    tables = np.stack([c.dyadic_table(np.cos), c.dyadic_table(matern(nu))])
    assert tables.shape == (2, c.TABLE_MAX_EXPONENT - c.TABLE_MIN_EXPONENT + 1, 21)
    z = np.concatenate([[0], 10.0 ** np.linspace(-30, 3.3, 5001)]).astype(dtype)
    z = np.concatenate([z, 2.0 ** np.arange(-40, 11), np.nextafter(2.0 ** np.arange(-40, 11), 0).astype(dtype)]).astype(
        dtype
    )
    got = unary("table", z, dtype, 1, tables=tables, at_zero=np.array([0.0, 1.0]))
    assert got[0] == 1
    expected = matern(nu)(z[1:].astype(np.float64))
    np.testing.assert_allclose(got[1:], expected, rtol=1e-13 if dtype is np.float64 else 1.2e-7)


@both
def test_table_at_its_ends(dtype):
    tables = c.dyadic_table(lambda z: 1 + z)[None]
    end = 2.0 ** (c.TABLE_MAX_EXPONENT + 1)
    got = unary("table", [0, -0.0, -1, np.nan, np.inf, 1e30, end, 3], dtype, 0, tables=tables, at_zero=np.array([5.0]))
    np.testing.assert_allclose(got, [5, 5, 5, np.nan, 1 + end, 1 + end, 1 + end, 4], rtol=1e-7)
    if dtype is np.float64:
        got = unary(
            "table", [1e-300, 2.0**c.TABLE_MIN_EXPONENT, 5e-324], dtype, 0, tables=tables, at_zero=np.array([5.0])
        )
        np.testing.assert_allclose(got, 1)


def test_table_refuses_what_is_not_finite():
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"2\^-300"):
        c.dyadic_table(lambda z: 1 / z**4)


# ---------------------------------------------------------------------------------------------------------------- programs


def sides(bi, bj, dtype, seed=2, d=3):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((bi, d)).astype(dtype), rng.standard_normal((bj, d)).astype(dtype)
    B[: min(bi, bj)] = A[: min(bi, bj)]
    return A, B, (A * A).sum(1), (B * B).sum(1)


@both
@pytest.mark.parametrize("shape", [(1, 1), (1, 1500), (40, 1), (3, 1024), (5, 1025), (9, 130), (0, 4), (4, 0)], ids=str)
def test_composite_program(shape, dtype):
    """2 exp(-s/2) + <x,y>^2 + (1 + r) e^-r with r = sqrt(3 s), into the middle of a larger matrix, with the bare leaf beside."""
    A, B, a, b = sides(*shape, dtype)
    program = [
        *[("exp", 0, 0, 0, 2, 0, -0.5, 0), ("mul", 1, 1, 1, 3, 0), ("add", 2, 3, 3, 4, 0, 2, 0)],
        *[("sqrt", 0, 0, 0, 2, 0, 3, 0), ("exp", 2, 2, 2, 3, 0, -1, 0), ("fma", 2, 3, 4, 5, 0, 1, 1)],
    ]
    big = (shape[0] + 3, shape[1] + 4)
    out = run(program, [(1, 0, 0, 0), (0, 0, 0, 0)], (A @ B.T)[None], dtype, rowv=a[None], colv=b[None], same=True,
              outs=[5, 1], shape=big, i0=2, j0=1)  # fmt: skip
    s = ((A[:, None].astype(float) - B) ** 2).sum(2)
    r = np.sqrt(3 * s)
    expected = 2 * np.exp(-s / 2) + (A.astype(float) @ B.T) ** 2 + (1 + r) * np.exp(-r)
    inside = out[0, 2 : 2 + shape[0], 1 : 1 + shape[1]]
    np.testing.assert_allclose(inside, expected, rtol=2e-5 if dtype is np.float32 else 1e-12)
    np.testing.assert_array_equal(out[1, 2 : 2 + shape[0], 1 : 1 + shape[1]], A @ B.T)
    inside[:] = -7
    assert (out[0] == -7).all()


@both
@pytest.mark.parametrize("chunk", [7, c.CHUNK])
def test_leaves_without_instructions(chunk, dtype):
    rng = np.random.default_rng(3)
    tiles, rowv, colv = rng.standard_normal((2, 4, 23)), 9 + rng.random((3, 4)), 9 + rng.random((2, 23))
    tiles[1, 2, 20] = np.nan
    rowid, colid = [100, 5, 7, 9], np.r_[np.arange(20), 7, 100, 4]
    leaves = [(0, 1, 99, 99), (1, 1, 2, 1), (2, 1, 2, 1), (3, 99, 2, 99), (4, 99, 99, 1), (5, 99, 99, 99)]
    got = run(
        [], leaves, tiles, dtype, rowv=rowv, colv=colv, rowid=rowid, colid=colid, same=True, outs=range(6), chunk=chunk
    )
    t, r, k = tiles[1], rowv[2][:, None], colv[1][None]
    same = np.equal.outer(rowid, colid)
    distance = np.where(same & ~np.isnan(t), 0, np.maximum(r + k - 2 * t, 0))
    expected = [t, distance, t + r + k, r + 0 * k, k + 0 * r, same]
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=RTOL[dtype])
    assert (got[1][same & ~np.isnan(t)] == 0).all()
    assert not run([], [(5, 0, 0, 0)], tiles, dtype, rowid=rowid, colid=colid, same=False, outs=[0]).any()


# ---------------------------------------------------------------------------------------------------------------- distances


@both
@pytest.mark.parametrize("shape", [(1, 1), (1, 77), (50, 1), (33, 1500)], ids=str)
def test_rbf_tile(shape, dtype):
    A, B, a, b = sides(*shape, dtype)
    a[0] = a[0] * (1 + 8 * EPS[dtype])  # the diagonal would not be exact by itself
    G, out = A @ B.T, np.full((shape[0] + 2, shape[1] + 3), -7, dtype)
    rowid, colid, rate = np.arange(shape[0]), np.arange(shape[1]), -0.7 * c.DECAY_UNIT[out.itemsize]

    def tile(same):
        c.rbf_tile(G, a, b, rowid, colid, same, A[:0], B[:0], dtype(0), rate, 3.0, out, 1, 2)

    tile(True)
    inside = out[1 : 1 + shape[0], 2 : 2 + shape[1]]
    s = ((A[:, None].astype(float) - B) ** 2).sum(2)
    np.testing.assert_allclose(inside, 3 * np.exp(-0.7 * s), rtol=2e-5 if dtype is np.float32 else 1e-12)
    assert (inside.diagonal() == 3).all()
    G[:] = (a[:, None] + b) / 2 + 1  # rounding gone mad: negative distances are cut off
    tile(False)
    assert (inside == 3).all()
    G[:] = np.nan
    tile(True)
    assert np.isnan(inside).all()
    G[:] = -np.inf
    tile(False)
    assert (inside == 0).all()
    inside[:] = -7
    assert (out == -7).all()


@both
def test_rbf_tile_is_exact_to_rounding(dtype):
    """Of exact distances: half a unit of the exponent, relative, and a few units of the result."""
    s = np.linspace(0, 80, 4001).astype(dtype)
    G, out, ids, none = (
        np.zeros((1, s.size), dtype),
        np.empty((1, s.size), dtype),
        np.arange(s.size),
        np.empty((0, 0), dtype),
    )
    rate = -c.DECAY_UNIT[out.itemsize]
    c.rbf_tile(G, np.zeros(1, dtype), s, ids[:1], ids, False, none, none, dtype(0), rate, 1.0, out, 0, 0)
    exact = np.exp(-s.astype(np.longdouble))
    assert (np.abs(out[0] / exact - 1) <= EPS[dtype] * (2 + s)).all()


def clusters(dtype):
    """Two clusters 2^26 apart, with distances of order one inside each: no distance inside survives the GEMM."""
    rng = np.random.default_rng(4)
    A, B = rng.standard_normal((30, 7)), rng.standard_normal((41, 7))
    A[::2, 0] += 2.0**26
    B[::2, 0] += 2.0**26
    A[:, 3], B[5] = 0, 0
    return A.astype(dtype), B.astype(dtype)


@both
def test_repair_of_small_distances(dtype):
    A, B = clusters(dtype)
    G, a, b = A @ B.T, (A * A).sum(1), (B * B).sum(1)
    exact = ((A[:, None].astype(float) - B) ** 2).sum(2)
    dense, sparse = np.empty(G.shape, dtype), np.empty(G.shape, dtype)
    c.sqdist_tile(G, a, b, A, B, 1e-3, dense)
    S, T = scipy.sparse.csr_array(A), scipy.sparse.csr_array(B)
    index = np.int32 if dtype is np.float32 else np.int64
    parts = [x.astype(index) if x.dtype.kind == "i" else x for m in (S, T) for x in (m.data, m.indices, m.indptr)]
    c.sqdist_tile_csr(G, a, b, *parts, 1e-3, sparse)
    np.testing.assert_allclose(dense, exact, rtol=40 * EPS[dtype])
    np.testing.assert_allclose(sparse, exact, rtol=40 * EPS[dtype])
    c.sqdist_tile(G, a, b, A, B, 0.0, dense)
    assert np.abs(dense - exact).max() > 0.1
    np.testing.assert_array_equal(dense, np.maximum(a[:, None] + b - 2 * G, 0))


@both
def test_distances_keep_nan(dtype):
    A, B, a, b = sides(1, 40, dtype)
    G = A @ B.T
    G[0, 3], b[5] = np.nan, np.nan
    out = np.empty_like(G)
    c.sqdist_tile(G, a, b, A, B, 1e-3, out)
    assert np.flatnonzero(np.isnan(out[0])).tolist() == [3, 5]
    assert out[0, 0] == 0


# ------------------------------------------------------------------------------------------------------- column statistics


def bspline(u, m):
    h = lambda k: np.maximum((m + 1) / 2 - np.abs(u) - k, 0)  # noqa: E731
    return sum((-1) ** k * math.comb(m + 1, k) * h(k) ** m for k in range(m + 1)) / math.factorial(m)


def spline(x, y):
    m = np.minimum(x, y)
    return 1 + x * y + x * y * m - (x + y) / 2 * m**2 + m**3 / 3


def window(u, m):
    u = np.abs(u)
    if m == 0:
        return np.where(u < 1, np.cos(np.pi * np.minimum(u, 1) / 2), 0)
    return np.where(u <= 1, np.maximum(1 - u ** (m // 10), 0) ** (m % 10), 0)


def chi2(x, y):
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(x == y, 0, (x - y) ** 2 / (x + y))


COLUMN = {
    "absdiff": lambda x, y, m: np.abs(x - y),
    "min": lambda x, y, m: np.minimum(x, y),
    "chi2": lambda x, y, m: chi2(x, y),
    "equal": lambda x, y, m: (x == y) * 1.0,
    "gauss": lambda x, y, m: np.exp(-((x - y) ** 2) / 2),
    "bspline": lambda x, y, m: bspline(x - y, m),
    "spline": lambda x, y, m: spline(x, y),
    "window": lambda x, y, m: window(x - y, m),
}
PARAMETER = {"window": 33}  # the smoothest at its end; of the other codes 3


def combined(code, combine, parameter, A, B, weights, degree):
    """e_degree, product or weighted sum of the column function, (bi, bj)."""
    z = COLUMN[code](A[:, None, :].astype(float), B[None].astype(float), parameter)
    if combine == "sum":
        return (z * weights).sum(2)
    if combine == "prod":
        return z.prod(2)
    e = [np.ones(z.shape[:2])] + [np.zeros(z.shape[:2])] * degree
    for k in range(z.shape[2]):
        e = [e[0]] + [e[p] + z[:, :, k] * e[p - 1] for p in range(1, degree + 1)]
    return e[degree]


def columns(dtype, bi=5, bj=35, d=6):
    """Non-negative data with duplicates, ties and zeros."""
    rng = np.random.default_rng(5)
    A, B = (rng.integers(0, 9, (n, d)) / 4 for n in (bi, bj))
    A[0], B[0] = 0, 0
    return A.astype(dtype), B.astype(dtype), (0.5 + rng.random(d)).astype(dtype)


def test_codes_are_tested():
    assert list(COLUMN) == list(c.COLUMN_CODE)
    assert list(c.COMBINE_CODE) == ["sum", "prod", "elementary"]


@both
@pytest.mark.parametrize("combine", ["sum", "prod", "elementary"])
@pytest.mark.parametrize("code", COLUMN)
def test_column_tile(code, combine, dtype):
    A, B, w = columns(dtype)
    D = 3 if combine == "elementary" else 1
    out = np.full((D, len(A), len(B)), np.nan, dtype)
    arguments = c.COLUMN_CODE[code], c.COMBINE_CODE[combine], PARAMETER.get(code, 3)
    for start, init in ((0, True), (2, False)):  # columns in two pieces
        stop = 2 if init else A.shape[1]
        piece = np.ascontiguousarray(A[:, start:stop]), np.ascontiguousarray(B.T[start:stop])
        c.column_tile(*arguments, *piece, w[start:stop], init, out)
    for p in range(1, D + 1):
        expected = combined(code, combine, PARAMETER.get(code, 3), A, B, w.astype(float), p)
        np.testing.assert_allclose(out[p - 1], expected, rtol=5 * RTOL[dtype], atol=10 * EPS[dtype])


@both
def test_column_tile_passes_nan_on(dtype):
    A, B, w = columns(dtype, 1, 40)
    B[7, 2] = np.nan
    for code in set(COLUMN) - {"equal"}:
        for combine in c.COMBINE_CODE:
            out = np.empty((2 if combine == "elementary" else 1, 1, 40), dtype)
            c.column_tile(
                c.COLUMN_CODE[code], c.COMBINE_CODE[combine], PARAMETER.get(code, 3), A, B.T.copy(), w, True, out
            )
            assert np.flatnonzero(np.isnan(out[-1, 0])).tolist() == [7], (code, combine)


def test_equal_compares_codes_in_float64():
    A, B = np.array([[2.0**24, 1.0]]), np.array([[2.0**24 + 1, 1.0]])
    out = np.empty((1, 1, 1), np.float32)
    c.column_tile(c.COLUMN_CODE["equal"], 0, 0, A, B.T.copy(), np.ones(2, np.float32), True, out)
    assert out[0, 0, 0] == 1


@pytest.mark.parametrize("m", [0, 11, 20, 21, 22, 33])
def test_window_values_and_slopes(m):
    x = np.array([[0.0], [0.3], [-0.7], [1.0 - 1e-7], [1.0], [-1.0], [1.0 + 1e-7], [40.0], [np.nan]])
    zero, one, out = np.zeros((1, 1)), np.ones(1), np.empty((1, 9, 1))
    c.column_tile(c.COLUMN_CODE["window"], 0, m, x, zero, one, True, out)
    np.testing.assert_allclose(out[0, :-1], window(x[:-1], m), rtol=1e-13, atol=1e-16)
    assert np.isnan(out[0, -1])
    slope = pull("window", "sum", m, x[1:4], zero, one, np.ones((3, 1)))[0]
    expected = (window(x[1:4] + 1e-8, m) - window(x[1:4] - 1e-8, m)) / 2e-8
    np.testing.assert_allclose(slope, expected, atol=1e-6)


@pytest.mark.parametrize("m", [1, 3, 5, 7])
def test_bspline_values(m):
    x = np.array([[0.0], [0.3], [1.0], [(m + 1) / 2 - 1e-5], [(m + 1) / 2], [-40.0]])
    out, zero, one = np.empty((1, 6, 1)), np.zeros((1, 1)), np.ones(1)
    c.column_tile(c.COLUMN_CODE["bspline"], 0, m, x, zero, one, True, out)
    np.testing.assert_allclose(out[0], bspline(x, m), rtol=1e-13)
    at_zero = {1: 1, 3: 2 / 3, 5: 11 / 20, 7: 151 / 315}
    np.testing.assert_allclose(out[0, 0], at_zero[m], rtol=1e-15)
    near_end = ((m + 1) / 2 - x[3, 0]) ** m / math.factorial(m)
    np.testing.assert_allclose(out[0, 3], near_end, rtol=1e-14)
    assert (out[0, 4:] == 0).all()


def pull(code, combine, parameter, A, B, w, V):
    gA, gB = np.ones(A.shape, V.dtype), np.full(B.shape, 2, V.dtype)  # adds to what is there
    c.column_pullback(c.COLUMN_CODE[code], c.COMBINE_CODE[combine], parameter, A, B, w, V, gA, gB)
    return gA - 1, gB - 2


@pytest.mark.parametrize("combine", ["sum", "prod", "elementary"])
@pytest.mark.parametrize("code", COLUMN)
def test_column_pullback_by_central_differences(code, combine):
    """Central differences give the mean of both slopes at a kink, which is the subgradient promised."""
    A, B, w = columns(np.float64, 3, 4, 5)
    if code == "chi2":
        A, B = A + 0.5, B + 0.25 * np.arange(1, 6)  # 0/0 and x + y = 0 have no derivative
    if (code, combine) == ("window", "elementary"):
        pytest.skip(
            "one parameter cannot be the code of a window and the degree of a polynomial; windows are multiplied"
        )
    V, h, degree = np.random.default_rng(6).standard_normal((3, 4)), 1e-6, 2
    own = PARAMETER.get(code, 3)
    parameter = degree if combine == "elementary" else own
    if code == "bspline" and combine == "elementary":
        parameter = degree = 3
    f = lambda A, B: (V * combined(code, combine, own, A, B, w, degree)).sum()  # noqa: E731
    slopes = []
    for which in (0, 1):
        slope = np.zeros((A, B)[which].shape)
        for index in np.ndindex(slope.shape):
            step = np.zeros_like(slope)
            step[index] = h
            up, down = ([A + step, B], [A - step, B]) if which == 0 else ([A, B + step], [A, B - step])
            slope[index] = 0 if code == "equal" else (f(*up) - f(*down)) / (2 * h)
        slopes.append(slope)
    for got, expected in zip(pull(code, combine, parameter, A, B, w, V), slopes, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-7)


@pytest.mark.parametrize("combine", ["sum", "prod", "elementary"])
@pytest.mark.parametrize("code", COLUMN)
def test_column_pullback_in_float32_and_of_identical_rows(code, combine):
    A, B, w = columns(np.float32, 4, 6)
    B[:4] = A
    V = np.random.default_rng(7).standard_normal((4, 6)).astype(np.float32)
    single = pull(code, combine, PARAMETER.get(code, 3), A, B, w, V)
    double = pull(code, combine, PARAMETER.get(code, 3), *(x.astype(np.float64) for x in (A, B, w, V)))
    for s, d in zip(single, double, strict=True):
        assert s.dtype == np.float32
        assert np.isfinite(d).all()
        np.testing.assert_allclose(s, d, rtol=1e-4, atol=1e-4 * np.abs(d).max())


def test_pullback_passes_nan_on():
    A, B, w = columns(np.float64, 1, 2)
    A[0, 1] = np.nan
    for code in set(COLUMN) - {"equal"}:
        gA, gB = pull(code, "sum", PARAMETER.get(code, 3), A, B, w, np.ones((1, 2)))
        assert np.flatnonzero(np.isnan(gA[0])).tolist() == [1], code
        assert np.isnan(gB).sum(0).tolist() == [0, 2, 0, 0, 0, 0], code


# ------------------------------------------------------------------------------------------------- products of sparse rows


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(7, 5000), (40, 30)])
def test_sparse_product(dtype, shape, monkeypatch):
    """Whole, in pieces, with empty rows, and the same from both sides."""
    from mercer.engines import cpu

    A = sparse_random(shape, int(0.08 * shape[0] * shape[1]), dtype)
    B = A[1:6].copy()
    A.data[:3] = 0.0
    for pieces in (5e7, 10.0):
        monkeypatch.setattr(cpu, "_PRODUCTS", pieces)
        out, back = np.full((shape[0], 5), np.nan, dtype), np.full((5, shape[0]), np.nan, dtype)
        cpu._multiply(A, B, out)
        cpu._multiply(B, A, back)
        np.testing.assert_allclose(out, A.toarray() @ B.toarray().T, rtol=1e-5 if dtype is np.float32 else 1e-13)
        np.testing.assert_array_equal(out, back.T)


# -------------------------------------------------------------------------------------------------------------- decoration


def test_falls_back_when_nothing_can_be_cached(monkeypatch):
    def njit(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function 'f': no locator available for file '<string>'")
        return lambda f: ("uncached", f, options["nogil"])

    monkeypatch.setattr(decoration, "njit", njit)
    decoration._warn_uncached.cache_clear()
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        assert c.compiled(len) == ("uncached", len, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert c.compiled(fastmath=c.REDUCTION)(len)[0] == "uncached"  # said once


def test_other_errors_are_not_hidden(monkeypatch):
    def njit(**options):
        raise RuntimeError("something else")

    monkeypatch.setattr(decoration, "njit", njit)
    with pytest.raises(RuntimeError, match="something else"):
        c.compiled(len)


def test_no_function_assumes_finite_numbers():
    functions = [f for f in vars(c).values() if hasattr(f, "targetoptions")]
    assert len(functions) > 20
    for f in functions:
        assert f.targetoptions["nogil"]
        assert f.targetoptions["error_model"] == "numpy"
        assert set(f.targetoptions["fastmath"]) <= c.REDUCTION


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_close_sees_pairs_that_are_near_and_not_the_same_object(dtype):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((9, 6)).astype(dtype)
    B = np.vstack([A, rng.standard_normal((20, 6)).astype(dtype)])
    tau = dtype(1e-3)

    def close(A, B, rowid, colid, same):
        return c.any_close(A @ B.T, (A**2).sum(1), (B**2).sum(1), rowid, colid, same, tau)

    rows, columns = np.arange(9), np.arange(29)
    assert not close(A, B[9:], rows, columns[9:], False)
    assert close(A, B, rows, columns, False)  # equal rows, different objects
    assert not close(A, B, rows, columns, True)  # each meets itself only
    near = B.copy()
    near[20] = A[3] * dtype(1.001)
    assert close(A, near, rows, columns, True)
    assert not close(A[:1], B[9:10], rows[:1], columns[9:10], True)

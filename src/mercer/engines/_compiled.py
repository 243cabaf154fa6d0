"""Compiled passes over one Gram tile: everything the CPU engine runs after its GEMM.

Rules of this file: functions take C-contiguous, writable arrays and scalars (another layout, or a read-only array, is another
Numba signature and costs seconds of compilation); they hold no lock on the interpreter and start no threads, since the engine
runs one tile per thread; NaN comes out wherever NaN went in. float32 stays float32: constants are made in the dtype of the
arrays, because a bare literal would promote the loop to float64 and halve its speed. Where float64 is wanted it is written
np.float64(x), since Numba's float(x) leaves a float32 as it is.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from mercer.kernels._compiled import ELEMENTWISE, compiled

# Sums may in addition be taken in any order.
REDUCTION = ELEMENTWISE | {"reassoc"}


def _generic(stub):
    """Let compiled code that calls `stub` use the function which the decorated one chooses for the argument's type."""
    return overload(stub, jit_options={"nogil": True, "error_model": "numpy", "fastmath": set(ELEMENTWISE)})


# ------------------------------------------------------------------------------------------ exp and log that vectorise
# Numba calls libm for math.exp and math.log, one number at a time. These are branch-free (conditional expressions become
# SIMD selects) and reach the exponent field by a bit cast.


@intrinsic
def _bits(typingctx, x):
    """The bits of a float as an integer of the same width."""
    result = types.int32 if x == types.float32 else types.int64

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(result))

    return result(x), codegen


@intrinsic
def _from_bits(typingctx, i):
    """The float whose bits are the integer `i`."""
    result = types.float32 if i == types.int32 else types.float64

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(result))

    return result(i), codegen


@intrinsic
def _scale(typingctx, p, t):
    """p * 2**n by adding n to the exponent field of p; n stands in the lowest bits of t, where the rounding trick left it."""
    width, mantissa = (32, 23) if p == types.float32 else (64, 52)

    def codegen(context, builder, signature, args):
        integer = ir.IntType(width)
        bits, n = (builder.bitcast(a, integer) for a in args)
        total = builder.add(bits, builder.shl(n, ir.Constant(integer, mantissa)))
        return builder.bitcast(total, args[0].type)

    return p(p, p), codegen


def _float32(*values):
    return tuple(np.float32(v) for v in values)


# e^f = 1 + f + f^2 q(f) on |f| <= log(2)/2, q interpolated at Chebyshev nodes: total degree 6 (1e-8) and 12 (2e-19).
# log(2) is split so that n times the high part is exact even without fused multiply-add.
_LOG2E_S, _HIGH_S, _LOW_S, _MAGIC_S = _float32(1.4426950408889634, 0.693359375, -2.12194440e-4, 1.5 * 2**23)
_SMALLEST_S, _LARGEST_S, _INF_S, _ONE_S, _ZERO_S = _float32(-87.33654, 88.72284, np.inf, 1, 0)
_Q0_S, _Q1_S, _Q2_S, _Q3_S, _Q4_S = _float32(0.5, 0.16666576, 0.041666556, 0.008363203, 0.0013926213)
_LOG2E, _HIGH, _LOW, _MAGIC = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.5 * 2.0**52
_SMALLEST, _LARGEST, _INF = -708.3964185322641, 709.782712893384, np.inf


def _exp_single(x):
    t = x * _LOG2E_S + _MAGIC_S  # rounds to the nearest integer: below one the magic number has no bits
    n = t - _MAGIC_S
    f = (x - n * _HIGH_S) - n * _LOW_S
    q = (((_Q4_S * f + _Q3_S) * f + _Q2_S) * f + _Q1_S) * f + _Q0_S
    y = _scale((f * f) * q + f + _ONE_S, t)
    y = _ZERO_S if x < _SMALLEST_S else y
    return y if x <= _LARGEST_S else x + _INF_S  # neither inf nor NaN is <= : one select serves both


def _exp_double(x):
    t = x * _LOG2E + _MAGIC
    n = t - _MAGIC
    f = (x - n * _HIGH) - n * _LOW
    q = 2.091571310478304e-09 * f + 2.5105284972898017e-08
    q = (q * f + 2.7557269861108283e-07) * f + 2.7557255225476434e-06
    q = (q * f + 2.480158733045656e-05) * f + 0.00019841269874972388
    q = (q * f + 0.0013888888888881153) * f + 0.008333333333326086
    q = (q * f + 0.04166666666666667) * f + 0.1666666666666667
    q = q * f + 0.5
    y = _scale((f * f) * q + f + 1.0, t)
    y = 0.0 if x < _SMALLEST else y
    return y if x <= _LARGEST else x + _INF


def vexp(x):
    """exp(x) inside compiled code, at the precision of x: 0 where the result would be denormal, inf on overflow."""
    raise NotImplementedError("vexp exists in compiled code only")


@_generic(vexp)
def _choose_exp(x):
    return _exp_single if x == types.float32 else _exp_double


# 2^f = 1 + f q(f) on |f| <= 1/2, q interpolated at Chebyshev nodes.
_P0_S, _P1_S, _P2_S = _float32(0.6931471880262288, 0.24022650760568126, 0.05550357114219078)
_P3_S, _P4_S, _P5_S, _LOWEST_S = _float32(0.009618082557277852, 0.0013390863364671234, 0.0001545316294512069, -126)


def _decay_single(x):
    t = x + _MAGIC_S
    f = x - (t - _MAGIC_S)
    q = ((((_P5_S * f + _P4_S) * f + _P3_S) * f + _P2_S) * f + _P1_S) * f + _P0_S
    return _ZERO_S if x < _LOWEST_S else _scale(f * q + _ONE_S, t)


def decay(x):
    """exp(x / decay_unit) inside compiled code for x <= 0. A power of two where the unit costs no digits: in float32, since the
    caller multiplies it in float64. A quarter faster than `vexp`."""
    raise NotImplementedError("decay exists in compiled code only")


@_generic(decay)
def _choose_decay(x):
    return _decay_single if x == types.float32 else _exp_double


#: What the argument of `decay` is multiplied by, by the bytes of a number.
DECAY_UNIT = {4: _LOG2E, 8: 1.0}


_TINY_S, _LIFT_S, _HALF_S, _TWO_S = _float32(2.0**-126, 2.0**25, 0.5, 2)
_LN2_HIGH_S, _LN2_LOW_S, _LIFTED_S, _NAN_S = _float32(6.9313812256e-01, 9.0580006145e-06, 25, np.nan)
_L1_S, _L2_S, _L3_S, _L4_S = _float32(0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841)
_TINY = 2.0**-1022
_WAVE_LIMIT = 2.0**20  # up to here multiples of the first part of pi/2 are exact


def _log_single(x):
    """FreeBSD's logf without its branches: x = 2^k (1 + f), s = f/(2+f), log(1+f) = f - f^2/2 + s (f^2/2 + R(s^2))."""
    lifted = x * _LIFT_S if x < _TINY_S else x  # denormals have no exponent of their own
    i = np.int32(_bits(lifted) + np.int32(0x3F800000 - 0x3F3504F3))
    k = np.float32(np.int32(i >> np.int32(23)) - np.int32(127)) - (_LIFTED_S if x < _TINY_S else _ZERO_S)
    f = _from_bits(np.int32((i & np.int32(0x007FFFFF)) + np.int32(0x3F3504F3))) - _ONE_S
    s = f / (_TWO_S + f)
    z = s * s
    w = z * z
    r = z * (_L1_S + w * _L3_S) + w * (_L2_S + w * _L4_S)
    h = _HALF_S * f * f
    y = (s * (h + r) + k * _LN2_LOW_S - h + f) + k * _LN2_HIGH_S
    y = y if x > _ZERO_S else (-_INF_S if x == _ZERO_S else _NAN_S)
    return y if x < _INF_S else x  # inf and NaN are their own logarithms


def _log_double(x):
    """FreeBSD's log without its branches; see `_log_single`."""
    lifted = x * 2.0**54 if x < _TINY else x
    i = _bits(lifted) + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
    k = float((i >> 52) - 1023) - (54.0 if x < _TINY else 0.0)
    f = _from_bits((i & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = 0.1818357216161805012 + w * 0.1479819860511658591
    odd = z * (0.6666666666666735130 + w * (0.2857142874366239149 + w * odd))
    even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332))
    h = 0.5 * f * f
    y = (s * (h + (odd + even)) + k * _LOW - h + f) + k * _HIGH
    y = y if x > 0.0 else (-_INF if x == 0.0 else np.nan)
    return y if x < _INF else x


def vlog(x):
    """log(x) inside compiled code, at the precision of x: -inf at zero, NaN below."""
    raise NotImplementedError("vlog exists in compiled code only")


@_generic(vlog)
def _choose_log(x):
    return _log_single if x == types.float32 else _log_double


@compiled
def _tanh(x):
    """tanh in float64: Cephes' rational function below 5/8, where 1 - 2/(e^2|x| + 1) would lose digits."""
    z = x * x
    p = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3
    q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3
    small = x + x * (z * (p / q))
    large = math.copysign(1.0 - 2.0 / (vexp(abs(x + x)) + 1.0), x)
    return large if abs(x) > 0.625 else small  # NaN is not greater, and comes out of the rational function


@compiled
def _sine(x, quarters):
    """sin(x + quarters pi/2) in float64 for |x| <= _WAVE_LIMIT: fdlibm's polynomials, pi/2 in three parts of 33 bits."""
    t = x * 0.6366197723675814 + _MAGIC
    n = t - _MAGIC
    r = ((x - n * 1.57079632673412561417e00) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21
    z = r * r
    s = (1.58969099521155010221e-10 * z - 2.50507602534068634195e-08) * z + 2.75573137070700676789e-06
    s = ((s * z - 1.98412698298579493134e-04) * z + 8.33333333332248946124e-03) * z - 1.66666666666666324348e-01
    c = (-1.13596475577881948265e-11 * z + 2.08757232129817482790e-09) * z - 2.75573143513906633035e-07
    c = ((c * z + 2.48015872894767294178e-05) * z - 1.38888888888741095749e-03) * z + 4.16666666666666019037e-02
    w = 1.0 - 0.5 * z
    quadrant = _bits(t) + quarters  # n stands in the lowest bits of t
    y = w + (((1.0 - w) - 0.5 * z) + z * z * c) if quadrant & 1 else r + r * z * s
    return -y if quadrant & 2 else y


@compiled(fastmath={"contract", "nsz"})
def _rsqrt0(x, zero, one):
    """1/sqrt(x), 0 for x <= 0. Without "arcp", which here would mean an estimate and a Newton step: NaN at inf."""
    return zero if x <= zero else one / math.sqrt(x)


@compiled
def _minimum(x, y):
    """min(x, y), NaN if either is."""
    return x if (x < y or x != x) else y


@compiled
def _positive(x, zero):
    """max(x, 0), NaN kept: the built-in max would turn NaN into 0."""
    return zero if x < zero else x


# ------------------------------------------------------------------------------------------------- products of sparse rows


@compiled
def sparse_product(a_data, a_indices, a_indptr, b_data, b_indices, b_indptr, first, stop, out):
    """Add A B^T to the rows first:stop of a tile; A comes by rows and B by columns. Each sum runs over the columns in order, so
    that a tile does not depend on which of the two sides is A."""
    for i in range(first, stop):
        for p in range(a_indptr[i], a_indptr[i + 1]):
            x, c = a_data[p], a_indices[p]
            for q in range(b_indptr[c], b_indptr[c + 1]):
                out[i, b_indices[q]] += x * b_data[q]


# --------------------------------------------------------------------------------- functions tabulated on dyadic intervals

TABLE_MIN_EXPONENT = -300
TABLE_MAX_EXPONENT = 10
TABLE_FIRST = 2.0**TABLE_MIN_EXPONENT
TABLE_LAST = float(np.nextafter(2.0 ** (TABLE_MAX_EXPONENT + 1), 0.0))


def dyadic_table(f, degree=20):
    """Chebyshev coefficients of `f` on [2^k, 2^(k+1)) for k = TABLE_MIN_EXPONENT ... TABLE_MAX_EXPONENT.

    On such an interval a singularity at 0 is at distance 3 from the centre in units of the half width, so coefficients fall
    like 5.8^-p and degree 20 is enough for full precision whatever `f` does at 0. Returns float64 (n_intervals, degree + 1).
    """
    angle = np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1)
    starts = 2.0 ** np.arange(TABLE_MIN_EXPONENT, TABLE_MAX_EXPONENT + 1)
    values = np.asarray(f(starts[:, None] * (1.5 + 0.5 * np.cos(angle))), dtype=np.float64)
    if not np.isfinite(values).all():
        k = TABLE_MIN_EXPONENT + int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise ValueError(f"cannot tabulate a function that is not finite on [2^{k}, 2^{k + 1}); use its limit there")
    coefficients = values @ np.cos(np.outer(angle, np.arange(degree + 1))) * (2.0 / (degree + 1))
    coefficients[:, 0] *= 0.5
    return coefficients


@compiled
def _table_value(table, at_zero, a):
    """Clenshaw's sum at float64 `a`; the exponent bits of `a` are the interval, its mantissa the place inside."""
    if a != a:
        return a
    if a <= 0.0:
        return at_zero
    bits = _bits(min(max(a, TABLE_FIRST), TABLE_LAST))
    interval = (bits >> 52) - (1023 + TABLE_MIN_EXPONENT)
    t = 2.0 * _from_bits((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000) - 3.0
    t2 = t + t
    b1 = b2 = 0.0
    for p in range(table.shape[1] - 1, 0, -1):
        b1, b2 = (
            t2 * b1 + (table[interval, p] - b2),
            b1,
        )  # grouped so that the chain from b1 to b1 is one fused operation
    return t * b1 + (table[interval, 0] - b2)


@compiled
def _table_pass(table, at_zero, a, d):
    for t in range(d.size):
        d[t] = _table_value(table, at_zero, np.float64(a[t]))


# ------------------------------------------------------------------------------------------------- the program interpreter

CHUNK = 1024  # columns at a time: ten float32 registers are 40 KB

_OPERATIONS = """affine add mul fma div rdivc min max minc maxc where const
exp log sqrt rsqrt0 tanh acos decay sin cos powc table""".split()
OPCODE = {name: code for code, name in enumerate(_OPERATIONS)}
AFFINE, ADD, MUL, FMA, DIV, RDIVC, MIN, MAX, MINC, MAXC, WHERE, CONST = range(12)
EXP, LOG, SQRT, RSQRT0, TANH, ACOS, DECAY, SIN, COS, POWC, TABLE = range(12, 23)

LEAF_TILE, LEAF_SQDIST, LEAF_INNER, LEAF_ROW, LEAF_COL, LEAF_SAME = range(6)
_LARGEST_POWER = 1024  # integer powers up to this one are taken by multiplication


@compiled
def _integer_power(a, power, d):
    """d = a**power by squaring; passes over the chunk, since a loop per element would not vectorise."""
    one = d.dtype.type(1)
    n = abs(power)
    for t in range(d.size):
        d[t] = a[t] if n else one
    bit = 1
    while 2 * bit <= n:
        bit *= 2
    while bit > 1:
        bit //= 2
        for t in range(d.size):
            d[t] = d[t] * d[t]
        if n & bit:
            for t in range(d.size):
                d[t] = d[t] * a[t]
    if power < 0:
        for t in range(d.size):
            d[t] = one / d[t]


@compiled
def _power(a, power, d):
    """d = a**power. Fractional powers are exp(power log a) in float64: relative error |power log a| 1e-16 and 0 if denormal."""
    exponent = np.float64(power)
    if abs(exponent) > _LARGEST_POWER:
        for t in range(d.size):
            d[t] = math.pow(a[t], power)
    elif exponent == math.floor(exponent):
        _integer_power(a, int(exponent), d)
    else:
        for t in range(d.size):
            x = np.float64(a[t])
            d[t] = vexp(exponent * vlog(_INF if x == -_INF else x))  # pow(-inf, y) is that of +inf


@compiled
def _wave(a, quarters, d):
    """d = sin(a + quarters pi/2), quarters 0 or 1; a chunk with huge arguments (or inf, NaN) is left to libm."""
    moderate = True
    for t in range(d.size):
        moderate &= abs(np.float64(a[t])) <= _WAVE_LIMIT
    if moderate:
        for t in range(d.size):
            d[t] = _sine(np.float64(a[t]), quarters)
    elif quarters:
        for t in range(d.size):
            d[t] = math.cos(a[t])
    else:
        for t in range(d.size):
            d[t] = math.sin(a[t])


@compiled
def _combine(op, R, a, b, c, k, h, value, d, width):
    """R[d] = op(k R[a] + h, R[b], R[c]; value) over one chunk, arithmetic and choices. d must be none of a, b, c: overlap would
    switch SIMD off.

    Operands are named by number because Numba counts references to every row it makes a view of, at 10 ns each.
    """
    zero = R.dtype.type(0)
    if op == AFFINE:
        for t in range(width):
            R[d, t] = k * R[a, t] + h
    elif op == ADD:
        for t in range(width):
            R[d, t] = (k * R[a, t] + h) + R[b, t]
    elif op == MUL:
        for t in range(width):
            R[d, t] = (k * R[a, t] + h) * R[b, t]
    elif op == FMA:
        for t in range(width):
            R[d, t] = (k * R[a, t] + h) * R[b, t] + R[c, t]
    elif op == DIV:
        for t in range(width):
            R[d, t] = (k * R[a, t] + h) / R[b, t]
    elif op == RDIVC:
        for t in range(width):
            R[d, t] = value / (k * R[a, t] + h)
    elif op == MIN:
        for t in range(width):
            R[d, t] = _minimum(k * R[a, t] + h, R[b, t])
    elif op == MAX:
        for t in range(width):
            R[d, t] = -_minimum(-(k * R[a, t] + h), -R[b, t])
    elif op == MINC:
        for t in range(width):
            x = k * R[a, t] + h
            R[d, t] = value if x > value else x
    elif op == MAXC:
        for t in range(width):
            x = k * R[a, t] + h
            R[d, t] = value if x < value else x
    elif op == WHERE:
        for t in range(width):
            x, y, z = (
                k * R[a, t] + h,
                R[b, t],
                R[c, t],
            )  # loaded first: a load inside a conditional expression is a branch
            chosen = y if x >= zero else z
            R[d, t] = chosen if x == x else x
    elif op == CONST:
        for t in range(width):
            R[d, t] = value


@compiled
def _transform(op, R, a, k, h, value, d, width):
    """R[d] = f(k R[a] + h) over one chunk for the functions that are SIMD loops; value f(k R[a] + h) for `decay`, k and h in its
    unit."""
    zero, one = R.dtype.type(0), R.dtype.type(1)
    if op == EXP:
        for t in range(width):
            R[d, t] = vexp(k * R[a, t] + h)
    elif op == LOG:
        for t in range(width):
            R[d, t] = vlog(k * R[a, t] + h)
    elif op == SQRT:
        for t in range(width):
            R[d, t] = math.sqrt(k * R[a, t] + h)
    elif op == RSQRT0:
        for t in range(width):
            R[d, t] = _rsqrt0(k * R[a, t] + h, zero, one)
    elif op == TANH:
        for t in range(width):
            R[d, t] = _tanh(np.float64(k * R[a, t] + h))
    elif op == ACOS:
        for t in range(width):
            x = k * R[a, t] + h
            x = -one if x < -one else x
            R[d, t] = math.acos(one if x > one else x)
    elif op == DECAY:
        for t in range(width):
            R[d, t] = value * decay(k * R[a, t] + h)


@compiled
def _call(op, R, source, value, tables, at_zero, target, width):
    """R[target] = f(R[source]; value) over one chunk for the functions that look at the whole chunk first."""
    a, d = R[source][:width], R[target][:width]
    if op == SIN:
        _wave(a, 0, d)
    elif op == COS:
        _wave(a, 1, d)
    elif op == POWC:
        _power(a, value, d)
    else:
        _table_pass(tables[int(value)], at_zero[int(value)], a, d)


@compiled
def _copy(source, target):
    for t in range(target.size):
        target[t] = source[t]


@compiled(fastmath=REDUCTION)
def _store(R, r, width, out, k, i, j):
    """out[k, i, j : j + width] = R[r], and the sum of what was stored: it is not finite if any of that is not."""
    total = R.dtype.type(0)
    for t in range(width):
        x = R[r, t]
        out[k, i, j + t] = x
        total += x
    return total


@compiled
def _load_vector(v, p, j, R, r, width):
    for t in range(width):
        R[r, t] = v[p, j + t]


@compiled
def _load_number(x, R, r, width):
    for t in range(width):
        R[r, t] = x


@compiled
def _load_tile(tiles, tile, i, j, R, r, width):
    for t in range(width):
        R[r, t] = tiles[tile, i, j + t]


@compiled
def _load_distance(tiles, tile, x, colv, q, i, j, tau, R, r, width):
    """Returns how many of the distances are below tau times the norms, and so have lost digits."""
    zero, two, count = R.dtype.type(0), R.dtype.type(2), np.int32(0)
    for t in range(width):
        total = x + colv[q, j + t]
        s = _positive(total - two * tiles[tile, i, j + t], zero)
        R[r, t] = s
        count += np.int32(s < tau * total)
    return count


@compiled
def _load_inner(tiles, tile, x, colv, q, i, j, R, r, width):
    for t in range(width):
        R[r, t] = tiles[tile, i, j + t] + x + colv[q, j + t]


@compiled
def _load_where_same(row, ids, value, j, R, r, width):
    """`value` in columns that are the same object as the row; a NaN found there stays."""
    for t in range(width):
        known = R[r, t]
        new = value if known == known else known
        R[r, t] = new if ids[j + t] == row else known


@compiled
def _repair_distances(A, B, x, colv, q, i, j, tau, R, r, width):
    """Distances that have lost digits by differences of the rows instead."""
    for t in range(width):
        if R[r, t] < tau * (x + colv[q, j + t]):
            R[r, t] = _direct(A[i], B[j + t])


@compiled
def _occurrences(row, ids, j, width):
    count = np.int32(0)
    for t in range(width):
        count += np.int32(ids[j + t] == row)
    return count


@compiled
def _id_range(ids, same):
    """Smallest and largest column id: rows outside need not be compared, which spares most tiles of a Gram the search."""
    low, high = 0, -1
    if same and ids.size:
        low, high = ids.min(), ids.max()
    return low, high


@compiled
def run_program(
    ops, consts, tables, at_zero, leaves, tiles, rowv, colv, rowid, colid, same, A, B, tau, outs, out, i0, j0, R
):
    """Evaluate a kernel expression, given as a register program, on one tile of the Gram matrix.

    Runs row by row, `R.shape[1]` columns at a time, each instruction one SIMD loop over numbers that stay in cache, so a new
    expression costs no compilation. float32 or float64 throughout (`real` below). Returns True if all results are known to be
    finite; False may also come of a sum that overflowed.

    Parameters
    ----------
    ops : int32 (q, 5), columns op, a, b, c, dst: `OPCODE` and registers. q may be 0; unused operands must still name a
        register, and any but 0 ... n_registers - 1 is an error that is not caught. dst must not be an operand.
    consts : real (q, 3), columns scale, shift, value: operations before sin read their first operand as scale * a + shift
    tables : float64 (n_tables, n_intervals, n_coef), see `dyadic_table`; at_zero : float64 (n_tables,), values at 0
    leaves : int32 (L, 4), columns kind, tile, rowvec, colvec; leaf l is loaded into register l. Kinds, for the pair i, j:
        0 TILE tiles[tile, i, j]; 1 SQDIST max(rowv[rowvec, i] + colv[colvec, j] - 2 tiles[tile, i, j], 0), exactly 0 for the
        same object; 2 INNER tiles[tile, i, j] + rowv[rowvec, i] + colv[colvec, j]; 3 ROW rowv[rowvec, i];
        4 COL colv[colvec, j]; 5 SAME 1 for the same object, else 0
    tiles : real (T, bi, bj); rowv : real (nr, bi); colv : real (nc, bj)
    rowid : int64 (bi,); colid : int64 (bj,); same : bool, whether equal ids mean the same object
    A : real (bi, d); B : real (bj, d); tau : squared distances below tau (rowv + colv) are made again from these rows, since
        rounding of the product is relative to the norms; with tau = 0 they are not read
    outs : int32 (n_out,), registers to store; out : real (n_out, N, M), written at [k, i0 + i, j0 + j]
    R : real (n_registers, CHUNK), scratch
    """
    # One function, and passes that are one loop each: Numba counts references to every array that a function with branches is
    # given, which takes longer than a pass.
    chunk = R.shape[1]
    finite = True
    zero = R.dtype.type(0)
    low, high = _id_range(colid, same)
    for i in range(rowid.size):
        meets = low <= rowid[i] <= high
        for start in range(0, colid.size, chunk):
            j, width = np.uintp(start), np.uintp(min(chunk, colid.size - start))
            for r in range(leaves.shape[0]):
                kind, tile, p, q = leaves[r, 0], leaves[r, 1], leaves[r, 2], leaves[r, 3]
                if kind == LEAF_TILE:
                    _load_tile(tiles, tile, i, j, R, r, width)
                elif kind == LEAF_SQDIST:
                    close = _load_distance(tiles, tile, rowv[p, i], colv, q, i, j, tau, R, r, width)
                    if close and not (meets and close <= _occurrences(rowid[i], colid, j, width)):
                        _repair_distances(A, B, rowv[p, i], colv, q, i, j, tau, R, r, width)
                elif kind == LEAF_INNER:
                    _load_inner(tiles, tile, rowv[p, i], colv, q, i, j, R, r, width)
                elif kind == LEAF_COL:
                    _load_vector(colv, q, j, R, r, width)
                else:
                    _load_number(rowv[p, i] if kind == LEAF_ROW else zero, R, r, width)
                if meets and (kind == LEAF_SQDIST or kind == LEAF_SAME):
                    _load_where_same(rowid[i], colid, R.dtype.type(kind == LEAF_SAME), j, R, r, width)
            for q in range(ops.shape[0]):
                op, a, b, c, dst = ops[q, 0], ops[q, 1], ops[q, 2], ops[q, 3], ops[q, 4]
                if op < EXP:
                    _combine(op, R, a, b, c, consts[q, 0], consts[q, 1], consts[q, 2], dst, width)
                elif op < SIN:
                    _transform(op, R, a, consts[q, 0], consts[q, 1], consts[q, 2], dst, width)
                else:
                    _call(op, R, a, consts[q, 2], tables, at_zero, dst, width)
            for k in range(outs.size):
                total = _store(R, outs[k], width, out, k, i0 + i, np.uintp(j0 + start))
                finite &= total - total == 0.0
    return finite


# --------------------------------------------------------------------------------------- hard-wired passes over distances


@compiled
def _set_where_same(row, ids, value, target):
    """target = value in columns that are the same object as the row; a NaN found there stays."""
    for t in range(ids.size):
        old = target[t]
        new = value if old == old else old
        target[t] = new if ids[t] == row else old


@compiled
def rbf_tile(G, rowv, colv, rowid, colid, same, A, B, tau, rate, factor, out, i0, j0):
    """out[i0+i, j0+j] = factor decay(rate s), s = max(rowv[i] + colv[j] - 2 G[i, j], 0); s = 0 for the same object.

    The commonest program, fused into one pass: twice the speed of the interpreter. G (bi, bj), rowv (bi,), colv (bj,),
    rowid and colid int64, rate, in the unit of `decay`, and factor float64, out (N, M); A, B and tau as in `run_program`.
    """
    rate, scale = out.dtype.type(rate), out.dtype.type(factor)
    low, high = _id_range(colid, same)
    for i in range(G.shape[0]):
        meets = low <= rowid[i] <= high
        close = _rbf_row(G, i, rowv[i], colv, tau, rate, scale, out, i0 + i, np.uintp(j0))
        if close and not (meets and close <= _occurrences(rowid[i], colid, 0, colid.size)):
            _repair_rbf(G, i, rowv[i], colv, A, B, tau, rate, scale, out, i0 + i, j0)
        if meets:
            _set_where_same(rowid[i], colid, scale, out[i0 + i][j0 : j0 + G.shape[1]])


@compiled
def _rbf_row(G, i, x, colv, tau, rate, scale, out, k, j0):
    zero, two, count = out.dtype.type(0), out.dtype.type(2), np.int32(0)
    for j in range(np.uintp(colv.size)):
        total = x + colv[j]
        s = _positive(total - two * G[i, j], zero)
        out[k, j0 + j] = scale * decay(rate * s)
        count += np.int32(s < tau * total)
    return count


@compiled
def _repair_rbf(G, i, x, colv, A, B, tau, rate, scale, out, k, j0):
    zero, two = out.dtype.type(0), out.dtype.type(2)
    for j in range(colv.size):
        total = x + colv[j]
        if _positive(total - two * G[i, j], zero) < tau * total:
            out[k, j0 + j] = scale * decay(rate * out.dtype.type(_direct(A[i], B[j])))


_LANES = 8
_STRIP = 2 * _LANES


@intrinsic
def _transpose_patch(typingctx, K, i, j):
    """K[j : j+8, i : i+8] = K[i : i+8, j : j+8].T of a C-ordered array by vector shuffles: a plain loop moves one number at a
    time, which costs more than computing the tile."""

    def codegen(context, builder, signature, args):
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, value=args[0])
        element = context.get_value_type(kind.dtype)
        vector = ir.VectorType(element, _LANES)
        width = builder.extract_value(array.shape, 1)
        align = context.get_abi_sizeof(element)

        def place(row, column, lane):
            offset = builder.add(builder.mul(builder.add(row, ir.Constant(row.type, lane)), width), column)
            return builder.bitcast(builder.gep(array.data, [offset]), vector.as_pointer())

        rows = [builder.load(place(args[1], args[2], lane), align=align) for lane in range(_LANES)]
        for lane, row in enumerate(_shuffled(builder, rows)):
            builder.store(row, place(args[2], args[1], lane), align=align)
        return context.get_dummy_value()

    return types.void(K, types.intp, types.intp), codegen


def _shuffled(builder, rows):
    """Transposed vectors in log2(n) rounds: in each round pairs of rows `step` apart trade their off-diagonal blocks."""
    step = 1
    while step < len(rows):
        lanes = range(len(rows))
        low = [k if not k & step else k - step + len(rows) for k in lanes]
        high = [k + step if not k & step else k + len(rows) for k in lanes]
        masks = [ir.Constant(ir.VectorType(ir.IntType(32), len(rows)), mask) for mask in (low, high)]
        for a in (k for k in lanes if not k & step):
            pair = rows[a], rows[a + step]
            rows[a], rows[a + step] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        step *= 2
    return rows


@compiled
def mirror_tile(K, i0, i1, j0, j1):
    """K[j, i] = K[i, j] for j > i in a tile of the upper triangle, while the tile is in the cache.

    Some patches below each other are copied before those beside them: whole lines of the cache are written at a time.
    """
    for i in range(i0, i1, _STRIP):
        whole = i + _STRIP <= i1
        for j in range(max(j0, i), j1, _LANES):
            if whole and j >= i + _STRIP and j + _LANES <= j1:
                for a in range(i, i + _STRIP, _LANES):
                    _transpose_patch(K, a, j)
            else:
                for b in range(j, min(j + _LANES, j1)):
                    for a in range(i, min(min(i + _STRIP, i1), b)):
                        K[b, a] = K[a, b]


@compiled
def _count_close(x, y, g, keep):
    """How many j have keep (x + y_j) < 2 g_j. A count of comparisons is SIMD; a smallest value would mind NaN and is not."""
    count = np.int32(0)
    for j in range(y.size):
        count += np.int32(keep * (x + y[j]) < g[j] + g[j])
    return count


@compiled
def any_close(G, rowv, colv, rowid, colid, same, tau):
    """Whether some pair of different objects has s = rowv[i] + colv[j] - 2 G[i, j] < tau (rowv[i] + colv[j]).

    A scan that only reads: most tiles hold no such pair and go on to the quick passes.
    """
    keep = G.dtype.type(1) - G.dtype.type(tau)
    low, high = _id_range(colid, same)
    for i in range(G.shape[0]):
        if _count_close(rowv[i], colv, G[i], keep) == 0:
            continue
        if not low <= rowid[i] <= high:
            return True
        for j in range(colid.size):
            if keep * (rowv[i] + colv[j]) < G[i, j] + G[i, j] and colid[j] != rowid[i]:
                return True
    return False


@compiled
def _distance_row(g, x, y, tau, target):
    """Squared distances of one row from inner products; whether any of them lost too many digits to keep."""
    zero = target.dtype.type(0)
    small = False
    for j in range(target.size):
        total = x + y[j]
        s = _positive(total - (g[j] + g[j]), zero)
        target[j] = s
        small |= s < tau * total
    return small


@compiled(fastmath=REDUCTION)
def _direct(a, b):
    """|a - b|^2 by differences, added up in float64."""
    total = 0.0
    for k in range(a.size):
        u = np.float64(a[k]) - np.float64(b[k])
        total += u * u
    return total


@compiled
def sqdist_tile(G, rowv, colv, A, B, tau, out):
    """out[i, j] = max(rowv[i] + colv[j] - 2 G[i, j], 0), by direct differences where that is < tau (rowv[i] + colv[j]).

    Rounding of the GEMM is relative to the norms, so a distance far below them has lost its digits. Costs d per small
    distance, nothing measurable when there are none. G (bi, bj), A (bi, d), B (bj, d), rowv and colv their squared norms.
    """
    limit = out.dtype.type(tau)
    for i in range(G.shape[0]):
        target = out[i]
        if _distance_row(G[i], rowv[i], colv, limit, target):
            for j in range(target.size):
                if target[j] < limit * (rowv[i] + colv[j]):
                    target[j] = _direct(A[i], B[j])


@compiled
def _direct_sparse(a, a_indices, b, b_indices):
    """|a - b|^2 of two sparse rows with sorted indices, added up in float64."""
    total = 0.0
    p = q = 0
    while p < a.size or q < b.size:
        left = q == b.size or (p < a.size and a_indices[p] <= b_indices[q])
        right = p == a.size or (q < b.size and b_indices[q] <= a_indices[p])
        u = 0.0
        if left:
            u += np.float64(a[p])
            p += 1
        if right:
            u -= np.float64(b[q])
            q += 1
        total += u * u
    return total


@compiled
def sqdist_tile_csr(G, rowv, colv, Adata, Aindices, Aindptr, Bdata, Bindices, Bindptr, tau, out):
    """`sqdist_tile` for rows in CSR form with sorted indices without repeats, int32 or int64."""
    limit = out.dtype.type(tau)
    for i in range(G.shape[0]):
        target = out[i]
        if _distance_row(G[i], rowv[i], colv, limit, target):
            mine = slice(Aindptr[i], Aindptr[i + 1])
            for j in range(target.size):
                if target[j] < limit * (rowv[i] + colv[j]):
                    other = slice(Bindptr[j], Bindptr[j + 1])
                    target[j] = _direct_sparse(Adata[mine], Aindices[mine], Bdata[other], Bindices[other])


# -------------------------------------------------------------------------------------------------------- column statistics

COLUMN_CODE = {"absdiff": 0, "min": 1, "chi2": 2, "equal": 3, "gauss": 4, "bspline": 5, "spline": 6, "window": 7}
ABSDIFF, COLUMN_MIN, CHI2, EQUAL, GAUSS, BSPLINE, SPLINE, WINDOW = COLUMN_CODE.values()
COMBINE_CODE = {"sum": 0, "prod": 1, "elementary": 2}
SUM, PROD, ELEMENTARY = COMBINE_CODE.values()


@compiled
def _chi2_ratio(x, y):
    """(x - y) / (x + y), 0 where x = y: the 0/0 of two empty bins counts as no difference."""
    u = x - y
    return u if u == u - u else u / (x + y)


@compiled
def _gauss(x, y, half):
    u = x - y
    return vexp(-half * u * u)


@compiled
def _spline(x, y, one, half, third):
    """Vapnik's linear spline with m = min(x, y): 1 + xy + xy m - (x+y)/2 m^2 + m^3/3."""
    m = _minimum(x, y)
    return one + x * y * (one + m) + m * m * (third * m - half * (x + y))


@compiled
def _hat(start, x, y, zero):
    """max(start - |x - y|, 0): what the truncated powers of a B-spline are powers of."""
    return _positive(start - abs(x - y), zero)


@compiled
def _bspline_row(degree, x, y, v):
    """Centred cardinal B-spline at x - y: sum over k of (-1)^k C(m+1, k) ((m+1)/2 - |u| - k)_+^m / m!.

    Measured from the end of the support that is nearer, so that near the end only one small term is left, and no difference
    of large ones. In passes over the row: a loop over the power for each element would not vectorise.
    """
    real = v.dtype.type
    zero, coefficient = real(0), 1.0 / math.gamma(degree + 1.0)
    term = np.empty_like(v)
    v[:] = zero
    for k in range((degree + 1) // 2):
        start, factor = real((degree + 1) // 2 - k), real(coefficient)
        for j in range(v.size):
            term[j] = factor * _hat(start, x, y[j], zero)
        for _ in range(degree // 2):
            for j in range(v.size):
                h = _hat(start, x, y[j], zero)
                term[j] *= h * h
        for j in range(v.size):
            v[j] += term[j]
        coefficient *= -(degree + 1.0 - k) / (k + 1.0)


@compiled
def _bump(u, a, b, zero, one):
    """(1 - u^a)^b for u >= 0, 0 beyond 1; a, b of 0 to 3."""
    power = u if a == 1 else (u * u if a == 2 else u * u * u)
    base = _positive(one - power, zero)
    value = base if b == 1 else (base * base if b == 2 else base * base * base)
    flat = one if u <= one else u * zero  # NaN stays NaN
    return flat if b == 0 else value


@compiled
def _window_row(code, x, y, v):
    """The window of a code at x - y: see `mercer.engines.columns.window`."""
    real = v.dtype.type
    zero, one, quarter = real(0), real(1), real(0.5 * math.pi)
    a, b = code // 10, code % 10
    if code == 0:
        for j in range(v.size):
            u = abs(x - y[j])
            v[j] = zero if u >= one else math.cos(quarter * u)
    else:
        for j in range(v.size):
            v[j] = _bump(abs(x - y[j]), a, b, zero, one)


@compiled
def _window_pair(code, u):
    """Value and slope of a window at u, in float64; the slope is 0 at the kinks."""
    r, s = abs(u), _sign(u, 0.0, 1.0)
    a, b = code // 10, code % 10
    if code == 0:
        value = 0.0 if r >= 1.0 else math.cos(0.5 * math.pi * r)
        return value, 0.0 if r >= 1.0 else -0.5 * math.pi * math.sin(0.5 * math.pi * u)
    value = _bump(r, a, b, 0.0, 1.0)
    if r >= 1.0 or b == 0:
        return value, 0.0
    below = 1.0 if b == 1 else _bump(r, a, b - 1, 0.0, 1.0)
    return value, -a * b * below * r ** (a - 1) * s


@compiled
def _column_row(code, parameter, x, y, v):
    """v[j] = the column function of x and y[j]."""
    real = v.dtype.type
    zero, one, half = real(0), real(1), real(0.5)
    if code == ABSDIFF:
        for j in range(v.size):
            v[j] = abs(x - y[j])
    elif code == COLUMN_MIN:
        for j in range(v.size):
            v[j] = _minimum(x, y[j])
    elif code == CHI2:
        for j in range(v.size):
            v[j] = _chi2_ratio(x, y[j]) * (x - y[j])
    elif code == EQUAL:
        for j in range(v.size):
            v[j] = one if x == y[j] else zero
    elif code == GAUSS:
        for j in range(v.size):
            v[j] = _gauss(x, y[j], half)
    elif code == BSPLINE:
        _bspline_row(int(parameter), x, y, v)
    elif code == SPLINE:
        third = real(1.0 / 3.0)
        for j in range(v.size):
            v[j] = _spline(x, y[j], one, half, third)
    elif code == WINDOW:
        _window_row(int(parameter), x, y, v)


@compiled
def _add_product(x, y, target):
    for j in range(target.size):
        target[j] += x[j] * y[j]


@compiled
def _combine_row(combine, weight, v, out, i):
    """Take one more column's values v into row i of the combined statistic."""
    first = out[0, i]
    if combine == SUM:
        for j in range(v.size):
            first[j] += weight * v[j]
    elif combine == PROD:
        for j in range(v.size):
            first[j] *= v[j]
    else:
        for p in range(out.shape[0] - 1, 0, -1):  # downwards: e_p takes e_(p-1) of the columns before this one
            _add_product(v, out[p - 1, i], out[p, i])
        for j in range(v.size):
            first[j] += v[j]


@compiled
def column_tile(code, combine, parameter, A, BT, weights, init, out):
    """Combine a function of each pair of columns over the columns of A and B: sum, product or elementary polynomials.

    Parameters
    ----------
    code, combine : ints from `COLUMN_CODE` and `COMBINE_CODE`
    parameter : degree of "bspline", odd, or the code of a "window"; not used otherwise
    A : (bi, d); BT : (d, bj), the transpose of the other side, so that the inner loop runs along j. float64 codes of
        categories may be given for "equal" whatever the dtype of out; NaN equals nothing there, not even NaN.
    weights : (d,) of out's dtype, multiplies the columns of a sum; not used otherwise
    init : bool, start afresh; otherwise go on from what `out` holds, for columns that arrive in pieces
    out : (D, bi, bj). D = 1 for sum and prod; "elementary" keeps e_p in out[p - 1] for p = 1 ... D
    """
    if init:
        out[:] = out.dtype.type(1 if combine == PROD else 0)
    v = np.empty(out.shape[2], out.dtype)
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            _column_row(code, parameter, A[i, k], BT[k], v)
            _combine_row(combine, weights[k], v, out, i)


@compiled
def _sign(u, zero, one):
    """-1, 0 or 1, NaN for NaN; in two steps, which become two SIMD selects."""
    negative = -one if u < zero else u
    return one if u > zero else negative


@compiled
def _bspline_pair(degree, first, u):
    """Value and slope of the B-spline at u, in float64; `first` is 1/m!. The slope is 0 at 0, where degree 1 has its kink."""
    value, slope, coefficient = 0.0, 0.0, first
    for k in range((degree + 1) // 2):
        h = (degree + 1) // 2 - k - abs(u)
        if h > 0.0 or h != h:
            power = coefficient
            for _ in range(degree - 1):
                power *= h
            value += power * h
            slope -= power * degree
        coefficient *= -(degree + 1.0 - k) / (k + 1.0)
    return value, slope * _sign(u, 0.0, 1.0)


@compiled
def _min_slope(x, y, zero, one, half):
    """Slope of min(x, y) in x: 1/2 where they tie, NaN if either is NaN."""
    tie = half if x == y else x - y
    tie = one if x < y else tie
    return zero if y < x else tie


@compiled
def _spline_slope(x, y, one, half):
    """Slope of Vapnik's spline in x: y + xy - x^2/2 below y, y + y^2/2 above."""
    below = y + x * y - half * x * x
    above = y + half * y * y
    return above if x > y else below


@compiled
def _column_slopes(code, parameter, a, b, z, fa, fb):
    """Values z[k] of the column function for one pair of rows a, b and its derivatives in a[k] and in b[k]."""
    real = z.dtype.type
    zero, one, half, two = real(0), real(1), real(0.5), real(2)
    if code == ABSDIFF:
        for k in range(z.size):
            u = a[k] - b[k]
            s = _sign(u, zero, one)
            z[k], fa[k], fb[k] = abs(u), s, -s
    elif code == COLUMN_MIN:
        for k in range(z.size):
            z[k] = _minimum(a[k], b[k])
            fa[k], fb[k] = _min_slope(a[k], b[k], zero, one, half), _min_slope(b[k], a[k], zero, one, half)
    elif code == CHI2:
        for k in range(z.size):
            r = _chi2_ratio(a[k], b[k])
            z[k], fa[k], fb[k] = r * (a[k] - b[k]), r * (two - r), -r * (two + r)
    elif code == EQUAL:
        for k in range(z.size):
            z[k], fa[k], fb[k] = (one if a[k] == b[k] else zero), zero, zero
    elif code == GAUSS:
        for k in range(z.size):
            u, g = a[k] - b[k], _gauss(a[k], b[k], half)
            z[k], fa[k], fb[k] = g, -u * g, u * g
    elif code == BSPLINE:
        degree = int(parameter)
        first = 1.0 / math.gamma(degree + 1.0)
        for k in range(z.size):
            value, slope = _bspline_pair(degree, first, np.float64(a[k] - b[k]))
            z[k], fa[k], fb[k] = value, slope, -slope
    elif code == SPLINE:
        third = real(1.0 / 3.0)
        for k in range(z.size):
            x, y = a[k], b[k]
            z[k] = _spline(x, y, one, half, third)
            fa[k], fb[k] = _spline_slope(x, y, one, half), _spline_slope(y, x, one, half)
    elif code == WINDOW:
        for k in range(z.size):
            value, slope = _window_pair(int(parameter), np.float64(a[k] - b[k]))
            z[k], fa[k], fb[k] = value, slope, -slope


@compiled
def _product_adjoint(z, adjoint):
    """d prod(z) / d z[k], by products from the left and from the right: no division, so zeros are harmless."""
    product = z.dtype.type(1)
    for k in range(z.size):
        adjoint[k] = product
        product *= z[k]
    product = z.dtype.type(1)
    for k in range(z.size - 1, -1, -1):
        adjoint[k] *= product
        product *= z[k]


@compiled
def _elementary_adjoint(z, e, bar, adjoint):
    """d e_D / d z[k] by going back through e_p(k+1) = e_p(k) + z[k] e_(p-1)(k). e (d + 1, D + 1) and bar (D + 1,) are scratch."""
    degree = bar.size - 1
    e[:] = z.dtype.type(0)
    e[:, 0] = z.dtype.type(1)
    bar[:] = z.dtype.type(0)
    bar[degree] = z.dtype.type(1)
    for k in range(z.size):
        for p in range(1, degree + 1):
            e[k + 1, p] = e[k, p] + z[k] * e[k, p - 1]
    for k in range(z.size - 1, -1, -1):
        adjoint[k] = z.dtype.type(0)
        for p in range(1, degree + 1):
            adjoint[k] += bar[p] * e[k, p - 1]
            bar[p - 1] += z[k] * bar[p]


@compiled
def _add_slopes(factor, adjoint, slopes, target):
    for k in range(target.size):
        target[k] += factor * adjoint[k] * slopes[k]


@compiled
def column_pullback(code, combine, parameter, A, B, weights, V, gA, gB):
    """Add to gA and gB the derivatives of sum_ij V[i, j] S_ij in A and B, S being the statistic of `column_tile`.

    Where a column function has a kink the slope is the mean of the two sides. All columns must be given at once for "prod"
    and "elementary".

    Parameters
    ----------
    code, combine : ints from `COLUMN_CODE` and `COMBINE_CODE`
    parameter : as there; for "elementary" the degree D of the polynomial e_D (so not both together)
    A, gA : (bi, d); B, gB : (bj, d), not transposed; weights : (d,), for sums; V : (bi, bj). gA and gB have V's dtype.
    """
    d, degree = A.shape[1], int(parameter) if combine == ELEMENTARY else 0
    z, fa, fb, adjoint = np.empty(d, V.dtype), np.empty(d, V.dtype), np.empty(d, V.dtype), np.empty(d, V.dtype)
    e, bar = np.empty((d + 1, degree + 1), V.dtype), np.empty(degree + 1, V.dtype)
    if combine == SUM:
        _copy(weights, adjoint)
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            _column_slopes(code, parameter, A[i], B[j], z, fa, fb)
            if combine == PROD:
                _product_adjoint(z, adjoint)
            elif combine == ELEMENTARY:
                _elementary_adjoint(z, e, bar, adjoint)
            _add_slopes(V[i, j], adjoint, fa, gA[i])
            _add_slopes(V[i, j], adjoint, fb, gB[j])

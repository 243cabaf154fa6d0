"""Register programs against direct evaluation: every operation, fused or not, and what the lowering promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import expr
from mercer.expr import compile_program, const, evaluate_all, exp, leaf, minimum, power, sqrt, tanh, where
from mercer.kernels import Polynomial

A, B = leaf("a"), leaf("b")
VALUES = {A: np.linspace(0.1, 2.0, 17), B: np.linspace(-1.5, 1.0, 17)}

RUN = {
    "affine": lambda a: a, "add": np.add, "mul": np.multiply, "fma": lambda a, b, c: a * b + c, "div": np.divide,
    "min": np.minimum, "max": np.maximum, "where": lambda a, b, c: np.where(a >= 0, b, c), "exp": np.exp, "log": np.log,
    "sqrt": np.sqrt, "rsqrt0": expr._rsqrt0, "tanh": np.tanh, "acos": lambda x: np.arccos(np.clip(x, -1, 1)),
    "sin": np.sin, "cos": np.cos,
}  # fmt: skip
CARRIED = {"rdivc": lambda a, v: v / a, "minc": np.minimum, "maxc": np.maximum, "powc": np.power}


def run(program):
    """A slow twin of the interpreters: what the record `Program` says, word by word."""
    registers = {i: VALUES[e] for i, e in enumerate(program.leaves)}
    with np.errstate(all="ignore"):
        for (op, a, b, c, dst), (scale, shift, value) in zip(program.instructions, program.constants, strict=True):
            reads = (a, b, c)[: expr._ARITY.get(op, 1)]
            assert dst not in reads
            operands = [registers[r] for r in reads]
            if op in expr.MAPPED:
                operands[0] = scale * operands[0] + shift
            if op == "const":
                registers[dst] = np.full(17, value)
            elif op == "table":
                registers[dst] = program.tables[int(value)](operands[0])
            else:
                registers[dst] = CARRIED[op](*operands, value) if op in CARRIED else RUN[op](*operands)
    assert max(registers, default=-1) < program.n_registers
    return [registers[r] for r in program.outputs]


def grow(inner):
    unary = st.sampled_from(
        [lambda x: exp(-1.0 * x), tanh, lambda x: sqrt(x * x + 0.5), expr.sin, expr.cos, lambda x: -x]
    )
    binary = st.sampled_from(
        [
            lambda x, y: x + y,
            lambda x, y: x - y,
            lambda x, y: x * y,
            lambda x, y: x / (y * y + 1.0),
            minimum,
            expr.maximum,
        ]
    )
    number = st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0, -2.25])
    return st.one_of(
        st.builds(lambda f, x: f(x), unary, inner),
        st.builds(lambda f, x, y: f(x, y), binary, inner, inner),
        st.builds(lambda f, x, k: f(x, k), binary, inner, number),
        st.builds(lambda f, x, k: f(const(k), x), binary, inner, number),
        st.builds(lambda x, p: power(x * x + 1.0, p), inner, st.sampled_from([2, 3, -1, -2, 0.5, -0.5, 1.3, 70])),
        st.builds(where, inner, inner, inner),
    )


@settings(max_examples=400, deadline=None)
@given(st.lists(st.recursive(st.sampled_from([A, B, expr.param("p")]), grow, max_leaves=12), min_size=1, max_size=3))
def test_programs_compute_their_expressions(outputs):
    outputs = [expr.as_expr(e) for e in outputs]
    expected = evaluate_all(outputs, {"p": 0.7}, VALUES)
    for got, e in zip(run(compile_program(outputs, {"p": 0.7})), expected, strict=True):
        e = np.broadcast_to(e, 17)
        fine = np.isfinite(e) & (np.abs(e) < 1e100)
        scale = max(np.abs(e[fine]).max(initial=0.0), 1.0)
        np.testing.assert_allclose(got[fine], e[fine], rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize(
    ("e", "names"),
    [
        (2.0 * exp(-0.5 * A), ["exp", "affine"]),
        (A * B + exp(A), ["exp", "fma"]),
        (3.0 * (A * B) + exp(A), ["exp", "fma"]),
        (A - B, ["add"]),
        (1.0 - A * B, ["mul", "affine"]),
        (power(B, 2) + A, ["fma"]),
        (power(B, 4), ["mul", "mul"]),
        (2.0 / (1.0 + 3.0 * A), ["rdivc"]),
        (minimum(2.0, 3.0 * A), ["minc"]),
        (tanh(0.5 * B + 1.0), ["tanh"]),
        (expr.sin(2.0 * A), ["affine", "sin"]),
        (power(A, 1.5), ["powc"]),
        ((1.0 + sqrt(3.0 * A)) * exp(-sqrt(3.0 * A)), ["sqrt", "exp", "mul"]),
    ],
)
def test_constants_cost_no_pass_of_their_own(e, names):
    assert [row[0] for row in compile_program([e], {}).instructions] == names


def test_a_product_that_is_read_twice_is_computed_once():
    product = A * B
    names = [row[0] for row in compile_program([product + A, product + B], {}).instructions]
    assert names == ["mul", "add", "add"]


def test_a_scaled_difference_is_not_multiplied_out():
    """0.1 (x - 0.3) at x = 0.3 is 0; 0.1 x - 0.03 is not."""
    e = 0.1 * (A - 0.3)
    program = compile_program([e], {})
    assert [row[0] for row in program.instructions] == ["affine", "affine"]
    assert [c[:2] for c in program.constants] == [(1.0, -0.3), (0.1, 0.0)]


def test_long_sums_and_products_do_not_recurse():
    e = A
    for _ in range(3000):
        e = e * B + A
    assert len(compile_program([e], {}).instructions) == 3000
    e = A
    for _ in range(3000):
        e = (e * B) * A
    assert len(compile_program([e], {}).instructions) == 6000


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_the_factor_of_a_power_does_not_underflow_alone(degree):
    X = 1e100 * np.arange(1.0, 8.0).reshape(7, 1)
    kernel = Polynomial(degree, gamma=1e-200, coef0=0.0)
    expected = np.outer(np.arange(1.0, 8.0), np.arange(1.0, 8.0)) ** degree
    np.testing.assert_allclose(kernel(X), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.gram(X, engine="reference").dense(), expected, rtol=1e-12)

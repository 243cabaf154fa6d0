"""Programs in other units give the same values."""

from dataclasses import replace

import numpy as np
import pytest

from mercer import expr
from mercer import kernels as mk
from mercer.engines.units import readers_of, rescaled
from mercer.gram import gram

torch = pytest.importorskip("torch", reason="programs are run by torch here")
from mercer.engines._tensor_tiles import run_program  # noqa: E402

KERNELS = {
    "rbf": 3.0 * mk.RBF(0.8),
    "several": 2 * mk.RBF(0.8) + mk.Matern(1.5, 1.3) * mk.Linear(),
    "matern": mk.Matern(2.5, 0.4) + mk.Matern(0.5, 1.1),
    "quadratic": mk.RationalQuadratic(1.5) + mk.RBF(0.7),
    "normalised": (mk.Matern(1.5, 0.7) + 0.3 * mk.Polynomial(2)).normalise(),
    "nested": mk.RBF(0.8).exp() + mk.RBF(0.8),
}


def program_of(kernel):
    K = gram(kernel, np.eye(3), np.ones((2, 3)), engine="reference")
    return expr.compile_program([K.x.lowered.expression], K.x.lowered.parameters)


def values(program, leaves):
    return run_program(program, leaves, torch.zeros(1, 1, dtype=torch.float64))


def in_base(program, base):
    """Constants of exponentials, which `run_program` takes to the base e, back from another base."""
    factor = np.log(base)
    return tuple((s * factor, t * factor, v) if row[0] == "exp" else (s, t, v)
                 for row, (s, t, v) in zip(program.instructions, program.constants, strict=True))  # fmt: skip


def check_values(program, roots, base=np.e):
    rng = np.random.default_rng(0)
    leaves = [torch.tensor(rng.random((4, 5)) + 0.1) for _ in program.leaves]
    found = rescaled(program, frozenset(range(len(leaves))), base, roots)
    other = replace(program, constants=found.constants)
    other = replace(other, constants=in_base(other, base))
    scaled = [leaf * factor for leaf, factor in zip(leaves, found.factors, strict=True)]
    for value, exact in zip(values(other, scaled), values(program, leaves), strict=True):
        np.testing.assert_allclose(value, exact, rtol=1e-13)
    return found


@pytest.mark.parametrize("base", [np.e, 2.0])
@pytest.mark.parametrize("roots", [(), ("sqrt",), ("sqrt", "exp")])
@pytest.mark.parametrize("name", KERNELS)
def test_values_stay(name, roots, base):
    check_values(program_of(KERNELS[name]), roots, base)


@pytest.mark.parametrize(
    "outputs",
    [
        lambda r: [r, expr.exp(-3 * r)],  # comes out itself
        lambda r: [(2 * expr.leaf("other") + 1) * r + expr.exp(-3 * r)],  # is multiplied as it is
        lambda r: [expr.cos(r) + expr.exp(-3 * r) + expr.exp(3 * r)],
    ],
)
def test_readers_that_take_one_unit(outputs):
    program = expr.compile_program(outputs(expr.sqrt(2 * expr.leaf("distance"))), {})
    found = check_values(program, ("sqrt", "exp"))
    assert -1.0 not in [scale for scale, _, _ in found.constants]


def test_fewest_products():
    """A root that an exponential and a sum read: the exponential's factor goes, and that of the distance."""
    program = program_of(mk.Matern(1.5, 0.7))
    found = rescaled(program, frozenset({0}), 2.0)
    assert [row[0] for row in program.instructions] == ["sqrt", "exp", "mul"]
    assert [scale for scale, _, _ in found.constants][:2] == [1.0, -1.0]
    assert found.constants[2][:2] == pytest.approx((np.log(2.0), 1.0))
    assert found.factors == pytest.approx([3 / 0.7**2 / np.log(2.0) ** 2])


def test_only_what_may_change():
    program = program_of(2 * mk.Matern(1.5, 0.7))
    assert rescaled(program, roots=()).constants == program.constants
    assert set(rescaled(program, roots=()).factors) == {1.0}
    assert rescaled(program, frozenset({0})).constants[-1][0] == 2.0  # the exponential keeps its unit
    linear = program_of(mk.Linear())
    assert set(rescaled(linear, frozenset(range(len(linear.leaves)))).factors) == {1.0}  # what comes out keeps its unit


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_no_factors_that_overflow(scale):
    program = program_of(mk.RBF(scale))
    assert rescaled(program, frozenset({0})).factors == (1.0,)


def test_registers_are_used_again():
    """Each value has its readers, whatever register it was in."""
    program = program_of(mk.Matern(2.5, 0.4) + mk.Matern(1.5, 1.1) + mk.Matern(0.5, 0.3))
    readers, kept = readers_of(program)
    assert program.n_registers < len(program.leaves) + len(program.instructions)
    assert all(readers[value] for value in range(len(readers)) if value not in kept)
    assert kept == {len(readers) - 1}

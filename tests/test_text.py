"""Kernels from text: what is printed is read again, mistakes are pointed at, and nothing is ever run."""

import builtins
import math
import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import kernel_cases
from mercer.errors import KernelTextError
from mercer.kernels import (
    RBF,
    Constant,
    Fisher,
    Kernel,
    Linear,
    Matern,
    NormalModel,
    Pairwise,
    Spectrum,
    WLOptimalAssignment,
    parse_kernel,
)

#: What a print leaves out or names only: large arrays, long values, functions, labels.
CUT = re.compile(r"array\(|\.\.\.|warp|times|series|Basis|Pairwise|Blockwise|function|Monte|<|label=")
PRINTED = [c.kernel for c in kernel_cases() if not CUT.search(repr(c.kernel))]


@pytest.mark.parametrize("kernel", PRINTED, ids=lambda k: repr(k)[:60])
def test_what_is_printed_is_read(kernel):
    again = parse_kernel(repr(kernel))
    assert repr(again) == repr(kernel)
    assert again.get_params().keys() == kernel.get_params().keys()


def test_most_kernels_can_be_written():
    assert len(PRINTED) > 0.75 * len(kernel_cases())


def test_values():
    for text, kernel in {
        '2*RBF(0.3).on("age") + Spectrum(4).on("dna")': 2 * RBF(0.3).on("age") + Spectrum(4).on("dna"),
        "RBF([1, 2.5, inf])": RBF([1, 2.5, math.inf]),
        "(RBF() + Linear())**2 * Matern(2.5) - 0.5*Linear()": (RBF() + Linear()) ** 2 * Matern(2.5) - 0.5 * Linear(),
        "RBF() / 2 * 3": RBF() / 2 * 3,
        "-2 * -RBF()": -2 * -RBF(),
        "2**3 * RBF()": 8.0 * RBF(),
        "RBF()**2**1": RBF() ** 2.0,
        "7": Constant(7),
        'Linear().on(0, 3).normalise().named("line")': Linear().on(0, 3).normalise().named("line"),
        'Fisher(NormalModel(theta="both"), information="identity")': Fisher(
            NormalModel(theta="both"), information="identity"
        ),
        "WLOptimalAssignment(\n  2,\n)": WLOptimalAssignment(2),
        r"RBF().on('a\'b\x41\u00e9\n')": RBF().on("a'bA\u00e9\n"),
        "RBF().poly((1, 0.5, ))": RBF().poly((1, 0.5)),
    }.items():
        assert parse_kernel(text) == kernel, text
    X = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(parse_kernel("2*RBF(1.5) + Linear()")(X), (2 * RBF(1.5) + Linear())(X))


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("RBF() * Linaer()", "no kernel is called Linaer; did you mean Linear?", 8),
        ("rbf()", "did you mean RBF?", 0),
        ("RBF().normalize()", "did you mean normalise?", 6),
        ("RBF().warp(1)", "takes a function, which cannot be written as text", 6),
        ("RBF", "RBF needs parentheses: RBF()", 0),
        ("RBF().exp", "exp needs parentheses", 6),
        ("RBF(0.5", "expected ')' to close the arguments", 7),
        ("(RBF()", "expected ')' to close the parenthesis", 6),
        ("RBF([1, 2)", "expected ']' to close the list", 9),
        ("RBF())", "')' was not expected here", 5),
        ("2 +", "expected a kernel or a number, got 'the end'", 3),
        ("", "expected a kernel or a number, got 'the end'", 0),
        ("RBF(0)", "lengthscale=0 must be > 0", 0),
        ("RBF(lenght=2)", "unexpected keyword argument 'lenght'", 0),
        ("RBF(lengthscale=1, 2)", "come before those with one", 20),
        ("Matern(nu=1.5, nu=2.5)", "nu is given twice", 15),
        ("RBF() + 'a'", "'+' combines kernels and numbers, not a str", 6),
        ("RBF() * True", "combines kernels and numbers, not a bool", 6),
        ("'RBF()'", "this is a str, expected a kernel", 0),
        ("RBF().on('age)", "this text has no closing quote", 9),
        ("RBF(); 1", "';' has no meaning here", 5),
        (r"RBF().on('\q')", r"\q in a text has no meaning here", 9),
        (r"RBF().on('\Uffffffff')", "is no character", 9),
        ("9**9**9 * RBF()", "this is no finite number", 1),
        ("1 / 0 * RBF()", "this is no finite number", 2),
        ("2**RBF()", "a number to the power of a kernel", 1),
        ("(1, 2).on(0)", "only kernels have methods, this is a tuple", 7),
        ("Pairwise(len)", "no kernel is called len", 9),
        ("Sum((RBF(), RBF()))", "no kernel is called Sum", 0),
    ],
)  # fmt: skip
def test_mistakes_are_pointed_at(text, said, at):
    with pytest.raises(KernelTextError, match=re.escape(said)) as error:
        parse_kernel(text)
    line, mark = str(error.value).splitlines()[1:] if text else ("", str(error.value).splitlines()[-1])
    assert line.strip() == text.strip()
    assert mark.index("^") == 4 + at


def test_the_line_of_a_long_text_is_shown():
    text = "RBF() +\n" + "RBF() + " * 30 + "Linaer() + " + "RBF() + " * 30 + "RBF()"
    with pytest.raises(KernelTextError) as error:
        parse_kernel(text)
    _, line, mark = str(error.value).splitlines()
    assert len(line) <= 104
    assert line[mark.index("^") :].startswith("Linaer()")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 60 + "RBF()" + ")" * 60, "[" * 9000, "-" * 9000 + "RBF()", "2**" * 3000 + "2", "RBF()" + ".exp()" * 1600,
        "RBF()" + "+RBF()" * 1600, "RBF(" * 60 + ")" * 60, "a" * 20_000, "RBF().gaussian(" * 50, "1" * 9000 + "*RBF()",
        "\\" * 500, "'" * 501, "RBF() " + "\n" * 9000 + "+", "1e999999*RBF()", "\x00RBF()", "RBF()\ud800",
    ],
    ids=lambda t: repr(t[:12]),
)  # fmt: skip
def test_hostile_texts_end_at_once(text):
    with pytest.raises(KernelTextError):
        parse_kernel(text)


@given(st.text("RBFLinear()[]*+-/.,='\"0123456789 on_\\\n\t", max_size=60) | st.text(max_size=40))
def test_any_text_is_a_kernel_or_one_error(text):
    with suppress(KernelTextError):
        assert isinstance(parse_kernel(text), Kernel)


@pytest.mark.parametrize("name", ["eval", "exec", "compile", "open"])
def test_nothing_is_run(name, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError(name)

    texts = (
        f"{name}('1')",
        f"RBF().on({name}('x'))",
        "RBF().__class__()",
        "RBF().__init__()",
        "().__class__.__bases__",
    )
    with monkeypatch.context() as patched:
        patched.setattr(builtins, name, forbidden)
        for text in texts:
            with pytest.raises(KernelTextError):
                parse_kernel(text)
        parse_kernel("2*RBF(0.5) + Linear().normalise()")


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="read from a str, got RBF"):
        parse_kernel(RBF())
    with pytest.raises(KernelTextError, match="Pairwise"):
        parse_kernel("Pairwise(3)")
    assert Pairwise(max)  # which only Python can write

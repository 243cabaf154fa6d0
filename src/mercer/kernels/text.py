"""Kernels from text: `2*RBF(0.3).on("age") + Spectrum(3).on("dna")`, read by a grammar of its own. Nothing is evaluated.

    sum     = product (("+" | "-") product)*
    product = factor (("*" | "/") factor)*
    factor  = "-" factor | called ("**" factor)?
    called  = atom ("." method "(" arguments ")")*
    atom    = number | text | True | False | None | inf | nan | name "(" arguments ")" | "(" sum, ... ")" | "[" sum, ... "]"

Names are those of registered kernels and of the generative models, methods those of the algebra that take no functions.
"""

import difflib
import math
import re
from typing import Any, NamedTuple

from mercer.errors import KernelTextError, MercerError
from mercer.kernels.algebra import Sum
from mercer.kernels.base import Kernel
from mercer.registry import KERNELS

__all__ = ["parse_kernel"]

LENGTH, DEPTH, STEPS = 10_000, 40, 200  # characters, what is nested, and operations and methods, of which each may nest
METHODS = ("centre", "exp", "gaussian", "maximum", "minimum", "named", "normalise", "on", "poly", "tanh")
OF_FUNCTIONS = ("series", "times", "warp")
WORDS = {"True": True, "False": False, "None": None, "inf": math.inf, "nan": math.nan}
TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[^\W\d]\w*)
    |(?P<text>b?"(?:[^"\\\n]|\\.)*"|b?'(?:[^'\\\n]|\\.)*')|(?P<sign>\*\*|[-+*/().,=\[\]]))""", re.VERBOSE
)  # fmt: skip
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


class Token(NamedTuple):
    """kind: "number", "name", "text", "sign" or "end". at: its place in the text."""

    kind: str
    text: str
    at: int


def parse_kernel(text: str) -> Kernel:
    """The kernel that a text describes as one would type it in Python.

    Parameters may be numbers, texts in quotes, True, False, None, inf, lists, tuples and kernels. Functions cannot be written.
    A mistake raises a `KernelTextError` that points at it.

    >>> parse_kernel('2*RBF(0.3).on("age") + Spectrum(3).on("dna")')
    2 * RBF(lengthscale=0.3).on('age') + Spectrum().on('dna')
    >>> parse_kernel("RBF() * Linaer()")
    Traceback (most recent call last):
    ...
    mercer.errors.KernelTextError: no kernel is called Linaer; did you mean Linear?
        RBF() * Linaer()
                ^
    """
    if not isinstance(text, str):
        raise TypeError(f"a kernel is read from a str, got {type(text).__name__}")
    if len(text) > LENGTH:
        raise KernelTextError(f"a kernel of {len(text)} characters; at most {LENGTH} are read")
    reader = _Reader(text)
    value, at = reader.sum(), reader.token.at
    if reader.token.kind != "end":
        raise reader.error(f"{reader.token.text!r} was not expected here", at)
    value = value if not isinstance(value, (int, float)) or isinstance(value, bool) else KERNELS["Constant"](value)
    if not isinstance(value, Kernel):
        raise reader.error(f"this is a {type(value).__name__}, expected a kernel such as RBF(0.5)", 0)
    return value


class _Reader:
    """Reads tokens from left to right; every method reads one rule of the grammar and returns what it stands for."""

    def __init__(self, text):
        self.source, self.depth, self.steps = text, 0, 0
        self.tokens = self._tokens()
        self.token = next(self.tokens)

    def _tokens(self):
        at, end = 0, len(self.source.rstrip())
        while at < end:
            found = TOKEN.match(self.source, at)
            if not found:
                at += len(self.source[at:]) - len(self.source[at:].lstrip())
                quote = self.source[at] in "'\""
                raise self.error(
                    "this text has no closing quote" if quote else f"{self.source[at]!r} has no meaning here", at
                )
            kind = found.lastgroup
            yield Token(kind, found[kind], found.start(kind))
            at = found.end()
        yield Token("end", "the end", end)

    def error(self, message, at) -> KernelTextError:
        """The error with the line of the text that it is about, and a mark under the place."""
        start = self.source.rfind("\n", 0, at) + 1
        stop = self.source.find("\n", at)
        line = self.source[start : len(self.source) if stop < 0 else stop]
        left = max(0, at - start - 60)  # of a long line what is around the place
        shown = line[left : left + 100]
        mark = "".join("\t" if c == "\t" else " " for c in shown[: at - start - left])
        return KernelTextError(f"{message}\n    {shown}\n    {mark}^")

    # ------------------------------------------------------------------------------------ tokens
    def next(self) -> Token:
        token, self.token = self.token, next(self.tokens, self.token)
        return token

    def has(self, *signs) -> bool:
        return self.token.kind == "sign" and self.token.text in signs

    def expect(self, sign, what) -> Token:
        if not self.has(sign):
            raise self.error(f"expected {sign!r} {what}, got {self.token.text!r}", self.token.at)
        return self.next()

    def count(self, at):
        self.steps += 1
        if self.steps > STEPS:
            raise self.error(f"more than {STEPS} operations and methods", at)

    def deeper(self, rule, at):
        if self.depth >= DEPTH:
            raise self.error(f"brackets, signs and powers are nested more than {DEPTH} deep", at)
        self.depth += 1
        value = rule()
        self.depth -= 1
        return value

    # ------------------------------------------------------------------------------------ rules
    def sum(self) -> Any:
        return self._chain(self.product, "+", "-")

    def product(self) -> Any:
        return self._chain(self.factor, "*", "/")

    def _chain(self, rule, *signs):
        value = rule()
        while self.has(*signs):
            sign = self.next()
            value = self._combined(sign, value, rule())
        return value

    def factor(self) -> Any:
        if self.has("-"):
            sign = self.next()
            value = self.deeper(self.factor, sign.at)
            return self._combined(sign, None, value)
        value = self.called()
        if self.has("**"):
            sign = self.next()
            value = self._combined(sign, value, self.deeper(self.factor, sign.at))
        return value

    def called(self) -> Any:
        value = self.atom()
        while self.has("."):
            self.next()
            value = self._method(value, self.next())
        return value

    def atom(self) -> Any:
        token = self.next()
        if token.kind == "number":
            return self._number(token)
        if token.kind == "text":
            return self._text(token)
        if token.kind == "name":
            return self._name(token)
        if token.kind == "sign" and token.text in "([":
            return self.deeper(lambda: self._group(token), token.at)
        raise self.error(f"expected a kernel or a number, got {token.text!r}", token.at)

    def _group(self, opening):
        """What brackets hold: a list, a tuple, or one value in parentheses."""
        closing, what = (")", "to close the parenthesis") if opening.text == "(" else ("]", "to close the list")
        values, comma = [], False
        while not self.has(closing):
            values.append(self.sum())
            comma = self.has(",")
            if not comma:
                break
            self.next()
        self.expect(closing, what)
        if opening.text == "[":
            return values
        return values[0] if len(values) == 1 and not comma else tuple(values)

    def _number(self, token):
        whole = token.text.isdigit()
        return int(token.text) if whole and len(token.text) < 19 else float(token.text)

    def _text(self, token):
        quoted = token.text.removeprefix("b")
        value = ESCAPE.sub(lambda m: self._escaped(m, token.at), quoted[1:-1])
        if quoted is token.text or len(quoted) == len(token.text):
            return value
        if any(ord(c) > 255 for c in value):
            raise self.error("bytes hold characters up to \\xff only", token.at)
        return value.encode("latin-1")

    def _escaped(self, match, at):
        digits = next((d for d in match.groups()[:3] if d), None)
        if digits is None:
            if match[4] not in ESCAPES:
                raise self.error(f"\\{match[4]} in a text has no meaning here; write \\\\ for a backslash", at)
            return ESCAPES[match[4]]
        if int(digits, 16) > 0x10FFFF:
            raise self.error(f"\\U{digits} is no character", at)
        return chr(int(digits, 16))

    # ------------------------------------------------------------------------------------ names
    def _name(self, token):
        if token.text in WORDS:
            return WORDS[token.text]
        known = _makers()
        if token.text not in known:
            raise self.error(f"no kernel is called {token.text}{_meant(token.text, known)}", token.at)
        if not self.has("("):
            raise self.error(f"{token.text} needs parentheses: {token.text}()", token.at)
        return self._made(known[token.text], *self.deeper(self._arguments, token.at), token)

    def _method(self, value, token):
        self.count(token.at)
        if not isinstance(value, Kernel):
            raise self.error(f"only kernels have methods, this is a {type(value).__name__}", token.at)
        if token.text in OF_FUNCTIONS:
            raise self.error(
                f"{token.text} takes a function, which cannot be written as text; make the kernel in Python", token.at
            )
        if token.kind != "name" or token.text not in METHODS:
            raise self.error(f"kernels have no method {token.text}{_meant(token.text, METHODS)}", token.at)
        if not self.has("("):
            raise self.error(f"{token.text} needs parentheses: .{token.text}(...)", token.at)
        return self._made(getattr(value, token.text), *self.deeper(self._arguments, token.at), token)

    def _arguments(self):
        """Positional and named arguments between parentheses."""
        positional, named = [], {}
        self.next()
        while not self.has(")"):
            value, name = self._argument()
            if name is None and named:
                raise self.error("arguments without a name come before those with one", self.token.at)
            if name is not None and name.text in named:
                raise self.error(f"{name.text} is given twice", name.at)
            if name is None:
                positional.append(value)
            else:
                named[name.text] = value
            if not self.has(","):
                break
            self.next()
        self.expect(")", "to close the arguments")
        return positional, named

    def _argument(self):
        """A value and the token of its name, None where it has none."""
        rest = self.source[self.token.at + len(self.token.text) :].lstrip()
        if self.token.kind == "name" and rest[:1] == "=":
            name = self.next()
            self.next()
            return self.sum(), name
        return self.sum(), None

    # ------------------------------------------------------------------------------------ making
    def _made(self, make, positional, named, token):
        try:
            return make(*positional, **named)
        except (MercerError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            reason = str(error).replace(".__init__()", "()").replace("Kernel.", "")
            raise self.error(reason, token.at) from error

    def _combined(self, sign, a, b):
        self.count(sign.at)
        for value in (a, b):
            if not isinstance(value, (Kernel, int, float, type(None))) or isinstance(value, bool):
                raise self.error(f"{sign.text!r} combines kernels and numbers, not a {type(value).__name__}", sign.at)
        try:
            return _OPERATIONS[sign.text](a, b)
        except ArithmeticError as error:
            raise self.error("this is no finite number", sign.at) from error
        except (MercerError, TypeError, ValueError) as error:
            raise self.error(str(error), sign.at) from error


def _power(a, b):
    return a**b if isinstance(a, Kernel) else float(a) ** float(b) if not isinstance(b, Kernel) else _refuse_power()


def _refuse_power():
    raise TypeError("a number to the power of a kernel is none; (log(a) * k).exp() is")


_OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: -b if a is None else a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": _power,
}


def _makers():
    """Classes that can be called by name: kernels that users write, and the models that some of them take."""
    from mercer import kernels
    from mercer.kernels.models import Model

    models = {
        c.__name__: c for c in map(vars(kernels).get, kernels.__all__) if isinstance(c, type) and issubclass(c, Model)
    }
    return {**{name: c for name, c in KERNELS.items() if c.__module__ != Sum.__module__}, **models}


def _meant(word, known):
    near = difflib.get_close_matches(word, known, 1, 0.6) or [k for k in known if k.lower() == word.lower()]
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known))}"

"""Formulas of kernels as their documentation writes them, set by the browser: a little LaTeX becomes MathML."""

import inspect
import re

from mercer.kernels import Kernel
from mercer.report.html import Element, el

__all__ = ["formula", "leaf_formulas", "mathml"]

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[0-9.]+|[a-zA-Z]|'+|[^\s]")
_LETTERS = dict(zip("alpha beta gamma delta theta kappa lambda nu pi rho sigma phi Gamma Phi ell".split(), "αβγδθκλνπρσϕΓΦℓ",
                    strict=True))  # fmt: skip
_SIGNS = {"langle": "⟨", "rangle": "⟩", "lVert": "‖", "rVert": "‖", "in": "∈", "dots": "…", "times": "×", "top": "⊤", "le": "≤",
          "ge": "≥", "cdot": "·", "infty": "∞", "sum": "∑", "prod": "∏", "int": "∫"}  # fmt: skip
_WORDS = {"exp", "sin", "cos", "tanh", "min", "max", "log"}
_SPACES = {"qquad": "2em", "quad": "1em", "\\,": "0.17em", "\\ ": "0.3em"}
_TALL = {"left", "right", "Big", "big"}  # the bracket after them is as tall as what it holds
_SILENT = {"\\!"}
_BRACKETS = set("()[]|") | {"⟨", "⟩", "‖"}
_LONG = 400  # characters of a paragraph
_LARGE = {"∑", "∏", "∫"}


class _UnreadError(Exception):
    """A formula holds something that this small reader does not know."""


def leaf_formulas(kernel) -> list[tuple[str, list]]:
    """Of each different leaf of a kernel its name and what it computes: text, and formulas as elements."""
    if not isinstance(kernel, Kernel):
        return []
    kinds = {type(leaf).__name__: type(leaf) for leaf in kernel._leaves}
    return [(name, formula(kind)) for name, kind in kinds.items()]


def formula(kind: type) -> list:
    """The first paragraph of a kernel's documentation, its formula, and what is said of it next."""
    first, *others = re.split(r"\n\n+", inspect.getdoc(kind) or "")
    found = [el("p", {}, _parts(first))]
    place = next((i for i, block in enumerate(others) if block.startswith(".. math::")), None)
    if place is None:
        return found
    found.append(el("p", {"class": "formula"}, _set(" ".join(others[place][9:].split()))))
    after = [block for block in others[place + 1 : place + 2] if not block.startswith(">>>")]
    return found + [el("p", {}, _parts(block)) for block in after]


def _parts(paragraph):
    """Text, code and formulas of a paragraph, without numbers of a catalogue; of a long one its first sentences."""
    text = re.sub(r" \([A-Z]\d+(, [A-Z]\d+)*\)", "", " ".join(paragraph.split()))
    text = (
        text
        if len(text) <= _LONG
        else text[: text.rindex(". ", 0, _LONG) + 1]
        if ". " in text[:_LONG]
        else text[:_LONG]
    )
    return [_part(piece) for piece in re.split(r"(:math:`[^`]*`|`[^`]*`)", text) if piece]


def _part(piece):
    if piece.startswith(":math:`"):
        return _set(piece[7:-1])
    return el("code", {}, piece.strip("`")) if piece.startswith("`") else piece


def _set(source):
    try:
        return mathml(source)
    except _UnreadError:
        return el("code", {}, source)


def mathml(source: str) -> Element:
    """LaTeX of the small kind that formulas of kernels use, as MathML."""
    reader = _Reader(_TOKEN.findall(source))
    found = reader.until(None)
    return el("math", {"aria-label": source}, el("mrow", {}, found))


class _Reader:
    """Tokens from left to right."""

    def __init__(self, tokens):
        self.tokens = list(tokens)

    def until(self, end) -> list[Element]:
        """Elements up to a closing token, which is read too."""
        found: list[Element] = []
        while self.tokens:
            token = self.tokens.pop(0)
            if token == end:
                return found
            if token in ("^", "_") or token[0] == "'":
                found.append(self._script(found.pop() if found else el("mrow"), token))
            else:
                found.extend(self._one(token))
        if end is not None:
            raise _UnreadError(end)
        return found

    def _script(self, base, token):
        if token[0] == "'":
            return el("msup", {}, base, el("mo", {}, "′" * len(token)))
        below, above = (self._argument(), None) if token == "_" else (None, self._argument())
        if self.tokens and self.tokens[0] in ("^", "_") and self.tokens[0] != token:
            second = self.tokens.pop(0)
            below, above = (self._argument(), above) if second == "_" else (below, self._argument())
        large = base.tag == "mo" and base.children[0] in _LARGE
        kind = {(True, False): "under", (False, True): "over", (True, True): "underover"} if large else {
            (True, False): "sub", (False, True): "sup", (True, True): "subsup"}  # fmt: skip
        return el("m" + kind[below is not None, above is not None], {}, base, below, above)

    def _argument(self):
        if not self.tokens:
            raise _UnreadError("the end")
        token = self.tokens.pop(0)
        found = self.until("}") if token == "{" else self._one(token)
        return found[0] if len(found) == 1 else el("mrow", {}, found)

    def _one(self, token) -> list[Element]:
        if token == "{":
            return [el("mrow", {}, self.until("}"))]
        if token.startswith("\\"):
            return self._command(token[1:] if token[1:].isalpha() else token)
        if token[0].isdigit():
            return [el("mn", {}, token)]
        return [el("mi", {}, token) if token.isalpha() else self._sign("−" if token == "-" else token)]

    @staticmethod
    def _sign(sign, tall=False):
        return el("mo", {"stretchy": "false"} if sign in _BRACKETS and not tall else {}, sign)

    def _command(self, name) -> list[Element]:
        if name in _SILENT:
            return []
        if name in _TALL:
            return [self._sign(self.tokens.pop(0), tall=True)] if self.tokens else []
        if name in _SPACES:
            return [el("mspace", {"width": _SPACES[name]})]
        if name in ("frac", "tfrac"):
            return [el("mfrac", {}, self._digit(), self._digit())]
        if name in ("sqrt", "mathbf"):
            return [el("msqrt", {}, self._argument())] if name == "sqrt" else [self._argument()]
        if name == "text":
            return [el("mtext", {}, self._text())]
        if name in _WORDS:
            return [el("mi", {}, name)]
        if name in _LETTERS:
            return [el("mi", {}, _LETTERS[name])]
        if name in _SIGNS:
            return [self._sign(_SIGNS[name])]
        raise _UnreadError(name)

    def _digit(self):
        r"""An argument; of \tfrac12 the digits one by one."""
        if self.tokens and self.tokens[0][0].isdigit() and len(self.tokens[0]) > 1:
            token = self.tokens.pop(0)
            self.tokens.insert(0, token[1:])
            return el("mn", {}, token[0])
        return self._argument()

    def _text(self):
        if not self.tokens or self.tokens.pop(0) != "{":
            raise _UnreadError("text")
        words = []
        while self.tokens and (token := self.tokens.pop(0)) != "}":
            words.append(token)
        return " " + "".join(words) + " "

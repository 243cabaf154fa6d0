"""Docstrings as they are written here, for autodoc.

They are plain text with `code`, formulas and doctests. Names that end in an underscore, bars and stars mean themselves, a
list of parameters has a line for each (`alpha : what it is`, or `alpha: what it is` in records), and a word underlined is a
heading of a section.
"""

import inspect
import re

INLINE = re.compile(r"(:\w+:`[^`]+`|``.+?``|`[^`]+`)", re.S)
NAMES = r"[A-Za-z_*]\w*(?:, [A-Za-z_*]\w*)*"
LISTED = re.compile(r"(\S.*?) : ")  # in a section
FIELD = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*(?: \([^()]*(?:\([^()]*\)[^()]*)*\))?): (?=\S)")  # in a record
HEADING = re.compile(r"(\w[\w ]*)\n-+\n?")
LISTS = ("Parameters", "Attributes", "Returns", "Raises")


def plain(text: str) -> str:
    """Text in which only `code` and roles mean something."""
    pieces = INLINE.split(text)
    for i, piece in enumerate(pieces):
        if i % 2 == 0:
            pieces[i] = re.sub(r"([\\*|_])", r"\\\1", piece)
        elif piece[0] == "`" and piece[1] != "`":
            pieces[i] = f"`{piece}`"
    return "".join(pieces)


def items(text: str, item: re.Pattern) -> list[str]:
    """A list of names with what they are, as a definition list."""
    found: list[list[str]] = []
    for line in text.split("\n"):
        match = item.match(line)  # never of a line that is indented
        if match:
            found.append([term(match[1]), line[match.end() :]])
        else:
            found[-1].append(line.strip())
    out = []
    for name, *definition in found:  # a definition is read as one text, since `code` may run over the ends of lines
        out += [name, *(f"    {one}" for one in plain("\n".join(definition)).split("\n"))]
    return [*out, ""]


def term(text: str) -> str:
    """Names as code, and the rest (a shape) as text."""
    names = re.match(NAMES, text)
    if names is None:
        return plain(text)
    return ", ".join(f"``{name}``" for name in names[0].split(", ")) + plain(text[names.end() :])


def paragraph(text: str, section: str | None) -> list[str]:
    """One paragraph as lines of reStructuredText."""
    if text.startswith((".. ", ">>> ")):
        return [*text.split("\n"), ""]
    if section in LISTS and LISTED.match(text):
        return items(re.sub(rf"\. ({NAMES}) : ", r".\n\1 : ", text), LISTED)
    if FIELD.match(text):
        return items(text, FIELD)
    if all(line.startswith("    ") for line in text.split("\n")):
        return ["::", "", *text.split("\n"), ""]
    return [*plain(text).split("\n"), ""]


def house_to_rst(text: str) -> list[str]:
    """A whole docstring, its indentation removed."""
    out: list[str] = []
    section = None
    for part in re.split(r"\n\n+", text.strip("\n")):
        heading = HEADING.match(part)
        if heading:
            section, part = heading[1], part[heading.end() :]
            out += [f".. rubric:: {section}", ""]
        if part:
            out += paragraph(part, section)
    return out


def process(app, what, name, obj, options, lines):
    lines[:] = house_to_rst("\n".join(lines))


def skip(app, what, name, obj, skipped, options):
    """What comes from scikit-learn or NumPy is described there."""
    function = getattr(obj, "fget", None) or getattr(obj, "__func__", obj)
    module = getattr(inspect.unwrap(function), "__module__", None) or ""
    return True if module.split(".")[0] in ("sklearn", "numpy", "builtins") else None


def setup(app):
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}

"""Elements of a page. Text is escaped here and nowhere else: there are no templates, and no text is ever markup."""

import re
import unicodedata
from dataclasses import dataclass
from html import escape
from typing import Any

__all__ = ["Element", "cut", "el", "render", "visible"]

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_VOID = {"meta", "br", "hr", "col"}
_REFUSED = {"script", "iframe", "object", "embed", "link", "base", "form", "foreignobject"}
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # control, direction and other characters that are not seen
_TITLE = 400  # characters of a name that is told whole when the pointer is on it


@dataclass(frozen=True)
class Element:
    """A tag with attributes and children, which are elements or text."""

    tag: str
    attributes: dict[str, Any]
    children: tuple


def el(tag: str, attributes: dict[str, Any] | None = None, *children) -> Element:
    """An element. Lists among the children are opened, None and attributes of None are left out.

    What could run or fetch something is refused, whoever asks: scripts, event attributes, addresses other than places on the
    page and inline images.
    """
    given = {name: value for name, value in (attributes or {}).items() if value is not None}
    _refuse(tag, given)
    return Element(tag, given, tuple(_flat(children)))


def render(node) -> str:
    """An element as HTML."""
    parts: list[str] = []
    _write(node, parts)
    return "".join(parts)


def visible(text) -> str:
    r"""Text in which characters that are not seen, or that turn the direction of others, stand as escapes.

    >>> visible("a\u202eb\n")
    'a\\u202eb\\n'
    """
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def cut(text, most: int = 40):
    """A name of so many characters; what is longer is cut, and told (nearly) whole in a title."""
    text = str(text)
    short = visible(text[: most + 1])
    if len(text) <= most and len(short) <= most + 20:
        return short
    whole = text if len(text) <= _TITLE else f"{text[:_TITLE]}… ({len(text)} characters)"
    return el("span", {"title": whole}, f"{short[: most - 1]}…")


def _refuse(tag, attributes):
    if not _NAME.fullmatch(tag) or tag.lower() in _REFUSED:
        raise ValueError(f"tag {tag[:40]!r} has no place in a page")
    for name, value in attributes.items():
        if not _NAME.fullmatch(name) or name.lower().startswith("on"):
            raise ValueError(f"attribute {name[:40]!r} has no place in a page")
        if name.lower() in ("href", "src", "action") and not str(value).startswith(("#", "data:image/png;base64,")):
            raise ValueError(f"{name}={str(value)[:40]!r} leads out of the page")


def _flat(children):
    for child in children:
        if isinstance(child, (list, tuple)):
            yield from _flat(child)
        elif child is not None:
            yield child if isinstance(child, Element) else str(child)


def _write(node, parts):
    if isinstance(node, str):
        parts.append(escape(visible(node), quote=False))
        return
    attributes = "".join(f' {name}="{escape(visible(value))}"' for name, value in node.attributes.items())
    parts.append(f"<{node.tag}{attributes}>")
    if node.tag in _VOID:
        return
    if node.tag == "style":
        parts.append(_sheet(node))
    else:
        for child in node.children:
            _write(child, parts)
    parts.append(f"</{node.tag}>")


def _sheet(node):
    """Rules of a style sheet, which HTML reads raw; ours hold no sign that could end it."""
    rules = "".join(node.children)
    if "<" in rules or "url(" in rules or "@import" in rules:
        raise ValueError("a style sheet holds a sign that could end it, or an address")
    return rules


def _shown(character):
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character, f"\\u{ord(character):04x}")

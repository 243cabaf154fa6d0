"""Names and texts of users as they may be printed: control characters and marks of direction become visible escapes."""

import unicodedata
from collections.abc import Iterable

__all__ = ["listed", "nearest", "shown"]

LONGEST = 200


def shown(text: object, longest: int = LONGEST) -> str:
    """A text that neither breaks a line nor moves the cursor, cut where it is very long."""
    whole = str(text)
    cut = whole if len(whole) <= longest else f"{whole[: longest - 1]}…"
    return "".join(c if _plain(c) else _escaped(c) for c in cut)


def _plain(c):
    return (c.isascii() and c.isprintable()) or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def _escaped(c):
    return repr(c)[1:-1] if not c.isprintable() else f"\\u{ord(c):04x}"


def listed(words: Iterable[object], most: int = 8) -> str:
    """The first few of some words, with commas."""
    words = list(words)
    return ", ".join(shown(w, 60) for w in words[:most]) + (f", ... ({len(words)} in all)" if len(words) > most else "")


def nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' where a known word is near, else ''."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f'; did you mean "{shown(near[0])}"?' if near else ""

"""What a command says: results on standard output, as text or as JSON; notes and progress on standard error."""

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mercer.cli.words import shown

__all__ = ["Console", "Outcome", "aligned", "as_plain", "number"]

EVERY = 2.0  # seconds between lines of progress where there is no terminal


@dataclass
class Outcome:
    """What a command found: `data` for --json, `text` for people, and the exit code."""

    data: dict[str, Any]
    text: str = ""
    code: int = 0
    lines: list[str] = field(default_factory=list)


class Console:
    """Output as the options ask for it. Of a name that a user gave, only what `shown` makes of it reaches a terminal."""

    def __init__(self, as_json: bool = False, quiet: bool = False):
        self.as_json, self.quiet = as_json, quiet or as_json
        self._bar: Any = None
        self._task: Any = None
        self._began, self._told = time.monotonic(), -math.inf

    # -------------------------------------------------------------------------------------- results
    def give(self, outcome: Outcome):
        if self.as_json:
            print(json.dumps(as_plain(outcome.data), ensure_ascii=True, allow_nan=False))
        elif outcome.text:
            print(_encodable(outcome.text))

    def fail(self, message: str, code: int) -> int:
        """One line of what went wrong; a kernel's text that is pointed into keeps its lines."""
        if self.as_json:
            print(json.dumps({"error": message, "code": code}, ensure_ascii=True))
        else:
            lines = [shown(line, 1000) for line in message.split("\n")]
            print(_encodable("mercer: " + "\n".join(lines)), file=sys.stderr)
        return code

    def note(self, message: str):
        if not self.quiet:
            self.close()
            print(_encodable(shown(message, 1000)), file=sys.stderr)

    # -------------------------------------------------------------------------------------- progress
    def tell(self, words: str, share: float):
        """How far a search came, and when it will be done if it goes on like that."""
        if self.quiet:
            return
        if self._bar is None and not self._open():
            self._line(words, share)
            return
        self._bar.update(self._task, completed=share, description=shown(words, 60))

    def _line(self, words, share):
        now = time.monotonic()
        if now - self._told < EVERY and share < 1.0:
            return
        self._told = now
        spent = now - self._began
        left = f", about {spent * (1 - share) / share:.0f} s left" if 0.05 < share < 1.0 else ""
        print(_encodable(f"{spent:6.1f} s  {shown(words, 100)}{left}"), file=sys.stderr, flush=True)

    def _open(self) -> bool:
        """A bar, where rich is installed and somebody looks."""
        if not sys.stderr.isatty():
            return False
        try:
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        except ImportError:
            return False
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=RichConsole(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("", total=1.0)
        return True

    def close(self):
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def aligned(rows: Sequence[Sequence[object]], heads: Sequence[str] = (), longest: int = 60) -> str:
    """Rows of words as columns; numbers stand to the right."""
    cells = [[_cell(v, longest) for v in row] for row in rows]
    table = ([list(heads)] if heads else []) + cells
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    right = [all(isinstance(row[j], (int, float)) or row[j] is None for row in rows) for j in range(len(widths))]
    lines = [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)) for row in table
    ]
    return "\n".join(line.rstrip() for line in lines)


def _cell(value, longest):
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else shown(value, longest)


def number(value: float) -> str:
    """Four digits, and large numbers of daily life without an exponent."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def as_plain(value: Any) -> Any:
    """A result as JSON holds it: no arrays, and null for NaN and infinity, which JSON has not."""
    if isinstance(value, Mapping):
        return {str(k): as_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(v) for v in value]
    if hasattr(value, "tolist"):  # of NumPy
        return as_plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _encodable(text: str) -> str:
    """Text that the terminal's encoding has characters for."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)

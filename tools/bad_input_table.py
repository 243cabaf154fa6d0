"""Write docs/bad-input.md: what the library says to input that it cannot use, recorded while the tests run.

Every `pytest.raises` of the tests below that is met leaves the statement, the error and its message. The page is their list;
nothing in it is written by hand.

Usage: bad_input_table.py            run the tests and write the page
       bad_input_table.py --check    run the tests and tell whether the page is as it would be written
"""

import linecache
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "bad-input.md"
EACH = 4  # messages that a test is shown by at most; it may run for a hundred kernels
LONGEST = 400  # characters of a message

#: Heading, what the tests are, file, and a pattern of the names of its tests.
SOURCES = (
    ("Kernels", "Kernels meet what users bring by mistake.", "tests/test_bad_input_kernels.py", r""),
    (
        "Estimators",
        "The same tests run for every estimator; the messages shown are those of `KernelRidge`.",
        "tests/test_estimators.py",
        r"\b(KernelRidge|KernelRidge\((kernel='(rbf|precomputed)')?\))(-check_\w+)?\]$",
    ),
    (
        "Kernels from text",
        "`parse_kernel` points at the place of a mistake.",
        "tests/test_text.py",
        r"^(?!test_hostile|test_any)",
    ),
    (
        "More than fits",
        "What does not fit into the memory budget is refused before it starts.",
        "tests/test_limits.py",
        r"million_rows_are_refused",
    ),
)


@dataclass(frozen=True)
class Met:
    """An error that a test waited for, and got."""

    test: str
    statement: str
    error: str
    message: str


class Recorder:
    """A plugin of pytest that notes what `pytest.raises` catches."""

    def __init__(self, pattern: str):
        self.met: list[Met] = []
        self.pattern = re.compile(pattern)

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if self.pattern.search(item.name)]

    def pytest_configure(self):
        self.raises, pytest.raises = pytest.raises, self._raises

    def pytest_unconfigure(self):
        pytest.raises = self.raises

    def _raises(self, *arguments, **settings):
        return _Noting(self, self.raises(*arguments, **settings))


class _Noting:
    """A context manager around that of `pytest.raises`."""

    def __init__(self, recorder, inner):
        self.recorder, self.inner = recorder, inner

    def __enter__(self):
        return self.inner.__enter__()

    def __exit__(self, kind, error, trace):
        accepted = self.inner.__exit__(kind, error, trace)
        if accepted:
            frame = traceback.extract_tb(trace, limit=1)[0]  # that of the test, where the statement stands
            self.recorder.met.append(Met(frame.name, statement(frame), kind.__name__, scrubbed(str(error))))
        return accepted


def statement(frame: traceback.FrameSummary) -> str:
    """The source of the statement that raised, on one line."""
    lines = [linecache.getline(frame.filename, i) for i in range(frame.lineno, (frame.end_lineno or frame.lineno) + 1)]
    return " ".join("".join(lines).split())


def scrubbed(message: str) -> str:
    """One line without what differs from run to run: addresses, orders of sets, times and sizes that were measured."""
    text = " ".join(message.split())
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    text = re.sub(
        r"\{([^{}:]*)\}", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", text
    )  # sets have no order
    text = re.sub(r"predicted to take .*?(?=[.;] |[.;]?$)", "predicted to take ...", text)
    text = re.sub(r"[\d.]+ \w+ for each", "... for each", text)
    text = re.sub(r"budget is (?!2 GB)[\d.]+ \w+", "budget is ...", text)
    return text if len(text) <= LONGEST else text[: LONGEST - 3].rsplit(" ", 1)[0] + " ..."


def record(file: str, pattern: str) -> list[Met]:
    """Run tests of a file and give what they met, in the order of the file."""
    recorder = Recorder(pattern)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--no-summary", "-m", "not slow"]
    if pytest.main([str(ROOT / file), *options], plugins=[recorder]) != pytest.ExitCode.OK:
        raise SystemExit(f"{file}: the tests fail, so that there is nothing to record")
    return recorder.met


def paragraphs(met: list[Met]) -> list[str]:
    """What was met, test by test: a few messages of each that differ in more than numbers and names."""
    tests: dict[str, dict[str, Met]] = {}
    for one in met:
        if one.message:
            tests.setdefault(one.test, {}).setdefault(kind_of(one), one)
    out = []
    for test, kinds in tests.items():
        shown = [f"- {code(m.statement)} gives `{m.error}`: {cell(m.message)}" for m in list(kinds.values())[:EACH]]
        out.append("\n".join([f"**{sentence(test)}**\n", *shown, ""]))
    return out


def kind_of(met: Met) -> str:
    """A message without its numbers and the words it quotes or names as parameters."""
    return met.error + re.sub(r"\d[\d.e+-]*|'[^']*'|\w+\(\w+=[^)]*\): \w+=\S+|\b(NaN|infinity)\b", "#", met.message)


def sentence(test: str) -> str:
    text = test.removeprefix("test_").removeprefix("check_").replace("_", " ")
    return text[0].upper() + text[1:]


def cell(text: str) -> str:
    """Text in which nothing is markup."""
    return re.sub(r"([\\*_<>`\[\]$])", r"\\\1", text)


def code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def page() -> str:
    """The whole page."""
    parts = [
        "# Behaviour on bad input\n\n"
        "What is said when input cannot be used. This page is recorded while the tests run, by `tools/bad_input_table.py`; do\n"
        "not edit it. In bold stands the name of a test, below it what was tried and what came of it. A test runs for many\n"
        "kernels, estimators and kinds of rows, here called `case`, `kernel`, `cls`, `bad` and the like, and is shown by its\n"
        "first messages.\n"
    ]
    for heading, before, file, pattern in SOURCES:
        parts += [f"## {heading}\n\n{before} The tests are in `{file}`.\n", *paragraphs(record(file, pattern))]
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    sys.path.insert(0, str(ROOT / "tests"))
    wanted = page()
    current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" in arguments:
        print(
            "the page is as the tests say"
            if wanted == current
            else "docs/bad-input.md is not what the tests say: make docs"
        )
        return int(wanted != current)
    if wanted != current:
        PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""The documentation is true: its code runs as written, its tables hold every kernel, its links lead somewhere."""

import doctest
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import mercer
from mercer.registry import KERNELS

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NEEDS = {"docs/gpu.md": "torch"}  # pages whose code needs an optional package
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def text_of(page):
    return page.read_text(encoding="utf-8")


def blocks(page):
    """Python code blocks of a page with the number of their first line."""
    text = text_of(page)
    return [(m[1], text[: m.start(1)].count("\n")) for m in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]


WITH_CODE = [page for page in PAGES if blocks(page)]


def name(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_code_runs_as_written(page):
    """One page is one session."""
    if name(page) in NEEDS:
        pytest.importorskip(NEEDS[name(page)])
    parser, session, report = doctest.DocTestParser(), {"__name__": "__main__"}, []
    for source, line in blocks(page):
        test = parser.get_doctest(source, session, name(page), str(page), line)
        runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
        runner.run(test, out=report.append, clear_globs=False)
        session = test.globs
    assert not report, "".join(report)


def test_pages_with_code_are_found():
    names = {name(page) for page in WITH_CODE}
    assert names >= {"docs/algebra.md", "docs/ridge.md", "docs/extend/kernel.md", "docs/extend/engine.md"}


def test_a_kernel_takes_under_15_lines():
    source = "\n".join(block for block, _ in blocks(ROOT / "docs" / "extend" / "kernel.md"))
    classes = re.findall(r">>> @frozen\n((?:\.\.\..*\n)+)", source)
    assert len(classes) == 4
    assert max(c.count("\n") + 1 for c in classes) < 15


# ---------------------------------------------------------------------------------------------- the table of kernels
def table_rows():
    """{kernel: cells after its name} of docs/kernels.md."""
    rows = {}
    for line in text_of(ROOT / "docs" / "kernels.md").splitlines():
        match = re.match(r"\| `(\w+)` \| (.*) \|$", line)
        if match:
            assert match[1] not in rows, f"{match[1]} has two rows"
            rows[match[1]] = [cell.strip() for cell in re.split(r"(?<!\\)\|", match[2])]
    return rows


def is_leaf(cls):
    return not {"kernel", "parts"} & {f.name for f in fields(cls)}


def test_every_kernel_has_its_row():
    ours = {k for k, cls in KERNELS.items() if cls.__module__.startswith("mercer.")}
    assert set(table_rows()) == ours


def leaves():
    return sorted(k for k, cls in KERNELS.items() if cls.__module__.startswith("mercer.") and is_leaf(cls))


@pytest.mark.parametrize("kernel", leaves())
def test_parameters_and_certificate_of_the_table(kernel):
    cls = KERNELS[kernel]
    _, certificate, parameters = table_rows()[kernel]
    assert [p.strip() for p in parameters.split(",") if p.strip()] == [f.name for f in fields(cls)]
    if all(f.default is not MISSING for f in fields(cls)):
        validity = cls().validity
        order = f" of order {validity.order}" if validity.kind == "cpd" else ""
        assert certificate.split(";")[0] == validity.kind + order


def test_operators_of_the_table_are_written_so():
    for kernel, cells in table_rows().items():
        if not is_leaf(KERNELS[kernel]):
            for method in re.findall(r"k1?\.(\w+)\(", cells[0]):
                assert callable(getattr(mercer.kernels.Kernel, method)), method


# ---------------------------------------------------------------------------------------------- links
def links(page):
    """Relative targets of a page, code blocks left out."""
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.M | re.S)
    return [t for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]


def anchors(page):
    """GitHub's names of the headings."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *PAGES], ids=name)
def test_links_lead_somewhere(page):
    for link in links(page):
        target, _, anchor = link.partition("#")
        file = (page.parent / target) if target else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


def test_every_page_is_linked_from_the_index():
    """Pages that show a file from outside docs/ are linked as that file."""
    index = ROOT / "docs" / "index.md"
    shown = {page for page in PAGES if text_of(page).count("\n") < 5 and "On the site this page is" in text_of(page)}
    found, new = set(), {index}
    while new:
        found |= new
        linked = {(page.parent / link.partition("#")[0]).resolve() for page in new for link in links(page)}
        new = {page for page in linked if page.suffix == ".md"} - found
    assert {page for page in PAGES if page not in shown} <= found
    assert {(page.parent / link).resolve() for page in shown for link in links(page)} <= found

"""The site is made of what is there: pages in its contents, public names in its reference, tables from tests and records."""

import ast
import inspect
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sklearn.svm

import mercer
from mercer import datasets, diagnostics, errors, kernels, plots
from mercer.registry import ESTIMATORS, KERNELS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
sys.path[:0] = [str(DOCS / "_ext"), str(ROOT / "tools"), str(ROOT)]

import bad_input_table  # noqa: E402
import house  # noqa: E402
import pages_outside  # noqa: E402
import reference  # noqa: E402


def text_of(path):
    return path.read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------- contents
def entries(page):
    """Pages named in the contents of a page."""
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text_of(page), re.M | re.S):
        for line in block.splitlines():
            if line and not line.startswith(":"):
                target = re.sub(r".*<(.*)>", r"\1", line)
                yield (page.parent / f"{target}.md").resolve()


def test_every_page_stands_in_the_contents_once():
    counts = Counter(target for page in PAGES for target in entries(page))
    given = {
        DOCS / name for name in ("index.md", "gallery.md", "playground/README.md")
    }  # the root, and what the build adds
    assert counts == Counter(page.resolve() for page in PAGES if page not in given)


def test_the_front_page_gets_what_other_tools_write(tmp_path):
    text = text_of(DOCS / "index.md")
    assert text.count(pages_outside.BEFORE) == 1
    bare = pages_outside.with_entries(text, tmp_path, gallery=False)
    assert "Validity <validity>\nReference <api/index>\nExtending" in bare
    (tmp_path / "playground").mkdir()
    (tmp_path / "playground" / "README.md").touch()
    whole = pages_outside.with_entries(text, tmp_path, gallery=True)
    assert "\nExamples <gallery>\nReference <api/index>\nPlayground <playground/README>\nExtending" in whole


# ---------------------------------------------------------------------------------------------- links to what is outside docs/
@pytest.mark.parametrize(
    ("target", "folder", "page", "expected"),
    [
        ("../README.md", "docs", "index", "readme.md"),
        ("../../CONTRIBUTING.md", "docs/extend", "extend/index", "../contributing.md"),
        ("docs/ridge.md", "", "readme", "ridge.md"),
        ("CHANGELOG.md", "", "readme", "changes.md"),
        ("LICENSE", "", "readme", "../LICENSE"),
        ("../numerics.md", "docs/extend", "extend/engine", "../numerics.md"),
        ("../examples/plot_xor.py", "docs", "kernel-machine", "gallery/plot_xor.rst"),
    ],
)
def test_links_lead_to_pages_of_the_site(target, folder, page, expected):
    assert pages_outside.on_the_site(target, folder, page, gallery=True) == expected


def test_links_keep_their_anchors_and_code_stays():
    text = "[a](../CHANGELOG.md#unreleased) [b](https://x.org/README.md) [c](#here)\n```\n[d](../README.md)\n```\n"
    expected = text.replace("../CHANGELOG.md", "changes.md")
    assert pages_outside.with_links(text, "docs", "index", gallery=False) == expected
    page = pages_outside.with_links("[open](index.html)", "docs/playground", "playground/README", gallery=False)
    assert page == '<a href="index.html">open</a>'
    without = pages_outside.with_links("[a](../examples/plot_xor.py)", "docs", "index", gallery=False)
    assert without == "[a](../examples/plot_xor.py)"


def test_pages_that_stand_outside_are_there():
    shown = {page.stem for page in PAGES if "On the site this page is" in text_of(page)}
    assert shown == set(pages_outside.FILES)
    for file, page in pages_outside.PAGES.items():
        assert (ROOT / file).exists()
        assert f"]({'../' + file})" in text_of(DOCS / f"{page}.md")


# ---------------------------------------------------------------------------------------------- the reference
@pytest.fixture(scope="module")
def written():
    return reference.pages(DOCS)


def test_every_public_name_is_in_the_reference_once(written):
    found = Counter(re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", "\n".join(written.values()), re.M))
    modules = {"mercer.kernels": kernels, "mercer.diagnostics": diagnostics, "mercer.plots": plots,
               "mercer.datasets": datasets, "mercer.errors": errors}  # fmt: skip
    wanted = {f"{name}.{public}" for name, module in modules.items() for public in module.__all__}
    wanted |= {f"mercer.{name}" for name in mercer.__all__ if name not in ("__version__", "datasets", "kernels")}
    wanted -= {f"mercer.{name}" for name in diagnostics.__all__}  # listed as diagnostics
    assert found == Counter(wanted)


def test_formulas_and_certificates_come_from_the_table(written):
    page = written["kernels-of-a-distance"]
    rbf = page[page.index("RBF\n---") : page.index("Laplacian\n---")]
    assert ":formula: ``exp(-r²/2)``, or ``exp(-(x-y)ᵀ S⁻¹ (x-y)/2)`` with ``covariance=S``\n:certificate: pd\n" in rbf
    assert "``|x_j - y_j|/l``" in page
    tables = reference.kernel_tables(text_of(DOCS / "kernels.md"))
    ours = {name for name, cls in KERNELS.items() if cls.__module__.startswith("mercer.")}
    assert {name for table in tables.values() for name in table} == ours


def test_pages_of_estimators_lead_to_the_guide(written):
    ours = {name for name, cls in ESTIMATORS.items() if cls.__module__.startswith("mercer.")}
    assert {f"estimator-{name}" for name in ours} <= set(written)
    assert ":doc:`/ridge`" in written["estimator-KernelRidge"]
    assert "minigallery:: mercer.SVC" in reference.estimator_page(DOCS, "SVC", gallery=True)
    assert "minigallery" not in written["estimator-SVC"]


def test_pages_are_written_where_they_changed_and_removed_where_they_went(tmp_path, monkeypatch):
    class App:
        srcdir, extensions = tmp_path, ()

    monkeypatch.setattr(reference, "pages", lambda docs, gallery: {"index": "new\n", "same": "same\n"})
    (tmp_path / "api").mkdir()
    for name, text in (("gone", "x"), ("index", "old\n"), ("same", "same\n")):
        (tmp_path / "api" / f"{name}.rst").write_text(text)
    before = (tmp_path / "api" / "same.rst").stat().st_mtime_ns
    reference.write(App)
    assert {p.stem: p.read_text() for p in (tmp_path / "api").glob("*.rst")} == {"index": "new\n", "same": "same\n"}
    assert (tmp_path / "api" / "same.rst").stat().st_mtime_ns == before


# ---------------------------------------------------------------------------------------------- docstrings
DOCSTRING = """A sum |x|*|y| of coef_, see `dual_coef_` and :math:`a_i
|b|`.

.. math:: k(x, y) = x_i y_j

Parameters
----------
alpha, beta : what is added. gamma : of two_, and `code
    over` lines : all of gamma.
weights_ (k,), or (t, k) : shares.

Examples
--------
>>> 2 * 3
6

Someone (1990), eq. 1.
"""


def test_docstrings_become_restructured_text():
    lines = house.house_to_rst(DOCSTRING)
    assert lines == [
        r"A sum \|x\|\*\|y\| of coef\_, see ``dual_coef_`` and :math:`a_i", "|b|`.", "",
        ".. math:: k(x, y) = x_i y_j", "",
        ".. rubric:: Parameters", "",
        "``alpha``, ``beta``", "    what is added.",
        "``gamma``", "    of two\\_, and ``code", "    over`` lines : all of gamma.",
        r"``weights_`` (k,), or (t, k)", "    shares.", "",
        ".. rubric:: Examples", "",
        ">>> 2 * 3", "6", "",
        "Someone (1990), eq. 1.", "",
    ]  # fmt: skip


def test_fields_of_records_are_a_list_and_sentences_are_not():
    text = "What was found.\n\nvalue, n (m, 2): the number\nof it.\n\nNote: a sentence."
    assert house.house_to_rst(text) == [
        "What was found.", "", "``value``, ``n`` (m, 2)", "    the number", "    of it.", "", "Note: a sentence.", "",
    ]  # fmt: skip
    assert house.house_to_rst("A formula:\n\n    a_i | b")[2:] == ["::", "", "    a_i | b", ""]


def public_docstrings():
    """(name, docstring) of what the reference shows."""
    for module in (mercer, kernels, diagnostics, plots, datasets, errors):
        for name in module.__all__:
            thing = getattr(module, name)
            members = vars(thing) if isinstance(thing, type) else {}
            for member, one in {"": thing, **{m: v for m, v in members.items() if not m.startswith("_")}}.items():
                one = getattr(one, "__func__", getattr(one, "fget", one))
                shown = not house.skip(None, "", member, one, False, None)
                if shown and isinstance(getattr(one, "__doc__", None), str):
                    yield f"{name}.{member}", inspect.cleandoc(one.__doc__)


def test_docstrings_have_no_markup_errors():
    core = pytest.importorskip("docutils.core", reason="needs docutils")
    settings = {"report_level": 2, "halt_level": 6, "warning_stream": False}
    docstrings = dict(public_docstrings())
    assert len(docstrings) > 400
    for name, text in docstrings.items():
        tree = core.publish_doctree("\n".join(house.house_to_rst(text)), settings_overrides=settings)
        problems = [node.astext() for node in tree.findall() if node.tagname in ("system_message", "problematic")]
        assert not problems, f"{name}: {problems}"


def test_what_scikit_learn_describes_is_left_out():
    assert house.skip(None, "class", "get_params", mercer.SVC.get_params, False, None) is True
    assert house.skip(None, "class", "fit", mercer.SVC.fit, False, None) is None
    assert house.skip(None, "class", "coef_", sklearn.svm.SVC.coef_, False, None) is True
    assert house.skip(None, "class", "expansion_", mercer.KernelRidge.expansion_, False, None) is None


# ---------------------------------------------------------------------------------------------- behaviour on bad input
RECORDED = """
import pytest

@pytest.mark.parametrize("n", [1, 2, 3])
def test_roots_of_negative_numbers(n):
    with pytest.raises(ValueError, match="math"):
        float.fromhex("0x1p2")
        raise ValueError(f"math domain: {n} | <lambda> at 0x7f0011223344")

def test_keys():
    with pytest.raises(KeyError):
        {}["a_b"]
    with pytest.raises(TypeError):
        len(
            3,
        )

def test_other():
    assert True
"""


def test_errors_are_recorded_from_tests(tmp_path):
    (tmp_path / "test_x.py").write_text(RECORDED)
    script = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import bad_input_table as b; " \
             f"b.ROOT = b.Path({str(tmp_path)!r}); print('#'.join(b.paragraphs(b.record('test_x.py', 'test_'))))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = done.stdout[done.stdout.index("**") :].strip().split("#")
    assert shown[0] == (
        "**Roots of negative numbers**\n\n"
        '- `raise ValueError(f"math domain: {n} | <lambda> at 0x7f0011223344")` gives `ValueError`: '
        "math domain: 1 | \\<lambda\\> at 0x...\n"
    )
    assert shown[1] == (
        "**Keys**\n\n- `{}[\"a_b\"]` gives `KeyError`: 'a\\_b'\n"
        "- `len( 3, )` gives `TypeError`: object of type 'int' has no len()"
    )


def test_failing_tests_are_not_recorded(tmp_path):
    (tmp_path / "test_x.py").write_text("def test_x():\n    assert False\n")
    script = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import bad_input_table as b; " \
             f"b.ROOT = b.Path({str(tmp_path)!r}); b.record('test_x.py', '')"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "test_x.py: the tests fail" in done.stderr


def test_messages_lose_what_a_machine_adds():
    text = "needs 9 TB, the memory budget is 3.1 GB.  One\n sweep is predicted to take about 40 min. What helps: x"
    expected = "needs 9 TB, the memory budget is .... One sweep is predicted to take .... What helps: x"
    assert bad_input_table.scrubbed(text) == expected
    assert bad_input_table.scrubbed("a str among {'b', 'a'} or {x: y}") == "a str among {'a', 'b'} or {x: y}"
    slow = "predicted to take 25.2 min. Try cg, 22.5 min for each of some 100 iterations"
    assert bad_input_table.scrubbed(slow) == "predicted to take .... Try cg, ... for each of some 100 iterations"
    assert bad_input_table.scrubbed("the memory budget is 2 GB.") == "the memory budget is 2 GB."
    assert len(bad_input_table.scrubbed("word " * 300)) <= bad_input_table.LONGEST
    assert bad_input_table.scrubbed("word " * 300).endswith("word ...")


def raising(file):
    """Functions of a file that hold a `pytest.raises`."""
    for node in ast.walk(ast.parse(text_of(ROOT / file))):
        if isinstance(node, ast.FunctionDef) and "pytest.raises" in ast.unparse(node):
            yield bad_input_table.sentence(node.name)


def test_the_page_of_bad_input_follows_the_tests():
    parts = re.split(r"^## ", text_of(DOCS / "bad-input.md"), flags=re.M)[1:]
    assert [part.split("\n")[0] for part in parts] == [source[0] for source in bad_input_table.SOURCES]
    for part, (_, before, file, pattern) in zip(parts, bad_input_table.SOURCES, strict=True):
        shown = set(re.findall(r"^\*\*(.*)\*\*$", part, re.M))
        assert before in part
        assert shown <= set(raising(file)), file
        if not pattern:
            assert shown == set(raising(file)), "run `make docs`"


# ---------------------------------------------------------------------------------------------- benchmarks, formulas
def test_tables_of_benchmarks_are_those_of_the_records():
    import benchmarks.__main__
    from benchmarks import report

    del benchmarks
    text = text_of(report.PAGE)
    shown = text[text.index(report.BEGIN) + len(report.BEGIN) : text.index(report.END)]
    assert shown.strip() == report.report()


def test_records_of_a_full_run_are_kept(tmp_path):
    from benchmarks import report
    from benchmarks.harness import REGISTRY

    records = [json.loads(text_of(path)) for path in sorted(report.KEPT.glob("*.json"))]
    results, kept = tmp_path / "results", tmp_path / "kept"
    results.mkdir()
    new = {**records[0], "results": [], "question": "new?", "source": "a test"}
    (results / "any.json").write_text(json.dumps(new))
    assert report.keep(results, kept) == [new["name"]]
    assert json.loads(text_of(kept / f"{new['name']}.json")) == new
    shown = report.report(kept)
    assert "New?.\n\nSource: a test." in shown
    others = sorted(set(REGISTRY) - {new["name"]})
    assert f"### Without a record\n\n{', '.join(f'`{name}`' for name in others)}." in shown
    (results / "any.json").write_text(json.dumps({**new, "small": True}))
    with pytest.raises(ValueError, match="--small"):
        report.keep(results, kept)


def test_formulas_need_no_network():
    folder = DOCS / "_static" / "mathjax"
    assert (folder / "tex-svg.js").stat().st_size == 2_108_580
    assert "Apache License" in text_of(folder / "LICENSE")
    conf = text_of(DOCS / "conf.py")
    assert 'mathjax_path = "mathjax/tex-svg.js"' in conf
    assert "http" not in conf

"""The gallery: every page has its form, is in the table of docs/gallery.md, runs, and holds what it says by its own asserts."""

import re
import runpy
from pathlib import Path

import pytest

from mercer.plots.gallery import save_picture

plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")
ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path for path in sorted((ROOT / "examples").glob("plot_*.py"))}
FORM = re.compile(
    r'"""(?P<title>[^\n]{3,40})\n(?P<line>=+)\n\n'
    r"(?P<question>[^?]+\?) (?P<answer>[^\n].*?)\n\n"
    r':Gallery: (?P<ids>[DE]\d+(?:, [DE]\d+)*)\n"""\n',
    re.S,
)


def read(path):
    """What the docstring of a page says: title, question, answer, ids."""
    found = FORM.match(path.read_text(encoding="utf-8"))
    assert found, f"{path.name} does not begin with a title, an underline, a question, an answer and :Gallery:"
    return {**found.groupdict(), "question": " ".join(found["question"].split()), "ids": found["ids"].split(", ")}


def table():
    """Rows of the table of the gallery by page: ids, question and what is seen."""
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([DE][\dDE, ]*) \| \[`(\w+)`\]\(\.\./examples/(\w+)\.py\) \| (.+?) \| (.+?) \|$", text, re.M
    )
    assert all(name == target for _, name, target, _, _ in rows)
    return {name: {"ids": ids.split(", "), "question": question, "seen": seen} for ids, name, _, question, seen in rows}


@pytest.mark.parametrize("name", PAGES)
def test_page_has_the_form(name):
    text, page = PAGES[name].read_text(encoding="utf-8"), read(PAGES[name])
    assert len(page["line"]) == len(page["title"])  # as reStructuredText asks
    assert sum(bool(line.strip()) for line in text.splitlines()) < 60
    assert page["answer"].rstrip().endswith(".")
    assert re.search(r"^ *assert |assert_allclose", text, re.M)
    assert text.count("save_picture(") >= 1
    assert "MERCER_DATA" not in text
    assert "__main__" not in text  # a page runs from top to bottom, as Sphinx-Gallery runs it


def test_all_pages_of_the_catalogue_are_there():
    ids = [i for path in PAGES.values() for i in read(path)["ids"]]
    assert len(ids) == len(set(ids))
    assert {i for i in ids if i[0] == "D"} == {f"D{j}" for j in range(1, 30)}
    extra = [i for i in ids if i[0] == "E"]
    assert set(extra) == {f"E{j}" for j in range(1, len(extra) + 1)}


def test_table_of_the_gallery_is_that_of_the_files():
    shown = table()
    assert set(shown) == set(PAGES)
    for name, path in PAGES.items():
        page = read(path)
        assert shown[name]["ids"] == page["ids"], name
        assert shown[name]["question"] == page["question"], name
        assert len(shown[name]["seen"]) > 30, name
    numbers = [(row["ids"][0][0], int(row["ids"][0][1:])) for row in shown.values()]
    assert numbers == sorted(numbers)


def test_a_page_without_the_form_is_seen(tmp_path):
    good = '"""Title\n=====\n\nIs it so? It is.\n\n:Gallery: D1\n"""\n'
    page = tmp_path / "plot_x.py"
    for text in (good.replace("=====", ""), good.replace("?", "."), good.replace(":Gallery: D1", "D1")):
        page.write_text(text)
        with pytest.raises(AssertionError, match=r"plot_x\.py does not begin"):
            read(page)
    page.write_text(good)
    assert read(page)["ids"] == ["D1"]


@pytest.mark.timeout(200)  # none takes half a minute on a machine of its own
@pytest.mark.parametrize("name", PAGES)
def test_page_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MERCER_PICTURES", str(tmp_path))
    monkeypatch.delenv("MERCER_DATA", raising=False)
    try:
        runpy.run_path(str(PAGES[name]), run_name=name)
        opened = len(plt.get_fignums())
    finally:
        plt.close("all")
    pictures = list(tmp_path.glob("*.png"))
    assert len(pictures) == opened == PAGES[name].read_text(encoding="utf-8").count("save_picture(")
    assert all(path.stat().st_size > 5000 for path in pictures)
    printed = capsys.readouterr().out
    assert all(f"picture: {path}" in printed for path in pictures)


def test_pictures_go_to_the_folder_that_is_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    figure = plt.figure()
    monkeypatch.delenv("MERCER_PICTURES", raising=False)
    assert save_picture(figure, "a") == Path("out/a.png")
    monkeypatch.setenv("MERCER_PICTURES", "deep/er")
    assert save_picture(figure, "b") == Path("deep/er/b.png")
    assert (tmp_path / "out/a.png").exists()
    assert (tmp_path / "deep/er/b.png").exists()
    assert capsys.readouterr().out.splitlines() == [
        f"picture: {Path('out/a.png')}",
        f"picture: {Path('deep/er/b.png')}",
    ]
    assert plt.get_fignums() == [figure.number]  # it stays open
    plt.close(figure)

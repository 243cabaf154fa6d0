"""The report as one file that asks for nothing: no script, no address, pictures and style inside."""

from pathlib import Path

from mercer.persist.atomic import replacing
from mercer.report.html import el, render
from mercer.report.sections import SECTIONS, header
from mercer.report.study import Study
from mercer.report.style import DARK, LIGHT, SHEET

__all__ = ["report_html", "write_report"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def report_html(study: Study) -> str:
    """The page of a study."""
    parts = [(key, heading, found) for key, heading, make in SECTIONS if (found := make(study))]
    title = str(study.title or "Study")[:120]
    page = el(
        "html",
        {"lang": "en"},
        _head(title),
        el("body", {}, _top(study, parts), el("main", {}, _sections(parts)), _foot()),
    )
    return f"<!DOCTYPE html>\n{render(page)}\n"


def write_report(path, study: Study, *, force: bool = False) -> Path:
    """Write the page of a study to a file, in one step. An existing file is replaced only with force=True."""
    path = Path(path)
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists; choose another name, or force=True to replace it")
    page = report_html(study).encode("utf-8")
    with replacing(path) as file:
        file.write(page)
    return path


def _head(title):
    metas = [{"charset": "utf-8"}, {"http-equiv": "Content-Security-Policy", "content": _POLICY},
             {"name": "viewport", "content": "width=device-width, initial-scale=1"},
             {"name": "referrer", "content": "no-referrer"},
             {"name": "theme-color", "content": LIGHT["paper"], "media": "(prefers-color-scheme: light)"},
             {"name": "theme-color", "content": DARK["paper"], "media": "(prefers-color-scheme: dark)"}]  # fmt: skip
    return el("head", {}, [el("meta", m) for m in metas], el("title", {}, title), el("style", {}, SHEET))


def _top(study, parts):
    links = [el("li", {}, el("a", {"href": f"#{key}"}, heading)) for key, heading, _ in parts]
    return el("header", {}, header(study), el("nav", {"aria-label": "Sections"}, el("ul", {}, links)))


def _sections(parts):
    return [el("section", {"id": key, "aria-labelledby": f"{key}-h"}, el("h2", {"id": f"{key}-h"}, heading), found)
            for key, heading, found in parts]  # fmt: skip


def _foot():
    return el("footer", {}, "One file without scripts; it asks for nothing from anywhere. Written by mercer.")

"""Pages that stand outside docs/, and links to them.

README.md and its like are read where they are; on the site docs/readme.md holds its text, and links to it, to examples and
to the playground lead to what the site has in their place. The sources stay plain Markdown.
"""

import posixpath
import re
from pathlib import Path

PAGES = {
    "README.md": "readme",
    "CHANGELOG.md": "changes",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
    "src/mercer/datasets/data/ATTRIBUTION.md": "attribution",
}
FILES = {page: file for file, page in PAGES.items()}
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")
BEFORE = "Extending <extend/index>\n"  # the entry of the bar that they stand before
FENCE = re.compile(r"(^```.*?^```)", re.M | re.S)


def on_the_site(target: str, folder: str, page: str, *, gallery: bool) -> str:
    """Where a link to a file leads on the site. `folder` is where the text stands, `page` the document that shows it."""
    path = posixpath.normpath(posixpath.join(folder, target))
    example = re.fullmatch(r"examples/(plot_\w+)\.py", path)
    if path in PAGES:
        path = f"docs/{PAGES[path]}.md"
    elif example and gallery:
        path = f"docs/gallery/{example[1]}.rst"
    return posixpath.relpath(path, posixpath.dirname(f"docs/{page}"))


def with_links(text: str, folder: str, page: str, *, gallery: bool) -> str:
    """A text with its links made those of the site; code blocks stay as they are."""

    def link(match):
        target = on_the_site(match[2], folder, page, gallery=gallery)
        if target.endswith(".html"):  # a page that goes to the site as it is, and is no document of Sphinx
            return f'<a href="{target}">{match[1]}</a>'
        return f"[{match[1]}]({target}{match[3] or ''})"

    pieces = FENCE.split(text)
    for i in range(0, len(pieces), 2):  # what is between the code blocks
        pieces[i] = LINK.sub(link, pieces[i])
    return "".join(pieces)


def with_entries(text: str, docs: Path, *, gallery: bool) -> str:
    """The front page with the entries of the bar that other tools write: gallery, reference and playground."""
    entries = ["Examples <gallery>"] * gallery + ["Reference <api/index>"]
    entries += ["Playground <playground/README>"] * (docs / "playground" / "README.md").exists()
    return text.replace(BEFORE, "".join(f"{entry}\n" for entry in entries) + BEFORE)


def read(app, docname, source):
    docs, gallery = Path(app.srcdir), "sphinx_gallery.gen_gallery" in app.extensions
    if docname in FILES:
        text = (docs.parent / FILES[docname]).read_text(encoding="utf-8")
        source[0] = with_links(text, posixpath.dirname(FILES[docname]), docname, gallery=gallery)
    elif app.env.doc2path(docname).suffix == ".md":
        source[0] = with_links(source[0], posixpath.dirname(f"docs/{docname}"), docname, gallery=gallery)
    if docname == "gallery":
        source[0] += "\n\n```{toctree}\n:hidden:\n\ngallery/index\n```\n"
    if docname == "index":
        source[0] = with_entries(source[0], docs, gallery=gallery)


def setup(app):
    app.connect("source-read", read)
    return {"parallel_read_safe": True}

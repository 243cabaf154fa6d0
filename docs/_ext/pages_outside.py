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
LINK = re.compile(r"\]\(([^)\s:#]+)(#[^)\s]*)?\)")
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
    pieces = FENCE.split(text)
    for i in range(0, len(pieces), 2):  # what is between the code blocks
        pieces[i] = LINK.sub(lambda m: f"]({on_the_site(m[1], folder, page, gallery=gallery)}{m[2] or ''})", pieces[i])
    return "".join(pieces)


def with_entries(text: str, docs: Path, *, gallery: bool) -> str:
    """The front page with what is not written in docs/: the gallery and the reference in the bar, and the playground."""
    entries = ["Examples <gallery/index>"] * gallery + ["Reference <api/index>"]
    text = text.replace(BEFORE, "".join(f"{entry}\n" for entry in entries) + BEFORE)
    if (docs / "playground" / "index.html").exists():
        text += '\n<p><a href="playground/index.html">The kernel playground</a>: move points, see kernels at work.</p>\n'
    return text


def read(app, docname, source):
    docs, gallery = Path(app.srcdir), "sphinx_gallery.gen_gallery" in app.extensions
    if docname in FILES:
        text = (docs.parent / FILES[docname]).read_text(encoding="utf-8")
        source[0] = with_links(text, posixpath.dirname(FILES[docname]), docname, gallery=gallery)
    elif app.env.doc2path(docname).suffix == ".md":
        source[0] = with_links(source[0], posixpath.dirname(f"docs/{docname}"), docname, gallery=gallery)
    if docname == "index":
        source[0] = with_entries(source[0], docs, gallery=gallery)


def setup(app):
    app.connect("source-read", read)
    return {"parallel_read_safe": True}

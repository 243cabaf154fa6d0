"""The site: `make docs` builds it from docs/*.md, the docstrings and the examples, without a network."""

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "_ext"), str(ROOT / "src")]

from mercer._version import __version__  # noqa: E402

project, author, release = "mercer", "The mercer developers", __version__
html_title = "mercer"
copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "pages_outside",
    "house",
    "reference",
]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_ext"]
default_role = "code"
smartquotes = False  # messages and code in text stay as they are
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings hold functions

# Markdown: headings are targets, as where the pages are read raw.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# The reference: members in the order of the source, and docstrings only where they were written.
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # the types of parameters are in their descriptions
toc_object_entries_show_parents = "hide"

# Nothing is fetched: formulas are drawn by a file of our own.
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}

html_context = {"default_mode": "auto"}
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
html_show_search_summary = False  # a page that is opened from a file may not fetch others
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "mercer"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "show_nav_level": 1,
    "navigation_depth": 3,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# The gallery: every example is run, its pictures are shown. Its front page is docs/gallery.md.
if (HERE / "gallery.md").exists():
    os.environ.setdefault("MERCER_PICTURES", "../out/pictures")  # seen from examples/, where they run
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": "../examples",
        "gallery_dirs": "gallery",
        "filename_pattern": r"/plot_",
        "ignore_pattern": r"^demo\.py$",
        "within_subsection_order": "ExampleTitleSortKey",
        "backreferences_dir": "gallery/backreferences",
        "doc_module": ("mercer",),
        "download_all_examples": False,
        "write_computation_times": False,
        "show_memory": False,
        "remove_config_comments": True,
    }


def copy_playground(app, exception):
    """The playground is a page of its own and goes to the site as it is."""
    if exception is None and (HERE / "playground").exists():
        shutil.copytree(HERE / "playground", Path(app.outdir) / "playground", dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("*.md"))  # fmt: skip


def setup(app):
    app.connect("build-finished", copy_playground)

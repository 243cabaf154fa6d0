"""The built site, page by page and in a browser: run by `make docs` after the build."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from browser import browser  # noqa: F401

ROOT = Path(__file__).parents[1]
SITE = ROOT / "out" / "site"
SAMPLE = ["index", "validity", "from-scikit-learn", "bad-input", "performance", "api/index", "api/estimator-KernelRidge",
          "api/kernels-of-a-distance", "search", "gallery/index", "gallery/plot_xor"]  # fmt: skip
WITH_FORMULAS = ["api/estimator-KernelRidge", "api/kernels-of-a-distance"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make docs"),
]


class Page(HTMLParser):
    """What a page asks for, and the places in it that links may lead to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag in ("script", "img", "iframe", "source") and values.get("src"):
            self.loaded.append(values["src"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "prefetch"):
            self.loaded.append(values["href"])


@pytest.fixture(scope="module")
def pages():
    others = SITE / "_static", SITE / "playground" / "index.html"  # the theme's own, and a page that has its own tests
    paths = [path for path in sorted(SITE.rglob("*.html")) if not any(path.is_relative_to(other) for other in others)]
    return {path: Page(path) for path in paths}


def is_outside(target):
    return re.match(r"[a-z]+:|//", target) is not None


def test_every_page_is_there(pages):
    sources = {p.relative_to(ROOT / "docs").with_suffix("").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert sources <= {path.relative_to(SITE).with_suffix("").as_posix() for path in pages}


def test_links_lead_to_pages_and_places(pages):
    lost = []
    for path, page in pages.items():
        for link in {link for link in page.links if not is_outside(link)}:
            target, _, anchor = link.partition("#")
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            known = pages.get(file)
            if not file.exists() or (anchor and known and unquote(anchor) not in known.anchors):
                lost.append(f"{path.relative_to(SITE)}: {link}")
    assert not lost, "\n".join(lost[:20])


def test_nothing_is_loaded_from_elsewhere(pages):
    assert [(path.name, src) for path, page in pages.items() for src in page.loaded if is_outside(src)] == []
    missing = {
        (path.name, src)
        for path, page in pages.items()
        for src in page.loaded
        if not (path.parent / unquote(src.partition("?")[0])).exists()
    }
    assert not missing


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", SAMPLE)
def test_pages_in_a_browser(browser, name, width, dark):  # noqa: F811
    path = SITE / f"{name}.html"
    if name.startswith("gallery/") and not path.exists():
        pytest.skip("this build has no gallery")
    browser.dark(dark)
    browser.open(path, width=width)
    browser.wait("document.readyState == 'complete'")
    if name in WITH_FORMULAS:
        browser.wait("document.querySelectorAll('mjx-container svg').length > 0")
    assert browser.errors() == []
    assert browser.requests() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    light = browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert light != dark


def test_search_finds_a_page(browser):  # noqa: F811
    browser.open(SITE / "search.html")
    browser.run("location.search = '?q=tricube'")
    browser.wait("document.querySelectorAll('#search-results li a').length > 0")
    assert browser.errors() == []

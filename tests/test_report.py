"""The report: its numbers are those that were computed, no text of a user is markup, and a browser shows it without a request."""

import base64
import re
import struct
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import metrics
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from browser import browser  # noqa: F401
from mercer import (
    SVC,
    GaussianProcessRegressor,
    KernelLogistic,
    KernelMachineRegressor,
    KernelRidge,
    KernelRidgeCV,
    MKLRegressor,
)
from mercer.errors import NumericalWarning
from mercer.kernels import RBF, Laplacian, Linear, Spectrum, Window
from mercer.registry import KERNELS
from mercer.report import Study, report_html, study_of, write_report
from mercer.report.figures import number, with_interval
from mercer.report.formula import formula, mathml
from mercer.report.html import cut, el, render, visible
from mercer.report.intervals import scores, wilson
from mercer.report.making import _columns, _told
from mercer.report.rows import COEFFICIENT, LEFT_OUT, gram_part, influence
from mercer.report.style import DARK, LIGHT, SHADE
from mercer.report.svg import Axis, Plot, picture, png, rows_axis

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "\u202egnp.exe\u2066\u200b",
    "]]></svg></style></title><script>",
    "a\0b\r\n\t\x1b[31m\ud800",
    "&lt;b&gt; &amp; &#60;",
    "x" * 10**6,
]


# ---------------------------------------------------------------------------------------------- studies
def rows(n=60, d=3, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * np.random.default_rng(seed + 1).standard_normal(n)


def regression(**changes):
    X, y = rows()
    model = KernelRidge(0.1, kernel=RBF([1.0, 2.0, np.inf])).fit(X[:40], y[:40])
    return study_of(model, X[:40], y[:40], X[40:], y[40:], **{"title": "A line", "names": ["u", "v", "w"], **changes})


def classification(kinds=2, model=None, **changes):
    X, t = rows(90)
    y = np.array(["no", "yes", "other"])[np.digitize(t, np.quantile(t, np.linspace(0, 1, kinds + 1)[1:-1]))]
    model = (model or KernelLogistic(kernel=RBF(1.0))).fit(X[:60], y[:60])
    return study_of(model, X[:60], y[:60], X[60:], y[60:], title="Classes", **changes)


@pytest.fixture(scope="module")
def line():
    return regression(
        timings={"fit": 2.5}, candidates=[{"kernel": "RBF()", "error": 0.25}, {"kernel": "Linear()", "C": 3}]
    )


class Page(HTMLParser):
    """Elements of a page: tags with attributes, text by tag, and what is not closed."""

    VOID = {"meta", "br"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.open, self.wrong = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if len(dict(attrs)) < len(attrs):
            self.wrong.append((tag, "an attribute twice"))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((tag, "closes nothing"))

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, tag):
        return [data for where, data in self.texts if where == tag]


def check_harmless(text):
    page = Page(text)
    assert page.wrong == []
    assert page.open == []
    known = set("""html head meta title style body header h1 p b ul li span br nav a main section h2 h3 div figure svg desc text
                   path rect image figcaption table thead tbody tr th td pre code details summary dl dt dd footer math mrow mi mo
                   mn msup msub msubsup munder munderover mover mfrac msqrt mspace mtext""".split())  # fmt: skip
    assert {tag for tag, _ in page.tags} <= known
    for tag, attributes in page.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("src", "style", "action", "formaction")
        ]
        if "href" in attributes:
            inside = (
                attributes["href"].startswith("#")
                if tag == "a"
                else attributes["href"].startswith("data:image/png;base64,")
            )
            assert inside, attributes["href"][:60]
    policy = [a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policy) == 1
    assert policy[0].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert page.tags[3][1].get("http-equiv")  # before anything that it governs
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\0\x1b]", text)
    assert len(text) < 1_000_000
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(set(ids)) == len(ids)
    return page


# ---------------------------------------------------------------------------------------------- elements
def test_text_is_never_markup():
    node = el("p", {"title": '"><img onerror=1>'}, "<script>alert('1')</script>", ["a & b", None, [el("b", {}, 3)]])
    assert render(node) == (
        "<p title=\"&quot;&gt;&lt;img onerror=1&gt;\">&lt;script&gt;alert('1')&lt;/script&gt;a &amp; b<b>3</b></p>"
    )
    assert render(el("br")) == "<br>"
    assert render(el("p", {"class": None})) == "<p></p>"


@pytest.mark.parametrize(
    "tag", ["script", "SCRIPT", "iframe", "object", "link", "base", "form", "p onclick", "a b", "", "x>"]
)
def test_tags_that_have_no_place(tag):
    with pytest.raises(ValueError, match="has no place in a page"):
        el(tag)


@pytest.mark.parametrize("attributes", [{"onclick": "1"}, {"OnLoad": "1"}, {"a b": "1"}, {'x"': "1"}, {"": ""}])
def test_attributes_that_have_no_place(attributes):
    with pytest.raises(ValueError, match="has no place in a page"):
        el("p", attributes)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "http://a", "//a", "data:text/html,x", "data:image/svg+xml;base64,x", " #a"]
)
@pytest.mark.parametrize("name", ["href", "src", "HREF"])
def test_addresses_that_lead_out(name, address):
    with pytest.raises(ValueError, match="leads out of the page"):
        el("a", {name: address})


@pytest.mark.parametrize("rules", ["</style>", "p{background:url(x)}", "@import 'x'"])
def test_style_sheets_hold_no_address(rules):
    with pytest.raises(ValueError, match="style sheet"):
        render(el("style", {}, rules))


def test_hidden_characters_are_shown_and_names_are_cut():
    assert visible("ä β \u202e\n\ud800\u2028") == "ä β \\u202e\\n\\ud800\\u2028"
    assert cut("short") == "short"
    assert cut(7) == "7"
    long = cut("abcdefgh" * 10, 10)
    assert render(long) == f'<span title="{"abcdefgh" * 10}">abcdefgha…</span>'
    assert len(render(cut("y" * 10**6))) < 600
    assert "(1000000 characters)" in render(cut("y" * 10**6))
    assert len(render(cut("\u202e" * 39))) < 400  # escapes are longer than what they stand for


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_of_a_user_becomes_markup(text):
    X = np.array([text[:2000], "abab", "baba", "bbbb"] * 6, dtype=object)
    y = np.array([0, 1] * 12)
    model = SVC(kernel=Spectrum(2)).fit(X, y)
    score = (0.5, 0.25, 0.75)
    study = Study(
        title=text, task="classification", columns=[{"name": text, "kind": text, "missing": 0, "levels": text}], target=text,
        kernel=text, certificate=text, plan=f"{text}\n{text}", timings={text: 1.0},
        candidates=[{text: text, "b": text}], scores={text: score}, baselines={text: {text: score}}, y_test=y[:8],
        predicted=1 - y[:8], probability=np.full((8, 2), 0.5), classes=[text, text + "2"], model=model, X_train=X, y_train=y,
        X_test=X[:8], names=[text], approximations=[text] * 100, seed=text, versions={text: text},
    )  # fmt: skip
    page = check_harmless(report_html(study))
    shown = visible(text)[:20]
    assert any(shown in data for data in page.text("h1") + page.text("span"))
    assert any(shown in data for data in page.text("title"))
    check_harmless(report_html(replace(study, classes=[text] * 2, probability=None, columns=study.columns * 300)))


def test_kernels_hold_names_of_columns():
    pd = pytest.importorskip("pandas")
    X, y = rows(20)
    frame = pd.DataFrame(X, columns=["<b>x</b>", "\u202ey", "z"])
    model = KernelRidge(kernel=RBF(1.0).on("<b>x</b>") + Linear().on("\u202ey")).fit(frame, y)
    page = check_harmless(report_html(study_of(model, frame, y, frame, y, baselines=False)))
    assert any("<b>x</b>" in data for data in page.text("code"))
    assert any("\\u202ey" in data for data in page.text("th"))


# ---------------------------------------------------------------------------------------------- numbers
def cell_rows(page_text, caption):
    """Texts of the cells of the table that is announced by a caption."""
    part = page_text[page_text.index(f'<table aria-label="{caption}') :]
    part = part[: part.index("</table>")]
    lines = part.split("<tr")[1:]
    return [[re.sub("<[^>]*>", "", c) for c in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)] for line in lines]


def test_scores_on_the_page_are_the_scores(line):
    text = report_html(line)
    head, *found = cell_rows(text, "Values on the test rows")
    assert head == ["", "root mean squared error", "mean absolute error", "R²"]
    assert [row[0] for row in found] == ["this model", "mean", "linear ridge"]
    for row, given in zip(found, [line.scores, *line.baselines.values()], strict=True):
        for cell, score in zip(row[1:], given.values(), strict=True):
            numbers = [float(part) for part in re.findall(r"-?[0-9.]+", cell)]
            np.testing.assert_allclose(numbers, score, atol=0.06 * (score[2] - score[1]))
    assert with_interval((4.6661, 4.049, 5.289)) == ("4.7", "(4.0 to 5.3)")
    assert with_interval((0.9123, 0.90, 0.92)) == ("0.912", "(0.900 to 0.920)")
    assert with_interval((-0.007, -0.05, -0.0001)) == ("-0.007", "(-0.050 to 0.000)")
    assert with_interval((0.5, 0.5, 0.5)) == ("0.5", "(0.5 to 0.5)")
    assert with_interval((np.nan, np.nan, np.nan)) == ("–", "(– to –)")
    big = text[text.index('class="answer"') : text.index("</header>")]
    assert re.findall("<b>(.*?)</b>", big) == [with_interval(s)[0] for s in line.scores.values()]


def test_what_is_told_of_the_data(line):
    text = report_html(line)
    found = cell_rows(text, "3 columns")
    X = line.X_train
    assert found[1] == ["u", "numeric", "0", "40", number(X[:, 0].min()), number(X[:, 0].max())]
    assert "A regression of <b>target</b> by KernelRidge: 40 rows to learn from, 20 to test on." in text
    tried = cell_rows(text, "What was tried")
    assert tried == [["kernel", "error", "C"], ["RBF()", "0.25", "–"], ["Linear()", "–", "3"]]
    assert "Seconds: fit 2.5 s, test " in text
    assert "None: all training rows took part" in text
    assert "Lengthscales: u 1, v 2, w off." in text
    assert "the Fourier transform of a Gaussian is positive everywhere" in text
    assert "40 stored vectors" in text
    many = report_html(replace(line, columns=[{"name": f"c{i}"} for i in range(300)]))
    assert "All 300 columns, the first 200" in many
    assert len(cell_rows(many, "300 columns, the first 200")) == 201


def described(text, key):
    return re.search(rf'<desc id="{key}-desc">(.*?)</desc>', text)[1]


def test_residuals_are_told(line):
    text, r = report_html(line), line.y_test - line.predicted
    said = described(text, "residuals")
    assert said == (f"Residuals of 20 test rows lie between {number(r.min())} and {number(r.max())}; "
                    f"mean {number(r.mean(), 3)}, standard deviation {number(r.std(), 3)}.")  # fmt: skip
    low, high = np.quantile(r, [0.05, 0.95])
    assert f"between {number(low, 3)} and {number(high, 3)}" in described(text, "residual-histogram")
    assert f"correlation is {number(np.corrcoef(line.y_test, line.predicted)[0, 1], 3)}" in described(text, "fitted")


def figure(text, key):
    part = text[text.index(f'<figure id="{key}">') :]
    return part[: part.index("</figure>")]


def test_counts_of_classes():
    study = classification(3)
    text = report_html(study)
    counts = re.findall(r'<text [^>]*class="count mid">(\d+)</text>', figure(text, "confusion"))
    expected = metrics.confusion_matrix(study.y_test, study.predicted)
    np.testing.assert_array_equal(np.array(counts, int).reshape(3, 3), expected)
    shades = np.array(re.findall(r'fill-opacity="([0-9.]+)"', figure(text, "confusion")), float).reshape(3, 3)
    np.testing.assert_allclose(shades, SHADE * expected / expected.sum(axis=1, keepdims=True), atol=6e-4)
    assert f"{(study.y_test == study.predicted).sum()} of 30 are right" in described(text, "confusion")
    assert "probability of the likeliest class" in text
    bars = np.bincount(study.y_train)
    assert described(text, "target") == "Training rows: " + ", ".join(
        f"{study.classes[c]} {bars[c]}" for c in np.argsort(-bars, kind="stable")) + "."  # fmt: skip
    many = 25
    y = np.repeat(np.arange(many), np.arange(1, many + 1))
    wide = replace(study, classes=[f"c{i}" for i in range(many)], y_test=y, predicted=y, probability=None)
    wide = report_html(wide)
    assert "the 20 most frequent of 25 classes" in described(wide, "confusion")
    assert re.findall(r'class="name end"[^>]*>(c\d+)<', figure(wide, "confusion")) == [f"c{i}" for i in range(5, 25)]


def test_probabilities_are_compared_with_what_came():
    study = classification(2)
    said = described(report_html(study), "calibration")
    p, came = study.probability[:, 1], study.y_test == 1
    found = re.findall(r"([0-9.]+) came true ([0-9.]+) \((\d+) rows\)", said)
    expected = []
    for tenth in range(10):
        mine = (p >= tenth / 10) & ((p < (tenth + 1) / 10) | (tenth == 9))
        if mine.any():
            expected.append((f"{p[mine].mean():.2f}", f"{came[mine].mean():.2f}", str(mine.sum())))
    assert found == expected
    assert "probability of yes" in report_html(study)
    without = report_html(classification(2, SVC(kernel=RBF(1.0))))
    assert 'id="calibration"' not in without
    assert "duality gap" in without


def test_the_gram_is_sorted_by_target_and_told():
    X, y = rows(260)
    model = KernelRidge(0.1, kernel=RBF(1.0)).fit(X, y)
    study = study_of(model, X, y, X[:20], y[:20], baselines=False)
    part = gram_part(study)
    order = np.argsort(y, kind="stable")[np.linspace(0, 259, 200).astype(int)]
    np.testing.assert_allclose(part.K, RBF(1.0)(X[order]))
    np.testing.assert_allclose(part.values, np.linalg.eigvalsh(part.K)[::-1], atol=1e-10)
    text = report_html(study)
    assert "200 of 260 training rows, sorted by target" in described(text, "gram")
    image = re.search(r'href="data:image/png;base64,([^"]+)"', text)[1]
    levels = decoded(base64.b64decode(image))
    scaled = (part.K - part.K.min()) / (part.K.max() - part.K.min())
    np.testing.assert_allclose(levels, 254 * scaled, atol=0.51)
    total = np.cumsum(part.values)
    most = int((total < 0.95 * total[-1]).sum()) + 1
    assert f"{most} of 200 hold 95 % of the sum" in described(text, "spectrum")
    assert "effective dimension" not in text  # of a part of the rows it would be another number
    assert "rounding" in described(report_html(regression_of_equal_rows()), "spectrum")


def regression_of_equal_rows():
    X, y = rows(20)
    X, y = np.vstack([X, X]), np.concatenate([y, y + 0.5])
    return study_of(KernelRidge(0.1, kernel=RBF(1.0)).fit(X, y), X, y, X, y, baselines=False)


def test_the_effective_dimension_is_that_of_the_ridge(line):
    dimension = line.model.degrees_of_freedom()
    assert f"effective dimension {number(dimension, 3)} at the penalty 0.1" in described(report_html(line), "spectrum")


def test_indefinite_kernels_are_told():
    X, y = rows(40)
    with pytest.warns(NumericalWarning, match="repair"):
        model = KernelRidge(20.0, kernel=Window(1.0), indefinite="clip").fit(X, y)
    text = report_html(study_of(model, X, y, X, y, baselines=False))
    below = int((np.linalg.eigvalsh(Window(1.0)(X)) < -1e-10).sum())
    assert f"{below} are below zero (their size, in orange): the kernel is indefinite" in described(text, "spectrum")
    assert 'class="other dots"' in figure(text, "spectrum")
    assert "was repaired" in text


def decoded(data):
    """Levels of an image of 8 bits with a palette, whose lines are not filtered."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, parts = 8, {}
    while place < len(data):
        size, kind = struct.unpack(">I4s", data[place : place + 8])
        parts[kind] = data[place + 8 : place + 8 + size]
        assert struct.unpack(">I", data[place + 8 + size : place + 12 + size])[0] == zlib.crc32(kind + parts[kind])
        place += 12 + size
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert (depth, colour, len(parts[b"PLTE"])) == (8, 3, 768)
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert (lines[:, 0] == 0).all()
    return lines[:, 1:]


def test_images():
    np.testing.assert_array_equal(
        decoded(png([[0.0, 1.0, 0.5], [np.nan, 2.0, -1.0]], 0.0, 1.0)), [[0, 254, 127], [255, 254, 0]]
    )
    np.testing.assert_array_equal(decoded(png([[3.0]], 3.0, 3.0)), [[0]])


# ---------------------------------------------------------------------------------------------- influential rows
def test_influence_is_what_leaving_a_row_out_does(line):
    found = influence(line)
    assert found.how == LEFT_OUT
    X, y, f = line.X_train, line.y_train, line.model.predict(line.X_train)
    moved = []
    for i in range(40):
        rest = np.delete(np.arange(40), i)
        moved.append(f[i] - clone(line.model).fit(X[rest], y[rest]).predict(X[[i]])[0])
    order = np.argsort(-np.abs(moved))[:10]
    np.testing.assert_array_equal(found.index, order)
    np.testing.assert_allclose(found.sizes, np.abs(moved)[order])
    np.testing.assert_allclose(found.residuals, y[order] - f[order] + np.array(moved)[order])
    _, first, *_ = cell_rows(report_html(line), "The 10 most influential")
    i = order[0]
    assert first == [
        str(i),
        number(found.sizes[0]),
        number(y[i]),
        number(found.residuals[0]),
        *(number(v) for v in X[i]),
    ]


def test_equal_rows_are_found_again():
    X, y = rows(30)
    X, y = X[[0, 1, 0, *range(2, 30), 5]], y[[0, 1, 0, *range(2, 30), 5]]  # row 0 and row 5 twice, equal in X and y
    y[-1] += 3.0  # equal in X alone
    model = KernelRidgeCV([0.1], kernel=RBF(1.0)).fit(X, y)
    study = study_of(model, X, y, X, y, baselines=False)
    found = influence(study)
    assert len(model.X_fit_) == 31
    assert found.how == LEFT_OUT
    assert 31 in found.index
    keep = np.delete(np.arange(32), 31)
    moved = model.predict(X[[31]])[0] - KernelRidgeCV([0.1], kernel=RBF(1.0)).fit(X[keep], y[keep]).predict(X[[31]])[0]
    np.testing.assert_allclose(found.sizes[list(found.index).index(31)], abs(moved))
    assert "left-out residual" in report_html(study)


def test_rows_in_an_order_of_their_own():
    X, y = rows(30)
    model = GaussianProcessRegressor(RBF(1.0), alpha=0.1, optimizer=None).fit(X, y)
    found = influence(study_of(model, X, y, X, y, baselines=False))
    f = model.predict(X)
    moved = [f[i] - clone(model).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]])[0] for i in range(30)]
    np.testing.assert_array_equal(found.index, np.argsort(-np.abs(moved))[:10])
    np.testing.assert_allclose(found.sizes, np.sort(np.abs(moved))[::-1][:10])


def test_coefficients_of_machines_without_closed_form():
    study = classification(2, SVC(kernel=RBF(1.0), C=5.0))
    found, model = influence(study), study.model
    assert found.how == COEFFICIENT
    sizes = np.abs(model.dual_coef_[0])
    order = np.argsort(-sizes, kind="stable")[:10]
    np.testing.assert_allclose(np.sort(found.sizes), np.sort(sizes[order]))
    by_row = dict(zip(model.support_.tolist(), sizes, strict=True))
    np.testing.assert_allclose([by_row[i] for i in found.index], found.sizes)
    logistic = classification(3)
    found, model = influence(logistic), logistic.model
    i = found.index[0]
    at = [np.array_equal(x, logistic.X_train[i]) for x in model.X_fit_].index(True)
    np.testing.assert_allclose(found.sizes[0], np.linalg.norm(model.expansion_.coefficients[at]))
    assert found.sizes[0] == np.linalg.norm(model.expansion_.coefficients, axis=1).max()


def test_models_that_are_no_sums_over_training_rows():
    X, y = rows(40)
    forest = study_of(RandomForestRegressor(5, random_state=0).fit(X, y), X, y, X, y)
    assert influence(forest) is None
    assert gram_part(forest) is None
    text = report_html(forest)
    check_harmless(text)
    assert "no row can be singled out" in text
    assert "no kernel object" in text
    centres = KernelMachineRegressor(kernel=RBF(1.0), n_centers=5, random_state=0).fit(X, y)
    assert influence(study_of(centres, X, y, X, y, baselines=False)) is None
    shared = KernelMachineRegressor(
        kernel=RBF(1.0), normalised=True, centers="random", n_centers=5, random_state=0
    ).fit(X, y)
    assert influence(study_of(shared, X, y, X, y, baselines=False)) is None  # no sum over kernels


def test_sums_of_kernels_keep_their_rows_elsewhere():
    X, y = rows(30)
    model = MKLRegressor([RBF(1.0), Linear()], cv=2).fit(X, y)
    study = study_of(model, X, y, X, y, baselines=False)
    found = influence(study)
    place = [np.array_equal(x, X[found.index[0]]) for x in model.expansion_.centres].index(True)
    np.testing.assert_allclose(found.sizes[0], np.abs(model.expansion_.coefficients[place, 0]))
    assert found.sizes[0] == np.abs(model.expansion_.coefficients).max()
    check_harmless(report_html(study))


def test_sparse_columns_are_summed_up_together():
    X = np.array([[0.0, -1.0, 0.0], [2.0, np.nan, 0.0], [3.0, -4.0, 0.0]])
    found = _columns(sp.csr_array(X), ["a", "b", "c"])
    known = {"kind": "numeric", "levels": None}
    assert found[0] == {"name": "a", "missing": 0, "low": 0.0, "high": 3.0, **known}
    assert (found[1]["missing"], found[2]["missing"]) == (1, 0)
    assert (found[2]["low"], found[2]["high"]) == (0.0, 0.0)


def test_many_rows_are_not_left_out(monkeypatch):
    study = regression()
    monkeypatch.setattr("mercer.report.rows._FACTORED", 30)
    found = influence(study)
    assert found.how == COEFFICIENT
    np.testing.assert_allclose(found.sizes, np.sort(np.abs(study.model.dual_coef_))[::-1][:10])


# ---------------------------------------------------------------------------------------------- any rows, any model
def test_pipelines_sparse_rows_given_grams_and_strings():
    X, y = rows(40)
    pipe = make_pipeline(StandardScaler(), KernelRidge(0.1, kernel=RBF(1.0))).fit(X, y)
    study = study_of(pipe, X, y, X, y)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(gram_part(study).K, RBF(1.0)(scaled[gram_part(study).order]))
    whole = KernelRidge(0.1, kernel=RBF(1.0)).fit(scaled, y)
    same = influence(study_of(whole, scaled, y, scaled, y))
    np.testing.assert_array_equal(influence(study).index, same.index)
    K = RBF(1.0)(X)
    given = study_of(KernelRidge(0.1, kernel="precomputed").fit(K, y), K, y, K, y, baselines=False)
    np.testing.assert_allclose(gram_part(given).K, K[np.ix_(gram_part(given).order, gram_part(given).order)])
    assert influence(given).how == LEFT_OUT
    strings = np.array(["abab", "baba", "aabb", "bbaa"] * 5, dtype=object)
    words = study_of(SVC(kernel=Spectrum(2)).fit(strings, [0, 1] * 10), strings, [0, 1] * 10, strings, [0, 1] * 10)
    assert words.columns == [{"name": "column 0", "kind": "text", "missing": 0, "levels": 4, "low": None, "high": None}]
    sparse = sp.csr_array(np.round(np.abs(X)))
    counts = study_of(KernelRidge(0.1, kernel=Linear()).fit(sparse, y), sparse, y, sparse, y)
    for each in (study, given, words, counts):
        check_harmless(report_html(each))


def test_columns_of_tables():
    pd = pytest.importorskip("pandas")
    X, y = rows(30, 2)
    frame = pd.DataFrame({"size": X[:, 0], "age": np.where(np.arange(30) < 2, np.nan, 1.0)})
    model = KernelRidge(0.1, kernel=RBF(1.0).on("size")).fit(frame.fillna(0.0), y)
    study = study_of(model, frame.fillna(0.0), y, frame.fillna(0.0), y)
    assert study.names == ["size", "age"]
    assert "linear ridge" in study.baselines
    check_harmless(report_html(study))
    columns = replace(study, X_train=frame).columns
    assert columns[1]["levels"] == 2
    assert _columns(frame, ["size", "age"])[1] == {
        "name": "age",
        "kind": "numeric",
        "missing": 2,
        "levels": 1,
        "low": 1.0,
        "high": 1.0,
    }


def test_one_constant_class_and_few_rows():
    X, y = rows(12)
    for model in (KernelRidge(0.1, kernel=RBF(1.0)), GaussianProcessRegressor(RBF(1.0), optimizer=None)):
        flat = study_of(model.fit(X, np.zeros(12)), X, np.zeros(12), X[:2], np.zeros(2))
        assert list(flat.scores) == ["rmse", "mae"]
        check_harmless(report_html(flat))
    up = np.flatnonzero(y > 0)[:1]
    one = study_of(SVC(kernel=RBF(1.0)).fit(X, y > 0), X, y > 0, X[up], y[up] > 0)
    assert one.y_test.tolist() == [1]  # the code of a class, also where the others are missing
    check_harmless(report_html(one))


# ---------------------------------------------------------------------------------------------- studies of fitted models
def test_scores_against_scikit_learn():
    study = classification(3)
    y, f = study.y_test, study.predicted
    np.testing.assert_allclose(study.scores["accuracy"][0], metrics.accuracy_score(y, f))
    np.testing.assert_allclose(study.scores["balanced_accuracy"][0], metrics.balanced_accuracy_score(y, f))
    np.testing.assert_allclose(study.scores["log_loss"][0], metrics.log_loss(y, study.probability))
    np.testing.assert_array_equal(np.array(study.classes)[f], study.model.predict(study.X_test))
    assert set(study.baselines) == {"largest class", "linear logistic"}
    assert study.baselines["largest class"]["accuracy"][0] == np.mean(y == np.bincount(study.y_train).argmax())
    prior = np.bincount(study.y_train) / 60
    np.testing.assert_allclose(study.baselines["largest class"]["log_loss"][0], -np.log(prior[y]).mean())
    line = regression()
    np.testing.assert_allclose(line.scores["rmse"][0], metrics.root_mean_squared_error(line.y_test, line.predicted))
    np.testing.assert_allclose(line.scores["mae"][0], metrics.mean_absolute_error(line.y_test, line.predicted))
    np.testing.assert_allclose(line.scores["r2"][0], metrics.r2_score(line.y_test, line.predicted))
    np.testing.assert_allclose(
        line.baselines["mean"]["rmse"][0], np.sqrt(np.mean((line.y_test - line.y_train.mean()) ** 2))
    )


def test_intervals():
    share, low, high = wilson(8, 10)
    for end in (low, high):  # where the share is just as far from the end as the normal distribution allows
        np.testing.assert_allclose(abs(share - end), 1.959963984540054 * np.sqrt(end * (1 - end) / 10))
    assert wilson(0, 5)[1] == 0.0
    assert wilson(5, 5)[2] == 1.0
    rng = np.random.default_rng(0)
    y = rng.standard_normal(400)
    value, low, high = scores("regression", y, np.zeros(400))["mae"]
    half = 1.96 * np.abs(y).std() / 20
    np.testing.assert_allclose([low, high], [value - half, value + half], atol=0.25 * half)
    assert scores("regression", y, 0 * y, seed=1)["mae"] != scores("regression", y, 0 * y, seed=2)["mae"]
    assert scores("regression", y, 0 * y, seed=1) == scores("regression", y, 0 * y, seed=1)


def test_what_models_say_of_their_approximations():
    X, y = rows(60)
    few = KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=10, random_state=0).fit(X, y)
    study = study_of(few, X, y, X, y)
    assert study.approximations == [
        f"10 landmarks stand for all 60 rows; they leave {few.landmark_error_:.3g} of the trace of the Gram matrix unexplained"
    ]
    assert study.approximations[0] in report_html(study)
    assert influence(study).how == COEFFICIENT
    assert set(influence(study).index) <= set(few.landmarks_)
    machine = SimpleNamespace(X_fit_=X[:8], solver_used_="sparse")
    assert _told(machine, 60) == ["8 inducing rows stand for all 60 rows, by a lower bound of the evidence"]
    machine = SimpleNamespace(X_fit_=X, solver_used_="cg", converged_=False, repair_="clip")
    assert [note.split(",")[0] for note in _told(machine, 60)] == [
        "the linear system was solved by conjugate gradients",
        "the solver stopped before it reached its tolerance",
        "the Gram matrix is not positive semi-definite and was repaired: clip",
    ]
    assert study_of(few, X, y, X, y, approximations=["mine"], baselines=False).approximations == ["mine"]
    assert _told(KernelLogistic(kernel=RBF(1.0)).fit(X, y > 0), 60) == []


def test_own_baselines_and_words():
    X, y = rows(40)
    model = KernelRidge(0.1, kernel=RBF(1.0)).fit(X, y)
    study = study_of(model, X, y, X, y, baselines={"flat": KernelRidge(1e9).fit(X, y)}, target="load")
    np.testing.assert_allclose(study.baselines["flat"]["rmse"][0], np.sqrt(np.mean(y**2)), rtol=1e-6)
    assert study.title == "KernelRidge of load"
    assert study_of(model, X, y, X, y, baselines=False).baselines == {}
    y = np.where(y > 0, "up", "down")
    svc = SVC(kernel=RBF(1.0)).fit(X, y)
    both = study_of(svc, X, y, X, y, baselines={"same": svc})
    assert both.baselines["same"]["accuracy"] == both.scores["accuracy"]


def test_studies_refuse_what_they_cannot_tell():
    X, y = rows(20)
    model = KernelRidge(0.1, kernel=RBF(1.0)).fit(X, y)
    with pytest.raises(Exception, match="not fitted"):
        study_of(KernelRidge(), X, y, X, y)
    with pytest.raises(TypeError, match="a classifier or a regressor, got KMeans"):
        study_of(KMeans(2, n_init=1).fit(X), X, y, X, y)
    with pytest.raises(ValueError, match=r"y has shape \(20, 2\); a report is of one target"):
        study_of(model, X, np.column_stack([y, y]), X, y)
    with pytest.raises(ValueError, match="names has 2 entries, but X has 3 columns"):
        study_of(model, X, y, X, y, names=["a", "b"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        study_of(model, X, y, X, y[:3])
    svc = SVC(kernel=RBF(1.0)).fit(X, np.where(y > 0, "a", "b"))
    with pytest.raises(ValueError, match="y_test holds 'c', which is none of the classes"):
        study_of(svc, X, np.where(y > 0, "a", "b"), X, ["c"] * 20)


def test_reports_are_written_whole_or_not_at_all(tmp_path, line, monkeypatch):
    path = tmp_path / "out.html"
    assert write_report(path, line) == path
    assert path.read_text(encoding="utf-8") == report_html(line)
    with pytest.raises(FileExistsError, match="force=True to replace it"):
        write_report(path, line)
    write_report(str(path), replace(line, title="Another"), force=True)
    assert "<h1>Another</h1>" in path.read_text(encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="folder of this file does not exist"):
        write_report(tmp_path / "none" / "out.html", line)
    monkeypatch.setattr("mercer.report.page.report_html", lambda study: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(path, line, force=True)
    assert "<h1>Another</h1>" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["out.html"]
    assert str(tmp_path) not in path.read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------- pictures
def test_every_picture_has_a_name_and_a_description(line):
    for study in (line, classification(3)):
        page = check_harmless(report_html(study))
        drawn = [a for tag, a in page.tags if tag == "svg"]
        ids = {a["id"]: tag for tag, a in page.tags if "id" in a}
        assert len(drawn) >= 8
        for a in drawn:
            assert a["role"] == "img"
            assert a["viewbox"]
            assert [ids[name] for name in a["aria-labelledby"].split()] == ["title", "desc"]
        assert page.text("figcaption")
        assert min(len(data) for data in page.text("desc")) > 15


def test_points_are_where_their_numbers_are():
    plot = Plot(Axis(0.0, 10.0, "x"), Axis(1.0, 100.0, "y", log=True), size=(110.0, 120.0), room=(10.0, 0.0, 0.0, 20.0))
    before = len(plot.marks)
    plot.dots([0.0, 5.0, np.nan], [1.0, 10.0, 10.0]).line([0, 10], [1, 100]).bars([0], [5], [1], [100])
    dots, line, bar = plot.marks[before:]
    assert dots.attributes["d"] == "M10 100h0M60 50h0"
    assert line.attributes["d"] == "M10 100L110 0"
    assert bar.attributes == {"class": "bar", "x": "10", "y": "0", "width": "50", "height": "100"}
    plot.rule(x=5.0)
    assert plot.marks[-1].attributes["d"] == "M60 100L60 0"
    many = Plot(Axis(0, 1), Axis(0, 1)).dots(np.linspace(0, 1, 10_000), np.zeros(10_000))
    assert many.marks[-1].attributes["d"].count("M") == 1500
    named = Plot(Axis(0, 1), rows_axis(2), names=["first", "second"])
    heights = [float(m.attributes["y"]) for m in named.marks if m.attributes.get("class") == "name end"]
    assert heights[0] < heights[1]


def test_ticks_are_round_numbers():
    np.testing.assert_allclose(Axis(0.0, 1.0).ticks(), [0, 0.2, 0.4, 0.6, 0.8, 1.0])
    np.testing.assert_allclose(Axis(-3.1, 17.2).ticks(), [0, 5, 10, 15])
    np.testing.assert_allclose(Axis(0.01, 1000.0, log=True).ticks(), 10.0 ** np.arange(-2, 4))
    np.testing.assert_allclose(Axis(1.5, 6.0, log=True).ticks(), [2, 3, 5])
    np.testing.assert_allclose(Axis(1.1, 1.2, log=True).ticks(), [1.1, 1.2])
    for low, high in ((1e-300, 3e-300), (-1e12, 1e12), (5.0, 5.000001), (1e-17, 1e17)):
        ticks = Axis(low, high).ticks()
        assert 2 <= len(ticks) <= 8
        assert (ticks >= low - 1e-9 * (high - low)).all()
        assert (ticks <= high + 1e-9 * (high - low)).all()
    flat = Axis.around([3.0, 3.0, np.nan])
    assert flat.low < 3.0 < flat.high
    assert Axis.around([], log=True).low > 0
    assert Axis.around([-1.0, 0.0, 2.0, 8.0], log=True).low > 0


def test_pictures_of_strange_numbers():
    plot = Plot(Axis.around([np.nan, np.inf]), Axis.around([-np.inf])).dots([np.nan], [1.0]).line([np.inf], [0.0])
    text = render(picture("k", "title", "told", plot))
    assert "nan" not in text
    assert "inf" not in text
    assert number(None) == "–"
    assert number(float("nan")) == "–"
    assert number(np.int64(12345678)) == "12345678"
    assert number(1234567.0) == "1.235e+06"


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def blend(over, under, share):
    return "#" + "".join(
        f"{round(share * int(over[i : i + 2], 16) + (1 - share) * int(under[i : i + 2], 16)):02x}" for i in (1, 3, 5)
    )


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast_is_that_of_wcag_aa(colours):
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    for words in ("ink", "soft", "accent"):
        assert contrast(colours[words], colours["paper"]) >= 4.5
        assert contrast(colours[words], colours["tint"]) >= 4.5
    for mark in ("accent", "second", "soft"):
        assert contrast(colours[mark], colours["paper"]) >= 3.0
    assert contrast(blend(colours["accent"], colours["paper"], 0.7), colours["paper"]) >= 3.0  # dots let 30 % through
    assert contrast(colours["ink"], blend(colours["accent"], colours["paper"], SHADE)) >= 4.5


# ---------------------------------------------------------------------------------------------- formulas
def test_formulas_of_all_kernels_can_be_set():
    set_by_us = 0
    for kind in KERNELS.values():
        text = render(el("div", {}, formula(kind)))
        assert "\\" not in re.sub("<math.*?>", "", text), kind
        set_by_us += text.count("<math")
    assert set_by_us >= 15


def test_a_little_latex():
    plain = lambda source: re.sub(r'<math aria-label="[^"]*"><mrow>|</mrow></math>', "", render(mathml(source)))  # noqa: E731
    assert plain(r"\frac{a}{b}") == "<mfrac><mi>a</mi><mi>b</mi></mfrac>"
    assert plain(r"\tfrac12 x") == "<mfrac><mn>1</mn><mn>2</mn></mfrac><mi>x</mi>"
    assert plain("x_i^2") == "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"
    assert plain("x^2_i") == "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"
    assert (
        plain(r"\sum_{j=1}^n")
        == "<munderover><mo>∑</mo><mrow><mi>j</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover>"
    )
    assert plain(r"\sqrt{1 - r^{-2}}") == (
        "<msqrt><mrow><mn>1</mn><mo>−</mo><msup><mi>r</mi><mrow><mo>−</mo><mn>2</mn></mrow></msup></mrow></msqrt>"
    )
    assert plain("(a)") == '<mo stretchy="false">(</mo><mi>a</mi><mo stretchy="false">)</mo>'
    assert plain(r"\left(a\right)") == "<mo>(</mo><mi>a</mi><mo>)</mo>"
    assert plain("u'") == "<msup><mi>u</mi><mo>′</mo></msup>"

    where, what, why = formula(RBF)
    assert render(where) == "<p>Gaussian (squared exponential) kernel.</p>"
    assert render(what).startswith('<p class="formula"><math aria-label="k(x, y) = ')
    assert render(why).startswith("<p><code>lengthscale</code> gives <math ")
    assert len(formula(KERNELS["ANOVA"])) == 2  # an example comes next

    class Odd(Laplacian):
        r"""A kernel: :math:`\unknown{x}` with <b>`code`</b>."""

    assert (
        render(formula(Odd)[0])
        == "<p>A kernel: <code>\\unknown{x}</code> with &lt;b&gt;<code>code</code>&lt;/b&gt;.</p>"
    )


# ---------------------------------------------------------------------------------------------- in a browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", ["regression", "classification", "hostile"])
def test_a_browser_shows_it_without_a_request(browser, tmp_path, line, kind, width):  # noqa: F811
    study = line if kind == "regression" else classification(3)
    if kind == "hostile":
        title, *names = HOSTILE[1], *HOSTILE[:3]
        study = replace(study, title=title, classes=names, columns=[{"name": HOSTILE[-1], "kind": "numeric"}], target=HOSTILE[5],
                        candidates=[{"kernel": "k" * 300, HOSTILE[0]: 1.5}], versions={HOSTILE[1]: HOSTILE[0]})  # fmt: skip
    path = write_report(tmp_path / "report.html", study)
    browser.open(path, width=width)
    boxes = browser.run("""return [...document.querySelectorAll('svg')].map(s => {
        const b = s.getBoundingClientRect(); return [b.left, b.right, b.width, b.height]})""")
    assert len(boxes) >= 7
    for left, right, wide, high in boxes:
        assert wide >= min(0.6 * width, 250)
        assert high > 50
        assert left >= 0
        assert right <= width
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.scripts.length + document.querySelectorAll('img,link,iframe').length") == 0
    assert browser.run("return document.querySelector('h1').innerText")[:10] == visible(study.title)[:10]
    small = browser.run("""return Math.min(...[...document.querySelectorAll('svg text')].map(t =>
        parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)))""")
    assert small >= 8.5
    browser.wait("document.readyState == 'complete'")
    assert browser.errors() == []
    assert browser.requests() == []


def test_dark_screens_and_paper(browser, tmp_path, line):  # noqa: F811
    browser.open(write_report(tmp_path / "report.html", line))
    colour = "return getComputedStyle(document.body).backgroundColor"
    rgb = lambda colours: "rgb({}, {}, {})".format(*(int(colours["paper"][i : i + 2], 16) for i in (1, 3, 5)))  # noqa: E731
    browser.dark()
    try:
        assert browser.run(colour) == rgb(DARK)
    finally:
        browser.dark(False)
    assert browser.run(colour) == rgb(LIGHT)
    pages = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})
    assert base64.b64decode(pages["data"])[:5] == b"%PDF-"
    shown = browser.run("""const i = document.querySelector('image').getBoundingClientRect();
        return [i.width > 200, Math.abs(i.width - i.height) < 2]""")
    assert shown == [True, True]

"""The kernel playground, driven in a browser: the library's numbers, safe links, mouse, keys, narrow windows."""

import contextlib
import io
import json
import re
import time
import urllib.parse
import warnings
from pathlib import Path

import numpy as np
import pytest

from browser import browser  # noqa: F401
from mercer import (
    SVC,
    GaussianProcessRegressor,
    KernelDensity,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    NadarayaWatson,
)
from mercer.errors import KernelTextError
from mercer.kernels.text import parse_kernel

HERE = Path(__file__).parents[1] / "docs" / "playground"
PAGE = HERE / "index.html"

rng = np.random.default_rng(5)
PLANE = rng.uniform(-2.5, 2.5, (36, 2)).round(3)
TWO = (np.sin(2 * PLANE[:, 0]) + PLANE[:, 1] + 0.3 * rng.normal(size=36) > 0).astype(int)
THREE = np.digitize(PLANE[:, 0] + 0.4 * rng.normal(size=36), [-0.8, 0.8])
LINE = np.column_stack([rng.uniform(-2.8, 2.8, 25), rng.normal(size=25)]).round(3)
NEW = rng.uniform(-3, 3, (20, 2))
PLACES = np.linspace(-3, 3, 20)[:, None]

KERNELS = [
    "RBF(lengthscale=0.6)",
    "2*RBF(0.5) + Linear()",
    "Matern(2.5, 0.8) * RationalQuadratic(2.0) + 0.1",
    "(Polynomial(2, 0.5) + White(0.3)).normalise()",
    "(Laplacian(0.7) - 0.2*RBF(2.0)).on(0) * Periodic(2.0, 1.5)",
    "(0.1*Linear() + ArcSine()).gaussian(0.8)**2",
]
LEAVES = {
    "RBF": "RBF(0.7)", "Laplacian": "Laplacian(0.4)", "Matern": "Matern(0.5, 2) + Matern() + Matern(2.5)",
    "RationalQuadratic": "RationalQuadratic(0.3, lengthscale=2)", "InverseMultiquadric": "InverseMultiquadric(0.5)",
    "Periodic": "Periodic(1.7, 0.9)", "Linear": "Linear()", "Polynomial": "Polynomial(3, 0.4, 0.2) + Polynomial(2.5, 0.01, 9)",
    "Cosine": "Cosine()", "ArcCosine": "ArcCosine(0) + ArcCosine() + ArcCosine(2)", "ArcSine": "ArcSine(0.3, 2)",
    "Sigmoid": "Sigmoid(0.3, -0.5)", "Constant": "Constant(0.7)", "White": "White(0.2)", "Epanechnikov": "Epanechnikov(2)",
    "Biweight": "Biweight(2)", "Tricube": "Tricube(2)", "Triangular": "Triangular(2)", "Window": "Window(2)",
    "CosineWindow": "CosineWindow(2)",
}  # fmt: skip
COMPOSITES = [
    *KERNELS,
    "-RBF() / 4",
    "(0.1*Linear()).exp()",
    "Linear().tanh()",
    "RBF().on(1, 0)",
    "RBF().on(0).on(1)",
    "RBF() * (Linear() * RBF(2)) + (Linear() + 2)",
    "RBF() - (Linear() - 1)",
    "3",
    "2*(3*RBF())",
    "1 - RBF()**3",
]


def state(tab, y=TWO, **settings):
    plane = np.column_stack([PLANE, y]).tolist()
    return {"tab": tab, "plane": [[a, b, int(c)] for a, b, c in plane], "line": LINE.tolist(), **settings}


@pytest.fixture
def page(browser):  # noqa: F811
    """The page as a stranger first sees it; whatever a test does there, it has no errors and asks the network for nothing."""
    browser.open(PAGE)
    yield browser
    assert browser.errors() == []
    assert browser.requests() == []


@pytest.fixture(scope="module")
def ask(browser):  # noqa: F811
    """One question of the page's own functions for each of several states."""
    browser.open(PAGE)

    def asked(name, states, *arguments):
        script = (
            f"return arguments[0].map((s, i) => Mercer.api.{name}(Mercer.api.checked(s), ...(arguments[1][i] ?? [])))"
        )
        return browser.run(script, states, arguments[0] if arguments else [])

    return asked


def show(page, given):
    """Open the link of a state."""
    page.run("location.hash = encodeURIComponent(JSON.stringify(arguments[0]))", given)


def settled(page):
    page.wait("document.getElementById('spectrum').dataset.drawn !== undefined")


# ------------------------------------------------------------------------------------------------ the library's numbers
def svm(kernel, y, C=1.0, **_):
    model = SVC(C=C, kernel=kernel, tol=1e-9).fit(PLANE, y)
    return {"values" if y is TWO else "scores": model.decision_function(NEW), "labels": model.predict(NEW)}


def ridge(kernel, y, alpha=0.05, mean="zero", **_):
    model = GaussianProcessRegressor(kernel, alpha=alpha, mean=mean, optimizer=None).fit(LINE[:, :1], LINE[:, 1])
    found, std = model.predict(PLACES, return_std=True)
    plain = KernelRidge(alpha=alpha, kernel=kernel, fit_intercept=mean == "constant").fit(LINE[:, :1], LINE[:, 1])
    np.testing.assert_allclose(plain.predict(PLACES), found, atol=1e-8)
    return {"values": found, "std": std}


def pca(kernel, y, **_):
    return {"scores": np.abs(KernelPCA(4, kernel=kernel, eigen_solver="dense").fit(PLANE).transform(NEW))}


def perceptron(kernel, y, variant="averaged", passes=10, **_):
    model = KernelPerceptron(kernel, variant=variant, max_iter=passes, shuffle=False).fit(PLANE, y)
    return {"values" if y is TWO else "scores": model.decision_function(NEW), "labels": model.predict(NEW)}


def density(kernel, y, window="gaussian", bandwidth=0.4, **_):
    return {"values": np.exp(KernelDensity(bandwidth, kernel=window).fit(PLANE).score_samples(NEW))}


def smooth(kernel, y, spread=0.2, **_):
    model = NadarayaWatson(kernel, None, target_bandwidth=spread).fit(LINE[:, :1], LINE[:, 1])
    found, std = model.predict(PLACES, return_std=True)
    return {"values": found, "std": std}


CASES = [
    *[(svm, y, {"kernel": k, "C": C}) for k in KERNELS[:4] for y in (TWO, THREE) for C in (0.1, 20.0)],
    *[(svm, TWO, {"kernel": k, "C": C}) for k, C in (("Linear()", 1000), ("Polynomial()", 1000), (KERNELS[0], 0.001))],
    *[(ridge, TWO, {"kernel": k, "mean": m, "alpha": a}) for k in [*KERNELS, "RBF(0.5) + White(0.2)"]
      for m, a in (("zero", 0.3), ("constant", 0.01))],
    *[(pca, TWO, {"kernel": k, "component": 2}) for k in KERNELS],
    *[(perceptron, y, {"kernel": k, "variant": v, "passes": p}) for k in KERNELS[:4] for y in (TWO, THREE)
      for v, p in (("averaged", 5), ("plain", 50))],
    *[(density, TWO, {"window": w, "bandwidth": 0.83}) for w in
      ("gaussian", "exponential", "epanechnikov", "biweight", "tricube", "triangular", "boxcar", "cosine")],
    *[(smooth, TWO, {"kernel": k, "spread": 0.35}) for k in ("RBF(0.02)", "Laplacian(0.004)", KERNELS[2], "Triangular(0.3)")],
]  # fmt: skip


def library(case):
    model, y, settings = case
    kernel = parse_kernel(settings["kernel"]) if "kernel" in settings else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # windows that hold no row, perceptrons that did not separate
        return model(kernel, y, **{k: v for k, v in settings.items() if k != "kernel"})


@pytest.fixture(scope="module")
def answers(ask):
    states = [state(model.__name__, y, **settings) for model, y, settings in CASES]
    queries = [[(PLACES if model in (ridge, smooth) else NEW).tolist()] for model, _, _ in CASES]
    return ask("predict", states, queries)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: f"{CASES[i][0].__name__}-{i}")
def test_the_page_gives_the_librarys_predictions(answers, number):
    expected, found = library(CASES[number]), answers[number]
    for name, values in expected.items():
        got = np.asarray(found[name], float)
        np.testing.assert_allclose(
            np.abs(got) if CASES[number][0] is pca else got, values, atol=1e-6, rtol=0, err_msg=name
        )


def test_rings_are_the_librarys_support_vectors(page):
    given = state("svm", kernel=KERNELS[1], C=2)
    found = page.run("return [...Mercer.machines.fit(Mercer.api.checked(arguments[0])).support]", given)
    model = SVC(C=2, kernel=parse_kernel(KERNELS[1]), tol=1e-9).fit(PLANE, TWO)
    assert sorted(found) == sorted(model.support_.tolist())


def test_every_kernel_of_the_page_is_compared(page):
    assert set(LEAVES) == set(page.run("return Mercer.kernels.names"))


def test_gram_matrices_and_spectra(ask):
    texts = [*LEAVES.values(), *COMPOSITES]
    states = [state("svm", kernel=text) for text in texts]
    for text, K, values in zip(texts, ask("gram", states), ask("spectrum", states), strict=True):
        expected = parse_kernel(text)(PLANE)
        # An angle of 0 is known to the root of the rounding only, and ArcCosine(0) is an angle.
        atol = 2e-8 if "ArcCosine(0)" in text else 1e-9
        np.testing.assert_allclose(K, expected, atol=atol, rtol=1e-12, err_msg=text)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(expected)[::-1], atol=atol, rtol=1e-12, err_msg=text)


def test_three_hundred_points_have_the_right_spectrum(browser, ask):  # noqa: F811
    X = np.random.default_rng(0).uniform(-3, 3, (300, 2)).round(3)
    given = {"plane": [[a, b, 0] for a, b in X.tolist()], "kernel": "RBF(0.5) + Sigmoid()"}
    expected = np.linalg.eigvalsh(parse_kernel(given["kernel"])(X))[::-1]
    np.testing.assert_allclose(ask("spectrum", [given])[0], expected, atol=1e-9)


def test_eigenvectors_of_awkward_matrices(page):
    small = 1e-8  # beside 1 it is lost in a sum of squares, but not in a matrix
    graded = np.array([[0.0, 1.0, small], [1.0, 0.0, small], [small, small, 1.0]])
    for A in (graded, -graded, np.diag([3.0, 1.0, 2.0]), np.zeros((3, 3)), np.ones((5, 5)), np.array([[2.0]])):
        script = "const e = Mercer.linalg.eigen(Float64Array.from(arguments[0]), arguments[1], true);"
        values, vectors = page.run(
            script + "return [e.values, e.vectors.map((v) => [...v])]", A.ravel().tolist(), len(A)
        )
        V = np.array(vectors)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1], atol=1e-14)
        np.testing.assert_allclose(V @ A, np.array(values)[:, None] * V, atol=1e-14)
        np.testing.assert_allclose(V @ V.T, np.eye(len(A)), atol=1e-14)


def test_machines_of_few_features_and_a_large_price_are_found(page):
    show(
        page, {"kernel": "Polynomial()", "C": 10000, "plane": page.run("return Mercer.data.preset('plane', 'spiral')")}
    )
    page.wait("/of 120 points/.test(document.getElementById('summary').textContent)")
    assert "stopped early" not in page.run("return document.getElementById('summary').textContent")


def test_the_summary_says_the_log_evidence(page):
    show(page, state("ridge", kernel=KERNELS[0]))
    page.wait("/evidence/.test(document.getElementById('summary').textContent)")
    model = GaussianProcessRegressor(parse_kernel(KERNELS[0]), alpha=0.05, mean="zero", optimizer=None)
    model.fit(LINE[:, :1], LINE[:, 1])
    said = page.run("return document.getElementById('summary').textContent")
    assert f"is {model.log_marginal_likelihood_value_:.2f}." in said


# ------------------------------------------------------------------------------------------------ text
def test_what_the_page_writes_is_read_by_the_library(page):
    texts = [
        *LEAVES.values(),
        *COMPOSITES,
        "((RBF()))",
        " RBF( lengthscale = 1e-1 , ) ",
        "2**-1*RBF()",
        "(RBF()+1)*(2*RBF()+1)",
    ]
    for text, written in zip(
        texts,
        page.run("return arguments[0].map((t) => Mercer.kernels.write(Mercer.kernels.parse(t)))", texts),
        strict=True,
    ):
        ours, theirs = parse_kernel(written), parse_kernel(text)
        np.testing.assert_allclose(ours(PLANE), theirs(PLANE), rtol=1e-14, atol=1e-14)
        assert re.sub(r"\.0\b", "", repr(ours)) == re.sub(r"\.0\b", "", repr(theirs))


WRONG = ["", "RBF() * Linaer()", "RBF", "RBF(", "RBF)", "RBF() +", "RBF(lengthscale=0)", "2 + $", "RBF() ** 0.5",
         "1 / RBF()", "2.normalise()", "RBF().normalize()", "RBF().exp", "2 ** RBF()",
         "ArcCosine(3)", "RBF() RBF()", "(RBF()", "RBF().on()", "toString()", "RBF().toString()",
         "(" * 50 + "RBF()" + ")" * 50, "1/0*RBF()"]  # fmt: skip
ARGUMENTS = {
    "RBF(length=1)": 4,
    "RBF(1, lengthscale=2)": 7,
    "RBF(Linear())": 4,
    "Matern(lengthscale=1, 2)": 22,
    "RBF(1, 2)": 7,
}


def mistakes(page, texts):
    script = "try { Mercer.kernels.parse(t); return null; } catch (e) { return [e.message, e.at]; }"
    return page.run(f"return arguments[0].map((t) => {{ {script} }})", list(texts))


def test_mistakes_are_found_where_the_library_finds_them(page):
    for text, found in zip(WRONG, mistakes(page, WRONG), strict=True):
        with pytest.raises(KernelTextError) as caught:
            parse_kernel(text)
        message, _, mark = str(caught.value).split("\n")[-3:]
        assert found is not None, text
        assert found[1] == len(mark) - 5, (text, found, message)
        if "did you mean" in message:
            assert message.split("did you mean")[1] in found[0]


def test_of_wrong_arguments_the_page_marks_the_argument(page):
    assert [at for _, at in mistakes(page, ARGUMENTS)] == list(ARGUMENTS.values())
    for text in ARGUMENTS:
        with pytest.raises(KernelTextError):
            parse_kernel(text)


def test_texts_without_end_are_refused(page):
    long = [
        " + ".join(["RBF()"] * 13),
        "RBF()" + "**1" * 50,
        "RBF()" + ".exp()" * 80,
        "RBF(" + "1" * 2000 + ")",
        "-" * 60 + "RBF()",
    ]
    assert all(found is not None for found in mistakes(page, long))


# ------------------------------------------------------------------------------------------------ the script
def test_the_python_script_gives_the_same(ask):
    cases = [state("svm", kernel=KERNELS[1]), state("svm", THREE), state("ridge", kernel=KERNELS[3], mean="constant"),
             state("pca", kernel=KERNELS[2]), state("perceptron", THREE, variant="plain"), state("density", window="cosine"),
             state("smooth", kernel=KERNELS[0])]  # fmt: skip
    scripts, queries = ask("python", cases), ask("queries", cases)
    for case, script, found in zip(cases, scripts, ask("predict", cases, [[q] for q in queries]), strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(script, {})
        for name, values in json.loads(printed.getvalue()).items():
            mine = found.get({"ridge": "values"}.get(name, name), found.get("scores"))
            signs = np.abs if case["tab"] == "pca" else np.asarray
            np.testing.assert_allclose(signs(mine), signs(values), atol=1e-6, err_msg=f"{case['tab']} {name}")


# ------------------------------------------------------------------------------------------------ links
def of(**changes):
    return urllib.parse.quote(json.dumps({"tab": "ridge", **changes}))


BAD = {
    "no JSON": "%7Bnot",
    "no UTF-8": "%ff%fe",
    "a list": urllib.parse.quote("[1]"),
    "null": "null",
    "an unknown key": of(colour="red"),
    "a prototype": urllib.parse.quote('{"__proto__": {"tab": "pca"}}'),
    "an inherited name": of(constructor=1),
    "an unknown tab": of(tab="toString"),
    "HTML in a kernel": of(kernel="<img src=x onerror=window.hit=1>"),
    "code in a kernel": of(kernel="RBF(); import os"),
    "a kernel that is no text": of(kernel=["RBF()"]),
    "a number as text": of(C="1"),
    "a number out of range": of(C=-1),
    "no number": urllib.parse.quote('{"C": 1e999}'),
    "a whole number that is none": of(passes=2.5),
    "an unknown class": of(plane=[[0, 0, 7]]),
    "a point without class": of(plane=[[0, 0]]),
    "a point far away": of(line=[[0, 1e6]]),
    "a point of text": of(line=[["0", "1"]]),
    "too many points": of(line=[[0, 0]] * 301),
    "another version": of(version=2),
    "a long link": urllib.parse.quote('{"tab": "ridge"' + " " * 21000 + "}"),
}


def test_links_that_hold_no_state_are_refused_aloud(page):
    settled(page)
    before = page.run("return Mercer.api.state()")
    for name, text in BAD.items():
        page.run("document.getElementById('notice').hidden = true; location.hash = arguments[0]", text)
        page.wait("!document.getElementById('notice').hidden")
        said = page.run("return document.getElementById('notice').textContent")
        assert said.startswith("The link was not used: "), name
        assert "<img" not in said, name
        assert page.run("return Mercer.api.state()") == before, name
    assert page.run("return [window.hit ?? null, document.images.length, {}.tab ?? null]") == [None, 0, None]


def test_a_link_brings_its_state_back(page):
    given = state("pca", THREE, kernel="2*RBF(0.5)", component=3)
    page.run("location.hash = arguments[0]", urllib.parse.quote(json.dumps(given)))
    page.wait("Mercer.api.state().tab === 'pca'")
    now = page.run("return Mercer.api.state()")
    assert {k: now[k] for k in given} == given
    page.wait("location.hash.includes('window')")  # the page wrote the whole state
    address = page.run("return location.href")
    page.driver.get("about:blank")
    page.driver.get(address)
    assert page.run("return Mercer.api.state()") == now


def test_a_page_opened_with_a_bad_link_says_so_and_begins_as_usual(page):
    usual = page.run("return Mercer.api.state()")
    page.driver.get("about:blank")
    page.driver.get(f"{PAGE.as_uri()}#{BAD['an unknown key']}")
    assert (
        page.run("return document.getElementById('notice').textContent")
        == 'The link was not used: there is no setting "colour".'
    )
    assert page.run("return Mercer.api.state()") == usual


def test_a_link_that_comes_while_the_page_writes_its_own_is_kept(page):
    """The page writes its link a moment after a change, and may do so before it hears of a new link in the address."""
    settled(page)
    page.run("window.setTimeout = (f) => { window.later = f; }; document.getElementById('clear').click()")
    page.wait("window.later !== undefined")
    page.run("location.hash = arguments[0]; later()", of(alpha=0.5))
    page.wait("Mercer.api.state().alpha === 0.5 && Mercer.api.state().tab === 'ridge'", seconds=3)


# ------------------------------------------------------------------------------------------------ mouse and keys
def at(page, x, y, hold=None):
    """Actions that begin at a place of the picture, in its own units."""
    from selenium.webdriver import ActionChains

    canvas = page.driver.find_element("id", "map")
    side = canvas.size["width"]
    actions = ActionChains(page.driver, duration=0)
    if hold:
        actions.key_down(hold)
    return actions.move_to_element_with_offset(canvas, round(x * side / 6), round(-y * side / 6)), side


def points(page, kind="plane"):
    return page.run(f"return Mercer.api.state().{kind}")


def test_clicks_add_move_and_remove_points(page):
    from selenium.webdriver import Keys

    settled(page)
    page.run("document.getElementById('clear').click(); document.querySelectorAll('#classes input')[1].click()")
    at(page, 1.0, -1.0)[0].click().perform()
    ((x, y, label),) = points(page)
    assert (abs(x - 1) < 0.02, abs(y + 1) < 0.02, label) == (True, True, 1)
    at(page, -2.0, -2.0)[0].click().perform()
    actions, side = at(page, 1.0, -1.0)
    actions.click_and_hold().move_by_offset(round(-side / 6), round(-side / 3)).release().perform()
    (x, y, _), other = points(page)
    assert other[0] < -1.9
    assert (abs(x) < 0.03, abs(y - 1) < 0.03) == (True, True)
    at(page, 0.0, 1.0, hold=Keys.SHIFT)[0].click().key_up(Keys.SHIFT).perform()
    assert points(page) == [other]
    page.run("document.getElementById('undo').click()")
    assert len(points(page)) == 2
    for x in (-1.0, -2.0):
        at(page, x, 0.0)[0].click().perform()
    page.run("document.getElementById('undo').click()")  # one click at a time, however quick they were
    assert len(points(page)) == 3
    page.run("document.getElementById('undo').click()")
    page.run("document.getElementById('remove').click()")
    at(page, 0.0, 1.0)[0].click().perform()
    assert points(page) == [other]


def test_keys_select_move_add_remove_and_take_back(page):
    from selenium.webdriver import ActionChains, Keys

    settled(page)
    page.run("document.getElementById('map').focus()")
    before = points(page)

    def press(*keys):
        ActionChains(page.driver, duration=0).send_keys(*keys).perform()

    press("n", "n", Keys.ARROW_RIGHT, Keys.ARROW_UP, "3")
    x, y, _ = before[1]
    assert points(page)[1] == [round(x + 0.05, 3), round(y + 0.05, 3), 2]
    press("a")
    assert points(page)[-1] == [0, 0, 0]
    press(Keys.DELETE)
    assert len(points(page)) == len(before)
    for _ in range(6):
        ActionChains(page.driver, duration=0).key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform()
    assert points(page) == before


def test_tabs_go_by_arrow_keys_and_name_their_panel(page):
    from selenium.webdriver import Keys

    page.driver.find_element("id", "tab-svm").send_keys(Keys.ARROW_RIGHT)
    assert page.run("return [Mercer.api.state().tab, document.activeElement.id]") == ["ridge", "tab-ridge"]
    page.wait("document.getElementById('panel').getAttribute('aria-labelledby') === 'tab-ridge'")


# ------------------------------------------------------------------------------------------------ kernels by hand
def enter(page, selector, value, number=0):
    """Type into a field, move a slider, or choose."""
    script = """const e = document.querySelectorAll(arguments[0])[arguments[1]]; e.value = arguments[2];
        e.dispatchEvent(new Event("input")); e.dispatchEvent(new Event("change"));"""
    page.run(script, selector, number, value)


def kernel_of(page):
    return page.run("return Mercer.api.state().kernel")


def test_sliders_edit_the_kernels_text_and_the_text_moves_the_sliders(page):
    enter(page, "#kernel", "2*RBF(0.5) + Matern()")
    fields = "[...document.querySelectorAll('#sliders input[type=number]')].map((i) => Number(i.value))"
    page.wait(f"{fields}.join() === '2,0.5,1'")
    enter(page, "#sliders input[type=range]", 400, number=1)
    assert kernel_of(page) == "2 * RBF(lengthscale=10) + Matern()"
    page.wait("document.getElementById('kernel').value === Mercer.api.state().kernel")
    enter(page, "#sliders .param select", "2.5")
    assert kernel_of(page) == "2 * RBF(lengthscale=10) + Matern(nu=2.5)"
    enter(page, "#sliders input[type=number]", -3, number=1)
    page.wait("!document.getElementById('complaint').hidden")
    assert kernel_of(page) == "2 * RBF(lengthscale=10) + Matern(nu=2.5)"
    page.wait("document.querySelectorAll('#sliders input[type=number]')[1].value === '10'")


def test_the_builder_adds_multiplies_scales_and_leaves_out(page):
    def kernel_after(script):
        page.run(f"document.querySelector('#leaf').value = 'Linear'; {script}")
        time.sleep(0.1)  # the form follows in the next frame
        return kernel_of(page)

    assert kernel_after("document.getElementById('add').click()") == "RBF(lengthscale=0.7) + Linear()"
    assert kernel_after("document.getElementById('multiply').click()") == "(RBF(lengthscale=0.7) + Linear()) * Linear()"
    first = "document.querySelectorAll('#sliders .head')[0]"
    assert (
        kernel_after(f"{first}.querySelector('button').click()") == "(1 * RBF(lengthscale=0.7) + Linear()) * Linear()"
    )
    assert kernel_after(f"{first}.querySelector('button').click()") == "(RBF(lengthscale=0.7) + Linear()) * Linear()"
    assert kernel_after(f"{first}.querySelectorAll('button')[1].click()") == "Linear() * Linear()"
    assert kernel_after("document.getElementById('normalise').click()") == "(Linear() * Linear()).normalise()"
    enter(page, "#sliders .head select", "RBF", number=1)
    assert kernel_of(page) == "(Linear() * RBF()).normalise()"


def test_a_text_that_is_no_kernel_is_marked_and_changes_nothing(page):
    enter(page, "#kernel", "RBF() * <b>")
    shown = page.run("return [document.getElementById('complaint').innerText, Mercer.api.state().kernel]")
    assert shown[0].split("\n")[-2:] == ["RBF() * <b>", "        ^"]
    assert shown[1] == "RBF(lengthscale=0.7)"
    assert page.run("return document.getElementById('kernel').getAttribute('aria-invalid')") == "true"


# ------------------------------------------------------------------------------------------------ words
SAID = [
    (state("svm", 0 * TWO), "needs points of two classes"),
    (state("perceptron", 0 * TWO + 2), "needs points of two classes"),
    ({"tab": "pca"}, "needs 2 points at least"),
    ({"tab": "density"}, "needs 1 point at least"),
    (state("smooth", kernel="Linear()"), "weights must be >= 0"),
    (state("ridge", kernel="Sigmoid(coef0=-3)"), "not positive definite"),
    (state("ridge", kernel="RBF().on(1)"), "the rows have 1 column"),
    (state("svm", kernel="Polynomial(400, 10)"), "k(x, y) is Infinity"),
    (state("pca", kernel="Constant()"), "no component"),
]


def test_what_cannot_be_learned_is_said_in_words(page):
    for given, words in SAID:
        show(page, given)
        page.wait(f"document.getElementById('summary').textContent.includes({json.dumps(words)})")
        assert page.run("return document.getElementById('summary').className") == "warned"


def test_an_indefinite_kernel_is_warned_of(page):
    show(page, state("svm", kernel="Sigmoid(0.5, -1)"))
    page.wait("document.getElementById('verdict').className === 'warned'")
    least = np.linalg.eigvalsh(parse_kernel("Sigmoid(0.5, -1)")(PLANE))[0]
    assert f"smallest eigenvalue is {float(f'{least:.3g}'):g}" in page.run(
        "return document.getElementById('verdict').textContent"
    )


# ------------------------------------------------------------------------------------------------ the page itself
def test_many_points_have_a_fine_map_in_the_end(page):
    X = np.random.default_rng(1).uniform(-3, 3, (300, 2)).round(3)
    many = {"plane": [[a, b, int(a * b > 0)] for a, b in X.tolist()], "kernel": "RBF() * Matern() + 0.1*Linear()"}
    show(page, many)
    page.wait("Mercer.api.state().plane.length === 300 && document.getElementById('map').dataset.cells === '80'")
    at(page, 0.5, 0.5)[0].click().perform()
    page.wait("/300 points already/.test(document.getElementById('notice').textContent)")


TABS = ("svm", "ridge", "pca", "perceptron", "density", "smooth")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_tab_fits_a_phone_and_is_painted(browser, dark):  # noqa: F811
    browser.dark(dark)
    browser.open(PAGE, width=390, height=800)
    corner = "return [...document.getElementById('map').getContext('2d').getImageData(3, 3, 1, 1).data]"
    for tab in TABS:
        browser.run(f"document.getElementById('tab-{tab}').click()")
        browser.wait(f"document.getElementById('panel').getAttribute('aria-labelledby') === 'tab-{tab}'")
        assert browser.run("return document.documentElement.scrollWidth") <= 390, tab
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 300) == dark
    browser.run("document.getElementById('tab-svm').click()")
    browser.wait("document.getElementById('map').dataset.cells === '80'")
    assert (sum(browser.run(corner)[:3]) < 300) == dark
    assert (browser.errors(), browser.requests()) == ([], [])
    browser.dark(False)


def test_every_control_has_a_name(page):
    settled(page)
    script = """return [...document.querySelectorAll('button, select, input, textarea, canvas')].filter((e) =>
        !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML)"""
    for tab in TABS:
        page.run(f"document.getElementById('tab-{tab}').click()")
        page.wait(f"document.getElementById('panel').getAttribute('aria-labelledby') === 'tab-{tab}'")
        assert page.run(script) == [], tab


def test_sources_never_read_text_as_code_and_name_no_address():
    html = PAGE.read_text()
    assert "default-src 'none'; script-src 'self'" in html
    assert re.findall(r"<script(?! src=\"\w+\.js\"></script>)", html) == []
    assert re.findall(r"\son\w+=|\sstyle=", html) == []
    named = set(re.findall(r"src=\"(\w+\.js)\"", html))
    assert named == {path.name for path in HERE.glob("*.js")}
    for path in HERE.glob("*.*"):
        if path.suffix != ".md":
            found = re.findall(
                r"(?i)innerHTML|outerHTML|insertAdjacent|\beval\b|document\.write|new Function|DOMParser|https?:|@import",
                path.read_text(),
            )
            assert found == [], path.name

"""Search over kernel expressions, and additive processes taken apart: known structure, brute force, pictures."""

import logging

import numpy as np
import pytest

import mercer.estimators.search as searching
from mercer import GaussianProcessRegressor, KernelRidge, decompose, search_kernel
from mercer.errors import MemoryBudgetError, NotPSDError
from mercer.estimators.additive import additive_parts, shown
from mercer.estimators.search import peak_periods
from mercer.kernels import RBF, Linear, Matern, Periodic, Sigmoid, Spectrum, White

TERMS = 2.0 * RBF(0.9) + 0.5 * Linear() * Periodic(2.0)


def season(n=60, seed=0):
    """A line and a season of 2.5, unevenly sampled."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 12, n))
    return x[:, None], 0.4 * x + np.sin(2 * np.pi * x / 2.5) + 0.05 * rng.standard_normal(n) + 20.0


def rows(n=25, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, -1] + 0.1 * rng.standard_normal(n) + 3.0


# ------------------------------------------------------------------------------------------------ expressions
def test_sums_are_multiplied_out():
    A, B, C = RBF(0.5), Linear(), Periodic(2.0)
    cases = [
        (A + B + C, [A, B, C]),
        (2.0 * (A + B), [2.0 * A, 2.0 * B]),
        (A * (B + C), [A * B, A * C]),
        ((A + B) * (B + C), [A * B, A * C, B * B, B * C]),
        (3.0 * (A + 2.0 * (B + C)), [3.0 * A, 3.0 * (2.0 * B), 3.0 * (2.0 * C)]),
        ((A + B).on(0) + C, [A.on(0), B.on(0), C]),
        ((A + B).named("both") * C, [(A + B).named("both") * C]),
        (A * B * C, [A * B * C]),
        (A + White(0.1) + White(0.2) * B + 2.0 * White(), [A]),
        ((A + B).exp(), [(A + B).exp()]),
    ]
    X = rows(7)[0]
    for kernel, parts in cases:
        assert additive_parts(kernel) == parts
        if not any(isinstance(leaf, White) for leaf in kernel._leaves):
            np.testing.assert_allclose(sum(k(X) for k in parts), kernel(X), rtol=1e-12)
    warped = additive_parts((A + B).warp(np.abs) + (A + B).times(_first) + (A + B).centre([[1.0]]))
    np.testing.assert_allclose(
        sum(k(X) for k in warped), ((A + B).warp(np.abs) + (A + B).times(_first) + (A + B).centre([[1.0]]))(X)
    )
    assert len(warped) == 6


def _first(X):
    return X[:, 0]


def test_numbers_are_printed_short():
    kernel = 2.123456 * RBF([0.123456, 10.0]) + White(1 / 3)
    assert shown(kernel) == "2.123 * RBF(lengthscale=[0.1235, 10.0]) + White(variance=0.3333)"


# ------------------------------------------------------------------------------------------------ decomposition
@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_terms_add_up_to_the_prediction(mean, normalise, centred):
    X, y = rows()
    T = rows(9, seed=1)[0]
    model = GaussianProcessRegressor(TERMS, mean=mean, normalize_y=normalise, max_iter=3, optimizer=None, alpha=0.1)
    for targets in (y, np.column_stack([y, y**2])):
        model.fit(X, targets)
        terms = decompose(model, T, centred=centred)
        assert {t.mean.shape for t in terms} == {t.sd.shape for t in terms} == {model.predict(T).shape}
        np.testing.assert_allclose(sum(t.mean for t in terms), model.predict(T), rtol=1e-9)
        names = ["2.0 * RBF(lengthscale=0.9)", "0.5 * Linear() * Periodic(period=2.0)"]
        first = ["level"] if centred else []
        first += ["mean"] if mean == "linear" or (not centred and (mean == "constant" or normalise)) else []
        assert [t.name for t in terms] == first + names
        if centred:
            np.testing.assert_allclose([t.mean.mean(axis=0) for t in terms[1:]], 0.0, atol=1e-9)


@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_variances_are_those_of_the_joint_normal(mean):
    """f_1, f_2 and y are jointly normal; a flat mean is one with a large variance."""
    X, y = rows()
    T = rows(6, seed=1)[0]
    model = GaussianProcessRegressor(TERMS, alpha=0.1, mean=mean, optimizer=None).fit(X, y)
    H, large = (
        (np.hstack([np.ones((len(Z), 1)), Z]) if mean == "linear" else np.zeros((len(Z), 0)) for Z in (X, T)),
        1e6,
    )
    H, G = H
    C = TERMS(X) + 0.1 * np.eye(25) + large * H @ H.T
    found = {t.name: t for t in decompose(model, T)}
    centre = np.eye(6) - 1 / 6
    about = {t.name: t for t in decompose(model, T, centred=True)}
    pairs = [(shown(k), k(T, X), k(T)) for k in additive_parts(TERMS)]
    pairs += [("mean", large * G @ H.T, large * G @ G.T)] if mean == "linear" else []
    for name, across, own in pairs:
        covariance = own - across @ np.linalg.solve(C, across.T)
        np.testing.assert_allclose(found[name].mean, across @ np.linalg.solve(C, y), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found[name].sd, np.sqrt(np.diag(covariance)), rtol=1e-3)
        np.testing.assert_allclose(about[name].sd, np.sqrt(np.diag(centre @ covariance @ centre)), rtol=1e-3, atol=1e-6)
    whole = model.predict(T, return_cov=True)[1]
    np.testing.assert_allclose(about["level"].sd, np.sqrt(whole.mean()), rtol=1e-10)


def test_many_rows_a_name_noise_and_float32():
    X, y = rows(40)
    kernel = (RBF(2.0) + Linear()).named("trend") + 0.3 * Matern(0.5, 0.3) + White(0.1)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    T = np.linspace(-2, 2, 1500, dtype=np.float32)[:, None]
    terms = decompose(model, T)
    assert [t.name for t in terms] == ["mean", "trend", "0.3 * Matern(nu=0.5, lengthscale=0.3)"]
    assert {t.mean.dtype for t in terms} == {np.dtype(np.float32)}
    np.testing.assert_allclose(sum(t.mean for t in terms), model.predict(T), rtol=1e-4)
    np.testing.assert_allclose(decompose(model, X)[1].mean, (RBF(2.0) + Linear())(X) @ model.dual_coef_, rtol=1e-9)
    model.memory = "1MB"
    with pytest.raises(MemoryBudgetError, match="centred=False"):
        decompose(model, T, centred=True)


def test_what_cannot_be_taken_apart():
    X, y = rows()
    with pytest.raises(TypeError, match="needs a GaussianProcessRegressor, got KernelRidge"):
        decompose(KernelRidge(kernel=RBF()).fit(X, y), X)
    with pytest.raises(ValueError, match="not fitted"):
        decompose(GaussianProcessRegressor(RBF()), X)


# ------------------------------------------------------------------------------------------------ periods
def test_periods_are_found_beside_a_trend():
    x, y = season(80)
    found = peak_periods(x[:, 0], y + 0.1 * x[:, 0] ** 2 + 1e4, 3)
    assert found[0] == pytest.approx(2.5, rel=0.02)
    assert len(found) == 3
    two = np.sin(2 * np.pi * x[:, 0] / 2.5) + 0.5 * np.sin(2 * np.pi * x[:, 0] / 0.9)
    np.testing.assert_allclose(peak_periods(x[:, 0], two, 2), [2.5, 0.9], rtol=0.02)
    assert peak_periods(np.zeros(20), y[:20], 3) == []
    assert peak_periods(x[:5, 0], y[:5], 3) == []


# ------------------------------------------------------------------------------------------------ the search
@pytest.fixture(scope="module")
def found():
    return search_kernel(*season(40), depth=3, max_iter=60, random_state=0)


def test_a_line_and_a_season_are_found(found):
    assert sorted(found.expression.split(" + ")) == ["Linear", "Periodic"]
    periods = [v for n, v in found.kernel.get_params().items() if n.endswith("period")]
    assert periods == pytest.approx([2.5], rel=0.01)
    assert found.alpha**0.5 == pytest.approx(0.05, rel=0.3)
    T = np.linspace(12, 16, 30)[:, None]  # beyond the rows
    truth = 0.4 * T[:, 0] + np.sin(2 * np.pi * T[:, 0] / 2.5) + 20.0
    assert np.abs(found.estimator.predict(T) - truth).max() < 0.2


def test_the_score_is_the_evidence_less_the_price_of_parameters(found):
    model = GaussianProcessRegressor(found.kernel, alpha=found.alpha, optimizer=None).fit(*season(40))
    assert found.value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-8)
    p = len(found.kernel.differentiable) + 1
    assert found.score == pytest.approx(found.value - 0.5 * p * np.log(40), rel=1e-10)
    assert found.score == max(s.score for s in found.trace)


def test_the_trace_tells_every_expression_once(found):
    names = ["+".join(sorted("*".join(sorted(t.split(" * "))) for t in s.expression.split(" + "))) for s in found.trace]
    assert all(
        len(set(n)) == len(n)
        for n in ([n for n, s in zip(names, found.trace, strict=True) if s.step == k] for k in (1, 2, 3))
    )
    assert {s.step for s in found.trace} == {1, 2, 3}
    assert [s.expression for s in found.trace if s.step == 1 and s.kept] != []
    assert len([s for s in found.trace if s.step == 1]) == 4
    assert {s.n_parameters for s in found.trace if s.expression == "Linear"} == {2}  # its scale and the noise
    first = GaussianProcessRegressor(found.trace[0].kernel, max_iter=40).fit(*season(40))
    assert first.log_marginal_likelihood_value_ >= found.trace[0].value - 0.5
    lines = str(found).splitlines()
    assert lines[0] == f"{len(found.trace)} expressions on 40 of 40 rows; score: log evidence less p/2 log n"
    assert sum(line.startswith("step") for line in lines) == 3
    assert any(line.startswith("  *") and line.endswith(found.expression) for line in lines)
    assert f"found {shown(found.kernel)}" in lines
    assert f"noise variance {found.alpha:.4g}" in lines


def test_expressions_one_step_away():
    """A part or factor more, another factor, a part less; nothing that a smaller expression says as well."""
    search = searching._Search(GaussianProcessRegressor(RBF("median")), *season(20), None, "evidence")
    by_name = dict(zip(search.names, range(4), strict=True))
    parts = tuple(searching._Part(1.0, (search.base[by_name[n]],), (by_name[n],)) for n in ("RBF", "Linear"))
    best = search._climbed(0.1, parts, 0)
    found = {" + ".join(sorted(search.words(starts[0][1]).split(" + "))) for starts in search._candidates([best])}
    expected = """RBF, Linear, Linear + RBF + RBF, Linear + RBF + RationalQuadratic, Linear + Periodic + RBF,
        Linear + RBF * RationalQuadratic, Linear + RBF * Periodic, Linear + RBF * Linear, RBF + RBF * Linear,
        RBF + RationalQuadratic * Linear, Periodic * Linear + RBF, Linear * Linear + RBF, Linear + RationalQuadratic,
        Linear + Periodic, RBF + RBF, RBF + RationalQuadratic, Periodic + RBF"""
    assert found == {" ".join(e.split()) for e in expected.split(",")}
    noise = next(starts[0][0] for starts in search._candidates([best]) if search.words(starts[0][1]) == "Linear")
    assert noise == pytest.approx(1.1)  # that of before, and the variance of the part that is gone
    rest = search._residuals(best)
    model = GaussianProcessRegressor(best.climb.kernel, alpha=0.1, optimizer=None).fit(*season(20))
    np.testing.assert_allclose(rest, season(20)[1] - model.predict(season(20)[0]), atol=1e-10)


def test_leave_one_out_some_rows_and_a_wider_beam():
    X, y = season(90)
    base = {"line": Linear(), "Periodic": Periodic()}
    settings = {"base": base, "objective": "loo", "n_rows": 30, "max_iter": 10}
    a, b = (search_kernel(X, y, **settings, depth=1, random_state=3) for _ in range(2))
    assert str(a) == str(b)
    assert str(a) != str(search_kernel(X, y, **settings, depth=1, random_state=4))
    wide = search_kernel(X, y, **settings, depth=2, beam=2, random_state=3)
    assert "Periodic" in wide.expression
    assert len(wide.estimator.X_fit_) == 90
    assert (wide.n_rows, wide.n_all) == (30, 90)
    assert wide.score == wide.value
    assert len([s for s in wide.trace if s.kept and s.step == 1]) == 2
    whole = search_kernel(X[:30], y[:30], **{**settings, "n_rows": None}, depth=1)
    model = GaussianProcessRegressor(whole.kernel, alpha=whole.alpha, optimizer=None).fit(X[:30], y[:30])
    assert whole.value == pytest.approx(model.leave_one_out().log_probability.sum(), rel=1e-8)


def test_columns_and_their_parts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (50, 2))
    y = 2 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * rng.standard_normal(50) + 5
    base = [RBF("median"), RBF("median").on(0), Linear().on(1)]
    found = search_kernel(X, y, base=base, depth=4, max_iter=20)
    assert sorted(found.expression.split(" + ")) == ["Linear.on(1)", "RBF.on(0)"]
    names, usual = searching._named(None, X)
    assert names == ["RBF", "RBF.on(0)", "RBF.on(1)", "Linear.on(0)", "Linear.on(1)"]
    line = X[:, 1] - X[:, 1].mean()
    np.testing.assert_allclose(usual[4](X), np.outer(line, line), atol=1e-12)
    curve = decompose(found.estimator, X, centred=True)
    sine = next(t for t in curve if "RBF" in t.name)
    truth = 2 * np.sin(2 * X[:, 0])
    assert np.abs(sine.mean - (truth - truth.mean())).max() < 0.15


def test_kernels_of_strings():
    texts = ["abab", "abba", "baba", "bbbb", "aaaa", "aabb", "abaa", "babb", "bbaa", "bbab"] * 2
    y = np.array([t.count("ab") for t in texts]) + 0.01 * np.random.default_rng(0).standard_normal(20)
    found = search_kernel(texts, y, base=[Spectrum(1), Spectrum(2)], depth=1, max_iter=20)
    assert found.expression == repr(Spectrum(2))
    named = search_kernel(texts, y, base={"letters": Spectrum(1), "pairs": Spectrum(2)}, depth=1, max_iter=20)
    assert named.expression == "pairs"
    with pytest.raises(ValueError, match="need base"):
        searching._usual(np.array(["a", "b"]))


@pytest.mark.filterwarnings("ignore")
def test_bad_input():
    X, y = season(20)
    cases = [
        (lambda: search_kernel(X, y, objective="gcv"), ValueError, 'must be "evidence" or "loo"'),
        (lambda: search_kernel(X, y, depth=0), ValueError, "depth=0 must be a whole number >= 1"),
        (lambda: search_kernel(X, y, beam=1.5), ValueError, "beam=1.5"),
        (lambda: search_kernel(X, y, base=[]), TypeError, "base must hold kernels"),
        (lambda: search_kernel(X, y, base=["rbf"]), TypeError, "got 'rbf'"),
        (lambda: search_kernel(X, y, base=[RBF(1.0), Sigmoid(1.0, -1.0)]), NotPSDError, "no evidence"),
        (lambda: search_kernel(X, np.column_stack([y, y])), ValueError, "one target"),
        (lambda: search_kernel(X[:3], y[:3]), ValueError, "at least 4 rows"),
        (lambda: search_kernel(X, y[:-1]), ValueError, "inconsistent"),
        (lambda: search_kernel(np.tile(X, 11), y), ValueError, r"X has 11 columns; .* Name those to build from: base="),
        (lambda: search_kernel(X, y, n_rows=3), ValueError, "n_rows=3 must be a whole number >= 4"),
        (lambda: search_kernel(X, np.where(y > 21, np.nan, y)), ValueError, "NaN"),
        (lambda: search_kernel(X, y, memory="3kB"), MemoryBudgetError, "fewer rows"),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()


def test_constant_targets_and_a_kernel_that_overflows():
    X, y = season(20)
    flat = search_kernel(X, np.full(20, 3.0), depth=1, max_iter=5)
    assert flat.at_bounds == ["alpha"]
    assert str(flat).endswith("at a bound: alpha")
    np.testing.assert_allclose(flat.estimator.predict(X), 3.0, rtol=1e-6)
    mixed = search_kernel(X, y, base={"fine": RBF("median"), "huge": (1e300 * Linear() ** 9)}, depth=1, max_iter=5)
    assert mixed.expression == "fine"
    with pytest.raises(ValueError, match="none of huge could be fitted"):
        search_kernel(X, y, base={"huge": (1e300 * Linear() ** 9)}, depth=1)


def test_an_interrupted_search_has_told_what_it_found(monkeypatch, caplog):
    steps = []

    def candidates(self, bests):
        steps.append(len(bests))
        if len(steps) == 2:
            raise KeyboardInterrupt
        return original(self, bests)

    original = searching._Search._candidates
    monkeypatch.setattr(searching._Search, "_candidates", candidates)
    with caplog.at_level(logging.INFO, "mercer"), pytest.raises(KeyboardInterrupt):
        search_kernel(*season(30), max_iter=5)
    assert any("step 1: " in r.getMessage() and "score" in r.getMessage() for r in caplog.records)
    monkeypatch.setattr(searching, "stopping", lambda: True)  # what a worker sees when the main thread was interrupted
    monkeypatch.setattr(searching._Search, "_candidates", original)
    with pytest.raises(KeyboardInterrupt):
        search_kernel(*season(30), max_iter=5)


def test_an_expression_takes_one_place_of_the_beam():
    one, two = (searching._Part(1.0, (RBF(),), (b,)) for b in (0, 1))
    found = [
        searching._Found(parts, None, score) for parts, score in (((one, two), 3.0), ((two, one), 4.0), ((one,), 1.0))
    ]
    assert searching._best_of(found, 2) == [found[1], found[2]]


# ------------------------------------------------------------------------------------------------ pictures
def test_picture_of_the_terms():
    plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")
    from mercer.plots import DecompositionDisplay

    X, y = rows(30)
    model = GaussianProcessRegressor(TERMS, alpha=0.1, normalize_y=True, optimizer=None).fit(X, y)
    shown_ = DecompositionDisplay.from_estimator(model, resolution=50, margin=0.1, color="black")
    titles = [ax.get_title(loc="left") for ax in shown_.axes_]
    assert titles == ["the whole", *(shown(k) for k in additive_parts(TERMS))]
    whole, first, _ = shown_.panels
    np.testing.assert_allclose(whole.mean, model.predict(whole.x[:, None]))
    np.testing.assert_allclose(np.sort(shown_.axes_[0].lines[0].get_ydata()), np.sort(y))
    assert whole.x.min() == pytest.approx(X.min() - 0.1 * np.ptp(X))
    np.testing.assert_allclose(first.mean, decompose(model, first.x[:, None], centred=True)[1].mean)
    assert first.mean.mean() == pytest.approx(0.0, abs=1e-9)
    assert shown_.axes_[1].lines[0].get_color() == "black"
    assert shown_.figure_ is shown_.axes_[0].figure
    given = DecompositionDisplay.from_estimator(model, X[:5], y[:5], axes=plt.subplots(3)[1])
    assert len(given.axes_[0].lines[0].get_xdata()) == 5
    plt.close("all")


def test_picture_of_terms_of_columns():
    plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")
    from mercer.plots import DecompositionDisplay

    X, y = rows(30, 2)
    kernel = RBF(1.0).on(0) + RBF(3.0) + Linear().on(1)
    model = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y)
    drawn = DecompositionDisplay.from_estimator(model, resolution=20, columns=2)
    assert [p.column for p in drawn.panels] == ["column 0", "column 1"]
    assert drawn.left_out == ["RBF(lengthscale=3.0)"]
    assert (drawn.panels[1].x.min(), drawn.panels[1].x.max()) == (X[:, 1].min(), X[:, 1].max())
    rows_ = np.column_stack([np.zeros(20), drawn.panels[1].x])
    np.testing.assert_allclose(drawn.panels[1].mean, decompose(model, rows_, centred=True)[3].mean)
    assert drawn.axes_[1].get_xlabel() == "column 1"
    with pytest.raises(ValueError, match="no term of RBF"):
        DecompositionDisplay.from_estimator(GaussianProcessRegressor(RBF(1.0), optimizer=None).fit(X, y))
    with pytest.raises(ValueError, match="one target"):
        two = GaussianProcessRegressor(RBF(1.0), optimizer=None).fit(X[:, :1], np.column_stack([y, y]))
        DecompositionDisplay.from_estimator(two)
    plt.close("all")

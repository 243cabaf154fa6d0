"""Densities: scikit-learn's answers, integrals, brute force, draws against distribution functions, and bad input."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity as PeerDensity
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import check_estimator

from mercer import Engine, KernelDensity, KernelDensityClassifier
from mercer.errors import NumericalWarning
from mercer.solvers.bandwidths import select_bandwidth
from mercer.solvers.parzen import parzen
from mercer.solvers.windows import SHAPES, shape_of

PEERS = ["gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine"]


def sample(n=80, d=1, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def brute(Q, X, w, h, kernel, form="radial", factors=None):
    """The definition, row by row; h is a number or one a column."""
    shape, d = shape_of(kernel), X.shape[1]
    out, h = np.zeros(len(Q)), np.broadcast_to(h, d)
    for x, v, f in zip(X, w, np.ones(len(X)) if factors is None else factors, strict=True):
        s = ((Q - x) / (h * f)) ** 2
        k = shape.value(s.sum(axis=1)) if form == "radial" else shape.value(s).prod(axis=1)
        out += v * k / (f**d * np.prod(h))
    return out * math.exp(shape.log_constant(d, form))


def density(model, X):
    return np.exp(model.score_samples(X))


# ---------------------------------------------------------------------------------------------- engines
@pytest.fixture
def device(monkeypatch):
    """torch on the CPU, which passes for a device of its own."""
    pytest.importorskip("torch")
    monkeypatch.setattr("mercer.engines.tensors.TorchEngine.beside_the_processor", True)
    return "torch"


@pytest.mark.parametrize("form", ["radial", "product"])
@pytest.mark.parametrize("kernel", sorted(SHAPES))
def test_a_device_sums_all_pairs(device, kernel, form):
    X, w, T = sample(700, 2), np.random.default_rng(1).random(700), np.vstack([sample(50, 2, 2), [[300.0, 0.0]]])
    settings = {"bandwidth": [0.4, 0.7], "kernel": kernel, "form": form}
    plain = KernelDensity(**settings).fit(X, sample_weight=w)
    asked = KernelDensity(**settings, engine=device).fit(X, sample_weight=w)
    assert "tree: exact" in plain.explain()
    assert "tiles: all pairs at once on cpu" in asked.explain()
    np.testing.assert_allclose(asked.score_samples(T), plain.score_samples(T), rtol=1e-10)
    assert np.isfinite(asked.score_samples(T)[-1]) == (kernel in ("gaussian", "exponential"))  # no sum, a logarithm


def test_a_device_is_left_where_there_is_something_better(device, monkeypatch):
    X = sample(700)
    assert "line" in KernelDensity(engine=device).fit(X).explain()
    assert "tree: every point" in KernelDensity(engine=device, factors=np.ones(700)).fit(X).explain()
    assert "tree: it was asked for" in KernelDensity(engine=device, algorithm="tree").fit(X).explain()
    monkeypatch.undo()
    for engine in (device, "cpu", None):
        assert "tree: exact" in KernelDensity(engine=engine).fit(sample(700, 2)).explain()


def test_few_digits_do_not_lose_what_is_far(device):
    """In single precision exp(-90) is hardly a number: such sums are taken by logarithms."""
    X = sample(700, 2)
    T = np.column_stack([np.linspace(0.0, 40.0, 81), np.zeros(81)])
    plain = KernelDensity().fit(X).score_samples(T)
    fast = KernelDensity(engine=Engine(device, precision="fast")).fit(X).score_samples(T)
    np.testing.assert_allclose(fast, plain, rtol=1e-5)


def test_sums_of_windows_on_a_device(device):
    X, V, T = sample(700, 2), sample(700, 3, 1), sample(40, 2, 2)
    plain, asked = (parzen(X, None, shape_of("tricube"), engine=e) for e in (None, device))
    np.testing.assert_allclose(asked.sums(T, V), plain.sums(T, V), rtol=1e-9, atol=1e-14)
    assert (plain.used, asked.used) == ("tree", "tiles")
    single = parzen(X, None, shape_of("tricube"), factors=np.ones(700), engine=device)
    np.testing.assert_allclose(single.sums(T, V), plain.sums(T, V), rtol=1e-9, atol=1e-14)
    assert single.used == "tree"


def test_a_classifier_hands_its_engine_on(device):
    X = np.vstack([sample(600, 2), sample(600, 2, 1) + 2.0])
    y = np.repeat([0, 1], 600)
    for settings, told in (({"bandwidth": 0.5}, "tiles"), ({"neighbors": 7}, "brute")):
        plain, asked = (KernelDensityClassifier(**settings, engine=e).fit(X, y) for e in (None, device))
        np.testing.assert_allclose(asked.predict_proba(X), plain.predict_proba(X), rtol=1e-9)
        used = [p._parts[0].explain() if told == "tiles" else p._parts[0].used for p in (plain, asked)]
        assert [told in u for u in used] == [False, True]


def test_engines_are_checked():
    for model in (KernelDensity(engine="warp"), KernelDensityClassifier(engine="warp")):
        with pytest.raises(ValueError, match="engine='warp' is not known"):
            model.fit(sample(20, 2), np.repeat([0, 1], 10))


# ---------------------------------------------------------------------------------------------- scikit-learn
@pytest.mark.parametrize("kernel", PEERS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_answers_are_scikit_learns(kernel, d):
    if kernel == "cosine" and d == 2:
        d = 5  # its constant for the cosine is right in odd dimensions alone; see the next test
    X, T, w = sample(60, d), 1.5 * sample(30, d, 1), np.random.default_rng(2).random(60)
    for settings, weight in (
        ({"bandwidth": 1.3}, None),
        ({"bandwidth": "scott"}, w),
        ({"bandwidth": "silverman"}, None),
    ):
        ours, peer = KernelDensity(kernel=kernel, **settings), PeerDensity(kernel=kernel, **settings)
        peer.fit(X, sample_weight=weight)
        if weight is None:
            ours.fit(X)
            assert ours.bandwidth_ == peer.bandwidth_
        else:
            ours.set_params(bandwidth=peer.bandwidth_).fit(X, sample_weight=weight)
        np.testing.assert_allclose(density(ours, T), density(peer, T), rtol=1e-8, atol=1e-12)
        assert ours.score(X) == pytest.approx(peer.score(X), rel=1e-8)


def test_the_cosine_in_two_dimensions_has_integral_one():
    """scikit-learn's does not: its constant there is that of cos without the factor r."""
    model = KernelDensity(kernel="cosine").fit([[0.0, 0.0]])
    grid = np.linspace(-1, 1, 401)
    T = np.array(list(itertools.product(grid, grid)))
    assert density(model, T).sum() * 0.005**2 == pytest.approx(1.0, abs=1e-5)
    peer = PeerDensity(kernel="cosine").fit([[0.0, 0.0]])
    assert density(peer, T).sum() * 0.005**2 == pytest.approx(0.363, abs=1e-3)


def test_defaults_are_scikit_learns():
    ours, peer = KernelDensity().get_params(), PeerDensity().get_params()
    assert {k: ours[k] for k in peer} == peer


def test_logarithms_far_beyond_the_smallest_number():
    model = KernelDensity().fit([[0.0], [1.0]])
    np.testing.assert_allclose(
        model.score_samples([[1e4 + 1.0]]), -0.5e8 - math.log(2) - 0.5 * math.log(2 * math.pi), rtol=1e-12
    )
    assert KernelDensity(kernel="epanechnikov").fit([[0.0]]).score_samples([[2.0]]) == -np.inf


# ---------------------------------------------------------------------------------------------- integrals and draws
ONE_COLUMN = {
    "plain": {},
    "word": {"bandwidth": "isj"},
    "adaptive": {"factors": "adaptive"},
    "half line": {"bounds": (0.0, None)},
    "below": {"bounds": (None, 9.0), "factors": "adaptive", "kernel": "exponential"},
    "interval": {"bounds": (0.0, 9.0), "bandwidth": 6.0},
    "often round": {"bounds": [(0.0, 9.0)], "bandwidth": 20.0, "kernel": "biweight"},
    "boxcar": {"kernel": "boxcar", "bounds": (0.0, 9.0), "bandwidth": 3.0},
    "tricube": {"kernel": "tricube", "bounds": (0.0, None), "factors": "adaptive"},
    "gamma": {"bounds": (0.0, None), "boundary": "gamma", "bandwidth": 0.1},
    "gamma turned": {"bounds": (None, 9.0), "boundary": "gamma", "bandwidth": "normal-scott"},
    "beta": {"bounds": (0.0, 9.0), "boundary": "beta", "bandwidth": 0.02},
    "beta word": {"bounds": (0.0, 9.0), "boundary": "beta", "bandwidth": "mad"},
}


def positive(n=40):
    return np.minimum(np.random.default_rng(5).gamma(1.5, 1.0, n), 9.0)[:, None]


def fitted(name):
    return KernelDensity(**{"bandwidth": 0.5, **ONE_COLUMN[name]}).fit(positive())


@pytest.mark.parametrize("name", ONE_COLUMN)
def test_integral_distribution_quantiles_and_draws(name):
    model = fitted(name)
    bounded = model.bounds is not None
    low, high = (0.0, 9.0) if bounded else (-20.0, 30.0)
    low = -60.0 if name in ("below", "gamma turned") else low
    high = 60.0 if name in ("half line", "gamma", "tricube") else high
    grid = np.linspace(low, high, 8001)[:, None]
    f, F = density(model, grid), model.cdf(grid)
    steps = integrate.cumulative_trapezoid(f, grid[:, 0], initial=0.0)
    tolerance = 2e-3 if name in ("boxcar", "below") else 1e-4  # of the trapezoidal rule on jumps and kinks
    assert steps[-1] == pytest.approx(1.0, abs=tolerance)
    np.testing.assert_allclose(F, steps, atol=tolerance)
    q = np.array([[0.01, 0.3], [0.5, 0.99]])
    np.testing.assert_allclose(model.cdf(model.quantile(q).reshape(-1, 1)), q.ravel(), atol=1e-10)
    drawn = model.sample(1500, random_state=1)
    assert stats.kstest(drawn[:, 0], lambda x: model.cdf(x[:, None])).pvalue > 0.01
    np.testing.assert_array_equal(drawn, model.sample(1500, random_state=1))
    ends = model.quantile([0.0, 1.0])
    assert (model.score_samples([[max(ends[0], -30.0) - 1e-6], [min(ends[1], 80.0) + 1e-6]]) == -np.inf)[
        np.isfinite(ends)
    ].all()


def test_integrals_of_windows_are_exact():
    """By quadrature between the places where windows begin, break and end."""
    x = np.array([[0.3], [1.0], [1.1]])
    for kernel, factors in itertools.product(SHAPES, (None, [0.5, 1.0, 2.0])):
        model = KernelDensity(0.4, kernel=kernel, factors=factors).fit(x)
        h = 0.4 * np.array([1.0, 1.0, 1.0] if factors is None else factors)
        breaks = np.unique(np.concatenate([x[:, 0], x[:, 0] - h, x[:, 0] + h, np.linspace(-30, 32, 90)]))
        nodes, weights = np.polynomial.legendre.leggauss(30)
        mid, half = 0.5 * (breaks[1:] + breaks[:-1]), 0.5 * np.diff(breaks)
        f = density(model, (mid[:, None] + half[:, None] * nodes).reshape(-1, 1)).reshape(-1, 30)
        assert float((half * (f @ weights)).sum()) == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("settings", [
    {"bandwidth": [0.6, 1.1], "kernel": "epanechnikov"},
    {"bandwidth": [0.6, 1.1], "kernel": "biweight", "form": "product"},
    {"bandwidth": [[1.0, 0.6], [0.6, 0.8]], "kernel": "tricube"},
    {"bandwidth": 0.8, "factors": "adaptive"},
    {"bandwidth": [[1.0, 0.6], [0.6, 0.8]], "bounds": [(-2.5, 2.5), (None, 2.6)]},
], ids=str)  # fmt: skip
def test_two_columns(settings):
    X = np.clip(sample(30, 2), -2.5, 2.5)
    model = KernelDensity(**settings).fit(X)
    grid = np.linspace(-7, 7, 141)
    T = np.array(list(itertools.product(grid, grid)))
    f = density(model, T)
    assert f.sum() * 0.1**2 == pytest.approx(1.0, abs=2e-2 if "bounds" in settings else 2e-3)
    drawn = model.sample(4000, random_state=0)
    mean = (f @ T) * 0.1**2
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.12)
    second = (f * T[:, 0] * T[:, 1]).sum() * 0.1**2
    assert (drawn[:, 0] * drawn[:, 1]).mean() == pytest.approx(second, abs=0.15)


def test_a_number_is_a_matrix():
    X, T = sample(40, 2), sample(10, 2, 1)
    plain = KernelDensity(0.7).fit(X).score_samples(T)
    for h in ([0.7, 0.7], 0.49 * np.eye(2)):
        np.testing.assert_allclose(KernelDensity(h).fit(X).score_samples(T), plain, rtol=1e-12)
    H = np.array([[1.0, 0.5], [0.5, 0.7]])
    expected = np.mean([stats.multivariate_normal(x, H).pdf(T) for x in X], axis=0)
    np.testing.assert_allclose(density(KernelDensity(H).fit(X), T), expected, rtol=1e-10)


def test_boxcar_is_a_count():
    X, T = sample(200, 2), sample(50, 2, 1)
    near = (np.linalg.norm(T[:, None] - X, axis=2) <= 0.8).sum(axis=1)
    got = density(KernelDensity(0.8, kernel="boxcar").fit(X), T) * 200 * math.pi * 0.8**2
    np.testing.assert_allclose(got, near, atol=1e-9)
    near = (np.abs(T[:, None] - X) <= 0.8).all(axis=2).sum(axis=1)
    got = density(KernelDensity(0.8, kernel="tophat", form="product").fit(X), T) * 200 * 1.6**2
    np.testing.assert_allclose(got, near, atol=1e-9)


@pytest.mark.parametrize("kernel", SHAPES)
@pytest.mark.parametrize("form", ["radial", "product"])
def test_factors(kernel, form):
    X, T, rng = sample(40, 2), sample(20, 2, 1), np.random.default_rng(3)
    w, factors = rng.random(40), rng.uniform(0.5, 2.0, 40)
    plain = KernelDensity(1.5, kernel=kernel, form=form).fit(X, sample_weight=w)
    constant = KernelDensity(0.5, kernel=kernel, form=form, factors=np.full(40, 3.0)).fit(X, sample_weight=w)
    np.testing.assert_allclose(density(constant, T), density(plain, T), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(density(plain, T), brute(T, X, w / w.sum(), 1.5, kernel, form), rtol=1e-9, atol=1e-15)
    varied = KernelDensity([1.0, 1.5], kernel=kernel, form=form, factors=factors).fit(X, sample_weight=w)
    expected = brute(T, X, w / w.sum(), [1.0, 1.5], kernel, form, factors)
    np.testing.assert_allclose(density(varied, T), expected, rtol=1e-9, atol=1e-15)


def test_adaptive_factors_are_abramsons():
    X = sample(50)
    for s in (0.0, 0.5, 1.0):
        model = KernelDensity(0.4, factors="adaptive", sensitivity=s).fit(X)
        pilot = brute(X, X, np.full(50, 0.02), 0.4, "gaussian")
        np.testing.assert_allclose(model.factors_, (pilot / stats.gmean(pilot)) ** -s, rtol=1e-9)
        assert stats.gmean(model.factors_) == pytest.approx(1.0)
    w = np.ones(50)
    w[::2] = 0.0
    chosen = KernelDensity(0.4, factors=np.arange(1.0, 51.0)).fit(X, sample_weight=w)
    np.testing.assert_array_equal(chosen.factors_, np.arange(2.0, 51.0, 2.0))


# ---------------------------------------------------------------------------------------------- bounds
@pytest.mark.parametrize("kernel", ["gaussian", "exponential", "biweight"])
def test_reflection_is_mirrored_rows(kernel):
    X = np.abs(sample(30, 2)) + [0.0, 1.0]
    T = np.abs(sample(20, 2, 1)) + [0.0, 1.0]
    model = KernelDensity(0.9, kernel=kernel, bounds=[(0.0, None), (1.0, None)]).fit(X)
    mirrored = np.vstack([X * [a, b] + [0.0, (1 - b)] for a in (1, -1) for b in (1, -1)])
    np.testing.assert_allclose(density(model, T), brute(T, mirrored, np.full(120, 1 / 30), 0.9, kernel), rtol=1e-10)
    assert model.score_samples([[-0.1, 2.0]]) == -np.inf
    x = np.clip(X[:, :1], None, 2.0)
    both = KernelDensity(1.1, kernel=kernel, bounds=(0.0, 2.0)).fit(x)
    images = np.vstack([s * x + 4.0 * k for k in range(-12, 13) for s in (1, -1)])
    t = np.linspace(0, 2, 21)[:, None]
    np.testing.assert_allclose(
        density(both, t), brute(t, images, np.full(len(images), 1 / 30), 1.1, kernel), rtol=1e-10
    )


def test_reflection_far_from_all_rows():
    """At the bound both images are equally far, however little they give."""
    plain, folded = KernelDensity().fit([[100.0]]), KernelDensity(bounds=(0.0, None)).fit([[100.0]])
    assert folded.score_samples([[0.0]])[0] == pytest.approx(plain.score_samples([[0.0]])[0] + math.log(2.0), rel=1e-14)


def test_beta_and_gamma_windows_are_chens():
    x, w, b = positive(20)[:, 0] / 9.5, np.random.default_rng(0).random(20), 0.03
    t = np.array([0.0, 0.01, 0.2, 0.7, 1.0])
    model = KernelDensity(b, bounds=(0.0, 1.0), boundary="beta").fit(x[:, None], sample_weight=w)
    raw = np.array([np.average(stats.beta.pdf(x, u / b + 1, (1 - u) / b + 1), weights=w) for u in t])
    ratio = density(model, t[:, None]) / raw
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-10)
    assert ratio[0] == pytest.approx(1.0, abs=0.1)  # the integral is 1 + O(b) before it is divided out
    model = KernelDensity(b, bounds=(0.0, None), boundary="gamma").fit(x[:, None])
    raw = np.array([stats.gamma.pdf(x, u / b + 1, scale=b).mean() for u in t])
    ratio = density(model, t[:, None]) / raw
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-10)
    turned = KernelDensity(b, bounds=(None, 3.0), boundary="gamma").fit(3.0 - x[:, None])
    np.testing.assert_allclose(turned.score_samples(3.0 - t[:, None]), model.score_samples(t[:, None]), rtol=1e-9)


def test_windows_at_a_bound_estimate_a_density_that_jumps_there():
    x = np.random.default_rng(0).random((4000, 1))
    for settings in ({"bandwidth": 0.05}, {"bandwidth": 0.01, "boundary": "beta"}):
        assert density(KernelDensity(bounds=(0.0, 1.0), **settings).fit(x), [[0.0]])[0] == pytest.approx(1.0, abs=0.15)
    assert density(KernelDensity(0.05).fit(x), [[0.0]])[0] == pytest.approx(0.5, abs=0.1)


# ---------------------------------------------------------------------------------------------- categories
def mixed(n=60):
    rng = np.random.default_rng(4)
    return np.column_stack(
        [rng.integers(0, 3, n), rng.standard_normal(n), rng.integers(5, 7, n), rng.standard_normal(n)]
    )


def test_mixed_columns_are_their_definition():
    X, T = mixed(), mixed(80)[60:]
    w = np.random.default_rng(0).random(60)
    model = KernelDensity(0.6, kernel="epanechnikov", categorical=[0, 2], smoothing=[0.2, 0.1]).fit(X, sample_weight=w)
    expected = np.zeros(len(T))
    for x, v in zip(X, w / w.sum(), strict=True):
        a = np.where(T[:, 0] == x[0], 0.8, 0.2 / 2) * np.where(T[:, 2] == x[2], 0.9, 0.1)
        expected += v * a * brute(T[:, [1, 3]], x[None, [1, 3]], [1.0], 0.6, "epanechnikov")
    np.testing.assert_allclose(density(model, T), expected, rtol=1e-10, atol=1e-15)
    for columns in ([-4, -2], np.array([True, False, True, False])):
        again = clone(model).set_params(categorical=columns).fit(X, sample_weight=w)
        np.testing.assert_array_equal(again.score_samples(T), model.score_samples(T))
    assert (model.score_samples([[9.0, 0.0, 5.0, 0.0]]) == -np.inf).all()


def test_categories_sum_to_one():
    X = mixed()[:, [0, 2]]
    T = np.array(list(itertools.product(range(3), (5, 6))))
    for smoothing in (None, 0.0, 0.3, [0.2, 0.5]):
        model = KernelDensity(categorical=[0, 1], smoothing=smoothing).fit(X)
        assert density(model, T).sum() == pytest.approx(1.0, abs=1e-14)
        if smoothing == 0.0:
            counts = [(X == t).all(axis=1).mean() for t in T]
            np.testing.assert_allclose(density(model, T), counts, atol=1e-15)
        drawn = model.sample(6000, random_state=0)
        seen = np.array([(drawn == t).all(axis=1).sum() for t in T])
        assert stats.chisquare(seen, 6000 * density(model, T)).pvalue > 0.01
    assert model.bandwidth_ is None
    joint = KernelDensity(0.5, categorical=[0]).fit(mixed()[:, :2])
    grid = np.linspace(-6, 6, 601)
    total = sum(density(joint, np.column_stack([np.full(601, a), grid])).sum() * 0.02 for a in range(3))
    assert total == pytest.approx(1.0, abs=1e-10)


def test_shrinkage_of_categories():
    """Shares 0.5 and 0.3 and 0.2 of 100 rows by the closed form; equal shares are shrunk all the way."""
    x = np.repeat([0.0, 1.0, 2.0], [50, 30, 20])[:, None]
    t = (1 - 0.38) / (99 * (0.38 - 1 / 3))
    assert KernelDensity(categorical=[0]).fit(x).smoothing_[0] == pytest.approx(t * 2 / 3)
    even = KernelDensity(categorical=[0]).fit(np.repeat([0.0, 1.0], 10)[:, None])
    assert even.smoothing_[0] == pytest.approx(0.5)
    assert KernelDensity(categorical=[0]).fit(np.zeros((5, 1))).score_samples([[0.0]])[0] == 0.0


# ---------------------------------------------------------------------------------------------- leaving out, entropy, cdf
@pytest.mark.parametrize("settings", [
    {"bandwidth": 0.7}, {"bandwidth": 0.7, "factors": "adaptive", "kernel": "exponential"},
    {"bandwidth": [0.7, 0.9], "bounds": [(-4.0, None), None], "form": "product", "kernel": "triangular"},
    {"bandwidth": [[1.0, 0.3], [0.3, 0.5]]}, {"bandwidth": 0.7, "categorical": [1], "smoothing": 0.2},
], ids=str)  # fmt: skip
def test_leaving_one_out_is_a_fit_without_it(settings):
    X, w = sample(25, 2), np.random.default_rng(1).random(25)
    X[:, 1] = np.round(X[:, 1]) if "categorical" in settings else X[:, 1]
    model = KernelDensity(**settings).fit(X, sample_weight=w)
    for i in (0, 7, 24):
        rest = clone(model)
        if model.factors is not None:
            rest.set_params(factors=np.delete(model.factors_, i))
        rest.fit(np.delete(X, i, 0), sample_weight=np.delete(w, i))
        if "categorical" in settings and len(np.unique(np.delete(X[:, 1], i))) < len(np.unique(X[:, 1])):
            continue
        assert model.loo_log_density()[i] == pytest.approx(rest.score_samples(X[i : i + 1])[0], rel=1e-10)
    assert model.entropy() == pytest.approx(-float(w @ model.loo_log_density() / w.sum()))


def test_leaving_one_of_equal_rows_out_keeps_the_others():
    X = np.repeat(sample(6, 2), [1, 2, 3, 1, 1, 4], axis=0)
    model = KernelDensity(0.5).fit(X)
    expected = [KernelDensity(0.5).fit(np.delete(X, i, 0)).score_samples(X[i : i + 1])[0] for i in range(len(X))]
    np.testing.assert_allclose(model.loo_log_density(), expected, rtol=1e-10)


def test_leaving_one_out_of_edge_windows():
    x = positive(15)
    model = KernelDensity(0.1, bounds=(0.0, None), boundary="gamma").fit(x)
    rest = clone(model).fit(np.delete(x, 3, 0))
    assert model.loo_log_density()[3] == pytest.approx(rest.score_samples(x[3:4])[0], rel=1e-8)


def test_entropy_of_a_normal_sample():
    model = KernelDensity("normal-silverman").fit(sample(3000))
    assert model.entropy() == pytest.approx(0.5 * math.log(2 * math.pi * math.e), abs=0.05)


def test_distribution_function_in_two_columns():
    X, T = sample(20, 2), sample(10, 2, 1)
    expected = np.mean([stats.norm.cdf((T - x) / [0.5, 0.8]).prod(axis=1) for x in X], axis=0)
    np.testing.assert_allclose(KernelDensity([0.5, 0.8]).fit(X).cdf(T), expected, rtol=1e-12)
    for bad in ({"kernel": "biweight"}, {"bandwidth": np.eye(2)}, {"categorical": [0]}):
        with pytest.raises(ValueError, match="cdf"):
            KernelDensity(**bad).fit(X).cdf(T)


def test_quantiles_at_the_ends():
    x = np.array([[0.0], [1.0]])
    np.testing.assert_array_equal(KernelDensity().fit(x).quantile([0.0, 1.0]), [-np.inf, np.inf])
    np.testing.assert_allclose(
        KernelDensity(0.5, kernel="boxcar").fit(x).quantile([0, 0.25, 1]), [-0.5, 0.0, 1.5], atol=1e-12
    )
    assert KernelDensity().fit(x).quantile(0.5) == pytest.approx(0.5)
    for bad in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            KernelDensity().fit(x).quantile(bad)
    with pytest.raises(ValueError, match="one continuous column; there are 2"):
        KernelDensity().fit(sample(5, 2)).quantile(0.5)


# ---------------------------------------------------------------------------------------------- words, kinds, bad input
@pytest.mark.parametrize("rule", ["normal-scott", "mad", "isj", "loo", "lscv", "loo-full"])
def test_words_are_the_rules(rule):
    X = sample(40, 2)
    model = KernelDensity(rule).fit(X)
    np.testing.assert_allclose(model.bandwidth_, select_bandwidth(rule, X).value)
    assert model.bandwidth_rows_ == 40
    weighted = KernelDensity(rule).fit(X, sample_weight=np.linspace(0.1, 0.9, 40))
    np.testing.assert_allclose(
        weighted.bandwidth_, select_bandwidth(rule, X, np.linspace(0.1, 0.9, 40)).value, rtol=1e-9
    )


@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")
@pytest.mark.parametrize("word", ["normal-scott", "loo"])
def test_scikit_learns_checks_with_a_word(word):
    """A rule counts rows, and weights are counts."""
    check_estimator(KernelDensity(word), on_skip=None)


def test_a_weight_is_a_repetition():
    X, times = np.round(sample(60, 2), 1), np.random.default_rng(3).integers(1, 4, 60)
    for parameters in (
        {},
        {"bandwidth": "loo-full"},
        {"bandwidth": "isj", "factors": "adaptive"},
        {"categorical": [0]},
    ):
        weighted = KernelDensity(**{"bandwidth": "mad", **parameters}).fit(X, sample_weight=times)
        repeated = KernelDensity(**{"bandwidth": "mad", **parameters}).fit(np.repeat(X, times, axis=0))
        np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-9)
        np.testing.assert_allclose(np.repeat(weighted.loo_log_density(), times), repeated.loo_log_density(), rtol=1e-9)
        assert weighted.entropy() == pytest.approx(repeated.entropy(), rel=1e-9)


def test_search_over_bandwidths():
    search = GridSearchCV(KernelDensity(), {"bandwidth": [0.01, 0.4, 5.0]}, cv=3).fit(sample(150))
    assert search.best_params_ == {"bandwidth": 0.4}


def test_single_precision_and_files():
    X = sample(50, 2).astype(np.float32)
    model = KernelDensity(0.5, factors="adaptive").fit(X)
    for answer in (model.score_samples(X), model.sample(3, 0), model.cdf(X)):
        assert answer.dtype == np.float32
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(again.sample(5, 1), model.sample(5, 1))


def test_tolerances_are_kept():
    X, T = sample(2000, 2), sample(200, 2, 1)
    exact = density(KernelDensity(0.3).fit(X), T)
    for rtol, atol in ((1e-3, 0.0), (0.0, 1e-3)):
        got = density(KernelDensity(0.3, rtol=rtol, atol=atol).fit(X), T)
        assert (np.abs(got - exact) <= 1.001 * (atol + rtol * exact)).all()


def test_bad_parameters():
    X = sample(20, 2)
    for bad, said in (
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": "wide"}, "bandwidth"),
        ({"bandwidth": [1.0]}, "1 entries, but the rows have 2 columns"),
        ({"bandwidth": [[1.0, 2.0], [2.0, 1.0]]}, "not positive definite"),
        ({"metric": "manhattan"}, "metric"),
        ({"metric_params": {"p": 3}}, "metric_params"),
        ({"factors": np.ones(3)}, r"factors has shape \(3,\), expected \(20,\)"),
        ({"factors": np.zeros(20)}, "factors must be positive"),
        ({"bounds": [(0, 1)]}, "a pair"),
        ({"bounds": [(1, 0), None]}, "less than its upper one"),
        ({"bounds": [(0, None), None]}, "column 0 of X has entries outside"),
        ({"bounds": [(-9, 9), (-9, 9)], "bandwidth": 500.0}, "reflected more than"),
        ({"bounds": [(-9, 9), None], "categorical": [0]}, "bounds of categorical columns"),
        ({"boundary": "beta"}, "needs one continuous column and two finite bounds"),
        ({"categorical": [2]}, "categorical"),
        ({"categorical": ["a"]}, "categorical"),
        ({"categorical": [0], "smoothing": [0.1, 0.2]}, "smoothing"),
        ({"categorical": [0], "smoothing": 0.999}, r"more than \(c - 1\) / c"),
        ({"categorical": [0, 1], "factors": "adaptive"}, "factors need windows on continuous columns"),
    ):
        with pytest.raises(ValueError, match=said):
            KernelDensity(**bad).fit(X)
    one = np.abs(X[:, :1])
    for bad in ({"kernel": "biweight"}, {"bandwidth": [0.1]}, {"factors": "adaptive"}, {"bounds": (0.0, 9.0)}):
        with pytest.raises(
            ValueError, match=r"windows of its own|one number as bandwidth|factors need|one finite bound"
        ):
            KernelDensity(**{"bandwidth": 0.1, "bounds": (0.0, None), "boundary": "gamma", **bad}).fit(one)
    for bad in (0, -1, 2.5, "x"):
        with pytest.raises(ValueError, match="n_samples"):
            KernelDensity().fit(X).sample(bad)
    with pytest.raises(ValueError, match="n_samples=1"):
        KernelDensity().fit(X[:1]).entropy()
    with pytest.raises(ValueError, match="zero for every row"):
        KernelDensity().fit(X, sample_weight=np.zeros(20))
    with pytest.raises(ValueError, match=r"rescale"):
        KernelDensity(1e-200).fit(X)


# ---------------------------------------------------------------------------------------------- classification
def two_normals(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    return np.where(y, 2.0, 0.0)[:, None] + np.where(y, 0.5, 1.0)[:, None] * rng.standard_normal((n, 1)), y.astype(int)


def test_posterior_is_bayes_rule_of_the_densities():
    X, y = two_normals(120)
    T = np.linspace(-3, 4, 15)[:, None]
    for priors in (None, [0.1, 0.9]):
        model = KernelDensityClassifier(0.4, kernel="exponential", priors=priors).fit(X, y)
        p = np.bincount(y) / len(y) if priors is None else np.array(priors)
        joint = np.column_stack(
            [p[c] * density(KernelDensity(0.4, kernel="exponential").fit(X[y == c]), T) for c in (0, 1)]
        )
        np.testing.assert_allclose(model.predict_proba(T), joint / joint.sum(axis=1, keepdims=True), rtol=1e-10)
        np.testing.assert_allclose(model.predict_log_proba(T), np.log(model.predict_proba(T)), rtol=1e-10)


def test_posterior_of_a_known_mixture():
    X, y = two_normals(20000)
    T = np.linspace(-2, 3, 26)[:, None]
    joint = np.column_stack([0.7 * stats.norm.pdf(T[:, 0]), 0.3 * stats.norm.pdf(T[:, 0], 2.0, 0.5)])
    got = KernelDensityClassifier().fit(X, y).predict_proba(T)
    assert np.abs(got - joint / joint.sum(axis=1, keepdims=True)).max() < 0.06
    assert np.abs(got - joint / joint.sum(axis=1, keepdims=True)).mean() < 0.015


def test_bandwidths_of_classes():
    X, y = two_normals()
    each = KernelDensityClassifier("normal-silverman").fit(X, y)
    for c in (0, 1):
        assert each.bandwidth_[c] == pytest.approx(select_bandwidth("normal-silverman", X[y == c]).value)
    one = KernelDensityClassifier("normal-silverman", shared=True).fit(X, y)
    centred = np.concatenate([X[y == c] - X[y == c].mean() for c in (0, 1)])
    assert one.bandwidth_[0] == one.bandwidth_[1] == pytest.approx(select_bandwidth("normal-silverman", centred).value)
    named = KernelDensityClassifier({0: each.bandwidth_[0], 1: each.bandwidth_[1]}).fit(X, y)
    np.testing.assert_array_equal(named.predict_proba(X), each.predict_proba(X))
    for bad in ({0: 1.0}, {0: 1.0, 1: "mad"}, {0: 1.0, 1: -1.0}):
        with pytest.raises(ValueError, match="bandwidth"):
            KernelDensityClassifier(bad).fit(X, y)


def test_far_queries_have_an_answer():
    X, y = two_normals(60)
    for kernel in ("gaussian", "exponential"):
        model = KernelDensityClassifier(kernel=kernel).fit(X, y)
        far = model.predict_proba([[-1e6], [1e6]])
        np.testing.assert_allclose(far.sum(axis=1), 1.0)
        assert not np.isnan(model.predict_log_proba([[-1e6], [1e6]])).any()
    model = KernelDensityClassifier(0.1, kernel="boxcar").fit(X, y)
    with pytest.warns(NumericalWarning, match="2 of 3 rows lie outside every window") as caught:
        got = model.predict_proba([[-50.0], X[0], [50.0]])
    assert len(caught) == 1
    np.testing.assert_array_equal(got[[0, 2]], np.eye(2)[[y[np.argmin(X)], y[np.argmax(X)]]])


def test_neighbours_are_the_limit():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((150, 3)), np.array(["a", "b", "c"])[rng.integers(0, 3, 150)]
    T = 1.5 * rng.standard_normal((60, 3))
    for k in (1, 7, 150):
        peer = KNeighborsClassifier(k).fit(X, y)
        model = KernelDensityClassifier(neighbors=k).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(T), peer.predict_proba(T), atol=1e-15)
    priors, counts = np.array([0.2, 0.3, 0.5]), np.array([(y == c).sum() for c in "abc"])
    votes = KNeighborsClassifier(9).fit(X, y).predict_proba(T) * priors / counts
    got = KernelDensityClassifier(neighbors=9, priors=priors).fit(X, y).predict_proba(T)
    np.testing.assert_allclose(got, votes / votes.sum(axis=1, keepdims=True), rtol=1e-12)
    with pytest.raises(ValueError, match="neighbors=151 is more than there are training rows: n_samples=150"):
        KernelDensityClassifier(neighbors=151).fit(X, y)


def test_columns_and_classes_without_spread():
    X, y = two_normals(80)
    wide = np.column_stack([X, np.full(80, 3.0)])
    plain, model = KernelDensityClassifier().fit(X, y), KernelDensityClassifier().fit(wide, y)
    np.testing.assert_array_equal(model.columns_, [0])
    np.testing.assert_allclose(model.predict_proba(wide), plain.predict_proba(X), rtol=1e-12)
    nothing = KernelDensityClassifier().fit(wide[:, 1:], y)
    np.testing.assert_allclose(nothing.predict_proba(wide[:3, 1:]), np.tile(np.bincount(y) / 80, (3, 1)))
    X[y == 1] = 2.0
    with pytest.warns(NumericalWarning, match=r"class 1 \(\d+ rows\) has no spread in some column"):
        model = KernelDensityClassifier().fit(X, y)
    assert model.bandwidth_[1] == pytest.approx(select_bandwidth("normal-scott", X).value)


def test_bad_priors():
    X, y = two_normals(40)
    for bad in ([1.0], [0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0], ["a", "b"]):
        with pytest.raises(ValueError, match="priors"):
            KernelDensityClassifier(priors=bad).fit(X, y)
    sure = KernelDensityClassifier(priors=[0.0, 1.0]).fit(X, y)
    np.testing.assert_array_equal(sure.predict_proba(X), np.tile([0.0, 1.0], (40, 1)))

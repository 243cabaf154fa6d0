"""Mixtures of windows, one for each row: SciPy's normal distribution, quadrature, and definitions taken at their word."""

import math

import numpy as np
import pytest
from scipy import stats

from mercer.solvers.mixtures import RowMixtures
from mercer.solvers.windows import SHAPES

EVERY = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
LEVELS = np.array([1e-12, 0.01, 0.3, 0.5, 0.7, 0.99, 1.0 - 1e-12])


def mixtures(shape=None, m=20, K=6, scales=(-1.0, 0.5), seed=0):
    """Random mixtures; a third of the weights are 0."""
    rng = np.random.default_rng(seed)
    W = rng.random((m, K)) * (rng.random((m, K)) > 1 / 3)
    W[:, 0] += 0.01
    return RowMixtures(
        W / W.sum(axis=1, keepdims=True),
        2.0 * rng.standard_normal((m, K)),
        10.0 ** rng.uniform(*scales, (m, K)),
        shape,
    )


def atoms(m=30, K=9, seed=0):
    """Point masses, at whole numbers so that they meet, beside windows."""
    rng = np.random.default_rng(seed)
    W = rng.dirichlet(np.full(K, 0.5), m)
    S = rng.random((m, K)) * (rng.random((m, K)) > 0.5)
    return RowMixtures(W, rng.integers(-3, 4, (m, K)).astype(float), S)


def test_normal_mixtures_are_those_of_scipy():
    mix, t = mixtures(), np.random.default_rng(1).standard_normal((20, 4)) * 3
    each = stats.norm(mix.means[:, None], mix.scales[:, None])
    np.testing.assert_allclose(mix.cdf(t), (mix.weights[:, None] * each.cdf(t[:, :, None])).sum(-1), rtol=1e-13)
    np.testing.assert_allclose(
        mix.log_density(t), np.log((mix.weights[:, None] * each.pdf(t[:, :, None])).sum(-1)), rtol=1e-11
    )
    np.testing.assert_allclose(mix.mean(), (mix.weights * mix.means).sum(1))
    second = (mix.weights * (mix.means**2 + mix.scales**2)).sum(1)
    np.testing.assert_allclose(mix.variance(), second - mix.mean() ** 2, rtol=1e-12)


def nodes(mix, top=np.inf, order=40, parts=12):
    """Nodes and weights of Gauss and Legendre between all the ends and centres of the windows of one row."""
    reach = mix.shape.reach if math.isfinite(mix.shape.reach) else 40.0
    cut = np.unique(np.minimum(np.linspace(-reach, reach, 2 * parts + 1) * mix.scales.T + mix.means.T, top))
    x, w = np.polynomial.legendre.leggauss(order)
    half = np.diff(cut)[:, None] / 2
    return (cut[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


@EVERY
def test_moments_and_distribution_are_integrals_of_the_density(shape):
    for seed in range(5):
        mix = mixtures(shape, m=1, seed=seed)
        t, w = nodes(mix)
        p = w * np.exp(mix.log_density(t[None])[0])
        assert abs(p.sum() - 1.0) < 1e-10
        assert abs(p @ t - mix.mean()[0]) < 1e-10
        assert abs(p @ (t - mix.mean()) ** 2 - mix.variance()[0]) < 1e-9
        t, w = nodes(mix, top=0.7)
        assert abs(w @ np.exp(mix.log_density(t[None])[0]) - mix.cdf(0.7)[0]) < 1e-10


@EVERY
@pytest.mark.parametrize("scales", [(-1.0, 0.5), (-9.0, 3.0)], ids=["alike", "unequal"])
def test_quantiles_are_where_the_distribution_reaches_the_level(shape, scales):
    """To a few units in the last place of t, or of the distribution function."""
    mix = mixtures(shape, scales=scales)
    t = mix.quantile(LEVELS)
    assert (np.diff(t, axis=1) >= 0).all()
    room = 8 * np.spacing(np.abs(t))
    rounding = 1e-14 * np.minimum(LEVELS, 1 - LEVELS) + 2e-16
    assert (mix.cdf(t + room) >= LEVELS - rounding).all()
    assert (mix.cdf(t - room) <= LEVELS + rounding).all()


@EVERY
def test_the_quantile_of_the_distribution_is_the_value(shape):
    mix = mixtures(shape, m=40, K=1)
    t = mix.means[:, 0] + mix.scales[:, 0] * np.linspace(-0.9, 0.9, 40)
    for i, p in enumerate(mix.cdf(t)):
        row = RowMixtures(mix.weights[[i]], mix.means[[i]], mix.scales[[i]], shape)
        assert abs(row.quantile(p)[0, 0] - t[i]) < 1e-13 * (1 + abs(t[i]))


def test_tails_are_exact_where_they_are_small():
    one = RowMixtures([[1.0]], [0.0], 1.0)
    for p in (1e-250, 1e-30, 1e-9, 0.4):
        assert one.quantile(p)[0, 0] == pytest.approx(stats.norm.ppf(p), rel=1e-13)
        assert one.cdf(stats.norm.ppf(p))[0] == pytest.approx(p, rel=1e-10)
    two = RowMixtures([[0.5, 0.5]], [0.0, 0.0], [1.0, 1e-3])
    assert two.quantile(1e-40)[0, 0] == pytest.approx(stats.norm.ppf(2e-40), rel=1e-13)
    far = RowMixtures([[0.25, 0.75]], [0.0, 1.0], 1.0)
    assert far.log_density(1e8)[0] == pytest.approx(-0.5 * (1e8 - 1) ** 2, rel=1e-12)
    assert far.log_density(-1e150)[0] == pytest.approx(-0.5e300)
    heavy = RowMixtures([[1.0]], [0.0], 1.0, SHAPES["exponential"])
    assert heavy.log_density(1e6)[0] == pytest.approx(-1e6 - math.log(2))
    assert heavy.quantile(1e-100)[0, 0] == pytest.approx(math.log(2e-100), rel=1e-13)


def test_ends_of_the_windows():
    boxes = RowMixtures([[0.5, 0.0, 0.5]], [0.0, 100.0, 10.0], [1.0, 1.0, 2.0], SHAPES["boxcar"])
    assert boxes.quantile([0.0, 1.0]).tolist() == [[-1.0, 12.0]]  # a weight of 0 counts for nothing
    assert boxes.quantile(0.5)[0, 0] == pytest.approx(1.0, abs=1e-14)  # the smallest of a gap
    assert boxes.quantile(0.5 + 1e-9)[0, 0] > 8.0
    assert boxes.log_density([5.0])[0] == -np.inf
    assert RowMixtures([[1.0]], [3.0], 1.0).quantile([0.0, 1.0]).tolist() == [[-np.inf, np.inf]]
    assert RowMixtures([[1.0]], [3.0], 1.0).quantile([]).shape == (1, 0)
    assert boxes.cdf([[-np.inf, np.inf]]).tolist() == [[0.0, 1.0]]


def test_point_masses_by_brute_force():
    """The first of the sorted values at which the sum of the weights reaches the level."""
    mix = atoms()
    plain = RowMixtures(mix.weights, mix.means, 0.0)
    p = np.array([0.0, 0.05, 0.31, 0.5, 0.77, 1.0])
    for i, found in enumerate(plain.quantile(p)):
        values = np.unique(plain.means[i])
        reached = np.array([plain.weights[i, plain.means[i] <= v].sum() for v in values])
        np.testing.assert_allclose(plain.cdf(np.tile(values, (30, 1)))[i], reached, atol=1e-15)
        expected = [values[min(np.searchsorted(reached, q - 1e-14), len(values) - 1)] for q in p]
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="no density; give scales above 0"):
        plain.log_density(0.0)


def test_point_masses_beside_windows():
    mix, p = atoms(), np.linspace(0.02, 0.98, 13)
    t = mix.quantile(p)
    room = 8 * np.spacing(np.abs(t) + 1e-300)
    assert (mix.cdf(t + room) >= p - 1e-14).all()
    assert (mix.cdf(t - room) <= p + 1e-14).all()
    whole = t == np.round(t)
    jumps = mix.cdf(t) - mix.cdf(np.nextafter(t, -np.inf)) > 1e-9
    assert jumps.sum() > 50
    assert (whole == jumps).all()  # exactly a mass, or none


def test_very_unequal_scales_end():
    mix = RowMixtures([[0.3, 0.4, 0.3]], [1e200, 0.0, -1e200], [1e150, 1e-200, 1e-5])
    t = mix.quantile([0.1, 0.5, 0.9])[0]
    assert t[0] == pytest.approx(-1e200, rel=1e-15)
    assert abs(t[1]) < 1e-199
    assert t[2] == pytest.approx(1e200)


@EVERY
def test_draws_follow_the_distribution(shape):
    mix = mixtures(shape, m=4)
    drawn = mix.sample(np.random.default_rng(0), 4000)
    assert drawn.shape == (4, 4000)
    for i in range(4):
        row = RowMixtures(mix.weights[[i]], mix.means[[i]], mix.scales[[i]], shape)
        assert stats.kstest(drawn[i], lambda t, row=row: row.cdf(t[None])[0]).pvalue > 1e-3


def test_no_draw_from_a_weight_of_zero():
    W = np.array([[0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])
    drawn = RowMixtures(W, np.arange(5.0), 0.0).sample(np.random.default_rng(0), 2000)
    assert set(drawn[0]) == {1.0, 3.0}
    assert set(drawn[1]) == {2.0}


def test_many_values_at_once(monkeypatch):
    mix, t = mixtures(m=5), np.random.default_rng(2).standard_normal((5, 50))
    together = mix.cdf(t), mix.log_density(t)
    monkeypatch.setattr("mercer.solvers.mixtures._ENTRIES", 90)
    for whole, method in zip(together, (mix.cdf, mix.log_density), strict=True):
        np.testing.assert_array_equal(method(t), whole)
        np.testing.assert_allclose(np.stack([method(column) for column in t.T], axis=1), whole, rtol=1e-14)


def test_rows_do_not_depend_on_one_another():
    mix = mixtures(m=9)
    alone = [RowMixtures(mix.weights[[i]], mix.means[[i]], mix.scales[[i]]).quantile(LEVELS)[0] for i in range(9)]
    np.testing.assert_allclose(mix.quantile(LEVELS), alone, rtol=1e-13)

"""Pictures of densities: curves, contours, bands and marks are the numbers that were computed."""

import numpy as np
import pytest
from scipy import stats

from mercer import KernelDensity, MixtureRegression, NadarayaWatson, bandwidth_scores
from mercer.plots import BandwidthDisplay, ConditionalDensityDisplay, DensityDisplay

plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def rows(n=60, d=1):
    return np.random.default_rng(0).standard_normal((n, d))


def test_a_density_on_the_line():
    X = rows()
    model = KernelDensity(0.4).fit(X)
    shown = DensityDisplay.from_estimator(model, X, resolution=50, label="h = 0.4")
    curve, marks = shown.axes_[0].lines
    assert curve.get_label() == "h = 0.4"
    np.testing.assert_allclose(curve.get_ydata(), np.exp(model.score_samples(curve.get_xdata()[:, None])))
    assert curve.get_xdata()[[0, -1]] == pytest.approx([X.min() - 0.25 * np.ptp(X), X.max() + 0.25 * np.ptp(X)])
    np.testing.assert_array_equal(marks.get_xdata(), X[:, 0])
    assert shown.axes_[0].get_ylim()[0] == 0.0
    assert len(DensityDisplay.from_estimator(model, X, rug=False, color="red").axes_[0].lines) == 1
    own = plt.subplots()[1]
    twice = DensityDisplay.from_estimator(model, X, ax=own)
    assert twice.axes_[0] is own
    assert twice.figure_ is own.figure


def test_a_density_in_the_plane():
    X = rows(d=2) * [1.0, 5.0]
    model = KernelDensity("normal-scott").fit(X)
    shown = DensityDisplay.from_estimator(model, X, resolution=21, levels=6)
    assert shown.values.shape == (21, 21)
    at = np.array([[shown.xs[4], shown.ys[17]]])  # the second index runs along xs
    assert shown.values[17, 4] == pytest.approx(np.exp(model.score_samples(at)[0]))
    filled = shown.axes_[0].collections[0]
    np.testing.assert_allclose(filled.levels, np.linspace(0, shown.values.max(), 7))
    np.testing.assert_allclose(np.column_stack(shown.axes_[0].lines[0].get_data()), X)
    with pytest.raises(ValueError, match=r"one or two columns, got X of shape \(60, 3\)"):
        DensityDisplay.from_estimator(model, rows(d=3))


def test_many_rows_are_thinned():
    X = rows(9000)
    shown = DensityDisplay(np.ones(3), np.arange(3.0), X=X).plot()
    marks = shown.axes_[0].lines[1].get_xdata()
    assert len(marks) == 2000
    assert marks[0] == X[0, 0]
    assert marks[-1] == X[-1, 0]


@pytest.mark.parametrize(
    "model", [NadarayaWatson("gaussian", 0.3), MixtureRegression(2, random_state=0)], ids=["nw", "mixture"]
)
def test_bands_hold_their_share(model):
    X = rows(200)
    t = X[:, 0] ** 2 + 0.3 * np.random.default_rng(1).standard_normal(200)
    model.fit(X, t)
    shown = ConditionalDensityDisplay.from_estimator(model, X, t, levels=(0.5, 0.8), resolution=40)
    ax = shown.axes_[0]
    mean, points = ax.lines
    np.testing.assert_allclose(mean.get_ydata(), model.predict(shown.xs[:, None]))
    np.testing.assert_allclose(np.column_stack(points.get_data()), np.column_stack([X, t]))
    assert shown.levels.tolist() == [0.8, 0.5]
    np.testing.assert_allclose(shown.lower, model.predict_quantiles(shown.xs[:, None], [0.1, 0.25]))
    np.testing.assert_allclose(shown.upper, model.predict_quantiles(shown.xs[:, None], [0.9, 0.75]))
    outline = ax.collections[0].get_paths()[0].vertices
    assert outline[:, 1].min() == pytest.approx(shown.lower[:, 0].min())
    assert outline[:, 1].max() == pytest.approx(shown.upper[:, 0].max())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mean", "80 %", "50 %"]
    draws = model.sample(shown.xs[:, None], 500, random_state=0)
    inside = ((draws > shown.lower[:, :1]) & (draws < shown.upper[:, :1])).mean()
    assert stats.binomtest(int(inside * draws.size), draws.size, 0.8).pvalue > 1e-4
    with pytest.raises(ValueError, match="one column and one target"):
        ConditionalDensityDisplay.from_estimator(model, rows(5, 2), np.zeros(5))
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        ConditionalDensityDisplay.from_estimator(model, X, t, levels=[0.5, 1.0])


def test_scores_of_bandwidths():
    X = rows(200)
    h = np.geomspace(0.03, 3.0, 15)
    shown = BandwidthDisplay.from_scores(h[::-1], bandwidth_scores(X, h[::-1]), ylabel="likelihood")
    ax = shown.axes_[0]
    curve, line, mark = ax.lines
    np.testing.assert_allclose(curve.get_xdata(), h)
    np.testing.assert_allclose(curve.get_ydata(), bandwidth_scores(X, h))
    best = h[np.argmax(bandwidth_scores(X, h))]
    assert shown.chosen == line.get_xdata()[0] == mark.get_xdata()[0] == best
    assert mark.get_ydata()[0] == pytest.approx(bandwidth_scores(X, h).max())
    assert ax.get_xscale() == "log"
    assert ax.get_ylabel() == "likelihood"
    assert ax.get_legend().get_texts()[0].get_text() == f"{best:.3g}"


def test_scores_that_are_none():
    shown = BandwidthDisplay.from_scores([1.0, 2.0, 3.0, 4.0], [-np.inf, 5.0, 2.0, np.nan], largest=False)
    assert shown.chosen == 3.0
    assert shown.axes_[0].lines[0].get_xdata().tolist() == [2.0, 3.0]
    assert shown.axes_[0].get_xscale() == "linear"
    given = BandwidthDisplay.from_scores([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], chosen=2.5)
    assert given.axes_[0].lines[2].get_ydata()[0] == 3.0
    with pytest.raises(ValueError, match="one length"):
        BandwidthDisplay.from_scores([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        BandwidthDisplay.from_scores([1.0], [np.nan])

"""Pictures of decisions, Gram matrices, bands, paths and kernels: what is drawn is what was computed."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import learning_curve
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import SVC, GaussianProcessRegressor, KernelRidge, KernelRidgeCV, L1VMRegressor, LocalRegression, SVCPath
from mercer.diagnostics import effective_rank, spectrum
from mercer.errors import NotPSDError
from mercer.kernels import RBF, Linear, Spectrum, Window
from mercer.plots import (
    ConditionalBandDisplay,
    DecisionRegionDisplay,
    GramDisplay,
    KernelFunctionDisplay,
    PathDisplay,
    SpectrumDisplay,
)
from mercer.plots.functions import _draws

plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def plane(n=60):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2)) * [1.0, 3.0]
    return X, np.where(X[:, 0] + 0.1 * X[:, 1] ** 2 > 0.3, "in", "out")


def line(n=25):
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(0, 6, n))[:, None]
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)


def texts(ax):
    return [t.get_text() for t in ax.get_legend().get_texts()]


# ---------------------------------------------------------------------------------------------- decisions
def test_two_classes_show_decisions_margins_and_support_vectors():
    X, y = plane()
    model = SVC(kernel=RBF(1.0), C=10).fit(X, y)
    shown = DecisionRegionDisplay.from_estimator(model, X, y, resolution=13)
    np.testing.assert_allclose(shown.values[3, 8], model.decision_function([[shown.xs[8], shown.ys[3]]])[0])
    assert shown.response == "decision_function"
    assert shown.levels == (-1.0, 0.0, 1.0)
    ax = shown.axes_[0]
    *_, first, second, circles = ax.collections
    np.testing.assert_array_equal(circles.get_offsets(), model.support_vectors_)
    np.testing.assert_array_equal(first.get_offsets(), X[y == "in"])
    np.testing.assert_array_equal(second.get_offsets(), X[y == "out"])
    assert texts(ax) == ["in", "out", f"support vectors: {len(model.support_)}"]
    assert shown.xs[0] < X[:, 0].min() < X[:, 0].max() < shown.xs[-1]
    lines = ax.collections[1]
    np.testing.assert_array_equal(lines.levels, [-1.0, 0.0, 1.0])
    dashed = [style[1] is not None for style in lines.get_linestyles()]
    assert dashed == [True, False, True]


def test_probabilities_are_of_the_second_class():
    X, y = plane()
    model = LogisticRegression().fit(X, y)
    shown = DecisionRegionDisplay.from_estimator(model, X, response="predict_proba", resolution=9)
    np.testing.assert_allclose(shown.values[2, 5], model.predict_proba([[shown.xs[5], shown.ys[2]]])[0, 1])
    assert shown.levels == (0.5,)
    assert shown.figure_.axes[1].get_ylabel() == "probability of out"
    assert shown.support is None
    assert len(shown.axes_[0].collections) == 3  # shades, the boundary, rows without classes
    plain = DecisionRegionDisplay.from_estimator(model, X, y, resolution=9)
    assert (plain.response, plain.levels) == ("decision_function", (0.0,))


def test_many_classes_show_what_is_predicted():
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = SVC(kernel=RBF(1.0)).fit(X[:, 2:], names)
    shown = DecisionRegionDisplay.from_estimator(
        model, X[:, 2:], names, resolution=15, support=[0, 70], ax=plt.subplots()[1]
    )
    at = [[shown.xs[6], shown.ys[11]]]
    assert shown.classes[shown.values[11, 6]] == model.predict(at)[0]
    np.testing.assert_array_equal(shown.support, X[[0, 70], 2:])
    assert DecisionRegionDisplay.from_estimator(model, X[:, 2:], support=()).axes_[0].get_legend() is None
    with pytest.raises(ValueError, match="one number for two classes, the model has 3"):
        DecisionRegionDisplay.from_estimator(model, X[:, 2:], response="decision_function")


def test_a_pipeline_is_asked_in_its_own_units():
    X, y = plane()
    model = make_pipeline(StandardScaler(), SVC(kernel=RBF(1.0))).fit(X, y)
    shown = DecisionRegionDisplay.from_estimator(model, X, y, resolution=9)
    np.testing.assert_allclose(shown.values[1, 7], model.decision_function([[shown.xs[7], shown.ys[1]]])[0])
    assert shown.support is None  # its support vectors are in scaled units


def test_decisions_refuse_what_they_cannot_show():
    X, y = plane()
    model = SVC(kernel=RBF(1.0)).fit(X, y)
    with pytest.raises(ValueError, match=r"two columns, got X of shape \(4, 3\)"):
        DecisionRegionDisplay.from_estimator(model, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="response='colour' must be one of"):
        DecisionRegionDisplay.from_estimator(model, X, response="colour")
    with pytest.raises(ValueError, match="SVC has no predict_proba"):
        DecisionRegionDisplay.from_estimator(model, X, response="predict_proba")
    with pytest.raises(TypeError, match="needs a classifier, and KernelRidge has no classes_"):
        DecisionRegionDisplay.from_estimator(KernelRidge().fit(X, X[:, 0]), X)
    with pytest.raises(ValueError, match="labels have shape"):
        DecisionRegionDisplay.from_estimator(model, X, y[:3])
    many = GaussianNB().fit(np.arange(24.0).reshape(12, 2), np.arange(12))
    with pytest.raises(ValueError, match="2 to 10 classes apart, the model has 12"):
        DecisionRegionDisplay.from_estimator(many, X)


# ---------------------------------------------------------------------------------------------- Gram matrices
def test_a_gram_keeps_its_order_or_follows_numbers():
    X, _ = plane(30)
    K = RBF(1.0)(X)
    shown = GramDisplay.from_kernel(RBF(1.0), X)
    np.testing.assert_allclose(shown.K, K)
    np.testing.assert_allclose(shown.axes_[0].images[0].get_array(), K)
    assert shown.axes_[0].get_title() == ""
    order = np.argsort(X[:, 1])
    by = GramDisplay.from_gram(K, by=X[:, 1])
    np.testing.assert_array_equal(by.order, order)
    np.testing.assert_allclose(by.K, K[np.ix_(order, order)])
    assert not by.axes_[0].lines
    with pytest.raises(ValueError, match="two orders"):
        GramDisplay.from_gram(K, np.zeros(30), by=np.zeros(30))
    with pytest.raises(ValueError, match=r"by has shape \(3,\), but there are 30 rows"):
        GramDisplay.from_gram(K, by=np.zeros(3))


def test_rows_that_are_left_out_are_told():
    X = np.linspace(0, 1, 1300)[:, None]
    shown = GramDisplay.from_kernel(RBF(1.0), X, by=-X[:, 0])
    assert shown.K.shape == (600, 600)
    assert shown.order[0] == 1299
    assert shown.order[-1] == 0
    assert shown.axes_[0].get_title() == "600 of 1300 rows"


def test_eigenvalues_with_the_effective_dimension():
    X, _ = plane(40)
    K = RBF(1.0)(X)
    shown = SpectrumDisplay.from_kernel(RBF(1.0), X, alpha=0.1)
    np.testing.assert_allclose(shown.values, spectrum(K), atol=1e-12)
    np.testing.assert_allclose(shown.effective_dimension_, effective_rank(K, alpha=0.1))
    ax = shown.axes_[0]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), shown.values[shown.values > 0])
    assert ax.get_yscale() == "log"
    assert texts(ax)[-1] == f"alpha = 0.1: effective dimension {shown.effective_dimension_:.3g}"
    assert ax.get_title() == "eigenvalues of the Gram matrix of 40 rows"
    some = SpectrumDisplay.from_kernel(RBF(1.0), X, rows=10)
    assert some.axes_[0].get_title() == "eigenvalues of the Gram matrix of 10 of 40 rows"
    chosen = np.linspace(0, 39, 10).astype(int)
    np.testing.assert_allclose(some.values, spectrum(K[np.ix_(chosen, chosen)]), atol=1e-12)
    with pytest.raises(ValueError, match="alpha"):
        SpectrumDisplay.from_gram(K, alpha=-1.0)


def test_eigenvalues_below_zero_and_rounding_are_told():
    shown = SpectrumDisplay.from_gram([[0.0, 2.0], [2.0, 0.0]])
    assert texts(shown.axes_[0]) == ["below zero, its size"]
    np.testing.assert_allclose(shown.axes_[0].lines[1].get_ydata(), [2.0])
    X = np.linspace(0, 1, 30)[:, None]
    assert "rounding" in texts(SpectrumDisplay.from_kernel(RBF(1.0), X).axes_[0])


# ---------------------------------------------------------------------------------------------- bands
def test_bands_of_a_gaussian_process():
    X, t = line()
    model = GaussianProcessRegressor(RBF(1.0), alpha=0.01, optimizer=None).fit(X, t)
    shown = ConditionalBandDisplay.from_estimator(model, X, t, levels=(0.5, 0.9), resolution=11)
    mean, std = model.predict(shown.xs[:, None], return_std=True)
    np.testing.assert_allclose(shown.mean, mean)
    np.testing.assert_allclose(shown.upper, mean[:, None] + norm.ppf([0.95, 0.75]) * std[:, None])
    np.testing.assert_allclose(shown.lower + shown.upper, 2 * np.column_stack([mean, mean]))
    np.testing.assert_array_equal(shown.levels, [0.9, 0.5])
    assert texts(shown.axes_[0]) == ["mean", "90 %", "50 %"]
    assert shown.xs[0] < X.min()
    noisy = ConditionalBandDisplay.from_estimator(model, X, t, noise=True, levels=0.9, resolution=11)
    np.testing.assert_allclose((noisy.upper - noisy.lower)[:, 0] / 2 / norm.ppf(0.95), np.hypot(std, 0.1))


def test_bands_of_a_model_that_gives_them():
    X, t = line()
    model = LocalRegression().fit(X, t)
    shown = ConditionalBandDisplay.from_estimator(model, X, t, levels=(0.8,), margin=0.0, resolution=7)
    low, high = model.predict_interval(shown.xs[:, None], 0.8)
    np.testing.assert_allclose(shown.lower[:, 0], low)
    np.testing.assert_allclose(shown.upper[:, 0], high)
    with pytest.raises(ValueError, match="noise=True: LocalRegression"):
        ConditionalBandDisplay.from_estimator(model, X, t, noise=True)
    with pytest.raises(TypeError, match="KernelRidge does not say how sure"):
        ConditionalBandDisplay.from_estimator(KernelRidge().fit(X, t), X, t)
    with pytest.raises(ValueError, match="one column and one target"):
        ConditionalBandDisplay.from_estimator(model, np.zeros((4, 2)), np.zeros(4))
    with pytest.raises(ValueError, match="between 0 and 1"):
        ConditionalBandDisplay.from_estimator(model, X, t, levels=95)
    two = GaussianProcessRegressor(RBF(1.0), optimizer=None).fit(X, np.column_stack([t, t]))
    with pytest.raises(ValueError, match="one target, the model predicts 2"):
        ConditionalBandDisplay.from_estimator(two, X, t)


# ---------------------------------------------------------------------------------------------- paths
def test_the_path_of_a_ridge():
    X, t = line()
    model = KernelRidgeCV([10.0, 1e-3, 0.1], kernel=RBF(1.0)).fit(X, t)
    shown = PathDisplay.from_estimator(model)
    ax = shown.axes_[0]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [1e-3, 0.1, 10.0])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), model.scores_[[1, 2, 0]])
    assert ax.get_xscale() == "log"
    assert texts(ax) == ["left out", f"chosen: {model.alpha_:.4g}"]
    assert ax.get_ylabel() == "mean squared error, leave-one-out"
    assert ax.lines[1].get_xdata()[0] == model.alpha_
    both = KernelRidgeCV([1e-3, 0.1], kernel=RBF(1.0), alpha_per_target=True).fit(X, np.column_stack([t, X[:, 0]]))
    assert list(PathDisplay.from_estimator(both).curves) == ["target 0", "target 1"]


def test_paths_of_support_vector_and_sparse_machines():
    X, y = plane(40)
    model = SVCPath([0.1, 10.0], kernel=RBF(), kernel_grid={"lengthscale": [0.5, 2.0]}, cv=2).fit(X, y)
    shown = PathDisplay.from_estimator(model)
    assert list(shown.curves) == ["lengthscale=0.5", "lengthscale=2"]
    np.testing.assert_allclose(shown.curves["lengthscale=2"][:, 0], model.scores_[1])
    assert shown.chosen == model.C_
    X, t = line()
    sparse = L1VMRegressor(kernel=RBF(1.0), alpha="cv", cv=3).fit(X, t)
    shown = PathDisplay.from_estimator(sparse)
    order = np.argsort(sparse.alphas_)
    np.testing.assert_allclose(shown.axes_[0].lines[0].get_ydata(), sparse.cv_scores_.mean(axis=1)[order])
    band = shown.axes_[0].collections[0].get_paths()[0].vertices
    half = sparse.cv_scores_.std(axis=1)[order]
    np.testing.assert_allclose(band[1 : len(order) + 1, 1], sparse.cv_scores_.mean(axis=1)[order] - half)
    with pytest.raises(TypeError, match="KernelRidge keeps no scores of a path"):
        PathDisplay.from_estimator(KernelRidge().fit(X, t))


def test_models_along_a_path_and_learning_curves():
    X, y = plane(50)
    models = SVC(kernel=RBF(1.0)).path(X, y, [10.0, 0.1, 1.0])
    shown = PathDisplay.from_models(models, "C", lambda m: len(m.support_), ylabel="support vectors")
    np.testing.assert_array_equal(shown.axes_[0].lines[0].get_ydata(), [len(models[i].support_) for i in (1, 2, 0)])
    assert shown.axes_[0].get_xlabel() == "C"
    curve = PathDisplay.from_learning_curve(SVC(kernel=RBF(1.0)), X, y, sizes=[0.5, 1.0], cv=2)
    counts, train, test = learning_curve(
        SVC(kernel=RBF(1.0)), X, y, train_sizes=[0.5, 1.0], cv=2, shuffle=True, random_state=0
    )
    np.testing.assert_array_equal(curve.values, counts)
    np.testing.assert_allclose(curve.curves["rows left out"], test)
    np.testing.assert_allclose(curve.curves["rows learned from"], train)
    assert curve.axes_[0].get_xscale() == "linear"
    with pytest.raises(ValueError, match=r"curve 'score' has shape \(2, 1\), but there are 3 values"):
        PathDisplay([1, 2, 3], [1.0, 2.0])
    with pytest.raises(ValueError, match="expected a list of numbers"):
        PathDisplay([], [])


# ---------------------------------------------------------------------------------------------- kernels
def test_a_kernel_as_a_function_with_draws():
    k = RBF(0.5) + Linear()
    shown = KernelFunctionDisplay.from_kernel(k, at=[-1.0, 2.0], resolution=50, draws=3)
    np.testing.assert_allclose(shown.axes_[0].lines[1].get_ydata(), k(shown.xs[:, None], [[2.0]])[:, 0])
    assert texts(shown.axes_[0]) == ["x0 = -1", "x0 = 2"]
    assert shown.axes_[0].get_title() == repr(k)
    np.testing.assert_array_equal(shown.axes_[1].lines[2].get_ydata(), shown.draws[:, 2])
    again = KernelFunctionDisplay.from_kernel(k, resolution=50, draws=3)
    np.testing.assert_array_equal(again.draws, shown.draws)
    xs = np.linspace(-1, 1, 20)
    np.testing.assert_allclose(np.cov(_draws(k, xs, 20000, 0)), k(xs[:, None]), atol=0.1)


def test_kernels_that_have_no_such_picture():
    with pytest.raises(NotPSDError, match="a draw of functions"):
        KernelFunctionDisplay.from_kernel(Window(), draws=1)
    with pytest.raises(TypeError, match="this picture is of kernels of numbers"):
        KernelFunctionDisplay.from_kernel(Spectrum(2))
    with pytest.raises(ValueError, match=r"low=3\.0 must be a number below high=1\.0"):
        KernelFunctionDisplay.from_kernel(RBF(), low=3.0, high=1.0)
    with pytest.raises(ValueError, match="resolution=5000 must lie between 2 and 1000"):
        KernelFunctionDisplay.from_kernel(RBF(), resolution=5000)
    with pytest.raises(ValueError, match="draws=101 must lie between 0 and 100"):
        KernelFunctionDisplay.from_kernel(RBF(), draws=101)
    with pytest.raises(ValueError, match="at="):
        KernelFunctionDisplay.from_kernel(RBF(), at=[np.nan])

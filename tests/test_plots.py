"""Pictures: what they show is what was computed, wrong data are refused, and the examples run."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from mercer import GPLVM, KernelKMeans, KernelPCA
from mercer.kernels import RBF
from mercer.plots import (
    ClusteredGramDisplay,
    EigenfunctionsDisplay,
    EmbeddingDisplay,
    ImageStripDisplay,
    LatentSpaceDisplay,
)

plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")
EXAMPLES = Path(__file__).parents[1] / "examples"
SMALLER = {"plot_co2": {"ROWS": 50, "DEPTH": 1}}  # the whole takes half a minute


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def data(n=40):
    return np.random.default_rng(0).standard_normal((n, 2))


def test_eigenfunctions_are_the_components_on_the_grid():
    X = data()
    model = KernelPCA(5, kernel=RBF(1.0)).fit(X)
    shown = EigenfunctionsDisplay.from_estimator(model, X, n_components=3, resolution=11)
    assert shown.values.shape == (3, 11, 11)
    at = np.array([[shown.xs[7], shown.ys[2]]])
    np.testing.assert_allclose(shown.values[:, 2, 7], model.transform(at)[0, :3])
    assert len(shown.axes_) == 3
    assert shown.axes_[0].get_title() == f"1: {100 * model.explained_variance_ratio_[0]:.2g} %"
    plain = EigenfunctionsDisplay.from_estimator(PCA(2).fit(X), X, axes=plt.subplots(1, 2)[1])
    assert plain.figure_ is plain.axes_[0].figure
    with pytest.raises(ValueError, match="two columns"):
        EigenfunctionsDisplay.from_estimator(model, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="axes holds 1 axes, but there are 3"):
        EigenfunctionsDisplay.from_estimator(model, X, n_components=3, axes=plt.subplots()[1])


def test_points_are_coloured_by_label():
    X = data()
    y = np.repeat(["a", "b"], 20)
    model = KernelPCA(3, kernel=RBF(1.0)).fit(X)
    shown = EmbeddingDisplay.from_estimator(model, X, y, components=(0, 2))
    points = shown.axes_[0].collections
    np.testing.assert_allclose(points[1].get_offsets(), model.transform(X)[20:, [0, 2]])
    assert [t.get_text() for t in shown.axes_[0].get_legend().get_texts()] == ["a", "b"]
    assert shown.axes_[0].get_ylabel() == "component 3"
    assert len(EmbeddingDisplay.from_estimator(model, X).axes_[0].collections) == 1
    with pytest.raises(ValueError, match="but the model has 3"):
        EmbeddingDisplay.from_estimator(model, X, components=(0, 3))
    with pytest.raises(ValueError, match="labels have shape"):
        EmbeddingDisplay.from_estimator(model, X, y[:3])


def test_latent_positions_are_on_a_map_of_what_is_known():
    rows = np.random.default_rng(0).standard_normal((20, 4)) * [1.0, 5.0, 0.2, 1.0]
    y = np.repeat(["a", "b"], 10)
    model = GPLVM(3, normalize=True, init=rows[:, :3] + 0.5, optimizer=None).fit(rows)
    shown = LatentSpaceDisplay.from_estimator(model, y, components=(2, 0), resolution=9)
    points, X = shown.axes_[0].collections, model.embedding_
    assert points[0] is shown.image_
    np.testing.assert_allclose(points[2].get_offsets(), X[10:, [2, 0]])
    at = X.mean(axis=0)
    at[[2, 0]] = shown.xs[7], shown.ys[2]
    std = model.inverse_transform(at[None], return_std=True)[1][0] / rows.std(axis=0)
    np.testing.assert_allclose(shown.uncertainty[2, 7], np.log(np.sqrt(np.mean(std**2))))
    assert shown.xs[0] < X[:, 2].min() < X[:, 2].max() < shown.xs[-1]
    assert shown.axes_[0].get_xlabel() == "position 3"
    shades = shown.image_.to_rgba([shown.uncertainty.min(), shown.uncertainty.max()])[:, 0]
    assert shades[0] > 0.95 > 0.7 > shades[1] > 0.2  # the less is known the darker, but not black
    assert len(LatentSpaceDisplay.from_estimator(model).axes_[0].collections) == 2
    with pytest.raises(ValueError, match="but the model has 3"):
        LatentSpaceDisplay.from_estimator(model, components=(0, 3))
    with pytest.raises(ValueError, match="two columns of positions, but the model has 1"):
        LatentSpaceDisplay.from_estimator(GPLVM(1, optimizer=None).fit(rows))
    with pytest.raises(ValueError, match="labels have shape"):
        LatentSpaceDisplay.from_estimator(model, y[:3])


def test_a_gram_is_put_in_the_order_of_its_clusters():
    X = np.vstack([data(20) - 4, data(15) + 4])[np.random.default_rng(1).permutation(35)]
    labels = KernelKMeans(2, kernel=RBF(1.0), n_init=5, random_state=0).fit_predict(X)
    shown = ClusteredGramDisplay.from_kernel(RBF(1.0), X, labels)
    order = np.argsort(labels, kind="stable")
    np.testing.assert_allclose(shown.K, RBF(1.0)(X)[np.ix_(order, order)])
    np.testing.assert_allclose(ClusteredGramDisplay.from_gram(RBF(1.0)(X), labels).K, shown.K)
    lines = [line.get_xdata()[0] for line in shown.axes_[0].lines[1::2]]
    assert lines == [19.5]  # the larger cluster is number 0
    assert [t.get_text() for t in shown.axes_[0].get_xticklabels()] == ["0", "1"]
    assert ClusteredGramDisplay.from_kernel(RBF(1.0), data(1500), np.zeros(1500)).K.shape == (600, 600)
    with pytest.raises(ValueError, match="square"):
        ClusteredGramDisplay.from_gram(np.zeros((2, 3)), [0, 1])


def test_strips_of_images():
    rows = {"clean": np.arange(18.0).reshape(2, 9), "noisy": np.ones((2, 9))}
    shown = ImageStripDisplay.from_rows(rows)
    assert shown.axes_.shape == (2, 2)
    np.testing.assert_array_equal(shown.axes_[0, 1].images[0].get_array(), np.arange(9.0, 18).reshape(3, 3))
    assert shown.axes_[1, 0].get_ylabel() == "noisy"
    with pytest.raises(ValueError, match=r"8 numbers are not 2 x 2; pass shape"):
        ImageStripDisplay.from_rows({"a": np.zeros((2, 8))})
    with pytest.raises(ValueError, match="found shapes"):
        ImageStripDisplay.from_rows({"a": np.zeros((2, 9)), "b": np.zeros((3, 9))})


@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")  # some pre-images are poor, which is shown
@pytest.mark.parametrize("name", sorted(p.stem for p in EXAMPLES.glob("plot_*.py")))
def test_examples_run(name, tmp_path, capsys, monkeypatch):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for constant, value in SMALLER.get(name, {}).items():
        monkeypatch.setattr(example, constant, value)
    if name == "plot_oil_flow":
        monkeypatch.delenv("MERCER_DATA", raising=False)
        with pytest.raises(SystemExit, match="set MERCER_DATA"):
            example.main(tmp_path)
        return
    example.main(tmp_path)
    assert all(path.stat().st_size > 5000 for path in tmp_path.glob("*.png"))
    assert "picture" in capsys.readouterr().out
    assert list(tmp_path.glob("*.png"))

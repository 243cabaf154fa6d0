"""ONNX files: onnxruntime says the same as the models that were written, and what cannot be written is refused by name."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris

import mercer
from cases import kernel_cases
from estimator_cases import ESTIMATOR_CASES, regression
from mercer import (
    SVC,
    KernelDensity,
    KernelRidge,
    OneClassSVM,
    RVMRegressor,
    export_onnx,
)
from mercer.export.graphs import Graph
from mercer.export.kernels import KernelNodes, refuse_unwritable
from mercer.kernels import RBF, Laplacian, Linear, Matern, Pairwise, Spectrum
from mercer.kernels.trace import lower

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

TOLERANCE = {"float64": 1e-9, "float32": 1e-5}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def answers(path, X):
    """{name: output} of a file."""
    run = session(str(path))
    return dict(zip([o.name for o in run.get_outputs()], run.run(None, {"X": X}), strict=True))


# ------------------------------------------------------------------------------------------------ kernels
def written(kernel):
    try:
        refuse_unwritable(kernel)
    except ValueError:
        return False
    return True


def vector_cases(composites):
    return [c for c in kernel_cases(composites) if c.vectors and written(c.kernel.resolve(c.X()))]


def check_kernel(case, dtype):
    """Values on new rows, some of them equal to fixed ones, and the diagonal."""
    X, T = case.X(dtype), np.concatenate([case.Y(dtype), case.X(dtype)[:3]])
    kernel = case.kernel.resolve(case.X())
    graph = Graph(dtype)
    nodes = KernelNodes(graph, lower(kernel), X, graph.argument("X", ["m", X.shape[1]]))
    outputs = {"K": (nodes.block(), dtype, ["m", len(X)]), "own": (nodes.diagonal(), dtype, ["m", 1])}
    K, own = session(graph.model("kernel", outputs, {}).SerializeToString()).run(None, {"X": T})
    assert K.dtype == dtype
    exact = kernel(T.astype(float), X.astype(float)), kernel.diag(T.astype(float))
    tolerance = max(TOLERANCE[dtype], case.tolerance("angle", dtype) if case.angle else 0.0)
    for got, want in zip((K, own[:, 0]), exact, strict=True):
        assert got.shape == want.shape
        assert np.abs(got - want).max() <= tolerance * max(1.0, np.abs(want).max())


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", vector_cases(0), ids=lambda c: str(c)[:60])
def test_kernels_agree(case, dtype):
    check_kernel(case, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_composites_agree(dtype):
    for case in vector_cases(60):
        check_kernel(case, dtype)


def test_most_kernels_of_vectors_are_written():
    names = {type(c.kernel).__name__ for c in vector_cases(0)}
    assert names >= set("RBF Laplacian Matern RationalQuadratic Multiquadric InverseMultiquadric ThinPlate Window Triangular "
                        "Epanechnikov Biweight Tricube CosineWindow Periodic Linear Polynomial Sigmoid Cosine QuadraticForm "
                        "Tanimoto ArcCosine ArcSine Constant White BSpline Intersection AdditiveChi2 Chi2 Brownian "
                        "LinearSpline ANOVA Categorical Sum Product Scaled Difference Power Exp Tanh Poly Gaussian Normalise "
                        "Centre On Named Minimum Maximum".split())  # fmt: skip


def shout(x, y):
    return 1.0


@pytest.mark.parametrize(
    ("kernel", "part", "why"),
    [
        (2 * RBF() + Matern(0.7), r"Matern\(nu=0.7\)", "no function matern"),
        (RBF() * Pairwise(shout), r"Pairwise\(shout\)", "pair by pair"),
        (RBF() + Linear().warp(np.exp), r"Linear\(\).warp\(exp\)", "by code"),
        (RBF() * Linear().times(np.sum), r"Linear\(\).times\(sum\)", "function in Python"),
        (RBF().on(0) * Spectrum(2).on(1), r"Spectrum\(", "objects"),
        ((RBF() + Matern(0.7)).centre([[0.0], [1.0]]), r"Matern\(nu=0.7\)", "no function matern"),
    ],
)
def test_parts_without_nodes_are_named(kernel, part, why):
    with pytest.raises(ValueError, match=f"^{part}.*cannot be written as ONNX: .*{why}"):
        refuse_unwritable(kernel)


def test_rows_far_from_zero_keep_their_digits(path):
    X, y = regression(40)
    far = (X + 1000.0).astype(np.float32)
    model = KernelRidge(kernel=RBF(1.5), alpha=1.0).fit(far, y)
    export_onnx(model, path)
    exact = KernelRidge(kernel=RBF(1.5), alpha=1.0).fit(far.astype(float), y).predict(far.astype(float))
    np.testing.assert_allclose(answers(path, far)["predict"], exact, atol=2e-5)


# ------------------------------------------------------------------------------------------------ machines
SKIPPED = (mercer.GPLVM, KernelDensity, mercer.KernelDensityClassifier, mercer.KMedoids, mercer.NearestMedoidClassifier,
           mercer.KernelNeighborsClassifier, mercer.KernelNeighborsRegressor, mercer.MeanShift, mercer.MixtureRegression,
           mercer.NadarayaWatson, mercer.LocalRegression, mercer.Nystroem, mercer.GaussianProcessClassifier,
           mercer.RandomFourierFeatures, mercer.PolynomialSketch)  # fmt: skip


def machines():
    return [c for c in ESTIMATOR_CASES if not isinstance(c.estimator, SKIPPED) and not c.precomputed]


def fitted(case, three=False):
    X, y = case.data(30)
    if three:
        y = np.array(["far", "near", "mid"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    return clone(case.estimator).fit(X, y)


def refusable(model):
    """Machines that are no expansion, each refused with its reason."""
    return (
        getattr(model, "variant", None) == "voted"
        or getattr(model, "moderated", False)
        or getattr(model, "normalised", False)
        or getattr(model, "mean", None) == "linear"
        or getattr(model, "slopes_", None) is not None
    )


def check_machine(model, path, dtype, T):
    export_onnx(model, path, dtype=dtype)
    found = answers(path, T.astype(dtype))
    assert "predict" in found or "transform" in found
    for name, got in found.items():
        want = getattr(model, name)(T)
        assert got.shape == want.shape
        if name == "predict" and want.dtype.kind in "OUiub":
            assert got.tolist() == want.tolist()
        else:
            assert np.abs(got - want).max() <= TOLERANCE[dtype] * scale(model, T, want)
    return found


def scale(model, T, want):
    """What an answer is a sum of: float32 cannot be more exact than its largest terms."""
    e = model.expansion_
    terms = np.abs(e.kernel(T, e.centres)) @ np.abs(e.coefficients) if e.centres.shape[0] else np.zeros(1)
    return max(1.0, np.abs(want).max(), terms.max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", machines(), ids=lambda c: str(c)[:60])
def test_machines_agree(case, path):
    model, T = fitted(case), np.random.default_rng(3).standard_normal((20, 3))
    if refusable(model):
        with pytest.raises(ValueError, match=r"expansion|linear"):
            export_onnx(model, path)
        assert not path.exists()
        return
    check_machine(model, path, "float64", T)
    if is_classifier(model):
        path.unlink()
        check_machine(fitted(case, three=True), path, "float32", T)


@pytest.mark.parametrize("case", [c for c in ESTIMATOR_CASES if isinstance(c.estimator, SKIPPED)][::7], ids=str)
def test_other_estimators_are_refused(case, path):
    with pytest.raises(TypeError, match="one kernel expansion"):
        export_onnx(case.estimator, path)


@pytest.mark.parametrize(
    "options", [{}, {"break_ties": True}, {"decision_function_shape": "ovo"}, {"multi_class": "ovr"}]
)
def test_many_classes_decide_as_predict(options, path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.integers(0, 4, 60)  # noise: votes are often equal
    model = SVC(kernel=RBF(), **options).fit(X, y)
    found = check_machine(model, path, "float64", rng.standard_normal((300, 2)))
    assert found["predict"].dtype == np.int64


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_a_machine(classes, path):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes][::2], y[y < classes][::2]
    with pytest.warns(FutureWarning, match="deprecated"):
        model = SVC(probability=True, random_state=0).fit(X, y)
    found = check_machine(model, path, "float64", X)
    np.testing.assert_allclose(found["predict_proba"].sum(axis=1), 1.0)


@pytest.mark.parametrize("labels", [[False, True], [1.0, 2.0], ["no", "yes"], np.array([3, 9], np.int8)], ids=str)
def test_labels_of_every_kind(labels, path):
    X, y = regression(30)
    model = SVC().fit(X, np.asarray(labels)[(y > 0).astype(int)])
    export_onnx(model, path)
    assert answers(path, X)["predict"].tolist() == model.predict(X).tolist()


def test_machines_without_vectors_and_with_several_outputs(path):
    X, y = regression(30)
    constant = mercer.SVR(epsilon=100.0).fit(X, y)
    assert len(constant.support_) == 0
    check_machine(constant, path, "float64", X)
    both = KernelRidge(kernel=RBF()).fit(X, np.column_stack([y, -y]))
    export_onnx(both, path, force=True)
    np.testing.assert_allclose(answers(path, X)["predict"], both.predict(X), atol=1e-12)


def test_sparse_rows_and_a_compressed_machine(path):
    X, y = regression(40)
    model = SVC(kernel=RBF()).fit(sp.csr_array(np.where(X > 0, X, 0.0)), y > 0)
    check_machine(model, path, "float64", np.where(X > 0, X, 0.0))
    small = mercer.compress(model, 5)
    export_onnx(small, path, force=True)
    np.testing.assert_allclose(answers(path, X)["decision_function"], small.decision_function(X), atol=1e-9)


def test_the_precision_follows_the_rows(path):
    X, y = regression(30)
    model = KernelRidge(kernel=Laplacian(1.0)).fit(X.astype(np.float32), y)
    export_onnx(model, path)
    assert answers(path, X.astype(np.float32))["predict"].dtype == np.float32
    export_onnx(model, path, dtype="float64", force=True)
    assert answers(path, X)["predict"].dtype == np.float64


# ------------------------------------------------------------------------------------------------ files
def test_a_file_says_what_it_holds(path):
    X, _ = regression(30)
    export_onnx(OneClassSVM(kernel=RBF(1.5)).fit(X), path)
    made = onnx.load(path)
    onnx.checker.check_model(made, full_check=True)
    about = {p.key: p.value for p in made.metadata_props}
    assert about["class"] == "OneClassSVM"
    assert about["kernel"] == "RBF(lengthscale=1.5)"
    assert about["mercer"] == mercer.__version__
    assert int(about["training_rows"]) < 30
    assert [i.name for i in made.graph.input] == ["X"]
    assert made.opset_import[0].version == 18


def test_an_earlier_file_is_kept_unless_it_may_go(path):
    X, y = regression(30)
    model = KernelRidge(kernel=RBF()).fit(X, y)
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="force=True"):
        export_onnx(model, path)
    assert path.read_text() == "mine"
    export_onnx(model, path, force=True)
    assert answers(path, X)["predict"].shape == (30,)


def test_what_cannot_be_written_is_said(path):
    X, y = regression(30)
    with pytest.raises(ValueError, match=r'dtype=.float16. must be "float32", "float64" or None'):
        export_onnx(KernelRidge().fit(X, y), path, dtype="float16")
    with pytest.raises(ValueError, match="precomputed"):
        export_onnx(KernelRidge(kernel="precomputed").fit(RBF()(X), y), path)
    with pytest.raises(ValueError, match=r"Spectrum\(.*objects"):
        export_onnx(KernelRidge(kernel=Spectrum(2)).fit(["ab", "ba", "aa"], [0.0, 1.0, 2.0]), path)
    with pytest.raises(TypeError, match="not int"):
        export_onnx(3, path)
    with pytest.raises(Exception, match="not fitted"):
        export_onnx(KernelRidge(), path)
    with pytest.raises(FileNotFoundError, match="make it first"):
        export_onnx(KernelRidge().fit(X, y), path.parent / "none" / "m.onnx")


def test_a_missing_package_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "mercer\[onnx\]"'):
        export_onnx(KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0]), path)


def test_a_file_beyond_two_gigabytes_is_refused(path, monkeypatch):
    monkeypatch.setattr("mercer.export.graphs.LARGEST", 10**6 + 100)
    X, y = regression(30)
    with pytest.raises(ValueError, match="at most 2 GB"):
        export_onnx(KernelRidge(kernel=RBF()).fit(X, y), path)


def test_any_number_of_rows(path):
    X, y = regression(30)
    model = RVMRegressor(kernel=RBF(1.5)).fit(X, y)
    export_onnx(model, path)
    for m in (1, 2, 30):
        np.testing.assert_allclose(answers(path, X[:m])["predict"], model.predict(X[:m]), atol=1e-9)

"""LIBSVM itself as the peer of its files (package libsvm-official, where it is installed), and real data through all formats."""

from ctypes import c_double

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

import mercer
from mercer import SVC, SVR, NuSVC, OneClassSVM, export_onnx, from_libsvm, to_libsvm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def rows_of(X):
    return [{j + 1: float(v) for j, v in enumerate(row) if v} for row in X]


def their_values(svm, model, X):
    """Labels and pair values. Not by svm_predict, whose buffer is too short for nu_svc with several classes."""
    k = max(model.get_nr_class(), 2)
    out, labels, values = (c_double * (k * (k - 1) // 2))(), [], []
    for row in rows_of(X):
        nodes, _ = svm.gen_svm_nodearray(row)
        labels.append(svm.libsvm.svm_predict_values(model, nodes, out))
        values.append(list(out))
    return np.array(labels), np.array(values)


@pytest.mark.parametrize("kernel", range(4))
@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_libsvm_reads_and_writes_the_same(tmp_path, classes, kind, kernel):
    svmutil = pytest.importorskip("libsvm.svmutil", reason="libsvm-official is not installed")
    svm = pytest.importorskip("libsvm.svm")
    rng = np.random.default_rng(classes)
    X, T = rng.standard_normal((60, 4)), rng.standard_normal((40, 4))
    y = np.array([7, -2, 3, 0])[rng.integers(0, classes, 60)]
    options = f"-s {kind} -t {kernel} -g 0.3 -r 0.5 -d 2 -n 0.2 -q"
    problem = svm.svm_problem(y.tolist(), rows_of(X))
    theirs = svmutil.svm_train(problem, svm.svm_parameter(options))
    svmutil.svm_save_model(str(tmp_path / "theirs"), theirs)
    theirs = svmutil.svm_load_model(str(tmp_path / "theirs"))  # which is written with 8 digits of the rows
    ours = from_libsvm(tmp_path / "theirs", n_features=4)
    labels, values = their_values(svm, theirs, T)
    np.testing.assert_allclose(ours.predict(T), labels, atol=1e-9)
    to_libsvm(ours, tmp_path / "again")
    again, again_values = their_values(svm, svmutil.svm_load_model(str(tmp_path / "again")), T)
    np.testing.assert_allclose(again, labels, atol=1e-9)
    # Of two classes the labels may stand the other way round.
    np.testing.assert_allclose(np.abs(again_values), np.abs(values), atol=1e-9 * max(1.0, np.abs(values).max()))


@pytest.mark.parametrize(
    "model", [SVC(C=10), SVC(kernel="poly", degree=2), NuSVC(nu=0.1), OneClassSVM(nu=0.1), SVR(C=10)], ids=str
)
def test_digits_through_both_formats(tmp_path, model):
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    X, y = load_digits(return_X_y=True)
    model.fit(X[:900], y[:900])
    to_libsvm(model, tmp_path / "m.model")
    np.testing.assert_allclose(from_libsvm(tmp_path / "m.model", n_features=64).predict(X), model.predict(X), atol=1e-9)
    export_onnx(model, tmp_path / "m.onnx")
    session = ort.InferenceSession(str(tmp_path / "m.onnx"))
    np.testing.assert_allclose(session.run(["predict"], {"X": X})[0], model.predict(X), atol=1e-9)


def test_columns_of_very_different_sizes_in_float32(tmp_path):
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    X, y = load_breast_cancer(return_X_y=True)
    kernel = mercer.kernels.RBF(5.0 * X.std(axis=0))
    model = SVC(kernel=kernel).fit(X, y)
    export_onnx(model, tmp_path / "m.onnx", dtype="float32")
    values = ort.InferenceSession(str(tmp_path / "m.onnx")).run(["decision_function"], {"X": X.astype(np.float32)})[0]
    np.testing.assert_allclose(values, model.decision_function(X), atol=2e-4)

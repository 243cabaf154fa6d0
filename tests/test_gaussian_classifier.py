"""Laplace's approximation against scikit-learn, brute force, finite differences and sampling."""

import pickle

import numpy as np
import pytest
import sklearn.gaussian_process.kernels as theirs
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.gaussian_process import GaussianProcessClassifier as Sklearn

from mercer import GaussianProcessClassifier
from mercer.errors import ConvergenceWarning, NotPSDError
from mercer.kernels import RBF, Sigmoid, Spectrum
from mercer.solvers.laplace import averaged, averaged_softmax, laplace


def data(n=60, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.digitize(
        X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.standard_normal(n), np.linspace(-1, 1, classes + 1)[1:-1]
    )


def test_two_classes_as_in_scikit_learn():
    X, y = data()
    T = data(seed=1)[0]
    peer = Sklearn(theirs.ConstantKernel(2.0) * theirs.RBF(0.7), optimizer=None).fit(X, y)
    ours = GaussianProcessClassifier(2 * RBF(0.7), optimizer=None).fit(X, y)
    value, slope = ours.log_marginal_likelihood(eval_gradient=True)
    expected = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
    np.testing.assert_allclose(value, expected[0], rtol=1e-10)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(T), peer.predict_proba(T), atol=2e-4)  # an approximate integral there
    along = np.linspace(X.min(axis=0), X.max(axis=0), 400)
    np.testing.assert_array_equal(ours.predict(along), ours.classes_[ours.predict_proba(along).argmax(axis=1)])
    learned = GaussianProcessClassifier(theirs.ConstantKernel(1.0) * theirs.RBF(1.0)).fit(X, y)
    peer = Sklearn(theirs.ConstantKernel(1.0) * theirs.RBF(1.0)).fit(X, y)
    assert learned.log_marginal_likelihood_value_ >= peer.log_marginal_likelihood_value_ - 1e-4


def brute(K, codes, classes):
    """Laplace's evidence from its definition: any optimiser for the mode, the determinant of all functions together."""
    n, Y = len(K), (codes[:, None] == np.arange(classes)).astype(float)

    def loss(a):
        f = K @ a.reshape(n, classes)
        return -(Y * log_softmax(f, axis=1)).sum() + 0.5 * (a.reshape(n, classes) * f).sum()

    a = minimize(loss, np.zeros(n * classes), tol=1e-14).x
    P = softmax(K @ a.reshape(n, classes), axis=1)
    W = np.zeros((n, classes, n, classes))
    for i, p in enumerate(P):
        W[i, :, i, :] = np.diag(p) - np.outer(p, p)
    W = W.reshape(n * classes, n * classes)
    whole = np.kron(K, np.eye(classes))
    return -loss(a) - 0.5 * np.linalg.slogdet(np.eye(len(W)) + whole @ W)[1], K @ a.reshape(n, classes), W, whole


def test_many_classes_as_defined():
    X, codes = data(12, 3)
    codes[:3] = [0, 1, 2]
    K = 1.5 * RBF(0.9)(X)
    found = laplace(K, codes, 3)
    value, f, W, whole = brute(K, codes, 3)
    np.testing.assert_allclose(found.evidence, value, rtol=1e-9)
    np.testing.assert_allclose(found.f, f, atol=1e-5)
    V = np.linalg.inv(np.linalg.inv(whole + 1e-10 * np.eye(len(whole))) + W).reshape(12, 3, 12, 3)
    spread = found.latent(K, K.diagonal())[1]
    np.testing.assert_allclose(spread, np.einsum("icid->icd", V), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_slopes_are_those_of_differences(classes):
    X, codes = data(25, classes)
    K = 1.5 * RBF(0.9)(X)
    rng = np.random.default_rng(0)
    W = laplace(K, codes, classes).slope(K)
    for _ in range(3):
        D = rng.standard_normal((25, 25))
        D, step = D @ D.T, 1e-6
        there = [laplace(K + s * D, codes, classes, tol=1e-15).evidence for s in (step, -step)]
        slope = (there[0] - there[1]) / (2 * step)
        np.testing.assert_allclose((W * D).sum(), slope, rtol=1e-6)


def test_averages_over_normal_variables():
    mean, sd = np.array([-3.0, 0.0, 0.4, 8.0]), np.array([0.0, 2.0, 5.0, 1.0])
    z = np.random.default_rng(0).standard_normal(400_000)
    expected = [expit(m + s * z).mean() for m, s in zip(mean, sd, strict=True)]
    np.testing.assert_allclose(averaged(mean, sd**2), expected, atol=2e-3)
    M, C = np.array([[0.3, -0.5, 1.0]]), np.array([[[1.0, 0.5, 0.0], [0.5, 2.0, 0.1], [0.0, 0.1, 0.5]]])
    draws = np.random.default_rng(1).standard_normal((200_000, 3))
    expected = softmax(M + draws @ np.linalg.cholesky(C[0]).T, axis=1).mean(axis=0)
    np.testing.assert_allclose(averaged_softmax(M, C, draws)[0], expected, atol=3e-3)


@pytest.mark.parametrize("classes", [2, 3])
def test_it_learns_and_knows_what_it_does_not_know(classes):
    X, y = data(120, classes)
    T, u = data(200, classes, seed=1)
    model = GaussianProcessClassifier(ard=True).fit(X, y)
    assert model.score(T, u) > 0.8
    p = model.predict_proba(T)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    confident = p.max(axis=1)
    assert abs((model.predict(T) == u).mean() - confident.mean()) < 0.1
    far = model.predict_proba([[1e3, -1e3]])
    np.testing.assert_allclose(far, 1 / classes, atol=0.02)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(T), p)


def test_one_function_for_two_classes_is_the_difference_of_two():
    """Each of kernel k: their difference has the kernel 2 k."""
    X, codes = data(40)
    K = RBF(0.8)(X)
    f = brute(K, codes, 2)[1]
    np.testing.assert_allclose(laplace(2 * K, codes, 2).f[:, 0], f[:, 1] - f[:, 0], atol=1e-5)


def test_other_rows_and_what_is_refused():
    words = ["acgt" * 3, "aacc" * 3, "ggtt" * 3, "acac" * 3, "gtgt" * 3, "cccc" * 3]
    model = GaussianProcessClassifier(3.0 * Spectrum(2).normalise(), optimizer=None).fit(words, [1, 1, 0, 1, 0, 0])
    assert model.score(words, [1, 1, 0, 1, 0, 0]) == 1.0
    X, y = data(20)
    with pytest.raises(NotPSDError, match="is no covariance"):
        GaussianProcessClassifier(Sigmoid()).fit(X, y)
    with pytest.raises(ValueError, match="no rows to be uncertain of"):
        GaussianProcessClassifier("precomputed").fit(X, y)
    with pytest.raises(ValueError, match="greater than one"):
        GaussianProcessClassifier().fit(X, np.zeros(20))
    with pytest.warns(ConvergenceWarning, match="before the mode"):
        GaussianProcessClassifier(100 * RBF(0.5), optimizer=None, max_iter_predict=1).fit(X, y)

"""Fisher discriminants in feature space against linear discriminant analysis, explicit features and their own definition."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError

from mercer import KernelFisherDiscriminant
from mercer.errors import NumericalWarning
from mercer.kernels import RBF, Linear, Polynomial, Sigmoid, Spectrum


def data(classes=2, n=90, d=3, seed=0):
    """Classes of different sizes and overlapping."""
    rng = np.random.default_rng(seed)
    y = np.sort(rng.choice(classes, n, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum()))
    means = 1.5 * rng.standard_normal((classes, d))
    return means[y] + rng.standard_normal((n, d)) @ np.diag([1.0, 0.5, 2.0]), y


def scatters(F, y):
    """Scatter of explicit features between and within classes."""
    m = F.mean(axis=0)
    means = {c: F[y == c].mean(axis=0) for c in np.unique(y)}
    between = sum((y == c).sum() * np.outer(means[c] - m, means[c] - m) for c in means)
    within = sum((F[y == c] - means[c]).T @ (F[y == c] - means[c]) for c in means)
    return between, within


@pytest.mark.parametrize("classes", [2, 3])
def test_a_linear_kernel_gives_linear_discriminants(classes):
    """With scikit-learn's shrinkage s: the covariance (1 - s) C + s tr(C) / d I is that of S_w + alpha I."""
    X, y = data(classes)
    shrinkage, (_, within) = 0.1, scatters(X, y)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(X, y)
    alpha = shrinkage / (1 - shrinkage) * np.trace(within) / 3
    ours = KernelFisherDiscriminant(kernel="linear", alpha=alpha).fit(X, y)
    W = np.linalg.qr(X.T @ ours.dual_coef_)[0]
    V = lda.coef_ if classes == 2 else lda.coef_[1:] - lda.coef_[0]
    V = np.linalg.qr(V.T)[0]
    np.testing.assert_allclose(W @ W.T, V @ V.T, atol=1e-8)  # the same direction, or plane


@pytest.mark.parametrize("classes", [2, 4])
def test_discriminants_without_a_ridge_to_speak_of(classes):
    X, y = data(classes)
    V = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, : min(classes - 1, 3)]
    W = X.T @ KernelFisherDiscriminant(kernel="linear", alpha=1e-6).fit(X, y).dual_coef_
    W, V = W / np.linalg.norm(W, axis=0), V / np.linalg.norm(V, axis=0)
    np.testing.assert_allclose(W * np.sign((W * V).sum(axis=0)), V, atol=1e-6)


def test_probabilities_of_a_linear_kernel():
    """Without a ridge to speak of: posterior of Gaussians with one covariance."""
    X, y = data(3)
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    ours = KernelFisherDiscriminant(kernel="linear", alpha=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), lda.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))
    assert (ours.predict(X) == lda.predict(X)).all()
    priors = np.array([0.2, 0.5, 0.3])
    other = KernelFisherDiscriminant(kernel="linear", alpha=1e-6, priors=priors).fit(X, y)
    expected = ours.predict_proba(X) / ours.priors_ * priors
    np.testing.assert_allclose(other.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_directions_solve_the_problem_in_explicit_features(classes):
    X, y = data(classes)
    kernel, alpha = Polynomial(2), 0.7
    F = kernel.phi(X)
    between, within = scatters(F, y)
    values, W = eigh(between, within + alpha * np.eye(F.shape[1]))
    model = KernelFisherDiscriminant(kernel=kernel, alpha=alpha).fit(X, y)
    q = classes - 1
    np.testing.assert_allclose(model.ratios_, values[::-1][:q], rtol=1e-8)
    T = (F - F.mean(axis=0)) @ W[:, ::-1][:, :q] * np.sqrt(len(y))
    got = model.transform(X)
    np.testing.assert_allclose(got * np.sign((got * T).sum(axis=0)), T, rtol=1e-6, atol=1e-6)
    # unit variance within classes, the ridge included
    V = F.T @ model.dual_coef_
    np.testing.assert_allclose(V.T @ (within + alpha * np.eye(len(V))) @ V, len(y) * np.eye(q), atol=1e-6)
    np.testing.assert_allclose(model.means_, [got[y == c].mean(axis=0) for c in range(classes)], atol=1e-8)


def test_components_that_are_shown_do_not_change_predictions():
    X, y = data(4)
    one, all_ = (KernelFisherDiscriminant(q, kernel=RBF(2.0)).fit(X, y) for q in (1, None))
    assert one.transform(X).shape == (90, 1)
    np.testing.assert_array_equal(one.transform(X), all_.transform(X)[:, :1])
    np.testing.assert_array_equal(one.predict_proba(X), all_.predict_proba(X))
    assert list(one.get_feature_names_out()) == ["kernelfisherdiscriminant0"]


def test_rings_are_told_apart():
    rng = np.random.default_rng(0)
    radius, angle = np.repeat([1.0, 2.0, 3.0], 60), rng.uniform(0, 2 * np.pi, 180)
    X = (radius * [np.cos(angle), np.sin(angle)]).T + 0.1 * rng.standard_normal((180, 2))
    assert KernelFisherDiscriminant(kernel=RBF(0.5)).fit(X[::2], radius[::2]).score(X[1::2], radius[1::2]) > 0.97


def test_precomputed_strings_and_labels():
    X, y = data(3)
    names = np.array(["ash", "birch", "cedar"])[y]
    rows, given = (
        KernelFisherDiscriminant(kernel=RBF(2.0)).fit(X, names),
        KernelFisherDiscriminant(kernel="precomputed"),
    )
    given.fit(RBF(2.0)(X), names)
    np.testing.assert_allclose(given.predict_proba(RBF(2.0)(X)), rows.predict_proba(X), atol=1e-9)
    assert list(rows.classes_) == ["ash", "birch", "cedar"]
    dna = ["gattaca", "gattaga", "cattaca", "tttttt", "ttttta", "attttt"]
    assert KernelFisherDiscriminant(kernel=Spectrum(2)).fit(dna, [0, 0, 0, 1, 1, 1]).predict(["gattac"]) == [0]


def test_classes_that_do_not_differ():
    X = np.vstack([data()[0]] * 2)
    y = np.repeat([0, 1], 90)
    model = KernelFisherDiscriminant(kernel=RBF(2.0), priors=[0.4, 0.6]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), [[0.4, 0.6]] * 180, atol=1e-6)


def test_bad_input():
    X, y = data()
    with pytest.raises(ValueError, match="greater than one; y has 1 class"):
        KernelFisherDiscriminant().fit(X, np.zeros(90))
    for bad in ([0.5], [0.5, 0.6], [-0.5, 1.5]):
        with pytest.raises(ValueError, match="must be 2 probabilities that add up to 1"):
            KernelFisherDiscriminant(priors=bad).fit(X, y)
    with pytest.warns(NumericalWarning, match="not positive semi-definite"):
        KernelFisherDiscriminant(kernel=Sigmoid(2.0)).fit(X, y)
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        model = KernelFisherDiscriminant(kernel=Sigmoid(2.0), indefinite="clip").fit(X, y)
    assert model.score(X, y) > 0.6
    with pytest.raises(NotFittedError):
        KernelFisherDiscriminant(kernel=Linear()).transform(X)

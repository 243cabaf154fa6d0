"""Canonical correlations: classical ones, the generalised eigenproblem, planted relations, invariances, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.cross_decomposition import CCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelCCA
from mercer.errors import MemoryBudgetError, NumericalWarning
from mercer.kernels import RBF, GlobalAlignment, Linear, Multiquadric, Sigmoid, Spectrum


def views(n=80, noise=0.5, seed=0):
    """Two views with two hidden columns in common, linearly."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((n, 2))
    X = np.column_stack([hidden[:, 0], hidden.sum(axis=1), rng.standard_normal(n)]) + noise * rng.standard_normal(
        (n, 3)
    )
    Y = np.column_stack([hidden[:, 1] - hidden[:, 0], hidden[:, 0]]) + noise * rng.standard_normal((n, 2))
    return X + [5.0, 0.0, -3.0], Y @ [[2.0, 1.0], [0.0, 0.1]]


def linear(k=2, alpha=0.0, **settings):
    return KernelCCA(k, kernel=Linear(), kernel_y=Linear(), alpha=alpha, **settings)


def classical(X, Y):
    """Correlations and variates by orthonormal bases of the centred columns."""
    Qx, Qy = (np.linalg.qr(S - S.mean(axis=0))[0] for S in (X, Y))
    P, values, Q = np.linalg.svd(Qx.T @ Qy)
    k = len(values)
    return values, np.sqrt(len(X)) * Qx @ P[:, :k], np.sqrt(len(X)) * Qy @ Q[:k].T


def test_linear_kernels_without_a_ridge_are_classical():
    X, Y = views()
    values, Tx, Ty = classical(X, Y)
    model = linear().fit(X, Y)
    np.testing.assert_allclose(model.correlations_, values, rtol=1e-9)
    np.testing.assert_allclose(model.values_, values, rtol=1e-9)
    got = model.transform(X, Y)
    signs = np.sign((got[0] * Tx).sum(axis=0))
    np.testing.assert_allclose(got[0] * signs, Tx, atol=1e-8)
    np.testing.assert_allclose(got[1] * signs, Ty, atol=1e-8)
    peer = CCA(2, scale=False, tol=1e-12, max_iter=10000).fit(X, Y)
    found = [abs(np.corrcoef(a, b)[0, 1]) for a, b in zip(*(T.T for T in peer.transform(X, Y)), strict=True)]
    np.testing.assert_allclose(model.correlations_, found, rtol=1e-5)


def test_the_generalised_eigenproblem():
    """Of the features with a linear kernel, of the Gram matrices with any."""
    X, Y = views()
    n, alpha = len(X), 7.0
    S = len(X) * np.cov(X.T, Y.T, bias=True)
    across, within = S.copy(), S + alpha * np.eye(5)
    across[:3, :3] = across[3:, 3:] = within[:3, 3:] = within[3:, :3] = 0.0
    values = eigh(across, within, eigvals_only=True)[::-1][:2]
    model = linear(alpha=alpha).fit(X, Y)
    np.testing.assert_allclose(model.values_, values, rtol=1e-9)
    H = np.eye(n) - 1 / n
    K, L = H @ RBF(1.5)(X) @ H, H @ RBF(0.8)(Y) @ H
    smooth = [M @ np.linalg.inv(M + 0.3 * np.eye(n)) for M in (K, L)]
    values = np.sqrt(np.sort(np.linalg.eigvals(smooth[0] @ smooth[1]).real)[::-1][:3])
    model = KernelCCA(3, kernel=RBF(1.5), kernel_y=RBF(0.8), alpha=0.3).fit(X, Y)
    np.testing.assert_allclose(model.values_, values, rtol=1e-9)
    A, B = model.expansion_.coefficients, model.expansion_y_.coefficients
    for j in range(3):  # stationary: K L b = value (K^2 + alpha K) a, whatever the lengths
        left, right = K @ L @ B[:, j], (K @ K + 0.3 * K) @ A[:, j]
        ratio = left @ right / (right @ right)
        np.testing.assert_allclose(left, ratio * right, atol=1e-8 * np.abs(left).max())


def test_projections_are_centred_and_scaled_and_so_are_those_of_new_rows():
    X, Y = views()
    model = KernelCCA(3, kernel=RBF(2.0), kernel_y=RBF(), alpha=0.5).fit(X, Y)
    T = model.transform(X, Y)
    for side in T:
        np.testing.assert_allclose(side.mean(axis=0), 0.0, atol=1e-10)
        np.testing.assert_allclose(side.var(axis=0), 1.0)
    np.testing.assert_allclose(model.correlations_, np.diag(np.corrcoef(T[0].T, T[1].T)[:3, 3:]))
    np.testing.assert_allclose(model.correlations(X, Y), model.correlations_)
    assert model.score(X, Y) == pytest.approx(model.correlations_.mean())
    assert (model.correlations_ >= model.values_).all()
    new = views(seed=1)
    for rows, kernel, e, got in zip(
        new, (RBF(2.0), RBF()), (model.expansion_, model.expansion_y_), model.transform(*new), strict=True
    ):
        H, K = np.eye(80) - 1 / 80, kernel(e.centres)
        test = (kernel(rows, e.centres) - K.mean(axis=0)) @ H  # both sides centred with the rows of the fit
        np.testing.assert_allclose(got, test @ e.coefficients, atol=1e-9)
    np.testing.assert_array_equal(model.transform(new[0]), model.transform(*new)[0])
    np.testing.assert_array_equal(KernelCCA(3).fit_transform(X, Y), KernelCCA(3).fit(X, Y).transform(X))


def test_a_planted_relation_is_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (240, 2))
    Y = np.column_stack([X[:, 0] ** 2 + 0.1 * rng.standard_normal(240), rng.standard_normal(240)])
    model = KernelCCA(1, kernel=RBF(1.0), kernel_y=RBF(1.0)).fit(X[:120], Y[:120])
    assert model.score(X[120:], Y[120:]) > 0.95
    assert abs(np.corrcoef(model.transform(X)[:, 0], X[:, 0] ** 2)[0, 1]) > 0.95
    assert linear(1).fit(X[:120], Y[:120]).score(X[120:], Y[120:]) < 0.3
    assert abs(KernelCCA(1).fit(X[:120], rng.permutation(Y)[:120]).score(X[120:], Y[120:])) < 0.3


def test_invariances():
    X, Y = views()
    base = linear().fit(X, Y)
    A = np.random.default_rng(3).standard_normal((3, 3))
    np.testing.assert_allclose(linear().fit(X @ A - 4.0, -3.0 * Y).correlations_, base.correlations_, rtol=1e-8)
    settings = {"kernel": RBF(1.5), "kernel_y": RBF(0.8), "alpha": 0.4}
    base = KernelCCA(2, **settings).fit(X, Y)
    Q = np.linalg.qr(A)[0]
    turned = KernelCCA(2, **settings).fit(X @ Q + 2.0, Y)
    np.testing.assert_allclose(turned.correlations_, base.correlations_)
    np.testing.assert_allclose(turned.transform(X @ Q + 2.0), base.transform(X), atol=1e-7)
    scaled = KernelCCA(2, kernel=RBF(6.0), kernel_y=RBF(3.2), alpha=0.4).fit(4 * X, 4 * Y)
    np.testing.assert_allclose(scaled.transform(X * 4), base.transform(X), atol=1e-7)
    heavier = KernelCCA(2, kernel=9 * RBF(1.5) + 5, kernel_y=9 * RBF(0.8), alpha=3.6).fit(X, Y)
    np.testing.assert_allclose(heavier.transform(X), base.transform(X), atol=1e-7)
    other = KernelCCA(2, kernel=RBF(0.8), kernel_y=RBF(1.5), alpha=0.4).fit(Y, X)
    np.testing.assert_allclose(other.values_, base.values_)
    np.testing.assert_allclose(np.abs(other.transform(Y)), np.abs(base.transform(X, Y)[1]), atol=1e-7)
    order = np.random.default_rng(0).permutation(80)
    np.testing.assert_allclose(
        KernelCCA(2, **settings).fit(X[order], Y[order]).transform(X), base.transform(X), atol=1e-7
    )


# ------------------------------------------------------------------------------------------------ forms of rows
def test_landmarks():
    X, Y = views(200)
    settings = {"kernel": RBF(1.5), "kernel_y": RBF(0.8), "alpha": 0.4}
    exact = KernelCCA(2, **settings).fit(X, Y)
    every = KernelCCA(2, **settings, n_landmarks=200, random_state=0).fit(X, Y)
    np.testing.assert_allclose(every.values_, exact.values_, rtol=1e-5)
    np.testing.assert_allclose(every.correlations_, exact.correlations_, rtol=1e-5)
    few = KernelCCA(2, **settings, n_landmarks=60, random_state=0).fit(X, Y)
    assert few.X_fit_.shape == (60, 3)
    np.testing.assert_allclose(few.correlations(X, Y), few.correlations_, rtol=1e-6)
    assert (few.correlations_ > exact.correlations_ - 0.05).all()
    for side in few.transform(X, Y):
        np.testing.assert_allclose([side.mean(axis=0), side.var(axis=0)], [[0, 0], [1, 1]], atol=1e-8)
    assert few.solver_used_ == "landmarks"
    with pytest.raises(ValueError, match="no rows to choose landmarks from"):
        KernelCCA(kernel="precomputed", n_landmarks=5).fit(RBF()(X), Y)


def test_many_rows_on_landmarks_in_parts(monkeypatch):
    X, Y = views(300)
    model = KernelCCA(2, n_landmarks=30, random_state=0).fit(X, Y)
    monkeypatch.setattr("mercer.estimators.cca._PRODUCTS", 1)
    again = KernelCCA(2, n_landmarks=30, random_state=0).fit(X, Y)
    np.testing.assert_allclose(again.transform(X), model.transform(X), atol=1e-8)


def test_precomputed_views():
    (X, Y), new = views(), views(seed=1)
    base = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(0.8)).fit(X, Y)
    given = KernelCCA(2, kernel="precomputed", kernel_y="precomputed").fit(RBF(1.5)(X), RBF(0.8)(Y))
    both = given.transform(RBF(1.5)(new[0], X), RBF(0.8)(new[1], Y))
    for a, b in zip(both, base.transform(*new), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    with pytest.raises(ValueError, match=r'kernel_y="precomputed" needs a square matrix y to fit, got \(80, 79\)'):
        given.fit(RBF()(X), RBF()(Y)[:, :-1])
    given.fit(RBF()(X), RBF()(Y))
    with pytest.raises(ValueError, match="y has 79 columns, but 80 in fit"):
        given.transform(RBF()(X), RBF()(Y)[:, :-1])


def test_views_of_any_kind():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("ab"), 14, p=[p, 1 - p])) for p in rng.uniform(size=80)]
    count = np.array([w.count("a") for w in words], float)
    model = KernelCCA(1, kernel=Spectrum(2), kernel_y=RBF(5.0)).fit(words[:50], count[:50])
    assert model.score(words[50:], count[50:]) > 0.9
    turned = KernelCCA(1, kernel=RBF(5.0), kernel_y=Spectrum(2)).fit(count[:50, None], words[:50])
    assert turned.score(count[50:, None], words[50:]) == pytest.approx(model.score(words[50:], count[50:]))
    again = pickle.loads(pickle.dumps(turned))
    np.testing.assert_array_equal(again.transform(count[:, None], words)[1], turned.transform(count[:, None], words)[1])
    X, Y = views()
    base = KernelCCA(2).fit(X, Y).transform(X, Y)
    for form in (sp.csr_array, pd.DataFrame, np.ndarray.tolist):
        got = KernelCCA(2).fit(form(X), form(Y)).transform(form(X), form(Y))
        np.testing.assert_allclose(got[1], base[1], atol=1e-8)
    single = (
        KernelCCA(2)
        .fit(X.astype(np.float32), Y.astype(np.float32))
        .transform(X.astype(np.float32), Y.astype(np.float32))
    )
    assert single[0].dtype == single[1].dtype == np.float32
    np.testing.assert_allclose(single[1], base[1], atol=1e-3)


def test_rows_changed_later():
    X, Y = views()
    model = KernelCCA(2).fit(X, Y)
    before = model.transform(*views(seed=1))
    X += 100.0
    Y += 100.0
    for again in (model, pickle.loads(pickle.dumps(model))):
        for a, b in zip(again.transform(*views(seed=1)), before, strict=True):
            np.testing.assert_array_equal(a, b)
    series = [np.sin(np.arange(5 + i % 3) * (1 + i / 20)) for i in range(20)]
    model = KernelCCA(1, kernel_y=GlobalAlignment(2.0)).fit(np.arange(20.0)[:, None], series)
    fresh = [s + 0.1 for s in series]
    before = model.transform(np.arange(20.0)[:, None], fresh)[1]
    for s in series:
        s[:] = 7.0
    for again in (model, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.transform(np.arange(20.0)[:, None], fresh)[1], before)


# ------------------------------------------------------------------------------------------------ scikit-learn
def test_searches_pipelines_and_names():
    X, Y = views()
    model = KernelCCA(1, kernel=RBF(), kernel_y=RBF())
    assert clone(model).set_params(kernel_y__lengthscale=3.0, kernel__lengthscale=2.0).kernel_y == RBF(3.0)
    assert model.kernel_y == RBF()
    with pytest.raises(ValueError, match=r"kernel_y='rbf' has no parameters \['lengthscale'\]"):
        KernelCCA().set_params(kernel_y__lengthscale=3.0)
    search = GridSearchCV(model, {"kernel_y__lengthscale": [0.01, 1.0], "alpha": [0.1, 1.0]}, cv=3).fit(X, Y)
    assert search.best_params_["kernel_y__lengthscale"] == 1.0
    assert len(np.unique(search.cv_results_["mean_test_score"].round(6))) == 4
    pipe = make_pipeline(StandardScaler(), KernelCCA(1)).fit(X, Y)
    assert pipe.transform(X).shape == (80, 1)
    named = KernelCCA(2).set_output(transform="pandas").fit(X, Y)
    assert list(named.transform(X).columns) == ["kernelcca0", "kernelcca1"]
    assert list(named.transform(X, Y)[0].columns) == ["kernelcca0", "kernelcca1"]


# ------------------------------------------------------------------------------------------------ bad input
def test_bad_second_views():
    X, Y = views()
    model = KernelCCA(1)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(X, None)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[80, 79\]"):
        model.fit(X, Y[:-1])
    for bad in (np.nan, np.inf):
        holed = Y.copy()
        holed[3, 1] = bad
        with pytest.raises(ValueError, match="y contains"):
            model.fit(X, holed)
        fitted = KernelCCA(1).fit(X, Y)
        with pytest.raises(ValueError, match="y contains"):
            fitted.transform(X, holed)
    with pytest.raises(ValueError, match="y has 1 columns, but 2 in fit"):
        fitted.transform(X, Y[:, :1])
    with pytest.raises(ValueError, match="all rows of y are the same to the kernel: there is no variance"):
        model.fit(X, np.ones((80, 1)))
    with pytest.raises(ValueError, match="all rows of X are the same"):
        model.fit(np.ones((80, 1)), Y)
    with pytest.raises(ValueError, match="all rows of y are the same"):
        KernelCCA(1, n_landmarks=1, kernel_y=Linear()).fit(X, np.ones((80, 1)))
    with pytest.raises(ValueError, match="kernel_y: kernel='parabolic' is not known"):
        KernelCCA(kernel_y="parabolic").fit(X, Y)
    with pytest.raises(ValueError, match="n_samples=1: correlations need two rows"):
        fitted.correlations(X[:1], Y[:1])
    with pytest.raises(ValueError, match="inconsistent"):
        fitted.correlations(X, Y[:-1])
    assert fitted.correlations(np.ones((4, 3)), np.ones((4, 2))).tolist() == [0.0]
    with pytest.raises(MemoryBudgetError, match="n_landmarks"):
        KernelCCA(memory="100kB").fit(X, Y)


def test_warnings():
    X, Y = views()
    with pytest.warns(NumericalWarning, match="n_components=3, but one of the centred Gram matrices has rank 2"):
        assert linear(3).fit(X, Y).transform(X).shape == (80, 2)
    with pytest.warns(NumericalWarning, match="find correlations of 1 in anything; set alpha"):
        trivial = KernelCCA(1, kernel=RBF(0.1), kernel_y=RBF(0.1), alpha=0.0).fit(
            X, np.random.default_rng(0).permutation(Y)
        )
    assert trivial.correlations_[0] > 0.999


def test_kernels_that_are_not_definite():
    X, Y = views()
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        model = KernelCCA(1, kernel=Sigmoid(gamma=1.0, coef0=-1.0), indefinite="clip").fit(X, Y)
    np.testing.assert_allclose(model.correlations(X, Y), model.correlations_, rtol=1e-6)
    energy = KernelCCA(1, kernel=Multiquadric(), kernel_y=Multiquadric()).fit(X, Y)
    assert np.isfinite(energy.correlations_).all()

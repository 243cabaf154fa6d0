"""Kernel principal components against scikit-learn, explicit features and closed forms, and the pre-images of what they keep."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as ScikitKernelPCA
from sklearn.exceptions import NotFittedError

from mercer import KernelPCA, preimage, streams
from mercer.errors import ConvergenceWarning, NotPSDError, NumericalWarning
from mercer.gram import GivenGram, gram
from mercer.gram.radial import radial
from mercer.kernels import (
    RBF,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Matern,
    Multiquadric,
    Pairwise,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    Spectrum,
    White,
)
from mercer.solvers import Targets, by_distances, by_fixed_point, by_gradient, components_of_gram

WORDS = ("linear", "poly", "rbf", "sigmoid", "cosine")


def data(n=60, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * np.linspace(2.0, 0.5, d)


def same_up_to_sign(A, B, **tolerance):
    np.testing.assert_allclose(A * np.sign((A * B).sum(axis=0)), B, **tolerance)


# ------------------------------------------------------------------------------------------------ components
@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")  # a sigmoid kernel is indefinite
@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized"])
@pytest.mark.parametrize("word", WORDS)
def test_words_mean_what_they_mean_in_scikit_learn(word, solver):
    X, T = data(), data(20, seed=1)
    theirs = ScikitKernelPCA(3, kernel=word, eigen_solver="dense").fit(X)
    ours = KernelPCA(3, kernel=word, eigen_solver=solver).fit(X)
    same_up_to_sign(ours.transform(T), theirs.transform(T), atol=1e-8)
    same_up_to_sign(ours.eigenvectors_, theirs.eigenvectors_, atol=1e-8)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(ours.fit_transform(X), ours.transform(X), atol=1e-8)


def test_a_linear_kernel_gives_principal_components():
    X, T = data(80, 3), data(20, 3, seed=1)
    pca, ours = PCA().fit(X), KernelPCA().fit(X)
    assert ours.eigenvalues_.shape == (3,)  # of 79: the rest has no variance
    same_up_to_sign(ours.transform(T), pca.transform(T), atol=1e-8)
    np.testing.assert_allclose(ours.explained_variance_, pca.explained_variance_ * 79 / 80)
    np.testing.assert_allclose(ours.explained_variance_ratio_, pca.explained_variance_ratio_)
    two = KernelPCA(2).fit(X)
    left = np.square(T - PCA(2).fit(X).inverse_transform(PCA(2).fit(X).transform(T))).sum(axis=1)
    np.testing.assert_allclose(two.reconstruction_error(T), left, atol=1e-10)


def test_projections_and_errors_in_explicit_features():
    """Polynomial features by hand: centring, projecting and what is left over."""
    X, T = data(50, 2), data(9, 2, seed=1)
    kernel = Polynomial(2)
    F, G = kernel.phi(X), kernel.phi(T)
    F, G = F - F.mean(axis=0), G - F.mean(axis=0)
    V = np.linalg.svd(F)[2][:3].T
    model = KernelPCA(3, kernel=kernel).fit(X)
    same_up_to_sign(model.transform(T), G @ V, atol=1e-9)
    np.testing.assert_allclose(model.reconstruction_error(T), np.square(G - G @ V @ V.T).sum(axis=1), rtol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_.sum(), np.square(F @ V).sum() / np.square(F).sum())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_iteration_finds_what_the_decomposition_finds(dtype):
    X = data(700, 3).astype(dtype)
    rng = np.random.default_rng(0)
    K = gram(RBF(1.0), X).centred()
    some = components_of_gram(K, 6, rng=rng, tol=1e-8 if dtype is np.float64 else 1e-5)
    all_ = components_of_gram(K, 6, rng=rng, tol=1e-8, dense=True)
    tol = 1e-10 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(some.values, all_.values, rtol=tol)
    same_up_to_sign(some.coefficients, all_.coefficients, atol=1e3 * tol)
    assert some.iterations > 1
    assert some.coefficients.dtype == dtype


def test_whitened_components_have_unit_variance():
    X = data(100)
    T = KernelPCA(4, kernel=RBF(1.5), whiten=True).fit_transform(X)
    np.testing.assert_allclose(T.T @ T / 100, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(T.mean(axis=0), 0, atol=1e-12)


def test_precomputed_rows_and_kernels_agree():
    X, T, kernel = data(), data(7, seed=1), RBF(1.5)
    rows, given = KernelPCA(3, kernel=kernel).fit(X), KernelPCA(3, kernel="precomputed").fit(kernel(X))
    same_up_to_sign(given.transform(kernel(T, X)), rows.transform(T), atol=1e-10)
    with pytest.raises(ValueError, match=r"k\(x, x\) of new rows is not known"):
        given.reconstruction_error(kernel(T, X))
    with pytest.raises(NotFittedError, match="no rows to go back to"):
        given.inverse_transform(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="fit_inverse_transform"):
        KernelPCA(kernel="precomputed", fit_inverse_transform=True).fit(kernel(X))


def test_sparse_rows():
    X = sp.random_array((60, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    dense, sparse = (KernelPCA(3, kernel=RBF(1.0)).fit(R) for R in (X.toarray(), X))
    same_up_to_sign(sparse.transform(X), dense.transform(X.toarray()), atol=1e-9)
    assert sparse.denoise(X[:3]).shape == (3, 30)


def test_noise_on_the_diagonal_is_not_seen_by_new_rows():
    X = data()
    model = KernelPCA(2, kernel=RBF(1.5) + 0.1 * White()).fit(X)
    plain = KernelPCA(2, kernel=RBF(1.5)).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_ + 0.1, rtol=1e-10)


def test_objects():
    words = ["gattaca", "gattagat", "cattaca", "tagacat", "acgtacgt", "ttttaaaa", "gatcgatc"]
    model = KernelPCA(2, kernel=Spectrum(2)).fit(words)
    F = Spectrum(2)(words)
    H = np.eye(7) - 1 / 7
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(H @ F @ H)[::-1][:2])
    assert model.transform(["gatt"]).shape == (1, 2)
    found = model.preimages(model.transform(words))
    assert list(found.rows) == [words[i] for i in best_by_hand(model, F, words)]
    assert list(model.inverse_transform(model.transform(words[:1]), candidates=["aaaa", "gattac"])) == ["gattac"]


def best_by_hand(model, K, words):
    """Numbers of the training objects nearest to each projection."""
    n = len(words)
    gamma = model.transform(words) @ model.coefficients_.T + 1 / n
    return [np.argmin(np.diag(K) - 2 * K @ g) for g in gamma]


# ------------------------------------------------------------------------------------------------ known pictures
def three_clusters(n=90, seed=0):
    centres = np.array([[-0.5, -0.1], [0.0, 0.7], [0.5, 0.1]])
    rng = np.random.default_rng(seed)
    return np.vstack([c + 0.1 * rng.standard_normal((n // 3, 2)) for c in centres]), np.repeat(np.arange(3), n // 3)


def test_three_clusters_with_a_narrow_kernel():
    """2 sigma^2 = 0.1: two components tell the clusters apart, and the next three split one cluster each."""
    X, y = three_clusters()
    T = KernelPCA(8, kernel=RBF(np.sqrt(0.05))).fit_transform(X)
    means = np.array([T[y == c, :2].mean(axis=0) for c in range(3)])
    assert (np.linalg.norm(T[:, None, :2] - means, axis=2).argmin(axis=1) == y).all()
    inside = np.array([[T[y == c, j].var() for c in range(3)] for j in range(2, 5)])
    assert sorted(inside.argmax(axis=1)) == [0, 1, 2]
    assert (inside.max(axis=1) > 0.8 * inside.sum(axis=1)).all()


def hidden(rows, kernel, relation, rank, noise=1e-6):
    """The rank of exact rows; of noisy ones one component more, the last, which follows the relation everywhere."""
    assert len(KernelPCA(kernel=kernel).fit(rows).eigenvalues_) == rank
    rng = np.random.default_rng(0)
    model = KernelPCA(kernel=kernel).fit(rows + noise * rng.standard_normal(rows.shape))
    assert len(model.eigenvalues_) == rank + 1
    assert model.eigenvalues_[-1] < 1e-3 * model.eigenvalues_[-2]
    grid = rng.uniform(-1, 1, (200, 2))
    return abs(np.corrcoef(model.transform(grid)[:, -1], relation(*grid.T))[0, 1])


def test_a_cubic_kernel_finds_the_curve():
    x = np.linspace(-1, 1, 60)
    rows = np.column_stack([x, 2 * x**2 + x**3])
    assert hidden(rows, Polynomial(3, coef0=1.0), lambda x, y: y - 2 * x**2 - x**3, rank=8) > 0.999


@pytest.mark.parametrize(("coef0", "rank"), [(0.0, 2), (1.0, 4)])
def test_a_quadratic_kernel_finds_the_ellipse(coef0, rank):
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    rows = np.column_stack([np.cos(t), np.sin(t) / 2])
    assert hidden(rows, Polynomial(2, coef0=coef0), lambda x, y: x**2 + 4 * y**2, rank=rank) > 0.999


# ------------------------------------------------------------------------------------------------ landmarks
def test_all_rows_as_landmarks_are_the_exact_components():
    X, T = data(), data(20, seed=1)
    exact = KernelPCA(3, kernel=RBF(2.0)).fit(X)
    model = KernelPCA(3, kernel=RBF(2.0), n_landmarks=60, random_state=0).fit(X)
    same_up_to_sign(model.transform(T), exact.transform(T), atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_allclose(model.reconstruction_error(T), exact.reconstruction_error(T), atol=1e-8)
    np.testing.assert_allclose(model.denoise(T), exact.denoise(T), atol=1e-4)
    with pytest.raises(AttributeError, match="not kept"):
        model.eigenvectors_  # noqa: B018


def test_batches_and_streams_leave_the_same_components():
    X, T = data(300), data(20, seed=1)
    settings = {"kernel": RBF(2.0), "landmarks": X[:40], "n_landmarks": 40}
    whole = KernelPCA(3, **settings).fit(X)
    parts = KernelPCA(3, **settings)
    for some in np.array_split(X, 4):
        parts.partial_fit(some)
    assert parts.n_samples_seen_ == 300
    same_up_to_sign(parts.transform(T), whole.transform(T), atol=1e-9)
    rows = KernelPCA(3, **settings).fit(streams.from_arrays(X, np.zeros(300)))
    np.testing.assert_allclose(rows.transform(T), whole.transform(T), atol=1e-12)
    with pytest.raises(AttributeError, match="partial_fit"):
        KernelPCA(3).partial_fit(X)
    with pytest.raises(ValueError, match="need n_landmarks"):
        KernelPCA(3).fit(streams.from_arrays(X, np.zeros(300)))


def test_few_landmarks_of_a_smooth_kernel_suffice():
    X, T = data(400, 2), data(20, 2, seed=1)
    exact, model = (KernelPCA(3, kernel=RBF(3.0), n_landmarks=m, random_state=0).fit(X) for m in (None, 40))
    same_up_to_sign(model.transform(T), exact.transform(T), atol=1e-5)
    assert len(model.X_fit_) == 40


# ------------------------------------------------------------------------------------------------ what does not fit
def test_an_indefinite_gram_is_reported():
    X = data()
    K = Sigmoid()(X)
    H = np.eye(60) - 1 / 60
    smallest = np.linalg.eigvalsh(H @ K @ H)[0]
    assert smallest < -0.1
    with pytest.warns(NumericalWarning, match="smallest eigenvalue about -"):
        model = KernelPCA(2, kernel="precomputed").fit(K)
    assert model.smallest_eigenvalue_ == pytest.approx(smallest, rel=1e-4)
    with pytest.raises(NotPSDError):
        KernelPCA(2, kernel="precomputed", indefinite="raise").fit(K)
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        clipped = KernelPCA(2, kernel="precomputed", indefinite="clip").fit(K)
    same_up_to_sign(clipped.transform(K), model.transform(K), atol=1e-8)  # the leading directions are the same
    with pytest.warns(NumericalWarning, match="repaired by flip"):
        flipped = KernelPCA(kernel="precomputed", indefinite="flip")
        T = flipped.fit_transform(K)
    np.testing.assert_allclose(flipped.transform(K), T, atol=1e-8)  # also along directions that were negative


def test_kernels_that_are_conditionally_positive_need_no_repair():
    """Negative multiquadrics are not positive semi-definite, but centred they are."""
    X = data()
    kernel = Multiquadric()
    assert kernel.validity.kind == "cpd"
    model = KernelPCA(3, kernel=kernel).fit(X)
    values = model.eigenvalues_
    assert not hasattr(model, "smallest_eigenvalue_")  # nothing to test
    H = np.eye(60) - 1 / 60
    np.testing.assert_allclose(values, np.linalg.eigvalsh(H @ kernel(X) @ H)[::-1][:3])


def test_more_components_than_there_are():
    X = data(10, 2)
    with pytest.warns(NumericalWarning, match="n_components=5, but the centred Gram matrix of 10 rows has rank 2"):
        assert KernelPCA(5).fit_transform(X).shape == (10, 2)
    assert len(KernelPCA(kernel=RBF(0.1)).fit(X).eigenvalues_) == 9  # one less than rows
    with pytest.raises(ValueError, match="there is no variance"):
        KernelPCA(1).fit(np.ones((5, 2)))
    with pytest.warns(ConvergenceWarning, match="residuals up to"):
        KernelPCA(5, kernel=RBF(0.5), max_iter=1, random_state=0).fit(data(600))


def test_nan_from_a_user_kernel():
    with pytest.raises(ValueError, match=r"NaN|not finite|nan"):
        KernelPCA(2, kernel=lambda a, b: np.nan).fit(data(5))


# ------------------------------------------------------------------------------------------------ pre-images
RADIAL = [RBF(1.5), RBF([1.0, 2.0, 3.0, 1.0]), 2.0 * RationalQuadratic(lengthscale=2.0), Matern(1.5, lengthscale=2.0),
          Laplacian(2.0, metric="l2"), InverseMultiquadric()]  # fmt: skip


@pytest.mark.parametrize("kernel", RADIAL, ids=repr)
def test_the_function_of_a_radial_kernel(kernel):
    X = data(6)
    K = gram(kernel, X)
    f = radial(K)
    view = f.view.forward(np.asarray(X)) if f.view.linear else X
    s = np.square(view[:, None] - view[None]).sum(axis=2)
    np.testing.assert_allclose(f.value(s), kernel(X), rtol=1e-10)
    np.testing.assert_allclose(f.inverse(f.value(s)), s, rtol=1e-6, atol=1e-6)
    off = ~np.eye(6, dtype=bool)
    h = 1e-6
    np.testing.assert_allclose(f.slopes(K)[off], ((f.value(s + h) - f.value(s - h)) / (2 * h))[off], rtol=1e-5)


def test_kernels_that_are_not_radial():
    for kernel in (Linear(), RBF(1.0) * Linear(), RBF(1.0) + White(), RBF().warp(np.sin), Laplacian(metric="l1")):
        assert radial(gram(kernel, data(5))) is None
    with pytest.raises(ValueError, match=r'not a function of one distance.*method="gradient"'):
        KernelPCA(2, kernel=Polynomial(2)).fit(data()).inverse_transform(np.zeros((1, 2)), method="fixed_point")


@pytest.mark.parametrize("kernel", [RBF(1.5), Polynomial(2), RBF(2.0) * Linear(), Matern(2.5)], ids=repr)
def test_the_gradient_of_the_distance_to_a_target(kernel):
    X, rng = data(12), np.random.default_rng(0)
    targets = Targets(gram(kernel, X), rng.standard_normal((3, 12)))
    Z = data(3, seed=1)
    G = targets.gradient(Z, np.arange(3))
    for j in range(3):
        slow = approx_fprime(Z[j], lambda z, j=j: targets.objective(z[None], np.array([j]))[0], 1e-7)
        np.testing.assert_allclose(G[j], slow, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")  # one of them misses its target
def test_the_record_of_a_preimage():
    """Residual and cosine against explicit features."""
    X, rng, kernel = data(12, 2), np.random.default_rng(0), Polynomial(2, coef0=1.0)
    C, F = rng.standard_normal((3, 12)), kernel.phi(X)
    found = preimage(kernel, X, C, method="gradient")
    P, Z = C @ F, kernel.phi(found.rows)
    np.testing.assert_allclose(found.residual, np.square(Z - P).sum(axis=1), rtol=1e-8)
    cosine = (Z * P).sum(axis=1) / np.linalg.norm(Z, axis=1) / np.linalg.norm(P, axis=1)
    np.testing.assert_allclose(found.score, cosine, rtol=1e-8)


@pytest.mark.parametrize("method", ["fixed_point", "distances", "gradient"])
@pytest.mark.parametrize("kernel", RADIAL[:4], ids=repr)
def test_features_of_a_row_lead_back_to_it(kernel, method):
    """With all components the projection of a training row is its own features."""
    X = data(40)
    model = KernelPCA(kernel=kernel).fit(X)
    found = model.preimages(model.transform(X), method)
    np.testing.assert_allclose(found.rows, X, atol=2e-3)
    assert found.score.min() > 0.9999


@pytest.mark.parametrize("kernel", [RBF(1.5), 2.0 * RationalQuadratic(lengthscale=1.5)], ids=repr)
@pytest.mark.parametrize("method", ["fixed_point", "gradient"])
def test_searches_end_where_the_slope_is_zero(method, kernel):
    X = data(40, 2)
    model = KernelPCA(3, kernel=kernel).fit(X)
    T = model.transform(X[:10])
    found = model.preimages(T, method, start=X[:10])
    assert found.converged.all()
    G = model._targets(T).gradient(found.rows, np.arange(10))
    assert np.abs(G).max() < 1e-3
    best = model.preimages(T, "candidates")
    assert (found.residual <= best.residual + 1e-12).all()


@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")  # these targets are far from any row
@pytest.mark.parametrize("method", ["fixed_point", "gradient"])
def test_no_search_ends_worse_than_it_began(method):
    """Targets with weights of both signs, for which a full step often leads away."""
    X, rng = data(30, 2), np.random.default_rng(0)
    targets = Targets(gram(RBF(0.7), X), rng.standard_normal((40, 30)))
    start = X[rng.integers(30, size=40)]
    before = targets.objective(start, np.arange(40))
    search = {"fixed_point": by_fixed_point, "gradient": by_gradient}[method]
    found = search(targets, start)
    assert (targets.objective(found.rows, np.arange(40)) <= before + 1e-12).all()
    assert np.abs(found.rows).max() < 50


@pytest.mark.parametrize("size", [1.0, 2.0, 0.3])
@pytest.mark.parametrize("kernel", RADIAL[:4], ids=repr)
def test_distances_place_a_row(kernel, size):
    """Along the direction of a row's features, however long, the row itself."""
    X = data(60)
    np.testing.assert_allclose(by_distances(Targets(gram(kernel, X), size * np.eye(60)[:9])), X[:9], atol=1e-3)


def test_the_two_searches_agree():
    X = data(60, 2)
    model = KernelPCA(6, kernel=RBF(1.5)).fit(X)
    a, b = (model.preimages(model.transform(X), m, start=X) for m in ("fixed_point", "gradient"))
    np.testing.assert_allclose(a.residual, b.residual, atol=1e-4)


@pytest.mark.parametrize("method", ["fixed_point", "gradient", "distances"])
def test_rows_far_from_all_data_come_back(method):
    """From far away all weights are 0: no collapse, no divergence, no NaN."""
    X = data(60, 2)
    model = KernelPCA(4, kernel=RBF(0.7)).fit(X)
    assert np.abs(model.denoise(X[:3] + 100.0, method)).max() < 10


def test_targets_that_no_row_comes_near():
    X = data(30, 2)
    with pytest.warns(NumericalWarning, match=r"1 of 1 pre-images miss their targets.* at worst 0\.[123]"):
        preimage(RBF(0.1), X, np.ones((1, 30)) / 30)


def test_denoising_a_ring():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 2 * np.pi, 300)
    ring = np.column_stack([np.cos(t), np.sin(t)])
    model = KernelPCA(8, kernel=RBF(0.5)).fit(ring)
    noisy = ring[:50] + 0.1 * rng.standard_normal((50, 2))
    for method in ("fixed_point", "distances", "gradient"):
        off = np.abs(np.linalg.norm(model.denoise(noisy, method), axis=1) - 1)
        assert off.max() < 0.5 * np.abs(np.linalg.norm(noisy, axis=1) - 1).max()


@pytest.mark.parametrize("word", ["linear", "rbf", "poly"])
def test_the_learned_map_is_scikit_learns(word):
    X = data(50)
    theirs = ScikitKernelPCA(3, kernel=word, fit_inverse_transform=True, alpha=0.1).fit(X)
    ours = KernelPCA(3, kernel=word, fit_inverse_transform=True, alpha=0.1).fit(X)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(X)), theirs.inverse_transform(theirs.transform(X)), atol=1e-7
    )


def test_the_learned_map_of_a_kernel_object_and_of_landmarks():
    X = data(200, 2)
    for settings in ({}, {"n_landmarks": 100, "random_state": 0}):
        model = KernelPCA(6, kernel=RBF(2.0), fit_inverse_transform=True, alpha=1e-3, **settings).fit(X)
        assert np.abs(model.inverse_transform(model.transform(X[:20])) - X[:20]).max() < 0.3
    with pytest.raises(ValueError, match="needs fit_inverse_transform=True"):
        KernelPCA(2, kernel=RBF()).fit(X).inverse_transform(np.zeros((1, 2)), method="ridge")


def test_whitened_components_lead_back_to_the_same_rows():
    X = data(50)
    a, b = (KernelPCA(4, kernel=RBF(2.0), whiten=w).fit(X) for w in (False, True))
    np.testing.assert_allclose(b.inverse_transform(b.transform(X)), a.inverse_transform(a.transform(X)), atol=1e-6)


def test_preimages_in_float32():
    X = data(50).astype(np.float32)
    a, b = (KernelPCA(4, kernel=RBF(2.0)).fit(R) for R in (X, X.astype(float)))
    assert a.denoise(X).dtype == np.float32
    np.testing.assert_allclose(a.denoise(X), b.denoise(X.astype(float)), atol=1e-2)


def test_preimages_of_user_objects_are_candidates():
    words = ["ab", "abc", "abd", "xyz", "xyw"]
    kernel = Pairwise(lambda a, b: float(len(set(a) & set(b))))
    found = preimage(kernel, words, [[0.4, 0.4, 0.2, 0, 0]], method="candidates")
    assert list(found.rows) == ["ab"]  # 2 - 2 (0.8 + 0.8 + 0.4) is below 3 - 2 (0.8 + 1.2 + 0.4)
    assert list(preimage(kernel, words, np.eye(5)).rows) == words


def test_bad_questions():
    X = data()
    model = KernelPCA(2, kernel=RBF()).fit(X)
    for bad, said in ((np.zeros((1, 3)), "3 columns, but there are 2"), (np.full((1, 2), np.nan), "NaN")):
        with pytest.raises(ValueError, match=said):
            model.inverse_transform(bad)
    with pytest.raises(ValueError, match="method='magic'"):
        preimage(RBF(), X, np.zeros((1, 60)), method="magic")
    with pytest.raises(ValueError, match=r"coefficients of shape \(1, 3\)"):
        preimage(RBF(), X, np.zeros((1, 3)))
    with pytest.raises(ValueError, match="start has 3 rows, but there are 1 targets"):
        model.inverse_transform(np.zeros((1, 2)), start=X[:3])


def test_an_interrupted_fit_leaves_nothing(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    X = data()
    model = KernelPCA(2, kernel=RBF()).fit(X)
    monkeypatch.setattr("mercer.estimators.pca.components_of_gram", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.transform(X)


def test_what_does_not_fit_the_budget_is_computed_again():
    X = data(300)
    small, large = (KernelPCA(3, kernel=RBF(1.5), memory=m, random_state=0).fit(X) for m in ("100kB", None))
    np.testing.assert_allclose(small.eigenvalues_, large.eigenvalues_, rtol=1e-9)
    assert isinstance(large._held(large._gram), GivenGram)
    assert small._held(small._gram) is small._gram


def test_an_interrupted_second_batch_leaves_the_first_model(monkeypatch):
    X = np.random.default_rng(0).standard_normal((200, 3))
    settings = {"kernel": RBF(1.0), "n_landmarks": 30, "random_state": 0, "fit_inverse_transform": True}
    model = KernelPCA(4, **settings).partial_fit(X[:100])
    before, codes = {k: v for k, v in vars(model).items() if k != "moments_"}, model.transform(X)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.estimators.pca.learned_map", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[100:])
    assert all(vars(model)[k] is v for k, v in before.items())
    assert np.array_equal(model.transform(X), codes)
    monkeypatch.undo()
    whole = KernelPCA(4, **settings).partial_fit(X[:100]).partial_fit(X[100:])
    assert np.array_equal(model.partial_fit(X[100:]).transform(X), whole.transform(X))

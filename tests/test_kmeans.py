"""k-means in feature space against Lloyd's algorithm on rows and on explicit features, weights against repeated rows."""

import re

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score, silhouette_samples

from mercer import KernelKMeans, silhouette
from mercer.errors import ConvergenceWarning, NumericalWarning
from mercer.gram import GivenGram
from mercer.kernels import RBF, Linear, Pairwise, Polynomial, Sigmoid, Spectrum
from mercer.linalg import Status
from mercer.solvers import FeaturePoints, GramPoints, solve_kmeans, spread_rows
from mercer.solvers.kmeans import _move


def blobs(n=90, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return 4 * rng.standard_normal((k, 2))[y] + rng.standard_normal((n, 2)), y


def same_clusters(a, b):
    assert adjusted_rand_score(a, b) == pytest.approx(1.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_linear_kernel_gives_lloyds_clusters(seed, weighted):
    """From the same start, in as many steps, to the same loss."""
    X, _ = blobs(seed=seed)
    X = np.random.default_rng(seed).standard_normal((90, 3)) if seed else X  # no clusters at all: many steps
    w = np.random.default_rng(1).uniform(0.5, 2.0, 90) if weighted else None
    start = np.array([3, 17, 40, 66])
    theirs = KMeans(4, init=X[start], n_init=1, tol=0, algorithm="lloyd").fit(X, sample_weight=w)
    ours = KernelKMeans(4, kernel="linear", init=start).fit(X, sample_weight=w)
    same_clusters(ours.labels_, theirs.labels_)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-10)
    assert ours.n_iter_ == theirs.n_iter_ - 1  # there the first assignment counts
    centres = ours.X_fit_.T @ ours.coefficients_.toarray()
    order = np.lexsort(theirs.cluster_centers_.T)
    np.testing.assert_allclose(centres.T[np.lexsort(centres)], theirs.cluster_centers_[order], atol=1e-8)
    T = np.random.default_rng(2).standard_normal((20, X.shape[1]))
    same_clusters(ours.predict(T), theirs.predict(T))
    np.testing.assert_allclose(np.sort(ours.transform(T), axis=1), np.sort(theirs.transform(T), axis=1), atol=1e-7)


def test_a_polynomial_kernel_is_lloyd_on_its_features():
    X, _ = blobs(60)
    F, start = Polynomial(2).phi(X), np.array([0, 1, 2])
    theirs = KMeans(3, init=F[start], n_init=1, tol=0, algorithm="lloyd").fit(F)
    ours = KernelKMeans(3, kernel=Polynomial(2), init=start).fit(X)
    same_clusters(ours.labels_, theirs.labels_)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-9)


def test_rings_need_a_kernel():
    rng = np.random.default_rng(0)
    y, t = np.arange(200) % 2, rng.uniform(0, 2 * np.pi, 200)
    X = ((0.3 + 3.0 * y) * [np.cos(t), np.sin(t)]).T
    assert adjusted_rand_score(y, KernelKMeans(2, kernel="linear", random_state=0).fit_predict(X)) < 0.5
    same_clusters(KernelKMeans(2, kernel=RBF(2.0), n_init=10, random_state=0).fit_predict(X), y)


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_a_weight_is_a_row_repeated(init):
    X, _ = blobs(40)
    w = np.random.default_rng(0).integers(0, 4, 40)
    model = KernelKMeans(3, kernel=RBF(2.0), init=init, random_state=0)
    a = model.fit(X, sample_weight=w).predict(X)
    loss = model.inertia_
    np.testing.assert_array_equal(model.fit(np.repeat(X, w, axis=0)).predict(X), a)
    assert model.inertia_ == pytest.approx(loss, rel=1e-10)


def test_precomputed_and_objects():
    X, _ = blobs()
    rows = KernelKMeans(3, kernel=RBF(2.0), n_init=5, random_state=0).fit(X)
    given = KernelKMeans(3, kernel="precomputed", n_init=5, random_state=0).fit(RBF(2.0)(X))
    np.testing.assert_array_equal(given.predict(RBF(2.0)(X)), given.labels_)
    same_clusters(given.labels_, rows.labels_)
    assert not hasattr(given, "transform")
    words = ["acacac", "acacaca", "gtgtgt", "gtgtgtg", "cacaca"]
    for kernel in (Spectrum(2), Pairwise(lambda a, b: float(len(set(a) & set(b))))):
        same_clusters(KernelKMeans(2, kernel=kernel, n_init=3, random_state=0).fit_predict(words), [0, 0, 1, 1, 0])


def test_the_loss_is_that_of_the_definition():
    X, _ = blobs()
    kernel = RBF(1.5)
    model = KernelKMeans(3, kernel=kernel, random_state=0).fit(X)
    K, loss = kernel(X), 0.0
    for c in range(3):
        mine = model.labels_ == c
        inside = K[np.ix_(mine, mine)]
        loss += np.trace(inside) - inside.sum() / mine.sum()
    assert model.inertia_ == pytest.approx(loss, rel=1e-10)


def test_clusters_are_numbered_by_their_weight():
    X = np.repeat([[0.0], [10.0], [20.0]], [5, 30, 12], axis=0) + np.random.default_rng(0).standard_normal((47, 1))
    for start in ([0, 5, 35], [35, 5, 0]):
        model = KernelKMeans(3, kernel="linear", init=start).fit(X)
        assert np.bincount(model.labels_).tolist() == [30, 12, 5]


# ------------------------------------------------------------------------------------------------ landmarks, batches
def test_all_rows_as_landmarks_change_nothing():
    X, _ = blobs()
    start = np.array([0, 1, 2])
    exact, model = (
        KernelKMeans(3, kernel=RBF(2.0), init=start, n_landmarks=m, random_state=0).fit(X) for m in (None, 90)
    )
    np.testing.assert_array_equal(model.labels_, exact.labels_)
    assert model.inertia_ == pytest.approx(exact.inertia_, rel=1e-8)
    np.testing.assert_allclose(model.transform(X[:9]), exact.transform(X[:9]), atol=1e-6)
    assert (exact.solver_used_, model.solver_used_) == ("gram", "landmarks")


def test_features_that_do_not_fit_are_computed_again():
    X, _ = blobs(300)
    F, w = Polynomial(2).phi(X), np.ones(300)
    own = np.square(F).sum(axis=1)
    start = np.array([0, 1, 2])
    points = [FeaturePoints(lambda i: F[i], own, w, F.shape[1], F.dtype, room) for room in (0, 1e9)]
    assert [p._held is None for p in points] == [True, False]
    found = [solve_kmeans(p, start, 100) for p in points]
    gram = solve_kmeans(GramPoints(GivenGram(F @ F.T), w), start, 100)
    for one in found:
        np.testing.assert_array_equal(one.labels, gram.labels)
        assert one.loss == pytest.approx(gram.loss, rel=1e-9)


def test_batches_come_near_lloyd():
    X, _ = blobs(3000, 4, seed=3)
    whole = KernelKMeans(4, kernel=RBF(3.0), n_landmarks=60, n_init=3, random_state=0).fit(X)
    batches = KernelKMeans(4, kernel=RBF(3.0), n_landmarks=60, n_init=3, batch_size=200, random_state=0).fit(X)
    assert batches.solver_used_ == "batches"
    assert whole.inertia_ <= batches.inertia_ < 1.05 * whole.inertia_
    with pytest.raises(ValueError, match="batch_size=10 needs n_landmarks"):
        KernelKMeans(2, batch_size=10).fit(X)


# ------------------------------------------------------------------------------------------------ starts, hard cases
def test_starts_are_spread_by_squared_distance():
    """The law of the first and second row on three points, one of them double."""
    X, w = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 2.0, 1.0])
    points, rng = GramPoints(GivenGram(X @ X.T), w), np.random.default_rng(0)
    first = np.bincount([spread_rows(points, 1, rng)[0] for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(first, [0.25, 0.5, 0.25], atol=0.03)
    np.testing.assert_allclose(points.from_rows([0, 2]), np.square(X - X[[0, 2]].T))
    assert sorted(spread_rows(points, 3, rng)) == [0, 1, 2]


def test_far_rows_are_drawn():
    X = np.concatenate([np.random.default_rng(0).standard_normal(200), [1e3, 1e3 + 1]])[:, None]
    points = GramPoints(GivenGram(X @ X.T), np.ones(202))
    for seed in range(10):
        assert np.abs(X[spread_rows(points, 2, np.random.default_rng(seed)), 0]).max() > 900


class Drawn:
    """Random numbers that are known: the first row, and then two to choose from."""

    def choice(self, n, size=None, p=None):
        return 0 if size is None else np.array([1, 2])


def test_the_better_of_two_draws_is_taken():
    X = np.array([[0.0], [9.0], [5.0], [5.1], [5.2]])  # three rows near 5, one at 9
    assert list(spread_rows(GramPoints(GivenGram(X @ X.T), np.ones(5)), 2, Drawn())) == [0, 2]


def test_batches_move_a_centre_to_the_mean_of_all_it_has_seen():
    rng = np.random.default_rng(0)
    F, centres, mass = rng.standard_normal((30, 2)), np.array([[0.0, 9.0], [0.0, 9.0]]), np.zeros(2)
    for part in (slice(0, 10), slice(10, 30)):
        _move(centres, mass, F[part], np.zeros(len(F[part]), int))
    np.testing.assert_allclose(centres[:, 0], F.mean(axis=0))
    np.testing.assert_allclose(centres[:, 1], [9.0, 9.0])


def test_a_cluster_that_loses_all_rows_takes_the_farthest():
    X = np.array([[0.0], [0.1], [0.2], [10.0], [30.0]]) + 100.0
    points = GramPoints(GivenGram(X @ X.T), np.ones(5))
    found = solve_kmeans(points, np.array([0, 0, 1]), 20)  # the second centre is the first again
    assert found.status is Status.CONVERGED
    assert len(np.unique(found.labels)) == 3
    assert found.loss == pytest.approx(0.02, rel=1e-6)


def test_hard_cases():
    X, _ = blobs(20)
    with pytest.raises(ValueError, match="n_samples=20 should be >= n_clusters=21"):
        KernelKMeans(21).fit(X)
    assert KernelKMeans(20, random_state=0).fit(X).inertia_ == pytest.approx(0, abs=1e-9)
    with pytest.warns(NumericalWarning, match="only 2 different rows for n_clusters=3"):
        labels = KernelKMeans(3, random_state=0).fit_predict(np.repeat(X[:2], 5, axis=0))
    assert len(np.unique(labels)) == 2
    with pytest.warns(NumericalWarning, match="only 1 different rows"):
        assert (KernelKMeans(2).fit_predict(np.ones((6, 2))) == 0).all()
    with pytest.warns(ConvergenceWarning, match="after 1 rounds; raise max_iter=1"):
        KernelKMeans(5, kernel=RBF(0.3), max_iter=1, random_state=0).fit(blobs(300)[0])
    with pytest.warns(NumericalWarning, match="not positive semi-definite"):
        KernelKMeans(2, kernel=Sigmoid(2.0), random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"NaN|not finite|nan"):
        KernelKMeans(2, kernel=lambda a, b: np.nan).fit(X)


@pytest.mark.parametrize("init", [[0, 1], [0, 0, 1], [0.5, 1.0, 2.0], [0, 1, 99]])
def test_starts_that_are_none(init):
    with pytest.raises(ValueError, match="init"):
        KernelKMeans(3, init=init).fit(blobs()[0])


def test_float32_and_interrupts(monkeypatch):
    X, _ = blobs()
    model = KernelKMeans(3, kernel=RBF(2.0), random_state=0).fit(X.astype(np.float32))
    assert model.transform(X[:2].astype(np.float32)).dtype == np.float32

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.estimators.kmeans.solve_kmeans", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_gram_that_does_not_fit_is_computed_again():
    X, _ = blobs(400)
    a, b = (KernelKMeans(3, kernel=Linear(), memory=m, random_state=0).fit(X) for m in ("100kB", None))
    np.testing.assert_array_equal(a.labels_, b.labels_)


# ------------------------------------------------------------------------------------------------ silhouettes
def test_silhouettes_are_scikit_learns():
    X, y = blobs(600)
    y[0] = 7  # alone in its cluster
    kernel = RBF(2.0)
    expected = silhouette_samples(kernel.distance(X), y, metric="precomputed")
    np.testing.assert_allclose(silhouette(kernel.gram(X), y), expected, atol=1e-7)
    np.testing.assert_allclose(silhouette(kernel(X), y), expected, atol=1e-7)
    assert silhouette(kernel.gram(X[:4]), [0, 0, 1, 1]).shape == (4,)
    assert (silhouette(np.ones((4, 4)), [0, 0, 1, 1]) == 0).all()
    for bad in ([0] * 600, np.arange(600)):
        with pytest.raises(ValueError, match="between 2 and 599 clusters"):
            silhouette(kernel.gram(X), bad)
    with pytest.raises(ValueError, match="one label a row"):
        silhouette(kernel.gram(X), y[:5])


@pytest.mark.parametrize("settings", [{}, {"n_landmarks": 20}, {"n_landmarks": 20, "batch_size": 30}])
def test_verbose_prints_the_progress(settings, capsys):
    X, _ = blobs()
    quiet = KernelKMeans(3, kernel=RBF(2.0), random_state=0, **settings).fit(X)
    assert capsys.readouterr().out == ""
    told = KernelKMeans(3, kernel=RBF(2.0), random_state=0, verbose=True, **settings).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(re.fullmatch(r" *\d+\.\d s  round \d+  loss [\d.e+-]+", line) for line in lines)
    assert np.array_equal(told.labels_, quiet.labels_)

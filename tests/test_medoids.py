"""k-medoids: brute force over all sets of medoids, swaps against a slow twin, special cases that are nearest neighbours."""

import itertools
import signal
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from mercer import KMedoids, NearestMedoidClassifier
from mercer.errors import ConvergenceWarning, MemoryBudgetError, NotPSDError, NotSymmetricError, NumericalWarning
from mercer.estimators import medoids as module
from mercer.gram import GivenGram
from mercer.kernels import RBF, Linear, Multiquadric, Pairwise, Sigmoid, Spectrum
from mercer.linalg import Status
from mercer.solvers import _compiled_medoids as loops
from mercer.solvers import medoids as solvers
from mercer.solvers.medoids import KernelDistances, batch_rows, equal_rows, solve_medoids, solve_one_batch

METHODS = ["fasterpam", "onebatch", "alternate"]


def rng(seed=0):
    return np.random.default_rng(seed)


def dissimilarities(n, seed=0, dtype=np.float64):
    """Symmetric, positive, and no metric: nothing in the search may lean on the triangle inequality."""
    D = rng(seed).random((n, n)) ** 2
    D = (D + D.T).astype(dtype)
    np.fill_diagonal(D, 0.0)
    return D


def blobs(n=60, k=3, seed=0):
    """Clusters that nobody can mistake."""
    return make_blobs(n, 2, centers=10.0 * rng(seed).standard_normal((k, 2)), cluster_std=0.5, random_state=seed)


def loss(D, medoids, w=None):
    return float((D[np.asarray(medoids)].min(axis=0).astype(float) * (1.0 if w is None else w)).sum())


def best(D, k, w=None):
    """Smallest loss over all sets of k rows."""
    return min(loss(D, M, w) for M in itertools.combinations(range(len(D)), k))


def swaps(D, medoids, w=None):
    """Losses after every single swap, (k, n): medoid i for row x; rows that are medoids swap for nothing."""
    out = np.full((len(medoids), len(D)), np.inf)
    for i, x in itertools.product(range(len(medoids)), range(len(D))):
        if x not in medoids:
            out[i, x] = loss(D, [*np.delete(medoids, i), x], w)
    return out


def ranked(D, medoids):
    """Nearest and second nearest medoid of each column, by sorting."""
    order = np.argsort(D[medoids], axis=0, kind="stable")[:2]
    return order.astype(np.int32), np.take_along_axis(D[medoids], order, 0)


# ------------------------------------------------------------------------------------------------ compiled loops
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 5])
def test_what_a_swap_brings_against_a_slow_twin(dtype, k):
    D, w = dissimilarities(30, dtype=dtype), rng(1).random(30)
    medoids = rng(2).choice(30, k, replace=False)
    (near, _), (dn, ds) = ranked(D, medoids)
    removal, change = np.empty(k), np.empty(k)
    loops.removals(w, near, dn, ds, removal)
    expected = swaps(D, medoids, w) - loss(D, medoids, w)
    for x in np.setdiff1d(np.arange(30), medoids):
        gain, slot = loops.best_swap(D[x], w, near, dn, ds, removal, change)
        assert gain == pytest.approx(expected[:, x].min(), abs=1e-12)
        assert slot == expected[:, x].argmin()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 3, 8])
def test_the_state_after_each_swap_is_that_of_a_fresh_start(dtype, k):
    D = np.round(dissimilarities(40, k, dtype), 1)  # with ties
    n, w, medoids = 40, rng(1).random(40), rng(3).choice(40, k, replace=False)
    B, taken = np.ascontiguousarray(D[medoids].T), np.zeros(n, np.uint8)
    taken[medoids] = 1
    near, second = np.empty(n, np.int32), np.empty(n, np.int32)
    dn, ds, removal, change = np.empty(n, dtype), np.empty(n, dtype), np.empty(k), np.empty(k)
    loops.rank(B, near, second, dn, ds, 0, n)
    loops.removals(w, near, dn, ds, removal)
    progress, before = np.zeros(4, np.int64), loss(D, medoids, w)
    while progress[1] < n:
        tried, done = progress[2], progress[3]
        loops.search(D, w, medoids, taken, B, near, second, dn, ds, removal, change, progress, 1e-12, 10**6, 1)
        assert progress[2] == tried + 1  # so little effort is one candidate
        _, (first, other) = ranked(D, medoids)
        np.testing.assert_array_equal(B.T, D[medoids])
        np.testing.assert_array_equal(dn, first)
        np.testing.assert_array_equal(ds, other)
        np.testing.assert_array_equal(D[medoids[near], np.arange(n)], dn)
        np.testing.assert_array_equal(D[medoids[second], np.arange(n)], ds)
        assert (near != second).all()
        np.testing.assert_array_equal(np.flatnonzero(taken), np.sort(medoids))
        after = loss(D, medoids, w)
        assert after < before if progress[3] > done else after == before
        before = after
    assert progress[3] > 0


# ------------------------------------------------------------------------------------------------ the solver
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_no_single_swap_lowers_the_loss(k, weighted):
    for seed in range(5):
        D, w = dissimilarities(25, seed), rng(seed).random(25) if weighted else None
        found = solve_medoids(D, k, rng=rng(seed), weight=w, init="random")
        assert found.status is Status.CONVERGED
        assert found.loss == pytest.approx(loss(D, found.medoids, w), rel=1e-13)
        assert swaps(D, found.medoids, w).min() >= found.loss * (1 - 1e-12)
        np.testing.assert_array_equal(found.labels, D[found.medoids].argmin(axis=0))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_all_sets_of_medoids(k):
    for seed in range(4):
        D, w = dissimilarities(11, seed), rng(seed).random(11)
        found = solve_medoids(D, k, rng=rng(seed), weight=w, init="random", n_init=30)
        assert found.loss == pytest.approx(best(D, k, w), rel=1e-12)
        assert solve_medoids(D, k, rng=rng(seed), weight=w).loss >= found.loss * (1 - 1e-12)


@pytest.mark.parametrize("init", ["k-medoids++", "random", "build"])
@pytest.mark.parametrize("method", ["fasterpam", "alternate"])
def test_clear_clusters_are_found(method, init):
    X, y = blobs(24)
    D = cdist(X, X)
    found = solve_medoids(D, 3, rng=rng(), method=method, init=init, n_init=5)
    assert found.loss == pytest.approx(best(D, 3), rel=1e-12)
    assert len(set(zip(found.labels, y, strict=True))) == 3


def test_one_medoid_is_the_row_with_the_smallest_sum():
    for dtype in (np.float32, np.float64):
        D, w = dissimilarities(50, dtype=dtype), rng(5).random(50)
        for method in ("fasterpam", "alternate"):
            found = solve_medoids(D, 1, rng=rng(), weight=w, method=method)
            assert found.medoids.tolist() == [int((D.astype(float) @ w).argmin())]


def test_greedy_start():
    D, w, chosen = dissimilarities(30), rng(1).random(30), []
    for _ in range(4):
        chosen.append(min(set(range(30)) - set(chosen), key=lambda x: loss(D, [*chosen, x], w)))
    assert solvers._start(D, w, 4, "build", np.arange(30), rng()).tolist() == chosen


def test_spread_start_reaches_every_cluster_and_follows_the_weights():
    X, y = blobs(60, 4, seed=3)
    D = cdist(X, X)
    reached = [len(set(y[solvers._spread(D, np.ones(60), 4, np.arange(60), rng(s))])) for s in range(200)]
    by_chance = [len(set(y[rng(s).choice(60, 4, replace=False)])) for s in range(200)]
    assert np.mean(reached) > 3.5 > 3.0 > np.mean(by_chance)
    chances = np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    draws = np.bincount([solvers._drawn(chances, rng(s)) for s in range(4000)], minlength=5)
    np.testing.assert_allclose(draws / 4000, chances / 4, atol=0.03)
    assert (draws[[0, 2, 4]] == 0).all()
    start = solvers._spread(np.zeros((5, 5)), np.ones(5), 5, np.arange(5), rng())
    assert sorted(start) == [0, 1, 2, 3, 4]  # where no row is better than another, each still comes once


def test_weights_are_repetitions():
    D, times = dissimilarities(20), rng(1).integers(1, 4, 20)
    long = np.repeat(np.arange(20), times)
    for k, start in ((2, [3, 7]), (4, [0, 5, 9, 12])):
        first = np.searchsorted(long, start)
        weighted = solve_medoids(D, k, rng=rng(), weight=times, init=start)
        repeated = solve_medoids(D[np.ix_(long, long)], k, rng=rng(), init=first)
        assert swaps(D, weighted.medoids, times).min() >= weighted.loss * (1 - 1e-12)
        assert repeated.loss == pytest.approx(weighted.loss, rel=1e-12)
        np.testing.assert_array_equal(np.sort(long[repeated.medoids]), weighted.medoids)


def test_alternating_ends_where_each_medoid_is_the_best_of_its_cluster():
    for seed in range(5):
        X, w = rng(seed).standard_normal((40, 2)), rng(seed).random(40)
        D, start = cdist(X, X), rng(seed).choice(40, 4, replace=False)
        found = solve_medoids(D, 4, rng=rng(), weight=w, method="alternate", init=start)
        for i, x in enumerate(found.medoids):
            inside = np.flatnonzero(found.labels == i)
            costs = D[np.ix_(inside, inside)] @ w[inside]
            assert costs[inside == x] == pytest.approx(costs.min())
        assert found.n_swaps > 0
        assert found.loss < loss(D, start, w)
        # Not the other way round: a swap may help where no turn does.
        assert solve_medoids(D, 4, rng=rng(), weight=w, init=found.medoids).loss <= found.loss * (1 + 1e-12)


def test_few_rounds_end_with_the_status():
    X = rng().standard_normal((200, 2))
    D = cdist(X, X)
    for method in ("fasterpam", "alternate"):
        found = solve_medoids(D, 10, rng=rng(), method=method, init=np.arange(10), max_iter=1)
        assert (found.status, found.iterations) == (Status.MAX_ITER, 1)
        assert found.loss == pytest.approx(loss(D, found.medoids))


def test_single_precision_sums_in_double():
    D = dissimilarities(300, dtype=np.float32)
    found = solve_medoids(D, 8, rng=rng())
    assert found.loss == pytest.approx(loss(D, found.medoids), rel=1e-14)
    assert swaps(D, found.medoids).min() >= found.loss * (1 - 1e-12)


def test_equal_rows():
    A = np.round(rng().random((6, 6)))
    long = np.array([3, 0, 3, 5, 0, 1, 3])
    A = A[np.ix_(long, long)]
    expected = [next(j for j in range(7) if np.array_equal(A[j], A[i])) for i in range(7)]
    assert equal_rows(A).tolist() == expected


# ------------------------------------------------------------------------------------------------ one batch
def test_a_batch_of_all_rows_is_the_whole_problem():
    X = rng().standard_normal((80, 3))
    K, w = GivenGram(Linear()(X)), rng(1).random(80)
    distances = KernelDistances(K)
    a = solve_one_batch(distances, 5, rng=rng(2), weight=w, batch_size=80, init=np.arange(5))
    b = solve_medoids(distances.dense(), 5, rng=rng(2), weight=w, init=np.arange(5))
    np.testing.assert_array_equal(a.medoids, b.medoids)
    assert a.loss == pytest.approx(b.loss, rel=1e-7)


@pytest.mark.parametrize("k", [5, 30])
def test_one_batch_comes_close_to_all_pairs(k):
    X = np.vstack([rng().standard_normal((1500, 4)), np.exp(rng(1).standard_normal((1500, 4)))])
    D = cdist(X, X)
    whole = KMedoids(k, kernel="linear", method="fasterpam", random_state=0).fit(X)
    batch = KMedoids(k, kernel="linear", method="onebatch", batch_size=600, random_state=0).fit(X)
    assert whole.inertia_ == pytest.approx(loss(D, whole.medoid_indices_), rel=1e-6)
    assert batch.inertia_ == pytest.approx(loss(D, batch.medoid_indices_), rel=1e-6)  # of all rows, not of the batch
    assert batch.inertia_ < 1.05 * whole.inertia_
    assert loss(D, rng().choice(3000, k)) > 1.1 * whole.inertia_


def test_a_batch_is_all_that_is_computed(monkeypatch):
    X, shapes = rng().standard_normal((2000, 2)), []
    block = KernelDistances.block

    def seen(self, rows, columns):
        D = block(self, rows, columns)
        shapes.append(D.shape)
        return D

    monkeypatch.setattr(KernelDistances, "block", seen)
    monkeypatch.setattr(KernelDistances, "dense", None)
    KMedoids(4, method="onebatch", batch_size=100, random_state=0).fit(X)
    assert shapes == [(2000, 100), (2000, 4)]


def test_rows_of_a_batch_weigh_what_they_stand_for(monkeypatch):
    """A batch drawn at random serves a far cluster of few rows by one row: it must count as the cluster."""
    seen = []
    monkeypatch.setattr(solvers, "solve_medoids", lambda D, k, **o: seen.append(o) or solve_medoids(D, k, **o))
    X = np.vstack([rng().standard_normal((900, 2)), 50 + rng(1).standard_normal((100, 2))])
    w = rng(2).random(1000)
    solve_one_batch(KernelDistances(GivenGram(Linear()(X))), 2, rng=rng(), weight=w, batch_size=50)
    shares, batch = seen[0]["weight"], seen[0]["points"]
    assert len(set(batch)) == 50
    assert shares.sum() == pytest.approx(w.sum())
    expected = np.bincount(cdist(X, X[batch]).argmin(axis=1), weights=w, minlength=50)
    np.testing.assert_allclose(shares, expected, rtol=1e-12)


def test_sizes_of_batches():
    assert batch_rows(10**6, 10) == int(100 * np.log(10**7))
    assert batch_rows(10, 3) == 10
    assert batch_rows(10**5, 5000) == 5000
    with pytest.raises(ValueError, match="batch_size=3 is less than the number of medoids, 4; raise it"):
        KMedoids(4, method="onebatch", batch_size=3).fit(rng().random((30, 2)))


# ------------------------------------------------------------------------------------------------ the estimator
@pytest.mark.parametrize("method", METHODS)
def test_attributes_agree(method):
    X, y = blobs(90, 3)
    w = rng().random(90)
    model = KMedoids(3, kernel="linear", method=method, random_state=0).fit(X, sample_weight=w)
    D = cdist(X, X[model.medoid_indices_])
    assert model.inertia_ == pytest.approx((w * D.min(axis=1)).sum(), rel=1e-7)
    np.testing.assert_array_equal(model.labels_, D.argmin(axis=1))
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.labels_[model.medoid_indices_], [0, 1, 2])
    np.testing.assert_array_equal(model.cluster_centers_, X[model.medoid_indices_])
    np.testing.assert_allclose(model.transform(X), D, atol=1e-6)
    np.testing.assert_array_equal(model.fit_predict(X, sample_weight=w), model.labels_)
    assert model.solver_used_ == method
    assert len(set(zip(model.labels_, y, strict=True))) == 3
    assert model.get_feature_names_out().tolist() == ["kmedoids0", "kmedoids1", "kmedoids2"]


def test_gaussian_distances_have_the_order_of_euclidean_ones():
    X, T = rng().standard_normal((80, 3)), rng(1).standard_normal((40, 3))
    model = KMedoids(6, kernel=RBF(2.0), random_state=0).fit(X)
    D = cdist(T, X[model.medoid_indices_])
    np.testing.assert_array_equal(model.predict(T), D.argmin(axis=1))
    np.testing.assert_allclose(model.transform(T), np.sqrt(2 - 2 * np.exp(-(D**2) / 8)), atol=1e-7)


def test_three_ways_to_give_the_same_distances():
    X, T, k = rng().standard_normal((70, 3)), rng(1).standard_normal((20, 3)), RBF(1.5)
    w = rng(2).integers(0, 3, 70)
    one = KMedoids(5, kernel=k, n_init=20, random_state=0).fit(X, sample_weight=w)
    two = KMedoids(5, kernel="precomputed", n_init=20, random_state=0).fit(k(X), sample_weight=w)
    three = KMedoids(5, metric="precomputed", n_init=20, random_state=0).fit(k.distance(X), sample_weight=w)
    for other, test in ((two, k(T, X)), (three, k.distance(T, X))):
        assert set(other.medoid_indices_) == set(one.medoid_indices_)
        assert other.inertia_ == pytest.approx(one.inertia_, rel=1e-7)
        same = other.medoid_indices_[other.predict(test)]
        np.testing.assert_array_equal(same, one.medoid_indices_[one.predict(T)])
        assert not hasattr(other, "cluster_centers_")
    order = [three.medoid_indices_.tolist().index(i) for i in one.medoid_indices_]
    np.testing.assert_allclose(three.transform(k.distance(T, X))[:, order], one.transform(T), atol=1e-6)
    np.testing.assert_array_equal(two.labels_, two.predict(k(X)))
    np.testing.assert_array_equal(three.labels_, three.predict(k.distance(X)))
    assert (w[one.medoid_indices_] > 0).all()
    assert (w == 0).any()


def test_transform_needs_the_squares_of_new_rows():
    X = rng().random((20, 2))
    model = KMedoids(2, kernel="precomputed", random_state=0).fit(RBF()(X))
    assert not hasattr(model, "transform")
    for verb in ("transform", "fit_transform"):
        with pytest.raises(AttributeError) as caught:
            getattr(model, verb)(RBF()(X))
        assert "metric=" in str(caught.value.__cause__)
    assert hasattr(KMedoids(metric="precomputed"), "transform")
    assert hasattr(KMedoids(), "set_output")


def test_order_of_the_rows_does_not_matter():
    X, w = rng().standard_normal((50, 2)), rng(1).integers(1, 4, 50).astype(float)
    order = rng(2).permutation(50)
    for method in METHODS:
        a = KMedoids(4, method=method, random_state=0).fit(X, sample_weight=w)
        b = KMedoids(4, method=method, random_state=0).fit(X[order], sample_weight=w[order])
        np.testing.assert_array_equal(order[b.medoid_indices_], a.medoid_indices_)
        np.testing.assert_array_equal(b.labels_, a.labels_[order])
        assert a.inertia_ == b.inertia_


def test_the_unit_of_distances_does_not_matter():
    D = dissimilarities(40)
    a, b = (KMedoids(4, metric="precomputed", random_state=0).fit(s * D) for s in (1.0, 2.0**-600))
    np.testing.assert_array_equal(a.medoid_indices_, b.medoid_indices_)
    assert b.inertia_ == a.inertia_ * 2.0**-600


def test_seeds_and_threads():
    X = rng().standard_normal((1500, 3))
    make = lambda seed, method: KMedoids(20, method=method, init="random", random_state=seed).fit(X)  # noqa: E731
    for method in METHODS:
        a, b = make(0, method), make(0, method)
        with threadpool_limits(1, user_api="blas"):
            c = make(0, method)
        for other in (b, c):
            np.testing.assert_array_equal(a.medoid_indices_, other.medoid_indices_)
            np.testing.assert_array_equal(a.labels_, other.labels_)
            assert a.inertia_ == other.inertia_
        assert set(make(1, method).medoid_indices_) != set(a.medoid_indices_)


def test_more_starts_are_never_worse():
    X = rng().standard_normal((150, 2))
    few, many = (KMedoids(9, init="random", n_init=i, random_state=0).fit(X) for i in (1, 20))
    assert many.inertia_ < few.inertia_


def test_more_rounds_are_asked_for():
    X = rng().standard_normal((300, 2))
    with pytest.warns(ConvergenceWarning, match=r"still changed after 1 rounds, with \d+ swaps; raise max_iter"):
        model = KMedoids(20, init="random", max_iter=1, random_state=0).fit(X)
    assert not model.converged_
    assert model.n_iter_ == 1
    assert model.set_params(max_iter=100).fit(X).converged_


# ------------------------------------------------------------------------------------------------ kinds of rows
def edits(a, b):
    """Levenshtein's distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


WORDS = ["kernel", "kernels", "kennel", "colonel", "matrix", "matrices", "metrics", "matrix"]


def test_strings():
    kernel = Pairwise(lambda a, b: float(np.exp(-edits(a, b) / 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)
        model = KMedoids(2, kernel=kernel, n_init=5, random_state=0).fit(WORDS)
    assert model.labels_[0] != model.labels_[4]
    assert (model.labels_[:4] == model.labels_[0]).all()
    assert (model.labels_[4:] == model.labels_[4]).all()
    assert model.predict(["kernal", "matrics"]).tolist() == [model.labels_[0], model.labels_[4]]
    spectrum = KMedoids(2, kernel=Spectrum(2).normalise(), n_init=5, random_state=0).fit(WORDS)
    np.testing.assert_allclose(spectrum.transform(WORDS)[spectrum.medoid_indices_].diagonal(), 0.0, atol=1e-6)
    D = np.array([[edits(a, b) for b in WORDS] for a in WORDS])
    given = KMedoids(2, metric="precomputed", n_init=5, random_state=0).fit(D)
    assert given.inertia_ == best(D, 2)


def test_sparse_rows_and_tables():
    X = np.where(rng().random((60, 5)) > 0.5, rng(1).standard_normal((60, 5)), 0.0)
    dense = KMedoids(3, kernel="linear", random_state=0).fit(X)
    sparse = KMedoids(3, kernel="linear", random_state=0).fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.cluster_centers_.toarray(), X[sparse.medoid_indices_])
    np.testing.assert_array_equal(sparse.medoid_indices_, dense.medoid_indices_)
    table = pd.DataFrame({"word": WORDS, "size": [len(w) for w in WORDS]})
    kernel = Spectrum(2).normalise().on("word") + 0.01 * RBF().on("size")
    model = KMedoids(2, kernel=kernel, n_init=5, random_state=0).fit(table)
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    assert model.transform(table).shape == (8, 2)


def test_conditionally_definite_kernels_have_distances():
    X = rng().standard_normal((40, 2))
    model = KMedoids(3, kernel=Multiquadric(), random_state=0).fit(X)  # no warning
    s = np.sqrt(1 + cdist(X, X) ** 2)
    D = np.sqrt(2 * np.abs(s - 1))
    assert model.inertia_ == pytest.approx(loss(D, model.medoid_indices_), rel=1e-6)


def test_indefinite_kernels():
    A = rng().standard_normal((30, 30))
    K = (A + A.T) / 2
    squares = K.diagonal()[:, None] + K.diagonal() - 2 * K
    with pytest.warns(NumericalWarning, match=r"precomputed Gram matrix is indefinite.* goes down to -.*count as 0"):
        model = KMedoids(3, kernel="precomputed", random_state=0).fit(K)
    D = np.sqrt(np.maximum(squares, 0))
    assert model.inertia_ == pytest.approx(loss(D, model.medoid_indices_))
    with pytest.raises(NotPSDError, match=r"goes down to .* use another kernel, or mercer.repair"):
        KMedoids(3, kernel="precomputed", indefinite="raise").fit(K)
    X = rng().standard_normal((40, 2))
    for method in METHODS:
        with pytest.warns(NumericalWarning, match="Sigmoid"):
            KMedoids(3, kernel=Sigmoid(gamma=1.0, coef0=-3.0), method=method, random_state=0).fit(X)


# ------------------------------------------------------------------------------------------------ degenerate input
@pytest.mark.parametrize("method", METHODS)
def test_equal_rows_and_as_many_clusters_as_rows(method):
    X = rng().standard_normal((12, 2))
    model = KMedoids(12, method=method, random_state=0).fit(X)
    assert model.inertia_ == 0.0
    assert sorted(model.medoid_indices_) == list(range(12))
    assert sorted(model.labels_) == list(range(12))
    with pytest.raises(ValueError, match="n_samples=12 should be >= n_clusters=13"):
        KMedoids(13, method=method).fit(X)
    with pytest.warns(NumericalWarning, match="only 12 different rows for n_clusters=20; each is a medoid"):
        model = KMedoids(20, method=method, random_state=0).fit(np.vstack([X, X]))
    assert len(model.medoid_indices_) == model.transform(X).shape[1] == 12
    assert model.inertia_ == 0.0
    with pytest.warns(NumericalWarning, match="only 1 different rows"):
        model = KMedoids(3, method=method, random_state=0).fit(np.ones((9, 2)))
    assert model.labels_.tolist() == [0] * 9
    assert model.medoid_indices_.tolist() == [0]
    with pytest.warns(NumericalWarning, match="only 1 different rows"):  # different rows, and all distances underflow
        model = KMedoids(3, kernel=RBF(1e200), method=method, random_state=0).fit(X)
    assert model.labels_.tolist() == [0] * 12


def test_repeated_rows_of_given_distances():
    D = dissimilarities(6)
    long = np.repeat(np.arange(6), [1, 3, 1, 2, 1, 4])
    with pytest.warns(NumericalWarning, match="only 6 different rows for n_clusters=7"):
        model = KMedoids(7, metric="precomputed", random_state=0).fit(D[np.ix_(long, long)])
    np.testing.assert_array_equal(long[model.medoid_indices_], np.arange(6))
    K = RBF()(rng().random((6, 2)))[np.ix_(long, long)]
    with pytest.warns(NumericalWarning, match="only 6 different rows for n_clusters=7"):
        KMedoids(7, kernel="precomputed", random_state=0).fit(K)


def test_given_distances_are_checked():
    D = dissimilarities(20)
    fit = lambda D: KMedoids(3, metric="precomputed", random_state=0).fit(D)  # noqa: E731
    model = fit(D)
    for i, j, said in ((2, 5, "not symmetric: entries differ by up to"), (17, 3, "not symmetric")):
        bad = D.copy()
        bad[i, j] += 1e-3
        with pytest.raises(NotSymmetricError, match=said):
            fit(bad)
    with pytest.raises(ValueError, match=r"Negative values in data: dissimilarities must be >= 0, and X has -"):
        fit(D - 1.0)
    with pytest.raises(ValueError, match=r"square matrix to fit, got \(20, 19\)"):
        fit(D[:, 1:])
    with pytest.raises(ValueError, match="NaN"):
        fit(np.where(D > D.max() - 0.1, np.nan, D))
    for verb in (model.predict, model.transform):
        with pytest.raises(ValueError, match="Negative values in data"):
            verb(-D)
    large = dissimilarities(1200)
    large[1100, 30] *= 1.01  # beyond the first tile
    with pytest.raises(NotSymmetricError):
        fit(large)


def test_given_distances_stay_as_they_are():
    D = dissimilarities(40)
    expected = KMedoids(3, metric="precomputed", random_state=0).fit(D)
    for form in (np.asfortranarray(D), np.pad(D, 1)[1:-1, 1:-1], D.copy()):
        form.setflags(write=False)
        model = KMedoids(3, metric="precomputed", random_state=0).fit(form)
        np.testing.assert_array_equal(model.medoid_indices_, expected.medoid_indices_)
    offset = D + 0.5  # also of a row from itself
    model = KMedoids(3, metric="precomputed", n_init=30, random_state=0).fit(offset)
    assert model.inertia_ == pytest.approx(best(offset, 3))


def test_user_kernels_that_return_nan():
    bad = Pairwise(lambda a, b: np.nan if a[0] != b[0] else 1.0)
    for cls in (KMedoids, NearestMedoidClassifier):
        with pytest.raises(ValueError, match="NaN"):
            cls(2, kernel=bad).fit(rng().random((12, 2)), [0, 1] * 6)


def test_greedy_starts_are_for_few_rows():
    X = rng().random((module.LARGEST_BUILD + 1, 1))
    with pytest.raises(ValueError, match=r'init="build" takes n\^2 k steps and 5001 rows are too many'):
        KMedoids(2, init="build", method="onebatch", batch_size=10).fit(X)


def test_memory_is_asked_for_first(caplog):
    X = rng().random((3000, 2))
    with pytest.raises(MemoryBudgetError, match=r'distances between 3000 rows needs .*method="onebatch"'):
        KMedoids(3, method="fasterpam", memory="20MB").fit(X)
    with pytest.raises(MemoryBudgetError, match=r"to a batch of \d+ needs .*smaller batch_size"):
        KMedoids(3, method="onebatch", memory="2MB").fit(X)
    with caplog.at_level("INFO", "mercer"):
        model = KMedoids(3, memory="40MB", random_state=0).fit(X)
    assert model.solver_used_ == "onebatch"
    assert 'method="onebatch": the distances between 3000 rows are too many for the memory budget' in caplog.text
    assert KMedoids(3, random_state=0).fit(X).solver_used_ == "fasterpam"


def test_single_precision_stays(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "solve_medoids", lambda D, k, **o: seen.append(D.dtype) or solve_medoids(D, k, **o))
    X = rng().standard_normal((60, 3)).astype(np.float32)
    model = KMedoids(3, random_state=0).fit(X)
    assert model.transform(X).dtype == model.cluster_centers_.dtype == seen[0] == np.float32


# ------------------------------------------------------------------------------------------------ interruption
def interrupted(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["solve_medoids", "_nearness"])
def test_an_interrupted_fit_leaves_nothing(monkeypatch, name):
    X = rng().random((40, 2))
    model = KMedoids(3, random_state=0).fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert model.fit(X).labels_.shape == (40,)


def test_interrupts_are_seen_during_the_search():
    D, pressed = dissimilarities(1000), []
    KMedoids(50, metric="precomputed", random_state=0).fit(D)  # compiled by now

    def press():
        pressed.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    model = KMedoids(50, metric="precomputed", n_init=100_000, random_state=0)
    threading.Timer(0.5, press).start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(D)
    assert time.monotonic() - pressed[0] < 10
    assert not model.__sklearn_is_fitted__()


# ------------------------------------------------------------------------------------------------ nearest medoid
def test_one_medoid_a_class():
    X, y = make_blobs(60, 3, centers=3, cluster_std=3.0, random_state=0)
    labels = np.array(["pear", "fig", "apple"])[y]
    model = NearestMedoidClassifier(kernel="linear").fit(X, labels)
    expected = []
    for name in ("apple", "fig", "pear"):
        mine = np.flatnonzero(labels == name)
        expected.append(mine[cdist(X[mine], X[mine]).sum(axis=0).argmin()])
    assert model.medoid_indices_.tolist() == expected
    assert model.medoid_labels_.tolist() == model.classes_.tolist() == ["apple", "fig", "pear"]
    T = rng().standard_normal((50, 3)) * 5
    D = cdist(T, X[expected])
    np.testing.assert_array_equal(model.predict(T), model.classes_[D.argmin(axis=1)])
    np.testing.assert_allclose(model.decision_function(T), (T**2).sum(axis=1)[:, None] - D**2, atol=1e-9)


def test_all_rows_as_medoids_are_the_nearest_neighbour():
    X, y = load_digits(return_X_y=True)
    X, T, y = X[:200], X[200:500], y[:200]
    expected = KNeighborsClassifier(1).fit(X, y).predict(T)
    for kernel in ("linear", RBF(20.0)):
        model = NearestMedoidClassifier(200, kernel=kernel).fit(X, y)
        assert len(model.medoid_indices_) == 200
        np.testing.assert_array_equal(model.predict(T), expected)


def test_medoids_are_those_of_each_class_alone():
    X, y = make_blobs(90, 2, centers=3, random_state=2)
    model = NearestMedoidClassifier(4, kernel=RBF(2.0), n_init=20, random_state=0).fit(X, y)
    for c in range(3):
        alone = KMedoids(4, kernel=RBF(2.0), n_init=20, random_state=0).fit(X[y == c])
        expected = np.flatnonzero(y == c)[alone.medoid_indices_]
        assert set(model.medoid_indices_[model.medoid_labels_ == c]) == set(expected)
    K = RBF(2.0)(X)
    given = NearestMedoidClassifier(4, kernel="precomputed", n_init=20, random_state=0).fit(K, y)
    assert set(given.medoid_indices_) == set(model.medoid_indices_)
    np.testing.assert_array_equal(given.predict(K), model.predict(X))
    np.testing.assert_allclose(given.decision_function(K), model.decision_function(X), atol=1e-12)


def test_ties_go_to_the_first_class():
    for labels in (["b", "a"], ["a", "b"]):
        model = NearestMedoidClassifier(kernel="linear").fit([[-1.0], [1.0]], labels)
        assert model.predict([[0.0]]).tolist() == ["a"]
    model = NearestMedoidClassifier(kernel="linear").fit([[-1.0], [1.0], [9.0]], [2, 1, 0])
    assert model.predict([[0.0]]).tolist() == [1]


def test_equal_rows_of_two_classes_and_words():
    X, y = [[0.0], [0.0], [1.0], [1.0]], [0, 1, 0, 1]
    assert NearestMedoidClassifier(2).fit(X, y).predict(X).tolist() == [0, 0, 0, 0]
    kind = ["k"] * 4 + ["m"] * 4
    model = NearestMedoidClassifier(kernel=Spectrum(2).normalise()).fit(WORDS, kind)
    assert model.predict(["kernelled", "matrixes"]).tolist() == ["k", "m"]


def test_classes_of_weight_zero_are_absent():
    X, y = make_blobs(60, 2, centers=3, random_state=0)
    model = NearestMedoidClassifier(2, random_state=0).fit(X, y, sample_weight=(y != 1).astype(float))
    assert model.classes_.tolist() == [0, 2]
    assert (y[model.medoid_indices_] == model.medoid_labels_).all()
    with pytest.raises(ValueError, match="greater than one"):
        NearestMedoidClassifier().fit(X, y, sample_weight=(y == 1).astype(float))


@pytest.mark.parametrize("method", ["fasterpam", "alternate", "onebatch"])
def test_verbose_prints_the_progress(method, capsys):
    X = np.random.default_rng(0).standard_normal((80, 2))
    quiet = KMedoids(4, method=method, random_state=0).fit(X)
    assert capsys.readouterr().out == ""
    told = KMedoids(4, method=method, random_state=0, verbose=True).fit(X)
    assert "round 1  loss " in capsys.readouterr().out
    assert np.array_equal(told.medoid_indices_, quiet.medoid_indices_)

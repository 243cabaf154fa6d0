"""Neighbours in the kernel distance: the search against brute force, the estimators against scikit-learn and by hand."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    RadiusNeighborsClassifier,
    RadiusNeighborsRegressor,
)

from cases import close
from mercer import Engine, KernelNeighborsClassifier, KernelNeighborsRegressor
from mercer.engines import CpuEngine, nearest
from mercer.errors import KernelOutputError, MemoryBudgetError, NanError, NotPSDError, NumericalWarning
from mercer.gram import GivenGram, gram, operators
from mercer.kernels import (
    RBF,
    Laplacian,
    Linear,
    Matern,
    Multiquadric,
    Pairwise,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    Spectrum,
    ThinPlate,
    White,
    Window,
)
from mercer.kernels.nearness import nearness
from mercer.solvers import neighbors as search
from mercer.solvers.neighbors import search_of

RNG = np.random.default_rng(0)
X, T = RNG.standard_normal((150, 3)), RNG.standard_normal((40, 3))
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 2], X[:, 1] ** 2])
LABELS = np.digitize(X[:, 0] + X[:, 1], [-0.7, 0.6])
for array in (X, T, Y, LABELS):
    array.flags.writeable = False
BOTH = pytest.mark.parametrize("algorithm", ["brute", "tree"])


def brute(D, k):
    """The k smallest of each row of a matrix, ties to the smaller column."""
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, 1), order


def euclid(A, B):
    return np.sqrt(((A[:, None] - B) ** 2).sum(axis=-1))


# ---------------------------------------------------------------------------------------------- the reductions
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4, 33, 70, 200])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_is_a_stable_sort(dtype, k, largest, monkeypatch):
    """Entries of few values, so that most places are ties; tiles that are smaller and larger than k."""
    rng = np.random.default_rng(k)
    A = rng.integers(-3, 4, (31, 1)).astype(dtype)
    B = rng.integers(-3, 4, (97, 1)).astype(dtype)
    dense = A @ B.T
    values, columns = brute(-dense if largest else dense, k)
    values = -values if largest else values
    for tile in ((3, 5), (512, 960)):
        monkeypatch.setattr(CpuEngine, "tile_shape", tile)
        for K in (gram(Linear(), A, B), gram(Linear(), A, B, engine=Engine("cpu", threads=1)), GivenGram(dense)):
            found = K.reduce("topk", k=k, largest=largest)
            assert np.array_equal(found[0], values)
            assert np.array_equal(found[1], columns)
            assert found[0].dtype == dtype
    plain = gram(Linear(), A, B, engine="reference").reduce("topk", k=k, largest=largest)
    assert np.array_equal(plain[1], columns)


@pytest.mark.parametrize("rows", [np.sort, lambda A: -np.sort(A), lambda A: np.full_like(A, 2.0)])
def test_topk_of_sorted_and_equal_entries(rows):
    K = rows(RNG.standard_normal((5, 400)))
    for k in (1, 7, 100, 400):
        for largest in (True, False):
            found = GivenGram(K).reduce("topk", k=k, largest=largest)
            assert np.array_equal(found[1], brute(-K if largest else K, k)[1])


def test_topk_keeps_infinite_entries():
    K = np.array([[np.inf, 1.0, -np.inf, 1.0, np.inf]])
    values, columns = GivenGram(K).reduce("topk", k=4, largest=False)
    assert columns.tolist() == [[2, 1, 3, 0]]
    assert values.tolist() == [[-np.inf, 1.0, 1.0, np.inf]]


@pytest.mark.parametrize("place", [0, 2, 70, 199])
def test_nan_is_not_lost(place, monkeypatch):
    K = np.tile(np.arange(200.0), (3, 1))
    K[1, place] = np.nan
    for options in ({"op": "topk", "k": 3}, {"op": "topk", "k": 3, "largest": False}, {"op": "within", "radius": 9.0}):
        with pytest.raises(NanError, match="NaN"):
            GivenGram(K).reduce(**options)
    monkeypatch.setattr(Linear, "profile", lambda self, s: s * np.nan)
    for engine in ("cpu", "reference"):
        with pytest.raises(NanError):
            gram(Linear(), X, engine=engine).reduce("topk", k=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius", [-1.0, 0.0, 0.1, 1.7, np.inf])
def test_within(dtype, radius, monkeypatch):
    K = gram(RBF(0.8), X.astype(dtype), T.astype(dtype))
    D = K.squared_distances()
    dense = D.dense()
    rows, columns = np.nonzero(dense.astype(np.float64) <= radius)
    for tile in ((512, 960), (3, 5)):
        monkeypatch.setattr(CpuEngine, "tile_shape", tile)
        for A in (D, GivenGram(dense)):
            found = A.reduce("within", radius=radius)
            assert np.array_equal(found[0], np.searchsorted(rows, np.arange(len(X) + 1)))
            assert np.array_equal(found[1], columns)
            close(found[2], dense[rows, columns], 1e-5 if dtype == np.float32 else 1e-12)
    plain = gram(RBF(0.8), X, T, engine="reference").squared_distances().reduce("within", radius=radius)
    assert np.array_equal(plain[1], columns)


def test_within_keeps_what_a_float32_radius_would_not():
    K = np.array([[0.1, 0.2]], np.float32)
    assert GivenGram(K).reduce("within", radius=0.1)[1].tolist() == []  # 0.1 is more in float32
    assert GivenGram(K).reduce("within", radius=float(np.float32(0.1)))[1].tolist() == [0]
    assert GivenGram(K).reduce("within", radius=1e300)[1].tolist() == [0, 1]


@pytest.mark.parametrize("radius", [np.nan, [1.0, 2.0]])
def test_within_refuses(radius):
    with pytest.raises(ValueError, match="radius must be a number"):
        GivenGram(np.eye(3)).reduce("within", radius=radius)


def test_a_large_given_gram_is_reduced_in_blocks(monkeypatch):
    K = RNG.standard_normal((101, 30))
    whole = [GivenGram(K).reduce(op) for op in ("sum", "max", "logsumexp")], GivenGram(K).reduce("within", radius=0.3)
    monkeypatch.setattr(operators, "_REDUCED", 64)
    parts = [GivenGram(K).reduce(op) for op in ("sum", "max", "logsumexp")], GivenGram(K).reduce("within", radius=0.3)
    for a, b in zip(whole[0] + list(whole[1]), parts[0] + list(parts[1]), strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(GivenGram(np.asfortranarray(K)).reduce("topk", k=3)[1], brute(-K, 3)[1])


# ---------------------------------------------------------------------------------------------- the nearest of vectors
def nearest_by_hand(A, B, k):
    D = ((A[:, None].astype(np.float64) - B) ** 2).sum(axis=-1)
    return brute(D, k)


HARD = {
    "grid": RNG.integers(-2, 3, (230, 3)).astype(float),  # exact sums, most of them ties
    "duplicates": np.repeat(RNG.standard_normal((23, 3)), 10, axis=0),
    "equal": np.full((230, 3), 0.3),
    "two clusters far apart": np.concatenate([np.zeros((115, 3)), np.full((115, 3), 2.0**26)])
    + RNG.integers(-512, 513, (230, 3)) / 1024,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", HARD)
def test_nearest_vectors_are_exact(name, dtype, monkeypatch):
    A = HARD[name].astype(dtype)
    norms = (A.astype(np.float64) ** 2).sum(axis=1)
    for tile in ((256, 2000), (7, 11)):
        monkeypatch.setattr(nearest, "_TILE", tile)
        for k in (1, 6, 40):
            values, columns = nearest.nearest_vectors(A[:50], A, norms[:50], norms, k)
            expected, order = nearest_by_hand(A[:50], A, k)
            assert np.array_equal(columns, order)
            np.testing.assert_allclose(values, expected, rtol=1e-13)


def test_nearest_vectors_beyond_the_range_of_float32():
    A = (RNG.standard_normal((60, 4)) * 2e19).astype(np.float32)
    norms = (A.astype(np.float64) ** 2).sum(axis=1)
    assert np.array_equal(nearest.nearest_vectors(A, A, norms, norms, 5)[1], nearest_by_hand(A, A, 5)[1])


# ---------------------------------------------------------------------------------------------- kernels that fall
FALLING = [
    RBF(0.7),
    RBF([0.5, 2.0, np.inf]),
    RBF(covariance=np.diag([1.0, 2.0, 0.5]) + 0.2),
    3 * Matern(0.5),
    Matern(1.5, 0.4).named("smooth"),
    Matern(0.8) * RBF(3.0),
    Laplacian(2.0),
    RationalQuadratic(0.5).on(0, 2),
    Multiquadric(),
    Periodic(2.5),
    2 * RBF(0.3) + RBF(4.0) + 1.5,
    RBF(1.3) ** 3,
    Linear(),
    0.3 * Linear().on(1, 2),
    Linear().warp(np.tanh),
]
OTHERS = [
    RBF() + White(0.1),
    RBF().on(0) + RBF().on(1),
    Laplacian(metric="l1"),
    Polynomial(2),
    -1 * RBF(),
    0 * RBF(),
    RBF(np.inf),
    ThinPlate(),
    Window(),
    (Multiquadric() + 3.0) * RBF(),
    RBF() + -0.9 * RBF(2.0),
    RBF() + Linear(),
    RBF().normalise(),
]


@pytest.mark.parametrize("kernel", FALLING, ids=str)
def test_distance_grows_with_one_distance(kernel):
    near = nearness(kernel)
    found = search_of(kernel, X)
    s = found.S.dense()
    close(near.squared(s), kernel.squared_distance(X), 1e-12)
    grid = np.sort(np.concatenate([[0.0], 10.0 ** np.linspace(-12, 12, 200)]))
    assert (np.diff(near.squared(grid)) >= 0).all()
    assert near.squared(1.7e308) >= near.squared(1e12)
    for squared in (0.0, 0.1, 0.9, 1e9):
        reach = near.reach(squared)
        assert near.squared(min(reach, 1e300)) <= squared
        assert np.isinf(reach) or near.squared(np.nextafter(reach, np.inf)) > squared


@pytest.mark.parametrize("kernel", OTHERS, ids=str)
def test_distance_of_other_kernels_is_not_claimed(kernel):
    assert nearness(kernel) is None


@pytest.mark.parametrize("kernel", [*FALLING, *OTHERS], ids=str)
def test_neighbours_are_those_of_the_kernel_distance(kernel):
    """Against the dense matrix of distances, for new rows and for training rows."""
    if kernel.validity.satisfies("cpd"):
        model = KernelNeighborsRegressor(7, kernel=kernel, algorithm="brute").fit(X, Y)
        for rows, D in ((T, kernel.distance(T, X)), (None, kernel.distance(X))):
            if rows is None:
                D = np.where(np.eye(len(X)) > 0, np.inf, D)
            distances, columns = model.kneighbors(rows)
            close(distances, brute(D, 7)[0], 1e-7)
            close(np.take_along_axis(D, columns, 1), brute(D, 7)[0], 1e-7)


# ---------------------------------------------------------------------------------------------- scikit-learn
@BOTH
@pytest.mark.parametrize("kernel", [RBF(0.6), RBF(0.01), RBF(1e4), 2 * Matern(0.5), Linear()], ids=str)
def test_order_is_the_euclidean_one(kernel, algorithm):
    """Also where all kernel values are 0, or 1 to 8 digits."""
    model = KernelNeighborsClassifier(kernel=kernel, algorithm=algorithm).fit(X, LABELS)
    peer = KNeighborsClassifier().fit(X, LABELS)
    assert model.solver_used_ == algorithm
    for rows in (T, None):
        assert np.array_equal(model.kneighbors(rows)[1], peer.kneighbors(rows)[1])
        assert np.array_equal(model.kneighbors(rows, 11, False), peer.kneighbors(rows, 11, False))
    assert np.array_equal(model.predict(T), peer.predict(T))
    assert np.array_equal(model.predict(None), peer.predict(None))
    np.testing.assert_allclose(model.predict_proba(T), peer.predict_proba(T), atol=1e-15)
    assert model.score(T, np.digitize(T[:, 0], [0.0])) == peer.score(T, np.digitize(T[:, 0], [0.0]))


@BOTH
def test_linear_kernel_has_the_euclidean_distance(algorithm):
    for shift in (0.0, 1e6):  # k(x, x) + k(y, y) - 2 k(x, y) would keep four digits there
        model = KernelNeighborsRegressor(6, kernel="linear", algorithm=algorithm).fit(X + shift, Y)
        distances, columns = model.kneighbors(T + shift)
        expected = brute(euclid(T, X), 6)
        np.testing.assert_allclose(distances, expected[0], rtol=1e-10 if shift == 0 else 1e-8)
        assert np.array_equal(columns, expected[1])


@pytest.mark.parametrize("weights", ["uniform", "distance", lambda d: np.exp(-d)])
@pytest.mark.parametrize("targets", [Y, Y[:, :1], Y[:, 0]], ids=["two", "column", "one"])
def test_regression_is_that_of_scikit_learn(weights, targets):
    model = KernelNeighborsRegressor(4, weights=weights, kernel="linear").fit(X, targets)
    peer = KNeighborsRegressor(4, weights=weights).fit(X, targets)
    rows = np.concatenate([T, X[:5]])  # some at distance 0
    np.testing.assert_allclose(model.predict(rows), peer.predict(rows), rtol=1e-10)
    assert model.predict(rows).shape == peer.predict(rows).shape
    np.testing.assert_allclose(model.score(X, targets), peer.score(X, targets))
    np.testing.assert_allclose(model.predict(None), peer.predict(None), rtol=1e-10)


@pytest.mark.parametrize("weights", ["uniform", "distance", lambda d: 1 / (1 + d)])
def test_classification_is_that_of_scikit_learn(weights):
    words = np.array(["low", "middle", "high"])[LABELS]
    several = np.column_stack([words, np.array(["a", "b"])[(X[:, 2] > 0).astype(int)]])
    for y in (LABELS, words, several):
        model = KernelNeighborsClassifier(6, weights=weights, kernel="linear").fit(X, y)
        peer = KNeighborsClassifier(6, weights=weights).fit(X, y)
        assert np.array_equal(model.predict(T), peer.predict(T))
        for ours, theirs in zip(
            np.atleast_3d(model.predict_proba(T)) if y.ndim == 1 else model.predict_proba(T),
            np.atleast_3d(peer.predict_proba(T)) if y.ndim == 1 else peer.predict_proba(T),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
        for ours, theirs in zip(model._classes, peer.classes_ if y.ndim == 2 else [peer.classes_], strict=True):
            assert np.array_equal(ours, theirs)


@BOTH
@pytest.mark.parametrize("kernel", [RBF(0.9), Linear(), 2 * Matern(1.5)], ids=str)
def test_radius_is_that_of_scikit_learn(kernel, algorithm):
    """The rows within a kernel distance are those within the Euclidean one that goes with it."""
    radius = float(kernel.distance([[0.0, 0.0, 0.0]], [[0.8, 0.0, 0.0]])[0, 0])
    settings = {"radius": radius, "kernel": kernel, "algorithm": algorithm}
    inner = T[euclid(T, X).min(axis=1) < 0.8]
    model = KernelNeighborsRegressor(**settings).fit(X, Y)
    peer = RadiusNeighborsRegressor(0.8).fit(X, Y)
    np.testing.assert_allclose(model.predict(inner), peer.predict(inner), rtol=1e-12)
    labels = KernelNeighborsClassifier(**settings, outlier_label="most_frequent").fit(X, LABELS)
    theirs = RadiusNeighborsClassifier(0.8, outlier_label="most_frequent").fit(X, LABELS)
    assert len(inner) < len(T)
    assert np.array_equal(labels.predict(T), theirs.predict(T))
    np.testing.assert_allclose(labels.predict_proba(T), theirs.predict_proba(T), atol=1e-12)
    for rows in (T, None):
        distances, columns = model.radius_neighbors(rows)
        expected = peer.radius_neighbors(rows, return_distance=False)
        for d, c, e in zip(distances, columns, expected, strict=True):
            assert np.array_equal(c, np.sort(e))
            assert (d <= radius).all()
        ordered, others = model.radius_neighbors(rows, sort_results=True)
        for d, c, mine in zip(ordered, others, columns, strict=True):
            assert (np.diff(d) >= 0).all()
            assert set(c) == set(mine)


def test_radius_of_a_neighbour_holds_the_neighbour():
    """And one that is a little smaller does not."""
    for kernel in (RBF(0.7), RBF(0.1), Matern(0.5), Polynomial(2)):
        rows = KernelNeighborsRegressor(kernel=kernel).fit(X, Y)
        given = KernelNeighborsRegressor(kernel="precomputed").fit(kernel(X), Y)
        for model in (rows, given):
            distances, columns = model.kneighbors(None, 4)
            for i in range(0, len(X), 10):
                radius, last = distances[i, -1], columns[i, -1]
                assert last in model.radius_neighbors(None, radius, False)[i]
                assert last not in model.radius_neighbors(None, radius * (1 - 1e-9), False)[i]


def test_a_radius_that_holds_all_or_none():
    model = KernelNeighborsRegressor(radius=1.5, kernel=RBF(0.1)).fit(X, Y)  # no distance is more than sqrt 2
    np.testing.assert_allclose(model.predict(T), np.tile(Y.mean(axis=0), (len(T), 1)))
    assert [len(c) for c in model.radius_neighbors(T, np.inf, False)] == [len(X)] * len(T)
    assert [c.tolist() for c in model.radius_neighbors(X[:3], 0.0, False)] == [[0], [1], [2]]
    assert [len(c) for c in model.radius_neighbors(None, 0.0, False)] == [0] * len(X)


def test_no_neighbour_within_the_radius():
    far = np.array([[50.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    model = KernelNeighborsRegressor(radius=0.9).fit(X, Y)
    with pytest.warns(NumericalWarning, match=r"1 rows have no neighbour within radius=0\.9"):
        found = model.predict(far)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
    with pytest.raises(ValueError, match=r"row 0 has no neighbours within radius=0\.9; use a larger radius"):
        KernelNeighborsClassifier(radius=0.9).fit(X, LABELS).predict(far)
    other = KernelNeighborsClassifier(radius=0.9, outlier_label=-7).fit(X, LABELS)
    assert other.predict(far).tolist() == [-7, 1]
    with pytest.warns(NumericalWarning, match="outlier_label=-7 is none of the classes"):
        assert other.predict_proba(far)[0].tolist() == [0.0, 0.0, 0.0]
    known = KernelNeighborsClassifier(radius=0.9, outlier_label=2).fit(X, LABELS)
    assert known.predict_proba(far)[0].tolist() == [0.0, 0.0, 1.0]
    words = np.array(["a", "b", "c"])[LABELS]
    longer = KernelNeighborsClassifier(radius=0.9, outlier_label="somewhere").fit(X, words)
    assert longer.predict(far).tolist() == ["somewhere", "b"]
    for bad, said in ((["a", "b"], "2 labels, but y has 1"), (3, "does not go with labels such as")):
        with pytest.raises((ValueError, TypeError), match=said):
            KernelNeighborsClassifier(radius=0.9, outlier_label=bad).fit(X, words)


# ---------------------------------------------------------------------------------------------- brute and tree
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [X, *HARD.values()], ids=["normal", *HARD])
def test_tree_is_brute(rows, dtype):
    """To the last bit, ties included."""
    rows = rows.astype(dtype)
    y = np.arange(float(len(rows)))
    a, b, c = (
        KernelNeighborsRegressor(5, kernel=RBF([1.0, 2.0, 0.5]), **settings).fit(rows, y)
        for settings in ({"algorithm": "brute"}, {"algorithm": "tree"}, {"engine": "reference"})
    )
    for T in (rows[::7] + dtype(0.25), rows[::7], None):
        found, expected = b.kneighbors(T), a.kneighbors(T)
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[1], expected[1])
        near = a.radius_neighbors(T, 0.7), b.radius_neighbors(T, 0.7), c.radius_neighbors(T, 0.7)
        for i in range(len(near[0][0])):
            assert np.array_equal(near[0][1][i], near[1][1][i])
            assert np.array_equal(near[0][0][i], near[1][0][i])
            assert np.array_equal(near[0][1][i], near[2][1][i])
        close(c.kneighbors(T)[0], expected[0], 1e-6 if dtype == np.float32 else 1e-12)


def test_ties_of_distances_go_to_the_first_rows_and_of_votes_to_the_first_class():
    corners = np.array([[1.0, 0], [0, 1.0], [-1.0, 0], [0, -1.0], [3.0, 0]])
    for kernel in (RBF(), Linear(), Polynomial(2), Laplacian(metric="l1")):
        model = KernelNeighborsClassifier(2, kernel=kernel).fit(corners, ["b", "a", "b", "a", "c"])
        assert model.kneighbors([[0.0, 0.0]])[1].tolist() == [[0, 1]]
        assert model.predict([[0.0, 0.0]]).tolist() == ["a"]
        assert model.predict_proba([[0.0, 0.0]]).tolist() == [[0.5, 0.5, 0.0]]


def test_choice_of_a_tree():
    few, many = RNG.standard_normal((2000, 2)), RNG.standard_normal((2000, 12))
    assert KernelNeighborsRegressor().fit(few, few[:, 0]).solver_used_ == "tree"
    assert KernelNeighborsRegressor().fit(few[:100], few[:100, 0]).solver_used_ == "brute"
    assert KernelNeighborsRegressor().fit(many, many[:, 0]).solver_used_ == "brute"
    assert KernelNeighborsRegressor(kernel="poly").fit(few, few[:, 0]).solver_used_ == "brute"
    assert KernelNeighborsRegressor().fit(sp.csr_array(few), few[:, 0]).solver_used_ == "brute"
    again = pickle.loads(pickle.dumps(KernelNeighborsRegressor().fit(few, few[:, 0])))
    assert again.solver_used_ == again._gram.used == "tree"
    for bad in ("poly", Laplacian(metric="l1"), "precomputed"):
        with pytest.raises(ValueError, match='algorithm="tree" needs'):
            rows = RBF()(X) if bad == "precomputed" else X
            KernelNeighborsRegressor(kernel=bad, algorithm="tree").fit(rows, Y)
    with pytest.raises(ValueError, match="all lengthscales are infinite"):
        KernelNeighborsRegressor(kernel=RBF([np.inf] * 3), algorithm="tree").fit(X, Y)
    assert KernelNeighborsRegressor(1, kernel=RBF([np.inf] * 3)).fit(X, Y[:, 0]).predict(T).tolist() == [Y[0, 0]] * 40


def test_a_tree_of_sparse_rows():
    S = sp.random_array((300, 4), density=0.4, rng=np.random.default_rng(0), format="csr")
    tree = KernelNeighborsRegressor(algorithm="tree").fit(S, np.arange(300.0))
    assert np.array_equal(tree.kneighbors(S)[1], KernelNeighborsRegressor().fit(S, np.arange(300.0)).kneighbors(S)[1])
    wide = sp.csr_array((3, 10**6))
    with pytest.raises(MemoryBudgetError, match=r'What helps: use algorithm="brute"'):
        KernelNeighborsRegressor(1, algorithm="tree", memory="1MB").fit(wide, [1.0, 2.0, 3.0])


@BOTH
def test_blocks_of_queries_do_not_show(algorithm, monkeypatch):
    from mercer.estimators import neighbors

    def answers():
        model = KernelNeighborsClassifier(weights="distance", algorithm=algorithm).fit(X, LABELS)
        near = KernelNeighborsClassifier(radius=1.0, outlier_label=0, algorithm=algorithm).fit(X, LABELS)
        return model.predict_proba(T), *model.kneighbors(), near.predict_proba(T), near.radius_neighbors(T)[1]

    whole = answers()
    monkeypatch.setattr(neighbors, "_BLOCK", 7)
    monkeypatch.setattr(search, "_PAIRS", 50)
    monkeypatch.setattr(search, "_TREE_ROWS", 3)
    for a, b in zip(whole, answers(), strict=True):
        assert all(np.array_equal(p, q) for p, q in zip(a, b, strict=True))
    with pytest.raises(ValueError, match="row 9 has no neighbours"):
        far = np.where(np.arange(20)[:, None] == 9, 1e3, X[:20])
        KernelNeighborsClassifier(radius=1.0, algorithm=algorithm).fit(X, LABELS).predict(far)


@pytest.mark.parametrize("kernel", [RBF(0.7), Polynomial(2)], ids=str)
def test_threads_do_not_show(kernel):
    rows, y = RNG.standard_normal((3000, 12)), RNG.standard_normal(3000)
    one, two = (
        KernelNeighborsRegressor(9, kernel=kernel, weights="distance", engine=Engine("cpu", threads=t)).fit(rows, y)
        for t in (1, 2)
    )
    for a, b in zip(one.kneighbors(), two.kneighbors(), strict=True):
        assert np.array_equal(a, b)


# ---------------------------------------------------------------------------------------------- precomputed
def test_precomputed_is_the_kernel_on_rows():
    for kernel in (RBF(0.8), Polynomial(2)):
        rows = KernelNeighborsClassifier(4, kernel=kernel).fit(X, LABELS)
        given = KernelNeighborsClassifier(4, kernel="precomputed").fit(kernel(X), LABELS)
        assert np.array_equal(given.predict(kernel(T, X)), rows.predict(T))
        assert np.array_equal(given.kneighbors(kernel(T, X), return_distance=False), rows.kneighbors(T)[1])
        np.testing.assert_allclose(given.kneighbors()[0], rows.kneighbors()[0], rtol=1e-6)
        assert np.array_equal(given.kneighbors()[1], rows.kneighbors()[1])
        for ours, theirs in zip(given.radius_neighbors(None, 0.9), rows.radius_neighbors(None, 0.9), strict=True):
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6)


def test_precomputed_has_no_distances_of_new_rows():
    K = RBF()(X)
    model = KernelNeighborsClassifier(kernel="precomputed").fit(K, LABELS)
    for ask in (model.kneighbors, lambda K: model.radius_neighbors(K, 0.5)):
        with pytest.raises(ValueError, match=r"no k\(x, x\) for new rows"):
            ask(K[:3])
    for settings in ({"weights": "distance"}, {"radius": 1.0}, {"weights": np.exp}):
        with pytest.raises(ValueError, match=r"radius must be None and weights=\"uniform\""):
            KernelNeighborsRegressor(kernel="precomputed", **settings).fit(K, Y)


# ---------------------------------------------------------------------------------------------- rows of any kind
WORDS = ["acacac", "gtgtgt", "acgtac", "gtgtac", "aaaa", "ccgg", "acac", "gggt", "tttt", "acgt"]


def common(a, b):
    """Letters that two words share, counted."""
    return float(sum(min(a.count(c), b.count(c)) for c in "acgt"))


@pytest.mark.parametrize("kernel", [Spectrum(2), Pairwise(common), common, Spectrum(2).normalise()])
def test_strings(kernel):
    def value(a, b):
        k = Pairwise(kernel) if kernel is common else kernel
        return float(k([a], [b])[0, 0])

    new = ["acgtgt", "ttta", "acacac"]
    D = np.array([[np.sqrt(max(value(a, a) + value(b, b) - 2 * value(a, b), 0)) for b in WORDS] for a in new])
    y = np.arange(10.0)
    model = KernelNeighborsRegressor(3, weights="distance", kernel=kernel).fit(WORDS, y)
    distances, columns = model.kneighbors(new)
    np.testing.assert_allclose(distances, brute(D.round(12), 3)[0], atol=1e-7)
    assert np.array_equal(columns, brute(D.round(7), 3)[1])
    w = np.array([(d == 0).astype(float) if (d == 0).any() else 1 / d for d in distances])
    np.testing.assert_allclose(model.predict(new), (w * y[columns]).sum(axis=1) / w.sum(axis=1))
    assert model.predict(new)[2] == 0.0  # the word itself


def test_tables_and_sparse_rows():
    table = pd.DataFrame({"word": WORDS, "age": np.arange(10.0)})
    kernel = Spectrum(2).on("word") + RBF(2.0).on("age")
    model = KernelNeighborsRegressor(2, kernel=kernel).fit(table, np.arange(10.0))
    D = np.where(np.eye(10) > 0, np.inf, kernel.distance(table))
    assert np.array_equal(model.kneighbors()[1], brute(D.round(9), 2)[1])
    S = sp.random_array((60, 500), density=0.05, rng=np.random.default_rng(1), format="csr")
    for kernel in ("rbf", "linear", "poly"):
        sparse = KernelNeighborsRegressor(4, kernel=kernel).fit(S, np.arange(60.0))
        dense = KernelNeighborsRegressor(4, kernel=kernel).fit(S.toarray(), np.arange(60.0))
        np.testing.assert_allclose(sparse.kneighbors(S)[0], dense.kneighbors(S)[0], atol=1e-7)
        np.testing.assert_allclose(sparse.kneighbors()[0], dense.kneighbors()[0], rtol=1e-7)
        assert np.array_equal(sparse.kneighbors()[1], dense.kneighbors()[1])


# ---------------------------------------------------------------------------------------------- degenerate data
@BOTH
def test_all_rows_equal(algorithm):
    rows = np.full((300, 2), 0.1)
    model = KernelNeighborsRegressor(3, weights="distance", algorithm=algorithm).fit(rows, np.arange(300.0))
    assert model.kneighbors([[0.1, 0.1], [5.0, 0.0]])[1].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert model.kneighbors([[0.1, 0.1]])[0].tolist() == [[0.0, 0.0, 0.0]]
    assert model.predict([[0.1, 0.1]]).tolist() == [1.0]
    own = model.kneighbors(return_distance=False)
    assert (own != np.arange(300)[:, None]).all()
    assert own[0].tolist() == [1, 2, 3]
    assert own[200].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kernel", [RBF(0.4), Linear(), Polynomial(3), Laplacian(metric="l1"), Matern(0.8)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_were_seen_are_at_distance_zero(kernel, dtype):
    """Twins with different targets share the answer equally, whatever the rounding of k(x, x)."""
    once = RNG.standard_normal((50, 7)).astype(dtype)
    rows, y = np.concatenate([once, once]), np.repeat([0.0, 1.0], 50)
    model = KernelNeighborsRegressor(5, weights="distance", kernel=kernel).fit(rows, y)
    distances, columns = model.kneighbors(once)
    assert (distances[:, :2] == 0).all()
    assert (distances[:, 2] > 0).all()
    assert np.array_equal(columns[:, :2], np.arange(50)[:, None] + [0, 50])
    assert np.array_equal(model.predict(once), np.full(50, 0.5))
    assert distances.dtype == dtype


def test_targets_at_the_end_of_the_range():
    rows = [[0.0], [1.0], [9.0]]
    model = KernelNeighborsRegressor(2).fit(rows, [1.5e308, 1.7e308, -1.0])
    np.testing.assert_allclose(model.predict([[0.4]]) / 2, [0.8e308])
    assert KernelNeighborsRegressor(1).fit(rows, [1e300, 0.1, 1e-320]).predict(rows).tolist() == [1e300, 0.1, 1e-320]


def test_float32_stays_float32():
    x, t = X.astype(np.float32), T.astype(np.float32)
    model = KernelNeighborsRegressor(weights="distance").fit(x, Y[:, 0].astype(np.float32))
    assert model.predict(t).dtype == model.kneighbors(t)[0].dtype == np.float32
    labels = KernelNeighborsClassifier(radius=1.2, outlier_label=1).fit(x, LABELS)
    assert labels.predict_proba(t).dtype == labels.radius_neighbors(t)[0][0].dtype == np.float32
    np.testing.assert_allclose(
        model.predict(t), KernelNeighborsRegressor(weights="distance").fit(X, Y[:, 0]).predict(T), 1e-4
    )
    assert model.kneighbors(T)[0].dtype == np.float64  # new rows in float64 are not rounded


# ---------------------------------------------------------------------------------------------- errors, warnings
def test_numbers_of_neighbours_that_cannot_be():
    with pytest.raises(ValueError, match=r"n_neighbors=151 is more than there are training rows: n_samples=150"):
        KernelNeighborsRegressor(151).fit(X, Y)
    model = KernelNeighborsRegressor(150).fit(X, Y)
    np.testing.assert_allclose(model.predict(T), np.tile(Y.mean(axis=0), (40, 1)))
    for bad in (0, -1, 151):
        with pytest.raises(ValueError, match="n_neighbors"):
            model.kneighbors(T, bad)
    with pytest.raises(TypeError, match="n_neighbors does not take"):
        model.kneighbors(T, 2.5)
    for ask in (model.kneighbors, lambda: model.predict(None)):
        with pytest.raises(ValueError, match=r"beside the row itself: n_samples_fit=150"):
            ask()
    for bad in (None, -1.0, np.nan, "x"):
        with pytest.raises(ValueError, match="radius="):
            model.radius_neighbors(T, bad)


def test_weights_that_misbehave():
    for bad, said in (
        (lambda d: d[:, :1], "weights returned shape"),
        (lambda d: d * np.nan, "negative weights, NaN or infinity"),
        (lambda d: -d, "negative weights, NaN or infinity"),
        (lambda d: 0 * d, "gave 0 to all neighbours"),
    ):
        for model in (KernelNeighborsRegressor(weights=bad), KernelNeighborsClassifier(weights=bad)):
            with pytest.raises(ValueError, match=said):
                model.fit(X, LABELS).predict(T)
    seen = []
    near = KernelNeighborsRegressor(radius=1.0, weights=lambda d: seen.append(d.shape) or np.ones_like(d)).fit(X, Y)
    np.testing.assert_allclose(near.predict(X), KernelNeighborsRegressor(radius=1.0).fit(X, Y).predict(X))
    assert seen == [(len(c),) for c in near.radius_neighbors(X, return_distance=False)]


def test_nan_of_a_users_kernel():
    def broken(a, b):
        return np.nan if a[0] > 1.5 or b[0] > 1.5 else float(a @ b)

    with pytest.raises(KernelOutputError, match="NaN"):
        KernelNeighborsRegressor(kernel=broken).fit(X, Y)
    fine = X[(X[:, 0] < 1.5)]
    model = KernelNeighborsRegressor(kernel=broken).fit(fine, fine[:, 0])
    with pytest.raises(KernelOutputError, match="NaN"):
        model.predict([[2.0, 0.0, 0.0]])


def test_indefinite_kernels():
    kernel = Sigmoid(1.0, -1.0)
    with pytest.warns(
        NumericalWarning, match=r"Sigmoid.* is not conditionally PSD: .*negative squared distances count"
    ):
        model = KernelNeighborsRegressor(kernel=kernel).fit(X, Y)
    assert (model.kneighbors(T)[0] >= 0).all()
    squares = np.maximum(kernel.squared_distance(T, X), 0)
    close(model.kneighbors(T)[0] ** 2, brute(squares, 5)[0], 1e-10)
    with pytest.raises(NotPSDError, match="Sigmoid"):
        KernelNeighborsRegressor(kernel=kernel, indefinite="raise").fit(X, Y)
    bad = np.eye(4) - 2 * np.eye(4)[::-1]
    with pytest.raises(NotPSDError, match="the precomputed Gram matrix is not conditionally PSD"):
        KernelNeighborsRegressor(1, kernel="precomputed", indefinite="raise").fit(bad, np.arange(4.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kernel in (
            Multiquadric(),
            Pairwise(lambda a, b: -float(((a - b) ** 2).sum())),
        ):  # CPD is all that is needed
            KernelNeighborsRegressor(kernel=kernel, indefinite="raise").fit(X[:40], Y[:40])


def test_many_classes_need_memory():
    rows, y = RNG.standard_normal((3000, 12)), np.arange(3000) // 2
    model = KernelNeighborsClassifier(1, memory="10MB").fit(rows, y)
    assert np.array_equal(model.predict(rows), y)
    with pytest.raises(MemoryBudgetError, match="probabilities of 3000 rows and 1500 classes"):
        model.predict_proba(rows)


def test_labels_in_a_column():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        model = KernelNeighborsClassifier().fit(X, LABELS[:, None])
    assert model.predict(T).shape == (40,)


def test_what_was_fitted_answers():
    model = KernelNeighborsClassifier(3, weights="distance").fit(X, LABELS)
    before = model.predict_proba(T)
    model.set_params(n_neighbors=9, weights="uniform", radius=0.3, algorithm="tree", outlier_label=5)
    assert np.array_equal(model.predict_proba(T), before)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(T), before)


def test_iris():
    rows, y = load_iris(return_X_y=True)
    ours, theirs = KernelNeighborsClassifier(kernel="linear"), KNeighborsClassifier()
    np.testing.assert_allclose(cross_val_score(ours, rows, y), cross_val_score(theirs, rows, y), atol=0.02)
    assert cross_val_score(KernelNeighborsClassifier(kernel="rbf"), rows, y).mean() > 0.95

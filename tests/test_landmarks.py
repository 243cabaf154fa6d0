"""Landmarks and ridge regression on them: against the exact solution of the reduced problem, and by any way the rows come."""

import os
import signal
import subprocess
import sys
import textwrap
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from mercer import KernelRidge, Nystroem, approx, streams
from mercer.approx import sweeps
from mercer.errors import ConvergenceWarning, MemoryBudgetError, ModelFileError, NumericalWarning, StreamError
from mercer.estimators.landmarks import Checkpoint
from mercer.kernels import RBF, Linear, Matern, Spectrum
from mercer.linalg import rpcholesky
from mercer.solvers import falkon

METHODS = list(approx.LANDMARKS)


def data(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n), rng.uniform(0.5, 2.0, n)


def reduced(kernel, X, y, w, Z, alpha, intercept):
    """beta and b of the reduced problem, by dense least squares."""
    K, M = kernel(X, Z), kernel(Z)
    Y = np.reshape(y, (len(X), -1))
    w = np.ones(len(X)) if w is None else w
    L = np.linalg.cholesky(M)
    root = np.sqrt(w)[:, None]
    F = np.linalg.solve(L, K.T).T
    F = np.column_stack([F, np.ones(len(F))]) if intercept else F
    penalty = alpha * np.eye(F.shape[1])
    if intercept:
        penalty[-1, -1] = 0.0
    u = np.linalg.solve((root * F).T @ (root * F) + penalty, (root * F).T @ (root * Y))
    b = u[-1] if intercept else np.zeros(Y.shape[1])
    return np.linalg.solve(L.T, u[: len(M)]), b


# ------------------------------------------------------------------------------------------------ choosing
@pytest.mark.parametrize("method", METHODS)
def test_landmarks_are_different_rows_and_follow_the_seed(method):
    X, _, _ = data()
    K = RBF(1.0).gram(np.concatenate([X, X]))  # every row twice
    a, b, c = (approx.choose_landmarks(K, 25, method, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    assert len(a) == 25
    assert np.array_equal(a.index, b.index)
    assert not np.array_equal(a.index, c.index)
    assert a.method == method
    if method in ("rpcholesky", "kmeans++"):
        assert len(np.unique(a.index % 300)) == 25
    else:
        assert len(np.unique(a.index)) == 25
    assert (a.error is not None) == (method == "rpcholesky")


def left_by(K, index):
    """Share of the trace that rows leave unexplained, from the definition."""
    return 1 - np.trace(K[:, index] @ np.linalg.solve(K[np.ix_(index, index)], K[index])) / np.trace(K)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pivots_that_are_dropped_and_what_that_leaves(dtype):
    """More pivots are drawn than asked for; those left explain more than as many of the first, and know how much."""
    X = np.random.default_rng(0).standard_normal((900, 4)).astype(dtype)
    lazy = RBF(2.0).gram(X)
    K = RBF(2.0)(X.astype(float))
    found = [approx.choose_landmarks(lazy, 100, rng=np.random.default_rng(s)) for s in range(8)]
    first = [rpcholesky(lazy, 100, rng=np.random.default_rng(s)).pivots for s in range(8)]
    for one in found:
        assert len(np.unique(one.index)) == 100
        assert one.error == pytest.approx(left_by(K, one.index), rel=1e-6 if dtype == "float64" else 5e-3)
    assert np.mean([one.error for one in found]) < 0.96 * np.mean([left_by(K, index) for index in first])


def test_a_landmark_that_explains_itself_alone_is_not_dropped():
    """Rows far from all others: no other row speaks for their landmarks."""
    X = np.random.default_rng(0).standard_normal((2000, 2))
    X[:25] = 50.0 * np.arange(1, 26)[:, None]
    K = RBF(2.0).gram(X)
    found = approx.choose_landmarks(K, 60, rng=np.random.default_rng(1))
    assert set(range(25)) <= set(found.index.tolist())


def test_of_two_landmarks_that_say_the_same_one_stays():
    X = np.repeat(10.0 * np.arange(200.0)[:, None], 2, axis=0)
    X[1::2, 0] += np.linspace(0.05, 0.5, 200)  # pairs of neighbours far from the other pairs, some nearer than others
    found = approx.choose_landmarks(RBF(1.0).gram(X), 330, rng=np.random.default_rng(0))
    assert len(np.unique(found.index // 2)) == 200


def test_pivots_are_dropped_as_by_trying_each():
    """The slow twin: drop the pivot without which least is left, again and again."""
    X = np.random.default_rng(0).standard_normal((200, 3))
    K = RBF(1.0)(X)
    for seed in range(3):
        pivots = rpcholesky(RBF(1.0).gram(X), 66, rng=np.random.default_rng(seed)).pivots.tolist()
        for _ in range(6):
            pivots.remove(min(pivots, key=lambda p: left_by(K, [q for q in pivots if q != p])))
        assert approx.choose_landmarks(RBF(1.0).gram(X), 60, rng=np.random.default_rng(seed)).index.tolist() == pivots


@pytest.mark.parametrize("method", METHODS)
def test_any_kernel_has_landmarks(method):
    words = ["".join(w) for w in np.random.default_rng(0).choice(list("abc"), (40, 6))]
    found = approx.choose_landmarks(Spectrum(2).gram(words), 8, method, rng=np.random.default_rng(0))
    assert len(found) == 8


@pytest.mark.parametrize(
    ("count", "method", "tol", "message"),
    [
        (0, "uniform", 0.0, "n_landmarks=0 must be between 1 and"),
        (301, "uniform", 0.0, "n_landmarks=301 must be between 1 and the number of rows, 300"),
        (5, "best", 0.0, "landmarks='best' is not known; there are rpcholesky"),
        (5, "uniform", 0.1, "a tolerance needs landmarks"),
    ],
)
def test_landmarks_that_cannot_be(count, method, tol, message):
    with pytest.raises(ValueError, match=message):
        approx.choose_landmarks(RBF(1.0).gram(data()[0]), count, method, rng=np.random.default_rng(0), tol=tol)


def test_a_kernel_without_a_positive_diagonal_has_no_landmarks():
    with pytest.raises(ValueError, match=r"has no positive k\(x, x\) on these rows"):
        approx.choose_landmarks((RBF(1.0) - 2 * RBF(0.5)).gram(data()[0]), 5, rng=np.random.default_rng(0))


def test_kmeans_plus_plus_takes_a_row_of_each_cluster():
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(10.0)[:, None] * 100, 20, axis=0) + 0.01 * rng.standard_normal((200, 1))
    found = approx.choose_landmarks(Linear().gram(X), 10, "kmeans++", rng=rng)
    assert sorted(found.index // 20) == list(range(10))


def test_leverage_finds_the_rare_direction():
    """One row of ten thousand alone in its direction has leverage near 1."""
    X = np.zeros((2000, 2))
    X[:, 0] = 1.0
    X[7] = [0.0, 1.0]
    hits = [7 in approx.choose_landmarks(Linear().gram(X), 10, "leverage", rng=np.random.default_rng(s), alpha=0.01).index
            for s in range(20)]  # fmt: skip
    assert np.mean(hits) > 0.3  # uniform: 0.005
    scores = approx.landmarks._scores(Linear().gram(X), np.arange(2000), np.arange(2000), np.ones(2000), 0.01,
                                      Linear().gram(X).diag())  # fmt: skip
    G = X @ X.T
    np.testing.assert_allclose(scores, np.diagonal(G @ np.linalg.inv(G + 0.01 * np.eye(2000))), atol=1e-8)


def test_leverage_scores_from_weighted_landmarks():
    """Every row twice: one copy of each with weight 2 says all."""
    X = np.repeat(data(30)[0], 2, axis=0)
    K = RBF(1.0)(X)
    exact = np.diagonal(K @ np.linalg.inv(K + 0.1 * np.eye(60)))
    G = RBF(1.0).gram(X)
    got = approx.landmarks._scores(G, np.arange(60), np.arange(0, 60, 2), np.full(30, 2.0), 0.1, G.diag())
    np.testing.assert_allclose(got, exact, atol=1e-10)


def test_centres_among_more_rows_than_are_looked_at(monkeypatch):
    monkeypatch.setattr(approx.centres, "_CANDIDATES", 40)
    monkeypatch.setattr(approx.centres, "_SAMPLE", (2, 3, 0.0))
    X, y, w = data()
    held = streams.Held(X, y[:, None], w)
    found = approx.find_centres(RBF(1.0), held, 20, "rpcholesky", rng=np.random.default_rng(0))
    assert np.array_equal(X[found.index], found.rows)
    assert len(found.sample) == 40
    assert found.n == 300
    assert found.weight.sum() == pytest.approx(w.sum(), rel=0.2)  # they stand for all rows


# ------------------------------------------------------------------------------------------------ the reduced problem
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [1, 2, 7])
def test_ridge_on_given_landmarks_is_the_reduced_problem(intercept, weighted, targets):
    X, y, w = data()
    Y = y if targets == 1 else np.column_stack([y * (c + 1) + X[:, c % 3] for c in range(targets)])
    w = w if weighted else None
    Z = X[:40]
    model = KernelRidge(0.3, kernel=RBF(1.0), landmarks=Z, fit_intercept=intercept, tol=1e-12).fit(
        X, Y, sample_weight=w
    )
    beta, b = reduced(RBF(1.0), X, Y, w, Z, 0.3, intercept)
    T = data(50, seed=1)[0]
    expected = RBF(1.0)(T, Z) @ beta + b
    np.testing.assert_allclose(np.reshape(model.predict(T), (50, -1)), expected, rtol=1e-7, atol=1e-8)
    assert model.solver_used_ == "landmarks"
    assert model.converged_
    assert model.residual_ < 1e-12
    assert np.array_equal(model.X_fit_, Z)
    assert model.landmarks_ is None


def test_an_alpha_for_each_target():
    X, y, _ = data()
    Y = np.column_stack([y, y, X[:, 2]])
    settings = {"kernel": RBF(1.0), "landmarks": X[:30], "tol": 1e-12}
    together = KernelRidge([0.1, 10.0, 0.1], **settings).fit(X, Y).predict(X)
    for c, alpha in enumerate([0.1, 10.0, 0.1]):
        np.testing.assert_allclose(together[:, c], KernelRidge(alpha, **settings).fit(X, Y[:, c]).predict(X), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_all_rows_as_landmarks_are_the_exact_fit(method):
    X, y, w = data(120)
    settings = {"kernel": Matern(1.5, 1.0), "fit_intercept": True}
    exact = KernelRidge(0.1, **settings).fit(X, y, sample_weight=w)
    model = KernelRidge(0.1, n_landmarks=120, landmarks=method, random_state=0, tol=1e-11, **settings)
    model.fit(X, y, sample_weight=w)
    if method != "leverage":
        assert sorted(model.landmarks_) == list(range(120))
        np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-7)
    else:
        np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=0.3)


def test_landmarks_name_rows_of_x_also_where_weights_are_zero():
    X, y, w = data()
    w[::3] = 0.0
    model = KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=20, random_state=0).fit(X, y, sample_weight=w)
    assert np.array_equal(X[model.landmarks_], model.X_fit_)
    assert (w[model.landmarks_] > 0).all()


def test_a_share_of_the_trace_chooses_how_many():
    X, y, _ = data()
    few, many = (KernelRidge(0.1, kernel=RBF(2.0), n_landmarks=t, random_state=0).fit(X, y) for t in (0.1, 0.001))
    assert few.landmark_error_ <= 0.1
    assert many.landmark_error_ <= 0.001
    assert len(few.X_fit_) < len(many.X_fit_) < 300


def test_a_share_that_is_not_reached_is_said(monkeypatch):
    monkeypatch.setattr(approx.centres, "MOST_LANDMARKS", 5)
    X, y, _ = data()
    with pytest.warns(NumericalWarning, match=r"5 landmarks leave 0\.\d+ of the trace unexplained"):
        KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=1e-6, random_state=0).fit(X, y)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_and_storage(storage, dtype):
    X, y, _ = data()
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    expected = KernelRidge(0.1, kernel=RBF(1.5), landmarks=X[:30], tol=1e-10).fit(X, y).predict(X)
    model = KernelRidge(0.1, kernel=RBF(1.5), landmarks=storage(X[:30].astype(dtype)), tol=1e-10)
    got = model.fit(storage(X.astype(dtype)), y).predict(storage(X.astype(dtype)))
    assert got.dtype == dtype
    np.testing.assert_allclose(got, expected, atol=2e-4 if dtype == np.float32 else 1e-8)


def test_strings_and_tables():
    words = ["".join(w) for w in np.random.default_rng(0).choice(list("abc"), (60, 6))]
    y = np.array([w.count("ab") for w in words], float)
    model = KernelRidge(0.01, kernel=Spectrum(2), n_landmarks=40, random_state=0).fit(words, y)
    assert model.score(words, y) > 0.9
    assert all(words[i] == z for i, z in zip(model.landmarks_, model.X_fit_, strict=True))


def test_a_weight_is_a_repetition():
    X, y, _ = data(100)
    w = np.random.default_rng(0).integers(0, 4, 100)
    settings = {"kernel": RBF(1.0), "n_landmarks": 30, "random_state": 0, "fit_intercept": True}
    a = KernelRidge(0.1, **settings).fit(X, y, sample_weight=w)
    b = KernelRidge(0.1, **settings).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert np.array_equal(a.predict(X), b.predict(X))


def test_a_factor_of_low_rank_makes_iterations_few(monkeypatch):
    X, y, w = data(1100, 2)
    settings = {"kernel": RBF(0.7), "fit_intercept": True, "random_state": 0}
    exact = KernelRidge(0.01, **settings).fit(X, y, sample_weight=w)
    few = KernelRidge(0.01, solver="cg", **settings).fit(X, y, sample_weight=w)
    monkeypatch.setattr("mercer.estimators.ridge._preconditioner", lambda *a: None)
    many = KernelRidge(0.01, solver="cg", **settings).fit(X, y, sample_weight=w)
    assert few.n_iter_ < 0.3 * many.n_iter_
    np.testing.assert_allclose(few.predict(X), exact.predict(X), atol=1e-6)


# ------------------------------------------------------------------------------------------------ features of landmarks
@pytest.mark.parametrize("method", METHODS)
def test_inner_products_of_features_are_the_kernel_through_landmarks(method):
    X, _, _ = data()
    T = data(30, seed=1)[0]
    model = Nystroem(RBF(1.0), n_components=40, landmarks=method, random_state=0).fit(X)
    Z = model.components_
    assert np.array_equal(X[model.component_indices_], Z)
    expected = RBF(1.0)(T, Z) @ np.linalg.solve(RBF(1.0)(Z), RBF(1.0)(Z, T))
    F = model.transform(T)
    np.testing.assert_allclose(F @ F.T, expected, atol=1e-8)
    np.testing.assert_allclose(model.normalization_ @ RBF(1.0)(Z) @ model.normalization_.T, np.eye(40), atol=1e-6)
    G = model.transform(X)
    left = 1 - (G**2).sum() / 300
    assert model.landmark_error_ == (pytest.approx(left, rel=1e-6) if method == "rpcholesky" else None)
    assert model.kernel_error_.n_rows == 200


def test_features_reach_a_tolerance_and_read_strings_and_float32():
    X, _, _ = data()
    model = Nystroem(RBF(2.0), n_components=300, tol=0.01, random_state=0).fit(X)
    assert model.transform(X).shape[1] == len(model.components_) < 100
    assert model.landmark_error_ <= 0.01
    single = Nystroem(RBF(2.0), n_components=30, random_state=0).fit(X.astype(np.float32))
    F = single.transform(X.astype(np.float32))
    assert F.dtype == np.float32
    Z = single.components_.astype(float)
    expected = RBF(2.0)(X, Z) @ np.linalg.solve(RBF(2.0)(Z), RBF(2.0)(Z, X))
    np.testing.assert_allclose(F @ F.T, expected, atol=1e-3)
    words = ["".join(w) for w in np.random.default_rng(0).choice(list("abc"), (40, 6))]
    K = Spectrum(2)(words)
    F = Nystroem(Spectrum(2), n_components=9, random_state=0).fit(words).transform(words)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-8)  # nine pairs of letters span all


def test_features_of_many_rows_do_not_need_a_factor_of_all():
    X = np.random.default_rng(0).standard_normal((30_000, 3)).astype(np.float32)
    model = Nystroem(RBF(1.0), n_components=50, random_state=0).fit(X)
    assert model.transform(X).shape == (30_000, 50)
    with pytest.raises(MemoryBudgetError, match=r"choosing 500 landmarks among 20000 rows needs 58\.5 MB"):
        Nystroem(RBF(1.0), n_components=500, memory="40MB").fit(X)
    with pytest.raises(ValueError, match="has no rows to choose landmarks from"):
        Nystroem("precomputed").fit(np.eye(5))
    with pytest.warns(NumericalWarning, match="n_components=9 is more than the number of rows, 5"):
        Nystroem(RBF(1.0), n_components=9).fit(X[:5])


# ------------------------------------------------------------------------------------------------ ways the rows come
@pytest.fixture
def small_grid(monkeypatch):
    """Blocks so small that a few hundred rows are many of them."""
    monkeypatch.setattr(streams, "LOOK", 64)
    monkeypatch.setattr(sweeps, "READ", 64)
    monkeypatch.setattr(sweeps, "GROUP", 16)


def streamed(X, y, w, kind, folder):
    if kind == "arrays":
        return streams.from_arrays(X, y, w)
    if kind == "npy":
        for name, a in (("X", X), ("y", y), ("w", w)):
            np.save(folder / f"{name}.npy", a)
        return streams.from_npy(folder / "X.npy", folder / "y.npy", folder / "w.npy")
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y, "w": w}
        pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=37)
        return streams.from_parquet(folder / "rows.parquet", "y", weight="w")
    cuts = [0, 1, 60, 61, 250, 300]
    return streams.from_batches(lambda: ((X[a:b], y[a:b], w[a:b]) for a, b in pairwise(cuts)))


@pytest.mark.parametrize("kind", ["arrays", "npy", "parquet", "batches"])
def test_streams_are_arrays_to_the_last_bit(kind, tmp_path, small_grid):
    X, y, w = data()
    settings = {"kernel": RBF(1.0), "n_landmarks": 30, "random_state": 0, "fit_intercept": True}
    expected = KernelRidge(0.1, **settings).fit(streams.from_arrays(X, y, w))
    model = KernelRidge(0.1, **settings).fit(streamed(X, y, w, kind, tmp_path))
    assert np.array_equal(model.dual_coef_, expected.dual_coef_)
    assert np.array_equal(model.X_fit_, X[model.landmarks_])
    beta, b = reduced(RBF(1.0), X, y, w, model.X_fit_, 0.1, True)
    np.testing.assert_allclose(model.predict(X), (RBF(1.0)(X, model.X_fit_) @ beta + b)[:, 0], atol=1e-4)


def test_threads_do_not_change_a_bit(small_grid):
    from threadpoolctl import threadpool_limits

    X, y, _ = data()
    model = KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=30, random_state=0)
    many = model.fit(X, y).dual_coef_
    with threadpool_limits(1):
        assert np.array_equal(model.fit(X, y).dual_coef_, many)


def test_a_stream_that_changes_or_lacks_landmarks_is_refused():
    X, y, _ = data()
    turn = iter(range(100))
    changing = streams.from_batches(lambda: iter([(X + next(turn), y)]))
    with pytest.raises(StreamError, match="gave other rows than before"):
        KernelRidge(kernel=RBF(1.0), n_landmarks=10).fit(changing)
    stream = streams.from_arrays(X, y)
    with pytest.raises(ValueError, match="need n_landmarks"):
        KernelRidge(kernel=RBF(1.0)).fit(stream)
    with pytest.raises(ValueError, match="a stream holds its targets"):
        KernelRidge(kernel=RBF(1.0), n_landmarks=10).fit(stream, y)


# ------------------------------------------------------------------------------------------------ going on
def test_a_fit_goes_on_from_its_checkpoint_to_the_last_bit(tmp_path, monkeypatch):
    X, y, _ = data()
    path = tmp_path / "fit.mercer"
    settings = {"kernel": RBF(1.0), "n_landmarks": 60, "fit_intercept": True, "tol": 1e-9}
    monkeypatch.setattr(approx.centres, "_SAMPLE", (2, 2, 0.0))  # a poor preconditioner: many iterations
    whole = KernelRidge(1e-3, random_state=3, **settings).fit(X, y)
    assert whole.n_iter_ > 8

    class CutError(Exception):
        pass

    def cut(progress):
        if progress.iteration == 5:
            raise CutError

    save = Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda self, tree, now=False: save(self, tree, now=True))
    first = KernelRidge(1e-3, random_state=3, checkpoint=path, callback=cut, **settings)
    with pytest.raises(CutError):
        first.fit(X, y)
    with pytest.raises(NotFittedError):
        first.predict(X)
    seen = []
    again = KernelRidge(1e-3, checkpoint=path, callback=lambda p: seen.append(p.iteration), **settings).fit(X, y)
    assert seen[0] == 6
    assert np.array_equal(again.dual_coef_, whole.dual_coef_)
    assert again.intercept_ == whole.intercept_
    seen.clear()
    KernelRidge(1e-3, checkpoint=path, callback=lambda p: seen.append(p.iteration), **settings).fit(X, y)
    assert seen == []  # it was ready


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    X, y, _ = data()
    path = tmp_path / "fit.mercer"
    KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=20, checkpoint=path).fit(X, y)
    for model, rows in (
        (KernelRidge(0.2, kernel=RBF(1.0), n_landmarks=20, checkpoint=path), X),
        (KernelRidge(0.1, kernel=RBF(1.1), n_landmarks=20, checkpoint=path), X),
        (KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=21, checkpoint=path), X),
        (KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=20, checkpoint=path), X[::-1] + 1),
    ):
        with pytest.raises(ModelFileError, match="belongs to another fit"):
            model.fit(rows, y)
    path.write_bytes(b"something else")
    with pytest.raises(ModelFileError):
        KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=20, checkpoint=path).fit(X, y)


def test_progress_is_told(capsys):
    X, y, _ = data()
    seen = []
    KernelRidge(1e-3, kernel=RBF(1.0), n_landmarks=60, random_state=0, verbose=True, callback=seen.append).fit(X, y)
    assert [p.iteration for p in seen] == list(range(1, len(seen) + 1))
    assert all(p.seconds >= 0 for p in seen)
    assert len(capsys.readouterr().out.splitlines()) == len(seen)


# ------------------------------------------------------------------------------------------------ bad input
def test_bad_landmarks():
    X, y, _ = data()
    for settings, message in (
        ({"n_landmarks": 301}, "n_landmarks=301 is more than the number of different rows, 300"),
        ({"n_landmarks": 0}, "The 'n_landmarks' parameter"),
        ({"n_landmarks": 1.5}, "The 'n_landmarks' parameter"),
        ({"n_landmarks": 5, "landmarks": "best"}, "The 'landmarks' parameter"),
        ({"landmarks": X[:5, :2]}, "columns"),
        ({"landmarks": np.full((3, 3), np.nan)}, "landmarks contains NaN"),
        ({"n_landmarks": 5, "kernel": "precomputed"}, "landmarks need rows"),
    ):
        with pytest.raises(ValueError, match=message):
            KernelRidge(**{"kernel": RBF(1.0), **settings}).fit(X, y)


def test_landmarks_given_twice_are_used_once():
    X, y, _ = data()
    with pytest.warns(NumericalWarning, match="landmarks holds 10 rows twice; each is used once"):
        model = KernelRidge(0.1, kernel=RBF(1.0), landmarks=np.concatenate([X[:20], X[:10]])).fit(X, y)
    assert np.array_equal(model.X_fit_, X[:20])


def test_landmarks_that_are_nearly_the_same_are_held_apart_by_jitter():
    X, y, _ = data()
    Z = np.concatenate([X[:20], X[:20] + 1e-9])
    with pytest.warns(NumericalWarning, match="numerically singular"):
        model = KernelRidge(0.1, kernel=RBF(1.0), landmarks=Z).fit(X, y)
    assert model.jitter_ > 0
    alone = KernelRidge(0.1, kernel=RBF(1.0), landmarks=X[:20]).fit(X, y)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), atol=1e-2)


def test_an_indefinite_kernel_is_warned_of_and_a_cap_too():
    X, y, _ = data()
    with pytest.warns() as caught:
        KernelRidge(10.0, kernel=RBF(2.0) - 0.5 * RBF(0.2), n_landmarks=100, landmarks="uniform", random_state=0).fit(
            X, y
        )
    assert any(issubclass(w.category, NumericalWarning) for w in caught)
    with warnings.catch_warnings(), pytest.raises(ConvergenceWarning, match="stopped at a residual"):
        warnings.simplefilter("error")
        KernelRidge(1e-6, kernel=RBF(1.0), n_landmarks=60, random_state=0, max_iter=1, tol=1e-12).fit(X, y)


def test_what_needs_all_rows_says_so():
    X, y, _ = data()
    model = KernelRidge(0.1, kernel=RBF(1.0), n_landmarks=20, random_state=0).fit(X, y)
    for question in ("leave_one_out", "smoother", "degrees_of_freedom", "weights"):
        assert not hasattr(model, question)
        with pytest.raises(AttributeError) as caught:
            getattr(model, question)
        assert "this one was made on 20 landmarks" in str(caught.value.__cause__)
    assert hasattr(KernelRidge(), "leave_one_out")


def test_a_budget_that_landmarks_do_not_fit():
    X, y, _ = data()
    with pytest.raises(MemoryBudgetError, match="choosing 200 landmarks among 300 rows needs"):
        KernelRidge(kernel=RBF(1.0), n_landmarks=200, random_state=0, memory="1MB").fit(X, y)
    with pytest.raises(MemoryBudgetError, match="kernel ridge on 200 landmarks needs"):
        KernelRidge(kernel=RBF(1.0), n_landmarks=200, landmarks="uniform", random_state=0, memory="1MB").fit(X, y)


def test_ctrl_c_leaves_nothing_half_fitted_and_the_checkpoint_goes_on(tmp_path):
    script = textwrap.dedent("""
        import numpy as np, os, signal, sys, threading, time
        from sklearn.exceptions import NotFittedError
        from mercer import KernelRidge, streams
        from mercer.kernels import RBF
        from mercer.estimators import landmarks
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40_000, 4)); y = np.sin(X[:, 0])
        path = sys.argv[1]
        model = KernelRidge(1e-4, kernel=RBF(1.0), n_landmarks=300, random_state=1, tol=1e-8)
        start = time.perf_counter(); whole = model.fit(X, y).dual_coef_.copy(); seconds = time.perf_counter() - start
        cut = 0
        init = landmarks.Checkpoint.__init__
        landmarks.Checkpoint.__init__ = lambda self, path, identity, every=0.0: init(self, path, identity, every)
        model.set_params(checkpoint=path)
        for share in rng.uniform(0.05, 0.8, 4):
            timer = threading.Timer(share * seconds, lambda: os.kill(os.getpid(), signal.SIGINT)); pressed = time.perf_counter()
            try:
                timer.start(); model.fit(X, y); timer.join(); time.sleep(0.01)
            except KeyboardInterrupt:
                cut += 1
                assert time.perf_counter() - pressed - share * seconds < 10, "late"
                try:
                    model.predict(X[:3])
                    assert np.array_equal(model.dual_coef_, whole), "half a model"  # cut after the last step
                except NotFittedError:
                    pass
            timer.join()
        assert np.array_equal(model.fit(X, y).dual_coef_, whole), "resumed to another model"
        print(cut)
    """)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "c.mercer")], capture_output=True, text=True, env=env,
                          timeout=55, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1
    assert signal.SIGINT  # the name in the script is the one here


def test_second_moments_of_all_rows_are_exact():
    X, _, w = data(100)
    Z = X[:10]
    known = falkon.safe_cholesky(RBF(1.0)(Z))
    phi = np.linalg.solve(np.linalg.cholesky(RBF(1.0)(Z)), RBF(1.0)(Z, X))
    got = falkon._second_moments(known, RBF(1.0).gram(X, Z), w, False)
    np.testing.assert_allclose(got, (phi * w) @ phi.T, rtol=1e-9, atol=1e-12)
    mean = (phi @ w)[:, None] / w.sum()
    centred = falkon._second_moments(known, RBF(1.0).gram(X, Z), w, True)
    np.testing.assert_allclose(centred, ((phi - mean) * w) @ (phi - mean).T, rtol=1e-8, atol=1e-10)

"""Solvers on a device of torch's: factors, ridge, landmarks, Gaussian processes and support vector machines equal the host's."""

import threading
import warnings
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from cases import check_sent_ahead, close
from mercer import (
    SVC,
    SVR,
    Engine,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelNeighborsClassifier,
    KernelPCA,
    KernelRidge,
    streams,
)
from mercer import kernels as mk
from mercer.errors import (
    ConvergenceWarning,
    MemoryBudgetError,
    NanError,
    NotPSDError,
    NotSymmetricError,
    NumericalWarning,
)
from mercer.estimators import gaussian_methods, plan
from mercer.gram import gram
from mercer.linalg import Status, safe_cholesky
from mercer.solvers import c_svc, solve_dual
from mercer.solvers.gaussian import posterior
from mercer.solvers.smo import largest_slopes
from mercer.threads import ahead, started

if not find_spec("torch"):
    pytest.skip("needs torch", allow_module_level=True)

import torch

from mercer.approx import centres, sweeps
from mercer.engines import TorchEngine, _tensor_tiles
from mercer.linalg import tensors
from mercer.solvers import batch_smo

ENGINES = ("cpu", "torch")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Many blocks, and a last one that is smaller."""
    monkeypatch.setattr(tensors, "BLOCK", 7)


@pytest.fixture
def like_a_gpu(monkeypatch):
    monkeypatch.setattr(TorchEngine, "room", lambda engine: 10**9)


def rows(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def positive(n, seed=0):
    A = rows(n, n, seed)
    return A @ A.T + np.eye(n)


def lost(*arguments, **options):
    raise RuntimeError("CUDA error: the device is gone")


# ---------------------------------------------------------------------------------------------- the factor
@pytest.mark.parametrize("n", [1, 7, 8, 30])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_factors_equal_those_of_arrays(n, dtype):
    K, B, tol = positive(n).astype(dtype), rows(n, 2, 1).astype(dtype), 1e-10 if dtype == "float64" else 1e-3
    shift = np.linspace(0.1, 1.0, n)
    given = torch.tensor(K)
    here, there = safe_cholesky(K, shift=shift), safe_cholesky(given, shift=shift)
    assert np.array_equal(given.numpy(), K)
    for verb in (
        lambda f: f.solve(B), lambda f: f.solve(B[:, 0]), lambda f: f.solve(B[::-1]), lambda f: f.solve_triangular(B),
        lambda f: f.solve_triangular(B, trans=True), lambda f: f.diag_inverse(), lambda f: f.multiply(B), lambda f: f.logdet(),
        lambda f: torch.as_tensor(f.inverse()).numpy(),
    ):  # fmt: skip
        close(verb(there), verb(here), tol)
    assert there.solve(B).dtype == there.multiply(B).dtype == dtype
    assert there.method == "cholesky"  # not by way of eigenvalues, which would give the same
    with pytest.raises(ValueError, match=f"of {n} rows"):
        there.solve(np.ones(n + 1))


def test_a_matrix_is_factored_in_place():
    K = torch.tensor(positive(20))
    factor = safe_cholesky(K, overwrite=True)
    assert factor.array.data_ptr() == K.data_ptr()
    assert factor.inverse(overwrite=True).data_ptr() == K.data_ptr()
    close(K, np.linalg.inv(positive(20)), 1e-10)


def test_jitter_is_that_of_arrays():
    v = rows(20, 1)
    for K in (v @ v.T, np.ones((9, 9))):
        with pytest.warns(NumericalWarning, match="numerically singular"):
            there = safe_cholesky(torch.tensor(K))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert there.jitter == safe_cholesky(K).jitter > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        safe_cholesky(torch.tensor(v @ v.T), warn=False)


def test_matrices_that_are_not_definite():
    K = positive(9) - 6 * np.eye(9)
    assert np.linalg.eigvalsh(K)[0] < -1
    given = torch.tensor(K)
    with pytest.raises(NotPSDError, match="smallest eigenvalue -"):
        safe_cholesky(given, overwrite=True, max_clip=3)
    assert np.array_equal(given.numpy(), K)  # as it was
    with pytest.warns(NumericalWarning, match="eigenvalues were raised"):
        there = safe_cholesky(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(there.solve(np.ones(9)), safe_cholesky(K).solve(np.ones(9)), 1e-6)
    assert there.method == "eigen"
    with pytest.raises(NotPSDError):
        safe_cholesky(torch.tensor(-positive(3)))


@pytest.mark.parametrize(
    ("change", "kind"), [(np.nan, NanError), (np.inf, NanError), (5.0, NotSymmetricError)], ids=str
)
def test_matrices_that_are_none(change, kind):
    K = positive(15)
    K[12, 3] = change
    with pytest.raises(kind):
        safe_cholesky(torch.tensor(K))
    with pytest.raises(NanError, match="shift"):
        safe_cholesky(torch.tensor(positive(3)), shift=np.nan)


def test_an_interrupt_leaves_the_matrix_as_it_was(monkeypatch):
    K, calls = positive(30), []
    real = torch.linalg.cholesky_ex

    def interrupted(A):
        calls.append(A)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(A)

    monkeypatch.setattr(torch.linalg, "cholesky_ex", interrupted)
    given = torch.tensor(K)
    with pytest.raises(KeyboardInterrupt):
        safe_cholesky(given, shift=1.0, overwrite=True)
    close(given, K, 0)


def test_two_triangles_share_a_matrix():
    """L below, and above it what applies the inverse of its own second moments."""
    X = rows(30)
    known = safe_cholesky(gram(mk.RBF(0.5), X, engine="torch").matrix(), overwrite=True)
    L, R = np.linalg.cholesky(mk.RBF(0.5)(X)), rows(30)[:, :2]
    for shift, whole in ((0.2, True), (0.7, False), (0.1, False)):
        found = tensors.SharedMoments(known, 300.0, shift, whole)
        close(np.tril(known.array.numpy()), L, 1e-12)
        C = 10 * L.T @ L + shift * np.eye(30)
        close(found.solve(R), np.linalg.solve(C, R), 1e-10)
    with pytest.raises(NotPSDError, match="a larger alpha"):
        tensors.SharedMoments(known, 1.0, -1.0, False)


def test_two_triangles_of_a_matrix_that_took_a_jitter():
    A = gram(mk.RBF(0.5), rows(30), engine="torch").matrix()
    diagonal = tensors.diagonal_of(A).copy()
    A.diagonal().add_(0.25)
    assert tensors._factorise(A) == 0
    L = np.tril(A.numpy())
    found = tensors.SharedMoments(tensors.TensorFactor(A, diagonal, 0.25), 30.0, 0.5, True)
    close(found.solve(np.eye(30)), np.linalg.inv(L.T @ L + 0.5 * np.eye(30)), 1e-10)


# ---------------------------------------------------------------------------------------------- matrices where they are made
def test_matrices_are_made_on_the_device():
    X = rows(12)
    K = gram(mk.RBF(), X, engine="torch")
    assert isinstance(K.matrix(), torch.Tensor)
    close(K.matrix(np.float32), K.dense(), 1e-6)
    assert K.matrix(np.float32).dtype == torch.float32
    assert isinstance(gram(mk.RBF(), X).matrix(np.float32), np.ndarray)
    assert gram(mk.RBF(), X).matrix(np.float32).dtype == np.float32


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_go_into_a_matrix_of_the_host(dtype):
    X = rows(12).astype(dtype)
    K, out = gram(mk.RBF() + mk.Linear(), X, engine="torch"), np.full((20, 15), 7.0, dtype)
    K.fill(out, 3, 2, np.array([5, 1, 1]), np.arange(4, 9))
    close(out[3:6, 2:7], gram(mk.RBF() + mk.Linear(), X).dense()[[5, 1, 1], 4:9], 1e-5 if dtype == "float32" else 1e-12)
    assert (out == 7.0).sum() == 20 * 15 - 15


def test_the_room_of_the_device_counts(monkeypatch):
    X, y = rows(60), rows(60)[:, 0]
    monkeypatch.setattr(TorchEngine, "room", lambda engine: 10_000)
    K = gram(mk.RBF(), X, engine="torch")
    with pytest.raises(MemoryBudgetError, match="the memory budget on cpu is 10 kB"):
        K.matrix()
    assert K.dense().shape == (60, 60)  # on the host there is room
    assert KernelRidge(kernel=mk.RBF(), engine="torch").fit(X, y).solver_used_ == "cg"
    with pytest.raises(MemoryBudgetError):
        KernelRidge(kernel=mk.RBF(), engine="torch", solver="exact").fit(X, y)
    assert gram(mk.RBF(), X, engine="torch", memory="1MB").matrix().shape == (60, 60)  # what is asked for counts
    said = KernelRidge(kernel=mk.RBF(), engine="torch").explain(X)
    assert "of 10 kB on cpu" in said


def test_plans_name_the_device(like_a_gpu):
    X = rows(60)
    assert "engine      torch, cpu, tiles" in gram(mk.RBF(), X, engine="torch").explain()
    assert "thread(s), tiles" in gram(mk.RBF(), X).explain()
    there, here = (
        GaussianProcessRegressor(kernel=mk.RBF(), engine=e)._problem(rows(3000), 1).sweep for e in ("torch", "cpu")
    )
    assert there < here


# ---------------------------------------------------------------------------------------------- ridge, Gaussian processes
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_exact_ridge(intercept, weighted):
    X, Y = rows(40), rows(40, 2, 1)
    w = 1.0 + np.arange(40) % 3 if weighted else None
    options = {"kernel": mk.RBF(1.3), "alpha": [0.1, 1.0], "fit_intercept": intercept, "solver": "exact"}
    here, there = (KernelRidge(engine=e, **options).fit(X, Y, w) for e in ENGINES)
    close(there.dual_coef_, here.dual_coef_, 1e-9)
    close(there.predict(X), here.predict(X), 1e-10)
    assert there.residual_ < 1e-12


def test_float32_stays_float32():
    X, y = rows(40).astype("float32"), rows(40)[:, 0].astype("float32")
    here, there = (KernelRidge(kernel=mk.RBF(), engine=e, solver="exact").fit(X, y) for e in ENGINES)
    assert there.dual_coef_.dtype == there.predict(X).dtype == np.float32
    close(there.predict(X), here.predict(X), 1e-5)


@pytest.mark.parametrize("q", [0, 2])
def test_evidence_and_its_slope(q):
    """Also by differences."""
    X, Y, H = rows(30), rows(30, 2, 1), rows(30, q, 2)
    K = gram(2.0 * mk.RBF([0.7, 1.0, 1.5]), X, engine="torch")
    here, there = posterior(K.dense(), 0.3, Y, H), posterior(K.matrix(), 0.3, Y, H)
    assert there.evidence == pytest.approx(here.evidence, rel=1e-12)
    close(there.coefficients, here.coefficients, 1e-10)
    close(there.slope(variance=1.7), here.slope(variance=1.7), 1e-10)
    W = there.slope(overwrite=True)
    assert isinstance(W, torch.Tensor)
    found, step = K.pullback(W)["rbf__lengthscale"], 1e-5
    for j in range(3):
        values = [
            posterior(
                gram(2.0 * mk.RBF(np.array([0.7, 1.0, 1.5]) + s * step * (np.arange(3) == j)), X).dense(), 0.3, Y, H
            ).evidence
            for s in (-1, 1)
        ]
        assert found[j] == pytest.approx((values[1] - values[0]) / (2 * step), rel=1e-5)
    with pytest.raises(NanError, match="W holds"):
        K.pullback(W * np.inf)


def test_gaussian_processes_are_learned_alike():
    X = rows(40)
    y = np.sin(2 * X[:, 0]) + 0.1 * rows(40, 1, 3)[:, 0]
    here, there = (GaussianProcessRegressor(kernel=mk.RBF(1.0), alpha=0.05, engine=e).fit(X, y) for e in ENGINES)
    assert there.log_marginal_likelihood_value_ == pytest.approx(here.log_marginal_likelihood_value_, rel=1e-8)
    for a, b in zip(there.predict(X[:5], return_std=True), here.predict(X[:5], return_std=True), strict=True):
        close(a, b, 1e-6)


def test_iterations_leave_the_gram_to_the_device(like_a_gpu, monkeypatch):
    """Products with it are made anew: no matrix of the host."""
    X = rows(40)
    y = np.sin(2 * X[:, 0])
    options = {"kernel": mk.RBF(1.0), "alpha": 0.1, "method": "iterative", "optimizer": None, "random_state": 0}
    exact = GaussianProcessRegressor(**{**options, "method": "exact"}).fit(X, y)
    monkeypatch.setattr(gaussian_methods, "GivenGram", lost)
    close(GaussianProcessRegressor(engine="torch", **options).fit(X, y).predict(X), exact.predict(X), 1e-5)


@pytest.mark.parametrize(
    "model",
    [
        KernelPCA(n_components=3, kernel=mk.RBF(2.0)), KernelKMeans(n_clusters=3, kernel=mk.RBF(2.0), random_state=0),
        KernelNeighborsClassifier(n_neighbors=3, kernel=mk.RBF(2.0)), SVR(kernel=mk.RBF(2.0), tol=1e-8),
    ],
    ids=lambda m: type(m).__name__,
)  # fmt: skip
def test_other_estimators_on_the_device(model):
    from sklearn.base import clone

    X, y = rows(60), np.arange(60) % 3
    here, there = (clone(model).set_params(engine=e).fit(X, y) for e in ENGINES)
    verb = "transform" if isinstance(here, KernelPCA) else "predict"
    close(getattr(there, verb)(X), getattr(here, verb)(X), 1e-6)


# ---------------------------------------------------------------------------------------------- landmarks
def landmark_fits(X, y, **options):
    options = {"kernel": mk.RBF(1.3), "alpha": 3.0, "n_landmarks": 40, "random_state": 0, "tol": 1e-9, **options}
    return [KernelRidge(engine=e, **options).fit(X, y) for e in ENGINES]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_ridge_on_landmarks(own, intercept, monkeypatch):
    monkeypatch.setattr(sweeps, "_AT_ONCE", 100)
    if own:
        monkeypatch.setattr(centres, "MOST_SAMPLED", 10)
    X = rows(350)
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] + 3])
    here, there = landmark_fits(X, Y, fit_intercept=intercept, alpha=[3.0, 1.0])
    close(there.predict(X), here.predict(X), 1e-6)


def test_values_that_are_made_meanwhile():
    made, release = [], threading.Event()

    def values():
        for i in range(3):
            made.append(i)
            yield i
        release.wait(10)
        raise RuntimeError("no more")

    coming = started(values())
    release.set()
    assert next(coming) == 0
    assert [next(coming), next(coming)] == [1, 2]
    with pytest.raises(RuntimeError, match="no more"):
        next(coming)
    assert list(started(iter(range(5)))) == list(range(5))
    eager = threading.Event()
    started(eager.set() for _ in range(1))  # nobody asks for it
    assert eager.wait(10)


def test_landmarks_on_a_device_need_one_matrix():
    """100,000 of them fit a GPU of 140 GB."""
    p = plan.Problem(8_800_000, 28, np.dtype(np.float32), landmarks=100_000, room=140 * 10**9)
    assert 80e9 < plan.ridge_ways(p)["landmarks"].bytes < 100e9
    assert plan.ridge_ways(replace(p, landmarks=30_000))["landmarks"].bytes == pytest.approx(5 * 8 * 9e8, rel=0.1)
    assert plan.ridge_ways(replace(p, room=None))["landmarks"].bytes == pytest.approx(5 * 8e10, rel=0.1)


def test_speed_does_not_reach_the_matrix_of_the_landmarks():
    """TF32 entries would not be positive definite."""
    fast = TorchEngine("fast")
    assert fast.careful().precision == "accurate"
    assert TorchEngine("float64").careful().precision == "float64"
    X = rows(50).astype(np.float32)
    found = centres.find_centres(
        mk.RBF(1.3), streams.Held(X, X[:, :1], np.ones(50)), 10, "uniform", rng=np.random.default_rng(0),
        engine=Engine("torch", precision="fast"),
    )  # fmt: skip
    assert found._double().engine.precision == "accurate"
    assert found.gram.engine.precision == "fast"


@pytest.mark.parametrize("keeps", [True, False])
def test_rows_stay_on_the_device_or_stream_through_it(keeps, monkeypatch):
    monkeypatch.setattr(sweeps, "_AT_ONCE", 100)
    monkeypatch.setattr(TorchEngine, "room", lambda engine: 10**9 if keeps else 10_000)
    prepared, real = [], sweeps.prepared_gram
    monkeypatch.setattr(sweeps, "prepared_gram", lambda K, X: prepared.append(len(X)) or real(K, X))
    sent = []
    monkeypatch.setattr(TorchEngine, "send", lambda engine, x: sent.append(len(x)))
    X, w = rows(350), 1.0 + np.arange(350) % 3
    passes = sweeps.LocalSweeps(streams.Held(X, X[:, :1], w), gram(mk.RBF(), X[:9], engine="torch"))
    K = mk.RBF()(X, X[:9])
    for _ in range(2):
        close(passes.first().right, K.T @ (w[:, None] * X[:, :1]), 1e-12)
        close(passes.normal(np.eye(9)), K.T @ (w[:, None] * K), 1e-12)
    assert sent == prepared == [100, 100, 100, 50] * (1 if keeps else 4)


def test_batches_that_share_their_memory_on_the_device(monkeypatch):
    monkeypatch.setattr(sweeps, "_AT_ONCE", 5)
    monkeypatch.setattr(streams, "LOOK", 5)
    monkeypatch.setattr(sweeps, "ahead", lambda values: iter(list(values)))  # as far ahead as can be
    X, held = rows(20), (np.empty((5, rows(20).shape[1])), np.empty(5))

    def batches():
        for i in range(0, 20, 5):
            held[0][:], held[1][:] = X[i : i + 5], X[i : i + 5, 0]
            yield held

    passes = sweeps.LocalSweeps(streams.from_batches(batches), gram(mk.RBF(), X[:9], engine="torch"))
    K = mk.RBF()(X, X[:9])
    close(passes.first().right, K.T @ X[:, :1], 1e-12)
    close(passes.normal(np.eye(9)), K.T @ K, 1e-12)


@pytest.mark.parametrize(
    "kernel",
    [mk.RBF(), mk.RBF() + mk.Matern(1.5) * mk.Linear(), mk.Laplacian(1.0, "l1") + mk.Polynomial(2).normalise()],
    ids=str,
)
def test_what_was_sent_ahead_is_not_sent_again(kernel, monkeypatch):
    X, Y = rows(30), rows(7) + 1
    check_sent_ahead(gram(kernel, X, Y, engine="torch"), kernel(X, Y), monkeypatch)


def test_rows_that_do_not_fit_are_sent_later(monkeypatch):
    def full(place, x):
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(_tensor_tiles, "send_ahead", full)
    K = gram(mk.RBF(), rows(5), engine="torch")
    K.engine.send(K.x)
    close(K @ np.ones(5), K.dense().sum(1), 1e-12)


def test_streams_on_the_device():
    X = rows(300)
    y = np.sin(X[:, 0])
    model = KernelRidge(kernel=mk.RBF(), n_landmarks=30, engine="torch", random_state=0)
    found = model.fit(streams.from_arrays(X, y)).predict(X)
    close(found, model.set_params(engine="cpu").fit(streams.from_arrays(X, y)).predict(X), 1e-4)


def test_values_are_made_ahead():
    made = []

    def values(fail=False):
        for i in range(4):
            made.append(i)
            if fail and i == 2:
                raise ValueError("the third")
            yield i

    assert list(ahead(values())) == [0, 1, 2, 3]
    assert list(ahead([])) == []
    with pytest.raises(ValueError, match="the third"):
        list(ahead(values(fail=True)))
    made.clear()
    first = ahead(values())
    assert next(first) == 0
    first.close()
    assert len(made) <= 2


# ---------------------------------------------------------------------------------------------- support vector machines
def digits(n=150):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X[:n], y[:n] % 4


@pytest.mark.usefixtures("like_a_gpu")
@pytest.mark.parametrize("block", [8, 64])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_all_machines_at_once(multi_class, block, monkeypatch):
    monkeypatch.setattr(batch_smo, "_BLOCK", block)
    X, y = digits()
    w = 1.0 + np.arange(len(y)) % 3
    options = {"C": 5.0, "kernel": mk.RBF(20.0), "multi_class": multi_class, "tol": 1e-5}
    here, there = (SVC(engine=e, **options).fit(X, y, w) for e in ENGINES)
    close(there.decision_function(X), here.decision_function(X), 1e-4)
    close(there.objective_, here.objective_, 1e-6)
    assert np.array_equal(there.support_, here.support_)
    assert there.violation_.max() <= 1.5e-5
    assert there.converged_
    assert there.dual_gap_.max() < 0.01


def test_the_solver_runs_only_where_the_gram_fits(monkeypatch):
    used = []
    real = batch_smo.solve_duals
    monkeypatch.setattr("mercer.solvers.svm.solve_duals", lambda *a, **o: used.append(1) or real(*a, **o))
    X, y = digits(60)
    SVC(engine="torch").fit(X, y)
    assert not used  # no GPU
    monkeypatch.setattr(TorchEngine, "room", lambda engine: 60 * 60 * 8)
    SVC(engine="torch").fit(X, y)
    assert not used
    monkeypatch.setattr(TorchEngine, "room", lambda engine: 60 * 60 * 10)
    SVC(engine="torch").fit(X, y)
    assert used


def problem(n=60, seed=0):
    X, y = rows(n, 2, seed), np.sign(rows(n, 1, seed + 1)[:, 0] + 0.01)
    return gram(mk.RBF(), X, engine="torch"), c_svc(y, np.full(n, 2.0))


def test_problems_of_different_sizes(monkeypatch):
    monkeypatch.setattr(batch_smo, "_BLOCK", 16)
    K, whole = problem()
    some = [np.arange(60), np.arange(10, 45), np.array([3, 50, 20, 7])]
    problems = [whole, *(c_svc(-whole.linear[index], np.full(len(index), 2.0)) for index in some[1:])]
    found = batch_smo.solve_duals(K, some, problems, tol=1e-8)
    for index, one, alone in zip(some, problems, found, strict=True):
        exact = solve_dual(gram(mk.RBF(), K.x.rows[index]), one, tol=1e-8)
        assert alone.objective == pytest.approx(exact.objective, rel=1e-8)
        close(alone.values, exact.values, 1e-5)
        assert abs(alone.beta.sum()) < 1e-10
        assert alone.status is Status.CONVERGED
        assert (alone.beta >= one.lower).all()
        assert (alone.beta <= one.upper).all()


def test_limits_are_kept(monkeypatch):
    monkeypatch.setattr(batch_smo, "_BLOCK", 8)
    K, one = problem()
    few = batch_smo.solve_duals(K, [np.arange(60)], [one], tol=1e-6, max_iter=5)[0]
    assert few.status is Status.MAX_ITER
    assert few.iterations <= 5
    assert few.violation > 1e-6
    seen = []
    stopped = batch_smo.solve_duals(K, [np.arange(60)], [one], callback=lambda p: seen.append(p) or len(seen) == 2)[0]
    assert stopped.status is Status.MAX_ITER
    assert seen[1].iterations > 0
    assert seen[0].active == 60
    assert batch_smo.solve_duals(K, [np.arange(60)], [one], time_limit=0.0)[0].status is Status.MAX_ITER


@pytest.mark.parametrize("few", [0, 1000])
def test_gradients_follow_what_changed(few, monkeypatch):
    """By rows of what moved, or by the whole Gram."""
    monkeypatch.setattr(batch_smo, "_BLOCK", 8)
    monkeypatch.setattr(batch_smo, "_FEW", few)
    K, one = problem()
    batch = batch_smo._Batch(K.matrix(), [np.arange(60), np.arange(60)], [one, one], 1e-6)
    batch.g = batch._gradient()
    for _ in range(3):
        violation, up, down = batch._slopes()
        batch._solve_blocks(batch._choose(up, down), violation, batch_smo._Limits(batch, None, None, None))
        assert len(np.unique(batch.block[0].numpy())) == 8
    assert batch.beta.abs().sum() > 0
    close(batch.g, batch._gradient(), 1e-12)


def test_a_start_is_used():
    K, one = problem()
    best = solve_dual(gram(mk.RBF(), K.x.rows), one, tol=1e-9)
    from dataclasses import replace

    again = batch_smo.solve_duals(K, [np.arange(60)], [replace(one, start=best.beta)], tol=1e-6)[0]
    assert again.iterations == 0
    close(again.beta, best.beta, 0)


def test_gradients_that_drift_are_made_again(monkeypatch):
    """What rounds claim is checked from scratch: products that are a little wrong do not decide."""
    monkeypatch.setattr(batch_smo, "_BLOCK", 8)
    real = batch_smo._Batch._move

    def wrong(batch, places, change):
        real(batch, places, change * 1.01)

    monkeypatch.setattr(batch_smo._Batch, "_move", wrong)
    K, one = problem()
    found = batch_smo.solve_duals(K, [np.arange(60)], [one], tol=1e-5)[0]
    exact = solve_dual(gram(mk.RBF(), K.x.rows), one, tol=1e-9)
    g = gram(mk.RBF(), K.x.rows).dense() @ found.beta + one.linear
    assert largest_slopes(one, found.beta, g)[0] <= 1.5e-5
    close(found.values, exact.values, 1e-3)


@pytest.mark.skipif(not find_spec("triton"), reason="needs Triton")
def test_the_kernel_equals_torch(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    import triton.language as tl

    if "Interpreted" not in type(tl.max).__name__:
        pytest.skip("Triton was imported for a GPU before")
    from mercer.solvers import _triton_smo

    X = torch.tensor(rows(16, 2))
    K = torch.stack([torch.exp(-(torch.cdist(X * s, X * s) ** 2)) for s in (0.5, 1.0, 2.0)]).float()
    y = torch.tensor(np.sign(rows(16, 1, 1)[:, 0])).expand(3, 16)
    lower, upper = torch.where(y < 0, -0.3, 0.0).double(), torch.where(y > 0, 0.3, 0.0).double()
    tol = torch.tensor([1e-6, 1e-6, 10.0], dtype=torch.float64)
    found = []
    for solver in (batch_smo.solve_blocks, _triton_smo.solve_blocks):
        beta = torch.zeros(3, 16, dtype=torch.float64)
        steps = solver(K, beta, -y.double().contiguous(), lower, upper, tol, 1e-12, 40)
        found.append((beta, steps))
        for border in (lower, upper):
            assert torch.equal((beta - border).abs() < 1e-9, beta == border)  # there, or away from it
    close(found[0][0], found[1][0], 1e-12)
    assert found[0][1].tolist() == found[1][1].tolist()
    assert found[0][1][2] == 0
    assert 0 < found[0][1][0] <= 40


@pytest.mark.skipif(not find_spec("triton"), reason="needs Triton")
def test_a_variable_on_its_border_is_exactly_there(monkeypatch):
    """-0.7 + (0.1 + 0.7) is not 0.1, and a variable that is not on its border moves again."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    import triton.language as tl

    if "Interpreted" not in type(tl.max).__name__:
        pytest.skip("Triton was imported for a GPU before")
    from mercer.solvers import _triton_smo

    lower, upper = torch.tensor([[-9.0, -0.1]]).double(), torch.tensor([[0.1, 9.0]]).double()
    lower[0, 1], upper[0, 0] = -0.1, 0.1
    for solver in (batch_smo.solve_blocks, _triton_smo.solve_blocks):
        beta = torch.tensor([[-0.7, 0.7]], dtype=torch.float64)
        slopes, tol = torch.tensor([[-50.0, 50.0]]).double(), torch.tensor([1e-6]).double()
        assert solver(torch.eye(2)[None], beta, slopes, lower, upper, tol, 1e-12, 40).item() == 1
        assert beta.tolist() == [[0.1, -0.1]]


@pytest.mark.usefixtures("like_a_gpu")
def test_a_machine_that_stops_early_says_so():
    X, y = digits(60)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        SVC(engine="torch", max_iter=3).fit(X, y)


# ---------------------------------------------------------------------------------------------- what can go wrong
@pytest.mark.parametrize("verb", ["_block", "_matmul"])
def test_a_device_that_is_lost_leaves_nothing_behind(verb, monkeypatch):
    """An estimator that was fitted before is not fitted any more."""
    X, y = rows(30), rows(30)[:, 0]
    model = KernelRidge(kernel=mk.RBF(), engine="torch", solver="exact" if verb == "_block" else "cg").fit(X, y)
    monkeypatch.setattr(TorchEngine, verb, lost)
    with pytest.raises(RuntimeError, match="the device is gone"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)

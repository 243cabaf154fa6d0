"""Rows on a Dask cluster: the fit of one machine to the last bit, for any chunks and workers, and whatever dies."""

import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import astuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from cases import error_of
from mercer import KernelLogistic, KernelRidge, Nystroem, PolynomialSketch, RandomFourierFeatures, streams
from mercer.approx import Labelled
from mercer.approx import cluster as engine
from mercer.errors import ClusterError, NumericalWarning, StreamError
from mercer.estimators import landmarks
from mercer.kernels import RBF

dask = pytest.importorskip("dask", reason="the extra mercer[dask] is not installed")
distributed = pytest.importorskip("distributed", reason="the extra mercer[dask] is not installed")
da = pytest.importorskip("dask.array", reason="the extra mercer[dask] is not installed")

LOCAL = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}


def rows(n=30_000, d=4):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    return X, y, rng.uniform(0.5, 2.0, n)


def model(**changes):
    settings = {"alpha": 1e-2, "kernel": RBF(1.0), "n_landmarks": 40, "random_state": 3, "fit_intercept": True}
    return KernelRidge(**{**settings, **changes})


def chunked(X, y, w=None, chunks=(11_000, 4)):
    return tuple(None if a is None else da.from_array(a, chunks=chunks[: a.ndim]) for a in (X, y, w))


def same(a, b):
    assert np.array_equal(a.landmarks_, b.landmarks_)
    assert np.array_equal(a.dual_coef_, b.dual_coef_)
    assert np.array_equal(a.intercept_, b.intercept_)


@pytest.fixture(scope="module")
def alone():
    """The fit of one machine."""
    return model().fit(streams.from_arrays(*rows()))


@pytest.fixture(scope="module")
def local_cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, memory_limit="1GB", **LOCAL) as c:
        yield c


@pytest.fixture
def client(local_cluster):
    with distributed.Client(local_cluster, set_as_default=False) as found, found.as_current():
        found.wait_for_workers(2, timeout=50)
        yield found


def with_empty_chunk(a):
    """A chunk that turned out empty: the rows between two others are kept by a mask that keeps none."""
    doubled = da.concatenate([a[:9000], a[:10], a[9000:]]).rechunk({0: (9000, 10, len(a) - 9000)})
    mask = da.from_array(np.repeat([True, False, True], (9000, 10, len(a) - 9000)), chunks=(doubled.chunks[0],))
    kept = doubled[mask]
    return da.Array(kept.dask, kept.name, ((9000, 0, len(a) - 9000), *kept.chunks[1:]), meta=kept._meta)


def without_sizes(a):
    """Chunks that do not know how many rows they have: the rows kept by a mask."""
    return a[da.ones(len(a), chunks=a.chunks[0], dtype=bool)]


CHUNKINGS = {
    "uneven": lambda X, y, w: chunked(X, y, w, ((1, 12_345, 7, 17_647), 4)),
    "unlike": lambda X, y, w: (da.from_array(X, chunks=(7000, 4)), da.from_array(y, chunks=999), w),
    "one chunk": lambda X, y, w: chunked(X, y, w, (30_000, 4)),
    "empty chunk": lambda X, y, w: tuple(map(with_empty_chunk, chunked(X, y, w))),
    "unknown sizes": lambda X, y, w: tuple(map(without_sizes, chunked(X, y, w))),
    "columns chunked": lambda X, y, w: chunked(X, y, w, (8192, 1)),
}


@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_chunks_do_not_matter(client, alone, chunks):
    X, y, w = rows()
    fitted = model().fit(*CHUNKINGS[chunks](X, y, w))
    same(fitted, alone)
    assert fitted.n_features_in_ == 4


def test_chunks_of_single_rows(client):
    X, y, _ = rows(300)
    same(model().fit(*chunked(X, y, None, (1, 4))), model().fit(streams.from_arrays(X, y)))


def test_many_targets_and_float32(client):
    X, y, w = rows()
    X, Y = X.astype(np.float32), np.column_stack([y, y**2, X[:, 2]])
    fitted = model(alpha=[1.0, 0.1, 1.0]).fit(*chunked(X, Y, w, (9999, 2)))
    same(fitted, model(alpha=[1.0, 0.1, 1.0]).fit(streams.from_arrays(X, Y, w)))
    assert fitted.X_fit_.dtype == np.float32


def test_whole_numbers_and_sparse_chunks(client):
    X, y, _ = rows()
    X = np.round(3 * X)
    counts = chunked(X.astype(np.int32), y)
    expected = model().fit(streams.from_arrays(X, y))
    same(model().fit(*counts), expected)
    # Matrices: that Dask joins sparse arrays as well is newer than the lowest version.
    sparse = counts[0].astype(np.float64).map_blocks(sp.csr_matrix, dtype=np.float64, meta=sp.csr_matrix((0, 0)))
    same(model().fit(sparse, y), model().fit(streams.from_arrays(sp.csr_array(X), y)))


def test_tasks_of_many_rows_and_rows_that_find_no_room(client, alone, monkeypatch, caplog):
    monkeypatch.setattr(engine, "_TASKS", 1)
    monkeypatch.setattr(engine, "_SHARE", 0.0)
    with caplog.at_level(logging.INFO, "mercer"):
        same(model().fit(*chunked(*rows())), alone)
    assert "rows are computed in each pass" in caplog.text


def test_without_a_client_rows_are_read_here(alone, caplog):
    with caplog.at_level(logging.INFO, "mercer"):
        same(model().fit(*chunked(*rows())), alone)
    assert "no Dask client" in caplog.text


def test_the_sample_is_that_of_a_stream(client):
    X, y, w = rows()
    for size in (10, 29_999, 40_000):
        seen = streams.look(streams.from_arrays(X, y, w), size, np.random.default_rng(1))
        found = streams.look(engine.DaskRows(*chunked(X, y, w)), size, np.random.default_rng(1))
        assert found.n == seen.n
        assert np.array_equal(found.index, seen.index)
        for a, b in zip(found.sample, seen.sample, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize(
    ("tasks", "each", "step"),
    [(8, 6, 65_536), (1024, 17, 8192), (1024, 4, 32_768), (1024, 2, 65_536), (1, 6, 131_072)],
)
def test_sums_have_the_brackets_of_one_machine(client, monkeypatch, tasks, each, step):
    """Whatever the number of rows in a task."""
    monkeypatch.setattr(engine, "_TASKS", tasks)
    monkeypatch.setattr(engine.grid, "SPAN", 131_072)
    monkeypatch.setattr(engine, "_EACH", each)
    X, y, w = rows(270_000, 2)  # more than two spans, and a rest
    K, V = RBF(1.0).gram(X[:20]), np.random.default_rng(0).standard_normal((20, 2))
    ours = engine.sweeps_over(engine.DaskRows(*chunked(X, y, w)), K)
    theirs = engine.sweeps_over(streams.from_arrays(X, y, w), K)
    assert isinstance(ours, engine.DaskSweeps)
    assert ours.rows.step == step
    assert np.array_equal(ours.normal(V), theirs.normal(V))
    for a, b in zip(astuple(ours.first()), astuple(theirs.first()), strict=True):
        assert np.array_equal(a, b)
    labels = np.digitize(y, [-1.0, 1.0])
    passes = [
        label_passes(stream, K)
        for stream in (engine.DaskRows(*chunked(X, labels, w)), streams.from_arrays(X, labels, w))
    ]
    for a, b in zip(*passes, strict=True):
        assert np.array_equal(a, b)


def label_passes(stream, K):
    """Masses of labels, loss, slopes and curvature."""
    masses = engine.label_masses(stream)
    labelled = Labelled(stream, np.array(list(masses)), np.array([1.0, 2.0, 0.5]))
    sweeps = engine.logistic_sweeps_over(labelled, K)
    B, V = np.random.default_rng(1).standard_normal((2, 21, 3))
    return list(masses.items()), *sweeps.gradient(B), sweeps.hessian(B, V)


def scaled(cluster, client, count):
    cluster.scale(count)
    deadline = time.monotonic() + 30
    while len(client.nthreads()) != count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_the_number_of_workers_does_not_matter(client, local_cluster, alone):
    X, y, w = chunked(*rows())
    try:
        for count in (1, 3):
            scaled(local_cluster, client, count)
            same(model().fit(X, y, w), alone)
    finally:
        scaled(local_cluster, client, 2)


# ------------------------------------------------------------------------------------------------ what dies
def kill_one(client):
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


@pytest.mark.parametrize(
    ("owner", "stage"),
    [
        pytest.param(engine.DaskRows, "look", marks=pytest.mark.slow),  # a worker takes seconds to come back
        pytest.param(engine.DaskSweeps, "first", marks=pytest.mark.slow),
        (engine.DaskSweeps, "normal"),
    ],
)
def test_a_killed_worker_changes_nothing(client, alone, monkeypatch, owner, stage):
    inside, wait, killed = getattr(owner, stage), engine._next_result, []
    armed = threading.Event()

    def entered(self, *given):
        armed.set()
        return inside(self, *given)

    def waiting(client_, futures, limit):
        if armed.is_set() and not killed and len(futures) < 4:  # one result is here, others are under way
            killed.append(kill_one(client))
        return wait(client_, futures, limit)

    monkeypatch.setattr(owner, stage, entered)
    monkeypatch.setattr(engine, "_next_result", waiting)
    same(model().fit(*chunked(*rows())), alone)
    assert killed


@contextmanager
def started(*command):
    """A process that nobody starts again."""
    arguments = [sys.executable, "-m", *command, "--host", "127.0.0.1"]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def lone_worker(address):
    return started("distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard")


def kill_at(iteration, process, killed):
    def told(progress):
        if progress.iteration == iteration:
            process.kill()
            killed.append(time.monotonic())
            dask.config.set({"mercer.timeout": "2s"})  # until now workers may have had to compile

    return told


def test_all_workers_gone_is_an_error_in_time_and_the_checkpoint_resumes(client, alone, tmp_path, monkeypatch):
    init = landmarks.Checkpoint.__init__
    monkeypatch.setattr(landmarks.Checkpoint, "__init__", lambda self, path, key: init(self, path, key, every=0.0))
    seen, killed = [], []
    with (
        distributed.LocalCluster(n_workers=0, **LOCAL) as other,
        distributed.Client(other, set_as_default=False) as c,
        lone_worker(other.scheduler_address) as process,
        dask.config.set({"mercer.timeout": "40s"}),
    ):
        c.wait_for_workers(1, timeout=30)
        checkpointed = model(checkpoint=tmp_path / "fit", callback=kill_at(3, process, killed))
        with c.as_current(), pytest.raises(ClusterError, match=r"no task of \d ended in 2 s\. It has 0 workers"):
            checkpointed.fit(*chunked(*rows()))
        assert 2 <= time.monotonic() - killed[0] < 10
    checkpointed.set_params(callback=lambda progress: seen.append(progress.iteration))
    same(checkpointed.fit(*chunked(*rows())), alone)
    assert seen[0] == 4


def die(block):
    if len(block):
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_task_that_kills_its_workers_is_named(client, local_cluster, monkeypatch):
    X, y, _ = chunked(*rows(), chunks=(30_000, 4))  # one chunk: the other worker lives
    # By default four workers would have to start anew.
    monkeypatch.setattr(local_cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(ClusterError, match="often ran out of memory") as caught:
        model().fit(X.map_blocks(die, dtype=X.dtype, meta=np.empty((0, 0))), y)
    assert isinstance(caught.value.__cause__, distributed.KilledWorker)


@contextmanager
def narrow_cluster(folder, memory):
    """Two workers with little memory, which spill into a folder."""
    with (
        dask.config.set({"temporary-directory": str(folder)}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, memory_limit=memory, **LOCAL) as c,
        distributed.Client(c, set_as_default=False) as client,
        client.as_current(),
    ):
        client.wait_for_workers(2, timeout=50)
        yield c


BLOCK = np.random.default_rng(0).standard_normal((62_500, 16))


def rolled(_, block_id=None):
    return np.roll(BLOCK, 7 * block_id[0], axis=0)


def many_rows(n):
    """Rows in chunks of 8 MB."""
    X = da.zeros((n, 16), chunks=(62_500, 16)).map_blocks(rolled, dtype=float)
    return X, da.sin(2 * X[:, 0]) + X[:, 1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_more_rows_than_the_workers_have_memory(tmp_path, caplog):
    """F53: they are computed again in each pass."""
    X, y = many_rows(6_000_000)
    few = rolled(None, (3,))
    with narrow_cluster(tmp_path, "750MB"), caplog.at_level(logging.INFO, "mercer"):
        found = model(n_landmarks=20, tol=0.05, kernel=RBF(4.0)).fit(X, y)
    assert "rows are computed in each pass" in caplog.text
    assert found.score(few, np.sin(2 * few[:, 0]) + few[:, 1]) > 0.2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_workers_that_keep_more_rows_than_they_have_memory_spill(tmp_path, monkeypatch):
    """F53: 1 GB of rows that are to be kept by workers with 1 GB together. Where memory is not given back, they pause."""
    monkeypatch.setattr(engine, "_SHARE", 4.0)
    X, y = many_rows(8_000_000)
    few = rolled(None, (3,))
    with narrow_cluster(tmp_path, "500MB"), dask.config.set({"mercer.timeout": "60s"}):
        found = model(n_landmarks=20, tol=0.05, kernel=RBF(4.0))
        error = error_of(ClusterError, found.fit, X, y)
    if error is None:
        assert found.score(few, np.sin(2 * few[:, 0]) + few[:, 1]) > 0.2
    else:
        assert re.search(r"workers have paused, with up to \d+% of their memory", str(error))


@pytest.mark.slow
def test_workers_that_have_paused_are_named(tmp_path):
    """Their memory is said to be full from the start."""
    with (
        dask.config.set({"distributed.worker.memory.pause": 0.05, "mercer.timeout": "20s"}),
        narrow_cluster(tmp_path, "1GB"),
        pytest.raises(ClusterError, match=r"all 2 workers have paused, with up to \d+% of their memory.*more memory"),
    ):
        model().fit(*chunked(*rows()))


def greedy(block):
    """More than a worker may have, held until it is noticed."""
    if len(block):
        held = [np.ones(2**24) for _ in range(6)]
        time.sleep(20.0)
        return block + 0.0 * held[0][0]
    return block


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_task_that_takes_more_memory_than_a_worker_has_is_named(tmp_path, monkeypatch):
    X, y, _ = chunked(*rows(), chunks=(30_000, 4))
    with narrow_cluster(tmp_path, "500MB") as cluster:
        monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
        with pytest.raises(ClusterError, match="often ran out of memory: use smaller chunks") as caught:
            model().fit(X.map_blocks(greedy, dtype=X.dtype, meta=np.empty((0, 0))), y)
    assert isinstance(caught.value.__cause__, distributed.KilledWorker)


def test_errors_of_tasks_are_their_own(client):
    def fails(block):
        raise TimeoutError("the disk is slow")

    X, y, _ = chunked(*rows())
    with pytest.raises(TimeoutError, match="the disk is slow"):
        model().fit(X.map_blocks(fails, dtype=X.dtype, meta=np.empty((0, 0))), y)


@pytest.mark.slow
def test_workers_that_come_and_go(client, local_cluster, alone):
    def scale(progress):
        local_cluster.scale({2: 3, 6: 1}.get(progress.iteration, len(local_cluster.workers)))

    try:
        same(model(callback=scale).fit(*chunked(*rows())), alone)
    finally:
        scaled(local_cluster, client, 2)


@pytest.mark.slow
def test_a_scheduler_that_dies_is_an_error_in_time(tmp_path):
    file, killed = tmp_path / "scheduler.json", []
    name = "distributed.cli.dask_scheduler"
    with started(name, "--port", "0", "--no-dashboard", "--scheduler-file", str(file)) as scheduler:
        while not file.exists():
            time.sleep(0.1)
        with (
            distributed.Client(scheduler_file=str(file), set_as_default=False, timeout=30) as c,
            lone_worker(c.scheduler.address),
            dask.config.set({"mercer.timeout": "40s"}),
        ):
            c.wait_for_workers(1, timeout=30)
            with c.as_current(), pytest.raises(ClusterError, match="unknown number of workers"):
                model(callback=kill_at(2, scheduler, killed)).fit(*chunked(*rows()))
            assert time.monotonic() - killed[0] < 30


# ------------------------------------------------------------------------------------------------ other estimators
def labelled_rows(n=20_000):
    X, y, w = rows(n)
    return X, np.digitize(y, [-1.0, 1.0]), w


def classifier(**changes):
    settings = {"alpha": 1e-2, "kernel": RBF(1.0), "n_landmarks": 30, "random_state": 3, "class_weight": "balanced"}
    return KernelLogistic(**{**settings, **changes})


def test_logistic_regression(client):
    """The fit of a stream to the last bit; all answers are lazy and equal."""
    X, y, w = labelled_rows()
    alone, fitted = classifier().fit(streams.from_arrays(X, y, w)), classifier().fit(*chunked(X, y, w, (7001, 3)))
    assert isinstance(fitted.classes_[0], np.integer)
    assert fitted.n_features_in_ == 4
    assert np.array_equal(fitted.class_weight_, alone.class_weight_)
    same(fitted, alone)
    chunks = chunked(X, y, chunks=(7000, 3))[0]
    for answer in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        lazy, expected = getattr(fitted, answer)(chunks), getattr(alone, answer)(X)
        assert isinstance(lazy, da.Array)
        assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
        assert np.abs(lazy.compute() - expected).max() < 1e-10
    with pytest.raises(ValueError, match="X has 3 features, but KernelLogistic is expecting 4"):
        fitted.predict(da.from_array(X[:, :3]))


def test_logistic_regression_goes_on_when_a_worker_is_killed(client):
    X, y, w = labelled_rows()
    killed = []

    def kill(progress):
        if not killed:
            killed.append(kill_one(client))

    same(classifier(callback=kill).fit(*chunked(X, y, w)), classifier().fit(streams.from_arrays(X, y, w)))
    assert killed


def test_labels_that_do_not_suit(client):
    X, y, _ = labelled_rows(300)
    for given, settings, message in (
        ((X, None), {}, "rows from Dask need labels"),
        ((X, y), {"n_landmarks": None}, "rows on a Dask cluster need n_landmarks"),
        ((X, np.column_stack([y, y])), {}, "y must be one label for each row; the stream has 2 targets"),
        ((X, 0 * y), {}, "class"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier(**settings).fit(*chunked(*given))


MAPS = {
    "landmarks": Nystroem(RBF(1.0), n_components=25, random_state=0),
    "waves": RandomFourierFeatures(RBF("median"), n_components=30, random_state=0),
    "sketch": PolynomialSketch(2, gamma="scale", n_components=30, random_state=0),
}


@pytest.mark.parametrize("name", MAPS)
def test_features(client, name):
    """Rows on a cluster, from a stream and in memory give the same map; features are lazy."""
    X = rows(20_000)[0]
    chunks = da.from_array(X, chunks=(6000, 3))
    there, streamed, here = (
        clone(MAPS[name]).fit(given) for given in (chunks, streams.from_arrays(X, np.zeros(len(X))), X)
    )
    expected = here.transform(X)
    lazy = there.transform(chunks)
    assert isinstance(lazy, da.Array)
    assert lazy.shape == expected.shape
    assert np.abs(lazy.compute() - expected).max() < 1e-10
    assert np.abs(streamed.transform(X) - expected).max() < 1e-10
    assert there.n_features_in_ == streamed.n_features_in_ == 4
    assert there.kernel_error_.mean < 0.2
    assert list(there.get_feature_names_out()) == list(here.get_feature_names_out())
    with pytest.raises(ValueError, match="X has 3 features"):
        there.transform(chunks[:, :3])


def test_features_of_dataframes(client):
    table, (X, _, _) = frames()
    fitted = clone(MAPS["landmarks"]).fit(table[list("abcd")])
    assert list(fitted.feature_names_in_) == list("abcd")
    assert (
        np.abs(fitted.transform(table[list("abcd")]).compute() - clone(MAPS["landmarks"]).fit(X).transform(X)).max()
        < 1e-10
    )


# ------------------------------------------------------------------------------------------------ models and clients
def test_predictions_are_lazy_and_equal(client, alone):
    X, _, _ = rows()
    expected = alone.predict(X)

    def fails(block):
        raise AssertionError("computed too early")

    chunks = chunked(X, X, chunks=(7000, 3))[0]
    assert alone.predict(chunks.map_blocks(fails, meta=np.empty((0, 0)))).shape == (30_000,)
    assert not client.futures
    for given in (chunks, with_empty_chunk(chunks), without_sizes(chunks)):
        lazy = alone.predict(given)
        assert isinstance(lazy, da.Array)
        assert lazy.dtype == expected.dtype
        found = lazy.compute()
        assert found.dtype == expected.dtype
        assert np.abs(found - expected).max() < 1e-10
    assert alone.predict(chunks.astype(int)).compute().dtype == alone.predict(X.astype(int)).dtype


def test_lazy_predictions_of_many_targets_and_other_methods():
    X, y, _ = rows(200)
    Y = np.column_stack([y, -y]).astype(np.float32)
    for fitted in (model(n_landmarks=None), model(n_landmarks=None, kernel="linear"), model(n_landmarks=20)):
        for dtype in (np.float32, np.float64):
            new = X.astype(dtype)
            expected = fitted.fit(X.astype(np.float32), Y).predict(new)
            lazy = fitted.predict(da.from_array(new, chunks=(33, 2)))
            assert lazy.shape == (200, 2)
            assert lazy.dtype == expected.dtype == lazy.compute().dtype
            assert np.allclose(lazy.compute(), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="X has 3 features, but KernelRidge is expecting 4"):
        fitted.predict(da.from_array(X[:, :3]))


def test_a_model_holds_no_client(client, alone):
    fitted = model().fit(*chunked(*rows()))
    written = pickle.dumps(fitted)
    copy = pickle.loads(written)
    assert b"dask" not in written
    assert b"distributed" not in written
    assert len(written) < 20_000
    X = rows()[0][:500]
    there = client.submit(lambda m, X: m.predict(X), copy, X).result(timeout=30)
    assert np.abs(there - alone.predict(X)).max() < 1e-10
    del fitted
    deadline = time.monotonic() + 10
    while client.futures:  # nothing of the fit is left on the workers
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_workers_with_another_version_are_told_of(client, monkeypatch):
    monkeypatch.setattr(engine, "__version__", "99.0")
    with pytest.warns(NumericalWarning, match=r"have mercer .*, the client has 99\.0: .* install the same version"):
        model().fit(*chunked(*rows(300)))


def test_two_clients_at_once(client, local_cluster, alone):
    found = {}

    def fit(name):
        with distributed.Client(local_cluster, set_as_default=False) as own, own.as_current():
            assert engine._client() is own
            found[name] = model(fit_intercept=name == "b").fit(*chunked(*rows()))

    threads = [threading.Thread(target=fit, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    same(found["b"], alone)
    same(found["a"], model(fit_intercept=False).fit(streams.from_arrays(*rows())))


def frames(names="abcd", n=3000):
    import dask.dataframe as dd
    import pandas as pd

    X, y, w = rows(n)
    table = pd.DataFrame(X, columns=list(names)).assign(target=y, mass=w)
    return dd.from_pandas(table, npartitions=3), (X, y, w)


def test_dataframes(client):
    table, (X, y, w) = frames()
    fitted = model().fit(table[list("abcd")], table["target"], table["mass"])
    same(fitted, model().fit(streams.from_arrays(X, y, w)))
    assert list(fitted.feature_names_in_) == list("abcd")
    found = fitted.predict(table[list("abcd")])
    assert np.abs(found.compute() - fitted.predict(table[list("abcd")].compute())).max() < 1e-12
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(table[list("dcba")])


def test_explain(client):
    X = da.zeros((10**9, 10), chunks=(10**7, 10))
    said = model(n_landmarks=2000).explain(X)
    assert "dask: 2000 landmarks for 1000000000 rows" in said
    assert said.endswith("X a Dask array; 2 threads")
    X, y, _ = chunked(*labelled_rows(300))
    assert "dask: 30 landmarks for 300 rows" in classifier().explain(X, y)
    with pytest.raises(ValueError, match="does not know its number of rows"):
        model().explain(without_sizes(X))


# ------------------------------------------------------------------------------------------------ bad input
X3, Y3, W3 = rows(300)


def announced_wrongly(X):
    return da.concatenate([da.from_delayed(dask.delayed(X[:100]), (120, 4), X.dtype), da.from_array(X[100:])])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda: (da.from_array(X3), None), ValueError, "need targets"),
        (lambda: (da.from_array(X3), Y3[1:]), ValueError, "X and y must have as many rows; found 300, 299"),
        (lambda: (da.from_array(X3), Y3, W3[1:]), ValueError, "found 300, 300, 299"),
        (lambda: (da.from_array(X3)[:0], Y3[:0]), ValueError, "0 sample"),
        (lambda: (without_sizes(da.from_array(X3))[:, :0], Y3), ValueError, "it needs columns"),
        (lambda: (da.from_array(Y3), Y3), ValueError, "X has 1 dimensions, expected 2"),
        (lambda: (da.from_array(X3), X3[:, :, None]), ValueError, "y has 3 dimensions, expected 1 or 2"),
        (lambda: (dask.delayed(X3), Y3), TypeError, "X is a Delayed"),
        (lambda: (da.from_array(np.where(X3 > 3, np.nan, X3)), Y3), StreamError, "from row 0>: Input X contains NaN"),
        (lambda: (da.from_array(X3), Y3, -W3), StreamError, "weights finite and not negative"),
        (lambda: (da.from_array(np.full(X3.shape, "a")), Y3), StreamError, "Dask arrays"),
        (lambda: (announced_wrongly(X3), np.zeros(320)), StreamError, "X has 300 rows, y has 320"),
        (lambda: (announced_wrongly(X3), da.concatenate([Y3[:100], Y3[:0], Y3[100:]])), ValueError, "found 320, 300"),
    ],
)
def test_bad_rows(client, given, error, message):
    with pytest.raises(error, match=message):
        model().fit(*given())


def test_rows_without_landmarks():
    with pytest.raises(ValueError, match="rows on a Dask cluster need n_landmarks"):
        model(n_landmarks=None).fit(*chunked(X3, Y3))


def test_chunks_that_announce_too_many_rows():
    both = dask.delayed((X3[:100], Y3[:100]))
    X, y = (da.from_delayed(both[i], shape, float) for i, shape in enumerate([(120, 4), (120,)]))
    with pytest.raises(StreamError, match="120 rows were announced by the chunks, 100 came"):
        model().fit(X, y)


def test_rows_that_change_between_passes_are_noticed(client, monkeypatch):
    monkeypatch.setattr(engine, "_SHARE", 0.0)  # rows that workers keep cannot change

    def noisy(block):
        return block + np.random.default_rng().standard_normal(block.shape)

    X, y, _ = chunked(X3, Y3)
    with pytest.raises(StreamError, match="are not those of the pass before, from row 0 on"):
        model().fit(X.map_blocks(noisy, meta=np.empty((0, 0))), y)

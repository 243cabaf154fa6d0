"""Rows on a Dask cluster: blocks of rows stay with the workers, sums over them come back.

Rows are regrouped onto the grid of `mercer.approx.sweeps`, and sums are added in its order: results depend neither on the
chunks nor on the workers. The client of the moment is found for each pass, nothing is tied to a worker, and all that workers
hold can be made again from the graph it came from. A pass that stands still ends in a ClusterError.
"""

import logging
import math
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from mercer._version import __version__
from mercer.approx import sweeps as grid
from mercer.approx.logistic_sweeps import Labelled, LocalLogisticSweeps, added_masses, added_pair, group_masses
from mercer.approx.sweeps import GROUP, READ, LocalSweeps, added, bracketed
from mercer.errors import ClusterError, NumericalWarning, StreamError
from mercer.gram import Gram, gram
from mercer.solvers import LogisticSweeps, Moments, Sweeps
from mercer.streams import Block, Held, Look, Stream, mark

__all__ = [
    "DaskLogisticSweeps",
    "DaskRows",
    "DaskSweeps",
    "cluster_threads",
    "heading",
    "is_dask",
    "label_masses",
    "lazy_rows",
    "logistic_sweeps_over",
    "sweeps_over",
]

logger = logging.getLogger("mercer")

#: Seconds without progress after which a pass is given up; `dask.config.set({"mercer.timeout": "1h"})` says otherwise.
TIMEOUT = 300.0
_TASKS, _EACH = 1024, 6  # tasks beyond which these become larger, and tasks for each thread before that
_LARGEST = 1e8  # bytes of rows in a task
_SHARE = 0.5  # of the workers' memory that rows may take


def is_dask(X) -> bool:
    """Whether X belongs to Dask, without importing it."""
    return type(X).__module__.partition(".")[0] == "dask"


def heading(X):
    """No rows, but the columns of X: what scikit-learn's checks of names and widths look at."""
    width = _array(X, "X").shape[1]
    return X._meta if hasattr(X, "to_dask_array") else np.empty((0, width))


class DaskRows(Stream):
    """Rows, targets and weights of Dask arrays or dataframes, in blocks that do not depend on their chunks.

    They are kept by the workers if they take less than half of their memory, and computed again in each pass otherwise.
    Without a cluster they are read block by block on this machine.
    """

    def __init__(self, X, y=None, sample_weight=None):
        named = {"X": X, "y": y, "sample_weight": sample_weight}
        arrays = _with_sizes({name: _array(a, name) for name, a in named.items() if a is not None})
        self.n = _common_length(arrays)
        _compare_versions()
        size = sum(a.nbytes for a in arrays.values())
        self.step = _step(self.n, size)
        self._parts = _kept(_parts(arrays, self.n, self.step), size)
        self._known: dict[int, int] = {}
        few = max(1, READ // self.step)
        super().__init__(partial(_fetched, self._parts, few), f"{self.n} rows of Dask arrays")

    @property
    def count(self) -> int:
        """Blocks."""
        return len(self._parts)

    def look(self, size: int, rng: np.random.Generator) -> Look:
        """The sample that `streams.look` draws from the same rows; only its rows leave the workers."""
        index = _drawn(self.n, size, rng)
        cuts = np.searchsorted(index, np.arange(self.count + 1) * self.step)
        chosen = [(index[cuts[i] : cuts[i + 1]] - i * self.step,) for i in range(self.count)]
        found = [block for block in self.each(_picked, chosen) if len(block.y)]
        together = Stream(lambda: iter(found), "a sample")
        return Look(self.n, next(iter(together.blocks(len(index)))), index)

    def each(self, function: Callable, own: list[tuple]) -> Iterator[Any]:
        """function(block, *own[i]) of each block, in order, by the workers. Rows that changed since an earlier pass are found."""
        import dask

        call = dask.delayed(_marked)
        tasks = [call(function, part, *given) for part, given in zip(self._parts, own, strict=True)]
        for i, (this, found) in enumerate(_in_order(tasks)):
            if self._known.setdefault(i, this) != this:
                raise StreamError(
                    f"{self!r} are not those of the pass before, from row {i * self.step} on: what the graph reads has changed, "
                    "or it draws random numbers. Write the rows to files, or persist them"
                )
            yield found


class DaskPasses:
    """Passes over rows on a cluster. centres: Gram of the landmarks; sweeps(stream, centres): the passes of one machine."""

    def __init__(self, rows: DaskRows, centres: Gram, sweeps: Callable = LocalSweeps):
        self.rows, self._centres, self._sweeps = rows, _sent(centres), sweeps

    def total(self, add, name, *given):
        """What a pass of one machine would find, in its brackets."""
        import dask

        whole = self.rows.step >= READ
        shared = (whole, self._sweeps, name, self._centres, *(dask.delayed(g, traverse=False) for g in given))
        parts = chain.from_iterable(self.rows.each(_swept, [shared] * self.rows.count))
        return bracketed(parts, add, *_brackets(self.rows.step if whole else GROUP))


class DaskSweeps(DaskPasses):
    """Passes of ridge regression."""

    def first(self) -> Moments:
        """Weights, targets and their products with the Gram."""
        return self.total(added, "first")

    def normal(self, V) -> np.ndarray:
        """K^T W K V, in float64."""
        return self.total(np.add, "normal", np.asarray(V))


class DaskLogisticSweeps(DaskPasses):
    """Passes of logistic regression."""

    def gradient(self, B):
        """Loss and slopes (M + 1, p) at B."""
        return self.total(added_pair, "gradient", B)

    def hessian(self, B, V):
        """Change of the slopes (M + 1, p) at B in the direction V."""
        return self.total(np.add, "hessian", B, V)


def sweeps_over(stream, centres: Gram) -> Sweeps:
    """Passes of ridge regression where the rows are."""
    return DaskSweeps(stream, centres) if isinstance(stream, DaskRows) else LocalSweeps(stream, centres)


def logistic_sweeps_over(stream, centres: Gram) -> LogisticSweeps:
    """Passes of logistic regression where the rows are."""
    if isinstance(stream, Labelled) and isinstance(stream.stream, DaskRows):
        return DaskLogisticSweeps(
            stream.stream, centres, partial(_labelled_sweeps, classes=stream.classes, factors=stream.factors)
        )
    return LocalLogisticSweeps(stream, centres)


def label_masses(stream) -> dict[float, float]:
    """Weight of each label of a stream, in increasing order of the labels."""
    if isinstance(stream, DaskRows):
        groups = chain.from_iterable(stream.each(group_masses, [()] * stream.count))
    else:
        groups = chain.from_iterable(map(group_masses, stream.blocks(READ)))
    return dict(sorted(bracketed(groups, added_masses, *_brackets(GROUP)).items()))


def _brackets(step):
    """How sums over so many rows each are added up, see `mercer.approx.sweeps`."""
    sizes = [size for size in (READ, grid.SPAN) if size > step]
    return [size // below for size, below in zip(sizes, [step, *sizes], strict=False)]


def cluster_threads() -> int:
    """Threads of the workers of the current client's cluster; 0 without one."""
    client = _client()
    if client is None:
        return 0
    with _explained(client):
        return sum(w["nthreads"] for w in _workers(client, _limit()).values())


def lazy_rows(function: Callable, X, sample):
    """function(rows) of the rows of a Dask array or dataframe, chunk by chunk when it is computed: a Dask array.

    function: an estimator's own method, from rows to an array (m,) or (m, p). sample: a few rows that it knows; one is put to
    it now, to see the shape and dtype of what it gives.
    """
    import dask

    names = list(X.columns) if hasattr(X, "columns") else None
    X = _array(X, "X")
    row = sample[:1].astype(X.dtype) if X.dtype in (np.float32, np.float64) else sample[:1]
    like = np.asarray(function(_with_names(row, names)))[:0]
    X = X.rechunk({1: -1}, method="tasks")
    shape = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], like.shape[1:])}
    function = dask.delayed(function, traverse=False)  # one node, which goes to each worker once
    return X.map_blocks(_applied, function=function, names=names, like=like, dtype=like.dtype, meta=like, **shape)


# ------------------------------------------------------------------------------------------------ on the workers
def _read(X, y, w, start, count) -> Block:
    """Validated rows of one block of the grid."""
    y = np.zeros(count) if y is None else y
    stream = Stream(lambda: iter([(X, y, w)]), f"Dask arrays, counted from row {start}")
    block = next(iter(stream.blocks(count)))
    if len(block.y) != count:
        raise StreamError(f"{stream!r}: {count} rows were announced by the chunks, {len(block.y)} came")
    return block


def _marked(function, block, *own):
    return mark(block), function(block, *own)


def _picked(block, index):
    return Block(*(a[index] for a in block))


def _swept(block, whole, sweeps, name, centres, *given):
    """What a pass finds in a block: in all of it, or in each of its groups."""
    parts = [block] if whole else Held(*block).blocks(GROUP)
    return [getattr(sweeps(Held(*part), centres), name)(*given) for part in parts]


def _labelled_sweeps(stream, centres, classes, factors):
    return LocalLogisticSweeps(Labelled(stream, classes, factors), centres)


def _applied(X, function, names, like):
    return like if X.shape[0] == 0 else function(_with_names(X, names))


def _with_names(X, names):
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)


# ------------------------------------------------------------------------------------------------ rows and their blocks
def _array(a, name):
    """A Dask array of the right number of dimensions."""
    import dask.array as da

    a = a.to_dask_array() if hasattr(a, "to_dask_array") else a
    if is_dask(a) and not isinstance(a, da.Array):
        raise TypeError(f"{name} is a {type(a).__name__}; pass a Dask array or dataframe")
    a = a if is_dask(a) else da.from_array(np.asarray(a), chunks=READ)
    allowed = {"X": (2,), "y": (1, 2), "sample_weight": (1,)}[name]
    if a.ndim not in allowed:
        raise ValueError(f"{name} has {a.ndim} dimensions, expected {' or '.join(map(str, allowed))}")
    if any(math.isnan(m) or m == 0 for m in a.shape[1:]):
        raise ValueError(f"{name} has shape {a.shape}: it needs columns, and a known number of them")
    return a


def _with_sizes(arrays):
    """The same arrays with known numbers of rows in their chunks; those unknown are counted, in one pass for all."""
    import dask

    tasks = {
        name: [dask.delayed(_count)(block) for block in a.to_delayed().reshape(a.numblocks[0], -1)[:, 0]]
        for name, a in arrays.items()
        if math.isnan(a.shape[0])
    }
    counts = _in_order([task for some in tasks.values() for task in some])
    return {name: _sized(a, [next(counts) for _ in tasks[name]]) if name in tasks else a for name, a in arrays.items()}


def _count(block):
    return int(block.shape[0])


def _sized(a, counts):
    import dask.array as da

    return da.Array(a.dask, a.name, (tuple(counts), *a.chunks[1:]), meta=a._meta)


def _common_length(arrays):
    n = {name: int(a.shape[0]) for name, a in arrays.items()}
    if len(set(n.values())) > 1:
        raise ValueError(f"{' and '.join(n)} must have as many rows; found {', '.join(map(str, n.values()))}")
    if n["X"] == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X has no rows")
    return n["X"]


def _parts(arrays, n, step):
    """One task for each block of the grid."""
    import dask

    # Rechunking by "p2p" would tie blocks to workers, and begin anew when one of them is lost.
    cut = {
        name: a.rechunk({0: step, **({1: -1} if a.ndim == 2 else {})}, method="tasks").to_delayed().ravel()
        for name, a in arrays.items()
    }
    nothing = [None] * len(cut["X"])
    columns = cut["X"], cut.get("y", nothing), cut.get("sample_weight", nothing)
    read = dask.delayed(_read)
    return [read(X, y, w, i * step, min(step, n - i * step)) for i, (X, y, w) in enumerate(zip(*columns, strict=True))]


def _compare_versions():
    """Warn of workers with another mercer: sums may then be made in another order."""
    client = _client()
    if client is None:
        return
    with _explained(client):
        found = client.run(_version, on_error="ignore")
    others = sorted({str(v) for v in found.values() if v != __version__})
    if others:
        warnings.warn(
            f"workers of the Dask cluster have mercer {', '.join(others)}, the client has {__version__}: results may differ in "
            "their last digits, or tasks fail; install the same version everywhere",
            NumericalWarning,
            stacklevel=5,
        )


def _version():
    return __version__


def _step(n, size):
    """Rows of a task: some groups, so that the scheduler has few tasks, and each thread of the cluster several."""
    client = _client()
    if client is not None and n > _TASKS * READ and size * (grid.SPAN / n) <= _LARGEST:
        return grid.SPAN
    if client is None or n > _TASKS * GROUP:
        return READ
    groups, threads = READ // GROUP, max(cluster_threads(), 1)
    while groups > 1 and n < _EACH * threads * groups * GROUP:
        groups //= 2
    return groups * GROUP


def _fetched(parts, few):
    """All rows, some blocks at a time, on this machine. Not a method of those who hold it: a cycle would delay that the workers
    let go of the rows."""
    for i in range(0, len(parts), few):
        yield from _in_order(parts[i : i + few])


def _drawn(n, size, rng):
    """Numbers of the rows that `streams.look` keeps: the same random numbers, without the rows."""
    index, keys = np.empty(0, np.intp), np.empty(0)
    for start in range(0, n, READ):
        m = min(READ, n - start)
        keys, index = np.concatenate([keys, rng.random(m)]), np.concatenate([index, np.arange(start, start + m)])
        chosen = np.sort(np.argpartition(keys, size - 1)[:size]) if len(keys) > size else np.arange(len(keys))
        keys, index = keys[chosen], index[chosen]
    return index


def _kept(parts, size):
    """The blocks in the memory of the workers, if there is room for them."""
    client = _client()
    if client is None:
        logger.info("no Dask client: rows are read on this machine, %d blocks in each pass", len(parts))
        return parts
    with _explained(client):
        room = _SHARE * sum(w["memory_limit"] or math.inf for w in _workers(client, _limit()).values())
        if size > room:
            logger.info("%.3g bytes of rows are computed in each pass: the workers have room for %.3g", size, room)
            return parts
        return client.persist(parts)


def _sent(centres):
    """The Gram of the landmarks as a task that all others share: its rows travel once, and each worker keeps it for the fit."""
    import dask

    client = _client()
    if client is None:
        return dask.delayed(centres, traverse=False)
    rows = dask.delayed(centres.x.rows, traverse=False)
    made = dask.delayed(gram)(centres.kernel, rows, engine=centres.engine, memory=centres.memory, validated=True)
    # Dask warns of graphs of 10 MB: this one is sent once, and only from a graph can lost landmarks be made again.
    with _explained(client), dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
        return client.persist(made)


# ------------------------------------------------------------------------------------------------ waiting
def _client():
    """The client of the moment, or None."""
    if "distributed" not in sys.modules:  # whoever has a client has imported it; that takes half a second
        return None
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def _limit():
    import dask

    return dask.utils.parse_timedelta(dask.config.get("mercer.timeout", TIMEOUT))


def _workers(client, limit):
    try:
        return client.sync(client.scheduler.identity, callback_timeout=limit)["workers"]
    except TimeoutError:
        raise ClusterError(f"the scheduler did not answer in {limit:g} s") from None


def _in_order(tasks) -> Iterator[Any]:
    """What the tasks give, in their order."""
    client = _client()
    if client is None:
        for task in tasks:
            yield task.compute()
        return
    with _explained(client):
        futures, limit = deque(client.compute(tasks)), _limit()
        while futures:
            yield _next_result(client, futures, limit)
            futures.popleft()  # let go: should its worker be lost, nobody needs to make it again


def _next_result(client, futures, limit):
    """The result of the first future; an error if for `limit` seconds none of them gets done, or if none ever will."""
    done, since = 0, time.monotonic()
    while True:
        try:
            return futures[0].result(timeout=limit / 10)
        except TimeoutError:
            if futures[0].status == "error":
                raise  # the task's own
            before, done = done, sum(f.done() for f in futures)
            since = time.monotonic() if done != before else since
            waited = time.monotonic() - since
            if waited > limit:
                raise ClusterError(f"no task of {len(futures)} ended in {limit:g} s") from None
            if waited > limit / 5 and (paused := _all_paused(client)):
                raise ClusterError(paused) from None


def _all_paused(client) -> str:
    """What to say where every worker has stopped taking tasks because its memory is full; memory that nobody frees stays so."""
    workers = _workers(client, 5.0).values()
    if not workers or any(w.get("status") != "paused" for w in workers):
        return ""
    used = max(w["metrics"]["memory"] / w["memory_limit"] for w in workers)
    return f"all {len(workers)} workers have paused, with up to {used:.0%} of their memory in use"


@contextmanager
def _explained(client):
    """Failures of the cluster, as opposed to those of tasks, as ClusterError with what is left and what to do."""
    try:
        yield
    except Exception as error:
        ours, theirs = isinstance(error, ClusterError), type(error).__module__.partition(".")[0] == "distributed"
        if not (ours or theirs or isinstance(error, CancelledError)):
            raise
        left = "an unknown number of"
        with suppress(Exception):
            left = str(len(_workers(client, 5.0)))
        raise ClusterError(
            f"the Dask cluster failed: {error}. It has {left} workers now. A worker that is killed often ran out of memory: use "
            "smaller chunks or more memory. Work that takes longer between tasks needs a longer "
            'dask.config.set({"mercer.timeout": ...}). With a checkpoint, the same fit on a new cluster goes on from it'
        ) from error

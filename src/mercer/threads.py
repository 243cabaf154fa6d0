"""Threads: one lazy pool for tiles, one guard that keeps BLAS at one thread while tiles run.

Two thread pools taking turns are slower than one thread, so BLAS gets one thread per tile and the tiles are spread over our
own threads. BLAS limits are global to the process: the first to enter saves the limit, the last to leave restores it.
"""

import _thread
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from threadpoolctl import ThreadpoolController

__all__ = [
    "ahead",
    "each_part",
    "map_tiles",
    "nested",
    "one_thread_blas",
    "part_rows",
    "started",
    "stopping",
    "thread_count",
]

T = TypeVar("T")

_WORTH_THREADS, _PART = 2**20, 2**17  # numbers that are worth threads, and those of one part
_lock = threading.Lock()
_state: dict = {"depth": 0, "limiter": None, "threads": 1, "controller": None, "pools": {}}
_inside = threading.local()


def _reset_after_fork():
    """A forked child inherits neither the threads of the pool nor a usable lock."""
    global _lock
    _lock = threading.Lock()
    _state.update(depth=0, limiter=None, pools={})


os.register_at_fork(after_in_child=_reset_after_fork)


def _controller():
    if _state["controller"] is None:
        _state["controller"] = ThreadpoolController()
    return _state["controller"]


def _take_control():
    """Since 3.7 threadpoolctl lets one thread alone change OpenBLAS and silently ignores the others. Our lock orders them, and
    the last to leave need not be the first that entered."""
    for lib in _controller().lib_controllers:
        if hasattr(lib, "clear_controlling_thread"):
            lib.clear_controlling_thread(force=True)


def _blas_threads():
    counts = [lib.num_threads for lib in _controller().lib_controllers if lib.user_api == "blas"]
    return max(counts, default=1)


def thread_count() -> int:
    """Threads that a tile loop started now would use: the BLAS limit in force, which joblib, Dask and users set."""
    with _lock:
        return _state["threads"] if _state["depth"] else max(1, min(_blas_threads(), os.cpu_count() or 1))


@contextmanager
def one_thread_blas():
    """Hold BLAS at one thread; yields the number of threads it had. Nested and overlapping use is safe."""
    with _lock:
        if _state["depth"] == 0:
            _state["threads"] = max(1, min(_blas_threads(), os.cpu_count() or 1))
            _take_control()
            _state["limiter"] = _controller().limit(limits=1, user_api="blas")
        _state["depth"] += 1
        threads = _state["threads"]
    try:
        yield threads
    finally:
        with _lock:
            _state["depth"] -= 1
            if _state["depth"] == 0:
                _take_control()
                _state["limiter"].restore_original_limits()
                _state["limiter"] = None
                _take_control()


def _pool(threads) -> SimpleQueue:
    """What the threads of a pool take their work from.

    Not an executor: its locks are taken and given back by Python code, and an interrupt in between would leave one locked for
    good. Those of the queue are not.
    """
    with _lock:
        key = (os.getpid(), threads)
        if key not in _state["pools"]:
            tasks: SimpleQueue = SimpleQueue()
            for _ in range(threads):
                _thread.start_new_thread(_serve, (tasks,))
            _state["pools"][key] = tasks
        return _state["pools"][key]


def _serve(tasks):
    while True:
        tasks.get()()


def stopping() -> bool:
    """Whether the caller of the tile loop that this thread works for waits for it to end: long jobs ask now and then."""
    return bool(getattr(_inside, "stop", None))


def nested() -> bool:
    """Whether this thread works for a tile loop already: one started here runs serially."""
    return getattr(_inside, "busy", False)


def map_tiles(job: Callable[[int], object], count: int, threads: int | None = None) -> list:
    """[job(0), ..., job(count - 1)] over the threads; Ctrl-C and errors stop it within one job. Nested use runs serially.

    The workers hold the BLAS limit, not the caller: an interrupt reaches only the main thread, and must not find it between
    taking the limit and giving it back. So even one job of the main thread goes to a worker.
    """
    threads = max(1, min(threads or thread_count(), count))
    if nested() or (threads == 1 and threading.current_thread() is not threading.main_thread()):
        with one_thread_blas():
            return [job(i) for i in range(count)]
    return _run_parallel(job, count, threads)


def part_rows(width: int) -> int:
    """Rows of so many numbers that a thread passes over at a time: few enough for its cache, and so many that threads which take
    turns in Python do not wait for one another."""
    return max(1, _PART // max(width, 1))


def each_part(job: Callable[[int], object], count: int, work: int) -> None:
    """job(0) ... job(count - 1) of plain passes over `work` numbers: by threads where that is worth their start."""
    if work >= _WORTH_THREADS:
        map_tiles(job, count)
        return
    for i in range(count):
        job(i)


def ahead(values: Iterable[T]) -> Iterator[T]:
    """The same values, the next of which is made by another thread while one is used."""
    values = iter(values)
    made: SimpleQueue = SimpleQueue()

    def make():
        try:
            made.put((True, next(values)))
        except StopIteration:
            made.put((False, None))
        except BaseException as error:
            made.put((False, error))

    _thread.start_new_thread(make, ())
    while True:
        good, value = _waited(made)
        if not good and value is not None:
            raise value
        if not good:
            return
        _thread.start_new_thread(make, ())
        yield value


def started(values: Iterable[T]) -> Iterator[T]:
    """The same values, which another thread makes from now on, whether or not they are asked for yet."""
    made: SimpleQueue = SimpleQueue()

    def make():
        try:
            for value in values:
                made.put((True, value))
            made.put((False, None))
        except BaseException as error:
            made.put((False, error))

    _thread.start_new_thread(make, ())
    return _handed_over(made)


def _handed_over(made):
    while True:
        good, value = _waited(made)
        if good:
            yield value
        elif value is None:
            return
        else:
            raise value


def _waited(queue):
    """What comes next. Timed waits let an interrupt through."""
    while True:
        with suppress(Empty):
            return queue.get(timeout=0.1)


def _run_parallel(job, count, threads):
    loop = _Loop(job, count)
    try:
        tasks = _pool(threads)
        for _ in range(threads):
            tasks.put(loop.work)
        loop.wait(lambda: len(loop.ended) == threads or loop.stop)
    finally:
        loop.stop.append(True)
        # A tile takes milliseconds; nobody may write into the result after we left. Who begins from now on leaves at once.
        loop.wait(lambda: len(loop.ended) == len(loop.begun))
    for error in loop.ended:
        if error is not None:
            raise error
    return loop.results


class _Loop:
    """One loop over tiles. Lists tell of its state: to append to one is a single step that no interrupt divides."""

    def __init__(self, job, count):
        self.job, self.results = job, [None] * count
        self.begun: list = []
        self.ended: list = []  # of each thread, None or what it raised
        self.stop: list = []  # not empty: nobody waits for the rest
        self._todo, self._take, self._told = iter(range(count)), threading.Lock(), SimpleQueue()

    def work(self):
        """What each thread does."""
        self.begun.append(True)
        error = None
        _inside.busy, _inside.stop = True, self.stop
        try:
            self._jobs()
        except BaseException as raised:
            error = raised
            self.stop.append(True)
        finally:
            _inside.busy, _inside.stop = False, None
            self.ended.append(error)
            self._told.put(None)

    def _jobs(self):
        if self.stop:  # begun too late: must not touch the BLAS limit, which others may read by now
            return
        with one_thread_blas():
            while not self.stop and (i := self._next()) is not None:
                self.results[i] = self.job(i)

    def _next(self):
        with self._take:
            return next(self._todo, None)

    def wait(self, done):
        """Until done(). Looks now and then without being told: an interrupt may take a word away with it."""
        while not done():
            with suppress(Empty):
                self._told.get(timeout=0.1)

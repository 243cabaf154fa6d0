"""Threads: one lazy pool for tiles, one guard that keeps BLAS at one thread while tiles run.

Two thread pools taking turns are slower than one thread, so BLAS gets one thread per tile and the tiles are spread over our
own threads. BLAS limits are global to the process: the first to enter saves the limit, the last to leave restores it.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

__all__ = ["each_part", "map_tiles", "nested", "one_thread_blas", "stopping", "thread_count"]

_WORTH_THREADS = 2**20  # numbers
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


def _pool(threads):
    with _lock:
        key = (os.getpid(), threads)
        if key not in _state["pools"]:
            _state["pools"][key] = ThreadPoolExecutor(threads, thread_name_prefix="mercer")
        return _state["pools"][key]


def stopping() -> bool:
    """Whether the caller of the tile loop that this thread works for waits for it to end: long jobs ask now and then."""
    stop = getattr(_inside, "stop", None)
    return stop is not None and stop.is_set()


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


def each_part(job: Callable[[int], object], count: int, work: int) -> None:
    """job(0) ... job(count - 1) of plain passes over `work` numbers: by threads where that is worth their start."""
    if work >= _WORTH_THREADS:
        map_tiles(job, count)
        return
    for i in range(count):
        job(i)


def _run_parallel(job, count, threads):
    results: list = [None] * count
    todo = iter(range(count))
    stop = threading.Event()
    take = threading.Lock()

    def work():
        _inside.busy, _inside.stop = True, stop
        try:
            with one_thread_blas():
                while not stop.is_set():
                    with take:
                        i = next(todo, None)
                    if i is None:
                        return
                    results[i] = job(i)
        except BaseException:
            stop.set()
            raise
        finally:
            _inside.busy, _inside.stop = False, None

    futures = []
    try:
        futures.extend(_pool(threads).submit(work) for _ in range(threads))
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        stop.set()
        wait(futures)  # a tile takes milliseconds; nobody may write into the result after we left
    for f in futures:
        f.result()
    return results

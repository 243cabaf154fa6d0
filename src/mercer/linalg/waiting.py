"""Waiting for a long LAPACK call so that Ctrl-C still works, and predicting which calls are long."""

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["run_interruptibly", "seconds_for_cholesky", "seconds_for_eigh", "seconds_for_solve"]

T = TypeVar("T")

# Measured on two cores of a cloud server with OpenBLAS, float64; float32 is about twice as fast. Only the order matters:
# a call that is predicted wrongly by a factor of three is interrupted three seconds late at worst.
CHOLESKY_FLOPS = 9e10
SOLVE_FLOPS = 6e10
EIGH_FLOPS = 7e10


def run_interruptibly(f: Callable[..., T], *args, seconds_predicted: float, **kwargs) -> T:
    """f(*args, **kwargs), in a helper thread when it is predicted to last over a second.

    Python handles Ctrl-C between bytecodes, so one long foreign call would delay it to its end. The main thread waits in
    short timed waits instead, which needs a call that releases the GIL: `numpy.linalg` and `mercer.linalg.inplace` do, scipy's
    eigh, cholesky and cho_solve do not (measured). After an interrupt the helper finishes unseen and its result is dropped,
    so `f` must not write to an array that the caller uses afterwards. Signals reach the main thread only: elsewhere the call
    is direct.

    >>> run_interruptibly(pow, 2, 10, seconds_predicted=5)
    1024
    """
    if seconds_predicted <= 1 or threading.current_thread() is not threading.main_thread():
        return f(*args, **kwargs)
    outcome = {}
    context = contextvars.copy_context()  # numpy.errstate lives here

    def work():
        try:
            outcome["value"] = context.run(f, *args, **kwargs)
        except BaseException as error:
            outcome["error"] = error

    helper = threading.Thread(target=work, name="mercer-lapack", daemon=True)
    helper.start()
    while helper.is_alive():
        helper.join(timeout=0.1)
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def seconds_for_cholesky(n: int) -> float:
    """Predicted seconds of an n x n Cholesky factorisation: n^3 / 3 flops."""
    return n**3 / 3 / CHOLESKY_FLOPS


def seconds_for_solve(n: int, columns: int) -> float:
    """Predicted seconds of one triangular solve with an n x n factor: n^2 flops per column, reading the factor costs 30 more."""
    return n**2 * (columns + 30) / SOLVE_FLOPS


def seconds_for_eigh(n: int) -> float:
    """Predicted seconds of all eigenpairs of an n x n matrix: about 9 n^3 flops."""
    return 9 * n**3 / EIGH_FLOPS

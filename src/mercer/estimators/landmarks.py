"""What estimators on landmarks share: parameters, checkpoints that a later fit goes on from, and progress."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path

import numpy as np
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from mercer import persist, streams, validate
from mercer.approx import LANDMARKS, MOST_LANDMARKS, Centres, find_centres, nystrom_map
from mercer.engines import get_engine
from mercer.errors import ModelFileError
from mercer.estimators.base import KernelEstimator, engine_of
from mercer.estimators.plan import USUAL_LANDMARKS, Problem
from mercer.kernels.digest import digest
from mercer.linalg import CGState
from mercer.random import generator
from mercer.solvers import LandmarkState, LogisticState, Moments
from mercer.threads import thread_count

__all__ = [
    "LANDMARK_CONSTRAINTS",
    "Checkpoint",
    "FitProgress",
    "LogisticFit",
    "Reporter",
    "RidgeFit",
    "fit_identity",
    "fresh_seed",
    "landmark_centres",
    "landmark_features",
    "on_landmarks",
    "problem_of",
    "refuse_checkpoint",
]

LANDMARK_CONSTRAINTS = {
    "n_landmarks": [Interval(Integral, 1, None, closed="left"), Interval(RealNotInt, 0, 1, closed="neither"), None],
    "landmarks": [StrOptions(set(LANDMARKS)), "array-like", "sparse matrix"],
    "random_state": ["random_state"],
    "checkpoint": [str, os.PathLike, None],
    "callback": [callable, None],
    "verbose": ["verbose"],
}


@dataclass(frozen=True)
class FitProgress:
    """What a callback sees after each pass over the rows. remaining: seconds, as far as the pace so far tells."""

    iteration: int
    residual: float
    seconds: float
    remaining: float


class Reporter:
    """Tells callbacks, and with `verbose` the screen, how far an iteration came."""

    def __init__(self, callback, verbose, tol):
        self.callback, self.verbose, self.tol = callback, verbose, tol
        self.started, self.first = time.monotonic(), None

    def __call__(self, iteration, residual):
        seconds = time.monotonic() - self.started
        self.first = (iteration, residual, seconds) if self.first is None else self.first
        told = FitProgress(iteration, residual, seconds, self._remaining(iteration, residual, seconds))
        if self.verbose:
            print(
                f"{seconds:8.1f} s  pass {iteration:4d}  residual {residual:.1e}  about {told.remaining:.0f} s left",
                flush=True,
            )
        if self.callback is not None:
            self.callback(told)

    def _remaining(self, iteration, residual, seconds):
        """Residuals of conjugate gradients fall by about the same factor in each pass."""
        start, before, since = self.first
        if iteration <= start or not 0 < residual < before:
            return float("nan")
        pace = np.log(before / residual) / (seconds - since) if seconds > since else np.inf
        return float(max(np.log(residual / self.tol), 0.0) / pace)


class Checkpoint:
    """The state of a fit in a file. A fit of the same estimator on the same rows that finds it goes on from there."""

    def __init__(self, path, identity: bytes, every: float = 30.0):
        self.path, self.identity, self.every = Path(path), identity.hex(), every
        self.saved = time.monotonic()

    def load(self) -> dict | None:
        """What an earlier fit saved; None if there is no file."""
        if not self.path.exists():
            return None
        tree = persist.unflatten(*_parts(persist.read(self.path, "checkpoint")))
        if tree.get("identity") != self.identity:
            raise ModelFileError(
                f"checkpoint={str(self.path)!r} belongs to another fit: other rows, kernel or parameters. Give another path, or "
                "remove it to begin anew"
            )
        return tree

    def save(self, tree: Callable[[], dict], now: bool = False):
        """Write what `tree` gives, at most every so many seconds unless told to do it `now`."""
        if not now and time.monotonic() - self.saved < self.every:
            return
        persist.write(self.path, "checkpoint", *persist.flatten({"identity": self.identity, **tree()}))
        self.saved = time.monotonic()


def _parts(container):
    return container.content, container.arrays


def fit_identity(estimator, kernel, stream) -> bytes:
    """What makes two fits the same: the class, what it was told, and the rows it begins with."""
    told = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _NOT_TOLD}
    first = next(iter(stream.blocks(streams.LOOK)))
    return digest([type(estimator).__name__, digest(kernel), sorted(told), list(dict(sorted(told.items())).values()),
                   streams.mark(first)])  # fmt: skip


_NOT_TOLD = ("kernel", "checkpoint", "callback", "verbose", "engine", "memory", "random_state")


class LandmarkFit:
    """A fit on landmarks of rows that come in blocks: its seed, its centres, and where it stands.

    Subclasses say how the state of their solver is written and read.
    """

    def __init__(self, estimator, stream, resolve_on=None, tol=1e-5):
        kernel = estimator._kernel()
        self.file, saved = None, None
        if estimator.checkpoint is not None:
            self.file = Checkpoint(estimator.checkpoint, fit_identity(estimator, kernel, stream))
            saved = self.file.load()
        self.seed, self.state = (fresh_seed(estimator.random_state), None) if saved is None else self._read(**saved)
        self.centres = landmark_centres(estimator, kernel, stream, self.seed, resolve_on)
        self.reporter = Reporter(estimator.callback, estimator.verbose, tol)

    def told(self, state):
        """After each step: keep the state now and then, and tell how far it came."""
        self.save(state)
        self.reporter(*self._progress(state))

    def save(self, state, now=False):
        """Keep a state; the last one `now`, so that the same fit has nothing left to do."""
        if self.file is not None:
            self.file.save(lambda: {"seed": self.seed, **self._written(state)}, now)


class RidgeFit(LandmarkFit):
    """Of ridge regression, which tells after each pass."""

    def _read(self, identity, seed, moments, iterations):
        states = tuple(None if s is None else CGState(**s) for s in iterations)
        return seed, LandmarkState(Moments(**moments), states)

    def _written(self, state):
        return {
            "moments": asdict(state.moments),
            "iterations": [None if s is None else asdict(s) for s in state.iterations],
        }

    def _progress(self, state):
        current = [s for s in state.iterations if s is not None][-1]
        return current.iterations, float(np.linalg.norm(current.R, axis=0).max())


class LogisticFit(LandmarkFit):
    """Of logistic regression, which tells after each Newton step."""

    def _read(self, identity, seed, newton):
        return seed, LogisticState(**newton)

    def _written(self, state):
        return {"newton": asdict(state)}

    def _progress(self, state):
        return state.passes, state.certificate


def problem_of(estimator, rows, outputs: int, features: float = math.inf) -> Problem:
    """What the plan of an estimator depends on, for rows in memory or on a Dask cluster."""
    n, d = rows.shape if getattr(rows, "ndim", 1) == 2 else (validate.n_rows(rows), 1)
    if n != n:
        raise ValueError("the Dask array does not know its number of rows; X.compute_chunk_sizes() counts them")
    dtype = np.dtype(np.float32 if getattr(rows, "dtype", None) == np.float32 else np.float64)
    choice = estimator.landmarks if isinstance(estimator.landmarks, str) else "given"
    engine = get_engine(engine_of(estimator))
    return Problem(int(n), int(d), dtype, features, outputs, _planned(estimator, int(n)), estimator.memory, thread_count(),
                   choice, room=engine.room(), where=engine.where)  # fmt: skip


def _planned(estimator, n) -> int:
    """Landmarks that an estimator asks for, as far as that is known beforehand."""
    if not isinstance(estimator.landmarks, str):
        return validate.n_rows(estimator.landmarks)
    if estimator.n_landmarks is None:
        return USUAL_LANDMARKS
    return min(MOST_LANDMARKS, n) if estimator.n_landmarks < 1 else int(estimator.n_landmarks)


def on_landmarks(estimator) -> bool:
    """Whether a fit is to use landmarks."""
    return estimator.n_landmarks is not None or not isinstance(estimator.landmarks, str)


def refuse_checkpoint(estimator):
    """Where all rows take part at once: there is nothing between the beginning and the end to go on from."""
    if estimator.checkpoint is not None:
        raise ValueError(
            f"checkpoint={str(estimator.checkpoint)!r} is for fits on landmarks; set n_landmarks, or leave it out"
        )


def landmark_centres(estimator, kernel, stream, seed, resolve_on=None) -> Centres:
    """Landmarks as the estimator's parameters ask for them, the same ones for the same seed."""
    alpha = getattr(estimator, "alpha", None)
    return find_centres(
        kernel, stream, estimator.n_landmarks, estimator.landmarks, rng=np.random.default_rng(seed),
        alpha=None if alpha is None else float(np.min(alpha)), resolve_on=resolve_on, engine=engine_of(estimator),
        memory=estimator.memory,
    )  # fmt: skip


def landmark_features(estimator, kernel, rows, count, rng, tol=0.0):
    """Landmarks of rows or of a stream, and the features they give; `kernel_` of the estimator is set, and tested on them."""
    known = (rows.rows, None) if isinstance(rows, streams.Held) else None
    centres = find_centres(kernel, rows, count, estimator.landmarks, rng=rng, tol=tol, resolve_on=known,
                           engine=engine_of(estimator), memory=estimator.memory)  # fmt: skip
    estimator.kernel_ = centres.gram.kernel
    KernelEstimator._definite(estimator, centres.gram)  # features have no centre yet that would do with less
    return centres, nystrom_map(centres.gram, engine_of(estimator))


def fresh_seed(random_state) -> int:
    """A number from which all random choices of one fit follow."""
    return int(generator(random_state).integers(2**62))

"""From rows to centres: look at the rows once, choose landmarks among a sample, and prepare the Gram on them."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import streams, validate
from mercer.approx.landmarks import Landmarks, choose_landmarks, pivots_for
from mercer.errors import NumericalWarning
from mercer.gram import Gram, gram, prepared_gram
from mercer.gram.plan import budget, require

__all__ = ["MOST_LANDMARKS", "MOST_SAMPLED", "Centres", "choosing_bytes", "find_centres"]

_CANDIDATES, _PER_LANDMARK = 20_000, 10  # rows among which landmarks are chosen: at least so many, and so many for each
MOST_SAMPLED = 30_000  # landmarks, on a device: beyond, a sample of rows takes longer than the rest
MOST_LANDMARKS = 4000  # landmarks where a tolerance says how many
_SAMPLE = (
    4,
    20,
    50.0,
)  # rows on which second moments are estimated: for each landmark from 4 to 20, so that it takes as long as
# some passes over all rows


@dataclass(frozen=True, eq=False)
class Centres:
    """Landmarks and what was seen when they were chosen.

    gram: lazy Gram of the landmarks, whose preparation serves all other rows. index: their numbers among the rows (None: rows
    of the user's own). error: share of the trace that they leave unexplained on the rows looked at (None: not known).
    sample, weight: some rows, with weights that let them stand for all n.
    """

    gram: Gram
    index: np.ndarray | None
    error: float | None
    n: int
    sample: Any
    weight: np.ndarray

    @property
    def rows(self):
        """The landmarks themselves."""
        return self.gram.x.rows

    def dense(self) -> np.ndarray:
        """Gram of the landmarks in float64, whatever the rows are: its factor divides everything."""
        return self._double().dense()

    def matrix(self):
        """The same for a solver to work in, on the engine's device."""
        return self._double().matrix()

    def _double(self):
        rows = (
            self.rows.astype(np.float64)
            if hasattr(self.rows, "astype") and self.rows.dtype == np.float32
            else self.rows
        )
        engine = self.gram.engine.careful()
        return gram(self.gram.kernel, rows, engine=engine, memory=self.gram.memory, validated=True)

    def sample_gram(self) -> Gram | None:
        """Gram of the sample with the landmarks. None where a device has room for one matrix of the landmarks, but not for two:
        then the landmarks are the sample."""
        if self.gram.engine.sums_rows and len(self.gram) > MOST_SAMPLED:
            return None
        return prepared_gram(self.gram, self.sample)


def find_centres(
    kernel, stream, count, method, *, rng, tol=0.0, alpha=None, resolve_on=None, engine=None, memory=None
) -> Centres:
    """Look at the rows of a stream and choose landmarks.

    count: how many at most; tol: share of the trace that may be left unexplained; count < 1 is a tol. method: a word, or rows.
    resolve_on: (rows, weights) on which constants of the kernel are learned, by default the rows looked at.
    """
    own = None if isinstance(method, str) else _own_rows(kernel, method)
    if own is not None:
        count = validate.n_rows(own)
    tol, most = (float(count), MOST_LANDMARKS) if isinstance(count, float) and count < 1 else (tol, int(count))
    # So many landmarks are their own sample, on a device, or have enough rows in one of this size.
    each = _SAMPLE[1] if most <= MOST_SAMPLED else _PER_LANDMARK
    seen = streams.look(stream, max(_CANDIDATES, each * most), rng)
    kernel = kernel._resolved(*(resolve_on or (seen.sample.X, seen.sample.w)))
    options = {"engine": engine, "memory": memory, "validated": True}
    if own is not None:
        rows, index, error = own, None, None
    else:
        candidates = _candidates(seen, most, method, tol, memory)
        few = gram(kernel, validate.take(seen.sample.X, candidates), **options)
        found = _choose(few, most, method, rng, tol, alpha, seen.n)
        chosen = candidates[found.index]
        rows, index, error = validate.take(seen.sample.X, chosen), seen.index[chosen], found.error
    sample, weight = _stand_ins(seen, _sample_size(seen.n, validate.n_rows(rows)))
    return Centres(gram(kernel, rows, **options), index, error, seen.n, sample, weight)


def choosing_bytes(method, most, n, dtype) -> int:
    """Memory for choosing at most `most` landmarks among n rows: "rpcholesky" makes a factor of all candidates."""
    if method != "rpcholesky":
        return 0
    m = min(n, max(_CANDIDATES, _PER_LANDMARK * most))
    k = min(pivots_for(most), m)
    judged = 48 * k**2 if k > most else 8 * k**2  # six matrices to judge pivots by, or one
    return np.dtype(dtype).itemsize * m * k + judged


def _candidates(seen, most, method, tol, memory):
    """Rows among which landmarks are chosen."""
    found = _spread(len(seen.index), _CANDIDATES if tol else max(_CANDIDATES, _PER_LANDMARK * most))
    remedies = ['landmarks="uniform"', "fewer landmarks", 'a larger budget, for example memory="64GB"']
    dtype = np.float32 if getattr(seen.sample.X, "dtype", None) == np.float32 else np.float64
    needed = choosing_bytes(method, most, len(found), dtype)
    require(needed, budget(memory), f"choosing {most} landmarks among {len(found)} rows", remedies)
    return found


def _choose(K, most, method, rng, tol, alpha, n) -> Landmarks:
    if not tol and most > n:
        raise ValueError(f"n_landmarks={most} is more than the number of different rows, {n}")
    # A sample of c rows has a ridge c / n as large.
    found = choose_landmarks(K, min(most, K.shape[0]), method, rng=rng, tol=tol, alpha=alpha and alpha * K.shape[0] / n)
    if tol and found.error is not None and found.error > tol and len(found) < K.shape[0]:
        warnings.warn(f"{len(found)} landmarks leave {found.error:.2g} of the trace unexplained, more than the {tol:g} "
                      "asked for; allow more of them", NumericalWarning, stacklevel=5)  # fmt: skip
    return found


def _own_rows(kernel, rows):
    """The user's landmarks, each once."""
    rows = kernel.validated(rows, "landmarks")
    ones = np.zeros(validate.n_rows(rows))
    kept = (
        validate.canonical(rows, ones, None)[3]
        if getattr(rows, "ndim", 1) == 2
        else validate.merged(rows, ones, None)[3]
    )
    if len(kept) < len(ones):
        warnings.warn(
            f"landmarks holds {len(ones) - len(kept)} rows twice; each is used once", NumericalWarning, stacklevel=5
        )
    return validate.take(rows, np.sort(kept))


def _spread(m, size):
    """At most `size` of m numbers, evenly spread."""
    return np.arange(m) if size >= m else np.linspace(0, m - 1, size).astype(int)


def _sample_size(n, M):
    least, most, passes = _SAMPLE
    return int(np.clip(passes * n / M, least * M, most * M))


def _stand_ins(seen, size):
    """At most `size` rows of the sample, spread over it, with weights that add up to those of all rows."""
    chosen = _spread(len(seen.index), size)
    weight = seen.sample.w[chosen] * (seen.n / len(chosen))
    return validate.take(seen.sample.X, chosen), weight

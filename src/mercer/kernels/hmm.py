"""Models of sequences: hidden Markov models by Baum-Welch in log space, and Markov chains."""

from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from mercer import validate
from mercer.errors import NanError
from mercer.kernels.models import Model, _check_weights, model
from mercer.kernels.normals import LOG_2PI, _distinct, _moments, lloyd, mean_of
from mercer.random import generator

__all__ = ["HiddenMarkov", "MarkovChain"]

_CALL = 4_000_000  # pairs of states that one compiled call passes over: below 0.2 s


def steps(n, n_states):
    """Cuts 0 = c_0 < c_1 < ... = n of a sequence into calls that return in time."""
    stride = max(1, _CALL // n_states**2)
    return [*range(0, n, stride), n] if n else [0]


def _log(p):
    with np.errstate(divide="ignore"):
        return np.log(p)


def _tokens(x, who):
    """A sequence of symbols as a tuple."""
    if isinstance(x, (str, bytes, tuple, list)):
        return tuple(x)
    if isinstance(x, np.ndarray) and x.ndim == 1:
        return tuple(x.tolist())
    raise TypeError(f"{who} reads sequences of symbols (strings, lists, 1-D arrays), got {type(x).__name__}")


def _alphabet(sequences):
    """Symbols in an order that the data alone decide."""
    found = {s for x in sequences for s in x if not _missing(s)}
    if not found:
        raise ValueError("the sequences hold no symbol; expected at least one")
    return tuple(sorted(found, key=lambda s: (type(s).__name__, s if isinstance(s, (int, float)) else 0, repr(s))))


def _missing(symbol):
    return symbol is None or (isinstance(symbol, float) and symbol != symbol)


@model
class HiddenMarkov(Model):
    """A hidden Markov model. Rows are arrays (T, d) for "gaussian" emissions (with variances), sequences of symbols for
    "discrete" ones; NaN, and None among symbols, is a missing emission.

    Fitted by Baum-Welch on all rows, each weighted. `smoothing` is a pseudo-count of each move and symbol; `ridge` times
    the mean variance is added to the variances. Scores are in logarithms of probabilities (softmax), in means, and in
    logarithms of variances; `theta="emissions"` leaves those of the chain out.
    """

    n_states: int = 3
    emissions: str = "gaussian"
    start: Any = None
    moves: Any = None
    means: Any = None
    variances: Any = None
    table: Any = None
    symbols: tuple | None = None
    theta: str = "all"
    smoothing: float = 0.01
    ridge: float = 1e-3
    max_iter: int = 50
    random_state: int = 0
    rows_kind = "objects"

    def __post_init__(self):
        if self.emissions not in ("gaussian", "discrete"):
            raise ValueError(f"HiddenMarkov(emissions={self.emissions!r}): expected 'gaussian' or 'discrete'")
        if self.theta not in ("all", "emissions"):
            raise ValueError(f"HiddenMarkov(theta={self.theta!r}): expected 'all' or 'emissions'")
        if self.table is not None and self.symbols is None:
            object.__setattr__(self, "symbols", tuple(range(np.shape(self.table)[1])))
        super().__post_init__()

    @property
    def learned(self):
        own = ("table", "symbols") if self.emissions == "discrete" else ("means", "variances")
        return ("start", "moves", *own)

    def check(self):
        if not self.fitted:
            return
        rows = [self.start, *self.moves] + (list(self.table) if self.emissions == "discrete" else [])
        for p in rows:
            _check_weights(p)
        shapes = {np.shape(a)[0] for a in (self.start, self.moves, self._emitters)} | {np.shape(self.moves)[1]}
        if len(shapes) > 1:
            raise ValueError(f"HiddenMarkov: start, moves and emissions are for {sorted(shapes)} states")

    @property
    def _emitters(self):
        return self.table if self.emissions == "discrete" else self.means

    # -------------------------------------------------------------------------------------------------- rows
    def parse(self, x):
        """A row as codes (T,) of symbols, -1 missing and -2 unknown, or as an array (T, d) of numbers."""
        if self.emissions == "discrete":
            place = {s: i for i, s in enumerate(self.symbols)}
            tokens = _tokens(x, "HiddenMarkov")
            return np.array([-1 if _missing(s) else place.get(s, -2) for s in tokens], dtype=np.int64)
        return self._series(x)

    def _series(self, x):
        try:
            A = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"HiddenMarkov reads arrays (T, d) of numbers, got {type(x).__name__}") from None
        A = A[:, None] if A.ndim == 1 else A
        if A.ndim != 2:
            raise ValueError(f"HiddenMarkov reads arrays (T, d), got shape {A.shape}")
        if np.isinf(A).any():
            raise ValueError("the sequence contains infinity")
        if self.fitted and len(A) and A.shape[1] != self.means.shape[1]:
            raise ValueError(f"HiddenMarkov is for {self.means.shape[1]} columns, but the sequence has {A.shape[1]}")
        return A if len(A) else np.empty((0, self.means.shape[1] if self.fitted else A.shape[1]))

    def log_emission(self, parsed):
        """log p(x_t | z_t = s), (T, S)."""
        if self.emissions == "discrete":
            known = np.hstack(
                [_log(self.table), np.full((len(self.table), 1), -np.inf), np.zeros((len(self.table), 1))]
            )
            return np.ascontiguousarray(known[:, np.where(parsed == -2, len(self.symbols), parsed)].T)
        out = np.zeros((len(parsed), len(self.means)))
        seen = ~np.isnan(parsed)
        for s, (m, v) in enumerate(zip(self.means, self.variances, strict=True)):
            with np.errstate(over="ignore", invalid="ignore"):
                terms = -0.5 * ((parsed - m) ** 2 / v + np.log(v) + LOG_2PI)
            out[:, s] = np.where(seen, terms, 0.0).sum(axis=1)
        return out

    # -------------------------------------------------------------------------------------------------- recursions
    @property
    def logs(self):
        """Logarithms of the start and of the moves, for the compiled recursions."""
        return _log(self.start), np.ascontiguousarray(_log(self.moves))

    def posterior(self, emission):
        """(log density, p(z_t | x) of shape (T, S), expected moves (S, S)) from log emissions; zeros at density 0."""
        from mercer.kernels import _compiled_hmm as loops

        (n, k), (start, move) = emission.shape, self.logs
        alpha, beta, count = np.empty((n, k)), np.empty((n, k)), np.zeros((k, k))
        if not n:
            return 0.0, alpha, count
        cuts = list(zip(steps(n, k)[:-1], steps(n, k)[1:], strict=True))
        for a, b in cuts:
            loops.forward(emission, start, move, alpha, a, b)
        total = logsumexp(alpha[-1])
        if np.isneginf(total):
            return total, np.zeros((n, k)), count
        for a, b in reversed(cuts):
            loops.backward(emission, move, beta, a, b)
        for a, b in cuts:
            loops.moves(emission, move, alpha, beta, total, count, a, min(b, n - 1))
        return total, np.exp(alpha + beta - total), count

    def log_density(self, rows):
        parsed = validate.each_object(self.parse, rows)
        return np.array([self.posterior(self.log_emission(x))[0] for x in parsed])

    def scores(self, rows):
        return np.array([self._score(x) for x in validate.each_object(self.parse, rows)])

    def _score(self, x):
        _, gamma, count = self.posterior(self.log_emission(x))
        first = gamma[0] if len(gamma) else np.zeros(len(self.start))
        chain = [first - first.sum() * self.start, (count - count.sum(axis=1, keepdims=True) * self.moves).ravel()]
        return np.concatenate([*(chain if self.theta == "all" else []), *self._emission_score(x, gamma)])

    def _emission_score(self, x, gamma):
        if self.emissions == "discrete":
            hits = _hits(x, gamma, len(self.symbols))
            return [(hits - hits.sum(axis=1, keepdims=True) * self.table).ravel()]
        seen = ~np.isnan(x)
        z = [np.where(seen, (x - m) / np.sqrt(v), 0.0) for m, v in zip(self.means, self.variances, strict=True)]
        by_mean = [gamma[:, s] @ z[s] / np.sqrt(self.variances[s]) for s in range(len(z))]
        by_variance = [0.5 * gamma[:, s] @ np.where(seen, z[s] ** 2 - 1.0, 0.0) for s in range(len(z))]
        return [*by_mean, *by_variance]

    # -------------------------------------------------------------------------------------------------- fit
    def fit(self, rows, weight=None):
        w = np.ones(len(rows)) if weight is None else weight
        found = self._begin(rows, w)
        parsed = validate.each_object(found.parse, rows)
        before = -np.inf
        for _ in range(self.max_iter):
            found, value = found._step(parsed, w)
            if value - before <= 1e-6 * (1 + abs(value)):
                break
            before = value
        return found

    def _begin(self, rows, w):
        """A start: labels of k-means for numbers, near-uniform tables for symbols; all moves alike, staying preferred."""
        k, rng = int(self.n_states), generator(self.random_state)
        moves = (np.eye(k) + 1.0 / k) / 2.0
        chain = {"start": np.full(k, 1.0 / k), "moves": moves / moves.sum(axis=1, keepdims=True)}
        if self.emissions == "discrete":
            symbols = self.symbols or _alphabet(validate.each_object(lambda x: _tokens(x, "HiddenMarkov"), rows))
            table = 1.0 + rng.random((k, len(symbols)))
            return self._with(**chain, symbols=symbols, table=table / table.sum(axis=1, keepdims=True))
        series = validate.each_object(self._series, rows)
        frames, mass = _frames(series, w)
        mean, variance = _moments(frames, mass)
        scale = variance + self.ridge * (variance.mean() or 1.0)
        label = lloyd(np.where(np.isnan(frames), 0.0, (frames - mean) / np.sqrt(scale)), mass, k, rng)
        means = [mean_of(frames, mass * (label == s), mean) for s in range(k)]
        return self._with(**chain, means=np.array(means), variances=np.repeat(scale[None], k, axis=0))

    def _step(self, parsed, w):
        """One step of Baum-Welch: the new model and the mean log density under the old one."""
        k = len(self.start)
        first, count, value, gammas = np.zeros(k), np.zeros((k, k)), 0.0, []
        for x, weight in zip(parsed, w, strict=True):
            total, gamma, moved = self.posterior(self.log_emission(x))
            if np.isneginf(total):
                raise NanError("a sequence has density 0 under the start of the fit; raise smoothing")
            value += weight * total
            count += weight * moved
            first += weight * gamma[0] if len(gamma) else 0.0
            gammas.append(weight * gamma)
        start, moves = _shares(first + self.smoothing), _shares(count + self.smoothing)
        return self._with(start=start, moves=moves, **self._emit(parsed, gammas)), value / w.sum()

    def _emit(self, parsed, gammas):
        if self.emissions == "discrete":
            hits = sum(_hits(x, g, len(self.symbols)) for x, g in zip(parsed, gammas, strict=True))
            return {"table": _shares(hits + self.smoothing)}
        X, G = np.concatenate(list(parsed)), np.concatenate(gammas)
        seen = ~np.isnan(X)
        mass = np.maximum(G.T @ seen, 1e-300)
        means = np.where(mass > 1e-8, G.T @ np.where(seen, X, 0.0) / mass, self.means)
        spread = [G[:, s] @ np.where(seen, (X - m) ** 2, 0.0) for s, m in enumerate(means)]
        floor = self.ridge * (_moments(X, G.sum(axis=1))[1].mean() or 1.0)
        return {"means": means, "variances": np.where(mass > 1e-8, np.array(spread) / mass, self.variances) + floor}


def _hits(x, gamma, n_symbols):
    """Expected number of times that each state emits each symbol."""
    out, known = np.zeros((gamma.shape[1], n_symbols)), x >= 0
    np.add.at(out.T, x[known], gamma[known])
    return out


def _shares(counts):
    return counts / counts.sum(axis=-1, keepdims=True)


def _frames(series, w):
    """All steps of all sequences, equal ones merged, with their weights."""
    width = {x.shape[1] for x in series if len(x)}
    if len(width) != 1:
        raise ValueError(f"the sequences have {sorted(width)} columns; expected the same number in all, and some steps")
    X = np.concatenate([x for x in series if len(x)])
    return _distinct(X, np.repeat(w, [len(x) for x in series]))


@model
class MarkovChain(Model):
    """A Markov chain of some order on sequences of symbols: p(x_t | the `order` symbols before).

    `transitions` (A^order, A) are fitted with a pseudo-count `smoothing`, or "uniform". The scores are unconstrained,
    count / probability: with uniform transitions and information="identity" the Fisher kernel is A^2 times the spectrum
    kernel of length order + 1. Symbols outside the alphabet break a sequence in two.
    """

    order: int = 1
    transitions: Any = None
    symbols: tuple | None = None
    smoothing: float = 1.0
    rows_kind = "objects"
    learned: ClassVar[tuple[str, ...]] = ("transitions", "symbols")

    def __post_init__(self):
        if isinstance(self.transitions, str) and self.transitions != "uniform":
            raise ValueError(f"MarkovChain(transitions={self.transitions!r}): expected an array or 'uniform'")
        for name in ("transitions", "symbols"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                kept = tuple(value) if name == "symbols" else np.array(value, dtype=np.float64)
                object.__setattr__(self, name, kept)
        if isinstance(self.symbols, str):
            object.__setattr__(self, "symbols", tuple(self.symbols))
        self.check()

    @property
    def fitted(self):
        return self.symbols is not None and isinstance(self.transitions, np.ndarray)

    def check(self):
        if not self.fitted:
            return
        size = len(self.symbols)
        if self.transitions.shape != (size**self.order, size):
            raise ValueError(f"transitions must have shape {(size**self.order, size)}, got {self.transitions.shape}")
        for p in self.transitions:
            _check_weights(p)

    def fit(self, rows, weight=None):
        tokens = validate.each_object(lambda x: _tokens(x, "MarkovChain"), rows)
        symbols = self.symbols or _alphabet(tokens)
        size = len(symbols)
        if size ** (self.order + 1) > 10**6:
            raise ValueError(
                f"order={self.order} over {size} symbols has {size ** (self.order + 1):.1e} parameters; use Spectrum"
            )
        even = self._with(symbols=symbols, transitions=np.full((size**self.order, size), 1.0 / size))
        if isinstance(self.transitions, str):
            return even
        w = np.ones(len(rows)) if weight is None else weight
        total = sum(wi * even._counted(x) for wi, x in zip(w, tokens, strict=True)) + self.smoothing
        return even._with(transitions=_shares(total.reshape(-1, size)))

    def _counted(self, x):
        """Occurrences of each string of order + 1 symbols."""
        size, width = len(self.symbols), int(self.order) + 1
        place: dict[Hashable, int] = {s: i for i, s in enumerate(self.symbols)}
        codes = np.array([place.get(s, -1) for s in _tokens(x, "MarkovChain")], dtype=np.int64)
        if len(codes) < width:
            return np.zeros(size**width)
        windows = np.lib.stride_tricks.sliding_window_view(codes, width)
        windows = windows[(windows >= 0).all(axis=1)]
        return np.bincount(windows @ size ** np.arange(width)[::-1], minlength=size**width).astype(np.float64)

    def _table(self, rows):
        return np.stack(list(validate.each_object(self._counted, rows)))

    def log_density(self, rows):
        counts = self._table(rows)
        logs = _log(self.transitions).ravel()
        return np.where(counts > 0, counts * np.where(np.isneginf(logs), -np.inf, logs), 0.0).sum(axis=1)

    def scores(self, rows):
        p = self.transitions.ravel()
        return np.where(p > 0, self._table(rows) / np.where(p > 0, p, 1.0), 0.0)

"""Hidden Markov models: recursions in log space, scores, and Baum-Welch."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from mercer import validate
from mercer.errors import NanError
from mercer.kernels.chains import alphabet, log, missing, shares, tokens
from mercer.kernels.models import Model, check_shares, model
from mercer.kernels.normals import LOG_2PI, Until, lloyd, mean_of, merged, moments
from mercer.random import generator

__all__ = ["HiddenMarkov", "steps"]

_CALL = 4_000_000  # pairs of states that one compiled call passes over: below 0.2 s


def steps(n, cost):
    """(from, to) of the parts of n steps, each step of so many pairs of states, that return to Python in time."""
    stride = max(1, _CALL // cost)
    return [(a, min(a + stride, n)) for a in range(0, n, stride)]


@model
class HiddenMarkov(Model):
    """A hidden Markov model. Rows are arrays (T, d) for "gaussian" emissions (with variances), sequences of symbols for
    "discrete" ones; NaN, and None among symbols, is a missing emission.

    Fitted by Baum-Welch on all rows, each weighted, until the mean log density gains no more than `tol` of itself.
    `smoothing` is a pseudo-count of each move and symbol; `ridge` times the mean variance is added to the variances. Scores
    are in logarithms of probabilities (softmax), in means, and in logarithms of variances; `theta="emissions"` leaves those
    of the chain out.
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
    max_iter: int = 200
    tol: float = 1e-4
    random_state: int = 0
    rows_kind = "objects"

    def __post_init__(self):
        if self.emissions not in ("gaussian", "discrete"):
            raise ValueError(f"HiddenMarkov(emissions={self.emissions!r}): expected 'gaussian' or 'discrete'")
        if self.theta not in ("all", "emissions"):
            raise ValueError(f"HiddenMarkov(theta={self.theta!r}): expected 'all' or 'emissions'")
        if self.table is not None and self.symbols is None:
            object.__setattr__(self, "symbols", tuple(range(np.shape(self.table)[1])))
        elif self.symbols is not None:
            object.__setattr__(self, "symbols", tokens(self.symbols, "HiddenMarkov(symbols=...)"))
        super().__post_init__()

    @property
    def learned(self):
        return ("start", "moves", *(("table",) if self.emissions == "discrete" else ("means", "variances")))

    def check(self):
        if not self.fitted:
            return
        k, given = len(self.start), {name: getattr(self, name).shape for name in self.learned}
        width = len(self.symbols) if self.emissions == "discrete" else self.means.shape[-1]
        if given != {"start": (k,), "moves": (k, k), **dict.fromkeys(self.learned[2:], (k, width))}:
            raise ValueError(f"HiddenMarkov: the shapes {given} do not fit {k} states with {width} symbols or columns")
        for p in [self.start, *self.moves, *(self.table if self.emissions == "discrete" else [])]:
            check_shares(p)
        if self.emissions == "gaussian" and self.variances.min() <= 0:
            raise ValueError(f"HiddenMarkov(variances=...) must be > 0; the smallest is {self.variances.min():g}")

    # -------------------------------------------------------------------------------------------------- rows
    def parse(self, x):
        """A row as codes (T,) of symbols, -1 missing and -2 unknown, or as an array (T, d) of numbers."""
        if self.emissions == "discrete":
            place = {s: i for i, s in enumerate(self.symbols)}
            read = tokens(x, "HiddenMarkov")
            return np.array([-1 if missing(s) else place.get(s, -2) for s in read], dtype=np.int64)
        return self._series(x)

    def _series(self, x):
        try:
            A = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"HiddenMarkov reads arrays (T, d) of numbers, got {type(x).__name__}") from None
        A = A[:, None] if A.ndim == 1 else A
        if x is None or A.ndim == 0:
            raise TypeError(f"HiddenMarkov reads arrays (T, d) of numbers, got {x!r}")
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
            known = np.hstack([log(self.table), np.full((len(self.table), 1), -np.inf), np.zeros((len(self.table), 1))])
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
        return log(self.start), np.ascontiguousarray(log(self.moves))

    def _forward(self, emission):
        """log p(x_0 .. x_t, z_t), (T, S), from log emissions."""
        from mercer.kernels import _compiled_hmm as loops

        (n, k), (start, move) = emission.shape, self.logs
        alpha = np.empty((n, k))
        for a, b in steps(n, k * k):
            loops.forward(emission, start, move, alpha, a, b)
        return alpha

    def posterior(self, emission):
        """(log density, p(z_t | x) of shape (T, S), expected moves (S, S)) from log emissions; zeros at density 0."""
        from mercer.kernels import _compiled_hmm as loops

        (n, k), (_, move), alpha = emission.shape, self.logs, self._forward(emission)
        beta, count, total = np.empty((n, k)), np.zeros((k, k)), _last(alpha)
        if np.isneginf(total):
            return total, np.zeros((n, k)), count
        for a, b in reversed(steps(n, k * k)):
            loops.backward(emission, move, beta, a, b)
        for a, b in steps(n - 1, k * k):
            loops.moves(emission, move, alpha, beta, total, count, a, b)
        return total, np.exp(alpha + beta - total), count

    def log_density(self, rows):
        parsed = validate.each_object(self.parse, rows)
        return np.array([_last(self._forward(self.log_emission(x))) for x in parsed])

    def scores(self, rows):
        return np.array([self._score(x) for x in validate.each_object(self.parse, rows)])

    def _score(self, x):
        _, gamma, count = self.posterior(self.log_emission(x))
        first = gamma[0] if len(gamma) else np.zeros(len(self.start))
        chain = [first - first.sum() * self.start, (count - count.sum(axis=1, keepdims=True) * self.moves).ravel()]
        return np.concatenate([*(chain if self.theta == "all" else []), *self._emission_score(x, gamma)])

    @property
    def n_scores(self):
        k = len(self.start)
        own = self.table.size if self.emissions == "discrete" else 2 * self.means.size
        return own + (k + k * k if self.theta == "all" else 0)

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
        begun = self._begin(rows, w)
        parsed = validate.each_object(begun.parse, rows)
        return Until("HiddenMarkov", self.max_iter, self.tol).climb(lambda found: found._step(parsed, w), begun)

    def _begin(self, rows, w):
        """A start: labels of k-means for numbers, near-uniform tables for symbols; all moves alike, staying preferred."""
        k, rng = int(self.n_states), generator(self.random_state)
        moves = (np.eye(k) + 1.0 / k) / 2.0
        chain = {"start": np.full(k, 1.0 / k), "moves": moves / moves.sum(axis=1, keepdims=True)}
        if self.emissions == "discrete":
            symbols = self.symbols or alphabet(validate.each_object(lambda x: tokens(x, "HiddenMarkov"), rows))
            table = 1.0 + rng.random((k, len(symbols)))
            return self._with(**chain, symbols=symbols, table=table / table.sum(axis=1, keepdims=True))
        series = validate.each_object(self._series, rows)
        frames, mass = _frames(series, w)
        mean, variance = moments(frames, mass)
        scale = variance + self.ridge * (variance.mean() or 1.0)
        label = lloyd(np.where(np.isnan(frames), 0.0, (frames - mean) / np.sqrt(scale)), mass, k, rng)
        means = [mean_of(frames, mass * (label == s), mean) for s in range(k)]
        return self._with(**chain, means=np.array(means), variances=np.repeat(scale[None], k, axis=0))

    def _step(self, parsed, w):
        """One step of Baum-Welch: the new model and the mean log density under the old one."""
        k = len(self.start)
        first, count, value, gammas = np.zeros(k), np.zeros((k, k)), 0.0, []
        for row, (x, weight) in enumerate(zip(parsed, w, strict=True)):
            total, gamma, moved = self.posterior(self.log_emission(x))
            if np.isneginf(total):
                raise NanError(
                    f"row {row} has density 0 during the fit; rescale the columns, or raise smoothing or ridge"
                )
            value += weight * total
            count += weight * moved
            first += weight * gamma[0] if len(gamma) else 0.0
            gammas.append(weight * gamma)
        start, moves = shares(first + self.smoothing), shares(count + self.smoothing)
        return self._with(start=start, moves=moves, **self._emit(parsed, gammas)), value / w.sum()

    def _emit(self, parsed, gammas):
        if self.emissions == "discrete":
            hits = sum(_hits(x, g, len(self.symbols)) for x, g in zip(parsed, gammas, strict=True))
            return {"table": shares(hits + self.smoothing)}
        X, G = np.concatenate(list(parsed)), np.concatenate(gammas)
        seen = ~np.isnan(X)
        mass = np.maximum(G.T @ seen, 1e-300)
        means = np.where(mass > 1e-8, G.T @ np.where(seen, X, 0.0) / mass, self.means)
        spread = [G[:, s] @ np.where(seen, (X - m) ** 2, 0.0) for s, m in enumerate(means)]
        floor = self.ridge * (moments(X, G.sum(axis=1))[1].mean() or 1.0)
        return {"means": means, "variances": np.where(mass > 1e-8, np.array(spread) / mass, self.variances) + floor}


def _last(alpha):
    """The log density at the end of a forward recursion; a sequence of no steps is certain."""
    return logsumexp(alpha[-1]) if len(alpha) else 0.0


def _hits(x, gamma, n_symbols):
    """Expected number of times that each state emits each symbol."""
    out, known = np.zeros((gamma.shape[1], n_symbols)), x >= 0
    np.add.at(out.T, x[known], gamma[known])
    return out


def _frames(series, w):
    """All steps of all sequences, equal ones merged, with their weights."""
    width = {x.shape[1] for x in series if len(x)}
    if len(width) != 1:
        raise ValueError(f"the sequences have {sorted(width)} columns; expected the same number in all, and some steps")
    X = np.concatenate([x for x in series if len(x)])
    return merged(X, np.repeat(w, [len(x) for x in series]))

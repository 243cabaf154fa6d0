"""Markov chains on sequences of symbols, and how such sequences are read."""

from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np

from mercer import validate
from mercer.kernels.digest import owned
from mercer.kernels.models import Model, check_shares, model

__all__ = ["MarkovChain", "alphabet", "log", "missing", "shares", "tokens"]


def log(p):
    """Logarithms, -inf of 0."""
    with np.errstate(divide="ignore"):
        return np.log(p)


def tokens(x, who):
    """A sequence of symbols as a tuple."""
    if isinstance(x, np.ndarray) and x.ndim == 1:
        x = x.tolist()
    if not isinstance(x, (str, bytes, tuple, list)):
        raise TypeError(f"{who} reads sequences of symbols (strings, lists, 1-D arrays), got {type(x).__name__}")
    try:
        frozenset(x)
    except TypeError as error:
        raise TypeError(f"{who} reads symbols such as letters, words or numbers; {error}") from None
    return tuple(x)


def alphabet(sequences):
    """Symbols in an order that the data alone decide."""
    found = {s for x in sequences for s in x if not missing(s)}
    if not found:
        raise ValueError("the sequences hold no symbol; expected at least one")
    return tuple(sorted(found, key=lambda s: (type(s).__name__, s if isinstance(s, (int, float)) else 0, repr(s))))


def missing(symbol):
    """Whether a symbol is a gap: None or NaN."""
    return symbol is None or (isinstance(symbol, float) and symbol != symbol)


def shares(counts):
    """Counts divided by their sums along the last axis."""
    return counts / counts.sum(axis=-1, keepdims=True)


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
        if isinstance(self.order, bool) or self.order != int(self.order) or self.order < 0:
            raise ValueError(f"MarkovChain(order={self.order!r}): expected a whole number >= 0")
        if isinstance(self.transitions, str):
            if self.transitions != "uniform":
                raise ValueError(f"MarkovChain(transitions={self.transitions!r}): expected an array or 'uniform'")
        elif self.transitions is not None:
            object.__setattr__(self, "transitions", owned(np.array(self.transitions, dtype=np.float64)))
        if self.symbols is not None:
            object.__setattr__(self, "symbols", tokens(self.symbols, "MarkovChain(symbols=...)"))
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
            check_shares(p)

    def fit(self, rows, weight=None):
        sequences = validate.each_object(lambda x: tokens(x, "MarkovChain"), rows)
        symbols = self.symbols or alphabet(sequences)
        size = len(symbols)
        if size ** (self.order + 1) > 10**6:
            count = f"{size ** (self.order + 1):.1e}"
            raise ValueError(f"order={self.order} over {size} symbols has {count} parameters; use Spectrum")
        even = self._with(symbols=symbols, transitions=np.full((size**self.order, size), 1.0 / size))
        if isinstance(self.transitions, str):
            return even
        w = np.ones(len(rows)) if weight is None else weight
        total = sum(wi * even._counted(x) for wi, x in zip(w, sequences, strict=True)) + self.smoothing
        return even._with(transitions=shares(total.reshape(-1, size)))

    def _counted(self, x):
        """Occurrences of each string of order + 1 symbols."""
        size, width = len(self.symbols), int(self.order) + 1
        place: dict[Hashable, int] = {s: i for i, s in enumerate(self.symbols)}
        codes = np.array([place.get(s, -1) for s in tokens(x, "MarkovChain")], dtype=np.int64)
        if len(codes) < width:
            return np.zeros(size**width)
        windows = np.lib.stride_tricks.sliding_window_view(codes, width)
        windows = windows[(windows >= 0).all(axis=1)]
        return np.bincount(windows @ size ** np.arange(width)[::-1], minlength=size**width).astype(np.float64)

    def _table(self, rows):
        return np.stack(list(validate.each_object(self._counted, rows)))

    def log_density(self, rows):
        counts = self._table(rows)
        logs = log(self.transitions).ravel()
        return np.where(counts > 0, counts * np.where(np.isneginf(logs), -np.inf, logs), 0.0).sum(axis=1)

    def scores(self, rows):
        p = self.transitions.ravel()
        return np.where(p > 0, self._table(rows) / np.where(p > 0, p, 1.0), 0.0)

    @property
    def n_scores(self):
        return self.transitions.size

"""Strings as whole numbers: their letters, and exact codes of the words in them."""

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.kernels.base import FeatureKernel
from mercer.kernels.digest import digest
from mercer.kernels.vocabulary import feature_names, projected

__all__ = [
    "NamedFeatures",
    "Pattern",
    "Text",
    "WordVocabulary",
    "count_words",
    "spelled",
    "summed",
    "symbols",
    "word_matrix",
]

_BYTES = 0x110000  # bytes stand behind the last Unicode character: b"a" is another letter than "a"
_FULL = 2**62  # codes stay below


class NamedFeatures(FeatureKernel):
    """Explicit features by `count_matrix`; those of one object follow from it."""

    def counts(self, x):
        """Features of one object: a dict from names to values."""
        rows = validate.objects([x])
        matrix, _, vocabulary = self._resolved(rows, None).count_matrix(rows)
        return dict(zip(feature_names(vocabulary, matrix.indices), matrix.data.tolist(), strict=True))


# ---------------------------------------------------------------------------------------------- letters
def symbols(x, who) -> np.ndarray:
    """Whole numbers for the letters of a string or of bytes (int32), or for the tokens of a sequence (int64)."""
    if isinstance(x, str):
        return np.frombuffer(x.encode("utf-32-le", "surrogatepass"), "<i4").astype(np.int32, copy=False)
    if isinstance(x, (bytes, bytearray)):
        return np.frombuffer(x, np.uint8) + np.int32(_BYTES)
    if isinstance(x, (list, tuple)) or (isinstance(x, np.ndarray) and x.ndim == 1):
        return np.fromiter(map(_symbol, x), np.int64, len(x))
    raise TypeError(
        f"{who} reads strings, got {type(x).__name__}: {str(x)[:40]!r}; pass str, bytes or sequences of tokens"
    )


def _symbol(token):
    try:
        return _number(token)
    except TypeError:
        raise TypeError(
            f"a token must be a string, bytes or a number, got {type(token).__name__}: {str(token)[:40]!r}"
        ) from None


@lru_cache(maxsize=1 << 16, typed=True)
def _number(token):
    """A negative number of 63 bits of a digest: the same in every row and every call, without a vocabulary."""
    if isinstance(token, numbers.Real) and token == token and not isinstance(token, bool):
        whole = isinstance(token, numbers.Integral) or float(token).is_integer()
        token = ("number", str(int(token)) if whole else float(token).hex())
    elif not isinstance(token, (str, bytes, tuple, bool, np.bool_)):
        raise TypeError
    return -1 - (int.from_bytes(digest(token)[:8], "little") >> 1)


@dataclass(frozen=True)
class Text:
    """The rows of one side, one after another: row i has the symbols bounds[i] ... bounds[i + 1]."""

    objects: np.ndarray
    symbols: np.ndarray
    bounds: np.ndarray

    @classmethod
    def of(cls, objects, who) -> "Text":
        rows = validate.each_object(partial(symbols, who=who), objects)
        bounds = np.concatenate([[0], np.cumsum([len(r) for r in rows], dtype=np.int64)])
        return cls(objects, np.concatenate(list(rows)) if len(rows) else np.empty(0, np.int64), bounds)

    @cached_property
    def ranks(self):
        """(letters in order, the place of each symbol among them)."""
        s = self.symbols
        low, high = (int(s.min()), int(s.max())) if len(s) else (0, 0)
        return _rank(s, high - low + 1, low)

    def starts(self, span):
        """Places where a word of this span begins within its row, and how many each row has."""
        counts = np.maximum(np.diff(self.bounds) - span + 1, 0)
        first = np.repeat(self.bounds[:-1] - np.cumsum(counts) + counts, counts)
        return first + np.arange(len(first)), counts

    def at(self, start):
        """(the object, the place in it) of a place in the text."""
        row = int(np.searchsorted(self.bounds, start, "right")) - 1
        return self.objects[row], int(start - self.bounds[row])


class Pattern(NamedTuple):
    """The places of a word's letters within a window."""

    offsets: tuple
    span: int

    @classmethod
    def solid(cls, k) -> "Pattern":
        return cls(tuple(range(k)), k)


def spelled(text, pattern, start):
    """The word as the user wrote it; an open place of the window shows as a dot, of tokens as None."""
    x, place = text.at(start)
    window, shown = x[place : place + pattern.span], set(pattern.offsets)
    if isinstance(x, (bytes, bytearray)):
        return bytes(c if j in shown else ord(".") for j, c in enumerate(window))
    if isinstance(x, str):
        return "".join(c if j in shown else "." for j, c in enumerate(window))
    return tuple(c if j in shown else None for j, c in enumerate(window))


# ---------------------------------------------------------------------------------------------- words
def _rank(values, size, low=0):
    """(distinct values in order, the place of each among them) for values of low ... low + size - 1."""
    if size > max(4 * len(values), 1 << 16):
        return np.unique(values, return_inverse=True)
    seen, at = np.zeros(size, bool), values - low if low else values
    seen[at] = True
    return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[at]


class _Words:
    """Distinct words of one pattern, by exact codes: digits in the number system of the letters.

    Where 62 bits do not hold all digits, the codes of the first ones are replaced by their ranks.
    """

    def __init__(self, text, starts, pattern):
        (self.letters, ranks), self.offsets, self._tables = text.ranks, pattern.offsets, []
        code, size = self._coded(ranks, starts, self._learned)
        self.codes, self.ids = _rank(code, size)

    def __len__(self):
        return len(self.codes)

    def _coded(self, ranks, starts, shortened):
        base = max(len(self.letters), 1)
        code, size = ranks[starts + self.offsets[0]], base
        for offset in self.offsets[1:]:
            if size * base > _FULL:
                code, size = shortened(code, size)
            code, size = code * base + ranks[starts + offset], size * base
        return code, size

    def _learned(self, code, size):
        table, code = _rank(code, size)
        self._tables.append(table)
        return code, max(len(table), 1)

    def find(self, text, starts):
        """The numbers of the words of another text, -1 for those that are not here."""
        letters, ranks = text.ranks
        place, known = _places(self.letters, letters)
        unknown = np.zeros(len(starts), bool)
        for offset in self.offsets:
            unknown |= ~known[ranks[starts + offset]]
        tables = iter(self._tables)

        def shortened(code, size):
            table = next(tables)
            rank, there = _places(table, code)
            np.logical_or(unknown, ~there, out=unknown)
            return rank, max(len(table), 1)

        code, _ = self._coded(place[ranks], starts, shortened)
        found, there = _places(self.codes, code)
        return np.where(there & ~unknown, found, -1)


def _places(table, values):
    """(places of values in an ordered table, whether they are there)."""
    if not len(table):
        return np.zeros(len(values), np.int64), np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(table, values), len(table) - 1)
    return at, table[at] == values


def count_words(text, pattern):
    """(the distinct words, CSR of their counts in each row, where each stands first)."""
    starts, per_row = text.starts(pattern.span)
    words = _Words(text, starts, pattern)
    ids, words.ids = words.ids, None  # as many as there are letters: not kept
    first = np.empty(len(words), np.int64)
    first[ids[::-1]] = starts[::-1]
    return words, summed(np.ones(len(ids)), ids, per_row, len(words)), first


def summed(values, ids, per_row, width):
    """CSR of entries given row by row; equal places are added."""
    indptr = np.concatenate([[0], np.cumsum(per_row)])
    matrix = sp.csr_array((values, ids, indptr), shape=(len(per_row), max(width, 1)))
    matrix = matrix.tocsc().tocsr()  # to columns and back: sorted in linear time
    matrix.sum_duplicates()
    return matrix


@dataclass(frozen=True)
class WordVocabulary:
    """Columns of a matrix of words: pattern by pattern, in the order of their codes. `spell(pattern, place)` names one."""

    words: list
    firsts: list
    spell: Callable

    def __len__(self):
        return sum(map(len, self.words))

    def names(self, columns) -> list:
        ends = np.cumsum([len(w) for w in self.words])
        which = np.searchsorted(ends, columns, "right")
        return [self.spell(p, self.firsts[p][j - ends[p]]) for p, j in zip(which, columns, strict=True)]


def word_matrix(text, patterns, weights, vocabulary=None):
    """`FeatureKernel.count_matrix` for all words of some patterns, a feature being sqrt(weight) times a count."""
    words, counts, firsts = zip(*(count_words(text, p) for p in patterns), strict=True)
    norms = sum(w * np.asarray(c.power(2).sum(axis=1)).ravel() for w, c in zip(weights, counts, strict=True))
    if vocabulary is None:
        vocabulary = WordVocabulary(words, firsts, lambda p, start: spelled(text, patterns[p], start))
    else:
        found = [w.find(text, first) for w, first in zip(vocabulary.words, firsts, strict=True)]
        widths = map(len, vocabulary.words)
        counts = [projected(c[:, : len(f)], f, n) for c, f, n in zip(counts, found, widths, strict=True)]
    blocks = [c if w == 1.0 else c * np.sqrt(w) for w, c in zip(weights, counts, strict=True)]
    return (blocks[0] if len(blocks) == 1 else _beside(blocks, vocabulary)), norms, vocabulary


def _beside(blocks, vocabulary):
    """Blocks side by side; one without words has a column all the same, which goes."""
    widths = [len(w) for w in vocabulary.words]
    kept = [b for b, n in zip(blocks, widths, strict=True) if n]
    return sp.csr_array(sp.hstack(kept)) if kept else blocks[0]

"""Kernels on strings: str, bytes, or sequences of tokens. Explicit sparse features where there are any, else pair by pair."""

from itertools import combinations, product
from typing import Annotated, Any

import numpy as np

from mercer import validate
from mercer.kernels.base import PairKernel, frozen
from mercer.kernels.parameters import Count, Natural, Spec
from mercer.kernels.suffixes import common_prefixes
from mercer.kernels.validity import certificate
from mercer.kernels.vocabulary import projected
from mercer.kernels.words import (
    NamedFeatures,
    Pattern,
    Text,
    WordVocabulary,
    count_words,
    summed,
    symbols,
    word_matrix,
)
from mercer.registry import register

__all__ = [
    "AllSubstrings",
    "BagOfCharacters",
    "BlendedSpectrum",
    "GappedKmer",
    "GappySubsequence",
    "Mismatch",
    "Spectrum",
    "WeightedDegree",
]

Decay = Annotated[Any, Spec(low=0.0, open_low=True, high=1.0)]
Longest = Annotated[Any, Spec(low=1, integer=True, optional=True)]

_NEIGHBOURS = 1 << 26  # letters of all the words that mismatches may make
_LETTERS = 1 << 20  # of one side whose suffixes are put in order at once
_STEPS = 2e7  # steps of a recursion between two returns


# ---------------------------------------------------------------------------------------------- explicit features
class _WordKernel(NamedFeatures):
    """Inner product of the counts of words: subclasses give their patterns and weights."""

    def _patterns(self):
        raise NotImplementedError

    def _weights(self):
        return [1.0] * len(self._patterns())

    def count_matrix(self, objects, vocabulary=None):
        text = Text.of(objects, type(self).__name__)
        return word_matrix(text, self._patterns(), self._weights(), vocabulary)


@register
@frozen
class Spectrum(_WordKernel):
    """k-spectrum kernel (S5): the inner product of the counts of all substrings of length k. Leslie et al. (2002).

    >>> float(Spectrum(2)(["abab"], ["abba"])[0, 0])  # ab: 2 * 1, ba: 1 * 1
    3.0
    """

    k: Natural = 3

    def _patterns(self):
        return [Pattern.solid(int(self.k))]


@register
@frozen
class BlendedSpectrum(_WordKernel):
    """Blended spectrum kernel (S5): the sum over j = 1 ... k of decay^j times the j-spectrum kernel.

    Shawe-Taylor & Cristianini (2004), section 11.2.

    >>> float(BlendedSpectrum(2, 0.25)(["abab"], ["abba"])[0, 0])  # 8/4 + 3/16
    2.1875
    """

    k: Natural = 3
    decay: Decay = 1.0
    not_differentiable = ("decay",)

    def _patterns(self):
        return [Pattern.solid(j) for j in range(1, int(self.k) + 1)]

    def _weights(self):
        return [float(self.decay) ** j for j in range(1, int(self.k) + 1)]


@register
@frozen
class BagOfCharacters(_WordKernel):
    """Bag of characters (S4): the inner product of the counts of single letters.

    >>> float(BagOfCharacters()(["abab"], ["abba"])[0, 0])
    8.0
    """

    def _patterns(self):
        return [Pattern.solid(1)]


@register
@frozen
class GappedKmer(_WordKernel):
    """Gapped k-mers (S6): counts of k letters in windows of k + gaps, `gaps` places of the window being left open.

    Every choice of the open places is a feature of its own. Without gaps it is the spectrum kernel. Ghandi et al. (2014).

    >>> float(GappedKmer(2, 1)(["abc"], ["axc"])[0, 0])  # a.c
    1.0
    """

    k: Natural = 3
    gaps: Count = 1

    def _patterns(self):
        span = int(self.k) + int(self.gaps)
        return [Pattern(offsets, span) for offsets in combinations(range(span), int(self.k))]


@register
@frozen
class Mismatch(NamedFeatures):
    """(k, m)-mismatch kernel (S6): every substring of length k counts for all words that differ from it in at most m letters.

    The letters that may stand in for others are those of `alphabet`, by default those of the rows that the kernel is resolved
    on. A letter outside it stands for itself. Leslie et al. (2004).

    >>> float(Mismatch(2, 1, alphabet="ab")(["aa"], ["ab"])[0, 0])  # aa and ab
    2.0
    """

    k: Natural = 3
    m: Count = 1
    alphabet: Any = None

    def check(self):
        if self.m > self.k:
            raise ValueError(f"Mismatch(k={self.k!r}, m={self.m!r}): words of k letters have at most k mismatches")
        if self.alphabet is not None:
            symbols(self.alphabet, "Mismatch(alphabet=...)")

    def _resolved(self, rows, weight):
        return self if self.alphabet is not None else self._with(alphabet=_letters_of(validate.objects(rows)))

    def count_matrix(self, objects, vocabulary=None):
        text, pattern = Text.of(objects, "Mismatch"), Pattern.solid(int(self.k))
        own, counts, first = count_words(text, pattern)
        windows = text.symbols[first[:, None] + np.arange(pattern.span)].astype(np.int64)
        owner, variants = self._neighbours(windows)
        near = Text(variants, variants.ravel(), np.arange(len(variants) + 1) * pattern.span)
        words, met, first = count_words(near, pattern)
        spread = counts[:, : len(own)] @ summed(
            met.data, met.indices, np.bincount(owner, minlength=len(own)), len(words)
        )
        norms = np.asarray(spread.power(2).sum(axis=1)).ravel()
        if vocabulary is None:
            return spread, norms, WordVocabulary([words], [first], self._speller(text, near))
        found = vocabulary.words[0].find(near, first)
        return projected(spread[:, : len(found)], found, len(vocabulary)), norms, vocabulary

    def _neighbours(self, windows):
        """(which word, the words that differ in at most m letters), word by word."""
        letters = np.unique(symbols(self.alphabet, "Mismatch"))
        n, k = windows.shape
        shapes = [places for i in range(int(self.m) + 1) for places in combinations(range(k), i)]
        total = n * k * sum(len(letters) ** len(places) for places in shapes)
        if total > _NEIGHBOURS:
            raise ValueError(
                f"{self!r}: {n} words of {k} letters have about {total // k:.2g} neighbours over {len(letters)} letters; "
                "take a smaller m or k, or GappedKmer"
            )
        owners, found = [], []
        for places in shapes:
            shape = len(letters) ** len(places), len(places)
            stand_ins = np.array(list(product(letters, repeat=len(places))), np.int64).reshape(shape)
            made = np.repeat(windows[:, None], len(stand_ins), axis=1)
            made[:, :, np.array(places, int)] = stand_ins
            which, variant = np.nonzero((made != windows[:, None]).sum(axis=2) == len(places))
            owners.append(which)
            found.append(made[which, variant])
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return owner[order], np.concatenate(found)[order]

    def _speller(self, text, near):
        """Names of words that may stand nowhere in the rows."""
        letters = dict(zip(symbols(self.alphabet, "Mismatch").tolist(), _pieces(self.alphabet), strict=True))
        whole = "" if isinstance(self.alphabet, str) else b"" if isinstance(self.alphabet, bytes) else None

        def letter(symbol):
            if symbol not in letters:
                x, place = text.at(int(np.flatnonzero(text.symbols == symbol)[0]))
                letters[symbol] = x[place : place + 1] if isinstance(x, (str, bytes)) else x[place]
            return letters[symbol]

        def spell(_, start):
            word = [letter(s) for s in near.symbols[start : start + int(self.k)].tolist()]
            return tuple(word) if whole is None else whole.join(word)

        return spell


def _pieces(alphabet):
    """Letters as strings of length 1, also those of bytes."""
    return [alphabet[i : i + 1] for i in range(len(alphabet))] if isinstance(alphabet, bytes) else list(alphabet)


def _letters_of(objects):
    """The letters of all rows in order: a string, bytes, or a tuple of tokens."""
    Text.of(objects, "Mismatch")  # refuses what is no string, by its row
    kinds = {str if isinstance(x, str) else bytes if isinstance(x, (bytes, bytearray)) else tuple for x in objects}
    if len(kinds) > 1:
        names = sorted(kind.__name__ for kind in kinds)
        raise TypeError(
            f"Mismatch reads rows of one kind, got {' and '.join(names)}; give an alphabet, or convert them"
        )
    kind = kinds.pop()
    found = set().union(*map(set, objects))
    if kind is tuple:
        return tuple(sorted(found, key=lambda v: (type(v).__name__, v)))
    return "".join(sorted(found)) if kind is str else bytes(sorted(found))


# ---------------------------------------------------------------------------------------------- pair by pair
class _StringPairs(PairKernel):
    """Pairs of strings as arrays of symbols."""

    reads_objects = True

    def parse(self, x):
        return symbols(x, type(self).__name__).astype(np.int64)

    @property
    def validity(self):
        return certificate("psd", f"{type(self).__name__} is an inner product of weighted counts of substrings")


def _key(s):
    """By length, then by content. What is computed of strings in this order is the same for (x, y) and (y, x) to the last bit."""
    return len(s), s.tobytes()


@register
@frozen
class AllSubstrings(_StringPairs):
    """All substrings (S3): the sum of decay^|u| times the counts of u in both strings over all substrings u.

    Only lengths from `shortest` to `longest` count. The suffix array of the strings gives it in time linear in their lengths.
    Vishwanathan & Smola (2003).

    >>> float(AllSubstrings()(["abab"], ["abba"])[0, 0])  # a: 4, b: 4, ab: 2, ba: 1
    11.0
    """

    decay: Decay = 1.0
    shortest: Natural = 1
    longest: Longest = None
    not_differentiable = ("decay",)

    def check(self):
        if self.longest is not None and self.longest < self.shortest:
            raise ValueError(
                f"AllSubstrings(shortest={self.shortest!r}, longest={self.longest!r}): no length is between them"
            )

    def parse(self, x):
        return symbols(x, "AllSubstrings")

    def block(self, xs, ys):
        out = np.zeros((len(xs), len(ys)))
        for i in _some(xs):
            for j in _some(ys):
                out[i, j] = self._shared(xs[i], ys[j])
        return out

    def _shared(self, xs, ys):
        """All strings of both sides at once: what they share costs little beside putting their suffixes in order."""
        of_x, of_y = ([_key(s) for s in side] for side in (xs, ys))
        strings = dict(zip([*of_x, *of_y], [*xs, *ys], strict=True))
        place = {key: u for u, key in enumerate(sorted(strings))}
        ordered = [strings[key] for key in place]
        K = common_prefixes(ordered, self._cumulated(len(ordered[-1])))
        return K[np.ix_([place[k] for k in of_x], [place[k] for k in of_y])]

    def _cumulated(self, n):
        """Sums of the weights of the lengths 0 ... l for l up to n."""
        weight = np.arange(n + 1.0)
        np.power(float(self.decay), weight, out=weight)
        weight[: int(self.shortest)] = 0.0
        if self.longest is not None:
            weight[int(self.longest) + 1 :] = 0.0
        return np.cumsum(weight, out=weight)


def _some(strings):
    """Slices of strings that have at most _LETTERS letters together, or are one string."""
    ends, first = np.cumsum([len(s) for s in strings]), 0
    while first < len(strings):
        before = ends[first - 1] if first else 0
        stop = max(int(np.searchsorted(ends, before + _LETTERS, "right")), first + 1)
        yield slice(first, stop)
        first = stop


@register
@frozen
class GappySubsequence(_StringPairs):
    """Gappy subsequence kernel (S7): common subsequences of `length` letters, weighted by decay to their spans in both strings.

    Lodhi et al. (2002). The time is length times the product of the lengths of a pair.

    >>> float(GappySubsequence(2, 0.5)(["cat"], ["car"])[0, 0])  # ca: decay^4
    0.0625
    """

    length: Natural = 3
    decay: Decay = 0.5
    not_differentiable = ("decay",)

    def block(self, xs, ys):
        pairs = [[sorted((x, y), key=_key) for y in ys] for x in xs]
        return np.array([[self._value(s, t) for s, t in row] for row in pairs]).reshape(len(xs), len(ys))

    def _value(self, s, t):
        from mercer.kernels import _compiled_strings as c

        if len(s) < self.length:
            return 0.0
        prefix = np.zeros((int(self.length), len(t) + 1))
        prefix[0] = 1.0
        step = max(int(_STEPS / (len(t) * len(prefix))), 1)
        pieces = (c.gappy(s, i, min(i + step, len(s)), t, float(self.decay), prefix) for i in range(0, len(s), step))
        return sum(pieces)


@register
@frozen
class WeightedDegree(_StringPairs):
    """Weighted degree kernel: the number of places where both strings have the same d letters, summed over d = 1 ... degree.

    The weight of d is 2 (degree - d + 1)/(degree (degree + 1)). The strings must be of equal length. Raetsch & Sonnenburg (2004).

    >>> round(float(WeightedDegree(2)(["acgt"], ["acct"])[0, 0]), 12)  # a, c and t at 2/3, ac at 1/3
    2.333333333333
    """

    degree: Natural = 3

    def block(self, xs, ys):
        from mercer.kernels import _compiled_strings as c

        lengths = {len(s) for side in (xs, ys) for s in side}
        if len(lengths) > 1:
            raise ValueError(
                f"WeightedDegree compares place by place: strings must be of equal length, got {min(lengths)} and "
                f"{max(lengths)}; cut or align them, or use Spectrum"
            )
        Y, value = np.array(list(ys), np.int64), self._runs(max(lengths, default=0))
        out = np.zeros((len(xs), len(ys)))
        for x, row in zip(xs, out, strict=True):
            c.equal_runs(x, Y, value, row)
        return out

    def _runs(self, n):
        """What a run of r equal places is worth, for r up to n: it holds r - d + 1 words of length d."""
        weight, degree = np.zeros(n + 1), int(self.degree)
        d = np.arange(1, min(degree, n) + 1)
        weight[d] = 2.0 * (degree - d + 1) / (degree * (degree + 1))
        return np.cumsum(np.cumsum(weight))

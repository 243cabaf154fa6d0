"""Kernels on documents: counts of words and TF-IDF, on scikit-learn's analysers of text."""

import numbers
import re
import threading
from array import array
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.kernels.base import frozen
from mercer.kernels.digest import FrozenArray, owned
from mercer.kernels.parameters import Flag
from mercer.kernels.vocabulary import projected
from mercer.kernels.words import NamedFeatures, summed
from mercer.registry import register

__all__ = ["BagOfWords", "TfIdf"]

_WORDS = r"(?u)\b\w+\b"  # scikit-learn's own leaves out words of one letter


class _Documents(NamedFeatures):
    """Rows are texts, bytes in UTF-8, or sequences of tokens, which are taken as the words."""

    analyzer: Any
    ngram_range: Any
    stop_words: Any
    lowercase: Any
    token_pattern: str

    def check(self):
        object.__setattr__(self, "stop_words", owned(self.stop_words))
        self._check_range()
        self._analyse()  # scikit-learn refuses what it cannot read

    def _check_range(self):
        given = self.ngram_range
        pair = (
            isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(n, numbers.Integral) for n in given)
        )
        if not pair or not 1 <= given[0] <= given[1]:
            raise ValueError(
                f"{type(self).__name__}(ngram_range={given!r}): expected two whole numbers, the smallest and the largest "
                "number of words that make one feature, such as (1, 2)"
            )

    @property
    def _settings(self):
        return self.analyzer, tuple(self.ngram_range), self.stop_words, self.lowercase, self.token_pattern

    def _analyse(self) -> Callable:
        name = type(self).__name__
        try:
            return _analyser(*self._settings)
        except re.error as error:
            raise ValueError(
                f"{name}(token_pattern={self.token_pattern!r}): not a regular expression: {error}"
            ) from error
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        except TypeError as error:  # a list of stop words has no hash
            if "unhashable" not in str(error):
                raise TypeError(f"{name}: {error}") from error
            return _analyser.__wrapped__(*self._settings)

    def _counted(self, objects):
        """CSR of the counts of words, and the words: those of all rows, in order of appearance."""
        analyse, name = self._analyse(), type(self).__name__
        places: defaultdict = defaultdict()
        places.default_factory = places.__len__
        ids, place = array("q"), places.__getitem__

        def count(document):
            words = analyse(document, name)
            ids.extend(map(place, words))
            return len(words)

        per_row = validate.each_object(count, objects).astype(np.int64)
        return summed(np.ones(len(ids)), np.frombuffer(ids, np.int64), per_row, len(places)), dict(places)


class _Resolved(NamedTuple):
    """What a kernel counted when it was resolved: its first use, on the same documents, need not count again."""

    settings: tuple
    objects: Any
    found: tuple

    def matches(self, settings, objects):
        """Texts do not change, so the same objects have the same words; lists of tokens may have changed."""
        same = settings == self.settings and len(objects) == len(self.objects)
        return same and all(a is b and isinstance(a, (str, bytes)) for a, b in zip(objects, self.objects, strict=True))


_last = threading.local()


@lru_cache(maxsize=64)
def _analyser(analyzer, ngram_range, stop_words, lowercase, token_pattern):
    """A function from a document to its words."""
    from sklearn.feature_extraction.text import CountVectorizer

    settings = {"ngram_range": ngram_range, "stop_words": stop_words if analyzer == "word" else None}
    vectorizer = CountVectorizer(analyzer=analyzer, lowercase=lowercase, token_pattern=token_pattern, **settings)
    vectorizer._validate_params()
    of_text, of_tokens = vectorizer.build_analyzer(), CountVectorizer(analyzer="word", **settings)._word_ngrams
    dropped = vectorizer.get_stop_words()

    def analyse(document, name):
        if isinstance(document, (str, bytes)) or callable(analyzer):
            return of_text(_decoded(document))
        if isinstance(document, (list, tuple)) or (isinstance(document, np.ndarray) and document.ndim == 1):
            return of_tokens([str(token) for token in document], dropped)
        raise TypeError(
            f"{name} reads documents, got {type(document).__name__}: {str(document)[:40]!r}; pass texts or tokens"
        )

    return analyse


def _decoded(document):
    try:
        return document.decode() if isinstance(document, bytes) else document
    except UnicodeDecodeError as error:
        raise ValueError(f"bytes that are not UTF-8 ({error}); decode them first") from error


@register
@frozen
class BagOfWords(_Documents):
    """Bag of words (S1, S4): the inner product of the counts of words, or of n-grams of words. Its cosine is `.normalise()`.

    The parameters are those of scikit-learn's `CountVectorizer`; every word counts, also one of a single letter.

    >>> float(BagOfWords()(["to be or not to be"], ["be or be not"])[0, 0])  # be: 2 * 2, or: 1, not: 1
    6.0
    """

    analyzer: Any = "word"
    ngram_range: Any = (1, 1)
    stop_words: Any = None
    lowercase: Flag = True
    token_pattern: str = _WORDS

    def count_matrix(self, objects, vocabulary=None):
        counts, words = self._counted(objects)
        norms = np.asarray(counts.power(2).sum(axis=1)).ravel()
        if vocabulary is None:
            return counts, norms, words
        return projected(counts[:, : len(words)], _found(words, vocabulary), len(vocabulary)), norms, vocabulary


def _found(words, vocabulary):
    return np.fromiter((vocabulary.get(word, -1) for word in words), np.int64, len(words))


@register
@frozen
class TfIdf(_Documents):
    """TF-IDF (S2): the cosine of the vectors log(1 + count) idf(word); a document with a zero vector has k = 0 with all others.

    `smooth=True` has idf = log((1 + N)/(1 + df)) + 1. `smooth=False` has log(N/(1 + df)): 0 for a word in all documents but one,
    and negative for a word in all of them, which the kernel squares. N and the document frequencies df are those of the rows
    that the kernel is resolved on; weights count as repetitions. A word that is new has df = 0, and counts in the norm.

    >>> texts = ["the cat sat", "the dog sat", "a bird"]
    >>> TfIdf()(texts).round(2).tolist()
    [[1.0, 0.54, 0.0], [0.54, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    smooth: Flag = True
    cosine: Flag = True
    analyzer: Any = "word"
    ngram_range: Any = (1, 1)
    stop_words: Any = None
    lowercase: Flag = True
    token_pattern: str = _WORDS
    words: Any = None
    frequencies: Any = None
    n_documents: Any = None

    def check(self):
        super().check()
        learned = self.words, self.frequencies, self.n_documents
        if (self.words is None) != all(value is None for value in learned):
            raise ValueError(
                "TfIdf: words, frequencies and n_documents are learned together by resolve(X); leave them out"
            )
        if self.words is not None and not _fit_together(*learned):
            raise ValueError(
                "TfIdf(words=..., frequencies=..., n_documents=...): expected as many frequencies from 0 to n_documents as "
                "words; let resolve(X) learn them"
            )

    def _resolved(self, rows, weight):
        if self.words is not None:
            return self
        objects = validate.objects(rows)
        counts, words = found = self._counted(objects)
        _last.resolved = _Resolved(self._settings, objects, found)
        w = np.ones(counts.shape[0]) if weight is None else weight
        frequencies = (w @ (counts > 0).astype(float))[: len(words)]
        names = np.empty(len(words), object)
        names[:] = list(words)
        return self._with(words=FrozenArray(names), frequencies=FrozenArray(frequencies), n_documents=float(w.sum()))

    def count_matrix(self, objects, vocabulary=None):
        if self.words is None:
            raise ValueError(f"{self!r} has no document frequencies yet; call resolve(X)")
        before = vars(_last).pop("resolved", None)
        again = before is not None and before.matches(self._settings, objects)
        counts, words = before.found if again else self._counted(objects)
        known = _found(words, _places(self.words))
        frequency = np.where(known >= 0, np.append(self.frequencies.value, 0.0)[known], 0.0)
        matrix = sp.csr_array(counts[:, : len(words)])
        matrix.data = np.log1p(matrix.data) * self._idf(frequency)[matrix.indices]
        norms = np.asarray(matrix.power(2).sum(axis=1)).ravel()
        if self.cosine:
            scale = np.divide(1.0, np.sqrt(norms), out=np.zeros_like(norms), where=norms > 0)
            matrix.data *= np.repeat(scale, np.diff(matrix.indptr))
            norms = (norms > 0).astype(float)
        if vocabulary is None:
            return projected(matrix, np.arange(len(words)), len(words)), norms, words
        return projected(matrix, _found(words, vocabulary), len(vocabulary)), norms, vocabulary

    def _idf(self, frequency):
        n = self.n_documents
        return np.log((1 + n) / (1 + frequency)) + 1 if self.smooth else np.log(n / (1 + frequency))


def _fit_together(words, frequencies, n_documents):
    if not all(isinstance(value, FrozenArray) for value in (words, frequencies)):
        return False
    known = frequencies.value
    return len(words.value) == len(known) and not ((known < 0) | (known > n_documents * (1 + 1e-9))).any()


@lru_cache(maxsize=8)
def _places(words):
    return {word: j for j, word in enumerate(words.value)}

"""Many classes by machines for two: the problems, the Gram matrices they share, and scikit-learn's layout of coefficients."""

import threading
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mercer.gram import GivenGram

__all__ = ["Pair", "PairGrams", "pair_columns", "pairs_of", "sklearn_layout"]

_SMALL = 2048  # rows of a pair that are one block of the solver


@dataclass(frozen=True)
class Pair:
    """Class `first` against class `second`, or against all others (None)."""

    first: int
    second: int | None

    def rows(self, codes):
        """Rows that take part, and their signs."""
        if self.second is None:
            return np.arange(len(codes)), np.where(codes == self.first, 1.0, -1.0)
        inside = np.concatenate([np.flatnonzero(codes == self.first), np.flatnonzero(codes == self.second)])
        return inside, np.where(codes[inside] == self.first, 1.0, -1.0)


def pairs_of(n_classes: int, multi_class: str) -> list[Pair]:
    """The problems for two classes that stand for one with many, in LIBSVM's order."""
    if multi_class == "ovr" and n_classes > 2:
        return [Pair(c, None) for c in range(n_classes)]
    return [Pair(a, b) for a, b in combinations(range(n_classes), 2)]


class PairGrams:
    """Gram matrices of pairs of classes: small ones are put together from blocks, those inside a class computed once."""

    def __init__(self, K, codes, n_classes):
        self.K, self.n_classes = K, n_classes
        self.members = [np.flatnonzero(codes == c) for c in range(n_classes)]
        sizes = sorted(map(len, self.members))
        self.small = n_classes > 2 and sizes[-1] + sizes[-2] <= _SMALL
        self._inside: dict[int, np.ndarray] = {}
        self._lock, self._local = threading.Lock(), threading.local()

    def of(self, pair, inside):
        if len(inside) == self.K.shape[0] and self.n_classes == 2 and np.array_equal(inside, np.arange(len(inside))):
            return self.K
        if pair.second is None:
            return self.K
        if not self.small:
            return self.K[inside, inside]
        from mercer.engines import _compiled

        a, b = self.members[pair.first], self.members[pair.second]
        whole = self._scratch(len(a) + len(b))
        first, second = slice(0, len(a)), slice(len(a), len(whole))
        whole[first, first], whole[second, second] = self._own(pair.first), self._own(pair.second)
        self.K.fill(whole, 0, len(a), a, b)
        _compiled.mirror_tile(whole, 0, len(a), len(a), len(whole))
        return GivenGram(whole)

    def _scratch(self, n):
        """Memory of this thread for one pair after the other: fresh pages cost more than the kernel values."""
        memory = getattr(self._local, "memory", None)
        if memory is None or memory.size < n * n:
            memory = self._local.memory = np.empty(n * n, self.K.dtype)
        return memory[: n * n].reshape(n, n)

    def _own(self, c):
        with self._lock:
            known = self._inside.get(c)
        if known is None:
            known = self.K[self.members[c], self.members[c]].dense()
            with self._lock:
                self._inside[c] = known
        return known


def sklearn_layout(columns, codes, pairs, n_classes, multi_class) -> np.ndarray:
    """Coefficients (n_support, pairs) as scikit-learn keeps them: (1, n_support) for two classes, one row for each class against
    the rest, else (classes - 1, n_support): the machine of classes a < b is in row b - 1 for members of a, in row a for b's.
    """
    if n_classes == 2 or multi_class == "ovr":
        return columns.T
    out = np.zeros((n_classes - 1, len(codes)), columns.dtype)
    for p, pair in enumerate(pairs):
        mine, other = codes == pair.first, codes == pair.second
        out[pair.second - 1, mine] = columns[mine, p]
        out[pair.first, other] = columns[other, p]
    return out


def pair_columns(layout, codes, pairs) -> np.ndarray:
    """Coefficients (n_support, pairs) from (classes - 1, n_support): the inverse of `sklearn_layout` for machines of pairs."""
    out = np.zeros((len(codes), len(pairs)), layout.dtype)
    for p, pair in enumerate(pairs):
        mine, other = codes == pair.first, codes == pair.second
        out[mine, p] = layout[pair.second - 1, mine]
        out[other, p] = layout[pair.first, other]
    return out

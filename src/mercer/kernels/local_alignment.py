"""Local alignments of strings: the sum over all of them, which is PSD, and the score of the best, which is not."""

from dataclasses import dataclass

import numpy as np

from mercer.kernels.base import PairKernel, frozen
from mercer.kernels.logs import LogarithmicKernel
from mercer.kernels.parameters import Flag, NonNegative, Positive, Real
from mercer.kernels.sequences import begins_with
from mercer.kernels.validity import NOT_PSD, PSD, certificate
from mercer.kernels.words import symbols
from mercer.registry import register
from mercer.threads import stopping

__all__ = ["LocalAlignment", "SmithWaterman"]

_CELLS = 2e6  # of a table, between two returns to Python: some hundredths of a second
_LARGEST = 100.0  # beta times a score: exp of it must be small against the range of numbers


@dataclass(frozen=True, eq=False)
class Letters:
    """A string as the compiled tables read it, with the logarithm of its k(x, x)."""

    codes: np.ndarray
    own: float = 0.0


class _Local(PairKernel):
    """What the kernels of this file share: letters in, pairs through the compiled tables."""

    reads_objects = True
    sums = True

    def parse(self, x):
        return Letters(symbols(x, type(self).__name__).astype(np.int64))

    def _table(self, xs, ys, scores):
        """Logarithms of the sums, or the best scores, of all pairs."""
        from mercer.kernels import _compiled_local as tables

        (x, xo), (y, yo) = _packed(xs), _packed(ys)
        out, place, value = np.zeros((len(xs), len(ys))), np.zeros(3, np.int64), np.zeros(1)
        columns = int(min(np.diff(xo).max(initial=0), np.diff(yo).max(initial=0))) + 1
        room = place, value, np.zeros((3, columns)), np.zeros(columns, np.int64)
        half = begins_with(ys, xs)
        while tables.advance(self.sums, x, xo, y, yo, half, scores, *room, out, _CELLS) and not stopping():
            pass  # what a worker of a stopped loop returns is thrown away
        return out


def _packed(xs):
    """Letters of several strings one after the other, and where each begins."""
    return np.concatenate([x.codes for x in xs])[:, None], np.cumsum([0, *(len(x.codes) for x in xs)])


@register
@frozen
class LocalAlignment(LogarithmicKernel, _Local):
    r"""Local alignment kernel (S12): the sum over all local alignments of two strings of exp(beta times their score).

    An alignment pairs letters of one string with letters of the other, in order. Its score is `match` or `mismatch` for each
    pair, less `opening` for the first and `extension` for each further letter that is left out in a string between two pairs;
    what comes before the first pair and after the last costs nothing. The alignment of nothing counts 1. `normalised` divides
    by :math:`\sqrt{k(x, x) k(y, y)}`, in logarithms. Saigo et al. (2004).

    >>> float(LocalAlignment(beta=1.0, normalised=False)(["a"], ["a"])[0, 0])  # 1 + exp(match)
    3.718281828459045
    """

    match: Real = 1.0
    mismatch: Real = -1.0
    opening: NonNegative = 2.0
    extension: NonNegative = 0.5
    beta: Positive = 0.5
    normalised: Flag = True
    not_differentiable = ("match", "mismatch", "opening", "extension", "beta")

    def check(self):
        largest = max(abs(self.match), abs(self.mismatch), self.opening, self.extension)
        if self.beta * largest > _LARGEST:
            raise ValueError(
                f"LocalAlignment(beta=...): beta times a score is {self.beta * largest:g}; expected at most {_LARGEST:g}"
            )

    @property
    def validity(self):
        if self.match < self.mismatch:
            return certificate(
                NOT_PSD, "LocalAlignment: match < mismatch makes different letters more alike than equal ones"
            )
        return certificate(
            PSD, "LocalAlignment is a sum of convolutions of PSD kernels of letters and of gaps (Saigo et al.)"
        )

    def parse(self, x):
        letters = super().parse(x)
        return Letters(letters.codes, self._logarithms([letters], [letters])[0, 0]) if self.normalised else letters

    def _logarithms(self, xs, ys):
        scores = np.exp(float(self.beta) * np.array([self.match, self.mismatch, -self.opening, -self.extension]))
        return self._table(xs, ys, tuple(scores.tolist()))


@register
@frozen
class SmithWaterman(_Local):
    """Score of the best local alignment (S12): usual, and not positive semi-definite.

    Scores are those of `LocalAlignment`, whose log(k) / beta tends to this one for large beta. The alignment of nothing scores 0.
    Estimators refuse the kernel unless `indefinite` names a repair. Smith & Waterman (1981).

    >>> float(SmithWaterman()(["xxgattaca"], ["gattacayy"])[0, 0])
    7.0
    """

    match: Real = 1.0
    mismatch: Real = -1.0
    opening: NonNegative = 2.0
    extension: NonNegative = 0.5
    not_differentiable = ("match", "mismatch", "opening", "extension")
    sums = False

    @property
    def validity(self):
        return certificate(NOT_PSD, "SmithWaterman: the best of many alignments is no sum over them")

    def block(self, xs, ys):
        return self._table(xs, ys, tuple(float(s) for s in (self.match, self.mismatch, self.opening, self.extension)))

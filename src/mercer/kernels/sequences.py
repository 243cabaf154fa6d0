"""Kernels of sequences of numbers or vectors (S12): alignments, signatures and, as a warning, time warping.

A sequence is an array or a list of steps: of shape (length,) for one number a step, (length, d) for d. Lengths may differ.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from mercer import validate
from mercer.errors import NanError
from mercer.kernels.base import PairKernel, frozen
from mercer.kernels.logs import LogarithmicKernel
from mercer.kernels.parameters import Count, Flag, Spec
from mercer.kernels.validity import NOT_PSD, PSD, certificate
from mercer.random import generator
from mercer.registry import register
from mercer.threads import stopping

__all__ = ["DynamicTimeWarping", "GlobalAlignment", "Signature"]

Scale = Annotated[Any, Spec(low=0.0, open_low=True, words=("median",))]
Depth = Annotated[Any, Spec(low=1, integer=True, optional=True)]

_WORK = 1e7  # elementary operations between two returns to Python: some hundredths of a second
_STRIP = 100.0  # sum of |c| over a row of cells that one power series is trusted with
_SAMPLE = 2000  # pairs of steps for a median


@dataclass(frozen=True, eq=False)
class Series:
    """A sequence as the compiled tables read it, with what is known of it alone."""

    steps: np.ndarray  # (length, d)
    own: float = 0.0  # the logarithm of k(x, x)
    longest: float = 0.0  # step, and
    length: float = 0.0  # of the whole path, in the static kernel's distance


def steps_of(x, who="this kernel") -> np.ndarray:
    """A sequence as an array (length, d) of finite numbers, or an error that says what is wrong with it."""
    if isinstance(x, (str, bytes)) or not hasattr(x, "__len__"):
        raise TypeError(f"{who} reads sequences of numbers or of vectors, got {type(x).__name__}: {str(x)[:40]!r}")
    try:
        values = np.asarray(x)
    except ValueError:
        raise ValueError(f"{who} reads sequences; the steps of this one have different numbers of columns") from None
    if values.dtype.kind not in "biuf":
        try:
            values = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{who} reads sequences of numbers or of vectors; a step is no number: {str(x)[:40]!r}"
            ) from None
    if values.size == 0:
        return np.empty((0, values.shape[1] if values.ndim == 2 else 0))
    if values.ndim not in (1, 2):
        raise ValueError(f"{who} reads sequences of shape (length,) or (length, d), got shape {values.shape}")
    values = np.array(values, dtype=np.float64, order="C").reshape(len(values), -1)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise ValueError(f"step {bad[0]} holds NaN or infinity; fill gaps or leave the steps out")
    return values


class _Sequences(PairKernel):
    """What the kernels of this file share: series in, pairs through the compiled tables."""

    reads_objects = True
    not_differentiable: ClassVar[tuple[str, ...]] = ("lengthscale",)

    def refuse(self, rows):
        one_width(self._read(rows))

    def _read(self, rows):
        return validate.each_object(lambda x: steps_of(x, type(self).__name__), validate.objects(rows))

    def parse(self, x):
        return Series(self._scaled(x))

    def _scaled(self, x):
        """Steps in units of the lengthscale."""
        with np.errstate(over="ignore"):
            steps = steps_of(x, type(self).__name__) / self.lengthscale
        if not np.isfinite(steps).all():
            raise NanError(f"the steps overflow in units of lengthscale={self.lengthscale:g}; use a larger one")
        return steps

    def _resolved(self, rows, weight):
        if self.lengthscale != "median":
            return self
        return self._with(lengthscale=self._median(self._read(rows)))

    def _median(self, series):
        """Median distance of two steps times the root of the median length, as Cuturi (2011) suggests."""
        return median_step(series) * math.sqrt(max(np.median([len(s) for s in series]), 1.0))

    def _table(self, xs, ys, kind, work=5.0, **settings):
        """What the compiled tables say of all pairs."""
        from mercer.kernels import _compiled_sequences as tables

        x, xo = _packed(xs, ys)
        y, yo = _packed(ys, xs)
        half = begins_with(ys, xs)
        out, place = np.zeros((len(xs), len(ys))), np.zeros(2, np.int64)
        room = _room(tables, kind, xo, yo, x.shape[1], **settings)
        # What a worker of a stopped loop returns is thrown away.
        while tables.advance(kind, x, xo, y, yo, half, place, *room, out, _WORK / work) and not stopping():
            pass
        return out


def _room(tables, kind, xo, yo, d, band=0, gaussian=False, cuts=1, terms=1, levels=0):
    """Settings and buffers of a table: a few rows, as long as the shorter of two sequences."""
    columns = int(min(np.diff(xo).max(initial=0), np.diff(yo).max(initial=0)))
    width = (levels + 1) ** 2 if kind == tables.TRUNCATED else terms
    factorials = np.array([1.0 / math.factorial(k) for k in range(2 * (levels + 1) if levels else 2 * terms)])
    paths = kind in (tables.SIGNATURE, tables.TRUNCATED)
    lines, e = np.zeros((0, 0) if paths else (d + 4, columns + 9)), np.zeros(columns + 1, np.int64)
    state = np.zeros((columns * cuts + 1 if paths else 0, width))
    return int(band), gaussian, np.array([cuts, cuts]), factorials, lines, e, state, np.ones(width), np.zeros(3 * width)


def _packed(xs, others):
    """Steps of several series one after the other, and where each begins."""
    widths = {x.steps.shape[1] for x in (*xs, *others) if len(x.steps)}
    if len(widths) > 1:
        raise ValueError(
            f"sequences have steps of {' and '.join(map(str, sorted(widths)))} columns; expected one width"
        )
    ends = np.cumsum([0, *(len(x.steps) for x in xs)])
    filled = [x.steps for x in xs if len(x.steps)]
    return (np.concatenate(filled) if filled else np.zeros((0, max(widths, default=1)))), ends


def begins_with(ys, xs) -> bool:
    """Whether the first objects of ys are those of xs: a tile on the diagonal, which holds pairs in both orders."""
    return len(ys) >= len(xs) and all(x is y for x, y in zip(xs, ys, strict=False))


def one_width(series):
    """Refuse steps of different widths, by row."""
    filled = [(i, s.shape[1]) for i, s in enumerate(series) if len(s)]
    for i, width in filled:
        first, expected = filled[0]
        if width != expected:
            raise ValueError(f"row {i} has steps of {width} columns, row {first} of {expected}; expected one width")


def median_step(series) -> float:
    """Median distance of two steps, of a seeded sample over the distinct sequences; 1 if all steps are equal."""
    one_width(series)
    distinct = sorted({s.tobytes(): s for s in series if len(s)}.values(), key=_place)
    if not distinct:
        return 1.0
    steps = np.concatenate(distinct)
    pairs = generator(0).integers(len(steps), size=(2, _SAMPLE))
    distances = _norms(steps[pairs[0]] - steps[pairs[1]])
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


def _place(steps):
    """What distinct sequences are sorted by, so that neither their order nor their unit chooses the sample."""
    return len(steps), steps.ravel()[:16].tolist(), steps.tobytes()


def _norms(rows):
    """Euclidean norms, also of rows whose squares leave the range of numbers."""
    largest = np.abs(rows).max(initial=0.0) or 1.0
    return np.linalg.norm(rows / largest, axis=1) * largest


# ---------------------------------------------------------------------------------------------- alignments
@register
@frozen
class GlobalAlignment(LogarithmicKernel, _Sequences):
    r"""Global alignment kernel (S12): the sum over all alignments of two sequences of the products of local kernels.

    .. math:: k(x, y) = \sum_\pi \prod_{(i, j) \in \pi} \frac{g}{2 - g}, \qquad
              g = w(i, j) \exp\Big(-\frac{\lVert x_i - y_j\rVert^2}{2 \ell^2}\Big)

    `triangular` = T > 0 admits pairs of steps with :math:`|i - j| < T` only, with :math:`w = 1 - |i - j| / T`; sequences
    whose lengths differ by T or more then have k = 0. As a sum of many products k may leave the range of numbers: it is
    computed with exponents of its own, and `normalised` divides by :math:`\sqrt{k(x, x) k(y, y)}` before it becomes a
    number. `lengthscale="median"` is the median distance of two steps times the root of the median length. Two empty sequences
    have k = 1 (there is one alignment of nothing), an empty and another one 0. Cuturi (2011).

    >>> k = GlobalAlignment(1.0, normalised=False)
    >>> float(k([[0.0, 0.0]], [[0.0]])[0, 0])  # one alignment, of two equal pairs
    1.0
    """

    lengthscale: Scale = "median"
    triangular: Count = 0
    normalised: Flag = True

    @property
    def validity(self):
        return certificate(PSD, "GlobalAlignment: g / (2 - g) of a PSD g keeps sums over alignments PSD (Cuturi)")

    def parse(self, x):
        steps = self._scaled(x)
        own = self._logarithms([Series(steps)], [Series(steps)])[0, 0] if self.normalised else 0.0
        return Series(steps, own)

    def _logarithms(self, xs, ys):
        from mercer.kernels import _compiled_sequences as tables

        return self._table(xs, ys, tables.ALIGNMENT, band=self.triangular)


# ---------------------------------------------------------------------------------------------- time warping
@register
@frozen
class DynamicTimeWarping(_Sequences):
    r"""exp(-d(x, y) / l) of the time warping distance d (S12): usual, and not positive semi-definite.

    d is the root of the least sum of squared distances of the pairs of steps of an alignment. `band` > 0 admits pairs with
    :math:`|i - j| \le` band only. Where no alignment is admitted d is infinite and k = 0; so it is between an empty sequence and
    another one. Estimators refuse the kernel unless `indefinite` names a repair. Sakoe & Chiba (1978).

    >>> k = DynamicTimeWarping(1.0)
    >>> float(k([[0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0]])[0, 0])  # the same but for pace
    1.0
    """

    lengthscale: Scale = "median"
    band: Count = 0
    normalised = True

    @property
    def validity(self):
        return certificate(NOT_PSD, "DynamicTimeWarping: the distance breaks the triangle inequality")

    def block(self, xs, ys):
        return np.exp(-self._distances(xs, ys))

    def _distances(self, xs, ys):
        from mercer.kernels import _compiled_sequences as tables

        return self._table(xs, ys, tables.WARPING, band=self.band)

    def warping(self, X, Y=None) -> np.ndarray:
        """The distances d themselves, of all pairs.

        >>> float(DynamicTimeWarping().warping([[0.0, 1.0]], [[0.0, 3.0]])[0, 0])
        2.0
        """
        xs, ys = (validate.each_object(self._unscaled, validate.objects(Z)) for Z in (X, X if Y is None else Y))
        return self._distances(xs, ys)

    def _unscaled(self, x):
        return Series(steps_of(x, type(self).__name__))

    def path(self, x, y) -> np.ndarray:
        """Pairs of steps (i, j) of the cheapest alignment of two sequences, from the first to the last.

        >>> DynamicTimeWarping().path([0.0, 1.0, 1.0], [0.0, 0.0, 1.0]).tolist()
        [[0, 0], [0, 1], [1, 2], [2, 2]]
        """
        from mercer.kernels._compiled_sequences import warping_path

        x, y = (steps_of(s, type(self).__name__) for s in (x, y))
        if x.shape[1] != y.shape[1] and len(x) and len(y):
            raise ValueError(f"the steps of x have {x.shape[1]} columns, those of y {y.shape[1]}")
        return warping_path(x, y, int(self.band))


# ---------------------------------------------------------------------------------------------- signatures
@register
@frozen
class Signature(_Sequences):
    r"""Signature kernel (S12): the inner product of the signatures of two paths, all their iterated integrals.

    .. math:: k(x, y) = 1 + \int\!\!\int k(x_{[0, s]}, y_{[0, t]}) \, \langle dx_s, dy_t\rangle

    A path goes straight from step to step: of :math:`x / \ell` with `static="linear"`, of the features of a Gaussian of
    lengthscale l with "rbf". The equation is solved by power series cell by cell, so that k is exact up to rounding. `depth`
    keeps the integrals up to so many. k depends on the way, not on the pace nor on where it starts; add time as a column where
    pace matters. A sequence of one step or none does not move: k = 1 with all others. `lengthscale="median"` is the median
    distance of two steps. Kiraly & Oberhauser (2019); Salvi et al. (2021).

    >>> k = Signature(1.0, static="linear", depth=2)
    >>> float(k([[0.0, 1.0]], [[0.0, 2.0]])[0, 0])  # 1 + 2 + 2^2 / 2!^2
    4.0
    """

    lengthscale: Scale = "median"
    static: str = "rbf"
    depth: Depth = None

    def check(self):
        if self.static not in ("linear", "rbf"):
            raise ValueError(f'Signature(static=...): expected "linear" or "rbf", got {self.static!r}')
        if self.depth is not None and self.depth > 50:
            raise ValueError(f"Signature(depth=...): {self.depth} levels; expected at most 50, or None for all")

    @property
    def validity(self):
        return certificate(PSD, "Signature is an inner product of iterated integrals")

    def _median(self, series):
        return median_step(series)

    def parse(self, x):
        steps = self._scaled(x)
        moves = _norms(np.diff(steps, axis=0))
        if self.static == "rbf":
            moves = np.sqrt(-2.0 * np.expm1(-0.5 * np.minimum(moves, 1e3) ** 2))
        return Series(steps, longest=float(moves.max(initial=0.0)), length=float(moves.sum()))

    def block(self, xs, ys):
        from mercer.kernels import _compiled_sequences as tables

        gaussian = self.static == "rbf"
        if self.depth is not None:
            m = int(self.depth)
            out = self._table(xs, ys, tables.TRUNCATED, work=(m + 1.0) ** 3, levels=m, gaussian=gaussian)
        else:
            cuts, terms = self._series_of(xs, ys)
            out = self._table(xs, ys, tables.SIGNATURE, work=2.0 * terms**2, cuts=cuts, terms=terms, gaussian=gaussian)
        if not np.isfinite(out).all():
            raise NanError(f"{self!r} overflows; use a larger lengthscale, fewer levels (depth), or shorter sequences")
        return out

    def _series_of(self, xs, ys):
        """Parts that each step is cut into, and terms of the power series, for errors below rounding."""
        x, y = (max(v.longest for v in s) for s in (xs, ys))
        largest = max(x * max(v.length for v in ys), y * max(v.length for v in xs))
        if largest > _STRIP and math.isfinite(
            largest
        ):  # a bound by the longest move of all; look at the moves themselves
            largest = max(self._largest_sum(a.steps, b.steps) for a in xs for b in ys)
        if largest > 100 * _STRIP:
            raise NanError(f"{self!r}: the paths are too long for this lengthscale, k would overflow; use a larger one")
        cuts = max(1, math.ceil(largest / _STRIP))
        c, terms, term = largest / cuts, 1, 1.0
        while term > 1e-18:
            term *= c / terms**2
            terms += 1
        return cuts, terms + 1

    def _largest_sum(self, x, y):
        """Largest sum of |<dx, dy>| over one move of x or of y."""
        from mercer.kernels._compiled_sequences import largest_row

        if min(len(x), len(y)) < 2:
            return 0.0
        columns, rows = np.zeros(len(y) - 1), max(1, int(1e6 / len(y)))
        found = [largest_row(x, y, i, min(i + rows, len(x) - 1), self.static == "rbf", columns)
                 for i in range(0, len(x) - 1, rows)]  # fmt: skip
        return max(*found, columns.max(), 0.0)

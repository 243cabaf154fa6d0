"""Kernels on sets, and on bags of vectors."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from mercer import expr, validate
from mercer.errors import NanError
from mercer.kernels.base import FeatureKernel, Kernel, PairKernel, frozen
from mercer.kernels.codes import code_matrix, mixed, ranks
from mercer.kernels.digest import FrozenArray
from mercer.kernels.parameters import Positive, Spec
from mercer.kernels.radial import RBF
from mercer.kernels.validity import certificate
from mercer.registry import register

__all__ = ["Jaccard", "MeanMap", "PowerSet", "PyramidMatch", "SetIntersection"]

_LARGEST_POWER = 1023  # 2**1024 is beyond float64
_PAIRS = 2**21  # pairs of vectors whose kernel is held at a time


# ---------------------------------------------------------------------------------------------- sets
class _SetKernel(FeatureKernel):
    """A function of |A n B|, |A| and |B|. A row is a set, or anything whose entries are taken as one."""

    def counts(self, x):
        if isinstance(x, (str, bytes, Mapping)) or not isinstance(x, Iterable):
            name = type(self).__name__
            raise TypeError(
                f"{name} reads sets, lists or tuples of hashable entries, got {type(x).__name__}: {x!r:.40}"
            )
        entries = x.tolist() if isinstance(x, np.ndarray) else x
        found = dict.fromkeys(entries, 1.0)  # an entry without a hash raises TypeError, which tells the row
        if any(isinstance(e, float) and math.isnan(e) for e in found):
            raise ValueError("a set holds NaN, which is equal to nothing; leave it out")
        return found


@register
@frozen
class SetIntersection(_SetKernel):
    """Number of common elements (S9): k(A, B) = |A n B|.

    >>> float(SetIntersection()([{"milk", "bread"}], [["bread", "beer"]])[0, 0])
    1.0
    """


@register
@frozen
class PowerSet(_SetKernel):
    """Number of common subsets (S9): k(A, B) = 2^|A n B|, or 2^(|A n B| - (|A| + |B|)/2) with `form="normalised"`.

    The normalised form is computed from the exponent, so that sets of any size have a value; the plain one refuses sets of more
    than 1023 elements, of which 2^|A| is too large. Haussler (1999).

    >>> float(PowerSet()([{1, 2, 3}], [{2, 3, 4}])[0, 0])  # {}, {2}, {3}, {2, 3}
    4.0
    """

    form: str = "plain"

    def check(self):
        if self.form not in ("plain", "normalised"):
            raise ValueError(f'PowerSet(form=...): form={self.form!r} must be "plain" or "normalised"')

    @property
    def normalised(self):
        return self.form == "normalised"

    def counts(self, x):
        found = super().counts(x)
        if self.form == "plain" and len(found) > _LARGEST_POWER:
            raise NanError(f'2^{len(found)} overflows for a set of {len(found)} elements; use PowerSet("normalised")')
        return found

    def trace(self, t):
        common = t.features(self)
        if self.form == "normalised":
            kx, ky = t.diagonals(common)
            common = common - 0.5 * (kx + ky)
        return expr.exp(math.log(2.0) * common)

    @property
    def validity(self):
        return certificate("pd", "the exponential of an inner product of distinct indicator vectors")

    def phi(self, rows):
        return Kernel.phi(self, rows)


@register
@frozen
class Jaccard(_SetKernel):
    """Jaccard index (S9): k(A, B) = |A n B| / |A u B|, and 1 for two empty sets. It is `Tanimoto` of the indicator vectors.

    >>> Jaccard()([{1, 2}, set()], [{2, 3, 4}, set()]).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """

    normalised = True

    def trace(self, t):
        common = t.features(self)
        kx, ky = t.diagonals(common)
        union = kx + ky - common
        return expr.where(union - 0.5, common / expr.maximum(union, 0.5), 1.0)

    @property
    def validity(self):
        return certificate("psd", "a power series in |A n B| / (|A| + |B|) with coefficients >= 0")

    def phi(self, rows):
        return Kernel.phi(self, rows)


# ---------------------------------------------------------------------------------------------- bags of vectors
def bag(x) -> np.ndarray:
    """A row that is a bag of vectors, as an array (size, d); an empty one has no columns."""
    try:
        vectors = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"expected a bag of vectors, an array (size, d), got {type(x).__name__}: {str(x)[:40]!r}"
        ) from None
    if vectors.size == 0 and vectors.ndim in (1, 2):
        return np.zeros((0, 0))
    if vectors.ndim != 2:
        raise ValueError(f"expected a bag of vectors, an array (size, d), got shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise ValueError("a bag of vectors contains NaN or infinity")
    return vectors


def stacked(bags):
    """(all vectors, the bag of each); ValueError if they have different numbers of columns."""
    filled = [b for b in bags if len(b)]
    widths = {b.shape[1] for b in filled}
    if len(widths) > 1:
        raise ValueError(f"the bags hold vectors of different lengths: {sorted(widths)}")
    row = np.repeat(np.arange(len(bags)), [len(b) for b in bags])
    return (np.vstack(filled) if filled else np.zeros((0, 1))), row


def _bags(rows):
    return validate.each_object(bag, validate.objects(rows))


@register
@frozen
class PyramidMatch(Kernel):
    r"""Pyramid match of two sets of vectors (S10): matches found in bins of side s, 2s, 4s, ..., weighted by the side.

    .. math:: k(A, B) = \sum_i w_i (I_i - I_{i-1}), \qquad w_i = \frac{1}{d\, 2^i s}, \quad I_i = \sum_{\text{bins}} \min(a, b)

    Vectors that share a bin of side 2^i s are at most d 2^i s apart in L1, so the similarity is at most that of the best
    matching under 1/L1. With `form="cost"` the weight is d 2^i s, and k is at least the L1 cost of the best matching where the
    coarsest bins hold everything; that is a cost, not a kernel. Bins start at `origin` (None: the smallest entry of each column
    of the rows it is resolved on); there are `levels` of them (None: until one bin holds all these rows). Sets of unequal size
    are compared by `PyramidMatch().normalise()`. Grauman & Darrell (2007).

    >>> k = PyramidMatch(1.0, levels=3, origin=0.0)
    >>> float(k([[[0.2], [3.5]]], [[[0.7], [2.1]]])[0, 0])  # one match in a bin of side 1, one of side 2
    1.5
    """

    side: Positive = 1.0
    levels: Annotated[Any, Spec(low=1, high=62, integer=True, optional=True)] = None
    origin: Annotated[Any, Spec(array=True, optional=True)] = None
    form: str = "similarity"
    reads_objects = True
    not_differentiable = ("side", "origin")

    def check(self):
        if self.form not in ("similarity", "cost"):
            raise ValueError(f'PyramidMatch(form=...): form={self.form!r} must be "similarity" or "cost"')

    def _resolved(self, rows, weight):
        if self.levels is not None and self.origin is not None:
            return self
        X, _ = stacked(_bags(rows))
        origin = self.origin if self.origin is not None else X.min(axis=0) if len(X) else 0.0
        bins = _bins(X, self.side, origin)
        levels = self.levels
        if levels is None:  # until the first and the last bin of each column are one
            low, high = bins.min(axis=0, initial=0), bins.max(axis=0, initial=0)
            levels = next((i + 1 for i in range(62) if (low >> i == high >> i).all()), 62)
        return self._with(origin=origin if np.ndim(origin) == 0 else np.asarray(origin).tolist(), levels=levels)

    def _steps(self):
        """Weights of the intersections: w_i - w_{i+1}, all >= 0 unless w increases with the side."""
        sides = float(self.side) * 2.0 ** np.arange(int(self.levels))
        weights = 1.0 / sides if self.form == "similarity" else sides
        return weights - np.append(weights[1:], 0.0)

    def trace(self, t):
        if self.levels is None or self.origin is None:
            raise ValueError(f"{self!r} has neither origin nor levels yet; call resolve(X), or give both")
        steps = self._steps()
        gained = t.features(_Histograms(self, FrozenArray(np.maximum(steps, 0.0))))
        return (
            gained
            if (steps >= 0).all()
            else gained - t.features(_Histograms(self, FrozenArray(np.maximum(-steps, 0.0))))
        )

    @property
    def validity(self):
        if self.form == "similarity":
            return certificate(
                "psd", "intersections of histograms with weights >= 0: the similarity falls with the side"
            )
        if self.levels == 1:
            return certificate("psd", "one intersection of histograms")
        return certificate("not-psd", "a cost grows with the side: equal sets cost less than different ones")

    @property
    def differentiable_inputs(self):
        return False

    def phi(self, rows):
        if not self.validity.certified:
            raise ValueError(f"{self!r} has no feature map: it is a cost")
        return _Histograms(self, FrozenArray(self._steps())).count_matrix(validate.objects(rows))[0]


@dataclass(frozen=True)
class _Histograms:
    """Histograms of a pyramid as unary features, whose inner product is the intersection: min(a, b) = sum_t [a >= t][b >= t]."""

    kernel: PyramidMatch
    steps: FrozenArray

    def count_matrix(self, objects, vocabulary=None):
        X, row = stacked(validate.each_object(bag, objects))
        d, bins = X.shape[1], _bins(X, self.kernel.side, self.kernel.origin)
        scale = 1.0 / d if self.kernel.form == "similarity" else float(d)
        entries = []
        for i, step in enumerate(self.steps.value):
            if step > 0:
                code = _code_of_bins(bins >> i, i)
                entries.append(
                    (row, mixed(code + ranks(code, row).astype(np.uint64)), np.full(len(row), np.sqrt(scale * step)))
                )
        rows, codes, values = (np.concatenate(part) for part in zip(*entries, strict=True)) if entries else ([], [], [])
        return code_matrix(len(objects), rows, np.asarray(codes, np.uint64), values, vocabulary)


def _bins(X, side, origin):
    if np.ndim(origin) and len(X) and len(np.atleast_1d(origin)) != X.shape[1]:
        raise ValueError(f"origin has {len(origin)} entries, but the vectors have {X.shape[1]}")
    with np.errstate(over="ignore"):
        places = np.floor((X - np.asarray(origin, np.float64)) / float(side)) if len(X) else np.zeros((0, 1))
    if (np.abs(places) >= 2.0**62).any():
        raise NanError(f"vectors are more than 2^62 bins of side={side:g} from the origin; choose a larger side")
    return places.astype(np.int64)


def _code_of_bins(bins, level):
    code = mixed(np.full(len(bins), level))
    for column in bins.T:
        code = mixed(code ^ column.astype(np.uint64))  # of a scrambled code: (1, 2) and (2, 1) differ
    return code


@register
@frozen
class MeanMap(PairKernel):
    """Mean map of bags of vectors (S10): the mean of a kernel over all pairs of their vectors; 0 for an empty bag.

    It is the inner product of the means in the feature space of the kernel. Words such as "median" in the kernel are resolved
    on all vectors of the rows. Gärtner et al. (2002); Smola et al. (2007).

    >>> from mercer.kernels import Linear
    >>> float(MeanMap(Linear())([[[1.0], [3.0]]], [[[5.0]]])[0, 0])  # the means are 2 and 5
    10.0
    """

    kernel: Kernel = RBF()
    reads_objects = True

    def check(self):
        if not isinstance(self.kernel, Kernel) or self.kernel.reads not in ("vectors", "any"):
            raise TypeError(f"MeanMap(kernel) needs a kernel of vectors, got {self.kernel!r}")

    def _resolved(self, rows, weight):
        X, row = stacked(_bags(rows))
        if not len(X):
            return self
        return self._with(kernel=self.kernel.resolve(X, None if weight is None else weight[row]))

    def parse(self, x):
        return bag(x)

    def block(self, xs, ys):
        return sums_of_pairs(self.kernel, xs, ys) / np.multiply.outer(_sizes(xs), _sizes(ys))

    def __repr__(self):
        return f"MeanMap({self.kernel!r})"

    @property
    def validity(self):
        return of_bags(self.kernel.validity, "mean over all pairs of vectors")


def of_bags(v, how):
    """Certificate of a sum of a kernel over all pairs of two bags."""
    if v.certified:
        return certificate("psd", f"{how} of a valid kernel ({v.reason})")
    return certificate("unknown", f"{how} of a kernel that is not certified PSD ({v.reason})")


def sums_of_pairs(kernel, xs, ys) -> np.ndarray:
    """Sums of a kernel over all pairs of vectors of two bags, for all pairs of bags."""
    out = np.zeros((len(xs), len(ys)))
    for some in _groups(xs, max(max((len(y) for y in ys), default=0), 1) * max(len(ys), 1)):
        X, row = stacked(xs[some])
        for others in _groups(ys, max(len(X), 1)):
            Y, column = stacked(ys[others])
            if len(X) and len(Y):
                K = kernel.gram(X, Y, engine="reference").dense()
                left = np.add.reduceat(K, np.unique(row, return_index=True)[1], axis=0)
                found = np.add.reduceat(left, np.unique(column, return_index=True)[1], axis=1)
                out[np.ix_(np.arange(len(xs))[some][np.unique(row)], np.arange(len(ys))[others][np.unique(column)])] = (
                    found
                )
    return out


def _groups(bags, each):
    """Slices of bags whose kernel with `each` vectors fits into the memory of a tile; one bag at least."""
    start, held = 0, 0
    for i, b in enumerate(bags):
        if held and (held + len(b)) * each > _PAIRS:
            yield slice(start, i)
            start, held = i, 0
        held += len(b)
    yield slice(start, len(bags))


def _sizes(bags):
    return np.maximum([len(b) for b in bags], 1)

"""Kernels on bags of vectors: pyramid match, mean map, best assignment."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from mercer import validate
from mercer.errors import NanError
from mercer.kernels.base import Kernel, PairKernel, frozen
from mercer.kernels.codes import code_matrix, mixed, ranks
from mercer.kernels.digest import FrozenArray
from mercer.kernels.parameters import Positive, Spec
from mercer.kernels.radial import RBF
from mercer.kernels.validity import certificate
from mercer.registry import register

__all__ = ["MeanMap", "OptimalAssignment", "PyramidMatch"]

_PAIRS = 2**21  # pairs of vectors whose kernel is held at a time


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
        raise ValueError(
            f"vectors of {' and '.join(map(str, sorted(widths)))} entries cannot be compared; expected one length"
        )
    row = np.repeat(np.arange(len(bags)), [len(b) for b in bags])
    return (np.vstack(filled) if filled else np.zeros((0, 1))), row


def all_stacked(parse, rows):
    """What `stacked` makes of all rows; the error tells a row whose vectors are unlike those before it."""
    bags = validate.each_object(parse, validate.objects(rows))
    filled = [i for i, b in enumerate(bags) if len(b)]
    for i in filled:
        if bags[i].shape[1] != bags[filled[0]].shape[1]:
            raise ValueError(
                f"row {i} has vectors of {bags[i].shape[1]} entries, row {filled[0]} of {bags[filled[0]].shape[1]}"
            )
    return stacked(bags)


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
        if self.levels is not None and np.ndim(self.origin) and self.origin is not None:
            return self
        X, _ = all_stacked(bag, rows)
        origin = self.origin if self.origin is not None else X.min(axis=0) if len(X) else 0.0
        if len(X) and np.ndim(origin) == 0:  # one for each column, so that vectors of another width are refused
            origin = np.full(X.shape[1], float(origin))
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


class _OfKernel(PairKernel):
    """What a kernel of vectors makes of bags of them."""

    reads_objects = True

    def check(self):
        require_vectors(self)

    def _resolved(self, rows, weight):
        X, row = all_stacked(bag, rows)
        if not len(X):
            return self
        return self._with(kernel=self.kernel.resolve(X, None if weight is None else weight[row]))

    def parse(self, x):
        return bag(x)

    def __repr__(self):
        return f"{type(self).__name__}({self.kernel!r})"


def require_vectors(outer):
    """Refuse a kernel that does not read vectors as the part of another one."""
    if not isinstance(outer.kernel, Kernel) or outer.kernel.reads not in ("vectors", "any"):
        raise TypeError(f"{type(outer).__name__}(kernel) needs a kernel of vectors, got {outer.kernel!r}")


@register
@frozen
class MeanMap(_OfKernel):
    """Mean map of bags of vectors (S10): the mean of a kernel over all pairs of their vectors; 0 for an empty bag.

    It is the inner product of the means in the feature space of the kernel. Words such as "median" in the kernel are resolved
    on all vectors of the rows. Gärtner et al. (2002); Smola et al. (2007).

    >>> from mercer.kernels import Linear
    >>> float(MeanMap(Linear())([[[1.0], [3.0]]], [[[5.0]]])[0, 0])  # the means are 2 and 5
    10.0
    """

    kernel: Kernel = RBF()

    def block(self, xs, ys):
        return sums_of_pairs(self.kernel, xs, ys) / np.multiply.outer(_sizes(xs), _sizes(ys))

    @property
    def validity(self):
        return of_bags(self.kernel.validity, "mean over all pairs of vectors")


@register
@frozen
class OptimalAssignment(_OfKernel):
    """Best assignment of two bags of vectors (S10): the largest sum of a kernel over pairs, each vector in one at most.

    Vectors of the larger bag that find no partner count 0. It is usual, and not positive semi-definite: estimators refuse it
    unless `indefinite` names a repair. `PyramidMatch` and `WLOptimalAssignment` follow a hierarchy, and are. Time grows with the
    cube of the size of the bags. Fröhlich et al. (2005); Vert (2008).

    >>> from mercer.kernels import Linear
    >>> float(OptimalAssignment(Linear())([[[1.0], [3.0]]], [[[5.0]]])[0, 0])  # 3 goes with 5
    15.0
    """

    kernel: Kernel = RBF()

    def pair(self, x, y):
        from scipy.optimize import linear_sum_assignment

        X, _ = stacked([x, y])
        if not len(x) or not len(y):
            return 0.0
        worth = self.kernel.gram(X[: len(x)], X[len(x) :], engine="reference").dense()
        return float(worth[linear_sum_assignment(worth, maximize=True)].sum())

    @property
    def validity(self):
        return certificate("not-psd", "OptimalAssignment: the best of all assignments is no inner product (Vert)")


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

"""One side of a Gram, made once: the rows as each view sees them, their norms, the vectors over them, and the diagonal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import expr, validate
from mercer.engines import columns
from mercer.errors import NanError, NotSymmetricError
from mercer.kernels.statistics import (
    ColumnStatistic,
    DiagonalOf,
    External,
    Inner,
    MeanOf,
    SameRow,
    SquaredDistance,
    Vector,
)
from mercer.kernels.trace import Lowered
from mercer.kernels.views import Features, View, chain
from mercer.threads import each_part, part_rows

__all__ = ["Prepared", "all_leaves", "diagonal", "diagonal_leaf", "external_tile", "prepare"]


class _Picked(Mapping):
    """Some rows of every array of a table, taken when one is asked for: a tile reads few of what a side holds."""

    def __init__(self, table, chosen):
        self._table, self._chosen, self._made = table, chosen, {}

    def __getitem__(self, key):
        if key not in self._made:
            self._made[key] = validate.take(self._table[key], self._chosen)
        return self._made[key]

    def __iter__(self) -> Iterator:
        return iter(self._table)

    def __len__(self):
        return len(self._table)


_TABLES = ("given", "views", "centred", "norms", "raw_norms", "vectors")


@dataclass(frozen=True)
class Prepared:
    """One side of a Gram: the rows as each view sees them, their norms and vectors, made once.

    `token` says which data the rows came from and `index` which rows they are: two rows are the same row only if both agree.
    """

    lowered: Lowered
    given: Mapping[str, Any]  # the rows themselves, under "rows"
    index: np.ndarray
    places: np.ndarray  # of the rows in `whole`
    token: object
    dtype: np.dtype
    views: Mapping[View, Any]  # every view on the way, uncentred
    centred: Mapping[View, Any]  # rows minus the centre, for views with distances
    centre: dict[View, np.ndarray]
    norms: Mapping[View, np.ndarray]  # squared norms of the centred rows
    raw_norms: Mapping[View, np.ndarray]
    vocabulary: dict[View, Any]
    vectors: Any = field(default_factory=dict)  # by what they are vectors of
    scalars: dict[Any, Any] = field(default_factory=dict)
    origin: dict[View, np.ndarray] = field(
        default_factory=dict
    )  # what was taken from the rows before a view scaled them
    width: int = 0  # columns of the rows, 0 where these are not vectors
    whole: "Prepared | None" = None  # the side that these are some rows of; None if this is it
    kept: dict = field(
        default_factory=dict, init=False, compare=False, repr=False
    )  # what an engine made of the whole side

    def __len__(self):
        return len(self.index)

    @property
    def rows(self):
        return self.given["rows"]

    def take(self, chosen) -> "Prepared":
        """The same side restricted to some rows; nothing is recomputed."""
        if isinstance(chosen, slice) and chosen.indices(len(self)) == (0, len(self), 1):
            return self
        picked = {name: _Picked(getattr(self, name), chosen) for name in _TABLES}
        some = object.__new__(Prepared)  # `replace` takes as long as a small tile
        whole, index, places = self.whole or self, self.index[chosen], self.places[chosen]
        some.__dict__.update(self.__dict__, index=index, places=places, whole=whole, **picked)
        return some

    def astype(self, dtype) -> "Prepared":
        """The same side in another precision."""

        def cast(table, also=()):
            return {k: v.astype(dtype) if k in also else v for k, v in table.items()}

        numeric = {v for v in self.views if v in self.raw_norms or (v.numeric and v in _statistic_views(self.lowered))}
        return replace(self, dtype=np.dtype(dtype), views=cast(self.views, numeric), centred=cast(self.centred, self.centred),
                       vectors=cast(self.vectors, self.vectors), whole=None, places=np.arange(len(self)))  # fmt: skip

    @property
    def first_of_run(self) -> int | None:
        """Place in the whole side of the first of these rows, if they follow each other there."""
        if self.whole is None:
            return 0
        p = self.places
        follow = len(p) and p[-1] - p[0] == len(p) - 1 and bool((np.diff(p) == 1).all())
        return int(p[0]) if follow else None

    def vector(self, payload):
        """Values of a `Vector` leaf on this side."""
        return self.scalars[payload.of] if payload.side == "scalar" else self.vectors[payload.of]

    def same_side(self, other) -> bool:
        return self.token is other.token


def prepare(engine, lowered: Lowered, rows, like: Prepared | None = None) -> Prepared:
    """Make one side. `like` is the other side (the training rows): its centre and vocabulary are used."""
    return _Preparation(engine, lowered, rows, like).side()


class _Preparation:
    def __init__(self, engine, lowered, rows, like):
        self.engine, self.lowered, self.rows, self.like = engine, lowered, _stored_like(rows, like), like
        self.views: dict[View, Any] = {}
        self.vocabulary: dict[View, Any] = {}
        self.raw_norms: dict[View, np.ndarray] = {}
        self.origin: dict[View, np.ndarray] = {}

    def side(self):
        leaves = _leaves(self.lowered)
        self.by_difference = _views_by_difference(leaves)
        for payload in leaves:
            if getattr(payload, "view", None) is not None:
                self._view(payload.view)
        dtype = self._dtype(leaves)
        centred, centre, norms = self._distances(leaves, dtype)
        index = np.arange(validate.n_rows(self.rows))
        width = self.rows.shape[1] if getattr(self.rows, "ndim", 1) == 2 else 0
        side = Prepared(self.lowered, {"rows": self.rows}, index, index, object(), dtype, self.views, centred, centre, norms,
                        self.raw_norms, self.vocabulary, origin=self.origin, width=width)  # fmt: skip
        return self._with_vectors(side, leaves)

    def _view(self, view):
        """Rows of a view and, on the way, of its parents."""
        current = self.rows
        for link in chain(view):
            if link not in self.views:
                self.views[link] = self._forward(link, current)
            current = self.views[link]
        return current

    def _forward(self, link, rows):
        if isinstance(link, Features):
            return self._features(link, rows)
        if link.linear and link in self.by_difference and not sp.issparse(rows):
            # Scaling rows far from 0 would round their differences.
            self.origin[link] = _mean(rows) if self.like is None else self.like.origin[link]
            rows = rows - self.origin[link].astype(rows.dtype)
        return link.forward(rows)

    def _features(self, link, objects):
        known = self.like.vocabulary.get(link) if self.like is not None else None
        matrix, norms, vocabulary = link.kernel.count_matrix(objects, known)
        self.vocabulary[link], self.raw_norms[link] = vocabulary, norms
        return matrix

    def _dtype(self, leaves):
        """float32 only if everything the kernel reads is float32."""
        kinds = [self.views[p.view].dtype for p in leaves if isinstance(p, (Inner, SquaredDistance, ColumnStatistic))]
        kinds = [np.float64 if k not in validate.FLOATS else k for k in kinds]
        own = np.result_type(*kinds) if kinds else self._rows_dtype()
        return np.dtype(own if self.like is None else np.result_type(own, self.like.dtype))

    def _rows_dtype(self):
        dtype = getattr(self.rows, "dtype", None)
        return dtype if dtype in validate.FLOATS else np.dtype(np.float64)

    def _distances(self, leaves, dtype):
        """Centred rows and squared norms. One centre for both sides, so that large offsets cancel exactly."""
        centred, centre, norms = {}, {}, {}
        for payload in leaves:
            if not isinstance(payload, (Inner, SquaredDistance)):
                continue
            view, rows = payload.view, self.views[payload.view]
            if view not in self.raw_norms:
                self.raw_norms[view] = _squared_norms(rows)
            if isinstance(payload, Inner) or view in centred:
                continue
            centre[view] = self._centre(view, rows)
            if sp.issparse(rows):
                centred[view] = rows.astype(dtype, copy=False)
            else:
                centred[view] = _less(rows, centre[view].astype(rows.dtype), dtype)
            norms[view] = _squared_norms(centred[view])
            _check_finite(norms[view])
        for values in self.raw_norms.values():
            _check_finite(values)
        self._cast(leaves, dtype)
        return centred, centre, norms

    def _cast(self, leaves, dtype):
        """Rows of the statistics in the Gram's precision; category codes need all their 53 bits."""
        for payload in leaves:
            exact = isinstance(payload, ColumnStatistic) and payload.function == "equal"
            if isinstance(payload, (Inner, ColumnStatistic)) and not exact:
                self.views[payload.view] = self.views[payload.view].astype(dtype, copy=False)

    def _centre(self, view, rows):
        if self.like is not None:
            return self.like.centre[view]
        if sp.issparse(rows):
            return np.zeros(rows.shape[1])  # sparse rows stay sparse; close pairs are recomputed by differences instead
        return _mean(rows)

    def _with_vectors(self, side, leaves):
        for payload in leaves:
            if not isinstance(payload, Vector):
                continue
            if payload.side != "scalar" and payload.of not in side.vectors:
                side.vectors[payload.of] = _vector(payload.of, side, self.engine).astype(side.dtype, copy=False)
            elif payload.side == "scalar" and payload.of not in side.scalars:
                side.scalars[payload.of] = (
                    _grand_mean(payload.of, self.engine) if self.like is None else self.like.scalars[payload.of]
                )
        return side


def _stored_like(rows, like):
    """Rows in the storage of the other side: distances have the centre 0 in sparse rows, the mean in dense ones."""
    if like is None or sp.issparse(rows) == sp.issparse(like.rows):
        return rows
    return sp.csr_array(rows) if sp.issparse(like.rows) else rows.toarray()


def all_leaves(expression):
    """Payloads of all leaves, those inside vectors included, each once; inner ones first."""
    found: dict[Any, None] = {}
    for e in expr.leaves(expression):
        payload = e.payload
        if isinstance(payload, Vector):
            if isinstance(payload.of, DiagonalOf):
                found.update(dict.fromkeys(all_leaves(payload.of.expression)))
            else:
                found[payload.of] = None
        found[payload] = None
    return list(found)


def _leaves(lowered):
    if "leaves" not in lowered.programs:
        lowered.programs["leaves"] = all_leaves(lowered.expression)
    return lowered.programs["leaves"]


def _views_by_difference(leaves):
    """Views of which only differences of rows are read."""
    read = [(p.view, _by_difference(p)) for p in leaves if isinstance(p, (Inner, SquaredDistance, ColumnStatistic))]
    return {view for view, _ in read} - {view for view, difference in read if not difference}


def _by_difference(payload):
    return isinstance(payload, SquaredDistance) or getattr(payload, "function", None) in columns.OF_DIFFERENCES


def _mean(rows):
    return rows.mean(axis=0, dtype=np.float64).astype(rows.dtype)


def _less(rows, centre, dtype):
    """rows - centre, C-ordered, in a precision."""
    out, step = np.empty(rows.shape, dtype), part_rows(rows.shape[1])

    def job(i):
        some = slice(i * step, (i + 1) * step)
        out[some] = rows[some] - centre

    each_part(job, -(-len(rows) // step), rows.size)
    return out


def _statistic_views(lowered):
    return {p.view for p in _leaves(lowered) if isinstance(p, (Inner, ColumnStatistic))}


def _squared_norms(rows):
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), np.float64).ravel()
    out, step = np.empty(len(rows)), part_rows(rows.shape[1])

    def job(i):
        some = slice(i * step, (i + 1) * step)
        with np.errstate(over="ignore"):  # refused later, by name
            out[some] = np.einsum("ij,ij->i", rows[some], rows[some], dtype=np.float64)

    each_part(job, -(-len(rows) // step), rows.size)
    return out


def _check_finite(norms):
    if not np.isfinite(norms).all():
        raise NanError("squared norms of the rows overflow (entries beyond about 1e154); rescale the columns")


def _vector(of, side, engine):
    if isinstance(of, DiagonalOf):
        return np.broadcast_to(diagonal(of.expression, side), (len(side),))
    rows = side.views[of.view]
    if isinstance(of, MeanOf):
        z = engine.prepare(of.lowered, of.sample.rows)
        return engine.reduce(engine.prepare(of.lowered, rows, like=z), z, "sum") / len(z)
    values = of.function(rows)
    who = f"times({getattr(of.function, '__name__', 'f')})"
    return validate.kernel_output(np.ravel(values) if np.ndim(values) == 2 else values, (len(side),), who, side.dtype)


def _grand_mean(of: MeanOf, engine):
    z = engine.prepare(of.lowered, of.sample.rows)
    return float(engine.reduce(z, z, "sum").mean() / len(z))


# ------------------------------------------------------------------------------------------------ the diagonal
def diagonal(expression, side):
    values = {e: diagonal_leaf(e.payload, side) for e in expr.leaves(expression)}
    return expr.evaluate(expression, side.lowered.parameters, values)


def diagonal_leaf(payload, side):
    if isinstance(payload, Inner):
        return side.raw_norms[payload.view].astype(side.dtype)
    if isinstance(payload, SquaredDistance):
        return np.zeros(len(side), side.dtype)
    if isinstance(payload, SameRow):
        return np.ones(len(side), side.dtype)
    if isinstance(payload, ColumnStatistic):
        return columns.diagonal(payload, side.views[payload.view]).astype(side.dtype)
    if isinstance(payload, External):
        values = payload.kernel.block_diag(side.views[payload.view])
        return validate.kernel_output(values, (len(side),), repr(payload.kernel), side.dtype)
    return side.vector(payload)


def external_tile(payload: External, x: Prepared, y: Prepared):
    """A pair kernel's block, checked: shape, finite, and symmetric where it must be."""
    who = repr(payload.kernel)
    xs, ys = x.views[payload.view], y.views[payload.view]
    block = validate.kernel_output(payload.kernel.block(xs, ys), (len(x), len(y)), who, x.dtype)
    if x.same_side(y):
        _, i, j = np.intersect1d(x.index, y.index, return_indices=True)
        square = block[np.ix_(i, j)]  # the pairs that the tile holds in both orders
        gap = np.abs(square - square.T).max(initial=0.0)
        if gap > 100 * np.finfo(block.dtype).eps * max(np.abs(square).max(initial=0.0), 1e-300):
            raise NotSymmetricError(f"{who} is not symmetric: k(x, y) and k(y, x) differ by up to {gap:g}")
    return block

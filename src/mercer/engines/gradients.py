"""Gradients of sum(W * K): one backward sweep over the tiles, then through vectors and views to parameters and rows."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import expr, validate
from mercer.engines import columns
from mercer.engines.prepare import diagonal_leaf
from mercer.errors import NanError, NotDifferentiableError
from mercer.kernels.statistics import ColumnStatistic, DiagonalOf, External, Inner, MeanOf, SquaredDistance, Vector
from mercer.kernels.views import Features, chain

__all__ = ["Gradients", "Weights"]

_BATCH = 16
_FEWEST = 64  # rows of a tile: where rows are few, so that there are tiles for several threads


class Gradients:
    """One backward sweep over the tiles: adjoints of the leaves, then of the vectors, then of the views."""

    def __init__(self, engine, x, y, both=True):
        self.engine, self.x, self.y, self.both = (
            engine,
            x,
            y,
            both,
        )  # both: the rows of y move as well, or only those of x
        partial = expr.gradient(x.lowered.expression)
        self.targets, self.outputs = list(partial), list(partial.values())
        self.by_parameter: dict[str, Any] = {}
        # (view, whether its rows are meant centred) -> gradient, for the rows of x and of y. Gradients of distances do not see
        # a common offset, so the centred rows give the same sums without cancellation.
        self.by_rows: tuple[dict, dict] = ({}, {})
        self.by_vector: tuple[dict, dict] = ({}, {})
        self.inner_inputs: list = []
        self.blocked: list = []

    def run(self, W):
        weights = self.weights(W)
        if not self.outputs:  # nothing to move, as in a window indicator
            return self
        self._tiles(weights)
        self._vectors()
        return self

    def _tiles(self, weights):
        """All rows of tiles, merged in order, a batch at a time: parts of all of them would not fit."""
        x, y = self.x, self.y
        height, width = self.engine.tile_shape
        rows, cols = self.engine._grid(x, y, (min(height, max(_FEWEST, len(x) // 8)), width))
        columns = [(c, y.take(c)) for c in cols]
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            for total in self.engine.each(lambda i, b=batch: self._row_of_tiles(weights, b[i], columns), len(batch)):
                self._merge(total)

    def _row_of_tiles(self, weights, some, columns):
        """What some rows add, in tiles with each of the columns."""
        total, xi = _TileSums(), self.x.take(some)
        for c, yj in columns:
            self._tile(total, xi, yj, weights.block(some, c), some, c)
        return total

    def weights(self, W):
        return Weights(W, len(self.x), len(self.y))

    def run_diagonal(self, v):
        """The same for sum(v * diag K)."""
        self.by_vector[0][Vector(DiagonalOf(self.x.lowered.expression), "row")] = np.asarray(v, np.float64)
        self._vectors()
        return self

    def _tile(self, total, xi, yj, W, r, c):
        values = self.engine.tile(self.outputs, xi, yj)
        for target, value in zip(self.targets, values, strict=True):
            V = W * value
            if target.op == "param":
                total.parameter(target.payload, V.sum(dtype=np.float64))
            else:
                self._leaf(total, target.payload, V, xi, yj, r, c)

    def _leaf(self, total, payload, V, xi, yj, r, c):
        if isinstance(payload, Vector):
            if payload.side != "column":
                total.vector(0, payload, r, V.sum(axis=1, dtype=np.float64))
            else:
                total.vector(1, payload, c, V.sum(axis=0, dtype=np.float64))
        elif isinstance(payload, Inner) and isinstance(payload.view, Features):
            total.blocked(payload.view.kernel)
        elif isinstance(payload, Inner):
            U, T = xi.views[payload.view], yj.views[payload.view]
            total.rows(0, (payload.view, False), r, _dense(V @ T))
            if self.both:
                total.rows(1, (payload.view, False), c, _dense(V.T @ U))
        elif isinstance(payload, SquaredDistance):
            U, T = xi.centred[payload.view], yj.centred[payload.view]
            total.rows(0, (payload.view, True), r, 2.0 * (_scale_rows(U, V.sum(axis=1)) - _dense(V @ T)))
            if self.both:
                total.rows(1, (payload.view, True), c, 2.0 * (_scale_rows(T, V.sum(axis=0)) - _dense(V.T @ U)))
        elif isinstance(payload, ColumnStatistic):
            gx, gy = self.engine.column_pullback(payload, xi.views[payload.view], yj.views[payload.view], V)
            total.rows(0, (payload.view, False), r, gx)
            total.rows(1, (payload.view, False), c, gy)
        elif isinstance(payload, External):
            total.blocked(payload.kernel)

    def _merge(self, total):
        for name, value in total.parameters.items():
            self._add_parameter(name, value)
        for side, key, place, value in total.row_parts:
            target = self.by_rows[side]
            if key not in target:
                target[key] = np.zeros((len((self.x, self.y)[side]), value.shape[1]), np.float64)
            target[key][place] += value
        for side, payload, place, value in total.vector_parts:
            target = self.by_vector[side]
            if payload not in target:
                target[payload] = np.zeros(len((self.x, self.y)[side]))
            target[payload][place] += value
        self.blocked += total.blockers

    def _add_parameter(self, name, value):
        self.by_parameter[name] = self.by_parameter.get(name, 0.0) + value

    # ---------------------------------------------------------------- vectors: k(x, x), means, f(x)
    def _vectors(self):
        for side, prepared in enumerate((self.x, self.y)):
            pending = dict(self.by_vector[side])
            while pending:  # the diagonal of an expression may hold vectors itself
                payload, v = pending.popitem()
                if isinstance(payload.of, DiagonalOf):
                    self._diagonal(side, prepared, payload.of.expression, v, pending)
                elif isinstance(payload.of, MeanOf):
                    self._mean(side, prepared, payload, v)
                else:
                    self._function(side, prepared, payload.of, v)

    def _diagonal(self, side, prepared, expression, v, pending):
        partial = expr.gradient(expression)
        values = {e: diagonal_leaf(e.payload, prepared) for e in expr.leaves(expression)}
        for target, slope in zip(
            partial, expr.evaluate_all(list(partial.values()), prepared.lowered.parameters, values), strict=True
        ):
            g = np.broadcast_to(v * slope, v.shape)
            payload = target.payload
            if target.op == "param":
                self._add_parameter(payload, g.sum())
            elif isinstance(payload, Vector):
                pending[payload] = pending.get(payload, 0.0) + g
            elif (isinstance(payload, Inner) and isinstance(payload.view, Features)) or isinstance(payload, External):
                self.blocked.append(payload.view.kernel if isinstance(payload, Inner) else payload.kernel)
            elif isinstance(payload, Inner):
                self._add_rows(side, (payload.view, False), 2.0 * _scale_rows(prepared.views[payload.view], g))
            elif isinstance(payload, ColumnStatistic):
                slopes = columns.diagonal_slope(payload, prepared.views[payload.view])
                self._add_rows(side, (payload.view, False), g[:, None] * slopes)

    def _mean(self, side, prepared, payload, v):
        """sum_i v_i mean_z e(x_i, z) is a weighted sum over a Gram of its own, with weights of rank one."""
        of = payload.of
        z = self.engine.prepare(of.lowered, of.sample.rows)
        ones = np.full((len(z), 1), 1.0 / len(z))
        if payload.side == "scalar":
            inner = type(self)(self.engine, z, z).run((ones * v.sum(), ones))
        else:
            x = self.engine.prepare(of.lowered, prepared.views[of.view], like=z)
            inner = type(self)(self.engine, x, z).run((v[:, None], ones))
            self.inner_inputs.append((side, of.view, inner))
        self.blocked += inner.blocked
        for name, value in inner.parameters().items():
            self._add_parameter(name, value)

    def _function(self, side, prepared, of, v):
        if of.vjp is None:
            self.by_rows[side][of.view, False] = None  # an error only if the gradient in the inputs is asked for
            return
        rows = prepared.views[of.view]
        back = validate.kernel_output(of.vjp(rows, v), rows.shape, "the vjp of times", np.float64)
        self._add_rows(side, (of.view, False), back)

    def _add_rows(self, side, key, value):
        known = self.by_rows[side].get(key)
        self.by_rows[side][key] = value if known is None else known + value

    # ---------------------------------------------------------------- results
    def parameters(self):
        found = dict(self.by_parameter)
        for side, prepared in enumerate((self.x, self.y)):
            for key, G in self.by_rows[side].items():
                if G is None:
                    continue
                for name, value in _through_views(key, prepared, G, need=_has_parameters)[1].items():
                    if value is not None:
                        found[name] = found.get(name, 0.0) + value
        return {name: np.asarray(found[name]) for name in found}

    def inputs(self):
        total = self._side_inputs(0)
        return total + self._side_inputs(1) if self.x is self.y else total

    def _side_inputs(self, side):
        if self.blocked:
            raise NotDifferentiableError(f"{self.blocked[0]!r} has no gradient in its inputs")
        prepared = (self.x, self.y)[side]
        if not isinstance(prepared.rows, np.ndarray) or prepared.rows.ndim != 2:
            raise NotDifferentiableError(
                f"the rows are {type(prepared.rows).__name__}; gradients in the inputs need a dense 2-D array"
            )
        total = np.zeros(prepared.rows.shape)
        for key, G in self.by_rows[side].items():
            if G is None:
                raise NotDifferentiableError("times(f) has no vjp; pass k.times(f, vjp=...)")
            total += _through_views(key, prepared, G, need=None)[0]
        for where, view, inner in self.inner_inputs:
            if where == side:
                total += _through_views((view, False), prepared, inner._side_inputs(0), need=None)[0]
        return total.astype(prepared.dtype)


def _has_parameters(links):
    return any(link.parameters for link in links)


def _through_views(key, prepared, G, need):
    """Send a gradient in a view's rows back through the chain to the user's rows, collecting parameter gradients."""
    view, centred = key
    links = chain(view)
    found: dict[str, Any] = {}
    for i in range(len(links) - 1, 0, -1):
        if need is not None and not need(links[: i + 1]):
            return None, found  # no parameter further up
        out = prepared.centred[view] if centred and links[i] is view else prepared.views[links[i]]
        G, gradients = links[i].pullback(prepared.views[links[i - 1]], out, G)
        for name, value in gradients.items():
            found[name] = value if found.get(name) is None else found[name] + value
    return G, found


class _TileSums:
    """What one row of tiles adds to the gradient; merged in a fixed order by the caller."""

    def __init__(self):
        self.parameters, self.row_parts, self.vector_parts, self.blockers = {}, [], [], []
        self._open: dict = {}

    def parameter(self, name, value):
        self.parameters[name] = self.parameters.get(name, 0.0) + value

    def rows(self, side, key, place, value):
        if side == 0:  # the same rows of x for every tile of this job: add in place
            if key in self._open:
                self._open[key] += value
                return
            self._open[key] = value
        self.row_parts.append((side, key, place, value))

    def vector(self, side, payload, place, value):
        self.vector_parts.append((side, payload, place, value))

    def blocked(self, kernel):
        self.blockers.append(kernel)


class Weights:
    """W given as an array or as a pair (U, V) meaning U @ V.T, formed per tile; None means all ones."""

    def __init__(self, W, n, m):
        self.pair = W if isinstance(W, tuple) else None
        self.W = None if W is None or self.pair else self.whole(W)
        if self.pair:
            self.pair = tuple(np.asarray(a).reshape(len(a), -1) for a in self.pair)
            shape = (len(self.pair[0]), len(self.pair[1]))
        else:
            shape = (n, m) if self.W is None else tuple(self.W.shape)
        if shape != (n, m):
            raise ValueError(f"W has shape {shape}, expected {(n, m)}")

    def whole(self, W):
        return np.asarray(W)

    def block(self, r, c):
        if self.pair is None and self.W is None:
            return 1.0
        part = self.pair[0][r] @ self.pair[1][c].T if self.pair else self.W[r, c]
        if not np.isfinite(part).all():
            raise NanError("W holds NaN or infinity")
        return part


def _dense(A):
    return A.toarray() if sp.issparse(A) else np.asarray(A)


def _scale_rows(rows, factors):
    return sp.diags_array(factors) @ rows.toarray() if sp.issparse(rows) else rows * np.asarray(factors)[:, None]

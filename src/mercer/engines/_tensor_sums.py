"""Row-wise reductions and gradients of tiles that stay on a device; the same as in `reductions` and `gradients`, by torch."""

import math

import numpy as np

from mercer.engines import reductions, sources
from mercer.engines._tensor_tiles import product_precision, tile
from mercer.engines.gradients import Gradients, Weights
from mercer.errors import NanError
from mercer.kernels.statistics import Inner, SquaredDistance, Vector
from mercer.kernels.views import Features

__all__ = ["FUSED", "REDUCTIONS", "TensorGradients"]

_WIDEST = 256  # right-hand sides up to which tiles are made again for every few of them


# ------------------------------------------------------------------------------------------------ reductions
class _Sum:
    def __init__(self):
        self.total = 0.0

    def add(self, tile, offset):
        self.total = self.total + tile.double().sum(1)

    def result(self):
        return self.total


class _LogSumExp:
    def __init__(self):
        self.top, self.total = None, 0.0

    def add(self, tile, offset):
        tile = tile.double()
        new = tile.amax(1) if self.top is None else self.top.maximum(tile.amax(1))
        kept = 0.0 if self.top is None else self.total * (self.top - new).exp()
        self.total, self.top = kept + (tile - new[:, None]).exp().sum(1), new

    def result(self):
        return self.top + self.total.log()


class _Max:
    def __init__(self):
        self.top = None

    def add(self, tile, offset):
        self.top = tile.amax(1) if self.top is None else self.top.maximum(tile.amax(1))

    def result(self):
        return self.top


class _TopK:
    """A stable order: ties go to the smaller column, which torch.topk does not promise."""

    def __init__(self, k=1, largest=True):
        reductions.start("topk", k=k, largest=largest)  # refuses a k that is none
        self.k, self.largest = int(k), largest
        self.values = self.columns = None

    def add(self, tile, offset):
        import torch

        values, columns = _best(tile, self.k, self.largest)
        columns = columns + offset
        if self.values is not None:  # those of earlier columns first
            values, order = torch.hstack([self.values, values]).sort(dim=1, descending=self.largest, stable=True)
            columns = torch.hstack([self.columns, columns]).gather(1, order)
        self.values, self.columns = values[:, : self.k], columns[:, : self.k]

    def result(self):
        return self.values, self.columns


def _best(tile, k, largest):
    """The k best entries of each row and their columns, in a stable order.

    They are in the k runs of columns whose best entries are the best (of equal ones the first): the rest is never sorted.
    """
    import torch

    m = tile.shape[1]
    width = math.isqrt(m // k)  # about as many runs as there will be candidates
    if width < 2:
        values, order = tile.sort(dim=1, descending=largest, stable=True)
        return values[:, :k], order[:, :k]
    runs = tile[:, : m - m % width].unflatten(1, (-1, width))
    best = runs.amax(2) if largest else runs.amin(2)
    chosen = best.sort(dim=1, descending=largest, stable=True).indices[:, :k]
    chosen = chosen.sort(dim=1).values  # candidates in the order of columns
    places = (chosen[:, :, None] * width + torch.arange(width, device=tile.device)).flatten(1)
    rest = torch.arange(m - m % width, m, device=tile.device)
    places = torch.hstack([places, rest.expand(len(tile), -1)])
    values, order = tile.gather(1, places).sort(dim=1, descending=largest, stable=True)
    return values[:, :k], places.gather(1, order[:, :k])


class _ArgMin(_TopK):
    """The first of the smallest."""

    def __init__(self):
        self.values = self.columns = None

    def add(self, tile, offset):
        import torch

        values = tile.amin(1)
        # torch.argmin may give any of several: the first place where the smallest stands.
        columns = (tile == values[:, None]).to(torch.uint8).argmax(1) + offset
        if self.values is not None:
            better = values < self.values
            values, columns = values.where(better, self.values), columns.where(better, self.columns)
        self.values, self.columns = values, columns


#: Those that have a form on the device; others go tile by tile to the host.
REDUCTIONS = {"sum": _Sum, "logsumexp": _LogSumExp, "max": _Max, "topk": _TopK, "argmin": _ArgMin}


# Of generated kernels come (splits, n) tensors: the best entry, the watch over NaN, and a sum or a place.
def _join_sums(total):
    return total.double().sum(0)[:, 0]


def _join_max(best, watch):
    return best.amax(0)


def _join_places(best, watch, places):
    import torch

    value = best.amin(0)
    first = (best == value).to(torch.uint8).argmax(0)
    return value, places.gather(0, first[None])[0]


def _join_logs(best, watch, total):
    top = best.double().amax(0)
    return top + (total * (best.double() - top).exp()).sum(0).log()


#: The mode of a generated kernel for a reduction, and what joins its parts.
FUSED = {"sum": ("few", _join_sums), "max": ("max", _join_max), "argmin": ("argmin", _join_places),
         "logsumexp": ("logsumexp", _join_logs)}  # fmt: skip


# ------------------------------------------------------------------------------------------------ gradients
class TensorGradients(Gradients):
    """A backward sweep whose tiles and products are made on a device."""

    @property
    def place(self):
        return self.engine.place(self.x.dtype)

    def weights(self, W):
        return _TensorWeights(self.place, W, len(self.x), len(self.y))

    def run(self, W):
        with product_precision(self.place):
            return self._run(W)

    def _run(self, W):
        weights = self.weights(W)
        if weights.W is not None or not self._fusible(weights):
            return super().run(W)
        U, V = weights.pair or (self.place.send(np.ones((len(side), 1))) for side in (self.x, self.y))
        for target, slope in zip(self.targets, self.outputs, strict=True):
            self._whole(target, slope, U, V)
        self._vectors()
        return self

    def _tiles(self, weights):
        """Blocks of rows that do not fit the device are halved; one that did not is not in the sums."""
        columns = self.engine.columns_of(self.y)

        def rows(start, stop):
            self._merge(self._row_of_tiles(weights, slice(start, stop), columns))

        self.engine.by_rows(rows, len(self.x))

    def _fusible(self, weights):
        """Whether generated kernels can make all the sums, and W has a rank low enough for them."""
        rank = weights.pair[0].shape[1] if weights.pair else 1
        payloads = [target.payload for target in self.targets if target.op == "leaf"]
        rows = [_dense_rows(p, self.x, self.y) for p in payloads if not isinstance(p, Vector)]
        if None in rows or any(rank * (1 + T.shape[1]) > _WIDEST for _, T in rows):
            return False
        return all(self.engine.fusible(self.x, [slope]) for slope in self.outputs)

    def _whole(self, target, slope, U, V):
        """One target over all pairs: sum_q diag(U_q) S diag(V_q) T for the slopes S and the rows T, S never in memory."""
        payload = target.payload
        turned = sources.transposed(slope)
        if target.op == "param":
            self._add_parameter(payload, float((U.double() * self._sums(self.x, self.y, V, slope)).sum()))
        elif isinstance(payload, Vector) and payload.side == "column":
            self.by_vector[1][payload] = _array((V * self._sums(self.y, self.x, U, turned)).sum(1))
        elif isinstance(payload, Vector):
            self.by_vector[0][payload] = _array((U * self._sums(self.x, self.y, V, slope)).sum(1))
        else:
            A, B = map(self.place.send, _dense_rows(payload, self.x, self.y))
            key = payload.view, isinstance(payload, SquaredDistance)
            self._add_rows(0, key, self._row_slopes((self.x, self.y), slope, (U, V), (A, B), key[1]))
            if self.both:
                self._add_rows(1, key, self._row_slopes((self.y, self.x), turned, (V, U), (B, A), key[1]))

    def _sums(self, x, y, V, slope):
        return self.engine.product(x, y, V, slope, V.double().dtype)

    def _row_slopes(self, sides, slope, weights, rows, centred):
        """`_slopes` for W of low rank."""
        import torch

        (U, V), (A, B) = weights, rows
        right = (V[:, :, None] * B[:, None, :]).reshape(len(B), -1)
        found = self._sums(*sides, torch.hstack([V, right]) if centred else right, slope)
        rank = V.shape[1]
        G = (U[:, :, None] * found[:, -right.shape[1] :].reshape(len(A), rank, -1)).sum(1)
        return _array(2.0 * (A * (U * found[:, :rank]).sum(1)[:, None] - G) if centred else G)

    def _tile(self, total, xi, yj, W, r, c):
        for target, value in zip(self.targets, tile(self.place, self.outputs, xi, yj), strict=True):
            V = W * value
            if target.op == "param":
                total.parameter(target.payload, float(V.double().sum()))
            else:
                self._leaf_on_device(total, target.payload, V, xi, yj, r, c)

    def _leaf_on_device(self, total, payload, V, xi, yj, r, c):
        rows = _dense_rows(payload, xi, yj)
        if isinstance(payload, Vector):
            side, dim, part = (1, 0, c) if payload.side == "column" else (0, 1, r)
            total.vector(side, payload, part, _array(V.double().sum(dim)))
        elif rows is None:
            self._leaf(total, payload, _array(V), xi, yj, r, c)
        else:
            self._product(total, payload, V, map(self.place.send, rows), r, c)

    def _product(self, total, payload, V, rows, r, c):
        U, T = rows
        key = payload.view, isinstance(payload, SquaredDistance)
        total.rows(0, key, r, _slopes(V, U, T, key[1]))
        if self.both:
            total.rows(1, key, c, _slopes(V.T, T, U, key[1]))


def _slopes(V, U, T, centred):
    """Gradient in U of the sum over V times the products of U and T, or times their squared distances."""
    G = V @ T
    return _array(2.0 * (U * V.sum(1)[:, None] - G) if centred else G)


def _dense_rows(payload, x, y):
    """Rows of a product, or None where there is none of dense rows."""
    if not isinstance(payload, Inner | SquaredDistance) or isinstance(payload.view, Features):
        return None
    table = "centred" if isinstance(payload, SquaredDistance) else "views"
    rows = tuple(getattr(side, table)[payload.view] for side in (x, y))
    return rows if all(isinstance(part, np.ndarray) for part in rows) else None


class _TensorWeights(Weights):
    """Blocks of W on the device; a pair goes there once."""

    def __init__(self, place, W, n, m):
        self.place = place
        super().__init__(W, n, m)
        if self.pair:
            if not all(np.isfinite(part).all() for part in self.pair):
                raise NanError("W holds NaN or infinity")
            self.pair = tuple(map(place.send, self.pair))

    def whole(self, W):
        """A tensor that is on the device stays there."""
        import torch

        if not isinstance(W, torch.Tensor):
            return super().whole(W)
        if not bool(W.sum().isfinite()) and not bool(W.isfinite().all()):
            raise NanError("W holds NaN or infinity")
        return W

    def block(self, r, c):
        if self.pair:
            return self.pair[0][r] @ self.pair[1][c].T
        if self.W is not None and not isinstance(self.W, np.ndarray):
            return self.W[r, c].to(self.place.send(np.zeros(0)))
        part = super().block(r, c)
        return self.place.send(part) if isinstance(part, np.ndarray) else part


def _array(tensor):
    return tensor.cpu().numpy()

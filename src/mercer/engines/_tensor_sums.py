"""Row-wise reductions and gradients of tiles that stay on a device; the same as in `reductions` and `gradients`, by torch."""

import numpy as np

from mercer.engines import reductions
from mercer.engines._tensor_tiles import tile
from mercer.engines.gradients import Gradients, Weights
from mercer.errors import NanError
from mercer.kernels.statistics import Inner, SquaredDistance, Vector
from mercer.kernels.views import Features

__all__ = ["FUSED", "REDUCTIONS", "TensorGradients"]


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

        values, order = tile.sort(dim=1, descending=self.largest, stable=True)
        values, columns = values[:, : self.k], order[:, : self.k] + offset
        if self.values is not None:  # those of earlier columns first
            values, order = torch.hstack([self.values, values]).sort(dim=1, descending=self.largest, stable=True)
            columns = torch.hstack([self.columns, columns]).gather(1, order)
        self.values, self.columns = values[:, : self.k], columns[:, : self.k]

    def result(self):
        return self.values, self.columns


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
    return total.double().sum(0)


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
FUSED = {"sum": ("one", _join_sums), "max": ("max", _join_max), "argmin": ("argmin", _join_places),
         "logsumexp": ("logsumexp", _join_logs)}  # fmt: skip


# ------------------------------------------------------------------------------------------------ gradients
class TensorGradients(Gradients):
    """A backward sweep whose tiles and products are made on a device."""

    @property
    def place(self):
        return self.engine.place(self.x.dtype)

    def weights(self, W):
        return _TensorWeights(self.place, W, len(self.x), len(self.y))

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
        super().__init__(W, n, m)
        self.place = place
        if self.pair:
            if not all(np.isfinite(part).all() for part in self.pair):
                raise NanError("W holds NaN or infinity")
            self.pair = tuple(map(place.send, self.pair))

    def block(self, r, c):
        if self.pair:
            return self.pair[0][r] @ self.pair[1][c].T
        part = super().block(r, c)
        return self.place.send(part) if isinstance(part, np.ndarray) else part


def _array(tensor):
    return tensor.cpu().numpy()

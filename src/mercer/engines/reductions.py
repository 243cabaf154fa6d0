"""Row-wise reductions of a Gram, fed tile by tile: sum, logsumexp, max, top-k, argmin."""

import numpy as np

__all__ = ["OPERATIONS", "join", "start"]


class _Sum:
    def __init__(self):
        self.total = 0.0

    def add(self, tile, offset):
        self.total = self.total + tile.sum(axis=1, dtype=np.float64)

    def result(self):
        return self.total


class _LogSumExp:
    """Running maximum and scaled sum: nothing overflows, nothing underflows to log 0 that need not."""

    def __init__(self):
        self.top, self.total = None, 0.0

    def add(self, tile, offset):
        top = tile.max(axis=1).astype(np.float64)
        new = top if self.top is None else np.maximum(self.top, top)
        base = np.where(np.isfinite(new), new, 0.0)
        kept = 0.0 if self.top is None else self.total * np.exp(self.top - base)
        self.total = kept + np.exp(tile - base[:, None]).sum(axis=1, dtype=np.float64)
        self.top = new

    def result(self):
        with np.errstate(divide="ignore"):
            return np.where(np.isfinite(self.top), self.top, 0.0) + np.log(self.total)


class _Max:
    def __init__(self):
        self.top = None

    def add(self, tile, offset):
        top = tile.max(axis=1)
        self.top = top if self.top is None else np.maximum(self.top, top)

    def result(self):
        return self.top


class _TopK:
    """The k largest entries of each row and their columns, largest first; ties go to the smaller column."""

    def __init__(self, k=1, largest=True):
        if isinstance(k, bool) or k != int(k) or k < 1:
            raise ValueError(f"reduce('topk', k={k!r}): k must be a whole number >= 1")
        self.k, self.sign = int(k), 1.0 if largest else -1.0
        self.values = self.columns = None

    def add(self, tile, offset):
        columns = np.broadcast_to(np.arange(offset, offset + tile.shape[1]), tile.shape)
        values = tile
        if self.values is not None:
            values, columns = np.hstack([self.values, tile]), np.hstack([self.columns, columns])
        if values.shape[1] > self.k:
            # An exact threshold, then a stable order: which of several equal entries stays must not depend on the tiles.
            order = np.argsort(-self.sign * values, axis=1, kind="stable")[:, : self.k]
            values, columns = np.take_along_axis(values, order, 1), np.take_along_axis(columns, order, 1)
        self.values, self.columns = values, columns

    def result(self):
        order = np.argsort(-self.sign * self.values, axis=1, kind="stable")
        return np.take_along_axis(self.values, order, 1), np.take_along_axis(self.columns, order, 1)


class _ArgMin:
    """Smallest entry of each row and its column."""

    def __init__(self):
        self.value = self.column = None

    def add(self, tile, offset):
        column = tile.argmin(axis=1)
        value = tile[np.arange(len(tile)), column]
        column = column + offset
        if self.value is not None:
            better = value < self.value
            value, column = np.where(better, value, self.value), np.where(better, column, self.column)
        self.value, self.column = value, column

    def result(self):
        return self.value, self.column


OPERATIONS = {"sum": _Sum, "logsumexp": _LogSumExp, "max": _Max, "topk": _TopK, "argmin": _ArgMin}


def start(op: str, **options):
    if op not in OPERATIONS:
        raise ValueError(f"reduce({op!r}) is not known; the operations are {', '.join(OPERATIONS)}")
    return OPERATIONS[op](**options)


def join(op, parts):
    """Results of blocks of rows, one after the other."""
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(p) for p in zip(*parts, strict=True))
    return np.concatenate(parts)

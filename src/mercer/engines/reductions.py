"""Row-wise reductions of a Gram, fed tile by tile: sum, logsumexp, max, top-k, argmin, entries within a radius."""

import numpy as np

from mercer.errors import NanError

__all__ = ["COMPILED", "OPERATIONS", "join", "start"]


class _Sum:
    def __init__(self):
        self.total = 0.0

    def add(self, tile, offset):
        self.total = self.total + tile.sum(axis=1, dtype=np.float64)

    def result(self):
        return self.total


class _FastSum(_Sum):
    """By a compiled loop: NumPy copies float32 to float64 before it adds."""

    def add(self, tile, offset):
        from mercer.engines import _compiled_sums

        if not (tile.flags.c_contiguous and tile.flags.writeable):
            super().add(tile, offset)
            return
        found = np.empty(len(tile))
        _compiled_sums.row_sums(tile, found)
        self.total = self.total + found


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
        _refuse_nan(np.isnan(tile).any())
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


class _FastTopK(_TopK):
    """The same in compiled heaps, one a row: most entries cost one comparison."""

    def add(self, tile, offset):
        from mercer.engines import _compiled_topk

        tile = np.ascontiguousarray(tile, None if tile.dtype in (np.float32, np.float64) else np.float64)
        filled = 0 if self.values is None else self.values.shape[1]
        size = min(self.k, filled + tile.shape[1])
        keys, columns = np.empty((len(tile), size), tile.dtype), np.empty((len(tile), size), np.int64)
        if filled:
            keys[:, :filled], columns[:, :filled] = self.values, self.columns
        whole = _compiled_topk.add_tile(tile, offset, tile.dtype.type(-self.sign), keys, columns, filled)
        _refuse_nan(not whole)
        self.values, self.columns = keys, columns

    def result(self):
        from mercer.engines import _compiled_topk

        _compiled_topk.sort_heaps(self.values, self.columns)
        return self.values * self.values.dtype.type(-self.sign), self.columns


class _Within:
    """The entries of each row that are at most `radius`, in the order of columns, as (indptr, columns, values)."""

    def __init__(self, radius=0.0):
        if not np.isscalar(radius) or radius != radius:
            raise ValueError(f"reduce('within', radius={radius!r}): radius must be a number")
        self.radius, self.found = radius, []

    def add(self, tile, offset):
        _refuse_nan(np.isnan(tile).any())
        self.n_rows = len(tile)
        rows, columns = np.nonzero(tile <= _rounded_down(self.radius, tile.dtype))
        self.found.append((rows, columns + offset, tile[rows, columns]))

    def result(self):
        rows, columns, values = (np.concatenate(part) for part in zip(*self.found, strict=True))
        order = np.argsort(rows, kind="stable")  # tiles came in the order of columns
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.n_rows))])
        return indptr, columns[order], values[order]


def _rounded_down(radius, dtype):
    """A number in the tile's precision that keeps the same entries."""
    with np.errstate(over="ignore"):
        limit = dtype.type(radius)
    return np.nextafter(limit, dtype.type(-np.inf)) if float(limit) > radius else limit


def _refuse_nan(found):
    """Comparisons would lose it without a word."""
    if found:
        raise NanError(
            "the matrix holds NaN, which has no place in an order; check the kernel's parameters for overflow"
        )


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


OPERATIONS = {"sum": _Sum, "logsumexp": _LogSumExp, "max": _Max, "topk": _TopK, "argmin": _ArgMin, "within": _Within}
#: The same, with compiled forms where there are any.
COMPILED = {**OPERATIONS, "sum": _FastSum, "topk": _FastTopK}


def start(op: str, table=OPERATIONS, **options):
    """State of a reduction that tiles are added to, those of the same rows in the order of their columns."""
    if op not in table:
        raise ValueError(f"reduce({op!r}) is not known; the operations are {', '.join(table)}")
    return table[op](**options)


def join(op, parts):
    """Results of blocks of rows, one after the other."""
    if op == "within":
        return _join_lists(parts)
    if isinstance(parts[0], tuple):
        return tuple(np.concatenate(p) for p in zip(*parts, strict=True))
    return np.concatenate(parts)


def _join_lists(parts):
    sizes = np.concatenate([np.diff(indptr) for indptr, _, _ in parts])
    columns, values = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return np.concatenate([[0], np.cumsum(sizes)]), columns, values

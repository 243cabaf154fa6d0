"""Rows that come in blocks, as often as they are asked for: from arrays, memory-mapped files, Parquet files, or any batches
that can be started again. What is held in memory does not grow with the number of rows."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.errors import StreamError

__all__ = ["Block", "Held", "Look", "Stream", "from_arrays", "from_batches", "from_npy", "from_parquet", "look", "mark"]


LOOK = 65536  # rows at a time


class Block(NamedTuple):
    """Some rows that follow one another: X (m, d), y (m, p), w (m,)."""

    X: Any
    y: np.ndarray
    w: np.ndarray


class Held:
    """Validated rows of any kind that are in memory, in blocks."""

    def __init__(self, rows, y, w):
        self.rows, self.y, self.w = rows, y, w

    @property
    def nbytes(self) -> int | None:
        """Of dense rows; None of others."""
        return self.rows.nbytes if isinstance(self.rows, np.ndarray) else None

    def blocks(self, size: int) -> Iterator[Block]:
        """Blocks of `size` rows, but for the last."""
        for i in range(0, len(self.y), size):
            some = slice(i, i + size)
            yield Block(validate.take(self.rows, some), self.y[some], self.w[some])


class Stream:
    """Rows, targets and weights in blocks. Every pass must give the same rows: a mark of each block is kept and compared."""

    def __init__(self, batches: Callable[[], Iterator], what: str):
        self._batches, self._what = batches, what
        self._marks: dict[int, list[int]] = {}

    def __repr__(self):
        return f"<rows from {self._what}>"

    def blocks(self, size: int) -> Iterator[Block]:
        """Blocks of exactly `size` rows, but for the last: the same ones on every pass, however the batches are cut."""
        known = self._marks.get(size)
        marks: list[int] = []
        for number, block in enumerate(_cut(self._checked(), size)):
            this = mark(block)
            if known is not None and (number >= len(known) or known[number] != this):
                raise StreamError(
                    f"{self!r} gave other rows than before, from row {number * size} on: every pass must give the same "
                    "rows in the same order (no shuffling, no fresh random numbers)"
                )
            marks.append(this)
            yield block
        if known is not None and len(marks) < len(known):
            raise StreamError(
                f"{self!r} gave {len(known)} blocks before and {len(marks)} now: rows are missing at the end"
            )
        if not marks:
            raise StreamError(f"{self!r} has no rows")
        self._marks[size] = marks

    def _checked(self):
        """Batches as validated blocks, all of the same width."""
        first, start = None, 0
        for batch in self._batches():
            block = _block(batch, f"rows {start} and on of {self!r}")
            if block is None:
                continue
            shape = (block.X.shape[1], block.y.shape[1], block.X.dtype)
            first = shape if first is None else first
            if shape != first:
                raise StreamError(
                    f"rows {start} and on of {self!r} have {shape[0]} columns, {shape[1]} targets and dtype {shape[2]}; those "
                    f"before had {first[0]}, {first[1]} and {first[2]}"
                )
            start += len(block.y)
            yield block


def from_arrays(X, y, sample_weight=None) -> Stream:
    """Rows in memory or memory-mapped; nothing is copied but the block at hand."""
    if len(y) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, but y has {len(y)}")
    w = None if sample_weight is None else np.asarray(sample_weight)
    if w is not None and w.shape != (X.shape[0],):
        raise ValueError(f"sample_weight has shape {w.shape}, expected ({X.shape[0]},)")

    def batches():
        for i in range(0, X.shape[0], LOOK):
            some = slice(i, i + LOOK)
            yield X[some], y[some], None if w is None else w[some]

    return Stream(batches, f"arrays of {X.shape[0]} rows")


def from_npy(X, y, sample_weight=None) -> Stream:
    """Rows from .npy files by path, memory-mapped."""
    maps = [
        None if path is None else _mapped(path, name)
        for path, name in ((X, "X"), (y, "y"), (sample_weight, "sample_weight"))
    ]
    return from_arrays(*maps)


def from_parquet(paths, target, columns=None, weight=None) -> Stream:
    """Rows from one Parquet file or several with the same columns, row group by row group.

    target: name of the column to predict, or a list of them; columns: those of X, by default all others; weight: the column
    of weights.
    """
    files = [Path(p) for p in ([paths] if isinstance(paths, str | Path) else paths)]
    targets = [target] if isinstance(target, str) else list(target)

    def batches():
        import pyarrow.parquet as pq

        names = None
        for path in files:
            with pq.ParquetFile(path) as file:
                names = _names(file, path, targets, columns, weight, names)
                extra = [] if weight is None else [weight]
                for batch in file.iter_batches(columns=[*names, *targets, *extra]):
                    yield _of_table(batch, names, targets, weight)

    return Stream(batches, f"Parquet ({', '.join(p.name for p in files)})")


def from_batches(start: Callable[[], Iterator]) -> Stream:
    """Rows from a function without arguments that starts the batches anew: (X, y) or (X, y, w) each.

    >>> import numpy as np
    >>> stream = from_batches(lambda: ((np.full((3, 2), float(i)), np.zeros(3)) for i in range(4)))
    >>> [len(block.y) for block in stream.blocks(5)]
    [5, 5, 2]
    """
    if not callable(start):
        raise TypeError(
            f"start={start!r} must be a function that starts the batches, such as `lambda: read(...)`: the rows are read more "
            "than once"
        )
    return Stream(start, getattr(start, "__name__", "batches"))


@dataclass(frozen=True, eq=False)
class Look:
    """What a pass found: rows n, and a uniform sample of them, in their order, with their numbers."""

    n: int
    sample: Block
    index: np.ndarray


def look(stream: "Stream | Held", size: int, rng: np.random.Generator) -> Look:
    """Count the rows and draw a sample of `size` without replacement: those with the smallest of n random numbers, so that it
    does not depend on how the rows are cut."""
    if hasattr(stream, "look"):  # rows that are elsewhere send the sample alone
        return stream.look(size, rng)
    n, drawn = 0, _Drawn(size)
    for block in stream.blocks(LOOK):
        drawn.add(block, rng.random(len(block.y)), n)
        n += len(block.y)
    return Look(n, *drawn.result())


class _Drawn:
    """The rows with the smallest of the numbers seen. They are sorted out only when there are twice as many as wanted."""

    def __init__(self, size):
        self.size, self.bound, self.parts = size, np.inf, []

    def add(self, block, keys, offset):
        chosen = np.flatnonzero(keys < self.bound)
        # Always a copy: whoever gives the batches may fill the same array again.
        self.parts.append((_some(block, chosen), keys[chosen], offset + chosen))
        if sum(len(keys) for _, keys, _ in self.parts) > 2 * self.size:
            self._sort_out()

    def _sort_out(self):
        blocks, keys, index = zip(*self.parts, strict=True)
        block, numbers, places = _joined(blocks), np.concatenate(keys), np.concatenate(index)
        if len(numbers) > self.size:
            chosen = np.sort(np.argpartition(numbers, self.size - 1)[: self.size])
            block, numbers, places = _some(block, chosen), numbers[chosen], places[chosen]
            self.bound = numbers.max()
        self.parts = [(block, numbers, places)]

    def result(self):
        self._sort_out()
        block, _, index = self.parts[0]
        return block, index


# ------------------------------------------------------------------------------------------------ inside
def _mapped(path, name):
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{name}={str(path)!r} is not a .npy file of numbers: {error}") from None


def _names(file, path, targets, columns, weight, before):
    """Columns of X in a file; the same in all."""
    schema = file.schema_arrow
    special = [*targets, *([] if weight is None else [weight])]
    names = [c for c in schema.names if c not in special] if columns is None else list(columns)
    missing = [c for c in [*names, *special] if c not in schema.names]
    if missing or (before is not None and names != before):
        raise StreamError(f"{path.name} has the columns {schema.names}; expected {[*(before or names), *special]}")
    return names


def _of_table(batch, names, targets, weight):
    X = np.column_stack([_numbers(batch, name) for name in names])
    y = np.column_stack([_numbers(batch, name) for name in targets])
    return X, y, None if weight is None else _numbers(batch, weight)


def _numbers(batch, name):
    column = batch.column(name)
    if column.null_count:
        raise StreamError(f"column {name!r} has {column.null_count} missing values in a row group")
    return column.to_numpy(zero_copy_only=False)


def _block(batch, where) -> Block | None:
    """A validated batch; None if it is empty."""
    if not isinstance(batch, tuple) or len(batch) not in (2, 3):
        raise StreamError(f"{where}: a batch must be (X, y) or (X, y, w), got {type(batch).__name__}")
    X, y, w = (*batch, None)[:3]
    if len(y) == 0 and validate.n_rows(X) == 0:
        return None
    try:
        X = validate.rows(X, "vectors", "X")
    except (TypeError, ValueError) as error:
        raise StreamError(f"{where}: {error}") from error
    y = np.asarray(y, np.float64)
    y = y[:, None] if y.ndim == 1 else y
    w = np.ones(len(y)) if w is None else np.asarray(w, np.float64)
    if len(y) != X.shape[0] or w.shape != (len(y),):
        raise StreamError(f"{where}: X has {X.shape[0]} rows, y has {len(y)}, the weights have shape {w.shape}")
    if not np.isfinite(y).all() or not np.isfinite(w).all() or (w < 0).any():
        raise StreamError(f"{where}: y must be finite, and weights finite and not negative")
    return Block(X, y, w)


def _cut(blocks, size):
    """The same rows in blocks of one size."""
    held: list[Block] = []
    count = 0
    for block in blocks:
        start = 0
        while count + len(block.y) - start >= size:
            stop = start + size - count
            held.append(_part(block, start, stop))
            yield _joined(held)
            held, count, start = [], 0, stop
        if start < len(block.y):
            held.append(_part(block, start, len(block.y)))
            count += len(block.y) - start
    if held:
        yield _joined(held)


def _some(block, chosen):
    return Block(validate.take(block.X, chosen), block.y[chosen], block.w[chosen])


def _part(block, start, stop):
    return Block(*(a[start:stop] for a in block))


def _joined(blocks):
    if len(blocks) == 1:
        return blocks[0]
    Xs, ys, ws = zip(*blocks, strict=True)
    X = sp.vstack(Xs, format="csr") if sp.issparse(Xs[0]) else np.concatenate(Xs)
    return Block(X, np.concatenate(ys), np.concatenate(ws))


def mark(block) -> int:
    """A number by which a block is known again."""
    parts: list[np.ndarray] = [block.y, block.w]
    if sp.issparse(block.X):
        parts += [block.X.data, block.X.indices, block.X.indptr]
    elif isinstance(block.X, np.ndarray) and block.X.dtype.kind in "biuf":
        parts.append(block.X)
    found = 0
    for part in parts:
        found = zlib.crc32(np.ascontiguousarray(part).data, found)
    return found

"""Neighbours in the distance of a kernel: the nearest rows and those within a radius, tile by tile or by a tree.

Where the kernel's distance grows with one distance of vectors (a Gaussian, a linear kernel), rows are ordered by that one:
kernel values of far rows are all 0, and those of close ones differ by less than they are rounded.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import KDTree

from mercer.engines import CpuEngine, get_engine
from mercer.engines.nearest import nearest_vectors
from mercer.gram import GivenGram, Gram, budget, gram, prepared_gram
from mercer.gram.plan import require
from mercer.kernels.nearness import Nearness, nearness
from mercer.linalg.waiting import run_interruptibly
from mercer.threads import map_tiles

__all__ = ["GivenSearch", "KernelSearch", "Neighbors", "Queries", "VectorSearch", "search_of", "tree_pays"]

_SPARE = 8  # candidates beside those asked for: which of several equal ones stay is decided by exact distances
_ROUNDINGS = 16.0  # k(x,x) + k(y,y) - 2 k(x,y) is off by a few eps times its terms
_TREE_ROWS = 256  # queries that a thread asks a tree for at a time
_BUILD_SECONDS = 2e-7  # of a tree, per number
_PAIRS = 2**24  # numbers in one compiled call: a hundredth of a second


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Neighbours of some rows: those of row i are `columns[indptr[i] : indptr[i + 1]]`, with their squared distances.

    `squared` is None where the kernel values of the queries with themselves are not known.
    """

    indptr: np.ndarray
    columns: np.ndarray
    squared: Any

    @property
    def distances(self) -> np.ndarray:
        return np.sqrt(self.squared)

    @property
    def rows(self) -> np.ndarray:
        """The query that each entry belongs to."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows that neighbours are asked for, as a Gram with the training rows.

    own: their numbers if they are training rows, which are no neighbours of themselves; diagonal: k(x, x), where known.
    """

    gram: Any
    own: np.ndarray | None = None
    diagonal: Any = None

    def __len__(self):
        return self.gram.shape[0]

    def __getitem__(self, some) -> "Queries":
        own, diagonal = (None if v is None else v[some] for v in (self.own, self.diagonal))
        return Queries(self.gram[some], own, diagonal)


def search_of(kernel, rows, *, engine=None, memory=None, algorithm="auto") -> "KernelSearch | VectorSearch":
    """The search that suits a resolved kernel and its training rows; `algorithm` is "auto", "brute" or "tree"."""
    near = nearness(kernel)
    if near is None and algorithm == "tree":
        raise ValueError(
            f'algorithm="tree" needs a kernel that falls with one distance of vectors, such as RBF; {kernel!r} is not known '
            'to; use algorithm="brute"'
        )
    if near is None:
        return KernelSearch(gram(kernel, rows, engine=engine, memory=memory, validated=True))
    if algorithm == "tree" and sp.issparse(rows):
        rows = _dense(rows, memory)
    found = VectorSearch(kernel, near, rows, engine, memory)
    alone = not found.S.engine.beside_the_processor
    if algorithm == "tree" or (
        algorithm == "auto" and alone and not sp.issparse(found.vectors) and tree_pays(*found.vectors.shape)
    ):
        found.grow()
    return found


def _dense(rows, memory):
    """Sparse rows for a tree, which needs few columns to be of use."""
    n, d = rows.shape
    remedies = ['use algorithm="brute", which keeps rows sparse', "choose fewer columns"]
    require(8 * n * d, budget(memory), f"a tree of {n} rows with {d} columns, made dense,", remedies)
    return rows.toarray()


def tree_pays(n, d) -> bool:
    """Whether a tree is faster than all pairs; measured with 2 to 15 columns and 2000 to 100 000 rows."""
    return 1 <= d <= 9 and n >= 100 * 2**d


class KernelSearch:
    """By squared kernel distances of all pairs."""

    used = "brute"

    def __init__(self, K):
        self.K, self.D, self.diagonal = K, K.squared_distances(), K.diag()
        self.dtype = K.dtype

    def queries(self, rows=None) -> Queries:
        """New rows, or the training rows themselves."""
        if rows is None:
            return Queries(self.D, np.arange(len(self.D)), self.diagonal)
        x = prepared_gram(self.K, rows).x
        return Queries(prepared_gram(self.D, rows), None, self.K.engine.diag(x))

    def nearest(self, q: Queries, k: int) -> Neighbors:
        """The k nearest rows, nearest first, ties in the order of rows."""
        values, columns = q.gram.reduce("topk", k=_asked(q, k), largest=False)
        return _best(columns, self._settled(q, values, columns), q.own, k)

    def within(self, q: Queries, radius: float) -> Neighbors:
        """The rows at a kernel distance of at most radius, in their order."""
        slack = _ROUNDINGS * np.finfo(self.D.dtype).eps * 2 * max(map(np.max, (q.diagonal, self.diagonal)))
        indptr, columns, values = q.gram.reduce("within", radius=_square(radius) + max(float(slack), 0.0))
        found = Neighbors(indptr, columns, values)
        each = replace(q, gram=None, diagonal=q.diagonal[found.rows])
        return _kept(replace(found, squared=self._settled(each, values, columns)), q.own, radius)

    def _settled(self, q, values, columns):
        """Squared distances with what is no more than rounding set to 0: equal rows are equally far."""
        kx = q.diagonal.reshape(-1, *[1] * (values.ndim - 1)).astype(np.float64)
        noise = _ROUNDINGS * np.finfo(values.dtype).eps * (np.abs(kx) + np.abs(self.diagonal[columns]))
        return np.where(values <= noise, 0.0, values)


class VectorSearch:
    """By distances of vectors, all pairs or a tree; kernel distances are computed for the few rows that are found."""

    def __init__(self, kernel, near: Nearness, rows, engine=None, memory=None):
        runner = get_engine(engine)
        side = runner.prepare(near.lowered, rows)
        self.near, self.S, self.tree = near, Gram(kernel, runner, side, side, memory), None
        self.dtype = side.dtype

    @property
    def used(self):
        return "tree" if self.tree is not None else "brute"

    @property
    def vectors(self):
        """The training rows as the kernel sees them."""
        return self.S.y.centred[self.near.view]

    def grow(self):
        """Make the tree."""
        n, d = self.vectors.shape
        if not d:
            raise ValueError('algorithm="tree" needs columns, but all lengthscales are infinite; use algorithm="brute"')
        self.tree = run_interruptibly(KDTree, self.vectors, seconds_predicted=_BUILD_SECONDS * n * d)

    def queries(self, rows=None) -> Queries:
        """New rows, or the training rows themselves."""
        return Queries(self.S, np.arange(len(self.S))) if rows is None else Queries(prepared_gram(self.S, rows))

    def nearest(self, q: Queries, k: int) -> Neighbors:
        """The k nearest rows, nearest first, ties in the order of rows."""
        if self.tree is None:
            return self._kernel_distances(self._by_pairs(q, k))
        columns = self._ask(lambda x: self.tree.query(x, np.arange(1, _asked(q, k) + 1))[1], q)
        s = self._exact(q, columns)
        found = _best(columns, s, q.own, k)
        squared = found.squared.reshape(-1, k)
        doubtful = self._doubtful(squared[:, -1], s)
        if len(doubtful):
            again = self._by_pairs(q[doubtful], k)
            squared[doubtful] = again.squared.reshape(-1, k)
            found.columns.reshape(-1, k)[doubtful] = again.columns.reshape(-1, k)
        return self._kernel_distances(found)

    def within(self, q: Queries, radius: float) -> Neighbors:
        """The rows at a kernel distance of at most radius, in their order."""
        # What is within is decided by exact distances; those of a tile are off by less than this.
        loose = self.near.reach(_square(radius)) * (1 + 1e4 * np.finfo(self.S.dtype).eps)
        if self.tree is None:
            indptr, columns, values = q.gram.reduce("within", radius=loose)
        else:
            lists = self._ask(lambda x: self.tree.query_ball_point(x, math.sqrt(loose), return_sorted=True), q)
            indptr = np.concatenate([[0], np.cumsum([len(found) for found in lists])])
            columns, values = np.concatenate([np.asarray(found, np.int64) for found in lists]), None
        found = Neighbors(indptr, columns, values)
        if not sp.issparse(self.vectors):
            found = replace(found, squared=self._exact(q, columns[:, None], found.rows)[:, 0])
        return _kept(self._kernel_distances(found), q.own, radius)

    # ------------------------------------------------------------------------------------ parts
    def _by_pairs(self, q, k):
        sparse = sp.issparse(self.vectors)
        if sparse or not isinstance(self.S.engine, CpuEngine):
            values, columns = q.gram.reduce("topk", k=_asked(q, k), largest=False)
        else:
            x, y, view = q.gram.x, q.gram.y, self.near.view
            norms = x.norms[view], y.norms[view]
            count = k + (q.own is not None)
            _, columns = nearest_vectors(x.centred[view], y.centred[view], *norms, count, self.S.engine.threads)
        return _best(columns, values if sparse else self._exact(q, columns), q.own, k)

    def _doubtful(self, last, s):
        """Queries whose ties at the last place may go on beyond the candidates."""
        if s.shape[1] == len(self.vectors):
            return np.array([], np.intp)
        return np.flatnonzero(last >= s.max(axis=1) * (1 - 1e-12))

    def _ask(self, question, q):
        """What the tree says, by blocks of queries over the threads."""
        x, step = q.gram.x.centred[self.near.view], _TREE_ROWS

        def job(i):
            return question(x[i * step : (i + 1) * step])

        return np.concatenate(map_tiles(job, -(-len(x) // step), self.S.engine.threads))

    def _exact(self, q, columns, rows=None):
        """Squared distances of the vectors by differences, in float64: the same whoever found the columns."""
        from mercer.engines import _compiled_topk

        x, y = (side.centred[self.near.view] for side in (q.gram.x, q.gram.y))
        out = np.empty(columns.shape)
        step = max(1, _PAIRS // max(1, columns.shape[1] * y.shape[1]))

        def job(i):
            some = slice(i * step, (i + 1) * step)
            mine = x[some] if rows is None else x[rows[some]]
            _compiled_topk.pair_distances(mine, y, columns[some], out[some])

        map_tiles(job, -(-len(columns) // step), self.S.engine.threads)
        return out

    def _kernel_distances(self, found):
        return replace(found, squared=self.near.squared(found.squared))


class GivenSearch:
    """In a Gram matrix that was given. Of new rows k(x, x) is not known: their neighbours have an order, but no distances."""

    used = "brute"

    def __init__(self, K):
        self.K, self.diagonal, self.dtype = K, K.diag(), K.dtype

    def queries(self, gram=None) -> Queries:
        """The kernel values of new rows, or the training rows themselves."""
        return Queries(gram) if gram is not None else Queries(self.K, np.arange(len(self.K)), self.diagonal)

    def nearest(self, q: Queries, k: int) -> Neighbors:
        """The k nearest rows, nearest first, ties in the order of rows."""
        values, columns = GivenGram(self._squared(q)).reduce("topk", k=_asked(q, k), largest=False)
        found = _best(columns, values, q.own, k)
        return replace(found, squared=None if q.diagonal is None else np.maximum(found.squared, 0.0))

    def within(self, q: Queries, radius: float) -> Neighbors:
        """The rows at a kernel distance of at most radius, in their order."""
        found = Neighbors(*GivenGram(self._squared(q)).reduce("within", radius=_square(radius)))
        return _kept(found, q.own, radius)

    def _squared(self, q):
        """Squared distances, less k(x, x) where it is not known: the order is the same."""
        values = self.diagonal - 2 * q.gram.K
        if q.diagonal is None:
            return values
        values += q.diagonal[:, None]
        noise = _ROUNDINGS * np.finfo(values.dtype).eps * (np.abs(q.diagonal)[:, None] + np.abs(self.diagonal))
        values[np.abs(values) <= noise] = 0
        return values


def _asked(q, k):
    """Candidates to look for: some more than k, one of which may be the query itself."""
    return min(k + (q.own is not None) + _SPARE, q.gram.shape[1])


def _square(radius):
    """Of a radius, rounded up: what it may exclude is asked again by the square root."""
    return float(radius * radius * (1 + 4 * np.finfo(np.float32).eps))


def _best(columns, values, own, k):
    """The k smallest of each row of candidates, in order, ties to the smaller column; the row itself is none."""
    if own is not None:
        values = np.where(columns == own[:, None], np.inf, values)
    order = np.lexsort((columns, values), axis=1)[:, :k]
    columns, values = np.take_along_axis(columns, order, 1), np.take_along_axis(values, order, 1)
    m = len(columns)
    return Neighbors(k * np.arange(m + 1), columns.ravel(), values.ravel())


def _kept(found, own, radius):
    """Without the queries themselves, and without what exact distances put outside."""
    squared, rows = np.maximum(found.squared.astype(np.float64), 0.0), found.rows
    keep = np.sqrt(squared) <= radius
    if own is not None:
        keep &= found.columns != own[rows]
    sizes = np.bincount(rows[keep], minlength=len(found.indptr) - 1)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return Neighbors(indptr, found.columns[keep], squared[keep])

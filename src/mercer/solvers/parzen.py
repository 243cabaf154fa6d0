r"""Sums of windows of unit bandwidth (M14): densities and weighted sums at queries, by the cheapest of four methods.

.. math:: f(q) = \sum_i w_i\, c\, b_i^{-d}\, k\left(\frac{q - z_i}{b_i}\right)

"tiles" multiply a Gram matrix on the engine interface, which "auto" does wherever the engine has a device of its own. "tree" has
the points in a k-d tree, takes boxes of queries one by one, and opens boxes of points until the bounds of the window between
boxes meet the tolerance; what is left of the tolerance by one box of points is used for the others, in the spirit of Lee, Moore &
Gray (2006). "fft" is `mercer.solvers.binning`, and "line" `mercer.solvers.line`, which "auto" takes for Gaussian and exponential
windows in one dimension.
"""

import math
from functools import cached_property

import numpy as np

from mercer.engines import get_engine
from mercer.gram import gram, prepared_gram
from mercer.gram.plan import human_seconds
from mercer.solvers import binning, boxes
from mercer.solvers.line import line_of
from mercer.solvers.windows import Shape
from mercer.threads import map_tiles, stopping, thread_count

__all__ = ["ALGORITHMS", "Parzen", "parzen"]

#: Words for a method; scikit-learn's two trees mean the one here.
ALGORITHMS = {"auto": "auto", "tiles": "tiles", "tree": "tree", "kd_tree": "tree", "ball_tree": "tree", "fft": "fft"}

_ROUNDING = 2.0**-53
_TINY = {
    "float64": 1e-250,
    "float32": 1e-30,
}  # sums below are taken again by logarithms; by the precision of their terms
_LEAF = 64  # points, and queries, of a leaf
_LANES = 16  # queries that a loop takes at a time
_PAIRS = 5 * 10**7  # of one compiled call, about 0.1 s
_ENTRIES = 2**20  # of a tile with factors
_FEW = 500  # points that are not worth a tree
_TREE_COLUMNS = 8  # beyond, boxes are far from their points and products are fast
_MANY = 20_000  # points that are worth a grid
_SURE = 1e3  # times its error must a density on a grid be, for its logarithm
_SECONDS = 1.2e-9, 0.4e-9  # a pair in the tree, and a column more


def parzen(Z, weights, shape: Shape, form="radial", factors=None, algorithm="auto", engine=None) -> "Parzen":
    """The sum of windows around rows Z (n, d), whose bandwidth has been divided out.

    weights (n,) sum to 1, None for equal ones; factors (n,) are bandwidths b of single points, None for 1; `algorithm` is "auto",
    "tiles", "tree" or "fft"; `engine` computes the tiles.
    """
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm={algorithm!r} must be one of {', '.join(map(repr, ALGORITHMS))}")
    Z = np.ascontiguousarray(Z, np.float64)
    w = None if weights is None else np.ascontiguousarray(weights, np.float64)
    b = None if factors is None else np.ascontiguousarray(factors, np.float64)
    for name, given in (("weights", w), ("factors", b)):
        if given is not None and given.shape != (len(Z),):
            raise ValueError(f"{name} has the shape {given.shape}, but there are {len(Z)} points")
    made = Parzen(Z, w, shape, form, b, ALGORITHMS[algorithm], engine)
    reason = binning.why_not(shape, Z.shape[1], b)
    if made.algorithm == "fft" and reason:
        raise ValueError(f'algorithm="fft" is not possible: {reason}; use algorithm="tree"')
    return made


class Parzen:
    """What `parzen` gives. `used` is the method of the last call: "tiles", "tree", "line" or "fft"."""

    def __init__(self, Z, weights, shape, form, factors, algorithm, engine=None):
        self.Z, self.shape, self.form, self.algorithm, self.engine = Z, shape, form, algorithm, get_engine(engine)
        self.weights, self.factors = weights, factors
        self.used: str | None = None

    # ------------------------------------------------------------------------------------ answers
    def log_density(self, Q, rtol=0.0, atol=0.0) -> np.ndarray:
        """Logarithm of f at the rows of Q (m, d), -inf where no window reaches.

        |estimate - f| <= atol + rtol f for every query, f being the density of the rows as given here, without their bandwidth;
        0 and 0 mean the sum to rounding. Gaussian and exponential windows give finite logarithms however far a query is. On a
        grid the error is a part of the largest density instead (`mercer.solvers.binning.ACCURACY`); queries where the density
        is not a thousand times that error are summed by the tree.
        """
        Q = np.ascontiguousarray(Q, np.float64)
        self.used = self._method(rtol, atol)[0]
        if not len(Q):
            return np.empty(0)
        if self.used == "fft":
            return self._by_grid(Q, rtol, atol)
        if self.used == "line":
            return self._by_line(Q, rtol, atol)
        if self.used == "tree":
            return self._by_tree(Q, rtol, atol)
        sums = self._tiled(Q, self._heights[:, None])[:, 0]
        return self._logarithms(Q, sums) + self.shape.log_constant(Q.shape[1], self.form)

    def sums(self, Q, V) -> np.ndarray:
        """(m, p): sum_i w_i k((q - z_i) / b_i) V_i to rounding, the window having the value 1 at 0; V is (n, p).

        By tiles or the tree, also where a grid is asked for. Far away the sums are 0.
        """
        Q, V = np.ascontiguousarray(Q, np.float64), np.asarray(V, np.float64)
        w = self._weights[:, None]
        tiles = self._why_tiles() or (self.engine.beside_the_processor and self.factors is None)
        self.used = "tiles" if self.algorithm == "tiles" or (self.algorithm == "auto" and tiles) else "tree"
        if not len(Q):
            return np.empty((0, V.shape[1]))
        if self.used == "tiles":
            return self._tiled(Q, w * V)
        return self._tree.sums(Q, np.hstack([w, w * V]), 0.0, 0.0)[:, 1:]

    def grid(self, num=1024):
        """(points, density) on `num` equidistant places an axis that hold all windows, by the grid whatever the algorithm."""
        reason = binning.why_not(self.shape, self.Z.shape[1], self.factors)
        if reason:
            raise ValueError(f"no densities on a grid: {reason}")
        return self._binned.grid(num)

    def explain(self, m=None, rtol=0.0, atol=0.0) -> str:
        """Which method m queries (n unless given) would take, why, and about how long."""
        word, reason = self._method(rtol, atol)
        n, d = self.Z.shape
        m = n if m is None else m
        head = f"{self.shape.name} windows around {n} points in {d} dimension(s), {m} queries"
        seconds = human_seconds(self._predict(word, m, rtol))
        return f"{head}\nmethod      {word}: {reason}\ntime        about {seconds}"

    # ------------------------------------------------------------------------------------ the choice
    def _method(self, rtol, atol):
        """(word, reason)."""
        n, d = self.Z.shape
        if self.algorithm != "auto":
            return self.algorithm, "it was asked for"
        if atol > 0.0 and n >= _MANY and not binning.why_not(self.shape, d, self.factors):
            try:
                if self._binned.error <= atol:
                    return "fft", f"its error of {self._binned.error:.1g} is within atol"
            except ValueError:
                pass  # too many nodes: the tree is the plan without a grid
        why_tiles = self._why_tiles()
        if why_tiles:
            return "tiles", why_tiles
        if self.factors is not None:
            return "tree", "every point has its own bandwidth"
        if d == 1 and self._line is not None:
            return "line", "exact to rounding, and many points cost no more than few"
        if self.engine.beside_the_processor:
            return "tiles", f"all pairs at once on {self.engine.where}"
        return "tree", "exact to rounding" if rtol == atol == 0.0 else "as exact as asked for"

    def _why_tiles(self):
        """Why tiles are better than a tree; empty where they are not."""
        n, d = self.Z.shape
        if self.factors is not None:
            return ""
        if d > _TREE_COLUMNS:
            return f"boxes of points in more than {_TREE_COLUMNS} dimensions do not tell near from far"
        return "a tree is not worth its making for few points" if n <= _FEW else ""

    def _predict(self, word, m, rtol):
        n, d = self.Z.shape
        if word == "line":
            return 1e-7 * n + 5e-7 * m
        if word == "fft":
            return 1e-8 * (n + m) + 0.005
        if word == "tiles" and self.factors is None:
            return gram(self.shape.kernel(form=self.form), self.Z[:1], self.Z, engine=self.engine).plan.seconds * m
        pair = (_SECONDS[0] + _SECONDS[1] * max(d - 3, 0)) / thread_count()
        made = 1e-7 * (n + m) * math.log2(n + 1)
        return float(n) * m * pair * (self._share(rtol) if word == "tree" else 1.0) + made

    def _share(self, rtol):
        """The part of all pairs that is near enough to be looked at, from a few of them."""
        some, others = (self.Z[:: max(1, len(self.Z) // size)][:size] for size in (100, 1000))
        far = {
            "gaussian": math.sqrt(-2.0 * math.log(max(rtol, _ROUNDING))),
            "exponential": -math.log(max(rtol, _ROUNDING)),
        }
        reach = far.get(self.shape.name, 1.0) * (1.0 if self.factors is None else float(self.factors.max()))
        return float((np.abs(some[:, None] - others[None]).max(axis=2) <= reach + 0.5).mean())

    # ------------------------------------------------------------------------------------ the methods
    @cached_property
    def _weights(self):
        return np.full(len(self.Z), 1.0 / len(self.Z)) if self.weights is None else self.weights

    @cached_property
    def _heights(self):
        """Of the windows, but for the constant."""
        return self._weights if self.factors is None else self._weights * self.factors ** -float(self.Z.shape[1])

    @cached_property
    def _tree(self):
        return _Tree(self.Z, self.factors, self.shape, self.form)

    @cached_property
    def _binned(self):
        weights = 1.0 / len(self.Z) if self.weights is None else self.weights
        return binning.bin_windows(self.Z, weights, self.shape, self.form)

    @cached_property
    def _line(self):
        b = self._tree.boxes
        return line_of(self.shape, b.rows[:, 0], self._weights[b.order])

    def _by_grid(self, Q, rtol, atol):
        density = self._binned.density(Q)
        with np.errstate(divide="ignore"):
            found = np.log(density)
        return self._checked(Q, found, density >= _SURE * self._binned.error, rtol, atol)

    def _by_line(self, Q, rtol, atol):
        found, sure = self._line.log_sums(Q[:, 0])
        return self._checked(Q, found + self.shape.log_constant(1), sure, rtol, atol)

    def _checked(self, Q, found, sure, rtol, atol):
        """Log densities that are found, but for those that are not sure, which are left to the tree."""
        if not sure.all():
            found[~sure] = self._by_tree(Q[~sure], rtol, atol)
        return found

    def _by_tree(self, Q, rtol, atol):
        constant = self.shape.log_constant(Q.shape[1], self.form)
        sums = self._tree.sums(Q, self._heights[:, None], rtol, atol * math.exp(-constant))[:, 0]
        return self._logarithms(Q, sums) + constant

    @cached_property
    def _train(self):
        return gram(self.shape.kernel(form=self.form), self.Z, engine=self.engine)

    def _tiled(self, Q, V):
        if self.factors is None:
            return prepared_gram(self._train, Q) @ V
        step = max(1, _ENTRIES // self.Z.size)
        parts = map_tiles(lambda i: self._values(Q[i * step : (i + 1) * step]) @ V, -(-len(Q) // step))
        return np.concatenate(parts)

    def _values(self, Q):
        """Values of the windows, (len(Q), n)."""
        U = ((Q[:, None, :] - self.Z[None]) / self.factors[:, None]) ** 2
        return self.shape.value(U).prod(axis=2) if self.form == "product" else self.shape.value(U.sum(axis=2))

    def _logarithms(self, Q, sums):
        with np.errstate(divide="ignore"):
            found = np.log(sums)
        low = sums < _TINY[self.engine.computes_in(self.Z.dtype).name]
        if low.any() and not math.isfinite(self.shape.reach):
            found[low] = self._tree.log_sums(Q[low], self._heights)
        return found


class _Tree:
    """Points in a k-d tree, with windows of one kind around them."""

    def __init__(self, Z, factors, shape, form):
        from mercer.solvers import _compiled_parzen as loops

        self.boxes = boxes.build(Z, _LEAF)
        b = np.ones(len(Z)) if factors is None else factors[self.boxes.order]
        self.narrow = 1.0 / b
        limits = self.boxes.totals(b, np.minimum), self.boxes.totals(b, np.maximum)
        tree = self.boxes
        self.nodes = loops.Nodes(tree.start, tree.stop, tree.left, tree.lo, tree.hi, *limits)
        self.code, self.mode = loops.CODES[shape.name], loops.EUCLID
        if form == "product" and Z.shape[1] > 1 and shape.name != "gaussian":
            self.mode = loops.CITY if shape.name == "exponential" else loops.PRODUCT

    def sums(self, Q, V, rtol, atol):
        """(m, p): sum_i k_i(q) V_i, where V (n, p) has nothing negative in its first column, to which the tolerances refer: the
        error of another column is at most the largest ratio of the two in V times that of the first."""
        queries = boxes.build(Q, _LEAF, _LANES)
        V = np.ascontiguousarray(V[self.boxes.order])
        serve = _Server(self, V, max(rtol, _ROUNDING), atol)
        out = np.empty((len(Q), V.shape[1]))
        leaves = queries.leaves
        several = max(1, len(leaves) // 512)  # of them a job

        def job(i):
            lists = serve.lists()
            for leaf in leaves[i * several : (i + 1) * several]:
                a, b = queries.start[leaf], queries.stop[leaf]
                out[queries.order[a:b]] = serve(queries.rows[a:b], queries.lo[leaf], queries.hi[leaf], lists)

        map_tiles(job, -(-len(leaves) // several))
        return out

    def log_sums(self, Q, heights):
        """Logarithms of sum_i k_i(q) heights_i, for windows without an end, where the sum itself would be 0."""
        from mercer.solvers import _compiled_parzen as loops

        with np.errstate(divide="ignore"):
            logs = np.log(heights)[self.boxes.order]
        points = loops.Points(self.boxes.rows, self.narrow, logs[:, None])
        tops, out = self.boxes.totals(logs, np.maximum), np.empty(len(Q))
        several = -(-len(Q) // 64)

        def job(i):
            part, stack = slice(i * several, (i + 1) * several), np.empty(128, np.int64)
            rows, found, done = Q[part], out[part], 0
            while done < len(rows) and not stopping():
                done = loops.log_sums(
                    self.mode, self.code, self.nodes, points, logs, tops, rows, found, done, _PAIRS // 8, stack
                )

        map_tiles(job, -(-len(Q) // several))
        return out


class _Server:
    """Sums over a tree at the queries of one box."""

    def __init__(self, tree, V, rtol, atol):
        from mercer.solvers import _compiled_parzen as loops

        self.tree, self.rtol, self.atol, self.loops = tree, rtol, atol, loops
        self.points = loops.Points(tree.boxes.rows, tree.narrow, V)
        self.totals = np.ascontiguousarray(tree.boxes.totals(V))

    def lists(self):
        """Memory of one thread."""
        count = len(self.tree.boxes.leaves)
        return self.loops.Lists(np.empty(count, np.int64), np.empty(count), np.empty(count), np.empty(128, np.int64))

    def __call__(self, rows, lo, hi, lists):
        m, p = len(rows), self.totals.shape[1]
        full = -(-m // _LANES) * _LANES
        QT = np.repeat(rows[:1].T, full, axis=1)  # what is too many repeats the first
        QT[:, :m] = rows.T
        out, base, spare, state = np.empty((p, full)), np.empty(p), np.empty((2, full)), np.array([-1, 0])
        t = self.tree
        given = t.mode, t.code, t.nodes, self.points, self.totals, QT, lo, hi, self.rtol, self.atol
        while not stopping() and not self.loops.serve(*given, out, state, base, spare, lists, _PAIRS):
            pass
        return out[:, :m].T

"""Which expression explains the data? A search over sums of products of kernels by evidence or leave-one-out (M22)."""

import logging
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import _num_samples

from mercer import validate
from mercer.errors import MercerError
from mercer.estimators.additive import shown
from mercer.estimators.base import engine_of
from mercer.estimators.evidence import Settings, climb
from mercer.estimators.gaussian_methods import Exact
from mercer.estimators.gaussian_process import GaussianProcessRegressor, refuse_indefinite, spread
from mercer.estimators.tuning import check_counts
from mercer.gram import gram
from mercer.kernels import RBF, Kernel, Linear, Periodic, Product, RationalQuadratic, Scaled, Sum
from mercer.kernels.algebra import On
from mercer.kernels.resolve import at_quantile, reads_distances
from mercer.random import generator, some_of
from mercer.solvers.gaussian import posterior
from mercer.threads import map_tiles, stopping

__all__ = ["KernelSearch", "SearchStep", "peak_periods", "search_kernel"]

logger = logging.getLogger("mercer")

_LENGTHS = (0.02, 0.1, 0.4, 1.0)  # quantiles of the distances at which new lengthscales start
_ROUGH = 0.01  # of the variance of the targets: noise where a factor begins anew
_PERIODS = 4  # peaks of the periodogram that a new period starts from
_NEAR = 2.0  # factor by which a climb may change a period
_FIRST = 12  # iterations in which an expression shows what it is worth
_FINISHED = 4  # expressions of a step whose search is finished
_SMALL = 1024  # rows
_COLUMNS = 10  # that have kernels of their own unless told
_GAIN = 0.1  # of the score, that a larger expression must bring
_SHOWN = 4  # expressions of a step that are printed


@dataclass(frozen=True)
class SearchStep:
    """An expression that was tried. score : what the search goes by. value : log evidence, or leave-one-out log density."""

    step: int
    expression: str
    score: float
    value: float
    n_parameters: int
    kernel: Any = field(repr=False)
    kept: bool = False


@dataclass(frozen=True)
class KernelSearch:
    """What `search_kernel` found; it prints as the way there.

    expression, kernel : the best one, as names and with its parameters. score, value : as in `SearchStep`.
    estimator : a `GaussianProcessRegressor` with the kernel and the noise found, fitted on all rows.
    trace : every `SearchStep`, in the order tried. n_rows : rows that the search used, of n_all. at_bounds : names of parameters
        that ended at a bound.
    """

    expression: str
    kernel: Any
    alpha: float
    score: float
    value: float
    objective: str
    trace: list = field(repr=False)
    n_rows: int
    n_all: int
    at_bounds: list
    estimator: Any = field(repr=False)

    def __str__(self):
        score = "log evidence less p/2 log n" if self.objective == "evidence" else "leave-one-out log density"
        lines = [f"{len(self.trace)} expressions on {self.n_rows} of {self.n_all} rows; score: {score}"]
        for step in sorted({s.step for s in self.trace}):
            tried = sorted((s for s in self.trace if s.step == step), key=lambda s: -s.score)
            lines.append(f"step {step}, {len(tried)} tried")
            lines += [
                f"  {'*' if s.kept else ' '} {s.score:12.2f}  {s.n_parameters:2d}  {s.expression}"
                for s in tried[:_SHOWN]
            ]
        lines += [f"found {shown(self.kernel)}", f"noise variance {self.alpha:.4g}"]
        return "\n".join(lines + ([f"at a bound: {', '.join(self.at_bounds)}"] if self.at_bounds else []))


def search_kernel(X, y, *, base=None, objective="evidence", depth=5, beam=1, mean="constant", max_iter=100, n_rows=None,
                  random_state=None, engine=None, memory=None) -> KernelSearch:  # fmt: skip
    """Search for a sum of products of kernels that explains targets, from small expressions to larger ones.

    A step adds a kernel to each of the best expressions, multiplies one of its parts by a kernel, puts a kernel in the place of
    another, or drops a part. Parameters go on from where they were; new lengthscales start at several quantiles of the distances,
    new periods at peaks of the periodogram. The score is the log evidence less half the number of parameters times log n, or the
    leave-one-out log density. The search ends when no expression is better than the best one before.

    Parameters
    ----------
    X, y : rows and targets (n,).
    base : kernels to build from, a list or {name: kernel}. None: for one column `RBF`, `RationalQuadratic`, `Periodic` and
        `Linear` about the mean; for up to ten an `RBF` of all, and `RBF` and `Linear` of each.
    objective : "evidence" or "loo".
    depth : steps at most. beam : expressions that go on from a step.
    mean : as in `GaussianProcessRegressor`.
    max_iter : iterations of the search of an expression's parameters.
    n_rows : rows, drawn at random, that are used for the search; the model found is fitted on all. None: all.
    random_state : seed of that draw.
    engine, memory : how and within how many bytes Grams are computed.

    Returns
    -------
    A `KernelSearch`. Progress goes to the logger "mercer"; an interrupted search has logged each expression and its score.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import search_kernel
    >>> x = np.linspace(0, 10, 60)
    >>> y = 0.4 * x + np.sin(2 * np.pi * x / 2.5) + 0.05 * np.random.default_rng(0).standard_normal(60)
    >>> found = search_kernel(x[:, None], y, depth=2, max_iter=30)
    >>> found.expression
    'RBF + Periodic'

    Duvenaud, Lloyd, Grosse, Tenenbaum & Ghahramani (2013), Structure discovery in nonparametric regression.
    """
    if objective not in ("evidence", "loo"):
        raise ValueError(f'objective={objective!r} must be "evidence" or "loo"')
    least = {"depth": (depth, 1), "beam": (beam, 1), "max_iter": (max_iter, 1)}
    check_counts(**least, **({} if n_rows is None else {"n_rows": (n_rows, 4)}))
    check_consistent_length(X, y)
    n_all, rng = _num_samples(X), generator(random_state)
    index = np.arange(n_all) if n_rows is None else some_of(np.arange(n_all), int(n_rows), rng)
    model = GaussianProcessRegressor(_reader(base), mean=mean, max_iter=max_iter, engine=engine, memory=memory)
    search = _Search(model, _safe_indexing(X, index), _safe_indexing(y, index), base, objective)
    best, trace = search.run(int(depth), int(beam))
    kernel, alpha = best.climb.kernel, best.climb.extra["alpha"]
    fitted = GaussianProcessRegressor(kernel, alpha=alpha, mean=mean, optimizer=None, engine=engine, memory=memory)
    return KernelSearch(search.words(best.parts), kernel, alpha, best.score, best.climb.value, objective, trace, len(index),
                        n_all, best.climb.at_bounds, fitted.fit(X, y))  # fmt: skip


def _reader(base):
    """A kernel that reads all that the bases read, for validation of the rows."""
    kernels = list(base.values() if isinstance(base, dict) else base or ())
    wrong = [k for k in kernels if not isinstance(k, Kernel)]
    if wrong or (base is not None and not kernels):
        raise TypeError(
            f"base must hold kernels, such as [RBF('median'), Linear()], got {wrong[0] if wrong else base!r}"
        )
    return Sum(tuple(kernels)) if kernels else RBF("median")


# ------------------------------------------------------------------------------------------------ expressions
@dataclass(frozen=True)
class _Part:
    """scale * factors[0] * factors[1] * ...; kinds: numbers of the bases that the factors came from."""

    scale: float
    factors: tuple
    kinds: tuple

    @property
    def kernel(self):
        return Scaled(self.factors[0] if len(self.factors) == 1 else Product(self.factors), self.scale)


def _sum(parts):
    return parts[0].kernel if len(parts) == 1 else Sum(tuple(p.kernel for p in parts))


def _read(kernel, parts):
    """The parts with the parameters of a kernel that was made from them."""
    kernels = [kernel] if len(parts) == 1 else kernel.children
    return tuple(
        _Part(k.scale, (k.kernel,) if len(p.factors) == 1 else tuple(k.kernel.children), p.kinds)
        for k, p in zip(kernels, parts, strict=True)
    )


def _key(parts):
    """Equal for expressions that differ in the order of terms and factors only."""
    return tuple(sorted(tuple(sorted(p.kinds)) for p in parts))


@dataclass(frozen=True, eq=False)
class _Found:
    """An expression, what climbing it gave, and its score."""

    parts: tuple
    climb: Any
    score: float


def _best_of(found, count):
    """The best of them, each expression once."""
    best: dict = {}
    for f in sorted(found, key=lambda f: -f.score):
        best.setdefault(_key(f.parts), f)
    return list(best.values())[:count]


# ------------------------------------------------------------------------------------------------ the search
class _Search:
    """The data, the bases and the objective of a search; remembers which expressions it has seen."""

    def __init__(self, model, X, y, base, objective):
        _, exact, _ = model._prepared(X, y)
        exact = Exact(replace(exact.seen, noise=1.0))
        self.rows, self.T, self.H = exact.seen.rows, exact.seen.T, exact.seen.H
        if self.T.shape[1] != 1 or len(self.T) < 4:
            raise ValueError(f"a search needs one target and at least 4 rows, got targets of shape {self.T.shape}")
        self.model, self.objective = model, objective
        self.names, self.base = _named(base, self.rows)
        for kernel in self.base:
            refuse_indefinite(kernel, self.rows)
        self.variance = spread(self.T)
        self.evaluate = exact.evaluate if objective == "evidence" else exact.left_out
        self.seen: dict = {}  # the best score of each expression
        self.trace: list[SearchStep] = []

    def run(self, depth, beam):
        """The best expression, and all that were tried."""
        bests: list[_Found] = []
        for step in range(1, depth + 1):
            found = self._tried(self._candidates(bests))
            ahead = _best_of([*bests, *found], beam)
            self._tell(step, found, ahead)
            if not ahead:
                raise ValueError(
                    f"none of {', '.join(self.names)} could be fitted to these rows and targets; see the log"
                )
            before, bests = bests, ahead
            if before and bests[0].score <= before[0].score + _GAIN:
                break
        return bests[0], self.trace

    def words(self, parts):
        """The expression as names: RBF + RBF * Periodic."""
        return " + ".join(" * ".join(self.names[b] for b in sorted(p.kinds)) for p in parts)

    def _tell(self, step, found, ahead):
        for f in found:
            self.trace.append(SearchStep(step, self.words(f.parts), f.score, f.climb.value, len(f.climb.z), f.climb.kernel,
                                         f in ahead))  # fmt: skip
        if ahead:
            logger.info("kernel search, step %d: %s, score %.2f", step, self.words(ahead[0].parts), ahead[0].score)

    # ------------------------------------------------------------------------------------ expressions to try
    def _candidates(self, bests):
        """[[(alpha, parts, anew), ...], ...]: the starts of each expression; anew: whether an old part begins anew."""
        groups: dict = {}
        for start in (start for best in bests for start in self._around(best)) if bests else self._first():
            if not self._redundant(start[1]):
                groups.setdefault(_key(start[1]), []).append(start)
        return list(groups.values())

    def _first(self):
        fresh = self._fresh(self.T[:, 0])
        return [(0.1 * self.variance, (self._sized(_Part(1.0, (k,), (b,)), self.variance),), True) for b, k in fresh]

    def _around(self, best):
        """Starts of expressions one step from another: a part more, a factor more, another factor, a part less."""
        parts, alpha = best.parts, best.climb.extra["alpha"]
        fresh = self._fresh(self._residuals(best))
        again, rough = list(_restarted(parts, fresh)), max(alpha, _ROUGH * self.variance)
        for b, k in fresh:
            small, large = (self._sized(_Part(1.0, (k,), (b,)), size) for size in (alpha, 0.1 * self.variance))
            yield from ((alpha, (*parts, new), False) for new in (small, large))
            yield from ((rough, (*some, large), True) for some in again)
        for i, p in enumerate(parts):
            if len(parts) > 1:  # what the part explained is noise then
                yield alpha + self._size(p), (*parts[:i], *parts[i + 1 :]), False
            for b, k in fresh:
                yield alpha, _with(parts, i, replace(p, factors=(*p.factors, k), kinds=(*p.kinds, b))), False
                for j in (j for j, kind in enumerate(p.kinds) if kind != b):
                    swapped = replace(p, factors=_with(p.factors, j, k), kinds=_with(p.kinds, j, b))
                    sized = _with(parts, i, self._sized(swapped, self.variance))
                    yield from ((alpha, _with(parts, i, swapped), False), (alpha, sized, False), (rough, sized, True))

    def _size(self, part):
        """Mean variance of a part over the rows; 1 where it has none, which its value will tell."""
        try:
            return float(gram(part.kernel, self.rows, validated=True).diag().mean())
        except MercerError:
            return 1.0

    def _sized(self, part, size):
        """The part with a scale that gives it this variance."""
        own = self._size(part)
        return replace(part, scale=part.scale * size / own if own > 0 else size)

    def _redundant(self, parts):
        """Whether a smaller expression says the same: a factor twice in a product, or equal terms without parameters."""
        learned = [bool(k.differentiable) for k in self.base]
        twice = any(p.kinds.count(b) > 1 for p in parts for b in p.kinds if learned[b])
        plain = [tuple(sorted(p.kinds)) for p in parts if not any(learned[b] for b in p.kinds)]
        return twice or len(set(plain)) < len(plain)

    def _fresh(self, residuals):
        """(number, kernel) of each base, once for each place where its parameters may start."""
        found = []
        for b, kernel in enumerate(self.base):
            starts = [kernel]
            if any(reads_distances(leaf) for leaf in kernel._leaves):
                starts = [at_quantile(kernel, self.rows, q) for q in _LENGTHS]
            found += [(b, k) for start in starts for k in self._with_periods(start, residuals)]
        return found

    def _with_periods(self, kernel, residuals):
        """A kernel with its period at peaks of the targets' periodogram, and of what an expression left of them."""
        names = [n for n in kernel.differentiable if n.split("__")[-1] == "period"]
        x = _one_column(kernel, self.rows)
        if not names or x is None:
            return [kernel]
        periods = dict.fromkeys([*peak_periods(x, self.T[:, 0], _PERIODS), *peak_periods(x, residuals, _PERIODS)])
        return [kernel.replace(**dict.fromkeys(names, p)) for p in periods] or [kernel]

    def _residuals(self, best):
        """What an expression leaves of the targets: alpha times the coefficients."""
        K, alpha = gram(best.climb.kernel, self.rows, validated=True).dense(), best.climb.extra["alpha"]
        return alpha * posterior(K, alpha, self.T, self.H, warn=False).coefficients[:, 0]

    # ------------------------------------------------------------------------------------ what they are worth
    def _tried(self, candidates):
        """Expressions from the best of their starts; only the most promising ones are climbed to the end."""
        first = self._each(self._begun, candidates)
        found = sorted((f for f in first if f), key=lambda f: -f.score)
        found = [*self._each(self._finished, found[:_FINISHED]), *found[_FINISHED:]]
        for f in found:
            self.seen[_key(f.parts)] = max(f.score, self.seen.get(_key(f.parts), -np.inf))
        return found

    def _each(self, job, things):
        """Small problems side by side, each by one thread: many small matrices in turn make threads wait for one another."""
        if len(self.T) > _SMALL:
            return [job(thing) for thing in things]
        return map_tiles(lambda i: job(things[i]), len(things))

    def _finished(self, found):
        return self._climbed(found.climb.extra["alpha"], found.parts, self.model.max_iter) or found

    def _begun(self, starts):
        """The first steps from the best start of either kind; None where the expression has been better before.

        A start with old parameters has a good value, but may stay where it is; one with a part begun anew has far to go.
        """
        ends = [self._from_best([start for start in starts if start[2] is anew]) for anew in (False, True)]
        best = max((f for f in ends if f), key=lambda f: f.score, default=None)
        return None if best is None or best.score <= self.seen.get(_key(best.parts), -np.inf) else best

    def _from_best(self, starts):
        values = [f for f in (self._climbed(alpha, parts, 0) for alpha, parts, _ in starts) if f]
        best = max(values, key=lambda f: f.score, default=None)
        return best and self._climbed(best.climb.extra["alpha"], best.parts, _FIRST)

    def _interruptible(self, K, extra, slope):
        if stopping():
            raise KeyboardInterrupt  # of the main thread, which waits for this one
        return self.evaluate(K, extra, slope)

    def _climbed(self, alpha, parts, max_iter):
        """The expression with its parameters climbed so many steps; None where it has no value."""
        kernel = _sum(parts)
        limits = {"alpha": (1e-9 * self.variance, 1e2 * self.variance), **_near_periods(kernel)}
        settings = Settings(optimizer="fmin_l_bfgs_b" if max_iter else None, limits=limits, max_iter=max_iter,
                            engine=engine_of(self.model), memory=self.model.memory)  # fmt: skip
        try:
            found = climb(self._interruptible, kernel, self.rows, {"alpha": alpha}, settings)
        except (MercerError, FloatingPointError, OverflowError) as error:
            logger.info("kernel search: %s has no value (%s)", self.words(parts), error)
            return None
        price = 0.5 * len(found.z) * math.log(len(self.T)) if self.objective == "evidence" else 0.0
        return _Found(_read(found.kernel, parts), found, found.value - price)


# ------------------------------------------------------------------------------------------------ bases and starts
def _named(base, rows):
    """Names and kernels, words resolved on the rows."""
    if base is None:
        base = _usual(rows)
    if not isinstance(base, dict):
        names = [_name(k) for k in base]
        base = dict(
            zip([n if names.count(n) == 1 else repr(k) for n, k in zip(names, base, strict=True)], base, strict=True)
        )
    return list(base), [k._resolved(rows, None) for k in base.values()]


def _name(kernel):
    if isinstance(kernel, On):
        return f"{_name(kernel.kernel)}.on({', '.join(map(repr, kernel.chosen))})"
    return type(kernel).__name__


def _usual(rows):
    """The bases of Duvenaud et al. for one column; for several smooth and straight functions of each, and smooth ones of all."""
    if getattr(rows, "ndim", 1) != 2:
        raise ValueError("rows that are no numbers need base=[...], the kernels to build from")
    means = np.asarray(rows.mean(axis=0)).ravel()
    if len(means) > _COLUMNS:
        raise ValueError(f"X has {len(means)} columns; with kernels of each a step would try thousands of expressions. Name "
                         "those to build from: base=[RBF('median'), RBF('median').on(0), ...]")  # fmt: skip
    straight = [Linear().centre([[float(m)]]) for m in means]  # a line through the mean, not through 0
    if len(means) == 1:
        return {"RBF": RBF("median"), "RationalQuadratic": RationalQuadratic(1.0, "median"), "Periodic": Periodic(),
                "Linear": straight[0]}  # fmt: skip
    of_each = {f"RBF.on({j})": RBF("median").on(j) for j in range(len(means))}
    lines = {f"Linear.on({j})": line.on(j) for j, line in enumerate(straight)}
    return {"RBF": RBF("median"), **of_each, **lines}


def _one_column(kernel, rows):
    """The column that a kernel reads, None if it is not one of numbers."""
    rows = validate.part(rows, kernel.columns) if kernel.columns else rows
    if getattr(rows, "ndim", 1) != 2 or rows.shape[1] != 1 or hasattr(rows, "nnz"):
        return None
    return np.asarray(rows, np.float64)[:, 0]


def peak_periods(x, y, count) -> list[float]:
    """Periods at the highest peaks of the periodogram (Lomb-Scargle) of y over x, less a parabola."""
    from scipy.signal import lombscargle  # a fifth of a second, and only a search for periods needs it

    spread = float(np.ptp(x))
    if len(x) < 8 or not spread > 0:
        return []
    u = (x - x.mean()) / spread
    rest = y - np.polynomial.polynomial.Polynomial.fit(u, y, 2)(u)
    frequencies = np.arange(1.0, len(x) / 2.0, 0.1) / spread
    power = lombscargle(x - x.mean(), rest - rest.mean(), 2 * np.pi * frequencies)
    peaks = np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] >= power[2:])) + 1
    highest = peaks[np.argsort(-power[peaks], kind="stable")][:count]
    return [float(1.0 / f) for f in frequencies[highest]]


def _near_periods(kernel):
    """Ranges of periods: not far from the peak they came from, for those below the distance of rows explain everything."""
    values = kernel.get_params()
    return {n: (values[n] / _NEAR, values[n] * _NEAR) for n in kernel.differentiable if n.split("__")[-1] == "period"}


def _restarted(parts, fresh):
    """The parts with one factor begun anew: a new part may take over what it explained."""
    for i, p in enumerate(parts):
        for j, kind in enumerate(p.kinds):
            yield from (_with(parts, i, replace(p, factors=_with(p.factors, j, k))) for b, k in fresh if b == kind)


def _with(values, place, new):
    return (*values[:place], new, *values[place + 1 :])

"""The planner's upper half: the ways to solve a problem, with predicted bytes and seconds, and which of them is taken."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.approx import MOST_SAMPLED, choosing_bytes
from mercer.errors import MemoryBudgetError
from mercer.estimators.charts import remembered
from mercer.gram.plan import budget, entry_seconds, human_bytes, human_seconds, require
from mercer.linalg import seconds_for_cholesky

__all__ = [
    "USUAL_LANDMARKS",
    "MethodPlan",
    "Problem",
    "Way",
    "cg_rank",
    "exact_plan",
    "explanation",
    "gaussian_plan",
    "gaussian_rank",
    "gaussian_ways",
    "holds",
    "landmark_plan",
    "logistic_ways",
    "path_plan",
    "ridge_plan",
    "ridge_ways",
]

USUAL_LANDMARKS = 2000  # of which tables speak where none are asked for
_SWEEPS = 100  # what conjugate gradients usually need, with a factor of low rank to help them
_PATH_MATRICES = 1.8  # of float64
_LANDMARK_SWEEPS, _LANDMARK_MATRICES, _SHARED_MATRICES = 20, 5, 1.1
_SAMPLED = 6000  # rows of the sample, times copies of them, that are held with their products at a time
_LOGISTIC_SWEEPS, _LOGISTIC_STEPS = 60, 10  # passes over the rows, and Newton steps
#: A pass takes so much of the time of a Gram that is kept, as it writes none, and so many seconds for each entry and target.
_UNKEPT, _PRODUCTS = 0.6, 0.1e-9
_PATIENCE = 3600.0  # seconds that solver="auto" spends on iterations before it asks
#: n x n numbers that an evidence with its slope holds, here and on a device, which works in their place; factorisations' worth of
#: time in it, and m x m numbers through m rows.
_GAUSSIAN_MATRICES, _GAUSSIAN_THERE, _GAUSSIAN_FACTORS, _INDUCING_MATRICES = 3, 1.25, 3, 12
_SEARCHES = 3  # as many evaluations where inducing rows are searched for as well
#: Of an evidence by products alone: how many with the Gram, and columns of n numbers.
_PRODUCTS_EACH, _COLUMNS_EACH = 60, 2600
#: Threads that make as many kernel values as a GPU, and pairs of threads that factor as quickly in float64: orders of magnitude.
_GPU_THREADS, _GPU_CHOLESKY = 500.0, 300.0


@dataclass(frozen=True)
class Problem:
    """What plans depend on.

    features: number of explicit features of the kernel, infinite where it has none; outputs: functions to learn; landmarks:
    their number; choice: how they are chosen; cluster: threads of a Dask cluster; room: bytes free on a device that works,
    where: its name.
    """

    n: int
    d: int
    dtype: np.dtype
    features: float = math.inf
    outputs: int = 1
    landmarks: int = USUAL_LANDMARKS
    memory: str | float | None = None
    threads: int = 1
    choice: str = "uniform"
    cluster: int = 0
    room: int | None = None
    where: str = ""

    @property
    def limit(self) -> int:
        return budget(self.memory, self.room)

    def require(self, way: "Way", what, remedies, seconds):
        """Refuse at once what does not fit."""
        require(way.bytes, self.limit, what, remedies, seconds, self.where)

    @property
    def workers(self) -> float:
        """Threads of a processor that do as much as what computes here."""
        return max(self.threads, 1) if self.room is None else _GPU_THREADS

    def cholesky(self, n) -> float:
        """Seconds for a factorisation."""
        return seconds_for_cholesky(int(n)) / (1.0 if self.room is None else _GPU_CHOLESKY)

    @property
    def sweep(self) -> float:
        """Seconds for all pairs of rows."""
        return entry_seconds(self.d, self.dtype) * self.n * self.n / self.workers

    @property
    def passage(self) -> float:
        """Seconds for one pass over the rows with the landmarks."""
        entry = _UNKEPT * entry_seconds(self.d, self.dtype) + _PRODUCTS * self.outputs
        return entry * self.n * self.landmarks / self.workers


@dataclass(frozen=True)
class Way:
    """One way to solve a problem: what it takes, and what stands against it ("" for nothing)."""

    bytes: float
    seconds: float
    against: str = ""


@dataclass(frozen=True)
class MethodPlan:
    """What an estimator will do and what it will take."""

    method: str
    reason: str
    bytes: int
    seconds: float
    budget: int
    where: str = ""

    def __str__(self):
        place = f" on {self.where}" if self.where else ""
        return (
            f"method      {self.method}: {self.reason}\n"
            f"predicted   {human_bytes(self.bytes)} of {human_bytes(self.budget)}{place}, about {human_seconds(self.seconds)}"
        )


def explanation(estimator, plan: Callable[[], MethodPlan], ways: dict[str, Way]) -> str:
    """What an estimator would do or refuse to do, and all ways that there are with what stands against them."""
    try:
        said = str(plan())
    except MemoryBudgetError as error:
        said = f"refused     {error}"
    lines = [f"{name:<12}{_takes(way):<28} {way.against}".rstrip() for name, way in ways.items()]
    return "\n".join([f"{type(estimator).__name__}(kernel={estimator.kernel!r})", said, *lines])


def _takes(way):
    return f"{human_bytes(way.bytes)}, about {human_seconds(way.seconds)}" if math.isfinite(way.bytes) else "-"


# ------------------------------------------------------------------------------------------------ ridge regression
def ridge_ways(p: Problem) -> dict[str, Way]:
    """All ways to do ridge regression."""
    narrow = math.isfinite(p.features)
    primal = 8 * (2 * p.n * p.features + 2 * p.features**2) if narrow else math.inf
    seconds = 2.0 * p.n * p.features**2 / 3e10 + p.cholesky(p.features) if narrow else math.inf
    exact = 1.2 * p.dtype.itemsize * p.n * p.n
    shared = p.room is not None and p.landmarks > MOST_SAMPLED  # both factors lie in one matrix
    matrices = _SHARED_MATRICES if shared else _LANDMARK_MATRICES
    return {
        "primal": Way(primal, seconds, _against(primal, p) if narrow else "the kernel has no finite explicit features"),
        "exact": Way(exact, p.sweep + p.cholesky(p.n), _against(exact, p)),
        "cg": Way(
            64 * p.n * 8 + cg_rank(p.n, p.dtype, p.limit) * p.n * p.dtype.itemsize, p.sweep * _SWEEPS, _too_long(p)
        ),
        **_on_landmarks(p, matrices, _LANDMARK_SWEEPS * p.passage + 4 * p.cholesky(p.landmarks)),
    }


def ridge_plan(p: Problem, solver: str, precomputed=False) -> MethodPlan:
    """Exact, conjugate gradients or primal; refuses what does not fit, in no time."""
    ways = ridge_ways(p)
    method, reason = _ridge_method(p, solver, ways, precomputed)
    if method == "primal":
        p.require(ways["primal"], f"the primal problem with {p.features} features", ['use solver="exact"'], None)
    if method == "exact":
        p.require(ways["exact"], _what(p.n), _remedies(p), p.sweep)
    return _chosen(method, reason, ways, p)


def _ridge_method(p, solver, ways, precomputed):
    if solver == "primal" and not math.isfinite(p.features):
        raise ValueError('solver="primal" needs a kernel with a finite explicit feature map (k.feature_dim)')
    if solver != "auto" and not (precomputed and solver != "exact"):
        return solver, "as asked"
    if precomputed:
        return "exact", "the Gram matrix is given"
    if p.features <= p.n / 2 and not ways["primal"].against:
        return "primal", f"{p.features} explicit features for {p.n} rows"
    if ways["exact"].against and not ways["cg"].against:
        return "cg", f"the Gram matrix needs {human_bytes(ways['exact'].bytes)}"
    return "exact", "the Gram matrix fits the memory budget"  # or is refused, with remedies


def cg_rank(n, dtype, limit) -> int:
    """Rank of the factor that helps conjugate gradients, within an eighth of the budget; 0 where they need no help."""
    rank = min(int(5 * math.sqrt(n)), n // 4, int(limit / 8 / (n * np.dtype(dtype).itemsize)))
    return rank if n > 1000 and rank >= 10 else 0


def path_plan(n, d, dtype, memory=None) -> MethodPlan:
    """All alphas at once: the Gram becomes the orthogonal factor of its band form, whose reflectors are half a matrix more."""
    p = Problem(n, d, np.dtype(dtype), memory=memory)
    seconds = p.sweep + 8 * seconds_for_cholesky(n)
    plan = MethodPlan("path", "all alphas from one reduction", int(_PATH_MATRICES * 8 * n * n), seconds, p.limit)
    remedies = [
        "fit on a sample of the rows",
        "use KernelRidge with a given alpha, on landmarks: n_landmarks=2000",
        'raise the budget, for example memory="64GB"',
    ]
    require(plan.bytes, p.limit, f"leave-one-out of {n} rows", remedies, p.sweep)
    return plan


# ------------------------------------------------------------------------------------------------ logistic regression
def logistic_ways(p: Problem) -> dict[str, Way]:
    """All ways to do logistic regression: in each Newton step a factorisation for each function."""

    def steps(M):
        return _LOGISTIC_STEPS * p.outputs * seconds_for_cholesky(M) * (1 + 3 * min(p.n / M, 4))

    exact = _logistic_bytes(p.n, p.outputs)
    return {
        "exact": Way(exact, p.sweep + steps(p.n), _against(exact, p)),
        **_on_landmarks(p, _logistic_bytes(1, p.outputs) / 8, _LOGISTIC_SWEEPS * p.passage + steps(p.landmarks)),
    }


def exact_plan(p: Problem, ways: dict[str, Way], what: str) -> MethodPlan:
    """On all rows, where a Gram matrix and what goes with it fit."""
    remedies = ["use landmarks, n_landmarks=2000", 'raise the budget, for example memory="64GB"']
    p.require(ways["exact"], what, remedies, ways["exact"].seconds)
    return _chosen("exact", "the Gram matrix fits the memory budget", ways, p)


def _logistic_bytes(M, outputs):
    """Some matrices of the landmarks, and one for each function."""
    return 8 * M * M * (4 + outputs)


# ------------------------------------------------------------------------------------------------ Gaussian processes
def gaussian_ways(p: Problem, evaluations: int) -> dict[str, Way]:
    """All ways to a Gaussian process whose evidence is evaluated so often; `landmarks` are inducing rows."""
    n, m = p.n, p.landmarks
    passing, searching = 8 * min(n * m, 2**20) + holds(n * m, p.limit) * n * m, 3 * remembered(m * p.d) * m * p.d
    numbers = {
        "exact": (_GAUSSIAN_MATRICES if p.room is None else _GAUSSIAN_THERE) * n * n,
        "sparse": _INDUCING_MATRICES * m * m + passing + searching,
        "iterative": n * (_COLUMNS_EACH + 3 * gaussian_rank(n, p.limit) + holds(n * n, p.limit) * n),
    }
    seconds = {
        "exact": p.sweep + _GAUSSIAN_FACTORS * p.cholesky(n),
        "sparse": 4 * p.passage + (40 * n / m + 20) * seconds_for_cholesky(m),
        "iterative": _PRODUCTS_EACH * p.sweep,
    }
    seconds["sparse"] *= _SEARCHES if evaluations > 1 else 1
    needed = {name: 8 * count for name, count in numbers.items()}
    needed["sparse"] = max(needed["sparse"], choosing_bytes("rpcholesky", m, n, np.float64))
    return {
        name: Way(needed[name], evaluations * s, _against(needed[name], p) or _too_long_for(evaluations * s))
        for name, s in seconds.items()
    }


def gaussian_plan(p: Problem, method: str, evaluations: int, what: str) -> MethodPlan:
    """Exact where that fits memory and patience, else through inducing rows; refuses what does not fit, in no time."""
    ways = gaussian_ways(p, evaluations)
    reason = "as asked"
    if method == "auto":
        method = "sparse" if ways["exact"].against else "exact"
        against = f"the closed form would take {_takes(ways['exact'])}, so through {p.landmarks} inducing rows"
        matrices = "three n x n matrices fit" if p.room is None else "an n x n matrix fits"
        reason = against if method == "sparse" else f"{matrices} the memory budget"
    remedies = [
        "a smaller n_inducing" if method == "sparse" else 'method="sparse": little memory, and time in proportion to the rows',
        "fewer rows",
        'a larger budget, memory="64GB"',
    ]  # fmt: skip
    p.require(ways[method], what, remedies, p.sweep)
    return _chosen(method, reason, ways, p)


def holds(numbers, limit) -> bool:
    """Whether so many numbers are kept from one pass to the next, rather than made again."""
    return 8 * numbers <= limit / 4


def gaussian_rank(n, limit) -> int:
    """Rank of the preconditioner, within an eighth of the budget."""
    return max(1, min(n, int(5 * math.sqrt(n)), int(limit / 8 / (8 * n))))


# ------------------------------------------------------------------------------------------------ landmarks
def landmark_plan(p: Problem, ways: dict[str, Way], what: str, on_cluster=False) -> MethodPlan:
    """On landmarks: refuses more of them than fit, in no time."""
    method = "dask" if on_cluster else "landmarks"
    remedies = ["use fewer landmarks", 'raise the budget, for example memory="64GB"']
    p.require(ways[method], f"{what} on {p.landmarks} landmarks", remedies, p.passage)
    return _chosen(method, f"{p.landmarks} landmarks for {p.n} rows", ways, p)


def _on_landmarks(p, matrices, seconds):
    """Here, and on a cluster."""
    solving = 8 * (matrices * p.landmarks**2 + _SAMPLED * p.landmarks)
    needed = max(solving, choosing_bytes(p.choice, p.landmarks, p.n, p.dtype))
    told = f"n_landmarks={p.landmarks}"
    there = f"{told}, X a Dask array; " + (f"{p.cluster} threads" if p.cluster else "no cluster now")
    return {
        "landmarks": Way(needed, seconds, _against(needed, p) or told),
        "dask": Way(needed, seconds * p.threads / (p.cluster or p.threads), _against(needed, p) or there),
    }


# ------------------------------------------------------------------------------------------------ inside
def _chosen(method, reason, ways, p):
    way = ways[method]
    return MethodPlan(method, reason, int(way.bytes), way.seconds, p.limit, p.where)


def _against(needed, p):
    return "" if needed <= p.limit else f"more than the budget of {human_bytes(p.limit)}"


def _too_long(p):
    return _too_long_for(p.sweep * _SWEEPS)


def _too_long_for(seconds):
    return "" if seconds <= _PATIENCE else f"more than {human_seconds(_PATIENCE)}: only if asked for"


def _what(n):
    return f"kernel ridge with {n} rows (a {n} x {n} matrix)"


def _remedies(p):
    return [
        "solve on landmarks, which takes little memory and time in proportion to the rows: n_landmarks=2000",
        f'solver="cg" works tile by tile in little memory, {human_seconds(p.sweep)} for each of some {_SWEEPS} iterations',
        "a kernel with few explicit features (Linear, Polynomial) is solved in the primal",
        'raise the budget, for example memory="64GB"',
    ]

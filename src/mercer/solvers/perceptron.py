r"""The kernel perceptron (M3): rows one after another, an update at each mistake.

.. math:: f(x) = \sum_i c_i (k(x_i, x) + b), \qquad c_i \mathrel{+}= e_{y_i} - e_r \quad\text{where}\quad
          f_{y_i}(x_i) \le f_r(x_i) = \max_{s \ne y_i} f_s(x_i)

with b = 1 for a machine with a bias and 0 without; two classes need one column, c_i += y_i. Rows are taken in blocks:
the scores of a block come from one product with the rows that erred before, and inside the block a compiled pass goes
row by row. What it does is what the textbook's loop does. Rosenblatt (1958); Freund & Schapire (1999).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from mercer.errors import NanError
from mercer.registry import register_record
from mercer.threads import map_tiles

__all__ = [
    "DualScores",
    "PerceptronSolution",
    "PerceptronState",
    "PrimalScores",
    "compression_bound",
    "finite_product",
    "mistake_bound",
    "solve_perceptron",
    "voted_scores",
]

_BLOCK = 512
_SETTLE = 4096  # rows whose scores are brought up to date at a time
_VOTE = (2048, 1024)  # rows and mistakes of a tile of the vote


# ---------------------------------------------------------------------------------------------- scores
class DualScores:
    """Scores of rows of a Gram under coefficients that change.

    What all rows scored when a pass began is kept (n, c); a block then needs only the rows that changed since.
    """

    def __init__(self, K, columns: int, shift: float = 0.0):
        self.K, self.shift, self.columns = K, shift, columns
        self.base: np.ndarray | None = None
        self.change = np.zeros((K.shape[0], columns))  # pages are taken when they are written
        self.moved = np.zeros(K.shape[0], dtype=bool)
        self._diagonal: np.ndarray | None = None

    def of(self, rows) -> np.ndarray:
        """Scores (len(rows), c) in float64."""
        out = np.zeros((len(rows), self.columns)) if self.base is None else self.base[rows]
        moved = np.flatnonzero(self.moved)
        if len(moved):
            change = self.change[moved]
            out += self.K[rows, moved] @ change.astype(self.K.dtype)
            out += self.shift * change.sum(axis=0)
        return out

    def block(self, rows, columns) -> np.ndarray:
        """Kernel values between two lists of rows."""
        return np.ascontiguousarray(self.K[rows, columns].dense())

    def diag(self, rows) -> np.ndarray:
        if self._diagonal is None:
            self._diagonal = self.K.diag()
        return self._diagonal[rows]

    def add(self, rows, change):
        """Add to the coefficients of different rows."""
        self.change[rows] += change
        self.moved[rows] = True

    def settle(self):
        """Bring the scores of all rows up to date."""
        if self.moved.any():
            rows = np.arange(len(self.moved))
            parts = [self.of(rows[i : i + _SETTLE]) for i in range(0, len(rows), _SETTLE)]
            self.base = np.concatenate(parts)
            self.change[self.moved] = 0.0
            self.moved[:] = False


class PrimalScores:
    """Scores from explicit features: `features(rows)` gives them, dense or sparse (len(rows), p)."""

    def __init__(self, features: Callable, width: int, columns: int, shift: float = 0.0):
        self.features, self.shift = features, shift
        self.weights, self.bias = np.zeros((width, columns)), np.zeros(columns)

    def of(self, rows) -> np.ndarray:
        F = self.features(rows)
        return finite_product(F, self.weights.astype(F.dtype)) + self.shift * self.bias

    def block(self, rows, columns) -> np.ndarray:
        return np.ascontiguousarray(finite_product(self.features(rows), self.features(columns).T))

    def diag(self, rows) -> np.ndarray:
        F = _dense(self.features(rows))
        return np.einsum("ij,ij->i", F, F)

    def add(self, rows, change):
        F = self.features(rows)
        self.weights += finite_product(F.T, change.astype(F.dtype))
        self.bias += change.sum(axis=0)

    def settle(self):
        """Weights are always up to date."""


def finite_product(A, B) -> np.ndarray:
    """A @ B, dense; features that overflow are refused."""
    with np.errstate(all="ignore"):
        out = _dense(A @ B)
    if not np.isfinite(out).all():
        raise NanError("inner products of the features overflow; rescale the columns")
    return out


def _dense(A):
    return A.toarray() if hasattr(A, "toarray") else A


def _compact(numbers):
    """Whole numbers >= 0 in as few bytes as they need."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


# ---------------------------------------------------------------------------------------------- records
@register_record
@dataclass(frozen=True, eq=False)
class PerceptronState:
    """All that the next row needs to know of the rows before it: m rows that erred, c columns.

    rows: their numbers, increasing; labels; coefficients (m, c); sums (m, c): every update times the steps before it;
    stamps: number of a row's last mistake. seen: rows that were shown; steps: how often rows were shown; mistakes: how
    many there were; forgotten: rows that had to go. history (3, mistakes): row number, rival class and step of each
    mistake, or None.
    """

    rows: np.ndarray
    labels: np.ndarray
    coefficients: np.ndarray
    sums: np.ndarray
    stamps: np.ndarray
    seen: int
    steps: int
    mistakes: int
    forgotten: int
    history: np.ndarray | None

    @classmethod
    def empty(cls, n_classes: int, history: bool = False) -> "PerceptronState":
        nothing, matrix = np.zeros(0, np.int64), np.zeros((0, 1 if n_classes == 2 else n_classes))
        return cls(
            nothing, nothing, matrix, matrix, nothing, 0, 0, 0, 0, np.zeros((3, 0), np.int64) if history else None
        )

    @property
    def averaged(self) -> np.ndarray:
        """Mean of the coefficients after each step."""
        return self.coefficients - self.sums / max(self.steps, 1)

    @property
    def lives(self) -> np.ndarray:
        """Steps that the machine after each mistake lived; they add up to the steps."""
        return np.diff(self._history[2], append=self.steps)

    @property
    def slots(self) -> np.ndarray:
        """Place among the stored rows of each mistake."""
        return np.searchsorted(self.rows, self._history[0])

    @property
    def _history(self):
        if self.history is None:
            raise ValueError("this state was made without history; ask for history=True")
        return self.history

    def machine(self, number: int) -> np.ndarray:
        """Coefficients (m, c) after the mistake of this number."""
        slots = self.slots[: number + 1]
        out = np.zeros_like(self.coefficients)
        np.add.at(out, slots, _updates(self.labels[slots], self._history[1, : number + 1], out.shape[1]))
        return out


@dataclass(frozen=True, eq=False)
class PerceptronSolution:
    """State after the last pass, mistakes in each pass, and whether the last one had none."""

    state: PerceptronState
    mistakes: list[int]
    converged: bool


def _updates(labels, rivals, columns):
    """What mistakes add to the coefficients (len(labels), c)."""
    if columns == 1:
        return 2.0 * labels[:, None] - 1.0
    out = np.zeros((len(labels), columns))
    each = np.arange(len(labels))
    out[each, labels], out[each, rivals] = 1.0, -1.0
    return out


# ---------------------------------------------------------------------------------------------- learning
def solve_perceptron(
    scores: DualScores | PrimalScores,
    labels: np.ndarray,
    orders: Iterable[np.ndarray],
    start: PerceptronState,
    *,
    budget: int | None = None,
    merge: bool = False,
    block: int = _BLOCK,
) -> PerceptronSolution:
    """Passes over rows in the given orders, until one has no mistake.

    `scores` knows the rows stored in `start` first, then new ones; `labels` are the class numbers of all of them and
    `orders` name the new ones by their place. With a `budget` a row has to go when too many are stored: the one whose
    mistake is oldest, or with `merge` the one of smallest weight, which is projected on the stored row nearest to it in
    direction.

    >>> from mercer.gram import GivenGram
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, -2.0]])
    >>> solution = solve_perceptron(
    ...     DualScores(GivenGram(X @ X.T), 1), np.array([1, 1, 0]), [np.arange(3)] * 9, PerceptronState.empty(2)
    ... )
    >>> solution.converged, solution.mistakes, solution.state.rows
    (True, [1, 0], array([0]))
    """
    run = _Run(scores, np.ascontiguousarray(labels, np.int64), start, budget, merge)
    run.keep_budget(np.zeros(0, np.intp), np.zeros((0, start.coefficients.shape[1])))
    made: list[int] = []
    for order in orders:
        if made:
            scores.settle()
        before = run.mistakes
        for i in range(0, len(order), block):
            run.learn_block(np.asarray(order[i : i + block]))
        made.append(run.mistakes - before)
        if not made[-1]:
            break
    return PerceptronSolution(run.state(), made, bool(made) and made[-1] == 0)


class _Run:
    """Coefficients by row while rows are shown."""

    def __init__(self, scores, labels, start, budget, merge):
        self.scores, self.labels, self.budget, self.merge = scores, labels, budget, merge
        n, known = len(labels), len(start.rows)
        self.numbers = np.concatenate([start.rows, start.seen + np.arange(n - known)])
        self.coefficients, self.sums = (np.zeros((n, start.coefficients.shape[1])) for _ in range(2))
        self.stamps = np.full(n, -1)
        self.coefficients[:known], self.sums[:known], self.stamps[:known] = start.coefficients, start.sums, start.stamps
        self.stored, self.steps, self.mistakes = known, start.steps, start.mistakes
        self.seen, self.forgotten = start.seen + n - known, start.forgotten
        self.history = None if start.history is None else [start.history]
        scores.add(np.arange(known), start.coefficients)

    def learn_block(self, rows):
        from mercer.solvers import _compiled_perceptron as compiled

        f, labels = np.ascontiguousarray(self.scores.of(rows), np.float64), self.labels[rows]
        if self._any_wrong(f, labels):  # late passes have few mistakes: most blocks need no Gram of their own
            G = self.scores.block(rows, rows)
            where, rivals = np.empty((2, len(rows)), np.int64)
            start = 0
            while start < len(rows):
                most = len(rows) if self.budget is None else max(1, self.budget - self.stored)
                count, start = compiled.sweep(f, G, labels, self.scores.shift, start, most, where, rivals)
                self._learn(rows, where[:count], rivals[:count])
                self.keep_budget(rows[start:], f[start:])
        self.steps += len(rows)

    def _any_wrong(self, f, labels):
        if f.shape[1] == 1:
            return not (f[:, 0] * (2 * labels - 1) > 0).all()
        others = f.copy()
        others[np.arange(len(f)), labels] = -np.inf
        return not (f[np.arange(len(f)), labels] > others.max(axis=1)).all()

    def _learn(self, rows, where, rivals):
        chosen, steps = rows[where], self.steps + where
        change = _updates(self.labels[chosen], rivals, self.coefficients.shape[1])
        self.stored += int((self.stamps[chosen] < 0).sum())
        self.coefficients[chosen] += change
        self.sums[chosen] += steps[:, None] * change
        self.stamps[chosen] = self.mistakes + np.arange(len(chosen))
        self.scores.add(chosen, change)
        self.mistakes += len(chosen)
        if self.history is not None:
            self.history.append(np.array([self.numbers[chosen], rivals, steps]))

    # ------------------------------------------------------------------------------------ budget
    def keep_budget(self, rows, f):
        """Let rows go until the budget is kept; `rows` are those of the block that still come, and f their scores."""
        while self.budget is not None and self.stored > self.budget:
            self._make_room(rows, f)

    def _make_room(self, rows, f):
        stored = np.flatnonzero(self.stamps >= 0)
        if self.merge:
            gone, heir, ratio = self._merger(stored)
            self._move(heir, ratio * self.coefficients[gone], rows, f)
            self.sums[heir] += ratio * self.sums[gone]
        else:
            gone = stored[np.argmin(self.stamps[stored])]
        # A row that is forgotten leaves the average, too: its past would have to be stored.
        self._move(gone, -self.coefficients[gone], rows, f)
        self.coefficients[gone], self.sums[gone], self.stamps[gone] = 0.0, 0.0, -1
        self.stored -= 1
        self.forgotten += 1

    def _merger(self, stored):
        """(gone, heir, ratio): the older row of smallest weight |c|^2 k(x, x), and where it is projected to."""
        norms = self.scores.diag(stored) + self.scores.shift
        weights = (self.coefficients[stored] ** 2).sum(axis=1) * norms
        stamps = self.stamps[stored]
        weights[np.argmax(stamps)] = np.inf  # the newest row stays
        place = np.lexsort((stamps, weights))[0]
        others = np.delete(np.arange(len(stored)), place)
        k = self.scores.block(stored[[place]], stored[others])[0] + self.scores.shift
        valid = norms[others] > 0
        squares = np.where(valid, k**2 / np.where(valid, norms[others], 1.0), -1.0)
        best = int(np.argmax(squares))
        ratio = float(k[best] / norms[others[best]]) if valid[best] else 0.0
        return stored[place], stored[others[best]], ratio

    def _move(self, row, change, rows, f):
        one = np.array([row])
        self.coefficients[row] += change
        self.scores.add(one, change[None])
        if len(rows):
            f += (self.scores.block(rows, one) + self.scores.shift) * change

    # ------------------------------------------------------------------------------------ result
    def state(self):
        kept = np.flatnonzero(self.stamps >= 0)
        history = None if self.history is None else _compact(np.concatenate(self.history, axis=1))
        return PerceptronState(
            self.numbers[kept], _compact(self.labels[kept]), self.coefficients[kept], self.sums[kept],
            _compact(self.stamps[kept]), self.seen, self.steps, self.mistakes, self.forgotten, history,
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------- the vote
def voted_scores(K, state: PerceptronState, shift: float = 0.0) -> np.ndarray:
    """Votes (m, c) of all machines of a history for the rows of K (m, stored), as parts of the steps.

    One column has values from -1 to 1.

    Each machine, from the first mistake on, votes with the number of rows it survived. Freund & Schapire (1999),
    figure 1.
    """
    votes = np.zeros((K.shape[0], state.coefficients.shape[1]))
    slots = state.slots
    history = np.array([slots, state.labels[slots], state._history[1], state.lives])
    for i in range(0, len(votes), _VOTE[0]):
        rows = slice(i, min(i + _VOTE[0], len(votes)))
        scores = np.zeros_like(votes[rows])
        for k in range(0, state.mistakes, _VOTE[1]):
            _vote_tile(K, rows, history[:, k : k + _VOTE[1]], shift, scores, votes[rows])
    return votes / max(state.steps, 1)


def _vote_tile(K, rows, history, shift, scores, votes):
    from mercer.solvers import _compiled_perceptron as compiled

    slots, labels, rivals, lives = (np.ascontiguousarray(h) for h in history)
    columns, places = np.unique(slots, return_inverse=True)
    tile = np.ascontiguousarray(K[rows, columns].dense())
    step = max(8, 2**20 // (len(slots) * votes.shape[1]))  # milliseconds: Ctrl-C waits for a job to end
    cuts = [*range(0, len(tile), step), len(tile)]
    map_tiles(
        lambda i: compiled.vote(tile, places, labels, rivals, lives, shift, scores, votes, cuts[i], cuts[i + 1]),
        len(cuts) - 1,
    )


# ---------------------------------------------------------------------------------------------- bounds
def mistake_bound(margin: float, radius: float, bias=None, n_classes: int = 2) -> float:
    r"""Largest number of updates on rows that a machine of norm 1 separates with this margin; infinite if it does not.

    .. math:: M \le r^2 / \rho^2, \quad\text{with a bias}\quad M \le (b^{*2} + 1)(r^2 + 1) / \rho^2

    `margin` is the least y_i f(x_i), or the least lead of the right class over the best other one; `radius` is r, with
    r^2 = max k(x, x); `bias` the machine's b, a number or one for each class, None for a perceptron without bias. With
    several classes an update has twice the squared length. Novikoff (1962); Crammer & Singer (2003).

    >>> mistake_bound(0.5, 1.0), mistake_bound(0.5, 1.0, bias=0.0)
    (4.0, 8.0)
    """
    if not margin > 0:
        return math.inf
    shift = 0.0 if bias is None else 1.0
    length = 1.0 if bias is None else 1.0 + float(np.sum(np.square(bias)))
    return (1.0 if n_classes == 2 else 2.0) * length * (radius**2 + shift) / margin**2


def compression_bound(n: int, stored: int, errors: int = 0, delta: float = 0.05) -> float:
    """Bound on the error for new rows of a machine that m = `stored` of n training rows determine.

    True with probability 1 - delta. errors: rows among the other n - m that it gets wrong. A perceptron shown only
    the rows that erred, in the same order, makes the same mistakes, so they determine it (unless it forgot some of
    them). Without errors the bound is (ln C(n, m) + ln(n / delta)) / (n - m), otherwise the rate of errors plus the
    square root of half of that. Littlestone & Warmuth (1986); Graepel, Herbrich & Williamson (2001).

    >>> round(compression_bound(1000, 10), 3)
    0.064
    """
    rest = n - stored
    if rest <= 0:
        return 1.0
    choices = math.lgamma(n + 1) - math.lgamma(stored + 1) - math.lgamma(rest + 1)
    rate = (choices + math.log(n / delta)) / rest
    return min(1.0, rate if errors == 0 else errors / rest + math.sqrt(rate / 2))

r"""Losses of generalised linear models whose rows are all different, with their duals.

A loss is a function of scores F (m, p). Rows that were equal are one row here: of numbers their weight, their mean and what is
left around it; of classes the mass of each class. With :math:`\theta = -\ell'(F)` the dual value is :math:`-\ell^*(-\theta)`,
and an intercept that is not penalised asks for :math:`\sum_i \theta_i = 0`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, rel_entr, softmax

__all__ = ["LogisticLoss", "SquaredLoss", "unbalanced"]

_STEPS, _LONGEST = 100, 30.0  # Newton steps for an intercept, and the longest of them
_EXACT = 1e-14  # of what draws an intercept to either side: a smaller difference is rounding


class SquaredLoss:
    """sum_i weight_i (target_i - f_i)^2 / 2 + spread_i / 2, spread (m,) what equal rows differ from their mean by."""

    outputs = 1

    def __init__(self, target, weight, spread=None):
        self.target, self.weight = target, weight
        self.spread = np.zeros(len(target)) if spread is None else spread

    def value(self, F) -> float:
        return float(0.5 * (self.weight @ (self.target - F[:, 0]) ** 2 + self.spread.sum()))

    def slopes(self, F) -> np.ndarray:
        """Minus the gradient (m, 1)."""
        return (self.weight * (self.target - F[:, 0]))[:, None]

    def balanced(self, R) -> np.ndarray:
        """Slopes at the best intercept, with what rounding left of their sum taken off."""
        return R - np.outer(self.weight, R.sum(axis=0) / self.weight.sum())

    def curvature(self, F) -> np.ndarray:
        """Second derivatives (p, p, m)."""
        return self.weight[None, None, :]

    def dual(self, theta) -> float:
        t = theta[:, 0]
        return float(t @ self.target - 0.5 * (t @ (t / self.weight)) + 0.5 * self.spread.sum())

    def share(self, theta, most) -> float:
        """Multiple of theta, at most `most`, with the largest dual value."""
        t = theta[:, 0]
        bend = float(t @ (t / self.weight))
        return min(most, float(t @ self.target) / bend) if bend > 0.0 else min(most, 1.0)

    @property
    def rounding(self) -> float:
        """A value that cannot be told from 0."""
        return float(np.finfo(float).eps * (self.weight @ self.target**2))

    @property
    def unit(self) -> float:
        """A score of usual size."""
        return float(np.sqrt(self.weight @ self.target**2 / self.weight.sum()))

    def intercept(self, F, start) -> np.ndarray:
        """The best constant (1,) to add to scores F."""
        return np.array([self.weight @ (self.target - F[:, 0]) / self.weight.sum()])

    def score(self, F) -> float:
        """Minus the mean squared error."""
        return -2.0 * self.value(F) / float(self.weight.sum())

    def split(self, train, test):
        """The losses of two sets of rows."""
        return self._part(train), self._part(test)

    def _part(self, index):
        return SquaredLoss(self.target[index], self.weight[index], self.spread[index])


class LogisticLoss:
    """sum_i sum_c mass_ic (log sum_d exp f_id - f_ic), mass (m, classes); two classes have one score, the second's log-odds."""

    def __init__(self, mass):
        self.mass, self.weight = mass, mass.sum(axis=1)
        self.outputs = 1 if mass.shape[1] == 2 else mass.shape[1]

    def value(self, F) -> float:
        if self.outputs == 1:
            return float(-(self.mass * np.hstack([log_expit(-F), log_expit(F)])).sum())
        largest = F.argmax(axis=1)[:, None]
        below = np.take_along_axis(F, largest, axis=1) - F
        others = np.exp(-below)
        np.put_along_axis(others, largest, 0.0, axis=1)  # a term of 1, of which log1p keeps the small rest exact
        return float((self.mass * below).sum() + self.weight @ np.log1p(others.sum(axis=1)))

    def slopes(self, F) -> np.ndarray:
        """Minus the gradient (m, p)."""
        up, down = self._pulls(F)
        return up - down

    def _pulls(self, F):
        """What draws scores up and down: mass times the probability of all other classes, and that of all others by its own.

        No digits are lost where a class weighs far more than another and all its probabilities are nearly 1.
        """
        if self.outputs == 1:
            return self.mass[:, 1:] * expit(-F), self.mass[:, :1] * expit(F)
        P = softmax(F, axis=1)
        others = 1.0 - np.eye(P.shape[1])
        return self.mass * (P @ others), (self.mass @ others) * P

    def balanced(self, R) -> np.ndarray:
        """Slopes at the best intercept, as they are: others might stand for no probabilities."""
        return R

    def curvature(self, F) -> np.ndarray:
        """Second derivatives (p, p, m)."""
        if self.outputs == 1:
            return (self.weight * expit(F[:, 0]) * expit(-F[:, 0]))[None, None, :]
        P = softmax(F, axis=1)
        D = -P.T[:, None, :] * P.T[None, :, :]
        each = np.arange(P.shape[1])
        D[each, each] = (P * (P @ (1.0 - np.eye(P.shape[1])))).T
        return self.weight * D

    def dual(self, theta) -> float:
        theta = np.hstack([-theta, theta]) if self.outputs == 1 else theta
        return float(-rel_entr(np.maximum(self.mass - theta, 0.0), self.weight[:, None]).sum())

    def share(self, theta, most) -> float:
        """Multiple of theta, at most `most`: more than 1 would need negative probabilities."""
        return min(most, 1.0)

    @property
    def rounding(self) -> float:
        """A value that cannot be told from 0."""
        return float(np.finfo(float).eps * self.weight.sum())

    unit = 1.0

    def intercept(self, F, start) -> np.ndarray:
        """The best constants (p,) to add to scores F, by Newton's method from `start`; of several classes they sum to 0."""
        if self.outputs == 1:
            return np.array([self._log_odds(F[:, 0], float(start[0]))])
        here = self._balance(F, start)
        for _ in range(_STEPS):
            if not here.worst > _EXACT:  # or not a number
                break
            new = self._stepped(F, here)
            if not new.better(here):
                break
            here = new
        return here.b - here.b.mean()

    def _balance(self, F, b):
        up, down = (pull.sum(axis=0) for pull in self._pulls(F + b))
        return _Balance(b, self.value(F + b), up, down)

    def _stepped(self, F, here):
        """Where Newton's step leads, or that of iterative scaling: short near the end, but it lowers the value from anywhere."""
        E = self.curvature(F + here.b).sum(axis=2)
        newton = np.linalg.lstsq(E, here.up - here.down, rcond=1e-12)[0]
        near = self._balance(F, here.b + np.clip(newton, -_LONGEST, _LONGEST))
        if np.abs(newton).max() <= 1.0 and near.better(here):
            return near
        excess = np.maximum((here.down - here.up) / self.mass.sum(axis=0), np.finfo(float).eps - 1.0)
        scaled = self._balance(F, here.b - np.log1p(excess))
        return near if near.better(scaled) else scaled

    def _log_odds(self, f, b):
        """Of two classes: Newton on the logarithm of what draws up over what draws down, which is nearly a line, in a bracket."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.mass)
        least, most = (float(_log_sum(logs[:, 1]) - _log_sum(logs[:, 0]) - end) for end in (f.max(), f.min()))
        b = float(np.clip(b, least, most))
        for _ in range(_STEPS):
            up, down = logs[:, 1] + log_expit(-f - b), logs[:, 0] + log_expit(f + b)
            total = _log_sum(up), _log_sum(down)
            ratio = float(total[0] - total[1])
            least, most = (b, most) if ratio > 0 else (least, b)
            slope = np.exp(up - total[0]) @ expit(f + b) + np.exp(down - total[1]) @ expit(-f - b)
            new = b + ratio / slope if slope > 0.0 else np.nan
            new = new if least <= new <= most else (least + most) / 2
            if abs(ratio) <= _EXACT or new == b or not np.isfinite(ratio):
                break
            b = new
        return b

    def score(self, F) -> float:
        """Mean logarithm of the probability of the rows' classes."""
        total = float(self.weight.sum())
        return -self.value(F) / total if total > 0 else 0.0

    def split(self, train, test) -> "tuple[LogisticLoss | None, LogisticLoss]":
        """The losses of two sets of rows, on the classes that are in the first; None in its place if there is only one."""
        seen = np.flatnonzero(self.mass[train].sum(axis=0) > 0)
        if len(seen) < 2:
            return None, LogisticLoss(self.mass[test][:, seen])
        return LogisticLoss(self.mass[np.ix_(train, seen)]), LogisticLoss(self.mass[np.ix_(test, seen)])


@dataclass(frozen=True)
class _Balance:
    """Intercepts (p,), the value there, and what draws each of them up and down."""

    b: np.ndarray
    value: float
    up: np.ndarray
    down: np.ndarray

    @property
    def worst(self):
        return float((np.abs(self.up - self.down) / (self.up + self.down)).max())

    def better(self, other):
        """Whether the value is lower or, where rounding hides a difference, less is out of balance."""
        change = self.value - other.value
        return self.worst < other.worst if abs(change) <= 1e-13 * other.value else change < 0


Loss: Any = SquaredLoss | LogisticLoss


def _log_sum(logs):
    top = float(logs.max())
    return top + float(np.log(np.exp(logs - top).sum()))


def unbalanced(loss, R, b) -> float:
    """What slopes R (m, p) that do not add up to 0 may hide of a duality gap, where there are intercepts b."""
    return float(np.abs(R.sum(axis=0)) @ (loss.unit + np.abs(b)))

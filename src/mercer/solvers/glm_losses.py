r"""Losses of generalised linear models whose rows are all different, with their duals.

A loss is a function of scores F (m, p). Rows that were equal are one row here: of numbers their weight, their mean and what is
left around it; of classes the mass of each class. With :math:`\theta = -\ell'(F)` the dual value is :math:`-\ell^*(-\theta)`,
and an intercept that is not penalised asks for :math:`\sum_i \theta_i = 0`.
"""

from typing import Any

import numpy as np
from scipy.special import log_softmax, rel_entr, softmax

__all__ = ["LogisticLoss", "SquaredLoss", "unbalanced"]

_STEPS, _LONGEST = 100, 5.0  # Newton steps for an intercept, and the longest of them where scores are small


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
        return float(-(self.mass * log_softmax(self._scores(F), axis=1)).sum())

    def slopes(self, F) -> np.ndarray:
        """Minus the gradient (m, p)."""
        R = self.mass - self.weight[:, None] * softmax(self._scores(F), axis=1)
        return R[:, 1:] if self.outputs == 1 else R

    def balanced(self, R) -> np.ndarray:
        """Slopes at the best intercept, as they are: others might stand for no probabilities."""
        return R

    def curvature(self, F) -> np.ndarray:
        """Second derivatives (p, p, m)."""
        P = softmax(self._scores(F), axis=1).T
        if self.outputs == 1:
            return (self.weight * P[0] * P[1])[None, None, :]
        D = -P[:, None, :] * P[None, :, :]
        each = np.arange(len(P))
        D[each, each] += P
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
        b, value = start, self.value(F + start)
        for _ in range(_STEPS):
            slope = self.slopes(F + b).sum(axis=0)
            if np.abs(slope).max() <= 4 * self.rounding:
                break
            b, value, moved = self._stepped(F, b, value, slope)
            if not moved:
                break
        return b

    def _stepped(self, F, b, value, slope):
        E = self.curvature(F + b).sum(axis=2)
        step = np.linalg.lstsq(E, slope, rcond=1e-12)[0]
        # Where all probabilities are 0 or 1 the curvature says nothing: half of the way to where they are not.
        longest = max(_LONGEST, float(np.abs(F + b).max()) / 2)
        step = _shortened(step, longest) if step.any() else np.sign(slope) * longest
        for _ in range(50):
            new = self.value(F + b + step)
            nearer = np.abs(self.slopes(F + b + step).sum(axis=0)).max() < np.abs(slope).max()
            if new < value or (nearer and new <= value * (1 + 1e-13)):  # rounding hides what the last steps gain
                return b + step, new, True
            step = step / 2
        return b, value, False

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

    def _scores(self, F):
        return np.hstack([np.zeros_like(F), F]) if self.outputs == 1 else F


Loss: Any = SquaredLoss | LogisticLoss


def _shortened(step, longest):
    length = float(np.abs(step).max())
    if not np.isfinite(length):
        return np.sign(np.nan_to_num(step)) * longest
    return step if length <= longest else step * (longest / length)


def unbalanced(loss, R, b) -> float:
    """What slopes R (m, p) that do not add up to 0 may hide of a duality gap, where there are intercepts b."""
    return float(np.abs(R.sum(axis=0)) @ (loss.unit + np.abs(b)))

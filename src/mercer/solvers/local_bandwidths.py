"""Bandwidths of smoothers by what they predict: leave-one-out, generalised cross-validation, corrected AIC (M17, M18)."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import optimize

from mercer import validate
from mercer.random import generator
from mercer.solvers.criteria import log_slope, log_value
from mercer.solvers.local import Smoother, normal_reference
from mercer.solvers.windows import Shape
from mercer.threads import map_tiles

__all__ = ["Chosen", "choose_constant", "choose_local", "constant_loo", "criteria", "select_smoothing", "standardised"]

logger = logging.getLogger("mercer")

_MOST = (2000, 1500)  # rows that local constants, and local polynomials, are tried on

_TILE = 2**18  # pairs at a time
_MULTIPLES = 2.0 ** np.array(
    [0, 0.5, -0.5, 1, -1, 1.5, -1.5, 2, -2, 2.5, -2.5, 3, -3, 4]
)  # of the rule: near ones first
_TURNS = (0.25, 0.5, 2.0, 4.0, 16.0)
_FAR = math.log(1e4)  # bandwidths further from the rule are not looked at
_STARTS = 2
_FEW, _NEVER = 0.01, 1e6  # share of rows without enough others, and a criterion larger than any of standardised targets


@dataclass(frozen=True)
class Chosen:
    """A bandwidth for each column, the value of the criterion there, how often it was computed, and on how many rows."""

    bandwidth: np.ndarray
    score: float
    evaluations: int
    rows: int = 0


def standardised(Y, weight) -> np.ndarray:
    """Targets of mean 0 and variance 1, so that no target outweighs the others; constant ones are 0."""
    size = np.abs(Y).max(axis=0)
    Y = Y / np.where(size > 0, size, 1.0)
    Y = Y - np.average(Y, axis=0, weights=weight)
    deviation = np.sqrt(np.average(Y**2, axis=0, weights=weight))
    return Y / np.where(deviation > 1e-12, deviation, 1.0)


# ------------------------------------------------------------------------------------------------ local constants
def constant_loo(log_h, X, Y, weight, shape: Shape, form="radial"):
    """(E, dE / d log h): the mean squared leave-one-out error of local constants, and its gradient in log bandwidths (d,).

    With own weights dropped, f_i = sum_j W_ij y_j / M_i, M_i = sum_j W_ij, and e_i = y_i - f_i:
    dE = -2 / n sum_ij s_i dW_ij (e_i . (y_j - f_i)) / M_i.
    """
    n, d = X.shape
    Z = X / np.exp(log_h)
    form = "radial" if d == 1 or shape.name == "gaussian" else form
    step = max(1, _TILE // n)

    def job(i):
        rows = np.arange(i * step, min((i + 1) * step, n))
        return _constant_tile(Z, Y, weight, rows, shape, form)

    parts = map_tiles(job, -(-n // step))
    total = float(np.sum(weight))
    return sum(p[0] for p in parts) / total, sum(p[1] for p in parts) / total


def _constant_tile(Z, Y, weight, rows, shape, form):
    U2 = [(z[rows, None] - z) ** 2 for z in Z.T]
    logs = [log_value(shape, s) for s in (U2 if form == "product" else [sum(U2)])]
    log_w = sum(logs)
    log_w[np.arange(len(rows)), rows] = -np.inf
    top = log_w.max(axis=1)
    alone = ~(top > -np.inf)
    W = np.exp(log_w - np.where(alone, 0.0, top)[:, None]) * weight
    W[alone] = _nearest_others(sum(U2)[alone], rows[alone], weight)
    M = W.sum(axis=1)
    f = (W @ Y) / M[:, None]
    e = Y[rows] - f
    R = (e @ Y.T - (e * f).sum(axis=1)[:, None]) * W * (weight[rows] / M)[:, None]
    R[alone] = 0.0
    slopes = U2 if form == "product" else [sum(U2)] * len(U2)
    gradient = [-2.0 * np.sum(R * (-2.0 * u * log_slope(shape, s))) for u, s in zip(U2, slopes, strict=True)]
    return float(weight[rows] @ (e**2).sum(axis=1)), np.array(gradient)


def _nearest_others(S, rows, weight):
    """Weights of the nearest other rows, where no other row lies in the window."""
    S[np.arange(len(rows)), rows] = np.inf
    return (S <= S.min(axis=1, keepdims=True, initial=np.inf)) * weight


def choose_constant(X, Y, weight, rule, shape: Shape, form="radial", max_iter=60) -> Chosen:
    """Bandwidths (d,) with the smallest leave-one-out error: L-BFGS from the best multiples of a rule. Not for the boxcar."""
    Y = standardised(Y, weight)
    count = [0]

    def score(log_h):
        count[0] += 1
        return constant_loo(log_h, X, Y, weight, shape, form)

    start = np.log(rule)
    tried = [score(start + math.log(c))[0] for c in _MULTIPLES]
    best, value = start + math.log(_MULTIPLES[int(np.argmin(tried))]), min(tried)
    bounds = [(s - _FAR, s + _FAR) for s in start]
    for place in np.argsort(tried, kind="stable")[:_STARTS]:
        found = optimize.minimize(
            score,
            start + math.log(_MULTIPLES[place]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": max_iter},
        )
        if found.fun < value:
            best, value = found.x, float(found.fun)
    return Chosen(np.exp(best), float(value), count[0])


def _without_gradient(score: Callable, start, count) -> Chosen:
    """The best multiple of the rule, multiples for each column in turn, then a simplex from there."""
    tried = [score(start + math.log(c)) for c in _MULTIPLES]
    place, d = int(np.argmin(tried)), len(start)
    best, value = start + math.log(_MULTIPLES[place]), tried[place]
    for column in np.eye(d) if d > 1 else ():
        steps = [best + math.log(c) * column for c in _TURNS]
        tried = [score(log_h) for log_h in steps]
        if min(tried) < value:
            best, value = steps[int(np.argmin(tried))], min(tried)
    simplex = best + 0.35 * np.vstack([np.zeros(d), np.eye(d)])
    found = optimize.minimize(score, best, method="Nelder-Mead",
                              options={"initial_simplex": simplex, "maxfev": 40 * d, "xatol": 1e-3, "fatol": 1e-10})  # fmt: skip
    if found.fun < value:
        best, value = found.x, float(found.fun)
    return Chosen(np.exp(np.clip(best, start - _FAR, start + _FAR)), float(value), count[0])


# ------------------------------------------------------------------------------------------------ local polynomials
def criteria(residuals, leverage, weight) -> dict[str, float]:
    """{"gcv": ..., "aicc": ...} of residuals (n, t), weights of rows in their own answers (n,) and row weights.

    Sums over targets. Hurvich, Simonoff & Tsai (1998), eq. 5, for the corrected AIC; infinite where there are as many degrees
    of freedom as rows.
    """
    n, trace = float(np.sum(weight)), float(leverage.sum())
    size = np.abs(residuals).max(axis=0)
    scaled = residuals / np.where(size > 0, size, 1.0)
    with np.errstate(over="ignore", under="ignore"):
        variance = (weight @ scaled**2) / n * size**2
    gcv = float(variance.sum() / (1.0 - trace / n) ** 2) if trace < n else math.inf
    with np.errstate(divide="ignore"):
        aicc = float(np.log(variance).sum() + len(variance) * (1.0 + 2.0 * (trace + 1.0) / (n - trace - 2.0)))
    return {"gcv": gcv, "aicc": aicc if n - trace > 2.0 else math.inf}


def choose_local(X, Y, weight, rule, shape: Shape, form="radial", degree=1, criterion="loo") -> Chosen:
    """Bandwidths (d,) of local polynomials with the smallest criterion: "loo", "gcv" or "aicc".

    Bandwidths at which more than one row in a hundred has too few others in its window for the degree are out of the question.
    """
    Y = standardised(Y, weight)
    count, own = [0], np.arange(len(X))

    def score(log_h):
        count[0] += 1
        fit = Smoother(X / np.exp(log_h), Y, shape, form=form, degree=degree, mass=weight)
        found = fit.at(X / np.exp(log_h), own=own, leave_out=criterion == "loo")
        residuals, few = Y - found.values, float(np.mean(found.lower | found.empty))
        if degree and few > _FEW:
            return _NEVER * (1.0 + few)
        if criterion == "loo":
            return float(weight @ (residuals**2).sum(axis=1) / weight.sum())
        return min(criteria(residuals, weight / weight.max() * found.own, weight)[criterion], _NEVER)

    return _without_gradient(score, np.log(rule), count)


# ------------------------------------------------------------------------------------------------ words
def select_smoothing(X, Y, weight, word, shape: Shape, form="radial", degree=0, called=None) -> Chosen:
    """The bandwidth that a word means for rows X (n, d), targets Y (n, t) and row weights: "mad", "loo", "gcv", "aicc".

    Equal rows count as one with the sum of their weights. Of more than `_MOST` rows a seeded sample is looked at, and its
    bandwidth made smaller by the power of n that is best for smooth curves.
    """
    n, d = X.shape
    if word == "mad":
        return Chosen(normal_reference(X, shape, form, weight, called), math.nan, 0, n)
    X, Y, weight, _ = validate.canonical(np.asarray(X, np.float64), Y, weight)
    few, total = _MOST[degree > 0], float(weight.sum())
    if len(X) > few:
        some = np.sort(generator(0).choice(len(X), few, replace=False))
        X, Y, weight = X[some], Y[some], weight[some]
        logger.info('bandwidth="%s" is chosen on %d of %d rows', word, few, n)
    X = X - np.median(X, axis=0)
    rule = normal_reference(X, shape, form, weight, called)
    smooth = degree == 0 and word == "loo" and shape.name != "boxcar"  # whose error is a step function
    choose = choose_constant if smooth else partial(choose_local, degree=degree, criterion=word)
    found = choose(X, Y, weight, rule, shape, form)
    order = 2 * (degree // 2 + 1)  # of the error in the bandwidth
    shrink = (float(weight.sum()) / total) ** (1.0 / (2 * order + d))
    return replace(found, bandwidth=found.bandwidth * shrink, rows=len(X))

"""Gaussian densities with missing entries, and mixtures of them fitted by EM. Rows are weighted; NaN is a missing entry."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from mercer.errors import ConvergenceWarning, NanError
from mercer.random import generator

__all__ = [
    "LOG_2PI",
    "Until",
    "condition",
    "fit_mixture",
    "inverse_root",
    "lloyd",
    "log_joint",
    "log_normal",
    "mean_of",
    "merged",
    "moments",
    "normal_scores",
    "patterns",
    "responsibilities",
]

LOG_2PI = math.log(2 * math.pi)


def patterns(X):
    """(rows, observed columns) for each pattern of missing entries."""
    missing = np.isnan(X)
    if not missing.any():
        return [(np.arange(len(X)), np.arange(X.shape[1]))]
    kinds, group = np.unique(missing, axis=0, return_inverse=True)
    group = group.ravel()
    return [(np.flatnonzero(group == i), np.flatnonzero(~kind)) for i, kind in enumerate(kinds)]


def inverse_root(covariance) -> np.ndarray:
    """L^-1 for the Cholesky factor L of a covariance, or of several. Its product with rows is a thousand times faster than
    a triangular solve where other threads keep the processors busy."""
    try:
        return np.linalg.inv(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        raise NanError("a covariance is not positive definite in floating point; rescale the columns") from None


_ENTRIES = 2**20  # of matrices that are factored at a time


def _roots(X, covariance, kinds):
    """Some patterns of missing entries at a time: (their rows, observed columns (p, d), L^-1 of the observed block of the
    covariance (p, d, d), the identity elsewhere)."""
    d = len(covariance)
    size = max(1, _ENTRIES // max(d * d, 1))
    for first in range(0, len(kinds), size):
        groups = [rows for rows, _ in kinds[first : first + size]]
        seen = ~np.isnan(X[[rows[0] for rows in groups]])
        yield groups, seen, inverse_root(np.where(seen[:, :, None] & seen[:, None], covariance, np.eye(d)))


def _deviations(X, mean):
    """x - mean, 0 where an entry is missing."""
    return np.where(np.isnan(X), 0.0, X - mean)


def log_normal(X, mean, covariance, kinds=None):
    """log N(x | mean, covariance) of the observed entries of each row; 0 where nothing is observed."""
    seen = ~np.isnan(X)
    with np.errstate(over="ignore", invalid="ignore"):
        D, out = _deviations(X, mean), np.empty(len(X))
        if covariance.ndim == 1:
            out[:] = (D * D / covariance).sum(axis=1) + seen @ np.log(covariance)
        else:
            for groups, _, roots in _roots(X, covariance, patterns(X) if kinds is None else kinds):
                for rows, R in zip(groups, roots, strict=True):
                    z = D[rows] @ R.T
                    out[rows] = np.einsum("ij,ij->i", z, z) - 2 * np.log(np.diagonal(R)).sum()
    # A row so far away that its distance is no number has density 0.
    return -0.5 * (np.where(np.isnan(out), np.inf, out) + seen.sum(axis=1) * LOG_2PI)


def normal_scores(X, mean, covariance, kinds=None):
    """Gradients of log N in the mean (n, d) and in the covariance: variances (n, d), or its lower triangle by rows."""
    n, d = X.shape
    by_mean = np.zeros((n, d))
    diagonal = covariance.ndim == 1
    by_covariance = np.zeros((n, d if diagonal else d * (d + 1) // 2))
    for rows, seen in patterns(X) if kinds is None else kinds:
        D = X[np.ix_(rows, seen)] - mean[seen]
        if diagonal:
            u = D / covariance[seen]
            by_covariance[np.ix_(rows, seen)] = 0.5 * (u * u - 1.0 / covariance[seen])
        else:
            inverse = np.linalg.inv(covariance[np.ix_(seen, seen)])
            u = D @ inverse
            by_covariance[rows] = _triangle(u, inverse, seen, d)
        by_mean[np.ix_(rows, seen)] = u
    return by_mean, by_covariance


def _triangle(u, inverse, seen, d):
    """(u u^T - S^-1) / 2 in the lower triangle of all columns; an entry off the diagonal stands in two places."""
    U = np.zeros((len(u), d))
    U[:, seen] = u
    P = np.zeros((d, d))
    P[np.ix_(seen, seen)] = inverse
    i, j = np.tril_indices(d)
    return (U[:, i] * U[:, j] - P[i, j]) * np.where(i == j, 0.5, 1.0)


def responsibilities(log_joint):
    """(posterior of each component, log density) from log p(c) p(x|c); both 0 or -inf where the density is 0."""
    total = logsumexp(log_joint, axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(total)[:, None], 0.0, np.exp(log_joint - total[:, None])), total


def condition(X, mean, covariance, kinds, r):
    """(x - mean with missing entries replaced by their expectations, the mean covariance of what is missing) of rows that
    weigh r."""
    D = _deviations(X, mean)
    if covariance.ndim == 1:
        return D, np.isnan(X).T @ r * covariance / r.sum()
    filled, left = D.copy(), np.zeros_like(covariance)
    if len(kinds) == 1 and not np.isnan(X).any():
        return filled, left
    for groups, seen, roots in _roots(X, covariance, kinds):
        observed = roots * seen[:, None]
        B = observed.transpose(0, 2, 1) @ observed @ covariance  # S_oo^-1 S, rows of 0 for what is missing
        gone = ~seen[:, :, None] & ~seen[:, None]
        shares = np.array([r[rows].sum() for rows in groups]) / r.sum()
        left += np.tensordot(shares, np.where(gone, covariance - covariance @ B, 0.0), 1)
        for rows, regression in zip(groups, B, strict=True):
            filled[rows] = D[rows] @ regression
    return np.where(np.isnan(X), filled, D), left


# ------------------------------------------------------------------------------------------------------------- fits
@dataclass(frozen=True)
class Until:
    """When the fit of a model ends: the mean log density gains no more than `tol` of itself, or `max_iter` steps are done."""

    who: str
    max_iter: int
    tol: float

    def run(self, step, model):
        """Repeat `step`, a function from a model to the next one and the mean log density of the old: (the last model, the
        number of steps, what the last one gained if that was still too much, else 0)."""
        gain, before = np.inf, -np.inf
        for steps in range(1, int(self.max_iter) + 1):
            model, value = step(model)
            gain, before = value - before, value
            if gain <= self.tol * (1 + abs(value)):
                return model, steps, 0.0
        return model, int(self.max_iter), gain

    def climb(self, step, model):
        """`run`, which warns where it ends early."""
        model, _, gain = self.run(step, model)
        if gain:
            message = (
                f"the fit of {self.who} ended at max_iter={self.max_iter} while the mean log density still grew by {gain:.3g} "
                f"in a step; raise max_iter, or tol={self.tol:g}"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        return model


def merged(X, weight):
    """Different rows in an order of their content, and the sums of their weights: weights then mean repetition."""
    w = np.ones(len(X)) if weight is None else weight
    filled = np.where(np.isnan(X), np.inf, X)  # NaN differs from itself
    rows, group = np.unique(filled, axis=0, return_inverse=True)
    return np.where(np.isinf(rows), np.nan, rows), np.bincount(group.ravel(), weights=w)


def moments(X, w):
    """Weighted mean and variance of the observed entries of each column."""
    seen = ~np.isnan(X)
    if not seen.any(axis=0).all():
        raise ValueError(f"column {int((~seen.any(axis=0)).argmax())} of X has no observed entry; drop it")
    W = w[:, None] * seen
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(seen, X * W, 0.0).sum(axis=0) / W.sum(axis=0)
        variance = np.where(seen, (X - mean) ** 2 * W, 0.0).sum(axis=0) / W.sum(axis=0)
        total = variance.sum()
    if not np.isfinite(total) or ((variance < 1e-280).all() and (variance > 0).any()):
        raise NanError("the variances of the columns over- or underflow; rescale the columns")
    return mean, variance


def lloyd(X, w, k, rng, n_iter=20):
    """Labels of weighted k-means: greedy start (k-means++), then Lloyd's steps."""
    centres = X[[rng.choice(len(X), p=w / w.sum())]]
    for _ in range(1, k):
        far = _squares(X, centres).min(axis=1) * w
        chance = far / far.sum() if far.sum() > 0 else w / w.sum()
        centres = np.vstack([centres, X[rng.choice(len(X), p=chance)]])
    for _ in range(n_iter):
        label = _squares(X, centres).argmin(axis=1)
        H = np.equal.outer(np.arange(k), label) * w
        mass = H.sum(axis=1)
        centres = np.where(mass[:, None] > 0, H @ X / np.maximum(mass, 1e-300)[:, None], centres)
    return label


def _squares(X, centres):
    return np.stack([((X - c) ** 2).sum(axis=1) for c in centres], axis=1)


def fit_mixture(X, weight, k, diagonal, ridge, random_state, until):
    """(weights, means, covariances) by EM; missing entries take their expectations. `ridge` times the mean variance of a
    column is added to the variances."""
    X, w = merged(X, weight)
    mean, variance = moments(X, w)
    floor = ridge * (variance.mean() or 1.0)
    if len(X) < k:
        raise ValueError(f"n_components={k} is more than the {len(X)} different rows")
    scaled = np.where(np.isnan(X), 0.0, (X - mean) / np.sqrt(variance + floor))
    R = np.equal.outer(lloyd(scaled, w, k, generator(random_state)), np.arange(k)).astype(float)
    means = np.array([mean_of(X, w * R[:, c], mean) for c in range(k)])
    # With one covariance for all the first step needs no inverse of a small sample.
    common = variance + floor if diagonal else np.diag(variance + floor)
    kinds = patterns(X)

    def step(model):
        R, value = responsibilities(log_joint(X, model, kinds))
        return _maximise(X, w, R, model, kinds, floor), float(w @ value) / w.sum()

    return until.climb(step, (R.T @ w / w.sum(), means, np.repeat(common[None], k, axis=0)))


def mean_of(X, w, otherwise):
    """Weighted mean of the observed entries of each column; another number where nothing is observed."""
    seen = ~np.isnan(X)
    total = w @ seen
    return np.where(total > 0, w @ np.where(seen, X, 0.0) / np.maximum(total, 1e-300), otherwise)


def log_joint(X, model, kinds=None):
    """log p(c) p(x|c), one column a component."""
    weights, means, covariances = model
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    kinds = patterns(X) if kinds is None else kinds
    return np.stack([log_normal(X, m, S, kinds) for m, S in zip(means, covariances, strict=True)], axis=1) + logs


def _maximise(X, w, R, model, kinds, floor):
    mass = R.T @ w
    parts = [_component(X, R[:, c] * w, model[1][c], model[2][c], kinds, floor) for c in range(len(mass))]
    return mass / mass.sum(), np.array([m for m, _ in parts]), np.array([V for _, V in parts])


def _component(X, r, mean, S, kinds, floor):
    """Mean and covariance of one component from the expectations of its rows, weighted r."""
    r = r / r.sum() if r.sum() > 0 else np.full(len(r), 1.0 / len(r))
    filled, left = condition(X, mean, S, kinds, r)
    shift = r @ filled
    D = filled - shift
    if S.ndim == 1:
        return mean + shift, r @ (D * D) + left + floor
    return mean + shift, (D * r[:, None]).T @ D + left + floor * np.eye(len(mean))

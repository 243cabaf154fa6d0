"""Gaussian densities with missing entries, and mixtures of them fitted by EM. Rows are weighted; NaN is a missing entry."""

import math

import numpy as np
import scipy.linalg
from scipy.special import logsumexp

from mercer.errors import NanError
from mercer.random import generator

__all__ = [
    "condition",
    "fit_mixture",
    "lloyd",
    "log_normal",
    "mean_of",
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


def _factor(covariance, seen):
    """Cholesky factor of the observed block; of variances (d,) their roots."""
    if covariance.ndim == 1:
        return np.sqrt(covariance[seen])
    try:
        return scipy.linalg.cholesky(covariance[np.ix_(seen, seen)], lower=True)
    except (np.linalg.LinAlgError, ValueError):
        raise NanError("a covariance is not positive definite in floating point; rescale the columns") from None


def _solved(factor, D):
    """L^-1 d of each row d, and the logarithm of the determinant of L."""
    if factor.ndim == 1:
        return D / factor, np.log(factor).sum()
    if not len(factor):
        return D, 0.0
    return scipy.linalg.solve_triangular(factor, D.T, lower=True).T, np.log(np.diagonal(factor)).sum()


def log_normal(X, mean, covariance, kinds=None):
    """log N(x | mean, covariance) of the observed entries of each row; 0 where nothing is observed."""
    out = np.empty(len(X))
    for rows, seen in patterns(X) if kinds is None else kinds:
        with np.errstate(over="ignore", invalid="ignore"):
            z, log_det = _solved(_factor(covariance, seen), X[np.ix_(rows, seen)] - mean[seen])
            square = np.einsum("ij,ij->i", z, z)
        # A row so far away that its distance is no number has density 0.
        square = np.where(np.isnan(square), np.inf, square)
        out[rows] = -0.5 * square - log_det - 0.5 * len(seen) * LOG_2PI
    return out


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


def condition(X, mean, covariance, kinds):
    """Rows with missing entries replaced by their expectation, and the covariance of what is missing, a pattern each."""
    filled, left = X.copy(), []
    for rows, seen in kinds:
        gone = np.setdiff1d(np.arange(X.shape[1]), seen)
        C = np.zeros((X.shape[1],) * 2)
        if len(gone):
            B = covariance[np.ix_(gone, seen)]
            A = np.linalg.solve(covariance[np.ix_(seen, seen)], B.T).T if len(seen) else B
            filled[np.ix_(rows, gone)] = mean[gone] + (X[np.ix_(rows, seen)] - mean[seen]) @ A.T
            C[np.ix_(gone, gone)] = covariance[np.ix_(gone, gone)] - A @ B.T
        left.append(C)
    return filled, left


# ------------------------------------------------------------------------------------------------------------- fits
def _distinct(X, weight):
    """Different rows in an order of their content, and the sums of their weights: weights then mean repetition."""
    w = np.ones(len(X)) if weight is None else weight
    filled = np.where(np.isnan(X), np.inf, X)  # NaN differs from itself
    rows, group = np.unique(filled, axis=0, return_inverse=True)
    return np.where(np.isinf(rows), np.nan, rows), np.bincount(group.ravel(), weights=w)


def _moments(X, w):
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


def fit_mixture(X, weight, k, diagonal, ridge, random_state, max_iter=200, tol=1e-6):
    """(weights, means, covariances) by EM; missing entries take their expectations. `ridge` times the mean variance of a
    column is added to the variances."""
    X, w = _distinct(X, weight)
    mean, variance = _moments(X, w)
    floor = ridge * (variance.mean() or 1.0)
    if len(X) < k:
        raise ValueError(f"n_components={k} is more than the {len(X)} different rows")
    scaled = np.where(np.isnan(X), 0.0, (X - mean) / np.sqrt(variance + floor))
    R = np.equal.outer(lloyd(scaled, w, k, generator(random_state)), np.arange(k)).astype(float)
    means = np.array([mean_of(X, w * R[:, c], mean) for c in range(k)])
    # With one covariance for all the first step needs no inverse of a small sample.
    common = variance + floor if diagonal else np.diag(variance + floor)
    model = R.T @ w / w.sum(), means, np.repeat(common[None], k, axis=0)
    kinds, before = patterns(X), -np.inf
    for _ in range(max_iter):
        R, value = _expect(X, w, model, kinds)
        model = _maximise(X, w, R, model, kinds, floor)
        if value - before <= tol * (1 + abs(value)):
            break
        before = value
    return model


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


def _expect(X, w, model, kinds):
    R, value = responsibilities(log_joint(X, model, kinds))
    return R, float(w @ value) / w.sum()


def _maximise(X, w, R, model, kinds, floor):
    mass = R.T @ w
    parts = [_component(X, R[:, c] * w, model[1][c], model[2][c], kinds, floor) for c in range(len(mass))]
    return mass / mass.sum(), np.array([m for m, _ in parts]), np.array([V for _, V in parts])


def _component(X, r, mean, S, kinds, floor):
    """Mean and covariance of one component from the expectations of its rows, weighted r."""
    filled, left = condition(X, mean, np.diag(S) if S.ndim == 1 else S, kinds)
    total = max(r.sum(), 1e-300)
    m = r @ filled / total
    D = filled - m
    shares = [r[rows].sum() / total for rows, _ in kinds]
    if S.ndim == 1:
        V = r @ (D * D) / total + sum(p * np.diagonal(C) for p, C in zip(shares, left, strict=True))
        return m, V + floor
    V = (D * r[:, None]).T @ D / total + sum(p * C for p, C in zip(shares, left, strict=True))
    return m, V + floor * np.eye(len(m))

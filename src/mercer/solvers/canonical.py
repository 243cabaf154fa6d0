r"""Canonical correlations in feature space (M24): pairs of directions, one for each view, whose projections go together.

.. math:: \max_{a, b} \frac{a^T K L\, b}{\sqrt{a^T (K^2 + \alpha K) a}\,\sqrt{b^T (L^2 + \alpha L) b}}

for centred Gram matrices :math:`K = U \Lambda U^T` and :math:`L = V M V^T`. With
:math:`D = (\Lambda / (\Lambda + \alpha))^{1/2}`, and E likewise, they are the singular vectors of :math:`D U^T V E`: each view is
ridge regressed on the other. Nothing is inverted that is not positive. Bach & Jordan (2002); Hardoon, Szedmak &
Shawe-Taylor (2004).
"""

from dataclasses import dataclass

import numpy as np

from mercer.errors import NanError
from mercer.linalg import run_interruptibly, seconds_for_eigh
from mercer.solvers.components import positive

__all__ = ["CanonicalPairs", "View", "canonical_pairs", "view_of_features", "view_of_gram"]


@dataclass(frozen=True, eq=False)
class View:
    """Principal axes of one view.

    values (r,): n times the variances along them, all positive. basis: the axes, in coefficients on rows (n, r) or in features
    (M, r). scores (n, r): the rows along the axes, in columns of unit length; None of features.
    """

    values: np.ndarray
    basis: np.ndarray
    scores: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class CanonicalPairs:
    """Pairs of directions, the best first: projections of the rows on them have mean 0 and variance 1.

    values (k,): what was maximised; correlations (k,): of the projections, which a ridge leaves larger; x, y: coefficients.
    """

    values: np.ndarray
    correlations: np.ndarray
    x: np.ndarray
    y: np.ndarray


def view_of_gram(C: np.ndarray, dtype=np.float64) -> View:
    """Of rows with the centred Gram matrix C (n, n), which was computed in `dtype`."""
    values, U = _decomposed(C, dtype)
    return View(values, U / np.sqrt(values), U)


def view_of_features(S: np.ndarray, dtype=np.float64) -> View:
    """Of rows with explicit centred features, whose products are added up in S (M, M)."""
    values, V = _decomposed(S, dtype)
    return View(values, V)


def _decomposed(C, dtype):
    """The eigenpairs of positive eigenvalue, largest first."""
    values, U = run_interruptibly(np.linalg.eigh, (C + C.T) / 2, seconds_predicted=seconds_for_eigh(len(C)))
    kept = positive(values[::-1], len(C), dtype)
    return kept, U[:, ::-1][:, : len(kept)]


def canonical_pairs(x: View, y: View, alpha: float, k: int, n: int, cross: np.ndarray | None = None) -> CanonicalPairs:
    """The first k pairs, or as many as there are. cross (M, M'): products of the features of both views, where they are given."""
    d, e = (np.sqrt(v.values / (v.values + alpha)) for v in (x, y))
    if x.scores is not None and y.scores is not None:
        both = x.scores.T @ y.scores
    else:
        both = (x.basis / np.sqrt(x.values)).T @ cross @ (y.basis / np.sqrt(y.values))
    M = d[:, None] * both * e
    seconds = 2.0 * seconds_for_eigh(max(M.shape))
    P, values, Q = run_interruptibly(np.linalg.svd, M, full_matrices=False, seconds_predicted=seconds)
    P, values, Q = P[:, :k], np.clip(values[:k], 0.0, 1.0), Q[:k].T
    signs = np.where(P[np.abs(P).argmax(axis=0), range(P.shape[1])] < 0, -1.0, 1.0)
    P, Q = signs * P, signs * Q
    with np.errstate(all="ignore"):
        lengths = [np.linalg.norm(shrink[:, None] * R, axis=0) for shrink, R in ((d, P), (e, Q))]
        A, B = (_directions(v, R, alpha) * np.sqrt(n) / c for v, R, c in zip((x, y), (P, Q), lengths, strict=True))
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        raise NanError(
            "coefficients of the canonical directions overflow: values of a kernel are too small; rescale the columns"
        )
    return CanonicalPairs(values, np.clip(values / (lengths[0] * lengths[1]), 0.0, 1.0), A, B)


def _directions(v: View, R, alpha):
    """Coefficients of directions that are combinations R of the axes, with the ridge."""
    return v.basis @ (R / np.sqrt(v.values + alpha)[:, None])

"""Pre-images as users ask for them (M12): by a word, from rows of their own, for vectors and for anything else."""

import warnings
from typing import Any

import numpy as np

from mercer import validate
from mercer.errors import NotDifferentiableError, NumericalWarning
from mercer.gram import gram
from mercer.gram.radial import radial
from mercer.kernels import RBF, Kernel
from mercer.linalg import safe_cholesky
from mercer.solvers import Preimages, Targets, best_candidates, by_distances, by_fixed_point, by_gradient

__all__ = ["METHODS", "find_preimages", "learned_map", "preimage"]

METHODS = ("fixed_point", "distances", "gradient", "ridge", "candidates")
_SEARCHES = {"fixed_point": by_fixed_point, "gradient": by_gradient}
_POOR = 0.5  # cosine below which a row says little about its target


def preimage(kernel: Kernel, centres, coefficients, *, method="auto", start=None, candidates=None, engine=None, memory=None
             ) -> Preimages:  # fmt: skip
    """Rows whose features come near the points sum_i coefficients[j, i] phi(centres[i]) of feature space.

    method: "fixed_point" and "distances" (kernels of one distance), "gradient" (kernels with a gradient in the rows),
    "candidates" (any kernel: the best of `candidates`, by default the centres), or "auto". Searches begin at `start`, or at the
    best candidate.

    >>> from mercer.kernels import RBF
    >>> found = preimage(RBF(1.0), [[0.0], [1.0]], [[0.5, 0.5]])
    >>> found.rows.round(3), found.score.round(2)
    (array([[0.5]]), array([0.99]))
    """
    if method not in ("auto", *METHODS) or method == "ridge":
        raise ValueError(f"method={method!r} is not one of auto, fixed_point, distances, gradient, candidates")
    K = gram(kernel, centres, engine=engine, memory=memory)
    C = np.atleast_2d(np.asarray(coefficients, np.float64))
    if C.ndim != 2 or C.shape[1] != K.shape[0] or not np.isfinite(C).all():
        raise ValueError(
            f"coefficients of shape {C.shape} must be finite numbers, {K.shape[0]} for each point: one a centre"
        )
    return find_preimages(None, Targets(K, C), None, method, start, candidates)


def find_preimages(model: Any, targets: Targets, codes, method, start, candidates) -> Preimages:
    """Pre-images by a method's word. model: the estimator whose components `codes` are, for its learned map."""
    method = _chosen(targets.K) if method == "auto" else method
    if method == "candidates":
        found = targets.finished(_best_rows(targets, candidates))
    elif method == "ridge":
        found = targets.finished(_by_map(model, codes))
    elif method == "distances":
        found = targets.finished(_no_worse(targets, by_distances(targets), candidates))
    else:
        found = _SEARCHES[method](targets, _start(targets, start, candidates))
    _warn_of_poor(found)
    return found


def _chosen(K):
    if radial(K) is not None:
        return "fixed_point"
    return "gradient" if K.kernel.differentiable_inputs and getattr(K.y.rows, "ndim", 1) == 2 else "candidates"


def _best_rows(targets, candidates):
    rows = targets.K.y.rows if candidates is None else targets.K.kernel.validated(candidates, "candidates")
    return validate.take(rows, best_candidates(targets, None if candidates is None else rows))


def _start(targets, start, candidates):
    """Where a search begins: at the rows given, but at the best candidate where that is nearer to the target."""
    if getattr(targets.K.y.rows, "ndim", 1) != 2:
        raise NotDifferentiableError("rows that are not vectors cannot be moved; use method='candidates'")
    best = _best_rows(targets, candidates)
    return best if start is None else _nearer(targets, targets.K.kernel.validated(start, "start"), best)


def _no_worse(targets, rows, candidates):
    return _nearer(targets, rows, _best_rows(targets, candidates))


def _nearer(targets, rows, others):
    if validate.n_rows(rows) != len(targets):
        raise ValueError(f"start has {validate.n_rows(rows)} rows, but there are {len(targets)} targets")
    rows, others = (R.toarray() if hasattr(R, "toarray") else np.asarray(R, targets.K.dtype) for R in (rows, others))
    index = np.arange(len(targets))
    with np.errstate(all="ignore"):
        better = np.isfinite(rows).all(axis=1) & (
            targets.objective(np.nan_to_num(rows), index) <= targets.objective(others, index)
        )
    return np.where(better[:, None], rows, others)


def _warn_of_poor(found):
    poor = int((found.score < _POOR).sum())
    if poor:
        warnings.warn(f"{poor} of {len(found.score)} pre-images miss their targets: the cosine of the angle in feature space is "
                      f"below {_POOR}, at worst {found.score.min():.2g}", NumericalWarning, stacklevel=4)  # fmt: skip


# ------------------------------------------------------------------------------------------------ the learned map
def learned_map(model, T, rows):
    """Ridge regression from components T to rows: (kernel on components, T, coefficients).

    Bakir, Weston & Schölkopf (2004). Words mean the kernel that they name, as in scikit-learn; a kernel object, which is made
    for rows, is replaced by a Gaussian of median width.
    """
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    if getattr(rows, "ndim", 1) != 2:
        raise ValueError("fit_inverse_transform needs rows that are vectors; preimage='candidates' takes any")
    kernel = RBF("median")._resolved(T, None) if isinstance(model.kernel, Kernel) else model.kernel_
    factor = safe_cholesky(gram(kernel, T, validated=True).dense(), shift=model.alpha, overwrite=True)
    return kernel, T, factor.solve(rows.astype(T.dtype))


def _by_map(model, codes):
    if model is None or not hasattr(model, "inverse_"):
        raise ValueError("the learned map from components to rows needs fit_inverse_transform=True at fit")
    kernel, T, coefficients = model.inverse_
    return gram(kernel, codes.astype(T.dtype), T, validated=True) @ coefficients

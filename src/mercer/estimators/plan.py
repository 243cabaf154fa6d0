"""The planner's upper half: which method an estimator uses, with predicted bytes and seconds."""

import math
from dataclasses import dataclass

import numpy as np

from mercer.gram.plan import budget, entry_seconds, human_bytes, human_seconds, require
from mercer.linalg import seconds_for_cholesky

__all__ = ["MethodPlan", "cg_rank", "landmark_plan", "path_plan", "ridge_plan"]

_SWEEPS = 100  # what conjugate gradients usually need, with a factor of low rank to help them
_PATH_MATRICES = 1.8  # of float64
_LANDMARK_SWEEPS, _LANDMARK_MATRICES = 20, 5
_PATIENCE = 3600.0  # seconds that solver="auto" spends on iterations before it asks


@dataclass(frozen=True)
class MethodPlan:
    """What an estimator will do and what it will take."""

    method: str
    reason: str
    bytes: int
    seconds: float
    budget: int

    def __str__(self):
        return (
            f"method      {self.method}: {self.reason}\n"
            f"predicted   {human_bytes(self.bytes)} of {human_bytes(self.budget)}, about {human_seconds(self.seconds)}"
        )


def ridge_plan(n, d, dtype, solver, feature_dim, memory=None, threads=1, precomputed=False) -> MethodPlan:
    """Exact, conjugate gradients or primal; refuses what does not fit, in no time."""
    limit = budget(memory)
    dtype = np.dtype(dtype)
    sweep = entry_seconds(d, dtype) * n * n / max(threads, 1)
    exact = MethodPlan("exact", "", int(1.2 * dtype.itemsize * n * n), sweep + seconds_for_cholesky(n), limit)
    primal_bytes = 8 * (2 * n * feature_dim + 2 * feature_dim**2) if math.isfinite(feature_dim) else math.inf
    if solver == "primal":
        if not math.isfinite(feature_dim):
            raise ValueError('solver="primal" needs a kernel with a finite explicit feature map (k.feature_dim)')
        require(primal_bytes, limit, f"the primal problem with {feature_dim} features", ['use solver="exact"'])
        return _named(exact, "primal", "as asked", int(primal_bytes), _primal_seconds(n, feature_dim))
    if solver == "exact" or precomputed:
        require(exact.bytes, limit, _what(n), _remedies(n, sweep), sweep)
        return _named(exact, "exact", "as asked" if solver == "exact" else "the Gram matrix is given")
    cg_bytes = 64 * n * 8 + cg_rank(n, dtype, limit) * n * dtype.itemsize
    if solver == "cg":
        return _named(exact, "cg", "as asked", cg_bytes, sweep * _SWEEPS)
    if feature_dim <= n / 2 and primal_bytes <= limit:
        return _named(
            exact,
            "primal",
            f"{feature_dim} explicit features for {n} rows",
            int(primal_bytes),
            _primal_seconds(n, feature_dim),
        )
    if exact.bytes <= limit:
        return _named(exact, "exact", "the Gram matrix fits the memory budget")
    if sweep * _SWEEPS <= _PATIENCE:
        return _named(exact, "cg", f"the Gram matrix needs {human_bytes(exact.bytes)}", cg_bytes, sweep * _SWEEPS)
    require(exact.bytes, limit, _what(n), _remedies(n, sweep), sweep)
    raise AssertionError("unreachable")


def cg_rank(n, dtype, limit) -> int:
    """Rank of the factor that helps conjugate gradients, within an eighth of the budget; 0 where they need no help."""
    rank = min(int(5 * math.sqrt(n)), n // 4, int(limit / 8 / (n * np.dtype(dtype).itemsize)))
    return rank if n > 1000 and rank >= 10 else 0


def landmark_plan(centres, memory=None, threads=1) -> MethodPlan:
    """Conjugate gradients on landmarks: a few M x M matrices, and tiles."""
    M, limit, dtype = len(centres.gram), budget(memory), centres.gram.dtype
    width = centres.rows.shape[1] if getattr(centres.rows, "ndim", 1) == 2 else 1
    sweep = (entry_seconds(width, dtype) + 4 * 0.1e-9) * centres.n * M / max(threads, 1)
    seconds = _LANDMARK_SWEEPS * sweep + 4 * seconds_for_cholesky(M)
    plan = MethodPlan(
        "landmarks", f"{M} landmarks for {centres.n} rows", int(_LANDMARK_MATRICES * 8 * M * M), seconds, limit
    )
    remedies = ["use fewer landmarks", 'raise the budget, for example memory="64GB"']
    require(plan.bytes, limit, f"kernel ridge on {M} landmarks", remedies, sweep)
    return plan


def path_plan(n, d, dtype, memory=None) -> MethodPlan:
    """All alphas at once: the Gram becomes the orthogonal factor of its band form, whose reflectors are half a matrix more."""
    limit = budget(memory)
    sweep = entry_seconds(d, np.dtype(dtype)) * n * n
    seconds = sweep + 8 * seconds_for_cholesky(n)
    plan = MethodPlan("path", "all alphas from one reduction", int(_PATH_MATRICES * 8 * n * n), seconds, limit)
    remedies = [
        "fit on a sample of the rows",
        "use KernelRidge with a given alpha, on landmarks: n_landmarks=2000",
        'raise the budget, for example memory="64GB"',
    ]
    require(plan.bytes, limit, f"leave-one-out of {n} rows", remedies, sweep)
    return plan


def _named(plan, method, reason, n_bytes=None, seconds=None):
    return MethodPlan(
        method,
        reason,
        plan.bytes if n_bytes is None else n_bytes,
        plan.seconds if seconds is None else seconds,
        plan.budget,
    )


def _primal_seconds(n, q):
    return 2.0 * n * q * q / 3e10 + seconds_for_cholesky(int(q))


def _what(n):
    return f"kernel ridge with {n} rows (a {n} x {n} matrix)"


def _remedies(n, sweep):
    return [
        "solve on landmarks, which takes little memory and time in proportion to the rows: n_landmarks=2000",
        f'solver="cg" works tile by tile in little memory, at {human_seconds(sweep)} an iteration and some {_SWEEPS} iterations',
        "a kernel with few explicit features (Linear, Polynomial) is solved in the primal",
        'raise the budget, for example memory="64GB"',
    ]

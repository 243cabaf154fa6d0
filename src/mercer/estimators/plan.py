"""The planner's upper half: which method an estimator uses, with predicted bytes and seconds."""

import math
from dataclasses import dataclass

import numpy as np

from mercer.gram.plan import budget, entry_seconds, human_bytes, human_seconds, require
from mercer.linalg import seconds_for_cholesky

__all__ = ["MethodPlan", "path_plan", "ridge_plan"]

_SWEEPS = 200  # what conjugate gradients usually need without a preconditioner
_PATH_MATRICES = 1.8  # of float64
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
    if solver == "cg":
        return _named(exact, "cg", "as asked", 64 * n * 8, sweep * _SWEEPS)
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
        return _named(exact, "cg", f"the Gram matrix needs {human_bytes(exact.bytes)}", 64 * n * 8, sweep * _SWEEPS)
    require(exact.bytes, limit, _what(n), _remedies(n, sweep), sweep)
    raise AssertionError("unreachable")


def path_plan(n, d, dtype, memory=None) -> MethodPlan:
    """All alphas at once: the Gram becomes the orthogonal factor of its band form, whose reflectors are half a matrix more."""
    limit = budget(memory)
    sweep = entry_seconds(d, np.dtype(dtype)) * n * n
    seconds = sweep + 8 * seconds_for_cholesky(n)
    plan = MethodPlan("path", "all alphas from one reduction", int(_PATH_MATRICES * 8 * n * n), seconds, limit)
    remedies = [
        "fit on a sample of the rows",
        "use KernelRidge with a given alpha",
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
        "fit on a sample of the rows",
        f'solver="cg" works tile by tile in little memory, at {human_seconds(sweep)} an iteration and some {_SWEEPS} iterations',
        "a kernel with few explicit features (Linear, Polynomial) is solved in the primal",
        'raise the budget, for example memory="64GB"',
    ]

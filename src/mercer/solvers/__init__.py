"""Solvers on a Gram: they know matrices and records, not estimators."""

from mercer.solvers.ridge import (
    RidgePath,
    RidgeSolution,
    leave_one_out,
    loo_gradient,
    relative_residual,
    ridge_path,
    solve_ridge,
    solve_ridge_cg,
    solve_ridge_primal,
)

__all__ = [
    "RidgePath",
    "RidgeSolution",
    "leave_one_out",
    "loo_gradient",
    "relative_residual",
    "ridge_path",
    "solve_ridge",
    "solve_ridge_cg",
    "solve_ridge_primal",
]

"""Solvers on a Gram: they know matrices and records, not estimators."""

from mercer.solvers.falkon import LandmarkSolution, LandmarkState, Moments, Sweeps, solve_landmarks
from mercer.solvers.logistic import LogisticSolution, LogisticState, LogisticSweeps, solve_logistic
from mercer.solvers.perceptron import (
    DualScores,
    PerceptronSolution,
    PerceptronState,
    PrimalScores,
    compression_bound,
    finite_product,
    mistake_bound,
    solve_perceptron,
    voted_scores,
)
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
from mercer.solvers.rows import RowCache
from mercer.solvers.smo import DualProblem, DualSolution, duality_gap, solve_dual
from mercer.solvers.svm import Machine, c_svc, epsilon_svr, nu_svc, nu_svr, one_class, solve_machine

__all__ = [
    "DualProblem",
    "DualScores",
    "DualSolution",
    "LandmarkSolution",
    "LandmarkState",
    "LogisticSolution",
    "LogisticState",
    "LogisticSweeps",
    "Machine",
    "Moments",
    "PerceptronSolution",
    "PerceptronState",
    "PrimalScores",
    "RidgePath",
    "RidgeSolution",
    "RowCache",
    "Sweeps",
    "c_svc",
    "compression_bound",
    "duality_gap",
    "epsilon_svr",
    "finite_product",
    "leave_one_out",
    "loo_gradient",
    "mistake_bound",
    "nu_svc",
    "nu_svr",
    "one_class",
    "relative_residual",
    "ridge_path",
    "solve_dual",
    "solve_landmarks",
    "solve_logistic",
    "solve_machine",
    "solve_perceptron",
    "solve_ridge",
    "solve_ridge_cg",
    "solve_ridge_primal",
    "voted_scores",
]

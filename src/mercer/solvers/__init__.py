"""Solvers on a Gram: they know matrices and records, not estimators."""

from mercer.solvers.batch_smo import fits_together
from mercer.solvers.components import Components, components_of_gram, components_of_moments
from mercer.solvers.discriminant import Discriminant, solve_discriminant
from mercer.solvers.falkon import LandmarkSolution, LandmarkState, Moments, Sweeps, solve_landmarks
from mercer.solvers.kmeans import FeaturePoints, GramPoints, KMeansSolution, solve_kmeans, solve_minibatch, spread_rows
from mercer.solvers.logistic import LogisticSolution, LogisticState, LogisticSweeps, solve_logistic
from mercer.solvers.medoids import MedoidSolution, solve_medoids, solve_one_batch
from mercer.solvers.mixtures import RowMixtures
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
from mercer.solvers.preimage import (
    Preimages,
    Targets,
    best_candidates,
    by_distances,
    by_fixed_point,
    by_gradient,
)
from mercer.solvers.ridge import (
    RidgePath,
    RidgeSolution,
    gcv_gradient,
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
from mercer.solvers.svm import Machine, c_svc, epsilon_svr, nu_svc, nu_svr, one_class, solve_machine, solve_machines

__all__ = [
    "Components",
    "Discriminant",
    "DualProblem",
    "DualScores",
    "DualSolution",
    "FeaturePoints",
    "GramPoints",
    "KMeansSolution",
    "LandmarkSolution",
    "LandmarkState",
    "LogisticSolution",
    "LogisticState",
    "LogisticSweeps",
    "Machine",
    "MedoidSolution",
    "Moments",
    "PerceptronSolution",
    "PerceptronState",
    "Preimages",
    "PrimalScores",
    "RidgePath",
    "RidgeSolution",
    "RowCache",
    "RowMixtures",
    "Sweeps",
    "Targets",
    "best_candidates",
    "by_distances",
    "by_fixed_point",
    "by_gradient",
    "c_svc",
    "components_of_gram",
    "components_of_moments",
    "compression_bound",
    "duality_gap",
    "epsilon_svr",
    "finite_product",
    "fits_together",
    "gcv_gradient",
    "leave_one_out",
    "loo_gradient",
    "mistake_bound",
    "nu_svc",
    "nu_svr",
    "one_class",
    "relative_residual",
    "ridge_path",
    "solve_discriminant",
    "solve_dual",
    "solve_kmeans",
    "solve_landmarks",
    "solve_logistic",
    "solve_machine",
    "solve_machines",
    "solve_medoids",
    "solve_minibatch",
    "solve_one_batch",
    "solve_perceptron",
    "solve_ridge",
    "solve_ridge_cg",
    "solve_ridge_primal",
    "spread_rows",
    "voted_scores",
]

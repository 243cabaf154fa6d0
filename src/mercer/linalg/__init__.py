"""Linear algebra on "something with @": safe Cholesky, conjugate gradients, eigenpairs. Answers are records."""

from mercer.linalg.band import BandForm, band_form
from mercer.linalg.cg import CGState, conjugate_gradient
from mercer.linalg.cholesky import check_symmetric, safe_cholesky
from mercer.linalg.eigen import power_eigenpairs, smallest_eigenvalue, top_eigenpairs
from mercer.linalg.factor import Factor
from mercer.linalg.lowrank import LowRank, rpcholesky, rpcholesky_simple
from mercer.linalg.mixed import solve_mixed
from mercer.linalg.records import Eigenpairs, Solution, Status
from mercer.linalg.waiting import run_interruptibly, seconds_for_cholesky, seconds_for_eigh, seconds_for_solve

__all__ = [
    "BandForm",
    "CGState",
    "Eigenpairs",
    "Factor",
    "LowRank",
    "Solution",
    "Status",
    "band_form",
    "check_symmetric",
    "conjugate_gradient",
    "power_eigenpairs",
    "rpcholesky",
    "rpcholesky_simple",
    "run_interruptibly",
    "safe_cholesky",
    "seconds_for_cholesky",
    "seconds_for_eigh",
    "seconds_for_solve",
    "smallest_eigenvalue",
    "solve_mixed",
    "top_eigenpairs",
]

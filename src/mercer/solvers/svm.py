"""The support vector machines as dual problems, and their solutions in the machines' own terms (M8)."""

from dataclasses import dataclass

import numpy as np

from mercer.linalg import Status
from mercer.solvers.batch_smo import solve_duals
from mercer.solvers.smo import DualProblem, DualSolution, solve_dual

__all__ = ["Machine", "c_svc", "epsilon_svr", "nu_svc", "nu_svr", "one_class", "solve_machine", "solve_machines"]


@dataclass(frozen=True, eq=False)
class Machine:
    """f(x) = sum_i coefficients_i k(x, x_i) + intercept, and the certificate of the dual it came from.

    objective and gap are those of LIBSVM's formulation; violation is the largest difference of slopes in it.
    """

    coefficients: np.ndarray
    intercept: float
    status: Status
    violation: float
    gap: float
    objective: float
    iterations: int


def c_svc(y, C) -> DualProblem:
    """Soft margin with losses C_i max(0, 1 - y_i f(x_i)); y is -1 or 1."""
    return DualProblem(-y, np.where(y < 0, -C, 0.0), np.where(y > 0, C, 0.0))


def epsilon_svr(y, C, epsilon) -> DualProblem:
    """Regression with losses C_i max(0, |y_i - f(x_i)| - epsilon)."""
    return DualProblem(-y, -C, C.copy(), kink=float(epsilon))


def one_class(mass, nu) -> DualProblem:
    """Half space that holds all but about nu of the mass. Scholkopf et al. (2001)."""
    return DualProblem(np.zeros(len(mass)), np.zeros(len(mass)), mass.copy(), start=_filled(mass, nu * mass.sum()))


def nu_svc(y, mass, nu) -> DualProblem:
    """Margin errors at most, support vectors at least a fraction nu of the mass: the sum of each class is nu / 2 of it."""
    wanted = 0.5 * nu * mass.sum()
    upper, lower = np.where(y > 0, mass, 0.0), np.where(y < 0, mass, 0.0)
    if min(upper.sum(), lower.sum()) < wanted * (1 - 1e-12):
        largest = 2 * min(upper.sum(), lower.sum()) / mass.sum()
        raise ValueError(
            f"specified nu is infeasible: nu={nu:g}, but with these class sizes nu may be at most {largest:.4g}"
        )
    return DualProblem(np.zeros(len(y)), -lower, upper, parts=2, start=_filled(upper, wanted) - _filled(lower, wanted))


def nu_svr(y, C, nu) -> DualProblem:
    """Regression whose epsilon is found so that at most a fraction nu of the mass lies outside the tube.

    sum |beta| may be at most nu sum C; the start uses all of it where rows can be split into halves of that size.
    """
    wanted = 0.5 * nu * C.sum()
    first = np.cumsum(C) <= 0.5 * C.sum()
    if not first.any() or min(C[first].sum(), C[~first].sum()) < wanted:
        return DualProblem(-y, -C, C.copy())  # the bound cannot bind: epsilon is 0
    start = _filled(np.where(first, C, 0.0), wanted) - _filled(np.where(first, 0.0, C), wanted)
    return DualProblem(-y, -C, C.copy(), parts=2, start=start)


def _filled(room, total):
    """`total` poured into the rooms from the first on."""
    before = np.concatenate([[0.0], np.cumsum(room)[:-1]])
    return np.clip(total - before, 0.0, room)


def solve_machines(K, rows, problems: list[DualProblem], **options) -> list[Machine]:
    """The machines of several C-SVC problems, each on some rows of a Gram that the GPU holds whole."""
    found = solve_duals(K, rows, problems, **options)
    return [_machine(s, s.beta, -s.thresholds[0]) for s in found]


def solve_machine(K, kind: str, problem: DualProblem, **options) -> Machine:
    """Solve a dual and read the machine from it; kind is "c_svc", "nu_svc", "epsilon_svr", "nu_svr" or "one_class"."""
    solution = solve_dual(K, problem, **options)
    if kind == "nu_svr" and problem.parts == 2 and solution.thresholds[0] > solution.thresholds[1]:
        # A negative epsilon: the bound on sum |beta| does not bind.
        problem = DualProblem(problem.linear, problem.lower, problem.upper, start=solution.beta)
        solution = solve_dual(K, problem, **options)
    if kind == "nu_svc":
        return _scaled_machine(solution)
    above, below = solution.thresholds
    intercept = -0.5 * (above + below)
    return _machine(solution, solution.beta, intercept)


def _scaled_machine(s: DualSolution) -> Machine:
    """nu-SVC fixes the margin 2 r of classes at r and -r; divided by r it is a C-SVC with C = 1 / r."""
    above, below = s.thresholds
    r = 0.5 * (above - below)
    r = r if r > 0 else 1.0
    scaled = _machine(s, s.beta / r, -0.5 * (above + below) / r)
    return Machine(scaled.coefficients, scaled.intercept, s.status, s.violation / r, s.gap / r**2, s.objective / r**2,
                   s.iterations)  # fmt: skip


def _machine(s, beta, intercept):
    return Machine(beta, float(intercept), s.status, s.violation, s.gap, s.objective, s.iterations)

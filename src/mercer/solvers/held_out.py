"""Loss on rows that were held out of a fit, and its slopes in the Gram matrix and the penalty, by implicit differentiation.

A Gram matrix K (n, n) of all rows has the t rows of the fit first. With the fit a linear system [M 1; 1 0][a; b] = [y; 0] and r
the slope of the loss in the predictions K_vt a + b, the adjoint [M 1; 1 0][u; c] = [K_tv r; sum r] gives the slopes r a^T in K_vt
and -u a^T in M. Chapelle, Vapnik, Bousquet & Mukherjee (2002) do so for support vector machines, whose free vectors are such a
system while the bounded ones stay where they are.
"""

import numpy as np

from mercer.gram import GivenGram
from mercer.linalg import safe_cholesky
from mercer.solvers.smo import DualProblem
from mercer.solvers.svm import solve_machine

__all__ = ["held_out_machine", "held_out_ridge", "hinge", "square"]

_INSIDE = 1e-7  # of its range: nearer to an end than this a variable is on it
_TOL = 1e-6  # of slopes of the machine, whose free part is solved again exactly


def square(f, y):
    """Squared errors of predictions, and their slopes."""
    return (f - y) ** 2, 2.0 * (f - y)


def hinge(f, y):
    """Squares of what is missing to a margin of 1, and their slopes: smooth, unlike the hinge."""
    short = np.maximum(1.0 - y * f, 0.0)
    return short**2, -2.0 * y * short


def held_out_ridge(K: np.ndarray, Y, t: int, alpha: float, intercept=False):
    """Mean squared error of a ridge on the rows from t on, its slope W (n, n) in K, and in alpha."""
    factor = safe_cholesky(K[:t, :t].copy(), shift=alpha, overwrite=True, warn=False)
    ones, Kv = np.ones((t, 1)), K[t:, :t]
    edge = factor.solve(ones) if intercept else np.zeros((t, 1))
    weight = float(edge.sum()) or 1.0  # without an intercept the edge is not there

    def bordered(right, total):
        x = factor.solve(right)
        b = (x.sum(axis=0) - total) / weight if intercept else np.zeros(right.shape[1])
        return x - edge * b, b

    A, b = bordered(Y[:t], 0.0)
    losses, R = square(Kv @ A + b, Y[t:])
    R = R / losses.size
    U, _ = bordered(Kv.T @ R, R.sum(axis=0))
    return float(losses.mean()), _whole(len(K), t, -U @ A.T, R @ A.T), -float((U * A).sum())


def held_out_machine(K: np.ndarray, y, t: int, problem: DualProblem, kind: str, loss):
    """Summed loss of a support vector machine on the rows from t on, its slope W (n, n) in K, and in the log of all prices."""
    beta, b, free = _exact(K[:t, :t], y[:t], problem, kind)
    losses, r = loss(K[t:, :t] @ beta + b, y[t:])
    pull, bound = K[t:, :t].T @ r, np.flatnonzero(~free & (beta != 0))
    u = np.zeros(t)
    u[free], c = _bordered(K, free, pull[free], r.sum())
    by_price = float(beta[bound] @ (pull[bound] - K[:t, :t][bound] @ u - c))
    return float(losses.sum()), _whole(len(K), t, -np.outer(u, beta), np.outer(r, beta)), by_price


def _exact(K, y, problem, kind):
    """Coefficients, intercept and which variables are free; those solve their linear system to rounding."""
    machine = solve_machine(GivenGram(K), kind, problem, tol=_TOL)
    beta, room = machine.coefficients.copy(), problem.upper - problem.lower
    away = np.minimum(beta - problem.lower, problem.upper - beta) > _INSIDE * room
    free = away & (np.abs(beta) > _INSIDE * room)
    if not free.any():
        return beta, machine.intercept, free
    aim = (y - problem.kink * np.sign(beta))[free] - K[np.ix_(free, ~free)] @ beta[~free]
    beta[free], b = _bordered(K, free, aim, -beta[~free].sum())
    return beta, b, free


def _bordered(K, free, right, total):
    """x and c of [K 1; 1 0][x; c] = [right; total] on the free rows; the shortest where rows repeat, or where none is free:
    then the intercept may move, and is left where it is."""
    index = np.flatnonzero(free)
    q = len(index)
    M = np.ones((q + 1, q + 1))
    M[:q, :q], M[q, q] = K[np.ix_(index, index)], 0.0
    found = np.linalg.lstsq(M, np.append(right, total), rcond=1e-13)[0]
    return found[:q], float(found[q])


def _whole(n, t, inside, across):
    """Slopes (t, t) and (n - t, t) as one symmetric matrix (n, n)."""
    W = np.zeros((n, n))
    W[:t, :t] = 0.5 * (inside + inside.T)
    W[t:, :t] = 0.5 * across
    W[:t, t:] = W[t:, :t].T
    return W

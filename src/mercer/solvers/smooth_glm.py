r"""Kernel machines with an L2 penalty on the coefficients (M6): Newton's method by conjugate gradients on products K v.

.. math:: \min_{w, b} \ell(K w + b) + \tfrac{\alpha}{2} \lVert w \rVert^2, \qquad
          \max_\theta\; -\ell^*(-\theta) - \tfrac{1}{2\alpha} \lVert K \theta \rVert^2 \quad\text{with}\quad \sum_i \theta_i = 0.

The intercept is always the best one for the coefficients. Then with :math:`\theta = -\ell'(K w + b)` the duality gap is the
squared norm of the gradient :math:`\alpha w - K \theta` over :math:`2 \alpha`. The Hessian is :math:`K D K + \alpha I`; for the
squared loss one step is the answer, :math:`(K^2 + \alpha I) w = K t`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.gram import GivenGram
from mercer.linalg import Status, run_interruptibly, safe_cholesky, seconds_for_eigh, top_eigenpairs
from mercer.solvers.glm_losses import Loss, unbalanced
from mercer.threads import one_thread_blas

__all__ = ["Factored", "SmoothSolution", "Spectral", "l2_path", "solve_l2"]

_HALVINGS, _DECREASE, _ROUNDING = 40, 1e-4, 1e-14  # of the line search
_INNER, _AGED = 150, 15  # conjugate gradients in one Newton step, and those after which a preconditioner is made anew
_PATIENCE = 3  # steps without progress
_WHOLE, _RANK = 1500, 100  # rows up to which all eigenpairs are found, and how many are otherwise


@dataclass(frozen=True, eq=False)
class SmoothSolution:
    """Coefficients (m, p), intercepts (p,), the value of the objective and how exact it is.

    certificate: duality gap relative to the objective, from scores computed anew. iterations: Newton steps, at least 1.
    """

    coefficients: np.ndarray
    intercept: np.ndarray
    objective: float
    status: Status
    certificate: float
    iterations: int


class Factored:
    """Preconditioner K diag(c) K + alpha I by Cholesky, c the curvatures of the rows: exact for one output.

    It takes three times the room of the Gram, which must be held.
    """

    def __init__(self, K: GivenGram):
        self.K, self.factor = K, None

    def refresh(self, curvature, alpha):
        self.factor = None  # let go of the old one first
        A = np.asarray(self.K.K, np.float64)
        root = np.ascontiguousarray(A * np.sqrt(curvature)[:, None])
        self.factor = safe_cholesky(root.T @ root, shift=alpha, overwrite=True, warn=False)

    def solve(self, R):
        return self.factor.solve(R)


class Spectral:
    """Preconditioner c K^2 + alpha I from eigenpairs of K^2, all or the largest, c the mean curvature; for any alpha."""

    def __init__(self, K):
        m = K.shape[0]
        if isinstance(K, GivenGram) and m <= _WHOLE:
            with one_thread_blas():  # of small matrices: threads wait for one another for longer than they work
                values, self.vectors = run_interruptibly(np.linalg.eigh, K.K, seconds_predicted=seconds_for_eigh(m))
            self.squares = values**2
        else:
            pairs = top_eigenpairs(_Square(K), min(m, _RANK), rng=np.random.default_rng(0), tol=1e-9, max_iter=12)
            self.squares, self.vectors = np.maximum(pairs.values, 0.0), pairs.vectors
        self.diagonal, self.alpha = None, 1.0

    def refresh(self, curvature, alpha):
        self.diagonal, self.alpha = float(curvature.mean()) * self.squares + alpha, alpha

    def solve(self, R):
        inside = self.vectors.T @ R
        return R / self.alpha + self.vectors @ (inside / self.diagonal[:, None] - inside / self.alpha)


class _Square:
    """K^2 as something with @."""

    def __init__(self, K):
        self.K, self.shape, self.dtype = K, K.shape, np.dtype(np.float64)

    def __matmul__(self, V):
        return self.K @ (self.K @ V)


def solve_l2(
    K,
    loss: Loss,
    alpha: float,
    intercept: bool = True,
    *,
    preconditioner: Factored | Spectral,
    start: SmoothSolution | None = None,
    rtol: float = 1e-6,
    max_iter: int = 100,
    callback: Callable | None = None,
) -> SmoothSolution:
    """Minimise loss(K w + b) + alpha/2 |w|^2 to a duality gap of `rtol` of the value, from another solution or 0.

    One step follows the one that got there: it costs little, and what it leaves is far below.
    """
    # Products go by rows over our own threads; weights of 1e99 overflow and are then not followed.
    with one_thread_blas(), np.errstate(all="ignore"):
        return _solve(_Problem(K, loss, float(alpha), intercept, preconditioner), start, rtol, max_iter, callback)


def _solve(problem, start, rtol, max_iter, callback):
    point = problem.start(start)
    stuck, last, iteration = 0, False, 0
    for iteration in range(1, max_iter + 1):
        if last or stuck >= _PATIENCE:
            break
        last = point.relative <= rtol
        new = problem.stepped(point)
        stuck = 0 if new.value < point.value or new.gap < 0.9 * point.gap else stuck + 1
        point = new if new.gap < point.gap or (new.value < point.value and not last) else point
        if callback is not None:
            callback(iteration, point.relative)
    final = problem.at(point.W, point.b)
    status = Status.CONVERGED if final.relative <= rtol else Status.STAGNATED if stuck >= _PATIENCE else Status.MAX_ITER
    return SmoothSolution(final.W, final.b, final.value, status, final.relative, iteration)


def l2_path(K, loss, alphas, intercept=True, **settings):
    """Solutions for alphas, each from the one before, one at a time."""
    found = None
    for alpha in alphas:
        found = solve_l2(K, loss, alpha, intercept, start=found, **settings)
        yield found


# ------------------------------------------------------------------------------------------------ inside
@dataclass(frozen=True, eq=False)
class _Point:
    """Coefficients, intercepts, scores, value, gradient and duality gap; scale: what the gap is compared with."""

    W: np.ndarray
    b: np.ndarray
    F: np.ndarray
    value: float
    gradient: np.ndarray
    gap: float
    scale: float

    @property
    def relative(self):
        return self.gap / self.scale


class _Problem:
    def __init__(self, K, loss, alpha, intercept, preconditioner):
        self.K, self.loss, self.alpha, self.intercept = K, loss, alpha, intercept
        self.preconditioner, self.fresh = preconditioner, False

    def start(self, found) -> _Point:
        if found is not None:
            return self.at(found.coefficients, found.intercept)
        p = self.loss.outputs
        return self.at(np.zeros((len(self.loss.weight), p)), np.zeros(p))

    def product(self, V):
        return np.asarray(self.K @ V, np.float64)

    def at(self, W, b, F=None) -> _Point:
        """The point with coefficients W and the best intercept; F, if known, are scores without one."""
        F = self.product(W) if F is None else F
        b = self.loss.intercept(F, b) if self.intercept else np.zeros(W.shape[1])
        R = self.loss.balanced(self.loss.slopes(F + b)) if self.intercept else self.loss.slopes(F + b)
        back = self.product(R)
        value = self._value(F + b, W)
        gap = max(value - self.loss.dual(R) + float((back**2).sum()) / (2 * self.alpha), 0.0)
        gap += unbalanced(self.loss, R, b) if self.intercept else 0.0
        scale = max(abs(value), self.loss.rounding, np.finfo(float).tiny)
        return _Point(W, b, F, value, self.alpha * W - back, gap, scale)

    def _value(self, F, W):
        return self.loss.value(F) + 0.5 * self.alpha * float((W**2).sum())

    def stepped(self, point) -> _Point:
        """One Newton step on, shortened until the objective falls."""
        D = self.loss.curvature(point.F + point.b)
        step = self._newton(D, point)
        slope, change, length = float((point.gradient * step).sum()), self.product(step), 1.0
        for _ in range(_HALVINGS):
            W, F = point.W + length * step, point.F + length * change
            b = self.loss.intercept(F, point.b) if self.intercept else point.b
            if self._value(F + b, W) <= point.value + _DECREASE * length * slope + _ROUNDING * abs(point.value):
                return self.at(W, b)
            length /= 2
        return point

    def _newton(self, D, point):
        """- (K D K + alpha I)^-1 gradient, to a small part of it; the preconditioner is made anew when it has aged."""
        inverse = np.linalg.pinv(D.sum(axis=2), rcond=1e-12, hermitian=True) if self.intercept else None

        def apply(V):
            Z = self.product(V)
            bent = np.einsum("cdi,id->ic", D, Z)
            if inverse is not None:
                bent = bent - np.einsum("cdi,d->ic", D, inverse @ bent.sum(axis=0))
            return self.product(bent) + self.alpha * V

        goal = self._share(point) * float(np.linalg.norm(point.gradient))
        x, r = np.zeros_like(point.W), -point.gradient
        if self.fresh:
            x, r = _conjugate_gradient(apply, self.preconditioner.solve, x, r, goal, _AGED)
        if np.linalg.norm(r) > goal:
            self.preconditioner.refresh(np.einsum("cci->i", D) / len(D), self.alpha)
            self.fresh = True
            x, r = _conjugate_gradient(apply, self.preconditioner.solve, x, r, goal, _INNER)
        return x

    def _share(self, point):
        """Of the gradient, what a step may leave: the less, the nearer the end is; nothing where one step is the answer."""
        return 1e-9 if hasattr(self.loss, "target") else float(np.clip(np.sqrt(point.relative), 1e-6, 0.05))


def _conjugate_gradient(apply, precondition, x, r, tolerance, cap):
    """At most `cap` steps on A x = b from x, whose residual is r, until that is at most `tolerance`. Returns both."""
    z = precondition(r)
    p, rz = z, float((r * z).sum())
    for _ in range(cap):
        if not rz > 0.0 or np.linalg.norm(r) <= tolerance:
            break
        q = apply(p)
        bend = float((p * q).sum())
        if not bend > 0.0:
            break
        x, r = x + rz / bend * p, r - rz / bend * q
        z = precondition(r)
        rz, before = float((r * z).sum()), rz
        p = z + rz / before * p
    return x, r

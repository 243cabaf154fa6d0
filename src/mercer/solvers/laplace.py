"""Gaussian process classification by Laplace's approximation: mode, evidence, its slope, and latent predictions.

Rasmussen & Williams (2006), Gaussian Processes for Machine Learning, algorithms 3.1 to 3.4, 5.1 and section 3.5.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

from mercer.linalg import safe_cholesky
from mercer.linalg.inplace import invert_triangle
from mercer.threads import stopping

__all__ = ["LaplaceModes", "averaged", "averaged_softmax", "laplace"]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class LaplaceModes:
    """The mode f (n, c) of the latent functions, one column for two classes, and the Gaussian around it.

    residual: a = K^-1 f = y - pi (n, c), the coefficients of the mode as an expansion. blocks, joint: of (W^-1 + K)^-1 the
    blocks E_c (c, n, n), and the inverse of the factor of their sum (None for two classes), for E_c (sum E)^-1 E_c' is taken off.
    evidence: Laplace's approximation of the log evidence. gain: what the last step of Newton's method promised.
    """

    f: np.ndarray
    residual: np.ndarray
    blocks: np.ndarray
    joint: np.ndarray | None
    evidence: float
    gain: float

    def latent(self, K, own):
        """Means (m, c) and covariances (m, c, c) of new rows with kernel values K (m, n) and own (m,) = k(x, x)."""
        mean = K @ self.residual
        through = np.stack([K @ E for E in self.blocks])  # (c, m, n)
        outputs = len(self.blocks)
        V = np.zeros((len(K), outputs, outputs))
        for c in range(outputs):
            V[:, c, c] = own - np.einsum("mn,mn->m", through[c], K)
        if self.joint is not None:
            G = np.stack([T @ self.joint.T for T in through])
            V += np.einsum("cmn,dmn->mcd", G, G)
        return mean, V

    def slope(self, K) -> np.ndarray:
        """Slope (n, n) of the evidence in K, through the mode too: eq. 5.21 to 5.24."""
        V = self._spread(K)
        S = -0.5 * _third(self.f, V)  # of the log determinant, in f
        U = S - self._inverse_times(K @ S)
        W = 0.5 * self.residual @ self.residual.T - 0.5 * self._diagonal_blocks()
        W += 0.5 * (U @ self.residual.T + self.residual @ U.T)
        return W

    def _spread(self, K):
        """Covariance (n, c, c) of the latent values of each row around the mode."""
        return self.latent(K, K.diagonal())[1]

    def _inverse_times(self, F):
        """(W^-1 + K)^-1 F for F (n, c)."""
        out = np.stack([E @ F[:, c] for c, E in enumerate(self.blocks)])
        if self.joint is not None:
            shared = self.joint.T @ (self.joint @ out.sum(axis=0))
            out -= np.stack([E @ shared for E in self.blocks])
        return out.T

    def _diagonal_blocks(self):
        """Sum of the blocks of (W^-1 + K)^-1 that belong to one class each."""
        total = self.blocks.sum(axis=0)
        if self.joint is not None:
            for E in self.blocks:
                half = self.joint @ E
                total -= half.T @ half
        return total


def laplace(K: np.ndarray, codes, classes: int, *, tol=1e-12, max_iter=100, start=None) -> LaplaceModes:
    """The mode of the latent functions of n rows with Gram K, of 2 classes (one function) or of more (one each, softmax)."""
    problem = _Binary(K, codes) if classes == 2 else _Softmax(K, codes, classes)
    a = np.zeros((len(K), problem.outputs)) if start is None else start
    f = K @ a
    value = problem.objective(f, a)
    gain = np.inf
    for _ in range(max_iter):
        new_a = problem.step(f)
        gain = float(((new_a - a) * (problem.slope(f) - a)).sum()) if a.any() else np.inf
        a, f, value, moved = _damped(K, problem, a, f, new_a, value)
        if stopping() or moved <= tol * max(1.0, abs(value)):
            break
    blocks, joint, logdet = problem.curvature(f)
    residual = problem.slope(f)
    evidence = problem.log_likelihood(f) - 0.5 * float((residual * f).sum()) - 0.5 * logdet
    return LaplaceModes(f, residual, blocks, joint, evidence, gain)


def _damped(K, problem, a, f, new_a, value):
    """Newton's step, halved until the objective rises."""
    size = 1.0
    for _ in range(_HALVINGS):
        tried = a + size * (new_a - a)
        there = K @ tried
        new = problem.objective(there, tried)
        if new >= value - 1e-13 * abs(value):
            return tried, there, new, new - value
        size *= 0.5
    return a, f, value, 0.0


class _Binary:
    outputs = 1

    def __init__(self, K, codes):
        self.K, self.y = K, np.where(codes == 1, 1.0, 0.0)[:, None]
        self.signs = 2 * self.y - 1

    def log_likelihood(self, f):
        return float(log_expit(self.signs * f).sum())

    def objective(self, f, a):
        return self.log_likelihood(f) - 0.5 * float((a * f).sum())

    def slope(self, f):
        return self.y - expit(f)

    def _roots(self, f):
        p = expit(f[:, 0])
        return np.sqrt(p * (1 - p))

    def _factor(self, root):
        return safe_cholesky(root[:, None] * self.K * root, shift=1.0, overwrite=True, warn=False)

    def step(self, f):
        root = self._roots(f)
        b = root**2 * f[:, 0] + self.slope(f)[:, 0]
        inner = self._factor(root).solve(root * (self.K @ b))
        return (b - root * inner)[:, None]

    def curvature(self, f):
        root = self._roots(f)
        factor = self._factor(root)
        logdet = factor.logdet()
        E = factor.inverse(overwrite=True)
        E *= root[:, None]
        E *= root
        return E[None], None, logdet


class _Softmax:
    def __init__(self, K, codes, classes):
        self.K, self.outputs = K, classes
        self.y = (codes[:, None] == np.arange(classes)).astype(np.float64)

    def log_likelihood(self, f):
        return float((self.y * log_softmax(f, axis=1)).sum())

    def objective(self, f, a):
        return self.log_likelihood(f) - 0.5 * float((a * f).sum())

    def slope(self, f):
        return self.y - softmax(f, axis=1)

    def curvature(self, f):
        """Blocks E_c = D^1/2 (I + D^1/2 K D^1/2)^-1 D^1/2, the inverse factor of their sum, and log det(I + K W)."""
        blocks, logdet = np.empty((self.outputs, *self.K.shape)), 0.0
        for c, p in enumerate(softmax(f, axis=1).T):
            root = np.sqrt(p)
            factor = safe_cholesky(root[:, None] * self.K * root, shift=1.0, overwrite=True, warn=False)
            logdet += factor.logdet()
            E = factor.inverse(overwrite=True)
            E *= root[:, None]
            E *= root
            blocks[c] = E
        joint = safe_cholesky(blocks.sum(axis=0), overwrite=True, warn=False)
        logdet += joint.logdet()
        invert_triangle(joint.array)
        return blocks, np.tril(joint.array), logdet

    def step(self, f):
        p = softmax(f, axis=1)
        blocks, joint, _ = self.curvature(f)
        b = p * f - p * (p * f).sum(axis=1, keepdims=True) + self.slope(f)
        c = np.column_stack([E @ (self.K @ b[:, i]) for i, E in enumerate(blocks)])
        shared = joint.T @ (joint @ c.sum(axis=1))
        return b - c + np.column_stack([E @ shared for E in blocks])


def _third(f, V):
    """Slope (n, c), in f, of the trace of V W(f), V (n, c, c) fixed and W the curvature of the likelihood."""
    if f.shape[1] == 1:
        p = expit(f)
        return V[:, 0] * p * (1 - p) * (1 - 2 * p)
    p = softmax(f, axis=1)
    t = np.einsum("ncc->nc", V) - 2 * np.einsum("ncd,nd->nc", V, p)
    return p * (t - (p * t).sum(axis=1, keepdims=True))


def averaged(mean, variance) -> np.ndarray:
    """Mean of the logistic function of a normal variable, by Gauss and Hermite's rule."""
    z = mean[:, None] + np.sqrt(np.maximum(variance, 0.0))[:, None] * _NODES
    return expit(z) @ _WEIGHTS / _WEIGHTS.sum()


def averaged_softmax(mean, covariance, draws) -> np.ndarray:
    """Mean of the softmax of normal vectors, over given standard normal draws (s, c)."""
    values, vectors = np.linalg.eigh(covariance)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    z = mean[:, None, :] + np.einsum("mcd,sd->msc", roots, draws)
    return softmax(z, axis=2).mean(axis=1)

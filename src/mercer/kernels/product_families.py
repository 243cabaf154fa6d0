"""Families of distributions with closed forms of the integral of p^rho q^rho, from their parameters."""

import numpy as np
from scipy.special import gammaln, ive, logsumexp, xlogy

from mercer.kernels.models import check_shares, spread
from mercer.kernels.normals import LOG_2PI

__all__ = ["Bernoulli", "Exponential", "Gaussian", "Multinomial", "Poisson", "log_normal_pairs"]


def _numbers(x, low=0.0, high=np.inf, positive=False):
    try:
        v = np.atleast_1d(np.asarray(x, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"expected a vector of parameters, got {type(x).__name__}") from None
    if v.ndim != 1 or not v.size:
        raise ValueError(f"expected a vector of parameters, got shape {v.shape}")
    if not np.isfinite(v).all() or v.min() < low or v.max() > high or (positive and v.min() <= 0):
        raise ValueError(
            f"parameters must lie between {low:g} and {high:g}{', above 0' if positive else ''}; got {v[:6]}"
        )
    return v


def _stacked(xs):
    widths = {len(x) for x in xs}
    if len(widths) > 1:
        raise ValueError(f"the distributions have {sorted(widths)} parameters; expected the same number in all rows")
    return np.stack(list(xs))


def _sides(xs, ys):
    """Parameters of both sides, (n, 1, p) and (1, m, p)."""
    p, q = _stacked(xs), _stacked(ys)
    _stacked([p[0], q[0]])
    return p[:, None], q[None]


class Bernoulli:
    """Independent Bernoulli variables: their probabilities."""

    def parse(self, x, kernel):
        return _numbers(x, high=1.0)

    def logs(self, xs, ys, kernel):
        p, q = _sides(xs, ys)
        with np.errstate(divide="ignore"):
            return np.log((p * q) ** kernel.rho + ((1 - p) * (1 - q)) ** kernel.rho).sum(axis=2)


class Multinomial:
    """Probabilities that add up to 1."""

    def parse(self, x, kernel):
        p = _numbers(x, high=1.0)
        check_shares(p)
        return p

    def logs(self, xs, ys, kernel):
        p, q = (side.reshape(-1, side.shape[2]) ** kernel.rho for side in _sides(xs, ys))
        with np.errstate(divide="ignore"):
            return kernel.trials * np.log(np.einsum("ik,jk->ij", p, q))


class Poisson:
    """Independent Poisson variables: their rates."""

    def parse(self, x, kernel):
        return _numbers(x)

    def logs(self, xs, ys, kernel):
        (p, q), r = _sides(xs, ys), float(kernel.rho)
        root = np.sqrt(p) * np.sqrt(q)
        if r == 0.5:
            return -0.5 * ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=2)
        if r == 1.0:
            return (np.log(ive(0, 2 * root)) - (np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=2)
        return (_poisson_sum(root, r) - r * (p + q)).sum(axis=2)


def _poisson_sum(root, r):
    """log of the sum over k of root^(2rk) / k!^(2r): terms around the largest, until they vanish in float64."""
    reach = np.sqrt(root.max() + 1) * 40 / np.sqrt(r) + 40 / r + 40
    k = np.arange(int(root.max() + reach) + 1)
    total = np.full(root.shape, -np.inf)
    for some in np.array_split(k, len(k) // 256 + 1):
        terms = 2 * r * (xlogy(some, root[..., None]) - gammaln(some + 1))
        total = np.logaddexp(total, logsumexp(terms, axis=-1))
    return total


class Exponential:
    """Independent exponential variables: their rates."""

    def parse(self, x, kernel):
        return _numbers(x, positive=True)

    def logs(self, xs, ys, kernel):
        (p, q), r = _sides(xs, ys), kernel.rho
        return (r * (np.log(p) + np.log(q)) - np.log(r * (p + q))).sum(axis=2)


class Gaussian:
    """(mean, covariance), or the mean alone where the kernel has a covariance for all rows."""

    def parse(self, x, kernel):
        if kernel.covariance is None:
            if not isinstance(x, (tuple, list)) or len(x) != 2:
                raise TypeError(
                    f"expected a pair (mean, covariance), or ProbabilityProduct(covariance=...); got {type(x).__name__}"
                )
            mean, covariance = x
        else:
            mean, covariance = x, kernel.covariance
        mean = _numbers(mean, low=-np.inf)
        return mean, spread(covariance, len(mean))

    def logs(self, xs, ys, kernel):
        (m, S), (n, T) = ((_stacked([x[0] for x in side]), np.stack([x[1] for x in side])) for side in (xs, ys))
        r, d = float(kernel.rho), m.shape[1]
        # N(m, S)^r is a multiple of N(m, S / r)
        a, b = (0.5 * (1 - r) * (d * LOG_2PI + np.linalg.slogdet(A)[1]) - 0.5 * d * np.log(r) for A in (S, T))
        return a[:, None] + b + log_normal_pairs(m, S / r, n, T / r)


def log_normal_pairs(m, S, n, T):
    """log N(m_i | n_j, S_i + T_j) of all pairs; S and T are covariances, or variances (k, d)."""
    if m.shape[1] != n.shape[1]:
        raise ValueError(f"the Gaussians have {m.shape[1]} and {n.shape[1]} columns; expected the same number")
    D, C = m[:, None] - n[None], S[:, None] + T[None]
    if S.ndim == 2:
        squares, log_det = (D * D / C).sum(axis=-1), 0.5 * np.log(C).sum(axis=-1)
    else:
        L = np.linalg.cholesky(C)
        z = np.linalg.solve(L, D[..., None])[..., 0]
        squares, log_det = (z * z).sum(axis=-1), np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)
    return -0.5 * squares - log_det - 0.5 * m.shape[1] * LOG_2PI

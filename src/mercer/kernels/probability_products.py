"""Probability product kernels (G5): k(p, q) is the integral of p^rho q^rho; a row is a distribution."""

from itertools import combinations_with_replacement, pairwise
from math import factorial, prod
from typing import Any

import numpy as np
from scipy.special import gammaln, ive, logsumexp, xlogy

from mercer import validate
from mercer.kernels.base import PairKernel, frozen
from mercer.kernels.generative import _exponential
from mercer.kernels.hmm import HiddenMarkov, steps
from mercer.kernels.models import MixtureModel, _check_weights, _matrix, as_model
from mercer.kernels.normals import LOG_2PI, log_joint, log_normal
from mercer.kernels.parameters import Natural, Positive
from mercer.kernels.validity import certificate
from mercer.random import generator
from mercer.registry import register

__all__ = ["ProbabilityProduct"]


# --------------------------------------------------------------------------------------------------- vectors
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


class _Bernoulli:
    """Independent Bernoulli variables: their probabilities."""

    def parse(self, x, kernel):
        return _numbers(x, high=1.0)

    def logs(self, xs, ys, kernel):
        p, q = _stacked(xs)[:, None], _stacked(ys)[None]
        with np.errstate(divide="ignore"):
            return np.log((p * q) ** kernel.rho + ((1 - p) * (1 - q)) ** kernel.rho).sum(axis=2)


class _Multinomial:
    """Probabilities that add up to 1."""

    def parse(self, x, kernel):
        p = _numbers(x, high=1.0)
        _check_weights(p)
        return p

    def logs(self, xs, ys, kernel):
        products = np.einsum("ik,jk->ij", _stacked(xs) ** kernel.rho, _stacked(ys) ** kernel.rho)
        with np.errstate(divide="ignore"):
            return kernel.trials * np.log(products)


class _Poisson:
    """Independent Poisson variables: their rates."""

    def parse(self, x, kernel):
        return _numbers(x)

    def logs(self, xs, ys, kernel):
        p, q, r = _stacked(xs)[:, None], _stacked(ys)[None], float(kernel.rho)
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


class _Exponential:
    """Independent exponential variables: their rates."""

    def parse(self, x, kernel):
        return _numbers(x, positive=True)

    def logs(self, xs, ys, kernel):
        p, q, r = _stacked(xs)[:, None], _stacked(ys)[None], kernel.rho
        return (r * (np.log(p) + np.log(q)) - np.log(r * (p + q))).sum(axis=2)


# --------------------------------------------------------------------------------------------------- Gaussians
def _log_normal_pairs(m, S, n, T):
    """log N(m_i | n_j, S_i + T_j) of all pairs."""
    D = m[:, None] - n[None]
    L = np.linalg.cholesky(S[:, None] + T[None])
    z = np.linalg.solve(L, D[..., None])[..., 0]
    log_det = np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)
    return -0.5 * (z * z).sum(axis=-1) - log_det - 0.5 * m.shape[1] * LOG_2PI


class _Gaussian:
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
        return mean, _matrix(covariance, len(mean))

    def logs(self, xs, ys, kernel):
        (m, S), (n, T) = ((_stacked([x[0] for x in side]), np.stack([x[1] for x in side])) for side in (xs, ys))
        r, d = float(kernel.rho), m.shape[1]
        if n.shape[1] != d:
            raise ValueError(f"the Gaussians have {d} and {n.shape[1]} columns")
        # N(m, S)^r is a multiple of N(m, S / r)
        a, b = (0.5 * (1 - r) * (d * LOG_2PI + np.linalg.slogdet(A)[1]) - 0.5 * d * np.log(r) for A in (S, T))
        return a[:, None] + b + _log_normal_pairs(m, S / r, n, T / r)


class _Mixture:
    """(weights, means, covariances), a MixtureModel, or a fitted GaussianMixture."""

    def parts(self, x):
        """(log weights, means, covariances) of a row."""
        if isinstance(x, (tuple, list)) and len(x) == 3:
            kind = "full" if np.ndim(x[2]) == 3 else "diag"
            x = MixtureModel(len(x[0]), kind, *x)
        x = as_model(x)
        if not isinstance(x, MixtureModel) or not x.fitted:
            raise TypeError("expected (weights, means, covariances), a fitted MixtureModel or a fitted GaussianMixture")
        S = x.covariances if x.covariance_type == "full" else np.stack([np.diag(v) for v in x.covariances])
        with np.errstate(divide="ignore"):
            return np.log(x.weights), x.means, S

    def parse(self, x, kernel):
        if kernel.exact:
            return _power(*self.parts(x), int(kernel.rho))
        return _drawn(self.parts(x), np.asarray(kernel.draws), float(kernel.rho))

    def logs(self, xs, ys, kernel):
        if kernel.exact:
            return np.array([[_overlap(x, y) for y in ys] for x in xs]).reshape(len(xs), len(ys))
        A, B = np.stack(xs), np.stack(ys)
        a, b = (np.maximum(M.max(axis=1, keepdims=True), -1e300) for M in (A, B))
        with np.errstate(divide="ignore"):
            return np.log(np.einsum("is,js->ij", np.exp(A - a), np.exp(B - b))) + a + b.T


def _drawn(parts, draws, rho):
    """Logarithms of the features p(z)^rho / sqrt(n q(z)) at the draws z, of which the last column is log q(z)."""
    logs, means, covariances = parts
    Z, log_q = draws[:, :-1], draws[:, -1]
    if means.shape[1] != Z.shape[1]:
        raise ValueError(
            f"the mixture has {means.shape[1]} columns, those that the kernel was resolved on had {Z.shape[1]}"
        )
    return rho * logsumexp(log_joint(Z, (np.exp(logs), means, covariances)), axis=1) - 0.5 * (log_q + np.log(len(Z)))


def _proposal(parts, weight, rho, n, random_state):
    """Draws from one Gaussian, wider than the mean of all mixtures to the power rho, beside their log density."""
    shares = np.concatenate([w * np.exp(p[0]) for w, p in zip(weight, parts, strict=True)]) / weight.sum()
    means, covariances = (np.concatenate([p[i] for p in parts]) for i in (1, 2))
    m = shares @ means
    S = np.einsum("k,kij->ij", shares, covariances) + (shares[:, None] * (means - m)).T @ (means - m)
    S = 1.5 * S / min(2 * rho, 1.0)
    Z = m + generator(random_state).standard_normal((n, len(m))) @ np.linalg.cholesky(S).T
    return np.column_stack([Z, log_normal(Z, m, S)])


def _overlap(x, y):
    (a, m, S), (b, n, T) = x, y
    if m.shape[1] != n.shape[1]:
        raise ValueError(f"the mixtures have {m.shape[1]} and {n.shape[1]} columns")
    return float(logsumexp(a[:, None] + b + _log_normal_pairs(m, S, n, T)))


def _power(logs, means, covariances, power):
    """p^power as a sum of multiples of Gaussians: (log factors, means, covariances)."""
    if power == 1:
        return logs, means, covariances
    found = []
    for chosen in combinations_with_replacement(range(len(logs)), power):
        repeats = prod(factorial(chosen.count(c)) for c in set(chosen))
        log, m, S = logs[chosen[0]] + np.log(factorial(power) / repeats), means[chosen[0]], covariances[chosen[0]]
        for c in chosen[1:]:
            log += logs[c] + _log_normal_pairs(m[None], S[None], means[[c]], covariances[[c]])[0, 0]
            A = np.linalg.solve(S + covariances[c], S).T  # S (S + T)^-1
            m, S = m + A @ (means[c] - m), S - A @ S
        found.append((log, m, (S + S.T) / 2))
    return tuple(np.array(part) for part in zip(*found, strict=True))


# --------------------------------------------------------------------------------------------------- hidden Markov
class _Hidden:
    """A fitted HiddenMarkov model, as the distribution of sequences of `length` steps; rho = 1."""

    def parse(self, x, kernel):
        if not isinstance(x, HiddenMarkov) or not x.fitted:
            raise TypeError(f"expected a fitted HiddenMarkov model, got {type(x).__name__}")
        return x

    def logs(self, xs, ys, kernel):
        return np.array([[_chain(x, y, int(kernel.length)) for y in ys] for x in xs]).reshape(len(xs), len(ys))


def _chain(x, y, length):
    """log of the sum over sequences of p(x) q(x), over the states of both chains side by side."""
    from mercer.kernels import _compiled_hmm as loops

    pair, alpha = _emission_overlap(x, y), np.zeros((len(x.start), len(y.start)))
    cuts, total = steps(length, max(alpha.shape)), 0.0
    arguments = (pair, np.outer(x.start, y.start), *(np.array(a.moves) for a in (x, y)), alpha)
    for a, b in pairwise(cuts):
        total += loops.affinity(*arguments, a, b)
    with np.errstate(divide="ignore"):
        return total + np.log(alpha.sum())


def _emission_overlap(x, y):
    if x.emissions != y.emissions:
        raise ValueError("models of symbols and models of numbers have nothing in common; use one kind")
    if x.emissions == "gaussian":
        S, T = (np.stack([np.diag(v) for v in a.variances]) for a in (x, y))
        return np.exp(_log_normal_pairs(x.means, S, y.means, T))
    place = {s: i for i, s in enumerate(y.symbols)}
    both = [(i, place[s]) for i, s in enumerate(x.symbols) if s in place]
    i, j = np.array(both, dtype=int).reshape(-1, 2).T
    return np.ascontiguousarray(x.table[:, i] @ y.table[:, j].T)


_FAMILIES = {
    "gaussian": _Gaussian(),
    "bernoulli": _Bernoulli(),
    "multinomial": _Multinomial(),
    "poisson": _Poisson(),
    "exponential": _Exponential(),
    "mixture": _Mixture(),
    "hmm": _Hidden(),
}


@register
@frozen
class ProbabilityProduct(PairKernel):
    """Probability product kernel (G5): the integral of p^rho q^rho, of rows that are distributions; rho = 1/2 is the
    Bhattacharyya kernel, rho = 1 the expected likelihood. Jebara, Kondor and Howard (2004).

    A row of "gaussian" is (mean, covariance), or a mean where `covariance` is given; of "bernoulli", "poisson" and
    "exponential" a vector of parameters of independent variables; of "multinomial" probabilities (`trials` > 1 needs
    rho = 1/2); of "mixture" (weights, means, covariances); of "hmm" a fitted HiddenMarkov model, for sequences of `length`
    steps, with rho = 1. `unit` divides by the square root of k(x, x) k(y, y) in log space.

    Mixtures have a closed form for whole rho. For others the integral is a mean over `n_samples` draws, the same for all
    rows, from a Gaussian found when the kernel is resolved: PSD for any number; `error(X, Y)` is the standard error.

    >>> float(ProbabilityProduct("poisson")([1.0], [4.0])[0, 0])  # exp(-(1 - 2)^2 / 2)
    0.6065306597126334
    """

    family: str = "gaussian"
    rho: Positive = 0.5
    covariance: Any = None
    trials: Natural = 1
    length: Natural = 1
    unit: bool = False
    n_samples: Natural = 2000
    random_state: int = 0
    draws: Any = None
    reads_objects = True
    not_differentiable = ("rho",)

    def check(self):
        if self.family not in _FAMILIES:
            raise ValueError(
                f"ProbabilityProduct(family={self.family!r}): expected one of {', '.join(map(repr, _FAMILIES))}"
            )
        if self.family == "multinomial" and self.trials > 1 and self.rho != 0.5:
            raise ValueError(
                f"multinomial with trials={self.trials} has a closed form for rho=0.5 only, got rho={self.rho}"
            )
        if self.family == "hmm" and self.rho != 1:
            raise ValueError(f"hidden Markov models need rho=1, got {self.rho}")

    @property
    def exact(self) -> bool:
        """Whether the integral has a closed form, rather than a mean over draws."""
        return self.family != "mixture" or self.rho == int(self.rho)

    def _resolved(self, rows, weight):
        if self.exact or self.draws is not None:
            return self
        parts = validate.each_object(_FAMILIES["mixture"].parts, validate.objects(rows))
        w = np.ones(len(parts)) if weight is None else weight
        return self._with(draws=_proposal(parts, w, float(self.rho), int(self.n_samples), self.random_state))

    def error(self, X, Y=None) -> np.ndarray:
        """Standard error of each entry of k(X, Y), before `unit` is applied; 0 where it is exact."""
        rows, others = (self.validated(A, name) for A, name in ((X, "X"), (X if Y is None else Y, "Y")))
        if self.exact:
            return np.zeros((len(rows), len(others)))
        kernel = self._resolved(others, None)
        A, B = (np.exp(np.stack([kernel.parse(x)[0] for x in side])) for side in (rows, others))
        n = A.shape[1]
        variance = (A * A) @ (B * B).T * n - (A @ B.T) ** 2
        return np.sqrt(np.maximum(variance, 0.0) / max(n - 1, 1))

    @property
    def normalised(self):
        return bool(self.unit)

    @property
    def validity(self):
        return certificate("psd", "an integral of products of p^rho and q^rho")

    def parse(self, x):
        if x is None:
            raise TypeError("expected a distribution, got None")
        parsed = _FAMILIES[self.family].parse(x, self)
        own = _FAMILIES[self.family].logs([parsed], [parsed], self)[0, 0] if self.unit else 0.0
        return parsed, own

    def block(self, xs, ys):
        logs = _FAMILIES[self.family].logs([x[0] for x in xs], [y[0] for y in ys], self)
        return _exponential(logs, [np.array([x[1] for x in side]) for side in (xs, ys)] if self.unit else None)

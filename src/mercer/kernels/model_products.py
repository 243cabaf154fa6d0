"""Integrals of p^rho q^rho where p and q are mixtures or hidden Markov models: exact for whole rho, a mean over draws for
others."""

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any

import numpy as np
from scipy.special import logsumexp

from mercer.kernels.chains import log
from mercer.kernels.hmm import HiddenMarkov, steps
from mercer.kernels.models import MixtureModel, as_model
from mercer.kernels.normals import log_joint, log_normal
from mercer.kernels.product_families import log_normal_pairs
from mercer.random import generator
from mercer.registry import register_record

__all__ = ["Draws", "Hidden", "Mixture"]

_JOINT = 2**18  # states of all chains side by side, at most


@register_record
@dataclass(frozen=True, eq=False)
class Draws:
    """Points that stand for the whole space, and the logarithm of the density that they were drawn from. Symbols are
    numbers among the points; `symbols` says which."""

    points: np.ndarray
    log_density: np.ndarray
    symbols: tuple = ()

    def __repr__(self):
        return f"Draws({len(self.log_density)})"


class _Models:
    """Rows that are models: `read` one, its `power`, the log `overlap` of two powers, `propose` draws, `log_density`."""

    read: Any
    power: Any
    overlap: Any
    propose: Any
    log_density: Any

    def parse(self, x, kernel):
        model = self.read(x)
        if kernel.exact:
            return self.power(model, int(kernel.rho))
        # p^rho / sqrt(n q) at the draws: inner products of it are means of p^rho p'^rho / q
        draws = kernel.draws
        own = self.log_density(model, draws.points, draws.symbols)
        return float(kernel.rho) * own - 0.5 * (draws.log_density + np.log(len(draws.log_density)))

    def logs(self, xs, ys, kernel):
        if kernel.exact:
            return np.array([[self.overlap(x, y, kernel) for y in ys] for x in xs]).reshape(len(xs), len(ys))
        A, B = np.stack(xs), np.stack(ys)
        a, b = (np.maximum(M.max(axis=1, keepdims=True), -1e300) for M in (A, B))
        return log(np.einsum("is,js->ij", np.exp(A - a), np.exp(B - b))) + a + b.T


# --------------------------------------------------------------------------------------------------- mixtures
class Mixture(_Models):
    """(weights, means, covariances), a MixtureModel, or a fitted GaussianMixture."""

    def read(self, x):
        """(log weights, means, covariances)."""
        if isinstance(x, (tuple, list)) and len(x) == 3:
            kind = "full" if np.ndim(x[2]) == 3 else "diag"
            x = MixtureModel(len(x[0]), kind, *x)
        x = as_model(x)
        if not isinstance(x, MixtureModel) or not x.fitted:
            raise TypeError("expected (weights, means, covariances), a fitted MixtureModel or a fitted GaussianMixture")
        S = x.covariances if x.covariance_type == "full" else np.stack([np.diag(v) for v in x.covariances])
        return log(x.weights), x.means, S

    def power(self, model, power):
        """p^power as a sum of multiples of Gaussians: (log factors, means, covariances)."""
        logs, means, covariances = model
        found = []
        for chosen in combinations_with_replacement(range(len(logs)), power):
            repeats = prod(factorial(chosen.count(c)) for c in set(chosen))
            factor, m, S = np.log(factorial(power) / repeats), means[chosen[0]], covariances[chosen[0]]
            for c in chosen[1:]:
                factor += log_normal_pairs(m[None], S[None], means[[c]], covariances[[c]])[0, 0]
                A = np.linalg.solve(S + covariances[c], S).T  # S (S + T)^-1
                m, S = m + A @ (means[c] - m), S - A @ S
            found.append((factor + logs[list(chosen)].sum(), m, (S + S.T) / 2))
        return tuple(np.array(part) for part in zip(*found, strict=True))

    def overlap(self, x, y, kernel):
        (a, m, S), (b, n, T) = x, y
        return float(logsumexp(a[:, None] + b + log_normal_pairs(m, S, n, T)))

    def log_density(self, model, Z, symbols=()):
        logs, means, covariances = model
        if means.shape[1] != Z.shape[1]:
            raise ValueError(
                f"the mixture has {means.shape[1]} columns, those that the kernel was resolved on had {Z.shape[1]}"
            )
        return logsumexp(log_joint(Z, (np.exp(logs), means, covariances)), axis=1)

    def propose(self, models, weight, kernel):
        """Draws from one Gaussian, wider than the mean of all mixtures to the power rho."""
        shares = np.concatenate([w * np.exp(p[0]) for w, p in zip(weight, models, strict=True)]) / weight.sum()
        means, covariances = (np.concatenate([p[i] for p in models]) for i in (1, 2))
        m = shares @ means
        S = np.einsum("k,kij->ij", shares, covariances) + (shares[:, None] * (means - m)).T @ (means - m)
        S = 1.5 * S / min(2 * float(kernel.rho), 1.0)
        normal = generator(kernel.random_state).standard_normal((int(kernel.n_samples), len(m)))
        Z = m + normal @ np.linalg.cholesky(S).T
        return Draws(Z, log_normal(Z, m, S))


# --------------------------------------------------------------------------------------------------- hidden Markov
class Hidden(_Models):
    """A fitted HiddenMarkov model, as the distribution of sequences of `length` steps. Its power is `rho` copies of the
    chain side by side, which emit the same sequence."""

    def read(self, x):
        if not isinstance(x, HiddenMarkov) or not x.fitted:
            raise TypeError(f"expected a fitted HiddenMarkov model, got {type(x).__name__}")
        return x

    def power(self, model, power):
        """(model, number of copies, what the states of all copies emit together)."""
        k = len(model.start)
        if k ** (2 * power) > _JOINT:
            raise ValueError(
                f"rho={power} of a model with {k} states takes {k ** (2 * power):.1e} states side by side, at most "
                f"{_JOINT} are possible; use fewer states or a smaller rho"
            )
        one = _emitted(model)
        together = one
        for _ in range(power - 1):
            together = _multiplied(together, one)
        return model, power, together

    def overlap(self, x, y, kernel):
        """log of the sum over sequences of p^rho q^rho, over the states of all chains side by side."""
        from mercer.kernels import _compiled_hmm as loops

        chains = [x[0]] * x[1] + [y[0]] * y[1]
        pair = _emission_overlap(x, y)
        top = max(pair.max(), -1e300)
        start = np.ones(1)
        for chain in chains:
            start = np.outer(start, chain.start).ravel()
        sizes = np.array([len(chain.start) for chain in chains])
        moves = np.zeros((len(chains), sizes.max(), sizes.max()))
        for c, chain in enumerate(chains):
            moves[c, : sizes[c], : sizes[c]] = chain.moves
        alpha, room, total = start, np.empty(len(start)), int(kernel.length) * top
        for a, b in steps(int(kernel.length), len(start) * int(sizes.sum())):
            total += loops.affinity(np.exp(pair - top).ravel(), sizes, moves, alpha, room, a, b)
        return total

    def log_density(self, model, Z, symbols=()):
        """Forward recursion of all draws at once, scaled at each step."""
        flat = model.parse(Z.reshape(-1, Z.shape[2])) if Z.ndim == 3 else model.parse(list(symbols))[Z.ravel()]
        E = model.log_emission(flat).reshape(*Z.shape[:2], -1)
        alpha, total = np.tile(model.start, (len(Z), 1)), np.zeros(len(Z))
        for t in range(E.shape[1]):
            top = np.maximum(E[:, t].max(axis=1), -1e300)
            alpha = (alpha @ model.moves if t else alpha) * np.exp(E[:, t] - top[:, None])
            mass = alpha.sum(axis=1)
            total += log(mass) + top
            alpha /= np.where(mass > 0, mass, 1.0)[:, None]
        return total

    def propose(self, models, weight, kernel):
        """Sequences of models taken by their weights; their density is the mean of those of the models."""
        for m in models:
            _check_alike(m, models[0])
        symbols = tuple(dict.fromkeys(s for m in models for s in m.symbols or ()))
        rng, share = generator(kernel.random_state), weight / weight.sum()
        counts = rng.multinomial(int(kernel.n_samples), share)
        parts = [_sequences(m, c, int(kernel.length), rng, symbols) for m, c in zip(models, counts, strict=True) if c]
        Z = np.concatenate(parts)
        each = [log(s) + self.log_density(m, Z, symbols) for m, s in zip(models, share, strict=True)]
        return Draws(Z, logsumexp(each, axis=0), symbols)


def _sequences(model, n, length, rng, symbols):
    """n sequences of a model: numbers of symbols (n, length), or vectors (n, length, d)."""
    states = np.empty((n, length), dtype=np.int64)
    for t in range(length):
        states[:, t] = _pick(model.moves[states[:, t - 1]] if t else np.tile(model.start, (n, 1)), rng)
    if model.emissions == "gaussian":
        noise = rng.standard_normal((n, length, model.means.shape[1]))
        return model.means[states] + np.sqrt(model.variances[states]) * noise
    codes = _pick(model.table[states.ravel()], rng).reshape(n, length)
    return np.array([symbols.index(s) for s in model.symbols])[codes]


def _pick(p, rng):
    """One index of each row of probabilities."""
    beyond = (p.cumsum(axis=1) <= rng.random((len(p), 1))).sum(axis=1)
    return np.minimum(beyond, p.shape[1] - 1)


def _check_alike(x, y):
    if x.emissions != y.emissions:
        raise ValueError("models of symbols and models of numbers have nothing in common; use one kind")


def _emitted(model):
    """What a state emits: probabilities (S, A), or (log factors, means, variances)."""
    if model.emissions == "discrete":
        return model.table
    return np.zeros(len(model.means)), model.means, model.variances


def _multiplied(x, y):
    """Products of what two states emit, for all pairs of states."""
    if not isinstance(x, tuple):
        return (x[:, None] * y[None]).reshape(-1, x.shape[1])
    (a, m, v), (b, n, u) = x, y
    d, share = m.shape[1], v[:, None] / (v[:, None] + u[None])
    logs = a[:, None] + b + log_normal_pairs(m, v, n, u)
    mean, variance = m[:, None] + share * (n[None] - m[:, None]), share * u[None]
    return logs.ravel(), mean.reshape(-1, d), variance.reshape(-1, d)


def _emission_overlap(x, y):
    """log of the integral of what all copies of both models emit, for each of their states."""
    (p, _, mine), (q, _, yours) = x, y
    _check_alike(p, q)
    if p.emissions == "gaussian":
        (a, m, v), (b, n, u) = mine, yours
        return np.stack([a[i] + b + log_normal_pairs(m[[i]], v[[i]], n, u)[0] for i in range(len(m))])
    place = {s: i for i, s in enumerate(q.symbols)}
    both = [(i, place[s]) for i, s in enumerate(p.symbols) if s in place]
    i, j = np.array(both, dtype=int).reshape(-1, 2).T
    return log(mine[:, i] @ yours[:, j].T)

"""Kernels from generative models (G1-G4): products of densities, shared components, latent vectors, hidden paths."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from mercer import expr, validate
from mercer.errors import ConvergenceWarning
from mercer.kernels.base import PairKernel, frozen
from mercer.kernels.dense import DenseKernel, Gaps
from mercer.kernels.hmm import HiddenMarkov, steps
from mercer.kernels.models import MixtureModel, NormalModel, as_model, finite_numbers, log_values
from mercer.kernels.normals import LOG_2PI, inverse_root, patterns
from mercer.kernels.parameters import Count, Flag, Natural
from mercer.kernels.statistics import External
from mercer.kernels.validity import certificate
from mercer.random import generator
from mercer.registry import register

__all__ = ["DensityProduct", "LatentGaussian", "LatentMonteCarlo", "MixtureKernel", "SharedPath", "model_rows"]


def model_rows(rows, kind):
    """Rows as a model reads them: objects, or a float64 array."""
    return validate.objects(rows) if kind == "objects" else Gaps(None).forward(rows).astype(np.float64, copy=False)


class OfModel(DenseKernel):
    """A kernel of dense features of a model, which is fitted when the kernel is resolved unless it is already."""

    model: Any

    def check(self):
        as_model(self.model)

    @property
    def rows_kind(self):
        return as_model(self.model).rows_kind

    def _resolved(self, rows, weight):
        model = as_model(self.model)
        return self if model.fitted else self._with(model=model.fit(model_rows(rows, model.rows_kind), weight))


def _unit(logs):
    """Rows of logarithms shifted so that the squares of their exponentials add up to 1; a row of zeros stays."""
    norm = 0.5 * logsumexp(2 * logs, axis=1, keepdims=True)
    return logs - np.where(np.isneginf(norm), 0.0, norm)


@register
@frozen
class DensityProduct(OfModel):
    """Product of densities (G1): k(x, y) = p(x) p(y), for one of our models or any fitted one with `score_samples`.

    >>> from mercer.kernels import NormalModel
    >>> float(DensityProduct(NormalModel([0.0], [[1.0]]))([[0.0]])[0, 0]) * 6.283185307179586
    1.0
    """

    model: Any = NormalModel()

    def dense(self, rows):
        with np.errstate(over="ignore"):
            return np.exp(as_model(self.model).log_density(rows))[:, None]

    @property
    def n_features(self):
        return 1


@register
@frozen
class MixtureKernel(OfModel):
    """Shared component (G2, K11): k(x, y) = sum_c p(c) p(x|c) p(y|c).

    The model is a `MixtureModel`, a fitted GaussianMixture of scikit-learn, or a `ComponentModel` of given p(c) and p(x|c).
    NaN is a missing entry and is integrated out. `unit` divides by the square root of k(x, x) k(y, y) in log space, where
    the densities themselves would leave the range of numbers.

    >>> from mercer.kernels import MixtureModel
    >>> k = MixtureKernel(MixtureModel(2, "diag", [0.5, 0.5], [[-5.0], [5.0]], [[1.0], [1.0]]), unit=True)
    >>> k([[-4.0], [-6.0], [5.0]]).round(6)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """

    model: Any = MixtureModel()
    unit: Flag = False

    def check(self):
        if not hasattr(as_model(self.model), "log_joint"):
            raise TypeError(
                f"MixtureKernel needs a mixture (MixtureModel, GaussianMixture, ComponentModel), got {self.model!r}"
            )

    def dense(self, rows):
        model = as_model(self.model)
        weights = np.where(model.weights > 0, model.weights, 1.0)  # a component of weight 0 stays at -inf
        logs = model.log_joint(rows) - 0.5 * np.log(weights)
        with np.errstate(over="ignore"):
            return np.exp(_unit(logs) if self.unit else logs)

    @property
    def n_features(self):
        return len(as_model(self.model).weights)


# --------------------------------------------------------------------------------------------------- latent vectors
@register
@frozen
class LatentGaussian(PairKernel):
    """Shared latent vector of a linear-Gaussian model (G3): x = mean + loadings z + noise, z ~ N(0, I), and
    k(x, y) = N([x; y] | [m; m], [[WW' + P, WW'], [WW', WW' + P]]).

    Without parameters a factor analysis is fitted when the kernel is resolved. NaN is a missing entry, integrated out.
    `unit` divides by the square root of k(x, x) k(y, y) in log space.

    >>> k = LatentGaussian(1, [0.0], [[1.0]], [1.0])
    >>> round(float(k([[0.0]], [[0.0]])[0, 0]), 6)  # a Gaussian of covariance [[2, 1], [1, 2]]
    0.091888
    """

    n_components: Natural = 1
    mean: Any = None
    loadings: Any = None
    noise: Any = None
    unit: Flag = False
    max_iter: Natural = 1000

    def check(self):
        given = [v for v in (self.mean, self.loadings, self.noise) if v is not None]
        if not given:
            return
        if len(given) < 3:
            raise ValueError("LatentGaussian needs all of mean, loadings and noise, or none to fit them")
        m, W, P = (finite_numbers(self, name) for name in ("mean", "loadings", "noise"))
        if W.shape != (len(m), int(self.n_components)) or P.shape != m.shape:
            raise ValueError(
                f"LatentGaussian: mean {m.shape}, loadings {W.shape} and noise {P.shape} do not fit; expected (d,), "
                f"(d, {self.n_components}) and (d,)"
            )
        if not (np.isfinite(W).all() and np.isfinite(m).all() and (P > 0).all() and np.isfinite(P).all()):
            raise ValueError("LatentGaussian: mean and loadings must be finite, noise finite and > 0")

    def _reads(self):
        return ["gaps"]

    def trace(self, t):
        return expr.leaf(External(t.view if t.view.numeric else Gaps(t.view), self))

    def _resolved(self, rows, weight):
        if self.mean is not None:
            return self
        normal = NormalModel(max_iter=int(self.max_iter)).fit(model_rows(rows, "gaps"), weight)
        loadings, noise = factor_analysis(normal.covariance, int(self.n_components), int(self.max_iter))
        return self._with(mean=normal.mean, loadings=loadings, noise=noise)

    @property
    def validity(self):
        return certificate("psd", "an integral of products p(x|z) p(y|z)")

    def _sides(self, X):
        """For each pattern of missing entries: (rows, W'P^-1W, W'P^-1(x - m), log p(x|z = 0))."""
        m, W, P = (np.asarray(v, dtype=np.float64) for v in (self.mean, self.loadings, self.noise))
        if X.shape[1] != len(m):
            raise ValueError(f"LatentGaussian is for {len(m)} columns, but the rows have {X.shape[1]}")
        for rows, seen in patterns(X):
            D, A = X[np.ix_(rows, seen)] - m[seen], W[seen] / P[seen, None]
            with np.errstate(over="ignore"):
                base = -0.5 * ((D * D / P[seen]).sum(axis=1) + np.log(P[seen]).sum() + len(seen) * LOG_2PI)
            yield rows, W[seen].T @ A, D @ A, base

    def _logs(self, X, Y):
        out = np.empty((len(X), len(Y)))
        right = list(self._sides(Y))
        for i, G, a, base in self._sides(X):
            for j, H, b, other in right:
                R = inverse_root(np.eye(len(G)) + G + H)
                u, v = a @ R.T, b @ R.T
                # |u + v|^2 / 2 by the distance of u and v, which is the same number in both orders
                with np.errstate(over="ignore", invalid="ignore"):
                    mine, yours = base + (u * u).sum(axis=1), other + (v * v).sum(axis=1)
                    both = mine[:, None] + yours - 0.5 * cdist(u, v, "sqeuclidean") + np.log(np.diagonal(R)).sum()
                out[np.ix_(i, j)] = np.where(np.isnan(both), -np.inf, both)
        return out

    def _own(self, X):
        """log k(x, x)."""
        out = np.empty(len(X))
        for i, G, a, base in self._sides(X):
            R = inverse_root(np.eye(len(G)) + 2 * G)
            u = a @ R.T
            with np.errstate(over="ignore", invalid="ignore"):
                value = 2 * (base + (u * u).sum(axis=1)) + np.log(np.diagonal(R)).sum()
            out[i] = np.where(np.isnan(value), -np.inf, value)
        return out

    def block(self, xs, ys):
        X, Y = xs.astype(np.float64), ys.astype(np.float64)
        return _exponential(self._logs(X, Y), (self._own(X), self._own(Y)) if self.unit else None)

    def block_diag(self, xs):
        logs = self._own(xs.astype(np.float64))
        return _exponential(logs, None) if not self.unit else (logs > -np.inf).astype(np.float64)


def _exponential(logs, own=None):
    """exp of log k, divided by the roots of k(x, x) and k(y, y) if their logarithms are given; 0 where one of them is 0."""
    if own is not None:
        halves = [np.where(np.isneginf(o), 0.0, 0.5 * o) for o in own]
        logs = np.minimum(logs - halves[0][:, None] - halves[1], 0.0)  # by Cauchy-Schwarz, but for rounding
    with np.errstate(over="ignore"):
        return np.exp(logs)


_LEAST_NOISE = 1e-5  # share of a variance: the likelihood may grow without end as one noise goes to 0


def factor_analysis(S, q, max_iter=1000):
    """(loadings, noise) that make a covariance most likely: the loadings are known for each noise (`_loadings`), so that
    the likelihood is climbed in the logarithms of the noise alone. Joreskog (1967)."""
    variance = np.diag(S)

    def loss(logs):
        P = np.exp(logs)
        W, value = _loadings(S, P, q)
        return value, 0.5 * ((W * W).sum(axis=1) + P - variance) / P

    bounds = np.log(np.multiply.outer(variance, [_LEAST_NOISE, 1.0]))
    options = {"maxiter": max_iter, "ftol": 1e-14, "gtol": 1e-8}
    found = minimize(loss, bounds.mean(axis=1), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    if found.status == 1:
        message = (
            f"the factor analysis of LatentGaussian ended at max_iter={max_iter}; raise it, or take fewer components"
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    P = np.exp(found.x)
    return _loadings(S, P, q)[0], P


def _loadings(S, P, q):
    """The best loadings for a noise P, from the leading eigenvectors of S in units of it, and minus their log density."""
    root = np.sqrt(P)
    values, vectors = np.linalg.eigh(S / np.outer(root, root))
    leading, others = values[::-1][:q], values[::-1][q:]
    extra = np.maximum(leading - 1, 0.0)
    W = np.zeros((len(S), q))
    W[:, : len(extra)] = root[:, None] * vectors[:, ::-1][:, :q] * np.sqrt(extra)
    return W, 0.5 * (np.log(P).sum() + np.log1p(extra).sum() + (leading / (1 + extra)).sum() + others.sum())


@register
@frozen
class LatentMonteCarlo(DenseKernel):
    """Shared latent vector of any model (G3): the mean over draws z ~ N(0, I) of p(x|z) p(y|z).

    `function(X, Z)` gives log p(x|z), (n, n_samples). The draws are fixed by the seed, the same for all rows, so that the
    kernel is PSD for any number of them; `error(X, Y)` is the standard error of each entry.

    >>> def density(X, Z):
    ...     return -0.5 * (X - Z.T) ** 2 - 0.9189385332046727
    >>> k = LatentMonteCarlo(density, n_latent=1, n_samples=20000)
    >>> exact, error = 0.09188815, k.error([[0.0]])[0, 0]
    >>> bool(abs(k([[0.0]])[0, 0] - exact) < 4 * error < 0.005)
    True
    """

    function: Callable
    n_latent: Natural = 1
    n_samples: Natural = 1000
    random_state: Count = 0

    def check(self):
        if not callable(self.function):
            raise TypeError(f"LatentMonteCarlo(f) needs a function of X and Z, got {self.function!r}")

    def _densities(self, rows):
        Z = generator(self.random_state).standard_normal((int(self.n_samples), int(self.n_latent)))
        with np.errstate(over="ignore"):
            return np.exp(log_values(self.function(rows, Z), (len(rows), len(Z)), "log p(x|z)"))

    def dense(self, rows):
        return self._densities(rows) / np.sqrt(self.n_samples)

    @property
    def n_features(self):
        return int(self.n_samples)

    def error(self, X, Y=None) -> np.ndarray:
        """Standard error of each entry of k(X, Y)."""
        A = self._densities(np.asarray(self.validated(X), dtype=np.float64))
        B = A if Y is None else self._densities(np.asarray(self.validated(Y, "Y"), dtype=np.float64))
        n = A.shape[1]
        variance = (A * A) @ (B * B).T / n - (A @ B.T / n) ** 2
        return np.sqrt(np.maximum(variance, 0.0) / max(n - 1, 1))

    def __repr__(self):
        name = getattr(self.function, "__name__", repr(self.function))
        numbers = f"n_latent={self.n_latent}, n_samples={self.n_samples}, random_state={self.random_state}"
        return f"LatentMonteCarlo({name}, {numbers})"


# --------------------------------------------------------------------------------------------------- hidden paths
@register
@frozen
class SharedPath(PairKernel):
    """Shared path of a hidden Markov model (G4): k(x, y) = sum_Z p(Z) p(x|Z) p(y|Z), by a forward recursion in log space.

    Z has the length of the longer sequence; what the shorter one does not emit counts as 1. Missing emissions (NaN) are
    integrated out. Values of long sequences leave the range of numbers: `unit` divides by the square root of
    k(x, x) k(y, y) in log space. A sequence of density 0 gives 0.

    >>> from mercer.kernels import HiddenMarkov
    >>> model = HiddenMarkov(
    ...     2, "discrete", [0.5, 0.5], [[1, 0], [0, 1]], table=[[1, 0], [0.5, 0.5]], symbols=("a", "b")
    ... )
    >>> round(float(SharedPath(model)(["aa"], ["ab"])[0, 0]), 12)  # only the second state can: 1/2 * 1/4 * 1/4
    0.03125
    """

    model: Any = HiddenMarkov()
    unit: Flag = False
    reads_objects = True

    def check(self):
        if not isinstance(self.model, HiddenMarkov):
            raise TypeError(f"SharedPath needs a HiddenMarkov model, got {type(self.model).__name__}")

    def _resolved(self, rows, weight):
        return self if self.model.fitted else self._with(model=self.model.fit(validate.objects(rows), weight))

    @property
    def validity(self):
        return certificate("psd", "a sum over hidden paths of products p(x|Z) p(y|Z)")

    def parse(self, x):
        emission = np.ascontiguousarray(self.model.log_emission(self.model.parse(x)))
        return emission, (self._log(emission, emission, self.model.logs) if self.unit else 0.0)

    def _log(self, x, y, logs):
        from mercer.kernels import _compiled_hmm as loops

        start, move = logs
        n, alpha = max(len(x), len(y)), np.empty(len(start))
        for a, b in steps(n, len(start) ** 2):
            loops.shared(x, y, start, move, alpha, a, b)
        return logsumexp(alpha) if n else 0.0

    def block(self, xs, ys):
        logs = self.model.logs
        values = np.array([[self._log(x[0], y[0], logs) for y in ys] for x in xs]).reshape(len(xs), len(ys))
        own = [np.array([x[1] for x in side]) for side in (xs, ys)] if self.unit else None
        return _exponential(values, own)

    def block_diag(self, xs):
        if self.unit:
            return np.array([float(x[1] > -np.inf) for x in xs])
        logs = self.model.logs
        return _exponential(np.array([self._log(x[0], x[0], logs) for x in xs]))

"""Generative models as values: parameters, log densities, scores. Without parameters they are fitted by `resolve`.

A model is not a kernel: `Fisher`, `DensityProduct`, `MixtureKernel` and `SharedPath` make kernels of one.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, xlogy

from mercer.errors import NanError
from mercer.kernels.digest import digest
from mercer.kernels.normals import fit_mixture, log_joint, log_normal, normal_scores, patterns, responsibilities

__all__ = [
    "ComponentModel",
    "DirichletMultinomial",
    "MixtureModel",
    "Model",
    "MultinomialModel",
    "NormalModel",
    "UserModel",
    "as_model",
    "model",
]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def model(cls: type[T]) -> type[T]:
    """A frozen class of a model: annotations are its parameters."""
    return dataclass(frozen=True, eq=False, repr=False)(cls)


class Model:
    """Base: subclasses give `fit`, `log_density`, `scores`, and `information` where it has a closed form."""

    rows_kind = "vectors"
    learned: ClassVar[tuple[str, ...]] = ()  # what `fit` finds; a model that has all of it is fitted

    def __post_init__(self):
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in self.learned and value is not None and not isinstance(value, (str, tuple)):
                array = np.array(value, dtype=np.float64)
                if not np.isfinite(array).all():
                    raise ValueError(f"{type(self).__name__}({f.name}=...) contains NaN or infinity")
                array.flags.writeable = False
                object.__setattr__(self, f.name, array)
        given = [name for name in self.learned if getattr(self, name) is not None]
        if given and len(given) < len(self.learned):
            raise ValueError(
                f"{type(self).__name__} needs all of {', '.join(self.learned)}, or none to fit them; got {given}"
            )
        self.check()

    def check(self):
        """Refuse parameters that do not fit together."""

    @property
    def fitted(self) -> bool:
        return all(getattr(self, name) is not None for name in self.learned)

    def fit(self, rows, weight=None) -> "Model":
        """The model with the parameters that the rows make most likely; weights mean repetition."""
        return self

    def log_density(self, rows) -> np.ndarray:
        """log p(x) of each row; -inf where the density is 0."""
        raise NotImplementedError

    def scores(self, rows) -> np.ndarray:
        """Gradient of log p(x) in the parameters, one row each."""
        raise ValueError(f"{type(self).__name__} has no scores; use UserModel(log_density, theta)")

    def information(self) -> np.ndarray:
        """The Fisher information of one row, where it has a closed form."""
        raise ValueError(
            f"the information of {type(self).__name__} has no closed form; use information='empirical', 'diagonal' "
            "or 'identity'"
        )

    def whitening(self) -> np.ndarray:
        """A factor W of the inverse information, F^-1 = W W^T; one number a score where it is diagonal."""
        return pseudo_root(self.information())

    def _with(self, **changes):
        return type(self)(**{**{f.name: getattr(self, f.name) for f in fields(self)}, **changes})

    def _columns(self, rows, width):
        if rows.shape[1] != width:
            raise ValueError(f"{type(self).__name__} is for {width} columns, but the rows have {rows.shape[1]}")
        return rows

    def __eq__(self, other):
        return type(self) is type(other) and digest(self) == digest(other)

    def __hash__(self):
        return hash(digest(self))

    def __repr__(self):
        shown = []
        for f in fields(self):
            value = getattr(self, f.name)
            if digest(value) != digest(f.default):
                text = f"array{value.shape}" if isinstance(value, np.ndarray) else repr(value)
                shown.append(f"{f.name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"


def pseudo_root(F) -> np.ndarray:
    """W (p, r) with W W^T the pseudo-inverse of F, r its rank in floating point."""
    values, vectors = np.linalg.eigh((F + F.T) / 2)
    kept = values > len(F) * np.finfo(float).eps * max(values.max(initial=0.0), 0.0)
    return vectors[:, kept] / np.sqrt(values[kept]) if kept.any() else np.zeros((len(F), 1))


@model
class NormalModel(Model):
    """A Gaussian. `theta` says in what scores are taken: the "mean", or the mean and the covariance ("both").

    NaN is a missing entry. `ridge` times the mean variance is added to the variances of a fit.
    """

    mean: Any = None
    covariance: Any = None
    theta: str = "mean"
    ridge: float = 1e-6
    rows_kind = "gaps"
    learned: ClassVar[tuple[str, ...]] = ("mean", "covariance")

    def check(self):
        if self.theta not in ("mean", "both"):
            raise ValueError(f"NormalModel(theta={self.theta!r}): expected 'mean' or 'both'")
        if self.fitted:
            object.__setattr__(self, "mean", np.atleast_1d(self.mean))
            object.__setattr__(self, "covariance", _matrix(self.covariance, len(self.mean)))

    def fit(self, rows, weight=None):
        _, means, covariances = fit_mixture(rows, weight, 1, False, self.ridge, 0, max_iter=1000, tol=1e-10)
        return self._with(mean=means[0], covariance=covariances[0])

    def log_density(self, rows):
        return log_normal(self._columns(rows, len(self.mean)), self.mean, self.covariance)

    def scores(self, rows):
        by_mean, by_covariance = normal_scores(self._columns(rows, len(self.mean)), self.mean, self.covariance)
        return by_mean if self.theta == "mean" else np.hstack([by_mean, by_covariance])

    def information(self):
        P = np.linalg.inv(self.covariance)
        if self.theta == "mean":
            return P
        d = len(P)
        i, j = np.tril_indices(d)
        factor = np.where(i == j, 0.5, 1.0)
        # 1/2 tr(P E_a P E_b) over the symmetric directions E_a
        by_covariance = (P[np.ix_(i, i)] * P[np.ix_(j, j)] + P[np.ix_(i, j)] * P[np.ix_(j, i)]) * np.outer(
            factor, factor
        )
        F = np.zeros((d + len(i),) * 2)
        F[:d, :d], F[d:, d:] = P, by_covariance
        return F


def _matrix(covariance, d):
    S = np.asarray(covariance, dtype=np.float64)
    S = np.diag(np.broadcast_to(S, d)) if S.ndim < 2 else S
    if S.shape != (d, d) or not np.allclose(S, S.T):
        raise ValueError(f"the covariance must be symmetric of shape {(d, d)}, got shape {S.shape}")
    if np.linalg.eigvalsh(S).min() <= 0:
        raise ValueError(
            f"the covariance must be positive definite; its smallest eigenvalue is {np.linalg.eigvalsh(S).min():g}"
        )
    return S


@model
class MixtureModel(Model):
    """A mixture of Gaussians with "full" or "diag" covariances, fitted by EM. `theta` says in what scores are taken: "all"
    (weights by their logarithms, means, covariances) or "means".

    NaN is a missing entry. A fitted `GaussianMixture` of scikit-learn may stand in its place.
    """

    n_components: int = 4
    covariance_type: str = "full"
    weights: Any = None
    means: Any = None
    covariances: Any = None
    theta: str = "all"
    ridge: float = 1e-6
    max_iter: int = 200
    random_state: int = 0
    rows_kind = "gaps"
    learned: ClassVar[tuple[str, ...]] = ("weights", "means", "covariances")

    def check(self):
        if self.covariance_type not in ("full", "diag"):
            raise ValueError(f"MixtureModel(covariance_type={self.covariance_type!r}): expected 'full' or 'diag'")
        if self.theta not in ("all", "means"):
            raise ValueError(f"MixtureModel(theta={self.theta!r}): expected 'all' or 'means'")
        if self.fitted:
            _check_weights(self.weights)
            k, d = self.means.shape
            wanted = (k, d, d) if self.covariance_type == "full" else (k, d)
            if self.covariances.shape != wanted or self.weights.shape != (k,):
                raise ValueError(
                    f"{k} means of {d} columns need weights of shape {(k,)} and covariances of shape {wanted}, "
                    f"got {self.weights.shape} and {self.covariances.shape}"
                )

    @property
    def _parameters(self):
        return self.weights, self.means, self.covariances

    def fit(self, rows, weight=None):
        diagonal = self.covariance_type == "diag"
        size, n_iter = int(self.n_components), int(self.max_iter)
        found = fit_mixture(rows, weight, size, diagonal, self.ridge, self.random_state, n_iter)
        return self._with(weights=found[0], means=found[1], covariances=found[2])

    def log_joint(self, rows):
        """log p(c) p(x|c), one column a component."""
        return log_joint(self._columns(rows, self.means.shape[1]), self._parameters)

    def log_density(self, rows):
        return logsumexp(self.log_joint(rows), axis=1)

    def scores(self, rows):
        R = responsibilities(self.log_joint(rows))[0]
        parts, kinds = (
            [] if self.theta == "means" else [R - self.weights * (R.sum(axis=1) > 0)[:, None]],
            patterns(rows),
        )
        for c in range(len(self.weights)):
            found = normal_scores(rows, self.means[c], self.covariances[c], kinds)
            parts += [R[:, [c]] * found[0]] + ([] if self.theta == "means" else [R[:, [c]] * found[1]])
        return np.hstack(parts)


@model
class ComponentModel(Model):
    """Given p(c) and p(x|c): `weights` (k,) and a function of the rows that returns log p(x|c), (n, k)."""

    weights: Any = None
    function: Callable | None = None

    def check(self):
        if self.weights is None or not callable(self.function):
            raise TypeError("ComponentModel(weights, log_density) needs the weights of the components and a function")
        object.__setattr__(self, "weights", np.array(self.weights, dtype=np.float64))
        _check_weights(self.weights)

    def log_joint(self, rows):
        """log p(c) p(x|c), one column a component."""
        logs = np.asarray(self.function(rows), dtype=np.float64)
        if logs.shape != (len(rows), len(self.weights)) or np.isnan(logs).any():
            raise ValueError(
                f"log p(x|c) has shape {logs.shape} or NaN; expected numbers of shape {(len(rows), len(self.weights))}"
            )
        with np.errstate(divide="ignore"):
            return logs + np.log(self.weights)

    def log_density(self, rows):
        return logsumexp(self.log_joint(rows), axis=1)


def _check_weights(weights):
    if (weights < 0).any() or abs(weights.sum() - 1) > 1e-6:
        raise ValueError(
            f"weights must be >= 0 and add up to 1; their sum is {weights.sum():g}, the smallest {weights.min():g}"
        )


def _mixture_of(given):
    """The parameters of a fitted GaussianMixture."""
    kind, (k, d) = given.covariance_type, given.means_.shape
    S = given.covariances_
    if kind == "tied":
        S = np.repeat(S[None], k, axis=0)
    elif kind == "spherical":
        S = np.repeat(S[:, None], d, axis=1)
    return MixtureModel(k, "full" if kind in ("full", "tied") else "diag", given.weights_, given.means_, S)


@model
class _Scored(Model):
    """A fitted model of another library: anything with `score_samples`."""

    given: Any = None

    def log_density(self, rows):
        return np.asarray(self.given.score_samples(rows), dtype=np.float64)


def as_model(given) -> Model:
    """Our model of what a user gave: one of ours, a fitted GaussianMixture, or anything fitted with `score_samples`."""
    if isinstance(given, Model):
        return given
    if type(given).__name__ == "GaussianMixture" and hasattr(given, "means_"):
        return _mixture_of(given)
    if hasattr(given, "score_samples"):
        return _Scored(given=given)
    raise TypeError(f"expected a model of mercer.kernels or one with score_samples, got {type(given).__name__}")


# ------------------------------------------------------------------------------------------------------------- counts
def _counts(rows, who):
    if rows.size and rows.min() < 0:
        raise ValueError(f"{who} reads counts >= 0; the smallest entry is {rows.min():g}")
    return rows


@model
class MultinomialModel(Model):
    """Counts of words drawn independently. Scores are in the logarithms of the probabilities (softmax): x_w - n theta_w.

    The information is that of one word; it is singular, and its pseudo-inverse makes sum_w g_w g'_w / theta_w of it.
    `smoothing` is added to the count of every word in a fit.
    """

    probabilities: Any = None
    smoothing: float = 1.0
    learned: ClassVar[tuple[str, ...]] = ("probabilities",)

    def check(self):
        if self.fitted:
            _check_weights(self.probabilities)

    def fit(self, rows, weight=None):
        total = (np.ones(len(rows)) if weight is None else weight) @ _counts(rows, "MultinomialModel") + self.smoothing
        if not np.isfinite(total.sum()) or total.sum() <= 0:
            raise NanError("the counts have no finite positive sum; rescale the columns")
        return self._with(probabilities=total / total.sum())

    def log_density(self, rows):
        x = _counts(self._columns(rows, len(self.probabilities)), "MultinomialModel")
        return gammaln(x.sum(axis=1) + 1) - gammaln(x + 1).sum(axis=1) + xlogy(x, self.probabilities).sum(axis=1)

    def scores(self, rows):
        x = _counts(self._columns(rows, len(self.probabilities)), "MultinomialModel")
        return x - x.sum(axis=1, keepdims=True) * self.probabilities

    def information(self):
        return np.diag(self.probabilities) - np.outer(self.probabilities, self.probabilities)

    def whitening(self):
        # Scores add up to 0: on them this inverse does what the pseudo-inverse of the matrix does.
        p = self.probabilities
        return np.where(p > 0, 1 / np.sqrt(np.where(p > 0, p, 1.0)), 0.0)


@model
class DirichletMultinomial(Model):
    """Counts of bursty words (Dirichlet compound multinomial). Its Fisher kernel behaves like TF-IDF: Elkan (2005).

    Fitted by Minka's fixed point; `floor` is the smallest parameter, for words that hardly occur.
    """

    alpha: Any = None
    floor: float = 1e-4
    max_iter: int = 200
    learned: ClassVar[tuple[str, ...]] = ("alpha",)

    def check(self):
        if self.fitted and (self.alpha <= 0).any():
            raise ValueError(f"DirichletMultinomial(alpha=...) must be > 0; the smallest is {self.alpha.min():g}")

    def fit(self, rows, weight=None):
        x = _counts(rows, "DirichletMultinomial")
        w = np.ones(len(x)) if weight is None else weight
        n = x.sum(axis=1)
        if not np.isfinite(n).all() or n.max() <= 0:
            raise NanError("the counts have no finite positive sum; rescale the columns")
        alpha = np.maximum(w @ x / (w @ n), self.floor)
        for _ in range(self.max_iter):
            up = w @ (digamma(x + alpha) - digamma(alpha))
            down = w @ (digamma(n + alpha.sum()) - digamma(alpha.sum()))
            if not down > 0:
                raise NanError("the counts are too small for a fit; rescale the columns")
            new = np.clip(alpha * up / down, self.floor, 1e6)
            moved, alpha = np.abs(new / alpha - 1).max(), new
            if moved < 1e-6:
                break
        return self._with(alpha=alpha)

    def log_density(self, rows):
        x = _counts(self._columns(rows, len(self.alpha)), "DirichletMultinomial")
        n, total = x.sum(axis=1), self.alpha.sum()
        words = (gammaln(x + self.alpha) - gammaln(self.alpha) - gammaln(x + 1)).sum(axis=1)
        return gammaln(n + 1) + gammaln(total) - gammaln(n + total) + words

    def scores(self, rows):
        x = _counts(self._columns(rows, len(self.alpha)), "DirichletMultinomial")
        n, total = x.sum(axis=1, keepdims=True), self.alpha.sum()
        return digamma(total) - digamma(n + total) + digamma(x + self.alpha) - digamma(self.alpha)


# ------------------------------------------------------------------------------------------------------------- user's own
@model
class UserModel(Model):
    """Your own density: `log_density(rows, theta)` -> (n,), at the parameters `theta`.

    Scores are central differences, or torch's gradients with `gradient="torch"` (the function then gets tensors). Give
    `information_matrix` where you know it.
    """

    function: Callable | None = None
    theta: Any = None
    gradient: str = "differences"
    step: float = 1e-5
    information_matrix: Any = None
    rows_kind: str = "vectors"

    def check(self):
        if not callable(self.function):
            raise TypeError(f"UserModel(log_density, theta) needs a function, got {self.function!r}")
        if self.gradient not in ("differences", "torch"):
            raise ValueError(f"UserModel(gradient={self.gradient!r}): expected 'differences' or 'torch'")
        theta = np.array(self.theta, dtype=np.float64).ravel()
        theta.flags.writeable = False
        object.__setattr__(self, "theta", theta)

    def log_density(self, rows):
        out = np.asarray(self.function(rows, self.theta), dtype=np.float64)
        if out.shape != (len(rows),):
            raise ValueError(f"the log density returned shape {out.shape}, expected {(len(rows),)}")
        return out

    def scores(self, rows):
        return self._by_torch(rows) if self.gradient == "torch" else self._by_differences(rows)

    def _by_differences(self, rows):
        out = np.zeros((len(rows), len(self.theta)))
        for j, value in enumerate(self.theta):
            h = self.step * max(1.0, abs(value))
            up, down = self.theta.copy(), self.theta.copy()
            up[j], down[j] = value + h, value - h
            high, low = (np.asarray(self.function(rows, t), dtype=np.float64) for t in (up, down))
            possible = np.isfinite(high) & np.isfinite(low)  # a row of density 0 has no score
            out[possible, j] = (high[possible] - low[possible]) / (up[j] - down[j])
        return out

    def _by_torch(self, rows):
        try:
            import torch
        except ImportError as error:
            raise ImportError("gradient='torch' needs torch; pip install 'mercer[gpu]'") from error
        data = torch.as_tensor(rows) if isinstance(rows, np.ndarray) and rows.dtype != object else rows
        J = torch.autograd.functional.jacobian(lambda t: self.function(data, t), torch.tensor(self.theta))
        return np.nan_to_num(J.detach().numpy().astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)

    def information(self):
        if self.information_matrix is None:
            return super().information()
        return np.asarray(self.information_matrix, dtype=np.float64)

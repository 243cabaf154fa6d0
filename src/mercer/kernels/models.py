"""Generative models as values: parameters, log densities, scores. Without parameters they are fitted by `resolve`.

A model is not a kernel: `Fisher`, `DensityProduct`, `MixtureKernel` and `SharedPath` make kernels of one. Models of counts
and of sequences, and those of users' own, have files of their own.
"""

import numbers
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from scipy.special import logsumexp

from mercer.errors import KernelOutputError
from mercer.kernels.base import written
from mercer.kernels.digest import digest
from mercer.kernels.normals import Until, fit_mixture, log_joint, log_normal, normal_scores, patterns, responsibilities
from mercer.registry import register_record

__all__ = [
    "ComponentModel",
    "MixtureModel",
    "Model",
    "NormalModel",
    "as_model",
    "check_shares",
    "finite_numbers",
    "log_values",
    "model",
    "pseudo_root",
    "spread",
]

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def model(cls: type[T]) -> type[T]:
    """A frozen class of a model: annotations are its parameters."""
    return register_record(dataclass(frozen=True, eq=False, repr=False)(cls))


class Model:
    """Base: subclasses give `fit`, `log_density`, `scores` and their number, and `information` where it has a closed form."""

    rows_kind = "vectors"
    learned: ClassVar[tuple[str, ...]] = ()  # what `fit` finds; a model that has all of it is fitted

    def __post_init__(self):
        for f in fields(self):
            value = getattr(self, f.name)
            _check_setting(type(self).__name__, f.name, value)
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

    @property
    def n_scores(self) -> int:
        """How many scores a row has."""
        return 0

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
        return written(self)


def _check_setting(who, name, value):
    """Refuse numbers that steer a fit and cannot be meant."""
    whole, least = name in ("n_components", "n_states", "max_iter"), name in ("ridge", "smoothing", "tol", "floor")
    if not (whole or least):
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not np.isfinite(value) or value < whole:
        raise ValueError(f"{who}({name}={value!r}): expected a number >= {int(whole)}")
    if whole and value != int(value):
        raise ValueError(f"{who}({name}={value!r}): expected a whole number")


def pseudo_root(F) -> np.ndarray:
    """W (p, r) with W W^T the pseudo-inverse of F, r its rank in floating point."""
    values, vectors = np.linalg.eigh((F + F.T) / 2)
    kept = values > len(F) * np.finfo(float).eps * max(values.max(initial=0.0), 0.0)
    return vectors[:, kept] / np.sqrt(values[kept]) if kept.any() else np.zeros((len(F), 1))


@model
class NormalModel(Model):
    """A Gaussian. `theta` says in what scores are taken: the "mean", or the mean and the covariance ("both").

    NaN is a missing entry; rows that have some are fitted by EM. `ridge` times the mean variance is added to the variances
    of a fit.
    """

    mean: Any = None
    covariance: Any = None
    theta: str = "mean"
    ridge: float = 1e-6
    max_iter: int = 1000
    tol: float = 1e-10
    rows_kind = "gaps"
    learned: ClassVar[tuple[str, ...]] = ("mean", "covariance")

    def check(self):
        if self.theta not in ("mean", "both"):
            raise ValueError(f"NormalModel(theta={self.theta!r}): expected 'mean' or 'both'")
        if self.fitted:
            object.__setattr__(self, "mean", np.atleast_1d(self.mean))
            object.__setattr__(self, "covariance", spread(self.covariance, len(self.mean)))

    def fit(self, rows, weight=None):
        until = Until("NormalModel", self.max_iter, self.tol)
        _, means, covariances = fit_mixture(rows, weight, 1, False, self.ridge, 0, until)
        return self._with(mean=means[0], covariance=covariances[0])

    def log_density(self, rows):
        return log_normal(self._columns(rows, len(self.mean)), self.mean, self.covariance)

    def scores(self, rows):
        by_mean, by_covariance = normal_scores(self._columns(rows, len(self.mean)), self.mean, self.covariance)
        return by_mean if self.theta == "mean" else np.hstack([by_mean, by_covariance])

    @property
    def n_scores(self):
        d = len(self.mean)
        return d if self.theta == "mean" else d + d * (d + 1) // 2

    def information(self):
        P = np.linalg.inv(self.covariance)
        if self.theta == "mean":
            return P
        d = len(P)
        i, j = np.tril_indices(d)
        factor = np.where(i == j, 0.5, 1.0)
        # 1/2 tr(P E_a P E_b) over the symmetric directions E_a
        products = P[np.ix_(i, i)] * P[np.ix_(j, j)] + P[np.ix_(i, j)] * P[np.ix_(j, i)]
        F = np.zeros((d + len(i),) * 2)
        F[:d, :d], F[d:, d:] = P, products * np.outer(factor, factor)
        return F


def finite_numbers(owner, name) -> np.ndarray:
    """An argument that holds finite numbers, in float64; anything else is refused by name."""
    try:
        values = np.asarray(getattr(owner, name), np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{type(owner).__name__}({name}={getattr(owner, name)!r}): expected numbers") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{type(owner).__name__}({name}=...) contains NaN or infinity")
    return values


def spread(covariance, d) -> np.ndarray:
    """A covariance (d, d) of one given as a matrix, as variances, or as one variance."""
    S = np.asarray(covariance, dtype=np.float64)
    S = np.diag(np.broadcast_to(S, d)) if S.ndim < 2 else S
    if S.shape != (d, d) or not np.allclose(S, S.T):
        raise ValueError(f"the covariance must be symmetric of shape {(d, d)}, got shape {S.shape}")
    try:
        np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(S).min()
        raise ValueError(f"the covariance must be positive definite; its smallest eigenvalue is {least:g}") from None
    return S


@model
class MixtureModel(Model):
    """A mixture of Gaussians with "full" or "diag" covariances, fitted by EM. `theta` says in what scores are taken: "all"
    (weights by their logarithms, means, covariances) or "means".

    NaN is a missing entry. EM ends when the mean log density gains no more than `tol` of itself. A fitted `GaussianMixture`
    of scikit-learn may stand in its place.
    """

    n_components: int = 4
    covariance_type: str = "full"
    weights: Any = None
    means: Any = None
    covariances: Any = None
    theta: str = "all"
    ridge: float = 1e-6
    max_iter: int = 500
    tol: float = 1e-6
    random_state: int = 0
    rows_kind = "gaps"
    learned: ClassVar[tuple[str, ...]] = ("weights", "means", "covariances")

    def check(self):
        if self.covariance_type not in ("full", "diag"):
            raise ValueError(f"MixtureModel(covariance_type={self.covariance_type!r}): expected 'full' or 'diag'")
        if self.theta not in ("all", "means"):
            raise ValueError(f"MixtureModel(theta={self.theta!r}): expected 'all' or 'means'")
        if self.fitted:
            check_shares(self.weights)
            k, d = self.means.shape
            wanted = (k, d, d) if self.covariance_type == "full" else (k, d)
            if self.covariances.shape != wanted or self.weights.shape != (k,):
                raise ValueError(
                    f"{k} means of {d} columns need weights of shape {(k,)} and covariances of shape {wanted}, "
                    f"got {self.weights.shape} and {self.covariances.shape}"
                )
            for S in self.covariances:
                spread(S, d)

    @property
    def _parameters(self):
        return self.weights, self.means, self.covariances

    def fit(self, rows, weight=None):
        diagonal = self.covariance_type == "diag"
        until = Until("MixtureModel", self.max_iter, self.tol)
        found = fit_mixture(rows, weight, int(self.n_components), diagonal, self.ridge, self.random_state, until)
        return self._with(weights=found[0], means=found[1], covariances=found[2])

    def log_joint(self, rows):
        """log p(c) p(x|c), one column a component."""
        return log_joint(self._columns(rows, self.means.shape[1]), self._parameters)

    def log_density(self, rows):
        return logsumexp(self.log_joint(rows), axis=1)

    def scores(self, rows):
        R, kinds = responsibilities(self.log_joint(rows))[0], patterns(rows)
        parts = [R - self.weights * (R.sum(axis=1) > 0)[:, None]] if self.theta == "all" else []
        for c in range(len(self.weights)):
            by_mean, by_covariance = normal_scores(rows, self.means[c], self.covariances[c], kinds)
            parts += [R[:, [c]] * by_mean] + ([R[:, [c]] * by_covariance] if self.theta == "all" else [])
        return np.hstack(parts)

    @property
    def n_scores(self):
        k, d = self.means.shape
        width = d if self.covariance_type == "diag" else d * (d + 1) // 2
        return k * d if self.theta == "means" else k * (1 + d + width)


@model
class ComponentModel(Model):
    """Given p(c) and p(x|c): `weights` (k,) and a function of the rows that returns log p(x|c), (n, k)."""

    weights: Any = None
    function: Callable | None = None

    def check(self):
        if self.weights is None or not callable(self.function):
            raise TypeError("ComponentModel(weights, log_density) needs the weights of the components and a function")
        object.__setattr__(self, "weights", np.array(self.weights, dtype=np.float64))
        check_shares(self.weights)

    def log_joint(self, rows):
        """log p(c) p(x|c), one column a component."""
        logs = log_values(self.function(rows), (len(rows), len(self.weights)), "log p(x|c)")
        with np.errstate(divide="ignore"):
            return logs + np.log(self.weights)

    def log_density(self, rows):
        return logsumexp(self.log_joint(rows), axis=1)


def check_shares(weights):
    """Refuse probabilities that do not add up to 1."""
    if (weights < 0).any() or abs(weights.sum() - 1) > 1e-6:
        raise ValueError(
            f"weights must be >= 0 and add up to 1; their sum is {weights.sum():g}, the smallest {weights.min():g}"
        )


def log_values(values, shape, who) -> np.ndarray:
    """Logarithms of densities that a function of the user's returned; -inf is a density of 0."""
    try:
        logs = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise KernelOutputError(f"{who} returned {type(values).__name__}, expected an array {shape}") from None
    if logs.shape != shape:
        raise KernelOutputError(f"{who} returned shape {logs.shape}, expected {shape}: one row for each row of X")
    wrong = np.isnan(logs) | np.isposinf(logs)
    if wrong.any():
        place = np.argwhere(wrong)[0]
        raise KernelOutputError(
            f"{who} returned {logs[tuple(place)]} for row {place[0]}; expected a number, or -inf for a density of 0"
        )
    return logs


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
        return log_values(self.given.score_samples(rows), (len(rows),), f"score_samples of {type(self.given).__name__}")


def as_model(given) -> Model:
    """Our model of what a user gave: one of ours, a fitted GaussianMixture, or anything fitted with `score_samples`."""
    if isinstance(given, Model):
        return given
    if isinstance(given, type):
        raise TypeError(f"expected a model, got the class {given.__name__}; write {given.__name__}()")
    if type(given).__name__ == "GaussianMixture":
        if not hasattr(given, "means_"):
            raise ValueError(f"{given!r} is not fitted; fit it, or use MixtureModel, which is fitted with the kernel")
        return _mixture_of(given)
    if hasattr(given, "score_samples"):
        return _Scored(given=given)
    raise TypeError(f"expected a model of mercer.kernels or one with score_samples, got {type(given).__name__}")

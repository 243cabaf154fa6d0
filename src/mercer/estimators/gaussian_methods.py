"""Three ways to a Gaussian process: in closed form, through inducing rows, and by products with the Gram alone.

Each climbs its evidence in the parameters, `learn`, and conditions on the targets where that ended, `posterior`.
"""

import logging
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mercer import validate
from mercer.approx import choose_landmarks
from mercer.errors import ConvergenceWarning
from mercer.estimators.evidence import climb
from mercer.estimators.plan import holds
from mercer.gram import GivenGram, gram, prepared_gram
from mercer.gram.plan import budget
from mercer.kernels import White
from mercer.kernels.names import slots
from mercer.kernels.views import NonNegativeRows
from mercer.linalg import rpcholesky
from mercer.linalg.tensors import diagonal_of
from mercer.random import some_of
from mercer.solvers.gaussian import posterior
from mercer.solvers.iterative_gaussian import Whitening, iterative_posterior, random_signs
from mercer.solvers.sparse_gaussian import sparse_posterior

__all__ = ["METHODS", "Exact", "Iterative", "Observed", "Sparse", "noiseless", "symmetric"]

logger = logging.getLogger("mercer")

_CANDIDATES = 20_000  # rows among which inducing ones are chosen
_PROBES, _STEPS, _ROUNDS = 8, 64, 2  # of the log determinant; searches, each with a reference of its own
_TOL, _MAX_ITER = 1e-8, 1000  # of conjugate gradients
_RISE = 1e-7  # a search of an estimate ends where its value rises by less, relative to it


@dataclass(frozen=True)
class Observed:
    """Training rows in float64, targets (n, p), the mean's columns (n, q), and the relative noise of the rows, () or (n,)."""

    rows: Any
    T: np.ndarray
    H: np.ndarray
    noise: Any
    engine: Any = None
    memory: Any = None

    def gram(self, kernel, rows=None):
        return gram(kernel, self.rows if rows is None else rows, engine=self.engine, memory=self.memory, validated=True)

    def alpha(self, extra):
        """Variance of the noise."""
        return self.noise * extra.get("alpha", 1.0)

    def variances(self, extra, full, latent):
        """Noise (n,) of the targets: alpha, and what k(x, x) has beyond that of f, its white noise."""
        noise = np.broadcast_to(self.alpha(extra), (len(self.T),)) + (full.diag() - latent.diag())
        if not noise.min() > 0:
            raise ValueError(
                f'alpha must be > 0 for method="sparse" and "iterative", got {noise.min():g}; give the targets a little noise, '
                'or use method="exact"'
            )
        return noise

    def by_alpha(self, slopes, extra):
        """Slope in the number that scales the noise, from those in the variances (n,)."""
        return {"alpha": float((slopes * self.noise).sum())} if "alpha" in extra else {}


class Exact:
    """In closed form: n x n matrices, n^3 operations."""

    def __init__(self, seen: Observed, **_):
        self.seen = seen

    def learn(self, kernel, extra, settings):
        return climb(self.evaluate, kernel, self.seen.rows, extra, settings)

    def evaluate(self, K, extra, slope):
        found = self._conditioned(K.matrix(np.float64), self.seen.alpha(extra), warn=False)
        if not slope:
            return found.evidence, None, {}
        W = found.slope(overwrite=True)
        return found.evidence, W, self.seen.by_alpha(diagonal_of(W), extra)

    def left_out(self, K, extra, slope):
        """The sum of the leave-one-out log densities in place of the evidence."""
        found = self._conditioned(symmetric(K), self.seen.alpha(extra), warn=False)
        value = float(found.leave_one_out().log_probability.sum())
        if not slope:
            return value, None, {}
        W = found.loo_slope()
        return value, W, self.seen.by_alpha(np.diagonal(W), extra)

    def posterior(self, kernel, extra):
        return self._conditioned(self.seen.gram(kernel).matrix(np.float64), self.seen.alpha(extra), warn=True)

    def _conditioned(self, K, alpha, warn):
        return posterior(K, alpha, self.seen.T, self.seen.H, warn=warn)

    def centres(self, extra):
        return self.seen.rows


# ------------------------------------------------------------------------------------------------ inducing rows
class Sparse:
    """Through m inducing rows: the collapsed bound, n m^2 operations, rows in tiles."""

    def __init__(self, seen: Observed, *, n_inducing, move, seed, **_):
        self.seen, self.count, self.move = seen, min(n_inducing, len(seen.T)), move
        self.rng, self.moving = np.random.default_rng(seed), False

    def learn(self, kernel, extra, settings):
        """The parameters first, with inducing rows among the training rows; these are chosen again with the kernel found, and
        then move together with the parameters where they can."""
        rows, extra = self.seen.rows, {**extra, "inducing": self._choose(kernel)}
        still = replace(settings, fixed=(*settings.fixed, "inducing"))
        found = climb(self.evaluate, kernel, rows, extra, still)
        if settings.optimizer is None:
            return found
        extra["inducing"] = self._better(found, self._choose(found.kernel))
        self.moving = self.move and _movable(self.seen.gram(kernel), extra["inducing"])
        settings = replace(settings if self.moving else still, restarts=0)
        return climb(self.evaluate, kernel, rows, extra, settings, before=found)

    def _choose(self, kernel):
        """Rows by randomly pivoted Cholesky of the kernel without its white noise."""
        rows, n = self.seen.rows, len(self.seen.T)
        some = some_of(np.arange(n), max(_CANDIDATES, 10 * self.count), self.rng)
        K = self.seen.gram(noiseless(kernel), validate.take(rows, some))
        return validate.take(rows, some[np.sort(choose_landmarks(K, self.count, rng=self.rng).index)])

    def _better(self, found, Z):
        """Other inducing rows, or those of a climb if the bound is higher there."""
        K = self.seen.gram(found.kernel)
        return max(
            (Z, found.extra["inducing"]), key=lambda one: self.evaluate(K, {**found.extra, "inducing": one}, False)[0]
        )

    def evaluate(self, K, extra, slope):
        parts = _Parts(self.seen, K, extra)
        found, slopes = parts.posterior(slope)
        if not slope:
            return found.evidence, None, {}
        return found.evidence, *parts.back(slopes, extra, self.moving)

    def posterior(self, kernel, extra):
        found = _Parts(self.seen, self.seen.gram(kernel), extra).posterior(slope=False)[0]
        if found.jitter:
            logger.info("%.3g was added to the diagonal of the inducing rows; the bound holds with it", found.jitter)
        return found

    def centres(self, extra):
        return extra["inducing"]


def _movable(K, Z):
    """Whether rows may be any numbers, and the kernel has a slope in them."""
    bounded = any(isinstance(view, NonNegativeRows) for view in K.x.views)
    return K.kernel.differentiable_inputs and isinstance(Z, np.ndarray) and Z.ndim == 2 and not bounded


class _Parts:
    """The Grams that the bound reads, at one kernel. White noise is noise of the targets, and no part of f."""

    def __init__(self, seen, K, extra):
        self.seen, self.full = seen, K
        latent, Z = noiseless(K.kernel), extra["inducing"]
        self.white = _white_names(K.kernel)
        self.own = seen.gram(latent) if self.white else K
        self.cross = prepared_gram(self.own, Z)  # (m, n)
        self.inducing = seen.gram(latent, Z)
        self.noise = seen.variances(extra, K, self.own)

    def posterior(self, slope):
        hold = holds(self.cross.shape[0] * self.cross.shape[1], budget(self.seen.memory))
        return sparse_posterior(
            self.inducing.dense().astype(np.float64, copy=False), self.cross.T, self.own.diag().astype(np.float64), self.noise,
            self.seen.T, self.seen.H, slopes=slope, hold=hold,
        )  # fmt: skip

    def back(self, slopes, extra, moving):
        """Slopes of the bound in the kernel's parameters, and in the noise and the inducing rows."""
        total = _Sum(self.inducing.pullback(slopes.inducing), self.own.pullback_diag(slopes.diagonal))
        by_rows = self.inducing.pullback_inputs(slopes.inducing) if moving else None
        for some, W in slopes.tiles():
            part, W = self.cross[:, some], np.ascontiguousarray(W.T)
            total.add(part.pullback(W))
            if moving:
                by_rows += part.pullback_inputs(W)
        return self._with_white(total, slopes.noise), {**self.seen.by_alpha(slopes.noise, extra), "inducing": by_rows}

    def _with_white(self, total, by_noise):
        """White noise has no part in f, and is what k(x, x) has beyond that of f."""
        if not self.white:
            return total.values
        total.add(self.own.pullback_diag(-by_noise))
        for name in self.white:
            total.values[name] = np.zeros(())
        return total.add(self.full.pullback_diag(by_noise))


class _Sum:
    """Slopes by name, added up."""

    def __init__(self, first, *others):
        self.values = dict(first)
        for one in others:
            self.add(one)

    def add(self, slopes):
        self.values = {name: value + slopes[name] for name, value in self.values.items()}
        return self.values


# ------------------------------------------------------------------------------------------------ products alone
class Iterative:
    """Conjugate gradients and Lanczos quadrature: products with the Gram, which is held only where it fits."""

    def __init__(self, seen: Observed, *, rank, seed, **_):
        self.seen, self.rank = seen, rank
        rng = np.random.default_rng(seed)
        self.seed, self.probes = rng.integers(2**62), random_signs(len(seen.T), _PROBES, rng)

    def learn(self, kernel, extra, settings):
        """Probes and what they are whitened by stay as they are during a search, which makes it one of a smooth function."""
        found, settings = None, replace(settings, tol=_RISE)
        for _ in range(_ROUNDS if settings.optimizer is not None else 1):
            now = (kernel, extra) if found is None else (found.kernel, found.extra)
            evaluate = partial(self.evaluate, self._whitening(*now))
            found = climb(evaluate, kernel, self.seen.rows, extra, settings, before=found)
            settings = replace(settings, restarts=0)
        return found

    def evaluate(self, reference, K, extra, slope):
        found = self._conditioned(K, extra, reference)
        if not slope:
            return found.evidence, None, {}
        U, V = found.slope()
        return found.evidence, (U, V), self.seen.by_alpha(np.einsum("ik,ik->i", U, V), extra)

    def posterior(self, kernel, extra):
        found = self._conditioned(self.seen.gram(kernel), extra)
        if found.residual > 10 * _TOL or not found.quadrature.settled:
            warnings.warn(f"conjugate gradients stopped at a residual of {found.residual:.2g} ({found.status.value}), Lanczos "
                          f"after {found.quadrature.steps} steps: more noise, or method=\"sparse\", would help",
                          ConvergenceWarning, stacklevel=5)  # fmt: skip
        return found

    def _conditioned(self, K, extra, reference=None):
        whitening = self._whitening(K.kernel, extra)
        # A device makes the Gram anew in less time than the host takes for a product with it.
        if K.engine.room() is None and holds(len(self.seen.T) ** 2, budget(self.seen.memory)):
            K = GivenGram(K.dense().astype(np.float64, copy=False))
        return iterative_posterior(
            K, self.seen.alpha(extra), self.seen.T, self.seen.H, whitening, self.probes, reference=reference, rtol=_TOL,
            max_iter=_MAX_ITER, steps=_STEPS,
        )  # fmt: skip

    def _whitening(self, kernel, extra):
        K = self.seen.gram(noiseless(kernel))
        noise = self.seen.variances(extra, self.seen.gram(kernel), K)
        return Whitening(rpcholesky(K, self.rank, rng=np.random.default_rng(self.seed)).factor, noise)

    def centres(self, extra):
        return self.seen.rows


METHODS = {"exact": Exact, "sparse": Sparse, "iterative": Iterative}


def _white_names(kernel):
    """Names of the variances of white noise."""
    found = slots(kernel).items()
    return [name for name, slot in found if slot.field == "variance" and isinstance(kernel._at(slot.path), White)]


def noiseless(kernel):
    """The kernel with its white noise at 0: the covariance of f, not of targets."""
    return kernel.replace(**dict.fromkeys(_white_names(kernel), 0.0))


def symmetric(K) -> np.ndarray:
    """A Gram matrix in float64."""
    return K.dense().astype(np.float64, copy=False)

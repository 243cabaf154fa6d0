"""Probability product kernels (G5): k(p, q) is the integral of p^rho q^rho; a row is a distribution."""

from typing import Any

import numpy as np

from mercer import validate
from mercer.kernels.base import PairKernel, frozen
from mercer.kernels.generative import _exponential
from mercer.kernels.model_products import Draws, Hidden, Mixture
from mercer.kernels.models import finite_numbers, spread
from mercer.kernels.parameters import Count, Flag, Natural, Positive
from mercer.kernels.product_families import Bernoulli, Exponential, Gaussian, Multinomial, Poisson
from mercer.kernels.validity import certificate
from mercer.registry import register

__all__ = ["ProbabilityProduct"]

_MODELS = {"mixture": Mixture(), "hmm": Hidden()}
_FAMILIES = {
    "gaussian": Gaussian(),
    "bernoulli": Bernoulli(),
    "multinomial": Multinomial(),
    "poisson": Poisson(),
    "exponential": Exponential(),
    **_MODELS,
}


@register
@frozen
class ProbabilityProduct(PairKernel):
    """Probability product kernel (G5): the integral of p^rho q^rho, of rows that are distributions; rho = 1/2 is the
    Bhattacharyya kernel, rho = 1 the expected likelihood. Jebara, Kondor and Howard (2004).

    A row of "gaussian" is (mean, covariance), or a mean where `covariance` is given; of "bernoulli", "poisson" and
    "exponential" a vector of parameters of independent variables; of "multinomial" probabilities (`trials` > 1 needs
    rho = 1/2); of "mixture" (weights, means, covariances); of "hmm" a fitted HiddenMarkov model, for sequences of `length`
    steps. `unit` divides by the square root of k(x, x) k(y, y) in log space.

    Mixtures and hidden Markov models are exact for whole rho. For others the integral is a mean over `n_samples` draws, the
    same for all rows, from a density found when the kernel is resolved: PSD for any number; `error(X, Y)` is the standard
    error.

    >>> float(ProbabilityProduct("poisson")([1.0], [4.0])[0, 0])  # exp(-(1 - 2)^2 / 2)
    0.6065306597126334
    """

    family: str = "gaussian"
    rho: Positive = 0.5
    covariance: Any = None
    trials: Natural = 1
    length: Natural = 1
    unit: Flag = False
    n_samples: Natural = 2000
    random_state: Count = 0
    draws: Any = None
    reads_objects = True
    not_differentiable = ("rho",)

    def check(self):
        if self.family not in _FAMILIES:
            raise ValueError(
                f"ProbabilityProduct(family={self.family!r}): expected one of {', '.join(map(repr, _FAMILIES))}"
            )
        if self.covariance is not None:
            S = finite_numbers(self, "covariance")
            spread(S, len(np.atleast_1d(S)))
        if self.draws is not None and not isinstance(self.draws, Draws):
            raise TypeError(f"ProbabilityProduct(draws={self.draws!r}): draws are made by resolve(X); leave them out")
        if self.family == "multinomial" and self.trials > 1 and self.rho != 0.5:
            raise ValueError(
                f"multinomial with trials={self.trials} has a closed form for rho=0.5 only, got rho={self.rho}"
            )

    @property
    def exact(self) -> bool:
        """Whether the integral has a closed form, rather than a mean over draws."""
        return self.family not in _MODELS or self.rho == int(self.rho)

    def _resolved(self, rows, weight):
        if self.exact or self.draws is not None:
            return self
        family = _MODELS[self.family]
        models = validate.each_object(family.read, validate.objects(rows))
        w = np.ones(len(models)) if weight is None else weight
        return self._with(draws=family.propose(models, w, self))

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

"""A density of the user's own, with scores by differences or by torch."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.errors import KernelOutputError
from mercer.kernels.models import Model, log_values, model

__all__ = ["UserModel"]


@model
class UserModel(Model):
    """Your own density: `log_density(rows, theta)` -> (n,), at the parameters `theta`; -inf where the density is 0.

    Scores are central differences, or torch's gradients with `gradient="torch"` (the function then gets tensors). Give
    `information_matrix` where you know it. `rows_kind` is "vectors", "gaps" (NaN is let through) or "objects". A row of
    density 0 has the score 0.
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
        for name, words in (("gradient", ("differences", "torch")), ("rows_kind", ("vectors", "gaps", "objects"))):
            if getattr(self, name) not in words:
                raise ValueError(f"UserModel({name}={getattr(self, name)!r}): expected one of {words}")
        theta = _finite(self.theta, "theta").ravel()
        object.__setattr__(self, "theta", theta)
        if self.information_matrix is not None:
            F = _finite(self.information_matrix, "information_matrix")
            if F.shape != (len(theta),) * 2:
                raise ValueError(f"UserModel: the information matrix has shape {F.shape}, theta {len(theta)} numbers")
            object.__setattr__(self, "information_matrix", F)

    @property
    def _name(self):
        return f"the log density {getattr(self.function, '__name__', type(self.function).__name__)}"

    def _logs(self, rows, theta):
        return log_values(self.function(rows, theta), (len(rows),), self._name)

    def log_density(self, rows):
        if self.gradient != "torch":
            return self._logs(rows, self.theta)
        data, theta = self._tensors(rows)
        return log_values(self.function(data, theta).detach().numpy(), (len(rows),), self._name)

    def scores(self, rows):
        return self._by_torch(rows) if self.gradient == "torch" else self._by_differences(rows)

    @property
    def n_scores(self):
        return len(self.theta)

    def _by_differences(self, rows):
        out = np.zeros((len(rows), len(self.theta)))
        possible = np.isfinite(self._logs(rows, self.theta))  # a row of density 0 has no score
        for j, value in enumerate(self.theta):
            h = self.step * max(1.0, abs(value))
            up, down = self.theta.copy(), self.theta.copy()
            up[j], down[j] = value + h, value - h
            with np.errstate(invalid="ignore"):
                slope = (self._logs(rows, up) - self._logs(rows, down)) / (up[j] - down[j])
            out[possible, j] = slope[possible]
        return self._all_finite(out, f"has density 0 within step={self.step:g} of theta; lower step")

    def _by_torch(self, rows):
        possible = np.isfinite(self.log_density(rows))
        import torch

        # Rows of density 0 stay out: 0 times infinity would reach theta, which all rows share.
        data, theta = self._tensors(rows[possible])
        out = np.zeros((len(rows), len(self.theta)))
        out[possible] = torch.autograd.functional.jacobian(lambda t: self.function(data, t), theta).numpy()
        return self._all_finite(out, "has no gradient that is a number")

    def _all_finite(self, scores, otherwise):
        bad = ~np.isfinite(scores).all(axis=1)
        if bad.any():
            raise KernelOutputError(f"{self._name}: row {int(bad.argmax())} {otherwise}")
        return scores

    def _tensors(self, rows):
        """Rows of numbers, and theta, as tensors of their own: torch cannot hold read-only memory."""
        try:
            import torch
        except ImportError as error:
            raise ImportError("gradient='torch' needs torch; pip install 'mercer[gpu]'") from error
        plain = isinstance(rows, np.ndarray) and rows.dtype != object
        return torch.tensor(rows) if plain else rows, torch.tensor(self.theta)

    def information(self):
        return super().information() if self.information_matrix is None else self.information_matrix


def _finite(values, name):
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"UserModel({name}=...) must be numbers, got {type(values).__name__}") from None
    if values is None or not np.isfinite(array).all():
        raise ValueError(f"UserModel({name}=...) must be finite numbers, got {values!r}")
    array.flags.writeable = False
    return array

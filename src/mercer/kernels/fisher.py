"""Fisher kernels (G6): inner products of scores under the inverse Fisher information."""

from typing import Any

import numpy as np

from mercer.kernels.base import frozen, require_memory
from mercer.kernels.dense import require_features
from mercer.kernels.generative import OfModel, model_rows
from mercer.kernels.models import NormalModel, as_model, finite_numbers, pseudo_root
from mercer.registry import register

__all__ = ["Fisher"]

_INFORMATION = ("exact", "empirical", "diagonal", "identity")


@register
@frozen
class Fisher(OfModel):
    """Fisher kernel (G6): k(x, y) = g(x)' F^-1 g(y), g the gradient of log p in the parameters of a model.

    `information` is "exact" (the model's own, where it has a closed form), "empirical" (the mean of g g' over the rows
    that the kernel is resolved on), "diagonal" (the diagonal of that) or "identity". A singular F is inverted on its range.
    `whitening` is the factor of F^-1, found when the kernel is resolved. Jaakkola and Haussler (1999).

    >>> from mercer.kernels import NormalModel
    >>> k = Fisher(NormalModel([1.0], [[4.0]]))
    >>> float(k([[3.0]], [[5.0]])[0, 0])  # (x - m) (y - m) / s^2
    2.0
    """

    model: Any = NormalModel()
    information: str = "exact"
    whitening: Any = None

    def check(self):
        super().check()
        if self.information not in _INFORMATION:
            words = ", ".join(map(repr, _INFORMATION))
            raise ValueError(f"Fisher(information={self.information!r}): expected one of {words}")
        if self.whitening is not None and finite_numbers(self, "whitening").ndim not in (1, 2):
            raise ValueError("Fisher(whitening=...) must be a matrix, or one number for each score")

    def _resolved(self, rows, weight):
        fitted = super()._resolved(rows, weight)
        if fitted.whitening is not None or self.information == "identity":
            return fitted
        model = as_model(fitted.model)
        if self.information == "exact":
            self._require_matrix(model.n_scores)
            return fitted._with(whitening=model.whitening())
        return fitted._with(whitening=self._empirical(model, model_rows(rows, model.rows_kind), weight))

    def _empirical(self, model, rows, weight):
        """The factor of the inverse of the mean of g g' over the rows, or of its diagonal."""
        n, p = len(rows), model.n_scores
        require_features(n, p, "Fisher")
        w = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
        if self.information == "empirical":
            self._require_matrix(p)
            G = model.scores(rows)
            return pseudo_root((G * w[:, None]).T @ G)
        squares = w @ model.scores(rows) ** 2
        kept = squares > np.finfo(float).eps ** 2 * squares.max(initial=0.0)
        return np.where(kept, 1 / np.sqrt(np.where(kept, squares, 1.0)), 0.0)

    def _require_matrix(self, p):
        remedies = ['information="diagonal" or "identity"', "a model with fewer parameters"]
        require_memory(3 * 8 * p * p, f"the information matrix of {p} parameters", remedies)

    @property
    def n_features(self):
        return max([as_model(self.model).n_scores, *np.shape(self.whitening)])

    def dense(self, rows):
        G = as_model(self.model).scores(rows)
        if self.whitening is None:
            return G
        W = np.asarray(self.whitening, dtype=np.float64)
        return G * W if W.ndim == 1 else G @ W

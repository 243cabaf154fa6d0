"""Models of counts of words: multinomial, and the Dirichlet compound multinomial of bursty words."""

from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from mercer.errors import NanError
from mercer.kernels.models import Model, check_shares, model
from mercer.kernels.normals import Until

__all__ = ["DirichletMultinomial", "MultinomialModel"]


def _counts(rows, who):
    if rows.size and rows.min() < 0:
        row = int((rows < 0).any(axis=1).argmax())
        raise ValueError(f"{who} reads counts >= 0; row {row} has the entry {rows[row].min():g}")
    return rows


def _summed(totals):
    """Numbers of words, of which some must be above 0 and all finite."""
    if not np.isfinite(totals).all() or totals.max(initial=0.0) <= 0:
        raise NanError("the counts have no finite positive sum; rescale the columns")
    return totals


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
            check_shares(self.probabilities)

    def fit(self, rows, weight=None):
        w = np.ones(len(rows)) if weight is None else weight
        total = _summed(w @ _counts(rows, "MultinomialModel") + self.smoothing)
        return self._with(probabilities=total / _summed(total.sum()))

    def _read(self, rows):
        return _counts(self._columns(rows, len(self.probabilities)), "MultinomialModel")

    def log_density(self, rows):
        x = self._read(rows)
        return gammaln(x.sum(axis=1) + 1) - gammaln(x + 1).sum(axis=1) + xlogy(x, self.probabilities).sum(axis=1)

    def scores(self, rows):
        x = self._read(rows)
        return x - x.sum(axis=1, keepdims=True) * self.probabilities

    @property
    def n_scores(self):
        return len(self.probabilities)

    def information(self):
        return np.diag(self.probabilities) - np.outer(self.probabilities, self.probabilities)

    def whitening(self):
        # Scores add up to 0: on them this inverse does what the pseudo-inverse of the matrix does.
        p = self.probabilities
        return np.where(p > 0, 1 / np.sqrt(np.where(p > 0, p, 1.0)), 0.0)


@model
class DirichletMultinomial(Model):
    """Counts of bursty words (Dirichlet compound multinomial). Its Fisher kernel has parts like TF-IDF: the score of a rare
    word that occurs c times is about 1 / alpha + log c, and alpha is in proportion to the number of documents that have it.
    Elkan (2005).

    Fitted by Minka's fixed point, until the mean log density gains no more than `tol` of itself; `floor` is the smallest
    parameter, for words that hardly occur.
    """

    alpha: Any = None
    floor: float = 1e-4
    max_iter: int = 1000
    tol: float = 1e-7
    learned: ClassVar[tuple[str, ...]] = ("alpha",)

    def check(self):
        if self.fitted and (self.alpha <= 0).any():
            raise ValueError(f"DirichletMultinomial(alpha=...) must be > 0; the smallest is {self.alpha.min():g}")

    def fit(self, rows, weight=None):
        x = _counts(rows, "DirichletMultinomial")
        w = np.ones(len(x)) if weight is None else weight
        n, place = _summed(x.sum(axis=1)), np.nonzero(x)  # a word tells nothing in a document without it
        start = np.maximum(w @ x / (w @ n), self.floor)
        until = Until("DirichletMultinomial", self.max_iter, self.tol)
        return self._with(alpha=until.climb(lambda alpha: self._step(alpha, x[place], *place, n, w), start))

    def _step(self, alpha, seen, i, j, n, w):
        """One step of Minka's fixed point, and the mean log density of its beginning but for a constant."""
        total = alpha.sum()
        up = np.bincount(j, w[i] * (digamma(seen + alpha[j]) - digamma(alpha)[j]), minlength=len(alpha))
        down = w @ (digamma(n + total) - digamma(total))
        if not down > 0:
            raise NanError("the counts are too small for a fit; rescale the columns")
        value = w @ (gammaln(total) - gammaln(n + total)) + w[i] @ (gammaln(seen + alpha[j]) - gammaln(alpha)[j])
        return np.clip(alpha * up / down, self.floor, 1e6), value / w.sum()

    def _read(self, rows):
        return _counts(self._columns(rows, len(self.alpha)), "DirichletMultinomial")

    def log_density(self, rows):
        x = self._read(rows)
        n, total = x.sum(axis=1), self.alpha.sum()
        words = (gammaln(x + self.alpha) - gammaln(self.alpha) - gammaln(x + 1)).sum(axis=1)
        return gammaln(n + 1) + gammaln(total) - gammaln(n + total) + words

    def scores(self, rows):
        x = self._read(rows)
        n, total, (i, j) = x.sum(axis=1, keepdims=True), self.alpha.sum(), np.nonzero(x)
        out = np.repeat(digamma(total) - digamma(n + total), x.shape[1], axis=1)
        out[i, j] += digamma(x[i, j] + self.alpha[j]) - digamma(self.alpha)[j]
        return out

    @property
    def n_scores(self):
        return len(self.alpha)

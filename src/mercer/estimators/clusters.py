"""What estimators of clusters share: rows that differ, with weights, and a transform that is there if distances are known."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from mercer import validate
from mercer.estimators.base import KernelEstimator
from mercer.gram import GivenGram
from mercer.solvers.medoids import equal_rows

__all__ = ["ClusterRows", "printing", "transforms_if"]


class ClusterRows(KernelEstimator):
    """Base of clusterings: equal rows are one row that weighs as much, so that a weight k is a row k times."""

    def _check_parameters(self):
        self._validate_params()
        validate.memory_bytes(self.memory)

    def _given(self, X, y, sample_weight, **checks):
        """All rows, the labels and the weights (n,); rows of weight 0 are among them, since they have labels too."""
        needs = () if self._precomputed else (self._kernel().reads, self._kernel().columns)
        rows, y, _, everyone = validate.training(self, X, y, None, *needs, **checks)
        w = validate.sample_weight(sample_weight, len(everyone))
        if self._precomputed:
            rows = self._square(rows, everyone, len(everyone))
        return rows, y, np.ones(len(everyone)) if w is None else w

    def _different(self, rows, codes, w):
        """Gram or dissimilarities of rows that differ in content or code, their codes and weights, and their numbers in X."""
        if not self._precomputed:
            rows, codes, w, index = validate.canonical(rows, codes, w)
            return self._training_gram(rows, w), codes, w, index
        index = np.flatnonzero(w > 0)
        rows = rows if len(index) == len(w) else rows[np.ix_(index, index)]
        self._check_given(rows)
        pairs = np.stack([equal_rows(rows), codes[index]])
        _, kept, group = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        if len(kept) < len(index):
            w = np.bincount(group.ravel(), weights=w[index])
            rows, index = rows[np.ix_(kept, kept)], index[kept]
        else:
            w = w[index]
        return GivenGram(rows), codes[index], w, index

    def _check_given(self, K):
        self.kernel_: Any = "precomputed"
        GivenGram(K).check_symmetric()


def printing(verbose, every=0.5) -> Callable | None:
    """What `verbose` prints of a search: a line of progress every so many seconds."""
    if not verbose:
        return None
    began = due = time.monotonic()

    def told(iteration, loss):
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + every
            print(f"{now - began:6.1f} s  round {iteration}  loss {loss:.6g}", flush=True)

    return told


def transforms_if(condition):
    """Class decorator: `transform` and what goes with it are there if condition(estimator), as scikit-learn may ask.

    Not decorators of the methods: scikit-learn wraps `transform` when the class is made, so that it can give tables, and what
    wraps hides whether there is anything inside.
    """

    def change(cls):
        for name in ("transform", "fit_transform", "set_output"):
            setattr(cls, name, available_if(condition)(getattr(cls, name)))
        return cls

    return change

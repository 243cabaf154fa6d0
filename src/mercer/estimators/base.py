"""What every estimator shares: kernels as parameters, validated rows, the training Gram, predictions in tiles."""

import logging
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import NotPSDError, NumericalWarning
from mercer.gram import GivenGram, Gram, gram, prepared_gram
from mercer.kernels import Kernel, Pairwise, as_kernel
from mercer.linalg import smallest_eigenvalue

__all__ = ["KernelEstimator"]

logger = logging.getLogger("mercer")

REPAIRS = ("clip", "flip", "shift")


class KernelEstimator(BaseEstimator):
    """Base of Gram-based estimators: subclasses have `kernel`, `engine`, `memory`, `indefinite` and fit on `_training_gram`."""

    def set_params(self, **params):
        """Set parameters; `kernel__*` makes a changed kernel, since kernels are values."""
        inside = {k[len("kernel__") :]: params.pop(k) for k in list(params) if k.startswith("kernel__")}
        super().set_params(**params)
        if inside:
            if not isinstance(self.kernel, Kernel):
                raise ValueError(
                    f"kernel={self.kernel!r} has no parameters {sorted(inside)}; pass a kernel object such as RBF()"
                )
            self.kernel = self.kernel.replace(**inside)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self):
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _kernel(self) -> Kernel:
        """The kernel object that `kernel` and scikit-learn's parameters mean."""
        extra = getattr(self, "kernel_params", None) or {}
        if callable(self.kernel) and not isinstance(self.kernel, Kernel):
            return Pairwise(partial(self.kernel, **extra) if extra else self.kernel)
        settings = {name: getattr(self, name) for name in ("gamma", "degree", "coef0") if hasattr(self, name)}
        return as_kernel(self.kernel, **{**settings, **extra})

    # ------------------------------------------------------------------------------------ rows
    def _validated_training(self, X, y, sample_weight, **checks):
        if self._precomputed:
            X, y, w, kept = validate.training(self, X, y, sample_weight, **checks)
            return self._square(X, kept), y, w
        kernel = self._kernel()
        X, y, w, _ = validate.training(self, X, y, sample_weight, kernel.reads, kernel.columns, **checks)
        return X, y, w

    def _square(self, K, kept):
        if K.shape[1] != self.n_features_in_ or (len(kept) == K.shape[0] and K.shape[0] != K.shape[1]):
            raise ValueError(
                f"Precomputed metric requires shape (n_queries, n_indexed): a square matrix to fit, got {K.shape}"
            )
        K = K.toarray() if hasattr(K, "toarray") else K
        self.kept_ = None if len(kept) == K.shape[1] else kept  # rows of weight 0 have no column at predict
        return K if self.kept_ is None else np.ascontiguousarray(K[:, kept])

    # ------------------------------------------------------------------------------------ Grams
    def _training_gram(self, X, weight) -> "Gram | GivenGram":
        """Lazy Gram of the training rows, tested and repaired as `indefinite` says. Sets `kernel_`."""
        if self._precomputed:
            K = GivenGram(X)
            K.check_symmetric()
            self.kernel_: Any = "precomputed"
            return K
        kernel = self._kernel()
        self.kernel_ = kernel._resolved(X, weight)
        return gram(self.kernel_, X, engine=self.engine, memory=self.memory, validated=True)

    def _definite(self, K) -> np.ndarray | None:
        """Test what is not certified PSD. Returns None if it can be used as it is, or the repaired dense Gram."""
        allowed = ("raise", "warn", *REPAIRS)
        if self.indefinite not in allowed:
            raise ValueError(f"indefinite={self.indefinite!r} must be one of {', '.join(map(repr, allowed))}")
        certificate = None if self._precomputed else self.kernel_.validity
        if certificate is not None and certificate.certified:
            return None
        if certificate is not None and certificate.kind == "not-psd" and self.indefinite not in REPAIRS:
            raise NotPSDError(
                f'{self.kernel_!r} is not positive semi-definite ({certificate.reason}); use another kernel, or indefinite="clip"'
            )
        return self._tested(K, certificate)

    def _tested(self, K, certificate):
        smallest, _ = smallest_eigenvalue(K, np.random.default_rng(0))
        tolerance = 10 * K.shape[0] * np.finfo(K.dtype).eps * max(float(np.abs(K.diag()).max()), np.finfo(K.dtype).tiny)
        if smallest >= -tolerance:
            logger.info("the kernel carries no certificate; its smallest eigenvalue on these rows is %.3g", smallest)
            return None
        reason = "the precomputed Gram matrix" if certificate is None else f"{self.kernel_!r} ({certificate.reason})"
        message = f"{reason} is not positive semi-definite on these rows: smallest eigenvalue about {smallest:.3g}"
        if self.indefinite == "raise":
            raise NotPSDError(f'{message}; use another kernel, or indefinite="clip"')
        if self.indefinite == "warn":
            warnings.warn(
                f'{message}; the fit goes on without repair. indefinite="clip" repairs it',
                NumericalWarning,
                stacklevel=4,
            )
            return None
        return self._repaired(K, message)

    def _repaired(self, K, message):
        from mercer.diagnostics import repair

        self.repair_ = repair(K.dense(), self.indefinite)
        warnings.warn(f"{message}; repaired by {self.indefinite}", NumericalWarning, stacklevel=5)
        return self.repair_.matrix

    def _test_gram(self, X):
        """Gram of new rows with the stored ones."""
        check_is_fitted(self)
        if self._precomputed:
            X = validate.prediction(self, X)
            X = X.toarray() if hasattr(X, "toarray") else X
            return GivenGram(X if self.kept_ is None else X[:, self.kept_])
        X = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
        return prepared_gram(self._gram, X)

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_gram", None)  # made again from X_fit_ and kernel_
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "kernel_" in state and isinstance(state["kernel_"], Kernel) and "X_fit_" in state:
            self._gram = gram(self.kernel_, self.X_fit_, engine=self.engine, memory=self.memory, validated=True)

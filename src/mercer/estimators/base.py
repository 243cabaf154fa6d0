"""What every estimator shares: kernels as parameters, validated rows, the training Gram, predictions in tiles."""

import logging
import warnings
from functools import partial, wraps
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer import validate
from mercer.approx import heading, is_dask, lazy_rows
from mercer.engines import BaseEngine, Engine
from mercer.errors import NotPSDError, NumericalWarning
from mercer.gram import GivenGram, Gram, gram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.kernels import Kernel, Pairwise, as_kernel
from mercer.kernels.sklearn_gp import is_sklearn_kernel
from mercer.linalg import smallest_eigenvalue
from mercer.linalg.inplace import factor_block

__all__ = ["KernelEstimator", "dense_rows", "engine_of", "forget", "lazily"]

logger = logging.getLogger("mercer")

REPAIRS = ("clip", "flip", "shift")
_FACTORED = (
    3000  # rows of a given Gram matrix that are factorised to see that they can be: far quicker than an eigenvalue
)
_LONGEST = 30.0  # seconds that one sweep over a Gram that is not held may take

ENGINE = [str, Engine, BaseEngine, None]  # what the parameter `engine` may be
CONSTRAINTS = {  # of the parameters that all Gram-based estimators share
    "kernel": [str, callable],
    "gamma": [Interval(Real, 0, None, closed="left"), StrOptions({"scale", "auto"}), None],
    "degree": [Interval(Real, 0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "kernel_params": [dict, None],
    "engine": ENGINE,
    "memory": [str, Interval(Real, 0, None, closed="neither"), None],
    "indefinite": [StrOptions({"raise", "warn", *REPAIRS})],
}


def engine_of(estimator):
    """The engine that was asked for, else the GPU that the rows of the fit lay on; None if there is neither."""
    return validate.device_of(estimator) if estimator.engine is None else estimator.engine


def lazily(method):
    """A method from rows to an array; of rows on a Dask cluster it gives a Dask array, computed when it is asked for.

    `_known_rows` of the estimator gives a few rows that it can be tried on.
    """

    @wraps(method)
    def answer(self, X):
        if not is_dask(X):
            return method(self, X)
        check_is_fitted(self)
        validate_data(self, heading(X), skip_check_array=True, reset=False)
        return lazy_rows(getattr(self, method.__name__), X, self._known_rows)

    return answer


class KernelEstimator(BaseEstimator):
    """Base of Gram-based estimators: subclasses have `kernel`, `engine`, `memory`, `indefinite` and fit on `_training_gram`."""

    _kernel_names: tuple[str, ...] = ("kernel",)  # parameters that are kernels

    def set_params(self, **params):
        """Set parameters; `kernel__*` makes a changed kernel, since kernels are values."""
        starts = [(name, f"{name}__") for name in self._kernel_names]
        inside = {name: {k[len(s) :]: params.pop(k) for k in list(params) if k.startswith(s)} for name, s in starts}
        super().set_params(**params)
        for name, changes in inside.items():
            kernel = getattr(self, name)
            if changes and not isinstance(kernel, Kernel):
                raise ValueError(
                    f"{name}={kernel!r} has no parameters {sorted(changes)}; pass a kernel object such as RBF()"
                )
            if changes:
                setattr(self, name, kernel.replace(**changes))
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._precomputed
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "solver_used_")  # set last: an interrupted fit leaves an unfitted estimator

    @property
    def _precomputed(self):
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _kernel(self) -> Kernel:
        """The kernel object that `kernel` and scikit-learn's parameters mean."""
        extra = getattr(self, "kernel_params", None) or {}
        if callable(self.kernel) and not isinstance(self.kernel, Kernel) and not is_sklearn_kernel(self.kernel):
            return Pairwise(partial(self.kernel, **extra) if extra else self.kernel)
        settings = {name: getattr(self, name) for name in ("gamma", "degree", "coef0") if hasattr(self, name)}
        return as_kernel(self.kernel, **{**settings, **extra})

    # ------------------------------------------------------------------------------------ rows
    @property
    def _known_rows(self):
        return self.X_fit_

    def _validated_training(self, X, y, sample_weight, **checks):
        """Rows, targets and weights of a fit."""
        kernel = None if self._precomputed else self._kernel()
        needs = () if kernel is None else (kernel.reads, kernel.columns)
        rows, y, w, kept = validate.training(self, X, y, sample_weight, *needs, **checks)
        if kernel is None:
            rows = self._square(rows, kept, n=validate.n_given(kept, sample_weight))
        return (rows if kernel is None else validate.owned(rows, X)), y, w

    def _canonical(self, X, y, sample_weight, read, **checks):
        """Rows in an order fixed by content, equal ones merged, targets as `read` makes them, weights, the rows' numbers in X."""
        kernel = None if self._precomputed else self._kernel()
        needs = () if kernel is None else (kernel.reads, kernel.columns)
        rows, y, w, kept = validate.training(self, X, y, sample_weight, *needs, **checks)
        T = read(y)
        if kernel is None:
            rows = self._square(rows, kept, n=validate.n_given(kept, sample_weight))
            rows, T, w = self._merged(rows, T, w)
            return rows, T, np.ones(len(T)) if w is None else w, np.arange(len(T)) if self.kept_ is None else self.kept_
        rows, T, w, first = validate.canonical(rows, T, w)
        return rows, T, w, kept[first]

    def _square(self, K, kept, n):
        if n != K.shape[1]:
            raise ValueError(
                f"Precomputed metric requires shape (n_queries, n_indexed): a square matrix to fit, got {(n, K.shape[1])}"
            )
        K = K.toarray() if hasattr(K, "toarray") else K
        self.kept_ = None if len(kept) == n else kept  # rows of weight 0 have no column at predict
        return K if self.kept_ is None else np.ascontiguousarray(K[:, kept])

    def _merged(self, rows, y, w):
        """Equal (x, y) rows as one, their weights added."""
        n = validate.n_rows(rows)
        rows, y, w, index = validate.merged(rows, y, w)
        if self._precomputed and len(index) < n:
            self.kept_ = index if self.kept_ is None else self.kept_[index]
            rows = np.ascontiguousarray(rows[:, index])
        return rows, y, w

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
        return gram(self.kernel_, X, engine=engine_of(self), memory=self.memory, validated=True)

    def _held(self, K):
        """The Gram in memory if it fits. If not, as it is: products then compute it again, which must not take too long."""
        needed, room = K.shape[0] ** 2 * K.dtype.itemsize, budget(self.memory)
        if isinstance(K, GivenGram):
            return K
        if needed <= room:
            return GivenGram(K.dense(), mirrored=K.symmetric)
        seconds = K.plan.seconds
        if seconds > _LONGEST:
            what = f"the Gram matrix of {K.shape[0]} rows, which {type(self).__name__} reads again and again,"
            remedies = [
                "n_landmarks=1000, or as many as you like",
                "fewer rows or float32",
                'a larger budget, memory="64GB"',
            ]
            require(needed, room, what, remedies, seconds)
        logger.info("a Gram of %.3g bytes, %.3g allowed: computed again in each iteration", needed, room)
        return K

    def _definite(self, K):
        """Test what is not certified PSD. Returns None if it can be used as it is, or the record of its repair."""
        certificate = None if self._precomputed else self.kernel_.validity
        if certificate is not None and certificate.certified:
            return None
        if certificate is not None and certificate.kind == "not-psd" and self.indefinite not in REPAIRS:
            raise NotPSDError(
                f'{self.kernel_!r} is not positive semi-definite ({certificate.reason}); use another kernel, or indefinite="clip"'
            )
        return self._tested(K, certificate)

    def _tested(self, K, certificate):
        tolerance = 10 * K.shape[0] * np.finfo(K.dtype).eps * max(float(np.abs(K.diag()).max()), np.finfo(K.dtype).tiny)
        if (
            isinstance(K, GivenGram)
            and K.shape[0] <= _FACTORED
            and not factor_block(K.K + tolerance * np.eye(len(K.K), dtype=K.dtype))
        ):
            logger.info("the Gram matrix has a Cholesky factor, up to rounding: it is positive semi-definite")
            return None
        smallest, _ = smallest_eigenvalue(K, np.random.default_rng(0))
        self.smallest_eigenvalue_ = smallest
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
        return self._repaired(K, message, self.indefinite)

    def _repaired(self, K, message, method):
        from mercer.diagnostics import repair

        fixed = repair(K.dense(), method)
        self.repair_ = str(fixed)  # the record holds n x n numbers, which are made again when they are needed
        warnings.warn(f"{message}; repaired by {method}", NumericalWarning, stacklevel=5)
        return fixed

    def _test_gram(self, X):
        """Gram of new rows with the stored ones."""
        check_is_fitted(self)
        if isinstance(self.kernel_, str):
            X = validate.prediction(self, X)
            X = X.toarray() if hasattr(X, "toarray") else X
            return GivenGram(X if self.kept_ is None else X[:, self.kept_])
        X = validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
        return prepared_gram(self._gram, X)

    def _recentred(self, centres, *gone):
        """A copy of the fitted model on other centres, without the attributes `gone`, which only its own rows have.

        Estimators that can be compressed make `_with_expansion(centres, coefficients)` of it, which keeps the intercept.
        """
        new = object.__new__(type(self))
        vars(new).update({name: value for name, value in vars(self).items() if name not in gone})
        new.X_fit_, new.solver_used_ = centres, "compressed"
        new._gram = gram(self.kernel_, centres, engine=engine_of(self), memory=self.memory, validated=True)
        return new

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_gram", None)  # made again from X_fit_ and kernel_
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if isinstance(state.get("kernel_"), str) and "X_fit_" in state:
            self._gram = GivenGram(self.X_fit_)
        elif "kernel_" in state and "X_fit_" in state and validate.n_rows(self.X_fit_):
            self._gram = gram(self.kernel_, self.X_fit_, engine=engine_of(self), memory=self.memory, validated=True)


def _has_factor(K, shift):
    """Whether a symmetric matrix with a shifted diagonal has a Cholesky factor."""
    A = np.array(K, order="C")
    A[np.diag_indices(len(A))] += A.dtype.type(shift)
    return factor_block(A) == 0


def dense_rows(rows, memory) -> np.ndarray:
    """Rows as a float64 array of their own; sparse ones are made dense where that fits."""
    if hasattr(rows, "toarray"):
        n, d = rows.shape
        require(8 * n * d, budget(memory), f"a dense array of the {n} sparse rows",
                ["fewer columns", 'a larger budget, memory="64GB"'])  # fmt: skip
        rows = rows.toarray()
    return np.ascontiguousarray(rows, np.float64)


def forget(estimator):
    """A refit starts from nothing: what an earlier fit left must not survive it."""
    kept_aside = ("_gram", "_fit", "_columns", "_calibrated")
    for name in [n for n in vars(estimator) if (n.endswith("_") and not n.startswith("__")) or n in kept_aside]:
        del vars(estimator)[name]

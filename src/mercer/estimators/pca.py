"""Kernel principal component analysis with pre-images (M11, M12)."""

import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import streams, validate
from mercer.errors import ConvergenceWarning, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, forget
from mercer.estimators.expansion import Expansion
from mercer.estimators.landmarks import LANDMARK_CONSTRAINTS, landmark_features
from mercer.estimators.preimages import METHODS, find_preimages, learned_map
from mercer.gram import GivenGram, gram
from mercer.linalg import Status
from mercer.random import generator
from mercer.registry import register_estimator, register_record
from mercer.solvers import Components, Preimages, Targets, components_of_gram, components_of_moments

__all__ = ["KernelPCA"]

_TOL = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}  # residuals; errors of eigenvalues are their squares


def _on_landmarks(self):
    if self.n_landmarks is None:
        raise AttributeError(
            "partial_fit needs n_landmarks, for example n_landmarks=500: batches are remembered by them"
        )
    if getattr(self, "solver_used_", None) == "compressed":
        raise AttributeError("a compressed copy cannot learn from more rows; go on with the model that it is of")
    return True


@register_record
@dataclass(frozen=True, eq=False)
class _Moments:
    """What batches of rows leave behind: how many they were, the sums of phi, phi phi^T and k(x, x)."""

    n: int
    first: np.ndarray
    second: np.ndarray
    trace: float


@register_estimator
class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    r"""Principal components in feature space, of any kind of rows.

    .. math:: H K H = V \Lambda V^T, \qquad t_j(x) = \lambda_j^{-1/2} \sum_i V_{ij}\, \bar k(x, x_i),\quad H = I - \tfrac1n 1 1^T

    Parameters are scikit-learn's; `kernel` also takes kernel objects. Only the components that are asked for are computed, and
    nothing is held beside the Gram matrix; with `n_landmarks` not even that.

    Parameters
    ----------
    n_components : how many; None: all of positive variance, at most n - 1.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    alpha : ridge of the learned inverse map.
    fit_inverse_transform : learn a map from components back to rows, which `inverse_transform` then uses.
    eigen_solver : "dense" decomposes the whole matrix; "arpack" and "randomized" both mean block Lanczos; "auto" chooses.
    tol, max_iter : residual of the eigenvectors relative to the largest eigenvalue (0: 1e-6, float32 1e-4), cap of iterations.
    iterated_power, copy_X, n_jobs : not used, here for scikit-learn's sake. remove_zero_eig : they always are.
    random_state : of the start of the iteration and of landmarks.
    whiten : give all components the variance 1.
    preimage : how `inverse_transform` and `denoise` find rows: "fixed_point", "distances", "gradient", "ridge" (the learned map),
        "candidates" (the best training row), or "auto".
    engine, memory, indefinite : how and within how many bytes Grams are computed, and what to do when they are not PSD.
    n_landmarks, landmarks : components of so many landmarks' features instead of all rows, and how they are chosen.

    Attributes
    ----------
    eigenvalues_, eigenvectors_ : of the centred Gram matrix, largest first.
    explained_variance_, explained_variance_ratio_ : eigenvalues / n, and their share of the trace of the centred Gram.
    smallest_eigenvalue_ : of the centred Gram matrix, about; only where the kernel carries no certificate.
    X_fit_, kernel_, expansion_ : rows or landmarks, the kernel, and the projections as an expansion.
    converged_, residual_, n_iter_, solver_used_ : what was done and how exact it is.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelPCA
    >>> from mercer.kernels import RBF
    >>> angle = np.linspace(0, 6, 100)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> model = KernelPCA(3, kernel=RBF(0.5)).fit(ring)
    >>> model.transform(ring[:2]).shape
    (2, 3)
    >>> bool(abs(model.denoise(ring[:2] * 1.1) - ring[:2]).max() < 0.1)
    True

    Schölkopf, Smola & Müller (1998).
    """

    _parameter_constraints = {
        **CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_inverse_transform": ["boolean"],
        "eigen_solver": [StrOptions({"auto", "dense", "arpack", "randomized"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "iterated_power": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "remove_zero_eig": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
        "copy_X": ["boolean"],
        "n_jobs": [None, Integral],
        "whiten": ["boolean"],
        "preimage": [StrOptions({"auto", *METHODS})],
        "n_landmarks": LANDMARK_CONSTRAINTS["n_landmarks"],
        "landmarks": LANDMARK_CONSTRAINTS["landmarks"],
    }

    def __init__(self, n_components=None, *, kernel="linear", gamma=None, degree=3, coef0=1, kernel_params=None, alpha=1.0,
                 fit_inverse_transform=False, eigen_solver="auto", tol=0, max_iter=None, iterated_power="auto",
                 remove_zero_eig=False, random_state=None, copy_X=True, n_jobs=None, whiten=False, preimage="auto",
                 engine=None, memory=None, indefinite="warn", n_landmarks=None, landmarks="rpcholesky"):  # fmt: skip
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.alpha = alpha
        self.fit_inverse_transform = fit_inverse_transform
        self.eigen_solver = eigen_solver
        self.tol = tol
        self.max_iter = max_iter
        self.iterated_power = iterated_power
        self.remove_zero_eig = remove_zero_eig
        self.random_state = random_state
        self.copy_X = copy_X
        self.n_jobs = n_jobs
        self.whiten = whiten
        self.preimage = preimage
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks

    # ------------------------------------------------------------------------------------ fit
    def fit(self, X, y=None) -> "KernelPCA":
        """Find the components of rows X: an array, a table, objects, or with landmarks a stream. y is ignored."""
        self._begin()
        if isinstance(X, streams.Stream) or self.n_landmarks is not None:
            return self._fit_landmarks(X, fresh=True)
        rows, _, _ = self._validated_training(X, None, None)
        n = validate.n_rows(rows)
        if n < 2:
            raise ValueError(f"n_samples={n}: components need two rows at least")
        K = self._training_gram(rows, None)
        centred = self._held(K).centred()
        fixed = self._definite(centred)
        found = self._components(centred if fixed is None else GivenGram(fixed.matrix).centred(), n)
        if fixed is not None:
            self.repaired_coefficients_ = found.coefficients
            found = _seen_by_new_rows(found, fixed, centred)
        return self._finish(K, found, rows, n)

    def _begin(self):
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        if self.fit_inverse_transform and self._precomputed:
            raise ValueError("Cannot fit_inverse_transform with a precomputed kernel.")

    def _components(self, centred, n):
        k = n - 1 if self.n_components is None else min(self.n_components, n - 1)
        dense = self.eigen_solver == "dense" or self.n_components is None
        tol = self.tol or _TOL[centred.dtype]
        found = components_of_gram(
            centred, k, rng=generator(self.random_state), tol=tol, max_iter=self.max_iter, dense=dense
        )
        if found.status is not Status.CONVERGED:
            warnings.warn(f"eigenvectors have residuals up to {found.certificate:.2g} ({found.status.value}): "
                          f"{found.status.advice}", ConvergenceWarning, stacklevel=4)  # fmt: skip
        return found

    def _finish(self, K, found: Components, rows, n, **state):
        """Fitted attributes; the last one makes the estimator fitted."""
        asked = self.n_components
        if not len(found.values):
            raise ValueError("all rows are the same to the kernel: there is no variance and no component; rescale the columns, "
                             "or choose a kernel that tells the rows apart")  # fmt: skip
        if asked is not None and len(found.values) < asked:
            warnings.warn(f"n_components={asked}, but the centred Gram matrix of {n} rows has rank {len(found.values)}: so many "
                          "components are kept", NumericalWarning, stacklevel=4)  # fmt: skip
        on_landmarks = hasattr(self, "map_")
        state = dict(state, X_fit_=rows, _gram=K, n_samples_seen_=n, eigenvalues_=found.values,
                     explained_variance_=found.values / n, explained_variance_ratio_=found.values / found.total,
                     coefficients_=found.coefficients, intercept_=found.intercept, mean_norm_=found.mean_norm,
                     converged_=found.status is Status.CONVERGED, residual_=found.certificate, n_iter_=found.iterations,
                     scale_=np.sqrt(n / found.values) if self.whiten else np.ones(len(found.values)))  # fmt: skip
        if self.fit_inverse_transform:
            inside = getattr(self, "repaired_coefficients_", found.coefficients)
            T = K @ found.coefficients + found.intercept if on_landmarks else inside * found.values
            state["inverse_"] = learned_map(self, T, rows)
        # All at once: a second partial_fit that is interrupted leaves the model of the first.
        self.__dict__.update(state, solver_used_="landmarks" if on_landmarks else "gram")
        return self

    def _definite(self, K):
        """A kernel that is conditionally positive definite is as good as any here: the rows are centred."""
        if not self._precomputed and self.kernel_.validity.kind == "cpd":
            return None
        return super()._definite(K)

    # ------------------------------------------------------------------------------------ on landmarks
    @available_if(_on_landmarks)
    def partial_fit(self, X, y=None) -> "KernelPCA":
        """Go on with more rows. The first call chooses `n_landmarks` landmarks, which stay."""
        self._validate_params()
        if self.n_landmarks is None:
            raise ValueError(
                "partial_fit needs n_landmarks, for example n_landmarks=500: batches are remembered by them"
            )
        return self._fit_landmarks(X, fresh=not self.__sklearn_is_fitted__())

    def _fit_landmarks(self, X, fresh):
        if self.n_landmarks is None:
            raise ValueError("rows that come as a stream need n_landmarks, for example n_landmarks=1000")
        if self._precomputed:
            raise ValueError('kernel="precomputed" has no rows to choose landmarks from; pass rows and a kernel')
        stream = self._stream(X, fresh)
        if fresh:
            forget_but_names(self)
            rng = generator(self.random_state)
            centres, self.map_ = landmark_features(self, self._kernel(), stream, self._count(stream), rng)
            K, self.moments_ = centres.gram, None
        else:
            K = self._gram
        moments = self.moments_
        for block in stream.blocks(streams.LOOK):
            moments = _added(moments, self.map_, block.X)
        if moments.n < 2:
            raise ValueError(f"n_samples={moments.n}: components need two rows at least")
        k = min(self.n_components or len(moments.first), len(moments.first), moments.n - 1)
        back = self.map_.normalization.T
        found = components_of_moments(moments.second, moments.first, moments.n, k, moments.trace, lambda U: back @ U)
        return self._finish(K, found, self.map_.landmarks, moments.n, moments_=moments)

    def _stream(self, X, fresh):
        if isinstance(X, streams.Stream):
            self.n_features_in_ = next(iter(X.blocks(streams.LOOK))).X.shape[1]
            return X
        kernel = self._kernel()
        if fresh:
            rows = validate.training(self, X, None, None, kernel.reads, kernel.columns)[0]
        else:
            rows = validate.prediction(self, X, kernel.reads, kernel.columns)
        n = validate.n_rows(rows)
        return streams.Held(rows, np.zeros((n, 1)), np.ones(n))

    def _count(self, stream):
        known = isinstance(stream, streams.Held) and self.n_landmarks >= 1
        return min(int(self.n_landmarks), len(stream.y)) if known else self.n_landmarks

    # ------------------------------------------------------------------------------------ components of rows
    def transform(self, X) -> np.ndarray:
        """Components (m, k) of rows, in tiles."""
        T = self._projected(X)
        return (self.scale_ * T).astype(T.dtype, copy=False)

    def fit_transform(self, X, y=None) -> np.ndarray:
        """Fit, and the components of the rows fitted on."""
        self.fit(X)
        if self.solver_used_ == "landmarks":
            return self.transform(X)
        return (self.scale_ * self._inside * self.eigenvalues_).astype(self.coefficients_.dtype)

    @property
    def _inside(self):
        """Coefficients of the directions on the rows of the fit as the fit saw them, which a repair may have changed."""
        return getattr(self, "repaired_coefficients_", self.coefficients_)

    def _projected(self, X):
        K = self._test_gram(X)
        return (K @ self.coefficients_ + self.intercept_).astype(K.dtype)

    def reconstruction_error(self, X) -> np.ndarray:
        """Squared distance (m,) in feature space of each row from the plane of the components."""
        K = self._test_gram(X)
        if isinstance(K, GivenGram):
            raise ValueError('kernel="precomputed": k(x, x) of new rows is not known; pass rows and a kernel')
        both = K @ np.column_stack([self.coefficients_, self._mean.astype(self.coefficients_.dtype)])
        T = both[:, :-1].astype(np.float64) + self.intercept_
        own = gram(self.kernel_, K.x.rows, validated=True).diag().astype(np.float64)
        return np.maximum(own - 2.0 * both[:, -1] + self.mean_norm_ - np.square(T).sum(axis=1), 0.0)

    @property
    def _mean(self):
        """Coefficients of the mean on the rows of `X_fit_`."""
        if self.solver_used_ == "compressed":
            raise ValueError("a compressed copy has the components, but not the mean; ask the model that it is of")
        if hasattr(self, "map_"):
            return self.map_.normalization.T @ (self.moments_.first / self.moments_.n)
        return np.full(len(self.coefficients_), 1.0 / len(self.coefficients_))

    @property
    def eigenvectors_(self) -> np.ndarray:
        """Unit eigenvectors (n, k) of the centred Gram matrix; on landmarks there are none."""
        check_is_fitted(self)
        if self.solver_used_ != "gram":
            raise AttributeError("eigenvectors of all rows are not kept by a fit on landmarks or a compressed copy")
        return self._inside * np.sqrt(self.eigenvalues_)

    @property
    def expansion_(self) -> Expansion:
        """The projections as an expansion: kernel, centres, coefficients, intercepts."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self.coefficients_ * self.scale_, self.intercept_ * self.scale_)

    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres, "repaired_coefficients_", "map_", "moments_", "inverse_")
        new.coefficients_ = (coefficients / self.scale_).astype(coefficients.dtype)
        return new

    # ------------------------------------------------------------------------------------ back to rows
    def inverse_transform(self, X, method=None, start=None, candidates=None):
        """Rows whose features come nearest to points of the components' plane, given by their components X (m, k)."""
        return self.preimages(X, method, start, candidates).rows

    def preimages(self, X, method=None, start=None, candidates=None) -> Preimages:
        """Rows for components X (m, k), and how well they hit them: `rows`, `residual`, `score`, `converged`.

        method: as the parameter `preimage`, which it overrides. start: rows where searches begin; candidates: rows to choose
        among with "candidates", and where searches begin otherwise; by default those of the fit.
        """
        check_is_fitted(self)
        T = self._codes(X)
        return find_preimages(self, self._targets(T), T, method or self._method(), start, candidates)

    def denoise(self, X, method=None):
        """Rows without what the components do not hold: the pre-images of their projections, searched from the rows."""
        check_is_fitted(self)
        T = self._projected(X)
        found = find_preimages(self, self._targets(T), T, method or self._method(), X, None)
        return found.rows

    def _method(self):
        if self.preimage != "auto":
            return self.preimage
        return "ridge" if hasattr(self, "inverse_") else "auto"

    def _codes(self, X):
        T = np.atleast_2d(np.asarray(validate.numeric(X, "X"), np.float64))
        if T.shape[1] != len(self.eigenvalues_):
            raise ValueError(f"X has {T.shape[1]} columns, but there are {len(self.eigenvalues_)} components")
        return T / self.scale_

    def _targets(self, T) -> Targets:
        if isinstance(self.kernel_, str):
            raise NotFittedError('kernel="precomputed" has no rows to go back to; fit with rows and a kernel')
        T = np.asarray(T, np.float64)
        norms = self.mean_norm_ + np.square(T).sum(axis=1) - 2.0 * T @ self.intercept_
        return Targets(self._gram, T @ self.coefficients_.T.astype(np.float64) + self._mean, norms)

    # ------------------------------------------------------------------------------------ scikit-learn
    @property
    def _n_features_out(self):
        return len(self.eigenvalues_)

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _seen_by_new_rows(found: Components, fixed, centred) -> Components:
    """Components of a repaired Gram, with coefficients that go with kernel values as they are."""
    A = fixed.transform(found.coefficients.T).T
    A = A - A.mean(axis=0)
    return replace(found, coefficients=A, intercept=-(centred.column_means @ A), mean_norm=centred.mean)


def forget_but_names(estimator):
    """A fresh fit, after the rows have been looked at."""
    names = {n: v for n, v in vars(estimator).items() if n in ("n_features_in_", "feature_names_in_")}
    forget(estimator)
    vars(estimator).update(names)


def _added(moments: _Moments | None, phi, X) -> _Moments:
    F = phi.features(X).astype(np.float64, copy=False)
    trace = float(gram(phi.kernel, X, validated=True).diag().sum(dtype=np.float64))
    new = _Moments(len(F), F.sum(axis=0), F.T @ F, trace)
    if moments is None:
        return new
    return _Moments(
        moments.n + new.n, moments.first + new.first, moments.second + new.second, moments.trace + new.trace
    )

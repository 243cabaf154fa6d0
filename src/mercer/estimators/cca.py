"""Kernel canonical correlation analysis (M24)."""

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import streams, validate
from mercer.approx import LANDMARKS
from mercer.errors import NumericalWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, engine_of, forget
from mercer.estimators.expansion import Expansion
from mercer.estimators.landmarks import LANDMARK_CONSTRAINTS, landmark_features
from mercer.estimators.views import view_rows
from mercer.gram import GivenGram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.kernels import Kernel, as_kernel
from mercer.random import generator
from mercer.registry import register_estimator, register_record
from mercer.solvers.canonical import CanonicalPairs, canonical_pairs, view_of_features, view_of_gram

__all__ = ["KernelCCA"]

_PRODUCTS = 2**31  # of features that are added up in one call


class _Viewing(KernelEstimator):
    """What both views share: a centred Gram matrix or centred features of landmarks, and projections as an expansion."""

    def _definite(self, K):
        """A kernel that is conditionally positive definite is as good as any here: the rows are centred."""
        fact = None if self._precomputed else self.kernel_.validity
        return None if fact is not None and fact.kind == "cpd" and fact.order < 2 else super()._definite(K)

    def _begin_gram(self, rows):
        """The Gram of the rows, its repair if it has one, its means, and the principal axes of its centred form."""
        K = self._training_gram(rows, None)
        fixed = self._definite(K)
        C = (K.dense() if fixed is None else fixed.matrix).astype(np.float64, copy=False)
        means = C.mean(axis=0)
        C -= means
        C -= (means - means.mean())[:, None]
        varies = np.diagonal(C).max() > 8 * np.finfo(K.dtype).eps * np.abs(means).max()
        return K, fixed, means, view_of_gram(C, K.dtype) if varies else None

    def _keep(self, K, rows, coefficients, intercept):
        self.X_fit_, self._gram = rows, K
        self.coefficients_, self.intercept_ = coefficients.astype(K.dtype), intercept

    def _projection(self, K):
        return (K @ self.coefficients_ + self.intercept_).astype(K.dtype)


@register_record
class _SecondView(_Viewing):
    """The other side of a pair of views. It is no estimator of its own: rows come through its owner."""

    def __init__(self, kernel, engine, memory, indefinite, landmarks):
        self.kernel, self.engine, self.memory = kernel, engine, memory
        self.indefinite, self.landmarks = indefinite, landmarks

    def _kernel(self) -> Kernel:
        try:
            return as_kernel(self.kernel)
        except (TypeError, ValueError) as error:
            raise type(error)(f"kernel_y: {error}") from None

    def read(self, y):
        """Validated rows."""
        if not self._precomputed:
            return view_rows(y, self._kernel(), "y")
        rows = validate.vectors(y, "y")
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        if rows.shape[0] != rows.shape[1]:
            raise ValueError(f'kernel_y="precomputed" needs a square matrix y to fit, got {rows.shape}')
        return rows

    def project(self, y):
        """Projections of new rows."""
        if isinstance(self.kernel_, str):
            rows = validate.vectors(y, "y")
            rows = rows.toarray() if hasattr(rows, "toarray") else rows
        else:
            rows = view_rows(y, self.kernel_, "y")
        known, width = (getattr(r, "shape", ())[1:] for r in (self.X_fit_, rows))
        if known != width:
            raise ValueError(f"y has {width[0] if width else 1} columns, but {known[0] if known else 1} in fit")
        return self._projection(GivenGram(rows) if isinstance(self.kernel_, str) else prepared_gram(self._gram, rows))


@register_estimator
class KernelCCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Viewing):
    r"""What two views of the same things have in common: pairs of functions, one of each view, that are most correlated.

    .. math:: \max_{f, g} \frac{\operatorname{cov}(f(x), g(y))}
              {\sqrt{(n \operatorname{var} f(x) + \alpha \lVert f\rVert^2)(n \operatorname{var} g(y) + \alpha \lVert g\rVert^2)}}

    As in scikit-learn's `CCA` the second view is the target of `fit`. It may be of another kind than the first.

    Parameters
    ----------
    n_components : pairs of functions.
    kernel, kernel_y : of the rows of X and of y: mercer kernels, scikit-learn's words, or "precomputed".
    alpha : ridge, what is added to the diagonals of the centred Gram matrices. Without one, a kernel with as many features as
        there are rows finds correlations of 1 in anything; linear kernels without one give classical canonical correlations.
    engine, memory, indefinite : how and within how many bytes Grams are computed, and what to do when they are not PSD.
    n_landmarks, landmarks : use so many landmarks' features of each view instead of all rows, and how they are chosen.
    random_state : of landmarks.

    Attributes
    ----------
    correlations_ : of the pairs on the rows of the fit; `correlations(X, y)` tells what is left of them on other rows.
    values_ : what was maximised, in decreasing order; equal to the correlations without a ridge.
    X_fit_, kernel_, kernel_y_ : rows or landmarks of X, and the kernels with their words resolved.
    expansion_, expansion_y_ : the functions of X and of y as expansions. solver_used_ : "gram" or "landmarks".

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelCCA
    >>> from mercer.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(0, 6.28, 200)
    >>> X, Y = np.column_stack([np.cos(angle), np.sin(angle)]), np.cos(2 * angle)[:, None]  # not correlated
    >>> model = KernelCCA(1, kernel=RBF(0.7), kernel_y=RBF(0.7)).fit(X[:100], Y[:100])
    >>> bool(model.score(X[100:], Y[100:]) > 0.95)
    True

    Bach & Jordan (2002); Hardoon, Szedmak & Shawe-Taylor (2004).
    """

    _kernel_names = ("kernel", "kernel_y")
    _parameter_constraints = {
        **{name: CONSTRAINTS[name] for name in ("kernel", "engine", "memory", "indefinite")},
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "kernel_y": CONSTRAINTS["kernel"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "n_landmarks": LANDMARK_CONSTRAINTS["n_landmarks"],
        "landmarks": [StrOptions(set(LANDMARKS))],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(self, n_components=2, *, kernel="rbf", kernel_y="rbf", alpha=1.0, engine=None, memory=None, indefinite="warn",
                 n_landmarks=None, landmarks="rpcholesky", random_state=None):  # fmt: skip
        self.n_components = n_components
        self.kernel = kernel
        self.kernel_y = kernel_y
        self.alpha = alpha
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.random_state = random_state

    # ------------------------------------------------------------------------------------ fit
    def fit(self, X, y) -> "KernelCCA":
        """Find the pairs for rows X and the rows y that belong to them."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        if y is None:
            raise ValueError("This KernelCCA estimator requires y to be passed, but the target y is None.")
        rows, _, _ = self._validated_training(X, None, None)
        second = _SecondView(self.kernel_y, engine_of(self), self.memory, self.indefinite, self.landmarks)
        others = validate.owned(validate._settled(second.read(y)), y)
        sizes = [validate.n_rows(part) for part in (rows, others)]
        check_consistent_length(*(np.empty(size) for size in sizes))
        if sizes[0] < 2:
            raise ValueError(f"n_samples={sizes[0]}: correlations need two rows at least")
        found = (self._fit_grams if self.n_landmarks is None else self._fit_landmarks)(second, rows, others)
        self._warn_of(found)
        self.second_, self.correlations_, self.values_ = second, found.correlations, found.values
        self.solver_used_ = "gram" if self.n_landmarks is None else "landmarks"
        return self

    def _fit_grams(self, second, rows, others) -> CanonicalPairs:
        n = validate.n_rows(rows)
        remedies = ["n_landmarks=1000, or as many as you like", "fewer rows", 'a larger budget, memory="64GB"']
        require(40 * n**2, budget(self.memory), f"the Gram matrices of {n} rows and their eigenvectors", remedies)
        sides = [(self, rows, *self._begin_gram(rows)), (second, others, *second._begin_gram(others))]
        x, y = (_required(side[-1], name) for side, name in zip(sides, "Xy", strict=True))
        self._warn_of_ranks(x, y, n)
        found = canonical_pairs(x, y, self.alpha, self.n_components, n)
        for (owner, kept, K, fixed, means, _), A in zip(sides, (found.x, found.y), strict=True):
            A = A - A.mean(axis=0)  # directions of the centred rows, whatever rounding says
            owner._keep(K, kept, A if fixed is None else fixed.transform(A.T).T, -(means @ A))
        return found

    def _fit_landmarks(self, second, rows, others) -> CanonicalPairs:
        if self._precomputed or second._precomputed:
            raise ValueError('kernel="precomputed" has no rows to choose landmarks from; pass rows and a kernel')
        n, rng, maps, grams = validate.n_rows(rows), generator(self.random_state), [], []
        for owner, part in ((self, rows), (second, others)):
            count = min(int(self.n_landmarks), n) if self.n_landmarks >= 1 else self.n_landmarks
            stream = streams.Held(part, np.zeros((n, 1)), np.ones(n))
            centres, phi = landmark_features(owner, owner._kernel(), stream, count, rng)
            maps.append(phi)
            grams.append(centres.gram)
        means, xx, yy, xy = _moments(maps, (rows, others))
        x, y = (_required(view_of_features(S, K.dtype) if _varies(S, mean, n, K.dtype) else None, name)
                for S, mean, K, name in zip((xx, yy), means, grams, "Xy", strict=True))  # fmt: skip
        self._warn_of_ranks(x, y, n)
        found = canonical_pairs(x, y, self.alpha, self.n_components, n, xy)
        for owner, phi, K, mean, W in zip((self, second), maps, grams, means, (found.x, found.y), strict=True):
            owner._keep(K, phi.landmarks, phi.normalization.T @ W, -(mean @ W))
        return found

    def _warn_of(self, found):
        if len(found.values) < self.n_components:
            warnings.warn(f"n_components={self.n_components}, but one of the centred Gram matrices has rank {len(found.values)}: "
                          "so many pairs are kept", NumericalWarning, stacklevel=3)  # fmt: skip

    def _warn_of_ranks(self, x, y, n):
        if self.alpha == 0 and len(x.values) + len(y.values) > n - 1:
            ranks = f"{len(x.values)} and {len(y.values)}"
            warnings.warn(f"alpha=0, and the centred Gram matrices of {n} rows have ranks {ranks}: so many functions find "
                          "correlations of 1 in anything; set alpha", NumericalWarning, stacklevel=4)  # fmt: skip

    # ------------------------------------------------------------------------------------ answers
    def transform(self, X, y=None):
        """Projections (m, k) of rows X; with rows y of the second view a pair of them."""
        T = self._projection(self._test_gram(X))
        return T if y is None else (T, self.second_.project(y))

    def correlations(self, X, y) -> np.ndarray:
        """Correlations (k,) of the pairs on rows X and y, in general new ones; 0 where a function is constant on them."""
        both = [np.asarray(T, np.float64) - np.mean(T, axis=0, dtype=np.float64) for T in self.transform(X, y)]
        check_consistent_length(*both)
        if len(both[0]) < 2:
            raise ValueError(f"n_samples={len(both[0])}: correlations need two rows at least")
        sizes = np.linalg.norm(both[0], axis=0) * np.linalg.norm(both[1], axis=0)
        return np.divide((both[0] * both[1]).sum(axis=0), sizes, out=np.zeros(len(sizes)), where=sizes > 0)

    def score(self, X, y) -> float:
        """Mean of `correlations` over the pairs."""
        return float(self.correlations(X, y).mean())

    @property
    def kernel_y_(self):
        """The kernel of the second view, with its words resolved."""
        check_is_fitted(self)
        return self.second_.kernel_

    @property
    def expansion_(self) -> Expansion:
        """The functions of X as an expansion: kernel, centres, coefficients, intercepts."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self.coefficients_, self.intercept_)

    @property
    def expansion_y_(self) -> Expansion:
        """The functions of y as an expansion."""
        check_is_fitted(self)
        return Expansion(self.second_.kernel_, self.second_.X_fit_, self.second_.coefficients_, self.second_.intercept_)

    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres)
        new.coefficients_ = coefficients
        return new

    @property
    def _n_features_out(self):
        return len(self.values_)

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _required(view, name):
    if view is None or not len(view.values):
        raise ValueError(f"all rows of {name} are the same to the kernel: there is no variance and nothing to correlate; rescale "
                         "the columns, or choose a kernel that tells the rows apart")  # fmt: skip
    return view


def _varies(S, mean, n, dtype):
    """Whether features differ by more than rounding."""
    return np.trace(S) > 8 * n * np.finfo(dtype).eps * (mean @ mean)


def _moments(maps, parts):
    """Means of the features of both views, and the sums of products of the centred ones: of X, of y, of both."""
    n = validate.n_rows(parts[0])
    sizes = [phi.dim for phi in maps]
    first, second = np.zeros(sum(sizes)), np.zeros((sum(sizes), sum(sizes)))
    step = min(max(_PRODUCTS // sum(sizes) ** 2, 64), streams.LOOK)
    for start in range(0, n, step):
        some = slice(start, start + step)
        F = np.hstack([phi.features(validate.take(part, some)) for phi, part in zip(maps, parts, strict=True)])
        first += F.sum(axis=0, dtype=np.float64)
        second += F.astype(np.float64, copy=False).T @ F.astype(np.float64, copy=False)
    mean, a = first / n, sizes[0]
    second -= n * np.outer(mean, mean)
    return (mean[:a], mean[a:]), second[:a, :a], second[a:, a:], second[:a, a:]

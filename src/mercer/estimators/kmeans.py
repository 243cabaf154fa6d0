"""k-means in feature space (M10)."""

import warnings
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, forget
from mercer.estimators.clusters import ClusterRows, printing, transforms_if
from mercer.estimators.expansion import Expansion
from mercer.estimators.landmarks import LANDMARK_CONSTRAINTS, landmark_features
from mercer.gram import GivenGram, gram, prepared_gram
from mercer.gram.plan import budget
from mercer.linalg import Status
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers import FeaturePoints, GramPoints, solve_kmeans, solve_minibatch, spread_rows
from mercer.streams import Held

__all__ = ["KernelKMeans"]


def _knows_lengths(self):
    """Whether k(x, x) of new rows is known."""
    kernel = self.kernel_ if self.__sklearn_is_fitted__() else self.kernel
    if isinstance(kernel, str) and kernel == "precomputed":
        raise AttributeError('transform needs k(x, x) of new rows, which kernel="precomputed" does not give; pass rows')
    return True


@register_estimator
@transforms_if(_knows_lengths)
class KernelKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, ClusterRows):
    r"""k-means in the feature space of a kernel: clusters of any shape, of rows of any kind.

    .. math:: \min \sum_c \sum_{i \in c} w_i \lVert \varphi(x_i) - m_c \rVert^2, \qquad m_c \text{ the mean of cluster } c

    Only the Gram matrix is looked at; with `n_landmarks` only that of all rows with the landmarks. Clusters are numbered by
    their weight, the heaviest first.

    Parameters
    ----------
    n_clusters : number of clusters.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    init : "k-means++", "random", or numbers (n_clusters,) of rows that are the first centres.
    n_init : starts, of which the best is kept; "auto": 1 with "k-means++" and rows of your own, 10 with "random".
    max_iter : rounds at most; with batches, how often as many rows as there are may be drawn.
    batch_size : with landmarks, rows of one step of the mini-batch form; None: all rows in each round.
    random_state : of starts, landmarks and batches.
    engine, memory, indefinite : how and within how many bytes Grams are computed, and what to do when they are not PSD.
    n_landmarks, landmarks : features from so many landmarks instead of the Gram matrix, and how they are chosen.
    verbose : print the progress of long fits.

    Attributes
    ----------
    labels_, inertia_ : cluster of each row, and the weighted sum of squared distances to the centres, recomputed.
    X_fit_, coefficients_, norms_, expansion_ : centres as expansions in rows or landmarks, and their squared lengths.
    n_iter_, converged_, solver_used_ : rounds, whether they came to rest, and "gram", "landmarks" or "batches".
    kernel_ : the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelKMeans
    >>> from mercer.kernels import RBF
    >>> angle = np.linspace(0, 6, 60)
    >>> rings = np.vstack([r * np.column_stack([np.cos(angle), np.sin(angle)]) for r in (0.2, 3.0)])
    >>> model = KernelKMeans(2, kernel=RBF(2.0), random_state=0).fit(rings)
    >>> sorted(np.bincount(model.labels_).tolist()), model.predict([[0.1, 0.0]]).shape
    ([60, 60], (1,))

    Dhillon, Guan & Kulis (2004).
    """

    _parameter_constraints = {
        **CONSTRAINTS,
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means++", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state", np.random.Generator],
        "n_landmarks": LANDMARK_CONSTRAINTS["n_landmarks"],
        "landmarks": LANDMARK_CONSTRAINTS["landmarks"],
        "verbose": ["verbose"],
    }

    def __init__(self, n_clusters=8, *, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, init="k-means++",
                 n_init="auto", max_iter=300, batch_size=None, random_state=None, engine=None, memory=None,
                 indefinite="warn", n_landmarks=None, landmarks="rpcholesky", verbose=False):  # fmt: skip
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.random_state = random_state
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.verbose = verbose

    # ------------------------------------------------------------------------------------ fit
    def fit(self, X, y=None, sample_weight=None) -> "KernelKMeans":
        """Find clusters of rows X. A weight k is a row k times; y is ignored."""
        self._check_parameters()
        forget(self)
        rows, _, w = self._given(X, None, sample_weight)
        n = int((w > 0).sum())
        if n < self.n_clusters:
            raise ValueError(f"n_samples={n} should be >= n_clusters={self.n_clusters}")
        if self.batch_size is not None and self.n_landmarks is None:
            raise ValueError(
                f"batch_size={self.batch_size} needs n_landmarks: batches move centres among explicit features"
            )
        K, _, weight, index = self._different(rows, np.zeros(len(w), np.intp), w)
        k = self._possible(len(index))
        if self.n_landmarks is None:
            return self._fit_gram(K, weight, index, k, rows)
        return self._fit_landmarks(K, weight, index, k, rows)

    def _possible(self, different):
        if different < self.n_clusters:
            warnings.warn(f"there are only {different} different rows for n_clusters={self.n_clusters}; each is a cluster",
                          NumericalWarning, stacklevel=3)  # fmt: skip
        return min(self.n_clusters, different)

    def _fit_gram(self, K, w, index, k, rows):
        held = self._held(K)
        fixed = self._definite(held)
        points = GramPoints(held if fixed is None else GivenGram(fixed.matrix), w)
        rng = generator(self.random_state)
        found = self._best(points, lambda start: self._rounds(points, start), index, k, rng)
        S, norms = _ordered(points, found, w)
        S = sp.csr_array(S) if fixed is None else fixed.transform(S.T).T
        if isinstance(K, GivenGram):
            self.kept_ = index
        return self._store(K, K.K if isinstance(K, GivenGram) else K.x.rows, S, norms, found, rows, "gram")

    def _fit_landmarks(self, K, w, index, k, rows):
        if self._precomputed:
            raise ValueError('kernel="precomputed" has no rows to choose landmarks from; pass rows and a kernel')
        rng, different = generator(self.random_state), K.x.rows
        count = self.n_landmarks if self.n_landmarks < 1 else min(int(self.n_landmarks), len(index))
        centres, phi = landmark_features(self, K.kernel, Held(different, np.zeros((len(w), 1)), w), count, rng)
        points = FeaturePoints(lambda some: phi.features(validate.take(different, some)), K.diag(), w, phi.dim, K.dtype,
                               budget(self.memory) / 2)  # fmt: skip
        found = self._best(points, lambda start: self._on_features(points, start, rng), index, k, rng)
        C, norms = _ordered(points, found, w)
        used = "landmarks" if self.batch_size is None else "batches"
        return self._store(centres.gram, phi.landmarks, phi.normalization.T @ C, norms, found, rows, used)

    def _rounds(self, points, start):
        return solve_kmeans(points, start, self.max_iter, printing(self.verbose))

    def _on_features(self, points, start, rng):
        if self.batch_size is None:
            return self._rounds(points, start)
        size = min(self.batch_size, len(points))
        return solve_minibatch(points, start, self.max_iter, size, rng, callback=printing(self.verbose))

    def _best(self, points, solve, index, k, rng):
        """The best of several starts."""
        found = [solve(start) for start in self._starts(points, index, k, rng)]
        best = min(found, key=lambda f: f.loss)
        if best.status is not Status.CONVERGED:
            warnings.warn(f"rows still changed their cluster after {best.iterations} rounds; raise max_iter={self.max_iter}",
                          ConvergenceWarning, stacklevel=4)  # fmt: skip
        return best

    def _starts(self, points, index, k, rng):
        if not isinstance(self.init, str):
            return [self._own_start(index)]
        times = self.n_init if self.n_init != "auto" else 1 if self.init == "k-means++" else 10
        if self.init == "random":
            p = points.weight / points.weight.sum()
            return (rng.choice(len(points), size=k, replace=False, p=p) for _ in range(times))
        return (spread_rows(points, k, rng) for _ in range(times))

    def _own_start(self, index):
        """Places among the different rows of the rows that the user names."""
        asked = np.asarray(self.init)
        if asked.shape != (self.n_clusters,) or asked.dtype.kind not in "iu" or len(np.unique(asked)) < len(asked):
            raise ValueError(f"init={self.init!r} must be {self.n_clusters} different numbers of rows")
        place = {int(row): i for i, row in enumerate(index)}
        missing = [int(row) for row in asked if int(row) not in place]
        if missing:
            raise ValueError(
                f"init names row {missing[0]}, which is out of range, of weight 0, or equal to an earlier row"
            )
        return np.array([place[int(row)] for row in asked])

    def _store(self, K, centres, coefficients, norms, found, rows, used):
        """Fitted state; the last attribute makes the estimator fitted."""
        self.X_fit_, self._gram = centres, K
        self.coefficients_, self.norms_ = coefficients, norms
        against = GivenGram(rows[:, self.kept_]) if isinstance(K, GivenGram) else prepared_gram(K, rows)
        self.labels_ = self._nearness(against).argmin(axis=1)
        self.inertia_, self.n_iter_, self.converged_ = found.loss, found.iterations, found.status is Status.CONVERGED
        self.solver_used_ = used
        return self

    # ------------------------------------------------------------------------------------ answers
    def _nearness(self, K):
        """Squared distances (m, k) to the centres, but for k(x, x)."""
        return self.norms_ - 2.0 * (K @ self._dense_coefficients.astype(K.dtype)).astype(np.float64)

    @property
    def _dense_coefficients(self):
        return self.coefficients_.toarray() if sp.issparse(self.coefficients_) else self.coefficients_

    def predict(self, X) -> np.ndarray:
        """Cluster (m,) whose centre is nearest; the first of those equally near."""
        K = self._test_gram(X)
        return self._nearness(K).argmin(axis=1)

    def transform(self, X) -> np.ndarray:
        """Distances (m, k) to the centres in feature space."""
        K = self._test_gram(X)
        own = gram(self.kernel_, K.x.rows, validated=True).diag().astype(np.float64)
        return np.sqrt(np.maximum(own[:, None] + self._nearness(K), 0.0)).astype(K.dtype)

    @property
    def expansion_(self) -> Expansion:
        """The centres as expansions: kernel, rows, coefficients."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self._dense_coefficients, np.zeros(len(self.norms_)))

    def _with_expansion(self, centres, coefficients):
        new = self._recentred(centres)
        new.coefficients_ = coefficients
        new.norms_ = np.einsum("ij,ij->j", coefficients, new._gram @ coefficients, dtype=np.float64)
        return new

    @property
    def _n_features_out(self):
        return len(self.norms_)

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _ordered(points, found, w):
    """Centres, the heaviest cluster first, and their squared lengths."""
    norms = points.norms(found.centres)
    mass = np.bincount(found.labels, w, len(norms))
    order = np.lexsort([norms, -mass])
    return found.centres[:, order], norms[order]

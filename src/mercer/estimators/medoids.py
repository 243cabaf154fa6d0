"""k-medoids and the nearest medoid as a classifier (M9, M10)."""

import logging
import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions

from mercer import validate
from mercer.errors import ConvergenceWarning, NanError, NotPSDError, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, engine_of, forget
from mercer.estimators.clusters import ClusterRows, printing, transforms_if
from mercer.estimators.labels import class_labels
from mercer.estimators.mixins import ClassifierMixin
from mercer.gram import GivenGram, gram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.linalg import Status
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers.medoids import (
    LARGEST_BUILD,
    GivenDistances,
    KernelDistances,
    batch_rows,
    solve_medoids,
    solve_one_batch,
)

__all__ = ["KMedoids", "NearestMedoidClassifier"]

logger = logging.getLogger("mercer")

_ALL_PAIRS = 30_000  # rows up to which all distances are worth their time
_AT_A_TIME = 2**22  # kernel values of new rows with medoids

_SEARCH = {  # constraints of the parameters of the search, which both classes have
    "method": [StrOptions({"auto", "fasterpam", "onebatch", "alternate"})],
    "init": [StrOptions({"k-medoids++", "random", "build"})],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "n_init": [Interval(Integral, 1, None, closed="left")],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "random_state": ["random_state", np.random.Generator],
    "indefinite": [StrOptions({"raise", "warn"})],
    "verbose": ["verbose"],
}


class _Medoids(ClusterRows):
    """What both classes share: a search among the rows of a Gram, and kernel values of new rows with the medoids."""

    def _search(self, distances, k, w, rng):
        """Solution of one problem and the method that was used."""
        n = distances.shape[0]
        method = self._chosen(distances)
        self._require_room(distances, k, method)
        if self.init == "build" and n > LARGEST_BUILD:
            raise ValueError(f'init="build" takes n^2 k steps and {n} rows are too many; use init="k-medoids++"')
        options = {"rng": rng, "init": self.init, "n_init": self.n_init, "max_iter": self.max_iter,
                   "callback": printing(self.verbose)}  # fmt: skip
        if method == "onebatch":
            found = solve_one_batch(distances, k, weight=w, batch_size=self.batch_size, **options)
            self._check_squares(distances)
        else:
            D = distances.dense()
            self._check_squares(distances)
            found = solve_medoids(D, k, weight=w, method=method, **options)
        if found.status is not Status.CONVERGED:
            warnings.warn(f"medoids still changed after {self.max_iter} rounds, with {found.n_swaps} swaps; raise max_iter",
                          ConvergenceWarning, stacklevel=4)  # fmt: skip
        return found, method

    def _chosen(self, distances):
        if self.method != "auto":
            return self.method
        n, given = distances.shape[0], isinstance(distances, GivenDistances)
        fits = n * n * distances.dtype.itemsize <= budget(self.memory)
        if given or (n <= _ALL_PAIRS and fits):
            return "fasterpam"
        reason = f"more than {_ALL_PAIRS}" if fits else "too many for the memory budget"
        logger.info('method="onebatch": the distances between %d rows are %s', n, reason)
        return "onebatch"

    def _require_room(self, distances, k, method):
        n = distances.shape[0]
        if method == "onebatch":
            m = batch_rows(n, k) if self.batch_size is None else min(n, self.batch_size)
            if m < k:
                raise ValueError(f"batch_size={self.batch_size} is less than the number of medoids, {k}; raise it")
            what, remedies = f"distances of {n} rows to a batch of {m}", ["a smaller batch_size"]
        else:
            m = 0 if isinstance(distances, GivenDistances) else n
            what, remedies = f"the distances between {n} rows", ['method="onebatch", which needs those to a batch']
        remedies += ["float32 rows", 'a larger budget, for example memory="64GB"']
        require(n * (m + k) * distances.dtype.itemsize, budget(self.memory), what, remedies)

    def _check_squares(self, distances):
        """Whether the kernel gave distances, which is all that k-medoids needs of it."""
        given = isinstance(self.kernel_, str)
        if isinstance(distances, GivenDistances) or (not given and self.kernel_.validity.satisfies("cpd")):
            return
        rounding = 10 * distances.shape[0] * np.finfo(distances.dtype).eps * distances.highest
        if distances.lowest >= -rounding:
            return
        message = (
            f"{'the precomputed Gram matrix' if given else repr(self.kernel_)} is indefinite: k(x,x) + k(y,y) - 2 k(x,y), "
            f"the square of a distance, goes down to {distances.lowest:.3g}"
        )
        if self.indefinite == "raise":
            raise NotPSDError(f"{message}; use another kernel, or mercer.repair on its Gram matrix")
        warnings.warn(f"{message}; negative ones count as 0", NumericalWarning, stacklevel=5)

    def _gram_of(self, rows):
        """Gram of the medoids, with which new rows are compared."""
        if isinstance(self.kernel_, str):
            return GivenGram(rows)
        return gram(self.kernel_, rows, engine=engine_of(self), memory=self.memory, validated=True)


def _nearness(K, centres):
    """2 k(x, z) - k(z, z) = k(x, x) - d^2(x, z) of rows with medoids, some rows at a time; `centres` is the medoids' Gram."""
    squares = centres.diag()
    step = max(1, _AT_A_TIME // len(squares))
    for i in range(0, K.shape[0], step):
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            near = 2.0 * K[i : i + step].dense() - squares
        if not np.isfinite(near).all():
            raise NanError("distances in feature space overflow; rescale the columns")
        yield near


# ---------------------------------------------------------------------------------------------- clusters
def _has_distances(estimator):
    """Whether there is a transform; scikit-learn asks."""
    fitted = estimator.__sklearn_is_fitted__()
    metric = estimator.metric_ if fitted else estimator.metric
    kernel = estimator.kernel_ if fitted else estimator.kernel
    if metric == "kernel" and isinstance(kernel, str) and kernel == "precomputed":
        raise AttributeError('transform needs k(x, x) of new rows, which kernel="precomputed" does not give; pass distances '
                             'with metric="precomputed"')  # fmt: skip
    return True


@register_estimator
@transforms_if(_has_distances)
class KMedoids(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, _Medoids):
    r"""Clusters around rows of the data, the medoids: the sum of distances to the nearest of them is made small.

    .. math:: \min_{M,\, |M| = k} \sum_i w_i \min_{j \in M} d(x_i, x_j), \qquad d^2(x, y) = k(x,x) + k(y,y) - 2 k(x,y)

    Distances are those of the kernel's feature space, or given. Rows may be whatever the kernel reads: arrays, sparse
    matrices, tables, strings. Equal rows count as one that weighs as much; where there are fewer different rows than clusters,
    each becomes a medoid and a warning tells so.

    Parameters
    ----------
    n_clusters : number of medoids.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed" (X is a Gram matrix), or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    metric : "kernel", or "precomputed": X are dissimilarities (n, n), symmetric and not negative, and the kernel is not used.
    method : "fasterpam", swaps until no single one helps, on all n x n distances; "onebatch", the same on the distances to a
        batch of rows; "alternate", nearest medoid and best medoid of a cluster in turns, quick and worse; "auto", the first up
        to 30 000 rows that fit into memory, else the second.
    init : "k-medoids++", rows drawn by their distance to those before; "random"; "build", greedy, for at most 5000 rows.
    max_iter : rounds over all candidates at most. n_init : starts, of which the best is kept. random_state : their seed.
    batch_size : rows of the batch; None: 100 log(n_clusters n).
    engine, memory : how and within how many bytes Grams are computed; `memory="2GB"`.
    indefinite : "warn" or "raise" where a squared distance is negative.
    verbose : print the progress of long searches.

    Attributes
    ----------
    medoid_indices_, cluster_centers_ : rows of X that are medoids, and these rows (not where X was precomputed).
    labels_ : cluster of each row, the place of its medoid in medoid_indices_; the first of those equally near.
    inertia_ : weighted sum of the distances to the nearest medoid, recomputed at the end.
    n_iter_, n_swaps_, converged_, solver_used_ : rounds, swaps, whether no swap was left, and the method.
    kernel_, metric_ : the kernel and the metric of the fit.

    Examples
    --------
    >>> from mercer import KMedoids
    >>> from mercer.kernels import Spectrum
    >>> words = ["acacac", "acacaca", "gtgtgt", "gtgtgtg", "cacaca"]
    >>> model = KMedoids(2, kernel=Spectrum(2), random_state=0).fit(words)
    >>> model.labels_[0] == model.labels_[1] == model.labels_[4] != model.labels_[2] == model.labels_[3]
    np.True_

    Kaufman & Rousseeuw (1990); Schubert & Rousseeuw (2021); de Mathelin et al. (2025).
    """

    _parameter_constraints = {
        **CONSTRAINTS,
        **_SEARCH,
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions({"kernel", "precomputed"})],
    }

    def __init__(self, n_clusters=8, *, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, metric="kernel",
                 method="auto", init="k-medoids++", max_iter=100, n_init=1, batch_size=None, random_state=None, engine=None,
                 memory=None, indefinite="warn", verbose=False):  # fmt: skip
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.metric = metric
        self.method = method
        self.init = init
        self.max_iter = max_iter
        self.n_init = n_init
        self.batch_size = batch_size
        self.random_state = random_state
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.positive_only = self.metric == "precomputed"
        return tags

    def _check_parameters(self):
        super()._check_parameters()
        if not super()._precomputed:
            self._kernel()  # a word that is no kernel is refused also where distances are given

    @property
    def _precomputed(self):
        return super()._precomputed or self.metric == "precomputed"

    @property
    def _n_features_out(self):
        return len(self.medoid_indices_)

    def fit(self, X, y=None, sample_weight=None) -> "KMedoids":
        """Find medoids among rows X. A weight k is a row k times; `y` is not looked at."""
        self._check_parameters()
        forget(self)
        rows, _, w = self._given(X, None, sample_weight)
        n = int((w > 0).sum())
        if n < self.n_clusters:
            raise ValueError(f"n_samples={n} should be >= n_clusters={self.n_clusters}")
        self.metric_ = self.metric
        K, _, w, index = self._different(rows, np.zeros(len(w), dtype=np.intp), w)
        k = min(self.n_clusters, len(index))
        distances = KernelDistances(K) if self.metric == "kernel" else GivenDistances(K.K)
        found, method = self._search(distances, k, w, generator(self.random_state))
        self._warn_few(len(found.medoids))
        return self._store(rows, index[found.medoids], found, method)

    def _check_given(self, K):
        if self.metric == "kernel":
            super()._check_given(K)
        else:
            self.kernel_: Any = "precomputed"
            GivenDistances(K).check()

    def _warn_few(self, found):
        if found < self.n_clusters:
            warnings.warn(f"there are only {found} different rows for n_clusters={self.n_clusters}; each is a medoid, and "
                          f"there are {found} clusters", NumericalWarning, stacklevel=3)  # fmt: skip

    def _store(self, rows, index, found, method):
        """Fitted state, all of it computed before any is set."""
        given = isinstance(self.kernel_, str)
        centres = rows[np.ix_(index, index)] if given else validate.take(rows, index)
        K = self._gram_of(centres)
        against = GivenGram(rows[:, index]) if given else prepared_gram(K, rows)
        state = {
            "X_fit_": centres, "_gram": K, "medoid_indices_": index, "labels_": self._nearest(against, K),
            "inertia_": found.loss, "n_iter_": found.iterations, "n_swaps_": found.n_swaps,
            "converged_": found.status is Status.CONVERGED, "solver_used_": method,
        }  # fmt: skip
        if given:
            state["kept_"] = index  # the columns that predict reads
        else:
            state["cluster_centers_"] = centres
        vars(self).update(state)
        return self

    # ------------------------------------------------------------------------------------ answers
    def predict(self, X) -> np.ndarray:
        """Nearest medoid (m,) of each row, as its place in medoid_indices_.

        Where X was precomputed, pass kernel values or dissimilarities (m, n) with all rows of the fit.
        """
        return self._nearest(self._test_gram(X), self._gram)

    def transform(self, X) -> np.ndarray:
        """Distances (m, k) of rows to the medoids."""
        K = self._test_gram(X)
        if self.metric_ == "precomputed":
            return _not_negative(K.dense())
        near = np.concatenate(list(_nearness(K, self._gram)))
        return np.sqrt(np.maximum(K.engine.diag(K.x)[:, None] - near, 0.0))

    def _nearest(self, K, centres):
        if self.metric_ == "precomputed":
            return _not_negative(K.dense()).argmin(axis=1)
        return np.concatenate([near.argmax(axis=1) for near in _nearness(K, centres)])


def _not_negative(D):
    if D.min() < 0:
        raise ValueError(f"Negative values in data: dissimilarities must be >= 0, and X has {D.min():g}")
    return D


# ---------------------------------------------------------------------------------------------- classes
@register_estimator
class NearestMedoidClassifier(ClassifierMixin, _Medoids):
    r"""The class of the nearest medoid, with some medoids in each class found by k-medoids.

    .. math:: \hat y(x) = y_j, \quad j = \arg\min_{j \in M} d(x, x_j), \qquad d^2(x, y) = k(x,x) + k(y,y) - 2 k(x,y)

    Few rows are stored, each of them one of the data, and rows may be whatever the kernel reads.

    Parameters
    ----------
    n_medoids : of each class; one that has fewer different rows keeps all of them.
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    method, init, max_iter, n_init, batch_size, random_state : of the search in each class, as in `KMedoids`.
    engine, memory, indefinite, verbose : as in `KMedoids`.

    Attributes
    ----------
    classes_ : labels in increasing order.
    medoid_indices_, medoid_labels_ : rows of X that are medoids, class by class, and their labels.
    cluster_centers_ : these rows (not where X was precomputed).
    inertia_ : weighted sum of the distances to the nearest medoid of the same class.
    n_iter_, converged_, solver_used_, kernel_ : most rounds in a class, whether no swap was left, the method, the kernel.

    Examples
    --------
    >>> from mercer import NearestMedoidClassifier
    >>> X, y = [[0.0], [0.2], [0.3], [2.0], [2.2], [2.3]], list("aaabbb")
    >>> model = NearestMedoidClassifier().fit(X, y)
    >>> model.medoid_indices_.tolist(), model.predict([[0.9], [1.5]]).tolist()
    ([1, 4], ['a', 'b'])

    Kaufman & Rousseeuw (1990), with the feature distance of the kernel.
    """

    _parameter_constraints = {
        **CONSTRAINTS,
        **_SEARCH,
        "n_medoids": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_medoids=1, *, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, method="auto",
                 init="k-medoids++", max_iter=100, n_init=1, batch_size=None, random_state=None, engine=None, memory=None,
                 indefinite="warn", verbose=False):  # fmt: skip
        self.n_medoids = n_medoids
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.method = method
        self.init = init
        self.max_iter = max_iter
        self.n_init = n_init
        self.batch_size = batch_size
        self.random_state = random_state
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None) -> "NearestMedoidClassifier":
        """Find the medoids of each class from rows X and labels y (n,). A weight k is a row k times."""
        self._check_parameters()
        forget(self)
        rows, y, w = self._given(X, y, sample_weight, multi_output=False)
        self.classes_, codes = class_labels(y[w > 0])
        every = np.zeros(len(w), dtype=np.intp)
        every[w > 0] = codes
        K, codes, w, index = self._different(rows, every, w)
        found, rng = [], generator(self.random_state)
        for c in range(len(self.classes_)):
            mine = np.flatnonzero(codes == c)
            k = min(self.n_medoids, len(mine))
            solution, method = self._search(KernelDistances(K[mine, mine]), k, w[mine], rng)
            found.append((index[mine[solution.medoids]], solution, method))
        return self._store(rows, found)

    def _store(self, rows, found):
        """Fitted state, all of it computed before any is set."""
        index = np.concatenate([medoids for medoids, _, _ in found])
        given = isinstance(self.kernel_, str)
        centres = rows[np.ix_(index, index)] if given else validate.take(rows, index)
        solutions = [solution for _, solution, _ in found]
        state = {
            "X_fit_": centres, "_gram": self._gram_of(centres), "medoid_indices_": index,
            "medoid_labels_": np.repeat(self.classes_, [len(medoids) for medoids, _, _ in found]),
            "inertia_": sum(s.loss for s in solutions), "n_iter_": max(s.iterations for s in solutions),
            "converged_": all(s.status is Status.CONVERGED for s in solutions),
            "solver_used_": ", ".join(sorted({method for _, _, method in found})),
        }  # fmt: skip
        if given:
            state["kept_"] = index  # the columns that predict reads
        else:
            state["cluster_centers_"] = centres
        vars(self).update(state)
        return self

    def decision_function(self, X) -> np.ndarray:
        """k(x, x) - d^2 to the nearest medoid of each class (m, classes); with two classes the second minus the first (m,)."""
        K = self._test_gram(X)
        starts = np.searchsorted(self.medoid_labels_, self.classes_)
        scores = np.concatenate([np.maximum.reduceat(near, starts, axis=1) for near in _nearness(K, self._gram)])
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X) -> np.ndarray:
        """Labels (m,) of the nearest medoids; the first class of those equally near."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)]

"""Neighbours in the distance of a kernel (M9): classification and regression."""

import logging
import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import NotPSDError, NumericalWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, engine_of, forget
from mercer.estimators.mixins import ClassifierMixin, RegressorMixin
from mercer.gram import GivenGram, budget, gram
from mercer.gram.plan import require
from mercer.linalg import smallest_eigenvalue
from mercer.registry import register_estimator
from mercer.solvers.neighbors import GivenSearch, Neighbors, search_of

__all__ = ["KernelNeighborsClassifier", "KernelNeighborsRegressor"]

logger = logging.getLogger("mercer")

_TESTED = 500  # rows whose Gram is tested when the kernel has no certificate
_BLOCK = 2**15  # queries at a time
_ENTRIES = 2**24  # numbers that a block of queries may need for each training row or class


class _KernelNeighbors(KernelEstimator):
    """What classification and regression share: the search, and its answers."""

    _parameter_constraints: dict = {
        **CONSTRAINTS,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "radius": [Interval(Real, 0, None, closed="left"), None],
        "weights": [StrOptions({"uniform", "distance"}), callable],
        "algorithm": [StrOptions({"auto", "brute", "tree"})],
        "indefinite": [StrOptions({"raise", "warn"})],
    }

    def __init__(self, n_neighbors=5, *, radius=None, weights="uniform", kernel="rbf", gamma=None, degree=3, coef0=1,
                 kernel_params=None, algorithm="auto", engine=None, memory=None, indefinite="warn"):  # fmt: skip
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.weights = weights
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.algorithm = algorithm
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # ------------------------------------------------------------------------------------ learning
    def _fit_rows(self, X, y, **checks):
        """Keep the rows and make what finds neighbours among them. Returns (search, targets)."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        rows, y, _ = self._validated_training(X, y, None, multi_output=True, **checks)
        n = validate.n_rows(rows)
        if self.radius is None and self.n_neighbors > n:
            raise ValueError(f"n_neighbors={self.n_neighbors} is more than there are training rows: n_samples={n}")
        if self._precomputed and (self.radius is not None or not _is_uniform(self.weights)):
            raise ValueError(
                'kernel="precomputed" gives no k(x, x) for new rows, so their distances are not known: radius must be None '
                'and weights="uniform"; pass rows and a kernel for more'
            )
        self.kernel_: Any = "precomputed" if self._precomputed else self._kernel()._resolved(rows, None)
        self.X_fit_ = validate.owned(rows, X) if self._precomputed else rows
        if self._precomputed:
            GivenGram(rows).check_symmetric()
        search = self._search(self.algorithm)
        self._check_definite(n)
        return search, y

    def _search(self, algorithm) -> Any:
        """What finds neighbours among the stored rows."""
        if not isinstance(self.kernel_, str):
            return search_of(self.kernel_, self.X_fit_, engine=engine_of(self), memory=self.memory, algorithm=algorithm)
        if algorithm == "tree":
            raise ValueError('algorithm="tree" needs rows: kernel="precomputed" has none; use algorithm="brute"')
        return GivenSearch(GivenGram(self.X_fit_))

    def _keep(self, search, **found):
        """Fitted state, in one call that no interrupt divides."""
        asked = {"n_neighbors": self.n_neighbors, "radius": self.radius, "weights": self.weights}
        found.update(n_samples_fit_=validate.n_rows(self.X_fit_), asked_=asked, _gram=search, solver_used_=search.used)
        logger.info("%s: %s", type(self).__name__, search.used)
        vars(self).update(found)
        return self

    def _check_definite(self, n):
        """Distances need a kernel that is conditionally PSD; what is not certified is tested on some rows."""
        certificate = None if isinstance(self.kernel_, str) else self.kernel_.validity
        if certificate is not None and certificate.satisfies("cpd"):
            return
        some = np.unique(np.linspace(0, n - 1, min(n, _TESTED)).astype(int))
        if certificate is None:
            what, K = "the precomputed Gram matrix", GivenGram(self.X_fit_[np.ix_(some, some)])
        else:
            what = f"{self.kernel_!r} ({certificate.reason})"
            K = gram(self.kernel_, validate.take(self.X_fit_, some), engine=engine_of(self), validated=True)
        values = K.dense().astype(np.float64)
        smallest, _ = smallest_eigenvalue(GivenGram(values).centred().dense(), np.random.default_rng(0))
        size = max(np.abs(values).max(), np.finfo(K.dtype).tiny)
        if smallest >= -10 * len(some) * np.finfo(K.dtype).eps * size:
            return
        message = f"{what} is not conditionally PSD: once centred, its smallest eigenvalue is about {smallest:.3g}"
        if self.indefinite == "raise":
            raise NotPSDError(f"{message}; use another kernel")
        warnings.warn(f"{message}; negative squared distances count as 0", NumericalWarning, stacklevel=4)

    def __setstate__(self, state):
        BaseEstimator.__setstate__(self, state)  # not that of the base, which would make the Gram matrix's sides
        if "solver_used_" in state:
            self._gram = self._search(self.solver_used_)

    # ------------------------------------------------------------------------------------ neighbours
    def kneighbors(self, X=None, n_neighbors=None, return_distance=True):
        """The nearest training rows of rows X, or of each training row among the others.

        Parameters
        ----------
        X : rows, or None for the training rows, none of which is its own neighbour.
        n_neighbors : how many; None for the parameter of that name.

        Returns
        -------
        distances (m, n_neighbors) in increasing order, unless `return_distance` is False, and row numbers of the same shape.
        """
        check_is_fitted(self)
        k = self._checked_number(self.asked_["n_neighbors"] if n_neighbors is None else n_neighbors, X is None)
        parts = list(self._found(self._queries(X, return_distance), k, None))
        columns = np.concatenate([found.columns.reshape(-1, k) for _, found in parts])
        if not return_distance:
            return columns
        dtype = parts[0][0]
        return np.concatenate([found.distances.astype(dtype).reshape(-1, k) for _, found in parts]), columns

    def radius_neighbors(self, X=None, radius=None, return_distance=True, sort_results=False):
        """The training rows at a kernel distance of at most `radius` from rows X, or from each training row.

        Parameters
        ----------
        X : rows, or None for the training rows, none of which is its own neighbour.
        radius : largest distance; None for the parameter of that name.
        sort_results : whether the nearest come first; otherwise they come in the order of the training rows.

        Returns
        -------
        arrays of m arrays: distances, unless `return_distance` is False, and row numbers.
        """
        check_is_fitted(self)
        radius = self._checked_radius(self.asked_["radius"] if radius is None else radius)
        distances, columns = [], []
        for dtype, found in self._found(self._queries(X, True), None, radius):
            d = found.distances.astype(dtype)
            order = np.lexsort((found.columns, d, found.rows)) if sort_results else slice(None)
            distances += np.split(d[order], found.indptr[1:-1])
            columns += np.split(found.columns[order], found.indptr[1:-1])
        return (_ragged(distances), _ragged(columns)) if return_distance else _ragged(columns)

    def _checked_number(self, k, own):
        if isinstance(k, bool) or not isinstance(k, Integral):
            raise TypeError(f"n_neighbors does not take {type(k)} value, enter integer value")
        if k < 1:
            raise ValueError(f"Expected n_neighbors > 0. Got {k}")
        if k > self.n_samples_fit_ - own:
            others = " beside the row itself" if own else ""
            raise ValueError(
                f"n_neighbors={k} is more than there are training rows{others}: n_samples_fit={self.n_samples_fit_}"
            )
        return int(k)

    @staticmethod
    def _checked_radius(radius):
        if isinstance(radius, bool) or not isinstance(radius, Real) or not radius >= 0:
            raise ValueError(f"radius={radius!r} must be a number >= 0; give it here or to the constructor")
        return float(radius)

    def _queries(self, X, distances=None):
        """The rows that are asked about, as the search knows them; whether their distances are needed."""
        check_is_fitted(self)
        if distances is None:
            distances = not _is_uniform(self.asked_["weights"]) or self.asked_["radius"] is not None
        if X is None:
            return self._gram.queries()
        if not isinstance(self.kernel_, str):
            return self._gram.queries(validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns))
        K = validate.prediction(self, X)
        if distances:
            raise ValueError(
                'kernel="precomputed" gives no k(x, x) for new rows, so their distances are not known; use '
                "kneighbors(X, return_distance=False), or pass rows and a kernel"
            )
        return self._gram.queries(GivenGram(K.toarray() if hasattr(K, "toarray") else K))

    def _found(self, q, k, radius, width=1) -> Iterator[tuple[np.dtype, Neighbors]]:
        """The precision of the Gram and neighbours, of one block of queries after the other."""
        held = width if radius is None and not isinstance(self._gram, GivenSearch) else max(width, self.n_samples_fit_)
        step = max(1, min(_BLOCK, _ENTRIES // held))
        for i in range(0, len(q), step):
            some = q[i : i + step]
            found = self._gram.nearest(some, k) if radius is None else self._gram.within(some, radius)
            yield q.gram.dtype, found

    def _weighted(self, q, width) -> Iterator[tuple[np.dtype, Neighbors, np.ndarray]]:
        """Neighbours that answer for the queries, and their weights."""
        weights, radius, k = (self.asked_[name] for name in ("weights", "radius", "n_neighbors"))
        k = self._checked_number(k, q.own is not None) if radius is None else None
        for dtype, found in self._found(q, k, radius, width):
            yield dtype, found, _weights(weights, found, radius is None)


def _is_uniform(weights):
    return isinstance(weights, str) and weights == "uniform"


def _ragged(parts):
    out = np.empty(len(parts), object)
    for i, part in enumerate(parts):
        out[i] = part
    return out


def _weights(weights, found, equal):
    """A weight for each neighbour, float64."""
    if _is_uniform(weights):
        return np.ones(len(found.columns))
    if isinstance(weights, str):
        return _inverse(found)
    d = found.distances
    if equal:
        return _checked_weights(weights(d.reshape(len(found.indptr) - 1, -1)), d.reshape(len(found.indptr) - 1, -1))
    parts = [_checked_weights(weights(part), part) for part in np.split(d, found.indptr[1:-1]) if len(part)]
    return np.concatenate([np.empty(0), *parts])


def _inverse(found):
    """Inverse distances, those of a query relative to its nearest so that none overflows; at 0 the weight is 1 or 0."""
    d, rows = found.distances, found.rows
    least = np.full(len(found.indptr) - 1, np.inf)
    np.minimum.at(least, rows, d)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(least[rows] == 0, d == 0, least[rows] / d).astype(np.float64)


def _checked_weights(values, d):
    values = np.asarray(values)
    if values.shape != d.shape or values.dtype.kind not in "biuf":
        raise ValueError(
            f"weights returned shape {values.shape} and dtype {values.dtype} for distances of shape {d.shape}"
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise ValueError(
            "weights returned negative weights, NaN or infinity; the function must give finite numbers >= 0"
        )
    return values.astype(np.float64).ravel()


def _sums(found, values):
    """Sum over the neighbours of each query."""
    return np.bincount(found.rows, values, minlength=len(found.indptr) - 1)


def _refuse_weightless(found, total):
    if (total[np.diff(found.indptr) > 0] <= 0).any():
        raise ValueError(
            "weights gave 0 to all neighbours of some row; the function must give one of them a positive weight"
        )


# ------------------------------------------------------------------------------------------------ regression
@register_estimator
class KernelNeighborsRegressor(RegressorMixin, _KernelNeighbors):
    r"""Regression by neighbours in the distance of a kernel: the mean of the targets of the nearest rows.

    .. math:: d^2(x, x') = k(x, x) + k(x', x') - 2 k(x, x')

    Rows may be arrays, sparse matrices, tables or objects, as the kernel reads them. Neighbours at equal distance come in
    the order of the training rows. Where a kernel falls with one Euclidean distance the order is that of this distance,
    also where kernel values are rounded to 0 or 1.

    Parameters
    ----------
    n_neighbors : how many of the nearest rows answer, where `radius` is None.
    radius : all rows at this kernel distance or less answer; None for the `n_neighbors` nearest.
    weights : "uniform"; "distance", the inverse of the kernel distance (rows at distance 0, where there are any, answer
        alone); or a function from an array of distances to an array of weights (with `radius`, of one query at a time).
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    algorithm : "brute", all pairs; "tree", a k-d tree on the rows as the kernel sees them, for kernels that fall with one
        Euclidean distance (RBF, Matern, Laplacian with metric="l2", rational quadratics, linear ones; multiples, sums and
        products of these on the same columns) and dense rows; "auto", a tree where columns are few and rows are many.
    engine, memory : how and within how many bytes Grams are computed; `memory="2GB"`.
    indefinite : "warn" or "raise" if the kernel has no distance (is not conditionally PSD) on some of the rows; negative
        squares count as 0.

    Attributes
    ----------
    X_fit_, y_fit_, kernel_ : the training rows and targets, and the kernel with what it took from them.
    n_samples_fit_, asked_ : number of rows, and the parameters that answers are made with.
    solver_used_ : "brute" or "tree".

    Examples
    --------
    >>> from mercer import KernelNeighborsRegressor
    >>> model = KernelNeighborsRegressor(2).fit([[0.0], [1.0], [2.0], [5.0]], [0.0, 1.0, 2.0, 5.0])
    >>> model.predict([[1.4]]).tolist()
    [1.5]
    >>> model.kneighbors([[1.4]], return_distance=False).tolist()
    [[1, 2]]

    Yu, Ji & Zhang (2002), Kernel nearest-neighbor algorithm.
    """

    def fit(self, X, y) -> "KernelNeighborsRegressor":
        """Keep rows X and targets y (n,) or (n, p)."""
        search, y = self._fit_rows(X, y, y_numeric=True)
        dtype = np.float32 if y.dtype == np.float32 and search.dtype == np.float32 else np.float64
        return self._keep(search, y_fit_=np.array(y, dtype))

    def predict(self, X) -> np.ndarray:
        """Weighted means (m,) or (m, p) of the neighbours' targets; NaN, with a warning, where there is no neighbour.

        X=None stands for the training rows, none of which is its own neighbour.
        """
        q = self._queries(X)
        Y = self.y_fit_.reshape(self.n_samples_fit_, -1).astype(np.float64)
        many = 2.0 ** np.ceil(np.log2(len(Y)))
        scale = many if np.abs(Y).max() > np.finfo(np.float64).max / many else 1.0  # sums would overflow
        parts = [self._means(Y / scale, *found) for found in self._weighted(q, Y.shape[1])]
        out = (np.concatenate(parts) * scale).astype(self.y_fit_.dtype)
        if np.isnan(out).any():
            warnings.warn(
                f"{int(np.isnan(out[:, 0]).sum())} rows have no neighbour within radius={self.asked_['radius']:g}; "
                "the answer is NaN there",
                NumericalWarning,
                stacklevel=2,
            )
        return out[:, 0] if self.y_fit_.ndim == 1 else out

    def _means(self, Y, dtype, found, w):
        total = _sums(found, w)
        _refuse_weightless(found, total)
        with np.errstate(invalid="ignore"):
            return np.column_stack([_sums(found, w * column[found.columns]) / total for column in Y.T])


# ------------------------------------------------------------------------------------------------ classification
@register_estimator
class KernelNeighborsClassifier(ClassifierMixin, _KernelNeighbors):
    r"""Classification by neighbours in the distance of a kernel: the nearest rows vote.

    .. math:: d^2(x, x') = k(x, x) + k(x', x') - 2 k(x, x')

    Rows may be arrays, sparse matrices, tables or objects, as the kernel reads them. Neighbours at equal distance come in
    the order of the training rows, and classes with equally many votes in the order of `classes_`. Where a kernel falls
    with one Euclidean distance the order is that of this distance, also where kernel values are rounded to 0 or 1.

    Parameters
    ----------
    n_neighbors : how many of the nearest rows answer, where `radius` is None.
    radius : all rows at this kernel distance or less answer; None for the `n_neighbors` nearest.
    weights : "uniform"; "distance", the inverse of the kernel distance (rows at distance 0, where there are any, answer
        alone); or a function from an array of distances to an array of weights (with `radius`, of one query at a time).
    kernel : a mercer kernel, one of scikit-learn's words, "precomputed", or a function of two rows.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    algorithm : "brute", all pairs; "tree", a k-d tree on the rows as the kernel sees them, for kernels that fall with one
        Euclidean distance (RBF, Matern, Laplacian with metric="l2", rational quadratics, linear ones; multiples, sums and
        products of these on the same columns) and dense rows; "auto", a tree where columns are few and rows are many.
    outlier_label : label of rows without any neighbour within `radius`: "most_frequent", or a label (one for each column
        of y), which need not be one of the classes; None to raise an error.
    engine, memory : how and within how many bytes Grams are computed; `memory="2GB"`.
    indefinite : "warn" or "raise" if the kernel has no distance (is not conditionally PSD) on some of the rows; negative
        squares count as 0.

    Attributes
    ----------
    classes_ : labels in increasing order; a list of arrays where y has several columns.
    X_fit_, y_fit_, kernel_ : the training rows, numbers of their classes, and the kernel with what it took from the rows.
    outlier_label_ : the label of rows without neighbours, or None.
    n_samples_fit_, asked_ : number of rows, and the parameters that answers are made with.
    solver_used_ : "brute" or "tree".

    Examples
    --------
    >>> from mercer import KernelNeighborsClassifier
    >>> from mercer.kernels import Spectrum
    >>> dna, kind = ["acacac", "gtgtgt", "acacgt", "gtgtac"], ["ac", "gt", "ac", "gt"]
    >>> KernelNeighborsClassifier(1, kernel=Spectrum(2)).fit(dna, kind).predict(["acacaa"]).tolist()
    ['ac']

    Yu, Ji & Zhang (2002), Kernel nearest-neighbor algorithm.
    """

    _parameter_constraints = {
        **_KernelNeighbors._parameter_constraints,
        "outlier_label": [Integral, str, "array-like", None],
    }

    def __init__(self, n_neighbors=5, *, radius=None, weights="uniform", kernel="rbf", gamma=None, degree=3, coef0=1,
                 kernel_params=None, algorithm="auto", outlier_label=None, engine=None, memory=None,
                 indefinite="warn"):  # fmt: skip
        super().__init__(n_neighbors, radius=radius, weights=weights, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0,
                         kernel_params=kernel_params, algorithm=algorithm, engine=engine, memory=memory,
                         indefinite=indefinite)  # fmt: skip
        self.outlier_label = outlier_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X, y) -> "KernelNeighborsClassifier":
        """Keep rows X and labels y (n,) or (n, outputs)."""
        search, y = self._fit_rows(X, y)
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,), "
                "for example using ravel().",
                DataConversionWarning,
                stacklevel=2,
            )
            y = y[:, 0]
        found = [np.unique(column, return_inverse=True) for column in y.reshape(len(y), -1).T]
        classes, codes = [c for c, _ in found], np.column_stack([i.ravel() for _, i in found])
        labels = _outlier_labels(self.outlier_label, classes, codes)
        return self._keep(
            search, outputs_2d_=y.ndim == 2, classes_=classes if y.ndim == 2 else classes[0],
            y_fit_=codes.astype(np.min_scalar_type(max(map(len, classes)))),
            outlier_label_=labels if y.ndim == 2 or labels is None else labels[0],
        )  # fmt: skip

    def predict(self, X) -> np.ndarray:
        """Labels (m,) or (m, outputs); X=None stands for the training rows, none of which votes for itself."""
        parts = [self._labels(votes, empty) for _, votes, empty in self._votes(self._queries(X))]
        out = np.concatenate(parts)
        return out if self.outputs_2d_ else out[:, 0]

    def predict_proba(self, X) -> "np.ndarray | list[np.ndarray]":
        """Parts of the votes (m, classes) in the order of `classes_`; a list of them where y has several columns."""
        q = self._queries(X)
        width = sum(map(len, self._classes))
        require(8 * len(q) * width, budget(self.memory), f"a table of the probabilities of {len(q)} rows and {width} classes",
                ["ask for fewer rows at a time", "use predict"])  # fmt: skip
        blocks = [self._probabilities(*votes) for votes in self._votes(q)]
        found = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        return found if self.outputs_2d_ else found[0]

    # ------------------------------------------------------------------------------------ parts
    @property
    def _classes(self):
        return self.classes_ if self.outputs_2d_ else [self.classes_]

    @property
    def _outliers(self):
        """A label for each output, or None."""
        single = self.outlier_label_ is not None and not self.outputs_2d_
        return [self.outlier_label_] if single else self.outlier_label_

    def _votes(self, q):
        """(precision, votes (m, classes) for each output, rows without neighbours), of one block after the other."""
        start = 0
        for dtype, found, w in self._weighted(q, sum(map(len, self._classes))):
            empty = np.flatnonzero(np.diff(found.indptr) == 0)
            if len(empty) and self.outlier_label_ is None:
                raise ValueError(
                    f"row {start + empty[0]} has no neighbours within radius={self.asked_['radius']:g}; use a larger radius, "
                    "or give outlier_label"
                )
            start += len(found.indptr) - 1
            _refuse_weightless(found, _sums(found, w))
            yield dtype, [self._counts(found, w, j, len(c)) for j, c in enumerate(self._classes)], empty

    def _counts(self, found, w, output, n_classes):
        m = len(found.indptr) - 1
        cells = found.rows * n_classes + self.y_fit_[found.columns, output].astype(np.int64)
        return np.bincount(cells, w, minlength=m * n_classes).reshape(m, n_classes)

    def _labels(self, votes, empty):
        columns = []
        for j, (classes, counts) in enumerate(zip(self._classes, votes, strict=True)):
            labels = classes[counts.argmax(axis=1)]
            if self._outliers is not None:
                labels = labels.astype(np.result_type(classes, np.asarray(self._outliers[j])))
                labels[empty] = self._outliers[j]
            columns.append(labels)
        return np.stack(columns, axis=1)

    def _probabilities(self, dtype, votes, empty):
        out = []
        for j, (classes, counts) in enumerate(zip(self._classes, votes, strict=True)):
            if len(empty):
                self._vote_for_outliers(counts, classes, self._outliers[j], empty)
            total = counts.sum(axis=1, keepdims=True)
            out.append((counts / np.where(total > 0, total, 1.0)).astype(dtype))
        return out

    @staticmethod
    def _vote_for_outliers(counts, classes, label, empty):
        if label in classes:
            counts[empty, np.flatnonzero(classes == label)] = 1.0
            return
        warnings.warn(
            f"outlier_label={label!r} is none of the classes; all probabilities of {len(empty)} rows are 0",
            NumericalWarning,
            stacklevel=5,
        )


def _outlier_labels(asked, classes, codes):
    """A label for each output."""
    if asked is None:
        return None
    if isinstance(asked, str) and asked == "most_frequent":
        return [c[np.bincount(codes[:, j]).argmax()] for j, c in enumerate(classes)]
    labels = list(asked) if isinstance(asked, list | tuple | np.ndarray) else [asked] * len(classes)
    if len(labels) != len(classes):
        raise ValueError(f"outlier_label has {len(labels)} labels, but y has {len(classes)} columns")
    for label, c in zip(labels, classes, strict=True):
        if np.ndim(label) or (c.dtype.kind != "O" and (np.asarray(label).dtype.kind in "US") != (c.dtype.kind in "US")):
            raise TypeError(
                f"outlier_label={label!r} does not go with labels such as {c[0]!r}; give one of the same kind"
            )
    return labels

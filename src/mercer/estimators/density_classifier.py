"""Classification by densities of the classes (M16): Bayes' rule, with nearest neighbours as its limit."""

import logging
import warnings
from numbers import Integral

import numpy as np
from scipy import special
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import NumericalWarning
from mercer.estimators.base import engine_of, forget
from mercer.estimators.density import DENSITY_CONSTRAINTS, dense
from mercer.estimators.labels import class_labels
from mercer.estimators.mixins import ClassifierMixin
from mercer.kernels import RBF
from mercer.registry import register_estimator
from mercer.solvers.bandwidths import root_of, select_bandwidth, spread
from mercer.solvers.densities import WindowDensity
from mercer.solvers.neighbors import search_of
from mercer.solvers.windows import shape_of

__all__ = ["KernelDensityClassifier"]

logger = logging.getLogger("mercer")

_BLOCK = 2**15  # queries at a time


@register_estimator
class KernelDensityClassifier(ClassifierMixin, BaseEstimator):
    r"""Bayes' rule on kernel densities of the classes.

    .. math:: p(c \mid x) \propto \pi_c \, f_c(x)

    With `neighbors=k` the window is the ball that just holds k rows: p(x | c) = K_c / (N_c V), where K_c of them are of class c,
    and the posterior with the classes' own frequencies is K_c / k, the answer of k nearest neighbours.

    Parameters
    ----------
    bandwidth : as in `KernelDensity`; words are resolved in each class, columns that are equal in all rows left aside. Or a dict
        with the bandwidth of each class.
    kernel, form, algorithm, atol, rtol, engine : as in `KernelDensity`.
    priors : probabilities of the classes in sorted order; None takes their frequencies.
    shared : whether a word gives one bandwidth for all classes, from rows less the means of their classes.
    neighbors : None, or the number of neighbours; the bandwidth and the window are not used then.

    Where every window has ended, a row belongs to the class of the row that is nearest in units of the class's bandwidth, with
    probability 1 and one warning.

    Attributes
    ----------
    classes_, priors_ : the classes and their probabilities.
    bandwidth_ : the bandwidth of each class; None with `neighbors`.
    columns_ : the columns that are looked at.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelDensityClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(0, 1, (200, 2)), rng.normal(3, 1, (200, 2))])
    >>> model = KernelDensityClassifier().fit(X, np.repeat(["low", "high"], 200))
    >>> model.predict([[0.0, 0.5], [3.5, 2.5]])
    array(['low', 'high'], dtype='<U4')
    """

    _parameter_constraints: dict = {
        **DENSITY_CONSTRAINTS,
        "bandwidth": [*DENSITY_CONSTRAINTS["bandwidth"], dict],
        "priors": ["array-like", None],
        "shared": ["boolean"],
        "neighbors": [Interval(Integral, 1, None, closed="left"), None],
    }

    _newer_parameters = {"engine": None}  # older files lack it

    def __init__(self, bandwidth="normal-scott", *, kernel="gaussian", form="radial", priors=None, shared=False, neighbors=None,
                 algorithm="auto", atol=0, rtol=0, engine=None):  # fmt: skip
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.form = form
        self.priors = priors
        self.shared = shared
        self.neighbors = neighbors
        self.algorithm = algorithm
        self.atol = atol
        self.rtol = rtol
        self.engine = engine

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self):
        return hasattr(self, "solver_used_")

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X, y):
        """Densities of the classes y of rows X."""
        self._validate_params()
        forget(self)
        vars(self).pop("_parts", None)
        rows, y, _, _ = validate.training(self, X, y, None, multi_output=False)
        rows = validate.owned(dense(rows), X)
        classes, codes = class_labels(y)
        counts = np.bincount(codes)
        if self.neighbors is not None and self.neighbors > len(rows):
            raise ValueError(f"neighbors={self.neighbors} is more than there are training rows: n_samples={len(rows)}")
        priors = self._priors(counts)
        columns, bandwidths = self._bandwidths(rows, classes, codes) if self.neighbors is None else (None, None)
        settings = {"kernel": self.kernel, "form": self.form, "algorithm": self.algorithm, "rtol": float(self.rtol),
                    "atol": float(self.atol), "neighbors": self.neighbors}  # fmt: skip
        columns = np.arange(rows.shape[1]) if columns is None else columns
        found = {"classes_": classes, "priors_": priors, "columns_": columns, "bandwidth_": bandwidths, "X_fit_": rows,
                 "codes_": codes, "settings_": settings}  # fmt: skip
        vars(self).update(
            **found,
            _parts=_parts(found, engine_of(self)),
            solver_used_="windows" if self.neighbors is None else "neighbours",
        )
        return self

    def _priors(self, counts):
        if self.priors is None:
            return counts / counts.sum()
        p = np.asarray(self.priors)
        if p.dtype.kind not in "biuf" or p.shape != counts.shape:
            raise ValueError(f"priors={self.priors!r} must hold one number for each of the {len(counts)} classes")
        p = p.astype(np.float64)
        if not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1.0) > 1e-6:
            raise ValueError(f"priors={self.priors!r} must be probabilities, none negative, with sum 1")
        return p / p.sum()

    def _bandwidths(self, rows, classes, codes):
        """Columns to look at, and the bandwidth of each class."""
        given = self.bandwidth
        if isinstance(given, dict):
            missing = [c for c in classes.tolist() if c not in given]
            if missing or len(given) != len(classes):
                raise ValueError(f"bandwidth has the keys {list(given)}, expected the classes {classes.tolist()}")
            each = [given[c] for c in classes.tolist()]
        else:
            each = [given] * len(classes)
        if any(isinstance(h, str) for h in each) and not all(isinstance(h, str) for h in each):
            raise ValueError("bandwidth: use words for all classes or numbers for all")
        if not isinstance(each[0], str):
            return None, [self._number(h, rows.shape[1]) for h in each]
        columns = np.flatnonzero((rows != rows[0]).any(axis=0))
        if len(columns) < rows.shape[1]:
            logger.info("columns %s are equal in all rows and say nothing of classes", np.setdiff1d(
                np.arange(rows.shape[1]), columns).tolist())  # fmt: skip
        if not len(columns):
            return columns, [None] * len(classes)
        return columns, self._by_words(each, rows[:, columns], classes, codes)

    def _number(self, h, d):
        h = np.array(h, np.float64) if np.ndim(h) else h
        root_of(h, d)
        return h

    def _by_words(self, words, rows, classes, codes):
        if self.shared:
            centred = rows.astype(np.float64)
            for c in range(len(classes)):
                centred[codes == c] -= centred[codes == c].mean(axis=0)
            centred = centred if (spread(centred) > 0).all() else rows
            found = {word: self._word(word, centred) for word in set(words)}
            return [found[word] for word in words]
        return [self._of_class(word, rows, codes == c, label)
                for c, (word, label) in enumerate(zip(words, classes.tolist(), strict=True))]  # fmt: skip

    def _of_class(self, word, rows, own, label):
        """A word resolved in a class; of all rows where the class has no spread in some column."""
        part = rows[own]
        if word not in ("scott", "silverman") and not (spread(part) > 0).all():
            warnings.warn(f'bandwidth="{word}": class {label!r} ({len(part)} rows) has no spread in some column; its bandwidth '
                          "is that of all rows", NumericalWarning, stacklevel=5)  # fmt: skip
            part = rows
        return self._word(word, part)

    def _word(self, word, rows):
        return select_bandwidth(word, rows, shape=shape_of(self.kernel), form=self.form).value

    # ------------------------------------------------------------------------------------ answers
    def predict_log_proba(self, X):
        """Logarithms of the probabilities of the classes."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X)) if self._counts_neighbors() else self._posterior(X)

    def predict_proba(self, X):
        """Probabilities of the classes, (m, n_classes)."""
        if not self._counts_neighbors():
            return np.exp(self._posterior(X))
        rows = dense(validate.prediction(self, X))
        return self._votes(rows).astype(self._dtype(rows), copy=False)

    def predict(self, X):
        """The most probable class of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[best]

    def _counts_neighbors(self):
        check_is_fitted(self)
        return self.settings_["neighbors"] is not None

    def _dtype(self, rows):
        return np.result_type(rows.dtype, self.X_fit_.dtype)

    def _posterior(self, X):
        """log p(c | x), never NaN."""
        rows = dense(validate.prediction(self, X))
        Q, s = rows[:, self.columns_], self.settings_
        with np.errstate(divide="ignore"):
            joint = np.tile(np.log(self.priors_), (len(Q), 1))
        if len(self.columns_):
            joint += np.column_stack([p.log_density(Q, rtol=s["rtol"], atol=s["atol"]) for p in self._parts])
        lost = np.flatnonzero(joint.max(axis=1) == -np.inf)
        if len(lost):
            warnings.warn(f"{len(lost)} of {len(Q)} rows lie outside every window; each gets the class of the row "
                          "nearest in units of the bandwidth", NumericalWarning, stacklevel=3)  # fmt: skip
            joint[lost] = np.where(np.arange(len(self.classes_)) == self._nearest(Q[lost])[:, None], 0.0, -np.inf)
        joint -= special.logsumexp(joint, axis=1, keepdims=True)
        return joint.astype(self._dtype(rows), copy=False)

    def _nearest(self, Q):
        return np.argmin([p.nearest(Q) for p in self._parts], axis=0)

    def _votes(self, rows):
        """prior_c K_c / N_c, scaled to sum 1, of the k nearest rows."""
        search, k = self._parts[0], self.settings_["neighbors"]
        counts = np.bincount(self.codes_)
        out = np.empty((len(rows), len(counts)))
        for start in range(0, len(rows), _BLOCK):
            q = search.queries(rows[start : start + _BLOCK])
            voters = self.codes_[search.nearest(q, k).columns.reshape(len(q), k)]
            for c in range(len(counts)):
                out[start : start + len(q), c] = (voters == c).sum(axis=1)
        own = np.array_equal(self.priors_, counts / counts.sum())
        scores = out / k if own else out * (self.priors_ / counts)
        total = scores.sum(axis=1, keepdims=True)
        return np.where(total > 0, scores / np.where(total > 0, total, 1.0), self.priors_)

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_parts", None)  # made again from rows and bandwidths
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "solver_used_" in state:
            self._parts = _parts(state, engine_of(self))


def _parts(found, engine):
    """The density of each class, or what finds neighbours among all rows."""
    rows, s = found["X_fit_"], found["settings_"]
    if s["neighbors"] is not None:
        return [search_of(RBF(1.0), rows, engine=engine)]
    if not len(found["columns_"]):
        return []
    rows, shape, d = rows[:, found["columns_"]], shape_of(s["kernel"]), len(found["columns_"])
    parts = []
    for c, h in enumerate(found["bandwidth_"]):
        own = rows[found["codes_"] == c]
        w = np.full(len(own), 1.0 / len(own))
        parts.append(WindowDensity(own, w, root_of(h, d), shape, s["form"], None, s["algorithm"], None, engine))
    return parts

"""Nadaraya-Watson regression and conditional densities (M17)."""

import logging
import math
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.engines import get_engine
from mercer.errors import NumericalWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, engine_of, forget
from mercer.estimators.mixins import RegressorMixin
from mercer.gram import GivenGram, budget, gram, prepared_gram
from mercer.gram.plan import require
from mercer.kernels import RBF, Kernel, Laplacian
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.solvers.local import Smoother, Whitening, spreads
from mercer.solvers.local_bandwidths import select_smoothing
from mercer.solvers.mixtures import RowMixtures
from mercer.solvers.windows import SHAPES, Shape, shape_of

__all__ = ["NadarayaWatson"]

logger = logging.getLogger("mercer")

WINDOWS = (*SHAPES, "tophat", "linear")
_TESTED = 500  # rows whose kernel values are looked at in a fit
_ENTRIES = 2**21  # weights that are held at a time


def dense_rows(rows, memory) -> np.ndarray:
    """Rows for a window, which moves with every column: sparse rows are made dense where that fits."""
    if not hasattr(rows, "toarray"):
        return rows
    remedies = ["a kernel object such as RBF(), which takes sparse rows as they are", "fewer columns"]
    require(8 * math.prod(rows.shape), budget(memory), f"a dense form of {rows.shape[0]} sparse rows", remedies)
    return rows.toarray()


def column_namer(estimator):
    """What a message calls column j."""
    names = getattr(estimator, "feature_names_in_", None)
    return lambda j: f"column {names[j] if names is not None else j} of X"


@register_estimator
class NadarayaWatson(MultiOutputMixin, RegressorMixin, KernelEstimator):
    r"""Nadaraya-Watson regression: the mean of the targets, weighted by a window about the query.

    .. math:: y(x) = \sum_i w_i(x) t_i, \qquad w_i(x) = k(x, x_i) / \sum_j k(x, x_j)

    and the conditional density of one target, a mixture of windows about the training targets:
    :math:`p(t \mid x) = \sum_i w_i(x) K_h(t - t_i)`.

    Weights are computed relative to the largest one, so that they sum to 1 also where all values of a Gaussian or
    exponential window underflow: far queries have the answer of the nearest rows. Where a window ends and no row lies in it,
    the nearest training rows answer, with one warning that says how often; where all values of another kernel are 0,
    all rows answer alike.

    Parameters
    ----------
    kernel : a window: "gaussian", "exponential", "epanechnikov", "biweight", "tricube", "triangular" (or "linear"), "boxcar" (or
        "tophat"), "cosine"; or a mercer kernel or another of scikit-learn's words, with values >= 0 and PSD or not, whose
        rows may be strings or tables; "precomputed"; or a function of two rows.
    bandwidth : of a window: a number, one for each column, or a matrix H that stands for a covariance, so that h means h² I;
        "mad", the normal reference rule on the median absolute deviation of each column; "loo", one for each column by
        the leave-one-out error. A kernel that is no window has its own scales, and takes "mad" or None for "no bandwidth".
    target_bandwidth : of the window about the targets, a number or "mad"; several targets may have one each.
    target_kernel : the window about the targets.
    form : "radial", of the distance; "product", over the columns.
    gamma, degree, coef0, kernel_params : parameters of kernels given by word or function, as in scikit-learn.
    engine, memory : how and within how many bytes kernel values are computed; `memory="2GB"`.

    Attributes
    ----------
    bandwidth_ : the bandwidth, None for a kernel that is no window.
    bandwidth_rows_ : how many rows a word was applied to; "loo" looks at a seeded sample of many.
    target_bandwidth_ : the bandwidth of each target; 0 where all targets are equal.
    X_fit_, y_fit_, weight_fit_, kernel_ : training rows, targets, weights (or None), and the kernel or the word of the window.
    effective_dof_ : trace of the smoother. loo_residuals_, loo_score_ : each row's error when it is left out, and R² of
        these answers. They are computed when they are first asked for.
    solver_used_ : "window" or "kernel".

    Examples
    --------
    >>> from mercer import NadarayaWatson
    >>> model = NadarayaWatson("boxcar", 1.0).fit([[0.0], [1.0], [2.0], [5.0]], [0.0, 1.0, 2.0, 5.0])
    >>> model.predict([[0.5], [2.5]]).tolist()
    [0.5, 2.0]
    >>> model.weights([[0.5]]).tolist()
    [[0.5, 0.5, 0.0, 0.0]]

    Nadaraya (1964); Watson (1964); Bishop (2006), section 6.3.1.
    """

    _parameter_constraints: dict = {
        **{name: CONSTRAINTS[name] for name in CONSTRAINTS if name != "indefinite"},
        "bandwidth": [Interval(Real, 0, None, closed="neither"), "array-like", StrOptions({"mad", "loo"}), None],
        "target_bandwidth": [Interval(Real, 0, None, closed="neither"), "array-like", StrOptions({"mad"})],
        "target_kernel": [StrOptions(set(WINDOWS))],
        "form": [StrOptions({"radial", "product"})],
    }

    def __init__(self, kernel="gaussian", bandwidth="mad", *, target_bandwidth="mad", target_kernel="gaussian", form="radial",
                 gamma=None, degree=3, coef0=1, kernel_params=None, engine=None, memory=None):  # fmt: skip
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.target_bandwidth = target_bandwidth
        self.target_kernel = target_kernel
        self.form = form
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.engine = engine
        self.memory = memory

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._precomputed
        tags.regressor_tags.poor_score = self._precomputed  # what the matrix is good for is not known here
        return tags

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X, y, sample_weight=None) -> "NadarayaWatson":
        """Keep rows X and targets y (n,) or (n, p), and find the bandwidths. Weights count as repetitions."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        get_engine(engine_of(self))
        forget(self)
        checks = {"multi_output": True, "y_numeric": True}
        if isinstance(self.kernel, str) and self.kernel in WINDOWS:
            rows, y, w, _ = validate.training(self, X, y, sample_weight, **checks)
            rows = validate.owned(dense_rows(rows, self.memory), X)
            found = self._window_fit(rows, y, w)
        else:
            rows, y, w = self._validated_training(X, y, sample_weight, **checks)
            found = self._kernel_fit(rows, X, w)
        dtype = np.float32 if y.dtype == np.float32 and getattr(rows, "dtype", None) == np.float32 else np.float64
        found.update(y_fit_=np.array(y, dtype), weight_fit_=w)
        found.update(target_bandwidth_=self._target_bandwidth(np.array(y, np.float64), w), asked_=self.target_kernel)
        self._store(found)
        return self

    def _store(self, found):
        """Fitted state, in one call that no interrupt divides."""
        used = found.pop("solver_used_")
        found["_fit"] = _weights_of(found, engine_of(self), self.memory)
        logger.info("%s: %s", type(self).__name__, used)
        vars(self).update(found, solver_used_=used)

    def _window_fit(self, rows, y, w):
        if self.bandwidth is None:
            raise ValueError(f'bandwidth=None is for kernels that are no window; kernel="{self.kernel}" needs one')
        shape, chosen, seen = shape_of(self.kernel), self.bandwidth, None
        if isinstance(chosen, str):
            Y = np.asarray(y, np.float64).reshape(len(y), -1)
            found = select_smoothing(rows, Y, w, chosen, shape, self.form, called=column_namer(self))
            chosen, seen = found.bandwidth, found.rows
        h = np.array(chosen, np.float64)
        return {"X_fit_": rows, "kernel_": shape.name, "bandwidth_": float(h) if h.ndim == 0 else h, "bandwidth_rows_": seen,
                "form_": self.form, "kept_": None, "solver_used_": "window"}  # fmt: skip

    def _kernel_fit(self, rows, X, w):
        if not (self.bandwidth is None or (isinstance(self.bandwidth, str) and self.bandwidth == "mad")):
            raise ValueError(
                f"bandwidth={self.bandwidth!r} is for windows; the scales of kernel={self.kernel!r} are its own parameters: "
                "pass bandwidth=None"
            )
        if self._precomputed:
            rows = validate.owned(rows, X)
            GivenGram(rows).check_symmetric()
            _refuse_negative(rows, "precomputed")
            kernel: Any = "precomputed"
        else:
            kernel = self._kernel()._resolved(rows, w)
            n = validate.n_rows(rows)
            some = np.unique(np.linspace(0, n - 1, min(n, _TESTED)).astype(int))
            few = gram(kernel, validate.take(rows, some), engine=engine_of(self), memory=self.memory, validated=True)
            _refuse_negative(few.dense(), kernel)
        return {"X_fit_": rows, "kernel_": kernel, "bandwidth_": None, "bandwidth_rows_": None, "form_": self.form,
                "kept_": getattr(self, "kept_", None), "solver_used_": "kernel"}  # fmt: skip

    def _target_bandwidth(self, y, w):
        Y = y.reshape(len(y), -1)
        if isinstance(self.target_bandwidth, str):
            n = float(len(Y) if w is None else w.sum())
            with warnings.catch_warnings():  # few different targets are no fault, and means do not ask
                warnings.simplefilter("ignore", NumericalWarning)
                h = (4.0 / (3.0 * n)) ** 0.2 * spreads(Y, w)
        else:
            h = np.array(self.target_bandwidth, np.float64)
            if h.ndim > 1 or (h.ndim == 1 and len(h) != Y.shape[1]) or not (np.isfinite(h).all() and (h > 0).all()):
                raise ValueError(
                    f"target_bandwidth={self.target_bandwidth!r} must be a positive number, or one for each of the "
                    f"{Y.shape[1]} targets"
                )
            h = np.broadcast_to(h, Y.shape[1]).copy()
        return float(h[0]) if y.ndim == 1 else h

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_fit", None)  # made again from the rows
        return state

    def __setstate__(self, state):
        BaseEstimator.__setstate__(self, state)
        if "solver_used_" in state:
            self._fit = _weights_of(vars(self), engine_of(self), self.memory)

    # ------------------------------------------------------------------------------------ answers
    def _rows(self, X):
        """Validated queries, in the form that the weights are computed from."""
        check_is_fitted(self)
        if self.solver_used_ == "window":
            return dense_rows(validate.prediction(self, X), self.memory)
        if not isinstance(self.kernel_, str):
            return validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns)
        K = validate.prediction(self, X)
        K = K.toarray() if hasattr(K, "toarray") else K
        return K if self.kept_ is None else K[:, self.kept_]

    @property
    def _targets(self):
        return self.y_fit_.reshape(len(self.y_fit_), -1).astype(np.float64)

    def _shaped(self, values):
        values = values.astype(self.y_fit_.dtype)
        return values[:, 0] if self.y_fit_.ndim == 1 else values

    def predict(self, X, return_std=False):
        """Conditional means (m,) or (m, p), and with `return_std` the standard deviations of the conditional densities."""
        rows = self._rows(X)
        Y = self._targets
        if not return_std:
            return self._shaped(self._means(rows, Y))
        centre = Y.mean(axis=0)
        size = np.maximum(np.abs(Y - centre).max(axis=0), np.finfo(np.float64).tiny)
        U = (Y - centre) / size
        mean, square = np.hsplit(self._means(rows, np.hstack([U, U**2])), 2)
        inside = shape_of(self.asked_).variance(1) * np.atleast_1d(self.target_bandwidth_) ** 2
        std = np.sqrt(np.maximum(square - mean**2, 0.0) * size**2 + inside)
        return self._shaped(mean * size + centre), self._shaped(std)

    def _means(self, rows, Y):
        values, lost = self._fit.means(rows, Y)
        self._say(lost, len(values))
        return values

    def _say(self, lost, m):
        """One warning for all queries that a fallback answered for."""
        if lost:
            warnings.warn(f"{lost} of {m} queries {self._fit.fallback}", NumericalWarning, stacklevel=4)

    def weights(self, X) -> np.ndarray:
        """Weights (m, n) of the training rows, the equivalent kernel: predictions are weights(X) @ y_fit_, rows sum to 1."""
        rows = self._rows(X)
        m, n = validate.n_rows(rows), len(self.y_fit_)
        require(
            8 * m * n,
            budget(self.memory),
            f"weights of {n} rows for {m} queries",
            ["fewer queries at a time", "predict"],
        )
        return np.concatenate(list(self._tiles(rows)))

    def _tiles(self, rows):
        """Weights of some queries after the others."""
        step, lost, m = max(1, _ENTRIES // len(self.y_fit_)), 0, validate.n_rows(rows)
        for i in range(0, m, step):
            W, some = self._fit.weights(validate.take(rows, slice(i, i + step)))
            lost += some
            yield W
        self._say(lost, m)

    # ------------------------------------------------------------------------------------ conditional densities
    def _mixtures(self, X):
        """(first row, mixture) of tiles of queries."""
        rows = self._rows(X)
        if self.y_fit_.ndim == 2 and self.y_fit_.shape[1] > 1:
            raise ValueError(
                f"conditional densities are of one target; y has {self.y_fit_.shape[1]}: fit one model for each of them"
            )
        y, h, at = self._targets[:, 0], float(np.atleast_1d(self.target_bandwidth_)[0]), 0
        for W in self._tiles(rows):
            yield at, RowMixtures(W, y, h, shape_of(self.asked_))
            at += len(W)

    def predict_quantiles(self, X, q=(0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of p(t|x) of one target: (m,) for one level q in [0, 1], (m, len(q)) for several."""
        levels = np.atleast_1d(np.asarray(q, np.float64))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"q={q!r} must be a level between 0 and 1, or several")
        found = np.concatenate([mixture.quantile(levels) for _, mixture in self._mixtures(X)]).astype(self.y_fit_.dtype)
        return found[:, 0] if np.ndim(q) == 0 else found

    def log_density(self, X, t) -> np.ndarray:
        """log p(t|x) of one target, -inf outside all windows: t a number or (m,) gives (m,), t (m, r) gives (m, r)."""
        check_is_fitted(self)
        t = np.asarray(t, np.float64)
        if t.ndim > 2 or np.isnan(t).any():
            raise ValueError(f"t must be a number, (m,) or (m, r), without NaN; got shape {t.shape}")
        if not np.all(self.target_bandwidth_):
            raise ValueError(
                "all targets are equal: target_bandwidth_ is 0 and there is no density; pass a positive target_bandwidth"
            )
        m = validate.n_rows(self._rows(X))
        if t.ndim and len(t) != m:
            raise ValueError(f"t has {len(t)} rows, X has {m}")
        parts = [mix.log_density(t[i : i + len(mix)] if t.ndim else t) for i, mix in self._mixtures(X)]
        return np.concatenate(parts)

    def sample(self, X, n_samples=1, random_state=None) -> np.ndarray:
        """Draws (m, n_samples) from p(t|x) of one target."""
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be a whole number of at least 1")
        rng = generator(random_state)
        parts = [mixture.sample(rng, int(n_samples)) for _, mixture in self._mixtures(X)]
        return np.concatenate(parts).astype(self.y_fit_.dtype)

    # ------------------------------------------------------------------------------------ the training rows
    @property
    def effective_dof_(self) -> float:
        """Trace of the smoother: the sum of the weights of rows in their own answers."""
        check_is_fitted(self)
        return float(self._fit.own_weights().sum())

    @property
    def loo_residuals_(self) -> np.ndarray:
        """Targets minus what the other rows answer for them, (n,) or (n, p)."""
        check_is_fitted(self)
        return self._shaped(self._targets - self._fit.left_out(self._targets))

    @property
    def loo_score_(self) -> float:
        """R² of the leave-one-out answers, the mean over targets."""
        from sklearn.metrics import r2_score

        check_is_fitted(self)
        Y = self._targets
        return float(r2_score(Y, self._fit.left_out(Y), sample_weight=self.weight_fit_))


def _refuse_negative(values, kernel):
    if values.size and values.min() < 0:
        raise ValueError(
            f"Negative values in data passed to NadarayaWatson: kernel={kernel!r} has negative values, the smallest "
            f"{values.min():.3g}; weights must be >= 0: use a window, or a kernel such as RBF() or Spectrum()"
        )


def _weights_of(found, engine, memory):
    """What computes weights: a window on whitened rows, or kernel values."""
    rows, kernel, w = found["X_fit_"], found["kernel_"], found["weight_fit_"]
    if isinstance(kernel, str) and kernel in SHAPES:
        return _WindowWeights(rows, w, SHAPES[kernel], found["form_"], found["bandwidth_"])
    same = _as_window(kernel) if isinstance(rows, np.ndarray) and rows.ndim == 2 else None
    if same is not None:
        return _WindowWeights(rows, w, *same)
    K = GivenGram(rows) if isinstance(kernel, str) else gram(kernel, rows, engine=engine, memory=memory, validated=True)
    return _KernelWeights(K, w)


def _as_window(kernel: Any) -> tuple[Shape, str, Any] | None:
    """The window that a kernel is, if it has no end: as such its weights are right also where all its values underflow."""
    if not isinstance(kernel, Kernel) or not np.isfinite(getattr(kernel, "lengthscale", np.nan)).all():
        return None
    if type(kernel) is RBF:
        return SHAPES["gaussian"], "radial", kernel.lengthscale if kernel.covariance is None else kernel.covariance
    if type(kernel) is Laplacian:
        return SHAPES["exponential"], "radial" if kernel.metric == "l2" else "product", kernel.lengthscale
    return None


class _WindowWeights:
    """Weights of a window on dense rows. Answers come with the number of queries that a fallback answered for."""

    fallback = "have no row in their window: the nearest training rows answer for them. A larger bandwidth helps"

    def __init__(self, rows, weight, shape, form, bandwidth):
        self.map = Whitening(np.asarray(bandwidth), rows)
        self.Z = self.map.apply(rows)
        self.weight = np.ones(len(rows)) if weight is None else weight
        self.smoother = Smoother(self.Z, np.zeros((len(rows), 1)), shape, form=form, mass=weight)

    def means(self, rows, Y):
        found = self.smoother.with_targets(Y).at(self.map.apply(rows))
        return found.values, int(found.empty.sum())

    def weights(self, rows):
        Z = self.map.apply(rows)
        return self.smoother.weights(Z), int(self.smoother.at(Z).empty.sum()) if self.ends else 0

    @property
    def ends(self):
        return math.isfinite(self.smoother.shape.reach)

    def left_out(self, Y):
        return self.smoother.with_targets(Y).at(self.Z, own=np.arange(len(self.Z)), leave_out=True).values

    def own_weights(self):
        return self.smoother.at(self.Z).own * self.weight / self.weight.max()


class _KernelWeights:
    """Weights of kernel values, some rows of the Gram matrix at a time."""

    fallback = "have kernel values of 0 alone: all training rows answer alike for them. A larger lengthscale helps"

    def __init__(self, K, weight):
        self.K = K
        self.mass = np.ones(K.shape[1]) if weight is None else weight / weight.max()

    def _tiles(self, K, own=False):
        """(first row, weights, rows without any value) of some rows after the others, which `own` leaves out of their own."""
        step = max(1, _ENTRIES // K.shape[1])
        for i in range(0, K.shape[0], step):
            W = K[i : i + step].dense().astype(np.float64)
            _refuse_negative(W, "precomputed" if self.K.kernel is None else self.K.kernel)
            if own:
                W[np.arange(len(W)), np.arange(i, i + len(W))] = 0.0
            W /= np.maximum(W.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
            W *= self.mass
            none = ~(W > 0.0).any(axis=1)
            W[none] = self.mass
            yield i, W / W.sum(axis=1, keepdims=True), int(none.sum())

    def _given(self, rows):
        return GivenGram(rows) if isinstance(self.K, GivenGram) else prepared_gram(self.K, rows)

    def means(self, rows, Y):
        values, lost = zip(*((W @ Y, none) for _, W, none in self._tiles(self._given(rows))), strict=True)
        return np.concatenate(values), sum(lost)

    def weights(self, rows):
        parts, lost = zip(*((W, none) for _, W, none in self._tiles(self._given(rows))), strict=True)
        return np.concatenate(parts), sum(lost)

    def left_out(self, Y):
        return np.concatenate([W @ Y for _, W, _ in self._tiles(self.K, own=True)])

    def own_weights(self):
        return np.concatenate([np.diagonal(W, offset=i) for i, W, _ in self._tiles(self.K)])

"""Gaussian process latent variable models (M21)."""

import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.errors import ConvergenceWarning
from mercer.estimators.base import CONSTRAINTS, dense_rows, engine_of, forget, lazily
from mercer.estimators.charts import Chart
from mercer.estimators.evidence import NOWHERE, Climb, Settings, best_of, value_at
from mercer.estimators.gaussian_methods import noiseless, symmetric
from mercer.estimators.gaussian_process import SEARCH, GaussianProcess, learned_noise, refuse_indefinite, spread
from mercer.estimators.pca import KernelPCA
from mercer.gram import gram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.kernels import RBF, as_kernel
from mercer.kernels.base import require_differentiable_inputs
from mercer.registry import register_estimator
from mercer.solvers.latent import (
    Outputs,
    completed,
    condition,
    functions_of,
    nearest_rows,
    patterns,
    place,
    principal_positions,
)

__all__ = ["GPLVM"]

_MATRICES = 3  # n x n numbers that an evaluation of the evidence with its slope holds, beside factors
_NEAREST = 8  # training rows at whose positions searches for a new one begin
_QUERIES = 256  # new rows at a time
_HELD = 64  # bytes for each pair of a start and a training row, while they are searched for
_SHAKE = 0.5  # standard deviation of where restarts begin, beside that of the positions


@register_estimator
class GPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GaussianProcess):
    r"""Gaussian process latent variable model: rows as noisy smooth functions of positions in a few dimensions.

    .. math:: Y_{ij} = \mu_j + f_j(x_i) + \varepsilon_{ij}, \qquad f_j \sim \mathcal{GP}(0, k), \quad
              \varepsilon_{ij} \sim \mathcal{N}(0, \alpha), \quad x_i \sim \mathcal{N}(0, I)

    The positions, the parameters of the kernel and the noise together maximise the evidence of the rows times the density of the
    positions. With a linear kernel that is probabilistic principal component analysis; other kernels bend the plane.

    Lengthscales stay as they are: how far the positions spread says the same, column by column, and while the prior fixes one, it
    would draw both to 0. `bounds` that name one let it be learned all the same.

    Parameters
    ----------
    n_components : columns of the positions, at most those of the rows.
    kernel : of the positions: a mercer kernel, one of scikit-learn's Gaussian process kernels, or a word. None: RBF(1.0) with a
        learned scale.
    alpha : variance of the noise, a number or "learn": estimated with the kernel, unless that has a `White` term, which then is
        the noise.
    init : where positions begin: "pca", "kernel-pca" (with RBF("median")), or an array (n, n_components).
    back_constraint : None, or a kernel of the rows; then positions are functions in its space, so that near rows have near
        positions, and new rows have theirs at once. Lawrence & Quiñonero-Candela (2006).
    normalize : whether columns are scaled to variance 1; they are centred in any case.
    missing : "raise" refuses NaN; "marginalise" takes it for a missing entry, in the fit and in new rows.
    optimizer, n_restarts_optimizer, max_iter : "fmin_l_bfgs_b", None to keep kernel and positions as they begin, or a function
        as in scikit-learn; further starts at random places around the first; iterations of a search.
    bounds, priors : {parameter: (low, high) or "fixed"}, `alpha` included, and {parameter: distribution with a `logpdf`}.
    random_state : seed of the further starts.
    engine, memory : how and within how many bytes Grams are computed.

    Attributes
    ----------
    embedding_ : positions (n, n_components) of the rows.
    kernel_, alpha_ : the kernel and the variance of the noise that were found, of the columns as they were scaled.
    log_marginal_likelihood_value_ : log evidence of the scaled rows given the positions.
    log_posterior_ : that with the log densities of the positions and of `priors`: what the search maximised.
    trace_, n_iter_, converged_, bounded_ : the value at each evaluation, their number, whether the search ended, and the
        parameters at a bound.
    back_kernel_, back_coef_ : with a back constraint, its kernel and the coefficients of the positions.
    shift_, scale_ : what was subtracted from the columns, and what they were divided by.
    jitter_ : what had to be added to a diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPLVM
    >>> t = np.linspace(0, 3, 30)
    >>> rows = np.column_stack([np.cos(t), np.sin(t), t])
    >>> model = GPLVM(1).fit(rows)
    >>> order = np.argsort(model.embedding_[:, 0])
    >>> bool(np.all(order == np.arange(30)) or np.all(order == np.arange(30)[::-1]))
    True
    >>> bool(np.abs(model.inverse_transform(model.embedding_) - rows).max() < 0.05)
    True

    Lawrence (2005), Probabilistic non-linear principal component analysis with Gaussian process latent variable models.
    """

    _kernel_names = ("kernel", "back_constraint")
    _parameter_constraints = {
        **{name: allowed for name, allowed in SEARCH.items() if name != "ard"},
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "kernel": [str, callable, None],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"learn"})],
        "init": [StrOptions({"pca", "kernel-pca"}), "array-like"],
        "back_constraint": [str, callable, None],
        "normalize": ["boolean"],
        "missing": [StrOptions({"raise", "marginalise"})],
        "engine": CONSTRAINTS["engine"],
        "memory": CONSTRAINTS["memory"],
    }

    def __init__(self, n_components=2, *, kernel=None, alpha="learn", init="pca", back_constraint=None, normalize=False,
                 missing="raise", optimizer="fmin_l_bfgs_b", n_restarts_optimizer=0, bounds=None, priors=None, max_iter=2000,
                 random_state=None, engine=None, memory=None):  # fmt: skip
        self.n_components = n_components
        self.kernel = kernel
        self.alpha = alpha
        self.init = init
        self.back_constraint = back_constraint
        self.normalize = normalize
        self.missing = missing
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.bounds = bounds
        self.priors = priors
        self.max_iter = max_iter
        self.random_state = random_state
        self.engine = engine
        self.memory = memory

    # ------------------------------------------------------------------------------------ fitting
    def fit(self, X, y=None) -> "GPLVM":
        """Find positions for rows X (n, d). y is ignored."""
        self._validate_params()
        validate.memory_bytes(self.memory)
        forget(self)
        self._refuse_precomputed()
        rows, self.dtype_ = self._rows(X, reset=True)
        T = self._targets(rows)
        self._require_memory(T)
        start = self._first(T)
        kernel = self._start(start, spread(T))
        noise, extra = learned_noise(kernel, T) if isinstance(self.alpha, str) else (float(self.alpha), {})
        places = self._places(T, start)
        found = _ascend(self._evidence(noise, T), kernel, places, extra, self._settings(kernel, extra))
        self._store(found, places, noise, T)
        found.tell()
        return self

    def _rows(self, X, reset=False):
        """Validated rows in float64, and the precision that they came in."""
        if reset:
            rows = validate.training(self, X, None, None, "gaps")[0]
            self.takes_gaps_ = self.missing == "marginalise"
            self._refuse(rows)
        else:
            rows = validate.prediction(self, X, "gaps")
        T = dense_rows(rows, self.memory)
        if not self.takes_gaps_ and np.isnan(T).any():
            raise ValueError('X contains NaN; missing="marginalise" takes it for missing entries')
        return T, rows.dtype

    def _refuse(self, rows):
        n, d = rows.shape
        if n < 2:
            raise ValueError(f"n_samples={n}: positions need two rows at least")
        if self.n_components > d:
            raise ValueError(f"n_components={self.n_components} is more than the n_features={d} columns of X; positions have at "
                             "most as many")  # fmt: skip

    def _require_memory(self, T):
        """Every pattern of missing entries has a factor, and a back constraint all its functions and their coefficients."""
        n, several = len(T), len(patterns(T))
        matrices = _MATRICES + several + (2 if self.back_constraint is not None else 0)
        what = f"GPLVM of {n} rows" + (f" with {several} patterns of missing entries" if several > 1 else "")
        require(8 * matrices * n * n, budget(self.memory), what, ["fewer rows", 'a larger budget, memory="64GB"'])

    def _targets(self, rows):
        """Centred columns, scaled if asked for."""
        gaps = np.isnan(rows)
        if gaps.all(axis=0).any():
            raise ValueError(f"column {int(gaps.all(axis=0).argmax())} of X holds NaN alone; drop it")
        if gaps.any() and self.back_constraint is not None:
            raise ValueError("X holds NaN, but back_constraint reads whole rows; use back_constraint=None")
        with np.errstate(over="ignore", invalid="ignore"):
            shift = np.nanmean(rows, axis=0)
            width = np.nanstd(rows, axis=0)
            if not np.isfinite(width).all():
                raise ValueError("X holds numbers whose squares overflow; rescale the columns")
        self.shift_ = shift
        self.scale_ = np.where(width > 0, width, 1.0) if self.normalize else np.ones(len(shift))
        return self._scaled(rows)

    def _scaled(self, rows):
        return (rows - self.shift_) / self.scale_ + 0.0  # -0.0 and 0.0 are one value

    def _first(self, T):
        """Positions to begin with; those by components have a first column of mean square 1."""
        n, k = len(T), self.n_components
        if not isinstance(self.init, str):
            X = dense_rows(validate.vectors(self.init, "init"), self.memory)
            if X.shape != (n, k):
                raise ValueError(f"init has shape {X.shape}, but the positions of {n} rows have {(n, k)}")
            return X
        whole = completed(T, k)
        X = principal_positions(whole, k) if self.init == "pca" else self._by_kernel_components(whole)
        size = np.sqrt(np.square(X[:, 0]).mean())
        return X / size if size > 0 else X

    def _by_kernel_components(self, T):
        X = np.zeros((len(T), self.n_components))
        found = KernelPCA(
            self.n_components, kernel=RBF("median"), engine=engine_of(self), memory=self.memory, random_state=0
        )
        components = found.fit_transform(T)
        X[:, : components.shape[1]] = components
        return X

    def _kernel(self):
        return RBF(1.0) if self.kernel is None else super()._kernel()

    def _start(self, rows, scale):
        kernel = self._kernel()
        require_differentiable_inputs(kernel)
        kernel = kernel._resolved(rows, None)
        refuse_indefinite(kernel, rows)
        return scale * kernel if self.kernel is None else kernel

    def _settings(self, kernel, extra):
        found = super()._settings(kernel, extra)
        named = self.bounds or {}
        kept = [n for n in kernel.differentiable if n.split("__")[-1] == "lengthscale" and n not in named]
        return replace(found, fixed=(*found.fixed, *kept))

    def _places(self, T, start):
        if self.back_constraint is None:
            return _Places(start)
        try:
            kernel = as_kernel(self.back_constraint)._resolved(T, None)
            refuse_indefinite(kernel, T)
        except (TypeError, ValueError) as error:
            raise type(error)(f"back_constraint: {error}") from None
        self.back_kernel_ = kernel
        K = gram(kernel, T, engine=engine_of(self), memory=self.memory, validated=True)
        return _Functions(start, functions_of(symmetric(K)))

    @staticmethod
    def _evidence(noise, T):
        groups = patterns(T)

        def evaluate(K, extra, slope):
            found = condition(symmetric(K), noise * extra.get("alpha", 1.0), T, groups, warn=False)
            if not slope:
                return found.evidence, None, {}
            W = found.slope(overwrite=True)
            return found.evidence, W, {"alpha": noise * float(np.trace(W))} if "alpha" in extra else {}

        return evaluate

    def _store(self, found, places, noise, T):
        self.kernel_, self.X_fit_ = found.kernel, places.rows(found.z[: len(places)])
        self._gram = gram(self.kernel_, self.X_fit_, engine=engine_of(self), memory=self.memory, validated=True)
        self.bounded_, self.converged_ = found.at_bounds, found.converged
        self.trace_, self.n_iter_ = np.array(found.trace), max(1, len(found.trace))
        self.log_posterior_ = found.value
        self.alpha_, self.targets_ = noise * found.extra.get("alpha", 1.0), T
        if isinstance(places, _Functions):
            self.back_coef_ = places.coefficients(found.z[: len(places)])
        self._fit = self._conditioned()
        self.log_marginal_likelihood_value_, self.jitter_ = self._fit.evidence, self._fit.jitter
        self.solver_used_ = "exact"

    def _conditioned(self):
        return condition(symmetric(self._gram), self.alpha_, self.targets_, patterns(self.targets_))

    # ------------------------------------------------------------------------------------ answers
    @property
    def _posterior(self) -> Outputs:
        """The factors are not kept in files: they are made again."""
        if not hasattr(self, "_fit"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # told at the fit
                self._fit = self._conditioned()
        return self._fit

    @property
    def embedding_(self) -> np.ndarray:
        """Positions (n, n_components) of the rows."""
        check_is_fitted(self)
        return self.X_fit_.astype(self.dtype_)

    def fit_transform(self, X, y=None) -> np.ndarray:
        """Fit, and the positions of the rows fitted on."""
        return self.fit(X).embedding_

    @lazily
    def transform(self, X) -> np.ndarray:
        """Positions (m, n_components) of rows: the most probable ones, given the model; those of training rows are known.

        With a back constraint, the values of its functions.
        """
        check_is_fitted(self)
        rows, dtype = self._rows(X)
        T = self._scaled(rows)
        if hasattr(self, "back_coef_"):
            K = gram(self.back_kernel_, self.targets_, engine=engine_of(self), memory=self.memory, validated=True)
            return (prepared_gram(K, T) @ self.back_coef_).astype(dtype)
        known = _places_of(T, self.targets_)
        out, new = self.X_fit_[known], np.flatnonzero(known < 0)
        if len(new):
            out[new] = self._searched(T[new])
        return out.astype(dtype)

    def _searched(self, T):
        """The most probable positions of new scaled rows, some rows at a time."""
        step = int(min(_QUERIES, max(1, budget(self.memory) // (_HELD * _NEAREST * len(self.X_fit_)))))
        parts = []
        for i in range(0, len(T), step):
            some = T[i : i + step]
            starts = self.X_fit_[nearest_rows(some, self.targets_, _NEAREST)]
            parts.append(place(self._gram, self._posterior, self.alpha_, some, starts))
        positions, rest = (np.concatenate(p) for p in zip(*parts, strict=True))
        if not rest.all():
            warnings.warn(f"the search for positions of {(~rest).sum()} of {len(T)} new rows did not come to rest; they may be "
                          "less exact", ConvergenceWarning, stacklevel=4)  # fmt: skip
        return positions

    def inverse_transform(self, X, return_std=False, noise=False):
        """Rows (m, d) to expect at positions X (m, n_components), and if asked for their standard deviations.

        With `noise` deviations are those of rows, else of the functions.
        """
        check_is_fitted(self)
        Z = validate.vectors(X, "X")
        if Z.shape[1] != self.X_fit_.shape[1]:
            raise ValueError(f"X has {Z.shape[1]} columns, but positions have {self.X_fit_.shape[1]}")
        dtype, Z = Z.dtype, dense_rows(Z, self.memory)
        parts = [self._expected(Z[some], return_std, noise) for some in self._groups(Z)]
        mean = (np.concatenate([p[0] for p in parts]) * self.scale_ + self.shift_).astype(dtype)
        if not return_std:
            return mean
        return mean, (np.sqrt(np.concatenate([p[1] for p in parts])) * self.scale_).astype(dtype)

    def _expected(self, Z, variance, noise):
        """Means and variances (m, d) of scaled columns."""
        K = prepared_gram(self._gram, Z).dense()
        mean = self._posterior.mean(K)
        if not variance:
            return mean, None
        kernel = self.kernel_ if noise else noiseless(self.kernel_)
        own = gram(kernel, Z, engine=engine_of(self), memory=self.memory, validated=True).diag().astype(np.float64)
        return mean, self._posterior.variance(K, own) + (self.alpha_ if noise else 0.0)

    def impute(self) -> np.ndarray:
        """The rows of the fit, with what is to be expected in place of missing entries."""
        check_is_fitted(self)
        rows = self.targets_ * self.scale_ + self.shift_
        return np.where(np.isnan(rows), self.inverse_transform(self.X_fit_), rows).astype(self.dtype_)

    # ------------------------------------------------------------------------------------ scikit-learn
    @property
    def _known_rows(self):
        return self.targets_ * self.scale_ + self.shift_

    @property
    def _n_features_out(self):
        return self.X_fit_.shape[1]

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "marginalise"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# ------------------------------------------------------------------------------------------------ the search
class _Places:
    """Positions as entries of a search."""

    def __init__(self, X):
        self.shape, self.start = X.shape, X.ravel()

    def __len__(self):
        return len(self.start)

    def rows(self, z):
        return z.reshape(self.shape)

    def slope(self, G):
        return G.ravel()

    def scattered(self, rng):
        size = np.sqrt(np.square(self.start).mean())
        return self.start + _SHAKE * size * rng.standard_normal(len(self.start))


class _Functions(_Places):
    """Positions that are functions in the space of a kernel, by their coefficients on functions of norm 1."""

    def __init__(self, X, functions):
        self.functions = functions
        nearest = functions.coefficients.T @ X  # the functions are orthogonal on the rows
        super().__init__(nearest)

    def rows(self, z):
        return self.functions.values @ z.reshape(self.shape)

    def slope(self, G):
        return (self.functions.values.T @ G).ravel()

    def coefficients(self, z):
        return self.functions.coefficients @ z.reshape(self.shape)


class _Ascent:
    """Positions first, then parameters, as one vector of a search: what `best_of` needs of a chart, and the objective."""

    def __init__(self, evaluate, chart, places, extra, settings: Settings):
        self.evaluate, self.chart, self.places, self.extra, self.settings = evaluate, chart, places, extra, settings
        self.start = np.concatenate([places.start, chart.start])
        self.trace: list[float] = []

    def __len__(self):
        return len(self.start)

    rows = ()  # among what a chart moves

    def bounds(self):
        return [(None, None)] * len(self.places) + self.chart.bounds()

    def several(self):
        return False  # positions have no parameter that could be moved first

    def scattered(self, rng, start):
        return np.concatenate([self.places.scattered(rng), self.chart.scattered(rng)])

    def split(self, z):
        """Positions and parameters."""
        return self.places.rows(z[: len(self.places)]), z[len(self.places) :]

    def value(self, z, slope=True):
        """Evidence, positions' and parameters' log densities together, and their slope."""
        X, theta = self.split(z)
        by_rows = np.zeros_like(X)

        def with_density(K, now, slope):
            value, W, by_extra = self.evaluate(K, now, slope)
            if slope:
                by_rows[...] = K.pullback_inputs(W) - X
            return value - 0.5 * float(np.square(X).sum() + X.size * np.log(2 * np.pi)), W, by_extra

        value, by_theta = value_at(with_density, self.chart, X, self.extra, self.settings, theta, slope)
        return value, np.concatenate([self.places.slope(by_rows), by_theta]) if slope else None

    def objective(self, z):
        value, slope = self.value(z)
        self.trace.append(value)
        return (-value, -slope) if np.isfinite(value) else (NOWHERE, np.zeros(len(z)))


def _ascend(evaluate, kernel, places, extra, settings) -> Climb:
    """Maximise evaluate(Gram, extra), as in `climb`, and the positions' log density: in positions and parameters together."""
    names = [n for n in kernel.differentiable if n not in settings.fixed]
    chart = Chart(kernel, names, {n: v for n, v in extra.items() if n not in settings.fixed}, settings.limits)
    ascent = _Ascent(evaluate, chart, places, extra, settings)
    found = None if settings.optimizer is None else best_of(ascent.objective, ascent, settings)
    z = ascent.start if found is None else found.x
    theta = ascent.split(z)[1]
    return Climb(
        chart.kernel_at(theta), {**extra, **chart.extra_at(theta)}, ascent.value(z, slope=False)[0], z, chart, ascent.trace,
        [] if found is None else chart.at_bounds(theta), found is None or bool(found.success),
        "" if found is None else str(found.message), "the positions",
    )  # fmt: skip


def _places_of(rows, known):
    """For each row the number of the first known row that equals it, gaps included, or -1."""
    seen = {row.tobytes(): i for i, row in reversed(list(enumerate(np.nan_to_num(known, nan=np.inf))))}
    return np.array([seen.get(row.tobytes(), -1) for row in np.nan_to_num(rows, nan=np.inf)], dtype=np.intp)

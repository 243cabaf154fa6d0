"""A Gaussian process with an additive kernel, taken apart: f = f_1 + f_2 + ..., each with its posterior (M22)."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.estimators.base import engine_of
from mercer.estimators.gaussian_process import GaussianProcessRegressor
from mercer.gram import gram, prepared_gram
from mercer.gram.plan import budget, require
from mercer.kernels import Product, Scaled, Sum, White
from mercer.kernels.algebra import Centre, Named, On, Times, Warp

__all__ = ["Component", "additive_parts", "decompose", "shown"]

_LINEAR = (Centre, On, Times, Warp)  # what is done to a sum is done to each of its terms


@dataclass(frozen=True, eq=False)
class Component:
    """A term of the function: its kernel, "mean" or "level" as a name, and its posterior at the rows asked for.

    kernel : the term of the kernel; None for the mean functions and the level. mean, sd : (m,) or (m, p).
    """

    name: str
    kernel: Any
    mean: np.ndarray
    sd: np.ndarray


def decompose(model: GaussianProcessRegressor, X, *, centred=False) -> list[Component]:
    r"""Posteriors at rows X of the terms of a fitted Gaussian process whose kernel is a sum.

    .. math:: \mathrm{E}[f_i(x)] = k_i(x, X) A, \qquad \mathrm{Var}[f_i(x)] = k_i(x, x) - k_i(x, X) P k_i(X, x)

    with the coefficients A and the matrix P of the whole. Products and scales of sums are multiplied out; a kernel under a
    name, `k.named("trend")`, stays one term. The means add up to the prediction. The variances do not add up to its variance:
    terms that could take over one another's part are uncertain each, but not their sum. Terms of white noise are left out. The
    mean functions, if there are any, are a term of their own, and come first.

    centred : whether the average over the rows of X is taken from each term, and put into a first one, the "level". Data seldom
        say which term a constant belongs to; without it they are known far better. Takes m x m numbers for m rows.

    >>> import numpy as np
    >>> from mercer import GaussianProcessRegressor, decompose
    >>> from mercer.kernels import RBF, Periodic
    >>> x = np.linspace(0, 10, 40)[:, None]
    >>> y = 0.1 * x[:, 0] ** 2 + np.sin(2 * np.pi * x[:, 0])
    >>> model = GaussianProcessRegressor(10.0 * RBF(5.0) + Periodic(1.0), alpha=1e-4, optimizer=None).fit(x, y)
    >>> [c.name for c in decompose(model, x)]
    ['mean', '10.0 * RBF(lengthscale=5.0)', 'Periodic()']

    Duvenaud (2014), Automatic model construction with Gaussian processes, section 2.4.5.
    """
    if not isinstance(model, GaussianProcessRegressor):
        raise TypeError(
            f"decompose needs a GaussianProcessRegressor, got {type(model).__name__}: others have no posterior"
        )
    check_is_fitted(model)
    if model.solver_used_ != "exact":
        raise ValueError(
            f'decompose needs a posterior in closed form, and this one is {model.solver_used_}; use method="exact"'
        )
    rows, dtype = model._asked(X)
    terms = [(_title(k), k, *_term(model, k, rows, centred)) for k in additive_parts(model.kernel_)]
    varies = callable(model.mean_) or model.mean_ == "linear"
    if varies or (not centred and (model.mean_ == "constant" or model.normalize_y)):
        values, variance = _term(model, None, rows, centred)
        terms.insert(0, ("mean", None, values if centred else values + model.y_shift_, variance))
    if centred:
        values = model._mean_of(rows, np.float64).reshape(validate.n_rows(rows), -1)
        variance = model._covariance(rows, noise=False).mean()
        terms.insert(0, ("level", None, 0 * values + values.mean(axis=0), np.full(len(values), variance)))
    return [Component(name, kernel, *_shaped(model, mean, variance, dtype)) for name, kernel, mean, variance in terms]


def _title(kernel):
    return kernel.label if isinstance(kernel, Named) else shown(kernel)


def _term(model, kernel, rows, centred):
    """Means (m, p) in the units of the targets, and variances (m,) in those of the fit, of one term."""
    n = validate.n_rows(rows)
    if centred:
        require(24 * n * n, budget(model.memory), f"the covariance of {n} rows", ["fewer rows", "centred=False"])
    groups = [np.arange(n)] if centred else model._groups(rows)
    parts = [_moments(model, kernel, validate.take(rows, some), pairs=centred) for some in groups]
    values, second = (np.concatenate(p) for p in zip(*parts, strict=True))
    if not centred:
        return values * model.y_scale_, second
    means = second.mean(axis=0)
    variance = np.maximum(np.diagonal(second) - 2 * means + means.mean(), 0.0)
    return (values - values.mean(axis=0)) * model.y_scale_, variance


def _moments(model, kernel, rows, pairs):
    """Posterior mean and variances (m,), or covariance (m, m), of a term; `kernel` None: of the mean functions."""
    H, m = model._mean_functions(rows), validate.n_rows(rows)
    if kernel is None:
        K, own = np.zeros((m, validate.n_rows(model.X_fit_))), np.zeros((m, m) if pairs else m)
    else:
        H = np.zeros_like(H)
        options = {"engine": engine_of(model), "memory": model.memory, "validated": True}
        new, train = gram(kernel, rows, **options), gram(kernel, model.X_fit_, **options)
        K, own = prepared_gram(train, rows).dense(), new.dense() if pairs else new.diag()
    K, own = (a.astype(np.float64, copy=False) for a in (K, own))
    return model._posterior.mean(K, H), model._posterior.covariance(K, own, H)


def _shaped(model, mean, variance, dtype):
    """Means (m, p) and standard deviations as predictions have them."""
    sd = np.sqrt(variance)[:, None] * model.y_scale_
    return tuple((a[:, 0] if model.single_output_ else a).astype(dtype) for a in (mean, sd))


def additive_parts(kernel) -> list:
    """Kernels whose sum is the kernel, products and scales of sums multiplied out, without white noise.

    >>> from mercer.kernels import RBF, Linear, Periodic
    >>> additive_parts(2.0 * (RBF() + Linear()) * Periodic())
    [2.0 * RBF() * Periodic(), 2.0 * Linear() * Periodic()]
    """
    return [term for term in _terms(kernel) if not _noise(term)]


def _terms(kernel):
    if isinstance(kernel, Sum):
        return [term for part in kernel.children for term in _terms(part)]
    if isinstance(kernel, (Scaled, *_LINEAR)):
        return [kernel.rebuild((term,)) for term in _terms(kernel.kernel)]
    if isinstance(kernel, Product):
        choices = list(product(*[_terms(part) for part in kernel.children]))
        return [kernel] if len(choices) == 1 else [Product(chosen) for chosen in choices]
    return [kernel]


def _noise(term):
    """Whether a term is white noise, or a product with it: 0 between different rows."""
    if isinstance(term, White):
        return True
    if isinstance(term, (Scaled, *_LINEAR)):
        return _noise(term.kernel)
    return isinstance(term, Product) and any(_noise(part) for part in term.children)


def shown(kernel) -> str:
    """A kernel as it is printed, its numbers to four digits."""
    values = {name: kernel.get_params()[name] for name in kernel.differentiable}
    return repr(kernel.replace(**{name: _rounded(v) for name, v in values.items() if not isinstance(v, str)}))


def _rounded(value):
    found = np.array([float(f"{v:.4g}") for v in np.ravel(np.asarray(value, float))]).reshape(np.shape(value))
    return float(found) if found.ndim == 0 else found

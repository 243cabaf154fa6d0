"""A fitted machine made smaller: the same predictions, nearly, from fewer vectors (X1)."""

import time
import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from mercer import validate
from mercer.approx import REDUCTIONS, REFITS, reduce_set
from mercer.errors import ConvergenceWarning, NanError, NotPSDError, NumericalWarning
from mercer.estimators.expansion import Expansion, _bytes
from mercer.gram import gram
from mercer.gram.plan import human_bytes
from mercer.linalg import Status
from mercer.random import generator
from mercer.registry import register_record

__all__ = ["Compression", "compress"]


@register_record
@dataclass(frozen=True)
class Compression:
    """What `compress` did.

    n_vectors, n_before : vectors of the copy and of the model. method : how they were found; "none" where the model had not
        more than were asked for.
    error : distance of the functions in feature space, relative to their length, over all functions of the model.
    jitter : what was added to the diagonal of the vectors' Gram before it was solved with.
    n_iter, converged, seconds : steps of the search, whether it came to rest, and the time of it all.
    bytes_before, bytes_after : of vectors and coefficients. score_before, score_after : on X, y; None if they were not given.
    """

    n_vectors: int
    n_before: int
    method: str
    error: float
    jitter: float
    n_iter: int
    converged: bool
    seconds: float
    bytes_before: int
    bytes_after: int
    score_before: float | None = None
    score_after: float | None = None

    def __str__(self):
        scores = "" if self.score_after is None else f"; score {self.score_before:.4f} -> {self.score_after:.4f}"
        return (
            f"{self.n_before} -> {self.n_vectors} vectors ({self.method}), {human_bytes(self.bytes_before)} -> "
            f"{human_bytes(self.bytes_after)}, relative error {self.error:.3g}{scores}"
        )


def compress(model, n_vectors=100, method="gradient", *, refit="values", X=None, y=None, random_state=None, max_iter=300,
             memory=None, verbose=False) -> Any:  # fmt: skip
    r"""A copy of a fitted model whose functions are sums over fewer vectors, and which therefore predicts faster.

    The vectors z, the same for all functions (classes, pairs of classes, targets, components), make
    :math:`\sum_j \lVert f_j - \sum_i c_{ij} k(z_i, \cdot) \rVert^2` small; intercepts stay. The model is not changed.

    Parameters
    ----------
    model : a fitted kernel expansion: ridge, support, L1, L2 and relevance vector machines, logistic regression,
        perceptron, components, discriminant, k-means, kernel machines, and densities of Gaussian or exponential windows of one
        bandwidth, whose weights stay positive and sum to 1. Its kernel must be certified positive semi-definite, since other
        kernels have no norm.
    n_vectors : how many at most, or a fraction of the model's.
    method : "kmeans" takes means of the model's vectors; "greedy" chooses among these, one by one the one that helps most
        (anything a kernel reads); "gradient" moves the better of both to where the error no longer falls (dense rows, kernels
        with a gradient).
    refit : how the coefficients c are fitted to the vectors found: "values" brings the values at the model's own vectors nearest,
        which predictions gain by; "norm" makes the distance above smallest.
    X, y : rows and targets on which both models are scored; X alone for a density.
    random_state : of k-means. max_iter : steps of "gradient" at most. memory : as of estimators. verbose : print the progress.

    Returns
    -------
    A fitted estimator of the same class with `compression_`, a `Compression`. `X_fit_`, the coefficients and `expansion_` are
    new, `solver_used_` is "compressed"; what only the rows of the fit can answer (`support_`, leave-one-out, `partial_fit`)
    is gone; other records of the fit are those of the model. A refit forgets the compression.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVC, compress
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 2))
    >>> y = np.hypot(*X.T) > 1.2
    >>> model = SVC(C=10).fit(X, y)
    >>> small = compress(model, 10, X=X, y=y, random_state=0)
    >>> small.compression_.n_vectors, bool(small.compression_.score_after > 0.97)
    (10, True)

    Burges (1996); Schölkopf et al. (1999).
    """
    began = time.monotonic()
    expansion = _expansion(model)
    _check(method, refit, max_iter, memory)
    scored = _scorer(model, X, y)
    k = _count(n_vectors, expansion.n_vectors)
    if k >= expansion.n_vectors:
        said = f"n_vectors={n_vectors!r} is not less than the {expansion.n_vectors} vectors of the model"
        warnings.warn(f"{said}: the copy is equal to it", NumericalWarning, stacklevel=2)
        return _copied(model, expansion, scored, began)
    rows, A = _taking_part(expansion)
    model._with_expansion(validate.take(rows, [0]), A[:1])  # refuses before the search what cannot take its result
    own = getattr(model, "memory", None)
    room = {"engine": getattr(model, "engine", None), "memory": own if memory is None else memory}
    search = {"rng": generator(random_state), "max_iter": max_iter, "callback": _printing(verbose)}
    masses = getattr(model, "_coefficients_are_masses", False)
    K = gram(expansion.kernel, rows, validated=True, **room)
    found = reduce_set(K, A, k, method, refit=refit, masses=masses, **search)
    _warn(found, max_iter)
    new = model._with_expansion(found.centres, found.coefficients.astype(expansion.coefficients.dtype))
    small, seconds = new.expansion_, time.monotonic() - began
    new.compression_ = Compression(
        small.n_vectors, expansion.n_vectors, method, found.error, found.jitter, found.iterations,
        found.status is Status.CONVERGED, seconds, _size(expansion), _size(small), scored(model), scored(new),
    )  # fmt: skip
    if verbose:
        print(new.compression_)
    return new


# ------------------------------------------------------------------------------------------------ what comes in
def _expansion(model) -> Expansion:
    """The expansion of a model that can be compressed."""
    who = type(model).__name__
    for needed, why in (("expansion_", "is no kernel expansion"), ("_with_expansion", "cannot take another expansion")):
        if isinstance(model, type) or not hasattr(type(model), needed):
            raise TypeError(
                f"{who} {why}: it has no {needed}; compress takes KernelRidge, SVC, KernelLogistic, KernelPCA and others"
            )
    check_is_fitted(model)
    if isinstance(getattr(model, "kernel_", None), str):
        raise ValueError(
            'kernel="precomputed" has no rows and no kernel to make new values with; fit with rows and a kernel'
        )
    try:
        expansion = model.expansion_
    except AttributeError as error:
        raise TypeError(f"this {who} cannot be compressed: {error}") from None
    validity = expansion.kernel.validity
    if not validity.certified:
        raise NotPSDError(
            f"{expansion.kernel!r} is not certified positive semi-definite ({validity.reason}), so that the distance of two "
            "expansions need not exist; fit with a kernel that is"
        )
    if not np.isfinite(expansion.coefficients).all():
        raise NanError(f"the coefficients of this {who} are not finite")
    return expansion


def _check(method, refit, max_iter, memory):
    for name, word, words in (("method", method, REDUCTIONS), ("refit", refit, REFITS)):
        if word not in words:
            raise ValueError(f"{name}={word!r} must be one of {', '.join(words)}")
    if not isinstance(max_iter, Integral) or isinstance(max_iter, bool) or max_iter < 1:
        raise ValueError(f"max_iter={max_iter!r} must be an integer >= 1")
    validate.memory_bytes(memory)


def _count(n_vectors, n):
    """How many vectors are asked for."""
    if isinstance(n_vectors, Integral) and not isinstance(n_vectors, bool) and n_vectors >= 1:
        return int(n_vectors)
    if isinstance(n_vectors, Real) and not isinstance(n_vectors, Integral) and 0 < n_vectors < 1:
        return max(1, round(float(n_vectors) * n))
    raise ValueError(f"n_vectors={n_vectors!r} must be an integer >= 1 or a fraction between 0 and 1")


def _scorer(model, X, y):
    """The score of a model on X, y; None if they were not given."""
    if X is None and y is None:
        return lambda model: None
    alone = get_tags(model).estimator_type == "density_estimator"
    if X is None or (y is None and not alone):
        raise ValueError("X and y are scored together: pass both or neither")
    if not hasattr(model, "score"):
        raise TypeError(f"{type(model).__name__} has no score; leave X and y out")
    return lambda model: float(model.score(X, y))


def _taking_part(expansion):
    """Rows with a coefficient that is not 0, and these coefficients."""
    index = np.flatnonzero(np.any(expansion.coefficients != 0, axis=1))
    whole = len(index) == len(expansion.coefficients)
    rows = expansion.centres if whole else validate.take(expansion.centres, index)
    return rows, expansion.coefficients[index]


# ------------------------------------------------------------------------------------------------ what goes out
def _copied(model, expansion, scored, began):
    """A copy of a model that is small enough."""
    new = object.__new__(type(model))
    vars(new).update(vars(model))
    score, size, n = scored(model), _size(expansion), expansion.n_vectors
    new.compression_ = Compression(n, n, "none", 0.0, 0.0, 0, True, time.monotonic() - began, size, size, score, score)
    return new


def _size(expansion):
    return _bytes(expansion.centres) + expansion.coefficients.nbytes


def _warn(found, max_iter):
    if found.status is Status.CONVERGED:
        return
    why = f"the vectors still moved after max_iter={max_iter} steps"
    if found.status is Status.STAGNATED:
        why = f"the kernel overflowed after {found.iterations} steps, and the best vectors before that were taken"
    warnings.warn(f"{why}; the relative error is {found.error:.3g}", ConvergenceWarning, stacklevel=3)


def _printing(verbose, every=0.5):
    """What `verbose` prints of a search: a line of progress every so many seconds."""
    began = due = time.monotonic()

    def told(iteration, error):
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + every
            print(f"{now - began:6.1f} s  step {iteration}  relative error {error:.4g}", flush=True)

    return told if verbose else None

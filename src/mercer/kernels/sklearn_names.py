"""scikit-learn's kernel words and their meanings there, in one place."""

import math
from collections.abc import Callable

from mercer.kernels.base import Kernel
from mercer.kernels.columns import AdditiveChi2, Chi2
from mercer.kernels.products import Cosine, Linear, Polynomial, Sigmoid
from mercer.kernels.radial import RBF, Laplacian
from mercer.kernels.sklearn_gp import from_sklearn, is_sklearn_kernel
from mercer.kernels.user import Pairwise

__all__ = ["WORDS", "as_kernel"]


def _rbf(gamma, **_):
    return RBF(lengthscale=gamma if isinstance(gamma, str) else math.sqrt(0.5 / gamma) if gamma > 0 else math.inf)


def _laplacian(gamma, **_):
    return Laplacian(
        lengthscale=gamma if isinstance(gamma, str) else 1.0 / gamma if gamma > 0 else math.inf, metric="l1"
    )


def _chi2(gamma, **_):
    return Chi2(gamma=1.0 if isinstance(gamma, str) else gamma)


def _poly(gamma, degree, coef0):
    return Polynomial(degree=degree, gamma=gamma, coef0=coef0)


_BUILDERS: dict[str, Callable[..., Kernel]] = {
    "linear": lambda **_: Linear(),
    "poly": _poly,
    "polynomial": _poly,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "sigmoid": lambda gamma, coef0, **_: Sigmoid(gamma=gamma, coef0=coef0),
    "cosine": lambda **_: Cosine(),
    "chi2": _chi2,
    "additive_chi2": lambda **_: AdditiveChi2(),
}
WORDS = (*_BUILDERS, "precomputed")


def as_kernel(kernel, *, gamma=None, degree=3, coef0=1.0, **_) -> Kernel:
    """Kernel object of what an estimator was given: a kernel, one of scikit-learn's words or Gaussian process kernels, or a
    function of two rows.

    `gamma=None` means 1 / n_features, as in scikit-learn's pairwise kernels; "scale" and "auto" as in its SVMs.

    >>> as_kernel("rbf", gamma=0.5)
    RBF()
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel not in _BUILDERS:
            raise ValueError(
                f"kernel={kernel!r} is not known; the words are {', '.join(WORDS)}, or pass a kernel such as RBF(0.3)"
            )
        return _BUILDERS[kernel](gamma="auto" if gamma is None else gamma, degree=degree, coef0=coef0)
    if is_sklearn_kernel(kernel):
        return from_sklearn(kernel)[0]
    if callable(kernel):
        return Pairwise(kernel)
    raise TypeError(f"kernel={kernel!r} must be a mercer kernel, a word or a function of two rows")

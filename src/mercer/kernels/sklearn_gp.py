"""scikit-learn's Gaussian process kernels as mercer kernels."""

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.products import Constant, Linear, White
from mercer.kernels.radial import RBF, Matern, Periodic, RationalQuadratic

__all__ = ["from_sklearn", "is_sklearn_kernel"]


def is_sklearn_kernel(kernel) -> bool:
    """Whether it is one of scikit-learn's, without importing that."""
    return any(c.__module__ == "sklearn.gaussian_process.kernels" for c in type(kernel).__mro__)


def from_sklearn(kernel) -> tuple[Kernel, dict]:
    """The same kernel of mercer, and its parameters' bounds by name: (low, high) or "fixed".

    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from_sklearn(RBF(0.3, "fixed") + WhiteKernel(0.1))[0]
    RBF(lengthscale=0.3) + White(variance=0.1)
    """
    found, bounds = _convert(kernel)
    if len(bounds) != len(found.differentiable):
        raise ValueError(f"{kernel!r} has parameters that are not learned in {found!r}; pass that kernel instead")
    return found, dict(zip(found.differentiable, bounds, strict=True))


def _convert(kernel):
    """A kernel, and bounds in the order of its parameters."""
    name = type(kernel).__name__
    if name in ("Sum", "Product"):
        (a, first), (b, second) = _convert(kernel.k1), _convert(kernel.k2)
        return (a + b if name == "Sum" else a * b), first + second
    if name == "Exponentiation":
        inner, bounds = _convert(kernel.kernel)
        return inner**kernel.exponent, bounds
    if name not in _LEAVES:
        known = ", ".join(sorted([*_LEAVES, "Sum", "Product", "Exponentiation"]))
        raise ValueError(f"{name} of scikit-learn has no counterpart here; known are {known}")
    return _LEAVES[name](kernel)


def _range(bounds, change=lambda v: v):
    if isinstance(bounds, str):
        return bounds
    pairs = np.unique(np.atleast_2d(np.asarray(bounds, np.float64)), axis=0)
    if len(pairs) > 1:
        raise ValueError(f"bounds that differ from column to column have no counterpart here, got {np.asarray(bounds).tolist()}; "
                         "give one pair for all columns")  # fmt: skip
    low, high = pairs[0]
    return float(change(low)), float(change(high))


def _scalar(value):
    return float(value) if np.ndim(value) == 0 else np.asarray(value, np.float64)


def _constant(k):
    return Constant(k.constant_value), [_range(k.constant_value_bounds)]


def _white(k):
    return White(k.noise_level), [_range(k.noise_level_bounds)]


def _rbf(k):
    return RBF(_scalar(k.length_scale)), [_range(k.length_scale_bounds)]


def _matern(k):
    if np.isinf(k.nu):
        return _rbf(k)
    made = Matern(nu=k.nu, lengthscale=_scalar(k.length_scale))
    return made, ["fixed"] * (len(made.differentiable) - 1) + [_range(k.length_scale_bounds)]


def _rational_quadratic(k):
    made = RationalQuadratic(exponent=k.alpha, lengthscale=_scalar(k.length_scale))
    return made, [_range(k.alpha_bounds), _range(k.length_scale_bounds)]


def _periodic(k):
    return Periodic(period=k.periodicity, lengthscale=k.length_scale), [
        _range(k.periodicity_bounds),
        _range(k.length_scale_bounds),
    ]


def _dot(k):
    return Linear() + Constant(k.sigma_0**2), [_range(k.sigma_0_bounds, np.square)]


def _pairwise(k):
    from mercer.kernels.sklearn_names import as_kernel

    made = as_kernel(k.metric, **{"gamma": k.gamma, **(k.pairwise_kernels_kwargs or {})})
    return made, ["fixed"] * len(
        made.differentiable
    )  # gamma is 1 / (2 l^2) or a scale, by metric: bounds do not carry over


_LEAVES = {
    "ConstantKernel": _constant, "WhiteKernel": _white, "RBF": _rbf, "Matern": _matern,
    "RationalQuadratic": _rational_quadratic, "ExpSineSquared": _periodic, "DotProduct": _dot, "PairwiseKernel": _pairwise,
}  # fmt: skip

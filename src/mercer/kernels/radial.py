"""Kernels of a distance: Gaussian, Laplacian, Matern, rational quadratic, multiquadrics, thin plates, periodic."""

import math
from typing import Annotated, Any

import numpy as np
from scipy import special

from mercer.expr import Table, exp, log, maximum, power, sqrt, table
from mercer.kernels.base import Isotropic, frozen
from mercer.kernels.digest import FrozenArray
from mercer.kernels.parameters import Lengthscale, Matrix, Positive, Spec
from mercer.kernels.resolve import gamma
from mercer.kernels.validity import certificate
from mercer.kernels.views import Circle, Divided, Linear
from mercer.registry import register
from mercer.validate import numeric

__all__ = [
    "RBF",
    "InverseMultiquadric",
    "Laplacian",
    "Matern",
    "Multiquadric",
    "Periodic",
    "RationalQuadratic",
    "ThinPlate",
]


@register
@frozen
class RBF(Isotropic):
    r"""Gaussian (squared exponential) kernel (K3).

    .. math:: k(x, y) = \exp\left(-\tfrac12 (x - y)^T S^{-1} (x - y)\right)

    `lengthscale` gives :math:`S = \ell^2 I`, or one value a column (an infinite one switches the column off exactly);
    `covariance` gives a full S. gamma of other libraries is :math:`1/(2\ell^2)`. Rasmussen & Williams (2006), eq. 4.9.

    >>> float(RBF(lengthscale=2.0)([[0.0]], [[2.0]])[0, 0]) == math.exp(-0.5)
    True
    """

    lengthscale: Lengthscale = 1.0
    covariance: Matrix = None

    def check(self):
        if self.covariance is None:
            return
        if not np.array_equal(self.lengthscale, 1.0):
            raise ValueError("RBF takes a lengthscale or a covariance, not both")
        smallest = np.linalg.eigvalsh(np.asarray(self.covariance, float)).min()
        if smallest <= 0:
            raise ValueError(
                f"RBF(covariance=...): covariance must be positive definite; its smallest eigenvalue is {smallest:g}"
            )

    def profile(self, s):
        return exp(-0.5 * s)

    def scaled_distance(self, t, kinked=False):
        if self.covariance is None:
            return super().scaled_distance(t, kinked)
        S = np.asarray(self.covariance, np.float64)
        M = np.linalg.inv(np.linalg.cholesky(S)).T
        return t.squared_distance(
            Linear(t.vectors(), FrozenArray(M), t.name("covariance"), _CovarianceChart(FrozenArray(M)))
        )

    @property
    def isotropic(self):
        return np.ndim(self.lengthscale) == 0 and self.covariance is None

    @property
    def not_differentiable(self):
        return () if self.covariance is None else ("lengthscale",)

    @property
    def validity(self):
        return self._strict("the Fourier transform of a Gaussian is positive everywhere")


class _CovarianceChart:
    """Gradient in S of a function of u = M^T x with M M^T = S^-1: -M (u^T G) M^T / 2, G the gradient in u."""

    def __init__(self, M):
        self.M = M

    def __call__(self, G):
        M = self.M.value
        out = -0.5 * M @ G @ M.T
        return (out + out.T) / 2

    def __eq__(self, other):
        return isinstance(other, _CovarianceChart) and self.M == other.M

    def __hash__(self):
        return hash(self.M)


@register
@frozen
class Laplacian(Isotropic):
    r"""Laplacian kernel (K4): exp(-r / l), r the Euclidean distance (`metric="l2"`) or the sum of |x_j - y_j| (`"l1"`).

    The Euclidean form is the Matern kernel of order 1/2; in one dimension the Ornstein-Uhlenbeck process.

    >>> float(Laplacian(lengthscale=2.0)([[0.0]], [[2.0]])[0, 0]) == math.exp(-1.0)
    True
    """

    lengthscale: Lengthscale = 1.0
    metric: str = "l2"

    def check(self):
        if self.metric not in ("l1", "l2"):
            raise ValueError(f'Laplacian(metric=...): metric={self.metric!r} must be "l2" or "l1"')

    def profile(self, s):
        return exp(-sqrt(s))

    def trace(self, t):
        if self.metric == "l2":
            return super().trace(t)
        if np.ndim(self.lengthscale):
            view = Divided(t.vectors(), FrozenArray(self.lengthscale, np.float64), t.name("lengthscale"))
            return exp(-t.columns("absdiff", view))
        return exp(-t.columns("absdiff") / t.param(self, "lengthscale"))

    @property
    def isotropic(self):
        return self.metric == "l2" and np.ndim(self.lengthscale) == 0

    def _resolved(self, rows, weight):
        if self.metric == "l1" and isinstance(self.lengthscale, str) and self.lengthscale != "median":
            return self._with(lengthscale=1.0 / gamma(self.lengthscale, numeric(rows), weight))
        return super()._resolved(rows, weight)

    @property
    def validity(self):
        return self._strict("the Fourier transform of exp(-r) is positive everywhere")


Order = Annotated[Any, Spec(low=0.0, open_low=True, infinite=True)]


@register
@frozen
class Matern(Isotropic):
    r"""Matern kernel of any order nu > 0 (K5).

    .. math:: k = \frac{2^{1-\nu}}{\Gamma(\nu)} z^\nu K_\nu(z), \qquad z = \sqrt{2\nu}\, r / \ell

    Draws are nu - 1/2 times differentiable; nu = 1/2, 3/2, 5/2 have closed forms, nu = inf is the Gaussian; other orders are
    tabulated. Rasmussen & Williams (2006), eq. 4.14.

    >>> float(Matern(1.5)([[0.0]])[0, 0])
    1.0
    """

    nu: Order = 1.5
    lengthscale: Lengthscale = 1.0
    not_differentiable = ("nu",)

    def check(self):
        if np.isfinite(self.nu) and self.nu > 100:
            raise ValueError(
                f"Matern(nu={self.nu!r}): orders above 100 are the Gaussian to all digits; use RBF or nu=numpy.inf"
            )

    def profile(self, s):
        if math.isinf(self.nu):
            return exp(-0.5 * s)
        z = sqrt((2.0 * self.nu) * s)
        if self.nu == 0.5:
            return exp(-z)
        if self.nu == 1.5:
            return (1.0 + z) * exp(-z)
        if self.nu == 2.5:
            return (1.0 + z + z * z / 3.0) * exp(-z)
        return exp(table(z, _matern_table(float(self.nu))) - z)

    @property
    def validity(self):
        return self._strict("the spectral density of a Matern kernel is positive everywhere")


def matern_log_bulk(nu, order):
    r"""The logarithm of 2^(1-nu)/Gamma(nu) e^z z^nu K_order(z): of the Matern profile and (order nu-1) of minus its derivative,
    without their exponential decay. The logarithm, because for large nu the function itself grows by e^50 within an octave."""
    log_constant = (1.0 - nu) * math.log(2.0) - special.gammaln(nu)

    def evaluate(z):
        z = np.asarray(z, dtype=np.float64)
        with np.errstate(all="ignore"):
            value = log_constant + nu * np.log(z) + np.log(special.kve(order, z))
            # K overflows only where z is tiny and nu large; there the first term of the series has all digits.
            small = (
                z - z * z / (4.0 * max(nu - 1.0, 0.25)) if order == nu else z + np.log(z / (2.0 * max(nu - 1.0, 0.25)))
            )
        return np.where((z > 0) & np.isfinite(value), value, np.where(np.isnan(z), z, small))

    return evaluate


def _matern_table(nu):
    return Table(matern_log_bulk, (nu, nu), _matern_derivative)


def _matern_derivative(function, z):
    nu = function.order[0]
    slope = table(z, Table(matern_log_bulk, (nu, nu - 1.0), _no_second_derivative))
    return 1.0 - exp(slope - table(z, function))


def _no_second_derivative(function, z):
    raise NotImplementedError("second derivatives of tabulated profiles are not needed")


@register
@frozen
class RationalQuadratic(Isotropic):
    r"""Rational quadratic kernel, a scale mixture of Gaussians (K13): :math:`(1 + r^2 / (2 a \ell^2))^{-a}`.

    Rasmussen & Williams (2006), eq. 4.19.

    >>> float(RationalQuadratic(exponent=1.0)([[0.0]], [[2.0]])[0, 0])
    0.3333333333333333
    """

    exponent: Positive = 1.0
    lengthscale: Lengthscale = 1.0

    def profile(self, s):
        return power(1.0 + s / (2.0 * self.exponent), -1.0 * self.exponent)

    @property
    def validity(self):
        return self._strict("a mixture of Gaussians")


@register
@frozen
class InverseMultiquadric(Isotropic):
    r"""Inverse multiquadric (K13): :math:`1 / \sqrt{1 + r^2/\ell^2}`.

    >>> float(InverseMultiquadric()([[0.0]])[0, 0])
    1.0
    """

    lengthscale: Lengthscale = 1.0

    def profile(self, s):
        return 1.0 / sqrt(1.0 + s)

    @property
    def validity(self):
        return self._strict("completely monotone in r^2 (Schoenberg)")


@register
@frozen
class Multiquadric(Isotropic):
    r"""Multiquadric with the sign that makes it conditionally positive definite of order 1 (K13): :math:`-\sqrt{1 + r^2/\ell^2}`.

    >>> float(Multiquadric()([[0.0]])[0, 0])
    -1.0
    """

    lengthscale: Lengthscale = 1.0

    def profile(self, s):
        return -1.0 * sqrt(1.0 + s)

    @property
    def validity(self):
        return certificate("cpd", "the negative multiquadric is conditionally PD (Micchelli)", order=1)


@register
@frozen
class ThinPlate(Isotropic):
    r"""Thin-plate spline :math:`r^2 \log r` (K13), conditionally positive definite of order 2.

    >>> float(ThinPlate()([[0.0]], [[1.0]])[0, 0])
    0.0
    """

    lengthscale: Lengthscale = 1.0

    def profile(self, s):
        return 0.5 * s * log(maximum(s, 1e-37))  # the floor makes 0 log 0 = 0 in float32 too

    @property
    def validity(self):
        return certificate("cpd", "the thin-plate spline is conditionally PD (Duchon)", order=2)


@register
@frozen
class Periodic(Isotropic):
    r"""Periodic kernel (K13): :math:`\exp(-2 \sum_j \sin^2(\pi (x_j - y_j)/p) / \ell^2)`. MacKay (1998).

    >>> bool(abs(Periodic(period=2.0)([[0.0]], [[4.0]])[0, 0] - 1) < 1e-12)
    True
    """

    period: Positive = 1.0
    lengthscale: Positive = 1.0
    isotropic = False

    def profile(self, s):
        return exp(-0.5 * s)  # the squared distance on the circle is 4 sin^2

    def scaled_distance(self, t, kinked=False):
        symbol = t.param(self, "lengthscale")
        view = Circle(t.vectors(), float(self.period), t.name("period"))
        return t.squared_distance(view, scale=float(self.lengthscale) ** -2) / (symbol * symbol)

    @property
    def validity(self):
        return certificate("psd", "a Gaussian of points on circles; rows one period apart look equal, so not strict")

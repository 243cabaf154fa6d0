"""Windows of smoothing (M14, M17, M18): bumps that end at the lengthscale, radial or a product over the columns.

As kernels they have the value 1 at distance 0; `mercer.solvers.windows` knows what makes them densities.
"""

import math

import numpy as np

from mercer.expr import maximum, minimum, sin, sqrt, where
from mercer.kernels.base import Isotropic, frozen
from mercer.kernels.digest import FrozenArray
from mercer.kernels.parameters import Lengthscale
from mercer.kernels.validity import certificate
from mercer.kernels.views import Divided
from mercer.registry import register

__all__ = ["Biweight", "CosineWindow", "Epanechnikov", "Triangular", "Tricube", "Window"]


class _Bump(Isotropic):
    """A function of r = ||x - y|| / lengthscale (`form="radial"`), or the product of it over the columns (`"product"`).

    `code` says to engines which function of a column it is: 10 a + b for (1 - |u|^a)^b.
    """

    code = 0

    def check(self):
        if self.form not in ("radial", "product"):
            name = type(self).__name__
            raise ValueError(f'{name}(form=...): form={self.form!r} must be "radial" or "product"')

    @property
    def isotropic(self):
        return self.form == "radial" and super().isotropic

    def trace(self, t):
        if self.form == "radial":
            return super().trace(t)
        view = Divided(t.vectors(), FrozenArray(self.lengthscale, np.float64), t.name("lengthscale"))
        return t.columns("window", view, combine="prod", parameter=self.code)

    @property
    def validity(self):
        return certificate(
            "unknown", "a window for smoothing; whether its Gram matrices are PSD depends on the dimension"
        )


@register
@frozen
class Window(_Bump):
    """Window indicator (K12), the boxcar of smoothing: 1 if r <= 1, else 0. The classic similarity that is not a kernel.

    >>> Window().validity.kind
    'not-psd'
    """

    lengthscale: Lengthscale = 1.0
    form: str = "radial"
    not_differentiable = ("lengthscale",)
    differentiable_inputs = False
    code = 20

    def profile(self, s):
        return where(1.0 - s, 1.0, 0.0)

    @property
    def validity(self):
        return certificate("not-psd", "the window indicator on 1, 2, 3 has the eigenvalue 1 - sqrt(2)")


@register
@frozen
class Triangular(_Bump):
    """Triangular window (M14): 1 - r inside, 0 outside; scikit-learn's "linear".

    >>> float(Triangular()([[0.0]], [[0.25]])[0, 0])
    0.75
    """

    lengthscale: Lengthscale = 1.0
    form: str = "radial"
    code = 11

    def profile(self, s):
        return maximum(1.0 - sqrt(s), 0.0)


@register
@frozen
class Epanechnikov(_Bump):
    """Epanechnikov's window (M14): 1 - r^2 inside, 0 outside. Epanechnikov (1969).

    >>> float(Epanechnikov()([[0.0]], [[0.5]])[0, 0])
    0.75
    """

    lengthscale: Lengthscale = 1.0
    form: str = "radial"
    code = 21

    def profile(self, s):
        return maximum(1.0 - s, 0.0)


@register
@frozen
class Biweight(_Bump):
    """Biweight window (M14): (1 - r^2)^2 inside, 0 outside.

    >>> float(Biweight()([[0.0]], [[0.5]])[0, 0])
    0.5625
    """

    lengthscale: Lengthscale = 1.0
    form: str = "radial"
    code = 22

    def profile(self, s):
        inside = maximum(1.0 - s, 0.0)
        return inside * inside


@register
@frozen
class Tricube(_Bump):
    """Tri-cube window (M14): (1 - r^3)^3 inside, 0 outside. Cleveland (1979).

    >>> float(Tricube()([[0.0]], [[0.5]])[0, 0])
    0.669921875
    """

    lengthscale: Lengthscale = 1.0
    form: str = "radial"
    code = 33

    def profile(self, s):
        inside = maximum(1.0 - s * sqrt(s), 0.0)
        return inside * inside * inside


@register
@frozen
class CosineWindow(_Bump):
    """Cosine window (M14): cos(pi r / 2) inside, 0 outside.

    >>> round(float(CosineWindow()([[0.0]], [[0.5]])[0, 0]), 12)
    0.707106781187
    """

    lengthscale: Lengthscale = 1.0
    form: str = "radial"

    def profile(self, s):
        return sin(0.5 * math.pi * (1.0 - sqrt(minimum(s, 1.0))))  # exactly 0 outside

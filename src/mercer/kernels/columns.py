"""Kernels made of one-column functions, added or multiplied over the columns."""

from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.expr import exp, log
from mercer.kernels.base import ExpressionKernel, frozen
from mercer.kernels.digest import FrozenArray
from mercer.kernels.parameters import Natural, NonNegative, Spec
from mercer.kernels.validity import certificate
from mercer.kernels.views import Divided
from mercer.registry import register

__all__ = ["ANOVA", "AdditiveChi2", "BSpline", "Brownian", "Categorical", "Chi2", "Intersection", "LinearSpline"]

Widths = Annotated[Any, Spec(low=0.0, open_low=True, array=True, infinite=True)]


def _divided(t, widths, field):
    return Divided(t.vectors(), FrozenArray(widths, np.float64), t.name(field))


@register
@frozen
class BSpline(ExpressionKernel):
    """B-spline kernel (K8): the cardinal B-spline of odd degree at (x_j - y_j)/width, multiplied over the columns.

    Even degrees are refused: their Fourier transform changes sign.

    >>> round(float(BSpline(degree=3)([[0.0]])[0, 0]), 12)
    0.666666666667
    """

    degree: Natural = 3
    width: Widths = 1.0
    stationary = True

    def check(self):
        if self.degree % 2 == 0:
            raise ValueError(
                f"BSpline(degree={self.degree!r}): even degrees are not PSD (the spectrum of B_2 reaches -0.0103)"
            )
        if self.degree > 15:
            raise ValueError(
                f"BSpline(degree={self.degree!r}): degrees above 15 lose digits and look Gaussian; use RBF"
            )

    def trace(self, t):
        view = _divided(t, self.width, "width")
        return t.columns("bspline", view, combine="prod", parameter=int(self.degree))

    @property
    def validity(self):
        return certificate("psd", "the Fourier transform of an odd B-spline is an even power of sinc")


@register
@frozen
class Intersection(ExpressionKernel):
    """Histogram intersection (K13): sum_j min(x_j, y_j), entries >= 0 checked.

    >>> float(Intersection()([[1.0, 3.0]], [[2.0, 2.0]])[0, 0])
    3.0
    """

    def trace(self, t):
        return t.columns("min", t.nonnegative("Intersection"))

    @property
    def validity(self):
        return certificate("psd", "min(x, y) is an inner product of indicator functions for entries >= 0")


@register
@frozen
class AdditiveChi2(ExpressionKernel):
    """Additive chi-squared kernel: -sum_j (x_j - y_j)^2 / (x_j + y_j), conditionally PD of order 1; entries >= 0 checked.

    >>> float(AdditiveChi2()([[1.0]], [[3.0]])[0, 0])
    -1.0
    """

    def trace(self, t):
        return -t.columns("chi2", t.nonnegative("AdditiveChi2"))

    @property
    def validity(self):
        return certificate("cpd", "the negative chi-squared distance is conditionally PD", order=1)


@register
@frozen
class Chi2(ExpressionKernel):
    """Exponential chi-squared kernel (K13): exp(-gamma sum_j (x_j - y_j)^2 / (x_j + y_j)), entries >= 0 checked.

    >>> float(Chi2()([[1.0]])[0, 0])
    1.0
    """

    gamma: NonNegative = 1.0
    normalised = True

    def trace(self, t):
        return exp(-t.param(self, "gamma") * t.columns("chi2", t.nonnegative("Chi2")))

    @property
    def validity(self):
        return certificate(
            "pd" if self.gamma > 0 else "psd", "the exponential of a conditionally PD kernel (Schoenberg)"
        )


@register
@frozen
class Brownian(ExpressionKernel):
    """Wiener process (K13): prod_j min(x_j, y_j), entries >= 0 checked.

    >>> float(Brownian()([[1.0]], [[3.0]])[0, 0])
    1.0
    """

    def trace(self, t):
        return t.columns("min", t.nonnegative("Brownian"), combine="prod")

    @property
    def validity(self):
        return certificate("psd", "the covariance of a Wiener process (sheet)")


@register
@frozen
class LinearSpline(ExpressionKernel):
    """Vapnik's linear spline with infinitely many knots (K13), multiplied over the columns; entries >= 0 checked.

    One column: 1 + xy + xy min(x,y) - (x+y)/2 min(x,y)^2 + min(x,y)^3/3. Vapnik, Golowich & Smola (1997), eq. 16.

    >>> float(LinearSpline()([[0.0]], [[2.0]])[0, 0])
    1.0
    """

    def trace(self, t):
        return t.columns("spline", t.nonnegative("LinearSpline"), combine="prod")

    @property
    def validity(self):
        return certificate("psd", "an integral of products of truncated linear functions")


@register
@frozen
class ANOVA(ExpressionKernel):
    r"""ANOVA kernel (K13): all interactions of exactly `degree` columns of one-dimensional Gaussians.

    .. math:: k = \sum_{j_1 < \dots < j_D} \prod_i \exp(-(x_{j_i} - y_{j_i})^2 / (2 \ell_{j_i}^2))

    >>> float(ANOVA(degree=2)([[0.0, 1.0, 2.0]])[0, 0])
    3.0
    """

    degree: Natural = 2
    lengthscale: Widths = 1.0
    stationary = True

    def trace(self, t):
        view = _divided(t, self.lengthscale, "lengthscale")
        return t.columns("gauss", view, combine="elementary", order=int(self.degree))

    @property
    def validity(self):
        return certificate("psd", "a sum of products of Gaussians of single columns")


Rate = Annotated[Any, Spec(low=0.0, open_low=True, high=1.0)]


@register
@frozen
class Categorical(ExpressionKernel):
    r"""Kernel of category values, numbers or words (K13).

    "hamming": the fraction of columns that agree. "aitchison-aitken": the product over the columns of 1 - b where they
    agree and b/(c_j - 1) where not, c_j the number of categories (taken from the data unless given).

    >>> float(Categorical()([[1, 2]], [[1, 3]])[0, 0])
    0.5
    """

    form: str = "hamming"
    bandwidth: Rate = 0.25
    n_categories: Any = None

    @property
    def not_differentiable(self):
        return ("bandwidth",) if self.form == "hamming" else ()

    differentiable_inputs = False

    def check(self):
        if self.form not in ("hamming", "aitchison-aitken"):
            raise ValueError(f'Categorical(form={self.form!r}): form must be "hamming" or "aitchison-aitken"')
        if self.n_categories is not None:
            c = np.atleast_1d(self.n_categories)
            if c.dtype.kind not in "iu" or c.min() < 2:
                raise ValueError(
                    f"Categorical(n_categories={self.n_categories!r}) must be whole numbers >= 2, one a column"
                )
            if self.bandwidth > ((c - 1) / c).min():
                raise ValueError(
                    f"Categorical(bandwidth={self.bandwidth!r}) must be <= (c-1)/c = {((c - 1) / c).min():g} to be PSD"
                )

    def _reads(self):
        return ["any"]

    def _resolved(self, rows, weight):
        if self.form == "hamming" or self.n_categories is not None:
            return self
        codes = validate.categories(rows)
        return self._with(n_categories=tuple(max(len(np.unique(c)), 2) for c in codes.T))

    def trace(self, t):
        view = t.categories()
        if self.form == "hamming":
            return t.columns("equal", view, combine="mean")
        if self.n_categories is None:
            raise ValueError(f"{self!r} does not know its numbers of categories; give n_categories or call resolve(X)")
        others = np.log(np.atleast_1d(self.n_categories) - 1.0)
        b = t.param(self, "bandwidth")
        agree = t.columns("equal", view)
        weighted = t.columns("equal", view, weights=FrozenArray(others))
        return exp(agree * log(1.0 - b) + (len(others) - agree) * log(b) - (others.sum() - weighted))

    @property
    def normalised(self):
        return self.form == "hamming"

    @property
    def validity(self):
        return certificate("psd", "a sum or product over the columns of a I + b 11^T with a, b >= 0")

    def phi(self, rows):
        if self.form != "hamming":
            return super().phi(rows)
        codes = validate.categories(rows)
        values = [np.unique(c, return_inverse=True)[1] for c in codes.T]
        offsets = np.cumsum([0, *(v.max() + 1 for v in values)])
        index = np.column_stack([v + o for v, o in zip(values, offsets, strict=False)])
        n, d = codes.shape
        return sp.csr_array(
            (np.full(n * d, d**-0.5), index.ravel(), np.arange(0, n * d + 1, d)), shape=(n, offsets[-1])
        )

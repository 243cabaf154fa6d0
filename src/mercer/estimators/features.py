"""Random feature maps as scikit-learn transformers (X3)."""

from numbers import Integral, Real

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from mercer.approx import (
    FOURIER_KINDS,
    SKETCH_KINDS,
    fourier_target,
    polynomial_sketch_map,
    random_fourier_map,
)
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, forget
from mercer.estimators.transformers import REPORTED, FeatureTransformer, sample_of
from mercer.kernels import Polynomial
from mercer.random import generator
from mercer.registry import register_estimator

__all__ = ["PolynomialSketch", "RandomFourierFeatures"]


class _RandomFeatures(FeatureTransformer):
    """Fit draws a map and measures its error; subclasses give `_kernel()` and `_map(kernel, rows, rng)`."""

    def fit(self, X, y=None):
        """Draw a map for rows X (n, d). All that counts of them is d, what the kernel takes from data (lengthscale="median"),
        and their mean, from which features are computed. `y` is not looked at.

        Of a stream (`mercer.streams`) or a Dask array some tens of thousands of rows are looked at.
        """
        self._validate_params()
        forget(self)
        kernel, rng = self._kernel(), generator(self.random_state)
        rows = sample_of(self._rows(kernel, X))
        kernel = kernel._resolved(rows, None)
        phi = self._map(kernel, rows, rng)
        error = phi.kernel_error(kernel, rows, rng, REPORTED)
        vars(self).update(kernel_=kernel, map_=phi, kernel_error_=error)  # in one call, which no interrupt divides
        return self


@register_estimator
class RandomFourierFeatures(_RandomFeatures, KernelEstimator):
    r"""Random Fourier features: a linear method on them does the work of a shift-invariant kernel.

    .. math:: \varphi(x) = \sqrt{2/D}\,(\cos \omega_i^T x, \sin \omega_i^T x)_{i \le D/2}, \qquad
              E\,\varphi(x)^T \varphi(y) = k(x, y)

    Parameters
    ----------
    kernel : "rbf", "laplacian" (of the L1 distance, as in scikit-learn), or a kernel: RBF, Matern or Laplacian, times a number
        and on chosen columns.
    n_components : number of features D.
    gamma : of a kernel given by word; None is 1 / n_features.
    kind : how the frequencies are drawn: "orthogonal"; "structured", by Hadamard matrices, about as exact and for wide rows
        faster and smaller; "plain", independent, less exact.
    random_state : seed of the draw.

    Attributes
    ----------
    kernel_ : the kernel, with what it takes from data.
    map_ : the feature map, a value that gives the same features for the same row wherever it is computed.
    kernel_error_ : mean, largest and relative error of the Gram matrix of at most 200 of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RandomFourierFeatures
    >>> from mercer.kernels import Matern
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> features = RandomFourierFeatures(Matern(2.5, lengthscale=2.0), n_components=500, random_state=0).fit(X)
    >>> features.transform(X[:7]).shape, features.kernel_error_.mean < 0.03
    ((7, 500), True)

    Rahimi & Recht (2007); Yu, Suresh, Choromanski, Holtmann-Rice & Kumar (2016).
    """

    _parameter_constraints = {
        **_RandomFeatures._constraints,
        "kernel": CONSTRAINTS["kernel"],
        "kind": [StrOptions(set(FOURIER_KINDS))],
    }

    def __init__(self, kernel="rbf", n_components=100, *, gamma=None, kind="orthogonal", random_state=None):
        self.kernel = kernel
        self.n_components = n_components
        self.gamma = gamma
        self.kind = kind
        self.random_state = random_state

    def _kernel(self):
        if self._precomputed:
            raise ValueError(
                'kernel="precomputed" has no rows to make features of; pass rows and a kernel such as RBF()'
            )
        kernel = super()._kernel()
        fourier_target(kernel, 0)  # refuses other kernels before it looks at rows
        return kernel

    def _map(self, kernel, rows, rng):
        return random_fourier_map(kernel, rows.shape[1], self.n_components, rng, self.kind, near=rows)


@register_estimator
class PolynomialSketch(_RandomFeatures, BaseEstimator):
    r"""Random features of the polynomial kernel: narrow where its own features, all monomials, are many.

    .. math:: E\,\varphi(x)^T \varphi(y) = (\gamma\, x^T y + c)^p

    Parameters
    ----------
    degree : p, an integer >= 1.
    gamma : factor of the inner product; None and "auto" are 1 / n_features, "scale" 1 / (n_features Var(X)).
    coef0 : c >= 0.
    n_components : number of features.
    kind : "tensorsketch", count sketches convolved by FFT, fast and good for sparse rows; "complex", products of projections
        on 1, -1, i and -i; "maclaurin", on random signs.
    random_state : seed of the draw.

    Attributes
    ----------
    kernel_ : the polynomial kernel.
    map_ : the feature map, a value that gives the same features for the same row wherever it is computed.
    kernel_error_ : mean, largest and relative error of the Gram matrix of at most 200 of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import PolynomialSketch
    >>> X = np.random.default_rng(0).random((300, 50))
    >>> sketch = PolynomialSketch(3, gamma=None, coef0=1, n_components=1000, random_state=0).fit(X)
    >>> sketch.transform(X[:7]).shape, sketch.kernel_error_.frobenius < 0.2
    ((7, 1000), True)

    Pham & Pagh (2013); Kar & Karnick (2012); Wacker, Ohana & Filippone (2023).
    """

    _parameter_constraints = {
        **_RandomFeatures._constraints,
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "kind": [StrOptions(set(SKETCH_KINDS))],
    }

    def __init__(self, degree=2, *, gamma=1.0, coef0=0, n_components=100, kind="tensorsketch", random_state=None):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_components = n_components
        self.kind = kind
        self.random_state = random_state

    def _kernel(self):
        return Polynomial(self.degree, "auto" if self.gamma is None else self.gamma, self.coef0)

    def _map(self, kernel, rows, rng):
        return polynomial_sketch_map(kernel, rows.shape[1], self.n_components, rng, self.kind)

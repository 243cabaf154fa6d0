"""Features from landmarks as a scikit-learn transformer (X3)."""

import warnings
from numbers import Integral, Real

from sklearn.utils._param_validation import Interval, StrOptions

from mercer.approx import LANDMARKS
from mercer.errors import NumericalWarning
from mercer.estimators.base import CONSTRAINTS, KernelEstimator, forget
from mercer.estimators.landmarks import landmark_features
from mercer.estimators.transformers import REPORTED, FeatureTransformer
from mercer.random import generator
from mercer.registry import register_estimator
from mercer.streams import Held

__all__ = ["Nystroem"]


@register_estimator
class Nystroem(FeatureTransformer, KernelEstimator):
    r"""Features from landmarks: a linear method on them does the work of any kernel.

    .. math:: \varphi(x) = L^{-1} (k(x, z_1), \dots, k(x, z_M)), \qquad L L^T = K_{MM}

    Parameters are scikit-learn's; `kernel` also takes kernel objects, and rows may be whatever the kernel reads.

    Parameters
    ----------
    kernel : a mercer kernel, one of scikit-learn's words, or a function of two rows.
    gamma, coef0, degree, kernel_params : parameters of kernels given by word or function.
    n_components : number of features, which is that of landmarks; fewer if `tol` is reached before, or rows are equal.
    random_state : of choosing landmarks. n_jobs : not used; threads follow the limit of BLAS.
    landmarks : how they are chosen, "rpcholesky", "uniform" (as in scikit-learn), "kmeans++" or "leverage".
    tol : share of the trace of the Gram matrix that may be left unexplained ("rpcholesky"); None: n_components alone counts.
    engine, memory, indefinite : how and within how many bytes Grams are computed, and what to do when they are not PSD.

    Attributes
    ----------
    components_, component_indices_, normalization_ : landmarks, their numbers in X, and L^-1.
    kernel_, map_ : the kernel, and the feature map as a value.
    kernel_error_ : mean, largest and relative error of the Gram matrix of at most 200 of the rows.
    landmark_error_ : share of the trace that is left unexplained; None where the method does not know it.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Nystroem
    >>> from mercer.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> features = Nystroem(RBF(1.0), n_components=60, random_state=0).fit(X)
    >>> features.transform(X[:3]).shape, bool(features.landmark_error_ < 0.01)
    ((3, 60), True)

    Williams & Seeger (2001); Chen, Epperly, Tropp & Webber (2025).
    """

    _parameter_constraints = {
        **CONSTRAINTS,
        "coef0": [*CONSTRAINTS["coef0"], None],
        "degree": [*CONSTRAINTS["degree"], None],
        **FeatureTransformer._constraints,
        "n_jobs": [None, Integral],
        "landmarks": [StrOptions(set(LANDMARKS))],
        "tol": [Interval(Real, 0, 1, closed="neither"), None],
    }

    def __init__(self, kernel="rbf", *, gamma=None, coef0=None, degree=None, kernel_params=None, n_components=100,
                 random_state=None, n_jobs=None, landmarks="rpcholesky", tol=None, engine=None, memory=None,
                 indefinite="warn"):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.landmarks = landmarks
        self.tol = tol
        self.engine = engine
        self.memory = memory
        self.indefinite = indefinite

    def fit(self, X, y=None):
        """Choose landmarks among rows X, an array, a stream (`mercer.streams`) or a Dask array. `y` is not looked at."""
        self._validate_params()
        forget(self)
        if self._precomputed:
            raise ValueError('kernel="precomputed" has no rows to choose landmarks from; pass rows and a kernel')
        kernel, rng = self._kernel(), generator(self.random_state)
        rows = self._rows(kernel, X)
        centres, phi = landmark_features(self, kernel, rows, self._count(rows), rng, self.tol or 0.0)
        known = rows.rows if isinstance(rows, Held) else centres.sample
        error = phi.kernel_error(self.kernel_, known, rng, REPORTED)
        vars(self).update(
            map_=phi, components_=phi.landmarks, component_indices_=centres.index, normalization_=phi.normalization,
            landmark_error_=centres.error, kernel_error_=error, jitter_=phi.jitter,
        )  # fmt: skip
        return self

    @property
    def _known_rows(self):
        return self.components_

    def _count(self, rows):
        """Landmarks to choose: no more than there are rows, where their number is known."""
        n = len(rows.y) if isinstance(rows, Held) else getattr(rows, "n", self.n_components)
        if self.n_components > n:
            warnings.warn(f"n_components={self.n_components} is more than the number of rows, {n}, which is used instead",
                          NumericalWarning, stacklevel=3)  # fmt: skip
        return min(self.n_components, n)

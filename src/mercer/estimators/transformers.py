"""What transformers to explicit features share: rows to fit on wherever they are, features in blocks, and their names."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer import streams, validate
from mercer.approx import DaskRows, FeatureMap, heading, is_dask
from mercer.estimators.base import CONSTRAINTS, lazily
from mercer.kernels import Kernel

__all__ = ["REPORTED", "FeatureTransformer", "sample_of"]

REPORTED = 200  # rows on which the error of a map is measured


class FeatureTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Transform by a feature map. Subclasses fit `kernel_` and `map_`; they set `map_` last."""

    kernel_: Kernel
    map_: FeatureMap

    _constraints = {
        "gamma": CONSTRAINTS["gamma"],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    def _rows(self, kernel, X) -> "streams.Stream | streams.Held":
        """Validated rows to fit on, from memory, a stream or a Dask cluster."""
        if is_dask(X):
            validate_data(self, heading(X), skip_check_array=True)
            return DaskRows(X)
        if isinstance(X, streams.Stream):
            self.n_features_in_ = next(iter(X.blocks(streams.LOOK))).X.shape[1]
            return X
        rows = validate.training(self, X, None, None, kernel.reads, kernel.columns)[0]
        n = validate.n_rows(rows)
        return streams.Held(rows, np.zeros((n, 1)), np.ones(n))

    @lazily
    def transform(self, X) -> np.ndarray:
        """Features (m, n_components) of rows, in their precision, computed block by block; lazily of a Dask array."""
        check_is_fitted(self)
        return self.map_.features(validate.prediction(self, X, self.kernel_.reads, self.kernel_.columns))

    @property
    def _known_rows(self):
        return np.zeros((1, self.n_features_in_))

    @property
    def _n_features_out(self):
        return self.map_.dim

    def __sklearn_is_fitted__(self):
        return hasattr(self, "map_")

    def __sklearn_tags__(self):
        tags: Any = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def sample_of(rows):
    """Rows that tell what a kernel takes from data: all that are in memory, or some tens of thousands of a stream."""
    if isinstance(rows, streams.Held):
        return rows.rows
    return streams.look(rows, streams.LOOK, np.random.default_rng(0)).sample.X

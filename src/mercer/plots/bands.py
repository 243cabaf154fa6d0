"""Predictions over one column with bands of what is not known."""

from inspect import signature

import numpy as np
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from mercer.plots.canvas import line_grid
from mercer.plots.densities import ConditionalDensityDisplay, checked_levels, one_column

__all__ = ["ConditionalBandDisplay"]


class ConditionalBandDisplay(ConditionalDensityDisplay):
    """A prediction over one column with bands around it: the mean (m,) over xs (m,), lower and upper (m, b) of levels (b,)."""

    @classmethod
    def from_estimator(cls, model, X, t, *, levels=(0.95,), noise=False, resolution=300, margin=0.1, ax=None, **style):
        """Ask a fitted model around rows X (n, 1) with targets t (n,), and plot.

        Models with `predict_interval` give the bands themselves; of others with `predict(X, return_std=True)` the bands are of a
        normal distribution. noise : of a `GaussianProcessRegressor`, whether bands are of new targets rather than of the
        function. levels : what share the bands hold.
        """
        check_is_fitted(model)
        X, t = one_column(X, t)
        levels, xs = checked_levels(levels), line_grid(X, resolution, margin)
        mean, lower, upper = _bands(model, xs[:, None], levels, noise)
        return cls(xs, mean, lower, upper, levels, X[:, 0], t).plot(ax, **style)


def _bands(model, rows, levels, noise):
    """Means (m,), and lower and upper ends (m, b)."""
    known = signature(model.predict).parameters
    if noise and "noise" not in known:
        raise ValueError(f"noise=True: {type(model).__name__} does not tell the noise of targets apart")
    if hasattr(model, "predict_interval"):
        ends = [model.predict_interval(rows, level) for level in levels]
        lower, upper = (np.column_stack(side) for side in zip(*ends, strict=True))
        return _one(model.predict(rows)), lower, upper
    if "return_std" not in known:
        raise TypeError(f"{type(model).__name__} does not say how sure it is; this picture needs predict(X, return_std=True), "
                        "as of GaussianProcessRegressor, or predict_interval(X, level), as of LocalRegression")  # fmt: skip
    mean, std = model.predict(rows, return_std=True, **({"noise": True} if noise else {}))
    half = norm.ppf(0.5 + levels / 2) * _one(std)[:, None]
    mean = _one(mean)
    return mean, mean[:, None] - half, mean[:, None] + half


def _one(values):
    values = np.asarray(values, float)
    if values.ndim > 1 and values.shape[1] != 1:
        raise ValueError(f"this picture is of one target, the model predicts {values.shape[1]}")
    return values.ravel()

"""Scores along a path: of penalties, prices or other settings, and of numbers of rows."""

from collections.abc import Mapping

import numpy as np
from sklearn.model_selection import learning_curve
from sklearn.utils.validation import check_is_fitted

from mercer.plots.canvas import COLOURS, finished, one_axes

__all__ = ["PathDisplay"]


class PathDisplay:
    """Curves over the values (b,) of a setting, with the chosen value marked.

    curves : name -> (b,), or (b, folds) of which the mean and a standard deviation each way are drawn. chosen : a value, or None.
    """

    def __init__(self, values, curves, *, chosen=None, xlabel="value", ylabel="score"):
        self.values = np.asarray(values, float)
        if self.values.ndim != 1 or not len(self.values):
            raise ValueError(f"values has shape {self.values.shape}, expected a list of numbers")
        self.curves = {str(name): _curve(name, c, len(self.values)) for name, c in _named(curves).items()}
        self.chosen, self.xlabel, self.ylabel = None if chosen is None else float(chosen), xlabel, ylabel

    @classmethod
    def from_estimator(cls, model, *, ax=None, **style):
        """The scores by which a fitted model chose its penalty: KernelRidgeCV, SVCPath, and L1VM and L2VM with alpha="cv"."""
        check_is_fitted(model)
        for name, read in (("C_", _of_prices), ("cv_scores_", _of_folds), ("loo_error_", _of_penalties)):
            if hasattr(model, name):
                return cls(**read(model)).plot(ax, **style)
        raise TypeError(f"{type(model).__name__} keeps no scores of a path; use KernelRidgeCV, SVCPath, an L1VM or L2VM with "
                        'alpha="cv", or PathDisplay.from_models')  # fmt: skip

    @classmethod
    def from_models(cls, models, setting, measure, *, ylabel="score", ax=None, **style):
        """Fitted models along a path, as of `SVC.path`: a measure of each over one of its settings.

        setting : name of a parameter, such as "C". measure : a function of a model, or name -> function.
        """
        functions = measure if isinstance(measure, Mapping) else {ylabel: measure}
        models = list(models)
        values = [model.get_params()[setting] for model in models]
        curves = {name: np.array([f(model) for model in models], float) for name, f in functions.items()}
        return cls(values, curves, xlabel=setting, ylabel=ylabel).plot(ax, **style)

    @classmethod
    def from_learning_curve(cls, model, X, y, *, sizes=(0.1, 0.2, 0.4, 0.7, 1.0), cv=5, scoring=None, random_state=0, ax=None,
                            **style):  # fmt: skip
        """Scores of a model, unfitted or not, on the rows it learned from and on rows left out, over numbers of rows.

        sizes, cv, scoring : as in scikit-learn's `learning_curve`. Rows are shuffled.
        """
        counts, train, test = learning_curve(model, X, y, train_sizes=sizes, cv=cv, scoring=scoring, shuffle=True,
                                             random_state=random_state, error_score="raise")  # fmt: skip
        return cls(counts, {"rows learned from": train, "rows left out": test}, xlabel="rows").plot(ax, **style)

    def plot(self, ax=None, **style) -> "PathDisplay":
        """Draw the curves; `style` goes to them. The axis is logarithmic where values spread over more than a factor of 10."""
        ax, order = one_axes(ax), np.argsort(self.values)
        x = self.values[order]
        for c, (name, curve) in enumerate(self.curves.items()):
            colour, rows = COLOURS[c % len(COLOURS)], curve[order]
            mean = rows.mean(axis=1)
            ax.plot(x, mean, **{"color": colour, "marker": ".", "label": name, **style})
            if rows.shape[1] > 1:
                half = rows.std(axis=1)
                ax.fill_between(x, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0, zorder=0.5)
        if x[0] > 0 and x[-1] > 10 * x[0]:
            ax.set_xscale("log")
        if self.chosen is not None:
            told = {"label": f"chosen: {self.chosen:.4g}", "zorder": 0.6}
            ax.axvline(self.chosen, color="#555555", linewidth=1.0, linestyle="--", **told)
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        ax.legend(frameon=False, fontsize="small")
        return finished(self, ax)


def _named(curves):
    return curves if isinstance(curves, Mapping) else {"score": curves}


def _curve(name, curve, count):
    curve = np.asarray(curve, float)
    curve = curve[:, None] if curve.ndim == 1 else curve
    if curve.ndim != 2 or len(curve) != count or not curve.shape[1]:
        raise ValueError(f"curve {name!r} has shape {curve.shape}, but there are {count} values")
    return curve


def _of_penalties(model):
    """KernelRidgeCV: one curve for each target."""
    scores = np.asarray(model.scores_, float)
    many = scores.ndim == 2 and scores.shape[1] > 1
    curves = (
        {f"target {j}": scores[:, j] for j in range(scores.shape[1])}
        if many
        else {"left out": scores.reshape(len(scores))}
    )
    chosen = model.alpha_ if np.ndim(model.alpha_) == 0 else None
    said = "leave-one-out" if model.scoring == "loo" else "generalised cross-validation"
    return {"values": model.alphas_, "curves": curves, "chosen": chosen, "xlabel": "alpha",
            "ylabel": f"mean squared error, {said}"}  # fmt: skip


def _of_folds(model):
    return {
        "values": model.alphas_,
        "curves": {"rows left out": model.cv_scores_},
        "chosen": model.alpha_,
        "xlabel": "alpha",
    }


def _of_prices(model):
    """SVCPath: one curve for each kernel."""
    names = [
        ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in g.items()) for g in model.grid_
    ]
    curves = {name or "rows left out": scores for name, scores in zip(names, model.scores_, strict=True)}
    return {"values": model.Cs, "curves": curves, "chosen": model.C_, "xlabel": "C"}

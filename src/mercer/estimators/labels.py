"""Labels of classifiers: which classes there are, the number of each row's, what a class weighs, and what scores say of them.

Scores (m, p) have a column for each class, or one, the log-odds of the second of two.
"""

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["Labels", "class_factors", "class_labels", "log_probabilities", "most_likely", "probabilities",
           "sound_factors"]  # fmt: skip


def class_labels(y, name="y"):
    """Classes in increasing order, at least two, and the number of each label's."""
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(v).__name__ for v in y}))
        raise ValueError(f"{name} mixes labels of the types {kinds}, which have no order; use one type") from None
    if len(classes) < 2:
        found = classes.tolist()[0]
        raise ValueError(f"The number of classes has to be greater than one; {name} has 1 class: {found!r}")
    return classes, codes


def class_factors(class_weight, classes, codes, w):
    """Factor of the weights of each class; "balanced" counts weighted rows."""
    if isinstance(class_weight, str):
        mass = np.bincount(codes, weights=w, minlength=len(classes))
        return w.sum() / (len(classes) * mass)
    return compute_class_weight(class_weight, classes=classes, y=classes[codes])


def sound_factors(class_weight, classes, codes, w, zero=True) -> np.ndarray:
    """`class_factors`, refused where one is not finite, or negative, or 0 without `zero`, or where all are."""
    factors = np.asarray(class_factors(class_weight, classes, codes, w), np.float64)
    if not (np.isfinite(factors) & (factors >= 0)).all() or not (factors.any() if zero else factors.all()):
        what = (
            "finite numbers >= 0, not all of them 0"
            if zero
            else "finite numbers > 0; leave out the rows of other classes"
        )
        raise ValueError(f"class_weight={class_weight!r} must hold {what}")
    return factors


class Labels:
    """Labels as numbers of classes; remembers the classes."""

    def __call__(self, y):
        self.classes, codes = class_labels(y)
        return codes


def most_likely(classes, scores) -> np.ndarray:
    """Label (m,) of the largest score."""
    return classes[scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.intp)]


def probabilities(scores) -> np.ndarray:
    """Probabilities (m, classes) of multinomial scores."""
    return softmax(scores, axis=1) if scores.shape[1] > 1 else expit(np.hstack([-scores, scores]))


def log_probabilities(scores) -> np.ndarray:
    """Their logarithms, exact where they are 0 or 1 to the last bit."""
    logs = log_softmax(scores, axis=1) if scores.shape[1] > 1 else log_expit(np.hstack([-scores, scores]))
    if logs.dtype == np.float32:  # what is 1 in float32 has the logarithm 0 there
        logs[logs > -np.finfo(np.float32).epsneg] = 0.0
    return logs

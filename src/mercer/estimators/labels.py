"""Labels of classifiers: which classes there are, the number of each row's, and what a class weighs."""

import numpy as np
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["class_factors", "class_labels"]


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

"""Scores of predictions with 95 % intervals, and what simple models reach."""

import warnings

import numpy as np
import scipy.sparse as sp

from mercer.cli.families import is_sequence
from mercer.cli.prepare import Prepared
from mercer.random import generator, some_of
from mercer.validate import Table, take

__all__ = ["baselines", "scores", "wilson"]

DRAWS = 500
_Z = 1.959963984540054  # the 97.5 % quantile of the normal distribution
_ROWS = 5000  # of the linear baseline


def scores(task: str, y, predicted, probability=None, seed: int = 0) -> dict[str, tuple[float, float, float]]:
    """Names with (value, low, high): accuracy by Wilson's interval, the others by drawing test rows again."""
    if task == "regression":
        measures = {"rmse": _rmse, "mae": _mae} | ({"r2": _r2} if len(np.unique(y)) > 1 else {})
        return {name: _drawn(f, (y, predicted), seed) for name, f in measures.items()}
    right = np.asarray(y) == np.asarray(predicted)
    out = {
        "accuracy": wilson(int(right.sum()), len(right)),
        "balanced_accuracy": _drawn(_balanced, (y, predicted), seed),
    }
    if probability is not None:
        out["log_loss"] = _drawn(_log_loss, (y, probability), seed)
    return out


def wilson(right: int, n: int) -> tuple[float, float, float]:
    """A share and Wilson's (1927) interval of it."""
    share, z2 = right / n, _Z**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n**2))
    return share, float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


def _drawn(measure, arrays, seed):
    """A measure of some rows and the middle 95 % of its values on rows drawn with repetition."""
    arrays, rng = [np.asarray(a) for a in arrays], generator(seed)
    n = len(arrays[0])
    values = [measure(*(a[i] for a in arrays)) for i in (rng.integers(n, size=n) for _ in range(DRAWS))]
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(measure(*arrays)), float(low), float(high)


def _rmse(y, f):
    return np.sqrt(np.mean((y - f) ** 2))


def _mae(y, f):
    return np.mean(np.abs(y - f))


def _r2(y, f):
    spread = np.sum((y - np.mean(y)) ** 2)
    return 1.0 - np.sum((y - f) ** 2) / spread if spread > 0 else np.nan


def _balanced(y, f):
    return np.mean([np.mean(f[y == c] == c) for c in np.unique(y)])


def _log_loss(y, p):
    return -np.mean(np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)))


# ------------------------------------------------------------------------------------------------ simple models
def baselines(prepared: Prepared, seed: int) -> dict[str, dict]:
    """Scores of the mean or the largest class, and of a linear model on the columns."""
    y, y_test = prepared.y, prepared.y_test
    if prepared.task == "regression":
        constant, name = np.full(len(y_test), y.mean()), "mean"
    else:
        constant, name = np.full(len(y_test), np.bincount(y).argmax()), "largest class"
    index = some_of(np.arange(len(y)), _ROWS, generator(seed))
    label = "linear" if len(index) == len(y) else f"linear, {len(index)} rows"
    linear = _linear(prepared, index)
    return {
        name: scores(prepared.task, y_test, constant, seed=seed),
        label: scores(prepared.task, y_test, linear, seed=seed),
    }


def _linear(prepared, index):
    from sklearn.linear_model import LogisticRegression, RidgeCV

    A, B = design(prepared, index)
    y = prepared.y[index]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a baseline that has not converged to the last digit is one all the same
        if prepared.task == "regression":
            return RidgeCV(np.logspace(-3, 3, 13)).fit(A, y).predict(B)
        if len(np.unique(y)) < 2:
            return np.full(len(prepared.y_test), y[0])
        return LogisticRegression(max_iter=200).fit(A, y).predict(B)


def design(prepared: Prepared, index):
    """Training and test rows as columns of numbers: levels of categories one by one, tf-idf of texts."""
    parts = [_columns(take(prepared.X, index), prepared.X_test)] if prepared.layout != "table" else [
        _columns(a[index], b) for a, b in zip(prepared.X.columns, prepared.X_test.columns, strict=True)
    ]  # fmt: skip
    if all(isinstance(a, np.ndarray) for a, _ in parts):
        return tuple(np.column_stack(side) for side in zip(*parts, strict=True))
    return tuple(sp.csr_array(sp.hstack(side)) for side in zip(*parts, strict=True))


def _columns(a, b):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import OneHotEncoder

    if isinstance(a, Table) or a.dtype.kind != "O":
        return (a, b) if sp.issparse(a) or a.ndim == 2 else (a[:, None], b[:, None])
    if len(set(a.tolist())) <= 50:
        coder = OneHotEncoder(handle_unknown="ignore")
        return coder.fit_transform(a[:, None]), coder.transform(b[:, None])
    how = {"analyzer": "char", "ngram_range": (3, 3)} if is_sequence(a) else {"token_pattern": r"(?u)\S+"}
    coder = TfidfVectorizer(**how)
    return coder.fit_transform(a), coder.transform(b)

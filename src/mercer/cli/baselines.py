"""What simple models reach on a prepared table."""

import warnings

import numpy as np
import scipy.sparse as sp

from mercer.cli.families import is_sequence
from mercer.cli.prepare import Prepared
from mercer.random import generator, some_of
from mercer.report.intervals import scores
from mercer.validate import Table, take

__all__ = ["baselines"]

_ROWS = 5000  # of the linear baseline


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

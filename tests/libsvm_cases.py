"""Eight real problems on which LIBSVM's answers are kept in libsvm_table.json, and what is computed from a fit of either library.

`tools/libsvm_table.py` writes the table with scikit-learn; `test_slow_svm.py` holds mercer to it.
"""

import base64
import zlib
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import pairwise_kernels

TABLE = Path(__file__).with_name("libsvm_table.json")
TOLERANCES = (1e-3, 1e-5)


@dataclass(frozen=True)
class Case:
    """A machine by its name in both libraries, its parameters, and the first `rows` rows of a data set."""

    data: str
    machine: str
    parameters: dict[str, Any]
    rows: int | None = None
    classes: tuple[int, ...] | None = None

    def __str__(self):
        return f"{self.data}-{self.machine}"


CASES = [
    Case("svmguide1", "SVC", {"C": 100.0, "gamma": 1.0}),
    Case("a9a", "SVC", {"C": 1.0, "gamma": 0.03}, rows=12000),
    Case("spambase", "SVC", {"C": 0.5, "kernel": "poly", "degree": 3, "gamma": 0.02, "coef0": 1.0}),
    Case("letter", "SVC", {"C": 10.0, "gamma": 0.1}, classes=(0, 1, 2, 3, 4, 5, 6, 7)),
    Case("german", "NuSVC", {"nu": 0.4, "gamma": 0.02}),
    Case("abalone", "SVR", {"C": 10.0, "epsilon": 0.5, "gamma": 0.1}),
    Case("kin8nm", "NuSVR", {"C": 1.0, "nu": 0.5, "gamma": 0.1}, rows=4000),
    Case("shuttle", "OneClassSVM", {"nu": 0.05, "gamma": 0.3}, rows=10000),
]


# ------------------------------------------------------------------------------------------------ rows
def load(case: Case, home: Path):
    """(X, y) of a case: columns of mean 0 and deviation 1; a9a is sparse and as it is."""
    with np.load(home / f"{case.data}.npz") as file:
        parts = {name: file[name] for name in file.files}
    y = parts["y_train"] if "y_train" in parts else parts["y"]
    if "data_train" in parts:
        X = _sparse(*(parts[f"{n}_train"] for n in ("data", "indices", "indptr", "shape")))
        return X[: case.rows], y[: case.rows]
    X = (parts["X_train"] if "X_train" in parts else parts["X"]).astype(np.float64)
    kept = np.arange(len(y)) if case.classes is None else np.flatnonzero(np.isin(y, case.classes))
    X, y = X[kept[: case.rows]], y[kept[: case.rows]]
    size = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(size > 0, size, 1.0), y


def _sparse(data, indices, indptr, shape):
    return sp.csr_matrix((data.astype(np.float64), indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)


def repetitions(X, y) -> np.ndarray:
    """A number for each row, the same for rows equal in x and y."""
    content = np.column_stack([X.toarray() if sp.issparse(X) else X, y])
    return np.unique(content, axis=0, return_inverse=True)[1].ravel()


# ------------------------------------------------------------------------------------------------ machines of a fit
@dataclass(frozen=True)
class Dual:
    """One machine: signed variables beta of its support vectors, these as numbers of rows, and the sign of each row's class.

    rows: all rows that take part; signs of regression and of one class are 1.
    """

    rows: np.ndarray
    signs: np.ndarray
    support: np.ndarray
    beta: np.ndarray


def duals(model, y) -> list[Dual]:
    """The machines of a fitted model of either library, pairs of classes in scikit-learn's order."""
    coefficients = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    if not hasattr(model, "classes_"):
        return [Dual(np.arange(len(y)), np.ones(len(y)), model.support_, coefficients[0])]
    codes = np.searchsorted(model.classes_, y)
    if len(model.classes_) == 2:
        return [Dual(np.arange(len(y)), 2.0 * codes - 1, model.support_, coefficients[0])]
    return [_pair(model.support_, coefficients, codes, a, b) for a, b in combinations(range(len(model.classes_)), 2)]


def _pair(support, coefficients, codes, a, b):
    """Of classes a < b: row b - 1 of the coefficients for members of a, row a for members of b."""
    mine, other = codes[support] == a, codes[support] == b
    beta = np.where(mine, coefficients[b - 1], np.where(other, coefficients[a], 0.0))
    inside = np.flatnonzero((codes == a) | (codes == b))
    return Dual(inside, np.where(codes[inside] == a, 1.0, -1.0), support[beta != 0], beta[beta != 0])


def kernel(case: Case, X, Y=None):
    """Gram matrix in float64 by scikit-learn, whichever library was fitted."""
    p = case.parameters
    settings = {name: p[name] for name in ("gamma", "degree", "coef0") if name in p}
    return pairwise_kernels(X, Y, metric=p.get("kernel", "rbf"), **settings)


def scale(case: Case, dual: Dual) -> float:
    """What LIBSVM has divided the variables by: of nu-SVC the r of the margin, else 1.

    Undivided they add up to nu n. r is only known to about tol, so that values of two solvers are compared undivided.
    """
    if case.machine != "NuSVC":
        return 1.0
    return case.parameters["nu"] * len(dual.rows) / float(np.abs(dual.beta).sum())


def objective(case: Case, dual: Dual, X, y) -> float:
    """LIBSVM's dual value: 1/2 beta' K beta and the linear part of the machine."""
    beta = dual.beta * scale(case, dual)
    value = 0.5 * float(beta @ kernel(case, X[dual.support]) @ beta)
    if case.machine == "SVC":
        return value - float(np.abs(beta).sum())
    if case.machine in ("SVR", "NuSVR"):
        value -= float(y[dual.support] @ beta)
    return value + case.parameters.get("epsilon", 0.0) * float(np.abs(beta).sum())


# ------------------------------------------------------------------------------------------------ sets of rows as text
def pack(rows, n) -> str:
    """A set of row numbers below n as text."""
    bits = np.zeros(n, dtype=bool)
    bits[rows] = True
    return base64.b64encode(zlib.compress(np.packbits(bits).tobytes(), 9)).decode()


def unpack(text, n) -> np.ndarray:
    """The row numbers again, in increasing order."""
    bits = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, count=n))

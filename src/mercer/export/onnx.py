"""Fitted models as ONNX files: the kernel expansion by the nodes of its kernel, and what the estimator makes of the scores."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mercer._version import __version__
from mercer.estimators import (
    SVC,
    SVR,
    BudgetKernelRegressor,
    Expansion,
    GaussianProcessRegressor,
    KernelCCA,
    KernelFisherDiscriminant,
    KernelKMeans,
    KernelMachineRegressor,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeCV,
    L1VMRegressor,
    L2VMRegressor,
    MKLClassifier,
    MKLRegressor,
    NuSVC,
    NuSVR,
    OneClassSVM,
    RBFNetwork,
    RVMClassifier,
    RVMRegressor,
    SVCPath,
)
from mercer.estimators.pairs import pairs_of
from mercer.estimators.scores import ScoredClassifier
from mercer.export.files import check_free
from mercer.export.graphs import Graph, import_onnx
from mercer.export.kernels import KernelNodes, refuse_unwritable
from mercer.gram.plan import budget, require
from mercer.kernels.trace import lower
from mercer.persist.atomic import replacing

__all__ = ["export_onnx"]

_FLOATS = ("float32", "float64")


def export_onnx(model, path: str | os.PathLike, *, dtype: str | None = None, force: bool = False) -> None:
    """Write a fitted model as an ONNX file, which runs without mercer and without Python.

    Parameters
    ----------
    model : a fitted estimator that is an expansion over stored rows of numbers, with a kernel of mercer's own formulas.
    path : name of the file; its folder must exist.
    dtype : "float32" or "float64", of the input and of the arithmetic; None takes that of the stored rows.
    force : whether a file of this name may be replaced.

    The input is `X` (m, d). Outputs have the names of the methods that they agree with: `predict`, and where the model has them
    `decision_function`, `predict_proba`, `transform`. The file holds the stored rows.

    >>> import tempfile
    >>> from mercer import KernelRidge, export_onnx
    >>> from mercer.kernels import RBF
    >>> model = KernelRidge(kernel=RBF()).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> export_onnx(model, os.path.join(tempfile.mkdtemp(), "ridge.onnx"))
    """
    import_onnx()
    if dtype not in (None, *_FLOATS):
        raise ValueError(f'dtype={dtype!r} must be "float32", "float64" or None')
    made = _model(model, dtype)
    check_free(path, force)
    with replacing(Path(path)) as file:
        file.write(made.SerializeToString())


def _model(model, dtype):
    machine = model.estimator_ if isinstance(model, (MKLClassifier, MKLRegressor)) else model
    head = _head(machine, model)
    check_is_fitted(model)
    expansion = _expansion(model)
    centres = _vectors(model, expansion)
    graph = Graph(dtype or (centres.dtype if centres.dtype == np.float32 else np.float64))
    scores = _Scores(graph, expansion, centres, graph.argument("X", ["m", centres.shape[1]]))
    about = {"mercer": __version__, "class": type(model).__name__, "kernel": repr(expansion.kernel)[:500],
             "training_rows": str(len(centres))}  # fmt: skip
    return graph.model(type(model).__name__, head(machine, scores), about)


def _expansion(model) -> Expansion:
    name = type(model).__name__
    if isinstance(model, KernelPerceptron) and model._fit.variant == "voted":
        raise ValueError('variant="voted" is the vote of many machines, not one expansion; use variant="averaged"')
    try:
        expansion = model.expansion_
    except AttributeError as error:
        raise ValueError(f"this {name} cannot be written as ONNX: {error}") from error
    if isinstance(expansion.kernel, str):
        raise ValueError(f'kernel="precomputed": this {name} holds no kernel; fit it with rows and a kernel')
    refuse_unwritable(expansion.kernel)
    return expansion


def _vectors(model, expansion):
    """Stored rows as an array (n, d); sparse ones are made dense where that fits."""
    rows = expansion.centres
    if sp.issparse(rows):
        require(8 * rows.shape[0] * rows.shape[1], budget(getattr(model, "memory", None)), "the stored rows as a dense array",
                ["fewer columns", "a model with fewer vectors: mercer.compress"])  # fmt: skip
        rows = rows.toarray()
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise ValueError(
            "the stored rows are no array of numbers, and the input of an ONNX file is one; fit with an array"
        )
    return rows


@dataclass
class _Scores:
    """f(x) = sum_i k(x, c_i) a_i + b as nodes, and what heads need besides."""

    graph: Graph
    expansion: Expansion
    centres: np.ndarray
    X: str

    def __post_init__(self):
        self.kernel = (
            KernelNodes(self.graph, lower(self.expansion.kernel), self.centres, self.X) if len(self.centres) else None
        )
        self.width = max(self.expansion.coefficients.shape[1], np.size(self.expansion.intercept))
        self.K = self.kernel.block() if self.kernel else None
        self.value = self._value()

    def _value(self):
        b = np.broadcast_to(np.asarray(self.expansion.intercept, np.float64), self.width)[None]
        constant = self.graph.filled(0.0, self.X, self.width)
        if self.kernel is not None:
            constant = self.graph.add("Gemm", self.K, self.expansion.coefficients)
        return self.graph.add("Add", constant, b)

    @property
    def row(self):
        """A row to try the model on."""
        return self.centres[:1] if len(self.centres) else np.zeros((1, self.centres.shape[1]))

    def numbers(self, value, single) -> tuple[str, Any, list]:
        """An output of floats: (m, p), or (m,) of one column."""
        shape = ["m"] if single else ["m", None]
        return (self.graph.column(value) if single else value), self.graph.dtype, shape


# ------------------------------------------------------------------------------------------------ heads
def _head(machine, model):
    for classes, head in _HEADS:
        if isinstance(machine, classes):
            return head
    raise TypeError(
        f"export_onnx writes machines that are one kernel expansion (see docs/export.md), not {type(model).__name__}"
    )


def _regression(model, scores):
    return {"predict": scores.numbers(scores.value, single=np.ndim(model.predict(scores.row)) == 1)}


def _components(model, scores):
    return {"transform": scores.numbers(scores.value, single=False)}


def _one_class(model, scores):
    graph = scores.graph
    inside = graph.add("GreaterOrEqual", graph.column(scores.value), 0.0)
    signs = graph.where(inside, graph.indices(1), graph.indices(-1))
    return {"predict": (signs, np.int64, ["m"]), "decision_function": scores.numbers(scores.value, single=True)}


def _clusters(model, scores):
    graph = scores.graph
    near = graph.add("Sub", model.norms_[None], graph.add("Mul", scores.value, 2.0))
    squares = graph.add("Max", graph.add("Add", scores.kernel.diagonal(), near), 0.0)
    nearest = graph.add("ArgMin", near, axis=1, keepdims=0)
    return {
        "predict": (nearest, np.int64, ["m"]),
        "transform": scores.numbers(graph.add("Sqrt", squares), single=False),
    }


def _scored(model, scores):
    """Labels of the largest score; probabilities where scores are log-odds."""
    graph, single = scores.graph, scores.width == 1
    found = {"predict": _labels(graph, model.classes_, _best(graph, scores.value, single)),
             "decision_function": scores.numbers(scores.value, single)}  # fmt: skip
    if hasattr(model, "predict_proba"):
        found["predict_proba"] = scores.numbers(_probabilities(graph, scores.value, single), single=False)
    return found


def _best(graph, values, single):
    """Number of the class, (m,)."""
    if single:
        positive = graph.add("Greater", graph.column(values), 0.0)
        return graph.where(positive, graph.indices(1), graph.indices(0))
    return graph.add("ArgMax", values, axis=1, keepdims=0)


def _probabilities(graph, values, single):
    if not single:
        return graph.add("Softmax", values, axis=1)
    return graph.add("Sigmoid", graph.add("Concat", graph.add("Neg", values), values, axis=1))


def _labels(graph, classes, codes):
    """Labels of the numbers of classes."""
    if classes.dtype.kind in "OU":
        if not all(isinstance(c, str) for c in classes.tolist()):
            raise ValueError(
                f"labels such as {classes.tolist()[0]!r} are neither numbers nor texts, which is what ONNX has"
            )
        return graph.add("Gather", graph.texts(classes.tolist()), codes), np.dtype(object), ["m"]
    kind = np.int64 if classes.dtype.kind in "iu" else classes.dtype
    return graph.add("Gather", graph.constant(classes, kind), codes), kind, ["m"]


def _relevance(model, scores):
    """A relevance vector machine's probabilities of several classes are logistic functions divided by their sum."""
    if model.moderated_:
        raise ValueError("moderated=True asks for variances, which are no kernel expansion; fit with moderated=False")
    graph, found = scores.graph, _scored(model, scores)
    if scores.width > 1:
        each = graph.add("Sigmoid", scores.value)
        found["predict_proba"] = scores.numbers(graph.add("Div", each, graph.sum(each)), single=False)
    return found


def _discriminant(model, scores):
    graph, add = scores.graph, scores.graph.add
    T, M = scores.value, np.asarray(model.means_, np.float64)
    products = add("Gemm", T, M, transB=1)
    squares = add(
        "Add", add("Sub", graph.sum(add("Mul", T, T)), add("Mul", products, 2.0)), np.square(M).sum(axis=1)[None]
    )
    with np.errstate(divide="ignore"):  # the log of a prior of 0
        joint = add("Sub", np.log(model.priors_)[None], add("Mul", squares, 0.5))
    two = len(model.classes_) == 2
    odds = add("Sub", graph.columns(joint, [1]), graph.columns(joint, [0])) if two else joint
    q = model._n_features_out
    return {
        "predict": _labels(graph, model.classes_, add("ArgMax", joint, axis=1, keepdims=0)),
        "decision_function": scores.numbers(odds, single=two),
        "predict_proba": scores.numbers(add("Softmax", joint, axis=1), single=False),
        "transform": scores.numbers(graph.columns(T, range(q)), single=False),
    }


# ------------------------------------------------------------------------------------------------ support vector classifiers
def _machine(model, scores):
    """Two classes by the sign; more by votes of the pairs or by the largest value."""
    graph, n = scores.graph, len(model.classes_)
    if n == 2 or model.multi_class == "ovr":
        values, best = scores.value, _best(graph, scores.value, n == 2)
    else:
        shaped = _summed_votes(graph, scores.value, n)
        values = scores.value if model.decision_function_shape == "ovo" else shaped
        best = graph.add("ArgMax", shaped if model.break_ties else _votes(graph, scores.value, n), axis=1, keepdims=0)
    found = {"predict": _labels(graph, model.classes_, best), "decision_function": scores.numbers(values, n == 2)}
    if hasattr(model, "_calibrated"):
        found["predict_proba"] = scores.numbers(_calibrated(graph, model, values), single=False)
    return found


def _places(n):
    """Matrices (pairs, n): which class a pair's positive values speak for, and which its negative ones."""
    pairs = pairs_of(n, "ovo")
    first, second = np.eye(n)[[p.first for p in pairs]], np.eye(n)[[p.second for p in pairs]]
    return first, second


def _votes(graph, values, n):
    first, second = _places(n)
    positive = graph.where(graph.add("Greater", values, 0.0), 1.0, 0.0)
    return graph.add("Add", graph.add("Gemm", positive, first - second), second.sum(axis=0)[None])


def _summed_votes(graph, values, n):
    """scikit-learn's values of classes: votes, and between equals the sum of the pairs' values, brought below 1/3."""
    add, (first, second) = graph.add, _places(n)
    negative = graph.where(add("Less", values, 0.0), 1.0, 0.0)
    votes = add("Add", add("Gemm", negative, second - first), first.sum(axis=0)[None])
    sums = add("Gemm", values, first - second)
    return add("Add", votes, add("Div", sums, add("Mul", add("Add", add("Abs", sums), 1.0), 3.0)))


def _calibrated(graph, model, values):
    """Platt's logistic functions of the decision values, divided by their sum."""
    curves = model._calibrated.calibrated_classifiers_[0].calibrators
    a, b = (np.array([getattr(c, name) for c in curves])[None] for name in ("a_", "b_"))
    p = graph.add("Sigmoid", graph.add("Neg", graph.add("Add", graph.add("Mul", values, a), b)))
    if len(curves) == 1:
        return graph.add("Concat", graph.add("Sub", 1.0, p), p, axis=1)
    return graph.add("Div", p, graph.sum(p))


_REGRESSORS = (KernelRidge, KernelRidgeCV, SVR, NuSVR, BudgetKernelRegressor, GaussianProcessRegressor, L1VMRegressor,
               L2VMRegressor, RVMRegressor, KernelMachineRegressor, RBFNetwork)  # fmt: skip
_HEADS = (
    ((SVC, NuSVC, SVCPath), _machine), (OneClassSVM, _one_class), (KernelFisherDiscriminant, _discriminant),
    (KernelKMeans, _clusters), ((KernelPCA, KernelCCA), _components), (RVMClassifier, _relevance),
    ((ScoredClassifier, KernelPerceptron), _scored), (_REGRESSORS, _regression),
)  # fmt: skip

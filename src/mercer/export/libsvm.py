"""Support vector machines as the text files of LIBSVM's svm-train, written and read.

The format has no description of its own; it is what `svm_save_model` writes: lines of a word and its values, `SV`, and then one
line a vector with its coefficients and `column:value` pairs, columns counted from 1.
"""

import math
import os
import reprlib
import warnings
from array import array
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mercer.errors import ModelFileError, NumericalWarning
from mercer.estimators import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.estimators.pairs import pair_columns, pairs_of, sklearn_layout
from mercer.export.files import check_free
from mercer.gram.plan import human_bytes
from mercer.kernels import RBF, Linear, Polynomial, Sigmoid
from mercer.persist.atomic import replacing
from mercer.persist.container import naming, opened
from mercer.persist.values import restored
from mercer.validate import memory_bytes

__all__ = ["from_libsvm", "to_libsvm"]

_TYPES: dict[str, Any] = {
    "c_svc": SVC, "nu_svc": NuSVC, "one_class": OneClassSVM, "epsilon_svr": SVR, "nu_svr": NuSVR,
}  # fmt: skip
_CLASSIFIERS = ("c_svc", "nu_svc")
_WORDS = {"degree", "gamma", "coef0"}
_NEEDED = {"linear": set(), "polynomial": _WORDS, "rbf": {"gamma"}, "sigmoid": {"gamma", "coef0"}, "precomputed": set()}
_PROBABILITIES = ("probA", "probB", "prob_density_marks")
_KEYS = {"svm_type", "kernel_type", *_WORDS, "nr_class", "total_sv", "rho", "label", "nr_sv", *_PROBABILITIES}
_LARGEST = 2**31 - 1  # of columns, counts and labels: LIBSVM's int
_LINE = 2**27  # bytes of a line; the longest are those of vectors with very many columns


# ------------------------------------------------------------------------------------------------ writing
def to_libsvm(model, path: str | os.PathLike, *, force: bool = False) -> None:
    """Write a fitted SVC, NuSVC, SVR, NuSVR or OneClassSVM as a model file of LIBSVM, which `svm-predict` reads.

    Parameters
    ----------
    model : with the kernel Linear, Polynomial of whole degree, RBF with one lengthscale, Sigmoid, or "precomputed".
    path : name of the file; its folder must exist.
    force : whether a file of this name may be replaced.

    Labels must be whole numbers. Numbers are written with 17 digits, which are all they have.

    >>> import tempfile
    >>> from mercer import SVC, from_libsvm, to_libsvm
    >>> path = os.path.join(tempfile.mkdtemp(), "svc.model")
    >>> model = SVC(gamma=0.5).fit([[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1])
    >>> to_libsvm(model, path)
    >>> from_libsvm(path).predict([[0.2], [2.9]]).tolist()
    [-1, 1]
    """
    head, coefficients, rows = _parts(model)
    check_free(path, force)
    with replacing(Path(path)) as file:
        file.write(("\n".join([*head, "SV"]) + "\n").encode("ascii"))
        for c, row in zip(coefficients.T, rows, strict=True):
            file.write((" ".join([*map(_number, c), *row]) + " \n").encode("ascii"))


def _parts(model):
    """Lines of the head, coefficients (k, n) as LIBSVM has them, and the texts of the vectors."""
    kind = next((word for word, cls in _TYPES.items() if isinstance(model, cls)), None)
    if kind is None:
        raise TypeError(f"to_libsvm writes SVC, NuSVC, SVR, NuSVR and OneClassSVM, got {type(model).__name__}")
    check_is_fitted(model)
    if hasattr(model, "_calibrated"):
        warnings.warn(
            "LIBSVM's probabilities are made in another way: the file has none", NumericalWarning, stacklevel=3
        )
    flip = -1.0 if kind in _CLASSIFIERS and len(model.classes_) == 2 else 1.0  # LIBSVM's positive is the first class
    head = [f"svm_type {kind}", *_kernel_lines(model.kernel_), f"nr_class {len(getattr(model, 'classes_', 'ab'))}",
            f"total_sv {len(model._columns)}", "rho " + " ".join(_number(-flip * b) for b in model.intercept_)]  # fmt: skip
    if kind in _CLASSIFIERS:
        head += _class_lines(model)
    return head, flip * _layout(model), _row_texts(model)


def _kernel_lines(kernel):
    if isinstance(kernel, str):
        return ["kernel_type precomputed"]
    if isinstance(kernel, Linear):
        return ["kernel_type linear"]
    if isinstance(kernel, RBF) and kernel.isotropic:
        return ["kernel_type rbf", f"gamma {_number(0.5 / float(kernel.lengthscale) ** 2)}"]
    if isinstance(kernel, Polynomial) and kernel.degree == int(kernel.degree):
        return ["kernel_type polynomial", f"degree {int(kernel.degree)}", f"gamma {_number(kernel.gamma)}",
                f"coef0 {_number(kernel.coef0)}"]  # fmt: skip
    if isinstance(kernel, Sigmoid):
        return ["kernel_type sigmoid", f"gamma {_number(kernel.gamma)}", f"coef0 {_number(kernel.coef0)}"]
    raise ValueError(f"{reprlib.repr(kernel)} is none of LIBSVM's kernels: Linear(), RBF with one lengthscale, Polynomial of a "
                     'whole degree, Sigmoid, or "precomputed"; mercer.save and mercer.export_onnx take others')  # fmt: skip


def _class_lines(model):
    labels = np.asarray(model.classes_)
    if labels.dtype.kind not in "iuf" or (labels != np.trunc(labels)).any() or np.abs(labels).max() > _LARGEST:
        raise ValueError(f"the labels are {reprlib.repr(labels.tolist())}, and LIBSVM has whole numbers only; fit with numbers "
                         "for labels, as sklearn.preprocessing.LabelEncoder makes them")  # fmt: skip
    return [f"label {' '.join(str(int(c)) for c in labels)}", f"nr_sv {' '.join(map(str, _counts(model)))}"]


def _counts(model):
    """Vectors of each class. Those of a compressed machine belong to none, which for two classes makes no difference."""
    if hasattr(model, "n_support_"):
        return model.n_support_.tolist()
    return [len(model._columns), 0]


def _layout(model):
    many = len(getattr(model, "classes_", "ab")) > 2
    if many and (model.multi_class == "ovr" or not hasattr(model, "dual_coef_")):
        why = 'multi_class="ovr"' if model.multi_class == "ovr" else "a compressed machine of more than two classes"
        raise ValueError(
            f"{why} has no place in LIBSVM's format, which is of pairs of classes; fit with multi_class='ovo'"
        )
    return np.asarray(model.dual_coef_ if many else model._columns.T, np.float64)


def _row_texts(model):
    if isinstance(model.kernel_, str):
        return ([f"0:{i + 1}"] for i in model.support_.tolist())
    rows = model.X_fit_
    if getattr(rows, "ndim", 1) != 2:
        raise ValueError("the support vectors are no rows of numbers, which is what LIBSVM has")
    return (_row_text(rows[[i]]) for i in range(rows.shape[0]))


def _row_text(row):
    found = sp.csr_array(row)
    found.sort_indices()
    return [f"{j + 1}:{_number(v)}" for j, v in zip(found.indices.tolist(), found.data.tolist(), strict=True) if v]


def _number(x):
    return format(float(x), ".17g")


# ------------------------------------------------------------------------------------------------ reading
def from_libsvm(path: str | os.PathLike, *, n_features: int | None = None, memory: int | str | None = "2GB") -> Any:
    """A fitted SVC, NuSVC, SVR, NuSVR or OneClassSVM from a model file of LIBSVM.

    Parameters
    ----------
    path : an ordinary file that svm-train or `to_libsvm` has written; anything else raises ModelFileError.
    n_features : columns of the rows; None takes the last one that a support vector has. Of "precomputed" kernels the number
        of rows of the training.
    memory : the most bytes that the file, and the machine, may take.

    The machine decides as LIBSVM's does. Parameters that the file does not tell (C, nu, epsilon) have their defaults, and
    `support_` counts the vectors of the file. LIBSVM's probabilities are not kept, of which a warning tells.
    """
    limit = memory_bytes(memory)
    if n_features is not None and not (isinstance(n_features, Integral) and n_features > 0):
        raise ValueError(f"n_features={n_features!r} must be a positive whole number or None")
    with naming(path), opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if limit is not None and size > limit:
            raise ModelFileError(f"it holds {human_bytes(size)}, at most {human_bytes(limit)} are allowed; if you trust it, "
                                 f'read it with memory="{math.ceil(size / 1e9)}GB"')  # fmt: skip
        found = _read(file)
        _check_columns(found, n_features, limit)
        try:
            return _machine(found, _kernel(found), n_features)
        except ModelFileError:
            raise
        except (ValueError, LookupError, ArithmeticError, MemoryError) as error:
            raise ModelFileError(f"its parts do not fit together ({str(error)[:200]}); take another copy") from error


@dataclass
class _File:
    """What a file says: words of the head, and the vectors as one run of coefficients, columns and values."""

    head: dict[str, list[str]] = field(default_factory=dict)
    coefficients: array = field(default_factory=lambda: array("d"))
    columns: array = field(default_factory=lambda: array("q"))
    values: array = field(default_factory=lambda: array("d"))
    ends: array = field(default_factory=lambda: array("q", [0]))

    @property
    def kind(self):
        return self.head["svm_type"][0]

    @property
    def n(self):
        return len(self.ends) - 1

    @property
    def precomputed(self):
        return self.head["kernel_type"] == ["precomputed"]

    def whole(self, word, count=1) -> list[int]:
        """Whole numbers of the head."""
        return [_whole(v, word) for v in self.words(word, count)]

    def numbers(self, word, count=1) -> list[float]:
        return [_float(v, word) for v in self.words(word, count)]

    def words(self, word, count):
        values = self.head.get(word)
        if values is None or len(values) != count:
            said = "is missing" if values is None else f"has {len(values)} values"
            raise ModelFileError(f"the line {word} {said}, expected {count}")
        return values


def _read(file) -> _File:
    found, number = _File(), 0
    for number, words in _lines(file):
        if words == ["SV"]:
            break
        if not words or words[0] not in _KEYS or words[0] in found.head:
            raise ModelFileError(f"line {number} is {reprlib.repr(' '.join(words))}; expected one of {', '.join(sorted(_KEYS))}, "
                                 "each once, or SV. Is it a model of svm-train?")  # fmt: skip
        found.head[words[0]] = words[1:]
    else:
        raise ModelFileError(f"the line SV is missing after {number} lines; is it a model of svm-train, and whole?")
    n, k = _checked_head(found)
    for line, words in _lines(file, number):
        if found.n == n:
            raise ModelFileError(f"there are more vectors than total_sv says, {n}")
        _read_vector(found, words, k, line)
    if found.n != n:
        raise ModelFileError(f"total_sv is {n}, but there are {found.n} vectors; it seems cut short, take another copy")
    return found


def _lines(file, number=0):
    """(number, words) of the lines that follow."""
    while line := file.readline(_LINE):
        number += 1
        if len(line) == _LINE:
            raise ModelFileError(f"line {number} has more than {human_bytes(_LINE)}")
        try:
            text = line.decode("ascii")
        except UnicodeDecodeError as error:
            raise ModelFileError(f"line {number} is no plain text; is it a model of svm-train?") from error
        yield number, text.split()


def _checked_head(found):
    """(vectors, coefficients of each) that the head promises, if it is sound."""
    if found.words("svm_type", 1)[0] not in _TYPES:
        raise ModelFileError(f"svm_type is {reprlib.repr(found.kind)}, expected one of {', '.join(_TYPES)}")
    kernel = found.words("kernel_type", 1)[0]
    if kernel not in _NEEDED:
        raise ModelFileError(f"kernel_type is {reprlib.repr(kernel)}, expected one of {', '.join(_NEEDED)}")
    (classes,), (n,) = found.whole("nr_class"), found.whole("total_sv")
    if n < 0 or classes < 2 or (found.kind not in _CLASSIFIERS and classes != 2):
        raise ModelFileError(f"total_sv is {n} and nr_class {classes}, which no machine of the type {found.kind} has")
    found.numbers("rho", classes * (classes - 1) // 2)
    if found.kind in _CLASSIFIERS:
        labels, counts = found.whole("label", classes), found.whole("nr_sv", classes)
        if len(set(labels)) < classes or min(counts) < 0 or sum(counts) != n:
            raise ModelFileError("labels are there twice, or nr_sv does not add up to total_sv")
    return n, classes - 1


def _read_vector(found, words, k, number):
    if len(words) < k:
        raise ModelFileError(f"line {number} has {len(words)} numbers, expected {k} coefficients")
    found.coefficients.extend(_float(w, f"line {number}") for w in words[:k])
    last = -1 if found.precomputed else 0
    for pair in words[k:]:
        column, mark, value = pair.partition(":")
        j = _whole(column, f"line {number}")
        if not mark or j <= last:
            raise ModelFileError(
                f"line {number} has {reprlib.repr(pair)}; expected column:value, columns from 1 on, increasing"
            )
        last = j
        found.columns.append(j)
        found.values.append(_float(value, f"line {number}"))
    found.ends.append(len(found.columns))


def _whole(text, where):
    digits = text[1:] if text[:1] in "+-" else text
    if not digits.isdigit() or len(digits) > 10 or abs(int(text)) > _LARGEST:
        raise ModelFileError(f"{where} has {reprlib.repr(text)}, expected a whole number up to {_LARGEST}")
    return int(text)


def _float(text, where):
    try:
        value = float(text) if "_" not in text else math.nan  # Python would read 1_0 as 10
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ModelFileError(f"{where} has {reprlib.repr(text)}, expected a finite number")
    return value


# ------------------------------------------------------------------------------------------------ machines
def _check_columns(found, n_features, limit):
    """Whether the columns are among those that are wanted, and what is made of the file fits."""
    last = int(max(found.values if found.precomputed else found.columns, default=0))
    if n_features is not None and last > n_features:
        raise ModelFileError(f"n_features={n_features}, but a support vector has the column {last}")
    pairs = len(found.head["rho"])
    needed = 8 * found.n * pairs + 16 * len(found.values)
    if limit is not None and needed > limit:
        raise ModelFileError(f"the machine would take {human_bytes(needed)}, at most {human_bytes(limit)} are allowed; if you "
                             f'trust it, read it with memory="{math.ceil(needed / 1e9)}GB"')  # fmt: skip


def _kernel(found):
    kind = found.head["kernel_type"][0]
    said = {word: found.numbers(word)[0] for word in _NEEDED[kind]}
    if said.get("gamma", 0.0) < 0 or said.get("degree", 1.0) < 0:
        raise ModelFileError(f"the {kind} kernel has {said}; gamma and degree are at least 0")
    if kind == "precomputed":
        return kind
    if kind == "rbf":
        return RBF(math.sqrt(0.5 / said["gamma"]) if said["gamma"] > 0 else math.inf)
    return {"linear": Linear, "polynomial": Polynomial, "sigmoid": Sigmoid}[kind](**said)


def _machine(found: _File, kernel, n_features):
    cls = _TYPES[found.kind]
    rows, columns = (
        _rows(found, n_features),
        np.array(found.coefficients).reshape(found.n, int(found.head["nr_class"][0]) - 1),
    )
    b = -np.array(found.numbers("rho", len(found.head["rho"])))
    state = _classes(found, columns, b) if found.kind in _CLASSIFIERS else _one(columns, b)
    order = state.pop("order")
    serials = np.asarray(found.values, np.int64)[order] - 1 if found.precomputed else order
    state |= {
        "kernel_": kernel, "support_": serials.astype(np.int32), "n_iter_": 0, "fit_status_": 0, "solver_used_": "libsvm",
        "n_features_in_": rows.shape[1], "shape_fit_": (found.n, rows.shape[1]),
    }  # fmt: skip
    state["X_fit_"] = state["support_vectors_"] = np.empty((0, 0)) if found.precomputed else rows[order]
    if found.precomputed:
        state["kept_"] = state["support_"]
    if found.kind == "one_class":
        state["offset_"] = -state["intercept_"]
    if any(word in found.head for word in _PROBABILITIES):
        warnings.warn("the probabilities of this LIBSVM model are not kept; mercer.calibrated makes others", NumericalWarning,
                      stacklevel=3)  # fmt: skip
    return restored(cls, {**cls(kernel=kernel).get_params(deep=False), **state})


def _rows(found, n_features):
    """Support vectors (n, d): dense where at least a quarter of the entries are there, else sparse."""
    values, columns, ends = np.array(found.values), np.array(found.columns), np.array(found.ends)
    if found.precomputed:
        serials = (
            found.n == len(values)
            and (columns == 0).all()
            and (values >= 1).all()
            and (values == np.trunc(values)).all()
        )
        if not serials:
            raise ModelFileError("vectors of a precomputed kernel are the numbers of their rows, 0:number")
        return np.empty((0, n_features or int(values.max(initial=0))))
    d = n_features or int(columns.max(initial=0))
    rows = sp.csr_array((values, columns - 1, ends), shape=(found.n, d))
    return rows.toarray() if 4 * len(values) >= found.n * d else rows


def _one(columns, b):
    return {"_columns": np.ascontiguousarray(columns), "dual_coef_": columns.T.copy(), "intercept_": b,
            "n_support_": np.array([len(columns)], np.int32), "order": np.arange(len(columns))}  # fmt: skip


def _classes(found, columns, b):
    """Machines of pairs. Two classes are put in increasing order, as scikit-learn expects them, and the second is positive.

    More stay in the order of the file: of classes with as many votes LIBSVM takes the first.
    """
    k = len(found.head["label"])
    labels, counts = np.array(found.whole("label", k)), found.whole("nr_sv", k)
    place = np.argsort(labels) if k == 2 else np.arange(k)
    sign = -1.0 if k == 2 and place[0] == 0 else 1.0  # LIBSVM's positive is the first of a pair
    given, codes = np.repeat(np.arange(k), counts), np.repeat(np.argsort(place), counts)
    order, pairs = np.argsort(codes, kind="stable"), pairs_of(k, "ovo")
    made = np.ascontiguousarray(sign * pair_columns(columns.T, given, pairs)[order])
    return {"classes_": labels[place], "class_weight_": np.ones(k), "_columns": made, "intercept_": sign * b,
            "dual_coef_": sklearn_layout(made, codes[order], pairs, k, "ovo"),
            "n_support_": np.bincount(codes, minlength=k).astype(np.int32), "order": order}  # fmt: skip

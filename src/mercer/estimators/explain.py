"""Explanations: the features with the largest weights of a machine that is linear in explicit features."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from mercer import validate
from mercer.estimators.pairs import pairs_of
from mercer.kernels import Constant, FeatureKernel, Linear, Named, Normalise, On, Scaled, Sum
from mercer.kernels.algebra import scale_rows
from mercer.kernels.vocabulary import feature_names

__all__ = ["TopFeatures", "top_features"]


@dataclass(frozen=True, repr=False)
class TopFeatures:
    """Features with their weights, the largest in size first, for each output of a machine.

    Indexing by an output's name or number gives its list of (feature, weight). Printed, it is a table.
    """

    outputs: tuple
    lists: tuple

    def __getitem__(self, output) -> list:
        if isinstance(output, str) and output not in self.outputs:
            raise KeyError(f"no output is named {output!r}; there are {', '.join(map(str, self.outputs))}")
        return self.lists[self.outputs.index(output) if output in self.outputs else output]

    def __len__(self):
        return len(self.lists)

    def __iter__(self):
        return iter(self.lists)

    def __str__(self):
        lines = []
        for name, found in zip(self.outputs, self.lists, strict=True):
            lines += [f"{name}:" if isinstance(name, str) else f"output {name}:"] if self.outputs != (0,) else []
            lines += [f"{weight:+12.4g}  {_shown(feature)}" for feature, weight in found]
        return "\n".join(lines)

    __repr__ = __str__


def _shown(feature):
    if isinstance(feature, _Tagged):
        return f"{feature.tag}: {_shown(feature.feature)}"
    return feature if isinstance(feature, str) and feature.strip() == feature and feature else repr(feature)


@dataclass(frozen=True)
class _Tagged:
    """A feature of a named part or column."""

    tag: Any
    feature: Any


def top_features(model, n: int = 20) -> TopFeatures:
    """The features with the largest weights of a fitted machine: substrings, words, whatever its kernel counts.

    A machine f(x) = sum_i a_i k(x, x_i) with k(x, y) = <phi(x), phi(y)> has the weights w = sum_i a_i phi(x_i). The kernel
    must be made of kernels with explicit features by sums, scaling, `normalise`, `on` and `named`. Of a normalised kernel the
    weights belong to the normalised features. A positive weight speaks for the output: the second of two classes, the first
    of a pair.

    >>> from mercer import SVC
    >>> from mercer.kernels import Spectrum
    >>> model = SVC(kernel=Spectrum(2)).fit(["acac", "acca", "gtgt", "tgtg"], ["ac", "ac", "gt", "gt"])
    >>> [feature for feature, weight in top_features(model, 2)["gt"]]
    ['gt', 'tg']
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n={n!r} must be a whole number of features, at least 1")
    model = _machine(model)
    expansion = model.expansion_
    if isinstance(expansion.kernel, str):
        raise ValueError('a machine with kernel="precomputed" knows no features; fit it with a kernel object')
    features = _features(expansion.kernel, expansion.centres)
    W = np.asarray(features.matrix.T @ np.asarray(expansion.coefficients, np.float64)).T
    return TopFeatures(_outputs(model, len(W)), tuple(_largest(w, features, n) for w in W))


def _machine(model):
    """The fitted machine inside a search or a pipeline."""
    model = getattr(model, "best_estimator_", model)
    model = model[-1] if isinstance(model, Pipeline) else model
    if not hasattr(type(model), "expansion_"):
        raise TypeError(f"top_features needs a fitted machine that is a sum over kernels, got {type(model).__name__}")
    return model


def _largest(w, features, n):
    order = np.lexsort((np.arange(len(w)), -np.abs(w)))[:n]
    order = order[w[order] != 0]
    return list(zip(features.names(order), w[order].tolist(), strict=True))


def _outputs(model, count):
    """Names of the outputs; numbers where they have none."""
    classes = getattr(model, "classes_", None)
    if classes is None or hasattr(model, "transform"):
        return tuple(f"component {j + 1}" for j in range(count)) if hasattr(model, "transform") else tuple(range(count))
    if count == 1:
        return (str(classes[-1]),)
    if count == len(classes) and getattr(model, "multi_class", "ovr") == "ovr":
        return tuple(map(str, classes))
    pairs = pairs_of(len(classes), "ovo")
    return tuple(f"{classes[p.first]} against {classes[p.second]}" for p in pairs)


# ---------------------------------------------------------------------------------------------- features with names
@dataclass(frozen=True)
class _NamedFeatures:
    """Features of some rows (n, p), their squared norms, and the names of chosen columns."""

    matrix: Any
    norms: np.ndarray
    names: Callable

    def tagged(self, tag):
        return _NamedFeatures(self.matrix, self.norms, lambda columns: [_Tagged(tag, f) for f in self.names(columns)])


def _features(kernel, rows):
    if isinstance(kernel, FeatureKernel):
        matrix, norms, vocabulary = kernel.count_matrix(validate.objects(rows))
        return _NamedFeatures(matrix, norms, lambda columns: feature_names(vocabulary, columns))
    for kind, make in _RULES.items():
        if isinstance(kernel, kind):
            return make(kernel, rows)
    raise TypeError(
        f"top_features: {kernel!r} is not linear in features that have names; use kernels such as Spectrum, TfIdf or Linear, "
        "and sums, scaling, normalise(), on() and named()"
    )


def _scaled(kernel, rows):
    if kernel.scale < 0:
        raise ValueError(f"top_features: {kernel!r} has no real features, since its scale is negative")
    inner = _features(kernel.kernel, rows)
    return _NamedFeatures(inner.matrix * math.sqrt(kernel.scale), inner.norms * kernel.scale, inner.names)


def _normalised(kernel, rows):
    inner = _features(kernel.kernel, rows)
    scale = np.divide(1.0, np.sqrt(inner.norms), out=np.zeros_like(inner.norms), where=inner.norms > 0)
    return _NamedFeatures(scale_rows(inner.matrix, scale), (inner.norms > 0).astype(float), inner.names)


def _summed(kernel, rows):
    parts = [_features(part, rows) for part in kernel.parts]
    ends = np.cumsum([p.matrix.shape[1] for p in parts])

    def names(columns):
        which = np.searchsorted(ends, columns, "right")
        return [
            parts[i].names([c - ends[i] + parts[i].matrix.shape[1]])[0] for i, c in zip(which, columns, strict=True)
        ]

    matrix = sp.csr_array(sp.hstack([sp.csr_array(p.matrix) for p in parts]))
    return _NamedFeatures(matrix, sum(p.norms for p in parts), names)


def _on(kernel, rows):
    part = validate.part(rows, kernel.chosen)
    inner = _features(kernel.kernel, part)
    return inner.tagged(kernel.chosen[0]) if len(kernel.chosen) == 1 and _counts(kernel.kernel) else inner


def _counts(kernel):
    """Whether names say nothing of the column that is read."""
    return any(isinstance(leaf, FeatureKernel) for leaf in kernel._leaves)


def _columns(kernel, rows):
    X = validate.numeric(rows)
    known = rows.names if isinstance(rows, validate.Table) else [f"column {j}" for j in range(X.shape[1])]
    norms = np.asarray(sp.csr_array(X).power(2).sum(axis=1), float).ravel()
    return _NamedFeatures(X, norms, lambda columns: [known[j] for j in columns])


def _constant(kernel, rows):
    n, value = validate.n_rows(rows), float(kernel.value)
    if value < 0:
        raise ValueError(f"top_features: {kernel!r} has no real features, since its value is negative")
    return _NamedFeatures(
        np.full((n, 1), math.sqrt(value)), np.full(n, value), lambda columns: ["constant"] * len(columns)
    )


_RULES: dict[type, Callable] = {
    Scaled: _scaled,
    Normalise: _normalised,
    Sum: _summed,
    On: _on,
    Named: lambda kernel, rows: _features(kernel.kernel, rows).tagged(kernel.label),
    Linear: _columns,
    Constant: _constant,
}

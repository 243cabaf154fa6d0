"""Kernels that are tried for a table, by the kinds of its columns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer import validate
from mercer.cli.prepare import Prepared
from mercer.kernels import RBF, Categorical, Kernel, Linear, Spectrum, TfIdf, WeightedDegree
from mercer.kernels.resolve import at_quantile, reads_distances

__all__ = ["Family", "families", "given_family", "is_sequence", "stretched"]

ALPHABET = 26  # letters of sequences, and a few signs
SHORTEST = 8  # letters of a sequence


@dataclass(frozen=True)
class Family:
    """Kernels that differ in their widths only. make: the kernel, lengthscales a factor times those of the middle."""

    name: str
    make: Callable[[float], Kernel]
    has_widths: bool

    @classmethod
    def of(cls, name: str, kernel: Kernel, rows) -> "Family":
        """The widths begin at the median distance of some rows."""
        widths = any(reads_distances(leaf) for leaf in kernel._leaves)
        middle = at_quantile(kernel, rows, 0.5) if widths else kernel
        return cls(name, lambda factor: stretched(middle, factor), widths)


def stretched(kernel: Any, factor: float) -> Kernel:
    """The kernel with all lengthscales of its leaves times a factor."""
    if kernel.children:
        return kernel.rebuild(tuple(stretched(child, factor) for child in kernel.children))
    if not reads_distances(kernel) or isinstance(kernel.lengthscale, str):
        return kernel
    return kernel.replace(lengthscale=_rounded(np.multiply(factor, kernel.lengthscale)))


def _rounded(values):
    """Four digits: widths of a grid are no measurements."""
    short = np.array([float(f"{v:.4g}") for v in np.atleast_1d(values)])
    return short if np.ndim(values) else float(short[0])


def given_family(kernel: Kernel, rows) -> Family:
    """The user's kernel: the widths that were typed are the middle."""
    resolved = (
        kernel.resolve(rows)
        if any(isinstance(getattr(k, "lengthscale", None), str) for k in kernel._leaves)
        else kernel
    )
    widths = any(reads_distances(leaf) for leaf in resolved._leaves)
    return Family("given", lambda factor: stretched(resolved, factor), widths)


def families(prepared: Prepared, rows) -> list[Family]:
    """Of all kinds of columns, the likelier ones first. rows: some of the rows, as the kernels read them."""
    if prepared.layout in ("matrix", "sparse"):
        return [Family.of("Gaussian", RBF("median"), rows), Family.of("linear", Linear(), rows)]
    if prepared.layout == "text":
        return [Family.of(name, kernel, rows) for name, kernel in text_kernels(rows)]
    return _mixed(prepared, validate.rows(rows, "parts"))


def _mixed(prepared, rows):
    """Sums over the kinds of columns, and products of the numbers with the categories."""
    of = {kind: [c.name for c in prepared.codings if c.kind == kind] for kind in ("numeric", "category", "text")}
    numbers = [name for name in prepared.names if name not in of["category"] + of["text"]]
    parts = [RBF("median").on(*numbers)] if numbers else []
    texts = [text_kernels(rows.columns[rows.names.index(name)])[0][1].on(name) for name in of["text"]]
    if not of["category"]:
        return [Family.of("sum", _total([*parts, *texts]), rows)]
    agree = Categorical().on(*of["category"])
    near = agree.gaussian(0.5)
    together = parts[0] * near if parts else near
    return [
        Family.of("product", _total([together, *texts]), rows),
        Family.of("sum", _total([*parts, agree, *texts]), rows),
    ]


def _total(kernels):
    total = kernels[0]
    for k in kernels[1:]:
        total = total + k
    return total


def text_kernels(texts) -> list[tuple[str, Kernel]]:
    """For sequences of letters their substrings, for documents their words."""
    if not is_sequence(texts):
        return [("words", TfIdf()), ("words and pairs", TfIdf(ngram_range=(1, 2)))]
    found = [(f"{k} letters", Spectrum(k).normalise()) for k in (3, 4, 5)]
    if len({len(t) for t in texts}) == 1:
        found.append(("letters in place", WeightedDegree(4).normalise()))
    return found


def is_sequence(texts) -> bool:
    """Whether these are words over a small alphabet, such as DNA or proteins, rather than documents."""
    letters = set().union(*({*t} for t in texts)) if len(texts) else set()
    long = sum(len(t) for t in texts) >= SHORTEST * len(texts)
    return 0 < len(letters) <= ALPHABET + 4 and " " not in letters and long

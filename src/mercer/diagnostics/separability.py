"""V7: can two classes be separated under a kernel? The hard margin, or masses for which the two class means coincide."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import validate
from mercer.diagnostics.hulls import Bounds, FeatureHulls, GramHulls, Hulls, nearest_points
from mercer.diagnostics.matrices import number, psd_tolerance, refuse_indefinite, square, whole
from mercer.errors import NotPSDError
from mercer.gram import GivenGram, Gram, budget, gram
from mercer.kernels import ArcCosine, ArcSine, Kernel, as_kernel
from mercer.linalg import Status, check_symmetric, smallest_eigenvalue
from mercer.random import generator

__all__ = ["Separability", "separable"]

_SAMPLE = 1000  # rows on which a kernel without a certificate is tested
_CACHE = 2 * 10**8  # bytes of kernel rows where no budget is given
_ERROR = 1e-12  # of an entry relative to the largest, as docs/numerics.md promises
_ERROR_OF_ANGLES = 1e-7


@dataclass(frozen=True)
class Separability:
    """Whether two classes can be separated by f(x) = <w, phi(x)> + b, and the evidence.

    ok: True, False, or None where rounding or a limit left it open.
    margin, margin_upper: the largest margin 1/||w|| lies between them, rounding counted in; `margin` is what the separator
    below keeps, 0 if there is none.
    coefficients, intercept: f(x) = sum_i coefficients_i k(x, x_i) + intercept with y f >= 1 on all rows; None unless ok.
    masses: (n,), lambda >= 0. With an intercept they sum to 1 over each class and norm = ||sum_i lambda_i y_i phi(x_i)|| is the
    distance of two points of the classes' convex hulls; without, they sum to 1 over all rows, and it is that of a point of
    the hull of y_i phi(x_i) from 0. rounding: norms up to this are 0 but for rounding.
    classes: the labels; f is positive on the second. method: "features" or "gram", where the bounds come from.
    """

    ok: bool | None
    margin: float
    margin_upper: float
    norm: float
    rounding: float
    masses: np.ndarray = field(repr=False)
    coefficients: np.ndarray | None = field(repr=False)
    intercept: float | None
    classes: tuple
    fit_intercept: bool
    method: str
    iterations: int
    advice: str = field(repr=False)

    @property
    def certificate(self) -> np.ndarray | None:
        """The masses that prove that no separator exists; None unless ok is False."""
        return self.masses if self.ok is False else None

    def __str__(self):
        n, what = len(self.masses), "with an intercept" if self.fit_intercept else "without an intercept"
        if self.ok:
            lines = [f"separable {what} on {n} rows: margin {self.margin:.6g} to {self.margin_upper:.6g}"]
        elif self.ok is False:
            rows = int(np.count_nonzero(self.masses))
            lines = [f"not separable {what} on {n} rows: masses on {rows} of them are a certificate"]
        else:
            lines = [f"not decided {what} on {n} rows: the margin is at most {self.margin_upper:.3g}"]
        lines.append(f"nearest points {self.norm:.3g} apart, rounding {self.rounding:.1e} (from {self.method})")
        return "\n".join(lines + ([self.advice] if self.advice else []))


def separable(kernel: Any, X, y, *, fit_intercept: bool = True, tol: float = 1e-4, max_iter: int | None = None,
              time_limit: float | None = None, engine=None, memory=None) -> Separability:  # fmt: skip
    r"""Can two classes be separated under this kernel (V7)?

    .. math:: 2\rho = \min_{\lambda \ge 0} \Bigl\lVert \sum_i \lambda_i y_i \phi(x_i) \Bigr\rVert, \qquad
              \sum_{y_i = 1} \lambda_i = \sum_{y_i = -1} \lambda_i = 1

    The hard margin rho is half the distance of the classes' convex hulls in feature space; masses lambda for which it is 0 prove
    that no separator exists. Without an intercept, rho is the distance of the hull of the :math:`y_i \phi(x_i)` from 0.

    kernel: a kernel, one of scikit-learn's words, a function of two rows, or "precomputed" with a Gram matrix X (n, n).
    y: (n,), two different labels; of several classes pass the rows of two, or ask of one label `y == label`.
    tol: relative difference of the bounds on the margin. max_iter, time_limit: steps and seconds of the solver.
    engine, memory: how and within how many bytes Grams are computed; a matrix of all pairs is never held beyond 2048 rows.

    The answer True needs a margin beyond rounding, False a certificate within it. Kernels with explicit features (`Linear`,
    `Polynomial`, `Spectrum`, ...) are decided by these, to nearly all digits. Of the others a Gram in float64 shows
    distances down to about 1e-6 of the points' size: where the hulls come nearer the answer is None, unless two rows
    with opposite labels are equal. A given matrix is taken at its word: False if the distance is 0 within its precision.

    >>> from mercer.kernels import Linear, Polynomial
    >>> X, y = [[-1, -1], [-1, 1], [1, -1], [1, 1]], [0, 1, 1, 0]
    >>> report = separable(Linear(), X, y)
    >>> report.ok, report.certificate.round(6).tolist()  # the means of the two diagonals coincide
    (False, [0.5, 0.5, 0.5, 0.5])
    >>> report = separable(Polynomial(2), X, y)
    >>> report.ok, round(report.margin, 4)  # w is sqrt(2) x_1 x_2 / 2
    (True, 1.4142)

    Bennett & Bredensteiner (2000); Crisp & Burges (1999).
    """
    tol = number("tol", tol, positive=True)
    limits = {
        "max_iter": None if max_iter is None else whole("max_iter", max_iter),
        "time_limit": None if time_limit is None else number("time_limit", time_limit, positive=True),
        "memory": min(_CACHE, budget()) if memory is None else budget(memory),
    }
    given = isinstance(kernel, str) and kernel == "precomputed"
    rows, K, error = _given(X) if given else _lazy(as_kernel(kernel), X, engine, memory)
    classes, signs = _signs(y, len(K))
    hulls = _hulls(K, rows, signs, fit_intercept, error, engine, memory)
    found, ok, status, iterations = _decided(hulls, _seen(K, rows), tol, limits)
    return _report(hulls, found, ok, status, iterations, classes, tol)


# ------------------------------------------------------------------------------------------------ what was given
def _given(X):
    """Rows that stand for the points, the Gram, and the relative error of its entries."""
    K = square(X, "X")
    check_symmetric(K)
    K = (K + K.T) / 2
    _refuse_indefinite(GivenGram(K))  # by the precision that it was given in
    return K, GivenGram(K.astype(np.float64, copy=False)), 4 * float(np.finfo(K.dtype).eps)


def _lazy(kernel: Kernel, X, engine, memory):
    if kernel.validity.kind in ("not-psd", "cpd"):
        raise NotPSDError(f"{kernel!r} has no feature space with margins: {kernel.validity}")
    rows = _in_float64(kernel.validated(X))
    angles = any(isinstance(leaf, (ArcCosine, ArcSine)) for leaf in kernel._leaves)
    K = gram(kernel, rows, engine=engine, memory=memory, validated=True)
    if not kernel.validity.certified:
        _refuse_indefinite(K)
    return rows, K, _ERROR_OF_ANGLES if angles else _ERROR


def _in_float64(rows):
    """The same numbers, so that the Gram is computed in float64."""
    if isinstance(rows, validate.Table):
        return validate.Table(rows.names, tuple(_in_float64(c) for c in rows.columns))
    return rows.astype(np.float64, copy=False) if rows.dtype.kind == "f" else rows


def _signs(y, n):
    """The two labels, sorted, and -1 or 1 for each row."""
    y = np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (n,):
        raise ValueError(f"y.shape == {y.shape}, expected ({n},): one label for each row of X")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("y contains NaN or infinity")
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError:
        raise ValueError(
            "y mixes labels of different kinds, which have no order; use all numbers or all strings"
        ) from None
    if len(classes) < 2:
        raise ValueError(f"y has {len(classes)} different label; two are needed to be separated")
    if len(classes) > 2:
        raise ValueError(
            f"y has {len(classes)} different labels; pass the rows of two of them, or ask of one label with y == label"
        )
    return tuple(classes.tolist()), 2.0 * codes - 1.0


def _refuse_indefinite(K):
    n = len(K)
    if n > _SAMPLE:
        index = np.linspace(0, n - 1, _SAMPLE).astype(int)
        K = K[index, index]
    smallest, _ = smallest_eigenvalue(K, generator(0))
    refuse_indefinite(smallest, psd_tolerance(np.abs(K.diag()), K.dtype), "a margin")


def _hulls(K, rows, signs, fit_intercept, error, engine, memory) -> Hulls:
    features = _features(K, rows, memory) if isinstance(K, Gram) else None
    if features is None:
        return GramHulls(K, signs, fit_intercept, error=error, given=isinstance(K, GivenGram))
    return FeatureHulls(features, signs, fit_intercept, engine=engine, memory=memory)


def _features(K, rows, memory):
    """Explicit features of the rows, or None where the kernel has none or they would take much of the memory."""
    n, width = rows.shape if getattr(rows, "ndim", 1) == 2 else (len(K), 1)
    p = K.kernel.feature_dim(width)
    stays_sparse = sp.issparse(rows) and p <= width
    if np.isfinite(p) and not stays_sparse and 32.0 * n * p > budget(memory):
        return None
    try:
        return K.kernel.phi(rows)
    except ValueError:  # how a kernel says that it has no finite map
        return None


# ------------------------------------------------------------------------------------------------ the answer
def _decided(hulls, seen, tol, limits) -> tuple[Bounds, bool | None, Status, int]:
    start = np.zeros(len(hulls.y))
    twins = _twins(seen, hulls.y)
    start[list(twins or (int(np.argmax(hulls.y > 0)), int(np.argmax(hulls.y < 0))))] = 1.0
    start = hulls.normalised(start * hulls.y)
    if twins is not None:
        found = hulls.bounds(start)
        if found.touching:  # not so with White noise, which tells equal rows apart
            return found, False, Status.CONVERGED, 0
    found, status, iterations = nearest_points(hulls, start, tol=tol, **limits)
    if found.lower > 0:
        return found, True, status, iterations
    return found, False if found.touching and hulls.conclusive else None, status, iterations


def _seen(K, rows):
    """What the kernel sees of the rows: the columns that it chooses, unless some part of it reads whole rows."""
    chooses = K.kernel is not None and set(K.kernel._reads()) == {"parts"}
    return validate.part(rows, K.kernel.columns) if chooses else rows


def _twins(rows, signs) -> tuple[int, int] | None:
    """Two equal rows with opposite labels."""
    first: dict = {}
    for i, key in enumerate(validate._row_keys(rows)):
        j = first.setdefault(key, i)
        if signs[i] != signs[j]:
            return j, i
    return None


def _report(hulls, found, ok, status, iterations, classes, tol) -> Separability:
    half = 0.5 if hulls.fit_intercept else 1.0  # the margin is on each side of the border
    scale = 1.0 / (half * hulls.width(found.values)) if ok else 0.0
    return Separability(
        ok=ok,
        margin=half * found.lower if ok else 0.0,
        margin_upper=half * found.upper,
        norm=found.norm,
        rounding=found.rounding,
        masses=np.abs(found.beta),
        coefficients=scale * found.beta if ok else None,
        intercept=scale * hulls.offset(found) if ok else None,
        classes=classes,
        fit_intercept=hulls.fit_intercept,
        method="features" if isinstance(hulls, FeatureHulls) else "gram",
        iterations=iterations,
        advice="" if ok is False or found.within(tol) else _advice(hulls, found, status),
    )


def _advice(hulls, found, status):
    if status is Status.MAX_ITER:
        return "the solver stopped at its limit: centre and scale the columns of X, or raise max_iter or time_limit"
    if found.lower > 0:
        return "rounding keeps the bounds apart: centre and scale the columns of X"
    if isinstance(hulls, GramHulls) and found.touching:
        return (
            "the distance is below what a Gram in float64 shows; centre and scale the columns of X, make the kernel narrower, or "
            "use one with explicit features"
        )
    return "rounding hides the answer: centre and scale the columns of X, or use a kernel of lower degree"

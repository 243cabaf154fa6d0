"""Kernel algebra A1-A13: operators keep the tree as typed; simplification happens in the expression."""

import math
import numbers
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp

from mercer import expr, validate
from mercer.kernels import validity
from mercer.kernels.base import Kernel, frozen
from mercer.kernels.digest import digest
from mercer.kernels.parameters import Count, Positive, Real, Spec
from mercer.kernels.statistics import MeanOf, Vector
from mercer.kernels.trace import lower
from mercer.kernels.views import Part, Plain, Warped
from mercer.registry import register

__all__ = ["Centre", "Difference", "Exp", "Gaussian", "Maximum", "Minimum", "Named", "Normalise", "On", "Poly", "Power",
           "Product", "Scaled", "Series", "Sum", "Tanh", "Times", "Warp"]  # fmt: skip


# ---------------------------------------------------------------------------------------------- what operators build
def _kernel(x):
    from mercer.kernels.products import Constant

    if isinstance(x, Kernel):
        return x
    return Constant(x) if isinstance(x, numbers.Real) and not isinstance(x, bool) else None


def add(a, b):
    a, b = _kernel(a), _kernel(b)
    if a is None or b is None:
        return NotImplemented
    left = a.parts if isinstance(a, Sum) else (a,)  # a + b + c is one flat sum, as typed
    return Sum((*left, b))


def subtract(a, b):
    a, b = _kernel(a), _kernel(b)
    return NotImplemented if a is None or b is None else Difference((a, b))


def multiply(a, b):
    if isinstance(a, numbers.Real):
        return Scaled(b, a)
    if isinstance(b, numbers.Real):
        return Scaled(a, b)
    if not (isinstance(a, Kernel) and isinstance(b, Kernel)):
        return NotImplemented
    left = a.parts if isinstance(a, Product) else (a,)
    return Product((*left, b))


def _number(x):
    x = x.item() if isinstance(x, np.generic) else x
    return repr(x)


# ---------------------------------------------------------------------------------------------- several children
class _Many(Kernel):
    """An operator on a tuple of kernels."""

    precedence = 1
    sign = " + "

    def check(self):
        bad = [p for p in self.parts if not isinstance(p, Kernel)]
        if bad or not self.parts:
            raise TypeError(f"{type(self).__name__} needs kernels, got {bad[0]!r}" if bad else "no kernels")

    @property
    def children(self):
        return tuple(self.parts)

    def rebuild(self, children):
        return type(self)(children)

    def _resolved(self, rows, weight):
        return self._of(tuple(c._resolved(rows, weight) for c in self.children))

    def _traced(self, t):
        return [t.child(self, i) for i in range(len(self.parts))]

    @property
    def stationary(self):
        return all(c.stationary for c in self.children)

    @property
    def isotropic(self):
        return all(c.isotropic for c in self.children)

    def __repr__(self):
        # On the right of a sign of the same precedence brackets keep the tree as typed.
        first, *rest = self.parts
        return self.sign.join([first._operand(self.precedence), *(p._operand(self.precedence + 1) for p in rest)])

    def _operand(self, precedence):
        return repr(self) if precedence <= self.precedence else f"({self!r})"


@register
@frozen
class Sum(_Many):
    """k1 + k2 + ... (A3)."""

    parts: tuple

    def trace(self, t):
        first, *rest = self._traced(t)
        return sum(rest, first)

    @property
    def validity(self):
        return validity.of_sum([c.validity for c in self.children])

    def phi(self, rows):
        return _beside([c.phi(rows) for c in self.children])

    def feature_dim(self, d):
        return sum(c.feature_dim(d) for c in self.children)


@register
@frozen
class Product(_Many):
    """k1 * k2 * ... (A4)."""

    parts: tuple
    precedence = 2
    sign = " * "

    def trace(self, t):
        first, *rest = self._traced(t)
        return math.prod(rest, start=first)

    @property
    def normalised(self):
        return all(c.normalised for c in self.children)

    @property
    def validity(self):
        return validity.of_product([c.validity for c in self.children])

    def phi(self, rows):
        return row_kronecker([c.phi(rows) for c in self.children])

    def feature_dim(self, d):
        return math.prod(c.feature_dim(d) for c in self.children)


@register
@frozen
class Difference(_Many):
    """k1 - k2: allowed, without a certificate."""

    parts: tuple
    sign = " - "

    def trace(self, t):
        a, b = self._traced(t)
        return a - b

    @property
    def validity(self):
        return validity.certificate("unknown", f"the difference {self!r} is not a closure rule")


class _Pointwise(_Many):
    def trace(self, t):
        a, b = self._traced(t)
        return self.function(a, b)

    def __repr__(self):
        a, b = self.parts
        return f"{a._operand(4)}.{type(self).__name__.lower()}({b!r})"

    def _operand(self, precedence):
        return repr(self)

    @property
    def validity(self):
        return validity.certificate(
            "unknown", f"a pointwise {type(self).__name__.lower()} of kernels is not a closure rule"
        )


@register
@frozen
class Minimum(_Pointwise):
    """min(k1, k2): allowed, without a certificate."""

    parts: tuple
    function = staticmethod(expr.minimum)


@register
@frozen
class Maximum(_Pointwise):
    """max(k1, k2): allowed, without a certificate."""

    parts: tuple
    function = staticmethod(expr.maximum)


# ---------------------------------------------------------------------------------------------- one child
class _One(Kernel):
    """An operator on one kernel; facts are the child's unless said otherwise."""

    def check(self):
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"{type(self).__name__} needs a kernel, got {self.kernel!r}")

    @property
    def children(self):
        return (self.kernel,)

    def rebuild(self, children):
        return self._with(kernel=children[0])

    def _resolved(self, rows, weight):
        return self._of((self.kernel._resolved(rows, weight),))

    @property
    def stationary(self):
        return self.kernel.stationary

    @property
    def isotropic(self):
        return self.kernel.isotropic

    def _call(self, *arguments):
        return f"{self.kernel._operand(4)}.{type(self).__name__.lower()}({', '.join(arguments)})"

    def __repr__(self):
        return self._call()


@register
@frozen
class Scaled(_One):
    """c k (A1); the parameter is called `scale`."""

    kernel: Kernel
    scale: Real = 1.0
    parameter_alone = "scale"

    def trace(self, t):
        return t.param(self, "scale") * t.child(self)

    @property
    def validity(self):
        v = self.kernel.validity
        if self.scale > 0:
            return v
        if self.scale == 0:
            return validity.certificate("psd", "0 times a kernel")
        if v.kind == "pd":
            return validity.certificate("not-psd", f"a negative multiple of a strictly PD kernel ({v.reason})")
        return validity.certificate("unknown", f"a negative multiple ({self.scale:g}) of {self.kernel!r}")

    def phi(self, rows):
        if self.scale < 0:
            raise ValueError(f"{self!r} has no real feature map: the scale is negative")
        return math.sqrt(self.scale) * self.kernel.phi(rows)

    def feature_dim(self, d):
        return self.kernel.feature_dim(d)

    def __repr__(self):
        return f"{_number(self.scale)} * {self.kernel._operand(3)}"

    def _operand(self, precedence):
        return repr(self) if precedence <= 2 else f"({self!r})"


@register
@frozen
class Power(_One):
    """k^p for natural p (A13)."""

    kernel: Kernel
    exponent: Count = 2
    parameter_alone = "exponent"

    @property
    def normalised(self):
        return self.kernel.normalised

    def trace(self, t):
        return expr.power(t.child(self), float(self.exponent))

    @property
    def validity(self):
        if self.exponent == 0:
            return validity.certificate("psd", "k**0 is the constant 1")
        return self.kernel.validity if self.exponent == 1 else validity.mapped(self.kernel.validity, "natural power")

    def phi(self, rows):
        if self.exponent == 0:
            return np.ones((validate.n_rows(rows), 1))
        return row_kronecker([self.kernel.phi(rows)] * int(self.exponent))

    def feature_dim(self, d):
        return self.kernel.feature_dim(d) ** self.exponent

    def __repr__(self):
        return f"{self.kernel._operand(4)}**{_number(self.exponent)}"

    def _operand(self, precedence):
        return repr(self) if precedence <= 3 else f"({self!r})"


@register
@frozen
class Exp(_One):
    """exp(k) (A6)."""

    kernel: Kernel

    def trace(self, t):
        return expr.exp(t.child(self))

    @property
    def validity(self):
        return validity.mapped(self.kernel.validity, "exp")


@register
@frozen
class Tanh(_One):
    """tanh(k): allowed, without a certificate (linear k on 0.5, 1, 2 has the eigenvalue -0.264)."""

    kernel: Kernel

    def trace(self, t):
        return expr.tanh(t.child(self))

    @property
    def validity(self):
        return validity.certificate("unknown", f"tanh of a kernel ({self.kernel!r}) is not a closure rule")


@register
@frozen
class Poly(_One):
    """c0 + c1 k + c2 k^2 + ... (A5): valid for coefficients >= 0."""

    kernel: Kernel
    coefficients: Annotated[Any, Spec(array=True)] = (0.0, 1.0)
    parameter_alone = "coefficients"
    not_differentiable = ("coefficients",)

    def trace(self, t):
        k, total = t.child(self), expr.const(0.0)
        for c in reversed(np.atleast_1d(self.coefficients)):  # Horner
            total = total * k + float(c)
        return total

    @property
    def validity(self):
        c = np.atleast_1d(self.coefficients)
        if (c < 0).any():
            return validity.certificate("unknown", f"polynomial of a kernel with a negative coefficient ({c.min():g})")
        if not (c[1:] > 0).any():
            return validity.certificate("psd", "constant kernel")
        return validity.mapped(self.kernel.validity, "polynomial with coefficients >= 0")

    def phi(self, rows):
        c = np.atleast_1d(self.coefficients)
        if (c < 0).any():
            raise ValueError(f"{self!r} has no real feature map: a coefficient is negative")
        powers = [Power(self.kernel, i).phi(rows) * math.sqrt(ci) for i, ci in enumerate(c) if ci > 0]
        return _beside(powers) if powers else np.zeros((validate.n_rows(rows), 1))

    def feature_dim(self, d):
        return sum(self.kernel.feature_dim(d) ** i for i, c in enumerate(np.atleast_1d(self.coefficients)) if c > 0)

    def __repr__(self):
        return self._call(repr(np.asarray(self.coefficients).tolist()))


@register
@frozen
class Series(_One):
    """f(k) for a power series f with coefficients >= 0 (A15), inside its radius of convergence.

    The first coefficients are computed (Cauchy's formula on a circle) and decide on the certificate; rows with
    k(x, x) >= radius are refused.
    """

    kernel: Kernel
    function: Callable
    radius: Annotated[Any, Spec(low=0.0, open_low=True, infinite=True)] = math.inf
    not_differentiable = ("radius",)
    n_coefficients = 24

    def check(self):
        super().check()
        if not callable(self.function):
            raise TypeError(
                f"k.series(f) needs a function written with mercer.expr or NumPy functions, got {self.function!r}"
            )

    def trace(self, t):
        k = t.child(self)
        value = expr.as_expr(self.function(k))
        if math.isinf(self.radius):
            return value
        kx, ky = t.diagonals(k)
        return expr.where(float(np.nextafter(self.radius, 0.0)) - expr.maximum(kx, ky), value, math.nan)

    def coefficients(self) -> np.ndarray:
        """Taylor coefficients c_0 ... c_23 of f, scaled by powers of half the radius (of 1 if it is infinite)."""
        m = 4 * self.n_coefficients
        circle = min(self.radius / 2, 1.0) * np.exp(2j * np.pi * np.arange(m) / m)
        argument = expr.leaf("t")
        values = expr.evaluate(expr.as_expr(self.function(argument)), {}, {argument: circle})
        with np.errstate(all="ignore"):
            return (np.fft.fft(np.broadcast_to(values, m)) / m).real[: self.n_coefficients]

    @property
    def validity(self):
        c = self.coefficients()
        if not np.isfinite(c).all():
            return validity.certificate(
                "unknown", "a power series that is singular within the given radius of convergence"
            )
        worst = int(np.argmin(c))
        if c[worst] < -1e-12 * max(np.abs(c).max(), 1e-300):
            return validity.certificate("unknown", f"a power series whose coefficient of k^{worst} is negative")
        return validity.mapped(self.kernel.validity, "power series with coefficients >= 0", strict_kept=False)

    def __repr__(self):
        name = getattr(self.function, "__name__", repr(self.function))
        return self._call(name, *([] if math.isinf(self.radius) else [_number(self.radius)]))


@register
@frozen
class Gaussian(_One):
    r"""Gaussian of a kernel's distance (A10): exp(-(k(x,x) + k(y,y) - 2 k(x,y)) / (2 l^2))."""

    kernel: Kernel
    lengthscale: Positive = 1.0
    normalised = True

    def trace(self, t):
        k = t.child(self)
        kx, ky = t.diagonals(k)
        length = t.param(self, "lengthscale")
        return expr.exp((2.0 * k - kx - ky) / (2.0 * length * length))

    @property
    def validity(self):
        return validity.mapped(self.kernel.validity, "Gaussian of the distance", accepts_cpd=True)

    def __repr__(self):
        return self._call(_number(self.lengthscale))


@register
@frozen
class Normalise(_One):
    """k(x,y) / sqrt(k(x,x) k(y,y)) (A11); a row with k(x,x) = 0 has k = 0."""

    kernel: Kernel

    def trace(self, t):
        k = t.child(self)
        kx, ky = t.diagonals(k)
        return k * expr.rsqrt0(kx) * expr.rsqrt0(ky)

    @property
    def normalised(self):
        return self.kernel.validity.kind == "pd"

    @property
    def validity(self):
        return validity.mapped(self.kernel.validity, "normalisation")

    def phi(self, rows):
        F = self.kernel.phi(rows)
        squared = F.power(2).sum(axis=1) if sp.issparse(F) else np.einsum("ij,ij->i", F, F)
        return scale_rows(
            F, expr.evaluate(expr.rsqrt0(expr.leaf("s")), {}, {expr.leaf("s"): np.asarray(squared, float)})
        )

    def feature_dim(self, d):
        return self.kernel.feature_dim(d)


@register
@frozen
class Centre(_One):
    """Centred in feature space (A12): every feature has mean 0 over the sample."""

    kernel: Kernel
    sample: Any = None

    def trace(self, t):
        if self.sample is None:
            raise ValueError(f"{self!r} has no sample yet; call resolve(X), or give it rows: k.centre(Z)")
        k = t.child(self)
        of = MeanOf(lower(self.kernel, t.names, (*t.path, 0)), _Rows(self.sample), t.view)
        means = [expr.leaf(Vector(of, side)) for side in ("row", "column", "scalar")]
        return k - means[0] - means[1] + means[2]

    def check(self):
        super().check()
        if self.sample is not None and not isinstance(self.sample, _Rows):
            object.__setattr__(self, "sample", _sample_copy(self.kernel.validated(self.sample, "Z")))

    def _resolved(self, rows, weight):
        kernel = self.kernel._resolved(rows if self.sample is None else self.sample, weight)
        return Centre(kernel, _sample_copy(rows) if self.sample is None else self.sample)

    @property
    def stationary(self):
        return False

    isotropic = stationary

    @property
    def validity(self):
        return validity.mapped(self.kernel.validity, "centring", strict_kept=False, accepts_cpd=True)

    def phi(self, rows):
        sample = rows if self.sample is None else self.sample
        both = self.kernel.phi(_stack(rows, sample))
        dense = both.toarray() if sp.issparse(both) else both
        n = validate.n_rows(rows)
        return dense[:n] - dense[n:].mean(axis=0)

    def feature_dim(self, d):
        return self.kernel.feature_dim(d)

    def __repr__(self):
        return self._call("" if self.sample is None else f"<{validate.n_rows(self.sample)} rows>")


class _Rows:
    """Sample rows as a hashable value."""

    def __init__(self, rows):
        self.rows, self._key = rows, digest(rows)

    def __eq__(self, other):
        return isinstance(other, _Rows) and self._key == other._key

    def __hash__(self):
        return hash(self._key)


def _sample_copy(rows):
    """Own the sample: what the user does to the rows later must not move the kernel."""
    if isinstance(rows, np.ndarray) and rows.flags.owndata and not rows.flags.writeable:
        return rows
    copy = validate.take(rows, np.arange(validate.n_rows(rows)))
    if isinstance(copy, np.ndarray):
        copy.flags.writeable = False
    return copy


def _stack(A, B):
    if isinstance(A, validate.Table):
        return validate.Table(A.names, tuple(np.concatenate([a, b]) for a, b in zip(A.columns, B.columns, strict=True)))
    return sp.csr_array(sp.vstack([A, B])) if sp.issparse(A) else np.concatenate([A, B])


@register
@frozen
class On(_One):
    """The kernel of chosen columns (A8, A9)."""

    kernel: Kernel
    chosen: tuple = ()

    def check(self):
        super().check()
        if not self.chosen:
            raise ValueError("k.on() needs at least one column, by number or by name")
        for c in self.chosen:
            if isinstance(c, bool) or not isinstance(c, (str, int, np.integer)):
                raise TypeError(
                    f"k.on(...) takes column numbers and names, got {c!r}; write k.on(0, 3) or k.on('age', 'bmi')"
                )

    def trace(self, t):
        return t.child(self, view=Part(t.view, tuple(self.chosen)))

    def _resolved(self, rows, weight):
        return self._of((self.kernel._resolved(validate.part(rows, self.chosen), weight),))

    def refuse(self, rows):
        self.kernel.refuse(validate.part(rows, self.chosen))

    def _reads(self):
        return ["parts"]

    @property
    def columns(self):
        return tuple(self.chosen)

    isotropic = False  # a function of the distance in some columns only

    @property
    def normalised(self):
        return self.kernel.normalised

    @property
    def validity(self):
        return validity.restricted(self.kernel.validity, "a part of the row")

    def phi(self, rows):
        return self.kernel.phi(validate.part(rows, self.chosen))

    def feature_dim(self, d):
        return self.kernel.feature_dim(len(self.chosen))

    def __repr__(self):
        return self._call(*map(repr, self.chosen))


@register
@frozen
class Warp(_One):
    """k(phi(x), phi(y)) (A7). phi maps all rows at once."""

    kernel: Kernel
    function: Callable
    vjp: Callable | None = None

    def refuse(self, rows):
        """What the function makes of rows is seen when it is called."""

    def check(self):
        super().check()
        if not callable(self.function):
            raise TypeError(f"k.warp(f) needs a function of the rows, got {self.function!r}")

    def _view(self, parent):
        return Warped(Plain(parent), self.function, self.vjp)

    def trace(self, t):
        return t.child(self, view=self._view(t.view))

    def _warped(self, rows):
        return self._view(None).forward(validate.plain(rows))

    def _resolved(self, rows, weight):
        return self._of((self.kernel._resolved(self._warped(rows), weight),))

    def _reads(self):
        return ["any"]

    @property
    def differentiable_inputs(self):
        return self.vjp is not None and self.kernel.differentiable_inputs

    stationary = isotropic = False

    @property
    def normalised(self):
        return self.kernel.normalised

    @property
    def validity(self):
        return validity.restricted(self.kernel.validity, "an image of the row")

    def phi(self, rows):
        return self.kernel.phi(self._warped(rows))

    def __repr__(self):
        return self._call(getattr(self.function, "__name__", repr(self.function)))


@register
@frozen
class Times(_One):
    """f(x) k(x, y) f(y) (A2). f maps all rows at once to one number each."""

    kernel: Kernel
    function: Callable
    vjp: Callable | None = None

    def check(self):
        super().check()
        if not callable(self.function):
            raise TypeError(f"k.times(f) needs a function of the rows, got {self.function!r}")

    def trace(self, t):
        fx, fy = t.function(self.function, self.vjp)
        return fx * t.child(self) * fy

    stationary = isotropic = False

    @property
    def differentiable_inputs(self):
        return self.vjp is not None and self.kernel.differentiable_inputs

    @property
    def validity(self):
        return validity.mapped(self.kernel.validity, "f(x) k f(y)", strict_kept=False)

    def phi(self, rows):
        values = validate.kernel_output(self.function(validate.plain(rows)), (validate.n_rows(rows),), "times(f)")
        return scale_rows(self.kernel.phi(rows), values)

    def feature_dim(self, d):
        return self.kernel.feature_dim(d)

    def __repr__(self):
        return self._call(getattr(self.function, "__name__", repr(self.function)))


@register
@frozen
class Named(_One):
    """The same kernel under the user's name: its parameters are called name__parameter."""

    kernel: Kernel
    label: str = ""

    def check(self):
        super().check()
        if not isinstance(self.label, str) or not self.label.isidentifier() or "__" in self.label:
            raise ValueError(f"k.named(name): {self.label!r} must be an identifier without a double underscore")

    def trace(self, t):
        return t.child(self)

    @property
    def normalised(self):
        return self.kernel.normalised

    @property
    def validity(self):
        return self.kernel.validity

    def phi(self, rows):
        return self.kernel.phi(rows)

    def feature_dim(self, d):
        return self.kernel.feature_dim(d)

    def __repr__(self):
        return self._call(repr(self.label))


# ---------------------------------------------------------------------------------------------- feature matrices
def _beside(blocks):
    """Concatenation of feature maps: the map of a sum."""
    if any(sp.issparse(b) for b in blocks):
        return sp.csr_array(sp.hstack([sp.csr_array(b) for b in blocks]))
    return np.hstack(blocks)


def row_kronecker(blocks):
    """Row-wise Kronecker product of feature maps: the map of a product."""
    out = blocks[0]
    for b in blocks[1:]:
        out = (
            _sparse_kronecker(out, b)
            if sp.issparse(out) or sp.issparse(b)
            else np.einsum("ni,nj->nij", out, b).reshape(len(b), -1)
        )
    return out


def _sparse_kronecker(A, B):
    A, B = sp.csr_array(A), sp.csr_array(B)
    rows = [sp.kron(A[[i]], B[[i]], format="csr") for i in range(A.shape[0])]
    return sp.csr_array(sp.vstack(rows))


def scale_rows(F, factors):
    return sp.csr_array(sp.diags_array(factors) @ F) if sp.issparse(F) else F * np.asarray(factors)[:, None]

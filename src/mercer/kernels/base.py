"""What a kernel is: an immutable value with a formula, an algebra and four verbs (block, diag, pullback, pullback_inputs)."""

import math
import numbers
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from mercer import expr, validate
from mercer.errors import NanError, NotDifferentiableError
from mercer.kernels.digest import FrozenArray, digest, owned
from mercer.kernels.names import slots
from mercer.kernels.parameters import frozen, specs
from mercer.kernels.validity import PD, UNKNOWN, Validity, certificate
from mercer.kernels.views import Divided

__all__ = ["ExpressionKernel", "FeatureKernel", "InnerProduct", "Isotropic", "Kernel", "PairKernel", "frozen"]


class Kernel:
    """Base of every kernel. Subclasses are `@frozen`: annotations are the constructor's arguments.

    Kernels are values: constructor arguments are stored untouched, equality goes by content, `replace` makes a changed copy.
    """

    children: "tuple[Kernel, ...]" = ()
    label: str | None = None  # set by `named`
    traced: Any = None  # what `trace.lower` made of the kernel
    parameter_alone: ClassVar[str | None] = None  # an operator with one parameter, called by its bare name
    stationary = False
    isotropic = False
    normalised = False
    reads_objects: ClassVar[bool] = False

    def __post_init__(self):
        for name, spec in specs(type(self)).items():
            value = getattr(self, name)
            spec.check(value, f"{type(self).__name__}({name}=...): {name}")
            object.__setattr__(self, name, owned(value))
        self.check()

    def check(self):
        """Refuse arguments that do not fit together."""

    def trace(self, t) -> expr.Expr:
        """Expression of k(x, y) over the statistics that the tracer hands out."""
        raise NotImplementedError(f"{type(self).__name__} says neither profile, features nor pair")

    @property
    def validity(self) -> Validity:
        return certificate(UNKNOWN, f"{type(self).__name__} carries no certificate")

    # ---------------------------------------------------------------------------------- values
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; the names follow the tree as typed."""
        found = {}
        for name, slot in slots(self).items():
            node = self._at(slot.path)
            found[name] = node if slot.field is None else getattr(node, slot.field)
        return found if deep else {k: v for k, v in found.items() if "__" not in k}

    def replace(self, **changes) -> "Kernel":
        """A kernel with some parameters or named parts changed.

        >>> from mercer.kernels import RBF
        >>> (2 * RBF()).replace(scale=3, rbf__lengthscale=0.5)
        3 * RBF(lengthscale=0.5)
        """
        kernel, known = self, slots(self)
        for name in sorted(changes, key=lambda n: known[n].field is not None if n in known else False):
            known = slots(kernel)
            if name not in known:
                raise ValueError(f"{self!r} has no parameter {name!r}; it has {', '.join(known) or 'none'}")
            kernel = kernel._changed(known[name].path, known[name].field, changes[name])
        return kernel

    def _at(self, path):
        return self if not path else self.children[path[0]]._at(path[1:])

    def _changed(self, path, field, value):
        if not path:
            if field is None:
                if not isinstance(value, Kernel):
                    raise TypeError(f"a part of a kernel must be a kernel, got {value!r}")
                return value
            return self._with(**{field: value})
        children = list(self.children)
        children[path[0]] = children[path[0]]._changed(path[1:], field, value)
        return self.rebuild(tuple(children))

    def _with(self, **changes):
        return type(self)(**{**{f.name: getattr(self, f.name) for f in fields(self)}, **changes})

    def rebuild(self, children) -> "Kernel":
        """The same operation on other children."""
        return self

    def _of(self, children):
        """`rebuild`, unless these are the children: a kernel that learned nothing stays the one that was traced."""
        same = all(new is old for new, old in zip(children, self.children, strict=True))
        return self if same else self.rebuild(children)

    def __sklearn_clone__(self):
        return self

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "traced"}

    def __eq__(self, other):
        return isinstance(other, Kernel) and type(self) is type(other) and digest(self) == digest(other)

    def __hash__(self):
        return hash(digest(self))

    def __repr__(self):
        return written(self)

    def _operand(self, precedence):
        """repr as an operand of an operator of this precedence (1 sum, 2 product, 3 power)."""
        return repr(self)

    # ---------------------------------------------------------------------------------- data
    def resolve(self, X, sample_weight=None) -> "Kernel":
        """Kernel in which everything learned from data (words such as "median", centring samples) is a constant."""
        rows = self.validated(X)
        return self._resolved(rows, validate.sample_weight(sample_weight, validate.n_rows(rows)))

    def _resolved(self, rows, weight):
        return self

    @property
    def reads(self) -> str:
        """What the kernel reads of a row: "vectors", "gaps" (vectors with missing entries), "objects", "parts", or "any"."""
        kinds = set(self._reads())
        kinds = kinds - {"any"} or kinds  # a user's function takes what the other leaves take
        if kinds != {"gaps"}:  # a missing entry must be readable by every leaf
            kinds = {"vectors" if kind == "gaps" else kind for kind in kinds}
        if "parts" in kinds or len(kinds) > 1:
            return "parts"
        return kinds.pop() if kinds else "vectors"

    def _reads(self):
        if not self.children:
            return ["objects" if self.reads_objects else "vectors"]
        return [kind for child in self.children for kind in child._reads()]

    @property
    def columns(self) -> tuple:
        """Columns that `on` chooses, by name or number, in the order typed."""
        return tuple(dict.fromkeys(c for child in self.children for c in child.columns))

    def refuse(self, rows):
        """Raise what reading a row will raise, where a look tells: before rows are merged or left out, and have other numbers."""
        for child in self.children:
            child.refuse(rows)
        if not self.children and self.reads == "objects":  # of a model, which reads them in order to be fitted
            validate.refuse_missing(lambda some: self._resolved(some, None), rows)

    def validated(self, X, name="X"):
        return validate.rows(X, self.reads, name, self.columns)

    # ---------------------------------------------------------------------------------- numbers
    def __call__(self, X, Y=None) -> np.ndarray:
        """The Gram matrix as an array: k(X) resolves on X, k(X, Y) on Y."""
        return self.gram(X, Y).dense()

    def gram(self, X, Y=None, engine=None, memory=None):
        """The lazy Gram matrix: `@`, `diag`, slicing, `reduce`, `explain` without ever holding it whole."""
        from mercer.gram import gram

        return gram(self, X, Y, engine=engine, memory=memory)

    def diag(self, X) -> np.ndarray:
        """k(x, x) for every row, without the matrix."""
        return self.gram(X).diag()

    def squared_distance(self, X, Y=None) -> np.ndarray:
        """d^2 = k(x,x) + k(y,y) - 2 k(x,y); rounding below 0 is clipped if the kernel is certified."""
        return self.gram(X, Y).squared_distances().dense()

    def distance(self, X, Y=None) -> np.ndarray:
        """Distance in feature space; a negative square (only kernels without certificate have any) is an error."""
        d2 = self.squared_distance(X, Y)
        if d2.min() < 0:
            raise ValueError(
                f"{self!r} has squared distances down to {d2.min():g}: it is not PSD here; use squared_distance"
            )
        return d2**0.5

    def pullback(self, X, Y=None, W=None) -> dict[str, np.ndarray]:
        """Gradient of sum(W * K) in every continuous parameter; W is an array or a pair (U, V) meaning U @ V.T."""
        return self.gram(X, Y).pullback(W)

    def pullback_inputs(self, X, Y=None, W=None) -> np.ndarray:
        """Gradient of sum(W * K(X, Y)) in the rows of X; without Y both places of X move."""
        return self.gram(X, Y).pullback_inputs(W)

    @property
    def _leaves(self):
        return [self] if not self.children else [leaf for c in self.children for leaf in c._leaves]

    @property
    def differentiable(self) -> tuple[str, ...]:
        """Names of the parameters that `pullback` returns."""
        names = []
        for name, slot in slots(self).items():
            node = self._at(slot.path)
            if slot.field is None or slot.field not in specs(type(node)):
                continue
            spec, value = specs(type(node))[slot.field], getattr(node, slot.field)
            if spec.continuous and value is not None and slot.field not in node.not_differentiable:
                names.append(name)
        return tuple(names)

    not_differentiable: ClassVar[tuple[str, ...]] = ()

    @property
    def differentiable_inputs(self) -> bool:
        return all(child.differentiable_inputs for child in self.children) if self.children else not self.reads_objects

    # ---------------------------------------------------------------------------------- feature map
    def features(self, X):
        """Explicit feature map (A14): features(X) @ features(Y).T equals k(X, Y). Raises if there is no finite one."""
        rows = self.validated(X)
        return self._resolved(rows, None).phi(rows)

    def phi(self, rows):
        raise ValueError(f"{type(self).__name__} has no finite explicit feature map; see mercer.mercer_map or Nystroem")

    def feature_dim(self, d: int) -> float:
        """Width of the explicit feature map for rows with d columns; infinite for a Gaussian."""
        return math.inf

    # ---------------------------------------------------------------------------------- algebra
    def __add__(self, other):
        return _algebra().add(self, other)

    def __radd__(self, other):
        return _algebra().add(other, self)

    def __sub__(self, other):
        return _algebra().subtract(self, other)

    def __rsub__(self, other):
        return _algebra().subtract(other, self)

    def __mul__(self, other):
        return _algebra().multiply(self, other)

    def __rmul__(self, other):
        return _algebra().multiply(other, self)

    def __truediv__(self, other):
        if isinstance(other, numbers.Real):
            return _algebra().multiply(1.0 / other, self)
        return NotImplemented

    def __neg__(self):
        return _algebra().multiply(-1.0, self)

    def __pow__(self, exponent):
        return _algebra().Power(self, exponent)

    def exp(self) -> "Kernel":
        """exp(k) (A6)."""
        return _algebra().Exp(self)

    def tanh(self) -> "Kernel":
        """tanh(k): allowed, but without a certificate."""
        return _algebra().Tanh(self)

    def minimum(self, other) -> "Kernel":
        """Pointwise minimum: allowed, but without a certificate."""
        return _algebra().Minimum((self, other))

    def maximum(self, other) -> "Kernel":
        """Pointwise maximum: allowed, but without a certificate."""
        return _algebra().Maximum((self, other))

    def poly(self, coefficients) -> "Kernel":
        """c0 + c1 k + c2 k^2 + ... (A5)."""
        return _algebra().Poly(self, coefficients)

    def series(self, f, radius=math.inf) -> "Kernel":
        """f(k) for a power series with coefficients >= 0 and this radius of convergence (A15).

        >>> from mercer.kernels import RBF
        >>> (0.5 * RBF()).series(lambda t: 1 / (1 - t), radius=1).validity.kind
        'psd'
        """
        return _algebra().Series(self, f, radius)

    def on(self, *columns) -> "Kernel":
        """The kernel of chosen columns: numbers, or names of a table (A8, A9)."""
        return _algebra().On(self, columns)

    def warp(self, f, vjp=None) -> "Kernel":
        """k(phi(x), phi(y)) for a map f of all rows at once (A7); vjp(X, G) sends a gradient back."""
        return _algebra().Warp(self, f, vjp)

    def times(self, f, vjp=None) -> "Kernel":
        """f(x) k(x, y) f(y) for a function of all rows at once (A2)."""
        return _algebra().Times(self, f, vjp)

    def gaussian(self, lengthscale=1.0) -> "Kernel":
        """Gaussian of this kernel's distance (A10)."""
        return _algebra().Gaussian(self, lengthscale)

    def normalise(self) -> "Kernel":
        """k(x, y) / sqrt(k(x, x) k(y, y)) (A11); 0 where k(x, x) = 0."""
        return _algebra().Normalise(self)

    def centre(self, Z=None) -> "Kernel":
        """The kernel centred in feature space on the mean of the rows Z (A12); without Z on the rows it is resolved on."""
        return _algebra().Centre(self, Z)

    def named(self, name: str) -> "Kernel":
        """The same kernel under a name of the user's, for its parameters."""
        return _algebra().Named(self, name)


def _algebra():
    from mercer.kernels import algebra

    return algebra


def require_memory(bytes_needed, what, remedies):
    """Refuse at once features that do not fit into memory."""
    if bytes_needed <= 2**24:  # asking the system costs more than a small array
        return
    from mercer.gram import budget, require

    require(bytes_needed, budget(), what, remedies)


def written(made) -> str:
    """The call that makes a kernel or a model, without the arguments that are as by default."""
    shown = []
    for f in fields(made):
        value = getattr(made, f.name)
        if f.default is MISSING or digest(value) != digest(f.default):
            shown.append(f"{f.name}={short(value)}")
    return f"{type(made).__name__}({', '.join(shown)})"


def short(value) -> str:
    """A parameter as it is printed: small arrays whole, large ones by their shape, functions by their name."""
    if isinstance(value, FrozenArray):
        value = value.value
    if isinstance(value, np.ndarray):
        return repr(value.tolist()) if value.size <= 8 else f"array{value.shape}"
    if isinstance(value, (np.floating, np.integer)):
        value = value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return repr(value)  # a kernel or model within a kernel: what is printed can be typed
    if isinstance(value, (str, bytes)) or not callable(value):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return getattr(value, "__name__", type(value).__name__)


# -------------------------------------------------------------------------------------------------- the three kinds
class ExpressionKernel(Kernel):
    """A vector kernel: subclasses trace a formula over pair statistics."""


class InnerProduct(ExpressionKernel):
    """k = profile(<x, y>). Subclasses give `profile(self, s)` with `mercer.expr` or NumPy functions."""

    def profile(self, s):
        raise NotImplementedError

    def trace(self, t):
        return type(self).profile(t.symbols(self), t.inner())


class Isotropic(ExpressionKernel):
    """k = profile(||x - y||^2 / l^2), with one lengthscale, or one a column. Subclasses give `profile(self, s)`."""

    stationary = True

    def profile(self, s):
        raise NotImplementedError

    @property
    def isotropic(self):
        return np.ndim(self.lengthscale) == 0

    @property
    def normalised(self):
        return self._profile_at(0.0) == 1.0

    def _profile_at(self, s):
        return float(expr.evaluate(expr.as_expr(self.profile(expr.const(s))), {}, {}))

    def trace(self, t):
        kinked = abs(self._profile_at(1e-14) - self._profile_at(0.0)) > 1e-10  # like sqrt(s) at 0, not like s
        return type(self).profile(t.symbols(self), self.scaled_distance(t, kinked))

    def scaled_distance(self, t, kinked=False):
        """||x - y||^2 / l^2: the columns are divided first where they have their own lengthscales."""
        if np.ndim(self.lengthscale):
            view = Divided(t.vectors(), FrozenArray(self.lengthscale, np.float64), t.name("lengthscale"))
            return t.squared_distance(view, kinked=kinked)
        symbol = t.param(self, "lengthscale")
        return t.squared_distance(scale=_inverse_square(self.lengthscale), kinked=kinked) / (symbol * symbol)

    def _resolved(self, rows, weight):
        if not isinstance(self.lengthscale, str):
            return self
        from mercer.kernels.resolve import lengthscale

        return self._with(lengthscale=lengthscale(self.lengthscale, rows, weight))

    def _strict(self, reason):
        """Strictly PD unless a column is switched off."""
        off = not isinstance(self.lengthscale, str) and np.isinf(self.lengthscale).any()
        if off:
            return certificate("psd", f"{reason}; a column with infinite lengthscale is ignored, so not strict")
        return certificate(PD, reason)


def _inverse_square(lengthscale):
    if lengthscale < 1e-150:
        raise NanError(f"lengthscale={lengthscale:g} is too small for its square; rescale the columns")
    return float(lengthscale) ** -2.0 if np.isfinite(lengthscale) else 0.0


class FeatureKernel(Kernel):
    """A kernel of objects through explicit features: subclasses give `counts(x)`, a dict feature -> value.

    `count_matrix(objects, vocabulary)` may be overridden by a vectorised version: it returns the CSR matrix over the
    vocabulary, the squared norms over all features, and the vocabulary (made from the objects if None came).
    """

    reads_objects = True

    def counts(self, x) -> dict:
        raise NotImplementedError

    def trace(self, t):
        return t.features(self)

    def refuse(self, rows):
        validate.refuse_missing(lambda some: self._resolved(some, None).count_matrix(some), rows)

    def count_matrix(self, objects, vocabulary=None):
        from mercer.kernels.vocabulary import count_matrix

        return count_matrix(validate.each_object(self.counts, objects), vocabulary)

    @property
    def validity(self):
        return certificate("psd", f"{type(self).__name__} is an inner product of explicit features")

    def phi(self, rows):
        return self.count_matrix(validate.objects(rows))[0]


class PairKernel(Kernel):
    """A kernel given pair by pair: subclasses give `pair(x, y)`, or `block(xs, ys)` for many at once.

    Those with `reads_objects` may give `parse(x)`: pairs are then of what it returned, once for each row. Their tiles are small,
    and computed by several threads: a compiled `block` should release the GIL, and return to Python at least every 0.2 s.
    """

    def parse(self, x) -> Any:
        return x

    def refuse(self, rows):
        if self.reads_objects:
            validate.refuse_missing(lambda some: validate.each_object(self.parse, some), rows)

    def pair(self, x, y) -> float:
        raise NotImplementedError

    def block(self, xs, ys) -> np.ndarray:
        return np.array([[self.pair(x, y) for y in ys] for x in xs], dtype=np.float64).reshape(len(xs), len(ys))

    def block_diag(self, xs) -> np.ndarray:
        return np.array([self.block(xs[i : i + 1], xs[i : i + 1])[0, 0] for i in range(len(xs))], dtype=np.float64)

    def trace(self, t):
        return t.external(self)

    @property
    def differentiable_inputs(self):
        return False


def require_differentiable_inputs(kernel):
    """Raise for the innermost part that has no gradient in its inputs."""
    if kernel.differentiable_inputs:
        return
    for child in kernel.children:
        require_differentiable_inputs(child)
    hint = "; pass vjp=..." if getattr(kernel, "vjp", 0) is None else ""
    raise NotDifferentiableError(f"{kernel!r} has no gradient in its inputs{hint}")

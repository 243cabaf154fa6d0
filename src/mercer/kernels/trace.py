"""Tracing: a kernel tree becomes one expression over pair statistics, with its parameter values beside it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mercer import expr
from mercer.kernels.names import parameter_names
from mercer.kernels.parameters import specs
from mercer.kernels.statistics import (
    ColumnStatistic,
    DiagonalOf,
    External,
    FunctionOf,
    Inner,
    SameRow,
    SquaredDistance,
    Vector,
)
from mercer.kernels.views import Categories, Features, Input, NonNegativeRows, Numbers, Parsed, Plain, Things, View

__all__ = ["Lowered", "Sensitivity", "Trace", "lower"]


@dataclass(frozen=True)
class Sensitivity:
    """How exact a squared distance must be: `scale` turns it into the argument of the profile; `kinked` profiles behave like
    its square root near 0."""

    scale: float = 0.0
    kinked: bool = False

    def join(self, other):
        return Sensitivity(max(self.scale, other.scale), self.kinked or other.kinked)


@dataclass(frozen=True)
class Lowered:
    """What an engine gets: the expression, parameter values by name, and how exact each distance must be."""

    kernel: Any
    expression: expr.Expr
    parameters: dict[str, float]
    sensitivity: dict[View, Sensitivity]
    # Engines keep here what they made of the expression, by all that it depends on: these are not the only rows it will meet.
    programs: dict = field(default_factory=dict, compare=False, repr=False)

    def __hash__(self):
        return hash((self.kernel, tuple(self.parameters)))

    def __eq__(self, other):
        return isinstance(other, Lowered) and self.kernel == other.kernel and self.parameters == other.parameters

    @cached_property
    def pairs_of_objects(self) -> bool:
        """Whether some part of the kernel is computed pair by pair from objects."""
        found = (e.payload for e in expr.leaves(self.expression))
        return any(isinstance(p, External) and p.kernel.reads_objects for p in found)

    def with_expression(self, expression):
        """The same statistics under another expression, such as the kernel distance."""
        return Lowered(self.kernel, expression, self.parameters, self.sensitivity)


@dataclass
class Trace:
    """The tracer's hand: where in the tree it is, what the row looks like there, and what it found so far."""

    names: dict
    view: View
    path: tuple[int, ...] = ()
    parameters: dict[str, float] = field(default_factory=dict)
    sensitivity: dict[View, Sensitivity] = field(default_factory=dict)

    def child(self, kernel, i=0, view=None):
        """Expression of the i-th child, seen through `view` if the node changes what the row is."""
        below = Trace(self.names, view or self.view, (*self.path, i), self.parameters, self.sensitivity)
        return kernel.children[i].trace(below)

    def name(self, field_name):
        return self.names[self.path, field_name]

    def param(self, kernel, field_name):
        """Symbol of a scalar parameter; its value travels beside the expression."""
        name = self.name(field_name)
        self.parameters[name] = float(getattr(kernel, field_name))
        return expr.param(name)

    def symbols(self, kernel):
        """The kernel with its scalar continuous parameters as symbols: what a profile sees as `self`."""
        return _Symbolic(self, kernel)

    # ------------------------------------------------------------------ statistics
    def vectors(self, view=None):
        """View of the row as numbers."""
        view = view or self.view
        return view if view.numeric else Numbers(view)

    def nonnegative(self, who):
        return NonNegativeRows(self.vectors(), who)

    def categories(self):
        return Categories(self.view)

    def inner(self, view=None):
        return expr.leaf(Inner(view or self.vectors()))

    def squared_distance(self, view=None, scale=1.0, kinked=False):
        view = view or self.vectors()
        self.sensitivity[view] = self.sensitivity.get(view, Sensitivity()).join(Sensitivity(float(scale), kinked))
        return expr.leaf(SquaredDistance(view))

    def columns(self, function, view=None, **options):
        return expr.leaf(ColumnStatistic(view or self.vectors(), function, **options))

    def same_row(self):
        return expr.leaf(SameRow())

    def features(self, kernel):
        """Inner product of explicit features."""
        return expr.leaf(Inner(Features(Things(self.view), kernel)))

    def external(self, kernel):
        if kernel.reads_objects:
            return expr.leaf(External(Parsed(Things(self.view), kernel), kernel))
        return expr.leaf(External(Plain(self.view) if kernel.reads == "any" else self.vectors(), kernel))

    def diagonals(self, expression):
        """(e(x, x), e(y, y)) as row and column vectors."""
        of = DiagonalOf(expression)
        return expr.leaf(Vector(of, "row")), expr.leaf(Vector(of, "column"))

    def function(self, f, vjp=None):
        """(f(x), f(y)) of a user's function."""
        of = FunctionOf(Plain(self.view), f, vjp)
        return expr.leaf(Vector(of, "row")), expr.leaf(Vector(of, "column"))


class _Symbolic:
    """Stands for `self` inside a profile: scalar continuous parameters read as symbols, all else as it is."""

    def __init__(self, trace, kernel):
        self._trace, self._kernel = trace, kernel

    def __getattr__(self, name):
        value = getattr(self._kernel, name)
        spec = specs(type(self._kernel)).get(name)
        fixed = spec is None or not spec.continuous or name in self._kernel.not_differentiable
        if fixed or value is None or isinstance(value, str) or np.ndim(value):
            return value
        return self._trace.param(self._kernel, name)


def lower(kernel, names=None, path=()) -> Lowered:
    """Trace a resolved kernel. `names` and `path` are given when the kernel is part of a larger tree.

    The kernel keeps its trace, and with it what engines made of that: both take longer than the Gram of some dozens of rows.
    """
    if names is None and not path:
        if kernel.traced is None:
            object.__setattr__(kernel, "traced", _trace(kernel, None, ()))
        return kernel.traced
    return _trace(kernel, names, path)


def _trace(kernel, names, path):
    trace = Trace(names if names is not None else parameter_names(kernel), Input(), path)
    expression = kernel.trace(trace)
    return Lowered(kernel, expression, trace.parameters, trace.sensitivity)

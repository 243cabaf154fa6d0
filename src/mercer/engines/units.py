"""Programs in other units: distances, roots and exponentials scaled so that fewer constants are multiplied entry by entry.

Whoever reads a register as scale * a + shift takes it in any unit. A distance costs the same in all of them, since its norms
are scaled beforehand; a root is sqrt(f^2 u) in units of 1/f, an exponential exp(u + log f).
"""

import math
from collections import Counter
from dataclasses import dataclass

from mercer import expr

__all__ = ["Rescaled", "readers_of", "rescaled"]

_LARGEST = 2.0**40  # a factor; float32 would overflow on the way


@dataclass(frozen=True)
class Rescaled:
    """A program with other constants: those of exponentials belong to powers of `base`; leaves come times their factor."""

    program: expr.Program
    constants: tuple[tuple[float, float, float], ...]
    factors: tuple[float, ...]


def rescaled(program: expr.Program, free: frozenset[int] = frozenset(), base=math.e, roots=("sqrt",)) -> Rescaled:
    """The program in the units that leave most readers without a factor.

    `free` are leaves that can be made in any unit, `roots` the operations that may be: "sqrt" and "exp".
    """
    change = _Change(program, base)
    # Backwards: a root in another unit reads what it is taken of with another factor.
    for value in reversed(range(len(change.readers))):
        if value in free or change.operation(value) in roots:
            change.unit(value)
    return Rescaled(program, tuple(map(tuple, change.constants)), tuple(change.factors))


class _Change:
    """Values are numbered: leaves, then what the instructions make (registers are used again, values are not)."""

    def __init__(self, program, base):
        self.program, self.per_log = program, 1.0 / math.log(base)
        self.factors = [1.0] * len(program.leaves)
        self.constants = [list(constants) for constants in program.constants]
        for row, constants in zip(program.instructions, self.constants, strict=True):
            if row[0] == "exp":
                constants[:2] = constants[0] * self.per_log, constants[1] * self.per_log
        self.readers, self.kept = readers_of(program)

    def operation(self, value):
        number = value - len(self.program.leaves)
        return None if number < 0 else self.program.instructions[number][0]

    def unit(self, value):
        """Give a value the unit in which most of its readers have nothing to multiply, if all of them can take it in any."""
        rows = self.program.instructions
        readers = self.readers[value]
        if value in self.kept or any(place or rows[i][0] not in expr.MAPPED for i, place in readers):
            return
        counts = Counter([abs(self.constants[i][0]) for i, _ in readers if self.constants[i][1] == 0.0])
        factor = max([1.0, *counts], key=lambda f: counts[f])
        if 1.0 / _LARGEST < factor < _LARGEST:
            self._define(value, factor)
            for i, _ in readers:
                self.constants[i][0] /= factor

    def _define(self, value, factor):
        number, made = value - len(self.program.leaves), self.operation(value)
        if made is None:
            self.factors[value] = factor
        elif made == "sqrt":
            self.constants[number][:2] = [factor * factor * c for c in self.constants[number][:2]]
        else:
            self.constants[number][1] += math.log(factor) * self.per_log


def readers_of(program):
    """[(instruction, which operand), ...] of each value, and the values that come out."""
    holder = dict(enumerate(range(len(program.leaves))))
    readers: list = [[] for _ in range(len(program.leaves) + len(program.instructions))]
    for i, row in enumerate(program.instructions):
        for place, register in enumerate(expr.reads(row)):
            readers[holder[register]].append((i, place))
        holder[row[-1]] = len(program.leaves) + i
    return readers, {holder[register] for register in program.outputs}

"""Exponentials of what is never positive, as most kernels take them, cost less: no overflow, and their factor is free."""

from mercer.expr import Program
from mercer.kernels.statistics import SquaredDistance

__all__ = ["with_decays"]

_KEEP_SIGN = ("affine", "add", "mul", "fma")  # not negative if neither their operands nor scale and shift are


def with_decays(program: Program) -> tuple[list[tuple], list[tuple]]:
    """Instructions and constants with "decay" in place of "exp" where the argument is a multiple, not positive, of what is not
    negative. decay(a) is value exp(scale a + shift), so that a factor after it is no instruction of its own.
    """
    instructions, constants = [], []
    positive = {r for r, leaf in enumerate(program.leaves) if isinstance(leaf.payload, SquaredDistance)}
    for (op, a, b, c, dst), numbers in zip(program.instructions, program.constants, strict=True):
        scale, shift, _ = numbers
        if op == "exp" and a in positive and scale <= 0 and shift <= 0:
            op, numbers = "decay", (scale, shift, 1.0)
        operands = {a} | ({b} if op != "affine" else set()) | ({c} if op == "fma" else set())
        keeps = op in _KEEP_SIGN and operands <= positive and scale >= 0 and shift >= 0
        positive = positive | {dst} if keeps or op in ("exp", "decay", "sqrt") else positive - {dst}
        instructions.append((op, a, b, c, dst))
        constants.append(numbers)
    return _with_factors(instructions, constants, program.outputs)


def _with_factors(instructions, constants, outputs):
    """A decay and the multiple of it that is alone in reading it, in one."""
    kept, numbers = list(instructions), list(constants)
    for k in range(len(kept) - 2, -1, -1):
        (op, a, *_, dst), (after, source, *_, last) = kept[k], kept[k + 1]
        scale, shift, _ = numbers[k + 1]
        a_multiple = (op, after) == ("decay", "affine") and source == dst and shift == 0
        if a_multiple and last != a and not _is_read(dst, kept[k + 2 :], outputs):
            kept[k : k + 2] = [(op, a, a, a, last)]
            numbers[k : k + 2] = [(*numbers[k][:2], scale)]
    return kept, numbers


def _is_read(register, instructions, outputs):
    """Whether a register is read before it is written again; the operands that an operation does not use count, too."""
    for _, a, b, c, dst in instructions:
        if register in (a, b, c):
            return True
        if register == dst:
            return False
    return register in outputs

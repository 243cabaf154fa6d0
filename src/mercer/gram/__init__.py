"""The lazy Gram matrix and its planner."""

from mercer.gram.lazy import Gram, gram, prepared_gram
from mercer.gram.operators import CentredGram, Diagonal, GivenGram, Operator, ShiftedGram
from mercer.gram.plan import Plan, available_memory, budget, require

__all__ = [
    "CentredGram",
    "Diagonal",
    "GivenGram",
    "Gram",
    "Operator",
    "Plan",
    "ShiftedGram",
    "available_memory",
    "budget",
    "gram",
    "prepared_gram",
    "require",
]

"""Randomness: one door. Public calls turn `random_state` into a Generator once; inner code only receives Generators."""

import numpy as np

__all__ = ["generator", "some_of"]


def generator(random_state=None) -> np.random.Generator:
    """Generator of a seed, a `Generator`, a legacy `RandomState` or None.

    >>> generator(0).integers(10) == generator(0).integers(10)
    np.True_
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    return np.random.default_rng(random_state)


def some_of(index: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """At most `size` of some numbers, in their order."""
    return index if len(index) <= size else np.sort(rng.choice(index, size, replace=False))

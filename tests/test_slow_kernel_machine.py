"""A kernel machine on many rows."""

import numpy as np
import pytest

from mercer import KernelMachineRegressor

pytestmark = pytest.mark.slow


def test_many_rows_in_little_memory():
    """The design of these rows would take 80 MB."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 3)).astype(np.float32)
    t = np.sin(2 * X[:, 0]) + X[:, 1]
    model = KernelMachineRegressor(50, random_state=0, memory="40MB").fit(X, t)
    assert model.score(X[:5000], t[:5000]) > 0.95
    assert model.residual_ < 1e-11

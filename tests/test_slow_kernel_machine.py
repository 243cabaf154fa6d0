"""An exact interpolant under scikit-learn's checks, and a machine on many rows."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from mercer import KernelMachineRegressor, RBFNetwork

pytestmark = pytest.mark.slow


def test_sklearn_checks_of_an_interpolant():
    """All but those whose rows are equal and targets are not: no function passes through them."""
    contradicted = "equal rows have different targets"
    infeasible = {f"check_estimator_sparse_{what}": contradicted for what in ("tag", "array", "matrix")}
    check_estimator(RBFNetwork(kernel="laplacian"), expected_failed_checks=infeasible, on_skip=None)


def test_many_rows_in_little_memory():
    """The design of these rows would take 80 MB."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200_000, 3)).astype(np.float32)
    t = np.sin(2 * X[:, 0]) + X[:, 1]
    model = KernelMachineRegressor(50, random_state=0, memory="40MB").fit(X, t)
    assert model.score(X[:5000], t[:5000]) > 0.95
    assert model.residual_ < 1e-11

"""Neighbours among many rows: within little memory, and as good as scikit-learn's on real data."""

import sys

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from fresh import run
from mercer import KernelNeighborsClassifier
from mercer.kernels import RBF

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MEASURED = """
    import time
    import numpy as np
    from fresh import measured
    from mercer import KernelNeighborsRegressor
    from mercer.kernels import RBF, Polynomial

    X = np.random.default_rng(0).standard_normal((110_000, 12))
    model = KernelNeighborsRegressor(10, {settings}).fit(X[:100_000], X[:100_000, 0])
    found, start = [], time.perf_counter()
    taken = measured(lambda: found.append(model.predict(X[100_000:])))
    seconds = time.perf_counter() - start
    print(model.solver_used_, taken / 1e6, np.abs(found[0] - X[100_000:, 0]).mean(), seconds)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "settings",
    ["kernel=RBF(2.0)", "kernel=RBF(2.0), algorithm='tree'", "kernel=Polynomial(2)", "kernel=RBF(1.0), radius=1.1"],
)
def test_a_hundred_thousand_rows_and_ten_thousand_queries(settings):
    """The matrix of all pairs would have 8 GB."""
    code = MEASURED.replace("{settings}", settings)
    used, megabytes, error, seconds = run(code, timeout=250, flags=["-W", "ignore"], OPENBLAS_NUM_THREADS="2").split()
    print(f"\n{settings}: {used}, {float(megabytes):.0f} MB above the rows, mean error {error}, {float(seconds):.1f} s")
    assert float(megabytes) < 600
    assert used == ("tree" if "tree" in settings else "brute")
    assert "radius" in settings or float(error) < 0.6


@pytest.mark.parametrize("name", ["mnist", "ijcnn1"])
def test_real_data_as_scikit_learn(data_home, name):
    with np.load(data_home / f"{name}.npz") as file:
        own = "X_train" in file
        X, y = file["X_train" if own else "X"], file["y_train" if own else "y"]
    chosen = np.random.default_rng(0).permutation(len(X))[:22_000]
    X, y = X[chosen].astype(np.float32), y[chosen]
    X, T, y, t = X[:20_000], X[20_000:], y[:20_000], y[20_000:]
    scale = float(X.std())
    model = KernelNeighborsClassifier(5, kernel=RBF(10 * scale)).fit(X, y)
    peer = KNeighborsClassifier(5, algorithm="brute").fit(X.astype(np.float64), y)
    same = (model.kneighbors(T)[1] == peer.kneighbors(T.astype(np.float64))[1]).mean()
    error, expected = 1 - model.score(T, t), 1 - peer.score(T.astype(np.float64), t)
    print(f"\n{name}: error {error:.4f}, scikit-learn's {expected:.4f}; {same:.6f} equal")
    assert same > 0.999  # ties between whole numbers are broken otherwise there
    assert error == pytest.approx(expected, abs=0.002)

"""Relevance vector machines: the published experiments, and ten thousand rows. The figures are printed."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from mercer import RVMClassifier, RVMRegressor
from mercer.kernels import RBF, LinearSpline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def best_width(make, X, y, widths):
    """The model whose lengthscale has the largest evidence."""
    models = [make(RBF(w)).fit(X, y) for w in widths]
    return max(models, key=lambda m: np.sum(m.evidence_))


def tuned(model, grid, X, y):
    return GridSearchCV(model, grid, cv=5, scoring="neg_mean_squared_error").fit(X, y).best_estimator_


def test_sinc():
    """Tipping (2001), section 4.1: 100 rows, noise of sd 0.1; errors against the function without noise.

    Cross-validation in five parts chooses the widths of both machines. The evidence would choose narrower ones.
    """
    T = np.linspace(-10, 10, 1000)[:, None]
    f = np.sinc(T[:, 0] / np.pi)
    grid = {"C": [0.1, 1, 10, 100], "epsilon": [0.03, 0.1, 0.2], "gamma": [0.02, 0.05, 0.1, 0.2, 0.5]}
    rows = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-10, 10, (100, 1))
        t = np.sinc(X[:, 0] / np.pi) + 0.1 * rng.standard_normal(100)
        rvm = tuned(RVMRegressor(), {"kernel": [RBF(w) for w in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)]}, X, t)
        spline = RVMRegressor(LinearSpline()).fit(X + 10, t)
        svr = tuned(SVR(), grid, X, t)
        errors = [np.sqrt(np.mean((g - f) ** 2)) for g in (rvm.predict(T), spline.predict(T + 10), svr.predict(T))]
        rows.append([*errors, len(rvm.relevance_), len(spline.relevance_), len(svr.support_)])
    rvm, spline, svr, *vectors = np.mean(rows, axis=0)
    print(f"\nRMSE: RVM {rvm:.4f}, RVM with splines {spline:.4f}, SVR {svr:.4f}; vectors {np.round(vectors, 1)}")
    assert rvm <= 1.02 * svr
    assert spline < svr
    assert 4 <= vectors[0] <= 9


def test_ripley(data_home):
    """Tipping (2001), section 4.2, with gamma=4: 25 subsets of 100 rows, and all 250."""
    with np.load(data_home / "ripley_synth.npz") as file:
        X, y, T, u = (file[k] for k in ("X_train", "y_train", "X_test", "y_test"))
    found = []
    for seed in range(25):
        some = np.random.RandomState(seed).permutation(len(y))[:100]
        model = RVMClassifier(gamma=4.0).fit(X[some], y[some])
        found.append([1 - model.score(T, u), len(model.relevance_)])
    error, vectors = np.mean(found, axis=0)
    model = RVMClassifier(gamma=4.0).fit(X, y)
    whole, count = 1 - model.score(T, u), len(model.relevance_)
    print(
        f"\nRipley: 100 rows {100 * error:.2f} % with {vectors:.1f} vectors; 250 rows {100 * whole:.2f} % with {count}"
    )
    assert error <= 0.10
    assert 3.5 <= vectors <= 8
    assert whole <= 0.097
    assert 3 <= count <= 6


def test_pima(data_home):
    """Within a point of an SVC tuned by cross-validation, over five splits."""
    with np.load(data_home / "diabetes_pima.npz") as file:
        X, y = file["X"].astype(float), file["y"]
    rows = []
    for seed in range(5):
        order = np.random.RandomState(seed).permutation(len(y))
        train, held = np.split(order, [int(0.8 * len(y))])
        scaler = StandardScaler().fit(X[train])
        A, B = scaler.transform(X[train]), scaler.transform(X[held])
        rvm = best_width(RVMClassifier, A, y[train], [2.0, 4.0, 8.0])
        grid = {"C": [0.1, 1, 10, 100], "gamma": [0.001, 0.01, 0.1]}
        svc = GridSearchCV(SVC(), grid, cv=5).fit(A, y[train]).best_estimator_
        rows.append([1 - rvm.score(B, y[held]), 1 - svc.score(B, y[held]), len(rvm.relevance_), len(svc.support_)])
    rvm, svc, *vectors = np.mean(rows, axis=0)
    print(f"\nPima: RVM {100 * rvm:.2f} %, SVC {100 * svc:.2f} %; vectors {vectors}")
    assert rvm <= svc + 0.01


def test_boston(data_home):
    """Tipping (2001): over random splits of 481 and 25 rows 7.46 with 39 vectors, SVR 8.04 with 143; widths by cross-validation.

    The errors of splits differ widely (25 rows, some houses at the limit of the prices), those of the two machines go together.
    """
    with np.load(data_home / "boston_housing.npz") as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    grid = {"C": [1, 10, 100, 1000], "epsilon": [0.5, 1, 2], "gamma": [0.01, 0.03, 0.1, 0.3]}
    rows = []
    for seed in range(10):
        order = np.random.RandomState(seed).permutation(len(y))
        train, held = order[:481], order[481:]
        scaler = StandardScaler().fit(X[train])
        A, B = scaler.transform(X[train]), scaler.transform(X[held])
        rvm = tuned(RVMRegressor(), {"kernel": [RBF(w) for w in (3.0, 4.0, 5.0, 6.0)]}, A, y[train])
        svr = tuned(SVR(), grid, A, y[train])
        errors = [np.mean((model.predict(B) - y[held]) ** 2) for model in (rvm, svr)]
        rows.append([*errors, len(rvm.relevance_), len(svr.support_)])
    rvm, svr, *vectors = np.mean(rows, axis=0)
    print(f"\nBoston: mean squared error RVM {rvm:.2f}, SVR {svr:.2f}; vectors {np.round(vectors, 1)}")
    assert rvm <= 1.1 * min(svr, 7.46)
    assert vectors[0] / vectors[1] <= 39.0 / 142.8  # as few beside SVR's as published


def test_friedman_with_a_width_for_each_column():
    """Tipping (2001), section 5: 240 rows, noise of sd 1; the error against the function without noise falls."""
    found = []
    for seed in range(5):
        X, t = make_friedman1(240, n_features=10, noise=1.0, random_state=seed)
        T, f = make_friedman1(1000, n_features=10, noise=0.0, random_state=100 + seed)
        one, each = (RVMRegressor(RBF(1.0), learn_kernel=how).fit(X, t) for how in (True, "columns"))
        found.append([np.mean((m.predict(T) - f) ** 2) for m in (one, each)])
        assert (np.diff(each.evidence_path_) >= 0).all()
    one, each = np.mean(found, axis=0)
    print(f"\nFriedman #1: squared error {one:.3f} with one width, {each:.3f} with one for each column")
    assert each <= one / 5


MEASURED = """
    import threading, time, sys
    from pathlib import Path
    import numpy as np
    from mercer import RVMRegressor
    from mercer.kernels import RBF

    def anonymous():
        return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) * 1024

    peak = [0]
    def watch():
        while True:
            peak[0] = max(peak[0], anonymous())
            time.sleep(0.01)
    threading.Thread(target=watch, daemon=True).start()
    with np.load(sys.argv[1]) as file:
        X, y = file["X"].astype(float), file["y"].astype(float)
    order = np.random.RandomState(0).permutation(len(y))
    train, held = order[:{rows}], order[{rows}:][:4000]
    mean, sd = X[train].mean(0), X[train].std(0)
    A, B = (X[train] - mean) / sd, (X[held] - mean) / sd
    started = time.time()
    model = RVMRegressor(RBF({width}), tol=1e-2).fit(A, y[train])
    seconds = time.time() - started
    error = np.mean((model.predict(B) - y[held]) ** 2) / np.var(y[held])
    print(peak[0] / 1e9, seconds, 1 - error, len(model.relevance_), model.converged_)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "rows", "width", "least"), [("kin8nm", 8000, 3.0, 0.8), ("california_housing", 10_000, 3.0, 0.6)]
)
def test_ten_thousand_rows_in_four_gigabytes(data_home, name, rows, width, least):
    script = textwrap.dedent(MEASURED.format(rows=rows, width=width))
    done = subprocess.run(
        [sys.executable, "-c", script, str(data_home / f"{name}.npz")],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    memory, seconds, score, vectors, converged = done.stdout.split()
    print(f"\n{name}: {float(memory):.2f} GB, {float(seconds):.0f} s, R2 {float(score):.3f}, {vectors} vectors")
    assert converged == "True"
    assert float(memory) < 4
    assert float(score) > least

"""Support vector machines and the perceptron at full size: LIBSVM's answers on real data, memory, interrupts, MNIST.

Work that is measured or interrupted runs in a process of its own. Deadlines are ten times what is promised.
"""

import json
import textwrap

import numpy as np
import pytest

import mercer
from libsvm_cases import CASES, TABLE, Dual, duals, load, objective, repetitions, scale, unpack
from test_limits import linux, run

pytestmark = pytest.mark.slow

TWO = {"OPENBLAS_NUM_THREADS": "2"}  # mercer takes as many threads

AGREES = {1e-3: 1e-6, 1e-5: 1e-8}  # of two dual values, relative, at a tolerance of both solvers
DIFFERENT = {1e-3: 0.02, 1e-5: 0.001}  # part of the support vectors of a machine that only one solver has
# Where LIBSVM itself stops further than that above the least value: its tolerance is absolute, and coarse for margins of
# 0.1 (german) or targets of deviation 0.27 (kin8nm). There mercer has to be lower.
ONLY_BELOW = {("german", 1e-3), ("kin8nm", 1e-3)}


# ------------------------------------------------------------------------------------------------ LIBSVM's table
def records():
    return json.loads(TABLE.read_text(encoding="utf-8"))["entries"]


@pytest.fixture(scope="module", params=range(2 * len(CASES)), ids=lambda i: f"{CASES[i // 2]}-{records()[i]['tol']:g}")
def compared(request, data_home):
    """(case, its record of LIBSVM, rows, targets, mercer's model)."""
    case, record = CASES[request.param // 2], records()[request.param]
    X, y = load(case, data_home)
    model = getattr(mercer, case.machine)(tol=record["tol"], **case.parameters).fit(X, y)
    return case, record, X, y, model


def test_the_table_is_of_these_cases():
    assert [(r["data"], r["machine"], r["parameters"], r["rows"], r["classes"]) for r in records()] == [
        (c.data, c.machine, c.parameters, c.rows, c.classes and list(c.classes)) for c in CASES for _ in AGREES
    ]
    assert [r["tol"] for r in records()] == list(AGREES) * len(CASES)
    for r in records():
        theirs, least = np.array(r["objective"]), np.array(r["least"])
        near = (theirs - least <= AGREES[r["tol"]] * np.abs(theirs)).all()
        assert near == ((r["data"], r["tol"]) not in ONLY_BELOW)


def test_dual_values(compared):
    """As low as LIBSVM's, and not lower than LIBSVM comes at a much smaller tolerance; equal where it is there already."""
    case, record, X, y, model = compared
    ours = np.array([objective(case, dual, X, y) for dual in duals(model, y)])
    theirs, least, agrees = np.array(record["objective"]), np.array(record["least"]), AGREES[record["tol"]]
    assert (ours - theirs <= agrees * np.abs(theirs)).all()
    assert (least - ours <= 1e-8 * np.abs(least)).all()
    if (case.data, record["tol"]) not in ONLY_BELOW:
        np.testing.assert_allclose(ours, theirs, rtol=agrees)


def test_certificates(compared):
    case, record, X, y, model = compared
    machines = duals(model, y)
    squares = np.array([scale(case, dual) ** 2 for dual in machines])
    own = np.array([objective(case, dual, X, y) for dual in machines])
    np.testing.assert_allclose(squares * model.objective_, own, rtol=1e-9)
    assert (model.dual_gap_ >= -1e-12 * np.abs(model.objective_)).all()
    assert (model.dual_gap_ <= 10 * record["tol"] * np.abs(model.objective_)).all()
    assert (own - squares * model.dual_gap_ <= np.array(record["least"]) + 1e-10 * np.abs(own)).all()
    assert (np.sqrt(squares) * model.violation_ <= record["tol"]).all()
    assert model.converged_


# ------------------------------------------------------------------------------------------------ support sets
def outputs(model, X):
    """Sums of the machines (n, machines)."""
    if hasattr(model, "decision_function_shape"):
        model.set_params(decision_function_shape="ovo")
    return getattr(model, "decision_function", model.predict)(X).reshape(X.shape[0], -1)


def from_margin(case, dual: Dual, f, y) -> np.ndarray:
    """How far the rows of a machine are from the place where variables begin to move, in the units of `tol`."""
    if case.machine == "OneClassSVM":
        return np.abs(f)
    if case.machine in ("SVC", "NuSVC"):
        return scale(case, dual) * np.abs(dual.signs * f[dual.rows] - 1)
    sizes = np.abs(y - f)
    free = dual.support[np.abs(dual.beta) < case.parameters["C"] * (1 - 1e-9)]  # on the border of the tube
    return np.abs(sizes - case.parameters.get("epsilon", sizes[free].mean()))


def test_support_sets(compared):
    """Equal up to rows within 10 tol of the margin, repeated rows counted as one: mercer adds their weights up.

    All free support vectors are that near, so that the number of different rows has a bound of its own.
    """
    case, record, X, y, model = compared
    group, f = repetitions(X, y), outputs(model, X)
    theirs = [unpack(text, len(y)) for text in record["support"]]
    assert len(np.unique(group[np.concatenate(theirs)])) == record["n_support_distinct"]
    for m, (dual, support) in enumerate(zip(duals(model, y), theirs, strict=True)):
        different = np.setxor1d(group[dual.support], group[support])
        rows = np.isin(group[dual.rows], different)
        assert (from_margin(case, dual, f[:, m], y)[rows] <= 10 * record["tol"]).all()
        assert len(different) <= max(1, DIFFERENT[record["tol"]] * len(support))
    assert len(np.unique(group[model.support_])) == len(model.support_)


# ------------------------------------------------------------------------------------------------ a million rows
MILLION = """
    import resource, time, warnings
    from pathlib import Path
    resource.setrlimit(resource.RLIMIT_AS, (3 * 10**9, 3 * 10**9))
    import numpy as np
    from mercer import SVC, OneClassSVM

    def peak():  # not ru_maxrss, which a process inherits from the one that started it
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024

    rng = np.random.default_rng(0)
    y = rng.integers(2, size=10**6)
    X = rng.standard_normal((10**6, 3), dtype=np.float32)
    X[:, 0] += np.where(y > 0, SHIFT, -SHIFT)
    model = MODEL
    model.fit(X[:3000], y[:3000])  # loads and compiles
    before, start = peak(), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    seconds = time.perf_counter() - start
    right = np.mean(model.predict(X[:20000]) == (y[:20000] if hasattr(model, "classes_") else 1))
    finite = np.isfinite(model.decision_function(X[:1000])).all()
    warned = [w.category.__name__ for w in caught]
    print(peak() - before, peak(), seconds, model.converged_, finite, right, *warned)
"""


def on_a_million_rows(model, shift):
    """(bytes more than before the fit, converged, right answers, names of warnings); within 3 GB of addresses, 3 minutes."""
    out = run(f"SHIFT = {shift}\n" + textwrap.dedent(MILLION).replace("MODEL", model), timeout=300, **TWO).split()
    print(f"\n{model}: {' '.join(out)}")
    more, whole, seconds = map(float, out[:3])
    assert whole < 1.3e9
    assert seconds < 180
    assert out[4] == "True"
    return more, out[3] == "True", float(out[5]), out[6:]


@linux
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("cache", "most"), [("cache_size=200", 800e6), ("memory='50MB'", 450e6)], ids=["200MB", "50MB"]
)
def test_a_million_rows_are_separated(cache, most):
    """The rows kept, and some numbers a row for the solver; one Gram would be 4 TB."""
    more, converged, right, warned = on_a_million_rows(f"SVC(gamma=0.1, {cache})", 3.5)
    assert more < most
    assert converged
    assert right > 0.999
    assert not warned


@linux
@pytest.mark.timeout(400)
def test_a_million_overlapping_rows_stop_at_the_cap():
    """It ends in time with a finite model and a warning. How good that model is, nobody can say: 4000 steps have looked at
    few of the rows, those that are most wrong first, and it may be worse than chance."""
    more, converged, _, warned = on_a_million_rows("SVC(gamma=0.1, max_iter=4000)", 1.5)
    assert more < 800e6
    assert not converged
    assert warned == ["ConvergenceWarning"]


@linux
@pytest.mark.timeout(400)
def test_the_support_of_a_million_rows():
    more, converged, right, warned = on_a_million_rows("OneClassSVM(gamma=0.1, nu=0.001)", 1.5)
    assert more < 800e6
    assert converged
    assert 0.997 < right < 1
    assert not warned


# ------------------------------------------------------------------------------------------------ Ctrl-C
INTERRUPTED = """
    import copy, os, signal, threading, time
    import numpy as np
    from sklearn.exceptions import NotFittedError
    from mercer import KernelPerceptron, NuSVC, NuSVR, OneClassSVM, SVC, SVR
    from mercer.kernels import RBF

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 6))
    value = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(N)
    y = value if "SVR" in KIND else np.digitize(value, [0.0] if "NuSVC" in KIND else [-1.0, 0.0, 1.0])

    def answers(model):
        try:
            return getattr(model, "decision_function", model.predict)(X[:50])
        except NotFittedError:
            return None

    def same(a, b):
        return a is b is None or (a is not None and b is not None and np.array_equal(a, b))

    def cut(work, seconds):
        # Whether a signal stopped the work, and how long that took.
        pressed, done = [], False

        def press():
            pressed.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(seconds, press)
        try:
            timer.start()
            work()
            done = True
            timer.join()
            time.sleep(1)  # the signal, if it is late
        except KeyboardInterrupt:
            late = time.perf_counter() - pressed[0]
        timer.join()
        return not done, late

    def timed(work):
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    model = MODEL
    start = copy.deepcopy(START)
    timed(lambda: WORK)  # loads and compiles
    model = copy.deepcopy(start)
    whole = timed(lambda: WORK)
    before, after = LEFT, answers(model)
    cuts, worst = 0, 0.0
    for share in np.random.default_rng(1).uniform(0.02, 0.8, 6):
        model = copy.deepcopy(start)
        stopped, late = cut(lambda: WORK, share * whole)
        cuts, worst = cuts + stopped, max(worst, late if stopped else 0.0)
        assert same(answers(model), before if stopped else after), "half a model"
        if stopped:
            WORK
        assert same(answers(model), after), "another model after an interrupt"
    print(cuts, worst, whole)
"""


def interrupted(model, n, start, work, left):
    """Parts of a script: a fitted or new estimator to begin with, what is interrupted, what an interrupt must leave."""
    code = textwrap.dedent(INTERRUPTED)
    for name, value in (("MODEL", model), ("START", start), ("WORK", work), ("LEFT", left)):
        code = code.replace(name, value)
    cuts, worst, whole = map(float, run(f"N, KIND = {n}, {model!r}\n{code}", timeout=300, **TWO).split())
    print(f"\n{model}: {cuts:g} of 6 stopped, at most {worst:.3f} s after the signal; whole {whole:.2f} s")
    assert cuts >= 3
    assert worst < 10


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("n", "model"),
    [
        (6000, "KernelPerceptron(RBF(1.0), random_state=0)"),
        (6000, "KernelPerceptron(RBF(1.0), variant='voted', random_state=0)"),
        (1000, "KernelPerceptron(RBF(1.0), budget=100, max_iter=2, random_state=0)"),
        (5000, "KernelPerceptron('linear', random_state=0)"),
        (4000, "NuSVC(nu=0.3, kernel=RBF(1.0))"),
        (4000, "NuSVR(C=10.0, nu=0.3, kernel=RBF(1.0))"),
        (20000, "OneClassSVM(nu=0.1, kernel=RBF(1.0))"),
        (5000, "SVC(C=100.0, kernel=RBF(2.0))"),
        (4000, "SVR(C=10.0, epsilon=0.05, kernel=RBF(1.0))"),
    ],
    ids=["averaged", "voted", "budget", "primal", "nu-svc", "nu-svr", "one-class", "pairs", "svr"],
)
def test_an_interrupted_fit_leaves_an_unfitted_estimator(n, model):
    interrupted(model, n, "model.fit(X[:500], y[:500])", "model.fit(X, y)", "None")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("kernel", "variant"),
    [
        ("RBF(1.0)", "averaged"),
        ("RBF(1.0)", "voted"),
        ("RBF(1.0)", "plain"),
        ("RBF(1.0)", "pocket"),
        ("'linear'", "averaged"),
    ],
)
def test_an_interrupted_partial_fit_changes_nothing(kernel, variant):
    model = f"KernelPerceptron({kernel}, variant='{variant}', random_state=0)"
    interrupted(model, 30000, "model.partial_fit(X[:3000], y[:3000], classes=range(4))",
                "model.partial_fit(X[3000:], y[3000:])", "answers(start)")  # fmt: skip


# ------------------------------------------------------------------------------------------------ MNIST
DIGITS = """
    import time
    from pathlib import Path
    import numpy as np
    from mercer import SVC
    from mercer.datasets import data_home

    with np.load(data_home() / "mnist.npz") as file:
        X, y, T, t = (file[n] for n in ("X_train", "y_train", "X_test", "y_test"))
    X, T = (np.float32(A.reshape(len(A), -1)) / np.float32(255) for A in (X, T))
    start = time.perf_counter()
    model = SVC(C=5.0, gamma=0.02).fit(X, y)
    seconds = time.perf_counter() - start
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    print(np.mean(model.predict(T) != t), peak, seconds, len(model.support_), model.converged_, model.violation_.max())
"""


@linux
@pytest.mark.timeout(1500)
def test_mnist(data_home):
    """All ten classes, two threads: within 4 GB, at most 1.5 % of the test rows wrong."""
    out = run(DIGITS, timeout=1400, MERCER_DATA=str(data_home), **TWO).split()
    print(f"\nerror, bytes, seconds, support vectors, converged, violation: {' '.join(out)}")
    error, peak = float(out[0]), float(out[1])
    assert error <= 0.015
    assert peak < 4e9
    assert out[4] == "True"

"""Window sums: every method against the sum written out in NumPy, and scikit-learn's for the windows it has."""

import itertools
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity
from threadpoolctl import threadpool_limits

from mercer.solvers import binning, boxes
from mercer.solvers.parzen import ALGORITHMS, parzen
from mercer.solvers.windows import SHAPES, shape_of

FORMS = ("radial", "product")
SKLEARN = {"boxcar": "tophat", "triangular": "linear"}


def brute(Q, Z, shape, form="radial", factors=None):
    """(m, n): the windows written out."""
    b = np.ones(len(Z)) if factors is None else factors
    s = ((Q[:, None, :] - Z[None]) / b[:, None]) ** 2
    return shape.value(s).prod(axis=2) if form == "product" else shape.value(s.sum(axis=2))


def density(Q, Z, w, shape, form="radial", factors=None):
    d = Z.shape[1]
    heights = w if factors is None else w * factors ** -float(d)
    return brute(Q, Z, shape, form, factors) @ heights * np.exp(shape.log_constant(d, form))


def same(found, expected, tol):
    """Of log densities: relative where the density is small, -inf at the same places."""
    assert np.array_equal(np.isneginf(found), np.isneginf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=tol, atol=tol)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    Z = {d: rng.standard_normal((700, d)) for d in (1, 2, 3, 4, 9)}
    Q = {
        d: np.concatenate([rng.standard_normal((150, d)) * 1.5, Z[d][:20], 30 * rng.standard_normal((5, d))]) for d in Z
    }
    w, b = rng.random(700) + 0.01, rng.uniform(0.5, 2.0, 700)
    return Z, Q, w / w.sum(), b


# ------------------------------------------------------------------------------------------------ the tree
@pytest.mark.parametrize(("n", "d", "leaf", "multiple"), [
    (1, 1, 32, 1), (1, 3, 64, 16), (5, 2, 1, 1), (420, 3, 64, 16), (1000, 1, 32, 16), (70_001, 2, 33, 16), (70_001, 4, 7, 1),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["normal", "equal", "ties"])
def test_boxes(n, d, leaf, multiple, kind):
    Z = np.random.default_rng(1).standard_normal((n, d))
    Z = {"normal": Z, "equal": np.ones_like(Z), "ties": np.round(Z)}[kind]
    tree = boxes.build(Z, leaf, multiple)
    assert np.array_equal(np.sort(tree.order), np.arange(n))
    assert np.array_equal(tree.rows, Z[tree.order])
    assert (tree.start[0], tree.stop[0]) == (0, n)
    inner = np.flatnonzero(tree.left >= 0)
    left, right = tree.left[inner], tree.right[inner]
    assert np.array_equal(tree.start[left], tree.start[inner])
    assert np.array_equal(tree.stop[left], tree.start[right])
    assert np.array_equal(tree.stop[right], tree.stop[inner])
    assert np.array_equal(np.flatnonzero(tree.left < 0), tree.leaves)
    sizes = (tree.stop - tree.start)[tree.leaves]
    assert sizes.min() >= 1
    assert sizes.max() <= leaf + multiple
    assert (tree.start % multiple == 0).all()
    for i in (0, len(tree.start) // 3, len(tree.start) - 1):
        part = tree.rows[tree.start[i] : tree.stop[i]]
        assert np.array_equal(part.min(axis=0), tree.lo[i])
        assert np.array_equal(part.max(axis=0), tree.hi[i])
    wide = (tree.hi - tree.lo).argmax(axis=1)[inner]
    assert (tree.hi[left, wide] <= tree.lo[right, wide]).all()


def test_totals():
    Z = np.random.default_rng(0).standard_normal((777, 2))
    tree, v = boxes.build(Z, 16), np.arange(777.0)
    for i, (a, b) in enumerate(zip(tree.start, tree.stop, strict=True)):
        assert tree.totals(v)[i] == v[a:b].sum()
        assert tree.totals(v, np.maximum)[i] == v[a:b].max()


# ------------------------------------------------------------------------------------------------ exact sums
@pytest.mark.parametrize("algorithm", ["tiles", "tree", "auto"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHAPES)
def test_exact_log_densities(rows, name, form, algorithm):
    Z, Q, w, b = rows
    for d, factors in itertools.product(Z, (None, b)):
        expected = density(Q[d], Z[d], w, SHAPES[name], form, factors)
        found = parzen(Z[d], w, SHAPES[name], form, factors, algorithm).log_density(Q[d])
        np.testing.assert_allclose(np.exp(found), expected, rtol=1e-10, atol=1e-14 * expected.max())


@pytest.mark.parametrize("algorithm", ["tiles", "tree"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHAPES)
def test_weighted_sums(rows, name, form, algorithm):
    Z, Q, w, b = rows
    for d, factors in itertools.product((1, 3), (None, b)):
        V = np.random.default_rng(2).standard_normal((700, 3))
        expected = brute(Q[d], Z[d], SHAPES[name], form, factors) @ (w[:, None] * V)
        found = parzen(Z[d], w, SHAPES[name], form, factors, algorithm).sums(Q[d], V)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("algorithm", ["tiles", "tree", "auto"])
@pytest.mark.parametrize("name", ["gaussian", "boxcar", "epanechnikov", "exponential", "triangular", "cosine"])
def test_as_scikit_learn(rows, name, algorithm):
    Z, Q, w, _ = rows
    for d in (1, 3):  # in even dimensions its constant of the cosine window is another one
        peer = KernelDensity(kernel=SKLEARN.get(name, name)).fit(Z[d], sample_weight=w).score_samples(Q[d])
        found = parzen(Z[d], w, shape_of(name), algorithm=algorithm).log_density(Q[d])
        np.testing.assert_allclose(
            np.exp(found), np.exp(peer), rtol=1e-9, atol=1e-14
        )  # its logarithms are noise far away


@pytest.mark.parametrize("algorithm", ["tiles", "tree"])
@pytest.mark.parametrize("form", FORMS)
def test_boxcar_is_a_count(form, algorithm):
    rng = np.random.default_rng(0)
    Z, Q = rng.integers(0, 12, (3000, 2)) * 0.3, rng.integers(0, 12, (200, 2)) * 0.3 + 0.05
    gap = np.abs(Q[:, None] - Z[None])
    inside = (gap <= 1.0).all(axis=2) if form == "product" else (gap**2).sum(axis=2) <= 1.0
    found = parzen(Z, None, SHAPES["boxcar"], form, algorithm=algorithm).sums(Q, np.ones((3000, 1)))[:, 0]
    np.testing.assert_allclose(3000 * found, inside.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("algorithm", ["tiles", "tree"])
@pytest.mark.parametrize("name", SHAPES)
def test_factors_of_one_and_equal_weights_change_nothing(rows, name, algorithm):
    Z, Q, _, _ = rows
    plain = parzen(Z[2], None, SHAPES[name], algorithm=algorithm).log_density(Q[2])
    ones = parzen(Z[2], np.full(700, 1 / 700), SHAPES[name], factors=np.ones(700), algorithm=algorithm)
    same(ones.log_density(Q[2]), plain, 1e-11)


@pytest.mark.parametrize("name", SHAPES)
def test_float32_rows_are_summed_in_float64(rows, name):
    Z, Q, w, _ = rows
    Z32, Q32 = Z[2].astype(np.float32), Q[2].astype(np.float32)
    found = parzen(Z32, w, SHAPES[name]).log_density(Q32)
    assert found.dtype == np.float64
    same(found, parzen(Z32.astype(np.float64), w, SHAPES[name]).log_density(Q32.astype(np.float64)), 0)


# ------------------------------------------------------------------------------------------------ far away
@pytest.mark.parametrize("algorithm", ["tiles", "tree", "auto"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["gaussian", "exponential"])
def test_log_densities_far_beyond_underflow(rows, name, form, algorithm):
    """The oracle subtracts the largest logarithm."""
    Z, _, w, b = rows
    for d, factors in itertools.product((1, 3), (None, b)):
        Q = np.random.default_rng(3).standard_normal((40, d)) * np.logspace(0, 7, 40)[:, None]
        U = np.abs(Q[:, None] - Z[d][None]) / (1.0 if factors is None else factors[:, None])
        fall = (
            0.5 * (U**2).sum(axis=2) if name == "gaussian" else np.linalg.norm(U, 2 if form == "radial" else 1, axis=2)
        )
        logs = np.log(w if factors is None else w * factors ** -float(d)) - fall
        top = logs.max(axis=1)
        expected = top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) + SHAPES[name].log_constant(d, form)
        assert expected.min() < -1e6
        same(parzen(Z[d], w, SHAPES[name], form, factors, algorithm).log_density(Q, rtol=1e-12), expected, 1e-12)


@pytest.mark.parametrize("name", sorted(set(SHAPES) - {"gaussian", "exponential"}))
def test_windows_end(rows, name):
    Z, _, w, _ = rows
    for d, algorithm in itertools.product((1, 3), ("tiles", "tree", "auto")):
        assert np.isneginf(parzen(Z[d], w, SHAPES[name], algorithm=algorithm).log_density(np.full((3, d), 1e4))).all()


def test_weights_of_any_size():
    Z = np.random.default_rng(0).standard_normal((600, 2))
    w = np.logspace(-300, 0, 600)
    w[:5] = 0.0
    w /= w.sum()
    Q = np.concatenate([Z[:50], Z[-50:]])
    for algorithm in ("tiles", "tree"):
        found = parzen(Z, w, SHAPES["gaussian"], algorithm=algorithm).log_density(Q)
        np.testing.assert_allclose(np.exp(found), density(Q, Z, w, SHAPES["gaussian"]), rtol=1e-11)


# ------------------------------------------------------------------------------------------------ tolerances
def _case(seed):
    """Random points, weights, factors, window and tolerances."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 5)), int(rng.integers(300, 1200))
    Z = rng.standard_normal((n, d)) * rng.uniform(0.3, 6.0) + rng.integers(0, 2, (n, 1)) * 5.0
    kind = seed % 4
    if kind == 1:
        Z = np.round(Z)  # many duplicates
    elif kind == 2 and seed % 8 == 2:
        Z[:] = Z[0]
    w = rng.random(n) ** (3 * rng.integers(0, 2)) + 1e-6
    factors = rng.uniform(0.3, 3.0, n) if rng.random() < 0.4 else None
    Q = np.concatenate([Z[rng.integers(0, n, 150)] + rng.standard_normal((150, d)), rng.standard_normal((120, d)) * 8.0, Z[:40],
                        rng.standard_normal((10, d)) * 100.0])  # fmt: skip
    rtol, atol = 10.0 ** rng.uniform(-8, -0.5), 10.0 ** rng.uniform(-9, -2)
    return Z, w / w.sum(), factors, Q, *[(rtol, 0.0), (0.0, atol), (rtol, atol)][seed % 3]


@pytest.mark.parametrize("name", SHAPES)
def test_errors_are_as_promised(name):
    """320 queries a case, 5 120 a window with both forms, 10 240 for every two windows."""
    for seed, form in itertools.product(range(8), FORMS):
        Z, w, factors, Q, rtol, atol = _case(seed + 100 * len(name))
        expected = density(Q, Z, w, SHAPES[name], form, factors)
        found = np.exp(parzen(Z, w, SHAPES[name], form, factors, "tree").log_density(Q, rtol=rtol, atol=atol))
        assert (np.abs(found - expected) <= atol + (rtol + 1e-11) * expected + 1e-14 * expected.max()).all()


def test_tolerance_saves_work():
    """A tolerance that were not used would be met too."""
    rng = np.random.default_rng(0)
    Z, Q = rng.standard_normal((3000, 2)) * 3, rng.standard_normal((500, 2)) * 3
    made = parzen(Z, None, SHAPES["gaussian"])
    exact = made.log_density(Q)
    assert 1e-5 < np.abs(made.log_density(Q, rtol=1e-2) - exact).max() < 1.01e-2
    assert np.array_equal(made.log_density(Q), exact)


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(0)
    Z, Q, V = rng.standard_normal((90_000, 2)) * 8, rng.standard_normal((4000, 2)) * 8, rng.standard_normal((90_000, 2))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            tree, grid = (parzen(Z, None, SHAPES["gaussian"], algorithm=a) for a in ("tree", "fft"))
            found.append([tree.log_density(Q, rtol=1e-3), tree.sums(Q[:500], V), grid.log_density(Q)])
            for algorithm in ("auto", "fft"):
                found[-1].append(parzen(Z[:, :1], None, SHAPES["gaussian"], algorithm=algorithm).log_density(Q[:, :1]))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


# ------------------------------------------------------------------------------------------------ a line
@pytest.mark.parametrize("name", ["gaussian", "exponential"])
@pytest.mark.parametrize("kind", ["wide", "narrow", "ties", "equal", "gap"])
def test_line_is_the_sum(name, kind):
    rng = np.random.default_rng(0)
    z = rng.standard_normal(3000)
    z = {"wide": 40 * z, "narrow": 0.1 * z, "ties": np.round(3 * z), "equal": 0 * z + 7, "gap": z + 1e3 * (z > 1)}[kind]
    w = rng.random(3000)
    Q = np.concatenate([z[:200], rng.standard_normal(200) * 30, rng.uniform(-50, 1050, 100)])[:, None]
    made = parzen(z[:, None], w / w.sum(), SHAPES[name])
    found = made.log_density(Q)
    assert made.used == "line"
    same(found, parzen(z[:, None], w / w.sum(), SHAPES[name], algorithm="tree").log_density(Q), 1e-13)
    expected = density(Q, z[:, None], w / w.sum(), SHAPES[name])
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-11, atol=1e-200)


# ------------------------------------------------------------------------------------------------ a grid
@pytest.mark.parametrize("name", binning.SMOOTH)
@pytest.mark.parametrize("kind", ["normal", "ties", "two"])
def test_grid_on_a_line(name, kind):
    rng = np.random.default_rng(0)
    z = {
        "normal": rng.standard_normal(5000) * 9,
        "ties": np.round(rng.standard_normal(400)),
        "two": np.array([0.0, 7.3]),
    }[kind]
    check_grid(z[:, None], name, "radial", 1e-6, 1000)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", binning.SMOOTH)
def test_grid_in_the_plane(name, form):
    check_grid(np.random.default_rng(0).standard_normal((1500, 2)) * [2.0, 4.0], name, form, 1e-4, 40)


def check_grid(Z, name, form, accuracy, num):
    rng = np.random.default_rng(1)
    w = rng.random(len(Z))
    w /= w.sum()
    made = parzen(Z, w, SHAPES[name], form, algorithm="fft")
    points, on = made.grid(num)
    off = Z[rng.integers(0, len(Z), 300)] + rng.standard_normal((300, Z.shape[1]))
    expected = density(points, Z, w, SHAPES[name], form), density(off, Z, w, SHAPES[name], form)
    most = max(e.max() for e in expected)
    assert made._binned.error <= accuracy * made._binned.values.max()
    assert np.abs(on - expected[0]).max() <= made._binned.error
    assert on.min() >= 0.0
    assert expected[0][0] < 1e-12 * most
    found = made.log_density(off)
    assert made.used == "fft"
    assert np.abs(np.exp(found) - expected[1]).max() <= made._binned.error <= accuracy * most * 1.01
    same(found, parzen(Z, w, SHAPES[name], form).log_density(off), 2e-3)  # a thousandth of the density, or by the tree


@pytest.mark.parametrize("name", sorted(set(SHAPES) - set(binning.SMOOTH)))
def test_windows_with_kinks_have_no_grid(name):
    Z = np.zeros((3, 1))
    with pytest.raises(ValueError, match=rf"algorithm=\"fft\" is not possible: the {name} window is not smooth enough"):
        parzen(Z, None, SHAPES[name], algorithm="fft")
    with pytest.raises(ValueError, match="no densities on a grid"):
        parzen(Z, None, SHAPES[name]).grid()


def test_what_has_no_grid():
    gaussian = SHAPES["gaussian"]
    with pytest.raises(ValueError, match="at most 2 columns, not 3"):
        parzen(np.zeros((4, 3)), None, gaussian, algorithm="fft")
    with pytest.raises(ValueError, match="all points have the same bandwidth"):
        parzen(np.zeros((4, 1)), None, gaussian, factors=np.ones(4), algorithm="fft")
    with pytest.raises(ValueError, match=r"needs \d+ nodes .*the bandwidth is small"):
        parzen(np.array([[0.0], [1e9]]), None, gaussian, algorithm="fft").log_density(np.zeros((1, 1)))


# ------------------------------------------------------------------------------------------------ the choice
def test_the_choice_and_its_reason():
    rng = np.random.default_rng(0)
    Z, gaussian = rng.standard_normal((30_000, 2)) * 8, SHAPES["gaussian"]
    made, far = parzen(Z, None, gaussian), parzen(Z * 1e6, None, gaussian)
    assert "tree: exact to rounding" in made.explain()
    assert "fft: its error of " in made.explain(atol=1e-3)
    assert "tree: as exact as asked for" in made.explain(atol=1e-12)
    assert "tree: as exact" in far.explain(atol=1e-3)
    made.log_density(Z[:5], atol=1e-3)
    assert made.used == "fft"
    found = np.exp(made.log_density(Z[:200], atol=1e-3))
    assert np.abs(found - density(Z[:200], Z, np.full(30_000, 1 / 30_000), gaussian)).max() < 1e-3
    assert "line: " in parzen(Z[:, :1], None, gaussian).explain()
    assert "tiles: a tree is not worth" in parzen(Z[:100], None, gaussian).explain()
    assert "tiles: boxes of points" in parzen(rng.standard_normal((1000, 20)), None, gaussian).explain(10)
    assert "tree: every point" in parzen(Z[:100], None, gaussian, factors=np.ones(100)).explain()
    assert "tiles: it was asked for" in parzen(Z, None, gaussian, algorithm="tiles").explain()
    assert "tree: it was asked for\ntime        about " in parzen(Z, None, gaussian, algorithm="ball_tree").explain()


def test_bad_words_and_shapes():
    Z = np.zeros((4, 1))
    with pytest.raises(ValueError, match="algorithm='fast' must be one of 'auto'"):
        parzen(Z, None, SHAPES["gaussian"], algorithm="fast")
    with pytest.raises(ValueError, match=r"weights has the shape \(3,\), but there are 4 points"):
        parzen(Z, np.ones(3), SHAPES["gaussian"])
    with pytest.raises(ValueError, match=r"factors has the shape \(5,\)"):
        parzen(Z, None, SHAPES["gaussian"], factors=np.ones(5))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_queries_and_one_point(algorithm):
    made = parzen(np.zeros((1, 2)), None, SHAPES["gaussian"], algorithm=algorithm)
    assert made.log_density(np.empty((0, 2))).shape == (0,)
    assert made.sums(np.empty((0, 2)), np.ones((1, 3))).shape == (0, 3)
    np.testing.assert_allclose(made.log_density(np.array([[3.0, 4.0]])), -12.5 - np.log(2 * np.pi), rtol=1e-6)


# ------------------------------------------------------------------------------------------------ interrupts
INTERRUPTED = """
    import os, signal, threading, time
    import numpy as np
    from mercer.solvers.parzen import parzen
    from mercer.solvers.windows import SHAPES

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with SIGINT ignored
    Z = np.random.default_rng(0).standard_normal((200_000, 3))
    made = parzen(Z, None, SHAPES[NAME], algorithm="tree")
    made.log_density(Z[:2] + FAR)  # loads and compiles
    pressed = []

    def press():
        time.sleep(1.0)
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    try:
        made.log_density(Z + FAR)
    except KeyboardInterrupt:
        print(time.perf_counter() - pressed[0])
"""


@pytest.mark.timeout(240)  # a fresh process may have to compile on a busy machine
@pytest.mark.parametrize(("name", "far"), [("gaussian", 0.0), ("exponential", 1e4)])
def test_a_long_sum_can_be_interrupted(name, far):
    """2 s are promised, 20 asserted."""
    code = textwrap.dedent(INTERRUPTED).replace("NAME", repr(name)).replace("FAR", repr(far))
    command, here = [sys.executable, "-c", code], {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(command, env=here, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout) < 20

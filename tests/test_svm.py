"""Support vector machines against LIBSVM, closed forms, an independent KKT test, and themselves by other ways."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import datasets, svm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import mercer
from estimator_cases import regression
from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SVCPath, calibrated, validate
from mercer.errors import ConvergenceWarning, NumericalWarning
from mercer.estimators import svm as estimators
from mercer.kernels import RBF, Linear, Polynomial, Sigmoid, Spectrum
from mercer.solvers import c_svc, epsilon_svr, nu_svc, nu_svr, one_class, rows, smo, solve_dual
from mercer.solvers import svm as machines

LOSSES = ("c_svc", "nu_svc", "epsilon_svr", "nu_svr", "one_class")


def scaled(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.fixture(scope="module")
def cancer():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return scaled(X), np.where(y > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def diabetes():
    X, y = datasets.load_diabetes(return_X_y=True)
    return scaled(X), (y - y.mean()) / y.std()


def problem_of(kind, X, labels, targets, weight):
    return {
        "c_svc": lambda: c_svc(labels, 3.0 * weight),
        "nu_svc": lambda: nu_svc(labels, weight, 0.2),
        "epsilon_svr": lambda: epsilon_svr(targets, 3.0 * weight, 0.1),
        "nu_svr": lambda: nu_svr(targets, 3.0 * weight, 0.4),
        "one_class": lambda: one_class(weight, 0.3),
    }[kind]()


def sample(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    targets = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)
    return X, np.where(targets + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0), targets, rng.uniform(0.5, 2.0, n)


# ------------------------------------------------------------------------------------------------ against LIBSVM
def objective(model, K, kind, y=None, epsilon=0.0):
    beta = np.zeros(len(K))
    beta[model.support_] = model.dual_coef_[0]
    quadratic = 0.5 * beta @ K @ beta
    if kind == "c_svc":
        return quadratic - np.abs(beta).sum()
    return quadratic - (0.0 if y is None else y @ beta) + epsilon * np.abs(beta).sum()


@pytest.mark.parametrize(("tol", "agrees"), [(1e-3, 1e-6), (1e-5, 1e-8)])
def test_objectives_are_libsvms(cancer, diabetes, tol, agrees):
    X, y = cancer
    K = RBF(3.0)(X)
    settings = {"gamma": 1 / 18, "tol": tol}
    ours, theirs = (c(C=3.0, **settings).fit(X, y) for c in (SVC, svm.SVC))
    assert objective(ours, K, "c_svc") == pytest.approx(objective(theirs, K, "c_svc"), rel=agrees)
    assert ours.objective_[0] == pytest.approx(objective(ours, K, "c_svc"), rel=1e-9)
    ours, theirs = (c(nu=0.2, **settings).fit(X) for c in (OneClassSVM, svm.OneClassSVM))
    assert objective(ours, K, "one_class") == pytest.approx(objective(theirs, K, "one_class"), rel=agrees)
    X, y = diabetes
    K = RBF(3.0)(X)
    ours, theirs = (c(C=3.0, epsilon=0.1, **settings).fit(X, y) for c in (SVR, svm.SVR))
    assert objective(ours, K, "svr", y, 0.1) == pytest.approx(objective(theirs, K, "svr", y, 0.1), rel=agrees)
    for nu in (0.1, 0.5, 1.0):
        ours, theirs = (c(C=3.0, nu=nu, **settings).fit(X, y) for c in (NuSVR, svm.NuSVR))
        assert objective(ours, K, "nu_svr", y) == pytest.approx(objective(theirs, K, "nu_svr", y), rel=agrees)


def test_decisions_and_support_are_libsvms(cancer, diabetes):
    X, y = cancer
    for ours, theirs in ((SVC(C=3.0, tol=1e-7), svm.SVC(C=3.0, tol=1e-7)), (NuSVC(nu=0.2, tol=1e-8), svm.NuSVC(nu=0.2, tol=1e-8)),
                         (SVC(kernel="poly", tol=1e-7), svm.SVC(kernel="poly", tol=1e-7)),
                         (SVC(kernel="linear", tol=1e-7), svm.SVC(kernel="linear", tol=1e-7)),
                         (OneClassSVM(tol=1e-8), svm.OneClassSVM(tol=1e-8))):  # fmt: skip
        a, b = ours.fit(X, y).decision_function(X), theirs.fit(X, y).decision_function(X)
        np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())
        border = np.abs(np.abs(b) - 1.0) < 1e-5 if hasattr(ours, "classes_") else np.abs(b) < 1e-4
        different = np.setxor1d(ours.support_, theirs.support_)
        assert border[different].all()
    a, b = SVC(kernel="linear", tol=1e-7).fit(X, y), svm.SVC(kernel="linear", tol=1e-7).fit(X, y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-4)
    X, y = diabetes
    for ours, theirs in ((SVR(tol=1e-7), svm.SVR(tol=1e-7)), (NuSVR(tol=1e-7), svm.NuSVR(tol=1e-7))):
        np.testing.assert_allclose(ours.fit(X, y).predict(X), theirs.fit(X, y).predict(X), atol=1e-4)


@pytest.mark.parametrize(
    "settings", [{}, {"kernel": "poly", "C": 2.0}, {"class_weight": "balanced"}, {"class_weight": {0: 5.0}}]
)
def test_many_classes_like_scikit_learn(settings):
    X, y = datasets.load_wine(return_X_y=True)
    mixed = np.random.default_rng(0).permutation(len(y))  # support vectors are sorted by class
    X, y = scaled(X)[mixed], y[mixed]
    names = np.array(["red", "rose", "white"])[y]
    ours, theirs = SVC(tol=1e-7, **settings), svm.SVC(tol=1e-7, **settings)
    if isinstance(settings.get("class_weight"), dict):
        ours.set_params(class_weight={"red": 5.0})
        theirs.set_params(class_weight={"red": 5.0})
    ours, theirs = ours.fit(X, names), theirs.fit(X, names)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    for shape in ("ovr", "ovo"):
        a = ours.set_params(decision_function_shape=shape).decision_function(X)
        np.testing.assert_allclose(a, theirs.set_params(decision_function_shape=shape).decision_function(X), atol=1e-4)
    ours.set_params(decision_function_shape="ovr", break_ties=True)
    np.testing.assert_array_equal(ours.predict(X), ours.classes_[ours.decision_function(X).argmax(axis=1)])
    with pytest.raises(ValueError, match="break_ties must be False"):
        ours.set_params(decision_function_shape="ovo").predict(X)


def test_many_classes_on_a_given_gram():
    X, y = datasets.load_wine(return_X_y=True)
    X = scaled(X)
    K = RBF(3.0)(X)
    given, own = SVC(kernel="precomputed", tol=1e-8).fit(K, y), SVC(kernel=RBF(3.0), tol=1e-8).fit(X, y)
    np.testing.assert_allclose(given.decision_function(K), own.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(given.support_, own.support_)


def test_one_against_the_rest_is_a_machine_for_each_class():
    X, y = datasets.load_iris(return_X_y=True)
    model = SVC(kernel=RBF(1.0), multi_class="ovr", tol=1e-8).fit(X, y)
    values = model.decision_function(X)
    for c in range(3):
        alone = SVC(kernel=RBF(1.0), tol=1e-8).fit(X, (y == c).astype(int))
        np.testing.assert_allclose(values[:, c], alone.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), values.argmax(axis=1))
    assert model.dual_coef_.shape == (3, len(model.support_))


def test_pairs_of_classes_share_and_equal_separate_fits():
    X, y = datasets.load_digits(n_class=5, return_X_y=True)
    model = SVC(gamma=1e-3, tol=1e-8).fit(X, y)
    values = model.set_params(decision_function_shape="ovo").decision_function(X[:50])
    p = 0
    for a in range(5):
        for b in range(a + 1, 5):
            inside = (y == a) | (y == b)
            alone = SVC(gamma=1e-3, tol=1e-8).fit(X[inside], y[inside])
            np.testing.assert_allclose(values[:, p], -alone.decision_function(X[:50]), atol=1e-6)
            p += 1


# ------------------------------------------------------------------------------------------------ certificates
def test_two_points():
    """Linear, x = -1 and 1: f(x) = x, alpha = 1/2; with C = 1/8 both stay at C."""
    X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    model = SVC(kernel="linear", C=10.0).fit(X, y)
    np.testing.assert_allclose(model.decision_function([[0.5], [-2.0]]), [0.5, -2.0], atol=1e-12)
    np.testing.assert_allclose(np.abs(model.dual_coef_), 0.5)
    small = SVC(kernel="linear", C=0.125).fit(X, y)
    np.testing.assert_allclose(small.decision_function([[1.0]]), 0.25)
    assert small.objective_[0] == pytest.approx(0.5 * 0.25**2 - 0.25)


def primal(kind, K, beta, b, y, C, epsilon):
    f = K @ beta + b
    losses = np.maximum(0.0, 1 - y * f) if kind == "c_svc" else np.maximum(0.0, np.abs(y - f) - epsilon)
    return 0.5 * beta @ K @ beta + (C * losses).sum()


def test_duality_gap_is_primal_minus_dual():
    X, labels, targets, weight = sample()
    K = RBF(1.0)(X)
    for kind, y, epsilon in (("c_svc", labels, 0.0), ("epsilon_svr", targets, 0.1)):
        problem = problem_of(kind, X, labels, targets, weight)
        m = machines.solve_machine(RBF(1.0).gram(X), kind, problem, tol=1e-2)
        gap = primal(kind, K, m.coefficients, m.intercept, y, 3.0 * weight, epsilon) + m.objective
        assert m.gap == pytest.approx(gap, rel=1e-8)
        assert 0 < m.gap < 0.01 * abs(m.objective)


@pytest.mark.parametrize("kind", LOSSES)
def test_kkt_by_another_way(kind):
    """Slopes of every pair by a loop over the definition, for a solution at 1e-6; the gap falls with the tolerance."""
    X, labels, targets, weight = sample()
    K = RBF(1.0)(X)
    p = problem_of(kind, X, labels, targets, weight)
    s = solve_dual(RBF(1.0).gram(X), p, tol=1e-6)
    assert s.status is mercer.linalg.Status.CONVERGED
    assert (s.beta >= p.lower).all()
    assert (s.beta <= p.upper).all()
    assert s.beta.sum() == pytest.approx(0.0 if p.start is None else p.start.sum(), abs=1e-9)
    g = K @ s.beta + p.linear
    np.testing.assert_allclose(s.values, K @ s.beta, atol=1e-9)
    groups = [(s.beta >= 0, s.beta <= 0)] if p.parts == 1 else [(s.beta >= 0, s.beta > 0), (s.beta < 0, s.beta <= 0)]
    if p.parts == 1:
        up = g + np.where(s.beta >= 0, p.kink, -p.kink)
        down = g + np.where(s.beta > 0, p.kink, -p.kink)
        assert down[s.beta > p.lower].max() - up[s.beta < p.upper].min() <= 1.01e-6
    else:
        for can_rise, can_fall in groups:
            rise, fall = can_rise & (s.beta < p.upper), can_fall & (s.beta > p.lower)
            assert g[fall].max() - g[rise].min() <= 1.01e-6
    loose = solve_dual(RBF(1.0).gram(X), p, tol=1e-2)
    assert 0 <= s.gap < loose.gap
    assert s.objective <= loose.objective


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("settings", [
    {}, {"shrinking": False}, {"memory": 0}, {"memory": 30 * 300 * 8}, {"memory": 90 * 300 * 8, "shrinking": False},
], ids=str)  # fmt: skip
def test_blocks_and_caches_give_the_whole_solution(kind, settings, monkeypatch):
    X, labels, targets, weight = sample()
    problem = problem_of(kind, X, labels, targets, weight)
    expected = solve_dual(RBF(1.0).gram(X), problem, tol=1e-8)
    monkeypatch.setattr(smo, "_WHOLE", 20)
    monkeypatch.setattr(smo, "_BLOCK", 32)
    monkeypatch.setattr(smo, "_SHRINK_EVERY", 3)
    monkeypatch.setattr(smo, "_SHRINK_LEAST", 0.02)
    shrunk = []
    original = smo._BlockSMO._permute
    monkeypatch.setattr(smo._BlockSMO, "_permute", lambda self, order: (shrunk.append(1), original(self, order))[1])
    got = solve_dual(RBF(1.0).gram(X), problem, tol=1e-8, **settings)
    assert got.status is mercer.linalg.Status.CONVERGED
    assert got.objective == pytest.approx(expected.objective, rel=1e-10)
    np.testing.assert_allclose(got.values, expected.values, atol=1e-5)
    if settings.get("shrinking", True) and kind in ("c_svc", "nu_svc", "one_class"):
        assert shrunk


def test_borders_are_hit_exactly():
    from mercer.solvers import _compiled

    rng = np.random.default_rng(0)
    for lower, upper in rng.uniform(0.1, 3.0, (200, 2)):
        beta = np.array([rng.uniform(0.0, upper), -rng.uniform(0.0, lower)])
        room = min(upper - beta[0], beta[1] + lower)
        gone = _compiled._step(beta, 0, 1, np.array([0.0, -lower]), np.array([upper, 0.0]), 10.0)
        assert gone == room
        assert beta[0] == upper or beta[1] == -lower
        assert -lower <= beta[1] <= 0.0 <= beta[0] <= upper


def test_a_large_offset_of_the_targets_does_not_cost_single_precision():
    X, _, targets, _ = sample(100)
    model = SVR(C=5.0).fit(X.astype(np.float32), targets + 1e5)
    assert model.converged_
    near = SVR(C=5.0).fit(X, targets).predict(X)
    np.testing.assert_allclose(model.predict(X.astype(np.float32)) - 1e5, near, atol=0.02)


def test_a_tolerance_below_rounding_ends_and_says_so():
    X, labels, _, _ = sample(200)
    model = SVC(C=100.0, tol=1e-18)
    with pytest.warns(ConvergenceWarning, match="stagnated"):
        model.fit(X.astype(np.float32), labels)
    assert not model.converged_
    assert model.n_iter_[0] < 1_000_000
    assert 1.5e-18 < model.violation_[0] < 1e-2


def test_an_undetermined_threshold_is_the_middle():
    """With nu n / 2 a whole number all positive variables may be at C; rounding must not choose one to speak for them."""
    X, y = regression()
    X = np.round(X, 1)
    s = solve_dual(Linear().gram(X), nu_svr(y, np.ones(40), 0.4), tol=1e-10)
    g = X @ X.T @ s.beta - y
    found = 0
    for sign, threshold in zip((1.0, -1.0), s.thresholds, strict=True):
        size = sign * s.beta
        free = (size > 1e-8) & (size < 1 - 1e-8)
        if not free.any():
            found += 1
            rising, falling = (g[size >= 1 - 1e-8], g[np.abs(size) <= 1e-8])
            ends = (rising.max(), falling.min()) if sign > 0 else (rising.min(), falling.max())
            assert threshold == pytest.approx(np.mean(ends), abs=1e-8)
    assert found == 1


def test_gap_of_nu_svc_is_that_of_its_c_svc():
    X, labels, _, _ = sample()
    K = RBF(1.0)(X)
    problem = nu_svc(labels, np.ones(len(labels)), 0.3)
    above, below = solve_dual(RBF(1.0).gram(X), problem, tol=1e-2).thresholds
    m = machines.solve_machine(RBF(1.0).gram(X), "nu_svc", problem, tol=1e-2)
    C = 2.0 / (above - below)
    gap = primal("c_svc", K, m.coefficients, m.intercept, labels, C, 0.0) + m.objective - np.abs(m.coefficients).sum()
    assert m.gap == pytest.approx(gap, rel=1e-6)


def test_given_and_lazy_grams_agree_in_blocks(monkeypatch):
    from mercer.gram import GivenGram

    X, labels, targets, weight = sample()
    problem = problem_of("c_svc", X, labels, targets, weight)
    monkeypatch.setattr(smo, "_WHOLE", 20)
    monkeypatch.setattr(smo, "_BLOCK", 32)
    a, b = (solve_dual(K, problem, tol=1e-9) for K in (RBF(1.0).gram(X), GivenGram(RBF(1.0)(X))))
    np.testing.assert_allclose(a.beta, b.beta, atol=1e-6)


def test_row_cache_against_the_matrix():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    K = RBF(1.0)(X)
    cache = rows.RowCache(RBF(1.0).gram(X), memory=25 * 60 * 8)
    order = np.arange(60)
    assert cache.capacity == 25
    for _ in range(60):
        wanted = rng.choice(60, rng.integers(1, 26), replace=False)
        stop = int(rng.integers(1, 61))
        slots = cache.fetch(wanted, stop)
        assert len(np.unique(slots)) == len(wanted)
        np.testing.assert_allclose(cache.buffer[slots, :stop], K[np.ix_(order[wanted], order[:stop])], rtol=1e-12)
        known = cache.known(np.arange(60), 60)
        np.testing.assert_allclose(cache.buffer[cache.slot[known]], K[np.ix_(order[known], order)], rtol=1e-12)
        block = np.empty((7, 9))
        some, others = rng.choice(60, 7, replace=False), rng.choice(60, 9, replace=False)
        cache.gather(some, others, block)
        np.testing.assert_allclose(block, K[np.ix_(order[some], order[others])], rtol=1e-12)
        if rng.random() < 0.3:
            shuffled = rng.permutation(60)
            cache.permute(shuffled)
            order = order[shuffled]


# ------------------------------------------------------------------------------------------------ weights
@pytest.mark.parametrize(
    "model", [SVC(), NuSVC(nu=0.3), SVR(), NuSVR(), OneClassSVM(nu=0.3), SVC(class_weight="balanced")], ids=str
)
@pytest.mark.parametrize("form", [np.asarray, "sparse"], ids=["dense", "sparse"])
def test_a_weight_is_a_repetition(model, form):

    X, labels, targets, _ = sample(80)
    form = sp.csr_array if form == "sparse" else form
    y = targets if "SVR" in type(model).__name__ else labels
    rng = np.random.default_rng(1)
    times = rng.integers(0, 4, len(y))
    long = rng.permutation(np.repeat(np.arange(len(y)), times))
    weighted = model.fit(form(X), y, sample_weight=times)
    a = getattr(weighted, "decision_function", weighted.predict)(X)
    repeated = model.fit(form(X[long]), y[long])
    b = getattr(repeated, "decision_function", repeated.predict)(X)
    np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13)  # sums over support vectors run in the order of X


def test_balanced_classes_count_weights():
    X, labels, _, _ = sample(80)
    w = np.random.default_rng(3).integers(1, 5, 80).astype(float)
    mass = {c: w.sum() / (2 * w[labels == c].sum()) for c in (-1.0, 1.0)}
    a = SVC(class_weight="balanced").fit(X, labels, sample_weight=w).decision_function(X)
    b = SVC(class_weight=mass).fit(X, labels, sample_weight=w).decision_function(X)
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_order_of_marks_is_that_of_lexsort():
    rng = np.random.default_rng(0)
    for values in (3, 50, 10**9):
        first, second = rng.integers(values, size=(2, 400)).astype(np.uint64)
        order, repeated = validate._ordered(second, first)
        assert np.array_equal(order, np.lexsort([second, first]))
        same = (first[order[1:]] == first[order[:-1]]) & (second[order[1:]] == second[order[:-1]])
        assert np.array_equal(repeated, np.flatnonzero(same) + 1)


def test_many_rows_are_taken_as_few_are(monkeypatch):
    monkeypatch.setattr(validate, "_MANY", 10)
    X = np.random.default_rng(0).standard_normal((200_000, 3)).astype(np.float32)
    index = np.random.default_rng(1).integers(len(X), size=150_000)
    assert np.array_equal(validate.take(X, index), X[index])
    assert np.array_equal(validate.take(X[::-2], index[index < 1000]), X[::-2][index[index < 1000]])
    assert np.array_equal(validate.take(X, -1 - index), X[-1 - index])
    with pytest.raises(IndexError):
        validate.take(X, index + len(X))


def test_canonical_rows():
    X = np.array([[1.0, 0.0], [2.0, 3.0], [1.0, -0.0], [2.0, 3.0], [0.0, 0.0], [2.0, 3.0]])
    y, w = np.array([0, 1, 0, 0, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0, 0.0, 5.0])
    for rows_ in (X, X.astype(np.float32), sp.csr_array(X)):
        kept, targets, weight, index = validate.canonical(rows_, y, w)
        dense = kept.toarray() if sp.issparse(kept) else kept
        found = {(*map(float, r), int(t)): float(v) for r, t, v in zip(dense, targets, weight, strict=True)}
        assert found == {(1.0, 0.0, 0): 4.0, (2.0, 3.0, 1): 7.0, (2.0, 3.0, 0): 4.0}
        np.testing.assert_array_equal(np.abs(X[index]), np.abs(dense))
    order = [r.tolist() for r in validate.canonical(X, y, w)[0] + 0.0]
    shuffled = np.random.default_rng(0).permutation(6)
    assert [r.tolist() for r in validate.canonical(X[shuffled], y[shuffled], w[shuffled])[0] + 0.0] == order


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_canonical_rows_with_many_twins_and_with_equal_marks(storage, monkeypatch):
    X = np.tile([[1.0, 0.0], [2.0, 3.0], [4.0, 0.0]], (5000, 1))
    kept, _, weight, _ = validate.canonical(storage(X), np.zeros(15_000), None)
    assert kept.shape == (3, 2)
    assert weight.tolist() == [5000.0] * 3
    # Rows that differ stay two rows, also where their marks agree.
    monkeypatch.setattr(validate, "_content_hash", lambda rows: np.zeros(rows.shape[0], np.uint64))
    for X, y in (([[1.0, 2.0], [1.0, 3.0]], [0.0, 0.0]), ([[1.0, 2.0], [1.0, 2.0]], [0.0, 1.0])):
        assert validate.canonical(storage(np.array(X)), np.array(y), None)[0].shape == (2, 2)


def test_support_names_rows_of_x():
    X, labels, _, _ = sample(80)
    w = np.ones(80)
    w[::4] = 0
    for model in (SVC(C=5.0), SVC(C=5.0, kernel="precomputed")):
        rows_ = RBF(1.0)(X) if model.kernel == "precomputed" else X
        model.fit(rows_, labels, sample_weight=w)
        assert not np.isin(model.support_, np.arange(0, 80, 4)).any()
        if model.kernel != "precomputed":
            np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
        at_margin = model.decision_function(rows_)[model.support_] * labels[model.support_]
        assert (at_margin < 1 + 2e-3).all()


# ------------------------------------------------------------------------------------------------ paths
@pytest.mark.parametrize("blocks", [False, True])
def test_a_path_is_separate_fits(blocks, monkeypatch):
    if blocks:
        monkeypatch.setattr(smo, "_WHOLE", 20)
        monkeypatch.setattr(smo, "_BLOCK", 32)
        monkeypatch.setattr(smo, "_SHRINK_EVERY", 3)
        monkeypatch.setattr(smo, "_SHRINK_LEAST", 0.02)
    X, labels, targets, w = sample(150)
    Cs = [1.0, 0.05, 30.0]
    for y in (labels, np.digitize(targets, [-0.7, 0.7])):
        base = SVC(kernel=RBF(1.0), tol=1e-8, class_weight="balanced")
        for C, model in zip(Cs, base.path(X, y, Cs, sample_weight=w), strict=True):
            alone = SVC(kernel=RBF(1.0), tol=1e-8, class_weight="balanced", C=C).fit(X, y, sample_weight=w)
            assert model.C == C
            np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-5)
            np.testing.assert_allclose(model.objective_, alone.objective_, rtol=1e-10)
            assert set(vars(model)) == set(vars(alone))
        with pytest.raises(NotFittedError):
            base.predict(X)
        assert not [name for name in vars(base) if name.endswith("_")]


def test_a_path_computes_its_kernel_once():
    X, labels, _, _ = sample(60)
    calls = []

    def counted(a, b):
        calls.append(1)
        return float(np.exp(-np.sum((a - b) ** 2)))

    SVC(kernel=counted).fit(X, labels)
    once = len(calls)
    calls.clear()
    SVC(kernel=counted).path(X, labels, [0.1, 1.0, 10.0, 100.0])
    assert len(calls) < 2 * once  # the Gram once; each machine prepares its support vectors


def test_choosing_along_paths_is_grid_search():
    X, y = datasets.load_wine(return_X_y=True)
    X = scaled(X)
    Cs, lengths = [0.01, 0.3, 10.0], [1.0, 4.0, 20.0]
    ours = SVCPath(Cs, kernel=RBF(), kernel_grid={"lengthscale": lengths}, cv=3, tol=1e-6).fit(X, y)
    grid = GridSearchCV(SVC(kernel=RBF(), tol=1e-6), {"kernel__lengthscale": lengths, "C": Cs}, cv=3).fit(X, y)
    means = {(p["kernel__lengthscale"], p["C"]): m for p, m in
             zip(grid.cv_results_["params"], grid.cv_results_["mean_test_score"], strict=True)}  # fmt: skip
    for i, length in enumerate(lengths):
        for j, C in enumerate(Cs):
            assert ours.scores_[i, j] == pytest.approx(means[length, C])
    assert means[ours.kernel_.lengthscale, ours.C_] == grid.best_score_
    assert ours.grid_[1] == {"lengthscale": 4.0}
    np.testing.assert_array_equal(ours.predict(X), SVC(kernel=ours.kernel_, C=ours.C_, tol=1e-6).fit(X, y).predict(X))
    f1 = SVCPath(Cs, kernel=RBF(4.0), cv=3, scoring="f1_macro").fit(X, y)
    assert f1.scores_.shape == (1, 3)


def test_bad_paths():
    X, labels, _, _ = sample(60)
    for bad in ([], [0.0, 1.0], [np.inf], [[1.0]]):
        with pytest.raises(ValueError, match="Cs="):
            SVC().path(X, labels, bad)
    with pytest.raises(ValueError, match="kernel_grid needs a kernel object"):
        SVCPath(kernel="rbf", kernel_grid={"lengthscale": [1.0]}).fit(X, labels)


# ------------------------------------------------------------------------------------------------ it ends
HARD = {
    "two rows": (SVC(kernel="poly", degree=2, gamma=1.0), [[1, 99999], [2, 99999]], [0, 1]),
    "iris": (SVC(kernel="poly", degree=7, gamma=4e3), *datasets.load_iris(return_X_y=True)),
    "sigmoid": (SVC(kernel="sigmoid", gamma=0.05, coef0=-1.0), *datasets.load_iris(return_X_y=True)),
    "difference": (SVC(kernel=RBF() - 2 * Linear()), *datasets.load_iris(return_X_y=True)),
    "difference, regression": (SVR(kernel=RBF() - 2 * Linear()), *datasets.load_diabetes(return_X_y=True)),
    "opposite labels": (SVC(C=1e6), np.repeat(np.arange(10.0), 2)[:, None], np.tile([0, 1], 10)),
    "equal rows": (SVC(C=1e6), np.ones((20, 3)), np.tile([0, 1], 10)),
    "equal rows, one class": (OneClassSVM(), np.ones((20, 3)), None),
    "equal rows, regression": (SVR(C=1e6), np.ones((20, 3)), np.arange(20.0)),
}


@pytest.mark.parametrize("case", HARD)
def test_it_ends_with_a_model(case):
    import warnings

    model, X, y = HARD[case]
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert time.perf_counter() - start < 20  # ten times the promise
    assert np.isfinite(getattr(model, "decision_function", model.predict)(np.asarray(X, float))).all()
    assert model.converged_ or any(issubclass(w.category, ConvergenceWarning) for w in caught)
    if case in ("sigmoid", "difference"):
        assert any(issubclass(w.category, NumericalWarning) for w in caught)


def test_caps_and_limits_warn_and_leave_a_model():
    X, labels, _, _ = sample(200)
    for settings in ({"max_iter": 5}, {"time_limit": 1e-9}, {"callback": lambda progress: progress.iterations > 3}):
        model = SVC(C=100.0, **settings)
        with pytest.warns(ConvergenceWarning, match=r"stopped early \(max_iter\) with slopes .* apart"):
            model.fit(X, labels)
        assert not model.converged_
        assert model.fit_status_ == 1
        assert np.isfinite(model.decision_function(X)).all()
        assert model.violation_[0] > 1e-3


def test_a_time_limit_leaves_time_for_the_certificate(monkeypatch):
    monkeypatch.setattr(smo, "_WHOLE", 20)
    X, labels, _, _ = sample(80)
    cache = rows.RowCache(RBF(1.0).gram(X), 80 * 8 * 10)
    solver = smo._BlockSMO(cache, c_svc(labels, np.ones(80)), 1e-3, None, 60.0, True, None)
    solver.beta[:5] = 0.5
    cache.fetch(np.array([0, 1]), 80)
    cache._entries, cache._seconds = 1000, 1.0
    assert solver._closing_seconds() == pytest.approx(0.001 * 80 * 3)  # two of the five rows are there
    assert not solver._told_to_stop(1.0)
    cache._seconds = 1000.0
    assert solver._told_to_stop(1.0)
    solver.deadline = np.inf
    assert not solver._told_to_stop(1.0)


def test_verbose_prints_progress_and_what_was_reached(capsys):
    X, labels, _, _ = sample(200)
    quiet, loud = SVC(C=10.0).fit(X, labels), SVC(C=10.0, verbose=True, callback=lambda progress: None).fit(X, labels)
    out = capsys.readouterr().out
    assert out.startswith(
        f"SVC: 1 machine(s), {len(quiet.support_)} support vectors, {quiet.n_iter_[0]} steps, slopes at most"
    )
    assert np.array_equal(quiet.dual_coef_, loud.dual_coef_)
    seen = []
    told = estimators._printing(seen.append, every=1.0)
    for seconds in (0.5, 1.0, 1.5, 2.5):
        assert not told(smo.Progress(7, 0.25, 90, seconds))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1.0", "2.5"]
    assert "slopes 0.25 apart" in lines[0]
    assert "90 variables in play" in lines[0]
    assert len(seen) == 4
    assert estimators._printing(lambda progress: True)(smo.Progress(0, 1.0, 9, 0.0))


def test_callback_sees_progress_and_an_error_in_it_leaves_nothing_half_fitted():
    X, labels, _, _ = sample(200)
    seen = []
    SVC(C=10.0, callback=seen.append).fit(X, labels)
    assert [p.iterations for p in seen] == sorted(p.iterations for p in seen)
    assert seen[0].active == 200
    assert seen[-1].seconds > 0

    def press(progress):
        raise KeyboardInterrupt

    model = SVC().fit(X, labels)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callback=press).fit(X, labels)
    with pytest.raises(NotFittedError):
        model.predict(X)


# ------------------------------------------------------------------------------------------------ other input, other output
def test_strings():
    words, y = ["acgt" * 3, "ttgg" * 3, "acga" * 3, "tgtg" * 3], ["a", "t", "a", "t"]
    model = SVC(kernel=Spectrum(2).normalise()).fit(words, y)
    assert list(model.predict(["acgtacga", "ttttgggg"])) == ["a", "t"]
    assert model.support_vectors_.dtype == object


def test_float32_is_kept():
    X, labels, targets, _ = sample(100)
    X = X.astype(np.float32)
    assert SVC().fit(X, labels).decision_function(X).dtype == np.float32
    assert SVR().fit(X, targets).predict(X).dtype == np.float32
    exact = SVC(C=2.0, tol=1e-5).fit(X.astype(float), labels)
    np.testing.assert_allclose(SVC(C=2.0, tol=1e-5).fit(X, labels).objective_, exact.objective_, rtol=1e-6)


def test_no_support_vectors_is_a_constant():
    model = SVR(epsilon=10.0).fit(np.arange(5.0)[:, None], np.arange(5.0))
    assert len(model.support_) == 0
    np.testing.assert_allclose(model.predict([[1.0], [7.0]]), model.intercept_[0])
    with pytest.raises(ValueError, match="features"):
        model.predict([[1.0, 2.0]])


def test_repaired_gram_is_used_at_predict():
    X, labels, _, _ = sample(60)
    kernel = Sigmoid(gamma=1.0, coef0=-1.0)
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        model = SVC(kernel=kernel, indefinite="clip", tol=1e-8).fit(X, labels)
    fixed = mercer.repair(kernel(X), "clip")
    given = SVC(kernel="precomputed", tol=1e-8).fit(fixed.matrix, labels)
    expected = given.decision_function(fixed.transform(kernel(X)))
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-5)
    with pytest.raises(mercer.errors.NotPSDError, match="not positive semi-definite"):
        SVC(kernel=kernel, indefinite="raise").fit(X, labels)


def test_probability_is_deprecated_and_calibration_is_the_way():
    X, y = datasets.load_iris(return_X_y=True)
    model = SVC(kernel="rbf").fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.warns(FutureWarning, match="deprecated as in scikit-learn"):
        old = SVC(probability=True, random_state=0).fit(X, y)
    p = old.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(old.predict_log_proba(X), np.log(p))
    np.testing.assert_array_equal(old.predict(X), model.predict(X))  # follows decision_function, not the probabilities
    new = calibrated(SVC(), random_state=0).fit(X, y)
    assert isinstance(new, CalibratedClassifierCV)
    np.testing.assert_allclose(new.predict_proba(X), p)


def test_expansion_is_the_machine():
    X, labels, _, _ = sample(80)
    model = SVC(kernel=RBF(1.0)).fit(X, labels)
    e = model.expansion_
    values = e.kernel(X, e.centres) @ e.coefficients + e.intercept
    np.testing.assert_allclose(values[:, 0], model.decision_function(X), rtol=1e-9, atol=1e-12)
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = model.coef_
    linear = SVC(kernel=Linear()).fit(X, labels)
    np.testing.assert_allclose(X @ linear.coef_[0] + linear.intercept_[0], linear.decision_function(X), atol=1e-9)


def test_separable_under_a_quadratic_kernel_only():
    X, y = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]), [0, 1, 1, 0]
    assert SVC(kernel=Polynomial(2, 1.0, 1.0), C=1e3).fit(X, y).score(X, y) == 1.0
    assert SVC(kernel=Linear(), C=1e3).fit(X, y).score(X, y) < 1.0


# ------------------------------------------------------------------------------------------------ bad input
def test_bad_input():
    X, labels, targets, _ = sample(40)
    with pytest.raises(ValueError, match=r"number of classes has to be greater than one; y has 1 class"):
        SVC().fit(X, np.ones(40))
    with pytest.raises(ValueError, match="greater than one"):
        SVC().fit(X, labels, sample_weight=(labels > 0).astype(float))
    with pytest.raises(ValueError, match=r"nu is infeasible: nu=0.9, but with these class sizes nu may be at most 0.1"):
        NuSVC(nu=0.9).fit(X, np.r_[np.ones(2), -np.ones(38)])
    for bad in (0.0, -1.0, "x"):
        with pytest.raises(ValueError, match="'C' parameter"):
            SVC(C=bad).fit(X, labels)
    with pytest.raises(ValueError, match="Unknown label type"):
        SVC().fit(X, targets)
    with pytest.raises(ValueError, match=r"class_weight|classes"):
        SVC(class_weight={7: 2.0}).fit(X, labels)
    K = RBF(1.0)(X)
    model = SVC(kernel="precomputed").fit(K, labels)
    with pytest.raises(ValueError, match="expecting 40 features"):
        model.predict(K[:, :39])
    with pytest.raises(ValueError, match="square matrix"):
        SVC(kernel="precomputed").fit(K[:, :39], labels)
    with pytest.raises(mercer.errors.NotSymmetricError):
        SVC(kernel="precomputed").fit(K + np.triu(K, 1), labels)
    with pytest.warns(NumericalWarning, match="not positive semi-definite"):
        SVC(kernel="precomputed").fit(K - 0.7 * np.eye(40) * K.max(), labels)


@pytest.mark.parametrize("labels", [["a", "b"], [True, False], [3, 7], [0.0, 1.0], [1, "a"]], ids=str)
def test_kinds_of_labels(labels):
    X, signs, _, _ = sample(40)
    y = np.array([labels[0] if s < 0 else labels[1] for s in signs], dtype=object if labels == [1, "a"] else None)
    if labels == [1, "a"]:
        with pytest.raises(TypeError, match=r"not supported between|str"):
            SVC().fit(X, y)
        return
    model = SVC(C=100.0, kernel=RBF(0.5)).fit(X, y)
    assert model.predict(X).dtype == np.asarray(y).dtype
    assert (model.predict(X) == y).mean() > 0.9


@pytest.mark.parametrize("kernel", ["precomputed", 2 * Linear() - Linear()])
def test_many_rows_of_a_kernel_without_a_certificate(kernel):
    X = np.random.default_rng(0).standard_normal((1010, 2))  # more than are tested for positive eigenvalues
    labels = X[:, 0] > 0.5
    rows = X @ X.T if kernel == "precomputed" else X
    np.testing.assert_allclose(
        SVC(kernel=kernel).fit(rows, labels).decision_function(rows),
        SVC(kernel=Linear()).fit(X, labels).decision_function(X), atol=1e-2,
    )  # fmt: skip

"""Kernel machines and RBF networks: against explicit least squares, scikit-learn on the design, scipy, and brute force."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.interpolate import RBFInterpolator
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from estimator_cases import EstimatorCase
from mercer import KernelMachineClassifier, KernelMachineRegressor, NadarayaWatson, RBFNetwork
from mercer.errors import MemoryBudgetError, NotSymmetricError, NumericalWarning
from mercer.kernels import RBF, Linear, Matern, Multiquadric, Sigmoid, Spectrum, ThinPlate
from mercer.solvers import centers as solver
from mercer.solvers.centers import (
    independent_columns,
    kmeans_centers,
    select_forward,
    solve_least_squares,
    triangle_of,
)
from test_estimators import CHECKS


def data(n=60, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, -1] + 0.1 * rng.standard_normal(n)


def normal_equations(Phi, T, alpha, w=None, intercept=True):
    """Coefficients of the penalised sum of squares, the intercept first, from its normal equations."""
    A = np.column_stack([np.ones(len(Phi)), Phi]) if intercept else Phi
    w = np.ones(len(Phi)) if w is None else w
    penalty = np.full(A.shape[1], alpha)
    penalty[: int(intercept)] = 0.0
    return np.linalg.solve((A.T * w) @ A + np.diag(penalty), (A.T * w) @ T)


XOR = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
XOR_LABELS = np.array([0, 1, 1, 0])


# ------------------------------------------------------------------------------------------------ least squares
@pytest.mark.parametrize("kernel", [RBF(0.8), Sigmoid(gamma=0.5, coef0=-1.0), Matern(1.5)], ids=str)
@pytest.mark.parametrize("how", ["kmeans", "random", "ols"])
@pytest.mark.parametrize("intercept", [True, False])
def test_regression_is_least_squares_on_the_design(kernel, how, intercept):
    X, t = data()
    T, w = np.column_stack([t, t**2]), np.linspace(0.5, 2.0, len(t))
    model = KernelMachineRegressor(8, centers=how, kernel=kernel, alpha=0.03, fit_intercept=intercept, random_state=0)
    model.fit(X, T, sample_weight=w)
    Phi = kernel(X, model.centers_)
    np.testing.assert_array_equal(model.basis(X), Phi)
    expected = normal_equations(Phi, T, 0.03, w, intercept)
    np.testing.assert_allclose(model.dual_coef_, expected[int(intercept) :], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, expected[0] if intercept else [0, 0], rtol=1e-8, atol=1e-12)
    left = (w[:, None] * (T - model.predict(X)) ** 2).sum(axis=0)
    np.testing.assert_allclose(model.training_error_, left, rtol=1e-9)
    assert model.residual_ < 1e-14
    single = clone(model).fit(X, t, sample_weight=w)
    if how != "ols":  # which chooses for all targets together
        np.testing.assert_allclose(single.predict(X), model.predict(X)[:, 0], rtol=1e-10)


def test_all_rows_as_centres():
    X, t = data(40)
    model = KernelMachineRegressor(None, kernel=RBF(1.0), alpha=0.1, fit_intercept=False).fit(X, t)
    K = RBF(1.0)(X)
    np.testing.assert_array_equal(model.center_indices_, np.arange(40))
    np.testing.assert_allclose(model.dual_coef_, np.linalg.solve(K @ K + 0.1 * np.eye(40), K @ t), rtol=1e-7, atol=1e-9)
    assert model.centers_used_ == "all"
    few = KernelMachineRegressor(100, kernel=RBF(1.0), alpha=0.1, fit_intercept=False).fit(X, t)  # there are only 40
    np.testing.assert_array_equal(few.predict(X), model.predict(X))


def test_groups_of_rows_add_up(monkeypatch):
    """The triangle of many groups is that of all rows at once, also where there are few rows or none beyond the columns."""
    rng = np.random.default_rng(0)
    for n, width in ((3, 5), (50, 4), (1000, 7)):
        A = rng.standard_normal((n, width))
        for rows, wide in ((2048, 1024), (16, 1024), (16, 2)):
            monkeypatch.setattr(solver, "_ROWS", rows)
            monkeypatch.setattr(solver, "_WIDE", wide)
            R = triangle_of(n, width, lambda some, A=A: A[some])
            assert R.shape == (min(n, width), width)
            np.testing.assert_allclose(R.T @ R, A.T @ A, rtol=1e-12, atol=1e-12)


def test_least_squares_does_not_square_the_condition():
    """Columns that normal equations cannot tell apart."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 5)))[0] for n in (80, 5))
    A, truth = U * np.logspace(0, -10, 5) @ V.T, rng.standard_normal((5, 1))
    R = triangle_of(80, 6, lambda some: np.hstack([A, A @ truth])[some])
    found = solve_least_squares(R, 0, 5, 0.0)
    np.testing.assert_allclose(found.coefficients, truth, rtol=1e-4)
    assert found.rank == 5
    assert np.linalg.matrix_rank(A.T @ A) < 5


def test_duplicate_functions_take_the_shortest_answer():
    X, t = data()
    with pytest.warns(NumericalWarning, match="6 basis functions are only 2 up to rounding"):
        model = KernelMachineRegressor(centers=X[:6], alpha=0.0, kernel="linear").fit(X, t)
    Phi = X @ X[:6].T
    expected = np.linalg.pinv(Phi - Phi.mean(axis=0), rcond=1e-10) @ (t - t.mean())
    np.testing.assert_allclose(model.dual_coef_, expected, rtol=1e-8)
    once = KernelMachineRegressor(centers=X[:3], alpha=0.0, kernel=RBF(1.0)).fit(X, t)
    with pytest.warns(NumericalWarning, match="centers holds 3 rows twice"):
        again = KernelMachineRegressor(centers=np.vstack([X[:3], X[:3]]), alpha=0.0, kernel=RBF(1.0)).fit(X, t)
    np.testing.assert_array_equal(again.predict(X), once.predict(X))


def test_independent_columns():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 3))
    A = np.column_stack([A, A[:, 0] - 2 * A[:, 1], np.zeros(30)])
    V = independent_columns(triangle_of(30, 5, lambda some: A[some]))
    assert V.shape == (5, 3)
    np.testing.assert_allclose((A @ V).T @ (A @ V), np.eye(3), atol=1e-12)


# ------------------------------------------------------------------------------------------------ orthogonal least squares
def brute_force(Phi, T, count, intercept=True):
    """Greedy choice by fitting every model anew; shares of the squared targets (about their mean)."""
    base = np.ones((len(Phi), 1)) if intercept else np.empty((len(Phi), 0))

    def left(columns):
        A = np.hstack([base, Phi[:, columns]])
        return np.square(T - A @ np.linalg.lstsq(A, T, rcond=None)[0]).sum() if A.size else np.square(T).sum()

    chosen, errors = [], [left([])]
    for _ in range(count):
        trial = {j: left([*chosen, j]) for j in range(Phi.shape[1]) if j not in chosen}
        chosen.append(min(trial, key=trial.get))
        errors.append(trial[chosen[-1]])
    return chosen, -np.diff(errors) / errors[0]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("targets", [1, 2])
def test_forward_selection_is_the_greedy_one(intercept, targets):
    X, t = data(30)
    T = np.column_stack([t, np.cos(3 * t)])[:, :targets]
    chosen, shares = brute_force(RBF(0.7)(X), T, 8, intercept)
    model = KernelMachineRegressor(8, centers="ols", kernel=RBF(0.7), alpha=0.0, fit_intercept=intercept).fit(X, T)
    np.testing.assert_array_equal(model.center_indices_, chosen)
    np.testing.assert_allclose(model.error_reduction_, shares, rtol=1e-7)


def test_selection_never_raises_the_training_error():
    X, t = data()
    trace = KernelMachineRegressor(25, centers="ols", kernel=RBF(0.5)).fit(X, t).error_reduction_
    assert (trace >= 0).all()
    assert 0.5 < trace.sum() <= 1 + 1e-12
    errors = [KernelMachineRegressor(k, centers="ols", kernel=RBF(0.5), alpha=0.0).fit(X, t).training_error_
              for k in range(1, 26)]  # fmt: skip
    assert (np.diff(errors) <= 1e-10).all()
    total = np.square(t - t.mean()).sum()
    np.testing.assert_allclose(errors, total * (1 - np.cumsum(trace)), rtol=1e-6, atol=1e-8)


def test_selection_stops():
    X, t = data()
    model = KernelMachineRegressor(None, centers="ols", kernel=RBF(0.5), tol=0.05).fit(X, t)
    left = 1 - np.cumsum(model.error_reduction_)
    assert left[-1] <= 0.05 < left[-2]
    linear = KernelMachineRegressor(None, centers="ols", kernel=Linear()).fit(X, t)  # two functions say all
    assert len(linear.centers_) == 2
    flat = KernelMachineRegressor(5, centers="ols", kernel=RBF(0.5)).fit(X, np.ones(len(t)))
    np.testing.assert_allclose(flat.predict(X), 1.0)
    P = np.eye(3, 5)
    assert len(select_forward(np.zeros((2, 5)), np.ones((5, 1)), np.empty((5, 0)), 2).index) == 0
    found = select_forward(P, np.array([[1.0], [3.0], [2.0], [0.0], [0.0]]), np.empty((5, 0)), 3)
    np.testing.assert_array_equal(found.index, [1, 2, 0])
    np.testing.assert_allclose(found.share, np.array([9, 4, 1]) / 14)


def test_candidates_are_a_seeded_sample(monkeypatch):
    X, t = data(200)
    monkeypatch.setattr("mercer.estimators.kernel_machine._CANDIDATES", 20)
    a, b, c = (KernelMachineRegressor(6, centers="ols", random_state=s).fit(X, t).center_indices_ for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert set(a) != set(c)
    with pytest.raises(MemoryBudgetError, match=r"choosing 100 centers among 200 rows"):
        KernelMachineRegressor(100, centers="ols", memory=10_000).fit(X, t)


# ------------------------------------------------------------------------------------------------ centres
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_kmeans_centres_are_means_of_their_rows(form):
    rng = np.random.default_rng(0)
    X = np.where((rows := rng.standard_normal((200, 3)) + 5 * rng.integers(0, 2, (200, 1))) > 0.3, rows, 0.0)
    w = rng.uniform(0.5, 2.0, 200)
    for offset in (0.0, 1e6) if form is np.asarray else (0.0,):
        Z = kmeans_centers(form(X + offset), w, 5, np.random.default_rng(0))
        Z = (Z.toarray() if sp.issparse(Z) else Z) - offset
        label = np.square(X[:, None] - Z).sum(axis=2).argmin(axis=1)
        means = np.array([np.average(X[label == j], axis=0, weights=w[label == j]) for j in range(5)])
        np.testing.assert_allclose(Z, means, atol=1e-3 + 1e-9 * offset)  # ties and rounds that are left


def test_centres_of_the_user_and_their_numbers():
    X, t = data()
    random = KernelMachineRegressor(7, centers="random", random_state=0).fit(X, t)
    np.testing.assert_array_equal(random.centers_, X[random.center_indices_])
    given = KernelMachineRegressor(centers=X[random.center_indices_], gamma=0.5).fit(X, t)
    assert given.centers_used_ == "given"
    assert given.center_indices_ is None
    np.testing.assert_allclose(given.predict(X), random.set_params(gamma=0.5).fit(X, t).predict(X), rtol=1e-10)
    with pytest.raises(ValueError, match=r"centers has 3 columns, but X has 2"):
        KernelMachineRegressor(centers=np.zeros((4, 3))).fit(X, t)
    with pytest.raises(ValueError, match=r'no rows for centers .* use centers="random" or "ols"'):
        KernelMachineRegressor(centers=X[:3], kernel="precomputed").fit(X @ X.T, t)


def test_centres_among_strings():
    words = ["acgacg", "ttgttg", "acgaca", "tgttgt", "acgtac", "gttgtt", "cgacga", "ttttgt"]
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1])
    for centers in ("auto", "random", "ols", ["acg", "ttg"]):
        model = KernelMachineClassifier(3, centers=centers, kernel=Spectrum(2), random_state=0).fit(words, y)
        np.testing.assert_array_equal(model.predict(["acgacgacg", "ttgttt"]), [0, 1])
        assert model.centers_used_ == {"auto": "random"}.get(str(centers), "given" if len(centers) == 2 else centers)
    for rows, kernel in ((words, Spectrum(2)), (np.eye(8), "precomputed")):
        with pytest.raises(ValueError, match=r'centers="kmeans" takes means of rows.*KMedoids'):
            KernelMachineClassifier(3, centers="kmeans", kernel=kernel).fit(rows, y)


def test_what_cannot_be():
    X, t = data()
    with pytest.raises(ValueError, match=r'centers="ols" adds one .* normalised=True changes them'):
        KernelMachineRegressor(centers="ols", normalised=True).fit(X, t)
    with pytest.raises(ValueError, match=r"normalised=True shares out 1 .* negative values"):
        KernelMachineRegressor(kernel="linear", normalised=True).fit(X, t)
    with pytest.raises(NotSymmetricError, match="differ by up to"):
        KernelMachineRegressor(kernel=lambda a, b: float(a[0])).fit(X, t)
    with pytest.raises(MemoryBudgetError, match=r"KernelMachineRegressor with 60 centers needs"):
        KernelMachineRegressor(None, memory=50_000).fit(X, t)


def test_expansion_is_the_model():
    X, t = data()
    for model in (KernelMachineRegressor(8, random_state=0).fit(X, t), RBFNetwork(kernel=Multiquadric()).fit(X, t)):
        e = model.expansion_
        np.testing.assert_allclose(
            e.kernel(X, e.centres) @ e.coefficients[:, 0] + e.intercept, model.predict(X), atol=1e-9
        )
    report = KernelMachineRegressor(8, random_state=0).fit(X, t).size_report()
    assert (report.n_vectors, report.n_parameters, report.kernel_evaluations) == (8, 9, 8)
    assert not hasattr(RBFNetwork(kernel=ThinPlate()).fit(X, t), "expansion_")
    assert not hasattr(KernelMachineRegressor(normalised=True).fit(X, t), "expansion_")


# ------------------------------------------------------------------------------------------------ classification
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_classifier_is_logistic_regression_on_the_design(classes, intercept):
    X, t = data(150)
    y = np.digitize(t, np.quantile(t, np.linspace(0, 1, classes + 1)[1:-1]))
    w = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    for settings in (
        {"kernel": RBF(0.7)},
        {"kernel": "sigmoid", "gamma": 0.5},
        {"kernel": RBF(0.7), "normalised": True},
    ):
        model = KernelMachineClassifier(7, alpha=0.2, fit_intercept=intercept, tol=1e-11, random_state=0, **settings)
        model.fit(X, y, sample_weight=w)
        peer = LogisticRegression(C=5.0, fit_intercept=intercept, tol=1e-12, max_iter=100_000, solver="newton-cg")
        peer.fit(model.basis(X), y, sample_weight=w)
        np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(model.basis(X)), atol=1e-6)
        assert model.converged_


def test_gradient_of_the_objective():
    """From scratch, in three classes, and the value of the sum."""
    X, t = data(80)
    y = np.digitize(t, [-0.7, 0.7])
    model = KernelMachineClassifier(6, centers="random", alpha=0.3, tol=1e-12, random_state=0).fit(X, y)
    Phi, P = model.basis(X), model.predict_proba(X)
    slope = Phi.T @ (P - np.eye(3)[y]) + 0.3 * model.dual_coef_
    np.testing.assert_allclose(slope, 0, atol=1e-9)
    np.testing.assert_allclose((P - np.eye(3)[y]).sum(axis=0), 0, atol=1e-9)
    value = -np.log(P[np.arange(80), y]).sum() + 0.15 * np.square(model.dual_coef_).sum()
    assert model.objective_ == pytest.approx(value, rel=1e-10)


def test_passes_that_hold_nothing_give_the_same():
    X, t = data(300)
    y = (t > 0).astype(int)
    for settings in ({}, {"normalised": True}):
        held = KernelMachineClassifier(8, random_state=0, **settings).fit(X, y)
        tight = KernelMachineClassifier(8, random_state=0, **settings)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mercer.estimators.design.Design.held", lambda self, room: self)
            tight.fit(X, y)
        np.testing.assert_allclose(tight.decision_function(X), held.decision_function(X), rtol=1e-5, atol=1e-6)


def test_xor():
    model = KernelMachineClassifier(4, kernel=RBF(0.5)).fit(XOR, XOR_LABELS)
    np.testing.assert_array_equal(model.predict(XOR), XOR_LABELS)
    assert model.predict_proba(XOR)[np.arange(4), XOR_LABELS].min() > 0.95
    linear = KernelMachineClassifier(4, kernel="linear").fit(XOR, XOR_LABELS)
    assert linear.score(XOR, XOR_LABELS) <= 0.75
    np.testing.assert_allclose(linear.predict_proba(XOR), 0.5, atol=1e-6)


@pytest.mark.parametrize("y", [XOR_LABELS, np.arange(4) % 3])
def test_separable_classes_without_a_penalty(y):
    with pytest.warns(NumericalWarning, match="the basis functions separate the classes"):
        model = KernelMachineClassifier(4, alpha=0.0, kernel=RBF(0.5)).fit(XOR, y)
    assert np.isfinite(model.dual_coef_).all()
    assert np.abs(model.dual_coef_).max() < 1e6
    np.testing.assert_array_equal(model.predict(XOR), y)
    mixed = np.vstack([XOR, XOR[:3], XOR[:2] + 0.1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelMachineClassifier(2, centers="random", alpha=0.0, random_state=0, kernel=RBF(0.5))
        model.fit(mixed, np.array([0, 1, 1, 0, 1, 0, 0, 1, 0]))  # equal rows of both classes
    assert np.isfinite(model.dual_coef_).all()


def test_classifier_by_orthogonal_least_squares():
    X, t = data(40)
    y = np.digitize(t, [-0.7, 0.7])
    chosen, shares = brute_force(RBF(0.7)(X), np.eye(3)[y], 5)
    model = KernelMachineClassifier(5, centers="ols", kernel=RBF(0.7)).fit(X, y)
    np.testing.assert_array_equal(model.center_indices_, chosen)
    np.testing.assert_allclose(model.error_reduction_, shares, rtol=1e-7)


# ------------------------------------------------------------------------------------------------ RBF networks
PEERS = [
    (RBF(0.4), {"kernel": "gaussian", "epsilon": 1 / (0.4 * np.sqrt(2)), "degree": -1}, None),
    (Multiquadric(0.7), {"kernel": "multiquadric", "epsilon": 1 / 0.7, "degree": 0}, "constant"),
    (ThinPlate(), {"kernel": "thin_plate_spline", "degree": 1}, "linear"),
]


@pytest.mark.parametrize(("kernel", "peer", "tail"), PEERS, ids=lambda v: str(v) if isinstance(v, str) else "")
def test_interpolation(kernel, peer, tail):
    X, t = data()
    T, Q = np.column_stack([t, np.exp(t)]), data(seed=1)[0]
    model = RBFNetwork(kernel=kernel).fit(X, T, sample_weight=np.linspace(1, 5, len(t)))
    assert (model.tail_, model.solver_used_) == (tail, "interpolation")
    np.testing.assert_allclose(model.predict(X), T, atol=1e-8 * np.abs(T).max())
    assert model.residual_ < 1e-8
    np.testing.assert_allclose(model.predict(Q), RBFInterpolator(X, T, **peer)(Q), rtol=1e-7, atol=1e-8)
    P = {None: np.empty((60, 0)), "constant": np.ones((60, 1)), "linear": np.column_stack([np.ones(60), X])}[tail]
    np.testing.assert_allclose(P.T @ model.dual_coef_, 0, atol=1e-9 * np.abs(model.dual_coef_).max())
    explicit = RBFNetwork(kernel=kernel, tail=tail).fit(X, T)
    np.testing.assert_array_equal(explicit.predict(Q), RBFNetwork(kernel=kernel).fit(X, T).predict(Q))


def test_a_linear_tail_reproduces_planes():
    X, _ = data(30)
    plane = 3.0 + X @ [2.0, -1.0]
    model = RBFNetwork(kernel=ThinPlate()).fit(X + 1e4, plane)
    np.testing.assert_allclose(model.dual_coef_, 0, atol=1e-7)
    np.testing.assert_allclose(model.slopes_[:, 0], [2.0, -1.0], rtol=1e-7)
    assert model.predict([[1e4 + 10.0, 1e4 - 10.0]])[0] == pytest.approx(33.0, rel=1e-6)
    flat = np.column_stack([X[:, 0], np.full(30, 2.0)])  # a plane over a line: slopes that the rows do not tell are 0
    model = RBFNetwork(10, kernel=ThinPlate(), alpha=1.0, random_state=0).fit(flat, 1 + X[:, 0])
    np.testing.assert_allclose(model.slopes_[:, 0], [1.0, 0.0], atol=1e-8)
    sparse = RBFNetwork(kernel=ThinPlate()).fit(sp.csr_array(X), plane)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(X[:5])), plane[:5], rtol=1e-8)
    with pytest.raises(ValueError, match='tail="linear" is a polynomial of rows of numbers'):
        RBFNetwork(kernel=Spectrum(2), tail="linear").fit(["ab", "ba", "aa"], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r'tail="linear" .* kernel="precomputed" has none'):
        RBFNetwork(kernel="precomputed", tail="linear").fit(np.eye(3), [1.0, 2.0, 3.0])


@pytest.mark.parametrize("tail", [None, "constant", "linear"])
def test_regularised_network(tail):
    """Least squares under the side conditions, from the equations of a constrained minimum."""
    X, t = data()
    w = np.linspace(0.5, 2.0, len(t))
    model = RBFNetwork(9, kernel=RBF(0.8), alpha=0.2, tail=tail, random_state=0).fit(X, t, sample_weight=w)
    P, Pz = ({None: np.empty((len(A), 0)), "constant": np.ones((len(A), 1)), "linear": np.column_stack([np.ones(len(A)), A])}
             [tail] for A in (X, model.centers_))  # fmt: skip
    A, q = np.hstack([RBF(0.8)(X, model.centers_), P]), P.shape[1]
    H = (A.T * w) @ A + np.diag([0.2] * 9 + [0.0] * q)
    side = np.hstack([Pz.T, np.zeros((q, q))])
    solution = np.linalg.solve(np.block([[H, side.T], [side, np.zeros((q, q))]]), np.append((A.T * w) @ t, np.zeros(q)))
    np.testing.assert_allclose(model.dual_coef_, solution[:9], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.predict(X), A @ solution[: 9 + q], rtol=1e-8, atol=1e-9)


def test_contradicted_targets_are_averaged_and_told():
    X, t = data()
    twice, T = np.vstack([X, X[[7, 7, 3]]]), np.append(t, [t[7], t[7] + 1, t[3] + 2])
    w = np.ones(63)
    w[[3, 62]] = 3.0, 1.0
    with pytest.warns(NumericalWarning, match=r"rows (7 and 61|3 and 62) of X are equal .* rows like these: 2") as told:
        model = RBFNetwork(kernel=RBF(0.4)).fit(twice, np.stack([T, 2 * T], axis=1), sample_weight=w)
    assert len(told) == 1
    t = t.copy()
    t[[7, 3]] += 1 / 3, 0.5
    for column, scale in enumerate((1, 2)):
        np.testing.assert_allclose(model.predict(X)[:, column], scale * t, atol=1e-8)
    assert len(model.centers_) == 60
    np.testing.assert_array_equal(np.sort(model.center_indices_), np.arange(60))
    RBFNetwork(alpha=1e-3).fit(twice, T)  # a smooth fit has nothing to tell


def test_contradicted_targets_of_other_rows():
    X, t = data()
    agreed = RBFNetwork(kernel=RBF(0.4)).fit(
        np.vstack([X, X[[7, 7, 3]]]), np.append(t, t[[7, 7, 3]])
    )  # nothing to tell
    assert len(agreed.centers_) == 60
    with pytest.warns(NumericalWarning, match="rows 0 and 2 of X are equal"):
        model = RBFNetwork(kernel=Spectrum(2)).fit(["ab", "ba", "ab"], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(model.predict(["ab", "ba"]), [2.0, 2.0])
    K = RBF(0.4)(np.insert(X, 10, X[7], axis=0))
    with pytest.warns(NumericalWarning, match="rows 7 and 10 of X are equal"):
        given = RBFNetwork(kernel="precomputed").fit(K, np.insert(t, 10, t[7] + 1))
    t[7] += 0.5
    np.testing.assert_allclose(given.predict(K), np.insert(t, 10, t[7]), atol=1e-8)


def test_an_ill_conditioned_gram_is_told():
    X, t = data()
    with pytest.warns(NumericalWarning, match=r"misses the points by up to .* singular up to rounding") as told:
        model = RBFNetwork(kernel=RBF(30.0)).fit(X, t)
    assert len(told) == 1
    assert model.residual_ == pytest.approx(np.abs(model.predict(X) - t).max() / np.abs(t).max(), rel=1e-3)
    assert np.isfinite(model.dual_coef_).all()


def test_normalised_basis_sums_to_one_everywhere():
    X, t = data()
    far = np.array([[1e3, 0.0], [0.0, -1e6], [30.0, 30.0]])
    for model in (RBFNetwork(kernel=RBF([0.3, 0.9]), alpha=0.01, normalised=True).fit(X, t),
                  KernelMachineRegressor(6, normalised=True, random_state=0).fit(X, t)):  # fmt: skip
        for rows in (X, far):
            np.testing.assert_allclose(model.basis(rows).sum(axis=1), 1.0, rtol=1e-12)
        assert np.isfinite(model.predict(far)).all()
    basis = RBFNetwork(kernel=RBF([0.3, 0.9]), alpha=0.01, normalised=True).fit(X, t).basis(far)
    unit = X / [0.3, 0.9]  # a Gaussian in the limit has the nearest centre alone, in its own metric
    nearest = np.square((far / [0.3, 0.9])[:, None] - unit).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(basis.argmax(axis=1), nearest)
    np.testing.assert_allclose(basis.max(axis=1), 1.0, rtol=1e-9)
    blank = RBFNetwork(kernel="precomputed", alpha=0.1, normalised=True).fit(RBF(1.0)(X), t)
    np.testing.assert_allclose(blank.basis(np.zeros((1, 60))), 1 / 60)


def test_the_optimum_for_noisy_inputs_is_nadaraya_watson():
    """The normalised basis, with the targets for weights."""
    X, t = data()
    basis = RBFNetwork(kernel=RBF(0.5), alpha=1.0, normalised=True).fit(X, t).basis(data(seed=1)[0])
    np.testing.assert_allclose(basis @ t, NadarayaWatson(RBF(0.5)).fit(X, t).predict(data(seed=1)[0]), rtol=1e-9)


def test_widths_of_a_basis_in_one_dimension():
    """M5: ten centres at widths 0.1, 0.5 and 50: too rough between the rows, smooth, and a line, if there is enough ridge."""
    x = np.linspace(0, 10, 21)[:, None]
    t = np.sin(x[:, 0]) + 0.1 * x[:, 0]
    Z, q = np.linspace(0, 10, 10)[:, None], np.linspace(0, 10, 401)[:, None]

    def curve(width, alpha):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # ten wide bumps are few functions up to rounding
            return KernelMachineRegressor(centers=Z, kernel=RBF(width), alpha=alpha).fit(x, t).predict(q)

    def roughness(f):
        return np.square(np.diff(f, 2)).sum() / np.square(f - f.mean()).sum()

    def beside_a_line(f):
        line = np.polyval(np.polyfit(q[:, 0], f, 1), q[:, 0])
        return np.abs(f - line).max() / np.ptp(t)

    truth = np.sin(q[:, 0]) + 0.1 * q[:, 0]
    errors = {width: np.sqrt(np.mean((curve(width, 1e-3) - truth) ** 2)) for width in (0.1, 0.5, 50.0)}
    assert errors[0.5] < 0.5 * min(errors[0.1], errors[50.0])
    assert roughness(curve(0.1, 1e-3)) > 20 * roughness(curve(0.5, 1e-3))
    assert beside_a_line(curve(50.0, 1.0)) < 0.02
    assert beside_a_line(curve(50.0, 1e-12)) > 0.1


# ------------------------------------------------------------------------------------------------ exact interpolants
@pytest.mark.filterwarnings(
    "ignore:rows .* of X are equal:mercer.errors.NumericalWarning"
)  # as some of the checks' rows are
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_contract_of_an_interpolant(check):
    check(EstimatorCase(RBFNetwork(kernel="laplacian")))


@pytest.mark.filterwarnings(
    "ignore:rows .* of X are equal:mercer.errors.NumericalWarning"
)  # as some of the checks' rows are
@pytest.mark.filterwarnings(
    "ignore:the interpolant misses:mercer.errors.NumericalWarning"
)  # rows that are nearly equal
@pytest.mark.parametrize("kernel", ["laplacian", "rbf"])
def test_sklearn_checks_of_an_interpolant(kernel):
    check_estimator(RBFNetwork(kernel=kernel), on_skip=None)

"""L1VM and L2VM: closed forms, subgradients, scikit-learn on the explicit design, duality gaps, paths, weights, memory."""

import pickle
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression

from estimator_cases import ESTIMATOR_CASES
from mercer import KernelRidge, L1VMClassifier, L1VMRegressor, L2VMClassifier, L2VMRegressor, compress
from mercer.errors import ConvergenceWarning, MemoryBudgetError, NotPSDError, NumericalWarning
from mercer.gram import GivenGram, gram
from mercer.kernels import RBF, Sigmoid, Spectrum
from mercer.solvers import sparse_glm
from mercer.solvers.glm_losses import LogisticLoss, SquaredLoss
from mercer.solvers.smooth_glm import Factored, Spectral, solve_l2
from mercer.solvers.sparse_glm import Columns, l1_path, largest_alpha, minimise_quadratic, solve_l1

MACHINES = (L1VMClassifier, L1VMRegressor, L2VMClassifier, L2VMRegressor)
OWN_CASES = [c for c in ESTIMATOR_CASES if isinstance(c.estimator, MACHINES)]


def rows(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


def losses(y, weight=None):
    """Of numbers, two classes and four."""
    w = np.ones(len(y)) if weight is None else weight
    few, many = (y > 0).astype(int), np.digitize(y, [-1, 0, 1])
    return [SquaredLoss(y, w), LogisticLoss(w[:, None] * np.eye(2)[few]), LogisticLoss(w[:, None] * np.eye(4)[many])]


def whole(K):
    return Columns(GivenGram(K), 10**9)


def each_loss(test):
    return pytest.mark.parametrize("kind", [0, 1, 2], ids=["squared", "two classes", "four classes"])(test)


# ------------------------------------------------------------------------------------------------ losses
@each_loss
def test_slopes_and_curvatures_by_differences(kind):
    _, y = rows(6)
    loss = losses(y, np.linspace(0.5, 2.0, 6))[kind]
    rng = np.random.default_rng(1)
    F, E = rng.standard_normal((2, 6, loss.outputs))
    h = 1e-5
    assert (loss.value(F + h * E) - loss.value(F - h * E)) / (2 * h) == pytest.approx(
        -(loss.slopes(F) * E).sum(), rel=1e-7
    )
    bent = np.einsum("cdi,id->ic", loss.curvature(F), E)
    np.testing.assert_allclose((loss.slopes(F - h * E) - loss.slopes(F + h * E)) / (2 * h), bent, atol=1e-8)


@each_loss
def test_dual_values_are_conjugates(kind):
    """Fenchel's equality at the slopes, and his inequality elsewhere."""
    _, y = rows(7)
    loss = losses(y, np.linspace(0.5, 2.0, 7))[kind]
    F = np.random.default_rng(1).standard_normal((7, loss.outputs))
    R = loss.slopes(F)
    assert loss.value(F) - loss.dual(R) == pytest.approx(-(R * F).sum(), rel=1e-12)
    other = loss.slopes(F + 0.3)
    assert loss.value(F) - loss.dual(other) >= -(other * F).sum() - 1e-12


@each_loss
def test_best_intercepts(kind):
    _, y = rows(30)
    loss = losses(y)[kind]
    F = np.random.default_rng(1).standard_normal((30, loss.outputs))
    b = loss.intercept(F, np.zeros(loss.outputs))
    assert np.abs(loss.slopes(F + b).sum(axis=0)).max() < 1e-12


@pytest.mark.parametrize("classes", [2, 3])
def test_intercepts_of_classes_that_weigh_a_thousand_and_next_to_nothing(classes):
    """Long doubles, with every difference of probabilities taken as a sum of others, tell how far from balance they are."""
    codes, rng = np.arange(40) % classes, np.random.default_rng(0)
    mass = np.eye(classes)[codes] * np.where(codes == 0, 1e3, 1e-4)[:, None]
    for scale in (0.0, 1.0, 30.0):
        F = scale * rng.standard_normal((40, 1 if classes == 2 else classes))
        loss = LogisticLoss(mass)
        b = loss.intercept(F, np.zeros(F.shape[1]))
        E = np.exp(np.hstack([np.zeros_like(F), F + b]) if classes == 2 else F + b, dtype=np.longdouble)
        P = E / E.sum(axis=1, keepdims=True)
        up = (mass * np.stack([np.delete(P, c, axis=1).sum(axis=1) for c in range(classes)], axis=1)).sum(axis=0)
        down = ((mass.sum(axis=1, keepdims=True) - mass) * P).sum(axis=0)
        assert (np.abs(up - down) <= 1e-12 * (up + down)).all()


def test_intercepts_of_classes_far_apart():
    loss = LogisticLoss(np.eye(2)[[0] * 9 + [1]])
    for F in (np.linspace(-300.0, 300.0, 10)[:, None], np.where(np.arange(10) < 9, 300.0, -300.0)[:, None]):
        b = loss.intercept(F, np.array([2000.0]))
        assert abs(loss.slopes(F + b).sum()) < 1e-10
        b = loss.intercept(F, np.array([0.0]))
        assert abs(loss.slopes(F + b).sum()) < 1e-10


# ------------------------------------------------------------------------------------------------ L1
def test_quadratic_against_brute_force():
    """All patterns of signs, on a singular matrix too."""
    rng = np.random.default_rng(0)
    for rank in (4, 2):
        A = rng.standard_normal((rank, 4))
        H, g, alpha = A.T @ A + 1e-9 * np.eye(4), rng.standard_normal(4), 0.3
        w = minimise_quadratic(H, g, np.zeros(4), alpha, 1e-12)

        def value(v, H=H, g=g, alpha=alpha):
            return 0.5 * v @ H @ v - g @ v + alpha * np.abs(v).sum()

        best = 0.0
        for signs in np.array(np.meshgrid(*[[-1, 0, 1]] * 4)).reshape(4, -1).T:
            used = np.flatnonzero(signs)
            v = np.zeros(4)
            v[used] = np.linalg.solve(H[np.ix_(used, used)], g[used] - alpha * signs[used])
            if (np.sign(v[used]) == signs[used]).all():
                best = min(best, value(v))
        assert value(w) == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
@each_loss
def test_subgradients_are_zero(kind, intercept):
    X, y = rows()
    K = RBF(0.7)(X)
    loss = losses(y)[kind]
    alpha = 0.02 * largest_alpha(whole(K), loss, intercept)
    found = solve_l1(whole(K), loss, alpha, intercept, rtol=1e-11)
    W = found.coefficients
    slopes = K @ loss.slopes(K @ W + found.intercept)
    np.testing.assert_allclose(slopes[W != 0], alpha * np.sign(W[W != 0]), rtol=1e-5)
    assert np.abs(slopes).max() <= alpha * (1 + 1e-5)
    assert 0 < (W != 0).sum() < W.size
    assert found.certificate <= 1e-11
    value = loss.value(K @ W + found.intercept) + alpha * np.abs(W).sum()
    assert value == pytest.approx(found.objective, rel=1e-13)


def test_the_gap_bounds_what_is_missing():
    """Stopped early, the objective is above the best one by at most the gap; and the solver says that it stopped."""
    X, y = rows()
    K = RBF(0.7)(X)
    for loss in losses(y):
        alpha = 0.01 * largest_alpha(whole(K), loss)
        best = solve_l1(whole(K), loss, alpha, rtol=1e-12)
        early = solve_l1(whole(K), loss, alpha, rtol=1e-12, max_iter=1)
        assert early.status.value == "max_iter"
        assert 0 <= early.objective - best.objective <= early.certificate * early.objective
        soft = solve_l2(GivenGram(K), loss, 1e-3, preconditioner=Spectral(GivenGram(K)), rtol=1e-12)
        early = solve_l2(GivenGram(K), loss, 1e-3, preconditioner=Spectral(GivenGram(K)), rtol=1e-12, max_iter=1)
        assert -1e-12 * soft.objective <= early.objective - soft.objective
        assert early.objective - soft.objective <= early.certificate * early.objective + 1e-12 * soft.objective


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_sparse_path_is_that_of_scikit_learn(intercept, weighted):
    """Lasso with alpha / n on the explicit design, the whole path; its weights are brought to the sum n."""
    X, y = rows(60)
    K = RBF(0.5)(X)
    w = np.random.default_rng(1).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    alphas = largest_alpha(whole(K), SquaredLoss(y, w), intercept) * np.geomspace(0.9, 1e-2, 5)
    for alpha in alphas:
        theirs = Lasso(alpha / w.sum(), fit_intercept=intercept, tol=1e-13, max_iter=10**6).fit(K, y, w)
        ours = L1VMRegressor(alpha, kernel=RBF(0.5), fit_intercept=intercept, tol=1e-12).fit(X, y, w)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(K), atol=1e-6 * np.abs(y).max())
        full = np.zeros(len(y))
        full[ours.support_] = ours.dual_coef_
        np.testing.assert_allclose(full, theirs.coef_, atol=1e-6 * np.abs(theirs.coef_).max())
        np.testing.assert_array_equal(full != 0, np.abs(theirs.coef_) > 1e-9)


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*penalty", "ignore::FutureWarning"
)
def test_sparse_logistic_path_is_that_of_scikit_learn():
    """Liblinear has no free intercept but ends at a tight tolerance: coefficients, with weights."""
    X, y = rows(60)
    K, y = RBF(0.5)(X), (y > 0).astype(int)
    w = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    alphas = largest_alpha(whole(K), LogisticLoss(w[:, None] * np.eye(2)[y]), False) * np.geomspace(0.9, 3e-2, 4)
    for alpha in alphas:
        theirs = LogisticRegression(
            penalty="l1", C=1 / alpha, solver="liblinear", fit_intercept=False, tol=1e-12, max_iter=10**5
        ).fit(K, y, w)
        ours = L1VMClassifier(alpha, kernel=RBF(0.5), fit_intercept=False, tol=1e-12).fit(X, y, w)
        full = np.zeros(len(y))
        full[ours.support_] = ours.dual_coef_
        np.testing.assert_allclose(full, theirs.coef_[0], atol=1e-6 * np.abs(theirs.coef_).max())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*penalty")
@pytest.mark.parametrize(("labels", "intercept"), [(2, True), (3, True), (3, False)])
def test_logistic_objectives_are_those_of_scikit_learn(labels, intercept):
    X, y = rows(50)
    K = RBF(0.2)(X)
    y = np.digitize(y, [0.0] if labels == 2 else [-0.7, 0.7])
    w = np.ones(len(y), int) if labels == 2 else np.random.default_rng(1).integers(1, 4, len(y))
    each = np.repeat(np.arange(len(y)), w)  # with weights saga does not get there
    M, shared = w[:, None] * np.eye(labels)[y], {"fit_intercept": intercept}
    for alpha in (0.3, 0.6):
        theirs = LogisticRegression(
            penalty="elasticnet", l1_ratio=1.0, C=1 / alpha, solver="saga", tol=1e-9, max_iter=5000, **shared
        ).fit(K[each], y[each])
        ours = L1VMClassifier(alpha, kernel=RBF(0.2), tol=1e-10, **shared).fit(X, y, w)
        value = (
            LogisticLoss(M).value(theirs.decision_function(K).reshape(len(y), -1)) + alpha * np.abs(theirs.coef_).sum()
        )
        assert ours.objective_ <= value * (1 + 1e-12)
        assert ours.objective_ == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(K), atol=1e-3)
        theirs = LogisticRegression(C=1 / alpha, tol=1e-12, max_iter=10**5, **shared).fit(K, y, w)
        ours = L2VMClassifier(alpha, kernel=RBF(0.2), tol=1e-12, **shared).fit(X, y, w)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(K), atol=2e-6)


@each_loss
def test_warm_starts_end_where_cold_ones_do(kind):
    X, y = rows()
    K = RBF(0.7)(X)
    loss = losses(y)[kind]
    alphas = largest_alpha(whole(K), loss) * np.geomspace(1.0, 1e-2, 6)
    for alpha, warm in zip(alphas, l1_path(whole(K), loss, alphas, rtol=1e-11), strict=True):
        cold = solve_l1(whole(K), loss, alpha, rtol=1e-11)
        assert warm.objective == pytest.approx(cold.objective, rel=1e-10)
        scores = [K @ s.coefficients + s.intercept for s in (warm, cold)]
        np.testing.assert_allclose(*scores, atol=1e-6)


@each_loss
def test_from_the_largest_alpha_on_there_is_only_an_intercept(kind):
    X, y = rows()
    K = RBF(0.7)(X)
    loss = losses(y)[kind]
    top = largest_alpha(whole(K), loss)
    assert not solve_l1(whole(K), loss, top * (1 + 1e-9)).coefficients.any()
    assert solve_l1(whole(K), loss, 0.99 * top, rtol=1e-10).coefficients.any()


def test_no_vectors_are_an_answer():
    X, y = rows()
    model = L1VMRegressor(1e4).fit(X, y)  # warnings are failures here
    np.testing.assert_allclose(model.predict(X), y.mean())
    assert model.expansion_.n_vectors == 0
    model = L1VMClassifier(1e4).fit(X, np.digitize(y, [0.0, 1.0]))
    np.testing.assert_allclose(model.predict_proba(X[:1])[0], np.bincount(np.digitize(y, [0.0, 1.0])) / len(y))
    constant = L1VMRegressor(0.1).fit(X, np.full(len(y), 5.0))
    np.testing.assert_allclose(constant.predict(X), 5.0)
    assert constant.converged_


def test_only_vectors_in_use_are_kept():
    X, y = rows()
    model = L1VMRegressor(0.05, kernel=RBF(0.7)).fit(X, y)
    assert (model.dual_coef_ != 0).all()
    np.testing.assert_array_equal(model.X_fit_, X[model.support_])
    np.testing.assert_allclose(RBF(0.7)(X, X[model.support_]) @ model.dual_coef_ + model.intercept_, model.predict(X))
    assert model.expansion_.n_vectors == len(model.support_) == model.size_report().n_vectors < len(y) / 2


# ------------------------------------------------------------------------------------------------ L2
@pytest.mark.parametrize("kernel", [RBF(0.8), Sigmoid(gamma=0.5, coef0=-1.0)], ids=str)
def test_closed_form(kernel):
    """(K^2 + alpha I) w = K t, and kernel ridge regression with the Gram matrix K^2: kernels need not be PSD."""
    X, y = rows()
    K = kernel(X)
    for alpha in (1e-3, 1.0):
        w = np.linalg.solve(K @ K + alpha * np.eye(len(y)), K @ y)
        model = L2VMRegressor(alpha, kernel=kernel, fit_intercept=False).fit(X, y)
        np.testing.assert_allclose(model.predict(X), K @ w, atol=1e-8)
        ridge = KernelRidge(alpha, kernel="precomputed", fit_intercept=True).fit(K @ K, y)
        model = L2VMRegressor(alpha, kernel=kernel).fit(X, y)
        np.testing.assert_allclose(model.predict(X), ridge.predict(K @ K), atol=1e-7)
        assert model.dual_gap_ < 1e-9


@each_loss
def test_preconditioners_change_nothing(kind):
    X, y = rows()
    K = GivenGram(RBF(0.8)(X))
    loss = losses(y, np.linspace(0.5, 2.0, len(y)))[kind]
    a, b = (solve_l2(K, loss, 0.01, preconditioner=make(K), rtol=1e-10) for make in (Factored, Spectral))
    assert a.objective == pytest.approx(b.objective, rel=1e-12)
    np.testing.assert_allclose(K @ a.coefficients + a.intercept, K @ b.coefficients + b.intercept, atol=1e-6)
    gradient = 0.01 * a.coefficients - K @ loss.slopes(K @ a.coefficients + a.intercept)
    assert np.abs(gradient).max() < 1e-6


def test_leave_one_out_by_leaving_out():
    X, y = rows(25)
    K = RBF(0.8)(X)
    model = L2VMRegressor("cv", kernel=RBF(0.8), n_alphas=4, cv="loo").fit(X, y)
    for alpha, score in zip(model.alphas_, model.cv_scores_[:, 0], strict=True):
        errors = []
        for i in range(len(y)):
            rest = np.delete(np.arange(len(y)), i)
            found = KernelRidge(alpha, kernel="precomputed", fit_intercept=True).fit(
                (K @ K)[np.ix_(rest, rest)], y[rest]
            )
            errors.append(y[i] - found.predict((K @ K)[i : i + 1, rest])[0])
        assert score == pytest.approx(-np.mean(np.square(errors)), rel=1e-6)
    assert model.alpha_ == model.alphas_[model.cv_scores_[:, 0].argmax()]


# ------------------------------------------------------------------------------------------------ both
@pytest.mark.parametrize("cls", MACHINES)
def test_separable_classes_and_exact_targets_have_finite_answers(cls):
    X = np.linspace(-1, 1, 20)[:, None]
    model = cls(1e-3, kernel=RBF(0.5)).fit(X, (X[:, 0] > 0).astype(int))
    assert np.isfinite(model.dual_coef_).all()
    assert model.converged_
    assert ((model.predict(X) > 0.5) == (X[:, 0] > 0)).all()


@pytest.mark.parametrize("cls", [L1VMClassifier, L2VMClassifier])
def test_an_alpha_too_small_to_matter_is_told(cls):
    X = np.linspace(-1, 1, 20)[:, None]
    with pytest.warns(NumericalWarning, match="does not determine them; raise alpha"):
        model = cls(1e-60, kernel=RBF(0.5)).fit(X, (X[:, 0] > 0).astype(int))
    assert np.isfinite(model.dual_coef_).all()
    assert (model.predict(X) == (X[:, 0] > 0)).all()


@pytest.mark.parametrize("cls", [L1VMClassifier, L2VMClassifier])
@pytest.mark.parametrize("classes", [2, 3])
def test_class_weights_of_very_different_sizes(cls, classes):
    """Their weights count in the folds' fits and in their scores: all but the heavy class may be got wrong."""
    rng = np.random.default_rng(0)
    X, y = 20 * rng.standard_normal((30, 2)), np.arange(30) % classes
    weight = dict.fromkeys(range(classes), 1e-4) | {0: 1000.0}
    for alpha in (0.1, 1e-4, "cv"):
        model = cls(alpha, kernel=RBF(1.2), class_weight=weight, n_alphas=3, cv=2, random_state=0).fit(X, y)
        assert model.converged_
        assert model.dual_gap_ <= 1e-6
    assert (model.predict(20 * rng.standard_normal((30, 2))) == 0).all()
    mass = np.eye(classes)[y] * np.where(y == 0, 1000.0, 1e-4)[:, None]
    folds = [(np.arange(15), np.arange(15, 30)), (np.arange(15, 30), np.arange(15))]
    model.set_params(alpha="cv", cv=folds).fit(X, y)
    left = clone(model).set_params(alpha=model.alphas_[1]).fit(X[:15], y[:15])
    value = LogisticLoss(mass[15:]).value(left.decision_function(X[15:]).reshape(15, -1))
    assert model.cv_scores_[1, 0] == pytest.approx(-value / mass[15:].sum(), rel=1e-2)


@pytest.mark.parametrize("cls", MACHINES)
def test_equal_targets_and_one_class(cls):
    X, _ = rows(20)
    if "Classifier" in cls.__name__:
        with pytest.raises(ValueError, match="1 class"):
            cls(0.1).fit(X, np.ones(20))
        return
    for alpha in (1e-8, 1.0, "cv"):
        model = cls(alpha, n_alphas=3, cv=2, random_state=0).fit(X, np.full(20, 7.0))
        np.testing.assert_allclose(model.predict(X), 7.0)
        assert model.converged_


@pytest.mark.parametrize(("cls", "within"), [
    (L1VMClassifier, "sparse_glm._newton_step"), (L2VMClassifier, "smooth_glm._conjugate_gradient"),
])  # fmt: skip
def test_an_interrupt_inside_the_path_leaves_no_half_model(cls, within, monkeypatch):
    X, y = rows(40)
    model = cls("cv", kernel=RBF(0.8), n_alphas=3, cv=2, random_state=0)
    expected = model.fit(X, y > 0).dual_coef_
    module, name = within.split(".")
    genuine, calls = getattr(sys.modules[f"mercer.solvers.{module}"], name), []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return genuine(*args)

    with monkeypatch.context() as patch:
        patch.setattr(f"mercer.solvers.{within}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y > 0)
    with pytest.raises(NotFittedError):
        model.predict(X)
    np.testing.assert_array_equal(model.fit(X, y > 0).dual_coef_, expected)


@each_loss
def test_working_sets_may_start_small(kind, monkeypatch):
    """And may then hold no variable at all of some class."""
    X, y = rows()
    K, loss = RBF(0.7)(X), losses(y)[kind]
    expected = solve_l1(whole(K), loss, 0.5, rtol=1e-10)
    monkeypatch.setattr("mercer.solvers.sparse_glm._FIRST", 1)
    found = solve_l1(whole(K), loss, 0.5, rtol=1e-10)
    assert found.objective == pytest.approx(expected.objective, rel=1e-9)
    assert found.iterations > expected.iterations


def test_large_systems_go_by_parts_and_give_the_same(monkeypatch):
    """The way that Ctrl-C can interrupt, taken for small ones."""
    X, y = rows()
    K = RBF(0.7)(X)
    for loss in losses(y):
        direct = solve_l1(whole(K), loss, 0.05, rtol=1e-10)
        with monkeypatch.context() as patch:
            patch.setattr("mercer.solvers.sparse_glm._LARGE", 3)
            patch.setattr("mercer.solvers.sparse_glm._WORK", 2**8)
            parts = solve_l1(whole(K), loss, 0.05, rtol=1e-10)
        assert parts.objective == pytest.approx(direct.objective, rel=1e-9)
    monkeypatch.setattr("mercer.solvers.sparse_glm._LARGE", 3)
    H = K + np.eye(len(y))
    np.testing.assert_allclose(sparse_glm._solved(H, y), np.linalg.solve(H, y), rtol=1e-10)


@pytest.mark.parametrize("cls", MACHINES)
def test_compressed_machines(cls):
    """A copy on fewer vectors answers by its new expansion, and says nothing of rows and gaps that are not its own."""
    X, y = rows(60)
    y = y if "Regressor" in cls.__name__ else np.digitize(y, [-0.7, 0.7])
    model = cls(0.01, kernel=RBF(0.8)).fit(X, y)
    small = compress(model, 8, method="greedy", random_state=0)
    f = RBF(0.8)(X, small.X_fit_) @ small.expansion_.coefficients + small.intercept_
    assert small.expansion_.n_vectors == small.size_report().n_vectors == 8 < model.expansion_.n_vectors
    if "Regressor" in cls.__name__:
        np.testing.assert_allclose(small.predict(X), f[:, 0])
    else:
        np.testing.assert_allclose(small.decision_function(X), f)
        np.testing.assert_array_equal(small.predict(X), f.argmax(axis=1))
    assert small.score(X, y) > 0.8
    for gone in ("support_", "dual_gap_", "objective_", "converged_", "n_iter_"):
        assert hasattr(model, gone)
        assert not hasattr(small, gone)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(small)).predict(X), small.predict(X))
    np.testing.assert_array_equal(clone(small).fit(X, y).dual_coef_, model.dual_coef_)
    with pytest.raises(NotPSDError):
        compress(cls(0.01, kernel=Sigmoid(gamma=0.5, coef0=-1.0)).fit(X, y), 4)


@pytest.mark.parametrize("case", OWN_CASES, ids=str)
def test_gaps_of_all_cases(case):
    X, y = case.data()
    model = case.estimator.fit(case.rows(X), y)
    assert 0 <= model.dual_gap_ <= 1e-6
    assert model.converged_


@pytest.mark.parametrize("cls", MACHINES)
def test_equal_rows_with_other_targets_share_a_column(cls):
    """Weighted, repeated, and said twice with different targets: the objective is the explicit sum."""
    X, y = rows(30)
    y = y if "Regressor" in cls.__name__ else (y > 0).astype(int)
    X2, y2 = np.vstack([X, X[:10], X[:5]]), np.concatenate([y, 1 - y[:10], y[:5]])
    model = cls(0.1, kernel=RBF(0.8), tol=1e-10).fit(X2, y2)
    f = model.predict(X2) if "Regressor" in cls.__name__ else model.decision_function(X2)
    loss = (
        0.5 * ((y2 - f) ** 2).sum() if "Regressor" in cls.__name__ else np.logaddexp(0, np.where(y2 == 1, -f, f)).sum()
    )
    w = model.dual_coef_
    penalty = np.abs(w).sum() if cls.__name__.startswith("L1") else 0.5 * (w**2).sum()
    assert model.objective_ == pytest.approx(loss + 0.1 * penalty, rel=1e-10)
    assert len(w) <= 30
    weights = np.r_[np.full(5, 2.0), np.ones(35)]
    again = cls(0.1, kernel=RBF(0.8), tol=1e-10).fit(X2[:40], y2[:40], sample_weight=weights)
    np.testing.assert_array_equal(again.dual_coef_, w)


@pytest.mark.parametrize("cls", MACHINES)
def test_chosen_alphas(cls):
    X, y = rows(60)
    y = y if "Regressor" in cls.__name__ else (y > 0).astype(int)
    model = cls("cv", kernel=RBF(0.8), n_alphas=7, cv=3, random_state=0).fit(X, y)
    assert model.cv_scores_.shape == (7, 3)
    assert (np.diff(model.alphas_) < 0).all()
    assert 0 < model.alphas_.tolist().index(model.alpha_)
    same = cls(model.alpha_, kernel=RBF(0.8)).fit(X, y)
    np.testing.assert_allclose(same.dual_coef_, model.dual_coef_, rtol=1e-6, atol=1e-9)
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    scores = cls("cv", kernel=RBF(0.8), n_alphas=3, cv=folds).fit(X, y)
    left = cls(scores.alphas_[1], kernel=RBF(0.8)).fit(X[:30], y[:30])
    proba = left.predict(X[30:]) if "Regressor" in cls.__name__ else left.predict_proba(X[30:])[np.arange(30), y[30:]]
    mean = -np.mean((y[30:] - proba) ** 2) if "Regressor" in cls.__name__ else np.mean(np.log(proba))
    assert scores.cv_scores_[1, 0] == pytest.approx(mean, rel=1e-2)


def test_a_class_of_one_row_is_no_trouble_for_folds():
    X, y = rows(20)
    labels = np.r_[[2], (y[1:] > 0).astype(int)]
    model = L1VMClassifier("cv", n_alphas=3, cv=4, random_state=0).fit(X, labels)
    assert np.isfinite(model.cv_scores_).all()
    with pytest.warns(NumericalWarning, match="all rows are equal"):
        L1VMRegressor("cv").fit(np.ones((9, 2)), np.arange(9.0))


def test_columns_are_computed_when_needed_within_the_budget():
    X, y = rows(250)
    K = gram(RBF(0.7), X)
    lazy = Columns(K, 4 * 10**5)
    assert lazy.most < 40
    for loss in losses(y)[:2]:
        alpha = 0.3 * largest_alpha(lazy, loss)
        a, b = (solve_l1(c, loss, alpha, rtol=1e-9) for c in (lazy, whole(K.dense())))
        assert a.objective == pytest.approx(b.objective, rel=1e-8)
        assert a.status.value == "converged"
    model = L1VMRegressor(alpha, kernel=RBF(0.7), memory="1MB").fit(X, y)
    assert model.solver_used_ == "columns when needed"
    np.testing.assert_allclose(model.predict(X), L1VMRegressor(alpha, kernel=RBF(0.7)).fit(X, y).predict(X), atol=1e-4)
    smooth = L2VMRegressor(0.1, kernel=RBF(0.7), memory="1MB").fit(X, y)
    assert smooth.converged_
    np.testing.assert_allclose(smooth.predict(X), L2VMRegressor(0.1, kernel=RBF(0.7)).fit(X, y).predict(X), atol=1e-4)
    with pytest.raises(MemoryBudgetError, match="a larger alpha"):
        L1VMRegressor(1e-4, kernel=RBF(0.3), memory="200kB").fit(X, y)


@pytest.mark.parametrize("held", [False, True])
def test_no_more_columns_than_the_budget_allows(held, monkeypatch):
    """Every column that is asked for is counted, and what the places for them take."""
    X, y = rows(200)
    K, loss = gram(RBF(0.7), X), losses(y)[0]
    taken, genuine = [], Columns.take

    def counted(self, index):
        taken.append(len(index))
        return genuine(self, index)

    monkeypatch.setattr(Columns, "take", counted)
    narrow = Columns(GivenGram(K.dense()) if held else K, 10**5)
    assert 6 * 8 * 200 * narrow.most <= 10**5 < 6 * 8 * 200 * (narrow.most + 1)
    found = solve_l1(narrow, loss, 0.3 * largest_alpha(narrow, loss))
    assert found.status.value == "converged"
    assert max(taken) <= narrow.most < 32  # which it would have started with
    if not held:
        assert narrow._cache.buffer.nbytes <= 10**5 / 6
    with pytest.raises(MemoryBudgetError, match="a larger alpha"):
        solve_l1(narrow, loss, 1e-3)
    assert max(taken[:-1]) <= narrow.most


def test_very_many_rows_are_refused():
    X = np.random.default_rng(0).standard_normal((300_000, 2))
    with pytest.raises(MemoryBudgetError, match="n_landmarks"):
        L1VMClassifier(kernel=RBF(), memory="1GB").fit(X, X[:, 0] > 0)


def test_a_cap_is_told():
    X, y = rows()
    with pytest.warns(ConvergenceWarning, match=r"duality gap of .* \(max_iter\): raise max_iter or alpha"):
        model = L1VMRegressor(1e-3, kernel=RBF(0.5), max_iter=1).fit(X, y)
    assert not model.converged_
    assert model.dual_gap_ > 1e-6


def test_refusals_and_words(capsys):
    X, y = rows(20)
    with pytest.raises(ValueError, match="class_weight"):
        L1VMClassifier(class_weight={0: 0.0, 1: 1.0}).fit(X, (y > 0).astype(int))
    with pytest.raises(ValueError, match="rescale y"):
        L1VMRegressor().fit(X, y * 1e160)
    with pytest.raises(ValueError, match="alpha"):
        L2VMClassifier(0.0).fit(X, (y > 0).astype(int))
    L1VMRegressor(0.01, verbose=True).fit(X, y)
    assert "pass    1" in capsys.readouterr().out
    words = L1VMClassifier(0.1, kernel=Spectrum(2)).fit(["acgacg", "ttgttg", "acgaca", "tgttgt"], ["a", "t", "a", "t"])
    assert words.predict(["acgtacg"]).tolist() == ["a"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "vectors" in str(words.size_report())

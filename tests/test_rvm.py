"""Relevance vector machines against the evidence by its definition, a slow twin, finite differences and special cases."""

import numpy as np
import pytest
from scipy.special import expit, log_expit
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_limits

from mercer import RVMClassifier, RVMRegressor, compress
from mercer.errors import ConvergenceWarning, MemoryBudgetError, NumericalWarning
from mercer.estimators.rvm import _climb, _Slopes
from mercer.gram import GivenGram
from mercer.kernels import RBF, LinearSpline, Polynomial, Sigmoid
from mercer.linalg import Status
from mercer.solvers._compiled_rvm import best_alone
from mercer.solvers.rvm import basis_gradient, log_evidence, precision_gradient, solve_rvm
from mercer.solvers.rvm_classes import class_gradient, solve_rvm_classes
from mercer.solvers.rvm_design import Design
from mercer.solvers.rvm_model import Model, Moments, best_precisions


def sinc(n=60, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-10, 10, (n, 1))
    return X, np.sinc(X[:, 0] / np.pi) + noise * rng.standard_normal(n)


def matrix(X, kernel=RBF(2.0)):  # noqa: B008
    """Design matrix with the constant first."""
    return np.column_stack([np.ones(len(X)), kernel(X)])


def design(X, kernel=RBF(2.0)):  # noqa: B008
    return Design(GivenGram(kernel(X)), constant=True)


def blobs(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, (rng.random(n) < expit(4 * X[:, 0] * X[:, 1])).astype(float)


# ------------------------------------------------------------------------------------------------ evidence and gains
@pytest.mark.parametrize("noise", [None, 0.02])
def test_evidence_and_posterior_by_definition(noise):
    X, t = sinc()
    found = solve_rvm(design(X), t, noise=noise)
    Phi = matrix(X)[:, found.active]
    assert found.evidence == pytest.approx(log_evidence(Phi, t, found.alphas, found.noise), abs=1e-8)
    H = Phi.T @ Phi / found.noise + np.diag(found.alphas)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(H), rtol=1e-6)
    np.testing.assert_allclose(found.value, np.linalg.solve(H, Phi.T @ t) / found.noise, rtol=1e-6)
    assert found.certificate <= 1e-3
    assert noise is None or found.noise == pytest.approx(noise)


def gains_by_definition(Phi, t, active, alpha, noise, wanted):
    """Differences of the evidence when one precision alone is set to what is wanted."""
    base = log_evidence(Phi[:, active], t, alpha, noise)
    out = []
    for j, a in enumerate(wanted):
        precision = dict(zip(active, alpha, strict=True))
        precision.pop(j, None)
        if np.isfinite(a):
            precision[j] = a
        kept = sorted(precision)
        out.append(log_evidence(Phi[:, kept], t, np.array([precision[k] for k in kept]), noise) - base)
    return np.array(out)


def test_gains_are_differences_of_the_evidence_along_any_path():
    """Also after many additions, changes and deletions without computing anything from scratch."""
    X, t = sinc(40)
    X, noise = X / 3, 0.02
    d, Phi = design(X, RBF(1.0)), matrix(X, RBF(1.0))
    Phi = Phi * d.scale
    model = Model(d)
    pull = d.products(t[:, None])[:, 0] / noise
    model.set_curvature(np.ones(41) / noise, pull, np.zeros((0, 41)), 1 / noise)
    for j, alpha in [(3, 5.0), (7, 1.0), (20, 0.3), (0, 2.0), (7, 40.0), (3, np.inf), (31, 1.0), (20, 4.0), (9, 0.1)]:
        model.take(j, alpha)
    wanted, gains = model.best()
    assert len(model.active) == 5
    expected = gains_by_definition(Phi, t, model.active, model.alpha, noise, wanted)
    assert np.ptp(expected) > 1.0
    np.testing.assert_allclose(gains, expected, rtol=1e-6, atol=1e-7)
    for j in (9, 12):  # no other precision is better
        other = gains_by_definition(
            Phi, t, model.active, model.alpha, noise, np.where(np.arange(41) == j, 1.3 * wanted, wanted)
        )
        assert other[j] <= gains[j] + 1e-9
    kept = [model.S.copy(), model.Q.copy(), model.sigma.copy(), model.mu.copy()]
    model.refresh()
    for before, after in zip(kept, [model.S, model.Q, model.sigma, model.mu], strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-7, atol=1e-7)


def test_what_is_better_left_out():
    """q^2 <= s, a function of norm 0, one in the span of the others, and one whose best precision is beyond use."""
    s = np.array([1.0, 2.0, 1.0, 1e-12, 1.0])
    q = np.array([2.0, 1.0, 2.0, 1.0, 1.0 + 1e-13])
    usable = np.array([True, True, False, True, True])
    wanted, gains = np.zeros(5), np.ones(5)
    best_alone(s, q, np.ones(5), usable, 1e-9, 1e12, wanted, gains)
    np.testing.assert_allclose(wanted, [1 / 3, np.inf, np.inf, np.inf, np.inf])
    np.testing.assert_allclose(gains, [0.5 * (3 - np.log(4)), 0, 0, 0, 0])


def slow_twin(Phi, t, iterations=20_000):
    """Tipping (2001): all precisions re-estimated at once, EM for those and the noise; those that grow beyond use are dropped."""
    alpha, noise, keep = np.full(Phi.shape[1], 1e-2), 0.1 * np.var(t), np.arange(Phi.shape[1])
    for _ in range(iterations):
        sigma = np.linalg.inv(Phi[:, keep].T @ Phi[:, keep] / noise + np.diag(alpha))
        mu = sigma @ (Phi[:, keep].T @ t) / noise
        gamma = 1 - alpha * sigma.diagonal()
        new = np.maximum(gamma, 1e-12) / mu**2
        residual = t - Phi[:, keep] @ mu
        noise = residual @ residual / (len(t) - gamma.sum())
        stay = new < 1e9
        done = stay.all() and np.abs(np.log(new / alpha)).max() < 1e-10
        alpha, keep = new[stay], keep[stay]
        if done:
            break
    return log_evidence(Phi[:, keep], t, alpha, noise), keep


@pytest.mark.parametrize("seed", range(4))
def test_slow_twin_finds_nothing_better(seed):
    X, t = sinc(40, seed)
    slow, _ = slow_twin(matrix(X), t)
    fast = solve_rvm(design(X), t, tol=1e-9)
    assert fast.evidence >= slow - 1e-6
    again = solve_rvm(design(X), t, tol=1e-9, start=(fast.active, fast.alphas, fast.noise))
    assert again.evidence == pytest.approx(fast.evidence, abs=1e-8)
    assert again.iterations == len(again.trace)  # no step


def test_evidence_rises_from_turn_to_turn():
    X, t = sinc(100, 3)
    found = solve_rvm(design(X), t, tol=1e-9)  # what leaves takes less than tol with it
    assert (np.diff(found.trace) >= -1e-8).all()


@pytest.mark.parametrize("constant", [True, False])
def test_inner_products_are_the_same_held_or_not(constant, monkeypatch):
    """300 rows make several blocks, the last one smaller; one of the functions is zero."""
    A = np.random.default_rng(0).standard_normal((300, 50)) * np.logspace(-60, 60, 300)[:, None]
    A[7] = 0
    F = A / np.maximum(np.linalg.norm(A, axis=1), 1e-300)[:, None]
    F = np.vstack([np.full(50, 50**-0.5), F]) if constant else F
    held, asked, tight = (Design(GivenGram(A), constant, room) for room in (np.inf, np.inf, 8 * 300**2 - 1))
    monkeypatch.setattr("mercer.solvers.rvm_design._WHOLE", 200)
    assert not asked.hold_few()
    held.hold()
    tight.hold()
    for j in [0, 1, 129, 299, 8, 150, 2, 298, 3, 4, 5, 6]:
        for d in (held, asked, tight):
            np.testing.assert_allclose(d.cross(j), F @ F[j], atol=1e-14)
    assert asked.hold_few()  # after a 32nd of them they are
    assert not tight.hold_few()


def test_threads_change_nothing():
    X, t = sinc(320)  # so many that the starts run side by side
    with threadpool_limits(1):
        one = solve_rvm(design(X), t)
    with threadpool_limits(2):
        two = solve_rvm(design(X), t)
    np.testing.assert_array_equal(one.active, two.active)
    np.testing.assert_allclose(one.value, two.value, rtol=1e-9)


def test_a_function_that_adds_next_to_nothing_leaves():
    """What each adds is a difference of the evidence by its definition, at precisions that are best."""
    X, t = sinc(40)
    found = solve_rvm(design(X), t, noise=0.01, tol=1e-9)
    Phi, others = matrix(X)[:, found.active], ~np.eye(len(found.active), dtype=bool)
    less = [log_evidence(Phi[:, o], t, found.alphas[o], 0.01) for o in others]
    adds = found.evidence - np.array(less)
    assert (adds > 0).all()
    for least, expected in ((1.001 * adds.min(), int(np.argmin(adds))), (0.999 * adds.min(), None)):
        moments = Moments(Phi.T @ Phi, Phi.T @ t, float(t @ t), len(t), least)
        assert moments.at(np.log(found.alphas), False, 100.0).superfluous == expected
    kept = best_precisions(moments, found.alphas, 100.0, False, 1e8, 1e-9)[0]
    np.testing.assert_array_equal(kept, np.arange(len(adds)))


# ------------------------------------------------------------------------------------------------ slopes
def differences(f, z, h=1e-6):
    z = np.asarray(z, float)
    steps = [h * e.reshape(z.shape) for e in np.eye(z.size)]
    return np.array([(f(z + s) - f(z - s)) / (2 * h) for s in steps]).reshape(z.shape)


def test_slopes_and_curvature_of_the_precisions():
    X, t = sinc(30)
    Phi = matrix(X)[:, [0, 3, 8, 20]]
    logs = np.log([0.5, 2.0, 1.0, 3.0, 1 / 0.05])
    moments = Moments(Phi.T @ Phi, Phi.T @ t, float(t @ t), len(t))

    def value(z):
        return log_evidence(Phi, t, np.exp(z[:4]), np.exp(-z[4]))

    point = moments.at(logs, True, 1.0)
    gradient, hessian = point.gradient, point.hessian
    np.testing.assert_allclose(gradient, differences(value, logs), rtol=1e-5, atol=1e-6)
    rows = [differences(lambda z, i=i: moments.at(z, True, 1.0).gradient[i], logs) for i in range(5)]
    np.testing.assert_allclose(hessian, rows, rtol=1e-5, atol=1e-6)
    found, _, by_alpha, by_beta = precision_gradient(Phi, t, np.exp(logs[:4]), np.exp(-logs[4]))
    assert found == pytest.approx(value(logs))
    np.testing.assert_allclose(np.append(by_alpha, by_beta), gradient, rtol=1e-8, atol=1e-10)


def test_slopes_in_the_basis_functions():
    X, t = sinc(20)
    Phi, alphas, noise = matrix(X)[:, [0, 3, 8]], np.array([0.5, 2.0, 1.0]), 0.05
    _, solution, _, _ = precision_gradient(Phi, t, alphas, noise)
    expected = differences(lambda P: log_evidence(P, t, alphas, noise), Phi)
    np.testing.assert_allclose(basis_gradient(Phi, t, solution), expected, rtol=1e-5, atol=1e-6)


def test_slopes_of_laplaces_evidence():
    X, y = blobs(25)
    Phi, alphas = matrix(X, RBF(1.0))[:, [0, 3, 8]], np.array([0.5, 2.0, 1.0])
    _, slope, _ = class_gradient(Phi, y, alphas, np.zeros(3))
    expected = differences(lambda P: class_gradient(P, y, alphas, np.zeros(3))[0], Phi)
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------------------------------------ classes
def test_laplaces_evidence_and_mode_by_definition():
    X, y = blobs()
    found = solve_rvm_classes(design(X, RBF(1.0)), y)
    Phi, w, A = matrix(X, RBF(1.0))[:, found.active], found.value, found.alphas
    p = expit(Phi @ w)
    np.testing.assert_allclose(Phi.T @ (y - p), A * w, atol=1e-6)
    H = (Phi.T * (p * (1 - p))) @ Phi + np.diag(A)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(H), rtol=1e-6, atol=1e-9)
    likelihood = log_expit(np.where(y > 0, 1, -1) * (Phi @ w)).sum()
    expected = likelihood - 0.5 * A @ w**2 + 0.5 * np.log(A).sum() - 0.5 * np.linalg.slogdet(H)[1]
    assert found.evidence == pytest.approx(expected, abs=1e-8)
    gamma = 1 - A * np.linalg.inv(H).diagonal()
    np.testing.assert_allclose(A * w**2, gamma, rtol=1e-3)  # precisions are at rest: Tipping (2001), eq. 16
    assert found.certificate <= 1e-3


def test_classes_that_can_be_separated_have_finite_weights():
    X = np.vstack([np.random.default_rng(0).normal(c, 0.1, (20, 2)) for c in (-3, 3)])
    y = np.repeat(["a", "b"], 20)
    model = RVMClassifier(RBF(2.0)).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.isfinite(model.dual_coef_).all()
    assert np.abs(model.decision_function(X)).max() < 1e3


def test_swapped_labels_swap_probabilities():
    X, y = blobs()
    a, b = (RVMClassifier(RBF(1.0)).fit(X, labels).predict_proba(X) for labels in (y, 1 - y))
    np.testing.assert_allclose(a, b[:, ::-1], rtol=1e-6)


def test_several_classes_are_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    X = X[::3]
    y = y[::3]
    model = RVMClassifier(RBF(2.0)).fit(X, y)
    odds = np.column_stack([RVMClassifier(RBF(2.0)).fit(X, y == k).decision_function(X) for k in range(3)])
    np.testing.assert_allclose(model.decision_function(X), odds, rtol=1e-5, atol=1e-6)
    expected = expit(odds) / expit(odds).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), expected, rtol=1e-5, atol=1e-8)
    with pytest.raises(ValueError, match="is for two classes, y has 3"):
        RVMClassifier(learn_kernel=True).fit(X, y)


def test_moderated_probabilities():
    X, y = blobs()
    plain, moderated = RVMClassifier(RBF(1.0)).fit(X, y), RVMClassifier(RBF(1.0), moderated=True).fit(X, y)
    Phi = np.column_stack([np.ones(60), RBF(1.0)(X, plain.X_fit_)])[:, -len(plain.covariance_[0]) :]
    v = np.einsum("ia,ab,ib->i", Phi, plain.covariance_[0], Phi)
    expected = expit(plain.decision_function(X) / np.sqrt(1 + np.pi * v / 8))
    np.testing.assert_allclose(moderated.predict_proba(X)[:, 1], expected, rtol=1e-8)
    assert (np.abs(expected - 0.5) <= np.abs(plain.predict_proba(X)[:, 1] - 0.5)).all()
    np.testing.assert_array_equal(moderated.predict(X), plain.predict(X))


# ------------------------------------------------------------------------------------------------ predictions
def test_predictive_mean_and_variance_by_definition():
    X, t = sinc()
    model = RVMRegressor(RBF(2.0)).fit(X, t)
    T = np.linspace(-12, 12, 25)[:, None]
    mean, std = model.predict(T, return_std=True)
    a = model.alphas_
    columns = np.r_[0, 1 + model.relevance_] if len(a) > len(model.relevance_) else 1 + model.relevance_
    Phi, new = matrix(X)[:, columns], np.column_stack([np.ones(25), RBF(2.0)(T, X)])[:, columns]
    C = model.noise_ * np.eye(60) + (Phi / a) @ Phi.T  # the same as a Gaussian process
    cross = (new / a) @ Phi.T
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(C, t), atol=1e-8)
    expected = model.noise_ + ((new / a) * new).sum(1) - np.einsum("in,ni->i", cross, np.linalg.solve(C, cross.T))
    np.testing.assert_allclose(std**2, expected, rtol=1e-6)


def test_augmented_variance_is_that_of_a_model_with_a_function_at_the_query():
    X, t = sinc()
    model = RVMRegressor(RBF(2.0), variance="augmented").fit(X, t)
    plain = RVMRegressor(RBF(2.0)).fit(X, t)
    T = np.array([[-9.3], [0.2], [14.0], [60.0]])
    mean, std = model.predict(T, return_std=True)
    np.testing.assert_array_equal(mean, plain.predict(T))
    constant = len(model.alphas_) > len(model.relevance_)
    for x, s in zip(T, std, strict=True):
        centres = np.vstack([model.X_fit_, x])
        Phi, new = (np.column_stack([np.ones(len(R))] * constant + [RBF(2.0)(R, centres)]) for R in (X, x[None]))
        alphas = np.append(model.alphas_, 1 / np.var(t))
        sigma = np.linalg.inv(Phi.T @ Phi / model.noise_ + np.diag(alphas))
        assert s**2 == pytest.approx(model.noise_ + (new @ sigma @ new.T)[0, 0], rel=1e-6)
    assert std[-1] ** 2 > 0.9 * np.var(t)
    assert plain.predict(T, return_std=True)[1][-1] ** 2 < 0.5 * np.var(t)
    with pytest.raises(ValueError, match='variance="augmented" needs a kernel'):
        RVMRegressor(kernel="precomputed", variance="augmented").fit(RBF(2.0)(X), t)


# ------------------------------------------------------------------------------------------------ basis functions
def test_design_matrix_is_the_kernel_matrix():
    X, t = sinc()
    T = np.linspace(-9, 9, 7)[:, None]
    expected = RVMRegressor(RBF(2.0)).fit(X, t)
    given = RVMRegressor("precomputed").fit(RBF(2.0)(X), t)
    np.testing.assert_allclose(given.predict(RBF(2.0)(T, X)), expected.predict(T), rtol=1e-8)
    own = RVMRegressor("design").fit(RBF(2.0)(X)[:, :50], t)
    assert own.n_features_in_ == 50
    assert (own.relevance_ < 50).all()
    F = RBF(2.0)(T, X[:50])
    np.testing.assert_allclose(own.predict(F), F[:, own.relevance_] @ own.dual_coef_ + own.intercept_)
    np.testing.assert_array_equal(own.predict(F, return_std=True)[0], own.predict(F))
    y = (t > 0.1).astype(int)
    assert RVMClassifier("design").fit(RBF(2.0)(X)[:, :50], y).predict(F).shape == (7,)
    with pytest.raises(ValueError, match="kernel='design' has no parameters"):
        RVMRegressor("design", learn_kernel=True).fit(F, T[:, 0])


def test_repeated_rows_are_one_basis_function():
    """Twice the same rows: half the noise variance of their means."""
    X, t = sinc(40)
    twice = RVMRegressor(RBF(2.0), noise=0.02).fit(np.vstack([X, X]), np.r_[t, t])
    once = RVMRegressor(RBF(2.0), noise=0.01).fit(X, t)
    np.testing.assert_array_equal(twice.relevance_, once.relevance_)
    np.testing.assert_allclose(twice.dual_coef_, once.dual_coef_, rtol=1e-5)


def test_scaled_columns_and_targets_change_nothing():
    X, t = sinc()
    base = RVMRegressor(RBF(2.0)).fit(X, t)
    louder = RVMRegressor(3e5 * RBF(2.0)).fit(X, 1e-7 * t)
    np.testing.assert_array_equal(louder.relevance_, base.relevance_)
    np.testing.assert_allclose(louder.predict(X), 1e-7 * base.predict(X), rtol=1e-6)
    assert louder.evidence_ == pytest.approx(base.evidence_ - 60 * np.log(1e-7), abs=1e-5)


def test_order_of_rows_does_not_matter():
    X, t = sinc()
    order = np.random.default_rng(1).permutation(60)
    a, b = RVMRegressor(RBF(2.0)).fit(X, t), RVMRegressor(RBF(2.0)).fit(X[order], t[order])
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-6, atol=1e-8)


def test_any_kernel_will_do():
    X, t = sinc()
    for kernel in (Sigmoid(gamma=0.3, coef0=-0.2), LinearSpline(), lambda a, b: float(np.cos(a[0] - b[0]))):
        model = RVMRegressor(kernel).fit(X + 10, t)
        assert np.isfinite(model.predict(X + 10)).all()
        assert model.converged_


def test_tiles_of_a_gram_that_is_not_held(monkeypatch):
    X, t = sinc(80)
    y = (t > 0.1).astype(int)
    held = RVMRegressor(RBF(2.0)).fit(X, t), RVMClassifier(RBF(2.0)).fit(X, y)
    tiled = RVMRegressor(RBF(2.0), memory=30_000).fit(X, t), RVMClassifier(RBF(2.0), memory=30_000).fit(X, y)
    for a, b in zip(held, tiled, strict=True):
        np.testing.assert_array_equal(a.relevance_, b.relevance_)
        np.testing.assert_allclose(a.dual_coef_, b.dual_coef_, rtol=1e-6)
    monkeypatch.setattr("mercer.estimators.base._LONGEST", 0.0)
    with pytest.raises(MemoryBudgetError):
        RVMRegressor(RBF(2.0), memory=30_000).fit(X, t)


# ------------------------------------------------------------------------------------------------ learning a kernel
@pytest.mark.parametrize("learn", [True, "columns"])
def test_learning_a_kernel_never_lowers_the_evidence(learn):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 2))
    t = np.sin(4 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    start = RVMRegressor(RBF(1.0)).fit(X, t)
    model = RVMRegressor(RBF(1.0), learn_kernel=learn).fit(X, t)
    assert model.evidence_path_[0] <= start.evidence_
    assert (np.diff(model.evidence_path_) >= 0).all()
    assert model.evidence_ == model.evidence_path_[-1] > start.evidence_ + 1
    lengthscale = np.asarray(model.kernel_.lengthscale)
    assert lengthscale.shape == ((2,) if learn == "columns" else ())
    assert learn is True or lengthscale[1] > 2 * lengthscale[0]
    Phi = np.column_stack(
        [np.ones(60)] * (len(model.alphas_) > len(model.relevance_)) + [model.kernel_(X, model.X_fit_)]
    )
    assert log_evidence(Phi, t, model.alphas_, model.noise_) == pytest.approx(model.evidence_, abs=1e-6)


def test_slope_of_a_climb_by_finite_differences(monkeypatch):
    X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    t = np.sin(4 * X[:, 0])
    kernel = RBF([0.5, 0.8])
    solution = solve_rvm(design(X, kernel), t, noise=0.01)
    seen = {}
    monkeypatch.setattr("mercer.estimators.rvm.minimize", lambda f, z, **_: seen.update(f=f, z=z) or _Stop(z))
    _climb(kernel, X, np.arange(30), True, solution, _Slopes(t, True))
    value, slope = seen["f"](seen["z"])
    assert -value == pytest.approx(solution.evidence, abs=1e-7)
    np.testing.assert_allclose(slope, differences(lambda z: seen["f"](z)[0], seen["z"]), rtol=1e-4, atol=1e-4)


class _Stop:
    def __init__(self, x):
        self.x = x


def test_classifier_learns_a_kernel():
    X, y = blobs(80)
    model = RVMClassifier(RBF(2.0), learn_kernel=True).fit(X, y)
    assert (np.diff(model.evidence_path_) >= 0).all()
    assert model.evidence_path_[-1] > model.evidence_path_[0] + 1
    with pytest.raises(ValueError, match='learn_kernel="columns" needs rows of numbers'):
        RVMClassifier(Polynomial(2), learn_kernel="columns").fit(X, y)


@pytest.mark.parametrize("kernel", [LinearSpline(), lambda a, b: float(a @ b)])
def test_a_kernel_without_slopes_is_not_learned(kernel):
    X, t = sinc(20)
    for learn in (True, "columns"):
        with pytest.raises(
            ValueError, match=rf"learn_kernel={learn!r} needs a kernel with slopes; .* has no parameters"
        ):
            RVMRegressor(kernel, learn_kernel=learn).fit(X + 10, t)
        with pytest.raises(ValueError, match="needs a kernel with slopes"):
            RVMClassifier(kernel, learn_kernel=learn).fit(X + 10, t > 0)


# ------------------------------------------------------------------------------------------------ what may go wrong
def test_constant_targets_and_pure_noise():
    X, _ = sinc()
    with pytest.warns(NumericalWarning, match="the model is a constant"):
        model = RVMRegressor(RBF(2.0)).fit(X, np.full(60, 7.0))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, 7.0)
    np.testing.assert_array_equal(std, 0.0)
    rng = np.random.default_rng(5)
    with pytest.warns(NumericalWarning, match="the model is a constant"):
        model = RVMRegressor(RBF(8.0)).fit(X, 100 + rng.standard_normal(60))
    assert model.predict(X)[0] == pytest.approx(100, abs=1)
    assert model.X_fit_.shape == (0, 1)


def test_labels_that_no_basis_function_explains():
    """Two points with the same share of each class, which the constant holds."""
    X, y = np.eye(2)[np.arange(40) % 2], np.arange(40) < 30
    with pytest.warns(NumericalWarning, match="the model is a constant"):
        model = RVMClassifier(RBF(0.3)).fit(X, y)
    assert len(model.relevance_) == 0
    assert model.predict_proba([[5.0, 5.0]])[0, 1] == pytest.approx(0.75, abs=0.05)
    with pytest.warns(NumericalWarning, match="the model is a constant"):
        model = RVMClassifier(RBF(1.0), fit_intercept=False).fit(X, np.arange(40) % 4 < 2)
    np.testing.assert_array_equal(model.predict_proba(np.eye(2)), 0.5)


def test_repeated_rows_with_other_targets():
    X, t = sinc(30)
    rng = np.random.default_rng(1)
    Z, u = np.vstack([X, X, X]), np.r_[t, t, t] + 0.05 * rng.standard_normal(90)
    model = RVMRegressor(RBF(2.0)).fit(Z, u)
    assert (model.relevance_ < 30).all()
    assert model.converged_
    labels = u > 0.1
    model = RVMClassifier(RBF(2.0)).fit(Z, labels)
    assert (model.relevance_ < 30).all()
    assert model.score(Z, labels) > 0.8


def test_targets_without_noise():
    X = np.linspace(0, 1, 12)[:, None]
    t = 1 + RBF(0.3)(X)[:, 4]
    with pytest.warns(NumericalWarning, match="reproduce the targets almost exactly"):
        model = RVMRegressor(RBF(0.3)).fit(X, t)
    np.testing.assert_allclose(model.predict(X), t, atol=1e-3)


def test_too_few_steps():
    X, t = sinc(320)  # fewer could begin from all basis functions, and be done
    with pytest.warns(ConvergenceWarning, match="max_iter=2 steps were not enough"):
        model = RVMRegressor(RBF(2.0), max_iter=2).fit(X, t)
    assert not model.converged_
    assert model.gain_ > 1e-3


def test_steps_that_go_round_in_circles(monkeypatch):
    """Gains of classes hold at fixed curvature. A model whose evidence never rises is told as it is, with its best state."""
    X, y = blobs()
    monkeypatch.setattr("mercer.solvers.rvm_classes._CIRCLES", 2)
    falling = iter(-np.arange(1.0, 1000.0))
    monkeypatch.setattr("mercer.solvers.rvm_classes._laplace", lambda *_: next(falling))
    found = solve_rvm_classes(design(X, RBF(1.0)), y)
    assert found.status is Status.STAGNATED
    assert found.certificate > 1e-3
    assert len(found.active) == 0  # the first
    falling = iter(-np.arange(1.0, 1000.0))
    with (
        pytest.warns(NumericalWarning, match="the model is a constant"),
        pytest.warns(ConvergenceWarning, match="the steps go round in circles: one more promises"),
    ):
        model = RVMClassifier(RBF(1.0)).fit(X, y)
    assert not model.converged_


def test_turns_without_more_evidence(monkeypatch):
    X, t = sinc(320)
    monkeypatch.setattr("mercer.solvers.rvm._Regression._evidence", lambda *_: -1.0)
    monkeypatch.setattr("mercer.solvers.rvm._Regression._steps", lambda *_: None)
    found = solve_rvm(design(X), t)
    assert found.status is Status.STAGNATED
    assert found.certificate > 1e-3


def test_expansion_and_size():
    X, t = sinc()
    model = RVMRegressor(RBF(2.0)).fit(X, t)
    expansion = model.expansion_
    got = RBF(2.0)(X, expansion.centres) @ expansion.coefficients + expansion.intercept
    np.testing.assert_allclose(got[:, 0], model.predict(X))
    assert model.size_report().n_vectors == len(model.relevance_) == expansion.n_vectors


# ------------------------------------------------------------------------------------------------ fewer vectors
def test_a_compressed_copy_has_means_and_no_variances():
    X, t = sinc(80)
    model = RVMRegressor(RBF(2.0), variance="augmented").fit(X, t)
    small = compress(model, len(model.relevance_) - 1, random_state=0)
    e = small.expansion_
    got = RBF(2.0)(X, e.centres) @ e.coefficients + e.intercept
    np.testing.assert_allclose(small.predict(X), got[:, 0])
    assert np.abs(small.predict(X) - model.predict(X)).max() < 0.3
    with pytest.raises(ValueError, match="return_std=True needs the covariance of the weights"):
        small.predict(X, return_std=True)
    assert model.predict(X, return_std=True)[1].shape == (80,)
    small.fit(X, t)
    np.testing.assert_array_equal(small.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])


def test_a_compressed_copy_of_classes():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    for moderated in (False, True):
        model = RVMClassifier(RBF(2.0), moderated=moderated).fit(X, y)
        small = compress(model, len(model.relevance_) - 1, random_state=0)
        assert small.decision_function(X).shape == (50, 3)
        assert (small.predict(X) == model.predict(X)).mean() > 0.9
        if moderated:
            with pytest.raises(ValueError, match="moderated=True needs the covariance of the weights"):
                small.predict_proba(X)
        else:
            p = expit(small.decision_function(X))
            np.testing.assert_allclose(small.predict_proba(X), p / p.sum(axis=1, keepdims=True))

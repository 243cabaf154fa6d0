"""Kernel ridge (M1, M2) against scikit-learn, primal ridge, brute force, definitions and finite differences."""

import logging
import warnings

import numpy as np
import pytest
from scipy.linalg import hilbert
from sklearn.kernel_ridge import KernelRidge as SklearnKernelRidge
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from estimator_cases import regression
from mercer import KernelRidge, KernelRidgeCV
from mercer.errors import ConvergenceWarning, NotPSDError, NumericalWarning
from mercer.kernels import RBF, Laplacian, Linear, Polynomial, Sigmoid, White, Window
from mercer.solvers import leave_one_out, loo_gradient, ridge_path, solve_ridge, solve_ridge_cg, solve_ridge_primal

WORDS = ["linear", "poly", "polynomial", "rbf", "laplacian", "cosine", "chi2"]
UNCERTIFIED = ["sigmoid", "additive_chi2"]
TIGHT = {"rtol": 1e-8, "atol": 1e-8}

weighted = pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
with_intercept = pytest.mark.parametrize("intercept", [False, True], ids=["origin", "intercept"])


def data(n=40, p=1, positive=False, seed=0):
    X, y = regression(n, seed=seed)
    X = np.abs(X) if positive else X
    return X, y if p == 1 else np.column_stack([y, np.cos(X[:, 1]), X[:, 0] * y][:p])


def some_weights(n, on=True):
    return np.random.default_rng(5).uniform(0.2, 3.0, n) if on else None


# ------------------------------------------------------------------------------------------------ oracle: scikit-learn
@weighted
@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("word", WORDS + UNCERTIFIED)
@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")
def test_equals_sklearn_for_every_word(word, p, weights):
    X, y = data(p=p, positive=True)
    w, settings = some_weights(len(X), weights), {"kernel": word, "alpha": 0.7}
    if word in UNCERTIFIED:  # alpha above the most negative eigenvalue: the same linear system, positive definite
        settings["alpha"] = 1000.0
    if word not in ("linear", "cosine", "additive_chi2"):
        settings["gamma"] = 0.3
    ours = KernelRidge(**settings, solver="exact").fit(X, y, sample_weight=w)
    theirs = SklearnKernelRidge(**settings).fit(X, y, sample_weight=w)
    T = data(positive=True, seed=1)[0]
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, **TIGHT)
    np.testing.assert_allclose(ours.predict(T), theirs.predict(T), **TIGHT)
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    assert ours.jitter_ == 0.0


def test_default_gamma_and_callables_are_sklearn_s():
    X, y = data()
    for settings in (
        {"kernel": "rbf"},
        {"kernel": "poly", "degree": 2, "coef0": 0.5},
        {"kernel": lambda a, b: float(a @ b) + 1.0},
        {"kernel": lambda a, b, c: np.exp(-c * np.abs(a - b).sum()), "kernel_params": {"c": 0.3}},
    ):
        ours = KernelRidge(alpha=0.3, solver="exact", **settings).fit(X, y)
        theirs = SklearnKernelRidge(alpha=0.3, **settings).fit(X, y)
        np.testing.assert_allclose(ours.predict(X[:9] + 0.1), theirs.predict(X[:9] + 0.1), **TIGHT)


@weighted
def test_precomputed_equals_sklearn(weights):
    X, y = data(p=2)
    K, T, w = rbf_kernel(X, gamma=0.4), rbf_kernel(X[:7] + 0.1, X, gamma=0.4), some_weights(len(X), weights)
    ours = KernelRidge(kernel="precomputed", alpha=0.3).fit(K, y, sample_weight=w)
    theirs = SklearnKernelRidge(kernel="precomputed", alpha=0.3).fit(K, y, sample_weight=w)
    np.testing.assert_allclose(ours.predict(T), theirs.predict(T), **TIGHT)


@weighted
@pytest.mark.parametrize("solver", ["exact", "cg", "primal"])
def test_an_alpha_for_each_target(solver, weights):
    X, y = data(p=3)
    alpha, w = np.array([0.1, 5.0, 0.1]), some_weights(len(X), weights)
    ours = KernelRidge(alpha, kernel="linear", solver=solver, tol=1e-12).fit(X, y, sample_weight=w)
    theirs = SklearnKernelRidge(alpha=alpha, kernel="linear").fit(X, y, sample_weight=w)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), **TIGHT)
    for j, a in enumerate(alpha):
        one = KernelRidge(a, kernel="linear", solver=solver, tol=1e-12).fit(X, y[:, j], sample_weight=w)
        np.testing.assert_allclose(ours.predict(X)[:, j], one.predict(X), **TIGHT)
        np.testing.assert_allclose(ours.leave_one_out()[:, j], one.leave_one_out(), **TIGHT)


def test_wrong_number_of_alphas():
    X, y = data(p=3)
    with pytest.raises(ValueError, match="alpha has 2 entries, but there are 3 targets"):
        KernelRidge([1.0, 2.0]).fit(X, y)
    for bad in ([1.0, np.nan, 1.0], [1.0, -1.0, 1.0], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="alpha="):
            KernelRidge(bad).fit(X, y)


# ------------------------------------------------------------------------------------------------ oracle: the primal
@weighted
@with_intercept
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2), Polynomial(3, gamma=0.5) + Linear()], ids=str)
@pytest.mark.parametrize("solver", ["exact", "cg", "primal", "auto"])
def test_equals_primal_ridge_on_explicit_features(kernel, solver, intercept, weights):
    X, y = data(60, p=2)
    w = some_weights(len(X), weights)
    if not np.isfinite(kernel.feature_dim(3)):
        pytest.skip("no explicit features")
    F, T = kernel.features(X), data(seed=1)[0]
    oracle = Ridge(alpha=0.5, fit_intercept=intercept, solver="cholesky").fit(F, y, sample_weight=w)
    model = KernelRidge(0.5, kernel=kernel, fit_intercept=intercept, solver=solver, tol=1e-13)
    model.fit(X, y, sample_weight=w)
    np.testing.assert_allclose(model.predict(T), oracle.predict(kernel.features(T)), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, oracle.intercept_ if intercept else 0.0, rtol=1e-7, atol=1e-8)
    # The dual solution is the weighted residual over alpha, and the primal weights are its combination of features.
    residual = y - oracle.predict(F)
    expected = residual * (1.0 if w is None else w[:, None]) / 0.5
    np.testing.assert_allclose(model.dual_coef_, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(F.T @ model.dual_coef_, oracle.coef_.T, rtol=1e-6, atol=1e-7)


def test_a_null_vector_of_the_gram_changes_no_prediction():
    X, y = data()
    model = KernelRidge(0.5, kernel="linear", solver="exact").fit(X, y)
    null = np.linalg.svd(X.T)[2][-1]
    assert np.abs(X @ X.T @ null).max() < 1e-12
    before = model.predict(X[:9] + 1.0)
    model.dual_coef_ = model.dual_coef_ + 1e3 * null
    np.testing.assert_allclose(model.predict(X[:9] + 1.0), before, atol=1e-9)


# ------------------------------------------------------------------------------------------------ leave-one-out
def brute_force(kernel, X, y, alpha, w, intercept):
    out = np.empty(y.shape)
    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        model = KernelRidge(alpha, kernel=kernel, fit_intercept=intercept, solver="exact")
        model.fit(X[kept], y[kept], sample_weight=None if w is None else w[kept])
        out[i] = y[i] - model.predict(X[[i]])[0]
    return out


@weighted
@with_intercept
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kernel", [RBF(0.9), Linear()], ids=str)
def test_leave_one_out_equals_brute_force(kernel, p, intercept, weights):
    X, y = data(24, p)
    w, alpha = some_weights(len(X), weights), 0.2
    root = None if w is None else np.sqrt(w)
    expected = brute_force(kernel, X, y, alpha, w, intercept)
    Y = y.reshape(len(y), -1)
    model = KernelRidge(alpha, kernel=kernel, fit_intercept=intercept).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(model.leave_one_out(), expected, **TIGHT)
    np.testing.assert_allclose(leave_one_out(kernel(X), Y, alpha, root, intercept).reshape(y.shape), expected, **TIGHT)
    path = ridge_path(kernel(X), Y, root, intercept)
    np.testing.assert_allclose(path.residuals(alpha).reshape(y.shape), expected, **TIGHT)
    chosen = KernelRidgeCV([alpha], kernel=kernel, fit_intercept=intercept).fit(X, y, sample_weight=w)
    mean = np.average(expected**2, axis=0, weights=w)
    np.testing.assert_allclose(chosen.leave_one_out(), expected, **TIGHT)
    np.testing.assert_allclose(chosen.scores_[0], mean, **TIGHT)
    assert chosen.loo_error_ == pytest.approx(np.mean(mean), rel=1e-8)


def test_leave_one_out_of_one_row():
    X, y = data()
    with pytest.raises(ValueError, match=r"leave-one-out needs two different rows.*n_samples=1"):
        KernelRidge().fit(X[:1], y[:1]).leave_one_out()
    with pytest.raises(ValueError, match="n_samples=1"):
        KernelRidgeCV().fit(X[:1], y[:1])


def test_equal_rows_are_left_out_together():
    X, y = data(20)
    twice = np.r_[np.arange(20), [3, 3, 7]]
    model = KernelRidgeCV([0.3]).fit(X[twice], y[twice])
    assert model.X_fit_.shape == (20, 3)
    w = np.ones(20)
    w[[3, 7]] = 3.0, 2.0
    expected = np.average(brute_force(RBF("auto").resolve(X), X, y, 0.3, w, False) ** 2, weights=w)
    assert model.loo_error_ == pytest.approx(expected, rel=1e-8)


@weighted
@with_intercept
def test_gcv_equals_its_definition(intercept, weights):
    X, y = data(30, p=2)
    w = some_weights(30, weights)
    alphas = [0.01, 0.3, 4.0]
    model = KernelRidgeCV(alphas, kernel=RBF(0.9), scoring="gcv", fit_intercept=intercept).fit(X, y, sample_weight=w)
    s = np.ones(30) if w is None else np.sqrt(w)
    for row, alpha in zip(model.scores_, alphas, strict=True):
        single = KernelRidge(alpha, kernel=RBF(0.9), fit_intercept=intercept).fit(X, y, sample_weight=w)
        residual = s[:, None] * (y - single.predict(X))
        expected = 30 * (residual**2).sum(axis=0) / (30 - np.trace(single.smoother())) ** 2
        np.testing.assert_allclose(row, expected, **TIGHT)


@weighted
@with_intercept
@pytest.mark.parametrize("p", [1, 2])
def test_linear_leave_one_out_equals_sklearn_ridge_cv(p, intercept, weights):
    X, y = data(50, p)
    w, alphas = some_weights(50, weights), np.logspace(-2, 3, 8)
    theirs = RidgeCV(alphas, fit_intercept=intercept, store_cv_results=True).fit(X, y, sample_weight=w)
    ours = KernelRidgeCV(alphas, kernel="linear", fit_intercept=intercept).fit(X, y, sample_weight=w)
    if w is None:  # scikit-learn's squared errors carry the weights, in a normalisation of its own
        np.testing.assert_allclose(ours.scores_, theirs.cv_results_.mean(axis=0).T, **TIGHT)
    assert ours.alpha_ == pytest.approx(theirs.alpha_)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), **TIGHT)


# ------------------------------------------------------------------------------------------------ the path
@weighted
@with_intercept
def test_the_path_equals_separate_fits(intercept, weights):
    X, y = data(35, p=2)
    w, kernel = some_weights(35, weights), RBF(1.1)
    root = None if w is None else np.sqrt(w)
    path = ridge_path(kernel(X), y, root, intercept)
    for alpha in (1e-3, 0.1, 2.0, 50.0):
        one = KernelRidge(alpha, kernel=kernel, fit_intercept=intercept, solver="exact").fit(X, y, sample_weight=w)
        found = path.solve(alpha)
        np.testing.assert_allclose(found.coefficients, one.dual_coef_, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(found.intercept, one.intercept_, **TIGHT)
        assert path.degrees_of_freedom(alpha) == pytest.approx(one.degrees_of_freedom(), rel=1e-8)
    both = path.solve([0.1, 2.0])
    np.testing.assert_allclose(both.coefficients[:, 0], path.solve(0.1).coefficients[:, 0])
    np.testing.assert_allclose(both.coefficients[:, 1], path.solve(2.0).coefficients[:, 1])


def test_alpha_per_target():
    X, y = data(40, p=3)
    alphas = np.logspace(-4, 2, 7)
    each = KernelRidgeCV(alphas, alpha_per_target=True, fit_intercept=True).fit(X, y)
    assert each.scores_.shape == (7, 3)
    np.testing.assert_array_equal(each.alpha_, alphas[each.scores_.argmin(axis=0)])
    for j in range(3):
        one = KernelRidgeCV(alphas, fit_intercept=True).fit(X, y[:, j])
        assert one.alpha_ == each.alpha_[j]
        np.testing.assert_allclose(each.predict(X)[:, j], one.predict(X), **TIGHT)
    pooled = KernelRidgeCV(alphas, fit_intercept=True).fit(X, y)
    assert pooled.alpha_ == alphas[pooled.scores_.mean(axis=1).argmin()]
    assert pooled.loo_error_ == pytest.approx(pooled.scores_.mean(axis=1).min())


def test_best_alpha_is_chosen_and_refitted():
    X, y = data(60)
    model = KernelRidgeCV(np.logspace(-6, 3, 10), kernel=RBF(1.0)).fit(X, y)
    assert model.alpha_ == model.alphas_[model.scores_.argmin()]
    assert 1e-6 < model.alpha_ < 1e3
    one = KernelRidge(model.alpha_, kernel=RBF(1.0)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), one.predict(X), **TIGHT)
    assert model.solver_used_ == "path"
    assert model.residual_ < 1e-10
    for bad in ([], [0.0], [np.nan], ["a"]):
        with pytest.raises(ValueError, match="alphas="):
            KernelRidgeCV(bad).fit(X, y)


# ------------------------------------------------------------------------------------------------ the smoother
@weighted
@with_intercept
@pytest.mark.parametrize("kernel", [RBF(0.8), Linear(), RBF(0.8) + White(0.3)], ids=str)
def test_weights_smoother_and_degrees_of_freedom(kernel, intercept, weights):
    X, y = data(30)
    T, w = data(9, seed=1)[0], some_weights(30, weights)
    model = KernelRidge(0.4, kernel=kernel, fit_intercept=intercept, solver="exact").fit(X, y, sample_weight=w)
    np.testing.assert_allclose(model.weights(T) @ y, model.predict(T), **TIGHT)
    H = model.smoother()
    np.testing.assert_allclose(H @ y, model.predict(X), **TIGHT)
    assert np.trace(H) == pytest.approx(model.degrees_of_freedom(), rel=1e-9)
    if intercept:
        np.testing.assert_allclose(model.weights(T).sum(axis=1), 1.0, rtol=1e-9)
    elif w is None and kernel == RBF(0.8):
        values = np.linalg.eigvalsh(kernel(X))
        assert model.degrees_of_freedom() == pytest.approx((values / (values + 0.4)).sum(), rel=1e-9)


def test_questions_take_named_columns_without_a_warning():
    import pandas as pd

    X, y = data()
    model = KernelRidge(0.4, kernel="rbf").fit(pd.DataFrame(X, columns=list("abc")), y)
    assert model.smoother().shape == (40, 40)


# ------------------------------------------------------------------------------------------------ gradients and tuning
@weighted
@with_intercept
@pytest.mark.parametrize("p", [1, 2])
def test_loo_gradient_against_finite_differences(p, intercept, weights):
    X, y = data(18, p)
    Y, w, alpha = y.reshape(18, -1), some_weights(18, weights), 0.3
    root = None if w is None else np.sqrt(w)
    K, rng = RBF(0.9)(X), np.random.default_rng(0)

    def error(K, alpha):
        return loo_gradient(K.copy(), Y, alpha, root, intercept)[0]

    value, W, by_alpha = loo_gradient(K.copy(), Y, alpha, root, intercept)
    residuals = leave_one_out(K.copy(), Y, alpha, root, intercept)
    assert value == pytest.approx(np.average(residuals**2, axis=0, weights=w).mean(), rel=1e-10)
    h = 1e-5
    assert by_alpha == pytest.approx((error(K, alpha + h) - error(K, alpha - h)) / (2 * h), rel=1e-6)
    for _ in range(4):
        D = rng.standard_normal(K.shape)
        D = D + D.T
        step = (error(K + h * D, alpha) - error(K - h * D, alpha)) / (2 * h)
        assert (W * D).sum() == pytest.approx(step, rel=1e-5, abs=1e-8)


@with_intercept
def test_tuning_lowers_the_error_and_tells(intercept):
    X, y = data(60)
    plain = KernelRidgeCV(kernel=RBF(8.0), fit_intercept=intercept).fit(X, y)
    tuned = KernelRidgeCV(kernel=RBF(8.0), tune="all", fit_intercept=intercept, max_iter=30).fit(X, y)
    assert tuned.loo_error_ < 0.9 * plain.loo_error_
    trace = tuned.tuning_.trace
    assert len(trace) == tuned.tuning_.n_evaluations > 1
    assert trace[0] == pytest.approx(plain.loo_error_, rel=1e-6)
    assert min(trace) == pytest.approx(tuned.tuning_.value, rel=1e-6)
    assert tuned.loo_error_ == pytest.approx(tuned.tuning_.value, rel=1e-6)
    assert tuned.kernel == RBF(8.0)  # the parameter stays as it was given
    assert tuned.kernel_ == tuned.tuning_.kernel != RBF(8.0)
    assert tuned.alpha_ == pytest.approx(tuned.tuning_.alpha)


def test_lengthscales_of_columns_start_together():
    """Tied first: never worse than one lengthscale for all, and each then goes its own way."""
    X, y = data(60)
    shared = KernelRidgeCV(kernel=RBF(4.0), tune="all", fit_intercept=True).fit(X, y)
    own = KernelRidgeCV(kernel=RBF([4.0, 4.0, 4.0]), tune="all", fit_intercept=True).fit(X, y)
    assert own.loo_error_ <= shared.loo_error_ * (1 + 1e-6)
    tied = shared.tuning_.n_evaluations
    np.testing.assert_allclose(own.tuning_.trace[:tied], shared.tuning_.trace, rtol=1e-5)
    assert np.ptp(own.kernel_.lengthscale) > 0.1


def test_tuning_of_chosen_names():
    X, y = data(50)
    kernel = RBF([1.0, 1.0, 1.0]) + 0.5 * Linear()
    model = KernelRidgeCV(kernel=kernel, tune=["rbf__lengthscale"], max_iter=10).fit(X, y)
    changed = model.kernel_.get_params()
    assert changed["scale"] == 0.5
    assert not np.allclose(changed["rbf__lengthscale"], 1.0)
    alone = KernelRidgeCV(kernel=kernel, tune=[], max_iter=10).fit(X, y)
    assert alone.kernel_ == kernel
    with pytest.raises(ValueError, match=r"tune names 'width'.*differentiable parameters .* are .*rbf__lengthscale"):
        KernelRidgeCV(kernel=kernel, tune=["width"]).fit(X, y)
    with pytest.raises(ValueError, match=r"'tune' parameter"):
        KernelRidgeCV(kernel=kernel, tune="lengthscale").fit(X, y)
    with pytest.raises(ValueError, match="precomputed"):
        KernelRidgeCV(kernel="precomputed", tune="all").fit(RBF()(X), y)


def test_tuning_on_some_rows_is_repeatable():
    X, y = data(80)
    settings = {"kernel": RBF(3.0), "tune": "all", "tune_rows": 30, "max_iter": 8}
    a, b = (KernelRidgeCV(**settings, random_state=3).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert len(a.alphas_) > 1  # more rows want another alpha than the part did
    other = KernelRidgeCV(**settings, random_state=4).fit(X, y)
    assert other.kernel_ != a.kernel_


# ------------------------------------------------------------------------------------------------ solvers
@weighted
@with_intercept
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_cg_equals_exact(offset, intercept, weights):
    X, y = data(80, p=2)
    y, w = y + offset, some_weights(80, weights)
    if offset and not intercept:
        pytest.skip("without an intercept the offset is part of the problem")
    settings = {"alpha": 0.3, "kernel": RBF(0.8), "fit_intercept": intercept}
    exact = KernelRidge(**settings, solver="exact").fit(X, y, sample_weight=w)
    cg = KernelRidge(**settings, solver="cg", tol=1e-11).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(cg.predict(X) - offset, exact.predict(X) - offset, atol=1e-8)
    assert cg.solver_used_ == "cg"
    assert cg.converged_
    assert cg.residual_ <= 1e-9
    assert cg.n_iter_ > 1


@weighted
def test_residual_of_cg_with_an_intercept_is_the_truth(weights):
    X, y = data(50)
    w = some_weights(50, weights)
    root, K = np.ones(50) if w is None else np.sqrt(w), RBF(0.8)(X)
    found = solve_ridge_cg(K, y[:, None], 0.3, None if w is None else root, True, rtol=1e-3)
    M = root[:, None] * K * root + 0.3 * np.eye(50)
    right = root * (y - found.intercept[0])
    truth = np.linalg.norm(right - M @ (found.coefficients[:, 0] / root)) / np.linalg.norm(right)
    assert found.certificate == pytest.approx(truth, rel=1e-6)
    assert found.certificate > 1e-9


@pytest.mark.parametrize("weights", [False, True])
def test_cg_that_does_not_converge_says_so(weights):
    X, y = data(60)
    with pytest.warns(
        ConvergenceWarning, match=r"conjugate gradients stopped at a residual of .*max_iter.*raise max_iter"
    ):
        model = KernelRidge(1e-4, kernel="rbf", solver="cg", max_iter=1).fit(
            X, y, sample_weight=some_weights(60, weights)
        )
    assert model.converged_ is False
    assert model.residual_ > 1e-8
    assert model.n_iter_ == 1


@pytest.mark.parametrize("solver", ["exact", "cg", "primal"])
def test_float32(solver):
    X, y = data(60, p=2)
    settings = {"alpha": 0.5, "kernel": "linear" if solver == "primal" else "rbf", "solver": solver}
    double = KernelRidge(**settings, fit_intercept=True).fit(X, y).predict(X)
    single = KernelRidge(**{**settings, "tol": 1e-5}, fit_intercept=True).fit(
        X.astype(np.float32), y.astype(np.float32)
    )
    predictions = single.predict(X.astype(np.float32))
    assert predictions.dtype == single.dual_coef_.dtype == np.float32
    np.testing.assert_allclose(predictions, double, rtol=1e-3, atol=1e-3)
    path = KernelRidgeCV([0.5], kernel=settings["kernel"], fit_intercept=True).fit(X.astype(np.float32), y)
    assert path.predict(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(path.predict(X.astype(np.float32)), double, rtol=1e-3, atol=1e-3)


# ------------------------------------------------------------------------------------------------ numbers that are bad
def test_no_alpha_and_duplicate_rows():
    X, y = data(30)
    twice = np.vstack([X, X[:10]])
    with pytest.warns(NumericalWarning, match="numerically singular"):
        model = KernelRidge(0.0, kernel="rbf").fit(twice, np.r_[y, y[:10]])
    assert 0 < model.jitter_ < 1e-3
    np.testing.assert_allclose(model.predict(X), y, atol=1e-3)
    clean = KernelRidge(0.0, kernel=RBF(0.1)).fit(X, y)
    assert clean.jitter_ == 0.0
    np.testing.assert_allclose(clean.predict(X), y, atol=1e-8)


@with_intercept
@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-3])
@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")
def test_residual_is_the_truth_for_a_hilbert_matrix(alpha, intercept):
    n = 14
    H = hilbert(n)
    assert np.linalg.cond(H) > 1e17
    y = np.random.default_rng(0).standard_normal(n)
    model = KernelRidge(alpha, kernel="precomputed", fit_intercept=intercept).fit(H, y)
    right = np.longdouble(y) - np.longdouble(model.intercept_)
    a = model.dual_coef_.astype(np.longdouble)
    truth = np.linalg.norm((right - H.astype(np.longdouble) @ a - np.longdouble(alpha) * a).astype(float))
    truth /= np.linalg.norm(right.astype(float))
    assert model.residual_ <= 3 * truth + 1e-13
    assert truth <= 3 * model.residual_ + 1e-13


def test_uncertified_kernels_that_are_not_psd():
    X, y = np.arange(1.0, 13.0)[:, None], np.sin(np.arange(12.0))
    for indefinite in ("warn", "raise"):
        with pytest.raises(NotPSDError, match=r"Window.*not positive semi-definite.*indefinite=\"clip\""):
            KernelRidge(kernel=Window(), indefinite=indefinite).fit(X, y)
    K = Window()(X)
    values, vectors = np.linalg.eigh(K)
    assert values[0] < -0.5
    fixed = {"clip": np.maximum(values, 0), "flip": np.abs(values), "shift": values - values[0]}
    T = X[:5] + 0.4
    for solver in ("exact", "cg"):
        for method, changed in fixed.items():
            with pytest.warns(NumericalWarning, match=f"smallest eigenvalue .*; repaired by {method}"):
                model = KernelRidge(0.5, kernel=Window(), indefinite=method, solver=solver, tol=1e-12).fit(X, y)
            a = (vectors / (changed + 0.5)) @ (vectors.T @ y)
            turn = {"clip": values > 0, "flip": np.sign(values), "shift": np.ones(12)}[method]
            K_test = Window()(T, X) @ (vectors * turn) @ vectors.T
            np.testing.assert_allclose(model.predict(T), K_test @ a, atol=1e-8)
            np.testing.assert_allclose(model.weights(T) @ y, model.predict(T), atol=1e-8)
            assert np.trace(model.smoother()) == pytest.approx(model.degrees_of_freedom(), rel=1e-8)
            expansion = model.expansion_
            again = Window()(T, X) @ expansion.coefficients[:, 0]
            np.testing.assert_allclose(again, model.predict(T), atol=1e-8)
            assert model.repair_.startswith(method)
            loo = leave_one_out((vectors * changed) @ vectors.T, y[:, None], 0.5)[:, 0]
            np.testing.assert_allclose(model.leave_one_out(), loo, atol=1e-8)


@pytest.mark.filterwarnings(
    "ignore::mercer.errors.NumericalWarning"
)  # more than one, where eigenvalues are raised as well
@pytest.mark.parametrize("cls", [KernelRidge, KernelRidgeCV])
def test_sigmoid_where_it_is_indefinite(cls):
    X, y = data()
    kernel = Sigmoid(gamma=1.0, coef0=-1.0)
    smallest = np.linalg.eigvalsh(kernel(X))[0]
    assert smallest < -1
    with pytest.raises(NotPSDError, match="smallest eigenvalue about -"):
        cls(kernel=kernel, indefinite="raise").fit(X, y)
    with pytest.warns(NumericalWarning, match=r"goes on without repair. indefinite=\"clip\" repairs it"):
        model = cls(kernel=kernel).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        model = cls(kernel=kernel, indefinite="clip").fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cls(kernel=Sigmoid(gamma=1e-3, coef0=0.0), indefinite="raise").fit(
            X[:, :1] * 1e-3, y
        )  # PSD here: tested, no word


# ------------------------------------------------------------------------------------------------ plans and reports
def test_the_planner_chooses():
    X, y = data(100)
    assert KernelRidge().fit(X, y).solver_used_ == "primal"
    assert KernelRidge().fit(X[:5], y[:5]).solver_used_ == "exact"  # as many features as half the rows
    assert KernelRidge(kernel="rbf").fit(X, y).solver_used_ == "exact"
    assert KernelRidge(alpha=0.0, solver="exact", kernel=RBF(0.1)).fit(X, y).solver_used_ == "exact"
    assert KernelRidge(kernel="rbf", memory="50kB").fit(X, y).solver_used_ == "cg"
    assert KernelRidge(kernel="precomputed").fit(RBF()(X), y).solver_used_ == "exact"
    with pytest.raises(ValueError, match=r"solver=\"primal\" needs .* explicit feature"):
        KernelRidge(kernel="rbf", solver="primal").fit(X, y)


def test_explain():
    X, y = data(100)
    said = KernelRidge().explain(X, y)
    assert "primal: 3 explicit features for 100 rows" in said
    said = KernelRidge(kernel="rbf", memory="1GB").explain(X)
    assert "exact: the Gram matrix fits the memory budget" in said
    assert "of 1 GB, about" in said
    assert "cg" in KernelRidge(kernel="rbf", memory="50kB").explain(X)
    assert "the Gram matrix is given" in KernelRidge(kernel="precomputed").explain(RBF()(X))


def ways(said):
    """Name of each way in an explanation, and what stands against it."""
    lines = [line.split(None, 1) for line in said.splitlines()[3:]]
    return dict(lines)


def test_explain_tells_all_ways():
    X, y = data(100)
    said = ways(KernelRidge(kernel="rbf", memory="60kB").explain(X, y))
    assert list(said) == ["primal", "exact", "cg", "landmarks", "dask"]
    assert "no finite explicit features" in said["primal"]
    assert said["exact"].startswith("96 kB, about")
    assert said["exact"].endswith("more than the budget of 60 kB")
    assert said["cg"].startswith("51.2 kB, about")
    assert "n_landmarks=2000" in KernelRidge().explain(X)
    few = KernelRidge(kernel="rbf", n_landmarks=20)
    assert "landmarks: 20 landmarks for 100 rows" in few.explain(X)
    assert "no cluster now" in few.explain(X)
    assert "landmarks: 7 landmarks for 100 rows" in KernelRidge(kernel="rbf", landmarks=X[:7]).explain(X)
    assert "landmarks: 100 landmarks" in KernelRidge(kernel="rbf", n_landmarks=0.1).explain(X)  # at most all rows


def test_a_cluster_shares_the_time():
    from mercer.estimators.plan import Problem, logistic_ways, ridge_ways

    for found in (ridge_ways, logistic_ways):
        told = found(Problem(10**6, 10, np.dtype(np.float32), threads=2, cluster=8))
        assert told["dask"].seconds == told["landmarks"].seconds / 4
        assert told["dask"].against.endswith("8 threads")


def test_explain_tells_what_is_refused():
    X = np.broadcast_to(np.float32(0), (10**6, 10))
    said = KernelRidge(kernel=RBF(2.0), memory="1GB").explain(X)
    assert "refused     kernel ridge with 1000000 rows" in said
    assert "only if asked for" in ways(said)["cg"]
    said = KernelRidge(kernel=RBF(2.0), memory="1GB", n_landmarks=10_000).explain(X)
    assert "refused     kernel ridge on 10000 landmarks needs 4.8 GB" in said


def test_the_plan_is_logged(caplog):
    X, y = data()
    with caplog.at_level(logging.INFO, logger="mercer"):
        KernelRidge(kernel="rbf").fit(X, y)
        KernelRidgeCV().fit(X, y)
    assert "KernelRidge: method      exact" in caplog.text
    assert "KernelRidgeCV: method      path" in caplog.text


@pytest.mark.parametrize("model", [KernelRidge(0.1, kernel=RBF(0.7), fit_intercept=True), KernelRidge(0.5),
                                   KernelRidge(0.5, kernel="linear", solver="cg"),
                                   KernelRidgeCV(kernel=Laplacian(2.0), fit_intercept=True)], ids=str)  # fmt: skip
@pytest.mark.parametrize("p", [1, 2])
def test_expansion_and_size_report(model, p):
    X, y = data(50, p)
    T = data(9, seed=1)[0]
    model = model.fit(X, y)
    e = model.expansion_
    again = e.kernel(T, e.centres) @ e.coefficients + e.intercept
    np.testing.assert_allclose(again.reshape(model.predict(T).shape), model.predict(T), rtol=1e-6, atol=1e-6)
    report = model.size_report()
    assert report.n_vectors == report.kernel_evaluations == e.n_vectors == 50
    assert report.n_parameters == 50 * p + p
    assert report.bytes == X.nbytes + 8 * 50 * p
    if model.kernel == "linear":
        assert report.n_features == 3
        assert report.primal_bytes == 8 * 3 * p
        assert f"3 weights ({report.primal_bytes} bytes) in the primal" in str(report)
    else:
        assert "primal" not in str(report)
    assert "50 stored vectors" in str(report)


def test_distant_oracle_for_laplacian_words():
    """ "laplacian" is the L1 form, as in scikit-learn; the kernel object asks which metric is meant."""
    X, _ = data()
    np.testing.assert_allclose(
        Laplacian(2.0, metric="l1")(X), laplacian_kernel(X, gamma=0.5), rtol=1e-10
    )  # gamma = 1 / lengthscale


# ------------------------------------------------------------------------------------------------ solvers by themselves
@weighted
@with_intercept
def test_the_three_solvers_agree(intercept, weights):
    X, y = data(40, p=2)
    w = some_weights(40, weights)
    root, K = None if w is None else np.sqrt(w), X @ X.T
    alpha = np.array([0.3, 2.0])
    exact = solve_ridge(K.copy(), y, alpha, root, intercept)
    cg = solve_ridge_cg(K, y, alpha, root, intercept, rtol=1e-12)
    coef, primal = solve_ridge_primal(X, y, alpha, w, intercept)
    for other in (cg, primal):
        np.testing.assert_allclose(other.coefficients, exact.coefficients, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(other.intercept, exact.intercept, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(X.T @ exact.coefficients, coef, rtol=1e-7, atol=1e-8)
    for found in (exact, cg, primal):
        assert found.certificate < 1e-10

"""Kernels learned by gradient: slopes against differences, values against brute force, and what is told or refused."""

import warnings

import numpy as np
import pytest
import scipy.stats
from sklearn import svm as peers
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import mercer.estimators.objectives as objectives
from mercer import (
    SVC,
    SVR,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelDensity,
    KernelLogistic,
    KernelPCA,
    KernelRidge,
    NuSVC,
    tune,
)
from mercer.diagnostics import alignment
from mercer.errors import ConvergenceWarning, MemoryBudgetError, NanError, NotPSDError, NumericalWarning
from mercer.estimators.charts import Chart
from mercer.estimators.evidence import Settings, value_at
from mercer.estimators.tuning import _begun
from mercer.kernels import RBF, Constant, GappySubsequence, Linear, Matern, Periodic, Sigmoid, Spectrum, White
from mercer.kernels.resolve import at_quantile, distance_quantile
from mercer.random import generator
from mercer.solvers import c_svc, epsilon_svr, ridge_path
from mercer.solvers.alignment import alignment_gradient
from mercer.solvers.held_out import held_out_machine, hinge, square


def data(n=40, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, -1] + 0.2 * rng.standard_normal(n) + 3.0


def classes(n=40, seed=0, three=False):
    X, y = data(n, seed=seed)
    return X, (y > 3.0).astype(int) + (three and y > 3.7)


def briefly(model, X, y, objective="auto", max_iter=10, **options):
    """tune, ended early on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return tune(model, X, y, objective, max_iter=max_iter, **options)


# ------------------------------------------------------------------------------------------------ slopes
KERNELS = [
    RBF(0.8),
    2.0 * RBF(0.8) + Linear() * Periodic(3.0, 1.5),
    Matern(2.5, [0.7, 1.9]),
    0.7 * RBF(0.5).on(0) + Constant(0.3),
]
TEXTS = np.array(
    ["kernel", "kernels", "colonel", "carnal", "eternal", "internal", "kettle", "metal", "medal", "pedal"] * 3
)
SPLIT = 0.3


def estimators(kernel):
    ridge = {"kernel": kernel, "alpha": 0.3}
    return [
        (GaussianProcessRegressor(kernel), "evidence"),
        (GaussianProcessRegressor(kernel, mean="linear", normalize_y=True), "loo"),
        (GaussianProcessRegressor(kernel, alpha=0.2), "loo"),
        (KernelRidge(**ridge, fit_intercept=True), "evidence"),
        (KernelRidge(**ridge), "evidence"),
        (KernelRidge(**ridge, fit_intercept=True), "loo"),
        (KernelRidge(**ridge, fit_intercept=True), "gcv"),
        (KernelRidge(**ridge), "gcv"),
        (KernelRidge(**ridge), "validation"),
        (KernelRidge(**ridge, fit_intercept=True), "validation"),
        (KernelRidge(**ridge), "alignment"),
        (SVR(kernel=kernel, C=2.0), "validation"),
    ]


def of_classes(kernel):
    return [
        (GaussianProcessClassifier(kernel), "evidence"),
        (SVC(kernel=kernel), "alignment"),
        (SVC(kernel=kernel, C=3.0, class_weight="balanced"), "validation"),
        (SVC(kernel=kernel, multi_class="ovr"), "validation"),
    ]


def slope_error(model, objective, X, y):
    """Largest difference of a slope to that of central differences, relative to the largest slope."""
    task = objectives.TASKS[objective](model, X, y, SPLIT, generator(0))
    chart, settings = Chart(task.kernel, task.kernel.differentiable, task.extra), Settings()

    def at(z, slope=False):
        return value_at(task.evaluate, chart, task.rows, task.extra, settings, z, slope=slope)

    slope, h, found = at(chart.start, slope=True)[1], 1e-4, []
    for e in h * np.eye(len(chart)):
        far, near = (at(chart.start + s * e)[0] - at(chart.start - s * e)[0] for s in (2, 1))
        found.append((8 * near - far) / (12 * h))
    assert np.abs(slope).max() > 1e-6
    return np.abs(slope - found).max() / np.abs(slope).max()


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_slopes_of_every_objective_are_those_of_differences(kernel):
    X, y = data()
    for model, objective in estimators(kernel):
        assert slope_error(model, objective, X, y) < 1e-6, (model, objective)
    Y = np.column_stack([y, 2.0 * np.cos(X[:, 1]), -y])
    for model, objective in estimators(kernel)[:-1]:
        assert slope_error(model, objective, X, Y) < 1e-6, (model, objective)
    X, y = classes(three=True)
    for model, objective in of_classes(kernel):
        assert slope_error(model, objective, X, y) < 2e-6, (model, objective)


def test_slopes_of_a_kernel_of_strings():
    y = np.linspace(0, 1, 30) + np.array([len(t) for t in TEXTS])
    kernel = 0.1 * GappySubsequence(2, 0.5).normalise().gaussian(0.7)
    for model, objective in estimators(kernel):
        if getattr(model, "mean", None) != "linear":
            assert slope_error(model, objective, TEXTS, y) < 1e-6, (model, objective)


# ------------------------------------------------------------------------------------------------ values
def test_evidence_is_what_the_fit_of_a_process_finds():
    X, y = data()
    for model in (
        GaussianProcessRegressor(2.0 * RBF(0.8)),
        GaussianProcessRegressor(ard=True, normalize_y=True),
        GaussianProcessRegressor(RBF(0.8) + White(0.1), mean="zero"),
    ):
        fitted = model.fit(X, y)
        found = tune(model, X, y, start=None)
        assert found.objective == "evidence"
        assert found.value == pytest.approx(fitted.log_marginal_likelihood_value_, rel=1e-8)
        np.testing.assert_allclose(found.estimator.predict(X), fitted.predict(X), rtol=1e-6)
        assert found.estimator.log_marginal_likelihood_value_ == pytest.approx(found.value, rel=1e-8)
        assert found.estimator.optimizer is None
        if found.alpha is not None:
            assert found.alpha == pytest.approx(fitted.alpha_ * fitted.y_scale_[0] ** 2, rel=1e-6)
    X, labels = classes()
    fitted = GaussianProcessClassifier(RBF(0.8)).fit(X, labels)
    found = tune(GaussianProcessClassifier(RBF(0.8)), X, labels, start=None)
    assert found.value == pytest.approx(fitted.log_marginal_likelihood_value_, rel=1e-8)
    np.testing.assert_allclose(found.estimator.predict_proba(X), fitted.predict_proba(X), rtol=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_evidence_of_a_ridge_is_that_of_a_process_with_a_scale(intercept):
    """The scale of kernel and noise together is nothing to a ridge, so its evidence takes the best one."""
    X, y = data()
    y = 100.0 * (y - 3.0)
    mean = "constant" if intercept else "zero"
    process = GaussianProcessRegressor(float(np.var(y)) * RBF(0.8), mean=mean).fit(X, y)
    found = tune(KernelRidge(0.1, kernel=RBF(0.8), fit_intercept=intercept), X, y, "evidence", start=None)
    assert found.value == pytest.approx(process.log_marginal_likelihood_value_, abs=1e-4)
    np.testing.assert_allclose(found.estimator.predict(X), process.predict(X), rtol=1e-4)


@pytest.mark.parametrize("intercept", [False, True])
def test_leave_one_out_of_a_ridge_is_that_of_brute_force(intercept):
    X, y = data(25)
    y = 50.0 * y
    found = briefly(KernelRidge(0.1, kernel=RBF(0.8), fit_intercept=intercept), X, y, "loo")
    left = cross_val_predict(found.estimator, X, y, cv=LeaveOneOut())
    assert found.value == pytest.approx(np.mean((y - left) ** 2), rel=1e-6)
    assert found.value == min(found.trace)
    assert found.trace[0] > found.value


@pytest.mark.parametrize("objective", ["loo", "gcv"])
def test_a_row_that_is_there_twice_is_left_out_whole(objective):
    X, y = data(25)
    model = KernelRidge(0.1, kernel=RBF(0.8), fit_intercept=True)
    index = np.r_[np.arange(25), 3, 3, 7]
    found = briefly(model, X[index], y[index], objective, max_iter=5)
    weight = np.bincount(index).astype(float)
    path = ridge_path(found.kernel(X), y[:, None], np.sqrt(weight), True)
    left = np.average(path.residuals(found.alpha)[:, 0] ** 2, weights=weight)
    assert found.value == pytest.approx(left if objective == "loo" else path.gcv(found.alpha)[0], rel=1e-6)
    assert len(found.estimator.X_fit_) == 28


def test_leave_one_out_of_a_process_is_that_of_brute_force():
    X, y = data(20)
    found = tune(GaussianProcessRegressor(RBF(0.8), normalize_y=True), X, y, "loo")
    total = 0.0
    for i in range(20):
        rest = np.arange(20) != i
        model = GaussianProcessRegressor(found.kernel, alpha=found.alpha / y.std() ** 2, optimizer=None)
        mean, sd = model.fit(X[rest], y[rest] / y.std()).predict(X[[i]], return_std=True, noise=True)
        total += scipy.stats.norm(mean[0] * y.std(), sd[0] * y.std()).logpdf(y[i])
    assert found.value == pytest.approx(total, rel=1e-8)
    assert found.value == pytest.approx(found.estimator.leave_one_out().log_probability.sum(), rel=1e-8)
    evidence = tune(GaussianProcessRegressor(RBF(0.8), normalize_y=True), X, y, "evidence")
    assert found.value >= evidence.estimator.leave_one_out().log_probability.sum() - 1e-6


def test_gcv_is_its_formula():
    X, y = data(30)
    Y = np.column_stack([y, y**2])
    found = briefly(KernelRidge(0.1, kernel=RBF(0.8), fit_intercept=True), X, Y, "gcv")
    path = ridge_path(found.kernel(X), Y, None, True)
    assert found.value == pytest.approx(path.gcv(found.alpha).mean(), rel=1e-6)
    H = found.estimator.smoother()
    expected = [np.mean((t - H @ t) ** 2) / (1 - np.trace(H) / 30) ** 2 for t in Y.T]
    assert found.value == pytest.approx(np.mean(expected), rel=1e-6)


@pytest.mark.filterwarnings("ignore:lengthscale ended")
def test_alignment_rises_and_is_that_of_the_diagnostic():
    X, y = data()
    for model in (SVR(kernel=RBF(5.0)), KernelPCA(2, kernel=RBF(5.0))):
        found = tune(model, X, y, "alignment")
        assert found.value > alignment(RBF(5.0)(X), y) + 0.03
        assert found.value == pytest.approx(alignment(found.kernel(X), y), rel=1e-10)
    X, labels = classes()
    found = tune(SVC(kernel=RBF(5.0)), X, np.array(["no", "yes"])[labels])
    assert found.objective == "alignment"
    assert found.value == pytest.approx(alignment(found.kernel(X), 2.0 * labels - 1), rel=1e-10)
    X, labels = classes(three=True)
    T = np.eye(3)[labels]
    found = tune(KernelLogistic(kernel=RBF(5.0)), X, labels)
    assert found.value == pytest.approx(alignment(found.kernel(X), T @ T.T), rel=1e-10)


def test_slope_of_the_alignment_in_the_matrix():
    rng = np.random.default_rng(0)
    K, T, D = RBF(0.8)(data(15)[0]), rng.standard_normal((15, 2)), rng.standard_normal((15, 15))
    value, W = alignment_gradient(K.copy(), T)
    assert value == pytest.approx(alignment(K, (T - T.mean(axis=0)) @ (T - T.mean(axis=0)).T))
    h = 1e-5
    step = (alignment_gradient(K + h * D, T)[0] - alignment_gradient(K - h * D, T)[0]) / (2 * h)
    assert (W * D).sum() == pytest.approx(step, rel=1e-6)
    with pytest.raises(NanError, match="constant on these rows"):
        alignment_gradient(np.full((5, 5), 3.0), T[:5])


@pytest.mark.parametrize("C", [0.3, 30.0])
def test_held_out_losses_are_those_of_machines_fitted_to_the_rest(C):
    X, y = data(60)
    signs = np.where(y > 3.0, 1.0, -1.0)
    K = rbf_kernel(X, gamma=0.5)
    peer = peers.SVC(C=C, kernel="rbf", gamma=0.5, tol=1e-9).fit(X[:40], signs[:40])
    f = peer.decision_function(X[40:])
    found = held_out_machine(K, signs, 40, c_svc(signs[:40], np.full(40, C)), "c_svc", hinge)[0]
    assert found == pytest.approx((np.maximum(0, 1 - signs[40:] * f) ** 2).sum(), rel=1e-6)
    peer = peers.SVR(C=C, kernel="rbf", gamma=0.5, epsilon=0.1, tol=1e-9).fit(X[:40], y[:40])
    found = held_out_machine(K, y, 40, epsilon_svr(y[:40], np.full(40, C), 0.1), "epsilon_svr", square)[0]
    assert found == pytest.approx(((peer.predict(X[40:]) - y[40:]) ** 2).sum(), rel=1e-5)  # its kernel is in float32


def test_a_machine_without_free_vectors_still_has_a_slope():
    """All at the price: the loss moves with the price and the rows held out, the intercept stays."""
    X, _ = data(30)
    signs = np.where(np.arange(30) % 2, 1.0, -1.0)
    K, D = RBF(0.8)(X), np.random.default_rng(0).standard_normal((30, 30))

    def loss(K, C):
        return held_out_machine(K, signs, 20, c_svc(signs[:20], np.full(20, C)), "c_svc", hinge)

    _, W, by_price = loss(K, 1e-3)
    h = 1e-5
    assert np.isfinite(by_price)
    D[:20, :20] = 0.0
    D[20:, 20:] = 0.0
    D = D + D.T
    assert (W * D).sum() == pytest.approx((loss(K + h * D, 1e-3)[0] - loss(K - h * D, 1e-3)[0]) / (2 * h), rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*ended")  # at a bound, or at a kink, as the loss on rows held out has them
@pytest.mark.parametrize("objective", ["validation", "alignment"])
def test_a_tuned_machine_beats_an_untuned_one(objective):
    X, y = classes(120, three=True)
    T, t = classes(200, seed=1, three=True)
    poor = SVC(kernel=RBF(0.02)).fit(X, y)
    found = tune(SVC(kernel=RBF(0.02)), X, y, objective, random_state=0)
    assert found.estimator.score(T, t) > poor.score(T, t) + 0.1
    assert found.estimator.kernel == found.kernel
    assert ("C" in found.extra) == (objective == "validation")


def test_held_out_error_of_a_regression():
    X, y = data(60)
    for model in (SVR(kernel=RBF(0.1)), KernelRidge(kernel=RBF(0.1), fit_intercept=True)):
        found = briefly(model, X, y, "validation", random_state=0)
        order, t = objectives._split(60, 0.3, generator(0), None)
        again = found.estimator.set_params(**({"tol": 1e-8} if isinstance(model, SVR) else {})).fit(
            X[order[:t]], y[order[:t]]
        )
        assert found.value == pytest.approx(np.mean((again.predict(X[order[t:]]) - y[order[t:]]) ** 2), rel=1e-5)


@pytest.mark.filterwarnings("ignore:.*ended at a bound")
def test_held_out_margins_of_classes():
    """Two classes with weights, and three against the rest."""
    for three, options in ((False, {"class_weight": {0: 1.0, 1: 6.0}}), (True, {"multi_class": "ovr"})):
        X, y = classes(60, three=three)
        found = briefly(SVC(kernel=RBF(0.8), **options), X, y, "validation", random_state=0, max_iter=3)
        order, t = objectives._split(60, 0.3, generator(0), y)
        machine = found.estimator.set_params(tol=1e-8).fit(X[order[:t]], y[order[:t]])
        f = machine.decision_function(X[order[t:]]).reshape(len(y) - t, -1)
        signs = 2.0 * (y[order[t:]][:, None] == (np.arange(3) if three else [1])) - 1
        assert found.value == pytest.approx(np.mean(np.maximum(0, 1 - signs * f) ** 2), rel=1e-4)


# ------------------------------------------------------------------------------------------------ what is learned
@pytest.mark.filterwarnings("ignore:.*ended at a bound")
@pytest.mark.parametrize(
    ("model", "objective"),
    [(KernelRidge(kernel=RBF(1.0), fit_intercept=True), "loo"), (GaussianProcessRegressor(1.0 * RBF(1.0)), "evidence"),
     (SVR(kernel=RBF(1.0)), "alignment"), (SVR(kernel=RBF(1.0)), "validation")],
    ids=["ridge", "process", "alignment", "validation"],
)  # fmt: skip
def test_columns_that_do_not_matter_get_long_lengthscales(model, objective):
    X, _ = data(80, 3)
    y = np.sin(2 * X[:, 0]) + 0.05 * np.random.default_rng(1).standard_normal(80)
    found = tune(model, X, y, objective, ard=True, random_state=0)
    name = next(n for n in found.kernel.differentiable if "lengthscale" in n)
    lengths = found.kernel.get_params()[name]
    assert lengths.shape == (3,)
    assert 5 * lengths[0] < lengths[1:].min()


@pytest.mark.filterwarnings("ignore:.*ended at a bound")
def test_only_what_is_named_moves():
    X, y = data()
    model = KernelRidge(0.1, kernel=2.0 * RBF(0.8))
    found = tune(model, X, y, names=["rbf__lengthscale"], start=None)
    assert found.kernel.scale == 2.0
    assert found.alpha == 0.1
    assert found.kernel.get_params()["rbf__lengthscale"] != 0.8
    assert tune(model, X, y, names=["alpha"], start=None).kernel == model.kernel
    fixed = tune(model, X, y, bounds={"scale": "fixed", "rbf__lengthscale": (0.5, 0.6)}, start=None)
    assert fixed.kernel.scale == 2.0
    assert 0.5 <= fixed.kernel.get_params()["rbf__lengthscale"] <= 0.6
    process = GaussianProcessRegressor(1.5 * RBF(1.0), bounds={"scale": "fixed"})
    assert tune(process, X, y).kernel.scale == 1.5
    with pytest.raises(ValueError, match=r"names names 'width', but .* are scale, rbf__lengthscale"):
        tune(model, X, y, names=["width"])


def test_the_estimator_and_its_data_are_not_changed():
    X, y = data()
    X.flags.writeable = y.flags.writeable = False
    model = KernelRidge(0.1, kernel=RBF("median"))
    found = tune(model, X, y, n_rows=20, random_state=0)
    assert model.kernel == RBF("median")
    assert not hasattr(model, "kernel_")
    assert len(found.estimator.X_fit_) == 40
    again = tune(model, X, y, n_rows=20, random_state=0)
    other = tune(model, X, y, n_rows=20, random_state=1)
    assert again.kernel == found.kernel != other.kernel
    single = briefly(model, X.astype(np.float32), y, max_iter=3).estimator
    assert single.predict(X.astype(np.float32)).dtype == np.float32


def test_starts():
    X, y = data(60)
    far = KernelRidge(0.1, kernel=RBF(1e3), fit_intercept=True)
    assert tune(far, X, y).value < 0.2 < briefly(far, X, y, start=None, max_iter=3).value
    better = KernelRidge(0.1, kernel=2.0 * RBF(0.7), fit_intercept=True)
    task = objectives.TASKS["loo"](better, X, y, SPLIT, generator(0))

    def begun(start, fixed=()):
        return _begun(task, Settings(fixed=fixed), start, ard=False).kernel

    assert begun("median") == 2.0 * RBF(distance_quantile(X))
    assert begun("quantiles") != begun(None) == better.kernel
    assert begun("median", ("rbf__lengthscale",)) == begun("quantiles", ("rbf__lengthscale",)) == better.kernel
    assert tune(better, X, y, names=["alpha"]).kernel == better.kernel
    rows = np.column_stack([X, 100 * X[:, 0]])
    kernel = at_quantile(RBF([1.0, 1.0]).on(0, 1) + Periodic(2.0) * Matern(1.5).on(2), rows, 0.9)
    assert kernel == RBF(np.full(2, distance_quantile(X, 0.9))).on(0, 1) + Periodic(2.0) * Matern(
        1.5, distance_quantile(100 * X[:, :1], 0.9)
    ).on(2)
    assert distance_quantile(np.arange(3.0)[:, None], 1.0) == 2.0
    warped = at_quantile(RBF(1.0).warp(_tenfold), X, 0.5)
    assert warped.kernel.lengthscale == pytest.approx(10 * distance_quantile(X))
    restarted = tune(KernelRidge(0.1, kernel=RBF(1e3)), X, y, start=None, n_restarts=5, random_state=0)
    assert restarted.value < tune(KernelRidge(0.1, kernel=RBF(1e3)), X, y, start=None).value


def _tenfold(X):
    return 10 * X


def test_priors_pull():
    X, y = data()
    model = GaussianProcessRegressor(1.0 * RBF(1.0))
    prior = scipy.stats.lognorm(0.01, scale=3.0)
    found = tune(model, X, y, priors={"rbf__lengthscale": prior})
    assert found.kernel.get_params()["rbf__lengthscale"] == pytest.approx(3.0, rel=0.05)
    with pytest.raises(
        ValueError, match=r"priors names 'lengthscale', but what is learned is scale, rbf__lengthscale, alpha"
    ):
        tune(model, X, y, priors={"lengthscale": prior})


def test_strings_and_classes():
    labels = np.array([t.endswith("l") for t in TEXTS])
    kernel = GappySubsequence(2, 0.9).normalise().gaussian(0.3)
    found = tune(SVC(kernel=kernel), list(TEXTS), labels)
    assert found.value > alignment(kernel(list(TEXTS)), 1.0 * labels) + 0.01
    assert found.estimator.predict(["kernel"]).dtype == bool


# ------------------------------------------------------------------------------------------------ what is told
def test_what_ends_at_a_bound_is_told():
    X, y = data()
    with pytest.warns(NumericalWarning, match="lengthscale ended at a bound") as said:
        found = tune(KernelRidge(0.1, kernel=RBF(0.2)), X, y, bounds={"lengthscale": (0.1, 0.3)}, start=None)
    assert said[0].filename == __file__
    assert found.at_bounds == ["lengthscale"]
    assert "at a bound: lengthscale" in str(found)


def test_what_data_do_not_determine_is_told():
    """A ridge knows the ratio of scale and alpha only; an alignment no scale at all."""
    X, y = data()
    found = tune(KernelRidge(0.1, kernel=2.0 * RBF(0.8)), X, y)
    assert [set(group) for group in found.flat] == [{"scale", "alpha"}]
    assert "not determined: scale with alpha" in str(found) or "not determined: alpha with scale" in str(found)
    assert tune(KernelRidge(0.1, kernel=RBF(0.8)), X, y).flat == []
    assert tune(SVR(kernel=2.0 * RBF(0.8)), X, y).flat == [("scale",)]
    assert tune(GaussianProcessRegressor(2.0 * RBF(0.8)), X, y).flat == []


def test_the_record_prints_short():
    X, y = data()
    with pytest.warns(match="ended early"):
        found = tune(KernelRidge(0.1, kernel=RBF(0.8)), X, y, max_iter=1)
    lines = str(found).splitlines()
    assert lines[0].startswith(f"loo {found.value:.6g} after {found.n_evaluations} evaluations")
    assert lines[1].startswith("RBF(lengthscale=")
    assert lines[1].endswith(f", alpha {found.alpha:.4g}")
    assert lines[-1].startswith("ended early")
    assert "trace" not in repr(found)


# ------------------------------------------------------------------------------------------------ what is refused
def test_bad_input():
    X, y = data()
    labels = classes()[1]
    cases = [
        (lambda: tune(KernelDensity(), X, y), TypeError, "with a kernel"),
        (lambda: tune(peers.SVC(), X, labels), TypeError, "estimator of mercer"),
        (lambda: tune(SVC(kernel="precomputed"), X, labels), ValueError, "no parameters to learn"),
        (lambda: tune(SVC(), X, labels, "evidence"), ValueError, "SVC; it has alignment, validation"),
        (lambda: tune(NuSVC(), X, labels, "validation"), ValueError, "NuSVC; it has alignment"),
        (lambda: tune(GaussianProcessClassifier(), X, labels, "loo"), ValueError, "it has evidence"),
        (lambda: tune(SVC(), X, labels, start="mean"), ValueError, "start='mean'"),
        (
            lambda: tune(SVC(kernel=Linear()), X, labels),
            ValueError,
            r"nothing is left to learn: Linear\(\) has no parameter",
        ),
        (lambda: tune(SVC(kernel=RBF()), X, labels, names=[]), ValueError, "nothing is left to learn"),
        (lambda: tune(KernelRidge(kernel=Linear()), X, y, start="median"), ValueError, "none in the units"),
        (lambda: tune(KernelRidge(alpha=[1.0, 2.0], kernel=RBF()), X, y), ValueError, "must be one number > 0"),
        (lambda: tune(KernelRidge(alpha=0.0, kernel=RBF()), X, y), ValueError, "must be one number > 0"),
        (lambda: tune(KernelRidge(kernel=RBF()), X, y[:-1]), ValueError, "inconsistent"),
        (lambda: tune(KernelPCA(kernel=RBF()), X, None), ValueError, "tune needs y"),
        (lambda: tune(KernelRidge(kernel=RBF()), X, y, n_rows=1), ValueError, "n_rows=1 must be a whole number >= 2"),
        (lambda: tune(KernelRidge(kernel=RBF()), X, y, max_iter=0), ValueError, "max_iter=0"),
        (lambda: tune(KernelRidge(kernel=RBF()), X, y, n_restarts=-1), ValueError, "n_restarts=-1"),
        (lambda: tune(KernelRidge(kernel=RBF()), X[:1], y[:1], "loo"), ValueError, "two different rows"),
        (lambda: tune(KernelRidge(kernel=RBF()), X, y, "validation", held_out=1.5), ValueError, "held_out=1.5"),
        (lambda: tune(KernelRidge(kernel=RBF()), X[:1], y[:1], "validation"), ValueError, "too few"),
        (lambda: tune(KernelRidge(kernel=RBF()), X, np.where(y > 3, np.nan, y)), ValueError, "NaN"),
        (
            lambda: tune(KernelRidge(kernel=RBF(), fit_intercept=True), X, 0 * y + 2, "evidence"),
            ValueError,
            "y is constant",
        ),
        (lambda: tune(KernelRidge(kernel=RBF()), X, 0 * y, "alignment"), ValueError, "y is constant"),
        (lambda: tune(SVC(kernel=RBF()), X, 0 * labels), ValueError, "1 class"),
        (lambda: tune(KernelRidge(kernel=RBF(), memory="10kB"), X, y), MemoryBudgetError, "n_rows=2000"),
        (lambda: tune(KernelRidge(kernel=RBF()), X, y, bounds={"width": (1, 2)}), ValueError, "bounds names 'width'"),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model", [GaussianProcessRegressor(Sigmoid(1.0, -1.0)), KernelRidge(kernel=Sigmoid(1.0, -1.0))]
)
def test_an_indefinite_kernel_has_no_evidence_but_an_alignment(model):
    X, y = data()
    with pytest.raises(NotPSDError, match="no evidence"):
        tune(model, X, y, "evidence")
    found = tune(SVR(kernel=Sigmoid(0.3, -1.0), indefinite="clip"), X, y, bounds={"gamma": (0.01, 1.0)}, max_iter=3)
    assert found.value == pytest.approx(alignment(found.kernel(X), y), rel=1e-9)


def test_a_kernel_without_slopes_still_learns_alpha():
    y = np.array([float(len(t)) for t in TEXTS])
    found = tune(KernelRidge(1.0, kernel=Spectrum(2)), list(TEXTS), y + np.arange(30) % 4, "gcv")
    assert found.kernel == Spectrum(2)
    assert found.alpha != 1.0


def test_ctrl_c_leaves_the_search(monkeypatch):
    X, y = data()

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(objectives, "alignment_gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(SVR(kernel=RBF(1.0)), X, y)

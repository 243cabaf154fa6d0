"""The contract of every registered estimator: scikit-learn's checks, our own, and the battery of bad inputs F01-F17."""

import copy
import hashlib
import inspect
import pickle
import pkgutil
import threading
import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_param_validation,
    parametrize_with_checks,
)
from sklearn.utils.validation import check_is_fitted

import estimator_cases as wrong
import mercer
from estimator_cases import ESTIMATOR_CASES, EstimatorCase, answers, regression, sensitive, suited
from mercer import KernelRidge, KernelRidgeCV, NuSVC
from mercer.errors import NumericalWarning
from mercer.kernels import RBF, Linear, Matern, Polynomial, Sigmoid, Spectrum
from mercer.registry import ESTIMATORS

VECTOR_CASES = [c for c in ESTIMATOR_CASES if not c.precomputed]
PRECOMPUTED_CASES = [c for c in ESTIMATOR_CASES if c.precomputed]
RIDGE_CASES = [c for c in ESTIMATOR_CASES if c.ridge]
#: With any kernel; mixtures and modes of densities are made of windows alone.
PREDICTORS = [
    c for c in ESTIMATORS.values() if hasattr(c, "predict") and issubclass(c, mercer.estimators.KernelEstimator)
]
WEIGHTED_CASES = [c for c in ESTIMATOR_CASES if c.weighted]


#: Of every class the first case on rows and the first on Gram matrices; what is asked of the others is asked in the slow lane.
FIRST_CASES = list({(type(c.estimator), c.precomputed): c for c in reversed(ESTIMATOR_CASES)}.values())
FURTHER_CASES = [c for c in ESTIMATOR_CASES if c not in FIRST_CASES]


def each(cases, name="case"):
    return pytest.mark.parametrize(name, cases, ids=str)


def each_first(cases):
    """The first cases in the fast lane, the others in the slow one."""
    return each([c if c in FIRST_CASES else pytest.param(c, marks=pytest.mark.slow) for c in cases])


# ------------------------------------------------------------------------------------------------ scikit-learn's list
def infeasible_checks(estimator):
    """Checks that ask for what cannot be, with the reason."""
    if isinstance(estimator, NuSVC):
        return {"check_class_weight_classifiers": "nu=0.2 is infeasible where one class has 1e-7 of the mass"}
    return {}


class GramOfRows(TransformerMixin, BaseEstimator):
    """Rows to their Gram matrix, or distances, with the rows seen in fit."""

    def __init__(self, distances=False):
        self.distances = distances

    def fit(self, X, y=None):
        self.X_ = np.asarray(X)
        return self

    def transform(self, X):
        X = np.asarray(X)
        return RBF(1.0).distance(X, self.X_) if self.distances else RBF(1.0)(X, self.X_)


class EstimatorOnRows(Pipeline):
    """An estimator on Gram matrices, and before it the Gram matrix of rows."""

    @property
    def offset_(self):
        return self[-1].offset_

    @property
    def labels_(self):
        return self[-1].labels_


#: They pass rows, also to an estimator whose tags ask for a Gram matrix.
CHECKS_ON_ROWS = (
    "check_outliers_fit_predict",
    "check_outliers_train",
    "check_decision_proba_consistency",
    "check_clustering",
)


# Where kernel="precomputed", scikit-learn's checks pass symmetric matrices that are not Gram matrices.
# Some set a cap of iterations that is too low for their own class weights.
# Some have classes with fewer rows than folds.
as_checks_warn = pytest.mark.filterwarnings(
    "ignore::mercer.errors.NumericalWarning",
    "ignore::mercer.errors.ConvergenceWarning",
    "ignore:The least populated class",
)


@as_checks_warn
@parametrize_with_checks([c.estimator for c in FIRST_CASES], expected_failed_checks=infeasible_checks)
def test_sklearn_checks(estimator, check):
    run_sklearn_check(estimator, check)


@pytest.mark.slow
@as_checks_warn
@parametrize_with_checks([c.estimator for c in FURTHER_CASES], expected_failed_checks=infeasible_checks)
def test_sklearn_checks_of_further_cases(estimator, check):
    run_sklearn_check(estimator, check)


def run_sklearn_check(estimator, check):
    case = EstimatorCase(estimator)
    if check.func.__name__ in CHECKS_ON_ROWS and case.precomputed:
        estimator = EstimatorOnRows([("gram", GramOfRows(case.of_distances)), ("estimator", estimator)])
    check(estimator)


@each_first(ESTIMATOR_CASES)
def test_sklearn_param_validation(case):
    """Not in check_estimator: scikit-learn runs it over its own classes."""
    check_param_validation(type(case.estimator).__name__, case.estimator)


@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")
@each_first(ESTIMATOR_CASES)
def test_sklearn_column_names_consistency(case):
    check_dataframe_column_names_consistency(type(case.estimator).__name__, case.estimator)


# ------------------------------------------------------------------------------------------------ completeness
def concrete_estimators():
    """Public estimator classes defined anywhere in the package."""
    found = set()
    for module in pkgutil.walk_packages(mercer.__path__, "mercer."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        for name, value in vars(import_module(module.name)).items():
            own = inspect.isclass(value) and value.__module__ == module.name
            if own and not name.startswith("_") and issubclass(value, BaseEstimator) and hasattr(value, "fit"):
                found.add(value)
    return found


def assert_complete(found):
    assert found == set(ESTIMATORS.values()) == {type(c.estimator) for c in ESTIMATOR_CASES}


def test_no_estimator_is_missing():
    assert_complete(concrete_estimators())


def test_a_missing_estimator_is_seen():
    with pytest.raises(AssertionError):
        assert_complete(concrete_estimators() | {wrong.Honest})


# ------------------------------------------------------------------------------------------------ our own checks
def fitted(case, n=40, seed=0):
    X, y = case.data(n, seed)
    X, y = X.copy(), y.copy()
    return clone(case.estimator).fit(case.rows(X), y), X, y


def data_for(cls):
    X, y = regression()
    return X, suited(cls(), y)


def size_of_answers(model, X, y=None):
    """A score that every kind of estimator has, and that tells models apart."""
    return float(np.mean(answers(model, X) ** 2))


def check_clone_and_params(case):
    copied = clone(case.estimator)
    assert copied.get_params(deep=False).keys() == case.estimator.get_params(deep=False).keys()
    assert repr(copied) == repr(case.estimator)
    assert repr(case.estimator).startswith(type(case.estimator).__name__)


def check_pickle(case):
    model, X, _ = fitted(case)
    T = case.test_rows(X[:7] + 0.1, X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(case.answer(again, T), case.answer(model, T))
    if hasattr(model, "leave_one_out"):
        np.testing.assert_array_equal(again.leave_one_out(), model.leave_one_out())
        np.testing.assert_array_equal(copy.deepcopy(model).weights(T), model.weights(T))


def check_pickle_is_small(case):
    n = 400
    model, X, y = fitted(case, n=n)
    own = 8 * n if is_clusterer(model) else 0  # labels_
    own += sum(c.nbytes for c in getattr(model, "covariance_", ()))  # the posterior of the weights is an answer
    if hasattr(model, "second_"):  # of another view, with coefficients for both
        own += len(pickle.dumps(model.second_)) + model.coefficients_.nbytes
    own += model.X_fit_.nbytes if hasattr(model, "X_train_") else 0  # relevance vectors beside all rows
    # rows, coefficients, targets; no Gram, no prepared side
    assert len(pickle.dumps(model)) < X.nbytes + 2 * y.nbytes + own + 4000


def check_rows_changed_later(case):
    X, y = case.data()
    X, y = X.copy(), y.copy()
    w = np.linspace(0.5, 2.0, len(y))
    K = np.array(case.rows(X))
    model = clone(case.estimator).fit(K, y, **case.weights(w))
    T = case.test_rows(X[:5] + 0.1, X)
    before = case.answer(model, T)
    for array in (K, y, w, X):
        array += 100
    np.testing.assert_array_equal(case.answer(model, T), before)


def check_parameters_changed_later(case):
    model, X, _ = fitted(case)
    T = case.test_rows(X[:5] + 0.1, X)
    questions = [lambda T: case.answer(model, T), *([model.weights] if callable(getattr(model, "weights", 0)) else [])]
    before = [q(T) for q in questions]
    loo = model.leave_one_out() if hasattr(model, "leave_one_out") else None
    changes = {"kernel": Linear() if case.precomputed else "precomputed", "alpha": 77.0, "indefinite": "flip", "C": 9.0,
               "nu": 0.7, "epsilon": 3.0, "gamma": 5.0}  # fmt: skip
    known = model.get_params(deep=False)
    model.set_params(**{k: v for k, v in changes.items() if k in known})
    if "fit_intercept" in known:
        model.set_params(fit_intercept=not model.fit_intercept)
    for q, expected in zip(questions, before, strict=True):
        np.testing.assert_array_equal(q(T), expected)
    if loo is not None:
        np.testing.assert_array_equal(model.leave_one_out(), loo)


def digest(*arrays):
    return [hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for a in arrays]


def check_inputs_unchanged(case):
    X, y = case.data()
    X, y, w = case.rows(X.copy()), y.copy(), np.linspace(0.0, 2.0, len(y))
    T = case.test_rows(regression(seed=1)[0][:9], regression()[0]).copy()
    before = digest(X, y, w, T)
    model = clone(case.estimator).fit(X, y, **case.weights(w))
    case.answer(model, T)
    for question in ("leave_one_out", "smoother", "degrees_of_freedom", "size_report"):
        getattr(model, question, lambda: None)()
    assert digest(X, y, w, T) == before


def check_refit_forgets(case):
    model, X, y = fitted(case)
    other = np.column_stack([y, y])[:20] if case.ridge else y[:20]
    model.fit(case.rows(X[:20]), other)
    fresh = clone(case.estimator).fit(case.rows(X[:20]), other)
    assert set(vars(model)) == set(vars(fresh))
    T = case.test_rows(X[30:], X[:20])
    np.testing.assert_array_equal(case.answer(model, T), case.answer(fresh, T))


def state(model):
    return {k: id(v) for k, v in vars(model).items()}


def check_predict_writes_nothing(case):
    model, X, _ = fitted(case)
    before, T = state(model), case.test_rows(X[:20] + 0.1, X)
    expected, found = case.answer(model, T), [None] * 8

    def work(i):
        for _ in range(3):
            found[i] = case.answer(model, T)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for answer in found:
        np.testing.assert_array_equal(answer, expected)
    assert state(model) == before


def check_failed_fit_is_unfitted(case):
    model, X, y = fitted(case)
    for rows, targets in holed(case, X, y):
        with pytest.raises(ValueError):
            model.fit(rows, targets)
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    if hasattr(model, "_store"):  # Ctrl-C when all is computed and nothing kept
        model._store = interrupted
        with pytest.raises(KeyboardInterrupt):
            model.fit(case.rows(X), y)
        with pytest.raises(NotFittedError):
            case.answer(model, case.rows(X))
        if case.ridge:
            with pytest.raises(NotFittedError):
                model.leave_one_out()


def takes_targets(case):
    """Outlier detectors, transformers and densities take y and do not look at it."""
    ignored = hasattr(case.estimator, "fit_predict") or hasattr(case.estimator, "transform") or case.is_density
    return not ignored


def holed(case, X, y):
    """Rows and targets with NaN in one of them."""
    rows = np.array(case.rows(X))
    rows[3, 1] = np.nan
    yield rows, y
    if takes_targets(case):
        yield case.rows(X), np.where(np.arange(len(y)) == 3, np.nan, y)


def interrupted(*args, **kwargs):
    raise KeyboardInterrupt


def check_no_output_container(case):
    assert hasattr(case.estimator, "transform") or not hasattr(case.estimator, "set_output")


def check_feature_counts_and_names(case):
    X, y = case.data()
    model = clone(case.estimator).fit(case.rows(X), y)
    assert model.n_features_in_ == case.rows(X).shape[1]
    assert not hasattr(model, "feature_names_in_")
    if case.precomputed:
        return
    for table in (pd.DataFrame(X, columns=list("abc")), pl.DataFrame(dict(zip("abc", X.T, strict=True)))):
        named = clone(case.estimator).fit(table, y)
        assert list(named.feature_names_in_) == list("abc")
        np.testing.assert_allclose(case.answer(named, table[:6]), case.answer(model, X[:6]), rtol=1e-9, atol=1e-12)


def check_bad_data_is_refused(case):
    X, y = case.data()
    for bad in (np.nan, np.inf, -np.inf):
        rows = np.array(case.rows(X))
        rows[3, 1] = rows[1, 3 if case.precomputed else 1] = bad
        with pytest.raises(ValueError, match=r"X|NaN|infinity"):
            clone(case.estimator).fit(rows, y)
        if takes_targets(case):
            with pytest.raises(ValueError, match="y"):
                clone(case.estimator).fit(case.rows(X), np.where(np.arange(len(y)) == 4, bad, y))
        if case.weighted:
            with pytest.raises(ValueError, match="sample_weight"):
                clone(case.estimator).fit(case.rows(X), y, sample_weight=np.where(np.arange(len(y)) == 4, bad, 1.0))


def check_weights_are_repetition(case):
    X, y = case.data()
    times = np.random.default_rng(2).integers(0, 4, len(y))
    long = np.repeat(np.arange(len(y)), times)
    T = regression(seed=1)[0][:9]
    weighted = case.precise().fit(case.rows(X), y, sample_weight=times)
    repeated = case.precise().fit(case.rows(X[long]), y[long])
    a, b = case.answer(weighted, case.test_rows(T, X)), case.answer(repeated, case.test_rows(T, X[long]))
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


def check_sparse_equals_dense(case):
    X, y = case.data()
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    T = X[:8] * 1.1
    expected = case.answer(case.precise().fit(case.rows(X), y), case.test_rows(T, X))
    for form in (sp.csr_array, sp.csc_array, sp.coo_array, sp.bsr_array, sp.csr_matrix, sp.lil_matrix, sp.dok_array):
        model = case.precise().fit(form(case.rows(X)), y)
        got = case.answer(model, form(case.test_rows(T, X)))
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-7)
    model = case.precise().fit(awkward_csr(case.rows(X)), y)
    np.testing.assert_allclose(case.answer(model, case.test_rows(T, X)), expected, rtol=1e-7, atol=1e-7)


def awkward_csr(X):
    """int64 indices in descending order, every entry as two halves, zeros stored."""
    n, d = X.shape
    indices = np.tile(np.repeat(np.arange(d)[::-1], 2), n).astype(np.int64)
    data = np.repeat(X[:, ::-1] / 2, 2, axis=1).ravel()
    return sp.csr_array((data, indices, np.arange(0, 2 * d * n + 1, 2 * d).astype(np.int64)), shape=(n, d))


def check_layouts_and_dtypes(case):
    X, y = case.data()
    X = np.round(X, 1) if not case.precomputed else X
    K, T = np.array(case.rows(X)), np.array(case.test_rows(X[:9], X))
    expected = case.answer(case.precise().fit(K, y), T)
    padded = np.zeros((2 * len(K), K.shape[1] + 1))
    padded[::2, 1:] = K
    misaligned = np.zeros(K.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(K.shape)
    misaligned[...] = K
    layouts = {
        "fortran": np.asfortranarray(K),
        "strided": padded[::2, 1:],
        "reversed": np.ascontiguousarray(K[::-1, ::-1])[::-1, ::-1],
        "misaligned": misaligned,
        "big endian": K.astype(">f8"),
        "longdouble": K.astype(np.longdouble),
        "objects": K.astype(object),
        "list": K.tolist(),
    }
    for name, form in layouts.items():
        got = case.answer(case.precise().fit(form, y), T)
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10, err_msg=name)
    single = clone(case.estimator).fit(K.astype(np.float32), y.astype(np.float32))
    got = case.answer(single, T.astype(np.float32))
    assert got.dtype == (np.float32 if expected.dtype.kind == "f" else expected.dtype)  # labels stay labels
    np.testing.assert_allclose(got, expected, rtol=2e-2, atol=2e-2)


def check_fit_not_init_refuses(case):
    cls, X = type(case.estimator), case.rows(regression()[0])
    bad = {"alpha": -1.0, "alphas": [-1.0], "solver": "magic", "memory": "many", "engine": "none", "tol": 0,
           "max_iter": -5, "indefinite": "perhaps", "gamma": -1.0, "degree": -1, "coef0": "x", "kernel_params": 3,
           "fit_intercept": "yes", "scoring": "nothing", "alpha_per_target": 7, "tune_rows": 1, "random_state": "x",
           "kernel": "parabolic", "tune": 3, "C": -1.0, "nu": 2.0, "epsilon": -1.0, "shrinking": "yes", "probability": "no",
           "cache_size": 0, "class_weight": 3, "verbose": "x", "decision_function_shape": "x", "break_ties": "x",
           "multi_class": "x", "variant": "x", "shuffle": 3, "budget": 1, "when_full": "x", "time_limit": 0,
           "n_landmarks": 0, "landmarks": 3, "checkpoint": 3, "kernel_y": "parabolic",
           "callback": 3, "n_jobs": "x", "Cs": [-1.0], "kernel_grid": 3, "cv": "x", "n_components": 0, "kind": "x",
           "fit_inverse_transform": "x", "eigen_solver": "x", "iterated_power": "x", "remove_zero_eig": "x", "copy_X": "x",
           "whiten": "x", "priors": "x", "preimage": "x", "n_neighbors": 0, "radius": -1.0, "algorithm": "x", "weights": "x",
           "outlier_label": 0.5, "n_clusters": 0, "n_medoids": 0, "metric": "x", "method": "x", "init": "x",
           "n_init": 0, "batch_size": 0, "bandwidth": -1.0, "max_components": 0, "covariance_type": "x", "reg_covar": -1.0,
           "init_params": "x", "target_bandwidth": -1.0, "n_centers": 0, "centers": "x", "normalised": "x", "tail": "x",
           "target_kernel": "x", "form": "x", "span": 0.0, "robust": -1, "standardize": "x", "seeds": "x", "bin_seeding": "x",
           "min_bin_freq": 0, "cluster_all": "x", "assign": "x", "missing": "x",
           "merge": -1.0, "atol": -1.0, "rtol": -1.0, "breadth_first": "x", "leaf_size": 0, "metric_params": 3,
           "factors": "x", "sensitivity": 2.0, "bounds": 3, "boundary": "x", "categorical": 3, "smoothing": 2.0, "shared": "x",
           "neighbors": 0, "n_alphas": 0, "noise": -1.0, "learn_kernel": "x", "variance": "x", "moderated": "x",
           "n_vectors": 0, "kernels": [], "p": 0.5, "lam": 2.0, "gap": 0.0, "per_target": "x", "loss": "x",
           "learn_vectors": "x", "learning_rate": -1.0, "mean": "x", "max_iter_predict": 0,
           "ard": "x", "back_constraint": "parabolic", "normalize": "x", "optimizer": "x", "n_restarts_optimizer": -1,
           "normalize_y": "x", "n_inducing": 0, "inducing": "x"}  # fmt: skip
    if case.needs_variance:
        bad["tol"] = -1.0  # 0 is scikit-learn's word for as exact as possible
    for name in inspect.signature(cls).parameters:
        settings = {**case.estimator.get_params(deep=False), name: bad[name]}
        model = cls(**settings)
        if name in ("gamma", "degree", "coef0", "kernel_params", "engine", "tune") and case.precomputed:
            continue
        with pytest.raises((ValueError, TypeError), match=name):
            model.fit(X, case.data()[1])


CHECKS = {
    check_clone_and_params: wrong.Misnamed(),
    check_pickle: wrong.ForgetsPickle(),
    check_pickle_is_small: wrong.PicklesGram(),
    check_rows_changed_later: wrong.KeepsRows(),
    check_parameters_changed_later: wrong.FollowsParameters(),
    check_inputs_unchanged: wrong.ChangesRows(),
    check_refit_forgets: wrong.Remembers(),
    check_predict_writes_nothing: wrong.WritesAtPredict(),
    check_failed_fit_is_unfitted: wrong.HalfFitted(),
    check_no_output_container: wrong.ClaimsOutput(),
    check_feature_counts_and_names: wrong.Nameless(),
    check_bad_data_is_refused: wrong.SwallowsNan(),
    check_weights_are_repetition: wrong.IgnoresWeights(),
    check_sparse_equals_dense: wrong.RefusesSparse(),
    check_layouts_and_dtypes: wrong.ReadsLayout(),
    check_fit_not_init_refuses: wrong.SwallowsNan(),
}
NOT_FOR_GRAMS = {check_pickle_is_small}  # as in scikit-learn, X_fit_ is the Gram matrix there


@pytest.mark.filterwarnings(
    "ignore:of .* queries"
)  # smoothers tell of queries of the checks that have few rows near them
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@each(ESTIMATOR_CASES)
def test_estimator_contract(case, check):
    if case.precomputed and check in NOT_FOR_GRAMS:
        pytest.skip("X_fit_ is the given Gram matrix, as in scikit-learn")
    if check is check_weights_are_repetition and not case.weighted:
        pytest.skip("its fit takes no weights, so there is nothing to compare")
    check(case)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_each_check_can_fail(check):
    with pytest.raises(BaseException) as caught:  # pytest.raises fails with an exception of its own kind
        check(EstimatorCase(CHECKS[check]))
    assert isinstance(caught.value, (AssertionError, AttributeError, ValueError, TypeError, pytest.fail.Exception))


def test_unchanged_inputs_also_at_predict():
    with pytest.raises(AssertionError):
        check_inputs_unchanged(EstimatorCase(wrong.ChangesRowsAtPredict()))


# ------------------------------------------------------------------------------------------------ kernels as parameters
@pytest.mark.parametrize("cls", PREDICTORS)
def test_nested_kernel_parameters(cls):
    model = cls(kernel=2 * RBF(0.5) + Linear())
    params = model.get_params()
    assert params["kernel__rbf__lengthscale"] == 0.5
    assert params["kernel__scale"] == 2
    before = model.kernel
    model.set_params(kernel__rbf__lengthscale=3.0, memory="1GB")
    assert model.kernel == 2 * RBF(3.0) + Linear()
    assert before == 2 * RBF(0.5) + Linear()  # kernels are values
    assert model.memory == "1GB"
    assert "RBF(lengthscale=3.0)" in repr(model)
    model.set_params(kernel=Matern(), kernel__lengthscale=0.2)  # the new kernel first, then its parameters
    assert model.kernel == Matern(lengthscale=0.2)


@pytest.mark.parametrize("cls", PREDICTORS)
def test_nested_parameters_that_do_not_exist(cls):
    with pytest.raises(ValueError, match=r"kernel='rbf' has no parameters \['lengthscale'\]; pass a kernel object"):
        cls(kernel="rbf").set_params(kernel__lengthscale=2.0)
    with pytest.raises(ValueError, match=r"no parameter 'width'; it has lengthscale"):
        cls(kernel=RBF()).set_params(kernel__width=2.0)
    with pytest.raises(ValueError, match="Invalid parameter 'shape'"):
        cls().set_params(shape=1)


# A lengthscale far from the distances leaves no basis function, a short one as many as there are rows.
@pytest.mark.filterwarnings("ignore:no basis function raises", "ignore:the basis functions reproduce")
@pytest.mark.parametrize("cls", PREDICTORS)
def test_kernel_shared_by_two_estimators(cls):
    X, y = data_for(cls)
    shared = RBF(0.8)
    seeded = {"random_state": 0} if "random_state" in inspect.signature(cls).parameters else {}
    a, b = sensitive(cls, kernel=shared, **seeded), sensitive(cls, kernel=shared, **seeded)
    T = regression(seed=1)[0]
    expected = answers(clone(a).fit(X, y), T)
    a.fit(X, y)
    b.set_params(kernel__lengthscale=5.0).fit(X, y)
    assert a.kernel is shared
    np.testing.assert_array_equal(answers(a, T), expected)
    assert np.abs(answers(b, T) - expected).max() > 1e-3


@pytest.mark.filterwarnings("ignore:n_vectors=50 is more than")
@pytest.mark.parametrize("cls", PREDICTORS)
def test_kernel_array_changed_after_fit(cls):
    X, y = data_for(cls)
    lengths, S = np.array([1.0, 2.0, 3.0]), np.eye(3)
    for kernel, array in ((RBF(lengths), lengths), (RBF(covariance=S), S)):
        model = sensitive(cls, kernel=kernel).fit(X, y)
        before, packed = answers(model, X[:5]), pickle.dumps(model)
        try:
            array *= 10.0
        except ValueError:
            continue  # the kernel has made the array read-only: as good
        np.testing.assert_array_equal(answers(model, X[:5]), before)
        np.testing.assert_array_equal(answers(pickle.loads(packed), X[:5]), before)
        model.set_params(alpha=0.1) if "alpha" in model.get_params() else None
        np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(model)), X[:5]), before)


def score_spread(search):
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    return np.ptp(scores)


# A lengthscale far from the distances leaves no basis function, a short one as many as there are rows.
@pytest.mark.filterwarnings("ignore:no basis function raises", "ignore:the basis functions reproduce")
@pytest.mark.parametrize("cls", PREDICTORS)
def test_grid_over_kernel_parameters_in_a_pipeline(cls):
    X, y = data_for(cls)
    for kernel, name in ((RBF(), "kernel__lengthscale"), (RBF() + 0.1 * Polynomial(2), "kernel__rbf__lengthscale")):
        pipeline = make_pipeline(StandardScaler(), sensitive(cls, kernel=kernel))
        step = pipeline.steps[-1][0]
        # Far from the distances a relevance vector machine has no basis function left, whichever end it is.
        grid = {f"{step}__{name}": [0.5, 1.0, 2.0] if cls is mercer.RVMClassifier else [0.05, 1.0, 20.0]}
        search = GridSearchCV(pipeline, grid, cv=3, scoring=size_of_answers).fit(X, y)
        scores = search.cv_results_["mean_test_score"]
        assert len(np.unique(scores.round(6))) == 3
        chosen = search.best_estimator_[-1].get_params()[name]
        assert chosen == search.best_params_[f"{step}__{name}"]


def dna_table(n=30):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("acgt"), 12)) for _ in range(n)]
    table = pd.DataFrame({"dna": words, "age": rng.normal(size=n)})
    return table, np.array([w.count("a") for w in words]) + table["age"].to_numpy()


# A lengthscale far from the distances leaves no basis function, a short one as many as there are rows.
@pytest.mark.filterwarnings("ignore:no basis function raises", "ignore:the basis functions reproduce")
@pytest.mark.parametrize("cls", PREDICTORS)
def test_grid_over_a_kernel_of_strings_and_numbers(cls):
    table, y = dna_table()
    y = suited(cls(), y)
    model = sensitive(cls, kernel=Spectrum(3).on("dna") * RBF().on("age"))
    names = [n for n in model.get_params() if n.endswith("lengthscale")]
    grid = {names[0]: [0.1, 1.0, 10.0]}
    search = GridSearchCV(model, grid, cv=KFold(3), scoring=size_of_answers).fit(table, y)
    assert score_spread(search) > 1e-6
    best = search.best_estimator_
    assert list(best.feature_names_in_) == ["dna", "age"]
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict(table), best.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        best.predict(table[["age", "dna"]])
    strings = sensitive(cls, kernel=Spectrum(2)).fit(table["dna"].tolist(), y)
    assert strings.predict(["acgtacgt"]).shape == (1,)
    scores = cross_val_score(sensitive(cls, kernel=Spectrum(2)), table[["dna"]], y, cv=3, scoring=size_of_answers)
    assert scores.shape == (3,)


def test_columns_changed_after_fit():
    table, y = dna_table()
    X = table.to_numpy(dtype=object)
    model = KernelRidge(kernel=Spectrum(2).on(0) + RBF().on(1)).fit(X, y)
    fresh = X.copy()
    before = model.predict(fresh)
    X[:, 0], X[:, 1] = "aaaa", 100.0
    np.testing.assert_array_equal(model.predict(fresh), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(fresh), before)


def test_refit_with_other_parameters_forgets():
    X, y = regression()
    model = KernelRidge().fit(X, y)
    assert model.coef_.shape == (3,)
    model.set_params(kernel=Sigmoid(gamma=1.0, coef0=-1.0), indefinite="clip")
    with pytest.warns(NumericalWarning, match="repaired by clip"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    assert hasattr(model, "repair_")
    assert not hasattr(model.set_params(kernel="rbf").fit(X, y), "repair_")
    model = KernelRidgeCV(kernel=RBF(), tune="all", max_iter=2).fit(X, y)
    assert hasattr(model, "tuning_")
    assert not hasattr(model.set_params(tune=None).fit(X, y), "tuning_")


def test_sparse_rows_changed_after_fit():
    X, y = regression()
    S = sp.csr_array(np.where(X > 0, X, 0.0))
    model = KernelRidge(kernel="rbf").fit(S, y)
    before = model.predict(X)
    S.data *= 7.0
    np.testing.assert_array_equal(model.predict(X), before)


# ------------------------------------------------------------------------------------------------ F01-F17: bad and odd input
def fails_or_is_finite(model, X, y, weight=None, messages="", T=None):
    """Ends with a finite model, or with a ValueError that says what is wrong."""
    error = None
    if "shrinking" in model.get_params():  # at a penalty of 1e60 all ten million steps are made, to the same warning
        model.set_params(max_iter=100_000)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            warnings.simplefilter("ignore", mercer.errors.ConvergenceWarning)
            model.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
    except ValueError as raised:
        error = str(raised)
    if error is not None:
        assert messages, error
        assert any(m in error for m in messages.split("|")), error
        return None
    predicts = hasattr(model, "predict") and not is_clusterer(model)
    with warnings.catch_warnings():  # smoothers tell of rows that have no others near them when they are asked
        warnings.simplefilter("ignore", NumericalWarning)
        predictions = (type(model).predict if predicts else answers)(model, X if T is None else T)
    nothing = EstimatorCase(model).is_density & (predictions == -np.inf)  # the logarithm of 0, beyond windows that end
    assert (np.isfinite(predictions) | nothing).all()
    return predictions


@each(VECTOR_CASES)
def test_empty_input(case):
    _, y = case.data()
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        clone(case.estimator).fit(np.empty((0, 3)), [])
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        clone(case.estimator).fit(np.empty((len(y), 0)), y)
    model = clone(case.estimator).fit(*case.data())
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        case.answer(model, np.empty((0, 3)))


@pytest.mark.filterwarnings("ignore:n_components=2 is more than the number of rows")
@each(ESTIMATOR_CASES)
def test_one_sample(case):
    X, y = case.data()
    said = "n_samples=1|number of classes has to be greater than one"
    fails_or_is_finite(clone(case.estimator), case.rows(X[:1]), y[:1], messages=said)
    both = [int(np.argmin(y)), int(np.argmax(y))]
    few = "number of members in each class|number of splits|n_samples=2"  # too few for folds, or to be neighbours
    two = fails_or_is_finite(clone(case.estimator), case.rows(X[both]), y[both], messages=few)
    columns = (1,) if case.needs_variance else case.columns
    too_few = hasattr(case.estimator, "cv") or getattr(case.estimator, "n_neighbors", 0) > 2
    assert two.shape == (2, *columns) if two is not None else too_few
    if not case.weighted:
        return
    weight = np.zeros(len(y))
    weight[3] = 1.0
    fails_or_is_finite(clone(case.estimator), case.rows(X), y, weight, messages=said)


@each(VECTOR_CASES)
def test_one_feature_and_shapes(case):
    X, y = case.data()
    model = clone(case.estimator).fit(X[:, :1], y)
    assert case.answer(model, X[:4, :1]).shape == (4, *case.columns)
    if case.ridge:
        assert case.answer(clone(case.estimator).fit(X, y[:, None]), X[:4]).shape == (4, 1)
        assert case.answer(clone(case.estimator).fit(X, np.column_stack([y, -y])), X[:4]).shape == (4, 2)
    for bad in (X[0], X[None], 3.0):
        with pytest.raises(ValueError, match=r"array|Expected 2D"):
            clone(case.estimator).fit(bad, y)
        with pytest.raises(ValueError, match=r"array|Expected 2D"):
            case.answer(model, bad)
    with pytest.raises(ValueError, match=r"has 2 features, but .* is expecting 1"):
        case.answer(model, X[:, :2])


@each(ESTIMATOR_CASES)
def test_degenerate_rows_and_targets(case):
    X, y = case.data()
    same = np.tile(X[:1], (len(X), 1))
    half = np.vstack([X[:20], X[:20]])
    constant = np.column_stack([X[:, :2], np.full(len(X), 4.0)])
    flat = "has no spread" if case.needs_spread else ""
    for rows in (half, constant) if case.needs_variance else (same, half, constant):
        got = fails_or_is_finite(clone(case.estimator), case.rows(rows), y, messages="" if rows is half else flat)
        assert (got is None) == (rows is not half and case.needs_spread)
    for target in (np.zeros_like(y), np.full_like(y, 5.0)):
        said = "greater than one|there is no variance"
        got = fails_or_is_finite(clone(case.estimator), case.rows(X), target, messages=said)
        if case.ridge and case.estimator.fit_intercept:
            np.testing.assert_allclose(got, target, atol=1e-7)
    said = f"n_samples=1|greater than one|there is no variance|{flat or 'n_samples=1'}"
    fails_or_is_finite(clone(case.estimator), case.rows(same), np.ones_like(y), messages=said)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-30, 1e30, 1e100, 1e160, 1e300])
@each(VECTOR_CASES)
def test_scales_of_rows(case, size):
    X, y = case.data()
    said = "rescale|overflow|underflow|too large for dtype"
    fails_or_is_finite(clone(case.estimator), X * size, y, messages=said)
    mixed = X * np.array([1.0, 1.0, size])
    fails_or_is_finite(clone(case.estimator), mixed, y, messages=said)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-30, 1e30, 1e140, 1e160, 1e300])
@each(RIDGE_CASES)
def test_scales_of_targets(case, size):
    """The solution is linear in y, at any scale whose squares are numbers; beyond that the message says so."""
    X, y = case.data()
    K = case.rows(X)
    got = fails_or_is_finite(clone(case.estimator), K, y * size, messages="rescale y" if size > 1e150 else "")
    if got is not None:
        np.testing.assert_allclose(got / size, case.answer(clone(case.estimator).fit(K, y), K), rtol=1e-5, atol=1e-6)


@each([c for c in RIDGE_CASES if c.estimator.fit_intercept])
def test_large_mean_of_the_targets(case):
    X, y = case.data()
    K = case.rows(X)
    shifted = case.answer(clone(case.estimator).fit(K, y + 2.0**27), K) - 2.0**27
    np.testing.assert_allclose(shifted, case.answer(clone(case.estimator).fit(K, y), K), atol=2e-6)


# Over half of a column may be equal, and truth values are no columns for polynomials: smoothers warn of both.
@pytest.mark.filterwarnings("ignore::mercer.errors.NumericalWarning")
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "bool", "float16"])
@each_first(VECTOR_CASES)
def test_number_types(case, dtype):
    X, y = case.data()
    X = (4 * np.abs(X)).astype(dtype)
    X[::2, 0] = X[::3, 1] = X[::5, 2] = 0  # so that rows differ also as truth values, and in every column
    expected = case.answer(clone(case.estimator).fit(X.astype(float), y), X.astype(float))
    np.testing.assert_allclose(case.answer(clone(case.estimator).fit(X, y), X), expected, rtol=1e-10, atol=1e-10)
    y = (10 * y).astype("int16" if dtype.startswith("u") or dtype in ("bool", "float16") else dtype)
    expected = case.answer(clone(case.estimator).fit(X, y.astype(float)), X)
    np.testing.assert_allclose(case.answer(clone(case.estimator).fit(X, y), X), expected, rtol=1e-10, atol=1e-10)


@each(VECTOR_CASES)
def test_what_is_no_number(case):
    X, y = case.data()
    words = np.array([["a", "b", "c"]] * len(y))
    dates = np.full(X.shape, "2020-01-01", dtype="datetime64[D]")
    for bad in (words, words.tolist(), words.astype(object), words[:, 0].tolist(), X + 1j, dates):
        with pytest.raises((ValueError, TypeError)) as caught:
            clone(case.estimator).fit(bad, y)
        assert str(caught.value)
    targets = [y + 1j, sp.csr_array(y[:, None])]
    targets += [] if is_classifier(case.estimator) else [words[:, 0], words[:, 0].astype(object), dates[:, 0]]
    for bad in targets if takes_targets(case) else []:
        with pytest.raises((ValueError, TypeError), match=r"y|[Cc]omplex|string|sparse"):
            clone(case.estimator).fit(X, bad)
    with pytest.raises((ValueError, TypeError), match="dict of columns"):
        clone(case.estimator).fit({"a": X[:, 0], "b": X[:, 1]}, y)


@each(ESTIMATOR_CASES)
def test_lengths_that_differ(case):
    X, y = case.data()
    if takes_targets(case):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            clone(case.estimator).fit(case.rows(X), y[:-1])
        with pytest.raises(ValueError, match=r"requires y to be passed"):
            clone(case.estimator).fit(case.rows(X), None)
    for bad in (np.ones(len(y) - 1), np.ones((len(y), 2))) if case.weighted else ():
        with pytest.raises(ValueError, match=r"sample_weight"):
            clone(case.estimator).fit(case.rows(X), y, sample_weight=bad)


@each(WEIGHTED_CASES)
def test_weights(case):
    X, y = case.data()
    K, rng = case.rows(X), np.random.default_rng(0)
    for bad, said in (
        (-np.ones(len(y)), "40 negative"),
        (np.zeros(len(y)), "zero for every row"),
        (np.array(["a"] * len(y)), "sample_weight must hold real numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            clone(case.estimator).fit(K, y, sample_weight=bad)
    equal = case.answer(clone(case.estimator).fit(K, y), K)
    np.testing.assert_allclose(
        case.answer(clone(case.estimator).fit(K, y, sample_weight=1.0), K), equal, rtol=1e-9, atol=1e-9
    )
    for low, high in ((-300, 0), (0, 300), (-300, 300)):
        w = 10.0 ** rng.uniform(low, high, len(y))
        with pytest.raises(ValueError, match=r"sample_weight has entries from .* to .*; rescale them"):
            clone(case.estimator).fit(K, y, sample_weight=w)
    for low, high in ((-99, -98), (98, 99), (-3, 3), (-99, 99)):
        w = 10.0 ** rng.uniform(low, high, len(y))
        said = "nu is infeasible|but a rule for bandwidths counts rows"
        got = fails_or_is_finite(clone(case.estimator), K, y, w, messages=said)
        parameters = case.estimator.get_params()
        assert got is not None or "nu" in parameters or ("bandwidth" in parameters and w.sum() < 1.5)


@each([c for c in WEIGHTED_CASES if not c.precomputed])
def test_rows_of_weight_zero_are_absent(case):
    X, y = case.data()
    w = np.ones(len(y))
    w[::3] = 0.0
    expected = case.answer(clone(case.estimator).fit(X[w > 0], y[w > 0]), X)
    np.testing.assert_allclose(
        case.answer(clone(case.estimator).fit(X, y, sample_weight=w), X), expected, rtol=1e-8, atol=1e-8
    )


@each(VECTOR_CASES)
def test_feature_names(case):
    X, y = case.data()
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = clone(case.estimator).fit(table, y)
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        case.answer(model, table[["c", "b", "a"]])
    with pytest.raises(ValueError, match=r"Feature names seen at fit time, yet now missing:\n- b"):
        case.answer(model, table[["a", "c"]])
    with pytest.raises(ValueError, match=r"Feature names unseen at fit time:\n- d"):
        case.answer(model, table.assign(d=1.0))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        case.answer(model, X)


@each(VECTOR_CASES)
def test_tables(case):
    X, y = case.data()
    X = np.round(X, 2)
    expected = case.answer(clone(case.estimator).fit(X, y), X[:6])
    table = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(len(y))[::-1])
    forms = [
        table,
        table.convert_dtypes(),
        table.astype("float64[pyarrow]"),
        pl.DataFrame(table.to_dict("list")),
        pl.DataFrame(table.to_dict("list")).to_arrow(),
    ]
    for form in forms:
        model = clone(case.estimator).fit(form, pd.Series(y))
        np.testing.assert_allclose(case.answer(model, form[:6]), expected, rtol=1e-9, atol=1e-9)
    holed = table.convert_dtypes()
    holed.iloc[3, 1] = pd.NA
    with pytest.raises(ValueError, match=r"NaN|NA"):
        clone(case.estimator).fit(holed, y)


@each(PRECOMPUTED_CASES)
def test_precomputed_bad_input(case):
    X, y = case.data()
    K = case.rows(X)
    with pytest.raises(ValueError, match=r"square matrix to fit, got \(40, 39\)"):
        clone(case.estimator).fit(K[:, :-1], y)
    with pytest.raises(ValueError, match=r"square matrix to fit, got \(40, 41\)"):
        w = np.ones(len(y))
        w[0] = 0.0  # rows that are dropped must not hide the shape
        clone(case.estimator).fit(np.column_stack([K, K[:, 0]]), y, **case.weights(w))
    crooked = K.copy()
    crooked[2, 5] += 1e-3
    with pytest.raises(mercer.errors.NotSymmetricError, match=r"not symmetric: entries differ by up to 0.001"):
        clone(case.estimator).fit(crooked, y)
    model = clone(case.estimator).fit(K, y)
    with pytest.raises(ValueError, match="expecting 40 features"):
        case.answer(model, K[:, :-1])
    with pytest.raises(ValueError, match="NaN"):
        case.answer(model, np.where(np.eye(40) > 0, np.nan, K))
    if not case.needs_variance:
        assert fails_or_is_finite(clone(case.estimator), np.zeros_like(K), y) is not None


@each([c for c in WEIGHTED_CASES if c.precomputed])
def test_precomputed_rows_of_weight_zero(case):
    X, y = case.data()
    w = np.ones(len(y))
    w[[0, 7, 39]] = 0.0
    T = regression(seed=1)[0]
    model = case.precise().fit(case.rows(X), y, sample_weight=w)
    expected = case.answer(case.precise().fit(case.rows(X[w > 0]), y[w > 0]), case.test_rows(T, X[w > 0]))
    np.testing.assert_allclose(case.answer(model, case.test_rows(T, X)), expected, rtol=1e-9, atol=1e-9)
    if case.ridge:
        assert model.smoother().shape == (37, 37)
        assert np.trace(model.smoother()) == pytest.approx(model.degrees_of_freedom())


@pytest.mark.filterwarnings("ignore:n_vectors=50 is more than")
@pytest.mark.parametrize("cls", PREDICTORS)
def test_user_kernels_that_misbehave(cls):
    X, y = data_for(cls)

    def raising(a, b):
        raise RuntimeError("my own fault")

    with pytest.raises(RuntimeError, match="my own fault"):
        cls(kernel=raising).fit(X, y)
    for bad, said in (
        (lambda a, b: np.nan, "NaN"),
        (lambda a, b: [1.0, 2.0], "shape|sequence|inhomogeneous|returned"),
        (lambda a, b: "x", "returned|convert"),
        (lambda a, b: float(a[0]), "symmetric"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            cls(kernel=bad).fit(X, y)
    model = sensitive(cls, kernel=lambda a, b: float(a @ b) ** 2).fit(X, y)  # no value is negative: some are weights
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"lambda|pickle"):
        pickle.dumps(model)


# The targets are pure noise.
@pytest.mark.filterwarnings("ignore:no basis function raises", "ignore:the basis functions reproduce",
                            "ignore:n_vectors=50 is more than")  # fmt: skip
@pytest.mark.parametrize("cls", PREDICTORS)
def test_very_wide_rows(cls):
    rng = np.random.default_rng(0)
    places = (np.repeat(np.arange(50), 10), rng.choice(1_000_000, 500, replace=False))
    S = sp.csr_array((rng.random(500), places), shape=(50, 1_000_000))
    y = suited(cls(), rng.standard_normal(50))
    assert np.isfinite(cls(kernel="rbf").fit(S, y).predict(S[:5])).all()
    X = rng.standard_normal((12, 100_000))
    assert np.isfinite(cls(kernel="linear").fit(X, suited(cls(), np.arange(12.0))).predict(X)).all()


@pytest.mark.parametrize("cls", PREDICTORS)
def test_kernel_that_is_none(cls):
    X, y = data_for(cls)
    for bad in (None, 3, "parabolic"):
        if bad is inspect.signature(cls).parameters["kernel"].default:  # None is a kernel of its own choice
            continue
        with pytest.raises((ValueError, TypeError), match="kernel"):
            cls(kernel=bad).fit(X, y)


def test_pairwise_tag_only_for_precomputed():
    for case in ESTIMATOR_CASES:
        assert case.estimator.__sklearn_tags__().input_tags.pairwise == case.precomputed

"""compare_machines: its numbers by hand, the same folds and as many penalties for all, failures and warnings that are told."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn import svm
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

import mercer
from mercer import SVC, SVR, KernelLogistic, KernelRidge, RVMRegressor, compare_machines
from mercer.errors import NumericalWarning
from mercer.estimators import Comparison, compare
from mercer.kernels import RBF, Linear, Matern, Spectrum

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 2))
TWO = np.where(np.hypot(*X.T) + 0.3 * RNG.standard_normal(90) > 1.2, "out", "in")
THREE = np.digitize(X[:, 0] + 0.2 * RNG.standard_normal(90), [-0.6, 0.6])
T = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(90)
NEW = RNG.standard_normal((50, 2))
NEW_TWO = np.where(np.hypot(*NEW.T) > 1.2, "out", "in")
KERNELS = [RBF(2.0), RBF(1.0), RBF(0.5)]


class Warns(SVC):
    """Warns in every fit, with another number each time."""

    def fit(self, X, y, sample_weight=None):
        warnings.warn(f"only {len(y)} rows, gap {1e-7 * self.C:g}", NumericalWarning, stacklevel=2)
        return super().fit(X, y, sample_weight)


class Breaks(SVC):
    """Cannot be fitted with C > 1."""

    def fit(self, X, y, sample_weight=None):
        if self.C > 1:
            raise RuntimeError("C is too large for me")
        return super().fit(X, y, sample_weight)


# ---------------------------------------------------------------------------------------------- the numbers
def test_a_classifier_by_hand():
    folds = list(StratifiedKFold(3, shuffle=True, random_state=5).split(X, TWO))
    grid = {"kernel": KERNELS, "C": [0.1, 1.0, 10.0]}
    found = compare_machines(X, TWO, machines={"mine": (SVC(), grid)}, cv=folds, X_test=NEW, y_test=NEW_TWO)["mine"]
    errors = {
        (i, C): np.mean([1 - SVC(C=C, kernel=KERNELS[i]).fit(X[a], TWO[a]).score(X[b], TWO[b]) for a, b in folds])
        for i in range(3)
        for C in grid["C"]
    }
    best = min(errors, key=errors.get)  # the first of equal ones
    assert found.parameters == {"kernel": KERNELS[best[0]], "C": best[1]}
    np.testing.assert_allclose(found.cv_error, errors[best], rtol=1e-12)
    model = SVC(C=best[1], kernel=KERNELS[best[0]]).fit(X, TWO)
    np.testing.assert_allclose(found.error, 1 - model.score(NEW, NEW_TWO), rtol=1e-12)
    assert found.n_vectors == len(model.support_)
    assert found.log_loss is None
    np.testing.assert_array_equal(found.model.decision_function(NEW), model.decision_function(NEW))
    assert min(found.tuning_seconds, found.fit_seconds, found.predict_seconds) > 0


def test_a_regressor_as_by_grid_search():
    folds = list(KFold(4, shuffle=True, random_state=5).split(X))
    grid = {"kernel": KERNELS, "alpha": [1.0, 0.1, 0.01]}
    found = compare_machines(X[:70], T[:70], machines={"ridge": (KernelRidge(), grid)}, X_test=X[70:], y_test=T[70:],
                             cv=KFold(4, shuffle=True, random_state=5))["ridge"]  # fmt: skip
    folds = KFold(4, shuffle=True, random_state=5)
    search = GridSearchCV(KernelRidge(), grid, cv=folds, scoring="neg_mean_squared_error").fit(X[:70], T[:70])
    assert found.parameters == search.best_params_
    np.testing.assert_allclose(found.cv_error, np.sqrt(-search.best_score_), rtol=1e-10)
    np.testing.assert_allclose(found.error, np.sqrt(np.mean((search.predict(X[70:]) - T[70:]) ** 2)), rtol=1e-10)
    assert found.n_vectors == 70


def test_log_losses_by_hand():
    one = {"logistic": (KernelLogistic(0.1, kernel=RBF(1.0)), {})}
    found = compare_machines(X, TWO, machines=one, X_test=NEW, y_test=NEW_TWO, cv=2)["logistic"]
    p = KernelLogistic(0.1, kernel=RBF(1.0)).fit(X, TWO).predict_proba(NEW)
    np.testing.assert_allclose(found.log_loss, log_loss(NEW_TWO, p), rtol=1e-12)
    one = {"RVM": (RVMRegressor(RBF(1.0)), {})}
    found = compare_machines(X[:70], T[:70], machines=one, X_test=X[70:], y_test=T[70:], cv=2)["RVM"]
    mean, sd = RVMRegressor(RBF(1.0)).fit(X[:70], T[:70]).predict(X[70:], return_std=True)
    density = np.exp(-((T[70:] - mean) ** 2) / (2 * sd**2)) / np.sqrt(2 * np.pi * sd**2)
    np.testing.assert_allclose(found.log_loss, -np.log(density).mean(), rtol=1e-10)


def test_equal_errors_take_the_smoothest():
    """Two far groups: every setting is right everywhere, so that the first is taken."""
    far = np.where(np.arange(40)[:, None] < 20, -5.0, 5.0) + 0.1 * np.random.default_rng(0).standard_normal((40, 1))
    grids = {"kernel": KERNELS, "C": [1.0, 10.0]}, {"kernel": KERNELS[::-1], "C": [10.0, 1.0]}
    found = compare_machines(far, np.arange(40) < 20, machines={i: (SVC(), g) for i, g in enumerate(grids)}, cv=3)
    assert found["0"].cv_error == found["1"].cv_error == 0
    assert found["0"].parameters == {"kernel": KERNELS[0], "C": 1.0}
    assert found["1"].parameters == {"kernel": KERNELS[2], "C": 10.0}
    machines = compare._machines("regression", compare._kernels(None, far), 1.0, 40)
    assert np.diff([k.lengthscale for k in machines["ridge"][1]["kernel"]]).max() < 0
    assert np.diff(machines["ridge"][1]["alpha"]).max() < 0 < np.diff(machines["SVM"][1]["C"]).min()


# ---------------------------------------------------------------------------------------------- all machines
@pytest.mark.parametrize(
    ("y", "task", "last"),
    [(TWO, "classification", "logistic"), (THREE, "classification", "logistic"), (T, "regression", "ridge")]
)  # fmt: skip
def test_all_machines(y, task, last, monkeypatch):
    monkeypatch.setattr(compare, "_WIDTHS", (1.0, 0.5))
    monkeypatch.setattr(compare, "_PENALTIES", (1.0,))
    found = compare_machines(X, y, cv=2)
    names = [r.name for r in found.results]
    assert names == ["SVM", "L2VM", "L1VM", "RVM", last, "budget"]
    assert (found.task, found.n_train, found.n_test) == (task, 63, 27)
    assert all(r.failure is None for r in found.results)
    guess = 0.5 if task == "classification" else np.std(T)
    assert all(0 <= r.error < guess for r in found.results)
    assert found["RVM"].n_vectors < found["L2VM"].n_vectors
    assert found["budget"].n_vectors == 10
    assert found["RVM"].log_loss is not None
    assert {repr(r.parameters["kernel"]) for r in found.results} <= {
        repr(k) for k in compare._kernels(None, _train(y, task))
    }


def _train(y, task):
    seed = int(np.random.default_rng(0).integers(2**31))
    return compare._parts(X, y, None, None, task, 0.3, seed)[0]


def test_every_machine_has_as_many_penalties_on_the_same_kernels():
    for task in ("classification", "regression"):
        machines = compare._machines(task, KERNELS, 2.0, 400)
        for name, (_, grid) in machines.items():
            assert grid["kernel"] is KERNELS
            penalties = grid.get("alpha", grid.get("C"))
            assert name == "RVM" or len(penalties) == 6
        sizes = [compare._machines(task, KERNELS, 1.0, n)["budget"][0].n_vectors for n in (8, 100, 400, 10**6)]
        assert sizes == [2, 10, 20, 100]


def test_answers_do_not_depend_on_the_unit_of_the_targets():
    names = ["SVM", "L1VM", "ridge"]
    a, b = (compare_machines(X, y, machines=names, kernel=RBF(1.0), cv=2) for y in (T, 1000 * T))
    for name in names:
        np.testing.assert_allclose(b[name].error, 1000 * a[name].error, rtol=1e-2)
    for name, unit in (("L1VM", "alpha"), ("SVM", "epsilon"), ("SVM", "C")):
        np.testing.assert_allclose(b[name].parameters[unit], 1000 * a[name].parameters[unit])
    assert a["ridge"].parameters["alpha"] == b["ridge"].parameters["alpha"]


def test_one_seed_gives_one_table():
    first, again = (
        compare_machines(X, TWO, machines=["SVM", "L2VM"], kernel=KERNELS[1:], cv=2, random_state=3) for _ in range(2)
    )
    other = compare_machines(X, TWO, machines=["SVM", "L2VM"], kernel=KERNELS[1:], cv=2, random_state=4)
    timed = ("tuning_seconds", "fit_seconds", "predict_seconds")
    tables = [{k: v for k, v in c.as_dict().items() if k not in timed} for c in (first, again, other)]
    assert tables[0] == tables[1] != tables[2]


def test_kernels_of_ones_own():
    found = compare_machines(X, T, machines=["ridge"], kernel=[Matern(1.5), Linear()], cv=3)
    assert found["ridge"].parameters["kernel"] == Matern(1.5)
    assert compare_machines(X, T, machines="ridge", kernel="linear", cv=3)["ridge"].model.kernel_ == Linear()
    words = ["".join(np.random.default_rng(i).choice(list("acgt"), 12)) for i in range(40)]
    y = np.array([w.count("a") > 2 for w in words])
    found = compare_machines(words, y, machines=["SVM", "L1VM"], kernel=Spectrum(1).normalise(), cv=2)
    assert all(r.error < 0.5 for r in found.results)
    assert compare_machines(X, THREE.astype(float), machines="ridge", task="regression", cv=3).task == "regression"


# ---------------------------------------------------------------------------------------------- what goes wrong is told
def test_a_machine_that_fails_does_not_stop_the_others():
    machines = {"bad": (Breaks(C=2), {}), "half": (Breaks(), {"C": [0.5, 1.0, 5.0]}), "good": (SVC(), {})}
    found = compare_machines(X, TWO, machines=machines, cv=2)
    assert found["bad"].failure == "RuntimeError: C is too large for me"
    assert np.isnan(found["bad"].error)
    assert found["bad"].model is None
    assert (found["half"].failure, found["half"].n_failed) == (None, 1)
    assert found["half"].parameters["C"] <= 1
    assert found["good"].error < 0.5
    shown = str(found)
    assert "bad failed: RuntimeError: C is too large for me" in shown
    assert "half: settings that could not be fitted: 1" in shown
    with pytest.raises(ValueError, match=r"could be fitted.*bad: RuntimeError"):
        compare_machines(X, TWO, machines={"bad": machines["bad"]}, cv=2)


def test_warnings_of_the_choice_are_counted_and_those_of_the_last_fit_raised():
    with pytest.warns(NumericalWarning, match="only 63 rows") as caught:
        found = compare_machines(X, TWO, machines={"SVM": (Warns(), {"C": [1.0, 2.0]})}, cv=3)
    assert len(caught) == 1
    r = found["SVM"]
    assert r.n_warnings == 6
    assert list(r.warned.values()) == [6]
    assert "SVM: warnings in tuning: 6, of which 6 times: NumericalWarning: only 42 rows, gap 1e-07" in str(found)


@pytest.mark.filterwarnings(
    "ignore::mercer.errors.NumericalWarning"
)  # the relevance vector machine is a constant, and says so
def test_targets_that_are_constant():
    found = compare_machines(X, np.full(90, 1.5), machines=["SVM", "ridge", "RVM"], kernel=RBF(1.0), cv=2)
    assert [r.error for r in found.results] == [0.0, 0.0, 0.0]
    assert found["RVM"].log_loss is None


def test_tables_are_rows_too():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=["a", "b"], index=range(500, 590))
    a = compare_machines(table, pd.Series(TWO, index=range(90, 180)), machines="SVM", kernel=RBF(1.0), cv=2)["SVM"]
    b = compare_machines(X, TWO, machines="SVM", kernel=RBF(1.0), cv=2)["SVM"]
    assert (a.error, a.cv_error, a.n_vectors) == (b.error, b.cv_error, b.n_vectors)


def test_progress(capsys, monkeypatch):
    monkeypatch.setattr(compare, "_PAUSE", 0.0)
    compare_machines(X, TWO, machines={"SVM": (SVC(), {"C": [1.0, 2.0]}), "bad": (Breaks(C=2), {})}, cv=2, verbose=True)
    out = capsys.readouterr().out
    assert "SVM: " in out
    assert "2 of 2 settings, error in the folds" in out
    assert "bad: " in out
    assert "failed: RuntimeError" in out


BAD = [
    ({"y": np.zeros(90)}, "one class"), ({"y": T[:5]}, "inconsistent numbers"), ({"y": np.column_stack([T, T])}, "1d array"),
    ({"y": np.r_[T[:89], np.nan]}, "y holds NaN"), ({"y": np.r_[["in"] * 89, ["out"]]}, "class of one row"),
    ({"X": X[:0], "y": T[:0]}, "no rows"), ({"X": np.where(X > 1, np.nan, X)}, "NaN"), ({"X": ["ab"] * 90}, "string kernel"),
    ({"cv": 1}, "at least 2"), ({"cv": True}, "at least 2"), ({"cv": 40}, "40 folds need as many rows"),
    ({"cv": 64, "y": T}, "there are 63 training rows"), ({"task": "guess"}, "task='guess' must be one of"),
    ({"machines": ["SVN"]}, "'SVN' is no machine for classification; there are SVM"), ({"machines": []}, "machines is empty"),
    ({"machines": {}}, "machines is empty"), ({"machines": ["ridge"]}, "'ridge' is no machine for classification"),
    ({"machines": {"a": (SVR(), {})}}, "SVR, which is not for classification"),
    ({"machines": {"a": (SVC(), {"D": [1]})}}, "Invalid parameter 'D'"), ({"test_size": 0}, "test_size"),
    ({"kernel": "precomputed"}, "a kernel of rows"), ({"kernel": []}, "a kernel of rows"),
    ({"X_test": NEW}, "together, or neither"), ({"X_test": NEW, "y_test": NEW_TWO[:3]}, "inconsistent numbers"),
    ({"X_test": NEW[:, :1], "y_test": NEW_TWO}, "X_test has 1 columns, but X has 2"),
    ({"X_test": NEW, "y_test": np.full(50, "new")}, "y_test holds new, which is no class of y"),
    ({"X_test": NEW * np.nan, "y_test": NEW_TWO, "machines": ["SVM"], "kernel": RBF(), "cv": 2}, "none of the machines"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "match"), BAD, ids=lambda v: v if isinstance(v, str) else "")
def test_bad_input(change, match):
    with pytest.raises(ValueError, match=match):
        compare_machines(**{"X": X, "y": TWO, **change})


def test_machines_that_are_no_pairs():
    with pytest.raises(TypeError, match=r"must be a pair \(estimator, grid\)"):
        compare_machines(X, TWO, machines={"a": SVC()})


# ---------------------------------------------------------------------------------------------- the table and the picture
@cache
def small():
    machines = {"SVM": (SVC(), {}), "other": (svm.SVC(), {}), "logistic": (KernelLogistic(kernel=RBF(1.0)), {}),
                "bad": (Breaks(C=2), {})}  # fmt: skip
    return compare_machines(X, TWO, machines=machines, X_test=NEW, y_test=NEW_TWO, cv=2)


def test_the_table():
    found = small()
    lines = str(found).splitlines()
    assert lines[0] == "classification, 90 training and 50 test rows; error: share of wrong classes"
    assert lines[1].split("  ")[0] == "machine"
    assert lines[2].split()[:3] == ["SVM", f"{found['SVM'].error:.4f}", str(found["SVM"].n_vectors)]
    assert lines[3].split()[2:4] == ["-", "-"]  # scikit-learn's machine has no expansion
    assert lines[5].split()[:3] == ["bad", "failed", "-"]
    columns = found.as_dict()
    assert columns["name"] == ["SVM", "other", "logistic", "bad"]
    assert columns["n_vectors"][1] is None
    assert {len(values) for values in columns.values()} == {4}
    with pytest.raises(KeyError, match="'RVM' is none of SVM, other, logistic, bad"):
        found["RVM"]
    assert "compare_machines" in mercer.__all__
    assert isinstance(found, Comparison)


def test_a_table_of_pandas():
    pytest.importorskip("pandas")
    found = small()
    table = found.to_pandas()
    assert list(table.index) == ["SVM", "other", "logistic", "bad"]
    assert table.loc["SVM", "error"] == found["SVM"].error


def test_the_picture():
    plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")
    from mercer.plots import ComparisonDisplay

    found = small()
    shown = ComparisonDisplay.from_comparison(found)
    left, right = shown.axes_
    points = [tuple(line.get_xydata()[0]) for line in left.lines]
    assert points == [(found[n].n_vectors, found[n].error) for n in ("SVM", "logistic")]
    assert [t.get_text() for t in left.texts] == ["SVM", "logistic"]
    assert [t.get_text() for t in right.get_yticklabels()] == ["SVM", "other", "logistic"]
    widths = [bar.get_width() for bar in right.patches]
    np.testing.assert_allclose(widths[:3], [found[n].fit_seconds for n in ("SVM", "other", "logistic")])
    np.testing.assert_allclose(widths[3:], [found[n].predict_seconds for n in ("SVM", "other", "logistic")])
    assert left.get_ylabel() == "share of wrong classes"
    crowded = ComparisonDisplay(["one", "two", "three"], [0.1, 0.1, 0.1], [90, 90, 95], [1] * 3, [1] * 3).plot()
    boxes = [t.get_window_extent() for t in crowded.axes_[0].texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    own = plt.subplots(1, 2)[1]
    assert ComparisonDisplay.from_comparison(found, axes=own).axes_[0] is own[0]
    with pytest.raises(ValueError, match="one entry for each machine, got names 2, errors 1"):
        ComparisonDisplay(["a", "b"], [0.1], [1, 2], [1, 1], [1, 1])
    plt.close("all")

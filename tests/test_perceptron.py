"""The kernel perceptron (M3) against the textbook's loop, scikit-learn's linear perceptron and Novikoff's bound."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Perceptron
from sklearn.utils.estimator_checks import check_param_validation, parametrize_with_checks

from mercer.errors import ConvergenceWarning, NanError, NotPSDError, NotSymmetricError, NumericalWarning
from mercer.estimators import perceptron as module
from mercer.estimators.perceptron import KernelPerceptron
from mercer.gram import GivenGram
from mercer.kernels import RBF, Linear, Pairwise, Polynomial, Sigmoid, Spectrum
from mercer.random import generator
from mercer.solvers import perceptron as solver
from mercer.solvers.perceptron import (
    DualScores,
    PerceptronState,
    PrimalScores,
    compression_bound,
    mistake_bound,
    solve_perceptron,
)

VARIANTS = ["plain", "averaged", "voted", "pocket"]
TIGHT = {"rtol": 1e-9, "atol": 1e-9}

each_variant = pytest.mark.parametrize("variant", VARIANTS)
with_intercept = pytest.mark.parametrize("intercept", [False, True], ids=["origin", "bias"])
of_classes = pytest.mark.parametrize("n_classes", [2, 4])
unseparated = pytest.mark.filterwarnings("ignore::mercer.errors.ConvergenceWarning")


def noisy(n, n_classes, seed=0, d=3):
    """Rows of overlapping classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    X = rng.standard_normal((n, d)) + 1.5 * np.eye(4)[y][:, :d]
    return X, y


def apart(n=80, seed=0, margin=0.3, d=2):
    """Rows on both sides of a plane (w*, b*) of norm 1, at least `margin` from it."""
    rng = np.random.default_rng(seed)
    w, b = rng.standard_normal(d), rng.uniform(-1, 1)
    w /= np.linalg.norm(w)
    X = rng.uniform(-2, 2, (8 * n, d))
    X = X[np.abs(X @ w + b) >= margin][:n]
    return X, np.where(X @ w + b > 0, 1, -1), w, b


# ------------------------------------------------------------------------------------------------ oracle: the textbook
class Textbook:
    """One row at a time: predict, and update when the answer is wrong or a tie."""

    def __init__(self, K, y, n_classes, orders, intercept, budget=None, merge=False):
        self.K, self.y, self.c = K + intercept, y, 1 if n_classes == 2 else n_classes
        self.C, self.machines, self.lives, self.mistakes = np.zeros((len(y), self.c)), [], [], []
        self.total, self.steps, self.age = np.zeros_like(self.C), 0, {}
        self.budget, self.merge = budget, merge
        for order in orders:
            self.mistakes.append(sum(self.show(i) for i in order))
            if not self.mistakes[-1]:
                break
        self.converged = not self.mistakes[-1]

    def show(self, i):
        rival = self.rival(self.K[i] @ self.C, self.y[i])
        if rival is not None:
            self.C[i] += self.update(self.y[i], rival)
            self.age.pop(i, None)
            self.age[i] = True  # youngest last
            if self.budget and len(self.age) > self.budget:
                self.shrink(i)
            self.machines.append(self.C.copy())
            self.lives.append(0)
        self.steps += 1
        self.lives[-1] += 1
        self.total += self.C
        return rival is not None

    def rival(self, f, label):
        if self.c == 1:
            return 1 - label if f[0] * (2 * label - 1) <= 0 else None
        others = [r for r in range(self.c) if r != label]
        best = max(others, key=lambda r: f[r])
        return best if f[label] <= f[best] else None

    def update(self, label, rival):
        return np.array([2.0 * label - 1]) if self.c == 1 else np.eye(self.c)[label] - np.eye(self.c)[rival]

    def shrink(self, newest):
        stored = list(self.age)
        gone = stored[0]
        if self.merge:
            weight = {s: (self.C[s] ** 2).sum() * self.K[s, s] for s in stored if s != newest}
            gone = min(weight, key=weight.get)
            others = [s for s in stored if s != gone]
            heir = max(others, key=lambda t: self.K[gone, t] ** 2 / self.K[t, t])
            ratio = self.K[gone, heir] / self.K[heir, heir]
            self.C[heir] += ratio * self.C[gone]
            self.total[heir] += ratio * self.total[gone]
        self.C[gone], self.total[gone] = 0.0, 0.0
        del self.age[gone]

    @property
    def stored(self):
        return sorted(self.age)

    def coefficients(self, variant):
        if variant in ("averaged", "voted"):
            return self.total / self.steps
        return self.machines[int(np.argmax(self.lives))] if variant == "pocket" and not self.converged else self.C

    def decision(self, K, variant, intercept):
        """Scores of new rows with kernel values K (m, n)."""
        K = K + intercept
        if variant != "voted":
            return K @ self.coefficients(variant)
        votes = np.zeros((len(K), self.c))
        for C, life in zip(self.machines, self.lives, strict=True):
            f = K @ C
            votes += life * (np.where(f > 0, 1.0, -1.0) if self.c == 1 else np.eye(self.c)[f.argmax(axis=1)])
        return votes / self.steps


def orders_of(n, passes, shuffle, seed):
    rng = generator(seed)
    return [rng.permutation(n) if shuffle else np.arange(n) for _ in range(passes)]


@unseparated
@each_variant
@with_intercept
@of_classes
@pytest.mark.parametrize("shuffle", [False, True], ids=["in order", "shuffled"])
def test_equals_the_textbook(variant, intercept, n_classes, shuffle):
    X, y = noisy(600, n_classes)  # more than a block
    kernel, T = RBF(1.3), noisy(50, n_classes, seed=1)[0]
    book = Textbook(kernel(X), y, n_classes, orders_of(len(y), 3, shuffle, 7), float(intercept))
    model = KernelPerceptron(
        kernel, variant=variant, max_iter=3, shuffle=shuffle, random_state=7, fit_intercept=intercept
    ).fit(X, y)
    assert model.mistakes_per_pass_ == book.mistakes
    assert model.n_mistakes_ == sum(book.mistakes) == sum(model.mistakes_per_pass_)
    assert model.support_.tolist() == book.stored
    np.testing.assert_array_equal(model.X_fit_, X[book.stored])
    expected = book.coefficients(variant)
    np.testing.assert_allclose(model.expansion_.coefficients, expected[book.stored], **TIGHT)
    np.testing.assert_allclose(model.intercept_, intercept * expected.sum(axis=0), **TIGHT)
    decision = book.decision(kernel(T, X), variant, float(intercept))
    np.testing.assert_allclose(model.decision_function(T), decision.squeeze(), **TIGHT)
    assert model.decision_function(T).shape == ((50,) if n_classes == 2 else (50, 4))
    assert (model.solver_used_, model.n_iter_, model.converged_) == ("dual", 3, False)


@unseparated
@each_variant
@of_classes
def test_equals_the_textbook_in_the_primal(variant, n_classes):
    X, y = noisy(600, n_classes)
    X = np.round(4 * X)  # whole numbers: scores that are 0 are 0 in any order of summing
    T = np.round(4 * noisy(50, n_classes, seed=1)[0])
    book = Textbook(Linear()(X), y, n_classes, orders_of(len(y), 3, False, 0), 1.0)
    model = KernelPerceptron("linear", variant=variant, max_iter=3, shuffle=False).fit(X, y)
    assert model.solver_used_ == "primal"
    assert model.mistakes_per_pass_ == book.mistakes
    decision = book.decision(Linear()(T, X), variant, 1.0)
    np.testing.assert_allclose(model.decision_function(T), decision.squeeze(), **TIGHT)
    np.testing.assert_allclose(model.coef_, book.coefficients(variant).T @ X, **TIGHT)


@pytest.mark.parametrize("merge", [None, False, True], ids=["all", "forget", "merge"])
@of_classes
def test_block_size_changes_nothing(n_classes, merge):
    X, y = noisy(300, n_classes)
    K, orders = RBF(1.3)(X), orders_of(len(y), 3, True, 0)
    budget = None if merge is None else 20
    book = Textbook(K, y, n_classes, orders, 1.0, budget, merge)
    for block in (1, 7, 64, 1000):
        scores, start = DualScores(GivenGram(K), book.c, 1.0), PerceptronState.empty(n_classes)
        found = solve_perceptron(scores, y, orders, start, budget=budget, merge=bool(merge), block=block)
        assert found.mistakes == book.mistakes
        assert found.state.rows.tolist() == book.stored
        np.testing.assert_allclose(found.state.coefficients, book.C[book.stored], **TIGHT)
        np.testing.assert_allclose(found.state.averaged, (book.total / book.steps)[book.stored], **TIGHT)


@pytest.mark.parametrize("merge", [False, True], ids=["forget", "merge"])
def test_primal_and_dual_scores_agree_within_a_budget(merge):
    X, y = noisy(200, 4)
    orders = orders_of(len(y), 3, True, 0)
    for form in (X, sp.csr_array(X)):
        found = [
            solve_perceptron(scores, y, orders, PerceptronState.empty(4), budget=15, merge=merge).state
            for scores in (DualScores(GivenGram(X @ X.T), 4, 1.0), PrimalScores(lambda r, A=form: A[r], 3, 4, 1.0))
        ]
        np.testing.assert_array_equal(found[0].rows, found[1].rows)
        np.testing.assert_allclose(found[0].coefficients, found[1].coefficients, **TIGHT)


def test_a_new_pass_starts_from_settled_scores():
    X, _ = noisy(50, 4)
    K = RBF(1.3)(X)
    scores, change = DualScores(GivenGram(K), 4, 1.0), np.random.default_rng(0).standard_normal((3, 4))
    scores.add(np.array([1, 7, 9]), change)
    expected = (K[:, [1, 7, 9]] + 1) @ change
    np.testing.assert_allclose(scores.of(np.arange(50)), expected, **TIGHT)
    scores.settle()
    assert not scores.moved.any()  # no kernel value is computed twice
    np.testing.assert_allclose(scores.of(np.arange(50)), expected, **TIGHT)


def test_two_classes_are_a_special_case_of_many():
    X, y = noisy(300, 2)
    K, orders = GivenGram(RBF(1.3)(X)), orders_of(300, 3, True, 0)
    one = solve_perceptron(DualScores(K, 1), y, orders, PerceptronState.empty(2))
    two = solve_perceptron(DualScores(K, 2), y, orders, PerceptronState(*_two_columns(PerceptronState.empty(2))))
    assert one.mistakes == two.mistakes
    np.testing.assert_array_equal(two.state.coefficients, one.state.coefficients * [-1, 1])


def _two_columns(state):
    empty = np.zeros((0, 2))
    return (state.rows, state.labels, empty, empty, state.stamps, 0, 0, 0, 0, None)


# ------------------------------------------------------------------------------------------------ oracle: scikit-learn
@with_intercept
@pytest.mark.parametrize("seed", range(4))
def test_linear_kernel_is_the_linear_perceptron(seed, intercept):
    X, y, *_ = apart(seed=seed, d=4)
    X = np.round(X, 3)
    ours = KernelPerceptron("linear", variant="plain", max_iter=200, shuffle=False, fit_intercept=intercept)
    theirs = Perceptron(fit_intercept=intercept, shuffle=False, tol=None, max_iter=200, penalty=None)
    if not intercept:
        X = np.column_stack([X, np.ones(len(X))])
    ours.fit(X, y)
    theirs.fit(X, y)
    assert ours.converged_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, **TIGHT)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, **TIGHT)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), **TIGHT)
    np.testing.assert_array_equal(ours.predict(X), y)


@unseparated
@each_variant
@of_classes
def test_bias_is_the_kernel_plus_one(variant, n_classes):
    X, y = noisy(200, n_classes)
    settings = {"variant": variant, "max_iter": 4, "random_state": 0}
    bias = KernelPerceptron(RBF(1.3), **settings).fit(X, y)
    plus = KernelPerceptron(RBF(1.3) + 1, fit_intercept=False, **settings).fit(X, y)
    none = KernelPerceptron(RBF(1.3), fit_intercept=False, **settings).fit(X, y)
    np.testing.assert_array_equal(bias.support_, plus.support_)
    np.testing.assert_allclose(bias.dual_coef_, plus.dual_coef_, **TIGHT)
    np.testing.assert_allclose(bias.decision_function(X), plus.decision_function(X), **TIGHT)
    assert not np.any(plus.intercept_)
    assert np.abs(none.decision_function(X) - bias.decision_function(X)).max() > 1e-3


# ------------------------------------------------------------------------------------------------ the bounds
@with_intercept
@pytest.mark.parametrize("seed", range(10))
def test_mistakes_stay_within_the_bound(seed, intercept):
    X, y, w, b = apart(seed=seed)
    if not intercept:  # a plane through the origin
        X = np.column_stack([X, np.full(len(X), 1.0)])
        norm = np.hypot(1.0, b)
        w, b = np.append(w, b) / norm, None
    margin = (y * (X @ w + (0.0 if b is None else b))).min()
    radius = np.sqrt((X**2).sum(axis=1).max())
    model = KernelPerceptron(Linear(), variant="plain", max_iter=1000, fit_intercept=intercept, random_state=seed)
    model.fit(X, y)
    assert model.converged_
    assert 0 < model.n_mistakes_ <= mistake_bound(margin, radius, b)
    found = model.mistake_bound(X, y)  # the machine that was learned separates, too
    assert found.n_mistakes == model.n_mistakes_ <= found.updates
    assert found.radius == pytest.approx(radius)
    assert 0 < found.margin
    assert found.compression == compression_bound(len(y), len(model.support_))


def test_bound_of_a_known_machine():
    X, y = np.array([[2.0], [-1.0]]), np.array([1, -1])
    model = KernelPerceptron("linear", variant="plain", max_iter=100, shuffle=False).fit(X, y)
    w, b = model.coef_[0, 0], model.intercept_[0]
    margin, bias = min(2 * w + b, w - b) / abs(w), b / abs(w)
    found = model.mistake_bound(X, y)
    assert found.margin == pytest.approx(margin)
    assert found.updates == pytest.approx((bias**2 + 1) * (4 + 1) / margin**2)
    assert mistake_bound(0.5, 3.0) == 36.0
    assert mistake_bound(0.5, 3.0, bias=2.0) == 200.0
    assert mistake_bound(0.5, 3.0, bias=[2.0, 0.0, 0.0], n_classes=3) == 400.0
    assert mistake_bound(0.0, 1.0) == mistake_bound(-1.0, 1.0) == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_bound_with_many_classes_and_rows_that_overlap(seed):
    X, y = noisy(120, 4, seed=seed)
    model = KernelPerceptron(RBF(0.3), variant="plain", max_iter=500, random_state=0).fit(X, y)
    assert model.converged_
    found = model.mistake_bound(X, y)
    assert model.n_mistakes_ <= found.updates < np.inf
    assert found.radius == 1.0
    loose = KernelPerceptron("linear", max_iter=3, random_state=0).fit(X, y)
    assert not loose.converged_
    found = loose.mistake_bound(X, y)
    assert found.updates == np.inf
    assert found.margin < 0
    given = KernelPerceptron("precomputed", variant="plain", max_iter=500, random_state=0).fit(RBF(0.3)(X), y)
    assert given.mistake_bound(RBF(0.3)(X), y).updates == pytest.approx(model.mistake_bound(X, y).updates)


def test_compression_bound():
    from scipy.special import comb

    exact = (np.log(comb(200, 7, exact=True)) + np.log(200 / 0.1)) / 193
    assert compression_bound(200, 7, delta=0.1) == pytest.approx(exact)
    assert compression_bound(200, 7, errors=5, delta=0.1) == pytest.approx(5 / 193 + np.sqrt(exact / 2))
    assert compression_bound(200, 200) == compression_bound(200, 100) == 1.0
    X, y = noisy(5000, 2, d=1)
    X -= 1.5 * y[:, None]
    model = KernelPerceptron(max_iter=1, random_state=0).fit(X, y)
    wrong = model.predict(X) != y
    errors = np.sum(np.delete(wrong, model.support_))
    assert 0 < errors < np.sum(wrong)  # stored rows that are wrong do not count
    found = model.mistake_bound(X, y)
    assert found.compression == compression_bound(5000, len(model.support_), errors) < 1
    with pytest.raises(ValueError, match="the 5000 rows of fit, in their order; X has 4999"):
        model.mistake_bound(X[1:], y[1:])
    found = KernelPerceptron(budget=20, random_state=0).fit(X, y).mistake_bound(X, y)
    assert (found.updates, found.compression) == (np.inf, 1.0)


def test_xor():
    X, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 1, 0])
    for variant in VARIANTS:
        model = KernelPerceptron(Polynomial(2), variant=variant, max_iter=500, random_state=0).fit(X, y)
        assert model.converged_
        assert model.n_iter_ == len(model.mistakes_per_pass_) < 500  # a pass without mistake is the last
        assert model.mistakes_per_pass_.index(0) == model.n_iter_ - 1
        if variant in ("plain", "pocket"):
            np.testing.assert_array_equal(model.predict(X), y)
    with pytest.warns(ConvergenceWarning, match=r"not separated after 500 passes \(\d mistakes in the last one\)"):
        straight = KernelPerceptron("linear", variant="plain", max_iter=500, random_state=0).fit(X, y)
    assert not straight.converged_
    assert straight.n_iter_ == 500
    assert np.mean(straight.predict(X) == y) <= 0.75
    pocket = KernelPerceptron("linear", variant="pocket", max_iter=500, random_state=0).fit(X, y)
    assert not pocket.converged_


def test_the_pocket_of_separated_rows_is_the_machine_that_separates():
    """Another may have had a longer run, since each pass has another order."""
    rows, history = np.array([0, 1]), np.array([[0, 1], [0, 1], [0, 10]])
    coefficients = np.array([[1.0], [-1.0]])
    state = PerceptronState(rows, np.array([1, 0]), coefficients, coefficients, rows, 12, 15, 2, 0, history)
    assert state.lives.tolist() == [10, 5]
    for converged, expected in ((False, [[1.0], [0.0]]), (True, [[1.0], [-1.0]])):
        solution = solver.PerceptronSolution(state, [2, 0], converged)
        np.testing.assert_array_equal(module._machine(solution, "pocket"), expected)


@unseparated
def test_pocket_keeps_a_better_machine_than_the_last():
    rng = np.random.default_rng(0)
    X, y, *_ = apart(200, margin=0.1)
    y = np.where(rng.random(200) < 0.05, -y, y)
    scores = {}
    for variant in ("plain", "pocket"):
        models = [KernelPerceptron("linear", variant=variant, max_iter=20, random_state=s) for s in range(10)]
        scores[variant] = np.mean([m.fit(X, y).score(X, y) for m in models])
    assert scores["pocket"] > scores["plain"] + 0.02


# ------------------------------------------------------------------------------------------------ streams and budgets
@unseparated
@each_variant
@of_classes
@pytest.mark.parametrize("word", ["rbf", "linear"])
def test_partial_fit_goes_on_where_fit_ended(variant, n_classes, word):
    X, y = noisy(300, n_classes)
    X = np.round(4 * X)
    settings = {"kernel": word, "gamma": 0.02, "variant": variant, "shuffle": False}
    whole = KernelPerceptron(max_iter=1, **settings).fit(X, y)
    parts = KernelPerceptron(**settings)
    for chunk in np.split(np.arange(300), [1, 90, 200]):
        parts.partial_fit(X[chunk], y[chunk], classes=np.arange(n_classes))
    np.testing.assert_array_equal(parts.support_, whole.support_)
    np.testing.assert_array_equal(parts.X_fit_, whole.X_fit_)
    np.testing.assert_allclose(parts.dual_coef_, whole.dual_coef_, **TIGHT)
    np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), **TIGHT)
    assert parts.n_mistakes_ == whole.n_mistakes_
    more = clone(whole).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(more.decision_function(X), whole.decision_function(X), **TIGHT)


@pytest.mark.parametrize("when_full", ["forget", "merge"])
@pytest.mark.parametrize("variant", ["plain", "averaged"])
@of_classes
@unseparated
def test_budget(when_full, variant, n_classes):
    X, y = noisy(600, n_classes)
    T, t = noisy(300, n_classes, seed=1)
    orders = orders_of(600, 3, True, 0)
    book = Textbook(RBF(2.0)(X), y, n_classes, orders, 1.0, 25, when_full == "merge")
    settings = {"variant": variant, "budget": 25, "when_full": when_full, "random_state": 0}
    model = KernelPerceptron(RBF(2.0), max_iter=3, **settings).fit(X, y)
    assert model.support_.tolist() == book.stored
    assert len(model.X_fit_) == 25
    np.testing.assert_allclose(model.expansion_.coefficients, book.coefficients(variant)[book.stored], **TIGHT)
    if variant == "averaged" and when_full == "merge":
        assert model.score(T, t) > {2: 0.8, 4: 0.5}[n_classes]
    stream = KernelPerceptron(RBF(2.0), **settings)
    for i in range(0, 600, 40):
        stream.partial_fit(X[i : i + 40], y[i : i + 40], classes=range(n_classes))
        assert len(stream.support_) <= 25
    once = KernelPerceptron(RBF(2.0), max_iter=1, shuffle=False, **settings).fit(X, y)
    np.testing.assert_array_equal(stream.support_, once.support_)
    np.testing.assert_allclose(stream.dual_coef_, once.dual_coef_, **TIGHT)


@pytest.mark.parametrize("when_full", ["forget", "merge"])
def test_a_budget_that_comes_later(when_full):
    X, y = noisy(200, 4)
    model = KernelPerceptron(random_state=0, when_full=when_full).fit(X, y)
    assert len(model.support_) > 10
    model.set_params(budget=10).partial_fit(X[:1], model.predict(X[:1]))
    assert len(model.support_) == 10


@pytest.mark.parametrize("when_full", ["forget", "merge"])
def test_a_budget_that_is_not_reached_changes_nothing(when_full):
    X, y = noisy(200, 4)
    free = KernelPerceptron(random_state=0, max_iter=3).fit(X, y)
    roomy = KernelPerceptron(random_state=0, max_iter=3, budget=200, when_full=when_full).fit(X, y)
    np.testing.assert_array_equal(free.dual_coef_, roomy.dual_coef_)


def test_merging_rows_of_one_direction_loses_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 1)), rng.integers(4, size=300)
    settings = {"kernel": Pairwise(np.dot), "max_iter": 2, "fit_intercept": False, "random_state": 0}
    free = KernelPerceptron(**settings).fit(X, y)
    merged = KernelPerceptron(budget=5, **settings).fit(X, y)
    assert len(free.support_) > 100
    assert len(merged.support_) == 5
    np.testing.assert_allclose(merged.decision_function(X), free.decision_function(X), rtol=1e-6, atol=1e-6)


def test_memory_is_bounded():
    X, y = noisy(20_000, 2)
    X[:, 0] += 6 * y
    model = KernelPerceptron(RBF(1.0), variant="voted", max_iter=2, random_state=0)
    model.fit(X[:100], y[:100])
    tracemalloc.start()
    model.fit(X, y).predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6  # the Gram matrix has 3200 MB


# ------------------------------------------------------------------------------------------------ any rows
@pytest.mark.parametrize("variant", ["averaged", "voted"])
def test_strings_and_tables(variant):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("acgt"), 12)) for _ in range(80)]
    y = np.array(["many" if w.count("a") > 2 else "few" for w in words])
    model = KernelPerceptron(Spectrum(1), variant=variant, max_iter=20, random_state=0).fit(words, y)
    assert model.score(words, y) > 0.9
    assert model.X_fit_.dtype == object
    counts = np.array([[w.count(c) for c in "acgt"] for w in words], float)
    same = KernelPerceptron("linear", variant=variant, max_iter=20, random_state=0).fit(counts, y)
    np.testing.assert_allclose(model.decision_function(words), same.decision_function(counts), **TIGHT)
    table = pd.DataFrame({"dna": words, "age": rng.normal(size=80)})
    kernel = Spectrum(2).on("dna") + RBF().on("age")
    whole = KernelPerceptron(kernel, variant=variant, max_iter=1, shuffle=False).fit(table, y)
    parts = KernelPerceptron(kernel, variant=variant)
    for i in (0, 40):
        parts.partial_fit(table[i : i + 40], y[i : i + 40], classes=["few", "many"])
    np.testing.assert_allclose(parts.decision_function(table), whole.decision_function(table), **TIGHT)
    with pytest.raises(ValueError, match="feature names"):
        parts.partial_fit(table[["age", "dna"]], y)


@unseparated
@each_variant
@of_classes
@pytest.mark.parametrize("kernel", ["linear", RBF(1.3)], ids=str)
def test_sparse_equals_dense(variant, n_classes, kernel):
    X, y = noisy(150, n_classes)
    X = np.where(np.abs(X) > 0.7, np.round(4 * X), 0.0)
    model = KernelPerceptron(kernel, variant=variant, max_iter=3, random_state=0)
    dense, sparse = clone(model).fit(X, y), clone(model).fit(sp.csc_array(X), y)
    np.testing.assert_array_equal(dense.support_, sparse.support_)
    assert sp.issparse(sparse.X_fit_)
    for T in (X, sp.csr_array(X)):
        np.testing.assert_allclose(sparse.decision_function(T), dense.decision_function(X), **TIGHT)
    sparse.partial_fit(X[:5], y[:5])
    dense.partial_fit(sp.coo_array(X[:5]), y[:5])
    assert sp.issparse(sparse.X_fit_)
    assert not sp.issparse(dense.X_fit_)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), **TIGHT)


@unseparated
@each_variant
@of_classes
def test_precomputed(variant, n_classes):
    X, y = noisy(150, n_classes)
    kernel, T = RBF(1.3), noisy(20, n_classes, seed=1)[0]
    model = KernelPerceptron(variant=variant, max_iter=3, random_state=0)
    rows = clone(model).set_params(kernel=kernel).fit(X, y)
    given = clone(model).set_params(kernel="precomputed").fit(kernel(X), y)
    np.testing.assert_array_equal(rows.support_, given.support_)
    assert given.X_fit_.shape == (len(given.support_),) * 2
    for again in (given, pickle.loads(pickle.dumps(given))):
        np.testing.assert_allclose(again.decision_function(kernel(T, X)), rows.decision_function(T), **TIGHT)
    with pytest.raises(ValueError, match="expecting 150 features"):
        given.predict(kernel(T, X)[:, :-1])


def test_precomputed_that_is_refused():
    X, y = noisy(30, 2)
    K = RBF()(X)
    with pytest.raises(ValueError, match="square matrix to fit"):
        KernelPerceptron("precomputed").fit(K[:, :-1], y)
    with pytest.raises(AttributeError) as caught:
        KernelPerceptron("precomputed").partial_fit(K, y, classes=[0, 1])
    assert 'partial_fit needs rows: kernel="precomputed"' in str(caught.value.__cause__)
    K[0, 1] += 1.0
    with pytest.raises(NotSymmetricError):
        KernelPerceptron("precomputed").fit(K, y)


@unseparated
@each_variant
@of_classes
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_float32_is_kept(variant, n_classes, kernel):
    X, y = noisy(150, n_classes)
    X = np.round(4 * X)
    X = Linear()(X) if kernel == "precomputed" else X
    model = KernelPerceptron(kernel, variant=variant, max_iter=3, random_state=0)
    single, double = clone(model).fit(X.astype(np.float32), y), clone(model).fit(X, y)
    assert single.X_fit_.dtype == single.dual_coef_.dtype == single.intercept_.dtype == np.float32
    got = single.decision_function(X.astype(np.float32))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(single.support_, double.support_)
    # A machine whose score is nearly 0 may vote otherwise after rounding.
    far = np.abs(got - double.decision_function(X)) > 1e-3 + 1e-4 * np.abs(got)
    assert np.mean(far) < (0.1 if variant == "voted" else 1e-9)


@unseparated
@each_variant
@pytest.mark.parametrize("kernel", ["linear", RBF(1.3)], ids=str)
def test_pickle_goes_on_learning(variant, kernel):
    X, y = noisy(150, 4)
    model = KernelPerceptron(kernel, variant=variant, max_iter=3, random_state=0).fit(X[:100], y[:100])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    for m in (model, again):
        m.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_engines_and_the_size_report():
    X, y = noisy(150, 4)
    cpu, reference = (KernelPerceptron(RBF(1.3), engine=e, random_state=0).fit(X, y) for e in ("cpu", "reference"))
    np.testing.assert_allclose(cpu.decision_function(X), reference.decision_function(X), **TIGHT)
    report = cpu.size_report()
    assert (report.n_vectors, report.n_parameters) == (len(cpu.support_), 4 * len(cpu.support_) + 4)


# ------------------------------------------------------------------------------------------------ labels and bad input
@pytest.mark.parametrize(
    "labels", [["no", "yes"], [False, True], [-1, 1], [3.0, 7.0], ["a", "b", "c"], np.array([2, 5, 9], np.uint8)]
)
def test_labels_of_many_types(labels):
    X, y = noisy(90, len(labels))
    labels = np.asarray(labels)
    model = KernelPerceptron(random_state=0).fit(X, labels[y])
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == labels.dtype
    assert model.predict(X).dtype == labels.dtype
    expected = KernelPerceptron(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), labels[expected.predict(X)])
    if labels.dtype.kind == "U":
        as_objects = KernelPerceptron(random_state=0).fit(X, labels[y].astype(object))
        np.testing.assert_array_equal(as_objects.predict(X), model.predict(X))
    stream = KernelPerceptron().partial_fit(X, labels[y], classes=labels)
    np.testing.assert_array_equal(stream.classes_, labels)


def test_labels_that_are_refused():
    X, y = noisy(20, 2)
    mixed = np.array([1, "a"] * 10, dtype=object)
    for bad, said in (
        (np.ones(20), "greater than one; y has 1 class: 1.0"),
        (np.linspace(0, 1, 20), "Unknown label type: continuous"),
        (np.where(y, np.nan, 1.0), "NaN"),
        (mixed, "mixes labels|label type"),
        (np.column_stack([y, y]), "1d array|shape"),
        (None, "requires y to be passed"),
        (y[:-1], "inconsistent numbers of samples"),
    ):
        for rows, kernel in ((X, "rbf"), (["abc"] * 20, Spectrum(1))):
            with pytest.raises((ValueError, TypeError), match=said):
                KernelPerceptron(kernel).fit(rows, bad)


def test_partial_fit_that_is_refused():
    X, y = noisy(40, 2)
    model = KernelPerceptron()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="greater than one; classes has 1 class: 0"):
        model.partial_fit(X, y, classes=[0])
    with pytest.raises(ValueError, match=r"y has the label 1, which is not among the classes \[0, 2\]"):
        model.partial_fit(X, y, classes=[0, 2])
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.partial_fit(X[y == 0][:3], y[y == 0][:3], classes=[0, 1])  # a chunk of one class is none of its business
    for bad, said in (
        ({"X": X[:, :2], "y": y}, "expecting 3 features"),
        ({"X": X, "y": y[:-1]}, "inconsistent numbers of samples"),
        ({"X": X, "y": None}, "requires y to be passed"),
        ({"X": X, "y": y + 1}, "not among the classes"),
        ({"X": X, "y": y, "classes": [0, 1, 2]}, "not the same as on the last call"),
    ):
        with pytest.raises(ValueError, match=said):
            model.partial_fit(**bad)
    model.set_params(variant="voted")
    with pytest.raises(ValueError, match="variant and fit_intercept cannot change"):
        model.partial_fit(X, y)


def test_parameters_that_are_refused():
    X, y = noisy(20, 2)
    for bad in ({"max_iter": 0}, {"budget": 1}, {"budget": 2.5}, {"variant": "best"}, {"when_full": "wait"},
                {"shuffle": "yes"}, {"fit_intercept": 2}, {"memory": "many"}, {"indefinite": "clip"},
                {"random_state": "x"}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(bad))):
            KernelPerceptron(**bad).fit(X, y)
    for variant in ("voted", "pocket"):
        with pytest.raises(ValueError, match=f'variant="{variant}" needs every row that erred, so budget must be None'):
            KernelPerceptron(variant=variant, budget=5).fit(X, y)
    with pytest.raises(TypeError):
        KernelPerceptron().fit(X, y, sample_weight=np.ones(20))


def test_indefinite_kernels():
    X, y = noisy(60, 2)
    for kernel in (Sigmoid(gamma=1.0, coef0=-1.0), RBF(1.0) - RBF(0.5), Pairwise(lambda a, b: -float(a @ b))):
        with pytest.warns(NumericalWarning, match=r"not positive semi-definite.*no bound holds"):
            model = KernelPerceptron(kernel, max_iter=3).fit(X, y)
        assert np.isfinite(model.decision_function(X)).all()
        with pytest.raises(NotPSDError, match="not positive semi-definite"):
            KernelPerceptron(kernel, max_iter=3, indefinite="raise").fit(X, y)
    KernelPerceptron(lambda a, b: float(a @ b), max_iter=3, indefinite="raise").fit(X, y)  # tested, and good


@pytest.mark.parametrize("kernel", [RBF(1.0), "linear", Polynomial(2, gamma=1.0)], ids=str)
def test_rows_that_cannot_be_separated(kernel):
    same = np.ones((10, 2))
    y = np.arange(10) % 2
    model = KernelPerceptron(kernel, random_state=0).fit(same, y)
    assert not model.converged_
    assert np.isfinite(model.decision_function(same)).all()
    far = np.array([[1.0, 99999.0], [2.0, 99999.0]])
    assert KernelPerceptron("poly", degree=2, gamma=1.0).fit(far, [0, 1]).predict(far).shape == (2,)


@pytest.mark.parametrize("kernel", [RBF(1.0), "linear", Polynomial(2, gamma=1.0)], ids=str)
@pytest.mark.parametrize("size", [1e-200, 1e90, 1e160, 1e300])
def test_scales(kernel, size):
    X, y = noisy(30, 2)
    model, message = KernelPerceptron(kernel, random_state=0), ""
    try:
        model.fit(size * X, y)
    except ValueError as error:
        message = str(error)
    if message:
        assert "rescale" in message
        assert size > 1
    else:
        assert np.isfinite(model.decision_function(size * X)).all()


def test_overflow_at_predict():
    X, y = noisy(30, 2)
    model = KernelPerceptron(Polynomial(2), random_state=0).fit(X, y)
    with pytest.raises(NanError, match="rescale the columns"):
        model.predict(1e160 * X)


# ------------------------------------------------------------------------------------------------ interruption, state
def interrupted(*args, **kwargs):
    raise KeyboardInterrupt


def test_an_interrupted_fit_leaves_no_half_model(monkeypatch):
    X, y = noisy(60, 2)
    model = KernelPerceptron(random_state=0).fit(X, y)
    before = model.decision_function(X)
    for name in ("solve_perceptron", "_machine"):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.partial_fit(X, y)
            np.testing.assert_array_equal(model.decision_function(X), before)
    monkeypatch.setattr(module, "solve_perceptron", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_seeds():
    X, y = noisy(200, 2)
    a, b, c = (KernelPerceptron(random_state=s).fit(X, y) for s in (0, 0, 1))
    np.testing.assert_array_equal(a.dual_coef_, b.dual_coef_)
    assert a.n_mistakes_ != c.n_mistakes_ or not np.array_equal(a.support_, c.support_)
    legacy = KernelPerceptron(random_state=np.random.RandomState(3)).fit(X, y)
    assert legacy.n_iter_ == 10


def test_vote_needs_a_history():
    with pytest.raises(ValueError, match="made without history"):
        solver.voted_scores(GivenGram(np.ones((2, 0))), PerceptronState.empty(2))


# ------------------------------------------------------------------------------------------------ scikit-learn's list
CASES = [
    KernelPerceptron(),
    KernelPerceptron("linear"),
    KernelPerceptron(variant="plain", max_iter=100),
    KernelPerceptron(variant="voted"),
    KernelPerceptron(Polynomial(2), variant="pocket", fit_intercept=False),
    KernelPerceptron(RBF(1.5), budget=30),
    KernelPerceptron(RBF(1.5), variant="plain", budget=30, when_full="forget"),
    KernelPerceptron("precomputed"),
]


@pytest.mark.slow  # the first cases are among those of test_estimators.py
@unseparated
@pytest.mark.filterwarnings(
    "ignore::mercer.errors.NumericalWarning"
)  # the checks pass symmetric matrices that are no Grams
@parametrize_with_checks(CASES)
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_sklearn_param_validation(case):
    check_param_validation(type(case).__name__, case)


# ------------------------------------------------------------------------------------------------ the goal
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_mnist(data_home):
    """Voted and averaged, degree 3, ten passes: test error near 2 %."""
    with np.load(data_home / "mnist.npz") as file:
        X, y, T, t = (file[n] for n in ("X_train", "y_train", "X_test", "y_test"))
    X, T = (np.float32(A.reshape(len(A), -1)) / np.float32(255) for A in (X, T))
    model = KernelPerceptron(Polynomial(3, gamma=0.01), variant="voted", random_state=0).fit(X, y)
    assert np.mean(model.predict(T) != t) <= 0.021
    averaged = KernelPerceptron(Polynomial(3, gamma=0.01), random_state=0).fit(X, y)
    assert np.mean(averaged.predict(T) != t) <= 0.021

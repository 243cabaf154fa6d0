"""mercer.separable (V7) against closed forms, linear programming, scikit-learn and exact arithmetic."""

import dataclasses
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.datasets import load_iris
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from mercer import separable
from mercer.diagnostics import Separability, hulls, separability
from mercer.errors import NanError, NotPSDError, NotSymmetricError
from mercer.gram import GivenGram
from mercer.kernels import RBF, ArcCosine, Intersection, Linear, Pairwise, Polynomial, Spectrum, ThinPlate, White
from mercer.solvers import RowCache

XOR = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
XOR_LABELS = np.array([0, 1, 1, 0])
IRIS, SPECIES = load_iris(return_X_y=True)
SETOSA_VERSICOLOR = IRIS[:100], SPECIES[:100]
VERSICOLOR_VIRGINICA = IRIS[50:], SPECIES[50:]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The matrices are small, and thread pools spin against each other on a busy machine."""
    with threadpool_limits(1):
        yield


def linearly_separable(X, y, fit_intercept=True):
    """Whether y_i (<w, x_i> + b) >= 1 has a solution, by linear programming."""
    signs = np.where(np.asarray(y) == np.max(y), 1.0, -1.0)[:, None]
    A = np.hstack([X, np.ones((len(X), 1))]) if fit_intercept else np.asarray(X, float)
    found = linprog(np.zeros(A.shape[1]), -signs * A, -np.ones(len(A)), bounds=(None, None))
    assert found.status in (0, 2)
    return found.status == 0


def assert_separates(report, K, y):
    """The coefficients keep y f >= 1 with the margin that the report names."""
    signs = np.where(np.asarray(y) == report.classes[1], 1.0, -1.0)
    f = K @ report.coefficients + report.intercept
    assert (signs * f).min() == pytest.approx(1.0, rel=1e-6)
    length = np.sqrt(report.coefficients @ K @ report.coefficients)
    assert 1 / length == pytest.approx(report.margin, rel=1e-3)
    assert report.margin <= report.margin_upper
    assert report.certificate is None


def assert_certifies(report, X, y):
    """Masses of the right sums, and class means that coincide in exact arithmetic up to the rounding that is named."""
    masses, second = [Fraction(m) for m in report.masses], np.asarray(y) == report.classes[1]
    assert report.certificate is report.masses
    assert min(masses) >= 0
    for chosen in (second, ~second) if report.fit_intercept else (np.ones(len(y), bool),):
        assert abs(sum(m for m, c in zip(masses, chosen, strict=True) if c) - 1) < 1e-14
    signed = [m if c else -m for m, c in zip(masses, second, strict=True)]
    parts = [sum(m * Fraction(v) for m, v in zip(signed, column, strict=True)) for column in np.asarray(X, float).T]
    assert sum(p * p for p in parts) <= Fraction(report.rounding) ** 2
    assert report.norm <= report.rounding <= 1e-12 * np.abs(X).max() * len(y)
    assert report.coefficients is None
    assert report.margin == 0
    assert report.margin_upper <= report.rounding * (16 + len(y))


# ------------------------------------------------------------------------------------------------------- closed forms
def test_two_points_have_half_their_distance():
    report = separable(Linear(), [[1.0, 1.0], [4.0, 5.0]], ["a", "b"])
    assert report.ok is True
    assert report.margin == pytest.approx(2.5, rel=1e-12)
    assert report.margin_upper == pytest.approx(2.5, rel=1e-12)
    np.testing.assert_allclose(report.coefficients, [-0.08, 0.08])
    np.testing.assert_array_equal(report.masses, [1.0, 1.0])
    assert report.classes == ("a", "b")
    assert report.method == "features"


def test_two_points_of_a_gaussian():
    report = separable(RBF(), [[0.0], [1.0]], [0, 1])
    assert report.margin_upper == pytest.approx(np.sqrt(2 - 2 * np.exp(-0.5)) / 2, rel=1e-10)
    assert report.method == "gram"


def test_a_point_and_a_triangle():
    X, y = np.array([[0.0, 0.0], [3, -1], [3, 2], [5, 0]]), [1, 0, 0, 0]
    report = separable(Linear(), X, y)
    assert report.ok
    assert report.margin == pytest.approx(1.5, rel=1e-4)
    assert report.margin_upper == pytest.approx(1.5, rel=1e-4)
    assert report.masses.tolist() == pytest.approx([1, 2 / 3, 1 / 3, 0], abs=1e-3)
    assert_separates(report, X @ X.T, y)


def test_without_an_intercept_the_border_passes_through_0():
    X, y = np.array([[1.0, 2.0], [-1.0, 2.0]]), [1, 0]
    report = separable(Linear(), X, y, fit_intercept=False)
    assert report.ok
    assert report.margin == pytest.approx(1.0, rel=1e-4)  # the segment from (1, 2) to (1, -2)
    assert report.intercept == 0
    assert report.masses.sum() == pytest.approx(1)
    assert_separates(report, X @ X.T, y)
    beside = separable(Linear(), [[1.0], [2.0]], [0, 1], fit_intercept=False)
    assert beside.ok is False  # on one side of 0
    assert_certifies(beside, [[1.0], [2.0]], [0, 1])
    assert separable(Linear(), [[1.0], [2.0]], [0, 1]).ok


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_xor_is_not_linear(fit_intercept):
    report = separable("linear", XOR, XOR_LABELS, fit_intercept=fit_intercept)
    assert report.ok is False
    if fit_intercept:  # without, each diagonal alone is one
        np.testing.assert_allclose(report.certificate, 0.5, atol=1e-12)
    assert_certifies(report, XOR, XOR_LABELS)
    assert "not separable" in str(report)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_xor_is_quadratic(fit_intercept):
    kernel = Polynomial(2, coef0=1.0)
    report = separable(kernel, XOR, XOR_LABELS, fit_intercept=fit_intercept)
    assert report.ok
    assert report.margin == pytest.approx(np.sqrt(2), rel=1e-4)  # w along sqrt(2) x_1 x_2
    assert_separates(report, kernel(XOR), XOR_LABELS)


# ------------------------------------------------------------------------------------------------------- other programs
@pytest.mark.parametrize(
    ("kernel", "data"),
    [
        (Linear(), SETOSA_VERSICOLOR),
        (RBF(0.5), VERSICOLOR_VIRGINICA),
        (Polynomial(2), SETOSA_VERSICOLOR),
    ],
)
def test_margin_of_scikit_learn(kernel, data):
    X, y = data
    K = kernel(X)
    model = SVC(C=1e10, kernel="precomputed", tol=1e-7).fit(K, y)
    a, s = model.dual_coef_[0], model.support_
    margin = 1 / np.sqrt(a @ K[np.ix_(s, s)] @ a)
    report = separable(kernel, X, y, tol=1e-6)
    assert report.ok
    assert report.margin <= margin * (1 + 1e-5)
    assert report.margin == pytest.approx(margin, rel=1e-4)
    assert report.margin_upper - report.margin <= 1e-6 * report.margin_upper
    assert_separates(report, K, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_species_that_no_plane_separates(fit_intercept):
    X, y = VERSICOLOR_VIRGINICA
    assert not linearly_separable(X, y, fit_intercept)
    report = separable(Linear(), X, y, fit_intercept=fit_intercept)
    assert report.ok is False
    assert_certifies(report, X, y)
    assert separable("precomputed", X @ X.T, y, fit_intercept=fit_intercept).ok is False


integers = st.integers(-3, 3)


@st.composite
def labelled(draw):
    n, d = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    X = np.array(draw(st.lists(st.lists(integers, min_size=d, max_size=d), min_size=n, max_size=n)), float)
    y = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    y[0], y[-1] = False, True
    return X, y


@given(labelled(), st.booleans())
def test_linear_programming_agrees(data, fit_intercept):
    X, y = data
    truth = linearly_separable(X, y, fit_intercept)
    report = separable(Linear(), X, y, fit_intercept=fit_intercept)
    assert report.ok is truth
    if truth:
        assert_separates(report, X @ X.T, y)
    else:
        assert_certifies(report, X, y)
    assert separable("precomputed", X @ X.T, y, fit_intercept=fit_intercept).ok in (truth, None)


@given(labelled())
def test_features_and_gram_agree(data):
    """A function of two rows has no explicit features, and may leave open what they decide, but not contradict."""
    X, y = data
    explicit, hidden = separable(Polynomial(2), X, y), separable(Pairwise(lambda a, b: (1 + a @ b) ** 2), X, y)
    assert (explicit.method, hidden.method) == ("features", "gram")
    assert hidden.ok in (explicit.ok, None)
    if hidden.ok:
        assert hidden.margin <= explicit.margin_upper
        assert explicit.margin <= hidden.margin_upper


# ------------------------------------------------------------------------------------------------------- rounding
def test_equal_rows_with_opposite_labels():
    X, y = np.random.default_rng(0).standard_normal((12, 2)), np.arange(12) % 2
    X[7] = X[2]
    for kernel in (RBF(), Linear(), "laplacian"):
        report = separable(kernel, X, y)
        assert report.ok is False
        assert np.flatnonzero(report.certificate).tolist() == [2, 7]
        assert report.iterations == 0
    K = RBF()(X)
    assert np.flatnonzero(separable("precomputed", K, y).certificate).tolist() == [2, 7]
    assert separable(RBF() + White(0.5), X, y).ok  # noise tells equal rows apart


def test_rows_that_differ_where_the_kernel_does_not_look():
    X, y = [[1.0, 5.0], [2.0, 5.0], [1.0, 6.0]], [0, 0, 1]
    assert separable(RBF(), X, y).ok
    report = separable(RBF().on(0), X, y)
    assert report.ok is False
    assert report.certificate.tolist() == [1, 0, 1]
    near = [[1.0, 5.0], [1.0, 5.0 + 1e-9]]  # the second part reads all columns
    assert separable(RBF().on(0) + RBF(), near, [0, 1]).ok is None


def test_a_wide_gaussian_is_left_open():
    """It separates all different rows, but by less than a Gram in float64 shows."""
    report = separable(RBF(1e4), XOR, XOR_LABELS)
    assert report.ok is None
    assert report.coefficients is None
    assert report.certificate is None
    assert 0 < report.margin_upper < 1e-5
    assert "float64" in report.advice
    assert report.advice in str(report)
    assert "not decided" in str(report)
    assert separable(RBF(1.0), XOR, XOR_LABELS).ok


def test_a_kernel_of_angles_does_not_tell_a_row_from_its_multiple():
    """The angle between x and 2 x is 0, the arc cosine of a rounded 1 is 1e-8."""
    report = separable(ArcCosine(0), np.outer([1.0, 3.0, 7.0], [0.4, 1.0]), [0, 1, 0])
    assert report.ok is None
    assert report.norm > 1e-5


def test_a_matrix_too_coarse_for_its_spread_is_left_open():
    X = 1e6 + np.array([[0.0], [1.0], [2.0], [3.0]])
    y = [0, 1, 0, 1]
    assert separable("precomputed", X @ X.T, y).ok is None
    assert separable("precomputed", (X - 1e6) @ (X - 1e6).T, y).ok is False
    assert separable(Linear(), X, y).ok is False


def test_margins_far_below_the_root_of_rounding():
    """A Gram cannot show these, explicit features can."""
    report = separable(Linear(), [[0.0], [1.0], [1.0 + 1e-9], [2.0]], [0, 0, 1, 1])
    assert report.ok
    assert report.margin == pytest.approx(5e-10, rel=1e-4)
    assert report.margin < 5e-10 * (1 + 1e-6)
    X, y = SETOSA_VERSICOLOR
    far = separable(Linear(), X + 2.0**23, y)
    assert far.ok
    assert far.margin == pytest.approx(separable(Linear(), X, y).margin, rel=1e-4)


@pytest.mark.parametrize(("steps", "ok"), [(30, None), (300, True)])
def test_a_margin_of_a_few_roundings_is_left_open(steps, ok):
    assert separable(Linear(), [[1.0], [1.0 + steps * np.finfo(float).eps]], [0, 1]).ok is ok


def test_touching_hulls_are_not_separable():
    for X in ([[0.0], [1.0], [2.0]], [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]):
        report = separable(Linear(), X, [0, 1, 0])
        assert report.ok is False
        np.testing.assert_allclose(report.certificate, [0.5, 1, 0.5], atol=1e-12)


@pytest.mark.parametrize("size", [1e-100, 1e-9, 1e100])
def test_the_scale_of_the_rows_does_not_matter(size):
    X, y = np.array([[0.0, 0], [0, 1], [2, 0], [3, 1]]) * size, [0, 0, 1, 1]
    report = separable(Linear(), X, y)
    assert report.ok
    assert report.margin == pytest.approx(size, rel=1e-4)
    assert report.margin_upper == pytest.approx(size, rel=1e-4)
    assert separable(Linear(), XOR * size, XOR_LABELS).ok is False


def test_rows_without_room():
    assert separable(Linear(), [[0.0], [0.0], [1.0]], [0, 1, 1]).ok is False
    assert separable("precomputed", np.zeros((3, 3)), [0, 1, 1]).ok is False
    assert separable("precomputed", np.ones((3, 3)), [0, 1, 1]).ok is False


# ------------------------------------------------------------------------------------------------------- limits
def test_limits_leave_it_open():
    X, y = VERSICOLOR_VIRGINICA
    for limit in ({"max_iter": 3}, {"time_limit": 1e-9}):
        report = separable(Polynomial(2), X, y, **limit)
        assert report.ok is None
        assert "max_iter" in report.advice
        assert report.margin_upper >= 0.0115  # of the quadratic kernel
        assert report.iterations <= 3
    assert separable(Polynomial(2), X, y).margin_upper == pytest.approx(0.01156, rel=1e-3)


def test_a_margin_known_less_well_than_asked_says_so():
    X, y = VERSICOLOR_VIRGINICA
    report = separable(RBF(1.0), X, y, max_iter=900, tol=1e-9)
    assert report.ok
    assert report.margin_upper - report.margin > 1e-9 * report.margin
    assert "max_iter" in report.advice
    assert separable(RBF(1.0), X, y).advice == ""


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_many_rows_within_a_budget(fit_intercept):
    """Rows of the Gram come from the cache, and a matrix of all pairs is never held."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    y = X[:, 0] > 0
    X[:, 0] += np.where(y, 0.5, -0.5)
    tracemalloc.start()
    small = separable(RBF(2.0), X, y, fit_intercept=fit_intercept, memory="10MB")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * 8 * 4000**2  # the solver's block of 2048 rows is a quarter
    large = separable(RBF(2.0), X, y, fit_intercept=fit_intercept)
    given = separable("precomputed", RBF(2.0)(X), y, fit_intercept=fit_intercept)
    assert small.ok
    assert small.margin > 0.05
    for other in (large, given):
        assert other.ok
        assert small.margin == pytest.approx(other.margin, rel=2e-4)


def test_features_that_do_not_fit_are_not_made(monkeypatch):
    X, y = SETOSA_VERSICOLOR
    assert separable(Polynomial(3), X, y).method == "features"
    monkeypatch.setattr(separability, "budget", lambda memory=None: 1000)
    report = separable(Polynomial(3), X, y)
    assert report.method == "gram"
    assert report.ok


def versicolor_virginica(seed):
    """Their hulls, and uneven masses on all rows."""
    X, y = VERSICOLOR_VIRGINICA
    found = hulls.FeatureHulls(X, np.where(y == 2, 1.0, -1.0), True)
    return found, found.normalised(found.y * np.random.default_rng(seed).random(100) ** 8)


def test_masses_sum_to_1_and_keep_their_signs():
    two = hulls.FeatureHulls(np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 1.0, 1.0]), True)
    np.testing.assert_allclose(two.normalised(np.array([-2.0, 3.0, 1.0])), [-1, 0.75, 0.25])
    np.testing.assert_allclose(two.normalised(np.array([-2.0, 3.0, -1.0])), [-1, 1, 0])


def test_masses_are_moved_until_the_points_meet():
    both, start = versicolor_virginica(3)
    assert both.bounds(start).norm > 0.1
    met = both.polished(start)
    assert both.bounds(met).touching
    assert (met * both.y >= 0).all()


def test_of_many_rows_the_heaviest_are_moved(monkeypatch):
    monkeypatch.setattr(hulls, "_POLISHED", 4 * 60)
    both, start = versicolor_virginica(3)
    met = both.polished(start)
    assert both.bounds(met).touching
    assert np.abs(start[met != 0]).min() >= np.sort(np.abs(start))[-60]


@pytest.mark.parametrize("make", [RBF().gram, lambda X: GivenGram(RBF()(X))])
def test_rows_with_the_signs_of_their_labels(make):
    """What a solver without an intercept reads is y_i K_ij y_j, also after its variables have changed places."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 2)), rng.choice([-1.0, 1.0], 30)
    source, K = hulls._Signed(RowCache(make(X), 10**6).source, y), RBF()(X) * np.outer(y, y)
    rows, columns, v = np.array([4, 9, 2]), np.array([7, 1, 0, 9]), rng.standard_normal(4)
    for _ in range(2):
        np.testing.assert_allclose(source.block(rows, columns), K[np.ix_(rows, columns)])
        np.testing.assert_allclose(source.matvec(rows, columns, v), K[np.ix_(rows, columns)] @ v)
        out = np.zeros((5, 30))
        source.fill(out, 1, rows, 3, 20)
        np.testing.assert_allclose(out[1:4, 3:20], K[rows, 3:20])
        order = rng.permutation(30)
        source, K = source.permuted(order), K[np.ix_(order, order)]
    np.testing.assert_allclose(hulls._Signed(RowCache(make(X), 10**6).source, y).whole(), RBF()(X) * np.outer(y, y))


# ------------------------------------------------------------------------------------------------------- inputs
def test_single_precision_rows_are_taken_exactly():
    X, y = SETOSA_VERSICOLOR
    X = X.astype(np.float32)
    for kernel in (Linear(), RBF()):
        single, double = separable(kernel, X, y), separable(kernel, X.astype(float), y)
        assert single.ok
        assert (single.margin, single.rounding) == (double.margin, double.rounding)
    K = X.astype(float) @ X.astype(float).T
    single, double = separable("precomputed", K.astype(np.float32), y), separable("precomputed", K, y)
    assert single.ok
    assert single.margin_upper == pytest.approx(double.margin_upper, rel=1e-2)
    assert single.rounding > 1e3 * double.rounding


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sparse_rows(fit_intercept):
    for data, ok in ((SETOSA_VERSICOLOR, True), (VERSICOLOR_VIRGINICA, False)):
        report = separable(Linear(), sp.csr_array(data[0]), data[1], fit_intercept=fit_intercept)
        assert report.ok is ok
        if ok:
            dense = separable(Linear(), *data, fit_intercept=fit_intercept)
            assert report.margin == pytest.approx(dense.margin, rel=2e-4)
            assert_separates(report, data[0] @ data[0].T, data[1])
        else:
            assert_certifies(report, *data)


def test_strings():
    words, y = ["acgacg", "ttgttg", "acgaca", "tgttgt"], ["a", "t", "a", "t"]
    report = separable(Spectrum(2), words, y)
    assert report.ok
    assert_separates(report, Spectrum(2)(words), y)
    mixed = ["aab", "baa", "aabb", "bbaa"]
    report = separable(Spectrum(1), mixed, [0, 1, 0, 0])  # "aab" and "baa" have the same letters
    assert report.ok is False
    np.testing.assert_allclose(report.certificate[:2], 1, atol=1e-12)


def test_tables():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"size": np.float32([1, 2, 3, 4]), "name": ["x", "y", "x", "y"]})
    assert separable(RBF().on("size"), table, pd.Series(["a", "b", "a", "b"])).ok
    report = separable(Spectrum(1).on("name"), table, [0, 0, 1, 1])
    assert report.ok is False
    assert np.count_nonzero(report.certificate) == 2


def test_words_and_functions():
    for kernel in ("rbf", "poly", lambda a, b: float(np.exp(-((a - b) ** 2).sum()))):
        assert separable(kernel, XOR, XOR_LABELS).ok
    assert separable(Intersection(), XOR + 2, XOR_LABELS).ok is None  # sums over columns, without explicit features


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("kernel", [Linear(), RBF()])
def test_engines(kernel, engine):
    report = separable(kernel, *SETOSA_VERSICOLOR, engine=engine)
    assert report.margin == pytest.approx(separable(kernel, *SETOSA_VERSICOLOR).margin, rel=2e-4)


def test_inputs_are_not_changed():
    X, y, K = XOR.copy(), XOR_LABELS.copy(), XOR @ XOR.T
    for a in (X, y, K):
        a.setflags(write=False)
    separable(Linear(), X, y)
    separable("precomputed", K, y, fit_intercept=False)
    separable(RBF(), X, y)


def test_the_report_is_frozen():
    report = separable(Linear(), XOR, XOR_LABELS)
    assert isinstance(report, Separability)
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.ok = True


@pytest.mark.parametrize(
    ("X", "y", "error", "words"),
    [
        (XOR, [0, 1, 1], ValueError, r"y\.shape == \(3,\), expected \(4,\)"),
        (XOR, np.zeros((4, 2)), ValueError, r"y\.shape == \(4, 2\)"),
        (XOR, [1, 1, 1, 1], ValueError, "y has 1 different label; two are needed"),
        (XOR, [0, 1, 2, 1], ValueError, "y has 3 different labels; pass the rows of two"),
        (XOR, [0, 1, np.nan, 1], ValueError, "y contains NaN"),
        (XOR, np.array([0, "a", 1, "a"], dtype=object), ValueError, "y mixes labels"),
        ([[np.nan], [1.0]], [0, 1], ValueError, "X contains NaN"),
        ([["a"], ["b"]], [0, 1], ValueError, "could not convert|numbers"),
        ([[1e200], [-1e200]], [0, 1], NanError, "rescale"),
        ([[1e-200], [-1e-200]], [0, 1], NanError, "rescale"),
    ],
)
def test_bad_data(X, y, error, words):
    with pytest.raises(error, match=words):
        separable(Linear(), X, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tol": 0}, "tol=0 must be"),
        ({"tol": "small"}, "tol='small' must be"),
        ({"max_iter": 0}, "max_iter=0 must be"),
        ({"time_limit": -1}, "time_limit=-1 must be"),
        ({"memory": "much"}, "memory='much' is not a size"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ValueError, match=words):
        separable(Linear(), XOR, XOR_LABELS, **options)


@pytest.mark.parametrize(
    ("K", "error", "words"),
    [
        (np.ones((2, 3)), ValueError, "X must be a square matrix"),
        ([[1.0, 0.5], [0.0, 1.0]], NotSymmetricError, "K - K"),
        ([[1.0, np.inf], [np.inf, 1.0]], NanError, "X holds NaN or infinity"),
        ([[1.0, 2.0], [2.0, 1.0]], NotPSDError, "smallest eigenvalue is -1"),
    ],
)
def test_bad_matrices(K, error, words):
    with pytest.raises(error, match=words):
        separable("precomputed", K, [0, 1])


def test_kernels_without_a_feature_space():
    with pytest.raises(NotPSDError, match=r"smallest eigenvalue is -0\.26"):
        separable(Linear().tanh(), [[0.5], [1.0], [2.0]], [0, 1, 1])
    with pytest.raises(NotPSDError, match="ThinPlate"):
        separable(ThinPlate(), XOR, XOR_LABELS)
    with pytest.raises(ValueError, match="words are"):
        separable("gauss", XOR, XOR_LABELS)


def test_an_indefinite_matrix_that_the_sample_missed(monkeypatch):
    """The eigenvalue test reads up to 1000 rows; the masses themselves may show a negative square."""
    monkeypatch.setattr(separability, "_refuse_indefinite", lambda K: None)
    K = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0], [2.0, 2.0, 1.0]])
    with pytest.raises(NotPSDError, match="check_kernel"):
        separable("precomputed", K, [0, 0, 1])

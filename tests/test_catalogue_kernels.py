"""The oracle of every kernel in the catalogue: K1-K14 and S5."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import special
from sklearn.metrics import pairwise
from sklearn.metrics.pairwise import pairwise_kernels

from cases import close
from mercer import kernels as mk
from mercer.kernels import Basis, as_kernel
from mercer.kernels.sklearn_names import WORDS

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 4)), RNG.standard_normal((8, 4))
P, Q = RNG.random((12, 4)), RNG.random((8, 4))
for A in (X, Y, P, Q):
    A.flags.writeable = False


def pairs(f, A=X, B=Y):
    """f(x, y) for all pairs of rows."""
    return np.array([[f(a, b) for b in B] for a in A])


def matern(nu, r):
    z = math.sqrt(2 * nu) * r
    return 1.0 if z == 0 else 2 ** (1 - nu) / special.gamma(nu) * z**nu * special.kv(nu, z)


def norm(v):
    return math.sqrt(v @ v)


def chi2(a, b):
    return sum((s - t) ** 2 / (s + t) for s, t in zip(a, b, strict=True) if s + t > 0)


def vapnik(s, t):
    m = min(s, t)
    return 1 + s * t + s * t * m - (s + t) / 2 * m**2 + m**3 / 3


def elementary(values, order):
    return np.poly(-np.asarray(values))[order]


S = np.array([[2.0, 0.3, 0, 0], [0.3, 1.0, 0, 0], [0, 0, 0.5, 0.1], [0, 0, 0.1, 1.5]])

CLOSED_FORMS = [
    ("K1", mk.Linear(), lambda a, b: a @ b),
    ("K2", mk.Polynomial(3, 0.5, 2.0), lambda a, b: (0.5 * a @ b + 2) ** 3),
    ("K2", mk.Polynomial(2, 1.0, 0.0), lambda a, b: (a @ b) ** 2),
    ("K3", mk.RBF(0.7), lambda a, b: math.exp(-((a - b) @ (a - b)) / (2 * 0.7**2))),
    ("K3", mk.RBF([0.5, 1.0, 2.0, 3.0]), lambda a, b: math.exp(-0.5 * (((a - b) / [0.5, 1.0, 2.0, 3.0]) ** 2).sum())),
    ("K3", mk.RBF(covariance=S), lambda a, b: math.exp(-0.5 * (a - b) @ np.linalg.solve(S, a - b))),
    ("K4", mk.Laplacian(2.0), lambda a, b: math.exp(-norm(a - b) / 2)),
    ("K4", mk.Laplacian(2.0, metric="l1"), lambda a, b: math.exp(-np.abs(a - b).sum() / 2)),
    ("K6", mk.Sigmoid(0.3, 0.1), lambda a, b: math.tanh(0.3 * a @ b + 0.1)),
    ("K7", mk.Cosine(), lambda a, b: a @ b / norm(a) / norm(b)),
    ("K10", mk.QuadraticForm(S), lambda a, b: a @ S @ b),
    ("K12", mk.Window(2.0), lambda a, b: float(norm(a - b) <= 2)),
    ("K13", mk.InverseMultiquadric(0.8), lambda a, b: 1 / math.sqrt(1 + (norm(a - b) / 0.8) ** 2)),
    ("K13", mk.Multiquadric(0.8), lambda a, b: -math.sqrt(1 + (norm(a - b) / 0.8) ** 2)),
    ("K13", mk.ThinPlate(1.5), lambda a, b: (norm(a - b) / 1.5) ** 2 * math.log(norm(a - b) / 1.5)),
    ("K13", mk.RationalQuadratic(1.7, 0.8), lambda a, b: (1 + (norm(a - b) / 0.8) ** 2 / 3.4) ** -1.7),
    ("K13", mk.Periodic(1.3, 0.9), lambda a, b: math.exp(-2 * (np.sin(np.pi * (a - b) / 1.3) ** 2).sum() / 0.81)),
    ("K13", mk.ANOVA(2, 0.8), lambda a, b: elementary(np.exp(-0.5 * ((a - b) / 0.8) ** 2), 2)),
    ("K13", mk.ANOVA(4, 0.8), lambda a, b: math.exp(-0.5 * norm((a - b) / 0.8) ** 2)),
    ("K13", mk.Constant(1.7), lambda a, b: 1.7),
    ("K13", mk.White(1.7), lambda a, b: 0.0),
]
NON_NEGATIVE = [
    ("K13", mk.Intersection(), lambda a, b: np.minimum(a, b).sum()),
    ("K13", mk.AdditiveChi2(), lambda a, b: -chi2(a, b)),
    ("K13", mk.Chi2(0.4), lambda a, b: math.exp(-0.4 * chi2(a, b))),
    ("K13", mk.Tanimoto(), lambda a, b: a @ b / (a @ a + b @ b - a @ b)),
    ("K13", mk.Brownian(), lambda a, b: np.minimum(a, b).prod()),
    ("K13", mk.LinearSpline(), lambda a, b: math.prod(map(vapnik, a, b))),
]


def show(p):
    return repr(p) if isinstance(p, mk.Kernel) else p if isinstance(p, str) else ""


@pytest.mark.parametrize(("row", "kernel", "formula"), CLOSED_FORMS, ids=show)
def test_closed_form(row, kernel, formula):
    close(kernel(X, Y), pairs(formula), 1e-13)


@pytest.mark.parametrize(("row", "kernel", "formula"), NON_NEGATIVE, ids=show)
def test_closed_form_of_non_negative_rows(row, kernel, formula):
    close(kernel(P, Q), pairs(formula, P, Q), 1e-13)


# ---------------------------------------------------------------------------------------------- K2, K3
def test_polynomial_explicit_maps():
    A = RNG.standard_normal((6, 2))
    x, y, r = A[:, 0], A[:, 1], math.sqrt(2)
    homogeneous = np.column_stack([x**2, r * x * y, y**2])
    close(mk.Polynomial(2, coef0=0.0).features(A), homogeneous, 1e-14)
    full = np.column_stack([np.ones(6), r * x, r * y, x**2, y**2, r * x * y])
    found = mk.Polynomial(2, coef0=1.0).features(A)
    assert found.shape == full.shape
    for column in full.T:  # the same features, in any order
        assert np.abs(found - column[:, None]).max(axis=0).min() < 1e-14
    close(full @ full.T, mk.Polynomial(2, coef0=1.0)(A), 1e-13)


ARD = {
    "RBF": mk.RBF,
    "Laplacian": mk.Laplacian,
    "Laplacian l1": lambda lengthscale: mk.Laplacian(lengthscale, "l1"),
    "Matern": lambda lengthscale: mk.Matern(2.5, lengthscale),
    "RationalQuadratic": lambda lengthscale: mk.RationalQuadratic(1.3, lengthscale),
}


@pytest.mark.parametrize("name", ARD)
def test_infinite_lengthscale_ignores_the_column_exactly(name):
    k, kept = ARD[name]([0.7, np.inf, 2.0, 1.0]), [0, 2, 3]
    changed = X.copy()
    changed[:, 1] = 1e5 * np.arange(len(X))
    assert np.array_equal(k(X, Y), k(changed, Y))
    close(k(X, Y), ARD[name]([0.7, 2.0, 1.0])(X[:, kept], Y[:, kept]), 1e-15)
    assert k.pullback(X, Y)["lengthscale"][1] == 0.0
    assert not k.pullback_inputs(X, Y)[:, 1].any()


def test_all_lengthscales_infinite():
    assert np.array_equal(mk.RBF(np.inf)(X, Y), np.ones((len(X), len(Y))))
    assert np.array_equal(mk.RBF([np.inf] * 4)(X, Y), np.ones((len(X), len(Y))))


def test_gamma_is_one_over_twice_the_squared_lengthscale():
    close(mk.RBF(0.6)(X, Y), pairwise.rbf_kernel(X, Y, gamma=1 / (2 * 0.36)), 1e-13)


def test_covariance_of_diagonal_is_ard():
    close(mk.RBF(covariance=np.diag([0.25, 1.0, 4.0, 9.0]))(X, Y), mk.RBF([0.5, 1.0, 2.0, 3.0])(X, Y), 1e-13)


# ---------------------------------------------------------------------------------------------- K4, K5
def test_laplacian_in_one_dimension_has_a_tridiagonal_inverse():
    t = np.sort(RNG.random(9))[:, None]
    inverse = np.linalg.inv(mk.Laplacian(0.7)(t))
    far = np.abs(np.subtract.outer(np.arange(9), np.arange(9))) > 1
    assert np.abs(inverse[far]).max() < 1e-10 * np.abs(inverse).max()


def test_laplacian_is_matern_one_half():
    close(mk.Laplacian(0.7)(X, Y), mk.Matern(0.5, 0.7)(X, Y), 1e-14)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 0.2, 0.7, 1.0, 2.0, 3.2, 4.5, 10.0, 40.0, 99.0])
def test_matern_equals_the_bessel_form(nu):
    close(mk.Matern(nu, 1.3)(X, Y), pairs(lambda a, b: matern(nu, norm(a - b) / 1.3)), 1e-12)
    assert np.array_equal(mk.Matern(nu)(X).diagonal(), np.ones(len(X)))
    if nu < 20:  # beyond that the oracle overflows near 0
        close(mk.Matern(nu)(1e-3 * X), pairs(lambda a, b: matern(nu, 1e-3 * norm(a - b)), X, X), 1e-11)
    expected = 1 - 1e-6 / (2 - 2 / max(nu, 2.5))  # 1 - z^2 / (4 (nu - 1)) for r = 1e-3
    assert nu < 2.5 or mk.Matern(nu)([[0.0]], [[1e-3]])[0, 0] == pytest.approx(expected, abs=1e-9)


def test_matern_tends_to_the_gaussian():
    gaussian = mk.RBF(0.9)(X, Y)
    errors = [np.abs(mk.Matern(nu, 0.9)(X, Y) - gaussian).max() for nu in (5.0, 20.0, 100.0, np.inf)]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 5e-3
    assert errors[3] < 1e-15
    with pytest.raises(ValueError, match="use RBF"):
        mk.Matern(101.0)


def test_matern_far_away_underflows_to_zero():
    far = np.array([[0.0], [1e3], [1e8]])
    for nu in (0.5, 0.7, 2.5, 3.2):
        close(mk.Matern(nu)(far), np.eye(3), 0.0)


# ---------------------------------------------------------------------------------------------- K6, K7, K8
def test_sigmoid_carries_no_certificate_and_needs_none():
    assert not mk.Sigmoid().validity.certified
    K = mk.Sigmoid(1.0)(np.array([[0.5], [1.0], [2.0]]))
    assert np.linalg.eigvalsh(K).min() == pytest.approx(-0.264, abs=5e-4)


def test_cosine_of_zero_is_zero():
    A = np.array([[0.0, 0.0], [3.0, 4.0], [-3.0, -4.0]])
    close(mk.Cosine()(A), [[0, 0, 0], [0, 1, -1], [0, -1, 1]], 1e-15)
    assert np.isfinite(mk.Cosine().pullback_inputs(A)).all()


def test_bspline_values():
    k = mk.BSpline(3)
    close(k([[0.0]]), [[2 / 3]], 1e-15)
    close(k([[0.0]], [[1.0], [2.0], [0.5]]), [[1 / 6, 0.0, 23 / 48]], 1e-15)
    close(mk.BSpline(1, 2.0)([[0.0]], [[1.0], [3.0]]), [[0.5, 0.0]], 1e-15)
    d = X[:1] - Y[:1]
    close(k(X[:1], Y[:1]), [[math.prod(float(k([[0.0]], [[u]])[0, 0]) for u in d[0])]], 1e-15)


@pytest.mark.parametrize("degree", [3, 5, 7])
def test_bspline_equals_scipy(degree):
    from scipy.interpolate import BSpline

    spline = BSpline.basis_element(np.arange(degree + 2) - (degree + 1) / 2, extrapolate=False)
    t = np.linspace(-degree / 2, degree / 2, 31)[:, None]
    close(mk.BSpline(degree)([[0.0]], t)[0], np.nan_to_num(spline(t[:, 0])), 1e-13)


@pytest.mark.parametrize("degree", [2, 4])
def test_even_splines_are_refused(degree):
    with pytest.raises(ValueError, match="even degrees are not PSD"):
        mk.BSpline(degree)


# ---------------------------------------------------------------------------------------------- K9, K10, K12
def test_bases():
    t = np.linspace(-1, 1, 5)[:, None]
    centres = np.array([-0.5, 0.0, 0.5])
    features = {
        "polynomial": (Basis.polynomials(3), t ** np.arange(4)),
        "gaussian": (Basis.gaussians(centres, 0.2), np.exp(-((t - centres) ** 2) / (2 * 0.04))),
        "sigmoid": (Basis.sigmoids(centres, 0.1), 1 / (1 + np.exp(-(t - centres) / 0.1))),
        "user": (Basis(np.tanh), np.tanh(t)),
    }
    for name, (k, F) in features.items():
        close(k(t), F @ F.T, 1e-13, name)
        close(k.features(t), F, 1e-14, name)


def test_quadratic_form_is_checked():
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -1"):
        mk.QuadraticForm(np.diag([1.0, -1.0]))
    with pytest.raises(ValueError, match="symmetric"):
        mk.QuadraticForm(np.array([[1.0, 1.0], [0.0, 1.0]]))


def test_window_is_not_a_kernel():
    values = np.linalg.eigvalsh(mk.Window()([[1.0], [2.0], [3.0]]))
    close(values, [1 - math.sqrt(2), 1, 1 + math.sqrt(2)], 1e-14)
    assert mk.Window().validity.kind == "not-psd"


# ---------------------------------------------------------------------------------------------- K13
@pytest.mark.parametrize(
    "kernel", [mk.Intersection(), mk.Chi2(), mk.AdditiveChi2(), mk.Brownian(), mk.LinearSpline()], ids=str
)
def test_negative_entries_are_refused(kernel):
    with pytest.raises(ValueError, match=f"{type(kernel).__name__} needs entries >= 0.*smallest is -1"):
        kernel([[2.0, -1.0]])


def test_minimum_of_negative_entries_would_not_be_psd():
    K = np.minimum.outer([-1.0, 2.0], [-1.0, 2.0])
    assert np.linalg.eigvalsh(K).min() == pytest.approx(-1.30, abs=5e-3)


def test_tanimoto_of_sets():
    A = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
    close(mk.Tanimoto()(A), [[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 1]], 1e-15)


def test_brownian_is_a_wiener_covariance():
    t = np.array([[0.2], [0.5], [0.9]])
    close(mk.Brownian()(t), np.minimum.outer(t[:, 0], t[:, 0]), 0.0)


def test_linear_spline_is_its_integral():
    """1 + st + integral of (s - u)_+ (t - u)_+ over u."""
    s, t = 0.7, 1.9
    u = (np.arange(200_000) + 0.5) * (s / 200_000)
    integral = ((s - u) * (t - u)).mean() * s
    assert mk.LinearSpline()([[s]], [[t]])[0, 0] == pytest.approx(1 + s * t + integral, rel=1e-9)


def test_anova_by_enumeration():
    from itertools import combinations

    g = np.exp(-0.5 * (X[0] - Y[0]) ** 2)
    for degree in (1, 2, 3):
        expected = sum(math.prod(c) for c in combinations(g, degree))
        assert mk.ANOVA(degree)(X[:1], Y[:1])[0, 0] == pytest.approx(expected, rel=1e-14)
    with pytest.raises(ValueError, match="needs at least 5 columns, got 4"):
        mk.ANOVA(5)(X)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_arccosine_is_its_integral(degree):
    """2 E[step(wx) step(wy) (wx)^n (wy)^n], w a Gaussian plane: quadrature over the angle of w."""
    a, b = np.array([1.0, 0.3]), np.array([-0.4, 1.1])
    angle = (np.arange(400_000) + 0.5) * 2 * np.pi / 400_000
    wa, wb = (np.cos(angle) * v[0] + np.sin(angle) * v[1] for v in (a, b))
    radial = {0: 1.0, 1: 2.0, 2: 8.0}[degree]  # E[r^(2n)] of a plane Gaussian
    expected = 2 * radial * (np.maximum(wa, 0) ** degree * (wa > 0) * np.maximum(wb, 0) ** degree * (wb > 0)).mean()
    assert mk.ArcCosine(degree)([a], [b])[0, 0] == pytest.approx(expected, abs=1e-4 if degree == 0 else 1e-9)


def test_arccosine_of_itself_is_its_power():
    squared = (X**2).sum(axis=1)
    for degree, expected in ((0, np.ones(len(X))), (1, squared), (2, 3 * squared**2)):
        close(mk.ArcCosine(degree).diag(X), expected, 1e-7 if degree == 0 else 1e-14)  # acos near 1


def test_arcsine_by_monte_carlo():
    """E[erf(u w) erf(u' w)] of random erf networks, within five standard errors."""
    a, b, weight, bias = np.array([0.5, -1.0]), np.array([1.5, 0.2]), 0.8, 0.4
    w = np.random.default_rng(1).standard_normal((400_000, 3)) * np.sqrt([bias, weight, weight])
    sample = special.erf(w[:, 0] + w[:, 1:] @ a) * special.erf(w[:, 0] + w[:, 1:] @ b)
    error = 5 * sample.std() / math.sqrt(len(sample))
    assert error < 5e-3
    assert abs(mk.ArcSine(weight, bias)([a], [b])[0, 0] - sample.mean()) < error


def test_arcsine_formula():
    def formula(a, b, w=0.8, c=0.4):
        top = 2 * (c + w * a @ b)
        return 2 / np.pi * math.asin(top / math.sqrt((1 + 2 * (c + w * a @ a)) * (1 + 2 * (c + w * b @ b))))

    close(mk.ArcSine(0.8, 0.4)(X, Y), pairs(formula), 1e-13)


def test_white_is_seen_only_on_the_same_rows():
    close(mk.White(0.3)(X), 0.3 * np.eye(len(X)), 0.0)
    assert not mk.White(0.3)(X, X).any()
    assert not mk.White(0.3)(X, X.copy()).any()


def test_categorical_hamming():
    words = pd.DataFrame({"a": ["x", "y", "x"], "b": ["u", "u", "v"]})
    expected = [[1, 0.5, 0.5], [0.5, 1, 0], [0.5, 0, 1]]
    close(mk.Categorical()(words), expected, 1e-15)
    close(mk.Categorical()(words.astype("category")), expected, 1e-15)
    close(mk.Categorical().on("a", "b")(words.to_dict("records")), expected, 1e-15)
    close(mk.Categorical()([[0, 0], [1, 0], [0, 1]]), expected, 1e-15)


def test_categorical_aitchison_aitken():
    codes = np.array([[0, 0], [1, 0], [2, 1.0]])
    b, (c1, c2) = 0.2, (3, 2)
    same, other1, other2 = 1 - b, b / (c1 - 1), b / (c2 - 1)
    expected = [
        [same * same, other1 * same, other1 * other2],
        [other1 * same, same * same, other1 * other2],
        [other1 * other2, other1 * other2, same * same],
    ]
    close(mk.Categorical("aitchison-aitken", b)(codes), expected, 1e-14)
    close(mk.Categorical("aitchison-aitken", b, n_categories=(3, 2))(codes, codes), expected, 1e-14)
    with pytest.raises(ValueError, match="to be PSD"):
        mk.Categorical("aitchison-aitken", 0.9, n_categories=2)


def test_conditionally_pd_kernels_are_so_only_conditionally():
    for k in (mk.Multiquadric(), mk.ThinPlate(), mk.AdditiveChi2()):
        assert k.validity.kind == "cpd"
        assert np.linalg.eigvalsh(k(P)).min() < -1e-3
    assert mk.ThinPlate().validity.order == 2


# ---------------------------------------------------------------------------------------------- scikit-learn's words
PARAMETERS = {
    "linear": {}, "cosine": {}, "additive_chi2": {}, "rbf": {"gamma": 0.3}, "laplacian": {"gamma": 0.3}, "chi2": {"gamma": 0.3},
    "poly": {"gamma": 0.3, "degree": 2, "coef0": 0.5}, "polynomial": {"gamma": 0.3, "degree": 3, "coef0": 1.5},
    "sigmoid": {"gamma": 0.3, "coef0": 0.5},
}  # fmt: skip


def test_every_word_is_tested():
    assert set(PARAMETERS) == set(WORDS) - {"precomputed"}


@pytest.mark.parametrize("word", PARAMETERS)
def test_words_mean_what_they_mean_in_sklearn(word):
    A, B = P.copy(), Q.copy()  # scikit-learn's chi2 refuses read-only rows
    close(as_kernel(word, **PARAMETERS[word])(P, Q), pairwise_kernels(A, B, metric=word, **PARAMETERS[word]), 1e-12)
    close(as_kernel(word)(P, Q), pairwise_kernels(A, B, metric=word), 1e-12)


def test_scale_and_auto_mean_what_they_mean_in_svms():
    gamma = 1 / (P.shape[1] * P.var())
    for word in ("rbf", "poly", "sigmoid", "laplacian"):
        expected = pairwise_kernels(P, metric=word, gamma=gamma)
        close(as_kernel(word, gamma="scale")(P), expected, 1e-12)
        close(as_kernel(word, gamma="auto")(P), pairwise_kernels(P, metric=word, gamma=1 / P.shape[1]), 1e-12)


def test_other_kernels_by_word():
    with pytest.raises(ValueError, match="'gauss' is not known; the words are linear"):
        as_kernel("gauss")
    with pytest.raises(TypeError, match="must be a mercer kernel, a word or a function"):
        as_kernel(3)
    assert as_kernel(mk.RBF(2.0)) == mk.RBF(2.0)
    close(as_kernel(lambda a, b: a @ b)(X, Y), X @ Y.T, 1e-13)


# ---------------------------------------------------------------------------------------------- S5: strings
WORDS_OF = ["gattaca", "tacgatta", "", "ga", "aaaa", "gattacagattaca"]


def brute_force(s, t, k):
    return sum(s[i : i + k] == t[j : j + k] for i in range(len(s) - k + 1) for j in range(len(t) - k + 1))


@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_spectrum_by_brute_force(k):
    expected = [[brute_force(s, t, k) for t in WORDS_OF] for s in WORDS_OF]
    close(mk.Spectrum(k)(WORDS_OF), expected, 0.0)
    close(mk.Spectrum(k)(WORDS_OF, WORDS_OF[:2]), np.array(expected)[:, :2], 0.0)
    close(mk.Spectrum(k).diag(WORDS_OF), np.diag(expected), 0.0)
    close(mk.Spectrum(k)(np.array(WORDS_OF)), expected, 0.0)


def test_spectrum_of_new_strings_keeps_their_norms():
    """Substrings that the other side does not have still count in the diagonal, on which the normalisation rests."""
    k = mk.Spectrum(2).normalise()
    joint = k(["abab", "zzzab"])
    assert k(["zzzab"], ["abab"])[0, 0] == pytest.approx(joint[1, 0], rel=1e-14)


MIXED = mk.Spectrum(3).on("dna") * mk.RBF().on("age")
COLUMNS = {"dna": ["gattaca", "gatta", "ttacg", "cccccc"], "age": [1.0, 2.5, 2.0, 0.0], "unused": ["a", "b", "c", "d"]}


def mixed_expected():
    strings = np.array([[brute_force(s, t, 3) for t in COLUMNS["dna"]] for s in COLUMNS["dna"]])
    return strings * np.exp(-0.5 * np.subtract.outer(COLUMNS["age"], COLUMNS["age"]) ** 2)


def records():
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


@pytest.mark.parametrize(
    "table", [pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS), records()], ids=["pandas", "polars", "dicts"]
)
def test_strings_and_numbers_of_a_table(table):
    close(MIXED(table), mixed_expected(), 1e-14)
    close(MIXED(table, table[:2] if not hasattr(table, "iloc") else table.iloc[:2]), mixed_expected()[:, :2], 1e-14)


def test_strings_and_numbers_of_tuples():
    rows = list(zip(*COLUMNS.values(), strict=True))
    close((mk.Spectrum(3).on(0) * mk.RBF().on(1))(rows), mixed_expected(), 1e-14)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_one_column_of_strings_is_a_list_of_strings(make):
    table = make({"dna": COLUMNS["dna"]})
    close(mk.Spectrum(3)(table), mk.Spectrum(3)(COLUMNS["dna"]), 0.0)
    close(mk.Spectrum(3)(table["dna"]), mk.Spectrum(3)(COLUMNS["dna"]), 0.0)


def test_what_is_no_string_is_named():
    with pytest.raises(TypeError, match="Spectrum reads strings, got int"):
        mk.Spectrum(3)(["abc", 3])
    with pytest.raises(TypeError, match="X is a single str"):
        mk.Spectrum(3)("abc")

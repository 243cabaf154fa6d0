"""The kernel algebra: closure rules A1-A15 with an oracle each, the laws on random trees, names, certificates."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cases import close, geometric, one_plus_first, squares
from mercer import kernels as mk
from mercer.kernels import (
    ANOVA,
    RBF,
    Constant,
    Cosine,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Sigmoid,
    White,
    Window,
)

RNG = np.random.default_rng(0)
X, Y = 0.8 * RNG.standard_normal((9, 3)), 0.8 * RNG.standard_normal((5, 3))
X[4] = X[1]
X.flags.writeable = Y.flags.writeable = False

# ---------------------------------------------------------------------------------------------- random kernels
numbers = st.floats(0.25, 4.0)
leaf_kernels = st.one_of(
    st.builds(RBF, numbers),
    st.builds(Laplacian, numbers, st.sampled_from(["l1", "l2"])),
    st.builds(Matern, st.sampled_from([0.5, 0.8, 1.5, 2.5]), numbers),
    st.builds(Linear),
    st.builds(Polynomial, st.integers(1, 3), st.floats(0.1, 1.0), st.floats(0.0, 1.0)),
    st.builds(Cosine),
    st.builds(Constant, numbers),
    st.builds(White, numbers),
    st.builds(ANOVA, st.integers(1, 3), numbers),
)


def _grow(inner):
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda k, c: c * k, inner, numbers),
        st.builds(lambda k: k.normalise(), inner),
        st.builds(lambda k: k.centre(Y), inner),
        st.builds(lambda k: (0.1 * k.normalise()).exp(), inner),
        st.builds(lambda k: k.normalise() ** 2, inner),
        st.builds(lambda k, c: k.gaussian(c), inner, numbers),
        st.builds(lambda k: k.on(2, 1, 0), inner),
    )


kernels = st.recursive(leaf_kernels, _grow, max_leaves=4)
rows = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).standard_normal((7, 3)))


def smallest(K):
    return np.linalg.eigvalsh(K).min() / max(np.abs(K).max(), 1e-300)


# ---------------------------------------------------------------------------------------------- laws
@given(kernels, rows)
def test_trees_by_closure_rules_are_certified_and_psd(k, A):
    assert k.validity.certified, k.validity
    assert smallest(k(A)) >= -1e-12


@given(kernels, kernels, rows)
def test_sum_and_product_of_grams(k1, k2, A):
    close((k1 + k2)(A), k1(A) + k2(A), 1e-12)
    close((k1 * k2)(A), k1(A) * k2(A), 1e-12)
    close((k1 - k2)(A), k1(A) - k2(A), 1e-12)
    close((k1 + k2)(A), (k2 + k1)(A), 1e-12)
    close((k1 * k2)(A), (k2 * k1)(A), 1e-12)


@given(kernels, numbers, rows)
def test_maps_of_a_gram(k, c, A):
    K, d = k(A), k.diag(A)
    close((c * k)(A), c * K, 1e-12)
    close((k * c)(A), c * K, 1e-12)
    close((k / c)(A), K / c, 1e-12)
    close((k**3)(A), K**3, 1e-11)
    close(k.tanh()(A), np.tanh(K), 1e-12)
    close((k + c)(A), K + c, 1e-12)
    distance = np.maximum(d[:, None] + d - 2 * K, 0)
    close(k.squared_distance(A), distance, 1e-11)
    close(k.gaussian(c)(A), np.exp(-distance / (2 * c * c)), 1e-10 * max(1.0, np.abs(K).max()))


@given(kernels, rows)
def test_a_kernel_is_its_text(k, A):
    if "rows>" in repr(k):  # a sample is not printed
        return
    again = eval(repr(k), vars(mk))
    assert again == k
    assert hash(again) == hash(k)


@given(kernels, rows)
def test_replace_is_lawful(k, A):
    names = k.differentiable
    values = k.get_params()
    assert k.replace() == k
    assert k.replace(**{n: values[n] for n in names}) == k
    for n in names:
        twice = k.replace(**{n: 0.6}).replace(**{n: 0.7})
        assert twice == k.replace(**{n: 0.7})
        assert set(twice.get_params()) == set(values)
    if len(names) > 1:  # different parameters in any order
        a, b = names[:2]
        assert (
            k.replace(**{a: 0.6}).replace(**{b: 0.7})
            == k.replace(**{b: 0.7}).replace(**{a: 0.6})
            == k.replace(**{a: 0.6, b: 0.7})
        )


@given(kernels, rows)
def test_metamorphic_rows(k, A):
    order = np.random.default_rng(0).permutation(len(A))
    close(k(A[order]), k(A)[np.ix_(order, order)], 1e-12)
    C = k(A, Y)
    close(k(Y, A), C.T, 1e-12)
    close(k(A[:2], Y), C[:2], 1e-12)


@given(st.sampled_from([RBF, Laplacian, Matern, mk.RationalQuadratic, mk.InverseMultiquadric]), numbers, rows)
def test_rescaling_rows_with_the_lengthscale(kind, c, A):
    close(kind(lengthscale=c)(c * A), kind(lengthscale=1.0)(A), 1e-12)
    close(kind(lengthscale=[c, 1.0, 2.0])(A), kind(lengthscale=1.0)(A / [c, 1.0, 2.0]), 1e-12)


@given(st.sampled_from([RBF(), Laplacian(), Linear(), Polynomial(), Cosine()]), rows)
def test_a_column_of_zeros_changes_nothing(k, A):
    close(k(np.column_stack([A, np.zeros(len(A))])), k(A), 1e-14)


# ---------------------------------------------------------------------------------------------- A1-A15
def test_a1_scaling():
    assert repr(2 * RBF()) == repr(RBF() * 2) == "2 * RBF()"
    close((2.5 * RBF())(X), 2.5 * RBF()(X), 1e-15)
    assert (-1 * RBF()).validity.kind == "not-psd"
    assert (0 * Sigmoid()).validity.kind == "psd"
    assert (np.float64(2) * RBF()) == 2 * RBF()


def test_a2_times():
    f = one_plus_first(X)
    close(RBF().times(one_plus_first)(X), f[:, None] * RBF()(X) * f, 1e-14)
    close(RBF().times(one_plus_first)(X, Y), f[:, None] * RBF()(X, Y) * one_plus_first(Y), 1e-14)


def test_a5_polynomial_of_a_kernel():
    K = Linear()(X)
    close(Linear().poly([1.0, 0.0, 0.5, 2.0])(X), 1 + 0.5 * K**2 + 2 * K**3, 1e-14)
    close(Linear().poly([2.0])(X), np.full(K.shape, 2.0), 0.0)


def test_a6_exponential():
    close((0.2 * Linear()).exp()(X), np.exp(0.2 * Linear()(X)), 1e-14)
    # exp(<x,y>) e^(-|x|^2/2) e^(-|y|^2/2) is the Gaussian
    close(Linear().exp().normalise()(X), RBF()(X), 1e-13)


def test_a7_warp():
    close(RBF().warp(squares)(X, Y), RBF()(X**2, Y**2), 1e-14)
    polar = RBF().warp(lambda A: np.column_stack([np.hypot(A[:, 0], A[:, 1]), np.arctan2(A[:, 1], A[:, 0])]))
    assert polar(X).shape == (9, 9)
    words = RBF().warp(lambda strings: np.array([[len(s)] for s in strings], float))
    close(words(["a", "abc"]), RBF()([[1.0], [3.0]]), 1e-15)


def test_a8_a9_parts():
    a, b = RBF()(X[:, [0, 2]], Y[:, [0, 2]]), Linear()(X[:, [1]], Y[:, [1]])
    close((RBF().on(0, 2) + Linear().on(1))(X, Y), a + b, 1e-14)
    close((RBF().on(0, 2) * Linear().on(1))(X, Y), a * b, 1e-14)
    close(RBF().on(-1)(X), RBF()(X[:, [2]]), 1e-15)
    close(Linear().on(1, 1)(X), 2 * Linear().on(1)(X), 1e-14)


def test_a10_gaussian_of_a_distance():
    close(Linear().gaussian(1.3)(X, Y), RBF(1.3)(X, Y), 1e-13)
    close(mk.Multiquadric().gaussian(1.0)(X), np.exp(mk.Multiquadric()(X) + 1), 1e-13)


def test_a11_normalise():
    close(Linear().normalise()(X, Y), Cosine()(X, Y), 1e-14)
    d = Polynomial(2)(X).diagonal()
    close(Polynomial(2).normalise()(X), Polynomial(2)(X) / np.sqrt(np.outer(d, d)), 1e-14)
    zero = np.zeros((2, 3))
    assert not Linear().normalise()(zero).any()


def test_a12_centre():
    n = len(X)
    H = np.eye(n) - 1 / n
    close(RBF().centre()(X), H @ RBF()(X) @ H, 1e-14)
    close(RBF().centre(X)(Y, X), (RBF()(Y, X) - RBF()(X).mean(axis=0)) @ H, 1e-14)
    close(Linear().centre(Y)(X), (X - Y.mean(axis=0)) @ (X - Y.mean(axis=0)).T, 1e-14)
    assert abs(RBF().centre()(X).sum()) < 1e-12


def test_a12_the_sample_is_owned():
    Z = Y.copy()
    k = RBF().centre(Z)
    before, h = k(X), hash(k)
    Z *= 3
    assert np.array_equal(k(X), before)
    assert hash(k) == h


@pytest.mark.parametrize("make", [np.array, list])
def test_parameters_are_owned(make):
    values = make([1.0, 2.0, 3.0])
    k = RBF(values)
    before, h = k(X), hash(k)
    values[1] = 9.0
    assert hash(k) == h
    assert np.array_equal(k(X), before)
    assert list(k.get_params()["lengthscale"]) == [1.0, 2.0, 3.0]


def test_a13_powers():
    close((Linear() ** 3)(X), Linear()(X) ** 3, 1e-14)
    close((Linear() ** 0)(X), np.ones((9, 9)), 0.0)
    for exponent in (0.5, -1, "2"):
        with pytest.raises((ValueError, TypeError), match="exponent"):
            Linear() ** exponent


FEATURES = [
    (3.0 * Linear(), math.sqrt(3) * X),
    (Linear().times(one_plus_first), one_plus_first(X)[:, None] * X),
    (Linear() + Constant(4.0), np.column_stack([X, np.full(9, 2.0)])),
    (
        Linear() * Polynomial(2, coef0=0.0),
        np.einsum("ni,nj->nij", X, Polynomial(2, coef0=0.0).features(X)).reshape(9, -1),
    ),
    (Linear() ** 2, np.einsum("ni,nj->nij", X, X).reshape(9, -1)),
    (Linear().normalise(), X / np.linalg.norm(X, axis=1, keepdims=True)),
    (Linear().centre(), X - X.mean(axis=0)),
    (Linear().on(0, 2), X[:, [0, 2]]),
    (Linear().warp(squares), X**2),
    (Linear().named("part"), X),
]


@pytest.mark.parametrize(("kernel", "expected"), FEATURES, ids=lambda p: repr(p) if isinstance(p, Kernel) else "")
def test_a14_maps_propagate(kernel, expected):
    F = kernel.features(X)
    close(F, expected, 1e-14)
    close(F @ F.T, kernel(X), 1e-13)


def test_a14_feature_dim():
    assert Polynomial(2, coef0=0.0).feature_dim(1000) == 500500
    assert Polynomial(2, coef0=1.0).feature_dim(1000) == math.comb(1002, 2)
    assert RBF().feature_dim(3) == math.inf
    assert (Linear() + Constant()).feature_dim(3) == 4
    assert (Linear() * Linear()).feature_dim(3) == (Linear() ** 2).feature_dim(3) == 9
    assert Linear().poly([1, 0, 2]).feature_dim(3) == 1 + 9
    assert (Linear() + RBF()).feature_dim(3) == math.inf
    assert Linear().on(0, 1).feature_dim(10) == 2


def test_a14_maps_of_strings_stay_sparse():
    words = ["abab", "ba", "", "bbb"]
    k = 2.0 * mk.Spectrum(1) * mk.Spectrum(2) + mk.Spectrum(1).normalise() + mk.Spectrum(2).poly([0.0, 1.0, 0.5])
    F = k.features(words)
    assert sp.issparse(F)
    close((F @ F.T).toarray(), k(words), 1e-13)


@pytest.mark.parametrize("kernel", [RBF(), Linear() * RBF(), mk.Matern(), White(), Linear().exp()], ids=str)
def test_a14_no_finite_map(kernel):
    with pytest.raises(ValueError, match="no finite explicit feature map"):
        kernel.features(X)


def test_a15_power_series():
    """1/(1 - k/4) = sum of (k/4)^i on |k| < 4, by a polynomial with coefficients >= 0: PSD."""
    k = Cosine().poly(0.25 ** np.arange(60))
    close(k(X), 1 / (1 - Cosine()(X) / 4), 1e-14)
    assert k.validity.certified


def test_a15_series():
    k = Cosine() / 4
    close(k.series(geometric, radius=1.0)(X), 1 / (1 - Cosine()(X) / 4), 1e-13)
    close(Linear().series(np.exp)(X), Linear().exp()(X), 1e-14)
    assert k.series(geometric, radius=1.0).validity.certified
    assert not k.series(np.sin).validity.certified
    assert not Sigmoid().series(np.exp).validity.certified
    with pytest.raises(ValueError, match=r"NaN|radius"):
        (4 * Cosine()).series(geometric, radius=1.0)(X)


# ---------------------------------------------------------------------------------------------- names
NAMES = [
    (RBF(), {"lengthscale", "covariance"}),
    (2 * RBF(), {"scale", "rbf", "rbf__lengthscale", "rbf__covariance"}),
    (RBF() + Linear(), {"rbf", "rbf__lengthscale", "rbf__covariance", "linear"}),
    (2 * RBF() + 3 * RBF(), {"scale_1", "scale_2", "rbf_1", "rbf_2", "rbf_1__lengthscale", "rbf_1__covariance",
                             "rbf_2__lengthscale", "rbf_2__covariance"}),
    (RBF().named("trend") + RBF(), {"trend", "trend__lengthscale", "trend__covariance",
                                    "rbf", "rbf__lengthscale", "rbf__covariance"}),
    ((2 * RBF() + Linear()).named("both") * White(), {"both", "both__scale", "both__rbf", "both__rbf__lengthscale",
                                                      "both__rbf__covariance", "both__linear", "white", "white__variance"}),
    (Polynomial() ** 2, {"exponent", "polynomial", "polynomial__degree", "polynomial__gamma", "polynomial__coef0"}),
    (Linear().gaussian(2.0), {"gaussian", "gaussian__lengthscale", "linear"}),
    (Linear().poly([1, 2]), {"coefficients", "linear"}),
    (Linear().on(0).normalise(), {"linear"}),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "names"), NAMES, ids=lambda p: repr(p) if isinstance(p, Kernel) else "")
def test_parameter_names(kernel, names):
    assert set(kernel.get_params()) == names


def test_names_do_not_move_when_values_do():
    k = 2 * RBF(0.3) + Linear() ** 2
    assert set(k.replace(scale=0.0, exponent=1).get_params()) == set(k.get_params())


def test_parts_can_be_replaced():
    k = (2 * RBF(0.3) + Linear().named("slope")) * White()
    assert k.replace(rbf=Matern(2.5)) == (2 * Matern(2.5) + Linear().named("slope")) * White()
    assert k.replace(slope=RBF(3.0)) == (2 * RBF(0.3) + RBF(3.0)) * White()
    assert k.replace(rbf=RBF(0.5), rbf__lengthscale=0.7).get_params()["rbf__lengthscale"] == 0.7
    with pytest.raises(TypeError, match="must be a kernel"):
        k.replace(rbf=3)
    with pytest.raises(ValueError, match="must be > 0"):
        k.replace(rbf__lengthscale=-1.0)


def test_bad_names_are_refused():
    for name in ("two words", "a__b", "", 3):
        with pytest.raises(ValueError, match="identifier"):
            RBF().named(name)
    with pytest.raises(ValueError, match="two parts of the kernel are called 'linear_1'"):
        (RBF().named("linear_1") + Linear() + Linear()).get_params()


def test_printed_as_typed():
    shown = {
        2 * RBF() + Linear() ** 2: "2 * RBF() + Linear()**2",
        RBF() - (Linear() - White()): "RBF() - (Linear() - White())",
        (RBF() + Linear()) * White(): "(RBF() + Linear()) * White()",
        RBF() * (Linear() * White()): "RBF() * (Linear() * White())",
        (2 * RBF()) ** 2: "(2 * RBF())**2",
        RBF(0.3).on(0, "age").normalise(): "RBF(lengthscale=0.3).on(0, 'age').normalise()",
        (RBF() + Linear()).exp(): "(RBF() + Linear()).exp()",
        RBF() + 1: "RBF() + Constant()",
    }
    for k, text in shown.items():
        assert repr(k) == text


def test_foreign_operands():
    for wrong in ("RBF", None, [1.0]):
        with pytest.raises(TypeError):
            RBF() + wrong
        with pytest.raises(TypeError):
            RBF() * wrong
    with pytest.raises(TypeError):
        RBF() / Linear()
    for build in (lambda: RBF().minimum(2), lambda: mk.Sum((RBF(), 3)), lambda: mk.Exp(3), lambda: mk.Product(())):
        with pytest.raises(TypeError, match="kernel"):
            build()


# ---------------------------------------------------------------------------------------------- certificates
PD, PSD_, CPD, UNKNOWN, NOT = RBF(), Linear(), mk.Multiquadric(), Sigmoid(), Window()
CERTIFICATES = [
    (PD, "pd"), (PSD_, "psd"), (CPD, "cpd"), (UNKNOWN, "unknown"), (NOT, "not-psd"),
    (PD + PSD_, "pd"), (PSD_ + PSD_, "psd"), (PD + CPD, "cpd"), (PD + UNKNOWN, "unknown"), (PD + NOT, "unknown"),
    (CPD + mk.ThinPlate(), "cpd"), (CPD + UNKNOWN, "unknown"),
    (PD * PD, "pd"), (PD * PSD_, "psd"), (PD * CPD, "unknown"), (PD * UNKNOWN, "unknown"), (PD * NOT, "unknown"),
    (3 * PD, "pd"), (3 * CPD, "cpd"), (-1 * PD, "not-psd"), (-1 * PSD_, "unknown"), (0 * NOT, "psd"), (2 * NOT, "not-psd"),
    (PD.exp(), "pd"), (PSD_.exp(), "psd"), (CPD.exp(), "unknown"), (UNKNOWN.exp(), "unknown"),
    (PD**2, "pd"), (PSD_**2, "psd"), (UNKNOWN**2, "unknown"), (UNKNOWN**0, "psd"), (NOT**1, "not-psd"),
    (PD.poly([0, 1, 1]), "pd"), (PSD_.poly([0, 1, -1]), "unknown"), (NOT.poly([1.0]), "psd"),
    (PD.normalise(), "pd"), (PSD_.normalise(), "psd"), (UNKNOWN.normalise(), "unknown"),
    (PD.centre(), "psd"), (CPD.centre(), "psd"), (UNKNOWN.centre(), "unknown"), (mk.ThinPlate().centre(), "unknown"),
    (PSD_.gaussian(), "psd"), (CPD.gaussian(), "psd"), (mk.ThinPlate().gaussian(), "unknown"), (UNKNOWN.gaussian(), "unknown"),
    (PD.on(0), "psd"), (PD.warp(squares), "psd"), (UNKNOWN.on(0), "unknown"), (CPD.on(0), "cpd"),
    (PD.times(one_plus_first), "psd"), (PD.named("a"), "pd"),
    (PD - PSD_, "unknown"), (PD.tanh(), "unknown"), (PD.minimum(PSD_), "unknown"), (PD.maximum(PSD_), "unknown"),
    (RBF([1.0, np.inf]), "psd"), (RBF(np.inf), "psd"), (White(0.0), "psd"), (White(1.0), "pd"), (Constant(-1.0), "not-psd"),
    (Polynomial(coef0=-1.0), "unknown"), (Polynomial(degree=1.5), "unknown"), (mk.Periodic(), "psd"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "kind"), CERTIFICATES, ids=lambda p: repr(p) if isinstance(p, Kernel) else p)
def test_certificates_propagate(kernel, kind):
    assert kernel.validity.kind == kind
    assert kernel.validity.reason
    assert kernel.validity.certified == (kind in ("pd", "psd"))


def test_a_stricter_kind_satisfies_a_weaker_need():
    order = ["pd", "psd", "cpd"]
    for i, have in enumerate(order):
        for j, need in enumerate(order):
            assert mk.Validity(have, "").satisfies(need) == (i <= j)
    for have in ("unknown", "not-psd"):
        assert not any(mk.Validity(have, "").satisfies(need) for need in order)


def test_what_is_not_closed_can_be_indefinite():
    line = np.array([[0.5], [1.0], [2.0]])
    assert np.linalg.eigvalsh(Linear().tanh()(line)).min() == pytest.approx(-0.264, abs=5e-4)
    assert np.linalg.eigvalsh((RBF() - 2 * Linear())(line)).min() < -1
    assert np.linalg.eigvalsh(Linear().minimum(Constant(1.0))(line)).min() < -0.01
    assert np.linalg.eigvalsh(Linear().maximum(Constant(1.0))(line)).min() < -0.01


def test_strictly_pd_is_strict_and_psd_is_not():
    distinct = np.unique(X, axis=0)
    assert smallest(RBF()(distinct)) > 1e-6
    assert smallest(Linear()(distinct)) < 1e-12


def test_distance_of_what_is_no_kernel_is_reported():
    with pytest.raises(ValueError, match="not PSD here"):
        (RBF() - 3 * Linear()).distance(X)
    close(RBF().distance(X, Y) ** 2, RBF().squared_distance(X, Y), 1e-14)
    assert RBF().squared_distance(X).min() == 0.0

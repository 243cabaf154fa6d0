"""mercer.diagnostics against the catalogue's oracles (K12, A, V2-V6), closed forms and bad inputs."""

import dataclasses
import doctest
import importlib
import pkgutil

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import iv, k0
from threadpoolctl import threadpool_limits

from mercer import diagnostics
from mercer.diagnostics import (
    alignment,
    check_kernel,
    conditioning,
    effective_rank,
    entropy_rank,
    fourier_check,
    mercer_expansion,
    mercer_map,
    repair,
    spectrum,
)
from mercer.diagnostics import check as check_module
from mercer.diagnostics import fourier as fourier_module
from mercer.errors import ConvergenceWarning, NanError, NotPSDError, NotSymmetricError
from mercer.gram import GivenGram
from mercer.kernels import (
    ANOVA,
    RBF,
    AdditiveChi2,
    Blockwise,
    Brownian,
    BSpline,
    Constant,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Matern,
    Multiquadric,
    Pairwise,
    Periodic,
    RationalQuadratic,
    Spectrum,
    ThinPlate,
    Validity,
    White,
    Window,
)

POINTS = np.array([[1.0], [2.0], [3.0]])
WINDOW = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])  # the Gram of Window() on POINTS (K12)
EIGENVALUES = np.array([1 + np.sqrt(2), 1.0, 1 - np.sqrt(2)])


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The matrices are small, and thread pools spin against each other on a busy machine."""
    with threadpool_limits(1):
        yield


def sample(n=40, d=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def indefinite(n=12, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, n))
    K = (A + A.T) / 2
    np.fill_diagonal(K, np.linspace(0.5, 2.0, n))
    return K


# ------------------------------------------------------------------------------------------------------- V2: check_kernel
def test_window_is_refuted():
    report = check_kernel(Window(), POINTS)
    assert not report.ok
    assert report.symmetric
    assert report.smallest_eigenvalue == pytest.approx(1 - np.sqrt(2), abs=1e-12)
    v = report.violating_vector
    assert np.linalg.norm(v) == pytest.approx(1)
    assert v @ WINDOW @ v == pytest.approx(1 - np.sqrt(2), abs=1e-12)
    assert report.certificate.kind == "not-psd"
    assert report.conditionally_ok is None
    np.testing.assert_allclose(spectrum(Window(), POINTS), EIGENVALUES, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "X", "smallest"),
    [
        (Linear().tanh(), [[0.5], [1.0], [2.0]], -0.264),
        (Blockwise(lambda X, Y: np.minimum(X, Y.T)), [[-1.0], [2.0]], -1.30),
        (lambda x, y: min(x[0], y[0]), [[-1.0], [2.0]], -1.30),
    ],
)
def test_published_counterexamples(kernel, X, smallest):
    report = check_kernel(kernel, X)
    assert not report.ok
    assert report.symmetric
    assert report.smallest_eigenvalue == pytest.approx(smallest, abs=5e-3)
    assert report.violating_vector is not None


@pytest.mark.parametrize("kernel", [RBF(), "rbf", Linear() ** 2, Pairwise(lambda x, y: x @ y)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_valid_kernels_are_not_refuted(kernel, dtype):
    report = check_kernel(kernel, sample().astype(dtype))  # numerically singular: eigenvalues down to minus rounding
    assert report.ok
    assert report.violating_vector is None
    assert report.tolerance > 0
    assert "never prove" in str(report)
    assert str(report.certificate) in str(report)


def test_tolerance_follows_dtype_and_size():
    K = np.diag([2.0, 1.0, 1.0])
    assert check_kernel(K).tolerance == 10 * 3 * np.finfo("f8").eps * 2
    assert check_kernel(K.astype("f4")).tolerance == 10 * 3 * np.finfo("f4").eps * 2
    nearly = np.diag([1.0, -1e-13])
    assert not check_kernel(nearly).ok
    assert check_kernel(nearly, tol=1e-12).ok
    assert check_kernel(np.diag([1.0, -1e-15])).ok  # rounding


def test_strings_sparse_and_operators():
    assert check_kernel(Spectrum(2), ["abab", "ba", "bb"]).ok
    assert check_kernel(sp.csr_array(np.eye(3))).ok
    assert not check_kernel(GivenGram(WINDOW)).ok
    assert check_kernel(RBF(), sp.csr_array(sample())).ok


def test_asymmetric_user_kernels_are_reported_not_raised():
    report = check_kernel(Pairwise(lambda x, y: x[0] - y[0] + 2.0), [[-1.0], [2.0]])
    assert not report.ok
    assert not report.symmetric
    assert report.asymmetry == 6.0
    assert "not symmetric" in str(report)
    assert report.smallest_eigenvalue == pytest.approx(0, abs=1e-12)  # of the symmetric part, all twos
    noisy = check_kernel(Pairwise(lambda x, y: x[0] - y[0] + 2.0) + White(3.0), [[-1.0], [2.0]])
    assert noisy.smallest_eigenvalue == pytest.approx(3)
    assert not check_kernel([[1.0, 0.5], [0.4, 1.0]]).symmetric


def test_asymmetry_between_distant_rows_is_seen():
    """Far from the diagonal a Gram of rows with themselves is only ever asked one way round, and mirrored."""
    X = np.arange(400.0)[:, None]
    far = Blockwise(lambda A, B: np.where(A - B.T > 390, 0.5, 0.0) + (A == B.T))
    assert check_kernel(far, X).asymmetry == 0.5


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (Multiquadric(), sample()),
        (AdditiveChi2(), np.abs(sample())),
        (ThinPlate(), sample()),
        (ThinPlate(), 1e3 + sample()),
        (ThinPlate(), sample().astype("f4")),
        (ThinPlate().on(1), sample()),
        (ThinPlate().on(1, 2), [("text", *row) for row in sample()]),
        (ThinPlate(2.0) + RBF(), sp.csr_array(sample())),
    ],
)
def test_conditionally_positive_definite(kernel, X):
    report = check_kernel(kernel, X)
    assert not report.ok
    assert report.conditionally_ok is True
    assert "is PSD" in str(report)


class Overclaimed(Pairwise):
    """-(x - y)^4 is conditionally PD of order 3: orthogonal to lines the form is -6 (sum_i v_i x_i^2)^2."""

    validity = Validity("cpd", "claimed by a test", order=2)


def test_conditional_check_can_fail():
    report = check_kernel(Overclaimed(lambda x, y: -(float(x[0] - y[0]) ** 4)), sample(8, 1))
    assert report.conditionally_ok is False
    assert "degree < 2 the Gram is NOT PSD" in str(report)


def test_lanczos_agrees_with_the_whole_spectrum(monkeypatch):
    X = sample(600, seed=3)
    kernels = [Window(), RBF(), Multiquadric(), Pairwise(lambda x, y: float(x @ y > 0))]
    rows = [X, X, X, X[:40]]
    whole = [check_kernel(k, Z) for k, Z in zip(kernels, rows, strict=True)]
    monkeypatch.setattr(check_module, "DENSE", 30)
    for kernel, Z, expected in zip(kernels, rows, whole, strict=True):
        found = check_kernel(kernel, Z)
        assert (expected.method, found.method) == ("eigh", "lanczos")
        assert (found.ok, found.conditionally_ok) == (expected.ok, expected.conditionally_ok)
        assert found.smallest_eigenvalue == pytest.approx(expected.smallest_eigenvalue, abs=1e-3)
        assert "upper bound" in str(found)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.eye(3)[:2],), ValueError, r"square matrix .*\(2, 3\)"),
        ((np.ones(3),), ValueError, r"shape \(3,\)"),
        ((np.empty((0, 0)),), ValueError, "square"),
        (([["a"]],), ValueError, "real numbers"),
        ((np.eye(2) * 1j,), ValueError, "real numbers"),
        (([[np.nan, 0.0], [0.0, 1.0]],), NanError, "NaN or infinity in 1 of 4"),
        ((np.array([[np.inf]]),), NanError, "NaN or infinity"),
        ((RBF(),), ValueError, "needs rows X"),
        ((np.eye(2), [[1.0], [2.0]]), ValueError, "the matrix alone"),
        ((RBF(), [[np.nan]]), ValueError, "NaN"),
        ((Linear(), [[1e200]]), NanError, "rescale"),
        (("rbff", [[1.0]]), ValueError, "not known"),
    ],
)
def test_check_kernel_refuses(arguments, error, message):
    with np.errstate(over="ignore"), pytest.raises(error, match=message):
        check_kernel(*arguments)


@pytest.mark.parametrize("tol", [-1.0, np.nan, "1e-3", True])
def test_bad_tolerance(tol):
    with pytest.raises(ValueError, match="tol="):
        check_kernel(np.eye(2), tol=tol)


# ------------------------------------------------------------------------------------------------------ V3: fourier_check
EDGE = 0.9999 * 2**0.125  # a jump just inside the end of a panel
DENSITIES = [
    (RBF(), lambda w: np.sqrt(2 * np.pi) * np.exp(-w * w / 2)),
    (RBF(1e6), lambda w: 1e6 * np.sqrt(2 * np.pi) * np.exp(-((1e6 * w) ** 2) / 2)),
    (Laplacian(), lambda w: 2 / (1 + w * w)),
    (Laplacian(0.01, metric="l1"), lambda w: 0.02 / (1 + (0.01 * w) ** 2)),
    (Matern(1.5), lambda w: 4 * 3**1.5 / (3 + w * w) ** 2),
    (BSpline(3), lambda w: np.sinc(w / (2 * np.pi)) ** 4),
    (BSpline(1, width=1.3), lambda w: 1.3 * np.sinc(1.3 * w / (2 * np.pi)) ** 2),
    (Window(EDGE), lambda w: 2 * EDGE * np.sinc(EDGE * w / np.pi)),
    (RationalQuadratic(), lambda w: np.sqrt(2) * np.pi * np.exp(-np.sqrt(2) * w)),
    (InverseMultiquadric(), lambda w: 2 * k0(w)),  # decays like 1/t: no density at 0
    (2 * RBF() - RBF(3.0), lambda w: np.sqrt(2 * np.pi) * (2 * np.exp(-w * w / 2) - 3 * np.exp(-4.5 * w * w))),
]


@pytest.mark.parametrize(("kernel", "density"), DENSITIES, ids=lambda x: repr(x) if hasattr(x, "stationary") else "")
def test_densities_and_their_errors(kernel, density):
    report = fourier_check(kernel)
    truth = density(report.frequencies)
    size = np.abs(truth).max()
    assert np.abs(report.density - truth).max() <= 1e-9 * size
    assert (np.abs(report.density - truth) <= report.errors + 1e-15 * size).all()
    assert report.errors.max() <= 1e-9 * size  # an estimate that is honest and of use
    assert report.ok == (truth.min() > -1e-12 * size)


def test_window_fails_bochner():
    report = fourier_check(Window(1.0))
    assert not report.ok
    assert report.minimum == pytest.approx(-0.4345, abs=5e-5)
    assert report.frequency == pytest.approx(4.493409458, abs=1e-6)  # tan w = w
    assert report.minimum == pytest.approx(2 * np.cos(4.493409457909064), abs=1e-12)
    assert report.error < 1e-13
    assert "refuted" in str(report)


def test_a_certain_violation_goes_before_a_larger_doubtful_one():
    w, density, errors = np.arange(4.0), np.array([-1.0, 1.0, 1.0, -0.1]), np.array([2.0, 0.1, 0.1, 0.01])
    assert fourier_module._lowest(None, w, density, errors) == (-0.1, 3.0, 0.01)


def test_slow_decay_is_said():
    slow = fourier_check(RationalQuadratic(0.6))  # t^-1.2: integrable, but beyond any truncation
    assert slow.ok
    truth = 1.2**0.5 * np.pi**0.5 * 9.513507698668732 / 1.489192248812817  # Gamma(0.1), Gamma(0.6)
    assert slow.frequencies[0] == 0
    assert 1e-6 < abs(slow.density[0] - truth) < slow.errors[0] < 0.1
    assert slow.errors[1:].max() < 1e-6
    assert fourier_check(InverseMultiquadric()).frequencies[0] > 0
    with pytest.raises(ValueError, match="w = 0"):
        fourier_check(InverseMultiquadric(), frequencies=[0.0, 1.0])


def test_given_frequencies():
    report = fourier_check(Laplacian(), frequencies=[0.0, 1.0, 3.0])
    np.testing.assert_allclose(report.density, [2.0, 1.0, 0.2], atol=1e-12)
    for bad in ([], [[1.0]], [-1.0], [np.nan]):
        with pytest.raises(ValueError, match="frequencies must"):
            fourier_check(RBF(), frequencies=bad)


def test_constants_are_mass_at_zero():
    positive = fourier_check(RBF() + 0.5)
    assert positive.ok
    assert positive.mass_at_zero == pytest.approx(np.pi)
    np.testing.assert_allclose(positive.density, fourier_check(RBF()).density, atol=1e-14)
    negative = fourier_check(RBF() - 0.1)
    assert not negative.ok
    assert "mass -0.6283 at w = 0" in str(negative)


def test_periodic_kernels_have_lines():
    report = fourier_check(Periodic(period=2.0, lengthscale=0.7))
    m = np.arange(len(report.density))
    z = 1 / 0.7**2
    assert report.lines
    assert report.ok
    np.testing.assert_allclose(report.frequencies, np.pi * m)
    np.testing.assert_allclose(report.density, 2 * np.pi * np.exp(-z) * iv(m, z), atol=1e-13)
    assert "Fourier series" in str(report)
    assert fourier_check(Constant(2.0)).density[0] == pytest.approx(4 * np.pi)
    assert not fourier_check(Constant(-1.0)).ok
    assert not fourier_check(Periodic() - 0.9).ok
    both = fourier_check(Periodic(1.0) * Periodic(0.3))
    assert both.frequencies[1] == pytest.approx(2 * np.pi / 3)
    assert both.ok


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Linear(), "not stationary"),
        (RBF() + White(), "White"),
        (RBF("median"), "resolve"),
        (RBF([1.0, 2.0]), "one column"),
        (ANOVA(2), "one column"),
        (Multiquadric(), "grows"),
        (ThinPlate(), "grows"),
        (RBF() + Periodic(), "lines"),
        (Periodic(1.0) * Periodic(np.sqrt(0.5)), "common multiple"),
    ],
)
def test_fourier_check_refuses(kernel, message):
    with pytest.raises(ValueError, match=message):
        fourier_check(kernel)


def test_fourier_check_refuses_other_things():
    with pytest.raises(ValueError, match="dim=2"):
        fourier_check(RBF(), dim=2)
    with pytest.raises(ValueError, match="harmonics"):
        fourier_check(Periodic(), frequencies=[1.0])
    with pytest.raises(TypeError, match="needs a kernel"):
        fourier_check(np.eye(2))


# -------------------------------------------------------------------------------------------------------------- V4: repair
def test_repair_of_the_window():
    values, U = np.linalg.eigh(WINDOW)
    clip, flip, shift, nearest = (repair(WINDOW, m) for m in ("clip", "flip", "shift", "nearest"))
    np.testing.assert_allclose(clip.matrix, (U * np.maximum(values, 0)) @ U.T, atol=1e-14)
    np.testing.assert_allclose(flip.matrix, (U * np.abs(values)) @ U.T, atol=1e-14)
    np.testing.assert_allclose(shift.matrix, WINDOW + (np.sqrt(2) - 1) * np.eye(3), atol=1e-14)
    np.testing.assert_array_equal(nearest.matrix, clip.matrix)
    assert clip.change == pytest.approx(np.sqrt(2) - 1)
    assert flip.change == pytest.approx(2 * (np.sqrt(2) - 1))
    assert shift.change == pytest.approx((np.sqrt(2) - 1) * np.sqrt(3))
    assert shift.shift == pytest.approx(np.sqrt(2) - 1)
    assert clip.relative_change == pytest.approx((np.sqrt(2) - 1) / np.sqrt(7))
    assert flip.smallest_after == pytest.approx(np.sqrt(2) - 1)
    for fixed in (clip, flip, shift, nearest):
        assert fixed.smallest_before == pytest.approx(1 - np.sqrt(2))
        assert f"{fixed.method}: smallest eigenvalue -0.414214" in str(fixed)
        assert check_kernel(fixed.matrix).ok


def test_higham_nearest_correlation_matrix():
    fixed = repair(WINDOW, "nearest", keep_diagonal=True)  # Higham (2002), the example of section 4
    expected = [[1, 0.7607, 0.1573], [0.7607, 1, 0.7607], [0.1573, 0.7607, 1]]
    np.testing.assert_allclose(fixed.matrix, expected, atol=5e-5)
    assert fixed.change == pytest.approx(0.5278, abs=5e-5)
    assert fixed.iterations > 1
    assert "diagonal kept" in str(fixed)
    with pytest.raises(ValueError, match="clip"):
        fixed.transform(np.ones((1, 3)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "options", [{}, {"method": "flip"}, {"method": "shift"}, {"method": "nearest", "keep_diagonal": True}], ids=str
)
def test_repaired_matrices_are_psd_and_symmetric(options, dtype):
    K = indefinite().astype(dtype)
    K[3, 3] = 0  # a zero on the diagonal makes a row of zeros, if it is kept
    fixed = repair(K, **options)
    assert fixed.matrix.dtype == K.dtype
    np.testing.assert_array_equal(fixed.matrix, fixed.matrix.T)
    assert check_kernel(fixed.matrix).ok
    assert fixed.smallest_before < -0.5
    assert fixed.smallest_after >= -check_kernel(fixed.matrix).tolerance
    assert fixed.change == pytest.approx(float(np.linalg.norm(fixed.matrix - K)), rel=1e-5)
    if options.get("keep_diagonal"):
        np.testing.assert_array_equal(fixed.matrix.diagonal(), K.diagonal())


def test_kept_diagonal_is_nearest():
    """No nearby matrix of the same kind is nearer: convex, so small moves towards others must not help."""
    K, rng = indefinite(5), np.random.default_rng(1)
    B = repair(K, "nearest", keep_diagonal=True).matrix
    distance, d = np.linalg.norm(B - K), np.sqrt(np.diagonal(K))
    for _ in range(200):
        F = rng.standard_normal((5, 5))
        C = F @ F.T
        scale = d / np.sqrt(np.diagonal(C))
        C = C * np.outer(scale, scale)  # PSD with the diagonal of K
        assert np.vdot(K - B, C - B) <= 1e-7  # the variational inequality of a projection
    assert distance > repair(K).change


@pytest.mark.parametrize("method", ["clip", "flip", "shift", "nearest"])
def test_repair_leaves_valid_matrices_alone(method):
    K = RBF()(sample(10)) + np.eye(10)
    fixed = repair(K, method)
    np.testing.assert_array_equal(fixed.matrix, K)
    assert fixed.change == 0


def test_repair_of_new_rows():
    K = indefinite()
    values, U = np.linalg.eigh(K)
    new = np.random.default_rng(5).standard_normal((3, len(K)))
    np.testing.assert_allclose(repair(K).transform(new), new @ U @ np.diag(values > 0) @ U.T, atol=1e-13)
    np.testing.assert_allclose(repair(K, "flip").transform(new), new @ U @ np.diag(np.sign(values)) @ U.T, atol=1e-13)
    np.testing.assert_array_equal(repair(K, "shift").transform(new), new)
    for method in ("clip", "flip", "nearest"):  # training rows as new ones
        np.testing.assert_allclose(repair(K, method).transform(K), repair(K, method).matrix, atol=1e-12)
    with pytest.raises(ValueError, match="12 training rows"):
        repair(K).transform(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("K", "options", "error", "message"),
    [
        (WINDOW, {"method": "fix"}, ValueError, "must be one of"),
        (WINDOW, {"keep_diagonal": True}, ValueError, "nearest"),
        (WINDOW, {"max_iter": 0}, ValueError, "max_iter"),
        (WINDOW, {"tol": 0.0}, ValueError, "tol"),
        (-WINDOW, {"method": "nearest", "keep_diagonal": True}, ValueError, "negative diagonal"),
        (WINDOW[:2], {}, ValueError, "square"),
        ([[np.nan]], {}, NanError, "NaN"),
        (np.triu(WINDOW), {}, NotSymmetricError, "K"),
    ],
)
def test_repair_refuses(K, options, error, message):
    with pytest.raises(error, match=message):
        repair(K, **options)


def test_unfinished_projections_warn():
    with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
        fixed = repair(WINDOW, "nearest", keep_diagonal=True, max_iter=2)
    assert check_kernel(fixed.matrix).ok  # PSD with the diagonal all the same, only not the nearest


# ---------------------------------------------------------------------------------------------------------- V5: mercer_map
def test_mercer_map_reproduces():
    K = RBF()(sample(30))
    phi = mercer_map(K)
    np.testing.assert_allclose(phi.features @ phi.features.T, K, atol=1e-12)
    assert phi.residual < 1e-12
    np.testing.assert_allclose(
        (phi.features**2).sum(axis=0), phi.eigenvalues, rtol=1e-6
    )  # U Lambda^(1/2), orthogonal columns
    assert (np.diff(phi.eigenvalues) <= 0).all()
    np.testing.assert_allclose(phi.transform(K)[:, :10], phi.features[:, :10], atol=1e-8)
    assert "reproduces K" in str(phi)


def test_mercer_map_of_the_linear_kernel():
    X, Z = sample(30, 3), sample(5, 3, seed=1)
    phi = mercer_map(Linear()(X))
    assert phi.rank == 3
    np.testing.assert_allclose(phi.transform(Linear()(Z, X)) @ phi.features.T, Z @ X.T, atol=1e-12)
    best = mercer_map(Linear()(X), rank=2)
    assert best.features.shape == (30, 2)
    assert best.residual > 0.1
    assert mercer_map(np.zeros((3, 3))).features.shape == (3, 0)
    assert mercer_map(Linear()(X.astype("f4"))).features.dtype == np.float32


def test_mercer_map_refuses():
    with pytest.raises(NotPSDError, match=r"-0\.414214.*mercer\.repair"):
        mercer_map(WINDOW)
    assert mercer_map(WINDOW, tol=0.5).rank == 2
    for rank in (0, 4, 1.5, True):
        with pytest.raises(ValueError, match="rank="):
            mercer_map(np.eye(3), rank=rank)
    with pytest.raises(ValueError, match="3 training rows"):
        mercer_map(np.eye(3)).transform(np.eye(2))
    with pytest.raises(NanError, match="K_test"):
        mercer_map(np.eye(1)).transform([[np.nan]])
    with pytest.raises(NotSymmetricError):
        mercer_map(np.triu(WINDOW))
    with pytest.raises(ValueError, match="tol="):
        mercer_map(np.eye(2), tol=-1)


# ---------------------------------------------------------------------------------------------------- V6: mercer_expansion
@pytest.mark.parametrize("n", [400, 1000])  # dense, Lanczos
def test_brownian_motion(n):
    grid = (np.arange(n)[:, None] + 0.5) / n
    terms = mercer_expansion(Brownian(), grid, n_terms=5)
    j = np.arange(1, 6)
    np.testing.assert_allclose(terms.eigenvalues, 1 / ((j - 0.5) ** 2 * np.pi**2), atol=1e-6)
    np.testing.assert_allclose((terms.eigenfunctions(grid) ** 2).mean(axis=0), 1, atol=1e-6)
    t = np.linspace(0, 1, 77)[:, None]
    truth, found = np.sqrt(2) * np.sin((j - 0.5) * np.pi * t), terms.eigenfunctions(t)
    found = found * np.sign((found * truth).sum(axis=0))
    np.testing.assert_allclose(found, truth, atol=1e-4 * (1000 / n) ** 2)
    assert terms.explained == pytest.approx(terms.eigenvalues.sum() / 0.5, rel=1e-3)
    assert terms.residuals.max() < 1e-9
    assert "5 Mercer terms" in str(terms)


def test_expansion_under_weights():
    """Gauss-Legendre nodes with their weights, and rows repeated or weighted alike."""
    nodes, w = np.polynomial.legendre.leggauss(100)
    terms = mercer_expansion(Brownian(), (nodes[:, None] + 1) / 2, 3, weights=w)
    np.testing.assert_allclose(terms.eigenvalues, 4 / (np.array([1, 3, 5]) ** 2 * np.pi**2), rtol=2e-3)
    X, counts = sample(20), np.arange(20) % 3
    weighted = mercer_expansion(RBF(), X, 4, weights=counts)
    repeated = mercer_expansion(RBF(), np.repeat(X, counts, axis=0), 4)
    np.testing.assert_allclose(weighted.eigenvalues, repeated.eigenvalues, rtol=1e-12)
    Z = sample(6, seed=2)
    np.testing.assert_allclose(np.abs(weighted.eigenfunctions(Z)), np.abs(repeated.eigenfunctions(Z)), atol=1e-8)


def test_expansion_stops_at_the_rank():
    X = sample(30, 2)
    terms = mercer_expansion(Linear(), X, n_terms=10)
    assert terms.eigenvalues.shape == (2,)
    assert terms.explained == pytest.approx(1)
    Z = sample(4, 2, seed=3)
    rebuilt = terms.eigenfunctions(Z) * terms.eigenvalues @ terms.eigenfunctions(X).T
    np.testing.assert_allclose(rebuilt, Z @ X.T, atol=1e-12)
    assert len(mercer_expansion(Spectrum(1), ["ab", "b"], 10).eigenfunctions(["a", "bb", "c"])) == 3


def test_expansion_does_not_hang_on_the_seed():
    X = sample(520)
    one, same, other = (mercer_expansion("rbf", X, 3, random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.eigenvalues, same.eigenvalues)
    np.testing.assert_allclose(one.eigenfunctions(X[:9]), other.eigenfunctions(X[:9]), atol=1e-6)


def test_expansion_refuses():
    for kernel in (Window(), Multiquadric()):
        with pytest.raises(NotPSDError, match="no Mercer expansion"):
            mercer_expansion(kernel, POINTS)
    with pytest.raises(NotPSDError, match="no positive eigenvalue"):
        mercer_expansion(0 * RBF(), POINTS)
    for n_terms in (0, 2.5, "3"):
        with pytest.raises(ValueError, match="n_terms="):
            mercer_expansion(RBF(), POINTS, n_terms)
    with pytest.raises(ValueError, match="sample_weight"):
        mercer_expansion(RBF(), POINTS, weights=[1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match="columns"):
        mercer_expansion(RBF(), POINTS).eigenfunctions([[1.0, 2.0]])


# ------------------------------------------------------------------------------------------ spectrum, conditioning, alignment
def test_effective_rank():
    assert effective_rank(np.diag([3.0, 1.0, 0.0]), alpha=1.0) == pytest.approx(1.25)
    X = sample(20)
    K = RBF()(X)
    trace = np.trace(np.linalg.solve(K + 0.1 * np.eye(20), K))
    assert effective_rank(RBF(), X, alpha=0.1) == pytest.approx(trace)
    for alpha in (0.0, -1.0, np.inf, "1"):
        with pytest.raises(ValueError, match="alpha="):
            effective_rank(K, alpha=alpha)
    with pytest.raises(NotPSDError, match="effective rank"):
        effective_rank(WINDOW)


def test_entropy_rank():
    assert entropy_rank(np.eye(7)) == pytest.approx(7)
    assert entropy_rank(np.ones((7, 7))) == pytest.approx(1)
    assert entropy_rank(np.zeros((2, 2))) == 0
    assert entropy_rank(np.diag([3.0, 1.0])) == pytest.approx(4 / 3**0.75)
    with pytest.raises(NotPSDError, match="entropy rank"):
        entropy_rank(WINDOW)


def test_conditioning():
    found = conditioning(np.diag([4.0, 0.04]))
    assert found.number == pytest.approx(100)
    assert found.digits_lost == pytest.approx(2)
    assert conditioning(np.diag([4.0, 0.0]), alpha=1.0).number == 5
    assert conditioning(WINDOW).number == pytest.approx((1 + np.sqrt(2)) / (np.sqrt(2) - 1))
    singular = conditioning(np.diag([1.0, 0.0]))
    assert singular.number == np.inf
    assert "singular" in str(singular)
    assert conditioning(np.eye(2, dtype="f4")).digits == pytest.approx(6.92, abs=0.01)
    with pytest.raises(ValueError, match="alpha="):
        conditioning(np.eye(2), alpha=-1.0)


def test_alignment():
    y = np.array([1.0, 1.0, -1.0, -1.0])
    K = np.outer(y, y)
    assert alignment(K, y) == pytest.approx(1)
    assert alignment(3 * K, K, centred=False) == pytest.approx(1)
    assert alignment(np.eye(4), y, centred=False) == pytest.approx(0.5)
    assert alignment(np.eye(4), y) == pytest.approx(1 / np.sqrt(3))  # H has norm sqrt(3)
    assert alignment(K + 100, y) == pytest.approx(1)  # centring sees through the mean
    assert alignment(K + 100, y, centred=False) < 0.1
    A, B = RBF()(sample(20)), Linear()(sample(20, seed=1))
    H = np.eye(20) - 1 / 20
    C, D = H @ A @ H, H @ B @ H
    assert alignment(A, B) == pytest.approx(np.sum(C * D) / np.linalg.norm(C) / np.linalg.norm(D))


def test_alignment_refuses():
    with pytest.raises(ValueError, match="same rows"):
        alignment(np.eye(3), np.eye(2))
    with pytest.raises(ValueError, match="K1 is zero after centring"):
        alignment(np.full((3, 3), 0.1), np.eye(3))
    with pytest.raises(ValueError, match="K2 is zero"):
        alignment(np.eye(3), np.zeros((3, 3)), centred=False)
    with pytest.raises(ValueError, match="a target y goes second"):
        alignment([1.0, 2.0], np.eye(2))
    with pytest.raises(NanError):
        alignment(np.eye(2), [1.0, np.nan])


# ---------------------------------------------------------------------------------------------------------------- the package
MODULES = ["mercer.diagnostics", *(f"mercer.diagnostics.{m.name}" for m in pkgutil.iter_modules(diagnostics.__path__))]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_public_names():
    names = diagnostics.__all__
    assert names == sorted(names)
    public = {n for n in vars(diagnostics) if not n.startswith("_")} - {name.rsplit(".")[-1] for name in MODULES}
    assert public == set(names)
    for name in names:
        thing = getattr(diagnostics, name)
        assert thing.__doc__
        if dataclasses.is_dataclass(thing):
            assert thing.__dataclass_params__.frozen
            assert "__str__" in vars(thing)

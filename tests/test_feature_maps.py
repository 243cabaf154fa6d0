"""Random feature maps: laws of the frequencies, variances in closed form, explicit sketches, and features that depend on their
row alone."""

import pickle
import tracemalloc
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.linalg import hadamard
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from mercer import KernelRidge, PolynomialSketch, RandomFourierFeatures
from mercer.approx import FOURIER_KINDS, SKETCH_KINDS, polynomial_sketch_map, random_fourier_map
from mercer.approx.fourier import hadamard_transform, normal_directions
from mercer.approx.maps import BLOCK, TILE
from mercer.datasets import load_energy
from mercer.errors import NanError
from mercer.kernels import RBF, Laplacian, Linear, Matern, Polynomial, Spectrum

D = 4
FAR = 4.5  # standard errors: with some hundred comparisons, chance goes so far once in a thousand runs


def rng(seed=0):
    return np.random.default_rng(seed)


def rows(n=6, d=D, seed=0):
    X = rng(seed).standard_normal((n, d))
    X.setflags(write=False)
    return X


COVARIANCE = np.cov(rows(50, seed=9).T) + 0.5 * np.eye(D)
FOURIER = [
    RBF(1.5),
    2 * RBF([1.0, 2.0, np.inf, 0.7]),
    RBF(covariance=COVARIANCE),
    Matern(0.7, 2.0),
    Matern(2.5, [1.0, 2.0, 3.0, 1.0]),
    Matern(np.inf, 2.0),
    Laplacian(2.0),
    0.5 * Laplacian([3.0, 1.0, np.inf, 2.0], metric="l1").named("rough"),
    RBF(0.8).on(3, 1),
]
POLYNOMIALS = [Polynomial(1, gamma=0.5), 3 * Polynomial(2, gamma=0.5, coef0=0.5), Polynomial(3, coef0=0).on(0, 2)]


def every_map(width=26):
    """A map of each kernel and kind, with its kernel."""
    for kernel in FOURIER:
        for kind in FOURIER_KINDS:
            if not ("l1" in repr(kernel) and kind == "structured"):
                yield pytest.param(lambda seed=0, w=width, k=kernel, kind=kind: random_fourier_map(k, D, w, rng(seed), kind),
                                   kernel, id=f"{kind} {kernel!r}")  # fmt: skip
    for kernel in POLYNOMIALS:
        for kind in SKETCH_KINDS:
            yield pytest.param(lambda seed=0, w=width, k=kernel, kind=kind: polynomial_sketch_map(k, D, w, rng(seed), kind),
                               kernel, id=f"{kind} {kernel!r}")  # fmt: skip


each_map = pytest.mark.parametrize(("make", "kernel"), list(every_map()))


def estimates(make, X, seeds):
    """Inner products of features, pairs of rows beside seeds."""
    upper = np.triu_indices(len(X))
    return np.array([(F @ F.T)[upper] for F in (make(seed)(X) for seed in seeds)]), upper


# ---------------------------------------------------------------------------------------------- laws
@pytest.mark.parametrize("width", [20, 7])
@each_map
def test_unbiased(make, kernel, width):
    """The mean over seeds is the kernel within its standard error."""
    X = rows()
    found, upper = estimates(lambda seed: make(seed, width), X, range(60))
    error = np.abs(found.mean(axis=0) - kernel(X)[upper])
    assert (error <= FAR * found.std(axis=0) / np.sqrt(len(found)) + 1e-12).all()


@pytest.mark.parametrize("width", [10, 40, 160])
@pytest.mark.parametrize("kernel", [RBF(1.5), Matern(0.7, 2.0), Laplacian(3.0, metric="l1")], ids=repr)
def test_variance_of_plain_features(kernel, width):
    """(1 + k(2 delta) - 2 k(delta)^2) / D. Sutherland & Schneider (2015)."""
    X = rows()
    found, upper = estimates(lambda seed: random_fourier_map(kernel, D, width, rng(seed), "plain"), X, range(300))
    k, doubled = kernel(X)[upper], kernel(2 * X)[upper]
    expected = (1 + doubled - 2 * k**2) / width
    apart = upper[0] != upper[1]
    ratio = found.var(axis=0)[apart] / expected[apart]
    assert abs(ratio.mean() - 1) < 0.1
    assert np.abs(ratio - 1).max() < 0.5
    np.testing.assert_allclose(found[:, ~apart], 1.0, rtol=1e-12)  # pairs of cosine and sine are exact there


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("kind", ["maclaurin", "complex"])
def test_variance_of_products(kind, degree):
    """From the fourth moments of random signs, and of random powers of i; features are independent draws of one law."""
    X, draws = np.abs(rows()), 20_000
    paired = kind == "complex"
    F = polynomial_sketch_map(Polynomial(degree, coef0=0.0), D, (1 + paired) * draws, rng(), kind)(X) * np.sqrt(draws)
    a, b = np.triu_indices(len(X))
    inner, fourth = (X[a] * X[b]).sum(axis=1), (X[a] ** 2 * X[b] ** 2).sum(axis=1)
    norms = (X[a] ** 2).sum(axis=1) * (X[b] ** 2).sum(axis=1)
    found = (F[a] * F[b]).reshape(len(a), 1 + paired, draws).sum(axis=1)
    if paired:
        modulus, square = (norms + inner**2 - fourth) ** degree, (2 * inner**2 - fourth) ** degree
        expected = (modulus + square) / 2 - inner ** (2 * degree)
    else:
        expected = (norms + 2 * inner**2 - 2 * fourth) ** degree - inner ** (2 * degree)
    squares = (found - inner[:, None] ** degree) ** 2
    assert (np.abs(squares.mean(axis=1) - expected) < FAR * squares.std(axis=1) / np.sqrt(draws)).all()
    assert np.abs(squares.mean(axis=1) / expected - 1).max() < 0.3


@pytest.mark.parametrize("kind", ["plain", "orthogonal"])
@pytest.mark.parametrize("nu", [0.5, 0.7, 1.5, 2.5, np.inf])
def test_frequencies_of_matern_are_students(nu, kind):
    kernel, m = Matern(nu), 4000
    W = random_fourier_map(kernel, 3, 2 * m, rng(1), kind).projection.W
    direction = np.array([1.0, -2.0, 2.0]) / 3
    for component in (W[0], direction @ W):
        assert stats.kstest(component, stats.t(df=2 * nu).cdf).pvalue > 1e-3
    for distance in (0.1, 0.5, 1.0, 3.0):  # the characteristic function is the kernel
        wave = np.cos(distance * (direction @ W))
        exact = kernel([[0.0]], [[distance]])[0, 0]
        assert abs(wave.mean() - exact) < FAR * wave.std() / np.sqrt(m)


@pytest.mark.parametrize("kind", ["plain", "orthogonal"])
def test_frequencies_of_the_l1_laplacian_are_cauchys(kind):
    W = random_fourier_map(Laplacian(2.0, metric="l1"), 3, 8000, rng(1), kind).projection.W
    for component in W:
        assert stats.kstest(2.0 * component, stats.cauchy.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(np.sign(W)) - np.eye(3)).max() < 0.06


def test_lengths_and_angles_of_directions():
    d, m = 5, 4000
    Z = normal_directions(d, m, rng(2))
    inner = Z[:, :d].T @ Z[:, :d]
    np.testing.assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-12)
    assert stats.kstest((Z**2).sum(axis=0), stats.chi2(d).cdf).pvalue > 0.5  # stratified: closer than independent ones
    assert stats.kstest(Z[0], stats.norm.cdf).pvalue > 1e-3
    first = (Z / np.linalg.norm(Z, axis=0))[:, ::d]  # signs that QR leaves would all be of one kind
    assert np.abs(first.mean(axis=1)).max() < FAR / np.sqrt(d * first.shape[1])


def test_infinite_lengthscale_ignores_the_column():
    X = rows(9)
    other = np.where(np.arange(D) == 2, 1e6 * X, X)
    for kind in FOURIER_KINDS:
        phi = random_fourier_map(RBF([1.0, 2.0, np.inf, 3.0]), D, 40, rng(), kind)
        np.testing.assert_array_equal(phi(X), phi(other))
        constant = random_fourier_map(RBF(np.inf), D, 10, rng(), kind)(X)
        np.testing.assert_allclose(constant @ constant.T, 1.0)


def test_covariance_is_a_change_of_coordinates():
    """The frequencies of x^T S^-1 x are those of |u|^2 for u = L^-1 x."""
    X = rows(9)
    U = np.linalg.solve(np.linalg.cholesky(COVARIANCE), X.T).T
    for kind in FOURIER_KINDS:
        phi, plain = (random_fourier_map(k, D, 40, rng(), kind) for k in (RBF(covariance=COVARIANCE), RBF()))
        np.testing.assert_allclose(phi(X), plain(U), atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(4.0), Matern(1.5, 5.0), Laplacian(30.0, metric="l1")], ids=repr)
def test_orthogonal_is_better_than_plain(kernel):
    X, d, width = rows(60, 16), 16, 256

    def error(kind):
        maps = [random_fourier_map(kernel, d, width, rng(s), kind) for s in range(20)]
        return np.mean([phi.kernel_error(kernel, X, rng()).frobenius for phi in maps])

    plain, orthogonal = error("plain"), error("orthogonal")
    assert orthogonal < (0.75 if isinstance(kernel, RBF) else 0.93) * plain
    if isinstance(kernel, RBF):
        assert error("structured") < 0.75 * plain


# ---------------------------------------------------------------------------------------------- structure
@pytest.mark.parametrize("p", [1, 2, 4, 8, 64, 128, 512])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hadamard_transform(p, dtype):
    X = rows(3, p).astype(dtype)
    got = hadamard_transform(X)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, X @ hadamard(p), rtol=0, atol=10 * p * np.finfo(dtype).eps)


def test_structured_projection_is_a_product_of_matrices():
    d, m = 64, 100
    projection = random_fourier_map(RBF(2.0), d, 2 * m, rng(), "structured").projection
    H = hadamard(d) / np.sqrt(d)
    blocks = [np.diag(a) @ H @ np.diag(b) @ H @ np.diag(c) @ H for a, b, c in projection.signs.astype(float)]
    W = np.hstack(blocks)[:, :m] * projection.lengths / 2.0
    got = projection.prepared(np.zeros(d), np.dtype(float))(np.eye(d))
    np.testing.assert_allclose(got, W, atol=1e-12)
    inner = W[:, :d].T @ W[:, :d]
    np.testing.assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-12)


def test_tensor_sketch_is_a_count_sketch_of_the_tensor_product():
    """Entry (i, j) of the outer product goes to bucket h1(i) + h2(j) with sign s1(i) s2(j). Pham & Pagh (2013)."""
    X, width = rows(5), 7
    phi = polynomial_sketch_map(Polynomial(2, gamma=0.3, coef0=2.0), D, width, rng(), "tensorsketch")
    U = np.column_stack([np.sqrt(0.3) * X, np.full(len(X), np.sqrt(2.0))])
    expected = np.zeros((len(X), width))
    for i in range(D + 1):
        for j in range(D + 1):
            sign = int(phi.signs[0, i]) * int(phi.signs[1, j])
            expected[:, (phi.buckets[0, i] + phi.buckets[1, j]) % width] += sign * U[:, i] * U[:, j]
    np.testing.assert_allclose(phi(X), expected, atol=1e-13)


def test_wide_tensor_sketch_is_nearly_exact():
    """Without collisions a count sketch keeps inner products, but for pairs (i, j) and (j, i), which meet by chance."""
    X, kernel = rows(20), Polynomial(2, gamma=0.5)
    error = polynomial_sketch_map(kernel, D, 20_000, rng(), "tensorsketch").kernel_error(kernel, X, rng())
    assert error.frobenius < 0.02
    linear = polynomial_sketch_map(Polynomial(1), D, 20_000, rng(), "tensorsketch")
    assert linear.kernel_error(Polynomial(1), X, rng()).frobenius < 1e-14


# ---------------------------------------------------------------------------------------------- a row alone
@pytest.mark.parametrize(
    ("dtype", "form"), [(np.float64, np.asarray), (np.float32, np.asarray), (np.float64, sp.csr_array)]
)
@each_map
def test_pieces_give_the_same_digits(make, kernel, dtype, form):
    """However the rows are cut: blocks of rows are filled up to one size, since BLAS rounds otherwise in other shapes."""
    n = TILE + BLOCK + 5
    X, phi = form(rows(n).astype(dtype)), make()
    whole = phi(X)
    assert whole.dtype == dtype
    cuts = [0, 1, 3, 66, 500, TILE, n]
    np.testing.assert_array_equal(np.vstack([phi(X[a:b]) for a, b in pairwise(cuts)]), whole)
    order = rng().permutation(n)
    np.testing.assert_array_equal(phi(X[order]), whole[order])


def test_threads_change_no_digit():
    d, width = 250, 1000  # LAPACK and BLAS divide such matrices between threads
    X, S = rows(TILE + 100, d), np.eye(d) + 0.1
    for kernel, kind in (
        (Matern(1.5, 20.0), "orthogonal"),
        (Matern(1.5, 20.0), "structured"),
        (RBF(covariance=S), "plain"),
    ):
        found = []
        for threads in (1, 2):
            with threadpool_limits(threads, user_api="blas"):
                phi = random_fourier_map(kernel, d, width, rng(), kind, near=X)
                found.append((phi(X), phi.kernel_error(kernel, X, rng())))
        np.testing.assert_array_equal(found[0][0], found[1][0])
        assert found[0][1] == found[1][1]


@each_map
def test_precisions_and_sparse_rows_agree(make, kernel):
    X = np.where(np.abs(rows(150)) > 0.5, rows(150), 0.0)
    phi = make()
    exact = phi(X)
    size = np.abs(exact).max()
    np.testing.assert_allclose(phi(sp.csr_array(X)), exact, atol=1e-11 * size)
    single = phi(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, exact, atol=1e-3 * size)
    np.testing.assert_allclose(phi(sp.csr_array(X.astype(np.float32))), single, atol=1e-3 * size)


@pytest.mark.parametrize("kind", [*FOURIER_KINDS, *SKETCH_KINDS])
def test_sparse_rows_are_made_dense_block_by_block(kind):
    n, d = 3000, 5000
    S = sp.random_array((n, d), density=0.002, format="csr", rng=rng())
    if kind in FOURIER_KINDS:
        phi = random_fourier_map(RBF(1.0), d, 16, rng(), kind, near=S)
    else:
        phi = polynomial_sketch_map(Polynomial(2), d, 16, rng(), kind)
    phi(S[:2])
    tracemalloc.start()
    F = phi(S)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * 8 * n * d  # a few blocks in each thread
    np.testing.assert_allclose(F[-9:], phi(S[-9:].toarray()), atol=1e-9)


def test_few_sparse_rows_stay_as_they_are():
    """A block that is filled up is not the caller's matrix."""
    S = sp.csr_array(rows())
    before = S.copy()
    phi = random_fourier_map(RBF(2.0), D, 8, rng())
    assert phi.features(S).shape == (len(rows()), 8)
    assert S.shape == before.shape
    np.testing.assert_array_equal(S.indptr, before.indptr)
    assert phi.kernel_error(RBF(2.0), S, rng()) == phi.kernel_error(RBF(2.0), S.copy(), rng())
    assert phi.kernel_error(RBF(2.0), S, rng()).n_rows == len(rows())


@pytest.mark.parametrize("kind", FOURIER_KINDS)
def test_rows_far_from_the_origin(kind):
    """Inner products depend on differences alone; in float32 they are lost if rows are not shifted first."""
    X = np.round(rows(30), 3).astype(np.float32)
    far, kernel = X + np.float32(2.0**14), RBF(2.0)
    exact = random_fourier_map(kernel, D, 500, rng(), kind)(far.astype(np.float64))

    def error(**near):
        F = random_fourier_map(kernel, D, 500, rng(), kind, **near)(far).astype(np.float64)
        return np.abs(F @ F.T - exact @ exact.T).max()

    assert error(near=far) < 1e-5
    assert error() > 1e-4


# ---------------------------------------------------------------------------------------------- values
@each_map
def test_maps_are_values(make, kernel):
    X, phi = rows(), make()
    assert phi.kernel == kernel
    assert phi(X).shape == (len(X), phi.dim)
    np.testing.assert_array_equal(make()(X), phi(X))
    assert np.abs(make(1)(X) - phi(X)).max() > 1e-3
    again = pickle.loads(pickle.dumps(phi))
    np.testing.assert_array_equal(again(X), phi(X))
    with pytest.raises(FrozenInstanceError):
        phi.dim = 3
    for value in (phi, again):
        parts = [value, getattr(value, "projection", value)]
        arrays = [a for part in parts for a in vars(part).values() if isinstance(a, np.ndarray)]
        assert arrays
        assert not any(a.flags.writeable for a in arrays)


def test_kernel_error():
    X, kernel = rows(40), 2 * RBF(1.5)
    phi = random_fourier_map(kernel, D, 50, rng())
    F = phi(X)
    E, K = np.abs(F @ F.T - kernel(X)), kernel(X)
    found = phi.kernel_error(kernel, X, rng())
    assert (found.mean, found.largest) == pytest.approx((E.mean(), E.max()))
    assert found.frobenius == pytest.approx(np.linalg.norm(E) / np.linalg.norm(K))
    assert str(found).startswith(f"|error| {E.mean():.3g} on average")
    assert found.n_rows == 40
    some = phi.kernel_error(kernel, X, rng(3), n_rows=7)
    chosen = np.sort(rng(3).choice(40, 7, replace=False))
    assert some.n_rows == 7
    assert some.largest == pytest.approx(E[np.ix_(chosen, chosen)].max())
    zeros = polynomial_sketch_map(Polynomial(2, coef0=0), D, 10, rng()).kernel_error(
        Polynomial(2, coef0=0), 0 * X, rng()
    )
    assert (zeros.largest, zeros.frobenius) == (0.0, 0.0)


@pytest.mark.parametrize(
    "kernel", [Linear(), RBF() + Matern(), RBF() * Linear(), Spectrum(3), Polynomial(2), RBF().normalise()]
)
def test_kernels_without_fourier_features(kernel):
    said = r"random Fourier features are for RBF, Matern, Laplacian, times a number and on chosen columns.*got kernel="
    with pytest.raises(ValueError, match=said) as caught:
        random_fourier_map(kernel, 3, 10, rng())
    assert repr(kernel) in str(caught.value)
    with pytest.raises(ValueError, match=said):
        RandomFourierFeatures(kernel).fit(rows())


def test_wrong_arguments_of_maps():
    with pytest.raises(ValueError, match=r"polynomial sketches are for Polynomial.*got kernel=RBF"):
        polynomial_sketch_map(RBF(), 3, 10, rng())
    for make, kernel in ((random_fourier_map, RBF()), (polynomial_sketch_map, Polynomial(2))):
        for bad in (0, -2, 2.5, True, "many"):
            with pytest.raises(ValueError, match=r"n_components=.* must be an integer >= 1"):
                make(kernel, 3, bad, rng())
        with pytest.raises(ValueError, match=r"kind='magic' is not known; there are '"):
            make(kernel, 3, 10, rng(), "magic")
        with pytest.raises(ValueError, match="its scale -2 is negative"):
            make(-2 * kernel, 3, 10, rng())
        with pytest.raises(ValueError, match="X has 4 columns, but the feature map was made for 3"):
            make(kernel, 3, 10, rng())(rows())
    for degree in (1.5, 0):
        with pytest.raises(ValueError, match=f"degree={degree} must be an integer >= 1"):
            polynomial_sketch_map(Polynomial(degree), 3, 10, rng())
    with pytest.raises(ValueError, match=r"coef0=-1.0 must be >= 0"):
        polynomial_sketch_map(Polynomial(2, coef0=-1.0), 3, 10, rng())
    for make, kernel in ((random_fourier_map, RBF("median")), (polynomial_sketch_map, Polynomial(gamma="scale"))):
        with pytest.raises(ValueError, match=r"is taken from data; pass kernel.resolve\(X\)"):
            make(kernel, 3, 10, rng())
    with pytest.raises(ValueError, match="lengthscale is for 2 columns, but the rows have 3"):
        random_fourier_map(RBF([1.0, 2.0]), 3, 10, rng())
    with pytest.raises(ValueError, match="covariance is for 4 columns, but the rows have 3"):
        random_fourier_map(RBF(covariance=COVARIANCE), 3, 10, rng())
    with pytest.raises(ValueError, match='kind="structured" is for kernels of the Euclidean distance'):
        random_fourier_map(Laplacian(metric="l1"), 3, 10, rng(), "structured")


def test_features_that_overflow_are_refused():
    X = np.full((3, D), 1e200)
    with pytest.raises(NanError, match=r"features of Polynomial.* overflow in float64; rescale the columns of X"):
        polynomial_sketch_map(Polynomial(3), D, 10, rng())(X)
    with pytest.raises(NanError, match=r"rescale the columns"):
        PolynomialSketch(2).fit(X / 1e100)
    steep = random_fourier_map(Matern(0.01), D, 400, rng())  # some frequencies are infinite but for a cap
    assert np.isfinite(steep(rows().astype(np.float32))).all()


# ---------------------------------------------------------------------------------------------- transformers
def test_parameters_are_those_of_scikit_learn():
    theirs, ours = PolynomialCountSketch().get_params(), PolynomialSketch().get_params()
    assert theirs.items() <= ours.items()
    assert set(RBFSampler().get_params()) <= set(RandomFourierFeatures().get_params())


def test_kernels_by_word():
    X = rows(50)
    assert RandomFourierFeatures(random_state=0).fit(X).kernel_ == RBF("auto").resolve(X)
    assert RandomFourierFeatures(gamma=2.0).fit(X).kernel_ == RBF(0.5)
    assert RandomFourierFeatures("laplacian", gamma=0.5).fit(X).kernel_ == Laplacian(2.0, metric="l1")
    assert RandomFourierFeatures(RBF("median")).fit(X).kernel_ == RBF("median").resolve(X)
    assert PolynomialSketch(3, gamma="scale", coef0=1).fit(X).kernel_ == Polynomial(3, gamma="scale").resolve(X)
    assert PolynomialSketch(3, gamma=None, coef0=1).fit(X).kernel_ == Polynomial(3, gamma=1 / D)
    with pytest.raises(ValueError, match='kernel="precomputed" has no rows to make features of'):
        RandomFourierFeatures("precomputed").fit(X)
    with pytest.raises(ValueError, match=r"'degree' parameter .* Got 1.5"):
        PolynomialSketch(1.5).fit(X)


@pytest.mark.parametrize("model", [RandomFourierFeatures(RBF(2.0)), PolynomialSketch(3, gamma=0.1)], ids=repr)
def test_seeds(model):
    X = rows(30)

    def features(seed):
        return model.set_params(random_state=seed).fit_transform(X)

    np.testing.assert_array_equal(features(3), features(3))
    assert np.abs(features(3) - features(4)).max() > 1e-3
    assert np.abs(features(None) - features(None)).max() > 1e-3
    state = rng(3)
    np.testing.assert_array_equal(features(state), features(3))
    assert np.abs(features(state) - features(3)).max() > 1e-3  # a generator goes on
    np.testing.assert_array_equal(features(np.random.RandomState(3)), features(np.random.RandomState(3)))
    model.set_params(random_state=3)
    other = model.fit(rows(30, seed=5)).map_
    same = model.fit(X).map_
    assert model.kernel_error_ == same.kernel_error(model.kernel_, X, rng())
    for a, b in zip(vars(other).values(), vars(same).values(), strict=True):  # the draw does not depend on the rows
        if isinstance(a, np.ndarray) and a is not getattr(other, "centre", None):
            np.testing.assert_array_equal(a, b)
    if hasattr(same, "projection"):
        np.testing.assert_array_equal(same.projection.W, other.projection.W)


@pytest.mark.parametrize("model", [RandomFourierFeatures(n_components=6), PolynomialSketch(n_components=6)], ids=repr)
def test_tables_in_and_out(model):
    X = rows(20)
    names = [f"{type(model).__name__.lower()}{i}" for i in range(6)]
    model.set_params(random_state=0)
    expected = model.fit_transform(X)
    assert list(model.get_feature_names_out()) == names
    table = pd.DataFrame(X, columns=list("abcd"))
    for library, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        out = model.set_output(transform=library).fit_transform(table)
        assert isinstance(out, kind)
        assert list(out.columns) == names
        np.testing.assert_array_equal(out.to_numpy(), expected)
    model.set_output(transform="default")
    np.testing.assert_array_equal(model.fit(pl.DataFrame(table.to_dict("list"))).transform(table), expected)


def test_named_columns_of_a_table():
    table = pd.DataFrame(rows(30), columns=list("abcd")).assign(word="x")
    model = RandomFourierFeatures(2 * Matern(1.5, "median").on("d", "b"), random_state=0).fit(table)
    assert model.kernel_ == 2 * Matern(1.5, "median").on("d", "b").resolve(table)
    chosen = RandomFourierFeatures(2 * Matern(1.5, "median"), random_state=0).fit(table[["d", "b"]])
    np.testing.assert_array_equal(model.transform(table), chosen.transform(table[["d", "b"]]))
    twice = random_fourier_map(RBF().on(1, 0).on("d", "b"), 5, 8, rng())(table)
    np.testing.assert_array_equal(twice, random_fourier_map(RBF(), 2, 8, rng())(table[["b", "d"]]))


def test_a_grid_over_the_kernel():
    X, y = load_energy(return_X_y=True)
    pipeline = make_pipeline(RandomFourierFeatures(RBF(), random_state=0), Ridge())
    grid = {"randomfourierfeatures__kernel__lengthscale": [1.0, 30.0, 1000.0]}
    scores = GridSearchCV(pipeline, grid, cv=2).fit(X[:100], y[:100]).cv_results_["mean_test_score"]
    assert len(set(scores.round(6))) == 3


def test_linear_ridge_on_features_is_kernel_ridge():
    X, y = load_energy(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = y - y.mean()
    kernel = RBF(4.0)
    exact = KernelRidge(1.0, kernel=kernel).fit(X[::2], y[::2]).predict(X[1::2])
    features = RandomFourierFeatures(kernel, 1000, random_state=0)
    linear = make_pipeline(features, Ridge(1.0, fit_intercept=False)).fit(X[::2], y[::2]).predict(X[1::2])
    assert np.std(linear - exact) < 0.03 * np.std(exact)
    assert np.std(linear - y[1::2]) < 1.05 * np.std(exact - y[1::2])


def test_wide_sparse_rows():
    places = (np.repeat(np.arange(50), 10), rng().choice(20_000, 500, replace=False))
    S = sp.csr_array((rng().random(500), places), shape=(50, 20_000))
    for model in (RandomFourierFeatures(RBF(2.0), 10), RandomFourierFeatures(RBF(2.0), 10, kind="structured"),
                  PolynomialSketch()):  # fmt: skip
        assert np.isfinite(model.fit(S).transform(S[:5])).all()


# ---------------------------------------------------------------------------------------------- real data
def median_rbf(X):
    return RBF("median").resolve(X)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kin8nm", "mnist"])
def test_errors_on_real_data(data_home, name):
    """The table of docs/features.md: mean of five seeds, 200 rows, relative error in the Frobenius norm."""
    with np.load(data_home / f"{name}.npz") as file:
        X = file["X_train"][:2000] / 255.0 if name == "mnist" else stats.zscore(file["X"].astype(float))[:2000]
    d, length = X.shape[1], median_rbf(X).lengthscale
    squares = (X**2).sum(axis=1).mean()
    fourier = [RBF(length), Matern(1.5, length), Matern(0.5, length)]
    products = [Polynomial(p, 1 / squares) for p in (2, 3, 5)]
    table = {}
    for make, kernels, kinds in (
        (random_fourier_map, fourier, FOURIER_KINDS),
        (polynomial_sketch_map, products, SKETCH_KINDS),
    ):
        for kernel in kernels:
            for kind in kinds:
                for width in (256, 1024, 4096):
                    maps = [make(kernel, d, width, rng(s), kind) for s in range(5)]
                    error = np.mean([phi.kernel_error(kernel, X, rng(99)).frobenius for phi in maps])
                    table[kernel, kind, width] = error
                print(
                    f"\n{name} {kernel!r} {kind}", *(f"{table[kernel, kind, w]:.4f}" for w in (256, 1024, 4096)), end=""
                )
    for kernel in fourier:
        for width in (1024, 4096):
            assert table[kernel, "orthogonal", width] < table[kernel, "plain", width]
    assert table[fourier[0], "orthogonal", 4096] < 0.6 * table[fourier[0], "plain", 4096]
    assert table[fourier[0], "structured", 4096] < 0.6 * table[fourier[0], "plain", 4096]

"""Tests of two samples and of independence: brute force, closed forms, exact moments, invariances, bad input."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats
from threadpoolctl import threadpool_limits

from mercer import hsic_test, mmd_test
from mercer.errors import MemoryBudgetError, NotPSDError, NumericalWarning
from mercer.gram import GivenGram, gram
from mercer.kernels import (
    RBF,
    Blockwise,
    Laplacian,
    Linear,
    Multiquadric,
    Polynomial,
    Sigmoid,
    Spectrum,
    WeisfeilerLehman,
)
from mercer.solvers import hypotheses as solver

ALL = ("permutation", "gamma", "spectrum", "linear", "block")
QUADRATIC = ALL[:3]


def samples(n=12, m=9, d=2, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)) + shift


def brute_mmd(K, n, unbiased):
    """As in Gretton et al. (2012), equations 3 and 5."""
    xx, yy, xy = K[:n, :n], K[n:, n:], K[:n, n:]
    if not unbiased:
        return xx.mean() + yy.mean() - 2 * xy.mean()
    m = len(K) - n
    return (xx.sum() - np.trace(xx)) / (n * (n - 1)) + (yy.sum() - np.trace(yy)) / (m * (m - 1)) - 2 * xy.mean()


def brute_hsic(K, L, unbiased):
    """tr(KHLH) / n^2; the unbiased form as in Song et al. (2012), equation 4."""
    n = len(K)
    if not unbiased:
        H = np.eye(n) - 1 / n
        return np.trace(K @ H @ L @ H) / n**2
    K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    one = np.ones(n)
    value = np.trace(K @ L) + (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * one @ K @ L @ one
    return value / (n * (n - 3))


# ------------------------------------------------------------------------------------------------ statistics
@pytest.mark.parametrize("statistic", ["biased", "unbiased"])
@pytest.mark.parametrize("kernel", [RBF(1.3), Linear(), Polynomial(3, coef0=1.0), Laplacian()], ids=str)
def test_statistics_are_the_formulas(kernel, statistic):
    X, Y = samples(shift=0.3)
    unbiased, rows = statistic == "unbiased", np.vstack([X, Y])
    found = mmd_test(X, Y, kernel, statistic=statistic, method="gamma")
    assert found.statistic == pytest.approx(brute_mmd(kernel(rows), 12, unbiased), rel=1e-9)
    A, B = samples(9, 9, seed=1)
    found = hsic_test(A, B[:, :1], kernel, RBF(0.8), statistic=statistic, method="gamma")
    assert found.statistic == pytest.approx(brute_hsic(kernel(A), RBF(0.8)(B[:, :1]), unbiased), rel=1e-9)


def test_a_linear_kernel_measures_means_and_covariances():
    X, Y = samples(30, 20, 3)
    gap = X.mean(axis=0) - Y.mean(axis=0)
    assert mmd_test(X, Y, Linear()).statistic == pytest.approx(gap @ gap)
    C = np.cov(X[:20].T, Y.T, bias=True)[:3, 3:]
    assert hsic_test(X[:20], Y, Linear(), Linear()).statistic == pytest.approx(np.square(C).sum())


def test_the_witness_is_the_difference_of_mean_kernel_values():
    X, Y = samples(20, 15)
    found = mmd_test(X, Y, RBF(0.7))
    T = samples(5, seed=3)[0]
    np.testing.assert_allclose(found.witness(T), RBF(0.7)(T, X).mean(axis=1) - RBF(0.7)(T, Y).mean(axis=1))
    f = found.witness(np.vstack([X, Y]))
    assert f[:20].mean() - f[20:].mean() == pytest.approx(found.statistic)
    with pytest.raises(ValueError, match="only tests of two samples have a witness"):
        hsic_test(X[:15], Y).witness(T)


# ------------------------------------------------------------------------------------------------ null distributions
def all_splits(N, n):
    return np.array([[i in c for i in range(N)] for c in itertools.combinations(range(N), n)]).T


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_moments_over_all_splits(n, unbiased):
    """Mean and variance over every permutation of seven rows are those of the closed form."""
    rows = samples(7)[0]
    K = RBF(0.8)(rows)
    form = solver.TwoSampleForm(solver.centred_gram(gram(RBF(0.8), rows), True), n, unbiased)
    found = [brute_mmd(K[np.ix_(o, o)], n, unbiased) for o in map(np.array, itertools.permutations(range(7)))]
    assert form.mean == pytest.approx(np.mean(found), abs=1e-12)
    assert form.variance == pytest.approx(np.var(found))
    np.testing.assert_allclose(np.unique(np.round(form._values(all_splits(7, n)), 10)), np.unique(np.round(found, 10)))


@pytest.mark.parametrize("unbiased", [False, True])
def test_moments_over_all_orders(unbiased):
    x, y = (solver.centred_gram(gram(RBF(w), samples(6, seed=s)[0]), True) for w, s in ((0.8, 1), (1.5, 2)))
    K, L = (RBF(w)(samples(6, seed=s)[0]) for w, s in ((0.8, 1), (1.5, 2)))
    form = solver.IndependenceForm(x, y, unbiased)
    found = [brute_hsic(K, L[np.ix_(o, o)], unbiased) for o in map(np.array, itertools.permutations(range(6)))]
    assert form.mean == pytest.approx(np.mean(found), abs=1e-12)
    assert form.variance == pytest.approx(np.var(found))


class Orders:
    """Stands in for a generator and hands out known permutations."""

    def __init__(self, orders):
        self.orders = iter(orders)

    def permutation(self, n):
        return next(self.orders)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_permuted_statistics_are_those_of_permuted_rows(unbiased, dtype):
    rng = np.random.default_rng(0)
    X, Y = (S.astype(dtype) for S in samples(11, 11))
    orders = [rng.permutation(11) for _ in range(7)]
    tol = 1e-9 if dtype is np.float64 else 1e-4
    K, L = RBF(0.9)(X), RBF(1.1)(Y)
    C, D = (solver.centred_gram(gram(RBF(w), S), True) for w, S in ((0.9, X), (1.1, Y)))
    got = solver.TwoSampleForm(C, 4, unbiased).permuted(7, Orders(orders), 3)
    np.testing.assert_allclose(got, [brute_mmd(K[np.ix_(o, o)], 4, unbiased) for o in orders], rtol=tol, atol=tol)
    got = solver.IndependenceForm(C, D, unbiased).permuted(7, Orders(orders))
    np.testing.assert_allclose(got, [brute_hsic(K, L[np.ix_(o, o)], unbiased) for o in orders], rtol=tol, atol=tol)


def test_permutations_in_parts(monkeypatch):
    """However rows and permutations are cut, the numbers are the same."""
    C, D = (solver.centred_gram(gram(RBF(), S), True) for S in samples(23, 23))
    orders = [np.random.default_rng(s).permutation(23) for s in range(9)]
    whole = solver.IndependenceForm(C, D, False).permuted(9, Orders(orders))
    halves = solver.TwoSampleForm(C, 10, True).permuted(9, Orders(orders), 256)
    monkeypatch.setattr(solver, "_PAIRS", 200)
    monkeypatch.setattr(solver, "_ORDERS", 100)
    monkeypatch.setattr(solver, "_ENTRIES", 60)
    np.testing.assert_allclose(solver.IndependenceForm(C, D, False).permuted(9, Orders(orders)), whole, rtol=1e-12)
    np.testing.assert_allclose(solver.TwoSampleForm(C, 10, True).permuted(9, Orders(orders), 4), halves, rtol=1e-12)


def test_p_value_and_threshold_of_permutations():
    """p counts the statistic itself; the threshold is where p crosses the level."""
    X, Y = samples(10, 14, shift=0.4)
    for level in (0.05, 0.1, 0.37):
        found = mmd_test(X, Y, n_permutations=99, level=level)
        assert found.p_value == pytest.approx((1 + (found.null_sample >= found.statistic).sum()) / 100)
        assert found.rejected == (found.statistic > found.threshold)
        assert (1 + (found.null_sample > found.threshold).sum()) / 100 <= level + 1e-12
        assert (1 + (found.null_sample >= found.threshold).sum()) / 100 > level


def test_p_values_of_permutations_are_exact():
    """Over all ways to label the rows, at most a share p of them has a p-value of p: with every split as a permutation."""
    rows = samples(8)[0]
    form = solver.TwoSampleForm(solver.centred_gram(gram(RBF(), rows), True), 4, False)
    values = form._values(all_splits(8, 4))
    p = np.array([(values >= v - form.tie).mean() for v in values])
    for level in np.unique(p):
        assert (p <= level + 1e-12).mean() <= level + 1e-12
    twins = np.sort(values).reshape(-1, 2)  # a sample and its complement are one split
    assert np.ptp(twins, axis=1).max() <= form.tie


def test_uniform_p_values_of_a_true_hypothesis():
    p = [
        mmd_test(*samples(10, 12, seed=s), RBF(), n_permutations=19, random_state=10**6 + s).p_value for s in range(120)
    ]
    assert set(np.round(np.array(p) * 20, 9)) <= set(range(1, 21))
    assert stats.chisquare(np.bincount(np.round(np.array(p) * 20).astype(int), minlength=21)[1:]).pvalue > 1e-3
    p = [
        hsic_test(*samples(12, 12, seed=s), RBF(), RBF(), n_permutations=19, random_state=10**6 + s).p_value
        for s in range(120)
    ]
    assert stats.chisquare(np.bincount(np.round(np.array(p) * 20).astype(int), minlength=21)[1:]).pvalue > 1e-3


@pytest.mark.parametrize("statistic", ["biased", "unbiased"])
@pytest.mark.parametrize("shape", [(40, 40), (60, 25)])
def test_null_distributions_agree(shape, statistic):
    """Thresholds and p-values of the approximations are near those of many permutations."""
    X, Y = samples(*shape, shift=0.25)
    runs = {m: mmd_test(X, Y, method=m, statistic=statistic, n_permutations=4000) for m in QUADRATIC}
    A, B = samples(50, 50)
    pairs = {m: hsic_test(A, A + 2 * B, method=m, statistic=statistic, n_permutations=4000) for m in QUADRATIC}
    for found in (runs, pairs):
        truth = found["permutation"]
        for m in ("gamma", "spectrum"):
            assert found[m].statistic == truth.statistic
            assert found[m].null_mean == pytest.approx(truth.null_sample.mean(), abs=0.1 * truth.null_std)
            assert found[m].null_std == pytest.approx(truth.null_sample.std(), rel=0.1)
            gap = truth.threshold - truth.null_mean
            assert found[m].threshold - truth.null_mean == pytest.approx(gap, rel=0.15)


def test_weights_that_are_not_leading_are_one_variable(monkeypatch):
    X = samples(60)[0]
    form = solver.TwoSampleForm(solver.centred_gram(gram(Laplacian(), X), True), 30, False)
    whole = form.spectral(4000, np.random.default_rng(0))
    monkeypatch.setattr(solver, "_WEIGHTS", 5)
    part = form.spectral(4000, np.random.default_rng(1))
    assert part.mean() == pytest.approx(whole.mean(), rel=0.02)
    assert part.std() == pytest.approx(whole.std(), rel=0.1)
    assert stats.ks_2samp(part, whole).pvalue > 1e-3


def test_leading_eigenvalues_of_many_rows(monkeypatch):
    C = solver.centred_gram(gram(RBF(), samples(600)[0]), True)
    every = C.eigenvalues
    monkeypatch.setattr(solver, "_DENSE", 100)
    leading = solver.centred_gram(gram(RBF(), samples(600)[0]), True).eigenvalues
    np.testing.assert_allclose(leading[:20], every[:20], rtol=1e-3)


# ------------------------------------------------------------------------------------------------ blocks
@pytest.mark.filterwarnings("ignore:p-values of")
def test_the_linear_statistic_is_the_formula():
    """Gretton et al. (2012), section 6: the mean of h over pairs of rows."""
    X, Y = samples(13, 10)
    found = mmd_test(X, Y, RBF(), method="linear", random_state=Order())
    a, b = X[::-1][:10], Y[::-1]
    k = lambda u, v: RBF()(u[None], v[None])[0, 0]  # noqa: E731
    h = [k(a[i], a[i + 1]) + k(b[i], b[i + 1]) - k(a[i], b[i + 1]) - k(a[i + 1], b[i]) for i in range(0, 10, 2)]
    assert found.statistic == pytest.approx(np.mean(h))
    assert found.null_std == pytest.approx(np.sqrt(np.square(h).sum()) / 5)
    assert found.p_value == pytest.approx(stats.norm.sf(np.sum(h) / np.sqrt(np.square(h).sum())))
    assert (found.n_blocks, found.block_size, found.estimator) == (5, 2, "unbiased")


class Order(np.random.Generator):
    """Permutations that only turn the order round."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))

    def permutation(self, n):
        return np.arange(n)[::-1]


@pytest.mark.filterwarnings("ignore:p-values of")
@pytest.mark.parametrize("size", [2, 3, 7])
def test_blocks_of_samples(size):
    X, Y = samples(23, 23)
    found = mmd_test(X, Y, RBF(), method="block", block_size=size, random_state=Order())
    x, y, total, square, cube = X[::-1], Y[::-1], [], [], []
    for i in range(0, 23 - size + 1, size):
        rows = np.vstack([x[i : i + size], y[i : i + size]])
        K = RBF()(rows)
        H = K[:size, :size] + K[size:, size:] - K[:size, size:] - K[size:, :size]
        np.fill_diagonal(H, 0.0)
        total.append(H.sum() / (size * (size - 1)))
        # over all swaps of partners
        signs = np.array(list(itertools.product([1, -1], repeat=size)))
        swapped = np.einsum("si,ij,sj->s", signs, H, signs) / (size * (size - 1))
        square.append(np.var(swapped))
        cube.append(np.mean(swapped**3))
    assert found.statistic == pytest.approx(np.mean(total))
    assert found.null_std == pytest.approx(np.sqrt(np.sum(square)) / len(total))
    assert found.null_distribution.stats("s") == pytest.approx(np.sum(cube) / np.sum(square) ** 1.5, abs=1e-12)


@pytest.mark.filterwarnings("ignore:p-values of")
@pytest.mark.parametrize("size", [4, 5, 9])
def test_blocks_of_pairs(size):
    X, Y = samples(29, 29)
    found = hsic_test(X, Y, RBF(), RBF(0.7), method="block", block_size=size, random_state=Order())
    x, y, total, square = X[::-1], Y[::-1], [], []
    for i in range(0, 29 - size + 1, size):
        some = slice(i, i + size)
        total.append(brute_hsic(RBF()(x[some]), RBF(0.7)(y[some]), True))
        C, D = (solver.centred_gram(gram(k, r[some]), True) for k, r in ((RBF(), x), (RBF(0.7), y)))
        square.append(solver.IndependenceForm(C, D, True).variance)
    assert found.statistic == pytest.approx(np.mean(total))
    assert found.null_std == pytest.approx(np.sqrt(np.sum(square)) / len(total))


@pytest.mark.filterwarnings("ignore:p-values of")
def test_skewness_of_blocks_of_pairs():
    """Nearly that of permutations within blocks."""
    X, Y = samples(60, 60, 1)
    found = hsic_test(X, Y, RBF(), RBF(0.7), method="block", block_size=30, random_state=Order())
    forms = []
    for some in (slice(0, 30), slice(30, 60)):
        C, D = (solver.centred_gram(gram(k, r[::-1][some]), True) for k, r in ((RBF(), X), (RBF(0.7), Y)))
        forms.append(solver.IndependenceForm(C, D, True).permuted(20_000, np.random.default_rng(0)))
    expected = sum(stats.moment(f, 3) for f in forms) / sum(np.var(f) for f in forms) ** 1.5
    assert found.null_distribution.stats("s") == pytest.approx(expected, rel=0.2)


def test_block_sizes():
    X, Y = samples(144, 200)
    assert mmd_test(X, Y, method="block").block_size == 12
    assert hsic_test(X, Y[:144], method="linear").block_size == 4
    with pytest.warns(NumericalWarning, match="p-values of 2 blocks are rough"):
        mmd_test(X, Y, method="block", block_size=72)
    with pytest.raises(ValueError, match="144 rows make no two blocks of 100"):
        mmd_test(X, Y, method="block", block_size=100)


# ------------------------------------------------------------------------------------------------ invariances
@pytest.mark.filterwarnings("ignore:p-values of")
@pytest.mark.parametrize("method", QUADRATIC)
def test_order_swap_shift_and_scale(method):
    X, Y = samples(15, 15, shift=0.3)
    base = mmd_test(X, Y, RBF(), method=method)
    swapped = mmd_test(Y, X, RBF(), method=method)
    shuffled = mmd_test(X[::-1], Y, RBF(), method=method)
    moved = mmd_test(4 * X + 7, 4 * Y + 7, RBF(4.0), method=method)
    scaled = mmd_test(X, Y, 9 * RBF() + 5, method=method)
    for other, factor in ((swapped, 1), (shuffled, 1), (moved, 1), (scaled, 9)):
        assert other.statistic == pytest.approx(factor * base.statistic)
        assert other.p_value == pytest.approx(
            base.p_value, abs=0.0 if method == "permutation" and other is scaled else 0.05
        )
    pair = hsic_test(X, Y, RBF(), RBF(2.0), method=method)
    turned = hsic_test(Y, X, RBF(2.0), RBF(), method=method)
    assert turned.statistic == pytest.approx(pair.statistic)
    together = hsic_test(X[::-1], Y[::-1], RBF(), RBF(2.0), method=method)
    assert together.statistic == pytest.approx(pair.statistic)


def test_the_seed_decides():
    X, Y = samples(30, 30)
    first, again, other = (mmd_test(X, Y, random_state=s).null_sample for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("method", ALL)
def test_threads_do_not_matter(method):
    X, Y = samples(700, 700, 1)
    for test, n in ((mmd_test, 300), (hsic_test, 300), (hsic_test, 700)):
        settings = {"method": method, "n_permutations": 19}
        with threadpool_limits(1):
            one = test(X[:n], Y[:n], **settings)
        two = test(X[:n], Y[:n], **settings)
        assert (one.statistic, one.p_value, one.threshold) == (two.statistic, two.p_value, two.threshold)


@pytest.mark.parametrize("method", ALL)
def test_float32(method):
    X, Y = samples(120, 120, shift=0.2)
    for test in (mmd_test, hsic_test):
        one, two = test(X, Y, method=method), test(X.astype(np.float32), Y.astype(np.float32), method=method)
        assert two.statistic == pytest.approx(one.statistic, rel=1e-3, abs=1e-6)
        assert two.p_value == pytest.approx(one.p_value, abs=0.01)


@pytest.mark.parametrize("method", ["permutation", "gamma"])
def test_beyond_the_budget(method):
    """Tile by tile: the same numbers as in memory, where a sweep is quick; else the message says what helps."""
    X, Y = samples(130, 90, shift=0.2)
    for statistic in ("biased", "unbiased"):
        held, lazy = (mmd_test(X, Y, method=method, statistic=statistic, memory=m) for m in ("1GB", "300kB"))
        assert lazy.statistic == pytest.approx(held.statistic)
        assert (lazy.p_value, lazy.threshold) == pytest.approx((held.p_value, held.threshold))
    if method == "gamma":
        held, lazy = (hsic_test(X[:90], Y, method=method, memory=m) for m in ("1GB", "50kB"))
        assert lazy.p_value == pytest.approx(held.p_value)
    else:
        with pytest.raises(MemoryBudgetError, match=r'HSIC by permutation of 90 rows needs .*method="gamma"'):
            hsic_test(X[:90], Y, memory="50kB")


def test_permutations_by_factors(monkeypatch):
    """Where the kernels have low rank, or nearly, many rows are permuted by factors: the same test, also beyond the budget."""
    X, Y = samples(520, 520, 1)
    Y = Y + 0.08 * X
    for statistic in ("biased", "unbiased"):
        settings = {"statistic": statistic, "n_permutations": 99}
        quick, small = (hsic_test(X, Y, RBF(0.7), RBF(), **settings, memory=m) for m in ("1GB", "2MB"))
        assert isinstance(solver.factored_gram(gram(RBF(0.7), X)).matrix, solver.FactorGram)
        with monkeypatch.context() as patch:
            patch.setattr("mercer.estimators.hypotheses.FACTOR_ROWS", 10**9)
            plain = hsic_test(X, Y, RBF(0.7), RBF(), **settings)
        np.testing.assert_allclose(quick.null_sample, plain.null_sample, rtol=1e-4, atol=1e-9)
        assert quick.statistic == pytest.approx(plain.statistic, rel=1e-5)
        assert (quick.p_value, quick.null_mean) == pytest.approx((plain.p_value, plain.null_mean), rel=1e-6)
        assert quick.null_std == pytest.approx(plain.null_std, rel=1e-5)
        np.testing.assert_array_equal(small.null_sample, quick.null_sample)
    assert solver.factored_gram(gram(Laplacian(0.01), X)) is None
    single = hsic_test(X.astype(np.float32), Y.astype(np.float32), RBF(0.7), RBF(), n_permutations=99)
    assert single.p_value == pytest.approx(plain.p_value, abs=0.02)


# ------------------------------------------------------------------------------------------------ recovered, any rows
def test_known_cases():
    rng = np.random.default_rng(0)
    normal, laplace = rng.standard_normal(300), rng.laplace(scale=np.sqrt(0.5), size=300)  # same mean and variance
    assert mmd_test(normal, laplace, RBF(0.3)).rejected
    assert not mmd_test(normal, laplace, Linear()).rejected
    angle = rng.uniform(0, 2 * np.pi, 150)
    circle = np.cos(angle), np.sin(angle)
    assert hsic_test(*circle).rejected
    assert not hsic_test(*circle, "linear", "linear").rejected
    assert not hsic_test(circle[0], rng.permutation(circle[1])).rejected


def words(share, n, seed):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("ab"), 12, p=[share, 1 - share])) for _ in range(n)]


def test_rows_of_any_kind():
    few, many = words(0.3, 25, 0), words(0.6, 20, 1)
    assert mmd_test(few, many, Spectrum(2)).rejected
    assert not mmd_test(few, words(0.3, 25, 2), Spectrum(2)).rejected
    count = np.array([w.count("a") for w in few])
    assert hsic_test(few, count, Spectrum(2), "rbf").rejected
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"dna": few, "age": rng.normal(size=25)})
    other = pd.DataFrame({"dna": many, "age": rng.normal(size=20)})
    mixed = Spectrum(2).normalise().on("dna") + RBF().on("age")
    assert mmd_test(table, other, mixed).rejected
    assert mmd_test(table, other, mixed, method="block", block_size=2).n_blocks == 10
    X, Y = samples(20, 15)
    sparse = mmd_test(sp.csr_array(X), sp.csr_array(Y), RBF())
    assert sparse.statistic == pytest.approx(mmd_test(X, Y, RBF()).statistic)
    assert mmd_test(pd.DataFrame(X), pd.DataFrame(Y), RBF()).statistic == pytest.approx(sparse.statistic)


def test_graphs():
    nx = pytest.importorskip("networkx")
    trees = [nx.random_labeled_tree(8, seed=s) for s in range(12)]
    rings = [nx.cycle_graph(8 + s % 3) for s in range(12)]
    assert mmd_test(trees, rings, WeisfeilerLehman(2)).rejected


# ------------------------------------------------------------------------------------------------ the choice of a kernel
def test_the_kernel_is_chosen_on_other_rows():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 1)), 2 * rng.standard_normal((280, 1))
    found = mmd_test(X, Y, [0.01, 0.5, 100.0], random_state=1)
    assert found.kernel == RBF(0.5)
    assert found.n_rows == (150, 140)
    assert found.choice.n_rows == (150, 140)
    assert found.choice.best == int(np.argmax(found.choice.ratios)) == 1
    order = np.random.default_rng(1)
    x, y = order.permutation(300), order.permutation(280)
    seen, kept = (X[x[:150]], Y[y[:140]]), (X[x[150:]], Y[y[140:]])
    assert found.statistic == pytest.approx(mmd_test(*kept, RBF(0.5)).statistic)
    np.testing.assert_allclose(found.choice.ratios, [ratio_of_samples(*seen, RBF(w)) for w in (0.01, 0.5, 100.0)])
    assert "kernel chosen among 3 on 150 and 140 other rows" in str(found)


def ratio_of_samples(X, Y, kernel):
    """MMD^2 over the root of 4 (var f(x) / n + var f(y) / m) + the variance of the null distribution."""
    n, m = len(X), len(Y)
    witness = mmd_test(X, Y, kernel).witness(np.vstack([X, Y]))
    null = mmd_test(X, Y, kernel, statistic="unbiased", method="gamma")
    first = 4 * (np.var(witness[:n]) / n + np.var(witness[n:]) / m)
    return null.statistic / np.sqrt(first + null.null_std**2)


def test_the_ratio_is_that_of_the_standard_deviation():
    """Its denominator is the standard deviation of the statistic over fresh samples, about."""
    ratios, values = [], []
    for s in range(120):
        rng = np.random.default_rng(s)
        X, Y = rng.standard_normal((60, 1)), rng.standard_normal((80, 1)) + 1.0
        C = solver.centred_gram(gram(RBF(), np.vstack([X, Y])), True)
        form = solver.TwoSampleForm(C, 60, True)
        ratios.append(form.value / form.power_ratio())
        values.append(form.value)
    assert np.mean(ratios) == pytest.approx(np.std(values), rel=0.2)
    ratios, values = [], []
    for s in range(120):
        rng = np.random.default_rng(s)
        X = rng.standard_normal((70, 1))
        C, D = (solver.centred_gram(gram(RBF(), S), True) for S in (X, X + 0.5 * rng.standard_normal((70, 1))))
        form = solver.IndependenceForm(C, D, True)
        ratios.append(form.value / form.power_ratio())
        values.append(form.value)
    assert np.mean(ratios) == pytest.approx(np.std(values), rel=0.2)


def test_pairs_of_kernels_are_chosen():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (200, 1))
    Y = np.sin(4 * X) + 0.2 * rng.standard_normal((200, 1))
    found = hsic_test(X, Y, [0.3, 50.0], [0.5, "linear"])
    assert len(found.choice.kernels) == 4
    assert found.kernels[0] == RBF(0.3)
    assert found.n_rows == (100, 100)
    assert found.rejected
    assert hsic_test(X, Y, [0.3, 50.0], 0.5).choice.n_rows == (100, 100)


def test_words_are_resolved_on_all_rows():
    X, Y = samples(30, 20, shift=3.0)
    assert mmd_test(X, Y).kernel == RBF("median").resolve(np.vstack([X, Y]))
    assert mmd_test(Y, X).kernel == mmd_test(X, Y).kernel
    found = hsic_test(X[:20], Y, RBF("median"), "laplacian")
    assert found.kernels[0] == RBF("median").resolve(X[:20])
    assert not isinstance(found.kernels[1].lengthscale, str)


# ------------------------------------------------------------------------------------------------ bad input
@pytest.mark.filterwarnings("ignore:p-values of", "ignore:these rows can be permuted")
@pytest.mark.parametrize("test", [mmd_test, hsic_test])
@pytest.mark.parametrize("method", ALL)
def test_equal_rows(test, method):
    same, other = np.full((13, 2), 3.7), samples(13)[0]
    for X, Y in ((same, same), (same.astype(np.float32), same.astype(np.float32)), (1e8 * same, 1e8 * same)):
        for kernel in (RBF(), Linear(), RBF("median")):
            found = test(X, Y, kernel, method=method)
            assert (found.statistic, found.p_value, found.rejected) == (0.0, 1.0, False)
            assert "p = 1 by" in str(found)
    if test is hsic_test:
        found = test(same, other, RBF(), method=method)
        assert (found.statistic, found.p_value) == (0.0, 1.0)


def test_rounding_is_no_variance():
    for n in (3, 7, 13, 61, 200):
        for c in np.random.default_rng(n).uniform(0.1, 9.0, 20):
            assert solver.centred_gram(GivenGram(np.full((n, n), c)), True).flat
            assert not solver.centred_gram(GivenGram(np.full((n, n), c) + 1e-9 * np.eye(n)), True).flat


def test_too_few_rows():
    X, Y = samples(20, 20)
    for args, said in (
        ((X[:1], Y), "X has 1 rows, but the biased MMD needs 2 at least"),
        ((X, Y[:1]), "Y has 1 rows"),
    ):
        with pytest.raises(ValueError, match=said):
            mmd_test(*args)
    with pytest.raises(ValueError, match="Y has 3 rows, but the unbiased MMD needs 4 at least"):
        mmd_test(X, Y[:3], statistic="unbiased")
    with pytest.raises(ValueError, match="X has 3 rows, but linear MMD needs 4 at least"):
        mmd_test(X[:3], Y, method="linear")
    with pytest.raises(ValueError, match="X has 3 rows, but the biased HSIC needs 4 at least"):
        hsic_test(X[:3], Y[:3])
    with pytest.raises(ValueError, match=r"X has 1 rows after half of them served to choose a kernel"):
        mmd_test(X[:2], Y, [RBF(), Linear()])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        mmd_test(X[:0], Y)
    with pytest.warns(NumericalWarning, match="can be permuted in 3 different ways only"):
        assert mmd_test(X[:2], Y[:2]).p_value >= 1 / 3


def test_rows_that_do_not_fit_together():
    X, Y = samples(6, 6)
    with pytest.raises(ValueError, match="X holds rows of 2 numbers, but Y rows of 1 numbers"):
        mmd_test(X, Y[:, :1])
    with pytest.raises(ValueError, match="X holds strings, but Y bytes"):
        mmd_test(["ab", "ba"], [b"ab", b"ba"], Spectrum(1))
    with pytest.raises(ValueError, match="X holds a table with columns a, b, but Y a table with columns a, c"):
        mmd_test(pd.DataFrame(X, columns=list("ab")), pd.DataFrame(Y, columns=list("ac")), RBF().on("a"))
    with pytest.raises(ValueError, match="X has 6 rows, but Y 5: independence is asked of pairs"):
        hsic_test(X, Y[:5])
    with pytest.raises(ValueError, match="X"):
        mmd_test(words(0.5, 6, 0), Y)
    bad = Y.copy()
    bad[2, 1] = np.nan
    for test in (mmd_test, hsic_test):
        with pytest.raises(ValueError, match="Y contains NaN"):
            test(X, bad)
        with pytest.raises(ValueError, match="X contains NaN"):
            test(bad, X)


def test_wrong_settings():
    X, Y = samples(20, 20)
    for settings, said in (
        ({"method": "bootstrap"}, "method='bootstrap' must be one of permutation, gamma"),
        ({"statistic": "x"}, "statistic='x' must be one of biased, unbiased"),
        ({"level": 1.0}, "level=1.0 must be a number between 0 and 1"),
        ({"level": True}, "level=True"),
        ({"n_permutations": 0}, "n_permutations=0 must be"),
        ({"n_permutations": 18}, r"n_permutations=18 gives no p-value below 1/19.*level=0.05.*use 19 at least"),
        ({"n_permutations": 50, "level": 0.01, "method": "spectrum"}, "use 99 at least"),
        ({"block_size": 5}, 'block_size=5 is for method="block"'),
        ({"block_size": 1, "method": "block"}, "block_size=1 must be"),
        ({"memory": "many"}, "memory='many'"),
    ):
        for test in (mmd_test, hsic_test):
            with pytest.raises(ValueError, match=said):
                test(X, Y, **settings)
    mmd_test(X, Y, n_permutations=19)
    mmd_test(X, Y, n_permutations=1, method="gamma")
    with pytest.raises(ValueError, match="kernel is an empty list"):
        mmd_test(X, Y, [])
    with pytest.raises(ValueError, match="kernel_y: kernel='parabolic' is not known"):
        hsic_test(X, Y, "rbf", "parabolic")
    with pytest.raises(TypeError, match="kernel: kernel=None"):
        mmd_test(X, Y, None)
    with pytest.raises(ValueError, match="pass rows and a kernel"):
        mmd_test(X, Y, "precomputed")
    with pytest.raises(ValueError, match="the same to each of the kernels"):
        mmd_test(np.ones((9, 1)), np.ones((9, 1)), [RBF(), Linear()])


def test_kernels_that_are_not_definite():
    X, Y = samples(20, 20)
    with pytest.raises(NotPSDError, match=r"is not positive semi-definite .*means in feature space"):
        mmd_test(X, Y, -1.0 * RBF())
    with pytest.warns(NumericalWarning, match="smallest eigenvalue about -"):
        mmd_test(X, Y, Sigmoid(gamma=2.0, coef0=-1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mmd_test(X, Y, Blockwise(lambda A, B: A @ B.T))  # not certified, but definite here
        energy = mmd_test(X, Y, Multiquadric())  # conditionally definite, and centred
    assert energy.statistic > 0


def test_more_rows_than_have_a_number_of_permutations():
    X, Y = samples(700, 600)
    assert mmd_test(X, Y, RBF(), n_permutations=19).n_rows == (700, 600)


def test_scales():
    X, Y = samples(20, 20, shift=1.0)
    for size in (1e-150, 1e150):
        found = mmd_test(X * size, Y * size)
        assert found.p_value == mmd_test(X, Y).p_value
    with pytest.raises(ValueError, match="rescale"):
        mmd_test(X * 1e150, Y * 1e150, Polynomial(3))


def test_equal_rows_among_others_and_ties():
    """Labels without a difference: every permutation that ties with the statistic is counted."""
    X = np.repeat([[0.0], [1.0]], 10, axis=0)
    found = mmd_test(X, X, RBF(), n_permutations=199)
    assert found.statistic == pytest.approx(0.0, abs=1e-15)
    assert found.p_value == 1.0


# ------------------------------------------------------------------------------------------------ pictures
def test_pictures():
    plt = pytest.importorskip("matplotlib.pyplot", reason="pictures need matplotlib")
    from mercer.plots import NullDistributionDisplay, WitnessDisplay

    X, Y = samples(30, 25, 1)
    for method in ("permutation", "gamma", "linear"):
        found = mmd_test(X, Y, RBF(0.5), method=method)
        ax = NullDistributionDisplay.from_test(found).axes_[0]
        lines = [line.get_xdata()[0] for line in ax.lines]
        assert lines == [found.threshold, found.statistic]
        assert method in ax.get_title()
    assert NullDistributionDisplay.from_test(mmd_test(np.ones((9, 1)), np.ones((9, 1)), method="gamma")).axes_[0].lines
    shown = WitnessDisplay.from_test(found, X, Y, resolution=50)
    np.testing.assert_allclose(shown.values, found.witness(shown.xs))
    assert shown.xs[0] < min(X.min(), Y.min())
    assert shown.figure_ is shown.axes_[0].figure
    with pytest.raises(ValueError, match="rows of one column"):
        WitnessDisplay.from_test(found, *samples(5, 5, 2))
    plt.close("all")

"""Kernels from generative models: closed forms, enumeration, integration, missing entries, weights as repetition."""

import itertools
import math
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import digamma, softmax
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KernelDensity

from cases import close
from mercer import SVC, KernelRidge, kernels
from mercer.errors import ConvergenceWarning, KernelOutputError, MemoryBudgetError, NanError
from mercer.gram import plan
from mercer.kernels import (
    RBF,
    ComponentModel,
    DensityProduct,
    DirichletMultinomial,
    Fisher,
    HiddenMarkov,
    LatentGaussian,
    LatentMonteCarlo,
    MarkovChain,
    MixtureKernel,
    MixtureModel,
    MultinomialModel,
    NormalModel,
    ProbabilityProduct,
    SharedPath,
    Spectrum,
    UserModel,
    fisher,
    hmm,
    models,
)
from mercer.kernels.generative import factor_analysis

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3)) @ np.array([[1.0, 0.4, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 1.2]]) + [1.0, 0.0, -1.0]
X.flags.writeable = False
MEAN = np.array([0.5, -0.2, 0.1])
COVARIANCE = np.array([[1.0, 0.3, 0.1], [0.3, 0.8, -0.2], [0.1, -0.2, 1.5]])


def rows_of(kernel, *rows):
    return np.asarray(kernel(list(rows)))


# ---------------------------------------------------------------------------------------------- G1, G2, K11
def test_density_product():
    p = stats.multivariate_normal(MEAN, COVARIANCE).pdf(X)
    close(DensityProduct(NormalModel(MEAN, COVARIANCE))(X), np.outer(p, p), 1e-14)
    model = KernelDensity(bandwidth=0.7).fit(X)
    q = np.exp(model.score_samples(X))
    close(DensityProduct(model)(X), np.outer(q, q), 1e-14)
    close(DensityProduct(model).normalise()(X), np.ones((12, 12)), 1e-12)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_mixture_kernel_of_a_fitted_gaussian_mixture(kind):
    model = GaussianMixture(2, covariance_type=kind, random_state=0, reg_covar=0.1).fit(X)
    log_joint = model._estimate_log_prob(X)  # log p(x|c)
    expected = sum(w * np.outer(np.exp(p), np.exp(p)) for w, p in zip(model.weights_, log_joint.T, strict=True))
    close(MixtureKernel(model)(X), expected, 1e-13)
    close(MixtureKernel(model, unit=True)(X), MixtureKernel(model).normalise()(X), 1e-12)
    assert MixtureKernel(model).resolve(X) == MixtureKernel(model)  # what comes fitted is used as it is


def component_logs(X):
    return np.stack([stats.norm(c).logpdf(X[:, 0]) for c in (-1.0, 2.0)], axis=1)


def test_given_components():
    k = MixtureKernel(ComponentModel([0.3, 0.7], component_logs))
    P = np.exp(component_logs(X))
    close(k(X), P @ np.diag([0.3, 0.7]) @ P.T, 1e-14)
    zero = MixtureKernel(ComponentModel([0.0, 1.0], component_logs))
    close(zero(X), np.outer(P[:, 1], P[:, 1]), 1e-14)


def blobs(n=120):
    rng = np.random.default_rng(3)
    return np.vstack([rng.normal(-3, 0.5, (n, 2)), rng.normal(3, [0.5, 1.5], (n, 2))])


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_em_finds_what_scikit_learn_finds(kind):
    B = blobs()
    ours = MixtureModel(2, kind).fit(B)
    theirs = GaussianMixture(2, covariance_type=kind, random_state=0, tol=1e-8, max_iter=500).fit(B)
    assert ours.log_density(B).mean() == pytest.approx(theirs.score(B), abs=1e-4)
    close(np.sort(ours.means, axis=0), np.sort(theirs.means_, axis=0), 1e-3)


@pytest.mark.parametrize(
    "kernel",
    [
        MixtureKernel(MixtureModel(2, tol=1e-3)),
        LatentGaussian(1),
        Fisher(NormalModel(theta="both")),
        Fisher(MixtureModel(2, "diag", tol=1e-3), "diagonal"),
        DensityProduct(),
    ],
    ids=repr,
)
def test_weights_mean_repetition(kernel):
    times = np.arange(12) % 3 + 1
    weighted = kernel.resolve(X, sample_weight=times.astype(float))
    repeated = kernel.resolve(np.repeat(X, times, axis=0))
    close(weighted(X), repeated(X), 1e-9)
    assert np.abs(weighted(X) - kernel.resolve(X)(X)).max() > 1e-6


def test_weights_mean_repetition_of_sequences():
    words, times = ["abba", "aab", "babb", "b", "aaab"], np.array([1, 3, 1, 2, 1])
    for model in (HiddenMarkov(2, "discrete", tol=1e-3), MarkovChain(1)):
        k = Fisher(model, "diagonal")
        weighted = k.resolve(words, sample_weight=times.astype(float))
        close(weighted(words), k.resolve(list(np.repeat(words, times)))(words), 1e-8)


# ---------------------------------------------------------------------------------------------- G3
W = np.array([[1.0, 0.0], [0.5, 0.3], [-0.2, 0.8]])
NOISE = np.array([0.5, 0.2, 1.0])
LATENT = LatentGaussian(2, MEAN, W, NOISE)


def joint_density(x, y, kept_x, kept_y):
    S = W @ W.T
    C = np.block([[S + np.diag(NOISE), S], [S, S + np.diag(NOISE)]])
    kept = np.concatenate([kept_x, 3 + np.asarray(kept_y)]).astype(int)
    both = np.concatenate([x, y])[kept]
    return stats.multivariate_normal(np.concatenate([MEAN, MEAN])[kept], C[np.ix_(kept, kept)]).pdf(both)


def test_latent_gaussian_is_a_gaussian_of_both_rows():
    expected = [[joint_density(x, y, range(3), range(3)) for y in X] for x in X]
    close(LATENT(X), expected, 1e-14)
    close(LATENT.diag(X), np.diag(expected), 1e-14)
    unit = LATENT.replace(unit=True)
    close(unit(X), LATENT.normalise()(X), 1e-12)
    close(unit(X * 1e3)[0, 0], 1.0, 0.0)  # where the densities are 0 in floating point


def test_factor_analysis_returns_the_model_of_an_exact_covariance():
    rng = np.random.default_rng(1)
    A, P = rng.standard_normal((6, 2)), 0.3 + rng.random(6)
    loadings, noise = factor_analysis(A @ A.T + np.diag(P), 2)
    close(loadings @ loadings.T, A @ A.T, 1e-5)
    close(noise, P, 1e-5)


def test_factor_analysis_is_as_likely_as_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 8)) + 0.5 * (
        1 + rng.random(8)
    ) * rng.standard_normal((300, 8))
    theirs = FactorAnalysis(3, tol=1e-8, max_iter=5000, svd_method="lapack").fit(rows)
    ours = LatentGaussian(3).resolve(rows)
    both = np.asarray(ours.loadings) @ np.asarray(ours.loadings).T + np.diag(ours.noise)
    close(both, theirs.get_covariance(), 1e-4)


def log_given(X, Z):
    D = X[:, None] - (MEAN + Z @ W.T)
    return -0.5 * (D * D / NOISE).sum(axis=2) - 0.5 * np.log(2 * np.pi * NOISE).sum()


def test_monte_carlo_agrees_within_its_error():
    k = LatentMonteCarlo(log_given, n_latent=2, n_samples=4000)
    error = k.error(X, X[:4])
    z = np.abs(k(X, X[:4]) - LATENT(X, X[:4])) / np.maximum(error, 1e-12)
    assert np.median(z) < 1.5
    assert (z < 6).mean() > 0.95
    more = LatentMonteCarlo(log_given, n_latent=2, n_samples=40_000).error(X, X[:4])
    assert np.median(more / error) == pytest.approx(math.sqrt(0.1), rel=0.3)


# ---------------------------------------------------------------------------------------------- G4
def probabilities(rng, *shape):
    p = rng.random(shape) + 0.05
    return p / p.sum(axis=-1, keepdims=True)


def hidden(seed, n_states=2, n_symbols=3):
    rng = np.random.default_rng(seed)
    return HiddenMarkov(n_states, "discrete", probabilities(rng, n_states), probabilities(rng, n_states, n_states),
                        table=probabilities(rng, n_states, n_symbols), symbols=tuple("abc"[:n_symbols]))  # fmt: skip


def gaussian_hidden(seed, n_states=2, d=2):
    rng = np.random.default_rng(seed)
    return HiddenMarkov(n_states, "gaussian", probabilities(rng, n_states), probabilities(rng, n_states, n_states),
                        means=rng.standard_normal((n_states, d)), variances=0.5 + rng.random((n_states, d)))  # fmt: skip


def path_probability(model, path):
    p = model.start[path[0]] if path else 1.0
    for r, s in itertools.pairwise(path):
        p *= model.moves[r, s]
    return p


def by_paths(model, x, y):
    """The sum over all hidden paths of the longer length."""
    n, total = max(len(x), len(y)), 0.0
    place = {s: i for i, s in enumerate(model.symbols)}
    for path in itertools.product(range(len(model.start)), repeat=n):
        emitted = [model.table[s, place[c]] for word in (x, y) for s, c in zip(path, word, strict=False)]
        total += path_probability(model, path) * math.prod(emitted)
    return total


words = st.lists(st.text("abc", max_size=4), min_size=2, max_size=3)


@given(words, st.integers(0, 50), st.integers(1, 3))
def test_shared_path_by_enumeration(rows, seed, n_states):
    model = hidden(seed, n_states)
    expected = np.array([[by_paths(model, x, y) for y in rows] for x in rows])
    close(SharedPath(model)(rows) / expected.max(), expected / expected.max(), 1e-12)
    own = np.sqrt(np.diag(expected))
    close(SharedPath(model, unit=True)(rows), expected / np.outer(own, own), 1e-12)


@pytest.mark.parametrize("lengths", [(2, 2), (1, 3)])
def test_shared_path_of_all_pairs_of_sequences_adds_up_to_one(lengths):
    left, right = (["".join(w) for w in itertools.product("abc", repeat=n)] for n in lengths)
    assert SharedPath(hidden(4))(left, right).sum() == pytest.approx(1.0, rel=1e-12)


def test_shared_path_of_gaussian_emissions_by_enumeration():
    model, rng = gaussian_hidden(5), np.random.default_rng(1)
    x, y = rng.standard_normal((3, 2)), rng.standard_normal((2, 2))
    density = [
        [[stats.multivariate_normal(m, np.diag(v)).pdf(r) for m, v in zip(model.means, model.variances, strict=True)]
         for r in s]
        for s in (x, y)
    ]  # fmt: skip
    expected = 0.0
    for path in itertools.product(range(2), repeat=3):
        terms = [density[0][t][s] for t, s in enumerate(path)] + [density[1][t][path[t]] for t in range(2)]
        expected += path_probability(model, path) * math.prod(terms)
    close(SharedPath(model)([x], [y]) / expected, [[1.0]], 1e-12)


def test_long_sequences_are_cut_and_stay_finite(monkeypatch):
    rng = np.random.default_rng(0)
    long = ["".join(rng.choice(list("abc"), n)) for n in (3000, 2500, 3000)]
    whole = SharedPath(hidden(1), unit=True)(long)
    score = hidden(1).scores(np.array(long, dtype=object))
    assert np.isfinite(whole).all()
    assert SharedPath(hidden(1))(long).max() == 0.0  # below the smallest number
    monkeypatch.setattr(hmm, "_CALL", 400)
    assert np.array_equal(SharedPath(hidden(1), unit=True)(long), whole)
    assert np.array_equal(hidden(1).scores(np.array(long, dtype=object)), score)


def test_truncating_to_the_shorter_sequence_would_not_be_psd():
    """Why the path has the longer length: with the shorter one a single letter is similar to everything."""
    model = HiddenMarkov(1, "discrete", [1.0], [[1.0]], table=[[0.5, 0.5]], symbols=("a", "b"))
    rows = ["", "aaaa"]
    assert np.linalg.eigvalsh(SharedPath(model)(rows)).min() >= 0
    p = np.array([[0.25 ** min(len(x), len(y)) for y in rows] for x in rows])
    assert np.linalg.eigvalsh(p).min() < 0


def test_zero_density_gives_zero_and_no_nan():
    model = HiddenMarkov(
        2, "discrete", [1.0, 0.0], [[1.0, 0.0], [0.5, 0.5]], table=[[1.0, 0.0], [0.5, 0.5]], symbols=("a", "b")
    )
    rows = ["aa", "ab", "zz", ""]  # only the first state is ever reached; z is unknown
    for unit in (False, True):
        K = SharedPath(model, unit=unit)(rows)
        close(K[:2, :2], [[1.0, 0.0], [0.0, 0.0]], 0.0)
        close(K[2], np.zeros(4), 0.0)
        close(K.diagonal(), SharedPath(model, unit=unit).diag(rows), 0.0)
    F = Fisher(model, "identity")(rows)
    assert np.isfinite(F).all()
    close(F[2], np.zeros(4), 0.0)
    assert np.array_equal(DensityProduct(model)(rows).diagonal() > 0, [True, False, False, True])
    far = np.array([[0.0], [1e200]])
    mixture = MixtureModel(2, "diag", [0.5, 0.5], [[0.0], [1.0]], [[1.0], [1.0]])
    for k in (MixtureKernel(mixture), MixtureKernel(mixture, unit=True), LatentGaussian(1, [0.0], [[1.0]], [1.0])):
        K = k(far)
        assert K[0, 0] > 0
        close(K[1], [0.0, 0.0], 0.0)
    assert np.isfinite(Fisher(MultinomialModel([0.0, 1.0]))(np.array([[1.0, 2.0], [0.0, 1.0]]))).all()


# ---------------------------------------------------------------------------------------------- G5
@pytest.mark.parametrize("rho", [0.3, 0.5, 1.0, 2.0])
def test_gaussian_closed_form(rho):
    s, d = 0.7, 3
    square = ((X[:, None] - X) ** 2).sum(axis=2)
    factor = (2 * np.pi * s**2) ** ((1 - 2 * rho) * d / 2) * (2 * rho) ** (-d / 2)
    expected = factor * np.exp(-rho * square / (4 * s**2))
    close(ProbabilityProduct("gaussian", rho, covariance=s**2)(X) / factor, expected / factor, 1e-12)
    if rho == 1.0:
        close(expected, (4 * np.pi * s**2) ** (-d / 2) * np.exp(-square / (4 * s**2)), 1e-14)


@pytest.mark.parametrize("rho", [0.5, 1.0, 1.7])
def test_gaussians_of_full_covariance_by_integration(rho):
    S, T = np.array([[1.0, 0.4], [0.4, 0.7]]), np.array([[0.6, -0.2], [-0.2, 1.1]])
    m, n = np.array([0.1, 0.2]), np.array([-0.4, 0.9])
    t = np.linspace(-9, 9, 401)
    grid = np.stack(np.meshgrid(t, t), axis=-1)
    p, q = stats.multivariate_normal(m, S).pdf(grid), stats.multivariate_normal(n, T).pdf(grid)
    expected = ((p * q) ** rho).sum() * (t[1] - t[0]) ** 2
    K = rows_of(ProbabilityProduct("gaussian", rho), (m, S), (n, T))
    assert K[0, 1] == pytest.approx(expected, rel=1e-9)
    if rho == 0.5:
        close(K.diagonal(), [1.0, 1.0], 1e-13)  # Bhattacharyya: every distribution has norm 1


@pytest.mark.parametrize("rho", [0.4, 0.5, 1.0, 2.0])
def test_discrete_and_exponential_families(rho):
    a, b = np.array([0.2, 0.7]), np.array([0.6, 0.1])

    def two(family, *rows):
        return rows_of(ProbabilityProduct(family, rho), *rows)[0, 1]

    outcomes = np.array(list(itertools.product([0, 1], repeat=2)))
    p, q = (np.where(outcomes, r, 1 - r).prod(axis=1) for r in (a, b))
    expected = ((p * q) ** rho).sum()
    assert two("bernoulli", a, b) == pytest.approx(expected, rel=1e-12)
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.0, 0.4])
    assert two("multinomial", p, q) == pytest.approx(((p * q) ** rho).sum(), rel=1e-12)
    k = np.arange(200)
    sums = [((stats.poisson(r).pmf(k) * stats.poisson(s).pmf(k)) ** rho).sum() for r, s in ((1.3, 20.0), (0.0, 2.0))]
    assert two("poisson", [1.3, 0.0], [20.0, 2.0]) == pytest.approx(np.prod(sums), rel=1e-10)
    value = integrate.quad(lambda t: (1.5 * math.exp(-1.5 * t) * 0.4 * math.exp(-0.4 * t)) ** rho, 0, np.inf)[0]
    assert two("exponential", 1.5, 0.4) == pytest.approx(value, rel=1e-8)


def test_poisson_closed_forms():
    rates = [[0.0], [1.0], [40.0], [3000.0]]
    root = np.sqrt(np.ravel(rates))
    close(ProbabilityProduct("poisson")(rates), np.exp(-((root[:, None] - root) ** 2) / 2), 1e-13)
    close(ProbabilityProduct("poisson", 1.0 + 1e-9)(rates), ProbabilityProduct("poisson", 1.0)(rates), 1e-7)


def test_multinomial_of_several_trials():
    p, q, n = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.1, 0.3]), 4
    outcomes = [c for c in itertools.product(range(n + 1), repeat=3) if sum(c) == n]
    expected = sum(np.sqrt(stats.multinomial(n, p).pmf(c) * stats.multinomial(n, q).pmf(c)) for c in outcomes)
    assert rows_of(ProbabilityProduct("multinomial", trials=n), p, q)[0, 1] == pytest.approx(expected, rel=1e-10)
    with pytest.raises(ValueError, match=r"rho=0\.5 only"):
        ProbabilityProduct("multinomial", 1.0, trials=n)


def density(t, mixture):
    return sum(w * math.exp(-0.5 * (t - c[0]) ** 2 / np.ravel(v)[0]) / math.sqrt(2 * math.pi * np.ravel(v)[0])
               for w, c, v in zip(*mixture, strict=True))  # fmt: skip


@pytest.mark.parametrize("rho", [1, 2, 3])
def test_mixtures_by_integration(rho):
    a = ([0.3, 0.7], [[-1.0], [0.5]], [[0.5], [0.2]])
    b = ([0.5, 0.5], [[0.0], [1.0]], [[[1.0]], [[0.3]]])

    expected = integrate.quad(lambda t: (density(t, a) * density(t, b)) ** rho, -12, 12, limit=200)[0]
    K = rows_of(ProbabilityProduct("mixture", rho), a, b)
    assert K[0, 1] == pytest.approx(expected, rel=1e-9)
    unit = rows_of(ProbabilityProduct("mixture", rho, unit=True), a, b)
    close(unit, K / np.sqrt(np.outer(K.diagonal(), K.diagonal())), 1e-12)


@pytest.mark.parametrize("rho", [0.5, 1.5])
def test_mixtures_by_draws_agree_within_their_error(rho):
    rows = [([0.3, 0.7], [[-1.0], [0.5]], [[0.5], [0.2]]), ([0.5, 0.5], [[0.0], [1.0]], [[1.0], [0.3]])]
    k = ProbabilityProduct("mixture", rho, n_samples=20_000).resolve(rows)

    def value(a, b):
        return integrate.quad(lambda t: (density(t, a) * density(t, b)) ** rho, -12, 12, limit=200)[0]

    expected = np.array([[value(a, b) for b in rows] for a in rows])
    error = k.error(rows)
    assert (error < 0.03 * expected).all()
    assert (np.abs(k(rows) - expected) < 4 * error).all()
    close(k.replace(unit=True)(rows), k.normalise()(rows), 1e-12)
    assert ProbabilityProduct("mixture", 2).error(rows).max() == 0.0


def all_words(length, symbols="abc"):
    return np.array(["".join(w) for w in itertools.product(symbols, repeat=length)], dtype=object)


@pytest.mark.parametrize(("rho", "length"), [(1, 4), (2, 4), (3, 2)])
def test_hidden_markov_models_by_enumeration(rho, length):
    models, words = [hidden(1, 2), hidden(2, 3)], all_words(length)
    p = np.exp([m.log_density(words) for m in models]) ** rho
    close(
        rows_of(ProbabilityProduct("hmm", rho, length=length), *models) / (p @ p.T).max(),
        p @ p.T / (p @ p.T).max(),
        1e-12,
    )


def test_long_chains_are_cut_and_stay_finite(monkeypatch):
    k = ProbabilityProduct("hmm", 2, length=500, unit=True)
    models = hidden(1, 2), hidden(2, 3)
    whole = rows_of(k, *models)
    assert 0 < whole[0, 1] < 1
    monkeypatch.setattr(hmm, "_CALL", 900)
    close(rows_of(k, *models), whole, 1e-12)


def test_chains_without_a_common_sequence():
    a, b = (HiddenMarkov(1, "discrete", [1.0], [[1.0]], table=[[1.0]], symbols=(s,)) for s in "ab")
    close(rows_of(ProbabilityProduct("hmm", 1.0, length=3), a, b), np.eye(2), 0.0)
    narrow = HiddenMarkov(1, "gaussian", [1.0], [[1.0]], [[0.0]], [[1e-30]])
    far = HiddenMarkov(1, "gaussian", [1.0], [[1.0]], [[9.0]], [[1e-30]])
    close(rows_of(ProbabilityProduct("hmm", 1.0, length=50, unit=True), narrow, far), np.eye(2), 1e-12)
    with pytest.raises(ValueError, match="models of symbols and models of numbers"):
        rows_of(ProbabilityProduct("hmm", 1.0), a, narrow)


def grid_overlap(models, rho):
    """Integrals of p^rho q^rho over pairs of numbers, by a grid: p(s, t) = sum of p(i) p(s|i) p(j|i) p(t|j)."""
    t = np.linspace(-9, 9, 301)
    p = []
    for m in models:
        D = stats.norm(m.means[:, 0], np.sqrt(m.variances[:, 0])).pdf(t[:, None])
        p.append((D * m.start @ m.moves @ D.T).ravel() ** rho)
    return np.array(p) @ np.array(p).T * (t[1] - t[0]) ** 2


@pytest.mark.parametrize("rho", [1, 2])
def test_chains_of_numbers_by_integration(rho):
    models = [gaussian_hidden(1, 2, 1), gaussian_hidden(2, 3, 1)]
    close(rows_of(ProbabilityProduct("hmm", rho, length=2), *models), grid_overlap(models, rho), 1e-9)
    a, b = gaussian_hidden(1), gaussian_hidden(2)
    mixtures = [(m.start, m.means, m.variances) for m in (a, b)]
    one = rows_of(ProbabilityProduct("hmm", rho, length=1), a, b)
    close(one, rows_of(ProbabilityProduct("mixture", rho), *mixtures), 1e-13)


@pytest.mark.parametrize("rho", [0.5, 1.5])
@pytest.mark.parametrize("kind", ["discrete", "gaussian"])
def test_hidden_markov_models_by_draws_agree_within_their_error(kind, rho):
    if kind == "discrete":
        models, words = [hidden(1, 2), hidden(2, 3)], all_words(3)
        p = np.exp([m.log_density(words) for m in models]) ** rho
        expected, length = p @ p.T, 3
    else:
        models, length = [gaussian_hidden(1, 2, 1), gaussian_hidden(2, 3, 1)], 2
        expected = grid_overlap(models, rho)
    k = ProbabilityProduct("hmm", rho, length=length, n_samples=20_000).resolve(models)
    assert repr(k).endswith("draws=Draws(20000))")
    error = k.error(models)
    assert (error < 0.03 * expected).all()
    assert (np.abs(k(models) - expected) < 4 * error).all()
    close(k.replace(unit=True)(models), k.normalise()(models), 1e-12)
    assert np.linalg.eigvalsh(k.replace(n_samples=3, draws=None)([*models, models[0]])).min() > -1e-12
    assert ProbabilityProduct("hmm", 2, length=2).error(models).max() == 0.0


# ---------------------------------------------------------------------------------------------- G6
def test_fisher_kernel_of_a_gaussian_mean():
    k = Fisher(NormalModel(MEAN, COVARIANCE))
    D = X - MEAN
    close(k(X), D @ np.linalg.inv(COVARIANCE) @ D.T, 1e-12)
    between = X[:, None] - X
    close(k.squared_distance(X), np.einsum("ijk,kl,ijl->ij", between, np.linalg.inv(COVARIANCE), between), 1e-11)


def differences(log_density, theta, h=1e-5):
    out = []
    for j in range(len(theta)):
        step = np.zeros(len(theta))
        step[j] = h
        out.append((log_density(theta + step) - log_density(theta - step)) / (2 * h))
    return np.stack(out, axis=1)


GAPS = np.where(np.random.default_rng(2).random(X.shape) < 0.2, np.nan, X)


def normal_case():
    i, j = np.tril_indices(3)

    def at(theta):
        S = np.zeros((3, 3))
        S[i, j] = S[j, i] = theta[3:]
        return NormalModel(theta[:3], S, theta="both")

    return at, np.concatenate([MEAN, COVARIANCE[i, j]]), GAPS


def mixture_case(kind):
    rng = np.random.default_rng(3)
    width = 6 if kind == "full" else 3
    i, j = np.tril_indices(3)

    def at(theta):
        parts = theta[2:].reshape(2, 3 + width)
        S = parts[:, 3:]
        if kind == "full":
            S = np.zeros((2, 3, 3))
            S[:, i, j] = S[:, j, i] = parts[:, 3:]
        return MixtureModel(2, kind, softmax(theta[:2]), parts[:, :3], S)

    first = COVARIANCE[i, j] if kind == "full" else np.diag(COVARIANCE)
    theta = np.concatenate([[0.2, -0.3], *([*rng.standard_normal(3), *(first * c)] for c in (1.0, 1.5))])
    return at, theta, GAPS


def hidden_case(kind):
    rng = np.random.default_rng(4)
    n, width = 2, 3 if kind == "discrete" else 4

    def at(theta):
        start, moves, rest = softmax(theta[:2]), softmax(theta[2:6].reshape(2, 2), axis=1), theta[6:]
        if kind == "discrete":
            return HiddenMarkov(n, kind, start, moves, table=softmax(rest.reshape(2, 3), axis=1), symbols=tuple("abc"))
        return HiddenMarkov(n, kind, start, moves, rest[:4].reshape(2, 2), np.exp(rest[4:]).reshape(2, 2))

    rows = np.empty(4, dtype=object)
    for r in range(3):
        rows[r] = "abacbc"[r:] if kind == "discrete" else rng.standard_normal((r + 1, 2))
    rows[3] = ["a", None, "b"] if kind == "discrete" else np.array([[0.1, np.nan], [0.3, 1.0]])
    return at, rng.standard_normal(6 + 2 * width), rows


def test_scores_are_gradients_of_the_log_density():
    cases = [
        normal_case(),
        mixture_case("full"),
        mixture_case("diag"),
        hidden_case("discrete"),
        hidden_case("gaussian"),
    ]
    counts = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 5.0]])
    cases.append((lambda t: MultinomialModel(softmax(t)), np.array([0.1, -0.4, 0.9]), counts))
    cases.append((DirichletMultinomial, np.array([0.5, 1.5, 0.2]), counts))
    for at, theta, rows in cases:
        expected = differences(lambda t, at=at, rows=rows: at(t).log_density(rows), theta)
        close(at(theta).scores(rows), expected, 1e-6, repr(at(theta)))
        assert at(theta).n_scores == expected.shape[1]


def test_scores_in_a_part_of_the_parameters():
    cases = [(TWO, "means", [*range(2, 5), *range(11, 14)]), (DIAGONAL, "means", [*range(2, 5), *range(8, 11)])]
    words = np.array(["abc", "cab"], dtype=object)
    for model, theta, kept in cases:
        part = MixtureModel(2, model.covariance_type, *model._parameters, theta=theta)
        close(part.scores(X), model.scores(X)[:, kept], 1e-15)
        assert part.n_scores == len(kept)
    whole, part = hidden(1), hidden(1)._with(theta="emissions")
    close(part.scores(words), whole.scores(words)[:, 6:], 1e-15)
    assert part.n_scores == whole.n_scores - 6
    assert NormalModel(MEAN, COVARIANCE).n_scores == NormalModel(MEAN, COVARIANCE).scores(X).shape[1]
    chain = MarkovChain(2, "uniform", "abc").fit(words)
    assert chain.n_scores == chain.scores(words).shape[1] == 27


def test_exact_information_is_the_mean_of_squared_scores():
    model = NormalModel(MEAN, COVARIANCE, theta="both")
    draws = np.random.default_rng(0).multivariate_normal(MEAN, COVARIANCE, 200_000)
    G = model.scores(draws)
    F = model.information()
    root = np.sqrt(np.outer(np.diag(F), np.diag(F)))
    close(G.T @ G / len(G) / root, F / root, 0.02)
    one = NormalModel([0.0], [[4.0]], theta="both").information()
    close(one, np.diag([1 / 4, 1 / (2 * 16)]), 1e-15)


def by_deviation(rows, theta):
    return stats.norm(theta[0], theta[1]).logpdf(rows[:, 0])


def by_log_precision(rows, theta):
    return stats.norm(theta[0] * math.exp(theta[1]), math.exp(theta[1])).logpdf(rows[:, 0])


def two_values(rows, theta):
    return np.zeros((len(rows), 2))


def two_values_of(rows):
    return np.zeros((len(rows), 2))


@pytest.mark.parametrize("information", ["empirical", "exact"])
def test_other_parameters_of_the_same_densities(information):
    """theta = (m, s) and (m / s, log s): the kernel is the same with the information, and another without."""
    m, s = 0.4, 1.3
    J = np.array([[s, m], [0.0, s]])  # d(m, s) / d(m / s, log s)
    F = np.diag([1 / s**2, 2 / s**2])
    a = UserModel(by_deviation, [m, s], information_matrix=F)
    b = UserModel(by_log_precision, [m / s, math.log(s)], information_matrix=J.T @ F @ J)
    close(Fisher(a, information)(X), Fisher(b, information)(X), 1e-6)
    plain = Fisher(a, "identity")(X) - Fisher(b, "identity")(X)
    assert np.abs(plain).max() > 0.1
    if information == "exact":
        one = NormalModel([m], [[s * s]], theta="both")
        close(Fisher(a)(X), Fisher(one)(X[:, :1]), 1e-6)


def closed_scores(m, s):
    z = (X[:, 0] - m) / s
    return np.column_stack([z / s, (z * z - 1) / s])


def test_scores_by_differences():
    close(UserModel(by_deviation, [0.4, 1.3]).scores(X), closed_scores(0.4, 1.3), 1e-8)
    asked = []
    UserModel(lambda rows, t: asked.append(t[0]) or np.zeros(len(rows)), [1e6], step=1e-7).scores(X)
    assert max(asked) - min(asked) == pytest.approx(0.2, rel=1e-6)  # steps are relative to theta
    gamma = UserModel(lambda rows, t: stats.gamma(t[0], scale=1 / t[1]).logpdf(np.abs(rows[:, 0])), [2.0, 0.5])
    x = np.abs(X[:, 0])
    close(gamma.scores(X), np.column_stack([np.log(0.5 * x) - digamma(2.0), 4.0 - x]), 1e-8)


def test_scores_by_torch():
    torch = pytest.importorskip("torch")

    def log_density(rows, theta):
        z = (rows[:, 0] - theta[0]) / theta[1]
        return -0.5 * z * z - torch.log(theta[1]) - 0.5 * math.log(2 * math.pi)

    model = UserModel(log_density, [0.4, 1.3], gradient="torch")
    close(model.scores(X), closed_scores(0.4, 1.3), 1e-12)
    close(DensityProduct(model)(X), DensityProduct(NormalModel([0.4], [[1.69]]))(X[:, :1]), 1e-12)
    close(Fisher(model, "empirical")(X), Fisher(UserModel(by_deviation, [0.4, 1.3]), "empirical")(X), 1e-6)
    uniform = UserModel(lambda r, t: torch.log((r[:, 0] < t[0]) / t[0]), [1.0], gradient="torch")
    close(uniform.scores(X)[:, 0], np.where(X[:, 0] < 1.0, -1.0, 0.0), 1e-12)
    broken = UserModel(lambda r, t: torch.sqrt(t[0] * 0) + r[:, 0], [1.0], gradient="torch")
    with pytest.raises(KernelOutputError, match="row 0 has no gradient"):
        broken.scores(X)


def test_torch_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="needs torch; pip install"):
        UserModel(by_deviation, [0.4, 1.3], gradient="torch").scores(X)


def test_a_density_of_zero_has_no_score():
    def up_to(rows, theta):
        with np.errstate(divide="ignore"):
            return np.log((rows[:, 0] < theta[0]) / theta[0])

    model, inside = UserModel(up_to, [1.0]), X[:, 0] < 1.0
    assert 0 < inside.sum() < len(X)
    close(model.scores(X)[:, 0], np.where(inside, -1.0, 0.0), 1e-8)
    close(DensityProduct(model)(X), np.outer(inside, inside), 0.0)
    close(Fisher(model, "empirical")(X), np.outer(inside, inside) * len(X) / inside.sum(), 1e-8)
    edge = np.array([[0.5], [1.0 - 1e-9]])
    with pytest.raises(KernelOutputError, match="row 1 has density 0 within step"):
        model.scores(edge)
    for kernel in (MixtureKernel(ComponentModel([0.5, 0.5], both_up_to)), LatentMonteCarlo(never, 1, 5)):
        K = kernel(X)
        assert np.isfinite(K).all()
        close(K[~inside], np.zeros((len(X) - inside.sum(), len(X))), 0.0)
    unit = MixtureKernel(ComponentModel([0.5, 0.5], both_up_to), unit=True)(X)
    close(unit, np.outer(inside, inside), 1e-15)


def both_up_to(rows):
    return np.where((rows[:, 0] < 1.0)[:, None], np.log([1.0, 2.0]), -np.inf)


def never(rows, Z):
    return np.where((rows[:, 0] < 1.0)[:, None], -0.5 * Z[:, 0] ** 2, -np.inf)


def test_singular_information_is_inverted_on_its_range():
    counts = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 5.0], [1.0, 1.0, 0.0]])
    model = MultinomialModel([0.2, 0.3, 0.5])
    G = model.scores(counts)
    close(Fisher(model)(counts), G @ np.linalg.pinv(model.information()) @ G.T, 1e-12)
    twice = UserModel(lambda rows, t: stats.norm(t[0] + t[1]).logpdf(rows[:, 0]), [0.2, 0.3])  # only the sum is seen
    g = X[:, 0] - 0.5
    close(Fisher(twice, "empirical")(X), np.outer(g, g) / (g @ g / len(g)), 1e-6)
    empty = Fisher(MarkovChain(1), "empirical")(["a", "", "a"])
    close(empty, np.zeros((3, 3)), 0.0)


@given(words, st.integers(1, 2))
def test_markov_chain_of_uniform_moves_is_the_spectrum_kernel(rows, order):
    model = MarkovChain(order, "uniform", symbols="abc")
    close(Fisher(model, "identity")(rows), 9 * Spectrum(order + 1)(rows), 1e-12)


def test_symbols_outside_the_alphabet_break_a_sequence():
    model = MarkovChain(1, "uniform", "ab").fit(np.array(["ab"], dtype=object))
    words = np.array(["abzba", "zz", ""], dtype=object)
    close(model.scores(words), [[0.0, 2.0, 2.0, 0.0], [0.0] * 4, [0.0] * 4], 0.0)  # aa, ab, ba, bb
    close(model.log_density(words), [2 * math.log(0.5), 0.0, 0.0], 1e-15)


def test_markov_chain_is_fitted_by_counts():
    model = MarkovChain(1, smoothing=0.5).fit(np.array(["aab", "ba"], dtype=object))
    assert model.symbols == ("a", "b")
    close(model.transitions, [[1.5 / 3, 1.5 / 3], [1.5 / 2, 0.5 / 2]], 1e-15)
    close(model.log_density(np.array(["aab"], dtype=object)), [2 * math.log(0.5)], 1e-14)


def test_bursty_words_weigh_like_tf_idf():
    """Elkan (2005): for a rare word the score of c occurrences, against none, is 1 / alpha + log c, in the limit of a small
    alpha: exactly 1 / alpha + 1 + 1/2 + ... + 1/(c - 1)."""
    counts = np.array([1.0, 2.0, 3.0, 10.0, 100.0])
    harmonic = np.array([np.sum(1 / np.arange(1, c)) for c in counts])
    assert np.abs(harmonic - np.log(counts)).max() < np.euler_gamma
    for alpha in (1e-2, 1e-3, 1e-4):
        G = DirichletMultinomial([alpha, alpha]).scores(np.column_stack([counts, np.zeros(5)]))
        # the expansion of digamma at 0 and at c ends with alpha times pi^2 / 6 + 1 / c^2 + 1 / (c + 1)^2 ...
        assert np.abs(G[:, 0] - G[:, 1] - 1 / alpha - harmonic).max() < alpha * np.pi**2 / 3


def test_bursty_words_are_weighed_by_their_documents():
    """A fitted alpha of a rare word is in proportion to the number of documents that have it: 1 / alpha is an idf."""
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(40, rng.dirichlet(np.geomspace(0.05, 0.003, 40))) for _ in range(400)]).astype(
        float
    )
    counts = counts[:, (counts > 0).sum(axis=0) > 0]
    alpha = DirichletMultinomial(floor=1e-8, tol=1e-10, max_iter=5000).fit(counts).alpha
    documents, n, total = (counts > 0).sum(axis=0), counts.sum(axis=1), alpha.sum()
    ratio = alpha * np.sum(digamma(n + total) - digamma(total)) / documents
    # at the most likely alpha the sum of alpha (1 / alpha + 1 + ... + 1 / (c - 1)) over the documents, and no more
    assert (ratio > 1 - 1e-3).all()
    assert (ratio < 1 + 1.05 * alpha * np.sum(1 / np.arange(1, 40))).all()


def test_the_kernel_of_bursty_words_counts_shared_words_by_their_weight():
    """As all alpha = e a go to 0, e g_w goes to [w occurs] / a_w - 1 / sum(a)."""
    rng = np.random.default_rng(0)
    a, counts = rng.random(8) + 0.1, rng.poisson(0.7, (6, 8)).astype(float)
    counts[:, 0] += 1
    limit = (counts > 0) / a - 1 / a.sum()
    errors = [
        np.abs(e * e * Fisher(DirichletMultinomial(e * a), "identity")(counts) - limit @ limit.T).max()
        for e in (1e-3, 1e-6)
    ]
    assert errors[0] < 0.2
    assert errors[1] < 2e-3 * errors[0]


def test_dirichlet_multinomial_recovers_its_parameters():
    rng = np.random.default_rng(1)
    alpha = np.array([0.5, 1.0, 2.0, 0.2])
    counts = np.array([rng.multinomial(60, rng.dirichlet(alpha)) for _ in range(2000)]).astype(float)
    close(DirichletMultinomial(max_iter=2000).fit(counts).alpha / alpha, np.ones(4), 0.1)


def test_symbols_that_a_fit_does_not_see_may_be_given():
    model = HiddenMarkov(1, "discrete", symbols="abc", smoothing=1.0).fit(np.array(["aab"], dtype=object))
    close(model.table, [[3 / 6, 2 / 6, 1 / 6]], 1e-12)


@pytest.mark.filterwarnings("ignore:the fit of HiddenMarkov ended at max_iter")
def test_baum_welch_climbs_and_recovers_a_model():
    true = HiddenMarkov(2, "gaussian", [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[-2.0], [2.0]], [[0.5], [1.0]])
    rng = np.random.default_rng(0)
    series = []
    for _ in range(30):
        z = [rng.integers(2)]
        for _ in range(39):
            z.append(rng.choice(2, p=true.moves[z[-1]]))
        series.append(rng.normal(true.means[z, 0], np.sqrt(true.variances[z, 0]))[:, None])
    rows = np.empty(30, dtype=object)
    rows[:] = series
    values = [HiddenMarkov(2, max_iter=n).fit(rows).log_density(rows).sum() for n in (1, 3, 10, 30)]
    assert np.all(np.diff(values) > -1e-6 * abs(values[0]))
    assert values[-1] > true.log_density(rows).sum() - 1.0
    fitted = HiddenMarkov(2).fit(rows)
    order = np.argsort(fitted.means[:, 0])
    close(fitted.means[order], true.means, 0.1)
    close(fitted.moves[np.ix_(order, order)], true.moves, 0.1)


# ---------------------------------------------------------------------------------------------- G7
def observed(k, rows):
    """The kernel of the model of the observed columns, for rows that lack the second."""
    model, kept = getattr(k, "model", None), [0, 2]
    if isinstance(model, NormalModel):
        return k.replace(model=NormalModel(MEAN[kept], COVARIANCE[np.ix_(kept, kept)], theta=model.theta))
    if isinstance(model, MixtureModel):
        S = model.covariances[:, :, kept][:, kept] if model.covariances.ndim == 3 else model.covariances[:, kept]
        return k.replace(model=MixtureModel(2, model.covariance_type, model.weights, model.means[:, kept], S))
    return LatentGaussian(2, MEAN[kept], W[kept], NOISE[kept], unit=k.unit)


TWO = MixtureModel(2, "full", [0.4, 0.6], [MEAN, -MEAN], [COVARIANCE, np.eye(3) + 0.2])
DIAGONAL = MixtureModel(2, "diag", [0.4, 0.6], [MEAN, -MEAN], [[1.0, 2.0, 0.5], [0.3, 1.0, 1.0]])


@pytest.mark.parametrize(
    "kernel",
    [DensityProduct(NormalModel(MEAN, COVARIANCE)), MixtureKernel(TWO), MixtureKernel(DIAGONAL, unit=True), LATENT,
     LATENT.replace(unit=True), Fisher(NormalModel(MEAN, COVARIANCE)), Fisher(NormalModel(MEAN, COVARIANCE, theta="both"))],
    ids=repr,
)  # fmt: skip
def test_missing_entries_are_integrated_out(kernel):
    rows = X.copy()
    rows[:, 1] = np.nan
    close(kernel(rows), observed(kernel, rows)(X[:, [0, 2]]), 1e-12)
    for storage in (pd.DataFrame(rows), rows.tolist(), rows.astype(np.float32)):
        close(kernel(storage), kernel(rows), 1e-5 if isinstance(storage, np.ndarray) else 1e-14)


def test_rows_with_different_gaps_meet():
    rows = np.array([[1.0, np.nan, 0.3], [0.2, 0.1, np.nan], [np.nan] * 3])
    kept = [[0, 2], [0, 1], []]
    expected = np.array([[joint_density(rows[i], rows[j], kept[i], kept[j]) if kept[i] or kept[j] else 1.0
                          for j in range(3)] for i in range(3)])  # fmt: skip
    close(LATENT(rows), expected, 1e-13)
    close(MixtureKernel(TWO)(rows[[2]]), [[1.0]], 1e-15)  # nothing is seen: p(x|c) = 1


def test_missing_symbols_are_summed_out():
    model = hidden(3)
    gone, filled = [["a", None, "c"]], [list(f"a{s}c") for s in "abc"]
    others = ["ab", "abca", ""]
    close(SharedPath(model)(gone, others)[0], SharedPath(model)(filled, others).sum(axis=0), 1e-14)
    assert DensityProduct(model)(gone)[0, 0] == pytest.approx(np.exp(model.log_density(filled)).sum() ** 2, rel=1e-12)
    series = gaussian_hidden(3)
    x = np.array([[0.2, np.nan], [0.1, 0.4]])
    seen = HiddenMarkov(2, "gaussian", series.start, series.moves, series.means[:, :1], series.variances[:, :1])
    one = x.copy()
    one[:, 1] = np.nan
    close(SharedPath(series)([one]), SharedPath(seen)([one[:, :1]]), 1e-15)


def test_a_normal_fit_with_gaps_is_the_most_likely_one():
    """Anderson (1957): y is missing in some rows, x in none; the answer goes by the regression of y on x."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(60)
    y = 0.7 * x + 0.5 * rng.standard_normal(60) + 2
    rows = np.column_stack([x, y])
    rows[40:, 1] = np.nan
    slope = np.cov(x[:40], y[:40], bias=True)[0, 1] / x[:40].var()
    mean = y[:40].mean() + slope * (x.mean() - x[:40].mean())
    variance = y[:40].var() + slope**2 * (x.var() - x[:40].var())
    model = NormalModel(ridge=0.0).fit(rows)
    close(model.mean, [x.mean(), mean], 1e-4)
    close(model.covariance, [[x.var(), slope * x.var()], [slope * x.var(), variance]], 1e-3)
    with pytest.raises(ValueError, match="column 1 of X has no observed entry"):
        NormalModel().fit(np.column_stack([x, np.full(60, np.nan)]))


def test_a_diagonal_fit_with_gaps_has_the_moments_of_what_is_seen():
    model = MixtureModel(1, "diag", ridge=0.0, tol=1e-14).fit(GAPS)
    close(model.means[0], np.nanmean(GAPS, axis=0), 1e-6)
    close(model.covariances[0], np.nanvar(GAPS, axis=0), 1e-6)


def test_machines_learn_from_rows_with_gaps():
    rng = np.random.default_rng(0)
    B = blobs(40)
    y = np.repeat([0, 1], 40)
    B[rng.random(B.shape) < 0.2] = np.nan
    model = SVC(kernel=MixtureKernel(MixtureModel(2), unit=True)).fit(B, y)
    assert model.score(B, y) > 0.9
    assert cross_val_score(SVC(kernel=Fisher(NormalModel(theta="both"))), B, y, cv=3).mean() > 0.8
    table = pd.DataFrame(B, columns=["u", "v"]).assign(w=1.0)
    KernelRidge(kernel=MixtureKernel(MixtureModel(2)).on("u", "v") + RBF().on("w")).fit(table, y)
    for kernel in (MixtureKernel() + RBF(), RBF()):  # the Gaussian cannot read a gap
        with pytest.raises(ValueError, match="NaN"):
            kernel(B)
    with pytest.raises(ValueError, match="infinity"):
        MixtureKernel()(np.array([[1.0], [np.inf]]))
    with pytest.raises(ValueError, match="column 'u' of X contains infinity"):
        MixtureKernel()(pd.DataFrame({"u": [1.0, np.inf]}))


# ---------------------------------------------------------------------------------------------- what users bring
def test_resolved_kernels_keep_what_they_learned():
    k = Fisher(MixtureModel(2, tol=0.1), "empirical").resolve(X)
    assert k.model.fitted
    assert not k.model.means.flags.writeable
    assert k.resolve(X[:5]) == k
    close(k(X[:4], X), k(X)[:4], 1e-12)


def sequences_of_numbers():
    return [np.random.default_rng(i).standard_normal((5, 2)) + i % 2 for i in range(6)]


@pytest.mark.parametrize(
    ("kernel", "rows", "who"),
    [
        (MixtureKernel(MixtureModel(3, max_iter=3)), X, "MixtureModel"),
        (Fisher(NormalModel(max_iter=3)), GAPS, "NormalModel"),
        (Fisher(HiddenMarkov(2, max_iter=3), "identity"), sequences_of_numbers(), "HiddenMarkov"),
        (Fisher(DirichletMultinomial(max_iter=3), "identity"), np.round(np.abs(3 * X)), "DirichletMultinomial"),
        (LatentGaussian(2, max_iter=3), X, "factor analysis of LatentGaussian"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_fits_that_end_too_early_say_so(kernel, rows, who):
    with pytest.warns(ConvergenceWarning, match=f"{who} ended at max_iter=3.* raise"):
        kernel.resolve(rows)


def test_features_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr(plan, "available_memory", lambda: 25_000_000)  # 20 MB are given away
    for module in (fisher, models):  # nothing of that size is begun
        monkeypatch.setattr(module, "pseudo_root", lambda F: pytest.fail("the matrix was made"))
    wide = np.random.default_rng(0).standard_normal((70, 150))
    model = NormalModel(np.zeros(150), np.eye(150), theta="both")  # 11475 scores a row
    with pytest.raises(MemoryBudgetError, match=r"information matrix of 11475 parameters needs .*diagonal"):
        Fisher(model)(wide)
    for information in ("diagonal", "empirical"):
        with pytest.raises(MemoryBudgetError, match="11475 features of each of 80 rows"):
            Fisher(model, information)(np.vstack([wide, wide[:10]]))
    with pytest.raises(MemoryBudgetError, match="information matrix of 11475"):
        Fisher(model, "empirical")(wide[:5])
    assert Fisher(model, "diagonal")(wide[:5]).shape == (5, 5)
    with pytest.raises(MemoryBudgetError, match="LatentMonteCarlo: 90000 features of each of 12 rows"):
        LatentMonteCarlo(log_given, 2, 90_000)(X)
    with pytest.raises(MemoryBudgetError, match="a dense form of 4000 sparse rows with 1000 columns"):
        Fisher(MultinomialModel())(sp.random_array((4000, 1000), density=1e-3, random_state=0, format="csr"))


def test_models_are_printed_as_they_are_typed():
    models = [
        MixtureModel(2, "diag", tol=0.1, max_iter=7, random_state=3),
        NormalModel([0.5, 1.0], [[2.0, 0.0], [0.0, 1.0]]),
        MarkovChain(2, "uniform", "ab"),
        HiddenMarkov(2, "discrete", smoothing=0.5, tol=1e-3, random_state=9),
    ]
    for model in models:
        k = Fisher(model, "diagonal")
        assert "..." not in repr(k)
        assert eval(repr(k), vars(kernels)) == k
    assert repr(NormalModel(MEAN, COVARIANCE)) == "NormalModel(mean=[0.5, -0.2, 0.1], covariance=array(3, 3))"


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: DensityProduct(3), TypeError, "score_samples, got int"),
        (lambda: MixtureKernel(NormalModel()), TypeError, "needs a mixture"),
        (lambda: SharedPath(NormalModel()), TypeError, "needs a HiddenMarkov"),
        (lambda: Fisher(information="none"), ValueError, "'exact', 'empirical'"),
        (lambda: Fisher(MixtureModel(2))(X), ValueError, "no closed form; use information='empirical'"),
        (lambda: Fisher(KernelDensity().fit(X), "identity")(X), ValueError, "no scores; use UserModel"),
        (lambda: Fisher(NormalModel(MEAN, COVARIANCE))(X[:, :2]), ValueError, "for 3 columns, but the rows have 2"),
        (lambda: LATENT(X[:, :2]), ValueError, "for 3 columns, but the rows have 2"),
        (lambda: NormalModel([0.0]), ValueError, "needs all of mean, covariance"),
        (lambda: NormalModel([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), ValueError, "positive definite"),
        (lambda: MixtureModel(2, "diag", [0.5, 0.6], [[0.0], [1.0]], [[1.0], [1.0]]), ValueError, "add up to 1"),
        (lambda: MixtureKernel(MixtureModel(20))(X), ValueError, "n_components=20 is more than the 12"),
        (lambda: Fisher(MultinomialModel())(X), ValueError, "reads counts >= 0"),
        (lambda: Fisher(MarkovChain(1), "identity")([3.0, 4.0]), TypeError, "row 0: MarkovChain reads sequences"),
        (lambda: SharedPath(HiddenMarkov(2))(["ab", "c"]), TypeError, "row 0: HiddenMarkov reads arrays"),
        (lambda: SharedPath(hidden(1))(["ab", None]), TypeError, "row 1: HiddenMarkov reads sequences"),
        (lambda: SharedPath(gaussian_hidden(1))([np.zeros((2, 3))]), ValueError, "row 0: .*the sequence has 3"),
        (lambda: ProbabilityProduct("gamma"), ValueError, "expected one of 'gaussian'"),
        (lambda: ProbabilityProduct("hmm", 7.0)([hidden(1), hidden(1, 3)]), ValueError, "row 1: rho=7 .*3 states takes 4"),
        (lambda: ProbabilityProduct("gaussian")([[1.0, 2.0, 3.0]]), TypeError, "row 0: expected a pair"),
        (lambda: ProbabilityProduct("bernoulli")([[0.5], [1.5]]), ValueError, "row 1: .*between 0 and 1"),
        (lambda: ProbabilityProduct("exponential")([[0.5], [0.0]]), ValueError, "row 1: .*above 0"),
        (lambda: ProbabilityProduct("poisson")([[0.5], [1.0, 2.0]]), ValueError, "same number in all rows"),
        (lambda: ProbabilityProduct("poisson")([[0.5], None]), TypeError, "row 1: expected a distribution, got None"),
        (lambda: DensityProduct()(X * 1e300), NanError, "rescale"),
        (lambda: UserModel(3, [1.0]), TypeError, "needs a function"),
        (lambda: DensityProduct(UserModel(lambda r, t: np.full(len(r), np.nan), [0.0]))(X), KernelOutputError, "nan for row 0"),
        (lambda: UserModel(by_deviation), ValueError, r"UserModel\(theta=...\) must be finite numbers, got None"),
        (lambda: UserModel(by_deviation, ["a"]), TypeError, r"UserModel\(theta=...\) must be numbers"),
        (lambda: UserModel(by_deviation, [1.0], "jax"), ValueError, "expected one of .'differences', 'torch'"),
        (lambda: UserModel(by_deviation, [1.0], rows_kind="x"), ValueError, "expected one of .'vectors', 'gaps'"),
        (lambda: UserModel(by_deviation, [0.0, 1.0], information_matrix=[[1.0]]), ValueError, r"\(1, 1\), theta 2"),
        (lambda: Fisher(UserModel(two_values, [0.0]), "identity")(X), KernelOutputError,
         r"the log density two_values returned shape \(12, 2\), expected \(12,\)"),
        (lambda: DensityProduct(UserModel(lambda r, t: "no", [0.0]))(X), KernelOutputError, "returned str, expected an array"),
        (lambda: MixtureKernel(ComponentModel([1.0], two_values_of))(X), KernelOutputError,
         r"log p\(x\|c\) returned shape \(12, 2\), expected \(12, 1\)"),
        (lambda: LatentMonteCarlo(two_values, 1, 5)(X), KernelOutputError, r"log p\(x\|z\) returned shape \(12, 2\)"),
        (lambda: MixtureModel(0), ValueError, r"MixtureModel\(n_components=0\): expected a number >= 1"),
        (lambda: HiddenMarkov(2.5), ValueError, r"HiddenMarkov\(n_states=2.5\): expected a whole number"),
        (lambda: HiddenMarkov(tol=-1.0), ValueError, r"HiddenMarkov\(tol=-1.0\): expected a number >= 0"),
        (lambda: MarkovChain(-1), ValueError, r"MarkovChain\(order=-1\): expected a whole number"),
        (lambda: MarkovChain(1, "even"), ValueError, "expected an array or 'uniform'"),
        (lambda: Fisher(MarkovChain(1), "identity")(["ab", [["c"]]]), TypeError, "row 1: MarkovChain reads symbols such as"),
        (lambda: Fisher(MarkovChain(9), "identity")(["abcdef"]), ValueError, "6.0e[+]07 parameters; use Spectrum"),
        (lambda: SharedPath(HiddenMarkov(2))([np.zeros((2, 1)), None]), TypeError, "row 1: .* got None"),
        (lambda: SharedPath(HiddenMarkov(1))([np.zeros((2, 1)), np.zeros((2, 2))]), ValueError, r"\[1, 2\] columns"),
        (lambda: SharedPath(HiddenMarkov(2))([np.array([[1.0], [np.inf]])]), ValueError, "row 0: .*infinity"),
        (lambda: ProbabilityProduct("hmm")([hidden(1), HiddenMarkov(2)]), TypeError, "row 1: expected a fitted HiddenMarkov"),
        (lambda: ProbabilityProduct("mixture", 1)([3.0]), TypeError, "row 0: .*score_samples, got float"),
        (lambda: ProbabilityProduct("poisson")([[0.5]], [[1.0, 2.0]]), ValueError, "same number in all rows"),
        (lambda: Fisher(MultinomialModel([0.5, 0.5]))([[1.0, 0.0], [1.0, -2.0]]), ValueError, "row 1 has the entry -2"),
        (lambda: ProbabilityProduct("mixture", 1)(
            [([1.0], [[0.0]], [[1.0]]), ([1.0], [[0.0, 0.0]], [[1.0, 1.0]])]), ValueError, "1 and 2 columns"),
        (lambda: HiddenMarkov(1, "gaussian", [1.0], [[1.0]], [[0.0]], [[0.0]]), ValueError, "variances=.... must be > 0"),
        (lambda: HiddenMarkov(2, "gaussian", [0.5, 0.5], [[1.0]], [[0.0]], [[1.0]]), ValueError, "do not fit 2 states"),
        (lambda: HiddenMarkov(1, "discrete", [1.0], [[1.0]], table=[[0.5, 0.5]], symbols="a"), ValueError, "with 1 symbols"),
        (lambda: HiddenMarkov(1, "discrete", [1.0], [[1.0]]), ValueError, "needs all of start, moves, table"),
        (lambda: MixtureModel(1, "diag", [1.0], [[0.0]], [[-1.0]]), ValueError, "positive definite"),
        (lambda: Fisher(NormalModel), TypeError, "got the class NormalModel; write NormalModel"),
        (lambda: MixtureKernel(GaussianMixture(2)), ValueError, "is not fitted; fit it, or use MixtureModel"),
    ],
    ids=range(58),
)  # fmt: skip
def test_mistakes_are_named(build, error, message):
    with pytest.raises(error, match=message):
        build()

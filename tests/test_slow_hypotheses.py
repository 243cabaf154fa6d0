"""How often tests reject a true hypothesis, how often a false one, and tests of many rows. Figures are printed: run with -s."""

import numpy as np
import pytest
from scipy import stats

from mercer import hsic_test, mmd_test
from mercer.kernels import RBF, Spectrum

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RUNS = 1000


def two_samples(seed, n, m, gap=0.0):
    """Two columns from one distribution, with a heavy tail and a point of mass; `gap` moves one of them."""
    rng = np.random.default_rng(seed)
    X, Y = (np.column_stack([rng.standard_t(3, size), np.round(rng.standard_normal(size))]) for size in (n, m))
    return X, Y + gap


def pairs(seed, n, noise=np.inf):
    """Pairs of rows, independent or on a noisy circle."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    if not np.isfinite(noise):
        return np.cos(angle), np.sin(rng.uniform(0, 2 * np.pi, n))
    return np.cos(angle) + noise * rng.standard_normal(n), np.sin(angle) + noise * rng.standard_normal(n)


def words(seed, n, stay=0.5):
    """Words of two letters, each the one before it with this probability."""
    rng = np.random.default_rng(seed)
    changes = np.cumsum(rng.random((n, 20)) > stay, axis=1) % 2
    return ["".join("ab"[c] for c in row) for row in changes]


def rates(name, p_values):
    p_values = np.asarray(p_values)
    rate = (p_values <= 0.05).mean()
    print(f"{name}: rejected at 0.05 in {rate:.3f} of {len(p_values)}, at 0.1 in {(p_values <= 0.1).mean():.3f}")
    return rate


SETTINGS = [
    *[
        ({"method": m, "statistic": s}, 40, 30)
        for m in ("permutation", "gamma", "spectrum")
        for s in ("biased", "unbiased")
    ],
    ({"method": "linear"}, 400, 400),
    ({"method": "block"}, 900, 900),
]


@pytest.mark.parametrize(("settings", "n", "m"), SETTINGS, ids=str)
def test_true_hypotheses_of_two_samples(settings, n, m):
    found = [
        mmd_test(*two_samples(s, n, m), n_permutations=199, random_state=10**6 + s, **settings).p_value
        for s in range(RUNS)
    ]
    assert 0.03 <= rates(f"MMD {settings}", found) <= 0.07


@pytest.mark.parametrize(("settings", "n", "m"), SETTINGS, ids=str)
def test_true_hypotheses_of_independence(settings, n, m):
    found = [
        hsic_test(*pairs(s, n), n_permutations=199, random_state=10**6 + s, **settings).p_value for s in range(RUNS)
    ]
    assert 0.03 <= rates(f"HSIC {settings}", found) <= 0.07


def test_true_hypotheses_with_a_chosen_kernel():
    """The kernel is chosen on other rows, so that the level is kept."""
    widths = [0.1, 0.5, 2.0, 8.0]
    found = [
        mmd_test(*two_samples(s, 60, 60), widths, n_permutations=199, random_state=10**6 + s).p_value
        for s in range(RUNS)
    ]
    assert 0.03 <= rates("MMD, kernel chosen among four", found) <= 0.07
    found = [
        hsic_test(*pairs(s, 60), widths[:3], widths[:3], n_permutations=199, random_state=10**6 + s).p_value
        for s in range(RUNS)
    ]
    assert 0.03 <= rates("HSIC, kernels chosen among nine pairs", found) <= 0.07


def test_true_hypotheses_of_strings():
    found = [
        mmd_test(words(s, 25), words(s + 5000, 20), Spectrum(3), n_permutations=199, random_state=10**6 + s).p_value
        for s in range(RUNS)
    ]
    assert 0.03 <= rates("MMD of strings", found) <= 0.07


def test_p_values_of_permutations_are_uniform():
    for name, found in (
        (
            "MMD",
            [mmd_test(*two_samples(s, 15, 20), n_permutations=99, random_state=10**6 + s).p_value for s in range(2000)],
        ),
        ("HSIC", [hsic_test(*pairs(s, 20), n_permutations=99, random_state=10**6 + s).p_value for s in range(2000)]),
    ):
        counts = np.bincount((np.array(found) * 100 - 1e-9).astype(int) // 5, minlength=20)
        p = stats.chisquare(counts).pvalue
        print(
            f"{name}: p-values in twenty equal parts: {counts.min()} to {counts.max()} of 2000, chi-square p = {p:.2f}"
        )
        assert p > 1e-3


@pytest.mark.parametrize("method", ["permutation", "gamma", "spectrum", "linear", "block"])
def test_power_grows_with_the_rows(method):
    settings = {"method": method, "n_permutations": 199}
    sizes = {"linear": (100, 900, 8100), "block": (100, 400, 1600)}.get(method, (20, 60, 180))
    power = {"MMD": [], "HSIC": []}
    for n in sizes:
        seeds = range(100)
        one = [mmd_test(*two_samples(s, n, n, 0.4), random_state=10**6 + s, **settings).rejected for s in seeds]
        two = [hsic_test(*pairs(s, n, 0.3), random_state=10**6 + s, **settings).rejected for s in seeds]
        power["MMD"].append(np.mean(one))
        power["HSIC"].append(np.mean(two))
    print(f"{method}, {sizes} rows: rejected {power}")
    for name, rate in power.items():
        assert rate[0] <= rate[1] <= rate[2], name
        assert rate[2] > rate[0] + 0.3


def test_the_choice_of_a_kernel_pays():
    """Blobs of a fine structure: the median distance is blind to it, a kernel chosen by the ratio is not."""
    chosen, median = [], []
    for s in range(40):
        rng = np.random.default_rng(s)
        X, Y = (
            8.0 * rng.integers(0, 3, (400, 2)) + rng.standard_normal((400, 2)) * w for w in ([1.0, 1.0], [1.6, 0.5])
        )
        chosen.append(mmd_test(X, Y, [0.25, 1.0, 4.0, 16.0], n_permutations=199, random_state=10**6 + s).rejected)
        median.append(mmd_test(X, Y, n_permutations=199, random_state=10**6 + s).rejected)
    print(f"blobs: rejected with a chosen kernel {np.mean(chosen):.2f}, with the median distance {np.mean(median):.2f}")
    assert np.mean(chosen) > np.mean(median) + 0.3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["linear", "block"])
def test_a_hundred_thousand_rows(method):
    """Memory stays within a budget in which no Gram matrix fits."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((100_000, 5)), rng.standard_normal((100_000, 5))
    same = mmd_test(X, Y, RBF(2.0), method=method, memory="500MB")
    moved = mmd_test(X, Y + 0.2, RBF(2.0), method=method, memory="500MB")
    joint = hsic_test(X, Y, RBF(2.0), RBF(2.0), method=method, memory="500MB")
    tied = hsic_test(X, Y + 0.2 * X, RBF(2.0), RBF(2.0), method=method, memory="500MB")
    print(f"{method}: {same.n_blocks} blocks of {same.block_size}; p = {same.p_value:.3f} and {joint.p_value:.3f} where nothing "
          f"differs, {moved.p_value:.1e} and {tied.p_value:.1e} where something does")  # fmt: skip
    assert min(same.p_value, joint.p_value) > 0.01
    assert max(moved.p_value, tied.p_value) < (0.05 if method == "linear" else 1e-6)

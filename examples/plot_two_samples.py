"""Two samples of DNA
==================

Do two sets of strings come from one source? Both sources use the four letters equally often; only which letter follows
which differs. Left, what MMD² would be without a difference, and what it is. Right, how often the difference is seen,
by the number of strings and by the kernel: pairs of letters see it soon, single letters never.

:Gallery: E8
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import mmd_test
from mercer.kernels import Spectrum
from mercer.plots import NullDistributionDisplay
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

SIZES, RUNS = (10, 20, 40, 80), 30


def strings(n, stay, rng, length=40):
    """n chains of letters: the next is the same with probability `stay`, else one of the other three."""
    steps = np.where(rng.random((n, length)) < stay, 0, rng.integers(1, 4, (n, length)))
    steps[:, 0] = rng.integers(0, 4, n)
    return ["".join("ACGT"[c] for c in row) for row in np.cumsum(steps, axis=1) % 4]


def share(k, n, stay):
    """How often samples of n strings, of letters that stay so often or a quarter of the time, are told apart."""
    kernel, draws = Spectrum(k).normalise(), map(np.random.default_rng, range(RUNS))
    return np.mean([mmd_test(strings(n, 0.25, r), strings(n, stay, r), kernel, method="gamma").rejected for r in draws])


rng = np.random.default_rng(0)
found = mmd_test(strings(120, 0.25, rng), strings(100, 0.35, rng), [Spectrum(k).normalise() for k in (1, 2, 3, 4)])
power = {k: [share(k, n, 0.35) for n in SIZES] for k in (1, 2, 3)}
level = share(2, 40, 0.25)
print(found)
print(f"pairs of letters see a difference where there is none in {level:.0%} of {RUNS} tests, at level 5 %")
assert found.rejected
assert level < 0.2
assert power[2][-1] > 0.9 > 0.3 > power[1][-1]

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
NullDistributionDisplay.from_test(found, ax=axes[0])
for colour, (k, shares) in zip(COLOURS, power.items(), strict=False):
    axes[1].plot(SIZES, shares, "o-", color=colour, label=f"substrings of length {k}")
axes[1].axhline(0.05, color="#888888", linestyle=":", linewidth=1.2, label="level")
axes[1].set(xlabel="strings in each sample", ylabel="share of tests that see it", title="power", xscale="log")
axes[1].set_xticks(SIZES, SIZES, minor=False)
axes[1].set_xticks([], minor=True)
axes[1].legend(frameon=False, fontsize="small", loc="center right")
axes[1].spines[["top", "right"]].set_visible(False)
save_picture(figure, "two_samples")

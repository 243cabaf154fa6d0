"""Do two sets of DNA come from one source? A test of two samples, on strings.

Both sources use the four letters equally often; only which letter follows which differs. Left, what MMD^2 would be if there were
no difference, and what it is. Right, how often the difference is seen, by the number of strings and by the kernel: counts of
single letters see nothing. Run `python examples/plot_two_samples.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import mmd_test
from mercer.kernels import Spectrum
from mercer.plots import NullDistributionDisplay
from mercer.plots.canvas import COLOURS


def strings(n, stay, rng, length=40):
    """n chains of letters: the next is the same with probability `stay`, else one of the other three."""
    steps = np.where(rng.random((n, length)) < stay, 0, rng.integers(1, 4, (n, length)))
    steps[:, 0] = rng.integers(0, 4, n)
    return ["".join("ACGT"[c] for c in row) for row in np.cumsum(steps, axis=1) % 4]


def main(out=Path("out")):
    rng = np.random.default_rng(0)
    X, Y = strings(120, 0.25, rng), strings(100, 0.35, rng)
    found = mmd_test(X, Y, [Spectrum(k).normalise() for k in (1, 2, 3, 4)])
    print(found)
    assert found.rejected
    sizes, runs = (10, 20, 40, 80), 60
    power = {k: [share(Spectrum(k).normalise(), n, 0.35, runs) for n in sizes] for k in (1, 2, 3)}
    level = share(Spectrum(2).normalise(), 40, 0.25, runs)
    print(f"substrings of length 2 see a difference where there is none in {level:.0%} of {runs} tests, at level 5%")
    assert power[2][-1] > 0.9 > 0.3 > power[1][-1]
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    NullDistributionDisplay.from_test(found, ax=axes[0])
    for colour, (k, shares) in zip(COLOURS, power.items(), strict=False):
        axes[1].plot(sizes, shares, "o-", color=colour, label=f"substrings of length {k}")
    axes[1].axhline(0.05, color="#888888", linestyle=":", linewidth=1.2, label="level")
    axes[1].set(xlabel="strings in each sample", ylabel="share of tests that see it", title="power", xscale="log")
    axes[1].set_xticks(sizes, sizes, minor=False)
    axes[1].set_xticks([], minor=True)
    axes[1].legend(frameon=False, fontsize="small", loc="upper left")
    axes[1].spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "two_samples.png", dpi=120)
    print(f"picture: {out / 'two_samples.png'}")


def share(kernel, n, stay, runs):
    """How often samples of n strings, of letters that stay so often or a quarter of the time, are told apart."""
    draws = map(np.random.default_rng, range(runs))
    return np.mean([mmd_test(strings(n, 0.25, r), strings(n, stay, r), kernel, method="gamma").rejected for r in draws])


if __name__ == "__main__":
    main()

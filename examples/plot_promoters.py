"""What a support vector machine sees in DNA: where promoters differ, and which words they have.

Left, the share of each letter at each place of the promoters. Right, the substrings with the largest weights of a machine with
the normalised spectrum kernel. Run `python examples/plot_promoters.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score

from mercer import SVC, top_features
from mercer.datasets import load_promoters
from mercer.kernels import GappedKmer, Spectrum, WeightedDegree
from mercer.plots.canvas import COLOURS


def main(out=Path("out")):
    X, y = load_promoters(return_X_y=True)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    kernels = {
        "substrings of length 4": Spectrum(4).normalise(),
        "4 letters and 2 gaps": GappedKmer(4, 2).normalise(),
        "letters at their places": WeightedDegree(3),
    }
    for name, kernel in kernels.items():
        scores = cross_val_score(SVC(C=10, kernel=kernel), X, y, cv=folds)
        print(f"{name}: accuracy {scores.mean():.3f} over ten folds")
    found = top_features(SVC(C=10, kernel=kernels["substrings of length 4"]).fit(X, y), 16)["1"]
    words, weights = zip(*sorted(found, key=lambda pair: pair[1]), strict=True)

    letters = np.array([list(x) for x, kind in zip(X, y, strict=True) if kind == 1])
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[2, 1])
    for c, letter in enumerate("ACGT"):
        axes[0].plot(
            np.arange(57) - 50, (letters == letter).mean(axis=0), color=COLOURS[c], label=letter, linewidth=1.2
        )
    axes[0].set(
        xlabel="letters from the start of the gene", ylabel="share among promoters", title="letters at their places"
    )
    axes[0].legend(frameon=False, ncols=4, fontsize="small")
    axes[1].barh(range(len(words)), weights, color=[COLOURS[0] if w > 0 else COLOURS[1] for w in weights])
    axes[1].set_yticks(range(len(words)), words, family="monospace", fontsize="small")
    axes[1].set(xlabel="weight", title="words for and against")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "promoters.png", dpi=120)
    print(f"picture: {out / 'promoters.png'}")


if __name__ == "__main__":
    main()

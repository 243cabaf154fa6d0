"""Promoters in DNA
================

What does a machine see in DNA? Of 106 strings half are promoters, where the reading of a gene begins. Kernels of
substrings, with gaps or without, and of letters at their places are right on nineteen of twenty: promoters have
patterns 10 and 35 letters before the gene. The weights of a machine name the substrings that speak for a promoter and
against it.

:Gallery: E5
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score

from mercer import SVC, top_features
from mercer.datasets import load_promoters
from mercer.kernels import GappedKmer, Spectrum, WeightedDegree
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

KERNELS = {
    "substrings of length 4": Spectrum(4).normalise(),
    "4 letters and 2 gaps": GappedKmer(4, 2).normalise(),
    "letters at their places": WeightedDegree(3),
}

X, y = load_promoters(return_X_y=True)
folds = StratifiedKFold(10, shuffle=True, random_state=0)
scores = {name: cross_val_score(SVC(C=10, kernel=k), X, y, cv=folds).mean() for name, k in KERNELS.items()}
print("accuracy over ten folds:", ", ".join(f"{name} {score:.3f}" for name, score in scores.items()))
assert min(scores.values()) > 0.93
found = top_features(SVC(C=10, kernel=KERNELS["substrings of length 4"]).fit(X, y), 16)["1"]
words, weights = zip(*sorted(found, key=lambda pair: pair[1]), strict=True)
print("for a promoter:", ", ".join(words[:-5:-1]))

letters = np.array([list(x) for x, kind in zip(X, y, strict=True) if kind == 1])
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[2, 1])
shares = {letter: (letters == letter).mean(axis=0) for letter in "ACGT"}
for colour, (letter, share) in zip(COLOURS, shares.items(), strict=False):
    axes[0].plot(np.arange(57) - 50, share, color=colour, label=letter, linewidth=1.2)
axes[0].set(
    xlabel="letters from the start of the gene", ylabel="share among promoters", title="letters at their places"
)
axes[0].legend(frameon=False, ncols=4, fontsize="small")
axes[1].barh(range(len(words)), weights, color=[COLOURS[0] if w > 0 else COLOURS[1] for w in weights])
axes[1].set_yticks(range(len(words)), words, family="monospace", fontsize="small")
axes[1].set(xlabel="weight", title="words for and against")
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "promoters")
peaks = np.arange(57)[np.max(list(shares.values()), axis=0) > 0.55] - 50
print("one letter is in more than 55 % of the promoters at", peaks.tolist())
assert {-36, -35, -34, -11, -10} <= set(peaks.tolist())

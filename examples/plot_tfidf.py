"""Cosine and TF-IDF
=================

What do stop words and repeated words do to similarities? Counts see the stop words first: to the cosine of counts,
three of six documents are nearest to one on the other subject. Leaving stop words out mends it, and so does TF-IDF
without a list of them: it weighs a word by how rare it is, and takes the logarithm of its count.

:Gallery: D27
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import BagOfWords, TfIdf
from mercer.plots.gallery import save_picture

TEXTS = [
    "the shell of the nut is the armour of the nut",
    "the nut is sweet and the shell is hard",
    "nut, nut, nut, nut and the taste of a shell",
    "the memory of the machine is the heart of the system",
    "the machine is fast and the memory is old",
    "system, system, system and the speed of a machine",
]
SAME = np.equal.outer(np.arange(6) // 3, np.arange(6) // 3)
KERNELS = {
    "cosine of counts": BagOfWords().normalise(),
    "without stop words": BagOfWords(stop_words="english").normalise(),
    "TF-IDF": TfIdf(),
    "TF-IDF as log(N/(1 + df))": TfIdf(smooth=False),
}

figure, axes = plt.subplots(1, 4, figsize=(12, 3.9), layout="compressed", sharey=True)
contrast, astray = {}, {}
for ax, (name, kernel) in zip(axes, KERNELS.items(), strict=True):
    K = kernel(TEXTS)
    contrast[name] = K[SAME & ~np.eye(6, dtype=bool)].mean() - K[~SAME].mean()
    astray[name] = sum(~SAME[i, j] for i, j in enumerate((K - 2 * np.eye(6)).argmax(axis=1)))
    print(f"{name}: {astray[name]} documents nearest to the other subject; within less between {contrast[name]:+.3f}")
    image = ax.imshow(K, vmin=0, vmax=1, cmap="Greys")
    ax.set_title(f"{name}\ncontrast {contrast[name]:+.2f}, {astray[name]} astray", fontsize="medium")
    ax.set_xticks(range(6), range(1, 7))
    ax.set_xlabel("document")
axes[0].set_yticks(range(6), [f"{subject} {i}" for i, subject in enumerate(["nut"] * 3 + ["machine"] * 3, 1)])
figure.colorbar(image, ax=axes, shrink=0.8, label="similarity")
save_picture(figure, "tfidf")
assert list(astray.values()) == [3, 0, 0, 0]
assert contrast.pop("cosine of counts") < min(contrast.values()) - 0.02

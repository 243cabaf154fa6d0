"""Cosine of counts against TF-IDF: stop words and repeated words (D27).

Documents on two subjects share many stop words. Counts see those first; TF-IDF weighs a word by how rare it is, and repeats
by a logarithm. Run `python examples/plot_tfidf.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import BagOfWords, TfIdf

TEXTS = [
    "the kernel of the nut is in the shell of the nut",
    "the shell of a nut is hard and the nut is sweet",
    "nuts: a nut, another nut, and one more nut, nut, nut",
    "the kernel of the system is in the memory of the machine",
    "the memory of a machine is fast and the system is old",
    "memory, a machine, and the system: system, system, system",
]
GROUPS = np.repeat([0, 1], 3)


def contrast(K):
    """Mean similarity within a subject less that between subjects."""
    same = GROUPS[:, None] == GROUPS
    return K[same & ~np.eye(len(K), dtype=bool)].mean() - K[~same].mean()


def main(out=Path("out")):
    kernels = {
        "cosine of counts": BagOfWords().normalise(),
        "without stop words": BagOfWords(stop_words="english").normalise(),
        "TF-IDF": TfIdf(),
        "TF-IDF as log(N/(1 + df))": TfIdf(smooth=False),
    }
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.9), layout="compressed", sharey=True)
    for ax, (name, kernel) in zip(axes, kernels.items(), strict=True):
        K = kernel(TEXTS)
        print(f"{name}: within less between subjects {contrast(K):+.3f}")
        image = ax.imshow(K, vmin=0, vmax=1, cmap="Greys")
        ax.set_title(f"{name}\ncontrast {contrast(K):+.2f}", fontsize="medium")
        ax.set_xticks(range(6), range(1, 7))
        ax.set_xlabel("document")
    axes[0].set_yticks(range(6), [f"{subject} {i}" for i, subject in enumerate(["nut"] * 3 + ["machine"] * 3, 1)])
    figure.colorbar(image, ax=axes, shrink=0.8, label="similarity")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "tfidf.png", dpi=120)
    print(f"picture: {out / 'tfidf.png'}")


if __name__ == "__main__":
    main()

"""Speakers told apart by one vowel: the Fisher kernel of a hidden Markov model, in kernel principal components.

With MERCER_DATA set the sequences are the Japanese vowels of nine speakers (12 coefficients, 7 to 29 steps); otherwise
they are made: four speakers, each with curves of his own through the same three sounds, spoken at different speeds.
Run `python examples/plot_vowels.py`; the picture is written to out/.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, KernelPCA
from mercer.kernels import Fisher, HiddenMarkov

KERNEL = Fisher(HiddenMarkov(5, ridge=0.05, max_iter=20), "diagonal").normalise()


def made(n_speakers=4, each=40, seed=0):
    """Curves through three sounds, each speaker a little off, each word at its own speed."""
    rng = np.random.default_rng(seed)
    sounds = rng.standard_normal((3, 6))
    voices = sounds + 0.5 * rng.standard_normal((n_speakers, 3, 6))
    X, y = [], np.repeat(np.arange(n_speakers), each)
    for speaker in y:
        t = np.sort(rng.random(rng.integers(8, 25))) * 2
        curve = np.stack([np.interp(t, [0, 1, 2], voices[speaker][:, j]) for j in range(6)], axis=1)
        X.append(curve + 0.35 * rng.standard_normal(curve.shape))
    order = rng.permutation(len(y))
    half = len(y) // 2
    return [X[i] for i in order[:half]], y[order[:half]], [X[i] for i in order[half:]], y[order[half:]]


def recorded(home):
    with np.load(Path(home) / "seq_japanese_vowels.npz") as file:
        parts = [np.split(file[f"values_{p}"], np.cumsum(file[f"lengths_{p}"])[:-1]) for p in ("train", "test")]
        return parts[0], file["y_train"], parts[1], file["y_test"]


def main(out=Path("out")):
    home = os.environ.get("MERCER_DATA")
    X, y, T, t = recorded(home) if home else made()
    model = SVC(C=10, kernel=KERNEL).fit(X, y)
    print(f"{len(X)} sequences to learn from, {len(T)} to test: accuracy {model.score(T, t):.3f}")

    plane = KernelPCA(2, kernel=model.kernel_).fit(X)
    Z = plane.transform(T)
    fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
    ax.scatter(*Z.T, c=t, cmap="tab10", s=14)
    ax.set_title("test sequences, by speaker")
    ax.set_xlabel("first component")
    ax.set_ylabel("second component")
    out.mkdir(parents=True, exist_ok=True)
    fig.savefig(out / "vowels.png", dpi=120)
    print(f"picture: {out / 'vowels.png'}")


if __name__ == "__main__":
    main()

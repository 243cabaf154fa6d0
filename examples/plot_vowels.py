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

KERNEL = Fisher(HiddenMarkov(3), "diagonal").normalise()


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
    accuracy = model.score(T, t)
    print(f"{len(X)} sequences to learn from, {len(T)} to test: accuracy {accuracy:.3f}")

    Z = KernelPCA(2, kernel=model.kernel_).fit(X).transform(T)
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for i, speaker in enumerate(np.unique(y)):
        for x in [x for x, who in zip(X, y, strict=True) if who == speaker][:3]:
            left.plot(x[:, 0], color=f"C{i}", lw=0.8)
        right.scatter(*Z[t == speaker].T, color=f"C{i}", s=12, label=str(speaker))
    left.set(title="three utterances of each speaker", xlabel="step", ylabel="first coefficient")
    right.set(title=f"test utterances, {accuracy:.1%} told right", xlabel="first component", ylabel="second component")
    right.legend(title="speaker", bbox_to_anchor=(1.01, 1.0), loc="upper left", frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    fig.savefig(out / "vowels.png", dpi=120)
    print(f"picture: {out / 'vowels.png'}")


if __name__ == "__main__":
    main()

"""Speakers told apart by one vowel
================================

Can speakers be told apart by how they say one word? Four made speakers have curves of their own through the same three
sounds, spoken at different speeds. A hidden Markov model of all of them gives each utterance a Fisher score, a vector
of one length whatever the utterance's, on which a support vector machine and kernel PCA work. Jaakkola & Haussler
(1999).

:Gallery: E9
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, KernelPCA
from mercer.kernels import Fisher, HiddenMarkov
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

rng = np.random.default_rng(0)
voices = rng.standard_normal((3, 6)) + 0.5 * rng.standard_normal((4, 3, 6))  # a speaker's three sounds of six numbers


def utterance(speaker):
    """A curve through the speaker's sounds, with noise, at a speed of its own."""
    t = np.sort(rng.random(rng.integers(8, 25))) * 2
    curve = np.stack([np.interp(t, [0, 1, 2], voices[speaker][:, j]) for j in range(6)], axis=1)
    return curve + 0.35 * rng.standard_normal(curve.shape)


y = np.arange(160) % 4
X = [utterance(speaker) for speaker in y]
X, X_test, y, y_test = X[:80], X[80:], y[:80], y[80:]
model = SVC(C=10, kernel=Fisher(HiddenMarkov(3), "diagonal").normalise()).fit(X, y)
accuracy = model.score(X_test, y_test)
lengths = {len(x) for x in X}
print(f"utterances of {min(lengths)} to {max(lengths)} steps, 80 to learn from and 80 to test: accuracy {accuracy:.3f}")
assert len(lengths) > 10
assert accuracy > 0.9

Z = KernelPCA(2, kernel=model.kernel_).fit(X).transform(X_test)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for speaker, colour in zip(range(4), COLOURS, strict=False):
    for x in [x for x, who in zip(X, y, strict=True) if who == speaker][:3]:
        left.plot(x[:, 0], color=colour, linewidth=0.8)
    right.scatter(*Z[y_test == speaker].T, color=colour, s=12, label=str(speaker + 1))
left.set(title="three utterances of each speaker", xlabel="step", ylabel="first number")
right.set(title=f"test utterances, {accuracy:.1%} told right", xlabel="first component", ylabel="second component")
right.legend(title="speaker", bbox_to_anchor=(1.01, 1.0), loc="upper left", frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "vowels")

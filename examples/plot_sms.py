"""Short messages, spam or not: which kernel needs fewest of them, and the words that speak for spam.

The messages are made up, and hastily typed: parts of words are still there where words are misspelt. Run
`python examples/plot_sms.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit, learning_curve

from mercer import SVC, top_features
from mercer.kernels import BagOfWords, TfIdf
from mercer.plots.canvas import COLOURS

OPENINGS = ["WINNER!", "Urgent:", "Free entry:", "Congratulations,", "Last chance:", "Claim now:"]
OFFERS = [
    "you won a prize of 500",
    "call now to claim cash",
    "text WIN to 80082",
    "a free ringtone awaits",
    "reply for cash prizes",
]
ENDINGS = ["T&C apply", "cost 50p per text", "stop to end", "only today", "from our partners"]
STARTS = ["Hi,", "Sorry,", "ok,", "Hey you,", "Well,", "Mum says"]
MIDDLES = [
    "can you call me later",
    "I am free at noon today",
    "the text from work is late",
    "see you at the station",
    "did you win the game",
]
CLOSES = ["love you", "see you then", "no rush", "thanks again", "talk soon"]


def messages(n=60, seed=0):
    rng = np.random.default_rng(seed)
    spam = [" ".join(rng.choice(part) for part in (OPENINGS, OFFERS, ENDINGS)) for _ in range(n)]
    ham = [" ".join(rng.choice(part) for part in (STARTS, MIDDLES, CLOSES)) for _ in range(n)]
    texts = np.array(spam + ham, object)
    for i in np.repeat(np.arange(2 * n), 5):  # letters get lost on the way
        at = rng.integers(len(texts[i]))
        texts[i] = texts[i][:at] + texts[i][at + 1 :]
    return texts, np.repeat(["spam", "ham"], n)


def main(out=Path("out")):
    texts, kind = messages()
    splits = StratifiedShuffleSplit(15, test_size=60, random_state=0)
    kernels = {"words": BagOfWords().normalise(), "TF-IDF of words": TfIdf(),
               "TF-IDF of 2 to 4 letters": TfIdf(analyzer="char_wb", ngram_range=(2, 4))}  # fmt: skip
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for c, (name, kernel) in enumerate(kernels.items()):
        sizes, _, scores = learning_curve(SVC(kernel=kernel), texts, kind, cv=splits, train_sizes=[6, 10, 20, 40, 60],
                                          shuffle=True, random_state=0)  # fmt: skip
        wrong = 100 * (1 - scores.mean(axis=1))
        print(f"{name}: {wrong[0]:.1f} % wrong after {sizes[0]} messages, {wrong[-1]:.1f} % after {sizes[-1]}")
        axes[0].plot(sizes, wrong, "o-", color=COLOURS[c], label=name)
    axes[0].set(xlabel="messages learned from", ylabel="% of new messages wrong", ylim=(0, None))
    axes[0].legend(frameon=False)
    found = top_features(SVC(kernel=TfIdf()).fit(texts, kind), 16)["spam"]
    words, weights = zip(*sorted(found, key=lambda pair: pair[1]), strict=True)
    axes[1].barh(range(16), weights, color=[COLOURS[0] if w > 0 else COLOURS[1] for w in weights])
    axes[1].set_yticks(range(16), words, fontsize="small")
    axes[1].set(xlabel="weight", title="words that speak for spam, or against it")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "sms.png", dpi=120)
    print(f"picture: {out / 'sms.png'}")


if __name__ == "__main__":
    main()

"""Short messages, spam or not: TF-IDF of words and of parts of words, and the features that speak for spam.

The messages are made up. Run `python examples/plot_sms.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_predict

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
    for i in rng.choice(2 * n, n, replace=False):  # a letter is lost on the way
        at = rng.integers(len(texts[i]))
        texts[i] = texts[i][:at] + texts[i][at + 1 :]
    return texts, np.repeat(["spam", "ham"], n)


def main(out=Path("out")):
    texts, kind = messages()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    kernels = {"words": BagOfWords().normalise(), "TF-IDF of words": TfIdf(),
               "TF-IDF of 2 to 4 letters": TfIdf(analyzer="char_wb", ngram_range=(2, 4))}  # fmt: skip
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for c, (name, kernel) in enumerate(kernels.items()):
        values = cross_val_predict(SVC(kernel=kernel), texts, kind, cv=folds, method="decision_function")
        print(f"{name}: {np.mean((values > 0) == (kind == 'spam')):.3f} right in five folds")
        for label, style in (("spam", "-"), ("ham", "--")):
            x = np.sort(values[kind == label])
            axes[0].plot(x, np.linspace(0, 1, len(x)), style, color=COLOURS[c], label=f"{name}: {label}")
    axes[0].set(xlabel="value of the machine on messages left out", ylabel="share below")
    axes[0].legend(frameon=False, fontsize="x-small")
    words, weights = zip(*top_features(SVC(kernel=TfIdf()).fit(texts, kind), 16)["spam"][::-1], strict=True)
    axes[1].barh(range(16), weights, color=[COLOURS[0] if w > 0 else COLOURS[1] for w in weights])
    axes[1].set_yticks(range(16), words, fontsize="small")
    axes[1].set(xlabel="weight", title="words that speak for spam")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "sms.png", dpi=120)
    print(f"picture: {out / 'sms.png'}")


if __name__ == "__main__":
    main()

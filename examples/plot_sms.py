"""Short messages, spam or not
===========================

How many messages must a filter read? The messages are made up and hastily typed: letters are missing. Parts of words
are still there where words are misspelt, so TF-IDF of two to four letters needs fewest messages. On the right, the
words that speak for spam, or against it, in a machine on words.

:Gallery: E7
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit, learning_curve

from mercer import SVC, top_features
from mercer.kernels import BagOfWords, TfIdf
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

SPAM = (
    "WINNER! | Urgent: | Free entry: | Congratulations, | Last chance: | Claim now:",
    "you won a prize of 500 | call now to claim cash | text WIN to 80082 | a free ringtone awaits | reply for cash prizes",
    "T&C apply | cost 50p per text | stop to end | only today | from our partners",
)
HAM = (
    "Hi, | Sorry, | ok, | Hey you, | Well, | Mum says",
    "can you call me later | I am free at noon today | the text from work is late | see you at the station | did you win",
    "love you | see you then | no rush | thanks again | talk soon",
)
KERNELS = {"words": BagOfWords().normalise(), "TF-IDF of words": TfIdf(),
           "TF-IDF of 2 to 4 letters": TfIdf(analyzer="char_wb", ngram_range=(2, 4))}  # fmt: skip

rng = np.random.default_rng(0)
texts = np.array(
    [" ".join(rng.choice(part.split(" | ")) for part in kind) for kind in (SPAM, HAM) for _ in range(60)], object
)
kind = np.repeat(["spam", "ham"], 60)
for i in np.repeat(np.arange(120), 5):  # letters get lost on the way
    at = rng.integers(len(texts[i]))
    texts[i] = texts[i][:at] + texts[i][at + 1 :]

splits = StratifiedShuffleSplit(10, test_size=60, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
wrong = {}
for colour, (name, kernel) in zip(COLOURS, KERNELS.items(), strict=False):
    settings = {"cv": splits, "train_sizes": [6, 10, 20, 40, 60], "shuffle": True, "random_state": 0}
    sizes, _, scores = learning_curve(SVC(kernel=kernel), texts, kind, **settings)
    wrong[name] = 100 * (1 - scores.mean(axis=1))
    print(f"{name}: {wrong[name][0]:.1f} % wrong after {sizes[0]} messages, {wrong[name][-1]:.1f} % after {sizes[-1]}")
    axes[0].plot(sizes, wrong[name], "o-", color=colour, label=name)
axes[0].set(xlabel="messages learned from", ylabel="% of new messages wrong", ylim=(0, None))
axes[0].legend(frameon=False)
letters = wrong.pop("TF-IDF of 2 to 4 letters")
assert all((letters < other).all() for other in wrong.values())
assert letters[-1] < 2

found = top_features(SVC(kernel=TfIdf()).fit(texts, kind), 16)["spam"]
words, weights = zip(*sorted(found, key=lambda pair: pair[1]), strict=True)
axes[1].barh(range(16), weights, color=[COLOURS[0] if w > 0 else COLOURS[1] for w in weights])
axes[1].set_yticks(range(16), words, fontsize="small")
axes[1].set(xlabel="weight", title="words that speak for spam, or against it")
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "sms")

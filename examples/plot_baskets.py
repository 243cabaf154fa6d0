"""Market baskets
==============

What do people buy together? Baskets are sets of articles, made here from five habits with a little of everything else.
k-medoids in the Jaccard distance finds a typical basket for each habit and the baskets around it, without any table of
columns.

:Gallery: E1
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from mercer import KMedoids
from mercer.kernels import Jaccard
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

HABITS = [
    ["bread", "milk", "butter", "jam"],
    ["beer", "crisps", "nuts"],
    ["tomatoes", "onions", "pasta", "cheese"],
    ["apples", "bananas", "yoghurt"],
    ["soap", "shampoo", "towels"],
]
ARTICLES = sorted({a for habit in HABITS for a in habit})
rng = np.random.default_rng(0)
habit = rng.integers(len(HABITS), size=300)
baskets = [
    frozenset(
        {a for a in HABITS[h] if rng.random() < 0.75} | {a for a in ARTICLES if rng.random() < 0.03} or {HABITS[h][0]}
    )
    for h in habit
]

shared = [len(baskets[0] & b) / len(baskets[0] | b) for b in baskets]  # what the kernel is
np.testing.assert_allclose(Jaccard()(baskets[:1], baskets)[0], shared)
model = KMedoids(5, kernel=Jaccard(), n_init=3, random_state=0).fit(baskets)
medoids = [baskets[i] for i in model.medoid_indices_]
agreement = adjusted_rand_score(habit, model.labels_)
print(f"agreement with the habits: {agreement:.2f}; typical baskets: {[sorted(m) for m in medoids]}")
assert agreement > 0.8
assert sorted(map(sorted, medoids)) == sorted(map(sorted, HABITS))

figure, axes = plt.subplots(1, 5, figsize=(13, 3.4), layout="constrained", sharex=True)
for c, ax in enumerate(axes):
    mine = [b for b, label in zip(baskets, model.labels_, strict=True) if label == c]
    shares = Counter(a for b in mine for a in b)
    names, counts = zip(*shares.most_common(5)[::-1], strict=True)
    ax.barh(names, 100 * np.array(counts) / len(mine), color=[COLOURS[0] if n in medoids[c] else "0.75" for n in names])
    ax.set(title=f"{len(mine)} baskets", xlabel="% of them hold it")
    ax.spines[["top", "right"]].set_visible(False)
figure.suptitle("blue: the articles of the typical basket", fontsize="medium")
save_picture(figure, "baskets")

"""A mixed record
==============

Can one machine read text, a series, a category and numbers? Each part has a kernel of its own, ``on`` its column, and
their sum is a kernel of the record. Made machines have a log line, a curve of their current, a maker and two readings;
wear shows in each a little. The sum sees more than any part, and a grid search reaches a parameter inside it.

:Gallery: D26
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score

from mercer import SVC, KernelRidge
from mercer.kernels import RBF, Categorical, GlobalAlignment, Spectrum
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

WORDS = {False: ["ok", "quiet", "steady", "cold"], True: ["hum", "heat", "noise", "slow"]}
n, rng = 120, np.random.default_rng(0)
wear = rng.random(n)
tells = rng.random((n, 4)) < 0.25 + 0.5 * wear[:, None]  # what each word of a log line tells
table = pd.DataFrame({
    "log": [" ".join(rng.choice(WORDS[bool(t)]) for t in row) for row in tells],
    "current": [np.sin(np.arange(rng.integers(15, 25)) * (0.5 + 0.4 * w + 0.15 * rng.standard_normal())) for w in wear],
    "maker": np.where(rng.random(n) < 0.2 + 0.6 * wear, "Acme", "Bolt"),
    "age": 10 * wear + 4 * rng.standard_normal(n),
    "load": rng.random(n),
})  # fmt: skip
worn, hours = wear > 0.5, 100 * (1 - wear)
print(table.drop(columns="current").head(3))

parts = {
    "text": Spectrum(3).on("log").normalise(),
    "series": GlobalAlignment(8.0).on("current"),
    "category": Categorical().on("maker"),
    "numbers": RBF(5.0).on("age", "load"),
}
together = parts["text"] + parts["series"] + 0.5 * parts["category"] + parts["numbers"]
scores = {name: cross_val_score(SVC(kernel=k), table, worn, cv=5) for name, k in {**parts, "all": together}.items()}
ridge = KernelRidge(0.3, kernel=together, fit_intercept=True)
search = GridSearchCV(ridge, {"kernel__rbf__lengthscale": [1.0, 5.0]}, cv=3).fit(table, hours)
means = {name: float(s.mean()) for name, s in scores.items()}
print("accuracy:", {name: round(mean, 2) for name, mean in means.items()})
print(f"hours left: R² {search.best_score_:.2f} with {search.best_params_}")

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
spread = [s.std() for s in scores.values()]
ax.bar(list(means), list(means.values()), yerr=spread, color=[*["0.75"] * 4, COLOURS[0]], capsize=3)
ax.axhline(0.5, color="#888888", linestyle=":", linewidth=1)
ax.set(ylim=(0.4, 1.0), ylabel="accuracy, mean and spread of five folds", title="is the machine worn?")
ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "mixed_record")
assert means.pop("all") > max(means.values()) + 0.02
assert min(means.values()) > 0.55
assert search.best_score_ > 0.5

"""A record of several kinds: text, a series, a category and numbers, each read by its own kernel, in one machine (D26).

Made machines have a log line, a curve of their current, a maker and two readings. Wear shows in all of them a little; the sum of
the kernels sees more than any part. A grid search chooses a parameter inside the tree.
Run `python examples/plot_mixed_record.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, cross_val_score

from mercer import SVC, KernelRidge
from mercer.kernels import RBF, Categorical, GlobalAlignment, Spectrum

WORDS = {False: ["ok", "quiet", "steady", "cold"], True: ["hum", "heat", "noise", "slow"]}


def machines(n=120, seed=0):
    """A table of records, whether each is worn, and the hours it will still run."""
    rng = np.random.default_rng(seed)
    wear = rng.random(n)
    tells = rng.random((n, 4)) < 0.25 + 0.5 * wear[:, None]  # what each word of a log line tells
    table = pd.DataFrame({
        "log": [" ".join(rng.choice(WORDS[bool(t)]) for t in row) for row in tells],
        "current": [np.sin(np.arange(rng.integers(15, 25)) * (0.5 + 0.4 * w + 0.15 * rng.standard_normal())) for w in wear],
        "maker": np.where(rng.random(n) < 0.2 + 0.6 * wear, "Acme", "Bolt"),
        "age": 10 * wear + 4 * rng.standard_normal(n),
        "load": rng.random(n),
    })  # fmt: skip
    return table, wear > 0.5, 100 * (1 - wear)


def main(out=Path("out")):
    table, worn, hours = machines()
    parts = {
        "text": Spectrum(3).on("log").normalise(),
        "series": GlobalAlignment(8.0).on("current"),
        "category": Categorical().on("maker"),
        "numbers": RBF(5.0).on("age", "load"),
    }
    together = parts["text"] + parts["series"] + 0.5 * parts["category"] + parts["numbers"]
    scores = {name: cross_val_score(SVC(kernel=k), table, worn, cv=5) for name, k in {**parts, "all": together}.items()}
    ridge = KernelRidge(0.3, kernel=together, fit_intercept=True)
    search = GridSearchCV(ridge, {"kernel__rbf__lengthscale": [1.0, 5.0, 25.0]}, cv=5).fit(table, hours)
    print("accuracy:", {name: round(float(s.mean()), 2) for name, s in scores.items()})
    print(f"hours left: R2 {search.best_score_:.2f} with {search.best_params_}")

    _, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    ax.bar(list(scores), [s.mean() for s in scores.values()], yerr=[s.std() for s in scores.values()], color="0.7")
    ax.set(ylim=(0.4, 1.0), ylabel="accuracy, mean and spread of five folds", title="is the machine worn?")
    out.mkdir(parents=True, exist_ok=True)
    ax.figure.savefig(out / "mixed_record.png", dpi=120)
    print(f"picture: {out / 'mixed_record.png'}")


if __name__ == "__main__":
    main()

"""Which columns matter
====================

Which of ten measurements tell how a disease goes on? Each column has a kernel, and the weights of their sum are learned
with the machine that uses it. Of 442 patients, the sum explains more on held-out rows than the best column alone. Left,
weights by two methods; right, what each column explains alone, and what the learned sum and the uniform average
explain.

:Gallery: E4
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

from mercer import MKLRegressor
from mercer.kernels import RBF, Categorical
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

NAMES = {"bmi": "body mass", "bp": "blood pressure", "s1": "cholesterol", "s2": "LDL", "s3": "HDL", "s4": "cholesterol / HDL",
         "s5": "log triglycerides", "s6": "blood sugar"}  # fmt: skip

data = load_diabetes(as_frame=True)
table, y = data.data.rename(columns=NAMES), data.target
kernels = {c: Categorical().on(c) if c == "sex" else RBF("scale").on(c) for c in table.columns}
settings = {"alpha": 3.0, "cv": KFold(5, shuffle=True, random_state=0)}
models = {m: MKLRegressor(kernels, method=m, **settings).fit(table, y) for m in ("simple", "alignment")}
alone = {c: MKLRegressor({c: k}, **settings).fit(table, y).score_ for c, k in kernels.items()}
learned, uniform = models["simple"].score_, models["simple"].uniform_score_
for method, model in models.items():
    heaviest = [model.names_[i] for i in np.argsort(model.weights_)[:-4:-1]]
    print(f"{method}: R² {model.score_:.3f} on held-out rows, most weight on {', '.join(heaviest)}")
    assert abs(model.weights_.sum() - 1) < 1e-9
    assert {"body mass", "log triglycerides"} <= set(heaviest)
best = max(alone, key=alone.get)
print(f"uniform average: R² {uniform:.3f}; best column alone: {best}, R² {alone[best]:.3f}")
assert learned > alone[best] + 0.1

order = np.argsort([alone[c] for c in kernels])
names, places = [list(kernels)[i] for i in order], np.arange(len(order))
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for shift, colour, (method, model) in zip((0.2, -0.2), COLOURS, models.items(), strict=False):
    axes[0].barh(places + shift, model.weights_[order], height=0.38, color=colour, label=f'"{method}"')
axes[0].set_yticks(places, names)
axes[0].set(xlabel="weight, of sum 1", title="what the sum is made of")
axes[0].legend(frameon=False, loc="lower right")
axes[1].barh(places, [max(alone[n], 0.0) for n in names], height=0.6, color="0.75")
axes[1].axvline(learned, color=COLOURS[0], label=f"all, learned weights: {learned:.2f}")
axes[1].axvline(uniform, color="black", linestyle="--", label=f"all, uniform average: {uniform:.2f}")
axes[1].set(xlabel="$R^2$ on held-out rows", title="what a column explains alone", xlim=(0, 1.15 * learned))
axes[1].legend(frameon=False, loc="lower right", bbox_to_anchor=(0.84, 0.0))
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "mkl")

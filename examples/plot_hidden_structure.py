"""Hidden linear structure
=======================

Where is the equation of a curve among kernel components? It is the last one. On y = 2x² + x³ the feature y - 2x² - x³
has no variance. The cubic kernel (x·y + 1)³ knows nine features of two columns, so eight components have variance; the
ninth, which a little noise makes visible, is the equation. With (x·y)³ there are only cubes, and nothing is found. So
it is with an ellipse.

:Gallery: D14
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA
from mercer.kernels import Polynomial
from mercer.plots import EigenfunctionsDisplay
from mercer.plots.gallery import save_picture


class Last:
    """The last component of a model alone."""

    def __init__(self, model):
        self.model = model

    def transform(self, X):
        return self.model.transform(X)[:, -1:]


x, angle = np.linspace(-1.2, 0.8, 80), np.linspace(0, 2 * np.pi, 80, endpoint=False)
curve = np.column_stack([x, 2 * x**2 + x**3])
ellipse = np.column_stack([np.cos(angle), np.sin(angle) / 2])
CASES = {  # rows, kernel, components without noise and with it, the equation
    "curve, (x·y + 1)³": (curve, Polynomial(3, coef0=1.0), 8, 9, lambda p: p[:, 1] - 2 * p[:, 0] ** 2 - p[:, 0] ** 3),
    "ellipse, (x·y)²": (ellipse, Polynomial(2, coef0=0.0), 2, 3, lambda p: p[:, 0] ** 2 + 4 * p[:, 1] ** 2 - 1),
    "ellipse, (x·y + 1)²": (ellipse, Polynomial(2, coef0=1.0), 4, 5, lambda p: p[:, 0] ** 2 + 4 * p[:, 1] ** 2 - 1),
}

rng = np.random.default_rng(0)
figure, axes = plt.subplots(1, 3, figsize=(12, 3.0), layout="constrained", width_ratios=(1, 1.8, 1.8))
for ax, (name, (X, kernel, rank, full, equation)) in zip(axes, CASES.items(), strict=True):
    assert len(KernelPCA(kernel=kernel).fit(X).eigenvalues_) == rank
    model = KernelPCA(kernel=kernel).fit(X + 1e-5 * rng.standard_normal(X.shape))
    assert len(model.eigenvalues_) == full
    G = rng.uniform(X.min(axis=0), X.max(axis=0), (500, 2))
    alike = abs(np.corrcoef(model.transform(G)[:, -1], equation(G))[0, 1])
    share = model.explained_variance_ratio_[-1]
    print(f"{name}: {rank} components, {full} with noise; the last has {share:.1e} of the variance")
    print(f"    and correlates with the equation by {alike:.6f}")
    assert alike > 0.9999
    assert share < 1e-8
    EigenfunctionsDisplay.from_estimator(Last(model), X, axes=[ax])
    ax.set_title(f"{name}: component {full}")
figure.supxlabel("points: the data; thin line: where the component is 0", fontsize="medium")
save_picture(figure, "hidden_structure")
only = len(KernelPCA(kernel=Polynomial(3, coef0=0.0)).fit(curve).eigenvalues_)
assert only == 4  # all that (x·y)³ knows: none is missing, so none is the equation

"""A hidden linear relation is the last component: of a curve with the cubic kernel, of an ellipse with the quadratic one.

On the curve y = 2 x^2 + x^3 the feature y - 2 x^2 - x^3 has no variance. The cubic kernel (x.y + 1)^3 knows nine features of two
columns, so eight components have variance, and the ninth, which a little noise makes visible, is the equation of the curve.
Run `python examples/plot_hidden_structure.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPCA
from mercer.kernels import Polynomial
from mercer.plots import EigenfunctionsDisplay

NOISE = 1e-5


def curve(n=80):
    x = np.linspace(-1.2, 0.8, n)
    return np.column_stack([x, 2 * x**2 + x**3])


def ellipse(n=80):
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.column_stack([np.cos(t), np.sin(t) / 2])


def main(out=Path("out")):
    rng = np.random.default_rng(0)
    cases = {
        "curve, (x.y + 1)^3": (curve(), Polynomial(3, coef0=1.0)),
        "ellipse, (x.y)^2": (ellipse(), Polynomial(2, coef0=0.0)),
        "ellipse, (x.y + 1)^2": (ellipse(), Polynomial(2, coef0=1.0)),
    }
    fig, axes = plt.subplots(1, len(cases), figsize=(10, 3.4), layout="constrained")
    for ax, (name, (X, kernel)) in zip(axes, cases.items(), strict=True):
        rank = len(KernelPCA(kernel=kernel).fit(X).eigenvalues_)
        model = KernelPCA(kernel=kernel).fit(X + NOISE * rng.standard_normal(X.shape))
        print(f"{name}: {rank} components without noise, {len(model.eigenvalues_)} with it; "
              f"the last has {model.explained_variance_ratio_[-1]:.1e} of the variance")  # fmt: skip
        last = _Last(model)
        EigenfunctionsDisplay.from_estimator(last, X, axes=[ax])
        ax.set_title(f"{name}: component {len(model.eigenvalues_)}")
    out.mkdir(parents=True, exist_ok=True)
    fig.savefig(out / "hidden_structure.png", dpi=120)
    print(f"picture: {out / 'hidden_structure.png'}")


class _Last:
    """The last component of a model alone."""

    def __init__(self, model):
        self.model = model

    def transform(self, X):
        return self.model.transform(X)[:, -1:]


if __name__ == "__main__":
    main()

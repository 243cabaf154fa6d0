"""XOR: no line separates the two classes. Four Gaussian basis functions do, and so does a kernel perceptron.

Run `python examples/plot_xor.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelMachineClassifier, KernelPerceptron
from mercer.kernels import RBF

CORNERS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])


def noisy_xor(n=120, seed=0):
    """Rows around four corners; the class is whether the two signs differ."""
    rng = np.random.default_rng(seed)
    X = CORNERS[rng.integers(0, 4, n)] + 0.35 * rng.standard_normal((n, 2))
    return X, (X[:, 0] * X[:, 1] < 0).astype(int)


def models():
    return {
        "kernel machine, linear": KernelMachineClassifier(centers=CORNERS, kernel="linear"),
        "kernel machine, 4 Gaussians": KernelMachineClassifier(centers=CORNERS, kernel=RBF(1.0), alpha=0.1),
        "kernel perceptron, Gaussian": KernelPerceptron(kernel=RBF(1.0), random_state=0),
    }


def main(out=Path("out")):
    X, y = noisy_xor()
    grid = np.linspace(-2.5, 2.5, 121)
    G = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharey=True)
    for ax, (title, model) in zip(axes, models().items(), strict=True):
        score = model.fit(X, y).score(X, y)
        print(f"{title}: {score:.1%} of the training rows")
        f = model.decision_function(G).reshape(len(grid), -1)
        size = max(np.abs(f).max(), 1e-3)
        ax.contourf(grid, grid, f / size, levels=np.linspace(-1, 1, 21), cmap="RdBu_r", alpha=0.6)
        ax.contour(grid, grid, f, levels=[0], colors="#222222", linewidths=1)
        ax.scatter(*X.T, c=y, cmap="RdBu_r", vmin=-0.2, vmax=1.2, s=12, edgecolors="#222222", linewidths=0.4)
        if hasattr(model, "centers_"):
            ax.plot(*model.centers_.T, "x", color="#222222", label="centres")
            ax.legend(frameon=False, fontsize="small", loc="lower right")
        ax.set_title(f"{title}: {score:.0%}", fontsize="medium")
        ax.set_aspect("equal")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "xor.png", dpi=120)
    print(f"picture: {out / 'xor.png'}")


if __name__ == "__main__":
    main()

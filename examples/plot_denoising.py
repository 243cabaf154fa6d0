"""Digits with noise, and without it again: pre-images of their projections on kernel principal components.

Run `python examples/plot_denoising.py`; the picture is written to out/.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from mercer import KernelPCA
from mercer.kernels import RBF
from mercer.plots import ImageStripDisplay

SD = 0.25  # of the noise; pixels lie between 0 and 1


def main(out=Path("out")):
    digits = load_digits()
    X, T, _, y = train_test_split(
        digits.data / 16, digits.target, test_size=0.3, random_state=0, stratify=digits.target
    )
    noisy = T + SD * np.random.default_rng(0).standard_normal(T.shape)
    linear = PCA(16).fit(X)
    model = KernelPCA(64, kernel=RBF(3.0), fit_inverse_transform=True, alpha=0.01, random_state=0).fit(X)
    found = {"clean": T, "noisy": noisy, "PCA": linear.inverse_transform(linear.transform(noisy))}
    for method in ("fixed_point", "distances", "gradient", "ridge", "candidates"):
        found[method] = model.denoise(noisy, method)
    for name, Z in list(found.items())[1:]:
        print(f"{name:<12} mean squared error a digit {np.square(Z - T).sum(axis=1).mean():.3f}")
    shown = [int(np.flatnonzero(y == c)[0]) for c in range(10)]
    out.mkdir(parents=True, exist_ok=True)
    strip = ImageStripDisplay.from_rows({name: Z[shown] for name, Z in found.items()})
    strip.figure_.savefig(out / "denoising.png", dpi=120)
    print(f"picture: {out / 'denoising.png'}")


if __name__ == "__main__":
    main()

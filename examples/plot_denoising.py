"""Denoising digits
================

Can kernel components take noise off a picture? A noisy digit is projected on components of clean ones, and a picture is
sought whose features are nearest to the projection: its pre-image. All five ways of seeking it end nearer to the clean
digit than sixteen linear components do, and much nearer than the noisy one is. Mika et al. (1999).

:Gallery: D16
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from mercer import KernelPCA
from mercer.kernels import RBF
from mercer.plots import ImageStripDisplay
from mercer.plots.gallery import save_picture

SD = 0.25  # of the noise; pixels lie between 0 and 1

digits = load_digits()
X, T, _, y = train_test_split(
    digits.data / 16, digits.target, train_size=900, test_size=200, random_state=0, stratify=digits.target
)
noisy = T + SD * np.random.default_rng(0).standard_normal(T.shape)
linear = PCA(16).fit(X)
model = KernelPCA(64, kernel=RBF(3.0), fit_inverse_transform=True, alpha=0.01, random_state=0).fit(X)
found = {"clean": T, "noisy": noisy, "PCA": linear.inverse_transform(linear.transform(noisy))}
for method in ("fixed_point", "distances", "gradient", "ridge", "candidates"):
    found[method] = model.denoise(noisy, method)
errors = {name: np.square(Z - T).sum(axis=1).mean() for name, Z in found.items()}
for name, error in errors.items():
    print(f"{name:<12} mean squared error a digit {error:.3f}")

shown = [int(np.flatnonzero(y == c)[0]) for c in range(10)]
strip = ImageStripDisplay.from_rows({f"{name}\n{errors[name]:.2f}": Z[shown] for name, Z in found.items()})
strip.figure_.suptitle("digits, and mean squared errors")
save_picture(strip.figure_, "denoising")
kernel = [errors[name] for name in list(errors)[3:]]
assert len(kernel) == 5
assert max(kernel) < errors["PCA"] < 0.5 * errors["noisy"]

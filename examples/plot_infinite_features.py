"""The features of the Gaussian kernel
===================================

Are there features behind the Gaussian kernel? Yes, infinitely many: exp(-x²/2) times the powers xʲ/√j!, whose products
sum to it. The first few already make a valid kernel, which comes near the Gaussian as their number grows. Cutting off
the series of exp(-(x - y)²/2) itself comes near it too, but is not a kernel: its matrices have negative eigenvalues.

:Gallery: D20
"""

from math import factorial

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import RBF, Constant, Linear
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture


def damped(X):
    return np.exp(-0.5 * np.square(X).sum(axis=1))


def with_features(degree):
    """The kernel of the features up to this degree."""
    powers = [Linear() ** j / factorial(j) for j in range(1, degree + 1)]
    return sum(powers, start=Constant(1.0)).times(damped)


def cut_off(X, Y, degree):
    """The series of exp(-(x - y)²/2) up to this degree: not a kernel."""
    s = -0.5 * (X - Y.T) ** 2
    return sum(s**j / factorial(j) for j in range(degree + 1))


x, at = np.linspace(-3, 3, 121)[:, None], np.array([[1.0]])
gaussian, degrees = RBF(1.0), np.arange(1, 25)
errors = [np.abs(with_features(m)(x) - gaussian(x)).max() for m in degrees]
smallest = np.array([[np.linalg.eigvalsh(K)[0] for K in (with_features(m)(x), cut_off(x, x, m))] for m in degrees])
print("largest error: " + ", ".join(f"{errors[m - 1]:.1e} with degree {m}" for m in (4, 12, 24)))
print(
    f"smallest eigenvalue: {smallest[:, 0].min():.1e} of features, {smallest[5, 1]:.1e} of the series cut off at degree 6"
)
assert (np.diff(errors) < 0).all()
assert errors[-1] < 1e-4
assert smallest[:, 0].min() > -1e-12
assert smallest[:12, 1].max() < -1e-2
F = with_features(6).features(x)
assert F.shape[1] == 7
np.testing.assert_allclose(F @ F.T, with_features(6)(x), atol=1e-12)

figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
for colour, m in zip(COLOURS, (1, 3, 6, 12), strict=False):
    axes[0].plot(x, with_features(m)(x, at), color=colour, label=f"degree {m}")
    axes[1].plot(x, cut_off(x, at, m), color=colour, label=f"degree {m}")
for ax, title in zip(axes, ("features up to a degree", "the series cut off: not a kernel"), strict=False):
    ax.plot(x, gaussian(x, at), "--", color="#222222", linewidth=1.2, label="Gaussian")
    ax.set(title=title, xlabel="x", ylabel="k(x, 1)", ylim=(-1.1, 1.3))
axes[0].legend(frameon=False, fontsize="small", loc="lower left")
axes[2].semilogy(degrees, errors, "o-", color=COLOURS[0], markersize=4, label="features: largest error")
axes[2].semilogy(
    degrees[:12], -smallest[:12, 1], "s-", color=COLOURS[1], markersize=4, label="series: -smallest eigenvalue"
)
axes[2].set(xlabel="degree", title="error, and lack of validity")
axes[2].legend(frameon=False, fontsize="small")
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "infinite_features")

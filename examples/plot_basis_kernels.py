"""Kernels from basis functions
============================

What kernel belongs to a set of basis functions? The sum of their products, k(x, y) = Σ φ(x) φ(y): a matrix of it is
positive semi-definite and has as many non-zero eigenvalues as there are functions. Bumps make a kernel that is largest
where the two points meet. With powers it is largest at an end, and with steps to the right of both points. Bishop
(2006), figure 6.1.

:Gallery: D1
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import Basis
from mercer.plots.canvas import COLOURS
from mercer.plots.gallery import save_picture

CENTRES, PLACES = np.linspace(-1, 1, 11), (-0.5, 0.0)
KERNELS = {
    "powers": Basis.polynomials(degree=10),
    "Gaussian bumps": Basis.gaussians(CENTRES, 0.2),
    "sigmoid steps": Basis.sigmoids(CENTRES, 0.1),
}
X = np.linspace(-1, 1, 401)[:, None]

figure, axes = plt.subplots(2, 3, figsize=(10, 5), layout="constrained", sharex=True)
for (top, bottom), (name, kernel) in zip(axes.T, KERNELS.items(), strict=True):
    phi, K = kernel.features(X), kernel(X)
    rank = np.linalg.matrix_rank(K)
    peaks = [X[kernel(X, [[place]]).argmax(), 0] for place in PLACES]
    print(f"{name}: {phi.shape[1]} functions, rank {rank}, largest at {peaks[0]:+.2f} for x' = {PLACES[0]}")
    assert phi.shape[1] == rank == 11
    np.testing.assert_allclose(K, phi @ phi.T, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    if name == "Gaussian bumps":
        np.testing.assert_allclose(peaks, PLACES, atol=0.02)
    else:
        assert peaks[0] == (-1 if name == "powers" else 1)
    top.plot(X, phi, color=COLOURS[0], linewidth=0.9)
    top.set_title(f"{phi.shape[1]} {name}")
    for colour, place in zip(COLOURS, PLACES, strict=False):
        bottom.plot(X, kernel(X, [[place]]), color=colour, label=f"x' = {place:g}")
        bottom.plot([place], kernel([[place]], [[place]])[0], "o", color=colour)
    bottom.set(title="k(x, x') as a function of x", xlabel="x", ylim=(min(0, bottom.get_ylim()[0]), None))
    bottom.legend(frameon=False, fontsize="small")
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)
save_picture(figure, "basis_kernels")

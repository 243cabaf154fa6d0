"""Reading digits by a table
=========================

Can digits be told apart by loops, joints, corners and ink? Not all: 6 and 9 have the same features, so they are the
same point. Their kernel distance is 0, whatever the kernel, and no machine can tell them apart by this table. All other
pairs have a distance.

:Gallery: D25
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import RBF, Laplacian, Polynomial
from mercer.plots.gallery import save_picture

FEATURES = ("loops", "joints", "corners", "ink")
#: Loops; points where three or more lines meet; corners; length of the lines, to half the height of a digit.
TABLE = np.array(
    [
        [1, 0, 0, 5],  # 0
        [0, 0, 1, 2],  # 1
        [0, 0, 1, 4],  # 2
        [0, 1, 0, 4],  # 3
        [1, 1, 2, 4],  # 4
        [0, 0, 2, 4],  # 5
        [1, 1, 0, 4],  # 6
        [0, 0, 1, 3],  # 7
        [2, 1, 0, 6],  # 8
        [1, 1, 0, 4],  # 9: a 6 upside down
    ],
    dtype=float,
)

for kernel in (Laplacian(1.0), Polynomial(3), RBF(1.5)):
    D = kernel.distance(TABLE)
    same = [(int(a), int(b)) for a, b in np.argwhere(np.triu(D == 0, 1))]
    print(f"{kernel}: at distance 0", ", ".join(f"{a} and {b}" for a, b in same))
    assert same == [(6, 9)]
    assert np.sort(D[np.triu_indices(10, 1)])[1] > 0.3

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained", width_ratios=(1, 1.6))
left.imshow(TABLE / TABLE.max(axis=0), cmap="Blues", vmax=1.6, aspect="auto")
for (row, column), value in np.ndenumerate(TABLE):
    left.text(column, row, int(value), ha="center", va="center")
left.set(xticks=range(4), xticklabels=FEATURES, yticks=range(10), ylabel="digit", title="features")
picture = right.imshow(D, cmap="viridis")
for a, b in [*same, *((b, a) for a, b in same)]:
    right.text(b, a, "0", color="w", ha="center", va="center")
right.set(xticks=range(10), yticks=range(10), xlabel="digit", ylabel="digit", title="distance in feature space")
figure.colorbar(picture, label="kernel distance")
save_picture(figure, "digits_table")

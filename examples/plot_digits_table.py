"""Reading digits by a table: loops, joints, corners and ink of each digit, and the kernel distances that follow.

Digits with the same features are the same point: their kernel distance is 0, and no machine can tell them apart by this table.
Run `python examples/plot_digits_table.py`; the picture is written to out/.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer.kernels import RBF

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


def draw_table(axes):
    """The features of the digits, as numbers."""
    axes.imshow(TABLE / TABLE.max(axis=0), cmap="Blues", vmax=1.6, aspect="auto")
    for (row, column), value in np.ndenumerate(TABLE):
        axes.text(column, row, int(value), ha="center", va="center")
    axes.set(xticks=range(4), xticklabels=FEATURES, yticks=range(10), ylabel="digit", title="features")


def draw_distances(axes, D, same):
    """Kernel distances of all pairs; those of digits with the same features are written in."""
    picture = axes.imshow(D, cmap="viridis")
    axes.set(xticks=range(10), yticks=range(10), xlabel="digit", ylabel="digit", title="distance in feature space")
    for a, b in same:
        axes.text(b, a, "0", color="w", ha="center", va="center")
        axes.text(a, b, "0", color="w", ha="center", va="center")
    axes.figure.colorbar(picture, label="kernel distance")


def main(out=Path("out")):
    kernel = RBF(1.5)
    D = kernel.distance(TABLE)
    print("digit  " + "  ".join(FEATURES))
    for digit, row in enumerate(TABLE):
        print(f"{digit:5d}  " + "  ".join(f"{int(v):{len(name)}d}" for name, v in zip(FEATURES, row, strict=True)))
    same = [(int(a), int(b)) for a, b in np.argwhere(np.triu(D == 0, 1))]
    print("at distance 0:", ", ".join(f"{a} and {b}" for a, b in same))

    out.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained", width_ratios=(1, 1.6))
    draw_table(axes[0])
    draw_distances(axes[1], D, same)
    figure.savefig(out / "digits_table.png", dpi=120)
    print(f"picture: {out / 'digits_table.png'}")


if __name__ == "__main__":
    main()

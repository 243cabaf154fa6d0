"""Pictures of several machines on one problem: errors against numbers of vectors, and times."""

import numpy as np

from mercer.plots.canvas import COLOURS, axes_for, pale

__all__ = ["ComparisonDisplay"]

_PLACES = [
    (7, 0),
    (-7, 0),
    (0, 9),
    (0, -9),
    (7, 9),
    (-7, 9),
    (7, -9),
    (-7, -9),
    (0, 20),
    (0, -20),
]  # names, from their points


class ComparisonDisplay:
    """Two pictures of machines on one problem. On the left errors (m,) over vectors (m,), named; on the right seconds.

    vectors : None for models that store none, which are not on the left. fit, predict : seconds (m,). ylabel : of the errors.
    """

    def __init__(self, names, errors, vectors, fit, predict, ylabel="error"):
        lists = {"names": names, "errors": errors, "vectors": vectors, "fit": fit, "predict": predict}
        if len({len(values) for values in lists.values()}) != 1 or not len(names):
            sizes = ", ".join(f"{name} {len(values)}" for name, values in lists.items())
            raise ValueError(f"there must be one entry for each machine, got {sizes}")
        self.names, self.vectors, self.ylabel = list(names), list(vectors), ylabel
        self.errors, self.fit, self.predict = (np.asarray(values, float) for values in (errors, fit, predict))

    @classmethod
    def from_comparison(cls, comparison, *, axes=None):
        """Plot what `mercer.compare_machines` found; machines that failed are left out."""
        good = [r for r in comparison.results if r.failure is None]
        ylabel = "share of wrong classes" if comparison.task == "classification" else "root mean squared error"
        columns = ("name", "error", "n_vectors", "fit_seconds", "predict_seconds")
        return cls(*([getattr(r, c) for r in good] for c in columns), ylabel=ylabel).plot(axes)

    def plot(self, axes=None) -> "ComparisonDisplay":
        """Draw both pictures, on two axes of yours or on new ones."""
        self.axes_ = axes_for(2, 2, (4.6, 3.6), axes)
        self.figure_ = self.axes_[0].figure
        self._bars(self.axes_[1])
        self._points(self.axes_[0])
        for ax in self.axes_:
            ax.spines[["top", "right"]].set_visible(False)
        return self

    def _bars(self, ax):
        y = np.arange(len(self.names))
        for values, move, share, label in ((self.fit, -0.19, 1.0, "fit"), (self.predict, 0.19, 0.45, "predict")):
            colours = [pale(_colour(j), share) for j in y]
            ax.barh(y + move, np.maximum(values, 1e-6), height=0.36, color=colours)
            for j in y:
                ax.annotate(label, (max(values[j], 1e-6), j + move), (3, 0), textcoords="offset points", va="center",
                            fontsize="x-small", color="#555555")  # fmt: skip
        ax.set(xscale="log", yticks=y, yticklabels=self.names, xlabel="seconds", title="time")
        ax.invert_yaxis()
        ax.margins(x=0.12)

    def _points(self, ax):
        shown = [j for j, v in enumerate(self.vectors) if v is not None]
        for j in shown:
            ax.plot([max(self.vectors[j], 1)], [self.errors[j]], "o", color=_colour(j), markersize=8)
        ax.set(xscale="log", xlabel="stored vectors", ylabel=self.ylabel, title="error and size")
        ax.margins(x=0.25)
        ax.set_ylim(0.0, max(1.25 * self.errors[shown].max(), 1e-12) if shown else 1.0)
        self.figure_.canvas.draw()  # places of names are known only when the axes have their sizes
        taken: list = []
        for j in shown:
            _named(ax, self.names[j], (max(self.vectors[j], 1), self.errors[j]), _colour(j), taken)


def _named(ax, name, at, colour, taken):
    """A name beside its point, where it meets no other name or point."""
    best = None
    for move in _PLACES:
        side = {0: "center", 7: "left", -7: "right"}[move[0]]
        text = ax.annotate(
            name, at, move, textcoords="offset points", ha=side, va="center", color=colour, fontsize="small"
        )
        box = text.get_window_extent()
        meets = sum(box.overlaps(other) for other in taken) + sum(box.contains(*p) for p in _places(ax))
        if best is None or meets < best[0]:
            if best is not None:
                best[1].remove()
            best = meets, text, box
        else:
            text.remove()
        if best[0] == 0:
            break
    taken.append(best[2])


def _places(ax):
    """Points of the picture in pixels."""
    return [ax.transData.transform(line.get_xydata()[0]) for line in ax.lines]


def _colour(j):
    return COLOURS[j % len(COLOURS)]

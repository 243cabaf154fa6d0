"""The pictures of a report."""

import numpy as np

from mercer.report.html import Element
from mercer.report.style import SHADE
from mercer.report.svg import Axis, Plot, picture, png, rows_axis, shortened

__all__ = [
    "calibration",
    "class_name",
    "confusion",
    "fitted",
    "gram_map",
    "lengthscales",
    "number",
    "residual_histogram",
    "residuals",
    "scores_chart",
    "spectrum",
    "target_chart",
    "timings_chart",
    "with_interval",
]

_CLASSES = 20  # of a table of counts
_BARS = 30
_LINE = 23.0  # height of a named row


def number(value, digits: int = 4) -> str:
    """A number for people; a dash for what is not known."""
    if value is None or isinstance(value, str):
        return "–" if value is None else value
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(value)
    return f"{value:.{digits}g}" if not np.isnan(value) else "–"


def with_interval(score) -> tuple[str, str]:
    """A score and its interval in words, with as many digits as the interval gives a meaning."""
    value, low, high = (float(part) for part in score)
    width = high - low
    if not (np.isfinite(width) and width > 0):
        return number(value), f"({number(low)} to {number(high)})"
    places = int(np.clip(1 - np.floor(np.log10(width)), 0, 8))
    value, low, high = (round(part, places) + 0.0 for part in (value, low, high))  # no -0.00
    return f"{value:.{places}f}", f"({low:.{places}f} to {high:.{places}f})"


def class_name(value, classes):
    """The name of a class that a code stands for."""
    known = classes is not None and isinstance(value, (int, np.integer)) and 0 <= value < len(classes)
    return classes[value] if known else value


# ---------------------------------------------------------------------------------------------- scores and seconds
def scores_chart(key, name, ours, baselines) -> Element:
    """One score of the model and of the baselines, with intervals. ours : (value, low, high); baselines : name -> the same."""
    rows = {"this model": ours, **baselines}
    ends, size = np.array([list(row) for row in rows.values()], float), (330.0, 40.0 + 26.0 * len(rows))
    plot = Plot(Axis.around(ends), rows_axis(len(rows)), size=size, room=(0.0, 14.0, 12.0, 26.0), names=list(rows))
    for i, (value, low, high) in enumerate(ends):
        kind = "" if i == 0 else "plain "
        plot.line([low, high], [i, i], f"{kind}range").dots([value], [i], f"{kind}big")
    told = "; ".join(f"{shortened(row, 40)} {' '.join(with_interval(score))}" for row, score in rows.items())
    return picture(key, name[:1].upper() + name[1:], f"Values with 95 % intervals: {told}.", plot)


def timings_chart(timings) -> Element:
    """Seconds by stage."""
    seconds = np.array([float(s) for s in timings.values()])
    plot = _named_bars(list(timings), seconds, "seconds", [number(s, 3) for s in seconds])
    told = ", ".join(f"{shortened(name, 40)} {number(s, 3)} s" for name, s in zip(timings, seconds, strict=True))
    return picture("timings", "Time by stage", f"Seconds: {told}.", plot, f"{number(seconds.sum(), 3)} s in all")


def _named_bars(names, values, label, told, *, axis=None):
    """A bar for each name, with its number at the end."""
    m = len(names)
    axis = axis or Axis(0.0, 1.18 * (float(values.max(initial=0.0)) or 1.0), label)
    plot = Plot(axis, rows_axis(m), size=(420.0, 54.0 + _LINE * m), names=names)
    for i, value in enumerate(values):
        end = value if np.isfinite(value) else axis.low
        plot.bars([axis.low], [end], [i + 0.32], [i - 0.32]).text(end, i, told[i], "count", (5, 4))
    return plot


# ---------------------------------------------------------------------------------------------- regression
def fitted(y, f) -> Element:
    """Observed against predicted."""
    both = np.concatenate([y, f])
    plot = Plot(Axis.around(both, "predicted"), Axis.around(both, "observed")).rule(slope=1).dots(f, y)
    varied = np.std(y) > 0 and np.std(f) > 0
    told = f"The correlation is {number(np.corrcoef(y, f)[0, 1], 3)}. " if varied else ""
    description = f"{told}{len(y)} test rows; on the dashed line both are equal."
    return picture("fitted", "Observed and predicted", description, plot, "On the dashed line the prediction is right")


def residuals(y, f) -> Element:
    """Residuals against predictions."""
    r = y - f
    plot = (
        Plot(Axis.around(f, "predicted"), Axis.around(r, "observed - predicted", include=[0.0])).rule(y=0.0).dots(f, r)
    )
    told = f"mean {number(r.mean(), 3)}, standard deviation {number(r.std(), 3)}"
    description = f"Residuals of {len(y)} test rows lie between {number(r.min())} and {number(r.max())}; {told}."
    return picture("residuals", "Residuals", description, plot, told[0].upper() + told[1:])


def residual_histogram(y, f) -> Element:
    """How often residuals of each size are."""
    r = y - f
    counts, edges = np.histogram(r, bins=_bins(len(r)))
    plot = _histogram(counts, edges, "observed - predicted", "test rows").rule(x=0.0)
    low, high = np.quantile(r, [0.05, 0.95])
    told = f"Nine of ten residuals lie between {number(low, 3)} and {number(high, 3)}"
    return picture("residual-histogram", "Sizes of residuals", f"{told}.", plot, told)


def _bins(n):
    return int(np.clip(round(2 * n ** (1 / 3)), 5, 40))


def _histogram(counts, edges, xlabel, ylabel):
    top = Axis(0.0, max(1.08 * float(counts.max(initial=0)), 1.0), ylabel)
    plot = Plot(Axis.around(edges, xlabel, room=0.02), top)
    gap = 0.06 * (edges[1] - edges[0])
    return plot.bars(edges[:-1] + gap, edges[1:] - gap, np.zeros(len(counts)), counts)


# ---------------------------------------------------------------------------------------------- classification
def confusion(y, f, classes) -> Element:
    """How often each class was taken for each; of more than 20 classes, the 20 that are most frequent."""
    count = len(classes)
    table = np.zeros((count, count), int)
    np.add.at(table, (y, f), 1)
    shown = np.sort(np.argsort(-table.sum(axis=1), kind="stable")[:_CLASSES])
    plot = _counts(table[np.ix_(shown, shown)], table.sum(axis=1)[shown], [classes[i] for i in shown])
    left = f", of the {len(shown)} most frequent of {count} classes" if len(shown) < count else ""
    told = f"Table of counts{left}: rows are true classes, columns are predicted ones. {np.trace(table)} of {len(y)} are right."
    caption = f"Rows are what is true, columns what was predicted{left}; shades are shares of a row"
    return picture("confusion", "Classes and predictions", told, plot, caption)


def _counts(table, total, names):
    m = len(names)
    size = (420.0, 62.0 + min(300.0 / m, 84.0) * m)
    plot = Plot(Axis(-0.5, m - 0.5, "predicted"), rows_axis(m), size=size, names=names, blank=True)
    for i, j in np.ndindex(m, m):
        plot.cell((j - 0.49, j + 0.49, i - 0.49, i + 0.49), SHADE * table[i, j] / max(total[i], 1))
        if table[i, j] or m <= 10:
            plot.text(j, i, str(table[i, j]), "count mid", (0, 4))
    letters = max(int((plot.right - plot.left) / m / 7.0), 2)
    for j, name in enumerate(names):
        plot.text(j, m - 0.5, shortened(name, letters), "mid", (0, 15))
    return plot


def calibration(y, probability, classes) -> list[Element]:
    """What was called so likely came true how often, and how many rows were called so.

    Of two classes the probability is of the second, of more it is of the class that was thought the likeliest.
    """
    p, came, what = _called(y, probability, classes)
    place = np.clip((p * 10).astype(int), 0, 9)
    counts = np.bincount(place, minlength=10)
    used = counts > 0
    said, true = (np.bincount(place, weights=w, minlength=10)[used] / counts[used] for w in (p, came))
    plot = Plot(Axis(-0.03, 1.03, what), Axis(-0.03, 1.03, "share that came true")).rule(slope=1)
    plot.line(said, true).dots(said, true, "big")
    told = "; ".join(f"{a:.2f} came true {b:.2f} ({c} rows)" for a, b, c in zip(said, true, counts[used], strict=True))
    bars = _histogram(counts, np.linspace(0, 1, 11), what, "test rows")
    listed = f"Counts by tenths of probability: {', '.join(map(str, counts))}."
    caption = "On the dashed line chances are as told"
    return [picture("calibration", "Calibration", f"Rows called so likely: {told}.", plot, caption),
            picture("calibration-counts", "How sure it was", listed, bars, "A point of few rows says little")]  # fmt: skip


def _called(y, probability, classes):
    if probability.shape[1] == 2:
        return probability[:, 1], y == 1, f"probability of {shortened(classes[1], 20)}"
    return probability.max(axis=1), y == probability.argmax(axis=1), "probability of the likeliest class"


def target_chart(y, task, classes) -> Element:
    """What the targets of the training rows are."""
    if task == "regression":
        y = np.asarray(y, float)
        counts, edges = np.histogram(y, bins=_bins(len(y)))
        told = f"{len(y)} training rows; mean {number(y.mean())}, standard deviation {number(y.std())}"
        return picture(
            "target", "Targets to learn from", f"{told}.", _histogram(counts, edges, "target", "training rows"), told
        )
    values, counts = np.unique(np.asarray(y), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_BARS]
    names, counts = [class_name(values[i], classes) for i in order], counts[order]
    left = f"; the {len(order)} largest of {len(values)} classes" if len(order) < len(values) else ""
    listed = ", ".join(f"{shortened(name, 40)} {c}" for name, c in zip(names, counts, strict=True))
    plot = _named_bars(names, counts.astype(float), "training rows", counts.tolist())
    return picture(
        "target", "Classes to learn from", f"Training rows{left}: {listed}.", plot, f"{len(y)} training rows{left}"
    )


# ---------------------------------------------------------------------------------------------- kernel
def lengthscales(key, title, names, values) -> Element:
    """Lengthscales of columns, shortest first, on a logarithmic axis; an infinite one switches its column off."""
    values = np.asarray(values, float)
    order = np.argsort(values, kind="stable")[:_BARS]
    names, shown = [names[i] for i in order], values[order]
    around = Axis.around(shown, log=True, room=0.12)
    axis = Axis(
        around.low, around.high * (around.high / around.low) ** 0.15, "lengthscale", log=True
    )  # room for numbers
    told = [number(value, 3) if np.isfinite(value) else "off" for value in shown]
    left = f"; the {len(order)} shortest of {len(values)}" if len(order) < len(values) else ""
    listed = ", ".join(f"{shortened(name, 40)} {t}" for name, t in zip(names, told, strict=True))
    caption = f"The shorter, the more a prediction changes along the column, in units of the model's inputs{left}"
    return picture(
        key, title, f"Lengthscales{left}: {listed}.", _named_bars(names, shown, "", told, axis=axis), caption
    )


def gram_map(part) -> Element:
    """The entries of the Gram matrix of some rows, sorted by target."""
    m, low, high = len(part.K), float(np.nanmin(part.K)), float(np.nanmax(part.K))
    plot = Plot(Axis(0.0, 1.0), Axis(0.0, 1.0), size=(420.0, 400.0), room=(10.0, 10.0, 0.0, 0.0), blank=True)
    plot.image(png(part.K, low, high))
    some = f"{m} of {part.n} training rows" if m < part.n else f"All {m} training rows"
    told = f"{some}, sorted by target; dark is {number(low, 3)}, light is {number(high, 3)}"
    return picture("gram", "Gram matrix", f"Kernel values. {told}.", plot, told)


def spectrum(part, alpha=None) -> Element:
    """Eigenvalues of the same rows, on a logarithmic axis; those that are zero up to rounding are counted, not drawn."""
    values, m = part.values, len(part.values)
    shown = np.abs(values) > part.tolerance
    axis = Axis.around(np.abs(values[shown]), "eigenvalue", log=True, include=[alpha] if alpha else ())
    plot = Plot(Axis(0.0, m + 1.0, "number"), axis)
    for kind, mine in (("dots", shown & (values > 0)), ("other dots", shown & (values < 0))):
        plot.dots(np.flatnonzero(mine) + 1, np.abs(values[mine]), kind)
    words = _of_spectrum(values, shown)
    if alpha:
        plot.rule(y=alpha)
        kept = np.maximum(values, 0.0)
        dimension = number(float((kept / (kept + alpha)).sum()), 3)
        words.append(f"effective dimension {dimension} at the penalty {number(alpha, 3)} (dashed)")
    told = "; ".join(words)
    description = f"From {number(values[0])} down to {number(values[-1])}; {told}."
    return picture("spectrum", "Eigenvalues of the same rows", description, plot, told)


def _of_spectrum(values, shown):
    m, total = len(values), np.cumsum(np.maximum(values, 0.0))
    most = int(np.searchsorted(total, 0.95 * total[-1])) + 1 if total[-1] > 0 else 0
    words = [f"{most} of {m} hold 95 % of the sum"]
    zero, below = int((~shown).sum()), int((shown & (values < 0)).sum())
    words += [f"{zero} are zero up to rounding and not drawn"] if zero else []
    return words + ([f"{below} are below zero (their size, in orange): the kernel is indefinite"] if below else [])

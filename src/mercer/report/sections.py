"""The sections of a report: each gives elements, or none where there is nothing to say."""

import math
import re
from typing import Any

import numpy as np

from mercer.kernels import Kernel
from mercer.report import figures
from mercer.report.figures import class_name, number, with_interval
from mercer.report.formula import leaf_formulas
from mercer.report.html import Element, cut, el
from mercer.report.rows import cells, gram_part, influence, machine_of

__all__ = ["SECTIONS", "header"]

_COLUMNS, _CANDIDATES, _VALUES, _TOLD = 200, 60, 12, 50  # lines of tables, columns of rows, notes: at most
_FOLDED = 15  # lines of a table that is open at first, at most
_LONG = 4000  # characters of a kernel or a plan
_SCORES = {"rmse": "root mean squared error", "mae": "mean absolute error", "r2": "R²", "accuracy": "accuracy",
           "balanced_accuracy": "balanced accuracy", "log_loss": "log loss"}  # fmt: skip
_EXACT = {"residual_": "relative residual of the linear system", "dual_gap_": "duality gap", "jitter_": "added to the diagonal",
          "landmark_error_": "share of the trace that landmarks leave out"}  # fmt: skip


def header(study) -> list[Element]:
    """The title, what was done, and how well it went."""
    n, m, machine = len(study.y_train), len(study.y_test), type(machine_of(study.model)[0]).__name__
    target = el("b", {}, cut(study.target, 60))
    lead = el(
        "p",
        {"class": "lead"},
        "A ",
        study.task,
        " of ",
        target,
        f" by {machine}: {n} rows to learn from, {m} to test on.",
    )
    answers = [el("li", {}, el("b", {}, with_interval(score)[0]), el("span", {}, _score(name), el("br"), _interval(score)))
               for name, score in list(study.scores.items())[:4]]  # fmt: skip
    return [el("h1", {}, cut(study.title or "Study", 120)), lead, el("ul", {"class": "answer"}, answers)]


def _interval(score):
    return f"95 % {with_interval(score)[1]}"


def _score(name):
    return _SCORES.get(name) or cut(str(name).replace("_", " "), 40)


# ---------------------------------------------------------------------------------------------- tables
def table(caption, head, rows, *, words=(0,), own=()) -> list[Element]:
    """A table in a box that scrolls by itself. words : columns of words, the others are numbers. own : rows to stress."""
    kinds = [None if j in words else "n" for j in range(len(head))]
    top = el("tr", {}, [el("th", {"scope": "col", "class": kind}, h) for h, kind in zip(head, kinds, strict=True)])
    body = [el("tr", {"class": "own" if i in own else None}, _line(row, kinds)) for i, row in enumerate(rows)]
    inside = el("table", {"aria-label": caption}, el("thead", {}, top), el("tbody", {}, body))
    box = el("div", {"class": "wide", "tabindex": "0", "role": "region", "aria-label": caption}, inside)
    return [el("p", {"class": "note"}, caption), box]


def _line(row, kinds):
    first, *others = (_shown(value) for value in row)
    return [
        el("th", {"scope": "row"}, first),
        [el("td", {"class": k}, v) for v, k in zip(others, kinds[1:], strict=True)],
    ]


def _shown(value):
    if isinstance(value, Element):
        return value
    if value is None:
        return "–"
    return cut(number(value) if isinstance(value, (float, np.floating)) else value, 60)


def _figures(*found, small=False):
    return el("div", {"class": "figures small" if small else "figures"}, list(found))


def _folded(summary, *children):
    return el("details", {}, el("summary", {}, summary), children)


# ---------------------------------------------------------------------------------------------- how well
def scores(study) -> list:
    charts = []
    for i, (name, ours) in enumerate(study.scores.items()):
        others = {base: given[name] for base, given in study.baselines.items() if name in given}
        charts.append(figures.scores_chart(f"score-{i}", _SCORES.get(name, str(name)[:60]), ours, others))
    lines = {"this model": study.scores, **study.baselines}
    rows = [[cut(line), *(_whole(given.get(name)) for name in study.scores)] for line, given in lines.items()]
    words = "Values on the test rows, which took no part in any choice, with 95 % intervals."
    return [_figures(charts, small=True), table(words, ["", *map(_score, study.scores)], rows, own={0})]


def _whole(score):
    return "–" if score is None else " ".join(with_interval(score))


def predictions(study) -> list:
    y, f = np.asarray(study.y_test), np.asarray(study.predicted)
    if study.task == "regression":
        y, f = y.astype(float), f.astype(float)
        return [_figures(figures.fitted(y, f), figures.residuals(y, f), figures.residual_histogram(y, f))]
    found = [figures.confusion(y, f, study.classes)]
    if study.probability is not None:
        found += figures.calibration(y, np.asarray(study.probability, float), study.classes)
    return [_figures(found)]


# ---------------------------------------------------------------------------------------------- what it learned from, and how
def data(study) -> list:
    rows = [[cut(c["name"]), cut(c.get("kind")), *(c.get(k) for k in ("missing", "levels", "low", "high"))]
            for c in study.columns[:_COLUMNS]]  # fmt: skip
    more = f", the first {_COLUMNS}" if len(study.columns) > _COLUMNS else ""
    caption = f"{len(study.columns)} columns{more}, and what is in them."
    listed = table(caption, ["column", "kind", "missing", "levels", "from", "to"], rows, words=(0, 1))
    listed = _folded(f"All {len(study.columns)} columns{more}", listed) if len(rows) > _FOLDED else listed
    return [_figures(figures.target_chart(study.y_train, study.task, study.classes)), listed]


def kernel(study) -> list:
    written = study.kernel if isinstance(study.kernel, str) else repr(study.kernel)
    short = re.sub(r"\d+\.\d{5,}(e[-+]?\d+)?", lambda found: f"{float(found[0]):.5g}", written[:_LONG])
    found = [el("pre", {"class": "kernel"}, el("code", {}, short)),
             _folded("With all digits", el("pre", {}, el("code", {}, _long(written)))) if short != written else None,
             el("p", {}, el("b", {}, "Certificate. "), cut(study.certificate, 600))]  # fmt: skip
    for name, parts in leaf_formulas(study.kernel):
        found += [el("h3", {}, cut(name)), parts]
    charts = [figures.lengthscales(f"lengthscales-{i}", *parts) for i, parts in enumerate(_many_lengthscales(study))]
    return [found, _figures(charts) if charts else None, _parameters(study.kernel)]


def _many_lengthscales(study):
    """Title, names of columns and values of each parameter that has one lengthscale for each column."""
    if not isinstance(study.kernel, Kernel):
        return
    for name, value in study.kernel.get_params().items():
        if name.split("__")[-1] == "lengthscale" and np.ndim(value) == 1 and len(value) > 1:
            known = list(study.names) if len(study.names) == len(value) else [f"column {j}" for j in range(len(value))]
            yield ("Lengthscales" if "__" not in name else f"Lengthscales: {name[:60]}"), known, value


def _parameters(found):
    if not isinstance(found, Kernel):
        return None
    rows = [
        [cut(name), value]
        for name, value in found.get_params().items()
        if isinstance(value, (int, float, str, np.number))
    ]
    return table("Parameters that were chosen or given.", ["parameter", "value"], rows[:_TOLD]) if rows else None


def gram(study) -> list:
    part = gram_part(study)
    if part is None:
        return [el("p", {}, "The model has no kernel object, so there is no Gram matrix to show.")]
    machine = machine_of(study.model)[0]
    alpha: Any = getattr(machine, "alpha_", getattr(machine, "alpha", None))
    ridge = hasattr(machine, "degrees_of_freedom") and isinstance(alpha, (int, float)) and alpha > 0
    charts = figures.gram_map(part), figures.spectrum(part, float(alpha) if ridge and len(part.K) == part.n else None)
    words = "Light entries are pairs of rows that the kernel calls alike; blocks on the diagonal are groups with like targets."
    return [el("p", {}, words), _figures(*charts)]


def rows(study) -> list:
    found = influence(study)
    if found is None or not len(found.index):
        return [el("p", {}, "This model is no sum over training rows, so no row can be singled out.")]
    values, y = cells(study.X_train, found.index), np.asarray(study.y_train)
    names = _value_names(study, max(map(len, values)))
    residuals = [[]] * len(values) if found.residuals is None else [[float(r)] for r in found.residuals]
    head = ["row", "influence", study.target, *(["left-out residual"] if residuals[0] else []), *names[:_VALUES]]
    lines = [[int(i), float(size), class_name(y[i], study.classes), *more, *row[:_VALUES]]
             for i, size, more, row in zip(found.index, found.sizes, residuals, values, strict=True)]  # fmt: skip
    some = f"The first {_VALUES} of {len(names)} columns" if len(names) > _VALUES else "Values"
    words = f"Rows are numbered from 0 in the order of the training rows. Influence is {found.how}."
    caption = f"The {len(lines)} most influential training rows. {some}, as the model is given them."
    return [el("p", {}, words), table(caption, [cut(h, 24) for h in head], lines, words=_of_words(lines))]


def _of_words(lines):
    """Columns of a table that hold text."""
    return [j for j in range(len(lines[0])) if j == 0 or any(isinstance(line[j], str) for line in lines)]


def _value_names(study, width):
    if len(study.names) == width:
        return list(study.names)
    return [f"column {j}" for j in range(width)]


# ---------------------------------------------------------------------------------------------- how it was made
def search(study) -> list:
    if not study.candidates:
        return []
    names = list(dict.fromkeys(name for c in study.candidates for name in c))
    lines = [[c.get(name) for name in names] for c in study.candidates[:_CANDIDATES]]
    more = f"; the first {_CANDIDATES} are shown" if len(study.candidates) > _CANDIDATES else ""
    listed = table("What was tried.", [cut(name) for name in names], lines, words=_of_words(lines))
    return [_folded(f"{len(study.candidates)} settings were tried{more}", listed) if len(lines) > _FOLDED else listed]


def approximations(study) -> list:
    told = [el("li", {}, cut(note, 600)) for note in study.approximations[:_TOLD]]
    none = "None: all training rows took part, and nothing stands in for them."
    exact = [(label, value) for name, label in _EXACT.items() if (value := _largest(study, name)) is not None]
    pairs = [[el("dt", {}, label), el("dd", {}, number(value, 3))] for label, value in exact]
    return [el("ul", {"class": "told"}, told) if told else el("p", {}, none), el("dl", {}, pairs) if pairs else None]


def _largest(study, name):
    """The largest entry of a fitted number or array, None where there is none."""
    found = getattr(machine_of(study.model)[0], name, None)
    if found is None or np.size(found) == 0:
        return None
    value = float(np.max(np.abs(np.asarray(found, float))))
    return value if math.isfinite(value) else None


def plan(study) -> list:
    found: list = [el("pre", {}, el("code", {}, _lines(study.plan)))] if study.plan else []
    if study.timings:
        found.append(_figures(figures.timings_chart(dict(list(study.timings.items())[:_TOLD]))))
    report = getattr(machine_of(study.model)[0], "size_report", None)
    return [*found, el("p", {}, f"The fitted model: {report()}.") if report is not None else None]


def made(study) -> list:
    pairs = [("seed", study.seed), *study.versions.items()][:_TOLD]
    return [el("dl", {}, [[el("dt", {}, cut(name)), el("dd", {}, cut(value, 80))] for name, value in pairs])]


def _long(text):
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text)} characters)"


def _lines(text):
    """Text with its line breaks, which are the only hidden characters that may stay."""
    lines = _long(str(text)).split("\n")[:100]
    return [part for line in lines for part in (line, el("br"))][:-1]


#: Key, heading and maker of each section, in the order of the page.
SECTIONS = [
    ("scores", "Scores", scores),
    ("predictions", "Predictions on the test rows", predictions),
    ("data", "Data", data),
    ("kernel", "Kernel", kernel),
    ("similarity", "What the kernel sees", gram),
    ("influential", "Most influential rows", rows),
    ("search", "Search", search),
    ("approximations", "What was approximated", approximations),
    ("plan", "Plan and time", plan),
    ("made", "How it was made", made),
]

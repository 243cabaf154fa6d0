"""A study from a table: prepare, choose, fit, test."""

import platform
from collections.abc import Callable
from importlib import metadata
from typing import NamedTuple

from mercer._version import __version__
from mercer.cli.baselines import baselines
from mercer.cli.prepare import Choices, prepare
from mercer.cli.search import MODELS, Clock, Search
from mercer.cli.tables import Sheet
from mercer.cli.words import shown
from mercer.errors import TableError
from mercer.estimators.table_model import TableModel
from mercer.kernels import Kernel
from mercer.random import generator
from mercer.report.intervals import scores
from mercer.report.study import Study

__all__ = ["Made", "make_study"]


class Made(NamedTuple):
    """The study, the model with its columns, and notes on what was done to the rows."""

    study: Study
    model: TableModel
    notes: list[str]


def make_study(sheet: Sheet, test: Sheet | None, choices: Choices, *, title="", kernel: Kernel | None = None, model="auto",
               seconds=120.0, seed=0, tell: Callable[[str, float], None] = lambda *_: None) -> Made:  # fmt: skip
    """Choose, fit and test a model for a table, of which some rows, or another table, are held out.

    kernel : None for what the kinds of the columns suggest. model : "auto" or a word of `MODELS`. seconds : for search and
    fit, about. tell : called with words and the share of the search that is done.
    """
    clock, rng = Clock(seconds), generator(seed)
    named = kernel is not None and any(isinstance(c, str) for c in kernel.columns)
    prepared = prepare(sheet, test, choices, rng, named)
    _check_model(model, prepared.task)
    clock.stage("prepare")
    search = Search(prepared, model, clock, rng, tell)
    search.warm_up()
    clock.stage("compile")
    clock.begin()
    found = search.best(kernel)
    clock.stage("search")
    machine = search.fitted(found)
    clock.stage("fit")
    chosen = machine.kernel_ if search.model == "gp" else found.kernel
    study = Study(title=title, seed=seed, versions=_versions(), **_about(prepared), **_chosen(found, chosen, machine, prepared),
                  **_tested(prepared, machine, seed, clock), timings=clock.stages)  # fmt: skip
    return Made(study, _with_columns(machine, prepared, study.scores), prepared.notes)


def _about(p):
    classes = None if p.classes is None else list(p.classes)
    return {"task": p.task, "columns": p.columns, "target": p.target, "classes": classes, "names": p.names,
            "X_train": p.X, "y_train": p.y, "X_test": p.X_test, "y_test": p.y_test}  # fmt: skip


def _chosen(found, kernel, machine, prepared):
    candidates = [{**c, "kernel": repr(c["kernel"])} for c in found.candidates]
    return {"kernel": kernel, "certificate": str(kernel.validity), "plan": _plan(kernel, prepared), "model": machine,
            "candidates": candidates, "approximations": found.approximations}  # fmt: skip


def _tested(p, machine, seed, clock):
    predicted = machine.predict(p.X_test)
    probability = machine.predict_proba(p.X_test) if hasattr(machine, "predict_proba") else None
    reached = scores(p.task, p.y_test, predicted, probability, seed)
    clock.stage("test")
    simple = baselines(p, seed)
    clock.stage("baselines")
    return {"predicted": predicted, "probability": probability, "scores": reached, "baselines": simple}


def _with_columns(machine, p, reached) -> TableModel:
    return TableModel(machine, p.task, p.target, p.codings, p.layout, p.classes, p.scales, dict(reached))


def _check_model(model, task):
    if model != "auto" and model not in MODELS[task]:
        raise TableError(f"--model {shown(model)} is none for a {task}; choose one of {', '.join(MODELS[task])}")


def _plan(kernel, prepared) -> str:
    return str(kernel.gram(prepared.X).explain())


def _versions():
    names = ("numpy", "scipy", "scikit-learn", "numba")
    return {
        "python": platform.python_version(),
        "mercer": __version__,
        **{name: metadata.version(name) for name in names},
    }

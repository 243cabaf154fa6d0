"""From a file's columns to rows and targets: which task, which kind each column is, which rows are held out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.cli.tables import Sheet, written
from mercer.cli.words import listed, nearest, shown
from mercer.errors import TableError
from mercer.estimators.table_model import Coding, laid_out

__all__ = ["Choices", "Prepared", "column_values", "known_targets", "prepare", "target_values"]

MOST_LEVELS = 30  # of a whole-number target that is a class, each with FEWEST_EACH rows at least
FEWEST_EACH = 5
MOST_CATEGORIES = 50  # texts with more values than this are texts
FEWEST_ROWS = 10
LONG_CATEGORY = 40  # characters


@dataclass(frozen=True)
class Choices:
    """What a user said about the columns."""

    target: str | None = None
    task: str = "auto"
    category: Sequence[str] = ()
    text: Sequence[str] = ()
    drop: Sequence[str] = ()
    test_size: float = 0.2


@dataclass
class Prepared:
    """Rows as an estimator reads them, targets, and how they came to be.

    columns : for each raw column its name, kind, missing values, levels and range. notes : what a user should be told.
    """

    task: str
    target: str
    classes: tuple | None
    codings: tuple
    layout: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    names: list[str]
    columns: list[dict]
    scales: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)


def prepare(sheet: Sheet, test: Sheet | None, choices: Choices, rng: np.random.Generator, named=False) -> Prepared:
    """Training and test rows of a file, or of two. named: whether columns keep their names, for kernels that choose some."""
    target = find_target(sheet, choices.target)
    notes: list[str] = []
    sheet = known_targets(sheet, target, notes)
    task, classes, y = _task(sheet, target, choices.task)
    if choices.task == "auto" and classes is not None and len(classes) > 2 and sheet.columns[target].dtype != object:
        notes.append(f"{len(classes)} whole numbers are taken as classes; --task regression predicts the number")
    kinds = {} if sheet.matrix is not None else column_kinds(sheet, target, choices, notes)
    columns = [_described(name, kind, sheet) for name, kind in kinds.items()] or _described_matrix(sheet)
    if test is None:
        training, held = _split(y, task, choices.test_size, rng)
        sheet, test, y, y_test = sheet.take(training), sheet.take(held), y[training], y[held]
    else:
        test = known_targets(test, target, [])
        y_test = target_values(test, target, classes)
    if len(np.unique(y)) < 2:
        raise TableError(f'all training rows have the same target "{shown(target)}"; there is nothing to learn')
    made = _laid_out(sheet, test, kinds, named)
    return Prepared(task, target, classes, y=y, y_test=y_test, columns=columns, notes=notes, **made)


# ------------------------------------------------------------------------------------------------ the target
def find_target(sheet: Sheet, name: str | None) -> str:
    if name is None:
        if "y" in sheet.columns:
            return "y"
        raise TableError(f"which column is predicted? say it with --target; there are {listed(sheet.columns)}")
    if name not in sheet.columns:
        hint = nearest(name, sheet.columns) or f"; there are {listed(sheet.columns)}"
        raise TableError(f'there is no column "{shown(name)}"{hint}')
    return name


def known_targets(sheet: Sheet, target: str, notes: list[str]) -> Sheet:
    """The rows whose target is known."""
    if target in sheet.mixed:
        raise TableError(_said_of_mixed(target, sheet) + "; a target is either numbers or names")
    gone = _missing(sheet.columns[find_target(sheet, target)])
    if gone.mean() > 0.5:
        raise TableError(
            f'the target "{shown(target)}" is missing in {gone.sum()} of {len(gone)} rows; most must be known'
        )
    if gone.any():
        notes.append(f"{gone.sum()} rows without a target were left out")
    return sheet.take(np.flatnonzero(~gone)) if gone.any() else sheet


def _missing(column):
    return np.array([v is None for v in column]) if column.dtype == object else np.isnan(column)


def _task(sheet, target, wanted) -> tuple[str, tuple | None, np.ndarray]:
    """The task, the names of the classes, and targets as numbers or as places among the classes."""
    column = sheet.columns[target]
    levels, counts = np.unique(column.astype(str) if column.dtype == object else column, return_counts=True)
    if len(levels) == 1:
        raise TableError(f'the target "{shown(target)}" is {shown(levels[0])} in all rows; there is nothing to learn')
    if len(column) < FEWEST_ROWS:
        raise TableError(f"{len(column)} rows with a target; at least {FEWEST_ROWS} are needed")
    if wanted == "regression" and column.dtype == object:
        raise TableError(
            f'the target "{shown(target)}" holds texts such as {shown(column[0])}; a regression needs numbers'
        )
    if wanted == "regression" or (wanted == "auto" and not _are_classes(column, levels, counts)):
        return "regression", None, column.astype(float)
    if len(levels) > max(2, len(column) // 2):
        raise TableError(f'the target "{shown(target)}" has {len(levels)} values in {len(column)} rows; classes repeat'
                         + ("" if column.dtype == object else "; for numbers use --task regression"))  # fmt: skip
    classes = tuple(levels.tolist()) if column.dtype == object else tuple(written(v) for v in levels.tolist())
    return "classification", classes, target_values(sheet, target, classes)


def _are_classes(column, levels, counts):
    """Texts, two values, or few whole numbers of which each is there several times."""
    if column.dtype == object or len(levels) == 2:
        return True
    whole = bool((levels == np.floor(levels)).all())
    return whole and len(levels) <= MOST_LEVELS and int(counts.min()) >= FEWEST_EACH


def target_values(sheet: Sheet, target: str, classes: tuple | None) -> np.ndarray:
    """Targets as numbers, or as places among the classes."""
    column = sheet.columns[find_target(sheet, target)]
    if classes is None:
        if column.dtype == object:
            raise TableError(f'the target "{shown(target)}" holds texts here; the model predicts numbers')
        return column
    places = {name: i for i, name in enumerate(classes)}
    values = sheet.as_text(target)
    strange = next((v for v in values if v not in places), None)
    if strange is not None:
        raise TableError(
            f'the target "{shown(target)}" is {shown(strange)} in a row; the classes are {listed(classes)}'
        )
    return np.array([places[v] for v in values], dtype=int)


# ------------------------------------------------------------------------------------------------ the columns
def column_kinds(sheet: Sheet, target: str, choices: Choices, notes: list[str]) -> dict[str, str]:
    """Kind of each column that is used."""
    names = [name for name in sheet.columns if name != target]
    said = {what: _named(getattr(choices, what), names, f"--{what}") for what in ("category", "text", "drop")}
    kinds = {}
    for name in names:
        if name in said["drop"]:
            continue
        kind = next((what for what in ("category", "text") if name in said[what]), None) or _kind(name, sheet, notes)
        if kind is not None:
            kinds[name] = kind
    if not kinds:
        raise TableError("no column is left to predict from")
    return kinds


def _named(chosen, names, option):
    if "*" in chosen:
        return set(names)
    for name in chosen:
        if name not in names:
            raise TableError(f'{option}: there is no column "{shown(name)}"{nearest(name, names)}')
    return set(chosen)


def _kind(name, sheet, notes):
    """Kind of one column by its values; None for one that tells nothing, which is noted."""
    column = sheet.columns[name]
    if name in sheet.mixed and sheet.mixed[name][0] >= sheet.mixed[name][1]:
        raise TableError(_said_of_mixed(name, sheet) + ". Mend it, say what stands for a missing value (--missing WORD), or "
                         f'take it as words (--category "{shown(name)}"), or leave it out (--drop)')  # fmt: skip
    there = column[~_missing(column)]
    levels = len(set(there.tolist()))
    if levels <= 1 and len(there) in (0, len(column)):
        notes.append(
            f'the column "{shown(name)}" is {"empty" if levels == 0 else "the same in all rows"} and was left out'
        )
        return None
    if column.dtype != object:
        return "numeric"
    lengths = [len(v) for v in there]
    if levels <= min(MOST_CATEGORIES, len(there) / 2) and max(lengths) <= LONG_CATEGORY:
        return "category"
    if levels == len(there) and max(lengths) < 16 and not any(" " in v for v in there):
        notes.append(f'the column "{shown(name)}" names each row and was left out; --text "{shown(name)}" keeps it')
        return None
    return "text"


def _said_of_mixed(name, sheet):
    numbers, texts, line, value = sheet.mixed[name]
    return f'the column "{shown(name)}" holds {numbers} numbers and {texts} texts, the first in line {line}: {shown(value)}'


def _described(name, kind, sheet):
    column = sheet.columns[name]
    gone = _missing(column)
    there = column[~gone]
    numeric = kind == "numeric"
    low, high = (float(there.min()), float(there.max())) if numeric else (None, None)
    levels = None if numeric else len(set(there.tolist()))
    return {"name": name, "kind": kind, "missing": int(gone.sum()), "levels": levels, "low": low, "high": high}


def _described_matrix(sheet):
    X = sheet.matrix
    name = f"{X.shape[1]} sparse columns"
    low, high = (float(min(X.data.min(), 0.0)), float(max(X.data.max(), 0.0))) if X.nnz else (0.0, 0.0)
    return [{"name": name, "kind": "numeric", "missing": 0, "levels": None, "low": low, "high": high}]


# ------------------------------------------------------------------------------------------------ rows
def _split(y, task, share, rng):
    """Rows to train on and rows held out, of each class alike; a class of one row is trained on."""
    n = len(y)
    groups = [np.flatnonzero(y == c) for c in np.unique(y)] if task == "classification" else [np.arange(n)]
    held = [rng.permutation(g)[: round(share * len(g)) if len(g) > 1 else 0] for g in groups]
    held = np.sort(np.concatenate(held))
    if not len(held):
        raise TableError(f"{n} rows leave none to test on; give more rows, or --test FILE")
    return np.setdiff1d(np.arange(n), held), held


def _laid_out(sheet, test, kinds, named):
    if sheet.matrix is not None:
        return _sparse(sheet, test)
    codings = tuple(Coding.learned(name, kind, column_values(sheet, name, kind)) for name, kind in kinds.items())
    coded, coded_test = ({k: v for c in codings for k, v in c.coded(column_values(s, c.name, c.kind)).items()}
                         for s in (sheet, test))  # fmt: skip
    found = set(kinds.values())
    layout = "matrix" if found == {"numeric"} else "text" if list(kinds.values()) == ["text"] else "table"
    layout = "table" if named else layout
    X, X_test = laid_out(coded, layout), laid_out(coded_test, layout)
    return {"codings": codings, "layout": layout, "X": X, "X_test": X_test, "names": list(coded)}


def _sparse(sheet, test):
    """Columns in units of their largest entry: a centre would fill the zeros."""
    from mercer.estimators.table_model import _scaled

    if test.matrix is None:
        raise TableError("the rows to test on are no sparse matrix, those to train on are")
    scales = np.maximum(abs(sheet.matrix).max(axis=0).toarray().ravel(), 0.0)
    scales[scales == 0] = 1.0
    names = [f"x{j}" for j in range(len(scales))]
    X, X_test = _scaled(sheet.matrix, scales), _scaled(test.matrix, scales)
    return {"codings": (), "layout": "sparse", "X": X, "X_test": X_test, "names": names, "scales": scales}


def column_values(sheet: Sheet, name: str, kind: str) -> np.ndarray:
    """Raw values of a column of a known kind, in a file that may be another one than that of the fit."""
    if name not in sheet.columns:
        raise TableError(
            f'the model reads the column "{shown(name)}", which is not there{nearest(name, sheet.columns)}'
        )
    column = sheet.columns[name]
    if kind != "numeric":
        return sheet.as_text(name)
    if name in sheet.mixed:
        raise TableError(_said_of_mixed(name, sheet) + "; the model reads numbers there")
    if column.dtype == object and any(v is not None for v in column):
        raise TableError(f'the column "{shown(name)}" holds texts; the model reads numbers there')
    return column if column.dtype != object else np.full(len(column), np.nan)


def coded_rows(sheet: Sheet, choices: Choices, named: bool):
    """All columns of a file as a kernel reads them, where there is no target."""
    kinds = {} if sheet.matrix is not None else column_kinds(sheet, "y" if "y" in sheet.columns else "", choices, [])
    return _laid_out(sheet, sheet, kinds, named)["X"]

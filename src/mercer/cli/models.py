"""Reading model files for the verbs that use one."""

from pathlib import Path

import numpy as np

from mercer.cli.prepare import column_values
from mercer.cli.tables import Sheet
from mercer.cli.words import shown
from mercer.errors import ModelFileError
from mercer.estimators.table_model import TableModel
from mercer.persist import load

__all__ = ["check_is_no_pickle", "in_order", "raw_columns", "read_model"]


def read_model(path: str) -> TableModel:
    """A model of a table, as `mercer fit` writes it."""
    check_is_no_pickle(path)
    model = load(path)
    if not isinstance(model, TableModel):
        raise ModelFileError(f"{path}: holds a {type(model).__name__} without the columns of a table; mercer fit writes such "
                             "files, others are read by mercer.load in Python")  # fmt: skip
    return model


def check_is_no_pickle(path: str):
    """Refuse pickles by name and by their first bytes: reading one could run anything."""
    place = Path(path)
    if not place.is_file():
        raise ModelFileError(f"{shown(path)}: there is no such file")
    with open(place, "rb") as file:
        start = file.read(2)
    if place.suffix.lower() in (".pkl", ".pickle", ".joblib") or (
        start[:1] == b"\x80" and start[1:] in b"\x02\x03\x04\x05"
    ):
        raise ModelFileError(f"{shown(path)}: a pickle can run any code when it is read, and mercer reads none; load it "
                             "in Python if you trust it, and write it again with mercer.save")  # fmt: skip


def in_order(model: TableModel, sheet: Sheet) -> Sheet:
    """Columns without names, of rows without a target, by the names of those that the model reads."""
    if model.layout == "sparse" or len(sheet.columns) != len(model.names):
        return sheet
    renamed = dict(zip(sheet.columns, model.names, strict=True))
    return Sheet(
        {renamed[name]: column for name, column in sheet.columns.items()},
        mixed={renamed[name]: about for name, about in sheet.mixed.items()},
    )


def raw_columns(model: TableModel, sheet: Sheet) -> tuple[dict[str, np.ndarray], object]:
    """The columns that a model reads, of the kinds that it knows, and the sparse matrix if it reads one."""
    if model.layout == "sparse":
        if sheet.matrix is None:
            raise ModelFileError("the model reads sparse rows (libsvm, or npz with indptr); this file has columns")
        return {}, sheet.matrix
    return {c.name: column_values(sheet, c.name, c.kind) for c in model.codings}, None

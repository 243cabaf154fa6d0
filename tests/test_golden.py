"""Golden files: what earlier versions wrote is read for good, with the same answers. `tools/golden.py` writes them."""

import json
import runpy
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import mercer
from estimator_cases import regression
from mercer import KernelRidge, load, save
from mercer.kernels import RBF
from mercer.persist.container import FORMAT_VERSION
from mercer.persist.values import Reader
from mercer.registry import ESTIMATORS, RECORDS

HOME = Path(__file__).with_name("golden")
TOOL = Path(__file__).parents[1] / "tools" / "golden.py"
#: Records of a user's functions, which files hold by name, and graphs as objects of their own class.
NOT_KEPT = {"ComponentModel", "Draws", "Graph", "UserModel", "_Scored"}


@cache
def table(version):
    return json.loads((HOME / version / "answers.json").read_text())


MODELS = [(folder.name, name) for folder in sorted(HOME.iterdir()) for name in table(folder.name)]


def tolerance(model):
    """Sums are rounded in another order by another BLAS; positions of a latent model are found by a search."""
    single = any(getattr(v, "dtype", None) == np.float32 for v in vars(model).values())
    return 1e-4 if isinstance(model, mercer.GPLVM) else 2e-5 if single else 1e-12


@pytest.mark.parametrize(("version", "name"), MODELS, ids=str)
def test_golden_files_answer_as_they_did(version, name):
    row = table(version)[name]
    model = load(HOME / version / f"{name}.mercer", functions={"square": np.square})
    assert type(model).__name__ == row["class"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, want = tool()["asked"](model, row["rows"]), np.array(row["answers"])
    assert got.shape == want.shape
    if want.dtype.kind in "US":
        np.testing.assert_array_equal(got, want)
    else:
        assert np.abs(got - want).max() <= tolerance(model) * max(1.0, np.abs(want).max())


def test_the_files_are_small_and_complete():
    folders = {int(f.name[1:]) for f in HOME.iterdir()}
    assert folders == set(range(1, FORMAT_VERSION + 1))  # a new format comes with golden files of its own
    for folder in HOME.iterdir():
        assert {f.stem for f in folder.glob("*.mercer")} == set(table(folder.name))
        assert max(f.stat().st_size for f in folder.glob("*.mercer")) < 20_000
        assert sum(f.stat().st_size for f in folder.iterdir()) < 450_000


@cache
def tool():
    before = list(sys.path)
    try:
        return runpy.run_path(str(TOOL))
    finally:
        sys.path[:] = before


def test_the_files_show_all_of_the_format():
    shown = set().union(*(tool()["shows"](f) for f in (HOME / f"v{FORMAT_VERSION}").glob("*.mercer")))
    classes = {s.removeprefix("class ") for s in shown if s.startswith("class ")}
    assert (set(ESTIMATORS) | set(RECORDS)) - classes - NOT_KEPT == set()
    kinds = {name.removeprefix("_read_") for name in dir(Reader) if name.startswith("_read_")}
    assert kinds == {s.removeprefix("is ") for s in shown if s.startswith("is ")}
    assert {"dtype <f8", "dtype <f4", "dtype <i8", "dtype <i4", "dtype |b1", "dtype |u1", "dtype <U"} <= shown


def test_files_are_added_and_never_written_again(tmp_path):
    X, y = regression(12)
    one = KernelRidge(kernel=RBF()).fit(X, y)
    main = tool()["main"]
    main(tmp_path, [("one", one, X[:3].tolist())])
    before = (tmp_path / "one.mercer").read_bytes()
    other = mercer.SVR().fit(X, y)
    with pytest.raises(SystemExit, match="never written again"):
        main(tmp_path, [("one", other, X[:3].tolist())])
    main(tmp_path, [("one", one, X[:3].tolist()), ("two", other, X[:3].tolist()), ("three", one, X[:3].tolist())])
    assert sorted(f.name for f in tmp_path.iterdir()) == ["answers.json", "one.mercer", "two.mercer"]
    assert (tmp_path / "one.mercer").read_bytes() == before
    assert set(json.loads((tmp_path / "answers.json").read_text())) == {"one", "two"}


@pytest.mark.parametrize("order", ["<", ">"])
def test_bytes_do_not_depend_on_the_order_of_bytes(order, tmp_path):
    X, y = regression(12)
    save(KernelRidge(kernel=RBF()).fit(X, y), tmp_path / "own")
    save(KernelRidge(kernel=RBF()).fit(X.astype(f"{order}f8"), y.astype(f"{order}f8")), tmp_path / "other")
    assert (tmp_path / "own").read_bytes() == (tmp_path / "other").read_bytes()
    model = KernelRidge(kernel=RBF()).fit(X, y)
    expected = model.predict(X)
    model.X_fit_, model.dual_coef_ = model.X_fit_.astype(f"{order}f8"), model.dual_coef_.astype(f"{order}f8")
    save(model, tmp_path / "other")
    again = load(tmp_path / "other")
    assert again.X_fit_.dtype.isnative
    np.testing.assert_array_equal(again.predict(X), expected)

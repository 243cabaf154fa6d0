"""Names that packages import when they are first used: the packages offer the same as if they had imported all at once."""

import importlib
import pkgutil
import subprocess
import sys
import types

import pytest

import mercer
from mercer.deferred import deferred_names
from mercer.registry import Table

PACKAGES = ("mercer", "mercer.approx", "mercer.estimators", "mercer.solvers")
STUB = """from {package} import part
from {package}.part import Thing, verb

__all__ = ["Thing", "part", "verb"]
"""


def printed(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one module whose names are deferred."""
    folder = tmp_path / "deferring"
    folder.mkdir()
    (folder / "part.py").write_text("made = []\nclass Thing: pass\ndef verb(): return made\n")
    (folder / "__init__.pyi").write_text(STUB.format(package="deferring"))
    (folder / "__init__.py").write_text(
        "from mercer.deferred import deferred_names\n__getattr__, __dir__, __all__ = deferred_names(__name__)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("deferring")
    for name in [name for name in sys.modules if name.partition(".")[0] == "deferring"]:
        del sys.modules[name]


def test_a_name_is_imported_at_its_first_use_and_kept(package):
    assert "deferring.part" not in sys.modules
    assert {"Thing", "part", "verb"} <= set(dir(package))
    assert "deferring.part" not in sys.modules  # to list is not to use
    thing = package.Thing
    assert sys.modules["deferring.part"].Thing is thing is vars(package)["Thing"]
    assert isinstance(package.part, types.ModuleType)


def test_a_module_is_a_name_too(package):
    assert package.part is sys.modules["deferring.part"]


def test_a_star_brings_all_names(package):
    found = {}
    exec("from deferring import *", found)
    assert {"Thing", "part", "verb"} <= set(found)


def test_names_that_are_not_there(package):
    with pytest.raises(AttributeError, match="module 'deferring' has no attribute 'Thong'") as caught:
        _ = package.Thong
    assert (caught.value.name, caught.value.obj) == ("Thong", package)  # Python's "Did you mean" reads these
    with pytest.raises(ImportError, match="cannot import name 'Thong' from 'deferring'"):
        exec("from deferring import Thong", {})


def test_an_error_while_importing_is_told(package, tmp_path):
    (tmp_path / "deferring" / "part.py").write_text("raise OSError('no such library')\n")
    with pytest.raises(OSError, match="no such library"):
        _ = package.Thing


@pytest.mark.parametrize("name", PACKAGES)
def test_no_deferred_name_is_hidden_by_a_module(name):
    """Importing a module sets its name in the package: a function of that name would be gone, unless it was there before."""
    package = importlib.import_module(name)
    modules = {m.name for m in pkgutil.iter_modules(package.__path__)}
    hidden = {n for n in package.__all__ if n in modules and not isinstance(getattr(package, n), types.ModuleType)}
    assert hidden == ({"gram"} if name == "mercer" else set())
    assert callable(mercer.gram)


@pytest.mark.parametrize("name", PACKAGES)
def test_names_are_those_of_their_modules(name):
    package = importlib.import_module(name)
    getattr_, _, names = deferred_names(name)
    assert names == package.__all__
    for n in names:
        assert getattr_(n) is getattr(package, n)


def test_importing_mercer_leaves_estimators_alone():
    """They and what they need of SciPy and scikit-learn take most of a second."""
    heavy = (
        "mercer.estimators",
        "mercer.solvers",
        "mercer.approx",
        "sklearn.metrics",
        "sklearn.cluster",
        "scipy.signal",
    )
    program = "import sys, mercer, mercer.kernels; print(*[m for m in sys.modules if m.startswith({0!r})])"
    assert printed(program.format(heavy)) == []
    loaded = printed("import sys; from mercer import KernelRidge; print(*sys.modules)")
    assert "mercer.estimators.ridge" in loaded
    assert not {"mercer.estimators.svm", "mercer.estimators.gplvm", "sklearn.cluster", "scipy.signal"} & set(loaded)


def test_tables_find_what_modules_register():
    """In a process where nothing was imported before: by name, and as a whole."""
    program = """
import importlib, pkgutil
import mercer
from mercer.registry import ESTIMATORS, KERNELS, RECORDS
assert "mercer.estimators.svm" not in __import__("sys").modules
print(ESTIMATORS["SVC"].__name__, ESTIMATORS.get("Nothing"))
filled = [set(table) for table in (ESTIMATORS, KERNELS, RECORDS)]
for m in pkgutil.walk_packages(mercer.__path__, "mercer."):
    if not m.name.rsplit(".", 1)[-1].startswith("_"):
        importlib.import_module(m.name)
print(*[set(table.classes) == names for table, names in zip((ESTIMATORS, KERNELS, RECORDS), filled)])
"""
    assert printed(program) == ["SVC", "None", "True", "True", "True"]


def test_a_table_imports_only_what_it_is_asked_for(package):
    table = Table("deferring")
    table.classes["int"] = int
    assert table["int"] is int
    assert table.has(int)
    assert not table.has(bool)
    assert "deferring.part" not in sys.modules
    assert "Thing" not in table  # imported, but nothing registered it
    assert "deferring.part" in sys.modules
    assert dict(table) == {"int": int}
    assert len(table) == 1


def test_a_model_is_loaded_where_nothing_was_imported(tmp_path):
    path = tmp_path / "model.mercer"
    mercer.save(mercer.SVC(kernel="rbf").fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]), path)
    program = f"import sys, mercer; print(mercer.load({str(path)!r}).predict([[3.0]])[0]); print(*sys.modules)"
    answer, *loaded = printed(program)
    assert answer == "1"
    assert "mercer.estimators.svm" in loaded
    assert "mercer.estimators.gplvm" not in loaded

"""What the library holds. Registering a class gives it the contract tests, the documentation and the files for free."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = [
    "ENGINES",
    "ESTIMATORS",
    "KERNELS",
    "RECORDS",
    "Table",
    "is_estimator",
    "register",
    "register_engine",
    "register_estimator",
    "register_record",
]


class Table(Mapping):
    """Classes by name. A name that is not here yet is looked for in the packages that fill the table, and reading it as a whole
    imports them whole: `import mercer` need not."""

    def __init__(self, *packages):
        self.packages = packages
        self.classes: dict[str, Any] = {}

    def __getitem__(self, name):
        if name not in self.classes:
            self._look_for(name)
        return self.classes[name]

    def __iter__(self):
        self._fill()
        return iter(self.classes)

    def __len__(self):
        self._fill()
        return len(self.classes)

    def has(self, cls) -> bool:
        """Whether this very class is here. It is imported already, so nothing needs to be."""
        return self.classes.get(cls.__name__) is cls

    def _look_for(self, name):
        for package in map(import_module, self.packages):
            if name in package.__all__:
                getattr(package, name)  # imports the module, which registers the class
                return
        self._fill()

    def _fill(self):
        for package in map(import_module, self.packages):
            for name in package.__all__:
                getattr(package, name)


KERNELS = Table("mercer.kernels")
ESTIMATORS = Table("mercer.estimators")
ENGINES: dict[str, Callable] = {}
# Parts of kernels and fitted estimators that files hold.
RECORDS = Table("mercer.kernels", "mercer.approx", "mercer.solvers", "mercer.estimators")


def _register_into(table):
    def register_class(cls):
        if table.classes.get(cls.__name__, cls).__qualname__ != cls.__qualname__:
            raise ValueError(f"{cls.__name__} is registered already")
        table.classes[cls.__name__] = cls
        return cls

    return register_class


register = _register_into(KERNELS)
register_estimator = _register_into(ESTIMATORS)
register_record = _register_into(RECORDS)


def is_estimator(value) -> bool:
    """Whether a value is of an estimator's class, or of one derived from it."""
    return any(map(ESTIMATORS.has, type(value).__mro__))


def register_engine(name):
    """Register an engine class under the word a user writes in `engine=`."""

    def add(cls):
        ENGINES[name] = cls
        return cls

    return add

"""What the library holds. Registering a class gives it the contract tests, the documentation and the files for free."""

from collections.abc import Callable

__all__ = [
    "ENGINES",
    "ESTIMATORS",
    "KERNELS",
    "RECORDS",
    "register",
    "register_engine",
    "register_estimator",
    "register_record",
]

KERNELS: dict[str, type] = {}
ESTIMATORS: dict[str, type] = {}
ENGINES: dict[str, Callable] = {}
RECORDS: dict[str, type] = {}  # parts of kernels and fitted estimators that files hold


def _register_into(table):
    def register_class(cls):
        if table.get(cls.__name__, cls).__qualname__ != cls.__qualname__:
            raise ValueError(f"{cls.__name__} is registered already")
        table[cls.__name__] = cls
        return cls

    return register_class


register = _register_into(KERNELS)
register_estimator = _register_into(ESTIMATORS)
register_record = _register_into(RECORDS)


def register_engine(name):
    """Register an engine class under the word a user writes in `engine=`."""

    def add(cls):
        ENGINES[name] = cls
        return cls

    return add

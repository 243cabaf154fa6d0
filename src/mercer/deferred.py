"""Names of a package that are imported when they are first used, so that `import mercer` costs little (PEP 562).

The package's stub `__init__.pyi` says where each name is from. Type checkers and editors read the same lines.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path

__all__ = ["deferred_names"]


def deferred_names(package: str):
    """`__getattr__`, `__dir__` and `__all__` of a package, from its stub."""
    homes, names = _read(Path(str(sys.modules[package].__file__)).with_suffix(".pyi"))

    def first_use(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        home = homes[name]
        value = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return first_use, lambda: sorted({*vars(sys.modules[package]), *names}), names


def _read(stub):
    """{name: the module that it is imported from}, and the list `__all__`, of a stub."""
    homes, names = {}, []
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            homes |= {alias.name: node.module for alias in node.names}
        elif isinstance(node, ast.Assign):
            names = ast.literal_eval(node.value)
    return homes, names

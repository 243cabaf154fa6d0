"""What a bug report needs to know about an installation."""

import os
import platform
from importlib import metadata

from mercer._version import __version__

_REQUIRED = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "threadpoolctl", "joblib")
_OPTIONAL = ("torch", "triton", "dask", "distributed", "matplotlib", "networkx", "onnx", "pandas", "polars", "pyarrow",
             "rich")  # fmt: skip
_POOL_FIELDS = ("user_api", "internal_api", "version", "num_threads", "threading_layer", "architecture")


def show_versions() -> None:
    """Print the versions of Python, mercer and its dependencies, and the thread pools of the linear algebra libraries.

    Paste it into a bug report: host name, user name and file paths are left out. No optional package is imported.

    Examples
    --------
    >>> import mercer
    >>> mercer.show_versions()  # doctest: +ELLIPSIS
    System
      python: ...
    """
    _print_section("System", _system())
    _print_section("Packages", {name: _installed(name) for name in _REQUIRED})
    _print_section("Optional packages", {name: _installed(name) for name in _OPTIONAL})
    print("Thread pools")
    for pool in _thread_pools():
        print("  " + ", ".join(f"{field} {value}" for field, value in pool.items()))


def installation() -> dict[str, str]:
    """The same facts, flat: system, packages that are installed, thread pools."""
    packages = {name: _installed(name) for name in (*_REQUIRED, *_OPTIONAL)}
    pools = [", ".join(f"{field} {value}" for field, value in pool.items()) for pool in _thread_pools()]
    there = {name: version for name, version in packages.items() if version != "not installed"}
    return {**_system(), **there, **{f"thread pool {i}": pool for i, pool in enumerate(pools, 1)}}


def _system() -> dict[str, str]:
    return {
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": str(os.cpu_count()),
        "mercer": __version__,
    }


def _installed(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _thread_pools() -> list[dict[str, object]]:
    import scipy.linalg  # noqa: F401  (a library that is not loaded is not listed; this loads NumPy's and SciPy's)
    from threadpoolctl import threadpool_info

    return [{field: pool[field] for field in _POOL_FIELDS if pool.get(field) is not None} for pool in threadpool_info()]


def _print_section(title: str, entries: dict[str, str]) -> None:
    print(title)
    for name, value in entries.items():
        print(f"  {name}: {value}")

"""show_versions: complete enough for a bug report, and free of names and paths."""

import os
import platform
import subprocess
import sys
from importlib import metadata

import pytest

from mercer._version import __version__
from mercer.versions import show_versions


@pytest.fixture
def report(capsys):
    assert show_versions() is None
    return capsys.readouterr().out


def test_names_python_mercer_and_every_hard_dependency(report):
    lines = [line.strip() for line in report.splitlines()]
    assert any(line.startswith(f"python: {platform.python_version()}") for line in lines)
    assert f"mercer: {__version__}" in lines
    for name in ("numpy", "scipy", "scikit-learn", "numba", "threadpoolctl"):
        assert f"{name}: {metadata.version(name)}" in lines


def test_lists_the_thread_pool_of_the_linear_algebra(report):
    assert "user_api blas" in report.partition("Thread pools")[2]


def test_tells_no_host_or_path(report):
    assert os.sep not in report
    assert platform.node() not in report.split()


def test_imports_no_optional_package():
    script = (
        "import sys; from mercer.versions import show_versions; show_versions(); "
        "sys.exit(', '.join({'numba', 'torch', 'dask', 'matplotlib'} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version_is_the_installed_one():
    assert metadata.version("mercer") == __version__

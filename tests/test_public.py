"""What users import: every name in `__all__` exists, lists are sorted, and the root offers what the documentation names."""

import importlib
import pkgutil

import pytest

import mercer

MODULES = sorted(m.name for m in pkgutil.walk_packages(mercer.__path__, "mercer.") if not m.name.endswith("_compiled"))


@pytest.mark.parametrize("name", ["mercer", *MODULES])
def test_all_names_exist_once(name):
    if "._triton_" in name:
        pytest.importorskip("triton", reason="Triton is not installed")
    module = importlib.import_module(name)
    names = getattr(module, "__all__", [])
    assert len(set(names)) == len(names)
    assert [n for n in names if not hasattr(module, n)] == []


@pytest.mark.parametrize(
    "name", ["mercer", "mercer.kernels", "mercer.gram", "mercer.linalg", "mercer.diagnostics", "mercer.errors"]
)
def test_public_lists_are_sorted_as_the_linter_sorts(name):
    names = importlib.import_module(name).__all__
    constants = [n for n in names if n.isupper()]
    classes = [n for n in names if n[0].isupper() and not n.isupper()]
    rest = [n for n in names if not n[0].isupper()]
    assert names == sorted(constants) + sorted(classes) + sorted(rest)


def test_the_root_offers_the_main_verbs():
    wanted = {"KernelRidge", "KernelRidgeCV", "Engine", "gram", "kernels", "check_kernel", "fourier_check", "repair",
              "mercer_map", "mercer_expansion", "separable", "show_versions", "__version__"}  # fmt: skip
    assert wanted <= set(mercer.__all__)

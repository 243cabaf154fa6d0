"""What is said twice about the package must agree."""

import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from mercer._version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lower_bounds(requirements):
    pairs = (re.match(r"([\w-]+)>=([\w.]+)", requirement) for requirement in requirements)
    return {match[1]: match[2] for match in pairs}


def test_lowest_lane_installs_the_lower_bounds():
    lines = (ROOT / "requirements" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    bounds = lower_bounds(PROJECT["dependencies"])
    optional = lower_bounds(PROJECT["optional-dependencies"]["test"] + PROJECT["optional-dependencies"]["plot"])
    assert {name: pins.get(name) for name in bounds} == bounds
    assert {name: pins[name] for name in optional if name in pins}.items() <= optional.items()


def test_citation_has_the_version():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_relative_links_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in target
    ]
    assert links
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\n")
    return tmp_path


def cache_folder(tree, *options):
    command = [sys.executable, ROOT / "tools" / "numba_cache.py", tree, *options]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def test_cache_of_compiled_code_follows_the_sources(tree):
    first = cache_folder(tree)
    assert first == cache_folder(tree)
    (tree / "src" / "a.py").write_text("x = 2\n")
    changed = cache_folder(tree)
    (tree / "src" / "a.py").rename(tree / "src" / "b.py")
    assert len({first, changed, cache_folder(tree)}) == 3


def test_prune_removes_old_caches_of_other_sources_only(tree):
    current = cache_folder(tree)
    folders = {
        "current": current,
        "lane": current.with_name(current.name + "-lowest"),
        "recent": current.with_name("numba-0123"),
        "old": current.with_name("numba-4567"),
        "other": current.with_name("bounds"),
    }
    long_ago = time.time() - 1e6
    for name, folder in folders.items():
        folder.mkdir(parents=True)
        if name != "recent":
            os.utime(folder, (long_ago, long_ago))
    cache_folder(tree, "--prune")
    assert [name for name, folder in folders.items() if not folder.exists()] == ["old"]

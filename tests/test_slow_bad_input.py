"""docs/bad-input.md is what the tests say; `make docs` writes it anew."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_the_page_of_bad_input_is_what_the_tests_say():
    command = [sys.executable, ROOT / "tools" / "bad_input_table.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-500:]

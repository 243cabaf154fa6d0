"""The benchmarks run, at sizes where times mean nothing: no test asserts a speed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = [
    "dask_workers",
    "density",
    "first_call",
    "gaussian_process",
    "gpu_ceilings",
    "gpu_products",
    "gpu_composite",
    "gpu_tiles",
    "gpu_landmarks",
    "gpu_ridge",
    "gpu_svm",
    "gpu_evidence",
    "gpu_density",
    "gram_composite",
    "gram_rbf",
    "graphs",
    "landmarks",
    "landmark_growth",
    "local_regression",
    "low_rank",
    "medoids",
    "new_expression",
    "kernel_pca",
    "ridge_fit",
    "ridge_path",
    "rvm",
    "strings",
    "svm",
    "svm_digits",
]

pytestmark = pytest.mark.timeout(240)  # fresh processes, which may compile


def bench(*arguments):
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "error", "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)


def test_names_are_listed():
    done = bench("benchmarks", "--list")
    assert [line.split()[0] for line in done.stdout.splitlines()] == NAMES
    unknown = bench("benchmarks", "nothing")
    assert unknown.returncode == 2
    assert all(name in unknown.stderr for name in NAMES)


#: A cluster takes half a minute to start twice.
SMOKE = [pytest.param(n, marks=pytest.mark.slow) if n == "dask_workers" else n for n in NAMES]


@pytest.mark.parametrize("name", SMOKE)
def test_smoke(name, tmp_path):
    done = bench("benchmarks", name, "--small", "--results", str(tmp_path))
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / f"{name}.json").read_text())
    assert record["small"]
    assert {"processor", "cores", "blas", "versions", "commit", "load"} <= set(record["environment"])
    assert str(ROOT) not in json.dumps(record)
    for result in record["results"]:
        assert result["sizes"]
        assert result["case"] in done.stdout
        for row in result["rows"]:
            check_row(row, raced="error" in result["rows"][0])


def check_row(row, raced):
    if "skipped" in row:
        assert "is not installed" in row["skipped"] or row["skipped"] == "no GPU here"
        return
    assert row["rounds"] >= 1
    assert row["fastest"] <= row["seconds"] <= row["slowest"]
    if raced:
        assert row["ratio"] > 0
        assert row["error"] < 1
        assert row["peak_bytes"] is None or row["peak_bytes"] >= 0


def test_contenders_take_turns_after_an_untimed_call(harness):
    order, results = [], []
    contenders = [
        harness.Contender(harness.OURS, lambda: order.append("a")),
        harness.Contender("peer", lambda: order.append("b")),
        harness.Contender("slow", lambda: order.append("c"), rounds=2),
        harness.Contender("absent", lambda: order.append("d"), needs="no_such_module"),
    ]
    result = harness.compare(
        "case", contenders, error=lambda r: results.append(r) or 0.0, error_name="", sizes={"n": 1}
    )
    assert "".join(order) == "aabb" + "abcabc" + "ababab"  # untimed: accuracy and memory
    assert [row.get("rounds") for row in result["rows"]] == [5, 5, 2, None]
    assert result["rows"][3]["skipped"] == "no_such_module is not installed"


def test_peak_memory_sees_what_a_call_held(harness):
    import numpy as np

    with harness.PeakMemory() as peak:
        held = np.ones(8_000_000)  # so many that they never come from memory that the process kept
        time.sleep(0.5)  # many samples, also on a busy machine
        del held
    if peak.bytes is None:
        pytest.skip("no RssAnon in /proc")
    assert 50e6 < peak.bytes < 120e6


def test_report_fills_the_page_and_refuses_small_runs(harness, tmp_path):
    from benchmarks import report

    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.fill(page, tmp_path)
    assert "No results yet" in page.read_text()
    row = harness.Contender(harness.OURS, int)
    result = harness.compare("case", [row], error=lambda _: 1e-9, error_name="error", sizes={})
    shown = harness.figures("figures", {"import": [0.2, 0.1, 0.3]}, sizes={}, aims={"import": 0.3})
    record = {
        "name": "x",
        "question": "how fast?",
        "small": False,
        "environment": harness.environment(),
        "results": [result, shown],
    }
    (tmp_path / "x.json").write_text(json.dumps(record))
    report.fill(page, tmp_path)
    text = page.read_text()
    assert "| import | 0.2 | 0.1 | 0.3 | 0.3 | 3 |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    (tmp_path / "x.json").write_text(json.dumps({**record, "small": True}))
    with pytest.raises(ValueError, match="--small"):
        report.fill(page, tmp_path)


@pytest.fixture
def harness(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import harness

    return harness
